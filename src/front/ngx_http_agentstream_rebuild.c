
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Rebuilding.  A translator of its own turns OpenCode's stored
 * messages into packets; read again, they give only what is new.  The packets
 * of one reading are sent before the next one starts.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_rebuild_int.h"


#define NGX_HTTP_AGENTSTREAM_REBUILD_POLL   1000
#define NGX_HTTP_AGENTSTREAM_REBUILD_TRIES  5
#define NGX_HTTP_AGENTSTREAM_REBUILD_IDLE   2


static ngx_int_t ngx_http_agentstream_rebuild_prepare(
    ngx_http_agentstream_rebuild_t *rb);
static ngx_int_t ngx_http_agentstream_rebuild_translator(
    ngx_http_agentstream_rebuild_t *rb);
static void ngx_http_agentstream_rebuild_destroy(void *data);
static void ngx_http_agentstream_rebuild_session_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_rebuild_answered(
    ngx_http_agentstream_rebuild_t *rb, ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_rebuild_ask(
    ngx_http_agentstream_rebuild_t *rb, ngx_uint_t request,
    ngx_http_agentstream_call_done_pt handler);
static void ngx_http_agentstream_rebuild_status_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_rebuild_last_message(void *data,
    ngx_http_agentstream_json_t *json);
static void ngx_http_agentstream_rebuild_last_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_rebuild_timer_handler(ngx_event_t *ev);
static void ngx_http_agentstream_rebuild_read(
    ngx_http_agentstream_rebuild_t *rb);
static void ngx_http_agentstream_rebuild_reconciled(void *data,
    ngx_uint_t status, ngx_uint_t busy);
static void ngx_http_agentstream_rebuild_fail(
    ngx_http_agentstream_rebuild_t *rb, ngx_uint_t code,
    const char *message);
static void ngx_http_agentstream_rebuild_nothing(
    ngx_http_agentstream_rebuild_t *rb);
static void ngx_http_agentstream_rebuild_send(
    ngx_http_agentstream_rebuild_t *rb, ngx_uint_t status);
static void ngx_http_agentstream_rebuild_sent_handler(void *data);
static void ngx_http_agentstream_rebuild_pass(
    ngx_http_agentstream_rebuild_t *rb);


ngx_int_t
ngx_http_agentstream_rebuild_attach(ngx_http_request_t *r,
    ngx_http_agentstream_rebuild_args_t *args)
{
    ngx_pool_t                      *pool;
    ngx_http_agentstream_rebuild_t  *rb;

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rb = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_rebuild_t));
    if (rb == NULL) {
        ngx_destroy_pool(pool);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rb->pool = pool;
    rb->request = r;
    rb->output = args->output;
    rb->args = *args;

    rb->timer.handler = ngx_http_agentstream_rebuild_timer_handler;
    rb->timer.data = rb;
    rb->timer.log = r->connection->log;

    if (ngx_http_agentstream_rebuild_prepare(rb) != NGX_OK
        || ngx_http_agentstream_output_open(rb->output,
                                     &ngx_http_agentstream_wire_events,
                                     args->conf->keepalive,
                                     ngx_http_agentstream_rebuild_sent_handler,
                                     ngx_http_agentstream_rebuild_destroy, rb)
           != NGX_OK)
    {
        ngx_http_agentstream_rebuild_destroy(rb);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rb->call = ngx_http_agentstream_call_session(args->conf, &rb->args.route,
                                    &rb->args.session,
                                    ngx_http_agentstream_rebuild_session_done,
                                    rb);
    if (rb->call == NULL) {
        ngx_http_agentstream_output_close(rb->output);
        ngx_http_agentstream_rebuild_destroy(rb);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_DONE;
}


static ngx_int_t
ngx_http_agentstream_rebuild_prepare(ngx_http_agentstream_rebuild_t *rb)
{
    ngx_str_t  **root;

    if (rb->args.turn.len) {
        rb->args.turn.data = ngx_pstrdup(rb->pool, &rb->args.turn);

        if (rb->args.turn.data == NULL) {
            return NGX_ERROR;
        }
    }

    if (ngx_array_init(&rb->sessions, rb->pool, 4, sizeof(ngx_str_t *))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    root = ngx_array_push(&rb->sessions);
    if (root == NULL) {
        return NGX_ERROR;
    }

    *root = &rb->args.session;

    rb->reconcile.conf = rb->args.conf;
    rb->reconcile.route = &rb->args.route;
    rb->reconcile.directory = &rb->directory;
    rb->reconcile.sessions = &rb->sessions;
    rb->reconcile.handler = ngx_http_agentstream_rebuild_reconciled;
    rb->reconcile.data = rb;

    return ngx_http_agentstream_rebuild_translator(rb);
}


static ngx_int_t
ngx_http_agentstream_rebuild_translator(ngx_http_agentstream_rebuild_t *rb)
{
    ngx_http_agentstream_loc_conf_t        *conf;
    ngx_http_agentstream_translate_conf_t   tcf;

    ngx_memzero(&tcf, sizeof(ngx_http_agentstream_translate_conf_t));

    conf = rb->args.conf;

    tcf.acp_kinds = (conf->tool_kinds == NGX_HTTP_AGENTSTREAM_KINDS_ACP);
    tcf.core = (conf->packets == NGX_HTTP_AGENTSTREAM_PACKETS_CORE);

    if (rb->translate) {
        ngx_http_agentstream_translate_destroy(rb->translate);
    }

    rb->translate = ngx_http_agentstream_translate_create(rb->pool, &tcf,
                                          &ngx_http_agentstream_rebuild_sink,
                                          rb, &rb->args.session,
                                          &rb->args.turn);
    if (rb->translate == NULL) {
        return NGX_ERROR;
    }

    /* no event is heard */
    ngx_http_agentstream_translate_gap(rb->translate);

    rb->reconcile.translate = rb->translate;

    return NGX_OK;
}


static void
ngx_http_agentstream_rebuild_destroy(void *data)
{
    ngx_http_agentstream_rebuild_t *rb = data;

    if (rb->call) {
        ngx_http_agentstream_call_close(rb->call);
    }

    ngx_http_agentstream_reconcile_stop(&rb->reconcile);

    if (rb->timer.timer_set) {
        ngx_del_timer(&rb->timer);
    }

    if (rb->translate) {
        ngx_http_agentstream_translate_destroy(rb->translate);
    }

    if (rb->text.start) {
        ngx_http_agentstream_output_free(rb->text.start);
    }

    ngx_http_agentstream_acp_destroy(&rb->packet);

    ngx_destroy_pool(rb->pool);
}


static void
ngx_http_agentstream_rebuild_session_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_rebuild_t *rb = data;

    ngx_int_t  rc;

    if (ngx_http_agentstream_rebuild_answered(rb, call) != NGX_OK) {
        return;
    }

    rc = ngx_http_agentstream_opencode_directory(rb->pool, &call->body,
                                                 &rb->args.session,
                                                 &rb->directory);
    if (rc != NGX_OK) {
        ngx_http_agentstream_rebuild_fail(rb, NGX_HTTP_BAD_GATEWAY,
                                          "OpenCode's answer makes no sense");
        return;
    }

    if (rb->args.turn.len == 0) {
        ngx_http_agentstream_rebuild_ask(rb, NGX_HTTP_AGENTSTREAM_GET_STATUS,
                                     ngx_http_agentstream_rebuild_status_done);
        return;
    }

    ngx_http_agentstream_translate_reset_first(rb->translate,
                                               rb->args.reason);

    ngx_http_agentstream_rebuild_read(rb);
}


/* NGX_OK, or the client was told that it was not */

static ngx_int_t
ngx_http_agentstream_rebuild_answered(ngx_http_agentstream_rebuild_t *rb,
    ngx_http_agentstream_call_t *call)
{
    ngx_uint_t   code;
    const char  *reason;

    rb->call = NULL;

    ngx_http_set_log_request(rb->request->connection->log, rb->request);

    if (call->status == NGX_HTTP_OK) {
        return NGX_OK;
    }

    if (call->status == NGX_HTTP_NOT_FOUND) {
        code = NGX_HTTP_NOT_FOUND;
        reason = "Session not found";

    } else {
        reason = ngx_http_agentstream_opencode_failure(call->status,
                                                       call->nonsense, &code);
    }

    ngx_http_agentstream_rebuild_fail(rb, code, reason);

    return NGX_ERROR;
}


/*
 * Contract 1: without a cursor, the running turn.  OpenCode works on one that
 * is not kept here after a restart of nginx, or when somebody else started it.
 */

static void
ngx_http_agentstream_rebuild_ask(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t request, ngx_http_agentstream_call_done_pt handler)
{
    ngx_uint_t  messages;

    messages = (request == NGX_HTTP_AGENTSTREAM_GET_MESSAGES);

    rb->call = ngx_http_agentstream_call_create(rb->args.conf, &rb->args.route,
                                        request,
                                        messages ? &rb->args.session : NULL,
                                        NULL, &rb->directory);
    if (rb->call == NULL) {
        ngx_http_agentstream_output_finalize(rb->output, NGX_ERROR);
        return;
    }

    if (messages) {
        rb->call->element_handler = ngx_http_agentstream_rebuild_last_message;
    }

    rb->call->done_handler = handler;
    rb->call->data = rb;

    ngx_http_agentstream_call_open(rb->call);
}


static void
ngx_http_agentstream_rebuild_status_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_rebuild_t *rb = data;

    ngx_int_t  rc;

    if (ngx_http_agentstream_rebuild_answered(rb, call) != NGX_OK) {
        return;
    }

    rc = ngx_http_agentstream_opencode_busy(&call->body, &rb->args.session);

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_rebuild_fail(rb, NGX_HTTP_BAD_GATEWAY,
                                          "OpenCode's answer makes no sense");
        return;
    }

    if (rc != NGX_OK) {
        ngx_http_agentstream_rebuild_nothing(rb);
        return;
    }

    ngx_http_agentstream_rebuild_ask(rb, NGX_HTTP_AGENTSTREAM_GET_MESSAGES,
                                     ngx_http_agentstream_rebuild_last_done);
}


