
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_BLOCK_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_BLOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_store.h"


/*
 * The memory of a journal: a chain of blocks.  It is below the zone, which
 * makes journals give way, and below the journal, which knows what is in the
 * blocks. All functions want the zone's lock held.
 */


/* a page, or less, of a packet for which there were not enough contiguous
   pages */

typedef struct ngx_http_agentstream_piece_s  ngx_http_agentstream_piece_t;

struct ngx_http_agentstream_piece_s {
    ngx_http_agentstream_piece_t        *next;     /* next piece of the
                                                      packet */
    ngx_http_agentstream_piece_t        *other;    /* next piece of the
                                                      block */
    size_t                               len;
    u_char                               data[1];
};


/*
 * A part of a journal.  Only the turn's owner writes to it: after "used"
 * without the lock, because nobody reads there; "used" and seq are changed
 * under the lock.
 */

struct ngx_http_agentstream_block_s {
    ngx_http_agentstream_block_t        *next;
    uint64_t                             seq;      /* number of its first
                                                      record */
    uint32_t                             size;     /* of data */
    uint32_t                             used;
    ngx_http_agentstream_piece_t        *pieces;   /* pieces of all its
                                                      packets */
    size_t                               extra;    /* size of the pieces */
    u_char                               data[1];
};


typedef struct {
    ngx_http_agentstream_block_t        *first;
    ngx_http_agentstream_block_t        *last;
    uint64_t                             first_seq;    /* number of the
                                                          oldest record that
                                                          is kept */
    uint64_t                             last_seq;     /* 0: none yet */
    uint64_t                             shown_seq;    /* readers see the
                                                          records up to this
                                                          one; the others were
                                                          appended, but not
                                                          acknowledged yet */
    ngx_uint_t                           dropped;      /* blocks freed so far;
                                                          a cursor with another
                                                          number may point into
                                                          one of them */
    size_t                               size;         /* size of all blocks
                                                          and their pieces */
} ngx_http_agentstream_journal_t;


#define NGX_HTTP_AGENTSTREAM_BLOCK_HEAD                                       \
    offsetof(ngx_http_agentstream_block_t, data)


/* a new block of that size, with its head, becomes the last one */
void ngx_http_agentstream_block_link_locked(
    ngx_http_agentstream_journal_t *journal,
    ngx_http_agentstream_block_t *block, size_t size);

/* the last block, which must be empty and not the only one, is taken out again;
   it is not freed */
void ngx_http_agentstream_block_unlink_locked(
    ngx_http_agentstream_journal_t *journal);

/* frees the oldest block, which must not be the only one; returns the number of
   records in it */
uint64_t ngx_http_agentstream_block_shift_locked(ngx_slab_pool_t *shpool,
    ngx_http_agentstream_journal_t *journal);

/* frees the pieces of a block that were added after this one; NULL: all of
   them */
void ngx_http_agentstream_block_free_pieces_locked(ngx_slab_pool_t *shpool,
    ngx_http_agentstream_journal_t *journal,
    ngx_http_agentstream_block_t *block, ngx_http_agentstream_piece_t *after);

/* frees all blocks but this one, which has another owner */
void ngx_http_agentstream_block_free_locked(ngx_slab_pool_t *shpool,
    ngx_http_agentstream_journal_t *journal, void *tail);


#endif /* _NGX_HTTP_AGENTSTREAM_BLOCK_H_INCLUDED_ */
