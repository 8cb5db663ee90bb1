
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Where the packets of a rebuilt turn go.  They are put together on
 * the heap, spelt, until they are sent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_rebuild_int.h"
#include "ngx_http_agentstream_zone.h"


static u_char *ngx_http_agentstream_rebuild_reserve(void *ctx, size_t size);
static uint64_t ngx_http_agentstream_rebuild_commit(void *ctx,
    ngx_http_agentstream_record_t *record);
static ngx_int_t ngx_http_agentstream_rebuild_child(void *ctx,
    ngx_str_t *session);
static void ngx_http_agentstream_rebuild_resolve(void *ctx, ngx_str_t *session,
    ngx_str_t *message);
static void ngx_http_agentstream_rebuild_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits);


ngx_http_agentstream_translate_sink_t  ngx_http_agentstream_rebuild_sink =
{
    ngx_http_agentstream_rebuild_reserve,
    ngx_http_agentstream_rebuild_commit,
    ngx_http_agentstream_rebuild_child,
    ngx_http_agentstream_rebuild_resolve,
    ngx_http_agentstream_rebuild_waiting
};


static u_char *
ngx_http_agentstream_rebuild_reserve(void *ctx, size_t size)
{
    ngx_http_agentstream_rebuild_t *rb = ctx;

    return ngx_http_agentstream_acp_room(&rb->packet, size);
}


static uint64_t
ngx_http_agentstream_rebuild_commit(void *ctx,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_rebuild_t *rb = ctx;

    u_char                       *p;
    ngx_http_agentstream_wire_t  *wire;

    wire = rb->output->wire;

    rb->state.turn = rb->args.turn;

    /* having the last packet, a client has them all */

    record->seq = (rb->over && rb->args.turn.len)
                  ? NGX_HTTP_AGENTSTREAM_REBUILD_LAST : 0;

    p = ngx_http_agentstream_output_room(&rb->text,
                                         wire->size(&rb->state, record));
    if (p == NULL) {
        return 0;
    }

    rb->text.last = wire->record(&rb->state, p, record);

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET) {
        ngx_http_agentstream_count(RESETS, 1);
    }

    return ++rb->seq;
}


static ngx_int_t
ngx_http_agentstream_rebuild_child(void *ctx, ngx_str_t *session)
{
    ngx_http_agentstream_rebuild_t *rb = ctx;

    ngx_str_t  **element;

    element = ngx_array_push(&rb->sessions);
    if (element == NULL) {
        return NGX_ERROR;
    }

    *element = session;

    return NGX_OK;
}


static void
ngx_http_agentstream_rebuild_resolve(void *ctx, ngx_str_t *session,
    ngx_str_t *message)
{
    /* stored messages name their parts, there are no deltas here */
}


static void
ngx_http_agentstream_rebuild_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits)
{
}
