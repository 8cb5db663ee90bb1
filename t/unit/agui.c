
/*
 * Copyright (C) agentstream contributors
 */


/*
 * agui*.c: records as events of AG-UI, in buffers of exactly the size that was
 * asked for, and what its clients send.
 * Breaks when: a size is too small, a text or call stays open at the end of a
 * run, a run that continues sends what the client has or forgets what was open,
 * a discarded text keeps its message, a call is told twice after a reset, an
 * answered question still waits, the running turn is part of a snapshot, an
 * interrupt cannot be read back from its id, a body of another shape is
 * accepted, or a part of a message is lost.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_agui.h"
#include "ngx_http_agentstream_opencode.h"
#include "tap.h"


#define TURN   "msg_turn"

#define CHUNK  "{\"type\":\"agent_message_chunk\",\"messageId\":\"msg_1\","   \
               "\"content\":{\"type\":\"text\",\"text\":\"%s\","              \
               "\"annotations\":null},\"_meta\":null}"
#define ASKED  "{\"type\":\"question_asked\",\"questionId\":\"que_1\","       \
               "\"questions\":[{\"question\":\"Q?\"}],\"toolCallId\":null,"   \
               "\"_meta\":null}"
#define CALL   "{\"type\":\"tool_call_progress\",\"toolCallId\":\"c1\","      \
               "\"title\":\"t\",\"status\":\"%s\","                           \
               "\"rawInput\":{\"a\":\"\\\"\"},\"rawOutput\":%s,"             \
               "\"content\":null,"                                            \
               "\"_meta\":{\"toolName\":\"bash\"}}"
#define END    "{\"type\":\"prompt_response\",\"stopReason\":\"end_turn\","   \
               "\"usage\":{\"totalTokens\":9,\"inputTokens\":3,"              \
               "\"outputTokens\":2,\"thoughtTokens\":1,"                      \
               "\"cachedReadTokens\":4,\"cachedWriteTokens\":0},"             \
               "\"_meta\":{}}"


extern ngx_log_t  ngx_unit_log;

static ngx_pool_t                          *pool;
static ngx_http_agentstream_agui_run_t      run;
static ngx_http_agentstream_wire_state_t   *state;
static uint64_t                             seq;
static char                                 out[65536];


static void
begin(ngx_http_agentstream_wire_t *wire)
{
    memset(&run, 0, sizeof(run));

    run.thread = tap_str("thread");
    run.run = tap_str("run");
    run.state = 1;

    state = ngx_pcalloc(pool, wire->state_size);
    state->pool = pool;
    state->request = &run;
    state->turn = tap_str(TURN);

    seq = 0;
    out[0] = '\0';
}


/* writes one record, in a buffer of its size, and adds it to out */

static void
give(ngx_http_agentstream_wire_t *wire, ngx_uint_t type, ngx_uint_t part,
    const char *json)
{
    char                           *copy;
    size_t                          size;
    u_char                         *buf, *last;
    ngx_http_agentstream_record_t   record;

    memset(&record, 0, sizeof(record));

    /* exactly as long as the record, so that a sanitizer sees what is beyond */

    copy = malloc(strlen(json));
    memcpy(copy, json, strlen(json));

    record.seq = ++seq;
    record.type = type;
    record.part = part;
    record.json.data = (u_char *) copy;
    record.json.len = strlen(json);

    size = wire->size(state, &record);
    buf = malloc(size);

    state->silent = (seq <= run.seq);
    last = wire->record(state, buf, &record);

    if ((size_t) (last - buf) > size) {
        tap_ok(0, "a record fits");
    }

    if (!state->silent) {
        strncat(out, (char *) buf, last - buf);
    }

    free(buf);
    free(copy);
}


static void
chunk(ngx_uint_t part, const char *text)
{
    char  json[512];

    snprintf(json, sizeof(json), CHUNK, text);
    give(&ngx_http_agentstream_wire_agui, NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE,
         part, json);
}


