
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What Redis is told of the chats of this worker: what was saved, which entries
 * were dealt with, that a chat was left; and what it answers: new entries, or
 * that another worker has the chat.  If Redis has lost a chat, it gets all of
 * it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* the first arguments of the scripts */
#define NGX_HTTP_AGENTSTREAM_CHAT_ARGS  10


static void ngx_http_agentstream_remote_push_chat_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_left_chat_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_mend_chat(
    ngx_http_agentstream_remote_chat_t *chat);
static void ngx_http_agentstream_remote_mend_chat_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_lose_chat(
    ngx_http_agentstream_remote_chat_t *chat);
static ngx_uint_t ngx_http_agentstream_remote_chat_args(
    ngx_http_agentstream_remote_chat_t *chat, u_char *buf, ngx_str_t *argv);


void
ngx_http_agentstream_remote_chat_save(ngx_http_agentstream_chat_node_t *node,
    void *state, size_t size, ngx_uint_t busy, uint64_t number)
{
    ngx_queue_t                         *q;
    ngx_http_agentstream_entry_t        *entry;
    ngx_http_agentstream_remote_chat_t  *chat;

    chat = node->remote;

    ngx_memcpy(node->state, state, size);
    node->busy = busy;
    chat->version++;

    for (q = ngx_queue_head(&node->entries);
         q != ngx_queue_sentinel(&node->entries);
         q = ngx_queue_next(q))
    {
        entry = ngx_queue_data(q, ngx_http_agentstream_entry_t, queue);

        if (entry->number == number
            && chat->nremoved < NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES)
        {
            ngx_queue_remove(q);
            ngx_free(entry);
            node->nentries--;
            chat->removed[chat->nremoved++]
                                  = ngx_http_agentstream_remote_number(number);
            break;
        }
    }

    ngx_http_agentstream_remote_push_chat(chat);
}


ngx_uint_t
ngx_http_agentstream_remote_chat_saved(ngx_http_agentstream_chat_node_t *node)
{
    ngx_http_agentstream_remote_chat_t  *chat;

    chat = node->remote;

    return chat->acked == chat->version
           || (!chat->remote->up && chat->remote->local);
}


ngx_uint_t
ngx_http_agentstream_remote_chat_mine(ngx_http_agentstream_chat_node_t *node)
{
    ngx_http_agentstream_remote_t       *remote;
    ngx_http_agentstream_remote_chat_t  *chat;

    chat = node->remote;
    remote = chat->remote;

    if (!remote->up && remote->local) {
        return 1;
    }

    return chat->term == remote->chats.term
           && (ngx_msec_int_t) (remote->lease - ngx_current_msec) > 0;
}


void
ngx_http_agentstream_remote_chat_leave(ngx_http_agentstream_chat_node_t *node,
    ngx_uint_t force)
{
    ngx_http_agentstream_remote_chat_t  *chat;

    chat = node->remote;

    ngx_http_agentstream_remote_hide_chat(chat);

    chat->handler = NULL;
    chat->forced = force;

    ngx_http_agentstream_remote_push_chat(chat);
}


void
ngx_http_agentstream_remote_chat_entered(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *key)
{
    ngx_http_agentstream_remote_chat_t  *chat;

    chat = ngx_http_agentstream_remote_find_chat(remote, key);

    if (chat) {
        chat->ask = 1;
        ngx_http_agentstream_remote_push_chat(chat);
    }
}


/* sends what Redis does not have.  That the chat is left is not held back by
   an answer that is to come, because this worker may be about to exit, unless
   that answer brings a new epoch, which the command must name */

