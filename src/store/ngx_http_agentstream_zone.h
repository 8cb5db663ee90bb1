
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_ZONE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_block.h"
#include "ngx_http_agentstream_store.h"
#include "ngx_http_agentstream_store_chat.h"


/*
 * The shared memory: which sessions have turns, which turn is whose,
 * how long a finished one is kept.  All workers see it; everything in it is
 * guarded by the zone's lock unless its comment says otherwise.
 */


#define NGX_HTTP_AGENTSTREAM_TAIL_SIZE     512

#define NGX_HTTP_AGENTSTREAM_NOBODY        ((ngx_uint_t) -1)

/* how many epochs of a turn are known; a position in an older one is lost */
#define NGX_HTTP_AGENTSTREAM_EPOCHS        3


typedef enum {
    NGX_HTTP_AGENTSTREAM_TURN_RUNNING = 0,
    NGX_HTTP_AGENTSTREAM_TURN_FINISHED
} ngx_http_agentstream_turn_state_e;


/*
 * The owner of something in the zone, a turn or a ticket.  It is a worker and
 * not a slot, because the slot's next worker is a different owner.  What a
 * dead worker has left can be claimed by any other.
 */

typedef struct {
    ngx_uint_t                           slot;     /* NOBODY: a worker without
                                                      one */
    ngx_uint_t                           generation;
} ngx_http_agentstream_owner_t;


/* a question or a permission request that waits for a client's answer */

#define NGX_HTTP_AGENTSTREAM_ASK_ID_SIZE   64

/* the most of one turn, so that it cannot fill the zone */
#define NGX_HTTP_AGENTSTREAM_ASKS_MAX      64

typedef struct ngx_http_agentstream_ask_s  ngx_http_agentstream_ask_t;

struct ngx_http_agentstream_ask_s {
    ngx_http_agentstream_ask_t          *next;
    uint32_t                             permission;
    uint32_t                             id_len;
    u_char                               id[NGX_HTTP_AGENTSTREAM_ASK_ID_SIZE];
};


typedef struct ngx_http_agentstream_session_s  ngx_http_agentstream_session_t;


/* a turn as all workers see it; a running one is never freed.  It must fit into
   1,024 bytes: the slab would take twice as much for a larger one */

struct ngx_http_agentstream_node_s {
    ngx_str_node_t                       sn;       /* by id */
    ngx_rbtree_node_t                    order;    /* in the tree "place", in
                                                      the order in which turns
                                                      give way */
    ngx_rbtree_t                        *place;    /* the tree it is in, see
                                                      zone_place_locked(), or
                                                      NULL */
    ngx_queue_t                          sibling;  /* in its session's queue,
                                                      oldest first */
    ngx_http_agentstream_session_t      *session;
    uint64_t                             number;   /* ascends from turn to
                                                      turn */

    /* the members that every packet needs, so that they share few cache
       lines */
    uint32_t                             state;
    uint32_t                             status;   /* HTTP status of a turn that
                                                      failed before it started,
                                                      or 0 */
    ngx_uint_t                           interrupted;  /* a client wants to
                                                          end it; set by any
                                                          worker, never
                                                          cleared */
    ngx_http_agentstream_journal_t       journal;

    /* slots of the workers whose readers must be woken */
    uint64_t                             watchers[
                                      NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64];

    u_char                               id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    uint32_t                             senders;  /* number of clients that
                                                      sent its prompt and have
                                                      not left */
    uint32_t                             refused;  /* its prompt was not
                                                      sent, because another
                                                      one is being answered;
                                                      it can only be found
                                                      by its id */
    uint32_t                             released; /* a client was told that it
                                                      goes on without being
                                                      read */
    /* settings of the location that started it, which a successor needs */
    uint32_t                             packets;
    uint32_t                             tool_kinds;
    ngx_uint_t                           pinned;   /* a successor reads its
                                                      journal, so no block may
                                                      be dropped */
    ngx_http_agentstream_owner_t         owner;
    time_t                               ended;    /* when it ended or was
                                                      orphaned, or 0 */
    ngx_msec_t                           seen_at;  /* last time a client read
                                                      it */
    u_char                               stop_reason[16];  /* or empty */
    ngx_str_node_t                       request;  /* client_request_id, in the
                                                      slab, or empty */

