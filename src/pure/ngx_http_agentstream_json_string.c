
/*
 * Copyright (C) agentstream contributors
 */


/*
 * JSON strings: scanning, escapes, surrogates, hashes.  Allocates no memory,
 * no I/O.  Invariant: no function reads outside the slice it was given,
 * whatever the slice contains, and no function that decodes writes more bytes
 * than it has read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"

#if (__SSE2__)
#include <emmintrin.h>
#endif


#define NGX_HTTP_AGENTSTREAM_JSON_HASH_SEED   0x9e3779b97f4a7c15
#define NGX_HTTP_AGENTSTREAM_JSON_HASH_PRIME  0xd6e8feb86659fd93


static u_char *ngx_http_agentstream_json_scan_utf8(u_char *p, u_char *last);
static ngx_int_t ngx_http_agentstream_json_hex4(u_char *p, u_char *last);
static size_t ngx_http_agentstream_json_unescape(u_char *dst, u_char **src,
    u_char *last);
static size_t ngx_http_agentstream_json_utf8(u_char *dst, ngx_int_t code);
static void ngx_http_agentstream_json_unfold(u_char *p, u_char *last,
    u_char ch);
static void ngx_http_agentstream_json_hash_bytes(
    ngx_http_agentstream_json_hash_t *h, u_char *p, size_t len);


static ngx_inline uint64_t
ngx_http_agentstream_json_mix(uint64_t hash)
{
    hash *= NGX_HTTP_AGENTSTREAM_JSON_HASH_PRIME;

    return hash ^ (hash >> 32);
}


/*
 * Skips the characters that a string contains unescaped: ASCII without quote,
 * backslash and control characters.  With bit 1 flipped, the quote and the
 * control characters are exactly the bytes below 0x21; bytes above 0x7f are
 * negative in the comparison.
 */

static ngx_inline u_char *
ngx_http_agentstream_json_skip_plain(u_char *p, u_char *last)
{
#if (__SSE2__)
    int       plain;
    u_char   *next;
    __m128i   x, y;

    for (next = p + 16; next <= last; next += 16) {
        x = _mm_loadu_si128((__m128i *) p);

        y = _mm_xor_si128(x, _mm_set1_epi8(2));
        y = _mm_cmpgt_epi8(y, _mm_set1_epi8(0x20));
        x = _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'));

        plain = _mm_movemask_epi8(_mm_andnot_si128(x, y));

        if (plain != 0xffff) {
            return p + __builtin_ctz(~plain);
        }

        p = next;
    }

#else
    u_char    *next;
    uint64_t   w;

    for (next = p + 8; next <= last; next += 8) {
        ngx_memcpy(&w, p, 8);

        w |= ((w ^ 0x0202020202020202) - 0x2121212121212121)
             | ((w ^ 0x5c5c5c5c5c5c5c5c) - 0x0101010101010101);

        w &= 0x8080808080808080;

        if (w) {
#if (NGX_HAVE_LITTLE_ENDIAN)
            /* a subtraction borrows only from higher bytes, so the lowest mark
               is always right */
            return p + __builtin_ctzll(w) / 8;
#else
            break;
#endif
        }

        p = next;
    }

#endif

    while (p < last && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') {
        p++;
    }

    return p;
}


u_char *
ngx_http_agentstream_json_scan_string(u_char *p, u_char *last,
    ngx_http_agentstream_json_token_t *token)
{
    token->type = NGX_HTTP_AGENTSTREAM_JSON_STRING;

    p++;

    for ( ;; ) {
        p = ngx_http_agentstream_json_skip_plain(p, last);

        if (p == last) {
            return NULL;
        }

        if (*p == '"') {
            return p + 1;
        }

        if (*p != '\\') {

            do {
                p = ngx_http_agentstream_json_scan_utf8(p, last);
                if (p == NULL) {
                    return NULL;
                }

            } while (p < last && *p >= 0x80);

            continue;
        }

        token->type = NGX_HTTP_AGENTSTREAM_JSON_STRING
                      |NGX_HTTP_AGENTSTREAM_JSON_ESCAPED;

        p++;

        if (p == last) {
            return NULL;
        }

        /* most escapes are line ends */

        if (*p == 'n') {
            p++;
            continue;
        }

        switch (*p) {

        case '"':
        case '\\':
        case '/':
        case 'b':
        case 'f':
        case 'r':
        case 't':
            p++;
            break;

        case 'u':
            if (ngx_http_agentstream_json_hex4(p + 1, last) == NGX_ERROR) {
                return NULL;
            }

            p += 5;
            break;

        default:
            return NULL;
        }
    }
}


