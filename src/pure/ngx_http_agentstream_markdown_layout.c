
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Cuts a document into pieces.  It is read character by character, and written
 * twice at the same time, as markup and without it, at first only to count.
 * When one of them exceeds a limit, the piece ends at the best place before:
 * between blocks, lines or words.  Marks that are open there are closed, and
 * opened again in the next piece.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_markdown_int.h"


/* how good a place is to end a piece */

typedef enum {
    ngx_http_agentstream_layout_char = 0,
    ngx_http_agentstream_layout_space,
    ngx_http_agentstream_layout_line,
    ngx_http_agentstream_layout_block,

    ngx_http_agentstream_layout_ranks
} ngx_http_agentstream_layout_rank_e;


typedef struct {
    ngx_uint_t                           form;
    u_char                              *p;        /* NULL: only count */
    size_t                               bytes;
    size_t                               units;
    ngx_uint_t                           marks;
    size_t                               rest;     /* bytes that close what is
                                                      open */
    ngx_uint_t                           nwritten; /* marks of the stack that
                                                      were written; a mark is
                                                      written with its first
                                                      character */
    unsigned                             quote:1;  /* the next character begins
                                                      a line in a quote */
} ngx_http_agentstream_layout_writer_t;


typedef struct {
    ngx_uint_t                           op;
    size_t                               offset;
    size_t                               units;    /* when it was passed */
    size_t                               markup;   /* bytes up to here */
    size_t                               plain;
    unsigned                             set:1;
} ngx_http_agentstream_layout_place_t;


typedef struct {
    ngx_http_agentstream_markdown_doc_t    *doc;
    ngx_http_agentstream_layout_writer_t    markup;
    ngx_http_agentstream_layout_writer_t    plain;
    ngx_http_agentstream_markdown_op_t     *stack[ngx_http_agentstream_marks];
    ngx_uint_t                              nstack;
    ngx_uint_t                              op;
    size_t                                  offset;
    unsigned                                seen:1;  /* something can be
                                                        seen */
    unsigned                                line:1;  /* the last piece ended
                                                        with its line */
} ngx_http_agentstream_layout_t;


static ngx_int_t ngx_http_agentstream_markdown_scan(
    ngx_http_agentstream_layout_t *l,
    ngx_http_agentstream_markdown_limits_t *limits,
    ngx_http_agentstream_layout_place_t *end);
static void ngx_http_agentstream_markdown_pass(ngx_http_agentstream_layout_t *l,
    ngx_http_agentstream_layout_place_t *places);
static void ngx_http_agentstream_markdown_choose(
    ngx_http_agentstream_layout_t *l,
    ngx_http_agentstream_layout_place_t *places,
    ngx_http_agentstream_layout_place_t *end);
static ngx_int_t ngx_http_agentstream_markdown_write(
    ngx_http_agentstream_layout_t *l, ngx_pool_t *pool,
    ngx_http_agentstream_layout_place_t *end, ngx_array_t *pieces);
static void ngx_http_agentstream_markdown_step(
    ngx_http_agentstream_layout_t *l);
static ngx_uint_t ngx_http_agentstream_markdown_skip(
    ngx_http_agentstream_layout_t *l, u_char c);
static ngx_uint_t ngx_http_agentstream_markdown_in(
    ngx_http_agentstream_layout_t *l, ngx_uint_t mark);
static void ngx_http_agentstream_markdown_pop(ngx_http_agentstream_layout_t *l);
static void ngx_http_agentstream_markdown_put(
    ngx_http_agentstream_layout_t *l, ngx_http_agentstream_layout_writer_t *w,
    u_char *p, size_t len, uint32_t code);
static void ngx_http_agentstream_markdown_open(
    ngx_http_agentstream_layout_writer_t *w,
    ngx_http_agentstream_markdown_op_t *op);
static void ngx_http_agentstream_markdown_close(
    ngx_http_agentstream_layout_writer_t *w,
    ngx_http_agentstream_markdown_op_t *op);
static void ngx_http_agentstream_markdown_open_pre(
    ngx_http_agentstream_layout_writer_t *w,
    ngx_http_agentstream_markdown_op_t *op);
static void ngx_http_agentstream_markdown_shut(
    ngx_http_agentstream_layout_writer_t *w,
    ngx_http_agentstream_markdown_op_t *op);
static void ngx_http_agentstream_markdown_raw(
    ngx_http_agentstream_layout_writer_t *w, const void *data, size_t len);
