
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What Redis does not have of a turn is sent with one command: records, the
 * end, and what others must know.  The next command follows the answer to the
 * one before, so that it is always known what Redis has.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* records of one command, and their size */
#define NGX_HTTP_AGENTSTREAM_REMOTE_RECORDS  256
#define NGX_HTTP_AGENTSTREAM_REMOTE_BATCH    65536

/* the most arguments besides records */
#define NGX_HTTP_AGENTSTREAM_REMOTE_FIXED    32

#define NGX_HTTP_AGENTSTREAM_ASKS_SIZE                                        \
    (NGX_HTTP_AGENTSTREAM_ASKS_MAX * (NGX_HTTP_AGENTSTREAM_ASK_ID_SIZE + 2))


/* a command while it is written */

typedef struct {
    ngx_uint_t                           argc;
    ngx_str_t                            argv[
                                         NGX_HTTP_AGENTSTREAM_REMOTE_RECORDS
                                         + NGX_HTTP_AGENTSTREAM_REMOTE_FIXED];
    u_char                              *records;  /* heap, or NULL */
    ngx_uint_t                           nrecords;
    uint64_t                             before;
    uint64_t                             keep;     /* from this record on; 0:
                                                      all */
    uint32_t                             made;     /* epoch of the records */
    uint32_t                             keep_made;
    ngx_uint_t                           jump;
    u_char                              *p;        /* free part of buf */
    u_char                               buf[512];
    u_char                               asks[NGX_HTTP_AGENTSTREAM_ASKS_SIZE];
    u_char                               directory[4096];
} ngx_http_agentstream_remote_put_t;


static ngx_int_t ngx_http_agentstream_remote_gather(
    ngx_http_agentstream_remote_turn_t *rt,
    ngx_http_agentstream_remote_put_t *put);
static ngx_int_t ngx_http_agentstream_remote_copy_records(
    ngx_http_agentstream_remote_turn_t *rt,
    ngx_http_agentstream_remote_put_t *put, uint64_t last, size_t size);
static void ngx_http_agentstream_remote_put_records(
    ngx_http_agentstream_remote_put_t *put);
static void ngx_http_agentstream_remote_put_fields(
    ngx_http_agentstream_remote_turn_t *rt,
    ngx_http_agentstream_remote_put_t *put);
static void ngx_http_agentstream_remote_put_ttl(
    ngx_http_agentstream_remote_turn_t *rt,
    ngx_http_agentstream_remote_put_t *put);
static void ngx_http_agentstream_remote_put_number(
    ngx_http_agentstream_remote_put_t *put, uint64_t n);
static void ngx_http_agentstream_remote_put_keep(
    ngx_http_agentstream_remote_put_t *put);
static void ngx_http_agentstream_remote_put_text(
    ngx_http_agentstream_remote_put_t *put, const char *text);
static void ngx_http_agentstream_remote_put_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_stored(
    ngx_http_agentstream_remote_turn_t *rt, redisReply *reply);
static void ngx_http_agentstream_remote_restore(
    ngx_http_agentstream_remote_turn_t *rt);
static u_char *ngx_http_agentstream_remote_put_ends(
    ngx_http_agentstream_remote_turn_t *rt, u_char *p);
static void ngx_http_agentstream_remote_restore_done(void *data,
    redisReply *reply);


void
ngx_http_agentstream_remote_push(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_int_t                           rc;
    ngx_http_agentstream_remote_t      *remote;
    ngx_http_agentstream_remote_put_t   put;

    remote = rt->remote;

    if (!remote->up || !rt->live || rt->inflight || rt->fenced || rt->done) {
        return;
    }

    rc = ngx_http_agentstream_remote_gather(rt, &put);

    if (rc != NGX_OK) {
        /* there is nothing to send, or no memory: then it is tried again */
        return;
    }

    ngx_http_agentstream_remote_put_records(&put);
    ngx_http_agentstream_remote_put_fields(rt, &put);

    rc = ngx_http_agentstream_remote_eval(remote,
                                         NGX_HTTP_AGENTSTREAM_SCRIPT_PUT,
                                         put.argc, put.argv,
                                         ngx_http_agentstream_remote_put_done,
                                         rt);

    if (put.records) {
        ngx_free(put.records);
    }

    if (rc != NGX_OK) {
        return;
    }

    if (rt->prompt) {
        ngx_http_agentstream_remote_replicate(rt);
    }

    rt->touch = 0;
    rt->changed = 0;
    rt->prompt_sent = rt->prompt;
    rt->sent = put.before + put.nrecords;
    rt->kept = ngx_max(rt->kept, put.keep);
    rt->touched = ngx_current_msec;

    ngx_http_agentstream_remote_sent(rt);
}


