
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
 * Declarations that only the files of turn use: how a turn starts
 * (turn_start), whether OpenCode is busy with another prompt (turn_probe),
 * what happens while it runs (turn_follow), where its packets go (turn_sink),
 * questions (turn_ask), how it is interrupted (turn_interrupt), how it ends
 * (turn_end), how another worker takes it over (turn_adopt), its life and
 * clocks (turn).
 */


/* what the turn does; the order counts: a turn never goes back */

typedef enum {
    /* waits for the store, which is asked for a new turn or an orphan */
    ngx_http_agentstream_turn_claiming = 0,

    /* looks the session up, for its directory */
    ngx_http_agentstream_turn_resolving,

    /* waits for the event stream of that directory */
    ngx_http_agentstream_turn_subscribing,

    /* asks whether OpenCode works on somebody else's prompt */
    ngx_http_agentstream_turn_probing,

    /* the prompt was sent, and it is not known that OpenCode has it */
    ngx_http_agentstream_turn_prompting,

    /* OpenCode has it: events become packets */
    ngx_http_agentstream_turn_running,

    /* OpenCode was told to abort; the turn fails when it has answered */
    ngx_http_agentstream_turn_aborting,

    /* the terminal packet is out; only the last wake-up is to come */
    ngx_http_agentstream_turn_finished
} ngx_http_agentstream_turn_phase_e;


/* which events of the turn were received */

typedef enum {
    /* no event was missed */
    ngx_http_agentstream_turn_stream_whole = 0,

    /* some were missed: OpenCode is asked for its stored state.  Events that
       arrive in the meantime are held, so that what was missed is sent before
       them */
    ngx_http_agentstream_turn_stream_gap,

    /* more were missed while OpenCode was asked: its answer may be older than
       they are, so it is asked again afterwards.  Until then events are
       dropped */
    ngx_http_agentstream_turn_stream_stale,

    /* there is no event stream: OpenCode is asked from time to time */
    ngx_http_agentstream_turn_stream_away
} ngx_http_agentstream_turn_stream_e;


/* the abort that interrupts a turn; the node says whether the turn is to be
   interrupted */

typedef enum {
    /* no abort is on its way */
    ngx_http_agentstream_turn_interrupt_none = 0,

    /* it was sent, and was not answered yet */
    ngx_http_agentstream_turn_interrupt_sent,

    /* it was answered, or could not be sent.  The turn has some time to end;
       then OpenCode is asked, and the abort is repeated if OpenCode still
       works on the turn */
    ngx_http_agentstream_turn_interrupt_pause,

    /* the turn is over, but the abort is not answered yet.  The terminal
       packet waits for the answer, because the abort could hit the session's
       next turn */
    ngx_http_agentstream_turn_interrupt_ending
} ngx_http_agentstream_turn_interrupt_e;


/* whether OpenCode works on somebody else's prompt in this session; ours is
   not sent until it has finished */

typedef enum {
    ngx_http_agentstream_turn_others_none = 0,
    ngx_http_agentstream_turn_others_unknown,      /* OpenCode must be asked */
    ngx_http_agentstream_turn_others_working       /* it works on one */
} ngx_http_agentstream_turn_others_e;


