
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The chats of this worker, among those of all machines.  A chat is in Redis:
 * its inbox, the names of what has arrived, its state, its owner and an epoch,
 * which ascends with each owner.  The owner reads and changes a copy; what has
 * changed is sent with one command, the next one after the answer to the one
 * before, so that an outage only delays the rest.  Each command names owner and
 * epoch, and is refused if the chat has another owner, which then forgets the
 * chat.  An owner whose lease may have ended does nothing until Redis has said
 * again that the chat is its own.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* what a successful claim begins with */
#define NGX_HTTP_AGENTSTREAM_CHAT_HEAD  8


static ngx_http_agentstream_remote_chat_t *
    ngx_http_agentstream_remote_add_chat(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *key);
static void ngx_http_agentstream_remote_take_chat_done(void *data,
    redisReply *reply);
static ngx_int_t ngx_http_agentstream_remote_open_inbox(
    ngx_http_agentstream_remote_chat_t *chat);
static ngx_int_t ngx_http_agentstream_remote_fill_chat(
    ngx_http_agentstream_remote_chat_t *chat, redisReply *reply);
static void ngx_http_agentstream_remote_own_chats_done(void *data,
    redisReply *reply);


void
ngx_http_agentstream_remote_init_chats(ngx_http_agentstream_remote_t *remote)
{
    ngx_http_agentstream_remote_chats_t  *chats;

    chats = &remote->chats;

    ngx_queue_init(&chats->chats);
    ngx_queue_init(&chats->posts);
    ngx_rbtree_init(&chats->tree, &chats->sentinel,
                    ngx_str_rbtree_insert_value);

    chats->machines = 1;
}


void
ngx_http_agentstream_remote_close_chats(ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&remote->chats.chats)) {
        q = ngx_queue_head(&remote->chats.chats);

        ngx_http_agentstream_remote_free_chat(
                  ngx_queue_data(q, ngx_http_agentstream_remote_chat_t,
                                 queue));
    }

    while (!ngx_queue_empty(&remote->chats.posts)) {
        q = ngx_queue_head(&remote->chats.posts);

        ngx_queue_remove(q);
        ngx_free(ngx_queue_data(q, ngx_http_agentstream_remote_post_t,
                                queue));
    }
}


static ngx_http_agentstream_remote_chat_t *
ngx_http_agentstream_remote_add_chat(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *key)
{
    u_char                              *p;
    ngx_http_agentstream_chat_node_t    *node;
    ngx_http_agentstream_remote_chat_t  *chat;

    chat = ngx_calloc(sizeof(ngx_http_agentstream_remote_chat_t)
                      + sizeof("as1:{}:") + 2 * key->len, remote->log);
    node = ngx_calloc(sizeof(ngx_http_agentstream_chat_node_t), remote->log);

    if (chat == NULL || node == NULL) {
        if (chat) {
            ngx_free(chat);
        }

        if (node) {
            ngx_free(node);
        }

        return NULL;
    }

    p = (u_char *) (chat + 1);

    chat->sn.str.data = p;
    chat->sn.str.len = key->len;
    p = ngx_cpymem(p, key->data, key->len);

    chat->base.data = p;
    chat->base.len = ngx_sprintf(p, "as1:{%V}:", key) - p;

    chat->sn.node.key = ngx_murmur_hash2(key->data, key->len);
    chat->remote = remote;
    chat->node = node;
    chat->heard = ngx_current_msec;

    node->remote = chat;
    ngx_queue_init(&node->entries);

    ngx_queue_insert_tail(&remote->chats.chats, &chat->queue);
    ngx_rbtree_insert(&remote->chats.tree, &chat->sn.node);

    return chat;
}


