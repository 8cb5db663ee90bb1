
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Connects a verb of the engine with the client's request that asked for it.
 * The outcome of the verb is the response, at once or later; when the client
 * disconnects in the meantime, the request leaves the verb.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_request_int.h"


ngx_int_t
ngx_http_agentstream_request_wait(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_verb_t *verb)
{
    if (verb == NULL) {
        return req->rc;
    }

    req->verb = verb;

    ngx_http_agentstream_output_wait(req->request);

    return NGX_DONE;
}


void
ngx_http_agentstream_request_told(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_t *req = data;

    ngx_int_t            rc;
    ngx_str_t           *body;
    ngx_http_request_t  *r;

    static ngx_str_t  nothing = ngx_string("null");

    r = req->request;

    ngx_http_set_log_request(r->connection->log, r);

    if (outcome->code < 200 || outcome->code >= 300) {
        rc = ngx_http_agentstream_request_failed(req, outcome);

    } else {
        body = outcome->body.len ? &outcome->body : &nothing;
        rc = ngx_http_agentstream_request_reply(req, outcome->code, body);
    }

    ngx_http_agentstream_request_finish(req, rc);
}


ngx_int_t
ngx_http_agentstream_request_failed(ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_outcome_t *outcome)
{
    if (outcome->reason == NULL) {
        return outcome->code;
    }

    return ngx_http_agentstream_request_error(req, outcome->code,
                                              outcome->reason,
                                              outcome->details.len
                                              ? &outcome->details : NULL);
}


void
ngx_http_agentstream_request_finish(ngx_http_agentstream_request_t *req,
    ngx_int_t rc)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    if (req->verb == NULL) {
        /* the route's handler has not returned yet */
        req->rc = rc;
        return;
    }

    req->verb = NULL;

    r = req->request;
    c = r->connection;

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}
