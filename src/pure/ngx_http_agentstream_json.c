
/*
 * Copyright (C) agentstream contributors
 */


/*
 * JSON texts: one pass that validates and indexes a text, and access to the
 * index.  Pure: malloc() only, no pool, no log, no I/O.  Invariant: after
 * NGX_OK each token but the reserved one spans a valid value of the text, and
 * its "next" is the first token outside of it; after anything else there are
 * no tokens, and every accessor answers "absent".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"


#define NGX_HTTP_AGENTSTREAM_JSON_MIN_TOKENS   64
#define NGX_HTTP_AGENTSTREAM_JSON_KEEP_TOKENS  65536

#define ngx_http_agentstream_json_is_space(c)                                 \
    ((c) == ' ' || (c) == '\t' || (c) == CR || (c) == LF)


/* what comes next: a value, a name in an object, or what follows a value */

typedef enum {
    sw_value = 0,
    sw_name,
    sw_next
} ngx_http_agentstream_json_state_e;


static ngx_int_t ngx_http_agentstream_json_index(
    ngx_http_agentstream_json_t *json, u_char *last);
static ngx_http_agentstream_json_token_t *ngx_http_agentstream_json_add(
    ngx_http_agentstream_json_t *json, u_char *p);
static ngx_int_t ngx_http_agentstream_json_grow(
    ngx_http_agentstream_json_t *json);
static void ngx_http_agentstream_json_open(ngx_http_agentstream_json_t *json,
    uint32_t *open, u_char ch);
static ngx_int_t ngx_http_agentstream_json_close(
    ngx_http_agentstream_json_t *json, uint32_t *open, u_char *p);
static u_char *ngx_http_agentstream_json_scan_name(u_char *p, u_char *last,
    ngx_http_agentstream_json_token_t *token);
static u_char *ngx_http_agentstream_json_scan_scalar(u_char *p, u_char *last,
    ngx_http_agentstream_json_token_t *token);
static u_char *ngx_http_agentstream_json_scan_word(u_char *p, u_char *last,
    const char *word, size_t len);
static u_char *ngx_http_agentstream_json_scan_number(u_char *p, u_char *last);
static u_char *ngx_http_agentstream_json_scan_digits(u_char *p, u_char *last);
static ngx_uint_t ngx_http_agentstream_json_equal(
    ngx_http_agentstream_json_t *json, ngx_uint_t value, const char *text,
    size_t len);


ngx_int_t
ngx_http_agentstream_json_parse(ngx_http_agentstream_json_t *json,
    u_char *text, size_t len)
{
    ngx_int_t  rc;

    if (json->nalloc > NGX_HTTP_AGENTSTREAM_JSON_KEEP_TOKENS) {
        ngx_http_agentstream_json_destroy(json);
    }

    json->text = text;
    json->root = 0;
    json->ntokens = 1;

    if (len == 0 || (uint64_t) len > 0xffffffff) {
        rc = NGX_DECLINED;

    } else {
        rc = ngx_http_agentstream_json_index(json, text + len);
    }

    if (rc != NGX_OK) {
        json->ntokens = 0;
        return rc;
    }

    json->root = 1;

    return NGX_OK;
}


/* adds a token for each value of the text and for each name in an object */

