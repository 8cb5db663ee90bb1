
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Waking.  A watch stands for one turn that somebody in this worker
 * waits for; its bit in the turn's node asks the owner for a wake-up through
 * this worker's eventfd.  Waiters may detach, themselves or others, while they
 * are woken.  Should a wake-up be lost, a slow poll finds what it was about.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_notify.h"


#define NGX_HTTP_AGENTSTREAM_POLL  1000


struct ngx_http_agentstream_watch_s {
    ngx_str_node_t                       sn;       /* by the turn's id */
    ngx_queue_t                          queue;    /* in notify */
    ngx_queue_t                          waiters;
    ngx_queue_t                         *next;     /* to be woken; NULL: none
                                                      of them is */
    ngx_uint_t                           follow;   /* a session, not a turn */
    ngx_http_agentstream_watch_t       **owner;    /* where the turn's owner
                                                      keeps it, or NULL */
    u_char                               id[64];
};


typedef struct ngx_http_agentstream_notify_s {
    ngx_rbtree_t                         tree;
    ngx_rbtree_node_t                    sentinel;
    ngx_queue_t                          watches;
    ngx_uint_t                           nfollow;  /* of them sessions */
    ngx_connection_t                    *connection;
    ngx_event_t                          poll;
    void                               (*exit)(void);
} ngx_http_agentstream_notify_t;


static ngx_http_agentstream_watch_t *ngx_http_agentstream_notify_find(
    ngx_http_agentstream_notify_t *notify, ngx_str_t *turn);
static ngx_int_t ngx_http_agentstream_notify_add(
    ngx_http_agentstream_waiter_t *waiter, ngx_str_t *id, ngx_uint_t follow);
static void ngx_http_agentstream_notify_mark(
    ngx_http_agentstream_watch_t *watch, ngx_uint_t set);
static void ngx_http_agentstream_notify_signal(uint64_t *slots);
static void ngx_http_agentstream_notify_release(
    ngx_http_agentstream_watch_t *watch);
static void ngx_http_agentstream_notify_run(
    ngx_http_agentstream_watch_t *watch);
static void ngx_http_agentstream_notify_run_all(
    ngx_http_agentstream_notify_t *notify);
static void ngx_http_agentstream_notify_read_handler(ngx_event_t *ev);
static void ngx_http_agentstream_notify_poll_handler(ngx_event_t *ev);


ngx_int_t
ngx_http_agentstream_notify_init_worker(ngx_cycle_t *cycle, void (*exit)(void))
{
    ngx_connection_t               *c;
    ngx_http_agentstream_zone_t    *zone;
    ngx_http_agentstream_notify_t  *notify;

    notify = ngx_pcalloc(cycle->pool, sizeof(ngx_http_agentstream_notify_t));
    if (notify == NULL) {
        return NGX_ERROR;
    }

    ngx_rbtree_init(&notify->tree, &notify->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&notify->watches);

    notify->exit = exit;

    notify->poll.handler = ngx_http_agentstream_notify_poll_handler;
    notify->poll.data = notify;
    notify->poll.log = cycle->log;

    ngx_http_agentstream_worker->notify = notify;

    zone = ngx_http_agentstream_worker->zone;

    if (zone->slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "agentstream notify: more workers than when the zone "
                      "was made, packets of other workers are polled for");
        return NGX_OK;
    }

    c = ngx_get_connection(zone->sh->slots[zone->slot].fd, cycle->log);
    if (c == NULL) {
        return NGX_ERROR;
    }

    c->data = notify;
    c->log = cycle->log;

    /* "idle": told when the worker is to leave; "channel": no leaked socket */

    c->idle = 1;
    c->read->channel = 1;
    c->write->channel = 1;
    c->read->log = cycle->log;
    c->read->handler = ngx_http_agentstream_notify_read_handler;

    if (ngx_add_event(c->read, NGX_READ_EVENT, 0) == NGX_ERROR) {
        ngx_free_connection(c);
        return NGX_ERROR;
    }

    notify->connection = c;

    return NGX_OK;
}


void
ngx_http_agentstream_notify_exit_worker(void)
{
    ngx_http_agentstream_notify_t  *notify;

    notify = ngx_http_agentstream_worker->notify;

    if (notify->poll.timer_set) {
        ngx_del_timer(&notify->poll);
    }
}


ngx_int_t
ngx_http_agentstream_notify_attach(ngx_http_agentstream_waiter_t *waiter,
    ngx_str_t *turn)
{
    return ngx_http_agentstream_notify_add(waiter, turn, 0);
}


