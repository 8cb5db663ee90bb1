
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests that end or unblock a running turn.  OpenCode does not
 * check whose a question or a permission request is, so only what the zone
 * lists for the session's turn is passed on; where none runs here, see
 * request_unkept.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_turn.h"
#include "ngx_http_agentstream_zone.h"


static ngx_int_t ngx_http_agentstream_request_answer_body(
    ngx_http_agentstream_request_t *req, ngx_uint_t kind, ngx_uint_t request,
    ngx_uint_t permission);
static ngx_int_t ngx_http_agentstream_request_answer(
    ngx_http_agentstream_request_t *req, ngx_uint_t request,
    ngx_uint_t permission, ngx_str_t *content);
static ngx_int_t ngx_http_agentstream_request_waits(
    ngx_http_agentstream_request_t *req, ngx_uint_t permission,
    ngx_str_t *directory);


ngx_int_t
ngx_http_agentstream_request_interrupt(ngx_http_agentstream_request_t *req)
{
    ngx_int_t  rc;

    static ngx_str_t  yes = ngx_string("{\"interrupted\":true}");

    rc = ngx_http_agentstream_turn_interrupt(&req->target);

    if (rc == NGX_DECLINED) {
        return ngx_http_agentstream_request_unkept(req,
                                                   NGX_HTTP_AGENTSTREAM_ABORT,
                                                   NULL, NULL);
    }

    return ngx_http_agentstream_request_reply(req, NGX_HTTP_OK, &yes);
}


ngx_int_t
ngx_http_agentstream_request_question_reply(
    ngx_http_agentstream_request_t *req)
{
    return ngx_http_agentstream_request_answer_body(req,
                                          NGX_HTTP_AGENTSTREAM_BODY_ANSWERS,
                                          NGX_HTTP_AGENTSTREAM_REPLY_QUESTION,
                                          0);
}


ngx_int_t
ngx_http_agentstream_request_question_reject(
    ngx_http_agentstream_request_t *req)
{
    return ngx_http_agentstream_request_answer(req,
                                         NGX_HTTP_AGENTSTREAM_REJECT_QUESTION,
                                         0, NULL);
}


ngx_int_t
ngx_http_agentstream_request_permission_reply(
    ngx_http_agentstream_request_t *req)
{
    return ngx_http_agentstream_request_answer_body(req,
                                        NGX_HTTP_AGENTSTREAM_BODY_REPLY,
                                        NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION,
                                        1);
}


static ngx_int_t
ngx_http_agentstream_request_answer_body(ngx_http_agentstream_request_t *req,
    ngx_uint_t kind, ngx_uint_t request, ngx_uint_t permission)
{
    ngx_int_t  rc;
    ngx_str_t  content;

    content = ngx_http_agentstream_request_body(req, kind, &rc);
    if (content.len == 0) {
        return rc;
    }

    return ngx_http_agentstream_request_answer(req, request, permission,
                                               &content);
}


static ngx_int_t
ngx_http_agentstream_request_answer(ngx_http_agentstream_request_t *req,
    ngx_uint_t request, ngx_uint_t permission, ngx_str_t *content)
{
    ngx_int_t                      rc;
    ngx_str_t                      directory;
    const char                    *missing;
    ngx_http_agentstream_relay_t  *relay;

    missing = permission ? "No such permission request waits in this session"
                         : "No such question waits in this session";

    rc = ngx_http_agentstream_request_waits(req, permission, &directory);

    if (rc == NGX_DECLINED) {
        return ngx_http_agentstream_request_error(req, NGX_HTTP_NOT_FOUND,
                                                  missing, NULL);
    }

    if (rc == NGX_ABORT) {
        return ngx_http_agentstream_request_unkept(req, request, content,
                                                   missing);
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    relay = ngx_http_agentstream_request_relay_create(req, request, &req->id,
                                                      &directory, content);
    if (relay == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    relay->missing = missing;

    ngx_http_agentstream_request_relay_open(relay);

    return NGX_DONE;
}


/* NGX_OK, NGX_DECLINED: it does not wait, NGX_ABORT: no turn runs here,
   NGX_ERROR: no memory */

static ngx_int_t
ngx_http_agentstream_request_waits(ngx_http_agentstream_request_t *req,
    ngx_uint_t permission, ngx_str_t *directory)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_running_locked(zone, &req->target.key);

    rc = node ? NGX_DECLINED : NGX_ABORT;

    if (node && ngx_http_agentstream_zone_asks_locked(node, &req->id,
                                                      permission))
    {
        directory->len = node->directory.len;
        directory->data = ngx_pstrdup(req->request->pool, &node->directory);

        rc = directory->data ? NGX_OK : NGX_ERROR;
    }

    ngx_http_agentstream_zone_unlock(zone);

    return rc;
}
