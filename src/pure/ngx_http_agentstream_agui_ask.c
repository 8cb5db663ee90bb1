
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Questions and permission requests as interrupts of AG-UI.  A run ends where
 * something waits; the id of the interrupt says how far the client has read,
 * so that the run that answers it continues there.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_agui_int.h"


#define NGX_HTTP_AGENTSTREAM_AGUI_REPLY                                       \
    "\"responseSchema\":{\"type\":\"object\",\"properties\":{"                \
    "\"reply\":{\"enum\":[\"once\",\"always\",\"reject\"]},"                  \
    "\"message\":{\"type\":\"string\"}},\"required\":[\"reply\"]},"

#define NGX_HTTP_AGENTSTREAM_AGUI_ANSWERS                                     \
    "\"responseSchema\":{\"type\":\"object\",\"properties\":{"                \
    "\"answers\":{\"type\":\"array\",\"items\":{\"type\":\"array\","          \
    "\"items\":{\"type\":\"string\"}}}},\"required\":[\"answers\"]},"


static ngx_uint_t ngx_http_agentstream_agui_answered(ngx_array_t *answered,
    ngx_str_t *id);
static ngx_http_agentstream_agui_ask_t *ngx_http_agentstream_agui_ask_slot(
    ngx_http_agentstream_agui_state_t *st, size_t size);
static u_char *ngx_http_agentstream_agui_ask_write(u_char *p,
    ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_agui_doc_t *doc);
static ngx_str_t ngx_http_agentstream_agui_ask_id(
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);


u_char *
ngx_http_agentstream_agui_ask(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    u_char                           *last;
    ngx_str_t                         id;
    ngx_uint_t                        permission;
    ngx_http_agentstream_agui_doc_t   doc;
    ngx_http_agentstream_agui_ask_t  *ask;
    ngx_http_agentstream_agui_run_t  *run;

    run = st->wire.request;
    permission = (record->type == NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION);

    if (ngx_http_agentstream_agui_doc(st, record, &doc) != NGX_OK) {
        goto done;
    }

    id = ngx_http_agentstream_agui_ask_id(record, &doc.json);

    if (ngx_http_agentstream_agui_answered(st->wire.answered, &id)) {
        goto done;
    }

    if (permission && run->automatic) {
        p = ngx_http_agentstream_agui_custom(p, record, &doc.subagent);
        goto done;
    }

    ask = ngx_http_agentstream_agui_ask_slot(st,
                    ngx_http_agentstream_agui_ask_size(record) + id.len);
    if (ask == NULL) {
        goto done;
    }

    ask->permission = permission;
    ask->waits = 1;

    /* the id is in the same memory */

    ask->id.data = ask->json.data;
    ask->id.len = id.len;
    last = ngx_http_agentstream_agui_str(ask->id.data, &id);

    ask->json.data = last;
    last = ngx_http_agentstream_agui_ask_write(last, record, &doc);
    ask->json.len = last - ask->json.data;

    st->wire.pending += ask->json.len + NGX_HTTP_AGENTSTREAM_AGUI_ROOM;
    st->wire.waits = 1;

done:

    ngx_http_agentstream_agui_doc_done(&doc);

    return p;
}


