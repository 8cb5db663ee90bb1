
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
 * A target: which session is meant, and where it is.  Code that does something
 * with a session makes a target once and passes it on.  A target contains
 * everything that is needed to find the session, on OpenCode's server and in
 * the zone.
 */


/* the strings belong to the code that made the target */

typedef struct {
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_str_t                            route;    /* value of
                                                      "agentstream_route" */
    ngx_str_t                            session;  /* empty: no session is
                                                      meant, as when all are
                                                      listed */
    ngx_str_t                            key;      /* key of the session in the
                                                      zone, the same in all
                                                      workers; or empty */
} ngx_http_agentstream_target_t;


/* makes the key in the pool, and uses the other strings as they are;
   NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_target_init(
    ngx_http_agentstream_target_t *target, ngx_pool_t *pool,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *session);

/* copies all strings; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_target_copy(
    ngx_http_agentstream_target_t *target, ngx_pool_t *pool,
    ngx_http_agentstream_target_t *from);


#endif /* _NGX_HTTP_AGENTSTREAM_TARGET_H_INCLUDED_ */
