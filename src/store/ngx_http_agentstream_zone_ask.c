
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What other workers must know of a turn to answer its questions: which
 * questions and permission requests wait, and the directory of its calls.  The
 * former belong to the running turn and are freed when it ends; the directory
 * is the session's, so that the next turn knows it, too.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_zone.h"


ngx_int_t
ngx_http_agentstream_zone_directory_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *directory)
{
    u_char     *p;
    ngx_str_t  *known;

    known = &node->session->directory;

    if (known->len == directory->len
        && (known->len == 0
            || ngx_memcmp(known->data, directory->data, known->len) == 0))
    {
        return NGX_OK;
    }

    p = NULL;

    if (directory->len) {
        p = ngx_http_agentstream_zone_alloc_locked(zone, directory->len);
        if (p == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(p, directory->data, directory->len);
    }

    if (known->data) {
        ngx_slab_free_locked(zone->shpool, known->data);
    }

    known->data = p;
    known->len = directory->len;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_zone_ask_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *id, ngx_uint_t permission)
{
    ngx_http_agentstream_ask_t  *ask, **last;

    if (ngx_http_agentstream_zone_asks_locked(node, id, permission)) {
        return NGX_OK;
    }

    if (id->len > NGX_HTTP_AGENTSTREAM_ASK_ID_SIZE
        || node->nasks >= NGX_HTTP_AGENTSTREAM_ASKS_MAX)
    {
        return NGX_DECLINED;
    }

    ask = ngx_http_agentstream_zone_alloc_locked(zone,
                                          sizeof(ngx_http_agentstream_ask_t));
    if (ask == NULL) {
        return NGX_ERROR;
    }

    ask->next = NULL;
    ask->permission = permission;
    ask->id_len = id->len;
    ngx_memcpy(ask->id, id->data, id->len);

    for (last = &node->asks; *last; last = &(*last)->next) { /* void */ }

    *last = ask;
    node->nasks++;

    return NGX_OK;
}


ngx_uint_t
ngx_http_agentstream_zone_asks_locked(ngx_http_agentstream_node_t *node,
    ngx_str_t *id, ngx_uint_t permission)
{
    ngx_http_agentstream_ask_t  *ask;

    for (ask = node->asks; ask; ask = ask->next) {
        if (ask->permission == permission
            && ask->id_len == id->len
            && ngx_memcmp(ask->id, id->data, id->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


void
ngx_http_agentstream_zone_answer_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *id)
{
    ngx_http_agentstream_ask_t  *ask, **p;

    for (p = &node->asks; *p; p = &(*p)->next) {
        ask = *p;

        if (ask->id_len == id->len
            && ngx_memcmp(ask->id, id->data, id->len) == 0)
        {
            *p = ask->next;
            node->nasks--;
            ngx_slab_free_locked(zone->shpool, ask);
            return;
        }
    }
}


void
ngx_http_agentstream_zone_forget_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_ask_t  *ask, *next;

    for (ask = node->asks; ask; ask = next) {
        next = ask->next;
        ngx_slab_free_locked(zone->shpool, ask);
    }

    node->asks = NULL;
    node->nasks = 0;
}
