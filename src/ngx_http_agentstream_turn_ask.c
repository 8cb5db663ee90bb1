
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 3: questions and permission requests of a turn.  Those a client may
 * answer are listed in the turn's node, where every worker finds them; those
 * nobody answers in time, or nobody is to be asked about, are answered here.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* an answer that did not get through is tried again */
#define NGX_HTTP_AGENTSTREAM_TURN_ASK_AGAIN  5000


/* in the turn's pool */

typedef struct {
    ngx_queue_t                          queue;
    ngx_http_agentstream_turn_t         *turn;
    ngx_http_agentstream_call_t         *call;     /* the answer, or NULL */
    ngx_str_t                            id;
    ngx_msec_t                           due;      /* 0: never */
    unsigned                             permission:1;
    unsigned                             waits:1;
} ngx_http_agentstream_turn_ask_t;


static ngx_http_agentstream_turn_ask_t *ngx_http_agentstream_turn_ask_find(
    ngx_http_agentstream_turn_t *turn, ngx_str_t *id);
static ngx_http_agentstream_turn_ask_t *ngx_http_agentstream_turn_ask_next(
    ngx_http_agentstream_turn_t *turn, ngx_http_agentstream_turn_ask_t *ask);
static void ngx_http_agentstream_turn_ask_asked(
    ngx_http_agentstream_turn_t *turn, ngx_str_t *id, ngx_uint_t permission);
static ngx_int_t ngx_http_agentstream_turn_ask_list(
    ngx_http_agentstream_turn_ask_t *ask);
static void ngx_http_agentstream_turn_ask_answered(
    ngx_http_agentstream_turn_ask_t *ask);
static void ngx_http_agentstream_turn_ask_answer(
    ngx_http_agentstream_turn_ask_t *ask);
static void ngx_http_agentstream_turn_ask_done(void *data,
    ngx_http_agentstream_call_t *call);


static ngx_str_t  ngx_http_agentstream_turn_ask_once =
    ngx_string("{\"reply\":\"once\"}");
static ngx_str_t  ngx_http_agentstream_turn_ask_reject =
    ngx_string("{\"reply\":\"reject\"}");


void
ngx_http_agentstream_turn_ask_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits)
{
    ngx_http_agentstream_turn_t *turn = ctx;

    ngx_http_agentstream_turn_ask_t  *ask;

    ask = ngx_http_agentstream_turn_ask_find(turn, id);

    if (waits && ask == NULL) {
        ngx_http_agentstream_turn_ask_asked(turn, id, permission);

    } else if (!waits && ask) {
        ngx_http_agentstream_turn_ask_answered(ask);
    }
}


static ngx_http_agentstream_turn_ask_t *
ngx_http_agentstream_turn_ask_find(ngx_http_agentstream_turn_t *turn,
    ngx_str_t *id)
{
    ngx_http_agentstream_turn_ask_t  *ask;

    for (ask = ngx_http_agentstream_turn_ask_next(turn, NULL);
         ask;
         ask = ngx_http_agentstream_turn_ask_next(turn, ask))
    {
        if (ask->id.len == id->len
            && ngx_memcmp(ask->id.data, id->data, id->len) == 0)
        {
            return ask;
        }
    }

    return NULL;
}


/* the one after it, the first one after NULL; NULL: there is none */

static ngx_http_agentstream_turn_ask_t *
ngx_http_agentstream_turn_ask_next(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_ask_t *ask)
{
    ngx_queue_t  *q;

    q = ngx_queue_next(ask ? &ask->queue : &turn->asks);

    if (q == ngx_queue_sentinel(&turn->asks)) {
        return NULL;
    }

    return ngx_queue_data(q, ngx_http_agentstream_turn_ask_t, queue);
}


static void
ngx_http_agentstream_turn_ask_asked(ngx_http_agentstream_turn_t *turn,
    ngx_str_t *id, ngx_uint_t permission)
{
    ngx_msec_t                        timeout;
    ngx_uint_t                        automatic;
    ngx_http_agentstream_turn_ask_t  *ask;

    ask = ngx_pcalloc(turn->pool, sizeof(ngx_http_agentstream_turn_ask_t));
    if (ask == NULL) {
        goto failed;
    }

    ask->id.len = id->len;
    ask->id.data = ngx_pstrdup(turn->pool, id);
    if (ask->id.data == NULL) {
        goto failed;
    }

    ask->turn = turn;
    ask->permission = permission;
    ask->waits = 1;

    ngx_queue_insert_tail(&turn->asks, &ask->queue);

    automatic = (permission
                 && turn->conf->permissions != NGX_HTTP_AGENTSTREAM_ASK);

    if (automatic && turn->phase < ngx_http_agentstream_turn_prompting) {
        /* told by the journal of a turn that was taken over: it may be
           answered in the next packet */

        ask->due = ngx_current_msec;
        return;
    }

    if (automatic || ngx_http_agentstream_turn_ask_list(ask) != NGX_OK) {
        ngx_http_agentstream_turn_ask_answer(ask);
        return;
    }

    timeout = permission ? turn->conf->permission_timeout
                         : turn->conf->question_timeout;

    ask->due = timeout ? ngx_current_msec + timeout : 0;

    return;

failed:

    /* nobody could ever answer it */

    turn->failed = 1;
}


