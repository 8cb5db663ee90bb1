
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REBUILD_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REBUILD_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_clock.h"
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_rebuild.h"
#include "ngx_http_agentstream_reconcile.h"
#include "ngx_http_agentstream_translate.h"


/*
 * Private to the rebuild: asking, reading and sending (rebuild), and
 * where the translator's packets go meanwhile (rebuild_sink).
 */


typedef struct {
    ngx_pool_t                          *pool;     /* its own: a request that
                                                      follows a session may
                                                      have many of these */
    ngx_http_request_t                  *request;
    ngx_http_agentstream_rebuild_args_t  args;
    ngx_str_t                            directory;
    ngx_http_agentstream_opencode_last_t  found;   /* the turn, while it is
                                                      looked for */

    ngx_http_agentstream_call_t         *call;
    ngx_http_agentstream_reconcile_t     reconcile;
    ngx_http_agentstream_translate_t    *translate;
    ngx_http_agentstream_output_t       *output;
    ngx_array_t                          sessions;
    ngx_event_t                          timer;
    ngx_uint_t                           tries;

    ngx_http_agentstream_acp_buf_t       packet;   /* that is being made */
    ngx_http_agentstream_output_text_t   text;     /* packets of this reading,
                                                      not sent yet */
    ngx_http_agentstream_wire_state_t    state;
    uint64_t                             seq;
    ngx_uint_t                           status;
    unsigned                             over:1;
    unsigned                             waiting:1;    /* to send */
} ngx_http_agentstream_rebuild_t;


extern ngx_http_agentstream_translate_sink_t
    ngx_http_agentstream_rebuild_sink;


#endif /* _NGX_HTTP_AGENTSTREAM_REBUILD_INT_H_INCLUDED_ */