void
ngx_http_agentstream_remote_push_chat(ngx_http_agentstream_remote_chat_t *chat)
{
    u_char                         buf[(4 + NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES)
                                       * NGX_INT64_LEN];
    u_char                        *p;
    ngx_str_t                      argv[NGX_HTTP_AGENTSTREAM_CHAT_ARGS
                                        + NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES];
    ngx_uint_t                     i, n;
    ngx_http_agentstream_redis_pt  handler;

    if (!chat->remote->up || !chat->live || chat->left || chat->mending
        || (chat->leaving ? 0
                          : chat->inflight
                            || (chat->version == chat->acked && !chat->ask)))
    {
        return;
    }

    n = ngx_http_agentstream_remote_chat_args(chat, buf, argv);
    p = buf + 4 * NGX_INT64_LEN;

    ngx_str_set(&argv[6], "0");

    if (chat->leaving) {
        argv[6].data = (u_char *) "1";
    }

    if (chat->version == chat->acked) {
        argv[8].len = 0;
    }

    for (i = 0; i < chat->nremoved; i++) {
        argv[n].data = p;
        p = ngx_sprintf(p, "%uL", chat->removed[i]);
        argv[n].len = p - argv[n].data;
        n++;
    }

    handler = chat->leaving ? ngx_http_agentstream_remote_left_chat_done
                            : ngx_http_agentstream_remote_push_chat_done;

    if (ngx_http_agentstream_remote_eval(chat->remote,
                                         NGX_HTTP_AGENTSTREAM_SCRIPT_SAVE, n,
                                         argv, handler, chat)
        != NGX_OK)
    {
        return;
    }

    if (chat->leaving) {
        chat->left = 1;
        return;
    }

    chat->inflight = 1;
    chat->ask = 0;
    chat->sent = chat->version;
    chat->nsent = chat->nremoved;
}


/* what both scripts begin with; buf has room for four numbers */

static ngx_uint_t
ngx_http_agentstream_remote_chat_args(ngx_http_agentstream_remote_chat_t *chat,
    u_char *buf, ngx_str_t *argv)
{
    argv[0] = chat->base;
    argv[1] = chat->sn.str;
    argv[2] = chat->remote->owner;

    argv[3].data = buf;
    argv[3].len = ngx_sprintf(buf, "%uL", chat->epoch) - buf;
    buf += NGX_INT64_LEN;

    argv[4].data = buf;
    argv[4].len = ngx_sprintf(buf, "%d", NGX_HTTP_AGENTSTREAM_CHAT_TTL) - buf;
    buf += NGX_INT64_LEN;

    argv[5].data = buf;
    argv[5].len = ngx_sprintf(buf, "%uL",
                      ngx_http_agentstream_remote_number(chat->node->number))
                  - buf;

    argv[7].data = (u_char *) (chat->node->busy ? "1" : "0");
    argv[7].len = 1;

    argv[8].data = chat->node->state;
    argv[8].len = chat->size;

    buf += NGX_INT64_LEN;
    argv[9].data = buf;
    argv[9].len = ngx_sprintf(buf, "%uL", chat->born) - buf;

    return NGX_HTTP_AGENTSTREAM_CHAT_ARGS;
}


static void
ngx_http_agentstream_remote_push_chat_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_chat_t *chat = data;

    ngx_str_t  status;

    chat->inflight = 0;

    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len == 0 || chat->left) {
        /* it is sent again, see back_chats() and tick_chats(); or something
           was sent after it */
        return;
    }

    switch (status.data[0]) {

    case 'F': /* FENCED */
        ngx_http_agentstream_remote_lose_chat(chat);
        return;

    case 'N': /* NOKEY */
        ngx_http_agentstream_remote_mend_chat(chat);
        return;
    }

    chat->acked = chat->sent;
    chat->nremoved -= chat->nsent;
    ngx_memmove(chat->removed, chat->removed + chat->nsent,
                chat->nremoved * sizeof(uint64_t));
    chat->term = chat->remote->chats.term;
    chat->heard = ngx_current_msec;

    ngx_http_agentstream_remote_enter_chat(chat, reply, 1);

    ngx_http_agentstream_remote_push_chat(chat);

    if (chat->handler) {
        chat->handler(chat->data, NGX_OK);
    }
}


static void
ngx_http_agentstream_remote_left_chat_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_chat_t *chat = data;

    ngx_str_t  status;

    chat->left = 0;

    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len == 0) {
        return;
    }

    if (status.data[0] == 'N'
        && (chat->node->busy || !ngx_queue_empty(&chat->node->entries)))
    {
        ngx_http_agentstream_remote_mend_chat(chat);
        return;
    }

    /* what could not be done is not tried again at once, see seek_done() */

    if (ngx_http_agentstream_redis_count(reply) > 1 && !chat->forced) {
        ngx_http_agentstream_remote_offer_chat(chat->remote, &chat->sn.str);
    }

    ngx_http_agentstream_remote_free_chat(chat);
}


/* Redis has lost the chat: it gets all of it */

