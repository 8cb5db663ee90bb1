
/*
 * Copyright (C) agentstream contributors
 */


/*
 * How a turn becomes this worker's: a new one, if Redis says that no other
 * runs in its session; one of another machine that is dead; one of another
 * worker of this machine.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

static void ngx_http_agentstream_remote_create_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_not_created(
    ngx_http_agentstream_remote_turn_t *rt, ngx_int_t rc, ngx_str_t *other);
static void ngx_http_agentstream_remote_looked_handler(void *data,
    ngx_int_t rc);
static void ngx_http_agentstream_remote_undo_done(void *data,
    redisReply *reply);
static ngx_int_t ngx_http_agentstream_remote_send_claim(
    ngx_http_agentstream_remote_turn_t *rt, const char *same,
    ngx_http_agentstream_redis_pt handler);
static void ngx_http_agentstream_remote_claim_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_claim_range(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_claim_rest(
    ngx_http_agentstream_remote_turn_t *rt);
static void ngx_http_agentstream_remote_claimed(
    ngx_http_agentstream_remote_turn_t *rt);
static void ngx_http_agentstream_remote_unclaimed(
    ngx_http_agentstream_remote_turn_t *rt);
static void ngx_http_agentstream_remote_take_done(void *data,
    redisReply *reply);


ngx_int_t
ngx_http_agentstream_remote_create(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_create_t *args,
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_store_created_t *created,
    ngx_http_agentstream_later_t *later)
{
    u_char                               set[64], ticket[128];
    u_char                               ttl[NGX_INT_T_LEN];
    ngx_str_t                            argv[7], none;
    ngx_http_agentstream_remote_t       *remote;
    ngx_http_agentstream_remote_turn_t  *rt;

    remote = ngx_http_agentstream_remote_of(zone);
    rt = NULL;

    if (!remote->up) {

        if (remote->local) {
            ngx_http_agentstream_store_made(zone, node, 1, node->number,
                                            created);
            return NGX_OK;
        }

        goto failed;
    }

    rt = ngx_http_agentstream_remote_add_turn(remote, node);
    if (rt == NULL) {
        goto failed;
    }

    rt->owned = 1;

    argv[0] = rt->base;
    argv[1] = rt->id;
    argv[2] = remote->owner;
    argv[3] = rt->request_id;
    argv[4].data = ticket;
    argv[4].len = args->ticket
                  ? ngx_http_agentstream_remote_ticket(remote, ticket,
                                                       args->ticket->number)
                    - ticket
                  : 0;
    argv[5].data = set;
    argv[5].len = ngx_sprintf(set, "%uD %uD", rt->packets, rt->tool_kinds)
                  - set;
    argv[6].data = ttl;
    argv[6].len = ngx_sprintf(ttl, "%d", NGX_HTTP_AGENTSTREAM_RUNNING_TTL)
                  - ttl;

    if (ngx_http_agentstream_remote_eval(remote,
                                      NGX_HTTP_AGENTSTREAM_SCRIPT_CREATE, 7,
                                      argv,
                                      ngx_http_agentstream_remote_create_done,
                                      rt)
        != NGX_OK)
    {
        goto failed;
    }

    ngx_http_agentstream_remote_wait(later, zone, node,
                                     NGX_HTTP_AGENTSTREAM_LATER_CREATE);
    rt->creating = later;
    rt->created = created;

    return NGX_AGAIN;

failed:

    if (rt) {
        ngx_http_agentstream_remote_free_turn(rt);
    }

    ngx_str_null(&none);
    ngx_http_agentstream_store_unmade(zone, node, &none, created);

    return NGX_ABORT;
}


static void
ngx_http_agentstream_remote_create_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_turn_t *rt = data;

    ngx_str_t                       status, text;
    ngx_http_agentstream_remote_t  *remote;

    remote = rt->remote;

    if (rt->creating == NULL) {
        /* it was cancelled */
        ngx_http_agentstream_remote_undo(rt);
        return;
    }

    ngx_str_null(&text);

    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len == 0) {
        if (reply) {
            ngx_http_agentstream_zone_count(remote->zone, STORE_REFUSED, 1);

            ngx_log_error(NGX_LOG_ERR, remote->log, 0,
                          "agentstream remote: Redis refuses a new turn");
        }

        /* it may have been created: then it must not stay */

        ngx_http_agentstream_remote_not_created(rt, NGX_ABORT, &text);
        return;
    }

    text = ngx_http_agentstream_redis_item(reply, 1);

    if (status.data[0] != 'O') {
        ngx_http_agentstream_remote_not_created(rt,
                        (status.data[0] == 'B') ? NGX_BUSY : NGX_DECLINED,
                        &text);
        return;
    }

    rt->live = 1;
    rt->heard = ngx_current_msec;

    status = ngx_http_agentstream_redis_item(reply, 2);

    ngx_http_agentstream_store_made(remote->zone, rt->node,
                               text.len == 0 || text.data[0] != '0',
                               ngx_http_agentstream_redis_number(&status),
                               rt->created);

    ngx_http_agentstream_remote_answer(rt->creating, NGX_OK);
}


