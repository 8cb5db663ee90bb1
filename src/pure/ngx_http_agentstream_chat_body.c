
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Writing what the platforms are sent.  The structure is cJSON's; texts are
 * escaped by the module's own writer, because cJSON neither checks UTF-8 nor
 * knows texts that contain a zero byte.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"

#if (NGX_HTTP_AGENTSTREAM_CHATS)

#include <cjson/cJSON.h>


static void ngx_http_agentstream_chat_add(
    ngx_http_agentstream_chat_body_t *body, void *parent, const char *name,
    cJSON *item);


void *
ngx_http_agentstream_chat_begin(ngx_http_agentstream_chat_body_t *body,
    ngx_pool_t *pool)
{
    body->pool = pool;
    body->root = cJSON_CreateObject();
    body->failed = (body->root == NULL);

    return body->root;
}


ngx_int_t
ngx_http_agentstream_chat_finish(ngx_http_agentstream_chat_body_t *body,
    ngx_str_t *text)
{
    char  *printed;

    ngx_str_null(text);

    printed = body->failed ? NULL : cJSON_PrintUnformatted(body->root);

    cJSON_Delete(body->root);
    body->root = NULL;

    if (printed == NULL) {
        return NGX_ERROR;
    }

    text->len = ngx_strlen(printed);
    text->data = ngx_pnalloc(body->pool, text->len);

    if (text->data) {
        ngx_memcpy(text->data, printed, text->len);
    }

    cJSON_free(printed);

    return text->data ? NGX_OK : NGX_ERROR;
}


/* the item belongs to the parent, or is freed */

static void
ngx_http_agentstream_chat_add(ngx_http_agentstream_chat_body_t *body,
    void *parent, const char *name, cJSON *item)
{
    cJSON_bool  ok;

    if (item == NULL || parent == NULL || body->failed) {
        ok = 0;

    } else if (name == NULL) {
        ok = cJSON_AddItemToArray(parent, item);

    } else {
        ok = cJSON_AddItemToObject(parent, name, item);
    }

    if (!ok) {
        cJSON_Delete(item);
        body->failed = 1;
    }
}


void *
ngx_http_agentstream_chat_add_object(ngx_http_agentstream_chat_body_t *body,
    void *parent, const char *name)
{
    cJSON  *item;

    item = cJSON_CreateObject();

    ngx_http_agentstream_chat_add(body, parent, name, item);

    return body->failed ? NULL : item;
}


void *
ngx_http_agentstream_chat_add_array(ngx_http_agentstream_chat_body_t *body,
    void *parent, const char *name)
{
    cJSON  *item;

    item = cJSON_CreateArray();

    ngx_http_agentstream_chat_add(body, parent, name, item);

    return body->failed ? NULL : item;
}


void
ngx_http_agentstream_chat_add_text(ngx_http_agentstream_chat_body_t *body,
    void *parent, const char *name, ngx_str_t *text)
{
    size_t   n;
    u_char  *clean, *quoted, *p;

    if (body->failed) {
        return;
    }

    /* short-lived, and large in comparison with the pool: what is left of the
       text stands at the end of the room for its escaped form */

    quoted = ngx_alloc(ngx_http_agentstream_json_escape_size(text->len)
                       + text->len + sizeof("\"\""), body->pool->log);

    if (quoted == NULL) {
        body->failed = 1;
        return;
    }

    clean = quoted + ngx_http_agentstream_json_escape_size(text->len)
            + sizeof("\"\"");
    n = ngx_http_agentstream_chat_clean(clean, text) - clean;

    p = quoted;
    *p++ = '"';
    p = ngx_http_agentstream_json_escape(p, clean, n);
    *p++ = '"';
    *p = '\0';

    ngx_http_agentstream_chat_add(body, parent, name,
                                  cJSON_CreateRaw((char *) quoted));

    ngx_free(quoted);
}


void
ngx_http_agentstream_chat_add_word(ngx_http_agentstream_chat_body_t *body,
    void *parent, const char *name, const char *word)
{
    ngx_http_agentstream_chat_add(body, parent, name,
                                  cJSON_CreateString(word));
}


void
ngx_http_agentstream_chat_add_number(ngx_http_agentstream_chat_body_t *body,
    void *parent, const char *name, ngx_str_t *digits)
{
    int64_t     value;
    ngx_uint_t  minus;

    minus = (digits->len && digits->data[0] == '-');

    value = ngx_atoof(digits->data + minus, digits->len - minus);

    ngx_http_agentstream_chat_add_integer(body, parent, name,
                                          minus ? -value : value);
}


void
ngx_http_agentstream_chat_add_integer(ngx_http_agentstream_chat_body_t *body,
    void *parent, const char *name, int64_t value)
{
    u_char  text[NGX_INT64_LEN + 1];

    /* cJSON's own numbers have 53 bits */

    *ngx_sprintf(text, "%L", value) = '\0';

    ngx_http_agentstream_chat_add(body, parent, name,
                                  cJSON_CreateRaw((char *) text));
}


void
ngx_http_agentstream_chat_add_flag(ngx_http_agentstream_chat_body_t *body,
    void *parent, const char *name, ngx_uint_t value)
{
    ngx_http_agentstream_chat_add(body, parent, name,
                                  cJSON_CreateBool(value != 0));
}


u_char *
ngx_http_agentstream_chat_clean(u_char *dst, ngx_str_t *text)
{
    u_char  ch;
    size_t  i;

    for (i = 0; i < text->len; i++) {
        ch = text->data[i];

        if ((ch >= 0x20 && ch != 0x7f) || ch == '\n' || ch == '\t') {
            *dst++ = ch;
        }
    }

    return dst;
}


u_char *
ngx_http_agentstream_chat_escape(u_char *dst, ngx_str_t *text)
{
    size_t     i;
    ngx_str_t  ch;

    for (i = 0; i < text->len; i++) {

        switch (text->data[i]) {

        case '<':
            dst = ngx_cpymem(dst, "&lt;", sizeof("&lt;") - 1);
            break;

        case '>':
            dst = ngx_cpymem(dst, "&gt;", sizeof("&gt;") - 1);
            break;

        case '&':
            dst = ngx_cpymem(dst, "&amp;", sizeof("&amp;") - 1);
            break;

        default:
            ch.data = &text->data[i];
            ch.len = 1;
            dst = ngx_http_agentstream_chat_clean(dst, &ch);
        }
    }

    return dst;
}


ngx_str_t
ngx_http_agentstream_chat_cut(ngx_http_agentstream_chat_body_t *body,
    ngx_str_t *text, ngx_uint_t n)
{
    size_t       i, end;
    u_char      *p;
    ngx_str_t    cut;
    ngx_uint_t   chars;

    cut = *text;
    chars = 0;
    end = 0;

    for (i = 0; i < text->len; i++) {

        /* of a character only the first byte counts */

        if ((text->data[i] & 0xc0) == 0x80) {
            continue;
        }

        if (chars++ == n - 1) {
            end = i;
        }
    }

    if (chars <= n) {
        return cut;
    }

    p = ngx_pnalloc(body->pool, end + sizeof("…") - 1);

    if (p == NULL) {
        body->failed = 1;
        ngx_str_null(&cut);
        return cut;
    }

    cut.data = p;
    p = ngx_cpymem(p, text->data, end);
    p = ngx_cpymem(p, "…", sizeof("…") - 1);
    cut.len = p - cut.data;

    return cut;
}

#endif
