
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Relays.  A call is made to OpenCode for a client, and what comes
 * back is the response: its body if all went well, else one "error" packet.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_request_int.h"


static void ngx_http_agentstream_request_relay_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_request_relay_release(
    ngx_http_agentstream_relay_t *relay);
static ngx_int_t ngx_http_agentstream_request_relay_answer(
    ngx_http_agentstream_request_t *req, ngx_http_agentstream_call_t *call,
    ngx_uint_t asked);


ngx_http_agentstream_relay_t *
ngx_http_agentstream_request_relay_create(ngx_http_agentstream_request_t *req,
    ngx_uint_t request, ngx_str_t *id, ngx_str_t *directory,
    ngx_str_t *content)
{
    ngx_pool_t                    *pool;
    ngx_http_agentstream_call_t   *call;
    ngx_http_agentstream_relay_t  *relay;

    pool = ngx_create_pool(512, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    relay = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_relay_t));
    if (relay == NULL) {
        goto failed;
    }

    call = ngx_http_agentstream_call_create(req->conf, &req->target.route,
                                            request, &req->target.session, id,
                                            directory);
    if (call == NULL) {
        goto failed;
    }

    if (content && content->len) {
        call->content.len = content->len;
        call->content.data = ngx_pstrdup(call->pool, content);

        if (call->content.data == NULL) {
            ngx_http_agentstream_call_destroy(call);
            goto failed;
        }
    }

    call->done_handler = ngx_http_agentstream_request_relay_done;
    call->data = relay;

    relay->pool = pool;
    relay->call = call;
    relay->request = req;
    relay->asked = request;
    relay->effects = 1;
    relay->missing = "Session not found";

    req->relay = relay;

    return relay;

failed:

    ngx_destroy_pool(pool);

    return NULL;
}


void
ngx_http_agentstream_request_relay_open(ngx_http_agentstream_relay_t *relay)
{
    if (relay->request) {
        ngx_http_agentstream_output_wait(relay->request->request);

    } else {
        /* the client has left, but the turn was interrupted for it */
        relay->call->kind = NGX_HTTP_AGENTSTREAM_CALL_BACKGROUND;
    }

    ngx_http_agentstream_call_open(relay->call);
}


void
ngx_http_agentstream_request_relay_leave(ngx_http_agentstream_relay_t *relay)
{
    relay->request = NULL;

    if (relay->timer.timer_set) {
        /* it is begun: the turn ends for it */
        return;
    }

    if (relay->effects) {

        if (ngx_http_agentstream_call_abandon(relay->call) != NGX_OK) {
            return;
        }

    } else {
        ngx_http_agentstream_call_close(relay->call);
    }

    ngx_http_agentstream_request_relay_release(relay);
    ngx_destroy_pool(relay->pool);
}


static void
ngx_http_agentstream_request_relay_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_relay_t *relay = data;

    ngx_int_t                        rc;
    ngx_str_t                       *reply;
    ngx_uint_t                       asked;
    const char                      *missing;
    ngx_connection_t                *c;
    ngx_http_request_t              *r;
    ngx_http_agentstream_request_t  *req;

    req = relay->request;
    reply = relay->reply;
    asked = relay->asked;
    missing = relay->missing;

    ngx_http_agentstream_request_relay_release(relay);
    ngx_destroy_pool(relay->pool);

    if (req == NULL) {
        return;
    }

    req->relay = NULL;

    r = req->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    if (call->status < 200 || call->status >= 300) {
        rc = ngx_http_agentstream_request_upstream_error(req, call->status,
                                                         missing);

    } else if (reply) {
        rc = ngx_http_agentstream_request_reply(req, NGX_HTTP_OK, reply);

    } else {
        rc = ngx_http_agentstream_request_relay_answer(req, call, asked);
    }

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_agentstream_request_relay_release(ngx_http_agentstream_relay_t *relay)
{
    ngx_http_agentstream_zone_t  *zone;

    if (relay->ticket == NULL) {
        return;
    }

    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_zone_lock(zone);
    ngx_http_agentstream_zone_unqueue_locked(zone, relay->ticket);
    ngx_http_agentstream_zone_unlock(zone);

    ngx_http_agentstream_notify_announce(&relay->session);
}


static ngx_int_t
ngx_http_agentstream_request_relay_answer(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_call_t *call, ngx_uint_t asked)
{
    ngx_int_t  rc;

    static ngx_str_t  nothing = ngx_string("null");

    switch (asked) {

    case NGX_HTTP_AGENTSTREAM_GET_SESSION:
        rc = ngx_http_agentstream_opencode_is_session(&call->body,
                                                      &req->target.session);
        break;

    case NGX_HTTP_AGENTSTREAM_CREATE_SESSION:
        rc = ngx_http_agentstream_opencode_is_session(&call->body, NULL);
        break;

    case NGX_HTTP_AGENTSTREAM_GET_SESSIONS:
        rc = ngx_http_agentstream_opencode_is_list(&call->body);
        break;

    default:

        if (call->body.len == 0) {
            return ngx_http_agentstream_request_reply(req, NGX_HTTP_OK,
                                                      &nothing);
        }

        rc = ngx_http_agentstream_opencode_is_json(&call->body);
    }

    if (rc != NGX_OK) {
        return ngx_http_agentstream_request_nonsense(req, rc);
    }

    return ngx_http_agentstream_request_reply(req, call->status, &call->body);
}


ngx_int_t
ngx_http_agentstream_request_nonsense(ngx_http_agentstream_request_t *req,
    ngx_int_t rc)
{
    ngx_uint_t   code;
    const char  *reason;

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    reason = ngx_http_agentstream_opencode_failure(NGX_HTTP_OK, 1, &code);

    return ngx_http_agentstream_request_error(req, code, reason, NULL);
}


ngx_int_t
ngx_http_agentstream_request_upstream_error(
    ngx_http_agentstream_request_t *req, ngx_uint_t status,
    const char *missing)
{
    ngx_str_t    details;
    ngx_uint_t   code;
    const char  *reason;
    u_char       buf[sizeof("{\"status\":}") + NGX_INT_T_LEN];

    if (status == NGX_HTTP_NOT_FOUND && missing) {
        return ngx_http_agentstream_request_error(req, status, missing, NULL);
    }

    details.data = buf;
    details.len = ngx_sprintf(buf, "{\"status\":%ui}", status) - buf;

    reason = ngx_http_agentstream_opencode_failure(status, 0, &code);

    return ngx_http_agentstream_request_error(req, code, reason, &details);
}
