
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Reading what the platforms send.  Nothing of it is trusted: each value has
 * its type checked, and each id the characters that it may have.  What is not
 * as expected reads as empty, and whoever needs it passes the update over.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"


/* of an id that becomes a part of a session's name */
#define NGX_HTTP_AGENTSTREAM_CHAT_ID_MAX  64


static ngx_uint_t ngx_http_agentstream_chat_word(u_char ch);


ngx_int_t
ngx_http_agentstream_chat_input(ngx_http_agentstream_chat_input_t *in,
    ngx_pool_t *pool, ngx_str_t *body)
{
    ngx_int_t  rc;

    ngx_memzero(in, sizeof(ngx_http_agentstream_chat_input_t));

    in->pool = pool;

    if (body->len > NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX) {
        return NGX_DECLINED;
    }

    rc = ngx_http_agentstream_json_parse(&in->json, body->data, body->len);

    if (rc == NGX_OK
        && ngx_http_agentstream_json_type(&in->json, in->json.root)
           != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        rc = NGX_DECLINED;
    }

    if (rc != NGX_OK) {
        ngx_http_agentstream_json_destroy(&in->json);
    }

    return rc;
}


ngx_int_t
ngx_http_agentstream_chat_input_done(ngx_http_agentstream_chat_input_t *in,
    ngx_int_t rc)
{
    ngx_http_agentstream_json_destroy(&in->json);

    return in->failed ? NGX_ERROR : rc;
}


ngx_uint_t
ngx_http_agentstream_chat_get(ngx_http_agentstream_chat_input_t *in,
    ngx_uint_t object, const char *name)
{
    return ngx_http_agentstream_json_get(&in->json, object, name);
}


ngx_uint_t
ngx_http_agentstream_chat_true(ngx_http_agentstream_chat_input_t *in,
    ngx_uint_t value)
{
    return ngx_http_agentstream_json_type(&in->json, value)
           == NGX_HTTP_AGENTSTREAM_JSON_TRUE;
}


ngx_str_t
ngx_http_agentstream_chat_text(ngx_http_agentstream_chat_input_t *in,
    ngx_uint_t value)
{
    u_char     *p;
    ngx_str_t   text, slice;

    ngx_str_set(&text, "");

    slice = ngx_http_agentstream_json_string(&in->json, value);

    if (slice.len == 0 || in->failed) {
        return text;
    }

    p = ngx_pnalloc(in->pool, slice.len);

    if (p == NULL) {
        in->failed = 1;
        return text;
    }

    text.data = p;
    text.len = ngx_http_agentstream_json_decode(p, &slice) - p;

    return text;
}


ngx_str_t
ngx_http_agentstream_chat_id(ngx_http_agentstream_chat_input_t *in,
    ngx_uint_t value)
{
    size_t     i;
    ngx_str_t  id, raw, *list[2];

    ngx_str_set(&id, "");

    if (ngx_http_agentstream_json_type(&in->json, value)
        == NGX_HTTP_AGENTSTREAM_JSON_NUMBER)
    {
        raw = ngx_http_agentstream_json_raw(&in->json, value);

        for (i = (raw.data[0] == '-'); i < raw.len; i++) {
            if (raw.data[i] < '0' || raw.data[i] > '9') {
                return id;
            }
        }

    } else {
        raw = ngx_http_agentstream_json_string(&in->json, value);

        for (i = 0; i < raw.len; i++) {
            if (!ngx_http_agentstream_chat_word(raw.data[i])) {
                return id;
            }
        }
    }

    if (raw.len == 0 || raw.len > NGX_HTTP_AGENTSTREAM_CHAT_ID_MAX) {
        return id;
    }

    list[0] = &raw;
    list[1] = NULL;

    return ngx_http_agentstream_chat_join(in, list);
}


static ngx_uint_t
ngx_http_agentstream_chat_word(u_char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')
           || (ch >= '0' && ch <= '9')
           || ch == '.' || ch == '_' || ch == '-';
}


