
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_WORKER_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_WORKER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * What a worker process holds: one pointer for each part that keeps something
 * from request to request.  It is the module's only mutable global.
 */


/* each is created by its own part and lives until the worker exits */

typedef struct {
    struct ngx_http_agentstream_zone_s        *zone;
    ngx_uint_t                                 outdated; /* an OpenCode that
                                                            is not supported
                                                            was reported */
    time_t                                     server_asked; /* for its
                                                            version */
    uint64_t                                  *stats;    /* see store.h */
    struct ngx_http_agentstream_calls_s       *calls;
    struct ngx_http_agentstream_clock_s       *clock;
    struct ngx_http_agentstream_hubs_s        *hubs;
    struct ngx_http_agentstream_notify_s      *notify;
    struct ngx_http_agentstream_turns_s       *turns;
    struct ngx_http_agentstream_lines_s       *lines;
    struct ngx_http_agentstream_deliveries_s  *deliveries;   /* or NULL */
    struct ngx_http_agentstream_delivery_me_s *bots;     /* or NULL */
    struct ngx_http_agentstream_poller_s      *pollers;  /* or NULL */
    struct ngx_http_agentstream_output_mem_s  *spare;    /* or NULL */
} ngx_http_agentstream_worker_t;


extern ngx_http_agentstream_worker_t  *ngx_http_agentstream_worker;


#endif /* _NGX_HTTP_AGENTSTREAM_WORKER_H_INCLUDED_ */
