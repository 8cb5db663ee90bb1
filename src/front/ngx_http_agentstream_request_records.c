
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests for lists that are sent while OpenCode's answer arrives: a session's
 * history, and the sessions of an owner.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history.h"
#include "ngx_http_agentstream_list.h"
#include "ngx_http_agentstream_request_int.h"


#define NGX_HTTP_AGENTSTREAM_LIMIT_MAX    1000000

/* bytes that are collected before they are sent */
#define NGX_HTTP_AGENTSTREAM_RECORDS_OUT  32768


/* the consumer of a history or a list that is a client, in the request's
   pool */

typedef struct {
    ngx_http_agentstream_request_t      *req;
    ngx_http_agentstream_history_t      *history;  /* one of them; NULL: the
                                                      other, or closed */
    ngx_http_agentstream_list_t         *list;
    ngx_http_agentstream_wire_state_t   *state;    /* of the output's wire */
    ngx_http_agentstream_output_text_t   text;     /* to be sent */
    ngx_http_agentstream_request_pt      then;     /* continues the response;
                                                      or NULL */
} ngx_http_agentstream_request_records_t;


static ngx_http_agentstream_request_records_t *
    ngx_http_agentstream_request_records_open(
    ngx_http_agentstream_request_t *req, ngx_http_agentstream_wire_t *wire);
static ngx_int_t ngx_http_agentstream_request_records_record(void *data,
    ngx_http_agentstream_record_t *record);
static ngx_int_t ngx_http_agentstream_request_records_flush(void *data,
    ngx_uint_t end);
static void ngx_http_agentstream_request_records_pass(
    ngx_http_agentstream_request_records_t *rr);
