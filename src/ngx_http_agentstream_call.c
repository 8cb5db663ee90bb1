
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 2: a call's life.  Invariant: a call is in the queue, running, or its
 * done_handler is posted; each of them ends it exactly once.  What it is made
 * of is in call_request, what comes back goes through call_filter.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call_int.h"
#include "ngx_http_agentstream_zone.h"


/* a burst of disconnects must not use up all descriptors, three per call */
#define NGX_HTTP_AGENTSTREAM_CALLS_MAX     64

#define NGX_HTTP_AGENTSTREAM_CALL_TIMEOUT  30000
#define NGX_HTTP_AGENTSTREAM_CALL_LIMIT    (64 * 1024 * 1024)


typedef struct ngx_http_agentstream_calls_s {
    ngx_queue_t                          waiting;
    ngx_uint_t                           active;
    ngx_event_t                          next;
} ngx_http_agentstream_calls_t;


static void ngx_http_agentstream_call_run(ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_call_timeout_handler(ngx_event_t *ev);
static void ngx_http_agentstream_call_terminate(
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_call_cleanup(void *data);
static void ngx_http_agentstream_call_done_handler(ngx_event_t *ev);
static void ngx_http_agentstream_call_next_handler(ngx_event_t *ev);


ngx_int_t
ngx_http_agentstream_call_init_worker(ngx_cycle_t *cycle)
{
    ngx_http_agentstream_calls_t  *calls;

    calls = ngx_pcalloc(cycle->pool, sizeof(ngx_http_agentstream_calls_t));
    if (calls == NULL) {
        return NGX_ERROR;
    }

    ngx_queue_init(&calls->waiting);

    calls->next.handler = ngx_http_agentstream_call_next_handler;
    calls->next.data = calls;
    calls->next.log = cycle->log;

    ngx_http_agentstream_worker->calls = calls;

    return NGX_OK;
}


ngx_http_agentstream_call_t *
ngx_http_agentstream_call_create(ngx_http_agentstream_loc_conf_t *conf,
    ngx_str_t *route, ngx_uint_t request, ngx_str_t *session, ngx_str_t *id,
    ngx_str_t *directory)
{
    ngx_pool_t                   *pool;
    ngx_http_agentstream_call_t  *call;

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    call = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_call_t));
    if (call == NULL) {
        goto failed;
    }

    call->pool = pool;
    call->server = conf->server;
    call->prefix = conf->prefix;
    call->timeout = NGX_HTTP_AGENTSTREAM_CALL_TIMEOUT;
    call->limit = NGX_HTTP_AGENTSTREAM_CALL_LIMIT;

    call->route.len = route->len;
    call->route.data = ngx_pstrdup(pool, route);

    if (call->route.data == NULL
        || ngx_http_agentstream_opencode_address(pool, &call->address, request,
                                                 session, id, directory)
           != NGX_OK)
    {
        goto failed;
    }

    call->timer.handler = ngx_http_agentstream_call_timeout_handler;
    call->timer.data = call;
    call->timer.log = ngx_cycle->log;

    call->posted.handler = ngx_http_agentstream_call_done_handler;
    call->posted.data = call;
    call->posted.log = ngx_cycle->log;

    return call;

failed:

    ngx_destroy_pool(pool);

    return NULL;
}


void
ngx_http_agentstream_call_open(ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_calls_t  *calls;

    calls = ngx_http_agentstream_worker->calls;

    if (call->timeout) {
        ngx_add_timer(&call->timer, call->timeout);
    }

    if (!call->subscription) {
        ngx_http_agentstream_count(REQUESTS, 1);
    }

    if (call->body_handler == NULL
        && calls->active >= NGX_HTTP_AGENTSTREAM_CALLS_MAX)
    {
        ngx_queue_insert_tail(&calls->waiting, &call->queue);
        return;
    }

    ngx_http_agentstream_call_run(call);
}


void
ngx_http_agentstream_call_close(ngx_http_agentstream_call_t *call)
{
    if (call->closed) {
        return;
    }

    call->closed = 1;

    if (call->posted.posted) {
        ngx_delete_posted_event(&call->posted);
        ngx_http_agentstream_call_destroy(call);
        return;
    }

    if (!call->running) {
        ngx_queue_remove(&call->queue);
        ngx_http_agentstream_call_destroy(call);
        return;
    }

    /* the filter sees "closed" and unwinds by itself */

    if (!call->filtering) {
        ngx_http_agentstream_call_terminate(call);
    }
}


