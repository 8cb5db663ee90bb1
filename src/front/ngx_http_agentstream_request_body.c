
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Request bodies.  They are read into memory, never into files, checked,
 * written again for OpenCode, and completed with the fields that the
 * configuration sets.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_request_int.h"


static void ngx_http_agentstream_request_body_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_request_collect(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_fields(
    ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_fields_conf_t *fields, ngx_int_t *rc);


ngx_int_t
ngx_http_agentstream_request_read_body(ngx_http_agentstream_request_t *req)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = req->request;
    r->request_body_no_buffering = 1;

    rc = ngx_http_read_client_request_body(r,
                                   ngx_http_agentstream_request_body_handler);

    return (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? rc : NGX_DONE;
}


static void
ngx_http_agentstream_request_body_handler(ngx_http_request_t *r)
{
    ngx_int_t                        rc;
    ngx_http_agentstream_output_t   *out;
    ngx_http_agentstream_request_t  *req;

    out = ngx_http_get_module_ctx(r, ngx_http_agentstream_module);
    req = ngx_queue_data(out, ngx_http_agentstream_request_t, output);

    for ( ;; ) {
        rc = ngx_http_agentstream_request_collect(req);

        if (rc != NGX_DECLINED) {
            ngx_http_finalize_request(r, rc);
            return;
        }

        if (!r->reading_body) {
            break;
        }

        rc = ngx_http_read_unbuffered_request_body(r);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            ngx_http_finalize_request(r, rc);
            return;
        }

        if (rc == NGX_AGAIN && r->request_body->bufs == NULL) {
            r->read_event_handler = ngx_http_agentstream_request_body_handler;
            return;
        }
    }

    ngx_http_agentstream_request_run(req);
}


static ngx_int_t
ngx_http_agentstream_request_collect(ngx_http_agentstream_request_t *req)
{
    off_t                size;
    size_t               len;
    u_char              *p;
    ngx_buf_t           *b;
    ngx_chain_t         *cl;
    ngx_http_request_t  *r;

    r = req->request;

    for (cl = r->request_body->bufs; cl; cl = cl->next) {
        b = cl->buf;
        len = b->last - b->pos;
        size = req->body.len + len;

        if (len == 0) {
            continue;
        }

        if (req->conf->body_size && size > req->conf->body_size) {
            return ngx_http_agentstream_request_error(req,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "The body is too large", NULL);
        }

        if ((size_t) size > req->size) {
            /* no memory is allocated for a body that is announced but not sent
               yet */

            req->size = ngx_max((size_t) size, req->size * 2);
            req->size = ngx_max(req->size, 1024);

            p = ngx_alloc(req->size, r->connection->log);
            if (p == NULL) {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }

            if (req->body.data) {
                ngx_memcpy(p, req->body.data, req->body.len);
                ngx_free(req->body.data);
            }

            req->body.data = p;
        }

        ngx_memcpy(req->body.data + req->body.len, b->pos, len);
        req->body.len += len;

        b->pos = b->last;
    }

    r->request_body->bufs = NULL;

    return NGX_DECLINED;
}


void
ngx_http_agentstream_request_free_body(ngx_http_agentstream_request_t *req)
{
    if (req->body.data) {
        ngx_free(req->body.data);
        req->body.data = NULL;
    }
}


ngx_int_t
ngx_http_agentstream_request_body(ngx_http_agentstream_request_t *req,
    ngx_uint_t kind, ngx_http_agentstream_body_t *body, ngx_int_t *rc)
{
    ngx_str_t                            text;
    ngx_http_agentstream_fields_conf_t  *conf, fields;

    text = req->body;
    conf = NULL;

    if (kind == NGX_HTTP_AGENTSTREAM_BODY_SESSION
        || kind == NGX_HTTP_AGENTSTREAM_BODY_TITLE)
    {

        if (ngx_http_agentstream_request_fields(req, &fields, rc) != NGX_OK) {
            return NGX_DECLINED;
        }

        conf = &fields;

        if (text.len == 0) {
            ngx_str_set(&text, "{}");
        }
    }

    *rc = ngx_http_agentstream_body_build(req->request->pool, kind, conf,
                                          &text, body);

    ngx_http_agentstream_request_free_body(req);

    if (*rc == NGX_OK) {
        return NGX_OK;
    }

    *rc = ngx_http_agentstream_request_refused(req, *rc, &body->error);

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_agentstream_request_prompt(ngx_http_agentstream_request_t *req,
    ngx_str_t *text, ngx_uint_t allowed, ngx_http_agentstream_prompt_t *prompt,
    ngx_int_t *rc)
{
    ngx_http_agentstream_fields_conf_t  fields;

    if (ngx_http_agentstream_request_fields(req, &fields, rc) != NGX_OK) {
        return NGX_DECLINED;
    }

    fields.allowed |= allowed;

    *rc = ngx_http_agentstream_prompt_build(req->request->pool, &fields, text,
                                         NGX_HTTP_AGENTSTREAM_MESSAGE_ID_LEN,
                                         0, prompt);

    ngx_http_agentstream_request_free_body(req);

    if (*rc == NGX_OK) {
        return NGX_OK;
    }

    *rc = ngx_http_agentstream_request_refused(req, *rc, &prompt->error);

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_agentstream_request_chooses(ngx_http_agentstream_request_t *req,
    ngx_uint_t field, ngx_uint_t *may, ngx_int_t *rc)
{
    ngx_http_agentstream_fields_conf_t  fields;

    if (ngx_http_agentstream_request_fields(req, &fields, rc) != NGX_OK) {
        return NGX_DECLINED;
    }

    *may = (fields.allowed & field)
           && (field == NGX_HTTP_AGENTSTREAM_FIELD_MODEL ? fields.model.len
                                                         : fields.agent.len)
              == 0;

    return NGX_OK;
}


/* NGX_DECLINED: the handler must return *rc */

static ngx_int_t
ngx_http_agentstream_request_fields(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_fields_conf_t *fields, ngx_int_t *rc)
{
    ngx_str_t                         model;
    ngx_http_request_t               *r;
    ngx_http_agentstream_loc_conf_t  *conf;

    r = req->request;
    conf = req->conf;

    ngx_memzero(fields, sizeof(ngx_http_agentstream_fields_conf_t));

    ngx_str_null(&model);

    fields->allowed = conf->fields;

    if ((conf->agent
         && ngx_http_complex_value(r, conf->agent, &fields->agent) != NGX_OK)
        || (conf->model
            && ngx_http_complex_value(r, conf->model, &model) != NGX_OK))
    {
        *rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
        return NGX_DECLINED;
    }

    if (model.len
        && ngx_http_agentstream_fields_split(&model, &fields->provider,
                                             &fields->model)
           != NGX_OK)
    {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "agentstream request: the value of "
                      "\"agentstream_model\" is not \"provider/model\"");

        *rc = ngx_http_agentstream_request_error(req,
                                             NGX_HTTP_INTERNAL_SERVER_ERROR,
                                             "No model is set up here", NULL);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
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
