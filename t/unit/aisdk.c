
/*
 * Copyright (C) agentstream contributors
 */


/*
 * aisdk*.c: records as chunks of the AI SDK, in buffers of exactly the size
 * that was asked for, and the bodies that its clients send.
 * Breaks when: a size is too small, a text is not closed before something else,
 * a call is announced twice, a response that continues sends what the client
 * has, begins no new step after an answer or ends before the answer has come, a
 * question is shown that was answered already, an approval is shown at a call
 * beside which another one runs, or not at the call because of one that an
 * earlier response has announced, a body of another shape is accepted, a
 * message is prompted twice, or an answer is lost.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_aisdk.h"
#include "ngx_http_agentstream_opencode.h"
#include "tap.h"


#define MESSAGE   NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE
#define THOUGHT   NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT
#define STARTED   NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED
#define TOOL      NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS
#define RESPONSE  NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE
#define ASKED     NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION
#define RESOLVED  NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION_RESOLVED
#define QUESTION  NGX_HTTP_AGENTSTREAM_RECORD_QUESTION
#define ANSWERED  NGX_HTTP_AGENTSTREAM_RECORD_QUESTION_RESOLVED

#define TIME      "2026-01-22T00:11:51.712Z"

#define CALL      "{\"toolCallId\":\"%s\",\"title\":\"T\",\"status\":\"%s\"," \
                  "\"rawInput\":{\"a\":1},\"rawOutput\":%s,\"content\":%s,"   \
                  "\"_meta\":{\"toolName\":\"bash\"}}"
#define ASK       "{\"permissionId\":\"per_%s\",\"permission\":\"bash\","     \
                  "\"toolCall\":{\"toolCallId\":\"%s\",\"title\":\"T\","      \
                  "\"rawInput\":{\"b\":2}},\"_meta\":null}"
#define REPLY     "{\"permissionId\":\"per_%s\",\"reply\":\"%s\"}"
#define END       "{\"stopReason\":\"%s\"}"

#define START     "{start,\"messageId\":\"msg_t\"}"
#define CALLED(id)                                                            \
    "{tool-input-start,\"toolCallId\":\"" id "\",\"toolName\":\"bash\","      \
    "\"dynamic\":true,\"providerExecuted\":true}"                             \
    "{tool-input-available,\"toolCallId\":\"" id "\",\"toolName\":\"bash\","  \
    "\"dynamic\":true,\"providerExecuted\":true,\"title\":\"T\","             \
    "\"input\":{\"a\":1}}"
#define PAUSED(seq, ends)                                                     \
    "{finish-step}{finish,\"finishReason\":\"tool-calls\","                   \
    "\"messageMetadata\":{\"agentstream\":{\"turn\":\"msg_t\",\"seq\":" seq   \
    ",\"ends\":[" ends "]}}}[DONE]"


extern ngx_log_t  ngx_unit_log;

static ngx_pool_t                         *pool;
static ngx_http_agentstream_wire_state_t  *state;
static ngx_http_agentstream_wire_t        *wire;
static uint64_t                            seq, skip, first;
static ngx_uint_t                          rebuilt;     /* without numbers */
static char                                out[65536];


/* the client has the records up to from, and the response before ended with the
   record earlier; 0: there was none */

static void
begin(uint64_t from, const char *answered, uint64_t earlier)
{
    ngx_array_t  *ids;

    static ngx_http_agentstream_aisdk_chat_t  chat;

    wire = &ngx_http_agentstream_aisdk_wire;
    state = ngx_pcalloc(pool, wire->state_size);

    state->pool = pool;
    state->turn = tap_str("msg_t");

    if (from) {
        ids = ngx_array_create(pool, 1, sizeof(ngx_str_t));
        state->answered = ids;

        ngx_array_init(&chat.ends, pool, 1, sizeof(uint64_t));
        chat.seq = from;
        state->request = &chat;

        if (earlier) {
            *(uint64_t *) ngx_array_push(&chat.ends) = earlier;
        }

        state->pending = ngx_http_agentstream_aisdk_ends(&chat);

        if (answered) {
            *(ngx_str_t *) ngx_array_push(ids) = tap_str(answered);
        }
    }

    seq = first;
    skip = from;
    rebuilt = 0;
    out[0] = '\0';
}


