
/*
 * Copyright (C) agentstream contributors
 *
 * What the agent asks and plans: questions, permission requests, and its list
 * of things to do.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


static void ngx_http_agentstream_translate_ask_question(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask,
    ngx_http_agentstream_json_t *json, ngx_uint_t properties,
    ngx_str_t *tool_id);
static void ngx_http_agentstream_translate_ask_permission(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask,
    ngx_http_agentstream_json_t *json, ngx_uint_t properties,
    ngx_str_t *tool_id);
static void ngx_http_agentstream_translate_ask_raw(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_json_t *json,
    ngx_uint_t object, const char *key, const char *name);
static ngx_int_t ngx_http_agentstream_translate_ask_unheard(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask);
static ngx_int_t ngx_http_agentstream_translate_ask_resolve(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask,
    ngx_str_t *how, ngx_str_t *answers);
static void ngx_http_agentstream_translate_ask_entry(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_json_t *json,
    ngx_uint_t todo);


ngx_http_agentstream_tr_ask_t *
ngx_http_agentstream_translate_ask_create(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_http_agentstream_tr_tool_t *tool,
    ngx_str_t *id, ngx_uint_t permission)
{
    ngx_http_agentstream_tr_ask_t  *ask;

    ask = ngx_http_agentstream_translate_alloc(tr,
                                       sizeof(ngx_http_agentstream_tr_ask_t));
    if (ask == NULL) {
        return NULL;
    }

    if (ngx_http_agentstream_translate_copy(tr, &ask->sn.str, id) != NGX_OK) {
        return NULL;
    }

    ask->sn.node.key = ngx_murmur_hash2(id->data, id->len);
    ask->session = s;
    ask->mark = tr->asked;
    ask->permission = permission;
    ask->waits = 1;

    ngx_rbtree_insert(&tr->asks, &ask->sn.node);
    ngx_queue_insert_head(&tr->waiting, &ask->queue);

    if (tool) {
        ngx_queue_insert_head(&tool->asks, &ask->of_tool);

    } else {
        ngx_queue_init(&ask->of_tool);
    }

    return ask;
}


ngx_int_t
ngx_http_agentstream_translate_ask_add(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_http_agentstream_json_t *json,
    ngx_uint_t properties, ngx_uint_t permission)
{
    ngx_str_t                        id, tool_id;
    ngx_uint_t                       v;
    ngx_http_agentstream_tr_ask_t   *ask;
    ngx_http_agentstream_tr_tool_t  *tool;

    id = ngx_http_agentstream_opencode_text(json, properties, "id");

    /* a question with such an id could not be answered */

    if (!ngx_http_agentstream_opencode_id(&id)
        || ngx_http_agentstream_translate_ask_find(tr, &id) != NULL)
    {
        return NGX_OK;
    }

    v = ngx_http_agentstream_json_get(json, properties, "tool");
    tool_id = ngx_http_agentstream_opencode_text(json, v, "callID");

    tool = tool_id.len
           ? ngx_http_agentstream_translate_tool_find(tr, s, &tool_id) : NULL;

    if (tool) {
        tool_id = tool->id;
    }

    ask = ngx_http_agentstream_translate_ask_create(tr, s, tool, &id,
                                                    permission);
    if (ask == NULL) {
        return NGX_ERROR;
    }

    if (!tr->conf.core) {

        if (permission) {
            ngx_http_agentstream_translate_ask_permission(tr, ask, json,
                                                          properties, &tool_id);

        } else {
            ngx_http_agentstream_translate_ask_question(tr, ask, json,
                                                        properties, &tool_id);
        }

        ngx_http_agentstream_acp_close(&tr->work->buf, &s->meta);

        if (ngx_http_agentstream_translate_send(tr, 0) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    tr->sink->waiting(tr->ctx, &ask->sn.str, permission, 1);

    return NGX_OK;
}


static void
ngx_http_agentstream_translate_ask_question(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask,
    ngx_http_agentstream_json_t *json, ngx_uint_t properties,
    ngx_str_t *tool_id)
{
    ngx_http_agentstream_acp_buf_t  *b;

    b = &tr->work->buf;

    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_QUESTION,
                                  tr->timestamp);
    ngx_http_agentstream_acp_member_text(b, ",\"questionId\":", &ask->sn.str);
    ngx_http_agentstream_translate_ask_raw(b, json, properties,
                                           ",\"questions\":", "questions");

    if (tool_id->len) {
        ngx_http_agentstream_acp_member_text(b, ",\"toolCallId\":", tool_id);

    } else {
        ngx_http_agentstream_acp_literal(b, ",\"toolCallId\":null");
    }
}


