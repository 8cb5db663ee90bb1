
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Marks inside of a paragraph, as md4c reports them: styles, code, links and
 * pictures.  Code contains no other marks and is in none, except a quote.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_markdown_int.h"


#if (NGX_HTTP_AGENTSTREAM_MD4C)

#include <md4c.h>


static ngx_int_t ngx_http_agentstream_markdown_code_span(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t enter);
static ngx_int_t ngx_http_agentstream_markdown_link(
    ngx_http_agentstream_markdown_reader_t *reader, MD_ATTRIBUTE *href);
static ngx_int_t ngx_http_agentstream_markdown_unlink(
    ngx_http_agentstream_markdown_reader_t *reader);
static ngx_int_t ngx_http_agentstream_markdown_href(
    ngx_http_agentstream_markdown_reader_t *reader, MD_ATTRIBUTE *href);
static ngx_uint_t ngx_http_agentstream_markdown_linked(ngx_str_t *href);
static ngx_uint_t ngx_http_agentstream_markdown_same(
    ngx_http_agentstream_markdown_reader_t *reader);


ngx_int_t
ngx_http_agentstream_markdown_span(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t type,
    void *detail, ngx_uint_t enter)
{
    ngx_uint_t     mark;
    MD_ATTRIBUTE  *href;

    switch (type) {

    case MD_SPAN_EM:
        mark = ngx_http_agentstream_mark_italic;
        break;

    case MD_SPAN_STRONG:
        mark = ngx_http_agentstream_mark_bold;
        break;

    case MD_SPAN_DEL:
        mark = ngx_http_agentstream_mark_strike;
        break;

    case MD_SPAN_CODE:
        return ngx_http_agentstream_markdown_code_span(reader, enter);

    case MD_SPAN_A:
    case MD_SPAN_IMG:
        href = (type == MD_SPAN_A) ? &((MD_SPAN_A_DETAIL *) detail)->href
                                   : &((MD_SPAN_IMG_DETAIL *) detail)->src;

        return enter ? ngx_http_agentstream_markdown_link(reader, href)
                     : ngx_http_agentstream_markdown_unlink(reader);

    default:
        return NGX_OK;
    }

    return enter ? ngx_http_agentstream_markdown_mark(reader, mark, NULL, 0)
                 : ngx_http_agentstream_markdown_unmark(reader, mark);
}


ngx_int_t
ngx_http_agentstream_markdown_mark(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t mark,
    u_char *data, size_t len)
{
    if (reader->depth[mark]++ || reader->table) {
        return NGX_OK;
    }

    reader->order[reader->norder++] = mark;

    return ngx_http_agentstream_markdown_add(reader->doc,
                                          ngx_http_agentstream_op_open,
                                          mark, data, len);
}


ngx_int_t
ngx_http_agentstream_markdown_unmark(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t mark)
{
    if (--reader->depth[mark] || reader->norder == 0
        || reader->order[reader->norder - 1] != mark)
    {
        return NGX_OK;
    }

    reader->norder--;

    return ngx_http_agentstream_markdown_add(reader->doc,
                                          ngx_http_agentstream_op_close,
                                          mark, NULL, 0);
}


/* styles are interrupted by code; in a link code is text */

static ngx_int_t
ngx_http_agentstream_markdown_code_span(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t enter)
{
    ngx_int_t   rc;
    ngx_uint_t  i, type;

    reader->doc->code = enter;

    if (reader->table || reader->depth[ngx_http_agentstream_mark_link]) {
        return NGX_OK;
    }

    rc = NGX_OK;

    if (!enter) {
        rc = ngx_http_agentstream_markdown_add(reader->doc,
                                          ngx_http_agentstream_op_close,
                                          ngx_http_agentstream_mark_code,
                                          NULL, 0);
    }

    type = enter ? ngx_http_agentstream_op_close
                 : ngx_http_agentstream_op_open;

    for (i = 0; i < reader->norder && rc == NGX_OK; i++) {
        rc = ngx_http_agentstream_markdown_add(reader->doc, type,
                             reader->order[enter ? reader->norder - 1 - i : i],
                             NULL, 0);
    }

    if (rc == NGX_OK && enter) {
        rc = ngx_http_agentstream_markdown_add(reader->doc,
                                          ngx_http_agentstream_op_open,
                                          ngx_http_agentstream_mark_code,
                                          NULL, 0);
    }

    return rc;
}


