
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 2: the capture.  Between the copy filter and all that shapes responses
 * for clients, what OpenCode answers is taken out of the chain: it is streamed
 * to the call's opener or collected, and nothing is passed on.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call.h"


static ngx_int_t ngx_http_agentstream_call_header_filter(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_call_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_agentstream_call_collect(
    ngx_http_agentstream_call_t *call, u_char *pos, size_t len);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


void
ngx_http_agentstream_call_init_filters(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_agentstream_call_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_agentstream_call_body_filter;
}


static ngx_int_t
ngx_http_agentstream_call_header_filter(ngx_http_request_t *r)
{
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_of(r);

    if (call == NULL) {
        return ngx_http_next_header_filter(r);
    }

    call->status = r->headers_out.status;
    call->answered = 1;

    r->header_sent = 1;
    r->filter_need_in_memory = 1;

    if (r->upstream) {
        r->upstream->buffering = 0;
    }

    if (call->body_handler && call->status != NGX_HTTP_OK) {
        /* the opener wants a stream and nothing else */
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_call_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    size_t                        len;
    u_char                       *pos;
    ngx_buf_t                    *b;
    ngx_int_t                     rc;
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_of(r);

    if (call == NULL) {
        return ngx_http_next_body_filter(r, in);
    }

    for ( /* void */ ; in; in = in->next) {
        b = in->buf;

        if (b->last_buf || b->last_in_chain) {
            call->complete = 1;
        }

        if (!ngx_buf_in_memory(b)) {
            b->file_pos = b->file_last;
            continue;
        }

        pos = b->pos;
        len = b->last - b->pos;
        b->pos = b->last;

        if (len == 0) {
            continue;
        }

        if (call->body_handler) {
            call->filtering = 1;
            rc = call->body_handler(call->data, pos, len);
            call->filtering = 0;

        } else {
            rc = ngx_http_agentstream_call_collect(call, pos, len);
        }

        if (rc != NGX_OK || call->closed) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_call_collect(ngx_http_agentstream_call_t *call,
    u_char *pos, size_t len)
{
    size_t   size;
    u_char  *p;

    if (call->limit - call->body.len < len) {
        call->overflow = 1;
        return NGX_ERROR;
    }

    if (call->size - call->body.len < len) {
        size = ngx_max(call->size * 2, call->body.len + len);

        p = ngx_alloc(size, ngx_cycle->log);
        if (p == NULL) {
            return NGX_ERROR;
        }

        if (call->body.len) {
            ngx_memcpy(p, call->body.data, call->body.len);
        }

        if (call->body.data) {
            ngx_free(call->body.data);
        }

        call->body.data = p;
        call->size = size;
    }

    ngx_memcpy(call->body.data + call->body.len, pos, len);
    call->body.len += len;

    return NGX_OK;
}
