
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REMOTE_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REMOTE_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_journal_int.h"
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_remote.h"
#include "ngx_http_agentstream_store_int.h"


/*
 * Declarations that only the files of remote use: the connections and the
 * lease of this worker (remote), the turns of this worker (remote_turn), what
 * of them is stored (remote_put), and whether replicas have it, too
 * (remote_replica), how they begin and are taken over (remote_claim), those
 * that have just ended (remote_ended), the places in queues (remote_queue), the
 * sessions that somebody here looks at (remote_session), the turns of other
 * machines (remote_mirror) and their records (remote_copy), the chats of this
 * worker (remote_chat), what is stored of them (remote_chat_put), what is done
 * to those of others (remote_chat_post), the scripts (remote_script).
 */


/* a worker whose lease is over is dead for the other machines */
#define NGX_HTTP_AGENTSTREAM_LEASE         6000
#define NGX_HTTP_AGENTSTREAM_LEASE_RENEW   2000

#define NGX_HTTP_AGENTSTREAM_REMOTE_TICK   500

/* readers see what Redis has not acknowledged after this time */
#define NGX_HTTP_AGENTSTREAM_SILENCE       250

/* an answer that takes longer shows that Redis was away */
#define NGX_HTTP_AGENTSTREAM_SLOW          1500

/* seconds after which Redis forgets a chat that is not used: as long as
   Telegram sends an update again */
#define NGX_HTTP_AGENTSTREAM_CHAT_TTL      86400

/* seconds after which Redis forgets a running turn without an owner, and time
   in ms after which its owner renews that */
#define NGX_HTTP_AGENTSTREAM_RUNNING_TTL   300
#define NGX_HTTP_AGENTSTREAM_TOUCH         10000

/* how long a prompt waits for Redis */
#define NGX_HTTP_AGENTSTREAM_PROMPT_WAIT   5000


typedef enum {
    NGX_HTTP_AGENTSTREAM_SCRIPT_LEASE = 0,
    NGX_HTTP_AGENTSTREAM_SCRIPT_CREATE,
    NGX_HTTP_AGENTSTREAM_SCRIPT_PUT,
    NGX_HTTP_AGENTSTREAM_SCRIPT_RESTORE,
    NGX_HTTP_AGENTSTREAM_SCRIPT_CLAIM,
    NGX_HTTP_AGENTSTREAM_SCRIPT_UNDO,
    NGX_HTTP_AGENTSTREAM_SCRIPT_LOOK,
    NGX_HTTP_AGENTSTREAM_SCRIPT_INTERRUPT,
    NGX_HTTP_AGENTSTREAM_SCRIPT_QUEUE,
    NGX_HTTP_AGENTSTREAM_SCRIPT_POST,
    NGX_HTTP_AGENTSTREAM_SCRIPT_TAKE,
    NGX_HTTP_AGENTSTREAM_SCRIPT_SAVE,
    NGX_HTTP_AGENTSTREAM_SCRIPT_MEND,
    NGX_HTTP_AGENTSTREAM_SCRIPT_SEEK,

    NGX_HTTP_AGENTSTREAM_SCRIPTS
} ngx_http_agentstream_script_e;

extern ngx_str_t  ngx_http_agentstream_scripts[];


typedef struct ngx_http_agentstream_remote_s  ngx_http_agentstream_remote_t;


/*
 * A turn of this worker, on the heap.  It says what Redis has of the turn and
 * what it does not have yet, so that after an outage everything is sent that
 * is missing.  It can outlive its node: the end of a turn must reach Redis.
 */

