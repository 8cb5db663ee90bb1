
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Senders.  A session has one turn at a time.  A sender that finds another
 * turn running is refused, or reads that turn, or waits: then it has a ticket
 * in the zone and a place in this worker's line, and tries again whenever it
 * is called.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_sender.h"


static void ngx_http_agentstream_sender_created(void *data, ngx_int_t rc,
    ngx_str_t *id);
static void ngx_http_agentstream_sender_busy(
    ngx_http_agentstream_sender_t *sender, ngx_str_t *turn);
static void ngx_http_agentstream_sender_enqueue(
    ngx_http_agentstream_sender_t *sender);
static void ngx_http_agentstream_sender_line_handler(void *data);
static void ngx_http_agentstream_sender_dequeue(
    ngx_http_agentstream_sender_t *sender);
static void ngx_http_agentstream_sender_count(
    ngx_http_agentstream_sender_t *sender, ngx_int_t n);
static void ngx_http_agentstream_sender_found(
    ngx_http_agentstream_sender_t *sender, ngx_http_agentstream_sender_e how,
    ngx_str_t *turn);
static void ngx_http_agentstream_sender_refused(
    ngx_http_agentstream_sender_t *sender, ngx_uint_t code,
    const char *reason, ngx_str_t *turn);


void
ngx_http_agentstream_sender_send(ngx_http_agentstream_sender_t *sender)
{
    u_char     buf[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    ngx_int_t  rc;
    ngx_str_t  id;

    if (sender->creator.turn) {
        /* its turn is under way */
        return;
    }

    sender->creator.handler = ngx_http_agentstream_sender_created;
    sender->creator.data = sender;

    id.data = buf;

    rc = ngx_http_agentstream_turn_create(&sender->args, &sender->creator, &id);

    if (rc != NGX_AGAIN) {
        ngx_http_agentstream_sender_created(sender, rc, &id);
    }
}


/* the turn exists, or does not come about */

static void
ngx_http_agentstream_sender_created(void *data, ngx_int_t rc, ngx_str_t *id)
{
    ngx_http_agentstream_sender_t *sender = data;

    if ((rc == NGX_BUSY || rc == NGX_DECLINED) && !sender->watching) {
        /* the turn may be another machine's, and so may the next ones */

        sender->watching = 1;
        (void) ngx_http_agentstream_store_watch(
                              ngx_http_agentstream_worker->zone,
                              &sender->watch, &sender->args.target.key, id, 1,
                              NULL);
    }

    if (rc == NGX_DONE) {
        /* whether it is to be read, waited for, or in the way, is known soon */
        ngx_http_agentstream_sender_enqueue(sender);
        return;
    }

    if (rc == NGX_BUSY) {
        ngx_http_agentstream_sender_busy(sender, id);
        return;
    }

    ngx_http_agentstream_sender_dequeue(sender);

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_sender_refused(sender,
                                            NGX_HTTP_SERVICE_UNAVAILABLE,
                                            "Out of zone memory", NULL);
        return;
    }

    if (rc == NGX_ABORT) {
        ngx_http_agentstream_sender_refused(sender,
                                            NGX_HTTP_SERVICE_UNAVAILABLE,
                                            "The store cannot be reached",
                                            NULL);
        return;
    }

    ngx_http_agentstream_sender_found(sender,
                         rc == NGX_OK ? ngx_http_agentstream_sender_started
                                      : ngx_http_agentstream_sender_repeated,
                         id);
}


static void
ngx_http_agentstream_sender_busy(ngx_http_agentstream_sender_t *sender,
    ngx_str_t *turn)
{
    /* a turn whose worker died continues here, so that it comes to its end */

    if (turn->len) {
        (void) ngx_http_agentstream_turn_adopt(&sender->args.target, turn);
    }

    switch (sender->args.target.conf->busy) {

    case NGX_HTTP_AGENTSTREAM_BUSY_QUEUE:
        ngx_http_agentstream_sender_enqueue(sender);
        return;

    case NGX_HTTP_AGENTSTREAM_BUSY_ATTACH:
        if (turn->len) {
            ngx_http_agentstream_sender_dequeue(sender);
            ngx_http_agentstream_sender_found(sender,
                                         ngx_http_agentstream_sender_attached,
                                         turn);
            return;
        }

        break;

    default: /* NGX_HTTP_AGENTSTREAM_BUSY_REJECT */
        break;
    }

    ngx_http_agentstream_sender_dequeue(sender);
    ngx_http_agentstream_sender_refused(sender, NGX_HTTP_CONFLICT,
                              turn->len ? "A turn is running in this session"
                                        : "Others wait for this session",
                              turn);
}


