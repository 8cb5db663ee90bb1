
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The reader: a consumer of a follower that is a client.  Each batch of
 * records is written to a buffer, in the form of the wire, and sent with one
 * call.  The headers wait for the first batch, so that a turn that fails
 * before it starts has its proper status.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_follower.h"
#include "ngx_http_agentstream_reader.h"
#include "ngx_http_agentstream_wire.h"


/* in milliseconds */
#define NGX_HTTP_AGENTSTREAM_READER_DAY  86400000


/* in the request's pool */

typedef struct {
    ngx_http_agentstream_follower_t      follower;
    ngx_http_request_t                  *request;
    ngx_http_agentstream_output_t       *output;
    ngx_http_agentstream_wire_t         *failed;
    ngx_http_agentstream_wire_state_t   *state;    /* of the output's wire */
    void                                *context;  /* the request of the
                                                      state */
    uint64_t                             skip;
    ngx_uint_t                           optional;
    ngx_uint_t                           retry;    /* send how long to wait
                                                      before reconnecting */
    ngx_uint_t                           live;     /* it has had all packets
                                                      once, so that what
                                                      follows is new */
} ngx_http_agentstream_reader_t;


static ngx_uint_t ngx_http_agentstream_reader_ready(void *data);
static ngx_int_t ngx_http_agentstream_reader_take(void *data,
    ngx_http_agentstream_batch_t *batch);
static void ngx_http_agentstream_reader_begin(
    ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_batch_t *batch);
static void ngx_http_agentstream_reader_lag(
    ngx_http_agentstream_record_t *record);
static void ngx_http_agentstream_reader_failed(void *data, ngx_int_t rc);
static ngx_int_t ngx_http_agentstream_reader_state(
    ngx_http_agentstream_reader_t *reader, ngx_http_agentstream_wire_t *wire);
static ngx_int_t ngx_http_agentstream_reader_spell(
    ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_batch_t *batch, u_char **start, u_char **last);
static u_char *ngx_http_agentstream_reader_write(
    ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_batch_t *batch, u_char *p);
static void ngx_http_agentstream_reader_sent_handler(void *data);
static void ngx_http_agentstream_reader_destroy(void *data);


static ngx_http_agentstream_consumer_t  ngx_http_agentstream_reader_consumer =
{
    ngx_http_agentstream_reader_ready,
    ngx_http_agentstream_reader_take,
    ngx_http_agentstream_reader_failed
};


