
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Tool calls.  The client does not execute them, and knows none of them in
 * advance.  A call is announced once, in the step that it belongs to: the
 * library would take a second announcement in a later step for another call.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_aisdk_int.h"


static ngx_http_agentstream_aisdk_tool_t *
    ngx_http_agentstream_aisdk_tool_create(
    ngx_http_agentstream_aisdk_state_t *s, ngx_uint_t part, ngx_str_t *id);
static void ngx_http_agentstream_aisdk_tool_remove(
    ngx_http_agentstream_aisdk_state_t *s,
    ngx_http_agentstream_aisdk_tool_t *tool);
static ngx_str_t ngx_http_agentstream_aisdk_tool_name(
    ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_aisdk_tool_state(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_aisdk_tool_t *tool, ngx_str_t *id,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_aisdk_tool_output(u_char *p,
    ngx_str_t *id, ngx_http_agentstream_record_t *record, ngx_str_t *output,
    ngx_uint_t preliminary);
static u_char *ngx_http_agentstream_aisdk_tool_failed(u_char *p,
    ngx_str_t *id, ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_json_t *json);
static ngx_str_t ngx_http_agentstream_aisdk_tool_text(
    ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_aisdk_tool_files(u_char *p,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);


u_char *
ngx_http_agentstream_aisdk_tool(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_json_t *json)
{
    ngx_str_t                           id, name, title;
    ngx_uint_t                          v;
    ngx_http_agentstream_aisdk_tool_t  *tool;

    v = ngx_http_agentstream_json_get(json, json->root, "toolCallId");
    id = ngx_http_agentstream_json_raw(json, v);

    if (record->origin.len) {
        p = ngx_http_agentstream_aisdk_origin(s, p, &record->origin);
    }

    tool = ngx_http_agentstream_aisdk_tool_find(s, record->part);

    if (tool == NULL) {
        tool = ngx_http_agentstream_aisdk_tool_create(s, record->part, &id);
        if (tool == NULL) {
            return p;
        }

        p = ngx_http_agentstream_aisdk_end_text(s, p);
        p = ngx_http_agentstream_aisdk_step(s, p);

        tool->step = s->nsteps;
        name = ngx_http_agentstream_aisdk_tool_name(json);

        p = ngx_sprintf(p, "data: {\"type\":\"tool-input-start\","
                        "\"toolCallId\":%V,\"toolName\":%V,\"dynamic\":true,"
                        "\"providerExecuted\":true}\n\n", &id, &name);
    }

    v = ngx_http_agentstream_json_get(json, json->root, "status");

    if (ngx_http_agentstream_json_is(json, v, "pending")) {
        return p;
    }

    /* OpenCode asks before it tells the input of a call, which follows at
       once */

    if ((!tool->input
         || (tool->guessed
             && !ngx_http_agentstream_aisdk_asks(s, record->part)))
        && tool->step == s->nsteps)
    {
        tool->guessed = 0;
        name = ngx_http_agentstream_aisdk_tool_name(json);

        v = ngx_http_agentstream_json_get(json, json->root, "title");
        title = ngx_http_agentstream_json_raw(json, v);

        p = ngx_http_agentstream_aisdk_input(p, &id, &name, &title, "true",
                                             NULL);

        v = ngx_http_agentstream_json_get(json, json->root, "rawInput");
        title = ngx_http_agentstream_json_raw(json, v);

        p = ngx_http_agentstream_record_slice(p, record, &title);
        p = ngx_http_agentstream_aisdk_cpy(p, "}\n\n");
    }

    tool->input = 1;

    return ngx_http_agentstream_aisdk_tool_state(s, p, tool, &id, record, json);
}


/* up to the input itself; question: the id of a question that the client has to
   answer, or NULL */

u_char *
ngx_http_agentstream_aisdk_input(u_char *p, ngx_str_t *id, ngx_str_t *name,
    ngx_str_t *title, const char *executed, ngx_str_t *question)
{
    p = ngx_sprintf(p, "data: {\"type\":\"tool-input-available\","
                    "\"toolCallId\":%V,\"toolName\":%V,\"dynamic\":true,"
                    "\"providerExecuted\":%s", id, name, executed);

    if (title) {
        p = ngx_sprintf(p, ",\"title\":%V", title);
    }

    if (question) {
        p = ngx_sprintf(p, ",\"providerMetadata\":{\"agentstream\":"
                        "{\"questionId\":%V}}", question);
    }

    return ngx_http_agentstream_aisdk_cpy(p, ",\"input\":");
}


ngx_http_agentstream_aisdk_tool_t *
ngx_http_agentstream_aisdk_tool_find(ngx_http_agentstream_aisdk_state_t *s,
    ngx_uint_t part)
{
    ngx_uint_t                          i;
    ngx_http_agentstream_aisdk_tool_t  *tools;

    tools = s->tools.elts;

    for (i = 0; i < s->tools.nelts; i++) {
        if (tools[i].part == part) {
            return &tools[i];
        }
    }

    return NULL;
}


static ngx_http_agentstream_aisdk_tool_t *
ngx_http_agentstream_aisdk_tool_create(ngx_http_agentstream_aisdk_state_t *s,
    ngx_uint_t part, ngx_str_t *id)
{
    ngx_http_agentstream_aisdk_tool_t  *tool;

    tool = ngx_http_agentstream_aisdk_push(s, &s->tools,
                                   sizeof(ngx_http_agentstream_aisdk_tool_t));
    if (tool) {
        tool->part = part;
        ngx_http_agentstream_json_hash_init(&tool->id);
        ngx_http_agentstream_json_hash(&tool->id, id);
    }

    return tool;
}


/* calls that have ended are forgotten, so that a long turn does not grow */

static void
ngx_http_agentstream_aisdk_tool_remove(ngx_http_agentstream_aisdk_state_t *s,
    ngx_http_agentstream_aisdk_tool_t *tool)
{
    ngx_http_agentstream_aisdk_tool_t  *tools;

    tools = s->tools.elts;
    *tool = tools[--s->tools.nelts];
}


void *
ngx_http_agentstream_aisdk_push(ngx_http_agentstream_aisdk_state_t *s,
    ngx_array_t *array, size_t size)
{
    void  *element;

    element = NULL;

    if (array->elts
        || ngx_array_init(array, s->state.pool, 4, size) == NGX_OK)
    {
        element = ngx_array_push(array);
    }

    if (element == NULL) {
        s->state.failed = 1;
        return NULL;
    }

    ngx_memzero(element, size);

    return element;
}


static ngx_str_t
ngx_http_agentstream_aisdk_tool_name(ngx_http_agentstream_json_t *json)
{
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, json->root, "_meta");
    v = ngx_http_agentstream_json_get(json, v, "toolName");

    if (v == 0) {
        /* "agentstream_packets core" */
        v = ngx_http_agentstream_json_get(json, json->root, "title");
    }

    return ngx_http_agentstream_json_raw(json, v);
}


static u_char *
ngx_http_agentstream_aisdk_tool_state(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_aisdk_tool_t *tool, ngx_str_t *id,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json)
{
    ngx_str_t   output;
    ngx_uint_t  v, status;

    status = ngx_http_agentstream_json_get(json, json->root, "status");

    if (ngx_http_agentstream_json_is(json, status, "completed")) {
        v = ngx_http_agentstream_json_get(json, json->root, "rawOutput");
        output = ngx_http_agentstream_json_raw(json, v);

        p = ngx_http_agentstream_aisdk_tool_output(p, id, record, &output, 0);
        p = ngx_http_agentstream_aisdk_tool_files(p, record, json);

    } else if (ngx_http_agentstream_json_is(json, status, "failed")) {

        if (tool->denied) {
            p = ngx_sprintf(p, "data: {\"type\":\"tool-output-denied\","
                            "\"toolCallId\":%V}\n\n", id);

        } else {
            p = ngx_http_agentstream_aisdk_tool_failed(p, id, record, json);
        }

    } else {
        output = ngx_http_agentstream_aisdk_tool_text(json);

        return output.len
               ? ngx_http_agentstream_aisdk_tool_output(p, id, record, &output,
                                                        1)
               : p;
    }

    ngx_http_agentstream_aisdk_tool_remove(s, tool);

    return p;
}


static u_char *
ngx_http_agentstream_aisdk_tool_output(u_char *p, ngx_str_t *id,
    ngx_http_agentstream_record_t *record, ngx_str_t *output,
    ngx_uint_t preliminary)
{
    p = ngx_sprintf(p, "data: {\"type\":\"tool-output-available\","
                    "\"toolCallId\":%V,\"dynamic\":true,"
                    "\"providerExecuted\":true,\"output\":%s", id,
                    preliminary ? "{\"output\":" : "");

    p = ngx_http_agentstream_record_slice(p, record, output);

    return ngx_sprintf(p, "%s}\n\n", preliminary ? "},\"preliminary\":true"
                                                 : "");
}


static u_char *
ngx_http_agentstream_aisdk_tool_failed(u_char *p, ngx_str_t *id,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json)
{
    ngx_str_t   error;
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, json->root, "rawOutput");
    v = ngx_http_agentstream_json_get(json, v, "error");

    p = ngx_sprintf(p, "data: {\"type\":\"tool-output-error\","
                    "\"toolCallId\":%V,\"dynamic\":true,"
                    "\"providerExecuted\":true,\"errorText\":", id);

    if (ngx_http_agentstream_json_type(json, v)
        == NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        error = ngx_http_agentstream_json_raw(json, v);
        p = ngx_http_agentstream_record_slice(p, record, &error);

    } else {
        p = ngx_http_agentstream_aisdk_cpy(p, "\"The tool failed\"");
    }

    return ngx_http_agentstream_aisdk_cpy(p, "}\n\n");
}


/* the output so far */

static ngx_str_t
ngx_http_agentstream_aisdk_tool_text(ngx_http_agentstream_json_t *json)
{
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, json->root, "content");
    v = ngx_http_agentstream_json_first(json, v);
    v = ngx_http_agentstream_json_get(json, v, "content");
    v = ngx_http_agentstream_json_get(json, v, "text");

    return ngx_http_agentstream_json_raw(json, v);
}


