
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 1: the shared zone.  Two trees, sessions by key and turns by id, and
 * the queue of finished turns in the order they ended.  A running turn belongs
 * to its owner and is never freed by anybody else; a finished one may go at
 * any moment the lock is free, so nobody keeps a pointer to it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/eventfd.h>
#include "ngx_http_agentstream_zone.h"


/* expired turns freed under one lock */
#define NGX_HTTP_AGENTSTREAM_EXPIRE_MAX  32


static ngx_int_t ngx_http_agentstream_zone_open_slots(
    ngx_http_agentstream_shared_t *sh, ngx_uint_t n, ngx_log_t *log);
static ngx_http_agentstream_session_t *ngx_http_agentstream_zone_session_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);
static ngx_http_agentstream_node_t *ngx_http_agentstream_zone_started_locked(
    ngx_http_agentstream_session_t *session, ngx_str_t *request_id);
static ngx_uint_t ngx_http_agentstream_zone_behind_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_session_t *session,
    ngx_http_agentstream_ticket_t *ticket);
static void ngx_http_agentstream_zone_insert_session(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static void ngx_http_agentstream_zone_insert_turn(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static ngx_http_agentstream_node_t *ngx_http_agentstream_zone_oldest_locked(
    ngx_http_agentstream_zone_t *zone);
static void ngx_http_agentstream_zone_free_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);
static void ngx_http_agentstream_zone_release_locked(
    ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_session_t *session);
static void ngx_http_agentstream_zone_forget_slot_locked(
    ngx_http_agentstream_zone_t *zone, ngx_uint_t slot);


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
        return NGX_OK;
    }

    if (shm_zone->shm.exists) {
        zone->sh = zone->shpool->data;
        return NGX_OK;
    }

    /* each worker and, over a reload, its successor */

    n = ngx_min(zone->core->worker_processes * 2 + 2,
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
                    ngx_http_agentstream_zone_insert_session);
    ngx_rbtree_init(&sh->turns, &sh->turns_sentinel,
                    ngx_http_agentstream_zone_insert_turn);
    ngx_queue_init(&sh->finished);

    len = sizeof(" in agentstream zone \"\"") + shm_zone->shm.name.len;

    zone->shpool->log_ctx = ngx_slab_alloc(zone->shpool, len);
    if (zone->shpool->log_ctx == NULL) {
        return NGX_ERROR;
    }

    ngx_sprintf(zone->shpool->log_ctx, " in agentstream zone \"%V\"%Z",
                &shm_zone->shm.name);

    zone->shpool->log_nomem = 0;

    return ngx_http_agentstream_zone_open_slots(sh, n, shm_zone->shm.log);
}


