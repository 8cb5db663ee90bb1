
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The model of the store: what each session, turn and ticket must be like, in
 * the simplest form.  model_check() compares the zone with it.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_MODEL_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_MODEL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "store_world.h"
#include "tap.h"


#define SESSIONS    16
#define REQUESTS    6
#define TURNS       8192
#define TICKETS     60
#define ASKS        40
#define LINES       48
#define EXPIRE_MAX  32


typedef enum {
    RUNNING = 0,
    FINISHED,
    GONE
} state_e;


/* of a record all is known by its lengths and a seed */

typedef struct {
    uint32_t                       type;
    uint32_t                       part;
    uint32_t                       json;
    uint32_t                       text;
    uint32_t                       nholes;
    uint32_t                       origin;
    uint32_t                       seed;
} record_t;


typedef struct {
    ngx_uint_t                     number;
    ngx_uint_t                     permission;
} ask_t;


typedef struct {
    char                           id[32];
    ngx_str_t                      name;
    ngx_uint_t                     session;
    ngx_uint_t                     request;      /* 0: none */
    uint64_t                       number;
    ngx_uint_t                     state;
    ngx_http_agentstream_node_t   *node;
    ngx_http_agentstream_owner_t   owner;
    ngx_pid_t                      pid;          /* of the owner */
    ngx_uint_t                     refused;
    ngx_uint_t                     interrupted;
    ngx_uint_t                     prompted;
    ngx_uint_t                     pinned;
    ngx_uint_t                     status;
    ngx_uint_t                     senders;
    const char                    *reason;       /* or NULL */
    time_t                         ended;        /* or seen as an orphan */
    uint64_t                       watchers;     /* slots */
    size_t                         limit;        /* of the journal */
    ask_t                          asks[ASKS];
    ngx_uint_t                     nasks;

    uint64_t                       first;        /* oldest one kept */
    uint64_t                       last;
    uint64_t                       shown;        /* readers see up to it */
    record_t                      *records;      /* by number - 1 */

    /* before the verb */
    uint64_t                       before;       /* first */
    ngx_uint_t                     dropped;      /* blocks */
    size_t                         size;
    ngx_uint_t                     spare;
} turn_t;


typedef struct {
    ngx_http_agentstream_ticket_t  *ticket;
    ngx_uint_t                      session;
    ngx_http_agentstream_owner_t    owner;
    ngx_pid_t                       pid;
} ticket_t;


typedef struct {
    uint64_t                       seed;
    uint64_t                       random;
    ngx_uint_t                     verbs;

    turn_t                        *turns[TURNS];     /* all that ever were */
    ngx_uint_t                     nturns;
    turn_t                        *kept[TURNS];
    ngx_uint_t                     nkept;
    ticket_t                       tickets[TICKETS]; /* of each session in its
                                                        order */
    ngx_uint_t                     ntickets;
    ngx_uint_t                     unsure[SESSIONS];
    size_t                         directory[SESSIONS];  /* its length */

    uint64_t                       number;       /* of the last turn */
    uint64_t                       stats[NGX_HTTP_AGENTSTREAM_STAT_MAX];

    /* of the verb */
    turn_t                        *turn;         /* whose it is, or NULL */
    size_t                         room;         /* what it may allocate at
                                                    most, in whole pages */
    ngx_uint_t                     large;        /* it may take several pages
                                                    in a row */
    ngx_uint_t                     expires;      /* it may free what is old */
    ngx_uint_t                     pfree;
    ngx_uint_t                     expired;
    uint64_t                       slack;        /* packets of turns that lost
                                                    blocks before they were
                                                    evicted: perhaps all */

    char                           lines[LINES][128];
    ngx_uint_t                     nlines;
} model_t;


/* what a run must have come across to be worth something */

typedef enum {
    SAW_NO_TURN = 0,
    SAW_NO_TICKET,
    SAW_NO_ASK,
    SAW_LARGE,
    SAW_PIECES,
    SAW_TAIL,
    SAW_LAST,
    SAW_SKIP,
    SAW_LOSS,
    SAW_EVICTED,
    SAW_EVICTED_READ,
    SAW_EXPIRED,
    SAW_LOST,
    SAW_DEAD_TICKET,
    SAW_CLAIM,
    SAW_BURIAL,
    SAW_REPEAT,
    SAW_HELD,
    SAW_HELD_LOST,
    SAW_MAX
} saw_e;


