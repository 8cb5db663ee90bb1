
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Wake-ups.  A watch is one turn or session that somebody in this worker waits
 * for.  Its bit in the turn's node asks the owner for a wake-up through this
 * worker's eventfd.  Waiters may detach, themselves or others, while they are
 * woken.
 *
 * A wake-up names its turn or session by a mark, which is a range of hashes.
 * The tree of watches is sorted by hash, so a mark is also a range of the
 * tree.  The poll only asks whether a worker has died, which causes no
 * wake-up; if one has, all waiters look.  In addition a sixteenth of all
 * watches looks each second, so that anything that could not be done in time,
 * for lack of memory, is tried again.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_zone.h"


#define NGX_HTTP_AGENTSTREAM_POLL         1000

/* number of polls in which each watch looks once */
#define NGX_HTTP_AGENTSTREAM_POLL_ROUNDS  16


struct ngx_http_agentstream_watch_s {
    ngx_str_node_t                       sn;       /* by the turn's id */
    ngx_queue_t                          queue;    /* in notify */
    ngx_queue_t                          waiters;
    ngx_queue_t                         *next;     /* the next waiter to be
                                                      woken; NULL: none of
                                                      them */
    ngx_uint_t                           follow;   /* a session, not a turn */
    ngx_http_agentstream_watch_t       **owner;    /* where the turn's owner
                                                      keeps the watch, or
                                                      NULL */
    u_char                               id[1];
};


typedef struct ngx_http_agentstream_notify_s {
    ngx_rbtree_t                         tree;
    ngx_rbtree_node_t                    sentinel;
    ngx_queue_t                          watches;
    ngx_uint_t                           nfollow;  /* number of watches that
                                                      are sessions */
    ngx_connection_t                    *connection;
    ngx_event_t                          poll;
    ngx_uint_t                           round;
    void                               (*exit)(void);
} ngx_http_agentstream_notify_t;


static ngx_http_agentstream_watch_t *ngx_http_agentstream_notify_find(
    ngx_http_agentstream_notify_t *notify, ngx_str_t *turn);
static ngx_int_t ngx_http_agentstream_notify_add(
    ngx_http_agentstream_waiter_t *waiter, ngx_str_t *id, ngx_uint_t follow);
static void ngx_http_agentstream_notify_mark(
    ngx_http_agentstream_watch_t *watch, ngx_uint_t set);
static void ngx_http_agentstream_notify_signal(uint64_t *slots,
    ngx_str_t *id, ngx_uint_t self);
static void ngx_http_agentstream_notify_release(
    ngx_http_agentstream_watch_t *watch);
static void ngx_http_agentstream_notify_run(
    ngx_http_agentstream_watch_t *watch);
static void ngx_http_agentstream_notify_take(
    ngx_http_agentstream_notify_t *notify, ngx_uint_t mark, ngx_uint_t n,
    ngx_queue_t *todo);
static void ngx_http_agentstream_notify_run_all(
    ngx_http_agentstream_notify_t *notify, ngx_queue_t *todo);
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

    if (zone->self.slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "agentstream notify: more workers than when the zone "
                      "was made, packets of other workers are polled for");
        return NGX_OK;
    }

    c = ngx_get_connection(zone->sh->slots[zone->self.slot].fd, cycle->log);
    if (c == NULL) {
        return NGX_ERROR;
    }

    c->data = notify;
    c->log = cycle->log;

    /* "idle": nginx tells it when the worker is to exit; "channel": not
       reported as a leaked socket */

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
        watch = ngx_calloc(sizeof(ngx_http_agentstream_watch_t) + id->len,
                           ngx_cycle->log);
        if (watch == NULL) {
            return NGX_ERROR;
        }

        watch->follow = follow;
        watch->sn.str.len = id->len;
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

    /* not at the tail, so that a wake-up in progress does not wake it */
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

    if (zone->self.slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
        return;
    }

    ngx_http_agentstream_zone_lock(zone);

    if (watch->follow) {
        bit = (uint64_t) 1 << (zone->self.slot % 64);
        followers = &zone->sh->followers[zone->self.slot / 64];
        *followers = set ? (*followers | bit) : (*followers & ~bit);

    } else {
        node = ngx_http_agentstream_zone_find_locked(zone, &watch->sn.str);

        if (node) {
            node->seen_at = ngx_current_msec;
            ngx_http_agentstream_zone_watch_locked(zone, node, zone->self.slot,
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
        /* a worker that is to exit must not wait for the timer */
        ngx_del_timer(&notify->poll);
    }
}


void
ngx_http_agentstream_notify_wake(ngx_str_t *turn, uint64_t *watchers,
    ngx_http_agentstream_watch_t **watch)
{
    ngx_http_agentstream_notify_signal(watchers, turn, 0);

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
                            ngx_http_agentstream_worker->zone->sh->followers,
                            session, 0);

    watch = ngx_http_agentstream_notify_find(
                                 ngx_http_agentstream_worker->notify, session);
    if (watch) {
        ngx_http_agentstream_notify_run(watch);
    }
}


void
ngx_http_agentstream_notify_tell(ngx_str_t *session)
{
    ngx_http_agentstream_notify_signal(
                            ngx_http_agentstream_worker->zone->sh->followers,
                            session, 1);
}


