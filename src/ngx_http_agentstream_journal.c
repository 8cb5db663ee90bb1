
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 1: the journal.  Records in a chain of blocks; a record is a small
 * header and the packet's bytes.  The owner writes beyond what is published,
 * without the lock; publishing one is moving last_seq and the block's "used"
 * under it, so that a reader, or the successor of an owner that was killed,
 * sees a packet whole or not at all.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_journal.h"


#define NGX_HTTP_AGENTSTREAM_BLOCK_MIN   2048
#define NGX_HTTP_AGENTSTREAM_BLOCK_MAX   32768

#define NGX_HTTP_AGENTSTREAM_BLOCK_HEAD                                       \
    offsetof(ngx_http_agentstream_block_t, data)


/* followed by the packet and its origin */

typedef struct {
    uint32_t                             len;
    uint32_t                             origin;   /* its length */
    uint64_t                             part;
} ngx_http_agentstream_record_t;


/* records are aligned, so that the next one's header is too */

#define ngx_http_agentstream_journal_room(len)                                \
    ngx_align(sizeof(ngx_http_agentstream_record_t) + (len), 8)

#define ngx_http_agentstream_journal_size(record)                             \
    ngx_http_agentstream_journal_room((record)->len + (record)->origin)


static ngx_http_agentstream_block_t *ngx_http_agentstream_journal_grow(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    size_t size, size_t limit);
static void ngx_http_agentstream_journal_empty_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);
static void ngx_http_agentstream_journal_link_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_block_t *block, size_t size);
static void ngx_http_agentstream_journal_seek_locked(
    ngx_http_agentstream_journal_t *journal,
    ngx_http_agentstream_cursor_t *cursor);


ngx_int_t
ngx_http_agentstream_journal_create_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_block_t  *block;

    block = ngx_http_agentstream_zone_alloc_locked(zone,
                                              NGX_HTTP_AGENTSTREAM_BLOCK_MIN);
    if (block == NULL) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_journal_link_locked(zone, node, block,
                                             NGX_HTTP_AGENTSTREAM_BLOCK_MIN);

    return NGX_OK;
}


u_char *
ngx_http_agentstream_journal_reserve(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, size_t size, size_t limit)
{
    ngx_http_agentstream_block_t  *block;

    size = ngx_http_agentstream_journal_room(size);
    block = node->journal.last;

    if (block == NULL || block->size - block->used < size) {
        block = ngx_http_agentstream_journal_grow(zone, node, size, limit);

        if (block == NULL) {
            return NULL;
        }
    }

    return block->data + block->used + sizeof(ngx_http_agentstream_record_t);
}


u_char *
ngx_http_agentstream_journal_reserve_tail(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, size_t size)
{
    ngx_http_agentstream_block_t  *block;

    block = (ngx_http_agentstream_block_t *) node->tail;

    if (size > sizeof(node->tail) - NGX_HTTP_AGENTSTREAM_BLOCK_HEAD
               - sizeof(ngx_http_agentstream_record_t)
        || (node->journal.last == block && block->used))
    {
        return NULL;
    }

    if (node->journal.last != block) {
        ngx_http_agentstream_zone_lock(zone);
        ngx_http_agentstream_journal_link_locked(zone, node, block,
                                                 sizeof(node->tail));
        ngx_http_agentstream_zone_unlock(zone);
    }

    return block->data + sizeof(ngx_http_agentstream_record_t);
}


void
ngx_http_agentstream_journal_append(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, u_char *last, ngx_uint_t part,
    ngx_str_t *origin)
{
    ngx_http_agentstream_block_t    *block;
    ngx_http_agentstream_record_t   *record;
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;
    block = journal->last;

    record = (ngx_http_agentstream_record_t *) (block->data + block->used);

    record->len = last - (u_char *) (record + 1);
    record->origin = origin->len;
    record->part = part;

    if (origin->len) {
        ngx_memcpy(last, origin->data, origin->len);
    }

    ngx_http_agentstream_zone_count(zone, PACKETS, 1);
    ngx_http_agentstream_zone_count(zone, BYTES, record->len);

    ngx_http_agentstream_zone_lock(zone);

    block->used += ngx_http_agentstream_journal_size(record);
    journal->last_seq++;

    ngx_http_agentstream_zone_unlock(zone);
}


u_char *
ngx_http_agentstream_journal_reserve_last(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, size_t size)
{
    ngx_http_agentstream_block_t  *block;

    block = node->journal.last;

    if (block->size < ngx_http_agentstream_journal_room(size)) {
        return NULL;
    }

    ngx_http_agentstream_zone_lock(zone);
    ngx_http_agentstream_journal_empty_locked(zone, node);
    ngx_http_agentstream_zone_unlock(zone);

    return block->data + sizeof(ngx_http_agentstream_record_t);
}


void
ngx_http_agentstream_journal_skip(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_zone_count(zone, DROPPED, 1);

    ngx_http_agentstream_zone_lock(zone);

    ngx_http_agentstream_journal_empty_locked(zone, node);

    node->journal.last_seq++;
    node->journal.first_seq++;
    node->journal.last->seq++;

    ngx_http_agentstream_zone_unlock(zone);
}


/* nothing is kept but the last block, and nothing is in it */

static void
ngx_http_agentstream_journal_empty_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_block_t    *block;
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;
    block = journal->last;

    while (journal->first != block) {
        ngx_http_agentstream_zone_shift_locked(zone, node);
    }

    ngx_http_agentstream_zone_count(zone, DROPPED,
                                    journal->last_seq + 1 - block->seq);

    block->seq = journal->last_seq + 1;
    block->used = 0;

    journal->first_seq = block->seq;
    journal->dropped++;
}