void
ngx_http_agentstream_remote_sent(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_http_agentstream_remote_t  *remote;

    remote = rt->remote;

    rt->inflight = 1;
    rt->sent_at = ngx_current_msec;

    if (!remote->silence.timer_set) {
        ngx_add_timer(&remote->silence, NGX_HTTP_AGENTSTREAM_SILENCE);
    }
}


/*
 * Begins the command, with the next records.  NGX_DECLINED: there is nothing to
 * send; NGX_ERROR: no memory.
 */

static ngx_int_t
ngx_http_agentstream_remote_gather(ngx_http_agentstream_remote_turn_t *rt,
    ngx_http_agentstream_remote_put_t *put)
{
    uint64_t   last;
    ngx_int_t  rc;

    put->argc = 0;
    put->p = put->buf;
    put->nrecords = 0;
    put->jump = 0;
    put->before = rt->acked;
    put->made = rt->epoch;
    put->keep = 0;
    put->records = NULL;

    last = rt->node ? rt->node->journal.last_seq : rt->last;

    if (last > rt->acked) {
        rc = ngx_http_agentstream_remote_copy_records(rt, put, last,
                                            NGX_HTTP_AGENTSTREAM_REMOTE_BATCH);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    rt->end_sent = (rt->ended && last <= put->before + put->nrecords);

    if (put->nrecords == 0 && !put->jump && !rt->end_sent && !rt->changed
        && !rt->touch && !rt->prompt)
    {
        if (put->records) {
            ngx_free(put->records);
        }

        return NGX_DECLINED;
    }

    put->argv[put->argc++] = rt->base;
    put->argv[put->argc++] = rt->id;
    ngx_http_agentstream_remote_put_number(put, rt->epoch);
    put->argv[put->argc++] = rt->remote->owner;
    ngx_http_agentstream_remote_put_ttl(rt, put);
    ngx_http_agentstream_remote_put_text(put, !rt->end_sent ? ""
                                              : rt->end_unsure ? "1" : "0");
    ngx_http_agentstream_remote_put_number(put, put->before);
    ngx_http_agentstream_remote_put_number(put, put->nrecords);
    ngx_http_agentstream_remote_put_number(put, put->made);
    ngx_http_agentstream_remote_put_keep(put);

    return NGX_OK;
}


/* records that are not kept any more are left out; then Redis drops those
   before them, too */

static ngx_int_t
ngx_http_agentstream_remote_copy_records(
    ngx_http_agentstream_remote_turn_t *rt,
    ngx_http_agentstream_remote_put_t *put, uint64_t last, size_t size)
{
    size_t                           need;
    ngx_http_agentstream_node_t     *node;
    ngx_http_agentstream_zone_t     *zone;
    ngx_http_agentstream_records_t   records;

    zone = rt->remote->zone;
    need = 0;

    put->records = ngx_alloc(size, rt->remote->log);

    if (put->records == NULL) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_zone_lock(zone);

    node = rt->node ? rt->node
                    : ngx_http_agentstream_zone_find_locked(zone, &rt->id);

    if (node == NULL || node->mirror) {
        /* it has ended, and was evicted */
        put->before = last;
        put->jump = 1;

    } else {

        if (rt->cursor.seq != rt->acked + 1
            || rt->acked + 1 < node->journal.first_seq)
        {
            ngx_memzero(&rt->cursor, sizeof(ngx_http_agentstream_cursor_t));
            rt->cursor.seq = ngx_max(rt->acked + 1, node->journal.first_seq);
        }

        put->before = rt->cursor.seq - 1;
        put->jump = (put->before != rt->acked);

        /* of one epoch, which is a part of their ids */

        put->made = ngx_http_agentstream_zone_epoch(node, rt->cursor.seq);
        last = ngx_min(last, ngx_http_agentstream_zone_last(node, put->made));

        need = ngx_http_agentstream_journal_read_locked(node, &rt->cursor,
                       ngx_min(last, put->before
                                     + NGX_HTTP_AGENTSTREAM_REMOTE_RECORDS),
                       put->records, size, &records);

        put->nrecords = rt->cursor.seq - 1 - put->before;

        if (node->journal.first_seq > rt->kept + 1) {
            put->keep = node->journal.first_seq;
            put->keep_made = ngx_http_agentstream_zone_epoch(node, put->keep);
        }
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (need) {
        /* a record that is larger than the buffer */
        ngx_free(put->records);
        return ngx_http_agentstream_remote_copy_records(rt, put, last, need);
    }

    return NGX_OK;
}


/* the records are one after the other in memory */

static void
ngx_http_agentstream_remote_put_records(ngx_http_agentstream_remote_put_t *put)
{
    size_t                          len;
    u_char                         *p;
    ngx_uint_t                      i;
    ngx_http_agentstream_packed_t  *packed;

    p = put->records;

    for (i = 0; i < put->nrecords; i++) {
        packed = (ngx_http_agentstream_packed_t *) p;

        len = packed->len + ngx_http_agentstream_packed_extra(packed);

        put->argv[put->argc].data = p;
        put->argv[put->argc++].len = sizeof(ngx_http_agentstream_packed_t)
                                     + len;

        p += ngx_http_agentstream_packed_size(len);
    }
}


static void
ngx_http_agentstream_remote_put_fields(ngx_http_agentstream_remote_turn_t *rt,
    ngx_http_agentstream_remote_put_t *put)
{
    u_char                       *p;
    ngx_str_t                    *directory;
    ngx_http_agentstream_ask_t   *ask;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = rt->remote->zone;
    node = rt->node;

    ngx_http_agentstream_remote_put_text(put,
                       put->jump ? "jump"
                       : (put->nrecords == 0 && !rt->changed && !rt->end_sent)
                         ? "touch" : "");

    if (rt->prompt) {
        ngx_http_agentstream_remote_put_text(put, "prompted");
        ngx_http_agentstream_remote_put_text(put, "1");
    }

    if (rt->end_sent) {
        ngx_http_agentstream_remote_put_text(put, "stop");
        put->argv[put->argc++] = rt->end;
    }

    if (node == NULL || (!rt->changed && !rt->end_sent)) {
        return;
    }

    ngx_http_agentstream_zone_lock(zone);

    p = put->asks;

    for (ask = node->asks; ask; ask = ask->next) {
        *p++ = ask->permission ? 'P' : 'Q';
        p = ngx_cpymem(p, ask->id, ask->id_len);
        *p++ = '\n';
    }

    directory = &put->argv[put->argc + 1];
    directory->data = put->directory;
    directory->len = ngx_min(node->session->directory.len,
                             sizeof(put->directory));

    if (directory->len) {
        ngx_memcpy(put->directory, node->session->directory.data,
                   directory->len);
    }

    ngx_http_agentstream_zone_unlock(zone);

    ngx_http_agentstream_remote_put_text(put, "dir");
    put->argc++;

    ngx_http_agentstream_remote_put_text(put, "asks");
    put->argv[put->argc].data = put->asks;
    put->argv[put->argc++].len = p - put->asks;

    if (node->status) {
        ngx_http_agentstream_remote_put_text(put, "status");
        ngx_http_agentstream_remote_put_number(put, node->status);
    }

    if (node->refused) {
        ngx_http_agentstream_remote_put_text(put, "refused");
        ngx_http_agentstream_remote_put_text(put, "1");
    }
}


/* most commands only store records, which costs Redis less */

static void
ngx_http_agentstream_remote_put_ttl(ngx_http_agentstream_remote_turn_t *rt,
    ngx_http_agentstream_remote_put_t *put)
{
    rt->whole = (put->nrecords == 0 || put->before == 0 || put->jump
                 || rt->end_sent || rt->asked || rt->renewed == 0
                 || ngx_current_msec - rt->renewed
                    >= NGX_HTTP_AGENTSTREAM_TOUCH);

    if (!rt->whole) {
        ngx_http_agentstream_remote_put_text(put, "");
        return;
    }

    ngx_http_agentstream_remote_put_number(put, rt->end_sent
                              ? ngx_max(rt->remote->zone->retain / 1000, 1)
                              : NGX_HTTP_AGENTSTREAM_RUNNING_TTL);
}


static void
ngx_http_agentstream_remote_put_number(ngx_http_agentstream_remote_put_t *put,
    uint64_t n)
{
    ngx_str_t  *arg;

    arg = &put->argv[put->argc++];
    arg->data = put->p;
    put->p = ngx_sprintf(put->p, "%uL", n);
    arg->len = put->p - arg->data;
}


/* the oldest record that is kept here, too */

static void
ngx_http_agentstream_remote_put_keep(ngx_http_agentstream_remote_put_t *put)
{
    ngx_str_t  *arg;

    arg = &put->argv[put->argc++];
    arg->data = put->p;

    if (put->keep) {
        put->p = ngx_sprintf(put->p, "%uD-%uL", put->keep_made, put->keep);
    }

    arg->len = put->p - arg->data;
}


static void
ngx_http_agentstream_remote_put_text(ngx_http_agentstream_remote_put_t *put,
    const char *text)
{
    put->argv[put->argc].data = (u_char *) text;
    put->argv[put->argc++].len = ngx_strlen(text);
}


static void
ngx_http_agentstream_remote_put_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_turn_t *rt = data;

    ngx_str_t  status, last;

    rt->inflight = 0;

    if (reply == NULL) {
        /* what was sent is sent again */
        rt->changed = 1;
        return;
    }

    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len == 0) {
        /* perhaps it has no memory */

        ngx_http_agentstream_zone_count(rt->remote->zone, STORE_REFUSED, 1);

        if (!rt->failed) {
            ngx_log_error(NGX_LOG_ERR, rt->remote->log, 0,
                          "agentstream remote: Redis refuses what turn %V has "
                          "to store", &rt->id);
        }

        rt->changed = 1;
        rt->failed = 1;
        ngx_http_agentstream_remote_show_anyway(rt);
        return;
    }

    rt->failed = 0;

    ngx_http_agentstream_store_observe(rt->remote->zone->stats,
                                  NGX_HTTP_AGENTSTREAM_STAT_STORE_ROUND_TRIP,
                                  ngx_current_msec - rt->sent_at);

    switch (status.data[0]) {

    case 'O':
        ngx_http_agentstream_remote_stored(rt, reply);
        break;

    case 'G':
        last = ngx_http_agentstream_redis_item(reply, 1);
        rt->acked = ngx_http_agentstream_redis_number(&last);
        rt->changed = 1;

        if (rt->acked > (rt->node ? rt->node->journal.last_seq : rt->last)) {
            rt->fenced = 1;
        }

        break;

    case 'N':
        /* it was not forgotten in such a short time, or with everything else;
           otherwise another machine may have ended it long ago */

        if (ngx_current_msec - rt->heard
            < NGX_HTTP_AGENTSTREAM_RUNNING_TTL * 500
            || rt->emptied != rt->remote->emptied)
        {
            ngx_http_agentstream_remote_restore(rt);
            return;
        }

        rt->fenced = 1;
        rt->lost = 1;
        break;

    default: /* FENCED */
        rt->fenced = 1;
        break;
    }

    rt->heard = ngx_current_msec;
    rt->emptied = rt->remote->emptied;

    ngx_http_agentstream_remote_push(rt);

    ngx_post_event(&rt->answer, &ngx_posted_events);
}