ngx_int_t
ngx_http_agentstream_notify_follow(ngx_http_agentstream_waiter_t *waiter,
    ngx_str_t *session)
{
    return ngx_http_agentstream_notify_add(waiter, session, 1);
}


static ngx_int_t
ngx_http_agentstream_notify_add(ngx_http_agentstream_waiter_t *waiter,
    ngx_str_t *id, ngx_uint_t follow)
{
    ngx_http_agentstream_watch_t   *watch;
    ngx_http_agentstream_notify_t  *notify;

    notify = ngx_http_agentstream_worker->notify;

    watch = ngx_http_agentstream_notify_find(notify, id);

    if (watch == NULL) {
        watch = ngx_calloc(sizeof(ngx_http_agentstream_watch_t),
                           ngx_cycle->log);
        if (watch == NULL) {
            return NGX_ERROR;
        }

        watch->follow = follow;
        watch->sn.str.len = ngx_min(id->len, sizeof(watch->id));
        watch->sn.str.data = watch->id;
        ngx_memcpy(watch->id, id->data, watch->sn.str.len);
        watch->sn.node.key = ngx_murmur_hash2(watch->id, watch->sn.str.len);

        ngx_rbtree_insert(&notify->tree, &watch->sn.node);
        ngx_queue_insert_tail(&notify->watches, &watch->queue);
        ngx_queue_init(&watch->waiters);

        ngx_http_agentstream_notify_mark(watch, 1);

        if (!notify->poll.timer_set) {
            ngx_add_timer(&notify->poll, NGX_HTTP_AGENTSTREAM_POLL);
        }
    }

    waiter->watch = watch;

    /* not at the tail: it is not to be woken by a wake-up that goes on */
    ngx_queue_insert_head(&watch->waiters, &waiter->queue);

    return NGX_OK;
}


void
ngx_http_agentstream_notify_detach(ngx_http_agentstream_waiter_t *waiter)
{
    ngx_http_agentstream_watch_t  *watch;

    watch = waiter->watch;

    if (watch == NULL) {
        return;
    }

    if (watch->next == &waiter->queue) {
        watch->next = ngx_queue_next(&waiter->queue);
    }

    ngx_queue_remove(&waiter->queue);
    waiter->watch = NULL;

    ngx_http_agentstream_notify_release(watch);
}


static ngx_http_agentstream_watch_t *
ngx_http_agentstream_notify_find(ngx_http_agentstream_notify_t *notify,
    ngx_str_t *turn)
{
    return (ngx_http_agentstream_watch_t *)
               ngx_str_rbtree_lookup(&notify->tree, turn,
                                     ngx_murmur_hash2(turn->data, turn->len));
}


static void
ngx_http_agentstream_notify_mark(ngx_http_agentstream_watch_t *watch,
    ngx_uint_t set)
{
    uint64_t                        bit, *followers;
    ngx_http_agentstream_node_t    *node;
    ngx_http_agentstream_zone_t    *zone;
    ngx_http_agentstream_notify_t  *notify;

    zone = ngx_http_agentstream_worker->zone;
    notify = ngx_http_agentstream_worker->notify;

    if (watch->follow) {
        notify->nfollow += set ? 1 : -1;
        set = (notify->nfollow != 0);
    }

    if (zone->slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
        return;
    }

    ngx_http_agentstream_zone_lock(zone);

    if (watch->follow) {
        bit = (uint64_t) 1 << (zone->slot % 64);
        followers = &zone->sh->followers[zone->slot / 64];
        *followers = set ? (*followers | bit) : (*followers & ~bit);

    } else {
        node = ngx_http_agentstream_zone_find_locked(zone, &watch->sn.str);

        if (node) {
            node->seen_at = ngx_current_msec;
            ngx_http_agentstream_zone_watch_locked(zone, node, zone->slot,
                                                   set);
        }
    }

    ngx_http_agentstream_zone_unlock(zone);
}


static void
ngx_http_agentstream_notify_release(ngx_http_agentstream_watch_t *watch)
{
    ngx_http_agentstream_notify_t  *notify;

    if (watch->next || !ngx_queue_empty(&watch->waiters)) {
        return;
    }

    notify = ngx_http_agentstream_worker->notify;

    if (watch->owner) {
        *watch->owner = NULL;
    }

    ngx_http_agentstream_notify_mark(watch, 0);

    ngx_rbtree_delete(&notify->tree, &watch->sn.node);
    ngx_queue_remove(&watch->queue);
    ngx_free(watch);

    if (notify->tree.root == notify->tree.sentinel && notify->poll.timer_set) {
        /* a worker that is to leave does not wait for it */
        ngx_del_timer(&notify->poll);
    }
}


