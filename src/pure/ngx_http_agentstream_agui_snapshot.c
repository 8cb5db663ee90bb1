
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The records of a history as one MESSAGES_SNAPSHOT.  A turn that is still
 * running is not part of it, except its prompt: its events follow.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_agui_int.h"


typedef struct {
    ngx_http_agentstream_agui_state_t    agui;     /* must be first */
    unsigned                             reached:1;    /* the run's turn */
} ngx_http_agentstream_agui_snapshot_t;


static size_t ngx_http_agentstream_agui_snapshot_size(
    ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_snapshot_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record);
static void ngx_http_agentstream_agui_snapshot_turn(
    ngx_http_agentstream_agui_snapshot_t *sn,
    ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_agui_snapshot_begin(
    ngx_http_agentstream_wire_state_t *state, u_char *p);
static u_char *ngx_http_agentstream_agui_snapshot_text(u_char *p,
    ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_agui_doc_t *doc);
static u_char *ngx_http_agentstream_agui_snapshot_tool(u_char *p,
    ngx_http_agentstream_agui_doc_t *doc);
static u_char *ngx_http_agentstream_agui_snapshot_retry(u_char *p,
    ngx_uint_t msec);
static u_char *ngx_http_agentstream_agui_snapshot_forget(
    ngx_http_agentstream_agui_run_t *run, u_char *p, ngx_uint_t first);
static u_char *ngx_http_agentstream_agui_snapshot_end(
    ngx_http_agentstream_wire_state_t *state, u_char *p);


ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_agui_snapshot = {
    ngx_string("text/event-stream"),
    ngx_null_string,
    ngx_null_string,
    1,
    ngx_null_string,
    sizeof(ngx_http_agentstream_agui_snapshot_t),
    NGX_HTTP_AGENTSTREAM_AGUI_ROOM,
    ngx_http_agentstream_agui_snapshot_size,
    ngx_http_agentstream_agui_snapshot_record,
    ngx_http_agentstream_agui_error,
    ngx_http_agentstream_agui_snapshot_retry,
    ngx_http_agentstream_agui_snapshot_end
};


static size_t
ngx_http_agentstream_agui_snapshot_size(
    ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record)
{
    return NGX_HTTP_AGENTSTREAM_AGUI_ROOM + 3 * record->json.len
           + record->text.len;
}


static u_char *
ngx_http_agentstream_agui_snapshot_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_agui_doc_t        doc;
    ngx_http_agentstream_agui_snapshot_t  *sn;

    sn = (ngx_http_agentstream_agui_snapshot_t *) state;

    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED:
    case NGX_HTTP_AGENTSTREAM_RECORD_USER:
    case NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE:
    case NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT:
    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS:
        break;

    default:
        return p;
    }

    if (ngx_http_agentstream_agui_doc(&sn->agui, record, &doc) != NGX_OK) {
        goto done;
    }

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED) {
        ngx_http_agentstream_agui_snapshot_turn(sn, &doc.json);
        goto done;
    }

    if (sn->reached && record->type != NGX_HTTP_AGENTSTREAM_RECORD_USER) {
        goto done;
    }

    /* only a text belongs to a part; the user's pictures are left out */

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_USER && record->part == 0)
    {
        goto done;
    }

    if (state->begun) {
        *p++ = ',';

    } else {
        p = ngx_http_agentstream_agui_snapshot_begin(state, p);
    }

    p = (record->type == NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS)
        ? ngx_http_agentstream_agui_snapshot_tool(p, &doc)
        : ngx_http_agentstream_agui_snapshot_text(p, record, &doc);

done:

    ngx_http_agentstream_agui_doc_done(&doc);

    return p;
}


/* what follows the run's turn has begun since, and is not shown */

static void
ngx_http_agentstream_agui_snapshot_turn(
    ngx_http_agentstream_agui_snapshot_t *sn, ngx_http_agentstream_json_t *json)
{
    ngx_str_t                         id;
    ngx_http_agentstream_agui_run_t  *run;

    run = sn->agui.wire.request;
    id = ngx_http_agentstream_agui_id(json, json->root, "turnId");

    if (run->turn.len && id.len == run->turn.len
        && ngx_memcmp(id.data, run->turn.data, id.len) == 0)
    {
        sn->reached = 1;
    }
}