static void
ngx_http_agentstream_call_run(ngx_http_agentstream_call_t *call)
{
    ngx_connection_t              *c;
    ngx_http_request_t            *r;
    ngx_pool_cleanup_t            *cln;
    ngx_http_agentstream_calls_t  *calls;

    calls = ngx_http_agentstream_worker->calls;

    call->status = NGX_HTTP_INTERNAL_SERVER_ERROR;
    call->unsent = 1;

    c = ngx_http_agentstream_call_connect(call);
    if (c == NULL) {
        ngx_post_event(&call->posted, &ngx_posted_events);
        return;
    }

    r = ngx_http_agentstream_call_create_main(call, c);
    if (r == NULL) {
        ngx_http_close_connection(c);
        ngx_post_event(&call->posted, &ngx_posted_events);
        return;
    }

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        ngx_http_free_request(r, 0);
        ngx_http_close_connection(c);
        ngx_post_event(&call->posted, &ngx_posted_events);
        return;
    }

    cln->handler = ngx_http_agentstream_call_cleanup;
    cln->data = call;

    call->request = r;
    call->running = 1;

    if (call->body_handler == NULL) {
        calls->active++;
    }

    if (!call->subscription) {
        ngx_http_agentstream_count(CALLS, 1);
    }

    if (ngx_http_agentstream_call_subrequest(call, r) != NGX_OK) {
        ngx_http_agentstream_call_terminate(call);
        return;
    }

    call->unsent = 0;

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_agentstream_call_timeout_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_call_t  *call;

    call = ev->data;

    call->timedout = 1;

    if (!call->running) {
        ngx_queue_remove(&call->queue);
        call->status = NGX_HTTP_GATEWAY_TIME_OUT;
        ngx_post_event(&call->posted, &ngx_posted_events);
        return;
    }

    ngx_log_error(NGX_LOG_ERR, call->request->connection->log, 0,
                  "agentstream call: no answer within %M ms", call->timeout);

    ngx_http_agentstream_call_terminate(call);
}


static void
ngx_http_agentstream_call_terminate(ngx_http_agentstream_call_t *call)
{
    ngx_connection_t  *c;

    c = call->request->connection;

    ngx_http_finalize_request(call->request, NGX_ERROR);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_agentstream_call_cleanup(void *data)
{
    ngx_http_agentstream_call_t *call = data;

    ngx_http_agentstream_calls_t  *calls;

    calls = ngx_http_agentstream_worker->calls;

    call->request = NULL;
    call->running = 0;

    if (call->timer.timer_set) {
        ngx_del_timer(&call->timer);
    }

    if (!call->subscription) {
        ngx_http_agentstream_count(CALLS, -1);
    }

    if (call->body_handler == NULL) {
        calls->active--;

        if (!ngx_queue_empty(&calls->waiting)) {
            ngx_post_event(&calls->next, &ngx_posted_events);
        }
    }

    if (call->closed) {
        ngx_http_agentstream_call_destroy(call);
        return;
    }

    if (call->timedout) {
        call->status = NGX_HTTP_GATEWAY_TIME_OUT;

    } else if (call->answered && !call->complete
               && call->body_handler == NULL)
    {
        call->status = NGX_HTTP_BAD_GATEWAY;
    }

    ngx_post_event(&call->posted, &ngx_posted_events);
}


static void
ngx_http_agentstream_call_done_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_call_t  *call;

    call = ev->data;

    if (!call->subscription
        && call->status >= NGX_HTTP_INTERNAL_SERVER_ERROR)
    {
        ngx_http_agentstream_count(ERRORS, 1);
    }

    call->closed = 1;
    call->done_handler(call->data, call);

    ngx_http_agentstream_call_destroy(call);
}


static void
ngx_http_agentstream_call_next_handler(ngx_event_t *ev)
{
    ngx_queue_t                   *q;
    ngx_http_agentstream_call_t   *call;
    ngx_http_agentstream_calls_t  *calls;

    calls = ev->data;

    while (calls->active < NGX_HTTP_AGENTSTREAM_CALLS_MAX
           && !ngx_queue_empty(&calls->waiting))
    {
        q = ngx_queue_head(&calls->waiting);
        ngx_queue_remove(q);

        call = ngx_queue_data(q, ngx_http_agentstream_call_t, queue);

        ngx_http_agentstream_call_run(call);
    }
}


void
ngx_http_agentstream_call_destroy(ngx_http_agentstream_call_t *call)
{
    if (call->timer.timer_set) {
        ngx_del_timer(&call->timer);
    }

    if (call->body.data) {
        ngx_free(call->body.data);
    }

    ngx_destroy_pool(call->pool);
}
