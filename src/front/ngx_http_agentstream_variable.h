
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_VARIABLE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_VARIABLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Variables of the module for the rest of the configuration.
 */


ngx_int_t ngx_http_agentstream_variable_init(ngx_conf_t *cf);

/* whether the configuration uses one that needs the account of a response */
ngx_uint_t ngx_http_agentstream_variable_used(ngx_conf_t *cf);


#endif /* _NGX_HTTP_AGENTSTREAM_VARIABLE_H_INCLUDED_ */
