
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Any bytes as a JSON text, and any bytes as text to be escaped.  Checked:
 * cJSON accepts what we accept; tokens are nested properly, and writing them
 * again gives a text with the same tokens; members are found by their names; a
 * copy is one line with the same tokens; escape and decode are inverse; a hash
 * does not depend on escapes or cuts, and each prefix is recognised.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <cjson/cJSON.h>

#include "ngx_http_agentstream_json.h"


#define check(x)  if (!(x)) { __builtin_trap(); }


/* where the text that walk() makes goes */

typedef struct {
    u_char  *data;
    u_char  *last;
} out_t;


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
fuzz_spans(ngx_http_agentstream_json_t *json, size_t len)
{
    ngx_uint_t                          i, n;
    ngx_http_agentstream_json_token_t  *t, *c;

    check(json->ntokens <= json->nalloc);
    check(json->root != 0);
    check(json->tokens[json->root].next == json->ntokens);

    for (i = json->root; i < json->ntokens; i++) {
        t = &json->tokens[i];

        check(t->start < t->end && t->end <= len);
        check(t->next > i && t->next <= json->ntokens);

        for (n = i + 1; n < t->next; n = c->next) {
            c = &json->tokens[n];

            check(c->start > t->start && c->end < t->end);
            check(c->next <= t->next);
            check(c->next == t->next || c->end < json->tokens[c->next].start);
        }
    }
}


static void
fuzz_cjson(ngx_http_agentstream_json_t *json, const void *text, size_t len)
{
    cJSON       *item;
    ngx_str_t    raw;
    ngx_uint_t   i;

    /* it has a buffer for numbers, and no lone surrogates */

    for (i = 0; i < json->ntokens; i++) {
        raw = ngx_http_agentstream_json_raw(json, i);

        if (ngx_http_agentstream_json_type(json, i)
            == NGX_HTTP_AGENTSTREAM_JSON_NUMBER && raw.len > 60)
        {
            return;
        }
    }

    if (memmem(text, len, "\\ud", 3) || memmem(text, len, "\\uD", 3)) {
        return;
    }

    item = cJSON_ParseWithLength(text, len);
    check(item != NULL);
    cJSON_Delete(item);
}


static void
fuzz_string(out_t *out, ngx_str_t *s)
{
    u_char  *decoded, *end;

    decoded = malloc(s->len + 1);
    end = ngx_http_agentstream_json_decode(decoded, s);
    check((size_t) (end - decoded) <= s->len);

    *out->last++ = '"';
    out->last = ngx_http_agentstream_json_escape(out->last, decoded,
                                                 end - decoded);
    *out->last++ = '"';

    free(decoded);
}


static void
fuzz_walk(ngx_http_agentstream_json_t *json, ngx_uint_t value, out_t *out)
{
    ngx_str_t   s;
    ngx_uint_t  v, type, n;

    type = ngx_http_agentstream_json_type(json, value);

    switch (type) {

    case NGX_HTTP_AGENTSTREAM_JSON_STRING:
        s = ngx_http_agentstream_json_string(json, value);
        fuzz_string(out, &s);
        return;

    case NGX_HTTP_AGENTSTREAM_JSON_OBJECT:
    case NGX_HTTP_AGENTSTREAM_JSON_ARRAY:
        break;

    default:
        s = ngx_http_agentstream_json_raw(json, value);
        out->last = ngx_cpymem(out->last, s.data, s.len);
        return;
    }

    *out->last++ = (type == NGX_HTTP_AGENTSTREAM_JSON_OBJECT) ? '{' : '[';
    n = 0;

    for (v = ngx_http_agentstream_json_first(json, value);
         v;
         v = ngx_http_agentstream_json_next(json, value, v))
    {
        if (n++) {
            *out->last++ = ',';
        }

        fuzz_walk(json, v, out);

        if (type == NGX_HTTP_AGENTSTREAM_JSON_OBJECT) {
            *out->last++ = ':';
            fuzz_walk(json, v + 1, out);
        }
    }

    *out->last++ = (type == NGX_HTTP_AGENTSTREAM_JSON_OBJECT) ? '}' : ']';
}