static void
ngx_http_agentstream_remote_stored(ngx_http_agentstream_remote_turn_t *rt,
    redisReply *reply)
{
    ngx_str_t                     text;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = rt->remote->zone;
    node = rt->node;

    rt->acked = rt->sent;

    if (rt->prompt_sent) {
        rt->prompt = 0;
        rt->prompt_sent = 0;
        rt->prompted = 1;
    }

    if (rt->end_sent) {
        rt->done = 1;
    }

    if (rt->whole) {
        rt->renewed = ngx_current_msec;
    }

    if (rt->asked && rt->whole) {
        rt->asked = 0;
        rt->alone = (ngx_http_agentstream_redis_integer(reply, 2) == 0);
    }

    if (node == NULL) {
        return;
    }

    ngx_http_agentstream_zone_lock(zone);

    if (!rt->done) {
        rt->shown |= (rt->acked > node->journal.shown_seq);
        ngx_http_agentstream_journal_show_locked(node, rt->acked);
    }

    ngx_http_agentstream_zone_unlock(zone);

    text = ngx_http_agentstream_redis_item(reply, 1);

    if (text.len == 1 && text.data[0] == '1' && !node->interrupted) {
        ngx_http_agentstream_remote_interrupted(rt->remote, &rt->id);
    }
}


