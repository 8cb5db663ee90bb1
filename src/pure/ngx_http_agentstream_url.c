
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Addresses of Redis servers.  User and password may be percent-encoded, so
 * that they can contain any byte.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_url.h"


#define NGX_HTTP_AGENTSTREAM_URL_PORT  6379


static const char *ngx_http_agentstream_url_host(
    ngx_http_agentstream_url_t *address, u_char *p, u_char *last, u_char *buf);
static ngx_uint_t ngx_http_agentstream_url_scheme(ngx_str_t *url,
    const char *scheme);
static ngx_int_t ngx_http_agentstream_url_number(u_char *p, u_char *last,
    ngx_uint_t max, ngx_uint_t *n);
static u_char *ngx_http_agentstream_url_decode(ngx_str_t *dst, u_char *buf,
    u_char *p, u_char *last);


const char *
ngx_http_agentstream_url_parse(ngx_http_agentstream_url_t *address,
    ngx_str_t *url, u_char *buf)
{
    u_char  *p, *last, *at, *colon;

    ngx_memzero(address, sizeof(ngx_http_agentstream_url_t));

    last = url->data + url->len;

    if (ngx_http_agentstream_url_scheme(url, "redis://")) {
        p = url->data + sizeof("redis://") - 1;

    } else if (ngx_http_agentstream_url_scheme(url, "rediss://")) {
        p = url->data + sizeof("rediss://") - 1;
        address->tls = 1;

    } else if (ngx_http_agentstream_url_scheme(url, "sentinel://")) {
        return "cannot follow Sentinel yet, name the server itself";

    } else {
        return "must begin with \"redis://\" or \"rediss://\"";
    }

    /* the last one, in case that the password has one that is not encoded */

    for (at = last; at > p && at[-1] != '@'; at--) { /* void */ }

    if (at > p) {
        colon = ngx_strlchr(p, at - 1, ':');

        if (colon == NULL) {
            return "has a user without a password";
        }

        buf = ngx_http_agentstream_url_decode(&address->user, buf, p,
                                                  colon);
        buf = ngx_http_agentstream_url_decode(&address->password, buf,
                                                  colon + 1, at - 1);
        p = at;
    }

    return ngx_http_agentstream_url_host(address, p, last, buf);
}


/* host[:port][/db] */

static const char *
ngx_http_agentstream_url_host(ngx_http_agentstream_url_t *address, u_char *p,
    u_char *last, u_char *buf)
{
    u_char  *colon, *slash;

    slash = ngx_strlchr(p, last, '/');

    if (slash) {
        if (slash + 1 != last
            && ngx_http_agentstream_url_number(slash + 1, last, 65535,
                                                   &address->db)
               != NGX_OK)
        {
            return "has a database that is not a number";
        }

        last = slash;
    }

    address->port = NGX_HTTP_AGENTSTREAM_URL_PORT;

    /* an IPv6 address is in brackets */

    for (colon = last; colon > p && colon[-1] != ':' && colon[-1] != ']';
         colon--)
    {
        /* void */
    }

    if (colon > p && colon[-1] == ':') {

        if (ngx_http_agentstream_url_number(colon, last, 65535,
                                                &address->port)
            != NGX_OK
            || address->port == 0)
        {
            return "has an invalid port";
        }

        last = colon - 1;
    }

    if (p == last) {
        return "has no host";
    }

    address->host.data = buf;
    address->host.len = last - p;
    buf = ngx_cpymem(buf, p, last - p);
    *buf = '\0';

    return NULL;
}


static ngx_uint_t
ngx_http_agentstream_url_scheme(ngx_str_t *url, const char *scheme)
{
    size_t  len;

    len = ngx_strlen(scheme);

    return url->len >= len
           && ngx_strncasecmp(url->data, (u_char *) scheme, len) == 0;
}


static ngx_int_t
ngx_http_agentstream_url_number(u_char *p, u_char *last, ngx_uint_t max,
    ngx_uint_t *n)
{
    ngx_int_t  value;

    value = ngx_atoi(p, last - p);

    if (value == NGX_ERROR || (ngx_uint_t) value > max) {
        return NGX_ERROR;
    }

    *n = value;

    return NGX_OK;
}


static u_char *
ngx_http_agentstream_url_decode(ngx_str_t *dst, u_char *buf, u_char *p,
    u_char *last)
{
    ngx_int_t  c;

    dst->data = buf;

    while (p < last) {

        if (*p == '%' && last - p > 2) {
            c = ngx_hextoi(p + 1, 2);

            if (c != NGX_ERROR) {
                *buf++ = (u_char) c;
                p += 3;
                continue;
            }
        }

        *buf++ = *p++;
    }

    dst->len = buf - dst->data;

    return buf;
}
