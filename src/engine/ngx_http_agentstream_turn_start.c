
/*
 * Copyright (C) agentstream contributors
 */


/*
 * How a turn starts; docs/protocol.md, "How a turn starts".  When the turn is
 * subscribed to the events of its session, the prompt is sent, once.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* normally the first event follows an accepted prompt within a second or
   two */
#define NGX_HTTP_AGENTSTREAM_TURN_FIRST   10000

/* after this long without an event it is doubted that the session still has the
   directory that it had for its last turn */
#define NGX_HTTP_AGENTSTREAM_TURN_KNOWN   2000

/* a prompt whose answer was lost may still be on its way: how long the user
   message is looked for, with intervals that double each time */
#define NGX_HTTP_AGENTSTREAM_TURN_CHECK   250
#define NGX_HTTP_AGENTSTREAM_TURN_CHECKS  15000


static void ngx_http_agentstream_turn_prompting_handler(void *data,
    ngx_int_t rc);
static void ngx_http_agentstream_turn_send(ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_prompt_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_turn_check_body(void *data, u_char *pos,
    size_t len);
static void ngx_http_agentstream_turn_check_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_turn_check_again(
    ngx_http_agentstream_turn_t *turn, ngx_uint_t status);


void
ngx_http_agentstream_turn_ready(void *data)
{
    ngx_http_agentstream_turn_t *turn = data;

    ngx_http_agentstream_turn_set_stream(turn,
                           turn->phase < ngx_http_agentstream_turn_prompting
                           ? ngx_http_agentstream_turn_stream_whole
                           : ngx_http_agentstream_turn_stream_gap);

    if (turn->phase == ngx_http_agentstream_turn_subscribing) {

        if (turn->adopted) {
            ngx_http_agentstream_turn_resume(turn);

        } else {
            ngx_http_agentstream_turn_prompt(turn);
        }

        return;
    }

    if (turn->phase == ngx_http_agentstream_turn_running) {
        /* the answer that is being read may be older than the stream */
        ngx_http_agentstream_reconcile_stop(&turn->reconcile);
        ngx_http_agentstream_turn_reconcile(turn);
    }
}


void
ngx_http_agentstream_turn_prompt(ngx_http_agentstream_turn_t *turn)
{
    ngx_int_t  rc;

    if (ngx_http_agentstream_turn_interrupted(turn)) {
        ngx_http_agentstream_turn_interrupt_check(turn, 0);
        return;
    }

    if (turn->others == ngx_http_agentstream_turn_others_unknown
        && ngx_http_agentstream_hub_quiet(&turn->sub, &turn->session))
    {
        turn->others = ngx_http_agentstream_turn_others_none;
    }

    if (turn->others != ngx_http_agentstream_turn_others_none) {
        ngx_http_agentstream_turn_set_phase(turn,
                                            ngx_http_agentstream_turn_probing);
        ngx_http_agentstream_turn_probe(turn);
        return;
    }

    if (ngx_http_agentstream_store_pending(&turn->later)) {
        return;
    }

    turn->later.handler = ngx_http_agentstream_turn_prompting_handler;

    rc = ngx_http_agentstream_store_prompting(ngx_http_agentstream_worker->zone,
                                              turn->node, &turn->later);

    if (rc != NGX_AGAIN) {
        ngx_http_agentstream_turn_send(turn);
    }
}


/* the store has answered later */

static void
ngx_http_agentstream_turn_prompting_handler(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_turn_t *turn = data;

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_SERVICE_UNAVAILABLE,
                                       "The store cannot be reached", NULL);
        return;
    }

    if (rc != NGX_OK) {
        ngx_http_agentstream_turn_fenced(turn);
        return;
    }

    if (ngx_http_agentstream_turn_interrupted(turn)) {
        ngx_http_agentstream_turn_interrupt_check(turn, 0);
        return;
    }

    if (turn->stream == ngx_http_agentstream_turn_stream_away) {
        /* the stream has broken in the meantime: ask again whether the session
           is free, and wait until the stream is open again */
        ngx_http_agentstream_turn_probe(turn);
        return;
    }

    ngx_http_agentstream_turn_send(turn);
}


static void
ngx_http_agentstream_turn_send(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                            NGX_HTTP_AGENTSTREAM_PROMPT,
                                            &turn->session, NULL,
                                            &turn->directory);
    if (call == NULL) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                       "Out of memory", NULL);
        return;
    }

    call->content = turn->prompt;
    call->enclosed = turn->enclosed;
    call->enclosed_at = turn->enclosed_at;
    call->done_handler = ngx_http_agentstream_turn_prompt_done;
    call->data = turn;

    turn->call = call;
    ngx_http_agentstream_turn_set_phase(turn,
                                          ngx_http_agentstream_turn_prompting);

    ngx_http_agentstream_call_open(call);
}


