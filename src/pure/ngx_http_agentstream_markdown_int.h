
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_MARKDOWN_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_MARKDOWN_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_markdown.h"


/*
 * A document: the text with its marks, in the order in which they appear, made
 * once and then written as often as it is needed.  Marks are well nested, a
 * mark is never inside one of the same kind, and code contains no marks, as
 * Telegram demands.
 */


/* a text that cannot be seen and has no width */
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_ZERO  "\xe2\x80\x8b"

/* a longer address is shown, but is no link */
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_HREF  2048


typedef enum {
    ngx_http_agentstream_mark_bold = 0,
    ngx_http_agentstream_mark_italic,
    ngx_http_agentstream_mark_strike,
    ngx_http_agentstream_mark_code,
    ngx_http_agentstream_mark_pre,      /* data: its language; in Slack's form
                                           the line that opens it */
    ngx_http_agentstream_mark_link,     /* data: its address */
    ngx_http_agentstream_mark_quote,
    ngx_http_agentstream_mark_folded,   /* a quote that is folded */

    ngx_http_agentstream_marks
} ngx_http_agentstream_mark_e;


typedef enum {
    ngx_http_agentstream_op_text = 0,
    ngx_http_agentstream_op_open,
    ngx_http_agentstream_op_close,
    ngx_http_agentstream_op_break,  /* a block ends */
    ngx_http_agentstream_op_href    /* a text for forms in which a link
                                             cannot be marked */
} ngx_http_agentstream_markdown_op_e;


typedef struct {
    u_char                              *data;
    uint32_t                             len;
    uint16_t                             type;
    uint16_t                             mark;
} ngx_http_agentstream_markdown_op_t;


/* what a text was so far, as far as it matters for what comes next */

typedef struct {
    u_char                               prev;   /* the last byte */
    unsigned                             url:2;  /* bytes of "://" that were
                                                    seen; 3: inside of an
                                                    address */
} ngx_http_agentstream_markdown_guard_t;


typedef struct {
    ngx_pool_t                          *pool;
    ngx_uint_t                           form;
    ngx_array_t                          ops;
    ngx_uint_t                           max;    /* of ops */
    ngx_uint_t                           code;   /* inside of code */
    ngx_http_agentstream_markdown_guard_t
                                         guard;
} ngx_http_agentstream_markdown_doc_t;


ngx_int_t ngx_http_agentstream_markdown_doc_init(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_pool_t *pool,
    ngx_uint_t form, size_t len);

/* add to the document; NGX_ERROR: no memory, or there is too much of it.  The
   data is not copied */
ngx_int_t ngx_http_agentstream_markdown_add(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_uint_t type,
    ngx_uint_t mark, u_char *data, size_t len);
/* text from outside: it is made harmless */
ngx_int_t ngx_http_agentstream_markdown_add_text(
    ngx_http_agentstream_markdown_doc_t *doc, u_char *data, size_t len);

/* whether something without width must follow the byte at p, so that the
   platform does not take it for markup; called for each byte in turn */
ngx_uint_t ngx_http_agentstream_markdown_guard(
    ngx_http_agentstream_markdown_guard_t *guard, ngx_uint_t form,
    ngx_uint_t code, u_char *p, u_char *last);

/* the text without control characters and bytes that are not UTF-8 */
ngx_int_t ngx_http_agentstream_markdown_clean(ngx_pool_t *pool,
    ngx_str_t *text, ngx_str_t *clean);

/* the length of the character at p, and its code point */
size_t ngx_http_agentstream_markdown_char(u_char *p, u_char *last,
    uint32_t *code);
/* how many columns it takes in a font of equal widths */
ngx_uint_t ngx_http_agentstream_markdown_columns(uint32_t code);

/* what Markdown says; NGX_DECLINED: it cannot be read */
ngx_int_t ngx_http_agentstream_markdown_parse(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_str_t *text);
/* the text as it was written, with its code blocks known */
ngx_int_t ngx_http_agentstream_markdown_source(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_str_t *text);

