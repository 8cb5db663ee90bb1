
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Text for chats: what of it a platform would take for markup or a mention, how
 * it is escaped, and how long it is.  Text is UTF-8; bytes that are not are
 * taken one by one.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_markdown_int.h"


static ngx_uint_t ngx_http_agentstream_markdown_guarded(ngx_uint_t form,
    ngx_uint_t code, u_char prev, ngx_uint_t url, u_char *p, u_char *last);
static ngx_uint_t ngx_http_agentstream_markdown_word(u_char c);
static ngx_uint_t ngx_http_agentstream_markdown_slack(u_char *p,
    u_char *last);
static ngx_uint_t ngx_http_agentstream_markdown_starts(u_char *p,
    u_char *last, const char *word);


ngx_uint_t
ngx_http_agentstream_markdown_guard(
    ngx_http_agentstream_markdown_guard_t *guard, ngx_uint_t form,
    ngx_uint_t code, u_char *p, u_char *last)
{
    u_char      prev;
    ngx_uint_t  url;

    prev = guard->prev;
    url = guard->url;

    guard->prev = *p;

    if (*p <= ' ' || *p == '<' || *p == '>' || *p == '"') {
        guard->url = 0;

    } else if (url < 3) {
        guard->url = (*p == "://"[url]) ? url + 1 : (*p == ':');
    }

    switch (*p) {

    case '@':
    case '<':
    case '*':
    case '_':
    case '~':
    case '`':
    case '>':
        return ngx_http_agentstream_markdown_guarded(form, code, prev, url == 3,
                                                     p, last);
    default:
        return 0;
    }
}


/*
 * Telegram makes "@name" a mention unless it is inside of code or an address.
 * Slack makes "<!channel>", "<@U1>" and "<https://a|b>" what they are
 * everywhere.  In WhatsApp a mark counts at the beginning or end of a word.
 */

static ngx_uint_t
ngx_http_agentstream_markdown_guarded(ngx_uint_t form, ngx_uint_t code,
    u_char prev, ngx_uint_t url, u_char *p, u_char *last)
{
    ngx_uint_t  before, after;

    before = ngx_http_agentstream_markdown_word(prev);
    after = (p + 1 < last && ngx_http_agentstream_markdown_word(p[1]));

    switch (form) {

    case NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM:
        return (*p == '@' && !code && !url && !before
                && (after || p + 1 == last));

    case NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK:
        return ((*p == '<' || *p == '@')
                && ngx_http_agentstream_markdown_slack(p, last));

    case NGX_HTTP_AGENTSTREAM_MARKDOWN_WHATSAPP:

        if (*p == '`') {
            /* code must not contain what ends it */
            return (!code || p + 1 == last || p[1] == '`');
        }

        if (code || url || *p == '@' || *p == '<') {
            return 0;
        }

        if (*p == '>') {
            return (prev == LF);
        }

        /* neither inside of a word nor alone */

        return !((before && after)
                 || ((prev == ' ' || prev == LF)
                     && p + 1 < last && (p[1] == ' ' || p[1] == LF)));

    default:
        return 0;
    }
}


static ngx_uint_t
ngx_http_agentstream_markdown_word(u_char c)
{
    return ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z')
            || (c >= 'a' && c <= 'z') || c == '_');
}


