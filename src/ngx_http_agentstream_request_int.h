
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REQUEST_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REQUEST_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_request.h"


/*
 * Layer 4, private to the request: routing, checks and errors (request), turns
 * and their streams (request_turn).
 */


#define NGX_HTTP_AGENTSTREAM_SEGMENTS  4


typedef struct ngx_http_agentstream_request_s  ngx_http_agentstream_request_t;

/* NGX_DONE: the request goes on by itself; anything else finalizes it */
typedef ngx_int_t (*ngx_http_agentstream_request_pt)(
    ngx_http_agentstream_request_t *req);


typedef enum {
    ngx_http_agentstream_body_none = 0,    /* ignored */
    ngx_http_agentstream_body_optional,    /* JSON, if there is one */
    ngx_http_agentstream_body_required     /* JSON */
} ngx_http_agentstream_request_body_e;


/* a route: the segments that follow the location's own name; the first is a
   session's id, the third another one */

typedef struct {
    ngx_uint_t                            method;
    ngx_uint_t                            nsegments;
    const char                           *noun;    /* second segment */
    const char                           *verb;    /* fourth segment */
    ngx_http_agentstream_request_body_e   body;
    ngx_uint_t                            sse;     /* how errors are told */
    ngx_http_agentstream_request_pt       handler;
} ngx_http_agentstream_request_route_t;


/* lives in the request's pool */

struct ngx_http_agentstream_request_s {
    ngx_http_request_t                    *request;
    ngx_http_agentstream_loc_conf_t       *conf;
    ngx_http_agentstream_request_route_t  *route;
    ngx_str_t                              segments[
                                               NGX_HTTP_AGENTSTREAM_SEGMENTS];
    ngx_uint_t                             nsegments;
    ngx_str_t                              session;
    ngx_str_t                              id;     /* third segment */
    ngx_str_t                              server; /* "agentstream_route" */
    ngx_str_t                              body;   /* heap, freed by cleanup */
    size_t                                 size;
    ngx_http_agentstream_call_t           *call;   /* closed by cleanup */
    unsigned                               retry:1;    /* see reader_args_t */
    unsigned                               follow:1;
};


/* responses; what they return is to be returned by the route's handler */
ngx_int_t ngx_http_agentstream_request_error(
    ngx_http_agentstream_request_t *req, ngx_uint_t status,
    const char *message, ngx_str_t *details);
ngx_int_t ngx_http_agentstream_request_error_text(
    ngx_http_agentstream_request_t *req, ngx_uint_t status,
    ngx_str_t *message, ngx_str_t *details);
ngx_int_t ngx_http_agentstream_request_reply(
    ngx_http_agentstream_request_t *req, ngx_uint_t status, ngx_str_t *body);
/* 204 */
ngx_int_t ngx_http_agentstream_request_nothing(
    ngx_http_agentstream_request_t *req);

/* the body is not needed any more */
void ngx_http_agentstream_request_free_body(
    ngx_http_agentstream_request_t *req);

/* routes */
ngx_int_t ngx_http_agentstream_request_send_message(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_events(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_turn(
    ngx_http_agentstream_request_t *req);


#endif /* _NGX_HTTP_AGENTSTREAM_REQUEST_INT_H_INCLUDED_ */