/* the frames without what is the same in all of them:
   data: {"type":"x",...}\n\n becomes {x,...} */

static void
add(u_char *p, u_char *last)
{
    char    *to;
    size_t   len;

    to = out + strlen(out);

    while (p < last) {
        if (last - p < 8 || memcmp(p, "data: ", 6) != 0) {
            tap_ok(0, "a frame begins with data:");
            return;
        }

        p += 6;
        len = (u_char *) memchr(p, LF, last - p) - p;

        if (memcmp(p, "{\"type\":\"", 9) == 0) {
            *to++ = '{';
            p += 9;
            len -= 9;

            while (*p != '"') {
                *to++ = *p++;
                len--;
            }

            p++;
            len--;
        }

        memcpy(to, p, len);
        to += len;
        p += len + 2;
    }

    *to = '\0';
}


static void
give(ngx_uint_t type, ngx_uint_t part, const char *origin, const char *json)
{
    char                           *copy;
    size_t                          size, before;
    u_char                         *buf, *last;
    ngx_http_agentstream_record_t   record;

    memset(&record, 0, sizeof(record));

    copy = malloc(strlen(json));
    memcpy(copy, json, strlen(json));

    record.seq = rebuilt ? 0 : ++seq;
    record.type = type;
    record.part = part;
    record.json.data = (u_char *) copy;
    record.json.len = strlen(json);

    if (origin) {
        record.origin = tap_str(origin);
    }

    before = state->pending;
    size = wire->size(state, &record);
    buf = malloc(size);

    state->silent = (!rebuilt && seq <= skip);
    last = wire->record(state, buf, &record);

    if ((size_t) (last - buf) + state->pending > size + before) {
        tap_ok(0, "a record fits, and what it adds to the end");
    }

    if (!state->silent) {
        add(buf, last);
    }

    free(buf);
    free(copy);
}


static void
text(ngx_uint_t type, ngx_uint_t part, const char *origin, const char *value)
{
    u_char     buf[512], *p;
    ngx_str_t  message, content, meta;

    message = tap_str("msg_1");
    content = tap_str(value);
    meta = tap_str("null");

    p = ngx_http_agentstream_acp_chunk(buf, (u_char *) TIME, type, &message,
                                       &content, &meta);
    *p = '\0';
    give(type, part, origin, (char *) buf);
}


static void
call(ngx_uint_t part, const char *id, const char *status)
{
    char  json[512];

    snprintf(json, sizeof(json), CALL, id, status,
             strcmp(status, "completed") == 0 ? "{\"output\":\"x\"}"
             : strcmp(status, "failed") == 0 ? "{\"error\":\"bad\"}" : "null",
             "null");
    give(TOOL, part, NULL, json);
}


static void
ask(ngx_uint_t type, const char *format, const char *a, const char *b)
{
    char  json[512];

    snprintf(json, sizeof(json), format, a, b);
    give(type, 0, NULL, json);
}


/* ends the response, and compares all of it */

static void
is(const char *expected, const char *name)
{
    size_t      size;
    u_char     *buf, *last;
    ngx_str_t   got;

    size = wire->end_size + state->pending;
    buf = malloc(size);
    last = wire->end(state, buf);

    tap_ok((size_t) (last - buf) <= size, "the end fits");
    add(buf, last);
    free(buf);

    got = tap_str(out);
    tap_is_str(got, expected, name);
}


static const char *
ended(void)
{
    u_char  *buf;

    buf = malloc(wire->end_size + state->pending);
    add(buf, wire->end(state, buf));
    free(buf);

    return out;
}