static void
ngx_http_agentstream_remote_not_created(ngx_http_agentstream_remote_turn_t *rt,
    ngx_int_t rc, ngx_str_t *other)
{
    ngx_str_t                      key;
    ngx_http_agentstream_later_t  *later;

    rt->node->remote = NULL;
    ngx_http_agentstream_store_unmade(rt->remote->zone, rt->node, other,
                                      rt->created);
    rt->node = NULL;
    rt->rc = rc;

    if (rc == NGX_ABORT) {
        later = rt->creating;
        rt->creating = NULL;

        ngx_http_agentstream_remote_undo(rt);
        ngx_http_agentstream_remote_answer(later, rc);
        return;
    }

    /* the turn that is in the way is copied here first, for those who want to
       read it */

    rt->creating->node = NULL;
    rt->creating->end = (ngx_http_agentstream_store_end_t *) &rt->watch;
    rt->looking.handler = ngx_http_agentstream_remote_looked_handler;
    rt->looking.data = rt;

    key.data = rt->base.data + sizeof("as1:{") - 1;
    key.len = rt->base.len - (sizeof("as1:{}:") - 1);

    if (ngx_http_agentstream_remote_watch(rt->remote->zone, &rt->watch, &key,
                                          &rt->created->other, 1,
                                          &rt->looking)
        != NGX_AGAIN)
    {
        ngx_http_agentstream_remote_looked_handler(rt, NGX_OK);
    }
}


static void
ngx_http_agentstream_remote_looked_handler(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_remote_turn_t *rt = data;

    ngx_http_agentstream_later_t  *later;

    later = rt->creating;
    rc = rt->rc;

    if (rt->watch.session) {
        ngx_http_agentstream_remote_unwatch(&rt->watch);
    }

    ngx_http_agentstream_remote_free_turn(rt);

    if (later) {
        ngx_http_agentstream_remote_answer(later, rc);
    }
}


/* a turn that may have been created in Redis, but does not exist here; if
   Redis cannot be told now, it is told when it is back, or within the next
   tick: until then no other turn begins in the session */

void
ngx_http_agentstream_remote_undo(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_str_t  argv[3];

    rt->dead = 1;
    rt->live = 0;

    argv[0] = rt->base;
    argv[1] = rt->id;
    argv[2] = rt->remote->owner;

    rt->undoing = (ngx_http_agentstream_remote_eval(rt->remote,
                                        NGX_HTTP_AGENTSTREAM_SCRIPT_UNDO, 3,
                                        argv,
                                        ngx_http_agentstream_remote_undo_done,
                                        rt)
                   == NGX_OK);
}


static void
ngx_http_agentstream_remote_undo_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_turn_t *rt = data;

    rt->undoing = 0;

    if (reply) {
        ngx_http_agentstream_remote_free_turn(rt);
    }
}


