
/*
 * Copyright (C) agentstream contributors
 */


/*
 * How a turn ends.  Invariants: exactly one terminal packet is appended,
 * whatever fails; nothing is appended after it; the node in the zone is
 * released at the same moment.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


static void ngx_http_agentstream_turn_abort_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_turn_aborted(
    ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_ended_handler(void *data, ngx_int_t rc);


/* docs/protocol.md, "How a turn ends": the turn is aborted in OpenCode, then
   the error is sent; until OpenCode has answered, no other turn may begin in
   the session, because the abort would hit it */

void
ngx_http_agentstream_turn_abort(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t code, const char *reason)
{
    ngx_uint_t                    unprompted;
    ngx_http_agentstream_call_t  *call;

    if (turn->phase >= ngx_http_agentstream_turn_aborting) {
        return;
    }

    unprompted = ngx_http_agentstream_turn_unprompted(turn);

    ngx_http_agentstream_reconcile_stop(&turn->reconcile);

    if (turn->call) {
        ngx_http_agentstream_call_close(turn->call);
        turn->call = NULL;
    }

    turn->code = code;
    turn->reason = reason;

    if (unprompted) {
        /* our prompt does not run there, but somebody else's may */
        ngx_http_agentstream_turn_aborted(turn);
        return;
    }

    turn->loose = 1;

    if (turn->interrupt_call) {
        /* the turn was interrupted, and the abort is on its way; a second one
           could hit the session's next turn */

        turn->call = turn->interrupt_call;
        turn->call->done_handler = ngx_http_agentstream_turn_abort_done;
        turn->interrupt_call = NULL;

        ngx_http_agentstream_turn_set_phase(turn,
                                           ngx_http_agentstream_turn_aborting);
        return;
    }

    /* if another machine may have the turn by now, it is not ours to abort */

    call = ngx_http_agentstream_store_mine(ngx_http_agentstream_worker->zone,
                                           turn->node)
           ? ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                              NGX_HTTP_AGENTSTREAM_ABORT,
                                              &turn->session, NULL,
                                              turn->directory.len
                                              ? &turn->directory : NULL)
           : NULL;
    if (call == NULL) {
        ngx_http_agentstream_turn_aborted(turn);
        return;
    }

    call->done_handler = ngx_http_agentstream_turn_abort_done;
    call->data = turn;

    turn->call = call;
    ngx_http_agentstream_turn_set_phase(turn,
                                           ngx_http_agentstream_turn_aborting);

    ngx_http_agentstream_call_open(call);
}


static void
ngx_http_agentstream_turn_abort_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_turn_t *turn = data;

    turn->call = NULL;
    turn->loose = (call->status < 200 || call->status >= 300);

    ngx_http_agentstream_turn_aborted(turn);
}


static void
ngx_http_agentstream_turn_aborted(ngx_http_agentstream_turn_t *turn)
{
    if (turn->reason) {
        ngx_http_agentstream_turn_fail(turn, turn->code, turn->reason, NULL);

    } else {
        ngx_http_agentstream_turn_unreachable(turn, turn->code);
    }
}


void
ngx_http_agentstream_turn_over(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_translate_state_t  *state;

    state = ngx_http_agentstream_translate_state(turn->translate);

    if (state->passed && state->steps == 0
        && !ngx_http_agentstream_turn_interrupted(turn))
    {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_CONFLICT,
                                       "Another prompt in this session was "
                                       "answered instead", NULL);
        return;
    }

    ngx_http_agentstream_turn_finish(turn);
}


void
ngx_http_agentstream_turn_finish(ngx_http_agentstream_turn_t *turn)
{
    ngx_int_t   rc;
    ngx_uint_t  interrupted;

    if (turn->interrupt_call) {
        /* otherwise the abort would hit the session's next turn */
        ngx_http_agentstream_turn_set_interrupt(turn,
                                 ngx_http_agentstream_turn_interrupt_ending, 0);
        return;
    }

    ngx_http_agentstream_turn_clock(turn);

    interrupted = ngx_http_agentstream_turn_interrupted(turn);

    rc = ngx_http_agentstream_translate_asks_over(turn->translate, interrupted);

    if (rc == NGX_OK) {
        turn->terminal = 1;

        rc = ngx_http_agentstream_translate_finish(turn->translate,
                                                   interrupted);
    }

    if (rc != NGX_OK) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_SERVICE_UNAVAILABLE,
                                       "Out of zone memory", NULL);
        return;
    }

    ngx_http_agentstream_turn_end(turn);
}


/* OpenCode did not answer, or gave a wrong answer */

