
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Server-sent events (HTML standard, 9.2.6): a parser that is fed piece by
 * piece.  Pure: malloc() only, no pool, no log, no I/O.  Invariant: each input
 * byte is looked at a constant number of times, however the stream is cut.
 * Between two calls of sse_feed() the whole state is in the sse object; it is
 * also complete before each call of the handler, which may reset or free the
 * object.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_sse.h"


#define NGX_HTTP_AGENTSTREAM_SSE_MIN_SIZE   4096
#define NGX_HTTP_AGENTSTREAM_SSE_KEEP_SIZE  262144


/* what the next byte is part of; the order from sw_line to sw_colon matters */

typedef enum {
    sw_bom0 = 0,
    sw_bom1,
    sw_bom2,
    sw_after_cr,
    sw_line,
    sw_d,
    sw_da,
    sw_dat,
    sw_data,
    sw_colon,
    sw_value,
    sw_ignore
} ngx_http_agentstream_sse_state_e;


static u_char *ngx_http_agentstream_sse_find(u_char *p, u_char *last,
    u_char ch);
static u_char *ngx_http_agentstream_sse_lead(ngx_http_agentstream_sse_t *sse,
    u_char *p);
static u_char *ngx_http_agentstream_sse_name(ngx_http_agentstream_sse_t *sse,
    u_char *p, u_char *end, u_char *last);
static u_char *ngx_http_agentstream_sse_value(ngx_http_agentstream_sse_t *sse,
    u_char *p, u_char *end, ngx_str_t *held);
static ngx_int_t ngx_http_agentstream_sse_append(
    ngx_http_agentstream_sse_t *sse, u_char *data, size_t len);
static ngx_int_t ngx_http_agentstream_sse_dispatch(
    ngx_http_agentstream_sse_t *sse, ngx_str_t *held);


