
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The sessions that somebody in this worker looks at.  Their channel is
 * subscribed to, and Redis is asked what it knows of them: at first, whenever
 * the channel says that something has changed, and twice a second, which also
 * tells whether the owners of their turns live.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* how long a session is kept that nobody looks at */
#define NGX_HTTP_AGENTSTREAM_SESSION_LINGER  2000

/* the most turns that are asked for at a time */
#define NGX_HTTP_AGENTSTREAM_LOOK_TURNS      64


static ngx_uint_t ngx_http_agentstream_remote_here(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *turn);
static void ngx_http_agentstream_remote_look_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_subscribe(
    ngx_http_agentstream_remote_session_t *rs, const char *what);
static ngx_uint_t ngx_http_agentstream_remote_view(
    ngx_http_agentstream_remote_session_t *rs);
static void ngx_http_agentstream_remote_close(
    ngx_http_agentstream_remote_session_t *rs);


ngx_int_t
ngx_http_agentstream_remote_watch(ngx_http_agentstream_zone_t *zone,
    ngx_http_agentstream_store_watch_t *watch, ngx_str_t *key,
    ngx_str_t *turn, ngx_uint_t follow, ngx_http_agentstream_later_t *later)
{
    ngx_http_agentstream_remote_t          *remote;
    ngx_http_agentstream_remote_session_t  *rs;

    remote = ngx_http_agentstream_remote_of(zone);

    if (!follow && ngx_http_agentstream_remote_here(zone, key, turn)) {
        return NGX_OK;
    }

    rs = ngx_http_agentstream_remote_session(remote, key);

    if (rs == NULL) {
        return NGX_OK;
    }

    watch->session = rs;
    ngx_queue_insert_tail(&rs->watches, &watch->queue);

    if (!remote->up || later == NULL) {
        return NGX_OK;
    }

    watch->turn.data = watch->id;
    watch->turn.len = ngx_min(turn->len, sizeof(watch->id));

    if (watch->turn.len) {
        ngx_memcpy(watch->id, turn->data, watch->turn.len);
    }

    watch->later = later;
    watch->looked = 0;
    watch->since = ngx_current_msec;

    later->zone = zone;
    later->node = NULL;
    later->verb = NGX_HTTP_AGENTSTREAM_LATER_FINISH;
    later->end = (ngx_http_agentstream_store_end_t *) watch;
    ngx_queue_init(&later->queue);

    ngx_http_agentstream_remote_look(rs);

    return NGX_AGAIN;
}


/* whether the turn that runs in the session is this machine's, and nothing else
   is of interest */

static ngx_uint_t
ngx_http_agentstream_remote_here(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *turn)
{
    ngx_uint_t                    here;
    ngx_http_agentstream_node_t  *node;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_running_locked(zone, key);

    here = (node && !node->mirror && !node->pending
            && !ngx_http_agentstream_zone_gone_locked(zone, &node->owner)
            && (turn->len == 0
                || (turn->len == node->sn.str.len
                    && ngx_memcmp(turn->data, node->id, turn->len) == 0)));

    ngx_http_agentstream_zone_unlock(zone);

    return here;
}


void
ngx_http_agentstream_remote_unwatch(ngx_http_agentstream_store_watch_t *watch)
{
    ngx_http_agentstream_remote_session_t  *rs;

    rs = watch->session;
    watch->session = NULL;

    if (watch->later) {
        watch->later->zone = NULL;
        watch->later = NULL;
    }

    ngx_queue_remove(&watch->queue);
    rs->used = ngx_current_msec;
}


ngx_uint_t
ngx_http_agentstream_remote_newest(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *turn)
{
    ngx_http_agentstream_remote_t          *remote;
    ngx_http_agentstream_remote_session_t  *rs;

    remote = ngx_http_agentstream_remote_of(zone);

    rs = (ngx_http_agentstream_remote_session_t *)
             ngx_str_rbtree_lookup(&remote->tree, key,
                                   ngx_murmur_hash2(key->data, key->len));

    return remote->up && rs && rs->newest.len == turn->len
           && ngx_memcmp(rs->newest.data, turn->data, turn->len) == 0;
}


