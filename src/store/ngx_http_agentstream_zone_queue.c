
/*
 * Copyright (C) agentstream contributors
 */


/*
 * One turn at a time: which request id has started a turn, and which senders
 * wait in which order, across all workers.  A ticket whose worker is dead no
 * longer counts.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone_int.h"


static ngx_http_agentstream_node_t *ngx_http_agentstream_zone_started_locked(
    ngx_http_agentstream_session_t *session, ngx_str_t *request_id);
static ngx_uint_t ngx_http_agentstream_zone_undecided_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);
static ngx_uint_t ngx_http_agentstream_zone_behind_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_session_t *session,
    ngx_http_agentstream_ticket_t *ticket);
static void ngx_http_agentstream_zone_enter_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_session_t *session,
    ngx_http_agentstream_ticket_t *ticket);
static void ngx_http_agentstream_zone_discard_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_ticket_t *ticket);


/* the turn that the request id has started in the session, or NULL */

static ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_started_locked(
    ngx_http_agentstream_session_t *session, ngx_str_t *request_id)
{
    uint32_t         hash;
    ngx_str_node_t  *sn;

    if (request_id->len == 0) {
        return NULL;
    }

    hash = ngx_murmur_hash2(request_id->data, request_id->len);

    sn = ngx_str_rbtree_lookup(&session->requests, request_id, hash);

    return sn ? ngx_rbtree_data(&sn->node, ngx_http_agentstream_node_t,
                                request.node)
              : NULL;
}


/* whether its owner will know whether it comes about; if that is dead, it is an
   orphan like any other */

static ngx_uint_t
ngx_http_agentstream_zone_undecided_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    return node->pending
           && !ngx_http_agentstream_zone_dead_locked(zone, &node->owner);
}


/* whether another sender waits in front of the ticket, or at all if there is
   no ticket */

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

        if (!ngx_http_agentstream_zone_dead_locked(zone, &first->owner)) {
            return first != ticket;
        }

        ngx_http_agentstream_zone_discard_locked(zone, first);
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
        return ngx_http_agentstream_zone_undecided_locked(zone, *node)
               ? NGX_DONE : NGX_DECLINED;
    }

    /* a turn of another machine may be over by now: the store is asked */

    *node = (session->running && !session->running->mirror)
            ? session->running : NULL;

    if (*node && ngx_http_agentstream_zone_undecided_locked(zone, *node)) {
        return NGX_DONE;
    }

    if (*node
        || ngx_http_agentstream_zone_behind_locked(zone, session, ticket))
    {
        return NGX_BUSY;
    }

    /* perhaps only tickets of the dead were left of it */

    ngx_http_agentstream_zone_release_locked(zone, session);

    return NGX_OK;
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

    /* its turn may have ended in the meantime, and been evicted to make room
       for the ticket */

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    if (session == NULL) {
        ngx_slab_free_locked(zone->shpool, tk);
        return NGX_DECLINED;
    }

    ngx_http_agentstream_zone_enter_locked(zone, session, tk);
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

    ngx_http_agentstream_zone_enter_locked(zone, session, tk);
    ngx_queue_insert_head(&session->tickets, &tk->queue);

    *ticket = tk;

    return NGX_OK;
}


static void
ngx_http_agentstream_zone_enter_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_session_t *session,
    ngx_http_agentstream_ticket_t *ticket)
{
    ticket->session = session;
    ticket->owner = zone->self;

    ngx_queue_insert_tail(&zone->sh->tickets, &ticket->all);
    zone->sh->ntickets++;
}


static void
ngx_http_agentstream_zone_discard_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_ticket_t *ticket)
{
    ngx_queue_remove(&ticket->queue);
    ngx_queue_remove(&ticket->all);
    zone->sh->ntickets--;

    ngx_slab_free_locked(zone->shpool, ticket);
}


void
ngx_http_agentstream_zone_unqueue_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_ticket_t *ticket)
{
    ngx_http_agentstream_session_t  *session;

    session = ticket->session;

    ngx_http_agentstream_zone_discard_locked(zone, ticket);
    ngx_http_agentstream_zone_release_locked(zone, session);
}


void
ngx_http_agentstream_zone_sweep(ngx_http_agentstream_zone_t *zone)
{
    ngx_uint_t                      n, left;
    ngx_queue_t                    *q;
    ngx_http_agentstream_ticket_t  *ticket;

    left = zone->sh->ntickets;

    while (left) {
        ngx_http_agentstream_zone_lock(zone);

        left = ngx_min(left, zone->sh->ntickets);

        for (n = 0; left && n < NGX_HTTP_AGENTSTREAM_WALK_MAX; n++, left--) {
            q = ngx_queue_head(&zone->sh->tickets);
            ticket = ngx_queue_data(q, ngx_http_agentstream_ticket_t, all);

            if (ngx_http_agentstream_zone_dead_locked(zone, &ticket->owner)) {
                ngx_http_agentstream_zone_unqueue_locked(zone, ticket);
                continue;
            }

            /* look at others the next time */

            ngx_queue_remove(q);
            ngx_queue_insert_tail(&zone->sh->tickets, q);
        }

        ngx_http_agentstream_zone_unlock(zone);
    }
}
