
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What a chat is sent, and when.  There are two tracks.  What must arrive is
 * sent in order: sentences, questions, the pieces of the answer.  The progress
 * and the typing sign may be left out: only their newest state is of interest,
 * and only when nothing of the first kind is due.  One call at a time.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_worker.h"


/* a progress message in which only the time has changed is edited less often,
   by this factor */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_SLOW      5

/* how often the time between two signs of life is doubled */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_BEATS     5

/* something is shown after this time, even if nothing has happened */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_FIRST     2000


static ngx_int_t ngx_http_agentstream_delivery_send_out(
    ngx_http_agentstream_delivery_t *d, ngx_msec_t *wait);
static ngx_int_t ngx_http_agentstream_delivery_send_piece(
    ngx_http_agentstream_delivery_t *d, ngx_msec_t *wait);
static ngx_uint_t ngx_http_agentstream_delivery_give_up(
    ngx_http_agentstream_delivery_t *d);
static ngx_int_t ngx_http_agentstream_delivery_send_tidy(
    ngx_http_agentstream_delivery_t *d, ngx_msec_t *wait);
static ngx_int_t ngx_http_agentstream_delivery_send_typing(
    ngx_http_agentstream_delivery_t *d, ngx_msec_t *wait);
static ngx_int_t ngx_http_agentstream_delivery_send_progress(
    ngx_http_agentstream_delivery_t *d, ngx_msec_t *wait);
static ngx_int_t ngx_http_agentstream_delivery_send_beat(
    ngx_http_agentstream_delivery_t *d, ngx_msec_t *wait);
static ngx_int_t ngx_http_agentstream_delivery_send_view(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t what);
static ngx_int_t ngx_http_agentstream_delivery_record(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t sending);


ngx_http_agentstream_delivery_out_t *
ngx_http_agentstream_delivery_out(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t kind)
{
    ngx_pool_t                           *pool;
    ngx_http_agentstream_delivery_out_t  *out;

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    out = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_delivery_out_t));

    if (out == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    out->pool = pool;
    out->since = ngx_time();
    out->action.kind = kind;
    out->action.place = d->place;

    return out;
}


void
ngx_http_agentstream_delivery_push(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_delivery_out_t *out)
{
    ngx_queue_insert_tail(&d->outs, &out->queue);
    ngx_http_agentstream_delivery_kick(d);
}


ngx_http_agentstream_delivery_out_t *
ngx_http_agentstream_delivery_say(ngx_http_agentstream_delivery_t *d,
    ngx_str_t *reply, ngx_str_t *text, uint64_t entry)
{
    ngx_http_agentstream_piece_t          piece;
    ngx_http_agentstream_view_args_t      args;
    ngx_http_agentstream_delivery_out_t  *out;

    out = ngx_http_agentstream_delivery_out(d, NGX_HTTP_AGENTSTREAM_CHAT_SEND);
    if (out == NULL) {
        return NULL;
    }

    ngx_http_agentstream_delivery_view_args(d, &args);

    out->action.message.len = reply->len;
    out->action.message.data = ngx_pstrdup(out->pool, reply);

    if (ngx_http_agentstream_markdown_plain(out->pool, args.form, &args.limits,
                                            text, &piece)
        != NGX_OK
        || (reply->len && out->action.message.data == NULL))
    {
        ngx_destroy_pool(out->pool);
        return NULL;
    }

    out->action.text = piece.markup;
    out->action.markup = 1;
    out->plain = piece.plain;
    out->entry = entry;

    ngx_http_agentstream_delivery_push(d, out);

    return out;
}


ngx_int_t
ngx_http_agentstream_delivery_send(ngx_http_agentstream_delivery_t *d)
{
    ngx_int_t   rc;
    ngx_msec_t  wait;

    if (d->call) {
        return NGX_AGAIN;
    }

    if (ngx_queue_empty(&d->outs) && !d->state.running && !d->typing) {
        return NGX_OK;
    }

    wait = NGX_TIMER_INFINITE;

    if (ngx_http_agentstream_delivery_due(d->state.frozen, &wait)) {

        /* nothing comes between a record and what it is about */

        rc = d->recorded ? NGX_DECLINED
                         : ngx_http_agentstream_delivery_send_out(d, &wait);

        if (rc == NGX_DECLINED) {
            rc = ngx_http_agentstream_delivery_send_piece(d, &wait);
        }

        if (rc == NGX_DECLINED) {
            rc = ngx_http_agentstream_delivery_send_tidy(d, &wait);
        }

        if (rc == NGX_DECLINED) {
            rc = ngx_http_agentstream_delivery_send_typing(d, &wait);
        }

        if (rc == NGX_DECLINED) {
            rc = ngx_http_agentstream_delivery_send_progress(d, &wait);
        }

        if (rc == NGX_OK) {
            return NGX_AGAIN;
        }

        if (rc == NGX_ERROR) {
            wait = ngx_min(wait, 1000);
        }
    }

    if (d->timer.timer_set) {
        ngx_del_timer(&d->timer);
    }

    if (wait != NGX_TIMER_INFINITE) {
        ngx_add_timer(&d->timer, ngx_max(wait, 1));
    }

    return NGX_AGAIN;
}


