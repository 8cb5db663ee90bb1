
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The inbox of a chat.  Presses, commands and answers are dealt with as they
 * come, also while a turn is running.  Messages wait in order: one at a time
 * is the chat's job, until its answer was delivered.  An entry stays in the
 * zone until what it asks for is done, so that a successor does it if this
 * worker dies.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_text.h"
#include "ngx_http_agentstream_worker.h"


/* the pause when there is no room for a turn, doubled each time */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_POSTPONE      1000
#define NGX_HTTP_AGENTSTREAM_DELIVERY_POSTPONE_MAX  10000


static void ngx_http_agentstream_delivery_dispatch(
    ngx_http_agentstream_delivery_errand_t *errand);
static void ngx_http_agentstream_delivery_refuse_more(
    ngx_http_agentstream_delivery_errand_t *errand);
static void ngx_http_agentstream_delivery_begin(
    ngx_http_agentstream_delivery_t *d);


ngx_int_t
ngx_http_agentstream_delivery_read(ngx_http_agentstream_delivery_t *d)
{
    ngx_int_t                                 rc;
    ngx_pool_t                               *pool;
    ngx_http_agentstream_delivery_errand_t   *errand;
    ngx_http_agentstream_store_chat_entry_t   entry;

    for ( ;; ) {
        pool = ngx_create_pool(1024, ngx_cycle->log);
        if (pool == NULL) {
            break;
        }

        rc = ngx_http_agentstream_store_chat_next(
                                           ngx_http_agentstream_worker->zone,
                                           d->node, d->scanned, pool, &entry);
        if (rc != NGX_OK) {
            ngx_destroy_pool(pool);
            break;
        }

        errand = ngx_http_agentstream_delivery_errand(d, pool);
        if (errand == NULL) {
            break;
        }

        errand->entry = entry.number;
        errand->update = ngx_palloc(pool,
                                    sizeof(ngx_http_agentstream_chat_update_t));
        if (errand->update == NULL) {
            ngx_http_agentstream_delivery_end_errand(errand);
            break;
        }

        rc = ngx_http_agentstream_delivery_unpack(pool, &entry.entry,
                                                  errand->update);
        if (rc == NGX_ERROR) {
            ngx_http_agentstream_delivery_end_errand(errand);
            break;
        }

        d->scanned = entry.number;

        if (rc == NGX_DECLINED) {
            ngx_http_agentstream_delivery_save(d, entry.number);
            ngx_http_agentstream_delivery_end_errand(errand);
            continue;
        }

        ngx_http_agentstream_delivery_dispatch(errand);
    }

    if (d->job == NULL && !d->state.running && d->nwaiting) {

        if (d->resume
            && (ngx_msec_int_t) (d->resume - ngx_current_msec) > 0)
        {
            ngx_add_timer(&d->timer, d->resume - ngx_current_msec);

        } else {
            ngx_http_agentstream_delivery_begin(d);
        }
    }

    return (d->job || d->state.running || d->nwaiting
            || !ngx_queue_empty(&d->errands))
           ? NGX_OK : NGX_DECLINED;
}


static void
ngx_http_agentstream_delivery_dispatch(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    ngx_http_agentstream_delivery_t     *d;
    ngx_http_agentstream_chat_update_t  *update;

    d = errand->delivery;
    update = errand->update;

    /* who was allowed when it arrived may not be any more */

    if (!ngx_http_agentstream_delivery_allowed(d->site.conf, update)) {
        ngx_http_agentstream_delivery_save(d, errand->entry);
        ngx_http_agentstream_delivery_end_errand(errand);
        return;
    }

    d->state.group = update->group;

    switch (update->kind) {

    case NGX_HTTP_AGENTSTREAM_CHAT_PRESS:
        ngx_http_agentstream_delivery_press(errand);
        return;

    case NGX_HTTP_AGENTSTREAM_CHAT_COMMAND:

        if (ngx_http_agentstream_delivery_command(errand)) {
            return;
        }

        break;

    default: /* NGX_HTTP_AGENTSTREAM_CHAT_MESSAGE */
        break;
    }

    if (ngx_http_agentstream_delivery_answer(errand) == NGX_OK) {
        return;
    }

    ngx_http_agentstream_delivery_wait(errand);
}


void
ngx_http_agentstream_delivery_wait(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    ngx_http_agentstream_delivery_t  *d;

    d = errand->delivery;

    if (d->nwaiting == NGX_HTTP_AGENTSTREAM_DELIVERY_WAITING) {
        ngx_http_agentstream_delivery_refuse_more(errand);
        return;
    }

    d->waiting[d->nwaiting++] = errand->entry;

    ngx_http_agentstream_delivery_end_errand(errand);
}


/* too many messages wait: the sender is told so, once for all that come before
   it can be said */

static void
ngx_http_agentstream_delivery_refuse_more(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    ngx_str_t                             text;
    ngx_queue_t                          *q;
    ngx_http_agentstream_delivery_t      *d;
    ngx_http_agentstream_delivery_out_t  *out;

    d = errand->delivery;

    for (q = ngx_queue_head(&d->outs);
         q != ngx_queue_sentinel(&d->outs);
         q = ngx_queue_next(q))
    {
        out = ngx_queue_data(q, ngx_http_agentstream_delivery_out_t, queue);

        if (out->full) {
            ngx_http_agentstream_delivery_save(d, errand->entry);
            ngx_http_agentstream_delivery_end_errand(errand);
            return;
        }
    }

    ngx_str_set(&text, "Too many messages wait here already. I do not read "
                "this one: please send it again later.");

    out = ngx_http_agentstream_delivery_say(d, &errand->update->message, &text,
                                            errand->entry);
    if (out) {
        out->full = 1;
    }

    ngx_http_agentstream_delivery_end_errand(errand);
}


