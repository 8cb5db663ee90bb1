
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TURN_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TURN_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_clock.h"
#include "ngx_http_agentstream_hub.h"
#include "ngx_http_agentstream_journal.h"
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_prompt.h"
#include "ngx_http_agentstream_reconcile.h"
#include "ngx_http_agentstream_sse.h"
#include "ngx_http_agentstream_translate.h"
#include "ngx_http_agentstream_turn.h"


/*
 * Private to the turn: how it starts (turn_start), whether OpenCode is
 * busy with another prompt (turn_probe), what happens while it runs
 * (turn_follow), where its packets go (turn_sink), what waits for an answer
 * (turn_ask), how it is interrupted (turn_interrupt), how it ends (turn_end),
 * how another worker takes it over (turn_adopt), its states (turn_state), its
 * clocks (turn_timer), its life (turn).
 */


typedef enum {
    ngx_http_agentstream_turn_resolving = 0,
    ngx_http_agentstream_turn_subscribing,
    ngx_http_agentstream_turn_probing,     /* is the session free? */
    ngx_http_agentstream_turn_prompting,
    ngx_http_agentstream_turn_running,
    ngx_http_agentstream_turn_aborting,    /* upstream, then it fails */
    ngx_http_agentstream_turn_finished
} ngx_http_agentstream_turn_phase_e;


/* what is known of the events of the turn */

typedef enum {
    /* none was missed */
    ngx_http_agentstream_turn_stream_whole = 0,

    /* some were missed: OpenCode is asked for what is stored.  Events that
       come meanwhile are held, so that what was missed comes before them */
    ngx_http_agentstream_turn_stream_gap,

    /* more were missed while OpenCode was asked: its answer may be older than
       they are, so it is asked again afterwards.  Until then events are dropped
       */
    ngx_http_agentstream_turn_stream_stale,

    /* there is no event stream: OpenCode is asked from time to time */
    ngx_http_agentstream_turn_stream_away
} ngx_http_agentstream_turn_stream_e;


/* the abort that interrupts a turn; that a turn is to be interrupted says its
   node */

typedef enum {
    /* no abort is on its way */
    ngx_http_agentstream_turn_interrupt_none = 0,

    /* it was sent, and is not answered yet */
    ngx_http_agentstream_turn_interrupt_sent,

    /* it was answered, or could not be sent.  The turn has some time to end;
       then OpenCode is asked, and the abort repeated if it still works */
    ngx_http_agentstream_turn_interrupt_pause,

    /* the turn is over, but the abort is not answered.  The terminal packet
       waits for the answer, or the abort could hit the session's next turn */
    ngx_http_agentstream_turn_interrupt_ending
} ngx_http_agentstream_turn_interrupt_e;


