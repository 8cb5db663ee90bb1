
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Which page has sent a request.  Browsers report this with every request that
 * may change something, and pages cannot alter what browsers report; clients
 * that are not browsers report nothing.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_request_int.h"


static ngx_uint_t ngx_http_agentstream_request_equals(ngx_str_t *s,
    const char *text);
static ngx_uint_t ngx_http_agentstream_request_own_origin(ngx_http_request_t *r,
    ngx_str_t *origin);
static void ngx_http_agentstream_request_trim_port(ngx_str_t *host);


ngx_uint_t
ngx_http_agentstream_request_foreign(ngx_http_request_t *r)
{
    ngx_str_t         name;
    ngx_uint_t        i, foreign;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    foreign = 0;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            name.len = h[i].key.len;
            name.data = h[i].lowcase_key;

            if (ngx_http_agentstream_request_equals(&name, "origin")
                && !ngx_http_agentstream_request_own_origin(r, &h[i].value))
            {
                foreign = 1;
            }

            /* trust the browser, because a proxy may have changed the host */

            if (ngx_http_agentstream_request_equals(&name, "sec-fetch-site")
                && ngx_http_agentstream_request_equals(&h[i].value,
                                                       "same-origin"))
            {
                return 0;
            }
        }
    }

    return foreign;
}


static ngx_uint_t
ngx_http_agentstream_request_equals(ngx_str_t *s, const char *text)
{
    return s->len == ngx_strlen(text)
           && ngx_memcmp(s->data, text, s->len) == 0;
}


/*
 * Host and port are compared, but not the scheme: behind a proxy that
 * terminates TLS, the page's scheme differs from nginx's.  For the same reason
 * the usual port of either scheme counts as no port.
 */

static ngx_uint_t
ngx_http_agentstream_request_own_origin(ngx_http_request_t *r,
    ngx_str_t *origin)
{
    size_t     len;
    ngx_str_t  theirs, ours;

    theirs = *origin;

    if (theirs.len > 7
        && ngx_strncasecmp(theirs.data, (u_char *) "http://", 7) == 0)
    {
        len = 7;

    } else if (theirs.len > 8
               && ngx_strncasecmp(theirs.data, (u_char *) "https://", 8) == 0)
    {
        len = 8;

    } else {
        return 0;
    }

    theirs.data += len;
    theirs.len -= len;

    if (r->headers_in.host) {
        ours = r->headers_in.host->value;

    } else if (r->host_start) {
        /* HTTP/3 has no Host header */

        ours.data = r->host_start;
        ours.len = r->host_end - r->host_start;

    } else {
        return 0;
    }

    ngx_http_agentstream_request_trim_port(&theirs);
    ngx_http_agentstream_request_trim_port(&ours);

    return theirs.len == ours.len
           && ngx_strncasecmp(theirs.data, ours.data, ours.len) == 0;
}


static void
ngx_http_agentstream_request_trim_port(ngx_str_t *host)
{
    u_char  *last;

    last = host->data + host->len;

    if (host->len > 3 && ngx_memcmp(last - 3, ":80", 3) == 0) {
        host->len -= 3;

    } else if (host->len > 4 && ngx_memcmp(last - 4, ":443", 4) == 0) {
        host->len -= 4;
    }
}