static void
ngx_http_agentstream_translate_ask_permission(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask,
    ngx_http_agentstream_json_t *json, ngx_uint_t properties,
    ngx_str_t *tool_id)
{
    ngx_uint_t                        v;
    ngx_http_agentstream_acp_buf_t   *b;
    ngx_http_agentstream_acp_tool_t   tool;

    tool.id = tool_id->len ? *tool_id : ask->sn.str;
    tool.title = ngx_http_agentstream_opencode_text(json, properties,
                                                    "permission");
    tool.kind = ngx_http_agentstream_translate_tool_state_kind(tr, &tool.title);
    tool.status = NGX_HTTP_AGENTSTREAM_ACP_PENDING;

    v = ngx_http_agentstream_json_get(json, properties, "metadata");

    if (v) {
        tool.input = ngx_http_agentstream_json_raw(json, v);

    } else {
        ngx_str_set(&tool.input, "{}");
    }

    b = &tr->work->buf;

    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION,
                                  tr->timestamp);
    ngx_http_agentstream_acp_member_text(b, ",\"permissionId\":", &ask->sn.str);
    ngx_http_agentstream_acp_member_text(b, ",\"permission\":", &tool.title);
    ngx_http_agentstream_translate_ask_raw(b, json, properties,
                                           ",\"patterns\":", "patterns");
    ngx_http_agentstream_acp_literal(b, ",\"toolCall\":");
    ngx_http_agentstream_acp_tool_call(b, &tool);
    ngx_http_agentstream_acp_options(b);
}


/* writes a member unchanged, or an empty list */

static void
ngx_http_agentstream_translate_ask_raw(ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_json_t *json, ngx_uint_t object, const char *key,
    const char *name)
{
    ngx_str_t   raw;
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, object, name);

    if (v) {
        raw = ngx_http_agentstream_json_raw(json, v);

    } else {
        ngx_str_set(&raw, "[]");
    }

    ngx_http_agentstream_acp_member(b, key, &raw);
}


ngx_int_t
ngx_http_agentstream_translate_ask_answer(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_http_agentstream_json_t *json,
    ngx_uint_t properties, ngx_uint_t permission, ngx_uint_t rejected)
{
    ngx_str_t                       id, how, answers;
    ngx_uint_t                      v;
    ngx_http_agentstream_tr_ask_t  *ask;

    id = ngx_http_agentstream_opencode_text(json, properties, "requestID");

    ask = ngx_http_agentstream_translate_ask_find(tr, &id);

    if (ask == NULL || ask->session != s || ask->permission != permission
        || !ask->waits)
    {
        return NGX_OK;
    }

    ngx_str_set(&answers, "null");

    if (permission) {
        how = ngx_http_agentstream_opencode_text(json, properties, "reply");

    } else if (rejected) {
        ngx_str_set(&how, "rejected");

    } else {
        ngx_str_set(&how, "answered");

        v = ngx_http_agentstream_json_get(json, properties, "answers");

        if (v) {
            answers = ngx_http_agentstream_json_raw(json, v);

        } else {
            ngx_str_set(&answers, "[]");
        }
    }

    return ngx_http_agentstream_translate_ask_resolve(tr, ask, &how, &answers);
}


/* it was answered, but the answer is not known */

static ngx_int_t
ngx_http_agentstream_translate_ask_unheard(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask)
{
    static ngx_str_t  unknown = ngx_string("unknown");
    static ngx_str_t  none = ngx_string("null");

    return ngx_http_agentstream_translate_ask_resolve(tr, ask, &unknown,
                                                      &none);
}


/* how: a question's outcome, or the reply to a permission request */

