
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Turns of other machines.  One worker of this machine copies such a turn into
 * a node of the zone, where followers read it like any other: what Redis has,
 * then what the owner publishes, which must follow on; otherwise Redis is
 * asked.  Nothing that arrives is trusted.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* a copy is given up if Redis does not know its turn for so long, which is more
   than its owner takes to notice it */
#define NGX_HTTP_AGENTSTREAM_MISSING  (NGX_HTTP_AGENTSTREAM_TOUCH + 2000)


/* what Redis says of a turn */

typedef struct {
    ngx_str_t                            id;
    ngx_uint_t                           run;
    ngx_uint_t                           live;
    ngx_str_t                            epoch;
    ngx_str_t                            owner;
    ngx_str_t                            last;
    ngx_str_t                            rank;
    ngx_str_t                            set;
    ngx_str_t                            req;
    ngx_str_t                            ends;
    ngx_str_t                            end;
    ngx_str_t                            stop;
    ngx_str_t                            status;
    ngx_str_t                            dir;
    ngx_str_t                            asks;
    ngx_str_t                            prompted;
    ngx_str_t                            interrupted;
    ngx_str_t                            refused;
} ngx_http_agentstream_remote_meta_t;


typedef struct {
    ngx_http_agentstream_remote_session_t  *rs;
    ngx_http_agentstream_remote_mirror_t   *mirror;
    ngx_uint_t                              freed;
} ngx_http_agentstream_remote_fetch_t;


static void ngx_http_agentstream_remote_meta(
    ngx_http_agentstream_remote_meta_t *meta, redisReply *reply);
static ngx_uint_t ngx_http_agentstream_remote_lost_turn(
    ngx_http_agentstream_remote_session_t *rs, ngx_str_t *id);
static ngx_http_agentstream_node_t *ngx_http_agentstream_remote_node_locked(
    ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_remote_meta_t *meta, ngx_uint_t *news);
static ngx_http_agentstream_node_t *ngx_http_agentstream_remote_make_locked(
    ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_remote_meta_t *meta,
    ngx_http_agentstream_node_t *old);
static ngx_uint_t ngx_http_agentstream_remote_strays(
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_remote_meta_t *meta);
static ngx_uint_t ngx_http_agentstream_remote_ends(
    ngx_http_agentstream_remote_meta_t *meta, uint64_t *ends);
static void ngx_http_agentstream_remote_apply_locked(
    ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_remote_meta_t *meta);
static void ngx_http_agentstream_remote_asks_locked(
    ngx_http_agentstream_zone_t *zone, ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_remote_meta_t *meta);
static void ngx_http_agentstream_remote_progress(
    ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_remote_mirror_t *mirror);
static void ngx_http_agentstream_remote_fetch_done(void *data,
    redisReply *reply);


