
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_CALL_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_CALL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_opencode.h"


/*
 * Layer 2.  One HTTP exchange with OpenCode through an internal location of
 * the configuration, bound to no client: nothing else knows of the connection
 * and the requests it is made of.
 */


typedef struct ngx_http_agentstream_call_s  ngx_http_agentstream_call_t;

/* a piece of a streamed response; NGX_AGAIN: it was taken, but no more until
   call_resume(); anything else but NGX_OK ends the call */
typedef ngx_int_t (*ngx_http_agentstream_call_body_pt)(void *data,
    u_char *pos, size_t len);

/* the exchange is over, however it ended; called once, from a posted event,
   and never for a call that was closed; the call is freed afterwards */
typedef void (*ngx_http_agentstream_call_done_pt)(void *data,
    ngx_http_agentstream_call_t *call);


/* owner: the part that opened it, until done or closed */

struct ngx_http_agentstream_call_s {
    /* given when it is created */
    ngx_http_conf_ctx_t                *server;
    ngx_str_t                           prefix;
    ngx_str_t                           route;
    ngx_http_agentstream_address_t      address;
    ngx_pool_t                         *pool;      /* lives as long */

    /* given by the opener, who may change the defaults */
    ngx_msec_t                          timeout;   /* 0: none */
    size_t                              limit;     /* of a collected body */
    ngx_str_t                           content;   /* JSON, sent as the body */
    ngx_http_agentstream_call_body_pt   body_handler;  /* NULL: collect */
    ngx_uint_t                          subscription;  /* not counted among
                                                          the requests */
    ngx_http_agentstream_call_done_pt   done_handler;
    void                               *data;

    /* the outcome */
    ngx_uint_t                          status;    /* of the response, or 502,
                                                      504, 500 made here */
    ngx_str_t                           body;      /* collected */
    unsigned                            answered:1;    /* a status line came */
    unsigned                            complete:1;    /* to the last byte */
    unsigned                            unsent:1;      /* not a byte of it has
                                                          left */

    /* private to the part */
    unsigned                            running:1;
    unsigned                            filtering:1;
    unsigned                            closed:1;
    unsigned                            timedout:1;
    unsigned                            paused:1;
    size_t                              size;
    ngx_chain_t                        *held;      /* while paused */
    ngx_http_request_t                 *source;    /* of the body */
    ngx_queue_t                         queue;
    ngx_event_t                         timer;
    ngx_event_t                         posted;
    ngx_http_request_t                 *request;   /* the parked main request,
                                                      NULL when it is gone */
};


ngx_int_t ngx_http_agentstream_call_init_worker(ngx_cycle_t *cycle);

/* one of OpenCode's requests, to be given handlers and content and opened;
   route, session, id and directory are copied; NULL: no memory */
ngx_http_agentstream_call_t *ngx_http_agentstream_call_create(
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_uint_t request, ngx_str_t *session, ngx_str_t *id,
    ngx_str_t *directory);

/* a call that was never opened */
void ngx_http_agentstream_call_destroy(ngx_http_agentstream_call_t *call);

/* start it, or queue it behind the calls in flight; a failure to start is
   reported by done_handler like any other */
void ngx_http_agentstream_call_open(ngx_http_agentstream_call_t *call);

/* end it now, without done_handler; may be used inside its own handlers */
void ngx_http_agentstream_call_close(ngx_http_agentstream_call_t *call);

/* go on with a streamed response; not to be used inside body_handler */
void ngx_http_agentstream_call_resume(ngx_http_agentstream_call_t *call);

/* the call a request belongs to, or NULL for a client's own request */
ngx_http_agentstream_call_t *ngx_http_agentstream_call_of(
    ngx_http_request_t *r);

/* capture filters, installed at configuration */
void ngx_http_agentstream_call_init_filters(void);
/* headers of answers do not steer nginx, from then on */
ngx_int_t ngx_http_agentstream_call_init_headers(ngx_conf_t *cf);


#endif /* _NGX_HTTP_AGENTSTREAM_CALL_H_INCLUDED_ */
