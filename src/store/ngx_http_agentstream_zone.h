
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_ZONE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_store.h"


/*
 * The shared memory: which sessions have turns, which turn is whose,
 * how long a finished one is kept.  All workers see it; everything in it is
 * guarded by the zone's lock unless its comment says otherwise.
 */


#define NGX_HTTP_AGENTSTREAM_TAIL_SIZE     512

#define NGX_HTTP_AGENTSTREAM_NOBODY        ((ngx_uint_t) -1)


typedef enum {
    NGX_HTTP_AGENTSTREAM_TURN_STARTING = 0,    /* no packet yet */
    NGX_HTTP_AGENTSTREAM_TURN_RUNNING,
    NGX_HTTP_AGENTSTREAM_TURN_FINISHED
} ngx_http_agentstream_turn_state_e;


/* a page, or less, of a packet for which there were not enough in a row */

typedef struct ngx_http_agentstream_piece_s  ngx_http_agentstream_piece_t;

struct ngx_http_agentstream_piece_s {
    ngx_http_agentstream_piece_t        *next;     /* of the packet */
    ngx_http_agentstream_piece_t        *other;    /* of the block */
    size_t                               len;
    u_char                               data[1];
};


/*
 * A part of a journal.  Written by the turn's owner alone, beyond "used"
 * without the lock, for nobody reads there; "used" and seq move under the
 * lock.
 */

struct ngx_http_agentstream_block_s {
    ngx_http_agentstream_block_t        *next;
    uint64_t                             seq;      /* first one in it */
    uint32_t                             size;     /* of data */
    uint32_t                             used;
    ngx_http_agentstream_piece_t        *pieces;   /* of all its packets */
    size_t                               extra;    /* size of these */
    u_char                               data[1];
};


typedef struct {
    ngx_http_agentstream_block_t        *first;
    ngx_http_agentstream_block_t        *last;
    uint64_t                             first_seq;    /* oldest one kept */
    uint64_t                             last_seq;     /* 0: none yet */
    ngx_uint_t                           dropped;      /* blocks freed so far:
                                                          cursors into them are
                                                          stale */
    size_t                               size;         /* of all blocks, and
                                                          their pieces */
} ngx_http_agentstream_journal_t;


/*
 * Who has something in the zone: a turn, a ticket.  It is a worker, and not a
 * slot, for the slot's next worker is another one.  What a dead worker has left
 * can be claimed by any other.
 */

typedef struct {
    ngx_uint_t                           slot;     /* NOBODY: a worker without
                                                      one */
    ngx_uint_t                           generation;
} ngx_http_agentstream_owner_t;


/* a question or a permission request that waits for a client's answer */

#define NGX_HTTP_AGENTSTREAM_ASK_ID_SIZE   64

/* of one turn, so that it cannot fill the zone */
#define NGX_HTTP_AGENTSTREAM_ASKS_MAX      64

typedef struct ngx_http_agentstream_ask_s  ngx_http_agentstream_ask_t;

struct ngx_http_agentstream_ask_s {
    ngx_http_agentstream_ask_t          *next;
    uint32_t                             permission;
    uint32_t                             id_len;
    u_char                               id[NGX_HTTP_AGENTSTREAM_ASK_ID_SIZE];
};


typedef struct ngx_http_agentstream_session_s  ngx_http_agentstream_session_t;


/* a turn as all workers see it; a running one is never freed */

struct ngx_http_agentstream_node_s {
    ngx_str_node_t                       sn;       /* by id */
    ngx_rbtree_node_t                    order;    /* in its place, the first
                                                      to give way first */
    ngx_rbtree_t                        *place;    /* see zone_place_locked(),
                                                      or NULL */
    ngx_queue_t                          sibling;  /* in its session, oldest
                                                      first */
    ngx_http_agentstream_session_t      *session;
    uint64_t                             number;   /* ascends from turn to
                                                      turn */

    /* what every packet needs, in few cache lines */
    uint32_t                             state;
    uint32_t                             status;   /* HTTP status of a turn that
                                                      failed before it started,
                                                      or 0 */
    ngx_uint_t                           interrupted;  /* a client wants it
                                                          ended; set by any
                                                          worker, never taken
                                                          back */
    ngx_http_agentstream_journal_t       journal;

