
/*
 * Copyright (C) agentstream contributors
 */


/*
 * A turn as a UI message stream: one message of the assistant, whose id is the
 * turn's.  Each of OpenCode's messages is a step.  One text or thought is open
 * at a time; when another one comes between, the rest of it is a new one.  The
 * state depends on the records alone, so that a response that is continued by
 * another one goes on as if it had never ended.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_aisdk_int.h"


#define NGX_HTTP_AGENTSTREAM_AISDK_MEMBERS  4


/* a packet that the protocol has no chunk for: a data part with some of its
   members */

typedef struct {
    const char                          *name;
    const char                          *id;       /* a member, or a text in
                                                      quotes; NULL: none */
    const char                          *transient;    /* not kept in the
                                                          message */
    const char                          *members[
                                         NGX_HTTP_AGENTSTREAM_AISDK_MEMBERS];
} ngx_http_agentstream_aisdk_data_t;


static size_t ngx_http_agentstream_aisdk_size(
    ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_aisdk_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record);
static void ngx_http_agentstream_aisdk_pass(
    ngx_http_agentstream_aisdk_state_t *s, uint64_t seq);
static u_char *ngx_http_agentstream_aisdk_other(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_aisdk_text(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_aisdk_data(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json,
    ngx_http_agentstream_aisdk_data_t *data);
static u_char *ngx_http_agentstream_aisdk_reset(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_aisdk_finish(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_aisdk_failed(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_aisdk_retry(u_char *p, ngx_uint_t msec);
static u_char *ngx_http_agentstream_aisdk_end(
    ngx_http_agentstream_wire_state_t *state, u_char *p);
static u_char *ngx_http_agentstream_aisdk_paused(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p);
static size_t ngx_http_agentstream_aisdk_error_size(
    ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_aisdk_error_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_aisdk_error_text(u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_aisdk_error_end(
    ngx_http_agentstream_wire_state_t *state, u_char *p);


ngx_http_agentstream_wire_t  ngx_http_agentstream_aisdk_wire = {
    ngx_string("text/event-stream"),
    ngx_string("x-vercel-ai-ui-message-stream"),
    ngx_string("v1"),
    1,
    ngx_string(": keepalive\n\n"),
    sizeof(ngx_http_agentstream_aisdk_state_t),
    2 * NGX_HTTP_AGENTSTREAM_AISDK_CHUNK,
    ngx_http_agentstream_aisdk_size,
    ngx_http_agentstream_aisdk_record,
    ngx_http_agentstream_aisdk_error_text,
    ngx_http_agentstream_aisdk_retry,
    ngx_http_agentstream_aisdk_end
};


ngx_http_agentstream_wire_t  ngx_http_agentstream_aisdk_error = {
    ngx_string("text/plain; charset=utf-8"),
    ngx_null_string,
    ngx_null_string,
    0,
    ngx_null_string,
    sizeof(ngx_http_agentstream_wire_state_t),
    0,
    ngx_http_agentstream_aisdk_error_size,
    ngx_http_agentstream_aisdk_error_record,
    ngx_http_agentstream_aisdk_error_text,
    ngx_http_agentstream_aisdk_retry,
    ngx_http_agentstream_aisdk_error_end
};


/* indexed by type; docs/protocols.md has the same table */

static ngx_http_agentstream_aisdk_data_t  ngx_http_agentstream_aisdk_datas[
    NGX_HTTP_AGENTSTREAM_RECORD_TYPES] =
{
    [NGX_HTTP_AGENTSTREAM_RECORD_PLAN] =
    { "plan", "\"plan\"", "", { "entries" } },
    [NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE] =
    { "usage", "\"usage\"", "", { "used_tokens", "cost", "tokens" } },
    [NGX_HTTP_AGENTSTREAM_RECORD_SUBAGENT_STARTED] =
    { "subagent", "subagent_session_id", "",
      { "subagent_session_id", "parent_session_id" } },
    [NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED] =
    { "discarded", NULL, "", { "from", "to" } },
    [NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET] =
    { "reset", NULL, "", { "reason" } },
    [NGX_HTTP_AGENTSTREAM_RECORD_COMPACTION] =
    { "compaction", NULL, "", { "summary" } },
    [NGX_HTTP_AGENTSTREAM_RECORD_SESSION_STATUS] =
    { "status", NULL, ",\"transient\":true",
      { "status", "attempt", "message", "next" } },
    [NGX_HTTP_AGENTSTREAM_RECORD_HEARTBEAT] =
    { "heartbeat", NULL, ",\"transient\":true", { "elapsedMs", "silentMs" } }
};


static size_t
ngx_http_agentstream_aisdk_size(ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record)
{
    size_t  size;

    size = NGX_HTTP_AGENTSTREAM_AISDK_CHUNK + state->turn.len
           + ngx_http_agentstream_record_len(record);

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE
        || record->type == NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT)
    {
        return size;
    }

    /* the names of a tool call are repeated; a text that is kept once is not
       written more often than the packet has it */

    return size + NGX_HTTP_AGENTSTREAM_AISDK_CHUNK + 3 * record->json.len;
}


static u_char *
ngx_http_agentstream_aisdk_record(ngx_http_agentstream_wire_state_t *state,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_int_t                            rc;
    ngx_http_agentstream_json_t          json;
    ngx_http_agentstream_aisdk_state_t  *s;

    s = (ngx_http_agentstream_aisdk_state_t *) state;

    ngx_http_agentstream_aisdk_pass(s, record->seq);
    s->seq = record->seq;

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE
        || record->type == NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT)
    {
        p = ngx_http_agentstream_aisdk_text(s, p, record);

    } else {
        ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

        rc = ngx_http_agentstream_json_parse(&json, record->json.data,
                                             record->json.len);
        if (rc == NGX_OK) {
            p = ngx_http_agentstream_aisdk_other(s, p, record, &json);
        }

        if (rc == NGX_ERROR) {
            state->failed = 1;
        }

        ngx_http_agentstream_json_destroy(&json);
    }

    ngx_http_agentstream_aisdk_waits(s);

    return p;
}


/* where the client's responses have ended, and what they looked like, is a part
   of what it has */

static void
ngx_http_agentstream_aisdk_pass(ngx_http_agentstream_aisdk_state_t *s,
    uint64_t seq)
{
    uint64_t                           *ends;
    ngx_http_agentstream_aisdk_chat_t  *chat;

    chat = s->state.request;

    if (chat && s->state.silent) {
        ends = chat->ends.elts;

        while (s->nends < chat->ends.nelts && seq > ends[s->nends]) {
            s->nends++;
            ngx_http_agentstream_aisdk_continue(s, 1);
        }
    }

    if (s->past && !s->state.silent) {
        ngx_http_agentstream_aisdk_continue(s, 0);
    }

    s->past = s->state.silent;
}


static u_char *
ngx_http_agentstream_aisdk_other(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_json_t *json)
{
    ngx_uint_t                          v, sub;
    ngx_http_agentstream_aisdk_data_t  *data;

    p = ngx_http_agentstream_aisdk_start(s, p);

    v = ngx_http_agentstream_json_get(json, json->root, "_meta");
    sub = ngx_http_agentstream_json_get(json, v, "parentSessionId");

    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_QUESTION:
    case NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION:
        ngx_http_agentstream_aisdk_asked(s, record, json);
        return p;

    case NGX_HTTP_AGENTSTREAM_RECORD_QUESTION_RESOLVED:
        return ngx_http_agentstream_aisdk_resolved(s, p, json, 0);

    case NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION_RESOLVED:
        return ngx_http_agentstream_aisdk_resolved(s, p, json, 1);

    case NGX_HTTP_AGENTSTREAM_RECORD_SUBAGENT_STARTED:
        /* the subagent of a subagent, too, is a part of the message */
        sub = 0;
        break;

    case NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET:
        return ngx_http_agentstream_aisdk_reset(s, p, record, json);

    case NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE:
        return ngx_http_agentstream_aisdk_finish(s, p, json);

    case NGX_HTTP_AGENTSTREAM_RECORD_ERROR:
        return ngx_http_agentstream_aisdk_failed(s, p, record, json);

    default:
        break;
    }

    if (sub) {
        return ngx_http_agentstream_aisdk_subagent(s, p, record);
    }

    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START:
    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS:
        return ngx_http_agentstream_aisdk_tool(s, p, record, json);

    case NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED:
        /* the text that replaces it is another one */
        p = ngx_http_agentstream_aisdk_end_text(s, p);
        break;

    default:
        break;
    }

    data = &ngx_http_agentstream_aisdk_datas[record->type];

    return data->name ? ngx_http_agentstream_aisdk_data(s, p, record, json,
                                                        data)
                      : p;
}


static u_char *
ngx_http_agentstream_aisdk_text(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_str_t   text;
    ngx_uint_t  thought;

    if (ngx_http_agentstream_acp_chunk_text(&record->json, record->type, &text)
        != NGX_OK)
    {
        return ngx_http_agentstream_aisdk_subagent(s, p, record);
    }

    thought = (record->type == NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT);

    if (record->origin.len) {
        p = ngx_http_agentstream_aisdk_origin(s, p, &record->origin);
    }

    if (s->open != record->type || s->part != record->part) {
        p = ngx_http_agentstream_aisdk_end_text(s, p);
        p = ngx_http_agentstream_aisdk_step(s, p);

        s->open = record->type;
        s->part = record->part;
        s->ntexts++;

        p = ngx_sprintf(p, "data: {\"type\":\"%s-start\",\"id\":\"%ui\","
                        "\"providerMetadata\":{\"agentstream\":{\"seq\":%uL}}}"
                        "\n\n", thought ? "reasoning" : "text", s->ntexts,
                        record->seq);
    }

    p = thought ? ngx_http_agentstream_aisdk_cpy(p,
                         "data: {\"type\":\"reasoning-delta\",\"id\":\"")
                : ngx_http_agentstream_aisdk_cpy(p,
                         "data: {\"type\":\"text-delta\",\"id\":\"");
    p = ngx_sprintf(p, "%ui", s->ntexts);
    p = ngx_http_agentstream_aisdk_cpy(p, "\",\"delta\":\"");
    p = ngx_cpymem(p, text.data, text.len);

    return ngx_http_agentstream_aisdk_cpy(p, "\"}\n\n");
}


u_char *
ngx_http_agentstream_aisdk_end_text(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p)
{
    if (s->open) {
        p = ngx_sprintf(p, "data: {\"type\":\"%s-end\",\"id\":\"%ui\"}\n\n",
                        s->open == NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT
                        ? "reasoning" : "text", s->ntexts);
        s->open = 0;
    }

    return p;
}


u_char *
ngx_http_agentstream_aisdk_start(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p)
{
    if (s->started) {
        return p;
    }

    s->started = 1;

    if (s->state.turn.len == 0) {
        return ngx_http_agentstream_aisdk_cpy(p,
                                           "data: {\"type\":\"start\"}\n\n");
    }

    return ngx_sprintf(p, "data: {\"type\":\"start\",\"messageId\":\"%V\"}\n\n",
                       &s->state.turn);
}


u_char *
ngx_http_agentstream_aisdk_step(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p)
{
    p = ngx_http_agentstream_aisdk_start(s, p);

    if (s->step) {
        return p;
    }

    s->step = 1;
    s->nsteps++;

    return ngx_http_agentstream_aisdk_cpy(p,
                                      "data: {\"type\":\"start-step\"}\n\n");
}


u_char *
ngx_http_agentstream_aisdk_end_step(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p)
{
    p = ngx_http_agentstream_aisdk_end_text(s, p);

    if (s->step) {
        s->step = 0;
        p = ngx_http_agentstream_aisdk_cpy(p,
                                     "data: {\"type\":\"finish-step\"}\n\n");
    }

    return p;
}


u_char *
ngx_http_agentstream_aisdk_origin(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_str_t *origin)
{
    size_t   len;
    u_char  *start, *end, *last;

    /* the ids of session, message, part and tool call */

    last = origin->data + origin->len;
    start = ngx_strlchr(origin->data, last, ' ');

    if (start == NULL) {
        return p;
    }

    start++;
    end = ngx_strlchr(start, last, ' ');
    len = (end ? end : last) - start;

    if (len > NGX_HTTP_AGENTSTREAM_AISDK_MESSAGE
        || (len == s->message_len
            && ngx_memcmp(s->message, start, len) == 0))
    {
        return p;
    }

    p = ngx_http_agentstream_aisdk_start(s, p);

    if (s->message_len) {
        p = ngx_http_agentstream_aisdk_end_step(s, p);
    }

    ngx_memcpy(s->message, start, len);
    s->message_len = len;

    return p;
}


u_char *
ngx_http_agentstream_aisdk_subagent(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    p = ngx_http_agentstream_aisdk_start(s, p);
    p = ngx_http_agentstream_aisdk_cpy(p,
                       "data: {\"type\":\"data-subagent-update\",\"data\":");
    p = ngx_http_agentstream_record_json(p, record);

    return ngx_http_agentstream_aisdk_cpy(p, ",\"transient\":true}\n\n");
}


static u_char *
ngx_http_agentstream_aisdk_data(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_json_t *json, ngx_http_agentstream_aisdk_data_t *data)
{
    ngx_str_t    value;
    const char  *name;
    ngx_uint_t   i, n, v;

    p = ngx_sprintf(p, "data: {\"type\":\"data-%s\"", data->name);

    if (data->id && data->id[0] == '"') {
        p = ngx_sprintf(p, ",\"id\":%s", data->id);

    } else if (data->id) {
        v = ngx_http_agentstream_json_get(json, json->root, data->id);
        value = ngx_http_agentstream_json_raw(json, v);
        p = ngx_sprintf(p, ",\"id\":%V", &value);
    }

    p = ngx_http_agentstream_aisdk_cpy(p, ",\"data\":{");

    for (i = 0, n = 0; i < NGX_HTTP_AGENTSTREAM_AISDK_MEMBERS; i++) {
        name = data->members[i];
        v = name ? ngx_http_agentstream_json_get(json, json->root, name) : 0;

        if (v == 0) {
            continue;
        }

        value = ngx_http_agentstream_json_raw(json, v);

        p = ngx_sprintf(p, "%s\"%s\":", n++ ? "," : "", name);
        p = ngx_http_agentstream_record_slice(p, record, &value);
    }

    *p++ = '}';

    return ngx_sprintf(p, "%s}\n\n", data->transient);
}


/* what the client has is void; the turn follows from its beginning */

static u_char *
ngx_http_agentstream_aisdk_reset(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_json_t *json)
{
    ngx_uint_t                          told;
    ngx_http_agentstream_aisdk_chat_t  *chat;

    chat = s->state.request;
    told = (s->state.answered || s->nsteps);

    p = ngx_http_agentstream_aisdk_end_step(s, p);

    s->message_len = 0;
    s->tools.nelts = 0;
    s->asks.nelts = 0;
    s->state.pending = chat ? ngx_http_agentstream_aisdk_ends(chat) : 0;

    /* a client that has the reset has only ends of responses after it */
    s->again = !s->state.silent;

    return told ? ngx_http_agentstream_aisdk_data(s, p, record, json,
                              &ngx_http_agentstream_aisdk_datas[record->type])
                : p;
}


static u_char *
ngx_http_agentstream_aisdk_finish(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_json_t *json)
{
    ngx_uint_t   v;
    const char  *reason;

    s->asks.nelts = 0;

    v = ngx_http_agentstream_json_get(json, json->root, "stopReason");

    p = ngx_http_agentstream_aisdk_end_text(s, p);
    reason = "stop";

    if (ngx_http_agentstream_json_is(json, v, "max_tokens")) {
        reason = "length";

    } else if (ngx_http_agentstream_json_is(json, v, "refusal")) {
        reason = "content-filter";

    } else if (ngx_http_agentstream_json_is(json, v, "cancelled")) {
        p = ngx_http_agentstream_aisdk_cpy(p,
                  "data: {\"type\":\"abort\",\"reason\":\"cancelled\"}\n\n");
        reason = "other";
    }

    p = ngx_http_agentstream_aisdk_end_step(s, p);

    return ngx_sprintf(p,
                  "data: {\"type\":\"finish\",\"finishReason\":\"%s\"}\n\n",
                  reason);
}


static u_char *
ngx_http_agentstream_aisdk_failed(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p, ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_json_t *json)
{
    ngx_str_t  message;

    s->asks.nelts = 0;

    message = ngx_http_agentstream_json_raw(json,
                  ngx_http_agentstream_json_get(json, json->root, "message"));

    p = ngx_http_agentstream_aisdk_end_step(s, p);

    p = ngx_http_agentstream_aisdk_cpy(p,
                                 "data: {\"type\":\"error\",\"errorText\":");
    p = ngx_http_agentstream_record_slice(p, record, &message);
    p = ngx_http_agentstream_aisdk_cpy(p, "}\n\n");

    return ngx_http_agentstream_aisdk_cpy(p,
              "data: {\"type\":\"finish\",\"finishReason\":\"error\"}\n\n");
}


/* the library does not reconnect by itself */

static u_char *
ngx_http_agentstream_aisdk_retry(u_char *p, ngx_uint_t msec)
{
    return p;
}


static u_char *
ngx_http_agentstream_aisdk_end(ngx_http_agentstream_wire_state_t *state,
    u_char *p)
{
    ngx_http_agentstream_aisdk_state_t  *s;

    s = (ngx_http_agentstream_aisdk_state_t *) state;

    if (state->waits) {
        p = ngx_http_agentstream_aisdk_show(s, p);
        p = ngx_http_agentstream_aisdk_end_step(s, p);

        p = ngx_http_agentstream_aisdk_paused(s, p);
    }

    return ngx_http_agentstream_aisdk_cpy(p, "data: [DONE]\n\n");
}


/* the client sends the metadata with its answer; a list that is empty replaces
   one that it has from another reading */

static u_char *
ngx_http_agentstream_aisdk_paused(ngx_http_agentstream_aisdk_state_t *s,
    u_char *p)
{
    uint64_t                           *ends;
    ngx_uint_t                          i;
    ngx_http_agentstream_aisdk_chat_t  *chat;

    p = ngx_sprintf(p, "data: {\"type\":\"finish\","
                    "\"finishReason\":\"tool-calls\",\"messageMetadata\":"
                    "{\"agentstream\":{\"turn\":\"%V\",\"seq\":%uL,"
                    "\"ends\":[", &s->state.turn, s->seq);

    chat = s->state.request;

    if (chat && !s->again) {
        ends = chat->ends.elts;

        for (i = 0; i < chat->ends.nelts; i++) {
            p = ngx_sprintf(p, "%uL,", ends[i]);
        }

        p = ngx_sprintf(p, "%uL", chat->seq);
    }

    return ngx_http_agentstream_aisdk_cpy(p, "]}}}\n\n");
}


static size_t
ngx_http_agentstream_aisdk_error_size(ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record)
{
    return ngx_http_agentstream_record_len(record);
}


static u_char *
ngx_http_agentstream_aisdk_error_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record)
{
    return (record->type == NGX_HTTP_AGENTSTREAM_RECORD_ERROR)
           ? ngx_http_agentstream_aisdk_error_text(p, record) : p;
}


static u_char *
ngx_http_agentstream_aisdk_error_text(u_char *p,
    ngx_http_agentstream_record_t *record)
{
    ngx_str_t                    message;
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    if (ngx_http_agentstream_json_parse(&json, record->json.data,
                                        record->json.len)
        == NGX_OK)
    {
        message = ngx_http_agentstream_json_string(&json,
                    ngx_http_agentstream_json_get(&json, json.root,
                                                  "message"));

        p = ngx_http_agentstream_json_decode(p, &message);
    }

    ngx_http_agentstream_json_destroy(&json);

    return p;
}


static u_char *
ngx_http_agentstream_aisdk_error_end(ngx_http_agentstream_wire_state_t *state,
    u_char *p)
{
    return p;
}
