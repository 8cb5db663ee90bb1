
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 4: the history.  OpenCode's answer is streamed; when enough of it is
 * translated the call pauses until the client has taken that.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history_int.h"
#include "ngx_http_agentstream_turn.h"


/* what is made before it is sent, and what is read at one go */
#define NGX_HTTP_AGENTSTREAM_HISTORY_OUT  32768
#define NGX_HTTP_AGENTSTREAM_HISTORY_IN   262144

/* of a message, with all the files in it */
#define NGX_HTTP_AGENTSTREAM_HISTORY_MAX  (64 * 1024 * 1024)


static void ngx_http_agentstream_history_cleanup(void *data);
static ngx_int_t ngx_http_agentstream_history_body(void *data, u_char *pos,
    size_t len);
static void ngx_http_agentstream_history_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_history_error(
    ngx_http_agentstream_history_t *h);
static void ngx_http_agentstream_history_event_handler(ngx_event_t *ev);


ngx_int_t
ngx_http_agentstream_history_start(ngx_http_request_t *r,
    ngx_http_agentstream_history_args_t *args)
{
    ngx_http_cleanup_t              *cln;
    ngx_http_agentstream_call_t     *call;
    ngx_http_agentstream_history_t  *h;

    h = ngx_pcalloc(r->pool, sizeof(ngx_http_agentstream_history_t));
    if (h == NULL) {
        return NGX_ERROR;
    }

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    h->request = r;
    h->args = *args;

    h->split.limit = NGX_HTTP_AGENTSTREAM_HISTORY_MAX;
    h->split.handler = ngx_http_agentstream_history_message;
    h->split.ctx = h;

    h->event.handler = ngx_http_agentstream_history_event_handler;
    h->event.data = h;
    h->event.log = r->connection->log;

    cln->handler = ngx_http_agentstream_history_cleanup;
    cln->data = h;

    call = ngx_http_agentstream_call_create(args->conf, &args->route,
                                            NGX_HTTP_AGENTSTREAM_GET_MESSAGES,
                                            &args->session, NULL, NULL);
    if (call == NULL) {
        return NGX_ERROR;
    }

    if (args->limit
        && ngx_http_agentstream_opencode_limit(call->pool, &call->address,
                                               args->limit)
           != NGX_OK)
    {
        ngx_http_agentstream_call_destroy(call);
        return NGX_ERROR;
    }

    call->body_handler = ngx_http_agentstream_history_body;
    call->done_handler = ngx_http_agentstream_history_done;
    call->data = h;

    h->call = call;

    ngx_http_set_ctx(r, h, ngx_http_agentstream_module);

    ngx_http_agentstream_call_open(call);

    return NGX_DONE;
}


static void
ngx_http_agentstream_history_cleanup(void *data)
{
    ngx_http_agentstream_history_t *h = data;

    if (h->call) {
        ngx_http_agentstream_call_close(h->call);
        h->call = NULL;
    }

    if (h->event.posted) {
        ngx_delete_posted_event(&h->event);
    }

    ngx_http_agentstream_history_destroy_turn(h);
    ngx_http_agentstream_history_destroy_output(h);
    ngx_http_agentstream_json_split_destroy(&h->split);
    ngx_http_agentstream_json_destroy(&h->json);
}


static ngx_int_t
ngx_http_agentstream_history_body(void *data, u_char *pos, size_t len)
{
    ngx_http_agentstream_history_t *h = data;

    if (ngx_http_agentstream_json_split_feed(&h->split, pos, len) != NGX_OK) {
        return NGX_ERROR;
    }

    h->taken += len;

    if (h->filled < NGX_HTTP_AGENTSTREAM_HISTORY_OUT
        && h->taken < NGX_HTTP_AGENTSTREAM_HISTORY_IN)
    {
        return NGX_OK;
    }

    /* not before others had their turn */

    ngx_post_event(&h->event, &ngx_posted_next_events);

    return NGX_AGAIN;
}


static void
ngx_http_agentstream_history_done(void *data, ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_history_t *h = data;

    ngx_int_t            rc;
    ngx_uint_t           status;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = h->request;
    c = r->connection;
    status = call->status;

    h->call = NULL;

    ngx_http_set_log_request(c->log, r);

    if (status == NGX_HTTP_OK
        && !(call->complete
             && ngx_http_agentstream_json_split_complete(&h->split)))
    {
        ngx_log_error(NGX_LOG_ERR, c->log, 0,
                      "agentstream history: OpenCode's answer is not whole, "
                      "session %V", &h->args.session);

        status = NGX_HTTP_BAD_GATEWAY;
    }

    if (status != NGX_HTTP_OK && !r->header_sent) {
        h->args.failed(h->args.data, status);
        return;
    }

    rc = (status == NGX_HTTP_OK) ? ngx_http_agentstream_history_end(h)
                                 : ngx_http_agentstream_history_error(h);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_history_close(h);
    }

    if (rc != NGX_OK) {
        ngx_http_finalize_request(r, NGX_ERROR);

    } else {
        ngx_http_agentstream_history_output(h);
    }

    ngx_http_run_posted_requests(c);
}


static ngx_int_t
ngx_http_agentstream_history_error(ngx_http_agentstream_history_t *h)
{
    u_char  *p;

    static ngx_str_t  message = ngx_string("OpenCode's answer is not whole");

    p = ngx_http_agentstream_history_reserve(h,
                         ngx_http_agentstream_acp_error_size(&message, NULL));
    if (p == NULL) {
        return NGX_ERROR;
    }

    p = ngx_http_agentstream_acp_error(p,
                                       ngx_http_agentstream_turn_timestamp(),
                                       &message, NGX_HTTP_BAD_GATEWAY, NULL);

    (void) ngx_http_agentstream_history_commit(h, p, 0);

    return NGX_OK;
}


static void
ngx_http_agentstream_history_event_handler(ngx_event_t *ev)
{
    ngx_connection_t                *c;
    ngx_http_agentstream_history_t  *h;

    h = ev->data;
    c = h->request->connection;

    ngx_http_set_log_request(c->log, h->request);

    h->taken = 0;

    ngx_http_agentstream_history_output(h);
    ngx_http_run_posted_requests(c);
}
