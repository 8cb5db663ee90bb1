
/*
 * Copyright (C) agentstream contributors
 */


/*
 * opencode.c: what peek says against what parse says for every event of the
 * captures and for unusual ones, addresses, and ids.
 * Breaks when: peek believes a key inside of a text, reads past the event,
 * misses the usual order, or disagrees with parse; an event's name is lost
 * from the table; a path takes an id that is none; a directory is not
 * encoded; a status of another session, or idle, counts, or what another
 * question's session is; a parent is taken from another session's answer, or is
 * no id; a compaction, or the prompt that it repeats, opens a turn; or
 * message ids do not ascend.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_agentstream_sse.h"
#include "ngx_http_agentstream_opencode.h"
#include "captures.h"
#include "tap.h"


extern ngx_log_t  ngx_unit_log;


typedef struct {
    ngx_uint_t                    events;
    ngx_uint_t                    declined;
    ngx_uint_t                    wrong;
    ngx_uint_t                    deltas;
    ngx_uint_t                    cut;
    ngx_http_agentstream_json_t   json;
} counts_t;


static ngx_uint_t
same(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len
           && (a->len == 0 || ngx_strncmp(a->data, b->data, a->len) == 0);
}


static ngx_int_t
compare(void *ctx, ngx_str_t *data)
{
    counts_t *c = ctx;

    ngx_str_t                     copy;
    ngx_http_agentstream_event_t  peek, parse, read;

    c->events++;

    copy.len = data->len;
    copy.data = tap_copy(data->data, data->len);

    if (ngx_http_agentstream_opencode_peek(&copy, &peek) != NGX_OK) {
        c->declined++;

    } else if (ngx_http_agentstream_opencode_parse(&copy, &c->json, &parse)
               != NGX_OK
               || peek.type != parse.type
               || !same(&peek.parent, &parse.parent)
               || (peek.type > NGX_HTTP_AGENTSTREAM_EVENT_DISPOSED
                   && !same(&peek.session, &parse.session)))
    {
        tap_diag("%.*s", (int) ngx_min(data->len, 300), (char *) data->data);
        c->wrong++;

    } else {

        /* a delta that is cut out says what a parse of it does */

        read = peek;

        if (ngx_http_agentstream_opencode_read(&copy, &c->json, &read)
            != NGX_OK
            || !same(&read.message, &parse.message)
            || !same(&read.part, &parse.part)
            || !same(&read.text, &parse.text))
        {
            tap_diag("%.*s", (int) ngx_min(data->len, 300),
                     (char *) data->data);
            c->wrong++;
        }

        c->cut += (read.json == NULL);
        c->deltas += (read.type == NGX_HTTP_AGENTSTREAM_EVENT_DELTA);
    }

    free(copy.data);

    return NGX_OK;
}


static void
test_captures(void)
{
    DIR                         *dir;
    char                         path[512];
    counts_t                     c;
    ngx_str_t                    text;
    ngx_http_agentstream_sse_t   sse;

    ngx_memzero(&c, sizeof(counts_t));

    dir = NULL;

    while (capture_next(&dir, "", path, &text) == NGX_OK) {

        ngx_memzero(&sse, sizeof(ngx_http_agentstream_sse_t));

        sse.limit = 4 * 1024 * 1024;
        sse.handler = compare;
        sse.ctx = &c;

        (void) ngx_http_agentstream_sse_feed(&sse, text.data, text.len);

        ngx_http_agentstream_sse_reset(&sse);
        free(text.data);
    }

    ngx_http_agentstream_json_destroy(&c.json);

    tap_ok(c.events > 2500, "%lu events", (unsigned long) c.events);
    tap_is(c.wrong, 0, "peek, read and parse agree");
    tap_ok(c.deltas > 500 && c.cut == c.deltas, "no delta of %lu is parsed",
           (unsigned long) c.deltas);

    /* the unwrapped captures hold some in another order */

    tap_ok(c.declined < 5, "%lu need a parse", (unsigned long) c.declined);
}


/* what is no delta of a text in the usual order is left to the parser, which
   tells the one that is in another order from the one that is none */

