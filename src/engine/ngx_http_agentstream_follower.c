
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The follower.  When it is woken, it copies new records from the journal and
 * gives them to its consumer, as long as the consumer is ready.  If the worker
 * of a turn is dead, a follower takes the turn over.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_follower.h"
#include "ngx_http_agentstream_turn.h"


/* bytes of records in one batch, unless a single record is larger */
#define NGX_HTTP_AGENTSTREAM_BATCH  12288


static void ngx_http_agentstream_follower_init(
    ngx_http_agentstream_follower_t *f);
static ngx_int_t ngx_http_agentstream_follower_start(
    ngx_http_agentstream_follower_t *f, ngx_str_t *turn, uint64_t seq);
static ngx_int_t ngx_http_agentstream_follower_enter(
    ngx_http_agentstream_follower_t *f, ngx_str_t *turn, uint64_t seq);
static void ngx_http_agentstream_follower_exit(
    ngx_http_agentstream_follower_t *f);
static void ngx_http_agentstream_follower_start_handler(ngx_event_t *ev);
static void ngx_http_agentstream_follower_wake_handler(void *data);
static ngx_int_t ngx_http_agentstream_follower_seek(
    ngx_http_agentstream_follower_t *f);
static ngx_int_t ngx_http_agentstream_follower_tell(
    ngx_http_agentstream_follower_t *f);
static ngx_int_t ngx_http_agentstream_follower_emit(
    ngx_http_agentstream_follower_t *f,
    ngx_http_agentstream_store_view_t *view);
static ngx_int_t ngx_http_agentstream_follower_lost(
    ngx_http_agentstream_follower_t *f);
static ngx_int_t ngx_http_agentstream_follower_rebuild(
    ngx_http_agentstream_follower_t *f, ngx_str_t *turn, const char *reason);
static ngx_int_t ngx_http_agentstream_follower_retell(
    ngx_http_agentstream_follower_t *f);
static ngx_int_t ngx_http_agentstream_follower_nothing(
    ngx_http_agentstream_follower_t *f);
static void ngx_http_agentstream_follower_pass(
    ngx_http_agentstream_follower_t *f);


ngx_int_t
ngx_http_agentstream_follower_read(ngx_http_agentstream_follower_t *f,
    ngx_str_t *turn)
{
    ngx_http_agentstream_follower_init(f);

    return ngx_http_agentstream_follower_start(f, turn, 1);
}


ngx_int_t
ngx_http_agentstream_follower_resume(ngx_http_agentstream_follower_t *f,
    ngx_str_t *turn, uint64_t seq)
{
    ngx_int_t                           rc;
    ngx_http_agentstream_store_found_t  found;

    ngx_http_agentstream_follower_init(f);

    ngx_http_agentstream_store_find(ngx_http_agentstream_worker->zone,
                                    &f->target->key, turn, seq, &found);

    f->number = found.number;

    if (found.turn.len) {
        return ngx_http_agentstream_follower_start(f, &found.turn, found.seq);
    }

    if (found.over
        || (turn->len && seq == NGX_HTTP_AGENTSTREAM_FOLLOWER_LAST))
    {
        return f->follow ? ngx_http_agentstream_follower_start(f, &found.turn,
                                                               1)
                         : NGX_DECLINED;
    }

    /* no turn of the session is kept here, but OpenCode may know one; turns
       that begin after this will be kept */

    f->number = found.newest;

    rc = ngx_http_agentstream_follower_rebuild(f, turn, "not_retained");

    return (rc == NGX_AGAIN) ? NGX_OK : rc;
}


static void
ngx_http_agentstream_follower_init(ngx_http_agentstream_follower_t *f)
{
    f->place.turn.data = f->id;

    f->waiter.handler = ngx_http_agentstream_follower_wake_handler;
    f->waiter.data = f;
    f->session.handler = ngx_http_agentstream_follower_wake_handler;
    f->session.data = f;

    f->start.handler = ngx_http_agentstream_follower_start_handler;
    f->start.data = f;
    f->start.log = f->log;
}