ngx_int_t
ngx_http_agentstream_remote_claim(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *turn, ngx_http_agentstream_node_t **node,
    ngx_http_agentstream_later_t *later)
{
    ngx_http_agentstream_node_t         *nd;
    ngx_http_agentstream_remote_t       *remote;
    ngx_http_agentstream_remote_turn_t  *rt;

    remote = ngx_http_agentstream_remote_of(zone);

    if (!ngx_http_agentstream_remote_steady(remote)) {
        return NGX_DECLINED;
    }

    ngx_http_agentstream_zone_lock(zone);

    nd = ngx_http_agentstream_zone_find_locked(zone, turn);

    rt = (nd && nd->mirror && nd->gone && nd->remote == NULL
          && nd->state != NGX_HTTP_AGENTSTREAM_TURN_FINISHED)
         ? ngx_http_agentstream_remote_add_turn(remote, nd) : NULL;

    if (rt) {
        /* nobody drops what is being copied */
        nd->pinned = 1;
        ngx_http_agentstream_zone_place_locked(zone, nd);
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (rt == NULL) {
        return NGX_DECLINED;
    }

    if (ngx_http_agentstream_remote_send_claim(rt, "0",
                                       ngx_http_agentstream_remote_claim_done)
        != NGX_OK)
    {
        ngx_http_agentstream_remote_unclaimed(rt);
        return NGX_DECLINED;
    }

    ngx_http_agentstream_remote_wait(later, zone, nd,
                                     NGX_HTTP_AGENTSTREAM_LATER_CLAIM);
    rt->claiming = later;
    rt->claimed = node;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_agentstream_remote_send_claim(ngx_http_agentstream_remote_turn_t *rt,
    const char *same, ngx_http_agentstream_redis_pt handler)
{
    u_char     epoch[NGX_INT64_LEN], have[NGX_INT64_LEN];
    ngx_str_t  argv[6];

    argv[0] = rt->base;
    argv[1] = rt->id;
    argv[2].data = epoch;
    argv[2].len = ngx_sprintf(epoch, "%uD", rt->epoch) - epoch;
    argv[3] = rt->remote->owner;
    argv[4].data = (u_char *) same;
    argv[4].len = 1;
    argv[5].data = have;
    argv[5].len = ngx_sprintf(have, "%uL", rt->node
                                           ? rt->node->journal.last_seq
                                           : rt->last)
                  - have;

    return ngx_http_agentstream_remote_eval(rt->remote,
                                       NGX_HTTP_AGENTSTREAM_SCRIPT_CLAIM, 6,
                                       argv, handler, rt);
}


static void
ngx_http_agentstream_remote_claim_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_turn_t *rt = data;

    ngx_str_t  status, epoch, last;

    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len == 0 || status.data[0] != 'O') {
        /* somebody else was faster, or Redis is away */
        ngx_http_agentstream_remote_unclaimed(rt);
        return;
    }

    epoch = ngx_http_agentstream_redis_item(reply, 1);
    last = ngx_http_agentstream_redis_item(reply, 2);

    rt->owned = 1;
    rt->epoch = ngx_http_agentstream_redis_number(&epoch);
    rt->last = ngx_http_agentstream_redis_number(&last);

    ngx_http_agentstream_remote_claim_rest(rt);
}


static void
ngx_http_agentstream_remote_claim_range(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_turn_t *rt = data;

    ngx_int_t  rc;

    rc = ngx_http_agentstream_remote_ranged(rt->remote, rt->node, reply);

    if (rc == NGX_DECLINED) {
        /* Redis is away: it is tried again when it is back */
        ngx_http_agentstream_remote_unclaimed(rt);
        return;
    }

    if (rc <= 0 && rt->node->journal.last_seq < rt->last) {
        /* the rest is not there: it is known that something is missing */

        ngx_http_agentstream_zone_lock(rt->remote->zone);
        ngx_http_agentstream_journal_jump_locked(rt->remote->zone, rt->node,
                                                 rt->last);
        ngx_http_agentstream_zone_unlock(rt->remote->zone);
    }

    ngx_http_agentstream_remote_claim_rest(rt);
}


/* the turn is ours; its records must be complete here, because the numbers of
   what follows depend on them */

static void
ngx_http_agentstream_remote_claim_rest(ngx_http_agentstream_remote_turn_t *rt)
{
    if (rt->node->journal.last_seq >= rt->last) {
        ngx_http_agentstream_remote_claimed(rt);
        return;
    }

    if (ngx_http_agentstream_remote_range(rt->remote, &rt->base, rt->node,
                                      ngx_http_agentstream_remote_claim_range,
                                      rt)
        != NGX_OK)
    {
        ngx_http_agentstream_remote_unclaimed(rt);
    }
}


static void
ngx_http_agentstream_remote_claimed(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = rt->remote->zone;
    node = rt->node;

    ngx_http_agentstream_zone_lock(zone);

    node->mirror = 0;
    node->gone = 0;
    node->ended = 0;
    node->owner = zone->self;
    node->pinned = 1;

    /* only the newest ones are kept */

    if (rt->epoch > node->epoch + NGX_HTTP_AGENTSTREAM_EPOCHS) {
        node->epoch = rt->epoch - NGX_HTTP_AGENTSTREAM_EPOCHS;
    }

    while (node->epoch < rt->epoch) {
        ngx_http_agentstream_zone_end_epoch(node, node->journal.last_seq);
    }

    ngx_http_agentstream_journal_show_locked(node, node->journal.last_seq);
    ngx_http_agentstream_journal_mend_locked(zone, node);
    ngx_http_agentstream_zone_place_locked(zone, node);

    ngx_http_agentstream_zone_unlock(zone);

    rt->live = 1;
    rt->acked = node->journal.last_seq;

    if (rt->claiming) {
        *rt->claimed = node;
        ngx_http_agentstream_remote_answer(rt->claiming, NGX_OK);
        return;
    }

    /* it was cancelled: any worker may have it */

    ngx_http_agentstream_zone_lock(zone);

    node->owner.slot = 0;
    node->owner.generation = 0;
    node->pinned = 0;
    ngx_http_agentstream_zone_place_locked(zone, node);

    ngx_http_agentstream_zone_unlock(zone);

    ngx_http_agentstream_remote_free_turn(rt);
}


