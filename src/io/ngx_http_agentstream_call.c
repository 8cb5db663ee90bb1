
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The life of a call.  Invariant: a call either waits in a queue, runs, or has
 * its done_handler posted; in each of these states it is ended exactly once.
 * call_request makes the requests that a call consists of, and call_filter
 * takes the answer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call_int.h"
#include "ngx_http_agentstream_text.h"
#include "ngx_http_agentstream_store.h"


#define NGX_HTTP_AGENTSTREAM_CALL_TIMEOUT  30000


static ngx_http_agentstream_call_t *ngx_http_agentstream_call_alloc(
    ngx_http_conf_ctx_t *server, ngx_str_t *prefix, ngx_str_t *route);
static ngx_int_t ngx_http_agentstream_call_destination(
    ngx_http_agentstream_call_t *call, ngx_str_t *route);
static void ngx_http_agentstream_call_timeout_handler(ngx_event_t *ev);
static void ngx_http_agentstream_call_terminate(
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_call_cleanup(void *data);
static void ngx_http_agentstream_call_done_handler(ngx_event_t *ev);


ngx_http_agentstream_call_t *
ngx_http_agentstream_call_create(ngx_http_agentstream_loc_conf_t *conf,
    ngx_str_t *route, ngx_uint_t request, ngx_str_t *session, ngx_str_t *id,
    ngx_str_t *directory)
{
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_alloc(conf->server, &conf->prefix, route);
    if (call == NULL) {
        return NULL;
    }

    if (ngx_http_agentstream_opencode_address(call->pool, &call->address,
                                              request, session, id, directory)
        != NGX_OK)
    {
        ngx_destroy_pool(call->pool);
        return NULL;
    }

    call->limit = call->address.limit;

    switch (request) {

    case NGX_HTTP_AGENTSTREAM_GET_STATUS:
    case NGX_HTTP_AGENTSTREAM_GET_MESSAGES:
    case NGX_HTTP_AGENTSTREAM_GET_MESSAGE:
    case NGX_HTTP_AGENTSTREAM_GET_QUESTIONS:
    case NGX_HTTP_AGENTSTREAM_GET_PERMISSIONS:
        call->kind = NGX_HTTP_AGENTSTREAM_CALL_LOOKUP;
        break;

    default:
        call->kind = ngx_http_agentstream_call_kind(conf);
    }

    return call;
}


ngx_http_agentstream_call_t *
ngx_http_agentstream_call_create_at(ngx_http_conf_ctx_t *server,
    ngx_str_t *prefix)
{
    ngx_str_t  route;

    ngx_str_null(&route);

    return ngx_http_agentstream_call_alloc(server, prefix, &route);
}


static ngx_http_agentstream_call_t *
ngx_http_agentstream_call_alloc(ngx_http_conf_ctx_t *server, ngx_str_t *prefix,
    ngx_str_t *route)
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
    call->server = server;
    call->prefix = *prefix;
    call->timeout = NGX_HTTP_AGENTSTREAM_CALL_TIMEOUT;
    call->status = NGX_HTTP_INTERNAL_SERVER_ERROR;
    call->unsent = 1;

    if (ngx_http_agentstream_call_destination(call, route) != NGX_OK) {
        goto failed;
    }

    call->timer.handler = ngx_http_agentstream_call_timeout_handler;
    call->timer.data = call;
    call->timer.log = ngx_cycle->log;

    call->posted.handler = ngx_http_agentstream_call_done_handler;
    call->posted.data = call;
    call->posted.log = ngx_cycle->log;

    call->yield.handler = ngx_http_agentstream_call_yield_handler;
    call->yield.data = call;
    call->yield.log = ngx_cycle->log;

    return call;

failed:

    ngx_destroy_pool(pool);

    return NULL;
}


/* the destination is the server, the prefix and the route, joined to one
   key */

