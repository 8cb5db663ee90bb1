
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Interrupts.  A turn that the zone knows is aborted by its owner, see
 * turn_interrupt().  A turn that OpenCode works on but the zone does not know
 * has no owner, and is aborted here.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn.h"
#include "ngx_http_agentstream_verb_int.h"


static void ngx_http_agentstream_verb_interrupt_found(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_verb_hold(
    ngx_http_agentstream_verb_t *verb);


ngx_http_agentstream_verb_t *
ngx_http_agentstream_verb_interrupt(ngx_http_agentstream_target_t *target,
    ngx_http_agentstream_outcome_pt handler, void *data)
{
    ngx_http_agentstream_verb_t     *verb;
    ngx_http_agentstream_outcome_t   outcome;

    if (ngx_http_agentstream_turn_interrupt(target) == NGX_OK) {
        ngx_http_agentstream_outcome_good(&outcome, NGX_HTTP_OK, NULL);
        handler(data, &outcome);
        return NULL;
    }

    verb = ngx_http_agentstream_verb_create(target, NGX_HTTP_AGENTSTREAM_ABORT,
                                            NULL, handler, data);
    if (verb == NULL) {
        return NULL;
    }

    return ngx_http_agentstream_verb_look(verb,
                                   NGX_HTTP_AGENTSTREAM_GET_STATUS,
                                   ngx_http_agentstream_verb_interrupt_found);
}


static void
ngx_http_agentstream_verb_interrupt_found(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_verb_t *verb = data;

    ngx_int_t  rc;

    if (ngx_http_agentstream_verb_answered(verb, call) != NGX_OK) {
        return;
    }

    rc = ngx_http_agentstream_opencode_busy(&call->body,
                                            &verb->target.session);

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_verb_unread(verb, NGX_DECLINED);
        return;
    }

    if (rc == NGX_OK && ngx_http_agentstream_verb_hold(verb) == NGX_OK) {
        (void) ngx_http_agentstream_verb_call(verb);
        return;
    }

    /* if a turn began in the meantime, its owner must abort it */

    rc = ngx_http_agentstream_turn_interrupt(&verb->target);

    ngx_http_agentstream_verb_succeed(verb, (rc == NGX_OK)
                                            ? NGX_HTTP_OK
                                            : NGX_HTTP_NO_CONTENT, NULL);
}


/*
 * The abort must not hit a turn that begins while the abort is on its way, so
 * no turn may begin until it is answered.  NGX_BUSY: a turn is already
 * running.
 */

static ngx_int_t
ngx_http_agentstream_verb_hold(ngx_http_agentstream_verb_t *verb)
{
    ngx_int_t  rc;

    rc = ngx_http_agentstream_store_hold(ngx_http_agentstream_worker->zone,
                                         &verb->target.key, &verb->ticket);

    /* a full zone has no room for a new turn either, so none can begin */

    return (rc == NGX_ERROR) ? NGX_OK : rc;
}
