
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Replicas of Redis.  A prompt costs money, so before it is sent a replica is
 * to know of it, too: if the master is lost then, the replica that is promoted
 * knows that the prompt was sent.  Nobody waits for replicas that there are
 * not, or that do not follow: every time that the lease is renewed, Redis is
 * asked for them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* how long a prompt waits for a replica, in ms, and with it all that this
   worker has to store */
#define NGX_HTTP_AGENTSTREAM_REPLICA_WAIT  100


static void ngx_http_agentstream_remote_first_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_replicas_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_follow(
    ngx_http_agentstream_remote_t *remote, ngx_uint_t follows);
static void ngx_http_agentstream_remote_replicated(void *data,
    redisReply *reply);


/*
 * A replica follows if it has what the master had when it was asked before.
 * That needs two answers, so at first one replica gets some time to say that it
 * has the renewal.  Later "WAIT" would not do: it counts replicas that have our
 * last command, and they only speak once a second.
 */

void
ngx_http_agentstream_remote_replicas(ngx_http_agentstream_remote_t *remote,
    ngx_uint_t first)
{
    ngx_str_t  argv[3];

    if (first) {
        ngx_str_set(&argv[0], "WAIT");
        ngx_str_set(&argv[1], "1");
        ngx_str_set(&argv[2], ngx_value(NGX_HTTP_AGENTSTREAM_REPLICA_WAIT));

        remote->offset = 0;

        (void) ngx_http_agentstream_redis_command(&remote->commands, 3, argv,
                                       ngx_http_agentstream_remote_first_done,
                                       remote);
        return;
    }

    ngx_str_set(&argv[0], "ROLE");

    (void) ngx_http_agentstream_redis_command(&remote->commands, 1, argv,
                                     ngx_http_agentstream_remote_replicas_done,
                                     remote);
}


static void
ngx_http_agentstream_remote_first_done(void *data, redisReply *reply)
{
    if (reply) {
        ngx_http_agentstream_remote_follow(data,
                                ngx_http_agentstream_redis_value(reply) > 0);
    }
}


/* "master", its offset, and address, port and offset of each replica */

static void
ngx_http_agentstream_remote_replicas_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_t *remote = data;

    int64_t      before;
    uint64_t     offset;
    ngx_str_t    text;
    redisReply  *replicas;
    ngx_uint_t   i, n;

    if (reply == NULL) {
        return;
    }

    before = remote->offset;
    remote->offset = ngx_http_agentstream_redis_integer(reply, 1);

    if (before <= 0) {
        return;
    }

    n = 0;
    replicas = ngx_http_agentstream_redis_element(reply, 2);

    for (i = 0; i < ngx_http_agentstream_redis_count(replicas); i++) {
        text = ngx_http_agentstream_redis_item(
                      ngx_http_agentstream_redis_element(replicas, i), 2);
        offset = ngx_http_agentstream_redis_number(&text);

        if (offset >= (uint64_t) before) {
            n++;
        }
    }

    ngx_http_agentstream_remote_follow(remote, n > 0);
}


static void
ngx_http_agentstream_remote_follow(ngx_http_agentstream_remote_t *remote,
    ngx_uint_t follows)
{
    if (follows && !remote->replicated) {
        ngx_log_error(NGX_LOG_NOTICE, remote->log, 0,
                      "agentstream remote: a replica of %V follows, so "
                      "prompts wait for one",
                      &remote->commands.host->text);

    } else if (!follows && remote->replicated) {
        ngx_log_error(NGX_LOG_WARN, remote->log, 0,
                      "agentstream remote: no replica of %V follows, so "
                      "prompts do not wait for one",
                      &remote->commands.host->text);
    }

    remote->replicated = follows;
}


void
ngx_http_agentstream_remote_replicate(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_str_t                       argv[3];
    ngx_http_agentstream_remote_t  *remote;

    remote = rt->remote;

    if (!remote->replicated || rt->replicating) {
        return;
    }

    ngx_str_set(&argv[0], "WAIT");
    ngx_str_set(&argv[1], "1");
    ngx_str_set(&argv[2], ngx_value(NGX_HTTP_AGENTSTREAM_REPLICA_WAIT));

    if (ngx_http_agentstream_redis_command(&remote->commands, 3, argv,
                                       ngx_http_agentstream_remote_replicated,
                                       rt)
        == NGX_OK)
    {
        rt->replicating = 1;
    }
}


/* the prompt is sent in any case: it is stored, and to refuse it would not
   make the replica better */

static void
ngx_http_agentstream_remote_replicated(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_turn_t *rt = data;

    rt->replicating = 0;

    if (reply && ngx_http_agentstream_redis_value(reply) <= 0) {
        ngx_http_agentstream_zone_count(rt->remote->zone, STORE_UNREPLICATED,
                                        1);
    }

    ngx_post_event(&rt->answer, &ngx_posted_events);
}

#endif
