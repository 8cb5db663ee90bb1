
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The requests that a call consists of.  A connection of our own, a copy of a
 * socket that nobody ever writes to, carries a main request that does nothing
 * but wait.  Its only subrequest runs the internal location, so that
 * nginx's own modules do the proxying.  When the subrequest is done, or when
 * anything fails, the main request is terminated, which frees everything.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call_int.h"
#include "ngx_http_agentstream_text.h"
#include "ngx_http_agentstream_worker.h"


static void ngx_http_agentstream_call_init_connection(ngx_connection_t *c);
static void ngx_http_agentstream_call_connection_cleanup(void *data);
static ngx_int_t ngx_http_agentstream_call_headers(
    ngx_http_agentstream_call_t *call, ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_call_add_header(ngx_http_request_t *r,
    ngx_table_elt_t **header, const char *key, ngx_str_t *value);
static ngx_int_t ngx_http_agentstream_call_content(
    ngx_http_agentstream_call_t *call, ngx_http_request_t *r);
static ngx_chain_t **ngx_http_agentstream_call_buf(ngx_pool_t *pool,
    ngx_chain_t **ll, u_char *pos, u_char *last);
static void ngx_http_agentstream_call_phases(ngx_http_request_t *r);
static void ngx_http_agentstream_call_event_handler(ngx_event_t *ev);
static void ngx_http_agentstream_call_parked_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_agentstream_call_post_handler(ngx_http_request_t *r,
    void *data, ngx_int_t rc);
static u_char *ngx_http_agentstream_call_log_error(ngx_log_t *log, u_char *buf,
    size_t len);


/* the address text of our connections; a connection is recognised as ours by
   the pointer to it */
static ngx_str_t  ngx_http_agentstream_call_name = ngx_string("agentstream");


ngx_int_t
ngx_http_agentstream_call_open_pair(ngx_http_agentstream_calls_t *calls)
{
    if (socketpair(AF_UNIX, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0,
                   calls->pair)
        == -1)
    {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, ngx_errno,
                      "agentstream call: socketpair() failed");
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_connection_t *
ngx_http_agentstream_call_connect(ngx_http_agentstream_call_t *call)
{
    ngx_buf_t              *b;
    ngx_log_t              *log;
    ngx_pool_t             *pool;
    ngx_socket_t            fd;
    struct sockaddr        *sa;
    ngx_connection_t       *c;
    ngx_pool_cleanup_t     *cln;
    ngx_http_log_ctx_t     *ctx;
    ngx_http_connection_t  *hc;

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    log = ngx_palloc(pool, sizeof(ngx_log_t));
    ctx = ngx_palloc(pool, sizeof(ngx_http_log_ctx_t));
    hc = ngx_pcalloc(pool, sizeof(ngx_http_connection_t));
    sa = ngx_pcalloc(pool, sizeof(struct sockaddr_un));

    b = ngx_create_temp_buf(pool, 1);
    cln = ngx_pool_cleanup_add(pool, 0);

    if (log == NULL || ctx == NULL || hc == NULL || sa == NULL || b == NULL
        || cln == NULL)
    {
        ngx_destroy_pool(pool);
        return NULL;
    }

    fd = dup(ngx_http_agentstream_worker->calls->pair[0]);

    if (fd == (ngx_socket_t) -1) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "agentstream call: dup() failed");
        ngx_destroy_pool(pool);
        return NULL;
    }

    c = ngx_get_connection(fd, ngx_cycle->log);

    if (c == NULL) {
        (void) ngx_close_socket(fd);
        ngx_destroy_pool(pool);
        return NULL;
    }

    cln->handler = ngx_http_agentstream_call_connection_cleanup;

    *log = *ngx_cycle->log;

    log->connection = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    log->handler = ngx_http_agentstream_call_log_error;
    log->data = ctx;
    log->action = NULL;

    ctx->connection = c;
    ctx->request = NULL;
    ctx->current_request = NULL;

    sa->sa_family = AF_UNIX;
    hc->conf_ctx = call->server;

    c->pool = pool;
    c->log = log;
    c->data = hc;
    c->buffer = b;
    c->sockaddr = sa;

    ngx_http_agentstream_call_init_connection(c);

    return c;
}


/* what nginx does for a connection that it has accepted */

