
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The verbs of chats: what platforms send is put into inboxes, and the owner of
 * a chat takes it out.  What a verb does happens under one lock, so that a
 * worker that is killed leaves a chat as it was before or after.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_store_int.h"


/* number of chats, or of buckets, that are looked at under one lock */
#define NGX_HTTP_AGENTSTREAM_CHAT_WALK  128


static ngx_uint_t ngx_http_agentstream_store_chat_elsewhere_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat);
static ngx_http_agentstream_chat_node_t *
    ngx_http_agentstream_store_chat_open_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *place);
static ngx_uint_t ngx_http_agentstream_store_chat_left_locked(
    ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *chat);
static ngx_http_agentstream_entry_t *
    ngx_http_agentstream_store_chat_entry_locked(
    ngx_http_agentstream_chat_node_t *node, uint64_t number);
static ngx_rbtree_node_t *ngx_http_agentstream_store_chat_after_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);
static ngx_http_agentstream_bucket_t *
    ngx_http_agentstream_store_chat_bucket_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);


/* whether chats are those of all machines now */
#define ngx_http_agentstream_store_chat_shared(zone)                          \
    ((zone)->remote && !(zone)->remote->chat_local(zone))


ngx_int_t
ngx_http_agentstream_store_chat_post(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_chat_post_t *post,
    ngx_http_agentstream_later_t *later)
{
    uint64_t                           hashes[2];
    ngx_int_t                          rc;
    ngx_http_agentstream_chat_node_t  *chat;

    if (post->entry.len > NGX_HTTP_AGENTSTREAM_CHAT_ENTRY_SIZE) {
        return NGX_ABORT;
    }

    hashes[0] = ngx_http_agentstream_store_chat_hash(&post->ids[0]);
    hashes[1] = ngx_http_agentstream_store_chat_hash(&post->ids[1]);

    ngx_http_agentstream_zone_lock(zone);

    if (ngx_http_agentstream_store_chat_shared(zone)) {
        chat = ngx_http_agentstream_zone_chat_locked(zone, &post->key);

        if (ngx_http_agentstream_store_chat_elsewhere_locked(zone, chat)
            && !(chat
                 && ngx_http_agentstream_zone_seen_locked(chat, hashes, 2)))
        {
            ngx_http_agentstream_zone_unlock(zone);
            return zone->remote->chat_post(zone, post, hashes, later);
        }
    }

    chat = ngx_http_agentstream_zone_open_chat_locked(zone, &post->key);

    if (chat == NULL) {
        ngx_http_agentstream_zone_unlock(zone);
        return NGX_ERROR;
    }

    if (ngx_http_agentstream_zone_seen_locked(chat, hashes, 2)) {
        rc = NGX_DECLINED;

    } else if (chat->nentries >= NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES) {
        rc = NGX_BUSY;

    } else if (ngx_http_agentstream_zone_place_chat_locked(zone, chat,
                                                           &post->place)
               != NGX_OK
               || ngx_http_agentstream_zone_enter_chat_locked(zone, chat,
                                                              &post->entry,
                                                              hashes)
                  == NULL)
    {
        rc = NGX_ERROR;

    } else {
        ngx_http_agentstream_zone_see_locked(chat, hashes, 2);
        rc = NGX_OK;
    }

    ngx_http_agentstream_zone_rank_chat_locked(zone, chat);

    ngx_http_agentstream_zone_unlock(zone);

    return rc;
}


/*
 * Redis can be asked: whether it has all that there is of this chat.  What has
 * come while Redis was away is dealt with first, so that a chat keeps its
 * order: by the worker of this machine that has begun with it, or in Redis,
 * where the next look puts it.
 */

static ngx_uint_t
ngx_http_agentstream_store_chat_elsewhere_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat)
{
    if (chat == NULL) {
        return 1;
    }

    if (ngx_http_agentstream_zone_served_locked(zone, chat)) {
        return chat->only_inbox;
    }

    return !chat->busy && ngx_queue_empty(&chat->entries);
}