static void
ngx_http_agentstream_remote_unclaimed(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_str_t                      key;
    ngx_http_agentstream_zone_t   *zone;
    ngx_http_agentstream_later_t  *later;

    zone = rt->remote->zone;
    later = rt->claiming;

    ngx_http_agentstream_zone_lock(zone);

    rt->node->pinned = 0;
    rt->node->gone = 0;
    ngx_http_agentstream_zone_place_locked(zone, rt->node);

    ngx_http_agentstream_zone_unlock(zone);

    key.data = rt->base.data + sizeof("as1:{") - 1;
    key.len = rt->base.len - (sizeof("as1:{}:") - 1);

    ngx_http_agentstream_remote_look_at(rt->remote, &key, &rt->id, 0);
    ngx_http_agentstream_remote_free_turn(rt);

    if (later) {
        ngx_http_agentstream_remote_answer(later, NGX_DECLINED);
    }
}


void
ngx_http_agentstream_remote_own(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    node->remote = NULL;

    rt = ngx_http_agentstream_remote_add_turn(
                                 ngx_http_agentstream_remote_of(zone), node);

    if (rt == NULL) {
        return;
    }

    rt->acked = node->journal.shown_seq;
    rt->prompted = node->prompted;
    rt->touch = 1;
    rt->taking = 1;

    ngx_http_agentstream_remote_take(rt);
}


/* tells Redis that a turn of this machine has another owner */

void
ngx_http_agentstream_remote_take(ngx_http_agentstream_remote_turn_t *rt)
{
    if (rt->inflight || (rt->node == NULL && !rt->ended)) {
        return;
    }

    if (ngx_http_agentstream_remote_send_claim(rt, "1",
                                        ngx_http_agentstream_remote_take_done)
        == NGX_OK)
    {
        ngx_http_agentstream_remote_sent(rt);
    }
}


static void
ngx_http_agentstream_remote_take_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_turn_t *rt = data;

    ngx_str_t  status;

    rt->inflight = 0;

    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len == 0) {
        /* Redis is away, or refuses it: it is tried again */

        if (reply) {
            rt->failed = 1;
            ngx_http_agentstream_remote_show_anyway(rt);
        }

        return;
    }

    rt->failed = 0;

    rt->owned = 1;
    rt->live = 1;

    if (status.data[0] == 'D') {
        rt->fenced = 1;
        ngx_post_event(&rt->answer, &ngx_posted_events);
        return;
    }

    ngx_http_agentstream_remote_push(rt);
}


void
ngx_http_agentstream_remote_cancel(ngx_http_agentstream_later_t *later)
{
    ngx_str_t                              none;
    ngx_http_agentstream_zone_t           *zone;
    ngx_http_agentstream_remote_turn_t    *rt;
    ngx_http_agentstream_store_watch_t    *watch;
    ngx_http_agentstream_store_created_t   created;

    zone = later->zone;
    later->zone = NULL;

    if (later->node == NULL) {
        /* it waits for what Redis says of a session */

        watch = (ngx_http_agentstream_store_watch_t *) later->end;

        if (later->verb == NGX_HTTP_AGENTSTREAM_LATER_CREATE) {
            rt = watch->later->data;
            rt->creating = NULL;

        } else {
            watch->later = NULL;
        }

        return;
    }

    rt = later->node->remote;

    switch (later->verb) {

    case NGX_HTTP_AGENTSTREAM_LATER_CREATE:
        rt->creating = NULL;
        rt->node->remote = NULL;
        ngx_str_null(&none);
        ngx_http_agentstream_store_unmade(zone, rt->node, &none, &created);
        rt->node = NULL;
        break;

    case NGX_HTTP_AGENTSTREAM_LATER_CLAIM:
        rt->claiming = NULL;
        break;

    case NGX_HTTP_AGENTSTREAM_LATER_PROMPT:
        rt->prompting = NULL;
        break;

    case NGX_HTTP_AGENTSTREAM_LATER_SHOW:
        rt->showing = NULL;
        break;

    default: /* NGX_HTTP_AGENTSTREAM_LATER_FINISH */
        rt->finishing = NULL;
        later->node->remote = NULL;
        ngx_http_agentstream_store_finished(zone, later->node, rt->store_end);
        rt->node = NULL;
        break;
    }
}

#endif
