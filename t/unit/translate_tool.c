
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The translator's rules for tool calls, questions and permission requests.
 * Broken by: a call id that is used again and taken for the same tool call, a
 * running state that is not throttled or a terminal one that is, a journal
 * that takes the square of a tool's output, a question that is not reported,
 * or is reported twice.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "rules.h"


static void
test_tools(void)
{
    begin();
    tool("prt_1", "call_1", "'status':'pending','input':{},'raw':''");
    tool("prt_1", "call_1", "'status':'pending','input':{}");
    tool("prt_1", "call_1", "'status':'running','input':{'command':'ls'}");
    tool("prt_1", "call_1", "'input':{'command':'ls'},'status':'running'");
    tool("prt_1", "call_1", "'status':'pending','input':{}");
    tool("prt_1", "call_1", "'status':'completed','input':{'command':'ls'},"
         "'output':'a','title':'list'");
    tool("prt_1", "call_1", "'status':'running','input':{}");
    tool("prt_1", "call_1", "'status':'error','input':{},'error':'x'");
    expect("start call_1 bash\nin_progress call_1 bash '-'\n"
           "completed call_1 list 'a'",
           "only forward, and none twice");
    tap_is(state()->nopen, 1, "the call is closed");

    tool("prt_2", "call_1", "'status':'completed','input':{},'output':''");
    expect("start call_1#2 bash\ncompleted call_1#2 bash '-'",
           "a call id used again");

    tool("prt_3", "call_1", "'status':'pending','input':{'a':1}");
    tool("prt_4", "call_1", "'status':'error','input':{},'error':'bad'");
    expect("start call_1#3 bash\npending call_1#3 bash '-'\n"
           "failed call_1#3 bash 'bad'",
           "by another part while it runs it is the same call");

    event(ROOT, "message.part.updated", "'part':{'id':'prt_5',"
          "'messageID':'msg_a','type':'tool','tool':'task','callID':'call_t',"
          "'state':{'status':'running','input':{},"
          "'metadata':{'sessionId':'" CHILD "'}}}");
    event(CHILD, "message.updated", "'info':{'id':'msg_k','role':"
          "'assistant','time':{'created':1005}}");
    event(CHILD, "message.part.updated", "'part':{'id':'prt_6',"
          "'messageID':'msg_k','type':'tool','tool':'bash','callID':'call_1',"
          "'state':{'status':'running','input':{}}}");
    event(CHILD, "session.idle", "'x':1");
    event(CHILD, "session.error", "'error':{'name':'APIError'}");
    expect("start call_t task\nsubagent ses_child of ses_root\n"
           "in_progress call_t task '-'\n"
           "child start call_1#4 bash\nchild in_progress call_1#4 bash '-'",
           "a subagent whose creation was missed");
    tap_ok(!state()->idle && !state()->error, "whose end is not the root's");
    tap_is(cJSON_GetArraySize(f.children), 1, "its events are asked for");

    tool("prt_7", "call_9", "'status':'running','input':{}");
    event(CHILD, "message.part.updated", "'part':{'id':'prt_8',"
          "'messageID':'msg_k','type':'tool','tool':'bash','callID':'call_9',"
          "'state':{'status':'running','input':{}}}");
    event(CHILD, "message.part.updated", "'part':{'id':'prt_9',"
          "'messageID':'msg_a','type':'text','text':'not mine'}");
    event(CHILD, "message.part.delta", "'messageID':'msg_a',"
          "'partID':'prt_9','field':'text','delta':'not mine'");
    text("prt_10", "msg_a", "", 0);
    event(CHILD, "message.part.delta", "'messageID':'msg_a',"
          "'partID':'prt_10','field':'text','delta':'not mine'");
    expect("start call_9 bash\nin_progress call_9 bash '-'\n"
           "child start call_9#2 bash\nchild in_progress call_9#2 bash '-'",
           "its calls are its own, the root's messages are not");

    event(CHILD, "session.created", "'info':{'parentID':'" ROOT "'}");
    say("{'type':'session.created','properties':{'sessionID':'ses_grand',"
        "'info':{'parentID':'" CHILD "'}}}");
    say("{'type':'session.created','properties':{'sessionID':'ses_other',"
        "'info':{'parentID':'ses_none'}}}");
    expect("subagent ses_grand of ses_child", "grandchildren too, each once");

    finish("end end_turn", "end");
}