/* scans one character beyond ASCII; control characters end up here, too, and
   are refused */

static u_char *
ngx_http_agentstream_json_scan_utf8(u_char *p, u_char *last)
{
    u_char      min, max;
    ngx_uint_t  n;

    /* Unicode, table 3-7: only the range of the second byte depends on the
       first */

    min = 0x80;
    max = 0xbf;

    if (*p < 0xc2) {
        return NULL;
    }

    if (*p < 0xe0) {
        n = 2;

    } else if (*p < 0xf0) {
        n = 3;

        if (*p == 0xe0) {
            min = 0xa0;

        } else if (*p == 0xed) {
            max = 0x9f;
        }

    } else if (*p < 0xf5) {
        n = 4;

        if (*p == 0xf0) {
            min = 0x90;

        } else if (*p == 0xf4) {
            max = 0x8f;
        }

    } else {
        return NULL;
    }

    if ((size_t) (last - p) < n || p[1] < min || p[1] > max) {
        return NULL;
    }

    if ((n > 2 && (p[2] & 0xc0) != 0x80) || (n > 3 && (p[3] & 0xc0) != 0x80)) {
        return NULL;
    }

    return p + n;
}


ngx_uint_t
ngx_http_agentstream_json_decodes_to(ngx_str_t *escaped, const char *text,
    size_t len)
{
    size_t   n;
    u_char  *p, *last, ch[4];

    p = escaped->data;
    last = escaped->data + escaped->len;

    while (p < last) {

        if (*p == '\\') {
            n = ngx_http_agentstream_json_unescape(ch, &p, last);

        } else {
            ch[0] = *p++;
            n = 1;
        }

        if (n > len || ngx_memcmp(ch, text, n) != 0) {
            return 0;
        }

        text += n;
        len -= n;
    }

    return len == 0;
}


/* four hexadecimal digits, or NGX_ERROR */

static ngx_int_t
ngx_http_agentstream_json_hex4(u_char *p, u_char *last)
{
    u_char      ch;
    ngx_int_t   code;
    ngx_uint_t  i;

    if (last - p < 4) {
        return NGX_ERROR;
    }

    code = 0;

    for (i = 0; i < 4; i++) {
        ch = p[i];

        if (ch >= '0' && ch <= '9') {
            code = code * 16 + (ch - '0');
            continue;
        }

        ch |= 0x20;

        if (ch < 'a' || ch > 'f') {
            return NGX_ERROR;
        }

        code = code * 16 + (ch - 'a' + 10);
    }

    return code;
}


/*
 * Decodes the escape, or the pair of escapes, at *src and moves *src behind
 * it.  The result is never longer than the source.  An escape that is cut off
 * is decoded to nothing.
 */

static size_t
ngx_http_agentstream_json_unescape(u_char *dst, u_char **src, u_char *last)
{
    u_char     *p;
    ngx_int_t   code, low;

    p = *src + 1;

    if (p == last) {
        *src = last;
        return 0;
    }

    if (*p != 'u') {
        *src = p + 1;

        switch (*p) {

        case 'b':
            *dst = '\b';
            return 1;

        case 'f':
            *dst = '\f';
            return 1;

        case 'n':
            *dst = LF;
            return 1;

        case 'r':
            *dst = CR;
            return 1;

        case 't':
            *dst = '\t';
            return 1;

        default:
            *dst = *p;
            return 1;
        }
    }

    code = ngx_http_agentstream_json_hex4(p + 1, last);

    if (code == NGX_ERROR) {
        *src = last;
        return 0;
    }

    p += 5;

    if (code >= 0xd800 && code <= 0xdfff) {

        if (code <= 0xdbff && last - p >= 6 && p[0] == '\\' && p[1] == 'u') {
            low = ngx_http_agentstream_json_hex4(p + 2, last);

        } else {
            low = NGX_ERROR;
        }

        if (low >= 0xdc00 && low <= 0xdfff) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            p += 6;

        } else {
            code = 0xfffd;
        }
    }

    *src = p;

    return ngx_http_agentstream_json_utf8(dst, code);
}