static void
test_read(void)
{
    ngx_int_t                     rc;
    ngx_str_t                     copy;
    ngx_uint_t                    i;
    ngx_http_agentstream_json_t   json;
    ngx_http_agentstream_event_t  ev;

#define DELTA(rest)                                                           \
    "{\"id\":\"evt_1\",\"type\":\"message.part.delta\",\"properties\":{"      \
    "\"sessionID\":\"ses_1\",\"messageID\":\"msg_1\"," rest

    static struct {
        const char  *text;
        ngx_int_t    rc;
        ngx_uint_t   parsed;
        const char  *delta;
    } cases[] = {
        { DELTA("\"partID\":\"prt_1\",\"field\":\"text\",\"delta\":\"a\\n\"}}"),
          NGX_OK, 0, "a\\n" },
        { DELTA("\"partID\":\"prt_1\",\"field\":\"text\",\"delta\":\"\"}}"),
          NGX_OK, 0, "" },
        { DELTA("\"partID\":\"prt_1\",\"delta\":\"a\",\"field\":\"text\"}}"),
          NGX_OK, 1, "a" },
        { DELTA("\"partID\":\"prt_1\",\"field\":\"text\",\"delta\":\"a\"},"
                "\"x\":1}"), NGX_OK, 1, "a" },
        { DELTA("\"partID\":\"prt_1\",\"field\":\"text\",\"delta\":\"a\","
                "\"delta\":\"b\"}}"), NGX_OK, 1, "b" },
        { DELTA("\"partID\":\"prt_1\",\"field\":\"input\",\"delta\":\"a\"}}"),
          NGX_OK, 1, "" },
        { DELTA("\"partID\":\"prt_1\",\"field\":\"text\",\"delta\":\"\\q\"}}"),
          NGX_DECLINED, 1, "" },
        { DELTA("\"partID\":\"prt_1\",\"field\":\"text\",\"delta\":\"\xff\"}}"),
          NGX_DECLINED, 1, "" },
        { DELTA("\"partID\":\"prt_\xff\",\"field\":\"text\",\"delta\":\"\"}}"),
          NGX_DECLINED, 1, "" },
        { DELTA("\"partID\":\"prt_1\",\"field\":\"text\",\"delta\":\"a\"}}}"),
          NGX_DECLINED, 1, "" },
        { DELTA("\"partID\":\"prt_1\",\"field\":\"text\",\"delta\":\"a"),
          NGX_DECLINED, 1, "" },
        { DELTA("\"partID\":\"prt_1\",\"field\":\"text\",\"delta\":"),
          NGX_DECLINED, 1, "" }
    };

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        copy.len = strlen(cases[i].text);
        copy.data = tap_copy(cases[i].text, copy.len);

        tap_ok(ngx_http_agentstream_opencode_peek(&copy, &ev) == NGX_OK,
               "a delta");

        rc = ngx_http_agentstream_opencode_read(&copy, &json, &ev);

        tap_is(rc, cases[i].rc, cases[i].text);

        if (rc == NGX_OK) {
            tap_is(ev.json != NULL, cases[i].parsed, "parsed or not");
            tap_ok(ev.text.len == strlen(cases[i].delta)
                   && (ev.text.len == 0
                       || ngx_memcmp(ev.text.data, cases[i].delta,
                                     ev.text.len) == 0), "its text");
        }

        free(copy.data);
    }

    ngx_http_agentstream_json_destroy(&json);
}


