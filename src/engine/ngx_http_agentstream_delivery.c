
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The chats that this worker serves.  Invariant: a chat is in the worker's list
 * exactly as long as this worker is its owner, or wants to be.  Everything that
 * happens to a chat ends in kick(), and what follows from it is decided in one
 * place, delivery_handler(): what was received, what is to be sent, whether
 * there is anything left to do.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_text.h"
#include "ngx_http_agentstream_worker.h"


/* how often chats of dead workers are looked for */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_LOOK  1000

/* how long a chat without anything to do is kept here */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_LOST  60000


typedef struct ngx_http_agentstream_deliveries_s {
    ngx_queue_t                          chats;
    ngx_event_t                          look;
    ngx_uint_t                           leaving;
} ngx_http_agentstream_deliveries_t;


static void ngx_http_agentstream_delivery_open(ngx_str_t *key);
static void ngx_http_agentstream_delivery_offered(ngx_str_t *key);
static void ngx_http_agentstream_delivery_claimed(void *data, ngx_int_t rc);
static ngx_int_t ngx_http_agentstream_delivery_begin_chat(
    ngx_http_agentstream_delivery_t *d);
static void ngx_http_agentstream_delivery_told_by_store(void *data,
    ngx_int_t rc);
static void ngx_http_agentstream_delivery_free(
    ngx_http_agentstream_delivery_t *d);
static ngx_http_agentstream_delivery_t *ngx_http_agentstream_delivery_alloc(
    ngx_str_t *key);
static void ngx_http_agentstream_delivery_close(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t force);
static void ngx_http_agentstream_delivery_handler(ngx_event_t *ev);
static void ngx_http_agentstream_delivery_wake(void *data);
static void ngx_http_agentstream_delivery_look_handler(ngx_event_t *ev);


ngx_int_t
ngx_http_agentstream_delivery_init_worker(ngx_cycle_t *cycle)
{
    ngx_http_agentstream_main_conf_t   *amcf;
    ngx_http_agentstream_deliveries_t  *all;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_agentstream_module);

    if (amcf->chats.nelts == 0) {
        return NGX_OK;
    }

    all = ngx_pcalloc(cycle->pool, sizeof(ngx_http_agentstream_deliveries_t));
    if (all == NULL) {
        return NGX_ERROR;
    }

    ngx_queue_init(&all->chats);

    all->look.handler = ngx_http_agentstream_delivery_look_handler;
    all->look.data = all;
    all->look.log = cycle->log;
    all->look.cancelable = 1;

    ngx_http_agentstream_worker->deliveries = all;

    ngx_http_agentstream_store_chat_listen(ngx_http_agentstream_worker->zone,
                                       ngx_http_agentstream_delivery_offered);

    ngx_add_timer(&all->look, NGX_HTTP_AGENTSTREAM_DELIVERY_LOOK);

    return ngx_http_agentstream_delivery_poll_init(cycle);
}


void
ngx_http_agentstream_delivery_leave(void)
{
    ngx_queue_t                        *q;
    ngx_http_agentstream_delivery_t    *d;
    ngx_http_agentstream_deliveries_t  *all;

    all = ngx_http_agentstream_worker->deliveries;

    if (all == NULL) {
        return;
    }

    all->leaving = 1;

    ngx_http_agentstream_delivery_poll_leave();

    for (q = ngx_queue_head(&all->chats);
         q != ngx_queue_sentinel(&all->chats);
         q = ngx_queue_next(q))
    {
        d = ngx_queue_data(q, ngx_http_agentstream_delivery_t, queue);

        d->leaving = 1;
        ngx_http_agentstream_delivery_kick(d);
    }
}


