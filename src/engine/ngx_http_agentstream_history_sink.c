
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Where the records of a history go: to its consumer, in the order of the
 * messages that they are made of.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history_int.h"


static ngx_int_t ngx_http_agentstream_history_child(void *ctx,
    ngx_str_t *session);
static void ngx_http_agentstream_history_resolve(void *ctx,
    ngx_str_t *session, ngx_str_t *message);
static void ngx_http_agentstream_history_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits);

static ngx_int_t ngx_http_agentstream_history_add(
    ngx_http_agentstream_history_t *h, ngx_http_agentstream_record_t *record);


ngx_http_agentstream_translate_sink_t  ngx_http_agentstream_history_sink = {
    ngx_http_agentstream_history_reserve,
    ngx_http_agentstream_history_commit,
    ngx_http_agentstream_history_child,
    ngx_http_agentstream_history_resolve,
    ngx_http_agentstream_history_waiting
};


u_char *
ngx_http_agentstream_history_reserve(void *ctx, size_t size)
{
    ngx_http_agentstream_history_t *h = ctx;

    return ngx_http_agentstream_acp_room(&h->packet, size);
}


uint64_t
ngx_http_agentstream_history_commit(void *ctx,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_history_t *h = ctx;

    /*
     * The cost of a message is sent after its content, as in a live turn.  A
     * message has one cost, so there is one such packet for it.
     */

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE
        && h->usage.len == 0)
    {
        ngx_http_agentstream_acp_add(&h->usage, record->json.data,
                                     record->json.len);

        return h->usage.failed ? 0 : h->seq + 1;
    }

    if (ngx_http_agentstream_history_add(h, record) != NGX_OK) {
        return 0;
    }

    return ++h->seq;
}


static ngx_int_t
ngx_http_agentstream_history_add(ngx_http_agentstream_history_t *h,
    ngx_http_agentstream_record_t *record)
{
    ngx_int_t  rc;

    rc = h->args.consumer->record(h->args.data, record);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    h->made = 1;

    if (rc == NGX_AGAIN) {
        h->full = 1;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_history_usage(ngx_http_agentstream_history_t *h)
{
    ngx_http_agentstream_record_t  record;

    if (h->usage.len == 0) {
        return NGX_OK;
    }

    ngx_memzero(&record, sizeof(ngx_http_agentstream_record_t));

    record.type = NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE;
    record.json.data = h->usage.start;
    record.json.len = h->usage.len;

    h->usage.len = 0;
    h->seq++;

    return ngx_http_agentstream_history_add(h, &record);
}


/* there are no events of subagents here, and everything that is stored is
   known */

static ngx_int_t
ngx_http_agentstream_history_child(void *ctx, ngx_str_t *session)
{
    return NGX_OK;
}


static void
ngx_http_agentstream_history_resolve(void *ctx, ngx_str_t *session,
    ngx_str_t *message)
{
}


static void
ngx_http_agentstream_history_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits)
{
}