ngx_str_t
ngx_http_agentstream_chat_token(ngx_http_agentstream_chat_input_t *in,
    ngx_uint_t value, size_t max)
{
    size_t     i;
    ngx_str_t  text;

    text = ngx_http_agentstream_chat_text(in, value);

    if (text.len > max) {
        ngx_str_set(&text, "");
    }

    for (i = 0; i < text.len; i++) {
        if (text.data[i] < 0x20 || text.data[i] == 0x7f) {
            ngx_str_set(&text, "");
        }
    }

    return text;
}


off_t
ngx_http_agentstream_chat_size(ngx_http_agentstream_chat_input_t *in,
    ngx_uint_t value)
{
    off_t  size;

    size = ngx_http_agentstream_json_integer(&in->json, value, -1);

    return (size < 0) ? -1 : size;
}


ngx_str_t
ngx_http_agentstream_chat_join(ngx_http_agentstream_chat_input_t *in,
    ngx_str_t **list)
{
    u_char      *p;
    size_t       len;
    ngx_str_t    text;
    ngx_uint_t   i;

    ngx_str_set(&text, "");

    len = 0;

    for (i = 0; list[i]; i++) {
        len += list[i]->len;
    }

    if (len == 0 || in->failed) {
        return text;
    }

    p = ngx_pnalloc(in->pool, len);

    if (p == NULL) {
        in->failed = 1;
        return text;
    }

    text.data = p;
    text.len = len;

    for (i = 0; list[i]; i++) {
        if (list[i]->len) {
            p = ngx_cpymem(p, list[i]->data, list[i]->len);
        }
    }

    return text;
}


ngx_int_t
ngx_http_agentstream_chat_updates_init(ngx_pool_t *pool,
    ngx_http_agentstream_chat_updates_t *updates)
{
    updates->offset = 0;

    return ngx_array_init(&updates->list, pool, 1,
                          sizeof(ngx_http_agentstream_chat_update_t));
}


ngx_http_agentstream_chat_update_t *
ngx_http_agentstream_chat_update_add(ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_updates_t *updates)
{
    ngx_http_agentstream_chat_update_t  *update;

    update = ngx_array_push(&updates->list);

    if (update == NULL) {
        in->failed = 1;
        return NULL;
    }

    ngx_memzero(update, sizeof(ngx_http_agentstream_chat_update_t));

    if (ngx_array_init(&update->files, in->pool, 1,
                       sizeof(ngx_http_agentstream_chat_file_t))
        != NGX_OK)
    {
        in->failed = 1;
        return NULL;
    }

    return update;
}


void
ngx_http_agentstream_chat_update_drop(
    ngx_http_agentstream_chat_updates_t *updates)
{
    updates->list.nelts--;
}


ngx_http_agentstream_chat_file_t *
ngx_http_agentstream_chat_file_add(ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_http_agentstream_chat_file_t  *file;

    file = ngx_array_push(&update->files);

    if (file == NULL) {
        in->failed = 1;
        return NULL;
    }

    ngx_memzero(file, sizeof(ngx_http_agentstream_chat_file_t));

    file->size = -1;

    return file;
}


void
ngx_http_agentstream_chat_command(ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_update_t *update, ngx_str_t *name)
{
    u_char     *p, *last;
    ngx_str_t   rest, word, *list[2];

    ngx_str_set(name, "");

    if (update->text.len == 0) {

        if (update->files.nelts == 0) {
            update->kind = NGX_HTTP_AGENTSTREAM_CHAT_COMMAND;
            ngx_str_set(&update->command, "help");
        }

        return;
    }

    p = update->text.data;
    last = p + update->text.len;

    if (*p != '/') {
        return;
    }

    word.data = ++p;

    while (p < last && *p != '.' && *p != '-'
           && ngx_http_agentstream_chat_word(*p))
    {
        p++;
    }

    word.len = p - word.data;

    if (p < last && *p == '@') {
        name->data = ++p;

        while (p < last && ngx_http_agentstream_chat_word(*p)) {
            p++;
        }

        name->len = p - name->data;
    }

    if (word.len == 0
        || (p < last && *p != ' ' && *p != '\n' && *p != '\t' && *p != '\r'))
    {
        /* it is a path, or something else that begins with a slash */

        ngx_str_set(name, "");
        return;
    }

    update->kind = NGX_HTTP_AGENTSTREAM_CHAT_COMMAND;

    list[0] = &word;
    list[1] = NULL;

    update->command = ngx_http_agentstream_chat_join(in, list);
    ngx_strlow(update->command.data, update->command.data,
               update->command.len);

    rest.data = p;
    rest.len = last - p;
    update->argument = ngx_http_agentstream_chat_trim(rest);
}