static ngx_int_t
ngx_http_agentstream_rebuild_last_message(void *data,
    ngx_http_agentstream_json_t *json)
{
    ngx_http_agentstream_rebuild_t *rb = data;

    ngx_http_agentstream_opencode_turn(json, &rb->found);

    return NGX_OK;
}


static void
ngx_http_agentstream_rebuild_last_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_rebuild_t *rb = data;

    ngx_str_t  id;

    if (ngx_http_agentstream_rebuild_answered(rb, call) != NGX_OK) {
        return;
    }

    if (rb->found.nmessages == 0
        || (rb->args.kept && rb->args.kept(rb->args.data)))
    {
        ngx_http_agentstream_rebuild_nothing(rb);
        return;
    }

    if (rb->found.len == 0) {
        ngx_http_agentstream_rebuild_fail(rb, NGX_HTTP_BAD_GATEWAY,
                                          "OpenCode's answer makes no sense");
        return;
    }

    id.len = rb->found.len;
    id.data = rb->found.id;

    rb->args.turn.len = id.len;
    rb->args.turn.data = ngx_pstrdup(rb->pool, &id);

    if (rb->args.turn.data == NULL
        || ngx_http_agentstream_rebuild_translator(rb) != NGX_OK)
    {
        ngx_http_agentstream_output_finalize(rb->output, NGX_ERROR);
        return;
    }

    ngx_http_agentstream_translate_reset_first(rb->translate,
                                               rb->args.reason);

    ngx_http_agentstream_rebuild_read(rb);
}


