
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The verbs of a turn's owner.  The owner reads without the lock what only the
 * owner writes, and also a mark that others set and nobody clears.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_journal_int.h"
#include "ngx_http_agentstream_store_int.h"


#define ngx_http_agentstream_store_changed(zone, node)                        \
    if ((zone)->remote) {                                                     \
        (zone)->remote->change(zone, node);                                   \
    }


void
ngx_http_agentstream_store_id(ngx_http_agentstream_node_t *node, ngx_str_t *id)
{
    *id = node->sn.str;
}


uint64_t
ngx_http_agentstream_store_last(ngx_http_agentstream_node_t *node)
{
    return ngx_http_agentstream_zone_number(node, node->journal.last_seq);
}


ngx_uint_t
ngx_http_agentstream_store_whole(ngx_http_agentstream_node_t *node)
{
    return node->journal.first_seq == 1;
}


void
ngx_http_agentstream_store_settings(ngx_http_agentstream_node_t *node,
    ngx_uint_t *packets, ngx_uint_t *tool_kinds)
{
    *packets = node->packets;
    *tool_kinds = node->tool_kinds;
}


void
ngx_http_agentstream_store_status(ngx_http_agentstream_node_t *node,
    ngx_uint_t status)
{
    node->status = status;
}


ngx_int_t
ngx_http_agentstream_store_prompting(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later)
{
    node->prompted = 1;

    if (zone->remote) {
        return zone->remote->prompting(zone, node, later);
    }

    return ngx_http_agentstream_store_later(zone, later, NGX_OK, node,
                                            NGX_HTTP_AGENTSTREAM_LATER_PROMPT);
}


ngx_uint_t
ngx_http_agentstream_store_mine(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    return zone->remote == NULL || zone->remote->mine(zone, node);
}


ngx_uint_t
ngx_http_agentstream_store_prompted(ngx_http_agentstream_node_t *node)
{
    return node->prompted;
}


void
ngx_http_agentstream_store_stop(ngx_http_agentstream_node_t *node)
{
    node->interrupted = 1;
}


ngx_uint_t
ngx_http_agentstream_store_interrupted(ngx_http_agentstream_node_t *node)
{
    return node->interrupted;
}


ngx_uint_t
ngx_http_agentstream_store_senders(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_uint_t  senders;

    ngx_http_agentstream_zone_lock(zone);
    senders = node->senders;
    ngx_http_agentstream_zone_unlock(zone);

    return senders;
}


ngx_uint_t
ngx_http_agentstream_store_watched(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_msec_t *seen_at)
{
    ngx_uint_t  watched;

    ngx_http_agentstream_zone_lock(zone);

    watched = (node->released
               || ngx_http_agentstream_zone_watched_locked(zone, node));
    *seen_at = node->seen_at;

    ngx_http_agentstream_zone_unlock(zone);

    if (zone->remote) {
        watched = zone->remote->viewed(zone, node, watched);
    }

    return watched;
}


/* read without the lock: a worker sets its bit before its reader looks, both
   under the lock, so an owner that publishes after that look sees the bit */

uint64_t *
ngx_http_agentstream_store_watchers(ngx_http_agentstream_node_t *node)
{
    return node->watchers;
}


void
ngx_http_agentstream_store_readers(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, uint64_t *watchers)
{
    ngx_http_agentstream_node_t  *node;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, turn);

    if (node) {
        ngx_memcpy(watchers, node->watchers, sizeof(node->watchers));

    } else {
        ngx_memzero(watchers, sizeof(node->watchers));
    }

    ngx_http_agentstream_zone_unlock(zone);
}


ngx_int_t
ngx_http_agentstream_store_directory(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *directory)
{
    ngx_int_t  rc;

    ngx_http_agentstream_zone_lock(zone);
    rc = ngx_http_agentstream_zone_directory_locked(zone, node, directory);
    ngx_http_agentstream_zone_unlock(zone);

    ngx_http_agentstream_store_changed(zone, node);

    return rc;
}


ngx_uint_t
ngx_http_agentstream_store_located(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_pool_t *pool, ngx_str_t *directory)
{
    ngx_str_t  *known;

    ngx_http_agentstream_zone_lock(zone);

    known = &node->session->directory;

    directory->data = known->len ? ngx_pstrdup(pool, known) : NULL;
    directory->len = directory->data ? known->len : 0;

    ngx_http_agentstream_zone_unlock(zone);

    return directory->len != 0;
}


ngx_int_t
ngx_http_agentstream_store_show(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later)
{
    /* only the owner moves the one, and the answers to the owner the other */

    if (node->journal.shown_seq == node->journal.last_seq) {
        return NGX_OK;
    }

    if (ngx_http_agentstream_store_pending(later)) {
        return NGX_AGAIN;
    }

    if (zone->remote) {
        return zone->remote->show(zone, node, later);
    }

    return ngx_http_agentstream_store_later(zone, later, NGX_OK, node,
                                            NGX_HTTP_AGENTSTREAM_LATER_SHOW);
}


void
ngx_http_agentstream_store_check(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later)
{
    if (zone->remote && !ngx_http_agentstream_store_pending(later)) {
        zone->remote->check(zone, node, later);
    }
}


void
ngx_http_agentstream_store_shown(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_zone_lock(zone);
    ngx_http_agentstream_journal_show_locked(node, node->journal.last_seq);
    ngx_http_agentstream_zone_unlock(zone);
}


ngx_int_t
ngx_http_agentstream_store_ask(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *id, ngx_uint_t permission,
    ngx_http_agentstream_later_t *later)
{
    ngx_int_t  rc;

    ngx_http_agentstream_zone_lock(zone);
    rc = ngx_http_agentstream_zone_ask_locked(zone, node, id, permission);
    ngx_http_agentstream_zone_unlock(zone);

    if (zone->remote) {
        /* it is stored together with the packet that asks */
        ngx_http_agentstream_store_changed(zone, node);
        return rc;
    }

    return ngx_http_agentstream_store_later(zone, later, rc, node,
                                            NGX_HTTP_AGENTSTREAM_LATER_ASK);
}


void
ngx_http_agentstream_store_answered(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *id)
{
    ngx_http_agentstream_zone_lock(zone);
    ngx_http_agentstream_zone_answer_locked(zone, node, id);
    ngx_http_agentstream_zone_unlock(zone);

    ngx_http_agentstream_store_changed(zone, node);
}


void
ngx_http_agentstream_store_refuse(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_zone_lock(zone);
    ngx_http_agentstream_zone_refuse_locked(zone, node);
    ngx_http_agentstream_zone_unlock(zone);

    ngx_http_agentstream_store_changed(zone, node);
}
