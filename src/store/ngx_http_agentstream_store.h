
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_worker.h"


/*
 * What everybody else may know of the store: verbs on sessions and their turns.
 * Each verb takes the zone's lock by itself and gives it back, so none is
 * called with it; nobody else takes it, or looks into what is in shared memory.
 *
 * Two kinds of caller.  The owner of a turn has a handle, its node, from
 * store_create(), store_claim() or store_lapsed() until store_finish(); nobody
 * frees it meanwhile.  Everybody else names a turn by its id, or by its session
 * and number, because a finished turn may be evicted at any moment.
 *
 * A session is named by its key: what identifies it for all workers.
 */


#define NGX_HTTP_AGENTSTREAM_WORKERS_MAX      256
#define NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE     32
#define NGX_HTTP_AGENTSTREAM_REQUEST_ID_SIZE  128    /* of the longest one */

#define NGX_HTTP_AGENTSTREAM_NEWEST           ((uint64_t) -1)


/* what a worker holds of the store: the shared memory, and its slot there */
typedef struct ngx_http_agentstream_zone_s  ngx_http_agentstream_zone_t;

/* a turn, as its owner has it; opaque */
typedef struct ngx_http_agentstream_node_s  ngx_http_agentstream_node_t;

/* a sender's place in the queue for a session; opaque */
typedef struct ngx_http_agentstream_ticket_s  ngx_http_agentstream_ticket_t;

typedef struct ngx_http_agentstream_block_s  ngx_http_agentstream_block_t;


/*
 * What a worker counts.  Nobody else writes there, so that it takes no lock.
 * Gauges end with the worker, counters are those of its slot.
 */

typedef enum {
    NGX_HTTP_AGENTSTREAM_STAT_STREAMS = 0,
    NGX_HTTP_AGENTSTREAM_STAT_SUBSCRIPTIONS,
    NGX_HTTP_AGENTSTREAM_STAT_CALLS,

    NGX_HTTP_AGENTSTREAM_STAT_COUNTERS,

    NGX_HTTP_AGENTSTREAM_STAT_STARTED = NGX_HTTP_AGENTSTREAM_STAT_COUNTERS,
    NGX_HTTP_AGENTSTREAM_STAT_COMPLETED,
    NGX_HTTP_AGENTSTREAM_STAT_CANCELLED,
    NGX_HTTP_AGENTSTREAM_STAT_FAILED,
    NGX_HTTP_AGENTSTREAM_STAT_ADOPTED,
    NGX_HTTP_AGENTSTREAM_STAT_EVICTED,
    NGX_HTTP_AGENTSTREAM_STAT_PACKETS,
    NGX_HTTP_AGENTSTREAM_STAT_BYTES,
    NGX_HTTP_AGENTSTREAM_STAT_DROPPED,
    NGX_HTTP_AGENTSTREAM_STAT_OPENED,
    NGX_HTTP_AGENTSTREAM_STAT_RESETS,
    NGX_HTTP_AGENTSTREAM_STAT_EVENTS,
    NGX_HTTP_AGENTSTREAM_STAT_SKIPPED,
    NGX_HTTP_AGENTSTREAM_STAT_BROKEN,
    NGX_HTTP_AGENTSTREAM_STAT_REQUESTS,
    NGX_HTTP_AGENTSTREAM_STAT_ERRORS,
    NGX_HTTP_AGENTSTREAM_STAT_RECONCILED,

    NGX_HTTP_AGENTSTREAM_STAT_MAX
} ngx_http_agentstream_stat_e;


