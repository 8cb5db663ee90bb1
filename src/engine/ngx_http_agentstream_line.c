
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Senders in this worker that wait for their turn in a session.  The zone has
 * the order of all waiting senders, across all workers.  Here the senders of
 * one worker stand in a line in that order, so that only the first one has to
 * check whether it is its turn, however many there are.  There is one
 * exception: when a turn begins that has a sender's client_request_id, that
 * sender is called out of the line, because the turn is its own.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_line.h"
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_store.h"


/* on the heap, exists while somebody stands in it or it is being called */

struct ngx_http_agentstream_line_s {
    ngx_str_node_t                       sn;       /* by the session's key */
    ngx_queue_t                          places;
    ngx_rbtree_t                         named;    /* those that have a
                                                      client_request_id, by
                                                      this id */
    ngx_rbtree_node_t                    sentinel;
    ngx_http_agentstream_waiter_t        waiter;
    uint64_t                             number;   /* number of the last turn
                                                      that was looked at */
    ngx_uint_t                           calling;
    u_char                               key[1];
};


/* all lines of the worker */

typedef struct ngx_http_agentstream_lines_s {
    ngx_rbtree_t                         tree;
    ngx_rbtree_node_t                    sentinel;
} ngx_http_agentstream_lines_t;


static ngx_http_agentstream_line_t *ngx_http_agentstream_line_create(
    ngx_str_t *key, ngx_str_t *session);
static void ngx_http_agentstream_line_release(
    ngx_http_agentstream_line_t *line);
static void ngx_http_agentstream_line_handler(void *data);
static ngx_http_agentstream_place_t *ngx_http_agentstream_line_named(
    ngx_http_agentstream_line_t *line);
static void ngx_http_agentstream_line_skip(
    ngx_http_agentstream_line_t *line);


