
/*
 * Copyright (C) agentstream contributors
 *
 * What a translator must know to continue a turn that another one began: it is
 * read from the packets that were committed, and from nothing else.  Deltas of
 * a restored part are not trusted, because some may be lost; its final
 * snapshot completes it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


/* a member of the packet itself */
#define ngx_http_agentstream_translate_restore_text(json, name)               \
    ngx_http_agentstream_json_string(json,                                    \
                        ngx_http_agentstream_json_get(json, json->root, name))


static ngx_int_t ngx_http_agentstream_translate_restore_packet(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);
static ngx_int_t ngx_http_agentstream_translate_restore_content(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);
static ngx_int_t ngx_http_agentstream_translate_restore_origin(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *origin,
    ngx_http_agentstream_tr_session_t **s,
    ngx_http_agentstream_tr_message_t **m, ngx_str_t *part, ngx_str_t *tool);
static ngx_http_agentstream_tr_part_t *
    ngx_http_agentstream_translate_restore_part(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t number,
    ngx_str_t *origin);
static ngx_int_t ngx_http_agentstream_translate_restore_tool(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);
static void ngx_http_agentstream_translate_restore_discard(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json);
static ngx_int_t ngx_http_agentstream_translate_restore_ask(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_uint_t permission, ngx_uint_t waits);


ngx_int_t
ngx_http_agentstream_translate_restore(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record)
{
    ngx_int_t                    rc;
    ngx_http_agentstream_json_t  json;

    tr->state.started = 1;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    /* without the shared text, which is not needed here */

    rc = ngx_http_agentstream_json_parse(&json, record->json.data,
                                         record->json.len);

    if (rc == NGX_OK) {
        tr->restoring = 1;
        rc = ngx_http_agentstream_translate_restore_packet(tr, record, &json);
        tr->restoring = 0;
    }

    ngx_http_agentstream_json_destroy(&json);

    return (rc == NGX_OK) ? NGX_OK : NGX_ERROR;
}


ngx_str_t
ngx_http_agentstream_translate_stop_reason(
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json)
{
    ngx_str_t  reason;

    ngx_str_null(&reason);

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE) {
        return ngx_http_agentstream_translate_restore_text(json, "stopReason");
    }

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_ERROR) {
        ngx_str_set(&reason, "error");
    }

    return reason;
}


static ngx_int_t
ngx_http_agentstream_translate_restore_packet(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json)
{
    ngx_str_t                           id, text;
    ngx_http_agentstream_tr_message_t  *m;
    ngx_http_agentstream_tr_session_t  *s;

    if (record->part) {
        return ngx_http_agentstream_translate_restore_content(tr, record, json);
    }

    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE:
    case NGX_HTTP_AGENTSTREAM_RECORD_ERROR:

        /* the turn has ended; only remember how */

        text = ngx_http_agentstream_translate_stop_reason(record, json);

        tr->state.stop_reason.data = ngx_pstrdup(tr->pool, &text);
        if (tr->state.stop_reason.data == NULL) {
            return NGX_ERROR;
        }

        tr->state.stop_reason.len = text.len;
        tr->finished = 1;

        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED:
        ngx_http_agentstream_translate_restore_discard(tr, json);
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE:
        if (ngx_http_agentstream_translate_restore_origin(tr, &record->origin,
                                                          &s, &m, &id, &text)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        return ngx_http_agentstream_translate_message_usage(tr, m, json,
                                                            json->root);

    case NGX_HTTP_AGENTSTREAM_RECORD_SUBAGENT_STARTED:
        id = ngx_http_agentstream_translate_restore_text(json,
                                                       "subagent_session_id");
        text = ngx_http_agentstream_translate_restore_text(json,
                                                         "parent_session_id");
        tr->state.user_seen = 1;

        return ngx_http_agentstream_translate_session_child(tr, &id, &text);

    case NGX_HTTP_AGENTSTREAM_RECORD_QUESTION:
    case NGX_HTTP_AGENTSTREAM_RECORD_QUESTION_RESOLVED:
        return ngx_http_agentstream_translate_restore_ask(tr, json, 0,
                    record->type == NGX_HTTP_AGENTSTREAM_RECORD_QUESTION);

    case NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION:
    case NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION_RESOLVED:
        return ngx_http_agentstream_translate_restore_ask(tr, json, 1,
                    record->type == NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION);

    default:
        return NGX_OK;
    }
}