ngx_uint_t
ngx_http_agentstream_remote_mirror(ngx_http_agentstream_remote_session_t *rs,
    redisReply *reply, ngx_uint_t unsure)
{
    ngx_uint_t                             news, gone, known;
    ngx_http_agentstream_node_t           *node;
    ngx_http_agentstream_zone_t           *zone;
    ngx_http_agentstream_remote_meta_t     meta;
    ngx_http_agentstream_remote_mirror_t  *mirror;

    zone = rs->remote->zone;

    ngx_http_agentstream_remote_meta(&meta, reply);

    if (meta.id.len == 0
        || meta.id.len > NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE)
    {
        return 0;
    }

    if (meta.epoch.len == 0) {
        return ngx_http_agentstream_remote_lost_turn(rs, &meta.id);
    }

    /* first, because a copy without it would never end */

    known = (ngx_http_agentstream_remote_find_mirror(rs, &meta.id, 0) != NULL);
    mirror = ngx_http_agentstream_remote_find_mirror(rs, &meta.id, 1);

    if (mirror == NULL) {
        return 0;
    }

    news = 0;
    gone = 0;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_remote_node_locked(rs, &meta, &news);

    if (node) {
        gone = node->gone;
        ngx_http_agentstream_remote_apply_locked(rs, node, &meta);
        gone = (node->gone && !gone);

        if (!meta.run) {
            node->session->unsure = unsure;
        }
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (node == NULL) {

        if (!known) {
            ngx_http_agentstream_remote_free_mirror(rs, mirror);
        }

        return news;
    }

    mirror->missing = 0;
    mirror->lost = 0;
    mirror->last = ngx_http_agentstream_redis_number(&meta.last);
    mirror->end = (meta.end.len != 0);
    mirror->stop_reason.data = mirror->stop_data;
    mirror->stop_reason.len = ngx_min(meta.stop.len,
                                      sizeof(mirror->stop_data));

    if (mirror->stop_reason.len) {
        ngx_memcpy(mirror->stop_data, meta.stop.data,
                   mirror->stop_reason.len);
    }

    if (gone) {
        ngx_http_agentstream_remote_wake(rs->remote, &meta.id);
    }

    ngx_http_agentstream_remote_progress(rs, mirror);

    return news;
}


static void
ngx_http_agentstream_remote_meta(ngx_http_agentstream_remote_meta_t *meta,
    redisReply *reply)
{
    ngx_str_t    name, text;
    ngx_uint_t   i, j;
    redisReply  *fields;

    static struct {
        const char  *name;
        size_t       offset;
    } known[] = {
        { "epoch", offsetof(ngx_http_agentstream_remote_meta_t, epoch) },
        { "owner", offsetof(ngx_http_agentstream_remote_meta_t, owner) },
        { "last", offsetof(ngx_http_agentstream_remote_meta_t, last) },
        { "rank", offsetof(ngx_http_agentstream_remote_meta_t, rank) },
        { "set", offsetof(ngx_http_agentstream_remote_meta_t, set) },
        { "req", offsetof(ngx_http_agentstream_remote_meta_t, req) },
        { "ends", offsetof(ngx_http_agentstream_remote_meta_t, ends) },
        { "end", offsetof(ngx_http_agentstream_remote_meta_t, end) },
        { "stop", offsetof(ngx_http_agentstream_remote_meta_t, stop) },
        { "status", offsetof(ngx_http_agentstream_remote_meta_t, status) },
        { "dir", offsetof(ngx_http_agentstream_remote_meta_t, dir) },
        { "asks", offsetof(ngx_http_agentstream_remote_meta_t, asks) },
        { "prompted", offsetof(ngx_http_agentstream_remote_meta_t, prompted) },
        { "int", offsetof(ngx_http_agentstream_remote_meta_t, interrupted) },
        { "refused", offsetof(ngx_http_agentstream_remote_meta_t, refused) },
        { NULL, 0 }
    };

    ngx_memzero(meta, sizeof(ngx_http_agentstream_remote_meta_t));

    for (j = 0; known[j].name; j++) {
        ngx_str_set((ngx_str_t *) ((u_char *) meta + known[j].offset), "");
    }

    meta->id = ngx_http_agentstream_redis_item(reply, 0);

    text = ngx_http_agentstream_redis_item(reply, 1);
    meta->run = (text.len == 1 && text.data[0] == '1');

    text = ngx_http_agentstream_redis_item(reply, 2);
    meta->live = (text.len == 1 && text.data[0] == '1');

    fields = ngx_http_agentstream_redis_element(reply, 3);

    for (i = 0; i + 1 < ngx_http_agentstream_redis_count(fields); i += 2) {
        name = ngx_http_agentstream_redis_item(fields, i);

        for (j = 0; known[j].name; j++) {

            if (name.len == ngx_strlen(known[j].name)
                && ngx_strncmp(name.data, known[j].name, name.len) == 0)
            {
                *(ngx_str_t *) ((u_char *) meta + known[j].offset) =
                               ngx_http_agentstream_redis_item(fields, i + 1);
                break;
            }
        }
    }
}


/* Redis does not know the turn any more, so a copy of it cannot be completed */

static ngx_uint_t
ngx_http_agentstream_remote_lost_turn(
    ngx_http_agentstream_remote_session_t *rs, ngx_str_t *id)
{
    uint64_t                               watchers[
                                      NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64];
    ngx_uint_t                             lost;
    ngx_http_agentstream_node_t           *node;
    ngx_http_agentstream_zone_t           *zone;
    ngx_http_agentstream_watch_t          *watch;
    ngx_http_agentstream_remote_mirror_t  *mirror;

    zone = rs->remote->zone;
    watch = NULL;

    mirror = ngx_http_agentstream_remote_find_mirror(rs, id, 0);

    if (mirror == NULL || mirror->fetching) {
        return 0;
    }

    /* its owner notices it soon, and stores it again, unless it has given it
       up */

    if (mirror->missing == 0) {
        mirror->missing = ngx_current_msec;
    }

    if (!mirror->lost
        && ngx_current_msec - mirror->missing < NGX_HTTP_AGENTSTREAM_MISSING)
    {
        return 0;
    }

    ngx_http_agentstream_remote_free_mirror(rs, mirror);

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, id);

    lost = (node && node->mirror && node->remote == NULL
            && node->state != NGX_HTTP_AGENTSTREAM_TURN_FINISHED);

    if (lost) {
        ngx_memcpy(watchers, node->watchers, sizeof(watchers));
        ngx_http_agentstream_zone_finish_locked(zone, node);
        ngx_http_agentstream_zone_free_locked(zone, node);
    }

    ngx_http_agentstream_zone_unlock(zone);

    if (lost) {
        ngx_http_agentstream_notify_wake(id, watchers, &watch);
        ngx_http_agentstream_notify_forget(&watch);
    }

    return lost;
}


