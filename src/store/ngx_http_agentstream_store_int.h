
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_store.h"
#include "ngx_http_agentstream_zone.h"


/*
 * Declarations that only the files of store use: verbs that begin and end
 * something (store), verbs of a turn's owner (store_owner), verbs of everybody
 * else (store_read), and answers that are given later (store_later); and what
 * remote does for them.
 */


typedef enum {
    NGX_HTTP_AGENTSTREAM_LATER_CREATE = 0,
    NGX_HTTP_AGENTSTREAM_LATER_CLAIM,
    NGX_HTTP_AGENTSTREAM_LATER_PROMPT,
    NGX_HTTP_AGENTSTREAM_LATER_SHOW,
    NGX_HTTP_AGENTSTREAM_LATER_ASK,
    NGX_HTTP_AGENTSTREAM_LATER_FINISH
} ngx_http_agentstream_later_e;


/* the id of a turn, to where there is room for it */
#define ngx_http_agentstream_store_name_locked(node, name)                    \
    (name)->len = (node)->sn.str.len;                                         \
    ngx_memcpy((name)->data, (node)->sn.str.data, (node)->sn.str.len)


/*
 * What a store of several machines does.  The zone has made everything that it
 * can decide by itself before it calls these.
 */

struct ngx_http_agentstream_store_remote_s {
    /* the node was made, and is pending; store_made() or store_unmade() must
       follow.  NGX_ABORT: the store cannot be reached */
    ngx_int_t  (*create)(ngx_http_agentstream_zone_t *zone,
                         ngx_http_agentstream_store_create_t *args,
                         ngx_http_agentstream_node_t *node,
                         ngx_http_agentstream_store_created_t *created,
                         ngx_http_agentstream_later_t *later);
    /* a turn of another machine, which is dead */
    ngx_int_t  (*claim)(ngx_http_agentstream_zone_t *zone, ngx_str_t *turn,
                        ngx_http_agentstream_node_t **node,
                        ngx_http_agentstream_later_t *later);
    /* this worker has taken it over from another worker of this machine */
    void       (*own)(ngx_http_agentstream_zone_t *zone,
                      ngx_http_agentstream_node_t *node);
    /* something in the node has changed that others must know */
    void       (*change)(ngx_http_agentstream_zone_t *zone,
                         ngx_http_agentstream_node_t *node);
    ngx_int_t  (*prompting)(ngx_http_agentstream_zone_t *zone,
                            ngx_http_agentstream_node_t *node,
                            ngx_http_agentstream_later_t *later);
    ngx_int_t  (*show)(ngx_http_agentstream_zone_t *zone,
                       ngx_http_agentstream_node_t *node,
                       ngx_http_agentstream_later_t *later);
    /* answers show() with NGX_ABORT if another machine has the turn */
    void       (*check)(ngx_http_agentstream_zone_t *zone,
                        ngx_http_agentstream_node_t *node,
                        ngx_http_agentstream_later_t *later);
    ngx_int_t  (*finish)(ngx_http_agentstream_zone_t *zone,
                         ngx_http_agentstream_node_t *node,
                         ngx_http_agentstream_store_end_t *end,
                         ngx_http_agentstream_later_t *later);
    void       (*cancel)(ngx_http_agentstream_later_t *later);
    ngx_uint_t (*mine)(ngx_http_agentstream_zone_t *zone,
                       ngx_http_agentstream_node_t *node);
    /* whether somebody reads it on another machine; watched: or here */
    ngx_uint_t (*viewed)(ngx_http_agentstream_zone_t *zone,
                         ngx_http_agentstream_node_t *node,
                         ngx_uint_t watched);
    void       (*interrupt)(ngx_http_agentstream_zone_t *zone,
                            ngx_str_t *key);
    /* what: "in", "first" or "out" */
    void       (*queue)(ngx_http_agentstream_zone_t *zone, ngx_str_t *key,
                        ngx_http_agentstream_ticket_t *ticket,
                        const char *what);
    ngx_int_t  (*watch)(ngx_http_agentstream_zone_t *zone,
                        ngx_http_agentstream_store_watch_t *watch,
                        ngx_str_t *key, ngx_str_t *turn, ngx_uint_t follow,
                        ngx_http_agentstream_later_t *later);
    void       (*unwatch)(ngx_http_agentstream_store_watch_t *watch);
    /* whether it is the newest one of all machines, as far as is known; not if
       Redis is away */
    ngx_uint_t (*newest)(ngx_http_agentstream_zone_t *zone, ngx_str_t *key,
                         ngx_str_t *turn);
    /* the worker that copied this turn of the session is dead */
    void       (*copy)(ngx_http_agentstream_zone_t *zone, ngx_str_t *key,
                       ngx_str_t *turn);

