
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Where a turn's session is; docs/protocol.md, "How a turn starts".  The
 * session's directory determines the event stream.  OpenCode is asked for it,
 * unless the session's last turn has found it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


static ngx_uint_t ngx_http_agentstream_turn_recall(
    ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_resolved(
    ngx_http_agentstream_turn_t *turn);
static ngx_int_t ngx_http_agentstream_turn_subscribe(
    ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_moved_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_turn_resolve_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_turn_located(
    ngx_http_agentstream_turn_t *turn, ngx_str_t *answer);
static void ngx_http_agentstream_turn_nameless(
    ngx_http_agentstream_turn_t *turn);
static ngx_int_t ngx_http_agentstream_turn_check_files(
    ngx_http_agentstream_turn_t *turn);


/* docs/protocol.md, "How a turn starts": the session must exist, and its
   directory determines the event stream */

void
ngx_http_agentstream_turn_locate(ngx_http_agentstream_turn_t *turn)
{
    turn->known = ngx_http_agentstream_turn_recall(turn);

    if (turn->known) {
        ngx_http_agentstream_turn_resolved(turn);

    } else {
        ngx_http_agentstream_turn_resolve(turn);
    }
}


/*
 * Whether the directory that the session's last turn has found will do.  If the
 * session does not exist any more, the answer to the prompt will tell; if it
 * was moved, see turn_poll().  But what a client may read is decided only by
 * what OpenCode says now, and an open event stream shows that OpenCode is
 * there.
 */

static ngx_uint_t
ngx_http_agentstream_turn_recall(ngx_http_agentstream_turn_t *turn)
{
    if (turn->adopted || turn->files.len
        || turn->others != ngx_http_agentstream_turn_others_none)
    {
        return 0;
    }

    return ngx_http_agentstream_store_located(ngx_http_agentstream_worker->zone,
                                              turn->node, turn->pool,
                                              &turn->directory)
           && ngx_http_agentstream_hub_is_open(turn->conf, &turn->route,
                                               &turn->directory);
}


void
ngx_http_agentstream_turn_resolve(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                turn->make.len
                                ? NGX_HTTP_AGENTSTREAM_MAKE_SESSION
                                : NGX_HTTP_AGENTSTREAM_GET_SESSION,
                                &turn->session, NULL, NULL);
    if (call == NULL) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                       "Out of memory", NULL);
        return;
    }

    call->content = turn->make;
    call->done_handler = ngx_http_agentstream_turn_resolve_done;
    call->data = turn;

    turn->call = call;

    ngx_http_agentstream_call_open(call);
}


static void
ngx_http_agentstream_turn_resolve_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_turn_t *turn = data;

    turn->call = NULL;

    if (call->status == NGX_HTTP_NOT_FOUND && call->answered) {

        if (turn->make.len) {
            ngx_http_agentstream_turn_nameless(turn);
            return;
        }

        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_NOT_FOUND,
                                       "Session not found", NULL);
        return;
    }

    if (call->status != NGX_HTTP_OK && turn->adopted) {
        /* the turn runs in OpenCode, whether we get an answer or not */
        ngx_http_agentstream_turn_again(turn, call->status);
        return;
    }

    if (call->status != NGX_HTTP_OK) {
        ngx_http_agentstream_turn_unreachable(turn, call->status);
        return;
    }

    if (ngx_http_agentstream_turn_located(turn, &call->body) != NGX_OK) {
        return;
    }

    ngx_http_agentstream_turn_server(turn, &call->body);

    if (ngx_http_agentstream_turn_check_files(turn) != NGX_OK) {
        return;
    }

    ngx_http_agentstream_turn_resolved(turn);
}


/* the directory is known */

static void
ngx_http_agentstream_turn_resolved(ngx_http_agentstream_turn_t *turn)
{
    /* other workers answer questions of this turn */

    if (ngx_http_agentstream_store_directory(ngx_http_agentstream_worker->zone,
                                             turn->node, &turn->directory)
        != NGX_OK)
    {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_SERVICE_UNAVAILABLE,
                                       "Out of zone memory", NULL);
        return;
    }

    ngx_http_agentstream_turn_set_phase(turn,
                                        ngx_http_agentstream_turn_subscribing);

    /* docs/protocol.md, "How a turn starts": subscribe before the prompt is
       sent */

    if (ngx_http_agentstream_turn_subscribe(turn) != NGX_OK) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                       "Out of memory", NULL);
    }
}


/* where the session is; if the answer does not tell, the turn fails */

static ngx_int_t
ngx_http_agentstream_turn_located(ngx_http_agentstream_turn_t *turn,
    ngx_str_t *answer)
{
    ngx_int_t  rc;

    rc = ngx_http_agentstream_opencode_directory(turn->pool, answer,
                                                 &turn->session,
                                                 &turn->directory);

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                       "Out of memory", NULL);

    } else if (rc != NGX_OK && turn->make.len) {
        ngx_http_agentstream_turn_nameless(turn);

    } else if (rc != NGX_OK) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_BAD_GATEWAY,
                                       "OpenCode's answer makes no sense",
                                       NULL);
    }

    return rc;
}