static void
test_text(void)
{
    begin(0, NULL, 0);

    give(STARTED, 0, NULL, "{\"_meta\":null}");
    text(THOUGHT, 1, "ses msg_1 prt1 ", "hm");
    text(MESSAGE, 2, "ses msg_1 prt2 ", "a\\n");
    text(MESSAGE, 2, NULL, "b");
    text(MESSAGE, 3, "ses msg_2 prt3 ", "c");
    ask(RESPONSE, END, "max_tokens", "");

    is(START "{start-step}"
       "{reasoning-start,\"id\":\"1\",\"providerMetadata\":{\"agentstream\":"
       "{\"seq\":2}}}{reasoning-delta,\"id\":\"1\",\"delta\":\"hm\"}"
       "{reasoning-end,\"id\":\"1\"}"
       "{text-start,\"id\":\"2\",\"providerMetadata\":{\"agentstream\":"
       "{\"seq\":3}}}{text-delta,\"id\":\"2\",\"delta\":\"a\\n\"}"
       "{text-delta,\"id\":\"2\",\"delta\":\"b\"}{text-end,\"id\":\"2\"}"
       "{finish-step}{start-step}"
       "{text-start,\"id\":\"3\",\"providerMetadata\":{\"agentstream\":"
       "{\"seq\":5}}}{text-delta,\"id\":\"3\",\"delta\":\"c\"}"
       "{text-end,\"id\":\"3\"}{finish-step}"
       "{finish,\"finishReason\":\"length\"}[DONE]",
       "thoughts, texts and steps");

    begin(0, NULL, 0);

    text(MESSAGE, 1, NULL, "a");
    give(NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED, 0, NULL,
         "{\"messageId\":\"m\",\"from\":1,\"to\":1,\"_meta\":null}");
    text(MESSAGE, 1, NULL, "b");
    ask(RESPONSE, END, "cancelled", "");

    is(START "{start-step}"
       "{text-start,\"id\":\"1\",\"providerMetadata\":{\"agentstream\":"
       "{\"seq\":1}}}{text-delta,\"id\":\"1\",\"delta\":\"a\"}"
       "{text-end,\"id\":\"1\"}{data-discarded,\"data\":{\"from\":1,\"to\":1}}"
       "{text-start,\"id\":\"2\",\"providerMetadata\":{\"agentstream\":"
       "{\"seq\":3}}}{text-delta,\"id\":\"2\",\"delta\":\"b\"}"
       "{text-end,\"id\":\"2\"}{abort,\"reason\":\"cancelled\"}{finish-step}"
       "{finish,\"finishReason\":\"other\"}[DONE]",
       "text that is void, and a turn that was stopped");
}


static void
test_asked(void)
{
    /* OpenCode asks before it tells the input */

    begin(0, NULL, 0);
    call(1, "c1", "pending");
    ask(ASKED, ASK, "1", "c1");
    tap_is(state->waits, 1, "the client is asked");
    call(1, "c1", "in_progress");

    is(START "{start-step}" CALLED("c1")
       "{tool-approval-request,\"approvalId\":\"per_1\",\"toolCallId\":\"c1\"}"
       PAUSED("3", ""), "an approval of the call");

    begin(0, NULL, 0);
    call(1, "c1", "pending");
    ask(ASKED, ASK, "1", "c1");

    is(START "{start-step}{tool-input-start,\"toolCallId\":\"c1\","
       "\"toolName\":\"bash\",\"dynamic\":true,\"providerExecuted\":true}"
       "{tool-input-available,\"toolCallId\":\"c1\",\"toolName\":\"bash\","
       "\"dynamic\":true,\"providerExecuted\":true,\"title\":\"T\","
       "\"input\":{\"b\":2}}"
       "{tool-approval-request,\"approvalId\":\"per_1\",\"toolCallId\":\"c1\"}"
       PAUSED("2", ""), "an approval of a call whose input is not known yet");

    begin(2, "per_1", 0);
    call(1, "c1", "pending");
    ask(ASKED, ASK, "1", "c1");
    call(1, "c1", "in_progress");
    ask(RESOLVED, REPLY, "1", "once");

    is(START "{tool-input-available,\"toolCallId\":\"c1\","
       "\"toolName\":\"bash\",\"dynamic\":true,\"providerExecuted\":true,"
       "\"title\":\"T\",\"input\":{\"a\":1}}{finish-step}{start-step}[DONE]",
       "which follows");

    /* the same turn, continued with a refusal */

    begin(3, "per_1", 0);
    call(1, "c1", "pending");
    ask(ASKED, ASK, "1", "c1");
    call(1, "c1", "in_progress");
    tap_is(state->waits, 0, "what was answered does not wait");
    call(1, "c1", "in_progress");
    tap_is(state->waits, 0, "also if its outcome comes late");
    ask(RESOLVED, REPLY, "1", "reject");
    call(1, "c1", "failed");
    ask(RESPONSE, END, "end_turn", "");

    is(START "{finish-step}{start-step}"
       "{tool-output-denied,\"toolCallId\":\"c1\"}{finish-step}"
       "{finish,\"finishReason\":\"stop\"}[DONE]", "it was refused");

    /* a reader who comes later is not asked */

    begin(0, NULL, 0);
    call(1, "c1", "in_progress");
    ask(ASKED, ASK, "1", "c1");
    ask(RESOLVED, REPLY, "1", "once");
    tap_is(state->waits, 0, "nothing waits any more");
    call(1, "c1", "completed");
    ask(RESPONSE, END, "end_turn", "");

    is(START "{start-step}" CALLED("c1")
       "{tool-output-available,\"toolCallId\":\"c1\",\"dynamic\":true,"
       "\"providerExecuted\":true,\"output\":{\"output\":\"x\"}}{finish-step}"
       "{finish,\"finishReason\":\"stop\"}[DONE]", "it was answered already");
}


