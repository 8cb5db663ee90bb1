
/*
 * Copyright (C) agentstream contributors
 */


/*
 * This worker among those of all machines: its two connections to Redis, and
 * its lease, which tells the others that it lives.  Redis can be used when the
 * scripts are loaded and the lease is stored.  Nobody is taken for dead before
 * Redis has answered in time for as long as a lease lasts: an outage ends all
 * leases, and their owners need time to renew them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <sys/random.h>
#include "ngx_http_agentstream_remote_int.h"


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* the most arguments of a script: a batch of records, and what belongs to it */
#define NGX_HTTP_AGENTSTREAM_REMOTE_ARGS  320


static void ngx_http_agentstream_remote_name(
    ngx_http_agentstream_remote_t *remote);
static void ngx_http_agentstream_remote_open_handler(void *data);
static void ngx_http_agentstream_remote_lost_handler(void *data);
static void ngx_http_agentstream_remote_messages_handler(void *data);
static void ngx_http_agentstream_remote_messages_lost(void *data);
static void ngx_http_agentstream_remote_policy_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_load_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_renew(
    ngx_http_agentstream_remote_t *remote);
static void ngx_http_agentstream_remote_renew_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_remote_tick_handler(ngx_event_t *ev);
static void ngx_http_agentstream_remote_interrupt(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key);
static void ngx_http_agentstream_remote_copy(
    ngx_http_agentstream_zone_t *zone, ngx_str_t *key, ngx_str_t *turn);


static ngx_http_agentstream_store_remote_t  ngx_http_agentstream_remote = {
    ngx_http_agentstream_remote_create,
    ngx_http_agentstream_remote_claim,
    ngx_http_agentstream_remote_own,
    ngx_http_agentstream_remote_change,
    ngx_http_agentstream_remote_prompting,
    ngx_http_agentstream_remote_show,
    ngx_http_agentstream_remote_check,
    ngx_http_agentstream_remote_finish,
    ngx_http_agentstream_remote_cancel,
    ngx_http_agentstream_remote_mine,
    ngx_http_agentstream_remote_viewed,
    ngx_http_agentstream_remote_interrupt,
    ngx_http_agentstream_remote_queue,
    ngx_http_agentstream_remote_watch,
    ngx_http_agentstream_remote_unwatch,
    ngx_http_agentstream_remote_newest,
    ngx_http_agentstream_remote_copy,
    ngx_http_agentstream_remote_chat_local,
    ngx_http_agentstream_remote_chat_post,
    ngx_http_agentstream_remote_chat_claim,
    ngx_http_agentstream_remote_chat_forward,
    ngx_http_agentstream_remote_chat_cancel,
    ngx_http_agentstream_remote_chat_look,
    ngx_http_agentstream_remote_chat_save,
    ngx_http_agentstream_remote_chat_saved,
    ngx_http_agentstream_remote_chat_mine,
    ngx_http_agentstream_remote_chat_leave,
    ngx_http_agentstream_remote_chat_machines
};

#endif


