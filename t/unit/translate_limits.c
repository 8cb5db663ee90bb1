
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The translator with an OpenCode that never stops: its memory is limited, its
 * owner is told when the limit is reached, and its time grows with the number
 * of events and not with its square.  Broken by: messages that were not
 * announced and are kept without a limit (TR_STRANGERS_MAX, TR_HELD_MAX), or
 * announced ones (TR_MEMORY_MAX); a linear search for sessions, questions,
 * tool calls, or parts at a retry or a gap.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <time.h>

#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_translate.h"
#include "packets.h"
#include "tap.h"


#define MB         (1024 * 1024)

#define ROOT       "ses_root"
#define TURN       "msg_u"
#define TIMESTAMP  "2026-01-22T00:11:51.712Z"


extern ngx_log_t  ngx_unit_log;

/* of AddressSanitizer, which all unit tests have */

extern size_t __sanitizer_get_current_allocated_bytes(void);


typedef struct {
    ngx_pool_t                             *pool;
    ngx_http_agentstream_translate_t       *tr;
    ngx_http_agentstream_json_t             json;
    uint64_t                                seq;
    ngx_uint_t                              forgot;     /* NGX_AGAIN */
    ngx_int_t                               rc;
    size_t                                  before;     /* bytes */
    u_char                                  packet[8192];
    char                                    text[8192]; /* of chunks */
    size_t                                  len;
} turn_t;


static turn_t  t;


static u_char *
sink_reserve(void *ctx, size_t size)
{
    return (size <= sizeof(t.packet)) ? t.packet : NULL;
}


/* the text of the chunks so far, as a client has it */

static uint64_t
sink_commit(void *ctx, ngx_http_agentstream_record_t *record)
{
    u_char  *p;

    static const char  text[] = "\"text\":\"";

    t.seq++;

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE) {
        p = memmem(record->json.data, record->json.len, text,
                   sizeof(text) - 1);

        for (p += sizeof(text) - 1; *p != '"'; p++) {
            t.text[t.len++ % (sizeof(t.text) - 1)] = *p;
        }
    }

    return t.seq;
}


static char *
quoted(const char *fmt, va_list args)
{
    char  *p;

    static char  buffer[65536];

    vsnprintf(buffer, sizeof(buffer), fmt, args);

    for (p = buffer; *p; p++) {
        if (*p == '\'') {
            *p = '"';
        }
    }

    return buffer;
}


/* an event, with ' for " */

static ngx_int_t
say(const char *fmt, ...)
{
    va_list                       args;
    ngx_str_t                     data;
    ngx_http_agentstream_event_t  ev;

    va_start(args, fmt);
    data = tap_str(quoted(fmt, args));
    va_end(args);

    (void) ngx_http_agentstream_opencode_peek(&data, &ev);

    if (ngx_http_agentstream_opencode_read(&data, &t.json, &ev) != NGX_OK) {
        tap_ok(0, "no event: %.200s", (char *) data.data);
        return NGX_ERROR;
    }

    t.rc = ngx_http_agentstream_translate_event(t.tr, &ev);

    if (t.rc == NGX_AGAIN) {
        t.forgot++;
    }

    return t.rc;
}


