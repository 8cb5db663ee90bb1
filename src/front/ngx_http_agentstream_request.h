
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REQUEST_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REQUEST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_account.h"
#include "ngx_http_agentstream_conf.h"


/*
 * A client's request: which route it is for, whether it is valid, and what is
 * started for it.  Nothing invalid reaches OpenCode.
 */


/* the content handler of locations with "agentstream" */
ngx_int_t ngx_http_agentstream_request_handler(ngx_http_request_t *r);

/* "agentstream_route" of the request's location */
ngx_int_t ngx_http_agentstream_request_route(ngx_http_request_t *r,
    ngx_str_t *route);

/* the session in the request's path, or in that of the main request if this
   one has no such location; empty: there is none, or the path is refused */
void ngx_http_agentstream_request_session(ngx_http_request_t *r,
    ngx_str_t *session);

/* "agentstream_owner" there; empty: none, or not known yet */
void ngx_http_agentstream_request_owner(ngx_http_request_t *r,
    ngx_str_t *owner);

/* what is remembered of the response; NULL: nothing */
ngx_http_agentstream_account_t *ngx_http_agentstream_request_account(
    ngx_http_request_t *r);


#endif /* _NGX_HTTP_AGENTSTREAM_REQUEST_H_INCLUDED_ */