static ngx_http_agentstream_block_t *
ngx_http_agentstream_journal_grow(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, size_t size, size_t limit)
{
    size_t                           want, least;
    ngx_http_agentstream_block_t    *block;
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;

    /* a quarter of what there is, in pages: little of a journal is empty, and
       the zone does not run out of neighbouring pages */

    want = ngx_min(journal->size / 4, NGX_HTTP_AGENTSTREAM_BLOCK_MAX);

    want = (want > NGX_HTTP_AGENTSTREAM_BLOCK_MIN)
           ? ngx_align(want, ngx_pagesize) : NGX_HTTP_AGENTSTREAM_BLOCK_MIN;

    least = ngx_max(NGX_HTTP_AGENTSTREAM_BLOCK_MIN,
                    NGX_HTTP_AGENTSTREAM_BLOCK_HEAD + size);
    want = ngx_max(want, least);

    ngx_http_agentstream_zone_lock(zone);

    while (journal->size + want > limit && journal->first != journal->last) {
        ngx_http_agentstream_zone_shift_locked(zone, node);
    }

    block = ngx_http_agentstream_zone_alloc_locked(zone, want);

    if (block == NULL && want > least) {
        want = least;
        block = ngx_http_agentstream_zone_alloc_locked(zone, want);
    }

    if (block) {
        ngx_http_agentstream_journal_link_locked(zone, node, block, want);
    }

    ngx_http_agentstream_zone_unlock(zone);

    return block;
}


void
ngx_http_agentstream_journal_pack_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    size_t                           size;
    ngx_http_agentstream_block_t    *block, *last, **p;
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;
    last = journal->last;

    if (last == NULL || last == (ngx_http_agentstream_block_t *) node->tail) {
        return;
    }

    size = NGX_HTTP_AGENTSTREAM_BLOCK_HEAD + last->used;

    /* the slab rounds up to twice as much at most */

    if (size * 2 > NGX_HTTP_AGENTSTREAM_BLOCK_HEAD + last->size) {
        return;
    }

    block = ngx_slab_alloc_locked(zone->shpool, size);

    if (block == NULL) {
        return;
    }

    journal->size -= last->size - last->used;
    journal->dropped++;

    last->size = last->used;
    ngx_memcpy(block, last, size);

    for (p = &journal->first; *p != last; p = &(*p)->next) { /* void */ }

    *p = block;
    journal->last = block;

    ngx_slab_free_locked(zone->shpool, last);
}


static void
ngx_http_agentstream_journal_link_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_block_t *block,
    size_t size)
{
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;

    block->next = NULL;
    block->seq = journal->last_seq + 1;
    block->size = size - NGX_HTTP_AGENTSTREAM_BLOCK_HEAD;
    block->used = 0;

    journal->size += size;

    if (journal->last) {
        journal->last->next = block;

    } else {
        journal->first = block;
    }

    journal->last = block;

    ngx_http_agentstream_zone_place_locked(zone, node);
}


size_t
ngx_http_agentstream_journal_read_locked(ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_cursor_t *cursor, u_char *buf, size_t size,
    size_t *need)
{
    u_char                          *p, *end;
    ngx_http_agentstream_block_t    *block;
    ngx_http_agentstream_record_t   *record;
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;

    *need = 0;

    if (cursor->seq > journal->last_seq) {
        return 0;
    }

    if (cursor->block == NULL || cursor->dropped != journal->dropped) {
        ngx_http_agentstream_journal_seek_locked(journal, cursor);
    }

    p = buf;
    end = buf + size;
    block = cursor->block;

    while (cursor->seq <= journal->last_seq) {

        if (cursor->offset == block->used) {
            block = block->next;
            cursor->block = block;
            cursor->offset = 0;
            continue;
        }

        record = (ngx_http_agentstream_record_t *)
                     (block->data + cursor->offset);

        if ((size_t) (end - p) < record->len) {

            if (p == buf) {
                *need = record->len;
            }

            break;
        }

        p = ngx_cpymem(p, record + 1, record->len);

        cursor->offset += ngx_http_agentstream_journal_size(record);
        cursor->seq++;
    }

    return p - buf;
}


static void
ngx_http_agentstream_journal_seek_locked(
    ngx_http_agentstream_journal_t *journal,
    ngx_http_agentstream_cursor_t *cursor)
{
    uint64_t                        seq;
    ngx_http_agentstream_block_t   *block;
    ngx_http_agentstream_record_t  *record;

    block = journal->first;

    while (block->next && block->next->seq <= cursor->seq) {
        block = block->next;
    }

    cursor->block = block;
    cursor->offset = 0;
    cursor->dropped = journal->dropped;

    for (seq = block->seq; seq < cursor->seq; seq++) {
        record = (ngx_http_agentstream_record_t *)
                     (block->data + cursor->offset);

        cursor->offset += ngx_http_agentstream_journal_size(record);
    }
}


ngx_int_t
ngx_http_agentstream_journal_walk(ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_journal_pt handler, void *data)
{
    uint32_t                        offset;
    uint64_t                        seq;
    ngx_int_t                       rc;
    ngx_str_t                       packet, origin;
    ngx_http_agentstream_block_t   *block;
    ngx_http_agentstream_record_t  *record;

    seq = node->journal.first_seq;

    for (block = node->journal.first; block; block = block->next) {

        for (offset = 0; offset < block->used; seq++) {
            record = (ngx_http_agentstream_record_t *) (block->data + offset);

            packet.data = (u_char *) (record + 1);
            packet.len = record->len;
            origin.data = packet.data + packet.len;
            origin.len = record->origin;

            rc = handler(data, seq, &packet, record->part, &origin);

            if (rc != NGX_OK) {
                return rc;
            }

            offset += ngx_http_agentstream_journal_size(record);
        }
    }

    return NGX_OK;
}
