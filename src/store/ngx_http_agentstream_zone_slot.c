
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The workers as the zone knows them.  A slot has an eventfd that is created
 * with the zone and inherited by all processes, so that any of them can wake
 * the slot's worker.  A worker claims a slot when it starts; the slot's
 * generation distinguishes it from the workers that had the slot before.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/eventfd.h>
#include "ngx_http_agentstream_zone_int.h"


static ngx_uint_t ngx_http_agentstream_zone_no_process(ngx_pid_t pid);
static void ngx_http_agentstream_zone_forget_slots(
    ngx_http_agentstream_zone_t *zone);


ngx_int_t
ngx_http_agentstream_zone_open_slots(ngx_http_agentstream_zone_t *zone,
    ngx_uint_t n, ngx_log_t *log)
{
    uint64_t      *stats, *marks;
    ngx_uint_t     i;
    ngx_socket_t   fd;

    for (i = 0; i < n; i++) {
        stats = ngx_slab_calloc(zone->shpool, NGX_HTTP_AGENTSTREAM_STAT_MAX
                                              * sizeof(uint64_t));
        if (stats == NULL) {
            return NGX_ERROR;
        }

        marks = ngx_slab_calloc(zone->shpool,
                                NGX_HTTP_AGENTSTREAM_MARKS * sizeof(uint64_t));
        if (marks == NULL) {
            return NGX_ERROR;
        }

        fd = eventfd(0, EFD_NONBLOCK|EFD_CLOEXEC);

        if (fd == -1) {
            ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                          "agentstream zone: eventfd() failed");
            return NGX_ERROR;
        }

        zone->sh->slots[i].stats = stats;
        zone->sh->slots[i].marks = marks;
        zone->sh->slots[i].fd = fd;
        zone->fds[zone->nfds++] = fd;
    }

    zone->sh->nslots = n;

    return NGX_OK;
}


void
ngx_http_agentstream_zone_keep(ngx_http_agentstream_zone_t *zone)
{
    ngx_http_agentstream_zone_t  *old;

    old = zone->old;

    if (old) {
        ngx_memcpy(zone->fds, old->fds, sizeof(zone->fds));
        zone->nfds = old->nfds;
        old->nfds = 0;
        zone->old = NULL;
    }
}


void
ngx_http_agentstream_zone_cleanup(void *data)
{
    ngx_http_agentstream_zone_t *zone = data;

    while (zone->nfds) {
        (void) close(zone->fds[--zone->nfds]);
    }
}


void
ngx_http_agentstream_zone_init_worker(ngx_http_agentstream_zone_t *zone)
{
    ngx_uint_t                    i;
    ngx_http_agentstream_slot_t  *slot;

    zone->self.slot = NGX_HTTP_AGENTSTREAM_NOBODY;
    zone->stats = zone->own;

    ngx_http_agentstream_zone_lock(zone);

    for (i = 0; i < zone->sh->nslots; i++) {
        slot = &zone->sh->slots[i];

        /* a worker that was killed has left its pid and its marks */

        if (slot->pid && ngx_http_agentstream_zone_no_process(slot->pid)) {
            slot->pid = 0;
        }

        if (slot->pid) {
            continue;
        }

        zone->sh->followers[i / 64] &= ~((uint64_t) 1 << (i % 64));

        if (zone->self.slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
            slot->pid = ngx_pid;
            slot->generation++;

            ngx_memzero(slot->stats, NGX_HTTP_AGENTSTREAM_STAT_COUNTERS
                                     * sizeof(uint64_t));

            zone->self.slot = i;
            zone->self.generation = slot->generation;
            zone->stats = slot->stats;
        }
    }

    ngx_http_agentstream_zone_unlock(zone);

    (void) ngx_http_agentstream_zone_notice(zone);

    ngx_http_agentstream_zone_forget_slots(zone);
}


void
ngx_http_agentstream_zone_exit_worker(ngx_http_agentstream_zone_t *zone)
{
    if (zone->self.slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
        return;
    }

    ngx_http_agentstream_zone_lock(zone);
    zone->sh->slots[zone->self.slot].pid = 0;
    ngx_http_agentstream_zone_unlock(zone);
}


ngx_uint_t
ngx_http_agentstream_zone_dead_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_owner_t *owner)
{
    if (ngx_http_agentstream_zone_gone_locked(zone, owner)) {
        return 1;
    }

    return owner->slot != NGX_HTTP_AGENTSTREAM_NOBODY
           && ngx_http_agentstream_zone_no_process(
                                          zone->sh->slots[owner->slot].pid);
}


ngx_uint_t
ngx_http_agentstream_zone_gone_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_owner_t *owner)
{
    ngx_uint_t                    i;
    ngx_http_agentstream_slot_t  *slot;

    i = owner->slot;

    if (i == NGX_HTTP_AGENTSTREAM_NOBODY) {
        /* a worker without a slot cannot be distinguished from a dead one */
        return 0;
    }

    slot = &zone->sh->slots[i];

    return slot->generation != owner->generation
           || slot->pid == 0
           || (zone->seen[i].generation == owner->generation
               && !zone->seen[i].alive);
}


ngx_int_t
ngx_http_agentstream_zone_claim_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_owner_t *owner)
{
    if (!ngx_http_agentstream_zone_dead_locked(zone, owner)) {
        return NGX_DECLINED;
    }

    *owner = zone->self;

    return NGX_OK;
}


/* without the lock: if a worker takes or leaves a slot at this moment, the
   next call will see it */

