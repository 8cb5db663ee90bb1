
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The shared zone.  Two trees: sessions by key, and turns by id.  A running
 * turn belongs to its owner and is never freed by anybody else.  A finished
 * turn may be freed whenever the lock is free, so nobody keeps a pointer to
 * it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone_int.h"


/* number of expired turns that are freed under one lock */
#define NGX_HTTP_AGENTSTREAM_EXPIRE_MAX   32

/* between the numbers of two turns, in a store of several machines */
#define NGX_HTTP_AGENTSTREAM_NUMBER_STEP  1024


static ngx_http_agentstream_node_t *ngx_http_agentstream_zone_make_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *id,
    ngx_str_t *request_id);
static void ngx_http_agentstream_zone_unname_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);


ngx_int_t
ngx_http_agentstream_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_http_agentstream_zone_t  *old = data;

    size_t                          len;
    ngx_uint_t                      n;
    ngx_http_agentstream_zone_t    *zone;
    ngx_http_agentstream_shared_t  *sh;

    zone = shm_zone->data;
    zone->shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (old) {
        zone->sh = old->sh;
        zone->old = old;
        return NGX_OK;
    }

    if (shm_zone->shm.exists) {
        zone->sh = zone->shpool->data;
        return NGX_OK;
    }

    /* slots for each worker and, over a few reloads in a row, its
       successors */

    n = ngx_min(zone->core->worker_processes * 4 + 8,
                NGX_HTTP_AGENTSTREAM_WORKERS_MAX);

    sh = ngx_slab_calloc(zone->shpool,
                         sizeof(ngx_http_agentstream_shared_t)
                         + (n - 1) * sizeof(ngx_http_agentstream_slot_t));
    if (sh == NULL) {
        return NGX_ERROR;
    }

    zone->sh = sh;
    zone->shpool->data = sh;

    ngx_rbtree_init(&sh->sessions, &sh->sessions_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&sh->turns, &sh->turns_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&sh->finished, &sh->sentinel, ngx_rbtree_insert_value);
    ngx_rbtree_init(&sh->spare, &sh->sentinel, ngx_rbtree_insert_value);
    ngx_rbtree_init(&sh->watched, &sh->sentinel, ngx_rbtree_insert_value);
    ngx_rbtree_init(&sh->chats, &sh->chats_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&sh->buckets, &sh->buckets_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&sh->tickets);
    ngx_queue_init(&sh->unused);
    ngx_queue_init(&sh->spent);

    sh->rare = ngx_slab_calloc(zone->shpool, NGX_HTTP_AGENTSTREAM_RARE
                                        * sizeof(ngx_http_agentstream_rare_t));
    if (sh->rare == NULL) {
        return NGX_ERROR;
    }

    len = sizeof(" in agentstream zone \"\"") + shm_zone->shm.name.len;

    zone->shpool->log_ctx = ngx_slab_alloc(zone->shpool, len);
    if (zone->shpool->log_ctx == NULL) {
        return NGX_ERROR;
    }

    ngx_sprintf(zone->shpool->log_ctx, " in agentstream zone \"%V\"%Z",
                &shm_zone->shm.name);

    zone->shpool->log_nomem = 0;

    return ngx_http_agentstream_zone_open_slots(zone, n, shm_zone->shm.log);
}


ngx_int_t
ngx_http_agentstream_zone_create_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *id, ngx_str_t *request_id,
    ngx_http_agentstream_ticket_t *ticket, ngx_http_agentstream_node_t **node)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_node_t  *nd;

    rc = ngx_http_agentstream_zone_taken_locked(zone, key, request_id, ticket,
                                                node);
    if (rc != NGX_OK) {
        return rc;
    }

    nd = ngx_http_agentstream_zone_make_locked(zone, key, id, request_id);

    if (nd == NULL) {
        return NGX_ERROR;
    }

    nd->owner = zone->self;
    nd->number = zone->sh->number;

    ngx_queue_insert_tail(&nd->session->turns, &nd->sibling);
    nd->session->running = nd;

    *node = nd;

    return NGX_OK;
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_mirror_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *id, ngx_str_t *request_id, uint64_t rank)
{
    uint64_t                         number;
    ngx_queue_t                     *q;
    ngx_http_agentstream_node_t     *node, *other;
    ngx_http_agentstream_session_t  *session;

    node = ngx_http_agentstream_zone_make_locked(zone, key, id, request_id);

    if (node == NULL) {
        return NULL;
    }

    node->mirror = 1;
    node->rank = rank;
    node->owner = zone->self;
    node->number = zone->sh->number;

    session = node->session;

    /* an older turn comes before those that are known already, with a number
       between those of its neighbours */

    for (q = ngx_queue_last(&session->turns);
         q != ngx_queue_sentinel(&session->turns);
         q = ngx_queue_prev(q))
    {
        other = ngx_queue_data(q, ngx_http_agentstream_node_t, sibling);

        if (other->rank <= rank) {
            break;
        }

        node->number = other->number;
    }

    if (node->number != zone->sh->number) {
        number = 0;

        if (q != ngx_queue_sentinel(&session->turns)) {
            other = ngx_queue_data(q, ngx_http_agentstream_node_t, sibling);
            number = other->number;
        }

        node->number = number + (node->number - number) / 2;
    }

    ngx_queue_insert_after(q, &node->sibling);

    return node;
}


