
/*
 * Copyright (C) agentstream contributors
 */


/*
 * For tests of single rules of the translator, with events that no capture
 * contains.  Packets are compared as one short line each, see describe().
 */


#ifndef _NGX_HTTP_AGENTSTREAM_RULES_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_RULES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "sink.h"


#define ROOT   "ses_root"
#define CHILD  "ses_child"
#define TURN   "msg_u"


static fixture_t   f;
static ngx_uint_t  shown;       /* packets that were compared */
static char        buffer[1 << 20];


static void part(const char *id, const char *message, const char *rest)
    __attribute__((unused));
static void delta(const char *id, const char *message, const char *text)
    __attribute__((unused));
static void text(const char *id, const char *message, const char *text,
    ngx_uint_t final) __attribute__((unused));
static void tool(const char *id, const char *call, const char *state)
    __attribute__((unused));
static void rest(const char *session, const char *fmt, ...)
    __attribute__((unused));


/* all packets since the last time, a line each */

static const char *
field(cJSON *packet, const char *name)
{
    cJSON  *v;

    static char  numbers[8][32];
    static int   n;

    v = cJSON_GetObjectItemCaseSensitive(packet, name);

    if (cJSON_IsNumber(v)) {
        n = (n + 1) % 8;
        snprintf(numbers[n], 32, "%.17g", v->valuedouble);
        return numbers[n];
    }

    return cJSON_IsString(v) ? v->valuestring : "-";
}


static void
describe(char *p, cJSON *packet)
{
    cJSON       *content, *text;
    const char  *type, *meta;

    type = packet_type(packet);
    meta = cJSON_HasObjectItem(cJSON_GetObjectItem(packet, "_meta"),
                               "sessionId") ? "child " : "";

    if (strstr(type, "_chunk")) {
        content = cJSON_GetObjectItem(packet, "content");
        text = cJSON_GetObjectItem(content, "mimeType");
        sprintf(p, "%s%.*s %s %s'%s'", meta, (int) strlen(type) - 6, type,
                field(packet, "messageId"), text ? text->valuestring : "",
                field(content, text ? "data" : "text"));

    } else if (strcmp(type, "tool_call_start") == 0) {
        sprintf(p, "%sstart %s %s", meta, field(packet, "toolCallId"),
                field(packet, "title"));

    } else if (strcmp(type, "tool_call_progress") == 0) {
        content = cJSON_GetObjectItem(packet, "content");
        text = cJSON_GetObjectItem(cJSON_GetArrayItem(content, 0), "content");
        sprintf(p, "%s%s %s %s '%.40s'", meta, field(packet, "status"),
                field(packet, "toolCallId"), field(packet, "title"),
                field(text, "text"));

    } else if (strcmp(type, "chunks_discarded") == 0) {
        sprintf(p, "%sdiscard %s %s..%s", meta, field(packet, "messageId"),
                field(packet, "from"), field(packet, "to"));

    } else if (strcmp(type, "prompt_response") == 0) {
        sprintf(p, "end %s", field(packet, "stopReason"));

    } else if (strcmp(type, "error") == 0) {
        sprintf(p, "error %s '%s'", field(packet, "code"),
                field(packet, "message"));

    } else if (strcmp(type, "subagent_started") == 0) {
        sprintf(p, "subagent %s of %s", field(packet, "subagent_session_id"),
                field(packet, "parent_session_id"));

    } else if (strcmp(type, "compaction") == 0) {
        sprintf(p, "compaction '%s'", field(packet, "summary"));

    } else if (strstr(type, "_resolved")) {
        sprintf(p, "%s%s %s", meta, type,
                strstr(type, "question") ? field(packet, "outcome")
                                         : field(packet, "reply"));

        content = cJSON_GetObjectItem(packet, "answers");

        if (cJSON_IsArray(content)) {
            text = cJSON_GetArrayItem(cJSON_GetArrayItem(content, 0), 0);
            sprintf(p + strlen(p), " '%s'", cJSON_GetStringValue(text));
        }

    } else if (strcmp(type, "session_status") == 0) {
        sprintf(p, "%sretry %s '%s'", meta, field(packet, "attempt"),
                field(packet, "message"));

    } else {
        sprintf(p, "%s%s", meta, type);
    }
}


