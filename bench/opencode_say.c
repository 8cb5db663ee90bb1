
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The content of a turn of the fake OpenCode, step by step: as events, or as
 * the packets that a bridge would make from them.
 */


#include "opencode.h"


#define LINE      64                      /* of tool output, escaped */
#define THROTTLE  200

#define COMMAND  "for i in 1 2 3 4 5 6 7 8 9; do echo \\\"$i\\\"; done"
#define INPUT    "{\"command\":\"" COMMAND "\",\"description\":\"Count\"}"


static char  tool_text[TOOL_MAX];
static char  filler[DELTA_MAX];


void
say_init(void)
{
    int  i;

    static const char  line[] =
        "0000 zq34d4c17eaf154f maple saffron vale plum lotus fern e\\n";

    for (i = 0; i < TOOL_MAX; i++) {
        tool_text[i] = (i % LINE < (int) sizeof(line) - 3) ? line[i % LINE]
                       : (i % LINE == LINE - 2) ? '\\'
                       : (i % LINE == LINE - 1) ? 'n' : '.';
    }

    for (i = 0; i < DELTA_MAX; i++) {
        filler[DELTA_MAX - 1 - i] = (i % 7 == 0) ? ' ' : 'a' + i % 26;
    }
}


void
say_turn_started(turn_t *t)
{
    packet_begin("turn_started");
    buf_format(&json, ",\"turnId\":\"%s\",\"sessionId\":\"%s\","
               "\"messageId\":\"%s\",\"_meta\":null}", t->user, t->session,
               t->user);
}


static void
say_turn_prelude(turn_t *t)
{
    char  part[ID + 1];

    id_make(t->message, "msg_");
    id_make(part, "prt_");

    if (t->raw) {
        say_turn_started(t);
        packet_end(t);
        return;
    }

    event_say(t, "message.updated", ",\"info\":{\"id\":\"%s\",\"role\":"
        "\"user\",\"sessionID\":\"%s\",\"time\":{\"created\":%lld},\"agent\":"
        "\"build\",\"model\":{\"providerID\":\"lab\",\"modelID\":"
        "\"scripted\"}}", t->user, t->session, (long long) t->created);
    event_say(t, "message.part.updated", ",\"part\":{\"type\":\"text\","
        "\"text\":\"bench\",\"messageID\":\"%s\",\"sessionID\":\"%s\","
        "\"id\":\"%s\"},\"time\":%lld", t->user, t->session, part,
        (long long) wall);
    session_updated(t);
    session_busy(t);
    message_updated(t, NO_TOKENS, "", "");
    session_updated(t);
    user_updated(t);
    step_start(t);
}


/* the head of a packet about the call */

static void
tool_packet(turn_t *t, const char *type, const char *update, const char *title,
    const char *status, const char *input)
{
    packet_begin(type);
    buf_format(&json, ",\"sessionUpdate\":\"%s\",\"toolCallId\":\"%s\","
               "\"title\":\"%s\",\"kind\":\"execute\",\"status\":\"%s\","
               "\"rawInput\":%s,\"rawOutput\":", update, t->call, title,
               status, input);
}


static void
tool_content(size_t len)
{
    buf_text(&json, ",\"content\":[{\"type\":\"content\",\"content\":"
             "{\"type\":\"text\",\"text\":\"");
    buf_add(&json, tool_text, len);
    buf_text(&json, "\",\"annotations\":null},\"_meta\":null}]");
}


static void
say_pending(turn_t *t)
{
    id_make(t->tool_id, "prt_");
    snprintf(t->call, sizeof(t->call), "call_%.24s", t->tool_id + 4);

    if (t->raw) {
        tool_packet(t, "tool_call_start", "tool_call", "bash", "pending",
                    "{}");
        buf_text(&json, "null,\"content\":null,\"locations\":[],\"_meta\":"
                 "{\"toolName\":\"bash\"}}");
        packet_end(t);
        return;
    }

    event_say(t, "message.part.updated", ",\"part\":{\"id\":\"%s\","
        "\"messageID\":\"%s\",\"sessionID\":\"%s\",\"type\":\"tool\","
        "\"tool\":\"bash\",\"callID\":\"%s\",\"state\":{\"status\":"
        "\"pending\",\"input\":{},\"raw\":\"\"}},\"time\":%lld", t->tool_id,
        t->message, t->session, t->call, (long long) wall);
}


