
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_OUTCOME_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_OUTCOME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * How a verb of the engine ended.  It is told once, by a callback, to whoever
 * asked for it: a front makes a response of it.
 */


/*
 * The code has the sense of an HTTP status, whatever the protocol.  What is not
 * 2xx has failed, and the reason says why; a failure without a reason is one of
 * this worker itself (no memory), of which nothing more can be said.  All
 * strings last only until the callback returns.
 */

typedef struct {
    ngx_uint_t                           code;
    const char                          *reason;   /* or NULL */
    ngx_str_t                            details;  /* a JSON object, or empty */
    ngx_str_t                            body;     /* JSON, or empty */
    u_char                               buf[64];  /* of details that are
                                                      made here */
} ngx_http_agentstream_outcome_t;


/* may be called before the verb returns, unless the verb says otherwise */
typedef void (*ngx_http_agentstream_outcome_pt)(void *data,
    ngx_http_agentstream_outcome_t *outcome);


/* it went well; body may be NULL */
void ngx_http_agentstream_outcome_good(ngx_http_agentstream_outcome_t *outcome,
    ngx_uint_t code, ngx_str_t *body);

/* reason NULL: this worker has failed */
void ngx_http_agentstream_outcome_bad(ngx_http_agentstream_outcome_t *outcome,
    ngx_uint_t code, const char *reason);

/* a call to OpenCode has failed with this status; missing: what a 404 says,
   NULL: it is a failure like others */
void ngx_http_agentstream_outcome_failed(
    ngx_http_agentstream_outcome_t *outcome, ngx_uint_t status,
    const char *missing);

/* an answer of OpenCode's cannot be read; rc NGX_ERROR: there was no memory to
   read it */
void ngx_http_agentstream_outcome_unread(
    ngx_http_agentstream_outcome_t *outcome, ngx_int_t rc);


#endif /* _NGX_HTTP_AGENTSTREAM_OUTCOME_H_INCLUDED_ */
