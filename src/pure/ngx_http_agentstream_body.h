
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_BODY_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_fields.h"


/*
 * The other bodies that clients send, beside prompts: a new session, the
 * answers to a question, the reply to a permission request.  Each is checked
 * and written again for OpenCode; unknown fields are refused.
 */


typedef enum {
    NGX_HTTP_AGENTSTREAM_BODY_SESSION = 0,   /* {"title"?,"agent"?,"model"?} */
    NGX_HTTP_AGENTSTREAM_BODY_ANSWERS,       /* {"answers":[["Blue"],...]} */
    NGX_HTTP_AGENTSTREAM_BODY_REPLY          /* {"reply","message"?} */
} ngx_http_agentstream_body_e;


typedef struct {
    ngx_str_t                            text;     /* for OpenCode */
    ngx_http_agentstream_fields_error_t  error;
} ngx_http_agentstream_body_t;


/* conf NULL: all fields are allowed; NGX_OK, NGX_DECLINED: error tells why,
   NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_body_build(ngx_pool_t *pool, ngx_uint_t kind,
    ngx_http_agentstream_fields_conf_t *conf, ngx_str_t *text,
    ngx_http_agentstream_body_t *body);


#endif /* _NGX_HTTP_AGENTSTREAM_BODY_H_INCLUDED_ */
