
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TRANSLATE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TRANSLATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_record.h"


/*
 * No I/O, no clock, no log.  Turns what OpenCode says in one
 * turn, by events and by REST answers, into packets, each said once.  It knows
 * what was sent and what is open; when the turn ends is the turn's decision.
 */


typedef struct ngx_http_agentstream_translate_s
    ngx_http_agentstream_translate_t;


/* where packets go; ctx is the owner's */

typedef struct {
    /* room for one record of at most size bytes, for its JSON and text and for
       what is kept with them (record_extra()); NULL: none is left */
    u_char    *(*reserve)(void *ctx, size_t size);

    /* the record whose JSON and text were written to the room reserved last,
       one behind the other; its seq is not set.  Returns that, from 1; 0: there
       is no memory */
    uint64_t   (*commit)(void *ctx, ngx_http_agentstream_record_t *record);

    /* a subagent's session joined the turn: its events are wanted too; session
       stays where it is as long as the pool */
    ngx_int_t  (*child)(void *ctx, ngx_str_t *session);

    /* a delta came for a message or part that was never announced: fetch
       GET session/{session}/message/{message} and pass it to _message() */
    void       (*resolve)(void *ctx, ngx_str_t *session, ngx_str_t *message);

    /* a question (permission: 0) or a permission request (1) waits for an
       answer, or waits no more */
    void       (*waiting)(void *ctx, ngx_str_t *id, ngx_uint_t permission,
                   ngx_uint_t waits);
} ngx_http_agentstream_translate_sink_t;


typedef struct {
    ngx_msec_t                               tool_throttle;
    unsigned                                 acp_kinds:1;
    unsigned                                 core:1;
    unsigned                                 history:1;  /* also user messages,
                                                            as chunks */
    unsigned                                 announce:1; /* turn_started comes
                                                            before all other
                                                            packets, but for the
                                                            end of a turn that
                                                            has not begun */
} ngx_http_agentstream_translate_conf_t;


/* how the turn stands, for whoever decides about its end */

typedef struct {
    unsigned                                 started:1;    /* turn_started was
                                                              said, or by the
                                                              settings is not */
    unsigned                                 user_seen:1;  /* our message */
    unsigned                                 busy:1;       /* last status of
                                                              the root was busy
                                                              or retry */
    unsigned                                 idle:1;       /* idle was said
                                                              after user_seen
                                                              and no root
                                                              activity since */
    unsigned                                 error:1;      /* a session.error
                                                              of the root, not
                                                              superseded by
                                                              later activity */
    unsigned                                 deleted:1;    /* session.deleted */
    unsigned                                 passed:1;     /* another prompt of
                                                              the session is
                                                              being answered:
                                                              ours is over */
    unsigned                                 full:1;       /* NGX_ERROR, for it
                                                              is larger than a
                                                              turn may be */
    ngx_uint_t                               steps;        /* assistant messages
                                                              of the root */
    ngx_uint_t                               nopen;        /* text and thought
                                                              parts without
                                                              their final
                                                              snapshot, calls
                                                              without terminal
                                                              state, messages
                                                              not completed;
                                                              root and subagents
                                                              alike */
    ngx_uint_t                               nheld;        /* deltas held until
                                                              their message is
                                                              known */
    ngx_str_t                                stop_reason;  /* of the terminal
                                                              packet, "error"
                                                              for an error;
                                                              empty before */
} ngx_http_agentstream_translate_state_t;


/* pool lives as long as the turn, and so do the bytes of session and turn (the
   user message's id) */
ngx_http_agentstream_translate_t *ngx_http_agentstream_translate_create(
    ngx_pool_t *pool, ngx_http_agentstream_translate_conf_t *conf,
    ngx_http_agentstream_translate_sink_t *sink, void *ctx,
    ngx_str_t *session, ngx_str_t *turn);

/* frees what is not in the pool */
void ngx_http_agentstream_translate_destroy(
    ngx_http_agentstream_translate_t *tr);

/*
 * A record that another translator of this turn has committed: told in their
 * order, all of them, before anything else is done.  Nothing is sent for it.
 */
ngx_int_t ngx_http_agentstream_translate_restore(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record);

/* of a record that ends its turn, whose JSON was parsed; empty: it does not */
ngx_str_t ngx_http_agentstream_translate_stop_reason(
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);

/* the clock, told before each of the calls below: ISO 8601, 24 bytes, read
   while the call lasts; now in milliseconds, monotonic */
