
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Collects what a finished turn has come to.  A translator of its own reads the
 * stored messages, which decides what belongs to the turn and what a client may
 * see of it, as it did when the turn ran; of its records only those of texts,
 * tool calls and plans are passed on.  Nothing is kept here but the record at
 * hand.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_clock.h"
#include "ngx_http_agentstream_reconcile.h"
#include "ngx_http_agentstream_result.h"
#include "ngx_http_agentstream_translate.h"


/* OpenCode may be away for a moment; the turn is over, so nothing is lost */
#define NGX_HTTP_AGENTSTREAM_RESULT_PAUSE  1000
#define NGX_HTTP_AGENTSTREAM_RESULT_TRIES  5


/* in its own pool */

struct ngx_http_agentstream_result_s {
    ngx_pool_t                          *pool;
    ngx_http_agentstream_result_args_t   args;
    ngx_str_t                            directory;

    ngx_http_agentstream_call_t         *call;
    ngx_http_agentstream_reconcile_t     reconcile;
    ngx_http_agentstream_translate_t    *translate;
    ngx_array_t                          sessions;     /* of ngx_str_t * */
    ngx_event_t                          timer;
    ngx_uint_t                           tries;
    ngx_uint_t                           answers;      /* assistant messages of
                                                          the root */
    uint64_t                             seq;
    ngx_http_agentstream_acp_buf_t       buf;          /* the record at hand */
    ngx_http_agentstream_json_t          json;         /* of that record */
};


static void ngx_http_agentstream_result_open(
    ngx_http_agentstream_result_t *result);
static void ngx_http_agentstream_result_session_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_result_read(
    ngx_http_agentstream_result_t *result);
static ngx_int_t ngx_http_agentstream_result_translator(
    ngx_http_agentstream_result_t *result);
static ngx_int_t ngx_http_agentstream_result_message(void *data,
    ngx_http_agentstream_json_t *json);
static void ngx_http_agentstream_result_reconciled(void *data,
    ngx_uint_t status, ngx_uint_t busy);
static void ngx_http_agentstream_result_again(
    ngx_http_agentstream_result_t *result, ngx_uint_t status);
static void ngx_http_agentstream_result_timer_handler(ngx_event_t *ev);
static void ngx_http_agentstream_result_failed(
    ngx_http_agentstream_result_t *result, ngx_uint_t code,
    const char *reason);

static u_char *ngx_http_agentstream_result_reserve(void *ctx, size_t size);
static uint64_t ngx_http_agentstream_result_commit(void *ctx,
    ngx_http_agentstream_record_t *record);
static ngx_int_t ngx_http_agentstream_result_record(
    ngx_http_agentstream_result_t *result,
    ngx_http_agentstream_record_t *record);
static ngx_int_t ngx_http_agentstream_result_child(void *ctx,
    ngx_str_t *session);
static void ngx_http_agentstream_result_resolve(void *ctx, ngx_str_t *session,
    ngx_str_t *message);
static void ngx_http_agentstream_result_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits);


static ngx_http_agentstream_translate_sink_t
    ngx_http_agentstream_result_sink =
{
    ngx_http_agentstream_result_reserve,
    ngx_http_agentstream_result_commit,
    ngx_http_agentstream_result_child,
    ngx_http_agentstream_result_resolve,
    ngx_http_agentstream_result_waiting
};


ngx_http_agentstream_result_t *
ngx_http_agentstream_result_create(ngx_http_agentstream_result_args_t *args)
{
    ngx_pool_t                     *pool;
    ngx_http_agentstream_result_t  *result;

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    result = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_result_t));
    if (result == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    result->pool = pool;
    result->args = *args;
    result->args.turn.data = ngx_pstrdup(pool, &args->turn);

    result->timer.handler = ngx_http_agentstream_result_timer_handler;
    result->timer.data = result;
    result->timer.log = ngx_cycle->log;

    result->reconcile.conf = args->target->conf;
    result->reconcile.route = &args->target->route;
    result->reconcile.directory = &result->directory;
    result->reconcile.sessions = &result->sessions;
    result->reconcile.handler = ngx_http_agentstream_result_reconciled;
    result->reconcile.message = ngx_http_agentstream_result_message;
    result->reconcile.over = 1;
    result->reconcile.data = result;

    if (result->args.turn.data) {
        ngx_http_agentstream_result_open(result);
    }

    if (result->call == NULL) {
        ngx_http_agentstream_result_destroy(result);
        return NULL;
    }

    return result;
}