static void ngx_http_agentstream_request_records_failed(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static void ngx_http_agentstream_request_records_sent_handler(void *data);
static void ngx_http_agentstream_request_records_destroy(void *data);


static ngx_http_agentstream_intake_t
    ngx_http_agentstream_request_records_consumer =
{
    ngx_http_agentstream_request_records_record,
    ngx_http_agentstream_request_records_flush,
    ngx_http_agentstream_request_records_failed
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

    return ngx_http_agentstream_request_history(req, limit,
                                   req->sse ? &ngx_http_agentstream_wire_plain
                                            : &ngx_http_agentstream_wire_array,
                                   NULL);
}


ngx_int_t
ngx_http_agentstream_request_history(ngx_http_agentstream_request_t *req,
    ngx_uint_t limit, ngx_http_agentstream_wire_t *wire,
    ngx_http_agentstream_request_pt then)
{
    ngx_http_agentstream_history_args_t      args;
    ngx_http_agentstream_request_records_t  *rr;

    rr = ngx_http_agentstream_request_records_open(req, wire);
    if (rr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rr->then = then;

    args.target = &req->target;
    args.limit = limit;
    args.consumer = &ngx_http_agentstream_request_records_consumer;
    args.data = rr;
    args.log = req->request->connection->log;

    rr->history = ngx_http_agentstream_history_open(&args);

    return rr->history ? NGX_DONE : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


ngx_int_t
ngx_http_agentstream_request_owned(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_list_args_t         args;
    ngx_http_agentstream_request_records_t  *rr;

    rr = ngx_http_agentstream_request_records_open(req,
                                             &ngx_http_agentstream_wire_array);
    if (rr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    args.target = &req->target;
    args.directory = &req->scope.directory;
    args.owner = &req->scope.owner;
    args.consumer = &ngx_http_agentstream_request_records_consumer;
    args.data = rr;
    args.log = req->request->connection->log;

    rr->list = ngx_http_agentstream_list_open(&args);

    return rr->list ? NGX_DONE : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static ngx_http_agentstream_request_records_t *
ngx_http_agentstream_request_records_open(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_wire_t *wire)
{
    ngx_pool_t                              *pool;
    ngx_http_agentstream_request_records_t  *rr;

    pool = req->request->pool;

    rr = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_request_records_t));
    if (rr == NULL) {
        return NULL;
    }

    rr->req = req;

    rr->state = ngx_pcalloc(pool, wire->state_size);
    if (rr->state == NULL) {
        return NULL;
    }

    rr->state->pool = pool;
    rr->state->request = req->context;

    if (ngx_http_agentstream_output_open(&req->output, wire, 0,
                            ngx_http_agentstream_request_records_sent_handler,
                            ngx_http_agentstream_request_records_destroy, rr)
        != NGX_OK)
    {
        return NULL;
    }

    return rr;
}


static ngx_int_t
ngx_http_agentstream_request_records_record(void *data,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_request_records_t *rr = data;

    u_char                              *p;
    ngx_http_agentstream_wire_t         *wire;
    ngx_http_agentstream_output_text_t  *text;

    text = &rr->text;
    wire = rr->req->output.wire;

    p = ngx_http_agentstream_output_room(text, wire->size(rr->state, record));
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->last = wire->record(rr->state, p, record);

    if (rr->state->failed) {
        return NGX_ERROR;
    }

    return ((size_t) (text->last - text->start)
            < NGX_HTTP_AGENTSTREAM_RECORDS_OUT) ? NGX_OK : NGX_AGAIN;
}


static ngx_int_t
ngx_http_agentstream_request_records_flush(void *data, ngx_uint_t end)
{
    ngx_http_agentstream_request_records_t *rr = data;

    u_char                              *p;
    ngx_int_t                            rc;
    ngx_http_request_t                  *r;
    ngx_http_agentstream_output_t       *out;
    ngx_http_agentstream_output_text_t   text;

    r = rr->req->request;
    out = &rr->req->output;

    ngx_http_set_log_request(r->connection->log, r);

    if (out->busy) {
        return NGX_AGAIN;
    }

    if (end && out->wire->end_size) {
        p = ngx_http_agentstream_output_room(&rr->text,
                                             out->wire->end_size);
        if (p == NULL) {
            goto failed;
        }

        rr->text.last = out->wire->end(rr->state, p);
    }

    if (rr->text.start == NULL && !end) {
        return NGX_OK;
    }

    if (!r->header_sent
        && ngx_http_agentstream_output_header(r, out->wire, NGX_HTTP_OK)
           != NGX_OK)
    {
        goto failed;
    }

    text = rr->text;
    ngx_memzero(&rr->text, sizeof(ngx_http_agentstream_output_text_t));

    rc = ngx_http_agentstream_output_send(out, text.start, text.last,
                                          end && rr->then == NULL);

    if (rc == NGX_ERROR) {
        goto failed;
    }

    if (end && rr->then) {
        ngx_http_agentstream_request_records_destroy(rr);

        if (!out->busy) {
            ngx_http_agentstream_request_records_pass(rr);
        }

        return NGX_DONE;
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


/* all was sent, and somebody else continues with the output */

static void
ngx_http_agentstream_request_records_pass(
    ngx_http_agentstream_request_records_t *rr)
{
    if (rr->then(rr->req) != NGX_DONE) {
        ngx_http_agentstream_output_finalize(&rr->req->output, NGX_ERROR);
    }
}


static void
ngx_http_agentstream_request_records_failed(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_records_t *rr = data;

    ngx_int_t            rc;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = rr->req->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    if (outcome->reason == NULL) {
        ngx_http_agentstream_output_finalize(&rr->req->output, NGX_ERROR);
        return;
    }

    if (outcome->code == NGX_HTTP_NOT_FOUND && rr->req->protocol->names) {

        /* a name is good before its session is made by the first prompt */

        (void) ngx_http_agentstream_request_records_flush(rr, 1);
        return;
    }

    rc = ngx_http_agentstream_request_failed(rr->req, outcome);

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_agentstream_request_records_sent_handler(void *data)
{
    ngx_http_agentstream_request_records_t *rr = data;

    if (rr->list) {
        ngx_http_agentstream_list_resume(rr->list);
        return;
    }

    if (rr->history) {
        ngx_http_agentstream_history_resume(rr->history);
        return;
    }

    ngx_http_agentstream_request_records_pass(rr);
}


static void
ngx_http_agentstream_request_records_destroy(void *data)
{
    ngx_http_agentstream_request_records_t *rr = data;

    if (rr->history) {
        ngx_http_agentstream_history_close(rr->history);
        rr->history = NULL;
    }

    if (rr->list) {
        ngx_http_agentstream_list_close(rr->list);
        rr->list = NULL;
    }

    if (rr->text.start) {
        ngx_http_agentstream_output_free(rr->text.start);
        rr->text.start = NULL;
    }
}