#define event(session, type, properties, ...)                                 \
    say("{'id':'evt_1','type':'" type "','properties':{'sessionID':'" session \
        "'," properties "}}", ##__VA_ARGS__)


static void
answer(const char *id)
{
    (void) event(ROOT, "message.updated", "'info':{'id':'%s','role':"
                 "'assistant','parentID':'" TURN "','time':{'created':1001}}",
                 id);
}


static void
stored(const char *fmt, ...)
{
    char                                   *text;
    va_list                                 args;
    ngx_int_t                               rc;
    ngx_str_t                               session;
    ngx_uint_t                              v;
    ngx_http_agentstream_translate_list_t   list;

    va_start(args, fmt);
    text = quoted(fmt, args);
    va_end(args);

    session = tap_str(ROOT);

    memset(&list, 0, sizeof(list));

    rc = ngx_http_agentstream_json_parse(&t.json, (u_char *) text,
                                         strlen(text));

    for (v = ngx_http_agentstream_json_first(&t.json, t.json.root);
         v && rc == NGX_OK;
         v = ngx_http_agentstream_json_next(&t.json, t.json.root, v))
    {
        rc = ngx_http_agentstream_translate_listed(t.tr, &session, &t.json, v,
                                                   &list);
    }

    if (rc != NGX_OK) {
        tap_ok(0, "stored messages");
    }
}


static void
begin(void)
{
    ngx_str_t                              session, turn;
    ngx_http_agentstream_translate_conf_t  conf;

    ngx_memzero(&t, sizeof(turn_t));
    ngx_memzero(&conf, sizeof(ngx_http_agentstream_translate_conf_t));

    conf.tool_throttle = 200;

    session = tap_str(ROOT);
    turn = tap_str(TURN);

    t.before = __sanitizer_get_current_allocated_bytes();
    t.pool = ngx_create_pool(1024, &ngx_unit_log);
    t.tr = ngx_http_agentstream_translate_create(t.pool, &conf, &sink, NULL,
                                                 &session, &turn);

    ngx_http_agentstream_translate_time(t.tr, (u_char *) TIMESTAMP, 0);

    (void) event(ROOT, "message.updated", "'info':{'id':'" TURN "','role':"
                 "'user','sessionID':'" ROOT "','time':{'created':1000}}");
    answer("msg_a");
}


static size_t
allocated(void)
{
    return __sanitizer_get_current_allocated_bytes() - t.before;
}


static void
end(void)
{
    ngx_http_agentstream_translate_destroy(t.tr);
    ngx_http_agentstream_json_destroy(&t.json);
    ngx_destroy_pool(t.pool);
}


/* what nobody announced: the many ways in which it can come */

static void
strangers(const char *name, void (*tell)(ngx_uint_t i), ngx_uint_t n)
{
    size_t      size;
    ngx_uint_t  i;

    begin();

    (void) event(ROOT, "message.part.updated", "'part':{'id':'prt_1',"
                 "'messageID':'msg_a','type':'text','text':'',"
                 "'time':{'start':1}}");
    (void) event(ROOT, "message.part.delta", "'messageID':'msg_a',"
                 "'partID':'prt_1','field':'text','delta':'Well, '");

    for (i = 0; i < n; i++) {
        tell(i);

        if (t.rc == NGX_ERROR) {
            break;
        }
    }

    size = allocated();

    tap_ok(i == n && size < 2 * MB, "%s: memory is bounded", name);
    tap_diag("%s: %lu kB, forgotten %lu times", name,
             (unsigned long) size / 1024, (unsigned long) t.forgot);

    tap_ok(t.forgot > 0, "%s: the owner knows that something is lost", name);

    /* what was lost of the answer comes with what is stored */

    ngx_http_agentstream_translate_gap(t.tr);

    (void) event(ROOT, "message.part.delta", "'messageID':'msg_a',"
                 "'partID':'prt_1','field':'text','delta':'lost'");
    (void) event(ROOT, "message.part.delta", "'messageID':'msg_a',"
                 "'partID':'prt_2','field':'text','delta':'its end'");
    stored("[{'info':{'id':'" TURN "','role':'user'},'parts':[]},"
           "{'info':{'id':'msg_a','role':'assistant','finish':'stop',"
           "'time':{'completed':9}},'parts':["
           "{'id':'prt_1','messageID':'msg_a','type':'text',"
           "'text':'Well, all of it. '},"
           "{'id':'prt_2','messageID':'msg_a','type':'text',"
           "'text':'And its end'}]}]");

    tap_is_str(tap_str(t.text), "Well, all of it. And its end", name);

    (void) event(ROOT, "session.idle", "'x':1");
    tap_ok(ngx_http_agentstream_translate_settled(t.tr),
           "%s: nothing is waited for", name);

    end();
}


static void
tell_deltas(ngx_uint_t i)
{
    (void) event(ROOT, "message.part.delta", "'messageID':'msg_%lu',"
                 "'partID':'prt_x%lu','field':'text','delta':'x'", i, i);
}


static void
tell_parts(ngx_uint_t i)
{
    (void) event(ROOT, "message.part.updated", "'part':{'id':'prt_x%lu',"
                 "'messageID':'msg_%lu','type':'text','text':'x'}", i, i);
}


static void
tell_parts_of_answer(ngx_uint_t i)
{
    (void) event(ROOT, "message.part.delta", "'messageID':'msg_a',"
                 "'partID':'prt_x%lu','field':'text','delta':'x'", i);
}


static void
tell_removed(ngx_uint_t i)
{
    tell_deltas(i);
    (void) event(ROOT, "message.removed", "'messageID':'msg_%lu'", i);
    tell_parts_of_answer(i);
    (void) event(ROOT, "message.part.removed", "'messageID':'msg_a',"
                 "'partID':'prt_x%lu'", i);
}


static void
tell_more(ngx_uint_t i)
{
    (void) event(ROOT, "message.part.delta", "'messageID':'msg_1',"
                 "'partID':'prt_x','field':'text','delta':'%01000lu'", i);
}


static void
test_strangers(void)
{
    strangers("unknown messages", tell_deltas, 100000);
    strangers("unknown parts", tell_parts_of_answer, 100000);
    strangers("parts of unknown messages", tell_parts, 50000);
    strangers("unknown and removed", tell_removed, 22000);
    strangers("one unknown part", tell_more, 3000);
}


/* what was announced: a turn that is large, and one that never ends */

static void
test_known(void)
{
    size_t      size;
    ngx_int_t   rc;
    ngx_uint_t  i, j;

    begin();

    rc = NGX_OK;

    for (i = 0; i < 500 && rc == NGX_OK; i++) {
        (void) event(ROOT, "message.updated", "'info':{'id':"
                     "'msg_1e28df592001Ap77lJXo2N%04lu','role':'assistant',"
                     "'parentID':'" TURN "','time':{'created':1001}}", i);

        for (j = 0; j < 300 && rc == NGX_OK; j++) {
            rc = event(ROOT, "message.part.updated", "'part':{'id':"
                       "'prt_1e28df592001Ap77lJ%04lu%04lu','messageID':"
                       "'msg_1e28df592001Ap77lJXo2N%04lu','type':'text',"
                       "'text':'x','time':{'start':1,'end':2}}", i, j, i);
        }
    }

    tap_ok(rc == NGX_OK, "500 messages of 300 parts");
    tap_diag("%lu kB", (unsigned long) allocated() / 1024);

    for (i = 0; i < 1000000 && rc == NGX_OK; i++) {
        rc = event(ROOT, "message.part.updated", "'part':{'id':'prt_%08lu',"
                   "'messageID':'msg_a','type':'step-start'}", i);
    }

    size = allocated();

    tap_ok(rc == NGX_ERROR && size < 100 * MB, "parts without end");
    tap_ok(ngx_http_agentstream_translate_state(t.tr)->full,
           "the owner knows that it is too large");
    tap_diag("%lu kB after %lu more", (unsigned long) size / 1024,
             (unsigned long) i);

    end();
}


/* seconds of the processor for n of them */

static double
seconds(void (*play)(ngx_uint_t n), ngx_uint_t n)
{
    struct timespec  from, to;

    begin();

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    play(n);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);

    end();

    return (to.tv_sec - from.tv_sec) + (to.tv_nsec - from.tv_nsec) / 1e9;
}