void
ngx_http_agentstream_turn_unreachable(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t status)
{
    ngx_str_t    details;
    ngx_uint_t   code;
    const char  *reason;
    u_char       buf[sizeof("{\"status\":}") + NGX_INT_T_LEN];

    details.data = buf;
    details.len = ngx_sprintf(buf, "{\"status\":%ui}", status) - buf;

    reason = ngx_http_agentstream_opencode_failure(status, 0, &code);

    ngx_http_agentstream_turn_fail(turn, code, reason, &details);
}


void
ngx_http_agentstream_turn_fail(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t code, const char *reason, ngx_str_t *details)
{
    ngx_str_t   text;
    ngx_uint_t  level;

    /* JSON of the module itself, or nothing */
    text = details ? *details : (ngx_str_t) ngx_null_string;

    level = (code >= 500) ? NGX_LOG_ERR : NGX_LOG_INFO;

    ngx_log_error(level, ngx_cycle->log, 0,
                  "agentstream turn: failed with %ui (%s)%s%V, session %V, "
                  "turn %V", code, reason, details ? " " : "", &text,
                  &turn->session, &turn->id);

    if (ngx_http_agentstream_store_last(turn->node) == 0) {
        /* no packet was sent yet, so the HTTP status can tell */
        ngx_http_agentstream_store_status(turn->node, code);
    }

    turn->terminal = 1;

    ngx_http_agentstream_turn_clock(turn);

    if (ngx_http_agentstream_translate_fail(turn->translate, code, reason,
                                            details)
        != NGX_OK)
    {
        /* the packet was too large for the room that is left; this one is
           small enough */
        (void) ngx_http_agentstream_translate_fail(turn->translate, code,
                                                   reason, NULL);
    }

    ngx_http_agentstream_turn_end(turn);
}


void
ngx_http_agentstream_turn_end(ngx_http_agentstream_turn_t *turn)
{
    ngx_int_t                                rc;
    ngx_http_agentstream_translate_state_t  *state;

    ngx_http_agentstream_turn_set_phase(turn,
                                           ngx_http_agentstream_turn_finished);

    if (!turn->adopted) {
        ngx_http_agentstream_observe(TURN_DURATION,
                                     ngx_current_msec - turn->started_at);
    }

    state = ngx_http_agentstream_translate_state(turn->translate);

    turn->end.stop_reason = state->stop_reason;
    turn->end.unsure = (state->passed || turn->loose);

    ngx_http_agentstream_store_cancel(&turn->later);

    turn->later.handler = ngx_http_agentstream_turn_ended_handler;

    rc = ngx_http_agentstream_store_finish(ngx_http_agentstream_worker->zone,
                                           turn->node, &turn->end,
                                           &turn->later);

    turn->node = NULL;

    ngx_http_agentstream_turn_release(turn);

    if (rc != NGX_AGAIN) {
        ngx_http_agentstream_turn_ended_handler(turn, rc);
    }
}


/* the callers of turn_end() may still use the turn, so it is freed later, when
   readers have been woken.  Those of a turn that was fenced look, too, and
   find that it is not over */

static void
ngx_http_agentstream_turn_ended_handler(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_turn_t *turn = data;

    turn->ended = 1;

    ngx_post_event(&turn->wake, &ngx_posted_events);
}


void
ngx_http_agentstream_turn_destroy(ngx_http_agentstream_turn_t *turn)
{
    ngx_queue_remove(&turn->queue);
    ngx_http_agentstream_translate_destroy(turn->translate);
    ngx_http_agentstream_enclosed_release(turn->enclosed);
    ngx_destroy_pool(turn->pool);
}


/* closes everything that could call back */

void
ngx_http_agentstream_turn_release(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_notify_detach(&turn->waiter);
    ngx_http_agentstream_store_cancel(&turn->showing);

    ngx_queue_remove(&turn->queue);
    ngx_queue_init(&turn->queue);

    ngx_http_agentstream_turn_unsubscribe(turn);
    ngx_http_agentstream_reconcile_stop(&turn->reconcile);

    if (turn->call) {
        ngx_http_agentstream_call_close(turn->call);
        turn->call = NULL;
    }

    if (turn->interrupt_call) {
        ngx_http_agentstream_call_close(turn->interrupt_call);
        turn->interrupt_call = NULL;
    }

    ngx_http_agentstream_turn_close_lookups(turn);
    ngx_http_agentstream_turn_forget_held(turn);
    ngx_http_agentstream_turn_ask_close(turn);

    if (turn->timer.timer_set) {
        ngx_del_timer(&turn->timer);
    }
}
