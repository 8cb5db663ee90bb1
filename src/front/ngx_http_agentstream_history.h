
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_HISTORY_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_HISTORY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_target.h"


/*
 * A session's stored messages as the packets that its turns sent.  The
 * response is made while OpenCode's answer arrives, so memory holds only one
 * message and what the client has not taken yet.
 */


/* called when nothing was sent: the request belongs to the caller again;
   status is that of the call */
typedef void (*ngx_http_agentstream_history_pt)(void *data,
    ngx_uint_t status);


typedef struct {
    ngx_http_agentstream_output_t       *output;   /* the request's */
    ngx_http_agentstream_target_t        target;   /* in the request's pool */
    ngx_uint_t                           limit;    /* of messages, 0: none */
    ngx_http_agentstream_wire_t         *wire;
    ngx_http_agentstream_history_pt      failed;
    void                                *data;
} ngx_http_agentstream_history_args_t;


/* takes over the request, like reader_attach(); NGX_DONE, or NGX_ERROR: no
   memory */
ngx_int_t ngx_http_agentstream_history_start(ngx_http_request_t *r,
    ngx_http_agentstream_history_args_t *args);


#endif /* _NGX_HTTP_AGENTSTREAM_HISTORY_H_INCLUDED_ */