static void
ngx_http_agentstream_turn_prompt_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_turn_t *turn = data;

    ngx_uint_t  status;
    ngx_str_t   details;
    u_char      buf[sizeof("{\"status\":}") + NGX_INT_T_LEN];

    turn->call = NULL;
    status = call->status;

    if (status == NGX_HTTP_NOT_FOUND && call->answered && turn->known
        && turn->phase == ngx_http_agentstream_turn_prompting)
    {
        /* the session is no longer what it was for its last turn */
        ngx_http_agentstream_turn_forget(turn);
        ngx_http_agentstream_turn_resolve(turn);
        return;
    }

    /* the prompt is not sent again, and may be large */

    if (turn->prompt.len) {
        (void) ngx_pfree(turn->pool, turn->prompt.data);
        ngx_str_null(&turn->prompt);
        ngx_http_agentstream_enclosed_release(turn->enclosed);
        turn->enclosed = NULL;
    }

    if (turn->phase != ngx_http_agentstream_turn_prompting) {

        /* the events arrived before the answer */

        if (status < 200 || status >= 300) {
            ngx_http_agentstream_turn_reconcile(turn);

        } else {
            ngx_http_agentstream_turn_judge(turn, NGX_OK);
        }

        return;
    }

    if (status >= 200 && status < 300) {
        ngx_http_agentstream_turn_accepted(turn, NGX_OK);
        return;
    }

    if (call->unsent) {
        ngx_http_agentstream_turn_unreachable(turn, status);
        return;
    }

    if (!call->answered) {
        /* it is not known what happened to the prompt */
        ngx_http_agentstream_turn_check_prompt(turn, status);
        return;
    }

    details.data = buf;
    details.len = ngx_sprintf(buf, "{\"status\":%ui}", status) - buf;

    ngx_http_agentstream_turn_fail(turn, status,
                                   "OpenCode refused the prompt", &details);
}


/* whether not a byte of the prompt was sent, by this worker or by the one that
   had the turn before */

ngx_uint_t
ngx_http_agentstream_turn_unprompted(ngx_http_agentstream_turn_t *turn)
{
    if (!ngx_http_agentstream_store_prompted(turn->node)) {
        return 1;
    }

    if (turn->phase < ngx_http_agentstream_turn_prompting && !turn->adopted) {
        /* the store was told that it will be, and has not answered yet */
        return 1;
    }

    return turn->phase == ngx_http_agentstream_turn_prompting
           && turn->call && turn->check == 0
           && ngx_http_agentstream_call_unsent(turn->call);
}


void
ngx_http_agentstream_turn_accepted(ngx_http_agentstream_turn_t *turn,
    ngx_int_t rc)
{
    ngx_http_agentstream_turn_set_phase(turn,
                                            ngx_http_agentstream_turn_running);

    if (turn->check) {
        turn->check = 0;
        turn->check_at = 0;

        if (turn->call) {
            ngx_http_agentstream_call_close(turn->call);
            turn->call = NULL;
        }
    }

    if (rc == NGX_OK) {
        ngx_http_agentstream_turn_clock(turn);
        rc = ngx_http_agentstream_translate_start(turn->translate);
    }

    if (rc == NGX_OK && turn->adopted) {
        /* events were missed */
        ngx_http_agentstream_turn_resume(turn);

    } else if (turn->poll_at == 0
               && !ngx_http_agentstream_translate_state(turn->translate)
                   ->user_seen)
    {
        turn->poll_at = ngx_current_msec
                        + (turn->known ? NGX_HTTP_AGENTSTREAM_TURN_KNOWN
                                       : NGX_HTTP_AGENTSTREAM_TURN_FIRST);
    }

    ngx_http_agentstream_turn_judge(turn, rc);
}


/* a prompt must never be sent twice, because OpenCode would run it twice */

void
ngx_http_agentstream_turn_check_prompt(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t status)
{
    turn->code = status;
    turn->check = NGX_HTTP_AGENTSTREAM_TURN_CHECK;
    turn->check_until = ngx_current_msec + NGX_HTTP_AGENTSTREAM_TURN_CHECKS;

    ngx_http_agentstream_turn_check(turn);
}


void
ngx_http_agentstream_turn_check(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                            NGX_HTTP_AGENTSTREAM_GET_MESSAGE,
                                            &turn->session, &turn->id,
                                            &turn->directory);
    if (call == NULL) {
        ngx_http_agentstream_turn_check_again(turn, 0);
        return;
    }

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_CLIENT;
    call->body_handler = ngx_http_agentstream_turn_check_body;
    call->done_handler = ngx_http_agentstream_turn_check_done;
    call->data = turn;

    turn->call = call;

    ngx_http_agentstream_call_open(call);
}


/* it only matters that the message exists, so its content is not kept */

static ngx_int_t
ngx_http_agentstream_turn_check_body(void *data, u_char *pos, size_t len)
{
    return NGX_OK;
}


static void
ngx_http_agentstream_turn_check_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_turn_t *turn = data;

    turn->call = NULL;

    if (call->status == NGX_HTTP_OK) {
        ngx_http_agentstream_turn_accepted(turn, NGX_OK);
        return;
    }

    ngx_http_agentstream_turn_check_again(turn, call->status);
}


static void
ngx_http_agentstream_turn_check_again(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t status)
{
    ngx_uint_t   code;
    const char  *reason;

    if ((ngx_msec_int_t) (turn->check_until - ngx_current_msec) > 0) {
        turn->check_at = ngx_current_msec + turn->check;
        turn->check *= 2;

        ngx_http_agentstream_turn_schedule(turn);
        return;
    }

    /* if the prompt arrives after all, it must not run */

    code = (turn->code == NGX_HTTP_GATEWAY_TIME_OUT)
           ? NGX_HTTP_GATEWAY_TIME_OUT : NGX_HTTP_BAD_GATEWAY;

    reason = (status == NGX_HTTP_NOT_FOUND)
             ? "The answer to the prompt was lost, and OpenCode does not have "
               "the prompt"
             : "The answer to the prompt was lost, and OpenCode cannot be "
               "reached";

    ngx_http_agentstream_turn_abort(turn, code, reason);
}