/*
 * The node that this worker copies the turn to, or NULL: the turn is this
 * machine's, or is complete, or another worker copies it, or there is no
 * room.
 */

static ngx_http_agentstream_node_t *
ngx_http_agentstream_remote_node_locked(
    ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_remote_meta_t *meta, ngx_uint_t *news)
{
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = rs->remote->zone;

    node = ngx_http_agentstream_zone_find_locked(zone, &meta->id);

    if (node
        && (!node->mirror
            || node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED))
    {
        return NULL;
    }

    if (node
        && (node->owner.slot != zone->self.slot
            || node->owner.generation != zone->self.generation))
    {
        if (!ngx_http_agentstream_zone_dead_locked(zone, &node->owner)) {
            return NULL;
        }

        /* it may have died while it took the turn over */

        node->owner = zone->self;
        node->remote = NULL;
        node->pinned = 0;
        ngx_http_agentstream_journal_mend_locked(zone, node);
        ngx_http_agentstream_zone_place_locked(zone, node);
    }

    if (node && node->remote) {
        return NULL;
    }

    if (node && !ngx_http_agentstream_remote_strays(node, meta)) {
        return node;
    }

    node = ngx_http_agentstream_remote_make_locked(rs, meta, node);

    if (node) {
        *news = 1;
    }

    return node;
}


/* a copy, instead of an old one: those who read it stay, and are told if they
   have read too far; for those who follow the session it is the same turn */

static ngx_http_agentstream_node_t *
ngx_http_agentstream_remote_make_locked(
    ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_remote_meta_t *meta, ngx_http_agentstream_node_t *old)
{
    uint64_t                      number, watchers[
                                      NGX_HTTP_AGENTSTREAM_WORKERS_MAX / 64];
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = rs->remote->zone;
    number = 0;

    ngx_memzero(watchers, sizeof(watchers));

    if (old) {
        number = old->number;
        ngx_memcpy(watchers, old->watchers, sizeof(watchers));
        ngx_http_agentstream_zone_finish_locked(zone, old);
        ngx_http_agentstream_zone_free_locked(zone, old);
    }

    node = ngx_http_agentstream_zone_mirror_locked(zone, &rs->sn.str,
                             &meta->id, &meta->req,
                             ngx_http_agentstream_redis_number(&meta->rank));

    if (node == NULL) {
        return NULL;
    }

    if (ngx_http_agentstream_journal_create_locked(zone, node) != NGX_OK) {
        ngx_http_agentstream_zone_finish_locked(zone, node);
        ngx_http_agentstream_zone_free_locked(zone, node);
        return NULL;
    }

    if (number) {
        node->number = number;
    }

    ngx_memcpy(node->watchers, watchers, sizeof(watchers));
    node->seen_at = ngx_current_msec;
    ngx_http_agentstream_zone_place_locked(zone, node);

    return node;
}


/* whether the copy has records that Redis does not have, as that of a turn
   that was this machine's may have */

static ngx_uint_t
ngx_http_agentstream_remote_strays(ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_remote_meta_t *meta)
{
    uint64_t    epoch, ends[NGX_HTTP_AGENTSTREAM_EPOCHS];
    ngx_uint_t  n;

    epoch = ngx_http_agentstream_redis_number(&meta->epoch);

    if (node->epoch >= epoch) {
        /* in the same epoch a number is one packet: what was published since
           Redis answered may be here before its answer */

        return node->epoch > epoch;
    }

    n = ngx_http_agentstream_remote_ends(meta, ends);

    return epoch - node->epoch > n
           || node->journal.last_seq > ends[n - (epoch - node->epoch)];
}


/* the last records of the epochs before, at most the newest of them */

static ngx_uint_t
ngx_http_agentstream_remote_ends(ngx_http_agentstream_remote_meta_t *meta,
    uint64_t *ends)
{
    u_char      *p, *space, *last;
    ngx_str_t    text;
    ngx_uint_t   n;

    n = 0;
    p = meta->ends.data;
    last = p + meta->ends.len;

    while (p < last) {
        space = ngx_strlchr(p, last, ' ');

        if (space == NULL) {
            break;
        }

        if (n == NGX_HTTP_AGENTSTREAM_EPOCHS) {
            ngx_memmove(&ends[0], &ends[1], (n - 1) * sizeof(uint64_t));
            n--;
        }

        text.data = p;
        text.len = space - p;
        ends[n++] = ngx_http_agentstream_redis_number(&text);

        p = space + 1;
    }

    return n;
}