    ngx_uint_t                           prompted;     /* the prompt may have
                                                          reached OpenCode */
    ngx_http_agentstream_ask_t          *asks;         /* oldest first */
    ngx_uint_t                           nasks;

    /* several machines; all zero otherwise */
    uint32_t                             mirror;   /* it belongs to another
                                                      machine; "owner" is the
                                                      worker here that copies
                                                      it */
    uint32_t                             gone;     /* that machine is dead, as
                                                      far as we know */
    uint32_t                             pending;  /* it is not known yet
                                                      whether it may begin */
    uint32_t                             epoch;    /* number of takeovers by
                                                      other machines */
    uint32_t                             nends;
    uint64_t                             ends[NGX_HTTP_AGENTSTREAM_EPOCHS];
                                                   /* last packets of the
                                                      epochs before this one,
                                                      oldest first */
    uint64_t                             rank;     /* its place among the turns
                                                      of its session on all
                                                      machines */
    void                                *remote;   /* the owner's; means nothing
                                                      in other processes */

    /* reserved for the terminal packet, which always has room, even if the
       zone is full */
    u_char                               tail[NGX_HTTP_AGENTSTREAM_TAIL_SIZE];
};


struct ngx_http_agentstream_session_s {
    ngx_str_node_t                       sn;       /* by key */
    ngx_queue_t                          turns;
    ngx_queue_t                          tickets;  /* of waiting senders */
    ngx_http_agentstream_node_t         *running;
    uint32_t                             nrefused; /* number of refused turns,
                                                      which are not in this
                                                      queue */
    uint32_t                             unsure;   /* OpenCode may be working
                                                      on a prompt that was not
                                                      sent from here */
    ngx_str_t                            directory;    /* of its calls, as its
                                                          last turn has found
                                                          it; empty: not
                                                          known */
    ngx_rbtree_t                         requests; /* its turns with a
                                                      client_request_id, by
                                                      this id */
    ngx_rbtree_node_t                    sentinel;
    u_char                               key[1];   /* server, route and id */
};


/* a sender's place in the queue for a session; it ends with its owner */

struct ngx_http_agentstream_ticket_s {
    ngx_queue_t                          queue;    /* in the session's queue */
    ngx_queue_t                          all;      /* in the zone's list of all
                                                      tickets */
    ngx_http_agentstream_session_t      *session;
    ngx_http_agentstream_owner_t         owner;
    uint64_t                             number;   /* its name for other
                                                      machines; 0: none */
};


/* something that a platform has sent */

typedef struct {
    ngx_queue_t                          queue;    /* in its chat's inbox */
    uint64_t                             number;
    uint64_t                             hashes[2];    /* of its names, or
                                                          0 */
    size_t                               len;
    u_char                               data[1];
} ngx_http_agentstream_entry_t;


/* the most recent names of entries that a chat remembers, as hashes */
#define NGX_HTTP_AGENTSTREAM_CHAT_SEEN     64

/* a chat with an owner, an entry or "busy" is never freed; with its key and its
   state it should fit into half a page */

