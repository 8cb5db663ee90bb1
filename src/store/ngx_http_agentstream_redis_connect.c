
/*
 * Copyright (C) agentstream contributors
 */


/*
 * How a connection to Redis is opened: the address, TLS, the first commands.
 * With several servers or addresses each try is made with the next one.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include "ngx_http_agentstream_redis_int.h"

#if (NGX_HTTP_AGENTSTREAM_HIREDIS)
#include <hiredis/hiredis.h>
#endif


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

static void ngx_http_agentstream_redis_connect_name(
    ngx_http_agentstream_redis_t *redis);
static void ngx_http_agentstream_redis_resolved(ngx_resolver_ctx_t *ctx);
static ngx_resolver_addr_t *ngx_http_agentstream_redis_address(
    ngx_resolver_ctx_t *ctx, ngx_uint_t choice);
static void ngx_http_agentstream_redis_connect_to(
    ngx_http_agentstream_redis_t *redis, struct sockaddr *sockaddr,
    socklen_t socklen);
static void ngx_http_agentstream_redis_hello(
    ngx_http_agentstream_redis_t *redis);
static ngx_int_t ngx_http_agentstream_redis_hello_add(
    ngx_http_agentstream_redis_t *redis, ngx_uint_t argc, ngx_str_t *argv,
    ngx_http_agentstream_redis_pt handler);
static void ngx_http_agentstream_redis_role_done(void *data,
    redisReply *reply);
static void ngx_http_agentstream_redis_hello_done(void *data,
    redisReply *reply);

#if (NGX_SSL)
static void ngx_http_agentstream_redis_handshake(ngx_connection_t *c);
static void ngx_http_agentstream_redis_handshaken(ngx_connection_t *c);
static ngx_int_t ngx_http_agentstream_redis_check_name(ngx_connection_t *c,
    ngx_str_t *name);
#endif


void
ngx_http_agentstream_redis_connect(ngx_event_t *ev)
{
    ngx_addr_t                         *addr;
    ngx_http_agentstream_redis_t       *redis;
    ngx_http_agentstream_redis_conf_t  *conf;

    redis = ev->data;
    conf = redis->conf;
    redis->choice = redis->turn++;

    if (redis->find && conf->address.master.len) {
        redis->host = &redis->find->master;

        if (redis->host->name.len == 0) {
            /* it is connected as soon as a Sentinel has answered */
            return;
        }

    } else {
        redis->host = &conf->hosts[redis->choice % conf->nhosts];
        redis->choice /= conf->nhosts;
    }

    redis->tries++;
    redis->pool = ngx_create_pool(1024, redis->log);

    if (redis->pool) {
        redis->reader = ngx_http_agentstream_redis_reader(redis->pool);
    }

    if (redis->reader == NULL) {
        ngx_http_agentstream_redis_break(redis, "no memory");
        return;
    }

    if (redis->host->addrs == NULL) {
        ngx_http_agentstream_redis_connect_name(redis);
        return;
    }

    addr = &redis->host->addrs[redis->choice % redis->host->naddrs];

    ngx_http_agentstream_redis_connect_to(redis, addr->sockaddr,
                                          addr->socklen);
}


/* a name, or an address that was told by a Sentinel */

static void
ngx_http_agentstream_redis_connect_name(ngx_http_agentstream_redis_t *redis)
{
    ngx_int_t                           rc;
    ngx_addr_t                          addr;
    ngx_resolver_ctx_t                 *ctx;
    ngx_http_agentstream_redis_host_t  *host;

    host = redis->host;

    rc = ngx_parse_addr(redis->pool, &addr, host->name.data, host->name.len);

    if (rc == NGX_OK) {
        ngx_inet_set_port(addr.sockaddr, host->port);
        ngx_http_agentstream_redis_connect_to(redis, addr.sockaddr,
                                              addr.socklen);
        return;
    }

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_redis_break(redis, "no memory");
        return;
    }

    if (redis->conf->resolver == NULL) {
        ngx_http_agentstream_redis_break(redis,
                                         "its name needs a \"resolver\"");
        return;
    }

    ctx = ngx_resolve_start(redis->conf->resolver, NULL);

    if (ctx == NULL || ctx == NGX_NO_RESOLVER) {
        ngx_http_agentstream_redis_break(redis, "no memory");
        return;
    }

    ctx->name = host->name;
    ctx->handler = ngx_http_agentstream_redis_resolved;
    ctx->data = redis;
    ctx->timeout = redis->conf->resolver_timeout;
    ctx->cancelable = 1;

    redis->resolving = ctx;

    if (ngx_resolve_name(ctx) != NGX_OK) {
        redis->resolving = NULL;
        ngx_http_agentstream_redis_break(redis, "its name is not resolved");
    }
}


