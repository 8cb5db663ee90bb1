
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What is done to chats that another worker of any machine may own: something
 * is put into an inbox, and chats are looked for that nobody serves.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* room for the name of a worker */
#define NGX_HTTP_AGENTSTREAM_OWNER_SIZE  64


static void ngx_http_agentstream_remote_post_done(void *data,
    redisReply *reply);
static ngx_http_agentstream_remote_post_t *ngx_http_agentstream_remote_post(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *key, ngx_str_t *place,
    uint64_t *hashes, ngx_str_t *entry, ngx_http_agentstream_redis_pt handler);
static void ngx_http_agentstream_remote_forward_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_seek_done(void *data,
    redisReply *reply);
static ngx_str_t ngx_http_agentstream_remote_hash(u_char *buf,
    uint64_t hash);


/* without Redis the zone has the chats, if this is allowed */

ngx_uint_t
ngx_http_agentstream_remote_chat_local(ngx_http_agentstream_zone_t *zone)
{
    ngx_http_agentstream_remote_t  *remote;

    remote = ngx_http_agentstream_remote_of(zone);

    return !remote->up && remote->local;
}


ngx_int_t
ngx_http_agentstream_remote_chat_post(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_chat_post_t *post, uint64_t *hashes,
    ngx_http_agentstream_later_t *later)
{
    ngx_http_agentstream_remote_t       *remote;
    ngx_http_agentstream_remote_post_t  *rp;

    remote = ngx_http_agentstream_remote_of(zone);

    rp = ngx_http_agentstream_remote_post(remote, &post->key, &post->place,
                                        hashes, &post->entry,
                                        ngx_http_agentstream_remote_post_done);
    if (rp == NULL) {
        return NGX_ERROR;
    }

    rp->later = later;
    later->zone = zone;

    return NGX_AGAIN;
}


/* NULL: it is not sent */

static ngx_http_agentstream_remote_post_t *
ngx_http_agentstream_remote_post(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *key, ngx_str_t *place, uint64_t *hashes, ngx_str_t *entry,
    ngx_http_agentstream_redis_pt handler)
{
    u_char                               ids[2][NGX_INT64_LEN];
    u_char                               max[NGX_INT_T_LEN];
    u_char                               ttl[NGX_INT_T_LEN];
    u_char                               seen[NGX_INT_T_LEN];
    ngx_int_t                            rc;
    ngx_str_t                            argv[9];
    ngx_http_agentstream_remote_post_t  *rp;

    if (!remote->up
        || ngx_http_agentstream_remote_base(&argv[0], key, remote->log)
           != NGX_OK)
    {
        return NULL;
    }

    rp = ngx_calloc(sizeof(ngx_http_agentstream_remote_post_t) + key->len,
                    remote->log);
    if (rp == NULL) {
        ngx_free(argv[0].data);
        return NULL;
    }

    rp->remote = remote;
    rp->key.len = key->len;
    rp->key.data = (u_char *) (rp + 1);
    ngx_memcpy(rp->key.data, key->data, key->len);

    argv[1] = *key;
    argv[2] = *place;
    argv[3] = ngx_http_agentstream_remote_hash(ids[0], hashes[0]);
    argv[4] = ngx_http_agentstream_remote_hash(ids[1], hashes[1]);
    argv[5] = *entry;
    argv[6].data = max;
    argv[6].len = ngx_sprintf(max, "%d", NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES)
                  - max;
    argv[7].data = ttl;
    argv[7].len = ngx_sprintf(ttl, "%d", NGX_HTTP_AGENTSTREAM_CHAT_TTL) - ttl;

    argv[8].data = seen;
    argv[8].len = ngx_sprintf(seen, "%d", NGX_HTTP_AGENTSTREAM_CHAT_SEEN - 1)
                  - seen;

    rc = ngx_http_agentstream_remote_eval(remote,
                                        NGX_HTTP_AGENTSTREAM_SCRIPT_POST, 9,
                                        argv, handler, rp);
    ngx_free(argv[0].data);

    if (rc != NGX_OK) {
        ngx_free(rp);
        return NULL;
    }

    ngx_queue_insert_tail(&remote->chats.posts, &rp->queue);

    return rp;
}


