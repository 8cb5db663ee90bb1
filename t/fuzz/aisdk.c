
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The AI SDK.  The first byte chooses: any body of a client, of which an
 * accepted one yields a valid name, and a prompt or answers; or any sequence of
 * records, in as many responses as a client needs that answers all that it is
 * asked.  Then everything that is written fits the size that was asked for,
 * each chunk is valid JSON, deltas belong to a text that is open, outputs to a
 * call that the client was told of, and nothing follows the finish but the end.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <cjson/cJSON.h>

#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_aisdk.h"
#include "ngx_http_agentstream_name.h"


#define check(x)  if (!(x)) { __builtin_trap(); }

#define TEXTS  4
#define CALLS  3
#define NAMES  64


extern ngx_log_t  ngx_unit_log;


typedef struct {
    char                                 open[16];     /* the text's id */
    char                                 calls[NAMES][32];
    ngx_uint_t                           ncalls;
    ngx_uint_t                           started;
    ngx_uint_t                           step;
    ngx_uint_t                           finished;
    ngx_uint_t                           continued;
    ngx_uint_t                           over;
} response_t;


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
fuzz_body(const uint8_t *data, size_t size)
{
    u_char                              *copy;
    ngx_int_t                            rc;
    ngx_str_t                            text;
    ngx_uint_t                           i;
    ngx_pool_t                          *pool;
    ngx_http_agentstream_aisdk_chat_t    chat;
    ngx_http_agentstream_body_answer_t  *answers;

    copy = malloc(size ? size : 1);
    ngx_memcpy(copy, data, size);

    text.data = copy;
    text.len = size;

    pool = ngx_create_pool(1024, &ngx_unit_log);

    rc = ngx_http_agentstream_aisdk_chat(pool, &text, &chat);
    free(copy);

    if (rc == NGX_OK) {
        check(ngx_http_agentstream_name_valid(&chat.name));
        check((chat.prompt.len == 0) == (chat.turn.len != 0));
        check(chat.prompt.len == 0 || chat.prompt.data[0] == '{');

        answers = chat.answers.elts;

        for (i = 0; i < chat.answers.nelts; i++) {
            check(chat.turn.len && answers[i].id.len);
            check(answers[i].body.len == 0 || answers[i].body.data[0] == '{');
        }

    } else {
        check(rc == NGX_DECLINED && chat.error.len);
    }

    ngx_destroy_pool(pool);
}


static const char *
fuzz_string(cJSON *chunk, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(chunk, name));
}


static void
fuzz_call(response_t *r, const char *id, ngx_uint_t announces)
{
    ngx_uint_t  i;

    check(id);

    for (i = 0; i < r->ncalls; i++) {
        if (strcmp(r->calls[i], id) == 0) {
            return;
        }
    }

    check(announces);

    if (r->ncalls < NAMES) {
        snprintf(r->calls[r->ncalls++], sizeof(r->calls[0]), "%s", id);
    }
}


static void
fuzz_chunk(response_t *r, cJSON *chunk)
{
    const char  *type, *id;

    type = fuzz_string(chunk, "type");
    id = fuzz_string(chunk, "id");

    check(type && !r->finished);

    if (strcmp(type, "start") == 0) {
        check(!r->started);
        r->started = 1;
        return;
    }

    check(r->started);

    if (strcmp(type, "start-step") == 0) {
        check(!r->step || r->continued);
        r->step = 1;

    } else if (strcmp(type, "finish-step") == 0) {
        check(r->open[0] == '\0' && (r->step || r->continued));
        r->step = 0;

    } else if (strcmp(type, "text-start") == 0
               || strcmp(type, "reasoning-start") == 0)
    {
        check(r->open[0] == '\0' && id && (r->step || r->continued));
        snprintf(r->open, sizeof(r->open), "%s", id);

    } else if (strcmp(type, "text-delta") == 0
               || strcmp(type, "reasoning-delta") == 0)
    {
        check(id && strcmp(r->open, id) == 0);

    } else if (strcmp(type, "text-end") == 0
               || strcmp(type, "reasoning-end") == 0)
    {
        check(id && strcmp(r->open, id) == 0);
        r->open[0] = '\0';

    } else if (strcmp(type, "finish") == 0) {
        check(r->open[0] == '\0' && !r->step);
        r->finished = 1;

    } else if (strncmp(type, "tool-", 5) == 0) {
        fuzz_call(r, fuzz_string(chunk, "toolCallId"),
                  strncmp(type, "tool-input-", 11) == 0);

    } else {
        check(strncmp(type, "data-", 5) == 0 || strcmp(type, "file") == 0
              || strcmp(type, "error") == 0 || strcmp(type, "abort") == 0);
    }
}