static ngx_int_t
ngx_http_agentstream_translate_ask_resolve(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask,
    ngx_str_t *how, ngx_str_t *answers)
{
    ngx_http_agentstream_acp_buf_t  *b;

    ngx_http_agentstream_translate_ask_answered(tr, ask);

    if (tr->conf.core) {
        return NGX_OK;
    }

    b = &tr->work->buf;

    if (ask->permission) {
        ngx_http_agentstream_acp_open(b,
                         NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION_RESOLVED,
                         tr->timestamp);
        ngx_http_agentstream_acp_member_text(b, ",\"permissionId\":",
                                             &ask->sn.str);
        ngx_http_agentstream_acp_member_text(b, ",\"reply\":", how);

    } else {
        ngx_http_agentstream_acp_open(b,
                         NGX_HTTP_AGENTSTREAM_RECORD_QUESTION_RESOLVED,
                         tr->timestamp);
        ngx_http_agentstream_acp_member_text(b, ",\"questionId\":",
                                             &ask->sn.str);
        ngx_http_agentstream_acp_member_text(b, ",\"outcome\":", how);
        ngx_http_agentstream_acp_member(b, ",\"answers\":", answers);
    }

    ngx_http_agentstream_acp_close(b, &ask->session->meta);

    return ngx_http_agentstream_translate_send(tr, 0);
}


void
ngx_http_agentstream_translate_asks_wanted(
    ngx_http_agentstream_translate_t *tr)
{
    tr->asked++;
}