ngx_uint_t
ngx_http_agentstream_zone_notice(ngx_http_agentstream_zone_t *zone)
{
    ngx_pid_t                     pid;
    ngx_uint_t                    i, alive, died, generation;
    ngx_http_agentstream_slot_t  *slot;

    died = 0;

    for (i = 0; i < zone->sh->nslots; i++) {
        slot = &zone->sh->slots[i];

        /* both together: a new worker with the pid of nobody would be taken
           for a dead one, and its turns would be claimed */

        ngx_http_agentstream_zone_lock(zone);
        generation = slot->generation;
        pid = slot->pid;
        ngx_http_agentstream_zone_unlock(zone);

        alive = (pid && !ngx_http_agentstream_zone_no_process(pid));

        /* a new worker may have replaced others that are dead by now */

        if (generation != zone->seen[i].generation
            || (zone->seen[i].alive && !alive))
        {
            died = 1;
        }

        zone->seen[i].generation = generation;
        zone->seen[i].alive = alive;
    }

    return died;
}


void
ngx_http_agentstream_zone_mark(ngx_http_agentstream_zone_t *zone,
    ngx_uint_t slot, uint32_t hash)
{
    ngx_uint_t                    n;
    ngx_http_agentstream_slot_t  *s;

    s = &zone->sh->slots[slot];
    n = hash >> NGX_HTTP_AGENTSTREAM_MARK_SHIFT;

    /* the order matters, see zone_marked() */

    __atomic_fetch_or(&s->marks[n / 64], (uint64_t) 1 << (n % 64),
                      __ATOMIC_SEQ_CST);
    __atomic_fetch_or(&s->marked, (uint64_t) 1 << (n / 64), __ATOMIC_SEQ_CST);
}


uint64_t
ngx_http_agentstream_zone_marked(ngx_http_agentstream_zone_t *zone,
    uint64_t *marks)
{
    uint64_t                      marked, mask;
    ngx_uint_t                    i;
    ngx_http_agentstream_slot_t  *slot;

    slot = &zone->sh->slots[zone->self.slot];

    /* a mark that is set from now on causes another wake-up */

    marked = __atomic_exchange_n(&slot->marked, 0, __ATOMIC_SEQ_CST);

    for (mask = marked; mask; mask &= mask - 1) {
        i = __builtin_ctzll(mask);
        marks[i] = __atomic_exchange_n(&slot->marks[i], 0, __ATOMIC_SEQ_CST);
    }

    return marked;
}


static ngx_uint_t
ngx_http_agentstream_zone_no_process(ngx_pid_t pid)
{
    return pid != ngx_pid && kill(pid, 0) == -1 && ngx_errno == ESRCH;
}


ngx_uint_t
ngx_http_agentstream_zone_stats(ngx_http_agentstream_zone_t *zone,
    uint64_t *stats)
{
    ngx_uint_t                    i, n, workers;
    ngx_http_agentstream_slot_t  *slot;

    workers = 0;

    ngx_memzero(stats, NGX_HTTP_AGENTSTREAM_STAT_MAX * sizeof(uint64_t));

    for (i = 0; i < zone->sh->nslots; i++) {
        slot = &zone->sh->slots[i];
        n = NGX_HTTP_AGENTSTREAM_STAT_COUNTERS;

        if (slot->pid && !ngx_http_agentstream_zone_no_process(slot->pid)) {
            workers++;
            n = 0;
        }

        for ( /* void */ ; n < NGX_HTTP_AGENTSTREAM_STAT_MAX; n++) {
            stats[n] += slot->stats[n];
        }
    }

    return workers;
}


/* forgets what killed workers watched: nobody waits in a free slot, nor yet in
   our own.  The lock is held only for a few turns at a time */

static void
ngx_http_agentstream_zone_forget_slots(ngx_http_agentstream_zone_t *zone)
{
    ngx_uint_t                    i, n;
    ngx_rbtree_key_t              key;
    ngx_rbtree_node_t            *node;
    ngx_http_agentstream_node_t  *nd;

    key = 0;

    do {
        ngx_http_agentstream_zone_lock(zone);

        node = ngx_http_agentstream_zone_from_locked(zone, key);

        for (n = 0;
             node && (n < NGX_HTTP_AGENTSTREAM_WALK_MAX || node->key == key);
             n++)
        {
            nd = (ngx_http_agentstream_node_t *) node;

            for (i = 0; i < zone->sh->nslots; i++) {
                if (zone->sh->slots[i].pid == 0 || i == zone->self.slot) {
                    ngx_http_agentstream_zone_watch_locked(zone, nd, i, 0);
                }
            }

            key = node->key;
            node = ngx_rbtree_next(&zone->sh->turns, node);
        }

        key = node ? node->key : 0;

        ngx_http_agentstream_zone_unlock(zone);

    } while (key);
}


ngx_uint_t
ngx_http_agentstream_zone_watched_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    uint64_t                      mask;
    ngx_uint_t                    i;
    ngx_http_agentstream_owner_t  worker;

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64; i++) {

        for (mask = node->watchers[i]; mask; mask &= mask - 1) {
            worker.slot = i * 64 + __builtin_ctzll(mask);
            worker.generation = zone->sh->slots[worker.slot].generation;

            /* a killed worker no longer watches anything */

            if (!ngx_http_agentstream_zone_dead_locked(zone, &worker)) {
                return 1;
            }
        }
    }

    return 0;
}
