
/*
 * Copyright (C) agentstream contributors
 */


/*
 * A fake OpenCode for the benchmark: one thread, epoll, no allocation per
 * event.  Every session "ses_..." exists.  A prompt says what its turn is:
 *
 *     bench deltas=200 size=6 pace=33 tool=30000 snapshots=20 hold=0
 *
 * deltas of size bytes, pace ms apart (0: as fast as they are read), after one
 * bash call whose output grows to tool bytes in so many running states, and a
 * pause of hold ms.  Events and fields stand as in t/data/captures.  A delta
 * begins with the time it was made, 5 base-62 digits of CLOCK_MONOTONIC's
 * microseconds; the last one is "#" and the FNV-1a digest of all text before.
 *
 * POST /raw/{id}/send-message answers with the same turn as packets, already
 * translated: what a bridge would send, for whoever only moves bytes.
 */


#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


#define DIRECTORY   "/workspace/bench"
#define LIMIT       (128 * 1024)          /* queued, before a flood waits */
#define BACKLOG     (256 * 1024 * 1024)   /* queued, before a reader is cut */
#define REQUEST     (1024 * 1024)
#define TOOL_MAX    (1024 * 1024)
#define DELTA_MAX   4096
#define DELTAS_MAX  10000000
#define LINE        64                    /* of tool output, escaped */
#define WHEEL       4096                  /* ms */
#define HASH        16384
#define KEPT        8192                  /* finished turns */
#define THROTTLE    200
#define ID          30
#define FDS         65536


typedef struct {
    char               *data;
    size_t              len;
    size_t              size;
    size_t              sent;
} buf_t;


typedef struct turn_s  turn_t;
typedef struct conn_s  conn_t;


struct conn_s {
    int                 fd;
    buf_t               in;
    buf_t               out;
    turn_t             *turn;       /* of a raw stream */
    conn_t             *next;       /* of the subscribers, or of the dirty */
    conn_t             *prev;
    conn_t             *dirty;
    unsigned            subscriber:1;
    unsigned            queued:1;
    unsigned            waiting:1;  /* for EPOLLOUT */
    unsigned            closing:1;
    unsigned            gone:1;
};


/* what a turn says next */

typedef enum {
    say_prelude = 0,
    say_tool_pending,
    say_tool_running,
    say_tool_completed,
    say_step,
    say_hold,
    say_text,
    say_delta,
    say_end,
    say_over
} say_e;


struct turn_s {
    turn_t             *next;       /* in its slot of the wheel, or the queue
                                       of those that flood */
    turn_t             *chain;      /* in the hash */
    conn_t             *raw;        /* translated, for this connection */

    say_e               say;
    int64_t             due;        /* ms */
    uint64_t            rounds;     /* of the wheel, until it is due */

    long                deltas, size, pace, tool, snapshots, hold;
    long                ndeltas, nsnapshots;
    int64_t             created, throttled;
    uint64_t            digest, seq;

    char                session[72];
    char                user[72];
    char                message[ID + 1];
    char                text_id[ID + 1];
    char                tool_id[ID + 1];
    char                call[40];

    char               *text;       /* said so far */
    size_t              text_len;

    char               *head;       /* of a delta event, after its id */
    size_t              head_len;

    unsigned            held:1;
    unsigned            second:1;   /* the step after the call */
    unsigned            aborted:1;
    unsigned            listed:1;
};


static int          ep;
static conn_t      *subscribers, *dirty;
static turn_t      *wheel[WHEEL], *flood, **flood_last = &flood;
static turn_t      *hash[HASH], *kept[KEPT];
static size_t       nkept, nrunning;
static int64_t      tick;           /* ms, the wheel's hand */
static int64_t      wall;           /* ms */
static uint64_t     ids, events, seed = 88172645463325252ull;
static buf_t        json;           /* the event being made */
static char         tool_text[TOOL_MAX];
static char         stamp[80];
static char         filler[DELTA_MAX];

