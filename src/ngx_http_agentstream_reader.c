
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 4: the reader.  Woken, it copies what is new from the journal into a
 * buffer and sends that with one call; while the client has not taken the
 * buffer, nothing more is read.  The headers wait for the first packet, so
 * that a turn that fails before it starts has its proper status.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_journal.h"
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_reader.h"


#define NGX_HTTP_AGENTSTREAM_READER_SIZE  16384


typedef struct {
    ngx_http_request_t                  *request;
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_http_agentstream_waiter_t        waiter;
    ngx_http_agentstream_cursor_t        cursor;
    ngx_str_t                            turn;

    ngx_buf_t                            buf;      /* its memory is from the
                                                      heap and lives until it
                                                      is sent */
    ngx_chain_t                          link;
    ngx_event_t                          keepalive;
    ngx_msec_t                           sent_at;

    unsigned                             busy:1;   /* buf is on its way */
    unsigned                             last:1;   /* ... and ends it all */
} ngx_http_agentstream_reader_t;


static void ngx_http_agentstream_reader_cleanup(void *data);
static void ngx_http_agentstream_reader_wake_handler(void *data);
static ngx_int_t ngx_http_agentstream_reader_fill(
    ngx_http_agentstream_reader_t *reader);
static ngx_int_t ngx_http_agentstream_reader_header(
    ngx_http_agentstream_reader_t *reader, ngx_uint_t status);
static ngx_int_t ngx_http_agentstream_reader_output(
    ngx_http_agentstream_reader_t *reader, ngx_chain_t *out);
static void ngx_http_agentstream_reader_write_handler(ngx_http_request_t *r);
static void ngx_http_agentstream_reader_keepalive_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_agentstream_reader_add_header(ngx_http_request_t *r,
    const char *key, const char *value);


