
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Where the packets of a rebuilt turn go.  They are put together on
 * the heap, as events, until they are sent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_rebuild_int.h"
#include "ngx_http_agentstream_sse.h"
#include "ngx_http_agentstream_zone.h"


static u_char *ngx_http_agentstream_rebuild_reserve(void *ctx, size_t size);
static uint64_t ngx_http_agentstream_rebuild_commit(void *ctx, u_char *last,
    ngx_uint_t part);
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

    size_t     used, want;
    u_char    *p;
    uint64_t   seq;

    if (rb->reset) {
        /* the first packets of all tell what this is */

        rb->reset = 0;

        if (ngx_http_agentstream_translate_reset(rb->translate, rb->args.reason)
            != NGX_OK
            || ngx_http_agentstream_translate_start(rb->translate) != NGX_OK)
        {
            return NULL;
        }

        ngx_http_agentstream_count(RESETS, 1);
    }

    want = ngx_http_agentstream_sse_head_size(&rb->args.turn) + size
           + NGX_HTTP_AGENTSTREAM_SSE_TAIL_LEN;

    used = rb->last - rb->start;

    if ((size_t) (rb->end - rb->last) < want) {
        want = ngx_max(used * 2, used + want);
        want = ngx_max(want, 4096);

        p = ngx_http_agentstream_output_alloc(want);
        if (p == NULL) {
            return NULL;
        }

        if (rb->start) {
            ngx_memcpy(p, rb->start, used);
            ngx_http_agentstream_output_free(rb->start);
        }

        rb->start = p;
        rb->last = p + used;
        rb->end = p + want;
    }

    /* having the last packet, a client has them all */

    seq = (rb->over && rb->args.turn.len) ? NGX_HTTP_AGENTSTREAM_REBUILD_LAST
                                          : 0;

    return ngx_http_agentstream_sse_head(rb->last, &rb->args.turn, seq);
}


static uint64_t
ngx_http_agentstream_rebuild_commit(void *ctx, u_char *last, ngx_uint_t part)
{
    ngx_http_agentstream_rebuild_t *rb = ctx;

    rb->last = ngx_http_agentstream_sse_tail(last);

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