void
ngx_http_agentstream_result_destroy(ngx_http_agentstream_result_t *result)
{
    if (result->call) {
        ngx_http_agentstream_call_close(result->call);
    }

    ngx_http_agentstream_reconcile_stop(&result->reconcile);

    if (result->timer.timer_set) {
        ngx_del_timer(&result->timer);
    }

    if (result->translate) {
        ngx_http_agentstream_translate_destroy(result->translate);
    }

    ngx_http_agentstream_json_destroy(&result->json);
    ngx_http_agentstream_acp_destroy(&result->buf);

    ngx_destroy_pool(result->pool);
}


/* asks for the session, whose directory all other calls need */

static void
ngx_http_agentstream_result_open(ngx_http_agentstream_result_t *result)
{
    ngx_http_agentstream_target_t  *target;

    target = result->args.target;

    result->call = ngx_http_agentstream_call_session(target->conf,
                                    &target->route, &target->session,
                                    ngx_http_agentstream_result_session_done,
                                    result);
}


static void
ngx_http_agentstream_result_session_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_result_t *result = data;

    ngx_int_t  rc;

    result->call = NULL;

    if (call->status == NGX_HTTP_NOT_FOUND) {
        ngx_http_agentstream_result_failed(result, NGX_HTTP_NOT_FOUND,
                                           "Session not found");
        return;
    }

    if (call->status != NGX_HTTP_OK) {
        ngx_http_agentstream_result_again(result, call->status);
        return;
    }

    rc = ngx_http_agentstream_opencode_directory(result->pool, &call->body,
                                               &result->args.target->session,
                                               &result->directory);

    if (rc == NGX_DECLINED) {
        ngx_http_agentstream_result_failed(result, NGX_HTTP_BAD_GATEWAY,
                                           "OpenCode's answer makes no sense");
        return;
    }

    if (rc != NGX_OK || ngx_http_agentstream_result_read(result) != NGX_OK) {
        ngx_http_agentstream_result_failed(result,
                                           NGX_HTTP_INTERNAL_SERVER_ERROR,
                                           NULL);
    }
}


