
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Bots without a webhook: one worker of all asks the platform for updates, and
 * waits until there are some.  The worker that does so owns an object in the
 * store, with the number of the next update; if it dies, another one goes on
 * there.  The platform forgets an update when the next one is asked for, so
 * this happens only after all updates were recorded.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_text.h"
#include "ngx_http_agentstream_worker.h"


/* how long the platform holds a request back if there are no updates, in
   seconds */
#define NGX_HTTP_AGENTSTREAM_POLL_WAIT    25

/* how long its answer may take */
#define NGX_HTTP_AGENTSTREAM_POLL_TIMEOUT  40000

/* pauses after a failure, and when there is no room for an update, or the
   platform answers at once that there is none */
#define NGX_HTTP_AGENTSTREAM_POLL_PAUSE   5000
#define NGX_HTTP_AGENTSTREAM_POLL_FULL    1000

/* how much a hundred updates can be */
#define NGX_HTTP_AGENTSTREAM_POLL_ANSWER  (4 * 1024 * 1024)


/* a location that is polled, in this worker */

typedef struct ngx_http_agentstream_poller_s {
    ngx_http_agentstream_delivery_site_t  site;
    ngx_str_t                             key;
    ngx_http_agentstream_chat_node_t     *node;    /* NULL: another worker has
                                                      it */
    ngx_http_agentstream_store_chat_claim_t
                                          claim;
    ngx_http_agentstream_later_t          claiming;
    int64_t                               offset;
    ngx_msec_t                            asked;   /* when */

    /* what is being recorded, one update after the other */
    ngx_pool_t                           *pool;
    ngx_http_agentstream_chat_updates_t   updates;
    ngx_uint_t                            next;
    ngx_uint_t                            known;   /* the bot knows its name */
    ngx_http_agentstream_delivery_receipt_t
                                          receipt;
    ngx_http_agentstream_call_t          *call;
    ngx_event_t                           timer;
} ngx_http_agentstream_poller_t;


static void ngx_http_agentstream_delivery_poll_claim(
    ngx_http_agentstream_poller_t *poller);
static void ngx_http_agentstream_delivery_poll_claimed(void *data,
    ngx_int_t rc);
static void ngx_http_agentstream_delivery_poll_told(void *data, ngx_int_t rc);
static void ngx_http_agentstream_delivery_poll_stop(
    ngx_http_agentstream_poller_t *poller);
static void ngx_http_agentstream_delivery_poll_ask(
    ngx_http_agentstream_poller_t *poller);
