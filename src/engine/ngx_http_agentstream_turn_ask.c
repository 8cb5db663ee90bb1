
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Questions and permission requests of a turn.  Those that a client may answer
 * are listed in the turn's node, where every worker finds them.  Those that
 * nobody answers in time, or that no client may answer, are answered here.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* an answer that did not reach OpenCode is repeated */
#define NGX_HTTP_AGENTSTREAM_TURN_ASK_AGAIN  5000


/* in the turn's pool */

typedef struct {
    ngx_str_node_t                       sn;       /* by id */
    ngx_http_agentstream_turn_t         *turn;
    ngx_http_agentstream_call_t         *call;     /* the answer, or NULL */
    ngx_http_agentstream_later_t         listing;
    ngx_msec_t                           due;      /* 0: never */
    unsigned                             permission:1;
    unsigned                             waits:1;
} ngx_http_agentstream_turn_ask_t;


static ngx_http_agentstream_turn_ask_t *ngx_http_agentstream_turn_ask_next(
    ngx_http_agentstream_turn_t *turn, ngx_http_agentstream_turn_ask_t *ask);
static void ngx_http_agentstream_turn_ask_asked(
    ngx_http_agentstream_turn_t *turn, ngx_str_t *id, ngx_uint_t permission);
static void ngx_http_agentstream_turn_ask_due(
    ngx_http_agentstream_turn_ask_t *ask, ngx_msec_t due);
static void ngx_http_agentstream_turn_ask_listed_handler(void *data,
    ngx_int_t rc);
static void ngx_http_agentstream_turn_ask_listed(
    ngx_http_agentstream_turn_ask_t *ask, ngx_int_t rc);
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
ngx_http_agentstream_turn_ask_init(ngx_http_agentstream_turn_t *turn)
{
    ngx_rbtree_init(&turn->asks, &turn->sentinel, ngx_str_rbtree_insert_value);

    turn->nasks = 0;
    turn->ask_at = 0;
}


void
ngx_http_agentstream_turn_ask_waiting(void *ctx, ngx_str_t *id,
    ngx_uint_t permission, ngx_uint_t waits)
{
    ngx_http_agentstream_turn_t *turn = ctx;

    uint32_t                          hash;
    ngx_http_agentstream_turn_ask_t  *ask;

    hash = ngx_murmur_hash2(id->data, id->len);

    ask = (ngx_http_agentstream_turn_ask_t *)
              ngx_str_rbtree_lookup(&turn->asks, id, hash);

    if (waits && ask == NULL) {
        ngx_http_agentstream_turn_ask_asked(turn, id, permission);

    } else if (!waits && ask) {
        ngx_http_agentstream_turn_ask_answered(ask);
    }
}


/* the next one, the first one for NULL; NULL: there is none */

static ngx_http_agentstream_turn_ask_t *
ngx_http_agentstream_turn_ask_next(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_turn_ask_t *ask)
{
    if (ask) {
        return (ngx_http_agentstream_turn_ask_t *)
                   ngx_rbtree_next(&turn->asks, &ask->sn.node);
    }

    if (turn->asks.root == &turn->sentinel) {
        return NULL;
    }

    return (ngx_http_agentstream_turn_ask_t *)
               ngx_rbtree_min(turn->asks.root, &turn->sentinel);
}


static void
ngx_http_agentstream_turn_ask_asked(ngx_http_agentstream_turn_t *turn,
    ngx_str_t *id, ngx_uint_t permission)
{
    ngx_int_t                         rc;
    ngx_uint_t                        automatic;
    ngx_http_agentstream_turn_ask_t  *ask;

    ask = ngx_pcalloc(turn->pool, sizeof(ngx_http_agentstream_turn_ask_t));
    if (ask == NULL) {
        goto failed;
    }

    ask->sn.str.len = id->len;
    ask->sn.str.data = ngx_pstrdup(turn->pool, id);
    if (ask->sn.str.data == NULL) {
        goto failed;
    }

    ask->sn.node.key = ngx_murmur_hash2(id->data, id->len);
    ask->turn = turn;
    ask->permission = permission;
    ask->waits = 1;

    ngx_rbtree_insert(&turn->asks, &ask->sn.node);
    turn->nasks++;

    automatic = (permission
                 && turn->conf->permissions != NGX_HTTP_AGENTSTREAM_ASK);

    if (automatic && turn->phase < ngx_http_agentstream_turn_prompting) {
        /* this was read from the journal of a turn that was taken over, and
           the next packet may already contain the answer */

        ngx_http_agentstream_turn_ask_due(ask, ngx_current_msec);
        return;
    }

    if (automatic) {
        ngx_http_agentstream_turn_ask_answer(ask);
        return;
    }

    ask->listing.handler = ngx_http_agentstream_turn_ask_listed_handler;
    ask->listing.data = ask;

    rc = ngx_http_agentstream_store_ask(ngx_http_agentstream_worker->zone,
                                        turn->node, &ask->sn.str, permission,
                                        &ask->listing);
    if (rc != NGX_AGAIN) {
        ngx_http_agentstream_turn_ask_listed(ask, rc);
    }

    return;

failed:

    /* without memory nobody could ever answer it */

    turn->failed = 1;
}