static void
ngx_http_agentstream_rebuild_timer_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_rebuild_read(ev->data);
}


static void
ngx_http_agentstream_rebuild_read(ngx_http_agentstream_rebuild_t *rb)
{
    ngx_http_agentstream_translate_time(rb->translate,
                                        ngx_http_agentstream_clock_timestamp(),
                                        ngx_current_msec);

    if (ngx_http_agentstream_reconcile_start(&rb->reconcile, 1) != NGX_OK) {
        ngx_http_agentstream_output_finalize(rb->output, NGX_ERROR);
    }
}


static void
ngx_http_agentstream_rebuild_reconciled(void *data, ngx_uint_t status,
    ngx_uint_t busy)
{
    ngx_http_agentstream_rebuild_t *rb = data;

    ngx_http_agentstream_translate_state_t  *state;

    ngx_http_set_log_request(rb->request->connection->log, rb->request);

    if (status == NGX_HTTP_INSUFFICIENT_STORAGE) {
        /* what comes next would not fit what was told */
        ngx_http_agentstream_rebuild_fail(rb, NGX_HTTP_SERVICE_UNAVAILABLE,
                                          "Out of memory");
        return;
    }

    if (status != NGX_HTTP_OK) {

        if (++rb->tries > NGX_HTTP_AGENTSTREAM_REBUILD_TRIES) {
            ngx_http_agentstream_rebuild_fail(rb, NGX_HTTP_BAD_GATEWAY,
                                              "OpenCode cannot be reached");
            return;
        }

        ngx_add_timer(&rb->timer, NGX_HTTP_AGENTSTREAM_REBUILD_POLL);
        return;
    }

    state = ngx_http_agentstream_translate_state(rb->translate);

    if (state->passed) {
        /* with another turn */
        busy = 0;
    }

    if (!busy
        && ngx_http_agentstream_translate_abandoned(rb->translate))
    {
        if (rb->tries >= NGX_HTTP_AGENTSTREAM_REBUILD_IDLE) {
            ngx_http_agentstream_rebuild_fail(rb, NGX_HTTP_BAD_GATEWAY,
                                              "OpenCode has lost the turn");
            return;
        }

        rb->tries++;
        ngx_http_agentstream_rebuild_send(rb, NGX_HTTP_OK);
        return;
    }

    rb->tries = 0;

    if (!state->user_seen) {
        ngx_http_agentstream_rebuild_nothing(rb);
        return;
    }

    if (state->passed && state->steps == 0) {
        ngx_http_agentstream_rebuild_fail(rb, NGX_HTTP_CONFLICT,
                                          "Another prompt in this session was "
                                          "answered instead");
        return;
    }

    if (!busy) {
        rb->over = 1;

        ngx_http_agentstream_translate_time(rb->translate,
                                         ngx_http_agentstream_clock_timestamp(),
                                         ngx_current_msec);

        if (ngx_http_agentstream_translate_asks_over(rb->translate, 0)
            != NGX_OK
            || ngx_http_agentstream_translate_finish(rb->translate, 0)
               != NGX_OK)
        {
            ngx_http_agentstream_output_finalize(rb->output, NGX_ERROR);
            return;
        }
    }

    ngx_http_agentstream_rebuild_send(rb, NGX_HTTP_OK);
}


