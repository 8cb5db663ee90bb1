
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
 * A hub: one event stream of OpenCode for each server, prefix, route and
 * directory, shared by all turns there.  It always reads, no matter how fast
 * its subscribers are, and hands each event only to the subscriber that wants
 * the events of its session.
 */


typedef struct ngx_http_agentstream_hub_s  ngx_http_agentstream_hub_t;


/* one session whose events a subscriber wants; the memory belongs to the
   subscriber */

typedef struct ngx_http_agentstream_hub_session_s
    ngx_http_agentstream_hub_session_t;

struct ngx_http_agentstream_hub_session_s {
    ngx_http_agentstream_hub_session_t  *next;     /* in its bucket */
    uint32_t                             hash;
    ngx_str_t                            session;
    struct ngx_http_agentstream_sub_s   *sub;      /* NULL: not routed */
};


/* a subscription; it is part of the subscriber, who closes it before it is
   freed.  A handler must not close another subscription than its own. */

typedef struct ngx_http_agentstream_sub_s {
    ngx_queue_t                          queue;
    ngx_http_agentstream_hub_t          *hub;      /* NULL: closed */

    /* the stream is open, and from now on no event is missed; called again
       after each break, when the events of the meantime are lost.  The two
       handlers below are not called before it */
    void                               (*ready)(void *data);
    void                               (*event)(void *data,
                                           ngx_http_agentstream_event_t *ev);
    /* an event was skipped, which may have been one for this subscriber; the
       stream continues */
    void                               (*skipped)(void *data);
    /* the stream broke or could not be opened; the hub tries again */
    void                               (*broken)(void *data,
                                           ngx_uint_t status);
    void                                *data;
    unsigned                             announced:1;  /* ready was called
                                                          since the stream was
                                                          opened */
} ngx_http_agentstream_sub_t;


ngx_int_t ngx_http_agentstream_hub_init_worker(ngx_cycle_t *cycle);

/* called when the worker is to exit: streams without subscribers are closed
   now, the others after their last subscriber has left */
void ngx_http_agentstream_hub_exit(void);

/* whether that stream is open, so that OpenCode can be reached */
ngx_uint_t ngx_http_agentstream_hub_is_open(
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *directory);

/* subscribes to the stream of (conf's server and prefix, route, directory);
   ready is called later, from an event, even if the stream is already open */
ngx_int_t ngx_http_agentstream_hub_open(ngx_http_agentstream_sub_t *sub,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *directory);
void ngx_http_agentstream_hub_close(ngx_http_agentstream_sub_t *sub);

/* asks for the events of one more session; the name must stay in place as long
   as it is routed */
void ngx_http_agentstream_hub_add(ngx_http_agentstream_sub_t *sub,
    ngx_http_agentstream_hub_session_t *entry, ngx_str_t *session);
void ngx_http_agentstream_hub_remove(
    ngx_http_agentstream_hub_session_t *entry);

/*
 * Whether OpenCode is not working in the session, as far as its events tell:
 * since OpenCode has said which sessions are busy there was no event of this
 * one.  A subscriber whose stream is open tells when it asks, and gives the
 * answer, or NULL.
 */
ngx_uint_t ngx_http_agentstream_hub_quiet(ngx_http_agentstream_sub_t *sub,
    ngx_str_t *session);
void ngx_http_agentstream_hub_asks(ngx_http_agentstream_sub_t *sub);
void ngx_http_agentstream_hub_answered(ngx_http_agentstream_sub_t *sub,
    ngx_str_t *answer);


#endif /* _NGX_HTTP_AGENTSTREAM_HUB_H_INCLUDED_ */
