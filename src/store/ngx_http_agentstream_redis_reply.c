
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What replies of Redis say, and which of them are too large.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_redis_int.h"

#if (NGX_HTTP_AGENTSTREAM_HIREDIS)
#include <hiredis/hiredis.h>
#endif


#if (NGX_HTTP_AGENTSTREAM_HIREDIS)

/* the most elements of an array, and of one within another, which are far more
   than Redis is ever asked for */
#define NGX_HTTP_AGENTSTREAM_REDIS_ELEMENTS  1048576
#define NGX_HTTP_AGENTSTREAM_REDIS_INNER     4096


#if (HIREDIS_MAJOR > 0)
typedef size_t  ngx_http_agentstream_redis_size_t;
#else
typedef int     ngx_http_agentstream_redis_size_t;
#endif


static void *ngx_http_agentstream_redis_array(const redisReadTask *task,
    ngx_http_agentstream_redis_size_t elements);


struct redisReader *
ngx_http_agentstream_redis_reader(ngx_pool_t *pool)
{
    redisReader                *reader;
    redisReplyObjectFunctions  *fn;

    fn = ngx_palloc(pool, sizeof(redisReplyObjectFunctions));
    if (fn == NULL) {
        return NULL;
    }

    reader = redisReaderCreate();
    if (reader == NULL) {
        return NULL;
    }

    *fn = *reader->fn;
    fn->createArray = ngx_http_agentstream_redis_array;

    reader->privdata = reader->fn;
    reader->fn = fn;

    return reader;
}


/* hiredis allocates an array when its length has arrived, so a line of nonsense
   could take all memory, and without memory hiredis may end the process */

static void *
ngx_http_agentstream_redis_array(const redisReadTask *task,
    ngx_http_agentstream_redis_size_t elements)
{
    redisReplyObjectFunctions *fn = task->privdata;

    if (elements > (task->parent ? NGX_HTTP_AGENTSTREAM_REDIS_INNER
                                 : NGX_HTTP_AGENTSTREAM_REDIS_ELEMENTS))
    {
        return NULL;
    }

    return fn->createArray(task, elements);
}


ngx_str_t
ngx_http_agentstream_redis_text(redisReply *reply)
{
    ngx_str_t  text;

    ngx_str_set(&text, "");

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
