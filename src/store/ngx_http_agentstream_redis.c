
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The connection to Redis: commands, answers, and what happens when it breaks.
 * Whatever arrives may be an error, or nonsense; a server that is loading, is a
 * replica, or wants another password is treated like one that cannot be
 * reached.  The commands of one cycle of the event loop are sent with one call.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include "ngx_http_agentstream_redis_int.h"

#if (NGX_HTTP_AGENTSTREAM_HIREDIS)
#include <hiredis/hiredis.h>
#endif


/* before another try: at first, and at most */
#define NGX_HTTP_AGENTSTREAM_REDIS_RETRY      100
#define NGX_HTTP_AGENTSTREAM_REDIS_RETRY_MAX  2000

/* bytes that may wait to be sent, and that may arrive at a time */
#define NGX_HTTP_AGENTSTREAM_REDIS_OUT        (32 * 1024 * 1024)
#define NGX_HTTP_AGENTSTREAM_REDIS_IN         16384


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

typedef struct {
    ngx_queue_t                          queue;
    ngx_http_agentstream_redis_pt        handler;
    void                                *data;
    ngx_msec_t                           sent;
} ngx_http_agentstream_redis_command_t;


static ngx_int_t ngx_http_agentstream_redis_room(
    ngx_http_agentstream_redis_t *redis, size_t len);
static void ngx_http_agentstream_redis_flush(ngx_event_t *ev);
static ngx_int_t ngx_http_agentstream_redis_replies(
    ngx_http_agentstream_redis_t *redis);
static ngx_int_t ngx_http_agentstream_redis_reply(
    ngx_http_agentstream_redis_t *redis, redisReply *reply);
static void ngx_http_agentstream_redis_close(
    ngx_http_agentstream_redis_t *redis);


/* errors after which the server cannot be used for now */

static const char  *ngx_http_agentstream_redis_away[] = {
    "LOADING", "READONLY", "MASTERDOWN", "NOAUTH", "WRONGPASS", "NOSCRIPT",
    "CLUSTERDOWN", "MOVED", NULL
};


void
ngx_http_agentstream_redis_start(ngx_http_agentstream_redis_t *redis)
{
    ngx_queue_init(&redis->commands);

    redis->flush.handler = ngx_http_agentstream_redis_flush;
    redis->flush.data = redis;
    redis->flush.log = redis->log;

    redis->retry.handler = ngx_http_agentstream_redis_connect;
    redis->retry.data = redis;
    redis->retry.log = redis->log;
    redis->retry.cancelable = 1;

    if (redis->find) {
        ngx_queue_insert_tail(&redis->find->users, &redis->queue);
    }

    ngx_add_timer(&redis->retry, 1);
}


void
ngx_http_agentstream_redis_stop(ngx_http_agentstream_redis_t *redis)
{
    redis->closing = 1;

    if (redis->find) {
        ngx_queue_remove(&redis->queue);
    }

    ngx_http_agentstream_redis_close(redis);

    if (redis->retry.timer_set) {
        ngx_del_timer(&redis->retry);
    }

    if (redis->out) {
        ngx_free(redis->out);
        redis->out = NULL;
    }
}


