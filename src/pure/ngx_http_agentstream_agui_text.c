
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Texts and thoughts as messages of AG-UI.  At most one message is open at a
 * time: a chunk of another one closes it.  It can be opened again, because
 * AG-UI appends to a message that is there.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_agui_int.h"


/* the bytes of the event that discards a text */
#define NGX_HTTP_AGENTSTREAM_AGUI_VOID                                        \
    (192 + NGX_HTTP_AGENTSTREAM_AGUI_ID_MAX + 2 * NGX_INT_T_LEN)


static ngx_http_agentstream_agui_text_t *ngx_http_agentstream_agui_text_find(
    ngx_http_agentstream_agui_state_t *st, ngx_uint_t part);
static ngx_http_agentstream_agui_text_t *ngx_http_agentstream_agui_text_add(
    ngx_http_agentstream_agui_state_t *st,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_text_open(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_agui_text_t *text);
static u_char *ngx_http_agentstream_agui_discard(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_agui_text_t *text);


u_char *
ngx_http_agentstream_agui_chunk(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_str_t                         *json;
    ngx_http_agentstream_agui_text_t  *text;

    text = st->text;

    if (text == NULL || text->part != record->part) {

        text = ngx_http_agentstream_agui_text_find(st, record->part);

        if (text == NULL) {
            text = ngx_http_agentstream_agui_text_add(st, record);
        }

        if (text == NULL) {
            return p;
        }

        p = ngx_http_agentstream_agui_text_close(st, p);
        p = ngx_http_agentstream_agui_text_open(st, p, text);
    }

    /* all chunks of a text are written in the same way, so it begins and ends
       at the same place */

    json = &record->json;

    if (json->len < text->head + text->tail) {
        return p;
    }

    p = text->thought
        ? ngx_http_agentstream_agui_cpy(p,
              "data: {\"type\":\"REASONING_MESSAGE_CONTENT\",\"messageId\":\"")
        : ngx_http_agentstream_agui_cpy(p,
              "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"");

    p = ngx_http_agentstream_agui_str(p, &text->id);
    p = ngx_http_agentstream_agui_cpy(p, "\",\"delta\":\"");
    p = ngx_cpymem(p, json->data + text->head,
                   json->len - text->head - text->tail);

    return ngx_http_agentstream_agui_cpy(p, "\"}\n\n");
}


static ngx_http_agentstream_agui_text_t *
ngx_http_agentstream_agui_text_find(ngx_http_agentstream_agui_state_t *st,
    ngx_uint_t part)
{
    ngx_uint_t                          i;
    ngx_http_agentstream_agui_text_t  **texts;

    if (st->texts == NULL) {
        return NULL;
    }

    texts = st->texts->elts;

    for (i = st->texts->nelts; i > 0; i--) {
        if (texts[i - 1]->part == part && !texts[i - 1]->gone) {
            return texts[i - 1];
        }
    }

    return NULL;
}


static ngx_http_agentstream_agui_text_t *
ngx_http_agentstream_agui_text_add(ngx_http_agentstream_agui_state_t *st,
    ngx_http_agentstream_record_t *record)
{
    u_char                            *p;
    ngx_str_t                          id, string;
    ngx_uint_t                         content;
    ngx_http_agentstream_json_t       *json;
    ngx_http_agentstream_agui_doc_t    doc;
    ngx_http_agentstream_agui_text_t  *text;

    text = NULL;
    json = &doc.json;

    if (ngx_http_agentstream_agui_doc(st, record, &doc) != NGX_OK) {
        goto done;
    }

    content = ngx_http_agentstream_json_get(json, json->root, "content");
    string = ngx_http_agentstream_json_string(json,
                     ngx_http_agentstream_json_get(json, content, "text"));
    id = ngx_http_agentstream_agui_id(json, json->root, "messageId");

    if (id.len == 0) {
        id = st->wire.turn;
    }

    text = ngx_http_agentstream_agui_push(st, &st->texts,
                                    sizeof(ngx_http_agentstream_agui_text_t));
    p = ngx_pnalloc(st->wire.pool, id.len + 2 + 2 * NGX_INT_T_LEN);

    if (text == NULL || p == NULL || string.data == NULL) {
        st->wire.failed = 1;
        text = NULL;
        goto done;
    }

    text->id.data = p;
    text->message.data = p;
    text->message.len = id.len;

    p = ngx_sprintf(p, "%V-%ui", &id, record->part);

    if (st->generation) {
        p = ngx_sprintf(p, "-%ui", st->generation);
    }

    text->id.len = p - text->id.data;
    text->first = record->seq;
    text->part = record->part;
    text->head = string.data - json->text;
    text->tail = record->json.len - text->head - string.len;
    text->subagent = ngx_http_agentstream_agui_dup(st, &doc.subagent);
    text->thought = (record->type == NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT);

    st->voids += NGX_HTTP_AGENTSTREAM_AGUI_VOID;

done:

    ngx_http_agentstream_agui_doc_done(&doc);

    return text;
}


static u_char *
ngx_http_agentstream_agui_text_open(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_agui_text_t *text)
{
    p = ngx_http_agentstream_agui_step(st, p, &text->subagent);
    p = ngx_http_agentstream_agui_subagent_open(st, p, &text->subagent);

    st->text = text;

    if (!text->thought) {
        p = ngx_http_agentstream_agui_cpy(p,
                "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"");
        p = ngx_http_agentstream_agui_str(p, &text->id);
        p = ngx_http_agentstream_agui_cpy(p, "\",\"role\":\"assistant\"");
        p = ngx_http_agentstream_agui_tag(p, &text->subagent);

        return ngx_http_agentstream_agui_cpy(p, "}\n\n");
    }

    p = ngx_http_agentstream_agui_cpy(p,
            "data: {\"type\":\"REASONING_START\",\"messageId\":\"");
    p = ngx_http_agentstream_agui_str(p, &text->id);
    *p++ = '"';
    p = ngx_http_agentstream_agui_tag(p, &text->subagent);
    p = ngx_http_agentstream_agui_cpy(p,
            "}\n\ndata: {\"type\":\"REASONING_MESSAGE_START\","
            "\"messageId\":\"");
    p = ngx_http_agentstream_agui_str(p, &text->id);
    p = ngx_http_agentstream_agui_cpy(p, "\",\"role\":\"reasoning\"");
    p = ngx_http_agentstream_agui_tag(p, &text->subagent);

    return ngx_http_agentstream_agui_cpy(p, "}\n\n");
}


u_char *
ngx_http_agentstream_agui_text_close(ngx_http_agentstream_agui_state_t *st,
    u_char *p)
{
    ngx_http_agentstream_agui_text_t  *text;

    text = st->text;

    if (text == NULL) {
        return p;
    }

    st->text = NULL;

    if (!text->thought) {
        p = ngx_http_agentstream_agui_cpy(p,
                "data: {\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"");
        p = ngx_http_agentstream_agui_str(p, &text->id);

        return ngx_http_agentstream_agui_cpy(p, "\"}\n\n");
    }

    p = ngx_http_agentstream_agui_cpy(p,
            "data: {\"type\":\"REASONING_MESSAGE_END\",\"messageId\":\"");
    p = ngx_http_agentstream_agui_str(p, &text->id);
    p = ngx_http_agentstream_agui_cpy(p,
            "\"}\n\ndata: {\"type\":\"REASONING_END\",\"messageId\":\"");
    p = ngx_http_agentstream_agui_str(p, &text->id);

    return ngx_http_agentstream_agui_cpy(p, "\"}\n\n");
}


/*
 * The record names a message of OpenCode and the numbers of records; all
 * records of a text are void at once, and there may be several records that
 * say so.  A rebuilt turn has no numbers.
 */

u_char *
ngx_http_agentstream_agui_discarded(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    int64_t                             from, to;
    ngx_str_t                           id;
    ngx_uint_t                          i, root;
    ngx_http_agentstream_json_t        *json;
    ngx_http_agentstream_agui_doc_t     doc;
    ngx_http_agentstream_agui_text_t  **texts;

    json = &doc.json;

    if (ngx_http_agentstream_agui_doc(st, record, &doc) != NGX_OK
        || st->texts == NULL)
    {
        goto done;
    }

    root = json->root;
    id = ngx_http_agentstream_agui_id(json, root, "messageId");
    from = ngx_http_agentstream_json_integer(json,
                  ngx_http_agentstream_json_get(json, root, "from"), 0);
    to = ngx_http_agentstream_json_integer(json,
                  ngx_http_agentstream_json_get(json, root, "to"), 0);

    texts = st->texts->elts;

    for (i = 0; i < st->texts->nelts; i++) {

        if (texts[i]->gone
            || texts[i]->message.len != id.len
            || ngx_memcmp(texts[i]->message.data, id.data, id.len) != 0
            || (texts[i]->first && ((int64_t) texts[i]->first < from
                                    || (int64_t) texts[i]->first > to)))
        {
            continue;
        }

        p = ngx_http_agentstream_agui_discard(st, p, texts[i]);
    }

    st->generation++;

done:

    ngx_http_agentstream_agui_doc_done(&doc);

    return p;
}


u_char *
ngx_http_agentstream_agui_discard_all(ngx_http_agentstream_agui_state_t *st,
    u_char *p)
{
    ngx_uint_t                          i;
    ngx_http_agentstream_agui_text_t  **texts;

    texts = st->texts ? st->texts->elts : NULL;

    for (i = 0; texts && i < st->texts->nelts; i++) {
        if (!texts[i]->gone) {
            p = ngx_http_agentstream_agui_discard(st, p, texts[i]);
        }
    }

    st->generation++;

    return p;
}


/*
 * A message can only be taken back by one of another kind in its place.
 * Frontends show no activity whose type they do not know, and do not send it
 * back.
 */

static u_char *
ngx_http_agentstream_agui_discard(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_agui_text_t *text)
{
    if (st->text == text) {
        p = ngx_http_agentstream_agui_text_close(st, p);
    }

    text->gone = 1;
    st->voids -= NGX_HTTP_AGENTSTREAM_AGUI_VOID;

    p = ngx_http_agentstream_agui_cpy(p,
            "data: {\"type\":\"ACTIVITY_SNAPSHOT\",\"messageId\":\"");
    p = ngx_http_agentstream_agui_str(p, &text->id);
    p = ngx_http_agentstream_agui_cpy(p,
            "\",\"activityType\":\"discarded\",\"content\":{},"
            "\"replace\":true");
    p = ngx_http_agentstream_agui_tag(p, &text->subagent);

    return ngx_http_agentstream_agui_cpy(p, "}\n\n");
}
