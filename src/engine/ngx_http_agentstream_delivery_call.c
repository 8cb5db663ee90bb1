
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


static ngx_uint_t ngx_http_agentstream_delivery_rate(
    ngx_http_agentstream_store_chat_rate_t *rate, u_char *last,
    const ngx_http_agentstream_chat_rate_t *limit, ngx_uint_t spare,
    ngx_uint_t shared);
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


ngx_msec_t
ngx_http_agentstream_delivery_spend(ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_chat_place_t *place, ngx_uint_t group,
    ngx_uint_t kind, ngx_http_agentstream_store_chat_spend_e how)
{
    u_char                                       keys[
                                  NGX_HTTP_AGENTSTREAM_CHAT_RATES]
                                 [NGX_HTTP_AGENTSTREAM_DELIVERY_KEY_MAX];
    size_t                                       len;
    ngx_uint_t                                   n, edit, spare;
    const ngx_http_agentstream_chat_platform_t  *platform;
    ngx_http_agentstream_store_chat_rate_t       rates[
                                  NGX_HTTP_AGENTSTREAM_CHAT_RATES];

    n = 0;
    len = NGX_HTTP_AGENTSTREAM_DELIVERY_KEY_MAX;
    platform = conf->chat->platform;

    edit = (kind == NGX_HTTP_AGENTSTREAM_CHAT_EDIT
            || kind == NGX_HTTP_AGENTSTREAM_CHAT_SETTLE
            || kind == NGX_HTTP_AGENTSTREAM_CHAT_DELETE);

    /* answers come first, then what is new, then what has only changed */

    spare = (how != NGX_HTTP_AGENTSTREAM_SPEND_NOW) ? 0 : edit ? 2 : 4;

    rates[0].key.data = keys[0];
    rates[1].key.data = keys[1];

    if (edit && platform->edits.interval) {
        n += ngx_http_agentstream_delivery_rate(&rates[n],
                   ngx_snprintf(keys[n], len, "edits %V %V %V",
                                &conf->server_name, &conf->chat->prefix,
                                &place->account),
                   &platform->edits, spare, 1);

    } else {
        n += ngx_http_agentstream_delivery_rate(&rates[n],
                   ngx_snprintf(keys[n], len, "all %V %V", &conf->server_name,
                                &conf->chat->prefix),
                   &platform->all, spare, 1);

        n += ngx_http_agentstream_delivery_rate(&rates[n],
                   ngx_snprintf(keys[n], len, "chat %V %V %V %V",
                                &conf->server_name, &conf->chat->prefix,
                                &place->account, &place->chat),
                   group ? &platform->group : &platform->chat, spare, 0);
    }

    return ngx_http_agentstream_store_chat_spend(
                                         ngx_http_agentstream_worker->zone,
                                         rates, n, how);
}


/* 0: there is no such limit; spare: the part of it that is left, 0: none;
   shared: it is that of the bot, on all machines */

static ngx_uint_t
ngx_http_agentstream_delivery_rate(
    ngx_http_agentstream_store_chat_rate_t *rate, u_char *last,
    const ngx_http_agentstream_chat_rate_t *limit, ngx_uint_t spare,
    ngx_uint_t shared)
{
    if (limit->interval == 0) {
        return 0;
    }

    rate->key.len = last - rate->key.data;
    rate->interval = limit->interval;
    rate->burst = limit->burst;
    rate->spare = spare ? limit->burst / spare : 0;
    rate->shared = shared;

    return 1;
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