typedef struct {
    ngx_queue_t                          queue;
    ngx_http_agentstream_remote_t       *remote;
    ngx_http_agentstream_node_t         *node;     /* NULL: it has ended here */
    ngx_str_t                            base;     /* of its keys */
    ngx_str_t                            id;
    ngx_str_t                            request_id;

    uint32_t                             epoch;
    uint64_t                             acked;    /* Redis has the records up
                                                      to this one */
    uint64_t                             sent;
    uint64_t                             last;     /* when it ended */
    ngx_http_agentstream_cursor_t        cursor;
    ngx_msec_t                           sent_at;
    ngx_msec_t                           prompt_at;
    ngx_msec_t                           touched;
    ngx_msec_t                           renewed;  /* when its time to live in
                                                      Redis was; 0: never */
    ngx_msec_t                           heard;    /* last answer */
    ngx_uint_t                           emptied;  /* the remote's, then */
    uint64_t                             kept;     /* the oldest record that
                                                      Redis has, at the
                                                      least */

    ngx_str_t                            end;      /* stop reason */
    ngx_uint_t                           end_unsure;
    u_char                               end_data[16];
    uint32_t                             packets;
    uint32_t                             tool_kinds;

    ngx_http_agentstream_later_t        *creating;
    ngx_http_agentstream_later_t        *claiming;
    ngx_http_agentstream_later_t        *prompting;
    ngx_http_agentstream_later_t        *showing;
    ngx_http_agentstream_later_t        *finishing;
    ngx_http_agentstream_store_created_t
                                        *created;
    ngx_http_agentstream_node_t        **claimed;
    ngx_http_agentstream_store_end_t    *store_end;

    /* while somebody waits for the turn that is in the way */
    ngx_http_agentstream_store_watch_t   watch;
    ngx_http_agentstream_later_t         looking;
    ngx_int_t                            rc;

    ngx_event_t                          answer;

    unsigned                             live:1;   /* Redis has it */
    unsigned                             taking:1; /* it was another worker's
                                                      of this machine */
    unsigned                             owned:1;  /* under this worker's
                                                      name */
    unsigned                             inflight:1;
    unsigned                             prompt:1; /* to be stored */
    unsigned                             prompted:1;   /* it is stored */
    unsigned                             prompt_sent:1;
    unsigned                             replicating:1; /* the prompt waits for
                                                           a replica */
    unsigned                             changed:1;
    unsigned                             touch:1;
    unsigned                             ended:1;  /* its end is to be
                                                      stored */
    unsigned                             end_sent:1;
    unsigned                             done:1;   /* its end is stored */
    unsigned                             again:1;  /* it was stored before */
    unsigned                             shown:1;  /* readers see more */
    unsigned                             fenced:1;
    unsigned                             lost:1;   /* Redis does not know it,
                                                      and nobody will store it
                                                      again */
    unsigned                             failed:1; /* Redis refused the last
                                                      command */
    unsigned                             alone:1;  /* nobody reads it on
                                                      another machine, as was
                                                      asked after the last
                                                      reader here had left */
    unsigned                             asked:1;
    unsigned                             whole:1;  /* the command on its way
                                                      renews its time, and
                                                      asks that */
    unsigned                             dead:1;
    unsigned                             undoing:1;    /* Redis is being told
                                                          that it is dead */
} ngx_http_agentstream_remote_turn_t;


/* a session that somebody in this worker looks at, on the heap */

