
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The request for the state of a session's turn.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_request_int.h"


static void ngx_http_agentstream_request_no_turn(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static u_char *ngx_http_agentstream_request_asks(u_char *p,
    ngx_http_agentstream_store_state_t *state, ngx_uint_t permission);


ngx_int_t
ngx_http_agentstream_request_turn(ngx_http_agentstream_request_t *req)
{
    size_t                               size;
    u_char                              *p;
    ngx_int_t                            rc;
    ngx_str_t                            body;
    ngx_uint_t                           i;
    ngx_pool_t                          *pool;
    ngx_http_agentstream_verb_t         *verb;
    ngx_http_agentstream_store_state_t   state;

    pool = req->request->pool;

    rc = ngx_http_agentstream_verb_turn(&req->target, pool, &state);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DECLINED) {
        /* only OpenCode knows whether there is such a session */

        verb = ngx_http_agentstream_verb_get_session(&req->target,
                                         ngx_http_agentstream_request_no_turn,
                                         req);

        return ngx_http_agentstream_request_wait(req, verb);
    }

    size = 256;

    for (i = 0; i < state.nasks; i++) {
        size += state.asks[i].id.len + sizeof("\"\",") - 1;
    }

    p = ngx_pnalloc(pool, size);
    if (p == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    body.data = p;

    p = ngx_sprintf(p, "{\"turnId\":\"%V\",\"running\":%s,\"stopReason\":",
                    &state.id, state.running ? "true" : "false");

    p = state.stop_reason.len ? ngx_sprintf(p, "\"%V\"", &state.stop_reason)
                              : ngx_sprintf(p, "null");

    p = ngx_sprintf(p, ",\"packets\":%uL,\"questions\":[", state.packets);
    p = ngx_http_agentstream_request_asks(p, &state, 0);
    p = ngx_sprintf(p, "],\"permissions\":[");
    p = ngx_http_agentstream_request_asks(p, &state, 1);
    p = ngx_sprintf(p, "]}");

    body.len = p - body.data;

    return ngx_http_agentstream_request_reply(req, NGX_HTTP_OK, &body);
}


static void
ngx_http_agentstream_request_no_turn(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_t *req = data;

    static ngx_str_t  none = ngx_string("{\"turnId\":null,\"running\":false,"
                                        "\"stopReason\":null,\"packets\":0,"
                                        "\"questions\":[],"
                                        "\"permissions\":[]}");

    if (outcome->code == NGX_HTTP_OK) {
        outcome->body = none;
    }

    ngx_http_agentstream_request_told(req, outcome);
}


static u_char *
ngx_http_agentstream_request_asks(u_char *p,
    ngx_http_agentstream_store_state_t *state, ngx_uint_t permission)
{
    ngx_uint_t  i, n;

    n = 0;

    for (i = 0; i < state->nasks; i++) {
        if (state->asks[i].permission == permission) {
            p = ngx_sprintf(p, "%s\"%V\"", n++ ? "," : "",
                            &state->asks[i].id);
        }
    }

    return p;
}
