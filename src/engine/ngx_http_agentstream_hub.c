
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The hub: one long call to OpenCode's event stream.  The stream is cut into
 * events, and an event is routed by the session id that is found in its raw
 * bytes; it is parsed only if a subscriber wants the events of that session.
 * A hub without subscribers stays open for a while, because the next turn
 * often follows soon.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_hub_int.h"
#include "ngx_http_agentstream_text.h"
#include "ngx_http_agentstream_store.h"


#define NGX_HTTP_AGENTSTREAM_HUB_LINGER     10000
#define NGX_HTTP_AGENTSTREAM_HUB_SILENCE    25000
#define NGX_HTTP_AGENTSTREAM_HUB_DELAY_MIN  200
#define NGX_HTTP_AGENTSTREAM_HUB_DELAY_MAX  10000

#define NGX_HTTP_AGENTSTREAM_HUB_BUCKETS    1024


typedef struct ngx_http_agentstream_hubs_s {
    ngx_queue_t                          hubs;
} ngx_http_agentstream_hubs_t;


#define ngx_http_agentstream_hub_bucket(hub, hash)                            \
    &(hub)->sessions[(hash) & ((hub)->nbuckets - 1)]


static ngx_http_agentstream_hub_t *ngx_http_agentstream_hub_find(
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *directory);
static ngx_http_agentstream_hub_t *ngx_http_agentstream_hub_create(
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *directory);
static void ngx_http_agentstream_hub_destroy(ngx_http_agentstream_hub_t *hub);
static void ngx_http_agentstream_hub_grow(ngx_http_agentstream_hub_t *hub);
static void ngx_http_agentstream_hub_connect(ngx_http_agentstream_hub_t *hub);
static void ngx_http_agentstream_hub_opened(ngx_http_agentstream_hub_t *hub,
    ngx_uint_t open);
static ngx_int_t ngx_http_agentstream_hub_body(void *data, u_char *pos,
    size_t len);
static ngx_int_t ngx_http_agentstream_hub_event(void *ctx, ngx_str_t *data);
static void ngx_http_agentstream_hub_skip(ngx_http_agentstream_hub_t *hub,
    const char *why);
static ngx_http_agentstream_hub_session_t *ngx_http_agentstream_hub_lookup(
    ngx_http_agentstream_hub_t *hub, ngx_str_t *session, uint32_t hash);
static void ngx_http_agentstream_hub_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_hub_broken(ngx_http_agentstream_hub_t *hub,
    ngx_uint_t status);
static void ngx_http_agentstream_hub_announce_handler(ngx_event_t *ev);
static void ngx_http_agentstream_hub_retry_handler(ngx_event_t *ev);
static void ngx_http_agentstream_hub_silence_handler(ngx_event_t *ev);
static void ngx_http_agentstream_hub_linger_handler(ngx_event_t *ev);


ngx_int_t
ngx_http_agentstream_hub_init_worker(ngx_cycle_t *cycle)
{
    ngx_http_agentstream_hubs_t  *hubs;

    hubs = ngx_pcalloc(cycle->pool, sizeof(ngx_http_agentstream_hubs_t));
    if (hubs == NULL) {
        return NGX_ERROR;
    }

    ngx_queue_init(&hubs->hubs);

    ngx_http_agentstream_worker->hubs = hubs;

    return NGX_OK;
}


void
ngx_http_agentstream_hub_exit(void)
{
    ngx_queue_t                  *q, *next;
    ngx_http_agentstream_hub_t   *hub;
    ngx_http_agentstream_hubs_t  *hubs;

    hubs = ngx_http_agentstream_worker->hubs;

    for (q = ngx_queue_head(&hubs->hubs);
         q != ngx_queue_sentinel(&hubs->hubs);
         q = next)
    {
        next = ngx_queue_next(q);
        hub = ngx_queue_data(q, ngx_http_agentstream_hub_t, queue);

        if (ngx_queue_empty(&hub->subs)) {
            ngx_http_agentstream_hub_destroy(hub);
        }
    }
}


ngx_uint_t
ngx_http_agentstream_hub_is_open(ngx_http_agentstream_loc_conf_t *conf,
    ngx_str_t *route, ngx_str_t *directory)
{
    ngx_http_agentstream_hub_t  *hub;

    hub = ngx_http_agentstream_hub_find(conf, route, directory);

    return hub && hub->open;
}


