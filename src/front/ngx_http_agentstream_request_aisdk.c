
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
    ngx_http_agentstream_request_t      *req;
    ngx_http_agentstream_aisdk_chat_t    chat;
    ngx_array_t                          answered;     /* ids, of ngx_str_t */
    ngx_uint_t                           next;     /* the answer to be sent */
    ngx_int_t                            rc;       /* result of the response, if
                                                      the last one has failed */
    unsigned                             failed:1;
    unsigned                             calls:1;  /* a function of the request
                                                      calls the verb */
} ngx_http_agentstream_request_chat_t;


static ngx_int_t ngx_http_agentstream_request_chat(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_chat_prompt(
    ngx_http_agentstream_request_chat_t *c);
static ngx_int_t ngx_http_agentstream_request_chat_continue(
    ngx_http_agentstream_request_chat_t *c);
static ngx_int_t ngx_http_agentstream_request_chat_check(
    ngx_http_agentstream_request_chat_t *c,
    ngx_http_agentstream_store_state_t *state);
static ngx_int_t ngx_http_agentstream_request_chat_body(
    ngx_http_agentstream_request_chat_t *c,
    ngx_http_agentstream_aisdk_answer_t *answer,
    ngx_http_agentstream_body_t *body);
static ngx_int_t ngx_http_agentstream_request_chat_answer(
    ngx_http_agentstream_request_chat_t *c);
static void ngx_http_agentstream_request_chat_answered(void *data,
    ngx_http_agentstream_outcome_t *outcome);
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
    ngx_pool_t                          *pool;
    ngx_http_agentstream_store_state_t   state;

    turn = &c->chat.turn;
    pool = c->req->request->pool;

    if (ngx_array_init(&c->answered, pool, 2, sizeof(ngx_str_t)) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_agentstream_verb_turn(&c->req->target, pool, &state);

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

    rc = ngx_http_agentstream_request_chat_check(c, &state);

    return (rc == NGX_DECLINED) ? ngx_http_agentstream_request_chat_answer(c)
                                : rc;
}


/* what was answered elsewhere does not wait any more, which is fine; but the
   turn must have asked it.  NGX_DECLINED: nothing to object, anything else is
   what the handler returns */

static ngx_int_t
ngx_http_agentstream_request_chat_check(ngx_http_agentstream_request_chat_t *c,
    ngx_http_agentstream_store_state_t *state)
{
    ngx_int_t                             rc;
    ngx_str_t                            *id;
    ngx_uint_t                            i, n;
    ngx_array_t                           others;
    ngx_http_agentstream_body_t           body;
    ngx_http_agentstream_aisdk_answer_t  *answers;

    answers = c->chat.answers.elts;

    if (ngx_array_init(&others, c->req->request->pool, 2, sizeof(ngx_str_t))
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    for (i = 0; i < c->chat.answers.nelts; i++) {

        for (n = 0; n < state->nasks; n++) {
            if (state->asks[n].permission
                == (answers[i].kind <= NGX_HTTP_AGENTSTREAM_AISDK_DENY)
                && state->asks[n].id.len == answers[i].id.len
                && ngx_memcmp(state->asks[n].id.data, answers[i].id.data,
                              answers[i].id.len)
                   == 0)
            {
                break;
            }
        }

        id = ngx_array_push(&c->answered);
        if (id == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        *id = answers[i].id;

        rc = ngx_http_agentstream_request_chat_body(c, &answers[i], &body);

        if (rc != NGX_OK) {
            return ngx_http_agentstream_request_refused(c->req, rc,
                                                        &body.error);
        }

        if (n == state->nasks) {
            id = ngx_array_push(&others);
            if (id == NULL) {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }

            *id = answers[i].id;

            /* not to be sent */
            answers[i].id.len = 0;
        }
    }

    if (c->chat.answers.nelts == 0 && state->nasks) {
        return ngx_http_agentstream_request_error(c->req, NGX_HTTP_BAD_REQUEST,
                                  "The turn waits for an answer", NULL);
    }

    rc = others.nelts ? ngx_http_agentstream_verb_asked(&c->chat.turn, &others)
                      : NGX_OK;

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DECLINED) {
        return ngx_http_agentstream_request_error(c->req, NGX_HTTP_BAD_REQUEST,
                              "Something was answered that this turn has not "
                              "asked", NULL);
    }

    return NGX_DECLINED;
}


/* checks the answer, and writes it again for OpenCode */

static ngx_int_t
ngx_http_agentstream_request_chat_body(ngx_http_agentstream_request_chat_t *c,
    ngx_http_agentstream_aisdk_answer_t *answer,
    ngx_http_agentstream_body_t *body)
{
    ngx_int_t   rc;
    ngx_uint_t  kind;

    if (answer->body.len == 0) {
        return NGX_OK;
    }

    kind = (answer->kind == NGX_HTTP_AGENTSTREAM_AISDK_ANSWER)
           ? NGX_HTTP_AGENTSTREAM_BODY_ANSWERS
           : NGX_HTTP_AGENTSTREAM_BODY_REPLY;

    rc = ngx_http_agentstream_body_build(c->req->request->pool, kind, NULL,
                                         &answer->body, body);
    answer->body = body->text;

    return rc;
}


/* sends the answers, one after the other, and reads on when all are sent */

static ngx_int_t
ngx_http_agentstream_request_chat_answer(
    ngx_http_agentstream_request_chat_t *c)
{
    ngx_uint_t                            request;
    ngx_http_agentstream_verb_t          *verb;
    ngx_http_agentstream_reader_args_t    args;
    ngx_http_agentstream_aisdk_answer_t  *answers, *answer;

    static ngx_uint_t  requests[] = {
        NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION,
        NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION,
        NGX_HTTP_AGENTSTREAM_REPLY_QUESTION,
        NGX_HTTP_AGENTSTREAM_REJECT_QUESTION
    };

    answers = c->chat.answers.elts;

    while (c->next < c->chat.answers.nelts) {
        answer = &answers[c->next++];

        if (answer->id.len == 0) {
            continue;
        }

        request = requests[answer->kind];

        c->calls = 1;

        verb = ngx_http_agentstream_verb_answer(&c->req->target, request,
                                    &answer->id,
                                    answer->body.len ? &answer->body : NULL,
                                    ngx_http_agentstream_request_chat_answered,
                                    c);
        c->calls = 0;

        if (verb) {
            return ngx_http_agentstream_request_wait(c->req, verb);
        }

        if (c->failed) {
            return c->rc;
        }
    }

    ngx_memzero(&args, sizeof(ngx_http_agentstream_reader_args_t));

    args.turn = c->chat.turn;
    args.sender = 1;
    args.skip = c->chat.seq;
    args.answered = &c->answered;

    return ngx_http_agentstream_request_read(c->req, &args);
}


static void
ngx_http_agentstream_request_chat_answered(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_chat_t *c = data;

    ngx_int_t            rc;
    ngx_connection_t    *connection;
    ngx_http_request_t  *r;

    r = c->req->request;
    connection = r->connection;

    ngx_http_set_log_request(connection->log, r);

    /* 404: somebody else has answered in the meantime */

    if ((outcome->code < 200 || outcome->code >= 300)
        && outcome->code != NGX_HTTP_NOT_FOUND)
    {
        c->rc = ngx_http_agentstream_request_failed(c->req, outcome);
        c->failed = 1;
    }

    if (c->calls) {
        return;
    }

    c->req->verb = NULL;

    rc = c->failed ? c->rc : ngx_http_agentstream_request_chat_answer(c);

    if (rc != NGX_DONE) {
        ngx_http_finalize_request(r, rc);
        ngx_http_run_posted_requests(connection);
    }
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
