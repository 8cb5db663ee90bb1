
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The client's request.  Path, method, origin, content type and body are
 * checked in this order; each failure has its status, and an error in the form
 * of the location's protocol as its body (docs/protocol.md, "Errors").
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_clock.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_text.h"
#include "ngx_http_agentstream_turn.h"


static ngx_int_t ngx_http_agentstream_request_find(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_ids(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_open_account(
    ngx_http_agentstream_request_t *req);
static ngx_uint_t ngx_http_agentstream_request_named(ngx_str_t *segment,
    const char *name);
static ngx_int_t ngx_http_agentstream_request_not_allowed(
    ngx_http_agentstream_request_t *req, ngx_uint_t methods);
static ngx_int_t ngx_http_agentstream_request_check(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_json(ngx_http_request_t *r);
static void ngx_http_agentstream_request_known_handler(void *data,
    ngx_int_t rc);
static void ngx_http_agentstream_request_cleanup(void *data);
static ngx_int_t ngx_http_agentstream_request_respond(
    ngx_http_agentstream_request_t *req, ngx_uint_t status, ngx_buf_t *b,
    ngx_http_agentstream_wire_t *wire);


/* indexed by the value of "agentstream_protocol" */

static ngx_http_agentstream_request_protocol_t
    *ngx_http_agentstream_request_protocols[] =
{
    &ngx_http_agentstream_request_packets,
    &ngx_http_agentstream_request_agui,
    &ngx_http_agentstream_request_aisdk
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
    req->output.request = r;
    req->conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);
    req->protocol = ngx_http_agentstream_request_protocol(req->conf);

    if (ngx_http_agentstream_request_open_account(req) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* the output finds itself by it, and so does what it is a part of */
    ngx_http_set_ctx(r, &req->output, ngx_http_agentstream_module);

    /* NGX_DECLINED: the request is good; any other value is the response */

    rc = ngx_http_agentstream_request_find(req);

    if (rc == NGX_DECLINED) {
        rc = ngx_http_agentstream_request_check(req);
    }

    if (rc != NGX_DECLINED) {
        return rc;
    }

    rc = ngx_http_agentstream_request_target(req);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (req->route->body != ngx_http_agentstream_body_none) {
        return ngx_http_agentstream_request_read_body(req);
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    r->main->count++;

    ngx_http_agentstream_request_run(req);

    return NGX_DONE;
}


/* before the route's handler looks at the session, the zone must know what
   other machines know of it; a prompt finds out by itself */

void
ngx_http_agentstream_request_run(ngx_http_agentstream_request_t *req)
{
    uint64_t             seq;
    ngx_int_t            rc;
    ngx_str_t            turn;
    ngx_uint_t           follow;
    ngx_http_request_t  *r;

    r = req->request;

    ngx_str_null(&turn);

    if (req->target.session.len
        && !(req->route->sse && req->route->method == NGX_HTTP_POST))
    {
        follow = 0;

        if (req->route->sse) {
            if (ngx_http_agentstream_request_cursor(req, &turn, &seq)
                != NGX_OK)
            {
                ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
                return;
            }

            follow = ngx_http_agentstream_request_follows(r);
        }

        req->later.handler = ngx_http_agentstream_request_known_handler;
        req->later.data = req;

        rc = ngx_http_agentstream_store_watch(
                                         ngx_http_agentstream_worker->zone,
                                         &req->watch, &req->target.key, &turn,
                                         follow, &req->later);
        if (rc == NGX_AGAIN) {
            return;
        }
    }

    rc = req->route->handler(req);

    if (rc != NGX_DONE) {
        ngx_http_finalize_request(r, rc);
    }
}


/* the store has answered later */

static void
ngx_http_agentstream_request_known_handler(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_request_t *req = data;

    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = req->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    rc = req->route->handler(req);

    if (rc != NGX_DONE) {
        ngx_http_finalize_request(r, rc);
    }

    ngx_http_run_posted_requests(c);
}


static ngx_int_t
ngx_http_agentstream_request_open_account(ngx_http_agentstream_request_t *req)
{
    ngx_http_request_t                *r;
    ngx_http_agentstream_main_conf_t  *amcf;

    r = req->request;
    amcf = ngx_http_get_module_main_conf(r, ngx_http_agentstream_module);

    if (!amcf->accounts) {
        return NGX_OK;
    }

    req->output.account = ngx_pcalloc(r->pool,
                                      sizeof(ngx_http_agentstream_account_t));
    if (req->output.account == NULL) {
        return NGX_ERROR;
    }

    req->output.account->request = r;

    return NGX_OK;
}


ngx_http_agentstream_account_t *
ngx_http_agentstream_request_account(ngx_http_request_t *r)
{
    ngx_http_agentstream_output_t  *out;

    if (ngx_http_agentstream_call_of(r)) {
        return NULL;
    }

    out = ngx_http_get_module_ctx(r, ngx_http_agentstream_module);

    return out ? out->account : NULL;
}


ngx_http_agentstream_request_protocol_t *
ngx_http_agentstream_request_protocol(ngx_http_agentstream_loc_conf_t *conf)
{
    return ngx_http_agentstream_request_protocols[conf->protocol];
}


static ngx_int_t
ngx_http_agentstream_request_find(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                              rc;
    ngx_str_t                             *segments;
    ngx_uint_t                             methods;
    ngx_http_agentstream_request_route_t  *route;

    rc = ngx_http_agentstream_request_split(req->request, &req->path);

    if (rc == NGX_HTTP_BAD_REQUEST) {
        return ngx_http_agentstream_request_error(req, rc,
                                                  "The path must be plain",
                                                  NULL);
    }

    if (rc != NGX_OK) {
        goto unknown;
    }

    methods = 0;
    segments = req->path.segments;

    for (route = req->protocol->routes; route->handler; route++) {

        if (route->nsegments != req->path.nsegments
            || !ngx_http_agentstream_request_named(
                                     &segments[route->nsegments > 1 ? 1 : 0],
                                     route->noun)
            || !ngx_http_agentstream_request_named(&segments[3], route->verb))
        {
            continue;
        }

        methods |= route->method;
        req->route = route;

        if (route->method == req->request->method) {
            break;
        }
    }

    if (req->route == NULL) {
        goto unknown;
    }

    if (req->route->sse) {
        rc = ngx_http_agentstream_request_accept(req);

        if (rc != NGX_OK) {
            return rc;
        }

        req->sse = (!req->protocol->whole
                    || !ngx_http_agentstream_header_json(&req->accept));
    }

    if (route->handler == NULL) {
        return ngx_http_agentstream_request_not_allowed(req, methods);
    }

    return ngx_http_agentstream_request_ids(req);

unknown:

    return ngx_http_agentstream_request_error(req, NGX_HTTP_NOT_FOUND,
                                              "No such route", NULL);
}


/* the form of the ids in the path */

static ngx_int_t
ngx_http_agentstream_request_ids(ngx_http_agentstream_request_t *req)
{
    ngx_str_t  *segments;

    segments = req->path.segments;

    if (!ngx_http_agentstream_request_has_session(req)) {
        return NGX_DECLINED;
    }

    if (!ngx_http_agentstream_request_names(&req->path)) {
        return ngx_http_agentstream_request_error(req, NGX_HTTP_BAD_REQUEST,
                                                  req->protocol->names
                                                  ? "Not a name of a session"
                                                  : "Not a session id", NULL);
    }

    if (req->path.nsegments < 3) {
        return NGX_DECLINED;
    }

    req->id = segments[2];

    if (!ngx_http_agentstream_opencode_id(&req->id)) {
        return ngx_http_agentstream_request_error(req, NGX_HTTP_BAD_REQUEST,
                                                  "Not an id", NULL);
    }

    return NGX_DECLINED;
}


/* name NULL: the route does not say how the segment is named */

static ngx_uint_t
ngx_http_agentstream_request_named(ngx_str_t *segment, const char *name)
{
    return name == NULL
           || (ngx_strlen(name) == segment->len
               && ngx_strncmp(name, segment->data, segment->len) == 0);
}


static ngx_int_t
ngx_http_agentstream_request_not_allowed(ngx_http_agentstream_request_t *req,
    ngx_uint_t methods)
{
    u_char  *p, *value;

    value = ngx_pnalloc(req->request->pool,
                        sizeof("GET, POST, PATCH, DELETE, "));
    if (value == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    p = ngx_sprintf(value, "%s%s%s%s",
                    (methods & NGX_HTTP_GET) ? "GET, " : "",
                    (methods & NGX_HTTP_POST) ? "POST, " : "",
                    (methods & NGX_HTTP_PATCH) ? "PATCH, " : "",
                    (methods & NGX_HTTP_DELETE) ? "DELETE, " : "");

    p[-2] = '\0';

    if (ngx_http_agentstream_output_add_header(req->request, "Allow",
                                               (char *) value)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_agentstream_request_error(req, NGX_HTTP_NOT_ALLOWED,
                                              "Method not allowed", NULL);
}


static ngx_int_t
ngx_http_agentstream_request_check(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                             json;
    ngx_http_request_t                   *r;
    ngx_http_agentstream_request_body_e   body;

    r = req->request;
    body = req->route->body;
    json = ngx_http_agentstream_request_json(r);

    /* docs/protocol.md, "Routes": with this type a browser asks first whether
       such a page may send the request */

    if (req->route->method != NGX_HTTP_GET && json != NGX_OK
        && ngx_http_agentstream_request_foreign(r))
    {
        return ngx_http_agentstream_request_error(req, NGX_HTTP_FORBIDDEN,
                         "A page of another origin must send application/json",
                         NULL);
    }

    if (body == ngx_http_agentstream_body_optional
        && r->headers_in.content_length_n <= 0
        && !r->headers_in.chunked)
    {
        body = ngx_http_agentstream_body_none;
    }

    if (body != ngx_http_agentstream_body_none && json != NGX_OK) {
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

    return NGX_DECLINED;
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
ngx_http_agentstream_request_cleanup(void *data)
{
    ngx_http_agentstream_request_t *req = data;

    ngx_http_agentstream_request_free_body(req);

    if (req->verb) {
        ngx_http_agentstream_verb_leave(req->verb);
        req->verb = NULL;
    }

    ngx_http_agentstream_store_unwatch(ngx_http_agentstream_worker->zone,
                                       &req->watch);
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


ngx_int_t
ngx_http_agentstream_request_error(ngx_http_agentstream_request_t *req,
    ngx_uint_t status, const char *message, ngx_str_t *details)
{
    ngx_str_t  text;

    text.data = (u_char *) message;
    text.len = ngx_strlen(message);

    return ngx_http_agentstream_request_error_text(req, status, &text,
                                                   details);
}


ngx_int_t
ngx_http_agentstream_request_error_text(ngx_http_agentstream_request_t *req,
    ngx_uint_t status, ngx_str_t *message, ngx_str_t *details)
{
    u_char                             *p;
    u_char                              buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    ngx_int_t                           rc;
    ngx_buf_t                          *b;
    ngx_str_t                           text, id;
    ngx_uint_t                          level;
    ngx_http_request_t                 *r;
    ngx_http_agentstream_wire_t        *wire;
    ngx_http_agentstream_record_t       record;
    ngx_http_agentstream_wire_state_t  *state;

    r = req->request;
    wire = req->sse ? req->protocol->stream_error : req->protocol->error;

    text = ngx_http_agentstream_text_escape(buf, message);

    /* JSON of the module itself: a status of OpenCode, or the id of a turn */
    id = details ? *details : (ngx_str_t) ngx_null_string;

    level = (status >= 500) ? NGX_LOG_ERR : NGX_LOG_INFO;

    ngx_log_error(level, r->connection->log, 0,
                  "agentstream request: refused with %ui (%V)%s%V", status,
                  &text, details ? " " : "", &id);

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    p = ngx_pnalloc(r->pool,
                    ngx_http_agentstream_acp_error_size(message, details));
    state = ngx_pcalloc(r->pool, wire->state_size);

    if (p == NULL || state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memzero(&record, sizeof(ngx_http_agentstream_record_t));

    record.type = NGX_HTTP_AGENTSTREAM_RECORD_ERROR;
    record.json.data = p;

    p = ngx_http_agentstream_acp_error(p,
                                       ngx_http_agentstream_clock_timestamp(),
                                       message, status, details);

    record.json.len = p - record.json.data;

    ngx_http_agentstream_account_end(req->output.account, &record);

    b = ngx_create_temp_buf(r->pool, wire->size(state, &record));
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = wire->error(b->pos, &record);

    return ngx_http_agentstream_request_respond(req, status, b, wire);
}


ngx_int_t
ngx_http_agentstream_request_reply(ngx_http_agentstream_request_t *req,
    ngx_uint_t status, ngx_str_t *body)
{
    ngx_buf_t  *b;

    b = ngx_create_temp_buf(req->request->pool, body->len);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = ngx_cpymem(b->last, body->data, body->len);

    return ngx_http_agentstream_request_respond(req, status, b, NULL);
}


ngx_int_t
ngx_http_agentstream_request_nothing(ngx_http_agentstream_request_t *req)
{
    return ngx_http_agentstream_output_nothing(req->request);
}


static ngx_int_t
ngx_http_agentstream_request_respond(ngx_http_agentstream_request_t *req,
    ngx_uint_t status, ngx_buf_t *b, ngx_http_agentstream_wire_t *wire)
{
    ngx_int_t            rc;
    ngx_chain_t          out;
    ngx_http_request_t  *r;

    r = req->request;

    b->last_buf = (r == r->main);
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    r->headers_out.status = status;
    r->headers_out.content_length_n = b->last - b->pos;

    rc = wire ? ngx_http_agentstream_output_headers(r, wire)
              : ngx_http_agentstream_output_json_headers(r);

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, &out);
}
