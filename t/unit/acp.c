
/*
 * Copyright (C) agentstream contributors
 */


/*
 * acp.c: each packet byte by byte, in buffers of exactly the size that was
 * asked for.
 * Breaks when: a size is too small, a comma or a field is missing, a text is
 * escaped twice or not at all, half a surrogate pair or a line feed gets
 * through, a timestamp is off, or a failed allocation is forgotten.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#define TAP_REALLOC  1

#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_acp.h"
#include "tap.h"


#define TIMESTAMP  "2026-01-22T00:11:51.712Z"


static ngx_http_agentstream_acp_buf_t  buf;


static void
is_buf(const char *expected, const char *name)
{
    ngx_str_t  got;

    got.data = buf.start;
    got.len = buf.len;

    tap_is_str(got, expected, name);

    ngx_http_agentstream_acp_destroy(&buf);
}


static void
test_timestamp(void)
{
    u_char     *end, text[NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN];
    ngx_str_t   s;

    s.data = text;
    s.len = sizeof(text);

    end = ngx_http_agentstream_acp_timestamp(text, 1769040711, 712);
    tap_is(end - text, sizeof(text), "a timestamp's length");
    tap_is_str(s, TIMESTAMP, "a timestamp");

    ngx_http_agentstream_acp_msec(text, 8);
    tap_is_str(s, "2026-01-22T00:11:51.008Z", "some milliseconds later");

    (void) ngx_http_agentstream_acp_timestamp(text, 951782400, 7);
    tap_is_str(s, "2000-02-29T00:00:00.007Z", "a leap day");
}


static void
error(const char *message, ngx_uint_t code, const char *details,
    const char *expected)
{
    size_t      size;
    u_char     *p, *end;
    ngx_str_t   m, d, *dp, got;

    m = tap_str(message);
    dp = NULL;

    if (details) {
        d = tap_str(details);
        dp = &d;
    }

    size = ngx_http_agentstream_acp_error_size(&m, dp);
    p = malloc(size);

    end = ngx_http_agentstream_acp_error(p, (u_char *) TIMESTAMP, &m, code,
                                         dp);
    got.data = p;
    got.len = end - p;

    tap_ok(got.len <= size, "the size of an error");
    tap_is_str(got, expected, "an error");

    free(p);
}


static void
test_error(void)
{
    error("Session not found", 0, NULL,
          "{\"type\":\"error\",\"timestamp\":\"" TIMESTAMP "\","
          "\"message\":\"Session not found\",\"code\":null,"
          "\"details\":null}");

    error("\"\n\x01\xff", 18446744073709551615u, "{\"a\":\n1}",
          "{\"type\":\"error\",\"timestamp\":\"" TIMESTAMP "\","
          "\"message\":\"\\\"\\n\\u0001\xef\xbf\xbd\","
          "\"code\":18446744073709551615,\"details\":{\"a\": 1}}");

    error("\x01\x01\x01\x01\x01\x01\x01\x01", 1, NULL,
          "{\"type\":\"error\",\"timestamp\":\"" TIMESTAMP "\",\"message\":\""
          "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\","
          "\"code\":1,\"details\":null}");
}


static void
chunk(ngx_uint_t kind, const char *message, const char *text,
    const char *meta, const char *expected)
{
    size_t      size;
    u_char     *p, *end;
    ngx_str_t   m, *mp, t, me, got;

    mp = NULL;

    if (message) {
        m = tap_str(message);
        mp = &m;
    }

    t = tap_str(text);
    me = tap_str(meta);

    size = ngx_http_agentstream_acp_chunk_size(mp, &t, &me);
    p = malloc(size);

    end = ngx_http_agentstream_acp_chunk(p, (u_char *) TIMESTAMP, kind, mp, &t,
                                         &me);
    got.data = p;
    got.len = end - p;

    tap_ok(got.len <= size, "the size of a chunk");
    tap_is_str(got, expected, "a chunk");

    tap_is(ngx_http_agentstream_acp_chunk_text(&got, kind, &t),
           strcmp(meta, "null") == 0 ? NGX_OK : NGX_DECLINED,
           "whether it is the session's own");

    if (strcmp(meta, "null") == 0) {
        tap_is_str(t, text, "the text of a chunk");
    }

    free(p);
}


static void
test_chunk(void)
{
    chunk(NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE, "msg_1", "a\\n\\\"b", "null",
          "{\"type\":\"agent_message_chunk\",\"timestamp\":\"" TIMESTAMP "\","
          "\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"msg_1\","
          "\"content\":{\"type\":\"text\",\"text\":\"a\\n\\\"b\","
          "\"annotations\":null},\"_meta\":null}");

    chunk(NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT, NULL, "\\ud800", "{\"a\":1}",
          "{\"type\":\"agent_thought_chunk\",\"timestamp\":\"" TIMESTAMP "\","
          "\"sessionUpdate\":\"agent_thought_chunk\","
          "\"content\":{\"type\":\"text\",\"text\":\"\\ufffd\","
          "\"annotations\":null},\"_meta\":{\"a\":1}}");

    chunk(NGX_HTTP_AGENTSTREAM_RECORD_USER, "m", "", "null",
          "{\"type\":\"user_message_chunk\",\"timestamp\":\"" TIMESTAMP "\","
          "\"sessionUpdate\":\"user_message_chunk\",\"messageId\":\"m\","
          "\"content\":{\"type\":\"text\",\"text\":\"\","
          "\"annotations\":null},\"_meta\":null}");
}


static void
test_tool(void)
{
    ngx_str_t                        text, path, old, fields;
    ngx_http_agentstream_acp_tool_t  tool;

    tool.id = tap_str("call_1");
    tool.title = tap_str("a \\\"b\\\"");
    tool.name = tap_str("bash");
    tool.input = tap_str("{}");
    tool.kind = NGX_HTTP_AGENTSTREAM_ACP_EXECUTE;
    tool.status = NGX_HTTP_AGENTSTREAM_ACP_PENDING;

    fields = tap_str(",\"sessionId\":\"ses_1\"");

    ngx_http_agentstream_acp_tool_start(&buf, (u_char *) TIMESTAMP, &tool);
    ngx_http_agentstream_acp_tool_close(&buf, &tool.name, &fields);
    is_buf("{\"type\":\"tool_call_start\",\"timestamp\":\"" TIMESTAMP "\","
           "\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"call_1\","
           "\"title\":\"a \\\"b\\\"\",\"kind\":\"execute\","
           "\"status\":\"pending\",\"rawInput\":{},\"rawOutput\":null,"
           "\"content\":null,\"locations\":[],\"_meta\":{\"toolName\":"
           "\"bash\",\"sessionId\":\"ses_1\"}}", "a call begins");

    tool.input = tap_str("{\"a\":\r\n[\"\\ud800x\"]}");
    tool.kind = NGX_HTTP_AGENTSTREAM_ACP_SWITCH_MODE;
    tool.status = NGX_HTTP_AGENTSTREAM_ACP_FAILED;
    text = tap_str("t");
    path = tap_str("/p");
    old = tap_str("null");

    ngx_http_agentstream_acp_tool_progress(&buf, (u_char *) TIMESTAMP, &tool);
    ngx_http_agentstream_acp_literal(&buf, ",\"content\":[");
    ngx_http_agentstream_acp_text_block(&buf, &text);
    ngx_http_agentstream_acp_diff_block(&buf, &path, &old, &text);
    ngx_http_agentstream_acp_image_block(&buf, &text, &path);
    ngx_http_agentstream_acp_literal(&buf, "],\"locations\":[");
    ngx_http_agentstream_acp_location(&buf, &path);
    ngx_http_agentstream_acp_location(&buf, &path);
    ngx_http_agentstream_acp_literal(&buf, "]");
    ngx_http_agentstream_acp_close(&buf, &old);
    is_buf("{\"type\":\"tool_call_progress\",\"timestamp\":\"" TIMESTAMP "\","
           "\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"call_1\","
           "\"title\":\"a \\\"b\\\"\",\"kind\":\"switch_mode\","
           "\"status\":\"failed\",\"rawInput\":{\"a\":  [\"\\ufffdx\"]},"
           "\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\","
           "\"text\":\"t\",\"annotations\":null},\"_meta\":null},"
           "{\"type\":\"diff\",\"path\":\"/p\",\"oldText\":null,"
           "\"newText\":\"t\"},"
           "{\"type\":\"content\",\"content\":{\"type\":\"image\","
           "\"data\":\"t\",\"mimeType\":\"/p\",\"annotations\":null},"
           "\"_meta\":null}],"
           "\"locations\":[{\"path\":\"/p\",\"line\":null,\"_meta\":null},"
           "{\"path\":\"/p\",\"line\":null,\"_meta\":null}],\"_meta\":null}",
           "a call goes on");

    tool.input = tap_str("1");

    ngx_http_agentstream_acp_tool_call(&buf, &tool);
    is_buf("{\"toolCallId\":\"call_1\",\"title\":\"a \\\"b\\\"\","
           "\"kind\":\"switch_mode\",\"status\":\"failed\",\"rawInput\":1}",
           "a call by itself");

    ngx_http_agentstream_acp_options(&buf);
    is_buf(",\"options\":[{\"optionId\":\"once\",\"name\":\"Allow once\","
           "\"kind\":\"allow_once\"},{\"optionId\":\"always\","
           "\"name\":\"Always allow\",\"kind\":\"allow_always\"},"
           "{\"optionId\":\"reject\",\"name\":\"Reject\","
           "\"kind\":\"reject_once\"}]", "options");
}


static void
test_end(void)
{
    ngx_str_t                         reason;
    ngx_http_agentstream_acp_usage_t  usage;

    reason = tap_str("end_turn");

    ngx_http_agentstream_acp_prompt_response(&buf, (u_char *) TIMESTAMP,
                                             &reason, NULL);
    is_buf("{\"type\":\"prompt_response\",\"timestamp\":\"" TIMESTAMP "\","
           "\"stopReason\":\"end_turn\",\"_meta\":{}}", "an end");

    ngx_memzero(&usage, sizeof(ngx_http_agentstream_acp_usage_t));

    ngx_http_agentstream_acp_prompt_response(&buf, (u_char *) TIMESTAMP,
                                             &reason, &usage);
    is_buf("{\"type\":\"prompt_response\",\"timestamp\":\"" TIMESTAMP "\","
           "\"stopReason\":\"end_turn\",\"usage\":null,\"_meta\":{}}",
           "an end that cost nothing");

    usage.total = 21;
    usage.input = 1;
    usage.output = 2;
    usage.thought = 3;
    usage.cached_read = 4;
    usage.cached_write = -9223372036854775807LL - 1;

    ngx_http_agentstream_acp_prompt_response(&buf, (u_char *) TIMESTAMP,
                                             &reason, &usage);
    is_buf("{\"type\":\"prompt_response\",\"timestamp\":\"" TIMESTAMP "\","
           "\"stopReason\":\"end_turn\",\"usage\":{\"totalTokens\":21,"
           "\"inputTokens\":1,\"outputTokens\":2,\"thoughtTokens\":3,"
           "\"cachedReadTokens\":4,"
           "\"cachedWriteTokens\":-9223372036854775808},\"_meta\":{}}",
           "an end and what it cost");
}


static void
test_memory(void)
{
    ngx_str_t   text;
    ngx_uint_t  i;

    text = tap_str("0123456789");

    ngx_http_agentstream_acp_open(&buf, NGX_HTTP_AGENTSTREAM_RECORD_ERROR,
                                  (u_char *) TIMESTAMP);

    for (i = 0; i < 10000; i++) {
        ngx_http_agentstream_acp_json(&buf, &text);
    }

    tap_ok(!buf.failed && buf.len > 100000, "a buffer grows");
    tap_ok(tap_reallocs < 30, "by doubling");

    i = tap_reallocs;
    ngx_http_agentstream_acp_open(&buf, NGX_HTTP_AGENTSTREAM_RECORD_ERROR,
                                  (u_char *) TIMESTAMP);
    tap_ok(tap_reallocs == i && buf.len < 100, "and is used again");

    tap_fail_realloc = 1;

    for (i = 0; i < 100000; i++) {
        ngx_http_agentstream_acp_json(&buf, &text);
    }

    tap_fail_realloc = 0;

    tap_ok(buf.failed, "no memory is remembered");
    ngx_http_agentstream_acp_json(&buf, &text);
    ngx_http_agentstream_acp_location(&buf, &text);
    tap_ok(buf.failed, "whatever comes then");

    ngx_http_agentstream_acp_open(&buf, NGX_HTTP_AGENTSTREAM_RECORD_ERROR,
                                  (u_char *) TIMESTAMP);
    tap_ok(!buf.failed, "until the next packet");

    ngx_http_agentstream_acp_destroy(&buf);
}


int
main(void)
{
    test_timestamp();
    test_error();
    test_chunk();
    test_tool();
    test_end();
    test_memory();

    return tap_done();
}