ngx_int_t
ngx_http_agentstream_store_chat_claim(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_store_chat_claim_t *claim,
    ngx_http_agentstream_later_t *later)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_chat_node_t  *chat;

    ngx_http_agentstream_zone_lock(zone);

    chat = ngx_http_agentstream_zone_chat_locked(zone, key);

    if (ngx_http_agentstream_store_chat_shared(zone)) {

        if (claim->create.len
            || ngx_http_agentstream_store_chat_elsewhere_locked(zone, chat))
        {
            ngx_http_agentstream_zone_unlock(zone);
            return zone->remote->chat_claim(zone, key, claim, later);
        }

        if (!chat->busy
            && !ngx_http_agentstream_zone_served_locked(zone, chat))
        {
            /* nobody has begun with what has come while Redis was away */

            ngx_http_agentstream_zone_own_chat_locked(zone, chat, 0);
            ngx_http_agentstream_zone_unlock(zone);

            zone->remote->chat_forward(zone, chat);
            return NGX_DECLINED;
        }
    }

    if (claim->create.len && zone->remote == NULL) {
        chat = ngx_http_agentstream_store_chat_open_locked(zone, key,
                                                           &claim->create);
    }

    /* an inbox that nothing was put into yet has no place: what there is of
       this chat is in Redis */

    if (chat == NULL || chat->place.len == 0
        || ngx_http_agentstream_zone_served_locked(zone, chat))
    {
        ngx_http_agentstream_zone_unlock(zone);
        return NGX_DECLINED;
    }

    rc = NGX_ERROR;

    claim->place.len = chat->place.len;
    claim->place.data = ngx_pnalloc(claim->pool, chat->place.len);

    if (claim->place.data) {
        ngx_memcpy(claim->place.data, chat->place.data, chat->place.len);
        ngx_memcpy(claim->state, chat->state, claim->size);

        ngx_http_agentstream_zone_own_chat_locked(zone, chat, 0);

        claim->node = chat;
        claim->others = (zone->remote != NULL);
        claim->age = NGX_HTTP_AGENTSTREAM_CHAT_SAME_CLOCK;
        rc = NGX_OK;
    }

    ngx_http_agentstream_zone_unlock(zone);

    return rc;
}


/* creates a chat that is not there; NULL: there is no room */

static ngx_http_agentstream_chat_node_t *
ngx_http_agentstream_store_chat_open_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *place)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_chat_node_t  *chat;

    chat = ngx_http_agentstream_zone_open_chat_locked(zone, key);

    if (chat == NULL) {
        return NULL;
    }

    rc = ngx_http_agentstream_zone_place_chat_locked(zone, chat, place);
    ngx_http_agentstream_zone_rank_chat_locked(zone, chat);

    return (rc == NGX_OK) ? chat : NULL;
}


void
ngx_http_agentstream_store_chat_cancel(ngx_http_agentstream_later_t *later)
{
    ngx_http_agentstream_zone_t  *zone;

    zone = later->zone;

    if (zone) {
        later->zone = NULL;
        zone->remote->chat_cancel(zone, later);
    }
}


void
ngx_http_agentstream_store_chat_listen(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_chat_pt handler)
{
    zone->chat_handler = handler;
}


void
ngx_http_agentstream_store_chat_look(ngx_http_agentstream_zone_t *zone)
{
    if (zone->remote) {
        zone->remote->chat_look(zone);
    }
}


/* whether somebody must take care of it; what a dead owner has left without
   work becomes unused */

static ngx_uint_t
ngx_http_agentstream_store_chat_left_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *chat)
{
    if (chat->owned) {

        if (ngx_http_agentstream_zone_served_locked(zone, chat)) {
            return 0;
        }

        ngx_http_agentstream_zone_leave_chat_locked(zone, chat);
    }

    return chat->busy || !ngx_queue_empty(&chat->entries);
}


ngx_int_t
ngx_http_agentstream_store_chat_orphan(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, size_t size)
{
    ngx_int_t                          rc;
    ngx_uint_t                         n;
    ngx_rbtree_node_t                 *node;
    ngx_http_agentstream_chat_node_t  *chat;

    rc = NGX_DECLINED;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_store_chat_after_locked(zone, key);

    for (n = 0; node; n++) {
        chat = (ngx_http_agentstream_chat_node_t *) node;
        node = ngx_rbtree_next(&zone->sh->chats, node);

        if (chat->sn.str.len > size) {
            continue;
        }

        if (ngx_http_agentstream_store_chat_left_locked(zone, chat)) {
            rc = NGX_OK;

        } else if (n >= NGX_HTTP_AGENTSTREAM_CHAT_WALK && node) {
            rc = NGX_AGAIN;

        } else {
            continue;
        }

        key->len = chat->sn.str.len;
        ngx_memcpy(key->data, chat->sn.str.data, key->len);
        break;
    }

    ngx_http_agentstream_zone_unlock(zone);

    return rc;
}


/* the first chat of the tree, or the one that follows the key */