/* a turn that is not in its session's queue yet */

static ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_make_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *id, ngx_str_t *request_id)
{
    u_char                          *p;
    ngx_http_agentstream_node_t     *nd;
    ngx_http_agentstream_session_t  *session;

    p = NULL;

    if (request_id->len) {
        p = ngx_http_agentstream_zone_alloc_locked(zone, request_id->len);
        if (p == NULL) {
            return NULL;
        }

        ngx_memcpy(p, request_id->data, request_id->len);
    }

    nd = ngx_http_agentstream_zone_alloc_locked(zone,
                                         sizeof(ngx_http_agentstream_node_t));
    if (nd == NULL) {
        goto failed;
    }

    /* the session's last turn may have been evicted to make room */

    session = ngx_http_agentstream_zone_open_session_locked(zone, key);

    if (session == NULL) {
        ngx_slab_free_locked(zone->shpool, nd);
        goto failed;
    }

    ngx_memzero(nd, sizeof(ngx_http_agentstream_node_t));

    nd->sn.str.data = nd->id;
    nd->sn.str.len = ngx_min(id->len, sizeof(nd->id));
    ngx_memcpy(nd->id, id->data, nd->sn.str.len);
    nd->sn.node.key = ngx_murmur_hash2(nd->id, nd->sn.str.len);
    nd->session = session;
    nd->journal.first_seq = 1;

    /* turns of other machines may have to be put between two of ours */
    zone->sh->number += zone->remote ? NGX_HTTP_AGENTSTREAM_NUMBER_STEP : 1;

    ngx_rbtree_insert(&zone->sh->turns, &nd->sn.node);

    if (p) {
        nd->request.str.data = p;
        nd->request.str.len = request_id->len;
        nd->request.node.key = ngx_murmur_hash2(p, request_id->len);
        ngx_rbtree_insert(&session->requests, &nd->request.node);
    }

    zone->sh->nrunning++;

    return nd;

failed:

    if (p) {
        ngx_slab_free_locked(zone->shpool, p);
    }

    return NULL;
}


ngx_http_agentstream_session_t *
ngx_http_agentstream_zone_open_session_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key)
{
    ngx_http_agentstream_session_t  *session;

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    if (session) {
        return session;
    }

    session = ngx_http_agentstream_zone_alloc_locked(zone,
                                       sizeof(ngx_http_agentstream_session_t)
                                       + key->len);
    if (session == NULL) {
        return NULL;
    }

    ngx_memcpy(session->key, key->data, key->len);
    session->sn.str.data = session->key;
    session->sn.str.len = key->len;
    session->sn.node.key = ngx_murmur_hash2(key->data, key->len);
    session->running = NULL;
    session->unsure = 1;
    session->nrefused = 0;
    ngx_str_null(&session->directory);
    ngx_queue_init(&session->turns);
    ngx_queue_init(&session->tickets);
    ngx_rbtree_init(&session->requests, &session->sentinel,
                    ngx_str_rbtree_insert_value);

    ngx_rbtree_insert(&zone->sh->sessions, &session->sn.node);

    return session;
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_turn_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, uint64_t number)
{
    ngx_queue_t                     *q;
    ngx_http_agentstream_node_t     *node, *next;
    ngx_http_agentstream_session_t  *session;

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    if (session == NULL) {
        return NULL;
    }

    /* search from the end, because it is the last one or near it */

    next = NULL;

    for (q = ngx_queue_last(&session->turns);
         q != ngx_queue_sentinel(&session->turns);
         q = ngx_queue_prev(q))
    {
        node = ngx_queue_data(q, ngx_http_agentstream_node_t, sibling);

        if (node->pending) {
            continue;
        }

        if (number == NGX_HTTP_AGENTSTREAM_NEWEST) {
            return node;
        }

        if (node->number <= number) {
            break;
        }

        next = node;
    }

    return next;
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_find_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *id)
{
    uint32_t  hash;

    hash = ngx_murmur_hash2(id->data, id->len);

    return (ngx_http_agentstream_node_t *)
               ngx_str_rbtree_lookup(&zone->sh->turns, id, hash);
}


ngx_http_agentstream_session_t *
ngx_http_agentstream_zone_session_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    uint32_t  hash;

    hash = ngx_murmur_hash2(key->data, key->len);

    return (ngx_http_agentstream_session_t *)
               ngx_str_rbtree_lookup(&zone->sh->sessions, key, hash);
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_running_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    ngx_http_agentstream_session_t  *session;

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    return session ? session->running : NULL;
}