/* four times as many take some four times as long; the square would be 16 */

static void
linear(const char *name, void (*play)(ngx_uint_t n), ngx_uint_t n)
{
    double      few, many, ratio;
    ngx_uint_t  i;

    ratio = 100;

    for (i = 0; i < 3 && ratio > 8; i++) {
        few = seconds(play, n);
        many = seconds(play, 4 * n);

        ratio = ngx_min(ratio, many / few);

        tap_diag("%s: %.3f s for %lu, %.3f s for %lu, ratio %.1f", name, few,
                 (unsigned long) n, many, (unsigned long) 4 * n, many / few);
    }

    tap_ok(ratio <= 8, "%s: time is near-linear", name);
}


static void
play_subagents(ngx_uint_t n)
{
    ngx_uint_t  i, j;

    for (i = 0; i < n; i++) {
        (void) say("{'id':'evt_1','type':'session.created','properties':"
                   "{'sessionID':'ses_%lu','info':{'id':'ses_%lu',"
                   "'parentID':'" ROOT "'}}}", i, i);
    }

    for (j = 0; j < 2; j++) {
        for (i = 0; i < n; i++) {
            (void) say("{'id':'evt_1','type':'session.idle','properties':"
                       "{'sessionID':'ses_%lu'}}", i);
        }
    }
}


