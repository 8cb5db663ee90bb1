
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
 * Somebody who prompts a session.  It starts a turn, or finds one that is to be
 * read instead, or waits until it can start one, or is refused, as
 * "agentstream_busy" says.
 */


typedef enum {
    ngx_http_agentstream_sender_started = 0,
    ngx_http_agentstream_sender_repeated,  /* its client_request_id has started
                                              the turn before */
    ngx_http_agentstream_sender_attached   /* another turn runs, which is to be
                                              read instead */
} ngx_http_agentstream_sender_e;


/* belongs to whoever sends, who lets it leave before it goes */

typedef struct {
    /* set by its owner; all strings stay as long as the sender */
    ngx_http_agentstream_turn_args_t     args;     /* but the ticket */
    ngx_http_agentstream_outcome_pt      handler;
    void                                *data;

    /* of the turn, once the outcome was good */
    ngx_http_agentstream_sender_e        how;
    ngx_str_t                            turn;

    /* private */
    ngx_http_agentstream_place_t         place;    /* in the queue */
    unsigned                             counted:1;    /* in the turn */
    u_char                               id[
                                         NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_sender_t;


/*
 * Sends the prompt.  The handler is called once, here or later: with 200, when
 * there is a turn to be read from its first packet; 409, when the session is
 * busy; 503 or 500, when there is no memory.  From then on the prompt is not
 * needed any more.  The sender may be gone when the handler returns.
 */
void ngx_http_agentstream_sender_send(ngx_http_agentstream_sender_t *sender);

/*
 * Whoever sent it is not interested any more: it waits no longer, and a turn
 * whose prompt still waits in OpenCode's session goes with the last one who
 * sent it.
 */
void ngx_http_agentstream_sender_leave(ngx_http_agentstream_sender_t *sender);


#endif /* _NGX_HTTP_AGENTSTREAM_SENDER_H_INCLUDED_ */
