
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 1: the zone's memory, and who gives way when there is none left: first
 * finished turns that nobody reads, the oldest one first; then, of those that
 * run or are read, whoever has most loses its oldest block, down to its last
 * one, which its owner writes to without the lock; then finished turns whose
 * readers have not got all of it.  A running turn is never freed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone_int.h"


static size_t ngx_http_agentstream_zone_yield_locked(
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
    size_t                        n, left;
    ngx_http_agentstream_node_t  *node;

    /* pages in a row may not come about whoever gives way: those who have
       readers pay not much more than is needed */

    left = (size > ngx_pagesize) ? 4 * size : NGX_MAX_SIZE_T_VALUE;

    for ( ;; ) {
        p = ngx_slab_alloc_locked(zone->shpool, size);
        if (p) {
            return p;
        }

        node = ngx_http_agentstream_zone_first_locked(&zone->sh->finished);

        if (node) {
            ngx_http_agentstream_zone_evict_locked(zone, node);
            continue;
        }

        n = left ? ngx_http_agentstream_zone_yield_locked(zone) : 0;

        if (n == 0) {
            return NULL;
        }

        left -= ngx_min(n, left);
    }
}


/* what a turn that runs or is read has given, in bytes; 0: nothing is left */

static size_t
ngx_http_agentstream_zone_yield_locked(ngx_http_agentstream_zone_t *zone)
{
    size_t                        size;
    ngx_http_agentstream_node_t  *node;

    node = ngx_http_agentstream_zone_first_locked(&zone->sh->spare);

    if (node) {
        size = node->journal.size;
        ngx_http_agentstream_zone_shift_locked(zone, node);

        return size - node->journal.size;
    }

    node = ngx_http_agentstream_zone_first_locked(&zone->sh->watched);

    if (node) {
        size = node->journal.size + sizeof(ngx_http_agentstream_node_t);
        ngx_http_agentstream_zone_evict_locked(zone, node);

        return size;
    }

    return 0;
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
    ngx_http_agentstream_block_t    *block;
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;
    block = journal->first;

    ngx_http_agentstream_zone_count(zone, DROPPED,
                                    block->next->seq - block->seq);

    journal->first = block->next;
    journal->first_seq = block->next->seq;
    journal->size -= offsetof(ngx_http_agentstream_block_t, data)
                     + block->size;
    journal->dropped++;

    ngx_slab_free_locked(zone->shpool, block);

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

    } else if (node->journal.first != node->journal.last && !node->walked) {
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


/* by anybody, as far as is known here */

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
