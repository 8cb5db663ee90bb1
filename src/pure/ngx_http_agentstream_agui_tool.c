
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Tool calls and subagents as events of AG-UI.  Both are recognised by their
 * ids, because a turn that is told again has other numbers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_agui_int.h"


/* the bytes of the event that closes one of them */
#define NGX_HTTP_AGENTSTREAM_AGUI_CLOSE                                       \
    (192 + NGX_HTTP_AGENTSTREAM_AGUI_ID_MAX)


static ngx_http_agentstream_agui_call_t *ngx_http_agentstream_agui_call(
    ngx_http_agentstream_agui_state_t *st,
    ngx_http_agentstream_agui_doc_t *doc);
static u_char *ngx_http_agentstream_agui_call_open(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_agui_call_t *call);
static u_char *ngx_http_agentstream_agui_call_end(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_agui_call_t *call);
static u_char *ngx_http_agentstream_agui_call_args(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_agui_call_t *call, ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_agui_call_done(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_agui_call_t *call, ngx_http_agentstream_json_t *json,
    ngx_uint_t failed);
static ngx_http_agentstream_agui_subagent_t *
    ngx_http_agentstream_agui_subagent_find(
    ngx_http_agentstream_agui_state_t *st, ngx_str_t *id);
static u_char *ngx_http_agentstream_agui_subagent_begin(
    ngx_http_agentstream_agui_state_t *st, u_char *p, ngx_str_t *id,
    ngx_str_t *parent);
static u_char *ngx_http_agentstream_agui_subagent_end(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_agui_subagent_t *sub, ngx_uint_t suspended);


u_char *
ngx_http_agentstream_agui_tool(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_uint_t                         root, status, failed;
    ngx_http_agentstream_json_t       *json;
    ngx_http_agentstream_agui_doc_t    doc;
    ngx_http_agentstream_agui_call_t  *call;

    json = &doc.json;

    if (ngx_http_agentstream_agui_doc(st, record, &doc) != NGX_OK) {
        goto done;
    }

    call = ngx_http_agentstream_agui_call(st, &doc);

    if (call == NULL) {
        goto done;
    }

    root = json->root;
    status = ngx_http_agentstream_json_get(json, root, "status");
    failed = ngx_http_agentstream_json_is(json, status, "failed");

    if (!call->args) {
        p = ngx_http_agentstream_agui_call_open(st, p, call);

        if (!ngx_http_agentstream_json_is(json, status, "pending")) {
            p = ngx_http_agentstream_agui_call_args(st, p, call, json);
        }
    }

    if (failed || ngx_http_agentstream_json_is(json, status, "completed")) {

        if (!call->done) {
            p = ngx_http_agentstream_agui_call_done(st, p, call, json, failed);
        }

    } else if (ngx_http_agentstream_json_type(json,
                      ngx_http_agentstream_json_get(json, root, "content"))
               == NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        /* the output so far, for which AG-UI has no event */

        p = ngx_http_agentstream_agui_custom(p, record, &doc.subagent);
    }

done:

    ngx_http_agentstream_agui_doc_done(&doc);

    return p;
}


static ngx_http_agentstream_agui_call_t *
ngx_http_agentstream_agui_call(ngx_http_agentstream_agui_state_t *st,
    ngx_http_agentstream_agui_doc_t *doc)
{
    ngx_str_t                           id, name;
    ngx_uint_t                          i, meta;
    ngx_http_agentstream_json_t        *json;
    ngx_http_agentstream_agui_call_t  **calls, *call;

    json = &doc->json;
    id = ngx_http_agentstream_agui_id(json, json->root, "toolCallId");

    calls = st->calls ? st->calls->elts : NULL;

    for (i = calls ? st->calls->nelts : 0; i > 0; i--) {
        call = calls[i - 1];

        if (call->id.len == id.len
            && ngx_memcmp(call->id.data, id.data, id.len) == 0)
        {
            return call;
        }
    }

    call = ngx_http_agentstream_agui_push(st, &st->calls,
                                    sizeof(ngx_http_agentstream_agui_call_t));
    if (call == NULL) {
        return NULL;
    }

    meta = ngx_http_agentstream_json_get(json, json->root, "_meta");
    name = ngx_http_agentstream_agui_id(json, meta, "toolName");

    if (name.len == 0) {
        name = ngx_http_agentstream_agui_id(json, json->root, "title");
    }

    call->id = ngx_http_agentstream_agui_dup(st, &id);
    call->name = ngx_http_agentstream_agui_dup(st, &name);
    call->subagent = ngx_http_agentstream_agui_dup(st, &doc->subagent);

    return st->wire.failed ? NULL : call;
}


static u_char *
ngx_http_agentstream_agui_call_open(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_agui_call_t *call)
{
    if (call->open) {
        return p;
    }

    call->open = 1;
    st->wire.pending += NGX_HTTP_AGENTSTREAM_AGUI_CLOSE;

    p = ngx_http_agentstream_agui_text_close(st, p);
    p = ngx_http_agentstream_agui_step(st, p, &call->subagent);
    p = ngx_http_agentstream_agui_subagent_open(st, p, &call->subagent);

    p = ngx_http_agentstream_agui_cpy(p,
            "data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"");
    p = ngx_http_agentstream_agui_str(p, &call->id);
    p = ngx_http_agentstream_agui_cpy(p, "\",\"toolCallName\":\"");
    p = ngx_http_agentstream_agui_str(p, &call->name);
    *p++ = '"';
    p = ngx_http_agentstream_agui_tag(p, &call->subagent);

    return ngx_http_agentstream_agui_cpy(p, "}\n\n");
}


static u_char *
ngx_http_agentstream_agui_call_end(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_agui_call_t *call)
{
    call->open = 0;
    st->wire.pending -= NGX_HTTP_AGENTSTREAM_AGUI_CLOSE;

    p = ngx_http_agentstream_agui_cpy(p,
            "data: {\"type\":\"TOOL_CALL_END\",\"toolCallId\":\"");
    p = ngx_http_agentstream_agui_str(p, &call->id);

    return ngx_http_agentstream_agui_cpy(p, "\"}\n\n");
}


static u_char *
ngx_http_agentstream_agui_call_args(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_agui_call_t *call,
    ngx_http_agentstream_json_t *json)
{
    ngx_str_t  input;

    input = ngx_http_agentstream_json_raw(json,
                 ngx_http_agentstream_json_get(json, json->root, "rawInput"));

    call->args = 1;

    p = ngx_http_agentstream_agui_cpy(p,
            "data: {\"type\":\"TOOL_CALL_ARGS\",\"toolCallId\":\"");
    p = ngx_http_agentstream_agui_str(p, &call->id);
    p = ngx_http_agentstream_agui_cpy(p, "\",\"delta\":\"");
    p = ngx_http_agentstream_agui_quote(p, &input);
    p = ngx_http_agentstream_agui_cpy(p, "\"}\n\n");

    return ngx_http_agentstream_agui_call_end(st, p, call);
}


u_char *
ngx_http_agentstream_agui_quote(u_char *p, ngx_str_t *json)
{
    size_t  i;

    /* a packet is one line, so only these two have to be escaped */

    for (i = 0; i < json->len; i++) {

        if (json->data[i] == '"' || json->data[i] == '\\') {
            *p++ = '\\';
        }

        *p++ = (json->data[i] == '\t') ? ' ' : json->data[i];
    }

    return p;
}


static u_char *
ngx_http_agentstream_agui_call_done(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_agui_call_t *call,
    ngx_http_agentstream_json_t *json, ngx_uint_t failed)
{
    ngx_str_t                              id;
    ngx_uint_t                             output;
    ngx_http_agentstream_agui_subagent_t  *sub;

    call->done = 1;

    output = ngx_http_agentstream_json_get(json, json->root, "rawOutput");
    id = ngx_http_agentstream_agui_id(json,
                   ngx_http_agentstream_json_get(json, output, "metadata"),
                   "sessionId");
    sub = ngx_http_agentstream_agui_subagent_find(st, &id);

    if (sub && sub->open) {
        p = ngx_http_agentstream_agui_text_close(st, p);
        p = ngx_http_agentstream_agui_subagent_end(st, p, sub, 0);
    }

    p = ngx_http_agentstream_agui_cpy(p,
            "data: {\"type\":\"TOOL_CALL_RESULT\",\"messageId\":\"");
    p = ngx_http_agentstream_agui_str(p, &call->id);
    p = ngx_http_agentstream_agui_cpy(p, "-result\",\"toolCallId\":\"");
    p = ngx_http_agentstream_agui_str(p, &call->id);
    p = ngx_http_agentstream_agui_cpy(p, "\",\"role\":\"tool\"");
    p = ngx_http_agentstream_agui_tag(p, &call->subagent);
    p = ngx_http_agentstream_agui_result(p, json, failed);

    return ngx_http_agentstream_agui_cpy(p, "}\n\n");
}


u_char *
ngx_http_agentstream_agui_result(u_char *p, ngx_http_agentstream_json_t *json,
    ngx_uint_t failed)
{
    ngx_str_t   text;
    ngx_uint_t  output;

    output = ngx_http_agentstream_json_get(json, json->root, "rawOutput");
    text = ngx_http_agentstream_json_string(json,
                  ngx_http_agentstream_json_get(json, output,
                                                failed ? "error" : "output"));

    p = ngx_http_agentstream_agui_cpy(p, ",\"content\":\"");
    p = ngx_http_agentstream_agui_str(p, &text);

    return failed ? ngx_http_agentstream_agui_cpy(p,
                        "\",\"metadata\":{\"status\":\"failed\"}")
                  : ngx_http_agentstream_agui_cpy(p,
                        "\",\"metadata\":{\"status\":\"completed\"}");
}


u_char *
ngx_http_agentstream_agui_subagent(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_str_t                              id, parent;
    ngx_http_agentstream_agui_doc_t        doc;
    ngx_http_agentstream_agui_subagent_t  *sub;

    if (ngx_http_agentstream_agui_doc(st, record, &doc) == NGX_OK) {

        id = ngx_http_agentstream_agui_id(&doc.json, doc.json.root,
                                          "subagent_session_id");
        parent = ngx_http_agentstream_agui_id(&doc.json, doc.json.root,
                                              "parent_session_id");

        sub = ngx_http_agentstream_agui_subagent_find(st, &parent);

        if (sub == NULL || !sub->open) {
            parent.len = 0;
        }

        p = ngx_http_agentstream_agui_subagent_begin(st, p, &id, &parent);
    }

    ngx_http_agentstream_agui_doc_done(&doc);

    return p;
}


u_char *
ngx_http_agentstream_agui_subagent_open(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_str_t *id)
{
    ngx_str_t  none;

    if (id->len == 0) {
        return p;
    }

    ngx_str_null(&none);

    return ngx_http_agentstream_agui_subagent_begin(st, p, id, &none);
}


static ngx_http_agentstream_agui_subagent_t *
ngx_http_agentstream_agui_subagent_find(ngx_http_agentstream_agui_state_t *st,
    ngx_str_t *id)
{
    ngx_uint_t                              i;
    ngx_http_agentstream_agui_subagent_t  **subs;

    subs = st->subagents ? st->subagents->elts : NULL;

    for (i = 0; subs && i < st->subagents->nelts; i++) {
        if (subs[i]->id.len == id->len
            && ngx_memcmp(subs[i]->id.data, id->data, id->len) == 0)
        {
            return subs[i];
        }
    }

    return NULL;
}


/* a subagent that has finished stays so: its id cannot begin again */

static u_char *
ngx_http_agentstream_agui_subagent_begin(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_str_t *id, ngx_str_t *parent)
{
    ngx_http_agentstream_agui_subagent_t  *sub;

    sub = ngx_http_agentstream_agui_subagent_find(st, id);

    if (sub == NULL) {
        sub = ngx_http_agentstream_agui_push(st, &st->subagents,
                                sizeof(ngx_http_agentstream_agui_subagent_t));
        if (sub == NULL) {
            return p;
        }

        sub->id = ngx_http_agentstream_agui_dup(st, id);
    }

    if (sub->open || sub->done) {
        return p;
    }

    sub->open = 1;
    st->wire.pending += NGX_HTTP_AGENTSTREAM_AGUI_CLOSE;

    p = ngx_http_agentstream_agui_cpy(p,
            "data: {\"type\":\"SUBAGENT_STARTED\",\"name\":\"subagent\"");
    p = ngx_http_agentstream_agui_tag(p, &sub->id);

    if (parent->len) {
        p = ngx_http_agentstream_agui_cpy(p, ",\"parentSubagentRunId\":\"");
        p = ngx_http_agentstream_agui_str(p, parent);
        *p++ = '"';
    }

    return ngx_http_agentstream_agui_cpy(p, "}\n\n");
}


static u_char *
ngx_http_agentstream_agui_subagent_end(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_agui_subagent_t *sub, ngx_uint_t suspended)
{
    sub->open = 0;
    sub->done = !suspended;
    st->wire.pending -= NGX_HTTP_AGENTSTREAM_AGUI_CLOSE;

    p = ngx_http_agentstream_agui_cpy(p,
            "data: {\"type\":\"SUBAGENT_FINISHED\"");
    p = ngx_http_agentstream_agui_tag(p, &sub->id);

    return suspended ? ngx_http_agentstream_agui_cpy(p,
                           ",\"outcome\":{\"type\":\"suspended\"}}\n\n")
                     : ngx_http_agentstream_agui_cpy(p,
                           ",\"outcome\":{\"type\":\"success\"}}\n\n");
}


u_char *
ngx_http_agentstream_agui_tool_close(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_uint_t suspended)
{
    ngx_uint_t                              i;
    ngx_http_agentstream_agui_call_t      **calls;
    ngx_http_agentstream_agui_subagent_t  **subs;

    calls = st->calls ? st->calls->elts : NULL;

    for (i = 0; calls && i < st->calls->nelts; i++) {
        if (calls[i]->open) {
            p = ngx_http_agentstream_agui_call_end(st, p, calls[i]);
        }
    }

    subs = st->subagents ? st->subagents->elts : NULL;

    for (i = 0; subs && i < st->subagents->nelts; i++) {
        if (subs[i]->open) {
            p = ngx_http_agentstream_agui_subagent_end(st, p, subs[i],
                                                       suspended);
        }
    }

    return p;
}


void
ngx_http_agentstream_agui_tool_reopen(ngx_http_agentstream_agui_state_t *st)
{
    ngx_uint_t                              i;
    ngx_http_agentstream_agui_call_t      **calls;
    ngx_http_agentstream_agui_subagent_t  **subs;

    calls = st->calls ? st->calls->elts : NULL;

    for (i = 0; calls && i < st->calls->nelts; i++) {
        if (calls[i]->open) {
            calls[i]->open = 0;
            st->wire.pending -= NGX_HTTP_AGENTSTREAM_AGUI_CLOSE;
        }
    }

    subs = st->subagents ? st->subagents->elts : NULL;

    for (i = 0; subs && i < st->subagents->nelts; i++) {
        if (subs[i]->open) {
            subs[i]->open = 0;
            st->wire.pending -= NGX_HTTP_AGENTSTREAM_AGUI_CLOSE;
        }
    }
}
