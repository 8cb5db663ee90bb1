
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Tables, which chats do not have: their columns are aligned with spaces, in a
 * font of equal widths.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_markdown_int.h"


/* a cell is filled up to this width; a longer one does not make all others
   longer, too */
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_COLUMN  40


static ngx_uint_t ngx_http_agentstream_markdown_table_width(u_char *p,
    u_char *last);
static ngx_uint_t ngx_http_agentstream_markdown_table_columns(
    ngx_http_agentstream_markdown_table_t *table, ngx_uint_t *widths);


ngx_int_t
ngx_http_agentstream_markdown_table_init(
    ngx_http_agentstream_markdown_table_t *table, ngx_pool_t *pool,
    ngx_uint_t columns)
{
    table->columns = columns;

    if (columns > NGX_HTTP_AGENTSTREAM_MARKDOWN_CELLS
        || ngx_array_init(&table->text, pool, 256, sizeof(u_char)) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_array_init(&table->cells, pool, 16,
                          sizeof(ngx_http_agentstream_markdown_cell_t));
}


ngx_int_t
ngx_http_agentstream_markdown_table_cell(
    ngx_http_agentstream_markdown_table_t *table)
{
    ngx_http_agentstream_markdown_cell_t  *cell;

    if (table->cells.nelts == NGX_HTTP_AGENTSTREAM_MARKDOWN_CELLS) {
        return NGX_ERROR;
    }

    cell = ngx_array_push(&table->cells);
    if (cell == NULL) {
        return NGX_ERROR;
    }

    cell->start = table->text.nelts;
    cell->len = 0;
    cell->width = 0;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_markdown_table_text(
    ngx_http_agentstream_markdown_table_t *table, u_char *data, size_t len)
{
    u_char                                *p;
    ngx_http_agentstream_markdown_cell_t  *cell;

    if (table->cells.nelts == 0 || len == 0) {
        return NGX_OK;
    }

    p = ngx_array_push_n(&table->text, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, data, len);

    cell = table->cells.elts;
    cell += table->cells.nelts - 1;
    cell->len += len;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_markdown_table_add(
    ngx_http_agentstream_markdown_table_t *table,
    ngx_http_agentstream_markdown_doc_t *doc)
{
    size_t                                 size;
    u_char                                *p, *start, *text;
    ngx_uint_t                             i, n, column, *widths;
    ngx_http_agentstream_markdown_cell_t  *cells;

    if (table->columns == 0 || table->cells.nelts == 0) {
        return NGX_OK;
    }

    widths = ngx_pcalloc(doc->pool, table->columns * sizeof(ngx_uint_t));
    if (widths == NULL) {
        return NGX_ERROR;
    }

    cells = table->cells.elts;
    text = table->text.elts;

    size = ngx_http_agentstream_markdown_table_columns(table, widths)
           + table->text.nelts
           + table->cells.nelts * (NGX_HTTP_AGENTSTREAM_MARKDOWN_COLUMN + 3);

    start = ngx_pnalloc(doc->pool, size);
    if (start == NULL) {
        return NGX_ERROR;
    }

    p = start;

    for (i = 0; i < table->cells.nelts; i++) {
        column = i % table->columns;

        p = ngx_cpymem(p, text + cells[i].start, cells[i].len);

        if (column + 1 < table->columns) {

            for (n = cells[i].width; n < widths[column]; n++) {
                *p++ = ' ';
            }

            p = ngx_cpymem(p, " | ", 3);
            continue;
        }

        if (i + 1 < table->cells.nelts) {
            *p++ = LF;
        }

        if (i + 1 != table->columns || i + 1 == table->cells.nelts) {
            continue;
        }

        /* below the first row */

        for (column = 0; column < table->columns; column++) {

            ngx_memset(p, '-', widths[column]);
            p += widths[column];

            p = ngx_cpymem(p, column + 1 < table->columns ? "-+-" : "\n",
                           column + 1 < table->columns ? 3 : 1);
        }
    }

    return ngx_http_agentstream_markdown_add_text(doc, start, p - start);
}


/* the widths of all columns, and the size of the line that is drawn */

static ngx_uint_t
ngx_http_agentstream_markdown_table_columns(
    ngx_http_agentstream_markdown_table_t *table, ngx_uint_t *widths)
{
    u_char                                *text;
    ngx_uint_t                             i, n, *width, size;
    ngx_http_agentstream_markdown_cell_t  *cells;

    cells = table->cells.elts;
    text = table->text.elts;

    for (i = 0; i < table->cells.nelts; i++) {

        n = ngx_http_agentstream_markdown_table_width(text + cells[i].start,
                                   text + cells[i].start + cells[i].len);
        cells[i].width = n;

        width = &widths[i % table->columns];
        n = ngx_min(n, NGX_HTTP_AGENTSTREAM_MARKDOWN_COLUMN);

        *width = ngx_max(*width, n);
    }

    size = 0;

    for (i = 0; i < table->columns; i++) {
        size += widths[i] + 3;
    }

    return size;
}


static ngx_uint_t
ngx_http_agentstream_markdown_table_width(u_char *p, u_char *last)
{
    uint32_t    code;
    ngx_uint_t  n;

    n = 0;

    while (p < last) {
        p += ngx_http_agentstream_markdown_char(p, last, &code);
        n += ngx_http_agentstream_markdown_columns(code);
    }

    return n;
}