typedef struct {
    /* what every event needs comes first, in few cache lines */
    ngx_http_agentstream_sub_t           sub;
    ngx_http_agentstream_turn_phase_e    phase;
    ngx_http_agentstream_turn_stream_e   stream;
    ngx_http_agentstream_turn_interrupt_e  interrupt;

    unsigned                             terminal:1;   /* the last packet is
                                                          being made */
    unsigned                             failed:1;     /* something could not
                                                          be told: nothing but
                                                          its end follows */
    unsigned                             adopted:1;    /* from a dead worker */
    unsigned                             unsure:1;     /* whether OpenCode is
                                                          at work on another
                                                          prompt is not known */
    unsigned                             waiting:1;    /* OpenCode was found at
                                                          work on another
                                                          prompt */
    unsigned                             loose:1;      /* OpenCode may go on
                                                          with it after its
                                                          end */
    unsigned                             announce:1;   /* it began */
    unsigned                             settling:1;   /* idle was said */
    unsigned                             squeezed:1;   /* a packet found no
                                                          room: it is logged */
    unsigned                             crowded:1;    /* too many wait for an
                                                          answer: the same */

    ngx_http_agentstream_translate_t    *translate;
    ngx_http_agentstream_node_t         *node;     /* NULL once finished */
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_str_t                            id;
    ngx_msec_t                           heard_at;     /* last event */
    ngx_msec_t                           poll_at;      /* 0: not set */
    ngx_http_agentstream_watch_t        *watch;    /* its readers here */
    ngx_event_t                          wake;
    ngx_http_agentstream_waiter_t        waiter;   /* for the node's mark */

    ngx_queue_t                          queue;    /* in the worker's turns */
    ngx_pool_t                          *pool;

    ngx_str_t                            route;
    ngx_str_t                            session;
    ngx_str_t                            prompt;
    ngx_str_t                            files;    /* that the prompt names */
    ngx_str_t                            directory;

    ngx_http_agentstream_call_t         *call;     /* resolve, prompt, abort */
    ngx_array_t                          sessions; /* of ngx_str_t *: the root
                                                      and its subagents */
    ngx_array_t                          hub_sessions; /* of those that the
                                                          hub routes to it */
    ngx_queue_t                          lookups;
    ngx_uint_t                           nlookups;
    ngx_http_agentstream_reconcile_t     reconcile;

    u_char                              *scratch;  /* heap: a packet that found
                                                      no room, until it is
                                                      committed */

    ngx_rbtree_t                         asks;     /* questions, permissions */
    ngx_rbtree_node_t                    sentinel;
    ngx_uint_t                           nwaiting; /* of them */
    ngx_msec_t                           ask_at;   /* the first is due, or
                                                      earlier; 0: none is */
    ngx_http_agentstream_call_t         *interrupt_call;   /* the abort, while
                                                              it is not answered
                                                            */

    ngx_queue_t                          held_events;
    size_t                               held_size;

    ngx_event_t                          timer;
    uint64_t                             watchers[
                                      NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64];

    /* more points in time; 0: not set */
    ngx_msec_t                           started_at;
    ngx_msec_t                           beat_at;      /* last heartbeat */
    ngx_msec_t                           settle_at;
    ngx_msec_t                           flush_at;
    ngx_msec_t                           watched_at;   /* asked for clients */
    ngx_msec_t                           interrupt_at; /* see whether the turn
                                                          was interrupted */
    ngx_msec_t                           check_at;     /* look for the prompt */
    ngx_msec_t                           check_until;

    ngx_msec_t                           poll;         /* current interval */
    ngx_msec_t                           check;        /* the same, of check_at;
                                                          0: the prompt's answer
                                                          is not lost */
    ngx_uint_t                           tries;

    ngx_uint_t                           code;         /* of an abort's error */
    const char                          *reason;       /* NULL: code is what
                                                          OpenCode failed with
                                                        */
} ngx_http_agentstream_turn_t;


/* an event that waits for what was missed before it */

typedef struct {
    ngx_queue_t                          queue;
    size_t                               len;
    u_char                               data[1];
} ngx_http_agentstream_held_t;


/* what a worker keeps of them all */

typedef struct ngx_http_agentstream_turns_s {
    ngx_queue_t                          turns;    /* that run here */
    ngx_event_t                          expire;
    ngx_event_t                          leave;
    ngx_uint_t                           counter;
    uint64_t                             msec;
} ngx_http_agentstream_turns_t;


/* the only place where turn->stream is changed */
void ngx_http_agentstream_turn_set_stream(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_stream_e stream);

/* the only place where turn->interrupt is changed; OpenCode is asked how the
   turn stands after that time, 0: it is not asked */
void ngx_http_agentstream_turn_set_interrupt(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_interrupt_e interrupt, ngx_msec_t time);