static size_t
ngx_http_agentstream_json_utf8(u_char *dst, ngx_int_t code)
{
    if (code < 0x80) {
        dst[0] = (u_char) code;
        return 1;
    }

    if (code < 0x800) {
        dst[0] = (u_char) (0xc0 | (code >> 6));
        dst[1] = (u_char) (0x80 | (code & 0x3f));
        return 2;
    }

    if (code < 0x10000) {
        dst[0] = (u_char) (0xe0 | (code >> 12));
        dst[1] = (u_char) (0x80 | ((code >> 6) & 0x3f));
        dst[2] = (u_char) (0x80 | (code & 0x3f));
        return 3;
    }

    dst[0] = (u_char) (0xf0 | (code >> 18));
    dst[1] = (u_char) (0x80 | ((code >> 12) & 0x3f));
    dst[2] = (u_char) (0x80 | ((code >> 6) & 0x3f));
    dst[3] = (u_char) (0x80 | (code & 0x3f));

    return 4;
}


u_char *
ngx_http_agentstream_json_decode(u_char *dst, ngx_str_t *src)
{
    u_char  *p, *q, *last;

    if (src->len == 0) {
        return dst;
    }

    p = src->data;
    last = src->data + src->len;

    while (p < last) {
        q = memchr(p, '\\', last - p);

        if (q == NULL) {
            return ngx_movemem(dst, p, last - p);
        }

        dst = ngx_movemem(dst, p, q - p);
        dst += ngx_http_agentstream_json_unescape(dst, &q, last);

        p = q;
    }

    return dst;
}


u_char *
ngx_http_agentstream_json_escape(u_char *dst, u_char *src, size_t len)
{
    u_char               *p, *last;
    static const u_char   hex[] = "0123456789abcdef";

    if (len == 0) {
        return dst;
    }

    last = src + len;

    while (src < last) {
        p = ngx_http_agentstream_json_skip_plain(src, last);

        dst = ngx_cpymem(dst, src, p - src);
        src = p;

        if (src == last) {
            break;
        }

        if (*src >= 0x80) {
            p = ngx_http_agentstream_json_scan_utf8(src, last);

            if (p == NULL) {
                dst = ngx_cpymem(dst, "\xef\xbf\xbd", 3);
                src++;
                continue;
            }

            dst = ngx_cpymem(dst, src, p - src);
            src = p;
            continue;
        }

        *dst++ = '\\';

        switch (*src) {

        case '"':
        case '\\':
            *dst++ = *src;
            break;

        case '\b':
            *dst++ = 'b';
            break;

        case '\f':
            *dst++ = 'f';
            break;

        case LF:
            *dst++ = 'n';
            break;

        case CR:
            *dst++ = 'r';
            break;

        case '\t':
            *dst++ = 't';
            break;

        default:
            dst = ngx_cpymem(dst, "u00", 3);
            *dst++ = hex[*src >> 4];
            *dst++ = hex[*src & 0xf];
        }

        src++;
    }

    return dst;
}


u_char *
ngx_http_agentstream_json_copy(u_char *dst, ngx_str_t *src)
{
    size_t      n;
    u_char     *p, *q, *last, ch[4];
    ngx_int_t   code;

    if (src->len == 0) {
        return dst;
    }

    last = ngx_cpymem(dst, src->data, src->len);

    ngx_http_agentstream_json_unfold(dst, last, CR);
    ngx_http_agentstream_json_unfold(dst, last, LF);

    /* \ufffd has the same length as the escape that it replaces */

    for (p = dst; p < last; /* void */ ) {
        p = memchr(p, '\\', last - p);

        if (p == NULL) {
            break;
        }

        if (last - p < 6 || p[1] != 'u') {
            p += 2;
            continue;
        }

        code = ngx_http_agentstream_json_hex4(p + 2, last);

        if (code < 0xd800 || code > 0xdfff) {
            p += 6;
            continue;
        }

        q = p;
        n = ngx_http_agentstream_json_unescape(ch, &q, last);

        if (n == 3) {
            ngx_memcpy(p, "\\ufffd", 6);
        }

        p = q;
    }

    return last;
}


/* a line end can only be white space between tokens, because it is escaped in
   strings */

static void
ngx_http_agentstream_json_unfold(u_char *p, u_char *last, u_char ch)
{
    for ( ;; ) {
        p = memchr(p, ch, last - p);

        if (p == NULL) {
            return;
        }

        *p++ = ' ';
    }
}


