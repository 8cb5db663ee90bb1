
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Reads Markdown with md4c, and makes a document of what it reports.  Quotes
 * cannot be nested in chats, and lists and tables do not exist there: they are
 * made of text.  HTML is text, too.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_markdown_int.h"


#if (NGX_HTTP_AGENTSTREAM_MD4C)

#include <md4c.h>


static int ngx_http_agentstream_markdown_enter_block(MD_BLOCKTYPE type,
    void *detail, void *data);
static int ngx_http_agentstream_markdown_leave_block(MD_BLOCKTYPE type,
    void *detail, void *data);
static int ngx_http_agentstream_markdown_enter_span(MD_SPANTYPE type,
    void *detail, void *data);
static int ngx_http_agentstream_markdown_leave_span(MD_SPANTYPE type,
    void *detail, void *data);
static int ngx_http_agentstream_markdown_any_text(MD_TEXTTYPE type,
    const MD_CHAR *text, MD_SIZE size, void *data);
static ngx_int_t ngx_http_agentstream_markdown_begin(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t item);
static ngx_int_t ngx_http_agentstream_markdown_newline(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t item);
static ngx_int_t ngx_http_agentstream_markdown_indent(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t item);
static ngx_int_t ngx_http_agentstream_markdown_item(
    ngx_http_agentstream_markdown_reader_t *reader, MD_BLOCK_LI_DETAIL *li);
static ngx_int_t ngx_http_agentstream_markdown_list(
    ngx_http_agentstream_markdown_reader_t *reader, MD_BLOCK_OL_DETAIL *ol);
static ngx_int_t ngx_http_agentstream_markdown_code(
    ngx_http_agentstream_markdown_reader_t *reader,
    MD_BLOCK_CODE_DETAIL *code);
static ngx_int_t ngx_http_agentstream_markdown_block(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t mark,
    u_char *data, size_t len);
static ngx_int_t ngx_http_agentstream_markdown_unblock(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t mark);


