
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


#define NGX_HTTP_AGENTSTREAM_URL_PORT           6379
#define NGX_HTTP_AGENTSTREAM_URL_SENTINEL_PORT  26379


static const char *ngx_http_agentstream_url_hosts(
    ngx_http_agentstream_url_t *address, u_char *p, u_char *last, u_char *buf);
static const char *ngx_http_agentstream_url_host(
    ngx_http_agentstream_url_t *address, u_char *p, u_char *last, u_char *buf);
static u_char *ngx_http_agentstream_url_after(u_char *p, u_char *last,
    u_char c);
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
    u_char      *p, *last, *hosts, *name;
    ngx_str_t    login;
    ngx_uint_t   sentinel;
    const char  *wrong;

    ngx_memzero(address, sizeof(ngx_http_agentstream_url_t));

    last = url->data + url->len;
    sentinel = 0;

    if (ngx_http_agentstream_url_scheme(url, "redis://")) {
        p = url->data + sizeof("redis://") - 1;

    } else if (ngx_http_agentstream_url_scheme(url, "rediss://")) {
        p = url->data + sizeof("rediss://") - 1;
        address->tls = 1;

    } else if (ngx_http_agentstream_url_scheme(url, "sentinel://")) {
        p = url->data + sizeof("sentinel://") - 1;
        sentinel = 1;

    } else if (ngx_http_agentstream_url_scheme(url, "sentinels://")) {
        p = url->data + sizeof("sentinels://") - 1;
        sentinel = 1;
        address->tls = 1;

    } else {
        return "must begin with \"redis://\", \"rediss://\", "
               "\"sentinel://\" or \"sentinels://\"";
    }

    /* behind the last "@", in case that the password has one that is not
       encoded */

    hosts = ngx_http_agentstream_url_after(p, last, '@');
    name = hosts;

    if (sentinel) {
        if (hosts - p < 2) {
            return "has no name of a master";
        }

        name = ngx_http_agentstream_url_after(p, hosts - 1, '@');
        buf = ngx_http_agentstream_url_decode(&address->master, buf, name,
                                              hosts - 1);

        if (address->master.len == 0) {
            return "has no name of a master";
        }
    }

    if (name > p) {
        login.data = p;
        login.len = name - 1 - p;

        wrong = ngx_http_agentstream_url_login(&address->user,
                                               &address->password, &login,
                                               buf);
        if (wrong) {
            return wrong;
        }

        buf += login.len;
    }

    return ngx_http_agentstream_url_hosts(address, hosts, last, buf);
}


const char *
ngx_http_agentstream_url_login(ngx_str_t *user, ngx_str_t *password,
    ngx_str_t *text, u_char *buf)
{
    u_char  *colon, *last;

    last = text->data + text->len;
    colon = ngx_strlchr(text->data, last, ':');

    if (colon == NULL) {
        return "has a user without a password";
    }

    buf = ngx_http_agentstream_url_decode(user, buf, text->data, colon);
    (void) ngx_http_agentstream_url_decode(password, buf, colon + 1, last);

    return NULL;
}


/* host[:port],...[/db] */

static const char *
ngx_http_agentstream_url_hosts(ngx_http_agentstream_url_t *address, u_char *p,
    u_char *last, u_char *buf)
{
    u_char      *comma, *slash;
    const char  *wrong;

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

    for ( ;; ) {
        comma = ngx_strlchr(p, last, ',');

        if (comma && address->master.len == 0) {
            return "has more than one host";
        }

        if (address->nhosts == NGX_HTTP_AGENTSTREAM_URL_HOSTS) {
            return "has too many hosts";
        }

        wrong = ngx_http_agentstream_url_host(address, p, comma ? comma : last,
                                              buf);
        if (wrong) {
            return wrong;
        }

        if (comma == NULL) {
            return NULL;
        }

        buf += comma - p + 1;
        p = comma + 1;
    }
}


/* host[:port] */

static const char *
ngx_http_agentstream_url_host(ngx_http_agentstream_url_t *address, u_char *p,
    u_char *last, u_char *buf)
{
    u_char                           *colon;
    ngx_http_agentstream_url_host_t  *host;

    host = &address->hosts[address->nhosts++];

    host->port = address->master.len ? NGX_HTTP_AGENTSTREAM_URL_SENTINEL_PORT
                                     : NGX_HTTP_AGENTSTREAM_URL_PORT;

    /* an IPv6 address is in brackets */

    for (colon = last; colon > p && colon[-1] != ':' && colon[-1] != ']';
         colon--)
    {
        /* void */
    }

    if (colon > p && colon[-1] == ':') {

        if (ngx_http_agentstream_url_number(colon, last, 65535, &host->port)
            != NGX_OK
            || host->port == 0)
        {
            return "has an invalid port";
        }

        last = colon - 1;
    }

    if (p == last) {
        return "has no host";
    }

    host->name.data = buf;
    host->name.len = last - p;
    buf = ngx_cpymem(buf, p, last - p);
    *buf = '\0';

    return NULL;
}


/* what is behind the last c, or all of it */

static u_char *
ngx_http_agentstream_url_after(u_char *p, u_char *last, u_char c)
{
    while (last > p && last[-1] != c) {
        last--;
    }

    return last;
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