static void
ngx_http_agentstream_redis_resolved(ngx_resolver_ctx_t *ctx)
{
    socklen_t                      len;
    ngx_sockaddr_t                 addr;
    ngx_resolver_addr_t           *found;
    ngx_http_agentstream_redis_t  *redis;

    redis = ctx->data;

    if (ctx->state || ctx->naddrs == 0) {
        ngx_http_agentstream_redis_break(redis, "its name is not resolved");
        return;
    }

    found = ngx_http_agentstream_redis_address(ctx, redis->choice);
    len = found->socklen;

    ngx_memcpy(&addr, found->sockaddr, len);
    ngx_inet_set_port(&addr.sockaddr, redis->host->port);

    redis->resolving = NULL;

    ngx_http_agentstream_redis_connect_to(redis, &addr.sockaddr, len);
    ngx_resolve_name_done(ctx);
}


/*
 * One address after the other.  The resolver gives them in the order of the
 * answer, or, if it had them at hand, in an order by chance: to try always the
 * first one could mean always the same.  So they are counted by their value.
 */

static ngx_resolver_addr_t *
ngx_http_agentstream_redis_address(ngx_resolver_ctx_t *ctx, ngx_uint_t choice)
{
    ngx_uint_t            i, j, less;
    ngx_resolver_addr_t  *addr, *other;

    for (i = 0; i < ctx->naddrs; i++) {
        addr = &ctx->addrs[i];
        less = 0;

        for (j = 0; j < ctx->naddrs; j++) {
            other = &ctx->addrs[j];
            less += ngx_memn2cmp((u_char *) other->sockaddr,
                                 (u_char *) addr->sockaddr, other->socklen,
                                 addr->socklen) < 0;
        }

        if (less == choice % ctx->naddrs) {
            return addr;
        }
    }

    /* the same address twice */
    return &ctx->addrs[0];
}


static void
ngx_http_agentstream_redis_connect_to(ngx_http_agentstream_redis_t *redis,
    struct sockaddr *sockaddr, socklen_t socklen)
{
    ngx_int_t          rc;
    ngx_connection_t  *c;

    ngx_memzero(&redis->peer, sizeof(ngx_peer_connection_t));

    redis->peer.sockaddr = sockaddr;
    redis->peer.socklen = socklen;
    redis->peer.name = &redis->host->text;
    redis->peer.get = ngx_event_get_peer;
    redis->peer.log = redis->log;
    redis->peer.log_error = NGX_ERROR_ERR;

    rc = ngx_event_connect_peer(&redis->peer);

    redis->peer.sockaddr = NULL;

    if (rc == NGX_ERROR || rc == NGX_BUSY || rc == NGX_DECLINED) {
        ngx_http_agentstream_redis_break(redis, "cannot be reached");
        return;
    }

    c = redis->peer.connection;
    c->data = redis;
    c->log = redis->log;
    c->pool = redis->pool;
    c->read->log = c->log;
    c->write->log = c->log;
    c->read->cancelable = 1;
    c->write->cancelable = 1;
    c->read->handler = ngx_http_agentstream_redis_read_handler;
    c->write->handler = ngx_http_agentstream_redis_write_handler;

    if (rc == NGX_AGAIN) {
        ngx_add_timer(c->write, NGX_HTTP_AGENTSTREAM_REDIS_TIMEOUT);
        return;
    }

    ngx_http_agentstream_redis_connected(c);
}


void
ngx_http_agentstream_redis_connected(ngx_connection_t *c)
{
    int                            err;
    socklen_t                      len;
    ngx_http_agentstream_redis_t  *redis;

    redis = c->data;
    err = 0;
    len = sizeof(int);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, (void *) &err, &len) == -1) {
        err = ngx_socket_errno;
    }

    if (err) {
        ngx_http_agentstream_redis_break(redis, "cannot be reached");
        return;
    }

    (void) ngx_tcp_nodelay(c);

#if (NGX_SSL)

    if (redis->conf->ssl) {
        ngx_http_agentstream_redis_handshake(c);
        return;
    }

#endif

    ngx_http_agentstream_redis_hello(redis);
}


#if (NGX_SSL)

static void
ngx_http_agentstream_redis_handshake(ngx_connection_t *c)
{
    ngx_int_t                      rc;
    ngx_http_agentstream_redis_t  *redis;

    redis = c->data;

    if (ngx_ssl_create_connection(redis->conf->ssl, c, NGX_SSL_CLIENT)
        != NGX_OK)
    {
        ngx_http_agentstream_redis_break(redis, "no TLS");
        return;
    }

#ifdef SSL_CTRL_SET_TLSEXT_HOSTNAME

    (void) SSL_set_tlsext_host_name(c->ssl->connection,
                                    (char *) redis->host->name.data);

#endif

    rc = ngx_ssl_handshake(c);

    if (rc == NGX_AGAIN) {
        ngx_add_timer(c->write, NGX_HTTP_AGENTSTREAM_REDIS_TIMEOUT);
        c->ssl->handler = ngx_http_agentstream_redis_handshaken;
        return;
    }

    ngx_http_agentstream_redis_handshaken(c);
}