/* a packet of a text, a thought or a tool */

static ngx_int_t
ngx_http_agentstream_translate_restore_content(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json)
{
    ngx_str_t                        text;
    ngx_uint_t                       v;
    ngx_http_agentstream_tr_part_t  *part;

    part = ngx_http_agentstream_translate_restore_part(tr, record->part,
                                                       &record->origin);

    if (part == NULL) {
        return NGX_ERROR;
    }

    tr->state.user_seen = 1;

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START
        || record->type == NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS)
    {
        return ngx_http_agentstream_translate_restore_tool(tr, part, record,
                                                           json);
    }

    v = ngx_http_agentstream_json_get(json, json->root, "content");
    v = ngx_http_agentstream_json_get(json, v, "text");
    text = ngx_http_agentstream_json_string(json, v);

    part->number = record->part;
    part->gap = 1;
    ngx_http_agentstream_json_hash(&part->sent, &text);

    return ngx_http_agentstream_translate_text_run(tr, part, record->seq);
}


/* in the form that ngx_http_agentstream_translate_mark() writes */

static ngx_int_t
ngx_http_agentstream_translate_restore_origin(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *origin,
    ngx_http_agentstream_tr_session_t **s,
    ngx_http_agentstream_tr_message_t **m, ngx_str_t *part, ngx_str_t *tool)
{
    u_char      *p, *last, *end;
    ngx_str_t    ids[4];
    ngx_uint_t   i;

    p = origin->data;
    last = p + origin->len;

    for (i = 0; i < 4; i++) {
        end = (i < 3) ? ngx_strlchr(p, last, ' ') : last;

        if (end == NULL) {
            return NGX_ERROR;
        }

        ids[i].data = p;
        ids[i].len = end - p;

        p = end + 1;
    }

    *part = ids[2];
    *tool = ids[3];

    *s = ngx_http_agentstream_translate_session_find(tr, &ids[0]);
    if (*s == NULL) {
        return NGX_ERROR;
    }

    *m = ngx_http_agentstream_translate_message_get(tr, *s, &ids[1]);
    if (*m == NULL) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_translate_keep_message(tr, *m);

    return NGX_OK;
}


static ngx_http_agentstream_tr_part_t *
ngx_http_agentstream_translate_restore_part(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t number,
    ngx_str_t *origin)
{
    ngx_str_t                            id, tool;
    ngx_http_agentstream_tr_part_t     **element, *part;
    ngx_http_agentstream_tr_message_t   *m;
    ngx_http_agentstream_tr_session_t   *s;

    if (tr->restored == NULL) {
        tr->restored = ngx_array_create(tr->pool, 16,
                                  sizeof(ngx_http_agentstream_tr_part_t *));
        if (tr->restored == NULL) {
            return NULL;
        }
    }

    /* parts are numbered from 1 in the order of their first packets */

    if (number <= tr->restored->nelts) {
        element = tr->restored->elts;
        return element[number - 1];
    }

    if (number != tr->restored->nelts + 1
        || ngx_http_agentstream_translate_restore_origin(tr, origin, &s, &m,
                                                         &id, &tool)
           != NGX_OK)
    {
        return NULL;
    }

    part = ngx_http_agentstream_translate_part_get(tr, m, &id);
    element = ngx_array_push(tr->restored);

    if (part == NULL || element == NULL) {
        return NULL;
    }

    *element = part;

    ngx_http_agentstream_translate_keep_part(tr, part);

    if (tool.len && part->tool == NULL) {
        /* the function below takes the next number by itself */

        tr->number = number - 1;
        part->tool = ngx_http_agentstream_translate_tool_create(tr, s, &tool);

        if (part->tool == NULL) {
            return NULL;
        }
    }

    tr->number = number;

    return part;
}


