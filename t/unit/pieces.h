
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Whether a platform would accept a piece: Telegram's HTML, lengths, UTF-8; and
 * the text that is left of it.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_PIECES_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_PIECES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ngx_http_agentstream_markdown.h"


typedef struct {
    const char  *problem;
    size_t       units;     /* of the text that is left */
    ngx_uint_t   marks;
    char        *text;      /* without spaces; may be NULL */
    size_t       len;
} piece_check_t;


static void
piece_char(piece_check_t *c, const u_char *p, size_t len)
{
    c->units += (len == 4) ? 2 : 1;

    if (c->text && !(len == 1 && *p <= ' ')) {
        memcpy(c->text + c->len, p, len);
        c->len += len;
    }
}


/* the length of a valid character, or 0 */

static size_t
piece_utf8(const u_char *p, const u_char *last)
{
    size_t    n, i;
    uint32_t  code;

    if (*p < 0x80) {
        return (*p >= ' ' || *p == '\n' || *p == '\t') && *p != 0x7f;
    }

    n = (*p >= 0xf0) ? 4 : (*p >= 0xe0) ? 3 : 2;

    if (*p < 0xc2 || *p > 0xf4 || (size_t) (last - p) < n) {
        return 0;
    }

    code = *p & (0xff >> (n + 1));

    for (i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }

        code = code << 6 | (p[i] & 0x3f);
    }

    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)
        || (n == 3 && code < 0x800) || (n == 4 && code < 0x10000))
    {
        return 0;
    }

    return n;
}


/* a text without markup */

static void
piece_plain(piece_check_t *c, ngx_str_t *text)
{
    size_t   n;
    u_char  *p, *last;

    last = text->data + text->len;

    for (p = text->data; p < last; p += n) {
        n = piece_utf8(p, last);

        if (n == 0) {
            c->problem = "not UTF-8, or a control character";
            return;
        }

        piece_char(c, p, n);
    }
}


/* what Telegram's parse_mode HTML accepts, as its documentation says */

static void
piece_html(piece_check_t *c, ngx_str_t *html)
{
    size_t       n, depth;
    u_char      *p, *last;
    ngx_uint_t   i;
    const char  *stack[16];

    static const char  *tags[][2] = {
        { "b", "<b>" }, { "i", "<i>" }, { "s", "<s>" }, { "code", "<code>" },
        { "code", "<code class=\"language-" }, { "pre", "<pre>" },
        { "a", "<a href=\"" }, { "blockquote", "<blockquote>" },
        { "blockquote", "<blockquote expandable>" }, { NULL, NULL }
    };

    static const struct {
        const char  *name;
        char         c;
    } entities[] = {
        { "&lt;", '<' }, { "&gt;", '>' }, { "&amp;", '&' }, { "&quot;", '"' },
        { NULL, 0 }
    };

    n = 0;
    depth = 0;
    last = html->data + html->len;

    for (p = html->data; p < last; /* void */ ) {

        if (*p == '&') {
            for (i = 0; entities[i].name; i++) {
                n = strlen(entities[i].name);

                if ((size_t) (last - p) >= n
                    && memcmp(p, entities[i].name, n) == 0)
                {
                    break;
                }
            }

            if (entities[i].name == NULL) {
                c->problem = "an entity that is none";
                return;
            }

            piece_char(c, (u_char *) &entities[i].c, 1);
            p += n;
            continue;
        }

        if (*p == '>') {
            c->problem = "a bare >";
            return;
        }

        if (*p != '<') {
            n = piece_utf8(p, last);

            if (n == 0) {
                c->problem = "not UTF-8, or a control character";
                return;
            }

            piece_char(c, p, n);
            p += n;
            continue;
        }

        if (p + 1 < last && p[1] == '/') {

            if (depth == 0) {
                c->problem = "a tag is closed that is not open";
                return;
            }

            n = strlen(stack[--depth]);

            if ((size_t) (last - p) < n + 3
                || memcmp(p + 2, stack[depth], n) != 0 || p[n + 2] != '>')
            {
                c->problem = "tags are not nested";
                return;
            }

            p += n + 3;
            continue;
        }

        for (i = 0; tags[i][0]; i++) {
            n = strlen(tags[i][1]);

            if ((size_t) (last - p) >= n && memcmp(p, tags[i][1], n) == 0) {
                break;
            }
        }

        if (tags[i][0] == NULL || depth == 16) {
            c->problem = "an unknown tag";
            return;
        }

        p += n;

        if (p[-1] != '>') {
            while (p < last && *p != '"') {
                if (*p == '<' || *p == '>' || *p == '\n') {
                    c->problem = "an attribute that is not escaped";
                    return;
                }

                p++;
            }

            if (last - p < 2 || p[1] != '>') {
                c->problem = "an attribute that does not end";
                return;
            }

            p += 2;
        }

        for (n = 0; n < depth; n++) {
            if (strcmp(stack[n], tags[i][0]) == 0
                || strcmp(stack[n], "code") == 0
                || (strcmp(stack[n], "pre") == 0
                    && (n + 1 != depth || strcmp(tags[i][0], "code") != 0))
                || (strcmp(tags[i][0], "pre") == 0
                    && strcmp(stack[n], "blockquote") != 0)
                || (strcmp(tags[i][0], "code") == 0
                    && strcmp(stack[n], "blockquote") != 0
                    && strcmp(stack[n], "pre") != 0))
            {
                c->problem = "a tag where it must not be";
                return;
            }
        }

        stack[depth++] = tags[i][0];
        c->marks++;
    }

    if (depth) {
        c->problem = "a tag is not closed";
    }
}


static const char *
piece_problem(ngx_uint_t form, ngx_http_agentstream_markdown_limits_t *limits,
    ngx_http_agentstream_piece_t *piece, piece_check_t *c)
{
    piece_check_t  plain;

    memset(&plain, 0, sizeof(plain));
    piece_plain(&plain, &piece->plain);

    if (form == NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM) {
        piece_html(c, &piece->markup);

    } else {
        piece_plain(c, &piece->markup);
    }

    if (c->problem) {
        return c->problem;
    }

    if (plain.problem) {
        return plain.problem;
    }

    if (c->units > limits->units) {
        return "too many units";
    }

    if (plain.units > limits->units) {
        return "too many units without markup";
    }

    if (piece->markup.len > limits->bytes) {
        return "too many bytes";
    }

    if (piece->markup.len == 0 || piece->plain.len == 0) {
        return "empty";
    }

    return NULL;
}


#endif /* _NGX_HTTP_AGENTSTREAM_PIECES_H_INCLUDED_ */