/*
 * A successor must know that a message is about to be sent, because it may
 * arrive although nobody knows it.  NGX_OK: it would know; NGX_AGAIN: this is
 * being stored, and told by kick().
 */

static ngx_int_t
ngx_http_agentstream_delivery_record(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t sending)
{
    if (!d->recorded || d->state.sending != sending) {
        d->recorded = 1;
        d->state.sending = sending;
        ngx_http_agentstream_delivery_save(d, 0);
    }

    if (!ngx_http_agentstream_store_chat_saved(
                                  ngx_http_agentstream_worker->zone, d->node))
    {
        return NGX_AGAIN;
    }

    d->recorded = 0;

    return NGX_OK;
}


/* these functions return NGX_OK: something is being sent; NGX_DECLINED: nothing
   of this kind is due; NGX_BUSY: it is due, but has to wait, and so does
   everything after it; NGX_ERROR: no memory */

static ngx_int_t
ngx_http_agentstream_delivery_send_out(ngx_http_agentstream_delivery_t *d,
    ngx_msec_t *wait)
{
    ngx_int_t                             rc;
    ngx_queue_t                          *q;
    ngx_http_agentstream_delivery_out_t  *out;

    if (ngx_queue_empty(&d->outs)) {
        return NGX_DECLINED;
    }

    q = ngx_queue_head(&d->outs);
    out = ngx_queue_data(q, ngx_http_agentstream_delivery_out_t, queue);

    /* only what is not a message is not counted by the platform */

    if (out->action.kind == NGX_HTTP_AGENTSTREAM_CHAT_SETTLE
        && ngx_http_agentstream_delivery_crowded(d, out->action.kind))
    {
        rc = NGX_DECLINED;

    } else if (out->action.kind != NGX_HTTP_AGENTSTREAM_CHAT_PRESSED
               && !ngx_http_agentstream_delivery_may(d, out->action.kind,
                                                     wait))
    {
        return NGX_BUSY;

    } else {
        rc = ngx_http_agentstream_delivery_call(d,
                                           NGX_HTTP_AGENTSTREAM_DELIVERY_OUT,
                                           &out->action);
    }

    if (rc == NGX_DECLINED) {
        ngx_http_agentstream_delivery_drop(d, out);
        ngx_http_agentstream_delivery_kick(d);
        return NGX_BUSY;
    }

    return rc;
}


static ngx_int_t
ngx_http_agentstream_delivery_send_piece(ngx_http_agentstream_delivery_t *d,
    ngx_msec_t *wait)
{
    ngx_int_t                            rc;
    ngx_uint_t                           again, ready;
    ngx_http_agentstream_piece_t        *piece;
    ngx_http_agentstream_chat_action_t   action;

    if (!d->state.running || !d->state.ended || d->pieces.elts == NULL
        || d->state.sent >= d->pieces.nelts
        || ngx_http_agentstream_delivery_give_up(d))
    {
        return NGX_DECLINED;
    }

    again = (d->state.sending == NGX_HTTP_AGENTSTREAM_SENDING_PIECE);
    ready = again && d->recorded;
    again = again && !d->recorded;

    if (!ready
        && !ngx_http_agentstream_delivery_may(d,
                                          again
                                          ? NGX_HTTP_AGENTSTREAM_CHAT_EDIT
                                          : NGX_HTTP_AGENTSTREAM_CHAT_SEND,
                                          wait))
    {
        return NGX_BUSY;
    }

    /* it may have arrived, but nobody knows it: it is not sent again, but put
       into the message that is there already */

    if (again && d->state.shown.len == 0) {
        ngx_http_agentstream_delivery_doubt(d);
        ngx_http_agentstream_delivery_kick(d);
        return NGX_BUSY;
    }

    if (!again
        && ngx_http_agentstream_delivery_record(d,
                                          NGX_HTTP_AGENTSTREAM_SENDING_PIECE)
           != NGX_OK)
    {
        return NGX_BUSY;
    }

    piece = d->pieces.elts;
    piece += d->state.sent;

    ngx_memzero(&action, sizeof(ngx_http_agentstream_chat_action_t));

    action.place = d->place;
    action.text = d->plain ? piece->plain : piece->markup;
    action.markup = !d->plain;

    if (again) {
        action.kind = NGX_HTTP_AGENTSTREAM_CHAT_EDIT;
        action.message = ngx_http_agentstream_delivery_get_id(&d->state.shown);

    } else {
        action.kind = NGX_HTTP_AGENTSTREAM_CHAT_SEND;

        if (d->state.sent == 0) {
            action.message = ngx_http_agentstream_delivery_get_id(
                                                            &d->state.reply);
        }
    }

    rc = ngx_http_agentstream_delivery_call(d,
                                         NGX_HTTP_AGENTSTREAM_DELIVERY_PIECE,
                                         &action);

    if (rc != NGX_OK) {
        /* it was certainly not sent */
        d->recorded = !again;
    }

    return rc;
}


