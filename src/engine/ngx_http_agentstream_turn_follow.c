
/*
 * Copyright (C) agentstream contributors
 */


/*
 * A running turn; docs/protocol.md, "From OpenCode's events to packets" and
 * "How a turn ends".  Events are translated, and after each event it is
 * decided whether the turn is over.  When the events leave a doubt, OpenCode
 * is asked.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* after idle, wait this long for events that are still missing */
#define NGX_HTTP_AGENTSTREAM_TURN_GRACE   500

/* an error that is not followed by busy within this time is final */
#define NGX_HTTP_AGENTSTREAM_TURN_ERROR   1000

/* how often OpenCode is asked while the event stream is interrupted */
#define NGX_HTTP_AGENTSTREAM_TURN_POLL    1000
#define NGX_HTTP_AGENTSTREAM_TURN_POLLS   10000

/* bytes of events that are held while OpenCode is asked for those that were
   missed */
#define NGX_HTTP_AGENTSTREAM_TURN_HELD    (1024 * 1024)

/* answers in a row that fail or make no sense, before the turn is given up */
#define NGX_HTTP_AGENTSTREAM_TURN_TRIES   5

/* answers in a row according to which OpenCode no longer works on the turn */
#define NGX_HTTP_AGENTSTREAM_TURN_IDLE    2


static void ngx_http_agentstream_turn_missed(
    ngx_http_agentstream_turn_t *turn);
static ngx_uint_t ngx_http_agentstream_turn_given_up(
    ngx_http_agentstream_turn_t *turn);
static ngx_int_t ngx_http_agentstream_turn_caught_up(
    ngx_http_agentstream_turn_t *turn, ngx_uint_t stale);
static void ngx_http_agentstream_turn_still_busy(
    ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_hold(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_event_t *ev);
static ngx_int_t ngx_http_agentstream_turn_replay(
    ngx_http_agentstream_turn_t *turn);


void
ngx_http_agentstream_turn_event(void *data, ngx_http_agentstream_event_t *ev)
{
    ngx_http_agentstream_turn_t *turn = data;

    ngx_int_t  rc;

    if (turn->phase == ngx_http_agentstream_turn_probing
        && ev->type == NGX_HTTP_AGENTSTREAM_EVENT_IDLE)
    {
        /* otherwise it is known that the session is free, and the store is
           told of the prompt */

        if (!ngx_http_agentstream_store_pending(&turn->later)) {
            ngx_http_agentstream_turn_probe(turn);
        }

        return;
    }

    if (turn->phase < ngx_http_agentstream_turn_prompting
        || turn->phase == ngx_http_agentstream_turn_finished)
    {
        return;
    }

    turn->heard_at = ngx_current_msec;

    if (turn->stream != ngx_http_agentstream_turn_stream_whole
        && turn->phase == ngx_http_agentstream_turn_running)
    {
        /* what was missed must be sent before this event */
        ngx_http_agentstream_turn_hold(turn, ev);
        return;
    }

    ngx_http_agentstream_turn_clock(turn);

    rc = ngx_http_agentstream_translate_event(turn->translate, ev);

    if (rc == NGX_AGAIN) {
        ngx_http_agentstream_turn_skipped(turn);
        rc = NGX_OK;
    }

    if (rc == NGX_OK && ev->type == NGX_HTTP_AGENTSTREAM_EVENT_DELTA
        && turn->phase == ngx_http_agentstream_turn_running
        && !turn->settling && turn->poll_at == 0 && !turn->failed
        && !ngx_http_agentstream_turn_interrupted(turn))
    {
        /* most events only move the idle timeout further away, so the timer
           need not be set again */
        return;
    }

    ngx_http_agentstream_turn_judge(turn, rc);
}


static void
ngx_http_agentstream_turn_hold(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_event_t *ev)
{
    ngx_str_t                    *raw;
    ngx_http_agentstream_held_t  *held;

    if (turn->stream == ngx_http_agentstream_turn_stream_stale) {
        return;
    }

    raw = &ev->data;

    held = NULL;

    if (raw->len <= NGX_HTTP_AGENTSTREAM_TURN_HELD - turn->held_size) {
        held = ngx_alloc(sizeof(ngx_http_agentstream_held_t) + raw->len,
                         ngx_cycle->log);
    }

    if (held == NULL) {
        ngx_http_agentstream_turn_forget_held(turn);
        ngx_http_agentstream_turn_missed(turn);
        return;
    }

    held->len = raw->len;
    ngx_memcpy(held->data, raw->data, raw->len);

    ngx_queue_insert_tail(&turn->held_events, &held->queue);
    turn->held_size += raw->len;
}


/* NGX_AGAIN: some of them require that the stored state is read once more */

static ngx_int_t
ngx_http_agentstream_turn_replay(ngx_http_agentstream_turn_t *turn)
{
    ngx_int_t                      rc, again;
    ngx_str_t                      data;
    ngx_queue_t                   *q;
    ngx_http_agentstream_held_t   *held;
    ngx_http_agentstream_json_t    json;
    ngx_http_agentstream_event_t   ev;

    rc = NGX_OK;
    again = NGX_OK;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));
    ngx_http_agentstream_turn_clock(turn);

    while (rc == NGX_OK && !ngx_queue_empty(&turn->held_events)) {
        q = ngx_queue_head(&turn->held_events);
        ngx_queue_remove(q);

        held = ngx_queue_data(q, ngx_http_agentstream_held_t, queue);

        data.data = held->data;
        data.len = held->len;

        (void) ngx_http_agentstream_opencode_peek(&data, &ev);

        if (ngx_http_agentstream_opencode_read(&data, &json, &ev) == NGX_OK) {
            rc = ngx_http_agentstream_translate_event(turn->translate, &ev);
        }

        if (rc == NGX_AGAIN) {
            again = NGX_AGAIN;
            rc = NGX_OK;
        }

        ngx_free(held);
    }

    ngx_http_agentstream_json_destroy(&json);
    ngx_http_agentstream_turn_forget_held(turn);

    return (rc == NGX_OK) ? again : rc;
}


