
/*
 * Copyright (C) agentstream contributors
 */


/*
 * view*.c: a turn as somebody sees it in a chat.
 * Breaks when: a tool call has two lines or none, its input is not shown, new
 * lines appear too often; the cursor, the time or "Still working..." is
 * missing or stays after the end; text of a subagent, or text that was
 * discarded, is shown; a message that is too long loses its end instead of its
 * beginning; thoughts are too long, or shown when they are over; an empty
 * answer, an error or a timeout has no sentence; a snapshot has another phase;
 * memory grows with the length of a turn.
 */


#define _GNU_SOURCE
#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_view.h"
#include "tap.h"


#define TELEGRAM  NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM
#define SLACK     NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK

#define TIME      "\"timestamp\":\"2026-11-16T04:20:31.874Z\""
#define LATER     "\"timestamp\":\"2026-11-16T04:20:33.874Z\""
#define START     1794802831874


extern ngx_log_t  ngx_unit_log;

static uint64_t                          seq;
static ngx_pool_t                       *pool;
static ngx_http_agentstream_view_t       view;
static ngx_http_agentstream_view_args_t  args;


static ngx_int_t
feed(ngx_uint_t type, ngx_uint_t part, const char *fmt, ...)
{
    char                           *json;
    va_list                         list;
    ngx_int_t                       rc;
    ngx_http_agentstream_record_t   record;

    memset(&record, 0, sizeof(record));

    va_start(list, fmt);
    record.json.len = vasprintf(&json, fmt, list);
    va_end(list);

    record.json.data = tap_copy(json, record.json.len);
    record.type = type;
    record.part = part;
    record.seq = ++seq;

    rc = ngx_http_agentstream_view_record(&view, &record);

    free(record.json.data);
    free(json);

    return rc;
}


static void
started(void)
{
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED, 0,
                "{\"type\":\"turn_started\"," TIME "}");
}


static void
said(ngx_uint_t part, const char *text)
{
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE, part,
                "{" LATER ",\"messageId\":\"msg_1\","
                "\"content\":{\"type\":\"text\",\"text\":\"%s\"},"
                "\"_meta\":null}", text);
}


static void
thought(ngx_uint_t part, const char *text)
{
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT, part,
                "{" LATER ",\"messageId\":\"msg_1\","
                "\"content\":{\"type\":\"text\",\"text\":\"%s\"},"
                "\"_meta\":null}", text);
}


static void
tool(ngx_uint_t part, const char *name, const char *input)
{
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START, part,
                "{" LATER ",\"title\":\"%s\",\"rawInput\":{},"
                "\"_meta\":{\"toolName\":\"%s\"}}", name, name);

    if (input) {
        (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS, part,
                    "{" LATER ",\"title\":\"%s\",\"rawInput\":%s,"
                    "\"_meta\":{\"toolName\":\"%s\"}}", name, input, name);
    }
}


static void
ended(const char *reason)
{
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE, 0,
                "{" LATER ",\"stopReason\":\"%s\"}", reason);
}


static void
fresh(void)
{
    ngx_http_agentstream_view_destroy(&view);

    memset(&args, 0, sizeof(args));
    args.form = TELEGRAM;
    args.limits = ngx_http_agentstream_markdown_limits[TELEGRAM];
    args.thoughts = 1;
    args.now = START + 12345;
    args.tool_interval = 5000;
    args.heartbeat = 60000;

    seq = 0;
    started();
}


static ngx_http_agentstream_piece_t
progress(void)
{
    ngx_http_agentstream_piece_t  piece;

    if (ngx_http_agentstream_view_progress(&view, pool, &args, &piece)
        != NGX_OK)
    {
        abort();
    }

    return piece;
}


static ngx_array_t *
final(void)
{
    ngx_array_t  *pieces;

    pieces = ngx_array_create(pool, 4, sizeof(ngx_http_agentstream_piece_t));

    if (ngx_http_agentstream_view_final(&view, pool, &args, pieces) != NGX_OK)
    {
        abort();
    }

    return pieces;
}


static void
final_is(ngx_uint_t n, const char *expected, const char *name)
{
    ngx_array_t                   *pieces;
    ngx_http_agentstream_piece_t  *piece;

    pieces = final();
    piece = pieces->elts;

    if (tap_ok(pieces->nelts == n, "%s: pieces", name) && n) {
        tap_is_str(piece[n - 1].markup, expected, name);
    }
}


