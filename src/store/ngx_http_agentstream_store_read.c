
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The verbs of everybody but a turn's owner: what is running, what comes next,
 * what there is to read.  They return copies, because a turn that does not
 * belong to the caller may be freed as soon as the lock is free.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_journal_int.h"
#include "ngx_http_agentstream_store_int.h"


ngx_int_t
ngx_http_agentstream_store_interrupt(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    ngx_uint_t                    mirror;
    ngx_http_agentstream_node_t  *node;

    mirror = 0;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_running_locked(zone, key);

    if (node) {
        node->interrupted = 1;
        mirror = node->mirror;
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (mirror && zone->remote) {
        zone->remote->interrupt(zone, key);
    }

    return node ? NGX_OK : NGX_DECLINED;
}


ngx_uint_t
ngx_http_agentstream_store_running(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *turn)
{
    ngx_http_agentstream_node_t  *node;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_running_locked(zone, key);

    if (node && turn) {
        ngx_http_agentstream_store_name_locked(node, turn);
    }

    ngx_http_agentstream_zone_unlock(zone);

    return node != NULL;
}


ngx_int_t
ngx_http_agentstream_store_asked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *id, ngx_uint_t permission, ngx_pool_t *pool,
    ngx_str_t *directory)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_node_t  *node;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_running_locked(zone, key);

    rc = node ? NGX_DECLINED : NGX_ABORT;

    if (node && ngx_http_agentstream_zone_asks_locked(node, id, permission)) {
        directory->len = node->session->directory.len;
        directory->data = ngx_pstrdup(pool, &node->session->directory);

        rc = directory->data ? NGX_OK : NGX_ERROR;
    }

    ngx_http_agentstream_zone_unlock(zone);

    return rc;
}


ngx_int_t
ngx_http_agentstream_store_next(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, uint64_t number, ngx_http_agentstream_store_turn_t *turn)
{
    ngx_http_agentstream_node_t  *node;

    turn->id.data = turn->id_data;
    turn->id.len = 0;
    turn->request_id.data = turn->request_id_data;
    turn->request_id.len = 0;

    ngx_http_agentstream_zone_lock(zone);

    turn->number = zone->sh->number;

    node = ngx_http_agentstream_zone_turn_locked(zone, key, number);

    if (node) {
        ngx_http_agentstream_store_name_locked(node, &turn->id);
        turn->number = node->number;

        if (node->request.str.len) {
            turn->request_id.len = ngx_min(node->request.str.len,
                                           sizeof(turn->request_id_data));
            ngx_memcpy(turn->request_id_data, node->request.str.data,
                       turn->request_id.len);
        }
    }

    ngx_http_agentstream_zone_unlock(zone);

    return node ? NGX_OK : NGX_DECLINED;
}


void
ngx_http_agentstream_store_find(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *turn, uint64_t seq,
    ngx_http_agentstream_store_found_t *found)
{
    ngx_http_agentstream_node_t  *node;

    found->turn.data = found->id;
    found->turn.len = 0;
    found->number = 0;
    found->seq = 1;
    found->over = 0;

    ngx_http_agentstream_zone_lock(zone);

    found->newest = zone->sh->number;

    node = turn->len ? ngx_http_agentstream_zone_find_locked(zone, turn)
                     : NULL;

    if (node
        && (node->session->sn.str.len != key->len
            || ngx_memcmp(node->session->key, key->data, key->len) != 0))
    {
        node = NULL;
    }

    if (node == NULL) {
        node = ngx_http_agentstream_zone_turn_locked(zone, key,
                                                 NGX_HTTP_AGENTSTREAM_NEWEST);

        if (node && turn->len && zone->remote
            && !zone->remote->newest(zone, key, &node->sn.str))
        {
            /* the turn that is not known here may be a newer one */
            node = NULL;
        }

    } else if (seq % NGX_HTTP_AGENTSTREAM_EPOCH
               > ngx_http_agentstream_zone_last(node,
                                          seq / NGX_HTTP_AGENTSTREAM_EPOCH)
               && seq != NGX_HTTP_AGENTSTREAM_LAST)
    {
        /* a packet that was not continued: no journal has it */
        found->seq = 0;

    } else if (node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED
               && seq % NGX_HTTP_AGENTSTREAM_EPOCH >= node->journal.shown_seq)
    {
        found->over = 1;
        found->number = node->number;

        node = ngx_http_agentstream_zone_turn_locked(zone, key, node->number);

    } else {
        found->seq = seq % NGX_HTTP_AGENTSTREAM_EPOCH + 1;
    }

    if (node) {
        ngx_http_agentstream_store_name_locked(node, &found->turn);
        found->number = node->number;
    }

    ngx_http_agentstream_zone_unlock(zone);
}


