
/*
 * Copyright (C) agentstream contributors
 */


/*
 * A session's turns as snapshots, for clients that show them as a whole: a
 * consumer of a follower that puts the records into a view, and sends what it
 * shows, not more often than the client wants.  A slow client needs no more
 * memory than one that keeps up, and a long turn no more than a short one.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_follower.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_view.h"


/* how often a snapshot is sent at most, in milliseconds, and how often one may
   ask for it */
#define NGX_HTTP_AGENTSTREAM_VIEW_INTERVAL      1000
#define NGX_HTTP_AGENTSTREAM_VIEW_INTERVAL_MIN  100
#define NGX_HTTP_AGENTSTREAM_VIEW_INTERVAL_MAX  60000

/* new tool calls are shown after this time at the earliest */
#define NGX_HTTP_AGENTSTREAM_VIEW_TOOL_INTERVAL  5000


/* in the request's pool */

typedef struct {
    ngx_http_agentstream_follower_t      follower;
    ngx_http_agentstream_request_t      *req;
    ngx_http_agentstream_view_t          view;
    ngx_http_agentstream_view_args_t     args;
    ngx_http_agentstream_wire_state_t   *state;    /* of the output's wire */
    ngx_http_agentstream_output_text_t   text;     /* being collected */
    ngx_event_t                          timer;    /* the next snapshot */
    ngx_msec_t                           interval;
    ngx_uint_t                           delta;    /* the form of a snapshot */
    ngx_uint_t                           version;  /* of the view, when the
                                                      last one was made */
    uint32_t                             hash;     /* of the last one */
    unsigned                             due:1;    /* the next one waits until
                                                      the last was sent */
    unsigned                             error:1;  /* the turn has failed before
                                                      it began */
} ngx_http_agentstream_request_view_t;


static ngx_int_t ngx_http_agentstream_request_view_args(
    ngx_http_agentstream_request_view_t *v, ngx_str_t *name);
static ngx_uint_t ngx_http_agentstream_request_view_ready(void *data);
static ngx_int_t ngx_http_agentstream_request_view_take(void *data,
    ngx_http_agentstream_batch_t *batch);
static ngx_int_t ngx_http_agentstream_request_view_records(
    ngx_http_agentstream_request_view_t *v,
    ngx_http_agentstream_batch_t *batch);
static ngx_int_t ngx_http_agentstream_request_view_snapshot(
    ngx_http_agentstream_request_view_t *v, uint64_t seq);
static ngx_int_t ngx_http_agentstream_request_view_add(
    ngx_http_agentstream_request_view_t *v,
    ngx_http_agentstream_record_t *record);
static ngx_int_t ngx_http_agentstream_request_view_send(
    ngx_http_agentstream_request_view_t *v, ngx_uint_t end);
static void ngx_http_agentstream_request_view_failed(void *data, ngx_int_t rc);
static void ngx_http_agentstream_request_view_timer_handler(ngx_event_t *ev);
static void ngx_http_agentstream_request_view_sent_handler(void *data);
static void ngx_http_agentstream_request_view_destroy(void *data);


static ngx_http_agentstream_consumer_t
    ngx_http_agentstream_request_view_consumer =
{
    ngx_http_agentstream_request_view_ready,
    ngx_http_agentstream_request_view_take,
    ngx_http_agentstream_request_view_failed
};