static void
play_questions(ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        (void) event(ROOT, "message.part.updated", "'part':{'id':'prt_%lu',"
                     "'messageID':'msg_a','type':'tool','tool':'question',"
                     "'callID':'call_%lu','state':{'status':'running',"
                     "'input':{}}}", i, i);
        (void) event(ROOT, "question.asked", "'id':'que_%lu','questions':[],"
                     "'tool':{'messageID':'msg_a','callID':'call_%lu'}", i, i);
    }

    for (i = 0; i < n; i++) {
        (void) event(ROOT, "question.replied", "'requestID':'que_%lu',"
                     "'answers':[]", i);
        (void) event(ROOT, "message.part.updated", "'part':{'id':'prt_%lu',"
                     "'messageID':'msg_a','type':'tool','tool':'question',"
                     "'callID':'call_%lu','state':{'status':'completed',"
                     "'input':{},'output':''}}", i, i);
    }
}


static void
open_parts(ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        (void) event(ROOT, "message.part.updated", "'part':{'id':'prt_%lu',"
                     "'messageID':'msg_a','type':'text','text':'x',"
                     "'time':{'start':1}}", i);
    }
}


static void
play_retries(ngx_uint_t n)
{
    ngx_uint_t  i;

    open_parts(n);

    for (i = 0; i < n; i++) {
        (void) event(ROOT, "session.status", "'status':{'type':'retry',"
                     "'attempt':%lu}", i);
    }

    for (i = 0; i < n; i++) {
        (void) event(ROOT, "session.status", "'status':{'type':'retry',"
                     "'attempt':%lu}", i);
        (void) event(ROOT, "message.part.updated", "'part':{'id':'prt_y%lu',"
                     "'messageID':'msg_a','type':'text','text':'x',"
                     "'time':{'start':1}}", i);
    }
}


static void
play_gaps(ngx_uint_t n)
{
    ngx_uint_t  i;

    open_parts(n);

    for (i = 0; i < 4 * n; i++) {
        ngx_http_agentstream_translate_gap(t.tr);
    }
}


/* calls that wait to tell their output, while others do, too */

static void
play_calls(ngx_uint_t n)
{
    ngx_uint_t  i, j;
    ngx_msec_t  next;

    for (j = 0; j < 3; j++) {
        for (i = 0; i < n; i++) {
            (void) event(ROOT, "message.part.updated", "'part':{'id':"
                         "'prt_%lu','messageID':'msg_a','type':'tool',"
                         "'tool':'bash','callID':'call_%lu','state':{'status':"
                         "'running','input':{},'metadata':{'output':'%lu'}}}",
                         i, i, j);
            (void) ngx_http_agentstream_translate_flush(t.tr, &next);
        }
    }
}


/* the same id in the root, and again and again in a subagent */

static void
play_same_call(ngx_uint_t n)
{
    ngx_uint_t  i;

    (void) event("ses_c", "session.created", "'info':{'id':'ses_c',"
                 "'parentID':'" ROOT "'}");
    (void) event("ses_c", "message.updated", "'info':{'id':'msg_c','role':"
                 "'assistant','time':{'created':1001}}");

    (void) event(ROOT, "message.part.updated", "'part':{'id':'prt_a',"
                 "'messageID':'msg_a','type':'tool','tool':'bash','callID':"
                 "'c','state':{'status':'running','input':{}}}");

    for (i = 0; i < n; i++) {
        (void) event("ses_c", "message.part.updated", "'part':{'id':"
                     "'prt_%lu','messageID':'msg_c','type':'tool','tool':"
                     "'bash','callID':'c','state':{'status':'completed',"
                     "'input':{},'output':''}}", i);
    }

    for (i = 0; i < n; i++) {
        (void) event(ROOT, "message.part.updated", "'part':{'id':'prt_a%lu',"
                     "'messageID':'msg_a','type':'tool','tool':'bash',"
                     "'callID':'c','state':{'status':'running','input':{}}}",
                     i);
    }
}


static void
test_time(void)
{
    linear("subagents", play_subagents, 2000);
    linear("questions", play_questions, 2000);
    linear("parts, then retries", play_retries, 2000);
    linear("parts, then gaps", play_gaps, 2000);
    linear("calls that wait", play_calls, 2000);
    linear("calls of the same id", play_same_call, 2000);
}


int
main(void)
{
    test_strangers();
    test_known();
    test_time();

    return tap_done();
}
