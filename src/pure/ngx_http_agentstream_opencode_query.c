
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What may be added to the address of an exchange.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_opencode.h"


ngx_int_t
ngx_http_agentstream_opencode_limit(ngx_pool_t *pool,
    ngx_http_agentstream_address_t *addr, ngx_uint_t limit)
{
    u_char  *p, *args;

    args = ngx_pnalloc(pool, addr->args.len + sizeof("&limit=") - 1
                             + NGX_INT_T_LEN);
    if (args == NULL) {
        return NGX_ERROR;
    }

    p = args;

    if (addr->args.len) {
        p = ngx_cpymem(p, addr->args.data, addr->args.len);
        *p++ = '&';
    }

    p = ngx_sprintf(p, "limit=%ui", limit);

    addr->args.data = args;
    addr->args.len = p - args;

    return NGX_OK;
}
