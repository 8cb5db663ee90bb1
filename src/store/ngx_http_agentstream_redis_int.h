
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REDIS_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REDIS_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include "ngx_http_agentstream_redis.h"


/*
 * Declarations that only the files of redis use: commands and answers (redis),
 * how a connection is opened (redis_connect), where the server is
 * (redis_find), what answers say (redis_reply).
 */


/* connecting, and answers */
#define NGX_HTTP_AGENTSTREAM_REDIS_TIMEOUT    3000


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* a timer's handler */
void ngx_http_agentstream_redis_connect(ngx_event_t *ev);

void ngx_http_agentstream_redis_read_handler(ngx_event_t *ev);
void ngx_http_agentstream_redis_write_handler(ngx_event_t *ev);

/* NULL: no memory.  The pool must outlive it */
struct redisReader *ngx_http_agentstream_redis_reader(ngx_pool_t *pool);

/* it can be written to */
void ngx_http_agentstream_redis_connected(ngx_connection_t *c);

/* a connection cannot use the server */
void ngx_http_agentstream_redis_find_doubt(
    ngx_http_agentstream_redis_find_t *find);

/* closes it, because there is a better server */
void ngx_http_agentstream_redis_move(ngx_http_agentstream_redis_t *redis);

/* like redis_command(), also while the connection is opened */
ngx_int_t ngx_http_agentstream_redis_add(
    ngx_http_agentstream_redis_t *redis, ngx_uint_t argc, ngx_str_t *argv,
    ngx_http_agentstream_redis_pt handler, void *data);

#endif


#endif /* _NGX_HTTP_AGENTSTREAM_REDIS_INT_H_INCLUDED_ */
