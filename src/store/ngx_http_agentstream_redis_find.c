
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Where Redis is.  Sentinels are asked again and again instead of subscribing
 * to what they announce: then nothing can be missed, and one that was cut off
 * is noticed.  When the connections cannot use the master that one of them
 * names, another one is asked, because it may know better.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_redis_int.h"


/* between two questions, and when there is a doubt */
#define NGX_HTTP_AGENTSTREAM_REDIS_ASK        1000
#define NGX_HTTP_AGENTSTREAM_REDIS_ASK_AGAIN  250


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

static void ngx_http_agentstream_redis_find_ask(void *data);
static void ngx_http_agentstream_redis_find_lost(void *data);
static void ngx_http_agentstream_redis_find_timer(ngx_event_t *ev);
static void ngx_http_agentstream_redis_find_answer(void *data,
    redisReply *reply);
static void ngx_http_agentstream_redis_find_master(
    ngx_http_agentstream_redis_find_t *find, ngx_str_t *name, in_port_t port);
static char *ngx_http_agentstream_redis_resolve_host(ngx_conf_t *cf,
    ngx_http_agentstream_redis_host_t *host, ngx_resolver_t *resolver);


void
ngx_http_agentstream_redis_find_start(ngx_http_agentstream_redis_find_t *find,
    ngx_http_agentstream_redis_conf_t *conf, ngx_log_t *log)
{
    ngx_http_agentstream_redis_t  *redis;

    ngx_queue_init(&find->users);

    if (conf->address.master.len == 0) {
        return;
    }

    find->ask.handler = ngx_http_agentstream_redis_find_timer;
    find->ask.data = find;
    find->ask.log = log;
    find->ask.cancelable = 1;

    redis = &find->sentinel;
    redis->conf = conf;
    redis->log = log;
    redis->data = find;
    redis->open_handler = ngx_http_agentstream_redis_find_ask;
    redis->lost_handler = ngx_http_agentstream_redis_find_lost;

    ngx_http_agentstream_redis_start(redis);
}


void
ngx_http_agentstream_redis_find_stop(ngx_http_agentstream_redis_find_t *find)
{
    if (find->sentinel.conf == NULL) {
        return;
    }

    ngx_http_agentstream_redis_stop(&find->sentinel);

    if (find->ask.timer_set) {
        ngx_del_timer(&find->ask);
    }
}


static void
ngx_http_agentstream_redis_find_ask(void *data)
{
    ngx_http_agentstream_redis_find_t *find = data;

    ngx_str_t  argv[3];

    find->doubt = 0;

    ngx_str_set(&argv[0], "SENTINEL");
    ngx_str_set(&argv[1], "GET-MASTER-ADDR-BY-NAME");
    argv[2] = find->sentinel.conf->address.master;

    if (ngx_http_agentstream_redis_command(&find->sentinel, 3, argv,
                                       ngx_http_agentstream_redis_find_answer,
                                       find)
        != NGX_OK)
    {
        ngx_http_agentstream_redis_break(&find->sentinel, "no memory");
    }
}


static void
ngx_http_agentstream_redis_find_answer(void *data, redisReply *reply)
{
    ngx_http_agentstream_redis_find_t *find = data;

    uint64_t   port;
    ngx_str_t  name, text;

    if (reply == NULL) {
        return;
    }

    name = ngx_http_agentstream_redis_item(reply, 0);
    text = ngx_http_agentstream_redis_item(reply, 1);
    port = ngx_http_agentstream_redis_number(&text);

    if (name.len == 0 || name.len >= NGX_MAXHOSTNAMELEN || port == 0
        || port > 65535)
    {
        ngx_http_agentstream_redis_break(&find->sentinel,
                            ngx_http_agentstream_redis_error(reply, NULL)
                            ? ngx_http_agentstream_redis_why(reply)
                            : "does not know the master");
        return;
    }

    ngx_http_agentstream_redis_good(&find->sentinel);
    ngx_http_agentstream_redis_find_master(find, &name, port);

    ngx_add_timer(&find->ask, NGX_HTTP_AGENTSTREAM_REDIS_ASK);
}