static ngx_rbtree_node_t *
ngx_http_agentstream_store_chat_after_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    ngx_rbtree_t       *tree;
    ngx_rbtree_node_t  *node;

    tree = &zone->sh->chats;

    if (tree->root == tree->sentinel) {
        return NULL;
    }

    if (key->len == 0) {
        return ngx_rbtree_min(tree->root, tree->sentinel);
    }

    node = (ngx_rbtree_node_t *)
               ngx_http_agentstream_zone_chat_locked(zone, key);

    return node ? ngx_rbtree_next(tree, node) : NULL;
}


ngx_int_t
ngx_http_agentstream_store_chat_next(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *node, uint64_t number, ngx_pool_t *pool,
    ngx_http_agentstream_store_chat_entry_t *entry)
{
    ngx_int_t                      rc;
    ngx_http_agentstream_entry_t  *e, *other;

    ngx_http_agentstream_zone_lock(zone);

    e = ngx_http_agentstream_store_chat_entry_locked(node, number);

    if (node->inbox) {
        other = ngx_http_agentstream_store_chat_entry_locked(node->inbox,
                                                             number);
        if (e == NULL || (other && other->number < e->number)) {
            e = other;
        }
    }

    if (e == NULL) {
        rc = NGX_DECLINED;

    } else {
        entry->number = e->number;
        entry->entry.len = e->len;
        entry->entry.data = ngx_palloc(pool, ngx_max(e->len, 1));

        if (entry->entry.data) {
            ngx_memcpy(entry->entry.data, e->data, e->len);
            rc = NGX_OK;

        } else {
            rc = NGX_ERROR;
        }
    }

    ngx_http_agentstream_zone_unlock(zone);

    return rc;
}


/* the oldest one with a higher number, or NULL */

static ngx_http_agentstream_entry_t *
ngx_http_agentstream_store_chat_entry_locked(
    ngx_http_agentstream_chat_node_t *node, uint64_t number)
{
    ngx_queue_t                   *q;
    ngx_http_agentstream_entry_t  *e;

    for (q = ngx_queue_head(&node->entries);
         q != ngx_queue_sentinel(&node->entries);
         q = ngx_queue_next(q))
    {
        e = ngx_queue_data(q, ngx_http_agentstream_entry_t, queue);

        if (e->number > number) {
            return e;
        }
    }

    return NULL;
}


void
ngx_http_agentstream_store_chat_save(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *node, void *state, size_t size,
    ngx_uint_t busy, uint64_t number)
{
    ngx_http_agentstream_chat_node_t  *inbox;

    inbox = node->remote ? node->inbox : node;

    if (node->remote) {
        zone->remote->chat_save(node, state, size, busy, number);
    }

    if (inbox == NULL) {
        return;
    }

    ngx_http_agentstream_zone_lock(zone);

    if (node->remote == NULL) {
        ngx_memcpy(node->state, state, size);
        node->busy = busy;
    }

    if (number) {
        ngx_http_agentstream_zone_remove_entry_locked(zone, inbox, number);
    }

    ngx_http_agentstream_zone_unlock(zone);
}


ngx_uint_t
ngx_http_agentstream_store_chat_saved(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *node)
{
    return node->remote == NULL || zone->remote->chat_saved(node);
}


ngx_uint_t
ngx_http_agentstream_store_chat_mine(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *node)
{
    return node->remote == NULL || zone->remote->chat_mine(node);
}