/* cuts the document into pieces */
ngx_int_t ngx_http_agentstream_markdown_layout(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_pool_t *pool,
    ngx_http_agentstream_markdown_limits_t *limits, ngx_array_t *pieces);


/* a table, while it is read */

typedef struct {
    size_t                               start;  /* in text */
    size_t                               len;
    ngx_uint_t                           width;
} ngx_http_agentstream_markdown_cell_t;

typedef struct {
    ngx_array_t                          text;   /* of all cells; u_char */
    ngx_array_t                          cells;
    ngx_uint_t                           columns;
} ngx_http_agentstream_markdown_table_t;

/* more cells are not laid out */
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_CELLS  4096

ngx_int_t ngx_http_agentstream_markdown_table_init(
    ngx_http_agentstream_markdown_table_t *table, ngx_pool_t *pool,
    ngx_uint_t columns);
ngx_int_t ngx_http_agentstream_markdown_table_cell(
    ngx_http_agentstream_markdown_table_t *table);
ngx_int_t ngx_http_agentstream_markdown_table_text(
    ngx_http_agentstream_markdown_table_t *table, u_char *data, size_t len);
/* adds the table to the document */
ngx_int_t ngx_http_agentstream_markdown_table_add(
    ngx_http_agentstream_markdown_table_t *table,
    ngx_http_agentstream_markdown_doc_t *doc);


/* Markdown while it is read */

/* what is nested deeper is not indented further */
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_DEPTH  8

/* a line across the page */
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_RULE                                    \
    "\xe2\x80\x94\xe2\x80\x94\xe2\x80\x94"


typedef struct {
    ngx_uint_t                           ordered;
    ngx_uint_t                           number;   /* of the next item */
    u_char                               delimiter;
} ngx_http_agentstream_markdown_list_t;


typedef struct {
    ngx_http_agentstream_markdown_doc_t    *doc;
    u_char                                 *start;   /* the text */
    u_char                                 *last;

    ngx_uint_t                              gap;     /* line ends before the
                                                        next block */
    unsigned                                begun:1; /* there was a block */
    unsigned                                fresh:1; /* at the beginning of a
                                                        line */
    unsigned                                bound:1; /* the next block stays
                                                        with this one */
    unsigned                                code:1;  /* in a code block */
    unsigned                                feed:1;  /* a line of code has
                                                        ended */
    unsigned                                table:1;

    ngx_uint_t                              quotes;
    ngx_uint_t                              nlists;
    ngx_http_agentstream_markdown_list_t    lists[
                                         NGX_HTTP_AGENTSTREAM_MARKDOWN_DEPTH];

    /* how often each mark is open, and the order of those that were written */
    ngx_uint_t                              depth[ngx_http_agentstream_marks];
    ngx_uint_t                              order[ngx_http_agentstream_marks];
    ngx_uint_t                              norder;

    ngx_str_t                               href;
    ngx_uint_t                              link;    /* its first op */
    ngx_http_agentstream_markdown_table_t   cells;
} ngx_http_agentstream_markdown_reader_t;

/* text that md4c has reported */
ngx_int_t ngx_http_agentstream_markdown_say(
    ngx_http_agentstream_markdown_reader_t *reader, u_char *data, size_t len);

/* opens a mark, unless it is open already, or cannot be here; closes it */
ngx_int_t ngx_http_agentstream_markdown_mark(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t mark,
    u_char *data, size_t len);
ngx_int_t ngx_http_agentstream_markdown_unmark(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t mark);

/* what md4c reports of a span, which begins or ends; type is md4c's */
ngx_int_t ngx_http_agentstream_markdown_span(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t type,
    void *detail, ngx_uint_t enter);

/* the character that an entity stands for, in at most 4 bytes; 0: it is not
   known, and shown as it was written */
size_t ngx_http_agentstream_markdown_entity(u_char *dst, u_char *p,
    size_t len);


#endif /* _NGX_HTTP_AGENTSTREAM_MARKDOWN_INT_H_INCLUDED_ */