typedef struct {
    ngx_str_node_t                       sn;       /* by its key */
    ngx_queue_t                          queue;
    ngx_http_agentstream_remote_t       *remote;
    ngx_str_t                            base;     /* of its keys */
    ngx_str_t                            session;  /* its id */
    ngx_queue_t                          watches;
    ngx_queue_t                          mirrors;
    ngx_uint_t                           refs;     /* answers to come */
    ngx_uint_t                           fetches;  /* of them, records */
    ngx_msec_t                           used;     /* when the last watch
                                                      left */
    ngx_str_t                            newest;   /* turn, as Redis said;
                                                      empty: it knows none */
    u_char                               newest_data[
                                      NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    unsigned                             looking:1;
    unsigned                             again:1;
} ngx_http_agentstream_remote_session_t;


/* a turn of another machine, which is copied here */

typedef struct {
    ngx_queue_t                          queue;
    ngx_str_t                            id;
    u_char                               id_data[
                                      NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    uint64_t                             last;     /* that Redis has */
    ngx_uint_t                           end;      /* it has ended */
    ngx_msec_t                           missing;  /* since when Redis does not
                                                      know it; 0: it does */
    ngx_str_t                            stop_reason;
    u_char                               stop_data[16];
    unsigned                             fetching:1;
    unsigned                             lost:1;   /* its owner has given it up:
                                                      if Redis does not know it,
                                                      nobody will store it
                                                      again */
    unsigned                             empty:1;  /* the last answer had no
                                                      records */
} ngx_http_agentstream_remote_mirror_t;


/*
 * A chat of this worker, on the heap, with what Redis has of it and what it
 * does not have yet.  It outlives its owner's interest: what was saved, and
 * that the chat was left, must reach Redis.
 */

typedef struct {
    ngx_str_node_t                       sn;       /* by its key, unless it is
                                                      being left */
    ngx_queue_t                          queue;
    ngx_http_agentstream_remote_t       *remote;
    ngx_http_agentstream_chat_node_t    *node;     /* the owner's handle */
    ngx_str_t                            base;     /* of its keys */
    ngx_str_t                            place;
    ngx_http_agentstream_store_chat_claim_t
                                        *claim;
    ngx_http_agentstream_later_t        *claiming;
    ngx_http_agentstream_later_pt        handler;  /* NULL: being left */
    void                                *data;

    uint64_t                             epoch;
    uint64_t                             born;     /* when it was made, by the
                                                      clock of Redis */
    ngx_uint_t                           version;  /* of what was saved */
    ngx_uint_t                           sent;     /* on its way to Redis */
    ngx_uint_t                           acked;    /* Redis has it */
    uint64_t                             removed[
                                           NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES];
    ngx_uint_t                           nremoved; /* entries to be taken
                                                      out */
    ngx_uint_t                           nsent;    /* of them, on the way */
    size_t                               size;     /* of the state */
    ngx_uint_t                           term;     /* in which Redis has said
                                                      that the chat is ours */
    ngx_msec_t                           heard;    /* when it has, last */

    unsigned                             live:1;   /* it was claimed */
    unsigned                             inflight:1;
    unsigned                             ask:1;    /* there may be entries, or
                                                      another owner */
    unsigned                             made:1;   /* by its owner */
    unsigned                             forced:1; /* it was left with work that
                                                      could not be done here
                                                      now */
    unsigned                             leaving:1;
    unsigned                             left:1;   /* Redis is being told */
    unsigned                             mending:1;    /* it gets the chat
                                                          again, with another
                                                          epoch */
} ngx_http_agentstream_remote_chat_t;


/*
 * Numbers of entries.  Between two that Redis has given there is room for those
 * of entries that come while it is away, which stay in the zone: what comes
 * later has a higher number, wherever it is.
 */

#define ngx_http_agentstream_remote_number(number)  ((number) >> 32)
#define ngx_http_agentstream_local_number(number)   ((number) << 32)


/* something that is being put into an inbox, on the heap */

typedef struct {
    ngx_queue_t                          queue;
    ngx_http_agentstream_remote_t       *remote;
    ngx_str_t                            key;
    ngx_http_agentstream_later_t        *later;    /* NULL: cancelled */
    ngx_http_agentstream_chat_node_t    *node;     /* of an entry in the zone,
                                                      which has this number */
    uint64_t                             number;
} ngx_http_agentstream_remote_post_t;


/* the chats of this worker */

typedef struct {
    ngx_queue_t                          chats;
    ngx_rbtree_t                         tree;
    ngx_rbtree_node_t                    sentinel;
    ngx_queue_t                          posts;
    ngx_uint_t                           term;     /* ascends each time when
                                                      our lease may have
                                                      ended */
    ngx_uint_t                           machines; /* that have chats */
    ngx_uint_t                           seeking;
} ngx_http_agentstream_remote_chats_t;


struct ngx_http_agentstream_remote_s {
    ngx_http_agentstream_zone_t         *zone;
    ngx_http_agentstream_redis_conf_t   *conf;
    ngx_uint_t                           local;    /* without Redis turns begin
                                                      as on one machine */
    ngx_log_t                           *log;

    ngx_http_agentstream_redis_find_t    find;
    ngx_http_agentstream_redis_t         commands;
    ngx_http_agentstream_redis_t         messages;

    ngx_str_t                            sha[NGX_HTTP_AGENTSTREAM_SCRIPTS];
    u_char                               sha_data[
                                         NGX_HTTP_AGENTSTREAM_SCRIPTS][40];
    ngx_uint_t                           loading;  /* scripts to be loaded */
    ngx_uint_t                           up;       /* Redis can be used */
    ngx_uint_t                           replicated;   /* a replica follows
                                                          it */
    int64_t                              offset;   /* what it had when replicas
                                                      were asked for */
    ngx_msec_t                           steady;   /* since when it answers in
                                                      time */
    ngx_msec_t                           lease;    /* end of our lease */
    ngx_msec_t                           renewed;  /* when it was asked for */
    ngx_uint_t                           renewing;
    ngx_uint_t                           leased;   /* it is not over, as far as
                                                      we have noticed */

    ngx_event_t                          tick;
    ngx_event_t                          silence;

    ngx_str_t                            owner;    /* our name */
    u_char                               owner_data[64];

    ngx_str_t                            data;     /* a name for what is in
                                                      Redis: it changes when
                                                      Redis is emptied */
    u_char                               data_name[32];
    ngx_uint_t                           emptied;  /* how often that was
                                                      seen */

    uint64_t                             tickets;  /* number of the last one */
    ngx_queue_t                          left;     /* places in queues that
                                                      were left */

    ngx_queue_t                          turns;
    ngx_queue_t                          ended;    /* turns whose end Redis has
                                                      got a moment ago */
    ngx_uint_t                           nended;
    ngx_http_agentstream_remote_chats_t  chats;
    ngx_queue_t                          sessions;
    ngx_rbtree_t                         tree;     /* of the sessions */
    ngx_rbtree_node_t                    sentinel;
};


#define ngx_http_agentstream_remote_of(zone)                                  \
    ((ngx_http_agentstream_remote_t *) (zone)->remote_data)

/* calls the handler of a verb that was answered later */
#define ngx_http_agentstream_remote_answer(later_, rc_)                       \
    do {                                                                      \
        ngx_http_agentstream_later_t  *l_ = (later_);                         \
        (later_) = NULL;                                                      \
        l_->zone = NULL;                                                      \
        l_->handler(l_->data, rc_);                                           \
    } while (0)

#define ngx_http_agentstream_remote_wait(later_, zone_, node_, verb_)         \
    (later_)->zone = (zone_);                                                 \
    (later_)->node = (node_);                                                 \
    (later_)->verb = (verb_);                                                 \
    ngx_queue_init(&(later_)->queue)


/* runs a script; NGX_ERROR: Redis is away, and the handler is not called */
ngx_int_t ngx_http_agentstream_remote_eval(
    ngx_http_agentstream_remote_t *remote, ngx_uint_t script, ngx_uint_t argc,
    ngx_str_t *argv, ngx_http_agentstream_redis_pt handler, void *data);
/* an answer for which nobody waits */
void ngx_http_agentstream_remote_ignore(void *data, redisReply *reply);
/* whether another worker can be taken for dead now */
ngx_uint_t ngx_http_agentstream_remote_steady(
    ngx_http_agentstream_remote_t *remote);
/* the base of a session's keys, on the heap */
ngx_int_t ngx_http_agentstream_remote_base(ngx_str_t *base, ngx_str_t *key,
    ngx_log_t *log);


/* places in queues: "in", "first" or "out" */

void ngx_http_agentstream_remote_queue(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_http_agentstream_ticket_t *ticket, const char *what);
/* writes the name of a place, of less than 128 bytes */
u_char *ngx_http_agentstream_remote_ticket(
    ngx_http_agentstream_remote_t *remote, u_char *p, uint64_t number);
/* tells Redis which places were left, as far as it does not know it */
void ngx_http_agentstream_remote_leave_again(
    ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_close_queues(
    ngx_http_agentstream_remote_t *remote);


/* turns of this worker */

ngx_http_agentstream_remote_turn_t *ngx_http_agentstream_remote_add_turn(
    ngx_http_agentstream_remote_t *remote, ngx_http_agentstream_node_t *node);
void ngx_http_agentstream_remote_free_turn(
    ngx_http_agentstream_remote_turn_t *rt);
/* an end that Redis has acknowledged, in case that it forgets it */
void ngx_http_agentstream_remote_keep_ended(
    ngx_http_agentstream_remote_turn_t *rt);
void ngx_http_agentstream_remote_tick_ended(
    ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_resume_ended(
    ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_close_ended(
    ngx_http_agentstream_remote_t *remote);
/* asks whether a replica follows Redis */
void ngx_http_agentstream_remote_replicas(
    ngx_http_agentstream_remote_t *remote, ngx_uint_t first);
/* the prompt, which is stored with the command before, waits for a replica */
void ngx_http_agentstream_remote_replicate(
    ngx_http_agentstream_remote_turn_t *rt);
/* sends what Redis does not have yet */
void ngx_http_agentstream_remote_push(ngx_http_agentstream_remote_turn_t *rt);
/* a command of the turn is on its way; readers do not wait long for it */
void ngx_http_agentstream_remote_sent(ngx_http_agentstream_remote_turn_t *rt);
/* what was not acknowledged becomes visible to readers */
void ngx_http_agentstream_remote_show_anyway(
    ngx_http_agentstream_remote_turn_t *rt);
void ngx_http_agentstream_remote_away(ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_back(ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_silence_handler(ngx_event_t *ev);
/* all: those of which it was told a moment ago, too */
void ngx_http_agentstream_remote_touch(ngx_http_agentstream_remote_t *remote,
    ngx_uint_t all);
void ngx_http_agentstream_remote_tick_turns(
    ngx_http_agentstream_remote_t *remote);
/* somebody wants to end one of our turns */
void ngx_http_agentstream_remote_interrupted(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *id);
void ngx_http_agentstream_remote_take(ngx_http_agentstream_remote_turn_t *rt);
void ngx_http_agentstream_remote_undo(ngx_http_agentstream_remote_turn_t *rt);

void ngx_http_agentstream_remote_change(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);
ngx_int_t ngx_http_agentstream_remote_create(
    ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_create_t *args,
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_store_created_t *created,
    ngx_http_agentstream_later_t *later);
ngx_int_t ngx_http_agentstream_remote_claim(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_http_agentstream_node_t **node,
    ngx_http_agentstream_later_t *later);
void ngx_http_agentstream_remote_own(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);
ngx_int_t ngx_http_agentstream_remote_prompting(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_later_t *later);
ngx_int_t ngx_http_agentstream_remote_show(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later);
void ngx_http_agentstream_remote_check(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later);
ngx_int_t ngx_http_agentstream_remote_finish(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_store_end_t *end,
    ngx_http_agentstream_later_t *later);
void ngx_http_agentstream_remote_cancel(ngx_http_agentstream_later_t *later);
ngx_uint_t ngx_http_agentstream_remote_mine(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);
ngx_uint_t ngx_http_agentstream_remote_viewed(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_uint_t watched);


/* chats */

void ngx_http_agentstream_remote_init_chats(
    ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_close_chats(
    ngx_http_agentstream_remote_t *remote);
/* the lease was renewed; Redis is back; from time to time */
void ngx_http_agentstream_remote_renew_chats(
    ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_back_chats(
    ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_tick_chats(
    ngx_http_agentstream_remote_t *remote);
/* others may have taken our chats over */
void ngx_http_agentstream_remote_doubt_chats(
    ngx_http_agentstream_remote_t *remote);
/* messages may have been missed, or Redis may have lost chats */
void ngx_http_agentstream_remote_ask_chats(
    ngx_http_agentstream_remote_t *remote);
/* this worker's chat has a new entry */
void ngx_http_agentstream_remote_chat_entered(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *key);
ngx_http_agentstream_remote_chat_t *ngx_http_agentstream_remote_find_chat(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *key);
void ngx_http_agentstream_remote_free_chat(
    ngx_http_agentstream_remote_chat_t *chat);
/* it is not found any more */
void ngx_http_agentstream_remote_hide_chat(
    ngx_http_agentstream_remote_chat_t *chat);
/* copies entries from the reply, from this element on */
void ngx_http_agentstream_remote_enter_chat(
    ngx_http_agentstream_remote_chat_t *chat, redisReply *reply,
    ngx_uint_t i);
/* sends what Redis does not have */
void ngx_http_agentstream_remote_push_chat(
    ngx_http_agentstream_remote_chat_t *chat);
/* whoever serves chats is told of one that nobody serves */
void ngx_http_agentstream_remote_offer_chat(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *key);

ngx_uint_t ngx_http_agentstream_remote_chat_local(
    ngx_http_agentstream_zone_t *zone);
ngx_int_t ngx_http_agentstream_remote_chat_post(
    ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_chat_post_t *post, uint64_t *hashes,
    ngx_http_agentstream_later_t *later);
ngx_int_t ngx_http_agentstream_remote_chat_claim(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key,
    ngx_http_agentstream_store_chat_claim_t *claim,
    ngx_http_agentstream_later_t *later);
void ngx_http_agentstream_remote_chat_forward(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *node);
void ngx_http_agentstream_remote_chat_cancel(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_later_t *later);
void ngx_http_agentstream_remote_chat_look(ngx_http_agentstream_zone_t *zone);
void ngx_http_agentstream_remote_chat_save(
    ngx_http_agentstream_chat_node_t *node, void *state, size_t size,
    ngx_uint_t busy, uint64_t number);
ngx_uint_t ngx_http_agentstream_remote_chat_saved(
    ngx_http_agentstream_chat_node_t *node);
ngx_uint_t ngx_http_agentstream_remote_chat_mine(
    ngx_http_agentstream_chat_node_t *node);
void ngx_http_agentstream_remote_chat_leave(
    ngx_http_agentstream_chat_node_t *node, ngx_uint_t force);
/* Redis has said how many machines have chats */
void ngx_http_agentstream_remote_count_machines(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *text);
ngx_uint_t ngx_http_agentstream_remote_chat_machines(
    ngx_http_agentstream_zone_t *zone);


/* sessions, and turns of other machines */

ngx_int_t ngx_http_agentstream_remote_watch(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_watch_t *watch, ngx_str_t *key,
    ngx_str_t *turn, ngx_uint_t follow, ngx_http_agentstream_later_t *later);
void ngx_http_agentstream_remote_unwatch(
    ngx_http_agentstream_store_watch_t *watch);
ngx_uint_t ngx_http_agentstream_remote_newest(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *turn);
ngx_http_agentstream_remote_session_t *ngx_http_agentstream_remote_session(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *key);
/* asks Redis for the session's turn, and for those that somebody wants */
void ngx_http_agentstream_remote_look(
    ngx_http_agentstream_remote_session_t *rs);
/* the same, for a turn that is to be copied here, although perhaps nobody waits
   for the answer, and the session may have a newer turn */
void ngx_http_agentstream_remote_look_at(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *key, ngx_str_t *turn, ngx_uint_t lost);
void ngx_http_agentstream_remote_settle(
    ngx_http_agentstream_remote_session_t *rs);
void ngx_http_agentstream_remote_tick_sessions(
    ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_subscribe_all(
    ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_forget_looks(
    ngx_http_agentstream_remote_t *remote);
void ngx_http_agentstream_remote_message(void *data, redisReply *reply);
void ngx_http_agentstream_remote_close_sessions(
    ngx_http_agentstream_remote_t *remote);

/* what Redis says of a turn: id, runs, owner lives, fields; 1: something is
   new */
ngx_uint_t ngx_http_agentstream_remote_mirror(
    ngx_http_agentstream_remote_session_t *rs, redisReply *reply,
    ngx_uint_t unsure);
/* records that were just appended; NGX_DECLINED: they do not follow on */
ngx_int_t ngx_http_agentstream_remote_feed(
    ngx_http_agentstream_remote_session_t *rs, ngx_str_t *payload);
ngx_http_agentstream_remote_mirror_t *ngx_http_agentstream_remote_find_mirror(
    ngx_http_agentstream_remote_session_t *rs, ngx_str_t *id,
    ngx_uint_t create);
void ngx_http_agentstream_remote_free_mirror(
    ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_remote_mirror_t *mirror);
/* the turn's node, if it is a copy that this worker makes; nobody else frees
   it then */
ngx_http_agentstream_node_t *ngx_http_agentstream_remote_copied(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *id);
void ngx_http_agentstream_remote_free_mirrors(
    ngx_http_agentstream_remote_session_t *rs);
/* appends one record to the copy of a turn; NGX_ERROR: it is no record */
ngx_int_t ngx_http_agentstream_remote_append(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_str_t *packed);
/* asks for the records after the last one of the node */
ngx_int_t ngx_http_agentstream_remote_range(
    ngx_http_agentstream_remote_t *remote, ngx_str_t *base,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_redis_pt handler,
    void *data);
/* appends what was asked for; returns the number of records, NGX_ERROR: they
   do not follow on, or are none; NGX_DECLINED: there was no answer */
ngx_int_t ngx_http_agentstream_remote_ranged(
    ngx_http_agentstream_remote_t *remote, ngx_http_agentstream_node_t *node,
    redisReply *reply);
void ngx_http_agentstream_remote_wake(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *turn);


#endif /* _NGX_HTTP_AGENTSTREAM_REMOTE_INT_H_INCLUDED_ */