void
ngx_http_agentstream_turn_forget_held(ngx_http_agentstream_turn_t *turn)
{
    ngx_queue_t                  *q;
    ngx_http_agentstream_held_t  *held;

    while (!ngx_queue_empty(&turn->held_events)) {
        q = ngx_queue_head(&turn->held_events);
        ngx_queue_remove(q);

        held = ngx_queue_data(q, ngx_http_agentstream_held_t, queue);
        ngx_free(held);
    }

    turn->held_size = 0;
}


void
ngx_http_agentstream_turn_skipped(void *data)
{
    ngx_http_agentstream_turn_t *turn = data;

    if (turn->phase != ngx_http_agentstream_turn_running) {
        return;
    }

    ngx_http_agentstream_turn_missed(turn);

    if (turn->stream == ngx_http_agentstream_turn_stream_stale) {
        /* the held events now have a gap, too */
        ngx_http_agentstream_turn_forget_held(turn);
        return;
    }

    turn->poll_at = ngx_current_msec + NGX_HTTP_AGENTSTREAM_TURN_GRACE;
    ngx_http_agentstream_turn_schedule(turn);
}


/* OpenCode may have read its answer before the missed event happened; only an
   answer to a later question is sure to contain it */

static void
ngx_http_agentstream_turn_missed(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_turn_set_stream(turn, turn->reconcile.call
                                   ? ngx_http_agentstream_turn_stream_stale
                                   : ngx_http_agentstream_turn_stream_gap);
}


void
ngx_http_agentstream_turn_broken(void *data, ngx_uint_t status)
{
    ngx_http_agentstream_turn_t *turn = data;

    ngx_http_agentstream_turn_set_stream(turn,
                                        ngx_http_agentstream_turn_stream_away);

    if (turn->phase == ngx_http_agentstream_turn_subscribing
        && !turn->adopted)
    {
        ngx_http_agentstream_turn_unreachable(turn, status);
        return;
    }

    if (turn->phase == ngx_http_agentstream_turn_prompting
        || turn->phase == ngx_http_agentstream_turn_running)
    {
        turn->poll = NGX_HTTP_AGENTSTREAM_TURN_POLL;
        turn->poll_at = ngx_current_msec + turn->poll;
        ngx_http_agentstream_turn_schedule(turn);
    }
}


void
ngx_http_agentstream_turn_flush(ngx_http_agentstream_turn_t *turn)
{
    ngx_msec_t  next;

    turn->flush_at = 0;

    if (turn->failed) {
        return;
    }

    if (ngx_http_agentstream_translate_flush(turn->translate, &next) != NGX_OK)
    {
        turn->failed = 1;

    } else if (next != NGX_TIMER_INFINITE) {
        turn->flush_at = ngx_current_msec + next;
    }
}


