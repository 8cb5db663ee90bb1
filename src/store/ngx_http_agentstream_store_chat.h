
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_CHAT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_CHAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_store.h"


/*
 * Chats in the zone.  A chat has an inbox, into which any worker puts what a
 * platform has sent, before the platform is told that it has arrived; and an
 * owner, the worker that serves it.  The owner takes the entries out when they
 * are dealt with, and saves what its successor must know.  If the owner dies,
 * any other worker can claim the chat.
 *
 * In a store of several machines chats are in Redis instead, and the owner is
 * one worker of all machines.  Then verbs are answered later, what is saved is
 * stored after a while, and an owner can lose its chat.
 *
 * As in store.h, each verb takes the lock itself.  The owner has a handle from
 * store_chat_claim() until store_chat_leave(), or until it is told that the
 * chat is lost.
 */


/* what the owner saves, at most */
#define NGX_HTTP_AGENTSTREAM_CHAT_STATE_SIZE  1152

/* an inbox has so many entries at most, each not larger than this */
#define NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES     64
#define NGX_HTTP_AGENTSTREAM_CHAT_ENTRY_SIZE  262144


/* the most buckets that one send is taken out of */
#define NGX_HTTP_AGENTSTREAM_CHAT_RATES       2


/* the owner's handle of a chat; opaque */
typedef struct ngx_http_agentstream_chat_node_s
    ngx_http_agentstream_chat_node_t;


/* what a platform has sent */

typedef struct {
    ngx_str_t                            key;      /* of the chat */
    ngx_str_t                            place;    /* what a worker needs to
                                                      serve the chat; replaces
                                                      what was kept before */
    ngx_str_t                            ids[2];   /* the names under which the
                                                      platform may send it
                                                      again; may be empty */
    ngx_str_t                            entry;
} ngx_http_agentstream_store_chat_post_t;

/* NGX_OK: it is in the inbox; NGX_DECLINED: it was posted before; NGX_BUSY:
   the inbox is full; NGX_ABORT: the entry is too large; NGX_ERROR: there is no
   room, or the store cannot be reached; NGX_AGAIN: later */
ngx_int_t ngx_http_agentstream_store_chat_post(
    ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_chat_post_t *post,
    ngx_http_agentstream_later_t *later);


/* how a worker becomes an owner; part of its owner */

/* the state was saved by a process with the same clock */
#define NGX_HTTP_AGENTSTREAM_CHAT_SAME_CLOCK  ((ngx_msec_t) -1)

typedef struct {
    ngx_pool_t                          *pool;
    ngx_str_t                            create;   /* the place of a chat that
                                                      is to be made if it is
                                                      not there; empty: it is
                                                      not made */
    void                                *state;    /* room for the state */
    size_t                               size;

    /* of an owner: NGX_OK: there may be new entries, or more was stored;
       NGX_ABORT: another machine has the chat, and the handle is gone */
    ngx_http_agentstream_later_pt        handler;
    void                                *data;

    /* results */
    ngx_http_agentstream_chat_node_t    *node;
    ngx_str_t                            place;    /* in the pool */
    ngx_uint_t                           others;   /* the state may be older
                                                      than what was done while
                                                      Redis was away */
    ngx_msec_t                           age;      /* time since the state was
                                                      saved, or SAME_CLOCK */
} ngx_http_agentstream_store_chat_claim_t;

/*
 * Makes this worker the owner.  NGX_OK: place and state are those that were
 * kept; the state of a new chat is zeroes.  NGX_DECLINED: there is no such
 * chat, or it has an owner, perhaps this worker.  NGX_ERROR: no memory.
 * NGX_AGAIN: later.
 */
ngx_int_t ngx_http_agentstream_store_chat_claim(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key,
    ngx_http_agentstream_store_chat_claim_t *claim,
    ngx_http_agentstream_later_t *later);

/* whoever asked does not wait any more: what is posted may stay, and what is
   claimed is left again */
void ngx_http_agentstream_store_chat_cancel(
    ngx_http_agentstream_later_t *later);

/*
 * The next chat in the zone after *key, from an empty one on, that has work
 * left and no owner, or one that is dead; *key has room for size bytes.
 * NGX_AGAIN: call it again, a few chats were looked at; NGX_DECLINED: there are
 * no more.
 */
ngx_int_t ngx_http_agentstream_store_chat_orphan(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, size_t size);

/* the same for the chats of all machines: the handler is called for each, and
   also when one was left with work; must be called once a second */
typedef void (*ngx_http_agentstream_store_chat_pt)(ngx_str_t *key);

void ngx_http_agentstream_store_chat_listen(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_chat_pt handler);
void ngx_http_agentstream_store_chat_look(ngx_http_agentstream_zone_t *zone);


/* Verbs of the owner */

typedef struct {
    uint64_t                             number;   /* ascends within a chat */
    ngx_str_t                            entry;
} ngx_http_agentstream_store_chat_entry_t;

/* the oldest entry with a higher number, in the pool; NGX_DECLINED: none,
   NGX_ERROR: no memory in the pool */
ngx_int_t ngx_http_agentstream_store_chat_next(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *node,
    uint64_t number, ngx_pool_t *pool,
    ngx_http_agentstream_store_chat_entry_t *entry);

/* saves the state and, unless number is 0, takes that entry out, both in one
   step.  busy: there is work left, entries or not, that a successor must do */
void ngx_http_agentstream_store_chat_save(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *node, void *state, size_t size,
    ngx_uint_t busy, uint64_t number);

/* whether a successor would find what was saved last; if not, the owner is
   told when it would */
ngx_uint_t ngx_http_agentstream_store_chat_saved(
    ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *node);

/* whether the chat is certainly this worker's now: only then may it do
   anything that others see */
ngx_uint_t ngx_http_agentstream_store_chat_mine(
    ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_chat_node_t *node);

/* NGX_OK: the chat has no owner any more, and the handle is gone;
   NGX_DECLINED: an entry has come in the meantime, and force is not set */
ngx_int_t ngx_http_agentstream_store_chat_leave(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_chat_node_t *node,
    ngx_uint_t force);


/* Verbs of everybody */

/* a bucket of sends that all workers have together: burst of them, which come
   back one by one, each after interval */

typedef struct {
    ngx_str_t                            key;
    ngx_msec_t                           interval;
    ngx_uint_t                           burst;
    ngx_uint_t                           spare;    /* so many are left for
                                                      others */
    ngx_uint_t                           shared;   /* machines that have chats
                                                      divide it among them */
} ngx_http_agentstream_store_chat_rate_t;

typedef enum {
    NGX_HTTP_AGENTSTREAM_SPEND_NOW = 0,        /* if it can be sent now */
    NGX_HTTP_AGENTSTREAM_SPEND_ORDERED,        /* in any case: it can be sent
                                                  after the wait, without
                                                  another try */
    NGX_HTTP_AGENTSTREAM_SPEND_NOTHING         /* how long it would take */
} ngx_http_agentstream_store_chat_spend_e;

/* takes a send out of each of n buckets, or out of none; 0: it can be sent now,
   otherwise the time to wait */
ngx_msec_t ngx_http_agentstream_store_chat_spend(
    ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_chat_rate_t *rates, ngx_uint_t n,
    ngx_http_agentstream_store_chat_spend_e how);

/* whether this was not asked for "every", by any worker; never, if too many
   other things were */
ngx_uint_t ngx_http_agentstream_store_chat_rare(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_msec_t every);

/* what is remembered of the name of an update; 0: it is empty */
uint64_t ngx_http_agentstream_store_chat_hash(ngx_str_t *id);


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_CHAT_H_INCLUDED_ */