typedef struct {
    /* the members that every event needs come first, so that they share few
       cache lines */
    ngx_http_agentstream_sub_t           sub;
    ngx_http_agentstream_turn_phase_e    phase;
    ngx_http_agentstream_turn_stream_e   stream;
    ngx_http_agentstream_turn_interrupt_e  interrupt;
    ngx_http_agentstream_turn_others_e   others;

    /* the terminal packet is being made: it may use the room kept for it */
    unsigned                             terminal:1;

    /* a packet could not be written: nothing but an error follows */
    unsigned                             failed:1;

    /* the store knows that the turn is finished, so that readers can see it */
    unsigned                             ended:1;

    /* the directory is the one that the session's last turn has found */
    unsigned                             known:1;

    /* the turn was begun by a worker that is gone */
    unsigned                             adopted:1;

    /* OpenCode may go on with the prompt after the turn has ended, for the
       abort failed: the session's next turn asks first whether it is free */
    unsigned                             loose:1;

    /* its sender has a ticket, and asks again if it is not created */
    unsigned                             waits:1;

    /* those that wait for the session were not told yet that it has a new
       turn */
    unsigned                             announce:1;

    /* OpenCode is idle or has failed; what is still on its way is awaited until
       settle_at, and then asked for */
    unsigned                             settling:1;

    /* it was logged that a packet found no room; it is logged once */
    unsigned                             squeezed:1;

    /* it was logged that too many questions wait; it is logged once */
    unsigned                             crowded:1;

    ngx_http_agentstream_translate_t    *translate;
    ngx_http_agentstream_node_t         *node;     /* NULL once finished */
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_str_t                            id;
    ngx_msec_t                           heard_at;     /* time of the last
                                                          event */
    ngx_msec_t                           poll_at;      /* 0: not set */
    ngx_http_agentstream_watch_t        *watch;    /* of its readers in this
                                                      worker */
    ngx_event_t                          wake;
    ngx_http_agentstream_later_t         showing;  /* packets that readers
                                                      cannot see yet */
    ngx_http_agentstream_later_t         later;    /* what else the store is
                                                      asked: to create or claim
                                                      the turn, to let its
                                                      prompt be sent, to finish
                                                      it */
    ngx_http_agentstream_waiter_t        waiter;   /* waits for the mark in the
                                                      node */

    ngx_queue_t                          queue;    /* in the worker's turns */
    ngx_pool_t                          *pool;

    ngx_http_agentstream_store_created_t   created;
    ngx_http_agentstream_turn_creator_t   *creator;    /* who waits for that, or
                                                          NULL */

    ngx_str_t                            route;
    ngx_str_t                            session;
    ngx_str_t                            make;     /* see turn_args_t */
    ngx_str_t                            prompt;
    ngx_http_agentstream_enclosed_t     *enclosed;
    size_t                               enclosed_at;
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
    ngx_uint_t                           nasks;    /* number of those that
                                                      wait for an answer */
    ngx_msec_t                           ask_at;   /* the first is due, or
                                                      earlier; 0: none is */
    ngx_http_agentstream_call_t         *interrupt_call;   /* the abort, until
                                                              it is answered */

    ngx_queue_t                          held_events;
    size_t                               held_size;

    ngx_event_t                          timer;
    ngx_http_agentstream_store_end_t     end;

    /* more times; 0: not set */
    ngx_msec_t                           started_at;
    ngx_msec_t                           beat_at;      /* time of the last
                                                          heartbeat */
    ngx_msec_t                           settle_at;
    ngx_msec_t                           flush_at;
    ngx_msec_t                           watched_at;   /* when it was last
                                                          checked for
                                                          clients */
    ngx_msec_t                           interrupt_at; /* when to check whether
                                                          the turn was
                                                          interrupted */
    ngx_msec_t                           check_at;     /* when to look for the
                                                          prompt */
    ngx_msec_t                           check_until;

    ngx_msec_t                           poll;         /* current interval */
    ngx_msec_t                           check;        /* current interval of
                                                          check_at; 0: the
                                                          answer to the prompt
                                                          is not lost */
    ngx_uint_t                           tries;

    ngx_uint_t                           code;         /* of the error after an
                                                          abort */
    const char                          *reason;       /* NULL: code is what
                                                          OpenCode failed with
                                                        */
} ngx_http_agentstream_turn_t;


/* an event that is held until what was missed before it has been read */

typedef struct {
    ngx_queue_t                          queue;
    size_t                               len;
    u_char                               data[1];
} ngx_http_agentstream_held_t;


/* all turns of a worker */

typedef struct ngx_http_agentstream_turns_s {
    ngx_queue_t                          turns;    /* turns that run in this
                                                      worker */
    ngx_http_agentstream_translate_work_t
                                        *work;     /* of all translators */
    ngx_event_t                          expire;
    ngx_event_t                          leave;
    ngx_uint_t                           counter;
    uint64_t                             msec;
} ngx_http_agentstream_turns_t;


/* the only place where turn->phase is changed */
void ngx_http_agentstream_turn_set_phase(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_phase_e phase);

/* the only place where turn->stream is changed */
void ngx_http_agentstream_turn_set_stream(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_stream_e stream);

/* the only place where turn->interrupt is changed; after that time OpenCode is
   asked for the turn's state, 0: it is not asked */
void ngx_http_agentstream_turn_set_interrupt(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_interrupt_e interrupt, ngx_msec_t time);

