
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
 * Private to the call.
 */


/* call_lane: where a call waits for its place.  NGX_OK: it has one, NGX_AGAIN:
   it waits, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_call_enter(ngx_http_agentstream_call_t *call);
/* it gives back its place, or waits no more */
void ngx_http_agentstream_call_leave(ngx_http_agentstream_call_t *call);

/* it runs, and nobody waits for it */
void ngx_http_agentstream_call_let(ngx_http_agentstream_call_t *call);

/* call: with a place, or without the need of one */
void ngx_http_agentstream_call_run(ngx_http_agentstream_call_t *call);
/* its place is wanted by another; done_handler is called */
void ngx_http_agentstream_call_expel(ngx_http_agentstream_call_t *call);

ngx_connection_t *ngx_http_agentstream_call_connect(
    ngx_http_agentstream_call_t *call);

/* the parked main request, on that connection */
ngx_http_request_t *ngx_http_agentstream_call_create_main(
    ngx_http_agentstream_call_t *call, ngx_connection_t *c);

/* the one that works; it starts when posted requests are run */
ngx_int_t ngx_http_agentstream_call_subrequest(
    ngx_http_agentstream_call_t *call, ngx_http_request_t *r);


#endif /* _NGX_HTTP_AGENTSTREAM_CALL_INT_H_INCLUDED_ */