ngx_int_t
ngx_http_agentstream_line_init_worker(ngx_cycle_t *cycle)
{
    ngx_http_agentstream_lines_t  *lines;

    lines = ngx_palloc(cycle->pool, sizeof(ngx_http_agentstream_lines_t));
    if (lines == NULL) {
        return NGX_ERROR;
    }

    ngx_rbtree_init(&lines->tree, &lines->sentinel,
                    ngx_str_rbtree_insert_value);

    ngx_http_agentstream_worker->lines = lines;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_line_join(ngx_http_agentstream_place_t *place,
    ngx_str_t *key, ngx_str_t *session, ngx_str_t *request_id)
{
    uint32_t                       hash;
    ngx_http_agentstream_line_t   *line;
    ngx_http_agentstream_lines_t  *lines;

    lines = ngx_http_agentstream_worker->lines;

    hash = ngx_murmur_hash2(key->data, key->len);

    line = (ngx_http_agentstream_line_t *)
               ngx_str_rbtree_lookup(&lines->tree, key, hash);

    if (line == NULL) {
        line = ngx_http_agentstream_line_create(key, session);

        if (line == NULL) {
            return NGX_ERROR;
        }
    }

    place->line = line;
    ngx_queue_insert_tail(&line->places, &place->queue);

    if (request_id->len) {

        if (line->named.root == &line->sentinel) {
            ngx_http_agentstream_line_skip(line);
        }

        place->named.str = *request_id;
        place->named.node.key = ngx_murmur_hash2(request_id->data,
                                                 request_id->len);
        ngx_rbtree_insert(&line->named, &place->named.node);
    }

    return NGX_OK;
}


static ngx_http_agentstream_line_t *
ngx_http_agentstream_line_create(ngx_str_t *key, ngx_str_t *session)
{
    ngx_http_agentstream_line_t  *line;

    line = ngx_calloc(sizeof(ngx_http_agentstream_line_t) + key->len,
                      ngx_cycle->log);
    if (line == NULL) {
        return NULL;
    }

    line->waiter.handler = ngx_http_agentstream_line_handler;
    line->waiter.data = line;

    if (ngx_http_agentstream_notify_follow(&line->waiter, session) != NGX_OK) {
        ngx_free(line);
        return NULL;
    }

    line->sn.str.len = key->len;
    line->sn.str.data = line->key;
    ngx_memcpy(line->key, key->data, key->len);
    line->sn.node.key = ngx_murmur_hash2(key->data, key->len);

    ngx_queue_init(&line->places);
    ngx_rbtree_init(&line->named, &line->sentinel,
                    ngx_str_rbtree_insert_value);

    ngx_rbtree_insert(&ngx_http_agentstream_worker->lines->tree,
                      &line->sn.node);

    return line;
}


void
ngx_http_agentstream_line_leave(ngx_http_agentstream_place_t *place)
{
    ngx_http_agentstream_line_t  *line;

    line = place->line;

    if (line == NULL) {
        return;
    }

    ngx_queue_remove(&place->queue);

    if (place->named.str.len) {
        ngx_rbtree_delete(&line->named, &place->named.node);
    }

    place->line = NULL;

    ngx_http_agentstream_line_release(line);
}


static void
ngx_http_agentstream_line_release(ngx_http_agentstream_line_t *line)
{
    if (line->calling || !ngx_queue_empty(&line->places)) {
        return;
    }

    ngx_http_agentstream_notify_detach(&line->waiter);

    ngx_rbtree_delete(&ngx_http_agentstream_worker->lines->tree,
                      &line->sn.node);
    ngx_free(line);
}


/* called when a turn of the session began or ended, when a worker has died, and
   from time to time */

static void
ngx_http_agentstream_line_handler(void *data)
{
    ngx_http_agentstream_line_t *line = data;

    ngx_queue_t                   *q;
    ngx_http_agentstream_place_t  *place;

    if (line->calling) {
        return;
    }

    line->calling = 1;

    for ( ;; ) {
        place = ngx_http_agentstream_line_named(line);

        if (place == NULL) {
            break;
        }

        place->handler(place->data);
    }

    /* when the first one leaves, the next one becomes the first */

    while (!ngx_queue_empty(&line->places)) {
        q = ngx_queue_head(&line->places);
        place = ngx_queue_data(q, ngx_http_agentstream_place_t, queue);

        place->handler(place->data);

        if (q == ngx_queue_head(&line->places)) {
            break;
        }
    }

    line->calling = 0;

    ngx_http_agentstream_line_release(line);
}


/* a sender whose client_request_id is that of a turn that began since the last
   time this was asked, or NULL */

static ngx_http_agentstream_place_t *
ngx_http_agentstream_line_named(ngx_http_agentstream_line_t *line)
{
    uint32_t                            hash;
    ngx_str_node_t                     *sn;
    ngx_http_agentstream_place_t       *place;
    ngx_http_agentstream_store_turn_t   turn;

    if (line->named.root == &line->sentinel) {
        return NULL;
    }

    while (ngx_http_agentstream_store_next(ngx_http_agentstream_worker->zone,
                                           &line->sn.str, line->number, &turn)
           == NGX_OK)
    {
        hash = ngx_murmur_hash2(turn.request_id.data, turn.request_id.len);

        sn = turn.request_id.len
             ? ngx_str_rbtree_lookup(&line->named, &turn.request_id, hash)
             : NULL;

        if (sn) {
            place = ngx_rbtree_data(&sn->node, ngx_http_agentstream_place_t,
                                    named.node);

            if (place->called != turn.number) {
                place->called = turn.number;
                return place;
            }
        }

        line->number = turn.number;
    }

    return NULL;
}


/* a sender that joins knows the turns that began before, except the last one,
   which may have begun in the meantime */

static void
ngx_http_agentstream_line_skip(ngx_http_agentstream_line_t *line)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_store_turn_t  turn;

    rc = ngx_http_agentstream_store_next(ngx_http_agentstream_worker->zone,
                                         &line->sn.str,
                                         NGX_HTTP_AGENTSTREAM_NEWEST, &turn);

    line->number = (rc == NGX_OK) ? turn.number - 1 : turn.number;
}
