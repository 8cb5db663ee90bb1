
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Sessions in which nothing happens.  OpenCode's answer to which sessions are
 * busy lists all of them, so with many turns it is long, and each turn would
 * ask for it.  But once it is known, events report every session that begins
 * to work.  A session is remembered as a bit for its hash; two that share one
 * only cause a question more.  A bit stays until OpenCode is asked again.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_hub_int.h"


/* ms; OpenCode is never silent for longer than 10 s, so that a stream which is
   may be dead */
#define NGX_HTTP_AGENTSTREAM_HUB_FRESH  11000


static void ngx_http_agentstream_hub_busy(void *ctx, ngx_str_t *session);


ngx_uint_t
ngx_http_agentstream_hub_quiet(ngx_http_agentstream_sub_t *sub,
    ngx_str_t *session)
{
    uint32_t                     hash;
    ngx_http_agentstream_hub_t  *hub;

    hub = sub->hub;

    if (hub == NULL || !hub->asked
        || ngx_current_msec - hub->heard > NGX_HTTP_AGENTSTREAM_HUB_FRESH)
    {
        return 0;
    }

    hash = ngx_murmur_hash2(session->data, session->len);

    return !(hub->seen[(hash % NGX_HTTP_AGENTSTREAM_HUB_SEEN) / 32]
             & (uint32_t) 1 << (hash % 32));
}


/* events are noted from the question on, because the answer may be older than
   they are */

void
ngx_http_agentstream_hub_asks(ngx_http_agentstream_sub_t *sub)
{
    ngx_http_agentstream_hub_t  *hub;

    hub = sub->hub;

    if (hub == NULL || !hub->open || hub->asking) {
        return;
    }

    hub->asking = sub;
    hub->asked = 0;
    ngx_memzero(hub->seen, NGX_HTTP_AGENTSTREAM_HUB_SEEN / 8);
}


void
ngx_http_agentstream_hub_answered(ngx_http_agentstream_sub_t *sub,
    ngx_str_t *answer)
{
    ngx_http_agentstream_hub_t  *hub;

    hub = sub->hub;

    if (hub == NULL || hub->asking != sub) {
        return;
    }

    hub->asking = NULL;

    hub->asked = (answer
                  && ngx_http_agentstream_opencode_all_busy(answer,
                                            ngx_http_agentstream_hub_busy, hub)
                     == NGX_OK);
}


static void
ngx_http_agentstream_hub_busy(void *ctx, ngx_str_t *session)
{
    uint32_t                     hash;
    ngx_http_agentstream_hub_t  *hub = ctx;

    hash = ngx_murmur_hash2(session->data, session->len);

    ngx_http_agentstream_hub_see(hub, hash);
}


void
ngx_http_agentstream_hub_doubt(ngx_http_agentstream_hub_t *hub)
{
    hub->asking = NULL;
    hub->asked = 0;
}