ngx_int_t
ngx_http_agentstream_request_view(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_reader_args_t *args, ngx_str_t *name)
{
    ngx_int_t                             rc;
    ngx_http_request_t                   *r;
    ngx_http_agentstream_wire_t          *wire;
    ngx_http_agentstream_follower_t      *f;
    ngx_http_agentstream_request_view_t  *v;

    r = req->request;
    wire = &ngx_http_agentstream_wire_events;

    v = ngx_pcalloc(r->pool, sizeof(ngx_http_agentstream_request_view_t));
    if (v == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    v->req = req;

    rc = ngx_http_agentstream_request_view_args(v, name);
    if (rc != NGX_OK) {
        return rc;
    }

    v->state = ngx_pcalloc(r->pool, wire->state_size);
    if (v->state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    v->timer.handler = ngx_http_agentstream_request_view_timer_handler;
    v->timer.data = v;
    v->timer.log = r->connection->log;

    /* a worker that exits does not wait for it */
    v->timer.cancelable = 1;

    f = &v->follower;

    f->consumer = &ngx_http_agentstream_request_view_consumer;
    f->data = v;
    f->target = &req->target;
    f->log = r->connection->log;
    f->follow = args->follow;

    /* a snapshot needs the whole turn, unless the client has all of it */

    if (args->seq != NGX_HTTP_AGENTSTREAM_FOLLOWER_LAST) {
        args->turn.len = 0;
        args->seq = 0;
    }

    if (req->output.account) {
        req->output.account->stream = 1;
    }

    rc = ngx_http_agentstream_follower_resume(f, &args->turn, args->seq);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_output_open(&req->output, wire,
                               req->conf->keepalive,
                               ngx_http_agentstream_request_view_sent_handler,
                               ngx_http_agentstream_request_view_destroy, v);
    }

    if (rc == NGX_OK) {
        return NGX_DONE;
    }

    /* the request continues with another response */

    ngx_http_agentstream_follower_close(f);

    return (rc == NGX_DECLINED) ? NGX_DECLINED
                                : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static ngx_int_t
ngx_http_agentstream_request_view_args(ngx_http_agentstream_request_view_t *v,
    ngx_str_t *name)
{
    ngx_int_t   msec;
    ngx_str_t   value;
    ngx_uint_t  progress;

    progress = (name->len == sizeof("progress") - 1
                && ngx_strncmp(name->data, "progress", name->len) == 0);

    v->delta = (name->len == sizeof("delta") - 1
                && ngx_strncmp(name->data, "delta", name->len) == 0);

    if (!progress && !v->delta) {
        return ngx_http_agentstream_request_error(v->req, NGX_HTTP_BAD_REQUEST,
                                     "\"view\" must be \"progress\" or "
                                     "\"delta\"", NULL);
    }

    v->interval = NGX_HTTP_AGENTSTREAM_VIEW_INTERVAL;

    if (ngx_http_arg(v->req->request, (u_char *) "interval",
                     sizeof("interval") - 1, &value)
        == NGX_OK)
    {
        msec = ngx_parse_time(&value, 0);

        if (msec < NGX_HTTP_AGENTSTREAM_VIEW_INTERVAL_MIN
            || msec > NGX_HTTP_AGENTSTREAM_VIEW_INTERVAL_MAX)
        {
            return ngx_http_agentstream_request_error(v->req,
                                         NGX_HTTP_BAD_REQUEST,
                                         "\"interval\" must be a time from "
                                         "100ms to 60s", NULL);
        }

        v->interval = msec;
    }

    v->args.form = NGX_HTTP_AGENTSTREAM_MARKDOWN_PLAIN;
    v->args.limits = ngx_http_agentstream_markdown_limits[v->args.form];
    v->args.thoughts = 1;
    v->args.tool_interval = NGX_HTTP_AGENTSTREAM_VIEW_TOOL_INTERVAL;
    v->args.heartbeat = v->req->conf->heartbeat;

    return NGX_OK;
}


/* ready unless a buffer is being sent */

static ngx_uint_t
ngx_http_agentstream_request_view_ready(void *data)
{
    ngx_http_agentstream_request_view_t *v = data;

    ngx_http_set_log_request(v->req->request->connection->log,
                             v->req->request);

    return !v->req->output.busy;
}


static ngx_int_t
ngx_http_agentstream_request_view_take(void *data,
    ngx_http_agentstream_batch_t *batch)
{
    ngx_http_agentstream_request_view_t *v = data;

    ngx_int_t                       rc;
    ngx_http_request_t             *r;
    ngx_http_agentstream_output_t  *out;

    r = v->req->request;
    out = &v->req->output;

    rc = ngx_http_agentstream_request_view_records(v, batch);

    if (rc == NGX_OK && !r->header_sent) {
        rc = ngx_http_agentstream_output_header(r, out->wire, batch->status);
    }

    /* the first snapshot is sent at once, the others when it is time */

    if (rc == NGX_OK && !v->timer.timer_set && !batch->end
        && v->view.version != v->version)
    {
        rc = ngx_http_agentstream_request_view_snapshot(v, 0);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_request_view_send(v, batch->end);
    }

    if (rc == NGX_ERROR || batch->end) {
        /* the response ends, so it must not be woken again */
        ngx_http_agentstream_follower_close(&v->follower);
        ngx_http_agentstream_output_finalize(out, rc);
        return NGX_DONE;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_request_view_records(
    ngx_http_agentstream_request_view_t *v,
    ngx_http_agentstream_batch_t *batch)
{
    ngx_http_agentstream_record_t  record;

    v->state->turn = batch->turn;

    if (batch->status >= NGX_HTTP_SPECIAL_RESPONSE
        && !v->req->request->header_sent)
    {
        /* there is nothing to view, and the client gets the error as it is */
        v->req->output.wire = v->req->protocol->failed;
        v->error = 1;
    }

    while (ngx_http_agentstream_follower_next(batch, &record) == NGX_OK) {

        if (v->error) {

            if (ngx_http_agentstream_request_view_add(v, &record) != NGX_OK) {
                return NGX_ERROR;
            }

            continue;
        }

        if (ngx_http_agentstream_view_record(&v->view, &record) != NGX_OK) {
            return NGX_ERROR;
        }

        if (record.type == NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED) {
            ngx_http_agentstream_account_start(v->req->output.account,
                                               &batch->turn);
        }

        /* the end of a turn is never left out; who returns with its id has
           all of the turn */

        if (!ngx_http_agentstream_record_terminal(record.type)) {
            continue;
        }

        if (ngx_http_agentstream_request_view_snapshot(v,
                                           NGX_HTTP_AGENTSTREAM_FOLLOWER_LAST)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        ngx_http_agentstream_account_end(v->req->output.account, &record);
    }

    return NGX_OK;
}


/* adds a snapshot to what will be sent, unless it says nothing new */

static ngx_int_t
ngx_http_agentstream_request_view_snapshot(
    ngx_http_agentstream_request_view_t *v, uint64_t seq)
{
    uint32_t                        hash;
    ngx_int_t                       rc;
    ngx_time_t                     *tp;
    ngx_pool_t                     *pool;
    ngx_http_agentstream_record_t   record;

    /* not in the request's pool, which lives as long as the response */

    pool = ngx_create_pool(4096, v->req->request->connection->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&record, sizeof(ngx_http_agentstream_record_t));
    record.seq = seq;

    tp = ngx_timeofday();
    v->args.now = (int64_t) tp->sec * 1000 + tp->msec;

    v->version = v->view.version;

    rc = v->delta ? ngx_http_agentstream_view_delta(&v->view, pool,
                                                    v->args.now, &record.json)
                  : ngx_http_agentstream_view_snapshot(&v->view, pool,
                                                       &v->args, &record.json);

    if (rc == NGX_OK) {
        hash = ngx_murmur_hash2(record.json.data, record.json.len);

        if (hash == v->hash && seq == 0) {
            rc = NGX_DECLINED;
        }

        v->hash = hash;
    }

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_request_view_add(v, &record);
    }

    ngx_destroy_pool(pool);

    return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_request_view_add(ngx_http_agentstream_request_view_t *v,
    ngx_http_agentstream_record_t *record)
{
    u_char                       *p;
    ngx_http_agentstream_wire_t  *wire;

    wire = v->req->output.wire;

    p = ngx_http_agentstream_output_room(&v->text,
                                         wire->size(v->state, record));
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->text.last = wire->record(v->state, p, record);

    /* each snapshot is one packet, made of many records */

    ngx_http_agentstream_account_packet(v->req->output.account,
                                        &v->state->turn, record);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_request_view_send(ngx_http_agentstream_request_view_t *v,
    ngx_uint_t end)
{
    ngx_http_agentstream_output_text_t  text;

    if (v->view.started && v->view.end == NGX_HTTP_AGENTSTREAM_VIEW_RUNNING
        && !v->timer.timer_set && !end)
    {
        ngx_add_timer(&v->timer, v->interval);
    }

    text = v->text;

    if (text.start == NULL && !end) {
        return NGX_OK;
    }

    ngx_memzero(&v->text, sizeof(ngx_http_agentstream_output_text_t));

    return ngx_http_agentstream_output_send(&v->req->output, text.start,
                                            text.last, end);
}


/* it is time for the next snapshot, also because time has passed */

static void
ngx_http_agentstream_request_view_timer_handler(ngx_event_t *ev)
{
    ngx_int_t                             rc;
    ngx_http_agentstream_request_view_t  *v;

    v = ev->data;

    ngx_http_set_log_request(v->req->request->connection->log,
                             v->req->request);

    if (v->req->output.busy) {
        v->due = 1;
        return;
    }

    rc = NGX_OK;

    if (!v->delta || v->view.version != v->version) {
        rc = ngx_http_agentstream_request_view_snapshot(v, 0);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_request_view_send(v, 0);
    }

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_follower_close(&v->follower);
        ngx_http_agentstream_output_finalize(&v->req->output, NGX_ERROR);
    }
}


static void
ngx_http_agentstream_request_view_sent_handler(void *data)
{
    ngx_http_agentstream_request_view_t *v = data;

    /* what was due is made of everything that has happened meanwhile */

    if (v->due) {
        v->due = 0;
        ngx_add_timer(&v->timer, 0);
    }

    ngx_http_agentstream_follower_run(&v->follower);
}


static void
ngx_http_agentstream_request_view_failed(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_request_view_t *v = data;

    if (rc == NGX_DECLINED) {
        rc = ngx_http_agentstream_output_nothing(v->req->request);
    }

    ngx_http_agentstream_output_finalize(&v->req->output, rc);
}


static void
ngx_http_agentstream_request_view_destroy(void *data)
{
    ngx_http_agentstream_request_view_t *v = data;

    ngx_http_agentstream_follower_close(&v->follower);

    if (v->timer.timer_set) {
        ngx_del_timer(&v->timer);
    }

    if (v->text.start) {
        ngx_http_agentstream_output_free(v->text.start);
    }

    ngx_http_agentstream_view_destroy(&v->view);
}
