
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The records of a turn as the events of AG-UI, docs/protocols.md.  Whatever
 * this wire knows of a turn follows from the records before.  A client that
 * has a part of the turn is therefore given the turn from its first record,
 * and the events that it has are made, but not sent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_agui_int.h"


static size_t ngx_http_agentstream_agui_size(
    ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_continue(
    ngx_http_agentstream_agui_state_t *st, u_char *p);
static u_char *ngx_http_agentstream_agui_write(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_any(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_plan(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_reset(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_close(
    ngx_http_agentstream_agui_state_t *st, u_char *p, ngx_uint_t suspended);
static u_char *ngx_http_agentstream_agui_step_close(
    ngx_http_agentstream_agui_state_t *st, u_char *p);
static u_char *ngx_http_agentstream_agui_finish(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_agui_usage(u_char *p,
    ngx_http_agentstream_json_t *json);
static u_char *ngx_http_agentstream_agui_finished(
    ngx_http_agentstream_agui_state_t *st, u_char *p);
static u_char *ngx_http_agentstream_agui_retry(u_char *p, ngx_uint_t msec);
static u_char *ngx_http_agentstream_agui_end(
    ngx_http_agentstream_wire_state_t *state, u_char *p);
static u_char *ngx_http_agentstream_agui_event_error(u_char *p,
    ngx_http_agentstream_record_t *record);


ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_agui = {
    ngx_string("text/event-stream"),
    ngx_null_string,
    ngx_null_string,
    1,
    ngx_string(": keepalive\n\n"),
    sizeof(ngx_http_agentstream_agui_state_t),
    NGX_HTTP_AGENTSTREAM_AGUI_ROOM,
    ngx_http_agentstream_agui_size,
    ngx_http_agentstream_agui_record,
    ngx_http_agentstream_agui_event_error,
    ngx_http_agentstream_agui_retry,
    ngx_http_agentstream_agui_end
};


static size_t
ngx_http_agentstream_agui_size(ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record)
{
    size_t                              len;
    ngx_uint_t                          part;
    ngx_http_agentstream_agui_run_t    *run;
    ngx_http_agentstream_agui_state_t  *st;

    st = (ngx_http_agentstream_agui_state_t *) state;

    /*
     * A text that continues needs little.  It does if the record that was
     * asked for before belongs to it, unless the client's own records end in
     * between.  "asked" is not a part of what the wire knows of the turn, so
     * it may be changed here.
     */

    part = st->asked;
    st->asked = record->part;

    len = ngx_http_agentstream_record_len(record);

    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE:
    case NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT:
        run = state->request;

        return len + ((part == record->part && record->seq > run->seq + 1)
                      ? NGX_HTTP_AGENTSTREAM_AGUI_SMALL
                      : NGX_HTTP_AGENTSTREAM_AGUI_ROOM);

    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START:
    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS:
        return NGX_HTTP_AGENTSTREAM_AGUI_ROOM + 3 * record->json.len
               + record->text.len + len;

    case NGX_HTTP_AGENTSTREAM_RECORD_QUESTION:
    case NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION:
        return NGX_HTTP_AGENTSTREAM_AGUI_ROOM + len
               + ngx_http_agentstream_agui_ask_size(record);

    case NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET:
    case NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED:
        return NGX_HTTP_AGENTSTREAM_AGUI_ROOM + len + st->voids;

    case NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE:
    case NGX_HTTP_AGENTSTREAM_RECORD_ERROR:
        return NGX_HTTP_AGENTSTREAM_AGUI_ROOM + 2 * len + state->pending;

    default:
        return NGX_HTTP_AGENTSTREAM_AGUI_ROOM + len;
    }
}


static u_char *
ngx_http_agentstream_agui_record(ngx_http_agentstream_wire_state_t *state,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_agui_state_t  *st;

    st = (ngx_http_agentstream_agui_state_t *) state;

    if (st->over || state->failed) {
        return p;
    }

    if (state->silent) {
        st->silent = 1;

    } else {
        p = ngx_http_agentstream_agui_continue(st, p);
    }

    p = ngx_http_agentstream_agui_write(st, p, record);

    st->seq = record->seq;
    st->sent = 1;

    return p;
}


static u_char *
ngx_http_agentstream_agui_continue(ngx_http_agentstream_agui_state_t *st,
    u_char *p)
{
    if (st->silent) {

        /* what was open in the run before is not open in this one */

        st->silent = 0;
        st->text = NULL;

        if (st->step) {
            st->step = 0;
            st->steps--;
        }

        ngx_http_agentstream_agui_tool_reopen(st);
    }

    if (!st->wire.begun) {
        st->wire.begun = 1;
        p = ngx_http_agentstream_agui_begin(st->wire.request, p);
    }

    return p;
}


static u_char *
ngx_http_agentstream_agui_write(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE:
    case NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT:
        return ngx_http_agentstream_agui_chunk(st, p, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_USER:
        return p;

    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START:
    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS:
        return ngx_http_agentstream_agui_tool(st, p, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_PLAN:
        return ngx_http_agentstream_agui_plan(st, p, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET:
        return ngx_http_agentstream_agui_reset(st, p, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED:
        return ngx_http_agentstream_agui_discarded(st, p, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_SUBAGENT_STARTED:
        return ngx_http_agentstream_agui_subagent(st, p, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_QUESTION:
    case NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION:
        return ngx_http_agentstream_agui_ask(st, p, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_QUESTION_RESOLVED:
    case NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION_RESOLVED:
        return ngx_http_agentstream_agui_resolved(st, p, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE:
        return ngx_http_agentstream_agui_finish(st, p, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_ERROR:
        st->over = 1;
        st->wire.waits = 0;
        return ngx_http_agentstream_agui_event_error(p, record);

    default:
        return ngx_http_agentstream_agui_any(st, p, record);
    }
}


/* what has no event of its own; the cost of a message is the end of a step */

static u_char *
ngx_http_agentstream_agui_any(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_agui_doc_t  doc;

    if (ngx_http_agentstream_agui_doc(st, record, &doc) == NGX_OK) {

        if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE) {
            p = ngx_http_agentstream_agui_text_close(st, p);
        }

        p = ngx_http_agentstream_agui_custom(p, record, &doc.subagent);

        if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE
            && doc.subagent.len == 0)
        {
            p = ngx_http_agentstream_agui_step_close(st, p);
        }
    }

    ngx_http_agentstream_agui_doc_done(&doc);

    return p;
}


/* the plan is the member "plan" of the client's state; the rest of it belongs
   to the client */

static u_char *
ngx_http_agentstream_agui_plan(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_str_t                         entries;
    ngx_http_agentstream_agui_run_t  *run;
    ngx_http_agentstream_agui_doc_t   doc;

    run = st->wire.request;

    if (ngx_http_agentstream_agui_doc(st, record, &doc) != NGX_OK) {
        goto done;
    }

    if (doc.subagent.len) {
        p = ngx_http_agentstream_agui_custom(p, record, &doc.subagent);
        goto done;
    }

    entries = ngx_http_agentstream_json_raw(&doc.json,
                  ngx_http_agentstream_json_get(&doc.json, doc.json.root,
                                                "entries"));

    if (run->state) {
        p = ngx_http_agentstream_agui_cpy(p,
                "data: {\"type\":\"STATE_DELTA\",\"delta\":[{\"op\":\"add\","
                "\"path\":\"/plan\",\"value\":");
        p = ngx_http_agentstream_agui_str(p, &entries);
        p = ngx_http_agentstream_agui_cpy(p, "}]}\n\n");

    } else {
        p = ngx_http_agentstream_agui_cpy(p,
                "data: {\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{\"plan\":");
        p = ngx_http_agentstream_agui_str(p, &entries);
        p = ngx_http_agentstream_agui_cpy(p, "}}\n\n");

        run->state = 1;
    }

done:

    ngx_http_agentstream_agui_doc_done(&doc);

    return p;
}


/*
 * What the client has of the turn is void, and follows again.  Its messages
 * are discarded; tool calls have the same ids again, and are not told twice.
 * Of a part that the client has from another run, and that is not kept here
 * any more, nothing is known: the client has to begin again.
 */

static u_char *
ngx_http_agentstream_agui_reset(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_uint_t                         i;
    ngx_http_agentstream_agui_ask_t  **asks;
    ngx_http_agentstream_agui_run_t   *run;

    run = st->wire.request;

    if (run->seq && !st->sent) {
        st->over = 1;
        st->wire.ended = 1;

        return ngx_http_agentstream_agui_cpy(p,
                "data: {\"type\":\"RUN_ERROR\",\"message\":\"The events of "
                "this turn are no longer kept: run again without a new "
                "message\",\"code\":\"stream_reset\"}\n\n");
    }

    p = ngx_http_agentstream_agui_text_close(st, p);
    p = ngx_http_agentstream_agui_discard_all(st, p);

    asks = st->asks ? st->asks->elts : NULL;

    for (i = 0; asks && i < st->asks->nelts; i++) {
        if (asks[i]->waits) {
            asks[i]->waits = 0;
            st->wire.pending -= asks[i]->json.len
                                + NGX_HTTP_AGENTSTREAM_AGUI_ROOM;
        }
    }

    st->wire.waits = 0;

    return ngx_http_agentstream_agui_any(st, p, record);
}


u_char *
ngx_http_agentstream_agui_step(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_str_t *subagent)
{
    if (st->step || subagent->len) {
        return p;
    }

    st->step = 1;

    return ngx_sprintf(p, "data: {\"type\":\"STEP_STARTED\","
                          "\"stepName\":\"step-%ui\"}\n\n", ++st->steps);
}


static u_char *
ngx_http_agentstream_agui_step_close(ngx_http_agentstream_agui_state_t *st,
    u_char *p)
{
    if (!st->step) {
        return p;
    }

    st->step = 0;

    return ngx_sprintf(p, "data: {\"type\":\"STEP_FINISHED\","
                          "\"stepName\":\"step-%ui\"}\n\n", st->steps);
}


static u_char *
ngx_http_agentstream_agui_close(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_uint_t suspended)
{
    p = ngx_http_agentstream_agui_text_close(st, p);
    p = ngx_http_agentstream_agui_tool_close(st, p, suspended);

    return ngx_http_agentstream_agui_step_close(st, p);
}


static u_char *
ngx_http_agentstream_agui_finish(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record)
{
    ngx_str_t                        text;
    ngx_uint_t                       reason;
    ngx_http_agentstream_agui_doc_t  doc;

    st->over = 1;
    st->wire.waits = 0;

    p = ngx_http_agentstream_agui_close(st, p, 0);
    p = ngx_http_agentstream_agui_finished(st, p);

    if (ngx_http_agentstream_agui_doc(st, record, &doc) == NGX_OK) {

        reason = ngx_http_agentstream_json_get(&doc.json, doc.json.root,
                                               "stopReason");

        if (ngx_http_agentstream_json_is(&doc.json, reason, "cancelled")) {
            p = ngx_http_agentstream_agui_cpy(p, "{\"type\":\"cancelled\"}");

        } else {
            text = ngx_http_agentstream_agui_id(&doc.json, doc.json.root,
                                                "stopReason");

            p = ngx_http_agentstream_agui_cpy(p, "{\"type\":\"success\"},"
                                              "\"result\":{\"stopReason\":\"");
            p = ngx_http_agentstream_agui_str(p, &text);
            p = ngx_http_agentstream_agui_cpy(p, "\"}");
        }

        p = ngx_http_agentstream_agui_usage(p, &doc.json);
        p = ngx_http_agentstream_agui_cpy(p, "}\n\n");
    }

    ngx_http_agentstream_agui_doc_done(&doc);

    return p;
}


/* AG-UI has totals, and parts of them; the module has sums that exclude each
   other, and a total of all */

static u_char *
ngx_http_agentstream_agui_usage(u_char *p, ngx_http_agentstream_json_t *json)
{
    int64_t     total, input, n[4];
    ngx_uint_t  usage, i;

    static const char  *names[] = {
        "inputTokens", "cachedReadTokens", "cachedWriteTokens",
        "thoughtTokens"
    };

    usage = ngx_http_agentstream_json_get(json, json->root, "usage");
    total = ngx_http_agentstream_json_integer(json,
                  ngx_http_agentstream_json_get(json, usage, "totalTokens"),
                  -1);

    for (i = 0; i < 4; i++) {
        n[i] = ngx_http_agentstream_json_integer(json,
                         ngx_http_agentstream_json_get(json, usage, names[i]),
                         0);

        if (n[i] < 0 || n[i] > total) {
            return p;
        }
    }

    input = n[0] + n[1] + n[2];

    if (total < input) {
        return p;
    }

    return ngx_sprintf(p, ",\"usage\":[{\"inputTokens\":%L,"
                          "\"outputTokens\":%L,\"totalTokens\":%L,"
                          "\"reasoningTokens\":%L,\"cachedInputTokens\":%L,"
                          "\"cacheWriteInputTokens\":%L}]",
                       input, total - input, total, n[3], n[1], n[2]);
}


/* RUN_FINISHED up to the value of its outcome */

static u_char *
ngx_http_agentstream_agui_finished(ngx_http_agentstream_agui_state_t *st,
    u_char *p)
{
    ngx_http_agentstream_agui_run_t  *run;

    run = st->wire.request;

    p = ngx_http_agentstream_agui_cpy(p, "data: {\"type\":\"RUN_FINISHED\","
                                         "\"threadId\":\"");
    p = ngx_http_agentstream_agui_str(p, &run->thread);
    p = ngx_http_agentstream_agui_cpy(p, "\",\"runId\":\"");
    p = ngx_http_agentstream_agui_str(p, &run->run);

    return ngx_http_agentstream_agui_cpy(p, "\",\"outcome\":");
}


static u_char *
ngx_http_agentstream_agui_retry(u_char *p, ngx_uint_t msec)
{
    /* its clients do not reconnect by themselves */

    return p;
}


static u_char *
ngx_http_agentstream_agui_end(ngx_http_agentstream_wire_state_t *state,
    u_char *p)
{
    ngx_http_agentstream_agui_state_t  *st;

    st = (ngx_http_agentstream_agui_state_t *) state;

    if (st->over) {
        return p;
    }

    p = ngx_http_agentstream_agui_continue(st, p);

    if (!state->waits) {
        /* the worker exits, or there was nothing at all */
        return ngx_http_agentstream_agui_cpy(p,
                "data: {\"type\":\"RUN_ERROR\",\"message\":\"The stream was "
                "cut off\",\"code\":\"stream_cut\"}\n\n");
    }

    p = ngx_http_agentstream_agui_close(st, p, 1);
    p = ngx_http_agentstream_agui_finished(st, p);
    p = ngx_http_agentstream_agui_cpy(p, "{\"type\":\"interrupt\",");
    p = ngx_http_agentstream_agui_interrupts(st, p);

    return ngx_http_agentstream_agui_cpy(p, "}}\n\n");
}


static u_char *
ngx_http_agentstream_agui_event_error(u_char *p,
    ngx_http_agentstream_record_t *record)
{
    p = ngx_http_agentstream_agui_cpy(p, "data: ");
    p = ngx_http_agentstream_agui_error(p, record);

    return ngx_http_agentstream_agui_cpy(p, "\n\n");
}