struct ngx_http_agentstream_chat_node_s {
    ngx_str_node_t                       sn;       /* by key */
    ngx_queue_t                          queue;    /* of unused chats, if it
                                                      is listed there */
    ngx_queue_t                          entries;  /* the inbox, oldest
                                                      first */
    ngx_http_agentstream_owner_t         owner;    /* if it is owned */
    ngx_str_t                            place;
    uint64_t                             number;   /* of the last entry */
    time_t                               used;
    uint32_t                             nentries;
    uint32_t                             nseen;
    unsigned                             owned:1;
    unsigned                             listed:1;
    unsigned                             busy:1;   /* there is work besides the
                                                      entries */
    unsigned                             only_inbox:1; /* if it is owned: it is
                                                      the inbox of a chat that
                                                      is on the owner's heap */
    void                                *remote;   /* the owner's, of a chat of
                                                      all machines, which is
                                                      not in the zone but on
                                                      the owner's heap */
    ngx_http_agentstream_chat_node_t    *inbox;    /* of such a chat: the node
                                                      in the zone with what has
                                                      come while Redis was
                                                      away, or NULL */
    uint64_t                             seen[NGX_HTTP_AGENTSTREAM_CHAT_SEEN];
    u_char                               state[
                                      NGX_HTTP_AGENTSTREAM_CHAT_STATE_SIZE];
    u_char                               key[1];
};


/* sends that all workers have together; when all of them are back, it is as
   good as none, and is freed */

typedef struct {
    ngx_str_node_t                       sn;       /* by key */
    ngx_queue_t                          queue;    /* the longest unused
                                                      first */
    ngx_msec_t                           full;     /* when all of them are
                                                      back */
    u_char                               key[1];
} ngx_http_agentstream_bucket_t;


/* things to be done rarely, which were done; there are only so many, so that
   nobody can have them done more often by making others forgotten */
#define NGX_HTTP_AGENTSTREAM_RARE          256

typedef struct {
    uint64_t                             hash;
    ngx_msec_t                           until;    /* not before */
} ngx_http_agentstream_rare_t;


/* counts what belongs to the zone; a worker counts with
   ngx_http_agentstream_count() */
