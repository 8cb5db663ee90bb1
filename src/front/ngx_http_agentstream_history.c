
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The history.  OpenCode's answer is streamed.  When enough of it is
 * translated, the call pauses until the client has taken that; it also pauses
 * while the messages of subagents are fetched.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history_int.h"


/* bytes that are collected before they are sent, and bytes that are read at
   once */
#define NGX_HTTP_AGENTSTREAM_HISTORY_OUT  32768
#define NGX_HTTP_AGENTSTREAM_HISTORY_IN   262144


static void ngx_http_agentstream_history_destroy(void *data);
static void ngx_http_agentstream_history_stop(
    ngx_http_agentstream_history_t *h);
static ngx_int_t ngx_http_agentstream_history_body(void *data, u_char *pos,
    size_t len);
static ngx_int_t ngx_http_agentstream_history_feed(
    ngx_http_agentstream_history_t *h, u_char *pos, size_t len);
static void ngx_http_agentstream_history_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_history_finalize(
    ngx_http_agentstream_history_t *h);
static ngx_int_t ngx_http_agentstream_history_error(
    ngx_http_agentstream_history_t *h);
static void ngx_http_agentstream_history_sent_handler(void *data);
static void ngx_http_agentstream_history_event_handler(ngx_event_t *ev);


ngx_int_t
ngx_http_agentstream_history_start(ngx_http_request_t *r,
    ngx_http_agentstream_history_args_t *args)
{
    ngx_http_agentstream_call_t     *call;
    ngx_http_agentstream_history_t  *h;

    h = ngx_pcalloc(r->pool, sizeof(ngx_http_agentstream_history_t));
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->request = r;
    h->args = *args;
    h->output = args->output;

    h->split.handler = ngx_http_agentstream_history_message;
    h->split.ctx = h;

    h->event.handler = ngx_http_agentstream_history_event_handler;
    h->event.data = h;
    h->event.log = r->connection->log;

    if (ngx_http_agentstream_output_open(h->output, args->wire, 0,
                                    ngx_http_agentstream_history_sent_handler,
                                    ngx_http_agentstream_history_destroy, h)
        != NGX_OK
        || ngx_http_agentstream_history_running(h) != NGX_OK)
    {
        return NGX_ERROR;
    }

    call = ngx_http_agentstream_call_create(args->target.conf,
                                            &args->target.route,
                                            NGX_HTTP_AGENTSTREAM_GET_MESSAGES,
                                            &args->target.session, NULL, NULL);
    if (call == NULL) {
        return NGX_ERROR;
    }

    if (args->limit
        && ngx_http_agentstream_opencode_limit(call->pool, &call->address,
                                               args->limit)
           != NGX_OK)
    {
        ngx_http_agentstream_call_destroy(call);
        return NGX_ERROR;
    }

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_STREAM;
    call->body_handler = ngx_http_agentstream_history_body;
    call->done_handler = ngx_http_agentstream_history_done;
    call->data = h;

    h->split.limit = call->limit;
    h->call = call;

    ngx_http_agentstream_call_open(call);

    return NGX_DONE;
}


static void
ngx_http_agentstream_history_destroy(void *data)
{
    ngx_http_agentstream_history_t *h = data;

    ngx_http_agentstream_history_stop(h);

    ngx_http_agentstream_history_destroy_turn(h);
    ngx_http_agentstream_json_split_destroy(&h->split);
    ngx_http_agentstream_json_split_destroy(&h->child_split);
    ngx_http_agentstream_json_destroy(&h->json);
    ngx_http_agentstream_acp_destroy(&h->rest);

    ngx_http_agentstream_history_destroy_output(h);
}


/* stops reading from OpenCode */

static void
ngx_http_agentstream_history_stop(ngx_http_agentstream_history_t *h)
{
    if (h->call) {
        ngx_http_agentstream_call_close(h->call);
        h->call = NULL;
    }

    if (h->child) {
        ngx_http_agentstream_call_close(h->child);
        h->child = NULL;
    }

    if (h->event.posted) {
        ngx_delete_posted_event(&h->event);
    }
}


static ngx_int_t
ngx_http_agentstream_history_body(void *data, u_char *pos, size_t len)
{
    ngx_http_agentstream_history_t *h = data;

    ngx_int_t  rc;

    rc = ngx_http_agentstream_history_feed(h, pos, len);

    if (rc == NGX_AGAIN) {
        ngx_http_agentstream_history_post(h);
        return NGX_AGAIN;
    }

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_history_taken(h, len);
}


/* NGX_AGAIN: subagents must be sent first, and the rest is kept */

static ngx_int_t
ngx_http_agentstream_history_feed(ngx_http_agentstream_history_t *h,
    u_char *pos, size_t len)
{
    ngx_int_t  rc;

    rc = ngx_http_agentstream_json_split_feed(&h->split, pos, len);

    if (rc != NGX_AGAIN) {
        return rc;
    }

    pos += h->split.consumed;
    len -= h->split.consumed;

    /* the data may be what was kept before, or a part of it */

    if (len && pos >= h->rest.start && pos < h->rest.start + h->rest.size) {
        ngx_memmove(h->rest.start, pos, len);
        h->rest.len = len;
        return NGX_AGAIN;
    }

    h->rest.len = 0;
    ngx_http_agentstream_acp_add(&h->rest, pos, len);

    return h->rest.failed ? NGX_ERROR : NGX_AGAIN;
}


