
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
 * One HTTP exchange with OpenCode through an internal location of
 * the configuration, bound to no client: nothing else knows of the connection
 * and the requests it is made of.
 */


typedef struct ngx_http_agentstream_call_s  ngx_http_agentstream_call_t;
typedef struct ngx_http_agentstream_call_lane_s
    ngx_http_agentstream_call_lane_t;


/* what a call is made for; each kind has places of its own at a destination,
   so that none of them can fill those of another */

typedef enum {
    NGX_HTTP_AGENTSTREAM_CALL_CLIENT = 0,    /* a client waits for it */
    NGX_HTTP_AGENTSTREAM_CALL_LOOKUP,        /* reads what is stored */
    NGX_HTTP_AGENTSTREAM_CALL_BACKGROUND,    /* nobody waits for it */
    NGX_HTTP_AGENTSTREAM_CALL_STREAM         /* lasts, and takes no place */
} ngx_http_agentstream_call_kind_e;


/* a piece of a streamed response; NGX_AGAIN: it was taken, but no more until
   call_resume(); anything else but NGX_OK ends the call */
typedef ngx_int_t (*ngx_http_agentstream_call_body_pt)(void *data,
    u_char *pos, size_t len);

/* an element of an answer that is a list, as it arrives; anything but NGX_OK
   ends the call */
typedef ngx_int_t (*ngx_http_agentstream_call_element_pt)(void *data,
    ngx_http_agentstream_json_t *json);

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
    ngx_uint_t                          kind;
    ngx_msec_t                          timeout;   /* 0: none; of a stream:
                                                      until it begins */
    size_t                              limit;     /* of a collected body, or
                                                      of an element */
    ngx_str_t                           content;   /* JSON, sent as the body */
    ngx_http_agentstream_call_body_pt   body_handler;
    ngx_http_agentstream_call_element_pt  element_handler;
                                                   /* neither: collect */
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
    unsigned                            nonsense:1;    /* it is no list */
    unsigned                            unsent:1;      /* not a byte of it has
                                                          left; before it is
                                                          over: call_unsent() */

    /* private to the part */
    unsigned                            running:1;
    unsigned                            filtering:1;
    unsigned                            closed:1;
    unsigned                            timedout:1;
    unsigned                            paused:1;
    unsigned                            waiting:1;     /* for a place */
    unsigned                            abandoned:1;
    ngx_str_t                           key;       /* of its destination */
    ngx_http_agentstream_call_lane_t   *lane;      /* NULL: takes no place */
    size_t                              size;
    ngx_http_agentstream_json_split_t   split;     /* of a list */
    ngx_http_agentstream_json_t         json;      /* its element */
    ngx_chain_t                        *held;      /* while paused */
    ngx_http_request_t                 *source;    /* of the body */
    ngx_queue_t                         queue;     /* in its lane, while it
                                                      waits or is abandoned */
    ngx_queue_t                         others;    /* among all abandoned */
    ngx_event_t                         timer;
    ngx_event_t                         posted;
    ngx_http_request_t                 *request;   /* the parked main request,
                                                      NULL when it is gone */
    ngx_http_request_t                 *subrequest;    /* the one that works */
};


ngx_int_t ngx_http_agentstream_call_init_worker(ngx_cycle_t *cycle);

/* one of OpenCode's requests, to be given handlers and content and opened;
   route, session, id and directory are copied; NULL: no memory */
ngx_http_agentstream_call_t *ngx_http_agentstream_call_create(
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_uint_t request, ngx_str_t *session, ngx_str_t *id,
    ngx_str_t *directory);

/* GET session/{id}, which tells where a session is; opened, NULL: no memory */
ngx_http_agentstream_call_t *ngx_http_agentstream_call_session(
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *session, ngx_http_agentstream_call_done_pt handler, void *data);

/* a call that was never opened */
void ngx_http_agentstream_call_destroy(ngx_http_agentstream_call_t *call);

/* start it, or queue it if its destination has no place; a failure to start is
   reported by done_handler like any other */
void ngx_http_agentstream_call_open(ngx_http_agentstream_call_t *call);

/* end it now, without done_handler; may be used inside its own handlers */
void ngx_http_agentstream_call_close(ngx_http_agentstream_call_t *call);

/* nobody waits for it any more.  NGX_OK: it had not left, and is closed;
   NGX_DECLINED: it goes on until its place is wanted, and done_handler is
   called as ever */
ngx_int_t ngx_http_agentstream_call_abandon(ngx_http_agentstream_call_t *call);

/* whether not a byte of it has left, at any time after it was opened */
ngx_uint_t ngx_http_agentstream_call_unsent(ngx_http_agentstream_call_t *call);

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
