
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests for sessions.  They are passed to OpenCode, and its answers are
 * passed back.  A client gives the id of a session and, for a new one, a
 * title, an agent and a model, and nothing else.  If a turn is running in a
 * session that is to be deleted, it is interrupted first, because OpenCode
 * would continue with it and fail.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_request_int.h"


static ngx_int_t ngx_http_agentstream_request_directory(
    ngx_http_agentstream_request_t *req, ngx_str_t *directory);


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
    ngx_str_t                     directory;
    ngx_http_agentstream_verb_t  *verb;

    if (ngx_http_agentstream_request_directory(req, &directory) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    verb = ngx_http_agentstream_verb_list_sessions(&req->target, &directory,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}


ngx_int_t
ngx_http_agentstream_request_create(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                     rc;
    ngx_str_t                     directory, content;
    ngx_http_agentstream_verb_t  *verb;

    content = ngx_http_agentstream_request_body(req,
                                      NGX_HTTP_AGENTSTREAM_BODY_SESSION, &rc);
    if (content.len == 0) {
        return rc;
    }

    if (ngx_http_agentstream_request_directory(req, &directory) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    verb = ngx_http_agentstream_verb_create_session(&req->target, &directory,
                                            &content,
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
ngx_http_agentstream_request_delete(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_delete_session(&req->target,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}
