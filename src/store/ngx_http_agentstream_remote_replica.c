
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Replicas of Redis.  A prompt costs money, so before it is sent a replica is
 * to know of it, too: if the master is lost then, the replica that is promoted
 * knows that the prompt was sent.  Nobody waits for replicas that there are
 * not, or that do not follow: every time that the lease is renewed, Redis is
 * asked how many have got the renewal before.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* how long a prompt waits for a replica, in ms, and with it all that this
   worker has to store */
#define NGX_HTTP_AGENTSTREAM_REPLICA_WAIT  100


static void ngx_http_agentstream_remote_replicas_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_replicated(void *data,
    redisReply *reply);


/* "WAIT 0 0" does not wait.  After the first renewal it is too early for that:
   then one replica may have some time to answer */

void
ngx_http_agentstream_remote_replicas(ngx_http_agentstream_remote_t *remote,
    ngx_uint_t first)
{
    ngx_str_t  argv[3];

    ngx_str_set(&argv[0], "WAIT");
    ngx_str_set(&argv[1], "0");
    ngx_str_set(&argv[2], "0");

    if (first) {
        ngx_str_set(&argv[1], "1");
        ngx_str_set(&argv[2], ngx_value(NGX_HTTP_AGENTSTREAM_REPLICA_WAIT));
    }

    (void) ngx_http_agentstream_redis_command(&remote->commands, 3, argv,
                                    ngx_http_agentstream_remote_replicas_done,
                                    remote);
}


static void
ngx_http_agentstream_remote_replicas_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_t *remote = data;

    int64_t  n;

    if (reply == NULL) {
        return;
    }

    n = ngx_http_agentstream_redis_value(reply);

    if (n <= 0 && remote->replicas > 0) {
        ngx_log_error(NGX_LOG_WARN, remote->log, 0,
                      "agentstream remote: no replica of %V follows, so "
                      "prompts do not wait for one",
                      &remote->commands.host->text);
    }

    remote->replicas = ngx_max(n, 0);
}


void
ngx_http_agentstream_remote_replicate(ngx_http_agentstream_remote_turn_t *rt)
{
    ngx_str_t                       argv[3];
    ngx_http_agentstream_remote_t  *remote;

    remote = rt->remote;

    if (remote->replicas == 0 || rt->replicating) {
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
