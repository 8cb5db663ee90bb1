
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The turns of this worker.  What Redis does not have of a turn, its records,
 * its end and what others must know of it, is sent with one command, the next
 * one after the answer to the one before.  Because it is known what Redis has,
 * an outage only delays the rest.  Readers see what Redis has acknowledged, or
 * everything if Redis is silent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

static void ngx_http_agentstream_remote_answer_handler(ngx_event_t *ev);
static void ngx_http_agentstream_remote_fence(
    ngx_http_agentstream_remote_turn_t *rt);
static void ngx_http_agentstream_remote_drop(
    ngx_http_agentstream_later_t **later);
static void ngx_http_agentstream_remote_end(
    ngx_http_agentstream_remote_turn_t *rt);
static void ngx_http_agentstream_remote_tell_owner(
    ngx_http_agentstream_remote_turn_t *rt);


ngx_http_agentstream_remote_turn_t *
ngx_http_agentstream_remote_add_turn(ngx_http_agentstream_remote_t *remote,
    ngx_http_agentstream_node_t *node)
{
    u_char                              *p;
    ngx_str_t                           *key, *request;
    ngx_http_agentstream_remote_turn_t  *rt;

    key = &node->session->sn.str;
    request = &node->request.str;

    rt = ngx_calloc(sizeof(ngx_http_agentstream_remote_turn_t)
                    + sizeof("as1:{}:") + key->len + node->sn.str.len
                    + request->len, remote->log);
    if (rt == NULL) {
        return NULL;
    }

    p = (u_char *) (rt + 1);

    rt->base.data = p;
    p = ngx_sprintf(p, "as1:{%V}:", key);
    rt->base.len = p - rt->base.data;

    rt->id.data = p;
    rt->id.len = node->sn.str.len;
    p = ngx_cpymem(p, node->id, rt->id.len);

    rt->request_id.data = p;
    rt->request_id.len = request->len;

    if (request->len) {
        ngx_memcpy(p, request->data, request->len);
    }

    rt->remote = remote;
    rt->node = node;
    rt->epoch = node->epoch;
    rt->packets = node->packets;
    rt->tool_kinds = node->tool_kinds;
    rt->prompted = 0;
    rt->touched = ngx_current_msec;
    rt->heard = ngx_current_msec;
    rt->emptied = remote->emptied;

    rt->answer.handler = ngx_http_agentstream_remote_answer_handler;
    rt->answer.data = rt;
    rt->answer.log = remote->log;

    ngx_queue_insert_tail(&remote->turns, &rt->queue);

    node->remote = rt;

    return rt;
}


void
ngx_http_agentstream_remote_free_turn(ngx_http_agentstream_remote_turn_t *rt)
{
    if (rt->answer.posted) {
        ngx_delete_posted_event(&rt->answer);
    }

    if (rt->node) {
        rt->node->remote = NULL;
    }

    ngx_queue_remove(&rt->queue);
    ngx_free(rt);
}


/* tells those who wait.  A turn is freed here only, because they may do
   anything with it */

static void
ngx_http_agentstream_remote_answer_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    rt = ev->data;

    if (rt->replicating) {
        /* it comes back with the answer of the replica */
        return;
    }

    if (rt->fenced) {
        ngx_http_agentstream_remote_fence(rt);
        return;
    }

    if (rt->prompting && rt->prompted) {
        ngx_http_agentstream_remote_answer(rt->prompting, NGX_OK);
    }

    if (rt->showing && rt->shown) {
        rt->shown = 0;
        ngx_http_agentstream_remote_answer(rt->showing, NGX_OK);
    }

    if (rt->done) {
        ngx_http_agentstream_remote_end(rt);
        ngx_http_agentstream_remote_keep_ended(rt);
    }
}


/* it ends here, too */

static void
ngx_http_agentstream_remote_end(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_http_agentstream_remote_drop(&rt->showing);
    ngx_http_agentstream_remote_drop(&rt->prompting);

    if (rt->node) {
        rt->node->remote = NULL;
        ngx_http_agentstream_store_finished(rt->remote->zone, rt->node,
                                            rt->store_end);
        rt->node = NULL;
    }

    if (rt->finishing) {
        ngx_http_agentstream_remote_answer(rt->finishing, NGX_OK);
    }
}


/* another machine has it: from now on it is copied from there */

