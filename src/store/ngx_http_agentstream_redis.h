
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REDIS_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REDIS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include "ngx_http_agentstream_url.h"


/* hiredis' own */
typedef struct redisReply  redisReply;


/*
 * A connection to Redis: commands go out in the order in which they were given,
 * many at a time, and each is answered once.  The connection opens itself
 * again when it breaks.  Only hiredis' reader and formatter are used; sockets,
 * timers, names and TLS are nginx's.
 */


/* a server */

typedef struct {
    ngx_str_t                            name;     /* ends with a null */
    in_port_t                            port;
    ngx_str_t                            text;     /* for the log: name and
                                                      port */
    ngx_addr_t                          *addrs;    /* NULL: looked for at each
                                                      connect */
    ngx_uint_t                           naddrs;
} ngx_http_agentstream_redis_host_t;


/* belongs to the configuration */

typedef struct {
    ngx_http_agentstream_url_t           address;
    ngx_str_t                            sentinel_user;
    ngx_str_t                            sentinel_password;
    ngx_http_agentstream_redis_host_t   *hosts;    /* the server, or the
                                                      Sentinels */
    ngx_uint_t                           nhosts;
    ngx_resolver_t                      *resolver; /* NULL: none */
    ngx_msec_t                           resolver_timeout;
#if (NGX_SSL)
    ngx_ssl_t                           *ssl;      /* NULL: no TLS */
    ngx_uint_t                           verify;
#endif
} ngx_http_agentstream_redis_conf_t;


typedef struct ngx_http_agentstream_redis_find_s
                                             ngx_http_agentstream_redis_find_t;
typedef struct ngx_http_agentstream_redis_s  ngx_http_agentstream_redis_t;

/* reply NULL: the connection broke, and it is not known whether the command
   was executed; otherwise the reply may be an error */
typedef void (*ngx_http_agentstream_redis_pt)(void *data, redisReply *reply);


/* part of its user, who sets the first members */

struct ngx_http_agentstream_redis_s {
    ngx_http_agentstream_redis_conf_t   *conf;
    ngx_http_agentstream_redis_find_t   *find;     /* NULL: it is a connection
                                                      to a Sentinel */
    ngx_log_t                           *log;
    void                                *data;

    /* it can be used; it cannot be used any more, after all its commands were
       answered with NULL */
    void                               (*open_handler)(void *data);
    void                               (*lost_handler)(void *data);
    /* replies that answer no command: messages of subscriptions; NULL: it has
       no subscriptions */
    ngx_http_agentstream_redis_pt        message_handler;

    /* its own */
    ngx_queue_t                          queue;    /* of those that look for
                                                      the same server */
    ngx_http_agentstream_redis_host_t   *host;     /* where it is, or was */
    ngx_uint_t                           turn;     /* counts the attempts:
                                                      which host is next */
    ngx_uint_t                           choice;   /* which of the host's
                                                      addresses is tried */
    ngx_resolver_ctx_t                  *resolving;
    ngx_peer_connection_t                peer;
    ngx_pool_t                          *pool;     /* of the connection */
    struct redisReader                  *reader;
    ngx_queue_t                          commands; /* not answered yet */
    ngx_uint_t                           ncommands;
    ngx_uint_t                           hello;    /* number of answers until
                                                      it can be used */
    ngx_uint_t                           open;
    ngx_uint_t                           closing;
    ngx_uint_t                           tries;    /* since it was good */
    u_char                              *out;
    size_t                               out_size;
    size_t                               out_len;
    size_t                               out_sent;
    ngx_event_t                          flush;
    ngx_event_t                          retry;
    ngx_msec_t                           slowest;  /* longest time that the last
                                                      answers took */
};


/*
 * Where the server is.  With an address of Sentinels they are asked every
 * second, one of them at a time, and all connections are moved when there is
 * another master.
 */

struct ngx_http_agentstream_redis_find_s {
    ngx_http_agentstream_redis_t         sentinel;
    ngx_http_agentstream_redis_host_t    master;   /* no name: not known yet */
    u_char                               master_data[2 * NGX_MAXHOSTNAMELEN
                                                     + sizeof(":65535")];
    ngx_queue_t                          users;    /* connections */
    ngx_event_t                          ask;
    ngx_uint_t                           doubt;    /* what this Sentinel said
                                                      is of no use */
};


/* reads the addresses of the servers; names are resolved now if there is no
   resolver.  The text says what is missing if the module was built without
   hiredis */
char *ngx_http_agentstream_redis_resolve(ngx_conf_t *cf,
    ngx_http_agentstream_redis_conf_t *conf);

/* before the connections that use it are started */
void ngx_http_agentstream_redis_find_start(
    ngx_http_agentstream_redis_find_t *find,
    ngx_http_agentstream_redis_conf_t *conf, ngx_log_t *log);
void ngx_http_agentstream_redis_find_stop(
    ngx_http_agentstream_redis_find_t *find);

void ngx_http_agentstream_redis_start(ngx_http_agentstream_redis_t *redis);
void ngx_http_agentstream_redis_stop(ngx_http_agentstream_redis_t *redis);

/* closes it, because the server cannot be used, and tries again later */
void ngx_http_agentstream_redis_break(ngx_http_agentstream_redis_t *redis,
    const char *why);

/* it does what it is for: the next time that it breaks, it is opened again
   without a long pause */
void ngx_http_agentstream_redis_good(ngx_http_agentstream_redis_t *redis);

/* NGX_OK: the handler will be called; NGX_ERROR: it will not, because the
   connection is not open, or has too much to send */
ngx_int_t ngx_http_agentstream_redis_command(
    ngx_http_agentstream_redis_t *redis, ngx_uint_t argc, ngx_str_t *argv,
    ngx_http_agentstream_redis_pt handler, void *data);


/* What replies say.  All of them accept any reply, also NULL. */

/* the text of a string or status; empty: it is something else */
ngx_str_t ngx_http_agentstream_redis_text(redisReply *reply);
/* the same of an array's element */
ngx_str_t ngx_http_agentstream_redis_item(redisReply *reply, ngx_uint_t i);
/* an array's element, or NULL */
redisReply *ngx_http_agentstream_redis_element(redisReply *reply,
    ngx_uint_t i);
/* number of elements; 0: not an array */
ngx_uint_t ngx_http_agentstream_redis_count(redisReply *reply);
/* whether it is an error that begins with this word; word NULL: any error */
ngx_uint_t ngx_http_agentstream_redis_error(redisReply *reply,
    const char *word);
/* what an error says, for redis_break() */
const char *ngx_http_agentstream_redis_why(redisReply *reply);
/* an integer; -1: it is something else */
int64_t ngx_http_agentstream_redis_value(redisReply *reply);
/* an array's element that is an integer; -1: it is something else */
int64_t ngx_http_agentstream_redis_integer(redisReply *reply, ngx_uint_t i);
/* a number in digits; 0: it is none */
uint64_t ngx_http_agentstream_redis_number(ngx_str_t *text);


#endif /* _NGX_HTTP_AGENTSTREAM_REDIS_H_INCLUDED_ */
