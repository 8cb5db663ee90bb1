
/*
 * Copyright (C) agentstream contributors
 *
 * Events of a message or part that was not announced yet; docs/protocol.md,
 * "From OpenCode's events to packets".  They are kept until the message is
 * known, from its event or from a look-up, and then handled in their order.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


#define NGX_HTTP_AGENTSTREAM_TR_HELD_MAX  262144


/* malloc()ed; followed by the text of a delta, or by the JSON of a part */

typedef struct {
    ngx_queue_t                              queue;     /* in its message */
    ngx_queue_t                              all;       /* in tr->holding */
    ngx_http_agentstream_tr_part_t          *part;
    size_t                                   len;
    unsigned                                 delta:1;
} ngx_http_agentstream_tr_held_t;


static ngx_http_agentstream_tr_held_t *ngx_http_agentstream_translate_hold_next(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m);
static ngx_int_t ngx_http_agentstream_translate_hold_handle(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_held_t *held);
static void ngx_http_agentstream_translate_hold_release(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_held_t *held);


ngx_int_t
ngx_http_agentstream_translate_hold_add(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m, ngx_http_agentstream_tr_part_t *part,
    ngx_str_t *raw, ngx_uint_t delta)
{
    size_t                           size;
    ngx_http_agentstream_tr_held_t  *held;

    size = sizeof(ngx_http_agentstream_tr_held_t) + raw->len;

    if (part->gap && delta) {
        return NGX_OK;
    }

    if (tr->held + size > NGX_HTTP_AGENTSTREAM_TR_HELD_MAX) {
        tr->crowded = 1;
        return NGX_OK;
    }

    held = malloc(size);
    if (held == NULL) {
        return NGX_ERROR;
    }

    held->part = part;
    held->len = raw->len;
    held->delta = delta;

    ngx_memcpy(held + 1, raw->data, raw->len);

    ngx_queue_insert_tail(&m->held, &held->queue);
    ngx_queue_insert_tail(&tr->holding, &held->all);

    tr->held += size;
    tr->state.nheld++;

    ngx_http_agentstream_translate_hold_resolve(tr, m);

    return NGX_OK;
}


void
ngx_http_agentstream_translate_hold_resolve(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m)
{
    if (!m->resolving && ngx_http_agentstream_opencode_id(&m->sn.str)) {
        m->resolving = 1;
        tr->sink->resolve(tr->ctx, &m->session->id, &m->sn.str);
    }
}


ngx_int_t
ngx_http_agentstream_translate_hold_replay(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m)
{
    ngx_int_t                        rc;
    ngx_http_agentstream_tr_held_t  *held;

    if (tr->state.nheld == 0) {
        return NGX_OK;
    }

    rc = NGX_OK;

    /* handling one event may make others ready, or handle them */

    for ( ;; ) {

        held = ngx_http_agentstream_translate_hold_next(tr, m);
        if (held == NULL) {
            break;
        }

        ngx_queue_remove(&held->queue);
        ngx_queue_remove(&held->all);

        if (rc == NGX_OK) {
            rc = ngx_http_agentstream_translate_hold_handle(tr, held);
        }

        ngx_http_agentstream_translate_hold_release(tr, held);
    }

    return rc;
}


static ngx_int_t
ngx_http_agentstream_translate_hold_handle(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_held_t *held)
{
    ngx_int_t                           rc;
    ngx_str_t                           raw;
    ngx_http_agentstream_json_t         json;
    ngx_http_agentstream_tr_session_t  *s;

    raw.data = (u_char *) (held + 1);
    raw.len = held->len;

    if (held->delta) {
        return ngx_http_agentstream_translate_text_part(tr, held->part, &raw);
    }

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, raw.data, raw.len);

    if (rc == NGX_OK) {
        s = held->part->message->session;

        rc = ngx_http_agentstream_translate_part_update(tr, s, &json,
                                                        json.root, 0);
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


/* the first held event of the message that can be handled now */

static ngx_http_agentstream_tr_held_t *
ngx_http_agentstream_translate_hold_next(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m)
{
    ngx_queue_t                     *q;
    ngx_http_agentstream_tr_held_t  *held;

    for (q = ngx_queue_head(&m->held);
         q != ngx_queue_sentinel(&m->held);
         q = ngx_queue_next(q))
    {
        held = ngx_queue_data(q, ngx_http_agentstream_tr_held_t, queue);

        if (!held->delta
            || held->part->kind != NGX_HTTP_AGENTSTREAM_TR_UNKNOWN
            || !ngx_http_agentstream_tr_speaks(tr, m))
        {
            return held;
        }
    }

    return NULL;
}


static void
ngx_http_agentstream_translate_hold_release(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_held_t *held)
{
    tr->held -= sizeof(ngx_http_agentstream_tr_held_t) + held->len;
    tr->state.nheld--;

    free(held);
}


/* drops the held events of a message, or (NULL) of all messages; if a part
   turns out to belong to this turn, its text is taken from a snapshot */

void
ngx_http_agentstream_translate_hold_forget(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m)
{
    ngx_queue_t                     *list;
    ngx_http_agentstream_tr_held_t  *held;

    list = m ? &m->held : &tr->holding;

    while (!ngx_queue_empty(list)) {

        if (m) {
            held = ngx_queue_data(ngx_queue_head(list),
                                  ngx_http_agentstream_tr_held_t, queue);

        } else {
            held = ngx_queue_data(ngx_queue_head(list),
                                  ngx_http_agentstream_tr_held_t, all);
        }

        held->part->gap = 1;
        held->part->message->resolving = 0;

        ngx_queue_remove(&held->queue);
        ngx_queue_remove(&held->all);
        ngx_http_agentstream_translate_hold_release(tr, held);
    }
}
