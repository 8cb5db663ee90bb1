
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Whole answers: the response is one JSON object, when the turn is over.  The
 * request follows the turn like a reader, but keeps nothing of it; when the
 * turn has ended, the answer is collected.  A client that does not want to wait
 * so long gets 202, and the turn goes on (docs/protocol.md, "Whole answers").
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_request_whole_int.h"


static void ngx_http_agentstream_request_whole_patience(
    ngx_http_agentstream_request_whole_t *w);
static void ngx_http_agentstream_request_whole_timer_handler(ngx_event_t *ev);
static ngx_uint_t ngx_http_agentstream_request_whole_ready(void *data);
static ngx_int_t ngx_http_agentstream_request_whole_take(void *data,
    ngx_http_agentstream_batch_t *batch);
static void ngx_http_agentstream_request_whole_failed(void *data,
    ngx_int_t rc);
static ngx_int_t ngx_http_agentstream_request_whole_accepted(
    ngx_http_agentstream_request_whole_t *w);
static ngx_int_t ngx_http_agentstream_request_whole_location(
    ngx_http_agentstream_request_whole_t *w);
static ngx_int_t ngx_http_agentstream_request_whole_end(
    ngx_http_agentstream_request_whole_t *w,
    ngx_http_agentstream_record_t *record);
static ngx_int_t ngx_http_agentstream_request_whole_error(
    ngx_http_agentstream_request_whole_t *w,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);
static ngx_int_t ngx_http_agentstream_request_whole_ended(
    ngx_http_agentstream_request_whole_t *w, ngx_http_agentstream_json_t *json);
static ngx_int_t ngx_http_agentstream_request_whole_copy(
    ngx_http_agentstream_request_whole_t *w, ngx_str_t *dst, ngx_str_t *src);
static void ngx_http_agentstream_request_whole_finalize(
    ngx_http_agentstream_request_whole_t *w, ngx_int_t rc);
static void ngx_http_agentstream_request_whole_destroy(void *data);


static ngx_http_agentstream_consumer_t
    ngx_http_agentstream_request_whole_consumer =
{
    ngx_http_agentstream_request_whole_ready,
    ngx_http_agentstream_request_whole_take,
    ngx_http_agentstream_request_whole_failed
};


