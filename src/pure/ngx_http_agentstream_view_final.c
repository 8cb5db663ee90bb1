
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What a view says when the turn is over: the answer in pieces, and what went
 * wrong.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_view_int.h"


#define NGX_HTTP_AGENTSTREAM_VIEW_BRAIN    "\xf0\x9f\xa7\xa0 "
#define NGX_HTTP_AGENTSTREAM_VIEW_WARNING  "\xe2\x9a\xa0\xef\xb8\x8f "
#define NGX_HTTP_AGENTSTREAM_VIEW_CROSS    "\xe2\x9d\x8c "


static ngx_int_t ngx_http_agentstream_view_error(
    ngx_http_agentstream_view_t *view, ngx_pool_t *pool, ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_view_folded(
    ngx_http_agentstream_view_t *view, ngx_pool_t *pool, ngx_str_t *text);


ngx_int_t
ngx_http_agentstream_view_final(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_http_agentstream_view_args_t *args,
    ngx_array_t *pieces)
{
    ngx_str_t                      answer, quote, text;
    ngx_uint_t                     n;
    ngx_http_agentstream_piece_t  *piece;

    if (view->end == NGX_HTTP_AGENTSTREAM_VIEW_CANCELLED) {
        return NGX_OK;
    }

    ngx_str_null(&quote);

    if (ngx_http_agentstream_view_answer(view, pool, &answer) != NGX_OK
        || (args->thoughts
            && ngx_http_agentstream_view_folded(view, pool, &quote)
               != NGX_OK))
    {
        return NGX_ERROR;
    }

    n = pieces->nelts;

    if (answer.len
        && ngx_http_agentstream_markdown_quoted(pool, args->form,
                                                &args->limits, &quote,
                                                &answer, pieces)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_agentstream_view_sentence(view, pool, pieces->nelts == n,
                                           &text)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (text.len == 0) {
        return NGX_OK;
    }

    piece = ngx_array_push(pieces);
    if (piece == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_markdown_plain(pool, args->form,
                                               &args->limits, &text, piece);
}


ngx_int_t
ngx_http_agentstream_view_sentence(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_uint_t empty, ngx_str_t *text)
{
    ngx_str_null(text);

    switch (view->end) {

    case NGX_HTTP_AGENTSTREAM_VIEW_MAX_TOKENS:
        ngx_str_set(text, NGX_HTTP_AGENTSTREAM_VIEW_WARNING
                          "The answer is incomplete: the model has reached "
                          "its limit.");
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_VIEW_REFUSAL:
        ngx_str_set(text, NGX_HTTP_AGENTSTREAM_VIEW_WARNING
                          "The model refused to answer.");
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_VIEW_TIMEOUT:
        ngx_str_set(text, "Request timed out. The agent took too long to "
                          "respond.");
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_VIEW_ERROR:
        return ngx_http_agentstream_view_error(view, pool, text);

    default:

        if (empty) {
            ngx_str_set(text, "(empty response)");
        }

        return NGX_OK;
    }
}


static ngx_int_t
ngx_http_agentstream_view_error(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_str_t *text)
{
    u_char     *p;
    ngx_str_t   error;

    error = view->error;

    if (error.len) {
        error.len = ngx_http_agentstream_markdown_head(&error, 1000);
    }

    p = ngx_pnalloc(pool, error.len + 64);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;

    p = ngx_sprintf(p, NGX_HTTP_AGENTSTREAM_VIEW_CROSS
                       "The agent could not finish");
    p = error.len ? ngx_sprintf(p, ": %V", &error) : ngx_sprintf(p, ".");

    text->len = p - text->data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_view_folded(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_str_t *text)
{
    u_char     *p;
    ngx_str_t   thoughts;

    if (view->thought == 0) {
        return NGX_OK;
    }

    if (ngx_http_agentstream_view_thoughts(view, pool,
                                           NGX_HTTP_AGENTSTREAM_VIEW_THOUGHTS,
                                           &thoughts)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(pool, thoughts.len + 64);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;

    p = ngx_sprintf(p, NGX_HTTP_AGENTSTREAM_VIEW_BRAIN "Thought for ");
    p = ngx_http_agentstream_view_time(p, view->thought_at - view->thinking);
    p = ngx_sprintf(p, "\n%V", &thoughts);

    text->len = p - text->data;

    return NGX_OK;
}


/* parts are paragraphs of their own */

ngx_int_t
ngx_http_agentstream_view_answer(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_str_t *answer)
{
    u_char                            *p;
    ngx_uint_t                         i;
    ngx_http_agentstream_view_item_t  *item, *last;

    p = ngx_pnalloc(pool, view->said + 2 * view->nitems
                          + sizeof(NGX_HTTP_AGENTSTREAM_VIEW_TRUNCATED "\n"));
    if (p == NULL) {
        return NGX_ERROR;
    }

    answer->data = p;
    last = NULL;

    if (view->cut) {
        p = ngx_cpymem(p, NGX_HTTP_AGENTSTREAM_VIEW_TRUNCATED "\n\n",
                       sizeof(NGX_HTTP_AGENTSTREAM_VIEW_TRUNCATED "\n\n") - 1);
    }

    for (i = 0; i < view->nitems; i++) {
        item = &view->items[i];

        if (item->kind != ngx_http_agentstream_view_text) {
            continue;
        }

        if (last && last->part != item->part) {
            p = ngx_cpymem(p, "\n\n", 2);
        }

        p = ngx_cpymem(p, ngx_http_agentstream_view_data(view, item),
                       item->len);
        last = item;
    }

    answer->len = p - answer->data;

    return NGX_OK;
}


/* the newest of them, behind "…" if they are not all */

ngx_int_t
ngx_http_agentstream_view_thoughts(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, size_t units, ngx_str_t *text)
{
    u_char                            *p;
    size_t                             n;
    ngx_str_t                          all;
    ngx_uint_t                         i;
    ngx_http_agentstream_view_item_t  *item, *last;

    p = ngx_pnalloc(pool, view->thought + 2 * view->nitems + 4);
    if (p == NULL) {
        return NGX_ERROR;
    }

    all.data = p + 3;
    p = all.data;
    last = NULL;

    for (i = 0; i < view->nitems; i++) {
        item = &view->items[i];

        if (item->kind != ngx_http_agentstream_view_thought) {
            continue;
        }

        if (last && last->part != item->part) {
            *p++ = LF;
        }

        p = ngx_cpymem(p, ngx_http_agentstream_view_data(view, item),
                       item->len);
        last = item;
    }

    all.len = p - all.data;

    n = ngx_http_agentstream_markdown_tail(&all, units);

    text->data = all.data + all.len - n;
    text->len = n;

    if (n < all.len) {
        text->data -= 3;
        text->len += 3;
        ngx_memcpy(text->data, "\xe2\x80\xa6", 3);
    }

    return NGX_OK;
}
