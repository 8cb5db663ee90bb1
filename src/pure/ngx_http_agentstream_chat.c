
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The list of platforms, and what they have in common: pictures, and what a
 * reply means before its body is looked at.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"


#if (NGX_HTTP_AGENTSTREAM_CHATS)
static ngx_uint_t ngx_http_agentstream_chat_status(
    ngx_http_agentstream_chat_reply_t *reply, time_t *wait);
#endif


static const ngx_http_agentstream_chat_platform_t
    *ngx_http_agentstream_chat_platforms[] =
{
#if (NGX_HTTP_AGENTSTREAM_CHATS)
    &ngx_http_agentstream_chat_telegram,
    &ngx_http_agentstream_chat_slack,
    &ngx_http_agentstream_chat_whatsapp,
#endif
    NULL
};


const ngx_http_agentstream_chat_platform_t *
ngx_http_agentstream_chat_find(ngx_str_t *name)
{
    ngx_uint_t                                   i;
    const ngx_http_agentstream_chat_platform_t  *platform;

    for (i = 0; ngx_http_agentstream_chat_platforms[i]; i++) {
        platform = ngx_http_agentstream_chat_platforms[i];

        if (name->len == platform->name.len
            && ngx_strncmp(name->data, platform->name.data, name->len) == 0)
        {
            return platform;
        }
    }

    return NULL;
}


ngx_str_t
ngx_http_agentstream_chat_picture_type(ngx_str_t *bytes)
{
    u_char     *p;
    ngx_str_t   type;

    ngx_str_null(&type);

    p = bytes->data;

    if (bytes->len < 12) {
        return type;
    }

    if (ngx_memcmp(p, "\xff\xd8\xff", 3) == 0) {
        ngx_str_set(&type, "image/jpeg");

    } else if (ngx_memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0) {
        ngx_str_set(&type, "image/png");

    } else if (ngx_memcmp(p, "GIF87a", 6) == 0
               || ngx_memcmp(p, "GIF89a", 6) == 0)
    {
        ngx_str_set(&type, "image/gif");

    } else if (ngx_memcmp(p, "RIFF", 4) == 0
               && ngx_memcmp(p + 8, "WEBP", 4) == 0)
    {
        ngx_str_set(&type, "image/webp");
    }

    return type;
}


#if (NGX_HTTP_AGENTSTREAM_CHATS)

ngx_uint_t
ngx_http_agentstream_chat_picture(ngx_str_t *mime)
{
    ngx_uint_t  i;

    static const ngx_str_t  types[] = {
        ngx_string("image/jpeg"),
        ngx_string("image/png"),
        ngx_string("image/gif"),
        ngx_string("image/webp")
    };

    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (mime->len == types[i].len
            && ngx_strncasecmp(mime->data, types[i].data, mime->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* what a reply means without a look at its body, and how long to wait; DONE: it
   is for the body to say */

static ngx_uint_t
ngx_http_agentstream_chat_status(ngx_http_agentstream_chat_reply_t *reply,
    time_t *wait)
{
    *wait = ngx_atotm(reply->retry_after.data, reply->retry_after.len);

    if (*wait == NGX_ERROR || reply->retry_after.len == 0) {
        *wait = 0;
    }

    *wait = ngx_min(*wait, NGX_HTTP_AGENTSTREAM_CHAT_WAIT_MAX);

    if (reply->unsent) {
        return NGX_HTTP_AGENTSTREAM_CHAT_LATER;
    }

    switch (reply->status) {

    case 429:
    case 503:
        return NGX_HTTP_AGENTSTREAM_CHAT_LATER;

    case 0:

    /* nginx's own, if it had no answer, or only a part of one */

    case 502:
    case 504:
        return NGX_HTTP_AGENTSTREAM_CHAT_LOST;
    }

    return reply->complete ? NGX_HTTP_AGENTSTREAM_CHAT_DONE
                           : NGX_HTTP_AGENTSTREAM_CHAT_LOST;
}


ngx_int_t
ngx_http_agentstream_chat_answered(ngx_http_agentstream_chat_input_t *in,
    ngx_pool_t *pool, ngx_http_agentstream_chat_reply_t *reply,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_int_t  rc;

    ngx_memzero(answer, sizeof(ngx_http_agentstream_chat_answer_t));

    answer->size = -1;
    answer->result = ngx_http_agentstream_chat_status(reply, &answer->wait);

    rc = NGX_DECLINED;

    if (!reply->unsent && reply->body.len) {
        rc = ngx_http_agentstream_chat_input(in, pool, &reply->body);
    }

    if (rc == NGX_DECLINED
        && answer->result == NGX_HTTP_AGENTSTREAM_CHAT_DONE)
    {
        /* this was not written by the platform */

        answer->result = NGX_HTTP_AGENTSTREAM_CHAT_LOST;
    }

    return rc;
}


ngx_uint_t
ngx_http_agentstream_chat_error(
    const ngx_http_agentstream_chat_error_t *table, ngx_str_t *reason)
{
    for ( /* void */ ; table->text; table++) {
        if (reason->len
            && ngx_strlcasestrn(reason->data, reason->data + reason->len,
                                (u_char *) table->text,
                                ngx_strlen(table->text) - 1))
        {
            break;
        }
    }

    return table->result;
}

#endif
