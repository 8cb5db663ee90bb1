
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 4: the client's request.  Path, method, content type and body are
 * checked in this order, each failure has its status and one "error" packet
 * as its body (contract 1).  Bodies are read into memory, never into files.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_prompt.h"
#include "ngx_http_agentstream_reader.h"
#include "ngx_http_agentstream_request.h"
#include "ngx_http_agentstream_sse.h"
#include "ngx_http_agentstream_turn.h"


typedef struct ngx_http_agentstream_request_s  ngx_http_agentstream_request_t;


/* a route: what follows the location's own name */

typedef struct {
    ngx_str_t                            action;   /* after the session's id */
    ngx_uint_t                           method;
    const char                          *allow;
    unsigned                             sse:1;    /* how errors are told */
    unsigned                             body:1;   /* a JSON body is required */
    ngx_int_t                          (*handler)(
                                          ngx_http_agentstream_request_t *req);
} ngx_http_agentstream_request_route_t;


/* lives in the request's pool */

struct ngx_http_agentstream_request_s {
    ngx_http_request_t                    *request;
    ngx_http_agentstream_loc_conf_t       *conf;
    ngx_http_agentstream_request_route_t  *route;
    ngx_str_t                              session;
    ngx_str_t                              body;   /* heap, freed by cleanup */
    size_t                                 size;
};