static void
ngx_http_agentstream_call_init_connection(ngx_connection_t *c)
{
    c->number = c->log->connection;
    c->start_time = ngx_current_msec;

    c->recv = ngx_recv;
    c->send = ngx_send;
    c->recv_chain = ngx_recv_chain;
    c->send_chain = ngx_send_chain;

    c->type = SOCK_STREAM;
    c->log_error = NGX_ERROR_INFO;

    c->socklen = offsetof(struct sockaddr_un, sun_path);
    c->local_sockaddr = c->sockaddr;
    c->local_socklen = c->socklen;
    c->addr_text = ngx_http_agentstream_call_name;
    c->listening = ngx_cycle->listening.elts;

    c->tcp_nodelay = NGX_TCP_NODELAY_DISABLED;
    c->tcp_nopush = NGX_TCP_NOPUSH_DISABLED;

    c->read->log = c->log;
    c->read->handler = ngx_http_agentstream_call_event_handler;
    c->write->log = c->log;
    c->write->handler = ngx_http_agentstream_call_event_handler;
    c->write->ready = 1;

    if (ngx_event_flags & NGX_USE_CLEAR_EVENT) {
        /* nothing ever happens on this connection, so the kernel need not
           watch it: nginx adds no event that is already active */
        c->read->active = 1;
        c->write->active = 1;
    }
}


static void
ngx_http_agentstream_call_connection_cleanup(void *data)
{
#if (NGX_STAT_STUB)
    /* closing the connection has subtracted one that was never added */
    (void) ngx_atomic_fetch_add(ngx_stat_active, 1);
#endif
}


ngx_http_request_t *
ngx_http_agentstream_call_create_main(ngx_http_agentstream_call_t *call,
    ngx_connection_t *c)
{
    ngx_http_request_t  *r;

    static ngx_str_t  line = ngx_string("agentstream call");

    r = ngx_http_create_request(c);
    if (r == NULL) {
        return NULL;
    }

    c->data = r;

#if (NGX_STAT_STUB)
    /* no client reads or waits on this connection, so it must not be
       counted */
    (void) ngx_atomic_fetch_add(ngx_stat_reading, -1);
    (void) ngx_atomic_fetch_add(ngx_stat_requests, -1);
    r->stat_reading = 0;
#endif

    r->internal = 1;
    r->logged = 1;
    r->limit_conn_status = 1;
    r->limit_req_status = 1;

    r->method = NGX_HTTP_GET;
    r->http_version = NGX_HTTP_VERSION_11;
    r->request_line = line;
    r->uri = call->address.uri;
    ngx_str_set(&r->method_name, "GET");
    ngx_str_set(&r->http_protocol, "HTTP/1.1");
    ngx_str_set(&r->schema, "http");

    r->write_event_handler = ngx_http_agentstream_call_parked_handler;

    r->request_body = ngx_pcalloc(r->pool, sizeof(ngx_http_request_body_t));

    if (r->request_body == NULL
        || ngx_http_agentstream_call_headers(call, r) != NGX_OK)
    {
        ngx_http_free_request(r, 0);
        return NULL;
    }

    return r;
}


/* the subrequest takes these over */

