
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The life of a verb.  It makes one call to OpenCode after the other, and the
 * answer to the last one is its outcome.  A call that changes something
 * continues once it was sent, even if its caller no longer waits, unless
 * another call needs its place.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_verb_int.h"


static ngx_int_t ngx_http_agentstream_verb_create_call(
    ngx_http_agentstream_verb_t *verb, ngx_uint_t request, ngx_str_t *session,
    ngx_str_t *directory, ngx_http_agentstream_call_done_pt handler);
static ngx_int_t ngx_http_agentstream_verb_content(
    ngx_http_agentstream_verb_t *verb, ngx_str_t *content);
static void ngx_http_agentstream_verb_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_verb_check(
    ngx_http_agentstream_verb_t *verb, ngx_str_t *answer, ngx_str_t *body);
static void ngx_http_agentstream_verb_look_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_verb_release(
    ngx_http_agentstream_verb_t *verb);
static void ngx_http_agentstream_verb_destroy(
    ngx_http_agentstream_verb_t *verb);


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_create(ngx_http_agentstream_target_t *target,
    ngx_uint_t request, const char *missing,
    ngx_http_agentstream_outcome_pt handler, void *data)
{
    ngx_pool_t                      *pool;
    ngx_http_agentstream_verb_t     *verb;
    ngx_http_agentstream_outcome_t   outcome;

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        goto failed;
    }

    verb = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_verb_t));

    if (verb == NULL
        || ngx_http_agentstream_target_copy(&verb->target, pool, target)
           != NGX_OK)
    {
        ngx_destroy_pool(pool);
        goto failed;
    }

    verb->pool = pool;
    verb->handler = handler;
    verb->data = data;
    verb->request = request;
    verb->missing = missing;

    return verb;

failed:

    ngx_http_agentstream_outcome_bad(&outcome, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                     NULL);
    handler(data, &outcome);

    return NULL;
}