static void
ngx_http_agentstream_remote_fence(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_str_t                       key;
    ngx_http_agentstream_node_t    *node;
    ngx_http_agentstream_zone_t    *zone;
    ngx_http_agentstream_later_t   *later;
    ngx_http_agentstream_remote_t  *remote;

    remote = rt->remote;
    zone = remote->zone;
    node = rt->node;

    if (node) {
        if (rt->finishing == NULL && rt->prompting == NULL
            && rt->showing == NULL)
        {
            /* the owner looks whether the turn is still its own */
            ngx_http_agentstream_remote_tell_owner(rt);
            return;
        }

        ngx_http_agentstream_zone_lock(zone);

        node->mirror = 1;
        node->remote = NULL;
        node->pinned = 0;

        if (rt->store_end) {
            ngx_memcpy(rt->store_end->watchers, node->watchers,
                       sizeof(node->watchers));
        }

        ngx_http_agentstream_zone_place_locked(zone, node);
        ngx_http_agentstream_zone_unlock(zone);

        rt->node = NULL;
    }

    ngx_http_agentstream_zone_count(zone, FENCED, 1);

    key.data = rt->base.data + sizeof("as1:{") - 1;
    key.len = rt->base.len - (sizeof("as1:{}:") - 1);

    ngx_http_agentstream_remote_look_at(remote, &key, &rt->id, rt->lost);

    /* one of them is enough: the caller forgets the turn */

    later = rt->finishing ? rt->finishing
                          : rt->prompting ? rt->prompting : rt->showing;

    ngx_http_agentstream_remote_drop(&rt->finishing);
    ngx_http_agentstream_remote_drop(&rt->prompting);
    ngx_http_agentstream_remote_drop(&rt->showing);

    ngx_http_agentstream_remote_free_turn(rt);

    if (later) {
        later->handler(later->data, NGX_ABORT);
    }
}


/* who asked is not answered, and need not cancel */

static void
ngx_http_agentstream_remote_drop(ngx_http_agentstream_later_t **later)
{
    if (*later) {
        (*later)->zone = NULL;
        *later = NULL;
    }
}


void
ngx_http_agentstream_remote_show_anyway(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = rt->remote->zone;
    node = rt->node;

    if (node == NULL) {
        return;
    }

    if (rt->ended) {
        /* Redis is told of it in the background */
        rt->last = node->journal.last_seq;
        ngx_http_agentstream_remote_end(rt);
        return;
    }

    if (rt->showing) {
        ngx_http_agentstream_zone_lock(zone);
        ngx_http_agentstream_journal_show_locked(node, node->journal.last_seq);
        ngx_http_agentstream_zone_unlock(zone);

        rt->shown = 1;
        ngx_post_event(&rt->answer, &ngx_posted_events);
    }
}


void
ngx_http_agentstream_remote_silence_handler(ngx_event_t *ev)
{
    ngx_msec_t                           next;
    ngx_queue_t                         *q, *following;
    ngx_msec_int_t                       left;
    ngx_http_agentstream_remote_t       *remote;
    ngx_http_agentstream_remote_turn_t  *rt;

    remote = ev->data;
    next = 0;

    for (q = ngx_queue_head(&remote->turns);
         q != ngx_queue_sentinel(&remote->turns);
         q = following)
    {
        following = ngx_queue_next(q);
        rt = ngx_queue_data(q, ngx_http_agentstream_remote_turn_t, queue);

        if (!rt->inflight) {
            continue;
        }

        left = (ngx_msec_int_t) (rt->sent_at + NGX_HTTP_AGENTSTREAM_SILENCE
                                 - ngx_current_msec);

        if (left <= 0) {
            ngx_http_agentstream_remote_show_anyway(rt);
            left = NGX_HTTP_AGENTSTREAM_SILENCE;
        }

        next = next ? ngx_min(next, (ngx_msec_t) left) : (ngx_msec_t) left;
    }

    if (next) {
        ngx_add_timer(&remote->silence, next);
    }
}


/* Redis is away: nobody waits for it, except those who must */

void
ngx_http_agentstream_remote_away(ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                         *q, *next;
    ngx_http_agentstream_remote_turn_t  *rt;

    for (q = ngx_queue_head(&remote->turns);
         q != ngx_queue_sentinel(&remote->turns);
         q = next)
    {
        next = ngx_queue_next(q);
        rt = ngx_queue_data(q, ngx_http_agentstream_remote_turn_t, queue);

        ngx_http_agentstream_remote_show_anyway(rt);
    }
}


/* Redis is back */

