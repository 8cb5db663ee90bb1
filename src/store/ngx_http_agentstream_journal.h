
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_JOURNAL_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_JOURNAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone.h"


/*
 * One turn's packets in the order they were made, as the bytes that
 * go to clients.  Its owner appends; anybody reads from a cursor.
 */


/* a new turn has room for its first packets; NGX_ERROR: the zone is full */
ngx_int_t ngx_http_agentstream_journal_create_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);

/*
 * Room for one packet and its origin of at most size bytes, contiguous; NULL:
 * the zone is full.  It belongs to the owner until append() or the next
 * reserve().  The oldest packets are dropped when all would exceed limit.
 * What to do when there is no room, from the best to the worst: reserve_tail()
 * for the terminal packet, append_pieces(), reserve_last(), skip().
 */
u_char *ngx_http_agentstream_journal_reserve(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, size_t size, size_t limit);

/* the same in the room kept for the terminal packet, however full the zone
   is; NULL: it is too large for that, or there is one */
u_char *ngx_http_agentstream_journal_reserve_tail(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    size_t size);

/* the same in the last block, where the packets that are kept make way; NULL:
   it is too small */
u_char *ngx_http_agentstream_journal_reserve_last(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    size_t size);

/* a packet that was written elsewhere, from data to last, becomes the next one,
   wherever its pages are; NGX_DECLINED: the zone is full */
ngx_int_t ngx_http_agentstream_journal_append_pieces(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    u_char *data, u_char *last, ngx_uint_t part, ngx_str_t *origin,
    size_t limit);

/* the next packet is not kept, and none before it: every reader that waits for
   it is told of a gap; what is appended later is read as usual */
void ngx_http_agentstream_journal_skip(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* the reserved packet, from its start to last, becomes the next one; part and
   origin are for whoever takes the turn over */
void ngx_http_agentstream_journal_append(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, u_char *last, ngx_uint_t part,
    ngx_str_t *origin);

/* no packet will follow: the last block gives back what it did not need */
void ngx_http_agentstream_journal_pack_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* a record, as it was appended */
typedef ngx_int_t (*ngx_http_agentstream_journal_pt)(void *data, uint64_t seq,
    ngx_str_t *packet, ngx_uint_t part, ngx_str_t *origin);

/* all of them, oldest first, by the owner and so without the lock; anything
   but NGX_OK ends it and is returned */
ngx_int_t ngx_http_agentstream_journal_walk(ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_journal_pt handler, void *data);

/*
 * Copies whole packets from the cursor on into buf and moves the cursor.  A
 * packet larger than what is left of buf waits, unless it is the first: then
 * *need is its size and nothing is copied.  Returns the bytes copied.  The
 * cursor must not be older than journal.first_seq.
 */
size_t ngx_http_agentstream_journal_read_locked(
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_cursor_t *cursor,
    u_char *buf, size_t size, size_t *need);


#endif /* _NGX_HTTP_AGENTSTREAM_JOURNAL_H_INCLUDED_ */