/* called after everything that may have changed the state of the turn */

void
ngx_http_agentstream_turn_judge(ngx_http_agentstream_turn_t *turn, ngx_int_t rc)
{
    ngx_uint_t                               over;
    ngx_http_agentstream_translate_state_t  *state;

    state = ngx_http_agentstream_translate_state(turn->translate);

    if (rc != NGX_OK) {
        turn->failed = 1;
    }

    if (turn->phase != ngx_http_agentstream_turn_running) {

        if (turn->phase == ngx_http_agentstream_turn_prompting
            && (turn->failed || state->user_seen))
        {
            /* no matter what happened to the answer to the prompt */
            ngx_http_agentstream_turn_accepted(turn, turn->failed ? NGX_ERROR
                                                                  : NGX_OK);
        }

        return;
    }

    ngx_http_agentstream_turn_flush(turn);

    if (ngx_http_agentstream_turn_given_up(turn)) {
        return;
    }

    /* docs/protocol.md, "How a turn ends": idle ends the turn only after its
       own activity.  The answer to the prompt will arrive soon, so wait for
       it: its connection can then be kept */

    over = (state->idle || state->passed);

    if (over && turn->call == NULL
        && ngx_http_agentstream_translate_settled(turn->translate))
    {
        ngx_http_agentstream_turn_over(turn);
        return;
    }

    if (over || (state->error && !state->busy)) {

        if (!turn->settling) {
            turn->settling = 1;
            turn->settle_at = ngx_current_msec
                              + (over ? NGX_HTTP_AGENTSTREAM_TURN_GRACE
                                      : NGX_HTTP_AGENTSTREAM_TURN_ERROR);
        }

    } else {
        turn->settling = 0;
        turn->settle_at = 0;
    }

    if (state->user_seen
        && turn->stream == ngx_http_agentstream_turn_stream_whole
        && turn->tries == 0 && !turn->reconcile.unknown)
    {
        turn->poll_at = 0;
    }

    ngx_http_agentstream_turn_interrupt_check(turn, 0);

    ngx_http_agentstream_turn_schedule(turn);
}


/* ends the turn if its packets cannot be written, it exceeds a limit, or its
   session was deleted; returns whether it did */

static ngx_uint_t
ngx_http_agentstream_turn_given_up(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_translate_state_t  *state;

    state = ngx_http_agentstream_translate_state(turn->translate);

    if (turn->failed && state->full) {
        ngx_http_agentstream_turn_abort(turn, NGX_HTTP_BAD_GATEWAY,
                                        "The turn is too large");
        return 1;
    }

    if (turn->failed) {
        ngx_http_agentstream_turn_abort(turn, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                        "Out of memory");
        return 1;
    }

    if (state->steps > (ngx_uint_t) turn->conf->max_steps) {
        ngx_http_agentstream_turn_abort(turn, NGX_HTTP_BAD_GATEWAY,
                            "The agent took more than agentstream_max_steps");
        return 1;
    }

    if (state->deleted) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_NOT_FOUND,
                                       "The session was deleted", NULL);
        return 1;
    }

    return 0;
}