static void
fuzz_chunks(response_t *r, u_char *p, u_char *last)
{
    cJSON   *chunk;
    u_char  *end;

    while (p < last) {
        check(last - p > 8 && ngx_memcmp(p, "data: ", 6) == 0 && !r->over);

        end = memchr(p, LF, last - p);
        check(end && end + 1 < last && end[1] == LF);

        if (end - p == 12 && ngx_memcmp(p + 6, "[DONE]", 6) == 0) {
            r->over = 1;

        } else {
            chunk = cJSON_ParseWithLength((char *) p + 6, end - p - 6);
            check(chunk);

            fuzz_chunk(r, chunk);
            cJSON_Delete(chunk);
        }

        p = end + 2;
    }
}


/* a record from two bytes; json has room for 1024 */

static void
fuzz_record(ngx_http_agentstream_record_t *record, char *json, unsigned type,
    unsigned how)
{
    u_char     *last;
    ngx_str_t   message, text, meta;

    static char         origin[64];
    static const char  *statuses[] = {
        "pending", "in_progress", "completed", "failed"
    };

    ngx_memzero(record, sizeof(ngx_http_agentstream_record_t));

    record->type = 1 + type % (NGX_HTTP_AGENTSTREAM_RECORD_TYPES - 1);

    if (how & 0x80) {
        record->origin.data = (u_char *) origin;
        record->origin.len = snprintf(origin, sizeof(origin),
                                      "ses msg_%u prt call", how % 3);
    }

    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE:
    case NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT:
    case NGX_HTTP_AGENTSTREAM_RECORD_USER:
        record->part = 1 + 2 * (how % TEXTS)
                       + (record->type == NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE);

        ngx_str_set(&message, "msg_1");
        ngx_str_set(&text, "a\\\"b\\\\");
        ngx_str_set(&meta, "null");

        if (how & 0x40) {
            ngx_str_set(&meta, "{\"parentSessionId\":\"ses\"}");
        }

        last = ngx_http_agentstream_acp_chunk((u_char *) json,
                                              (u_char *)
                                              "2026-01-22T00:11:51.712Z",
                                              record->type,
                                              (how & 0x20) ? &message : NULL,
                                              &text, &meta);
        *last = '\0';
        break;

    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START:
    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS:
        record->part = 100 + how % CALLS;
        snprintf(json, 1024, "{\"type\":\"tool_call_progress\",\"timestamp\":"
                 "\"2026-01-22T00:11:51.712Z\",\"toolCallId\":\"c%u\","
                 "\"title\":\"t\",\"status\":\"%s\",\"rawInput\":{},"
                 "\"rawOutput\":{\"output\":\"x\",\"error\":%s},\"content\":%s,"
                 "\"_meta\":{\"toolName\":\"x\"%s}}", how % CALLS,
                 statuses[(how >> 2) % 4], (how & 0x10) ? "\"bad\"" : "null",
                 (how & 0x20) ? "[{\"content\":{\"type\":\"image\",\"text\":"
                                "\"so far\",\"data\":\"AA==\",\"mimeType\":"
                                "\"image/png\"}}]" : "null",
                 (how & 0x40) ? ",\"parentSessionId\":\"ses\"" : "");
        break;

    default:
        snprintf(json, 1024, "{\"type\":\"question_asked\",\"timestamp\":"
                 "\"2026-01-22T00:11:51.712Z\",\"from\":%u,\"to\":%u,"
                 "\"questionId\":\"que_%u\",\"permissionId\":\"per_%u\","
                 "\"permission\":\"p\",\"questions\":[],\"toolCallId\":\"c%u\","
                 "\"toolCall\":{\"toolCallId\":\"c%u\",\"title\":\"t\","
                 "\"rawInput\":{}},\"reply\":\"%s\",\"answers\":null,"
                 "\"entries\":[],\"message\":\"m\",\"subagent_session_id\":"
                 "\"ses_a\",\"stopReason\":\"%s\",\"_meta\":null}", how % 8,
                 how, how % 3, how % 3, how % CALLS, how % CALLS,
                 (how & 8) ? "reject" : "once",
                 (how & 1) ? "cancelled" : "end_turn");
    }

    record->json.data = (u_char *) json;
    record->json.len = strlen(json);
}


