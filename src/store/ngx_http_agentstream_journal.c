
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The journal.  Packed records in a chain of blocks.  The owner writes new
 * records after the published ones, without the lock.  To publish a record is
 * to move last_seq and the block's "used", under the lock, so that a reader,
 * or the successor of an owner that was killed, sees a whole record or none.
 *
 * Readers see the records up to shown_seq.  This is last_seq, unless a record
 * has to be acknowledged before readers may see it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_journal_int.h"


#define NGX_HTTP_AGENTSTREAM_BLOCK_MIN   2048
#define NGX_HTTP_AGENTSTREAM_BLOCK_MAX   32768


/* length of JSON and text */
#define ngx_http_agentstream_journal_len(packed)  ((packed)->len)

/* bytes of them in the block: a record in pieces has a pointer to the first
   piece there instead */
#define ngx_http_agentstream_journal_inline(packed)                           \
    ((packed)->pieces ? sizeof(ngx_http_agentstream_piece_t *)                \
                      : ngx_http_agentstream_journal_len(packed))

/* size of the record in its block */
#define ngx_http_agentstream_journal_size(packed)                             \
    ngx_http_agentstream_packed_size(                                         \
                           ngx_http_agentstream_journal_inline(packed)        \
                           + ngx_http_agentstream_packed_extra(packed))

#define NGX_HTTP_AGENTSTREAM_PIECE_HEAD                                       \
    offsetof(ngx_http_agentstream_piece_t, data)


static ngx_http_agentstream_block_t *ngx_http_agentstream_journal_grow(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    size_t size, size_t limit);
static ngx_http_agentstream_piece_t *ngx_http_agentstream_journal_add_piece(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    size_t len, size_t limit);
static void ngx_http_agentstream_journal_publish(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_packed_t *packed);
static void ngx_http_agentstream_journal_empty_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);
static void ngx_http_agentstream_journal_link_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_block_t *block, size_t size);
static u_char *ngx_http_agentstream_journal_copy(u_char *dst,
    ngx_http_agentstream_packed_t *packed);
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
    ngx_uint_t                     fits;
    ngx_http_agentstream_block_t  *block, *next;

    size = ngx_http_agentstream_packed_size(size);
    block = node->journal.last;

    fits = (block->size - block->used >= size);

    /* a large packet can be evicted as soon as another block is the last */

    if (!fits || block->pieces) {
        next = ngx_http_agentstream_journal_grow(zone, node, size, limit);

        if (next) {
            block = next;

        } else if (!fits) {
            return NULL;
        }
    }

    return block->data + block->used + sizeof(ngx_http_agentstream_packed_t);
}


