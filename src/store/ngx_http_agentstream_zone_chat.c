
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Chats in the shared memory: a tree by key, and a queue of those that have
 * neither an owner nor work, the longest unused first, which give way when
 * there is no room.  A chat with work is never freed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone_int.h"


/* how long an unused chat remembers what was sent, in seconds: as long as
   Telegram sends an update again */
#define NGX_HTTP_AGENTSTREAM_CHAT_KEEP  86400


static void ngx_http_agentstream_zone_free_chat_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat);


ngx_http_agentstream_chat_node_t *
ngx_http_agentstream_zone_chat_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    return (ngx_http_agentstream_chat_node_t *)
               ngx_str_rbtree_lookup(&zone->sh->chats, key,
                                     ngx_murmur_hash2(key->data, key->len));
}


ngx_http_agentstream_chat_node_t *
ngx_http_agentstream_zone_open_chat_locked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    ngx_http_agentstream_chat_node_t  *chat;

    chat = ngx_http_agentstream_zone_chat_locked(zone, key);

    if (chat) {
        if (chat->listed) {
            ngx_queue_remove(&chat->queue);
            chat->listed = 0;
        }

        return chat;
    }

    chat = ngx_http_agentstream_zone_alloc_locked(zone,
                       offsetof(ngx_http_agentstream_chat_node_t, key)
                       + key->len);
    if (chat == NULL) {
        return NULL;
    }

    ngx_memzero(chat, offsetof(ngx_http_agentstream_chat_node_t, key));

    chat->sn.str.len = key->len;
    chat->sn.str.data = chat->key;
    ngx_memcpy(chat->key, key->data, key->len);
    chat->sn.node.key = ngx_murmur_hash2(key->data, key->len);

    ngx_queue_init(&chat->entries);

    ngx_rbtree_insert(&zone->sh->chats, &chat->sn.node);
    zone->sh->nchats++;

    return chat;
}


ngx_int_t
ngx_http_agentstream_zone_place_chat_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *chat, ngx_str_t *place)
{
    u_char  *p;

    if (chat->place.len == place->len
        && ngx_memcmp(chat->place.data, place->data, place->len) == 0)
    {
        return NGX_OK;
    }

    p = ngx_http_agentstream_zone_alloc_locked(zone, place->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, place->data, place->len);

    if (chat->place.data) {
        ngx_slab_free_locked(zone->shpool, chat->place.data);
    }

    chat->place.data = p;
    chat->place.len = place->len;

    return NGX_OK;
}


ngx_uint_t
ngx_http_agentstream_zone_served_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *chat)
{
    return chat->owned
           && !ngx_http_agentstream_zone_dead_locked(zone, &chat->owner);
}


void
ngx_http_agentstream_zone_own_chat_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *chat, ngx_uint_t only_inbox)
{
    chat->owner = zone->self;
    chat->owned = 1;
    chat->only_inbox = only_inbox;

    ngx_http_agentstream_zone_rank_chat_locked(zone, chat);
}


void
ngx_http_agentstream_zone_leave_chat_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *chat)
{
    chat->owned = 0;

    ngx_http_agentstream_zone_rank_chat_locked(zone, chat);
}


void
ngx_http_agentstream_zone_rank_chat_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *chat)
{
    ngx_uint_t  unused;

    unused = !chat->owned && !chat->busy && ngx_queue_empty(&chat->entries);

    if (chat->listed) {
        ngx_queue_remove(&chat->queue);
    }

    chat->listed = unused;

    if (unused) {
        chat->used = ngx_time();
        ngx_queue_insert_tail(&zone->sh->unused, &chat->queue);
    }
}


/* a name that the platform may use again; 1: it was used before */

ngx_uint_t
ngx_http_agentstream_zone_seen_locked(ngx_http_agentstream_chat_node_t *chat,
    uint64_t *hashes, ngx_uint_t n)
{
    ngx_uint_t  i, k;

    for (i = 0; i < n; i++) {

        for (k = 0; k < NGX_HTTP_AGENTSTREAM_CHAT_SEEN; k++) {
            if (hashes[i] && chat->seen[k] == hashes[i]) {
                return 1;
            }
        }
    }

    return 0;
}


void
ngx_http_agentstream_zone_see_locked(ngx_http_agentstream_chat_node_t *chat,
    uint64_t *hashes, ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        if (hashes[i]) {
            chat->seen[chat->nseen++ % NGX_HTTP_AGENTSTREAM_CHAT_SEEN]
                                                                = hashes[i];
        }
    }
}


ngx_http_agentstream_entry_t *
ngx_http_agentstream_zone_enter_chat_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *chat, ngx_str_t *text, uint64_t *hashes)
{
    ngx_http_agentstream_entry_t  *entry;

    entry = ngx_http_agentstream_zone_alloc_locked(zone,
                         sizeof(ngx_http_agentstream_entry_t) + text->len);
    if (entry == NULL) {
        return NULL;
    }

    entry->number = ++chat->number;
    entry->hashes[0] = hashes[0];
    entry->hashes[1] = hashes[1];
    entry->len = text->len;
    ngx_memcpy(entry->data, text->data, text->len);

    ngx_queue_insert_tail(&chat->entries, &entry->queue);
    chat->nentries++;

    return entry;
}


void
ngx_http_agentstream_zone_remove_entry_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat,
    uint64_t number)
{
    ngx_queue_t                   *q;
    ngx_http_agentstream_entry_t  *entry;

    for (q = ngx_queue_head(&chat->entries);
         q != ngx_queue_sentinel(&chat->entries);
         q = ngx_queue_next(q))
    {
        entry = ngx_queue_data(q, ngx_http_agentstream_entry_t, queue);

        if (entry->number == number) {
            ngx_queue_remove(q);
            chat->nentries--;
            ngx_slab_free_locked(zone->shpool, entry);
            return;
        }
    }
}


static void
ngx_http_agentstream_zone_free_chat_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *chat)
{
    ngx_queue_remove(&chat->queue);
    ngx_rbtree_delete(&zone->sh->chats, &chat->sn.node);
    zone->sh->nchats--;

    if (chat->place.data) {
        ngx_slab_free_locked(zone->shpool, chat->place.data);
    }

    ngx_slab_free_locked(zone->shpool, chat);
}


ngx_int_t
ngx_http_agentstream_zone_yield_chat_locked(ngx_http_agentstream_zone_t *zone)
{
    ngx_queue_t  *q;

    if (ngx_queue_empty(&zone->sh->unused)) {
        return NGX_DECLINED;
    }

    q = ngx_queue_head(&zone->sh->unused);

    ngx_http_agentstream_zone_free_chat_locked(zone,
                 ngx_queue_data(q, ngx_http_agentstream_chat_node_t, queue));

    return NGX_OK;
}


void
ngx_http_agentstream_zone_expire_chats_locked(
    ngx_http_agentstream_zone_t *zone)
{
    ngx_uint_t                         n;
    ngx_queue_t                       *q;
    ngx_http_agentstream_chat_node_t  *chat;

    for (n = 0; n < NGX_HTTP_AGENTSTREAM_WALK_MAX; n++) {

        if (ngx_queue_empty(&zone->sh->unused)) {
            return;
        }

        q = ngx_queue_head(&zone->sh->unused);
        chat = ngx_queue_data(q, ngx_http_agentstream_chat_node_t, queue);

        if (ngx_time() - chat->used < NGX_HTTP_AGENTSTREAM_CHAT_KEEP) {
            return;
        }

        ngx_http_agentstream_zone_free_chat_locked(zone, chat);
    }
}
