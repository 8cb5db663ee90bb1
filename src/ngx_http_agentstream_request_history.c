
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 4: requests for a session's history.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_request_int.h"


ngx_int_t
ngx_http_agentstream_request_messages(ngx_http_agentstream_request_t *req)
{
    return NGX_HTTP_NOT_IMPLEMENTED;
}