static void
call(const char *status, const char *output)
{
    char  json[512];

    snprintf(json, sizeof(json), CALL, status, output);
    give(&ngx_http_agentstream_wire_agui,
         NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS, 2, json);
}


static void
end(ngx_http_agentstream_wire_t *wire)
{
    size_t   size;
    u_char  *buf, *last;

    size = wire->end_size + state->pending;
    buf = malloc(size);
    last = wire->end(state, buf);

    if ((size_t) (last - buf) > size) {
        tap_ok(0, "the end fits");
    }

    strncat(out, (char *) buf, last - buf);
    free(buf);
}


static int
has(const char *text)
{
    return strstr(out, text) != NULL;
}


static int
times(const char *text)
{
    int    n;
    char  *p;

    n = 0;

    for (p = strstr(out, text); p; p = strstr(p + 1, text)) {
        n++;
    }

    return n;
}


static void
test_turn(void)
{
    ngx_http_agentstream_wire_t  *wire;

    wire = &ngx_http_agentstream_wire_agui;

    begin(wire);
    chunk(1, "One ");
    chunk(1, "\\u00e9\\n");
    call("pending", "null");
    call("in_progress", "null");
    call("completed", "{\"output\":\"done\\n\"}");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE, 0,
         "{\"type\":\"context_usage\",\"_meta\":null}");
    chunk(3, "Two");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE, 0, END);
    end(wire);

    tap_is_str(tap_str(out),
        "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"thread\","
        "\"runId\":\"run\",\"protocolVersion\":\"1.0\"}\n\n"
        "data: {\"type\":\"STEP_STARTED\",\"stepName\":\"step-1\"}\n\n"
        "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"msg_1-1\","
        "\"role\":\"assistant\"}\n\n"
        "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"msg_1-1\","
        "\"delta\":\"One \"}\n\n"
        "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"msg_1-1\","
        "\"delta\":\"\\u00e9\\n\"}\n\n"
        "data: {\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"msg_1-1\"}\n\n"
        "data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c1\","
        "\"toolCallName\":\"bash\"}\n\n"
        "data: {\"type\":\"TOOL_CALL_ARGS\",\"toolCallId\":\"c1\","
        "\"delta\":\"{\\\"a\\\":\\\"\\\\\\\"\\\"}\"}\n\n"
        "data: {\"type\":\"TOOL_CALL_END\",\"toolCallId\":\"c1\"}\n\n"
        "data: {\"type\":\"TOOL_CALL_RESULT\",\"messageId\":\"c1-result\","
        "\"toolCallId\":\"c1\",\"role\":\"tool\",\"content\":\"done\\n\","
        "\"metadata\":{\"status\":\"completed\"}}\n\n"
        "data: {\"type\":\"CUSTOM\",\"name\":\"context_usage\",\"value\":"
        "{\"type\":\"context_usage\",\"_meta\":null}}\n\n"
        "data: {\"type\":\"STEP_FINISHED\",\"stepName\":\"step-1\"}\n\n"
        "data: {\"type\":\"STEP_STARTED\",\"stepName\":\"step-2\"}\n\n"
        "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"msg_1-3\","
        "\"role\":\"assistant\"}\n\n"
        "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"msg_1-3\","
        "\"delta\":\"Two\"}\n\n"
        "data: {\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"msg_1-3\"}\n\n"
        "data: {\"type\":\"STEP_FINISHED\",\"stepName\":\"step-2\"}\n\n"
        "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"thread\","
        "\"runId\":\"run\",\"outcome\":{\"type\":\"success\"},"
        "\"result\":{\"stopReason\":\"end_turn\"},\"usage\":[{"
        "\"inputTokens\":7,\"outputTokens\":2,\"totalTokens\":9,"
        "\"reasoningTokens\":1,\"cachedInputTokens\":4,"
        "\"cacheWriteInputTokens\":0}]}\n\n",
        "a turn, byte by byte");
}