void
ngx_http_agentstream_remote_back(ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                         *q, *next;
    ngx_http_agentstream_remote_turn_t  *rt;

    ngx_http_agentstream_remote_resume_ended(remote);

    for (q = ngx_queue_head(&remote->turns);
         q != ngx_queue_sentinel(&remote->turns);
         q = next)
    {
        next = ngx_queue_next(q);
        rt = ngx_queue_data(q, ngx_http_agentstream_remote_turn_t, queue);

        /* it may have forgotten some of it, as after a failover */

        rt->touch = 1;
        rt->changed = 1;
        rt->renewed = 0;
        rt->prompt |= (rt->prompted && !rt->again);

        if (rt->dead) {
            ngx_http_agentstream_remote_undo(rt);
            continue;
        }

        if (rt->taking && !rt->owned) {
            ngx_http_agentstream_remote_take(rt);
        }

        ngx_http_agentstream_remote_push(rt);
    }
}


/* what Redis has refused is tried again, and it is told that turns run */

void
ngx_http_agentstream_remote_touch(ngx_http_agentstream_remote_t *remote,
    ngx_uint_t all)
{
    ngx_queue_t                         *q;
    ngx_http_agentstream_remote_turn_t  *rt;

    for (q = ngx_queue_head(&remote->turns);
         q != ngx_queue_sentinel(&remote->turns);
         q = ngx_queue_next(q))
    {
        rt = ngx_queue_data(q, ngx_http_agentstream_remote_turn_t, queue);

        if (rt->dead && !rt->undoing) {
            ngx_http_agentstream_remote_undo(rt);
            continue;
        }

        if (rt->taking && !rt->owned) {
            ngx_http_agentstream_remote_take(rt);
            continue;
        }

        if (all
            || ngx_current_msec - rt->touched
               > (rt->acked ? NGX_HTTP_AGENTSTREAM_TOUCH
                            : NGX_HTTP_AGENTSTREAM_LEASE))
        {
            rt->touch = 1;
        }

        ngx_http_agentstream_remote_push(rt);
    }
}


/* a prompt waits for Redis, but not for long */

void
ngx_http_agentstream_remote_tick_turns(ngx_http_agentstream_remote_t *remote)
{
    uint64_t                             waiting;
    ngx_queue_t                         *q, *next;
    ngx_http_agentstream_remote_turn_t  *rt;

    waiting = 0;

    for (q = ngx_queue_head(&remote->turns);
         q != ngx_queue_sentinel(&remote->turns);
         q = next)
    {
        next = ngx_queue_next(q);
        rt = ngx_queue_data(q, ngx_http_agentstream_remote_turn_t, queue);

        if (rt->node && rt->live && !rt->fenced) {
            waiting += rt->node->journal.last_seq - rt->acked;
        }

        if (rt->prompting == NULL || rt->fenced) {
            continue;
        }

        if (remote->local && !remote->up) {
            ngx_http_agentstream_remote_answer(rt->prompting, NGX_OK);

        } else if (ngx_current_msec - rt->prompt_at
                   >= NGX_HTTP_AGENTSTREAM_PROMPT_WAIT)
        {
            rt->prompt = 0;
            rt->node->prompted = 0;
            ngx_http_agentstream_remote_answer(rt->prompting, NGX_ERROR);
        }
    }

    remote->zone->stats[NGX_HTTP_AGENTSTREAM_STAT_STORE_WAITING] = waiting;
}


void
ngx_http_agentstream_remote_interrupted(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *id)
{
    ngx_http_agentstream_node_t         *node;
    ngx_http_agentstream_remote_turn_t  *rt;

    rt = NULL;

    ngx_http_agentstream_zone_lock(remote->zone);

    node = ngx_http_agentstream_zone_find_locked(remote->zone, id);

    if (node && !node->mirror
        && node->state != NGX_HTTP_AGENTSTREAM_TURN_FINISHED
        && node->owner.slot == remote->zone->self.slot
        && node->owner.generation == remote->zone->self.generation)
    {
        node->interrupted = 1;
        rt = node->remote;
    }

    ngx_http_agentstream_zone_unlock(remote->zone);

    if (rt) {
        ngx_http_agentstream_remote_tell_owner(rt);
    }
}


/* the owner follows the session, whose id is the last word of its key */

