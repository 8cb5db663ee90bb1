
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_JOURNAL_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_JOURNAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_store.h"


/*
 * One turn's records in the order in which they were made.  The turn's owner
 * appends; anybody reads, from a cursor.
 */


/*
 * Contiguous room for one record of at most size bytes: its JSON, its text and
 * record_extra().  NULL: the zone is full.  It belongs to the owner until
 * append() or the next reserve().  The oldest records are dropped if the
 * journal would exceed limit.  What to do when there is no room, from the best
 * to the worst: reserve_tail() for the terminal packet, append_pieces(),
 * reserve_last(), skip().
 */
u_char *ngx_http_agentstream_journal_reserve(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, size_t size, size_t limit);

/* the same in the room that is reserved for the terminal packet, however full
   the zone is; NULL: the record is too large for that, or the room is used */
u_char *ngx_http_agentstream_journal_reserve_tail(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    size_t size);

/* the same in the last block, whose packets are dropped for it; NULL: the
   block is too small */
u_char *ngx_http_agentstream_journal_reserve_last(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    size_t size);

/* appends a record that was written elsewhere, in pages that need not be
   contiguous; NGX_DECLINED: the zone is full */
ngx_int_t ngx_http_agentstream_journal_append_pieces(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_record_t *record, size_t limit);

/* the next packet is not kept, nor are those before it: every reader that
   waits for it is told of a gap; what is appended later is read as usual */
void ngx_http_agentstream_journal_skip(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* appends the record whose JSON and text were written to the reserved room */
void ngx_http_agentstream_journal_append(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_record_t *record);

/* a record, as it was appended */
typedef ngx_int_t (*ngx_http_agentstream_journal_pt)(void *data,
    ngx_http_agentstream_record_t *record);

/* calls the handler for all records, oldest first; only for the owner, and
   therefore without the lock; any result but NGX_OK ends it and is returned */
ngx_int_t ngx_http_agentstream_journal_walk(ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_journal_pt handler, void *data);


#endif /* _NGX_HTTP_AGENTSTREAM_JOURNAL_H_INCLUDED_ */