ngx_int_t
ngx_http_agentstream_delivery_peek(ngx_http_agentstream_delivery_t *d,
    ngx_pool_t *pool, uint64_t number,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_int_t                                rc;
    ngx_http_agentstream_store_chat_entry_t  entry;

    rc = ngx_http_agentstream_store_chat_next(
                                           ngx_http_agentstream_worker->zone,
                                           d->node, number - 1, pool, &entry);

    if (rc == NGX_OK && entry.number != number) {
        rc = NGX_DECLINED;
    }

    return (rc == NGX_OK)
           ? ngx_http_agentstream_delivery_unpack(pool, &entry.entry, update)
           : rc;
}


/* the oldest message that waits becomes the job */

static void
ngx_http_agentstream_delivery_begin(ngx_http_agentstream_delivery_t *d)
{
    uint64_t   number;
    ngx_int_t  rc;

    d->job = ngx_create_pool(1024, ngx_cycle->log);
    if (d->job == NULL) {
        ngx_add_timer(&d->timer, 1000);
        return;
    }

    number = d->waiting[0];

    rc = ngx_http_agentstream_delivery_peek(d, d->job, number, &d->update);

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_delivery_end_job(d);
        ngx_add_timer(&d->timer, 1000);
        return;
    }

    if (rc == NGX_OK && d->noting
        && ngx_http_agentstream_delivery_is_new(&d->update))
    {
        /* both write the same, and this has to be the last */
        ngx_http_agentstream_delivery_end_job(d);
        return;
    }

    d->nwaiting--;
    ngx_memmove(d->waiting, d->waiting + 1, d->nwaiting * sizeof(uint64_t));

    if (rc != NGX_OK) {
        ngx_http_agentstream_delivery_end_job(d);
        ngx_http_agentstream_delivery_kick(d);
        return;
    }

    d->job_entry = number;
    d->began = ngx_current_msec;

    if (ngx_http_agentstream_delivery_is_new(&d->update)) {
        ngx_http_agentstream_delivery_resolve(d,
                                         ngx_http_agentstream_delivery_renew);
        return;
    }

    d->typing = 1;

    ngx_http_agentstream_delivery_resolve(d,
                                        ngx_http_agentstream_delivery_prompt);
}


ngx_int_t
ngx_http_agentstream_delivery_postpone(ngx_http_agentstream_delivery_t *d)
{
    uint64_t    number;
    ngx_uint_t  n;

    n = 1 + d->nalbum;

    if (d->postponed == 0) {
        d->postponed = ngx_time();
    }

    if (ngx_time() - d->postponed > d->site.conf->chat_timeout
        || d->nwaiting + n > NGX_HTTP_AGENTSTREAM_DELIVERY_WAITING)
    {
        return NGX_DECLINED;
    }

    number = d->job_entry;

    ngx_http_agentstream_delivery_end_job(d);

    ngx_memmove(d->waiting + n, d->waiting, d->nwaiting * sizeof(uint64_t));
    d->waiting[0] = number;
    ngx_memcpy(d->waiting + 1, d->album, d->nalbum * sizeof(uint64_t));
    d->nwaiting += n;
    d->nalbum = 0;

    d->postpone = ngx_min(ngx_max(d->postpone * 2,
                                  NGX_HTTP_AGENTSTREAM_DELIVERY_POSTPONE),
                          NGX_HTTP_AGENTSTREAM_DELIVERY_POSTPONE_MAX);
    d->resume = ngx_current_msec + d->postpone;

    ngx_http_agentstream_delivery_kick(d);

    return NGX_OK;
}


void
ngx_http_agentstream_delivery_end_job(ngx_http_agentstream_delivery_t *d)
{
    ngx_http_agentstream_verb_t  *verb;

    if (d->job == NULL) {
        return;
    }

    verb = d->verb;

    if (verb) {
        d->verb = NULL;
        ngx_http_agentstream_verb_leave(verb);
    }

    ngx_http_agentstream_delivery_end_fetch(d);
    ngx_http_agentstream_sender_leave(&d->sender);
    ngx_memzero(&d->sender, sizeof(ngx_http_agentstream_sender_t));

    ngx_destroy_pool(d->job);

    d->job = NULL;
    d->job_entry = 0;
    d->typing = 0;
}


ngx_http_agentstream_delivery_errand_t *
ngx_http_agentstream_delivery_errand(ngx_http_agentstream_delivery_t *d,
    ngx_pool_t *pool)
{
    ngx_http_agentstream_delivery_errand_t  *errand;

    errand = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_delivery_errand_t));

    if (errand == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    errand->pool = pool;
    errand->delivery = d;

    ngx_queue_insert_tail(&d->errands, &errand->queue);

    return errand;
}


void
ngx_http_agentstream_delivery_end_errand(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    ngx_http_agentstream_verb_t      *verb;
    ngx_http_agentstream_delivery_t  *d;

    d = errand->delivery;
    verb = errand->verb;

    if (verb) {
        errand->verb = NULL;
        ngx_http_agentstream_verb_leave(verb);
    }

    ngx_queue_remove(&errand->queue);
    ngx_destroy_pool(errand->pool);

    ngx_http_agentstream_delivery_kick(d);
}
