
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The clocks of a turn.  Each has a row in one table, which says when it is
 * due, in which phases it counts and what is done then.  All of them share the
 * turn's timer, which is set to the earliest.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


#define phase(name)  (1 << ngx_http_agentstream_turn_ ## name)
#define at(field)    offsetof(ngx_http_agentstream_turn_t, field ## _at), NULL

/* until the turn is aborted or finished */
#define alive        (phase(aborting) - 1)


typedef struct {
    const char                          *name;
    ngx_uint_t                           phases;   /* a bit for each */

    /* when it is due, 0: not set; either a field, which is cleared when the
       clock expires, or a function that computes it from other fields */
    size_t                               offset;
    ngx_msec_t                         (*due)(
                                           ngx_http_agentstream_turn_t *turn);

    void                               (*handler)(
                                           ngx_http_agentstream_turn_t *turn);
} ngx_http_agentstream_turn_clock_t;


static ngx_msec_t ngx_http_agentstream_turn_clock_due(
    ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_clock_t *clock);
static ngx_msec_t ngx_http_agentstream_turn_limit_due(
    ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_limit_handler(
    ngx_http_agentstream_turn_t *turn);
static ngx_msec_t ngx_http_agentstream_turn_silence_due(
    ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_silence_handler(
    ngx_http_agentstream_turn_t *turn);
static ngx_msec_t ngx_http_agentstream_turn_readers_due(
    ngx_http_agentstream_turn_t *turn);
static ngx_msec_t ngx_http_agentstream_turn_heartbeat_due(
    ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_heartbeat_handler(
    ngx_http_agentstream_turn_t *turn);


/* clocks that are due at the same time expire in this order */

static ngx_http_agentstream_turn_clock_t  ngx_http_agentstream_turn_clocks[] = {

    { "agentstream_turn_timeout", alive,
      0, ngx_http_agentstream_turn_limit_due,
      ngx_http_agentstream_turn_limit_handler },

    { "agentstream_idle_timeout", alive,
      0, ngx_http_agentstream_turn_silence_due,
      ngx_http_agentstream_turn_silence_handler },

    { "whether anybody reads", alive,
      0, ngx_http_agentstream_turn_readers_due,
      ngx_http_agentstream_turn_readers_handler },

    { "look the session up again", phase(resolving),
      at(poll), ngx_http_agentstream_turn_resolve },

    { "ask again whether the session is free", phase(probing),
      at(poll), ngx_http_agentstream_turn_probe },

    { "look for the prompt again", phase(prompting),
      at(check), ngx_http_agentstream_turn_check },

    { "answer what nobody has answered", phase(running),
      at(ask), ngx_http_agentstream_turn_ask_expire },

    { "whether the turn was interrupted", phase(running),
      at(interrupt), ngx_http_agentstream_turn_interrupt_expire },

    { "whether all was heard that follows idle", phase(running),
      at(settle), ngx_http_agentstream_turn_reconcile },

    { "ask OpenCode again", phase(running),
      at(poll), ngx_http_agentstream_turn_poll },

    { "heartbeat", phase(running),
      0, ngx_http_agentstream_turn_heartbeat_due,
      ngx_http_agentstream_turn_heartbeat_handler },

    { "send what was throttled", phase(running),
      at(flush), ngx_http_agentstream_turn_flush },

    { NULL, 0, 0, NULL, NULL }
};


void
ngx_http_agentstream_turn_timer_handler(ngx_event_t *ev)
{
    ngx_msec_t                          due;
    ngx_http_agentstream_turn_t        *turn;
    ngx_http_agentstream_turn_clock_t  *clock;

    turn = ev->data;

    ngx_http_agentstream_turn_clock(turn);

    for (clock = ngx_http_agentstream_turn_clocks; clock->name; clock++) {

        due = ngx_http_agentstream_turn_clock_due(turn, clock);

        if (due == 0 || (ngx_msec_int_t) (ngx_current_msec - due) < 0) {
            continue;
        }

        ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                       "agentstream turn: clock \"%s\", session %V, turn %V",
                       clock->name, &turn->session, &turn->id);

        if (clock->due == NULL) {
            *(ngx_msec_t *) ((u_char *) turn + clock->offset) = 0;
        }

        clock->handler(turn);
    }

    if (turn->phase == ngx_http_agentstream_turn_running) {
        ngx_http_agentstream_turn_judge(turn, NGX_OK);

    } else {
        ngx_http_agentstream_turn_schedule(turn);
    }
}


/*
 * Called after every event that may have set a clock.  Most events only move a
 * clock further away.  Then the timer is not changed: it expires too early,
 * and is set again.
 */

void
ngx_http_agentstream_turn_schedule(ngx_http_agentstream_turn_t *turn)
{
    ngx_msec_t                          now, due;
    ngx_msec_int_t                      left, nearest;
    ngx_http_agentstream_turn_clock_t  *clock;

    if (turn->phase >= ngx_http_agentstream_turn_aborting) {
        return;
    }

    now = ngx_current_msec;
    nearest = NGX_MAX_INT32_VALUE;

    for (clock = ngx_http_agentstream_turn_clocks; clock->name; clock++) {

        due = ngx_http_agentstream_turn_clock_due(turn, clock);

        if (due) {
            left = due - now;
            nearest = ngx_min(nearest, left);
        }
    }

    nearest = ngx_max(nearest, 1);

    if (!turn->timer.timer_set
        || (ngx_msec_int_t) (turn->timer.timer.key - (now + nearest)) > 0)
    {
        ngx_add_timer(&turn->timer, (ngx_msec_t) nearest);
    }
}


static ngx_inline ngx_msec_t
ngx_http_agentstream_turn_clock_due(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_clock_t *clock)
{
    if (!(clock->phases & (1 << turn->phase))) {
        return 0;
    }

    if (clock->due) {
        return clock->due(turn);
    }

    return *(ngx_msec_t *) ((u_char *) turn + clock->offset);
}


static ngx_msec_t
ngx_http_agentstream_turn_limit_due(ngx_http_agentstream_turn_t *turn)
{
    return turn->started_at + turn->conf->turn_timeout;
}


static void
ngx_http_agentstream_turn_limit_handler(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_turn_abort(turn, NGX_HTTP_GATEWAY_TIME_OUT,
                                "The turn exceeded agentstream_turn_timeout");
}


/* a turn that waits for a person, or for the answer to another prompt, is
   silent, and has its own time limit */

static ngx_msec_t
ngx_http_agentstream_turn_silence_due(ngx_http_agentstream_turn_t *turn)
{
    if (turn->nasks
        || turn->others == ngx_http_agentstream_turn_others_working)
    {
        return 0;
    }

    return turn->heard_at + turn->conf->idle_timeout;
}


static void
ngx_http_agentstream_turn_silence_handler(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_turn_abort(turn, NGX_HTTP_GATEWAY_TIME_OUT,
                                    "Nothing was heard of the turn for "
                                    "agentstream_idle_timeout");
}


static ngx_msec_t
ngx_http_agentstream_turn_readers_due(ngx_http_agentstream_turn_t *turn)
{
    return (turn->conf->on_disconnect == NGX_HTTP_AGENTSTREAM_ABORT_TURN)
           ? turn->watched_at + NGX_HTTP_AGENTSTREAM_TURN_DETACH : 0;
}


static ngx_msec_t
ngx_http_agentstream_turn_heartbeat_due(ngx_http_agentstream_turn_t *turn)
{
    ngx_msec_t  last;

    if (turn->conf->heartbeat == 0) {
        return 0;
    }

    last = ((ngx_msec_int_t) (turn->beat_at - turn->heard_at) > 0)
           ? turn->beat_at : turn->heard_at;

    return last + turn->conf->heartbeat;
}


static void
ngx_http_agentstream_turn_heartbeat_handler(ngx_http_agentstream_turn_t *turn)
{
    ngx_msec_t  now;

    now = ngx_current_msec;
    turn->beat_at = now;

    if (ngx_http_agentstream_translate_heartbeat(turn->translate,
                                                 now - turn->started_at,
                                                 now - turn->heard_at)
        != NGX_OK)
    {
        turn->failed = 1;
    }
}
