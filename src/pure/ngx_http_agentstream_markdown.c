
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Markdown for chats: what may be called from outside.  The text becomes a
 * document, in one of two ways (markdown_parse, markdown_source), and the
 * document becomes pieces (markdown_layout).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_markdown_int.h"


static ngx_int_t ngx_http_agentstream_markdown_document(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_str_t *quote,
    ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_markdown_doc_quote(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_str_t *quote);


/*
 * Telegram: 4096 units after its HTML was read, which may have 32,768 bytes and
 * 100 marks.  Slack: markdown_text may have 12,000 characters.  WhatsApp: a
 * text may have 4096 characters.
 */

ngx_http_agentstream_markdown_limits_t
    ngx_http_agentstream_markdown_limits[] =
{
    { 4096, 32768, 1000 },
    { 4096, 32768, 100 },
    { 11000, 12000, 1000 },
    { 4096, 32768, 1000 }
};


ngx_int_t
ngx_http_agentstream_markdown_pieces(ngx_pool_t *pool, ngx_uint_t form,
    ngx_http_agentstream_markdown_limits_t *limits, ngx_str_t *text,
    ngx_array_t *pieces)
{
    return ngx_http_agentstream_markdown_quoted(pool, form, limits, NULL,
                                                text, pieces);
}


ngx_int_t
ngx_http_agentstream_markdown_quoted(ngx_pool_t *pool, ngx_uint_t form,
    ngx_http_agentstream_markdown_limits_t *limits, ngx_str_t *quote,
    ngx_str_t *text, ngx_array_t *pieces)
{
    ngx_int_t                             rc;
    ngx_str_t                             clean;
    ngx_pool_t                           *temp;
    ngx_http_agentstream_markdown_doc_t   doc;

    temp = ngx_create_pool(4096, pool->log);
    if (temp == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_http_agentstream_markdown_clean(temp, text, &clean);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_markdown_doc_init(&doc, temp, form,
                                                    clean.len);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_markdown_document(&doc, quote, &clean);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_markdown_layout(&doc, pool, limits, pieces);
    }

    ngx_destroy_pool(temp);

    return rc;
}


static ngx_int_t
ngx_http_agentstream_markdown_document(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_str_t *quote,
    ngx_str_t *text)
{
    ngx_int_t  rc;

    if (ngx_http_agentstream_markdown_doc_quote(doc, quote) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = NGX_DECLINED;

    if (doc->form == NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM
        || doc->form == NGX_HTTP_AGENTSTREAM_MARKDOWN_WHATSAPP)
    {
        rc = ngx_http_agentstream_markdown_parse(doc, text);
    }

    if (rc == NGX_OK) {
        return NGX_OK;
    }

    /* what was read of it so far is left out */

    if (ngx_http_agentstream_markdown_doc_init(doc, doc->pool, doc->form,
                                               text->len)
        != NGX_OK
        || ngx_http_agentstream_markdown_doc_quote(doc, quote) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_markdown_source(doc, text);
}


static ngx_int_t
ngx_http_agentstream_markdown_doc_quote(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_str_t *quote)
{
    ngx_str_t  clean;

    if (quote == NULL || quote->len == 0) {
        return NGX_OK;
    }

    if (ngx_http_agentstream_markdown_clean(doc->pool, quote, &clean) != NGX_OK
        || ngx_http_agentstream_markdown_add(doc,
                                         ngx_http_agentstream_op_open,
                                         ngx_http_agentstream_mark_folded,
                                         NULL, 0)
           != NGX_OK
        || ngx_http_agentstream_markdown_add_text(doc, clean.data, clean.len)
           != NGX_OK
        || ngx_http_agentstream_markdown_add(doc,
                                         ngx_http_agentstream_op_close,
                                         ngx_http_agentstream_mark_folded,
                                         NULL, 0)
           != NGX_OK
        || ngx_http_agentstream_markdown_add(doc,
                                         ngx_http_agentstream_op_break,
                                         0, NULL, 0)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_markdown_add_text(doc, (u_char *) "\n\n", 2);
}


ngx_int_t
ngx_http_agentstream_markdown_plain(ngx_pool_t *pool, ngx_uint_t form,
    ngx_http_agentstream_markdown_limits_t *limits, ngx_str_t *text,
    ngx_http_agentstream_piece_t *piece)
{
    size_t     len;
    ngx_str_t  safe;

    if (ngx_http_agentstream_markdown_safe(pool, form, text, &safe) != NGX_OK)
    {
        return NGX_ERROR;
    }

    safe.len = ngx_http_agentstream_markdown_head(&safe, limits->units);

    while (ngx_http_agentstream_markdown_escape_len(form, &safe)
           > limits->bytes)
    {
        /* at least as many bytes too long, before they are escaped */

        len = ngx_http_agentstream_markdown_escape_len(form, &safe)
              - limits->bytes;

        safe.len = ngx_http_agentstream_markdown_head(&safe,
                       ngx_http_agentstream_markdown_units(&safe)
                       - ngx_max(len / 8, 1));
    }

    len = ngx_http_agentstream_markdown_escape_len(form, &safe);

    piece->markup.data = ngx_pnalloc(pool, len + 1);
    if (piece->markup.data == NULL) {
        return NGX_ERROR;
    }

    piece->markup.len = ngx_http_agentstream_markdown_escape(
                            piece->markup.data, form, &safe)
                        - piece->markup.data;
    piece->plain = safe;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_markdown_doc_init(
    ngx_http_agentstream_markdown_doc_t *doc, ngx_pool_t *pool,
    ngx_uint_t form, size_t len)
{
    ngx_memzero(doc, sizeof(ngx_http_agentstream_markdown_doc_t));

    doc->pool = pool;
    doc->form = form;
    doc->guard.prev = LF;

    /* a few for every character that can be a mark */
    doc->max = 4 * len + 1024;

    return ngx_array_init(&doc->ops, pool, 64,
                          sizeof(ngx_http_agentstream_markdown_op_t));
}


ngx_int_t
ngx_http_agentstream_markdown_add(ngx_http_agentstream_markdown_doc_t *doc,
    ngx_uint_t type, ngx_uint_t mark, u_char *data, size_t len)
{
    ngx_http_agentstream_markdown_op_t  *op;

    if (doc->ops.nelts == doc->max) {
        return NGX_ERROR;
    }

    op = ngx_array_push(&doc->ops);
    if (op == NULL) {
        return NGX_ERROR;
    }

    op->type = type;
    op->mark = mark;
    op->data = data;
    op->len = len;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_markdown_add_text(
    ngx_http_agentstream_markdown_doc_t *doc, u_char *data, size_t len)
{
    u_char  *p, *start, *last;

    last = data + len;
    start = data;

    for (p = data; p < last; p++) {

        if (ngx_http_agentstream_markdown_guard(&doc->guard, doc->form,
                                                doc->code, p, last))
        {
            if (ngx_http_agentstream_markdown_add(doc,
                                           ngx_http_agentstream_op_text,
                                           0, start, p + 1 - start)
                != NGX_OK
                || ngx_http_agentstream_markdown_add(doc,
                               ngx_http_agentstream_op_text, 0,
                               (u_char *) NGX_HTTP_AGENTSTREAM_MARKDOWN_ZERO,
                               sizeof(NGX_HTTP_AGENTSTREAM_MARKDOWN_ZERO) - 1)
                   != NGX_OK)
            {
                return NGX_ERROR;
            }

            start = p + 1;
        }
    }

    if (start == last) {
        return NGX_OK;
    }

    return ngx_http_agentstream_markdown_add(doc,
                                           ngx_http_agentstream_op_text,
                                           0, start, last - start);
}