static void
test_peek(void)
{
    size_t                        n;
    ngx_str_t                     data, copy;
    ngx_uint_t                    i;
    ngx_http_agentstream_event_t  ev;

    static const char  *declined[] = {
        "",
        "{}",
        "{\"id\":\"",
        "{ \"id\":\"evt_1\",\"type\":\"session.idle\",\"properties\":"
            "{\"sessionID\":\"ses_1\"}}",
        "{\"type\":\"session.idle\",\"id\":\"evt_1\",\"properties\":"
            "{\"sessionID\":\"ses_1\"}}",
        "{\"id\":\"evt_1\",\"type\":\"session.idle\",\"properties\":"
            "{\"x\":1,\"sessionID\":\"ses_1\"}}",
        "{\"id\":\"evt_1\",\"type\":\"session.idle\",\"properties\":{}}",
        "{\"id\":\"evt_1\",\"type\":\"question.asked\",\"properties\":"
            "{\"sessionID\":\"ses_1\",\"id\":\"que_1\"}}",
        "{\"id\":\"evt_1\",\"type\":\"session.idle\",\"properties\":"
            "{\"sessionID\":\"ses_1ses_1ses_1ses_1ses_1ses_1ses_1ses_1"
            "ses_1ses_1ses_1ses_1ses_1ses_1ses_1ses_1\"}}"
    };

    static const char  created[] =
        "{\"id\":\"evt_1\",\"type\":\"session.created\",\"properties\":"
        "{\"sessionID\":\"ses_2\",\"info\":{\"title\":\"a,\\\"parentID\\\":"
        "\\\"ses_9\\\",\",\"x\\\"parentID\":\"ses_8\","
        "\"parentID\":\"ses_1\"}}}";

    for (i = 0; i < sizeof(declined) / sizeof(declined[0]); i++) {
        copy.len = strlen(declined[i]);
        copy.data = tap_copy(declined[i], copy.len);

        tap_ok(ngx_http_agentstream_opencode_peek(&copy, &ev) == NGX_DECLINED,
               "not by looking: %.60s", declined[i]);

        free(copy.data);
    }

    data = tap_str(created);

    tap_is(ngx_http_agentstream_opencode_peek(&data, &ev), NGX_OK, "created");
    tap_is(ev.type, NGX_HTTP_AGENTSTREAM_EVENT_CREATED, "its type");
    tap_is_str(ev.session, "ses_2", "its session");
    tap_is_str(ev.parent, "ses_1", "its parent, not what texts say");

    for (n = 0; n < data.len; n++) {
        copy.len = n;
        copy.data = tap_copy(data.data, n);
        (void) ngx_http_agentstream_opencode_peek(&copy, &ev);
        free(copy.data);
    }

    data = tap_str("{\"id\":\"evt_1\",\"type\":\"plugin.added\","
                   "\"properties\":{\"id\":\"x\"}}");
    tap_ok(ngx_http_agentstream_opencode_peek(&data, &ev) == NGX_OK
           && ev.type == NGX_HTTP_AGENTSTREAM_EVENT_OTHER
           && ev.session.len == 0, "an event of nobody");
}