static void
expect(const char *lines, const char *name)
{
    char        *p;
    cJSON       *packet;
    ngx_uint_t   n;

    p = buffer;
    *p = '\0';
    n = 0;

    cJSON_ArrayForEach(packet, f.packets) {

        if (n++ < shown) {
            continue;
        }

        if (p != buffer) {
            *p++ = '\n';
        }

        describe(p, packet);
        p += strlen(p);
    }

    shown = n;

    tap_is_str(tap_str(buffer), lines, name);
}


/* JSON is written with ' for " */

static void
quotes(char *p)
{
    for ( /* void */ ; *p; p++) {
        if (*p == '\'') {
            *p = '"';
        }
    }
}


/* an event */

static void
say(const char *fmt, ...)
{
    va_list    args;
    ngx_str_t  data;

    va_start(args, fmt);
    vsnprintf(buffer, sizeof(buffer), fmt, args);
    va_end(args);

    quotes(buffer);

    data = tap_str(buffer);

    if (feed(&f, &data) != NGX_OK) {
        tap_ok(0, "not taken: %.200s", buffer);
    }
}


#define event(session, type, properties, ...)                                 \
    say("{'id':'evt_1','type':'" type "','properties':{'sessionID':'" session \
        "'," properties "}}", ##__VA_ARGS__)


static void
user(const char *id, int created)
{
    event(ROOT, "message.updated", "'info':{'id':'%s','role':'user',"
          "'sessionID':'" ROOT "','time':{'created':%d}}", id, created);
}


static void
assistant(const char *id, const char *parent, int created, const char *more)
{
    event(ROOT, "message.updated", "'info':{'id':'%s','role':'assistant',"
          "'parentID':'%s','time':{'created':%d%s}", id, parent, created,
          *more ? more : "}");
}


static void
part(const char *id, const char *message, const char *rest)
{
    event(ROOT, "message.part.updated",
          "'part':{'id':'%s','messageID':'%s',%s}", id, message, rest);
}


static void
delta(const char *id, const char *message, const char *text)
{
    event(ROOT, "message.part.delta", "'messageID':'%s','partID':'%s',"
          "'field':'text','delta':'%s'", message, id, text);
}


static void
text(const char *id, const char *message, const char *text, ngx_uint_t final)
{
    event(ROOT, "message.part.updated", "'part':{'id':'%s','messageID':'%s',"
          "'type':'text','text':'%s','time':{'start':1%s}}", id, message,
          text, final ? ",'end':2" : "");
}


static void
tool(const char *id, const char *call, const char *state)
{
    event(ROOT, "message.part.updated", "'part':{'id':'%s',"
          "'messageID':'msg_a','type':'tool','tool':'bash','callID':'%s',"
          "'state':{%s}}", id, call, state);
}


static void
rest(const char *session, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    vsnprintf(buffer, sizeof(buffer), fmt, args);
    va_end(args);

    quotes(buffer);

    if (feed_messages(&f, session, buffer) != NGX_OK) {
        tap_ok(0, "stored messages");
    }
}


static ngx_http_agentstream_translate_state_t *
state(void)
{
    return ngx_http_agentstream_translate_state(f.tr);
}


static void
begin_bare(void)
{
    setup(&f, ROOT, TURN);
    shown = 0;
}


static void
begin(void)
{
    begin_bare();
    user(TURN, 1000);
    assistant("msg_a", TURN, 1001, "");
}


static void
finish(const char *line, const char *name)
{
    if (ngx_http_agentstream_translate_finish(f.tr, 0) != NGX_OK) {
        tap_ok(0, "finish");
    }

    expect(line, name);

    if (f.invalid) {
        tap_ok(0, "%s: invalid packets", name);
    }

    teardown(&f);
}


#endif /* _NGX_HTTP_AGENTSTREAM_RULES_H_INCLUDED_ */