/* a link inside of a link, as a picture is, belongs to the outer one */

static ngx_int_t
ngx_http_agentstream_markdown_link(
    ngx_http_agentstream_markdown_reader_t *reader, MD_ATTRIBUTE *href)
{
    ngx_uint_t  mark;

    mark = ngx_http_agentstream_mark_link;

    if (reader->depth[mark]) {
        reader->depth[mark]++;
        return NGX_OK;
    }

    if (ngx_http_agentstream_markdown_href(reader, href) != NGX_OK) {
        return NGX_ERROR;
    }

    reader->link = reader->table ? reader->cells.text.nelts
                                 : reader->doc->ops.nelts;

    if (!ngx_http_agentstream_markdown_linked(&reader->href)) {
        reader->depth[mark]++;
        return NGX_OK;
    }

    return ngx_http_agentstream_markdown_mark(reader, mark, reader->href.data,
                                              reader->href.len);
}


/* the address is shown where it cannot be a link, unless it is the text */

static ngx_int_t
ngx_http_agentstream_markdown_unlink(
    ngx_http_agentstream_markdown_reader_t *reader)
{
    u_char      *p;
    size_t       len;
    ngx_uint_t   same, type;

    same = ngx_http_agentstream_markdown_same(reader);

    if (ngx_http_agentstream_markdown_unmark(reader,
                                             ngx_http_agentstream_mark_link)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (reader->depth[ngx_http_agentstream_mark_link]
        || reader->href.len == 0 || same)
    {
        return NGX_OK;
    }

    p = ngx_pnalloc(reader->doc->pool, reader->href.len + 3);
    if (p == NULL) {
        return NGX_ERROR;
    }

    len = ngx_sprintf(p, " (%V)", &reader->href) - p;

    if (reader->table) {
        return ngx_http_agentstream_markdown_table_text(&reader->cells, p,
                                                        len);
    }

    type = ngx_http_agentstream_markdown_linked(&reader->href)
           ? ngx_http_agentstream_op_href
           : ngx_http_agentstream_op_text;

    return ngx_http_agentstream_markdown_add(reader->doc, type, 0, p, len);
}


static ngx_int_t
ngx_http_agentstream_markdown_href(
    ngx_http_agentstream_markdown_reader_t *reader, MD_ATTRIBUTE *href)
{
    u_char    *p, *src;
    size_t     n, len;
    unsigned   i;

    /* an entity is not shorter than what it stands for */

    p = ngx_pnalloc(reader->doc->pool, href->size + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    reader->href.data = p;

    for (i = 0; href->size && href->substr_offsets[i] < href->size; i++) {

        src = (u_char *) href->text + href->substr_offsets[i];
        len = href->substr_offsets[i + 1] - href->substr_offsets[i];

        if (href->substr_types[i] == MD_TEXT_ENTITY) {
            n = ngx_http_agentstream_markdown_entity(p, src, len);

            if (n) {
                p += n;
                continue;
            }
        }

        p = ngx_cpymem(p, src, len);
    }

    reader->href.len = p - reader->href.data;

    return NGX_OK;
}


/* addresses that a click opens in a browser, or as a mail; others could mean
   something to the platform, as tg://user?id=1 does */

static ngx_uint_t
ngx_http_agentstream_markdown_linked(ngx_str_t *href)
{
    ngx_uint_t  i;

    static ngx_str_t  schemes[] = {
        ngx_string("http://"),
        ngx_string("https://"),
        ngx_string("mailto:"),
        ngx_null_string
    };

    if (href->len > NGX_HTTP_AGENTSTREAM_MARKDOWN_HREF) {
        return 0;
    }

    for (i = 0; schemes[i].len; i++) {
        if (href->len > schemes[i].len
            && ngx_strncasecmp(href->data, schemes[i].data, schemes[i].len)
               == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* whether the text of the link is its address, perhaps without "mailto:" */

static ngx_uint_t
ngx_http_agentstream_markdown_same(
    ngx_http_agentstream_markdown_reader_t *reader)
{
    u_char                              *p, *last;
    ngx_uint_t                           i;
    ngx_http_agentstream_markdown_op_t  *ops;

    p = reader->href.data;
    last = p + reader->href.len;

    if (reader->table) {
        i = reader->cells.text.nelts - reader->link;

        return (i == reader->href.len
                && ngx_memcmp((u_char *) reader->cells.text.elts
                              + reader->link, p, i) == 0);
    }

    if (reader->href.len > 7
        && ngx_strncasecmp(p, (u_char *) "mailto:", 7) == 0)
    {
        p += 7;
    }

    ops = reader->doc->ops.elts;

    for (i = reader->link; i < reader->doc->ops.nelts; i++) {

        if (ops[i].type != ngx_http_agentstream_op_text) {
            continue;
        }

        if (ops[i].len > (size_t) (last - p)
            || ngx_memcmp(ops[i].data, p, ops[i].len) != 0)
        {
            return 0;
        }

        p += ops[i].len;
    }

    return (p == last);
}


size_t
ngx_http_agentstream_markdown_entity(u_char *dst, u_char *p, size_t len)
{
    uint32_t    code;
    ngx_int_t   n;
    ngx_uint_t  i;

    static const struct {
        const char  *name;
        uint32_t     code;
    } names[] = {
        { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' },
        { "&apos;", '\'' }, { "&nbsp;", 0xa0 }, { "&copy;", 0xa9 },
        { "&reg;", 0xae }, { "&deg;", 0xb0 }, { "&times;", 0xd7 },
        { "&ndash;", 0x2013 }, { "&mdash;", 0x2014 }, { "&bull;", 0x2022 },
        { "&hellip;", 0x2026 }, { "&euro;", 0x20ac }, { "&larr;", 0x2190 },
        { "&rarr;", 0x2192 }, { "&le;", 0x2264 }, { "&ge;", 0x2265 },
        { NULL, 0 }
    };

    if (len > 3 && p[1] == '#') {

        n = (p[2] == 'x' || p[2] == 'X') ? ngx_hextoi(p + 3, len - 4)
                                         : ngx_atoi(p + 2, len - 3);

        /* control characters were removed from the text, and must not come
           back */

        if (n < 0x20 || (n >= 0x7f && n < 0xa0) || n > 0x10ffff
            || (n >= 0xd800 && n <= 0xdfff))
        {
            return 0;
        }

        code = n;

    } else {
        for (i = 0; names[i].name; i++) {
            if (ngx_strlen(names[i].name) == len
                && ngx_strncmp(names[i].name, p, len) == 0)
            {
                break;
            }
        }

        code = names[i].code;
    }

    if (code == 0) {
        return 0;
    }

    if (code < 0x80) {
        dst[0] = code;
        return 1;
    }

    if (code < 0x800) {
        dst[0] = 0xc0 | (code >> 6);
        dst[1] = 0x80 | (code & 0x3f);
        return 2;
    }

    if (code < 0x10000) {
        dst[0] = 0xe0 | (code >> 12);
        dst[1] = 0x80 | ((code >> 6) & 0x3f);
        dst[2] = 0x80 | (code & 0x3f);
        return 3;
    }

    dst[0] = 0xf0 | (code >> 18);
    dst[1] = 0x80 | ((code >> 12) & 0x3f);
    dst[2] = 0x80 | ((code >> 6) & 0x3f);
    dst[3] = 0x80 | (code & 0x3f);

    return 4;
}

#endif
