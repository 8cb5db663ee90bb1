
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The form of the response that a client wants (docs/protocol.md, "Whole
 * answers").
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_request_int.h"


static ngx_uint_t ngx_http_agentstream_request_header_is(ngx_table_elt_t *h,
    const char *name);


ngx_int_t
ngx_http_agentstream_request_accept(ngx_http_agentstream_request_t *req)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    part = &req->request->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                break;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (ngx_http_agentstream_request_header_is(&h[i], "Accept")) {
            ngx_http_agentstream_header_accept(&req->accept, &h[i].value);

        } else if (ngx_http_agentstream_request_header_is(&h[i], "Prefer")) {
            ngx_http_agentstream_header_prefer(&req->prefer, &h[i].value);
        }
    }

    return (ngx_http_agentstream_output_add_header(req->request, "Vary",
                                                   "Accept")
            == NGX_OK)
           ? NGX_OK : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static ngx_uint_t
ngx_http_agentstream_request_header_is(ngx_table_elt_t *h, const char *name)
{
    return h->key.len == ngx_strlen(name)
           && ngx_strncasecmp(h->key.data, (u_char *) name, h->key.len) == 0;
}