ngx_int_t
ngx_http_agentstream_delivery_post(ngx_http_agentstream_delivery_site_t *site,
    ngx_http_agentstream_chat_update_t *update, ngx_pool_t *pool,
    ngx_http_agentstream_delivery_receipt_t *receipt)
{
    ngx_int_t                               rc;
    ngx_http_agentstream_store_chat_post_t  post;

    post.ids[0] = update->id;
    post.ids[1] = update->key;

    if (ngx_http_agentstream_delivery_key(pool, site->conf, &update->session,
                                          &post.key)
        != NGX_OK
        || ngx_http_agentstream_delivery_pack(pool, update, &post.entry)
           != NGX_OK
        || ngx_http_agentstream_delivery_pack_site(pool, site, update,
                                                   &post.place)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    receipt->key = post.key;

    rc = ngx_http_agentstream_store_chat_post(
                                  ngx_http_agentstream_worker->zone, &post,
                                  &receipt->later);

    return (rc == NGX_AGAIN) ? rc
                             : ngx_http_agentstream_delivery_posted(receipt,
                                                                    rc);
}


ngx_int_t
ngx_http_agentstream_delivery_posted(
    ngx_http_agentstream_delivery_receipt_t *receipt, ngx_int_t rc)
{
    switch (rc) {

    case NGX_OK:
        break;

    case NGX_BUSY:
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "agentstream delivery: an update is dropped, because "
                      "too many of its chat wait");
        return NGX_ABORT;

    case NGX_ABORT:
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "agentstream delivery: an update is dropped, because "
                      "it is too large");
        return NGX_ABORT;

    case NGX_ERROR:
        return NGX_BUSY;

    default: /* NGX_DECLINED */
        return rc;
    }

    ngx_http_agentstream_count(CHAT_IN, 1);

    ngx_http_agentstream_delivery_open(&receipt->key);

    return NGX_OK;
}


/* the chat has something to do: begin, or tell the worker that serves it */

static void
ngx_http_agentstream_delivery_open(ngx_str_t *key)
{
    ngx_int_t                                 rc;
    ngx_http_agentstream_delivery_t          *d;
    ngx_http_agentstream_deliveries_t        *all;
    ngx_http_agentstream_store_chat_claim_t  *claim;

    all = ngx_http_agentstream_worker->deliveries;

    d = ngx_http_agentstream_delivery_find(key);

    if (d) {
        ngx_http_agentstream_delivery_kick(d);
        return;
    }

    if (all->leaving) {
        /* other workers look for it */
        return;
    }

    d = ngx_http_agentstream_delivery_alloc(key);
    if (d == NULL) {
        return;
    }

    claim = &d->claim;

    claim->pool = d->pool;
    claim->state = &d->state;
    claim->size = sizeof(d->state);
    claim->handler = ngx_http_agentstream_delivery_told_by_store;
    claim->data = d;

    d->claiming.handler = ngx_http_agentstream_delivery_claimed;
    d->claiming.data = d;

    ngx_queue_insert_tail(&all->chats, &d->queue);

    rc = ngx_http_agentstream_store_chat_claim(
                                        ngx_http_agentstream_worker->zone,
                                        &d->key, claim, &d->claiming);
    if (rc != NGX_AGAIN) {
        ngx_http_agentstream_delivery_claimed(d, rc);
    }
}


/* the store knows of a chat that nobody serves */

static void
ngx_http_agentstream_delivery_offered(ngx_str_t *key)
{
    if (key->len && ngx_http_agentstream_delivery_is_chat(key)) {
        ngx_http_agentstream_delivery_open(key);
    }
}


static void
ngx_http_agentstream_delivery_claimed(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_delivery_t *d = data;

    if (rc != NGX_OK) {

        if (rc == NGX_DECLINED) {
            ngx_http_agentstream_notify_tell(&d->key);
        }

        ngx_http_agentstream_delivery_free(d);
        return;
    }

    d->node = d->claim.node;

    if (d->leaving) {
        ngx_http_agentstream_delivery_close(d, 1);
        return;
    }

    if (d->claim.age != NGX_HTTP_AGENTSTREAM_CHAT_SAME_CLOCK) {
        /* times of another machine's clock */

        d->state.next += ngx_current_msec - d->claim.age - d->state.at;
        d->state.frozen += ngx_current_msec - d->claim.age - d->state.at;
    }

    if (d->claim.others && !d->state.running) {
        /* a "new" of that time is only known in OpenCode */
        d->state.known = 0;
    }

    rc = ngx_http_agentstream_delivery_begin_chat(d);

    if (rc != NGX_OK) {

        if (rc == NGX_DECLINED
            && ngx_http_agentstream_store_chat_rare(
                                        ngx_http_agentstream_worker->zone,
                                        &d->key,
                                        NGX_HTTP_AGENTSTREAM_DELIVERY_LOST))
        {
            ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                          "agentstream delivery: a chat waits whose location "
                          "is not configured any more");
        }

        ngx_http_agentstream_delivery_close(d, 1);
        return;
    }

    ngx_http_agentstream_delivery_kick(d);
}


