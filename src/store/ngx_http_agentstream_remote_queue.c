
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Places in the queues of sessions, as all machines see them.  A place that
 * was left must disappear, or nobody else would begin: what Redis was not told
 * is told again.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* a place that was left, on the heap until Redis knows it */

typedef struct {
    ngx_queue_t                          queue;
    ngx_str_t                            base;     /* of the keys */
    uint64_t                             number;
    ngx_uint_t                           sent;
} ngx_http_agentstream_remote_left_t;


static ngx_int_t ngx_http_agentstream_remote_send_queue(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *base, uint64_t number,
    const char *what, ngx_http_agentstream_redis_pt handler, void *data);
static void ngx_http_agentstream_remote_leave(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *base, uint64_t number);
static void ngx_http_agentstream_remote_left_done(void *data,
    redisReply *reply);


void
ngx_http_agentstream_remote_queue(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t *ticket, const char *what)
{
    ngx_str_t                       base;
    ngx_http_agentstream_remote_t  *remote;

    remote = ngx_http_agentstream_remote_of(zone);

    if (ngx_http_agentstream_remote_base(&base, key, remote->log) != NGX_OK) {
        return;
    }

    if (what[0] == 'o') {
        ngx_http_agentstream_remote_leave(remote, &base, ticket->number);
        return;
    }

    ticket->number = ++remote->tickets;

    (void) ngx_http_agentstream_remote_send_queue(remote, &base,
                                           ticket->number, what,
                                           ngx_http_agentstream_remote_ignore,
                                           NULL);
    ngx_free(base.data);
}


u_char *
ngx_http_agentstream_remote_ticket(ngx_http_agentstream_remote_t *remote,
    u_char *p, uint64_t number)
{
    return ngx_sprintf(p, "%V %uL", &remote->owner, number);
}


static ngx_int_t
ngx_http_agentstream_remote_send_queue(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *base, uint64_t number, const char *what,
    ngx_http_agentstream_redis_pt handler, void *data)
{
    u_char     name[128], ttl[NGX_INT_T_LEN];
    ngx_str_t  argv[4];

    argv[0] = *base;
    argv[1].data = name;
    argv[1].len = ngx_http_agentstream_remote_ticket(remote, name, number)
                  - name;
    argv[2].data = (u_char *) what;
    argv[2].len = ngx_strlen(what);
    argv[3].data = ttl;
    argv[3].len = ngx_sprintf(ttl, "%d", NGX_HTTP_AGENTSTREAM_RUNNING_TTL)
                  - ttl;

    return ngx_http_agentstream_remote_eval(remote,
                                        NGX_HTTP_AGENTSTREAM_SCRIPT_QUEUE, 4,
                                        argv, handler, data);
}


/* takes the base */

static void
ngx_http_agentstream_remote_leave(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *base, uint64_t number)
{
    ngx_http_agentstream_remote_left_t  *left;

    left = number ? ngx_calloc(sizeof(ngx_http_agentstream_remote_left_t),
                               remote->log)
                  : NULL;

    if (left == NULL) {
        ngx_free(base->data);
        return;
    }

    left->base = *base;
    left->number = number;

    ngx_queue_insert_tail(&remote->left, &left->queue);

    ngx_http_agentstream_remote_leave_again(remote);
}


void
ngx_http_agentstream_remote_leave_again(ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                         *q;
    ngx_http_agentstream_remote_left_t  *left;

    for (q = ngx_queue_head(&remote->left);
         remote->up && q != ngx_queue_sentinel(&remote->left);
         q = ngx_queue_next(q))
    {
        left = ngx_queue_data(q, ngx_http_agentstream_remote_left_t, queue);

        if (!left->sent
            && ngx_http_agentstream_remote_send_queue(remote, &left->base,
                                         left->number, "out",
                                         ngx_http_agentstream_remote_left_done,
                                         left)
               == NGX_OK)
        {
            left->sent = 1;
        }
    }
}


static void
ngx_http_agentstream_remote_left_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_left_t *left = data;

    left->sent = 0;

    if (reply && !ngx_http_agentstream_redis_error(reply, NULL)) {
        ngx_queue_remove(&left->queue);
        ngx_free(left->base.data);
        ngx_free(left);
    }
}


void
ngx_http_agentstream_remote_close_queues(ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                         *q;
    ngx_http_agentstream_remote_left_t  *left;

    while (!ngx_queue_empty(&remote->left)) {
        q = ngx_queue_head(&remote->left);
        ngx_queue_remove(q);

        left = ngx_queue_data(q, ngx_http_agentstream_remote_left_t, queue);

        ngx_free(left->base.data);
        ngx_free(left);
    }
}

#endif
