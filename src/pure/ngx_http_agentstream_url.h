
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_URL_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_URL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * The address of a Redis server, as in
 * redis://[[user]:password@]host[:port][/db].
 */


typedef struct {
    ngx_str_t                            user;     /* may be empty */
    ngx_str_t                            password; /* may be empty */
    ngx_str_t                            host;     /* ends with a null */
    ngx_uint_t                           port;
    ngx_uint_t                           db;
    ngx_uint_t                           tls;
} ngx_http_agentstream_url_t;


/* returns NULL, or what is wrong.  The strings are decoded and copied to buf,
   which has room for url->len + 3 bytes */
const char *ngx_http_agentstream_url_parse(
    ngx_http_agentstream_url_t *address, ngx_str_t *url, u_char *buf);


#endif /* _NGX_HTTP_AGENTSTREAM_URL_H_INCLUDED_ */