/* NGX_DECLINED: its location is not configured any more */

static ngx_int_t
ngx_http_agentstream_delivery_begin_chat(ngx_http_agentstream_delivery_t *d)
{
    ngx_int_t  rc;

    rc = ngx_http_agentstream_delivery_unpack_site(d, &d->claim.place);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_notify_follow(&d->waiter, &d->key);
    }

    if (rc == NGX_OK && d->state.running) {
        rc = ngx_http_agentstream_delivery_follow(d);
    }

    return rc;
}


/* more was stored, or something has come; or another machine has the chat */

static void
ngx_http_agentstream_delivery_told_by_store(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_delivery_t *d = data;

    if (rc == NGX_OK) {
        ngx_http_agentstream_delivery_kick(d);
        return;
    }

    if (d->call) {
        ngx_http_agentstream_call_close(d->call);
        d->call = NULL;
    }

    ngx_http_agentstream_delivery_free(d);
}


static ngx_http_agentstream_delivery_t *
ngx_http_agentstream_delivery_alloc(ngx_str_t *key)
{
    ngx_pool_t                       *pool;
    ngx_http_agentstream_delivery_t  *d;

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    d = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_delivery_t));

    if (d == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    d->pool = pool;
    d->key.len = key->len;
    d->key.data = ngx_pstrdup(pool, key);

    if (d->key.data == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    ngx_queue_init(&d->queue);
    ngx_queue_init(&d->outs);
    ngx_queue_init(&d->errands);

    d->waiter.handler = ngx_http_agentstream_delivery_wake;
    d->waiter.data = d;

    /* a worker that is to exit does not wait for the next thing to be due */

    d->timer.handler = ngx_http_agentstream_delivery_handler;
    d->timer.data = d;
    d->timer.log = ngx_cycle->log;
    d->timer.cancelable = 1;

    d->posted.handler = ngx_http_agentstream_delivery_handler;
    d->posted.data = d;
    d->posted.log = ngx_cycle->log;

    return d;
}


/* gives the chat up; what it has to do is left to others */

static void
ngx_http_agentstream_delivery_close(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t force)
{
    if (ngx_http_agentstream_store_chat_leave(
                             ngx_http_agentstream_worker->zone, d->node, force)
        != NGX_OK)
    {
        /* an entry has come, or there was no memory to deal with one: look at
           all of them again, but not at once */

        d->scanned = 0;
        ngx_add_timer(&d->timer, 100);
        return;
    }

    ngx_http_agentstream_delivery_free(d);
}


static void
ngx_http_agentstream_delivery_free(ngx_http_agentstream_delivery_t *d)
{
    ngx_queue_t                          *q;
    ngx_http_agentstream_delivery_out_t  *out;

    ngx_queue_remove(&d->queue);
    ngx_http_agentstream_notify_detach(&d->waiter);
    ngx_http_agentstream_delivery_end_job(d);
    ngx_http_agentstream_delivery_end_turn(d);

    while (!ngx_queue_empty(&d->errands)) {
        q = ngx_queue_head(&d->errands);

        ngx_http_agentstream_delivery_end_errand(
              ngx_queue_data(q, ngx_http_agentstream_delivery_errand_t, queue));
    }

    while (!ngx_queue_empty(&d->outs)) {
        q = ngx_queue_head(&d->outs);
        out = ngx_queue_data(q, ngx_http_agentstream_delivery_out_t, queue);

        ngx_queue_remove(q);
        ngx_destroy_pool(out->pool);
    }

    if (d->timer.timer_set) {
        ngx_del_timer(&d->timer);
    }

    if (d->posted.posted) {
        ngx_delete_posted_event(&d->posted);
    }

    ngx_destroy_pool(d->pool);
}


ngx_http_agentstream_delivery_t *
ngx_http_agentstream_delivery_find(ngx_str_t *key)
{
    ngx_queue_t                      *q, *chats;
    ngx_http_agentstream_delivery_t  *d;

    chats = &ngx_http_agentstream_worker->deliveries->chats;

    for (q = ngx_queue_head(chats);
         q != ngx_queue_sentinel(chats);
         q = ngx_queue_next(q))
    {
        d = ngx_queue_data(q, ngx_http_agentstream_delivery_t, queue);

        if (d->key.len == key->len
            && ngx_memcmp(d->key.data, key->data, key->len) == 0)
        {
            return d;
        }
    }

    return NULL;
}


static void
ngx_http_agentstream_delivery_wake(void *data)
{
    ngx_http_agentstream_delivery_kick(data);
}


void
ngx_http_agentstream_delivery_kick(ngx_http_agentstream_delivery_t *d)
{
    ngx_post_event(&d->posted, &ngx_posted_events);
}


void
ngx_http_agentstream_delivery_again(ngx_http_agentstream_delivery_t *d)
{
    d->again = 1;
    ngx_http_agentstream_delivery_kick(d);
}


static void
ngx_http_agentstream_delivery_handler(ngx_event_t *ev)
{
    ngx_int_t                         idle;
    ngx_http_agentstream_delivery_t  *d;

    d = ev->data;

    if (d->node == NULL) {
        return;
    }

    if (d->leaving || d->again) {
        /* what is being sent is not given up: nobody would know whether it has
           arrived */

        if (d->call == NULL) {
            ngx_http_agentstream_delivery_close(d, 1);
        }

        return;
    }

    if (!ngx_http_agentstream_store_chat_mine(
                                  ngx_http_agentstream_worker->zone, d->node))
    {
        /* another machine may serve it: we are told when we know */
        ngx_add_timer(&d->timer, NGX_HTTP_AGENTSTREAM_DELIVERY_LOOK);
        return;
    }

    if (d->touched) {
        d->touched = 0;
        ngx_http_agentstream_delivery_ask(d);
    }

    if (d->sender.creator.turn == NULL) {
        /* it is not being made any more, but waits for its place */
        ngx_http_agentstream_delivery_release(d);
    }

    idle = (ngx_http_agentstream_delivery_read(d) == NGX_DECLINED);

    if (ngx_http_agentstream_delivery_send(d) == NGX_AGAIN) {
        return;
    }

    /* what was sent may have made room for the next message */

    if (idle && !d->posted.posted) {
        ngx_http_agentstream_delivery_close(d, 0);
    }
}


void
ngx_http_agentstream_delivery_save(ngx_http_agentstream_delivery_t *d,
    uint64_t entry)
{
    d->state.at = ngx_current_msec;

    ngx_http_agentstream_store_chat_save(ngx_http_agentstream_worker->zone,
                                         d->node, &d->state, sizeof(d->state),
                                         d->state.running, entry);
}


/* chats that nobody serves, because their worker is dead or has left them */

static void
ngx_http_agentstream_delivery_look_handler(ngx_event_t *ev)
{
    u_char                              buf[
                                       NGX_HTTP_AGENTSTREAM_DELIVERY_KEY_MAX];
    ngx_int_t                           rc;
    ngx_str_t                           key;
    ngx_http_agentstream_deliveries_t  *all;

    all = ev->data;

    if (all->leaving) {
        return;
    }

    key.data = buf;
    key.len = 0;

    do {
        rc = ngx_http_agentstream_store_chat_orphan(
                                        ngx_http_agentstream_worker->zone,
                                        &key, sizeof(buf));
        if (rc == NGX_OK && ngx_http_agentstream_delivery_is_chat(&key)) {
            ngx_http_agentstream_delivery_open(&key);
        }

    } while (rc != NGX_DECLINED);

    ngx_http_agentstream_store_chat_look(ngx_http_agentstream_worker->zone);
    ngx_http_agentstream_delivery_poll();

    ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_DELIVERY_LOOK);
}


size_t
ngx_http_agentstream_delivery_copy_id(u_char *id, size_t size, ngx_str_t *text)
{
    if (text->len == 0 || text->len > size) {
        return 0;
    }

    ngx_memcpy(id, text->data, text->len);

    return text->len;
}


ngx_str_t
ngx_http_agentstream_delivery_view_id(u_char *id, size_t len)
{
    ngx_str_t  text;

    text.len = len;
    text.data = id;

    return text;
}