static void ngx_http_agentstream_markdown_restart(
    ngx_http_agentstream_layout_t *l);


/* what opens and closes a mark, by form; quotes in forms without HTML are made
   at the beginning of each line */

#define ngx_http_agentstream_layout_none  { ngx_null_string, ngx_null_string }
#define ngx_http_agentstream_layout_pair(a, b)                                \
    { ngx_string(a), ngx_string(b) }

static const ngx_str_t  ngx_http_agentstream_layout_marks[]
    [ngx_http_agentstream_marks][2] =
{
    {
        ngx_http_agentstream_layout_none
    }, {
        ngx_http_agentstream_layout_pair("<b>", "</b>"),
        ngx_http_agentstream_layout_pair("<i>", "</i>"),
        ngx_http_agentstream_layout_pair("<s>", "</s>"),
        ngx_http_agentstream_layout_pair("<code>", "</code>"),
        ngx_http_agentstream_layout_pair("<pre>", "</pre>"),
        ngx_http_agentstream_layout_pair("<a href=\"", "</a>"),
        ngx_http_agentstream_layout_pair("<blockquote>", "</blockquote>"),
        ngx_http_agentstream_layout_pair("<blockquote expandable>",
                                         "</blockquote>")
    }, {
        ngx_http_agentstream_layout_none
    }, {
        ngx_http_agentstream_layout_pair("*", "*"),
        ngx_http_agentstream_layout_pair("_", "_"),
        ngx_http_agentstream_layout_pair("~", "~"),
        ngx_http_agentstream_layout_pair("`", "`")
    }
};