static void
test_interrupt(void)
{
    ngx_str_t                     id;
    ngx_array_t                   answered;
    ngx_http_agentstream_wire_t  *wire;

    wire = &ngx_http_agentstream_wire_agui;

    begin(wire);
    chunk(1, "One ");
    call("pending", "null");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_QUESTION, 0, ASKED);
    tap_ok(state->waits, "a question waits");
    end(wire);

    tap_ok(has("TOOL_CALL_END") && has("STEP_FINISHED"),
           "everything is closed where the run waits");
    tap_ok(has("\"outcome\":{\"type\":\"interrupt\",\"interrupts\":[{\"id\":"
               "\"question:que_1:msg_turn:3\",\"reason\":\"input_required\","
               "\"message\":\"Q?\",\"responseSchema\":"),
           "the interrupt names question, turn and position");

    /* the client has three records, and has answered */

    begin(wire);
    run.seq = 3;
    id = tap_str("que_1");
    ngx_array_init(&answered, pool, 1, sizeof(ngx_str_t));
    *(ngx_str_t *) ngx_array_push(&answered) = id;
    state->answered = &answered;

    chunk(1, "One ");
    call("pending", "null");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_QUESTION, 0, ASKED);
    tap_ok(!state->waits && out[0] == '\0',
           "what the client has is not sent, what it answered does not wait");
    chunk(1, "more");
    call("in_progress", "null");
    call("failed", "{\"error\":\"no\"}");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE, 0,
         "{\"stopReason\":\"cancelled\",\"_meta\":{}}");
    end(wire);

    tap_is(times("RUN_STARTED"), 1, "the run begins");
    tap_ok(!has("One ") && has("\"messageId\":\"msg_1-1\",\"delta\":\"more\""),
           "a text is continued");
    tap_is(times("TEXT_MESSAGE_START"), 1, "in a message that is opened");
    tap_is(times("TOOL_CALL_START"), 1, "so is a call whose arguments come");
    tap_ok(has("\"content\":\"no\",\"metadata\":{\"status\":\"failed\"}"),
           "a call fails");
    tap_ok(has("\"stepName\":\"step-1\""), "the step is the same");
    tap_ok(has("\"outcome\":{\"type\":\"cancelled\"}}"), "cancelled");

    /* what is answered elsewhere goes on in the same run */

    begin(wire);
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_QUESTION, 0, ASKED);
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_QUESTION_RESOLVED, 0,
         "{\"questionId\":\"que_1\",\"_meta\":null}");
    tap_ok(!state->waits, "resolved elsewhere");
    tap_is(state->pending, 0, "nothing is kept for it");
}


static void
test_plan(void)
{
    ngx_http_agentstream_wire_t  *wire;

    static const char  *plan = "{\"entries\":[{\"content\":\"A\"}],"
                               "\"_meta\":null}";

    wire = &ngx_http_agentstream_wire_agui;

    begin(wire);
    run.state = 0;
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_PLAN, 0, plan);
    tap_ok(has("{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{\"plan\":["
               "{\"content\":\"A\"}]}}"), "a plan for a client without state");
    out[0] = '\0';
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_PLAN, 0, plan);
    tap_ok(has("{\"type\":\"STATE_DELTA\",\"delta\":[{\"op\":\"add\","
               "\"path\":\"/plan\",\"value\":[{\"content\":\"A\"}]}]}"),
           "and then its changes");
}


