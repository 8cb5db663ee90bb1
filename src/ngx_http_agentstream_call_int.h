
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
 * Layer 2, private to the call.
 */


ngx_connection_t *ngx_http_agentstream_call_connect(
    ngx_http_agentstream_call_t *call);

/* the parked main request, on that connection */
ngx_http_request_t *ngx_http_agentstream_call_create_main(
    ngx_http_agentstream_call_t *call, ngx_connection_t *c);

/* the one that works; it starts when posted requests are run */
ngx_int_t ngx_http_agentstream_call_subrequest(
    ngx_http_agentstream_call_t *call, ngx_http_request_t *r);


#endif /* _NGX_HTTP_AGENTSTREAM_CALL_INT_H_INCLUDED_ */