static ngx_uint_t
ngx_http_agentstream_markdown_slack(u_char *p, u_char *last)
{
    ngx_uint_t  i;

    static const char  *words[] = {
        "!channel", "!here", "!everyone", "!group", "!subteam", "!date", NULL
    };

    /* "@channel" alone is one if names are linked; "@" is no letter of a
       word's beginning here */

    for (i = 0; words[i]; i++) {
        if (ngx_http_agentstream_markdown_starts(p + 1, last,
                                                 words[i] + (*p == '@')))
        {
            return 1;
        }
    }

    if (*p == '@' || ++p == last) {
        return 0;
    }

    if ((*p == '@' || *p == '#') && p + 1 < last) {
        return ngx_http_agentstream_markdown_word(p[1]);
    }

    /* an address with a text of its own */

    while (p < last && *p != '>' && *p != LF && *p != ' ' && *p != '<') {
        if (*p++ == '|') {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_agentstream_markdown_starts(u_char *p, u_char *last,
    const char *word)
{
    size_t  len;

    len = ngx_strlen(word);

    return ((size_t) (last - p) >= len
            && ngx_strncasecmp(p, (u_char *) word, len) == 0);
}


/* ngx_utf8_decode() takes any byte from 0x80 on for the next one of a
   character */

size_t
ngx_http_agentstream_markdown_char(u_char *p, u_char *last, uint32_t *code)
{
    size_t    len, i;
    uint32_t  c, min;

    if (*p < 0x80) {
        *code = *p;
        return 1;
    }

    *code = 0xfffd;

    if (*p >= 0xf0) {
        len = 4;
        min = 0x10000;

    } else if (*p >= 0xe0) {
        len = 3;
        min = 0x800;

    } else {
        len = 2;
        min = 0x80;
    }

    if (*p < 0xc0 || *p > 0xf7 || (size_t) (last - p) < len) {
        return 1;
    }

    c = *p & (0xff >> (len + 1));

    for (i = 1; i < len; i++) {

        if ((p[i] & 0xc0) != 0x80) {
            return 1;
        }

        c = (c << 6) | (p[i] & 0x3f);
    }

    if (c < min || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
        return 1;
    }

    *code = c;

    return len;
}


/* control characters cannot be shown, and platforms refuse some of them */

ngx_int_t
ngx_http_agentstream_markdown_clean(ngx_pool_t *pool, ngx_str_t *text,
    ngx_str_t *clean)
{
    size_t     len;
    u_char    *p, *dst, *last;
    uint32_t   code;

    if (text->len == 0) {
        ngx_str_set(clean, "");
        return NGX_OK;
    }

    clean->data = ngx_pnalloc(pool, text->len * 3);
    if (clean->data == NULL) {
        return NGX_ERROR;
    }

    dst = clean->data;
    last = text->data + text->len;

    for (p = text->data; p < last; p += len) {

        len = ngx_http_agentstream_markdown_char(p, last, &code);

        if (code == 0xfffd && len == 1) {
            dst = ngx_cpymem(dst, "\xef\xbf\xbd", 3);

        } else if ((code >= 0x20 && code != 0x7f
                    && (code < 0x80 || code >= 0xa0))
                   || code == LF || code == '\t')
        {
            dst = ngx_cpymem(dst, p, len);
        }
    }

    clean->len = dst - clean->data;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_markdown_safe(ngx_pool_t *pool, ngx_uint_t form,
    ngx_str_t *text, ngx_str_t *safe)
{
    size_t                                  n, zero;
    u_char                                 *p, *dst, *last;
    ngx_str_t                               clean;
    ngx_http_agentstream_markdown_guard_t   guard;

    if (ngx_http_agentstream_markdown_clean(pool, text, &clean) != NGX_OK) {
        return NGX_ERROR;
    }

    last = clean.data + clean.len;
    zero = sizeof(NGX_HTTP_AGENTSTREAM_MARKDOWN_ZERO) - 1;
    n = 0;

    guard.prev = LF;
    guard.url = 0;

    for (p = clean.data; p < last; p++) {
        n += ngx_http_agentstream_markdown_guard(&guard, form, 0, p, last);
    }

    if (n == 0) {
        *safe = clean;
        return NGX_OK;
    }

    dst = ngx_pnalloc(pool, clean.len + n * zero);
    if (dst == NULL) {
        return NGX_ERROR;
    }

    safe->data = dst;

    guard.prev = LF;
    guard.url = 0;

    for (p = clean.data; p < last; p++) {
        *dst++ = *p;

        if (ngx_http_agentstream_markdown_guard(&guard, form, 0, p, last)) {
            dst = ngx_cpymem(dst, NGX_HTTP_AGENTSTREAM_MARKDOWN_ZERO, zero);
        }
    }

    safe->len = dst - safe->data;

    return NGX_OK;
}


size_t
ngx_http_agentstream_markdown_escape_len(ngx_uint_t form, ngx_str_t *safe)
{
    if (form != NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM) {
        return safe->len;
    }

    return safe->len + ngx_escape_html(NULL, safe->data, safe->len);
}


u_char *
ngx_http_agentstream_markdown_escape(u_char *dst, ngx_uint_t form,
    ngx_str_t *safe)
{
    if (form != NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM) {
        return ngx_cpymem(dst, safe->data, safe->len);
    }

    return (u_char *) ngx_escape_html(dst, safe->data, safe->len);
}


size_t
ngx_http_agentstream_markdown_units(ngx_str_t *text)
{
    u_char    *p, *last;
    size_t     n;
    uint32_t   code;

    if (text->len == 0) {
        return 0;
    }

    n = 0;
    last = text->data + text->len;

    for (p = text->data; p < last; /* void */ ) {
        p += ngx_http_agentstream_markdown_char(p, last, &code);
        n += 1 + (code > 0xffff);
    }

    return n;
}


size_t
ngx_http_agentstream_markdown_head(ngx_str_t *text, size_t units)
{
    u_char    *p, *last;
    size_t     n, len;
    uint32_t   code;

    if (text->len == 0) {
        return 0;
    }

    n = 0;
    last = text->data + text->len;

    for (p = text->data; p < last; p += len) {
        len = ngx_http_agentstream_markdown_char(p, last, &code);
        n += 1 + (code > 0xffff);

        if (n > units) {
            break;
        }
    }

    return p - text->data;
}


size_t
ngx_http_agentstream_markdown_tail(ngx_str_t *text, size_t units)
{
    u_char    *p, *q, *last;
    size_t     n;
    uint32_t   code;

    if (text->len == 0) {
        return 0;
    }

    n = 0;
    last = text->data + text->len;

    for (p = last; p > text->data; p = q) {

        for (q = p - 1;
             q > text->data && (*q & 0xc0) == 0x80 && p - q < 4;
             q--)
        {
            /* void */
        }

        (void) ngx_http_agentstream_markdown_char(q, p, &code);
        n += 1 + (code > 0xffff);

        if (n > units) {
            break;
        }
    }

    return last - p;
}


ngx_uint_t
ngx_http_agentstream_markdown_columns(uint32_t code)
{
    if ((code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200f)
        || (code >= 0xfe00 && code <= 0xfe0f))
    {
        return 0;
    }

    return 1 + ((code >= 0x1100 && code <= 0x115f)
                || (code >= 0x2e80 && code <= 0xa4cf)
                || (code >= 0xac00 && code <= 0xd7a3)
                || (code >= 0xf900 && code <= 0xfaff)
                || (code >= 0xfe30 && code <= 0xfe6f)
                || (code >= 0xff00 && code <= 0xff60)
                || (code >= 0x1f300 && code <= 0x1faff)
                || (code >= 0x20000 && code <= 0x3fffd));
}