    /* slots of workers whose readers want to be woken */
    uint64_t                             watchers[
                                      NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64];

    u_char                               id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    uint32_t                             senders;  /* whose prompt it is, and
                                                      that have not left */
    uint32_t                             refused;  /* its prompt was not sent,
                                                      for another one is being
                                                      answered: nobody finds it
                                                      but who has its id */
    uint32_t                             packets;  /* settings of the location
                                                      that started it, also */
    uint32_t                             tool_kinds;   /* for a successor */
    ngx_uint_t                           pinned;   /* a successor reads its
                                                      journal: no block goes */
    ngx_http_agentstream_owner_t         owner;
    time_t                               ended;    /* or orphaned, or 0 */
    ngx_msec_t                           seen_at;  /* by a client */
    u_char                               stop_reason[16];  /* or empty */
    ngx_str_node_t                       request;  /* client_request_id, in the
                                                      slab, or empty */

    ngx_uint_t                           prompted;     /* the prompt may be
                                                          with OpenCode */
    ngx_http_agentstream_ask_t          *asks;         /* oldest first */
    ngx_uint_t                           nasks;
    ngx_str_t                            directory;    /* empty: not known
                                                          yet */

    /* the terminal packet always has room, also when the zone is full */
    u_char                               tail[NGX_HTTP_AGENTSTREAM_TAIL_SIZE];
};


struct ngx_http_agentstream_session_s {
    ngx_str_node_t                       sn;       /* by key */
    ngx_queue_t                          turns;
    ngx_queue_t                          tickets;  /* of senders that wait */
    ngx_http_agentstream_node_t         *running;
    ngx_uint_t                           nrefused; /* turns that are not among
                                                      these */
    ngx_uint_t                           unsure;   /* OpenCode may be at work
                                                      on a prompt that was not
                                                      sent from here */
    ngx_rbtree_t                         requests; /* its turns that have a
                                                      client_request_id */
    ngx_rbtree_node_t                    sentinel;
    u_char                               key[1];   /* server, route and id */
};


/* a sender's place in the queue for a session; it goes with its owner */

struct ngx_http_agentstream_ticket_s {
    ngx_queue_t                          queue;    /* of the session */
    ngx_queue_t                          all;      /* ... and of the zone */
    ngx_http_agentstream_session_t      *session;
    ngx_http_agentstream_owner_t         owner;
};


