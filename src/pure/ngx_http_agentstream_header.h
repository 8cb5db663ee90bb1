
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_HEADER_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_HEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * What headers of a client's request say beyond a plain value: "Accept" and
 * "Prefer".  A header may come several times: each of its values is read into
 * the same object, which is zeroed before the first one.  What cannot be read
 * is passed over, as RFC 9110 and RFC 7240 ask for.
 */


/*
 * How much a client wants a response as JSON, and as an event stream, in
 * thousandths.  Of several ranges that match, the most specific one counts:
 * "application/json" before "application" with any subtype, and that before any
 * type.
 */

typedef struct {
    ngx_uint_t                           json;
    ngx_uint_t                           events;
    ngx_uint_t                           named;    /* "text/event-stream" was
                                                      named */
    ngx_uint_t                           json_rank;    /* how specific the
                                                          range was */
    ngx_uint_t                           events_rank;
} ngx_http_agentstream_accept_t;

void ngx_http_agentstream_header_accept(ngx_http_agentstream_accept_t *accept,
    ngx_str_t *value);

/* whether it is to be JSON; if both are wanted as much, what was said more
   specifically: "application/json" and any type means JSON, any type alone
   means an event stream */
ngx_uint_t ngx_http_agentstream_header_json(
    ngx_http_agentstream_accept_t *accept);


/* the preferences of RFC 7240 that are known here; the first of each counts */

typedef struct {
    ngx_uint_t                           wait;     /* in seconds */
    unsigned                             has_wait:1;
    unsigned                             respond_async:1;
} ngx_http_agentstream_prefer_t;

/* a longer time is as long as this */
#define NGX_HTTP_AGENTSTREAM_WAIT_MAX  1000000

void ngx_http_agentstream_header_prefer(ngx_http_agentstream_prefer_t *prefer,
    ngx_str_t *value);


#endif /* _NGX_HTTP_AGENTSTREAM_HEADER_H_INCLUDED_ */