static ngx_int_t
ngx_http_agentstream_result_read(ngx_http_agentstream_result_t *result)
{
    result->answers = 0;

    if (ngx_http_agentstream_result_translator(result) != NGX_OK
        || result->args.collector->begin(result->args.data) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_agentstream_translate_time(result->translate,
                                        ngx_http_agentstream_clock_timestamp(),
                                        ngx_current_msec);

    return ngx_http_agentstream_reconcile_start(&result->reconcile, 1);
}


/* each reading has its own translator, because a translator reports everything
   only once */

static ngx_int_t
ngx_http_agentstream_result_translator(ngx_http_agentstream_result_t *result)
{
    ngx_str_t                              **root;
    ngx_http_agentstream_target_t           *target;
    ngx_http_agentstream_translate_conf_t    tcf;

    if (result->translate) {
        ngx_http_agentstream_translate_destroy(result->translate);
        result->translate = NULL;
    }

    target = result->args.target;

    if (ngx_array_init(&result->sessions, result->pool, 4, sizeof(ngx_str_t *))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    root = ngx_array_push(&result->sessions);
    if (root == NULL) {
        return NGX_ERROR;
    }

    *root = &target->session;

    ngx_memzero(&tcf, sizeof(ngx_http_agentstream_translate_conf_t));

    tcf.acp_kinds = (target->conf->tool_kinds
                     == NGX_HTTP_AGENTSTREAM_KINDS_ACP);
    tcf.core = (target->conf->packets == NGX_HTTP_AGENTSTREAM_PACKETS_CORE);
    tcf.stored = 1;

    result->translate = ngx_http_agentstream_translate_create(result->pool,
                                           &tcf,
                                           &ngx_http_agentstream_result_sink,
                                           result, &target->session,
                                           &result->args.turn);
    if (result->translate == NULL) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_translate_gap(result->translate);

    result->reconcile.translate = result->translate;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_result_message(void *data,
    ngx_http_agentstream_json_t *json)
{
    ngx_http_agentstream_result_t *result = data;

    ngx_str_t   message;
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, json->root, "info");
    v = ngx_http_agentstream_json_get(json, v, "role");

    result->answers += ngx_http_agentstream_json_is(json, v, "assistant");

    if (ngx_http_agentstream_translate_bare(result->translate, json,
                                            &result->buf)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    message.data = result->buf.start;
    message.len = result->buf.len;

    return result->args.collector->message(result->args.data, &message);
}


static void
ngx_http_agentstream_result_reconciled(void *data, ngx_uint_t status,
    ngx_uint_t busy)
{
    ngx_http_agentstream_result_t *result = data;

    ngx_http_agentstream_outcome_t  outcome;

    if (status == NGX_HTTP_INSUFFICIENT_STORAGE) {
        ngx_http_agentstream_result_failed(result,
                                           NGX_HTTP_SERVICE_UNAVAILABLE,
                                           "Out of memory");
        return;
    }

    if (status != NGX_HTTP_OK) {
        ngx_http_agentstream_result_again(result, status);
        return;
    }

    if (result->answers == 0 && !result->args.unanswered) {
        ngx_http_agentstream_result_failed(result, NGX_HTTP_BAD_GATEWAY,
                                       "OpenCode has no answer of this turn");
        return;
    }

    ngx_http_agentstream_outcome_good(&outcome, NGX_HTTP_OK, NULL);

    result->args.collector->done(result->args.data, &outcome);
}


/* the call has failed with this status */

static void
ngx_http_agentstream_result_again(ngx_http_agentstream_result_t *result,
    ngx_uint_t status)
{
    ngx_http_agentstream_outcome_t  outcome;

    if (++result->tries < NGX_HTTP_AGENTSTREAM_RESULT_TRIES) {
        ngx_add_timer(&result->timer, NGX_HTTP_AGENTSTREAM_RESULT_PAUSE);
        return;
    }

    ngx_http_agentstream_outcome_failed(&outcome, status, NULL);

    result->args.collector->done(result->args.data, &outcome);
}


static void
ngx_http_agentstream_result_timer_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_result_t  *result;

    result = ev->data;

    ngx_http_agentstream_result_open(result);

    if (result->call == NULL) {
        ngx_http_agentstream_result_failed(result,
                                           NGX_HTTP_INTERNAL_SERVER_ERROR,
                                           NULL);
    }
}


static void
ngx_http_agentstream_result_failed(ngx_http_agentstream_result_t *result,
    ngx_uint_t code, const char *reason)
{
    ngx_http_agentstream_outcome_t  outcome;

    ngx_http_agentstream_outcome_bad(&outcome, code, reason);

    result->args.collector->done(result->args.data, &outcome);
}


static u_char *
ngx_http_agentstream_result_reserve(void *ctx, size_t size)
{
    ngx_http_agentstream_result_t *result = ctx;

    result->buf.failed = 0;
    result->buf.len = 0;

    return ngx_http_agentstream_acp_room(&result->buf, size);
}


static uint64_t
ngx_http_agentstream_result_commit(void *ctx,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_result_t *result = ctx;

    if (ngx_http_agentstream_result_record(result, record) != NGX_OK) {
        return 0;
    }

    return ++result->seq;
}


/* stored messages are read once, so no chunk is discarded here */

static ngx_int_t
ngx_http_agentstream_result_record(ngx_http_agentstream_result_t *result,
    ngx_http_agentstream_record_t *record)
{
    ngx_str_t                                 text;
    ngx_uint_t                                v;
    ngx_http_agentstream_json_t              *json;
    ngx_http_agentstream_result_collector_t  *collector;

    collector = result->args.collector;

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START
        || record->type == NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS)
    {
        return collector->tool(result->args.data, record);
    }

    if (record->type != NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE
        && record->type != NGX_HTTP_AGENTSTREAM_RECORD_PLAN)
    {
        return NGX_OK;
    }

    json = &result->json;

    if (ngx_http_agentstream_json_parse(json, record->json.data,
                                        record->json.len)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    v = ngx_http_agentstream_json_get(json, json->root, "_meta");

    if (ngx_http_agentstream_json_get(json, v, "sessionId")) {
        /* a subagent's */
        return NGX_OK;
    }

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_PLAN) {
        text = ngx_http_agentstream_json_raw(json,
                  ngx_http_agentstream_json_get(json, json->root, "entries"));

        return collector->plan(result->args.data, &text);
    }

    v = ngx_http_agentstream_json_get(json, json->root, "content");
    text = ngx_http_agentstream_json_string(json,
                              ngx_http_agentstream_json_get(json, v, "text"));

    return collector->text(result->args.data, &text);
}


static ngx_int_t
ngx_http_agentstream_result_child(void *ctx, ngx_str_t *session)
{
    ngx_http_agentstream_result_t *result = ctx;

    ngx_str_t  **element;

    element = ngx_array_push(&result->sessions);
    if (element == NULL) {
        return NGX_ERROR;
    }

    *element = session;

    return NGX_OK;
}


static void
ngx_http_agentstream_result_resolve(void *ctx, ngx_str_t *session,
    ngx_str_t *message)
{
    /* stored messages contain their parts */
}


static void
ngx_http_agentstream_result_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits)
{
    /* nothing waits any more */
}