ngx_str_t
ngx_http_agentstream_chat_trim(ngx_str_t text)
{
    while (text.len && (text.data[0] == ' ' || text.data[0] == '\n'
                        || text.data[0] == '\t' || text.data[0] == '\r'))
    {
        text.data++;
        text.len--;
    }

    while (text.len && (text.data[text.len - 1] == ' '
                        || text.data[text.len - 1] == '\n'
                        || text.data[text.len - 1] == '\t'
                        || text.data[text.len - 1] == '\r'))
    {
        text.len--;
    }

    return text;
}


ngx_int_t
ngx_http_agentstream_chat_locate(ngx_http_agentstream_chat_input_t *in,
    ngx_str_t *path, ngx_str_t *file)
{
    size_t     i;
    ngx_str_t  prefix, *list[3];

    ngx_str_set(&prefix, "file/");

    if (file->len == 0 || file->data[0] == '/') {
        return NGX_DECLINED;
    }

    for (i = 0; i < file->len; i++) {
        if (!ngx_http_agentstream_chat_word(file->data[i])
            && file->data[i] != '/')
        {
            return NGX_DECLINED;
        }

        if (i && file->data[i] == '.' && file->data[i - 1] == '.') {
            return NGX_DECLINED;
        }
    }

    list[0] = &prefix;
    list[1] = file;
    list[2] = NULL;

    *path = ngx_http_agentstream_chat_join(in, list);

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_chat_locate_url(ngx_http_agentstream_chat_input_t *in,
    ngx_str_t *url, const char *base, ngx_str_t *path, ngx_str_t *args)
{
    u_char     *p, *last;
    size_t      len;
    ngx_str_t   file, query, *list[2];

    len = ngx_strlen(base);

    if (url->len < len || ngx_strncmp(url->data, base, len) != 0) {
        return NGX_DECLINED;
    }

    last = url->data + url->len;
    file.data = url->data + len;

    for (p = file.data; p < last && *p != '?'; p++) { /* void */ }

    file.len = p - file.data;

    query.data = p + (p < last);
    query.len = last - query.data;

    for (p = query.data; p < last; p++) {
        if (!ngx_http_agentstream_chat_word(*p) && *p != '=' && *p != '&'
            && *p != '%' && *p != '~')
        {
            return NGX_DECLINED;
        }
    }

    list[0] = &query;
    list[1] = NULL;

    *args = ngx_http_agentstream_chat_join(in, list);

    return ngx_http_agentstream_chat_locate(in, path, &file);
}


ngx_str_t
ngx_http_agentstream_chat_form(ngx_http_agentstream_chat_input_t *in,
    ngx_str_t *form, const char *name)
{
    u_char     *p, *last, *end, *dst;
    size_t      len;
    ngx_int_t   ch;
    ngx_str_t   value;

    ngx_str_set(&value, "");

    len = ngx_strlen(name);
    last = form->data + form->len;

    for (p = form->data; p < last; p = end + 1) {

        for (end = p; end < last && *end != '&'; end++) { /* void */ }

        if ((size_t) (end - p) <= len || p[len] != '='
            || ngx_strncmp(p, name, len) != 0)
        {
            continue;
        }

        p += len + 1;

        dst = ngx_pnalloc(in->pool, end - p + 1);

        if (dst == NULL) {
            in->failed = 1;
            return value;
        }

        value.data = dst;

        for ( /* void */ ; p < end; p++) {
            ch = (*p == '+') ? ' ' : *p;

            if (ch == '%' && end - p > 2) {
                ch = ngx_hextoi(p + 1, 2);

                if (ch == NGX_ERROR) {
                    ch = '%';

                } else {
                    p += 2;
                }
            }

            *dst++ = (u_char) ch;
        }

        value.len = dst - value.data;

        return value;
    }

    return value;
}
