
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
#include "ngx_http_agentstream_store.h"
#include "ngx_http_agentstream_translate.h"


/*
 * Declarations that only the files of history use: the call and its end
 * (history), messages and turns (history_turn), the messages of subagents
 * (history_child), where the records go (history_sink).
 */


/* on the heap */

struct ngx_http_agentstream_history_s {
    ngx_http_agentstream_history_args_t    args;
    ngx_http_agentstream_call_t           *call;       /* NULL: over */
    ngx_uint_t                             status;     /* when the call is
                                                          over */
    ngx_str_t                              running;    /* the turn that runs
                                                          now, or empty */
    u_char                                 running_id[
                                         NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
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

    /* what the consumer gets */
    ngx_http_agentstream_acp_buf_t         packet;     /* the packet that is
                                                          being written */
    uint64_t                               seq;
    size_t                                 taken;      /* bytes from OpenCode
                                                          since other requests
                                                          were served */
    ngx_event_t                            event;

    unsigned                               nonsense:1;     /* it is no list of
                                                              messages */
    unsigned                               unfinished:1;   /* the last
                                                              answer is not
                                                              finished */
    unsigned                               full:1;         /* the consumer
                                                              wants to send
                                                              what it has */
    unsigned                               made:1;         /* it has got a
                                                              record */
    unsigned                               begun:1;        /* it has sent
                                                              one */
    unsigned                               failed:1;       /* out of memory in
                                                              a subagent's
                                                              answer */
};


/* history_turn: handles one message of the array; ends the last turn */
ngx_int_t ngx_http_agentstream_history_message(void *ctx, u_char *text,
    size_t len);
ngx_int_t ngx_http_agentstream_history_end(ngx_http_agentstream_history_t *h);
/* notes which turn runs now */
void ngx_http_agentstream_history_running(
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
/* continues after other requests were served */
void ngx_http_agentstream_history_post(ngx_http_agentstream_history_t *h);

/* history_turn: from now on packets have a time of the current message */
void ngx_http_agentstream_history_time(ngx_http_agentstream_history_t *h,
    const char *name);

/* history_sink */
extern ngx_http_agentstream_translate_sink_t  ngx_http_agentstream_history_sink;

u_char *ngx_http_agentstream_history_reserve(void *ctx, size_t size);
uint64_t ngx_http_agentstream_history_commit(void *ctx,
    ngx_http_agentstream_record_t *record);
/* the record that was kept until its message was complete */
ngx_int_t ngx_http_agentstream_history_usage(
    ngx_http_agentstream_history_t *h);


#endif /* _NGX_HTTP_AGENTSTREAM_HISTORY_INT_H_INCLUDED_ */