/* what was answered is not about the session that was to be created */

static void
ngx_http_agentstream_turn_nameless(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_turn_fail(turn, NGX_HTTP_NOT_IMPLEMENTED,
                                   NGX_HTTP_AGENTSTREAM_NAMELESS, NULL);
}


/* OpenCode opens the files that a prompt names without asking anybody; a turn
   that names one outside of the session's directory fails here */

static ngx_int_t
ngx_http_agentstream_turn_check_files(ngx_http_agentstream_turn_t *turn)
{
    u_char       reason[128];
    const char  *field;

    field = ngx_http_agentstream_prompt_outside(&turn->files,
                                                &turn->directory);
    if (field == NULL) {
        return NGX_OK;
    }

    (void) ngx_snprintf(reason, sizeof(reason),
                        "\"%s\" must lie in the session's directory%Z", field);

    ngx_http_agentstream_turn_fail(turn, NGX_HTTP_BAD_REQUEST,
                                   (const char *) reason, NULL);

    return NGX_DECLINED;
}


/* asks for the events of the session, and of its subagents if there are any */

static ngx_int_t
ngx_http_agentstream_turn_subscribe(ngx_http_agentstream_turn_t *turn)
{
    ngx_str_t                           **sessions;
    ngx_uint_t                            i;
    ngx_http_agentstream_hub_session_t  **entries;

    if (ngx_http_agentstream_hub_open(&turn->sub, turn->conf, &turn->route,
                                      &turn->directory)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    entries = turn->hub_sessions.elts;
    sessions = turn->sessions.elts;

    for (i = 0; i < turn->hub_sessions.nelts; i++) {
        ngx_http_agentstream_hub_add(&turn->sub, entries[i], sessions[i]);
    }

    return NGX_OK;
}


void
ngx_http_agentstream_turn_unsubscribe(ngx_http_agentstream_turn_t *turn)
{
    ngx_uint_t                            i;
    ngx_http_agentstream_hub_session_t  **entries;

    entries = turn->hub_sessions.elts;

    for (i = 0; i < turn->hub_sessions.nelts; i++) {
        ngx_http_agentstream_hub_remove(entries[i]);
    }

    ngx_http_agentstream_hub_close(&turn->sub);
}


/* what the session's last turn has found is no longer true: the turn is as if
   it had just been created */

void
ngx_http_agentstream_turn_forget(ngx_http_agentstream_turn_t *turn)
{
    turn->known = 0;
    ngx_str_null(&turn->directory);

    ngx_http_agentstream_turn_unsubscribe(turn);

    (void) ngx_http_agentstream_store_directory(
                                             ngx_http_agentstream_worker->zone,
                                             turn->node, &turn->directory);

    ngx_http_agentstream_turn_set_phase(turn,
                                        ngx_http_agentstream_turn_resolving);
}


/* the prompt was accepted, but there are no events: OpenCode may have moved the
   session to another directory since its last turn */

void
ngx_http_agentstream_turn_poll(ngx_http_agentstream_turn_t *turn)
{
    if (turn->known && turn->call == NULL
        && !ngx_http_agentstream_translate_state(turn->translate)->user_seen)
    {
        turn->known = 0;
        turn->call = ngx_http_agentstream_call_session(turn->conf,
                                      &turn->route, &turn->session,
                                      ngx_http_agentstream_turn_moved_done,
                                      turn);
        if (turn->call) {
            return;
        }
    }

    ngx_http_agentstream_turn_reconcile(turn);
}


static void
ngx_http_agentstream_turn_moved_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_turn_t *turn = data;

    ngx_str_t  directory;

    turn->call = NULL;

    if (call->status == NGX_HTTP_OK
        && ngx_http_agentstream_opencode_directory(turn->pool, &call->body,
                                                   &turn->session, &directory)
           == NGX_OK
        && (directory.len != turn->directory.len
            || ngx_memcmp(directory.data, turn->directory.data, directory.len)
               != 0))
    {
        ngx_http_agentstream_turn_unsubscribe(turn);
        ngx_http_agentstream_turn_set_stream(turn,
                                        ngx_http_agentstream_turn_stream_away);

        turn->directory = directory;

        (void) ngx_http_agentstream_store_directory(
                                             ngx_http_agentstream_worker->zone,
                                             turn->node, &turn->directory);

        /* when it is subscribed, what was missed is read; without memory for
           that, now and again and again */

        if (ngx_http_agentstream_turn_subscribe(turn) == NGX_OK) {
            return;
        }
    }

    ngx_http_agentstream_turn_reconcile(turn);
}