static void
ngx_http_agentstream_turn_ask_due(ngx_http_agentstream_turn_ask_t *ask,
    ngx_msec_t due)
{
    ngx_http_agentstream_turn_t  *turn;

    turn = ask->turn;
    ask->due = due;

    if (turn->ask_at == 0 || (ngx_msec_int_t) (due - turn->ask_at) < 0) {
        turn->ask_at = due;
    }
}


/* the store has answered later */

static void
ngx_http_agentstream_turn_ask_listed_handler(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_turn_ask_t *ask = data;

    if (rc == NGX_ABORT) {
        ngx_http_agentstream_turn_fenced(ask->turn);
        return;
    }

    ngx_http_agentstream_turn_ask_listed(ask, rc);

    if (ask->turn->phase == ngx_http_agentstream_turn_running) {
        ngx_http_agentstream_turn_schedule(ask->turn);
    }
}


/* whether clients can find it, and answer; if not, it is answered here */

static void
ngx_http_agentstream_turn_ask_listed(ngx_http_agentstream_turn_ask_t *ask,
    ngx_int_t rc)
{
    ngx_msec_t                    timeout;
    ngx_http_agentstream_turn_t  *turn;

    turn = ask->turn;

    if (rc == NGX_OK) {
        timeout = ask->permission ? turn->conf->permission_timeout
                                  : turn->conf->question_timeout;

        if (timeout) {
            ngx_http_agentstream_turn_ask_due(ask,
                                              ngx_current_msec + timeout);
        }

        return;
    }

    if (rc == NGX_ERROR) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "agentstream turn: no room in the zone for %V, it is "
                      "rejected, session %V, turn %V",
                      &ask->sn.str, &turn->session, &turn->id);
    }

    if (rc == NGX_DECLINED && !turn->crowded) {
        turn->crowded = 1;

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "agentstream turn: %V cannot wait for an answer, it and "
                      "others like it are rejected, session %V, turn %V",
                      &ask->sn.str, &turn->session, &turn->id);
    }

    ngx_http_agentstream_turn_ask_answer(ask);
}


static void
ngx_http_agentstream_turn_ask_answered(ngx_http_agentstream_turn_ask_t *ask)
{
    ngx_http_agentstream_turn_t  *turn;

    turn = ask->turn;

    ngx_http_agentstream_store_cancel(&ask->listing);

    if (ask->waits) {
        ask->waits = 0;
        turn->nasks--;
    }

    turn->heard_at = ngx_current_msec;

    if (ask->call == NULL) {
        ngx_rbtree_delete(&turn->asks, &ask->sn.node);
    }

    ngx_http_agentstream_store_answered(ngx_http_agentstream_worker->zone,
                                        turn->node, &ask->sn.str);
}


static void
ngx_http_agentstream_turn_ask_answer(ngx_http_agentstream_turn_ask_t *ask)
{
    ngx_http_agentstream_call_t  *call;
    ngx_http_agentstream_turn_t  *turn;

    turn = ask->turn;

    ask->due = ngx_current_msec + NGX_HTTP_AGENTSTREAM_TURN_ASK_AGAIN;

    if (!ngx_http_agentstream_store_mine(ngx_http_agentstream_worker->zone,
                                         turn->node))
    {
        /* another machine may have the turn by now */
        ngx_http_agentstream_turn_ask_due(ask, ask->due);
        return;
    }

    call = ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                   ask->permission
                                   ? NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION
                                   : NGX_HTTP_AGENTSTREAM_REJECT_QUESTION,
                                   NULL, &ask->sn.str, &turn->directory);
    if (call == NULL) {
        ngx_http_agentstream_turn_ask_due(ask, ask->due);
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
        ngx_rbtree_delete(&turn->asks, &ask->sn.node);
        return;
    }

    /* an event reports that it is answered, unless the event was missed */

    if (call->status == NGX_HTTP_NOT_FOUND) {
        ngx_http_agentstream_turn_ask_answered(ask);

    } else if (call->status < 200 || call->status >= 300) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "agentstream turn: %V could not be answered (%ui), "
                      "session %V, turn %V", &ask->sn.str, call->status,
                      &turn->session, &turn->id);
    }

    if (ask->waits) {
        ngx_http_agentstream_turn_ask_due(ask, ask->due);
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
        if (!ask->waits || ask->call || ask->due == 0) {
            continue;
        }

        if ((ngx_msec_int_t) (ngx_current_msec - ask->due) >= 0) {
            ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                          "agentstream turn: %V was not answered in time, "
                          "session %V, turn %V",
                          &ask->sn.str, &turn->session, &turn->id);

            ngx_http_agentstream_turn_ask_answer(ask);
            continue;
        }

        ngx_http_agentstream_turn_ask_due(ask, ask->due);
    }
}


void
ngx_http_agentstream_turn_ask_close(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_turn_ask_t  *ask;

    for (ask = ngx_http_agentstream_turn_ask_next(turn, NULL);
         ask;
         ask = ngx_http_agentstream_turn_ask_next(turn, ask))
    {
        ngx_http_agentstream_store_cancel(&ask->listing);

        if (ask->call) {
            ngx_http_agentstream_call_close(ask->call);
            ask->call = NULL;
        }
    }

    ngx_http_agentstream_turn_ask_init(turn);
}
