
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Cuts an array that is too long to be held in memory into its elements while
 * it arrives.  It only looks at quotes and brackets; whether an element is
 * valid is found out when the element is parsed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"


typedef enum {
    split_start = 0,
    split_first,             /* after "[" */
    split_next,              /* after "," */
    split_element,
    split_string,
    split_escape,
    split_done
} ngx_http_agentstream_json_split_e;


static ngx_int_t ngx_http_agentstream_json_split_char(
    ngx_http_agentstream_json_split_t *split, u_char ch);
static ngx_int_t ngx_http_agentstream_json_split_keep(
    ngx_http_agentstream_json_split_t *split, u_char *data, size_t len);
static ngx_int_t ngx_http_agentstream_json_split_end(
    ngx_http_agentstream_json_split_t *split, u_char *start, u_char *end);


ngx_int_t
ngx_http_agentstream_json_split_feed(ngx_http_agentstream_json_split_t *split,
    u_char *data, size_t len)
{
    u_char      *p, *last, *start;
    ngx_int_t    rc;
    ngx_uint_t   state;

    last = data + len;
    start = data;

    for (p = data; p < last; p++) {

        state = split->state;

        if (state == split_string) {
            while (p < last && *p != '"' && *p != '\\') {
                p++;
            }

            if (p == last) {
                break;
            }
        }

        rc = ngx_http_agentstream_json_split_char(split, *p);

        if (rc == NGX_DECLINED) {
            return NGX_DECLINED;
        }

        if (state <= split_next && split->state > split_next) {
            start = p;
        }

        if (rc == NGX_DONE) {
            rc = ngx_http_agentstream_json_split_end(split, start, p);

            if (rc != NGX_OK) {
                split->consumed = p + 1 - data;
                return rc;
            }
        }
    }

    if (split->state <= split_next || split->state == split_done) {
        return NGX_OK;
    }

    return ngx_http_agentstream_json_split_keep(split, start, last - start);
}


/* NGX_DONE: an element ends before this character */

static ngx_int_t
ngx_http_agentstream_json_split_char(ngx_http_agentstream_json_split_t *split,
    u_char ch)
{
    switch (split->state) {

    case split_string:
        split->state = (ch == '\\') ? split_escape
                       : (ch == '"') ? split_element : split_string;
        return NGX_OK;

    case split_escape:
        split->state = split_string;
        return NGX_OK;

    case split_element:
        break;

    default:
        if (ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n') {
            return NGX_OK;
        }

        if (split->state == split_start && ch == '[') {
            split->state = split_first;
            return NGX_OK;
        }

        if (split->state == split_first && ch == ']') {
            split->state = split_done;
            return NGX_OK;
        }

        if (split->state == split_start || split->state == split_done
            || ch == ',' || ch == ']')
        {
            return NGX_DECLINED;
        }

        split->state = split_element;
        split->depth = 0;
    }

    switch (ch) {

    case '"':
        split->state = split_string;
        break;

    case '{':
    case '[':
        split->depth++;
        break;

    case '}':
    case ']':
        if (split->depth) {
            split->depth--;

        } else if (ch == ']') {
            split->state = split_done;
            return NGX_DONE;

        } else {
            return NGX_DECLINED;
        }

        break;

    case ',':
        if (split->depth == 0) {
            split->state = split_next;
            return NGX_DONE;
        }

        break;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_json_split_keep(ngx_http_agentstream_json_split_t *split,
    u_char *data, size_t len)
{
    u_char  *p;
    size_t   size;

    if (split->limit && split->limit - split->len < len) {
        return NGX_DECLINED;
    }

    if (split->size - split->len < len) {
        size = ngx_max(split->size * 2, split->len + len);
        size = ngx_max(size, 4096);

        p = realloc(split->buf, size);
        if (p == NULL) {
            return NGX_ERROR;
        }

        split->buf = p;
        split->size = size;
    }

    if (len) {
        ngx_memcpy(split->buf + split->len, data, len);
        split->len += len;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_json_split_end(ngx_http_agentstream_json_split_t *split,
    u_char *start, u_char *end)
{
    ngx_int_t  rc;

    if (split->len == 0) {
        if (split->limit && (size_t) (end - start) > split->limit) {
            return NGX_DECLINED;
        }

        return split->handler(split->ctx, start, end - start);
    }

    rc = ngx_http_agentstream_json_split_keep(split, start, end - start);

    if (rc == NGX_OK) {
        rc = split->handler(split->ctx, split->buf, split->len);
    }

    /* large elements are rare, so their memory is not kept for the others */

    if (split->size > NGX_HTTP_AGENTSTREAM_JSON_SPLIT_KEEP) {
        ngx_http_agentstream_json_split_destroy(split);
    }

    split->len = 0;

    return rc;
}


ngx_uint_t
ngx_http_agentstream_json_split_complete(
    ngx_http_agentstream_json_split_t *split)
{
    return split->state == split_done;
}


void
ngx_http_agentstream_json_split_destroy(
    ngx_http_agentstream_json_split_t *split)
{
    free(split->buf);

    split->buf = NULL;
    split->len = 0;
    split->size = 0;
}
