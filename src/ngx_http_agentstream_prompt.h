
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_PROMPT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_PROMPT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"


/*
 * Layer 1, pure.  A client's send-message body (contract 1) in, OpenCode's
 * prompt body out.  Nothing that is not understood is passed on.
 */


typedef struct {
    ngx_str_t                            body;         /* for OpenCode */
    ngx_str_t                            request_id;   /* client_request_id,
                                                          escaped; or empty */
    u_char                               error[128];   /* what is wrong, and
                                                          with which field */
    size_t                               error_len;
} ngx_http_agentstream_prompt_t;


/* id becomes the user message's; NGX_OK, NGX_DECLINED: error says why,
   NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_prompt_build(ngx_pool_t *pool, ngx_str_t *text,
    ngx_str_t *id, ngx_http_agentstream_prompt_t *prompt);


#endif /* _NGX_HTTP_AGENTSTREAM_PROMPT_H_INCLUDED_ */