/* kinds, locations and diffs, which the captures hold only in part */

static void
test_states(void)
{
    char        *got, expected[128];
    cJSON       *packet;
    ngx_uint_t   i;

    static const struct {
        const char  *tool;
        const char  *seed;
        const char  *acp;
    } kinds[] = {
        { "bash", "execute", "execute" },
        { "shell", "execute", "execute" },
        { "read", "read", "read" },
        { "list", "other", "read" },
        { "edit", "other", "edit" },
        { "write", "other", "edit" },
        { "apply_patch", "other", "edit" },
        { "glob", "other", "search" },
        { "grep", "other", "search" },
        { "webfetch", "other", "fetch" },
        { "task", "other", "think" },
        { "delete", "other", "delete" },
        { "move", "other", "move" },
        { "plan_exit", "other", "switch_mode" },
        { "question", "other", "other" },
        { "", "other", "other" }
    };

    for (i = 0; i < 2 * sizeof(kinds) / sizeof(kinds[0]) - 2; i++) {

        f.conf.acp_kinds = i % 2;

        begin();
        event(ROOT, "message.part.updated", "'part':{'id':'prt_1',"
              "'messageID':'msg_a','type':'tool','tool':'%s','callID':'c',"
              "'state':{'status':'pending','input':{'filePath':'/f'}}}",
              kinds[i / 2].tool);

        packet = cJSON_GetArrayItem(f.packets, 1);
        got = cJSON_PrintUnformatted(cJSON_GetObjectItem(packet,
                                                         "locations"));
        snprintf(expected, sizeof(expected), "%s []",
                 (i % 2) ? kinds[i / 2].acp : kinds[i / 2].seed);
        snprintf(buffer, sizeof(buffer), "%s %s", field(packet, "kind"),
                 got ? got : "");
        free(got);

        tap_is_str(tap_str(buffer), expected, kinds[i / 2].tool);

        shown = f.seq;
        finish("end end_turn", "end");
    }
}


static void
output_at(int len, ngx_msec_t now, const char *timestamp)
{
    static char  out[60000];

    memset(out, 'x', len);
    sprintf(out + len, "%06d", (int) now);

    ngx_http_agentstream_translate_time(f.tr, (u_char *) timestamp, now);

    event(ROOT, "message.part.updated", "'part':{'id':'prt_1',"
          "'messageID':'msg_a','type':'tool','tool':'bash','callID':'call_1',"
          "'state':{'status':'running','input':{},'metadata':{"
          "'output':'%s'}}}", out);
}


static void
output(int len, ngx_msec_t now)
{
    output_at(len, now, TIMESTAMP);
}


static void
test_throttle(void)
{
    ngx_msec_t  next;

    f.conf.tool_throttle = 200;

    begin();
    output(1, 1000);
    output(2, 1050);
    output_at(3, 1100, "a timestamp of the past.");
    expect("start call_1 bash\nin_progress call_1 bash 'x001000'",
           "the first running state is not delayed");

    (void) ngx_http_agentstream_translate_flush(f.tr, &next);
    tap_is(next, 100, "the next one is");
    expect("", "until then nothing");

    ngx_http_agentstream_translate_time(f.tr, (u_char *) TIMESTAMP, 1200);
    (void) ngx_http_agentstream_translate_flush(f.tr, &next);
    tap_is((ngx_msec_int_t) next, -1, "nothing more waits");
    expect("in_progress call_1 bash 'xxx001100'", "the latest state wins");

    output(4, 1500);
    expect("in_progress call_1 bash 'xxxx001500'", "at once after a pause");

    output(5, 1550);
    output(4, 1500);
    (void) ngx_http_agentstream_translate_flush(f.tr, &next);
    tap_is((ngx_msec_int_t) next, -1, "back to what was sent: nothing waits");

    output(6, 1600);
    output(6, 1600);
    tool("prt_1", "call_1", "'status':'completed','input':{},'output':'all'");
    ngx_http_agentstream_translate_time(f.tr, (u_char *) TIMESTAMP, 9000);
    (void) ngx_http_agentstream_translate_flush(f.tr, &next);
    expect("completed call_1 bash 'all'",
           "a terminal state is not delayed, and nothing follows it");

    finish("end end_turn", "end");

    f.conf.tool_throttle = 200;

    begin();
    output(1, 1000);
    output(2, 1001);
    expect("start call_1 bash\nin_progress call_1 bash 'x001000'",
           "what still waits at the end");
    finish("end end_turn", "is let go");
}