static ngx_int_t
ngx_http_agentstream_zone_open_slots(ngx_http_agentstream_shared_t *sh,
    ngx_uint_t n, ngx_log_t *log)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        sh->slots[i].fd = eventfd(0, EFD_NONBLOCK|EFD_CLOEXEC);

        if (sh->slots[i].fd == -1) {
            ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                          "agentstream zone: eventfd() failed");
            return NGX_ERROR;
        }
    }

    sh->nslots = n;

    return NGX_OK;
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

        /* a worker that was killed has left its pid behind */

        if (slot->pid == 0
            || (kill(slot->pid, 0) == -1 && ngx_errno == ESRCH))
        {
            ngx_http_agentstream_zone_forget_slot_locked(zone, i);

            slot->pid = ngx_pid;
            slot->generation++;

            zone->slot = i;
            zone->generation = slot->generation;
            break;
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


void *
ngx_http_agentstream_zone_alloc_locked(ngx_http_agentstream_zone_t *zone,
    size_t size)
{
    void                         *p;
    ngx_http_agentstream_node_t  *node;

    for ( ;; ) {
        p = ngx_slab_alloc_locked(zone->shpool, size);
        if (p) {
            return p;
        }

        node = ngx_http_agentstream_zone_oldest_locked(zone);
        if (node == NULL) {
            return NULL;
        }

        ngx_http_agentstream_zone_free_locked(zone, node);
    }
}


ngx_int_t
ngx_http_agentstream_zone_create_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *id, ngx_str_t *request_id,
    ngx_http_agentstream_ticket_t *ticket, ngx_http_agentstream_node_t **node)
{
    u_char                          *p;
    ngx_http_agentstream_node_t     *nd;
    ngx_http_agentstream_session_t  *session;

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    if (session) {
        *node = ngx_http_agentstream_zone_started_locked(session, request_id);

        if (*node) {
            return NGX_DECLINED;
        }

        *node = session->running;

        if (*node
            || ngx_http_agentstream_zone_behind_locked(zone, session, ticket))
        {
            return NGX_BUSY;
        }
    }

    p = NULL;

    if (request_id->len) {
        p = ngx_http_agentstream_zone_alloc_locked(zone, request_id->len);
        if (p == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(p, request_id->data, request_id->len);
    }

    nd = ngx_http_agentstream_zone_alloc_locked(zone,
                                         sizeof(ngx_http_agentstream_node_t));
    if (nd == NULL) {
        goto failed;
    }

    /* room may have been made by evicting the session's last turn */

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    if (session == NULL) {
        session = ngx_slab_alloc_locked(zone->shpool,
                                     sizeof(ngx_http_agentstream_session_t)
                                     + key->len);
        if (session == NULL) {
            ngx_slab_free_locked(zone->shpool, nd);
            goto failed;
        }

        session->key_len = key->len;
        ngx_memcpy(session->key, key->data, key->len);
        session->node.key = ngx_crc32_short(key->data, key->len);
        session->running = NULL;
        ngx_queue_init(&session->turns);
        ngx_queue_init(&session->tickets);

        ngx_rbtree_insert(&zone->sh->sessions, &session->node);
    }

    ngx_memzero(nd, sizeof(ngx_http_agentstream_node_t));

    nd->id_len = ngx_min(id->len, sizeof(nd->id));
    ngx_memcpy(nd->id, id->data, nd->id_len);
    nd->node.key = ngx_crc32_short(nd->id, nd->id_len);
    nd->session = session;
    nd->owner = zone->slot;
    nd->generation = zone->generation;
    nd->journal.first_seq = 1;
    nd->number = ++zone->sh->number;
    nd->request_id = p;
    nd->request_id_len = request_id->len;

    ngx_rbtree_insert(&zone->sh->turns, &nd->node);
    ngx_queue_insert_tail(&session->turns, &nd->sibling);
    session->running = nd;
    zone->sh->nrunning++;

    *node = nd;

    return NGX_OK;

failed:

    if (p) {
        ngx_slab_free_locked(zone->shpool, p);
    }

    return NGX_ERROR;
}


static ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_started_locked(
    ngx_http_agentstream_session_t *session, ngx_str_t *request_id)
{
    ngx_queue_t                  *q;
    ngx_http_agentstream_node_t  *node;

    if (request_id->len == 0) {
        return NULL;
    }

    for (q = ngx_queue_head(&session->turns);
         q != ngx_queue_sentinel(&session->turns);
         q = ngx_queue_next(q))
    {
        node = ngx_queue_data(q, ngx_http_agentstream_node_t, sibling);

        if (node->request_id_len == request_id->len
            && ngx_memcmp(node->request_id, request_id->data, request_id->len)
               == 0)
        {
            return node;
        }
    }

    return NULL;
}


/* whether somebody waits in the queue before the ticket, or without one */

static ngx_uint_t
ngx_http_agentstream_zone_behind_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_session_t *session,
    ngx_http_agentstream_ticket_t *ticket)
{
    ngx_queue_t                    *q;
    ngx_http_agentstream_ticket_t  *first;

    while (!ngx_queue_empty(&session->tickets)) {
        q = ngx_queue_head(&session->tickets);
        first = ngx_queue_data(q, ngx_http_agentstream_ticket_t, queue);

        if (!ngx_http_agentstream_zone_dead_locked(zone, first->owner,
                                                   first->generation))
        {
            return first != ticket;
        }

        ngx_queue_remove(q);
        ngx_slab_free_locked(zone->shpool, first);
    }

    return 0;
}