static ngx_int_t ngx_http_agentstream_request_find(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_check(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_json(ngx_http_request_t *r);
static void ngx_http_agentstream_request_body_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_request_collect(
    ngx_http_agentstream_request_t *req);
static void ngx_http_agentstream_request_cleanup(void *data);
static ngx_int_t ngx_http_agentstream_request_send_message(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_error(
    ngx_http_agentstream_request_t *req, ngx_uint_t status,
    const char *message, ngx_str_t *details);
static ngx_int_t ngx_http_agentstream_request_error_text(
    ngx_http_agentstream_request_t *req, ngx_uint_t status,
    ngx_str_t *message, ngx_str_t *details);


static ngx_http_agentstream_request_route_t
    ngx_http_agentstream_request_routes[] =
{
    { ngx_string("send-message"), NGX_HTTP_POST, "POST", 1, 1,
      ngx_http_agentstream_request_send_message },

    { ngx_null_string, 0, NULL, 0, 0, NULL }
};


ngx_int_t
ngx_http_agentstream_request_handler(ngx_http_request_t *r)
{
    ngx_int_t                        rc;
    ngx_http_cleanup_t              *cln;
    ngx_http_agentstream_request_t  *req;

    if (ngx_http_agentstream_call_of(r)) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "agentstream request: the internal location leads back "
                      "to \"agentstream\"");
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    req = ngx_pcalloc(r->pool, sizeof(ngx_http_agentstream_request_t));
    if (req == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_agentstream_request_cleanup;
    cln->data = req;

    req->request = r;
    req->conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);

    ngx_http_set_ctx(r, req, ngx_http_agentstream_module);

    rc = ngx_http_agentstream_request_find(req);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_request_check(req);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    r->request_body_no_buffering = 1;

    rc = ngx_http_read_client_request_body(r,
                                   ngx_http_agentstream_request_body_handler);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    return NGX_DONE;
}


static ngx_int_t
ngx_http_agentstream_request_find(ngx_http_agentstream_request_t *req)
{
    u_char                                *p, *last, *slash;
    ngx_str_t                              action;
    ngx_http_request_t                    *r;
    ngx_http_agentstream_request_route_t  *route;

    r = req->request;

    p = r->uri.data + req->conf->name.len;
    last = r->uri.data + r->uri.len;

    /* "/sessions" and "/sessions/" are the same place, "/sessionsfoo" none */

    if (p < last && *p == '/') {
        p++;

    } else if (p < last && p[-1] != '/') {
        last = p;
    }

    slash = ngx_strlchr(p, last, '/');

    if (slash == NULL) {
        return ngx_http_agentstream_request_error(req, NGX_HTTP_NOT_FOUND,
                                                  "No such route", NULL);
    }

    req->session.data = p;
    req->session.len = slash - p;

    action.data = slash + 1;
    action.len = last - action.data;

    for (route = ngx_http_agentstream_request_routes;
         route->handler;
         route++)
    {
        if (route->action.len == action.len
            && ngx_memcmp(route->action.data, action.data, action.len) == 0)
        {
            req->route = route;
            break;
        }
    }

    if (req->route == NULL) {
        return ngx_http_agentstream_request_error(req, NGX_HTTP_NOT_FOUND,
                                                  "No such route", NULL);
    }

    if (!ngx_http_agentstream_opencode_session_id(&req->session)) {
        return ngx_http_agentstream_request_error(req, NGX_HTTP_BAD_REQUEST,
                                                  "Not a session id", NULL);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_request_check(ngx_http_agentstream_request_t *req)
{
    ngx_table_elt_t                       *h;
    ngx_http_request_t                    *r;
    ngx_http_agentstream_request_route_t  *route;

    r = req->request;
    route = req->route;

    if (r->method != route->method) {
        h = ngx_list_push(&r->headers_out.headers);
        if (h == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ngx_memzero(h, sizeof(ngx_table_elt_t));

        h->hash = 1;
        ngx_str_set(&h->key, "Allow");
        h->value.data = (u_char *) route->allow;
        h->value.len = ngx_strlen(route->allow);

        return ngx_http_agentstream_request_error(req, NGX_HTTP_NOT_ALLOWED,
                                                  "Method not allowed", NULL);
    }

    if (route->body && ngx_http_agentstream_request_json(r) != NGX_OK) {
        return ngx_http_agentstream_request_error(req,
                                          NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                          "The body must be application/json",
                                          NULL);
    }

    if (req->conf->body_size
        && r->headers_in.content_length_n > req->conf->body_size)
    {
        return ngx_http_agentstream_request_error(req,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "The body is too large", NULL);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_request_json(ngx_http_request_t *r)
{
    size_t      len;
    ngx_str_t  *type;

    if (r->headers_in.content_type == NULL) {
        return NGX_DECLINED;
    }

    type = &r->headers_in.content_type->value;
    len = sizeof("application/json") - 1;

    if (type->len < len
        || ngx_strncasecmp(type->data, (u_char *) "application/json", len) != 0
        || (type->len > len && type->data[len] != ';'
            && type->data[len] != ' '))
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static void
ngx_http_agentstream_request_body_handler(ngx_http_request_t *r)
{
    ngx_int_t                        rc;
    ngx_http_agentstream_request_t  *req;

    req = ngx_http_get_module_ctx(r, ngx_http_agentstream_module);

    for ( ;; ) {
        rc = ngx_http_agentstream_request_collect(req);

        if (rc != NGX_OK) {
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

    rc = req->route->handler(req);

    if (rc != NGX_DONE) {
        ngx_http_finalize_request(r, rc);
    }
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

        if (req->conf->body_size && size > req->conf->body_size) {
            return ngx_http_agentstream_request_error(req,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "The body is too large", NULL);
        }

        if ((size_t) size > req->size) {
            /* what is announced but not sent yet is not paid for */

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

    return NGX_OK;
}


static void
ngx_http_agentstream_request_cleanup(void *data)
{
    ngx_http_agentstream_request_t *req = data;

    if (req->body.data) {
        ngx_free(req->body.data);
        req->body.data = NULL;
    }
}


ngx_int_t
ngx_http_agentstream_request_route(ngx_http_request_t *r, ngx_str_t *route)
{
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);

    if (conf->route == NULL) {
        ngx_str_null(route);
        return NGX_OK;
    }

    return ngx_http_complex_value(r, conf->route, route);
}


static ngx_int_t
ngx_http_agentstream_request_send_message(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                          rc;
    ngx_str_t                          running, message, details;
    ngx_http_request_t                *r;
    ngx_http_agentstream_prompt_t      prompt;
    ngx_http_agentstream_turn_args_t   args;
    u_char                             id[NGX_HTTP_AGENTSTREAM_MESSAGE_ID_LEN],
                                       busy[64], buf[128];

    r = req->request;

    ngx_http_agentstream_turn_id(id);

    args.conf = req->conf;
    args.session = req->session;
    args.id.data = id;
    args.id.len = sizeof(id);

    rc = ngx_http_agentstream_prompt_build(r->pool, &req->body, &args.id,
                                           &prompt);

    ngx_http_agentstream_request_cleanup(req);

    if (rc == NGX_DECLINED) {
        message.data = prompt.error;
        message.len = prompt.error_len;

        return ngx_http_agentstream_request_error_text(req,
                                                       NGX_HTTP_BAD_REQUEST,
                                                       &message, NULL);
    }

    if (rc != NGX_OK
        || ngx_http_agentstream_request_route(r, &args.route) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    args.prompt = prompt.body;
    running.data = busy;

    rc = ngx_http_agentstream_turn_create(&args, &running);

    ngx_pfree(r->pool, prompt.body.data);

    if (rc == NGX_BUSY) {
        details.data = buf;
        details.len = ngx_sprintf(buf, "{\"turnId\":\"%V\"}", &running) - buf;

        return ngx_http_agentstream_request_error(req, NGX_HTTP_CONFLICT,
                                      "A turn is running in this session",
                                      &details);
    }

    if (rc != NGX_OK) {
        return ngx_http_agentstream_request_error(req,
                                             NGX_HTTP_SERVICE_UNAVAILABLE,
                                             "Out of zone memory", NULL);
    }

    return ngx_http_agentstream_reader_attach(r, req->conf, &args.id, 1);
}


static ngx_int_t
ngx_http_agentstream_request_error(ngx_http_agentstream_request_t *req,
    ngx_uint_t status, const char *message, ngx_str_t *details)
{
    ngx_str_t  text;

    text.data = (u_char *) message;
    text.len = ngx_strlen(message);

    return ngx_http_agentstream_request_error_text(req, status, &text,
                                                   details);
}


static ngx_int_t
ngx_http_agentstream_request_error_text(ngx_http_agentstream_request_t *req,
    ngx_uint_t status, ngx_str_t *message, ngx_str_t *details)
{
    u_char              *p;
    ngx_int_t            rc;
    ngx_buf_t           *b;
    ngx_uint_t           sse;
    ngx_chain_t          out;
    ngx_http_request_t  *r;

    static ngx_str_t  none = ngx_null_string;

    r = req->request;
    sse = (req->route && req->route->sse);

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "agentstream request: refused with %ui (%V)", status,
                  message);

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    b = ngx_create_temp_buf(r->pool,
                            ngx_http_agentstream_sse_head_size(&none)
                            + ngx_http_agentstream_acp_error_size(message,
                                                                  details)
                            + NGX_HTTP_AGENTSTREAM_SSE_TAIL_LEN);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    p = b->pos;

    if (sse) {
        p = ngx_http_agentstream_sse_head(p, &none, 0);
    }

    p = ngx_http_agentstream_acp_error(p,
                                       ngx_http_agentstream_turn_timestamp(),
                                       message, status, details);
    if (sse) {
        p = ngx_http_agentstream_sse_tail(p);
    }

    b->last = p;
    b->last_buf = (r == r->main);
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    r->headers_out.status = status;
    r->headers_out.content_length_n = b->last - b->pos;

    if (sse) {
        if (ngx_http_agentstream_reader_headers(r) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

    } else {
        ngx_str_set(&r->headers_out.content_type, "application/json");
        r->headers_out.content_type_len = r->headers_out.content_type.len;
        r->headers_out.content_type_lowcase = NULL;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, &out);
}
