
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The request that prompts a session.  Its sender finds a turn, at once or
 * after a wait; then the client is a reader like any other, or waits for the
 * whole answer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_sender.h"


/* in the request's pool */

typedef struct {
    ngx_http_agentstream_request_t      *req;
    ngx_http_agentstream_sender_t        sender;
    ngx_int_t                            rc;       /* result of the handler, if
                                                      the sender is done at
                                                      once */
    ngx_uint_t                           done;     /* the sender has found its
                                                      turn, or was refused */
    ngx_uint_t                           later;    /* the handler has
                                                      returned */
} ngx_http_agentstream_request_sender_t;


static void ngx_http_agentstream_request_sender_handler(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static void ngx_http_agentstream_request_sender_cleanup(void *data);


ngx_int_t
ngx_http_agentstream_request_send_message(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                      rc;
    ngx_http_agentstream_prompt_t  prompt;

    if (ngx_http_agentstream_request_prompt(req, &req->body, 0, &prompt,
                                            &rc)
        != NGX_OK)
    {
        return rc;
    }

    return ngx_http_agentstream_request_send(req, &prompt);
}


ngx_int_t
ngx_http_agentstream_request_send(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_prompt_t *prompt)
{
    ngx_http_request_t                     *r;
    ngx_http_cleanup_t                     *cln;
    ngx_http_agentstream_sender_t          *sender;
    ngx_http_agentstream_request_sender_t  *rs;

    r = req->request;

    rs = ngx_pcalloc(r->pool, sizeof(ngx_http_agentstream_request_sender_t));
    if (rs == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_agentstream_request_sender_cleanup;
    cln->data = rs;

    rs->req = req;

    sender = &rs->sender;

    sender->args.target = req->target;

    if (req->named
        && ngx_http_agentstream_body_make(r->pool, NULL, &req->target.session,
                                          &req->scope.directory,
                                          &sender->args.make)
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    sender->args.prompt = prompt->body;
    sender->args.files = prompt->files;
    sender->args.request_id = prompt->request_id;
    sender->handler = ngx_http_agentstream_request_sender_handler;
    sender->data = rs;

    ngx_http_agentstream_sender_send(sender);

    if (rs->done) {
        /* NGX_AGAIN: a part of the response is still to be sent */
        return rs->rc;
    }

    /* it waits for its turn; a client that disconnects in the meantime is
       dropped */

    rs->later = 1;

    ngx_http_agentstream_output_wait(r);

    return NGX_DONE;
}


static void
ngx_http_agentstream_request_sender_handler(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_sender_t *rs = data;

    ngx_int_t                            rc;
    ngx_connection_t                    *c;
    ngx_http_request_t                  *r;
    ngx_http_agentstream_reader_args_t   args;

    r = rs->req->request;
    c = r->connection;

    if (rs->later) {
        ngx_http_set_log_request(c->log, r);
    }

    ngx_pfree(r->pool, rs->sender.args.prompt.data);

    if (outcome->code == NGX_HTTP_OK && !rs->req->sse) {
        rc = ngx_http_agentstream_request_whole(rs->req, &rs->sender.turn, 0,
                                                1);

    } else if (outcome->code == NGX_HTTP_OK) {
        ngx_memzero(&args, sizeof(ngx_http_agentstream_reader_args_t));

        args.turn = rs->sender.turn;
        args.sender = 1;

        rc = ngx_http_agentstream_request_read(rs->req, &args);

    } else {
        rc = ngx_http_agentstream_request_failed(rs->req, outcome);
    }

    if (!rs->later) {
        rs->rc = rc;
        rs->done = 1;
        return;
    }

    if (rc != NGX_DONE) {
        ngx_http_finalize_request(r, rc);
        ngx_http_run_posted_requests(c);
    }
}


static void
ngx_http_agentstream_request_sender_cleanup(void *data)
{
    ngx_http_agentstream_request_sender_t *rs = data;

    ngx_http_agentstream_sender_leave(&rs->sender);
}
