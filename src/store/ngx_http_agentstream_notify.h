
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_NOTIFY_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_NOTIFY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_store.h"


/*
 * Who waits in this worker for a turn's packets, or for events in a session,
 * and how they are woken by this or another worker.  A wake-up only says
 * "look", not what there is to see.
 */


typedef struct ngx_http_agentstream_watch_s  ngx_http_agentstream_watch_t;

typedef void (*ngx_http_agentstream_notify_pt)(void *data);


/* part of its owner, who detaches it before it is freed */

typedef struct {
    ngx_queue_t                          queue;
    ngx_http_agentstream_watch_t        *watch;    /* NULL: detached */
    ngx_http_agentstream_notify_pt       handler;
    void                                *data;
} ngx_http_agentstream_waiter_t;


/* exit is called once, when the worker is told to exit */
ngx_int_t ngx_http_agentstream_notify_init_worker(ngx_cycle_t *cycle,
    void (*exit)(void));
void ngx_http_agentstream_notify_exit_worker(void);

/* must be called while the zone is not locked */
ngx_int_t ngx_http_agentstream_notify_attach(
    ngx_http_agentstream_waiter_t *waiter, ngx_str_t *turn);
ngx_int_t ngx_http_agentstream_notify_follow(
    ngx_http_agentstream_waiter_t *waiter, ngx_str_t *session);
void ngx_http_agentstream_notify_detach(ngx_http_agentstream_waiter_t *waiter);

/*
 * The turn has new packets or a new state.  Called by its owner from a posted
 * event, because waiters run at once; watchers are those in the turn's node.
 * The owner keeps the watch, NULL at first, so that it need not be found each
 * time, and forgets it before the owner is freed.
 */
void ngx_http_agentstream_notify_wake(ngx_str_t *turn, uint64_t *watchers,
    ngx_http_agentstream_watch_t **watch);
void ngx_http_agentstream_notify_forget(ngx_http_agentstream_watch_t **watch);

/* the same when a turn of the session began or ended */
void ngx_http_agentstream_notify_announce(ngx_str_t *session);

/* the same, but from anywhere: the waiters of this worker run later, too */
void ngx_http_agentstream_notify_tell(ngx_str_t *session);

/* wakes all waiters, because the worker is to exit */
void ngx_http_agentstream_notify_all(void);


#endif /* _NGX_HTTP_AGENTSTREAM_NOTIFY_H_INCLUDED_ */
