
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 1: one turn at a time.  Who has started a turn before, and who waits
 * for one in which order, across all workers; a ticket whose worker is dead
 * counts no more.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone_int.h"


static ngx_http_agentstream_node_t *ngx_http_agentstream_zone_started_locked(
    ngx_http_agentstream_session_t *session, ngx_str_t *request_id);
static ngx_uint_t ngx_http_agentstream_zone_behind_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_session_t *session,
    ngx_http_agentstream_ticket_t *ticket);


/* the turn that the request id has started in the session, or NULL */

static ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_started_locked(
    ngx_http_agentstream_session_t *session, ngx_str_t *request_id)
{
    ngx_queue_t                  *q;
    ngx_http_agentstream_node_t  *node;

    if (request_id->len == 0) {
        return NULL;
    }

    for (q = ngx_queue_head(&session->turns);
         q != ngx_queue_sentinel(&session->turns);
         q = ngx_queue_next(q))
    {
        node = ngx_queue_data(q, ngx_http_agentstream_node_t, sibling);

        if (!node->refused
            && node->request_id_len == request_id->len
            && ngx_memcmp(node->request_id, request_id->data, request_id->len)
               == 0)
        {
            return node;
        }
    }

    return NULL;
}


/* whether somebody waits in the queue before the ticket, or without one */

static ngx_uint_t
ngx_http_agentstream_zone_behind_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_session_t *session,
    ngx_http_agentstream_ticket_t *ticket)
{
    ngx_queue_t                    *q;
    ngx_http_agentstream_ticket_t  *first;

    while (!ngx_queue_empty(&session->tickets)) {
        q = ngx_queue_head(&session->tickets);
        first = ngx_queue_data(q, ngx_http_agentstream_ticket_t, queue);

        if (!ngx_http_agentstream_zone_dead_locked(zone, first->owner,
                                                   first->generation))
        {
            return first != ticket;
        }

        ngx_queue_remove(q);
        ngx_slab_free_locked(zone->shpool, first);
    }

    return 0;
}


ngx_int_t
ngx_http_agentstream_zone_taken_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *request_id,
    ngx_http_agentstream_ticket_t *ticket, ngx_http_agentstream_node_t **node)
{
    ngx_http_agentstream_session_t  *session;

    *node = NULL;

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    if (session == NULL) {
        return NGX_OK;
    }

    *node = ngx_http_agentstream_zone_started_locked(session, request_id);

    if (*node) {
        return NGX_DECLINED;
    }

    *node = session->running;

    return (*node
            || ngx_http_agentstream_zone_behind_locked(zone, session, ticket))
           ? NGX_BUSY : NGX_OK;
}


ngx_int_t
ngx_http_agentstream_zone_queue_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t **ticket)
{
    ngx_http_agentstream_ticket_t   *tk;
    ngx_http_agentstream_session_t  *session;

    tk = ngx_http_agentstream_zone_alloc_locked(zone,
                                       sizeof(ngx_http_agentstream_ticket_t));
    if (tk == NULL) {
        return NGX_ERROR;
    }

    /* its turn may have ended meanwhile, and been evicted for the ticket */

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    if (session == NULL) {
        ngx_slab_free_locked(zone->shpool, tk);
        return NGX_DECLINED;
    }

    tk->session = session;
    tk->owner = zone->slot;
    tk->generation = zone->generation;

    ngx_queue_insert_tail(&session->tickets, &tk->queue);

    *ticket = tk;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_zone_hold_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t **ticket)
{
    ngx_http_agentstream_ticket_t   *tk;
    ngx_http_agentstream_session_t  *session;

    if (ngx_http_agentstream_zone_running_locked(zone, key)) {
        return NGX_BUSY;
    }

    tk = ngx_http_agentstream_zone_alloc_locked(zone,
                                       sizeof(ngx_http_agentstream_ticket_t));
    if (tk == NULL) {
        return NGX_ERROR;
    }

    session = ngx_http_agentstream_zone_open_session_locked(zone, key);

    if (session == NULL) {
        ngx_slab_free_locked(zone->shpool, tk);
        return NGX_ERROR;
    }

    tk->session = session;
    tk->owner = zone->slot;
    tk->generation = zone->generation;

    ngx_queue_insert_head(&session->tickets, &tk->queue);

    *ticket = tk;

    return NGX_OK;
}


void
ngx_http_agentstream_zone_unqueue_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_ticket_t *ticket)
{
    ngx_http_agentstream_session_t  *session;

    session = ticket->session;

    ngx_queue_remove(&ticket->queue);
    ngx_slab_free_locked(zone->shpool, ticket);

    ngx_http_agentstream_zone_release_locked(zone, session);
}
