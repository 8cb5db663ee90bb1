
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Prompts that were not sent from here.  A user in a terminal, or the workers
 * of an nginx that was replaced, may have prompted the session.  OpenCode
 * would answer their prompt and ours together, so it is asked first if neither
 * the zone nor the event stream knows the state of the session.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* how often OpenCode is asked again; an event also reports that the session is
   idle */
#define NGX_HTTP_AGENTSTREAM_TURN_PROBE  1000


static void ngx_http_agentstream_turn_probe_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_turn_wait(ngx_http_agentstream_turn_t *turn);
static ngx_uint_t ngx_http_agentstream_turn_left(
    ngx_http_agentstream_turn_t *turn);
static void ngx_http_agentstream_turn_refuse(
    ngx_http_agentstream_turn_t *turn);


void
ngx_http_agentstream_turn_probe(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_call_t  *call;

    if (turn->call) {
        return;
    }

    call = ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                            NGX_HTTP_AGENTSTREAM_GET_STATUS,
                                            NULL, NULL, &turn->directory);
    if (call == NULL) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                       "Out of memory", NULL);
        return;
    }

    /* a client, the sender, waits for it */
    call->kind = NGX_HTTP_AGENTSTREAM_CALL_CLIENT;

    call->done_handler = ngx_http_agentstream_turn_probe_done;
    call->data = turn;

    turn->call = call;
    turn->poll_at = 0;

    ngx_http_agentstream_hub_asks(&turn->sub);
    ngx_http_agentstream_call_open(call);
}


static void
ngx_http_agentstream_turn_probe_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_turn_t *turn = data;

    ngx_int_t  rc;

    turn->call = NULL;

    ngx_http_agentstream_hub_answered(&turn->sub,
                                      (call->status == NGX_HTTP_OK)
                                      ? &call->body : NULL);

    if (call->status != NGX_HTTP_OK) {
        ngx_http_agentstream_turn_again(turn, call->status);
        return;
    }

    rc = ngx_http_agentstream_opencode_busy(&call->body, &turn->session);

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_turn_again(turn, NGX_HTTP_BAD_GATEWAY);
        return;
    }

    turn->tries = 0;

    if (rc == NGX_OK) {
        ngx_http_agentstream_turn_wait(turn);
        return;
    }

    if (turn->stream == ngx_http_agentstream_turn_stream_away) {
        /* no event of the turn may be missed, so wait until the stream is open
           again */
        turn->poll_at = ngx_current_msec + NGX_HTTP_AGENTSTREAM_TURN_PROBE;
        ngx_http_agentstream_turn_schedule(turn);
        return;
    }

    turn->others = ngx_http_agentstream_turn_others_none;

    ngx_http_agentstream_turn_prompt(turn);
}


/* the session is busy; the wait does not count towards the turn's time */

static void
ngx_http_agentstream_turn_wait(ngx_http_agentstream_turn_t *turn)
{
    if (turn->conf->busy != NGX_HTTP_AGENTSTREAM_BUSY_QUEUE
        || (turn->others == ngx_http_agentstream_turn_others_working
            && ngx_http_agentstream_turn_left(turn)))
    {
        ngx_http_agentstream_turn_refuse(turn);
        return;
    }

    turn->others = ngx_http_agentstream_turn_others_working;
    turn->started_at = ngx_current_msec;
    turn->heard_at = ngx_current_msec;
    turn->poll_at = ngx_current_msec + NGX_HTTP_AGENTSTREAM_TURN_PROBE;

    ngx_http_agentstream_turn_schedule(turn);
}


/* a sender that disconnects while it waits has not sent its prompt */

static ngx_uint_t
ngx_http_agentstream_turn_left(ngx_http_agentstream_turn_t *turn)
{
    return ngx_http_agentstream_store_senders(
                               ngx_http_agentstream_worker->zone, turn->node)
           == 0;
}


static void
ngx_http_agentstream_turn_refuse(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_store_refuse(ngx_http_agentstream_worker->zone,
                                      turn->node);

    ngx_http_agentstream_turn_fail(turn, NGX_HTTP_CONFLICT,
                                   "OpenCode works on another prompt in this "
                                   "session", NULL);
}
