
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_CALL_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_CALL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_enclosed.h"
#include "ngx_http_agentstream_opencode.h"


/*
 * A call: one HTTP exchange with OpenCode, or with a chat platform, through an
 * internal location of the configuration.  It belongs to no client, and no
 * other part knows of the connection and the requests that it consists of.
 */


typedef struct ngx_http_agentstream_call_s  ngx_http_agentstream_call_t;
typedef struct ngx_http_agentstream_call_lane_s
    ngx_http_agentstream_call_lane_t;


/* the purpose of a call; each kind has places of its own at a destination, so
   that one kind cannot occupy those of another */

typedef enum {
    NGX_HTTP_AGENTSTREAM_CALL_CLIENT = 0,    /* a client waits for it */
    NGX_HTTP_AGENTSTREAM_CALL_LOOKUP,        /* reads what is stored */
    NGX_HTTP_AGENTSTREAM_CALL_BACKGROUND,    /* nobody waits for it */
    NGX_HTTP_AGENTSTREAM_CALL_STREAM         /* lasts long, takes no place */
} ngx_http_agentstream_call_kind_e;


/* a call for somebody who waits for it; many chats at once do not occupy the
   places of clients */

#define ngx_http_agentstream_call_kind(conf)                                  \
    ((conf)->chat ? NGX_HTTP_AGENTSTREAM_CALL_BACKGROUND                      \
                  : NGX_HTTP_AGENTSTREAM_CALL_CLIENT)


/* called for a piece of a streamed response; NGX_AGAIN: the piece was
   consumed, but send no more until call_resume(); any other value but NGX_OK
   ends the call */
typedef ngx_int_t (*ngx_http_agentstream_call_body_pt)(void *data,
    u_char *pos, size_t len);

/* called for each element of an answer that is a list, as it arrives; any
   value but NGX_OK ends the call */
typedef ngx_int_t (*ngx_http_agentstream_call_element_pt)(void *data,
    ngx_http_agentstream_json_t *json);

/* called when the exchange is over, however it ended; it is called once, from
   a posted event, and never for a call that was closed; the call is freed
   afterwards */
typedef void (*ngx_http_agentstream_call_done_pt)(void *data,
    ngx_http_agentstream_call_t *call);


/* owned by the part that opened it, until it is done or closed */

struct ngx_http_agentstream_call_s {
    /* set by call_create() */
    ngx_http_conf_ctx_t                *server;
    ngx_str_t                           prefix;
    ngx_str_t                           route;
    ngx_http_agentstream_address_t      address;
    ngx_pool_t                         *pool;      /* lives as long as the
                                                      call */

    /* set before call_open(), where the defaults do not fit */
    ngx_uint_t                          kind;
    ngx_msec_t                          timeout;   /* 0: none; of a stream:
                                                      until it begins */
    size_t                              limit;     /* of a collected body, or
                                                      of an element */
    ngx_str_t                           content;   /* JSON, sent as the body */
    ngx_http_agentstream_enclosed_t    *enclosed;  /* sent within the content,
                                                      or NULL */
    size_t                              enclosed_at;
    ngx_http_agentstream_call_body_pt   body_handler;
    ngx_http_agentstream_call_element_pt  element_handler;
                                                   /* if neither is set, the
                                                      body is collected */
    ngx_uint_t                          subscription;  /* not counted as a
                                                          request */
    ngx_uint_t                          secret;    /* the address of the other
                                                      side must not be logged,
                                                      because a token may be a
                                                      part of it */
    ngx_http_agentstream_call_done_pt   done_handler;
    void                               *data;

    /* the result */
    ngx_uint_t                          status;    /* of the response, or 502,
                                                      504, 500 set by call
                                                      itself */
    ngx_str_t                           body;      /* collected */
    ngx_str_t                           retry_after;   /* that header of the
                                                          answer, or empty */
    unsigned                            answered:1;    /* a status line was
                                                          received */
    unsigned                            complete:1;    /* it was received to
                                                          the last byte */
    unsigned                            nonsense:1;    /* a list was expected,
                                                          and it is none */
    unsigned                            unsent:1;      /* not a byte of it
                                                          was sent; before
                                                          it is over:
                                                          call_unsent() */

