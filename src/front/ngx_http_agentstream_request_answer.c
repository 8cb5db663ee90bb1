
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Requests that end or unblock a running turn: the REST front of
 * verb_interrupt() and verb_answer().
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_request_int.h"


static void ngx_http_agentstream_request_interrupted(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static ngx_int_t ngx_http_agentstream_request_answer(
    ngx_http_agentstream_request_t *req, ngx_uint_t request,
    ngx_str_t *content);
static ngx_int_t ngx_http_agentstream_request_answer_body(
    ngx_http_agentstream_request_t *req, ngx_uint_t request, ngx_uint_t kind);


ngx_int_t
ngx_http_agentstream_request_interrupt(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_interrupt(&req->target,
                                     ngx_http_agentstream_request_interrupted,
                                     req);

    return ngx_http_agentstream_request_wait(req, verb);
}


static void
ngx_http_agentstream_request_interrupted(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_t *req = data;

    ngx_int_t            rc;
    ngx_http_request_t  *r;

    static ngx_str_t  yes = ngx_string("{\"interrupted\":true}");
    static ngx_str_t  no = ngx_string("{\"interrupted\":false}");

    r = req->request;

    ngx_http_set_log_request(r->connection->log, r);

    switch (outcome->code) {

    case NGX_HTTP_OK:
        rc = ngx_http_agentstream_request_reply(req, NGX_HTTP_OK, &yes);
        break;

    case NGX_HTTP_NO_CONTENT:
        rc = ngx_http_agentstream_request_reply(req, NGX_HTTP_OK, &no);
        break;

    case NGX_HTTP_NOT_FOUND:

        if (req->protocol->names) {
            /* nobody has prompted this session yet */
            rc = ngx_http_agentstream_request_reply(req, NGX_HTTP_OK, &no);
            break;
        }

        /* fall through */

    default:
        rc = ngx_http_agentstream_request_failed(req, outcome);
    }

    ngx_http_agentstream_request_finish(req, rc);
}


ngx_int_t
ngx_http_agentstream_request_question_reply(
    ngx_http_agentstream_request_t *req)
{
    return ngx_http_agentstream_request_answer_body(req,
                                         NGX_HTTP_AGENTSTREAM_REPLY_QUESTION,
                                         NGX_HTTP_AGENTSTREAM_BODY_ANSWERS);
}


ngx_int_t
ngx_http_agentstream_request_question_reject(
    ngx_http_agentstream_request_t *req)
{
    return ngx_http_agentstream_request_answer(req,
                                         NGX_HTTP_AGENTSTREAM_REJECT_QUESTION,
                                         NULL);
}


ngx_int_t
ngx_http_agentstream_request_permission_reply(
    ngx_http_agentstream_request_t *req)
{
    return ngx_http_agentstream_request_answer_body(req,
                                        NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION,
                                        NGX_HTTP_AGENTSTREAM_BODY_REPLY);
}


static ngx_int_t
ngx_http_agentstream_request_answer_body(ngx_http_agentstream_request_t *req,
    ngx_uint_t request, ngx_uint_t kind)
{
    ngx_int_t                    rc;
    ngx_http_agentstream_body_t  body;

    if (ngx_http_agentstream_request_body(req, kind, &body, &rc) != NGX_OK) {
        return rc;
    }

    return ngx_http_agentstream_request_answer(req, request, &body.text);
}


static ngx_int_t
ngx_http_agentstream_request_answer(ngx_http_agentstream_request_t *req,
    ngx_uint_t request, ngx_str_t *content)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_answer(&req->target, request, &req->id,
                                            content,
                                            ngx_http_agentstream_request_told,
                                            req);

    return ngx_http_agentstream_request_wait(req, verb);
}