static void ngx_http_agentstream_delivery_poll_handler(ngx_event_t *ev);
static void ngx_http_agentstream_delivery_poll_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_delivery_poll_read(
    ngx_http_agentstream_poller_t *poller, ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_delivery_poll_take(
    ngx_http_agentstream_poller_t *poller);
static void ngx_http_agentstream_delivery_poll_taken(void *data,
    ngx_int_t rc);
static void ngx_http_agentstream_delivery_poll_end(
    ngx_http_agentstream_poller_t *poller, ngx_int_t rc);
static void ngx_http_agentstream_delivery_poll_value(
    ngx_http_complex_value_t *value, ngx_str_t *result);


ngx_int_t
ngx_http_agentstream_delivery_poll_init(ngx_cycle_t *cycle)
{
    ngx_uint_t                              i;
    ngx_http_agentstream_poller_t          *poller;
    ngx_http_agentstream_loc_conf_t       **conf;
    ngx_http_agentstream_main_conf_t       *amcf;
    ngx_http_agentstream_delivery_site_t   *site;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_agentstream_module);
    conf = amcf->chats.elts;

    poller = ngx_pcalloc(cycle->pool, (amcf->chats.nelts + 1)
                                      * sizeof(ngx_http_agentstream_poller_t));
    if (poller == NULL) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_worker->pollers = poller;

    /* the list ends with one without a location */

    for (i = 0; i < amcf->chats.nelts; i++) {

        if (!conf[i]->chat->poll) {
            continue;
        }

        site = &poller->site;

        site->conf = conf[i];
        ngx_http_agentstream_delivery_poll_value(conf[i]->route, &site->route);
        ngx_http_agentstream_delivery_poll_value(conf[i]->owner, &site->owner);
        ngx_http_agentstream_delivery_poll_value(conf[i]->directory,
                                          &site->directory);
        ngx_http_agentstream_delivery_poll_value(conf[i]->agent, &site->agent);
        ngx_http_agentstream_delivery_poll_value(conf[i]->model, &site->model);

        if (ngx_http_agentstream_delivery_poll_key(cycle->pool, conf[i],
                                                   &poller->key)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        /* a worker that is to exit does not wait for it */

        poller->timer.handler = ngx_http_agentstream_delivery_poll_handler;
        poller->timer.data = poller;
        poller->timer.log = cycle->log;
        poller->timer.cancelable = 1;

        poller++;
    }

    ngx_http_agentstream_delivery_poll();

    return NGX_OK;
}


/* its configuration has no variables */

static void
ngx_http_agentstream_delivery_poll_value(ngx_http_complex_value_t *value,
    ngx_str_t *result)
{
    if (value) {
        *result = value->value;

    } else {
        ngx_str_null(result);
    }
}


void
ngx_http_agentstream_delivery_poll(void)
{
    ngx_http_agentstream_poller_t  *poller;

    for (poller = ngx_http_agentstream_worker->pollers;
         poller->site.conf;
         poller++)
    {
        if (poller->node == NULL
            && !ngx_http_agentstream_store_pending(&poller->claiming))
        {
            ngx_http_agentstream_delivery_poll_claim(poller);
        }
    }
}


void
ngx_http_agentstream_delivery_poll_leave(void)
{
    ngx_http_agentstream_poller_t  *poller;

    for (poller = ngx_http_agentstream_worker->pollers;
         poller->site.conf;
         poller++)
    {
        ngx_http_agentstream_store_chat_cancel(&poller->claiming);

        if (poller->claim.pool) {
            ngx_destroy_pool(poller->claim.pool);
            poller->claim.pool = NULL;
        }

        ngx_http_agentstream_delivery_poll_stop(poller);

        if (poller->node) {
            (void) ngx_http_agentstream_store_chat_leave(
                                           ngx_http_agentstream_worker->zone,
                                           poller->node, 1);
            poller->node = NULL;
        }
    }
}


static void
ngx_http_agentstream_delivery_poll_stop(ngx_http_agentstream_poller_t *poller)
{
    if (poller->call) {
        /* what it would have brought comes again */
        ngx_http_agentstream_call_close(poller->call);
        poller->call = NULL;
    }

    if (poller->pool) {
        ngx_http_agentstream_delivery_forget(&poller->receipt);
        ngx_destroy_pool(poller->pool);
        poller->pool = NULL;
    }

    if (poller->timer.timer_set) {
        ngx_del_timer(&poller->timer);
    }
}


static void
ngx_http_agentstream_delivery_poll_claim(ngx_http_agentstream_poller_t *poller)
{
    ngx_int_t                                 rc;
    ngx_http_agentstream_store_chat_claim_t  *claim;

    claim = &poller->claim;

    claim->pool = ngx_create_pool(256, ngx_cycle->log);
    if (claim->pool == NULL) {
        return;
    }

    ngx_str_set(&claim->create, "-");

    claim->state = &poller->offset;
    claim->size = sizeof(poller->offset);
    claim->handler = ngx_http_agentstream_delivery_poll_told;
    claim->data = poller;

    poller->claiming.handler = ngx_http_agentstream_delivery_poll_claimed;
    poller->claiming.data = poller;

    rc = ngx_http_agentstream_store_chat_claim(
                                         ngx_http_agentstream_worker->zone,
                                         &poller->key, claim,
                                         &poller->claiming);
    if (rc != NGX_AGAIN) {
        ngx_http_agentstream_delivery_poll_claimed(poller, rc);
    }
}


static void
ngx_http_agentstream_delivery_poll_claimed(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_poller_t *poller = data;

    ngx_destroy_pool(poller->claim.pool);
    poller->claim.pool = NULL;

    if (rc != NGX_OK) {
        return;
    }

    poller->node = poller->claim.node;

    /* "busy": it is kept even if this worker dies */

    ngx_http_agentstream_store_chat_save(ngx_http_agentstream_worker->zone,
                                         poller->node, &poller->offset,
                                         sizeof(poller->offset), 1, 0);

    ngx_http_agentstream_delivery_poll_ask(poller);
}


/* another machine polls */

static void
ngx_http_agentstream_delivery_poll_told(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_poller_t *poller = data;

    if (rc != NGX_OK) {
        ngx_http_agentstream_delivery_poll_stop(poller);
        poller->node = NULL;
    }
}


static void
ngx_http_agentstream_delivery_poll_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_delivery_poll_ask(ev->data);
}


static void
ngx_http_agentstream_delivery_poll_ask(ngx_http_agentstream_poller_t *poller)
{
    ngx_int_t                            rc;
    ngx_http_agentstream_call_t         *call;
    ngx_http_agentstream_chat_me_t       me;
    ngx_http_agentstream_chat_action_t   action;

    if (!ngx_http_agentstream_store_chat_mine(
                             ngx_http_agentstream_worker->zone, poller->node))
    {
        ngx_add_timer(&poller->timer, NGX_HTTP_AGENTSTREAM_POLL_FULL);
        return;
    }

    /* in groups the bot must know its name */
    (void) ngx_http_agentstream_delivery_me(poller->site.conf, &me);

    ngx_memzero(&action, sizeof(ngx_http_agentstream_chat_action_t));

    action.kind = NGX_HTTP_AGENTSTREAM_CHAT_POLL;
    action.offset = poller->offset;
    action.timeout = NGX_HTTP_AGENTSTREAM_POLL_WAIT;

    call = ngx_http_agentstream_delivery_spell(poller->site.conf, &action,
                                               &rc);
    if (call == NULL) {
        ngx_add_timer(&poller->timer, NGX_HTTP_AGENTSTREAM_POLL_PAUSE);
        return;
    }

    /* it lasts long, so it takes no place */

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_STREAM;
    call->timeout = NGX_HTTP_AGENTSTREAM_POLL_TIMEOUT;
    call->limit = NGX_HTTP_AGENTSTREAM_POLL_ANSWER;
    call->done_handler = ngx_http_agentstream_delivery_poll_done;
    call->data = poller;

    poller->call = call;
    poller->asked = ngx_current_msec;

    ngx_http_agentstream_call_open(call);
}


