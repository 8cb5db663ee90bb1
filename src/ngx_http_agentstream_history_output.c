
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 4: the response of a history.  Packets are put into buffers; these are
 * sent while others are filled, and freed as the client takes them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history_int.h"
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_sse.h"


#define NGX_HTTP_AGENTSTREAM_HISTORY_BUF  16384


/* on the heap, with room for the packets behind it */

typedef struct {
    ngx_chain_t                          link;     /* first, see below */
    ngx_buf_t                            buf;
} ngx_http_agentstream_history_buf_t;


static ngx_int_t ngx_http_agentstream_history_child(void *ctx,
    ngx_str_t *session);
static void ngx_http_agentstream_history_resolve(void *ctx,
    ngx_str_t *session, ngx_str_t *message);
static void ngx_http_agentstream_history_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits);

static ngx_buf_t *ngx_http_agentstream_history_room(
    ngx_http_agentstream_history_t *h, size_t size);
static ngx_buf_t *ngx_http_agentstream_history_last(
    ngx_http_agentstream_history_t *h);
static ngx_int_t ngx_http_agentstream_history_header(
    ngx_http_agentstream_history_t *h);
static ngx_int_t ngx_http_agentstream_history_send(
    ngx_http_agentstream_history_t *h, ngx_chain_t *out);
static void ngx_http_agentstream_history_free(ngx_chain_t *cl);
static void ngx_http_agentstream_history_write_handler(ngx_http_request_t *r);


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

    b = ngx_http_agentstream_history_last(h);

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
    u_char                               *p;
    ngx_buf_t                            *b;
    ngx_chain_t                         **last;
    ngx_http_agentstream_history_buf_t   *hb;

    b = ngx_http_agentstream_history_last(h);

    if (b && (size_t) (b->end - b->last) >= size) {
        return b;
    }

    size = ngx_max(size, NGX_HTTP_AGENTSTREAM_HISTORY_BUF
                         - sizeof(ngx_http_agentstream_history_buf_t));

    p = ngx_alloc(sizeof(ngx_http_agentstream_history_buf_t) + size,
                  h->request->connection->log);
    if (p == NULL) {
        return NULL;
    }

    hb = (ngx_http_agentstream_history_buf_t *) p;
    p += sizeof(ngx_http_agentstream_history_buf_t);

    ngx_memzero(hb, sizeof(ngx_http_agentstream_history_buf_t));

    b = &hb->buf;

    b->start = p;
    b->pos = p;
    b->last = p;
    b->end = p + size;
    b->temporary = 1;
    b->tag = (ngx_buf_tag_t) &ngx_http_agentstream_module;

    hb->link.buf = b;

    for (last = &h->filling; *last; last = &(*last)->next) {

        if ((*last)->next == NULL && ngx_buf_size((*last)->buf) == 0) {
            /* nothing came to fit in: an empty one must not be sent */
            ngx_http_agentstream_history_free(*last);
            break;
        }
    }

    *last = &hb->link;

    return b;
}


static ngx_buf_t *
ngx_http_agentstream_history_last(ngx_http_agentstream_history_t *h)
{
    ngx_chain_t  *cl;

    if (h->filling == NULL) {
        return NULL;
    }

    for (cl = h->filling; cl->next; cl = cl->next) { /* void */ }

    return cl->buf;
}


ngx_int_t
ngx_http_agentstream_history_output(ngx_http_agentstream_history_t *h)
{
    ngx_int_t   rc;
    ngx_buf_t  *b;

    if (h->busy) {
        return NGX_AGAIN;
    }

    if (h->filling == NULL) {
        return NGX_OK;
    }

    b = ngx_http_agentstream_history_last(h);

    b->flush = 1;
    b->last_buf = h->complete;

    /* the last one may be empty, which is not a temporary one */

    b->temporary = (b->last != b->pos);

    h->sending = h->filling;
    h->filling = NULL;
    h->filled = 0;

    rc = ngx_http_agentstream_history_header(h);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_history_send(h, h->sending);
    }

    if (rc == NGX_ERROR || h->complete) {
        ngx_http_finalize_request(h->request, rc);
        return NGX_DONE;
    }

    return h->busy ? NGX_AGAIN : NGX_OK;
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

    r->headers_out.status = NGX_HTTP_OK;

    if (h->args.sse) {
        if (ngx_http_agentstream_output_headers(r) != NGX_OK) {
            return NGX_ERROR;
        }

    } else {
        ngx_str_set(&r->headers_out.content_type, "application/json");
        r->headers_out.content_type_len = r->headers_out.content_type.len;
        r->headers_out.content_type_lowcase = NULL;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_history_send(ngx_http_agentstream_history_t *h,
    ngx_chain_t *out)
{
    ngx_int_t                  rc;
    ngx_chain_t               *cl;
    ngx_event_t               *wev;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = h->request;
    wev = r->connection->write;

    rc = ngx_http_output_filter(r, out);

    if (rc == NGX_ERROR || h->complete) {
        /* finalizing sends the rest */
        return rc;
    }

    while (h->sending && ngx_buf_size(h->sending->buf) == 0) {
        cl = h->sending;
        h->sending = cl->next;
        ngx_http_agentstream_history_free(cl);
    }

    h->busy = (h->sending != NULL || rc == NGX_AGAIN);

    if (!h->busy) {

        if (wev->timer_set && !wev->delayed) {
            ngx_del_timer(wev);
        }

        return NGX_OK;
    }

    r->write_event_handler = ngx_http_agentstream_history_write_handler;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (!wev->delayed) {
        ngx_add_timer(wev, clcf->send_timeout);
    }

    if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
        return NGX_ERROR;
    }

    return NGX_AGAIN;
}


static void
ngx_http_agentstream_history_write_handler(ngx_http_request_t *r)
{
    ngx_int_t                        rc;
    ngx_event_t                     *wev;
    ngx_http_agentstream_history_t  *h;

    h = ngx_http_get_module_ctx(r, ngx_http_agentstream_module);
    wev = r->connection->write;

    if (wev->timedout) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, NGX_ETIMEDOUT,
                      "client timed out");
        r->connection->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    if (!h->busy) {
        return;
    }

    rc = ngx_http_agentstream_history_send(h, NULL);

    if (rc == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
        return;
    }

    if (!h->busy) {
        ngx_http_agentstream_history_continue(h);
    }
}


static void
ngx_http_agentstream_history_free(ngx_chain_t *cl)
{
    /* the link is at the start of what was allocated */

    ngx_free(cl);
}


void
ngx_http_agentstream_history_free_output(void *data)
{
    ngx_http_agentstream_history_t *h = data;

    ngx_chain_t  *cl, *next;

    for (cl = h->sending; cl; cl = next) {
        next = cl->next;
        ngx_http_agentstream_history_free(cl);
    }

    for (cl = h->filling; cl; cl = next) {
        next = cl->next;
        ngx_http_agentstream_history_free(cl);
    }

    h->sending = NULL;
    h->filling = NULL;

    ngx_http_agentstream_acp_destroy(&h->usage);
    ngx_http_agentstream_acp_destroy(&h->rest);
}