    /* private to call */
    unsigned                            running:1;
    unsigned                            filtering:1;
    unsigned                            closed:1;
    unsigned                            timedout:1;
    unsigned                            paused:1;      /* by its handler */
    unsigned                            waiting:1;     /* waits for a place */
    unsigned                            abandoned:1;
    ngx_str_t                           key;       /* of its destination */
    ngx_http_agentstream_call_lane_t   *lane;      /* NULL: takes no place */
    size_t                              size;
    ngx_http_agentstream_json_split_t   split;     /* of a list */
    ngx_http_agentstream_json_t         json;      /* the element at hand */
    ngx_chain_t                        *held;      /* while paused, or
                                                      while others have their
                                                      turn */
    size_t                              taken;     /* since others had their
                                                      turn */
    ngx_http_request_t                 *source;    /* of the body */
    ngx_queue_t                         queue;     /* in its lane, while it
                                                      waits or is abandoned */
    ngx_queue_t                         others;    /* among all abandoned */
    ngx_event_t                         timer;
    ngx_event_t                         posted;
    ngx_event_t                         yield;     /* posted: others have their
                                                      turn */
    ngx_http_request_t                 *request;   /* the parked main request,
                                                      NULL when it is gone */
    ngx_http_request_t                 *subrequest;    /* it does the
                                                          proxying */
};


ngx_int_t ngx_http_agentstream_call_init_worker(ngx_cycle_t *cycle);

/* creates a call for one of OpenCode's requests; set handlers and content,
   then open it; route, session, id and directory are copied; NULL: no
   memory */
ngx_http_agentstream_call_t *ngx_http_agentstream_call_create(
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_uint_t request, ngx_str_t *session, ngx_str_t *id,
    ngx_str_t *directory);

/* creates a call to anything else: the address is appended to the prefix of an
   internal location, and is used as it is, with all strings in the pool of the
   call; set them before it is opened.  NULL: no memory */
ngx_http_agentstream_call_t *ngx_http_agentstream_call_create_at(
    ngx_http_conf_ctx_t *server, ngx_str_t *prefix);

/* GET session/{id}, whose answer contains the session's directory; the call is
   already open; NULL: no memory */
ngx_http_agentstream_call_t *ngx_http_agentstream_call_session(
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *session, ngx_http_agentstream_call_done_pt handler, void *data);

/* frees a call that was never opened */
void ngx_http_agentstream_call_destroy(ngx_http_agentstream_call_t *call);

/* starts the call, or queues it if its destination has no free place; if it
   cannot be started, done_handler reports that like any other failure */
void ngx_http_agentstream_call_open(ngx_http_agentstream_call_t *call);

/* ends the call now, without done_handler; may be used inside its own
   handlers */
void ngx_http_agentstream_call_close(ngx_http_agentstream_call_t *call);

/* tells that nobody waits for the call any more.  NGX_OK: nothing was sent
   yet, and the call is closed; NGX_DECLINED: it continues until another call
   needs its place, and done_handler is called at its end */
ngx_int_t ngx_http_agentstream_call_abandon(ngx_http_agentstream_call_t *call);

/* whether not a byte of the call was sent; may be asked at any time after it
   was opened */
ngx_uint_t ngx_http_agentstream_call_unsent(ngx_http_agentstream_call_t *call);

/* continues a paused response; must not be used inside body_handler */
void ngx_http_agentstream_call_resume(ngx_http_agentstream_call_t *call);

/* the call that a request belongs to, or NULL for a client's own request */
ngx_http_agentstream_call_t *ngx_http_agentstream_call_of(
    ngx_http_request_t *r);

/* installs the capture filters, when the configuration is read */
void ngx_http_agentstream_call_init_filters(void);
/* makes nginx ignore the X-Accel- headers of answers to calls */
ngx_int_t ngx_http_agentstream_call_init_headers(ngx_conf_t *cf);


#endif /* _NGX_HTTP_AGENTSTREAM_CALL_H_INCLUDED_ */
