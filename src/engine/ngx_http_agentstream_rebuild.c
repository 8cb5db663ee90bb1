
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Rebuilds a turn.  A translator of its own turns OpenCode's stored messages
 * into records; when they are read again, it makes records only of what is
 * new.  The follower takes the records of one reading before the next reading
 * starts.
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
static ngx_uint_t ngx_http_agentstream_rebuild_kept(
    ngx_http_agentstream_rebuild_t *rb);
static void ngx_http_agentstream_rebuild_timer_handler(ngx_event_t *ev);
static void ngx_http_agentstream_rebuild_reread(
    ngx_http_agentstream_rebuild_t *rb);
static void ngx_http_agentstream_rebuild_reconciled(void *data,
    ngx_uint_t status, ngx_uint_t busy);
static void ngx_http_agentstream_rebuild_tell(
    ngx_http_agentstream_rebuild_t *rb, ngx_uint_t status);
static void ngx_http_agentstream_rebuild_error(
    ngx_http_agentstream_rebuild_t *rb, ngx_uint_t code, const char *message);
static void ngx_http_agentstream_rebuild_unreachable(
    ngx_http_agentstream_rebuild_t *rb, ngx_uint_t status,
    ngx_uint_t nonsense);
static void ngx_http_agentstream_rebuild_end(
    ngx_http_agentstream_rebuild_t *rb, ngx_uint_t code, const char *message,
    ngx_str_t *details);
static void ngx_http_agentstream_rebuild_nothing(
    ngx_http_agentstream_rebuild_t *rb);
static void ngx_http_agentstream_rebuild_break(
    ngx_http_agentstream_rebuild_t *rb);


ngx_http_agentstream_rebuild_t *
ngx_http_agentstream_rebuild_create(ngx_http_agentstream_rebuild_args_t *args)
{
    ngx_pool_t                      *pool;
    ngx_http_agentstream_target_t   *target;
    ngx_http_agentstream_rebuild_t  *rb;

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    rb = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_rebuild_t));
    if (rb == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    target = args->target;

    rb->pool = pool;
    rb->args = *args;

    rb->timer.handler = ngx_http_agentstream_rebuild_timer_handler;
    rb->timer.data = rb;
    rb->timer.log = ngx_cycle->log;

    if (ngx_http_agentstream_rebuild_prepare(rb) == NGX_OK) {
        rb->call = ngx_http_agentstream_call_session(target->conf,
                                    &target->route, &target->session,
                                    ngx_http_agentstream_rebuild_session_done,
                                    rb);
    }

    if (rb->call == NULL) {
        ngx_http_agentstream_rebuild_destroy(rb);
        return NULL;
    }

    return rb;
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

    *root = &rb->args.target->session;

    rb->reconcile.conf = rb->args.target->conf;
    rb->reconcile.route = &rb->args.target->route;
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

    conf = rb->args.target->conf;

    tcf.acp_kinds = (conf->tool_kinds == NGX_HTTP_AGENTSTREAM_KINDS_ACP);
    tcf.core = (conf->packets == NGX_HTTP_AGENTSTREAM_PACKETS_CORE);
    tcf.stored = 1;

    if (rb->translate) {
        ngx_http_agentstream_translate_destroy(rb->translate);
    }

    rb->translate = ngx_http_agentstream_translate_create(rb->pool, &tcf,
                                          &ngx_http_agentstream_rebuild_sink,
                                          rb, &rb->args.target->session,
                                          &rb->args.turn);
    if (rb->translate == NULL) {
        return NGX_ERROR;
    }

    /* there are no events here, only stored messages */
    ngx_http_agentstream_translate_gap(rb->translate);

    rb->reconcile.translate = rb->translate;

    return NGX_OK;
}