static void
ngx_http_agentstream_sender_enqueue(ngx_http_agentstream_sender_t *sender)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_turn_args_t  *args;

    args = &sender->args;

    if (args->ticket) {
        return;
    }

    rc = ngx_http_agentstream_store_queue(ngx_http_agentstream_worker->zone,
                                          &args->target.key, &args->ticket);

    if (rc == NGX_DECLINED) {
        /* the session has become free */
        ngx_http_agentstream_sender_send(sender);
        return;
    }

    if (rc != NGX_OK) {
        ngx_http_agentstream_sender_refused(sender,
                                            NGX_HTTP_SERVICE_UNAVAILABLE,
                                            "Out of zone memory", NULL);
        return;
    }

    sender->place.handler = ngx_http_agentstream_sender_line_handler;
    sender->place.data = sender;

    if (ngx_http_agentstream_line_join(&sender->place, &args->target.key,
                                       &args->target.session,
                                       &args->request_id)
        != NGX_OK)
    {
        ngx_http_agentstream_sender_dequeue(sender);
        ngx_http_agentstream_sender_refused(sender,
                                            NGX_HTTP_INTERNAL_SERVER_ERROR,
                                            NULL, NULL);
    }
}


/* called when it is the first one in its line, or a turn with its
   client_request_id has begun */

static void
ngx_http_agentstream_sender_line_handler(void *data)
{
    ngx_http_agentstream_sender_send(data);
}


static void
ngx_http_agentstream_sender_dequeue(ngx_http_agentstream_sender_t *sender)
{
    ngx_http_agentstream_line_leave(&sender->place);

    if (sender->args.ticket
        && ngx_http_agentstream_store_unqueue(ngx_http_agentstream_worker->zone,
                                              &sender->args.ticket))
    {
        /* who stood behind it may be the first now */
        ngx_http_agentstream_notify_tell(&sender->args.target.session);
    }
}


void
ngx_http_agentstream_sender_leave(ngx_http_agentstream_sender_t *sender)
{
    ngx_http_agentstream_sender_dequeue(sender);
    ngx_http_agentstream_turn_forget_creator(&sender->creator);

    ngx_http_agentstream_store_unwatch(ngx_http_agentstream_worker->zone,
                                       &sender->watch);

    if (sender->counted) {
        sender->counted = 0;
        ngx_http_agentstream_sender_count(sender, -1);
    }
}


/* a turn whose prompt waits for OpenCode to be free is given up when all its
   senders have left */

static void
ngx_http_agentstream_sender_count(ngx_http_agentstream_sender_t *sender,
    ngx_int_t n)
{
    ngx_http_agentstream_store_sender(ngx_http_agentstream_worker->zone,
                                      &sender->turn, n);
}


/* reports that there is a turn to read */

static void
ngx_http_agentstream_sender_found(ngx_http_agentstream_sender_t *sender,
    ngx_http_agentstream_sender_e how, ngx_str_t *turn)
{
    ngx_http_agentstream_outcome_t  outcome;

    sender->how = how;
    sender->turn.len = turn->len;
    sender->turn.data = sender->id;
    ngx_memcpy(sender->id, turn->data, turn->len);

    sender->counted = (how != ngx_http_agentstream_sender_attached);

    if (how == ngx_http_agentstream_sender_repeated) {
        /* a turn that was just started has already counted its sender */
        ngx_http_agentstream_sender_count(sender, 1);
    }

    ngx_http_agentstream_outcome_good(&outcome, NGX_HTTP_OK, NULL);

    sender->handler(sender->data, &outcome);
}


/* turn: the turn that is in the way; empty or NULL: none */

static void
ngx_http_agentstream_sender_refused(ngx_http_agentstream_sender_t *sender,
    ngx_uint_t code, const char *reason, ngx_str_t *turn)
{
    u_char                          *p;
    ngx_http_agentstream_outcome_t   outcome;

    ngx_http_agentstream_outcome_bad(&outcome, code, reason);

    if (turn && turn->len) {
        p = ngx_snprintf(outcome.buf, sizeof(outcome.buf),
                         "{\"turnId\":\"%V\"}", turn);

        outcome.details.data = outcome.buf;
        outcome.details.len = p - outcome.buf;
    }

    sender->handler(sender->data, &outcome);
}
