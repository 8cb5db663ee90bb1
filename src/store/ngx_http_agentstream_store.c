
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The store's verbs that begin and end something: the store itself, a turn, a
 * place in a queue.  What one machine cannot decide is decided by zone->remote,
 * if there is one.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_journal_int.h"
#include "ngx_http_agentstream_store_int.h"


/* a session's key that is longer than this is not looked for again */
#define NGX_HTTP_AGENTSTREAM_KEY_SIZE  1024


static void ngx_http_agentstream_store_made_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_store_create_t *args,
    ngx_http_agentstream_store_created_t *created);
static ngx_int_t ngx_http_agentstream_store_orphan_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *key);
static void ngx_http_agentstream_store_other_locked(
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_store_created_t *created);


/* from what nobody notices to the longest turns */

const ngx_msec_t  ngx_http_agentstream_store_bounds[] = {
    1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000,
    300000, 1800000, 3600000
};


ngx_http_agentstream_zone_t *
ngx_http_agentstream_store_open(ngx_pool_t *pool, ngx_core_conf_t *core,
    ngx_msec_t retain)
{
    ngx_pool_cleanup_t           *cln;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_zone_t));
    if (zone == NULL) {
        return NULL;
    }

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_http_agentstream_zone_cleanup;
    cln->data = zone;

    zone->core = core;
    zone->retain = retain;

    ngx_http_agentstream_store_open_later(zone);

    return zone;
}


ngx_int_t
ngx_http_agentstream_store_init(ngx_shm_zone_t *shm_zone, void *data)
{
    return ngx_http_agentstream_zone_init(shm_zone, data);
}


void
ngx_http_agentstream_store_keep(ngx_http_agentstream_zone_t *zone)
{
    ngx_http_agentstream_zone_keep(zone);
}


uint64_t *
ngx_http_agentstream_store_init_worker(ngx_http_agentstream_zone_t *zone)
{
    ngx_http_agentstream_store_init_later(zone);
    ngx_http_agentstream_zone_init_worker(zone);

    return zone->stats;
}


void
ngx_http_agentstream_store_exit_worker(ngx_http_agentstream_zone_t *zone)
{
    ngx_http_agentstream_zone_exit_worker(zone);
}


ngx_int_t
ngx_http_agentstream_store_watch(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_watch_t *watch, ngx_str_t *key,
    ngx_str_t *turn, ngx_uint_t follow, ngx_http_agentstream_later_t *later)
{
    return zone->remote ? zone->remote->watch(zone, watch, key, turn, follow,
                                              later)
                        : NGX_OK;
}


void
ngx_http_agentstream_store_unwatch(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_watch_t *watch)
{
    if (watch->session) {
        zone->remote->unwatch(watch);
    }
}


void
ngx_http_agentstream_store_observe(uint64_t *stats,
    ngx_http_agentstream_stat_e histogram, ngx_msec_t ms)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_STORE_BUCKETS - 1; i++) {
        if (ms <= ngx_http_agentstream_store_bounds[i]) {
            break;
        }
    }

    stats[histogram + i]++;
    stats[histogram + NGX_HTTP_AGENTSTREAM_STORE_BUCKETS] += ms;
}


void
ngx_http_agentstream_store_stats(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_stats_t *stats)
{
    stats->workers = ngx_http_agentstream_zone_stats(zone, stats->stats);
    stats->size = zone->shpool->end - (u_char *) zone->shpool;

    ngx_http_agentstream_zone_lock(zone);

    stats->free = zone->shpool->pfree * ngx_pagesize;
    stats->running = zone->sh->nrunning;
    stats->finished = zone->sh->nfinished;
    stats->chats = zone->sh->nchats;

    ngx_http_agentstream_zone_unlock(zone);
}


void
ngx_http_agentstream_store_expire(ngx_http_agentstream_zone_t *zone)
{
    ngx_http_agentstream_zone_lock(zone);
    ngx_http_agentstream_zone_expire_locked(zone);
    ngx_http_agentstream_zone_expire_chats_locked(zone);
    ngx_http_agentstream_zone_unlock(zone);

    ngx_http_agentstream_zone_sweep(zone);
}


ngx_int_t
ngx_http_agentstream_store_create(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_create_t *args,
    ngx_http_agentstream_store_created_t *created,
    ngx_http_agentstream_later_t *later)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_node_t  *node;

    ngx_http_agentstream_zone_lock(zone);

    rc = ngx_http_agentstream_zone_create_locked(zone, &args->key, &args->id,
                                                 &args->request_id,
                                                 args->ticket, &node);

    if (rc == NGX_OK
        && ngx_http_agentstream_journal_create_locked(zone, node) != NGX_OK)
    {
        ngx_http_agentstream_zone_finish_locked(zone, node);
        ngx_http_agentstream_zone_free_locked(zone, node);
        rc = NGX_ERROR;
    }

    if (rc == NGX_OK && zone->remote) {
        node->pending = 1;
        node->packets = args->packets;
        node->tool_kinds = args->tool_kinds;

    } else if (rc == NGX_OK) {
        ngx_http_agentstream_store_made_locked(zone, node, args, created);

    } else {
        ngx_http_agentstream_store_other_locked(
                                   (rc == NGX_ERROR) ? NULL : node, created);
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (rc == NGX_OK && zone->remote) {
        return zone->remote->create(zone, args, node, created, later);
    }

    return ngx_http_agentstream_store_later(zone, later, rc, created->node,
                                            NGX_HTTP_AGENTSTREAM_LATER_CREATE);
}