static void
test_void(void)
{
    ngx_http_agentstream_wire_t  *wire;

    wire = &ngx_http_agentstream_wire_agui;

    begin(wire);
    chunk(1, "wrong");
    chunk(1, "wrong");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED, 0,
         "{\"messageId\":\"msg_1\",\"from\":1,\"to\":2,\"_meta\":null}");
    chunk(1, "right");

    tap_ok(has("{\"type\":\"ACTIVITY_SNAPSHOT\",\"messageId\":\"msg_1-1\","
               "\"activityType\":\"discarded\",\"content\":{},"
               "\"replace\":true}"), "a discarded text is taken back");
    tap_ok(has("\"messageId\":\"msg_1-1-1\",\"delta\":\"right\""),
           "another message has its place");

    call("completed", "{\"output\":\"x\"}");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET, 0,
         "{\"reason\":\"worker_lost\",\"_meta\":null}");
    tap_is(times("\"activityType\":\"discarded\""), 2, "reset: taken back");
    out[0] = '\0';
    call("completed", "{\"output\":\"x\"}");
    tap_ok(out[0] == '\0', "a call is not told twice");

    begin(wire);
    run.seq = 7;
    seq = 20;
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET, 0,
         "{\"reason\":\"not_retained\",\"_meta\":null}");
    tap_ok(state->ended && has("\"code\":\"stream_reset\""),
           "a run that cannot be continued");
}


static void
test_snapshot(void)
{
    ngx_http_agentstream_wire_t  *wire;

    wire = &ngx_http_agentstream_wire_agui_snapshot;

    begin(wire);
    end(wire);
    tap_ok(has("\"messages\":[]}\n\n") && has("RUN_FINISHED"), "of nothing");

    begin(wire);
    run.turn = tap_str(TURN);
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE, 1,
         "{\"messageId\":\"msg_0\",\"content\":{\"text\":\"a\"},"
         "\"_meta\":{\"sessionId\":\"ses_c\"}}");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS, 2,
         "{\"toolCallId\":\"c1\",\"status\":\"completed\",\"rawInput\":{},"
         "\"rawOutput\":{\"output\":\"o\"},\"_meta\":{\"toolName\":\"read\"}}");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED, 0,
         "{\"turnId\":\"" TURN "\",\"_meta\":null}");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_USER, 3,
         "{\"messageId\":\"" TURN "\",\"content\":{\"text\":\"go\"},"
         "\"_meta\":null}");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_USER, 0,
         "{\"messageId\":\"" TURN "\",\"content\":{\"type\":\"image\"},"
         "\"_meta\":null}");
    give(wire, NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE, 4,
         "{\"messageId\":\"msg_9\",\"content\":{\"text\":\"now\"},"
         "\"_meta\":null}");
    end(wire);

    tap_is_str(tap_str(out),
        "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"thread\","
        "\"runId\":\"run\",\"protocolVersion\":\"1.0\"}\n\n"
        "data: {\"type\":\"MESSAGES_SNAPSHOT\",\"messages\":["
        "{\"id\":\"msg_0-1\",\"role\":\"assistant\",\"content\":\"a\","
        "\"subagentRunId\":\"ses_c\"},"
        "{\"id\":\"c1\",\"role\":\"assistant\",\"toolCalls\":[{\"id\":\"c1\","
        "\"type\":\"function\",\"function\":{\"name\":\"read\","
        "\"arguments\":\"{}\"}}]},"
        "{\"id\":\"c1-result\",\"role\":\"tool\",\"toolCallId\":\"c1\","
        "\"content\":\"o\",\"metadata\":{\"status\":\"completed\"}},"
        "{\"id\":\"msg_turn-3\",\"role\":\"user\",\"content\":\"go\"}]}\n\n",
        "up to the prompt of the running turn");

    begin(wire);
    run.turn = tap_str(TURN);
    run.thoughts = 1;
    end(wire);
    tap_ok(has("\"messages\":[{\"id\":\"msg_turn-none\","
               "\"role\":\"reasoning\","
               "\"content\":\"\"}]}\n\ndata: {\"type\":\"ACTIVITY_SNAPSHOT\""),
           "the client's own thoughts go");
}


static ngx_http_agentstream_agui_input_t  input;


static ngx_int_t
body(const char *text)
{
    char       *copy;
    ngx_int_t   rc;
    ngx_str_t   s;

    copy = malloc(strlen(text) ? strlen(text) : 1);
    memcpy(copy, text, strlen(text));

    s.data = (u_char *) copy;
    s.len = strlen(text);

    rc = ngx_http_agentstream_agui_read(pool, &s, &input);
    free(copy);

    return rc;
}


