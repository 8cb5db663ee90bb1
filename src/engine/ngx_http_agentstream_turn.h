
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TURN_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TURN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_enclosed.h"
#include "ngx_http_agentstream_target.h"
#include "ngx_http_agentstream_store.h"


/*
 * A turn: one prompt from its acceptance to its single terminal packet.  A
 * turn belongs to the worker that started it and to no client: clients read
 * its journal.
 */


typedef struct {
    ngx_http_agentstream_target_t        target;
    ngx_str_t                            make;     /* OpenCode's JSON body that
                                                      creates the session if it
                                                      is not there, see body.h;
                                                      empty: it must be there */
    ngx_str_t                            prompt;   /* OpenCode's JSON body, see
                                                      prompt.h */
    ngx_http_agentstream_enclosed_t     *enclosed; /* pictures of the prompt, or
                                                      NULL; they are not copied
                                                      but held */
    size_t                               enclosed_at;  /* where in the prompt
                                                      they belong */
    ngx_str_t                            files;    /* the files that the prompt
                                                      names */
    ngx_str_t                            request_id;   /* client_request_id */
    ngx_http_agentstream_ticket_t       *ticket;   /* of a queued sender */
} ngx_http_agentstream_turn_args_t;


/* who is told of a turn that is created later; it belongs to the caller */

typedef struct {
    void                               (*handler)(void *data, ngx_int_t rc,
                                                  ngx_str_t *id);
    void                                *data;
    void                                *turn;     /* private; NULL: nothing is
                                                      under way */
} ngx_http_agentstream_turn_creator_t;


ngx_int_t ngx_http_agentstream_turn_init_worker(ngx_cycle_t *cycle);

/* the worker is to exit: after timeout (0: none) its turns are left to other
   workers */
void ngx_http_agentstream_turn_leave(ngx_msec_t timeout);

/*
 * Starts a turn; all strings are copied.  NGX_OK: id is its id, which is also
 * the id of its user message; NGX_DECLINED: request_id has already started a
 * turn, and id is its id; NGX_BUSY: another turn is running in this session
 * and id is its id, or other senders wait in front and id is empty; NGX_ERROR:
 * out of memory, of the zone or of the worker; NGX_DONE: nobody knows yet
 * whether another turn of this session comes about, and the session is told
 * when it is known.  id has room for NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE bytes.
 * NGX_AGAIN: the creator's handler is called with one of these later.
 */
ngx_int_t ngx_http_agentstream_turn_create(
    ngx_http_agentstream_turn_args_t *args,
    ngx_http_agentstream_turn_creator_t *creator, ngx_str_t *id);
/* the creator goes before it was told; the turn, if it comes about, does
   not */
void ngx_http_agentstream_turn_forget_creator(
    ngx_http_agentstream_turn_creator_t *creator);

/*
 * Takes over a turn whose worker is dead: the journal tells what was sent,
 * OpenCode is asked for the rest, and the turn continues to its terminal
 * packet.  NGX_OK; NGX_AGAIN: it will turn out later; NGX_DECLINED: it
 * cannot be taken over; NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_agentstream_turn_adopt(
    ngx_http_agentstream_target_t *target, ngx_str_t *id);

/*
 * Asks the owner of the turn that runs in the session, in whichever worker, to
 * end it.  NGX_OK: it will end as cancelled, NGX_DECLINED: no turn is running.
 */
ngx_int_t ngx_http_agentstream_turn_interrupt(
    ngx_http_agentstream_target_t *target);


#endif /* _NGX_HTTP_AGENTSTREAM_TURN_H_INCLUDED_ */
