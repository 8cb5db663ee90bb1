
/*
 * Copyright (C) agentstream contributors
 *
 * What a client may know of an error: which error it is, OpenCode's
 * description, and who failed.  In addition OpenCode keeps the whole answer of
 * the model's provider, with headers, body and address.  These contain keys
 * and other users' data, and must not be passed on (docs/protocol.md,
 * "error").
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


static void ngx_http_agentstream_translate_error_write(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_json_t *json, ngx_uint_t object, u_char **pos);
static ngx_str_t ngx_http_agentstream_translate_error_trim(ngx_str_t *text);
static ngx_uint_t ngx_http_agentstream_translate_error_space(u_char *p,
    u_char *last);
static void ngx_http_agentstream_translate_error_cut(ngx_str_t *text,
    size_t len);
static u_char *ngx_http_agentstream_translate_error_object(ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_translate_error_inner(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *text);
static void ngx_http_agentstream_translate_error_member(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_json_t *json,
    ngx_uint_t data, const char *key, const char *name, ngx_uint_t type);


/* writes the error as "details" of a packet; only the members named here are
   passed on, and only if they have the right type */

ngx_int_t
ngx_http_agentstream_translate_error_details(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_json_t *json, ngx_uint_t error)
{
    ngx_str_t   name, message;
    ngx_uint_t  data;

    b->len = 0;
    b->failed = 0;

    name = ngx_http_agentstream_opencode_text(json, error, "name");

    if (name.len == 0) {
        ngx_str_set(&name, "UnknownError");
    }

    ngx_http_agentstream_acp_member_text(b, "{\"name\":", &name);

    data = ngx_http_agentstream_json_get(json, error, "data");

    if (ngx_http_agentstream_translate_error_message(tr, json, data, &message)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (message.len) {
        ngx_http_agentstream_acp_member_text(b, ",\"message\":", &message);
    }

    ngx_http_agentstream_translate_error_member(b, json, data,
                                          ",\"statusCode\":", "statusCode",
                                          NGX_HTTP_AGENTSTREAM_JSON_NUMBER);
    ngx_http_agentstream_translate_error_member(b, json, data,
                                          ",\"providerID\":", "providerID",
                                          NGX_HTTP_AGENTSTREAM_JSON_STRING);
    ngx_http_agentstream_translate_error_member(b, json, data,
                                          ",\"modelID\":", "modelID",
                                          NGX_HTTP_AGENTSTREAM_JSON_STRING);
    ngx_http_agentstream_translate_error_member(b, json, data,
                                          ",\"isRetryable\":", "isRetryable",
                                          NGX_HTTP_AGENTSTREAM_JSON_TRUE);
    ngx_http_agentstream_translate_error_member(b, json, data,
                                          ",\"isRetryable\":", "isRetryable",
                                          NGX_HTTP_AGENTSTREAM_JSON_FALSE);

    ngx_http_agentstream_acp_literal(b, "}");

    return b->failed ? NGX_ERROR : NGX_OK;
}


static void
ngx_http_agentstream_translate_error_member(ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_json_t *json, ngx_uint_t data, const char *key,
    const char *name, ngx_uint_t type)
{
    ngx_str_t   raw;
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, data, name);

    if (ngx_http_agentstream_json_type(json, v) == type) {
        raw = ngx_http_agentstream_json_raw(json, v);
        ngx_http_agentstream_acp_member(b, key, &raw);
    }
}


/*
 * Errors are members of "info" and, for attempts that were repeated, of parts.
 * They are replaced in the order in which they stand in the text.
 */

ngx_int_t
ngx_http_agentstream_translate_bare(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_json_t *json, ngx_http_agentstream_acp_buf_t *b)
{
    u_char      *pos;
    ngx_str_t    text, head, tail;
    ngx_uint_t   v, info, parts;

    b->len = 0;
    b->failed = 0;

    info = ngx_http_agentstream_json_get(json, json->root, "info");
    parts = ngx_http_agentstream_json_get(json, json->root, "parts");

    text = ngx_http_agentstream_json_raw(json, json->root);
    head = ngx_http_agentstream_json_raw(json, info);
    tail = ngx_http_agentstream_json_raw(json, parts);

    pos = text.data;

    if (head.data < tail.data) {
        ngx_http_agentstream_translate_error_write(tr, b, json, info, &pos);
    }

    if (ngx_http_agentstream_json_type(json, parts)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        parts = 0;
    }

    for (v = parts ? ngx_http_agentstream_json_first(json, parts) : 0;
         v;
         v = ngx_http_agentstream_json_next(json, parts, v))
    {
        ngx_http_agentstream_translate_error_write(tr, b, json, v, &pos);
    }

    if (head.data >= tail.data) {
        ngx_http_agentstream_translate_error_write(tr, b, json, info, &pos);
    }

    text.len -= pos - text.data;
    text.data = pos;

    ngx_http_agentstream_acp_json(b, &text);

    return b->failed ? NGX_ERROR : NGX_OK;
}


/* writes the text from *pos up to the error of this object, if it has one, and
   the error */

