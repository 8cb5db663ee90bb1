
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_URL_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_URL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Where Redis is: redis://[[user]:password@]host[:port][/db] is a server,
 * sentinel://[[user]:password@]name@host[:port],...[/db] are the Sentinels
 * that know where the master of this name is.
 */


#define NGX_HTTP_AGENTSTREAM_URL_HOSTS  16


typedef struct {
    ngx_str_t                            name;     /* ends with a null */
    ngx_uint_t                           port;
} ngx_http_agentstream_url_host_t;


typedef struct {
    ngx_str_t                            user;     /* may be empty */
    ngx_str_t                            password; /* may be empty */
    ngx_str_t                            master;   /* empty: the hosts are not
                                                      Sentinels */
    ngx_http_agentstream_url_host_t      hosts[NGX_HTTP_AGENTSTREAM_URL_HOSTS];
    ngx_uint_t                           nhosts;
    ngx_uint_t                           db;
    ngx_uint_t                           tls;
} ngx_http_agentstream_url_t;


/* returns NULL, or what is wrong.  The strings are decoded and copied to buf,
   which has room for url->len + 3 bytes */
const char *ngx_http_agentstream_url_parse(
    ngx_http_agentstream_url_t *address, ngx_str_t *url, u_char *buf);

/* reads [user]:password; buf has room for text->len bytes */
const char *ngx_http_agentstream_url_login(ngx_str_t *user,
    ngx_str_t *password, ngx_str_t *text, u_char *buf);


#endif /* _NGX_HTTP_AGENTSTREAM_URL_H_INCLUDED_ */
