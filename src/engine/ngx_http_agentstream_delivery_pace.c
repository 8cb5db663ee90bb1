
/*
 * Copyright (C) agentstream contributors
 */


/*
 * When something may be sent: what the platform counts is shared by all chats
 * of a bot, and by all workers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_worker.h"


/* what is nice to have is left out if others are to be sent for so long before
   it */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_CROWD     10000

/* the progress tries again within this time: a first one sooner, an edit
   later */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_SOON      250
#define NGX_HTTP_AGENTSTREAM_DELIVERY_LATER     1000

/* a place to send that was not used for so long is given up */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_STALE     1000


static ngx_uint_t ngx_http_agentstream_delivery_rate(
    ngx_http_agentstream_store_chat_rate_t *rate, u_char *last,
    const ngx_http_agentstream_chat_rate_t *limit, ngx_uint_t spare,
    ngx_uint_t shared);


ngx_uint_t
ngx_http_agentstream_delivery_due(ngx_msec_t at, ngx_msec_t *wait)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (at - ngx_current_msec);

    if (at == 0 || left <= 0) {
        return 1;
    }

    *wait = ngx_min(*wait, (ngx_msec_t) left);

    return 0;
}


ngx_uint_t
ngx_http_agentstream_delivery_may(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t kind, ngx_msec_t *wait)
{
    if (!ngx_http_agentstream_delivery_due(d->state.next, wait)) {
        return 0;
    }

    if (d->reserved != kind + 1
        || (ngx_msec_int_t) (ngx_current_msec - d->slot)
           > NGX_HTTP_AGENTSTREAM_DELIVERY_STALE)
    {
        d->slot = ngx_current_msec
                  + ngx_http_agentstream_delivery_spend(d->site.conf, &d->place,
                                  d->state.group, kind,
                                  NGX_HTTP_AGENTSTREAM_SPEND_ORDERED);
        d->reserved = kind + 1;
    }

    if (!ngx_http_agentstream_delivery_due(d->slot, wait)) {
        return 0;
    }

    d->reserved = 0;

    return 1;
}


ngx_uint_t
ngx_http_agentstream_delivery_might(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t kind, ngx_msec_t *wait)
{
    ngx_msec_t  left;

    if (!ngx_http_agentstream_delivery_due(d->state.next, wait)) {
        return 0;
    }

    left = ngx_http_agentstream_delivery_spend(d->site.conf, &d->place,
                                  d->state.group, kind,
                                  NGX_HTTP_AGENTSTREAM_SPEND_NOW);
    if (left == 0) {
        return 1;
    }

    left += ngx_random() % ((kind == NGX_HTTP_AGENTSTREAM_CHAT_CREATE)
                            ? NGX_HTTP_AGENTSTREAM_DELIVERY_SOON
                            : NGX_HTTP_AGENTSTREAM_DELIVERY_LATER);

    *wait = ngx_min(*wait, left);

    return 0;
}


ngx_uint_t
ngx_http_agentstream_delivery_crowded(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t kind)
{
    return d->reserved != kind + 1
           && ngx_http_agentstream_delivery_spend(d->site.conf, &d->place,
                                  d->state.group, kind,
                                  NGX_HTTP_AGENTSTREAM_SPEND_NOTHING)
              > NGX_HTTP_AGENTSTREAM_DELIVERY_CROWD;
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
