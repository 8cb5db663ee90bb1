
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 4: bodies of requests, checked and written anew for OpenCode.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_request_int.h"


static ngx_int_t ngx_http_agentstream_request_refused(
    ngx_http_agentstream_request_t *req, ngx_int_t rc,
    ngx_http_agentstream_fields_error_t *error);


ngx_str_t
ngx_http_agentstream_request_body(ngx_http_agentstream_request_t *req,
    ngx_uint_t kind, ngx_int_t *rc)
{
    ngx_str_t                    none, text;
    ngx_http_agentstream_body_t  body;

    ngx_str_null(&none);

    text = req->body;

    if (kind == NGX_HTTP_AGENTSTREAM_BODY_SESSION && text.len == 0) {
        ngx_str_set(&text, "{}");
    }

    *rc = ngx_http_agentstream_body_build(req->request->pool, kind, NULL,
                                          &text, &body);

    ngx_http_agentstream_request_free_body(req);

    if (*rc == NGX_OK) {
        return body.text;
    }

    *rc = ngx_http_agentstream_request_refused(req, *rc, &body.error);

    return none;
}


ngx_int_t
ngx_http_agentstream_request_prompt(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_prompt_t *prompt, ngx_int_t *rc)
{
    *rc = ngx_http_agentstream_prompt_build(req->request->pool, NULL,
                                         &req->body,
                                         NGX_HTTP_AGENTSTREAM_MESSAGE_ID_LEN,
                                         prompt);

    ngx_http_agentstream_request_free_body(req);

    if (*rc == NGX_OK) {
        return NGX_OK;
    }

    *rc = ngx_http_agentstream_request_refused(req, *rc, &prompt->error);

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_agentstream_request_refused(ngx_http_agentstream_request_t *req,
    ngx_int_t rc, ngx_http_agentstream_fields_error_t *error)
{
    ngx_str_t  message;

    if (rc != NGX_DECLINED) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    message.data = error->data;
    message.len = error->len;

    return ngx_http_agentstream_request_error_text(req, NGX_HTTP_BAD_REQUEST,
                                                   &message, NULL);
}