#define ngx_http_agentstream_zone_count(zone, stat, n)                        \
    (zone)->stats[NGX_HTTP_AGENTSTREAM_STAT_##stat] += (n)


#define NGX_HTTP_AGENTSTREAM_MARKS         64
#define NGX_HTTP_AGENTSTREAM_MARK_SHIFT    (32 - 12)


/* a worker, as the others see it */

typedef struct {
    ngx_pid_t                            pid;      /* 0: free */
    ngx_uint_t                           generation;
    uint64_t                            *stats;

    /* what the worker must look at, set by others without the lock: a bit for
       each of 4,096 groups of turns and sessions, by their hash, and one for
       each word of these bits */
    uint64_t                            *marks;
    uint64_t                             marked;

    ngx_socket_t                         fd;       /* eventfd, created with the
                                                      zone and inherited by all
                                                      processes */
} ngx_http_agentstream_slot_t;


typedef struct {
    ngx_rbtree_t                         sessions;
    ngx_rbtree_node_t                    sessions_sentinel;
    ngx_rbtree_t                         turns;
    ngx_rbtree_node_t                    turns_sentinel;

    /* turns, in the order in which they give way when memory is needed */
    ngx_rbtree_t                         finished;     /* nobody reads them,
                                                          oldest first */
    ngx_rbtree_t                         spare;        /* they run or are read,
                                                          and have more than
                                                          one block; the
                                                          largest first */
    ngx_rbtree_t                         watched;      /* finished, with readers
                                                          and one block, oldest
                                                          first */
    ngx_rbtree_node_t                    sentinel;     /* of these three */

    ngx_queue_t                          tickets;      /* all tickets */
    ngx_uint_t                           ntickets;
    ngx_uint_t                           nrunning;
    ngx_uint_t                           nfinished;
    ngx_uint_t                           freed;        /* number of turns
                                                          freed so far:
                                                          while it does not
                                                          change, pointers
                                                          to nodes stay
                                                          valid */
    uint64_t                             number;       /* of the last turn */
    uint64_t                             machine;      /* a random name for
                                                          this zone; 0: none
                                                          yet */

    /* slots of the workers in which somebody waits for events in a session */
    uint64_t                             followers[
                                      NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64];

    ngx_rbtree_t                         chats;
    ngx_rbtree_node_t                    chats_sentinel;
    ngx_rbtree_t                         buckets;
    ngx_rbtree_node_t                    buckets_sentinel;
    ngx_queue_t                          spent;        /* all buckets */
    ngx_queue_t                          unused;       /* chats without an owner
                                                          and without work, the
                                                          longest unused
                                                          first */
    ngx_uint_t                           nchats;
    ngx_http_agentstream_rare_t         *rare;         /* NGX_HTTP_
                                                          AGENTSTREAM_RARE of
                                                          them */

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
                                         /* what is known of each slot, see
                                            zone_notice() */
    uint64_t                            *stats;        /* counters, in the slot
                                                          or in own memory */
    uint64_t                             own[NGX_HTTP_AGENTSTREAM_STAT_MAX];

    /* eventfds of the slots, which are closed with the last cycle that uses
       the zone */
    ngx_socket_t                         fds[NGX_HTTP_AGENTSTREAM_WORKERS_MAX];
    ngx_uint_t                           nfds;
    ngx_http_agentstream_zone_t         *old;

    ngx_uint_t                           held;         /* readers see a record
                                                          when it is
                                                          acknowledged, not
                                                          when it is
                                                          appended */
    ngx_http_agentstream_store_remote_t *remote;       /* the verbs of a store
                                                          of several machines,
                                                          or NULL */
    void                                *remote_data;
    ngx_http_agentstream_store_chat_pt   chat_handler; /* for chats that nobody
                                                          serves */

#if (NGX_HTTP_AGENTSTREAM_LATER)
    ngx_queue_t                          later;        /* answers that are
                                                          due */
    ngx_event_t                          answer;
    ngx_uint_t                           fence;        /* each of so many
                                                          answers fences a
                                                          turn; 0: none does */
    ngx_uint_t                           answers;      /* to owners of turns,
                                                          so far */
#endif
};


ngx_int_t ngx_http_agentstream_zone_init(ngx_shm_zone_t *shm_zone, void *data);

/* the new configuration is in use: the old one must not close anything */
void ngx_http_agentstream_zone_keep(ngx_http_agentstream_zone_t *zone);
/* cleanup handler of a pool */
void ngx_http_agentstream_zone_cleanup(void *data);

/* claims a slot for this process; it also works without one */
void ngx_http_agentstream_zone_init_worker(ngx_http_agentstream_zone_t *zone);
void ngx_http_agentstream_zone_exit_worker(ngx_http_agentstream_zone_t *zone);

#define ngx_http_agentstream_zone_lock(zone)                                  \
    ngx_shmtx_lock(&(zone)->shpool->mutex)
#define ngx_http_agentstream_zone_unlock(zone)                                \
    ngx_shmtx_unlock(&(zone)->shpool->mutex)

/* the number of workers, and the sum of what they have counted */
ngx_uint_t ngx_http_agentstream_zone_stats(ngx_http_agentstream_zone_t *zone,
    uint64_t *stats);

/* allocates memory in the zone.  Turns give way as needed, in the order of
   zone_place_locked(); for more than a page only a few finished turns are
   evicted, because this may not yield contiguous pages.  NULL: there is no
   memory */
void *ngx_http_agentstream_zone_alloc_locked(ngx_http_agentstream_zone_t *zone,
    size_t size);

/*
 * Creates a turn of the session, in the state "starting" and owned by this
 * worker.  NGX_OK; NGX_DECLINED: *node is the turn that request_id has started
 * before; NGX_BUSY: *node is the running turn, or NULL if other senders wait
 * in front of the ticket; NGX_ERROR: the zone is full.
 */
ngx_int_t ngx_http_agentstream_zone_create_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *id,
    ngx_str_t *request_id, ngx_http_agentstream_ticket_t *ticket,
    ngx_http_agentstream_node_t **node);

