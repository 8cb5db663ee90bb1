
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Questions and permission requests.  The client is shown them when the
 * response ends because of them, and not before: what was answered until then
 * needs no answer.  The library sends the answers only if everything in the
 * last step is answered or over.  So a request is shown at the tool call that
 * makes it if all open calls of the step are like that; otherwise all that is
 * asked becomes a step of its own, with calls of its own.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_aisdk_int.h"


static ngx_uint_t ngx_http_agentstream_aisdk_natural(
    ngx_http_agentstream_aisdk_state_t *s);
static ngx_uint_t ngx_http_agentstream_aisdk_arrange(
    ngx_http_agentstream_aisdk_state_t *s);
static u_char *ngx_http_agentstream_aisdk_show_ask(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_aisdk_ask_t *ask);
static u_char *ngx_http_agentstream_aisdk_show_permission(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_aisdk_ask_t *ask, ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_aisdk_show_question(u_char *p,
    ngx_http_agentstream_aisdk_ask_t *ask, ngx_http_agentstream_json_t *json);
static ngx_http_agentstream_json_hash_t ngx_http_agentstream_aisdk_hash(
    ngx_str_t *id);


/* what aisdk_show() can take for one of them, beside its packet */
#define NGX_HTTP_AGENTSTREAM_AISDK_SHOWN  768

#define ngx_http_agentstream_aisdk_pending(ask)                               \
    (NGX_HTTP_AGENTSTREAM_AISDK_SHOWN + 3 * (ask)->json.len)


void
ngx_http_agentstream_aisdk_asked(ngx_http_agentstream_aisdk_state_t *s,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json)
{
    ngx_str_t                           id, call;
    ngx_uint_t                          v, i, permission;
    ngx_http_agentstream_json_hash_t    hash;
    ngx_http_agentstream_aisdk_ask_t   *ask;
    ngx_http_agentstream_aisdk_tool_t  *tools;

    permission = (record->type == NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION);

    v = ngx_http_agentstream_json_get(json, json->root,
                                      permission ? "permissionId"
                                                 : "questionId");
    id = ngx_http_agentstream_json_string(json, v);

    v = permission ? ngx_http_agentstream_json_get(json, json->root,
                                                   "toolCall")
                   : json->root;
    v = ngx_http_agentstream_json_get(json, v, "toolCallId");
    call = ngx_http_agentstream_json_raw(json, v);
    hash = ngx_http_agentstream_aisdk_hash(&call);

    ask = ngx_http_agentstream_aisdk_push(s, &s->asks,
                                    sizeof(ngx_http_agentstream_aisdk_ask_t));
    if (ask == NULL) {
        return;
    }

    ask->id = ngx_http_agentstream_aisdk_hash(&id);
    ask->permission = permission;

    ask->json.len = record->json.len;
    ask->json.data = ngx_pstrdup(s->state.pool, &record->json);

    if (ask->json.data == NULL) {
        s->state.failed = 1;
        s->asks.nelts--;
        return;
    }

    tools = s->tools.elts;

    for (i = 0; i < s->tools.nelts; i++) {
        if (ngx_http_agentstream_aisdk_same(&tools[i].id, &hash)) {
            ask->part = tools[i].part;
        }
    }

    s->state.pending += ngx_http_agentstream_aisdk_pending(ask);
}


static ngx_http_agentstream_json_hash_t
ngx_http_agentstream_aisdk_hash(ngx_str_t *id)
{
    ngx_http_agentstream_json_hash_t  hash;

    ngx_http_agentstream_json_hash_init(&hash);
    ngx_http_agentstream_json_hash(&hash, id);

    return hash;
}


u_char *
ngx_http_agentstream_aisdk_resolved(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_json_t *json, ngx_uint_t permission)
{
    ngx_str_t                           id, outcome;
    ngx_uint_t                          v, i, shown, refused;
    ngx_http_agentstream_json_hash_t    hash;
    ngx_http_agentstream_aisdk_ask_t   *asks, ask;
    ngx_http_agentstream_aisdk_tool_t  *tool;

    v = ngx_http_agentstream_json_get(json, json->root,
                                      permission ? "permissionId"
                                                 : "questionId");
    id = ngx_http_agentstream_json_string(json, v);
    hash = ngx_http_agentstream_aisdk_hash(&id);
    id = ngx_http_agentstream_json_raw(json, v);

    v = ngx_http_agentstream_json_get(json, json->root,
                                      permission ? "reply" : "answers");
    outcome = ngx_http_agentstream_json_raw(json, v);
    refused = ngx_http_agentstream_json_is(json, v, "reject");

    asks = s->asks.elts;

    for (i = 0; i < s->asks.nelts; i++) {
        if (ngx_http_agentstream_aisdk_same(&asks[i].id, &hash)) {
            break;
        }
    }

    if (i == s->asks.nelts) {
        return p;
    }

    ask = asks[i];
    asks[i] = asks[--s->asks.nelts];

    if (!ask.shown) {
        s->state.pending -= ngx_http_agentstream_aisdk_pending(&ask);
        return p;
    }

    if (!ask.own) {
        tool = ngx_http_agentstream_aisdk_tool_find(s, ask.part);

        if (tool && refused) {
            tool->denied = 1;
        }

    } else if (refused) {
        p = ngx_sprintf(p, "data: {\"type\":\"tool-output-denied\","
                        "\"toolCallId\":%V}\n\n", &id);

    } else {
        p = ngx_sprintf(p, "data: {\"type\":\"tool-output-available\","
                        "\"toolCallId\":%V,\"dynamic\":true,"
                        "\"providerExecuted\":true,\"output\":{\"%s\":%V}}"
                        "\n\n", &id, permission ? "reply" : "answers",
                        &outcome);
    }

    for (i = 0, shown = 0; i < s->asks.nelts; i++) {
        shown += asks[i].shown;
    }

    if (shown == 0) {
        /* without a new step the library would send the answers again */

        p = ngx_http_agentstream_aisdk_end_step(s, p);
        p = ngx_http_agentstream_aisdk_step(s, p);
    }

    return p;
}


void
ngx_http_agentstream_aisdk_waits(ngx_http_agentstream_aisdk_state_t *s)
{
    ngx_uint_t                         i;
    ngx_http_agentstream_aisdk_ask_t  *asks;

    s->state.waits = 0;

    if (s->state.silent) {
        return;
    }

    asks = s->asks.elts;

    for (i = 0; i < s->asks.nelts; i++) {
        if (!asks[i].answered) {
            s->state.waits = 1;
        }
    }
}


ngx_uint_t
ngx_http_agentstream_aisdk_asks(ngx_http_agentstream_aisdk_state_t *s,
    ngx_uint_t part)
{
    ngx_uint_t                         i;
    ngx_http_agentstream_aisdk_ask_t  *asks;

    asks = s->asks.elts;

    for (i = 0; i < s->asks.nelts; i++) {
        if (asks[i].part == part && asks[i].shown && !asks[i].answered) {
            return 1;
        }
    }

    return 0;
}


/* whether all that is to be shown can be shown at the tool calls that ask, and
   all open calls of the step ask */

static ngx_uint_t
ngx_http_agentstream_aisdk_natural(ngx_http_agentstream_aisdk_state_t *s)
{
    ngx_uint_t                          i, n, calls;
    ngx_http_agentstream_aisdk_ask_t   *asks;
    ngx_http_agentstream_aisdk_tool_t  *tools, *tool;

    asks = s->asks.elts;
    tools = s->tools.elts;
    calls = 0;

    for (i = 0; i < s->tools.nelts; i++) {
        calls += (tools[i].step == s->nsteps);
    }

    for (i = 0, n = 0; i < s->asks.nelts; i++) {

        if (asks[i].shown) {
            continue;
        }

        tool = asks[i].part
               ? ngx_http_agentstream_aisdk_tool_find(s, asks[i].part) : NULL;

        if (tool == NULL || tool->step != s->nsteps) {
            return 0;
        }

        n++;
    }

    /* a call that asks twice makes this wrong, but harmless */

    return s->step && n == calls;
}


/* how everything that is asked looks when the response ends here; 1: it becomes
   a step of its own */

static ngx_uint_t
ngx_http_agentstream_aisdk_arrange(ngx_http_agentstream_aisdk_state_t *s)
{
    ngx_uint_t                         i, natural, fresh;
    ngx_http_agentstream_aisdk_ask_t  *asks;

    asks = s->asks.elts;
    natural = ngx_http_agentstream_aisdk_natural(s);
    fresh = 0;

    for (i = 0; i < s->asks.nelts; i++) {

        if (!asks[i].shown) {
            asks[i].own = !natural;
            fresh = 1;
        }
    }

    return fresh && !natural;
}


u_char *
ngx_http_agentstream_aisdk_show(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p)
{
    ngx_uint_t                         i;
    ngx_http_agentstream_aisdk_ask_t  *asks;

    asks = s->asks.elts;

    p = ngx_http_agentstream_aisdk_end_text(s, p);

    if (ngx_http_agentstream_aisdk_arrange(s)) {
        p = ngx_http_agentstream_aisdk_end_step(s, p);
    }

    for (i = 0; i < s->asks.nelts; i++) {

        if (!asks[i].shown) {
            p = ngx_http_agentstream_aisdk_step(s, p);
            p = ngx_http_agentstream_aisdk_show_ask(s, p, &asks[i]);
            asks[i].shown = 1;
        }
    }

    return p;
}


static u_char *
ngx_http_agentstream_aisdk_show_ask(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_aisdk_ask_t *ask)
{
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    /* it was valid before, so this fails only without memory, and then the
       client can still reload */

    if (ngx_http_agentstream_json_parse(&json, ask->json.data, ask->json.len)
        == NGX_OK)
    {
        p = ask->permission
            ? ngx_http_agentstream_aisdk_show_permission(s, p, ask, &json)
            : ngx_http_agentstream_aisdk_show_question(p, ask, &json);
    }

    ngx_http_agentstream_json_destroy(&json);

    return p;
}


static u_char *
ngx_http_agentstream_aisdk_show_permission(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_aisdk_ask_t *ask, ngx_http_agentstream_json_t *json)
{
    ngx_str_t                           id, call, name, title, input;
    ngx_uint_t                          v;
    ngx_http_agentstream_aisdk_tool_t  *tool;

    id = ngx_http_agentstream_json_raw(json,
             ngx_http_agentstream_json_get(json, json->root, "permissionId"));
    name = ngx_http_agentstream_json_raw(json,
               ngx_http_agentstream_json_get(json, json->root, "permission"));

    v = ngx_http_agentstream_json_get(json, json->root, "toolCall");

    call = ngx_http_agentstream_json_raw(json,
                       ngx_http_agentstream_json_get(json, v, "toolCallId"));
    title = ngx_http_agentstream_json_raw(json,
                            ngx_http_agentstream_json_get(json, v, "title"));
    input = ngx_http_agentstream_json_raw(json,
                         ngx_http_agentstream_json_get(json, v, "rawInput"));

    tool = ask->own ? NULL
                    : ngx_http_agentstream_aisdk_tool_find(s, ask->part);

    if (tool == NULL) {
        call = id;
    }

    if (tool == NULL || !tool->input) {
        p = ngx_http_agentstream_aisdk_input(p, &call, &name, &title, "true",
                                             NULL);
        p = ngx_cpymem(p, input.data, input.len);
        p = ngx_http_agentstream_aisdk_cpy(p, "}\n\n");
    }

    if (tool) {
        tool->input = 1;
    }

    return ngx_sprintf(p, "data: {\"type\":\"tool-approval-request\","
                       "\"approvalId\":%V,\"toolCallId\":%V}\n\n", &id, &call);
}


/* a question is a call of a tool that the client has */

static u_char *
ngx_http_agentstream_aisdk_show_question(u_char *p,
    ngx_http_agentstream_aisdk_ask_t *ask, ngx_http_agentstream_json_t *json)
{
    ngx_str_t  id, call, questions;

    static ngx_str_t  name = ngx_string("\"question\"");

    id = ngx_http_agentstream_json_raw(json,
               ngx_http_agentstream_json_get(json, json->root, "questionId"));
    call = ngx_http_agentstream_json_raw(json,
               ngx_http_agentstream_json_get(json, json->root, "toolCallId"));
    questions = ngx_http_agentstream_json_raw(json,
                ngx_http_agentstream_json_get(json, json->root, "questions"));

    if (ask->own) {
        call = id;
    }

    p = ngx_http_agentstream_aisdk_input(p, &call, &name, NULL, "false", &id);
    p = ngx_http_agentstream_aisdk_cpy(p, "{\"questions\":");
    p = ngx_cpymem(p, questions.data, questions.len);

    return ngx_http_agentstream_aisdk_cpy(p, "}}\n\n");
}


/*
 * The client has a response that ended with the record before, as aisdk_end()
 * has written it, and continues with another one.  If it has that one as well,
 * it had answered then.
 */

void
ngx_http_agentstream_aisdk_continue(ngx_http_agentstream_aisdk_state_t *s,
    ngx_uint_t earlier)
{
    ngx_str_t                          *id;
    ngx_uint_t                          i, n;
    ngx_http_agentstream_json_hash_t    hash;
    ngx_http_agentstream_aisdk_ask_t   *asks;
    ngx_http_agentstream_aisdk_chat_t  *chat;
    ngx_http_agentstream_aisdk_tool_t  *tool;

    s->nsteps += ngx_http_agentstream_aisdk_arrange(s);

    asks = s->asks.elts;
    id = s->state.answered ? s->state.answered->elts : NULL;

    for (i = 0; i < s->asks.nelts; i++) {
        asks[i].shown = 1;
        asks[i].answered = earlier;

        tool = ngx_http_agentstream_aisdk_tool_find(s, asks[i].part);

        if (tool && !tool->input && !asks[i].own) {
            tool->input = 1;
            tool->guessed = 1;
        }

        for (n = 0; id && n < s->state.answered->nelts; n++) {
            hash = ngx_http_agentstream_aisdk_hash(&id[n]);

            if (ngx_http_agentstream_aisdk_same(&asks[i].id, &hash)) {
                asks[i].answered = 1;
            }
        }
    }

    s->open = 0;
    s->started = 0;
    s->step = (s->asks.nelts != 0);

    chat = s->state.request;
    s->state.pending = chat ? ngx_http_agentstream_aisdk_ends(chat) : 0;
}
