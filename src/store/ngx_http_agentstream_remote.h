
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REMOTE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REMOTE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_redis.h"
#include "ngx_http_agentstream_store.h"


/*
 * The store of several machines: what they agree on in Redis.  The zone stays
 * what workers read and write; here its turns are copied to Redis, those of
 * other machines are copied from there, and Redis decides what more than one
 * machine could want: to begin a turn, or to take one over.
 */


/* after the zone has a slot for this worker; without "agentstream_store"
   nothing is done */
ngx_int_t ngx_http_agentstream_remote_init_worker(ngx_cycle_t *cycle,
    ngx_http_agentstream_main_conf_t *amcf);
void ngx_http_agentstream_remote_exit_worker(
    ngx_http_agentstream_zone_t *zone);


#endif /* _NGX_HTTP_AGENTSTREAM_REMOTE_H_INCLUDED_ */