ngx_int_t
ngx_http_agentstream_reader_attach(ngx_http_request_t *r,
    ngx_http_agentstream_reader_args_t *args)
{
    ngx_int_t                         rc;
    ngx_http_agentstream_reader_t    *reader;
    ngx_http_agentstream_follower_t  *f;

    reader = ngx_pcalloc(r->pool, sizeof(ngx_http_agentstream_reader_t));
    if (reader == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    reader->request = r;
    reader->output = args->output;
    reader->failed = args->failed;
    reader->context = args->context;
    reader->skip = args->skip;
    reader->optional = args->optional;
    reader->retry = !args->sender;
    reader->live = args->sender;

    if (ngx_http_agentstream_reader_state(reader, args->wire) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    reader->state->answered = args->answered;
    reader->state->pending = args->pending;

    f = &reader->follower;

    f->consumer = &ngx_http_agentstream_reader_consumer;
    f->data = reader;
    f->target = args->target;
    f->log = r->connection->log;
    f->follow = args->follow;
    f->sender = args->sender;

    rc = args->sender ? ngx_http_agentstream_follower_read(f, &args->turn)
                      : ngx_http_agentstream_follower_resume(f, &args->turn,
                                                             args->seq);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_output_open(reader->output,
                                      args->wire,
                                      args->target->conf->keepalive,
                                      ngx_http_agentstream_reader_sent_handler,
                                      ngx_http_agentstream_reader_destroy,
                                      reader);
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
ngx_http_agentstream_reader_state(ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_wire_t *wire)
{
    reader->state = ngx_pcalloc(reader->request->pool, wire->state_size);

    if (reader->state == NULL) {
        return NGX_ERROR;
    }

    reader->state->pool = reader->request->pool;
    reader->state->request = reader->context;

    return NGX_OK;
}


/* ready unless a buffer is being sent */

static ngx_uint_t
ngx_http_agentstream_reader_ready(void *data)
{
    ngx_http_agentstream_reader_t *reader = data;

    ngx_http_set_log_request(reader->request->connection->log,
                             reader->request);

    return !reader->output->busy;
}


static ngx_int_t
ngx_http_agentstream_reader_take(void *data,
    ngx_http_agentstream_batch_t *batch)
{
    ngx_http_agentstream_reader_t *reader = data;

    u_char                         *p, *last;
    ngx_int_t                       rc;
    ngx_http_agentstream_output_t  *out;

    out = reader->output;
    p = NULL;
    rc = NGX_OK;

    if (batch->status == NGX_HTTP_NOT_FOUND && reader->optional
        && !reader->request->header_sent)
    {
        ngx_http_agentstream_follower_close(&reader->follower);
        ngx_http_agentstream_reader_failed(reader, NGX_DECLINED);
        return NGX_DONE;
    }

    if (batch->status >= NGX_HTTP_SPECIAL_RESPONSE
        && !reader->request->header_sent
        && out->wire != reader->failed)
    {
        out->wire = reader->failed;
        rc = ngx_http_agentstream_reader_state(reader, out->wire);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_reader_spell(reader, batch, &p, &last);
    }

    if (rc == NGX_OK && !reader->request->header_sent) {
        ngx_http_agentstream_reader_begin(reader, batch);

        rc = ngx_http_agentstream_output_header(reader->request, out->wire,
                                                batch->status);

        if (rc != NGX_OK && p) {
            ngx_http_agentstream_output_free(p);
        }
    }

    if (rc == NGX_OK && (p || batch->end)) {
        rc = ngx_http_agentstream_output_send(out, p, last, batch->end);
    }

    if (rc == NGX_ERROR || batch->end) {
        /* the response ends, so it must not be woken again */
        ngx_http_agentstream_follower_close(&reader->follower);
        ngx_http_agentstream_output_finalize(out, rc);
        return NGX_DONE;
    }

    return NGX_OK;
}


/* *start NULL: there is nothing to send; batch->end is set if the response ends
   although the turn goes on */

static ngx_int_t
ngx_http_agentstream_reader_spell(ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_batch_t *batch, u_char **start, u_char **last)
{
    size_t                          size;
    u_char                         *p;
    ngx_uint_t                      retry;
    ngx_http_agentstream_wire_t    *wire;
    ngx_http_agentstream_batch_t    copy;
    ngx_http_agentstream_record_t   record;

    *start = NULL;
    *last = NULL;

    wire = reader->output->wire;
    reader->state->turn = batch->turn;

    /* a rebuilt turn has no such line */
    retry = (reader->retry && !batch->rebuilt);

    copy = *batch;
    size = retry ? NGX_HTTP_AGENTSTREAM_WIRE_RETRY : 0;

    while (ngx_http_agentstream_follower_next(&copy, &record) == NGX_OK) {
        size += wire->size(reader->state, &record);
    }

    /* the wire says only after the records that the response ends here */

    if (size || batch->end) {
        size += wire->end_size + reader->state->pending;
    }

    if (size == 0) {
        return NGX_OK;
    }

    p = ngx_http_agentstream_output_alloc(size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    *start = p;

    if (retry) {
        /* clients must not all reconnect at the same time after nginx was
           down */
        p = wire->retry(p, 1000 + ngx_random() % 2000);
        reader->retry = 0;
    }

    p = ngx_http_agentstream_reader_write(reader, batch, p);

    if (reader->state->failed) {
        ngx_http_agentstream_output_free(*start);
        *start = NULL;
        return NGX_ERROR;
    }

    if (reader->state->ended || (reader->state->waits && batch->all)) {
        batch->end = 1;
    }

    if (batch->end) {
        p = wire->end(reader->state, p);
    }

    if (p == *start) {
        ngx_http_agentstream_output_free(p);
        *start = NULL;
        return NGX_OK;
    }

    *last = p;

    return NGX_OK;
}


/* the sender of a prompt gets the first packet of its turn */

static void
ngx_http_agentstream_reader_begin(ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_batch_t *batch)
{
    ngx_time_t          *tp;
    ngx_msec_int_t       ms;
    ngx_http_request_t  *r;

    if (!reader->follower.sender || batch->status != NGX_HTTP_OK) {
        return;
    }

    r = reader->request;
    tp = ngx_timeofday();

    ms = (ngx_msec_int_t) ((tp->sec - r->start_sec) * 1000
                           + (tp->msec - r->start_msec));

    ngx_http_agentstream_observe(FIRST_PACKET, ngx_max(ms, 0));
}


/*
 * How long the oldest packet of a batch has waited for this client.  The time
 * of a packet is in the packet, so that nothing else has to be kept; the date
 * does not matter, because no packet waits for a day.
 */

static void
ngx_http_agentstream_reader_lag(ngx_http_agentstream_record_t *record)
{
    ngx_int_t    ms;
    ngx_time_t  *tp;

    ms = ngx_http_agentstream_acp_time(record);

    if (ms == NGX_ERROR) {
        return;
    }

    tp = ngx_timeofday();

    ms = (ngx_int_t) (tp->sec % 86400) * 1000 + tp->msec - ms;

    if (ms < -NGX_HTTP_AGENTSTREAM_READER_DAY / 2) {
        ms += NGX_HTTP_AGENTSTREAM_READER_DAY;
    }

    ngx_http_agentstream_observe(DELIVERY_LAG, ngx_max(ms, 0));
}


static u_char *
ngx_http_agentstream_reader_write(ngx_http_agentstream_reader_t *reader,
    ngx_http_agentstream_batch_t *batch, u_char *p)
{
    u_char                             *end;
    ngx_uint_t                          measure;
    ngx_http_agentstream_wire_t        *wire;
    ngx_http_agentstream_record_t       record;
    ngx_http_agentstream_wire_state_t  *state;

    wire = reader->output->wire;
    state = reader->state;
    measure = (reader->live && !batch->rebuilt);

    if (batch->all) {
        reader->live = 1;
    }

    while (!state->ended
           && ngx_http_agentstream_follower_next(batch, &record) == NGX_OK)
    {
        /* a rebuilt turn is told from its beginning */
        state->silent = (record.seq <= reader->skip && !batch->rebuilt);

        end = wire->record(state, p, &record);

        if (state->silent) {
            continue;
        }

        p = end;

        if (measure) {
            ngx_http_agentstream_reader_lag(&record);
            measure = 0;
        }

        if (reader->output->account) {
            ngx_http_agentstream_account_packet(reader->output->account,
                                                &batch->turn, &record);
        }
    }

    return p;
}


static void
ngx_http_agentstream_reader_failed(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_reader_t *reader = data;

    if (rc == NGX_DECLINED) {
        rc = ngx_http_agentstream_output_nothing(reader->request);
    }

    ngx_http_agentstream_output_finalize(reader->output, rc);
}


static void
ngx_http_agentstream_reader_sent_handler(void *data)
{
    ngx_http_agentstream_reader_t *reader = data;

    ngx_http_agentstream_follower_run(&reader->follower);
}


static void
ngx_http_agentstream_reader_destroy(void *data)
{
    ngx_http_agentstream_reader_t *reader = data;

    ngx_http_agentstream_follower_close(&reader->follower);
}