/* finds out where the session is, and subscribes to its events */
void ngx_http_agentstream_turn_locate(ngx_http_agentstream_turn_t *turn);
/* the same, always by asking OpenCode */
void ngx_http_agentstream_turn_resolve(ngx_http_agentstream_turn_t *turn);
/* forgets where the session was for its last turn */
void ngx_http_agentstream_turn_forget(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_unsubscribe(ngx_http_agentstream_turn_t *turn);
/* asks OpenCode for what the events do not tell */
void ngx_http_agentstream_turn_poll(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_ready(void *data);

/* sends the prompt if the session is known to be free */
void ngx_http_agentstream_turn_prompt(ngx_http_agentstream_turn_t *turn);
/* asks whether OpenCode works on a prompt that was not sent from here */
void ngx_http_agentstream_turn_probe(ngx_http_agentstream_turn_t *turn);
/* reports a server that is too old; answer: of GET session/{id} */
void ngx_http_agentstream_turn_server(ngx_http_agentstream_turn_t *turn,
    ngx_str_t *answer);
/* ends the turn, which may have failed */
void ngx_http_agentstream_turn_over(ngx_http_agentstream_turn_t *turn);

/* OpenCode has the prompt: it has answered, or something else shows it */
ngx_uint_t ngx_http_agentstream_turn_unprompted(
    ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_accepted(ngx_http_agentstream_turn_t *turn,
    ngx_int_t rc);
/* finds out whether OpenCode has received a prompt whose answer was lost */
void ngx_http_agentstream_turn_check_prompt(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t status);
/* looks for the prompt once more */
void ngx_http_agentstream_turn_check(ngx_http_agentstream_turn_t *turn);

/* how often the zone is searched for turns that can be forgotten */
#define NGX_HTTP_AGENTSTREAM_TURN_EXPIRE  5000

void ngx_http_agentstream_turn_expire_handler(ngx_event_t *ev);
void ngx_http_agentstream_turn_leave_handler(ngx_event_t *ev);

/* whether somebody wants the turn ended */
#define ngx_http_agentstream_turn_interrupted(turn)                           \
    ngx_http_agentstream_store_interrupted((turn)->node)

/* the turn's memory; nothing refers to it any more */
void ngx_http_agentstream_turn_destroy(ngx_http_agentstream_turn_t *turn);
/* forgets the turn without a word: another worker goes on with it; must be
   called from an event of its own */
void ngx_http_agentstream_turn_drop(ngx_http_agentstream_turn_t *turn);
/* the same because another owner has it already; its readers here look */
void ngx_http_agentstream_turn_fenced(ngx_http_agentstream_turn_t *turn);
/* closes everything that could call back */
void ngx_http_agentstream_turn_release(ngx_http_agentstream_turn_t *turn);

/* called when an adopted turn is subscribed to its events */
void ngx_http_agentstream_turn_resume(ngx_http_agentstream_turn_t *turn);

void ngx_http_agentstream_turn_event(void *data,
    ngx_http_agentstream_event_t *ev);
void ngx_http_agentstream_turn_skipped(void *data);
void ngx_http_agentstream_turn_broken(void *data, ngx_uint_t status);
/* asks OpenCode once more after a while, or gives the turn up */
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

/* creates a turn that nobody else knows yet; NULL: no memory */
ngx_http_agentstream_turn_t *ngx_http_agentstream_turn_alloc(
    ngx_http_agentstream_turn_args_t *args, ngx_str_t *id);
/* creates an empty translator for the turn */
ngx_int_t ngx_http_agentstream_turn_translator(
    ngx_http_agentstream_turn_t *turn);
/* called when the terminal packet was appended */
void ngx_http_agentstream_turn_end(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_begin(ngx_http_agentstream_turn_t *turn);
/* aborts the turn in OpenCode, then fails it; reason NULL: the one for an
   unreachable OpenCode with that status */
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

/* adds a session whose events belong to the turn */
ngx_int_t ngx_http_agentstream_turn_child(void *ctx, ngx_str_t *session);
void ngx_http_agentstream_turn_ask_init(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_ask_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits);
/* rejects questions that nobody answered in time */
void ngx_http_agentstream_turn_ask_expire(ngx_http_agentstream_turn_t *turn);
/* forgets all of them; the node still lists those that wait */
void ngx_http_agentstream_turn_ask_close(ngx_http_agentstream_turn_t *turn);

/* interrupts the turn if its node says so and the turn has come far enough;
   busy: it is known, not only from events, that OpenCode works on the turn */
void ngx_http_agentstream_turn_interrupt_check(
    ngx_http_agentstream_turn_t *turn, ngx_uint_t busy);
void ngx_http_agentstream_turn_interrupt_handler(void *data);
/* called when the turn should have ended by now */
void ngx_http_agentstream_turn_interrupt_expire(
    ngx_http_agentstream_turn_t *turn);

/* how often it is checked whether anybody still reads the turn */
#define NGX_HTTP_AGENTSTREAM_TURN_DETACH  500

/* interrupt the turn if nobody has read it for agentstream_detach_timeout */
void ngx_http_agentstream_turn_readers_handler(
    ngx_http_agentstream_turn_t *turn);

void ngx_http_agentstream_turn_close_lookups(ngx_http_agentstream_turn_t *turn);
void ngx_http_agentstream_turn_clock(ngx_http_agentstream_turn_t *turn);


extern ngx_http_agentstream_translate_sink_t  ngx_http_agentstream_turn_sink;


#endif /* _NGX_HTTP_AGENTSTREAM_TURN_INT_H_INCLUDED_ */