static ngx_uint_t
ngx_http_agentstream_delivery_give_up(ngx_http_agentstream_delivery_t *d)
{
    if (ngx_time() - d->state.ended <= d->site.conf->chat_timeout) {
        return 0;
    }

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "agentstream delivery: an answer could not be delivered for "
                  "%T s, and is given up", d->site.conf->chat_timeout);

    d->state.sent = d->pieces.nelts;

    return 1;
}


/* the progress message gets its last text, or goes; then the turn was
   delivered */

static ngx_int_t
ngx_http_agentstream_delivery_send_tidy(ngx_http_agentstream_delivery_t *d,
    ngx_msec_t *wait)
{
    ngx_http_agentstream_chat_action_t  action;

    /* after a takeover the turn may have to be read again first */

    if (!d->state.running || !d->state.ended
        || (d->turn && d->pieces.elts == NULL))
    {
        return NGX_DECLINED;
    }

    if (d->state.shown.len == 0 || d->tidied
        || ngx_http_agentstream_delivery_crowded(d,
                                              NGX_HTTP_AGENTSTREAM_CHAT_EDIT))
    {
        ngx_http_agentstream_count(CHAT_ANSWERS, 1);
        ngx_http_agentstream_count(CHAT_SECONDS,
                                   ngx_max(ngx_time() - d->state.ended, 0));

        ngx_http_agentstream_delivery_finish(d);
        return NGX_BUSY;
    }

    if (!ngx_http_agentstream_delivery_may(d, NGX_HTTP_AGENTSTREAM_CHAT_EDIT,
                                           wait))
    {
        return NGX_BUSY;
    }

    if (d->site.conf->chat_progress
        != NGX_HTTP_AGENTSTREAM_CHAT_DELETE_PROGRESS)
    {
        return ngx_http_agentstream_delivery_send_view(d,
                                          NGX_HTTP_AGENTSTREAM_DELIVERY_TIDY);
    }

    ngx_memzero(&action, sizeof(ngx_http_agentstream_chat_action_t));

    action.kind = NGX_HTTP_AGENTSTREAM_CHAT_DELETE;
    action.place = d->place;
    action.message = ngx_http_agentstream_delivery_get_id(&d->state.shown);

    return ngx_http_agentstream_delivery_call(d,
                                          NGX_HTTP_AGENTSTREAM_DELIVERY_TIDY,
                                          &action);
}


static ngx_int_t
ngx_http_agentstream_delivery_send_typing(ngx_http_agentstream_delivery_t *d,
    ngx_msec_t *wait)
{
    ngx_int_t                           rc;
    ngx_http_agentstream_chat_action_t  action;

    if (!d->typing || d->refused) {
        return NGX_DECLINED;
    }

    if (d->typed
        && (d->platform->typing == 0
            || !ngx_http_agentstream_delivery_due(d->typed
                                                  + d->platform->typing,
                                                  wait)))
    {
        return NGX_DECLINED;
    }

    ngx_memzero(&action, sizeof(ngx_http_agentstream_chat_action_t));

    action.kind = NGX_HTTP_AGENTSTREAM_CHAT_TYPING;
    action.place = d->place;
    action.message = d->state.running
                   ? ngx_http_agentstream_delivery_get_id(&d->state.reply)
                   : d->update.message;

    d->typed = ngx_current_msec;

    rc = ngx_http_agentstream_delivery_call(d,
                                        NGX_HTTP_AGENTSTREAM_DELIVERY_TYPING,
                                        &action);
    if (rc == NGX_DECLINED) {
        d->refused = 1;
    }

    return rc;
}