ngx_int_t
ngx_http_agentstream_hub_open(ngx_http_agentstream_sub_t *sub,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *directory)
{
    ngx_http_agentstream_hub_t  *hub;

    hub = ngx_http_agentstream_hub_find(conf, route, directory);

    if (hub == NULL) {
        hub = ngx_http_agentstream_hub_create(conf, route, directory);

        if (hub == NULL) {
            return NGX_ERROR;
        }
    }

    if (hub->linger.timer_set) {
        ngx_del_timer(&hub->linger);
    }

    hub->sse.limit = ngx_max(hub->sse.limit, conf->event_size);

    ngx_queue_insert_tail(&hub->subs, &sub->queue);
    sub->hub = hub;
    sub->announced = 0;

    if (hub->open) {
        ngx_post_event(&hub->announce, &ngx_posted_events);

    } else if (hub->call == NULL && !hub->retry.timer_set) {
        ngx_http_agentstream_hub_connect(hub);
    }

    return NGX_OK;
}


void
ngx_http_agentstream_hub_close(ngx_http_agentstream_sub_t *sub)
{
    ngx_http_agentstream_hub_t  *hub;

    hub = sub->hub;

    if (hub == NULL) {
        return;
    }

    if (hub->asking == sub) {
        hub->asking = NULL;
    }

    ngx_queue_remove(&sub->queue);
    sub->hub = NULL;

    if (!ngx_queue_empty(&hub->subs)) {
        return;
    }

    /* the hub must not be freed inside its own filter, so let a timer do it in
       the next cycle of the event loop */

    ngx_add_timer(&hub->linger,
                  ngx_exiting ? 0 : NGX_HTTP_AGENTSTREAM_HUB_LINGER);
}


void
ngx_http_agentstream_hub_add(ngx_http_agentstream_sub_t *sub,
    ngx_http_agentstream_hub_session_t *entry, ngx_str_t *session)
{
    ngx_http_agentstream_hub_t           *hub;
    ngx_http_agentstream_hub_session_t  **bucket;

    hub = sub->hub;

    if (++hub->nsessions > hub->nbuckets) {
        ngx_http_agentstream_hub_grow(hub);
    }

    entry->sub = sub;
    entry->session = *session;
    entry->hash = ngx_murmur_hash2(session->data, session->len);

    bucket = ngx_http_agentstream_hub_bucket(hub, entry->hash);

    entry->next = *bucket;
    *bucket = entry;
}


/* doubles the hash table: a single turn may have thousands of subagents */

static void
ngx_http_agentstream_hub_grow(ngx_http_agentstream_hub_t *hub)
{
    ngx_uint_t                            i, n;
    ngx_http_agentstream_hub_session_t   *entry, *next;
    ngx_http_agentstream_hub_session_t  **table, **old, **bucket;

    n = hub->nbuckets;

    table = ngx_calloc(2 * n * sizeof(ngx_http_agentstream_hub_session_t *),
                        ngx_cycle->log);
    if (table == NULL) {
        /* without memory the old table remains, which is only slower */
        return;
    }

    old = hub->sessions;

    hub->sessions = table;
    hub->nbuckets = 2 * n;

    for (i = 0; i < n; i++) {
        for (entry = old[i]; entry; entry = next) {
            next = entry->next;

            bucket = ngx_http_agentstream_hub_bucket(hub, entry->hash);
            entry->next = *bucket;
            *bucket = entry;
        }
    }

    ngx_free(old);
}


void
ngx_http_agentstream_hub_remove(ngx_http_agentstream_hub_session_t *entry)
{
    ngx_http_agentstream_hub_session_t  **p;

    if (entry->sub == NULL) {
        return;
    }

    p = ngx_http_agentstream_hub_bucket(entry->sub->hub, entry->hash);

    while (*p != entry) {
        p = &(*p)->next;
    }

    *p = entry->next;
    entry->sub->hub->nsessions--;
    entry->sub = NULL;
}


static ngx_http_agentstream_hub_t *
ngx_http_agentstream_hub_find(ngx_http_agentstream_loc_conf_t *conf,
    ngx_str_t *route, ngx_str_t *directory)
{
    ngx_queue_t                  *q;
    ngx_http_agentstream_hub_t   *hub;
    ngx_http_agentstream_hubs_t  *hubs;

    hubs = ngx_http_agentstream_worker->hubs;

    for (q = ngx_queue_head(&hubs->hubs);
         q != ngx_queue_sentinel(&hubs->hubs);
         q = ngx_queue_next(q))
    {
        hub = ngx_queue_data(q, ngx_http_agentstream_hub_t, queue);

        if (hub->conf->server == conf->server
            && hub->conf->prefix.len == conf->prefix.len
            && hub->route.len == route->len
            && hub->directory.len == directory->len
            && ngx_memcmp(hub->conf->prefix.data, conf->prefix.data,
                          conf->prefix.len) == 0
            && ngx_memcmp(hub->route.data, route->data, route->len) == 0
            && ngx_memcmp(hub->directory.data, directory->data,
                          directory->len) == 0)
        {
            return hub;
        }
    }

    return NULL;
}