void ngx_http_agentstream_translate_time(ngx_http_agentstream_translate_t *tr,
    u_char *timestamp, ngx_msec_t now);

ngx_http_agentstream_translate_state_t *ngx_http_agentstream_translate_state(
    ngx_http_agentstream_translate_t *tr);

/*
 * Whether nothing more can be expected after idle: our message was seen, the
 * last assistant message of the root is completed with a finish that does not
 * go on ("tool-calls" and "unknown" do) or an error, and nothing is open.  When
 * another prompt is being answered, ours does not go on in any case.
 */
ngx_uint_t ngx_http_agentstream_translate_settled(
    ngx_http_agentstream_translate_t *tr);

/* whether an answer has begun that no idle, end or error followed, or a step
   that needs another one: what a server that was restarted leaves behind */
ngx_uint_t ngx_http_agentstream_translate_abandoned(
    ngx_http_agentstream_translate_t *tr);


/* all of these: NGX_OK, or NGX_ERROR when reserve() or memory failed */

/* "turn_started", unless it was said */
ngx_int_t ngx_http_agentstream_translate_start(
    ngx_http_agentstream_translate_t *tr);

/* "stream_reset": what the client has of the turn so far is void */
ngx_int_t ngx_http_agentstream_translate_reset(
    ngx_http_agentstream_translate_t *tr, const char *reason);

/* the same and "turn_started", but not before there is another packet to be
   sent; reason must stay where it is */
void ngx_http_agentstream_translate_reset_first(
    ngx_http_agentstream_translate_t *tr, const char *reason);

/*
 * ev was parsed and is of the turn's root session or one of its children, or
 * a session.created whose parent is.  NGX_AGAIN: it came to what nobody had
 * announced (too much to keep, or an answer to a prompt that was not heard of):
 * as after _gap(), the stored state must be read.
 */
ngx_int_t ngx_http_agentstream_translate_event(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_event_t *ev);

/* events may have been lost: no delta of a part that is open now is trusted
   any more, its final snapshot completes it */
void ngx_http_agentstream_translate_gap(ngx_http_agentstream_translate_t *tr);

/*
 * Stored state of one session (root or child): each message of the array that
 * GET session/{id}/message answers, one after the other, with the same list,
 * zeroed at the beginning.  Only what follows our user message counts for the
 * root (all with conf.history).
 */

typedef struct {
    unsigned                                 begun:1;
    unsigned                                 ours:1;       /* our message is
                                                              behind */
} ngx_http_agentstream_translate_list_t;

ngx_int_t ngx_http_agentstream_translate_listed(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *session,
    ngx_http_agentstream_json_t *json, ngx_uint_t message,
    ngx_http_agentstream_translate_list_t *list);

/* a list of what waits is asked for: what is asked later need not be in it */
void ngx_http_agentstream_translate_asks_wanted(
    ngx_http_agentstream_translate_t *tr);
/* that list: the array that GET question (permission: 0) or GET permission (1)
   answers.  What is not in it any more was answered */
ngx_int_t ngx_http_agentstream_translate_asks(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_uint_t list, ngx_uint_t permission);
/* before the end of a turn that ends well: what still waits was answered, and
   nobody heard of it */
ngx_int_t ngx_http_agentstream_translate_asks_over(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t cancelled);

/* one element of an array of messages, or a GET message answer */
ngx_int_t ngx_http_agentstream_translate_message(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *session,
    ngx_http_agentstream_json_t *json, ngx_uint_t message);

/* send tool states whose throttle has passed; *next is the time until the
   next one is due, NGX_TIMER_INFINITE: none waits */
ngx_int_t ngx_http_agentstream_translate_flush(
    ngx_http_agentstream_translate_t *tr, ngx_msec_t *next);

/* "heartbeat" */
ngx_int_t ngx_http_agentstream_translate_heartbeat(
    ngx_http_agentstream_translate_t *tr, ngx_msec_t elapsed,
    ngx_msec_t silent);

/*
 * The terminal packet, from what is known: prompt_response, or error for a
 * message or session error.  cancelled: the abort was ours, so an answer with
 * neither error nor finish counts as cancelled (a message that did finish or
 * fail by itself still says so).
 */
ngx_int_t ngx_http_agentstream_translate_finish(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t cancelled);

/* the terminal packet "error" for what the module itself has to say; details
   is JSON or NULL */
ngx_int_t ngx_http_agentstream_translate_fail(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t code, const char *message,
    ngx_str_t *details);


#endif /* _NGX_HTTP_AGENTSTREAM_TRANSLATE_H_INCLUDED_ */