static void
ngx_http_agentstream_rebuild_fail(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t code, const char *message)
{
    rb->over = 1;

    if (!rb->request->header_sent) {
        /* contract 1: with this status there is nothing but the error */
        rb->args.after = NULL;
    }

    ngx_http_agentstream_translate_time(rb->translate,
                                        ngx_http_agentstream_clock_timestamp(),
                                        ngx_current_msec);

    if (ngx_http_agentstream_translate_fail(rb->translate, code, message, NULL)
        != NGX_OK)
    {
        ngx_http_agentstream_output_finalize(rb->output, NGX_ERROR);
        return;
    }

    ngx_http_agentstream_rebuild_send(rb, code);
}


static void
ngx_http_agentstream_rebuild_nothing(ngx_http_agentstream_rebuild_t *rb)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = rb->request;

    if (rb->args.after) {
        ngx_http_agentstream_rebuild_pass(rb);
        return;
    }

    if (r->header_sent) {
        ngx_http_agentstream_output_finalize(rb->output, NGX_ERROR);
        return;
    }

    if (r->method == NGX_HTTP_POST && rb->args.turn.len == 0) {
        /* its prompt was refused for another one, which is over by now */
        ngx_http_agentstream_rebuild_fail(rb, NGX_HTTP_CONFLICT,
                                          "OpenCode works on another prompt "
                                          "in this session");
        return;
    }

    if (r->method == NGX_HTTP_POST) {
        /* its turn is gone before it could say a word */
        ngx_http_agentstream_rebuild_fail(rb, NGX_HTTP_SERVICE_UNAVAILABLE,
                                          "Out of zone memory");
        return;
    }

    r->headers_out.status = NGX_HTTP_NO_CONTENT;
    r->header_only = 1;

    rc = ngx_http_send_header(r);

    ngx_http_agentstream_output_finalize(rb->output, rc);
}