void ngx_http_agentstream_turn_resolve(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_ready(void *data);

/* send the prompt, if the session is known to be free */
void ngx_http_agentstream_turn_prompt(ngx_http_agentstream_turn_t *turn);
/* ask whether OpenCode is at work on a prompt that was not sent from here */
void ngx_http_agentstream_turn_probe(ngx_http_agentstream_turn_t *turn);
/* the turn is over; it may have come to nothing */
void ngx_http_agentstream_turn_over(ngx_http_agentstream_turn_t *turn);

/* OpenCode has the prompt: it was answered, or something else tells */
ngx_uint_t ngx_http_agentstream_turn_unprompted(
    ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_accepted(ngx_http_agentstream_turn_t *turn,
    ngx_int_t rc);
/* whether OpenCode has the prompt that nobody knows the fate of */
void ngx_http_agentstream_turn_check_prompt(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t status);
/* ... once more */
void ngx_http_agentstream_turn_check(ngx_http_agentstream_turn_t *turn);

/* how often the zone is looked through for turns to forget */
#define NGX_HTTP_AGENTSTREAM_TURN_EXPIRE  5000

void ngx_http_agentstream_turn_expire_handler(ngx_event_t *ev);
void ngx_http_agentstream_turn_leave_handler(ngx_event_t *ev);

/* close everything that could call back */
void ngx_http_agentstream_turn_release(ngx_http_agentstream_turn_t *turn);

/* an adopted turn is subscribed */
void ngx_http_agentstream_turn_resume(ngx_http_agentstream_turn_t *turn);

void ngx_http_agentstream_turn_event(void *data,
    ngx_http_agentstream_event_t *ev);
void ngx_http_agentstream_turn_skipped(void *data);
void ngx_http_agentstream_turn_broken(void *data, ngx_uint_t status);
/* ask OpenCode once more after a while, or give the turn up */
void ngx_http_agentstream_turn_again(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t status);
void ngx_http_agentstream_turn_forget_held(ngx_http_agentstream_turn_t *turn);
/* send what the translator has held back, as far as it is time */
void ngx_http_agentstream_turn_flush(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_judge(ngx_http_agentstream_turn_t *turn,
    ngx_int_t rc);
void ngx_http_agentstream_turn_reconcile(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_reconciled(void *data, ngx_uint_t status,
    ngx_uint_t busy);

/* not yet known to anybody else; NULL: no memory */
ngx_http_agentstream_turn_t *ngx_http_agentstream_turn_alloc(
    ngx_http_agentstream_turn_args_t *args, ngx_str_t *id);
/* a translator for the turn, that knows nothing yet */
ngx_int_t ngx_http_agentstream_turn_translator(
    ngx_http_agentstream_turn_t *turn);
/* the terminal packet is out */
void ngx_http_agentstream_turn_end(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_begin(ngx_http_agentstream_turn_t *turn);
/* abort upstream, then fail; reason NULL: as unreachable, with that status */
void ngx_http_agentstream_turn_abort(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t code, const char *reason);
void ngx_http_agentstream_turn_finish(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_unreachable(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t status);
void ngx_http_agentstream_turn_fail(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t code, const char *reason, ngx_str_t *details);
/* set the timer: a clock may have become the nearest */
void ngx_http_agentstream_turn_schedule(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_timer_handler(ngx_event_t *ev);

/* one more session whose events are the turn's */
ngx_int_t ngx_http_agentstream_turn_child(void *ctx, ngx_str_t *session);
void ngx_http_agentstream_turn_ask_init(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_ask_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits);
/* reject what nobody answered in time */
void ngx_http_agentstream_turn_ask_expire(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_ask_close(ngx_http_agentstream_turn_t *turn);

/* interrupt the turn if its node says so and it has come so far; busy: that
   OpenCode works on it is known from elsewhere than its events */
void ngx_http_agentstream_turn_interrupt_check(
    ngx_http_agentstream_turn_t *turn, ngx_uint_t busy);
void ngx_http_agentstream_turn_interrupt_handler(void *data);
/* the turn should have ended by now */
void ngx_http_agentstream_turn_interrupt_expire(
    ngx_http_agentstream_turn_t *turn);

/* how often it is asked whether anybody still reads */
#define NGX_HTTP_AGENTSTREAM_TURN_DETACH  500

/* interrupt the turn if nobody has read it for agentstream_detach_timeout */
void ngx_http_agentstream_turn_readers_handler(
    ngx_http_agentstream_turn_t *turn);

void ngx_http_agentstream_turn_close_lookups(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_clock(ngx_http_agentstream_turn_t *turn);


extern ngx_http_agentstream_translate_sink_t  ngx_http_agentstream_turn_sink;


#endif /* _NGX_HTTP_AGENTSTREAM_TURN_INT_H_INCLUDED_ */
