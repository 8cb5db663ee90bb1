
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 1: the workers as the zone knows them.  A slot has an eventfd that is
 * made with the zone and inherited by all processes, so that any of them can
 * wake the slot's worker.  A worker claims one when it starts; its generation
 * tells it from those that had the slot before.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/eventfd.h>
#include "ngx_http_agentstream_zone_int.h"


static void ngx_http_agentstream_zone_forget_slot_locked(
    ngx_http_agentstream_zone_t *zone, ngx_uint_t slot);


ngx_int_t
ngx_http_agentstream_zone_open_slots(ngx_http_agentstream_zone_t *zone,
    ngx_uint_t n, ngx_log_t *log)
{
    ngx_uint_t    i;
    ngx_socket_t  fd;

    for (i = 0; i < n; i++) {
        fd = eventfd(0, EFD_NONBLOCK|EFD_CLOEXEC);

        if (fd == -1) {
            ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                          "agentstream zone: eventfd() failed");
            return NGX_ERROR;
        }

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

    zone->slot = NGX_HTTP_AGENTSTREAM_NOBODY;

    ngx_http_agentstream_zone_lock(zone);

    for (i = 0; i < zone->sh->nslots; i++) {
        slot = &zone->sh->slots[i];

        /* a worker that was killed has left its pid and its marks behind */

        if (slot->pid && kill(slot->pid, 0) == -1 && ngx_errno == ESRCH) {
            slot->pid = 0;
        }

        if (slot->pid) {
            continue;
        }

        ngx_http_agentstream_zone_forget_slot_locked(zone, i);

        if (zone->slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
            slot->pid = ngx_pid;
            slot->generation++;

            zone->slot = i;
            zone->generation = slot->generation;
        }
    }

    ngx_http_agentstream_zone_unlock(zone);
}


void
ngx_http_agentstream_zone_exit_worker(ngx_http_agentstream_zone_t *zone)
{
    if (zone->slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
        return;
    }

    ngx_http_agentstream_zone_lock(zone);
    zone->sh->slots[zone->slot].pid = 0;
    ngx_http_agentstream_zone_unlock(zone);
}


ngx_uint_t
ngx_http_agentstream_zone_dead_locked(ngx_http_agentstream_zone_t *zone,
    ngx_uint_t slot, ngx_uint_t generation)
{
    ngx_http_agentstream_slot_t  *s;

    if (slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
        /* a worker without a slot cannot be told from a dead one */
        return 0;
    }

    s = &zone->sh->slots[slot];

    return s->generation != generation
           || s->pid == 0
           || (s->pid != ngx_pid && kill(s->pid, 0) == -1
               && ngx_errno == ESRCH);
}


/* a worker that was killed watches and follows nothing any more */

static void
ngx_http_agentstream_zone_forget_slot_locked(ngx_http_agentstream_zone_t *zone,
    ngx_uint_t slot)
{
    uint64_t                      bit;
    ngx_rbtree_node_t            *node, *root, *sentinel;
    ngx_http_agentstream_node_t  *nd;

    bit = (uint64_t) 1 << (slot % 64);

    zone->sh->followers[slot / 64] &= ~bit;

    root = zone->sh->turns.root;
    sentinel = zone->sh->turns.sentinel;

    if (root == sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(root, sentinel);
         node;
         node = ngx_rbtree_next(&zone->sh->turns, node))
    {
        nd = (ngx_http_agentstream_node_t *) node;
        nd->watchers[slot / 64] &= ~bit;
    }
}
