
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_ASKED_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_ASKED_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_asked.h"
#include "ngx_http_agentstream_json.h"


/* a packet that asks for something, and a text that is made from it */

typedef struct {
    ngx_pool_t                          *pool;
    ngx_http_agentstream_json_t          json;
    ngx_uint_t                           questions;  /* 0: a permission */
    ngx_uint_t                           options;    /* of a permission */
    u_char                              *start;
    u_char                              *last;
} ngx_http_agentstream_asked_t;


/* reads the packet, and makes room for four times its length and more; if it
   returns NGX_OK, the caller destroys json */
ngx_int_t ngx_http_agentstream_asked_open(ngx_http_agentstream_asked_t *asked,
    ngx_pool_t *pool, ngx_str_t *text, size_t more);


#endif /* _NGX_HTTP_AGENTSTREAM_ASKED_INT_H_INCLUDED_ */