/* creates a turn of another machine, in its place among the turns of its
   session; NULL: no room */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_mirror_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *id,
    ngx_str_t *request_id, uint64_t rank);

/* returns the same, but creates nothing; NGX_OK: it could be created */
ngx_int_t ngx_http_agentstream_zone_taken_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *request_id,
    ngx_http_agentstream_ticket_t *ticket, ngx_http_agentstream_node_t **node);

/* takes a place in the queue of a session; NGX_DECLINED: the session has
   neither turns nor waiting senders, NGX_ERROR: no room */
ngx_int_t ngx_http_agentstream_zone_queue_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key,
    ngx_http_agentstream_ticket_t **ticket);
/* takes the first place, so that no turn begins; NGX_BUSY: a turn is running,
   NGX_ERROR: no room */
ngx_int_t ngx_http_agentstream_zone_hold_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key,
    ngx_http_agentstream_ticket_t **ticket);
void ngx_http_agentstream_zone_unqueue_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_ticket_t *ticket);
/* frees the places of dead workers, a few under one lock */
void ngx_http_agentstream_zone_sweep(ngx_http_agentstream_zone_t *zone);

/* finds a turn by its id; NULL: evicted, or never existed */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_find_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *id);

/* the session's oldest turn with a higher number, or its newest one for
   NGX_HTTP_AGENTSTREAM_NEWEST; NULL: none */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_turn_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, uint64_t number);

/* liveness: whether that worker is dead */
ngx_uint_t ngx_http_agentstream_zone_dead_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_owner_t *owner);

/* the same, as far as this worker has noticed, without a system call */
ngx_uint_t ngx_http_agentstream_zone_gone_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_owner_t *owner);

/* makes this worker the owner; NGX_DECLINED: the owner is alive */
ngx_int_t ngx_http_agentstream_zone_claim_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_owner_t *owner);

/* whether any worker has died since the last call */
ngx_uint_t ngx_http_agentstream_zone_notice(ngx_http_agentstream_zone_t *zone);

/* the worker of this slot must look at the turn or session with this hash; it
   must be woken afterwards */
void ngx_http_agentstream_zone_mark(ngx_http_agentstream_zone_t *zone,
    ngx_uint_t slot, uint32_t hash);
/* takes and clears the marks of this worker: returns a bit for each word of
   marks that was set */
uint64_t ngx_http_agentstream_zone_marked(ngx_http_agentstream_zone_t *zone,
    uint64_t *marks);

/* the worker of this slot has readers of the turn, or no longer has any */
void ngx_http_agentstream_zone_watch_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_uint_t slot, ngx_uint_t set);

/* whether anybody watches the turn */
ngx_uint_t ngx_http_agentstream_zone_watched_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);

/* the turn that runs in the session, or NULL */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_running_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);

/* sets the directory of the calls in the turn's session; an empty one is
   forgotten.  NGX_ERROR: the zone is full */
ngx_int_t ngx_http_agentstream_zone_directory_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *directory);

/* questions that wait for an answer; _ask: NGX_OK, also if it is already
   listed, NGX_DECLINED: too many wait, or NGX_ERROR: the zone is full */
ngx_int_t ngx_http_agentstream_zone_ask_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *id, ngx_uint_t permission);
ngx_uint_t ngx_http_agentstream_zone_asks_locked(
    ngx_http_agentstream_node_t *node, ngx_str_t *id, ngx_uint_t permission);
void ngx_http_agentstream_zone_answer_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *id);

/* frees them; called by zone_finish_locked() */
void ngx_http_agentstream_zone_forget_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/*
 * A running turn whose worker has been dead for "retain": it now belongs to
 * this worker, and is pinned.  A few turns are looked at, from *key on, which
 * is 0 at first; NULL and *key 0: that was the last of them.
 */
ngx_http_agentstream_node_t *ngx_http_agentstream_zone_orphan_locked(
    ngx_http_agentstream_zone_t *zone, ngx_rbtree_key_t *key);

