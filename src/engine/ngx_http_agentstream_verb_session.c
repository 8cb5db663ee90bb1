
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Verbs for sessions, which OpenCode keeps.  If a turn is running in a session
 * that is to be deleted, it is interrupted first, because OpenCode would
 * continue with the turn and fail.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn.h"
#include "ngx_http_agentstream_verb_int.h"


/* how often it is checked whether the turn has ended, and for how long */
#define NGX_HTTP_AGENTSTREAM_DELETE_POLL  50
#define NGX_HTTP_AGENTSTREAM_DELETE_WAIT  10000


static void ngx_http_agentstream_verb_made(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_verb_delete_handler(ngx_event_t *ev);


static const char  ngx_http_agentstream_verb_no_session[] =
    "Session not found";


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_list_sessions(ngx_http_agentstream_target_t *target,
    ngx_str_t *directory, ngx_http_agentstream_outcome_pt handler, void *data)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_create(target,
                                            NGX_HTTP_AGENTSTREAM_GET_SESSIONS,
                                            NULL, handler, data);
    if (verb == NULL) {
        return NULL;
    }

    verb->directory = *directory;

    return ngx_http_agentstream_verb_call(verb);
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_create_session(ngx_http_agentstream_target_t *target,
    ngx_str_t *directory, ngx_str_t *content,
    ngx_http_agentstream_outcome_pt handler, void *data)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_create(target,
                                       NGX_HTTP_AGENTSTREAM_CREATE_SESSION,
                                       NULL, handler, data);
    if (verb == NULL) {
        return NULL;
    }

    verb->directory = *directory;
    verb->content = *content;

    return ngx_http_agentstream_verb_call(verb);
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_make_session(ngx_http_agentstream_target_t *target,
    ngx_str_t *make, ngx_str_t *update, ngx_http_agentstream_outcome_pt handler,
    void *data)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_create(target,
                                       update->len
                                       ? NGX_HTTP_AGENTSTREAM_UPDATE_SESSION
                                       : NGX_HTTP_AGENTSTREAM_GET_SESSION,
                                       ngx_http_agentstream_verb_no_session,
                                       handler, data);
    if (verb == NULL) {
        return NULL;
    }

    verb->content.len = update->len;
    verb->content.data = ngx_pstrdup(verb->pool, update);

    if (verb->content.data == NULL) {
        ngx_http_agentstream_verb_give_up(verb);
        return NULL;
    }

    return ngx_http_agentstream_verb_post(verb,
                                          NGX_HTTP_AGENTSTREAM_MAKE_SESSION,
                                          make,
                                          ngx_http_agentstream_verb_made);
}


/* it is there; the rest of what is said of it, or what OpenCode says of it */

static void
ngx_http_agentstream_verb_made(void *data, ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_verb_t *verb = data;

    ngx_int_t  rc;
    ngx_str_t  directory;

    rc = NGX_DECLINED;

    if (call->status != NGX_HTTP_NOT_FOUND) {

        if (ngx_http_agentstream_verb_answered(verb, call) != NGX_OK) {
            return;
        }

        rc = ngx_http_agentstream_opencode_directory(verb->pool, &call->body,
                                                     &verb->target.session,
                                                     &directory);
    }

    if (rc == NGX_DECLINED) {
        ngx_http_agentstream_verb_fail(verb, NGX_HTTP_NOT_IMPLEMENTED,
                                       NGX_HTTP_AGENTSTREAM_NAMELESS);
        return;
    }

    if (rc != NGX_OK) {
        ngx_http_agentstream_verb_give_up(verb);
        return;
    }

    if (verb->handler == NULL && verb->content.len == 0) {
        /* nobody wants to know what it looks like */
        ngx_http_agentstream_verb_succeed(verb, NGX_HTTP_OK, NULL);
        return;
    }

    (void) ngx_http_agentstream_verb_call(verb);
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_get_session(ngx_http_agentstream_target_t *target,
    ngx_http_agentstream_outcome_pt handler, void *data)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_create(target,
                                       NGX_HTTP_AGENTSTREAM_GET_SESSION,
                                       ngx_http_agentstream_verb_no_session,
                                       handler, data);

    return verb ? ngx_http_agentstream_verb_call(verb) : NULL;
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_update_session(ngx_http_agentstream_target_t *target,
    ngx_str_t *content, ngx_http_agentstream_outcome_pt handler, void *data)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_create(target,
                                       NGX_HTTP_AGENTSTREAM_UPDATE_SESSION,
                                       ngx_http_agentstream_verb_no_session,
                                       handler, data);
    if (verb == NULL) {
        return NULL;
    }

    verb->content = *content;

    return ngx_http_agentstream_verb_call(verb);
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_list_choices(ngx_http_agentstream_target_t *target,
    ngx_str_t *directory, ngx_uint_t request,
    ngx_http_agentstream_outcome_pt handler, void *data)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_create(target, request, NULL, handler,
                                            data);
    if (verb == NULL) {
        return NULL;
    }

    verb->directory = *directory;

    return ngx_http_agentstream_verb_call(verb);
}


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_delete_session(ngx_http_agentstream_target_t *target,
    ngx_http_agentstream_outcome_pt handler, void *data)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_create(target,
                                       NGX_HTTP_AGENTSTREAM_DELETE_SESSION,
                                       ngx_http_agentstream_verb_no_session,
                                       handler, data);
    if (verb == NULL) {
        return NULL;
    }

    /* do not interrupt a turn for a deletion that fails for lack of memory */

    if (ngx_http_agentstream_verb_prepare(verb) != NGX_OK) {
        ngx_http_agentstream_verb_give_up(verb);
        return NULL;
    }

    if (ngx_http_agentstream_turn_interrupt(target) == NGX_DECLINED) {
        ngx_http_agentstream_verb_open(verb);
        return verb;
    }

    verb->until = ngx_current_msec + NGX_HTTP_AGENTSTREAM_DELETE_WAIT;

    verb->timer.handler = ngx_http_agentstream_verb_delete_handler;
    verb->timer.data = verb;
    verb->timer.log = ngx_cycle->log;

    ngx_add_timer(&verb->timer, NGX_HTTP_AGENTSTREAM_DELETE_POLL);

    return verb;
}


static void
ngx_http_agentstream_verb_delete_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ev->data;

    if (ngx_http_agentstream_store_running(ngx_http_agentstream_worker->zone,
                                           &verb->target.key, NULL)
        && (ngx_msec_int_t) (verb->until - ngx_current_msec) > 0)
    {
        ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_DELETE_POLL);
        return;
    }

    ngx_http_agentstream_verb_open(verb);
}
