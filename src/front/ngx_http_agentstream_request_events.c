
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The request for a session's event stream: where the client stopped reading,
 * and whether it wants to follow the session.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_request_int.h"


static ngx_int_t ngx_http_agentstream_request_last_event_id(
    ngx_http_request_t *r, ngx_str_t *value);


ngx_int_t
ngx_http_agentstream_request_events(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                           rc;
    ngx_str_t                           value;
    ngx_http_agentstream_reader_args_t  args;

    ngx_memzero(&args, sizeof(ngx_http_agentstream_reader_args_t));

    if (ngx_http_agentstream_request_cursor(req, &args.turn, &args.seq)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    args.follow = ngx_http_agentstream_request_follows(req->request);

    if (ngx_http_arg(req->request, (u_char *) "view", 4, &value) == NGX_OK) {
        rc = ngx_http_agentstream_request_view(req, &args, &value);

        return (rc == NGX_DECLINED) ? ngx_http_agentstream_request_nothing(req)
                                    : rc;
    }

    if (!req->sse) {
        rc = ngx_http_agentstream_request_whole(req, &args.turn, args.seq, 0);

        return (rc == NGX_DECLINED) ? ngx_http_agentstream_request_nothing(req)
                                    : rc;
    }

    if (req->output.account) {
        req->output.account->cursor = args.turn;
        req->output.account->seq = args.seq;
    }

    rc = ngx_http_agentstream_request_read(req, &args);

    return (rc == NGX_DECLINED) ? ngx_http_agentstream_request_nothing(req)
                                : rc;
}


ngx_uint_t
ngx_http_agentstream_request_follows(ngx_http_request_t *r)
{
    ngx_str_t  value;

    return ngx_http_arg(r, (u_char *) "follow", 6, &value) == NGX_OK
           && value.len == 1 && value.data[0] == '1';
}


ngx_int_t
ngx_http_agentstream_request_read(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_reader_args_t *args)
{
    args->output = &req->output;
    args->target = &req->target;
    args->wire = req->protocol->wire;
    args->failed = req->protocol->failed;
    args->context = req->context;

    if (req->output.account) {
        req->output.account->stream = 1;
    }

    return ngx_http_agentstream_reader_attach(req->request, args);
}


/* docs/protocol.md, "Resuming": "Last-Event-ID", or "last_event_id=" if no
   header can be set; an id that does not have our form counts as none */

ngx_int_t
ngx_http_agentstream_request_cursor(ngx_http_agentstream_request_t *req,
    ngx_str_t *turn, uint64_t *seq)
{
    u_char     *colon, *p, *last;
    ngx_str_t   value;

    if (ngx_http_agentstream_request_last_event_id(req->request, &value)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    turn->len = 0;
    turn->data = value.data;
    *seq = 0;

    last = value.data + value.len;
    colon = ngx_strlchr(value.data, last, ':');

    if (colon == NULL || last - colon > 17) {
        return NGX_OK;
    }

    for (p = colon + 1; p < last; p++) {

        if (*p < '0' || *p > '9') {
            *seq = 0;
            return NGX_OK;
        }

        *seq = *seq * 10 + (*p - '0');
    }

    turn->len = colon - value.data;

    if (turn->len > NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE
        || !ngx_http_agentstream_opencode_id(turn))
    {
        turn->len = 0;
        *seq = 0;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_request_last_event_id(ngx_http_request_t *r,
    ngx_str_t *value)
{
    u_char           *dst, *src;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    part = &r->headers_in.headers.part;
    header = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            header = part->elts;
            i = 0;
        }

        if (header[i].key.len == sizeof("Last-Event-ID") - 1
            && ngx_strncasecmp(header[i].key.data,
                               (u_char *) "Last-Event-ID",
                               sizeof("Last-Event-ID") - 1)
               == 0)
        {
            *value = header[i].value;
            return NGX_OK;
        }
    }

    if (ngx_http_arg(r, (u_char *) "last_event_id",
                     sizeof("last_event_id") - 1, value)
        != NGX_OK)
    {
        ngx_str_null(value);
        return NGX_OK;
    }

    src = value->data;
    dst = ngx_pnalloc(r->pool, value->len);

    if (dst == NULL) {
        return NGX_ERROR;
    }

    value->data = dst;
    ngx_unescape_uri(&dst, &src, value->len, 0);
    value->len = dst - value->data;

    return NGX_OK;
}
