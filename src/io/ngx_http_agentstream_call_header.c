
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Headers of OpenCode's answers.  A server behind nginx can control nginx with
 * headers that begin with X-Accel-: it can have the content of another
 * location sent to the client, limit the rate, and so on.  OpenCode must not
 * do so: a call never leaves its location, whatever "proxy_ignore_headers"
 * says. nginx acts on these headers before any filter sees the response.
 * Therefore nginx's table of header handlers is changed, so that they are
 * ignored in the answers to calls.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call.h"


static ngx_int_t ngx_http_agentstream_call_steer(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_uint_t offset);


/* must be called after the upstream module has built the table; a reload
   builds it again, like the whole configuration */

ngx_int_t
ngx_http_agentstream_call_init_headers(ngx_conf_t *cf)
{
    ngx_uint_t                      i;
    ngx_hash_t                     *hash;
    ngx_hash_elt_t                 *elt;
    ngx_http_upstream_header_t     *header;
    ngx_http_upstream_main_conf_t  *umcf;

    umcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_upstream_module);
    hash = &umcf->headers_in_hash;

    for (i = 0; i < hash->size; i++) {

        for (elt = hash->buckets[i];
             elt && elt->value;
             elt = (ngx_hash_elt_t *) ngx_align_ptr(&elt->name[0] + elt->len,
                                                    sizeof(void *)))
        {
            if (elt->len < sizeof("x-accel-") - 1
                || ngx_memcmp(elt->name, "x-accel-", sizeof("x-accel-") - 1)
                   != 0)
            {
                continue;
            }

            header = ngx_palloc(cf->pool, sizeof(ngx_http_upstream_header_t));
            if (header == NULL) {
                return NGX_ERROR;
            }

            *header = *(ngx_http_upstream_header_t *) elt->value;

            /* the offset is used by the handler only */

            header->handler = ngx_http_agentstream_call_steer;
            header->offset = (ngx_uint_t) elt->value;

            elt->value = header;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_call_steer(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_uint_t offset)
{
    ngx_http_upstream_header_t  *header;

    if (ngx_http_agentstream_call_of(r)) {
        return NGX_OK;
    }

    header = (ngx_http_upstream_header_t *) offset;

    return header->handler(r, h, header->offset);
}
