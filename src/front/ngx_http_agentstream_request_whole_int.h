
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REQUEST_WHOLE_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REQUEST_WHOLE_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_follower.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_result.h"


/*
 * Declarations that only the two files of whole answers use: waiting for the
 * end of the turn (request_whole), and collecting and sending the answer
 * (request_whole_answer).
 */


/* the pieces of an answer, in their order; each is one buffer */

typedef enum {
    ngx_http_agentstream_piece_text = 0,
    ngx_http_agentstream_piece_tools,
    ngx_http_agentstream_piece_messages,
    ngx_http_agentstream_piece_plan,

    ngx_http_agentstream_pieces
} ngx_http_agentstream_piece_e;


/* in the request's pool */

typedef struct {
    ngx_http_agentstream_request_t      *req;
    ngx_http_agentstream_follower_t      follower;

    ngx_event_t                          timer;    /* the end of "wait" */
    ngx_uint_t                           wait;     /* in seconds */
    unsigned                             begun:1;  /* OpenCode has the prompt */
    unsigned                             late:1;   /* the client does not want
                                                      to wait any longer */
    ngx_uint_t                           status;   /* of the turn's beginning */

    /* set when the turn is over, or the client is answered */
    ngx_str_t                            turn;
    ngx_str_t                            reason;   /* "stopReason", escaped */
    ngx_str_t                            usage;    /* JSON */

    ngx_http_agentstream_result_t       *result;   /* or NULL */
    ngx_array_t                          tools;    /* where each tool call is
                                                      in its piece */
    ngx_uint_t                           newest;   /* highest number of a tool
                                                      call */
    ngx_uint_t                           nmessages;
    ngx_http_agentstream_output_text_t   pieces[ngx_http_agentstream_pieces];
    ngx_uint_t                           next;     /* piece to send */
} ngx_http_agentstream_request_whole_t;


/* begins to collect the answer, and sends it; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_request_whole_collect(
    ngx_http_agentstream_request_whole_t *w);
/* an output_pt: sends the next piece */
void ngx_http_agentstream_request_whole_send(void *data);
/* frees what was collected */
void ngx_http_agentstream_request_whole_free(
    ngx_http_agentstream_request_whole_t *w);

/* sets the headers that tell which preferences were applied */
ngx_int_t ngx_http_agentstream_request_whole_applied(
    ngx_http_agentstream_request_whole_t *w, ngx_uint_t status);


#endif /* _NGX_HTTP_AGENTSTREAM_REQUEST_WHOLE_INT_H_INCLUDED_ */
