
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The records of another machine's turn: asked for, or published by its owner.
 * They are appended to the copy in the zone only if they follow on.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* the most that a copy takes in the zone */
#define NGX_HTTP_AGENTSTREAM_MIRROR_SIZE  (8 * 1024 * 1024)


/* records that were published */

typedef struct {
    ngx_str_t                            id;       /* of the turn */
    uint64_t                             words[3]; /* epoch, number of the
                                                      first record, how many */
    u_char                              *p;
    u_char                              *last;
} ngx_http_agentstream_remote_batch_t;


static ngx_int_t ngx_http_agentstream_remote_batch(
    ngx_http_agentstream_remote_batch_t *batch, ngx_str_t *payload);
static ngx_int_t ngx_http_agentstream_remote_batch_next(
    ngx_http_agentstream_remote_batch_t *batch, ngx_str_t *record);


ngx_int_t
ngx_http_agentstream_remote_range(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *base, ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_redis_pt handler, void *data)
{
    u_char      from[64];
    u_char     *p;
    uint64_t    last;
    ngx_int_t   rc;
    ngx_str_t   argv[6];

    last = node->journal.last_seq;

    argv[1].len = base->len + 2 + node->sn.str.len;
    argv[1].data = ngx_alloc(argv[1].len, remote->log);

    if (argv[1].data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(argv[1].data, base->data, base->len);
    p = ngx_cpymem(p, "t:", 2);
    ngx_memcpy(p, node->id, node->sn.str.len);

    p = last ? ngx_sprintf(from, "(%uD-%uL",
                           ngx_http_agentstream_zone_epoch(node, last), last)
             : ngx_sprintf(from, "-");

    ngx_str_set(&argv[0], "XRANGE");
    argv[2].data = from;
    argv[2].len = p - from;
    ngx_str_set(&argv[3], "+");
    ngx_str_set(&argv[4], "COUNT");
    ngx_str_set(&argv[5], "256");

    rc = ngx_http_agentstream_redis_command(&remote->commands, 6, argv,
                                            handler, data);
    ngx_free(argv[1].data);

    return rc;
}


ngx_int_t
ngx_http_agentstream_remote_ranged(ngx_http_agentstream_remote_t *remote,
    ngx_http_agentstream_node_t *node, redisReply *reply)
{
    u_char      *dash;
    uint64_t     seq;
    ngx_str_t    id, packed;
    ngx_uint_t   i, n;
    redisReply  *entry;

    if (reply == NULL || ngx_http_agentstream_redis_error(reply, NULL)) {
        return NGX_DECLINED;
    }

    n = ngx_http_agentstream_redis_count(reply);

    for (i = 0; i < n; i++) {
        entry = ngx_http_agentstream_redis_element(reply, i);
        id = ngx_http_agentstream_redis_item(entry, 0);
        packed = ngx_http_agentstream_redis_item(
                            ngx_http_agentstream_redis_element(entry, 1), 1);

        dash = ngx_strlchr(id.data, id.data + id.len, '-');

        if (dash == NULL) {
            return NGX_ERROR;
        }

        id.len -= dash + 1 - id.data;
        id.data = dash + 1;
        seq = ngx_http_agentstream_redis_number(&id);

        if (seq <= node->journal.last_seq) {
            continue;
        }

        if (seq != node->journal.last_seq + 1) {

            if (i != 0) {
                return NGX_ERROR;
            }

            /* those before it were dropped */

            ngx_http_agentstream_zone_lock(remote->zone);
            ngx_http_agentstream_journal_jump_locked(remote->zone, node,
                                                     seq - 1);
            ngx_http_agentstream_zone_unlock(remote->zone);
        }

        if (ngx_http_agentstream_remote_append(remote->zone, node, &packed)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    ngx_http_agentstream_zone_lock(remote->zone);
    ngx_http_agentstream_journal_show_locked(node, node->journal.last_seq);
    ngx_http_agentstream_zone_unlock(remote->zone);

    return n;
}


ngx_int_t
ngx_http_agentstream_remote_feed(ngx_http_agentstream_remote_session_t *rs,
    ngx_str_t *payload)
{
    uint64_t                               seq;
    ngx_int_t                              rc;
    ngx_str_t                              text;
    ngx_http_agentstream_node_t           *node;
    ngx_http_agentstream_remote_batch_t    batch;
    ngx_http_agentstream_remote_mirror_t  *mirror;

    if (ngx_http_agentstream_remote_batch(&batch, payload) != NGX_OK) {
        return NGX_DECLINED;
    }

    mirror = ngx_http_agentstream_remote_find_mirror(rs, &batch.id, 0);
    node = ngx_http_agentstream_remote_copied(rs->remote, &batch.id);

    if (mirror == NULL || node == NULL) {
        /* it may be this machine's own */
        return NGX_OK;
    }

    if (mirror->fetching || node->epoch != batch.words[0]
        || batch.words[1] > node->journal.last_seq + 1)
    {
        return NGX_DECLINED;
    }

    rc = NGX_OK;

    for (seq = batch.words[1]; batch.words[2]; batch.words[2]--, seq++) {
        rc = ngx_http_agentstream_remote_batch_next(&batch, &text);

        if (rc == NGX_OK && seq == node->journal.last_seq + 1) {
            rc = ngx_http_agentstream_remote_append(rs->remote->zone, node,
                                                    &text);
        }

        if (rc != NGX_OK) {
            break;
        }
    }

    ngx_http_agentstream_zone_lock(rs->remote->zone);
    ngx_http_agentstream_journal_show_locked(node, node->journal.last_seq);
    ngx_http_agentstream_zone_unlock(rs->remote->zone);

    mirror->last = ngx_max(mirror->last, node->journal.last_seq);

    ngx_http_agentstream_remote_wake(rs->remote, &batch.id);

    return (rc == NGX_OK) ? NGX_OK : NGX_DECLINED;
}


/* "A turn epoch first n", a line feed, and each record after its length */

static ngx_int_t
ngx_http_agentstream_remote_batch(ngx_http_agentstream_remote_batch_t *batch,
    ngx_str_t *payload)
{
    u_char      *p, *end;
    ngx_str_t    text;
    ngx_uint_t   i;

    p = payload->data + 2;
    batch->last = payload->data + payload->len;

    end = ngx_strlchr(p, batch->last, ' ');

    if (end == NULL || end - p > NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE) {
        return NGX_ERROR;
    }

    batch->id.data = p;
    batch->id.len = end - p;
    p = end + 1;

    for (i = 0; i < 3; i++) {
        end = ngx_strlchr(p, batch->last, (i == 2) ? '\n' : ' ');

        if (end == NULL) {
            return NGX_ERROR;
        }

        text.data = p;
        text.len = end - p;
        batch->words[i] = ngx_http_agentstream_redis_number(&text);
        p = end + 1;
    }

    batch->p = p;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_remote_batch_next(
    ngx_http_agentstream_remote_batch_t *batch, ngx_str_t *record)
{
    size_t   len;
    u_char  *p;

    p = batch->p;

    if (batch->last - p < 4) {
        return NGX_ERROR;
    }

    len = p[0] | p[1] << 8 | p[2] << 16 | (size_t) p[3] << 24;
    p += 4;

    if ((size_t) (batch->last - p) < len) {
        return NGX_ERROR;
    }

    record->data = p;
    record->len = len;
    batch->p = p + len;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_remote_append(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node, ngx_str_t *packed)
{
    size_t                          len;
    u_char                         *p, *data;
    ngx_int_t                       rc;
    ngx_http_agentstream_record_t   record;

    if (ngx_http_agentstream_record_read(&record, packed) != NGX_OK) {
        return NGX_ERROR;
    }

    len = record.json.len + record.text.len;
    data = packed->data + sizeof(ngx_http_agentstream_packed_t);

    ngx_http_agentstream_zone_count(zone, COPIED, 1);

    p = ngx_http_agentstream_journal_reserve(zone, node,
                                  len
                                  + ngx_http_agentstream_record_extra(&record),
                                  NGX_HTTP_AGENTSTREAM_MIRROR_SIZE);

    if (p) {
        ngx_memcpy(p, data, len);
        ngx_http_agentstream_journal_append(zone, node, &record);
        return NGX_OK;
    }

    rc = ngx_http_agentstream_journal_append_pieces(zone, node, &record,
                                            NGX_HTTP_AGENTSTREAM_MIRROR_SIZE);

    if (rc != NGX_OK) {
        ngx_http_agentstream_journal_skip(zone, node);
    }

    return NGX_OK;
}


void
ngx_http_agentstream_remote_wake(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *turn)
{
    uint64_t                       watchers[
                                      NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64];
    ngx_http_agentstream_watch_t  *watch;

    watch = NULL;

    ngx_http_agentstream_store_readers(remote->zone, turn, watchers);

    ngx_http_agentstream_notify_wake(turn, watchers, &watch);
    ngx_http_agentstream_notify_forget(&watch);
}


ngx_http_agentstream_remote_mirror_t *
ngx_http_agentstream_remote_find_mirror(
    ngx_http_agentstream_remote_session_t *rs, ngx_str_t *id,
    ngx_uint_t create)
{
    ngx_queue_t                           *q;
    ngx_http_agentstream_remote_mirror_t  *mirror;

    for (q = ngx_queue_head(&rs->mirrors);
         q != ngx_queue_sentinel(&rs->mirrors);
         q = ngx_queue_next(q))
    {
        mirror = ngx_queue_data(q, ngx_http_agentstream_remote_mirror_t,
                                queue);

        if (mirror->id.len == id->len
            && ngx_memcmp(mirror->id.data, id->data, id->len) == 0)
        {
            return mirror;
        }
    }

    if (!create) {
        return NULL;
    }

    mirror = ngx_calloc(sizeof(ngx_http_agentstream_remote_mirror_t),
                        rs->remote->log);
    if (mirror == NULL) {
        return NULL;
    }

    mirror->id.data = mirror->id_data;
    mirror->id.len = ngx_min(id->len, sizeof(mirror->id_data));
    ngx_memcpy(mirror->id_data, id->data, mirror->id.len);

    ngx_queue_insert_tail(&rs->mirrors, &mirror->queue);
    ngx_http_agentstream_zone_count(rs->remote->zone, STORE_MIRRORS, 1);

    return mirror;
}


void
ngx_http_agentstream_remote_free_mirror(
    ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_remote_mirror_t *mirror)
{
    ngx_http_agentstream_zone_count(rs->remote->zone, STORE_MIRRORS, -1);

    ngx_queue_remove(&mirror->queue);
    ngx_free(mirror);
}

#endif
