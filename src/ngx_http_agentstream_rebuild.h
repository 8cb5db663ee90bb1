
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"


/*
 * Layer 4.  A turn for a client whose place in it is not kept any more: the
 * packet "stream_reset", and then the turn so far from what OpenCode has
 * stored, asked for again until the turn is over.  These packets have no id,
 * so that a client that comes back begins anew.
 */


/*
 * Takes the request over like reader_attach().  turn is the id of the turn's
 * user message; where OpenCode knows no such message, or turn is empty, there
 * is nothing to send (204).
 */
ngx_int_t ngx_http_agentstream_rebuild_attach(ngx_http_request_t *r,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *session, ngx_str_t *turn, const char *reason);


#endif /* _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_ */