    /* chats: whether they are in the zone, because Redis is away; what the
       verbs of store_chat.h do otherwise */
    ngx_uint_t (*chat_local)(ngx_http_agentstream_zone_t *zone);
    ngx_int_t  (*chat_post)(ngx_http_agentstream_zone_t *zone,
                            ngx_http_agentstream_store_chat_post_t *post,
                            uint64_t *hashes,
                            ngx_http_agentstream_later_t *later);
    ngx_int_t  (*chat_claim)(ngx_http_agentstream_zone_t *zone,
                             ngx_str_t *key,
                             ngx_http_agentstream_store_chat_claim_t *claim,
                             ngx_http_agentstream_later_t *later);
    /* puts what is in the zone into Redis; this worker is the owner, until it
       is done */
    void       (*chat_forward)(ngx_http_agentstream_zone_t *zone,
                               ngx_http_agentstream_chat_node_t *node);
    void       (*chat_cancel)(ngx_http_agentstream_zone_t *zone,
                              ngx_http_agentstream_later_t *later);
    void       (*chat_look)(ngx_http_agentstream_zone_t *zone);
    void       (*chat_save)(ngx_http_agentstream_chat_node_t *node,
                            void *state, size_t size, ngx_uint_t busy,
                            uint64_t number);
    ngx_uint_t (*chat_saved)(ngx_http_agentstream_chat_node_t *node);
    ngx_uint_t (*chat_mine)(ngx_http_agentstream_chat_node_t *node);
    void       (*chat_leave)(ngx_http_agentstream_chat_node_t *node,
                              ngx_uint_t force);
    /* number of machines that have chats, at least 1 */
    ngx_uint_t (*chat_machines)(ngx_http_agentstream_zone_t *zone);
};

/* the turn may begin; it may not, and is freed */
void ngx_http_agentstream_store_made(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_uint_t unsure, uint64_t rank,
    ngx_http_agentstream_store_created_t *created);
void ngx_http_agentstream_store_unmade(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *other,
    ngx_http_agentstream_store_created_t *created);


/* the work of store_show() and store_finish(), when the answer is known */
void ngx_http_agentstream_store_shown(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node);
void ngx_http_agentstream_store_finished(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_store_end_t *end);


#if (NGX_HTTP_AGENTSTREAM_LATER)

void ngx_http_agentstream_store_open_later(ngx_http_agentstream_zone_t *zone);
void ngx_http_agentstream_store_init_later(ngx_http_agentstream_zone_t *zone);

/* the verb has done its work, with the result rc, or does it when it is
   answered (SHOW, FINISH): the caller is told later */
ngx_int_t ngx_http_agentstream_store_later(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_later_t *later, ngx_int_t rc,
    ngx_http_agentstream_node_t *node, ngx_uint_t verb);

#else

#define ngx_http_agentstream_store_open_later(zone)
#define ngx_http_agentstream_store_init_later(zone)
#define ngx_http_agentstream_store_later(zone, later, rc, node, verb)  (rc)

#endif


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_INT_H_INCLUDED_ */