static void
ngx_http_agentstream_redis_handshaken(ngx_connection_t *c)
{
    long                           rc;
    ngx_http_agentstream_redis_t  *redis;

    redis = c->data;

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    if (!c->ssl->handshaked) {
        ngx_http_agentstream_redis_break(redis, "the TLS handshake failed");
        return;
    }

    if (redis->conf->verify) {
        rc = SSL_get_verify_result(c->ssl->connection);

        if (rc != X509_V_OK
            || ngx_http_agentstream_redis_check_name(c, &redis->host->name)
               != NGX_OK)
        {
            ngx_http_agentstream_redis_break(redis,
                                           "its certificate is not accepted");
            return;
        }
    }

    c->read->handler = ngx_http_agentstream_redis_read_handler;
    c->write->handler = ngx_http_agentstream_redis_write_handler;

    ngx_http_agentstream_redis_hello(redis);
}


/* whether the certificate is the server's.  Addresses, which Sentinels usually
   tell, are in another field of a certificate than names */

static ngx_int_t
ngx_http_agentstream_redis_check_name(ngx_connection_t *c, ngx_str_t *name)
{
    int      rc;
    X509    *cert;
    u_char   text[NGX_SOCKADDR_STRLEN + 1];
    size_t   brackets;

    if (ngx_ssl_check_host(c, name) == NGX_OK) {
        return NGX_OK;
    }

    brackets = (name->len > 2 && name->data[0] == '[');

    if (name->len > NGX_SOCKADDR_STRLEN) {
        return NGX_ERROR;
    }

    ngx_cpystrn(text, name->data + brackets, name->len - 2 * brackets + 1);

    cert = SSL_get_peer_certificate(c->ssl->connection);

    if (cert == NULL) {
        return NGX_ERROR;
    }

    rc = X509_check_ip_asc(cert, (char *) text, 0);

    X509_free(cert);

    return (rc == 1) ? NGX_OK : NGX_ERROR;
}

#endif


/* the first commands; when all of them are answered, others may follow */

static void
ngx_http_agentstream_redis_hello(ngx_http_agentstream_redis_t *redis)
{
    u_char                              db[NGX_INT_T_LEN];
    ngx_int_t                           rc;
    ngx_str_t                           argv[3], *user, *password;
    ngx_uint_t                          n;
    ngx_http_agentstream_redis_conf_t  *conf;

    conf = redis->conf;
    user = redis->find ? &conf->address.user : &conf->sentinel_user;
    password = redis->find ? &conf->address.password
                           : &conf->sentinel_password;
    redis->hello = 0;
    rc = NGX_OK;

    if (password->len) {
        ngx_str_set(&argv[0], "AUTH");
        n = 1;

        if (user->len) {
            argv[n++] = *user;
        }

        argv[n++] = *password;

        rc |= ngx_http_agentstream_redis_hello_add(redis, n, argv,
                                       ngx_http_agentstream_redis_hello_done);
    }

    if (redis->find && conf->address.db) {
        ngx_str_set(&argv[0], "SELECT");
        argv[1].data = db;
        argv[1].len = ngx_sprintf(db, "%ui", conf->address.db) - db;

        rc |= ngx_http_agentstream_redis_hello_add(redis, 2, argv,
                                       ngx_http_agentstream_redis_hello_done);
    }

    /* a Sentinel may not know yet that the server is not the master any
       more */

    if (redis->find && conf->address.master.len) {
        ngx_str_set(&argv[0], "ROLE");

        rc |= ngx_http_agentstream_redis_hello_add(redis, 1, argv,
                                        ngx_http_agentstream_redis_role_done);
    }

    ngx_str_set(&argv[0], "PING");

    rc |= ngx_http_agentstream_redis_hello_add(redis, 1, argv,
                                       ngx_http_agentstream_redis_hello_done);

    if (rc != NGX_OK) {
        ngx_http_agentstream_redis_break(redis, "no memory");
    }
}


static ngx_int_t
ngx_http_agentstream_redis_hello_add(ngx_http_agentstream_redis_t *redis,
    ngx_uint_t argc, ngx_str_t *argv, ngx_http_agentstream_redis_pt handler)
{
    redis->hello++;

    return ngx_http_agentstream_redis_add(redis, argc, argv, handler, redis);
}


static void
ngx_http_agentstream_redis_role_done(void *data, redisReply *reply)
{
    ngx_str_t  role;

    if (reply && !ngx_http_agentstream_redis_error(reply, NULL)) {
        role = ngx_http_agentstream_redis_item(reply, 0);

        if (role.len != sizeof("master") - 1
            || ngx_strncmp(role.data, "master", role.len) != 0)
        {
            ngx_http_agentstream_redis_break(data, "is not the master");
            return;
        }
    }

    ngx_http_agentstream_redis_hello_done(data, reply);
}


static void
ngx_http_agentstream_redis_hello_done(void *data, redisReply *reply)
{
    ngx_http_agentstream_redis_t *redis = data;

    if (reply == NULL) {
        return;
    }

    if (ngx_http_agentstream_redis_error(reply, NULL)) {
        ngx_http_agentstream_redis_break(redis, reply->str);
        return;
    }

    if (--redis->hello) {
        return;
    }

    ngx_log_error(NGX_LOG_NOTICE, redis->log, 0,
                  "agentstream redis: connected to %V", &redis->host->text);

    redis->open = 1;
    redis->open_handler(redis->data);
}

#endif
