
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The version of the OpenCode server.  A session tells, at no cost, which
 * version has made it.  Only if that one is not supported, the server is asked
 * for its own version, because it may have been upgraded since; a server that
 * is too old is reported once for each worker.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* how often servers are asked at most, in seconds: a new server may have many
   sessions of an old one */
#define NGX_HTTP_AGENTSTREAM_TURN_SERVER  60


static void ngx_http_agentstream_turn_server_done(void *data,
    ngx_http_agentstream_call_t *call);


void
ngx_http_agentstream_turn_server(ngx_http_agentstream_turn_t *turn,
    ngx_str_t *answer)
{
    ngx_str_t                       version;
    ngx_http_agentstream_call_t    *call;
    ngx_http_agentstream_worker_t  *worker;

    worker = ngx_http_agentstream_worker;

    if (ngx_time() < worker->server_asked + NGX_HTTP_AGENTSTREAM_TURN_SERVER
        || worker->outdated
        || !ngx_http_agentstream_opencode_outdated(answer, &version))
    {
        return;
    }

    call = ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                            NGX_HTTP_AGENTSTREAM_GET_HEALTH,
                                            NULL, NULL, NULL);
    if (call == NULL) {
        /* the next turn will try again */
        return;
    }

    worker->server_asked = ngx_time();

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_BACKGROUND;
    call->done_handler = ngx_http_agentstream_turn_server_done;

    ngx_http_agentstream_call_open(call);
}


/* the turn may be over by now, so only the call is known */

static void
ngx_http_agentstream_turn_server_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_str_t  id;

    if (call->status != NGX_HTTP_OK || ngx_http_agentstream_worker->outdated
        || !ngx_http_agentstream_opencode_outdated(&call->body, &id))
    {
        return;
    }

    ngx_http_agentstream_worker->outdated = 1;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "agentstream turn: OpenCode %V is not supported", &id);
}
