
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_ZONE_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_ZONE_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone.h"


/*
 * Declarations that only the files of zone use: its trees (zone), its memory
 * and which turn gives way (zone_room), workers (zone_slot), waiting senders
 * (zone_queue), questions (zone_ask).
 */


/* number of turns that are looked at under one lock */
#define NGX_HTTP_AGENTSTREAM_WALK_MAX  128


/* time since it ended, in ms; never negative, even if another worker's clock
   is ahead */
#define ngx_http_agentstream_zone_age(node)                                   \
    ((ngx_time() > (node)->ended)                                             \
     ? (ngx_msec_t) (ngx_time() - (node)->ended) * 1000 : 0)


/* the first turn of a place, or NULL */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_first_locked(
    ngx_rbtree_t *place);

/* the first turn in the tree that is not before key, or NULL */
ngx_rbtree_node_t *ngx_http_agentstream_zone_from_locked(
    ngx_http_agentstream_zone_t *zone, ngx_rbtree_key_t key);

ngx_int_t ngx_http_agentstream_zone_open_slots(
    ngx_http_agentstream_zone_t *zone, ngx_uint_t n, ngx_log_t *log);

ngx_http_agentstream_session_t *ngx_http_agentstream_zone_session_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);
/* finds or creates it; NULL: no room */
ngx_http_agentstream_session_t *ngx_http_agentstream_zone_open_session_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);
/* frees the session if it has neither turns nor senders */
void ngx_http_agentstream_zone_release_locked(
    ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_session_t *session);


#endif /* _NGX_HTTP_AGENTSTREAM_ZONE_INT_H_INCLUDED_ */
