
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The files that a prompt names.  OpenCode reads them without asking for a
 * permission.  So a URI is passed on only if it can be read in just one way:
 * OpenCode's parser drops tabs, turns backslashes into slashes, and accepts a
 * dozen spellings of "..".  The list contains each path as OpenCode will open
 * it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_prompt_int.h"


/* "content[…].uri" */
#define NGX_HTTP_AGENTSTREAM_FILE_NAME_MAX  (32 + NGX_INT_T_LEN)


static u_char *ngx_http_agentstream_prompt_room(
    ngx_http_agentstream_prompt_ctx_t *ctx, size_t size);
static ngx_int_t ngx_http_agentstream_prompt_path(ngx_str_t *uri);
static ngx_int_t ngx_http_agentstream_prompt_plain(ngx_str_t *path);
static ngx_uint_t ngx_http_agentstream_prompt_lines(u_char *p, u_char *last);
static ngx_uint_t ngx_http_agentstream_prompt_inside(u_char *path, size_t len,
    ngx_str_t *directory);


ngx_uint_t
ngx_http_agentstream_prompt_scheme(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t uri)
{
    size_t     len;
    u_char     buf[32];
    ngx_str_t  text;

    /* enough bytes for a scheme, however it is escaped; the rest may be
       large */

    text = ngx_http_agentstream_json_string(&ctx->fields.json, uri);
    text.len = ngx_min(text.len, sizeof(buf));

    len = ngx_http_agentstream_json_decode(buf, &text) - buf;

    if (len >= 5 && ngx_strncasecmp(buf, (u_char *) "file:", 5) == 0) {
        return NGX_HTTP_AGENTSTREAM_SCHEME_FILE;
    }

    if (len >= 5 && ngx_strncasecmp(buf, (u_char *) "data:", 5) == 0) {
        return NGX_HTTP_AGENTSTREAM_SCHEME_DATA;
    }

    return NGX_HTTP_AGENTSTREAM_SCHEME_OTHER;
}


ngx_int_t
ngx_http_agentstream_prompt_file(ngx_http_agentstream_prompt_ctx_t *ctx,
    const char *array, const char *member, ngx_uint_t uri)
{
    u_char     *p;
    ngx_str_t   text, path;

    text = ngx_http_agentstream_json_string(&ctx->fields.json, uri);

    p = ngx_http_agentstream_prompt_room(ctx,
                               NGX_HTTP_AGENTSTREAM_FILE_NAME_MAX + text.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    p = ngx_sprintf(p, "%s[%ui].%s%Z", array, ctx->index, member);

    path.data = p;
    path.len = ngx_http_agentstream_json_decode(p, &text) - p;

    if (ngx_http_agentstream_prompt_path(&path) != NGX_OK) {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                                 "\"%s[%ui].%s\" must be a \"file:\" URI of a "
                                 "plain absolute path", array, ctx->index,
                                 member);
    }

    p += path.len;
    *p++ = '\0';

    ctx->prompt->files.len = p - ctx->prompt->files.data;

    return NGX_OK;
}


/* makes room at the end of the list, which may be moved for it */

static u_char *
ngx_http_agentstream_prompt_room(ngx_http_agentstream_prompt_ctx_t *ctx,
    size_t size)
{
    u_char     *p;
    ngx_str_t  *files;

    files = &ctx->prompt->files;
    size += files->len;

    if (size > ctx->files_size) {
        size *= 2;

        p = ngx_pnalloc(ctx->fields.pool, size);
        if (p == NULL) {
            return NULL;
        }

        if (files->len) {
            ngx_memcpy(p, files->data, files->len);
            (void) ngx_pfree(ctx->fields.pool, files->data);
        }

        files->data = p;
        ctx->files_size = size;
    }

    return files->data + files->len;
}


/* decodes the path in place; NGX_OK, NGX_DECLINED */