ngx_int_t
ngx_http_agentstream_history_taken(ngx_http_agentstream_history_t *h,
    size_t len)
{
    h->taken += len;

    if ((size_t) (h->text.last - h->text.start)
        < NGX_HTTP_AGENTSTREAM_HISTORY_OUT
        && h->taken < NGX_HTTP_AGENTSTREAM_HISTORY_IN)
    {
        return NGX_OK;
    }

    ngx_http_agentstream_history_post(h);

    return NGX_AGAIN;
}


void
ngx_http_agentstream_history_post(ngx_http_agentstream_history_t *h)
{
    ngx_post_event(&h->event, &ngx_posted_next_events);
}


static void
ngx_http_agentstream_history_done(void *data, ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_history_t *h = data;

    h->call = NULL;
    h->status = call->status;

    if (h->status == NGX_HTTP_OK && !call->complete) {
        h->status = NGX_HTTP_BAD_GATEWAY;
    }

    ngx_http_agentstream_history_post(h);
}


/* does what can be done now, until it has to wait for the client or OpenCode;
   may finalize the request */

void
ngx_http_agentstream_history_continue(ngx_http_agentstream_history_t *h)
{
    size_t     len;
    ngx_int_t  rc;

    if (h->status && h->status != NGX_HTTP_OK && !h->request->header_sent) {
        h->args.failed(h->args.data, h->status);
        return;
    }

    if (ngx_http_agentstream_history_output(h) != NGX_OK) {
        return;
    }

    if (h->child) {
        ngx_http_agentstream_call_resume(h->child);
        return;
    }

    rc = h->failed ? NGX_ERROR : ngx_http_agentstream_history_next_child(h);

    if (rc == NGX_DECLINED && h->rest.len) {
        len = h->rest.len;
        h->rest.len = 0;

        rc = ngx_http_agentstream_history_feed(h, h->rest.start, len);

        if (rc == NGX_OK || rc == NGX_AGAIN) {
            ngx_http_agentstream_history_post(h);
            return;
        }

        rc = NGX_ERROR;
    }

    if (rc == NGX_OK) {
        return;
    }

    if (rc == NGX_DECLINED && h->call) {
        ngx_http_agentstream_call_resume(h->call);
        return;
    }

    if (rc == NGX_ERROR) {
        h->status = NGX_HTTP_BAD_GATEWAY;
    }

    ngx_http_agentstream_history_finalize(h);
}


static void
ngx_http_agentstream_history_finalize(ngx_http_agentstream_history_t *h)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = h->request;

    if (h->status == NGX_HTTP_OK
        && !ngx_http_agentstream_json_split_complete(&h->split))
    {
        h->status = NGX_HTTP_BAD_GATEWAY;
    }

    if (h->status != NGX_HTTP_OK) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "agentstream history: OpenCode's answer is not whole, "
                      "session %V", &h->args.target.session);

        ngx_http_agentstream_history_stop(h);

        if (!r->header_sent) {
            h->args.failed(h->args.data, h->status);
            return;
        }
    }

    rc = (h->status == NGX_HTTP_OK) ? ngx_http_agentstream_history_end(h)
                                    : ngx_http_agentstream_history_error(h);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_history_close(h);
    }

    if (rc != NGX_OK) {
        ngx_http_agentstream_output_finalize(h->output, NGX_ERROR);
        return;
    }

    (void) ngx_http_agentstream_history_output(h);
}


static ngx_int_t
ngx_http_agentstream_history_error(ngx_http_agentstream_history_t *h)
{
    u_char                         *p;
    ngx_http_agentstream_record_t   record;

    static ngx_str_t  message = ngx_string("OpenCode's answer is not whole");

    p = ngx_http_agentstream_history_reserve(h,
                         ngx_http_agentstream_acp_error_size(&message, NULL));
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&record, sizeof(ngx_http_agentstream_record_t));

    record.type = NGX_HTTP_AGENTSTREAM_RECORD_ERROR;
    record.json.data = p;

    p = ngx_http_agentstream_acp_error(p,
                                       ngx_http_agentstream_clock_timestamp(),
                                       &message, NGX_HTTP_BAD_GATEWAY, NULL);

    record.json.len = p - record.json.data;

    return ngx_http_agentstream_history_commit(h, &record) ? NGX_OK
                                                           : NGX_ERROR;
}


static void
ngx_http_agentstream_history_sent_handler(void *data)
{
    ngx_http_agentstream_history_continue(data);
}


static void
ngx_http_agentstream_history_event_handler(ngx_event_t *ev)
{
    ngx_connection_t                *c;
    ngx_http_agentstream_history_t  *h;

    h = ev->data;
    c = h->request->connection;

    ngx_http_set_log_request(c->log, h->request);

    h->taken = 0;

    ngx_http_agentstream_history_continue(h);
    ngx_http_run_posted_requests(c);
}