static u_char *
ngx_http_agentstream_agui_snapshot_begin(
    ngx_http_agentstream_wire_state_t *state, u_char *p)
{
    state->begun = 1;

    p = ngx_http_agentstream_agui_begin(state->request, p);

    return ngx_http_agentstream_agui_cpy(p,
                      "data: {\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":[");
}


static u_char *
ngx_http_agentstream_agui_snapshot_text(u_char *p,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_agui_doc_t *doc)
{
    ngx_str_t                     id, text;
    ngx_http_agentstream_json_t  *json;

    json = &doc->json;

    id = ngx_http_agentstream_agui_id(json, json->root, "messageId");
    text = ngx_http_agentstream_json_string(json,
               ngx_http_agentstream_json_get(json,
                   ngx_http_agentstream_json_get(json, json->root, "content"),
                   "text"));

    p = ngx_sprintf(p, "{\"id\":\"%V-%ui\",\"role\":\"%s\",\"content\":\"",
                    &id, record->part,
                    record->type == NGX_HTTP_AGENTSTREAM_RECORD_USER ? "user"
                    : record->type == NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE
                      ? "assistant" : "reasoning");
    p = ngx_http_agentstream_agui_str(p, &text);
    *p++ = '"';
    p = ngx_http_agentstream_agui_tag(p, &doc->subagent);
    *p++ = '}';

    return p;
}


static u_char *
ngx_http_agentstream_agui_snapshot_tool(u_char *p,
    ngx_http_agentstream_agui_doc_t *doc)
{
    ngx_str_t                     id, name, input;
    ngx_uint_t                    root, status, failed;
    ngx_http_agentstream_json_t  *json;

    json = &doc->json;
    root = json->root;

    id = ngx_http_agentstream_agui_id(json, root, "toolCallId");
    name = ngx_http_agentstream_agui_id(json,
                   ngx_http_agentstream_json_get(json, root, "_meta"),
                   "toolName");
    input = ngx_http_agentstream_json_raw(json,
                   ngx_http_agentstream_json_get(json, root, "rawInput"));
    status = ngx_http_agentstream_json_get(json, root, "status");
    failed = ngx_http_agentstream_json_is(json, status, "failed");

    p = ngx_sprintf(p, "{\"id\":\"%V\",\"role\":\"assistant\",\"toolCalls\":["
                       "{\"id\":\"%V\",\"type\":\"function\",\"function\":{"
                       "\"name\":\"%V\",\"arguments\":\"", &id, &id, &name);
    p = ngx_http_agentstream_agui_quote(p, &input);
    p = ngx_http_agentstream_agui_cpy(p, "\"}}]");
    p = ngx_http_agentstream_agui_tag(p, &doc->subagent);
    *p++ = '}';

    if (!failed && !ngx_http_agentstream_json_is(json, status, "completed")) {
        return p;
    }

    p = ngx_sprintf(p, ",{\"id\":\"%V-result\",\"role\":\"tool\","
                       "\"toolCallId\":\"%V\"", &id, &id);
    p = ngx_http_agentstream_agui_result(p, json, failed);
    p = ngx_http_agentstream_agui_tag(p, &doc->subagent);
    *p++ = '}';

    return p;
}


static u_char *
ngx_http_agentstream_agui_snapshot_retry(u_char *p, ngx_uint_t msec)
{
    return p;
}


/*
 * A client keeps its thoughts if a snapshot has none.  Those of the turn that
 * follows would be appended to what it has of them already, so the snapshot
 * ends with an empty one, which is discarded at once.
 */

static u_char *
ngx_http_agentstream_agui_snapshot_forget(
    ngx_http_agentstream_agui_run_t *run, u_char *p, ngx_uint_t first)
{
    return ngx_sprintf(p, "%s{\"id\":\"%V-none\",\"role\":\"reasoning\","
                          "\"content\":\"\"}]}\n\n"
                          "data: {\"type\":\"ACTIVITY_SNAPSHOT\","
                          "\"messageId\":\"%V-none\","
                          "\"activityType\":\"discarded\",\"content\":{},"
                          "\"replace\":true}\n\n", first ? "" : ",",
                       &run->turn, &run->turn);
}


/* what follows is the turn, or that there is none */

static u_char *
ngx_http_agentstream_agui_snapshot_end(
    ngx_http_agentstream_wire_state_t *state, u_char *p)
{
    ngx_uint_t                        first;
    ngx_http_agentstream_agui_run_t  *run;

    run = state->request;
    first = !state->begun;

    if (first) {
        p = ngx_http_agentstream_agui_snapshot_begin(state, p);
    }

    if (run->turn.len && run->thoughts) {
        return ngx_http_agentstream_agui_snapshot_forget(run, p, first);
    }

    p = ngx_http_agentstream_agui_cpy(p, "]}\n\n");

    if (run->turn.len) {
        return p;
    }

    p = ngx_http_agentstream_agui_cpy(p, "data: {\"type\":\"RUN_FINISHED\","
                                         "\"threadId\":\"");
    p = ngx_http_agentstream_agui_str(p, &run->thread);
    p = ngx_http_agentstream_agui_cpy(p, "\",\"runId\":\"");
    p = ngx_http_agentstream_agui_str(p, &run->run);

    return ngx_http_agentstream_agui_cpy(p,
                              "\",\"outcome\":{\"type\":\"success\"}}\n\n");
}