static void
test_parse(void)
{
    ngx_str_t                     data;
    ngx_uint_t                    i;
    ngx_http_agentstream_json_t   json;
    ngx_http_agentstream_event_t  ev;

    static const struct {
        const char  *name;
        ngx_uint_t   type;
    } types[] = {
        { "server.connected", NGX_HTTP_AGENTSTREAM_EVENT_CONNECTED },
        { "server.heartbeat", NGX_HTTP_AGENTSTREAM_EVENT_HEARTBEAT },
        { "server.instance.disposed", NGX_HTTP_AGENTSTREAM_EVENT_DISPOSED },
        { "session.created", NGX_HTTP_AGENTSTREAM_EVENT_CREATED },
        { "session.deleted", NGX_HTTP_AGENTSTREAM_EVENT_DELETED },
        { "session.status", NGX_HTTP_AGENTSTREAM_EVENT_STATUS },
        { "session.idle", NGX_HTTP_AGENTSTREAM_EVENT_IDLE },
        { "session.error", NGX_HTTP_AGENTSTREAM_EVENT_ERROR },
        { "session.compacted", NGX_HTTP_AGENTSTREAM_EVENT_COMPACTED },
        { "message.updated", NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE },
        { "message.removed", NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE_REMOVED },
        { "message.part.updated", NGX_HTTP_AGENTSTREAM_EVENT_PART },
        { "message.part.delta", NGX_HTTP_AGENTSTREAM_EVENT_DELTA },
        { "message.part.removed", NGX_HTTP_AGENTSTREAM_EVENT_PART_REMOVED },
        { "todo.updated", NGX_HTTP_AGENTSTREAM_EVENT_TODO },
        { "question.asked", NGX_HTTP_AGENTSTREAM_EVENT_QUESTION },
        { "question.replied", NGX_HTTP_AGENTSTREAM_EVENT_QUESTION_REPLIED },
        { "question.rejected", NGX_HTTP_AGENTSTREAM_EVENT_QUESTION_REJECTED },
        { "permission.asked", NGX_HTTP_AGENTSTREAM_EVENT_PERMISSION },
        { "permission.replied",
          NGX_HTTP_AGENTSTREAM_EVENT_PERMISSION_REPLIED },
        { "session.updated", NGX_HTTP_AGENTSTREAM_EVENT_OTHER },
        { "session.idlE", NGX_HTTP_AGENTSTREAM_EVENT_OTHER },
        { "x", NGX_HTTP_AGENTSTREAM_EVENT_OTHER }
    };

    static const char  *sessions[] = {
        "{\"type\":\"message.updated\",\"properties\":{\"info\":"
            "{\"sessionID\":\"ses_1\"}}}",
        "{\"type\":\"message.part.updated\",\"properties\":{\"part\":"
            "{\"sessionID\":\"ses_1\"}}}",
        "{\"type\":\"session.deleted\",\"properties\":{\"info\":"
            "{\"id\":\"ses_1\"}}}",
        "{\"properties\":{\"sessionID\":\"ses_1\"},\"type\":\"x\"}"
    };

    static const char  *invalid[] = {
        "", "{", "[]", "\"session.idle\"", "{\"type\":1}", "{\"id\":\"x\"}",
        "{\"type\":\"session.idle\",}"
    };

    static const char  *absent[] = {
        "{\"type\":\"session.created\",\"sessionID\":\"ses_1\"}",
        "{\"type\":\"session.created\",\"properties\":1,\"info\":"
            "{\"id\":\"ses_1\",\"parentID\":\"ses_2\"},\"id\":\"x\"}",
        "{\"type\":\"message.updated\",\"properties\":{},\"sessionID\":"
            "\"ses_1\"}"
    };

    char  text[256];

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        snprintf(text, sizeof(text), "{\"type\":\"%s\"}", types[i].name);
        data = tap_str(text);

        tap_ok(ngx_http_agentstream_opencode_parse(&data, &json, &ev) == NGX_OK
               && ev.type == types[i].type, "%s", types[i].name);
    }

    for (i = 0; i < sizeof(sessions) / sizeof(sessions[0]); i++) {
        data = tap_str(sessions[i]);

        (void) ngx_http_agentstream_opencode_parse(&data, &json, &ev);
        tap_is_str(ev.session, "ses_1", "the session, wherever it stands");
    }

    for (i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        data = tap_str(invalid[i]);

        tap_ok(ngx_http_agentstream_opencode_parse(&data, &json, &ev)
               == NGX_DECLINED, "no event: %s", invalid[i]);
    }

    for (i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        data = tap_str(absent[i]);

        tap_ok(ngx_http_agentstream_opencode_parse(&data, &json, &ev) == NGX_OK
               && ev.session.len == 0 && ev.parent.len == 0,
               "what is absent is not looked for elsewhere");
    }

    ngx_http_agentstream_json_destroy(&json);
}