ngx_int_t
ngx_http_agentstream_remote_init_worker(ngx_cycle_t *cycle,
    ngx_http_agentstream_main_conf_t *amcf)
{
#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

    ngx_http_agentstream_zone_t    *zone;
    ngx_http_agentstream_redis_t   *redis;
    ngx_http_agentstream_remote_t  *remote;

    if (amcf->remote == NULL) {
        return NGX_OK;
    }

    zone = ngx_http_agentstream_worker->zone;

    remote = ngx_pcalloc(cycle->pool, sizeof(ngx_http_agentstream_remote_t));
    if (remote == NULL) {
        return NGX_ERROR;
    }

    remote->zone = zone;
    remote->conf = amcf->remote;
    remote->local = (amcf->store_failure == NGX_HTTP_AGENTSTREAM_STORE_LOCAL);
    remote->log = cycle->log;

    ngx_queue_init(&remote->left);
    ngx_queue_init(&remote->turns);
    ngx_queue_init(&remote->ended);
    ngx_queue_init(&remote->sessions);
    ngx_rbtree_init(&remote->tree, &remote->sentinel,
                    ngx_str_rbtree_insert_value);

    ngx_http_agentstream_remote_init_chats(remote);
    ngx_http_agentstream_remote_name(remote);

    zone->held = 1;
    zone->remote = &ngx_http_agentstream_remote;
    zone->remote_data = remote;

    remote->silence.handler = ngx_http_agentstream_remote_silence_handler;
    remote->silence.data = remote;
    remote->silence.log = cycle->log;
    remote->silence.cancelable = 1;

    remote->tick.handler = ngx_http_agentstream_remote_tick_handler;
    remote->tick.data = remote;
    remote->tick.log = cycle->log;
    remote->tick.cancelable = 1;

    ngx_add_timer(&remote->tick, NGX_HTTP_AGENTSTREAM_REMOTE_TICK);

    ngx_http_agentstream_redis_find_start(&remote->find, remote->conf,
                                          cycle->log);

    redis = &remote->commands;
    redis->conf = remote->conf;
    redis->find = &remote->find;
    redis->log = cycle->log;
    redis->data = remote;
    redis->open_handler = ngx_http_agentstream_remote_open_handler;
    redis->lost_handler = ngx_http_agentstream_remote_lost_handler;
    ngx_http_agentstream_redis_start(redis);

    redis = &remote->messages;
    redis->conf = remote->conf;
    redis->find = &remote->find;
    redis->log = cycle->log;
    redis->data = remote;
    redis->open_handler = ngx_http_agentstream_remote_messages_handler;
    redis->lost_handler = ngx_http_agentstream_remote_messages_lost;
    redis->message_handler = ngx_http_agentstream_remote_message;
    ngx_http_agentstream_redis_start(redis);

#endif

    return NGX_OK;
}


void
ngx_http_agentstream_remote_exit_worker(ngx_http_agentstream_zone_t *zone)
{
#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

    ngx_http_agentstream_remote_t  *remote;

    remote = zone->remote_data;

    if (remote == NULL) {
        return;
    }

    ngx_http_agentstream_redis_stop(&remote->commands);
    ngx_http_agentstream_redis_stop(&remote->messages);
    ngx_http_agentstream_redis_find_stop(&remote->find);

    if (remote->tick.timer_set) {
        ngx_del_timer(&remote->tick);
    }

    if (remote->silence.timer_set) {
        ngx_del_timer(&remote->silence);
    }

    while (!ngx_queue_empty(&remote->turns)) {
        ngx_http_agentstream_remote_free_turn(
                    ngx_queue_data(ngx_queue_head(&remote->turns),
                                   ngx_http_agentstream_remote_turn_t, queue));
    }

    ngx_http_agentstream_remote_close_ended(remote);
    ngx_http_agentstream_remote_close_chats(remote);
    ngx_http_agentstream_remote_close_queues(remote);
    ngx_http_agentstream_remote_close_sessions(remote);

#endif
}


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* the name of this worker: machine, slot, generation */

static void
ngx_http_agentstream_remote_name(ngx_http_agentstream_remote_t *remote)
{
    u_char                       *p;
    uint64_t                      machine;
    ngx_uint_t                    slot, generation;
    ngx_http_agentstream_zone_t  *zone;

    zone = remote->zone;

    if (getrandom(&machine, sizeof(machine), 0) != sizeof(machine)) {
        machine = ((uint64_t) ngx_random() << 32) ^ ngx_random() ^ ngx_pid;
    }

    ngx_http_agentstream_zone_lock(zone);

    if (zone->sh->machine == 0) {
        zone->sh->machine = machine | 1;
    }

    machine = zone->sh->machine;

    ngx_http_agentstream_zone_unlock(zone);

    slot = zone->self.slot;
    generation = zone->self.generation;

    if (slot == NGX_HTTP_AGENTSTREAM_NOBODY) {
        slot = NGX_HTTP_AGENTSTREAM_WORKERS_MAX;
        generation = ngx_pid;
    }

    p = ngx_sprintf(remote->owner_data, "%016xL-%ui-%ui", machine, slot,
                    generation);

    remote->owner.data = remote->owner_data;
    remote->owner.len = p - remote->owner_data;
}