u_char *
ngx_http_agentstream_journal_reserve_tail(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, size_t size)
{
    ngx_http_agentstream_block_t  *block;

    block = (ngx_http_agentstream_block_t *) node->tail;

    if (size > sizeof(node->tail) - NGX_HTTP_AGENTSTREAM_BLOCK_HEAD
               - sizeof(ngx_http_agentstream_packed_t)
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

    return block->data + sizeof(ngx_http_agentstream_packed_t);
}


void
ngx_http_agentstream_journal_append(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_block_t   *block;
    ngx_http_agentstream_packed_t  *packed;

    block = node->journal.last;

    packed = (ngx_http_agentstream_packed_t *) (block->data + block->used);

    ngx_http_agentstream_record_pack(packed, record,
                                     (u_char *) (packed + 1)
                                     + record->json.len + record->text.len);

    ngx_http_agentstream_journal_publish(zone, node, record, packed);
}


ngx_int_t
ngx_http_agentstream_journal_append_pieces(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_record_t *record,
    size_t limit)
{
    u_char                         *p, *data, *last;
    ngx_http_agentstream_block_t   *block;
    ngx_http_agentstream_piece_t   *old, *piece, *first, **next;
    ngx_http_agentstream_packed_t  *packed;

    first = NULL;
    data = record->json.data;
    last = data + record->json.len + record->text.len;

    /* one packet must not take the whole zone */

    if ((size_t) (last - data)
        > (size_t) (zone->shpool->end - zone->shpool->start) / 4)
    {
        return NGX_DECLINED;
    }

    p = ngx_http_agentstream_journal_reserve(zone, node,
                                  sizeof(ngx_http_agentstream_piece_t *)
                                  + ngx_http_agentstream_record_extra(record),
                                  limit);
    if (p == NULL) {
        return NGX_DECLINED;
    }

    block = node->journal.last;

    packed = (ngx_http_agentstream_packed_t *) (block->data + block->used);

    ngx_http_agentstream_record_pack(packed, record,
                                p + sizeof(ngx_http_agentstream_piece_t *));
    packed->pieces = 1;

    old = block->pieces;
    next = &first;

    while (data != last) {
        piece = ngx_http_agentstream_journal_add_piece(zone, node,
                                                       last - data, limit);
        if (piece == NULL) {
            goto failed;
        }

        ngx_memcpy(piece->data, data, piece->len);
        data += piece->len;

        *next = piece;
        next = &piece->next;
    }

    /* p is not aligned */
    ngx_memcpy(p, &first, sizeof(ngx_http_agentstream_piece_t *));

    ngx_http_agentstream_journal_publish(zone, node, record, packed);

    return NGX_OK;

failed:

    ngx_http_agentstream_zone_lock(zone);

    ngx_http_agentstream_block_free_pieces_locked(zone->shpool, &node->journal,
                                                  block, old);
    ngx_http_agentstream_zone_place_locked(zone, node);

    ngx_http_agentstream_zone_unlock(zone);

    return NGX_DECLINED;
}


/* a piece for at most len bytes; it belongs to the last block at once, so that
   it is not leaked if this worker dies */

static ngx_http_agentstream_piece_t *
ngx_http_agentstream_journal_add_piece(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, size_t len, size_t limit)
{
    size_t                           size;
    ngx_http_agentstream_block_t    *block;
    ngx_http_agentstream_piece_t    *piece;
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;
    block = journal->last;

    size = ngx_min(NGX_HTTP_AGENTSTREAM_PIECE_HEAD + len, ngx_pagesize);

    ngx_http_agentstream_zone_lock(zone);

    while (journal->size + size > limit && journal->first != block) {
        ngx_http_agentstream_zone_shift_locked(zone, node);
    }

    piece = ngx_http_agentstream_zone_alloc_locked(zone, size);

    if (piece) {
        piece->next = NULL;
        piece->other = block->pieces;
        piece->len = size - NGX_HTTP_AGENTSTREAM_PIECE_HEAD;

        block->pieces = piece;
        block->extra += size;
        journal->size += size;

        ngx_http_agentstream_zone_place_locked(zone, node);
    }

    ngx_http_agentstream_zone_unlock(zone);

    return piece;
}


static void
ngx_http_agentstream_journal_publish(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_packed_t *packed)
{
    size_t  size;

    size = ngx_http_agentstream_journal_size(packed);

    ngx_http_agentstream_zone_count(zone, PACKETS, 1);
    ngx_http_agentstream_zone_count(zone, BYTES,
                                    ngx_http_agentstream_record_len(record));

    ngx_http_agentstream_zone_lock(zone);

    node->journal.last->used += size;
    node->journal.last_seq++;

    if (!zone->held) {
        node->journal.shown_seq = node->journal.last_seq;
    }

    ngx_http_agentstream_zone_unlock(zone);
}


void
ngx_http_agentstream_journal_show_locked(ngx_http_agentstream_node_t *node,
    uint64_t seq)
{
    if (seq > node->journal.shown_seq) {
        node->journal.shown_seq = ngx_min(seq, node->journal.last_seq);
    }
}


u_char *
ngx_http_agentstream_journal_reserve_last(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, size_t size)
{
    ngx_http_agentstream_block_t  *block;

    block = node->journal.last;

    if (block->size < ngx_http_agentstream_packed_size(size)) {
        return NULL;
    }

    ngx_http_agentstream_zone_lock(zone);
    ngx_http_agentstream_journal_empty_locked(zone, node);
    ngx_http_agentstream_zone_unlock(zone);

    return block->data + sizeof(ngx_http_agentstream_packed_t);
}


void
ngx_http_agentstream_journal_skip(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_zone_count(zone, DROPPED, 1);

    ngx_http_agentstream_zone_lock(zone);

    ngx_http_agentstream_journal_jump_locked(zone, node,
                                             node->journal.last_seq + 1);

    if (!zone->held) {
        node->journal.shown_seq = node->journal.last_seq;
    }

    ngx_http_agentstream_zone_unlock(zone);
}


void
ngx_http_agentstream_journal_jump_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, uint64_t seq)
{
    ngx_http_agentstream_journal_empty_locked(zone, node);

    node->journal.last_seq = seq;
    node->journal.first_seq = seq + 1;
    node->journal.last->seq = seq + 1;
}


/* empties the journal: only the last block is kept, without records */

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

    ngx_http_agentstream_block_free_pieces_locked(zone->shpool, journal, block,
                                                  NULL);

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

    /* the next block has a quarter of the journal's size, in pages, so that
       little of it is unused, and the zone does not run out of contiguous
       pages */

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

    /* the slab allocator rounds up to twice the size at most */

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
    ngx_http_agentstream_block_link_locked(&node->journal, block, size);
    ngx_http_agentstream_zone_place_locked(zone, node);
}


/* an owner that was killed between reserve_tail() and append() has left the
   room for the terminal packet at the end, empty: any other packet would take
   it */

void
ngx_http_agentstream_journal_mend_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;

    if (journal->last == (ngx_http_agentstream_block_t *) node->tail
        && journal->last->used == 0
        && journal->first != journal->last)
    {
        ngx_http_agentstream_block_unlink_locked(journal);
        ngx_http_agentstream_zone_place_locked(zone, node);
    }
}