ngx_http_agentstream_remote_session_t *
ngx_http_agentstream_remote_session(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *key)
{
    u_char                                 *p;
    uint32_t                                hash;
    ngx_http_agentstream_remote_session_t  *rs;

    hash = ngx_murmur_hash2(key->data, key->len);

    rs = (ngx_http_agentstream_remote_session_t *)
             ngx_str_rbtree_lookup(&remote->tree, key, hash);

    if (rs) {
        return rs;
    }

    rs = ngx_calloc(sizeof(ngx_http_agentstream_remote_session_t)
                    + sizeof("as1:{}:") + key->len, remote->log);
    if (rs == NULL) {
        return NULL;
    }

    p = (u_char *) (rs + 1);

    rs->base.data = p;
    rs->base.len = ngx_sprintf(p, "as1:{%V}:", key) - p;

    rs->sn.str.data = p + sizeof("as1:{") - 1;
    rs->sn.str.len = key->len;
    rs->sn.node.key = hash;

    /* the id is the last word of the key */

    p = rs->sn.str.data + key->len;

    while (p > rs->sn.str.data && p[-1] != ' ') {
        p--;
    }

    rs->session.data = p;
    rs->session.len = rs->sn.str.data + key->len - p;

    rs->remote = remote;
    rs->used = ngx_current_msec;

    ngx_queue_init(&rs->watches);
    ngx_queue_init(&rs->mirrors);

    ngx_rbtree_insert(&remote->tree, &rs->sn.node);
    ngx_queue_insert_tail(&remote->sessions, &rs->queue);

    ngx_http_agentstream_zone_count(remote->zone, STORE_SESSIONS, 1);

    ngx_http_agentstream_remote_subscribe(rs, "SSUBSCRIBE");

    return rs;
}


void
ngx_http_agentstream_remote_look_at(ngx_http_agentstream_remote_t *remote,
    ngx_str_t *key, ngx_str_t *turn, ngx_uint_t lost)
{
    ngx_http_agentstream_remote_mirror_t   *mirror;
    ngx_http_agentstream_remote_session_t  *rs;

    rs = ngx_http_agentstream_remote_session(remote, key);

    if (rs == NULL) {
        return;
    }

    rs->used = ngx_current_msec;

    mirror = ngx_http_agentstream_remote_find_mirror(rs, turn, 1);

    if (mirror) {
        mirror->lost = lost;
    }

    ngx_http_agentstream_remote_look(rs);
}


void
ngx_http_agentstream_remote_look(ngx_http_agentstream_remote_session_t *rs)
{
    ngx_str_t                              argv[
                                         NGX_HTTP_AGENTSTREAM_LOOK_TURNS + 1];
    ngx_uint_t                             n;
    ngx_queue_t                           *q;
    ngx_http_agentstream_store_watch_t    *watch;
    ngx_http_agentstream_remote_mirror_t  *mirror;

    if (rs->looking) {
        rs->again = 1;
        return;
    }

    n = 0;
    argv[n++] = rs->base;

    for (q = ngx_queue_head(&rs->watches);
         q != ngx_queue_sentinel(&rs->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, ngx_http_agentstream_store_watch_t, queue);

        if (watch->later == NULL || watch->looked) {
            continue;
        }

        watch->looked = 1;

        if (watch->turn.len && n <= NGX_HTTP_AGENTSTREAM_LOOK_TURNS) {
            argv[n++] = watch->turn;
        }
    }

    for (q = ngx_queue_head(&rs->mirrors);
         q != ngx_queue_sentinel(&rs->mirrors)
         && n <= NGX_HTTP_AGENTSTREAM_LOOK_TURNS;
         q = ngx_queue_next(q))
    {
        mirror = ngx_queue_data(q, ngx_http_agentstream_remote_mirror_t,
                                queue);
        argv[n++] = mirror->id;
    }

    if (ngx_http_agentstream_remote_eval(rs->remote,
                                        NGX_HTTP_AGENTSTREAM_SCRIPT_LOOK, n,
                                        argv,
                                        ngx_http_agentstream_remote_look_done,
                                        rs)
        != NGX_OK)
    {
        return;
    }

    rs->looking = 1;
    rs->again = 0;
    rs->refs++;
}


static void
ngx_http_agentstream_remote_look_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_session_t *rs = data;

    ngx_str_t                            text;
    ngx_uint_t                           i, n, unsure, news;
    ngx_queue_t                         *q;
    ngx_http_agentstream_store_watch_t  *watch;

    rs->refs--;
    rs->looking = 0;

    for (q = ngx_queue_head(&rs->watches);
         q != ngx_queue_sentinel(&rs->watches);
         q = ngx_queue_next(q))
    {
        watch = ngx_queue_data(q, ngx_http_agentstream_store_watch_t, queue);

        if (watch->looked) {
            watch->looked = 2;
        }
    }

    text = ngx_http_agentstream_redis_item(reply, 0);
    unsure = (text.len != 1 || text.data[0] != '0');

    text = ngx_http_agentstream_redis_item(reply, 1);
    rs->newest.data = rs->newest_data;
    rs->newest.len = ngx_min(text.len, sizeof(rs->newest_data));

    if (rs->newest.len) {
        ngx_memcpy(rs->newest_data, text.data, rs->newest.len);
    }

    n = ngx_http_agentstream_redis_count(reply);
    news = 0;

    for (i = 2; i < n; i++) {
        news |= ngx_http_agentstream_remote_mirror(rs,
                               ngx_http_agentstream_redis_element(reply, i),
                               unsure);
    }

    if (rs->again && reply) {
        ngx_http_agentstream_remote_look(rs);
    }

    if (news) {
        ngx_http_agentstream_notify_tell(&rs->session);
    }

    ngx_http_agentstream_remote_settle(rs);
}


