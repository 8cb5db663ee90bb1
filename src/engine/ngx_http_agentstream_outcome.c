
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Outcomes.  Only this part decides what OpenCode's answers mean for the
 * caller of a verb, so that all verbs report the same.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_outcome.h"


void
ngx_http_agentstream_outcome_good(ngx_http_agentstream_outcome_t *outcome,
    ngx_uint_t code, ngx_str_t *body)
{
    ngx_memzero(outcome, sizeof(ngx_http_agentstream_outcome_t));

    outcome->code = code;

    if (body) {
        outcome->body = *body;
    }
}


void
ngx_http_agentstream_outcome_bad(ngx_http_agentstream_outcome_t *outcome,
    ngx_uint_t code, const char *reason)
{
    ngx_memzero(outcome, sizeof(ngx_http_agentstream_outcome_t));

    outcome->code = code;
    outcome->reason = reason;
}


void
ngx_http_agentstream_outcome_failed(ngx_http_agentstream_outcome_t *outcome,
    ngx_uint_t status, const char *missing)
{
    u_char      *p;
    ngx_uint_t   code;
    const char  *reason;

    if (status == NGX_HTTP_NOT_FOUND && missing) {
        ngx_http_agentstream_outcome_bad(outcome, status, missing);
        return;
    }

    reason = ngx_http_agentstream_opencode_failure(status, 0, &code);

    ngx_http_agentstream_outcome_bad(outcome, code, reason);

    p = ngx_snprintf(outcome->buf, sizeof(outcome->buf), "{\"status\":%ui}",
                     status);

    outcome->details.data = outcome->buf;
    outcome->details.len = p - outcome->buf;
}


void
ngx_http_agentstream_outcome_unread(ngx_http_agentstream_outcome_t *outcome,
    ngx_int_t rc)
{
    ngx_uint_t   code;
    const char  *reason;

    code = NGX_HTTP_INTERNAL_SERVER_ERROR;
    reason = NULL;

    if (rc != NGX_ERROR) {
        reason = ngx_http_agentstream_opencode_failure(NGX_HTTP_OK, 1, &code);
    }

    ngx_http_agentstream_outcome_bad(outcome, code, reason);
}
