
/*
 * Copyright (C) agentstream contributors
 */


/*
 * AG-UI.  The first byte chooses: any body of a client, of which an accepted
 * one yields a valid name and prompts and answers that are valid JSON; or any
 * sequence of records, with the place where an earlier run has ended.  Then
 * everything that is written fits the size that was asked for, each event is
 * valid JSON, what is opened is closed exactly once before the run ends, and
 * nothing follows the end.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <cjson/cJSON.h>

#include "ngx_http_agentstream_agui.h"
#include "ngx_http_agentstream_name.h"


#define check(x)  if (!(x)) { __builtin_trap(); }

#define TEXTS  4
#define CALLS  3


extern ngx_log_t  ngx_unit_log;


typedef struct {
    char                                 open[64][64];
    ngx_uint_t                           nopen;
    ngx_uint_t                           started;
    ngx_uint_t                           over;
} run_t;


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
fuzz_body(const uint8_t *data, size_t size)
{
    cJSON                               *json;
    u_char                              *copy;
    ngx_int_t                            rc;
    ngx_str_t                            text;
    ngx_uint_t                           i;
    ngx_pool_t                          *pool;
    ngx_http_agentstream_agui_input_t    input;
    ngx_http_agentstream_body_answer_t  *answers;

    copy = malloc(size ? size : 1);
    ngx_memcpy(copy, data, size);

    text.data = copy;
    text.len = size;

    pool = ngx_create_pool(1024, &ngx_unit_log);

    rc = ngx_http_agentstream_agui_read(pool, &text, &input);
    free(copy);

    if (rc == NGX_OK) {
        check(ngx_http_agentstream_name_valid(&input.thread));
        check(input.run.len && input.run.len <= 128);

        if (input.prompt.len) {
            json = cJSON_ParseWithLength((char *) input.prompt.data,
                                         input.prompt.len);
            check(input.prompt.data[0] == '{' && input.answers.nelts == 0);
            cJSON_Delete(json);
        }

        answers = input.answers.elts;

        for (i = 0; i < input.answers.nelts; i++) {
            check(answers[i].id.len && input.turn.len);
            check(answers[i].body.len == 0 || answers[i].body.data[0] == '{');
        }

    } else {
        check(rc == NGX_DECLINED && input.error.len);
    }

    ngx_destroy_pool(pool);
}


static void
fuzz_toggle(run_t *run, const char *kind, const char *id, ngx_uint_t opens)
{
    char        name[64];
    ngx_uint_t  i;

    snprintf(name, sizeof(name), "%s %s", kind, id);

    for (i = 0; i < run->nopen; i++) {
        if (strcmp(run->open[i], name) == 0) {
            break;
        }
    }

    if (opens) {
        check(i == run->nopen && i < 64);
        strcpy(run->open[run->nopen++], name);
        return;
    }

    check(i < run->nopen);
    memmove(run->open[i], run->open[--run->nopen], sizeof(run->open[0]));
}


static void
fuzz_event(run_t *run, cJSON *event)
{
    char        *id;
    ngx_uint_t   i;
    const char  *type;

    static const struct {
        const char  *type;
        const char  *kind;
        const char  *id;
        ngx_uint_t   opens;
    } table[] = {
        { "TEXT_MESSAGE_START", "text", "messageId", 1 },
        { "TEXT_MESSAGE_END", "text", "messageId", 0 },
        { "REASONING_START", "span", "messageId", 1 },
        { "REASONING_END", "span", "messageId", 0 },
        { "REASONING_MESSAGE_START", "thought", "messageId", 1 },
        { "REASONING_MESSAGE_END", "thought", "messageId", 0 },
        { "TOOL_CALL_START", "call", "toolCallId", 1 },
        { "TOOL_CALL_END", "call", "toolCallId", 0 },
        { "STEP_STARTED", "step", "stepName", 1 },
        { "STEP_FINISHED", "step", "stepName", 0 },
        { "SUBAGENT_STARTED", "sub", "subagentRunId", 1 },
        { "SUBAGENT_FINISHED", "sub", "subagentRunId", 0 }
    };

    type = cJSON_GetStringValue(cJSON_GetObjectItem(event, "type"));
    check(type && !run->over);

    if (strcmp(type, "RUN_STARTED") == 0) {
        check(!run->started);
        run->started = 1;
        return;
    }

    check(run->started);

    if (strcmp(type, "RUN_FINISHED") == 0) {
        check(run->nopen == 0);
        run->over = 1;
        return;
    }

    if (strcmp(type, "RUN_ERROR") == 0) {
        run->over = 1;
        return;
    }

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(type, table[i].type) == 0) {
            id = cJSON_GetStringValue(cJSON_GetObjectItem(event,
                                                          table[i].id));
            check(id);
            fuzz_toggle(run, table[i].kind, id, table[i].opens);
        }
    }
}


static void
fuzz_events(run_t *run, u_char *p, u_char *last)
{
    cJSON   *event;
    u_char  *end;

    while (p < last) {
        check(last - p > 8 && ngx_memcmp(p, "data: ", 6) == 0);

        end = memchr(p, LF, last - p);
        check(end && end + 1 < last && end[1] == LF);

        event = cJSON_ParseWithLength((char *) p + 6, end - p - 6);
        check(event);

        fuzz_event(run, event);
        cJSON_Delete(event);

        p = end + 2;
    }
}


/* a record from two bytes */