static void
ngx_http_agentstream_store_made_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_store_create_t *args,
    ngx_http_agentstream_store_created_t *created)
{
    node->senders = 1;
    node->seen_at = ngx_current_msec;
    node->packets = args->packets;
    node->tool_kinds = args->tool_kinds;

    created->node = node;
    created->unsure = (node->session->unsure != 0);
    created->other.len = 0;

    ngx_http_agentstream_zone_count(zone, STARTED, 1);
}


void
ngx_http_agentstream_store_made(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_uint_t unsure, uint64_t rank,
    ngx_http_agentstream_store_created_t *created)
{
    ngx_http_agentstream_store_create_t  args;

    args.packets = node->packets;
    args.tool_kinds = node->tool_kinds;

    ngx_http_agentstream_zone_lock(zone);

    node->pending = 0;
    node->rank = rank;
    node->session->unsure = unsure;

    ngx_http_agentstream_store_made_locked(zone, node, &args, created);

    ngx_http_agentstream_zone_unlock(zone);
}


void
ngx_http_agentstream_store_unmade(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *other,
    ngx_http_agentstream_store_created_t *created)
{
    ngx_http_agentstream_store_other_locked(NULL, created);

    created->other.len = ngx_min(other->len, sizeof(created->id));

    if (created->other.len) {
        ngx_memcpy(created->id, other->data, created->other.len);
    }

    ngx_http_agentstream_zone_lock(zone);

    ngx_http_agentstream_zone_finish_locked(zone, node);
    ngx_http_agentstream_zone_free_locked(zone, node);

    ngx_http_agentstream_zone_unlock(zone);
}


/* there may be none */

static void
ngx_http_agentstream_store_other_locked(ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_store_created_t *created)
{
    created->node = NULL;
    created->unsure = 0;
    created->other.data = created->id;
    created->other.len = 0;

    if (node) {
        ngx_http_agentstream_store_name_locked(node, &created->other);
    }
}


ngx_int_t
ngx_http_agentstream_store_taken(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *request_id,
    ngx_http_agentstream_ticket_t *ticket,
    ngx_http_agentstream_store_created_t *created)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_node_t  *node;

    ngx_http_agentstream_zone_lock(zone);

    rc = ngx_http_agentstream_zone_taken_locked(zone, key, request_id, ticket,
                                                &node);

    ngx_http_agentstream_store_other_locked(node, created);

    ngx_http_agentstream_zone_unlock(zone);

    return rc;
}


ngx_int_t
ngx_http_agentstream_store_queue(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t **ticket)
{
    ngx_int_t  rc;

    ngx_http_agentstream_zone_lock(zone);
    rc = ngx_http_agentstream_zone_queue_locked(zone, key, ticket);
    ngx_http_agentstream_zone_unlock(zone);

    if (rc == NGX_OK && zone->remote) {
        zone->remote->queue(zone, key, *ticket, "in");
    }

    return rc;
}


ngx_int_t
ngx_http_agentstream_store_hold(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t **ticket)
{
    ngx_int_t  rc;

    ngx_http_agentstream_zone_lock(zone);
    rc = ngx_http_agentstream_zone_hold_locked(zone, key, ticket);
    ngx_http_agentstream_zone_unlock(zone);

    if (rc == NGX_OK && zone->remote) {
        zone->remote->queue(zone, key, *ticket, "first");
    }

    return rc;
}


ngx_uint_t
ngx_http_agentstream_store_unqueue(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_ticket_t **ticket)
{
    ngx_uint_t                       waits;
    ngx_http_agentstream_session_t  *session;

    if (zone->remote) {
        /* the ticket keeps its session */
        zone->remote->queue(zone, &(*ticket)->session->sn.str, *ticket, "out");
    }

    ngx_http_agentstream_zone_lock(zone);

    session = (*ticket)->session;

    waits = (session->running == NULL
             && ngx_queue_next(ngx_queue_head(&session->tickets))
                != ngx_queue_sentinel(&session->tickets));

    ngx_http_agentstream_zone_unqueue_locked(zone, *ticket);

    ngx_http_agentstream_zone_unlock(zone);

    *ticket = NULL;

    return waits;
}


void
ngx_http_agentstream_store_sender(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_int_t n)
{
    ngx_http_agentstream_node_t  *node;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, turn);

    if (node) {
        node->senders += n;
    }

    ngx_http_agentstream_zone_unlock(zone);
}


void
ngx_http_agentstream_store_release(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn)
{
    ngx_http_agentstream_node_t  *node;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, turn);

    if (node) {
        node->released = 1;
    }

    ngx_http_agentstream_zone_unlock(zone);
}