static void
test_address(void)
{
    ngx_str_t                        session, id, directory, bad;
    ngx_uint_t                       i;
    ngx_pool_t                      *pool;
    ngx_http_agentstream_address_t   addr;

    static const struct {
        ngx_uint_t   method;
        const char  *uri;
    } paths[] = {
        { NGX_HTTP_GET, "event" },
        { NGX_HTTP_GET, "session/status" },
        { NGX_HTTP_GET, "session" },
        { NGX_HTTP_POST, "session" },
        { NGX_HTTP_POST, "api/session" },
        { NGX_HTTP_PATCH, "session/ses_1" },
        { NGX_HTTP_GET, "session/ses_1" },
        { NGX_HTTP_DELETE, "session/ses_1" },
        { NGX_HTTP_GET, "session/ses_1/message" },
        { NGX_HTTP_GET, "session/ses_1/message/msg_1" },
        { NGX_HTTP_POST, "session/ses_1/prompt_async" },
        { NGX_HTTP_POST, "session/ses_1/abort" },
        { NGX_HTTP_GET, "question" },
        { NGX_HTTP_POST, "question/msg_1/reply" },
        { NGX_HTTP_POST, "question/msg_1/reject" },
        { NGX_HTTP_GET, "permission" },
        { NGX_HTTP_POST, "permission/msg_1/reply" }
    };

    pool = ngx_create_pool(1024, &ngx_unit_log);

    session = tap_str("ses_1");
    id = tap_str("msg_1");
    directory = tap_str("/a b/\xc3\xa9?&#%");
    bad = tap_str("ses_1/../x");

    for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        tap_is(ngx_http_agentstream_opencode_address(pool, &addr, i, &session,
                                                     &id, NULL),
               NGX_OK, paths[i].uri);
        tap_is(addr.method, paths[i].method, "its method");
        tap_is_str(addr.uri, paths[i].uri, "its path");
        tap_is(addr.args.len, 0, "no arguments");
    }

    (void) ngx_http_agentstream_opencode_address(pool, &addr,
                          NGX_HTTP_AGENTSTREAM_GET_EVENTS, NULL, NULL,
                          &directory);
    tap_is_str(addr.args, "directory=%2Fa%20b%2F%C3%A9%3F%26%23%25",
               "the directory is encoded");

    tap_is(ngx_http_agentstream_opencode_address(pool, &addr,
                          NGX_HTTP_AGENTSTREAM_GET_MESSAGES, &bad, NULL, NULL),
           NGX_DECLINED, "no session's id, no path");
    tap_is(ngx_http_agentstream_opencode_address(pool, &addr,
                          NGX_HTTP_AGENTSTREAM_GET_MESSAGE, &session, &bad,
                          NULL),
           NGX_DECLINED, "no id, no path");
    tap_is(ngx_http_agentstream_opencode_address(pool, &addr,
                          NGX_HTTP_AGENTSTREAM_ABORT, NULL, NULL, NULL),
           NGX_DECLINED, "none at all");

    ngx_destroy_pool(pool);
}


/* messages of a list */

#define USER(id, part)                                                        \
    "{\"info\":{\"id\":\"msg_" id "\",\"role\":\"user\"},\"parts\":[" part "]}"
#define ANSWER(id, parent, more)                                              \
    "{\"info\":{\"id\":\"msg_" id "\",\"role\":\"assistant\","                \
    "\"parentID\":\"msg_" parent "\"" more "},\"parts\":[]}"

#define TEXT       "{\"type\":\"text\",\"text\":\"x\"}"
#define SYNTHETIC  "{\"type\":\"text\",\"synthetic\":true}"
#define SUMMARY    ",\"summary\":true,\"finish\":\"stop\""
#define COMPACTION(overflow)                                                  \
    "{\"type\":\"compaction\",\"overflow\":" overflow "}"


