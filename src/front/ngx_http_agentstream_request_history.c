
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests for a session's history.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history.h"
#include "ngx_http_agentstream_request_int.h"


#define NGX_HTTP_AGENTSTREAM_LIMIT_MAX  1000000


static ngx_uint_t ngx_http_agentstream_request_accepts_sse(
    ngx_http_request_t *r);
static void ngx_http_agentstream_request_messages_failed(void *data,
    ngx_uint_t status);


ngx_int_t
ngx_http_agentstream_request_messages(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                             limit;
    ngx_str_t                             value;
    ngx_http_request_t                   *r;
    ngx_http_agentstream_history_args_t   args;

    r = req->request;
    limit = 0;

    req->sse = ngx_http_agentstream_request_accepts_sse(r);

    if (ngx_http_arg(r, (u_char *) "limit", sizeof("limit") - 1, &value)
        == NGX_OK)
    {
        limit = ngx_atoi(value.data, value.len);

        if (limit < 1 || limit > NGX_HTTP_AGENTSTREAM_LIMIT_MAX) {
            return ngx_http_agentstream_request_error(req,
                                           NGX_HTTP_BAD_REQUEST,
                                           "\"limit\" must be a number from 1",
                                           NULL);
        }
    }

    args.output = &req->output;
    args.target = req->target;
    args.limit = limit;
    args.wire = req->sse ? &ngx_http_agentstream_wire_plain
                         : &ngx_http_agentstream_wire_array;
    args.failed = ngx_http_agentstream_request_messages_failed;
    args.data = req;

    if (ngx_http_agentstream_history_start(r, &args) != NGX_DONE) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_DONE;
}


static ngx_uint_t
ngx_http_agentstream_request_accepts_sse(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    static u_char  type[] = "text/event-stream";

    part = &r->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return 0;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len == sizeof("accept") - 1
            && ngx_strncasecmp(h[i].key.data, (u_char *) "accept",
                               sizeof("accept") - 1)
               == 0
            && ngx_strlcasestrn(h[i].value.data,
                                h[i].value.data + h[i].value.len, type,
                                sizeof(type) - 1 - 1)
               != NULL)
        {
            return 1;
        }
    }
}


static void
ngx_http_agentstream_request_messages_failed(void *data, ngx_uint_t status)
{
    ngx_http_agentstream_request_t *req = data;

    ngx_int_t                        rc;
    ngx_connection_t                *c;
    ngx_http_request_t              *r;
    ngx_http_agentstream_outcome_t   outcome;

    r = req->request;
    c = r->connection;

    ngx_http_agentstream_outcome_failed(&outcome, status, "Session not found");

    rc = ngx_http_agentstream_request_failed(req, &outcome);

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}