/* one response to a client that has the turn up to chat->seq; how it ended: the
   number of its last record if the client has to answer, or 0 */

static uint64_t
fuzz_response(response_t *r, ngx_http_agentstream_aisdk_chat_t *chat,
    ngx_array_t *answered, const uint8_t *data, size_t n)
{
    char                                json[1024];
    size_t                              i, room, before;
    u_char                             *buf, *p;
    ngx_pool_t                         *pool;
    ngx_http_agentstream_wire_t        *wire;
    ngx_http_agentstream_record_t       record;
    ngx_http_agentstream_wire_state_t  *state;

    wire = &ngx_http_agentstream_aisdk_wire;
    pool = ngx_create_pool(1024, &ngx_unit_log);

    state = ngx_pcalloc(pool, wire->state_size);
    state->pool = pool;
    ngx_str_set(&state->turn, "msg_t");

    if (chat->seq) {
        state->answered = answered;
        state->request = chat;
    }

    for (i = 0; i < n; i++) {

        fuzz_record(&record, json, data[2 * i], data[2 * i + 1]);

        record.seq = i + 1;
        state->silent = (record.seq <= chat->seq);

        before = state->pending;
        room = wire->size(state, &record);
        buf = malloc(room);

        p = wire->record(state, buf, &record);

        /* what is left of the room is for the end of the response */

        check((size_t) (p - buf) + state->pending <= room + before);
        check(!state->failed);

        if (!state->silent) {
            fuzz_chunks(r, buf, p);
        }

        free(buf);

        if (!state->silent
            && (ngx_http_agentstream_record_terminal(record.type)
                || (state->waits && (data[2 * i] & 0x80))))
        {
            i++;
            break;
        }
    }

    buf = malloc(wire->end_size + state->pending);
    p = wire->end(state, buf);

    check((size_t) (p - buf) <= wire->end_size + state->pending);

    fuzz_chunks(r, buf, p);
    check(r->over);
    free(buf);

    i = state->waits ? i : 0;
    ngx_destroy_pool(pool);

    return i;
}


/* a client that answers all that it is asked, and knows what it was told */

static void
fuzz_turn(const uint8_t *data, size_t size)
{
    uint64_t                            seq;
    response_t                          r;
    ngx_uint_t                          i;
    ngx_pool_t                         *pool;
    ngx_array_t                         answered;
    ngx_http_agentstream_aisdk_chat_t   chat;

    static ngx_str_t  ids[] = {
        ngx_string("que_0"), ngx_string("que_1"), ngx_string("que_2"),
        ngx_string("per_0"), ngx_string("per_1"), ngx_string("per_2")
    };

    pool = ngx_create_pool(1024, &ngx_unit_log);

    ngx_memzero(&r, sizeof(response_t));
    ngx_memzero(&chat, sizeof(ngx_http_agentstream_aisdk_chat_t));

    ngx_array_init(&chat.ends, pool, 1, sizeof(uint64_t));
    ngx_array_init(&answered, pool, 1, sizeof(ngx_str_t));

    for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        *(ngx_str_t *) ngx_array_push(&answered) = ids[i];
    }

    for ( ;; ) {
        seq = fuzz_response(&r, &chat, &answered, data, size / 2);

        if (seq <= chat.seq) {
            break;
        }

        if (chat.seq) {
            *(uint64_t *) ngx_array_push(&chat.ends) = chat.seq;
        }

        chat.seq = seq;

        /* it keeps the calls */

        r.open[0] = '\0';
        r.started = 0;
        r.step = 0;
        r.finished = 0;
        r.over = 0;
        r.continued = 1;
    }

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
