
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
                                            "No sessions", handler, data);
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
                                       ngx_http_agentstream_verb_no_session,
                                       handler, data);
    if (verb == NULL) {
        return NULL;
    }

    verb->directory = *directory;
    verb->content = *content;

    return ngx_http_agentstream_verb_call(verb);
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