ngx_int_t
ngx_http_agentstream_store_chat_leave(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *node, ngx_uint_t force)
{
    ngx_uint_t  left;

    ngx_http_agentstream_zone_lock(zone);

    left = force || (ngx_queue_empty(&node->entries)
                     && (node->inbox == NULL
                         || ngx_queue_empty(&node->inbox->entries)));

    if (left && node->remote == NULL) {
        ngx_http_agentstream_zone_leave_chat_locked(zone, node);
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (left && node->remote) {
        zone->remote->chat_leave(node, force);
    }

    return left ? NGX_OK : NGX_DECLINED;
}


ngx_msec_t
ngx_http_agentstream_store_chat_spend(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_chat_rate_t *rates, ngx_uint_t n,
    ngx_http_agentstream_store_chat_spend_e how)
{
    ngx_msec_t                      now, wait, need, room;
    ngx_uint_t                      i, machines;
    ngx_http_agentstream_bucket_t  *buckets[NGX_HTTP_AGENTSTREAM_CHAT_RATES];

    now = ngx_current_msec;
    wait = 0;

    machines = zone->remote ? zone->remote->chat_machines(zone) : 1;

    ngx_http_agentstream_zone_lock(zone);

    for (i = 0; i < n; i++) {

        if (rates[i].shared && machines > 1) {
            rates[i].interval *= machines;
            rates[i].burst = ngx_max(rates[i].burst / machines, 1);
            rates[i].spare = ngx_min(rates[i].spare / machines,
                                     rates[i].burst - 1);
        }

        buckets[i] = ngx_http_agentstream_store_chat_bucket_locked(zone,
                                                             &rates[i].key);
        if (buckets[i] == NULL) {
            /* the platform itself will say when it is too much */
            continue;
        }

        if ((ngx_msec_int_t) (buckets[i]->full - now) < 0) {
            buckets[i]->full = now;
        }

        need = buckets[i]->full - now + rates[i].interval;
        room = rates[i].interval * (rates[i].burst - rates[i].spare);

        if (need > room) {
            wait = ngx_max(wait, need - room);
        }
    }

    if (how == NGX_HTTP_AGENTSTREAM_SPEND_ORDERED
        || (how == NGX_HTTP_AGENTSTREAM_SPEND_NOW && wait == 0))
    {
        for (i = 0; i < n; i++) {
            if (buckets[i]) {
                buckets[i]->full += rates[i].interval;
            }
        }
    }

    ngx_http_agentstream_zone_unlock(zone);

    return wait;
}


/* NULL: no room */

static ngx_http_agentstream_bucket_t *
ngx_http_agentstream_store_chat_bucket_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key)
{
    uint32_t                        hash;
    ngx_uint_t                      i;
    ngx_queue_t                    *q;
    ngx_http_agentstream_bucket_t  *bucket;

    hash = ngx_murmur_hash2(key->data, key->len);

    bucket = (ngx_http_agentstream_bucket_t *)
                 ngx_str_rbtree_lookup(&zone->sh->buckets, key, hash);

    if (bucket) {
        ngx_queue_remove(&bucket->queue);
        ngx_queue_insert_tail(&zone->sh->spent, &bucket->queue);
        return bucket;
    }

    for (i = 0;
         i < NGX_HTTP_AGENTSTREAM_CHAT_WALK
         && !ngx_queue_empty(&zone->sh->spent);
         i++)
    {
        q = ngx_queue_head(&zone->sh->spent);
        bucket = ngx_queue_data(q, ngx_http_agentstream_bucket_t, queue);

        if ((ngx_msec_int_t) (bucket->full - ngx_current_msec) >= 0) {
            break;
        }

        ngx_queue_remove(q);
        ngx_rbtree_delete(&zone->sh->buckets, &bucket->sn.node);
        ngx_slab_free_locked(zone->shpool, bucket);
    }

    bucket = ngx_http_agentstream_zone_alloc_locked(zone,
                            offsetof(ngx_http_agentstream_bucket_t, key)
                            + key->len);
    if (bucket == NULL) {
        return NULL;
    }

    bucket->sn.node.key = hash;
    bucket->sn.str.len = key->len;
    bucket->sn.str.data = bucket->key;
    ngx_memcpy(bucket->key, key->data, key->len);
    bucket->full = ngx_current_msec;

    ngx_rbtree_insert(&zone->sh->buckets, &bucket->sn.node);
    ngx_queue_insert_tail(&zone->sh->spent, &bucket->queue);

    return bucket;
}


ngx_uint_t
ngx_http_agentstream_store_chat_rare(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_msec_t every)
{
    uint64_t                      hash;
    ngx_uint_t                    i;
    ngx_http_agentstream_rare_t  *r, *unused;

    hash = ngx_http_agentstream_store_chat_hash(key);
    unused = NULL;

    ngx_http_agentstream_zone_lock(zone);

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_RARE; i++) {
        r = &zone->sh->rare[i];

        if (r->hash == 0
            || (ngx_msec_int_t) (r->until - ngx_current_msec) <= 0)
        {
            unused = r;

        } else if (r->hash == hash) {
            unused = NULL;
            break;
        }
    }

    if (unused) {
        unused->hash = hash;
        unused->until = ngx_current_msec + every;
    }

    ngx_http_agentstream_zone_unlock(zone);

    return unused != NULL;
}


/* 64 bits, so that two names of one chat have the same hash practically never;
   0: the name is empty */

uint64_t
ngx_http_agentstream_store_chat_hash(ngx_str_t *id)
{
    if (id->len == 0) {
        return 0;
    }

    return ((uint64_t) ngx_murmur_hash2(id->data, id->len) << 32)
           | ngx_crc32_short(id->data, id->len) | 1;
}
