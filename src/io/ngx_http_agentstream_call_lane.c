
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Places: how many calls may run at a time.  A lane is one kind of call to one
 * destination.  It has its own limit, and shares the places of the worker with
 * the other lanes: a lane never takes more places than it leaves to all the
 * others.  So one server that does not answer can occupy half of them, a
 * second one half of the rest, and so on.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call_int.h"
#include "ngx_http_agentstream_worker.h"


#define NGX_HTTP_AGENTSTREAM_CALLS_CLIENT      64
#define NGX_HTTP_AGENTSTREAM_CALLS_LOOKUP      32
#define NGX_HTTP_AGENTSTREAM_CALLS_BACKGROUND  16


typedef struct ngx_http_agentstream_call_place_s
    ngx_http_agentstream_call_place_t;


struct ngx_http_agentstream_call_lane_s {
    ngx_queue_t                          queue;      /* in the list of lanes
                                                        that have waiting
                                                        calls */
    ngx_queue_t                          waiting;    /* waiting calls, oldest
                                                        first */
    ngx_queue_t                          abandoned;  /* running calls that
                                                        nobody waits for */
    ngx_uint_t                           active;
    ngx_uint_t                           limit;
    ngx_http_agentstream_call_place_t   *place;
};


/* a destination; on the heap, exists while there are calls to it */

struct ngx_http_agentstream_call_place_s {
    ngx_str_node_t                       node;       /* in the tree, by the key
                                                        of its calls */
    ngx_uint_t                           ncalls;
    ngx_http_agentstream_call_lane_t     lanes[
                                             NGX_HTTP_AGENTSTREAM_CALL_STREAM];
};


static ngx_http_agentstream_call_place_t *ngx_http_agentstream_call_place(
    ngx_http_agentstream_call_t *call);
static ngx_uint_t ngx_http_agentstream_call_room(
    ngx_http_agentstream_call_lane_t *lane);
static ngx_uint_t ngx_http_agentstream_call_make_room(
    ngx_http_agentstream_call_lane_t *lane);
static void ngx_http_agentstream_call_next_handler(ngx_event_t *ev);


static ngx_uint_t  ngx_http_agentstream_call_limits[] = {
    NGX_HTTP_AGENTSTREAM_CALLS_CLIENT,
    NGX_HTTP_AGENTSTREAM_CALLS_LOOKUP,
    NGX_HTTP_AGENTSTREAM_CALLS_BACKGROUND
};


ngx_int_t
ngx_http_agentstream_call_init_worker(ngx_cycle_t *cycle)
{
    struct rlimit                  rlmt;
    ngx_http_agentstream_calls_t  *calls;

    calls = ngx_pcalloc(cycle->pool, sizeof(ngx_http_agentstream_calls_t));
    if (calls == NULL) {
        return NGX_ERROR;
    }

    ngx_rbtree_init(&calls->places, &calls->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&calls->waiting);
    ngx_queue_init(&calls->abandoned);

    calls->next.handler = ngx_http_agentstream_call_next_handler;
    calls->next.data = calls;
    calls->next.log = cycle->log;

    /* a call takes two connections and two descriptors; calls may use half of
       each, the other half is for clients */

    calls->max = cycle->connection_n / 4;

    if (getrlimit(RLIMIT_NOFILE, &rlmt) == 0) {
        calls->max = ngx_min(calls->max, rlmt.rlim_cur / 4);
    }

    calls->max = ngx_max(calls->max, 1);

    ngx_http_agentstream_worker->calls = calls;

    return ngx_http_agentstream_call_open_pair(calls);
}


ngx_int_t
ngx_http_agentstream_call_enter(ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_calls_t       *calls;
    ngx_http_agentstream_call_lane_t   *lane;
    ngx_http_agentstream_call_place_t  *place;

    if (call->kind == NGX_HTTP_AGENTSTREAM_CALL_STREAM) {
        return NGX_OK;
    }

    calls = ngx_http_agentstream_worker->calls;

    place = ngx_http_agentstream_call_place(call);
    if (place == NULL) {
        return NGX_ERROR;
    }

    place->ncalls++;

    lane = &place->lanes[call->kind];
    call->lane = lane;

    if (ngx_queue_empty(&lane->waiting)) {

        if (ngx_http_agentstream_call_room(lane)) {
            lane->active++;
            calls->active++;
            return NGX_OK;
        }

        ngx_queue_insert_tail(&calls->waiting, &lane->queue);
        calls->nwaiting++;
    }

    call->waiting = 1;
    ngx_queue_insert_tail(&lane->waiting, &call->queue);

    if (!ngx_queue_empty(&calls->abandoned)) {
        ngx_post_event(&calls->next, &ngx_posted_events);
    }

    return NGX_AGAIN;
}


