
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The response of a history.  Packets are put into buffers, which the
 * output sends one by one, and frees as the client takes them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history_int.h"
#include "ngx_http_agentstream_sse.h"


/* on the heap; what is made before it is sent mostly fits in one */
#define NGX_HTTP_AGENTSTREAM_HISTORY_BUF  40960


static ngx_int_t ngx_http_agentstream_history_child(void *ctx,
    ngx_str_t *session);
static void ngx_http_agentstream_history_resolve(void *ctx,
    ngx_str_t *session, ngx_str_t *message);
static void ngx_http_agentstream_history_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits);

static ngx_buf_t *ngx_http_agentstream_history_room(
    ngx_http_agentstream_history_t *h, size_t size);
static ngx_int_t ngx_http_agentstream_history_header(
    ngx_http_agentstream_history_t *h);


ngx_http_agentstream_translate_sink_t  ngx_http_agentstream_history_sink = {
    ngx_http_agentstream_history_reserve,
    ngx_http_agentstream_history_commit,
    ngx_http_agentstream_history_child,
    ngx_http_agentstream_history_resolve,
    ngx_http_agentstream_history_waiting
};


static ngx_str_t  ngx_http_agentstream_history_none = ngx_null_string;


u_char *
ngx_http_agentstream_history_reserve(void *ctx, size_t size)
{
    ngx_http_agentstream_history_t *h = ctx;

    u_char     *p;
    size_t      head;
    ngx_buf_t  *b;

    head = h->args.sse ? ngx_http_agentstream_sse_head_size(
                                          &ngx_http_agentstream_history_none)
                       : 1;

    b = ngx_http_agentstream_history_room(h, head + size
                                       + NGX_HTTP_AGENTSTREAM_SSE_TAIL_LEN);
    if (b == NULL) {
        return NULL;
    }

    p = b->last;

    if (h->args.sse) {
        p = ngx_http_agentstream_sse_head(p,
                                      &ngx_http_agentstream_history_none, 0);

    } else {
        *p++ = (h->seq == 0) ? '[' : ',';
    }

    h->packet = p;

    return p;
}


uint64_t
ngx_http_agentstream_history_commit(void *ctx, u_char *last, ngx_uint_t part)
{
    ngx_http_agentstream_history_t *h = ctx;

    ngx_buf_t  *b;

    static u_char  usage[] = "{\"type\":\"context_usage\"";

    /*
     * What a message cost is told after what it says, as when it was live.  A
     * message costs once, so there is one such packet for it.
     */

    if (h->usage.len == 0
        && (size_t) (last - h->packet) > sizeof(usage)
        && ngx_memcmp(h->packet, usage, sizeof(usage) - 1) == 0)
    {
        ngx_http_agentstream_acp_add(&h->usage, h->packet, last - h->packet);
        return h->seq;
    }

    if (h->args.sse) {
        last = ngx_http_agentstream_sse_tail(last);
    }

    b = h->last->buf;

    h->filled += last - b->last;
    b->last = last;

    return ++h->seq;
}


ngx_int_t
ngx_http_agentstream_history_flush(ngx_http_agentstream_history_t *h)
{
    u_char  *p;

    if (h->usage.failed) {
        return NGX_ERROR;
    }

    if (h->usage.len == 0) {
        return NGX_OK;
    }

    p = ngx_http_agentstream_history_reserve(h, h->usage.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(p, h->usage.start, h->usage.len);

    (void) ngx_http_agentstream_history_commit(h, p, 0);

    h->usage.len = 0;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_history_close(ngx_http_agentstream_history_t *h)
{
    ngx_buf_t  *b;

    /* an event stream may be empty, but the response has an end */

    b = ngx_http_agentstream_history_room(h, 2);
    if (b == NULL) {
        return NGX_ERROR;
    }

    if (!h->args.sse) {
        if (h->seq == 0) {
            *b->last++ = '[';
        }

        *b->last++ = ']';
    }

    h->complete = 1;

    return NGX_OK;
}


/* nobody is told of subagents, and all that is stored is known */

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


static ngx_buf_t *
ngx_http_agentstream_history_room(ngx_http_agentstream_history_t *h,
    size_t size)
{
    u_char       *p;
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    b = h->filling ? h->last->buf : NULL;

    if (b && (size_t) (b->end - b->last) >= size) {
        return b;
    }

    size = ngx_max(size, NGX_HTTP_AGENTSTREAM_HISTORY_BUF);

    p = ngx_http_agentstream_output_alloc(size);
    if (p == NULL) {
        return NULL;
    }

    if (b && b->last == b->start) {
        /* nothing came to fit in: an empty one must not be sent */
        ngx_http_agentstream_output_free(b->start);

    } else {
        cl = ngx_chain_get_free_buf(h->request->pool, &h->free);
        if (cl == NULL) {
            ngx_http_agentstream_output_free(p);
            return NULL;
        }

        if (h->filling) {
            h->last->next = cl;

        } else {
            h->filling = cl;
        }

        h->last = cl;
        b = cl->buf;
    }

    b->start = p;
    b->last = p;
    b->end = p + size;

    return b;
}


ngx_int_t
ngx_http_agentstream_history_output(ngx_http_agentstream_history_t *h)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_uint_t    end;
    ngx_chain_t  *cl;

    if (h->output->busy) {
        return NGX_AGAIN;
    }

    if (h->filling && ngx_http_agentstream_history_header(h) != NGX_OK) {
        ngx_http_agentstream_output_finalize(h->output, NGX_ERROR);
        return NGX_DONE;
    }

    h->filled = 0;

    while (h->filling) {

        cl = h->filling;
        h->filling = cl->next;

        cl->next = h->free;
        h->free = cl;

        b = cl->buf;
        end = (h->complete && h->filling == NULL);

        rc = ngx_http_agentstream_output_send(h->output, b->start, b->last,
                                              end);

        if (rc == NGX_ERROR || end) {
            ngx_http_agentstream_output_finalize(h->output, rc);
            return NGX_DONE;
        }

        if (h->output->busy) {
            return NGX_AGAIN;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_history_header(ngx_http_agentstream_history_t *h)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = h->request;

    if (r->header_sent) {
        return NGX_OK;
    }

    if (h->args.sse) {
        return ngx_http_agentstream_output_header(r, NGX_HTTP_OK);
    }

    r->headers_out.status = NGX_HTTP_OK;

    if (ngx_http_agentstream_output_json_headers(r) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_http_agentstream_history_destroy_output(
    ngx_http_agentstream_history_t *h)
{
    ngx_chain_t  *cl;

    for (cl = h->filling; cl; cl = cl->next) {
        ngx_http_agentstream_output_free(cl->buf->start);
    }

    h->filling = NULL;

    ngx_http_agentstream_acp_destroy(&h->usage);
}