ngx_uint_t
ngx_http_agentstream_store_kept(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_uint_t *refused)
{
    ngx_http_agentstream_node_t  *node;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, turn);

    *refused = node ? node->refused : 0;

    ngx_http_agentstream_zone_unlock(zone);

    return node != NULL;
}


void
ngx_http_agentstream_store_read(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_place_t *place, u_char *buf, size_t size,
    ngx_http_agentstream_store_view_t *view)
{
    uint64_t                         last;
    ngx_http_agentstream_node_t     *node;
    ngx_http_agentstream_cursor_t   *cursor;
    ngx_http_agentstream_journal_t  *journal;

    ngx_memzero(view, sizeof(ngx_http_agentstream_store_view_t));

    cursor = &place->cursor;

    ngx_http_agentstream_zone_lock(zone);

    if (place->node == NULL || place->freed != zone->sh->freed) {
        place->node = ngx_http_agentstream_zone_find_locked(zone,
                                                            &place->turn);
        place->freed = zone->sh->freed;

        if (zone->remote) {
            /* another copy of the turn may have replaced it */
            cursor->block = NULL;
        }
    }

    node = place->node;

    if (node == NULL) {
        view->lost = 1;
        goto done;
    }

    journal = &node->journal;

    view->status = node->status;
    view->begun = (journal->shown_seq != 0);
    view->refused = (node->refused != 0);
    view->lost = (cursor->seq < journal->first_seq
                  || (place->known
                      && cursor->seq > 1 + ngx_http_agentstream_zone_last(node,
                                                             place->epoch)));

    if (view->lost) {
        goto done;
    }

    if (cursor->seq <= journal->shown_seq) {
        /* one epoch at a time, so that numbers ascend by one */

        last = ngx_http_agentstream_zone_last(node,
                             ngx_http_agentstream_zone_epoch(node,
                                                             cursor->seq));

        view->need = ngx_http_agentstream_journal_read_locked(node, cursor,
                                       ngx_min(last, journal->shown_seq),
                                       buf, size, &view->records);

        view->records.seq = ngx_http_agentstream_zone_number(node,
                                                          view->records.seq);
    }

    place->known = 1;
    place->epoch = node->epoch;

    view->all = (cursor->seq > journal->shown_seq);

    if (node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED) {
        view->ended = view->all;

    } else if (view->all) {
        view->orphan = (node->gone
                        || ngx_http_agentstream_zone_gone_locked(zone,
                                                              &node->owner));
    }

done:

    ngx_http_agentstream_zone_unlock(zone);
}


ngx_int_t
ngx_http_agentstream_store_state(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_pool_t *pool,
    ngx_http_agentstream_store_state_t *state)
{
    u_char                            *p;
    ngx_int_t                          rc;
    ngx_http_agentstream_ask_t        *ask;
    ngx_http_agentstream_node_t       *node;
    ngx_http_agentstream_store_ask_t  *copy;

    ngx_memzero(state, sizeof(ngx_http_agentstream_store_state_t));

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_turn_locked(zone, key,
                                                 NGX_HTTP_AGENTSTREAM_NEWEST);
    if (node == NULL) {
        rc = NGX_DECLINED;
        goto done;
    }

    /* one allocation, because only a few may be made under the lock */

    p = ngx_palloc(pool, node->nasks
                         * (sizeof(ngx_http_agentstream_store_ask_t)
                            + NGX_HTTP_AGENTSTREAM_ASK_ID_SIZE)
                         + sizeof(node->id) + sizeof(node->stop_reason));
    if (p == NULL) {
        rc = NGX_ERROR;
        goto done;
    }

    copy = (ngx_http_agentstream_store_ask_t *) p;
    p += node->nasks * sizeof(ngx_http_agentstream_store_ask_t);

    state->asks = copy;
    state->nasks = node->nasks;

    for (ask = node->asks; ask; ask = ask->next) {
        copy->id.data = p;
        copy->id.len = ask->id_len;
        copy->permission = ask->permission;
        copy++;

        p = ngx_cpymem(p, ask->id, ask->id_len);
    }

    state->id.data = p;
    state->id.len = node->sn.str.len;
    p = ngx_cpymem(p, node->id, node->sn.str.len);

    state->stop_reason.data = p;
    state->stop_reason.len = ngx_strlen(node->stop_reason);
    ngx_memcpy(p, node->stop_reason, state->stop_reason.len);

    state->packets = node->journal.shown_seq;
    state->running = (node->state != NGX_HTTP_AGENTSTREAM_TURN_FINISHED);

    rc = NGX_OK;

done:

    ngx_http_agentstream_zone_unlock(zone);

    return rc;
}