/*
 * Must be called whenever the blocks of a turn, its state, its readers or
 * "pinned" have changed: updates its place in the order in which turns give
 * way.
 */
void ngx_http_agentstream_zone_place_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* drops the oldest block of a journal, which must not be the only one */
void ngx_http_agentstream_zone_shift_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* ends the turn; it is kept for "retain" and as long as there is room */
void ngx_http_agentstream_zone_finish_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/*
 * Numbers of packets as clients see them: they contain the epoch, so that a
 * number never stands for two packets.  zone_number() gives the number of a
 * packet, zone_epoch() its epoch.  zone_last() is the last packet of an epoch
 * that any client may have; 0: the epoch is not known any more.
 */

#define NGX_HTTP_AGENTSTREAM_EPOCH         1000000000ULL

uint32_t ngx_http_agentstream_zone_epoch(ngx_http_agentstream_node_t *node,
    uint64_t seq);
uint64_t ngx_http_agentstream_zone_number(ngx_http_agentstream_node_t *node,
    uint64_t seq);
uint64_t ngx_http_agentstream_zone_last(ngx_http_agentstream_node_t *node,
    uint64_t epoch);
/* another machine has taken the turn over, after this packet */
void ngx_http_agentstream_zone_end_epoch(ngx_http_agentstream_node_t *node,
    uint64_t seq);

/* the turn's prompt was never sent: it can only be found by its id */
void ngx_http_agentstream_zone_refuse_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node);

/* frees a finished turn at once */
void ngx_http_agentstream_zone_free_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);

/* frees what was kept long enough, a few at a time */
void ngx_http_agentstream_zone_expire_locked(
    ngx_http_agentstream_zone_t *zone);

/* finds a chat, or NULL */
ngx_http_agentstream_chat_node_t *ngx_http_agentstream_zone_chat_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);
/* finds or creates it; it is not freed until it is ranked; NULL: no room */
ngx_http_agentstream_chat_node_t *ngx_http_agentstream_zone_open_chat_locked(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);
/* whether it has an owner that lives */
ngx_uint_t ngx_http_agentstream_zone_served_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat);
/* this worker becomes its owner, or leaves it */
void ngx_http_agentstream_zone_own_chat_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat,
    ngx_uint_t only_inbox);
void ngx_http_agentstream_zone_leave_chat_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat);
/* must be called whenever its owner, its entries or "busy" have changed */
void ngx_http_agentstream_zone_rank_chat_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat);
/* NGX_ERROR: no room, and the old place is kept */
ngx_int_t ngx_http_agentstream_zone_place_chat_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat,
    ngx_str_t *place);

/* names that the platform may use again, as hashes; 0: none.  Whether one of
   them was used before; remembers them */
ngx_uint_t ngx_http_agentstream_zone_seen_locked(
    ngx_http_agentstream_chat_node_t *chat, uint64_t *hashes, ngx_uint_t n);
void ngx_http_agentstream_zone_see_locked(
    ngx_http_agentstream_chat_node_t *chat, uint64_t *hashes, ngx_uint_t n);

/* adds an entry with two names to the inbox; NULL: no room */
ngx_http_agentstream_entry_t *ngx_http_agentstream_zone_enter_chat_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat,
    ngx_str_t *text, uint64_t *hashes);
void ngx_http_agentstream_zone_remove_entry_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *chat,
    uint64_t number);

/* frees the chat that was not used for the longest time; NGX_DECLINED: all
   are in use */
ngx_int_t ngx_http_agentstream_zone_yield_chat_locked(
    ngx_http_agentstream_zone_t *zone);
/* frees chats that were not used for long, a few at a time */
void ngx_http_agentstream_zone_expire_chats_locked(
    ngx_http_agentstream_zone_t *zone);


#endif /* _NGX_HTTP_AGENTSTREAM_ZONE_H_INCLUDED_ */