static void
test_beside(void)
{
    /* another call runs: the library would not send the answer */

    begin(0, NULL, 0);
    call(1, "c1", "in_progress");
    call(2, "c2", "in_progress");
    ask(ASKED, ASK, "1", "c1");

    is(START "{start-step}" CALLED("c1") CALLED("c2")
       "{finish-step}{start-step}"
       "{tool-input-available,\"toolCallId\":\"per_1\",\"toolName\":\"bash\","
       "\"dynamic\":true,\"providerExecuted\":true,\"title\":\"T\","
       "\"input\":{\"b\":2}}"
       "{tool-approval-request,\"approvalId\":\"per_1\","
       "\"toolCallId\":\"per_1\"}" PAUSED("3", ""), "a step of its own");

    begin(3, "per_1", 0);
    call(1, "c1", "in_progress");
    call(2, "c2", "in_progress");
    ask(ASKED, ASK, "1", "c1");
    ask(RESOLVED, REPLY, "1", "once");
    call(2, "c2", "completed");
    call(1, "c1", "failed");
    ask(RESPONSE, END, "end_turn", "");

    is(START "{tool-output-available,\"toolCallId\":\"per_1\","
       "\"dynamic\":true,\"providerExecuted\":true,"
       "\"output\":{\"reply\":\"once\"}}{finish-step}{start-step}"
       "{tool-output-available,\"toolCallId\":\"c2\",\"dynamic\":true,"
       "\"providerExecuted\":true,\"output\":{\"output\":\"x\"}}"
       "{tool-output-error,\"toolCallId\":\"c1\",\"dynamic\":true,"
       "\"providerExecuted\":true,\"errorText\":\"bad\"}{finish-step}"
       "{finish,\"finishReason\":\"stop\"}[DONE]", "and its end");

    begin(0, NULL, 0);
    give(QUESTION, 0, NULL, "{\"questionId\":\"que_1\",\"questions\":[{}],"
         "\"toolCallId\":null,\"_meta\":null}");

    is(START "{start-step}"
       "{tool-input-available,\"toolCallId\":\"que_1\","
       "\"toolName\":\"question\",\"dynamic\":true,"
       "\"providerExecuted\":false,\"providerMetadata\":{\"agentstream\":"
       "{\"questionId\":\"que_1\"}},\"input\":{\"questions\":[{}]}}"
       PAUSED("1", ""), "a question is a call for the client");
}


#define OUTPUT(id)                                                            \
    "{tool-output-available,\"toolCallId\":\"" id "\",\"dynamic\":true,"      \
    "\"providerExecuted\":true,\"output\":{\"output\":\"x\"}}"

/* the first call has got its approval, and still runs when the second one asks;
   the third response knows how the two before looked */

static void
second(uint64_t from, const char *answered, uint64_t earlier)
{
    begin(from, answered, earlier);
    call(1, "c1", "pending");
    ask(ASKED, ASK, "1", "c1");
    ask(RESOLVED, REPLY, "1", "once");
    call(1, "c1", "in_progress");
    call(2, "c2", "pending");
    ask(ASKED, ASK, "2", "c2");
}