/* turn empty: the session's next turn */

static ngx_int_t
ngx_http_agentstream_follower_start(ngx_http_agentstream_follower_t *f,
    ngx_str_t *turn, uint64_t seq)
{
    if (turn->len
        && ngx_http_agentstream_follower_enter(f, turn, seq) != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* not now, because the consumer may end in it while its callers still use
       it */

    ngx_post_event(&f->start, &ngx_posted_events);

    return NGX_OK;
}


/* begins to read a turn, from record seq on */

static ngx_int_t
ngx_http_agentstream_follower_enter(ngx_http_agentstream_follower_t *f,
    ngx_str_t *turn, uint64_t seq)
{
    f->place.turn.len = turn->len;
    ngx_memcpy(f->id, turn->data, turn->len);

    f->place.cursor.seq = seq;

    return ngx_http_agentstream_notify_attach(&f->waiter, &f->place.turn);
}


/* stops reading the turn */

static void
ngx_http_agentstream_follower_exit(ngx_http_agentstream_follower_t *f)
{
    ngx_http_agentstream_notify_detach(&f->waiter);

    ngx_memzero(&f->place, sizeof(ngx_http_agentstream_store_place_t));
    f->place.turn.data = f->id;
}


static void
ngx_http_agentstream_follower_start_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_follower_run(ev->data);
}


static void
ngx_http_agentstream_follower_wake_handler(void *data)
{
    ngx_http_agentstream_follower_run(data);
}


void
ngx_http_agentstream_follower_close(ngx_http_agentstream_follower_t *f)
{
    ngx_http_agentstream_notify_detach(&f->waiter);
    ngx_http_agentstream_notify_detach(&f->session);

    if (f->start.posted) {
        ngx_delete_posted_event(&f->start);
    }

    if (f->rebuild) {
        ngx_http_agentstream_rebuild_destroy(f->rebuild);
        f->rebuild = NULL;
    }
}


void
ngx_http_agentstream_follower_run(ngx_http_agentstream_follower_t *f)
{
    ngx_int_t  rc;

    do {
        if (!f->consumer->ready(f->data)) {
            return;
        }

        if (f->rebuild) {
            rc = ngx_http_agentstream_follower_retell(f);

        } else if (f->place.turn.len) {
            rc = ngx_http_agentstream_follower_tell(f);

        } else {
            rc = ngx_http_agentstream_follower_seek(f);
        }

    } while (rc == NGX_OK);

    if (rc == NGX_ERROR || rc == NGX_DECLINED) {
        ngx_http_agentstream_follower_close(f);
        f->consumer->failed(f->data, rc);
    }

    /* NGX_AGAIN: there is nothing for now; NGX_DONE: the follower was
       closed */
}


/* the session's next turn */

static ngx_int_t
ngx_http_agentstream_follower_seek(ngx_http_agentstream_follower_t *f)
{
    ngx_http_agentstream_batch_t       batch;
    ngx_http_agentstream_store_turn_t  turn;

    if (f->session.watch == NULL
        && ngx_http_agentstream_notify_follow(&f->session,
                                              &f->target->session)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_agentstream_store_next(ngx_http_agentstream_worker->zone,
                                        &f->target->key, f->number, &turn)
        == NGX_OK)
    {
        f->number = turn.number;

        return ngx_http_agentstream_follower_enter(f, &turn.id, 1);
    }

    if (f->begun && !ngx_exiting) {
        return NGX_AGAIN;
    }

    ngx_memzero(&batch, sizeof(ngx_http_agentstream_batch_t));

    batch.status = NGX_HTTP_OK;

    if (f->begun) {
        /* the worker is to exit: let the client reconnect to a worker that
           stays */
        batch.end = 1;
    }

    f->begun = 1;

    return f->consumer->take(f->data, &batch);
}