static ngx_uint_t
ngx_http_agentstream_agui_answered(ngx_array_t *answered, ngx_str_t *id)
{
    ngx_str_t   *ids;
    ngx_uint_t   i;

    ids = answered ? answered->elts : NULL;

    for (i = 0; ids && i < answered->nelts; i++) {
        if (ids[i].len == id->len
            && ngx_memcmp(ids[i].data, id->data, id->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


static ngx_http_agentstream_agui_ask_t *
ngx_http_agentstream_agui_ask_slot(ngx_http_agentstream_agui_state_t *st,
    size_t size)
{
    u_char                            *p;
    ngx_uint_t                         i;
    ngx_http_agentstream_agui_ask_t  **asks, *ask;

    asks = st->asks ? st->asks->elts : NULL;

    for (i = 0; asks && i < st->asks->nelts; i++) {
        if (!asks[i]->waits && asks[i]->size >= size) {
            asks[i]->json.data = asks[i]->id.data;
            return asks[i];
        }
    }

    ask = ngx_http_agentstream_agui_push(st, &st->asks,
                                     sizeof(ngx_http_agentstream_agui_ask_t));
    if (ask == NULL) {
        return NULL;
    }

    p = ngx_pnalloc(st->wire.pool, size);
    if (p == NULL) {
        st->asks->nelts--;
        st->wire.failed = 1;
        return NULL;
    }

    ask->json.data = p;
    ask->size = size;

    return ask;
}


static ngx_str_t
ngx_http_agentstream_agui_ask_id(ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_json_t *json)
{
    return ngx_http_agentstream_agui_id(json, json->root,
                   (record->type == NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION
                    || record->type
                       == NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION_RESOLVED)
                   ? "permissionId" : "questionId");
}


/* all of an interrupt but its id */

static u_char *
ngx_http_agentstream_agui_ask_write(u_char *p,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_agui_doc_t *doc)
{
    ngx_str_t                     call, text;
    ngx_uint_t                    root;
    ngx_http_agentstream_json_t  *json;

    json = &doc->json;
    root = json->root;

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION) {
        p = ngx_http_agentstream_agui_cpy(p, "\"reason\":\"tool_call\","
                                             "\"message\":\"");
        text = ngx_http_agentstream_agui_id(json, root, "permission");
        p = ngx_http_agentstream_agui_str(p, &text);

        text = ngx_http_agentstream_json_string(json,
                   ngx_http_agentstream_json_first(json,
                       ngx_http_agentstream_json_get(json, root, "patterns")));

        if (text.len) {
            p = ngx_http_agentstream_agui_cpy(p, ": ");
            p = ngx_http_agentstream_agui_str(p, &text);
        }

        p = ngx_http_agentstream_agui_cpy(p, "\","
                                          NGX_HTTP_AGENTSTREAM_AGUI_REPLY);

        root = ngx_http_agentstream_json_get(json, root, "toolCall");

    } else {
        p = ngx_http_agentstream_agui_cpy(p, "\"reason\":\"input_required\","
                                             "\"message\":\"");

        text = ngx_http_agentstream_json_string(json,
                   ngx_http_agentstream_json_get(json,
                       ngx_http_agentstream_json_first(json,
                           ngx_http_agentstream_json_get(json, root,
                                                         "questions")),
                       "question"));
        p = ngx_http_agentstream_agui_str(p, &text);
        p = ngx_http_agentstream_agui_cpy(p, "\","
                                          NGX_HTTP_AGENTSTREAM_AGUI_ANSWERS);
    }

    call = ngx_http_agentstream_agui_id(json, root, "toolCallId");

    if (call.len) {
        p = ngx_http_agentstream_agui_cpy(p, "\"toolCallId\":\"");
        p = ngx_http_agentstream_agui_str(p, &call);
        p = ngx_http_agentstream_agui_cpy(p, "\",");
    }

    p = ngx_http_agentstream_agui_cpy(p, "\"metadata\":{\"");
    p = ngx_http_agentstream_agui_str(p,
                            &ngx_http_agentstream_record_names[record->type]);
    p = ngx_http_agentstream_agui_cpy(p, "\":");
    p = ngx_http_agentstream_record_json(p, record);
    *p++ = '}';
    p = ngx_http_agentstream_agui_tag(p, &doc->subagent);
    *p++ = '}';

    return p;
}


u_char *
ngx_http_agentstream_agui_resolved(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_str_t                          id;
    ngx_uint_t                         i;
    ngx_http_agentstream_agui_doc_t    doc;
    ngx_http_agentstream_agui_ask_t  **asks;

    if (ngx_http_agentstream_agui_doc(st, record, &doc) != NGX_OK) {
        goto done;
    }

    p = ngx_http_agentstream_agui_custom(p, record, &doc.subagent);

    id = ngx_http_agentstream_agui_ask_id(record, &doc.json);
    asks = st->asks ? st->asks->elts : NULL;

    st->wire.waits = 0;

    for (i = 0; asks && i < st->asks->nelts; i++) {

        if (asks[i]->waits && asks[i]->id.len == id.len
            && ngx_memcmp(asks[i]->id.data, id.data, id.len) == 0)
        {
            asks[i]->waits = 0;
            st->wire.pending -= asks[i]->json.len
                             + NGX_HTTP_AGENTSTREAM_AGUI_ROOM;
        }

        st->wire.waits |= asks[i]->waits;
    }

done:

    ngx_http_agentstream_agui_doc_done(&doc);

    return p;
}


u_char *
ngx_http_agentstream_agui_interrupts(ngx_http_agentstream_agui_state_t *st,
    u_char *p)
{
    ngx_uint_t                         i, n;
    ngx_http_agentstream_agui_ask_t  **asks;

    n = 0;
    asks = st->asks->elts;

    p = ngx_http_agentstream_agui_cpy(p, "\"interrupts\":[");

    for (i = 0; i < st->asks->nelts; i++) {

        if (!asks[i]->waits) {
            continue;
        }

        p = ngx_sprintf(p, "%s{\"id\":\"%s:%V:%V:%uL\",", n++ ? "," : "",
                        asks[i]->permission ? "permission" : "question",
                        &asks[i]->id, &st->wire.turn, st->seq);
        p = ngx_http_agentstream_agui_str(p, &asks[i]->json);
    }

    *p++ = ']';

    return p;
}