/* answers those who wait, when everything is here that they want */

void
ngx_http_agentstream_remote_settle(ngx_http_agentstream_remote_session_t *rs)
{
    ngx_queue_t                         *q, *next;
    ngx_http_agentstream_store_watch_t  *watch;

    if (rs->fetches && rs->remote->up) {
        return;
    }

    /* nobody frees the session or other watches meanwhile, but a watch may
       be removed while it is answered */

    for (q = ngx_queue_head(&rs->watches);
         q != ngx_queue_sentinel(&rs->watches);
         q = next)
    {
        next = ngx_queue_next(q);
        watch = ngx_queue_data(q, ngx_http_agentstream_store_watch_t, queue);

        if (watch->later && watch->looked == 2) {
            ngx_http_agentstream_remote_answer(watch->later, NGX_OK);
        }
    }
}


/* Redis is away: nobody waits for it */

void
ngx_http_agentstream_remote_forget_looks(ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                            *q, *w;
    ngx_http_agentstream_store_watch_t     *watch;
    ngx_http_agentstream_remote_session_t  *rs;

    for (q = ngx_queue_head(&remote->sessions);
         q != ngx_queue_sentinel(&remote->sessions);
         q = ngx_queue_next(q))
    {
        rs = ngx_queue_data(q, ngx_http_agentstream_remote_session_t, queue);

        for (w = ngx_queue_head(&rs->watches);
             w != ngx_queue_sentinel(&rs->watches);
             w = ngx_queue_next(w))
        {
            watch = ngx_queue_data(w, ngx_http_agentstream_store_watch_t,
                                   queue);
            watch->looked = 2;
        }

        ngx_http_agentstream_remote_settle(rs);
    }
}


static void
ngx_http_agentstream_remote_subscribe(
    ngx_http_agentstream_remote_session_t *rs, const char *what)
{
    u_char     *p;
    ngx_str_t   argv[2];

    argv[0].data = (u_char *) what;
    argv[0].len = ngx_strlen(what);

    argv[1].len = rs->base.len + 1;
    argv[1].data = ngx_alloc(argv[1].len, rs->remote->log);

    if (argv[1].data == NULL) {
        return;
    }

    p = ngx_cpymem(argv[1].data, rs->base.data, rs->base.len);
    *p = 'c';

    (void) ngx_http_agentstream_redis_command(&rs->remote->messages, 2, argv,
                                              NULL, NULL);
    ngx_free(argv[1].data);
}


/* one of the connections is back: what was missed is asked for */

void
ngx_http_agentstream_remote_subscribe_all(
    ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                            *q;
    ngx_http_agentstream_remote_session_t  *rs;

    for (q = ngx_queue_head(&remote->sessions);
         q != ngx_queue_sentinel(&remote->sessions);
         q = ngx_queue_next(q))
    {
        rs = ngx_queue_data(q, ngx_http_agentstream_remote_session_t, queue);

        ngx_http_agentstream_remote_subscribe(rs, "SSUBSCRIBE");

        if (remote->up) {
            ngx_http_agentstream_remote_look(rs);
        }
    }
}


void
ngx_http_agentstream_remote_tick_sessions(
    ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                            *q, *next;
    ngx_http_agentstream_remote_session_t  *rs;

    for (q = ngx_queue_head(&remote->sessions);
         q != ngx_queue_sentinel(&remote->sessions);
         q = next)
    {
        next = ngx_queue_next(q);
        rs = ngx_queue_data(q, ngx_http_agentstream_remote_session_t, queue);

        if (ngx_queue_empty(&rs->watches)
            && rs->refs == 0
            && ngx_current_msec - rs->used
               >= NGX_HTTP_AGENTSTREAM_SESSION_LINGER)
        {
            ngx_http_agentstream_remote_close(rs);
            continue;
        }

        if (!rs->looking) {
            ngx_http_agentstream_remote_look(rs);

            if (ngx_http_agentstream_remote_view(rs)) {
                rs->used = ngx_current_msec;
            }
        }
    }
}


/* tells the owners that their turns are read here; returns whether one is */