static void
test_earlier(void)
{
    second(2, "per_1", 0);
    tap_is(state->waits, 1, "the second call asks");

    is(START "{finish-step}{start-step}"
       "{tool-input-start,\"toolCallId\":\"c2\",\"toolName\":\"bash\","
       "\"dynamic\":true,\"providerExecuted\":true}"
       "{tool-input-available,\"toolCallId\":\"c2\",\"toolName\":\"bash\","
       "\"dynamic\":true,\"providerExecuted\":true,\"title\":\"T\","
       "\"input\":{\"b\":2}}"
       "{tool-approval-request,\"approvalId\":\"per_2\",\"toolCallId\":\"c2\"}"
       PAUSED("6", "2"), "at its own call, although the first one runs");

    second(6, "per_2", 2);
    tap_is(state->waits, 0, "and does not wait any more");
    ask(RESOLVED, REPLY, "2", "once");
    call(2, "c2", "completed");
    call(1, "c1", "completed");
    ask(RESPONSE, END, "end_turn", "");

    is(START "{finish-step}{start-step}" OUTPUT("c2") OUTPUT("c1")
       "{finish-step}{finish,\"finishReason\":\"stop\"}[DONE]",
       "what follows is about the calls that the client knows");

    /* not answered: it still waits, and the list grows */

    second(6, NULL, 2);
    call(1, "c1", "completed");
    tap_is(state->waits, 1, "the second one waits again");
    is(START OUTPUT("c1") PAUSED("7", "2,6"), "and is not shown twice");
}


static void
test_reset(void)
{
    begin(5, NULL, 0);
    skip = 0;
    give(NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET, 0, NULL,
         "{\"reason\":\"not_retained\",\"_meta\":null}");
    is(START "{data-reset,\"data\":{\"reason\":\"not_retained\"}}[DONE]",
       "who has something is told that it is void");

    begin(0, NULL, 0);
    give(NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET, 0, NULL,
         "{\"reason\":\"not_retained\",\"_meta\":null}");
    is(START "[DONE]", "who has nothing is not");

    /* the client had the reset in an earlier response, which ended after it */

    begin(3, "per_1", 0);
    give(NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET, 0, NULL,
         "{\"reason\":\"worker_lost\",\"_meta\":null}");
    call(1, "c1", "pending");
    ask(ASKED, ASK, "1", "c1");
    ask(RESOLVED, REPLY, "1", "once");
    call(2, "c2", "pending");
    ask(ASKED, ASK, "2", "c2");
    tap_ok(strstr(ended(), "\"seq\":6,\"ends\":[3]") != NULL,
           "where responses after a reset have ended is told");
}


/* the records of a rebuilt turn have no numbers, and those of a turn that was
   taken over by other machines do not begin with 1 */

static void
test_numbers(void)
{
    size_t  pending, asked;

    begin(5, NULL, 2);
    rebuilt = 1;
    give(NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET, 0, NULL,
         "{\"reason\":\"not_retained\",\"_meta\":null}");
    pending = state->pending;
    ask(ASKED, ASK, "1", "c1");
    asked = state->pending;
    tap_ok(asked > pending, "rebuilt: room for what is asked");
    text(MESSAGE, 1, NULL, "a");
    tap_is(state->pending, asked, "... which stays");
    ask(RESOLVED, REPLY, "1", "once");
    tap_is(state->pending, pending, "... until it has its outcome");
    text(MESSAGE, 1, NULL, "b");

    first = 1000;
    begin(1001, NULL, 0);
    call(1, "c1", "pending");
    ask(ASKED, ASK, "1", "c1");
    first = 0;
}


/* error NULL: accepted, and the prompt is as expected */

static void
body(const char *json, const char *expected, const char *error)
{
    ngx_int_t                          rc;
    ngx_str_t                          input, got;
    ngx_http_agentstream_aisdk_chat_t  chat;

    input.len = strlen(json);
    input.data = malloc(input.len);
    memcpy(input.data, json, input.len);

    rc = ngx_http_agentstream_aisdk_chat(pool, &input, &chat);
    free(input.data);

    if (error == NULL) {
        tap_is(rc, NGX_OK, json);
        tap_is_str(chat.prompt, expected, "the prompt");
        return;
    }

    tap_is(rc, NGX_DECLINED, json);
    got.data = chat.error.data;
    got.len = chat.error.len;
    tap_is_str(got, error, "and why");
}