static const char   base62[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";


static uint64_t
now_us(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


static void
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


static void
buf_need(buf_t *b, size_t len)
{
    if (b->sent && b->sent == b->len) {
        b->sent = 0;
        b->len = 0;
    }

    if (b->size - b->len >= len) {
        return;
    }

    if (b->sent) {
        memmove(b->data, b->data + b->sent, b->len - b->sent);
        b->len -= b->sent;
        b->sent = 0;
    }

    while (b->size - b->len < len) {
        b->size = b->size ? b->size * 2 : 4096;
    }

    b->data = realloc(b->data, b->size);
    if (b->data == NULL) {
        abort();
    }
}


static void
buf_add(buf_t *b, const char *data, size_t len)
{
    buf_need(b, len);
    memcpy(b->data + b->len, data, len);
    b->len += len;
}


#define buf_text(b, text)  buf_add(b, text, sizeof(text) - 1)


static void
buf_format(buf_t *b, const char *format, ...)
{
    int      n;
    va_list  args;

    buf_need(b, 2048);

    va_start(args, format);
    n = vsnprintf(b->data + b->len, 2048, format, args);
    va_end(args);

    if (n < 0 || n >= 2048) {
        abort();
    }

    b->len += n;
}


static void
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


/* Connections */

static void
conn_dirty(conn_t *c)
{
    if (!c->queued) {
        c->queued = 1;
        c->dirty = dirty;
        dirty = c;
    }
}


static void
conn_close(conn_t *c)
{
    if (c->gone) {
        return;
    }

    c->gone = 1;

    if (c->subscriber) {
        if (c->prev) {
            c->prev->next = c->next;

        } else {
            subscribers = c->next;
        }

        if (c->next) {
            c->next->prev = c->prev;
        }
    }

    if (c->turn) {
        c->turn->raw = NULL;
        c->turn->say = say_over;
        c->turn = NULL;
    }

    close(c->fd);

    /* freed by conn_flush(), nobody holds it then */

    conn_dirty(c);
}


static void
conn_flush(void)
{
    ssize_t             n;
    conn_t             *c, *next;
    struct epoll_event  ee;

    for (c = dirty, dirty = NULL; c; c = next) {
        next = c->dirty;
        c->queued = 0;

        if (c->gone) {
            free(c->in.data);
            free(c->out.data);
            free(c);
            continue;
        }

        while (c->out.sent < c->out.len) {
            n = send(c->fd, c->out.data + c->out.sent,
                     c->out.len - c->out.sent, MSG_NOSIGNAL);

            if (n > 0) {
                c->out.sent += n;
                continue;
            }

            if (n == -1 && errno == EINTR) {
                continue;
            }

            break;
        }

        if (c->out.sent < c->out.len && errno != EAGAIN) {
            conn_close(c);
            continue;
        }

        if (c->out.len - c->out.sent > BACKLOG) {
            fprintf(stderr, "opencode: a reader is too slow\n");
            conn_close(c);
            continue;
        }

        if (c->out.sent == c->out.len && c->closing) {
            conn_close(c);
            continue;
        }

        if ((c->out.sent < c->out.len) != c->waiting) {
            c->waiting = !c->waiting;
            ee.events = EPOLLIN|EPOLLRDHUP|(c->waiting ? EPOLLOUT : 0);
            ee.data.ptr = c;
            epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ee);
        }
    }
}


static void
conn_answer(conn_t *c, const char *status, const char *body, size_t len)
{
    buf_format(&c->out, "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n", status, len);
    buf_add(&c->out, body, len);
    conn_dirty(c);
}


static void
conn_stream(conn_t *c)
{
    buf_text(&c->out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
             "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"
             "Transfer-Encoding: chunked\r\n\r\n");
    conn_dirty(c);
}


static void
conn_chunk(conn_t *c, const char *head, size_t head_len)
{
    char  size[32];
    int   n;

    n = snprintf(size, sizeof(size), "%zx\r\n", head_len + json.len + 2);

    buf_need(&c->out, n + head_len + json.len + 4);
    buf_add(&c->out, size, n);
    buf_add(&c->out, head, head_len);
    buf_add(&c->out, json.data, json.len);
    buf_text(&c->out, "\n\n\r\n");
    conn_dirty(c);
}


/* Events and packets */

static void
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


static void
event_end(void)
{
    conn_t  *c;

    events++;

    for (c = subscribers; c; c = c->next) {
        conn_chunk(c, "data: ", 6);
    }
}


/* an event of the turn, from its properties after the session's */

static void
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


static void
packet_begin(const char *type)
{
    json.len = 0;
    buf_format(&json, "{\"type\":\"%s\",\"timestamp\":\"%s\"", type, stamp);
}


static void
packet_end(turn_t *t)
{
    int   n;
    char  head[160];

    events++;

    n = snprintf(head, sizeof(head),
                 "event: message\nid: %s:%llu\ndata: ", t->user,
                 (unsigned long long) ++t->seq);

    conn_chunk(t->raw, head, n);
}


static void
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


static void
session_busy(turn_t *t)
{
    event_say(t, "session.status", ",\"status\":{\"type\":\"busy\"}");
}


static void
user_updated(turn_t *t)
{
    event_say(t, "message.updated", ",\"info\":{\"role\":\"user\",\"time\":{"
        "\"created\":%lld},\"agent\":\"build\",\"model\":{\"providerID\":"
        "\"lab\",\"modelID\":\"scripted\"},\"summary\":{\"diffs\":[]},\"id\":"
        "\"%s\",\"sessionID\":\"%s\"}", (long long) t->created, t->user,
        t->session);
}


static void
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


#define NO_TOKENS  "\"input\":0,\"output\":0,"
#define TOKENS     "\"total\":120,\"input\":100,\"output\":20,"


static void
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


static void
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


static void
say_turn_prelude(turn_t *t)
{
    char  part[ID + 1];

    id_make(t->message, "msg_");
    id_make(part, "prt_");

    if (t->raw) {
        packet_begin("turn_started");
        buf_format(&json, ",\"turnId\":\"%s\",\"sessionId\":\"%s\","
                   "\"messageId\":\"%s\",\"_meta\":null}", t->user, t->session,
                   t->user);
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


#define COMMAND  "for i in 1 2 3 4 5 6 7 8 9; do echo \\\"$i\\\"; done"
#define INPUT    "{\"command\":\"" COMMAND "\",\"description\":\"Count\"}"


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

        buf_text(&t->raw->out, "0\r\n\r\n");
        t->raw->turn = NULL;
        t->raw = NULL;
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


/* says the next thing; returns the time until the one after it */

static long
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
        t->say = say_text;
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


/* Turns */

static size_t
session_hash(const char *id)
{
    size_t  h;

    for (h = 5381; *id; id++) {
        h = h * 33 + (unsigned char) *id;
    }

    return h % HASH;
}


static turn_t *
turn_find(const char *session)
{
    turn_t  *t;

    for (t = hash[session_hash(session)]; t; t = t->chain) {
        if (strcmp(t->session, session) == 0) {
            return t;
        }
    }

    return NULL;
}


static void
turn_free(turn_t *t)
{
    turn_t  **p;

    for (p = &hash[session_hash(t->session)]; *p; p = &(*p)->chain) {
        if (*p == t) {
            *p = t->chain;
            break;
        }
    }

    free(t->text);
    free(t->head);
    free(t);
}


static void
turn_over(turn_t *t)
{
    turn_t  **slot;

    /* kept for those who ask for its messages */

    nrunning--;
    slot = &kept[nkept++ % KEPT];

    if (*slot) {
        turn_free(*slot);
    }

    *slot = t;

    free(t->head);
    t->head = NULL;
}


static void
turn_schedule(turn_t *t, long delay)
{
    turn_t  **slot;

    if (delay < 0) {
        turn_over(t);
        return;
    }

    t->next = NULL;

    if (delay == 0) {
        *flood_last = t;
        flood_last = &t->next;
        return;
    }

    /* from when it was due, so that a late one keeps the pace */

    t->due = (t->due > tick - 1000 ? t->due : tick) + delay;

    if (t->due <= tick) {
        t->due = tick + 1;
    }

    t->rounds = (t->due - tick - 1) / WHEEL;
    slot = &wheel[t->due % WHEEL];
    t->next = *slot;
    *slot = t;
}


static void
wheel_turn(int64_t now)
{
    turn_t  *t, *next;

    while (tick < now) {
        tick++;

        t = wheel[tick % WHEEL];
        wheel[tick % WHEEL] = NULL;

        for ( /* void */ ; t; t = next) {
            next = t->next;

            if (t->rounds) {
                t->rounds--;
                t->next = wheel[tick % WHEEL];
                wheel[tick % WHEEL] = t;
                continue;
            }

            turn_schedule(t, turn_say(t));
        }
    }
}


static int
subscribers_behind(void)
{
    conn_t  *c;

    for (c = subscribers; c; c = c->next) {
        if (c->out.len - c->out.sent > LIMIT) {
            return 1;
        }
    }

    return 0;
}


/* one thing of each turn that has more to say now; false: nobody could */

static int
flood_run(void)
{
    int      said, behind;
    long     delay;
    size_t   n;
    turn_t  *t, *list;

    said = 0;

    for (n = 0; n < 64 && flood; n++) {
        list = flood;
        flood = NULL;
        flood_last = &flood;
        behind = subscribers_behind();

        while (list) {
            t = list;
            list = t->next;

            if (t->raw ? t->raw->out.len - t->raw->out.sent > LIMIT : behind) {
                turn_schedule(t, 0);
                continue;
            }

            delay = turn_say(t);
            said = 1;

            if (delay > 0 && t->due < tick - 1000) {
                t->due = tick;
            }

            turn_schedule(t, delay);
        }
    }

    return said;
}


static long
number(const char *text, const char *name, long value, long max)
{
    char  *p;
    long   n;

    p = strstr(text, name);
    if (p == NULL) {
        return value;
    }

    n = strtol(p + strlen(name), NULL, 10);

    return n < 0 ? 0 : n > max ? max : n;
}


static turn_t *
turn_create(const char *session, const char *body)
{
    turn_t      *t, *old;
    const char  *p;

    t = calloc(1, sizeof(turn_t));
    if (t == NULL) {
        abort();
    }

    snprintf(t->session, sizeof(t->session), "%s", session);

    p = strstr(body, "\"messageID\":\"");

    if (p) {
        p += sizeof("\"messageID\":\"") - 1;
        snprintf(t->user, sizeof(t->user), "%.*s",
                 (int) strcspn(p, "\""), p);

    } else {
        id_make(t->user, "msg_");
    }

    t->deltas = number(body, "deltas=", 200, DELTAS_MAX);
    t->size = number(body, "size=", 6, DELTA_MAX);
    t->pace = number(body, "pace=", 0, 60000);
    t->tool = number(body, "tool=", 0, TOOL_MAX);
    t->snapshots = number(body, "snapshots=", 2, 1000);
    t->hold = number(body, "hold=", 0, 600000);

    t->deltas = t->deltas < 1 ? 1 : t->deltas;
    t->size = t->size < 6 ? 6 : t->size;

    t->text = malloc(t->deltas * t->size + 32);
    if (t->text == NULL) {
        abort();
    }

    t->digest = 0xcbf29ce484222325ull;
    t->created = wall;
    t->due = tick;

    old = turn_find(session);

    if (old) {
        /* only the last one of a session is found again */
        turn_t  **q;

        for (q = &hash[session_hash(session)]; *q != old; q = &(*q)->chain);
        *q = old->chain;
        old->session[0] = '\0';
    }

    t->chain = hash[session_hash(session)];
    hash[session_hash(session)] = t;

    nrunning++;
    turn_schedule(t, 0);

    return t;
}


/* REST */

static void
stored_messages(buf_t *b, turn_t *t)
{
    b->len = 0;
    buf_format(b, "[{\"info\":{\"id\":\"%s\",\"sessionID\":\"%s\",\"role\":"
        "\"user\",\"time\":{\"created\":%lld},\"agent\":\"build\",\"model\":{"
        "\"providerID\":\"lab\",\"modelID\":\"scripted\"}},\"parts\":[{"
        "\"id\":\"prt_0\",\"sessionID\":\"%s\",\"messageID\":\"%s\",\"type\":"
        "\"text\",\"text\":\"bench\"}]}", t->user, t->session,
        (long long) t->created, t->session, t->user);

    if (t->message[0]) {
        buf_format(b, ",{\"info\":{\"id\":\"%s\",\"sessionID\":\"%s\","
            "\"role\":\"assistant\",\"time\":{\"created\":%lld", t->message,
            t->session, (long long) t->created);

        if (t->say == say_over) {
            buf_format(b, ",\"completed\":%lld", (long long) wall);
        }

        buf_format(b, "},\"parentID\":\"%s\",\"modelID\":\"scripted\","
            "\"providerID\":\"lab\",\"mode\":\"build\",\"agent\":\"build\","
            "\"path\":{\"cwd\":\"" DIRECTORY "\",\"root\":\"" DIRECTORY "\"},"
            "\"cost\":0,\"tokens\":{" TOKENS "\"reasoning\":0,\"cache\":{"
            "\"read\":0,\"write\":0}}%s},\"parts\":[", t->user,
            t->say == say_over ? ",\"finish\":\"stop\"" : "");

        if (t->text_id[0]) {
            buf_format(b, "{\"id\":\"%s\",\"sessionID\":\"%s\","
                "\"messageID\":\"%s\",\"type\":\"text\",\"text\":\"",
                t->text_id, t->session, t->message);

            if (t->say == say_over) {
                buf_add(b, t->text, t->text_len);
            }

            buf_format(b, "\",\"time\":{\"start\":%lld%s}}",
                       (long long) t->created,
                       t->say == say_over ? ",\"end\":1" : "");
        }

        buf_text(b, "]}");
    }

    buf_text(b, "]");
}


static void
answer_session(conn_t *c, const char *id)
{
    buf_t  b;

    memset(&b, 0, sizeof(buf_t));

    buf_format(&b, "{\"id\":\"%s\",\"slug\":\"silent-island\",\"version\":"
        "\"1.18.33\",\"projectID\":"
        "\"7735b6d1e9fe23fcba319f77ba34a96d813df362\",\"directory\":\""
        DIRECTORY "\",\"path\":\"\",\"title\":\"bench\",\"cost\":0,"
        "\"tokens\":{\"input\":0,\"output\":0,\"reasoning\":0,\"cache\":{"
        "\"read\":0,\"write\":0}},\"time\":{\"created\":%lld,\"updated\":"
        "%lld}}", id, (long long) wall, (long long) wall);

    conn_answer(c, "200 OK", b.data, b.len);
    free(b.data);
}


static void
answer_messages(conn_t *c, const char *id, int one)
{
    buf_t    b;
    turn_t  *t;

    t = turn_find(id);

    if (t == NULL) {
        conn_answer(c, one ? "404 Not Found" : "200 OK", "[]", 2);
        return;
    }

    memset(&b, 0, sizeof(buf_t));
    stored_messages(&b, t);

    if (one) {
        /* the assistant's, if there is one */
        char  *p = strstr(b.data, "]},{\"info\"");

        if (p) {
            p += 3;
            conn_answer(c, "200 OK", p, b.data + b.len - 1 - p);

        } else {
            conn_answer(c, "200 OK", b.data + 1, b.len - 2);
        }

    } else {
        conn_answer(c, "200 OK", b.data, b.len);
    }

    free(b.data);
}


static void
answer_status(conn_t *c)
{
    buf_t    b;
    size_t   i;
    turn_t  *t;

    memset(&b, 0, sizeof(buf_t));
    buf_text(&b, "{");

    for (i = 0; i < HASH; i++) {
        for (t = hash[i]; t; t = t->chain) {
            if (t->say != say_over && t->raw == NULL) {
                buf_format(&b, "%s\"%s\":{\"type\":\"busy\"}",
                           b.len > 1 ? "," : "", t->session);
            }
        }
    }

    buf_text(&b, "}");
    conn_answer(c, "200 OK", b.data, b.len);
    free(b.data);
}


static void
answer_events(conn_t *c)
{
    conn_t  *others;

    conn_stream(c);

    c->subscriber = 1;
    c->next = NULL;
    c->prev = NULL;

    /* the greeting is for this one only */

    others = subscribers;
    subscribers = c;
    event_begin("server.connected", sizeof("server.connected") - 1);
    buf_text(&json, "}}");
    event_end();

    c->next = others;

    if (others) {
        others->prev = c;
    }
}


static void
answer(conn_t *c, char *path, const char *body)
{
    char     id[72], *rest;
    size_t   len;
    turn_t  *t;

    path[strcspn(path, "?")] = '\0';

    if (strcmp(path, "/event") == 0) {
        answer_events(c);
        return;
    }

    if (strcmp(path, "/session/status") == 0) {
        answer_status(c);
        return;
    }

    if (strncmp(path, "/session/ses_", 13) == 0) {
        rest = path + 9;

    } else if (strncmp(path, "/raw/ses_", 9) == 0) {
        rest = path + 5;

    } else {
        conn_answer(c, "404 Not Found", "{}", 2);
        return;
    }

    len = strcspn(rest, "/");
    snprintf(id, sizeof(id), "%.*s", (int) len, rest);
    rest += len;

    if (*rest == '\0') {
        answer_session(c, id);

    } else if (strcmp(rest, "/message") == 0) {
        answer_messages(c, id, 0);

    } else if (strncmp(rest, "/message/", 9) == 0) {
        answer_messages(c, id, 1);

    } else if (strcmp(rest, "/prompt_async") == 0) {
        buf_text(&c->out, "HTTP/1.1 204 No Content\r\n\r\n");
        conn_dirty(c);
        turn_create(id, body);

    } else if (strcmp(rest, "/abort") == 0) {
        t = turn_find(id);

        if (t && t->say < say_end) {
            t->aborted = 1;
        }

        conn_answer(c, "200 OK", "true", 4);

    } else if (strcmp(rest, "/send-message") == 0) {
        conn_stream(c);
        t = turn_create(id, body);
        t->raw = c;
        c->turn = t;

    } else {
        conn_answer(c, "404 Not Found", "{}", 2);
    }
}


/* one request of those that were read; false: it is not whole yet */

static int
conn_request(conn_t *c)
{
    char    *p, *end, *body, *path, *length, save;
    size_t   len;

    buf_need(&c->in, 1);
    c->in.data[c->in.len] = '\0';

    p = c->in.data + c->in.sent;
    end = strstr(p, "\r\n\r\n");

    if (end == NULL) {
        return 0;
    }

    *end = '\0';
    length = strcasestr(p, "\r\nContent-Length:");
    len = length ? strtoul(length + 17, NULL, 10) : 0;
    *end = '\r';

    body = end + 4;

    if (len > REQUEST) {
        conn_close(c);
        return 0;
    }

    if ((size_t) (c->in.data + c->in.len - body) < len) {
        return 0;
    }

    path = p + strcspn(p, " ");

    if (*path == ' ') {
        *path++ = '\0';
    }

    path[strcspn(path, " ")] = '\0';

    save = body[len];
    body[len] = '\0';
    answer(c, path, body);
    body[len] = save;

    c->in.sent = body + len - c->in.data;

    return !c->gone;
}


static void
conn_read(conn_t *c)
{
    ssize_t  n;

    for ( ;; ) {
        buf_need(&c->in, 16384);

        n = recv(c->fd, c->in.data + c->in.len, 16383, 0);

        if (n == -1 && errno == EAGAIN) {
            return;
        }

        if (n <= 0) {
            conn_close(c);
            return;
        }

        c->in.len += n;

        if (c->in.len - c->in.sent > REQUEST + 16384) {
            conn_close(c);
            return;
        }

        while (conn_request(c)) { /* void */ }

        if (c->gone || n < 16383) {
            return;
        }
    }
}


static void
conn_accept(int ls)
{
    int                 fd, one;
    conn_t             *c;
    struct epoll_event  ee;

    for ( ;; ) {
        fd = accept4(ls, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC);
        if (fd == -1) {
            return;
        }

        one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

        c = calloc(1, sizeof(conn_t));
        if (c == NULL) {
            abort();
        }

        c->fd = fd;

        ee.events = EPOLLIN|EPOLLRDHUP;
        ee.data.ptr = c;
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ee);
    }
}


static int
server_listen(int port)
{
    int                 ls, one;
    struct epoll_event  ee;
    struct sockaddr_in  sin;

    ls = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);
    one = 1;
    setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons(port);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    if (bind(ls, (struct sockaddr *) &sin, sizeof(sin)) == -1
        || listen(ls, 4096) == -1)
    {
        perror("opencode");
        exit(1);
    }

    ee.events = EPOLLIN;
    ee.data.ptr = NULL;
    epoll_ctl(ep, EPOLL_CTL_ADD, ls, &ee);

    return ls;
}


int
main(int argc, char **argv)
{
    int                 i, n, ls, said;
    conn_t             *c;
    int64_t             beat;
    struct rlimit       rl;
    struct epoll_event  list[512];

    static const char  line[] =
        "0000 zq34d4c17eaf154f maple saffron vale plum lotus fern e\\n";

    if (argc != 2) {
        fprintf(stderr, "usage: opencode port\n");
        return 1;
    }

    signal(SIGPIPE, SIG_IGN);

    rl.rlim_cur = FDS;
    rl.rlim_max = FDS;

    if (setrlimit(RLIMIT_NOFILE, &rl) == -1) {
        getrlimit(RLIMIT_NOFILE, &rl);
        rl.rlim_cur = rl.rlim_max;
        setrlimit(RLIMIT_NOFILE, &rl);
    }

    for (i = 0; i < TOOL_MAX; i++) {
        tool_text[i] = (i % LINE < (int) sizeof(line) - 3) ? line[i % LINE]
                       : (i % LINE == LINE - 2) ? '\\'
                       : (i % LINE == LINE - 1) ? 'n' : '.';
    }

    for (i = 0; i < DELTA_MAX; i++) {
        filler[DELTA_MAX - 1 - i] = (i % 7 == 0) ? ' ' : 'a' + i % 26;
    }

    ep = epoll_create1(EPOLL_CLOEXEC);
    ls = server_listen(atoi(argv[1]));

    clock_update();
    tick = now_us() / 1000;
    beat = tick + 10000;
    said = 0;

    for ( ;; ) {
        n = epoll_wait(ep, list, 512, said ? 0 : nrunning ? 1 : 100);

        clock_update();

        for (i = 0; i < n; i++) {
            c = list[i].data.ptr;

            if (c == NULL) {
                conn_accept(ls);
                continue;
            }

            if (list[i].events & (EPOLLIN|EPOLLRDHUP|EPOLLHUP|EPOLLERR)) {
                conn_read(c);
            }

            if (!c->gone && list[i].events & EPOLLOUT) {
                conn_dirty(c);
            }
        }

        wheel_turn(now_us() / 1000);

        if (tick >= beat) {
            beat = tick + 10000;
            event_begin("server.heartbeat", sizeof("server.heartbeat") - 1);
            buf_text(&json, "}}");
            event_end();
        }

        said = flood_run();

        conn_flush();
    }
}