/* in this worker */
#define ngx_http_agentstream_count(stat, n)                                   \
    ngx_http_agentstream_worker->stats[NGX_HTTP_AGENTSTREAM_STAT_##stat] += (n)


typedef struct {
    uint64_t                             stats[NGX_HTTP_AGENTSTREAM_STAT_MAX];
                                         /* of all workers together */
    ngx_uint_t                           workers;
    size_t                               size;     /* of the zone */
    size_t                               free;     /* of that, whole pages */
    ngx_uint_t                           running;  /* turns */
    ngx_uint_t                           finished;
} ngx_http_agentstream_store_stats_t;


/*
 * Verbs that another machine may have to be asked for can be answered later:
 * they return NGX_AGAIN, and the handler gets what they would have returned,
 * once, from a posted event.  Until then this struct is the store's, and what
 * it was given for a result must stay; store_cancel() takes it back: the
 * handler is not called, and what was asked for is undone.  Today all are
 * answered at once; a build with NGX_HTTP_AGENTSTREAM_LATER answers all of them
 * later, to prove that callers can wait.
 */

typedef struct ngx_http_agentstream_later_s  ngx_http_agentstream_later_t;

typedef void (*ngx_http_agentstream_later_pt)(void *data, ngx_int_t rc);

struct ngx_http_agentstream_later_s {
    ngx_http_agentstream_later_pt        handler;
    void                                *data;

    /* the store's */
    ngx_queue_t                          queue;
    ngx_int_t                            rc;
    ngx_http_agentstream_zone_t         *zone;     /* NULL: not pending */
    ngx_http_agentstream_node_t         *node;
    ngx_uint_t                           verb;
};

void ngx_http_agentstream_store_cancel(ngx_http_agentstream_later_t *later);


/* Life of the store */

/* what belongs to a configuration; in its pool, with a cleanup */
ngx_http_agentstream_zone_t *ngx_http_agentstream_store_open(ngx_pool_t *pool,
    ngx_core_conf_t *core, ngx_msec_t retain);
/* of its shared memory, whose data it is */
ngx_int_t ngx_http_agentstream_store_init(ngx_shm_zone_t *shm_zone,
    void *data);
/* the new configuration is in force: the old one has nothing to close */
void ngx_http_agentstream_store_keep(ngx_http_agentstream_zone_t *zone);
/* this process takes a slot; the rest works without one.  Returns where this
   worker counts, as ngx_http_agentstream_count() wants it */
uint64_t *ngx_http_agentstream_store_init_worker(
    ngx_http_agentstream_zone_t *zone);
void ngx_http_agentstream_store_exit_worker(ngx_http_agentstream_zone_t *zone);

void ngx_http_agentstream_store_stats(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_stats_t *stats);

/* what has been kept long enough goes, and what dead workers have left behind,
   a few at a time under one lock */
void ngx_http_agentstream_store_expire(ngx_http_agentstream_zone_t *zone);


/* A new turn */

typedef struct {
    ngx_str_t                            key;      /* of its session */
    ngx_str_t                            id;
    ngx_str_t                            request_id;   /* may be empty */
    ngx_http_agentstream_ticket_t       *ticket;   /* of a sender that queued,
                                                      or NULL */
    ngx_uint_t                           packets;  /* settings, for a
                                                      successor */
    ngx_uint_t                           tool_kinds;
} ngx_http_agentstream_store_create_t;

/* what came of it */

typedef struct {
    ngx_http_agentstream_node_t         *node;     /* NGX_OK: the owner's */
    ngx_uint_t                           unsure;   /* ... OpenCode may be at
                                                      work on a prompt that was
                                                      not sent from here */
    ngx_str_t                            other;    /* NGX_BUSY: the turn that
                                                      runs, or empty: others
                                                      wait in front.
                                                      NGX_DECLINED: the one that
                                                      request_id has started */
    u_char                               id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_store_created_t;

/*
 * NGX_OK: the turn exists and is this worker's, with one sender; NGX_BUSY,
 * NGX_DECLINED: see above; NGX_ERROR: the zone is full; NGX_AGAIN: later.
 */
ngx_int_t ngx_http_agentstream_store_create(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_create_t *args,
    ngx_http_agentstream_store_created_t *created,
    ngx_http_agentstream_later_t *later);

/* the same answers, at once, but nothing is made; NGX_OK: it could be */
ngx_int_t ngx_http_agentstream_store_taken(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *request_id,
    ngx_http_agentstream_ticket_t *ticket,
    ngx_http_agentstream_store_created_t *created);

/* a place in the queue of a session; NGX_DECLINED: it has neither turns nor
   others that wait, NGX_ERROR: no room */
ngx_int_t ngx_http_agentstream_store_queue(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t **ticket);
/* the first place, so that no turn begins; NGX_BUSY: one runs, NGX_ERROR: no
   room */
ngx_int_t ngx_http_agentstream_store_hold(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t **ticket);
/* gives the place up, and sets *ticket to NULL */
void ngx_http_agentstream_store_unqueue(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_ticket_t **ticket);

/* one more, or one less, of those whose prompt the turn is; nothing happens if
   it is not kept */
void ngx_http_agentstream_store_sender(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_int_t n);


/* A turn whose owner is dead */

/* NGX_OK: it can be claimed, NGX_DECLINED: it cannot, or is not kept */
ngx_int_t ngx_http_agentstream_store_orphan(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn);
/*
 * It becomes this worker's.  Its journal is pinned, so that it can be read with
 * journal_walk(): no block of it goes until store_unpin().  NGX_OK,
 * NGX_DECLINED, NGX_AGAIN: later.
 */
ngx_int_t ngx_http_agentstream_store_claim(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_http_agentstream_node_t **node,
    ngx_http_agentstream_later_t *later);
void ngx_http_agentstream_store_unpin(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);
/*
 * One that nobody has claimed for "retain", claimed and pinned.  Goes through
 * all turns, from *key on, which begins with 0; NULL and *key 0: there are no
 * more of them, NULL otherwise: call it again.
 */
ngx_http_agentstream_node_t *ngx_http_agentstream_store_lapsed(
    ngx_http_agentstream_zone_t *zone, ngx_uint_t *key);


/* Verbs of a turn's owner; how it appends packets is in journal.h */

void ngx_http_agentstream_store_id(ngx_http_agentstream_node_t *node,
    ngx_str_t *id);
/* number of the last packet; 0: none yet */
uint64_t ngx_http_agentstream_store_last(ngx_http_agentstream_node_t *node);
/* whether its journal still has all packets */
ngx_uint_t ngx_http_agentstream_store_whole(ngx_http_agentstream_node_t *node);
/* settings of the location that started it */
void ngx_http_agentstream_store_settings(ngx_http_agentstream_node_t *node,
    ngx_uint_t *packets, ngx_uint_t *tool_kinds);
/* the HTTP status of a turn that fails before its first packet */
void ngx_http_agentstream_store_status(ngx_http_agentstream_node_t *node,
    ngx_uint_t status);
/* the prompt may be with OpenCode from now on; whether it may */
void ngx_http_agentstream_store_prompting(ngx_http_agentstream_node_t *node);
ngx_uint_t ngx_http_agentstream_store_prompted(
    ngx_http_agentstream_node_t *node);
/* somebody wants it ended, perhaps the owner itself */
void ngx_http_agentstream_store_stop(ngx_http_agentstream_node_t *node);
ngx_uint_t ngx_http_agentstream_store_interrupted(
    ngx_http_agentstream_node_t *node);
/* how many of those who sent its prompt are still there */
ngx_uint_t ngx_http_agentstream_store_senders(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);
/* whether anybody reads it, in any worker; *seen_at: when a reader came or
   went last */
ngx_uint_t ngx_http_agentstream_store_watched(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_msec_t *seen_at);
/* the workers whose readers are to be woken, as notify_wake() wants them */
uint64_t *ngx_http_agentstream_store_watchers(
    ngx_http_agentstream_node_t *node);
/* where its calls go to, for who answers a question; NGX_ERROR: no room */
ngx_int_t ngx_http_agentstream_store_directory(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *directory);

/*
 * A question or permission request waits for a client's answer.  NGX_OK, also
 * when it is listed already; NGX_DECLINED: too many wait; NGX_ERROR: no room;
 * NGX_AGAIN: later.
 */
ngx_int_t ngx_http_agentstream_store_ask(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *id, ngx_uint_t permission,
    ngx_http_agentstream_later_t *later);
/* it waits no more */
void ngx_http_agentstream_store_answered(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *id);

/* its prompt was never sent: from now on only who has its id finds it */
void ngx_http_agentstream_store_refuse(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/*
 * The turn is over, and the handle is not the caller's any more.  It is kept
 * for "retain", as long as there is room.  unsure: OpenCode may still be at
 * work in the session.  watchers is set to those that are to be woken when it
 * is done.  NGX_OK, or NGX_AGAIN: later; to cancel that only means not to be
 * told.
 */
ngx_int_t ngx_http_agentstream_store_finish(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *stop_reason,
    ngx_uint_t unsure, uint64_t *watchers,
    ngx_http_agentstream_later_t *later);


/* Verbs of everybody else */

/* asks the owner of the turn that runs in the session to end it; NGX_DECLINED:
   none runs.  The owner is to be woken with notify_announce() */
ngx_int_t ngx_http_agentstream_store_interrupt(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);

/* whether a turn runs in the session; turn NULL, or with room for its id */
ngx_uint_t ngx_http_agentstream_store_running(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *turn);

/*
 * Whether that waits for an answer in the turn that runs in the session.
 * NGX_OK: it does, and directory, in the pool, is where the answer goes to;
 * NGX_DECLINED: it does not; NGX_ABORT: no turn runs; NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_agentstream_store_asked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *id, ngx_uint_t permission, ngx_pool_t *pool,
    ngx_str_t *directory);


/* a turn among those of its session */

typedef struct {
    ngx_str_t                            id;       /* empty: none */
    uint64_t                             number;   /* ascends from turn to turn,
                                                      over all sessions */
    ngx_str_t                            request_id;   /* may be empty */
    u_char                               id_data[
                                      NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    u_char                               request_id_data[
                                      NGX_HTTP_AGENTSTREAM_REQUEST_ID_SIZE];
} ngx_http_agentstream_store_turn_t;

/* the session's oldest turn with a higher number, or its newest one for
   NGX_HTTP_AGENTSTREAM_NEWEST; NGX_DECLINED: none, and turn->number is that of
   the last turn of any session */
ngx_int_t ngx_http_agentstream_store_next(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, uint64_t number, ngx_http_agentstream_store_turn_t *turn);


/* what a client reads next that has read seq packets of a turn */

typedef struct {
    ngx_str_t                            turn;     /* empty: none is kept */
    uint64_t                             number;   /* of that turn; if there is
                                                      none but "over", of the
                                                      one that is */
    uint64_t                             seq;      /* first packet wanted */
    uint64_t                             newest;   /* number of the last turn of
                                                      any session */
    ngx_uint_t                           over;     /* the client has all of the
                                                      turn it named: this is the
                                                      session's next one */
    u_char                               id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_store_found_t;

/*
 * The turn that is named, if it is one of the session and kept; the session's
 * next one if the client has all of it; the newest one, from its first packet,
 * if it is not kept or the name is empty.
 */
void ngx_http_agentstream_store_find(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *turn, uint64_t seq,
    ngx_http_agentstream_store_found_t *found);

/* whether the turn is kept; *refused: its prompt was never sent */
ngx_uint_t ngx_http_agentstream_store_kept(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_uint_t *refused);


/* a reader's place in a turn; zeroed, with seq (the packet wanted next) and the
   turn's id set, it is a valid one.  The rest is the store's */

typedef struct {
    uint64_t                             seq;      /* next one to read */
    ngx_http_agentstream_block_t        *block;    /* hint: where it is */
    uint32_t                             offset;
    ngx_uint_t                           dropped;  /* the hint's age */
} ngx_http_agentstream_cursor_t;

typedef struct {
    ngx_http_agentstream_node_t         *node;     /* hint: the turn's ... */
    ngx_uint_t                           freed;    /* ... as long as no turn was
                                                      freed */
    ngx_http_agentstream_cursor_t        cursor;
    ngx_str_t                            turn;
} ngx_http_agentstream_store_place_t;


/* what there is to read, all of it as of one moment */

typedef struct {
    ngx_uint_t                           status;   /* HTTP status of a turn that
                                                      failed before it started,
                                                      or 0 */
    ngx_http_agentstream_records_t       records;  /* that were copied */
    size_t                               need;     /* of one that is larger
                                                      than the buffer */
    unsigned                             more:1;   /* there are packets */
    unsigned                             lost:1;   /* ... but not the one
                                                      wanted */
    unsigned                             all:1;    /* none is left */
    unsigned                             ended:1;  /* ... and none will come */
    unsigned                             begun:1;  /* its status is known */
    unsigned                             refused:1;    /* its prompt was never
                                                          sent */
    unsigned                             orphan:1; /* nothing is left and its
                                                      owner is dead: it is to be
                                                      claimed */
} ngx_http_agentstream_store_view_t;


/*
 * Copies records from the place on into buf, which is aligned to 8 bytes, as
 * far as whole ones fit, and moves the place behind them; record_next() takes
 * them out of view->records.  A record larger than all of buf is not copied:
 * view->need is its size.  Who does not want a turn that was refused looks at
 * view->refused first: the records are copied all the same.
 */
void ngx_http_agentstream_store_read(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_place_t *place, u_char *buf, size_t size,
    ngx_http_agentstream_store_view_t *view);


/* the session's current or last turn, in the pool */

typedef struct {
    ngx_str_t                            id;
    ngx_uint_t                           permission;
} ngx_http_agentstream_store_ask_t;

typedef struct {
    ngx_str_t                            id;
    ngx_str_t                            stop_reason;  /* empty: none yet */
    uint64_t                             packets;
    ngx_uint_t                           running;
    ngx_uint_t                           nasks;
    ngx_http_agentstream_store_ask_t    *asks;     /* what waits for an answer,
                                                      oldest first */
} ngx_http_agentstream_store_state_t;

/* NGX_OK, NGX_DECLINED: none is kept, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_store_state(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_pool_t *pool,
    ngx_http_agentstream_store_state_t *state);


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_H_INCLUDED_ */