static ngx_uint_t
ngx_http_agentstream_remote_view(ngx_http_agentstream_remote_session_t *rs)
{
    u_char                                *p;
    ngx_str_t                              argv[5];
    ngx_uint_t                             read, any;
    ngx_queue_t                           *q;
    ngx_http_agentstream_node_t           *node;
    ngx_http_agentstream_zone_t           *zone;
    ngx_http_agentstream_remote_mirror_t  *mirror;

    zone = rs->remote->zone;
    any = 0;

    for (q = ngx_queue_head(&rs->mirrors);
         q != ngx_queue_sentinel(&rs->mirrors);
         q = ngx_queue_next(q))
    {
        mirror = ngx_queue_data(q, ngx_http_agentstream_remote_mirror_t,
                                queue);

        ngx_http_agentstream_zone_lock(zone);

        node = ngx_http_agentstream_zone_find_locked(zone, &mirror->id);
        read = (node && node->mirror
                && ngx_http_agentstream_zone_watched_locked(zone, node));

        ngx_http_agentstream_zone_unlock(zone);

        if (!read) {
            continue;
        }

        any = 1;

        ngx_str_set(&argv[0], "SET");
        argv[1].len = rs->base.len + 2 + mirror->id.len;
        argv[1].data = ngx_alloc(argv[1].len, rs->remote->log);

        if (argv[1].data == NULL) {
            break;
        }

        p = ngx_cpymem(argv[1].data, rs->base.data, rs->base.len);
        p = ngx_cpymem(p, "v:", 2);
        ngx_memcpy(p, mirror->id.data, mirror->id.len);

        ngx_str_set(&argv[2], "1");
        ngx_str_set(&argv[3], "EX");
        ngx_str_set(&argv[4], "3");

        (void) ngx_http_agentstream_redis_command(&rs->remote->commands, 5,
                                          argv,
                                          ngx_http_agentstream_remote_ignore,
                                          NULL);
        ngx_free(argv[1].data);
    }

    return any;
}


static void
ngx_http_agentstream_remote_close(ngx_http_agentstream_remote_session_t *rs)
{
    /* readers that are woken must not find it any more */

    ngx_rbtree_delete(&rs->remote->tree, &rs->sn.node);
    ngx_queue_remove(&rs->queue);

    ngx_http_agentstream_remote_free_mirrors(rs);
    ngx_http_agentstream_remote_subscribe(rs, "SUNSUBSCRIBE");

    ngx_http_agentstream_zone_count(rs->remote->zone, STORE_SESSIONS, -1);

    ngx_free(rs);
}


/* the worker exits, and Redis is not used any more */

void
ngx_http_agentstream_remote_close_sessions(
    ngx_http_agentstream_remote_t *remote)
{
    ngx_queue_t                            *q;
    ngx_http_agentstream_remote_session_t  *rs;

    while (!ngx_queue_empty(&remote->sessions)) {
        q = ngx_queue_head(&remote->sessions);
        rs = ngx_queue_data(q, ngx_http_agentstream_remote_session_t, queue);

        ngx_http_agentstream_remote_close(rs);
    }
}


/* a message of a channel: of a session, or of this worker */

void
ngx_http_agentstream_remote_message(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_t *remote = data;

    ngx_str_t                               kind, channel, payload, key, id;
    ngx_http_agentstream_remote_mirror_t   *mirror;
    ngx_http_agentstream_remote_session_t  *rs;

    kind = ngx_http_agentstream_redis_item(reply, 0);
    channel = ngx_http_agentstream_redis_item(reply, 1);
    payload = ngx_http_agentstream_redis_item(reply, 2);

    if (kind.len != sizeof("smessage") - 1
        || ngx_strncmp(kind.data, "smessage", kind.len) != 0
        || payload.len < 2)
    {
        return;
    }

    id.data = payload.data + 2;
    id.len = payload.len - 2;

    if (payload.data[0] == 'I') {
        ngx_http_agentstream_remote_interrupted(remote, &id);
        return;
    }

    if (payload.data[0] == 'C') {
        ngx_http_agentstream_remote_chat_entered(remote, &id);
        return;
    }

    if (channel.len < sizeof("as1:{}:c") - 1) {
        return;
    }

    key.data = channel.data + sizeof("as1:{") - 1;
    key.len = channel.len - (sizeof("as1:{}:c") - 1);

    rs = (ngx_http_agentstream_remote_session_t *)
             ngx_str_rbtree_lookup(&remote->tree, &key,
                                   ngx_murmur_hash2(key.data, key.len));

    if (rs == NULL) {
        return;
    }

    switch (payload.data[0]) {

    case 'A':
        if (ngx_http_agentstream_remote_feed(rs, &payload) != NGX_OK) {
            ngx_http_agentstream_remote_look(rs);
        }

        break;

    case 'Q':
        ngx_http_agentstream_notify_tell(&rs->session);
        break;

    case 'L':
        mirror = ngx_http_agentstream_remote_find_mirror(rs, &id, 0);

        if (mirror) {
            mirror->lost = 1;
            ngx_http_agentstream_remote_look(rs);
        }

        break;

    default: /* B, M */
        ngx_http_agentstream_remote_look(rs);
        ngx_http_agentstream_notify_tell(&rs->session);
        break;
    }
}

#endif