static ngx_int_t
ngx_http_agentstream_turn_ask_list(ngx_http_agentstream_turn_ask_t *ask)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_turn_t  *turn;
    ngx_http_agentstream_zone_t  *zone;

    turn = ask->turn;
    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_zone_lock(zone);

    rc = ngx_http_agentstream_zone_ask_locked(zone, turn->node, &ask->id,
                                              ask->permission);

    ngx_http_agentstream_zone_unlock(zone);

    if (rc != NGX_OK) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "agentstream turn: no room in the zone for %V, it is "
                      "rejected, session %V, turn %V",
                      &ask->id, &turn->session, &turn->id);
    }

    return rc;
}


static void
ngx_http_agentstream_turn_ask_answered(ngx_http_agentstream_turn_ask_t *ask)
{
    ngx_http_agentstream_turn_t  *turn;
    ngx_http_agentstream_zone_t  *zone;

    turn = ask->turn;
    zone = ngx_http_agentstream_worker->zone;

    ask->waits = 0;
    turn->heard_at = ngx_current_msec;

    if (ask->call == NULL) {
        ngx_queue_remove(&ask->queue);
    }

    ngx_http_agentstream_zone_lock(zone);
    ngx_http_agentstream_zone_answer_locked(zone, turn->node, &ask->id);
    ngx_http_agentstream_zone_unlock(zone);
}


static void
ngx_http_agentstream_turn_ask_answer(ngx_http_agentstream_turn_ask_t *ask)
{
    ngx_http_agentstream_call_t  *call;
    ngx_http_agentstream_turn_t  *turn;

    turn = ask->turn;

    ask->due = ngx_current_msec + NGX_HTTP_AGENTSTREAM_TURN_ASK_AGAIN;

    call = ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                   ask->permission
                                   ? NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION
                                   : NGX_HTTP_AGENTSTREAM_REJECT_QUESTION,
                                   NULL, &ask->id, &turn->directory);
    if (call == NULL) {
        return;
    }

    if (ask->permission) {
        call->content = (turn->conf->permissions == NGX_HTTP_AGENTSTREAM_ALLOW)
                        ? ngx_http_agentstream_turn_ask_once
                        : ngx_http_agentstream_turn_ask_reject;
    }

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_BACKGROUND;
    call->done_handler = ngx_http_agentstream_turn_ask_done;
    call->data = ask;

    ask->call = call;

    ngx_http_agentstream_call_open(call);
}


static void
ngx_http_agentstream_turn_ask_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_turn_ask_t *ask = data;

    ngx_http_agentstream_turn_t  *turn;

    turn = ask->turn;
    ask->call = NULL;

    if (!ask->waits) {
        ngx_queue_remove(&ask->queue);
        return;
    }

    /* its event tells that it is answered, unless that was missed */

    if (call->status == NGX_HTTP_NOT_FOUND) {
        ngx_http_agentstream_turn_ask_answered(ask);

    } else if (call->status < 200 || call->status >= 300) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "agentstream turn: %V could not be answered (%ui), "
                      "session %V, turn %V", &ask->id, call->status,
                      &turn->session, &turn->id);
    }

    ngx_http_agentstream_turn_schedule(turn);
}


void
ngx_http_agentstream_turn_ask_expire(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_turn_ask_t  *ask;

    for (ask = ngx_http_agentstream_turn_ask_next(turn, NULL);
         ask;
         ask = ngx_http_agentstream_turn_ask_next(turn, ask))
    {
        if (ask->waits && ask->call == NULL && ask->due
            && (ngx_msec_int_t) (ngx_current_msec - ask->due) >= 0)
        {
            ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                          "agentstream turn: %V was not answered in time, "
                          "session %V, turn %V",
                          &ask->id, &turn->session, &turn->id);

            ngx_http_agentstream_turn_ask_answer(ask);
        }
    }
}


ngx_msec_t
ngx_http_agentstream_turn_ask_due(ngx_http_agentstream_turn_t *turn,
    ngx_uint_t *nwaiting)
{
    ngx_msec_t                        due;
    ngx_http_agentstream_turn_ask_t  *ask;

    due = 0;
    *nwaiting = 0;

    for (ask = ngx_http_agentstream_turn_ask_next(turn, NULL);
         ask;
         ask = ngx_http_agentstream_turn_ask_next(turn, ask))
    {
        if (!ask->waits) {
            continue;
        }

        (*nwaiting)++;

        if (ask->call == NULL && ask->due
            && (due == 0 || (ngx_msec_int_t) (ask->due - due) < 0))
        {
            due = ask->due;
        }
    }

    return due;
}


void
ngx_http_agentstream_turn_ask_close(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_turn_ask_t  *ask;

    for (ask = ngx_http_agentstream_turn_ask_next(turn, NULL);
         ask;
         ask = ngx_http_agentstream_turn_ask_next(turn, ask))
    {
        if (ask->call) {
            ngx_http_agentstream_call_close(ask->call);
            ask->call = NULL;
        }
    }

    ngx_queue_init(&turn->asks);
}
