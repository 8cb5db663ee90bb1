
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_MODULE_CHECK_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_MODULE_CHECK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"


/*
 * Whether the configuration makes sense as a whole, which can be told only
 * when all of it was read: "nginx -t" reports what cannot work as an error,
 * and what is probably not meant as a warning, with the line of "agentstream".
 */


#define NGX_HTTP_AGENTSTREAM_MODULE_BESIDE                                    \
    "cannot be used beside another directive that answers requests, such as " \
    "\"proxy_pass\""


/* the directive "agentstream" is being read; returns NGX_CONF_OK or an error */
char *ngx_http_agentstream_module_place(ngx_conf_t *cf,
    ngx_http_agentstream_loc_conf_t *conf);

/* everything was read; NGX_ERROR: it cannot work, and the log says why */
ngx_int_t ngx_http_agentstream_module_check(ngx_conf_t *cf);


#endif /* _NGX_HTTP_AGENTSTREAM_MODULE_CHECK_H_INCLUDED_ */