ngx_http_agentstream_ticket_t *
ngx_http_agentstream_zone_queue_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    ngx_http_agentstream_ticket_t   *ticket;
    ngx_http_agentstream_session_t  *session;

    ticket = ngx_http_agentstream_zone_alloc_locked(zone,
                                       sizeof(ngx_http_agentstream_ticket_t));
    if (ticket == NULL) {
        return NULL;
    }

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    if (session == NULL) {
        ngx_slab_free_locked(zone->shpool, ticket);
        return NULL;
    }

    ticket->session = session;
    ticket->owner = zone->slot;
    ticket->generation = zone->generation;

    ngx_queue_insert_tail(&session->tickets, &ticket->queue);

    return ticket;
}


void
ngx_http_agentstream_zone_unqueue_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_ticket_t *ticket)
{
    ngx_http_agentstream_session_t  *session;

    session = ticket->session;

    ngx_queue_remove(&ticket->queue);
    ngx_slab_free_locked(zone->shpool, ticket);

    ngx_http_agentstream_zone_release_locked(zone, session);
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_turn_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, uint64_t number)
{
    ngx_queue_t                     *q;
    ngx_http_agentstream_node_t     *node;
    ngx_http_agentstream_session_t  *session;

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    if (session == NULL || ngx_queue_empty(&session->turns)) {
        return NULL;
    }

    if (number == NGX_HTTP_AGENTSTREAM_NEWEST) {
        q = ngx_queue_last(&session->turns);
        return ngx_queue_data(q, ngx_http_agentstream_node_t, sibling);
    }

    for (q = ngx_queue_head(&session->turns);
         q != ngx_queue_sentinel(&session->turns);
         q = ngx_queue_next(q))
    {
        node = ngx_queue_data(q, ngx_http_agentstream_node_t, sibling);

        if (node->number > number) {
            return node;
        }
    }

    return NULL;
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
           || (kill(s->pid, 0) == -1 && ngx_errno == ESRCH);
}


ngx_uint_t
ngx_http_agentstream_zone_watched_locked(ngx_http_agentstream_node_t *node)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64; i++) {
        if (node->watchers[i]) {
            return 1;
        }
    }

    return 0;
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


ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_find_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *id)
{
    uint32_t                      hash;
    ngx_int_t                     rc;
    ngx_rbtree_node_t            *node, *sentinel;
    ngx_http_agentstream_node_t  *nd;

    hash = ngx_crc32_short(id->data, id->len);

    node = zone->sh->turns.root;
    sentinel = zone->sh->turns.sentinel;

    while (node != sentinel) {

        if (hash != node->key) {
            node = (hash < node->key) ? node->left : node->right;
            continue;
        }

        nd = (ngx_http_agentstream_node_t *) node;

        rc = ngx_memn2cmp(id->data, nd->id, id->len, nd->id_len);

        if (rc == 0) {
            return nd;
        }

        node = (rc < 0) ? node->left : node->right;
    }

    return NULL;
}


static ngx_http_agentstream_session_t *
ngx_http_agentstream_zone_session_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    uint32_t                         hash;
    ngx_int_t                        rc;
    ngx_rbtree_node_t               *node, *sentinel;
    ngx_http_agentstream_session_t  *session;

    hash = ngx_crc32_short(key->data, key->len);

    node = zone->sh->sessions.root;
    sentinel = zone->sh->sessions.sentinel;

    while (node != sentinel) {

        if (hash != node->key) {
            node = (hash < node->key) ? node->left : node->right;
            continue;
        }

        session = (ngx_http_agentstream_session_t *) node;

        rc = ngx_memn2cmp(key->data, session->key, key->len, session->key_len);

        if (rc == 0) {
            return session;
        }

        node = (rc < 0) ? node->left : node->right;
    }

    return NULL;
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_running_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    ngx_http_agentstream_session_t  *session;

    session = ngx_http_agentstream_zone_session_locked(zone, key);

    return session ? session->running : NULL;
}


