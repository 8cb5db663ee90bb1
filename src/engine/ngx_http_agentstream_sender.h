
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_SENDER_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_SENDER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_line.h"
#include "ngx_http_agentstream_outcome.h"
#include "ngx_http_agentstream_turn.h"


/*
 * A sender is somebody who prompts a session.  It starts a turn, finds one
 * that it should read instead, waits until it can start one, or is refused, as
 * "agentstream_busy" says.
 */


typedef enum {
    ngx_http_agentstream_sender_started = 0,
    ngx_http_agentstream_sender_repeated,  /* its client_request_id has started
                                              the turn before */
    ngx_http_agentstream_sender_attached   /* another turn runs, which is to be
                                              read instead */
} ngx_http_agentstream_sender_e;


/* part of its owner, who calls sender_leave() before it is freed */

typedef struct {
    /* set by its owner; all strings must live as long as the sender */
    ngx_http_agentstream_turn_args_t     args;     /* except the ticket */
    ngx_http_agentstream_outcome_pt      handler;
    void                                *data;

    /* about the turn, set when the outcome is good */
    ngx_http_agentstream_sender_e        how;
    ngx_str_t                            turn;

    /* private */
    ngx_http_agentstream_place_t         place;    /* in the queue */
    ngx_http_agentstream_turn_creator_t  creator;
    ngx_http_agentstream_store_watch_t   watch;    /* of the session, if it
                                                      was busy */
    unsigned                             watching:1;
    unsigned                             counted:1;    /* in the turn's number
                                                          of senders */
    u_char                               id[
                                         NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_sender_t;


/*
 * Sends the prompt.  The handler is called once, now or later: with 200 if
 * there is a turn to be read from its first packet; with 409 if the session is
 * busy; with 503 or 500 if there is no memory.  From then on the prompt is not
 * needed any more.  The sender may be freed when the handler returns.
 */
void ngx_http_agentstream_sender_send(ngx_http_agentstream_sender_t *sender);

/*
 * The owner is not interested any more: the sender stops waiting, and a turn
 * whose prompt still waits for OpenCode's session ends when its last sender
 * leaves.
 */
void ngx_http_agentstream_sender_leave(ngx_http_agentstream_sender_t *sender);


#endif /* _NGX_HTTP_AGENTSTREAM_SENDER_H_INCLUDED_ */
