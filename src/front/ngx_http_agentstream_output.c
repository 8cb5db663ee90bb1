
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The output.  The filters are called once for each buffer; until the client
 * has taken it, no more data is requested.  Buffers and chain links are
 * reused, so that a stream that is open for a day does not grow.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <nginx.h>
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_store.h"


/* in milliseconds; how often a response without comments has a timer is of no
   importance */
#define NGX_HTTP_AGENTSTREAM_OUTPUT_HOLD  60000


typedef struct ngx_http_agentstream_output_mem_s {
    size_t                               size;     /* of data */
    u_char                               data[1];
} ngx_http_agentstream_output_mem_t;


static void ngx_http_agentstream_output_wait_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_output_test_writing(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_output_init(
    ngx_http_agentstream_output_t *out);
static void ngx_http_agentstream_output_cleanup(void *data);
static void ngx_http_agentstream_output_free_buf(void *data);
static ngx_int_t ngx_http_agentstream_output_push(
    ngx_http_agentstream_output_t *out, ngx_chain_t *in);
static void ngx_http_agentstream_output_write_handler(ngx_http_request_t *r);
static void ngx_http_agentstream_output_timer_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_agentstream_output_no_cache(ngx_http_request_t *r);


/* a client that keeps up takes its buffer at once, so that one spare buffer
   serves almost all clients */

u_char *
ngx_http_agentstream_output_alloc(size_t size)
{
    ngx_http_agentstream_output_mem_t  *mem;

    mem = ngx_http_agentstream_worker->spare;

    if (mem && size <= mem->size) {
        ngx_http_agentstream_worker->spare = NULL;
        return mem->data;
    }

    size = ngx_max(size, NGX_HTTP_AGENTSTREAM_OUTPUT_SIZE);

    mem = ngx_alloc(sizeof(ngx_http_agentstream_output_mem_t) + size,
                    ngx_cycle->log);
    if (mem == NULL) {
        return NULL;
    }

    mem->size = size;

    return mem->data;
}


void
ngx_http_agentstream_output_free(u_char *p)
{
    ngx_http_agentstream_output_mem_t  *mem;

    mem = (ngx_http_agentstream_output_mem_t *)
              (p - offsetof(ngx_http_agentstream_output_mem_t, data));

    if (mem->size == NGX_HTTP_AGENTSTREAM_OUTPUT_SIZE
        && ngx_http_agentstream_worker->spare == NULL)
    {
        ngx_http_agentstream_worker->spare = mem;
        return;
    }

    ngx_free(mem);
}


u_char *
ngx_http_agentstream_output_room(ngx_http_agentstream_output_text_t *text,
    size_t size)
{
    u_char  *p;
    size_t   used;

    if ((size_t) (text->end - text->last) >= size) {
        return text->last;
    }

    used = text->last - text->start;
    size = ngx_max(used * 2, used + size);
    size = ngx_max(size, NGX_HTTP_AGENTSTREAM_OUTPUT_SIZE);

    p = ngx_http_agentstream_output_alloc(size);
    if (p == NULL) {
        return NULL;
    }

    if (text->start) {
        ngx_memcpy(p, text->start, used);
        ngx_http_agentstream_output_free(text->start);
    }

    text->start = p;
    text->last = p + used;
    text->end = p + size;

    return text->last;
}


void
ngx_http_agentstream_output_wait(ngx_http_request_t *r)
{
    ngx_event_t  *rev, *wev;

    /* a worker that exits need not linger for a request that was read
       completely */
    r->lingering_close = 0;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_agentstream_output_wait_handler;

    rev = r->connection->read;
    wev = r->connection->write;

    if (rev->ready) {
        ngx_post_event(rev, &ngx_posted_events);
    }

    if (wev->error) {
        ngx_post_event(wev, &ngx_posted_events);
    }
}


static void
ngx_http_agentstream_output_wait_handler(ngx_http_request_t *r)
{
    (void) ngx_http_agentstream_output_test_writing(r);
}


/*
 * An HTTP/3 client that does not want the rest of a response sends
 * STOP_SENDING.  The request was read completely, so it has no error, and
 * test_reading() sees nothing; but nothing can be written any more.  NGX_DONE:
 * the client has left, and the request was finalized.
 */

static ngx_int_t
ngx_http_agentstream_output_test_writing(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    if (!c->write->error) {
        return NGX_OK;
    }

    c->error = 1;

    ngx_log_error(NGX_LOG_INFO, c->log, 0,
                  "client prematurely closed connection");

    ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);

    return NGX_DONE;
}


