
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The fake OpenCode's events, for all clients that listen, and the packets of
 * a raw stream.  The fields are those of t/data/captures.
 */


#include "opencode.h"

#include <time.h>


int64_t          wall;
buf_t            json;
char             stamp[80];

const char       base62[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static uint64_t  ids, seed = 88172645463325252ull;


uint64_t
now_us(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


void
clock_update(void)
{
    int64_t          ms;
    struct tm        tm;
    struct timespec  ts;

    clock_gettime(CLOCK_REALTIME, &ts);

    ms = (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;

    if (ms == wall) {
        return;
    }

    wall = ms;
    gmtime_r(&ts.tv_sec, &tm);

    snprintf(stamp, sizeof(stamp), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
             (tm.tm_year + 1900) % 10000, tm.tm_mon + 1, tm.tm_mday,
             tm.tm_hour, tm.tm_min, tm.tm_sec, (int) (ms % 1000));
}


void
id_make(char *dst, const char *prefix)
{
    int       i;
    uint64_t  n;

    static const char  hex[] = "0123456789abcdef";

    memcpy(dst, prefix, 4);

    n = ((uint64_t) wall << 12) + (++ids & 0xfff);

    for (i = 0; i < 12; i++) {
        dst[4 + i] = hex[(n >> (44 - 4 * i)) & 0xf];
    }

    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;

    for (i = 0, n = seed; i < 14; i++, n /= 31) {
        dst[16 + i] = base62[n % 62];
    }

    dst[30] = '\0';
}


void
event_begin(const char *type, size_t len)
{
    char  id[ID + 1];

    id_make(id, "evt_");

    json.len = 0;
    buf_text(&json, "{\"id\":\"");
    buf_add(&json, id, ID);
    buf_text(&json, "\",\"type\":\"");
    buf_add(&json, type, len);
    buf_text(&json, "\",\"properties\":{");
}


void
event_end(void)
{
    conn_t  *c;

    for (c = subscribers; c; c = c->next) {
        conn_chunk(c, "data: ", 6);
    }
}


void
event_say(turn_t *t, const char *type, const char *format, ...)
{
    int      n;
    va_list  args;

    if (t->raw) {
        return;
    }

    event_begin(type, strlen(type));
    buf_format(&json, "\"sessionID\":\"%s\"", t->session);

    buf_need(&json, 4096);

    va_start(args, format);
    n = vsnprintf(json.data + json.len, 4096, format, args);
    va_end(args);

    if (n < 0 || n >= 4096) {
        abort();
    }

    json.len += n;
    buf_text(&json, "}}");
    event_end();
}


void
packet_begin(const char *type)
{
    json.len = 0;
    buf_format(&json, "{\"type\":\"%s\",\"timestamp\":\"%s\"", type, stamp);
}


void
packet_end(turn_t *t)
{
    conn_t  *c;

    t->seq++;
    packet_send(t, t->raw, t->seq);

    for (c = t->watchers; c; c = c->next) {
        packet_send(t, c, t->seq);
    }
}


void
packet_send(turn_t *t, conn_t *c, uint64_t seq)
{
    int   n;
    char  head[160];

    n = snprintf(head, sizeof(head), "event: message\nid: %s:%llu\ndata: ",
                 t->user, (unsigned long long) seq);

    conn_chunk(c, head, n);
}


void
session_updated(turn_t *t)
{
    event_say(t, "session.updated", ",\"info\":{\"id\":\"%s\",\"slug\":"
        "\"silent-island\",\"projectID\":"
        "\"7735b6d1e9fe23fcba319f77ba34a96d813df362\",\"directory\":\""
        DIRECTORY "\",\"path\":\"\",\"title\":\"bench\",\"agent\":\"build\","
        "\"model\":{\"id\":\"scripted\",\"providerID\":\"lab\",\"variant\":"
        "\"default\"},\"version\":\"1.18.33\",\"summary\":{\"additions\":0,"
        "\"deletions\":0,\"files\":0},\"cost\":0,\"tokens\":{\"input\":100,"
        "\"output\":20,\"reasoning\":0,\"cache\":{\"read\":0,\"write\":0}},"
        "\"time\":{\"created\":%lld,\"updated\":%lld}}", t->session,
        (long long) t->created, (long long) wall);
    event_say(t, "session.diff", ",\"diff\":[]");
}


void
session_busy(turn_t *t)
{
    event_say(t, "session.status", ",\"status\":{\"type\":\"busy\"}");
}


void
user_updated(turn_t *t)
{
    event_say(t, "message.updated", ",\"info\":{\"role\":\"user\",\"time\":{"
        "\"created\":%lld},\"agent\":\"build\",\"model\":{\"providerID\":"
        "\"lab\",\"modelID\":\"scripted\"},\"summary\":{\"diffs\":[]},\"id\":"
        "\"%s\",\"sessionID\":\"%s\"}", (long long) t->created, t->user,
        t->session);
}


void
message_updated(turn_t *t, const char *tokens, const char *finish,
    const char *completed)
{
    event_say(t, "message.updated", ",\"info\":{\"id\":\"%s\",\"parentID\":"
        "\"%s\",\"role\":\"assistant\",\"mode\":\"build\",\"agent\":\"build\","
        "\"path\":{\"cwd\":\"" DIRECTORY "\",\"root\":\"" DIRECTORY "\"},"
        "\"cost\":0,\"tokens\":{%s\"reasoning\":0,\"cache\":{\"write\":0,"
        "\"read\":0}},\"modelID\":\"scripted\",\"providerID\":\"lab\","
        "\"time\":{\"created\":%lld%s},\"sessionID\":\"%s\"%s}", t->message,
        t->user, tokens, (long long) t->created, completed, t->session,
        finish);
}


void
step_start(turn_t *t)
{
    char  part[ID + 1];

    id_make(part, "prt_");
    session_busy(t);
    event_say(t, "message.part.updated", ",\"part\":{\"id\":\"%s\","
        "\"messageID\":\"%s\",\"sessionID\":\"%s\",\"snapshot\":"
        "\"8d73e4a5494acf43bace1f6274ea227e3d42d6a1\",\"type\":"
        "\"step-start\"},\"time\":%lld", part, t->message, t->session,
        (long long) wall);
}


void
step_finish(turn_t *t, const char *reason)
{
    char  part[ID + 1], finish[64], completed[64];

    id_make(part, "prt_");
    event_say(t, "message.part.updated", ",\"part\":{\"id\":\"%s\",\"reason\":"
        "\"%s\",\"snapshot\":\"8d73e4a5494acf43bace1f6274ea227e3d42d6a1\","
        "\"messageID\":\"%s\",\"sessionID\":\"%s\",\"type\":\"step-finish\","
        "\"tokens\":{" TOKENS "\"reasoning\":0,\"cache\":{\"write\":0,"
        "\"read\":0}},\"cost\":0},\"time\":%lld", part, reason, t->message,
        t->session, (long long) wall);

    snprintf(finish, sizeof(finish), ",\"finish\":\"%s\"", reason);
    snprintf(completed, sizeof(completed), ",\"completed\":%lld",
             (long long) wall);

    message_updated(t, TOKENS, finish, "");
    message_updated(t, TOKENS, finish, completed);

    if (t->raw) {
        packet_begin("context_usage");
        buf_format(&json, ",\"used_tokens\":120,\"cost\":0,\"tokens\":{" TOKENS
                   "\"reasoning\":0,\"cache\":{\"write\":0,\"read\":0}},"
                   "\"_meta\":null}");
        packet_end(t);
    }
}
