
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_store.h"
#include "ngx_http_agentstream_zone.h"


/*
 * Declarations that only the files of store use: verbs that begin and end
 * something (store), verbs of a turn's owner (store_owner), verbs of everybody
 * else (store_read), and answers that are given later (store_later).
 */


typedef enum {
    NGX_HTTP_AGENTSTREAM_LATER_CREATE = 0,
    NGX_HTTP_AGENTSTREAM_LATER_CLAIM,
    NGX_HTTP_AGENTSTREAM_LATER_PROMPT,
    NGX_HTTP_AGENTSTREAM_LATER_SHOW,
    NGX_HTTP_AGENTSTREAM_LATER_ASK,
    NGX_HTTP_AGENTSTREAM_LATER_FINISH
} ngx_http_agentstream_later_e;


/* the id of a turn, to where there is room for it */
#define ngx_http_agentstream_store_name_locked(node, name)                    \
    (name)->len = (node)->sn.str.len;                                         \
    ngx_memcpy((name)->data, (node)->sn.str.data, (node)->sn.str.len)


/* the work of store_show() and store_finish(), when the answer is known */
void ngx_http_agentstream_store_shown(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);
void ngx_http_agentstream_store_finished(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_store_end_t *end);


#if (NGX_HTTP_AGENTSTREAM_LATER)

void ngx_http_agentstream_store_open_later(ngx_http_agentstream_zone_t *zone);
void ngx_http_agentstream_store_init_later(ngx_http_agentstream_zone_t *zone);

/* the verb has done its work, with the result rc, or does it when it is
   answered (SHOW, FINISH): the caller is told later */
ngx_int_t ngx_http_agentstream_store_later(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_later_t *later, ngx_int_t rc,
    ngx_http_agentstream_node_t *node, ngx_uint_t verb);

#else

#define ngx_http_agentstream_store_open_later(zone)
#define ngx_http_agentstream_store_init_later(zone)
#define ngx_http_agentstream_store_later(zone, later, rc, node, verb)  (rc)

#endif


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_INT_H_INCLUDED_ */