/* 40 kB of output in 197 states cost at most five times that */

static void
test_budget(void)
{
    int         i, step, len;
    size_t      n;
    ngx_msec_t  next;

    static char  out[41000], cut[31000];

    for (step = 20; step <= 5000; step *= 5) {

        /* some are due with an event, some between events */

        f.conf.tool_throttle = (step == 20) ? 190 : 200;

        begin();

        for (i = 1; i <= 197; i++) {
            len = ngx_min(i * 40000 / 197, 30000);

            output(len - 6, 1000 + i * step);
            (void) ngx_http_agentstream_translate_flush(f.tr, &next);

            ngx_http_agentstream_translate_time(f.tr, (u_char *) TIMESTAMP,
                                                1000 + i * step + step / 2);
            (void) ngx_http_agentstream_translate_flush(f.tr, &next);
        }

        memset(out, 'x', 40000);
        memset(cut, 'x', 30000);

        n = f.seq;

        event(ROOT, "message.part.updated", "'part':{'id':'prt_1',"
              "'messageID':'msg_a','type':'tool','tool':'bash',"
              "'callID':'call_1','state':{'status':'completed','input':{},"
              "'output':'%s','metadata':{'output':'%s'}}}", out, cut);

        tap_ok(f.bytes <= 5 * 40000, "197 states of 40 kB, one every %d ms: "
               "%lu packets, %lu bytes", step, (unsigned long) n,
               (unsigned long) f.bytes);
        tap_ok(n >= 8, "and yet it shows");

        shown = f.seq;
        finish("end end_turn", "end");
    }
}


static void
test_asks(void)
{
    begin();
    tool("prt_0", "call_1", "'status':'completed','input':{},'output':''");
    tool("prt_1", "call_1", "'status':'running','input':{}");
    event(ROOT, "question.asked", "'id':'que_1','questions':[1],"
          "'tool':{'callID':'call_1'}");
    event(ROOT, "question.asked", "'id':'que_1','questions':[1]");
    event(ROOT, "question.asked", "'id':'../x','questions':[1]");
    tap_is(f.waiting, 1, "a question waits, once");
    tap_is_str(tap_str(field(cJSON_GetArrayItem(f.packets, 4),
                             "toolCallId")), "call_1#2",
               "it names the call as the client knows it");
    event(ROOT, "permission.replied", "'requestID':'que_1','reply':'once'");
    event(CHILD, "session.created", "'info':{'parentID':'" ROOT "'}");
    event(CHILD, "question.rejected", "'requestID':'que_1'");
    tap_is(f.waiting, 1, "only its own answer counts");
    event(ROOT, "question.replied", "'requestID':'que_1','answers':[['a']]");
    event(ROOT, "question.replied", "'requestID':'que_1','answers':[['a']]");
    tap_is(f.waiting, 0, "answered, once");

    event(ROOT, "permission.asked", "'id':'per_1','permission':'bash',"
          "'tool':{'callID':'call_1'}");
    tap_is(f.waiting, 1, "a permission waits");
    tool("prt_1", "call_1", "'status':'error','input':{},'error':'no'");
    tap_is(f.waiting, 0, "until its call has ended");

    event(ROOT, "permission.asked", "'id':'per_2'");
    event(ROOT, "permission.replied", "'requestID':'per_2','reply':'reject'");
    expect("start call_1 bash\ncompleted call_1 bash '-'\n"
           "start call_1#2 bash\nin_progress call_1#2 bash '-'\n"
           "question_asked\nsubagent ses_child of ses_root\n"
           "question_resolved answered 'a'\nrequest_permission\n"
           "permission_resolved unknown\nfailed call_1#2 bash 'no'\n"
           "request_permission\npermission_resolved reject",
           "questions and permissions");

    finish("end end_turn", "end");

    /* a call that has ended asks nothing, whatever was heard of an answer */

    begin();
    tool("prt_1", "call_1", "'status':'running','input':{}");
    event(ROOT, "question.asked", "'id':'que_1','questions':[1],"
          "'tool':{'callID':'call_1'}");
    event(CHILD, "question.replied", "'requestID':'que_1','answers':[['a']]");
    tool("prt_1", "call_1", "'status':'completed','input':{},'metadata':"
         "{'answers':[['b']]}");
    event(ROOT, "question.replied", "'requestID':'que_1','answers':[['a']]");
    tap_is(f.waiting, 0, "the call has ended");
    finish("start call_1 bash\nin_progress call_1 bash '-'\nquestion_asked\n"
           "question_resolved answered 'b'\ncompleted call_1 bash '-'\n"
           "end end_turn", "it tells the answer");

    /* unless it was aborted: nobody has answered */

    begin();
    tool("prt_1", "call_1", "'status':'running','input':{}");
    event(ROOT, "question.asked", "'id':'que_1','questions':[1],"
          "'tool':{'callID':'call_1'}");
    event(ROOT, "session.error", "'error':{'name':'MessageAbortedError'}");
    tool("prt_1", "call_1", "'status':'error','input':{},'error':"
         "'Tool execution aborted'");
    tap_is(f.waiting, 0, "aborted");
    finish("start call_1 bash\nin_progress call_1 bash '-'\nquestion_asked\n"
           "failed call_1 bash 'Tool execution aborted'\nend cancelled",
           "aborted: no answer");
}