/* the zone's own; what a worker counts is ngx_http_agentstream_count() */
#define ngx_http_agentstream_zone_count(zone, stat, n)                        \
    (zone)->stats[NGX_HTTP_AGENTSTREAM_STAT_##stat] += (n)


#define NGX_HTTP_AGENTSTREAM_MARKS         64
#define NGX_HTTP_AGENTSTREAM_MARK_SHIFT    (32 - 12)


/* a worker, as the others see it */

typedef struct {
    ngx_pid_t                            pid;      /* 0: free */
    ngx_uint_t                           generation;
    uint64_t                            *stats;

    /* what the worker is to look at, set by others without the lock: a bit for
       each of 4,096 groups of turns and sessions, by their hash, and one for
       each word of these */
    uint64_t                            *marks;
    uint64_t                             marked;

    ngx_socket_t                         fd;       /* eventfd, made with the
                                                      zone, inherited by all */
} ngx_http_agentstream_slot_t;


typedef struct {
    ngx_rbtree_t                         sessions;
    ngx_rbtree_node_t                    sessions_sentinel;
    ngx_rbtree_t                         turns;
    ngx_rbtree_node_t                    turns_sentinel;

    /* turns by what they can give when room is needed */
    ngx_rbtree_t                         finished;     /* nobody reads them,
                                                          oldest first */
    ngx_rbtree_t                         spare;        /* they run or are read,
                                                          and have more than one
                                                          block, most first */
    ngx_rbtree_t                         watched;      /* finished, with readers
                                                          and one block, oldest
                                                          first */
    ngx_rbtree_node_t                    sentinel;     /* of these three */

    ngx_queue_t                          tickets;      /* all of them */
    ngx_uint_t                           ntickets;
    ngx_uint_t                           nrunning;
    ngx_uint_t                           nfinished;
    ngx_uint_t                           freed;        /* turns, so far: as
                                                          long as it stays,
                                                          a node does */
    uint64_t                             number;       /* of the last turn */

    /* slots of workers where somebody waits for what happens in a session */
    uint64_t                             followers[
                                      NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64];

    ngx_uint_t                           nslots;
    ngx_http_agentstream_slot_t          slots[1];
} ngx_http_agentstream_shared_t;


struct ngx_http_agentstream_zone_s {
    ngx_slab_pool_t                     *shpool;
    ngx_http_agentstream_shared_t       *sh;
    ngx_msec_t                           retain;
    ngx_core_conf_t                     *core;
    ngx_http_agentstream_owner_t         self;         /* this worker */
    struct {
        ngx_uint_t                       generation;
        ngx_uint_t                       alive;
    }                                    seen[NGX_HTTP_AGENTSTREAM_WORKERS_MAX];
                                         /* of each slot, see zone_notice() */
    uint64_t                            *stats;        /* the slot's, or own */
    uint64_t                             own[NGX_HTTP_AGENTSTREAM_STAT_MAX];

    /* of the slots, to be closed with the last cycle that has the zone */
    ngx_socket_t                         fds[NGX_HTTP_AGENTSTREAM_WORKERS_MAX];
    ngx_uint_t                           nfds;
    ngx_http_agentstream_zone_t         *old;

#if (NGX_HTTP_AGENTSTREAM_LATER)
    ngx_queue_t                          later;        /* answers due */
    ngx_event_t                          answer;
#endif
};


ngx_int_t ngx_http_agentstream_zone_init(ngx_shm_zone_t *shm_zone, void *data);

/* the new configuration is in force: the old one has nothing to close */
void ngx_http_agentstream_zone_keep(ngx_http_agentstream_zone_t *zone);
/* a pool's, for the zone */
void ngx_http_agentstream_zone_cleanup(void *data);

/* claim a slot for this process; the rest works without one */
void ngx_http_agentstream_zone_init_worker(ngx_http_agentstream_zone_t *zone);
void ngx_http_agentstream_zone_exit_worker(ngx_http_agentstream_zone_t *zone);

#define ngx_http_agentstream_zone_lock(zone)                                  \
    ngx_shmtx_lock(&(zone)->shpool->mutex)
#define ngx_http_agentstream_zone_unlock(zone)                                \
    ngx_shmtx_unlock(&(zone)->shpool->mutex)

/* how many workers there are, and what they have counted all together */
ngx_uint_t ngx_http_agentstream_zone_stats(ngx_http_agentstream_zone_t *zone,
    uint64_t *stats);

/* memory for anything in the zone; others give way as needed, in the order of
   zone_place_locked(), but for more than a page only finished turns do, and not
   many: pages in a row may not come about.  NULL: there is none */
void *ngx_http_agentstream_zone_alloc_locked(ngx_http_agentstream_zone_t *zone,
    size_t size);

/*
 * A new turn of the session, in the state "starting" and owned by this worker.
 * NGX_OK; NGX_DECLINED: *node is the one that request_id started before;
 * NGX_BUSY: *node is the one that runs, or NULL where others wait in front of
 * the ticket; NGX_ERROR: the zone is full.
 */
ngx_int_t ngx_http_agentstream_zone_create_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *id,
    ngx_str_t *request_id, ngx_http_agentstream_ticket_t *ticket,
    ngx_http_agentstream_node_t **node);

/* the same answers, but nothing is made; NGX_OK: it could be */
ngx_int_t ngx_http_agentstream_zone_taken_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *request_id,
    ngx_http_agentstream_ticket_t *ticket, ngx_http_agentstream_node_t **node);

/* a place in the queue of a session; NGX_DECLINED: it has neither turns nor
   others that wait, NGX_ERROR: no room */
ngx_int_t ngx_http_agentstream_zone_queue_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key,
    ngx_http_agentstream_ticket_t **ticket);
/* the first place, so that no turn begins; NGX_BUSY: one runs, NGX_ERROR: no
   room */