static void
ngx_http_agentstream_rebuild_send(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t status)
{
    ngx_int_t                           rc;
    ngx_uint_t                          end;
    ngx_http_agentstream_output_text_t  text;

    if (rb->output->busy) {
        /* with a keepalive comment */
        rb->status = status;
        rb->waiting = 1;
        return;
    }

    end = (rb->over && rb->args.after == NULL);

    if (!rb->request->header_sent
        && ngx_http_agentstream_output_header(rb->request, rb->output->wire,
                                              status)
           != NGX_OK)
    {
        ngx_http_agentstream_output_finalize(rb->output, NGX_ERROR);
        return;
    }

    text = rb->text;
    ngx_memzero(&rb->text, sizeof(ngx_http_agentstream_output_text_t));

    rc = NGX_OK;

    if (text.start || end) {
        rc = ngx_http_agentstream_output_send(rb->output, text.start,
                                              text.last, end);
    }

    if (rc == NGX_ERROR || end) {
        ngx_http_agentstream_output_finalize(rb->output, rc);
        return;
    }

    if (!rb->output->busy) {
        ngx_http_agentstream_rebuild_sent_handler(rb);
    }
}


static void
ngx_http_agentstream_rebuild_sent_handler(void *data)
{
    ngx_http_agentstream_rebuild_t *rb = data;

    if (rb->waiting) {
        rb->waiting = 0;
        ngx_http_agentstream_rebuild_send(rb, rb->status);
        return;
    }

    if (rb->call || rb->reconcile.call || rb->timer.timer_set) {
        /* it was a keepalive comment */
        return;
    }

    if (rb->over) {
        ngx_http_agentstream_rebuild_pass(rb);
        return;
    }

    ngx_add_timer(&rb->timer, NGX_HTTP_AGENTSTREAM_REBUILD_POLL);
}


static void
ngx_http_agentstream_rebuild_pass(ngx_http_agentstream_rebuild_t *rb)
{
    ngx_int_t                             rc;
    ngx_http_request_t                   *r;
    ngx_http_agentstream_rebuild_args_t   args;

    r = rb->request;
    args = rb->args;

    ngx_http_agentstream_output_close(args.output);
    ngx_http_agentstream_rebuild_destroy(rb);

    rc = args.after(r, args.data);

    if (rc != NGX_DONE) {
        ngx_http_agentstream_output_finalize(args.output, rc);
    }
}
