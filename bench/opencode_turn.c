
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The fake OpenCode's turns: a timer wheel of milliseconds for paced turns, a
 * queue for those that flood, and a list of turns that ended a while ago.
 */


#include "opencode.h"


#define DELTAS_MAX  10000000
#define WHEEL       4096                  /* ms */
#define KEPT        8192                  /* finished turns */


turn_t         *hash[HASH];
size_t          nrunning;
int64_t         tick;

static turn_t  *wheel[WHEEL], *flood, **flood_last = &flood;
static turn_t  *kept[KEPT];
static size_t   nkept;


static size_t
session_hash(const char *id)
{
    size_t  h;

    for (h = 5381; *id; id++) {
        h = h * 33 + (unsigned char) *id;
    }

    return h % HASH;
}


turn_t *
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


void
turn_watch(turn_t *t, conn_t *c)
{
    c->turn = t;
    c->prev = NULL;
    c->next = t->watchers;

    if (c->next) {
        c->next->prev = c;
    }

    t->watchers = c;
}


void
turn_leave(conn_t *c)
{
    turn_t  *t;

    t = c->turn;
    c->turn = NULL;

    if (c == t->raw) {
        t->raw = NULL;
        t->say = say_over;

        for (c = t->watchers; c; c = c->next) {
            c->turn = NULL;
            c->closing = 1;
            conn_dirty(c);
        }

        t->watchers = NULL;
        return;
    }

    if (c->prev) {
        c->prev->next = c->next;

    } else {
        t->watchers = c->next;
    }

    if (c->next) {
        c->next->prev = c->prev;
    }
}


void
turn_finish(turn_t *t)
{
    conn_t  *c;

    buf_text(&t->raw->out, "0\r\n\r\n");
    t->raw->turn = NULL;
    t->raw = NULL;

    for (c = t->watchers; c; c = c->next) {
        buf_text(&c->out, "0\r\n\r\n");
        c->turn = NULL;
    }

    t->watchers = NULL;
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


void
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


int
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


turn_t *
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
