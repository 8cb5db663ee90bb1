
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests for a session's history.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history.h"
#include "ngx_http_agentstream_request_int.h"


#define NGX_HTTP_AGENTSTREAM_LIMIT_MAX    1000000

/* bytes that are collected before they are sent */
#define NGX_HTTP_AGENTSTREAM_HISTORY_OUT  32768


/* the consumer of a history that is a client, in the request's pool */

typedef struct {
    ngx_http_agentstream_request_t      *req;
    ngx_http_agentstream_history_t      *history;  /* NULL: closed */
    ngx_http_agentstream_wire_state_t   *state;    /* of the output's wire */
    ngx_http_agentstream_output_text_t   text;     /* to be sent */
} ngx_http_agentstream_request_history_t;


static ngx_int_t ngx_http_agentstream_request_history(
    ngx_http_agentstream_request_t *req, ngx_uint_t limit);
static ngx_int_t ngx_http_agentstream_request_history_record(void *data,
    ngx_http_agentstream_record_t *record);
static ngx_int_t ngx_http_agentstream_request_history_flush(void *data,
    ngx_uint_t end);
static void ngx_http_agentstream_request_history_failed(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static void ngx_http_agentstream_request_history_sent_handler(void *data);
static void ngx_http_agentstream_request_history_destroy(void *data);


static ngx_http_agentstream_history_consumer_t
    ngx_http_agentstream_request_history_consumer =
{
    ngx_http_agentstream_request_history_record,
    ngx_http_agentstream_request_history_flush,
    ngx_http_agentstream_request_history_failed
};


ngx_int_t
ngx_http_agentstream_request_messages(ngx_http_agentstream_request_t *req)
{
    ngx_int_t            rc, limit;
    ngx_str_t            value;
    ngx_http_request_t  *r;

    r = req->request;
    limit = 0;

    rc = ngx_http_agentstream_request_accept(req);

    if (rc != NGX_OK) {
        return rc;
    }

    /* a client that accepts anything gets JSON */

    req->sse = (req->accept.named && req->accept.events);

    if (ngx_http_arg(r, (u_char *) "limit", sizeof("limit") - 1, &value)
        == NGX_OK)
    {
        limit = ngx_atoi(value.data, value.len);

        if (limit < 1 || limit > NGX_HTTP_AGENTSTREAM_LIMIT_MAX) {
            return ngx_http_agentstream_request_error(req,
                                           NGX_HTTP_BAD_REQUEST,
                                           "\"limit\" must be a number from 1",
                                           NULL);
        }
    }

    return ngx_http_agentstream_request_history(req, limit);
}


static ngx_int_t
ngx_http_agentstream_request_history(ngx_http_agentstream_request_t *req,
    ngx_uint_t limit)
{
    ngx_http_request_t                      *r;
    ngx_http_agentstream_wire_t             *wire;
    ngx_http_agentstream_history_args_t      args;
    ngx_http_agentstream_request_history_t  *rh;

    r = req->request;

    rh = ngx_pcalloc(r->pool, sizeof(ngx_http_agentstream_request_history_t));
    if (rh == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rh->req = req;

    wire = req->sse ? &ngx_http_agentstream_wire_plain
                    : &ngx_http_agentstream_wire_array;

    rh->state = ngx_pcalloc(r->pool, wire->state_size);
    if (rh->state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rh->state->pool = r->pool;

    if (ngx_http_agentstream_output_open(&req->output, wire, 0,
                            ngx_http_agentstream_request_history_sent_handler,
                            ngx_http_agentstream_request_history_destroy, rh)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    args.target = &req->target;
    args.limit = limit;
    args.consumer = &ngx_http_agentstream_request_history_consumer;
    args.data = rh;
    args.log = r->connection->log;

    rh->history = ngx_http_agentstream_history_open(&args);

    return rh->history ? NGX_DONE : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static ngx_int_t
ngx_http_agentstream_request_history_record(void *data,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_request_history_t *rh = data;

    u_char                              *p;
    ngx_http_agentstream_wire_t         *wire;
    ngx_http_agentstream_output_text_t  *text;

    text = &rh->text;
    wire = rh->req->output.wire;

    p = ngx_http_agentstream_output_room(text, wire->size(rh->state, record));
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->last = wire->record(rh->state, p, record);

    return ((size_t) (text->last - text->start)
            < NGX_HTTP_AGENTSTREAM_HISTORY_OUT) ? NGX_OK : NGX_AGAIN;
}


static ngx_int_t
ngx_http_agentstream_request_history_flush(void *data, ngx_uint_t end)
{
    ngx_http_agentstream_request_history_t *rh = data;

    u_char                              *p;
    ngx_int_t                            rc;
    ngx_http_request_t                  *r;
    ngx_http_agentstream_output_t       *out;
    ngx_http_agentstream_output_text_t   text;

    r = rh->req->request;
    out = &rh->req->output;

    ngx_http_set_log_request(r->connection->log, r);

    if (out->busy) {
        return NGX_AGAIN;
    }

    if (end && out->wire->end_size) {
        p = ngx_http_agentstream_output_room(&rh->text,
                                             out->wire->end_size);
        if (p == NULL) {
            goto failed;
        }

        rh->text.last = out->wire->end(rh->state, p);
    }

    if (rh->text.start == NULL && !end) {
        return NGX_OK;
    }

    if (!r->header_sent
        && ngx_http_agentstream_output_header(r, out->wire, NGX_HTTP_OK)
           != NGX_OK)
    {
        goto failed;
    }

    text = rh->text;
    ngx_memzero(&rh->text, sizeof(ngx_http_agentstream_output_text_t));

    rc = ngx_http_agentstream_output_send(out, text.start, text.last, end);

    if (rc == NGX_ERROR) {
        goto failed;
    }

    if (end) {
        ngx_http_agentstream_output_finalize(out, rc);
        return NGX_DONE;
    }

    return out->busy ? NGX_AGAIN : NGX_OK;

failed:

    ngx_http_agentstream_output_finalize(out, NGX_ERROR);

    return NGX_DONE;
}


static void
ngx_http_agentstream_request_history_failed(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_history_t *rh = data;

    ngx_int_t            rc;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = rh->req->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    if (outcome->reason == NULL) {
        ngx_http_agentstream_output_finalize(&rh->req->output, NGX_ERROR);
        return;
    }

    rc = ngx_http_agentstream_request_failed(rh->req, outcome);

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_agentstream_request_history_sent_handler(void *data)
{
    ngx_http_agentstream_request_history_t *rh = data;

    ngx_http_agentstream_history_resume(rh->history);
}


static void
ngx_http_agentstream_request_history_destroy(void *data)
{
    ngx_http_agentstream_request_history_t *rh = data;

    if (rh->history) {
        ngx_http_agentstream_history_close(rh->history);
        rh->history = NULL;
    }

    if (rh->text.start) {
        ngx_http_agentstream_output_free(rh->text.start);
        rh->text.start = NULL;
    }
}