static ngx_int_t
last_message(void *ctx, u_char *text, size_t len)
{
    ngx_int_t                    rc;
    ngx_http_agentstream_json_t  json;

    memset(&json, 0, sizeof(json));

    rc = ngx_http_agentstream_json_parse(&json, text, len);

    if (rc == NGX_OK) {
        ngx_http_agentstream_opencode_turn(&json, ctx);
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


static void
test_answers(void)
{
    ngx_int_t                              rc;
    ngx_str_t                              session, id, answer, turn, found;
    ngx_uint_t                             i;
    ngx_pool_t                            *pool;
    ngx_http_agentstream_json_split_t      split;
    ngx_http_agentstream_opencode_last_t   last;

    static const struct {
        const char  *answer;
        ngx_int_t    rc;
    } statuses[] = {
        { "{}", NGX_DECLINED },
        { "{\"ses_b\":{\"type\":\"busy\"}}", NGX_DECLINED },
        { "{\"ses_aa\":{\"type\":\"busy\"}}", NGX_DECLINED },
        { "{\"ses_a\":{\"type\":\"idle\"}}", NGX_DECLINED },
        { "{\"ses_b\":{},\"ses_a\":{\"type\":\"busy\"}}", NGX_OK },
        { "{\"ses_a\":{\"type\":\"retry\"},\"ses_b\":1}", NGX_OK },
        { "[]", NGX_ERROR },
        { "{\"ses_a\":", NGX_ERROR },
        { "", NGX_ERROR }
    };

    /* what it is: the session asked for, any session, a list of
       sessions, "true" */

    static const struct {
        const char  *answer;
        int          ours;
        int          any;
        int          list;
        int          yes;
    } shapes[] = {
        { "{\"id\":\"ses_a\"}", 1, 1, 0, 0 },
        { "{\"id\":\"ses_b\"}", 0, 1, 0, 0 },
        { "{\"id\":\"ses_aa\"}", 0, 1, 0, 0 },
        { "{\"id\":\"msg_a\"}", 0, 0, 0, 0 },
        { "{\"id\":1}", 0, 0, 0, 0 },
        { "{\"ID\":\"ses_a\"}", 0, 0, 0, 0 },
        { "[{\"id\":\"ses_a\"}]", 0, 0, 1, 0 },
        { "\"ses_a\"", 0, 0, 0, 0 },
        { "[]", 0, 0, 1, 0 },
        { "[{\"id\":\"ses_a\"},{\"id\":\"ses_b\"}]", 0, 0, 1, 0 },
        { "[{\"id\":\"ses_a\"},{\"a\":1}]", 0, 0, 0, 0 },
        { "[1]", 0, 0, 0, 0 },
        { "true", 0, 0, 0, 1 },
        { "false", 0, 0, 0, 0 },
        { "null", 0, 0, 0, 0 },
        { "truex", 0, 0, 0, 0 },
        { "{\"id\":\"ses_a\"}x", 0, 0, 0, 0 },
        { "[", 0, 0, 0, 0 },
        { "\x1f\x8b\x08", 0, 0, 0, 0 },
        { "", 0, 0, 0, 0 }
    };

    /* turn NULL: it is no such answer */

    static const struct {
        const char  *answer;
        const char  *turn;
    } lists[] = {
        { "[]", "" },
        { "{}", NULL },
        { "[", NULL },
        { "", NULL },
        { "[1]", NULL },
        { "[{\"info\":1}]", NULL },
        { "[{\"info\":{\"id\":\"../x\"}}]", NULL },
        { "[{\"info\":{\"id\":\"msg_b\",\"parentID\":\"a/\"}}]", NULL },
        { "[{\"info\":{\"id\":\"msg_a\",\"role\":\"user\"}}]", "msg_a" },
        { "[{\"info\":{\"id\":\"msg_c\",\"parentID\":\"msg_b\"}},"
          "{\"info\":{\"id\":\"msg_d\",\"parentID\":\"msg_e\"}}]", "msg_b" },

        /* two turns; a compaction; one that goes on, one that repeats the
           prompt, one that failed; and the next turn */

        { "[" USER("a", TEXT) "," ANSWER("b", "a", "") ","
          USER("c", TEXT) "," ANSWER("d", "c", "") "]", "msg_c" },
        { "[" USER("a", TEXT) "," USER("b", COMPACTION("false")) ","
          ANSWER("c", "b", SUMMARY) "]", "msg_a" },
        { "[" USER("a", TEXT) "," USER("b", COMPACTION("false")) ","
          ANSWER("c", "b", SUMMARY) "," USER("d", SYNTHETIC) ","
          ANSWER("e", "d", "") "]", "msg_a" },
        { "[" USER("a", TEXT) "," USER("b", COMPACTION("true")) ","
          ANSWER("c", "b", SUMMARY) "," USER("d", TEXT) ","
          ANSWER("e", "d", "") "]", "msg_a" },
        { "[" USER("a", TEXT) "," USER("b", COMPACTION("true")) ","
          ANSWER("c", "b", SUMMARY) "," USER("d", TEXT) ","
          USER("e", TEXT) "]", "msg_e" },
        { "[" USER("a", TEXT) "," USER("b", COMPACTION("true")) ","
          ANSWER("c", "b", SUMMARY) "," USER("d", SYNTHETIC) ","
          USER("e", TEXT) "]", "msg_e" },
        { "[" USER("a", TEXT) "," USER("b", COMPACTION("true")) ","
          ANSWER("c", "b", SUMMARY ",\"error\":{}") ","
          USER("d", TEXT) "]", "msg_d" },
        { "[" USER("a", TEXT) "," USER("b", COMPACTION("true")) ","
          ANSWER("c", "b", ",\"summary\":true") ","
          USER("d", TEXT) "]", "msg_d" }
    };

    /* session NULL: it is no such answer */

    static const struct {
        const char  *answer;
        const char  *session;
    } asks[] = {
        { "[]", "" },
        { "[{\"id\":\"que_a\",\"sessionID\":\"ses_b\"}]", "ses_b" },
        { "[{\"id\":\"que_b\",\"sessionID\":\"ses_a\"}]", "" },
        { "[{\"id\":\"que_aa\",\"sessionID\":\"ses_a\"}]", "" },
        { "[{\"id\":\"que_a\"},1,{\"sessionID\":\"ses_a\"}]", "" },
        { "[{},{\"id\":\"que_a\",\"sessionID\":\"ses_a\"},"
          "{\"id\":\"que_b\",\"sessionID\":\"ses_b\"}]", "ses_a" },
        { "[{\"id\":\"que_a\",\"sessionID\":\"ses_/../a\"}]", NULL },
        { "[{\"id\":\"que_a\",\"sessionID\":\"que_a\"}]", NULL },
        { "{\"id\":\"que_a\",\"sessionID\":\"ses_a\"}", NULL },
        { "[{\"id\":\"que_a\",\"sessionID\":\"ses_a\"", NULL },
        { "", NULL }
    }, parents[] = {
        { "{\"id\":\"ses_a\"}", "" },
        { "{\"id\":\"ses_a\",\"parentID\":null}", "" },
        { "{\"id\":\"ses_a\",\"parentID\":\"ses_b\"}", "ses_b" },
        { "{\"parentID\":\"ses_a\",\"id\":\"ses_a\"}", "ses_a" },
        { "{\"id\":\"ses_b\",\"parentID\":\"ses_a\"}", NULL },
        { "{\"id\":\"ses_aa\",\"parentID\":\"ses_b\"}", NULL },
        { "{\"parentID\":\"ses_b\"}", NULL },
        { "{\"id\":\"ses_a\",\"parentID\":\"../ses_b\"}", NULL },
        { "{\"id\":\"ses_a\",\"parentID\":\"msg_b\"}", NULL },
        { "[{\"id\":\"ses_a\",\"parentID\":\"ses_b\"}]", NULL },
        { "{\"id\":\"ses_a\",\"parentID\":\"ses_b\"", NULL },
        { "", NULL }
    };

    pool = ngx_create_pool(1024, &ngx_unit_log);
    session = tap_str("ses_a");
    id = tap_str("que_a");

    for (i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        answer.len = strlen(asks[i].answer);
        answer.data = tap_copy(asks[i].answer, answer.len);

        ngx_str_set(&found, "ses_x");

        tap_is(ngx_http_agentstream_opencode_waits(pool, &answer, &id, &found),
               asks[i].session ? NGX_OK : NGX_DECLINED, asks[i].answer);
        free(answer.data);

        tap_is_str(found, asks[i].session ? asks[i].session : "",
                   asks[i].answer);
    }

    for (i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
        answer.len = strlen(parents[i].answer);
        answer.data = tap_copy(parents[i].answer, answer.len);

        ngx_str_set(&found, "ses_x");

        tap_is(ngx_http_agentstream_opencode_parent(pool, &answer, &session,
                                                    &found),
               parents[i].session ? NGX_OK : NGX_DECLINED, parents[i].answer);
        free(answer.data);

        tap_is_str(found, parents[i].session ? parents[i].session : "",
                   parents[i].answer);
    }

    for (i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        answer.len = strlen(statuses[i].answer);
        answer.data = tap_copy(statuses[i].answer, answer.len);

        tap_is(ngx_http_agentstream_opencode_busy(&answer, &session),
               statuses[i].rc, statuses[i].answer);
        free(answer.data);
    }

    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        answer.len = strlen(shapes[i].answer);
        answer.data = tap_copy(shapes[i].answer, answer.len);

        tap_ok((ngx_http_agentstream_opencode_is_session(&answer, &session)
                == NGX_OK) == shapes[i].ours, shapes[i].answer);
        tap_ok((ngx_http_agentstream_opencode_is_session(&answer, NULL)
                == NGX_OK) == shapes[i].any, shapes[i].answer);
        tap_ok((ngx_http_agentstream_opencode_is_list(&answer)
                == NGX_OK) == shapes[i].list, shapes[i].answer);
        tap_ok((ngx_http_agentstream_opencode_is_true(&answer)
                == NGX_OK) == shapes[i].yes, shapes[i].answer);
        free(answer.data);
    }

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        answer.len = strlen(lists[i].answer);
        answer.data = tap_copy(lists[i].answer, answer.len);

        memset(&last, 0, sizeof(last));
        memset(&split, 0, sizeof(split));

        split.handler = last_message;
        split.ctx = &last;

        rc = ngx_http_agentstream_json_split_feed(&split, answer.data,
                                                  answer.len);

        tap_ok((rc == NGX_OK && ngx_http_agentstream_json_split_complete(&split)
                && (last.nmessages == 0 || last.len))
               == (lists[i].turn != NULL), lists[i].answer);

        ngx_http_agentstream_json_split_destroy(&split);
        free(answer.data);

        turn.data = last.id;
        turn.len = last.len;

        tap_is_str(turn, lists[i].turn ? lists[i].turn : "", lists[i].answer);
    }

    ngx_destroy_pool(pool);
}