/* images become files of the message */

static u_char *
ngx_http_agentstream_aisdk_tool_files(u_char *p,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json)
{
    ngx_str_t   data, type;
    ngx_uint_t  v, content, block;

    content = ngx_http_agentstream_json_get(json, json->root, "content");

    if (ngx_http_agentstream_json_type(json, content)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return p;
    }

    for (v = ngx_http_agentstream_json_first(json, content);
         v;
         v = ngx_http_agentstream_json_next(json, content, v))
    {
        block = ngx_http_agentstream_json_get(json, v, "content");

        if (!ngx_http_agentstream_json_is(json,
                ngx_http_agentstream_json_get(json, block, "type"), "image"))
        {
            continue;
        }

        data = ngx_http_agentstream_json_string(json,
                        ngx_http_agentstream_json_get(json, block, "data"));
        type = ngx_http_agentstream_json_string(json,
                    ngx_http_agentstream_json_get(json, block, "mimeType"));

        p = ngx_sprintf(p, "data: {\"type\":\"file\",\"mediaType\":\"%V\","
                        "\"url\":\"data:%V;base64,", &type, &type);
        p = ngx_http_agentstream_record_slice(p, record, &data);
        p = ngx_http_agentstream_aisdk_cpy(p, "\"}\n\n");
    }

    return p;
}
