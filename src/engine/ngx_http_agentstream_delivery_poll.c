
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Bots without a webhook: one worker of all asks the platform for updates, and
 * waits until there are some.  The worker that does so owns an object in the
 * zone, with the number of the next update; if it dies, another one goes on
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

/* pauses after a failure, and when there is no room for an update */
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
    int64_t                               offset;
    ngx_http_agentstream_call_t          *call;
    ngx_event_t                           timer;
} ngx_http_agentstream_poller_t;


static void ngx_http_agentstream_delivery_poll_claim(
    ngx_http_agentstream_poller_t *poller);
static void ngx_http_agentstream_delivery_poll_ask(
    ngx_http_agentstream_poller_t *poller);
static void ngx_http_agentstream_delivery_poll_handler(ngx_event_t *ev);
static void ngx_http_agentstream_delivery_poll_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_delivery_poll_take(
    ngx_http_agentstream_poller_t *poller, ngx_http_agentstream_call_t *call);
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
        if (poller->node == NULL) {
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
        if (poller->call) {
            /* what it would have brought comes again */
            ngx_http_agentstream_call_close(poller->call);
            poller->call = NULL;
        }

        if (poller->timer.timer_set) {
            ngx_del_timer(&poller->timer);
        }

        if (poller->node) {
            (void) ngx_http_agentstream_store_chat_leave(
                                           ngx_http_agentstream_worker->zone,
                                           poller->node, 1);
            poller->node = NULL;
        }
    }
}


static void
ngx_http_agentstream_delivery_poll_claim(ngx_http_agentstream_poller_t *poller)
{
    ngx_str_t                     place, nothing;
    ngx_pool_t                   *pool;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    pool = ngx_create_pool(256, ngx_cycle->log);
    if (pool == NULL) {
        return;
    }

    ngx_str_set(&nothing, "-");

    if (ngx_http_agentstream_store_chat_open(zone, &poller->key, &nothing)
        == NGX_OK
        && ngx_http_agentstream_store_chat_claim(zone, &poller->key, pool,
                                                 &poller->node, &place,
                                                 &poller->offset,
                                                 sizeof(poller->offset))
           == NGX_OK)
    {
        /* "busy": it is kept even if this worker dies */

        ngx_http_agentstream_store_chat_save(zone, poller->node,
                                             &poller->offset,
                                             sizeof(poller->offset), 1, 0);
        ngx_http_agentstream_delivery_poll_ask(poller);
    }

    ngx_destroy_pool(pool);
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

    ngx_http_agentstream_call_open(call);
}


static void
ngx_http_agentstream_delivery_poll_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_poller_t *poller = data;

    u_char                              buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    ngx_str_t                           text;
    ngx_msec_t                          pause;
    ngx_http_agentstream_chat_answer_t  answer;

    poller->call = NULL;
    pause = 1;

    (void) ngx_http_agentstream_delivery_answered(poller->site.conf, call,
                                               NGX_HTTP_AGENTSTREAM_CHAT_POLL,
                                               &answer);

    if (answer.result == NGX_HTTP_AGENTSTREAM_CHAT_DONE) {

        if (ngx_http_agentstream_delivery_poll_take(poller, call) != NGX_OK) {
            pause = NGX_HTTP_AGENTSTREAM_POLL_FULL;
        }

    } else {
        text = ngx_http_agentstream_text_escape(buf, &answer.reason);

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "agentstream delivery: updates cannot be polled for, "
                      "status: %ui, the platform says: \"%V\"", call->status,
                      &text);

        pause = ngx_max(NGX_HTTP_AGENTSTREAM_POLL_PAUSE,
                        (ngx_msec_t) ngx_min(answer.wait, 3600) * 1000);
    }

    ngx_add_timer(&poller->timer, pause);
}


/* NGX_OK: all of them were recorded; otherwise they are asked for again, and
   those that were recorded are recognised */

static ngx_int_t
ngx_http_agentstream_delivery_poll_take(ngx_http_agentstream_poller_t *poller,
    ngx_http_agentstream_call_t *call)
{
    ngx_int_t                             rc;
    ngx_uint_t                            i, known;
    ngx_http_agentstream_chat_me_t        me;
    ngx_http_agentstream_loc_conf_t      *conf;
    ngx_http_agentstream_chat_update_t   *update;
    ngx_http_agentstream_chat_updates_t   updates;

    conf = poller->site.conf;
    known = (ngx_http_agentstream_delivery_me(conf, &me) == NGX_OK);

    rc = conf->chat->platform->poll(call->pool, &call->body, &me, &updates);

    if (rc != NGX_OK) {
        return rc;
    }

    update = updates.list.elts;

    for (i = 0; i < updates.list.nelts; i++) {
        rc = ngx_http_agentstream_delivery_receive(&poller->site, &update[i],
                                                   known, call->pool);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (updates.offset) {
        poller->offset = updates.offset;

        ngx_http_agentstream_store_chat_save(ngx_http_agentstream_worker->zone,
                                             poller->node, &poller->offset,
                                             sizeof(poller->offset), 1, 0);
    }

    return NGX_OK;
}
