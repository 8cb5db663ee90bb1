
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
 * translated: what a bridge would send, for whoever only moves bytes.  GET
 * /raw/{id}/events watches such a turn, while it holds.
 */


#include "opencode.h"

#include <signal.h>
#include <sys/resource.h>


#define FDS  65536


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


/* a session that has a name is created with the id that was computed from it */

static void
answer_created(conn_t *c, const char *body)
{
    int          n;
    char         answer[512];
    const char  *p;

    p = strstr(body, "\"id\":\"ses_");

    if (p == NULL) {
        conn_answer(c, "400 Bad Request", "{}", 2);
        return;
    }

    p += sizeof("\"id\":\"") - 1;

    n = snprintf(answer, sizeof(answer), "{\"data\":{\"id\":\"%.*s\","
        "\"projectID\":\"7735b6d1e9fe23fcba319f77ba34a96d813df362\",\"cost\":0,"
        "\"time\":{\"created\":%lld,\"updated\":%lld},\"title\":\"bench\","
        "\"location\":{\"directory\":\"" DIRECTORY "\"}}}",
        (int) (strcspn(p, "\"") & 63), p, (long long) wall,
        (long long) wall);

    conn_answer(c, "200 OK", answer, n);
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


/* for somebody who comes while the turn has said no more than that it began */

static void
answer_watcher(conn_t *c, const char *id)
{
    turn_t  *t;

    t = turn_find(id);

    if (t == NULL || t->raw == NULL || t->seq != 1) {
        conn_answer(c, "404 Not Found", "{}", 2);
        return;
    }

    conn_stream(c);
    say_turn_started(t);
    packet_send(t, c, 1);
    turn_watch(t, c);
}


void
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

    if (strcmp(path, "/api/session") == 0) {
        answer_created(c, body);
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

    } else if (strcmp(rest, "/events") == 0) {
        answer_watcher(c, id);

    } else {
        conn_answer(c, "404 Not Found", "{}", 2);
    }
}


int
main(int argc, char **argv)
{
    int            said;
    int64_t        beat;
    struct rlimit  rl;

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

    say_init();
    conn_listen(atoi(argv[1]));

    clock_update();
    tick = now_us() / 1000;
    beat = tick + 10000;
    said = 0;

    for ( ;; ) {
        conn_wait(said ? 0 : nrunning ? 1 : 100);
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