/* Redis has been emptied: everything that is kept is stored again */

static void
ngx_http_agentstream_remote_restore(ngx_http_agentstream_remote_turn_t *rt)
{
    u_char     epoch[NGX_INT64_LEN], set[64], ttl[NGX_INT64_LEN];
    u_char     ends[128];
    ngx_str_t  argv[9];

    if (!rt->again) {
        ngx_log_error(NGX_LOG_WARN, rt->remote->log, 0,
                      "agentstream remote: Redis has lost turn %V, it is "
                      "stored again", &rt->id);

        ngx_http_agentstream_remote_ask_chats(rt->remote);
    }

    argv[0] = rt->base;
    argv[1] = rt->id;
    argv[2].data = epoch;
    argv[2].len = ngx_sprintf(epoch, "%uD", rt->epoch) - epoch;
    argv[3] = rt->remote->owner;
    argv[4].data = set;
    argv[4].len = ngx_sprintf(set, "%uD %uD", rt->packets, rt->tool_kinds)
                  - set;
    argv[5] = rt->request_id;
    argv[6].data = ttl;
    argv[6].len = ngx_sprintf(ttl, "%d", NGX_HTTP_AGENTSTREAM_RUNNING_TTL)
                  - ttl;

    argv[7].data = ends;
    argv[7].len = ngx_http_agentstream_remote_put_ends(rt, ends) - ends;
    argv[8].data = (u_char *) (rt->again ? "1" : "0");
    argv[8].len = 1;

    if (ngx_http_agentstream_remote_eval(rt->remote,
                                     NGX_HTTP_AGENTSTREAM_SCRIPT_RESTORE, 9,
                                     argv,
                                     ngx_http_agentstream_remote_restore_done,
                                     rt)
        == NGX_OK)
    {
        ngx_http_agentstream_remote_sent(rt);
    }
}