static void
fuzz_again(ngx_http_agentstream_json_t *json, size_t len)
{
    out_t                        one, two;
    ngx_uint_t                   i;
    ngx_http_agentstream_json_t  again;

    /* a token takes no more than its text, six times */

    one.data = one.last = malloc(len * 6 + 2);
    two.data = two.last = malloc(len * 6 + 2);

    fuzz_walk(json, json->root, &one);

    ngx_memzero(&again, sizeof(ngx_http_agentstream_json_t));

    check(ngx_http_agentstream_json_parse(&again, one.data,
                                          one.last - one.data)
          == NGX_OK);
    check(again.ntokens == json->ntokens);

    for (i = 0; i < json->ntokens; i++) {
        check(again.tokens[i].next == json->tokens[i].next);
        check(ngx_http_agentstream_json_type(&again, i)
              == ngx_http_agentstream_json_type(json, i));
    }

    fuzz_walk(&again, again.root, &two);

    check(one.last - one.data == two.last - two.data
          && ngx_memcmp(one.data, two.data, one.last - one.data) == 0);

    ngx_http_agentstream_json_destroy(&again);
    free(one.data);
    free(two.data);
}


static void
fuzz_names(ngx_http_agentstream_json_t *json)
{
    u_char      *name;
    ngx_str_t    s;
    ngx_uint_t   i, v, value;

    for (i = 0; i < ngx_min(json->ntokens, 50); i++) {

        if (ngx_http_agentstream_json_type(json, i)
            != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
        {
            continue;
        }

        for (v = ngx_http_agentstream_json_first(json, i);
             v;
             v = ngx_http_agentstream_json_next(json, i, v))
        {
            s = ngx_http_agentstream_json_string(json, v);

            name = malloc(s.len + 1);
            *ngx_http_agentstream_json_decode(name, &s) = '\0';

            value = ngx_http_agentstream_json_get(json, i, (char *) name);

            if (memmem(s.data, s.len, "\\u0000", 6) == NULL) {
                check(value > v);
                check(ngx_http_agentstream_json_is(json, value - 1,
                                                   (char *) name));
            }

            free(name);
        }
    }
}


static void
fuzz_copy(ngx_http_agentstream_json_t *json)
{
    u_char                       *copy, *end;
    ngx_str_t                     raw;
    ngx_http_agentstream_json_t   again;

    raw = ngx_http_agentstream_json_raw(json, json->root);

    copy = malloc(raw.len);
    end = ngx_http_agentstream_json_copy(copy, &raw);

    check((size_t) (end - copy) == raw.len);
    check(memchr(copy, CR, raw.len) == NULL);
    check(memchr(copy, LF, raw.len) == NULL);

    ngx_memzero(&again, sizeof(ngx_http_agentstream_json_t));

    check(ngx_http_agentstream_json_parse(&again, copy, raw.len) == NGX_OK);
    check(again.ntokens == json->ntokens);
    check(ngx_memcmp(again.tokens, json->tokens,
                     again.ntokens * sizeof(ngx_http_agentstream_json_token_t))
          == 0 || json->tokens[json->root].start != 0);

    ngx_http_agentstream_json_destroy(&again);
    free(copy);
}


/* the character, escape or pair at p */

static size_t
fuzz_unit(u_char *p, u_char *last)
{
    ngx_str_t  s;

    if (*p == '\\') {

        if (p[1] != 'u') {
            return 2;
        }

        s.len = 6;
        s.data = p;

        if (ngx_http_agentstream_json_half_pair(&s) == 6 && last - p >= 12
            && p[6] == '\\' && p[7] == 'u' && (p[8] | 0x20) == 'd'
            && strchr("cdefCDEF", p[9]) != NULL)
        {
            return 12;
        }

        return 6;
    }

    return (*p < 0x80) ? 1 : (*p < 0xe0) ? 2 : (*p < 0xf0) ? 3 : 4;
}


static void
fuzz_hash(ngx_str_t *s)
{
    out_t                              out;
    u_char                            *p, *last;
    ngx_str_t                          piece, rest, other;
    ngx_http_agentstream_json_hash_t   h, whole;

    ngx_http_agentstream_json_hash_init(&whole);
    ngx_http_agentstream_json_hash(&whole, s);

    ngx_http_agentstream_json_hash_init(&h);

    last = s->data + s->len;

    for (p = s->data; p < last; p += piece.len) {
        check(ngx_http_agentstream_json_hash_prefix(&h, s, &rest) == NGX_OK);
        check(rest.data == p && rest.len == (size_t) (last - p));

        piece.len = fuzz_unit(p, last);
        piece.data = p;

        ngx_http_agentstream_json_hash(&h, &piece);
    }

    check(p == last);
    check(h.hash == whole.hash && h.len == whole.len);
    check(ngx_http_agentstream_json_hash_prefix(&h, s, &rest) == NGX_OK);
    check(rest.len == 0);

    h.hash++;
    check(h.len == 0
          || ngx_http_agentstream_json_hash_prefix(&h, s, &rest)
             == NGX_DECLINED);

    /* escaped in another way */

    out.data = out.last = malloc(s->len * 6 + 2);
    fuzz_string(&out, s);

    other.data = out.data + 1;
    other.len = out.last - out.data - 2;

    ngx_http_agentstream_json_hash_init(&h);
    ngx_http_agentstream_json_hash(&h, &other);
    check(h.hash == whole.hash && h.len == whole.len);
    check(ngx_http_agentstream_json_hash_prefix(&h, s, &rest) == NGX_OK);
    check(rest.len == 0);

    free(out.data);
}


/* any bytes: valid UTF-8 comes back, anything becomes a valid string */

static void
fuzz_escape(const uint8_t *data, size_t size)
{
    u_char                       *copy, *text, *end, *back;
    ngx_str_t                     s;
    ngx_http_agentstream_json_t   json;

    copy = malloc(size);
    ngx_memcpy(copy, data, size);

    text = malloc(ngx_http_agentstream_json_escape_size(size) + 2);
    text[0] = '"';
    end = ngx_http_agentstream_json_escape(text + 1, copy, size);
    *end++ = '"';

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    check(ngx_http_agentstream_json_parse(&json, text, end - text) == NGX_OK);
    check(json.ntokens == 2);

    s = ngx_http_agentstream_json_string(&json, json.root);

    back = malloc(s.len);
    end = ngx_http_agentstream_json_decode(back, &s);

    if (memmem(s.data, s.len, "\xef\xbf\xbd", 3) == NULL) {
        check((size_t) (end - back) == size);
        check(ngx_memcmp(back, copy, size) == 0);
    }

    fuzz_hash(&s);

    ngx_http_agentstream_json_destroy(&json);
    free(back);
    free(text);
    free(copy);
}


/* slices that are not valid: nothing but their own bytes is touched */

static void
fuzz_slice(const uint8_t *data, size_t size)
{
    u_char                            *dst;
    ngx_str_t                          s, rest;
    ngx_http_agentstream_json_hash_t   h;

    s.len = size;
    s.data = malloc(size);
    ngx_memcpy(s.data, data, size);

    dst = malloc(size);

    check((size_t) (ngx_http_agentstream_json_decode(dst, &s) - dst) <= size);
    check((size_t) (ngx_http_agentstream_json_copy(dst, &s) - dst) == size);

    (void) ngx_http_agentstream_json_half_pair(&s);

    ngx_http_agentstream_json_hash_init(&h);
    ngx_http_agentstream_json_hash(&h, &s);
    check(h.len <= size);

    (void) ngx_http_agentstream_json_hash_prefix(&h, &s, &rest);

    free(dst);
    free(s.data);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char                       *text;
    ngx_int_t                     rc;
    ngx_str_t                     s;
    ngx_uint_t                    i;
    ngx_http_agentstream_json_t   json;

    if (size == 0) {
        return 0;
    }

    text = malloc(size);
    ngx_memcpy(text, data, size);

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, text, size);
    check(rc == NGX_OK || rc == NGX_DECLINED);

    if (rc == NGX_OK) {
        fuzz_spans(&json, size);
        fuzz_cjson(&json, text, size);
        fuzz_again(&json, size);
        fuzz_names(&json);
        fuzz_copy(&json);

        for (i = 0; i < json.ntokens; i++) {
            s = ngx_http_agentstream_json_string(&json, i);

            if (s.data) {
                fuzz_hash(&s);
            }

            (void) ngx_http_agentstream_json_integer(&json, i, 0);
        }

    } else {
        check(json.root == 0 && json.ntokens == 0);
    }

    ngx_http_agentstream_json_destroy(&json);
    free(text);

    fuzz_escape(data, size);
    fuzz_slice(data, size);

    return 0;
}
