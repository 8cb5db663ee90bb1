
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Filters that capture OpenCode's answers.  They stand between nginx's copy
 * filter and the filters that format responses for clients.  They take the
 * answer to a call out of the chain, either stream it to the part that opened
 * the call or collect it, and pass nothing on.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_call_int.h"


#define NGX_HTTP_AGENTSTREAM_CALL_BUFFER  32768

/*
 * nginx reads an answer as long as there is more of it.  After this many bytes
 * everything else in the worker has its turn first: clients, other calls,
 * wake-ups.  With the buffer at hand that is at most 256 kB, and takes about a
 * millisecond.  Less would cost more: what many turns have got in one cycle is
 * written to each of their clients at once.
 */
#define NGX_HTTP_AGENTSTREAM_CALL_TURN    229376


/* whether no more of the answer may be taken for now */
#define ngx_http_agentstream_call_waits(call)                                 \
    ((call)->paused || (call)->yield.posted)


static ngx_int_t ngx_http_agentstream_call_header_filter(
    ngx_http_request_t *r);
static void ngx_http_agentstream_call_refused(
    ngx_http_agentstream_call_t *call, ngx_log_t *log);
static void ngx_http_agentstream_call_retry_after(
    ngx_http_agentstream_call_t *call, ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_call_enlarge(ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_call_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_agentstream_call_take(
    ngx_http_agentstream_call_t *call, ngx_buf_t *b);
static ngx_int_t ngx_http_agentstream_call_hold(ngx_http_request_t *r,
    ngx_http_agentstream_call_t *call, ngx_chain_t *in);
static void ngx_http_agentstream_call_continue(
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_call_split(
    ngx_http_agentstream_call_t *call, u_char *pos, size_t len);
static ngx_int_t ngx_http_agentstream_call_element(void *ctx, u_char *text,
    size_t len);
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

    if (call->status == NGX_HTTP_TOO_MANY_REQUESTS
        || call->status == NGX_HTTP_SERVICE_UNAVAILABLE)
    {
        ngx_http_agentstream_call_retry_after(call, r);
    }

    if (call->status >= NGX_HTTP_BAD_REQUEST && !call->subscription) {
        ngx_http_agentstream_call_refused(call, r->connection->log);
    }

    r->header_sent = 1;
    r->filter_need_in_memory = 1;

    if (r->upstream) {
        r->upstream->buffering = 0;
    }

    /* once a stream has begun, it may last as long as it likes */

    if (call->kind == NGX_HTTP_AGENTSTREAM_CALL_STREAM
        && call->timer.timer_set)
    {
        ngx_del_timer(&call->timer);
    }

    if (call->body_handler == NULL) {
        return NGX_OK;
    }

    if (call->status != NGX_HTTP_OK) {
        /* body_handler expects pieces of a successful answer only */
        return NGX_ERROR;
    }

    return r->upstream ? ngx_http_agentstream_call_enlarge(r) : NGX_OK;
}


/*
 * That something is not found, or conflicts, can be a client's mistake.
 * Anything else is a matter for whoever has configured the location or runs
 * OpenCode, for example a wrong password.
 */

static void
ngx_http_agentstream_call_refused(ngx_http_agentstream_call_t *call,
    ngx_log_t *log)
{
    ngx_uint_t  level;

    level = (call->status == NGX_HTTP_BAD_REQUEST
             || call->status == NGX_HTTP_NOT_FOUND
             || call->status == NGX_HTTP_CONFLICT)
            ? NGX_LOG_INFO : NGX_LOG_ERR;

    ngx_log_error(level, log, 0,
                  "agentstream call: OpenCode answered with status %ui",
                  call->status);
}


/* when the other side wants to be asked again; without memory this is not
   known, as if it had not said it */

static void
ngx_http_agentstream_call_retry_after(ngx_http_agentstream_call_t *call,
    ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    part = &r->headers_out.headers.part;

    for (h = part->elts, i = 0; /* void */ ; i++) {

        if (i == part->nelts) {
            if (part->next == NULL) {
                return;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len == sizeof("Retry-After") - 1
            && ngx_strncasecmp(h[i].key.data, (u_char *) "Retry-After",
                               sizeof("Retry-After") - 1)
               == 0)
        {
            call->retry_after.data = ngx_pstrdup(call->pool, &h[i].value);
            call->retry_after.len = call->retry_after.data ? h[i].value.len
                                                           : 0;
            return;
        }
    }
}


/* proxy_buffer_size is meant for headers; a stream needs fewer and larger
   reads */

static ngx_int_t
ngx_http_agentstream_call_enlarge(ngx_http_request_t *r)
{
    u_char     *p;
    ngx_buf_t  *b;

    b = &r->upstream->buffer;

    if (b->end - b->start >= NGX_HTTP_AGENTSTREAM_CALL_BUFFER) {
        return NGX_OK;
    }

    p = ngx_palloc(r->pool, NGX_HTTP_AGENTSTREAM_CALL_BUFFER);
    if (p == NULL) {
        return NGX_ERROR;
    }

    b->last = ngx_cpymem(p, b->pos, b->last - b->pos);
    b->pos = p;
    b->start = p;
    b->end = p + NGX_HTTP_AGENTSTREAM_CALL_BUFFER;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_call_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_int_t                     rc;
    ngx_chain_t                  *cl;
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_of(r);

    if (call == NULL) {
        return ngx_http_next_body_filter(r, in);
    }

    call->source = r;

    while (call->held && !ngx_http_agentstream_call_waits(call)) {
        cl = call->held;
        call->held = cl->next;

        rc = ngx_http_agentstream_call_take(call, cl->buf);

        ngx_free_chain(r->pool, cl);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    for ( /* void */ ; in; in = in->next) {

        /* only an upstream can be paused: it stops reading when its buffer is
           full of data that was not consumed */

        if (ngx_http_agentstream_call_waits(call) && r->upstream
            && ngx_buf_size(in->buf))
        {
            return ngx_http_agentstream_call_hold(r, call, in);
        }

        rc = ngx_http_agentstream_call_take(call, in->buf);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return call->held ? NGX_AGAIN : NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_call_take(ngx_http_agentstream_call_t *call,
    ngx_buf_t *b)
{
    size_t      len;
    u_char     *pos;
    ngx_int_t   rc;

    if (b->last_buf || b->last_in_chain) {
        call->complete = 1;
    }

    if (!ngx_buf_in_memory(b)) {
        b->file_pos = b->file_last;
        return NGX_OK;
    }

    pos = b->pos;
    len = b->last - b->pos;
    b->pos = b->last;

    if (len == 0) {
        return NGX_OK;
    }

    if (call->body_handler) {
        call->filtering = 1;
        rc = call->body_handler(call->data, pos, len);
        call->filtering = 0;

    } else if (call->element_handler) {
        rc = ngx_http_agentstream_call_split(call, pos, len);

    } else {
        rc = ngx_http_agentstream_call_collect(call, pos, len);
    }

    if (rc == NGX_AGAIN) {
        call->paused = 1;
        rc = NGX_OK;
    }

    call->taken += len;

    if (call->taken >= NGX_HTTP_AGENTSTREAM_CALL_TURN
        && call->source->upstream)
    {
        call->taken = 0;
        ngx_post_event(&call->yield, &ngx_posted_next_events);
    }

    return (rc == NGX_OK && !call->closed) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_agentstream_call_hold(ngx_http_request_t *r,
    ngx_http_agentstream_call_t *call, ngx_chain_t *in)
{
    ngx_chain_t  *cl, **last;

    for (last = &call->held; *last; last = &(*last)->next) { /* void */ }

    for ( /* void */ ; in; in = in->next) {
        cl = ngx_alloc_chain_link(r->pool);
        if (cl == NULL) {
            return NGX_ERROR;
        }

        cl->buf = in->buf;
        cl->next = NULL;

        *last = cl;
        last = &cl->next;
    }

    return NGX_AGAIN;
}


void
ngx_http_agentstream_call_resume(ngx_http_agentstream_call_t *call)
{
    if (!call->paused) {
        return;
    }

    call->paused = 0;

    if (call->running) {
        ngx_http_agentstream_call_continue(call);
    }
}


void
ngx_http_agentstream_call_yield_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_call_continue(ev->data);
}


static void
ngx_http_agentstream_call_continue(ngx_http_agentstream_call_t *call)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    if (ngx_http_agentstream_call_waits(call)) {
        return;
    }

    r = call->source;
    c = r->connection;

    r->write_event_handler(r);

    ngx_http_run_posted_requests(c);
}


static ngx_int_t
ngx_http_agentstream_call_split(ngx_http_agentstream_call_t *call, u_char *pos,
    size_t len)
{
    ngx_int_t  rc;

    if (call->status != NGX_HTTP_OK) {
        /* the answer is not a list, and nobody reads the rest of it */
        return NGX_OK;
    }

    call->split.limit = call->limit;
    call->split.handler = ngx_http_agentstream_call_element;
    call->split.ctx = call;

    call->filtering = 1;
    rc = ngx_http_agentstream_json_split_feed(&call->split, pos, len);
    call->filtering = 0;

    call->nonsense = (rc == NGX_DECLINED);

    return (rc == NGX_OK) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_agentstream_call_element(void *ctx, u_char *text, size_t len)
{
    ngx_http_agentstream_call_t *call = ctx;

    ngx_int_t  rc;

    rc = ngx_http_agentstream_json_parse(&call->json, text, len);

    if (rc == NGX_OK) {
        rc = call->element_handler(call->data, &call->json);
    }

    return (rc == NGX_OK && call->closed) ? NGX_ERROR : rc;
}


static ngx_int_t
ngx_http_agentstream_call_collect(ngx_http_agentstream_call_t *call,
    u_char *pos, size_t len)
{
    size_t   size;
    u_char  *p;

    if (call->limit - call->body.len < len) {
        ngx_log_error(NGX_LOG_ERR, call->request->connection->log, 0,
                      "agentstream call: the answer exceeds %uz bytes",
                      call->limit);
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
