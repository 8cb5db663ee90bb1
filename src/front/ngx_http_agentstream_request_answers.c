
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Answers in the protocols of frontends: the client has got a turn up to the
 * place where it waits, and sends what the user has answered, to get the rest.
 * Nothing is sent to OpenCode before all answers were checked.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_request_int.h"


static ngx_int_t ngx_http_agentstream_request_answer_body(
    ngx_http_agentstream_request_answers_t *a,
    ngx_http_agentstream_body_answer_t *answer);
static ngx_uint_t ngx_http_agentstream_request_answer_waits(
    ngx_http_agentstream_body_answer_t *answer,
    ngx_http_agentstream_store_state_t *state);
static void ngx_http_agentstream_request_answer_sent(void *data,
    ngx_http_agentstream_outcome_t *outcome);


ngx_int_t
ngx_http_agentstream_request_check_answers(
    ngx_http_agentstream_request_answers_t *a, ngx_str_t *turn,
    ngx_http_agentstream_store_state_t *state)
{
    ngx_int_t                            rc;
    ngx_str_t                           *id;
    ngx_uint_t                           i;
    ngx_pool_t                          *pool;
    ngx_array_t                          others;
    ngx_http_agentstream_body_answer_t  *answers;

    pool = a->req->request->pool;
    answers = a->list->elts;
    a->known = (state != NULL);

    if (ngx_array_init(&a->ids, pool, 2, sizeof(ngx_str_t)) != NGX_OK
        || ngx_array_init(&others, pool, 2, sizeof(ngx_str_t)) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    for (i = 0; i < a->list->nelts; i++) {

        rc = ngx_http_agentstream_request_answer_body(a, &answers[i]);

        if (rc != NGX_DECLINED) {
            return rc;
        }

        id = ngx_array_push(&a->ids);
        if (id == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        *id = answers[i].id;

        if (state == NULL
            || ngx_http_agentstream_request_answer_waits(&answers[i], state))
        {
            continue;
        }

        if (!answers[i].optional) {
            id = ngx_array_push(&others);
            if (id == NULL) {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }

            *id = answers[i].id;
        }

        /* not to be sent */
        answers[i].id.len = 0;
    }

    rc = others.nelts ? ngx_http_agentstream_verb_asked(turn, &others)
                      : NGX_OK;

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DECLINED) {
        return ngx_http_agentstream_request_error(a->req, NGX_HTTP_BAD_REQUEST,
                              "Something was answered that this turn has not "
                              "asked", NULL);
    }

    return NGX_DECLINED;
}


/* checks the body of an answer, and writes it again for OpenCode; returned is
   the same as above */

static ngx_int_t
ngx_http_agentstream_request_answer_body(
    ngx_http_agentstream_request_answers_t *a,
    ngx_http_agentstream_body_answer_t *answer)
{
    ngx_int_t                    rc;
    ngx_uint_t                   kind;
    ngx_http_agentstream_body_t  body;

    if (answer->body.len == 0) {
        return NGX_DECLINED;
    }

    kind = (answer->request == NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION)
           ? NGX_HTTP_AGENTSTREAM_BODY_REPLY
           : NGX_HTTP_AGENTSTREAM_BODY_ANSWERS;

    rc = ngx_http_agentstream_body_build(a->req->request->pool, kind, NULL,
                                         &answer->body, &body);
    if (rc != NGX_OK) {
        return ngx_http_agentstream_request_refused(a->req, rc, &body.error);
    }

    answer->body = body.text;

    return NGX_DECLINED;
}


static ngx_uint_t
ngx_http_agentstream_request_answer_waits(
    ngx_http_agentstream_body_answer_t *answer,
    ngx_http_agentstream_store_state_t *state)
{
    ngx_uint_t                         i, permission;
    ngx_http_agentstream_store_ask_t  *ask;

    permission = (answer->request == NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION);

    for (i = 0; i < state->nasks; i++) {
        ask = &state->asks[i];

        if (ask->permission == permission
            && ask->id.len == answer->id.len
            && ngx_memcmp(ask->id.data, answer->id.data, ask->id.len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


ngx_int_t
ngx_http_agentstream_request_send_answers(
    ngx_http_agentstream_request_answers_t *a)
{
    ngx_http_agentstream_verb_t         *verb;
    ngx_http_agentstream_body_answer_t  *answer;

    while (!a->failed && a->next < a->list->nelts) {
        answer = a->list->elts;
        answer += a->next++;

        if (answer->id.len == 0) {
            continue;
        }

        a->calls = 1;

        verb = ngx_http_agentstream_verb_answer(&a->req->target,
                                      answer->request, &answer->id,
                                      answer->body.len ? &answer->body : NULL,
                                      ngx_http_agentstream_request_answer_sent,
                                      a);
        a->calls = 0;

        if (verb) {
            return ngx_http_agentstream_request_wait(a->req, verb);
        }
    }

    return a->failed ? a->rc : a->handler(a->req);
}


static void
ngx_http_agentstream_request_answer_sent(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_answers_t *a = data;

    ngx_int_t                            rc;
    ngx_connection_t                    *c;
    ngx_http_request_t                  *r;
    ngx_http_agentstream_body_answer_t  *answer;

    r = a->req->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    answer = a->list->elts;
    answer += a->next - 1;

    if (outcome->code == NGX_HTTP_NOT_FOUND && (a->known || answer->optional)) {
        /* somebody else has answered in the meantime, or it does not matter */

    } else if (outcome->code < 200 || outcome->code >= 300) {

        if (outcome->code == NGX_HTTP_NOT_FOUND) {
            outcome->code = NGX_HTTP_BAD_REQUEST;
        }

        a->rc = ngx_http_agentstream_request_failed(a->req, outcome);
        a->failed = 1;
    }

    if (a->calls) {
        return;
    }

    a->req->verb = NULL;

    rc = ngx_http_agentstream_request_send_answers(a);

    if (rc != NGX_DONE) {
        ngx_http_finalize_request(r, rc);
        ngx_http_run_posted_requests(c);
    }
}