static void
ngx_http_agentstream_delivery_poll_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_poller_t *poller = data;

    u_char                              buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    ngx_str_t                           text;
    ngx_int_t                           rc;
    ngx_msec_t                          pause;
    ngx_http_agentstream_chat_answer_t  answer;

    poller->call = NULL;

    (void) ngx_http_agentstream_delivery_answered(poller->site.conf, call,
                                               NGX_HTTP_AGENTSTREAM_CHAT_POLL,
                                               &answer);

    if (answer.result == NGX_HTTP_AGENTSTREAM_CHAT_DONE) {
        rc = ngx_http_agentstream_delivery_poll_read(poller, call);

        if (rc != NGX_AGAIN) {
            ngx_http_agentstream_delivery_poll_end(poller, rc);
        }

        return;
    }

    text = ngx_http_agentstream_text_escape(buf, &answer.reason);

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "agentstream delivery: updates cannot be polled for, "
                  "status: %ui, the platform says: \"%V\"", call->status,
                  &text);

    pause = ngx_max(NGX_HTTP_AGENTSTREAM_POLL_PAUSE,
                    (ngx_msec_t) ngx_min(answer.wait, 3600) * 1000);

    ngx_add_timer(&poller->timer, pause);
}


/* the updates outlive the call: recording them may take a while */

static ngx_int_t
ngx_http_agentstream_delivery_poll_read(ngx_http_agentstream_poller_t *poller,
    ngx_http_agentstream_call_t *call)
{
    ngx_int_t                         rc;
    ngx_str_t                         body;
    ngx_http_agentstream_chat_me_t    me;
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = poller->site.conf;

    poller->pool = ngx_create_pool(4096, ngx_cycle->log);
    if (poller->pool == NULL) {
        return NGX_ERROR;
    }

    body.len = call->body.len;
    body.data = ngx_pstrdup(poller->pool, &call->body);

    if (body.data == NULL) {
        return NGX_ERROR;
    }

    poller->known = (ngx_http_agentstream_delivery_me(conf, &me) == NGX_OK);

    rc = conf->chat->platform->poll(poller->pool, &body, &me,
                                    &poller->updates);
    if (rc != NGX_OK) {
        return rc;
    }

    poller->next = 0;

    return ngx_http_agentstream_delivery_poll_take(poller);
}


/* NGX_OK: all of them were recorded; NGX_AGAIN: poll_taken() follows; otherwise
   they are asked for again, and those that were recorded are recognised */

static ngx_int_t
ngx_http_agentstream_delivery_poll_take(ngx_http_agentstream_poller_t *poller)
{
    ngx_int_t                            rc;
    ngx_http_agentstream_chat_update_t  *update;

    poller->receipt.handler = ngx_http_agentstream_delivery_poll_taken;
    poller->receipt.data = poller;

    update = poller->updates.list.elts;

    while (poller->next < poller->updates.list.nelts) {
        rc = ngx_http_agentstream_delivery_receive(&poller->site,
                                                   &update[poller->next++],
                                                   poller->known, poller->pool,
                                                   &poller->receipt);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (poller->updates.offset) {
        poller->offset = poller->updates.offset;

        ngx_http_agentstream_store_chat_save(ngx_http_agentstream_worker->zone,
                                             poller->node, &poller->offset,
                                             sizeof(poller->offset), 1, 0);
    }

    return NGX_OK;
}


static void
ngx_http_agentstream_delivery_poll_taken(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_poller_t *poller = data;

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_delivery_poll_take(poller);
    }

    if (rc != NGX_AGAIN) {
        ngx_http_agentstream_delivery_poll_end(poller, rc);
    }
}


static void
ngx_http_agentstream_delivery_poll_end(ngx_http_agentstream_poller_t *poller,
    ngx_int_t rc)
{
    if (poller->pool) {
        ngx_destroy_pool(poller->pool);
        poller->pool = NULL;
    }

    /* some servers do not hold the request back until there is something */

    if (rc == NGX_OK && poller->updates.offset == 0
        && ngx_current_msec - poller->asked < NGX_HTTP_AGENTSTREAM_POLL_FULL)
    {
        rc = NGX_DECLINED;
    }

    ngx_add_timer(&poller->timer, (rc == NGX_OK)
                                  ? 1 : NGX_HTTP_AGENTSTREAM_POLL_FULL);
}