ngx_int_t
ngx_http_agentstream_store_orphan(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn)
{
    u_char                        buf[NGX_HTTP_AGENTSTREAM_KEY_SIZE];
    ngx_int_t                     rc;
    ngx_str_t                     key;
    ngx_http_agentstream_node_t  *node;

    key.data = buf;
    key.len = sizeof(buf);

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, turn);

    rc = (node && node->state != NGX_HTTP_AGENTSTREAM_TURN_FINISHED)
         ? ngx_http_agentstream_store_orphan_locked(zone, node, &key)
         : NGX_DECLINED;

    ngx_http_agentstream_zone_unlock(zone);

    if (rc == NGX_AGAIN) {

        /* a reload may have removed the store */

        if (zone->remote) {
            zone->remote->copy(zone, &key, turn);
        }

        return NGX_DECLINED;
    }

    return rc;
}


/* NGX_AGAIN: it is the turn of another machine, and is not copied here any
   more */

static ngx_int_t
ngx_http_agentstream_store_orphan_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *key)
{
    ngx_uint_t  dead;

    dead = ngx_http_agentstream_zone_dead_locked(zone, &node->owner);

    if (!node->mirror) {
        return dead ? NGX_OK : NGX_DECLINED;
    }

    if (dead) {
        key->len = ngx_min(node->session->sn.str.len, key->len);
        ngx_memcpy(key->data, node->session->key, key->len);
        return NGX_AGAIN;
    }

    /* only the worker that copies it can take it over */

    return (node->gone
            && node->owner.slot == zone->self.slot
            && node->owner.generation == zone->self.generation)
           ? NGX_OK : NGX_DECLINED;
}


ngx_int_t
ngx_http_agentstream_store_claim(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_http_agentstream_node_t **node,
    ngx_http_agentstream_later_t *later)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_node_t  *nd;

    ngx_http_agentstream_zone_lock(zone);

    nd = ngx_http_agentstream_zone_find_locked(zone, turn);

    if (nd && nd->mirror) {
        ngx_http_agentstream_zone_unlock(zone);

        return zone->remote ? zone->remote->claim(zone, turn, node, later)
                            : NGX_DECLINED;
    }

    rc = (nd && nd->state != NGX_HTTP_AGENTSTREAM_TURN_FINISHED)
         ? ngx_http_agentstream_zone_claim_locked(zone, &nd->owner)
         : NGX_DECLINED;

    if (rc == NGX_OK) {
        nd->ended = 0;
        nd->pending = 0;
        nd->pinned = 1;

        ngx_http_agentstream_journal_mend_locked(zone, nd);
        ngx_http_agentstream_zone_place_locked(zone, nd);

        *node = nd;
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (zone->remote) {
        if (rc == NGX_OK) {
            zone->remote->own(zone, nd);
        }

        return rc;
    }

    return ngx_http_agentstream_store_later(zone, later, rc, nd,
                                            NGX_HTTP_AGENTSTREAM_LATER_CLAIM);
}


void
ngx_http_agentstream_store_unpin(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_zone_lock(zone);

    node->pinned = 0;
    ngx_http_agentstream_zone_place_locked(zone, node);

    ngx_http_agentstream_zone_unlock(zone);
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_store_lapsed(ngx_http_agentstream_zone_t *zone,
    ngx_uint_t *key)
{
    ngx_rbtree_key_t              from;
    ngx_http_agentstream_node_t  *node;

    from = *key;

    ngx_http_agentstream_zone_lock(zone);
    node = ngx_http_agentstream_zone_orphan_locked(zone, &from);

    if (node) {
        node->pending = 0;
        ngx_http_agentstream_journal_mend_locked(zone, node);
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (node && zone->remote) {
        zone->remote->own(zone, node);
    }

    *key = from;

    return node;
}


ngx_int_t
ngx_http_agentstream_store_finish(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_store_end_t *end,
    ngx_http_agentstream_later_t *later)
{
    if (zone->remote) {
        return zone->remote->finish(zone, node, end, later);
    }

    if (zone->held && later) {
        later->end = end;

        return ngx_http_agentstream_store_later(zone, later, NGX_OK, node,
                                           NGX_HTTP_AGENTSTREAM_LATER_FINISH);
    }

    ngx_http_agentstream_store_finished(zone, node, end);

    return NGX_OK;
}


void
ngx_http_agentstream_store_finished(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_store_end_t *end)
{
    ngx_http_agentstream_zone_lock(zone);

    ngx_memzero(node->stop_reason, sizeof(node->stop_reason));
    ngx_memcpy(node->stop_reason, end->stop_reason.data,
               ngx_min(end->stop_reason.len, sizeof(node->stop_reason) - 1));

    ngx_memcpy(end->watchers, node->watchers, sizeof(node->watchers));

    /* a prompt that was never sent tells nothing about the session */

    if (node->prompted || end->unsure) {
        node->session->unsure = end->unsure;
    }

    node->pinned = 0;

    ngx_http_agentstream_journal_show_locked(node, node->journal.last_seq);
    ngx_http_agentstream_journal_pack_locked(zone, node);
    ngx_http_agentstream_zone_finish_locked(zone, node);

    ngx_http_agentstream_zone_unlock(zone);
}