ngx_int_t
ngx_http_agentstream_reader_attach(ngx_http_request_t *r,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *turn, uint64_t seq)
{
    ngx_connection_t               *c;
    ngx_http_cleanup_t             *cln;
    ngx_http_agentstream_reader_t  *reader;

    c = r->connection;

    reader = ngx_pcalloc(r->pool, sizeof(ngx_http_agentstream_reader_t));
    if (reader == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    reader->request = r;
    reader->conf = conf;
    reader->cursor.seq = seq;
    reader->sent_at = ngx_current_msec;

    reader->turn.len = turn->len;
    reader->turn.data = ngx_pstrdup(r->pool, turn);
    if (reader->turn.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    reader->keepalive.handler = ngx_http_agentstream_reader_keepalive_handler;
    reader->keepalive.data = reader;
    reader->keepalive.log = c->log;

    reader->waiter.handler = ngx_http_agentstream_reader_wake_handler;
    reader->waiter.data = reader;

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_agentstream_reader_cleanup;
    cln->data = reader;

    if (ngx_http_agentstream_notify_attach(&reader->waiter, &reader->turn)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_set_ctx(r, reader, ngx_http_agentstream_module);

    /* the body was read whole: a worker that leaves need not linger */
    r->lingering_close = 0;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    if (c->read->ready) {
        ngx_post_event(c->read, &ngx_posted_events);
    }

    if (conf->keepalive) {
        ngx_add_timer(&reader->keepalive, conf->keepalive);
    }

    ngx_http_agentstream_reader_wake_handler(reader);

    return NGX_DONE;
}


static void
ngx_http_agentstream_reader_cleanup(void *data)
{
    ngx_http_agentstream_reader_t *reader = data;

    ngx_http_agentstream_notify_detach(&reader->waiter);

    if (reader->keepalive.timer_set) {
        ngx_del_timer(&reader->keepalive);
    }

    if (reader->buf.start) {
        ngx_free(reader->buf.start);
        reader->buf.start = NULL;
    }
}


static void
ngx_http_agentstream_reader_wake_handler(void *data)
{
    ngx_http_agentstream_reader_t *reader = data;

    ngx_int_t            rc;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = reader->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    while (!reader->busy) {
        rc = ngx_http_agentstream_reader_fill(reader);

        if (rc == NGX_AGAIN) {
            return;
        }

        if (rc == NGX_OK) {
            rc = ngx_http_agentstream_reader_output(reader, &reader->link);
        }

        if (rc == NGX_ERROR || reader->last) {
            ngx_http_agentstream_notify_detach(&reader->waiter);
            ngx_http_finalize_request(r, rc);
            ngx_http_run_posted_requests(c);
            return;
        }
    }
}


/* NGX_OK: buf has something to send; NGX_AGAIN: nothing new */

static ngx_int_t
ngx_http_agentstream_reader_fill(ngx_http_agentstream_reader_t *reader)
{
    size_t                        size, need, n;
    u_char                       *p;
    ngx_buf_t                    *b;
    ngx_uint_t                    status, found, late;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    p = NULL;
    size = NGX_HTTP_AGENTSTREAM_READER_SIZE;

    for ( ;; ) {
        need = 0;
        n = 0;
        status = 0;
        late = 0;

        ngx_http_agentstream_zone_lock(zone);

        node = ngx_http_agentstream_zone_find_locked(zone, &reader->turn);
        found = (node != NULL);

        if (found) {
            status = node->status;
            late = (reader->cursor.seq < node->journal.first_seq);

            if (reader->cursor.seq > node->journal.last_seq) {
                size = 0;

            } else if (p && !late) {
                n = ngx_http_agentstream_journal_read_locked(node,
                                           &reader->cursor, p, size, &need);
            }

            reader->last = (node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED
                            && reader->cursor.seq > node->journal.last_seq);
        }

        ngx_http_agentstream_zone_unlock(zone);

        if (!found || late) {
            /* what the client wants is gone: it must not think it is done */
            ngx_log_error(NGX_LOG_WARN, reader->request->connection->log, 0,
                          "agentstream reader: packets from %uL on of turn %V "
                          "are not kept any more", reader->cursor.seq,
                          &reader->turn);
            goto failed;
        }

        if (n || size == 0) {
            break;
        }

        if (need) {
            ngx_free(p);
            size = need;
        }

        p = ngx_alloc(size, reader->request->connection->log);
        if (p == NULL) {
            return NGX_ERROR;
        }
    }

    if (n == 0 && !reader->last) {
        return NGX_AGAIN;
    }

    b = &reader->buf;

    ngx_memzero(b, sizeof(ngx_buf_t));

    b->start = p;
    b->pos = p;
    b->last = p + n;
    b->end = p + size;
    b->temporary = (n != 0);
    b->flush = 1;
    b->last_buf = reader->last;
    b->tag = (ngx_buf_tag_t) &ngx_http_agentstream_module;

    reader->link.buf = b;
    reader->link.next = NULL;

    if (!reader->request->header_sent) {
        return ngx_http_agentstream_reader_header(reader, status);
    }

    return NGX_OK;

failed:

    if (p) {
        ngx_free(p);
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_agentstream_reader_header(ngx_http_agentstream_reader_t *reader,
    ngx_uint_t status)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = reader->request;

    r->headers_out.status = status ? status : NGX_HTTP_OK;

    if (ngx_http_agentstream_reader_headers(r) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_reader_output(ngx_http_agentstream_reader_t *reader,
    ngx_chain_t *out)
{
    ngx_int_t                  rc;
    ngx_event_t               *wev;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = reader->request;
    wev = r->connection->write;

    rc = ngx_http_output_filter(r, out);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    reader->sent_at = ngx_current_msec;

    if (ngx_buf_size(&reader->buf) == 0) {

        if (reader->buf.start) {
            ngx_free(reader->buf.start);
            reader->buf.start = NULL;
        }

        reader->busy = 0;

        if (wev->timer_set && !wev->delayed) {
            ngx_del_timer(wev);
        }

        return rc;
    }

    if (reader->last) {
        /* finalizing sends the rest */
        return rc;
    }

    reader->busy = 1;
    r->write_event_handler = ngx_http_agentstream_reader_write_handler;

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
ngx_http_agentstream_reader_write_handler(ngx_http_request_t *r)
{
    ngx_int_t                       rc;
    ngx_event_t                    *wev;
    ngx_http_agentstream_reader_t  *reader;

    reader = ngx_http_get_module_ctx(r, ngx_http_agentstream_module);
    wev = r->connection->write;

    if (wev->timedout) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, NGX_ETIMEDOUT,
                      "client timed out");
        r->connection->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    if (!reader->busy) {
        return;
    }

    rc = ngx_http_agentstream_reader_output(reader, NULL);

    if (rc == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
        return;
    }

    ngx_http_agentstream_reader_wake_handler(reader);
}


/* contract 2: a comment after silence, so that nobody on the way gives up */

static void
ngx_http_agentstream_reader_keepalive_handler(ngx_event_t *ev)
{
    ngx_int_t                       rc;
    ngx_buf_t                      *b;
    ngx_msec_t                      silent;
    ngx_connection_t               *c;
    ngx_http_request_t             *r;
    ngx_http_agentstream_reader_t  *reader;

    static u_char  comment[] = ": keepalive\n\n";

    reader = ev->data;
    r = reader->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    silent = ngx_current_msec - reader->sent_at;

    if (silent < reader->conf->keepalive) {
        ngx_add_timer(ev, reader->conf->keepalive - silent);
        return;
    }

    ngx_add_timer(ev, reader->conf->keepalive);

    if (reader->busy || !r->header_sent) {
        return;
    }

    b = &reader->buf;

    ngx_memzero(b, sizeof(ngx_buf_t));

    b->pos = comment;
    b->last = comment + sizeof(comment) - 1;
    b->memory = 1;
    b->flush = 1;
    b->tag = (ngx_buf_tag_t) &ngx_http_agentstream_module;

    reader->link.buf = b;
    reader->link.next = NULL;

    rc = ngx_http_agentstream_reader_output(reader, &reader->link);

    if (rc == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
    }

    ngx_http_run_posted_requests(c);
}


ngx_int_t
ngx_http_agentstream_reader_headers(ngx_http_request_t *r)
{
    ngx_str_set(&r->headers_out.content_type, "text/event-stream");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

#if (NGX_HTTP_GZIP)
    /* contract 2: never compressed */
    r->gzip_tested = 1;
    r->gzip_ok = 0;
#endif

    if (ngx_http_agentstream_reader_add_header(r, "Cache-Control", "no-cache")
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_reader_add_header(r, "X-Accel-Buffering",
                                                  "no");
}


static ngx_int_t
ngx_http_agentstream_reader_add_header(ngx_http_request_t *r, const char *key,
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