static const char  *saw_names[SAW_MAX] = {
    "no room for a turn",
    "no room for a ticket",
    "no room for a question",
    "a packet of several pages in a row",
    "a packet in pieces",
    "a last packet in the room that is kept for it",
    "a packet for which the others made way",
    "a packet that was skipped",
    "a turn that lost packets to others",
    "a turn that was evicted",
    "a turn that was evicted while it was read",
    "a turn that expired",
    "a reader that was lost",
    "a ticket of a dead worker",
    "a turn that was claimed",
    "a turn that was buried",
    "a request id that was used again",
    "packets that a reader does not see yet",
    "a packet that was dropped before it was seen"
};


static model_t     model;
static ngx_uint_t  saw[SAW_MAX];

static ngx_str_t  model_keys[SESSIONS];


static void model_say(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
static void model_fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), noreturn));


#define model_is(condition, ...)                                              \
    if (!(condition)) {                                                       \
        model_fail(__VA_ARGS__);                                              \
    }


/* xorshift64 */

static uint64_t
model_random(uint64_t n)
{
    model.random ^= model.random << 13;
    model.random ^= model.random >> 7;
    model.random ^= model.random << 17;

    return (model.random >> 11) % n;
}


static void
model_say(const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    vsnprintf(model.lines[model.nlines++ % LINES], sizeof(model.lines[0]), fmt,
              args);
    va_end(args);
}


static void
model_fail(const char *fmt, ...)
{
    char        what[256];
    va_list     args;
    ngx_uint_t  i;

    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);

    tap_ok(0, "seed %llu, verb %llu: %s", (unsigned long long) model.seed,
           (unsigned long long) model.verbs, what);

    for (i = (model.nlines > LINES) ? model.nlines - LINES : 0;
         i < model.nlines;
         i++)
    {
        tap_diag("%s", model.lines[i % LINES]);
    }

    exit(tap_done());
}


static ngx_uint_t
model_watched(turn_t *turn)
{
    return turn->watchers != 0;
}


static ngx_uint_t
model_expired(turn_t *turn)
{
    return world.now.sec - turn->ended >= 0
           && (ngx_msec_t) (world.now.sec - turn->ended) * 1000
              >= world.master->retain;
}


static turn_t *
model_running(ngx_uint_t session)
{
    ngx_uint_t  i;

    for (i = 0; i < model.nkept; i++) {
        if (model.kept[i]->session == session
            && model.kept[i]->state == RUNNING)
        {
            return model.kept[i];
        }
    }

    return NULL;
}


/* whether the zone knows the session */

static ngx_uint_t
model_known(ngx_uint_t session)
{
    ngx_uint_t  i;

    for (i = 0; i < model.nkept; i++) {
        if (model.kept[i]->session == session) {
            return 1;
        }
    }

    for (i = 0; i < model.ntickets; i++) {
        if (model.tickets[i].session == session) {
            return 1;
        }
    }

    return 0;
}


static void
model_drop_ticket(ngx_uint_t i)
{
    model.ntickets--;
    ngx_memmove(&model.tickets[i], &model.tickets[i + 1],
                (model.ntickets - i) * sizeof(ticket_t));
}


/* to be called before each verb, with what it may do to others */

static void
model_begin(turn_t *turn, size_t room, ngx_uint_t large, ngx_uint_t expires)
{
    ngx_uint_t                    i;
    ngx_http_agentstream_node_t  *node;

    model.verbs++;
    model.turn = turn;
    model.room = room;
    model.large = large;
    model.expires = expires;
    model.expired = 0;
    model.slack = 0;
    model.pfree = world.master->shpool->pfree;

    for (i = 0; i < model.nkept; i++) {
        node = model.kept[i]->node;

        model.kept[i]->before = model.kept[i]->first;
        model.kept[i]->dropped = node->journal.dropped;
        model.kept[i]->size = node->journal.size;
        model.kept[i]->spare = (node->place == &world.master->sh->spare);
    }
}


/* whether all that can give way for one page has done so */

static ngx_uint_t
model_nothing_left(void)
{
    ngx_http_agentstream_shared_t  *sh;

    sh = world.master->sh;

    return ngx_http_agentstream_zone_first_locked(&sh->finished) == NULL
           && ngx_http_agentstream_zone_first_locked(&sh->spare) == NULL
           && ngx_http_agentstream_zone_first_locked(&sh->watched) == NULL;
}


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_MODEL_H_INCLUDED_ */