void
ngx_http_agentstream_rebuild_destroy(ngx_http_agentstream_rebuild_t *rb)
{
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

    ngx_http_agentstream_acp_destroy(&rb->buf);

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
                                                 &rb->args.target->session,
                                                 &rb->directory);
    if (rc != NGX_OK) {
        ngx_http_agentstream_rebuild_error(rb, NGX_HTTP_BAD_GATEWAY,
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

    ngx_http_agentstream_rebuild_reread(rb);
}


/* NGX_OK; any other value: it failed, and the follower was told so */

static ngx_int_t
ngx_http_agentstream_rebuild_answered(ngx_http_agentstream_rebuild_t *rb,
    ngx_http_agentstream_call_t *call)
{
    rb->call = NULL;

    if (call->status == NGX_HTTP_OK) {
        return NGX_OK;
    }

    if (call->status == NGX_HTTP_NOT_FOUND) {
        ngx_http_agentstream_rebuild_error(rb, NGX_HTTP_NOT_FOUND,
                                           "Session not found");

    } else {
        ngx_http_agentstream_rebuild_unreachable(rb, call->status,
                                                 call->nonsense);
    }

    return NGX_ERROR;
}


/*
 * docs/protocol.md, "Resuming": without an id, the running turn is meant.
 * OpenCode may work on a turn that is not kept here after a restart of nginx,
 * or if somebody else started it.
 */

static void
ngx_http_agentstream_rebuild_ask(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t request, ngx_http_agentstream_call_done_pt handler)
{
    ngx_uint_t                      messages;
    ngx_http_agentstream_target_t  *target;

    target = rb->args.target;
    messages = (request == NGX_HTTP_AGENTSTREAM_GET_MESSAGES);

    rb->call = ngx_http_agentstream_call_create(target->conf, &target->route,
                                           request,
                                           messages ? &target->session : NULL,
                                           NULL, &rb->directory);
    if (rb->call == NULL) {
        ngx_http_agentstream_rebuild_break(rb);
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

    rc = ngx_http_agentstream_opencode_busy(&call->body,
                                            &rb->args.target->session);

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_rebuild_error(rb, NGX_HTTP_BAD_GATEWAY,
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

    if (rb->found.nmessages == 0 || ngx_http_agentstream_rebuild_kept(rb)) {
        ngx_http_agentstream_rebuild_nothing(rb);
        return;
    }

    if (rb->found.len == 0) {
        ngx_http_agentstream_rebuild_error(rb, NGX_HTTP_BAD_GATEWAY,
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
        ngx_http_agentstream_rebuild_break(rb);
        return;
    }

    ngx_http_agentstream_translate_reset_first(rb->translate,
                                               rb->args.reason);

    ngx_http_agentstream_rebuild_reread(rb);
}


/* a turn that is kept by now will be read from its journal, and must not be
   sent twice */

static ngx_uint_t
ngx_http_agentstream_rebuild_kept(ngx_http_agentstream_rebuild_t *rb)
{
    ngx_http_agentstream_store_turn_t  turn;

    return rb->args.follow
           && ngx_http_agentstream_store_next(ngx_http_agentstream_worker->zone,
                                              &rb->args.target->key,
                                              rb->args.number, &turn)
              == NGX_OK;
}


static void
ngx_http_agentstream_rebuild_timer_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_rebuild_reread(ev->data);
}


static void
ngx_http_agentstream_rebuild_reread(ngx_http_agentstream_rebuild_t *rb)
{
    ngx_http_agentstream_translate_time(rb->translate,
                                        ngx_http_agentstream_clock_timestamp(),
                                        ngx_current_msec);

    if (ngx_http_agentstream_reconcile_start(&rb->reconcile, 1) != NGX_OK) {
        ngx_http_agentstream_rebuild_break(rb);
    }
}


static void
ngx_http_agentstream_rebuild_reconciled(void *data, ngx_uint_t status,
    ngx_uint_t busy)
{
    ngx_http_agentstream_rebuild_t *rb = data;

    ngx_http_agentstream_translate_state_t  *state;

    if (status == NGX_HTTP_INSUFFICIENT_STORAGE) {
        /* the following records would not fit those that were already sent */
        ngx_http_agentstream_rebuild_error(rb, NGX_HTTP_SERVICE_UNAVAILABLE,
                                          "Out of memory");
        return;
    }

    if (status != NGX_HTTP_OK) {

        if (++rb->tries > NGX_HTTP_AGENTSTREAM_REBUILD_TRIES) {
            ngx_http_agentstream_rebuild_unreachable(rb, status, 0);
            return;
        }

        ngx_add_timer(&rb->timer, NGX_HTTP_AGENTSTREAM_REBUILD_POLL);
        return;
    }

    state = ngx_http_agentstream_translate_state(rb->translate);

    if (state->passed) {
        /* it is busy with another turn */
        busy = 0;
    }

    if (!busy
        && ngx_http_agentstream_translate_abandoned(rb->translate))
    {
        if (rb->tries >= NGX_HTTP_AGENTSTREAM_REBUILD_IDLE) {
            ngx_http_agentstream_rebuild_error(rb, NGX_HTTP_BAD_GATEWAY,
                                              "OpenCode has lost the turn");
            return;
        }

        rb->tries++;
        ngx_http_agentstream_rebuild_tell(rb, NGX_HTTP_OK);
        return;
    }

    rb->tries = 0;

    if (!state->user_seen) {
        ngx_http_agentstream_rebuild_nothing(rb);
        return;
    }

    if (state->passed && state->steps == 0) {
        ngx_http_agentstream_rebuild_error(rb, NGX_HTTP_CONFLICT,
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
            ngx_http_agentstream_rebuild_break(rb);
            return;
        }
    }

    ngx_http_agentstream_rebuild_tell(rb, NGX_HTTP_OK);
}


/* tells the follower that records can be read; the follower may free the
   rebuild in the callback */

static void
ngx_http_agentstream_rebuild_tell(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t status)
{
    rb->status = status;

    rb->args.handler(rb->args.data);
}


static void
ngx_http_agentstream_rebuild_error(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t code, const char *message)
{
    ngx_http_agentstream_rebuild_fail(rb, code, message);

    rb->args.handler(rb->args.data);
}


/* OpenCode did not answer, or gave a wrong answer */

static void
ngx_http_agentstream_rebuild_unreachable(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t status, ngx_uint_t nonsense)
{
    ngx_http_agentstream_outcome_t  outcome;

    ngx_http_agentstream_outcome_failed(&outcome, status, NULL);

    if (nonsense) {
        ngx_http_agentstream_outcome_unread(&outcome, NGX_DECLINED);
    }

    ngx_http_agentstream_rebuild_end(rb, outcome.code, outcome.reason,
                                     outcome.details.len ? &outcome.details
                                                         : NULL);

    rb->args.handler(rb->args.data);
}


static void
ngx_http_agentstream_rebuild_nothing(ngx_http_agentstream_rebuild_t *rb)
{
    rb->nothing = 1;

    rb->args.handler(rb->args.data);
}


static void
ngx_http_agentstream_rebuild_break(ngx_http_agentstream_rebuild_t *rb)
{
    rb->broken = 1;

    rb->args.handler(rb->args.data);
}


void
ngx_http_agentstream_rebuild_fail(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t code, const char *message)
{
    ngx_http_agentstream_rebuild_end(rb, code, message, NULL);
}


static void
ngx_http_agentstream_rebuild_end(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t code, const char *message, ngx_str_t *details)
{
    ngx_str_t   text;
    ngx_uint_t  level;

    /* JSON of the module itself, or nothing */
    text = details ? *details : (ngx_str_t) ngx_null_string;

    level = (code >= 500) ? NGX_LOG_ERR : NGX_LOG_INFO;

    ngx_log_error(level, ngx_cycle->log, 0,
                  "agentstream rebuild: failed with %ui (%s)%s%V, "
                  "session %V", code, message, details ? " " : "", &text,
                  &rb->args.target->session);

    rb->nothing = 0;
    rb->over = 1;
    rb->status = code;

    ngx_http_agentstream_translate_time(rb->translate,
                                        ngx_http_agentstream_clock_timestamp(),
                                        ngx_current_msec);

    if (ngx_http_agentstream_translate_fail(rb->translate, code, message,
                                            details)
        != NGX_OK)
    {
        rb->broken = 1;
    }
}


ngx_str_t
ngx_http_agentstream_rebuild_turn(ngx_http_agentstream_rebuild_t *rb)
{
    return rb->args.turn;
}


ngx_int_t
ngx_http_agentstream_rebuild_read(ngx_http_agentstream_rebuild_t *rb,
    size_t size, ngx_http_agentstream_records_t *records, ngx_uint_t *status)
{
    ngx_http_agentstream_record_t   record;
    ngx_http_agentstream_records_t  rest;

    ngx_memzero(records, sizeof(ngx_http_agentstream_records_t));

    *status = rb->status;

    if (rb->broken) {
        return NGX_ERROR;
    }

    if (rb->nothing) {
        return NGX_DECLINED;
    }

    if (rb->call || rb->reconcile.call || rb->timer.timer_set) {
        /* records of a reading are given out when it is complete */
        return NGX_AGAIN;
    }

    if (rb->taken == rb->buf.len && !rb->over) {
        /* all records were taken; there may be more after the next reading */

        ngx_http_agentstream_acp_destroy(&rb->buf);
        rb->taken = 0;

        ngx_add_timer(&rb->timer, NGX_HTTP_AGENTSTREAM_REBUILD_POLL);

        return NGX_AGAIN;
    }

    rest.pos = rb->buf.start + rb->taken;
    rest.last = rb->buf.start + rb->buf.len;
    rest.seq = 0;

    *records = rest;

    while (ngx_http_agentstream_record_next(&rest, &record) == NGX_OK
           && (size_t) (rest.pos - records->pos) < size)
    {
        /* void */
    }

    records->last = rest.pos;
    rb->taken = rest.pos - rb->buf.start;

    return (rb->over && rb->taken == rb->buf.len) ? NGX_DONE : NGX_OK;
}


ngx_uint_t
ngx_http_agentstream_rebuild_all(ngx_http_agentstream_rebuild_t *rb)
{
    return rb->taken == rb->buf.len;
}