#define CHAT(messages)  "{\"id\":\"c\",\"messages\":" messages "}"
#define USER(parts)     CHAT("[{\"role\":\"user\",\"id\":\"m1\",\"parts\":"   \
                             parts "}]")
#define ASSISTANT(parts)                                                      \
    CHAT("[{\"role\":\"assistant\",\"id\":\"msg_t\",\"metadata\":"            \
         "{\"agentstream\":{\"turn\":\"msg_t\",\"seq\":7,\"ends\":[2,5]}},"   \
         "\"parts\":" parts "}]")
#define APPROVED(id)                                                          \
    "{\"type\":\"dynamic-tool\",\"state\":\"approval-responded\","            \
    "\"approval\":{\"id\":\"" id "\",\"approved\":true}}"


static void
test_prompt(void)
{
    body(USER("[{\"type\":\"text\",\"text\":\"Hi\",\"x\":1},"
              "{\"type\":\"file\",\"mediaType\":\"image/png\",\"filename\":"
              "\"a\",\"url\":\"data:,\"}]"),
         "{\"client_request_id\":\"m1\",\"parts\":[{\"type\":\"text\","
         "\"text\":\"Hi\"},{\"type\":\"file\",\"mime\":\"image/png\","
         "\"url\":\"data:,\",\"filename\":\"a\"}]}", NULL);

    body("{\"agent\":\"build\",\"trigger\":\"submit-message\",\"id\":\"c\","
         "\"messages\":[{\"role\":\"nobody\"},{\"role\":\"user\",\"id\":\"m\","
         "\"parts\":[]}]}", "{\"agent\":\"build\",\"client_request_id\":\"m\","
         "\"parts\":[]}", NULL);

    body("[]", NULL, "the body must be an object");
    body("{\"id\":\"c\"}", NULL, "\"messages\" is required");
    body(CHAT("[]"), NULL,
         "\"messages\" must be an array of objects, not empty");
    body(CHAT("[1]"), NULL,
         "\"messages\" must be an array of objects, not empty");
    body("{\"id\":\"a b\",\"messages\":[]}", NULL,
         "\"id\" must be 1 to 80 of A-Z a-z 0-9 . _ : ~ -");
    body("{\"id\":\"c\",\"trigger\":\"regenerate-message\"}", NULL,
         "a message cannot be regenerated: the session keeps what was said");
    body("{\"id\":\"c\",\"messageId\":\"m1\",\"messages\":[{\"role\":\"user\","
         "\"id\":\"m1\",\"parts\":[]}]}", NULL, "a message cannot be sent "
         "again in another form: the session keeps what was said");
    body("{\"id\":\"c\",\"x\":1}", NULL, "unknown field \"x\"");
    body(CHAT("[{\"role\":\"system\"}]"), NULL, "\"role\" of the last message "
         "must be \"user\" or \"assistant\"");
    body(CHAT("[{\"role\":\"user\",\"parts\":[]}]"), NULL, "\"id\" of the last "
         "message must be a string of 1 to 128 bytes");
    body(USER("{}"), NULL, "\"parts\" of the last message must be an array");
    body(USER("[{\"type\":\"data-x\"}]"), NULL,
         "\"parts[0].type\" must be \"text\" or \"file\"");
    body(USER("[{\"type\":\"text\"}]"), NULL,
         "\"parts[0].text\" must be a string");
    body(USER("[{\"type\":\"file\",\"url\":\"data:,\"}]"), NULL,
         "\"parts[0].mediaType\" must be a string, not empty");
}