ngx_int_t
ngx_http_agentstream_sse_feed(ngx_http_agentstream_sse_t *sse, u_char *data,
    size_t len)
{
    u_char     *p, *cr, *lf, *end, *last;
    ngx_int_t   rc;
    ngx_str_t   held;

    if (len == 0) {
        return NGX_OK;
    }

    last = data + len;

    /* the event's only data line so far, if it is still in the input */
    ngx_str_null(&held);

    cr = ngx_http_agentstream_sse_find(data, last, CR);
    lf = ngx_http_agentstream_sse_find(data, last, LF);

    for (p = data; p < last; p = end + 1) {

        while (sse->state < sw_line && p < last) {
            p = ngx_http_agentstream_sse_lead(sse, p);
        }

        if (p == last) {
            break;
        }

        if (cr < p) {
            cr = ngx_http_agentstream_sse_find(p, last, CR);
        }

        if (lf < p) {
            lf = ngx_http_agentstream_sse_find(p, last, LF);
        }

        end = ngx_min(cr, lf);

        if (sse->state == sw_line && p == end) {

            /* treat an LF after a CR like one more empty line */

            rc = ngx_http_agentstream_sse_dispatch(sse, &held);
            if (rc != NGX_OK) {
                return rc;
            }

            continue;
        }

        if (sse->state < sw_value) {
            p = ngx_http_agentstream_sse_name(sse, p, end, last);

            if (sse->state == sw_value) {
                p = ngx_http_agentstream_sse_value(sse, p, end, &held);
                if (p == NULL) {
                    return NGX_ERROR;
                }
            }
        }

        if (sse->state == sw_value
            && ngx_http_agentstream_sse_append(sse, p, end - p) != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (end == last) {
            break;
        }

        sse->state = (*end == CR) ? sw_after_cr : sw_line;
    }

    if (held.data) {
        return ngx_http_agentstream_sse_append(sse, held.data, held.len);
    }

    return NGX_OK;
}


static u_char *
ngx_http_agentstream_sse_find(u_char *p, u_char *last, u_char ch)
{
    p = memchr(p, ch, last - p);

    return p ? p : last;
}


/* handles what may precede a line: a byte order mark at the very start, an LF
   after a CR */

static u_char *
ngx_http_agentstream_sse_lead(ngx_http_agentstream_sse_t *sse, u_char *p)
{
    switch (sse->state) {

    case sw_bom0:
        if (*p == 0xef) {
            sse->state = sw_bom1;
            return p + 1;
        }

        sse->state = sw_line;
        return p;

    case sw_bom1:
        if (*p == 0xbb) {
            sse->state = sw_bom2;
            return p + 1;
        }

        sse->state = sw_ignore;
        return p;

    case sw_bom2:
        if (*p == 0xbf) {
            sse->state = sw_line;
            return p + 1;
        }

        sse->state = sw_ignore;
        return p;

    default: /* sw_after_cr */
        sse->state = sw_line;
        return (*p == LF) ? p + 1 : p;
    }
}


/*
 * Compares the line with "data:".  The input may end in the middle of this
 * name, so the state says how much of it was found.
 */

static u_char *
ngx_http_agentstream_sse_name(ngx_http_agentstream_sse_t *sse, u_char *p,
    u_char *end, u_char *last)
{
    static const u_char  name[] = "data:";

    for ( /* void */ ; p < end; p++) {

        if (sse->state == sw_colon) {
            sse->state = sw_value;
            return (*p == ' ') ? p + 1 : p;
        }

        if (*p != name[sse->state - sw_line]) {
            sse->state = sw_ignore;
            return p;
        }

        sse->state++;
    }

    /* a line without a value: "data" or "data:" */

    if (end < last && (sse->state == sw_data || sse->state == sw_colon)) {
        sse->state = sw_value;
    }

    return p;
}


/*
 * The value of a data line begins at p.  The first one of an event is not
 * copied as long as it may be whole in the input: it is held.  When a second
 * one follows, the event has to be put together in the buffer.
 */

static u_char *
ngx_http_agentstream_sse_value(ngx_http_agentstream_sse_t *sse, u_char *p,
    u_char *end, ngx_str_t *held)
{
    u_char  *data;

    if (!sse->started) {
        sse->started = 1;

        held->len = end - p;
        held->data = p;

        return end;
    }

    if (held->data) {
        data = held->data;
        held->data = NULL;

        if (ngx_http_agentstream_sse_append(sse, data, held->len) != NGX_OK) {
            return NULL;
        }
    }

    if (ngx_http_agentstream_sse_append(sse, (u_char *) "\n", 1) != NGX_OK) {
        return NULL;
    }

    return p;
}


static ngx_int_t
ngx_http_agentstream_sse_append(ngx_http_agentstream_sse_t *sse, u_char *data,
    size_t len)
{
    size_t   size;
    u_char  *p;

    if (sse->skip || len == 0) {
        return NGX_OK;
    }

    if (sse->len + len > sse->limit) {
        sse->len = 0;
        sse->skip = 1;
        return NGX_OK;
    }

    if (sse->len + len > sse->size) {
        size = ngx_max(sse->size * 2, NGX_HTTP_AGENTSTREAM_SSE_MIN_SIZE);
        size = ngx_max(sse->len + len, size);

        p = realloc(sse->buf, size);
        if (p == NULL) {
            sse->len = 0;
            sse->skip = 1;
            return NGX_ERROR;
        }

        sse->buf = p;
        sse->size = size;
    }

    ngx_memcpy(sse->buf + sse->len, data, len);
    sse->len += len;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_sse_dispatch(ngx_http_agentstream_sse_t *sse,
    ngx_str_t *held)
{
    ngx_int_t   rc;
    ngx_str_t   data;
    ngx_uint_t  skip;

    if (!sse->started) {
        return NGX_OK;
    }

    if (held->data) {
        data = *held;
        skip = (held->len > sse->limit);

    } else {
        data.len = sse->len;
        data.data = sse->buf ? sse->buf : (u_char *) "";
        skip = sse->skip;
    }

    held->data = NULL;

    sse->len = 0;
    sse->skip = 0;
    sse->started = 0;

    rc = sse->handler(sse->ctx, skip ? NULL : &data);
    if (rc != NGX_OK) {
        return rc;
    }

    if (sse->size > NGX_HTTP_AGENTSTREAM_SSE_KEEP_SIZE) {
        free(sse->buf);
        sse->buf = NULL;
        sse->size = 0;
    }

    return NGX_OK;
}


void
ngx_http_agentstream_sse_reset(ngx_http_agentstream_sse_t *sse)
{
    free(sse->buf);

    sse->buf = NULL;
    sse->len = 0;
    sse->size = 0;
    sse->state = sw_bom0;
    sse->skip = 0;
    sse->started = 0;
}
