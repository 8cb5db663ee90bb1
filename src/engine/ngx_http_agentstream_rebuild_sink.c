
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Where the records of a rebuilt turn go.  They are collected on the heap
 * until the follower has taken them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_rebuild_int.h"


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

    u_char  *p;

    /* memory may be available again after an earlier failure */
    rb->buf.failed = 0;

    p = ngx_http_agentstream_acp_room(&rb->buf,
                                      ngx_http_agentstream_packed_size(size));

    return p ? p + sizeof(ngx_http_agentstream_packed_t) : NULL;
}


static uint64_t
ngx_http_agentstream_rebuild_commit(void *ctx,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_rebuild_t *rb = ctx;

    size_t                          len;
    u_char                         *p;
    ngx_http_agentstream_packed_t  *packed;

    p = rb->buf.start + rb->buf.len;
    packed = (ngx_http_agentstream_packed_t *) p;

    len = record->json.len + record->text.len;

    ngx_http_agentstream_record_pack(packed, record,
                                     (u_char *) (packed + 1) + len);

    rb->buf.len += ngx_http_agentstream_packed_size(
                             len + ngx_http_agentstream_record_extra(record));

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
    /* stored messages contain their parts, so there are no deltas of unknown
       parts here */
}


static void
ngx_http_agentstream_rebuild_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits)
{
}