ngx_int_t
ngx_http_agentstream_markdown_layout(ngx_http_agentstream_markdown_doc_t *doc,
    ngx_pool_t *pool, ngx_http_agentstream_markdown_limits_t *limits,
    ngx_array_t *pieces)
{
    ngx_http_agentstream_layout_t        layout, scan;
    ngx_http_agentstream_layout_place_t  end;

    ngx_memzero(&layout, sizeof(ngx_http_agentstream_layout_t));

    layout.doc = doc;
    layout.markup.form = doc->form;

    while (layout.op < doc->ops.nelts) {

        ngx_http_agentstream_markdown_restart(&layout);

        scan = layout;

        if (ngx_http_agentstream_markdown_scan(&scan, limits, &end) != NGX_OK) {
            /* only spaces are left */
            return NGX_OK;
        }

        if (ngx_http_agentstream_markdown_write(&layout, pool, &end, pieces)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* no mark is written at the beginning of a piece */

static void
ngx_http_agentstream_markdown_restart(ngx_http_agentstream_layout_t *l)
{
    ngx_uint_t                             i;
    ngx_http_agentstream_layout_writer_t  *w;

    l->seen = 0;

    for (i = 0; i < 2; i++) {
        w = i ? &l->plain : &l->markup;

        w->p = NULL;
        w->bytes = 0;
        w->units = 0;
        w->marks = 0;
        w->rest = 0;
        w->nwritten = 0;
        w->quote = 0;
    }
}


/* where the piece ends; NGX_DECLINED: nothing can be seen in it */

static ngx_int_t
ngx_http_agentstream_markdown_scan(ngx_http_agentstream_layout_t *l,
    ngx_http_agentstream_markdown_limits_t *limits,
    ngx_http_agentstream_layout_place_t *end)
{
    ngx_http_agentstream_layout_place_t
        places[ngx_http_agentstream_layout_ranks];

    ngx_memzero(places, sizeof(places));

    while (l->op < l->doc->ops.nelts) {

        ngx_http_agentstream_markdown_pass(l, places);
        ngx_http_agentstream_markdown_step(l);

        if ((l->markup.units
             + (l->doc->form == NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM
                ? 0 : l->markup.rest)
             > limits->units
             || l->markup.bytes + l->markup.rest > limits->bytes
             || l->markup.marks > limits->marks
             || l->plain.units + l->plain.rest > limits->units)
            && places[ngx_http_agentstream_layout_char].set)
        {
            ngx_http_agentstream_markdown_choose(l, places, end);
            return NGX_OK;
        }
    }

    end->op = l->op;
    end->offset = 0;
    end->markup = l->markup.bytes + l->markup.rest;
    end->plain = l->plain.bytes + l->plain.rest;

    return l->seen ? NGX_OK : NGX_DECLINED;
}


/* remembers the place before what comes next */

static void
ngx_http_agentstream_markdown_pass(ngx_http_agentstream_layout_t *l,
    ngx_http_agentstream_layout_place_t *places)
{
    size_t                                len;
    u_char                               *p;
    uint32_t                              code;
    ngx_uint_t                            rank;
    ngx_http_agentstream_markdown_op_t   *op;
    ngx_http_agentstream_layout_place_t  *place;

    if (!l->seen) {
        return;
    }

    op = (ngx_http_agentstream_markdown_op_t *) l->doc->ops.elts + l->op;

    if (op->type == ngx_http_agentstream_op_break) {
        rank = ngx_http_agentstream_layout_block;

    } else if (op->type == ngx_http_agentstream_op_open
               || op->type == ngx_http_agentstream_op_close
               || op->len == 0)
    {
        return;

    } else {
        p = op->data + l->offset;

        switch (*p) {

        case LF:
            rank = ngx_http_agentstream_layout_line;
            break;

        case ' ':
            rank = ngx_http_agentstream_layout_space;
            break;

        default:
            len = ngx_http_agentstream_markdown_char(p, op->data + op->len,
                                                     &code);

            /* what belongs to the character before it */

            if (len > 1 && (ngx_http_agentstream_markdown_columns(code) == 0
                            || (code >= 0x1f3fb && code <= 0x1f3ff)))
            {
                return;
            }

            rank = ngx_http_agentstream_layout_char;
        }
    }

    place = &places[rank];

    place->op = l->op;
    place->offset = l->offset;
    place->units = l->plain.units;
    place->markup = l->markup.bytes + l->markup.rest;
    place->plain = l->plain.bytes + l->plain.rest;
    place->set = 1;

    /* a place of a higher rank can be used as one of the lowest */

    if (rank != ngx_http_agentstream_layout_char) {
        places[ngx_http_agentstream_layout_char] = *place;
    }
}


/* the highest rank, unless the piece would become rather short */

static void
ngx_http_agentstream_markdown_choose(ngx_http_agentstream_layout_t *l,
    ngx_http_agentstream_layout_place_t *places,
    ngx_http_agentstream_layout_place_t *end)
{
    ngx_uint_t  rank;

    for (rank = ngx_http_agentstream_layout_block; rank > 0; rank--) {

        if (places[rank].set && places[rank].units * 4 >= l->plain.units) {
            break;
        }
    }

    *end = places[rank];
}


static ngx_int_t
ngx_http_agentstream_markdown_write(ngx_http_agentstream_layout_t *l,
    ngx_pool_t *pool, ngx_http_agentstream_layout_place_t *end,
    ngx_array_t *pieces)
{
    ngx_uint_t                             i;
    ngx_http_agentstream_piece_t          *piece;
    ngx_http_agentstream_layout_writer_t  *w;

    piece = ngx_array_push(pieces);
    if (piece == NULL) {
        return NGX_ERROR;
    }

    piece->markup.data = ngx_pnalloc(pool, end->markup + 1);
    piece->plain.data = ngx_pnalloc(pool, end->plain + 1);

    if (piece->markup.data == NULL || piece->plain.data == NULL) {
        return NGX_ERROR;
    }

    l->markup.p = piece->markup.data;
    l->plain.p = piece->plain.data;

    while (l->op != end->op || l->offset != end->offset) {
        ngx_http_agentstream_markdown_step(l);
    }

    for (i = l->nstack; i > 0; i--) {

        w = &l->markup;

        if (w->nwritten >= i) {
            ngx_http_agentstream_markdown_close(w, l->stack[i - 1]);
        }

        w = &l->plain;

        if (w->nwritten >= i) {
            ngx_http_agentstream_markdown_close(w, l->stack[i - 1]);
        }
    }

    piece->markup.len = l->markup.p - piece->markup.data;
    piece->plain.len = l->plain.p - piece->plain.data;

    if (l->doc->form == NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK) {
        piece->plain = piece->markup;
    }

    l->line = 1;

    return NGX_OK;
}


/* one character, or one mark */

static void
ngx_http_agentstream_markdown_step(ngx_http_agentstream_layout_t *l)
{
    size_t                               len;
    u_char                              *p;
    uint32_t                             code;
    ngx_http_agentstream_markdown_op_t  *op;

    op = (ngx_http_agentstream_markdown_op_t *) l->doc->ops.elts + l->op;

    switch (op->type) {

    case ngx_http_agentstream_op_open:
        l->stack[l->nstack++] = op;
        l->op++;
        return;

    case ngx_http_agentstream_op_close:
        ngx_http_agentstream_markdown_pop(l);
        l->op++;
        return;

    case ngx_http_agentstream_op_break:
        l->op++;
        return;

    default:
        break;
    }

    if (l->offset == op->len) {
        l->op++;
        l->offset = 0;
        return;
    }

    p = op->data + l->offset;
    len = ngx_http_agentstream_markdown_char(p, op->data + op->len, &code);

    l->offset += len;

    if (l->offset == op->len) {
        l->op++;
        l->offset = 0;
    }

    if (!l->seen && ngx_http_agentstream_markdown_skip(l, *p)) {
        return;
    }

    l->line = 0;
    l->seen = 1;

    if (op->type != ngx_http_agentstream_op_href
        || l->markup.form != NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM)
    {
        ngx_http_agentstream_markdown_put(l, &l->markup, p, len, code);
    }

    ngx_http_agentstream_markdown_put(l, &l->plain, p, len, code);
}


/* a piece does not begin with spaces, unless they belong to code; the end of
   the line with which the last piece ended is not repeated */

static ngx_uint_t
ngx_http_agentstream_markdown_skip(ngx_http_agentstream_layout_t *l, u_char c)
{
    if (ngx_http_agentstream_markdown_in(l, ngx_http_agentstream_mark_pre)) {

        if (c == LF && l->line) {
            l->line = 0;
            return 1;
        }

        return 0;
    }

    return (c == ' ' || c == LF || c == '\t');
}


static ngx_uint_t
ngx_http_agentstream_markdown_in(ngx_http_agentstream_layout_t *l,
    ngx_uint_t mark)
{
    ngx_uint_t  i;

    for (i = 0; i < l->nstack; i++) {
        if (l->stack[i]->mark == mark) {
            return 1;
        }
    }

    return 0;
}


static void
ngx_http_agentstream_markdown_pop(ngx_http_agentstream_layout_t *l)
{
    ngx_uint_t                             i;
    ngx_http_agentstream_layout_writer_t  *w;

    if (l->nstack == 0) {
        return;
    }

    for (i = 0; i < 2; i++) {
        w = i ? &l->plain : &l->markup;

        if (w->nwritten == l->nstack) {
            ngx_http_agentstream_markdown_close(w, l->stack[l->nstack - 1]);
            w->nwritten--;
        }
    }

    l->nstack--;
}


static void
ngx_http_agentstream_markdown_put(ngx_http_agentstream_layout_t *l,
    ngx_http_agentstream_layout_writer_t *w, u_char *p, size_t len,
    uint32_t code)
{
    /* a mark does not begin with a space */

    if ((code != ' ' && code != LF && code != '\t')
        || ngx_http_agentstream_markdown_in(l, ngx_http_agentstream_mark_pre)
        || ngx_http_agentstream_markdown_in(l, ngx_http_agentstream_mark_code))
    {
        while (w->nwritten < l->nstack) {
            ngx_http_agentstream_markdown_open(w, l->stack[w->nwritten]);
            w->nwritten++;
        }
    }

    if (w->quote
        && (ngx_http_agentstream_markdown_in(l, ngx_http_agentstream_mark_quote)
            || ngx_http_agentstream_markdown_in(l,
                                            ngx_http_agentstream_mark_folded)))
    {
        ngx_http_agentstream_markdown_raw(w, "> ", 2);
    }

    w->quote = (code == LF
                && w->form != NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM);

    if (w->form != NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM) {
        ngx_http_agentstream_markdown_raw(w, p, len);
        w->units -= len;

    } else if (code == '<') {
        ngx_http_agentstream_markdown_raw(w, "&lt;", 4);

    } else if (code == '>') {
        ngx_http_agentstream_markdown_raw(w, "&gt;", 4);

    } else if (code == '&') {
        ngx_http_agentstream_markdown_raw(w, "&amp;", 5);

    } else {
        ngx_http_agentstream_markdown_raw(w, p, len);
    }

    w->units += 1 + (code > 0xffff);
}


/* units of markup are bytes, because all marks are ASCII, except in Telegram,
   where they do not count */

static void
ngx_http_agentstream_markdown_raw(ngx_http_agentstream_layout_writer_t *w,
    const void *data, size_t len)
{
    if (w->p && len) {
        w->p = ngx_cpymem(w->p, data, len);
    }

    w->bytes += len;

    if (w->form != NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM) {
        w->units += len;
    }
}


static void
ngx_http_agentstream_markdown_open(ngx_http_agentstream_layout_writer_t *w,
    ngx_http_agentstream_markdown_op_t *op)
{
    size_t      bytes, units;
    u_char     *p;
    ngx_str_t   text;

    w->marks++;

    if (op->mark < ngx_http_agentstream_mark_pre
        || w->form == NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM)
    {
        text = ngx_http_agentstream_layout_marks[w->form][op->mark][0];
        ngx_http_agentstream_markdown_raw(w, text.data, text.len);
    }

    if (op->mark == ngx_http_agentstream_mark_pre) {
        ngx_http_agentstream_markdown_open_pre(w, op);

    } else if (op->mark == ngx_http_agentstream_mark_link
               && w->form == NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM)
    {
        text.data = op->data;
        text.len = op->len;

        if (w->p) {
            p = w->p;
            w->p = ngx_http_agentstream_markdown_escape(p, w->form, &text);
        }

        w->bytes += ngx_http_agentstream_markdown_escape_len(w->form, &text);
        ngx_http_agentstream_markdown_raw(w, "\">", 2);

    } else if (op->mark >= ngx_http_agentstream_mark_quote
               && w->form != NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM)
    {
        w->quote = 1;
    }

    /* counts what closes it, without writing it */

    p = w->p;
    bytes = w->bytes;
    units = w->units;

    w->p = NULL;

    ngx_http_agentstream_markdown_shut(w, op);

    w->rest += w->bytes - bytes;
    w->p = p;
    w->bytes = bytes;
    w->units = units;
}


static void
ngx_http_agentstream_markdown_close(ngx_http_agentstream_layout_writer_t *w,
    ngx_http_agentstream_markdown_op_t *op)
{
    size_t  bytes;

    bytes = w->bytes;

    ngx_http_agentstream_markdown_shut(w, op);

    w->rest -= w->bytes - bytes;
}


static void
ngx_http_agentstream_markdown_open_pre(ngx_http_agentstream_layout_writer_t *w,
    ngx_http_agentstream_markdown_op_t *op)
{
    switch (w->form) {

    case NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM:

        if (op->len) {
            ngx_http_agentstream_markdown_raw(w, "<code class=\"language-", 22);
            ngx_http_agentstream_markdown_raw(w, op->data, op->len);
            ngx_http_agentstream_markdown_raw(w, "\">", 2);
        }

        break;

    case NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK:
        ngx_http_agentstream_markdown_raw(w, op->data, op->len);
        ngx_http_agentstream_markdown_raw(w, "\n", 1);
        break;

    case NGX_HTTP_AGENTSTREAM_MARKDOWN_WHATSAPP:
        ngx_http_agentstream_markdown_raw(w, "```\n", 4);
        break;

    default:
        break;
    }
}


static void
ngx_http_agentstream_markdown_shut(ngx_http_agentstream_layout_writer_t *w,
    ngx_http_agentstream_markdown_op_t *op)
{
    size_t     n;
    ngx_str_t  text;

    if (op->mark == ngx_http_agentstream_mark_pre) {

        switch (w->form) {

        case NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM:

            if (op->len) {
                ngx_http_agentstream_markdown_raw(w, "</code>", 7);
            }

            break;

        case NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK:

            /* indented as the line that opens it, with as many marks */

            for (n = 0; n < op->len && op->data[n] == ' '; n++) { /* void */ }
            while (n < op->len && (op->data[n] == '`' || op->data[n] == '~')) {
                n++;
            }

            ngx_http_agentstream_markdown_raw(w, "\n", 1);
            ngx_http_agentstream_markdown_raw(w, op->data, n);
            return;

        case NGX_HTTP_AGENTSTREAM_MARKDOWN_WHATSAPP:
            ngx_http_agentstream_markdown_raw(w, "\n```", 4);
            return;

        default:
            return;
        }
    }

    if (op->mark < ngx_http_agentstream_mark_pre
        || w->form == NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM)
    {
        text = ngx_http_agentstream_layout_marks[w->form][op->mark][1];
        ngx_http_agentstream_markdown_raw(w, text.data, text.len);
    }
}