static void
test_answers(void)
{
    char                                 text[256];
    ngx_int_t                            rc;
    ngx_str_t                            input;
    ngx_uint_t                           i;
    ngx_http_agentstream_aisdk_chat_t    chat;
    ngx_http_agentstream_body_answer_t  *a;

    static const char  *ends[] = {
        "{\"a\":1}", "1", "[0]", "[-1]", "[1.5]", "[\"1\"]", "[2,2]", "[3,2]",
        "[1,7]", "[[1]]", "[18446744073709551617]"
    };

    input = tap_str(ASSISTANT("[{\"type\":\"text\",\"text\":\"x\"},"
        APPROVED("per_1") ",{\"type\":\"dynamic-tool\",\"state\":"
        "\"approval-responded\",\"approval\":{\"id\":\"per_2\","
        "\"approved\":false,\"reason\":\"no\"}},"
        "{\"state\":\"output-available\",\"providerExecuted\":true},"
        "{\"state\":\"output-available\",\"output\":[\"Blue\",[\"a\",\"b\"]],"
        "\"callProviderMetadata\":{\"agentstream\":{\"questionId\":\"que_1\"}}"
        "},{\"state\":\"output-error\",\"errorText\":\"x\","
        "\"callProviderMetadata\":{\"agentstream\":{\"questionId\":\"que_2\"}}"
        "},{\"state\":\"output-available\",\"output\":\"Red\","
        "\"callProviderMetadata\":{\"agentstream\":{\"questionId\":\"que_3\"}}"
        "}]"));

    rc = ngx_http_agentstream_aisdk_chat(pool, &input, &chat);
    a = chat.answers.elts;

    tap_is(rc, NGX_OK, "answers");
    tap_is(chat.prompt.len, 0, "are no prompt");
    tap_is_str(chat.turn, "msg_t", "the turn");
    tap_is(chat.seq, 7, "how much of it the client has");
    tap_is(chat.ends.nelts, 2, "and where it has ended before");
    tap_is(chat.answers.nelts, 5, "all of them");
    tap_is_str(a[0].body, "{\"reply\":\"once\"}", "allowed");
    tap_is_str(a[1].body, "{\"reply\":\"reject\",\"message\":\"no\"}",
               "refused, and why");
    tap_is_str(a[2].body, "{\"answers\":[[\"Blue\"],[\"a\",\"b\"]]}",
               "one answer each");
    tap_is_str(a[3].id, "que_2", "rejected");
    tap_is(a[3].request, NGX_HTTP_AGENTSTREAM_REJECT_QUESTION, "likewise");
    tap_is_str(a[4].body, "{\"answers\":[[\"Red\"]]}", "a single answer");

    body(CHAT("[{\"role\":\"assistant\",\"parts\":[]}]"), NULL,
         "the last message must be the user's, or one that waits for an "
         "answer, with its \"metadata\"");
    for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        snprintf(text, sizeof(text), CHAT("[{\"role\":\"assistant\","
                 "\"metadata\":{\"agentstream\":{\"turn\":\"msg_t\","
                 "\"seq\":7,\"ends\":%s}},\"parts\":[]}]"), ends[i]);
        body(text, NULL, "\"ends\" in the metadata of the last message must be "
             "at most 4096 numbers in ascending order, below \"seq\"");
    }

    body(ASSISTANT("1"), NULL,
         "\"parts\" of the last message must be an array");
    body(ASSISTANT("[" APPROVED("per_1") "," APPROVED("per_1") "]"), NULL,
         "something was answered twice");
    body(ASSISTANT("[" APPROVED("../x") "]"), NULL,
         "the id of what was answered is none");
    body(ASSISTANT("[{\"state\":\"approval-responded\",\"approval\":{}}]"),
         NULL, "\"approval\" must have \"id\", \"approved\" and, if there is "
         "one, a \"reason\"");
    body(ASSISTANT("[{\"state\":\"output-available\",\"output\":1}]"), NULL,
         "a tool's result was sent that nobody waits for");
    body(ASSISTANT("[{\"state\":\"output-available\",\"output\":1,"
         "\"callProviderMetadata\":{\"agentstream\":{\"questionId\":\"que_1\"}"
         "}}]"), NULL, "the output of a question must be {\"answers\": array "
         "of arrays of strings}");
}


int
main(void)
{
    pool = ngx_create_pool(4096, &ngx_unit_log);

    test_text();
    test_asked();
    test_beside();
    test_earlier();
    test_reset();
    test_numbers();
    test_prompt();
    test_answers();

    ngx_destroy_pool(pool);

    return tap_done();
}