size_t
ngx_http_agentstream_json_half_pair(ngx_str_t *escaped)
{
    u_char     *p, *last;
    ngx_int_t   code;

    if (escaped->len < 6) {
        return 0;
    }

    last = escaped->data + escaped->len;
    p = last - 6;

    if (p[0] != '\\' || p[1] != 'u') {
        return 0;
    }

    code = ngx_http_agentstream_json_hex4(p + 2, last);

    if (code < 0xd800 || code > 0xdbff) {
        return 0;
    }

    /* after an odd number of backslashes this backslash is itself escaped */

    while (p > escaped->data && p[-1] == '\\') {
        p--;
    }

    return ((last - 6 - p) & 1) ? 0 : 6;
}


void
ngx_http_agentstream_json_hash_init(ngx_http_agentstream_json_hash_t *h)
{
    h->hash = NGX_HTTP_AGENTSTREAM_JSON_HASH_SEED;
    h->len = 0;
}


/*
 * Each byte is xored into the word at its position in the text, and after
 * every eighth byte the word is mixed.  So the state depends only on the text,
 * not on how it was cut.
 */

static void
ngx_http_agentstream_json_hash_bytes(ngx_http_agentstream_json_hash_t *h,
    u_char *p, size_t len)
{
    uint64_t    hash, w;
    ngx_uint_t  i, shift, back;

    hash = h->hash;
    shift = (h->len & 7) * 8;
    back = 63 - shift;

    h->len += len;

    /* the bytes that do not fit into this word go into the next; the shift
       is made in two steps, because a shift by 64 is undefined when all
       bytes fit */

#if (NGX_HAVE_LITTLE_ENDIAN)

    for ( /* void */ ; len >= 8; len -= 8) {
        ngx_memcpy(&w, p, 8);
        p += 8;

        hash = ngx_http_agentstream_json_mix(hash ^ (w << shift));
        hash ^= w >> 1 >> back;
    }

#endif

    while (len) {
        w = 0;

        for (i = 0; i < 8 && len; i++) {
            w |= (uint64_t) *p++ << (i * 8);
            len--;
        }

        hash ^= w << shift;

        if (shift + i * 8 >= 64) {
            hash = ngx_http_agentstream_json_mix(hash);
            hash ^= w >> 1 >> back;
        }
    }

    h->hash = hash;
}


void
ngx_http_agentstream_json_hash(ngx_http_agentstream_json_hash_t *h,
    ngx_str_t *escaped)
{
    size_t   n;
    u_char  *p, *q, *last, ch[4];

    if (escaped->len == 0) {
        return;
    }

    p = escaped->data;
    last = escaped->data + escaped->len;

    while (p < last) {
        q = memchr(p, '\\', last - p);

        if (q == NULL) {
            ngx_http_agentstream_json_hash_bytes(h, p, last - p);
            return;
        }

        ngx_http_agentstream_json_hash_bytes(h, p, q - p);

        n = ngx_http_agentstream_json_unescape(ch, &q, last);
        ngx_http_agentstream_json_hash_bytes(h, ch, n);

        p = q;
    }
}


ngx_int_t
ngx_http_agentstream_json_hash_prefix(ngx_http_agentstream_json_hash_t *h,
    ngx_str_t *escaped, ngx_str_t *rest)
{
    size_t                             n;
    u_char                            *p, *q, *last, ch[4];
    ngx_http_agentstream_json_hash_t   own;

    if (h->len == 0) {
        *rest = *escaped;
        return NGX_OK;
    }

    if (escaped->len < h->len) {
        return NGX_DECLINED;
    }

    ngx_http_agentstream_json_hash_init(&own);

    p = escaped->data;
    last = escaped->data + escaped->len;

    while (own.len < h->len) {
        n = h->len - own.len;

        if ((size_t) (last - p) < n) {
            return NGX_DECLINED;
        }

        /* the most bytes that can be needed, because an escape never decodes
           to more bytes than it has */

        q = memchr(p, '\\', n);

        if (q == NULL) {
            q = p + n;
        }

        ngx_http_agentstream_json_hash_bytes(&own, p, q - p);

        p = q;

        if (own.len == h->len) {
            break;
        }

        n = ngx_http_agentstream_json_unescape(ch, &p, last);

        if (n == 0 || n > h->len - own.len) {
            return NGX_DECLINED;
        }

        ngx_http_agentstream_json_hash_bytes(&own, ch, n);
    }

    if (own.hash != h->hash || (p < last && (*p & 0xc0) == 0x80)) {
        return NGX_DECLINED;
    }

    rest->len = last - p;
    rest->data = p;

    return NGX_OK;
}
