
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Blocks of a journal: linked, dropped and freed.  What they contain is the
 * journal's business, who has to give way that of the zone.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_block.h"


void
ngx_http_agentstream_block_link_locked(ngx_http_agentstream_journal_t *journal,
    ngx_http_agentstream_block_t *block, size_t size)
{
    block->next = NULL;
    block->seq = journal->last_seq + 1;
    block->size = size - NGX_HTTP_AGENTSTREAM_BLOCK_HEAD;
    block->used = 0;
    block->pieces = NULL;
    block->extra = 0;

    journal->size += size;

    if (journal->last) {
        journal->last->next = block;

    } else {
        journal->first = block;
    }

    journal->last = block;
}


void
ngx_http_agentstream_block_unlink_locked(
    ngx_http_agentstream_journal_t *journal)
{
    ngx_http_agentstream_block_t  *block;

    for (block = journal->first;
         block->next != journal->last;
         block = block->next)
    {
        /* void */
    }

    journal->size -= NGX_HTTP_AGENTSTREAM_BLOCK_HEAD + journal->last->size;
    journal->dropped++;

    journal->last = block;
    block->next = NULL;
}


uint64_t
ngx_http_agentstream_block_shift_locked(ngx_slab_pool_t *shpool,
    ngx_http_agentstream_journal_t *journal)
{
    uint64_t                       n;
    ngx_http_agentstream_block_t  *block;

    block = journal->first;
    n = block->next->seq - block->seq;

    ngx_http_agentstream_block_free_pieces_locked(shpool, journal, block, NULL);

    journal->first = block->next;
    journal->first_seq = block->next->seq;
    journal->size -= NGX_HTTP_AGENTSTREAM_BLOCK_HEAD + block->size;
    journal->dropped++;

    ngx_slab_free_locked(shpool, block);

    return n;
}


void
ngx_http_agentstream_block_free_pieces_locked(ngx_slab_pool_t *shpool,
    ngx_http_agentstream_journal_t *journal,
    ngx_http_agentstream_block_t *block, ngx_http_agentstream_piece_t *after)
{
    size_t                         size;
    ngx_http_agentstream_piece_t  *piece;

    while (block->pieces != after) {
        piece = block->pieces;
        block->pieces = piece->other;

        size = offsetof(ngx_http_agentstream_piece_t, data) + piece->len;
        block->extra -= size;
        journal->size -= size;

        ngx_slab_free_locked(shpool, piece);
    }
}


void
ngx_http_agentstream_block_free_locked(ngx_slab_pool_t *shpool,
    ngx_http_agentstream_journal_t *journal, void *tail)
{
    ngx_http_agentstream_block_t  *block, *next;

    for (block = journal->first; block; block = next) {
        next = block->next;

        ngx_http_agentstream_block_free_pieces_locked(shpool, journal, block,
                                                      NULL);

        if (block != tail) {
            ngx_slab_free_locked(shpool, block);
        }
    }
}