ngx_int_t
ngx_http_agentstream_translate_asks(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_json_t *json, ngx_uint_t list, ngx_uint_t permission)
{
    ngx_str_t                           id;
    ngx_uint_t                          v;
    ngx_queue_t                        *q, *next;
    ngx_http_agentstream_tr_ask_t      *ask;
    ngx_http_agentstream_tr_session_t  *s;

    if (tr->finished || !tr->state.user_seen || tr->state.passed) {
        return NGX_OK;
    }

    for (v = ngx_http_agentstream_json_first(json, list);
         v;
         v = ngx_http_agentstream_json_next(json, list, v))
    {
        id = ngx_http_agentstream_opencode_text(json, v, "sessionID");
        s = ngx_http_agentstream_translate_session_find(tr, &id);

        if (s == NULL) {
            continue;
        }

        if (ngx_http_agentstream_translate_ask_add(tr, s, json, v, permission)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        id = ngx_http_agentstream_opencode_text(json, v, "id");
        ask = ngx_http_agentstream_translate_ask_find(tr, &id);

        if (ask) {
            ask->mark = tr->asked;
        }
    }

    for (q = ngx_queue_head(&tr->waiting);
         q != ngx_queue_sentinel(&tr->waiting);
         q = next)
    {
        next = ngx_queue_next(q);
        ask = ngx_queue_data(q, ngx_http_agentstream_tr_ask_t, queue);

        if (ask->permission == permission
            && ask->mark != tr->asked
            && ngx_http_agentstream_translate_ask_unheard(tr, ask) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_translate_asks_over(ngx_http_agentstream_translate_t *tr,
    ngx_uint_t cancelled)
{
    ngx_queue_t                    *q;
    ngx_http_agentstream_tr_ask_t  *ask;

    if (tr->finished || tr->aborted || tr->error.len || cancelled) {
        return NGX_OK;
    }

    while (!ngx_queue_empty(&tr->waiting)) {
        q = ngx_queue_head(&tr->waiting);
        ask = ngx_queue_data(q, ngx_http_agentstream_tr_ask_t, queue);

        if (ngx_http_agentstream_translate_ask_unheard(tr, ask) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_translate_ask_missed(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool, ngx_http_agentstream_tr_state_t *st)
{
    ngx_str_t                       how, answers;
    ngx_uint_t                      v;
    ngx_queue_t                    *q;
    ngx_http_agentstream_tr_ask_t  *ask;

    v = ngx_http_agentstream_json_get(st->json, st->state, "metadata");

    if (tr->aborted
        || ngx_http_agentstream_opencode_true(st->json, v, "interrupted"))
    {
        /* nobody has answered */
        return NGX_OK;
    }

    v = ngx_http_agentstream_json_get(st->json, v, "answers");

    while (!ngx_queue_empty(&tool->asks)) {
        q = ngx_queue_head(&tool->asks);
        ask = ngx_queue_data(q, ngx_http_agentstream_tr_ask_t, of_tool);

        ngx_str_set(&answers, "null");

        if (ask->permission) {
            ngx_str_set(&how, "unknown");

        } else if (st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_FAILED) {
            ngx_str_set(&how, "rejected");

        } else {
            ngx_str_set(&how, "answered");

            if (v) {
                answers = ngx_http_agentstream_json_raw(st->json, v);
            }
        }

        if (ngx_http_agentstream_translate_ask_resolve(tr, ask, &how, &answers)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_http_agentstream_tr_ask_t *
ngx_http_agentstream_translate_ask_find(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *id)
{
    return (ngx_http_agentstream_tr_ask_t *)
               ngx_str_rbtree_lookup(&tr->asks, id,
                                     ngx_murmur_hash2(id->data, id->len));
}


void
ngx_http_agentstream_translate_ask_done(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool)
{
    ngx_queue_t                    *q;
    ngx_http_agentstream_tr_ask_t  *ask;

    while (!ngx_queue_empty(&tool->asks)) {
        q = ngx_queue_head(&tool->asks);
        ask = ngx_queue_data(q, ngx_http_agentstream_tr_ask_t, of_tool);

        ngx_http_agentstream_translate_ask_answered(tr, ask);
    }
}


void
ngx_http_agentstream_translate_ask_answered(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_ask_t *ask)
{
    ask->waits = 0;

    ngx_queue_remove(&ask->queue);
    ngx_queue_remove(&ask->of_tool);

    tr->sink->waiting(tr->ctx, &ask->sn.str, ask->permission, 0);
}


ngx_int_t
ngx_http_agentstream_translate_ask_plan(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_http_agentstream_json_t *json,
    ngx_uint_t todos)
{
    ngx_uint_t                       v;
    ngx_http_agentstream_acp_buf_t  *b;

    if (tr->conf.core
        || ngx_http_agentstream_json_type(json, todos)
           != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return NGX_OK;
    }

    b = &tr->work->buf;

    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_PLAN,
                                  tr->timestamp);
    ngx_http_agentstream_acp_literal(b, ",\"sessionUpdate\":\"plan\","
                                        "\"entries\":[");

    for (v = ngx_http_agentstream_json_first(json, todos);
         v;
         v = ngx_http_agentstream_json_next(json, todos, v))
    {
        ngx_http_agentstream_translate_ask_entry(b, json, v);
    }

    ngx_http_agentstream_acp_literal(b, "]");
    ngx_http_agentstream_acp_close(b, &s->meta);

    return ngx_http_agentstream_translate_send(tr, 0);
}


/* ACP has neither "cancelled" nor values that OpenCode may add later */

static void
ngx_http_agentstream_translate_ask_entry(ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_json_t *json, ngx_uint_t todo)
{
    ngx_str_t   content, priority, status;
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, todo, "content");

    if (ngx_http_agentstream_json_type(json, v)
        != NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        return;
    }

    content = ngx_http_agentstream_json_string(json, v);

    v = ngx_http_agentstream_json_get(json, todo, "priority");

    if (ngx_http_agentstream_json_is(json, v, "high")) {
        ngx_str_set(&priority, "high");

    } else if (ngx_http_agentstream_json_is(json, v, "low")) {
        ngx_str_set(&priority, "low");

    } else {
        ngx_str_set(&priority, "medium");
    }

    v = ngx_http_agentstream_json_get(json, todo, "status");

    if (ngx_http_agentstream_json_is(json, v, "in_progress")) {
        ngx_str_set(&status, "in_progress");

    } else if (ngx_http_agentstream_json_is(json, v, "completed")
               || ngx_http_agentstream_json_is(json, v, "cancelled"))
    {
        ngx_str_set(&status, "completed");

    } else {
        ngx_str_set(&status, "pending");
    }

    if (b->len && b->start[b->len - 1] != '[') {
        ngx_http_agentstream_acp_literal(b, ",");
    }

    ngx_http_agentstream_acp_member_text(b, "{\"content\":", &content);
    ngx_http_agentstream_acp_member_text(b, ",\"priority\":", &priority);
    ngx_http_agentstream_acp_member_text(b, ",\"status\":", &status);
    ngx_http_agentstream_acp_literal(b, "}");
}
