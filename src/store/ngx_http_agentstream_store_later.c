
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Answers that are given later.  The store of one machine never needs them.
 * With NGX_HTTP_AGENTSTREAM_LATER it gives all its answers after a while, like
 * a store that has to ask another machine, so that the tests prove that
 * callers can wait, and can cancel in the meantime.
 *
 * In that build the environment variable AGENTSTREAM_FENCE=n makes each nth
 * answer to the owner of a turn NGX_ABORT: the turn is an orphan then, as if
 * its new owner had died at once.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_store_int.h"


static void ngx_http_agentstream_store_leave_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);


#if (NGX_HTTP_AGENTSTREAM_LATER)

/* how long an answer takes, so that much can happen before it */
#define NGX_HTTP_AGENTSTREAM_LATER_TIME  3


static void ngx_http_agentstream_store_later_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_agentstream_store_answer(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_later_t *later);
static ngx_uint_t ngx_http_agentstream_store_fenced(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_later_t *later);


/* in the master process, which still has the environment */

void
ngx_http_agentstream_store_open_later(ngx_http_agentstream_zone_t *zone)
{
    char  *fence;

    fence = getenv("AGENTSTREAM_FENCE");

    zone->fence = fence ? atoi(fence) : 0;
}


void
ngx_http_agentstream_store_init_later(ngx_http_agentstream_zone_t *zone)
{
    ngx_queue_init(&zone->later);

    zone->held = 1;
    zone->answers = 0;

    zone->answer.handler = ngx_http_agentstream_store_later_handler;
    zone->answer.data = zone;
    zone->answer.log = ngx_cycle->log;
}


ngx_int_t
ngx_http_agentstream_store_later(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_later_t *later, ngx_int_t rc,
    ngx_http_agentstream_node_t *node, ngx_uint_t verb)
{
    if (later == NULL) {
        return rc;
    }

    later->rc = rc;
    later->zone = zone;
    later->node = node;
    later->verb = verb;

    ngx_queue_insert_tail(&zone->later, &later->queue);

    if (!zone->answer.timer_set) {
        ngx_add_timer(&zone->answer, NGX_HTTP_AGENTSTREAM_LATER_TIME);
    }

    return NGX_AGAIN;
}


/* whoever is answered may ask again, and others may be cancelled */

static void
ngx_http_agentstream_store_later_handler(ngx_event_t *ev)
{
    ngx_int_t                      rc;
    ngx_queue_t                   *q, due;
    ngx_http_agentstream_zone_t   *zone;
    ngx_http_agentstream_later_t  *later;

    zone = ev->data;

    ngx_queue_init(&due);
    ngx_queue_add(&due, &zone->later);
    ngx_queue_init(&zone->later);

    while (!ngx_queue_empty(&due)) {
        q = ngx_queue_head(&due);
        ngx_queue_remove(q);

        later = ngx_queue_data(q, ngx_http_agentstream_later_t, queue);
        rc = ngx_http_agentstream_store_answer(zone, later);

        later->zone = NULL;
        later->handler(later->data, rc);
    }
}


static ngx_int_t
ngx_http_agentstream_store_answer(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_later_t *later)
{
    if (ngx_http_agentstream_store_fenced(zone, later)) {
        return NGX_ABORT;
    }

    switch (later->verb) {

    case NGX_HTTP_AGENTSTREAM_LATER_SHOW:
        ngx_http_agentstream_store_shown(zone, later->node);
        break;

    case NGX_HTTP_AGENTSTREAM_LATER_FINISH:
        ngx_http_agentstream_store_finished(zone, later->node, later->end);
        break;

    default: /* it is done */
        break;
    }

    return later->rc;
}


static ngx_uint_t
ngx_http_agentstream_store_fenced(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_later_t *later)
{
    if (zone->fence == 0
        || later->verb < NGX_HTTP_AGENTSTREAM_LATER_PROMPT
        || later->rc != NGX_OK
        || ++zone->answers % zone->fence != 0)
    {
        return 0;
    }

    ngx_http_agentstream_zone_lock(zone);

    if (later->end) {
        ngx_memcpy(later->end->watchers, later->node->watchers,
                   sizeof(later->node->watchers));
    }

    ngx_http_agentstream_store_leave_locked(zone, later->node);

    ngx_http_agentstream_zone_unlock(zone);

    return 1;
}

#endif


void
ngx_http_agentstream_store_cancel(ngx_http_agentstream_later_t *later)
{
    ngx_http_agentstream_zone_t  *zone;

    zone = later->zone;

    if (zone == NULL) {
        return;
    }

    if (zone->remote) {
        zone->remote->cancel(later);
        return;
    }

    later->zone = NULL;
    ngx_queue_remove(&later->queue);

    if (later->rc != NGX_OK) {
        return;
    }

    if (later->verb == NGX_HTTP_AGENTSTREAM_LATER_FINISH) {
        ngx_http_agentstream_store_finished(zone, later->node, later->end);
        return;
    }

    ngx_http_agentstream_zone_lock(zone);

    switch (later->verb) {

    case NGX_HTTP_AGENTSTREAM_LATER_CREATE:
        ngx_http_agentstream_zone_finish_locked(zone, later->node);
        ngx_http_agentstream_zone_free_locked(zone, later->node);
        break;

    case NGX_HTTP_AGENTSTREAM_LATER_CLAIM:

        ngx_http_agentstream_store_leave_locked(zone, later->node);
        break;

    default: /* what was asked or is to be sent stays so; nothing is shown
                yet */
        break;
    }

    ngx_http_agentstream_zone_unlock(zone);
}


/* makes it an orphan, for any worker: no worker has the generation 0 */

static void
ngx_http_agentstream_store_leave_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    node->owner.slot = 0;
    node->owner.generation = 0;
    node->pinned = 0;

    ngx_http_agentstream_zone_place_locked(zone, node);
}
