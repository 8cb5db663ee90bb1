
/*
 * Copyright (C) agentstream contributors
 *
 * What the translator remembers of a turn.  It is limited, whatever OpenCode
 * sends.  Messages and parts that were not announced are called strangers:
 * when there are too many, all of them are forgotten, and OpenCode is asked
 * for its stored state.  What was announced is kept until the end; a turn that
 * has too much of it is given up.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


/* messages and parts that are not announced yet; a few are normal */
#define NGX_HTTP_AGENTSTREAM_TR_STRANGERS_MAX  512

/* a step with a hundred parts takes about 30 kB */
#define NGX_HTTP_AGENTSTREAM_TR_MEMORY_MAX     (64 * 1024 * 1024)


static void ngx_http_agentstream_translate_work_cleanup(void *data);
static ngx_int_t ngx_http_agentstream_translate_spend(
    ngx_http_agentstream_translate_t *tr, size_t size);
static void ngx_http_agentstream_translate_node_free(
    ngx_http_agentstream_translate_t *tr, ngx_str_node_t *sn, size_t size);
static void ngx_http_agentstream_translate_free_messages(
    ngx_http_agentstream_translate_t *tr, ngx_queue_t *list);


ngx_http_agentstream_translate_work_t *
ngx_http_agentstream_translate_work_create(ngx_pool_t *pool)
{
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(pool,
                               sizeof(ngx_http_agentstream_translate_work_t));
    if (cln == NULL) {
        return NULL;
    }

    ngx_memzero(cln->data, sizeof(ngx_http_agentstream_translate_work_t));

    cln->handler = ngx_http_agentstream_translate_work_cleanup;

    return cln->data;
}


static void
ngx_http_agentstream_translate_work_cleanup(void *data)
{
    ngx_http_agentstream_translate_work_free(data);
}


void
ngx_http_agentstream_translate_work_free(
    ngx_http_agentstream_translate_work_t *work)
{
    ngx_http_agentstream_acp_destroy(&work->buf);
    ngx_http_agentstream_acp_destroy(&work->joined);
}


static ngx_int_t
ngx_http_agentstream_translate_spend(ngx_http_agentstream_translate_t *tr,
    size_t size)
{
    if (size > NGX_HTTP_AGENTSTREAM_TR_MEMORY_MAX - tr->memory) {
        tr->state.full = 1;
        return NGX_ERROR;
    }

    tr->memory += size;

    return NGX_OK;
}


void *
ngx_http_agentstream_translate_alloc(ngx_http_agentstream_translate_t *tr,
    size_t size)
{
    if (ngx_http_agentstream_translate_spend(tr, size) != NGX_OK) {
        return NULL;
    }

    return ngx_pcalloc(tr->pool, size);
}


ngx_int_t
ngx_http_agentstream_translate_copy(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *dst, ngx_str_t *src)
{
    if (ngx_http_agentstream_translate_spend(tr, src->len + 1) != NGX_OK) {
        return NGX_ERROR;
    }

    dst->data = ngx_pnalloc(tr->pool, src->len + 1);
    if (dst->data == NULL) {
        return NGX_ERROR;
    }

    dst->len = ngx_http_agentstream_json_copy(dst->data, src) - dst->data;

    return NGX_OK;
}


/* the id follows it, in the same piece of memory */

ngx_str_node_t *
ngx_http_agentstream_translate_node(ngx_http_agentstream_translate_t *tr,
    size_t size, ngx_str_t *id)
{
    ngx_str_node_t  *sn;

    if (ngx_http_agentstream_translate_spend(tr, size + id->len) != NGX_OK) {
        return NULL;
    }

    sn = calloc(1, size + id->len);
    if (sn == NULL) {
        tr->memory -= size + id->len;
        return NULL;
    }

    sn->node.key = ngx_murmur_hash2(id->data, id->len);
    sn->str.data = (u_char *) sn + size;
    sn->str.len = id->len;

    (void) ngx_http_agentstream_json_copy(sn->str.data, id);

    if (++tr->nstrangers > NGX_HTTP_AGENTSTREAM_TR_STRANGERS_MAX) {
        tr->crowded = 1;
    }

    return sn;
}


static void
ngx_http_agentstream_translate_node_free(ngx_http_agentstream_translate_t *tr,
    ngx_str_node_t *sn, size_t size)
{
    tr->memory -= size + sn->str.len;

    free(sn);
}


void
ngx_http_agentstream_translate_keep_message(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m)
{
    if (m->stranger) {
        m->stranger = 0;
        tr->nstrangers--;

        ngx_queue_remove(&m->list);
        ngx_queue_insert_tail(&tr->kept, &m->list);
    }
}


/* its message is not a stranger either, or ceases to be one together with
   it */

void
ngx_http_agentstream_translate_keep_part(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part)
{
    if (part->stranger) {
        part->stranger = 0;
        tr->nstrangers--;

        ngx_queue_remove(&part->openq);
    }
}


ngx_int_t
ngx_http_agentstream_translate_forget(ngx_http_agentstream_translate_t *tr)
{
    ngx_queue_t                     *q;
    ngx_http_agentstream_tr_part_t  *part;

    ngx_http_agentstream_translate_gap(tr);

    tr->crowded = 0;
    tr->forgot = 1;
    tr->part = NULL;

    while (!ngx_queue_empty(&tr->unknown)) {
        q = ngx_queue_head(&tr->unknown);
        part = ngx_queue_data(q, ngx_http_agentstream_tr_part_t, openq);

        ngx_queue_remove(&part->openq);
        ngx_queue_remove(&part->queue);
        ngx_rbtree_delete(&tr->parts, &part->sn.node);

        ngx_http_agentstream_translate_node_free(tr, &part->sn,
                                      sizeof(ngx_http_agentstream_tr_part_t));
    }

    ngx_http_agentstream_translate_free_messages(tr, &tr->strangers);

    tr->nstrangers = 0;

    return NGX_AGAIN;
}


void
ngx_http_agentstream_translate_free(ngx_http_agentstream_translate_t *tr)
{
    ngx_http_agentstream_translate_free_messages(tr, &tr->strangers);
    ngx_http_agentstream_translate_free_messages(tr, &tr->kept);

    ngx_rbtree_init(&tr->parts, &tr->sentinel, ngx_str_rbtree_insert_value);
}


/* frees messages with their parts; those of strangers were freed before,
   unless all messages are freed */

static void
ngx_http_agentstream_translate_free_messages(
    ngx_http_agentstream_translate_t *tr, ngx_queue_t *list)
{
    ngx_queue_t                        *q;
    ngx_http_agentstream_tr_part_t     *part;
    ngx_http_agentstream_tr_message_t  *m;

    while (!ngx_queue_empty(list)) {
        q = ngx_queue_head(list);
        ngx_queue_remove(q);

        m = ngx_queue_data(q, ngx_http_agentstream_tr_message_t, list);

        while (!ngx_queue_empty(&m->parts)) {
            q = ngx_queue_head(&m->parts);
            ngx_queue_remove(q);

            part = ngx_queue_data(q, ngx_http_agentstream_tr_part_t, queue);

            ngx_http_agentstream_translate_node_free(tr, &part->sn,
                                      sizeof(ngx_http_agentstream_tr_part_t));
        }

        ngx_rbtree_delete(&tr->messages, &m->sn.node);

        ngx_http_agentstream_translate_node_free(tr, &m->sn,
                                   sizeof(ngx_http_agentstream_tr_message_t));
    }
}
