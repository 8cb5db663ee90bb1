
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_CALL_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_CALL_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call.h"


/*
 * Declarations that only the files of call use.
 */


/* the calls of a worker */

typedef struct ngx_http_agentstream_calls_s {
    ngx_rbtree_t                         places;
    ngx_rbtree_node_t                    sentinel;
    ngx_queue_t                          waiting;    /* lanes that have waiting
                                                        calls */
    ngx_queue_t                          abandoned;  /* the abandoned calls of
                                                        all lanes */
    ngx_uint_t                           nwaiting;
    ngx_uint_t                           active;
    ngx_uint_t                           max;
    ngx_event_t                          next;
    ngx_socket_t                         pair[2];    /* sockets that nobody
                                                        writes to; the
                                                        connections of calls
                                                        are copies of the
                                                        first one */
} ngx_http_agentstream_calls_t;


/* call_lane: takes a place for the call.  NGX_OK: it has one, NGX_AGAIN: it
   waits for one, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_call_enter(ngx_http_agentstream_call_t *call);
/* gives back the call's place, or ends its wait for one */
void ngx_http_agentstream_call_leave(ngx_http_agentstream_call_t *call);

/* marks a running call as one that nobody waits for */
void ngx_http_agentstream_call_let(ngx_http_agentstream_call_t *call);

/* call: starts a call that has a place, or needs none */
void ngx_http_agentstream_call_run(ngx_http_agentstream_call_t *call);
/* ends a call whose place another call needs; done_handler is called */
void ngx_http_agentstream_call_expel(ngx_http_agentstream_call_t *call);

/* call_filter: continues an answer after others had their turn */
void ngx_http_agentstream_call_yield_handler(ngx_event_t *ev);

/* call_request: opens the sockets that connections of calls are copies of */
ngx_int_t ngx_http_agentstream_call_open_pair(
    ngx_http_agentstream_calls_t *calls);

/* the connection of a call */
ngx_connection_t *ngx_http_agentstream_call_connect(
    ngx_http_agentstream_call_t *call);

/* creates the waiting main request, on that connection */
ngx_http_request_t *ngx_http_agentstream_call_create_main(
    ngx_http_agentstream_call_t *call, ngx_connection_t *c);

/* creates the subrequest that does the proxying; it starts when nginx runs
   posted requests */
ngx_int_t ngx_http_agentstream_call_subrequest(
    ngx_http_agentstream_call_t *call, ngx_http_request_t *r);


#endif /* _NGX_HTTP_AGENTSTREAM_CALL_INT_H_INCLUDED_ */