void
ngx_http_agentstream_remote_free_chat(ngx_http_agentstream_remote_chat_t *chat)
{
    ngx_queue_t  *q;

    ngx_http_agentstream_remote_hide_chat(chat);

    while (!ngx_queue_empty(&chat->node->entries)) {
        q = ngx_queue_head(&chat->node->entries);

        ngx_queue_remove(q);
        ngx_free(ngx_queue_data(q, ngx_http_agentstream_entry_t, queue));
    }

    if (chat->place.data) {
        ngx_free(chat->place.data);
    }

    ngx_queue_remove(&chat->queue);
    ngx_free(chat->node);
    ngx_free(chat);
}


void
ngx_http_agentstream_remote_hide_chat(ngx_http_agentstream_remote_chat_t *chat)
{
    ngx_http_agentstream_zone_t  *zone;

    if (chat->leaving) {
        return;
    }

    chat->leaving = 1;
    ngx_rbtree_delete(&chat->remote->chats.tree, &chat->sn.node);

    if (chat->node->inbox) {
        zone = chat->remote->zone;

        ngx_http_agentstream_zone_lock(zone);
        ngx_http_agentstream_zone_leave_chat_locked(zone, chat->node->inbox);
        ngx_http_agentstream_zone_unlock(zone);

        chat->node->inbox = NULL;
    }
}


ngx_http_agentstream_remote_chat_t *
ngx_http_agentstream_remote_find_chat(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *key)
{
    return (ngx_http_agentstream_remote_chat_t *)
               ngx_str_rbtree_lookup(&remote->chats.tree, key,
                                     ngx_murmur_hash2(key->data, key->len));
}


ngx_int_t
ngx_http_agentstream_remote_chat_claim(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_store_chat_claim_t *claim,
    ngx_http_agentstream_later_t *later)
{
    u_char                               ttl[NGX_INT_T_LEN];
    ngx_str_t                            argv[6];
    ngx_http_agentstream_remote_t       *remote;
    ngx_http_agentstream_remote_chat_t  *chat;

    remote = ngx_http_agentstream_remote_of(zone);

    if (!remote->up
        || ngx_http_agentstream_remote_find_chat(remote, key))
    {
        return NGX_DECLINED;
    }

    chat = ngx_http_agentstream_remote_add_chat(remote, key);

    if (chat == NULL) {
        return NGX_ERROR;
    }

    argv[0] = chat->base;
    argv[1] = chat->sn.str;
    argv[2] = remote->owner;
    argv[3].data = ttl;
    argv[3].len = ngx_sprintf(ttl, "%d", NGX_HTTP_AGENTSTREAM_CHAT_TTL) - ttl;
    argv[4] = claim->create;
    argv[5].data = (u_char *) (ngx_http_agentstream_remote_steady(remote)
                               ? "1" : "0");
    argv[5].len = 1;

    if (ngx_http_agentstream_remote_eval(remote,
                                  NGX_HTTP_AGENTSTREAM_SCRIPT_TAKE, 6, argv,
                                  ngx_http_agentstream_remote_take_chat_done,
                                  chat)
        != NGX_OK)
    {
        ngx_http_agentstream_remote_free_chat(chat);
        return NGX_DECLINED;
    }

    chat->claim = claim;
    chat->made = (claim->create.len != 0);
    chat->claiming = later;
    chat->handler = claim->handler;
    chat->data = claim->data;
    chat->size = claim->size;
    later->zone = zone;

    return NGX_AGAIN;
}


static void
ngx_http_agentstream_remote_take_chat_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_chat_t *chat = data;

    ngx_int_t                      rc;
    ngx_str_t                      status;
    ngx_http_agentstream_later_t  *later;

    later = chat->claiming;
    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len == 0 || status.data[0] != 'O') {
        /* somebody else has it; or Redis is away, see back_chats() */

        ngx_http_agentstream_remote_free_chat(chat);

        if (later) {
            ngx_http_agentstream_remote_answer(later, NGX_DECLINED);
        }

        return;
    }

    rc = ngx_http_agentstream_remote_fill_chat(chat, reply);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_remote_open_inbox(chat);
    }

    chat->live = 1;
    chat->claiming = NULL;

    if (rc != NGX_OK || later == NULL) {
        ngx_http_agentstream_remote_chat_leave(chat->node, 1);

        if (later) {
            ngx_http_agentstream_remote_answer(later, rc);
        }

        return;
    }

    /* it may have got an entry before we knew that it is ours */

    ngx_http_agentstream_remote_push_chat(chat);
    ngx_http_agentstream_remote_answer(later, NGX_OK);
}