static void
ngx_http_agentstream_remote_open_handler(void *data)
{
    ngx_http_agentstream_remote_t *remote = data;

    ngx_uint_t  i;
    ngx_str_t   argv[3];

    ngx_str_set(&argv[0], "CONFIG");
    ngx_str_set(&argv[1], "GET");
    ngx_str_set(&argv[2], "maxmemory-policy");

    (void) ngx_http_agentstream_redis_command(&remote->commands, 3, argv,
                                   ngx_http_agentstream_remote_policy_done,
                                   remote);

    remote->loading = NGX_HTTP_AGENTSTREAM_SCRIPTS;

    ngx_str_set(&argv[0], "SCRIPT");
    ngx_str_set(&argv[1], "LOAD");

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_SCRIPTS; i++) {
        argv[2] = ngx_http_agentstream_scripts[i];

        if (ngx_http_agentstream_redis_command(&remote->commands, 3, argv,
                                       ngx_http_agentstream_remote_load_done,
                                       remote)
            != NGX_OK)
        {
            ngx_http_agentstream_redis_break(&remote->commands, "no memory");
            return;
        }
    }
}


/* with any other policy Redis would throw turns away that still run; it may
   be forbidden to ask */

static void
ngx_http_agentstream_remote_policy_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_t *remote = data;

    ngx_str_t  policy;

    policy = ngx_http_agentstream_redis_item(reply, 1);

    if (policy.len
        && (policy.len != sizeof("noeviction") - 1
            || ngx_strncmp(policy.data, "noeviction", policy.len) != 0))
    {
        ngx_log_error(NGX_LOG_WARN, remote->log, 0,
                      "agentstream remote: the maxmemory-policy of %V is not "
                      "noeviction, so it may throw running turns away",
                      &remote->commands.host->text);
    }
}


/* the scripts are loaded in order */

static void
ngx_http_agentstream_remote_load_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_t *remote = data;

    ngx_str_t   sha;
    ngx_uint_t  i;

    if (reply == NULL) {
        return;
    }

    sha = ngx_http_agentstream_redis_text(reply);

    if (sha.len != sizeof(remote->sha_data[0])) {
        ngx_http_agentstream_redis_break(&remote->commands,
                                       ngx_http_agentstream_redis_why(reply));
        return;
    }

    i = NGX_HTTP_AGENTSTREAM_SCRIPTS - remote->loading;

    ngx_memcpy(remote->sha_data[i], sha.data, sha.len);
    remote->sha[i].data = remote->sha_data[i];
    remote->sha[i].len = sha.len;

    if (--remote->loading == 0) {
        ngx_http_agentstream_remote_renew(remote);
    }
}


static void
ngx_http_agentstream_remote_renew(ngx_http_agentstream_remote_t *remote)
{
    u_char     buf[NGX_INT_T_LEN], name[32];
    ngx_str_t  argv[4];

    argv[0] = remote->owner;
    argv[1].data = buf;
    argv[1].len = ngx_sprintf(buf, "%d", NGX_HTTP_AGENTSTREAM_LEASE) - buf;
    argv[2].data = name;
    argv[2].len = ngx_sprintf(name, "%08xD%08xD", (uint32_t) ngx_random(),
                              (uint32_t) ngx_random()) - name;
    argv[3] = remote->data;

    /* one at a time, so that the answer belongs to this time */

    if (remote->renewing) {
        return;
    }

    if (ngx_http_agentstream_remote_eval(remote,
                                      NGX_HTTP_AGENTSTREAM_SCRIPT_LEASE, 4,
                                      argv,
                                      ngx_http_agentstream_remote_renew_done,
                                      remote)
        == NGX_OK)
    {
        remote->renewing = 1;
        remote->renewed = ngx_current_msec;

    } else if (!remote->up) {
        /* nothing else would try again */
        ngx_http_agentstream_redis_break(&remote->commands, "no memory");
    }
}