static ngx_int_t
ngx_http_agentstream_json_index(ngx_http_agentstream_json_t *json,
    u_char *last)
{
    u_char                              ch, *p;
    uint32_t                            open;
    ngx_uint_t                          depth;
    ngx_http_agentstream_json_state_e   state;
    ngx_http_agentstream_json_token_t  *token;

    open = 0;
    depth = 0;
    state = sw_value;

    for (p = json->text; p < last; /* void */ ) {
        ch = *p;

        if (ngx_http_agentstream_json_is_space(ch)) {
            p++;
            continue;
        }

        if (ch == '}' || ch == ']') {

            /* allowed after a value, or directly after the opening bracket */

            if (depth == 0
                || (state != sw_next && open + 1 != json->ntokens)
                || ngx_http_agentstream_json_close(json, &open, p) != NGX_OK)
            {
                return NGX_DECLINED;
            }

            p++;
            depth--;
            state = sw_next;
            continue;
        }

        if (state == sw_next) {

            if (depth == 0 || ch != ',') {
                return NGX_DECLINED;
            }

            p++;
            state = (json->tokens[open].type
                     == NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
                    ? sw_name : sw_value;
            continue;
        }

        token = ngx_http_agentstream_json_add(json, p);

        if (token == NULL) {
            return NGX_ERROR;
        }

        if (state == sw_name) {
            p = ngx_http_agentstream_json_scan_name(p, last, token);
            state = sw_value;

        } else if (ch != '{' && ch != '[') {
            p = ngx_http_agentstream_json_scan_scalar(p, last, token);
            state = sw_next;

        } else if (depth++ < NGX_HTTP_AGENTSTREAM_JSON_MAX_DEPTH) {
            ngx_http_agentstream_json_open(json, &open, *p++);
            state = (ch == '{') ? sw_name : sw_value;

        } else {
            return NGX_DECLINED;
        }

        if (p == NULL) {
            return NGX_DECLINED;
        }
    }

    return (state == sw_next && depth == 0) ? NGX_OK : NGX_DECLINED;
}


static ngx_http_agentstream_json_token_t *
ngx_http_agentstream_json_add(ngx_http_agentstream_json_t *json, u_char *p)
{
    ngx_http_agentstream_json_token_t  *token;

    if (json->ntokens >= json->nalloc
        && ngx_http_agentstream_json_grow(json) != NGX_OK)
    {
        return NULL;
    }

    token = &json->tokens[json->ntokens++];
    token->start = p - json->text;
    token->next = json->ntokens;

    return token;
}


static ngx_int_t
ngx_http_agentstream_json_grow(ngx_http_agentstream_json_t *json)
{
    void        *p;
    ngx_uint_t   n;

    n = json->nalloc ? json->nalloc * 2 : NGX_HTTP_AGENTSTREAM_JSON_MIN_TOKENS;

    p = realloc(json->tokens, n * sizeof(ngx_http_agentstream_json_token_t));
    if (p == NULL) {
        return NGX_ERROR;
    }

    json->tokens = p;
    json->nalloc = n;

    /* token 0, which means "absent", has the type NONE */
    ngx_memzero(json->tokens, sizeof(ngx_http_agentstream_json_token_t));

    return NGX_OK;
}


/* while a container is open, its "next" is the container around it */

static void
ngx_http_agentstream_json_open(ngx_http_agentstream_json_t *json,
    uint32_t *open, u_char ch)
{
    ngx_http_agentstream_json_token_t  *token;

    token = &json->tokens[json->ntokens - 1];

    token->next = *open;
    token->type = (ch == '{') ? NGX_HTTP_AGENTSTREAM_JSON_OBJECT
                              : NGX_HTTP_AGENTSTREAM_JSON_ARRAY;

    *open = json->ntokens - 1;
}


static ngx_int_t
ngx_http_agentstream_json_close(ngx_http_agentstream_json_t *json,
    uint32_t *open, u_char *p)
{
    ngx_uint_t                          type;
    ngx_http_agentstream_json_token_t  *token;

    token = &json->tokens[*open];
    type = (*p == '}') ? NGX_HTTP_AGENTSTREAM_JSON_OBJECT
                       : NGX_HTTP_AGENTSTREAM_JSON_ARRAY;

    if (token->type != type) {
        return NGX_DECLINED;
    }

    *open = token->next;

    token->end = p + 1 - json->text;
    token->next = json->ntokens;

    return NGX_OK;
}


static u_char *
ngx_http_agentstream_json_scan_name(u_char *p, u_char *last,
    ngx_http_agentstream_json_token_t *token)
{
    u_char  *start;

    if (*p != '"') {
        return NULL;
    }

    start = p;

    p = ngx_http_agentstream_json_scan_string(p, last, token);
    if (p == NULL) {
        return NULL;
    }

    token->end = token->start + (p - start);

    while (p < last && ngx_http_agentstream_json_is_space(*p)) {
        p++;
    }

    if (p == last || *p != ':') {
        return NULL;
    }

    return p + 1;
}


static u_char *
ngx_http_agentstream_json_scan_scalar(u_char *p, u_char *last,
    ngx_http_agentstream_json_token_t *token)
{
    u_char  *start;

    start = p;

    switch (*p) {

    case '"':
        p = ngx_http_agentstream_json_scan_string(p, last, token);
        break;

    case 't':
        token->type = NGX_HTTP_AGENTSTREAM_JSON_TRUE;
        p = ngx_http_agentstream_json_scan_word(p, last, "true", 4);
        break;

    case 'f':
        token->type = NGX_HTTP_AGENTSTREAM_JSON_FALSE;
        p = ngx_http_agentstream_json_scan_word(p, last, "false", 5);
        break;

    case 'n':
        token->type = NGX_HTTP_AGENTSTREAM_JSON_NULL;
        p = ngx_http_agentstream_json_scan_word(p, last, "null", 4);
        break;

    default:
        token->type = NGX_HTTP_AGENTSTREAM_JSON_NUMBER;
        p = ngx_http_agentstream_json_scan_number(p, last);
    }

    if (p == NULL) {
        return NULL;
    }

    token->end = token->start + (p - start);

    return p;
}


static u_char *
ngx_http_agentstream_json_scan_word(u_char *p, u_char *last, const char *word,
    size_t len)
{
    if ((size_t) (last - p) < len || ngx_memcmp(p, word, len) != 0) {
        return NULL;
    }

    return p + len;
}


static u_char *
ngx_http_agentstream_json_scan_number(u_char *p, u_char *last)
{
    if (*p == '-') {
        p++;
    }

    if (p < last && *p == '0') {
        p++;

    } else {
        p = ngx_http_agentstream_json_scan_digits(p, last);
        if (p == NULL) {
            return NULL;
        }
    }

    if (p < last && *p == '.') {
        p = ngx_http_agentstream_json_scan_digits(p + 1, last);
        if (p == NULL) {
            return NULL;
        }
    }

    if (p < last && (*p == 'e' || *p == 'E')) {
        p++;

        if (p < last && (*p == '+' || *p == '-')) {
            p++;
        }

        p = ngx_http_agentstream_json_scan_digits(p, last);
    }

    return p;
}


static u_char *
ngx_http_agentstream_json_scan_digits(u_char *p, u_char *last)
{
    u_char  *start;

    start = p;

    while (p < last && *p >= '0' && *p <= '9') {
        p++;
    }

    return (p == start) ? NULL : p;
}


void
ngx_http_agentstream_json_destroy(ngx_http_agentstream_json_t *json)
{
    free(json->tokens);

    ngx_memzero(json, sizeof(ngx_http_agentstream_json_t));
}


ngx_uint_t
ngx_http_agentstream_json_type(ngx_http_agentstream_json_t *json,
    ngx_uint_t value)
{
    if (value >= json->ntokens) {
        return NGX_HTTP_AGENTSTREAM_JSON_NONE;
    }

    return json->tokens[value].type & ~NGX_HTTP_AGENTSTREAM_JSON_ESCAPED;
}


ngx_uint_t
ngx_http_agentstream_json_get(ngx_http_agentstream_json_t *json,
    ngx_uint_t object, const char *name)
{
    size_t                              len;
    ngx_uint_t                          i, found;
    ngx_http_agentstream_json_token_t  *tokens;

    if (ngx_http_agentstream_json_type(json, object)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return 0;
    }

    len = ngx_strlen(name);
    tokens = json->tokens;
    found = 0;

    for (i = object + 1; i < tokens[object].next; i = tokens[i + 1].next) {

        if (tokens[i].type & NGX_HTTP_AGENTSTREAM_JSON_ESCAPED) {

            if (ngx_http_agentstream_json_equal(json, i, name, len)) {
                found = i + 1;
            }

        } else if (tokens[i].end - tokens[i].start - 2 == len
                   && ngx_memcmp(json->text + tokens[i].start + 1, name, len)
                      == 0)
        {
            found = i + 1;
        }
    }

    return found;
}


ngx_uint_t
ngx_http_agentstream_json_first(ngx_http_agentstream_json_t *json,
    ngx_uint_t container)
{
    ngx_uint_t  type;

    type = ngx_http_agentstream_json_type(json, container);

    if (type != NGX_HTTP_AGENTSTREAM_JSON_OBJECT
        && type != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return 0;
    }

    if (json->tokens[container].next == container + 1) {
        return 0;
    }

    return container + 1;
}


ngx_uint_t
ngx_http_agentstream_json_next(ngx_http_agentstream_json_t *json,
    ngx_uint_t container, ngx_uint_t value)
{
    if (json->tokens[container].type == NGX_HTTP_AGENTSTREAM_JSON_OBJECT) {
        value++;
    }

    value = json->tokens[value].next;

    return (value < json->tokens[container].next) ? value : 0;
}


ngx_str_t
ngx_http_agentstream_json_raw(ngx_http_agentstream_json_t *json,
    ngx_uint_t value)
{
    ngx_str_t                           s;
    ngx_http_agentstream_json_token_t  *token;

    if (value >= json->ntokens) {
        ngx_str_null(&s);
        return s;
    }

    token = &json->tokens[value];

    s.len = token->end - token->start;
    s.data = json->text + token->start;

    return s;
}


ngx_str_t
ngx_http_agentstream_json_string(ngx_http_agentstream_json_t *json,
    ngx_uint_t value)
{
    ngx_str_t  s;

    if (ngx_http_agentstream_json_type(json, value)
        != NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        ngx_str_null(&s);
        return s;
    }

    s = ngx_http_agentstream_json_raw(json, value);

    s.len -= 2;
    s.data++;

    return s;
}


ngx_uint_t
ngx_http_agentstream_json_is(ngx_http_agentstream_json_t *json,
    ngx_uint_t value, const char *text)
{
    if (ngx_http_agentstream_json_type(json, value)
        != NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        return 0;
    }

    return ngx_http_agentstream_json_equal(json, value, text,
                                           ngx_strlen(text));
}


static ngx_uint_t
ngx_http_agentstream_json_equal(ngx_http_agentstream_json_t *json,
    ngx_uint_t value, const char *text, size_t len)
{
    ngx_str_t  s;

    s = ngx_http_agentstream_json_string(json, value);

    if (json->tokens[value].type & NGX_HTTP_AGENTSTREAM_JSON_ESCAPED) {
        return ngx_http_agentstream_json_decodes_to(&s, text, len);
    }

    return s.len == len && ngx_memcmp(s.data, text, len) == 0;
}


int64_t
ngx_http_agentstream_json_integer(ngx_http_agentstream_json_t *json,
    ngx_uint_t value, int64_t dflt)
{
    size_t      i;
    uint64_t    n, max;
    ngx_str_t   s;
    ngx_uint_t  digit, minus;

    if (ngx_http_agentstream_json_type(json, value)
        != NGX_HTTP_AGENTSTREAM_JSON_NUMBER)
    {
        return dflt;
    }

    s = ngx_http_agentstream_json_raw(json, value);

    minus = (s.data[0] == '-');
    max = (uint64_t) 0x7fffffffffffffff + minus;
    n = 0;

    for (i = minus; i < s.len; i++) {

        if (s.data[i] < '0' || s.data[i] > '9') {
            return dflt;
        }

        digit = s.data[i] - '0';

        if (n > (max - digit) / 10) {
            return dflt;
        }

        n = n * 10 + digit;
    }

    return minus ? (int64_t) (0 - n) : (int64_t) n;
}
