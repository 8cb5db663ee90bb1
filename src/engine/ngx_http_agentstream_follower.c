
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The follower.  Woken, it copies what is new from the journal and gives it to
 * its consumer, as long as that is ready.  A turn whose worker is dead is taken
 * over by whoever follows it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_follower.h"
#include "ngx_http_agentstream_turn.h"


/* of the records of one batch, unless one is larger */
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

    /* nothing of the session is kept here: OpenCode may still know; what begins
       after that will be kept */

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


/* turn empty: the next one */

static ngx_int_t
ngx_http_agentstream_follower_start(ngx_http_agentstream_follower_t *f,
    ngx_str_t *turn, uint64_t seq)
{
    if (turn->len
        && ngx_http_agentstream_follower_enter(f, turn, seq) != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* not at once: the consumer may end in it, and its callers go on */

    ngx_post_event(&f->start, &ngx_posted_events);

    return NGX_OK;
}


/* into a turn, to read it from record seq on */

static ngx_int_t
ngx_http_agentstream_follower_enter(ngx_http_agentstream_follower_t *f,
    ngx_str_t *turn, uint64_t seq)
{
    f->place.turn.len = turn->len;
    ngx_memcpy(f->id, turn->data, turn->len);

    f->place.cursor.seq = seq;

    return ngx_http_agentstream_notify_attach(&f->waiter, &f->place.turn);
}


/* out of it */

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

    /* NGX_AGAIN: there is nothing for now; NGX_DONE: it was closed */
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
        /* the client comes back to a worker that stays */
        batch.end = 1;
    }

    f->begun = 1;

    return f->consumer->take(f->data, &batch);
}


/* what is new in the turn's journal */

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

    /* who does not insist on its own prompt, which was refused for another one,
       reads that one's turn instead */

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
    batch.end = (view->ended && !f->follow);

    /* the failure of one turn is not that of all to come */

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


/* never a silent gap: the turn is told again */

static ngx_int_t
ngx_http_agentstream_follower_lost(ngx_http_agentstream_follower_t *f)
{
    uint64_t     seq;
    ngx_str_t    turn;
    ngx_uint_t   kept, refused;
    const char  *reason;

    seq = f->place.cursor.seq;
    turn = f->place.turn;

    ngx_http_agentstream_follower_exit(f);

    kept = ngx_http_agentstream_store_kept(ngx_http_agentstream_worker->zone,
                                           &turn, &refused);

    if (refused) {
        /* the turn that OpenCode works on instead */
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


/* what is new of a turn that is told again */

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
        /* a response that begins with an error is nothing else */
        f->follow = 0;
    }

    batch.turn = ngx_http_agentstream_rebuild_turn(f->rebuild);
    batch.rebuilt = 1;
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


/* OpenCode does not know the turn, or works on none */

static ngx_int_t
ngx_http_agentstream_follower_nothing(ngx_http_agentstream_follower_t *f)
{
    if (f->follow) {
        ngx_http_agentstream_follower_pass(f);
        return NGX_OK;
    }

    if (f->begun) {
        return NGX_ERROR;
    }

    if (!f->sender) {
        return NGX_DECLINED;
    }

    if (ngx_http_agentstream_rebuild_turn(f->rebuild).len == 0) {
        /* its prompt was refused for another one, which is over by now */
        ngx_http_agentstream_rebuild_fail(f->rebuild, NGX_HTTP_CONFLICT,
                                          "OpenCode works on another prompt "
                                          "in this session");
        return NGX_OK;
    }

    /* its turn is gone before it could say a word */

    ngx_http_agentstream_rebuild_fail(f->rebuild, NGX_HTTP_SERVICE_UNAVAILABLE,
                                      "Out of zone memory");
    return NGX_OK;
}


/* back to the journals: the session's next turns */

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
        /* its numbers are not those of the journal; who has the last record has
           them all */

        record->seq = (batch->turn.len
                       && ngx_http_agentstream_record_terminal(record->type))
                      ? NGX_HTTP_AGENTSTREAM_FOLLOWER_LAST : 0;
    }

    return rc;
}