ngx_int_t ngx_http_agentstream_zone_hold_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key,
    ngx_http_agentstream_ticket_t **ticket);
void ngx_http_agentstream_zone_unqueue_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_ticket_t *ticket);
/* the places of workers that are dead go, a few under one lock */
void ngx_http_agentstream_zone_sweep(ngx_http_agentstream_zone_t *zone);

/* by the turn's id; NULL: evicted, or never was */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_find_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *id);

/* the session's oldest turn with a higher number, or its newest one for
   NGX_HTTP_AGENTSTREAM_NEWEST; NULL: none */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_turn_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, uint64_t number);

/* liveness: whether that worker is no more */
ngx_uint_t ngx_http_agentstream_zone_dead_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_owner_t *owner);

/* the same, as far as this worker has noticed: without a system call */
ngx_uint_t ngx_http_agentstream_zone_gone_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_owner_t *owner);

/* what its owner has left is this worker's now; NGX_DECLINED: the owner
   lives */
ngx_int_t ngx_http_agentstream_zone_claim_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_owner_t *owner);

/* whether any worker has died since this was asked last */
ngx_uint_t ngx_http_agentstream_zone_notice(ngx_http_agentstream_zone_t *zone);

/* the worker that has the slot is to look at what has that hash; it must be
   woken after it */
void ngx_http_agentstream_zone_mark(ngx_http_agentstream_zone_t *zone,
    ngx_uint_t slot, uint32_t hash);
/* takes the marks of this worker: a bit is returned for each of the words of
   marks that was set */
uint64_t ngx_http_agentstream_zone_marked(ngx_http_agentstream_zone_t *zone,
    uint64_t *marks);

/* the worker that has the slot has readers of the turn, or none any more */
void ngx_http_agentstream_zone_watch_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_uint_t slot, ngx_uint_t set);

/* whether anybody watches the turn */
ngx_uint_t ngx_http_agentstream_zone_watched_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);

/* the turn that runs in the session, or NULL */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_running_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);

/* where the turn's calls go to; NGX_ERROR: the zone is full */
ngx_int_t ngx_http_agentstream_zone_directory_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *directory);

/* what waits for an answer; _ask: NGX_OK, also when it is there already,
   NGX_DECLINED: too many wait, or NGX_ERROR: the zone is full */
ngx_int_t ngx_http_agentstream_zone_ask_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *id, ngx_uint_t permission);
ngx_uint_t ngx_http_agentstream_zone_asks_locked(
    ngx_http_agentstream_node_t *node, ngx_str_t *id, ngx_uint_t permission);
void ngx_http_agentstream_zone_answer_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *id);

/* all of that, by zone_finish_locked() */
void ngx_http_agentstream_zone_forget_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/*
 * A running turn whose worker has been dead for "retain": it is this worker's
 * now, and pinned.  A few turns are looked at, from *key on, which
 * begins with 0; NULL and *key 0: it was the last of them.
 */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_orphan_locked(
    ngx_http_agentstream_zone_t *zone, ngx_rbtree_key_t *key);

/*
 * Called whenever the blocks of a turn, its state, its readers or "pinned" have
 * changed: where it stands in the order in which turns give way.
 */
void ngx_http_agentstream_zone_place_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* the pieces of a block that came after this one go; NULL: all of them */
void ngx_http_agentstream_zone_free_pieces_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_journal_t *journal,
    ngx_http_agentstream_block_t *block, ngx_http_agentstream_piece_t *after);

/* the oldest block of a journal goes; it is not the only one */
void ngx_http_agentstream_zone_shift_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* the turn is over; it is kept for "retain" and as long as there is room */
void ngx_http_agentstream_zone_finish_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* the turn's prompt was never sent: nobody finds it but who has its id */
void ngx_http_agentstream_zone_refuse_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);

/* a finished turn, at once */
void ngx_http_agentstream_zone_free_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* free what has been kept long enough, a few at a time */
void ngx_http_agentstream_zone_expire_locked(
    ngx_http_agentstream_zone_t *zone);


#endif /* _NGX_HTTP_AGENTSTREAM_ZONE_H_INCLUDED_ */
