
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_output.h"


/*
 * A turn for a client whose place in it is not kept any more: the
 * packet "stream_reset", and then the turn so far from what OpenCode has
 * stored, asked for again until the turn is over.  These packets have no id,
 * so that a client that comes back begins anew; only the terminal one has, so
 * that it need not come back.
 */


#define NGX_HTTP_AGENTSTREAM_REBUILD_LAST  999999999999999


typedef struct {
    ngx_http_agentstream_output_t       *output;   /* the request's */
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_str_t                            route;
    ngx_str_t                            session;
    ngx_str_t                            turn;     /* the id of its user
                                                      message, or empty: that
                                                      which OpenCode works on */
    const char                          *reason;

    /* whether the turn is kept by now, and `after` has it; may be NULL */
    ngx_uint_t                         (*kept)(void *data);

    /* takes the request over when the turn is over, or there is none, but not
       after an error that the response begins with; NULL: the response ends
       with the turn */
    ngx_int_t                          (*after)(ngx_http_request_t *r,
                                           void *data);
    void                                *data;
} ngx_http_agentstream_rebuild_args_t;


/*
 * Takes the request over like reader_attach(), and copies the turn's id.
 * Where OpenCode knows no such message, or is not busy, there is nothing to
 * send (204).
 */
ngx_int_t ngx_http_agentstream_rebuild_attach(ngx_http_request_t *r,
    ngx_http_agentstream_rebuild_args_t *args);


#endif /* _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_ */