/* gives the new records of the turn's journal to the consumer */

static ngx_int_t
ngx_http_agentstream_follower_tell(ngx_http_agentstream_follower_t *f)
{
    size_t                              size;
    u_char                             *large;
    uint64_t                            buf[NGX_HTTP_AGENTSTREAM_BATCH / 8];
    ngx_int_t                           rc;
    ngx_http_agentstream_zone_t        *zone;
    ngx_http_agentstream_store_view_t   view;

    large = NULL;
    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_store_read(zone, &f->place, (u_char *) buf,
                                    sizeof(buf), &view);

    while (view.need) {
        size = view.need;

        if (large) {
            ngx_free(large);
        }

        large = ngx_alloc(size, ngx_cycle->log);
        if (large == NULL) {
            return NGX_ERROR;
        }

        ngx_http_agentstream_store_read(zone, &f->place, large, size, &view);
    }

    /* the turn's prompt was refused because of another one: a follower that is
       not its sender reads the other turn instead */

    if (view.lost
        || (view.refused
            && (!f->sender || f->target->conf->busy
                              == NGX_HTTP_AGENTSTREAM_BUSY_ATTACH)))
    {
        rc = ngx_http_agentstream_follower_lost(f);

    } else {
        rc = ngx_http_agentstream_follower_emit(f, &view);
    }

    if (large) {
        ngx_free(large);
    }

    return rc;
}


static ngx_int_t
ngx_http_agentstream_follower_emit(ngx_http_agentstream_follower_t *f,
    ngx_http_agentstream_store_view_t *view)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_batch_t  batch;

    batch.records = view->records;
    batch.turn = f->place.turn;
    batch.rebuilt = 0;
    batch.all = view->all;
    batch.end = (view->ended && !f->follow);

    /* a follower of many turns does not take the status of the first one's
       failure */

    batch.status = (view->status == 0 || f->follow) ? NGX_HTTP_OK
                                                    : view->status;

    if (batch.records.pos != batch.records.last
        || batch.end
        || (view->begun && !f->begun))
    {
        f->begun = 1;

        rc = f->consumer->take(f->data, &batch);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (view->orphan) {
        (void) ngx_http_agentstream_turn_adopt(f->target, &f->place.turn);
    }

    if (view->ended) {
        ngx_http_agentstream_follower_exit(f);

        return NGX_OK;
    }

    return view->all ? NGX_AGAIN : NGX_OK;
}


/* docs/protocol.md, "Resuming": there is never a silent gap, so the turn is
   sent again from its beginning */

static ngx_int_t
ngx_http_agentstream_follower_lost(ngx_http_agentstream_follower_t *f)
{
    uint64_t     seq;
    ngx_str_t    turn;
    ngx_uint_t   kept, refused;
    const char  *reason;

    seq = f->place.cursor.seq;
    turn = f->place.turn;

    f->midway = (f->begun && seq > 1);

    ngx_http_agentstream_follower_exit(f);

    kept = ngx_http_agentstream_store_kept(ngx_http_agentstream_worker->zone,
                                           &turn, &refused);

    if (refused) {
        /* rebuild the turn that OpenCode works on instead */
        turn.len = 0;
        return ngx_http_agentstream_follower_rebuild(f, &turn, "not_retained");
    }

    reason = kept ? "journal_dropped" : "not_retained";

    ngx_log_error(NGX_LOG_WARN, f->log, 0,
                  "agentstream follower: packets from %uL on of turn %V are "
                  "not kept any more", seq, &turn);

    return ngx_http_agentstream_follower_rebuild(f, &turn, reason);
}


/* NGX_AGAIN: there is nothing yet */

