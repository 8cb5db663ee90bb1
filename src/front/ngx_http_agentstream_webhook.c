
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What chat platforms send.  The order matters: first whether it is genuine,
 * then whether it is known, whether it is allowed; then it is recorded in the
 * zone, and only then the platform is told that it has arrived, before OpenCode
 * is asked for anything.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery.h"
#include "ngx_http_agentstream_webhook.h"


/* a request whose updates are being recorded, one after the other */

typedef struct {
    ngx_http_request_t                  *request;
    ngx_http_agentstream_delivery_site_t
                                         site;
    ngx_http_agentstream_chat_updates_t  updates;
    ngx_uint_t                           next;
    ngx_uint_t                           known;    /* the bot knows its name */
    ngx_http_agentstream_delivery_receipt_t
                                         receipt;
} ngx_http_agentstream_webhook_t;


static ngx_int_t ngx_http_agentstream_webhook_challenge(
    ngx_http_request_t *r, ngx_http_agentstream_loc_conf_t *conf);
static void ngx_http_agentstream_webhook_hide_args(ngx_http_request_t *r);
static void ngx_http_agentstream_webhook_body_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_webhook_body(ngx_http_request_t *r,
    ngx_str_t *body);
static ngx_int_t ngx_http_agentstream_webhook_read(ngx_http_request_t *r,
    ngx_str_t *body);
static ngx_int_t ngx_http_agentstream_webhook_record(
    ngx_http_agentstream_webhook_t *hook);
static void ngx_http_agentstream_webhook_recorded(void *data, ngx_int_t rc);
static void ngx_http_agentstream_webhook_cleanup(void *data);
static ngx_int_t ngx_http_agentstream_webhook_refuse(ngx_http_request_t *r,
    ngx_int_t rc);
static ngx_int_t ngx_http_agentstream_webhook_genuine(ngx_http_request_t *r,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *body);
static ngx_int_t ngx_http_agentstream_webhook_header(ngx_http_request_t *r,
    const ngx_str_t *name, ngx_str_t *value);
static ngx_int_t ngx_http_agentstream_webhook_site(ngx_http_request_t *r,
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_delivery_site_t *site);
static ngx_int_t ngx_http_agentstream_webhook_value(ngx_http_request_t *r,
    ngx_http_complex_value_t *value, ngx_str_t *result);
static ngx_int_t ngx_http_agentstream_webhook_reply(ngx_http_request_t *r,
    ngx_uint_t status, ngx_str_t *text);


ngx_int_t
ngx_http_agentstream_webhook_handler(ngx_http_request_t *r)
{
    ngx_int_t                         rc;
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);

    if (r->method == NGX_HTTP_GET && conf->chat->platform->challenge) {
        return ngx_http_agentstream_webhook_challenge(r, conf);
    }

    if (r->method != NGX_HTTP_POST) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    /* there is no webhook for updates that are asked for */

    if (conf->chat->poll) {
        return NGX_HTTP_NOT_FOUND;
    }

    if (r->headers_in.content_length_n > NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX) {
        return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
    }

    r->request_body_in_single_buf = 1;

    rc = ngx_http_read_client_request_body(r,
                                   ngx_http_agentstream_webhook_body_handler);

    return (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? rc : NGX_DONE;
}


/* the platform tests the address, and wants to see that we know its word */

static ngx_int_t
ngx_http_agentstream_webhook_challenge(ngx_http_request_t *r,
    ngx_http_agentstream_loc_conf_t *conf)
{
    ngx_int_t  rc;
    ngx_str_t  args, verify, answer;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_str_null(&verify);

    if (conf->chat->verify
        && ngx_http_complex_value(r, conf->chat->verify, &verify) != NGX_OK)
    {
        verify.len = 0;
    }

    args = r->args;
    ngx_http_agentstream_webhook_hide_args(r);

    if (verify.len == 0) {
        return NGX_HTTP_FORBIDDEN;
    }

    rc = conf->chat->platform->challenge(r->pool, &args, &verify, &answer);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_HTTP_FORBIDDEN
                                    : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_agentstream_webhook_reply(r, NGX_HTTP_OK, &answer);
}


/* the word is a secret, and logs have $request, $request_uri and $args */

static void
ngx_http_agentstream_webhook_hide_args(ngx_http_request_t *r)
{
    u_char      *p;
    ngx_str_t   *line;
    ngx_uint_t   i;

    for (i = 0; i < 2; i++) {
        line = i ? &r->unparsed_uri : &r->request_line;

        p = ngx_strlchr(line->data, line->data + line->len, '?');

        if (p) {
            line->len = p - line->data;
        }
    }

    r->args.len = 0;
}