static ngx_int_t
ngx_http_agentstream_prompt_path(ngx_str_t *uri)
{
    u_char     *src, *dst, *last, ch;
    ngx_int_t   n;

    src = uri->data + 5;
    dst = uri->data;
    last = uri->data + uri->len;

    if (last - src >= 2 && src[0] == '/' && src[1] == '/') {
        src += 2;

        if (last - src >= 9
            && ngx_strncasecmp(src, (u_char *) "localhost", 9) == 0)
        {
            src += 9;
        }
    }

    /* this also refuses a path that begins with another host; a space at the
       end would be dropped by OpenCode */

    if (src == last || *src != '/' || last[-1] == ' ') {
        return NGX_DECLINED;
    }

    while (src < last && *src != '?') {
        ch = *src++;

        /* "C|" would mean a drive */

        if (ch == '#' || ch == '|') {
            return NGX_DECLINED;
        }

        if (ch == '%') {
            n = (last - src >= 2) ? ngx_hextoi(src, 2) : NGX_ERROR;

            if (n == NGX_ERROR || n == '/') {
                return NGX_DECLINED;
            }

            ch = (u_char) n;
            src += 2;
        }

        if (ch < 0x20 || ch == 0x7f || ch == '\\') {
            return NGX_DECLINED;
        }

        *dst++ = ch;
    }

    if (src < last && !ngx_http_agentstream_prompt_lines(src, last)) {
        return NGX_DECLINED;
    }

    uri->len = dst - uri->data;

    return ngx_http_agentstream_prompt_plain(uri);
}


/* refuses empty segments (except the last), "." and "..", anything that could
   be decoded once more, and invalid UTF-8 */

static ngx_int_t
ngx_http_agentstream_prompt_plain(ngx_str_t *path)
{
    u_char  *p, *last, *segment;

    last = path->data + path->len;

    for (segment = path->data; segment < last; segment = p) {
        segment++;

        p = ngx_strlchr(segment, last, '/');

        if (p == segment) {
            return NGX_DECLINED;
        }

        if (p == NULL) {
            p = last;
        }

        if ((p - segment == 1 && segment[0] == '.')
            || (p - segment == 2 && segment[0] == '.' && segment[1] == '.'))
        {
            return NGX_DECLINED;
        }
    }

    for (p = path->data; p < last; /* void */ ) {

        if (*p == '%' && last - p > 2 && ngx_hextoi(p + 1, 2) != NGX_ERROR) {
            return NGX_DECLINED;
        }

        if (*p < 0x80) {
            p++;
            continue;
        }

        if (ngx_utf8_decode(&p, last - p) > 0x10ffff) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/* the selected lines of the file: "?start=10" or "?start=10&end=20" */

static ngx_uint_t
ngx_http_agentstream_prompt_lines(u_char *p, u_char *last)
{
    size_t       len;
    u_char      *digits;
    ngx_uint_t   i;

    static const char  *names[] = { "?start=", "&end=" };

    for (i = 0; i < 2 && p < last; i++) {
        len = ngx_strlen(names[i]);

        if ((size_t) (last - p) <= len || ngx_strncmp(p, names[i], len) != 0) {
            return 0;
        }

        digits = p + len;

        for (p = digits; p < last && *p >= '0' && *p <= '9'; p++) {
            /* void */
        }

        if (p == digits) {
            return 0;
        }
    }

    return p == last;
}


const char *
ngx_http_agentstream_prompt_outside(ngx_str_t *files, ngx_str_t *directory)
{
    size_t   len;
    u_char  *p, *last, *name, *path;

    if (files->len == 0) {
        return NULL;
    }

    last = files->data + files->len;

    for (p = files->data; p < last; p = path + len + 1) {
        name = p;
        path = name + ngx_strlen(name) + 1;
        len = ngx_strlen(path);

        if (!ngx_http_agentstream_prompt_inside(path, len, directory)) {
            return (const char *) name;
        }
    }

    return NULL;
}


/* whether the path is the directory itself, or below it */

static ngx_uint_t
ngx_http_agentstream_prompt_inside(u_char *path, size_t len,
    ngx_str_t *directory)
{
    size_t  n;

    n = directory->len;

    if (n == 0 || directory->data[0] != '/') {
        return 0;
    }

    while (n && directory->data[n - 1] == '/') {
        n--;
    }

    return len >= n
           && ngx_memcmp(path, directory->data, n) == 0
           && (len == n || path[n] == '/');
}
