
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_READER_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_READER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"


/*
 * Layer 4.  One client's way through a turn's journal: a cursor, one buffer
 * while it is being sent, keepalive comments.  A slow client costs its cursor.
 */


/*
 * Sends the turn's packets from seq on, to the terminal one.  Takes the
 * request over: the caller returns NGX_DONE with r->main->count raised, or
 * finalizes with what else is returned.
 */
ngx_int_t ngx_http_agentstream_reader_attach(ngx_http_request_t *r,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *turn, uint64_t seq);

/* what every event stream has, an error's too */
ngx_int_t ngx_http_agentstream_reader_headers(ngx_http_request_t *r);


#endif /* _NGX_HTTP_AGENTSTREAM_READER_H_INCLUDED_ */
