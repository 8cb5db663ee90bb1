
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
 * The store's interface for all other parts: verbs on sessions and their
 * turns.  Each verb takes the zone's lock itself and releases it, so verbs
 * must be called without it; no other part takes the lock, or looks into
 * shared memory.
 *
 * There are two kinds of callers.  The owner of a turn has a handle, its node,
 * from store_create(), store_claim() or store_lapsed() until store_finish();
 * nobody frees it during this time.  All other callers name a turn by its id,
 * or by its session and number, because a finished turn may be evicted at any
 * moment.
 *
 * A session is named by its key, which identifies it for all workers.
 */


#define NGX_HTTP_AGENTSTREAM_WORKERS_MAX      256
#define NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE     32
#define NGX_HTTP_AGENTSTREAM_REQUEST_ID_SIZE  128    /* length of the longest
                                                        one */

#define NGX_HTTP_AGENTSTREAM_NEWEST           ((uint64_t) -1)

/* a packet's number that no journal reaches: a client that has it has seen the
   whole turn */
#define NGX_HTTP_AGENTSTREAM_LAST             999999999999999


/* a worker's access to the store: the shared memory, and its slot there */
typedef struct ngx_http_agentstream_zone_s  ngx_http_agentstream_zone_t;

/* the owner's handle of a turn; opaque */
typedef struct ngx_http_agentstream_node_s  ngx_http_agentstream_node_t;

/* a sender's place in the queue for a session; opaque */
typedef struct ngx_http_agentstream_ticket_s  ngx_http_agentstream_ticket_t;

typedef struct ngx_http_agentstream_block_s  ngx_http_agentstream_block_t;

/* how a store of several machines does what one machine cannot decide */
typedef struct ngx_http_agentstream_store_remote_s
    ngx_http_agentstream_store_remote_t;


/* of each histogram; the last one has no upper bound */
#define NGX_HTTP_AGENTSTREAM_STORE_BUCKETS    18

/*
 * The counters of a worker.  Nobody else writes to them, so that no lock is
 * needed.  Gauges end with the worker; counters belong to its slot.
 */

typedef enum {
    NGX_HTTP_AGENTSTREAM_STAT_STREAMS = 0,
    NGX_HTTP_AGENTSTREAM_STAT_SUBSCRIPTIONS,
    NGX_HTTP_AGENTSTREAM_STAT_CALLS,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_UP,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_SESSIONS,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_MIRRORS,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_WAITING,

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
    NGX_HTTP_AGENTSTREAM_STAT_CHAT_IN,
    NGX_HTTP_AGENTSTREAM_STAT_CHAT_OUT,
    NGX_HTTP_AGENTSTREAM_STAT_CHAT_EDITS,
    NGX_HTTP_AGENTSTREAM_STAT_CHAT_LIMITED,
    NGX_HTTP_AGENTSTREAM_STAT_CHAT_FAILED,
    NGX_HTTP_AGENTSTREAM_STAT_CHAT_ANSWERS,
    NGX_HTTP_AGENTSTREAM_STAT_CHAT_SECONDS,
    NGX_HTTP_AGENTSTREAM_STAT_FENCED,
    NGX_HTTP_AGENTSTREAM_STAT_COPIED,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_SENT,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_LOST,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_REFUSED,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_UNREPLICATED,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_LEASES_LOST,

    /* histograms: their buckets, then their sums */
    NGX_HTTP_AGENTSTREAM_STAT_FIRST_PACKET,
    NGX_HTTP_AGENTSTREAM_STAT_TURN_DURATION =
        NGX_HTTP_AGENTSTREAM_STAT_FIRST_PACKET
        + NGX_HTTP_AGENTSTREAM_STORE_BUCKETS + 1,
    NGX_HTTP_AGENTSTREAM_STAT_DELIVERY_LAG =
        NGX_HTTP_AGENTSTREAM_STAT_TURN_DURATION
        + NGX_HTTP_AGENTSTREAM_STORE_BUCKETS + 1,
    NGX_HTTP_AGENTSTREAM_STAT_STORE_ROUND_TRIP =
        NGX_HTTP_AGENTSTREAM_STAT_DELIVERY_LAG
        + NGX_HTTP_AGENTSTREAM_STORE_BUCKETS + 1,

    NGX_HTTP_AGENTSTREAM_STAT_MAX =
        NGX_HTTP_AGENTSTREAM_STAT_STORE_ROUND_TRIP
        + NGX_HTTP_AGENTSTREAM_STORE_BUCKETS + 1
} ngx_http_agentstream_stat_e;


