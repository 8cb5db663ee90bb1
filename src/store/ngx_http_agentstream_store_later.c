
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Answers that are given later.  The store of one machine never needs them.
 * With NGX_HTTP_AGENTSTREAM_LATER it gives all its answers from a posted
 * event, like a store that has to ask another machine, so that the tests prove
 * that callers can wait, and can cancel in the meantime.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_store_int.h"


#if (NGX_HTTP_AGENTSTREAM_LATER)

static void ngx_http_agentstream_store_later_handler(ngx_event_t *ev);


void
ngx_http_agentstream_store_init_later(ngx_http_agentstream_zone_t *zone)
{
    ngx_queue_init(&zone->later);

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
    ngx_post_event(&zone->answer, &ngx_posted_events);

    return NGX_AGAIN;
}


static void
ngx_http_agentstream_store_later_handler(ngx_event_t *ev)
{
    ngx_queue_t                   *q;
    ngx_http_agentstream_zone_t   *zone;
    ngx_http_agentstream_later_t  *later;

    zone = ev->data;

    while (!ngx_queue_empty(&zone->later)) {
        q = ngx_queue_head(&zone->later);
        ngx_queue_remove(q);

        later = ngx_queue_data(q, ngx_http_agentstream_later_t, queue);
        later->zone = NULL;
        later->handler(later->data, later->rc);
    }
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

    later->zone = NULL;
    ngx_queue_remove(&later->queue);

    if (later->rc != NGX_OK) {
        return;
    }

    ngx_http_agentstream_zone_lock(zone);

    switch (later->verb) {

    case NGX_HTTP_AGENTSTREAM_LATER_CREATE:
        ngx_http_agentstream_zone_finish_locked(zone, later->node);
        ngx_http_agentstream_zone_free_locked(zone, later->node);
        break;

    case NGX_HTTP_AGENTSTREAM_LATER_CLAIM:

        /* make it an orphan again, for any worker: no worker has the
           generation 0 */

        later->node->owner.slot = 0;
        later->node->owner.generation = 0;
        later->node->pinned = 0;
        ngx_http_agentstream_zone_place_locked(zone, later->node);
        break;

    default: /* a question that was asked, and a turn that has ended, stay
                so */
        break;
    }

    ngx_http_agentstream_zone_unlock(zone);
}
