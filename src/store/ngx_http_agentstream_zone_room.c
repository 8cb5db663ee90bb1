
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The zone's memory, and which turn gives way when there is none left: first
 * finished turns that nobody reads, the oldest first; then chats that nobody
 * uses, the longest unused first; then, among the turns that run or are read,
 * the one with the most memory loses its oldest block, until only the last
 * block is left, to which its owner writes without the lock; then finished
 * turns whose readers do not have all packets yet.  A running turn is never
 * freed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone_int.h"


static ngx_int_t ngx_http_agentstream_zone_yield_locked(
    ngx_http_agentstream_zone_t *zone);
static void ngx_http_agentstream_zone_evict_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);
static ngx_uint_t ngx_http_agentstream_zone_read_locked(
    ngx_http_agentstream_node_t *node);


void *
ngx_http_agentstream_zone_alloc_locked(ngx_http_agentstream_zone_t *zone,
    size_t size)
{
    void                         *p;
    size_t                        n;
    ngx_http_agentstream_node_t  *node;

    n = 0;

    for ( ;; ) {
        p = ngx_slab_alloc_locked(zone->shpool, size);
        if (p) {
            return p;
        }

        if (size > ngx_pagesize && n >= 2 * size) {
            return NULL;
        }

        node = ngx_http_agentstream_zone_first_locked(&zone->sh->finished);

        if (node) {
            n += node->journal.size;
            ngx_http_agentstream_zone_evict_locked(zone, node);
            continue;
        }

        if (ngx_http_agentstream_zone_yield_chat_locked(zone) == NGX_OK) {
            n += sizeof(ngx_http_agentstream_chat_node_t);
            continue;
        }

        if (size > ngx_pagesize
            || ngx_http_agentstream_zone_yield_locked(zone) != NGX_OK)
        {
            return NULL;
        }
    }
}


/* makes a turn that runs or is read give way; NGX_DECLINED: there is none
   left */

static ngx_int_t
ngx_http_agentstream_zone_yield_locked(ngx_http_agentstream_zone_t *zone)
{
    ngx_http_agentstream_node_t  *node;

    node = ngx_http_agentstream_zone_first_locked(&zone->sh->spare);

    if (node) {
        ngx_http_agentstream_zone_shift_locked(zone, node);
        return NGX_OK;
    }

    node = ngx_http_agentstream_zone_first_locked(&zone->sh->watched);

    if (node) {
        ngx_http_agentstream_zone_evict_locked(zone, node);
        return NGX_OK;
    }

    return NGX_DECLINED;
}


static void
ngx_http_agentstream_zone_evict_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    if (ngx_http_agentstream_zone_age(node) < zone->retain) {
        ngx_http_agentstream_zone_count(zone, EVICTED, 1);
    }

    ngx_http_agentstream_zone_free_locked(zone, node);
}


void
ngx_http_agentstream_zone_shift_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    uint64_t  n;

    n = ngx_http_agentstream_block_shift_locked(zone->shpool, &node->journal);

    ngx_http_agentstream_zone_count(zone, DROPPED, n);

    ngx_http_agentstream_zone_place_locked(zone, node);
}


void
ngx_http_agentstream_zone_place_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_uint_t         finished;
    ngx_rbtree_t      *place;
    ngx_rbtree_key_t   key;

    place = NULL;
    key = node->ended;
    finished = (node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED);

    if (finished && !ngx_http_agentstream_zone_read_locked(node)) {
        place = &zone->sh->finished;

    } else if (node->journal.first != node->journal.last && !node->pinned) {
        place = &zone->sh->spare;
        key = ~node->journal.size;

    } else if (finished) {
        place = &zone->sh->watched;
    }

    if (node->place == place && node->order.key == key) {
        return;
    }

    if (node->place) {
        ngx_rbtree_delete(node->place, &node->order);
    }

    node->place = place;

    if (place) {
        node->order.key = key;
        ngx_rbtree_insert(place, &node->order);
    }
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_first_locked(ngx_rbtree_t *place)
{
    ngx_rbtree_node_t  *first;

    if (place->root == place->sentinel) {
        return NULL;
    }

    first = ngx_rbtree_min(place->root, place->sentinel);

    return ngx_rbtree_data(first, ngx_http_agentstream_node_t, order);
}


void
ngx_http_agentstream_zone_watch_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_uint_t slot, ngx_uint_t set)
{
    uint64_t  bit;

    bit = (uint64_t) 1 << (slot % 64);

    if (set) {
        node->watchers[slot / 64] |= bit;

    } else {
        node->watchers[slot / 64] &= ~bit;
    }

    ngx_http_agentstream_zone_place_locked(zone, node);
}


/* whether anybody reads it, as far as is known here */

static ngx_uint_t
ngx_http_agentstream_zone_read_locked(ngx_http_agentstream_node_t *node)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64; i++) {
        if (node->watchers[i]) {
            return 1;
        }
    }

    return 0;
}
