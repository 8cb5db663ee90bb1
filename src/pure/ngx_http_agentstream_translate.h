
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TRANSLATE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TRANSLATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_record.h"


/*
 * The translator.  It has no I/O, no clock and no log.  It turns everything
 * that OpenCode reports about one turn, in events and in REST answers, into
 * packets, and sends each only once.  It knows what was sent and what is still
 * open; the turn decides when the turn ends.
 */


typedef struct ngx_http_agentstream_translate_s
    ngx_http_agentstream_translate_t;


/* where packets go; ctx belongs to the owner */

typedef struct {
    /* room for one record of at most size bytes of JSON and text, and for what
       is kept with them (record_extra()); NULL: there is no room */
    u_char    *(*reserve)(void *ctx, size_t size);

    /* commits the record whose JSON and text were written, one after the
       other, to the room that was reserved last; its seq is not set.  Returns
       its seq, from 1; 0: there is no memory */
    uint64_t   (*commit)(void *ctx, ngx_http_agentstream_record_t *record);

    /* a subagent's session belongs to the turn, so its events are needed, too;
       session lives as long as the pool */
    ngx_int_t  (*child)(void *ctx, ngx_str_t *session);

    /* a delta arrived for a message or part that was never announced: fetch
       GET session/{session}/message/{message} and pass it to _message() */
    void       (*resolve)(void *ctx, ngx_str_t *session, ngx_str_t *message);

    /* a question (permission: 0) or a permission request (1) waits for an
       answer, or no longer waits */
    void       (*waiting)(void *ctx, ngx_str_t *id, ngx_uint_t permission,
                   ngx_uint_t waits);
} ngx_http_agentstream_translate_sink_t;


/*
 * The working memory of a translator: a packet while it is made.  Nothing in it
 * is needed between two calls of a translator, so all turns of a worker share
 * one, and a turn keeps no buffer of the size of its largest packet.
 */
typedef struct ngx_http_agentstream_translate_work_s
    ngx_http_agentstream_translate_work_t;


typedef struct {
    ngx_http_agentstream_translate_work_t   *work;       /* NULL: the translator
                                                            has its own */
    ngx_msec_t                               tool_throttle;
    unsigned                                 acp_kinds:1;
    unsigned                                 core:1;
    unsigned                                 history:1;  /* send user messages,
                                                            too, as chunks */
    unsigned                                 stored:1;   /* there are no events,
                                                            only stored
                                                            messages: plans are
                                                            made from the tool
                                                            calls that wrote
                                                            them */
    unsigned                                 announce:1; /* turn_started is
                                                            sent before all
                                                            other packets,
                                                            except the end of a
                                                            turn that has not
                                                            begun */
} ngx_http_agentstream_translate_conf_t;


/* the state of the turn, for the part that decides about its end */

typedef struct {
    unsigned                                 started:1;    /* turn_started was
                                                              sent, or the
                                                              settings exclude
                                                              it */
    unsigned                                 user_seen:1;  /* our message */
    unsigned                                 busy:1;       /* the last status
                                                              of the root was
                                                              busy or retry */
    unsigned                                 idle:1;       /* idle was
                                                              reported after
                                                              user_seen, and
                                                              the root was
                                                              not active
                                                              since */
    unsigned                                 error:1;      /* a session.error
                                                              of the root, not
                                                              superseded by
                                                              later activity */
    unsigned                                 deleted:1;    /* session.deleted */
    unsigned                                 passed:1;     /* OpenCode answers
                                                              another prompt of
                                                              the session: our
                                                              turn is over */
    unsigned                                 full:1;       /* an NGX_ERROR was
                                                              returned because
                                                              the turn is too
                                                              large */
    ngx_uint_t                               steps;        /* assistant messages
                                                              of the root */
    ngx_uint_t                               nopen;        /* number of texts
                                                              and thoughts
                                                              without their
                                                              final snapshot,
                                                              tool calls
                                                              without a
                                                              terminal state,
                                                              and incomplete
                                                              messages, of the
                                                              root and of
                                                              subagents */
    ngx_uint_t                               nheld;        /* deltas that
                                                              are held until
                                                              their message
                                                              is known */
    ngx_str_t                                stop_reason;  /* of the terminal
                                                              packet, "error"
                                                              for an error;
                                                              empty before */
} ngx_http_agentstream_translate_state_t;


/* it lives as long as the pool; NULL: no memory */
ngx_http_agentstream_translate_work_t *
    ngx_http_agentstream_translate_work_create(ngx_pool_t *pool);

/* the pool must live as long as the turn, and so must the bytes of session and
   turn (the user message's id) */
ngx_http_agentstream_translate_t *ngx_http_agentstream_translate_create(
    ngx_pool_t *pool, ngx_http_agentstream_translate_conf_t *conf,
    ngx_http_agentstream_translate_sink_t *sink, void *ctx,
    ngx_str_t *session, ngx_str_t *turn);

/* frees the memory that is not in the pool */
void ngx_http_agentstream_translate_destroy(
    ngx_http_agentstream_translate_t *tr);

/*
 * Reads a record that another translator of this turn has committed.  Give it
 * all records in their order before anything else is done.  Nothing is sent
 * for it.
 */
ngx_int_t ngx_http_agentstream_translate_restore(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record);

/* the stop reason of a record that ends its turn, whose JSON was parsed;
   empty: it does not end the turn */
