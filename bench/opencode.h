
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What the files of the fake OpenCode share: opencode.c (the interface),
 * opencode_conn.c (connections), opencode_event.c (events and packets),
 * opencode_say.c (what a turn says), opencode_turn.c (when it does).
 */


#ifndef _NGX_HTTP_AGENTSTREAM_OPENCODE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_OPENCODE_H_INCLUDED_


#define _GNU_SOURCE
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define DIRECTORY   "/workspace/bench"
#define LIMIT       (128 * 1024)          /* queued, before a flood waits */
#define TOOL_MAX    (1024 * 1024)
#define DELTA_MAX   4096
#define HASH        16384
#define ID          30

/* of a message */
#define NO_TOKENS   "\"input\":0,\"output\":0,"
#define TOKENS      "\"total\":120,\"input\":100,\"output\":20,"


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
    conn_t             *next;       /* of the subscribers, or of a turn's
                                       watchers */
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
    conn_t             *watchers;   /* ... and for these */

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


extern conn_t      *subscribers;
extern turn_t      *hash[HASH];     /* by session */
extern size_t       nrunning;
extern int64_t      tick;           /* ms, the wheel's hand */
extern int64_t      wall;           /* ms */
extern buf_t        json;           /* the event being made */
extern char         stamp[80];      /* of wall */
extern const char   base62[];


void answer(conn_t *c, char *path, const char *body);

void conn_dirty(conn_t *c);
void conn_flush(void);
void conn_answer(conn_t *c, const char *status, const char *body, size_t len);
void conn_stream(conn_t *c);
/* what is in json, behind the head */
void conn_chunk(conn_t *c, const char *head, size_t head_len);
void conn_listen(int port);
/* one round: what came in within so many ms */
void conn_wait(int timeout);

uint64_t now_us(void);
void clock_update(void);
void id_make(char *dst, const char *prefix);

void event_begin(const char *type, size_t len);
void event_end(void);
/* an event of the turn, from its properties after the session's */
void event_say(turn_t *t, const char *type, const char *format, ...);
void packet_begin(const char *type);
void packet_end(turn_t *t);
/* the packet for one connection only */
void packet_send(turn_t *t, conn_t *c, uint64_t seq);

void session_updated(turn_t *t);
void session_busy(turn_t *t);
void user_updated(turn_t *t);
void message_updated(turn_t *t, const char *tokens, const char *finish,
    const char *completed);
void step_start(turn_t *t);
void step_finish(turn_t *t, const char *reason);

void say_init(void);
/* the first packet of a raw turn; it remains to be sent */
void say_turn_started(turn_t *t);
/* says the next thing; returns the time until the one after it */
long turn_say(turn_t *t);

turn_t *turn_find(const char *session);
/* the turn's packets go to this connection, too */
void turn_watch(turn_t *t, conn_t *c);
/* the connection gets no more packets; with its sender a turn is over */
void turn_leave(conn_t *c);
/* a raw turn has ended well, for all who read it */
void turn_finish(turn_t *t);
turn_t *turn_create(const char *session, const char *body);
void wheel_turn(int64_t now);
/* one thing of each turn that has more to say now; false: nobody could */
int flood_run(void);


static inline void
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


static inline void
buf_add(buf_t *b, const char *data, size_t len)
{
    buf_need(b, len);
    memcpy(b->data + b->len, data, len);
    b->len += len;
}


#define buf_text(b, text)  buf_add(b, text, sizeof(text) - 1)


static inline void
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


#endif /* _NGX_HTTP_AGENTSTREAM_OPENCODE_H_INCLUDED_ */