#define IDS   "\"threadId\":\"t-1\",\"runId\":\"r-1\""
#define USER  "{\"id\":\"1\",\"role\":\"user\",\"content\":"

static void
test_input(void)
{
    char                                *p, many[65 * 80 + 128];
    size_t                               i;
    ngx_http_agentstream_body_answer_t  *a;

    static const char  *bad[] = {
        "", "[]", "{", "{}",
        "{\"threadId\":\"t\",\"messages\":[]}",
        "{\"runId\":\"r\",\"messages\":[]}",
        "{\"threadId\":\"a b\",\"runId\":\"r\",\"messages\":[]}",
        "{\"threadId\":\"..\\/x\",\"runId\":\"r\",\"messages\":[]}",
        "{\"threadId\":7,\"runId\":\"r\",\"messages\":[]}",
        "{" IDS "}",
        "{" IDS ",\"messages\":{}}",
        "{" IDS ",\"messages\":[1]}",
        "{" IDS ",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
        "{" IDS ",\"messages\":[{\"id\":\"1\",\"role\":\"boss\"}]}",
        "{" IDS ",\"messages\":[" USER "7}]}",
        "{" IDS ",\"messages\":[" USER "[{\"type\":\"sound\"}]}]}",
        "{" IDS ",\"messages\":[" USER "[{\"type\":\"text\"}]}]}",
        "{" IDS ",\"messages\":[" USER "[{\"type\":\"image\"}]}]}",
        "{" IDS ",\"messages\":[" USER "[{\"type\":\"image\",\"source\":"
            "{\"type\":\"file\",\"value\":\"f\"}}]}]}",
        "{" IDS ",\"messages\":[" USER "[{\"type\":\"image\",\"source\":"
            "{\"type\":\"url\",\"value\":\"DATA:x\"}}]}]}",
        "{" IDS ",\"messages\":[{\"id\":\"1\",\"role\":\"tool\","
            "\"toolCallId\":\"c\",\"content\":\"\"}]}",
        "{" IDS ",\"messages\":[],\"resume\":{}}",
        "{" IDS ",\"messages\":[],\"resume\":[{\"interruptId\":\"x\","
            "\"status\":\"cancelled\"}]}",
        "{" IDS ",\"messages\":[],\"resume\":[{\"interruptId\":"
            "\"question:que_1:msg_1:1:2\",\"status\":\"cancelled\"}]}",
        "{" IDS ",\"messages\":[],\"resume\":[{\"interruptId\":"
            "\"question:que_1:msg_1:x\",\"status\":\"cancelled\"}]}",
        "{" IDS ",\"messages\":[],\"resume\":[{\"interruptId\":"
            "\"question:..:msg_1:1\",\"status\":\"cancelled\"}]}",
        "{" IDS ",\"messages\":[],\"resume\":[{\"interruptId\":"
            "\"question:que_1:msg_1:1\",\"status\":\"later\"}]}",
        "{" IDS ",\"messages\":[],\"resume\":[{\"interruptId\":"
            "\"question:que_1:msg_1:1\",\"status\":\"resolved\"}]}",
        "{" IDS ",\"messages\":[],\"resume\":[{\"interruptId\":"
            "\"question:que_1:msg_1:1\",\"status\":\"cancelled\"},"
            "{\"interruptId\":\"question:que_1:msg_1:1\","
            "\"status\":\"cancelled\"}]}",
        "{" IDS ",\"messages\":[],\"resume\":[{\"interruptId\":"
            "\"question:que_1:msg_1:1\",\"status\":\"cancelled\"},"
            "{\"interruptId\":\"question:que_2:msg_2:1\","
            "\"status\":\"cancelled\"}]}"
    };

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tap_ok(body(bad[i]) == NGX_DECLINED && input.error.len, bad[i]);
    }

    tap_is(body("{" IDS ",\"messages\":[" USER "\"old\"},{\"id\":\"2\","
                "\"role\":\"assistant\"}," USER "\"a \\\"b\\\"\"}]}"), NGX_OK,
           "a prompt");
    tap_is_str(input.thread, "t-1", "its thread");
    tap_is_str(input.run, "r-1", "its run");
    tap_is_str(input.prompt, "{\"content\":\"a \\\"b\\\"\"}",
               "the last message");
    tap_ok(!input.state, "a client without a state");

    tap_is(body("{" IDS ",\"state\":{},\"messages\":[" USER "[{\"type\":"
                "\"text\",\"text\":\"x\"},{\"type\":\"image\",\"source\":{"
                "\"type\":\"data\",\"value\":\"QUJD\",\"mimeType\":"
                "\"image/png\"}},{\"type\":\"document\",\"source\":{\"type\":"
                "\"url\",\"value\":\"file:///w/a\"}}]}]}"), NGX_OK, "parts");
    tap_is_str(input.prompt, "{\"content\":[{\"type\":\"text\",\"text\":\"x\"}"
               ",{\"type\":\"resource\",\"resource\":{\"blob\":\"QUJD\","
               "\"mimeType\":\"image/png\"}},{\"type\":\"resource_link\","
               "\"uri\":\"file:///w/a\"}]}", "as blocks");
    tap_ok(input.state, "a client with a state");

    tap_is(body("{" IDS ",\"messages\":[{\"id\":\"c-result\",\"role\":"
                "\"tool\",\"toolCallId\":\"c\"}]}"), NGX_OK,
           "a result of ours at the end");
    tap_ok(input.prompt.len == 0 && input.answers.nelts == 0, "is no prompt");

    tap_is(body("{" IDS ",\"messages\":[" USER "\"x\"}],\"resume\":["
                "{\"interruptId\":\"permission:per_1:msg_1:12\",\"status\":"
                "\"resolved\",\"payload\":{\"approved\":true}},"
                "{\"interruptId\":\"permission:per_2:msg_1:12\",\"status\":"
                "\"resolved\",\"payload\":{\"reply\":\"always\"}},"
                "{\"interruptId\":\"question:que_1:msg_1:13\",\"status\":"
                "\"cancelled\"}]}"), NGX_OK, "answers");
    a = input.answers.elts;
    tap_is(input.answers.nelts, 3, "all of them");
    tap_is_str(a[0].body, "{\"reply\":\"once\"}", "approved");
    tap_is_str(a[1].body, "{\"reply\":\"always\"}", "always");
    tap_is_str(a[1].id, "per_2", "the request");
    tap_is_str(input.turn, "msg_1", "the turn");
    tap_ok(a[1].request == NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION
           && input.seq == 13, "the position");
    tap_ok(a[2].body.len == 0 && a[2].optional
           && a[2].request == NGX_HTTP_AGENTSTREAM_REJECT_QUESTION,
           "rejected");
    tap_is(input.prompt.len, 0, "and no prompt");

    /* each is compared with all others, so there must not be too many */

    p = many + sprintf(many, "{" IDS ",\"messages\":[],\"resume\":[");

    for (i = 0; i < 64; i++) {
        p += sprintf(p, "%s{\"interruptId\":\"question:que_%d:msg_1:1\","
                     "\"status\":\"cancelled\"}", i ? "," : "", (int) i);
    }

    strcpy(p, "]}");
    tap_is(body(many), NGX_OK, "64 answers");

    strcpy(p, ",{\"interruptId\":\"question:que_64:msg_1:1\",\"status\":"
              "\"cancelled\"}]}");
    tap_is(body(many), NGX_DECLINED, "65 answers");
}


int
main(void)
{
    pool = ngx_create_pool(4096, &ngx_unit_log);

    test_turn();
    test_interrupt();
    test_plan();
    test_void();
    test_snapshot();
    test_input();

    ngx_destroy_pool(pool);

    return tap_done();
}
