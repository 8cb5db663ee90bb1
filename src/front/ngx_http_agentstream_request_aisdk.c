
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The protocol of the AI SDK, docs/protocols.md, "ai-sdk".  A chat is a session
 * that has the chat's id as its name.  A request with a new message is a
 * prompt; one without answers what the turn has asked, and goes on reading it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_aisdk.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_request_int.h"


/* in the request's pool */

typedef struct {
    ngx_http_agentstream_request_t          *req;
    ngx_http_agentstream_aisdk_chat_t        chat;
    ngx_http_agentstream_request_answers_t   answers;
} ngx_http_agentstream_request_chat_t;


static ngx_int_t ngx_http_agentstream_request_chat(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_chat_prompt(
    ngx_http_agentstream_request_chat_t *c);
static ngx_int_t ngx_http_agentstream_request_chat_continue(
    ngx_http_agentstream_request_chat_t *c);
static ngx_int_t ngx_http_agentstream_request_chat_read(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_chat_stream(
    ngx_http_agentstream_request_t *req);


static ngx_http_agentstream_request_route_t
    ngx_http_agentstream_request_chat_routes[] =
{
    { NGX_HTTP_POST, 0, NULL, NULL,
      ngx_http_agentstream_body_required, 1,
      ngx_http_agentstream_request_chat },

    { NGX_HTTP_GET, 2, "stream", NULL,
      ngx_http_agentstream_body_none, 1,
      ngx_http_agentstream_request_chat_stream },

    { NGX_HTTP_POST, 2, "stop", NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_interrupt },

    { 0, 0, NULL, NULL, ngx_http_agentstream_body_none, 0, NULL }
};


ngx_http_agentstream_request_protocol_t  ngx_http_agentstream_request_aisdk =
{
    ngx_http_agentstream_request_chat_routes,
    &ngx_http_agentstream_aisdk_wire,
    &ngx_http_agentstream_aisdk_error,
    &ngx_http_agentstream_aisdk_error,
    &ngx_http_agentstream_aisdk_error,
    0,
    1
};


static ngx_int_t
ngx_http_agentstream_request_chat(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                             rc;
    ngx_pool_t                           *pool;
    ngx_http_agentstream_request_chat_t  *c;

    pool = req->request->pool;

    c = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_request_chat_t));
    if (c == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    c->req = req;

    rc = ngx_http_agentstream_aisdk_chat(pool, &req->body, &c->chat);

    ngx_http_agentstream_request_free_body(req);

    if (rc != NGX_OK) {
        return ngx_http_agentstream_request_refused(req, rc, &c->chat.error);
    }

    rc = ngx_http_agentstream_request_use_name(req, &c->chat.name);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    return c->chat.prompt.len ? ngx_http_agentstream_request_chat_prompt(c)
                              : ngx_http_agentstream_request_chat_continue(c);
}


static ngx_int_t
ngx_http_agentstream_request_chat_prompt(
    ngx_http_agentstream_request_chat_t *c)
{
    ngx_int_t                      rc;
    ngx_uint_t                     allowed;
    ngx_http_agentstream_prompt_t  prompt;

    /* the message is what others send as "content", and its id is not a choice
       of the client */

    allowed = NGX_HTTP_AGENTSTREAM_FIELD_REQUEST_ID;

    if (c->req->conf->fields & NGX_HTTP_AGENTSTREAM_FIELD_CONTENT) {
        allowed |= NGX_HTTP_AGENTSTREAM_FIELD_PARTS;
    }

    if (ngx_http_agentstream_request_prompt(c->req, &c->chat.prompt, allowed,
                                            &prompt, &rc)
        != NGX_OK)
    {
        return rc;
    }

    ngx_pfree(c->req->request->pool, c->chat.prompt.data);

    return ngx_http_agentstream_request_send(c->req, &prompt);
}


static ngx_int_t
ngx_http_agentstream_request_chat_continue(
    ngx_http_agentstream_request_chat_t *c)
{
    ngx_int_t                            rc;
    ngx_str_t                           *turn;
    ngx_http_agentstream_store_state_t   state;

    turn = &c->chat.turn;

    rc = ngx_http_agentstream_verb_turn(&c->req->target, c->req->request->pool,
                                        &state);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DECLINED
        || state.id.len != turn->len
        || ngx_memcmp(state.id.data, turn->data, turn->len) != 0
        || c->chat.seq > state.packets)
    {
        return ngx_http_agentstream_request_error(c->req, NGX_HTTP_BAD_REQUEST,
                              "The last message is not the end of this chat",
                              NULL);
    }

    if (c->chat.answers.nelts == 0 && state.nasks) {
        return ngx_http_agentstream_request_error(c->req, NGX_HTTP_BAD_REQUEST,
                                  "The turn waits for an answer", NULL);
    }

    c->answers.req = c->req;
    c->answers.list = &c->chat.answers;
    c->answers.handler = ngx_http_agentstream_request_chat_read;

    c->req->data = c;
    c->req->context = &c->chat;

    rc = ngx_http_agentstream_request_check_answers(&c->answers, turn, &state);

    return (rc == NGX_DECLINED)
           ? ngx_http_agentstream_request_send_answers(&c->answers) : rc;
}


/* the turn, behind what the client has of it */

static ngx_int_t
ngx_http_agentstream_request_chat_read(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_reader_args_t    args;
    ngx_http_agentstream_request_chat_t  *c;

    c = req->data;

    ngx_memzero(&args, sizeof(ngx_http_agentstream_reader_args_t));

    args.turn = c->chat.turn;
    args.sender = 1;
    args.skip = c->chat.seq;
    args.pending = ngx_http_agentstream_aisdk_ends(&c->chat);
    args.answered = &c->answers.ids;

    return ngx_http_agentstream_request_read(req, &args);
}


/* the turn that runs, from its beginning */

static ngx_int_t
ngx_http_agentstream_request_chat_stream(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                           rc;
    ngx_http_agentstream_store_state_t  state;
    ngx_http_agentstream_reader_args_t  args;

    rc = ngx_http_agentstream_verb_turn(&req->target, req->request->pool,
                                        &state);
    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_OK && !state.running) {
        return ngx_http_agentstream_request_nothing(req);
    }

    ngx_memzero(&args, sizeof(ngx_http_agentstream_reader_args_t));

    args.optional = 1;

    rc = ngx_http_agentstream_request_read(req, &args);

    return (rc == NGX_DECLINED) ? ngx_http_agentstream_request_nothing(req)
                                : rc;
}