static void
ngx_http_agentstream_remote_post_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_post_t *rp = data;

    ngx_int_t                       rc;
    ngx_str_t                       status;
    ngx_http_agentstream_later_t   *later;
    ngx_http_agentstream_remote_t  *remote;

    later = rp->later;
    remote = rp->remote;

    ngx_queue_remove(&rp->queue);
    ngx_free(rp);

    if (later == NULL) {
        return;
    }

    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len == 0) {
        /* perhaps it was stored: then it is recognised when it comes again */
        rc = NGX_ERROR;

        if (reply) {
            ngx_http_agentstream_zone_count(remote->zone, STORE_REFUSED, 1);
        }

    } else {
        rc = (status.data[0] == 'O') ? NGX_OK
             : (status.data[0] == 'B') ? NGX_BUSY : NGX_DECLINED;
    }

    ngx_http_agentstream_remote_answer(later, rc);
}


/*
 * Redis is back, and nobody has begun with what has come meanwhile: it is put
 * into Redis, one entry after the other, so that whoever serves the chat, on
 * any machine, gets it in order.  An entry is kept until Redis has it; one that
 * was sent twice has the same names.
 */

void
ngx_http_agentstream_remote_chat_forward(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *node)
{
    ngx_str_t                            text, place;
    ngx_http_agentstream_entry_t        *entry;
    ngx_http_agentstream_remote_t       *remote;
    ngx_http_agentstream_remote_post_t  *rp;

    rp = NULL;
    remote = ngx_http_agentstream_remote_of(zone);

    /* others add entries, and replace the place; only the owner takes an entry
       out */

    ngx_http_agentstream_zone_lock(zone);

    entry = ngx_queue_data(ngx_queue_head(&node->entries),
                           ngx_http_agentstream_entry_t, queue);

    place.len = node->place.len;
    place.data = ngx_alloc(ngx_max(place.len, 1), remote->log);

    if (place.data) {
        ngx_memcpy(place.data, node->place.data, place.len);
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (place.data) {
        text.len = entry->len;
        text.data = entry->data;

        rp = ngx_http_agentstream_remote_post(remote, &node->sn.str, &place,
                                    entry->hashes, &text,
                                    ngx_http_agentstream_remote_forward_done);
        ngx_free(place.data);
    }

    if (rp == NULL) {
        ngx_http_agentstream_zone_lock(zone);
        ngx_http_agentstream_zone_leave_chat_locked(zone, node);
        ngx_http_agentstream_zone_unlock(zone);
        return;
    }

    rp->node = node;
    rp->number = entry->number;
}


static void
ngx_http_agentstream_remote_forward_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_post_t *rp = data;

    ngx_str_t                          status;
    ngx_uint_t                         more, stored;
    ngx_http_agentstream_zone_t       *zone;
    ngx_http_agentstream_chat_node_t  *node;

    node = rp->node;
    zone = rp->remote->zone;

    ngx_queue_remove(&rp->queue);

    /* if Redis is away again, or the inbox is full there, the next look tries
       again */

    status = ngx_http_agentstream_redis_item(reply, 0);
    stored = (status.len && status.data[0] != 'B');

    ngx_http_agentstream_zone_lock(zone);

    if (stored) {
        ngx_http_agentstream_zone_remove_entry_locked(zone, node, rp->number);
    }

    more = stored && !ngx_queue_empty(&node->entries);

    if (!more) {
        ngx_http_agentstream_zone_leave_chat_locked(zone, node);
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (more) {
        ngx_http_agentstream_remote_chat_forward(zone, node);

    } else if (stored) {
        ngx_http_agentstream_remote_offer_chat(rp->remote, &rp->key);
    }

    ngx_free(rp);
}


static ngx_str_t
ngx_http_agentstream_remote_hash(u_char *buf, uint64_t hash)
{
    ngx_str_t  text;

    text.data = buf;
    text.len = hash ? (size_t) (ngx_sprintf(buf, "%xL", hash) - buf) : 0;

    return text;
}


void
ngx_http_agentstream_remote_chat_cancel(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_later_t *later)
{
    ngx_queue_t                         *q, *queue;
    ngx_http_agentstream_remote_chat_t  *chat;
    ngx_http_agentstream_remote_post_t  *rp;

    queue = &ngx_http_agentstream_remote_of(zone)->chats.posts;

    for (q = ngx_queue_head(queue);
         q != ngx_queue_sentinel(queue);
         q = ngx_queue_next(q))
    {
        rp = ngx_queue_data(q, ngx_http_agentstream_remote_post_t, queue);

        if (rp->later == later) {
            rp->later = NULL;
        }
    }

    queue = &ngx_http_agentstream_remote_of(zone)->chats.chats;

    for (q = ngx_queue_head(queue);
         q != ngx_queue_sentinel(queue);
         q = ngx_queue_next(q))
    {
        chat = ngx_queue_data(q, ngx_http_agentstream_remote_chat_t, queue);

        if (chat->claiming == later) {
            chat->claiming = NULL;
        }
    }
}


void
ngx_http_agentstream_remote_offer_chat(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *key)
{
    if (remote->zone->chat_handler) {
        remote->zone->chat_handler(key);
    }
}


void
ngx_http_agentstream_remote_chat_look(ngx_http_agentstream_zone_t *zone)
{
    u_char                         *p, *names;
    ngx_int_t                       rc;
    ngx_str_t                      *argv;
    ngx_uint_t                      i, n;
    ngx_http_agentstream_owner_t    owner;
    ngx_http_agentstream_remote_t  *remote;

    remote = ngx_http_agentstream_remote_of(zone);

    if (remote->chats.seeking
        || !ngx_http_agentstream_remote_steady(remote))
    {
        return;
    }

    argv = ngx_alloc((zone->sh->nslots + 2)
                     * (sizeof(ngx_str_t) + NGX_HTTP_AGENTSTREAM_OWNER_SIZE),
                     remote->log);
    if (argv == NULL) {
        return;
    }

    names = (u_char *) (argv + zone->sh->nslots + 2);

    argv[0].data = remote->owner.data;
    argv[0].len = 16;
    argv[1] = remote->owner;
    n = 2;

    ngx_http_agentstream_zone_lock(zone);

    for (i = 0; i < zone->sh->nslots; i++) {
        owner.slot = i;
        owner.generation = zone->sh->slots[i].generation;

        if (!ngx_http_agentstream_zone_dead_locked(zone, &owner)) {
            p = names + i * NGX_HTTP_AGENTSTREAM_OWNER_SIZE;

            argv[n].data = p;
            argv[n].len = ngx_sprintf(p, "%*s-%ui-%ui", (size_t) 16,
                                      remote->owner.data, i, owner.generation)
                          - p;
            n++;
        }
    }

    ngx_http_agentstream_zone_unlock(zone);

    rc = ngx_http_agentstream_remote_eval(remote,
                                        NGX_HTTP_AGENTSTREAM_SCRIPT_SEEK, n,
                                        argv,
                                        ngx_http_agentstream_remote_seek_done,
                                        remote);
    remote->chats.seeking = (rc == NGX_OK);

    ngx_free(argv);
}


static void
ngx_http_agentstream_remote_seek_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_t *remote = data;

    ngx_str_t   text;
    ngx_uint_t  i, n;

    remote->chats.seeking = 0;

    n = ngx_http_agentstream_redis_count(reply);

    if (n == 0) {
        return;
    }

    text = ngx_http_agentstream_redis_item(reply, 0);
    ngx_http_agentstream_remote_count_machines(remote, &text);

    for (i = 1; i < n; i++) {
        text = ngx_http_agentstream_redis_item(reply, i);
        ngx_http_agentstream_remote_offer_chat(remote, &text);
    }
}


void
ngx_http_agentstream_remote_count_machines(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *text)
{
    remote->chats.machines = ngx_max(ngx_http_agentstream_redis_number(text),
                                     1);
}


ngx_uint_t
ngx_http_agentstream_remote_chat_machines(ngx_http_agentstream_zone_t *zone)
{
    return ngx_http_agentstream_remote_of(zone)->chats.machines;
}

#endif
