
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What replies of Redis say.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_redis_int.h"

#if (NGX_HTTP_AGENTSTREAM_HIREDIS)
#include <hiredis/hiredis.h>
#endif


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

ngx_str_t
ngx_http_agentstream_redis_text(redisReply *reply)
{
    ngx_str_t  text;

    ngx_str_null(&text);

    if (reply && (reply->type == REDIS_REPLY_STRING
                  || reply->type == REDIS_REPLY_STATUS))
    {
        text.data = (u_char *) reply->str;
        text.len = reply->len;
    }

    return text;
}


redisReply *
ngx_http_agentstream_redis_element(redisReply *reply, ngx_uint_t i)
{
    return i < ngx_http_agentstream_redis_count(reply) ? reply->element[i]
                                                       : NULL;
}


ngx_str_t
ngx_http_agentstream_redis_item(redisReply *reply, ngx_uint_t i)
{
    return ngx_http_agentstream_redis_text(
                               ngx_http_agentstream_redis_element(reply, i));
}


ngx_uint_t
ngx_http_agentstream_redis_count(redisReply *reply)
{
    return (reply && reply->type == REDIS_REPLY_ARRAY) ? reply->elements : 0;
}


int64_t
ngx_http_agentstream_redis_value(redisReply *reply)
{
    return (reply && reply->type == REDIS_REPLY_INTEGER) ? reply->integer : -1;
}


int64_t
ngx_http_agentstream_redis_integer(redisReply *reply, ngx_uint_t i)
{
    return ngx_http_agentstream_redis_value(
                               ngx_http_agentstream_redis_element(reply, i));
}


const char *
ngx_http_agentstream_redis_why(redisReply *reply)
{
    return ngx_http_agentstream_redis_error(reply, NULL)
           ? reply->str : "answers something unexpected";
}


ngx_uint_t
ngx_http_agentstream_redis_error(redisReply *reply, const char *word)
{
    return reply && reply->type == REDIS_REPLY_ERROR
           && (word == NULL
               || ngx_strncmp(reply->str, word, ngx_strlen(word)) == 0);
}

#endif


uint64_t
ngx_http_agentstream_redis_number(ngx_str_t *text)
{
    uint64_t    n;
    ngx_uint_t  i;

    n = 0;

    if (text->len > 18) {
        return 0;
    }

    for (i = 0; i < text->len; i++) {

        if (text->data[i] < '0' || text->data[i] > '9') {
            return 0;
        }

        n = n * 10 + (text->data[i] - '0');
    }

    return n;
}