/* the array that GET question or GET permission answers */

static void
asks_answered(ngx_uint_t permission, const char *list)
{
    char       *copy;
    ngx_int_t   rc;

    snprintf(buffer, sizeof(buffer), "%s", list);
    quotes(buffer);
    copy = tap_copy(buffer, strlen(list));

    rc = ngx_http_agentstream_json_parse(&f.json, (u_char *) copy,
                                         strlen(list));
    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_translate_asks(f.tr, &f.json, f.json.root,
                                                 permission);
    }

    tap_ok(rc == NGX_OK, "a list of what waits");
    free(copy);
}


static void
asks(ngx_uint_t permission, const char *list)
{
    ngx_http_agentstream_translate_asks_wanted(f.tr);
    asks_answered(permission, list);
}


static void
restore(uint64_t seq, ngx_uint_t type, const char *packet, ngx_uint_t part,
    const char *origin)
{
    ngx_http_agentstream_record_t  record;

    snprintf(buffer, sizeof(buffer), "%s", packet);

    quotes(buffer);

    memset(&record, 0, sizeof(record));

    record.seq = seq;
    record.type = type;
    record.part = part;
    record.json = tap_str(buffer);
    record.origin = tap_str(origin);

    tap_ok(ngx_http_agentstream_translate_restore(f.tr, &record) == NGX_OK,
           "packet %lu restored", (unsigned long) seq);
}


#define QUESTION(id, call)                                                    \
    "{'id':'" id "','sessionID':'" ROOT "','questions':[1],"                  \
    "'tool':{'callID':'" call "'}}"

#define ENDED(part, call, state)                                              \
    "{'id':'" part "','messageID':'msg_a','type':'tool','tool':'bash',"       \
    "'callID':'" call "','state':{" state "}}"


/* broken by: an answer that was not heard of leaves its question open, or is
   made up where the turn was aborted */

