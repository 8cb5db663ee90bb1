
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_HISTORY_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_HISTORY_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_clock.h"
#include "ngx_http_agentstream_history.h"
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_translate.h"


/*
 * Declarations that only the files of history use: the call and its end
 * (history), messages and turns (history_turn), the messages of subagents
 * (history_child), the response (history_output).
 */


/* in the request's pool; memory from the heap is freed at its end */

typedef struct {
    ngx_http_request_t                    *request;
    ngx_http_agentstream_history_args_t    args;
    ngx_http_agentstream_call_t           *call;       /* NULL: over */
    ngx_uint_t                             status;     /* when the call is
                                                          over */
    ngx_str_t                              running;    /* the turn that runs
                                                          now, or empty */
    ngx_http_agentstream_json_split_t      split;
    ngx_http_agentstream_json_t            json;
    ngx_http_agentstream_acp_buf_t         rest;       /* data that was not
                                                          split yet, while
                                                          subagents are sent */
    ngx_uint_t                             again;      /* see opencode_opens */

    /* subagents of the current message */
    ngx_array_t                            children;   /* subagents of the
                                                          turn, in its pool */
    ngx_uint_t                             nchildren;  /* number of those that
                                                          were sent */
    ngx_http_agentstream_call_t           *child;      /* or NULL */
    ngx_http_agentstream_json_split_t      child_split;

    /* the current turn */
    ngx_pool_t                            *pool;
    ngx_http_agentstream_translate_t      *translate;
    ngx_str_t                              turn;       /* in pool */
    ngx_uint_t                             nanswers;
    ngx_http_agentstream_acp_buf_t         usage;      /* a packet that is kept
                                                          until its message is
                                                          complete */
    u_char                                 timestamp[
                                        NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN];

    /* the response */
    ngx_http_agentstream_output_t         *output;
    ngx_http_agentstream_acp_buf_t         packet;     /* the packet that is
                                                          being written */
    ngx_http_agentstream_output_text_t     text;       /* to be sent */
    ngx_http_agentstream_wire_state_t      state;
    uint64_t                               seq;
    size_t                                 taken;      /* bytes from OpenCode
                                                          since other requests
                                                          were served */
    ngx_event_t                            event;

    unsigned                               unfinished:1;   /* the last
                                                              answer is not
                                                              finished */
    unsigned                               complete:1;     /* everything is in
                                                              text */
    unsigned                               failed:1;       /* out of memory in
                                                              a subagent's
                                                              answer */
} ngx_http_agentstream_history_t;


/* history_turn: handles one message of the array; ends the last turn */
ngx_int_t ngx_http_agentstream_history_message(void *ctx, u_char *text,
    size_t len);
ngx_int_t ngx_http_agentstream_history_end(ngx_http_agentstream_history_t *h);
/* notes which turn runs now */
ngx_int_t ngx_http_agentstream_history_running(
    ngx_http_agentstream_history_t *h);
void ngx_http_agentstream_history_destroy_turn(
    ngx_http_agentstream_history_t *h);

/* history_child: starts with the subagents of a message; NGX_DECLINED: there
   are none, or no more */
ngx_int_t ngx_http_agentstream_history_find_children(
    ngx_http_agentstream_history_t *h, ngx_str_t *parent);
ngx_int_t ngx_http_agentstream_history_next_child(
    ngx_http_agentstream_history_t *h);

/* history: a piece of an answer was consumed; decides whether to continue at
   once or later */
ngx_int_t ngx_http_agentstream_history_taken(
    ngx_http_agentstream_history_t *h, size_t len);
void ngx_http_agentstream_history_continue(ngx_http_agentstream_history_t *h);
/* continues after other requests were served */
void ngx_http_agentstream_history_post(ngx_http_agentstream_history_t *h);

/* history_turn: from now on packets have a time of the current message */
void ngx_http_agentstream_history_time(ngx_http_agentstream_history_t *h,
    const char *name);

/* history_output */
extern ngx_http_agentstream_translate_sink_t  ngx_http_agentstream_history_sink;

u_char *ngx_http_agentstream_history_reserve(void *ctx, size_t size);
uint64_t ngx_http_agentstream_history_commit(void *ctx,
    ngx_http_agentstream_record_t *record);
/* sends the packet that was kept until its message was complete */
ngx_int_t ngx_http_agentstream_history_flush(
    ngx_http_agentstream_history_t *h);
/* ends the array */
ngx_int_t ngx_http_agentstream_history_close(
    ngx_http_agentstream_history_t *h);
/* NGX_OK: everything was sent; otherwise it waits for the client, or the
   client is gone */
ngx_int_t ngx_http_agentstream_history_output(
    ngx_http_agentstream_history_t *h);
void ngx_http_agentstream_history_destroy_output(
    ngx_http_agentstream_history_t *h);


#endif /* _NGX_HTTP_AGENTSTREAM_HISTORY_INT_H_INCLUDED_ */