static size_t
tool_size(turn_t *t)
{
    size_t  n;

    n = t->snapshots ? t->tool * t->nsnapshots / t->snapshots : t->tool;

    return n / LINE * LINE;
}


static void
say_running(turn_t *t)
{
    size_t  len;

    len = tool_size(t);

    if (t->raw) {

        if (t->throttled && wall - t->throttled < THROTTLE) {
            return;
        }

        t->throttled = wall;

        tool_packet(t, "tool_call_progress", "tool_call_update", "bash",
                    "in_progress", INPUT);
        buf_text(&json, "null");

        if (len) {
            tool_content(len);

        } else {
            buf_text(&json, ",\"content\":null");
        }

        buf_text(&json, ",\"locations\":[],\"_meta\":{\"toolName\":"
                 "\"bash\"}}");
        packet_end(t);
        return;
    }

    event_begin("message.part.updated", sizeof("message.part.updated") - 1);
    buf_format(&json, "\"sessionID\":\"%s\",\"part\":{\"type\":\"tool\","
               "\"tool\":\"bash\",\"callID\":\"%s\",\"state\":{\"metadata\":"
               "{\"output\":\"", t->session, t->call);
    buf_add(&json, tool_text, len);
    buf_format(&json, "\"},\"status\":\"running\",\"input\":" INPUT
               ",\"time\":{\"start\":%lld}},\"id\":\"%s\",\"sessionID\":"
               "\"%s\",\"messageID\":\"%s\"},\"time\":%lld}}",
               (long long) t->created, t->tool_id, t->session, t->message,
               (long long) wall);
    event_end();
}


static void
say_completed(turn_t *t)
{
    size_t  len;

    len = t->tool / LINE * LINE;

    if (t->raw) {
        tool_packet(t, "tool_call_progress", "tool_call_update", COMMAND,
                    "completed", INPUT);
        buf_text(&json, "{\"output\":\"");
        buf_add(&json, tool_text, len);
        buf_text(&json, "\",\"metadata\":{\"output\":\"");
        buf_add(&json, tool_text, len);
        buf_text(&json, "\",\"exit\":0,\"truncated\":false}}");
        tool_content(len);
        buf_text(&json, ",\"locations\":null,\"_meta\":{\"toolName\":"
                 "\"bash\"}}");
        packet_end(t);

    } else {
        event_begin("message.part.updated",
                    sizeof("message.part.updated") - 1);
        buf_format(&json, "\"sessionID\":\"%s\",\"part\":{\"type\":\"tool\","
                   "\"tool\":\"bash\",\"callID\":\"%s\",\"state\":{"
                   "\"status\":\"completed\",\"input\":" INPUT ",\"output\":"
                   "\"", t->session, t->call);
        buf_add(&json, tool_text, len);
        buf_text(&json, "\",\"metadata\":{\"output\":\"");
        buf_add(&json, tool_text, len);
        buf_format(&json, "\",\"exit\":0,\"truncated\":false},\"title\":\""
                   COMMAND "\",\"time\":{\"start\":%lld,\"end\":%lld}},"
                   "\"id\":\"%s\",\"sessionID\":\"%s\",\"messageID\":\"%s\"},"
                   "\"time\":%lld}}", (long long) t->created, (long long) wall,
                   t->tool_id, t->session, t->message, (long long) wall);
        event_end();
    }

    step_finish(t, "tool-calls");
}


static void
say_second_step(turn_t *t)
{
    id_make(t->message, "msg_");
    message_updated(t, NO_TOKENS, "", "");
    session_updated(t);
    user_updated(t);
    step_start(t);
}


static void
say_text_start(turn_t *t)
{
    buf_t  head;

    id_make(t->text_id, "prt_");

    memset(&head, 0, sizeof(buf_t));

    if (t->raw) {
        buf_format(&head, ",\"sessionUpdate\":\"agent_message_chunk\","
                   "\"messageId\":\"%s\",\"content\":{\"type\":\"text\","
                   "\"text\":\"", t->message);

    } else {
        event_say(t, "message.part.updated", ",\"part\":{\"id\":\"%s\","
            "\"messageID\":\"%s\",\"sessionID\":\"%s\",\"type\":\"text\","
            "\"text\":\"\",\"time\":{\"start\":%lld}},\"time\":%lld",
            t->text_id, t->message, t->session, (long long) wall,
            (long long) wall);

        buf_format(&head, "\"sessionID\":\"%s\",\"messageID\":\"%s\","
                   "\"partID\":\"%s\",\"field\":\"text\",\"delta\":\"",
                   t->session, t->message, t->text_id);
    }

    t->head = head.data;
    t->head_len = head.len;
}