void
ngx_http_agentstream_notify_all(void)
{
    ngx_queue_t                     todo;
    ngx_http_agentstream_notify_t  *notify;

    notify = ngx_http_agentstream_worker->notify;

    ngx_queue_init(&todo);
    ngx_http_agentstream_notify_take(notify, 0,
                                     NGX_HTTP_AGENTSTREAM_MARKS * 64, &todo);
    ngx_http_agentstream_notify_run_all(notify, &todo);
}


/* the id of the watches concerned; self: this worker is woken, too.  The mark
   is set before the worker is woken, so that it finds the mark */

static void
ngx_http_agentstream_notify_signal(uint64_t *slots, ngx_str_t *id,
    ngx_uint_t self)
{
    uint32_t                      hash;
    uint64_t                      one, mask;
    ngx_uint_t                    i, slot;
    ngx_http_agentstream_zone_t  *zone;

    one = 1;
    hash = 0;
    zone = ngx_http_agentstream_worker->zone;

    for (i = 0; i * 64 < zone->sh->nslots; i++) {

        for (mask = slots[i]; mask; mask &= mask - 1) {
            slot = i * 64 + __builtin_ctzll(mask);

            if (slot == zone->self.slot && !self) {
                continue;
            }

            if (hash == 0) {
                hash = ngx_murmur_hash2(id->data, id->len);
            }

            ngx_http_agentstream_zone_mark(zone, slot, hash);

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


/* moves the watches of n marks to the queue */

static void
ngx_http_agentstream_notify_take(ngx_http_agentstream_notify_t *notify,
    ngx_uint_t mark, ngx_uint_t n, ngx_queue_t *todo)
{
    uint64_t                       end;
    ngx_rbtree_key_t               key;
    ngx_rbtree_node_t             *node, *found, *sentinel;
    ngx_http_agentstream_watch_t  *watch;

    key = (ngx_rbtree_key_t) mark << NGX_HTTP_AGENTSTREAM_MARK_SHIFT;
    end = (uint64_t) (mark + n) << NGX_HTTP_AGENTSTREAM_MARK_SHIFT;

    found = NULL;
    node = notify->tree.root;
    sentinel = notify->tree.sentinel;

    while (node != sentinel) {

        if (node->key >= key) {
            found = node;
            node = node->left;

        } else {
            node = node->right;
        }
    }

    for ( /* void */ ;
          found && found->key < end;
          found = ngx_rbtree_next(&notify->tree, found))
    {
        watch = (ngx_http_agentstream_watch_t *) found;

        ngx_queue_remove(&watch->queue);
        ngx_queue_insert_tail(todo, &watch->queue);
    }
}


static void
ngx_http_agentstream_notify_run_all(ngx_http_agentstream_notify_t *notify,
    ngx_queue_t *todo)
{
    ngx_queue_t                   *q;
    ngx_http_agentstream_watch_t  *watch;

    /* watches may be added and removed in the meantime; each one is taken
       once */

    while (!ngx_queue_empty(todo)) {
        q = ngx_queue_head(todo);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&notify->watches, q);

        watch = ngx_queue_data(q, ngx_http_agentstream_watch_t, queue);
        ngx_http_agentstream_notify_run(watch);
    }
}


static void
ngx_http_agentstream_notify_read_handler(ngx_event_t *ev)
{
    uint64_t                        n, words, mask;
    uint64_t                        marks[NGX_HTTP_AGENTSTREAM_MARKS];
    ngx_uint_t                      i;
    ngx_queue_t                     todo;
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

    ngx_queue_init(&todo);

    words = ngx_http_agentstream_zone_marked(ngx_http_agentstream_worker->zone,
                                             marks);

    for ( /* void */ ; words; words &= words - 1) {
        i = __builtin_ctzll(words);

        for (mask = marks[i]; mask; mask &= mask - 1) {
            ngx_http_agentstream_notify_take(notify,
                                             i * 64 + __builtin_ctzll(mask), 1,
                                             &todo);
        }
    }

    ngx_http_agentstream_notify_run_all(notify, &todo);
}


static void
ngx_http_agentstream_notify_poll_handler(ngx_event_t *ev)
{
    ngx_uint_t                      n, died;
    ngx_queue_t                     todo;
    ngx_http_agentstream_zone_t    *zone;
    ngx_http_agentstream_notify_t  *notify;

    notify = ev->data;
    zone = ngx_http_agentstream_worker->zone;

    ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_POLL);

    died = ngx_http_agentstream_zone_notice(zone);

    if (died || zone->self.slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
        ngx_http_agentstream_notify_all();
        return;
    }

    ngx_queue_init(&todo);

    n = NGX_HTTP_AGENTSTREAM_MARKS * 64 / NGX_HTTP_AGENTSTREAM_POLL_ROUNDS;

    ngx_http_agentstream_notify_take(notify, notify->round * n, n, &todo);

    notify->round = (notify->round + 1) % NGX_HTTP_AGENTSTREAM_POLL_ROUNDS;

    ngx_http_agentstream_notify_run_all(notify, &todo);
}
