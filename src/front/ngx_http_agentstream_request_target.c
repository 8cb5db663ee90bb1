
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Which session a request means, and whether that belongs to its owner.  A path
 * has a session's id, or "@" and a name, from which the id is computed.  It is
 * decided here, for all routes, before OpenCode is asked for anything.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_request_int.h"


#define NGX_HTTP_AGENTSTREAM_OWNER_MAX  1024


static ngx_int_t ngx_http_agentstream_request_value(ngx_http_request_t *r,
    ngx_http_complex_value_t *value, ngx_str_t *result);
static ngx_uint_t ngx_http_agentstream_request_known(ngx_str_t *owner);


ngx_uint_t
ngx_http_agentstream_request_names(ngx_http_agentstream_request_path_t *path)
{
    return path->named
           ? ngx_http_agentstream_name_valid(&path->name)
           : ngx_http_agentstream_opencode_session_id(&path->segments[0]);
}


ngx_int_t
ngx_http_agentstream_request_target(ngx_http_agentstream_request_t *req)
{
    ngx_int_t            rc;
    ngx_str_t            session;
    ngx_http_request_t  *r;

    r = req->request;

    if (ngx_http_agentstream_request_scope(r, &req->scope) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (req->conf->owner
        && !ngx_http_agentstream_request_known(&req->scope.owner))
    {
        return ngx_http_agentstream_request_error(req, NGX_HTTP_FORBIDDEN,
                                                  "Sessions have owners here, "
                                                  "and you are nobody", NULL);
    }

    ngx_str_null(&session);

    if (ngx_http_agentstream_request_has_session(req)) {
        rc = ngx_http_agentstream_request_session_id(r, &req->scope,
                                                     &req->path, &session);
        if (rc == NGX_DECLINED) {
            return ngx_http_agentstream_request_error(req, NGX_HTTP_NOT_FOUND,
                                                      "Session not found",
                                                      NULL);
        }

        if (rc != NGX_OK) {
            return ngx_http_agentstream_request_nameless(req);
        }

        req->named = req->path.named;
    }

    if (ngx_http_agentstream_target_init(&req->target, r->pool, req->conf,
                                         &req->scope.route, &session)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_agentstream_request_use_name(ngx_http_agentstream_request_t *req,
    ngx_str_t *name)
{
    ngx_int_t    rc;
    ngx_str_t    session;
    ngx_pool_t  *pool;

    pool = req->request->pool;

    session.len = NGX_HTTP_AGENTSTREAM_NAME_ID_LEN;
    session.data = ngx_pnalloc(pool, session.len);

    if (session.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = name->len
         ? ngx_http_agentstream_name_id(&req->scope, name, session.data)
         : ngx_http_agentstream_name_new(&req->scope.owner, NULL,
                                         session.data);

    if (rc != NGX_OK) {
        return ngx_http_agentstream_request_nameless(req);
    }

    req->named = 1;

    if (ngx_http_agentstream_target_init(&req->target, pool, req->conf,
                                         &req->scope.route, &session)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_DECLINED;
}


/* an id could not be computed: never, or only now */

ngx_int_t
ngx_http_agentstream_request_nameless(ngx_http_agentstream_request_t *req)
{
    if (NGX_HTTP_AGENTSTREAM_NAMES) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_agentstream_request_error(req, NGX_HTTP_NOT_IMPLEMENTED,
                                  "Names need a module that was built with "
                                  "OpenSSL's libcrypto", NULL);
}


ngx_int_t
ngx_http_agentstream_request_scope(ngx_http_request_t *r,
    ngx_http_agentstream_name_scope_t *scope)
{
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);

    scope->server = conf->server_name;
    scope->prefix = conf->prefix;

    if (ngx_http_agentstream_request_value(r, conf->route, &scope->route)
        != NGX_OK
        || ngx_http_agentstream_request_value(r, conf->owner, &scope->owner)
           != NGX_OK
        || ngx_http_agentstream_request_value(r, conf->directory,
                                              &scope->directory)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_http_agentstream_request_owner(ngx_http_request_t *r, ngx_str_t *owner)
{
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);

    if (conf->prefix.len == 0) {
        /* a subrequest is about the request that it was made for */

        r = r->main;
        conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);
    }

    if (conf->prefix.len == 0
        || ngx_http_agentstream_request_value(r, conf->owner, owner) != NGX_OK)
    {
        ngx_str_null(owner);
    }
}


static ngx_int_t
ngx_http_agentstream_request_value(ngx_http_request_t *r,
    ngx_http_complex_value_t *value, ngx_str_t *result)
{
    if (value == NULL) {
        ngx_str_null(result);
        return NGX_OK;
    }

    return ngx_http_complex_value(r, value, result);
}


/* whether it can be the name of somebody; a value that is cut off by a control
   byte somewhere else must not be the same as another one */

static ngx_uint_t
ngx_http_agentstream_request_known(ngx_str_t *owner)
{
    size_t  i;

    if (owner->len == 0 || owner->len > NGX_HTTP_AGENTSTREAM_OWNER_MAX) {
        return 0;
    }

    for (i = 0; i < owner->len; i++) {
        if (owner->data[i] < 0x20 || owner->data[i] == 0x7f) {
            return 0;
        }
    }

    return 1;
}


ngx_int_t
ngx_http_agentstream_request_session_id(ngx_http_request_t *r,
    ngx_http_agentstream_name_scope_t *scope,
    ngx_http_agentstream_request_path_t *path, ngx_str_t *session)
{
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);

    if (!path->named) {
        *session = path->segments[0];

        return conf->owner
               ? ngx_http_agentstream_name_owned(&scope->owner, session)
               : NGX_OK;
    }

    session->len = NGX_HTTP_AGENTSTREAM_NAME_ID_LEN;
    session->data = ngx_pnalloc(r->pool, session->len);

    if (session->data == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_name_id(scope, &path->name, session->data);
}