static void
ngx_http_agentstream_webhook_body_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc;
    ngx_str_t  body;

    rc = ngx_http_agentstream_webhook_body(r, &body);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_webhook_read(r, &body);
    }

    if (rc != NGX_AGAIN) {
        ngx_http_finalize_request(r, rc);
    }
}


static ngx_int_t
ngx_http_agentstream_webhook_body(ngx_http_request_t *r, ngx_str_t *body)
{
    off_t         size;
    u_char       *p;
    ssize_t       n;
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    if (r->request_body == NULL) {
        return NGX_HTTP_BAD_REQUEST;
    }

    size = 0;

    for (cl = r->request_body->bufs; cl; cl = cl->next) {
        size += ngx_buf_size(cl->buf);
    }

    if (size > NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX) {
        return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
    }

    p = ngx_pnalloc(r->pool, size + 1);
    if (p == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    body->data = p;
    body->len = size;

    for (cl = r->request_body->bufs; cl; cl = cl->next) {
        b = cl->buf;

        if (ngx_buf_size(b) == 0) {
            /* an empty body may have a buffer without memory */
            continue;
        }

        if (!b->in_file) {
            p = ngx_cpymem(p, b->pos, b->last - b->pos);
            continue;
        }

        n = ngx_read_file(b->file, p, b->file_last - b->file_pos,
                          b->file_pos);

        if (n != b->file_last - b->file_pos) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        p += n;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_webhook_read(ngx_http_request_t *r, ngx_str_t *body)
{
    ngx_int_t                         rc;
    ngx_pool_cleanup_t               *cln;
    ngx_http_agentstream_chat_me_t    me;
    ngx_http_agentstream_webhook_t   *hook;
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);

    rc = ngx_http_agentstream_webhook_genuine(r, conf, body);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED)
               ? ngx_http_agentstream_webhook_reply(r, NGX_HTTP_UNAUTHORIZED,
                                                    NULL)
               : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln = ngx_pool_cleanup_add(r->pool,
                               sizeof(ngx_http_agentstream_webhook_t));
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    hook = cln->data;
    ngx_memzero(hook, sizeof(ngx_http_agentstream_webhook_t));

    cln->handler = ngx_http_agentstream_webhook_cleanup;

    hook->request = r;
    hook->receipt.handler = ngx_http_agentstream_webhook_recorded;
    hook->receipt.data = hook;
    hook->known = (ngx_http_agentstream_delivery_me(conf, &me) == NGX_OK);

    rc = conf->chat->platform->parse(r->pool, body, &me, &hook->updates);

    if (rc != NGX_OK) {
        return ngx_http_agentstream_webhook_reply(r,
                                        (rc == NGX_DECLINED)
                                        ? NGX_HTTP_BAD_REQUEST
                                        : NGX_HTTP_INTERNAL_SERVER_ERROR,
                                        NULL);
    }

    if (ngx_http_agentstream_webhook_site(r, conf, &hook->site) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_agentstream_webhook_record(hook);
}


/* NGX_AGAIN: webhook_recorded() follows; otherwise the result of the request */

static ngx_int_t
ngx_http_agentstream_webhook_record(ngx_http_agentstream_webhook_t *hook)
{
    ngx_int_t                            rc;
    ngx_http_request_t                  *r;
    ngx_http_agentstream_chat_update_t  *update;

    r = hook->request;

    while (hook->next < hook->updates.list.nelts) {
        update = hook->updates.list.elts;
        update += hook->next++;

        if (update->kind == NGX_HTTP_AGENTSTREAM_CHAT_HANDSHAKE) {
            return ngx_http_agentstream_webhook_reply(r, NGX_HTTP_OK,
                                                      &update->text);
        }

        rc = ngx_http_agentstream_delivery_receive(&hook->site, update,
                                                   hook->known, r->pool,
                                                   &hook->receipt);
        if (rc == NGX_AGAIN) {
            /* whatever happens to the connection meanwhile, the platform is
               told when it is known */

            r->read_event_handler = ngx_http_block_reading;
            r->write_event_handler = ngx_http_request_empty_handler;
            return rc;
        }

        if (rc != NGX_OK) {
            return ngx_http_agentstream_webhook_refuse(r, rc);
        }
    }

    return ngx_http_agentstream_webhook_reply(r, NGX_HTTP_OK, NULL);
}


/* the store has answered later */

static void
ngx_http_agentstream_webhook_recorded(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_webhook_t *hook = data;

    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = hook->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    rc = (rc == NGX_OK)
         ? ngx_http_agentstream_webhook_record(hook)
         : ngx_http_agentstream_webhook_refuse(r, rc);

    if (rc != NGX_AGAIN) {
        ngx_http_finalize_request(r, rc);
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_agentstream_webhook_cleanup(void *data)
{
    ngx_http_agentstream_webhook_t *hook = data;

    ngx_http_agentstream_delivery_forget(&hook->receipt);
}


/* what was recorded before is recognised when it comes again */

static ngx_int_t
ngx_http_agentstream_webhook_refuse(ngx_http_request_t *r, ngx_int_t rc)
{
    return ngx_http_agentstream_webhook_reply(r,
                                          (rc == NGX_BUSY)
                                          ? NGX_HTTP_SERVICE_UNAVAILABLE
                                          : NGX_HTTP_INTERNAL_SERVER_ERROR,
                                          NULL);
}


static ngx_int_t
ngx_http_agentstream_webhook_genuine(ngx_http_request_t *r,
    ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *body)
{
    ngx_str_t                                    secret;
    ngx_http_agentstream_chat_proof_t            proof;
    const ngx_http_agentstream_chat_platform_t  *platform;

    platform = conf->chat->platform;

    if (conf->chat->secret == NULL
        || ngx_http_complex_value(r, conf->chat->secret, &secret) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (secret.len == 0
        || ngx_http_agentstream_webhook_header(r, &platform->signature,
                                               &proof.signature)
           != NGX_OK
        || ngx_http_agentstream_webhook_header(r, &platform->timestamp,
                                               &proof.timestamp)
           != NGX_OK)
    {
        return NGX_DECLINED;
    }

    return platform->genuine(&proof, body, &secret, ngx_time());
}


/* NGX_DECLINED: it was sent twice, so nobody knows which one counts */

static ngx_int_t
ngx_http_agentstream_webhook_header(ngx_http_request_t *r,
    const ngx_str_t *name, ngx_str_t *value)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    ngx_str_null(value);

    part = &r->headers_in.headers.part;

    for (h = part->elts, i = 0; name->len; i++) {

        if (i == part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len == name->len
            && ngx_strncasecmp(h[i].key.data, name->data, name->len) == 0)
        {
            if (value->data) {
                return NGX_DECLINED;
            }

            *value = h[i].value;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_webhook_site(ngx_http_request_t *r,
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_delivery_site_t *site)
{
    site->conf = conf;

    if (ngx_http_agentstream_webhook_value(r, conf->route, &site->route)
        != NGX_OK
        || ngx_http_agentstream_webhook_value(r, conf->owner, &site->owner)
           != NGX_OK
        || ngx_http_agentstream_webhook_value(r, conf->directory,
                                              &site->directory)
           != NGX_OK
        || ngx_http_agentstream_webhook_value(r, conf->agent, &site->agent)
           != NGX_OK
        || ngx_http_agentstream_webhook_value(r, conf->model, &site->model)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_webhook_value(ngx_http_request_t *r,
    ngx_http_complex_value_t *value, ngx_str_t *result)
{
    ngx_str_null(result);

    return value ? ngx_http_complex_value(r, value, result) : NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_webhook_reply(ngx_http_request_t *r, ngx_uint_t status,
    ngx_str_t *text)
{
    ngx_int_t         rc;
    ngx_buf_t        *b;
    ngx_chain_t       out;
    ngx_table_elt_t  *h;

    r->headers_out.status = status;
    r->headers_out.content_length_n = text ? text->len : 0;
    r->headers_out.last_modified_time = -1;

    if (status == NGX_HTTP_SERVICE_UNAVAILABLE) {
        h = ngx_list_push(&r->headers_out.headers);
        if (h == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ngx_memzero(h, sizeof(ngx_table_elt_t));
        h->hash = 1;
        ngx_str_set(&h->key, "Retry-After");
        ngx_str_set(&h->value, "1");
    }

    if (text) {
        ngx_str_set(&r->headers_out.content_type, "text/plain");
        r->headers_out.content_type_len = r->headers_out.content_type.len;
    }

    r->header_only |= (text == NULL || text->len == 0);

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->pos = text->data;
    b->last = text->data + text->len;
    b->memory = 1;
    b->last_buf = 1;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}