/*
 * If chats go on without Redis, what comes meanwhile is put into the zone, by
 * any worker of this machine: there it must be known who serves the chat.
 * NGX_DECLINED: another worker does, since Redis was away.  If there is no room
 * in the zone, there is none for what comes either.
 */

static ngx_int_t
ngx_http_agentstream_remote_open_inbox(
    ngx_http_agentstream_remote_chat_t *chat)
{
    ngx_int_t                          rc;
    ngx_queue_t                       *q;
    ngx_http_agentstream_zone_t       *zone;
    ngx_http_agentstream_entry_t      *entry;
    ngx_http_agentstream_chat_node_t  *inbox;

    /* nothing is put into what was made by its owner, as to poll */

    if (!chat->remote->local || chat->made) {
        return NGX_OK;
    }

    rc = NGX_OK;
    zone = chat->remote->zone;

    ngx_http_agentstream_zone_lock(zone);

    inbox = ngx_http_agentstream_zone_open_chat_locked(zone, &chat->sn.str);

    if (inbox && (inbox->busy
                  || ngx_http_agentstream_zone_served_locked(zone, inbox)))
    {
        ngx_http_agentstream_zone_rank_chat_locked(zone, inbox);
        rc = NGX_DECLINED;

    } else if (inbox) {
        ngx_http_agentstream_zone_own_chat_locked(zone, inbox, 1);
        chat->node->inbox = inbox;
        inbox->number = chat->node->number;

        for (q = ngx_queue_head(&inbox->entries);
             q != ngx_queue_sentinel(&inbox->entries);
             q = ngx_queue_next(q))
        {
            entry = ngx_queue_data(q, ngx_http_agentstream_entry_t, queue);
            entry->number = ++inbox->number;
        }
    }

    ngx_http_agentstream_zone_unlock(zone);

    return rc;
}


/* NGX_ERROR: no memory */

