
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Instead of nginx's event loop: timers and posted events run when the fuzzer
 * says so, a connection is opened at once and receives what the fuzzer has for
 * it, and nobody else is woken.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REDIS_LOOP_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REDIS_LOOP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include "ngx_http_agentstream_notify.h"
#include "store_world.h"


#define check(x)  if (!(x)) { __builtin_trap(); }


/* a connection without a socket of its own */

typedef struct {
    ngx_connection_t                         connection;
    ngx_event_t                              read;
    ngx_event_t                              write;
} link_t;


typedef struct {
    const u_char                            *in;     /* to be received */
    size_t                                   len;
    ngx_uint_t                               cut;    /* the connection ends */
    ngx_uint_t                               told;   /* somebody in the session
                                                        was woken */
    int                                      fd;     /* a socket without an
                                                        error */
    ngx_rbtree_node_t                        timers;
} loop_t;


ngx_rbtree_t   ngx_event_timer_rbtree;
ngx_queue_t    ngx_posted_events;
ngx_uint_t     ngx_exiting;

static loop_t  loop;


static ssize_t
loop_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    if (loop.cut) {
        return 0;
    }

    if (loop.len == 0) {
        return NGX_AGAIN;
    }

    size = ngx_min(size, loop.len);

    ngx_memcpy(buf, loop.in, size);
    loop.in += size;
    loop.len -= size;

    return size;
}


static ssize_t
loop_send(ngx_connection_t *c, u_char *buf, size_t size)
{
    return size;
}


ngx_int_t
ngx_event_connect_peer(ngx_peer_connection_t *pc)
{
    link_t  *link;

    link = calloc(1, sizeof(link_t));
    check(link);

    link->connection.read = &link->read;
    link->connection.write = &link->write;
    link->connection.recv = loop_recv;
    link->connection.send = loop_send;
    link->connection.fd = loop.fd;
    link->read.data = link;
    link->write.data = link;

    pc->connection = &link->connection;

    return NGX_OK;
}


void
ngx_close_connection(ngx_connection_t *c)
{
    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    free(c);
}


ngx_int_t
ngx_event_get_peer(ngx_peer_connection_t *pc, void *data)
{
    return NGX_OK;
}


ngx_int_t
ngx_handle_read_event(ngx_event_t *rev, ngx_uint_t flags)
{
    return NGX_OK;
}


ngx_int_t
ngx_handle_write_event(ngx_event_t *wev, size_t lowat)
{
    return NGX_OK;
}


ngx_int_t
ngx_tcp_nodelay(ngx_connection_t *c)
{
    return NGX_OK;
}


ngx_int_t
ngx_parse_addr(ngx_pool_t *pool, ngx_addr_t *addr, u_char *text, size_t len)
{
    ngx_memzero(addr, sizeof(ngx_addr_t));

    return NGX_OK;
}


void
ngx_inet_set_port(struct sockaddr *sa, in_port_t port)
{
}


ngx_int_t
ngx_parse_url(ngx_pool_t *pool, ngx_url_t *u)
{
    return NGX_ERROR;
}


ngx_resolver_ctx_t *
ngx_resolve_start(ngx_resolver_t *r, ngx_resolver_ctx_t *temp)
{
    return NULL;
}


ngx_int_t
ngx_resolve_name(ngx_resolver_ctx_t *ctx)
{
    return NGX_ERROR;
}


void
ngx_resolve_name_done(ngx_resolver_ctx_t *ctx)
{
}


#if (NGX_SSL)

ngx_int_t
ngx_ssl_create_connection(ngx_ssl_t *ssl, ngx_connection_t *c,
    ngx_uint_t flags)
{
    return NGX_ERROR;
}


ngx_int_t
ngx_ssl_handshake(ngx_connection_t *c)
{
    return NGX_ERROR;
}


ngx_int_t
ngx_ssl_shutdown(ngx_connection_t *c)
{
    return NGX_OK;
}


ngx_int_t
ngx_ssl_check_host(ngx_connection_t *c, ngx_str_t *name)
{
    return NGX_ERROR;
}

#endif


void
ngx_http_agentstream_notify_wake(ngx_str_t *turn, uint64_t *watchers,
    ngx_http_agentstream_watch_t **watch)
{
}


void
ngx_http_agentstream_notify_forget(ngx_http_agentstream_watch_t **watch)
{
}


void
ngx_http_agentstream_notify_tell(ngx_str_t *session)
{
    loop.told = 1;
}


static void
loop_open(void)
{
    if (loop.fd == 0) {
        loop.fd = socket(AF_UNIX, SOCK_STREAM, 0);
    }

    ngx_queue_init(&ngx_posted_events);
    ngx_rbtree_init(&ngx_event_timer_rbtree, &loop.timers,
                    ngx_rbtree_insert_timer_value);

    loop.told = 0;
    srandom(1);
}


static void
loop_posted(void)
{
    ngx_event_t  *ev;

    while (!ngx_queue_empty(&ngx_posted_events)) {
        ev = ngx_queue_data(ngx_queue_head(&ngx_posted_events), ngx_event_t,
                            queue);

        ngx_delete_posted_event(ev);
        ev->handler(ev);
    }
}


static void
loop_sleep(ngx_msec_t ms)
{
    ngx_msec_t          end;
    ngx_event_t        *ev;
    ngx_rbtree_node_t  *node;

    end = ngx_current_msec + ms;

    while (ngx_event_timer_rbtree.root != ngx_event_timer_rbtree.sentinel) {
        node = ngx_rbtree_min(ngx_event_timer_rbtree.root,
                              ngx_event_timer_rbtree.sentinel);

        if ((ngx_msec_int_t) (node->key - end) > 0) {
            break;
        }

        if ((ngx_msec_int_t) (node->key - ngx_current_msec) > 0) {
            ngx_current_msec = node->key;
        }

        ev = ngx_rbtree_data(node, ngx_event_t, timer);
        ngx_del_timer(ev);
        ev->timedout = 1;
        ev->handler(ev);
        loop_posted();
    }

    ngx_current_msec = end;
    world.now.sec = 1000000 + end / 1000;
}


#endif /* _NGX_HTTP_AGENTSTREAM_REDIS_LOOP_H_INCLUDED_ */