static void
ngx_http_agentstream_remote_tell_owner(ngx_http_agentstream_remote_turn_t *rt)
{
    u_char     *p, *last;
    ngx_str_t   session;

    last = rt->base.data + rt->base.len - (sizeof("}:") - 1);

    for (p = last; p > rt->base.data && p[-1] != ' '; p--) {
        /* void */
    }

    session.data = p;
    session.len = last - p;

    ngx_http_agentstream_notify_tell(&session);
}


void
ngx_http_agentstream_remote_check(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    rt = node->remote;

    if (rt == NULL || !rt->fenced) {
        return;
    }

    ngx_http_agentstream_remote_wait(later, zone, node,
                                     NGX_HTTP_AGENTSTREAM_LATER_SHOW);
    rt->showing = later;

    ngx_post_event(&rt->answer, &ngx_posted_events);
}


void
ngx_http_agentstream_remote_change(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    rt = node->remote;

    if (rt) {
        rt->changed = 1;

        /* with the records of this cycle of the event loop; if there are none,
           within the next tick */
    }
}


ngx_int_t
ngx_http_agentstream_remote_prompting(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    rt = node->remote;

    if (rt == NULL) {
        return NGX_OK;
    }

    ngx_http_agentstream_remote_wait(later, zone, node,
                                     NGX_HTTP_AGENTSTREAM_LATER_PROMPT);

    rt->prompt = 1;
    rt->changed = 1;
    rt->prompting = later;
    rt->prompt_at = ngx_current_msec;

    ngx_http_agentstream_remote_push(rt);

    if (rt->fenced) {
        ngx_post_event(&rt->answer, &ngx_posted_events);
    }

    return NGX_AGAIN;
}


ngx_int_t
ngx_http_agentstream_remote_show(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_later_t *later)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    rt = node->remote;

    if (rt == NULL || (!rt->remote->up && !rt->fenced) || rt->failed) {
        ngx_http_agentstream_store_shown(zone, node);
        return NGX_OK;
    }

    ngx_http_agentstream_remote_wait(later, zone, node,
                                     NGX_HTTP_AGENTSTREAM_LATER_SHOW);
    rt->showing = later;

    ngx_http_agentstream_remote_push(rt);

    if (rt->fenced) {
        ngx_post_event(&rt->answer, &ngx_posted_events);
    }

    return NGX_AGAIN;
}


ngx_int_t
ngx_http_agentstream_remote_finish(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_http_agentstream_store_end_t *end,
    ngx_http_agentstream_later_t *later)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    rt = node->remote;

    if (rt == NULL) {
        ngx_http_agentstream_store_finished(zone, node, end);
        return NGX_OK;
    }

    rt->ended = 1;
    rt->end_unsure = (end->unsure || !node->prompted)
                     ? (end->unsure || node->session->unsure) : 0;
    rt->end.data = rt->end_data;
    rt->end.len = ngx_min(end->stop_reason.len, sizeof(rt->end_data));

    if (rt->end.len) {
        ngx_memcpy(rt->end_data, end->stop_reason.data, rt->end.len);
    }

    rt->last = node->journal.last_seq;
    rt->store_end = end;

    if (later == NULL || (!rt->remote->up && !rt->fenced) || rt->failed) {
        ngx_http_agentstream_remote_end(rt);
        ngx_http_agentstream_remote_push(rt);
        return NGX_OK;
    }

    ngx_http_agentstream_remote_wait(later, zone, node,
                                     NGX_HTTP_AGENTSTREAM_LATER_FINISH);
    rt->finishing = later;

    ngx_http_agentstream_remote_push(rt);

    if (rt->fenced) {
        ngx_post_event(&rt->answer, &ngx_posted_events);
    }

    return NGX_AGAIN;
}


ngx_uint_t
ngx_http_agentstream_remote_mine(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    rt = node->remote;

    return rt == NULL
           || (!rt->fenced
               && (ngx_msec_int_t) (rt->remote->lease - ngx_current_msec) > 0);
}


/* Redis must be asked after the last reader here has left; until it has
   answered, somebody may read the turn elsewhere */

ngx_uint_t
ngx_http_agentstream_remote_viewed(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_uint_t watched)
{
    ngx_http_agentstream_remote_turn_t  *rt;

    rt = node->remote;

    if (rt == NULL) {
        return watched;
    }

    if (watched) {
        rt->alone = 0;
        rt->asked = 0;
        return 1;
    }

    if (!rt->asked && !rt->alone) {
        rt->asked = 1;
        rt->touch = 1;
        ngx_http_agentstream_remote_push(rt);
    }

    return !rt->alone;
}

#endif