size_t
ngx_http_agentstream_journal_read_locked(ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_cursor_t *cursor, uint64_t last, u_char *buf,
    size_t size, ngx_http_agentstream_records_t *records)
{
    size_t                           len;
    u_char                          *p, *end;
    ngx_http_agentstream_block_t    *block;
    ngx_http_agentstream_packed_t   *packed;
    ngx_http_agentstream_journal_t  *journal;

    journal = &node->journal;

    records->pos = buf;
    records->last = buf;
    records->seq = cursor->seq;

    if (cursor->seq > last) {
        return 0;
    }

    if (cursor->block == NULL || cursor->dropped != journal->dropped) {
        ngx_http_agentstream_journal_seek_locked(journal, cursor);
    }

    p = buf;
    end = buf + size;
    block = cursor->block;

    while (cursor->seq <= last) {

        if (cursor->offset == block->used) {
            block = block->next;
            cursor->block = block;
            cursor->offset = 0;
            continue;
        }

        packed = (ngx_http_agentstream_packed_t *)
                     (block->data + cursor->offset);

        len = ngx_http_agentstream_packed_size(
                                 ngx_http_agentstream_journal_len(packed)
                                 + ngx_http_agentstream_packed_extra(packed));

        if ((size_t) (end - p) < len) {

            if (p == buf) {
                return len;
            }

            break;
        }

        if (packed->pieces) {
            (void) ngx_http_agentstream_journal_copy(p, packed);

        } else {
            ngx_memcpy(p, packed, len);
        }

        p += len;

        cursor->offset += ngx_http_agentstream_journal_size(packed);
        cursor->seq++;
    }

    records->last = p;

    return 0;
}


/* copies a record in pieces like one that is not */

static u_char *
ngx_http_agentstream_journal_copy(u_char *dst,
    ngx_http_agentstream_packed_t *packed)
{
    u_char                         *p;
    ngx_http_agentstream_piece_t   *piece;
    ngx_http_agentstream_packed_t  *whole;

    whole = (ngx_http_agentstream_packed_t *) dst;

    *whole = *packed;
    whole->pieces = 0;

    p = (u_char *) (packed + 1);
    dst = (u_char *) (whole + 1);

    ngx_memcpy(&piece, p, sizeof(ngx_http_agentstream_piece_t *));

    for ( /* void */ ; piece; piece = piece->next) {
        dst = ngx_cpymem(dst, piece->data, piece->len);
    }

    return ngx_cpymem(dst, p + sizeof(ngx_http_agentstream_piece_t *),
                      ngx_http_agentstream_packed_extra(packed));
}


static void
ngx_http_agentstream_journal_seek_locked(
    ngx_http_agentstream_journal_t *journal,
    ngx_http_agentstream_cursor_t *cursor)
{
    uint64_t                        seq;
    ngx_http_agentstream_block_t   *block;
    ngx_http_agentstream_packed_t  *packed;

    block = journal->first;

    while (block->next && block->next->seq <= cursor->seq) {
        block = block->next;
    }

    cursor->block = block;
    cursor->offset = 0;
    cursor->dropped = journal->dropped;

    for (seq = block->seq; seq < cursor->seq; seq++) {
        packed = (ngx_http_agentstream_packed_t *)
                     (block->data + cursor->offset);

        cursor->offset += ngx_http_agentstream_journal_size(packed);
    }
}


ngx_int_t
ngx_http_agentstream_journal_walk(ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_journal_pt handler, void *data)
{
    size_t                           len;
    u_char                          *whole;
    uint32_t                         offset;
    uint64_t                         seq;
    ngx_int_t                        rc;
    ngx_http_agentstream_block_t    *block;
    ngx_http_agentstream_packed_t   *packed;
    ngx_http_agentstream_record_t    record;
    ngx_http_agentstream_records_t   records;

    seq = node->journal.first_seq;

    for (block = node->journal.first; block; block = block->next) {

        for (offset = 0; offset < block->used; seq++) {
            packed = (ngx_http_agentstream_packed_t *) (block->data + offset);

            whole = NULL;

            records.pos = (u_char *) packed;
            records.last = NULL;
            records.seq = ngx_http_agentstream_zone_number(node, seq);

            if (packed->pieces) {
                len = ngx_http_agentstream_packed_size(
                                 ngx_http_agentstream_journal_len(packed)
                                 + ngx_http_agentstream_packed_extra(packed));

                whole = ngx_alloc(len, ngx_cycle->log);
                if (whole == NULL) {
                    return NGX_ERROR;
                }

                (void) ngx_http_agentstream_journal_copy(whole, packed);
                records.pos = whole;
            }

            (void) ngx_http_agentstream_record_next(&records, &record);

            rc = handler(data, &record);

            if (whole) {
                ngx_free(whole);
            }

            if (rc != NGX_OK) {
                return rc;
            }

            offset += ngx_http_agentstream_journal_size(packed);
        }
    }

    return NGX_OK;
}