ngx_int_t
ngx_http_agentstream_markdown_parse(ngx_http_agentstream_markdown_doc_t *doc,
    ngx_str_t *text)
{
    MD_PARSER                               parser;
    ngx_http_agentstream_markdown_reader_t  reader;

    if (text->len > NGX_HTTP_AGENTSTREAM_MARKDOWN_MAX) {
        return NGX_DECLINED;
    }

    ngx_memzero(&reader, sizeof(ngx_http_agentstream_markdown_reader_t));

    reader.doc = doc;
    reader.start = text->data;
    reader.last = text->data + text->len;
    reader.fresh = 1;

    ngx_memzero(&parser, sizeof(MD_PARSER));

    parser.flags = MD_FLAG_NOHTML | MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH
                   | MD_FLAG_TASKLISTS | MD_FLAG_NOINDENTEDCODEBLOCKS
                   | MD_FLAG_PERMISSIVEURLAUTOLINKS;
    parser.enter_block = ngx_http_agentstream_markdown_enter_block;
    parser.leave_block = ngx_http_agentstream_markdown_leave_block;
    parser.enter_span = ngx_http_agentstream_markdown_enter_span;
    parser.leave_span = ngx_http_agentstream_markdown_leave_span;
    parser.text = ngx_http_agentstream_markdown_any_text;

    if (md_parse((char *) text->data, text->len, &parser, &reader) != 0) {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* ends the block before, if there was one */

static ngx_int_t
ngx_http_agentstream_markdown_begin(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t item)
{
    ngx_uint_t                            n;
    ngx_http_agentstream_markdown_doc_t  *doc;

    doc = reader->doc;
    n = reader->gap;

    if (reader->begun && n == 0 && !reader->fresh && item) {
        n = 1;
    }

    if (reader->begun && n > 1 && !reader->bound
        && ngx_http_agentstream_markdown_add(doc,
                                         ngx_http_agentstream_op_break,
                                         0, NULL, 0)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    reader->gap = 0;
    reader->bound = 0;

    if (!reader->begun) {
        reader->begun = 1;
        return ngx_http_agentstream_markdown_indent(reader, item);
    }

    if (n == 0) {
        return NGX_OK;
    }

    if (n > 1
        && ngx_http_agentstream_markdown_add_text(doc, (u_char *) "\n", 1)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_markdown_newline(reader, item);
}


static ngx_int_t
ngx_http_agentstream_markdown_newline(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t item)
{
    if (ngx_http_agentstream_markdown_add_text(reader->doc, (u_char *) "\n", 1)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    reader->fresh = 1;

    return ngx_http_agentstream_markdown_indent(reader, item);
}


/* what a line begins with inside of quotes and lists; the text of an item is
   indented further than its mark */

static ngx_int_t
ngx_http_agentstream_markdown_indent(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t item)
{
    size_t      len;
    ngx_uint_t  n;

    static u_char  spaces[] = "                ";
    static u_char  quotes[] = "> > > > > > > > ";

    if (reader->quotes > 1) {
        n = ngx_min(reader->quotes - 1, NGX_HTTP_AGENTSTREAM_MARKDOWN_DEPTH);

        if (ngx_http_agentstream_markdown_add(reader->doc,
                                         ngx_http_agentstream_op_text, 0,
                                         quotes, 2 * n)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    n = ngx_min(reader->nlists, NGX_HTTP_AGENTSTREAM_MARKDOWN_DEPTH);
    len = 2 * (n - (item && n));

    if (len == 0) {
        return NGX_OK;
    }

    return ngx_http_agentstream_markdown_add(reader->doc,
                                        ngx_http_agentstream_op_text, 0,
                                        spaces, len);
}


ngx_int_t
ngx_http_agentstream_markdown_say(
    ngx_http_agentstream_markdown_reader_t *reader, u_char *data, size_t len)
{
    u_char  *p;

    /* md4c gives slices of the text, or a text of its own that does not live
       long */

    if (data < reader->start || data + len > reader->last) {

        p = ngx_pnalloc(reader->doc->pool, len + 1);
        if (p == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(p, data, len);
        data = p;
    }

    if (reader->table) {
        return ngx_http_agentstream_markdown_table_text(&reader->cells, data,
                                                        len);
    }

    reader->fresh = 0;

    return ngx_http_agentstream_markdown_add_text(reader->doc, data, len);
}


static int
ngx_http_agentstream_markdown_enter_block(MD_BLOCKTYPE type, void *detail,
    void *data)
{
    ngx_http_agentstream_markdown_reader_t *reader = data;

    ngx_int_t               rc;
    MD_BLOCK_TABLE_DETAIL  *table;

    rc = NGX_OK;

    switch (type) {

    case MD_BLOCK_QUOTE:

        if (reader->quotes++) {
            /* its text begins a line */
            reader->gap = ngx_max(reader->gap, (ngx_uint_t) !reader->fresh);
            break;
        }

        rc = ngx_http_agentstream_markdown_begin(reader, 0);

        if (rc == NGX_OK) {
            rc = ngx_http_agentstream_markdown_block(reader,
                                              ngx_http_agentstream_mark_quote,
                                              NULL, 0);
        }

        break;

    case MD_BLOCK_UL:
        rc = ngx_http_agentstream_markdown_list(reader, NULL);
        break;

    case MD_BLOCK_OL:
        rc = ngx_http_agentstream_markdown_list(reader, detail);
        break;

    case MD_BLOCK_LI:
        rc = ngx_http_agentstream_markdown_item(reader, detail);
        break;

    case MD_BLOCK_HR:
        rc = ngx_http_agentstream_markdown_begin(reader, 0);

        if (rc == NGX_OK) {
            rc = ngx_http_agentstream_markdown_say(reader,
                       (u_char *) NGX_HTTP_AGENTSTREAM_MARKDOWN_RULE,
                       sizeof(NGX_HTTP_AGENTSTREAM_MARKDOWN_RULE) - 1);
        }

        break;

    case MD_BLOCK_H:
        rc = ngx_http_agentstream_markdown_begin(reader, 0);

        if (rc == NGX_OK) {
            rc = ngx_http_agentstream_markdown_mark(reader,
                                               ngx_http_agentstream_mark_bold,
                                               NULL, 0);
        }

        break;

    case MD_BLOCK_CODE:
        rc = ngx_http_agentstream_markdown_code(reader, detail);
        break;

    case MD_BLOCK_P:
        rc = ngx_http_agentstream_markdown_begin(reader, 0);
        break;

    case MD_BLOCK_TABLE:
        table = detail;

        rc = ngx_http_agentstream_markdown_begin(reader, 0);

        if (rc == NGX_OK) {
            rc = ngx_http_agentstream_markdown_table_init(&reader->cells,
                                                          reader->doc->pool,
                                                          table->col_count);
        }

        reader->table = 1;
        break;

    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
        rc = ngx_http_agentstream_markdown_table_cell(&reader->cells);
        break;

    default:
        break;
    }

    return rc != NGX_OK;
}


static int
ngx_http_agentstream_markdown_leave_block(MD_BLOCKTYPE type, void *detail,
    void *data)
{
    ngx_http_agentstream_markdown_reader_t *reader = data;

    ngx_int_t  rc;

    rc = NGX_OK;

    switch (type) {

    case MD_BLOCK_QUOTE:

        if (--reader->quotes == 0) {
            rc = ngx_http_agentstream_markdown_unblock(reader,
                                             ngx_http_agentstream_mark_quote);
        }

        break;

    case MD_BLOCK_UL:
    case MD_BLOCK_OL:
        reader->nlists--;
        break;

    case MD_BLOCK_LI:
        /* one that has no text is a line, too */
        reader->gap = 1;
        return 0;

    case MD_BLOCK_H:
        rc = ngx_http_agentstream_markdown_unmark(reader,
                                              ngx_http_agentstream_mark_bold);
        reader->bound = 1;
        break;

    case MD_BLOCK_CODE:
        reader->code = 0;
        rc = ngx_http_agentstream_markdown_unblock(reader,
                                               ngx_http_agentstream_mark_pre);
        break;

    case MD_BLOCK_TABLE:
        reader->table = 0;

        rc = ngx_http_agentstream_markdown_block(reader,
                                                ngx_http_agentstream_mark_pre,
                                                NULL, 0);

        if (rc == NGX_OK) {
            rc = ngx_http_agentstream_markdown_table_add(&reader->cells,
                                                         reader->doc);
        }

        if (rc == NGX_OK) {
            rc = ngx_http_agentstream_markdown_unblock(reader,
                                               ngx_http_agentstream_mark_pre);
        }

        break;

    case MD_BLOCK_HR:
    case MD_BLOCK_P:
        break;

    default:
        return 0;
    }

    reader->gap = reader->nlists ? 1 : 2;

    return rc != NGX_OK;
}


/* a mark that begins a line */

static ngx_int_t
ngx_http_agentstream_markdown_block(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t mark,
    u_char *data, size_t len)
{
    if (!reader->fresh
        && ngx_http_agentstream_markdown_newline(reader, 0) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (mark == ngx_http_agentstream_mark_pre) {
        reader->doc->code = 1;
    }

    reader->feed = 0;

    return ngx_http_agentstream_markdown_add(reader->doc,
                                          ngx_http_agentstream_op_open,
                                          mark, data, len);
}


static ngx_int_t
ngx_http_agentstream_markdown_unblock(
    ngx_http_agentstream_markdown_reader_t *reader, ngx_uint_t mark)
{
    if (mark == ngx_http_agentstream_mark_pre) {
        reader->doc->code = 0;
    }

    reader->fresh = 0;

    return ngx_http_agentstream_markdown_add(reader->doc,
                                          ngx_http_agentstream_op_close,
                                          mark, NULL, 0);
}


static ngx_int_t
ngx_http_agentstream_markdown_list(
    ngx_http_agentstream_markdown_reader_t *reader, MD_BLOCK_OL_DETAIL *ol)
{
    ngx_http_agentstream_markdown_list_t  *list;

    if (reader->nlists < NGX_HTTP_AGENTSTREAM_MARKDOWN_DEPTH) {
        list = &reader->lists[reader->nlists];

        list->ordered = (ol != NULL);
        list->number = ol ? ol->start : 0;
        list->delimiter = ol ? ol->mark_delimiter : 0;
    }

    reader->nlists++;

    /* a list inside of an item begins a line */

    if (reader->nlists > 1 && reader->gap == 0 && !reader->fresh) {
        reader->gap = 1;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_markdown_item(
    ngx_http_agentstream_markdown_reader_t *reader, MD_BLOCK_LI_DETAIL *li)
{
    u_char                                *p, buf[NGX_INT_T_LEN + 8];
    ngx_http_agentstream_markdown_list_t  *list;

    if (ngx_http_agentstream_markdown_begin(reader, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    list = &reader->lists[ngx_min(reader->nlists,
                                  NGX_HTTP_AGENTSTREAM_MARKDOWN_DEPTH) - 1];
    p = buf;

    if (li->is_task) {
        p = (li->task_mark == ' ') ? ngx_cpymem(p, "\xe2\x98\x90 ", 4)
                                   : ngx_cpymem(p, "\xe2\x98\x91 ", 4);

    } else if (list->ordered) {
        p = ngx_sprintf(p, "%ui%c ", list->number++, list->delimiter);

    } else {
        p = ngx_cpymem(p, "\xe2\x80\xa2 ", 4);
    }

    if (ngx_http_agentstream_markdown_say(reader, buf, p - buf) != NGX_OK) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* the language can be a class in HTML, so only what names one is passed on */

static ngx_int_t
ngx_http_agentstream_markdown_code(
    ngx_http_agentstream_markdown_reader_t *reader, MD_BLOCK_CODE_DETAIL *code)
{
    u_char      *p, c;
    ngx_uint_t   i, len;

    if (ngx_http_agentstream_markdown_begin(reader, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    len = ngx_min(code->lang.size, 32);

    p = ngx_pnalloc(reader->doc->pool, len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < len; i++) {
        c = code->lang.text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
              || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '#'
              || c == '_' || c == '.'))
        {
            break;
        }

        p[i] = c;
    }

    reader->code = 1;

    return ngx_http_agentstream_markdown_block(reader,
                                               ngx_http_agentstream_mark_pre,
                                               p, i);
}


static int
ngx_http_agentstream_markdown_enter_span(MD_SPANTYPE type, void *detail,
    void *data)
{
    return ngx_http_agentstream_markdown_span(data, type, detail, 1)
           != NGX_OK;
}


static int
ngx_http_agentstream_markdown_leave_span(MD_SPANTYPE type, void *detail,
    void *data)
{
    return ngx_http_agentstream_markdown_span(data, type, detail, 0)
           != NGX_OK;
}


static int
ngx_http_agentstream_markdown_any_text(MD_TEXTTYPE type, const MD_CHAR *text,
    MD_SIZE size, void *data)
{
    ngx_http_agentstream_markdown_reader_t *reader = data;

    u_char     *p, entity[8];
    size_t      len;
    ngx_int_t   rc;

    p = (u_char *) text;
    len = size;

    switch (type) {

    case MD_TEXT_BR:
    case MD_TEXT_SOFTBR:

        if (reader->table) {
            rc = ngx_http_agentstream_markdown_say(reader, (u_char *) " ", 1);

        } else {
            rc = ngx_http_agentstream_markdown_newline(reader, 0);
        }

        return rc != NGX_OK;

    case MD_TEXT_ENTITY:
        len = ngx_http_agentstream_markdown_entity(entity, p, size);

        if (len) {
            p = entity;

        } else {
            len = size;
        }

        break;

    default:
        break;
    }

    /* the last line of code does not end with a line end */

    if (reader->code && reader->feed) {
        reader->feed = 0;

        if (ngx_http_agentstream_markdown_add_text(reader->doc,
                                                   (u_char *) "\n", 1)
            != NGX_OK)
        {
            return 1;
        }
    }

    if (reader->code && len && p[len - 1] == LF) {
        reader->feed = 1;
        len--;
    }

    return len
           && ngx_http_agentstream_markdown_say(reader, p, len) != NGX_OK;
}

#else

/* nothing can be read */

ngx_int_t
ngx_http_agentstream_markdown_parse(ngx_http_agentstream_markdown_doc_t *doc,
    ngx_str_t *text)
{
    return NGX_DECLINED;
}

#endif
