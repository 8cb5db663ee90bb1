
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
#include "ngx_http_agentstream_outcome.h"
#include "ngx_http_agentstream_rebuild.h"
#include "ngx_http_agentstream_reconcile.h"
#include "ngx_http_agentstream_store.h"
#include "ngx_http_agentstream_translate.h"


/*
 * Declarations that only the files of rebuild use: asking, reading and giving
 * out records (rebuild), and where the translator's records go in the meantime
 * (rebuild_sink).
 */


struct ngx_http_agentstream_rebuild_s {
    ngx_pool_t                          *pool;     /* its own, because a client
                                                      that follows a session
                                                      may need many rebuilds */
    ngx_http_agentstream_rebuild_args_t  args;
    ngx_str_t                            directory;
    ngx_http_agentstream_opencode_last_t  found;   /* used while the turn is
                                                      searched for */

    ngx_http_agentstream_call_t         *call;
    ngx_http_agentstream_reconcile_t     reconcile;
    ngx_http_agentstream_translate_t    *translate;
    ngx_array_t                          sessions;
    ngx_event_t                          timer;
    ngx_uint_t                           tries;

    ngx_http_agentstream_acp_buf_t       buf;      /* packed records of the
                                                      current reading */
    size_t                               taken;    /* bytes of buf that the
                                                      follower has taken */
    uint64_t                             seq;      /* number of the last record
                                                      made */
    ngx_uint_t                           status;   /* 0: not known yet */
    unsigned                             over:1;   /* no record follows */
    unsigned                             nothing:1;    /* there is no such
                                                          turn */
    unsigned                             broken:1; /* no memory */
};


extern ngx_http_agentstream_translate_sink_t
    ngx_http_agentstream_rebuild_sink;


#endif /* _NGX_HTTP_AGENTSTREAM_REBUILD_INT_H_INCLUDED_ */
