
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Calls to a chat platform, through the internal location that leads to it.
 * Their addresses are not logged: they may contain a token.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_worker.h"


/* how long a platform may take to answer, and how much it may answer */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_TIMEOUT  75000
#define NGX_HTTP_AGENTSTREAM_DELIVERY_ANSWER   262144


static void ngx_http_agentstream_delivery_told(void *data,
    ngx_http_agentstream_call_t *call);


ngx_http_agentstream_call_t *
ngx_http_agentstream_delivery_spell(ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_action_t *action, ngx_int_t *rc)
{
    ngx_http_agentstream_call_t       *call;
    ngx_http_agentstream_chat_call_t   spelt;

    *rc = NGX_ERROR;

    call = ngx_http_agentstream_call_create_at(conf->server,
                                               &conf->chat->prefix);
    if (call == NULL) {
        return NULL;
    }

    ngx_memzero(&spelt, sizeof(ngx_http_agentstream_chat_call_t));

    *rc = conf->chat->platform->spell(call->pool, action, &spelt);

    if (*rc != NGX_OK) {
        ngx_http_agentstream_call_destroy(call);
        return NULL;
    }

    call->address.method = (spelt.method.data[0] == 'P') ? NGX_HTTP_POST
                                                         : NGX_HTTP_GET;
    call->address.uri = spelt.path;
    call->address.args = spelt.args;
    call->content = spelt.body;

    call->secret = 1;
    call->subscription = 1;
    call->limit = NGX_HTTP_AGENTSTREAM_DELIVERY_ANSWER;
    call->timeout = NGX_HTTP_AGENTSTREAM_DELIVERY_TIMEOUT;

    return call;
}


ngx_int_t
ngx_http_agentstream_delivery_answered(ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_call_t *call, ngx_uint_t kind,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_chat_reply_t  reply;

    ngx_memzero(&reply, sizeof(ngx_http_agentstream_chat_reply_t));
    ngx_memzero(answer, sizeof(ngx_http_agentstream_chat_answer_t));

    reply.status = call->answered ? call->status : 0;
    reply.retry_after = call->retry_after;
    reply.body = call->body;
    reply.unsent = call->unsent;
    reply.complete = call->complete;

    rc = conf->chat->platform->read(call->pool, kind, &reply, answer);

    if (rc != NGX_OK) {
        answer->result = call->unsent ? NGX_HTTP_AGENTSTREAM_CHAT_LATER
                                      : NGX_HTTP_AGENTSTREAM_CHAT_LOST;
        return rc;
    }

    if (call->status == NGX_HTTP_TOO_MANY_REQUESTS) {
        ngx_http_agentstream_count(CHAT_LIMITED, 1);

    } else if (answer->result != NGX_HTTP_AGENTSTREAM_CHAT_DONE) {
        ngx_http_agentstream_count(CHAT_FAILED, 1);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_delivery_call(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t what, ngx_http_agentstream_chat_action_t *action)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_delivery_spell(d->site.conf, action, &rc);

    if (call == NULL) {
        return rc;
    }

    call->done_handler = ngx_http_agentstream_delivery_told;
    call->data = d;

    d->call = call;
    d->what = what;
    d->kind = action->kind;

    ngx_http_agentstream_call_open(call);

    return NGX_OK;
}


static void
ngx_http_agentstream_delivery_told(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_delivery_t *d = data;

    ngx_http_agentstream_chat_answer_t  answer;

    d->call = NULL;

    (void) ngx_http_agentstream_delivery_answered(d->site.conf, call, d->kind,
                                                  &answer);

    ngx_http_agentstream_delivery_settle(d, &answer);
    ngx_http_agentstream_delivery_kick(d);
}


void
ngx_http_agentstream_delivery_tell(ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_action_t *action)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_delivery_spell(conf, action, &rc);

    if (call) {
        call->kind = NGX_HTTP_AGENTSTREAM_CALL_BACKGROUND;
        call->done_handler = ngx_http_agentstream_delivery_ignore;
        call->data = conf;

        ngx_http_agentstream_call_open(call);
    }
}


void
ngx_http_agentstream_delivery_ignore(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_chat_answer_t  answer;

    (void) ngx_http_agentstream_delivery_answered(data, call,
                                              NGX_HTTP_AGENTSTREAM_CHAT_SEND,
                                              &answer);
}