static ngx_int_t
ngx_http_agentstream_follower_rebuild(ngx_http_agentstream_follower_t *f,
    ngx_str_t *turn, const char *reason)
{
    ngx_http_agentstream_rebuild_args_t  args;

    args.target = f->target;
    args.turn = *turn;
    args.reason = reason;
    args.follow = f->follow;
    args.number = f->number;
    args.handler = ngx_http_agentstream_follower_wake_handler;
    args.data = f;

    f->rebuild = ngx_http_agentstream_rebuild_create(&args);

    return f->rebuild ? NGX_AGAIN : NGX_ERROR;
}


/* gives the new records of a rebuilt turn to the consumer */

static ngx_int_t
ngx_http_agentstream_follower_retell(ngx_http_agentstream_follower_t *f)
{
    ngx_int_t                     rc, taken;
    ngx_http_agentstream_batch_t  batch;

    ngx_memzero(&batch, sizeof(ngx_http_agentstream_batch_t));

    rc = ngx_http_agentstream_rebuild_read(f->rebuild,
                                           NGX_HTTP_AGENTSTREAM_BATCH,
                                           &batch.records, &batch.status);

    if (rc == NGX_DECLINED) {
        return ngx_http_agentstream_follower_nothing(f);
    }

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (!f->begun && batch.status >= NGX_HTTP_SPECIAL_RESPONSE) {
        /* a response that begins with an error contains nothing else */
        f->follow = 0;
    }

    batch.turn = ngx_http_agentstream_rebuild_turn(f->rebuild);
    batch.rebuilt = 1;
    batch.all = (rc != NGX_OK
                 || ngx_http_agentstream_rebuild_all(f->rebuild));
    batch.end = (rc == NGX_DONE && !f->follow);

    if (batch.records.pos != batch.records.last
        || batch.end
        || (batch.status && !f->begun))
    {
        f->begun = 1;

        taken = f->consumer->take(f->data, &batch);

        if (taken != NGX_OK) {
            return taken;
        }
    }

    if (rc == NGX_DONE) {
        ngx_http_agentstream_follower_pass(f);
        return NGX_OK;
    }

    return rc;
}


/* OpenCode does not know the turn, or is not working */

static ngx_int_t
ngx_http_agentstream_follower_nothing(ngx_http_agentstream_follower_t *f)
{
    if (f->follow && !f->midway) {
        ngx_http_agentstream_follower_pass(f);
        return NGX_OK;
    }

    if (f->begun) {
        /* the consumer has the beginning of a turn whose rest nobody knows: it
           must not take the next turn for that */
        return NGX_ERROR;
    }

    if (!f->sender) {
        return NGX_DECLINED;
    }

    if (ngx_http_agentstream_rebuild_turn(f->rebuild).len == 0) {
        /* the prompt was refused because of another one, which is over by
           now */
        ngx_http_agentstream_rebuild_fail(f->rebuild, NGX_HTTP_CONFLICT,
                                          "OpenCode works on another prompt "
                                          "in this session");
        return NGX_OK;
    }

    /* the turn was evicted before it had sent a single packet */

    ngx_http_agentstream_rebuild_fail(f->rebuild, NGX_HTTP_SERVICE_UNAVAILABLE,
                                      "Out of zone memory");
    return NGX_OK;
}


/* returns to the journals, for the session's next turns */

static void
ngx_http_agentstream_follower_pass(ngx_http_agentstream_follower_t *f)
{
    ngx_http_agentstream_rebuild_destroy(f->rebuild);
    f->rebuild = NULL;
}


ngx_int_t
ngx_http_agentstream_follower_next(ngx_http_agentstream_batch_t *batch,
    ngx_http_agentstream_record_t *record)
{
    ngx_int_t  rc;

    rc = ngx_http_agentstream_record_next(&batch->records, record);

    if (rc == NGX_OK && batch->rebuilt) {
        /* the numbers of a rebuilt turn are not those of the journal; a client
           that has the last record has the whole turn */

        record->seq = (batch->turn.len
                       && ngx_http_agentstream_record_terminal(record->type))
                      ? NGX_HTTP_AGENTSTREAM_FOLLOWER_LAST : 0;
    }

    return rc;
}