/* the last records of the epochs before, at most 22 bytes each */

static u_char *
ngx_http_agentstream_remote_put_ends(ngx_http_agentstream_remote_turn_t *rt,
    u_char *p)
{
    ngx_uint_t                    i;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = rt->remote->zone;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, &rt->id);

    for (i = 0; node && i < node->nends; i++) {
        p = ngx_sprintf(p, "%uL ", node->ends[i]);
    }

    ngx_http_agentstream_zone_unlock(zone);

    return p;
}


static void
ngx_http_agentstream_remote_restore_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_turn_t *rt = data;

    ngx_str_t  status;

    rt->inflight = 0;
    rt->changed = 1;

    if (reply == NULL) {
        return;
    }

    status = ngx_http_agentstream_redis_item(reply, 0);

    if (status.len && status.data[0] == 'O') {
        rt->acked = 0;
        rt->kept = 0;
        rt->renewed = 0;
        rt->prompt |= (rt->prompted && !rt->again);

    } else if (status.len && status.data[0] == 'N') {
        rt->done = 1;

    } else if (status.len) {
        /* another turn runs in the session */
        rt->fenced = 1;
        rt->lost = 1;
    }

    ngx_http_agentstream_remote_push(rt);

    ngx_post_event(&rt->answer, &ngx_posted_events);
}

#endif