static void
ngx_http_agentstream_remote_apply_locked(
    ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_remote_meta_t *meta)
{
    u_char                          *space;
    ngx_str_t                        text;
    ngx_uint_t                       ours;
    ngx_http_agentstream_session_t  *session;

    session = node->session;

    node->epoch = ngx_http_agentstream_redis_number(&meta->epoch);
    node->nends = ngx_http_agentstream_remote_ends(meta, node->ends);
    node->nends = ngx_min(node->nends, node->epoch);

    space = ngx_strlchr(meta->set.data, meta->set.data + meta->set.len, ' ');

    if (space) {
        text.data = meta->set.data;
        text.len = space - meta->set.data;
        node->packets = ngx_http_agentstream_redis_number(&text);

        text.data = space + 1;
        text.len = meta->set.data + meta->set.len - text.data;
        node->tool_kinds = ngx_http_agentstream_redis_number(&text);
    }

    node->status = ngx_http_agentstream_redis_number(&meta->status);
    node->prompted = (meta->prompted.len != 0);
    node->interrupted |= (meta->interrupted.len != 0);

    if (meta->refused.len && !node->refused) {
        ngx_http_agentstream_zone_refuse_locked(rs->remote->zone, node);
    }

    if (meta->end.len) {
        node->gone = 0;
        return;
    }

    /* a turn that is ours, as Redis says, but that we do not have: the answer
       to our claim was lost, or the claim could not be completed */

    ours = (meta->owner.len == rs->remote->owner.len
            && ngx_memcmp(meta->owner.data, rs->remote->owner.data,
                          meta->owner.len) == 0);

    node->gone = ((!meta->live || ours)
                  && ngx_http_agentstream_remote_steady(rs->remote));

    if (meta->run && (session->running == NULL || session->running->mirror)) {
        session->running = node;
    }

    ngx_http_agentstream_remote_asks_locked(rs->remote->zone, node, meta);
}


static void
ngx_http_agentstream_remote_asks_locked(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_node_t *node,
    ngx_http_agentstream_remote_meta_t *meta)
{
    u_char     *p, *end, *last;
    ngx_str_t   id;

    ngx_http_agentstream_zone_forget_locked(zone, node);

    if (meta->dir.len) {
        (void) ngx_http_agentstream_zone_directory_locked(zone, node,
                                                          &meta->dir);
    }

    p = meta->asks.data;
    last = p + meta->asks.len;

    while (p < last) {
        end = ngx_strlchr(p, last, '\n');

        if (end == NULL) {
            return;
        }

        id.data = p + 1;
        id.len = end - id.data;

        if (id.len && id.len <= NGX_HTTP_AGENTSTREAM_ASK_ID_SIZE) {
            (void) ngx_http_agentstream_zone_ask_locked(zone, node, &id,
                                                        *p == 'P');
        }

        p = end + 1;
    }
}


ngx_http_agentstream_node_t *
ngx_http_agentstream_remote_copied(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *id)
{
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = remote->zone;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, id);

    if (node
        && (!node->mirror || node->remote
            || node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED
            || node->owner.slot != zone->self.slot
            || node->owner.generation != zone->self.generation))
    {
        node = NULL;
    }

    ngx_http_agentstream_zone_unlock(zone);

    return node;
}


/* fetches what is missing, or ends the copy if nothing is */