static ngx_http_agentstream_hub_t *
ngx_http_agentstream_hub_create(ngx_http_agentstream_loc_conf_t *conf,
    ngx_str_t *route, ngx_str_t *directory)
{
    ngx_pool_t                   *pool;
    ngx_http_agentstream_hub_t   *hub;
    ngx_http_agentstream_hubs_t  *hubs;

    hubs = ngx_http_agentstream_worker->hubs;

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    hub = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_hub_t));
    if (hub == NULL) {
        goto failed;
    }

    hub->pool = pool;
    hub->conf = conf;
    hub->route.len = route->len;
    hub->route.data = ngx_pstrdup(pool, route);
    hub->directory.len = directory->len;
    hub->directory.data = ngx_pstrdup(pool, directory);

    if (hub->route.data == NULL || hub->directory.data == NULL) {
        goto failed;
    }

    hub->nbuckets = NGX_HTTP_AGENTSTREAM_HUB_BUCKETS;
    hub->sessions = ngx_calloc(hub->nbuckets
                               * sizeof(ngx_http_agentstream_hub_session_t *),
                             ngx_cycle->log);
    if (hub->sessions == NULL) {
        goto failed;
    }

    hub->seen = ngx_calloc(NGX_HTTP_AGENTSTREAM_HUB_SEEN / 8, ngx_cycle->log);
    if (hub->seen == NULL) {
        ngx_free(hub->sessions);
        goto failed;
    }

    ngx_queue_init(&hub->subs);

    hub->sse.limit = conf->event_size;
    hub->sse.handler = ngx_http_agentstream_hub_event;
    hub->sse.ctx = hub;

    hub->retry.handler = ngx_http_agentstream_hub_retry_handler;
    hub->retry.data = hub;
    hub->retry.log = ngx_cycle->log;
    hub->retry.cancelable = 1;

    hub->silence.handler = ngx_http_agentstream_hub_silence_handler;
    hub->silence.data = hub;
    hub->silence.log = ngx_cycle->log;
    hub->silence.cancelable = 1;

    hub->linger.handler = ngx_http_agentstream_hub_linger_handler;
    hub->linger.data = hub;
    hub->linger.log = ngx_cycle->log;

    hub->announce.handler = ngx_http_agentstream_hub_announce_handler;
    hub->announce.data = hub;
    hub->announce.log = ngx_cycle->log;

    ngx_queue_insert_tail(&hubs->hubs, &hub->queue);

    return hub;

failed:

    ngx_destroy_pool(pool);

    return NULL;
}


static void
ngx_http_agentstream_hub_destroy(ngx_http_agentstream_hub_t *hub)
{
    ngx_http_agentstream_hub_opened(hub, 0);

    if (hub->call) {
        ngx_http_agentstream_call_close(hub->call);
    }

    if (hub->retry.timer_set) {
        ngx_del_timer(&hub->retry);
    }

    if (hub->silence.timer_set) {
        ngx_del_timer(&hub->silence);
    }

    if (hub->linger.timer_set) {
        ngx_del_timer(&hub->linger);
    }

    if (hub->announce.posted) {
        ngx_delete_posted_event(&hub->announce);
    }

    ngx_http_agentstream_sse_reset(&hub->sse);
    ngx_http_agentstream_json_destroy(&hub->json);

    ngx_free(hub->sessions);
    ngx_free(hub->seen);

    ngx_queue_remove(&hub->queue);
    ngx_destroy_pool(hub->pool);
}


static void
ngx_http_agentstream_hub_connect(ngx_http_agentstream_hub_t *hub)
{
    ngx_http_agentstream_call_t  *call;

    ngx_http_agentstream_sse_reset(&hub->sse);

    call = ngx_http_agentstream_call_create(hub->conf, &hub->route,
                                            NGX_HTTP_AGENTSTREAM_GET_EVENTS,
                                            NULL, NULL, &hub->directory);
    if (call == NULL) {
        ngx_add_timer(&hub->retry, NGX_HTTP_AGENTSTREAM_HUB_DELAY_MIN);
        return;
    }

    call->timeout = 0;
    call->subscription = 1;
    call->kind = NGX_HTTP_AGENTSTREAM_CALL_STREAM;
    call->body_handler = ngx_http_agentstream_hub_body;
    call->done_handler = ngx_http_agentstream_hub_done;
    call->data = hub;

    hub->call = call;
    hub->heard = ngx_current_msec;
    ngx_add_timer(&hub->silence, NGX_HTTP_AGENTSTREAM_HUB_SILENCE);

    ngx_http_agentstream_call_open(call);
}


