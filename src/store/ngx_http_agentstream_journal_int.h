
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_JOURNAL_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_JOURNAL_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_journal.h"
#include "ngx_http_agentstream_zone.h"


/*
 * What the journal has for the store's verbs, which hold the lock.
 */


/* gives a new turn room for its first packets; NGX_ERROR: the zone is full */
ngx_int_t ngx_http_agentstream_journal_create_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);

/* no packet will follow, so the last block gives back the memory that it does
   not need */
void ngx_http_agentstream_journal_pack_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* a turn that was taken over gets the room for its terminal packet back */
void ngx_http_agentstream_journal_mend_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* the records up to this one, which must be new, are not kept: every reader
   that waits for one of them is told of a gap */
void ngx_http_agentstream_journal_jump_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, uint64_t seq);

/* readers may see the records up to this one from now on */
void ngx_http_agentstream_journal_show_locked(
    ngx_http_agentstream_node_t *node, uint64_t seq);

/*
 * Copies whole records from the cursor on, up to the last one, into buf, which
 * must be aligned to 8 bytes, and moves the cursor.  A record that is larger
 * than the rest of buf waits; if it is the first, nothing is copied and its
 * size is returned, otherwise 0.  The cursor must not be older than
 * journal.first_seq.  record_next() reads the copied records one by one,
 * without the lock.
 */
size_t ngx_http_agentstream_journal_read_locked(
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_cursor_t *cursor,
    uint64_t last, u_char *buf, size_t size,
    ngx_http_agentstream_records_t *records);


#endif /* _NGX_HTTP_AGENTSTREAM_JOURNAL_INT_H_INCLUDED_ */