static void
say_one_delta(turn_t *t)
{
    char      delta[DELTA_MAX];
    size_t    len, i;
    uint64_t  us;

    if (++t->ndeltas == t->deltas) {
        len = snprintf(delta, sizeof(delta), "#%016llx",
                       (unsigned long long) t->digest);

    } else {
        len = t->size;
        us = now_us();

        for (i = 5; i > 0; i--, us /= 62) {
            delta[i - 1] = base62[us % 62];
        }

        memcpy(delta + 5, filler + DELTA_MAX - (len - 5), len - 5);

        for (i = 0; i < len; i++) {
            t->digest ^= (unsigned char) delta[i];
            t->digest *= 0x100000001b3ull;
        }
    }

    memcpy(t->text + t->text_len, delta, len);
    t->text_len += len;

    if (t->raw) {
        json.len = 0;
        buf_text(&json, "{\"type\":\"agent_message_chunk\",\"timestamp\":\"");
        buf_add(&json, stamp, 24);
        buf_text(&json, "\"");
        buf_add(&json, t->head, t->head_len);
        buf_add(&json, delta, len);
        buf_text(&json, "\",\"annotations\":null},\"_meta\":null}");
        packet_end(t);
        return;
    }

    event_begin("message.part.delta", sizeof("message.part.delta") - 1);
    buf_add(&json, t->head, t->head_len);
    buf_add(&json, delta, len);
    buf_text(&json, "\"}}");
    event_end();
}


static void
say_turn_end(turn_t *t)
{
    if (t->raw) {
        step_finish(t, "stop");
        packet_begin("prompt_response");
        buf_format(&json, ",\"stopReason\":\"end_turn\",\"usage\":"
                   "{\"totalTokens\":240,\"inputTokens\":200,\"outputTokens\":"
                   "40,\"thoughtTokens\":0,\"cachedReadTokens\":0,"
                   "\"cachedWriteTokens\":0},\"_meta\":{}}");
        packet_end(t);
        turn_finish(t);
        return;
    }

    if (t->text_id[0]) {
        event_begin("message.part.updated",
                    sizeof("message.part.updated") - 1);
        buf_format(&json, "\"sessionID\":\"%s\",\"part\":{\"id\":\"%s\","
                   "\"messageID\":\"%s\",\"sessionID\":\"%s\",\"type\":"
                   "\"text\",\"text\":\"", t->session, t->text_id, t->message,
                   t->session);
        buf_add(&json, t->text, t->text_len);
        buf_format(&json, "\",\"time\":{\"start\":%lld,\"end\":%lld}},"
                   "\"time\":%lld}}", (long long) t->created,
                   (long long) wall, (long long) wall);
        event_end();
    }

    if (t->aborted) {
        event_say(t, "session.error", ",\"error\":{\"name\":"
            "\"MessageAbortedError\",\"data\":{\"message\":\"Aborted\"}}");

    } else {
        step_finish(t, "stop");
        session_busy(t);
    }

    event_say(t, "session.status", ",\"status\":{\"type\":\"idle\"}");
    event_say(t, "session.idle", "%s", "");
    session_updated(t);
    user_updated(t);
}


long
turn_say(turn_t *t)
{
    if (t->aborted && t->say < say_end) {
        t->say = say_end;
    }

    switch (t->say) {

    case say_prelude:
        say_turn_prelude(t);
        t->say = t->tool ? say_tool_pending : say_hold;
        return 0;

    case say_tool_pending:
        say_pending(t);
        t->say = say_tool_running;
        return 0;

    case say_tool_running:
        say_running(t);

        if (t->nsnapshots++ == t->snapshots) {
            t->say = say_tool_completed;
        }

        return t->pace;

    case say_tool_completed:
        say_completed(t);
        t->say = say_step;
        return 0;

    case say_step:
        say_second_step(t);
        t->say = say_hold;
        return 0;

    case say_hold:
        t->say = t->deltas ? say_text : say_end;
        return t->hold;

    case say_text:
        say_text_start(t);
        t->say = say_delta;
        return 0;

    case say_delta:
        say_one_delta(t);

        if (t->ndeltas == t->deltas) {
            t->say = say_end;
        }

        return t->pace;

    case say_end:
        say_turn_end(t);
        t->say = say_over;
        return 0;

    case say_over:
        break;
    }

    return -1;
}
