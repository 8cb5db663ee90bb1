
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests for sessions.  Passed to OpenCode and back; a client names
 * a session and, for a new one, a title, an agent and a model, and nothing
 * else.  A session that is deleted while a turn runs in it is interrupted
 * first, for OpenCode would go on and fail.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_turn.h"
#include "ngx_http_agentstream_zone.h"


/* how often it is looked whether the turn has ended, and how long */
#define NGX_HTTP_AGENTSTREAM_DELETE_POLL  50
#define NGX_HTTP_AGENTSTREAM_DELETE_WAIT  10000


static ngx_int_t ngx_http_agentstream_request_directory(
    ngx_http_agentstream_request_t *req, ngx_str_t *directory);
static void ngx_http_agentstream_request_delete_handler(ngx_event_t *ev);


static ngx_int_t
ngx_http_agentstream_request_directory(ngx_http_agentstream_request_t *req,
    ngx_str_t *directory)
{
    if (req->conf->directory == NULL) {
        ngx_str_null(directory);
        return NGX_OK;
    }

    return ngx_http_complex_value(req->request, req->conf->directory,
                                  directory);
}


ngx_int_t
ngx_http_agentstream_request_list(ngx_http_agentstream_request_t *req)
{
    ngx_str_t                      directory;
    ngx_http_agentstream_relay_t  *relay;

    if (ngx_http_agentstream_request_directory(req, &directory) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    relay = ngx_http_agentstream_request_relay_create(req,
                                            NGX_HTTP_AGENTSTREAM_GET_SESSIONS,
                                            NULL, &directory, NULL);
    if (relay == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    relay->effects = 0;
    relay->missing = "No sessions";

    ngx_http_agentstream_request_relay_open(relay);

    return NGX_DONE;
}


ngx_int_t
ngx_http_agentstream_request_create(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                      rc;
    ngx_str_t                      directory, content;
    ngx_http_agentstream_relay_t  *relay;

    content = ngx_http_agentstream_request_body(req,
                                      NGX_HTTP_AGENTSTREAM_BODY_SESSION, &rc);
    if (content.len == 0) {
        return rc;
    }

    if (ngx_http_agentstream_request_directory(req, &directory) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    relay = ngx_http_agentstream_request_relay_create(req,
                                          NGX_HTTP_AGENTSTREAM_CREATE_SESSION,
                                          NULL, &directory, &content);
    if (relay == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_agentstream_request_relay_open(relay);

    return NGX_DONE;
}


ngx_int_t
ngx_http_agentstream_request_look_up(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_relay_t  *relay;

    relay = ngx_http_agentstream_request_relay_create(req,
                                             NGX_HTTP_AGENTSTREAM_GET_SESSION,
                                             NULL, NULL, NULL);
    if (relay == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    relay->effects = 0;

    ngx_http_agentstream_request_relay_open(relay);

    return NGX_DONE;
}


ngx_int_t
ngx_http_agentstream_request_delete(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_relay_t  *relay;

    relay = ngx_http_agentstream_request_relay_create(req,
                                          NGX_HTTP_AGENTSTREAM_DELETE_SESSION,
                                          NULL, NULL, NULL);
    if (relay == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    relay->key.len = req->target.key.len;
    relay->key.data = ngx_pstrdup(relay->pool, &req->target.key);

    if (relay->key.data == NULL) {
        ngx_http_agentstream_call_destroy(relay->call);
        ngx_destroy_pool(relay->pool);
        req->relay = NULL;

        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ngx_http_agentstream_turn_interrupt(&req->target) == NGX_DECLINED) {
        ngx_http_agentstream_request_relay_open(relay);
        return NGX_DONE;
    }

    relay->until = ngx_current_msec + NGX_HTTP_AGENTSTREAM_DELETE_WAIT;

    relay->timer.handler = ngx_http_agentstream_request_delete_handler;
    relay->timer.data = relay;
    relay->timer.log = ngx_cycle->log;

    ngx_add_timer(&relay->timer, NGX_HTTP_AGENTSTREAM_DELETE_POLL);

    ngx_http_agentstream_output_wait(req->request);

    return NGX_DONE;
}


static void
ngx_http_agentstream_request_delete_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_node_t   *node;
    ngx_http_agentstream_zone_t   *zone;
    ngx_http_agentstream_relay_t  *relay;

    relay = ev->data;
    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_zone_lock(zone);
    node = ngx_http_agentstream_zone_running_locked(zone, &relay->key);
    ngx_http_agentstream_zone_unlock(zone);

    if (node && (ngx_msec_int_t) (relay->until - ngx_current_msec) > 0) {
        ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_DELETE_POLL);
        return;
    }

    ngx_http_agentstream_request_relay_open(relay);
}
