
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Pictures as parts of a body.  Each one has its own pool, so that a picture
 * that turns out to be of no use can be freed at once.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_enclosed.h"


/* a multiple of four, so that each buffer ends with a whole group */
#define NGX_HTTP_AGENTSTREAM_ENCLOSED_BUFFER  65536


static ngx_int_t ngx_http_agentstream_enclosed_encode(
    ngx_http_agentstream_enclosed_t *enclosed, u_char *pos, size_t len);
static ngx_buf_t *ngx_http_agentstream_enclosed_room(
    ngx_http_agentstream_enclosed_t *enclosed);


ngx_http_agentstream_enclosed_t *
ngx_http_agentstream_enclosed_create(void)
{
    ngx_pool_t                       *pool;
    ngx_http_agentstream_enclosed_t  *enclosed;

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    enclosed = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_enclosed_t));

    if (enclosed == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    enclosed->pool = pool;
    enclosed->users = 1;

    return enclosed;
}


ngx_int_t
ngx_http_agentstream_enclosed_write(ngx_http_agentstream_enclosed_t *enclosed,
    u_char *pos, size_t len)
{
    size_t  n;

    while (len && (enclosed->nrest || len < 3)) {

        enclosed->rest[enclosed->nrest++] = *pos++;
        len--;

        if (enclosed->nrest == 3) {
            enclosed->nrest = 0;

            if (ngx_http_agentstream_enclosed_encode(enclosed, enclosed->rest,
                                                     3)
                != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    n = len - len % 3;

    if (ngx_http_agentstream_enclosed_encode(enclosed, pos, n) != NGX_OK) {
        return NGX_ERROR;
    }

    while (n < len) {
        enclosed->rest[enclosed->nrest++] = pos[n++];
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_enclosed_encode(ngx_http_agentstream_enclosed_t *enclosed,
    u_char *pos, size_t len)
{
    size_t      n;
    ngx_buf_t  *b;
    ngx_str_t   src, dst;

    while (len) {
        b = ngx_http_agentstream_enclosed_room(enclosed);
        if (b == NULL) {
            return NGX_ERROR;
        }

        n = ngx_min(len, (size_t) (b->end - b->last) / 4 * 3);

        src.data = pos;
        src.len = n;
        dst.data = b->last;

        ngx_encode_base64(&dst, &src);

        b->last += dst.len;
        enclosed->len += dst.len;

        pos += n;
        len -= n;
    }

    return NGX_OK;
}


/* the buffer at the end, which has room for four bytes at least */

static ngx_buf_t *
ngx_http_agentstream_enclosed_room(ngx_http_agentstream_enclosed_t *enclosed)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    if (enclosed->last && enclosed->last->buf->last < enclosed->last->buf->end)
    {
        return enclosed->last->buf;
    }

    cl = ngx_alloc_chain_link(enclosed->pool);
    b = ngx_create_temp_buf(enclosed->pool,
                            NGX_HTTP_AGENTSTREAM_ENCLOSED_BUFFER);

    if (cl == NULL || b == NULL) {
        return NULL;
    }

    cl->buf = b;
    cl->next = NULL;

    if (enclosed->last) {
        enclosed->last->next = cl;

    } else {
        enclosed->chain = cl;
    }

    enclosed->last = cl;

    return b;
}


ngx_int_t
ngx_http_agentstream_enclosed_end(ngx_http_agentstream_enclosed_t *enclosed,
    ngx_str_t *before, ngx_str_t *after)
{
    ngx_uint_t  n;

    n = enclosed->nrest;
    enclosed->nrest = 0;

    if (ngx_http_agentstream_enclosed_encode(enclosed, enclosed->rest, n)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    enclosed->before.len = before->len;
    enclosed->before.data = ngx_pstrdup(enclosed->pool, before);
    enclosed->after.len = after->len;
    enclosed->after.data = ngx_pstrdup(enclosed->pool, after);

    if (enclosed->before.data == NULL || enclosed->after.data == NULL) {
        return NGX_ERROR;
    }

    enclosed->len += before->len + after->len;

    return NGX_OK;
}


void
ngx_http_agentstream_enclosed_hold(ngx_http_agentstream_enclosed_t *enclosed)
{
    for ( /* void */ ; enclosed; enclosed = enclosed->next) {
        enclosed->users++;
    }
}


void
ngx_http_agentstream_enclosed_release(ngx_http_agentstream_enclosed_t *enclosed)
{
    ngx_http_agentstream_enclosed_t  *next;

    for ( /* void */ ; enclosed; enclosed = next) {
        next = enclosed->next;

        if (--enclosed->users == 0) {
            ngx_destroy_pool(enclosed->pool);
        }
    }
}


size_t
ngx_http_agentstream_enclosed_len(ngx_http_agentstream_enclosed_t *enclosed)
{
    size_t  len;

    len = 0;

    for ( /* void */ ; enclosed; enclosed = enclosed->next) {
        len += enclosed->len;
    }

    return len;
}