ngx_int_t
ngx_http_agentstream_verb_prepare(ngx_http_agentstream_verb_t *verb)
{
    if (ngx_http_agentstream_verb_create_call(verb, verb->request,
                                              &verb->target.session,
                                              &verb->directory,
                                              ngx_http_agentstream_verb_done)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_verb_content(verb, &verb->content);
}


/* of the call at hand, which is gone if there is no memory for it */

static ngx_int_t
ngx_http_agentstream_verb_content(ngx_http_agentstream_verb_t *verb,
    ngx_str_t *content)
{
    ngx_http_agentstream_call_t  *call;

    call = verb->call;

    if (content->len == 0) {
        return NGX_OK;
    }

    call->content.len = content->len;
    call->content.data = ngx_pstrdup(call->pool, content);

    if (call->content.data == NULL) {
        ngx_http_agentstream_call_destroy(call);
        verb->call = NULL;
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_http_agentstream_verb_open(ngx_http_agentstream_verb_t *verb)
{
    if (verb->handler == NULL) {
        verb->call->kind = NGX_HTTP_AGENTSTREAM_CALL_BACKGROUND;
    }

    ngx_http_agentstream_call_open(verb->call);
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_call(ngx_http_agentstream_verb_t *verb)
{
    if (ngx_http_agentstream_verb_prepare(verb) != NGX_OK) {
        ngx_http_agentstream_verb_give_up(verb);
        return NULL;
    }

    ngx_http_agentstream_verb_open(verb);

    return verb;
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_ask(ngx_http_agentstream_verb_t *verb,
    ngx_uint_t request, ngx_str_t *session,
    ngx_http_agentstream_call_done_pt handler)
{
    if (ngx_http_agentstream_verb_create_call(verb, request, session,
                                              session ? NULL
                                                      : &verb->directory,
                                              handler)
        != NGX_OK)
    {
        ngx_http_agentstream_verb_give_up(verb);
        return NULL;
    }

    ngx_http_agentstream_verb_open(verb);

    return verb;
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_post(ngx_http_agentstream_verb_t *verb,
    ngx_uint_t request, ngx_str_t *content,
    ngx_http_agentstream_call_done_pt handler)
{
    if (ngx_http_agentstream_verb_create_call(verb, request, NULL, NULL,
                                              handler)
        != NGX_OK
        || ngx_http_agentstream_verb_content(verb, content) != NGX_OK)
    {
        ngx_http_agentstream_verb_give_up(verb);
        return NULL;
    }

    ngx_http_agentstream_verb_open(verb);

    return verb;
}


static ngx_int_t
ngx_http_agentstream_verb_create_call(ngx_http_agentstream_verb_t *verb,
    ngx_uint_t request, ngx_str_t *session, ngx_str_t *directory,
    ngx_http_agentstream_call_done_pt handler)
{
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_create(verb->target.conf,
                                            &verb->target.route, request,
                                            session, &verb->id, directory);
    if (call == NULL) {
        return NGX_ERROR;
    }

    call->kind = ngx_http_agentstream_call_kind(verb->target.conf);
    call->done_handler = handler;
    call->data = verb;

    verb->call = call;

    return NGX_OK;
}


void
ngx_http_agentstream_verb_leave(ngx_http_agentstream_verb_t *verb)
{
    verb->handler = NULL;

    if (verb->timer.timer_set) {
        /* the deletion has begun: the turn is being ended for it */
        return;
    }

    if (verb->call->address.method == NGX_HTTP_GET) {
        ngx_http_agentstream_call_close(verb->call);

    } else if (ngx_http_agentstream_call_abandon(verb->call) != NGX_OK) {
        return;
    }

    ngx_http_agentstream_verb_release(verb);
    ngx_http_agentstream_verb_destroy(verb);
}


/* called when the last call is answered */

static void
ngx_http_agentstream_verb_done(void *data, ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_verb_t *verb = data;

    ngx_int_t                       rc;
    ngx_str_t                       body;
    ngx_http_agentstream_outcome_t  outcome;

    if (call->status < 200 || call->status >= 300) {
        ngx_http_agentstream_outcome_failed(&outcome, call->status,
                                            verb->missing);
        ngx_http_agentstream_verb_end(verb, &outcome);
        return;
    }

    body = call->body;

    rc = ngx_http_agentstream_verb_check(verb, &call->body, &body);

    if (rc == NGX_DONE) {
        ngx_http_agentstream_verb_succeed(verb, NGX_HTTP_OK, NULL);

    } else if (rc == NGX_OK) {
        ngx_http_agentstream_verb_succeed(verb, call->status, &body);

    } else {
        ngx_http_agentstream_verb_unread(verb, rc);
    }
}


/* whether the answer is what was asked for, and what the outcome has of it, if
   that is not all; NGX_DONE: any answer will do */

static ngx_int_t
ngx_http_agentstream_verb_check(ngx_http_agentstream_verb_t *verb,
    ngx_str_t *answer, ngx_str_t *body)
{
    switch (verb->request) {

    case NGX_HTTP_AGENTSTREAM_GET_SESSION:
    case NGX_HTTP_AGENTSTREAM_UPDATE_SESSION:
        return ngx_http_agentstream_opencode_is_session(answer,
                                                        &verb->target.session);

    case NGX_HTTP_AGENTSTREAM_CREATE_SESSION:
        return ngx_http_agentstream_opencode_is_session(answer, NULL);

    case NGX_HTTP_AGENTSTREAM_GET_SESSIONS:
        return ngx_http_agentstream_opencode_is_list(answer);

    case NGX_HTTP_AGENTSTREAM_GET_MODELS:
        return ngx_http_agentstream_opencode_models(verb->pool, answer, body);

    case NGX_HTTP_AGENTSTREAM_GET_AGENTS:
        return ngx_http_agentstream_opencode_agents(verb->pool, answer, body);

    case NGX_HTTP_AGENTSTREAM_ABORT:
        return NGX_DONE;

    default:
        /* a deletion, or an answer to a question or permission request */
        return ngx_http_agentstream_opencode_is_true(answer);
    }
}


ngx_int_t
ngx_http_agentstream_verb_answered(ngx_http_agentstream_verb_t *verb,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_outcome_t  outcome;

    verb->call = NULL;

    if (call->status == NGX_HTTP_OK) {
        return NGX_OK;
    }

    ngx_http_agentstream_outcome_failed(&outcome, call->status, verb->missing);
    ngx_http_agentstream_verb_end(verb, &outcome);

    return NGX_DECLINED;
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_look(ngx_http_agentstream_verb_t *verb,
    ngx_uint_t request, ngx_http_agentstream_call_done_pt handler)
{
    verb->list = request;
    verb->found = handler;

    return ngx_http_agentstream_verb_ask(verb,
                                         NGX_HTTP_AGENTSTREAM_GET_SESSION,
                                         &verb->target.session,
                                         ngx_http_agentstream_verb_look_done);
}


static void
ngx_http_agentstream_verb_look_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_verb_t *verb = data;

    ngx_int_t  rc;

    if (call->status == NGX_HTTP_NOT_FOUND && verb->missing == NULL) {
        ngx_http_agentstream_verb_fail(verb, NGX_HTTP_NOT_FOUND,
                                       "Session not found");
        return;
    }

    if (ngx_http_agentstream_verb_answered(verb, call) != NGX_OK) {
        return;
    }

    rc = ngx_http_agentstream_opencode_directory(verb->pool, &call->body,
                                                 &verb->target.session,
                                                 &verb->directory);
    if (rc != NGX_OK) {
        ngx_http_agentstream_verb_unread(verb, rc);
        return;
    }

    (void) ngx_http_agentstream_verb_ask(verb, verb->list, NULL, verb->found);
}


ngx_int_t
ngx_http_agentstream_verb_turn(ngx_http_agentstream_target_t *target,
    ngx_pool_t *pool, ngx_http_agentstream_store_state_t *state)
{
    return ngx_http_agentstream_store_state(ngx_http_agentstream_worker->zone,
                                            &target->key, pool, state);
}


void
ngx_http_agentstream_verb_succeed(ngx_http_agentstream_verb_t *verb,
    ngx_uint_t code, ngx_str_t *body)
{
    ngx_http_agentstream_outcome_t  outcome;

    ngx_http_agentstream_outcome_good(&outcome, code, body);
    ngx_http_agentstream_verb_end(verb, &outcome);
}


void
ngx_http_agentstream_verb_fail(ngx_http_agentstream_verb_t *verb,
    ngx_uint_t code, const char *reason)
{
    ngx_http_agentstream_outcome_t  outcome;

    ngx_http_agentstream_outcome_bad(&outcome, code, reason);
    ngx_http_agentstream_verb_end(verb, &outcome);
}


void
ngx_http_agentstream_verb_give_up(ngx_http_agentstream_verb_t *verb)
{
    ngx_http_agentstream_verb_fail(verb, NGX_HTTP_INTERNAL_SERVER_ERROR, NULL);
}


void
ngx_http_agentstream_verb_unread(ngx_http_agentstream_verb_t *verb,
    ngx_int_t rc)
{
    ngx_http_agentstream_outcome_t  outcome;

    ngx_http_agentstream_outcome_unread(&outcome, rc);
    ngx_http_agentstream_verb_end(verb, &outcome);
}


void
ngx_http_agentstream_verb_end(ngx_http_agentstream_verb_t *verb,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_verb_release(verb);

    if (verb->handler) {
        verb->handler(verb->data, outcome);
    }

    ngx_http_agentstream_verb_destroy(verb);
}


static void
ngx_http_agentstream_verb_destroy(ngx_http_agentstream_verb_t *verb)
{
    ngx_destroy_pool(verb->pool);
}


/* lets turns begin in the session again */

static void
ngx_http_agentstream_verb_release(ngx_http_agentstream_verb_t *verb)
{
    if (verb->ticket == NULL) {
        return;
    }

    ngx_http_agentstream_store_unqueue(ngx_http_agentstream_worker->zone,
                                       &verb->ticket);

    ngx_http_agentstream_notify_announce(&verb->target.session);
}