static void
test_progress(void)
{
    ngx_uint_t  version;

    fresh();
    args.now = START + 500;

    tap_is_str(progress().markup, "⏳ Processing...", "nothing yet");

    args.now = START + 12345;

    tap_is_str(progress().markup, "⏳ Processing... (12s)", "the time");

    version = view.version;
    tool(1, "glob", "{\"pattern\":\"**/*.ts\"}");
    tap_ok(view.version != version, "a tool call is something new");

    said(2, "Found <42> files");
    tap_is_str(progress().markup,
               "🔧 Glob: **/*.ts\n\nFound &lt;42&gt; files█\n\n"
               "⏳ Processing... (12s)", "a tool call, then text");

    /* a second state, and a second call */

    version = view.version;

    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS, 1,
                "{" LATER ",\"rawInput\":{\"pattern\":\"other\"}}");
    tap_ok(view.version == version, "a call is shown once");

    tool(3, "read", "{\"filePath\":\"/work/src/index.ts\"}");

    args.now += 4999;
    tap_is_str(progress().markup,
               "🔧 Glob: **/*.ts\n\nFound &lt;42&gt; files\n\n"
               "⏳ Processing... (17s)", "a new line waits");

    args.now += 1;
    tap_is_str(progress().markup,
               "🔧 Glob: **/*.ts\n\nFound &lt;42&gt; files\n\n"
               "🔧 Read: /work/src/index.ts\n\n⏳ Processing... (17s)",
               "until the interval is over");

    said(2, " more");
    said(4, "new part");
    args.now = START + 61000 + 2000;

    tap_is_str(progress().plain,
               "🔧 Glob: **/*.ts\n\nFound <42> files\n\n"
               "🔧 Read: /work/src/index.ts\n\n more\n\nnew part█\n\n"
               "⏳ Still working... (1m 3s)", "silence");

    ended("end_turn");
    tap_is_str(progress().plain,
               "🔧 Glob: **/*.ts\n\nFound <42> files\n\n"
               "🔧 Read: /work/src/index.ts\n\n more\n\nnew part",
               "after the end");
    final_is(1, "Found &lt;42&gt; files more\n\nnew part", "the answer");
}


static void
test_tools(void)
{
    fresh();
    args.tool_interval = 0;
    view.directory = tap_str("/work");

    tool(1, "bash", "{\"description\":\"d\",\"command\":\"make\\ntest\"}");
    tool(2, "read", "{\"filePath\":\"/work/a.c\"}");
    tool(3, "todowrite", "{\"todos\":[]}");
    tool(4, "mcp_x", "{\"n\":1,\"who\":\"me\"}");
    tool(5, "write", NULL);
    ended("end_turn");

    tap_is_str(progress().plain,
               "🔧 Bash: make…\n🔧 Read: a.c\n🔧 Todowrite\n🔧 Mcp_x: me\n"
               "🔧 Write", "what each is called with");

    final_is(1, "(empty response)", "no answer");
}


static void
test_child(void)
{
    fresh();

    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE, 1,
                "{" LATER ",\"messageId\":\"m\",\"content\":{\"text\":\"no\"},"
                "\"_meta\":{\"sessionId\":\"ses_2\"}}");
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START, 2,
                "{" LATER ",\"title\":\"read\",\"_meta\":{\"toolName\":"
                "\"read\",\"sessionId\":\"ses_2\"}}");
    said(3, "yes");

    tap_is_str(progress().plain,
               "↳ 🔧 Read\n\nyes█\n\n⏳ Processing... (12s)",
               "a subagent's text is not shown");
    ended("end_turn");
    final_is(1, "yes", "nor is it the answer");
}