static void
ngx_http_agentstream_translate_error_write(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_json_t *json, ngx_uint_t object, u_char **pos)
{
    ngx_str_t                       text, name, details;
    ngx_uint_t                      error;
    ngx_http_agentstream_acp_buf_t  known;

    error = ngx_http_agentstream_json_get(json, object, "error");

    if (error == 0) {
        return;
    }

    ngx_memzero(&known, sizeof(ngx_http_agentstream_acp_buf_t));

    if (ngx_http_agentstream_translate_error_details(tr, &known, json, error)
        != NGX_OK)
    {
        b->failed = 1;
    }

    text.data = *pos;
    details = ngx_http_agentstream_json_raw(json, error);
    text.len = details.data - text.data;
    *pos = details.data + details.len;

    name = ngx_http_agentstream_opencode_text(json, error, "name");
    details.data = known.start;
    details.len = known.len;

    ngx_http_agentstream_acp_json(b, &text);
    ngx_http_agentstream_acp_member_text(b, "{\"name\":", &name);
    ngx_http_agentstream_acp_member(b, ",\"data\":", &details);
    ngx_http_agentstream_acp_literal(b, "}");

    ngx_http_agentstream_acp_destroy(&known);
}


/*
 * OpenCode makes its message from the provider's answer.  If it finds no
 * message there, it uses the whole answer: "Bad Gateway: <body>", or the body
 * alone; and an error in the middle of a stream is reported as its JSON.
 */

ngx_int_t
ngx_http_agentstream_translate_error_message(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_uint_t object, ngx_str_t *message)
{
    u_char     *p;
    ngx_str_t   body;

    *message = ngx_http_agentstream_opencode_text(json, object, "message");
    *message = ngx_http_agentstream_translate_error_trim(message);

    body = ngx_http_agentstream_opencode_text(json, object, "responseBody");
    body = ngx_http_agentstream_translate_error_trim(&body);

    if (message->len == 0) {
        return NGX_OK;
    }

    if (body.len && message->len >= body.len
        && ngx_memcmp(message->data + message->len - body.len, body.data,
                      body.len) == 0)
    {
        ngx_http_agentstream_translate_error_cut(message,
                                                 message->len - body.len);
        return NGX_OK;
    }

    p = ngx_http_agentstream_translate_error_object(message);

    if (p == message->data) {
        return ngx_http_agentstream_translate_error_inner(tr, message);
    }

    if (p) {
        ngx_http_agentstream_translate_error_cut(message, p - message->data);
    }

    return NGX_OK;
}


/* length of a white-space character, escaped or not, or 0 */

static ngx_uint_t
ngx_http_agentstream_translate_error_space(u_char *p, u_char *last)
{
    if (p < last && *p == ' ') {
        return 1;
    }

    if (last - p >= 2 && *p == '\\'
        && (p[1] == 'n' || p[1] == 'r' || p[1] == 't'))
    {
        return 2;
    }

    return 0;
}


static ngx_str_t
ngx_http_agentstream_translate_error_trim(ngx_str_t *text)
{
    u_char     *p, *last;
    size_t      n;
    ngx_str_t   s;

    s = *text;

    if (s.len == 0) {
        return s;
    }

    for ( ;; ) {
        n = ngx_http_agentstream_translate_error_space(s.data, s.data + s.len);
        if (n == 0) {
            break;
        }

        s.data += n;
        s.len -= n;
    }

    last = s.data + s.len;

    while (last > s.data) {

        if (last[-1] == ' ') {
            last--;
            continue;
        }

        p = last - 2;

        if (p < s.data
            || ngx_http_agentstream_translate_error_space(p, last) != 2
            || (p > s.data && p[-1] == '\\'))
        {
            break;
        }

        last = p;
    }

    s.len = last - s.data;

    return s;
}


static void
ngx_http_agentstream_translate_error_cut(ngx_str_t *text, size_t len)
{
    text->len = len;

    *text = ngx_http_agentstream_translate_error_trim(text);

    if (text->len && text->data[text->len - 1] == ':') {
        text->len--;
    }
}


/* the start of a JSON object that reaches to the end of the text; NULL: there
   is none */

static u_char *
ngx_http_agentstream_translate_error_object(ngx_str_t *text)
{
    u_char  *p, *start, *last;
    size_t   n;

    last = text->data + text->len;

    if (text->len == 0 || last[-1] != '}') {
        return NULL;
    }

    for (p = text->data; p < last; /* void */) {

        start = memchr(p, '{', last - p);
        if (start == NULL) {
            return NULL;
        }

        p = start + 1;

        for ( ;; ) {
            n = ngx_http_agentstream_translate_error_space(p, last);
            if (n == 0) {
                break;
            }

            p += n;
        }

        if (last - p >= 2 && p[0] == '\\' && p[1] == '"') {
            return start;
        }
    }

    return NULL;
}


/* the whole text is JSON: use the message in it, if it has one */

static ngx_int_t
ngx_http_agentstream_translate_error_inner(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *text)
{
    u_char                          *p;
    ngx_int_t                        rc;
    ngx_uint_t                       v;
    ngx_http_agentstream_json_t      json;
    ngx_http_agentstream_acp_buf_t  *b;

    b = &tr->work->joined;

    b->len = 0;
    b->failed = 0;

    p = ngx_http_agentstream_acp_room(b, text->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    b->len = ngx_http_agentstream_json_decode(p, text) - p;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, p, b->len);

    ngx_str_null(text);

    if (rc == NGX_OK) {
        v = ngx_http_agentstream_json_get(&json, json.root, "message");
        *text = ngx_http_agentstream_json_string(&json, v);

        if (text->len == 0) {
            v = ngx_http_agentstream_json_get(&json, json.root, "error");
            *text = ngx_http_agentstream_opencode_text(&json, v, "message");
        }
    }

    ngx_http_agentstream_json_destroy(&json);

    return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}