static void
ngx_http_agentstream_zone_insert_session(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t               **p;
    ngx_http_agentstream_session_t   *s, *t;

    for ( ;; ) {

        if (node->key != temp->key) {
            p = (node->key < temp->key) ? &temp->left : &temp->right;

        } else {
            s = (ngx_http_agentstream_session_t *) node;
            t = (ngx_http_agentstream_session_t *) temp;

            p = (ngx_memn2cmp(s->key, t->key, s->key_len, t->key_len) < 0)
                ? &temp->left : &temp->right;
        }

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


static void
ngx_http_agentstream_zone_insert_turn(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t            **p;
    ngx_http_agentstream_node_t   *n, *t;

    for ( ;; ) {

        if (node->key != temp->key) {
            p = (node->key < temp->key) ? &temp->left : &temp->right;

        } else {
            n = (ngx_http_agentstream_node_t *) node;
            t = (ngx_http_agentstream_node_t *) temp;

            p = (ngx_memn2cmp(n->id, t->id, n->id_len, t->id_len) < 0)
                ? &temp->left : &temp->right;
        }

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


void
ngx_http_agentstream_zone_finish_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_zone_forget_locked(zone, node);

    node->state = NGX_HTTP_AGENTSTREAM_TURN_FINISHED;
    node->ended = ngx_time();
    node->session->running = NULL;

    ngx_queue_insert_tail(&zone->sh->finished, &node->queue);
    zone->sh->nrunning--;
    zone->sh->nfinished++;

    ngx_http_agentstream_zone_expire_locked(zone);
}


void
ngx_http_agentstream_zone_expire_locked(ngx_http_agentstream_zone_t *zone)
{
    ngx_uint_t                    i;
    ngx_http_agentstream_node_t  *node;

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_EXPIRE_MAX; i++) {
        node = ngx_http_agentstream_zone_oldest_locked(zone);

        if (node == NULL
            || (ngx_msec_t) (ngx_time() - node->ended) * 1000 < zone->retain)
        {
            return;
        }

        ngx_http_agentstream_zone_free_locked(zone, node);
    }
}


static ngx_http_agentstream_node_t *
ngx_http_agentstream_zone_oldest_locked(ngx_http_agentstream_zone_t *zone)
{
    if (ngx_queue_empty(&zone->sh->finished)) {
        return NULL;
    }

    return ngx_queue_data(ngx_queue_head(&zone->sh->finished),
                          ngx_http_agentstream_node_t, queue);
}


static void
ngx_http_agentstream_zone_free_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_block_t    *block, *next;
    ngx_http_agentstream_session_t  *session;

    for (block = node->journal.first; block; block = next) {
        next = block->next;

        if ((u_char *) block != node->tail) {
            ngx_slab_free_locked(zone->shpool, block);
        }
    }

    if (node->request_id) {
        ngx_slab_free_locked(zone->shpool, node->request_id);
    }

    session = node->session;

    ngx_queue_remove(&node->sibling);
    ngx_queue_remove(&node->queue);
    ngx_rbtree_delete(&zone->sh->turns, &node->node);
    ngx_slab_free_locked(zone->shpool, node);
    zone->sh->nfinished--;

    ngx_http_agentstream_zone_release_locked(zone, session);
}


static void
ngx_http_agentstream_zone_release_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_session_t *session)
{
    if (ngx_queue_empty(&session->turns)
        && ngx_queue_empty(&session->tickets))
    {
        ngx_rbtree_delete(&zone->sh->sessions, &session->node);
        ngx_slab_free_locked(zone->shpool, session);
    }
}