void
ngx_http_agentstream_turn_reconcile(ngx_http_agentstream_turn_t *turn)
{
    /* the answer tells whether, and when, to ask again */
    turn->settle_at = 0;
    turn->poll_at = 0;

    ngx_http_agentstream_turn_clock(turn);

    ngx_http_agentstream_count(RECONCILED, 1);

    if (ngx_http_agentstream_reconcile_start(&turn->reconcile,
                       turn->stream != ngx_http_agentstream_turn_stream_whole)
        != NGX_OK)
    {
        ngx_http_agentstream_turn_again(turn, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


void
ngx_http_agentstream_turn_reconciled(void *data, ngx_uint_t status,
    ngx_uint_t busy)
{
    ngx_http_agentstream_turn_t *turn = data;

    ngx_uint_t                               stale;
    ngx_http_agentstream_translate_state_t  *state;

    stale = (turn->stream == ngx_http_agentstream_turn_stream_stale);

    if (stale) {
        /* in any case: answers to questions asked from now on are not too
           old */
        ngx_http_agentstream_turn_set_stream(turn,
                                         ngx_http_agentstream_turn_stream_gap);
    }

    if (status == NGX_HTTP_INSUFFICIENT_STORAGE) {
        ngx_http_agentstream_turn_judge(turn, NGX_ERROR);
        return;
    }

    if (status == NGX_HTTP_NOT_FOUND) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_NOT_FOUND,
                                       "The session was deleted", NULL);
        return;
    }

    if (status != NGX_HTTP_OK) {
        ngx_http_agentstream_turn_again(turn, status);
        return;
    }

    if (ngx_http_agentstream_turn_caught_up(turn, stale) != NGX_OK) {
        ngx_http_agentstream_turn_judge(turn, NGX_ERROR);
        return;
    }

    state = ngx_http_agentstream_translate_state(turn->translate);

    if (busy && !state->passed) {
        ngx_http_agentstream_turn_still_busy(turn);
        return;
    }

    if (ngx_http_agentstream_translate_abandoned(turn->translate)
        && !ngx_http_agentstream_turn_interrupted(turn))
    {
        /* OpenCode was restarted, or the answer began after it was asked */

        if (turn->tries < NGX_HTTP_AGENTSTREAM_TURN_IDLE) {
            ngx_http_agentstream_turn_again(turn, NGX_HTTP_BAD_GATEWAY);

        } else {
            ngx_http_agentstream_turn_fail(turn, NGX_HTTP_BAD_GATEWAY,
                                           "OpenCode has lost the turn", NULL);
        }

        return;
    }

    if (state->error || state->passed || (state->user_seen && state->steps)) {
        ngx_http_agentstream_turn_over(turn);
        return;
    }

    /* idle, and nothing of this turn is stored: OpenCode may not have begun
       yet */

    ngx_http_agentstream_turn_again(turn, NGX_HTTP_BAD_GATEWAY);
}


/* what is stored was read; now translate the events that arrived in the
   meantime */

static ngx_int_t
ngx_http_agentstream_turn_caught_up(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t stale)
{
    ngx_int_t  rc;

    rc = ngx_http_agentstream_turn_replay(turn);

    if (rc != NGX_OK && rc != NGX_AGAIN) {
        return NGX_ERROR;
    }

    if (turn->stream == ngx_http_agentstream_turn_stream_away) {
        /* more events were missed by now */
        ngx_http_agentstream_turn_set_stream(turn,
                                        ngx_http_agentstream_turn_stream_away);
        return NGX_OK;
    }

    if (stale || rc == NGX_AGAIN) {
        ngx_http_agentstream_turn_skipped(turn);
        return NGX_OK;
    }

    ngx_http_agentstream_turn_set_stream(turn,
                                       ngx_http_agentstream_turn_stream_whole);
    return NGX_OK;
}


static void
ngx_http_agentstream_turn_still_busy(ngx_http_agentstream_turn_t *turn)
{
    ngx_uint_t                               away;
    ngx_http_agentstream_translate_state_t  *state;

    away = (turn->stream == ngx_http_agentstream_turn_stream_away);
    state = ngx_http_agentstream_translate_state(turn->translate);

    turn->tries = 0;
    turn->settling = 0;
    turn->settle_at = 0;

    if (away || state->user_seen) {
        turn->heard_at = ngx_current_msec;
    }

    if (away || turn->reconcile.unknown || !state->user_seen) {
        turn->poll = ngx_max(turn->poll, NGX_HTTP_AGENTSTREAM_TURN_POLL);
        turn->poll_at = ngx_current_msec + turn->poll;
        turn->poll = ngx_min(turn->poll * 2, NGX_HTTP_AGENTSTREAM_TURN_POLLS);
    }

    ngx_http_agentstream_turn_interrupt_check(turn, 1);

    if (turn->phase == ngx_http_agentstream_turn_running) {
        /* the turn may have become idle in the meantime */
        ngx_http_agentstream_turn_judge(turn, NGX_OK);
    }
}


void
ngx_http_agentstream_turn_again(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t status)
{
    if (++turn->tries > NGX_HTTP_AGENTSTREAM_TURN_TRIES) {
        /* OpenCode may be working on it anyway */
        ngx_http_agentstream_turn_abort(turn, status, NULL);
        return;
    }

    turn->poll_at = ngx_current_msec
                    + NGX_HTTP_AGENTSTREAM_TURN_POLL * turn->tries;

    ngx_http_agentstream_turn_schedule(turn);
}
