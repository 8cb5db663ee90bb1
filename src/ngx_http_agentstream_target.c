
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Targets.  A session is identified by its id and by the OpenCode server that
 * has it.  The server is identified by the server block, the internal location
 * and the value of "agentstream_route".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_target.h"


static ngx_int_t ngx_http_agentstream_target_string(ngx_pool_t *pool,
    ngx_str_t *dst, ngx_str_t *src);


ngx_int_t
ngx_http_agentstream_target_init(ngx_http_agentstream_target_t *target,
    ngx_pool_t *pool, ngx_http_agentstream_loc_conf_t *conf, ngx_str_t *route,
    ngx_str_t *session)
{
    u_char     *p;
    ngx_str_t  *key;

    target->conf = conf;
    target->route = *route;
    target->session = *session;

    key = &target->key;

    if (session->len == 0) {
        ngx_str_null(key);
        return NGX_OK;
    }

    /* the key must be the same after a reload, so it contains neither
       addresses nor line numbers */

    key->len = conf->server_name.len + 1 + conf->prefix.len + 1 + route->len
               + 1 + session->len;

    p = ngx_pnalloc(pool, key->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    key->data = p;

    ngx_sprintf(p, "%V %V %V %V", &conf->server_name, &conf->prefix, route,
                session);

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_target_copy(ngx_http_agentstream_target_t *target,
    ngx_pool_t *pool, ngx_http_agentstream_target_t *from)
{
    target->conf = from->conf;

    if (ngx_http_agentstream_target_string(pool, &target->route, &from->route)
        != NGX_OK
        || ngx_http_agentstream_target_string(pool, &target->session,
                                              &from->session)
           != NGX_OK
        || ngx_http_agentstream_target_string(pool, &target->key, &from->key)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_target_string(ngx_pool_t *pool, ngx_str_t *dst,
    ngx_str_t *src)
{
    dst->len = src->len;
    dst->data = ngx_pstrdup(pool, src);

    return dst->data ? NGX_OK : NGX_ERROR;
}
