
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The path of a client's request, which contains the route and the session.
 * It is parsed in one place, for the routes and for the variable
 * $agentstream_session, so that a login service is asked about the session
 * that is served.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_request_int.h"


static ngx_uint_t ngx_http_agentstream_request_plain(ngx_str_t *uri);
static ngx_uint_t ngx_http_agentstream_request_encoded(u_char *p,
    u_char *last);


ngx_int_t
ngx_http_agentstream_request_split(ngx_http_request_t *r,
    ngx_http_agentstream_request_path_t *path)
{
    u_char                           *p, *last, *end;
    ngx_str_t                        *name;
    ngx_uint_t                        n;
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);

    name = &conf->name;
    path->nsegments = 0;
    path->named = 0;

    /* the path of a subrequest comes from the configuration */

    if (r == r->main
        && !ngx_http_agentstream_request_plain(&r->unparsed_uri))
    {
        return NGX_HTTP_BAD_REQUEST;
    }

    /* "rewrite ... break" can lead to any path */

    if (r->uri.len < name->len
        || ngx_filename_cmp(r->uri.data, name->data, name->len) != 0)
    {
        return NGX_HTTP_NOT_FOUND;
    }

    p = r->uri.data + name->len;
    last = r->uri.data + r->uri.len;

    /* "/sessions" and "/sessions/" are the same, "/sessionsfoo" is something
       else */

    if (p < last && p[-1] != '/' && *p++ != '/') {
        return NGX_HTTP_NOT_FOUND;
    }

    for (n = 0; p < last; n++) {

        if (n == NGX_HTTP_AGENTSTREAM_SEGMENTS) {
            return NGX_HTTP_NOT_FOUND;
        }

        end = ngx_strlchr(p, last, '/');

        if (end == NULL) {
            end = last;

        } else if (end + 1 == last) {
            return NGX_HTTP_NOT_FOUND;
        }

        path->segments[n].data = p;
        path->segments[n].len = end - p;

        p = end + 1;
    }

    path->nsegments = n;

    if (n) {
        path->name = path->segments[0];
        path->named = ngx_http_agentstream_request_protocol(conf)->names;

        if (!path->named && path->name.data[0] == '@') {
            path->name.data++;
            path->name.len--;
            path->named = 1;
        }
    }

    return NGX_OK;
}


/*
 * Whether the path is the same before and after nginx has decoded it, merged
 * its slashes and resolved its dots, because other modules may look at it
 * before.  Only characters of names may be encoded.
 */

static ngx_uint_t
ngx_http_agentstream_request_plain(ngx_str_t *uri)
{
    size_t   len;
    u_char  *p, *last, *end;

    last = uri->data + uri->len;
    end = ngx_strlchr(uri->data, last, '?');

    if (end) {
        last = end;
    }

    for (p = uri->data; p < last; p++) {

        if (*p == '#'
            || (*p == '%'
                && !ngx_http_agentstream_request_encoded(p + 1, last)))
        {
            return 0;
        }
    }

    /* each slash begins a segment, and only the last segment may be empty */

    for (p = uri->data; p < last; p = end) {
        p++;

        end = ngx_strlchr(p, last, '/');

        if (end == NULL) {
            end = last;
        }

        len = end - p;

        if ((len == 0 && end < last)
            || (len == 1 && p[0] == '.')
            || (len == 2 && p[0] == '.' && p[1] == '.'))
        {
            return 0;
        }
    }

    return 1;
}


/*
 * Whether these are the digits of a character that names of sessions have, and
 * that encodeURIComponent() and its like in other languages encode: "@", ":"
 * and "~".  None of them has a meaning in the path itself.
 */

static ngx_uint_t
ngx_http_agentstream_request_encoded(u_char *p, u_char *last)
{
    if (last - p < 2) {
        return 0;
    }

    return ngx_strncasecmp(p, (u_char *) "40", 2) == 0
           || ngx_strncasecmp(p, (u_char *) "3a", 2) == 0
           || ngx_strncasecmp(p, (u_char *) "7e", 2) == 0;
}


void
ngx_http_agentstream_request_session(ngx_http_request_t *r,
    ngx_str_t *session)
{
    ngx_http_agentstream_loc_conf_t      *conf;
    ngx_http_agentstream_name_scope_t     scope;
    ngx_http_agentstream_request_path_t   path;

    ngx_str_null(session);

    conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);

    if (conf->prefix.len == 0) {
        /* a subrequest is about the request that it was made for */

        r = r->main;
        conf = ngx_http_get_module_loc_conf(r, ngx_http_agentstream_module);
    }

    if (conf->prefix.len == 0
        || ngx_http_agentstream_request_split(r, &path) != NGX_OK
        || path.nsegments == 0
        || !ngx_http_agentstream_request_names(&path))
    {
        return;
    }

    if (!path.named) {
        *session = path.segments[0];
        return;
    }

    /* who the owner is may be known only later */

    if (ngx_http_agentstream_request_scope(r, &scope) != NGX_OK
        || (conf->owner && scope.owner.len == 0)
        || ngx_http_agentstream_request_session_id(r, &scope, &path, session)
           != NGX_OK)
    {
        ngx_str_null(session);
    }
}