/* the upper bounds of all buckets but the last one, in milliseconds */
extern const ngx_msec_t  ngx_http_agentstream_store_bounds[];

/* counts one time, in milliseconds, in a histogram of this worker */
void ngx_http_agentstream_store_observe(uint64_t *stats,
    ngx_http_agentstream_stat_e histogram, ngx_msec_t ms);

#define ngx_http_agentstream_observe(stat, ms)                                \
    ngx_http_agentstream_store_observe(ngx_http_agentstream_worker->stats,    \
                                       NGX_HTTP_AGENTSTREAM_STAT_##stat, ms)


/* counts in this worker */
#define ngx_http_agentstream_count(stat, n)                                   \
    ngx_http_agentstream_worker->stats[NGX_HTTP_AGENTSTREAM_STAT_##stat] += (n)


typedef struct {
    uint64_t                             stats[NGX_HTTP_AGENTSTREAM_STAT_MAX];
                                         /* the sum of all workers */
    ngx_uint_t                           workers;
    size_t                               size;     /* of the zone */
    size_t                               free;     /* free pages of it */
    ngx_uint_t                           running;  /* turns */
    ngx_uint_t                           finished;
    ngx_uint_t                           chats;    /* that are known */
} ngx_http_agentstream_store_stats_t;


/*
 * Verbs for which another machine may have to be asked can be answered later:
 * they return NGX_AGAIN, and the handler gets what they would have returned,
 * once, from an event of the store.  Until then this struct belongs to the
 * store, and the memory that was given for arguments and results must stay.
 * store_cancel() takes it back: the handler is not called, and what was asked
 * for is undone.
 *
 * A verb of a turn's owner can also be answered with NGX_ABORT, but never at
 * once: the turn has another owner, which is not dead.  The caller is fenced:
 * it must forget the turn, and neither append, nor abort, nor answer anything
 * in it any more.
 *
 * On one machine all verbs are answered at once; a build with
 * NGX_HTTP_AGENTSTREAM_LATER answers all of them later, to prove that callers
 * can wait.
 */

typedef struct ngx_http_agentstream_later_s  ngx_http_agentstream_later_t;

typedef struct ngx_http_agentstream_store_end_s
    ngx_http_agentstream_store_end_t;

typedef void (*ngx_http_agentstream_later_pt)(void *data, ngx_int_t rc);

struct ngx_http_agentstream_later_s {
    ngx_http_agentstream_later_pt        handler;
    void                                *data;

    /* belongs to the store */
    ngx_queue_t                          queue;
    ngx_int_t                            rc;
    ngx_http_agentstream_zone_t         *zone;     /* NULL: not pending */
    ngx_http_agentstream_node_t         *node;
    ngx_http_agentstream_store_end_t    *end;
    ngx_uint_t                           verb;
};

void ngx_http_agentstream_store_cancel(ngx_http_agentstream_later_t *later);

/* whether an answer is to come */
#define ngx_http_agentstream_store_pending(later)  ((later)->zone != NULL)


/*
 * Somebody looks at a session.  In a store of several machines its turns of
 * other machines are copied here, as long as somebody looks.  NGX_OK: the
 * zone knows what there is to know, and what follows is told through notify.
 * NGX_AGAIN: later.  turn: one that the caller is interested in, besides the
 * session's newest, or empty; follow: also in turns that begin later; later
 * NULL: the caller does not wait.  A watch is part of its owner, is zeroed at
 * first, and ends with store_unwatch().
 */

typedef struct {
    /* belongs to the store */
    ngx_queue_t                          queue;
    void                                *session;
    ngx_http_agentstream_later_t        *later;
    ngx_msec_t                           since;
    ngx_uint_t                           looked;
    ngx_str_t                            turn;
    u_char                               id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_store_watch_t;

ngx_int_t ngx_http_agentstream_store_watch(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_watch_t *watch, ngx_str_t *key,
    ngx_str_t *turn, ngx_uint_t follow, ngx_http_agentstream_later_t *later);
void ngx_http_agentstream_store_unwatch(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_watch_t *watch);


/* Life of the store */

/* creates what belongs to a configuration, in its pool, with a cleanup */
ngx_http_agentstream_zone_t *ngx_http_agentstream_store_open(ngx_pool_t *pool,
    ngx_core_conf_t *core, ngx_msec_t retain);
/* initializes its shared memory; zone is the data of shm_zone */
ngx_int_t ngx_http_agentstream_store_init(ngx_shm_zone_t *shm_zone,
    void *data);
/* the new configuration is in use: the old one must not close anything */
void ngx_http_agentstream_store_keep(ngx_http_agentstream_zone_t *zone);
/* takes a slot for this process; it also works without one.  Returns where
   this worker counts, as ngx_http_agentstream_count() needs it */
uint64_t *ngx_http_agentstream_store_init_worker(
    ngx_http_agentstream_zone_t *zone);
void ngx_http_agentstream_store_exit_worker(ngx_http_agentstream_zone_t *zone);

void ngx_http_agentstream_store_stats(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_stats_t *stats);

/* frees what was kept long enough, and what dead workers have left, a little
   at a time under one lock */
void ngx_http_agentstream_store_expire(ngx_http_agentstream_zone_t *zone);


/* A new turn */

typedef struct {
    ngx_str_t                            key;      /* of its session */
    ngx_str_t                            id;
    ngx_str_t                            request_id;   /* may be empty */
    ngx_http_agentstream_ticket_t       *ticket;   /* of a sender that waited
                                                      in the queue, or NULL */
    ngx_uint_t                           packets;  /* settings that a successor
                                                      needs */
    ngx_uint_t                           tool_kinds;
} ngx_http_agentstream_store_create_t;

/* the result */

typedef struct {
    ngx_http_agentstream_node_t         *node;     /* NGX_OK: the handle of the
                                                      new turn */
    ngx_uint_t                           unsure;   /* NGX_OK: OpenCode may be
                                                      working on a prompt that
                                                      was not sent from here */
    ngx_str_t                            other;    /* NGX_BUSY: the running
                                                      turn; empty: other
                                                      senders wait in front.
                                                      NGX_DECLINED: the turn
                                                      that request_id has
                                                      started */
    u_char                               id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_store_created_t;

/*
 * NGX_OK: the turn was created and belongs to this worker, with one sender;
 * NGX_BUSY, NGX_DECLINED: see above; NGX_ERROR: the zone is full; NGX_ABORT:
 * the store of all machines cannot be reached; NGX_DONE: it is being asked
 * about another turn of the session, of which nobody knows yet whether it comes
 * about; NGX_AGAIN: later.
 */
ngx_int_t ngx_http_agentstream_store_create(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_create_t *args,
    ngx_http_agentstream_store_created_t *created,
    ngx_http_agentstream_later_t *later);

/* returns the same at once, but creates nothing; NGX_OK: it could be
   created */
ngx_int_t ngx_http_agentstream_store_taken(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *request_id,
    ngx_http_agentstream_ticket_t *ticket,
    ngx_http_agentstream_store_created_t *created);

/* takes a place in the queue of a session; NGX_DECLINED: the session has
   neither turns nor waiting senders, NGX_ERROR: no room */
ngx_int_t ngx_http_agentstream_store_queue(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t **ticket);
/* takes the first place, so that no turn begins; NGX_BUSY: a turn is running,
   NGX_ERROR: no room */
ngx_int_t ngx_http_agentstream_store_hold(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t **ticket);
/* gives the place up, and sets *ticket to NULL; 1: others wait behind it and no
   turn runs, so they are to be told with notify_tell() */
ngx_uint_t ngx_http_agentstream_store_unqueue(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_ticket_t **ticket);

/* adds or removes one of the turn's senders; nothing happens if the turn is
   not kept */
void ngx_http_agentstream_store_sender(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_int_t n);

/* a client was told that the turn goes on without it: from now on it counts as
   read, whether somebody reads it or not */
void ngx_http_agentstream_store_release(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn);


/* A turn whose owner is dead */

/* NGX_OK: the turn can be claimed, NGX_DECLINED: it cannot, or is not kept */
ngx_int_t ngx_http_agentstream_store_orphan(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn);
/*
 * Makes the turn this worker's.  Its journal is pinned, so that it can be read
 * with journal_walk(): no block of it is dropped until store_unpin().  NGX_OK,
 * NGX_DECLINED, NGX_AGAIN: later.
 */
ngx_int_t ngx_http_agentstream_store_claim(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_http_agentstream_node_t **node,
    ngx_http_agentstream_later_t *later);
void ngx_http_agentstream_store_unpin(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);
/*
 * A turn that nobody has claimed for "retain", claimed and pinned.  Searches
 * all turns, from *key on, which is 0 at first; NULL and *key 0: there are no
 * more, NULL otherwise: call it again.
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
/* the settings of the location that started it */
void ngx_http_agentstream_store_settings(ngx_http_agentstream_node_t *node,
    ngx_uint_t *packets, ngx_uint_t *tool_kinds);
/* the HTTP status of a turn that fails before its first packet */
void ngx_http_agentstream_store_status(ngx_http_agentstream_node_t *node,
    ngx_uint_t status);
/* the prompt is about to be sent, so that a successor must not send it; NGX_OK,
   NGX_AGAIN: later, and it must not be sent before; later also NGX_ERROR: the
   store cannot be reached, and the prompt must not be sent */
ngx_int_t ngx_http_agentstream_store_prompting(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_later_t *later);
/* whether the turn is certainly this worker's now: only then may it abort or
   answer anything in OpenCode */
ngx_uint_t ngx_http_agentstream_store_mine(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);
/* whether the prompt may have reached OpenCode */
ngx_uint_t ngx_http_agentstream_store_prompted(
    ngx_http_agentstream_node_t *node);
/* somebody, perhaps the owner itself, wants to end it; whether somebody
   does */
void ngx_http_agentstream_store_stop(ngx_http_agentstream_node_t *node);
ngx_uint_t ngx_http_agentstream_store_interrupted(
    ngx_http_agentstream_node_t *node);
/* how many senders of its prompt are still there */
ngx_uint_t ngx_http_agentstream_store_senders(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);
/* whether anybody reads it, in any worker; *seen_at: when the last reader
   attached or detached */
ngx_uint_t ngx_http_agentstream_store_watched(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_msec_t *seen_at);
/* the workers whose readers must be woken, as notify_wake() needs them */
uint64_t *ngx_http_agentstream_store_watchers(
    ngx_http_agentstream_node_t *node);
/* a copy of them, for one who was the owner; none if the turn is not kept */
void ngx_http_agentstream_store_readers(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, uint64_t *watchers);
/* the directory of the session's calls, for workers that answer its questions
   and for its next turn; an empty one is forgotten.  NGX_ERROR: no room */
ngx_int_t ngx_http_agentstream_store_directory(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *directory);
/* copies it; 0: it is not known, or there is no memory */
ngx_uint_t ngx_http_agentstream_store_located(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_pool_t *pool, ngx_str_t *directory);

/*
 * Lets readers see what was appended.  It is called once for all packets of a
 * cycle of the event loop, before their readers are woken.  NGX_OK: readers
 * see all of it, as they do in a store of one machine as soon as it is
 * appended.  NGX_AGAIN: the handler is called when they see more, and readers
 * are to be woken then; what is appended until then needs another call.
 * While an answer is to come, further calls change nothing.
 */
ngx_int_t ngx_http_agentstream_store_show(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later);

/* the owner was woken: if another machine has taken the turn over, the handler
   of show() is called soon, with NGX_ABORT */
void ngx_http_agentstream_store_check(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later);

/*
 * Adds a question or permission request that waits for a client's answer.
 * NGX_OK, also if it is already listed; NGX_DECLINED: too many wait;
 * NGX_ERROR: no room; NGX_AGAIN: later.
 */
ngx_int_t ngx_http_agentstream_store_ask(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *id, ngx_uint_t permission,
    ngx_http_agentstream_later_t *later);
/* removes it, because it no longer waits */
void ngx_http_agentstream_store_answered(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *id);

/* its prompt was never sent: from now on it can only be found by its id */
void ngx_http_agentstream_store_refuse(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* how a turn ends */

struct ngx_http_agentstream_store_end_s {
    ngx_str_t                            stop_reason;
    ngx_uint_t                           unsure;   /* OpenCode may still be
                                                      working in the session */

    /* result: the workers whose readers must be woken */
    uint64_t                             watchers[
                                      NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64];
};

/*
 * The turn is over, and the handle no longer belongs to the caller.  Readers
 * see all its packets, and then its end.  The turn is kept for "retain", as
 * long as there is room.  NGX_OK, or NGX_AGAIN: later; after store_cancel()
 * the turn still ends, but the handler is not called.
 */
ngx_int_t ngx_http_agentstream_store_finish(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_store_end_t *end,
    ngx_http_agentstream_later_t *later);


/* Verbs of everybody else */

/* asks the owner of the turn that runs in the session to end it; NGX_DECLINED:
   no turn is running.  The owner must be woken with notify_announce() */
ngx_int_t ngx_http_agentstream_store_interrupt(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);

/* whether a turn runs in the session; turn NULL, or with room for its id */
ngx_uint_t ngx_http_agentstream_store_running(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *turn);

/*
 * Whether this question waits for an answer in the turn that runs in the
 * session.  NGX_OK: it does, and directory, in the pool, is where the answer
 * must be sent; NGX_DECLINED: it does not; NGX_ABORT: no turn is running;
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_agentstream_store_asked(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *id, ngx_uint_t permission, ngx_pool_t *pool,
    ngx_str_t *directory);


/* a turn among those of its session */

typedef struct {
    ngx_str_t                            id;       /* empty: none */
    uint64_t                             number;   /* ascends from turn to
                                                      turn, across all
                                                      sessions */
    ngx_str_t                            request_id;   /* may be empty */
    u_char                               id_data[
                                      NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    u_char                               request_id_data[
                                      NGX_HTTP_AGENTSTREAM_REQUEST_ID_SIZE];
} ngx_http_agentstream_store_turn_t;

/* the session's oldest turn with a higher number, or its newest one for
   NGX_HTTP_AGENTSTREAM_NEWEST; NGX_DECLINED: none, and turn->number is the
   number of the last turn of any session */
ngx_int_t ngx_http_agentstream_store_next(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, uint64_t number, ngx_http_agentstream_store_turn_t *turn);


/* what a client that has seq packets of a turn reads next */

typedef struct {
    ngx_str_t                            turn;     /* empty: none is kept */
    uint64_t                             number;   /* of that turn; if there
                                                      is none and "over" is
                                                      set, of the turn that
                                                      is over */
    uint64_t                             seq;      /* the first packet to
                                                      read */
    uint64_t                             newest;   /* number of the last turn of
                                                      any session */
    ngx_uint_t                           over;     /* the client has all of
                                                      the turn it named, and
                                                      this is the session's
                                                      next one */
    u_char                               id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_store_found_t;

/*
 * Finds the named turn, if it belongs to the session and is kept; the
 * session's next turn if the client has all of it; the newest one, from its
 * first packet, if it is not kept or the name is empty.
 */
void ngx_http_agentstream_store_find(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *turn, uint64_t seq,
    ngx_http_agentstream_store_found_t *found);

/* whether the turn is kept; *refused: its prompt was never sent */
ngx_uint_t ngx_http_agentstream_store_kept(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_uint_t *refused);


/* a reader's position in a turn; it is valid if it is zeroed and has seq (the
   next packet) and the turn's id.  The rest belongs to the store */

typedef struct {
    uint64_t                             seq;      /* the next packet to
                                                      read */
    ngx_http_agentstream_block_t        *block;    /* hint: the block that
                                                      contains it */
    uint32_t                             offset;
    ngx_uint_t                           dropped;  /* the hint is valid while
                                                      this equals the journal's
                                                      "dropped" */
} ngx_http_agentstream_cursor_t;

typedef struct {
    ngx_http_agentstream_node_t         *node;     /* hint: the turn's node */
    ngx_uint_t                           freed;    /* the hint is valid while
                                                      this equals the zone's
                                                      "freed" */
    ngx_http_agentstream_cursor_t        cursor;
    ngx_uint_t                           known;    /* epoch is known */
    ngx_uint_t                           epoch;    /* of the turn when it was
                                                      read: what was read is a
                                                      part of the next one, too,
                                                      unless that began
                                                      earlier */
    ngx_str_t                            turn;
} ngx_http_agentstream_store_place_t;


/* what there is to read, all of it at one moment */

typedef struct {
    ngx_uint_t                           status;   /* HTTP status of a turn that
                                                      failed before it started,
                                                      or 0 */
    ngx_http_agentstream_records_t       records;  /* the copied records */
    size_t                               need;     /* size of a record that is
                                                      larger than the buffer */
    unsigned                             lost:1;   /* the packet to read is no
                                                      longer kept */
    unsigned                             all:1;    /* the reader has all
                                                      packets */
    unsigned                             ended:1;  /* the turn is over, and no
                                                      packet will follow */
    unsigned                             begun:1;  /* its status is known */
    unsigned                             refused:1;    /* its prompt was never
                                                          sent */
    unsigned                             orphan:1; /* the reader has all
                                                      packets and the owner is
                                                      dead: the turn should be
                                                      claimed */
} ngx_http_agentstream_store_view_t;


/*
 * Copies whole records from the position on into buf, which must be aligned to
 * 8 bytes, as far as they fit, and moves the position behind them;
 * record_next() reads them from view->records.  A record that is larger than
 * the whole buf is not copied: view->need is its size.  A caller that does not
 * want a refused turn must look at view->refused first, because the records
 * are copied anyway.
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
    ngx_http_agentstream_store_ask_t    *asks;     /* questions and permission
                                                      requests that wait,
                                                      oldest first */
} ngx_http_agentstream_store_state_t;

/* NGX_OK, NGX_DECLINED: none is kept, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_store_state(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_pool_t *pool,
    ngx_http_agentstream_store_state_t *state);


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_H_INCLUDED_ */