static void
test_discard(void)
{
    fresh();

    said(1, "void");                                      /* 2 */
    said(1, " text");                                     /* 3 */
    thought(2, "hm");                                     /* 4 */
    said(1, " too");                                      /* 5 */

    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED, 0,
                "{" LATER ",\"messageId\":\"msg_1\",\"from\":2,\"to\":3}");
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED, 0,
                "{" LATER ",\"messageId\":\"msg_2\",\"from\":5,\"to\":5}");
    tap_is_str(progress().plain, " too█\n\n⏳ Processing... (12s)",
               "what was discarded is gone, another message is not");

    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED, 0,
                "{" LATER ",\"messageId\":\"msg_1\",\"from\":5,\"to\":5}");
    said(3, "good");
    ended("end_turn");

    args.thoughts = 0;
    final_is(1, "good", "the answer after a retry");

    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET, 0, "{" LATER "}");
    tap_is(view.end, NGX_HTTP_AGENTSTREAM_VIEW_RUNNING,
           "everything begins again");
    said(1, "again");
    tap_is_str(progress().plain, "again█\n\n⏳ Processing... (10s)",
               "from the beginning");
}


static void
test_thoughts(void)
{
    char                          text[1000];
    ngx_str_t                     json;
    ngx_http_agentstream_piece_t  piece;

    fresh();
    thought(1, "a<b");

    tap_is_str(progress().markup,
               "<blockquote expandable>🧠 Thinking...\na&lt;b</blockquote>\n\n"
               "⏳ Processing... (12s)", "thoughts");
    tap_is_str(progress().plain,
               "> 🧠 Thinking...\n> a<b\n\n⏳ Processing... (12s)",
               "thoughts without markup");

    (void) ngx_http_agentstream_view_delta(&view, pool, START + 5000, &json);
    tap_is_str(json, "{\"phase\":\"thinking\",\"thinking\":\"a<b\","
                     "\"thinkingElapsedMs\":3000}", "phase thinking");

    args.thoughts = 0;
    tap_is_str(progress().markup, "⏳ Processing... (12s)",
               "thoughts are not wanted");

    args.thoughts = 1;
    memset(text, 'x', 999);
    text[999] = 0;
    thought(1, text);

    piece = progress();
    tap_is(ngx_http_agentstream_markdown_units(&piece.plain),
           401 + strlen("> __ Thinking...\n> \n\n_ Processing... (12s)"),
           "400 characters of them");

    said(2, "so");
    tap_is_str(progress().plain, "so█\n\n⏳ Processing... (12s)",
               "no thoughts beside the text");

    ended("end_turn");
    piece = *(ngx_http_agentstream_piece_t *) final()->elts;

    tap_is(ngx_http_agentstream_markdown_units(&piece.plain),
           601 + strlen("> __ Thought for 0s\n> \n\nso"),
           "600 characters in the end");
    tap_ok(piece.markup.len > 30
           && memcmp(piece.markup.data, "<blockquote expandable>", 23) == 0,
           "in a folded quote");
}


static void
test_end(void)
{
    ngx_str_t  json;

    fresh();
    tap_ok(ngx_http_agentstream_view_delta(&view, pool, START, &json)
           == NGX_DECLINED, "no snapshot of nothing");

    said(1, "half \\\"");
    (void) ngx_http_agentstream_view_delta(&view, pool, START, &json);
    tap_is_str(json, "{\"phase\":\"content\",\"content\":\"half \\\"\"}",
               "phase content");

    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_ERROR, 0,
                "{" LATER ",\"message\":\"no @model <b>\",\"code\":null}");
    final_is(2, "❌ The agent could not finish: no @\xe2\x80\x8bmodel &lt;b&gt;",
             "an error");
    (void) ngx_http_agentstream_view_delta(&view, pool, START, &json);
    tap_is_str(json, "{\"phase\":\"error\",\"error\":\"no @model <b>\"}",
               "phase error");

    fresh();
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_ERROR, 0,
                "{" LATER ",\"message\":\"x\",\"code\":504}");
    final_is(1, "Request timed out. The agent took too long to respond.",
             "a timeout");

    fresh();
    thought(1, "t");
    said(2, "x");
    ended("cancelled");
    final_is(0, NULL, "cancelled");
    (void) ngx_http_agentstream_view_delta(&view, pool, START, &json);
    tap_is_str(json, "{\"phase\":\"final\",\"content\":\"x\","
               "\"thinking\":\"t\",\"thinkingDurationMs\":0}", "phase final");

    fresh();
    said(1, "x");
    ended("max_tokens");
    final_is(2, "⚠️ The answer is incomplete: the model has reached its limit.",
             "cut off");

    fresh();
    ended("refusal");
    final_is(1, "⚠️ The model refused to answer.", "refused");

    fresh();
    said(1, "x");
    started();
    tap_is_str(progress().plain, "⏳ Processing... (12s)", "the next turn");
}


