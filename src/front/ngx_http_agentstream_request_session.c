
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests for sessions.  They are passed to OpenCode, and its answers are
 * passed back.  A client gives the id or the name of a session and, for a new
 * one, a name, a title, an agent and a model, and nothing else.  It can ask
 * which agents and models there are, and rename a session.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_request_int.h"


static ngx_int_t ngx_http_agentstream_request_choices(
    ngx_http_agentstream_request_t *req, ngx_uint_t field, ngx_uint_t request);
static ngx_int_t ngx_http_agentstream_request_make(
    ngx_http_agentstream_request_t *req, ngx_http_agentstream_body_t *body);


ngx_int_t
ngx_http_agentstream_request_list(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_verb_t  *verb;

    if (req->conf->owner) {
        return ngx_http_agentstream_request_owned(req);
    }

    verb = ngx_http_agentstream_verb_list_sessions(&req->target,
                                            &req->scope.directory,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}


ngx_int_t
ngx_http_agentstream_request_create(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                     rc;
    ngx_str_t                     content;
    ngx_http_agentstream_body_t   body;
    ngx_http_agentstream_verb_t  *verb;

    if (ngx_http_agentstream_request_body(req,
                                          NGX_HTTP_AGENTSTREAM_BODY_SESSION,
                                          &body, &rc)
        != NGX_OK)
    {
        return rc;
    }

    if (body.name.len || req->conf->owner) {
        return ngx_http_agentstream_request_make(req, &body);
    }

    if (ngx_http_agentstream_body_create(req->request->pool, &body, &content)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    verb = ngx_http_agentstream_verb_create_session(&req->target,
                                            &req->scope.directory, &content,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}


/* a session whose id is ours to choose, because it has a name or an owner */

static ngx_int_t
ngx_http_agentstream_request_make(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_body_t *body)
{
    ngx_int_t                     rc;
    ngx_str_t                     make, update;
    ngx_pool_t                   *pool;
    ngx_http_agentstream_verb_t  *verb;

    pool = req->request->pool;

    rc = ngx_http_agentstream_request_use_name(req, &body->name);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (ngx_http_agentstream_body_make(pool, body, &req->target.session,
                                       &req->scope.directory, &make)
        != NGX_OK
        || ngx_http_agentstream_body_update(pool, body, &update) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    verb = ngx_http_agentstream_verb_make_session(&req->target, &make, &update,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}


ngx_int_t
ngx_http_agentstream_request_look_up(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_get_session(&req->target,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}


ngx_int_t
ngx_http_agentstream_request_rename(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                     rc;
    ngx_str_t                     content;
    ngx_http_agentstream_body_t   body;
    ngx_http_agentstream_verb_t  *verb;

    if (ngx_http_agentstream_request_body(req, NGX_HTTP_AGENTSTREAM_BODY_TITLE,
                                          &body, &rc)
        != NGX_OK)
    {
        return rc;
    }

    if (ngx_http_agentstream_body_update(req->request->pool, &body, &content)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    verb = ngx_http_agentstream_verb_update_session(&req->target, &content,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}


ngx_int_t
ngx_http_agentstream_request_models(ngx_http_agentstream_request_t *req)
{
    return ngx_http_agentstream_request_choices(req,
                                            NGX_HTTP_AGENTSTREAM_FIELD_MODEL,
                                            NGX_HTTP_AGENTSTREAM_GET_MODELS);
}


ngx_int_t
ngx_http_agentstream_request_agents(ngx_http_agentstream_request_t *req)
{
    return ngx_http_agentstream_request_choices(req,
                                            NGX_HTTP_AGENTSTREAM_FIELD_AGENT,
                                            NGX_HTTP_AGENTSTREAM_GET_AGENTS);
}


/* whoever has no choice is not told what there is */

static ngx_int_t
ngx_http_agentstream_request_choices(ngx_http_agentstream_request_t *req,
    ngx_uint_t field, ngx_uint_t request)
{
    ngx_int_t                     rc;
    ngx_uint_t                    may;
    ngx_http_agentstream_verb_t  *verb;

    static ngx_str_t  none = ngx_string("[]");

    if (ngx_http_agentstream_request_chooses(req, field, &may, &rc)
        != NGX_OK)
    {
        return rc;
    }

    if (!may) {
        return ngx_http_agentstream_request_reply(req, NGX_HTTP_OK, &none);
    }

    verb = ngx_http_agentstream_verb_list_choices(&req->target,
                                            &req->scope.directory, request,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}


ngx_int_t
ngx_http_agentstream_request_delete(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_delete_session(&req->target,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}