void
ngx_http_agentstream_zone_finish_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_zone_forget_locked(zone, node);

    node->state = NGX_HTTP_AGENTSTREAM_TURN_FINISHED;
    node->ended = ngx_time();

    if (node->session->running == node) {
        node->session->running = NULL;
    }

    ngx_http_agentstream_zone_place_locked(zone, node);
    zone->sh->nrunning--;
    zone->sh->nfinished++;

    if (node->mirror) {
        /* its own machine counts it */
        ngx_http_agentstream_zone_expire_locked(zone);
        return;
    }

    if (ngx_strcmp(node->stop_reason, "error") == 0) {
        ngx_http_agentstream_zone_count(zone, FAILED, 1);

    } else if (ngx_strcmp(node->stop_reason, "cancelled") == 0) {
        ngx_http_agentstream_zone_count(zone, CANCELLED, 1);

    } else if (node->stop_reason[0]) {
        ngx_http_agentstream_zone_count(zone, COMPLETED, 1);
    }

    ngx_http_agentstream_zone_expire_locked(zone);
}


void
ngx_http_agentstream_zone_expire_locked(ngx_http_agentstream_zone_t *zone)
{
    ngx_uint_t                    i;
    ngx_http_agentstream_node_t  *node;

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_EXPIRE_MAX; i++) {
        node = ngx_http_agentstream_zone_first_locked(&zone->sh->finished);

        if (node == NULL
            || ngx_http_agentstream_zone_age(node) < zone->retain)
        {
            return;
        }

        ngx_http_agentstream_zone_free_locked(zone, node);
    }
}


/* the first turn in the tree that is not before key, or NULL */

ngx_rbtree_node_t *
ngx_http_agentstream_zone_from_locked(ngx_http_agentstream_zone_t *zone,
    ngx_rbtree_key_t key)
{
    ngx_rbtree_node_t  *node, *found, *sentinel;

    found = NULL;
    node = zone->sh->turns.root;
    sentinel = zone->sh->turns.sentinel;

    while (node != sentinel) {

        if (node->key >= key) {
            found = node;
            node = node->left;

        } else {
            node = node->right;
        }
    }

    return found;
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_orphan_locked(ngx_http_agentstream_zone_t *zone,
    ngx_rbtree_key_t *key)
{
    ngx_uint_t                    n;
    ngx_rbtree_node_t            *node;
    ngx_http_agentstream_node_t  *nd;

    node = zone->sh->nrunning
           ? ngx_http_agentstream_zone_from_locked(zone, *key) : NULL;

    for (n = 0;
         node && (n < NGX_HTTP_AGENTSTREAM_WALK_MAX || node->key == *key);
         n++)
    {
        nd = (ngx_http_agentstream_node_t *) node;
        *key = node->key;
        node = ngx_rbtree_next(&zone->sh->turns, node);

        if (nd->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED
            || nd->mirror
            || !ngx_http_agentstream_zone_dead_locked(zone, &nd->owner))
        {
            continue;
        }

        if (nd->ended == 0) {
            nd->ended = ngx_time();
        }

        if (ngx_http_agentstream_zone_age(nd) >= zone->retain) {
            nd->owner = zone->self;
            nd->pinned = 1;
            ngx_http_agentstream_zone_place_locked(zone, nd);
            return nd;
        }
    }

    *key = node ? node->key : 0;

    return NULL;
}


/* its client_request_id may start another turn */

static void
ngx_http_agentstream_zone_unname_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    if (node->request.str.len) {
        ngx_rbtree_delete(&node->session->requests, &node->request.node);
        ngx_slab_free_locked(zone->shpool, node->request.str.data);
        ngx_str_null(&node->request.str);
    }
}


void
ngx_http_agentstream_zone_refuse_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    node->refused = 1;
    node->session->nrefused++;

    ngx_queue_remove(&node->sibling);
    ngx_http_agentstream_zone_unname_locked(zone, node);
}


void
ngx_http_agentstream_zone_free_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_session_t  *session;

    zone->sh->freed++;

    ngx_http_agentstream_block_free_locked(zone->shpool, &node->journal,
                                           node->tail);

    session = node->session;

    ngx_http_agentstream_zone_unname_locked(zone, node);

    if (node->refused) {
        session->nrefused--;

    } else {
        ngx_queue_remove(&node->sibling);
    }

    ngx_rbtree_delete(node->place, &node->order);
    ngx_rbtree_delete(&zone->sh->turns, &node->sn.node);
    ngx_slab_free_locked(zone->shpool, node);
    zone->sh->nfinished--;

    ngx_http_agentstream_zone_release_locked(zone, session);
}


void
ngx_http_agentstream_zone_release_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_session_t *session)
{
    if (ngx_queue_empty(&session->turns)
        && session->nrefused == 0
        && ngx_queue_empty(&session->tickets))
    {
        ngx_rbtree_delete(&zone->sh->sessions, &session->sn.node);

        if (session->directory.data) {
            ngx_slab_free_locked(zone->shpool, session->directory.data);
        }

        ngx_slab_free_locked(zone->shpool, session);
    }
}
