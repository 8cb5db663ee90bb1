
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STATUS_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Metrics of the module, for monitoring.
 */


/* the content handler of locations with "agentstream_status" */
ngx_int_t ngx_http_agentstream_status_handler(ngx_http_request_t *r);


#endif /* _NGX_HTTP_AGENTSTREAM_STATUS_H_INCLUDED_ */