static ngx_http_agentstream_call_place_t *
ngx_http_agentstream_call_place(ngx_http_agentstream_call_t *call)
{
    uint32_t                            hash;
    ngx_uint_t                          i;
    ngx_str_node_t                     *node;
    ngx_http_agentstream_calls_t       *calls;
    ngx_http_agentstream_call_lane_t   *lane;
    ngx_http_agentstream_call_place_t  *place;

    calls = ngx_http_agentstream_worker->calls;
    hash = ngx_crc32_short(call->key.data, call->key.len);

    node = ngx_str_rbtree_lookup(&calls->places, &call->key, hash);

    if (node) {
        return (ngx_http_agentstream_call_place_t *) node;
    }

    place = ngx_calloc(sizeof(ngx_http_agentstream_call_place_t)
                       + call->key.len, ngx_cycle->log);
    if (place == NULL) {
        return NULL;
    }

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_CALL_STREAM; i++) {
        lane = &place->lanes[i];

        lane->limit = ngx_http_agentstream_call_limits[i];
        lane->place = place;
        ngx_queue_init(&lane->waiting);
        ngx_queue_init(&lane->abandoned);
    }

    place->node.node.key = hash;
    place->node.str.len = call->key.len;
    place->node.str.data = (u_char *) (place + 1);
    ngx_memcpy(place->node.str.data, call->key.data, call->key.len);

    ngx_rbtree_insert(&calls->places, &place->node.node);

    return place;
}


static ngx_uint_t
ngx_http_agentstream_call_room(ngx_http_agentstream_call_lane_t *lane)
{
    ngx_http_agentstream_calls_t  *calls;

    calls = ngx_http_agentstream_worker->calls;

    return lane->active < lane->limit
           && lane->active < calls->max - calls->active;
}


void
ngx_http_agentstream_call_leave(ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_calls_t       *calls;
    ngx_http_agentstream_call_lane_t   *lane;
    ngx_http_agentstream_call_place_t  *place;

    lane = call->lane;

    if (lane == NULL) {
        return;
    }

    calls = ngx_http_agentstream_worker->calls;
    place = lane->place;

    call->lane = NULL;

    if (call->waiting) {
        call->waiting = 0;
        ngx_queue_remove(&call->queue);

        if (ngx_queue_empty(&lane->waiting)) {
            ngx_queue_remove(&lane->queue);
            calls->nwaiting--;
        }

    } else {
        lane->active--;
        calls->active--;

        if (call->abandoned) {
            ngx_queue_remove(&call->queue);
            ngx_queue_remove(&call->others);
        }

        if (calls->nwaiting) {
            ngx_post_event(&calls->next, &ngx_posted_events);
        }
    }

    if (--place->ncalls == 0) {
        ngx_rbtree_delete(&calls->places, &place->node.node);
        ngx_free(place);
    }
}


void
ngx_http_agentstream_call_let(ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_calls_t  *calls;

    if (call->lane == NULL || call->abandoned) {
        return;
    }

    calls = ngx_http_agentstream_worker->calls;

    call->abandoned = 1;
    ngx_queue_insert_tail(&call->lane->abandoned, &call->queue);
    ngx_queue_insert_tail(&calls->abandoned, &call->others);

    if (calls->nwaiting) {
        ngx_post_event(&calls->next, &ngx_posted_events);
    }
}


/* ends an abandoned call to make room: one of the lane itself or, if the
   worker has no places left, one of any lane */

static ngx_uint_t
ngx_http_agentstream_call_make_room(ngx_http_agentstream_call_lane_t *lane)
{
    ngx_queue_t                   *q;
    ngx_http_agentstream_call_t   *call;
    ngx_http_agentstream_calls_t  *calls;

    calls = ngx_http_agentstream_worker->calls;

    while (!ngx_http_agentstream_call_room(lane)) {

        if (!ngx_queue_empty(&lane->abandoned)) {
            q = ngx_queue_head(&lane->abandoned);
            call = ngx_queue_data(q, ngx_http_agentstream_call_t, queue);

        } else if (lane->active < lane->limit
                   && !ngx_queue_empty(&calls->abandoned))
        {
            q = ngx_queue_head(&calls->abandoned);
            call = ngx_queue_data(q, ngx_http_agentstream_call_t, others);

        } else {
            return 0;
        }

        ngx_http_agentstream_call_expel(call);
    }

    return 1;
}


/* places that were given back are offered to the waiting lanes in turn */

static void
ngx_http_agentstream_call_next_handler(ngx_event_t *ev)
{
    ngx_uint_t                         blocked;
    ngx_queue_t                       *q;
    ngx_http_agentstream_call_t       *call;
    ngx_http_agentstream_calls_t      *calls;
    ngx_http_agentstream_call_lane_t  *lane;

    calls = ev->data;
    blocked = 0;

    while (blocked < calls->nwaiting) {
        q = ngx_queue_head(&calls->waiting);
        lane = ngx_queue_data(q, ngx_http_agentstream_call_lane_t, queue);

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&calls->waiting, q);

        if (!ngx_http_agentstream_call_make_room(lane)) {
            blocked++;
            continue;
        }

        blocked = 0;

        q = ngx_queue_head(&lane->waiting);
        call = ngx_queue_data(q, ngx_http_agentstream_call_t, queue);

        ngx_queue_remove(q);
        call->waiting = 0;

        if (ngx_queue_empty(&lane->waiting)) {
            ngx_queue_remove(&lane->queue);
            calls->nwaiting--;
        }

        lane->active++;
        calls->active++;

        ngx_http_agentstream_call_run(call);
    }
}