static void
ngx_http_agentstream_remote_renew_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_remote_t *remote = data;

    ngx_str_t   name, over;
    ngx_uint_t  doubt;

    remote->renewing = 0;

    if (reply == NULL) {
        return;
    }

    if (ngx_http_agentstream_redis_error(reply, NULL)) {
        ngx_http_agentstream_redis_break(&remote->commands,
                                       ngx_http_agentstream_redis_why(reply));
        return;
    }

    ngx_http_agentstream_remote_renew_chats(remote);

    over = ngx_http_agentstream_redis_item(reply, 1);
    name = ngx_http_agentstream_redis_item(reply, 0);
    name.len = ngx_min(name.len, sizeof(remote->data_name));
    doubt = (over.len == 1 && over.data[0] == '1');

    if (name.len
        && (name.len != remote->data.len
            || ngx_memcmp(name.data, remote->data.data, name.len) != 0))
    {
        remote->data.len = name.len;
        remote->data.data = remote->data_name;
        ngx_memcpy(remote->data_name, name.data, name.len);
        remote->emptied++;
        doubt = 1;
    }

    /* it began when it was asked for, or later */

    remote->lease = remote->renewed + NGX_HTTP_AGENTSTREAM_LEASE;
    remote->leased = 1;

    if (!remote->up) {
        remote->up = 1;
        remote->zone->stats[NGX_HTTP_AGENTSTREAM_STAT_STORE_UP] = 1;
        remote->steady = ngx_current_msec;
        remote->commands.slowest = 0;

        ngx_http_agentstream_redis_good(&remote->commands);
        ngx_http_agentstream_remote_replicas(remote, 1);
        ngx_http_agentstream_remote_back(remote);
        ngx_http_agentstream_remote_back_chats(remote);
        ngx_http_agentstream_remote_leave_again(remote);
        ngx_http_agentstream_remote_subscribe_all(remote);

    } else if (doubt) {
        /* perhaps others have our turns and chats */
        ngx_http_agentstream_remote_touch(remote, 1);
        ngx_http_agentstream_remote_doubt_chats(remote);
    }
}


static void
ngx_http_agentstream_remote_lost_handler(void *data)
{
    ngx_http_agentstream_remote_t *remote = data;

    remote->replicated = 0;

    if (remote->up) {
        remote->up = 0;
        remote->zone->stats[NGX_HTTP_AGENTSTREAM_STAT_STORE_UP] = 0;
        ngx_http_agentstream_zone_count(remote->zone, STORE_LOST, 1);
    }

    ngx_http_agentstream_remote_forget_looks(remote);
    ngx_http_agentstream_remote_away(remote);
}


static void
ngx_http_agentstream_remote_messages_handler(void *data)
{
    ngx_http_agentstream_remote_t *remote = data;

    u_char     buf[128];
    ngx_str_t  argv[2];

    ngx_str_set(&argv[0], "SSUBSCRIBE");
    argv[1].data = buf;
    argv[1].len = ngx_sprintf(buf, "as1:i:%V", &remote->owner) - buf;

    if (ngx_http_agentstream_redis_command(&remote->messages, 2, argv, NULL,
                                           NULL)
        != NGX_OK)
    {
        ngx_http_agentstream_redis_break(&remote->messages, "no memory");
        return;
    }

    ngx_http_agentstream_remote_subscribe_all(remote);
    ngx_http_agentstream_remote_ask_chats(remote);
}


/* what is missed meanwhile is asked for when it is back */

static void
ngx_http_agentstream_remote_messages_lost(void *data)
{
}