static void
ngx_http_agentstream_hub_opened(ngx_http_agentstream_hub_t *hub,
    ngx_uint_t open)
{
    ngx_http_agentstream_count(SUBSCRIPTIONS, (ngx_int_t) open - hub->open);

    hub->open = open;

    ngx_http_agentstream_hub_doubt(hub);
}


static ngx_int_t
ngx_http_agentstream_hub_body(void *data, u_char *pos, size_t len)
{
    ngx_http_agentstream_hub_t *hub = data;

    hub->heard = ngx_current_msec;

    return ngx_http_agentstream_sse_feed(&hub->sse, pos, len);
}


static ngx_int_t
ngx_http_agentstream_hub_event(void *ctx, ngx_str_t *data)
{
    ngx_http_agentstream_hub_t *hub = ctx;

    uint32_t                             hash;
    ngx_int_t                            rc;
    ngx_http_agentstream_event_t         ev;
    ngx_http_agentstream_hub_session_t  *entry;

    ngx_http_agentstream_count(EVENTS, 1);

    if (data == NULL) {
        goto skipped;
    }

    rc = ngx_http_agentstream_opencode_peek(data, &ev);

    if (rc == NGX_DECLINED) {
        rc = ngx_http_agentstream_opencode_parse(data, &hub->json, &ev);

        if (rc != NGX_OK) {
            goto skipped;
        }
    }

    if (ev.type == NGX_HTTP_AGENTSTREAM_EVENT_CONNECTED && !hub->open) {
        ngx_http_agentstream_hub_opened(hub, 1);
        hub->failures = 0;
        ngx_post_event(&hub->announce, &ngx_posted_events);
        return NGX_OK;
    }

    if (ev.session.len == 0) {
        return NGX_OK;
    }

    hash = ngx_murmur_hash2(ev.session.data, ev.session.len);

    if (ev.type != NGX_HTTP_AGENTSTREAM_EVENT_CREATED) {
        ngx_http_agentstream_hub_see(hub, hash);
    }

    entry = ngx_http_agentstream_hub_lookup(hub, &ev.session, hash);

    if (entry == NULL && ev.parent.len) {
        hash = ngx_murmur_hash2(ev.parent.data, ev.parent.len);
        entry = ngx_http_agentstream_hub_lookup(hub, &ev.parent, hash);
    }

    if (entry == NULL || !entry->sub->announced) {
        return NGX_OK;
    }

    if (ev.json == NULL) {
        rc = ngx_http_agentstream_opencode_read(data, &hub->json, &ev);

        if (rc != NGX_OK) {
            goto skipped;
        }
    }

    entry->sub->event(entry->sub->data, &ev);

    return NGX_OK;

skipped:

    ngx_http_agentstream_hub_skip(hub, data ? "malformed" : "too large");

    return NGX_OK;
}


static void
ngx_http_agentstream_hub_skip(ngx_http_agentstream_hub_t *hub,
    const char *why)
{
    u_char                       buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    ngx_str_t                    text;
    ngx_queue_t                 *q, *next;
    ngx_http_agentstream_sub_t  *sub;

    ngx_http_agentstream_count(SKIPPED, 1);
    ngx_http_agentstream_hub_doubt(hub);

    text = ngx_http_agentstream_text_escape(buf, &hub->directory);

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "agentstream hub: %s event skipped, directory \"%V\"",
                  why, &text);

    /* it is not known which session the event was for, so all subscribers have
       to ask OpenCode */

    for (q = ngx_queue_head(&hub->subs);
         q != ngx_queue_sentinel(&hub->subs);
         q = next)
    {
        next = ngx_queue_next(q);
        sub = ngx_queue_data(q, ngx_http_agentstream_sub_t, queue);

        if (sub->announced) {
            sub->skipped(sub->data);
        }
    }
}