static void
ngx_http_agentstream_remote_mend_chat(ngx_http_agentstream_remote_chat_t *chat)
{
    u_char                        buf[(4 + NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES)
                                      * NGX_INT64_LEN];
    u_char                       *p;
    ngx_str_t                     argv[NGX_HTTP_AGENTSTREAM_CHAT_ARGS
                                    + 2 * NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES];
    ngx_uint_t                    n, i;
    ngx_queue_t                  *q;
    ngx_http_agentstream_entry_t *entry;

    n = ngx_http_agentstream_remote_chat_args(chat, buf, argv);
    p = buf + 4 * NGX_INT64_LEN;

    argv[6] = argv[7];
    argv[7] = chat->place;

    i = 0;

    for (q = ngx_queue_head(&chat->node->entries);
         q != ngx_queue_sentinel(&chat->node->entries)
         && i < NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES;
         q = ngx_queue_next(q))
    {
        entry = ngx_queue_data(q, ngx_http_agentstream_entry_t, queue);

        argv[n].data = p;
        p = ngx_sprintf(p, "%uL",
                        ngx_http_agentstream_remote_number(entry->number));
        argv[n].len = p - argv[n].data;
        argv[n + 1].data = entry->data;
        argv[n + 1].len = entry->len;

        n += 2;
        i++;
    }

    if (ngx_http_agentstream_remote_eval(chat->remote,
                                   NGX_HTTP_AGENTSTREAM_SCRIPT_MEND, n, argv,
                                   ngx_http_agentstream_remote_mend_chat_done,
                                   chat)
        == NGX_OK)
    {
        chat->inflight = 1;
        chat->mending = 1;
        chat->sent = chat->version;
        chat->nsent = chat->nremoved;
    }
}


static void
ngx_http_agentstream_remote_mend_chat_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_chat_t *chat = data;

    ngx_str_t  status, epoch;

    chat->inflight = 0;
    chat->mending = 0;

    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len == 0) {
        return;
    }

    if (status.data[0] == 'F') {
        ngx_http_agentstream_remote_lose_chat(chat);
        return;
    }

    epoch = ngx_http_agentstream_redis_item(reply, 1);

    chat->epoch = ngx_http_agentstream_redis_number(&epoch);
    chat->acked = chat->sent;
    chat->nremoved -= chat->nsent;
    ngx_memmove(chat->removed, chat->removed + chat->nsent,
                chat->nremoved * sizeof(uint64_t));

    /* what others have put into it meanwhile */

    chat->ask = 1;
    ngx_http_agentstream_remote_push_chat(chat);
}


/* another machine has it, because our lease had ended */

static void
ngx_http_agentstream_remote_lose_chat(ngx_http_agentstream_remote_chat_t *chat)
{
    void                           *data;
    ngx_http_agentstream_later_pt   handler;

    handler = chat->handler;
    data = chat->data;

    if (handler) {
        ngx_http_agentstream_zone_count(chat->remote->zone, FENCED, 1);

        ngx_log_error(NGX_LOG_WARN, chat->remote->log, 0,
                      "agentstream remote: a chat was taken over by another "
                      "worker");
    }

    ngx_http_agentstream_remote_free_chat(chat);

    if (handler) {
        handler(data, NGX_ABORT);
    }
}


void
ngx_http_agentstream_remote_tick_chats(ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                         *q, *next;
    ngx_http_agentstream_remote_chat_t  *chat;

    for (q = ngx_queue_head(&remote->chats.chats);
         q != ngx_queue_sentinel(&remote->chats.chats);
         q = next)
    {
        next = ngx_queue_next(q);
        chat = ngx_queue_data(q, ngx_http_agentstream_remote_chat_t, queue);

        if (chat->term != remote->chats.term
            || ngx_current_msec - chat->heard > NGX_HTTP_AGENTSTREAM_TOUCH)
        {
            chat->ask = 1;
        }

        ngx_http_agentstream_remote_push_chat(chat);
    }
}


void
ngx_http_agentstream_remote_ask_chats(ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                         *q;
    ngx_http_agentstream_remote_chat_t  *chat;

    for (q = ngx_queue_head(&remote->chats.chats);
         q != ngx_queue_sentinel(&remote->chats.chats);
         q = ngx_queue_next(q))
    {
        chat = ngx_queue_data(q, ngx_http_agentstream_remote_chat_t, queue);
        chat->ask = 1;
    }

    ngx_http_agentstream_remote_tick_chats(remote);
}

#endif