static void
test_asks_missed(void)
{
    begin();
    tool("prt_1", "call_1", "'status':'running','input':{}");
    tool("prt_2", "call_2", "'status':'running','input':{}");
    tool("prt_3", "call_3", "'status':'running','input':{}");
    event(ROOT, "question.asked", "'id':'que_1','questions':[1],"
          "'tool':{'callID':'call_1'}");
    event(ROOT, "question.asked", "'id':'que_2','questions':[1],"
          "'tool':{'callID':'call_2'}");
    event(ROOT, "question.asked", "'id':'que_3','questions':[1],"
          "'tool':{'callID':'call_3'}");
    event(ROOT, "question.asked", "'id':'que_4','questions':[1]");
    event(ROOT, "permission.asked", "'id':'per_1'");
    event(ROOT, "permission.asked", "'id':'per_2'");
    shown = f.seq;

    ngx_http_agentstream_translate_gap(f.tr);

    rest(ROOT, "[{'info':{'id':'" TURN "','role':'user',"
         "'time':{'created':1000}},'parts':[]},"
         "{'info':{'id':'msg_a','role':'assistant','parentID':'" TURN "',"
         "'time':{'created':1001}},'parts':["
         ENDED("prt_1", "call_1", "'status':'completed','input':{},"
               "'output':'','metadata':{'answers':[['B']]}") ","
         ENDED("prt_2", "call_2", "'status':'error','input':{},"
               "'error':'no'") ","
         ENDED("prt_3", "call_3", "'status':'error','input':{},"
               "'error':'aborted','metadata':{'interrupted':true}") "]}]");
    expect("question_resolved answered 'B'\ncompleted call_1 bash '-'\n"
           "question_resolved rejected\nfailed call_2 bash 'no'\n"
           "failed call_3 bash 'aborted'", "told by the calls that ended");
    tap_is(f.waiting, 3, "what has no call still waits");

    asks(0, "[" QUESTION("que_5", "call_9") "," QUESTION("que_4", "") "]");
    expect("question_asked", "what is listed is new, or still waits");
    asks(1, "[{'id':'per_2','sessionID':'" ROOT "'}]");
    expect("permission_resolved unknown", "what is not was answered");
    asks(1, "[{'id':'per_2','sessionID':'" ROOT "'}]");
    asks(0, "[{'id':'que_6','sessionID':'ses_other','questions':[]}]");
    expect("question_resolved unknown\nquestion_resolved unknown",
           "once, and of the turn's own only");
    tap_is(f.waiting, 1, "one waits");

    ngx_http_agentstream_translate_asks_wanted(f.tr);
    event(ROOT, "question.asked", "'id':'que_7','questions':[1]");
    asks_answered(0, "[]");
    expect("question_asked", "what is asked meanwhile need not be listed");

    finish("end end_turn", "end");

    /* the same in a translator that knows only what was sent */

    begin_bare();
    restore(1, NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED,
            "{'type':'turn_started'}", 0, "");
    restore(2, NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START,
            "{'type':'tool_call_start'}", 1,
            ROOT " msg_a prt_1 call_1");
    restore(3, NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION,
            "{'type':'request_permission','permissionId':'per_1',"
            "'toolCall':{'toolCallId':'call_1'},'_meta':null}", 0, "");
    restore(4, NGX_HTTP_AGENTSTREAM_RECORD_QUESTION,
            "{'type':'question_asked','questionId':'que_1',"
            "'toolCallId':'call_1','_meta':null}", 0, "");
    tap_is(f.waiting, 2, "restored: they wait");
    ngx_http_agentstream_translate_gap(f.tr);

    rest(ROOT, "[{'info':{'id':'" TURN "','role':'user',"
         "'time':{'created':1000}},'parts':[]},"
         "{'info':{'id':'msg_a','role':'assistant','parentID':'" TURN "',"
         "'time':{'created':1001}},'parts':["
         ENDED("prt_1", "call_1", "'status':'completed','input':{},"
               "'output':''") "]}]");
    expect("question_resolved answered\npermission_resolved unknown\n"
           "completed call_1 bash '-'", "restored: told by their call");
    tap_is(f.waiting, 0, "restored: none waits");

    finish("end end_turn", "end");

    /* asked before its call was known, and the answer was not heard of */

    begin();
    asks(1, "[{'id':'per_8','sessionID':'" ROOT "','permission':'bash',"
         "'tool':{'messageID':'msg_b','callID':'call_8'}}]");
    expect("request_permission", "asked");
    tap_is(f.waiting, 1, "it waits");
    tap_is(ngx_http_agentstream_translate_asks_over(f.tr, 1), NGX_OK,
           "cancelled");
    expect("", "cancelled: nobody has answered");
    tap_is(ngx_http_agentstream_translate_asks_over(f.tr, 0), NGX_OK,
           "ended well");
    expect("permission_resolved unknown", "ended well: somebody has");
    tap_is(f.waiting, 0, "none waits");
    finish("end end_turn", "end");

    /* nothing was left to say */

    begin_bare();
    restore(1, NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED,
            "{'type':'turn_started'}", 0, "");
    restore(2, NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE,
            "{'type':'prompt_response','stopReason':'max_tokens'}", 0, "");
    tap_is_str(ngx_http_agentstream_translate_state(f.tr)->stop_reason,
               "max_tokens", "restored: how it ended");
    finish("", "restored: it has ended");

    begin_bare();
    restore(1, NGX_HTTP_AGENTSTREAM_RECORD_ERROR,
            "{'type':'error','message':'x','code':502}", 0, "");
    tap_is_str(ngx_http_agentstream_translate_state(f.tr)->stop_reason,
               "error", "restored: that it failed");
    finish("", "restored: it has failed");
}