static void
test_ids(void)
{
    char        long_id[80];
    u_char      random[16], a[64], b[64];
    ngx_str_t   id;
    ngx_uint_t  i;

    static const char  *bad[] = {
        "", "ses", "ses_", "_1", "Ses_1", "ses1_1", "ses_a.b", "ses_a/b",
        "ses_%2e", "ses_a\n", "ses_\xc3\xa9", "ses_a_b", "ses-a"
    };

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        id = tap_str(bad[i]);
        tap_ok(!ngx_http_agentstream_opencode_id(&id)
               && !ngx_http_agentstream_opencode_session_id(&id),
               "no id: %s", bad[i]);
    }

    id = tap_str("ses_0aZ9");
    tap_ok(ngx_http_agentstream_opencode_session_id(&id), "a session's id");

    id = tap_str("que_0aZ9");
    tap_ok(ngx_http_agentstream_opencode_id(&id)
           && !ngx_http_agentstream_opencode_session_id(&id),
           "an id, but no session's");

    memset(long_id, 'a', sizeof(long_id));
    ngx_memcpy(long_id, "ses_", 4);

    id.data = (u_char *) long_id;
    id.len = 64;
    tap_ok(ngx_http_agentstream_opencode_session_id(&id), "64 bytes");

    id.len = 65;
    tap_ok(!ngx_http_agentstream_opencode_session_id(&id), "65 bytes");

    for (i = 0; i < 16; i++) {
        random[i] = i * 17;
    }

    ngx_memzero(a, sizeof(a));
    ngx_memzero(b, sizeof(b));

    ngx_http_agentstream_opencode_message_id(a, 1794802897251, 1, random);

    tap_is_str(tap_str((char *) a), "msg_1e296d163001" "0HYp6NevCTk1IZ",
               "OpenCode's form");
    tap_is(strlen((char *) a), NGX_HTTP_AGENTSTREAM_MESSAGE_ID_LEN, "length");

    ngx_http_agentstream_opencode_message_id(b, 1794802897251, 2, random);
    tap_ok(strcmp((char *) a, (char *) b) < 0, "ascending by the counter");

    ngx_http_agentstream_opencode_message_id(a, 1794802897252, 0, random);
    tap_ok(strcmp((char *) b, (char *) a) < 0, "and by time");
}


int
main(void)
{
    test_captures();
    test_peek();
    test_read();
    test_parse();
    test_address();
    test_answers();
    test_ids();

    return tap_done();
}
