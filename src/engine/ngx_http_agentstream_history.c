
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


/* bytes that are read at once */
#define NGX_HTTP_AGENTSTREAM_HISTORY_IN   262144


static void ngx_http_agentstream_history_stop(
    ngx_http_agentstream_history_t *h);
static ngx_int_t ngx_http_agentstream_history_body(void *data, u_char *pos,
    size_t len);
static ngx_int_t ngx_http_agentstream_history_feed(
    ngx_http_agentstream_history_t *h, u_char *pos, size_t len);
static void ngx_http_agentstream_history_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_history_continue(
    ngx_http_agentstream_history_t *h);
static void ngx_http_agentstream_history_conclude(
    ngx_http_agentstream_history_t *h);
static ngx_int_t ngx_http_agentstream_history_flush(
    ngx_http_agentstream_history_t *h, ngx_uint_t end);
static void ngx_http_agentstream_history_fail(
    ngx_http_agentstream_history_t *h);
static ngx_int_t ngx_http_agentstream_history_error(
    ngx_http_agentstream_history_t *h);
static void ngx_http_agentstream_history_event_handler(ngx_event_t *ev);


ngx_http_agentstream_history_t *
ngx_http_agentstream_history_open(ngx_http_agentstream_history_args_t *args)
{
    ngx_http_agentstream_call_t     *call;
    ngx_http_agentstream_history_t  *h;

    h = ngx_calloc(sizeof(ngx_http_agentstream_history_t), ngx_cycle->log);
    if (h == NULL) {
        return NULL;
    }

    call = ngx_http_agentstream_call_create(args->target->conf,
                                            &args->target->route,
                                            NGX_HTTP_AGENTSTREAM_GET_MESSAGES,
                                            &args->target->session, NULL,
                                            NULL);
    if (call == NULL) {
        ngx_free(h);
        return NULL;
    }

    if (args->limit
        && ngx_http_agentstream_opencode_limit(call->pool, &call->address,
                                               args->limit)
           != NGX_OK)
    {
        ngx_http_agentstream_call_destroy(call);
        ngx_free(h);
        return NULL;
    }

    h->args = *args;

    h->split.handler = ngx_http_agentstream_history_message;
    h->split.ctx = h;
    h->split.limit = call->limit;

    h->event.handler = ngx_http_agentstream_history_event_handler;
    h->event.data = h;
    h->event.log = ngx_cycle->log;

    ngx_http_agentstream_history_running(h);

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_STREAM;
    call->body_handler = ngx_http_agentstream_history_body;
    call->done_handler = ngx_http_agentstream_history_done;
    call->data = h;

    h->call = call;

    ngx_http_agentstream_call_open(call);

    return h;
}


void
ngx_http_agentstream_history_close(ngx_http_agentstream_history_t *h)
{
    ngx_http_agentstream_history_stop(h);

    ngx_http_agentstream_history_destroy_turn(h);
    ngx_http_agentstream_json_split_destroy(&h->split);
    ngx_http_agentstream_json_split_destroy(&h->child_split);
    ngx_http_agentstream_json_destroy(&h->json);
    ngx_http_agentstream_acp_destroy(&h->rest);
    ngx_http_agentstream_acp_destroy(&h->packet);
    ngx_http_agentstream_acp_destroy(&h->usage);

    ngx_free(h);
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
        h->nonsense = (rc == NGX_DECLINED);
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

    if (!h->full && h->taken < NGX_HTTP_AGENTSTREAM_HISTORY_IN) {
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
   the consumer may have closed it then */

static void
ngx_http_agentstream_history_continue(ngx_http_agentstream_history_t *h)
{
    size_t     len;
    ngx_int_t  rc;

    if (h->status && h->status != NGX_HTTP_OK && !h->begun) {
        ngx_http_agentstream_history_fail(h);
        return;
    }

    if (ngx_http_agentstream_history_flush(h, 0) != NGX_OK) {
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

        h->nonsense = (rc == NGX_DECLINED);
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

    ngx_http_agentstream_history_conclude(h);
}


static void
ngx_http_agentstream_history_conclude(ngx_http_agentstream_history_t *h)
{
    ngx_int_t                       rc;
    ngx_http_agentstream_outcome_t  outcome;

    if (h->status == NGX_HTTP_OK
        && !ngx_http_agentstream_json_split_complete(&h->split))
    {
        h->status = NGX_HTTP_BAD_GATEWAY;
        h->nonsense = 1;
    }

    if (h->status != NGX_HTTP_OK) {
        ngx_log_error(NGX_LOG_ERR, h->args.log, 0,
                      "agentstream history: OpenCode's answer is not whole, "
                      "session %V", &h->args.target->session);

        ngx_http_agentstream_history_stop(h);

        if (!h->begun) {
            ngx_http_agentstream_history_fail(h);
            return;
        }
    }

    rc = (h->status == NGX_HTTP_OK) ? ngx_http_agentstream_history_end(h)
                                    : ngx_http_agentstream_history_error(h);

    if (rc != NGX_OK) {
        ngx_http_agentstream_outcome_bad(&outcome,
                                         NGX_HTTP_INTERNAL_SERVER_ERROR, NULL);
        h->args.consumer->failed(h->args.data, &outcome);
        return;
    }

    (void) ngx_http_agentstream_history_flush(h, 1);
}


static ngx_int_t
ngx_http_agentstream_history_flush(ngx_http_agentstream_history_t *h,
    ngx_uint_t end)
{
    ngx_int_t  rc;

    h->begun = h->made;

    rc = h->args.consumer->flush(h->args.data, end);

    if (rc == NGX_OK) {
        h->full = 0;
    }

    return rc;
}


/* there is no history to be sent */

static void
ngx_http_agentstream_history_fail(ngx_http_agentstream_history_t *h)
{
    ngx_http_agentstream_outcome_t  outcome;

    if (h->nonsense) {
        ngx_http_agentstream_outcome_unread(&outcome, NGX_DECLINED);

    } else {
        ngx_http_agentstream_outcome_failed(&outcome, h->status,
                                            "Session not found");
    }

    h->args.consumer->failed(h->args.data, &outcome);
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
ngx_http_agentstream_history_event_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_history_t  *h;

    h = ev->data;

    h->taken = 0;

    ngx_http_agentstream_history_continue(h);
}


void
ngx_http_agentstream_history_resume(ngx_http_agentstream_history_t *h)
{
    ngx_http_agentstream_history_continue(h);
}