static void
fuzz_record(ngx_http_agentstream_record_t *record, char *json, size_t size,
    unsigned type, unsigned how)
{
    const char  *meta;

    static const char  *statuses[] = {
        "pending", "in_progress", "completed", "failed"
    };

    ngx_memzero(record, sizeof(ngx_http_agentstream_record_t));

    meta = (how & 0x80) ? "{\"sessionId\":\"ses_a\",\"toolName\":\"x\"}"
           : (how & 0x40) ? "{\"sessionId\":\"ses_b\"}" : "null";

    record->type = 1 + type % (NGX_HTTP_AGENTSTREAM_RECORD_TYPES - 1);

    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE:
    case NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT:
        record->part = 1 + 2 * (how % TEXTS)
                       + (record->type == NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE);
        snprintf(json, size, "{\"messageId\":\"msg_%u\",\"content\":{\"text\":"
                 "\"%.*s\"},\"_meta\":%s}", how % 2, (int) (how % TEXTS) + 1,
                 "abcd", how % TEXTS ? "null" : "{\"sessionId\":\"ses_a\"}");
        break;

    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START:
    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS:
        record->part = 100 + how % CALLS;
        snprintf(json, size, "{\"toolCallId\":\"c%u\",\"status\":\"%s\","
                 "\"rawInput\":{\"a\":\"\\n\\\"\"},\"rawOutput\":{\"output\":"
                 "\"\",\"metadata\":{\"sessionId\":\"ses_%c\"}},"
                 "\"content\":%s,\"_meta\":%s}", how % CALLS,
                 statuses[(how >> 2) % 4], (how & 0x20) ? 'a' : 'b',
                 (how & 0x10) ? "[]" : "null", meta);
        break;

    case NGX_HTTP_AGENTSTREAM_RECORD_SUBAGENT_STARTED:
        snprintf(json, size, "{\"subagent_session_id\":\"ses_%c\","
                 "\"parent_session_id\":\"ses_%c\",\"_meta\":null}",
                 (how & 1) ? 'a' : 'b', (how & 2) ? 'a' : 'c');
        break;

    default:
        snprintf(json, size, "{\"messageId\":\"msg_%u\",\"from\":%u,\"to\":%u,"
                 "\"questionId\":\"que_%u\",\"permissionId\":\"per_%u\","
                 "\"entries\":[],\"message\":\"m\",\"code\":%u,"
                 "\"stopReason\":\"%s\",\"_meta\":%s}", how % 2, how % 8,
                 how, how % 3, how % 3, how, (how & 1) ? "cancelled"
                 : "end_turn", meta);
    }

    record->json.data = (u_char *) json;
    record->json.len = strlen(json);
}


static void
fuzz_turn(const uint8_t *data, size_t size)
{
    char                                json[1024];
    run_t                               run;
    size_t                              i, n, skip, room, end, used;
    u_char                             *buf, *p;
    ngx_str_t                           id;
    ngx_pool_t                         *pool;
    ngx_array_t                         answered;
    ngx_http_agentstream_wire_t        *wire;
    ngx_http_agentstream_record_t       record;
    ngx_http_agentstream_agui_run_t     request;
    ngx_http_agentstream_wire_state_t  *state;

    if (size < 2) {
        return;
    }

    skip = data[0] % 16;
    n = (size - 1) / 2;
    data++;

    wire = &ngx_http_agentstream_wire_agui;
    pool = ngx_create_pool(1024, &ngx_unit_log);

    ngx_memzero(&run, sizeof(run_t));
    ngx_memzero(&request, sizeof(request));

    ngx_str_set(&request.thread, "t");
    ngx_str_set(&request.run, "r");
    request.seq = skip;

    state = ngx_pcalloc(pool, wire->state_size);
    state->pool = pool;
    state->request = &request;
    ngx_str_set(&state->turn, "msg_t");

    if (skip) {
        ngx_str_set(&id, "que_1");
        ngx_array_init(&answered, pool, 1, sizeof(ngx_str_t));
        *(ngx_str_t *) ngx_array_push(&answered) = id;
        state->answered = &answered;
    }

    /* sizes are asked for several records at once, as a reader does */

    for (i = 0; i < n && !state->ended; i++) {

        fuzz_record(&record, json, sizeof(json), data[2 * i],
                    data[2 * i + 1]);

        record.seq = i + 1;
        state->silent = (record.seq <= skip);

        end = wire->end_size + state->pending;
        room = wire->size(state, &record);
        buf = malloc(room);

        p = wire->record(state, buf, &record);
        used = p - buf;

        check(used <= room && !state->failed);
        check(wire->end_size + state->pending <= end + room);

        if (!state->silent) {
            fuzz_events(&run, buf, p);
        }

        free(buf);
    }

    buf = malloc(wire->end_size + state->pending);
    p = wire->end(state, buf);

    check((size_t) (p - buf) <= wire->end_size + state->pending);

    fuzz_events(&run, buf, p);

    free(buf);
    ngx_destroy_pool(pool);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }

    if (data[0] & 1) {
        fuzz_body(data + 1, size - 1);

    } else {
        fuzz_turn(data + 1, size - 1);
    }

    return 0;
}