static void
ngx_http_agentstream_remote_progress(ngx_http_agentstream_remote_session_t *rs,
    ngx_http_agentstream_remote_mirror_t *mirror)
{
    ngx_http_agentstream_node_t          *node;
    ngx_http_agentstream_zone_t          *zone;
    ngx_http_agentstream_remote_fetch_t  *fetch;

    zone = rs->remote->zone;

    if (mirror->fetching) {
        return;
    }

    node = ngx_http_agentstream_remote_copied(rs->remote, &mirror->id);

    if (node == NULL) {
        ngx_http_agentstream_remote_free_mirror(rs, mirror);
        return;
    }

    if (node->journal.last_seq < mirror->last) {
        fetch = ngx_alloc(sizeof(ngx_http_agentstream_remote_fetch_t),
                          rs->remote->log);

        if (fetch == NULL) {
            return;
        }

        fetch->rs = rs;
        fetch->mirror = mirror;

        if (ngx_http_agentstream_remote_range(rs->remote, &rs->base, node,
                                       ngx_http_agentstream_remote_fetch_done,
                                       fetch)
            != NGX_OK)
        {
            ngx_free(fetch);
            return;
        }

        mirror->fetching = 1;
        rs->refs++;
        rs->fetches++;
        return;
    }

    if (mirror->end) {
        ngx_http_agentstream_zone_lock(zone);

        ngx_memzero(node->stop_reason, sizeof(node->stop_reason));
        ngx_memcpy(node->stop_reason, mirror->stop_data,
                   ngx_min(mirror->stop_reason.len,
                           sizeof(node->stop_reason) - 1));

        ngx_http_agentstream_journal_show_locked(node, node->journal.last_seq);
        ngx_http_agentstream_journal_pack_locked(zone, node);
        ngx_http_agentstream_zone_finish_locked(zone, node);

        ngx_http_agentstream_zone_unlock(zone);

        ngx_http_agentstream_remote_wake(rs->remote, &mirror->id);
        ngx_http_agentstream_notify_tell(&rs->session);

        ngx_http_agentstream_remote_free_mirror(rs, mirror);
    }
}


static void
ngx_http_agentstream_remote_fetch_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_fetch_t *fetch = data;

    ngx_int_t                               n;
    ngx_str_t                               id;
    u_char                                  buf[
                                           NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    ngx_http_agentstream_node_t            *node;
    ngx_http_agentstream_remote_mirror_t   *mirror;
    ngx_http_agentstream_remote_session_t  *rs;

    rs = fetch->rs;
    mirror = fetch->mirror;
    ngx_free(fetch);

    rs->refs--;
    rs->fetches--;
    mirror->fetching = 0;

    node = ngx_http_agentstream_remote_copied(rs->remote, &mirror->id);
    n = NGX_DECLINED;

    if (node) {
        n = ngx_http_agentstream_remote_ranged(rs->remote, node, reply);
    }

    if (n == 0 && !mirror->empty) {
        /* Redis may have been emptied since it was asked what it has */
        mirror->empty = 1;

    } else if ((n == 0 || n == NGX_ERROR)
               && node->journal.last_seq < mirror->last)
    {
        /* the records were dropped, or are none: whoever wants them is told */

        ngx_http_agentstream_zone_lock(rs->remote->zone);
        ngx_http_agentstream_journal_jump_locked(rs->remote->zone, node,
                                                 mirror->last);
        ngx_http_agentstream_journal_show_locked(node, mirror->last);
        ngx_http_agentstream_zone_unlock(rs->remote->zone);

        n = 1;
    }

    if (n > 0) {
        mirror->empty = 0;
    }

    id.data = buf;
    id.len = mirror->id.len;
    ngx_memcpy(buf, mirror->id_data, id.len);

    if (n > 0) {
        ngx_http_agentstream_remote_progress(rs, mirror);
        ngx_http_agentstream_remote_wake(rs->remote, &id);
    }

    ngx_http_agentstream_remote_settle(rs);
}


/* nobody in this worker looks any more: another worker may copy the turns, if
   somebody there reads them; otherwise they are forgotten */

void
ngx_http_agentstream_remote_free_mirrors(
    ngx_http_agentstream_remote_session_t *rs)
{
    ngx_uint_t                             read;
    ngx_queue_t                           *q;
    ngx_http_agentstream_node_t           *node;
    ngx_http_agentstream_zone_t           *zone;
    ngx_http_agentstream_remote_mirror_t  *mirror;

    zone = rs->remote->zone;

    while (!ngx_queue_empty(&rs->mirrors)) {
        q = ngx_queue_head(&rs->mirrors);

        mirror = ngx_queue_data(q, ngx_http_agentstream_remote_mirror_t,
                                queue);

        node = ngx_http_agentstream_remote_copied(rs->remote, &mirror->id);
        read = 0;

        if (node) {
            ngx_http_agentstream_zone_lock(zone);

            read = ngx_http_agentstream_zone_watched_locked(zone, node);

            if (read) {
                node->owner.slot = 0;
                node->owner.generation = 0;

            } else {
                ngx_http_agentstream_zone_finish_locked(zone, node);
                ngx_http_agentstream_zone_free_locked(zone, node);
            }

            ngx_http_agentstream_zone_unlock(zone);
        }

        if (read && !ngx_exiting) {
            ngx_http_agentstream_remote_wake(rs->remote, &mirror->id);
        }

        ngx_http_agentstream_remote_free_mirror(rs, mirror);
    }
}

#endif