static ngx_int_t
ngx_http_agentstream_remote_fill_chat(ngx_http_agentstream_remote_chat_t *chat,
    redisReply *reply)
{
    ngx_str_t                                 epoch, place, state, age;
    ngx_str_t                                 busy, born, machines;
    ngx_http_agentstream_store_chat_claim_t  *claim;

    epoch = ngx_http_agentstream_redis_item(reply, 1);
    place = ngx_http_agentstream_redis_item(reply, 2);
    state = ngx_http_agentstream_redis_item(reply, 3);
    age = ngx_http_agentstream_redis_item(reply, 4);
    busy = ngx_http_agentstream_redis_item(reply, 5);
    born = ngx_http_agentstream_redis_item(reply, 6);
    machines = ngx_http_agentstream_redis_item(reply, 7);

    chat->epoch = ngx_http_agentstream_redis_number(&epoch);
    chat->born = ngx_http_agentstream_redis_number(&born);
    chat->term = chat->remote->chats.term;
    chat->heard = ngx_current_msec;
    ngx_http_agentstream_remote_count_machines(chat->remote, &machines);
    chat->node->busy = (busy.len == 1 && busy.data[0] == '1');

    /* the state of another version of the module means nothing */

    if (state.len == chat->size) {
        ngx_memcpy(chat->node->state, state.data, state.len);
    }

    chat->place.data = ngx_alloc(ngx_max(place.len, 1), chat->remote->log);

    if (chat->place.data == NULL) {
        return NGX_ERROR;
    }

    chat->place.len = place.len;
    ngx_memcpy(chat->place.data, place.data, place.len);

    ngx_http_agentstream_remote_enter_chat(chat, reply,
                                           NGX_HTTP_AGENTSTREAM_CHAT_HEAD);

    if (chat->claiming == NULL) {
        return NGX_OK;
    }

    claim = chat->claim;

    claim->node = chat->node;
    claim->others = chat->remote->local;
    claim->age = ngx_http_agentstream_redis_number(&age);
    claim->place.len = place.len;
    claim->place.data = ngx_pnalloc(claim->pool, ngx_max(place.len, 1));

    if (claim->place.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(claim->place.data, place.data, place.len);
    ngx_memcpy(claim->state, chat->node->state, claim->size);

    return NGX_OK;
}


void
ngx_http_agentstream_remote_enter_chat(
    ngx_http_agentstream_remote_chat_t *chat, redisReply *reply, ngx_uint_t i)
{
    uint64_t                           number;
    ngx_str_t                          text;
    ngx_http_agentstream_entry_t      *entry;
    ngx_http_agentstream_chat_node_t  *node;

    node = chat->node;

    for ( /* void */ ;
          i + 1 < ngx_http_agentstream_redis_count(reply);
          i += 2)
    {

        text = ngx_http_agentstream_redis_item(reply, i);
        number = ngx_http_agentstream_redis_number(&text);
        number = ngx_http_agentstream_local_number(number);
        text = ngx_http_agentstream_redis_item(reply, i + 1);

        if (number <= node->number) {
            continue;
        }

        entry = ngx_alloc(sizeof(ngx_http_agentstream_entry_t) + text.len,
                          chat->remote->log);
        if (entry == NULL) {
            chat->ask = 1;
            break;
        }

        entry->number = number;
        entry->len = text.len;

        if (text.len) {
            ngx_memcpy(entry->data, text.data, text.len);
        }

        ngx_queue_insert_tail(&node->entries, &entry->queue);
        node->nentries++;
        node->number = number;
    }

    if (node->inbox) {
        /* what comes into the zone from now on was said later */

        ngx_http_agentstream_zone_lock(chat->remote->zone);
        node->inbox->number = ngx_max(node->inbox->number, node->number);
        ngx_http_agentstream_zone_unlock(chat->remote->zone);
    }
}


void
ngx_http_agentstream_remote_renew_chats(ngx_http_agentstream_remote_t *remote)
{
    /* answers come in the order of commands: those after this one are of the
       new term */

    if (!remote->up
        || (ngx_msec_int_t) (remote->lease - ngx_current_msec) <= 0)
    {
        remote->chats.term++;
    }
}


void
ngx_http_agentstream_remote_doubt_chats(ngx_http_agentstream_remote_t *remote)
{
    remote->chats.term++;
    ngx_http_agentstream_remote_ask_chats(remote);
}


/* Redis is back.  It may have given us chats of which we were not told */

void
ngx_http_agentstream_remote_back_chats(ngx_http_agentstream_remote_t *remote)
{
    u_char     buf[128];
    ngx_str_t  argv[2];

    ngx_http_agentstream_remote_ask_chats(remote);

    ngx_str_set(&argv[0], "SMEMBERS");
    argv[1].data = buf;
    argv[1].len = ngx_sprintf(buf, "as1:o:%V", &remote->owner) - buf;

    (void) ngx_http_agentstream_redis_command(&remote->commands, 2, argv,
                                 ngx_http_agentstream_remote_own_chats_done,
                                 remote);
}


static void
ngx_http_agentstream_remote_own_chats_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_t *remote = data;

    ngx_str_t   key;
    ngx_uint_t  i;

    for (i = 0; i < ngx_http_agentstream_redis_count(reply); i++) {
        key = ngx_http_agentstream_redis_item(reply, i);

        if (ngx_http_agentstream_remote_find_chat(remote, &key) == NULL) {
            ngx_http_agentstream_remote_offer_chat(remote, &key);
        }
    }
}

#endif