void
ngx_http_agentstream_redis_find_doubt(ngx_http_agentstream_redis_find_t *find)
{
    find->doubt = 1;

    if (find->ask.timer_set) {
        ngx_add_timer(&find->ask, NGX_HTTP_AGENTSTREAM_REDIS_ASK_AGAIN);
    }
}


static void
ngx_http_agentstream_redis_find_master(
    ngx_http_agentstream_redis_find_t *find, ngx_str_t *name, in_port_t port)
{
    u_char                             *p;
    ngx_queue_t                        *q;
    ngx_http_agentstream_redis_t       *redis;
    ngx_http_agentstream_redis_host_t  *master;

    master = &find->master;

    if (master->port == port && master->name.len == name->len
        && ngx_strncmp(master->name.data, name->data, name->len) == 0)
    {
        return;
    }

    p = ngx_cpymem(find->master_data, name->data, name->len);
    *p++ = '\0';

    master->name.data = find->master_data;
    master->name.len = name->len;
    master->port = port;
    master->text.data = p;
    master->text.len = ngx_sprintf(p, "%V:%d", name, (int) port) - p;

    ngx_log_error(NGX_LOG_NOTICE, find->sentinel.log, 0,
                  "agentstream redis: Sentinel %V says that %V is the master",
                  &find->sentinel.host->text, &master->text);

    for (q = ngx_queue_head(&find->users);
         q != ngx_queue_sentinel(&find->users);
         q = ngx_queue_next(q))
    {
        redis = ngx_queue_data(q, ngx_http_agentstream_redis_t, queue);
        ngx_http_agentstream_redis_move(redis);
    }
}


static void
ngx_http_agentstream_redis_find_timer(ngx_event_t *ev)
{
    ngx_http_agentstream_redis_find_t *find = ev->data;

    if (!find->sentinel.open) {
        return;
    }

    if (find->doubt && find->sentinel.conf->nhosts > 1) {
        ngx_http_agentstream_redis_move(&find->sentinel);
        return;
    }

    ngx_http_agentstream_redis_find_ask(find);
}


/* the next one is asked when it is connected */

static void
ngx_http_agentstream_redis_find_lost(void *data)
{
}


char *
ngx_http_agentstream_redis_resolve(ngx_conf_t *cf,
    ngx_http_agentstream_redis_conf_t *conf)
{
    char                               *err;
    ngx_uint_t                          i;
    ngx_http_agentstream_url_host_t    *from;
    ngx_http_agentstream_redis_host_t  *host;

    conf->nhosts = conf->address.nhosts;
    conf->hosts = ngx_pcalloc(cf->pool, conf->nhosts
                                 * sizeof(ngx_http_agentstream_redis_host_t));
    if (conf->hosts == NULL) {
        return "no memory";
    }

    for (i = 0; i < conf->nhosts; i++) {
        from = &conf->address.hosts[i];
        host = &conf->hosts[i];

        host->name = from->name;
        host->port = from->port;
        host->text.data = ngx_pnalloc(cf->pool, from->name.len
                                                + sizeof(":65535"));
        if (host->text.data == NULL) {
            return "no memory";
        }

        host->text.len = ngx_sprintf(host->text.data, "%V:%ui", &from->name,
                                     from->port)
                         - host->text.data;

        err = ngx_http_agentstream_redis_resolve_host(cf, host,
                                                      conf->resolver);
        if (err) {
            return err;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_agentstream_redis_resolve_host(ngx_conf_t *cf,
    ngx_http_agentstream_redis_host_t *host, ngx_resolver_t *resolver)
{
    ngx_url_t  u;

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url = host->name;
    u.default_port = host->port;
    u.no_resolve = (resolver != NULL);

    if (ngx_parse_url(cf->pool, &u) != NGX_OK) {
        return u.err ? u.err : "invalid host";
    }

    /* without addresses it is a name, for the resolver */

    host->addrs = u.addrs;
    host->naddrs = u.naddrs;

    return NULL;
}

#else

char *
ngx_http_agentstream_redis_resolve(ngx_conf_t *cf,
    ngx_http_agentstream_redis_conf_t *conf)
{
    return "needs hiredis: the module was built without libhiredis-dev";
}

#endif
