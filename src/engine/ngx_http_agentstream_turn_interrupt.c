
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Interrupts a turn.  Any worker can mark the turn's node and wake its owner.
 * Only the owner aborts the turn in OpenCode, so that an abort neither
 * overtakes its prompt nor is still on its way when the next prompt is sent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* an aborted turn must end within this time; otherwise OpenCode is asked */
#define NGX_HTTP_AGENTSTREAM_TURN_INTERRUPT  3000

/* the same if the abort could not be sent or was refused */
#define NGX_HTTP_AGENTSTREAM_TURN_REPEAT     1000


static void ngx_http_agentstream_turn_interrupt_done(void *data,
    ngx_http_agentstream_call_t *call);


ngx_int_t
ngx_http_agentstream_turn_interrupt(ngx_http_agentstream_target_t *target)
{
    if (ngx_http_agentstream_store_interrupt(ngx_http_agentstream_worker->zone,
                                             &target->key)
        != NGX_OK)
    {
        return NGX_DECLINED;
    }

    /* the owner is woken, because it follows the session */

    ngx_http_agentstream_notify_announce(&target->session);

    return NGX_OK;
}


void
ngx_http_agentstream_turn_interrupt_handler(void *data)
{
    ngx_http_agentstream_turn_t *turn = data;

    if (turn->node == NULL) {
        return;
    }

    ngx_http_agentstream_store_check(ngx_http_agentstream_worker->zone,
                                     turn->node, &turn->showing);

    if (ngx_http_agentstream_turn_interrupted(turn)) {
        ngx_http_agentstream_turn_interrupt_check(turn, 0);
    }
}


void
ngx_http_agentstream_turn_interrupt_check(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t busy)
{
    ngx_http_agentstream_call_t             *call;
    ngx_http_agentstream_translate_state_t  *state;

    if (turn->node == NULL || !ngx_http_agentstream_turn_interrupted(turn)
        || turn->interrupt != ngx_http_agentstream_turn_interrupt_none)
    {
        return;
    }

    if (turn->phase < ngx_http_agentstream_turn_prompting && turn->adopted) {
        /* do it when the state of the turn that was taken over is known */
        return;
    }

    if (ngx_http_agentstream_turn_unprompted(turn)) {

        /* there is nothing to abort, because the prompt is never sent */

        if (turn->call) {
            ngx_http_agentstream_call_close(turn->call);
            turn->call = NULL;
        }

        ngx_http_agentstream_turn_clock(turn);

        if (ngx_http_agentstream_translate_start(turn->translate) != NGX_OK) {
            ngx_http_agentstream_turn_fail(turn,
                                           NGX_HTTP_INTERNAL_SERVER_ERROR,
                                           "Out of memory", NULL);
            return;
        }

        ngx_http_agentstream_turn_finish(turn);
        return;
    }

    if (turn->phase != ngx_http_agentstream_turn_running) {
        return;
    }

    /* OpenCode accepts a prompt before it works on it.  Until then an abort
       would find nothing, and the prompt would run */

    state = ngx_http_agentstream_translate_state(turn->translate);

    if (!busy && !(state->user_seen && (state->busy || state->steps))) {
        return;
    }

    /* if another machine may have the turn by now, try again later */

    call = ngx_http_agentstream_store_mine(ngx_http_agentstream_worker->zone,
                                           turn->node)
           ? ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                              NGX_HTTP_AGENTSTREAM_ABORT,
                                              &turn->session, NULL,
                                              &turn->directory)
           : NULL;

    if (call) {
        call->done_handler = ngx_http_agentstream_turn_interrupt_done;
        call->data = turn;

        turn->interrupt_call = call;

        ngx_http_agentstream_turn_set_interrupt(turn,
                                      ngx_http_agentstream_turn_interrupt_sent,
                                      NGX_HTTP_AGENTSTREAM_TURN_INTERRUPT);
        ngx_http_agentstream_call_open(call);

    } else {
        ngx_http_agentstream_turn_set_interrupt(turn,
                                     ngx_http_agentstream_turn_interrupt_pause,
                                     NGX_HTTP_AGENTSTREAM_TURN_REPEAT);
    }

    ngx_http_agentstream_turn_schedule(turn);
}


static void
ngx_http_agentstream_turn_interrupt_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_turn_t *turn = data;

    ngx_uint_t  failed;

    turn->interrupt_call = NULL;
    failed = (call->status < 200 || call->status >= 300);

    if (failed) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "agentstream turn: abort failed with %ui, session %V, "
                      "turn %V", call->status, &turn->session, &turn->id);
    }

    if (turn->interrupt == ngx_http_agentstream_turn_interrupt_ending) {
        ngx_http_agentstream_turn_set_interrupt(turn,
                                   ngx_http_agentstream_turn_interrupt_none, 0);
        ngx_http_agentstream_turn_finish(turn);
        return;
    }

    ngx_http_agentstream_turn_set_interrupt(turn,
                                     ngx_http_agentstream_turn_interrupt_pause,
                                     failed
                                     ? NGX_HTTP_AGENTSTREAM_TURN_REPEAT
                                     : NGX_HTTP_AGENTSTREAM_TURN_INTERRUPT);

    ngx_http_agentstream_turn_schedule(turn);
}


void
ngx_http_agentstream_turn_interrupt_expire(ngx_http_agentstream_turn_t *turn)
{
    /* an abort that was not answered is not sent again: the first one could
       take effect after the second one has ended the turn, and hit the next
       turn */

    ngx_http_agentstream_turn_set_interrupt(turn,
                                   turn->interrupt_call
                                   ? ngx_http_agentstream_turn_interrupt_sent
                                   : ngx_http_agentstream_turn_interrupt_none,
                                   0);

    ngx_http_agentstream_turn_reconcile(turn);
}


void
ngx_http_agentstream_turn_readers_handler(ngx_http_agentstream_turn_t *turn)
{
    ngx_msec_t  seen_at;
    ngx_uint_t  watched;

    watched = ngx_http_agentstream_store_watched(
                               ngx_http_agentstream_worker->zone, turn->node,
                               &seen_at);

    turn->watched_at = ngx_current_msec;

    /* all workers use the same clock */

    if (!watched
        && (ngx_msec_int_t) (ngx_current_msec - seen_at)
           > (ngx_msec_int_t) turn->conf->detach_timeout)
    {
        ngx_http_agentstream_store_stop(turn->node);
        ngx_http_agentstream_turn_interrupt_check(turn, 0);
    }
}