static ngx_int_t
ngx_http_agentstream_translate_restore_tool(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json)
{
    ngx_uint_t                       v;
    ngx_http_agentstream_tr_tool_t  *tool;

    tool = part->tool;

    if (tool == NULL) {
        return NGX_ERROR;
    }

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START) {
        return NGX_OK;
    }

    v = ngx_http_agentstream_json_get(json, json->root, "status");

    if (ngx_http_agentstream_json_is(json, v, "completed")) {
        tool->status = NGX_HTTP_AGENTSTREAM_ACP_COMPLETED;

    } else if (ngx_http_agentstream_json_is(json, v, "failed")) {
        tool->status = NGX_HTTP_AGENTSTREAM_ACP_FAILED;

    } else if (ngx_http_agentstream_json_is(json, v, "in_progress")) {
        tool->status = NGX_HTTP_AGENTSTREAM_ACP_IN_PROGRESS;
    }

    tool->digest = ngx_http_agentstream_translate_tool_digest(record);
    tool->len = record->json.len + record->text.len;

    if (tool->status >= NGX_HTTP_AGENTSTREAM_ACP_COMPLETED) {
        ngx_http_agentstream_translate_tool_close(tr, tool);
    }

    return NGX_OK;
}


static void
ngx_http_agentstream_translate_restore_discard(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json)
{
    int64_t                           from, to;
    ngx_str_t                         id;
    ngx_uint_t                        i, n;
    ngx_http_agentstream_tr_run_t   **run;
    ngx_http_agentstream_tr_part_t  **parts, *part;

    id = ngx_http_agentstream_translate_restore_text(json, "messageId");

    from = ngx_http_agentstream_json_integer(json,
             ngx_http_agentstream_json_get(json, json->root, "from"), 0);
    to = ngx_http_agentstream_json_integer(json,
             ngx_http_agentstream_json_get(json, json->root, "to"), 0);

    parts = tr->restored ? tr->restored->elts : NULL;
    n = tr->restored ? tr->restored->nelts : 0;

    for (i = 0; i < n; i++) {
        part = parts[i];

        if (!ngx_http_agentstream_tr_eq(&part->message->sn.str, &id)) {
            continue;
        }

        /* a part is discarded as a whole, run by run */

        for (run = &part->runs; *run; /* void */) {

            if ((int64_t) (*run)->from >= from && (int64_t) (*run)->to <= to) {
                ngx_http_agentstream_json_hash_init(&part->sent);
                *run = (*run)->next;
                continue;
            }

            run = &(*run)->next;
        }
    }
}


static ngx_int_t
ngx_http_agentstream_translate_restore_ask(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_uint_t permission, ngx_uint_t waits)
{
    ngx_str_t                           text, asks, session;
    ngx_uint_t                          v;
    ngx_http_agentstream_tr_ask_t      *ask;
    ngx_http_agentstream_tr_tool_t     *tool;
    ngx_http_agentstream_tr_session_t  *s;

    text = ngx_http_agentstream_translate_restore_text(json,
                                  permission ? "permissionId" : "questionId");

    ask = ngx_http_agentstream_translate_ask_find(tr, &text);

    if (!waits) {

        if (ask && ask->waits) {
            ngx_http_agentstream_translate_ask_answered(tr, ask);
        }

        return NGX_OK;
    }

    if (ask) {
        return NGX_OK;
    }

    v = ngx_http_agentstream_json_get(json, json->root, "_meta");
    session = ngx_http_agentstream_opencode_text(json, v, "sessionId");

    s = session.len ? ngx_http_agentstream_translate_session_find(tr, &session)
                    : &tr->root;

    if (s == NULL) {
        return NGX_ERROR;
    }

    /* the tool call that asks, found by the id that clients know */

    if (permission) {
        v = ngx_http_agentstream_json_get(json, json->root, "toolCall");
        asks = ngx_http_agentstream_opencode_text(json, v, "toolCallId");

    } else {
        asks = ngx_http_agentstream_translate_restore_text(json, "toolCallId");
    }

    tool = ngx_http_agentstream_translate_tool_named(tr, &asks);

    if (tool && tool->session != s) {
        tool = NULL;
    }

    ask = ngx_http_agentstream_translate_ask_create(tr, s, tool, &text,
                                                    permission);
    if (ask == NULL) {
        return NGX_ERROR;
    }

    tr->sink->waiting(tr->ctx, &ask->sn.str, permission, 1);

    return NGX_OK;
}
