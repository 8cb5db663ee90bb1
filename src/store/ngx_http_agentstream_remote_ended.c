
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The turns of this worker whose end Redis has acknowledged.  It may forget
 * that: a replica that lags is promoted, or the last second is not on its disk.
 * Then it would take the turn for running, with an owner that lives, and no
 * other turn could begin in the session.  So the last ends are remembered, and
 * told again to a Redis that was away.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* how long, which is how far a replica may lag behind, and how many */
#define NGX_HTTP_AGENTSTREAM_ENDED_TIME  10000
#define NGX_HTTP_AGENTSTREAM_ENDED_MAX   1000


static void ngx_http_agentstream_remote_free_ended(
    ngx_http_agentstream_remote_t *remote, ngx_msec_t age, ngx_uint_t max);


void
ngx_http_agentstream_remote_keep_ended(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_http_agentstream_remote_t  *remote;

    remote = rt->remote;

    rt->again = 1;
    rt->touched = ngx_current_msec;

    ngx_queue_remove(&rt->queue);
    ngx_queue_insert_tail(&remote->ended, &rt->queue);
    remote->nended++;

    ngx_http_agentstream_remote_free_ended(remote,
                                           NGX_HTTP_AGENTSTREAM_ENDED_TIME,
                                           NGX_HTTP_AGENTSTREAM_ENDED_MAX);
}


void
ngx_http_agentstream_remote_tick_ended(ngx_http_agentstream_remote_t *remote)
{
    ngx_http_agentstream_remote_free_ended(remote,
                                           NGX_HTTP_AGENTSTREAM_ENDED_TIME,
                                           NGX_HTTP_AGENTSTREAM_ENDED_MAX);
}


void
ngx_http_agentstream_remote_close_ended(ngx_http_agentstream_remote_t *remote)
{
    ngx_http_agentstream_remote_free_ended(remote, 0, 0);
}


/* Redis is back: they are turns again, whose end is to be stored */

void
ngx_http_agentstream_remote_resume_ended(
    ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                         *q;
    ngx_http_agentstream_remote_turn_t  *rt;

    while (!ngx_queue_empty(&remote->ended)) {
        q = ngx_queue_head(&remote->ended);
        rt = ngx_queue_data(q, ngx_http_agentstream_remote_turn_t, queue);

        rt->done = 0;
        rt->end_sent = 0;

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&remote->turns, q);
        remote->nended--;
    }
}


/* the oldest ones come first */

static void
ngx_http_agentstream_remote_free_ended(ngx_http_agentstream_remote_t *remote,
    ngx_msec_t age, ngx_uint_t max)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    while (!ngx_queue_empty(&remote->ended)) {
        rt = ngx_queue_data(ngx_queue_head(&remote->ended),
                            ngx_http_agentstream_remote_turn_t, queue);

        if (remote->nended <= max && ngx_current_msec - rt->touched < age) {
            return;
        }

        remote->nended--;
        ngx_http_agentstream_remote_free_turn(rt);
    }
}

#endif