void
ngx_http_agentstream_notify_wake(ngx_str_t *turn, uint64_t *watchers,
    ngx_http_agentstream_watch_t **watch)
{
    ngx_http_agentstream_notify_signal(watchers);

    if (*watch == NULL) {
        *watch = ngx_http_agentstream_notify_find(
                                    ngx_http_agentstream_worker->notify, turn);
        if (*watch == NULL) {
            return;
        }

        (*watch)->owner = watch;
    }

    ngx_http_agentstream_notify_run(*watch);
}


void
ngx_http_agentstream_notify_forget(ngx_http_agentstream_watch_t **watch)
{
    if (*watch) {
        (*watch)->owner = NULL;
        *watch = NULL;
    }
}


void
ngx_http_agentstream_notify_announce(ngx_str_t *session)
{
    ngx_http_agentstream_watch_t  *watch;

    ngx_http_agentstream_notify_signal(
                            ngx_http_agentstream_worker->zone->sh->followers);

    watch = ngx_http_agentstream_notify_find(
                                 ngx_http_agentstream_worker->notify, session);
    if (watch) {
        ngx_http_agentstream_notify_run(watch);
    }
}


void
ngx_http_agentstream_notify_all(void)
{
    ngx_http_agentstream_notify_run_all(ngx_http_agentstream_worker->notify);
}


static void
ngx_http_agentstream_notify_signal(uint64_t *slots)
{
    uint64_t                      one, mask;
    ngx_uint_t                    i, slot;
    ngx_http_agentstream_zone_t  *zone;

    one = 1;
    zone = ngx_http_agentstream_worker->zone;

    for (i = 0; i * 64 < zone->sh->nslots; i++) {

        for (mask = slots[i]; mask; mask &= mask - 1) {
            slot = i * 64 + __builtin_ctzll(mask);

            if (slot == zone->slot) {
                continue;
            }

            if (write(zone->sh->slots[slot].fd, &one, sizeof(one)) == -1) {
                ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, ngx_errno,
                              "agentstream notify: write() to eventfd failed");
            }
        }
    }
}


static void
ngx_http_agentstream_notify_run(ngx_http_agentstream_watch_t *watch)
{
    ngx_queue_t                    *q;
    ngx_http_agentstream_waiter_t  *waiter;

    if (watch->next) {
        return;
    }

    watch->next = ngx_queue_head(&watch->waiters);

    while (watch->next != ngx_queue_sentinel(&watch->waiters)) {
        q = watch->next;
        watch->next = ngx_queue_next(q);

        waiter = ngx_queue_data(q, ngx_http_agentstream_waiter_t, queue);
        waiter->handler(waiter->data);
    }

    watch->next = NULL;

    ngx_http_agentstream_notify_release(watch);
}


static void
ngx_http_agentstream_notify_run_all(ngx_http_agentstream_notify_t *notify)
{
    ngx_queue_t                    todo, *q;
    ngx_http_agentstream_watch_t  *watch;

    if (ngx_queue_empty(&notify->watches)) {
        return;
    }

    /* watches may come and go meanwhile, each one is taken once */

    ngx_queue_init(&todo);
    ngx_queue_add(&todo, &notify->watches);
    ngx_queue_init(&notify->watches);

    while (!ngx_queue_empty(&todo)) {
        q = ngx_queue_head(&todo);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&notify->watches, q);

        watch = ngx_queue_data(q, ngx_http_agentstream_watch_t, queue);
        ngx_http_agentstream_notify_run(watch);
    }
}


static void
ngx_http_agentstream_notify_read_handler(ngx_event_t *ev)
{
    uint64_t                        n;
    ngx_connection_t               *c;
    ngx_http_agentstream_notify_t  *notify;

    c = ev->data;
    notify = c->data;

    if (c->close) {
        c->close = 0;
        c->idle = 0;
        notify->exit();
        return;
    }

    if (read(c->fd, &n, sizeof(n)) == -1) {
        return;
    }

    ngx_http_agentstream_notify_run_all(notify);
}


static void
ngx_http_agentstream_notify_poll_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_notify_t  *notify;

    notify = ev->data;

    ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_POLL);

    ngx_http_agentstream_notify_run_all(notify);
}