ngx_str_t ngx_http_agentstream_translate_stop_reason(
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);

/* sets the time; must be called before each of the functions below: ISO 8601,
   24 bytes, which must stay valid during that call; now is in milliseconds,
   monotonic */
void ngx_http_agentstream_translate_time(ngx_http_agentstream_translate_t *tr,
    u_char *timestamp, ngx_msec_t now);

ngx_http_agentstream_translate_state_t *ngx_http_agentstream_translate_state(
    ngx_http_agentstream_translate_t *tr);

/*
 * Whether nothing more can be expected after idle: our message was seen, the
 * last assistant message of the root is completed with an error or with a
 * finish that needs no further step ("tool-calls" and "unknown" do), and
 * nothing is open.  When another prompt is being answered, ours is over in any
 * case.
 */
ngx_uint_t ngx_http_agentstream_translate_settled(
    ngx_http_agentstream_translate_t *tr);

/* whether there is an answer that has begun but was not followed by an idle,
   an end or an error, or a step that needs another one: the state that a
   restarted server leaves */
ngx_uint_t ngx_http_agentstream_translate_abandoned(
    ngx_http_agentstream_translate_t *tr);


/* these functions return NGX_OK, or NGX_ERROR when reserve() or memory
   failed */

/* sends "turn_started", unless it was sent */
ngx_int_t ngx_http_agentstream_translate_start(
    ngx_http_agentstream_translate_t *tr);

/* sends "stream_reset": what the client has received of the turn is void */
ngx_int_t ngx_http_agentstream_translate_reset(
    ngx_http_agentstream_translate_t *tr, const char *reason);

/* the same and "turn_started", but only when there is another packet to send;
   reason must stay in place */
void ngx_http_agentstream_translate_reset_first(
    ngx_http_agentstream_translate_t *tr, const char *reason);

/*
 * Translates an event, which was parsed and belongs to the turn's root session
 * or one of its children, or is a session.created whose parent does.
 * NGX_AGAIN: it belongs to something that was not announced (too much to keep,
 * or an answer to an unknown prompt): as after _gap(), the stored state must
 * be read.
 */
ngx_int_t ngx_http_agentstream_translate_event(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_event_t *ev);

/* events may have been lost: from now on no delta of a part that is open is
   trusted, and its final snapshot completes it */
void ngx_http_agentstream_translate_gap(ngx_http_agentstream_translate_t *tr);

/*
 * Reads the stored state of one session (root or child): call it for each
 * message in the answer to GET session/{id}/message, in order, with the same
 * list, which is zeroed at the beginning.  Of the root only messages after our
 * user message count (all with conf.history).
 */

typedef struct {
    unsigned                                 begun:1;
    unsigned                                 ours:1;       /* our message
                                                              was seen in
                                                              the list */
    unsigned                                 member:1;     /* the message that
                                                              was read last
                                                              belongs to the
                                                              root's part of
                                                              the turn */
} ngx_http_agentstream_translate_list_t;

ngx_int_t ngx_http_agentstream_translate_listed(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *session,
    ngx_http_agentstream_json_t *json, ngx_uint_t message,
    ngx_http_agentstream_translate_list_t *list);

/* a list of waiting questions is being asked for: questions that are asked
   later need not be in it */
void ngx_http_agentstream_translate_asks_wanted(
    ngx_http_agentstream_translate_t *tr);
/* reads that list: the answer to GET question (permission: 0) or GET
   permission (1).  Questions that are no longer in it were answered */
ngx_int_t ngx_http_agentstream_translate_asks(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_uint_t list, ngx_uint_t permission);
/* called before the end of a turn that ends well: questions that still wait
   were answered, but the answers are not known */
ngx_int_t ngx_http_agentstream_translate_asks_over(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t cancelled);

/* reads one element of a list of messages, or an answer to GET message */
ngx_int_t ngx_http_agentstream_translate_message(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *session,
    ngx_http_agentstream_json_t *json, ngx_uint_t message);

/* empties the buffer and writes a stored message to it, which was parsed: as
   OpenCode has it, but of errors only what a client may know */
ngx_int_t ngx_http_agentstream_translate_bare(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_http_agentstream_acp_buf_t *b);

/* sends the states of tool calls whose throttle time has passed; *next is the
   time until the next one is due, NGX_TIMER_INFINITE: there is none */
ngx_int_t ngx_http_agentstream_translate_flush(
    ngx_http_agentstream_translate_t *tr, ngx_msec_t *next);

/* "heartbeat" */
ngx_int_t ngx_http_agentstream_translate_heartbeat(
    ngx_http_agentstream_translate_t *tr, ngx_msec_t elapsed,
    ngx_msec_t silent);

/*
 * Sends the terminal packet, from what is known: prompt_response, or error for
 * an error of a message or of the session. cancelled: we aborted the turn, so
 * an answer with neither error nor finish counts as cancelled (a message that
 * finished or failed by itself keeps its result).
 */
ngx_int_t ngx_http_agentstream_translate_finish(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t cancelled);

/* sends the terminal packet "error" for an error of the module itself; details
   is JSON or NULL */
ngx_int_t ngx_http_agentstream_translate_fail(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t code, const char *message,
    ngx_str_t *details);


#endif /* _NGX_HTTP_AGENTSTREAM_TRANSLATE_H_INCLUDED_ */