void
ngx_http_agentstream_output_exit_worker(void)
{
    if (ngx_http_agentstream_worker->spare) {
        ngx_free(ngx_http_agentstream_worker->spare);
        ngx_http_agentstream_worker->spare = NULL;
    }
}


ngx_int_t
ngx_http_agentstream_output_open(ngx_http_agentstream_output_t *out,
    ngx_http_agentstream_wire_t *wire, ngx_msec_t keepalive,
    ngx_http_agentstream_output_pt handler,
    ngx_http_agentstream_output_pt destroy, void *data)
{
    ngx_http_request_t  *r;

    r = out->request;

    if (out->timer.handler == NULL) {

        if (ngx_http_agentstream_output_init(out) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_http_agentstream_count(STREAMS, 1);
    }

    out->wire = wire;
    out->keepalive = wire->comment.len ? keepalive : 0;
    out->handler = handler;
    out->destroy = destroy;
    out->data = data;

    ngx_http_agentstream_output_wait(r);
    r->write_event_handler = ngx_http_agentstream_output_write_handler;

    out->sent_at = ngx_current_msec;

    /* a worker exits as soon as it has no timers left, and a response that
       waits for something in the next cycle of the event loop has none */

    ngx_add_timer(&out->timer, out->keepalive
                               ? out->keepalive
                               : NGX_HTTP_AGENTSTREAM_OUTPUT_HOLD);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_output_init(ngx_http_agentstream_output_t *out)
{
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_cleanup_t        *cln;
    ngx_pool_cleanup_t        *pcln;
    ngx_http_core_loc_conf_t  *clcf;

    r = out->request;
    c = r->connection;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    /* a packet must not wait until the one before it is acknowledged */

    if (clcf->tcp_nodelay && ngx_tcp_nodelay(c) != NGX_OK) {
        return NGX_ERROR;
    }

    cln = ngx_http_cleanup_add(r, 0);
    pcln = ngx_pool_cleanup_add(r->pool, 0);

    if (cln == NULL || pcln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_agentstream_output_cleanup;
    cln->data = out;

    pcln->handler = ngx_http_agentstream_output_free_buf;
    pcln->data = out;

    out->timer.handler = ngx_http_agentstream_output_timer_handler;
    out->timer.data = out;
    out->timer.log = c->log;

    return NGX_OK;
}


static void
ngx_http_agentstream_output_cleanup(void *data)
{
    ngx_http_agentstream_output_t *out = data;

    if (out->timer.timer_set) {
        ngx_del_timer(&out->timer);
    }

    ngx_http_agentstream_count(STREAMS, -1);

    out->destroy(out->data);
}


/* HTTP/2 frames may point to the buffer as long as the pool exists */

static void
ngx_http_agentstream_output_free_buf(void *data)
{
    ngx_http_agentstream_output_t *out = data;

    if (out->buf.start) {
        ngx_http_agentstream_output_free(out->buf.start);
        out->buf.start = NULL;
    }
}


ngx_int_t
ngx_http_agentstream_output_header(ngx_http_request_t *r,
    ngx_http_agentstream_wire_t *wire, ngx_uint_t status)
{
    ngx_int_t  rc;

    r->headers_out.status = status;

    if (ngx_http_agentstream_output_headers(r, wire) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return NGX_ERROR;
    }

    if (wire->stream) {
        ngx_http_agentstream_count(OPENED, 1);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_output_send(ngx_http_agentstream_output_t *out,
    u_char *p, u_char *last, ngx_uint_t end)
{
    ngx_int_t            rc;
    ngx_buf_t           *b;
    ngx_http_request_t  *r;

    r = out->request;
    b = &out->buf;

    ngx_memzero(b, sizeof(ngx_buf_t));

    b->start = p;
    b->pos = p;
    b->last = last;
    b->temporary = (p != last);
    b->flush = 1;
    b->last_buf = end;
    b->tag = (ngx_buf_tag_t) &ngx_http_agentstream_module;

    out->link.buf = b;
    out->link.next = NULL;
    out->last = end;

    rc = ngx_http_agentstream_output_push(out, &out->link);

    if (r->main->posted_requests) {
        /* a filter has started a subrequest; here it could end this request
           under its user */
        ngx_post_event(r->connection->write, &ngx_posted_events);
    }

    return rc;
}


static ngx_int_t
ngx_http_agentstream_output_push(ngx_http_agentstream_output_t *out,
    ngx_chain_t *in)
{
    ngx_int_t                  rc;
    ngx_event_t               *wev;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = out->request;
    wev = r->connection->write;

    rc = ngx_http_output_filter(r, in);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    out->sent_at = ngx_current_msec;

    if (ngx_buf_size(&out->buf) == 0) {

        ngx_http_agentstream_output_free_buf(out);

        if (rc != NGX_AGAIN) {
            out->busy = 0;

            if (wev->timer_set && !wev->delayed) {
                ngx_del_timer(wev);
            }

            return rc;
        }

        /* a copy of the buffer, or the end of its chunk, is still being
           sent */
    }

    if (out->last) {
        /* finalizing the request sends the rest */
        return rc;
    }

    out->busy = 1;
    r->write_event_handler = ngx_http_agentstream_output_write_handler;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (!wev->delayed) {
        ngx_add_timer(wev, clcf->send_timeout);
    }

    if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
        return NGX_ERROR;
    }

    return NGX_AGAIN;
}


void
ngx_http_agentstream_output_finalize(ngx_http_agentstream_output_t *out,
    ngx_int_t rc)
{
    ngx_connection_t  *c;

    c = out->request->connection;

    if (out->timer.timer_set) {
        ngx_del_timer(&out->timer);
    }

    /* the header filters must not run twice */

    if (out->request->headers_out.status) {
        rc = (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? NGX_ERROR : rc;

    } else if (rc == NGX_ERROR) {
        rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_finalize_request(out->request, rc);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_agentstream_output_write_handler(ngx_http_request_t *r)
{
    ngx_int_t                       rc;
    ngx_http_agentstream_output_t  *out;

    out = ngx_http_get_module_ctx(r, ngx_http_agentstream_module);

    if (r->connection->write->timedout) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, NGX_ETIMEDOUT,
                      "client timed out");
        r->connection->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    if (ngx_http_agentstream_output_test_writing(r) != NGX_OK || !out->busy) {
        return;
    }

    rc = ngx_http_agentstream_output_push(out, NULL);

    if (rc == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
        return;
    }

    if (!out->busy) {
        out->handler(out->data);
    }
}


/* docs/protocol.md, "Stream format": a comment after a silence, so that
   nothing on the way closes the connection */

static void
ngx_http_agentstream_output_timer_handler(ngx_event_t *ev)
{
    ngx_int_t                       rc;
    ngx_buf_t                      *b;
    ngx_msec_t                      silent;
    ngx_connection_t               *c;
    ngx_http_request_t             *r;
    ngx_http_agentstream_output_t  *out;

    out = ev->data;
    r = out->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    if (out->keepalive == 0) {
        ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_OUTPUT_HOLD);
        return;
    }

    silent = ngx_current_msec - out->sent_at;

    if (silent < out->keepalive) {
        ngx_add_timer(ev, out->keepalive - silent);
        return;
    }

    ngx_add_timer(ev, out->keepalive);

    if (out->busy || !r->header_sent) {
        return;
    }

    b = &out->buf;

    ngx_memzero(b, sizeof(ngx_buf_t));

    b->pos = out->wire->comment.data;
    b->last = b->pos + out->wire->comment.len;
    b->memory = 1;
    b->flush = 1;
    b->tag = (ngx_buf_tag_t) &ngx_http_agentstream_module;

    out->link.buf = b;
    out->link.next = NULL;

    rc = ngx_http_agentstream_output_push(out, &out->link);

    if (rc == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
    }

    ngx_http_run_posted_requests(c);
}


ngx_int_t
ngx_http_agentstream_output_headers(ngx_http_request_t *r,
    ngx_http_agentstream_wire_t *wire)
{
    r->headers_out.content_type = wire->content_type;
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    if (!wire->stream) {
        return ngx_http_agentstream_output_no_cache(r);
    }

#if (NGX_HTTP_GZIP)
    /* docs/protocol.md, "Stream format": the response is never compressed */
    r->gzip_tested = 1;
    r->gzip_ok = 0;
#endif

    if (ngx_http_agentstream_output_no_cache(r) != NGX_OK) {
        return NGX_ERROR;
    }

    if (wire->header.len
        && ngx_http_agentstream_output_add_header(r,
                                              (char *) wire->header.data,
                                              (char *) wire->value.data)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_output_add_header(r, "X-Accel-Buffering",
                                                  "no");
}


ngx_int_t
ngx_http_agentstream_output_json_headers(ngx_http_request_t *r)
{
    ngx_str_set(&r->headers_out.content_type, "application/json");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    return ngx_http_agentstream_output_no_cache(r);
}


ngx_int_t
ngx_http_agentstream_output_nothing(ngx_http_request_t *r)
{
    if (ngx_http_agentstream_output_no_cache(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = NGX_HTTP_NO_CONTENT;
    r->header_only = 1;

    return ngx_http_send_header(r);
}


/*
 * "expires" in the configuration changes the headers that nginx regards as the
 * response's Cache-Control and Expires, or adds them if there are none.  So it
 * is given headers that are not in the list of headers to send: no cache may
 * keep what is true only now.
 */

static ngx_int_t
ngx_http_agentstream_output_no_cache(ngx_http_request_t *r)
{
    ngx_table_elt_t  *control, *expires;

    control = ngx_pcalloc(r->pool, 2 * sizeof(ngx_table_elt_t));
    if (control == NULL) {
        return NGX_ERROR;
    }

    expires = control + 1;

    /* other code looks at them, too: gzip_proxied, $sent_http_cache_control */

    control->hash = 1;
    ngx_str_set(&control->value, "no-cache");

    expires->hash = 1;
    ngx_str_set(&expires->value, "Thu, 01 Jan 1970 00:00:01 GMT");

    r->headers_out.expires = expires;

#if (nginx_version >= 1023000)
    r->headers_out.cache_control = control;
#else
    if (ngx_array_init(&r->headers_out.cache_control, r->pool, 1,
                       sizeof(ngx_table_elt_t *))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    *(ngx_table_elt_t **) r->headers_out.cache_control.elts = control;
    r->headers_out.cache_control.nelts = 1;
#endif

    return ngx_http_agentstream_output_add_header(r, "Cache-Control",
                                                  "no-cache");
}


ngx_int_t
ngx_http_agentstream_output_add_header(ngx_http_request_t *r, const char *key,
    const char *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    h->key.len = ngx_strlen(key);
    h->key.data = (u_char *) key;
    h->value.len = ngx_strlen(value);
    h->value.data = (u_char *) value;

    return NGX_OK;
}
