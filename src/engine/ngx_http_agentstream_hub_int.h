
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_HUB_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_HUB_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_hub.h"
#include "ngx_http_agentstream_sse.h"


/* bits for hashes of sessions; the memory of a hub is 8 kB larger for them */
#define NGX_HTTP_AGENTSTREAM_HUB_SEEN  65536


struct ngx_http_agentstream_hub_s {
    ngx_queue_t                          queue;    /* in the worker's list of
                                                      hubs */
    ngx_pool_t                          *pool;

    /* of the location that opened it; other locations that share the hub have
       the same prefix */
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_str_t                            route;
    ngx_str_t                            directory;

    ngx_http_agentstream_call_t         *call;
    ngx_http_agentstream_sse_t           sse;
    ngx_http_agentstream_json_t          json;

    ngx_queue_t                          subs;

    /* hash table by session id, on the heap, with at least as many buckets as
       routes */
    ngx_http_agentstream_hub_session_t **sessions;
    ngx_uint_t                           nbuckets;
    ngx_uint_t                           nsessions;

    ngx_event_t                          retry;
    ngx_event_t                          silence;
    ngx_event_t                          linger;
    ngx_event_t                          announce;
    ngx_msec_t                           heard;    /* time of the last byte */
    ngx_uint_t                           failures; /* failed attempts in a
                                                      row */

    /* which sessions may be working, see hub_quiet.c */
    uint32_t                            *seen;     /* a bit for each hash */
    ngx_http_agentstream_sub_t          *asking;   /* who asks OpenCode, or
                                                      NULL */
    unsigned                             asked:1;  /* OpenCode has answered,
                                                      and no event was missed
                                                      since */

    unsigned                             open:1;
};


#define ngx_http_agentstream_hub_see(hub, hash)                               \
    (hub)->seen[((hash) % NGX_HTTP_AGENTSTREAM_HUB_SEEN) / 32]                \
        |= (uint32_t) 1 << ((hash) % 32)


/* events may have been missed: what OpenCode has said is not true any more */
void ngx_http_agentstream_hub_doubt(ngx_http_agentstream_hub_t *hub);


#endif /* _NGX_HTTP_AGENTSTREAM_HUB_INT_H_INCLUDED_ */