static ngx_int_t
ngx_http_agentstream_delivery_send_progress(
    ngx_http_agentstream_delivery_t *d, ngx_msec_t *wait)
{
    ngx_msec_t  interval;

    if (d->turn == NULL || d->state.mute || d->state.ended
        || d->view.started == 0)
    {
        return NGX_DECLINED;
    }

    if (d->platform->edit == 0) {
        return ngx_http_agentstream_delivery_send_beat(d, wait);
    }

    interval = d->site.conf->chat_edit_interval;

    if (interval == 0) {
        interval = d->state.group ? d->platform->edit_group
                                  : d->platform->edit;
    }

    if (d->state.shown.len == 0) {

        if (d->view.version <= d->version
            && !ngx_http_agentstream_delivery_due(d->began
                                        + NGX_HTTP_AGENTSTREAM_DELIVERY_FIRST,
                                        wait))
        {
            return NGX_DECLINED;
        }

    } else if (!ngx_http_agentstream_delivery_due(
                                 d->edited
                                 + ((d->view.version != d->version)
                                    ? interval
                                    : interval
                                      * NGX_HTTP_AGENTSTREAM_DELIVERY_SLOW),
                                 wait))
    {
        return NGX_DECLINED;
    }

    if (!d->recorded
        && !ngx_http_agentstream_delivery_might(d,
                                           d->state.shown.len
                                           ? NGX_HTTP_AGENTSTREAM_CHAT_EDIT
                                           : NGX_HTTP_AGENTSTREAM_CHAT_CREATE,
                                           wait))
    {
        return NGX_DECLINED;
    }

    return ngx_http_agentstream_delivery_send_view(d,
                                      NGX_HTTP_AGENTSTREAM_DELIVERY_PROGRESS);
}


/* where nothing can be edited, a message says now and then that the agent still
   works: each time after twice as long, and not while it waits for an answer */

static ngx_int_t
ngx_http_agentstream_delivery_send_beat(ngx_http_agentstream_delivery_t *d,
    ngx_msec_t *wait)
{
    u_char                              buf[64];
    ngx_msec_t                          interval;
    ngx_http_agentstream_chat_action_t  action;

    interval = d->site.conf->chat_heartbeat
               << ngx_min(d->beats, NGX_HTTP_AGENTSTREAM_DELIVERY_BEATS);

    if (interval == 0 || d->view.nasked
        || !ngx_http_agentstream_delivery_due(d->edited + interval, wait)
        || !ngx_http_agentstream_delivery_might(d,
                                          NGX_HTTP_AGENTSTREAM_CHAT_SEND,
                                          wait))
    {
        return NGX_DECLINED;
    }

    d->beats++;
    d->edited = ngx_current_msec;

    ngx_memzero(&action, sizeof(ngx_http_agentstream_chat_action_t));

    action.kind = NGX_HTTP_AGENTSTREAM_CHAT_SEND;
    action.place = d->place;
    action.text.data = buf;
    action.text.len = ngx_sprintf(buf, "Still working... (%M s)",
                                  (ngx_current_msec - d->began) / 1000)
                      - buf;

    return ngx_http_agentstream_delivery_call(d,
                                       NGX_HTTP_AGENTSTREAM_DELIVERY_PROGRESS,
                                       &action);
}


static ngx_int_t
ngx_http_agentstream_delivery_send_view(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t what)
{
    ngx_int_t                            rc;
    ngx_pool_t                          *pool;
    ngx_http_agentstream_piece_t         piece;
    ngx_http_agentstream_view_args_t     args;
    ngx_http_agentstream_chat_action_t   action;

    if (d->state.shown.len == 0
        && ngx_http_agentstream_delivery_record(d,
                                       NGX_HTTP_AGENTSTREAM_SENDING_PROGRESS)
           != NGX_OK)
    {
        return NGX_BUSY;
    }

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_delivery_view_args(d, &args);

    rc = ngx_http_agentstream_view_progress(&d->view, pool, &args, &piece);

    if (rc == NGX_OK) {
        ngx_memzero(&action, sizeof(ngx_http_agentstream_chat_action_t));

        action.place = d->place;
        action.text = d->unmarked ? piece.plain : piece.markup;
        action.markup = !d->unmarked;

        if (d->state.shown.len) {
            action.kind = NGX_HTTP_AGENTSTREAM_CHAT_EDIT;
            action.message = ngx_http_agentstream_delivery_get_id(
                                                            &d->state.shown);

        } else {
            action.kind = NGX_HTTP_AGENTSTREAM_CHAT_CREATE;
        }

        d->version = d->view.version;
        d->edited = ngx_current_msec;

        rc = ngx_http_agentstream_delivery_call(d, what, &action);
    }

    ngx_destroy_pool(pool);

    return rc;
}
