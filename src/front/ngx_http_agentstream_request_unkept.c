
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests that end or unblock a turn which is not kept, as after a
 * restart of nginx.  OpenCode is asked for the session, then for what waits or
 * what is busy there; only what is found is passed on.  What waits in another
 * session may be a subagent's: the way up from there must lead to this one.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_turn.h"


#define NGX_HTTP_AGENTSTREAM_UNKEPT_DEPTH  8


typedef struct {
    ngx_http_agentstream_request_t  *req;
    ngx_uint_t                       request;
    ngx_str_t                        content;
    ngx_str_t                        session;    /* the next to be looked up */
    ngx_str_t                        directory;
    const char                      *missing;
    ngx_uint_t                       depth;
} ngx_http_agentstream_unkept_t;


static ngx_int_t ngx_http_agentstream_request_unkept_look_up(
    ngx_http_agentstream_unkept_t *un,
    ngx_http_agentstream_call_done_pt handler);
static ngx_int_t ngx_http_agentstream_request_unkept_ask(
    ngx_http_agentstream_unkept_t *un, ngx_uint_t request,
    ngx_http_agentstream_call_done_pt handler);
static void ngx_http_agentstream_request_unkept_session_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_request_unkept_found(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_request_unkept_pass(
    ngx_http_agentstream_unkept_t *un, ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_request_unkept_owned(
    ngx_http_agentstream_unkept_t *un);
static void ngx_http_agentstream_request_unkept_parent_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_request_unkept_abort(
    ngx_http_agentstream_unkept_t *un, ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_request_unkept_hold(
    ngx_http_agentstream_relay_t *relay);
static void ngx_http_agentstream_request_unkept_finalize(
    ngx_http_agentstream_unkept_t *un, ngx_int_t rc);


static ngx_str_t  ngx_http_agentstream_request_yes =
    ngx_string("{\"interrupted\":true}");
static ngx_str_t  ngx_http_agentstream_request_no =
    ngx_string("{\"interrupted\":false}");


ngx_int_t
ngx_http_agentstream_request_unkept(ngx_http_agentstream_request_t *req,
    ngx_uint_t request, ngx_str_t *content, const char *missing)
{
    ngx_http_agentstream_unkept_t  *un;

    un = ngx_pcalloc(req->request->pool,
                     sizeof(ngx_http_agentstream_unkept_t));
    if (un == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    un->req = req;
    un->request = request;
    un->session = req->target.session;
    un->missing = missing;

    if (content) {
        un->content = *content;
    }

    ngx_http_agentstream_output_wait(req->request);

    return ngx_http_agentstream_request_unkept_look_up(un,
                             ngx_http_agentstream_request_unkept_session_done);
}


static ngx_int_t
ngx_http_agentstream_request_unkept_look_up(ngx_http_agentstream_unkept_t *un,
    ngx_http_agentstream_call_done_pt handler)
{
    ngx_http_agentstream_request_t  *req;

    req = un->req;

    req->call = ngx_http_agentstream_call_session(req->conf, &req->target.route,
                                                  &un->session, handler, un);

    return req->call ? NGX_DONE : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static ngx_int_t
ngx_http_agentstream_request_unkept_ask(ngx_http_agentstream_unkept_t *un,
    ngx_uint_t request, ngx_http_agentstream_call_done_pt handler)
{
    ngx_http_agentstream_call_t     *call;
    ngx_http_agentstream_request_t  *req;

    req = un->req;

    call = ngx_http_agentstream_call_create(req->conf, &req->target.route,
                                            request, NULL, NULL,
                                            &un->directory);
    if (call == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_CLIENT;
    call->done_handler = handler;
    call->data = un;

    req->call = call;

    ngx_http_agentstream_call_open(call);

    return NGX_DONE;
}


static void
ngx_http_agentstream_request_unkept_session_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_unkept_t *un = data;

    ngx_int_t                        rc;
    ngx_uint_t                       request;
    ngx_http_agentstream_request_t  *req;

    req = un->req;
    req->call = NULL;

    ngx_http_set_log_request(req->request->connection->log, req->request);

    if (call->status != NGX_HTTP_OK) {

        if (call->status == NGX_HTTP_NOT_FOUND && un->missing == NULL) {
            rc = ngx_http_agentstream_request_reply(req, NGX_HTTP_OK,
                                            &ngx_http_agentstream_request_no);

        } else {
            rc = ngx_http_agentstream_request_upstream_error(req,
                                                             call->status,
                                                             un->missing);
        }

        ngx_http_agentstream_request_unkept_finalize(un, rc);
        return;
    }

    rc = ngx_http_agentstream_opencode_directory(req->request->pool,
                                                 &call->body,
                                                 &req->target.session,
                                                 &un->directory);
    if (rc != NGX_OK) {
        rc = ngx_http_agentstream_request_nonsense(un->req, rc);

        ngx_http_agentstream_request_unkept_finalize(un, rc);
        return;
    }

    switch (un->request) {

    case NGX_HTTP_AGENTSTREAM_ABORT:
        request = NGX_HTTP_AGENTSTREAM_GET_STATUS;
        break;

    case NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION:
        request = NGX_HTTP_AGENTSTREAM_GET_PERMISSIONS;
        break;

    default:
        request = NGX_HTTP_AGENTSTREAM_GET_QUESTIONS;
    }

    rc = ngx_http_agentstream_request_unkept_ask(un, request,
                                    ngx_http_agentstream_request_unkept_found);

    ngx_http_agentstream_request_unkept_finalize(un, rc);
}


static void
ngx_http_agentstream_request_unkept_found(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_unkept_t *un = data;

    ngx_int_t                        rc;
    ngx_http_agentstream_request_t  *req;

    req = un->req;
    req->call = NULL;

    ngx_http_set_log_request(req->request->connection->log, req->request);

    if (call->status != NGX_HTTP_OK) {
        rc = ngx_http_agentstream_request_upstream_error(req, call->status,
                                                         un->missing);

    } else {
        rc = ngx_http_agentstream_request_unkept_pass(un, call);
    }

    ngx_http_agentstream_request_unkept_finalize(un, rc);
}


static ngx_int_t
ngx_http_agentstream_request_unkept_pass(ngx_http_agentstream_unkept_t *un,
    ngx_http_agentstream_call_t *call)
{
    ngx_int_t                        rc;
    ngx_http_agentstream_request_t  *req;

    req = un->req;

    if (un->missing == NULL) {
        return ngx_http_agentstream_request_unkept_abort(un, call);
    }

    rc = ngx_http_agentstream_opencode_waits(req->request->pool, &call->body,
                                             &req->id, &un->session);
    if (rc != NGX_OK) {
        return ngx_http_agentstream_request_nonsense(un->req, rc);
    }

    return ngx_http_agentstream_request_unkept_owned(un);
}


static ngx_int_t
ngx_http_agentstream_request_unkept_owned(ngx_http_agentstream_unkept_t *un)
{
    ngx_http_agentstream_relay_t    *relay;
    ngx_http_agentstream_request_t  *req;

    req = un->req;

    if (un->session.len != req->target.session.len
        || ngx_memcmp(un->session.data, req->target.session.data,
                      req->target.session.len)
           != 0)
    {
        if (un->session.len == 0
            || un->depth++ == NGX_HTTP_AGENTSTREAM_UNKEPT_DEPTH)
        {
            return ngx_http_agentstream_request_error(req, NGX_HTTP_NOT_FOUND,
                                                      un->missing, NULL);
        }

        return ngx_http_agentstream_request_unkept_look_up(un,
                              ngx_http_agentstream_request_unkept_parent_done);
    }

    relay = ngx_http_agentstream_request_relay_create(req, un->request,
                                                      &req->id,
                                                      &un->directory,
                                                      &un->content);
    if (relay == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    relay->missing = un->missing;

    ngx_http_agentstream_request_relay_open(relay);

    return NGX_DONE;
}


static void
ngx_http_agentstream_request_unkept_parent_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_unkept_t *un = data;

    ngx_int_t                        rc;
    ngx_str_t                        session;
    ngx_http_agentstream_request_t  *req;

    req = un->req;
    req->call = NULL;

    ngx_http_set_log_request(req->request->connection->log, req->request);

    if (call->status != NGX_HTTP_OK) {
        rc = ngx_http_agentstream_request_upstream_error(req, call->status,
                                                         un->missing);

    } else {
        session = un->session;

        rc = ngx_http_agentstream_opencode_parent(req->request->pool,
                                                  &call->body, &session,
                                                  &un->session);

        rc = (rc == NGX_OK)
             ? ngx_http_agentstream_request_unkept_owned(un)
             : ngx_http_agentstream_request_nonsense(un->req, rc);
    }

    ngx_http_agentstream_request_unkept_finalize(un, rc);
}


static ngx_int_t
ngx_http_agentstream_request_unkept_abort(ngx_http_agentstream_unkept_t *un,
    ngx_http_agentstream_call_t *call)
{
    ngx_int_t                        rc;
    ngx_http_agentstream_relay_t    *relay;
    ngx_http_agentstream_request_t  *req;

    req = un->req;

    rc = ngx_http_agentstream_opencode_busy(&call->body, &req->target.session);

    if (rc == NGX_ERROR) {
        return ngx_http_agentstream_request_nonsense(un->req, NGX_DECLINED);
    }

    if (rc == NGX_OK) {
        relay = ngx_http_agentstream_request_relay_create(req, un->request,
                                                          NULL, &un->directory,
                                                          NULL);
        if (relay == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        rc = ngx_http_agentstream_request_unkept_hold(relay);

        if (rc == NGX_OK) {
            relay->reply = &ngx_http_agentstream_request_yes;

            ngx_http_agentstream_request_relay_open(relay);

            return NGX_DONE;
        }

        ngx_http_agentstream_call_destroy(relay->call);
        ngx_destroy_pool(relay->pool);
        req->relay = NULL;

        if (rc == NGX_ERROR) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    /* one that began meanwhile is for its owner to abort */

    rc = ngx_http_agentstream_turn_interrupt(&req->target);

    return ngx_http_agentstream_request_reply(req, NGX_HTTP_OK,
                                     (rc == NGX_OK)
                                     ? &ngx_http_agentstream_request_yes
                                     : &ngx_http_agentstream_request_no);
}


/*
 * The abort must not hit a turn that begins while it is on its way: none does
 * until it is answered.  NGX_BUSY: one runs already.
 */

static ngx_int_t
ngx_http_agentstream_request_unkept_hold(ngx_http_agentstream_relay_t *relay)
{
    ngx_int_t                        rc;
    ngx_http_agentstream_zone_t     *zone;
    ngx_http_agentstream_request_t  *req;

    req = relay->request;

    relay->session.len = req->target.session.len;
    relay->session.data = ngx_pstrdup(relay->pool, &req->target.session);

    if (relay->session.data == NULL) {
        return NGX_ERROR;
    }

    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_zone_lock(zone);
    rc = ngx_http_agentstream_zone_hold_locked(zone, &req->target.key,
                                               &relay->ticket);
    ngx_http_agentstream_zone_unlock(zone);

    /* a full zone has no room for a turn that could begin, either */

    return (rc == NGX_ERROR) ? NGX_OK : rc;
}


static void
ngx_http_agentstream_request_unkept_finalize(ngx_http_agentstream_unkept_t *un,
    ngx_int_t rc)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    if (rc == NGX_DONE) {
        return;
    }

    r = un->req->request;
    c = r->connection;

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}
