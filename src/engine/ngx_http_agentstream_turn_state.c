
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The states of a turn, and which state may follow which.  Each state is
 * changed by one function here.  The same diagram is in docs/architecture.md,
 * "The states of a turn"; util/check-states compares the two.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


#define phase(state)  (1 << ngx_http_agentstream_turn_ ## state)
#define stream(state)  (1 << ngx_http_agentstream_turn_stream_ ## state)
#define interrupt(state)  (1 << ngx_http_agentstream_turn_interrupt_ ## state)


typedef struct {
    const char                          *name;
    ngx_uint_t                           next;     /* a bit for each state that
                                                      may follow */
} ngx_http_agentstream_turn_state_t;


static void ngx_http_agentstream_turn_check_state(
    ngx_http_agentstream_turn_t *turn, const char *what,
    ngx_http_agentstream_turn_state_t *states, ngx_uint_t from, ngx_uint_t to);


static ngx_http_agentstream_turn_state_t
    ngx_http_agentstream_turn_phases[] =
{
    { "claiming", phase(resolving)|phase(finished) },
    { "resolving", phase(subscribing)|phase(aborting)|phase(finished) },
    { "subscribing", phase(probing)|phase(prompting)|phase(running)
                     |phase(aborting)|phase(finished) },
    { "probing", phase(prompting)|phase(finished) },
    { "prompting", phase(resolving)|phase(running)|phase(aborting)
                   |phase(finished) },
    { "running", phase(aborting)|phase(finished) },
    { "aborting", phase(finished) },
    { "finished", 0 }
};


static ngx_http_agentstream_turn_state_t
    ngx_http_agentstream_turn_streams[] =
{
    { "whole", stream(gap)|stream(stale)|stream(away) },
    { "gap", stream(whole)|stream(stale)|stream(away) },
    { "stale", stream(gap)|stream(away) },
    { "away", stream(whole)|stream(gap) }
};


static ngx_http_agentstream_turn_state_t
    ngx_http_agentstream_turn_interrupts[] =
{
    { "none", interrupt(sent)|interrupt(pause) },
    { "sent", interrupt(pause)|interrupt(ending) },
    { "pause", interrupt(none) },
    { "ending", interrupt(none) }
};


void
ngx_http_agentstream_turn_set_phase(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_phase_e phase)
{
    ngx_http_agentstream_turn_check_state(turn, "phase",
                                          ngx_http_agentstream_turn_phases,
                                          turn->phase, phase);

    turn->phase = phase;
}


void
ngx_http_agentstream_turn_set_stream(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_stream_e stream)
{
    ngx_http_agentstream_turn_check_state(turn, "stream",
                                          ngx_http_agentstream_turn_streams,
                                          turn->stream, stream);

    turn->stream = stream;

    if (stream != ngx_http_agentstream_turn_stream_whole
        && turn->phase >= ngx_http_agentstream_turn_prompting)
    {
        /* a delta may not continue what was sent before it, so what is missing
           is taken from the next complete text of its part */

        ngx_http_agentstream_translate_gap(turn->translate);
    }
}


void
ngx_http_agentstream_turn_set_interrupt(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_interrupt_e interrupt, ngx_msec_t time)
{
    ngx_http_agentstream_turn_check_state(turn, "interrupt",
                                          ngx_http_agentstream_turn_interrupts,
                                          turn->interrupt, interrupt);

    turn->interrupt = interrupt;
    turn->interrupt_at = time ? ngx_current_msec + time : 0;
}


/* a transition that the tables do not have is a bug of ours; the turn
   continues */

static void
ngx_http_agentstream_turn_check_state(ngx_http_agentstream_turn_t *turn,
    const char *what, ngx_http_agentstream_turn_state_t *states,
    ngx_uint_t from, ngx_uint_t to)
{
    ngx_log_debug5(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agentstream turn: %s %s -> %s, session %V, turn %V", what,
                   states[from].name, states[to].name, &turn->session,
                   &turn->id);

    if (from == to || (states[from].next & (1 << to))) {
        return;
    }

    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                  "agentstream turn: %s \"%s\" cannot follow \"%s\", "
                  "session %V, turn %V", what, states[to].name,
                  states[from].name, &turn->session, &turn->id);
}