static ngx_int_t
ngx_http_agentstream_call_destination(ngx_http_agentstream_call_t *call,
    ngx_str_t *route)
{
    u_char  *p;

    call->key.len = sizeof(call->server) + call->prefix.len + 1 + route->len;

    p = ngx_pnalloc(call->pool, call->key.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    call->key.data = p;

    p = ngx_cpymem(p, &call->server, sizeof(call->server));
    p = ngx_cpymem(p, call->prefix.data, call->prefix.len);
    *p++ = '\0';

    if (route->len) {
        ngx_memcpy(p, route->data, route->len);
    }

    call->route.len = route->len;
    call->route.data = p;

    return NGX_OK;
}


ngx_http_agentstream_call_t *
ngx_http_agentstream_call_session(ngx_http_agentstream_loc_conf_t *conf,
    ngx_str_t *route, ngx_str_t *session,
    ngx_http_agentstream_call_done_pt handler, void *data)
{
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_create(conf, route,
                                            NGX_HTTP_AGENTSTREAM_GET_SESSION,
                                            session, NULL, NULL);
    if (call == NULL) {
        return NULL;
    }

    call->done_handler = handler;
    call->data = data;

    ngx_http_agentstream_call_open(call);

    return call;
}


void
ngx_http_agentstream_call_open(ngx_http_agentstream_call_t *call)
{
    if (call->timeout) {
        ngx_add_timer(&call->timer, call->timeout);
    }

    if (!call->subscription) {
        ngx_http_agentstream_count(REQUESTS, 1);
    }

    switch (ngx_http_agentstream_call_enter(call)) {

    case NGX_OK:
        ngx_http_agentstream_call_run(call);
        break;

    case NGX_AGAIN:
        break;

    default: /* NGX_ERROR */
        ngx_post_event(&call->posted, &ngx_posted_events);
    }
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
        ngx_http_agentstream_call_leave(call);
        ngx_http_agentstream_call_destroy(call);
        return;
    }

    /* inside the filter nothing may be freed: the filter sees "closed" and
       returns */

    if (!call->filtering) {
        ngx_http_agentstream_call_terminate(call);
    }
}


ngx_int_t
ngx_http_agentstream_call_abandon(ngx_http_agentstream_call_t *call)
{
    if (!call->posted.posted && ngx_http_agentstream_call_unsent(call)) {
        ngx_http_agentstream_call_close(call);
        return NGX_OK;
    }

    if (call->running) {
        ngx_http_agentstream_call_let(call);
    }

    return NGX_DECLINED;
}


void
ngx_http_agentstream_call_run(ngx_http_agentstream_call_t *call)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;
    ngx_pool_cleanup_t  *cln;

    c = ngx_http_agentstream_call_connect(call);
    if (c == NULL) {
        goto failed;
    }

    r = ngx_http_agentstream_call_create_main(call, c);
    if (r == NULL) {
        ngx_http_close_connection(c);
        goto failed;
    }

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        ngx_http_free_request(r, 0);
        ngx_http_close_connection(c);
        goto failed;
    }

    cln->handler = ngx_http_agentstream_call_cleanup;
    cln->data = call;

    call->request = r;
    call->running = 1;

    if (!call->subscription) {
        ngx_http_agentstream_count(CALLS, 1);
    }

    if (ngx_http_agentstream_call_subrequest(call, r) != NGX_OK) {
        ngx_http_agentstream_call_terminate(call);
        return;
    }

    ngx_http_run_posted_requests(c);

    return;

failed:

    ngx_http_agentstream_call_leave(call);
    ngx_post_event(&call->posted, &ngx_posted_events);
}


static void
ngx_http_agentstream_call_timeout_handler(ngx_event_t *ev)
{
    u_char                        buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    ngx_str_t                     text;
    ngx_http_agentstream_call_t  *call;

    call = ev->data;

    call->timedout = 1;

    if (!call->running) {
        text = ngx_http_agentstream_text_escape(buf, &call->address.uri);

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "agentstream call: not sent within %M ms, all places "
                      "are taken, call: \"%V\"", call->timeout, &text);

        ngx_http_agentstream_call_leave(call);

        call->status = NGX_HTTP_GATEWAY_TIME_OUT;
        ngx_post_event(&call->posted, &ngx_posted_events);
        return;
    }

    ngx_log_error(NGX_LOG_ERR, call->request->connection->log, 0,
                  "agentstream call: no answer within %M ms", call->timeout);

    ngx_http_agentstream_call_terminate(call);
}


void
ngx_http_agentstream_call_expel(ngx_http_agentstream_call_t *call)
{
    ngx_log_error(NGX_LOG_INFO, call->request->connection->log, 0,
                  "agentstream call: nobody waits for it, and its place is "
                  "wanted");

    call->timedout = 1;

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

    call->unsent = ngx_http_agentstream_call_unsent(call);
    call->request = NULL;
    call->subrequest = NULL;
    call->running = 0;

    if (call->timer.timer_set) {
        ngx_del_timer(&call->timer);
    }

    if (call->yield.posted) {
        ngx_delete_posted_event(&call->yield);
    }

    if (!call->subscription) {
        ngx_http_agentstream_count(CALLS, -1);
    }

    ngx_http_agentstream_call_leave(call);

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

    } else if (call->status == NGX_HTTP_OK && call->element_handler
               && !ngx_http_agentstream_json_split_complete(&call->split))
    {
        call->status = NGX_HTTP_BAD_GATEWAY;
        call->nonsense = 1;
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


void
ngx_http_agentstream_call_destroy(ngx_http_agentstream_call_t *call)
{
    if (call->timer.timer_set) {
        ngx_del_timer(&call->timer);
    }

    if (call->body.data) {
        ngx_free(call->body.data);
    }

    ngx_http_agentstream_json_split_destroy(&call->split);
    ngx_http_agentstream_json_destroy(&call->json);

    ngx_destroy_pool(call->pool);
}