static void
ngx_http_agentstream_remote_tick_handler(ngx_event_t *ev)
{
    ngx_str_t                       argv[1];
    ngx_http_agentstream_remote_t  *remote;

    remote = ev->data;

    ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_REMOTE_TICK);

    ngx_http_agentstream_remote_tick_turns(remote);

    if (remote->leased
        && (ngx_msec_int_t) (remote->lease - ngx_current_msec) <= 0)
    {
        remote->leased = 0;
        ngx_http_agentstream_zone_count(remote->zone, STORE_LEASES_LOST, 1);
    }

    if (!remote->up) {
        return;
    }

    if (remote->commands.slowest > NGX_HTTP_AGENTSTREAM_SLOW) {
        remote->steady = ngx_current_msec;
    }

    remote->commands.slowest = 0;

    if (ngx_current_msec - remote->renewed
        >= NGX_HTTP_AGENTSTREAM_LEASE_RENEW - NGX_HTTP_AGENTSTREAM_REMOTE_TICK)
    {
        ngx_http_agentstream_remote_replicas(remote, 0);
        ngx_http_agentstream_remote_renew(remote);

        /* a connection that was cut without a word is noticed */

        ngx_str_set(&argv[0], "PING");
        (void) ngx_http_agentstream_redis_command(&remote->messages, 1, argv,
                                                  NULL, NULL);
    }

    ngx_http_agentstream_remote_touch(remote, 0);
    ngx_http_agentstream_remote_tick_ended(remote);
    ngx_http_agentstream_remote_tick_chats(remote);
    ngx_http_agentstream_remote_leave_again(remote);
    ngx_http_agentstream_remote_tick_sessions(remote);
}


ngx_uint_t
ngx_http_agentstream_remote_steady(ngx_http_agentstream_remote_t *remote)
{
    return remote->up
           && remote->commands.slowest <= NGX_HTTP_AGENTSTREAM_SLOW
           && (ngx_msec_int_t) (ngx_current_msec - remote->steady)
              >= NGX_HTTP_AGENTSTREAM_LEASE;
}


ngx_int_t
ngx_http_agentstream_remote_eval(ngx_http_agentstream_remote_t *remote,
    ngx_uint_t script, ngx_uint_t argc, ngx_str_t *argv,
    ngx_http_agentstream_redis_pt handler, void *data)
{
    ngx_str_t   args[NGX_HTTP_AGENTSTREAM_REMOTE_ARGS];
    ngx_uint_t  i;

    if (argc + 3 > NGX_HTTP_AGENTSTREAM_REMOTE_ARGS) {
        return NGX_ERROR;
    }

    if (remote->sha[script].len == 0) {
        /* the scripts are being loaded for the first time */
        return NGX_ERROR;
    }

    ngx_http_agentstream_zone_count(remote->zone, STORE_SENT, 1);

    ngx_str_set(&args[0], "EVALSHA");
    args[1] = remote->sha[script];
    ngx_str_set(&args[2], "0");

    for (i = 0; i < argc; i++) {
        args[3 + i] = argv[i];
    }

    return ngx_http_agentstream_redis_command(&remote->commands, argc + 3,
                                              args, handler, data);
}


void
ngx_http_agentstream_remote_ignore(void *data, redisReply *reply)
{
}


ngx_int_t
ngx_http_agentstream_remote_base(ngx_str_t *base, ngx_str_t *key,
    ngx_log_t *log)
{
    base->len = sizeof("as1:{}:") - 1 + key->len;
    base->data = ngx_alloc(base->len, log);

    if (base->data == NULL) {
        return NGX_ERROR;
    }

    ngx_sprintf(base->data, "as1:{%V}:", key);

    return NGX_OK;
}


static void
ngx_http_agentstream_remote_interrupt(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key)
{
    ngx_str_t                       argv[1];
    ngx_http_agentstream_remote_t  *remote;

    remote = ngx_http_agentstream_remote_of(zone);

    if (ngx_http_agentstream_remote_base(&argv[0], key, remote->log) != NGX_OK)
    {
        return;
    }

    (void) ngx_http_agentstream_remote_eval(remote,
                                    NGX_HTTP_AGENTSTREAM_SCRIPT_INTERRUPT, 1,
                                    argv, ngx_http_agentstream_remote_ignore,
                                    NULL);

    ngx_free(argv[0].data);
}


static void
ngx_http_agentstream_remote_copy(ngx_http_agentstream_zone_t *zone,
    ngx_str_t *key, ngx_str_t *turn)
{
    ngx_http_agentstream_remote_look_at(ngx_http_agentstream_remote_of(zone),
                                        key, turn, 0);
}

#endif