ngx_int_t
ngx_http_agentstream_redis_command(ngx_http_agentstream_redis_t *redis,
    ngx_uint_t argc, ngx_str_t *argv, ngx_http_agentstream_redis_pt handler,
    void *data)
{
    if (!redis->open) {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_redis_add(redis, argc, argv, handler, data);
}


ngx_int_t
ngx_http_agentstream_redis_add(ngx_http_agentstream_redis_t *redis,
    ngx_uint_t argc, ngx_str_t *argv, ngx_http_agentstream_redis_pt handler,
    void *data)
{
    int                                     len;
    char                                   *text;
    size_t                                 *lens;
    ngx_uint_t                              i;
    const char                            **args;
    ngx_connection_t                       *c;
    ngx_http_agentstream_redis_command_t   *command;

    lens = ngx_alloc(argc * (sizeof(size_t) + sizeof(char *)), redis->log);
    command = ngx_alloc(sizeof(ngx_http_agentstream_redis_command_t),
                        redis->log);

    if (lens == NULL || command == NULL) {
        goto failed;
    }

    args = (const char **) (lens + argc);

    for (i = 0; i < argc; i++) {
        args[i] = (const char *) argv[i].data;
        lens[i] = argv[i].len;
    }

    len = redisFormatCommandArgv(&text, argc, args, lens);

    if (len < 0) {
        goto failed;
    }

    if (ngx_http_agentstream_redis_room(redis, len) != NGX_OK) {
        redisFreeCommand(text);
        goto failed;
    }

    ngx_memcpy(redis->out + redis->out_len, text, len);
    redis->out_len += len;
    redisFreeCommand(text);
    ngx_free(lens);

    if (handler) {
        command->handler = handler;
        command->data = data;
        command->sent = ngx_current_msec;
        ngx_queue_insert_tail(&redis->commands, &command->queue);
        redis->ncommands++;

    } else {
        ngx_free(command);
    }

    c = redis->peer.connection;

    if (!c->read->timer_set) {
        ngx_add_timer(c->read, NGX_HTTP_AGENTSTREAM_REDIS_TIMEOUT);
    }

    ngx_post_event(&redis->flush, &ngx_posted_events);

    return NGX_OK;

failed:

    if (lens) {
        ngx_free(lens);
    }

    if (command) {
        ngx_free(command);
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_agentstream_redis_room(ngx_http_agentstream_redis_t *redis,
    size_t len)
{
    u_char  *out;
    size_t   size;

    if (redis->out_sent) {
        redis->out_len -= redis->out_sent;
        ngx_memmove(redis->out, redis->out + redis->out_sent, redis->out_len);
        redis->out_sent = 0;
    }

    len += redis->out_len;

    if (len <= redis->out_size) {
        return NGX_OK;
    }

    if (len > NGX_HTTP_AGENTSTREAM_REDIS_OUT) {
        return NGX_ERROR;
    }

    size = ngx_max(len, 2 * redis->out_size);

    out = ngx_alloc(size, redis->log);
    if (out == NULL) {
        return NGX_ERROR;
    }

    if (redis->out) {
        ngx_memcpy(out, redis->out, redis->out_len);
        ngx_free(redis->out);
    }

    redis->out = out;
    redis->out_size = size;

    return NGX_OK;
}


static void
ngx_http_agentstream_redis_flush(ngx_event_t *ev)
{
    ssize_t                        n;
    ngx_connection_t              *c;
    ngx_http_agentstream_redis_t  *redis;

    redis = ev->data;
    c = redis->peer.connection;

    if (c == NULL) {
        return;
    }

    while (redis->out_sent < redis->out_len) {
        n = c->send(c, redis->out + redis->out_sent,
                    redis->out_len - redis->out_sent);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0) {
            ngx_http_agentstream_redis_break(redis, "the connection broke");
            return;
        }

        redis->out_sent += n;
    }

    if (redis->out_sent == redis->out_len) {
        redis->out_sent = 0;
        redis->out_len = 0;
    }

    if (ngx_handle_write_event(c->write, 0) != NGX_OK) {
        ngx_http_agentstream_redis_break(redis, "the connection broke");
    }
}


void
ngx_http_agentstream_redis_write_handler(ngx_event_t *ev)
{
    ngx_connection_t              *c;
    ngx_http_agentstream_redis_t  *redis;

    c = ev->data;
    redis = c->data;

    if (ev->timedout) {
        ngx_http_agentstream_redis_break(redis, "cannot be reached");
        return;
    }

    if (ev->timer_set) {
        ngx_del_timer(ev);
        ngx_http_agentstream_redis_connected(c);
        return;
    }

    ngx_http_agentstream_redis_flush(&redis->flush);
}


void
ngx_http_agentstream_redis_read_handler(ngx_event_t *ev)
{
    u_char                         buf[NGX_HTTP_AGENTSTREAM_REDIS_IN];
    ssize_t                        n;
    ngx_connection_t              *c;
    ngx_http_agentstream_redis_t  *redis;

    c = ev->data;
    redis = c->data;

    if (ev->timedout) {
        ngx_http_agentstream_redis_break(redis, "does not answer");
        return;
    }

    for ( ;; ) {
        n = c->recv(c, buf, sizeof(buf));

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0
            || redisReaderFeed(redis->reader, (char *) buf, n) != REDIS_OK)
        {
            ngx_http_agentstream_redis_break(redis, "the connection broke");
            return;
        }

        if (ngx_http_agentstream_redis_replies(redis) != NGX_OK) {
            return;
        }
    }

    if (ngx_handle_read_event(ev, 0) != NGX_OK) {
        ngx_http_agentstream_redis_break(redis, "the connection broke");
        return;
    }

    if (ev->timer_set) {
        ngx_del_timer(ev);
    }

    if (!ngx_queue_empty(&redis->commands)) {
        ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_REDIS_TIMEOUT);
    }
}


/* NGX_DONE: the connection is closed */

static ngx_int_t
ngx_http_agentstream_redis_replies(ngx_http_agentstream_redis_t *redis)
{
    void       *reply;
    ngx_int_t   rc;

    for ( ;; ) {

        if (redisReaderGetReply(redis->reader, &reply) != REDIS_OK) {
            ngx_http_agentstream_redis_break(redis, "speaks another protocol");
            return NGX_DONE;
        }

        if (reply == NULL) {
            return NGX_OK;
        }

        rc = ngx_http_agentstream_redis_reply(redis, reply);

        freeReplyObject(reply);

        if (rc != NGX_OK) {
            return rc;
        }
    }
}


