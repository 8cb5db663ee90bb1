
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_OUTCOME_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_OUTCOME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * How a verb of the engine ended.  A callback reports it once to the caller; a
 * front turns it into a response.
 */


/*
 * The code has the meaning of an HTTP status, whatever the protocol.  Anything
 * but 2xx is a failure, and reason explains it.  A failure without a reason is
 * one of this worker itself (no memory), about which nothing more can be said.
 * All strings are valid only until the callback returns.
 */

typedef struct {
    ngx_uint_t                           code;
    const char                          *reason;   /* or NULL */
    ngx_str_t                            details;  /* a JSON object, or empty */
    ngx_str_t                            body;     /* JSON, or empty */
    u_char                               buf[64];  /* for details that are
                                                      written here */
} ngx_http_agentstream_outcome_t;


/* may be called before the verb returns, unless the verb's comment says
   otherwise */
typedef void (*ngx_http_agentstream_outcome_pt)(void *data,
    ngx_http_agentstream_outcome_t *outcome);


/* sets success; body may be NULL */
void ngx_http_agentstream_outcome_good(ngx_http_agentstream_outcome_t *outcome,
    ngx_uint_t code, ngx_str_t *body);

/* sets a failure; reason NULL: this worker has failed */
void ngx_http_agentstream_outcome_bad(ngx_http_agentstream_outcome_t *outcome,
    ngx_uint_t code, const char *reason);

/* sets the failure of a call to OpenCode with this status; missing: the reason
   for a 404, NULL: a 404 is a failure like others */
void ngx_http_agentstream_outcome_failed(
    ngx_http_agentstream_outcome_t *outcome, ngx_uint_t status,
    const char *missing);

/* sets the failure that OpenCode's answer cannot be read; rc NGX_ERROR: there
   was no memory to read it */
void ngx_http_agentstream_outcome_unread(
    ngx_http_agentstream_outcome_t *outcome, ngx_int_t rc);


#endif /* _NGX_HTTP_AGENTSTREAM_OUTCOME_H_INCLUDED_ */
