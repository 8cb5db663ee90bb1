
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What all events of AG-UI are made with: a record's JSON, parsed; memory that
 * lives as long as the response; and the events that are written in several
 * places.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_agui_int.h"


static size_t ngx_http_agentstream_agui_error_size(
    ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_error_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_error_retry(u_char *p,
    ngx_uint_t msec);
static u_char *ngx_http_agentstream_agui_error_end(
    ngx_http_agentstream_wire_state_t *state, u_char *p);


ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_agui_error = {
    ngx_string("application/json"),
    ngx_null_string,
    ngx_null_string,
    0,
    ngx_null_string,
    sizeof(ngx_http_agentstream_wire_state_t),
    0,
    ngx_http_agentstream_agui_error_size,
    ngx_http_agentstream_agui_error_record,
    ngx_http_agentstream_agui_error,
    ngx_http_agentstream_agui_error_retry,
    ngx_http_agentstream_agui_error_end
};


ngx_int_t
ngx_http_agentstream_agui_doc(ngx_http_agentstream_agui_state_t *st,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_agui_doc_t *doc)
{
    size_t                        len;
    u_char                       *text;
    ngx_uint_t                    meta;
    ngx_http_agentstream_json_t  *json;

    ngx_memzero(doc, sizeof(ngx_http_agentstream_agui_doc_t));

    json = &doc->json;
    text = record->json.data;
    len = record->json.len;

    if (record->nholes) {
        len = ngx_http_agentstream_record_len(record);

        doc->copy = malloc(len);
        if (doc->copy == NULL) {
            st->wire.failed = 1;
            return NGX_ERROR;
        }

        (void) ngx_http_agentstream_record_json(doc->copy, record);
        text = doc->copy;
    }

    if (ngx_http_agentstream_json_parse(json, text, len) != NGX_OK) {
        st->wire.failed = 1;
        return NGX_ERROR;
    }

    meta = ngx_http_agentstream_json_get(json, json->root, "_meta");
    doc->subagent = ngx_http_agentstream_agui_id(json, meta, "sessionId");

    return NGX_OK;
}


void
ngx_http_agentstream_agui_doc_done(ngx_http_agentstream_agui_doc_t *doc)
{
    ngx_http_agentstream_json_destroy(&doc->json);

    if (doc->copy) {
        free(doc->copy);
    }
}


ngx_str_t
ngx_http_agentstream_agui_id(ngx_http_agentstream_json_t *json,
    ngx_uint_t object, const char *name)
{
    u_char     *p;
    ngx_str_t   id;

    id = ngx_http_agentstream_json_string(json,
                          ngx_http_agentstream_json_get(json, object, name));

    if (id.len == 0) {
        ngx_str_set(&id, "");
    }

    if (id.len <= NGX_HTTP_AGENTSTREAM_AGUI_ID_MAX) {
        return id;
    }

    /* neither an escape nor a character may be cut in the middle */

    id.len = NGX_HTTP_AGENTSTREAM_AGUI_ID_MAX;
    p = ngx_strlchr(id.data, id.data + id.len, '\\');

    if (p) {
        id.len = p - id.data;
    }

    while (id.len && (id.data[id.len] & 0xc0) == 0x80) {
        id.len--;
    }

    return id;
}


void *
ngx_http_agentstream_agui_push(ngx_http_agentstream_agui_state_t *st,
    ngx_array_t **array, size_t size)
{
    void  **place, *element;

    if (*array == NULL) {
        *array = ngx_array_create(st->wire.pool, 4, sizeof(void *));
        if (*array == NULL) {
            goto failed;
        }
    }

    element = ngx_pcalloc(st->wire.pool, size);
    if (element == NULL) {
        goto failed;
    }

    place = ngx_array_push(*array);
    if (place == NULL) {
        goto failed;
    }

    *place = element;

    return element;

failed:

    st->wire.failed = 1;

    return NULL;
}


ngx_str_t
ngx_http_agentstream_agui_dup(ngx_http_agentstream_agui_state_t *st,
    ngx_str_t *text)
{
    ngx_str_t  copy;

    ngx_str_null(&copy);

    if (text->len == 0) {
        return copy;
    }

    copy.data = ngx_pstrdup(st->wire.pool, text);

    if (copy.data == NULL) {
        st->wire.failed = 1;
        return copy;
    }

    copy.len = text->len;

    return copy;
}


u_char *
ngx_http_agentstream_agui_tag(u_char *p, ngx_str_t *subagent)
{
    if (subagent->len == 0) {
        return p;
    }

    p = ngx_http_agentstream_agui_cpy(p, ",\"subagentRunId\":\"");
    p = ngx_http_agentstream_agui_str(p, subagent);
    *p++ = '"';

    return p;
}


u_char *
ngx_http_agentstream_agui_custom(u_char *p,
    ngx_http_agentstream_record_t *record, ngx_str_t *subagent)
{
    ngx_str_t  *name;

    name = &ngx_http_agentstream_record_names[record->type];

    p = ngx_http_agentstream_agui_cpy(p, "data: {\"type\":\"CUSTOM\"");
    p = ngx_http_agentstream_agui_tag(p, subagent);
    p = ngx_http_agentstream_agui_cpy(p, ",\"name\":\"");
    p = ngx_http_agentstream_agui_str(p, name);
    p = ngx_http_agentstream_agui_cpy(p, "\",\"value\":");
    p = ngx_http_agentstream_record_json(p, record);

    return ngx_http_agentstream_agui_cpy(p, "}\n\n");
}


u_char *
ngx_http_agentstream_agui_begin(ngx_http_agentstream_agui_run_t *run,
    u_char *p)
{
    if (run->started) {
        return p;
    }

    run->started = 1;

    p = ngx_http_agentstream_agui_cpy(p, "data: {\"type\":\"RUN_STARTED\","
                                         "\"threadId\":\"");
    p = ngx_http_agentstream_agui_str(p, &run->thread);
    p = ngx_http_agentstream_agui_cpy(p, "\",\"runId\":\"");
    p = ngx_http_agentstream_agui_str(p, &run->run);

    return ngx_http_agentstream_agui_cpy(p, "\",\"protocolVersion\":\"1.0\""
                                            "}\n\n");
}


/* an "error" packet is short; if it cannot be parsed now, the packet itself
   still says what happened */

u_char *
ngx_http_agentstream_agui_error(u_char *p,
    ngx_http_agentstream_record_t *record)
{
    int64_t                      code;
    ngx_str_t                    message, name;
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    if (ngx_http_agentstream_json_parse(&json, record->json.data,
                                        record->json.len)
        != NGX_OK)
    {
        ngx_http_agentstream_json_destroy(&json);

        p = ngx_http_agentstream_agui_cpy(p, "{\"type\":\"RUN_ERROR\","
                                             "\"message\":\"Failed\","
                                             "\"rawEvent\":");
        p = ngx_http_agentstream_record_json(p, record);
        *p++ = '}';

        return p;
    }

    message = ngx_http_agentstream_json_string(&json,
                  ngx_http_agentstream_json_get(&json, json.root, "message"));
    code = ngx_http_agentstream_json_integer(&json,
                  ngx_http_agentstream_json_get(&json, json.root, "code"), 0);
    name = ngx_http_agentstream_agui_id(&json,
                  ngx_http_agentstream_json_get(&json, json.root, "details"),
                  "name");

    p = ngx_http_agentstream_agui_cpy(p, "{\"type\":\"RUN_ERROR\","
                                         "\"message\":\"");
    p = ngx_http_agentstream_agui_str(p, &message);
    *p++ = '"';

    if (code) {
        p = ngx_sprintf(p, ",\"code\":\"%L\"", code);

    } else if (name.len) {
        p = ngx_sprintf(p, ",\"code\":\"%V\"", &name);
    }

    p = ngx_http_agentstream_agui_cpy(p, ",\"rawEvent\":");
    p = ngx_http_agentstream_record_json(p, record);
    *p++ = '}';

    ngx_http_agentstream_json_destroy(&json);

    return p;
}


static size_t
ngx_http_agentstream_agui_error_size(ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record)
{
    return 128 + NGX_HTTP_AGENTSTREAM_AGUI_ID_MAX
           + 2 * ngx_http_agentstream_record_len(record);
}


/* only the end of a turn that has failed before it began; that is one
   record */

static u_char *
ngx_http_agentstream_agui_error_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record)
{
    if (record->type != NGX_HTTP_AGENTSTREAM_RECORD_ERROR) {
        return p;
    }

    return ngx_http_agentstream_agui_error(p, record);
}


static u_char *
ngx_http_agentstream_agui_error_retry(u_char *p, ngx_uint_t msec)
{
    return p;
}


static u_char *
ngx_http_agentstream_agui_error_end(ngx_http_agentstream_wire_state_t *state,
    u_char *p)
{
    return p;
}