static ngx_int_t
ngx_http_agentstream_call_headers(ngx_http_agentstream_call_t *call,
    ngx_http_request_t *r)
{
    ngx_str_t                  host;
    ngx_http_core_srv_conf_t  *cscf;

    static ngx_str_t  json = ngx_string("application/json");

    if (ngx_list_init(&r->headers_in.headers, r->pool, 4,
                      sizeof(ngx_table_elt_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);

    host = cscf->server_name;

    if (host.len == 0) {
        ngx_str_set(&host, "localhost");
    }

    r->headers_in.server = host;

    if (ngx_http_agentstream_call_add_header(r, &r->headers_in.host, "Host",
                                             &host)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (call->content.len == 0) {
        return NGX_OK;
    }

    r->headers_in.content_length_n = call->content.len
                        + ngx_http_agentstream_enclosed_len(call->enclosed);

    return ngx_http_agentstream_call_add_header(r,
                                                &r->headers_in.content_type,
                                                "Content-Type", &json);
}


static ngx_int_t
ngx_http_agentstream_call_add_header(ngx_http_request_t *r,
    ngx_table_elt_t **header, const char *key, ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_in.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->key.data = (u_char *) key;
    h->key.len = ngx_strlen(key);
    h->value = *value;

    h->lowcase_key = ngx_pnalloc(r->pool, h->key.len);
    if (h->lowcase_key == NULL) {
        return NGX_ERROR;
    }

    h->hash = ngx_hash_strlow(h->lowcase_key, h->key.data, h->key.len);

    *header = h;

    return NGX_OK;
}


/* the body: the content, with what is enclosed in it */

static ngx_int_t
ngx_http_agentstream_call_content(ngx_http_agentstream_call_t *call,
    ngx_http_request_t *r)
{
    u_char                           *p, *last;
    ngx_buf_t                        *b;
    ngx_chain_t                      *cl, **ll;
    ngx_http_agentstream_enclosed_t  *e;

    p = call->content.data;
    last = p + call->content.len;

    r->request_body->bufs = NULL;
    ll = &r->request_body->bufs;

    if (call->enclosed) {
        ll = ngx_http_agentstream_call_buf(r->pool, ll, p,
                                           p + call->enclosed_at);
        p += call->enclosed_at;
    }

    for (e = call->enclosed; e; e = e->next) {

        ll = ngx_http_agentstream_call_buf(r->pool, ll, e->before.data,
                                           e->before.data + e->before.len);

        for (cl = e->chain; cl; cl = cl->next) {
            ll = ngx_http_agentstream_call_buf(r->pool, ll, cl->buf->pos,
                                               cl->buf->last);
        }

        ll = ngx_http_agentstream_call_buf(r->pool, ll, e->after.data,
                                           e->after.data + e->after.len);
    }

    if (ngx_http_agentstream_call_buf(r->pool, ll, p, last) == NULL) {
        return NGX_ERROR;
    }

    for (cl = r->request_body->bufs; cl->next; cl = cl->next) { /* void */ }

    b = cl->buf;
    b->last_buf = 1;

    r->request_body->buf = b;

    return NGX_OK;
}


/* adds a buffer to a chain, and returns where the next one belongs; NULL: there
   was no memory for this one, or for an earlier one */

static ngx_chain_t **
ngx_http_agentstream_call_buf(ngx_pool_t *pool, ngx_chain_t **ll, u_char *pos,
    u_char *last)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    if (ll == NULL) {
        return NULL;
    }

    b = ngx_calloc_buf(pool);
    cl = ngx_alloc_chain_link(pool);

    if (b == NULL || cl == NULL) {
        return NULL;
    }

    b->pos = pos;
    b->last = last;
    b->start = pos;
    b->end = last;
    b->memory = 1;

    cl->buf = b;
    cl->next = NULL;

    *ll = cl;

    return &cl->next;
}


ngx_int_t
ngx_http_agentstream_call_subrequest(ngx_http_agentstream_call_t *call,
    ngx_http_request_t *r)
{
    ngx_str_t                    uri;
    ngx_http_request_t          *sr;
    ngx_http_post_subrequest_t  *ps;

    ngx_http_set_ctx(r, call, ngx_http_agentstream_module);

    uri.len = call->prefix.len + call->address.uri.len;
    uri.data = ngx_pnalloc(r->pool, uri.len);
    ps = ngx_palloc(r->pool, sizeof(ngx_http_post_subrequest_t));

    if (uri.data == NULL || ps == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(ngx_cpymem(uri.data, call->prefix.data, call->prefix.len),
               call->address.uri.data, call->address.uri.len);

    if (call->content.len
        && ngx_http_agentstream_call_content(call, r) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ps->handler = ngx_http_agentstream_call_post_handler;
    ps->data = call;

    if (ngx_http_subrequest(r, &uri, &call->address.args, &sr, ps,
                            NGX_HTTP_SUBREQUEST_WAITED)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    sr->method = call->address.method;

    switch (call->address.method) {

    case NGX_HTTP_POST:
        ngx_str_set(&sr->method_name, "POST");
        break;

    case NGX_HTTP_PATCH:
        ngx_str_set(&sr->method_name, "PATCH");
        break;

    case NGX_HTTP_DELETE:
        ngx_str_set(&sr->method_name, "DELETE");
        break;

    default: /* NGX_HTTP_GET */
        break;
    }

    call->subrequest = sr;

    sr->filter_need_in_memory = 1;
    sr->write_event_handler = ngx_http_agentstream_call_phases;

    return NGX_OK;
}


static void
ngx_http_agentstream_call_phases(ngx_http_request_t *r)
{
    ngx_uint_t                  i;
    ngx_http_phase_handler_t   *ph;
    ngx_http_core_main_conf_t  *cmcf;

    /* the server's rewrites and returns are meant for clients, so start behind
       them */

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    ph = cmcf->phase_engine.handlers;

    for (i = 0; ph[i].checker != ngx_http_core_find_config_phase; i++) {
        /* void */
    }

    r->phase_handler = i;
    r->valid_location = 1;
    r->write_event_handler = ngx_http_core_run_phases;

    /* the client's location has already checked the size of the body */

    r->discard_body = 1;

    if (ph[i].checker(r, &ph[i]) != NGX_AGAIN) {
        return;
    }

    r->discard_body = 0;

    ngx_http_core_run_phases(r);
}


static void
ngx_http_agentstream_call_event_handler(ngx_event_t *ev)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    c = ev->data;
    r = c->data;

    ngx_http_set_log_request(c->log, r);

    if (c->close) {
        ngx_http_finalize_request(r->main, NGX_ERROR);
        ngx_http_run_posted_requests(c);
        return;
    }

    if (ev->write) {
        r->write_event_handler(r);

    } else {
        r->read_event_handler(r);
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_agentstream_call_parked_handler(ngx_http_request_t *r)
{
    /* called at the end of the subrequest, or by an event that means
       nothing */

    if (r->connection->data == r) {
        ngx_http_finalize_request(r, NGX_ERROR);
    }
}


static ngx_int_t
ngx_http_agentstream_call_post_handler(ngx_http_request_t *r, void *data,
    ngx_int_t rc)
{
    ngx_http_agentstream_call_t  *call = data;

    if (!call->answered && rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        call->status = rc;
    }

    return NGX_OK;
}


ngx_uint_t
ngx_http_agentstream_call_unsent(ngx_http_agentstream_call_t *call)
{
    ngx_uint_t                  i;
    ngx_http_request_t         *r;
    ngx_http_upstream_t        *u;
    ngx_http_upstream_state_t  *state;

    r = call->subrequest;

    if (r == NULL) {
        return call->unsent;
    }

    u = r->upstream;

    if (u && u->peer.connection && u->peer.connection->sent) {
        return 0;
    }

    /* look at all the servers that were tried */

    if (r->upstream_states) {
        state = r->upstream_states->elts;

        for (i = 0; i < r->upstream_states->nelts; i++) {
            if (state[i].bytes_sent) {
                return 0;
            }
        }
    }

    return 1;
}


ngx_http_agentstream_call_t *
ngx_http_agentstream_call_of(ngx_http_request_t *r)
{
    if (r->connection->addr_text.data != ngx_http_agentstream_call_name.data) {
        return NULL;
    }

    return ngx_http_get_module_ctx(r->main, ngx_http_agentstream_module);
}


static u_char *
ngx_http_agentstream_call_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    u_char                       *p;
    u_char                        line[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    u_char                        escaped[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    ngx_str_t                     url, args, text;
    ngx_http_log_ctx_t           *ctx;
    ngx_http_request_t           *r;
    ngx_http_agentstream_call_t  *call;

    static ngx_str_t  hidden = ngx_string("/...");

    ctx = log->data;

    p = ngx_snprintf(buf, len, " while %s",
                     log->action ? log->action : "making a call");
    len -= p - buf;
    buf = p;

    r = ctx->current_request;

    if (ctx->request == NULL || r == NULL) {
        return buf;
    }

    call = ngx_http_get_module_ctx(ctx->request, ngx_http_agentstream_module);

    if (call == NULL) {
        return buf;
    }

    /* what a chat platform has put into the address of a file may open it */

    args = call->address.args;

    if (call->secret) {
        args.len = 0;
    }

    url.data = line;
    url.len = ngx_snprintf(line, sizeof(line), "%V%V%s%V", &call->prefix,
                           &call->address.uri, args.len ? "?" : "", &args)
              - line;

    text = ngx_http_agentstream_text_escape(escaped, &url);

    p = ngx_snprintf(buf, len, ", call: \"%V\"", &text);
    len -= p - buf;
    buf = p;

    if (r->upstream && r->upstream->peer.name) {
        /* proxy_pass to a chat platform may have a token in its URI */

        url.len = ngx_snprintf(line, sizeof(line), "%V%V%V",
                               &r->upstream->schema, r->upstream->peer.name,
                               call->secret ? &hidden : &r->upstream->uri)
                  - line;

        text = ngx_http_agentstream_text_escape(escaped, &url);

        p = ngx_snprintf(buf, len, ", upstream: \"%V\"", &text);
    }

    return p;
}
