
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_HUB_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_HUB_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_opencode.h"


/*
 * One event stream of OpenCode per server, prefix, route and
 * directory, shared by all turns there.  It drains whatever its subscribers
 * do, and hands each event only to the one whose session it is of.
 */


typedef struct ngx_http_agentstream_hub_s  ngx_http_agentstream_hub_t;


/* one session whose events a subscriber wants; memory is the subscriber's */

typedef struct ngx_http_agentstream_route_s  ngx_http_agentstream_route_t;

struct ngx_http_agentstream_route_s {
    ngx_http_agentstream_route_t        *next;     /* in its bucket */
    uint32_t                             hash;
    ngx_str_t                            session;
    struct ngx_http_agentstream_sub_s   *sub;      /* NULL: not routed */
};


/* part of the subscriber, who closes it before it goes.  No handler may close
   another subscription than its own. */

typedef struct ngx_http_agentstream_sub_s {
    ngx_queue_t                          queue;
    ngx_http_agentstream_hub_t          *hub;      /* NULL: closed */

    /* the stream is open: no event is missed from now on; called again after
       each break, with what happened meanwhile lost */
    void                               (*ready)(void *data);
    void                               (*event)(void *data,
                                           ngx_http_agentstream_event_t *ev);
    /* an event was skipped: something of somebody was lost, the stream goes
       on */
    void                               (*skipped)(void *data);
    /* the stream broke or could not be opened; it is tried again */
    void                               (*broken)(void *data,
                                           ngx_uint_t status);
    void                                *data;
    unsigned                             announced:1;
} ngx_http_agentstream_sub_t;


ngx_int_t ngx_http_agentstream_hub_init_worker(ngx_cycle_t *cycle);

/* the worker is to leave: streams without subscribers close now, others after
   their last one */
void ngx_http_agentstream_hub_exit(void);

/* subscribe to the stream of (conf's server and prefix, route, directory);
   ready is called later, from an event, also when the stream is open */
ngx_int_t ngx_http_agentstream_hub_open(ngx_http_agentstream_sub_t *sub,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *directory);
void ngx_http_agentstream_hub_close(ngx_http_agentstream_sub_t *sub);

/* the events of one more session; name stays where it is while routed */
void ngx_http_agentstream_hub_route(ngx_http_agentstream_sub_t *sub,
    ngx_http_agentstream_route_t *route, ngx_str_t *session);
void ngx_http_agentstream_hub_unroute(ngx_http_agentstream_route_t *route);


#endif /* _NGX_HTTP_AGENTSTREAM_HUB_H_INCLUDED_ */