static ngx_http_agentstream_hub_session_t *
ngx_http_agentstream_hub_lookup(ngx_http_agentstream_hub_t *hub,
    ngx_str_t *session, uint32_t hash)
{
    ngx_http_agentstream_hub_session_t  *entry;

    for (entry = *ngx_http_agentstream_hub_bucket(hub, hash);
         entry;
         entry = entry->next)
    {
        if (entry->hash == hash
            && entry->session.len == session->len
            && ngx_memcmp(entry->session.data, session->data, session->len)
               == 0)
        {
            return entry;
        }
    }

    return NULL;
}


static void
ngx_http_agentstream_hub_done(void *data, ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_hub_t *hub = data;

    ngx_uint_t  status;

    status = call->status;

    if (status == NGX_HTTP_OK) {
        /* the stream was open and broke, or the answer was not an event
           stream */
        status = NGX_HTTP_BAD_GATEWAY;
    }

    hub->call = NULL;

    ngx_http_agentstream_hub_broken(hub, status);
}


static void
ngx_http_agentstream_hub_broken(ngx_http_agentstream_hub_t *hub,
    ngx_uint_t status)
{
    u_char                       buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    ngx_str_t                    text;
    ngx_msec_t                   delay;
    ngx_queue_t                 *q, *next;
    ngx_http_agentstream_sub_t  *sub;

    ngx_http_agentstream_hub_opened(hub, 0);

    if (hub->announce.posted) {
        ngx_delete_posted_event(&hub->announce);
    }

    if (hub->silence.timer_set) {
        ngx_del_timer(&hub->silence);
    }

    if (ngx_queue_empty(&hub->subs)) {
        ngx_http_agentstream_hub_destroy(hub);
        return;
    }

    text = ngx_http_agentstream_text_escape(buf, &hub->directory);

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "agentstream hub: event stream failed with status %ui, "
                  "directory \"%V\"", status, &text);

    delay = ngx_min(NGX_HTTP_AGENTSTREAM_HUB_DELAY_MIN
                    << ngx_min(hub->failures, 8),
                    NGX_HTTP_AGENTSTREAM_HUB_DELAY_MAX);
    delay = delay / 2 + ngx_random() % (delay / 2 + 1);

    hub->failures++;
    ngx_http_agentstream_count(BROKEN, 1);

    ngx_add_timer(&hub->retry, delay);

    for (q = ngx_queue_head(&hub->subs);
         q != ngx_queue_sentinel(&hub->subs);
         q = next)
    {
        next = ngx_queue_next(q);
        sub = ngx_queue_data(q, ngx_http_agentstream_sub_t, queue);
        sub->announced = 0;
        sub->broken(sub->data, status);
    }
}


static void
ngx_http_agentstream_hub_announce_handler(ngx_event_t *ev)
{
    ngx_queue_t                 *q, *next;
    ngx_http_agentstream_hub_t  *hub;
    ngx_http_agentstream_sub_t  *sub;

    hub = ev->data;

    /* subscribers that were not told yet are at the end of the list */

    for (q = ngx_queue_last(&hub->subs);
         q != ngx_queue_sentinel(&hub->subs);
         q = ngx_queue_prev(q))
    {
        sub = ngx_queue_data(q, ngx_http_agentstream_sub_t, queue);

        if (sub->announced) {
            break;
        }
    }

    for (q = ngx_queue_next(q);
         q != ngx_queue_sentinel(&hub->subs);
         q = next)
    {
        next = ngx_queue_next(q);
        sub = ngx_queue_data(q, ngx_http_agentstream_sub_t, queue);

        sub->announced = 1;
        sub->ready(sub->data);
    }
}


static void
ngx_http_agentstream_hub_retry_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_hub_t  *hub;

    hub = ev->data;

    if (ngx_queue_empty(&hub->subs)) {
        ngx_http_agentstream_hub_destroy(hub);
        return;
    }

    ngx_http_agentstream_hub_connect(hub);
}


static void
ngx_http_agentstream_hub_silence_handler(ngx_event_t *ev)
{
    ngx_msec_t                   silent;
    ngx_http_agentstream_hub_t  *hub;

    hub = ev->data;

    silent = ngx_current_msec - hub->heard;

    if (silent < NGX_HTTP_AGENTSTREAM_HUB_SILENCE) {
        ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_HUB_SILENCE - silent);
        return;
    }

    /* OpenCode sends something every 10 seconds, so this connection is dead */

    ngx_http_agentstream_call_close(hub->call);
    hub->call = NULL;

    ngx_http_agentstream_hub_broken(hub, NGX_HTTP_GATEWAY_TIME_OUT);
}


static void
ngx_http_agentstream_hub_linger_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_hub_t  *hub;

    hub = ev->data;

    ngx_http_agentstream_hub_destroy(hub);
}