static void
test_asked(void)
{
    ngx_uint_t  i;

    fresh();

    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_QUESTION, 0,
                "{" LATER ",\"questionId\":\"que_1\",\"questions\":[]}");
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION, 0,
                "{" LATER ",\"permissionId\":\"per_1\",\"options\":[]}");
    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION, 0,
                "{" LATER ",\"permissionId\":\"per_1\",\"options\":[]}");

    tap_is(view.nasked, 2, "two things are asked");
    tap_is_str(view.asked[0].id, "que_1", "the question");
    tap_ok(view.asked[1].permission, "the permission");
    tap_is_str(progress().plain, "❓ Waiting for your answer... (12s)",
               "the agent waits");

    (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_QUESTION_RESOLVED, 0,
                "{" LATER ",\"questionId\":\"que_1\"}");
    tap_is(view.nasked, 1, "one is answered");
    tap_is_str(view.asked[0].id, "per_1", "the other is left");

    for (i = 0; i < 100; i++) {
        (void) feed(NGX_HTTP_AGENTSTREAM_RECORD_QUESTION, 0,
                    "{" LATER ",\"questionId\":\"que_%d\",\"questions\":[]}",
                    (int) i);
    }

    tap_is(view.nasked, NGX_HTTP_AGENTSTREAM_VIEW_ASKED,
           "not more than so many");
}


static void
test_long(void)
{
    char                           line[200];
    ngx_str_t                      text;
    ngx_uint_t                     i, ok;
    ngx_array_t                   *pieces;
    ngx_http_agentstream_piece_t   piece;

    fresh();
    args.tool_interval = 0;

    ok = 1;

    for (i = 0; i < 30000; i++) {
        snprintf(line, sizeof(line), "line %d <&> 😀 %0100d\\n", (int) i, 7);
        said(1 + i / 1000, line);
        thought(100000 + i / 1000, line);
        tool(200000 + i, "bash", "{\"command\":\"true\"}");

        ok &= (view.size < 2 * 1024 * 1024 && view.nalloc <= 8192);
    }

    tap_ok(ok, "memory is bounded");

    said(9999, "the end");
    piece = progress();

    tap_ok(ngx_http_agentstream_markdown_units(&piece.plain) <= 4096
           && piece.plain.len > 3500, "as much as fits");
    text.data = piece.plain.data;
    text.len = ngx_min(piece.plain.len, 32);
    tap_is_str(text, "[...earlier output truncated...]", "without beginning");
    text.len = ngx_min(piece.plain.len, 60);
    tap_ok(ngx_strlchr(text.data, text.data + 40, LF)
           == text.data + 32, "then a line");
    text.len = sizeof("the end█\n\n⏳ Processing... (12s)") - 1;
    text.data = piece.plain.data + piece.plain.len - text.len;
    tap_is_str(text, "the end█\n\n⏳ Processing... (12s)", "with its end");

    ended("end_turn");
    pieces = final();
    tap_ok(pieces->nelts > 40, "%d pieces of an answer", (int) pieces->nelts);

    /* nothing but tool calls */

    fresh();

    for (i = 0; i < 20000; i++) {
        tool(1 + i, "bash", "{\"command\":\"true\"}");
    }

    tap_ok(view.nitems <= NGX_HTTP_AGENTSTREAM_VIEW_TOOLS
           && view.size < 1024 * 1024, "tool calls are bounded, too");

    /* a single text that is longer than all that is kept */

    fresh();
    text.len = 1024 * 1024;
    text.data = malloc(text.len + 1);
    memset(text.data, 'x', text.len);
    text.data[text.len] = 0;
    said(1, (char *) text.data);
    free(text.data);

    tap_ok(view.said == NGX_HTTP_AGENTSTREAM_VIEW_TEXT
           && view.size < 1024 * 1024, "a text that is too long");
}


int
main(void)
{
    pool = ngx_create_pool(4096, &ngx_unit_log);

    test_progress();
    test_tools();
    test_child();
    test_discard();
    test_thoughts();
    test_end();
    test_asked();
    test_long();

    ngx_http_agentstream_view_destroy(&view);
    ngx_destroy_pool(pool);

    return tap_done();
}
