
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TARGET_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TARGET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"


/*
 * Which session is meant, and where it is.  Whoever wants something of a
 * session makes a target once and passes it on: it has everything that finds
 * the session, on OpenCode's server and in the zone.
 */


/* the strings belong to whoever made it */

typedef struct {
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_str_t                            route;    /* value of
                                                      "agentstream_route" */
    ngx_str_t                            session;  /* empty: none is meant, as
                                                      where all are listed */
    ngx_str_t                            key;      /* of the session in the
                                                      zone, the same in all
                                                      workers; or empty */
} ngx_http_agentstream_target_t;


/* the key is made in the pool, the other strings are taken as they are;
   NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_target_init(
    ngx_http_agentstream_target_t *target, ngx_pool_t *pool,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *session);

/* all strings are copied; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_target_copy(
    ngx_http_agentstream_target_t *target, ngx_pool_t *pool,
    ngx_http_agentstream_target_t *from);


#endif /* _NGX_HTTP_AGENTSTREAM_TARGET_H_INCLUDED_ */
