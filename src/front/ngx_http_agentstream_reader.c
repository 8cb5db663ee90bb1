
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The reader.  Woken, it copies what is new from the journal, spells it into
 * a buffer without the lock, and sends that with one call.  The headers wait
 * for the first packet, so that a turn that fails before it starts has its
 * proper status.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_journal.h"
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_reader.h"


/* records that are copied at a time: spelt, they mostly fit in one buffer of
   the output */
#define NGX_HTTP_AGENTSTREAM_READER_SIZE  12288


/* on the heap: a request that follows a session may have many of them, one
   after the other */

typedef struct {
    /* what every packet needs comes first, in few cache lines */
    ngx_http_agentstream_waiter_t        waiter;       /* for packets */
    ngx_http_agentstream_node_t         *node;         /* the turn's */
    ngx_uint_t                           freed;        /* ... as long as no
                                                          turn was */
    ngx_http_agentstream_cursor_t        cursor;
    ngx_http_request_t                  *request;
    ngx_http_agentstream_output_t       *output;
    ngx_http_agentstream_wire_state_t    state;
    ngx_http_agentstream_reader_args_t   args;
    ngx_http_agentstream_waiter_t        follower;     /* for turns */
    ngx_event_t                          start;
    ngx_uint_t                           refused;      /* see args.attach */
    u_char                               turn[
                                         NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_reader_t;


/* what there is to read, as seen under the lock */

typedef struct {
    ngx_http_agentstream_records_t       records;  /* that were copied */
    size_t                               need;     /* of one that is larger
                                                      than the buffer */
    ngx_uint_t                           status;
    unsigned                             more:1;   /* there are packets */
    unsigned                             lost:1;   /* ... but not the one
                                                      wanted */
    unsigned                             all:1;    /* none is left */
    unsigned                             ended:1;
    unsigned                             begun:1;  /* its status is known */
    unsigned                             orphan:1;
} ngx_http_agentstream_reader_view_t;


static void ngx_http_agentstream_reader_destroy(void *data);
static void ngx_http_agentstream_reader_detach(
    ngx_http_agentstream_reader_t *reader);
static void ngx_http_agentstream_reader_start_handler(ngx_event_t *ev);
static void ngx_http_agentstream_reader_wake_handler(void *data);
static ngx_int_t ngx_http_agentstream_reader_next(
    ngx_http_agentstream_reader_t *reader);
static ngx_int_t ngx_http_agentstream_reader_open(
    ngx_http_agentstream_reader_t *reader);
static ngx_int_t ngx_http_agentstream_reader_send(
    ngx_http_agentstream_reader_t *reader, ngx_uint_t *end);
static ngx_int_t ngx_http_agentstream_reader_read(
    ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_reader_view_t *view, u_char **p, u_char **last);
static u_char *ngx_http_agentstream_reader_spell(
    ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_records_t *records, u_char **last);
static void ngx_http_agentstream_reader_look(
    ngx_http_agentstream_reader_t *reader, u_char *buf, size_t size,
    ngx_http_agentstream_reader_view_t *view);
static ngx_int_t ngx_http_agentstream_reader_lost(
    ngx_http_agentstream_reader_t *reader);
static u_char *ngx_http_agentstream_reader_retry(
    ngx_http_agentstream_reader_t *reader, u_char *p);


ngx_int_t
ngx_http_agentstream_reader_attach(ngx_http_request_t *r,
    ngx_http_agentstream_reader_args_t *args)
{
    ngx_http_agentstream_reader_t  *reader;

    reader = ngx_calloc(sizeof(ngx_http_agentstream_reader_t), ngx_cycle->log);
    if (reader == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    reader->request = r;
    reader->output = args->output;
    reader->args = *args;
    reader->cursor.seq = args->seq;

    reader->args.turn.data = reader->turn;

    if (args->turn.len) {
        ngx_memcpy(reader->turn, args->turn.data, args->turn.len);
    }

    reader->start.handler = ngx_http_agentstream_reader_start_handler;
    reader->start.data = reader;
    reader->start.log = r->connection->log;

    reader->waiter.handler = ngx_http_agentstream_reader_wake_handler;
    reader->waiter.data = reader;
    reader->follower.handler = ngx_http_agentstream_reader_wake_handler;
    reader->follower.data = reader;

    if ((args->turn.len
         && ngx_http_agentstream_notify_attach(&reader->waiter,
                                               &reader->args.turn)
            != NGX_OK)
        || (args->follow
            && ngx_http_agentstream_notify_follow(&reader->follower,
                                                  &reader->args.session)
               != NGX_OK)
        || ngx_http_agentstream_output_open(reader->output,
                                      &ngx_http_agentstream_wire_events,
                                      args->conf->keepalive,
                                      ngx_http_agentstream_reader_wake_handler,
                                      ngx_http_agentstream_reader_destroy,
                                      reader)
           != NGX_OK)
    {
        /* the request goes on with another response */
        ngx_http_agentstream_reader_destroy(reader);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* not at once: the request may end in it, and its callers go on */

    ngx_post_event(&reader->start, &ngx_posted_events);

    return NGX_DONE;
}


static void
ngx_http_agentstream_reader_start_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_reader_t *reader = ev->data;

    ngx_http_set_log_request(reader->request->connection->log,
                             reader->request);

    ngx_http_agentstream_reader_wake_handler(reader);
}


static void
ngx_http_agentstream_reader_destroy(void *data)
{
    ngx_http_agentstream_reader_t *reader = data;

    ngx_http_agentstream_reader_detach(reader);
    ngx_free(reader);
}


static void
ngx_http_agentstream_reader_detach(ngx_http_agentstream_reader_t *reader)
{
    ngx_http_agentstream_notify_detach(&reader->waiter);
    ngx_http_agentstream_notify_detach(&reader->follower);

    if (reader->start.posted) {
        ngx_delete_posted_event(&reader->start);
    }
}


static void
ngx_http_agentstream_reader_wake_handler(void *data)
{
    ngx_http_agentstream_reader_t *reader = data;

    ngx_int_t   rc;
    ngx_uint_t  end;

    while (!reader->output->busy) {
        end = 0;
        rc = NGX_OK;

        if (reader->args.turn.len == 0) {
            rc = ngx_http_agentstream_reader_next(reader);
        }

        if (rc == NGX_OK) {
            rc = ngx_http_agentstream_reader_send(reader, &end);
        }

        if (rc == NGX_DECLINED) {
            rc = ngx_http_agentstream_reader_lost(reader);

            if (rc == NGX_DONE) {
                return;
            }
        }

        if (rc == NGX_ERROR || end) {
            /* on its way out, it is not to be woken again */
            ngx_http_agentstream_reader_detach(reader);
            ngx_http_agentstream_output_finalize(reader->output, rc);
            return;
        }

        if (rc == NGX_BUSY) {
            /* nothing to send for now */
            return;
        }
    }
}


/* the session's next turn; until there is one, the stream is just open */

static ngx_int_t
ngx_http_agentstream_reader_next(ngx_http_agentstream_reader_t *reader)
{
    ngx_str_t                    *turn;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;
    turn = &reader->args.turn;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_turn_locked(zone, &reader->args.key,
                                                 reader->args.number);
    if (node) {
        turn->len = node->sn.str.len;
        ngx_memcpy(turn->data, node->sn.str.data, node->sn.str.len);
        reader->args.number = node->number;
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (turn->len) {
        ngx_memzero(&reader->cursor, sizeof(ngx_http_agentstream_cursor_t));
        reader->cursor.seq = 1;

        return ngx_http_agentstream_notify_attach(&reader->waiter, turn);
    }

    if (!reader->request->header_sent) {
        return ngx_http_agentstream_reader_open(reader);
    }

    if (ngx_exiting) {
        /* the client comes back to a worker that stays */
        reader->args.follow = 0;
        return NGX_OK;
    }

    return NGX_BUSY;
}


static ngx_int_t
ngx_http_agentstream_reader_open(ngx_http_agentstream_reader_t *reader)
{
    u_char     *p;
    ngx_int_t   rc;

    p = ngx_http_agentstream_output_alloc(NGX_HTTP_AGENTSTREAM_WIRE_RETRY);
    if (p == NULL) {
        return NGX_ERROR;
    }

    reader->args.retry = 0;

    if (ngx_http_agentstream_output_header(reader->request,
                                           reader->output->wire, NGX_HTTP_OK)
        != NGX_OK)
    {
        ngx_http_agentstream_output_free(p);
        return NGX_ERROR;
    }

    rc = ngx_http_agentstream_output_send(reader->output, p,
                              ngx_http_agentstream_reader_retry(reader, p), 0);

    return (rc == NGX_ERROR) ? NGX_ERROR : NGX_BUSY;
}


/*
 * What is new, as far as it fits.  NGX_OK, NGX_AGAIN: it is on its way, *end:
 * it was the last; NGX_BUSY: there is no more; NGX_DECLINED: what comes next is
 * not kept any more.
 */

static ngx_int_t
ngx_http_agentstream_reader_send(ngx_http_agentstream_reader_t *reader,
    ngx_uint_t *end)
{
    u_char                              *p, *last;
    ngx_int_t                            rc;
    ngx_http_agentstream_reader_view_t   view;

    if (ngx_http_agentstream_reader_read(reader, &view, &p, &last) != NGX_OK) {
        return NGX_ERROR;
    }

    *end = (view.ended && !reader->args.follow);

    if (p == NULL && !*end) {
        rc = view.lost ? NGX_DECLINED : NGX_BUSY;

        if (rc == NGX_BUSY && view.begun && !reader->request->header_sent) {
            /* it may be silent for long */
            rc = ngx_http_agentstream_reader_open(reader);
        }

        goto done;
    }

    if (view.status == 0 || reader->args.follow) {
        /* the failure of one turn is not that of all to come */
        view.status = NGX_HTTP_OK;
    }

    if (!reader->request->header_sent
        && ngx_http_agentstream_output_header(reader->request,
                                              reader->output->wire,
                                              view.status)
           != NGX_OK)
    {
        rc = NGX_ERROR;
        goto done;
    }

    rc = ngx_http_agentstream_output_send(reader->output, p, last, *end);
    p = NULL;

    if (rc == NGX_OK && view.all && !*end) {
        rc = NGX_BUSY;
    }

done:

    if (p) {
        ngx_http_agentstream_output_free(p);
    }

    if (view.ended && !*end) {
        reader->args.turn.len = 0;
        reader->node = NULL;
        ngx_http_agentstream_notify_detach(&reader->waiter);

        if (rc == NGX_BUSY) {
            rc = NGX_OK;
        }
    }

    if (view.orphan && reader->args.orphan) {
        reader->args.orphan(&reader->args.turn, reader->args.data);
    }

    return rc;
}


/* what is new, spelt from *p to *last; *p NULL: nothing is */

static ngx_int_t
ngx_http_agentstream_reader_read(ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_reader_view_t *view, u_char **p, u_char **last)
{
    size_t      size;
    u_char     *large;
    uint64_t    buf[NGX_HTTP_AGENTSTREAM_READER_SIZE / 8];
    ngx_int_t   rc;

    *p = NULL;
    *last = NULL;

    rc = NGX_OK;
    large = NULL;

    ngx_http_agentstream_reader_look(reader, (u_char *) buf, sizeof(buf), view);

    while (view->need) {
        size = view->need;

        if (large) {
            ngx_free(large);
        }

        large = ngx_alloc(size, ngx_cycle->log);
        if (large == NULL) {
            return NGX_ERROR;
        }

        ngx_http_agentstream_reader_look(reader, large, size, view);
    }

    if (view->records.pos != view->records.last) {
        *p = ngx_http_agentstream_reader_spell(reader, &view->records, last);
        rc = *p ? NGX_OK : NGX_ERROR;
    }

    if (large) {
        ngx_free(large);
    }

    return rc;
}


static u_char *
ngx_http_agentstream_reader_spell(ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_records_t *records, u_char **last)
{
    size_t                           size;
    u_char                          *p, *start;
    ngx_http_agentstream_wire_t     *wire;
    ngx_http_agentstream_record_t    record;
    ngx_http_agentstream_records_t   copy;

    wire = reader->output->wire;
    reader->state.turn = reader->args.turn;

    copy = *records;
    size = reader->args.retry ? NGX_HTTP_AGENTSTREAM_WIRE_RETRY : 0;

    while (ngx_http_agentstream_record_next(&copy, &record) == NGX_OK) {
        size += wire->size(&reader->state, &record);
    }

    start = ngx_http_agentstream_output_alloc(size);
    if (start == NULL) {
        return NULL;
    }

    p = start;

    if (reader->args.retry) {
        reader->args.retry = 0;
        p = ngx_http_agentstream_reader_retry(reader, p);
    }

    while (ngx_http_agentstream_record_next(records, &record) == NGX_OK) {
        p = wire->record(&reader->state, p, &record);
    }

    *last = p;

    return start;
}


static void
ngx_http_agentstream_reader_look(ngx_http_agentstream_reader_t *reader,
    u_char *buf, size_t size, ngx_http_agentstream_reader_view_t *view)
{
    ngx_http_agentstream_node_t     *node;
    ngx_http_agentstream_zone_t     *zone;
    ngx_http_agentstream_cursor_t   *cursor;
    ngx_http_agentstream_journal_t  *journal;

    ngx_memzero(view, sizeof(ngx_http_agentstream_reader_view_t));

    if (reader->args.turn.len == 0) {
        view->ended = 1;
        return;
    }

    zone = ngx_http_agentstream_worker->zone;
    cursor = &reader->cursor;

    ngx_http_agentstream_zone_lock(zone);

    if (reader->node == NULL || reader->freed != zone->sh->freed) {
        reader->node = ngx_http_agentstream_zone_find_locked(zone,
                                                         &reader->args.turn);
        reader->freed = zone->sh->freed;
    }

    node = reader->node;

    if (node == NULL) {
        view->lost = 1;
        goto done;
    }

    journal = &node->journal;

    view->status = node->status;
    view->begun = (journal->last_seq != 0);
    view->more = (cursor->seq <= journal->last_seq);
    reader->refused = (node->refused && reader->args.attach);
    view->lost = (cursor->seq < journal->first_seq || reader->refused);

    if (view->lost) {
        goto done;
    }

    if (view->more) {
        view->need = ngx_http_agentstream_journal_read_locked(node, cursor,
                                                  buf, size, &view->records);
    }

    view->all = (cursor->seq > journal->last_seq);

    if (node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED) {
        view->ended = view->all;

    } else if (!view->more) {
        view->orphan = ngx_http_agentstream_zone_gone_locked(zone,
                                                             &node->owner);
    }

done:

    ngx_http_agentstream_zone_unlock(zone);
}


/* never a silent gap: somebody else takes over, or the connection breaks */

static ngx_int_t
ngx_http_agentstream_reader_lost(ngx_http_agentstream_reader_t *reader)
{
    ngx_int_t                       rc;
    ngx_http_request_t             *r;
    ngx_http_agentstream_output_t  *out;

    r = reader->request;
    out = reader->output;

    if (!reader->refused) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "agentstream reader: packets from %uL on of turn %V are "
                      "not kept any more", reader->cursor.seq,
                      &reader->args.turn);
    }

    ngx_http_agentstream_reader_detach(reader);
    ngx_http_agentstream_output_close(out);

    rc = reader->args.lost(r, &reader->args.turn, reader->args.number,
                           reader->args.data);

    ngx_http_agentstream_reader_destroy(reader);

    if (rc != NGX_DONE) {
        ngx_http_agentstream_output_finalize(out, rc);
    }

    return NGX_DONE;
}


/* clients are not to come back all at once after nginx was down */

static u_char *
ngx_http_agentstream_reader_retry(ngx_http_agentstream_reader_t *reader,
    u_char *p)
{
    return reader->output->wire->retry(p, 1000 + ngx_random() % 2000);
}