ngx_int_t
ngx_http_agentstream_request_whole(ngx_http_agentstream_request_t *req,
    ngx_str_t *turn, uint64_t seq, ngx_uint_t sender)
{
    ngx_int_t                              rc;
    ngx_http_request_t                    *r;
    ngx_http_agentstream_follower_t       *f;
    ngx_http_agentstream_request_whole_t  *w;

    r = req->request;

    w = ngx_pcalloc(r->pool, sizeof(ngx_http_agentstream_request_whole_t));
    if (w == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    w->req = req;

    w->timer.handler = ngx_http_agentstream_request_whole_timer_handler;
    w->timer.data = w;
    w->timer.log = r->connection->log;

    f = &w->follower;

    f->consumer = &ngx_http_agentstream_request_whole_consumer;
    f->data = w;
    f->target = &req->target;
    f->log = r->connection->log;
    f->sender = sender;

    rc = sender ? ngx_http_agentstream_follower_read(f, turn)
                : ngx_http_agentstream_follower_resume(f, turn, seq);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_output_open(&req->output,
                                   &ngx_http_agentstream_wire_array, 0,
                                   ngx_http_agentstream_request_whole_send,
                                   ngx_http_agentstream_request_whole_destroy,
                                   w);
    }

    if (rc == NGX_OK) {
        ngx_http_agentstream_request_whole_patience(w);
        return NGX_DONE;
    }

    /* the request continues with another response */

    ngx_http_agentstream_follower_close(f);

    return (rc == NGX_DECLINED) ? NGX_DECLINED
                                : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


/* how long the client wants to wait, since its request arrived; the time in a
   queue counts, too */

static void
ngx_http_agentstream_request_whole_patience(
    ngx_http_agentstream_request_whole_t *w)
{
    ngx_time_t                     *tp;
    ngx_msec_int_t                  wait;
    ngx_http_request_t             *r;
    ngx_http_agentstream_prefer_t  *prefer;

    r = w->req->request;
    prefer = &w->req->prefer;

    if (!prefer->has_wait) {
        w->late = prefer->respond_async;
        return;
    }

    /* the turn does not last longer than this */

    w->wait = ngx_min(prefer->wait, (w->req->conf->turn_timeout + 999) / 1000);

    tp = ngx_timeofday();

    wait = (ngx_msec_int_t) (w->wait * 1000)
           - (ngx_msec_int_t) ((tp->sec - r->start_sec) * 1000
                               + (tp->msec - r->start_msec));

    if (wait <= 0) {
        w->late = 1;
        return;
    }

    ngx_add_timer(&w->timer, (ngx_msec_t) wait);
}


static void
ngx_http_agentstream_request_whole_timer_handler(ngx_event_t *ev)
{
    ngx_http_request_t                    *r;
    ngx_http_agentstream_request_whole_t  *w;

    w = ev->data;
    r = w->req->request;

    ngx_http_set_log_request(r->connection->log, r);

    w->late = 1;

    /* a prompt that OpenCode has not accepted yet may still be refused */

    if (w->begun) {
        ngx_http_agentstream_request_whole_finalize(w,
                               ngx_http_agentstream_request_whole_accepted(w));
    }
}


static ngx_uint_t
ngx_http_agentstream_request_whole_ready(void *data)
{
    ngx_http_agentstream_request_whole_t *w = data;

    ngx_http_set_log_request(w->req->request->connection->log,
                             w->req->request);
    return 1;
}


static ngx_int_t
ngx_http_agentstream_request_whole_take(void *data,
    ngx_http_agentstream_batch_t *batch)
{
    ngx_http_agentstream_request_whole_t *w = data;

    ngx_int_t                      rc;
    ngx_http_agentstream_record_t  record;

    if (!w->begun) {
        w->begun = 1;
        w->status = batch->status;
    }

    ngx_http_agentstream_account_turn(w->req->output.account, &batch->turn);

    rc = ngx_http_agentstream_request_whole_copy(w, &w->turn, &batch->turn);

    while (rc == NGX_OK
           && ngx_http_agentstream_follower_next(batch, &record) == NGX_OK)
    {
        if (ngx_http_agentstream_record_terminal(record.type)) {
            rc = ngx_http_agentstream_request_whole_end(w, &record);
            goto done;
        }
    }

    if (rc == NGX_OK && !batch->end) {

        if (!w->late) {
            return NGX_OK;
        }

        rc = ngx_http_agentstream_request_whole_accepted(w);

    } else {
        rc = NGX_ERROR;
    }

done:

    if (rc != NGX_DONE) {
        ngx_http_agentstream_request_whole_finalize(w, rc);
    }

    return NGX_DONE;
}


/* a copy in the request's pool, unless dst is one already */

static ngx_int_t
ngx_http_agentstream_request_whole_copy(
    ngx_http_agentstream_request_whole_t *w, ngx_str_t *dst, ngx_str_t *src)
{
    if (dst->len == src->len
        && ngx_memcmp(dst->data, src->data, src->len) == 0)
    {
        return NGX_OK;
    }

    dst->len = src->len;
    dst->data = ngx_pstrdup(w->req->request->pool, src);

    return dst->data ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_agentstream_request_whole_failed(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_request_whole_t *w = data;

    if (rc == NGX_DECLINED) {
        rc = ngx_http_agentstream_request_nothing(w->req);
    }

    ngx_http_agentstream_request_whole_finalize(w, rc);
}


/* 202: the client does not want to wait any longer */

static ngx_int_t
ngx_http_agentstream_request_whole_accepted(
    ngx_http_agentstream_request_whole_t *w)
{
    u_char     *p;
    ngx_str_t   body, *session;

    session = &w->req->target.session;

    /* before the client is told so */
    ngx_http_agentstream_store_release(ngx_http_agentstream_worker->zone,
                                       &w->turn);

    body.len = sizeof("{\"turnId\":\"\",\"sessionId\":\"\","
                      "\"running\":true}") - 1
               + w->turn.len + session->len;
    body.data = ngx_pnalloc(w->req->request->pool, body.len);

    if (body.data == NULL
        || ngx_http_agentstream_request_whole_location(w) != NGX_OK
        || ngx_http_agentstream_request_whole_applied(w, NGX_HTTP_ACCEPTED)
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    p = ngx_sprintf(body.data, "{\"turnId\":\"%V\",\"sessionId\":\"%V\","
                    "\"running\":true}", &w->turn, session);
    body.len = p - body.data;

    return ngx_http_agentstream_request_reply(w->req, NGX_HTTP_ACCEPTED,
                                              &body);
}


/*
 * Where the client can wait for this turn: its events, with a cursor before the
 * first one, so that it does not get a later turn of the session.  It is not
 * r->headers_out.location, to which nginx would add a server's name.
 */

static ngx_int_t
ngx_http_agentstream_request_whole_location(
    ngx_http_agentstream_request_whole_t *w)
{
    u_char              *p, *value;
    size_t               len, size;
    ngx_str_t           *session;
    ngx_http_request_t  *r;

    r = w->req->request;
    session = &w->req->target.session;

    /* the path up to the session's id or name */
    len = w->req->path.segments[0].data - r->uri.data;

    size = len + 2 * ngx_escape_uri(NULL, r->uri.data, len, NGX_ESCAPE_URI);

    value = ngx_pnalloc(r->pool, size + session->len
                                 + sizeof("/events?last_event_id=:0")
                                 + w->turn.len);
    if (value == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_escape_uri(value, r->uri.data, len, NGX_ESCAPE_URI);

    p = ngx_sprintf(value + size, "%V/events?last_event_id=%V:0", session,
                    &w->turn);
    *p = '\0';

    return ngx_http_agentstream_output_add_header(r, "Location",
                                                  (char *) value);
}


/* RFC 7240, 3; a preference that made no difference was applied, too */

ngx_int_t
ngx_http_agentstream_request_whole_applied(
    ngx_http_agentstream_request_whole_t *w, ngx_uint_t status)
{
    u_char                         *p, *value;
    ngx_uint_t                      async;
    ngx_http_agentstream_prefer_t  *prefer;

    prefer = &w->req->prefer;
    async = (prefer->respond_async && status == NGX_HTTP_ACCEPTED);

    if (!prefer->has_wait && !async) {
        return NGX_OK;
    }

    value = ngx_pnalloc(w->req->request->pool,
                        sizeof("respond-async, wait=") + NGX_INT_T_LEN);
    if (value == NULL) {
        return NGX_ERROR;
    }

    p = ngx_sprintf(value, "%s%s", async ? "respond-async" : "",
                    (async && prefer->has_wait) ? ", " : "");

    if (prefer->has_wait) {
        p = ngx_sprintf(p, "wait=%ui", w->wait);
    }

    *p = '\0';

    return ngx_http_agentstream_output_add_header(w->req->request,
                                                  "Preference-Applied",
                                                  (char *) value);
}


/* the turn's last record.  NGX_DONE: the answer is being collected; any other
   value: what to finalize the request with */

static ngx_int_t
ngx_http_agentstream_request_whole_end(ngx_http_agentstream_request_whole_t *w,
    ngx_http_agentstream_record_t *record)
{
    ngx_int_t                    rc;
    ngx_http_agentstream_json_t  json;

    if (w->timer.timer_set) {
        ngx_del_timer(&w->timer);
    }

    ngx_http_agentstream_account_end(w->req->output.account, record);

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, record->json.data,
                                         record->json.len);
    if (rc == NGX_OK) {
        rc = (record->type == NGX_HTTP_AGENTSTREAM_RECORD_ERROR)
             ? ngx_http_agentstream_request_whole_error(w, record, &json)
             : ngx_http_agentstream_request_whole_ended(w, &json);

    } else {
        rc = NGX_ERROR;
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


/* the turn has failed: its "error" packet, with a status that fits */

static ngx_int_t
ngx_http_agentstream_request_whole_error(
    ngx_http_agentstream_request_whole_t *w,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json)
{
    ngx_str_t   body;
    ngx_uint_t  status;

    status = w->status;

    if (status < NGX_HTTP_BAD_REQUEST) {
        status = ngx_http_agentstream_json_integer(json,
                      ngx_http_agentstream_json_get(json, json->root, "code"),
                      0);
    }

    if (status < NGX_HTTP_BAD_REQUEST || status > 599) {
        status = NGX_HTTP_BAD_GATEWAY;
    }

    body.len = ngx_http_agentstream_record_len(record);
    body.data = ngx_pnalloc(w->req->request->pool, body.len);

    if (body.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    (void) ngx_http_agentstream_record_json(body.data, record);

    return ngx_http_agentstream_request_reply(w->req, status, &body);
}


static ngx_int_t
ngx_http_agentstream_request_whole_ended(
    ngx_http_agentstream_request_whole_t *w, ngx_http_agentstream_json_t *json)
{
    ngx_str_t   reason, usage;
    ngx_uint_t  v;

    reason = ngx_http_agentstream_json_string(json,
               ngx_http_agentstream_json_get(json, json->root, "stopReason"));

    v = ngx_http_agentstream_json_get(json, json->root, "usage");
    usage = ngx_http_agentstream_json_raw(json, v);

    if (usage.len == 0) {
        ngx_str_set(&usage, "null");
    }

    if (ngx_http_agentstream_request_whole_copy(w, &w->reason, &reason)
        != NGX_OK
        || ngx_http_agentstream_request_whole_copy(w, &w->usage, &usage)
           != NGX_OK
        || ngx_http_agentstream_request_whole_collect(w) != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* from now on the turn is not needed, and may be freed */

    ngx_http_agentstream_follower_close(&w->follower);

    return NGX_DONE;
}


static void
ngx_http_agentstream_request_whole_finalize(
    ngx_http_agentstream_request_whole_t *w, ngx_int_t rc)
{
    ngx_http_agentstream_follower_close(&w->follower);
    ngx_http_agentstream_output_finalize(&w->req->output, rc);
}


static void
ngx_http_agentstream_request_whole_destroy(void *data)
{
    ngx_http_agentstream_request_whole_t *w = data;

    if (w->timer.timer_set) {
        ngx_del_timer(&w->timer);
    }

    ngx_http_agentstream_follower_close(&w->follower);
    ngx_http_agentstream_request_whole_free(w);
}