/* of the last packet: what its three places say, and whether they say it all */

static void
printed(const char *expected, const char *name)
{
    cJSON  *packet, *raw, *metadata, *block;

    packet = cJSON_GetArrayItem(f.packets, f.seq - 1);
    raw = cJSON_GetObjectItem(packet, "rawOutput");
    metadata = cJSON_GetObjectItem(raw, "metadata");
    block = cJSON_GetArrayItem(cJSON_GetObjectItem(packet, "content"), 0);
    block = cJSON_GetObjectItem(block, "content");

    tap_is_str(tap_str(field(raw, "output")), expected, name);
    tap_is_str(tap_str(field(metadata, "output")), expected, name);
    tap_is_str(tap_str(field(metadata, "exit")), "7", "what is behind it");
    tap_is_str(tap_str(field(block, "text")), expected, name);
}


/* broken by: an output that is kept more than once, left out, put where another
   one belongs, or not the same in all places */

static void
test_shared(void)
{
    size_t  bytes, kept;

    static char  out[30001], expected[30001];

    memset(out, 'x', 30000);
    memcpy(out + 100, "\\n\\ud800", 8);
    memcpy(out + 29988, "\\u00e4\\ud83d", 12);

    begin();
    tool("prt_1", "call_1", "'status':'running','input':{}");

    bytes = f.bytes;
    kept = f.kept;

    event(ROOT, "message.part.updated", "'part':{'id':'prt_1',"
          "'messageID':'msg_a','type':'tool','tool':'bash',"
          "'callID':'call_1','state':{'status':'completed','input':{},"
          "'output':'%s','metadata':{'a':[1],'output':'%s','exit':7}}}", out,
          out);

    tap_ok(f.bytes - bytes > 90000, "a packet of %lu bytes",
           (unsigned long) (f.bytes - bytes));
    tap_ok(f.kept - kept < 31000, "%lu bytes are kept of it",
           (unsigned long) (f.kept - kept));

    snprintf(expected, sizeof(expected), "%s",
             field(cJSON_GetObjectItem(cJSON_GetArrayItem(f.packets, f.seq - 1),
                                       "rawOutput"), "output"));

    tap_ok(ngx_memcmp(expected + 100, "\n\xef\xbf\xbdx", 5) == 0,
           "half a pair is replaced");
    printed(expected, "an output in three places");

    shown = f.seq;
    finish("end end_turn", "end");

    /* each of them its own */

    memset(out, 'x', 100);
    out[100] = '\0';
    memcpy(expected, out, 101);
    expected[99] = 'y';

    begin();
    event(ROOT, "message.part.updated", "'part':{'id':'prt_1',"
          "'messageID':'msg_a','type':'tool','tool':'bash',"
          "'callID':'call_1','state':{'status':'completed','input':{},"
          "'output':'%s','metadata':{'output':'%s'}}}", out, expected);

    tap_is_str(tap_str(field(cJSON_GetObjectItem(cJSON_GetObjectItem(
                   cJSON_GetArrayItem(f.packets, f.seq - 1), "rawOutput"),
                   "metadata"), "output")), expected,
               "another text is not the shared one");

    shown = f.seq;
    finish("end end_turn", "end");

    /* and a failure */

    begin();
    tool("prt_1", "call_1", "'status':'running','input':{}");

    bytes = f.bytes;
    kept = f.kept;
    event(ROOT, "message.part.updated", "'part':{'id':'prt_1',"
          "'messageID':'msg_a','type':'tool','tool':'bash',"
          "'callID':'call_1','state':{'status':'error','input':{},"
          "'error':'%s'}}", out);
    tap_is_str(tap_str(field(cJSON_GetObjectItem(cJSON_GetArrayItem(f.packets,
                                                                    f.seq - 1),
                                                 "rawOutput"), "error")), out,
               "an error in two places");
    tap_is(f.bytes - bytes - (f.kept - kept), 100 - 3 * sizeof(uint32_t),
           "is kept once, with its length and two holes");

    shown = f.seq;
    finish("end end_turn", "end");
}


int
main(void)
{
    test_tools();
    test_states();
    test_throttle();
    test_budget();
    test_shared();
    test_asks();
    test_asks_missed();

    return tap_done();
}
