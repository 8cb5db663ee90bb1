
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
 * Private to the history: the call and its end (history), messages
 * and turns (history_turn), what subagents said in them (history_child), the
 * response (history_output).
 */


/* in the request's pool; what is on the heap is freed when it ends */

typedef struct {
    ngx_http_request_t                    *request;
    ngx_http_agentstream_history_args_t    args;
    ngx_http_agentstream_call_t           *call;       /* NULL: over */
    ngx_uint_t                             status;     /* then */
    ngx_str_t                              running;    /* turn, or empty */
    ngx_http_agentstream_json_split_t      split;
    ngx_http_agentstream_json_t            json;
    ngx_http_agentstream_acp_buf_t         rest;       /* not split yet, while
                                                          subagents speak */
    ngx_uint_t                             again;      /* see opencode_opens */

    /* subagents of the message at hand */
    ngx_array_t                            children;   /* of the turn, in its
                                                          pool */
    ngx_uint_t                             nchildren;  /* told */
    ngx_http_agentstream_call_t           *child;      /* or NULL */
    ngx_http_agentstream_json_split_t      child_split;

    /* the turn at hand */
    ngx_pool_t                            *pool;
    ngx_http_agentstream_translate_t      *translate;
    ngx_str_t                              turn;       /* in pool */
    ngx_uint_t                             nanswers;
    ngx_http_agentstream_acp_buf_t         usage;      /* a packet kept until
                                                          its message is
                                                          whole */
    u_char                                 timestamp[
                                        NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN];

    /* the response */
    ngx_http_agentstream_output_t         *output;
    ngx_http_agentstream_acp_buf_t         packet;     /* that is being made */
    ngx_http_agentstream_output_text_t     text;       /* to be sent */
    ngx_http_agentstream_wire_state_t      state;
    uint64_t                               seq;
    size_t                                 taken;      /* from OpenCode since
                                                          other requests had
                                                          their turn */
    ngx_event_t                            event;

    unsigned                               unfinished:1;   /* the last answer
                                                              has no end */
    unsigned                               complete:1;     /* all is in
                                                              text */
    unsigned                               failed:1;       /* out of memory in
                                                              a subagent's
                                                              answer */
} ngx_http_agentstream_history_t;


/* history_turn: one message of the array; the end of the last turn */
ngx_int_t ngx_http_agentstream_history_message(void *ctx, u_char *text,
    size_t len);
ngx_int_t ngx_http_agentstream_history_end(ngx_http_agentstream_history_t *h);
/* take note of the turn that runs now */
ngx_int_t ngx_http_agentstream_history_running(
    ngx_http_agentstream_history_t *h);
void ngx_http_agentstream_history_destroy_turn(
    ngx_http_agentstream_history_t *h);

/* history_child: those of a message, that begin to be told; NGX_DECLINED: there
   are none, or no more */
ngx_int_t ngx_http_agentstream_history_find_children(
    ngx_http_agentstream_history_t *h, ngx_str_t *parent);
ngx_int_t ngx_http_agentstream_history_next_child(
    ngx_http_agentstream_history_t *h);

/* history: a piece of any answer was taken: go on at once, or later */
ngx_int_t ngx_http_agentstream_history_taken(
    ngx_http_agentstream_history_t *h, size_t len);
void ngx_http_agentstream_history_continue(ngx_http_agentstream_history_t *h);
/* continue when other requests had their turn */
void ngx_http_agentstream_history_post(ngx_http_agentstream_history_t *h);

/* history_turn: packets from now on have a time of the message at hand */
void ngx_http_agentstream_history_time(ngx_http_agentstream_history_t *h,
    const char *name);

/* history_output */
extern ngx_http_agentstream_translate_sink_t  ngx_http_agentstream_history_sink;

u_char *ngx_http_agentstream_history_reserve(void *ctx, size_t size);
uint64_t ngx_http_agentstream_history_commit(void *ctx,
    ngx_http_agentstream_record_t *record);
/* send what was kept until the message was whole */
ngx_int_t ngx_http_agentstream_history_flush(
    ngx_http_agentstream_history_t *h);
/* the array's end */
ngx_int_t ngx_http_agentstream_history_close(
    ngx_http_agentstream_history_t *h);
/* NGX_OK: all is sent; otherwise the client is waited for, or gone */
ngx_int_t ngx_http_agentstream_history_output(
    ngx_http_agentstream_history_t *h);
void ngx_http_agentstream_history_destroy_output(
    ngx_http_agentstream_history_t *h);


#endif /* _NGX_HTTP_AGENTSTREAM_HISTORY_INT_H_INCLUDED_ */