static ngx_int_t
ngx_http_agentstream_redis_reply(ngx_http_agentstream_redis_t *redis,
    redisReply *reply)
{
    ngx_uint_t                             i;
    ngx_msec_t                             took;
    ngx_queue_t                           *q;
    struct redisReader                    *reader;
    ngx_http_agentstream_redis_command_t  *command;

    reader = redis->reader;

    if (redis->open && redis->message_handler) {

        if (ngx_http_agentstream_redis_error(reply, NULL)) {
            ngx_http_agentstream_redis_break(redis, reply->str);
            return NGX_DONE;
        }

        ngx_http_agentstream_redis_good(redis);
        redis->message_handler(redis->data, reply);
        return (redis->reader == reader) ? NGX_OK : NGX_DONE;
    }

    for (i = 0; ngx_http_agentstream_redis_away[i]; i++) {

        if (ngx_http_agentstream_redis_error(reply,
                                          ngx_http_agentstream_redis_away[i]))
        {
            ngx_http_agentstream_redis_break(redis, reply->str);
            return NGX_DONE;
        }
    }

    if (ngx_queue_empty(&redis->commands)) {
        ngx_http_agentstream_redis_break(redis, "speaks another protocol");
        return NGX_DONE;
    }

    q = ngx_queue_head(&redis->commands);
    ngx_queue_remove(q);
    redis->ncommands--;

    command = ngx_queue_data(q, ngx_http_agentstream_redis_command_t, queue);

    took = ngx_current_msec - command->sent;
    redis->slowest = ngx_max(redis->slowest, took);

    command->handler(command->data, reply);
    ngx_free(command);

    return (redis->reader == reader) ? NGX_OK : NGX_DONE;
}


void
ngx_http_agentstream_redis_break(ngx_http_agentstream_redis_t *redis,
    const char *why)
{
    size_t      len;
    ngx_msec_t  pause;

    if (redis->closing) {
        return;
    }

    /* an error of Redis begins with a word that says enough, and could go on
       with something secret */

    len = strcspn(why, "\r\n");

    if (*why >= 'A' && *why <= 'Z') {
        len = ngx_min(len, strcspn(why, " "));
    }

    if (redis->open || redis->tries <= 1) {
        ngx_log_error(NGX_LOG_ERR, redis->log, 0,
                      "agentstream redis: %V is lost: %*s",
                      &redis->host->text, len, why);
    }

    if (redis->find) {
        ngx_http_agentstream_redis_find_doubt(redis->find);
    }

    ngx_http_agentstream_redis_close(redis);

    pause = ngx_min(NGX_HTTP_AGENTSTREAM_REDIS_RETRY
                    << ngx_min(redis->tries, 6),
                    NGX_HTTP_AGENTSTREAM_REDIS_RETRY_MAX);

    ngx_add_timer(&redis->retry, pause / 2 + ngx_random() % pause);
}


void
ngx_http_agentstream_redis_move(ngx_http_agentstream_redis_t *redis)
{
    ngx_http_agentstream_redis_close(redis);

    ngx_add_timer(&redis->retry, 1);
}


void
ngx_http_agentstream_redis_good(ngx_http_agentstream_redis_t *redis)
{
    redis->tries = 0;
}


static void
ngx_http_agentstream_redis_close(ngx_http_agentstream_redis_t *redis)
{
    ngx_uint_t                             open;
    ngx_queue_t                           *q, lost;
    ngx_connection_t                      *c;
    ngx_http_agentstream_redis_command_t  *command;

    c = redis->peer.connection;
    open = redis->open;

    redis->open = 0;
    redis->out_len = 0;
    redis->out_sent = 0;
    redis->ncommands = 0;

    if (redis->flush.posted) {
        ngx_delete_posted_event(&redis->flush);
    }

    if (redis->resolving) {
        ngx_resolve_name_done(redis->resolving);
        redis->resolving = NULL;
    }

    if (c) {

#if (NGX_SSL)

        if (c->ssl) {
            c->ssl->no_wait_shutdown = 1;
            c->ssl->no_send_shutdown = 1;
            (void) ngx_ssl_shutdown(c);
        }

#endif

        ngx_close_connection(c);
        redis->peer.connection = NULL;
    }

    /* a reply of the reader that is being handled does not belong to it any
       more */

    if (redis->reader) {
        redisReaderFree(redis->reader);
        redis->reader = NULL;
    }

    if (redis->pool) {
        ngx_destroy_pool(redis->pool);
        redis->pool = NULL;
    }

    ngx_queue_init(&lost);
    ngx_queue_add(&lost, &redis->commands);
    ngx_queue_init(&redis->commands);

    while (!ngx_queue_empty(&lost)) {
        q = ngx_queue_head(&lost);
        ngx_queue_remove(q);

        command = ngx_queue_data(q, ngx_http_agentstream_redis_command_t,
                                 queue);
        command->handler(command->data, NULL);
        ngx_free(command);
    }

    if (open && !redis->closing) {
        redis->lost_handler(redis->data);
    }
}

#endif
