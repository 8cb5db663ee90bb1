
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The progress message: what was done and written so far, the newest thoughts
 * while the agent thinks, and how long it has been working.  If it is too long,
 * its beginning is left out.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_view_int.h"


#define NGX_HTTP_AGENTSTREAM_VIEW_CURSOR     "\xe2\x96\x88"
#define NGX_HTTP_AGENTSTREAM_VIEW_HOURGLASS  "\xe2\x8f\xb3 "
#define NGX_HTTP_AGENTSTREAM_VIEW_ASKS       "\xe2\x9d\x93 "
#define NGX_HTTP_AGENTSTREAM_VIEW_BRAIN      "\xf0\x9f\xa7\xa0 "
#define NGX_HTTP_AGENTSTREAM_VIEW_DONE       "\xe2\x9c\x85 Done"

/* room for the last line */
#define NGX_HTTP_AGENTSTREAM_VIEW_FOOTER     128


#define ngx_http_agentstream_view_cpy(p, text)                                \
    ngx_cpymem(p, text, sizeof(text) - 1)


/* the parts of the message, made harmless but not escaped; each may be
   empty */

typedef struct {
    ngx_str_t                            body;
    ngx_str_t                            quote;
    ngx_str_t                            footer;
    unsigned                             cut:1;    /* the body has no
                                                      beginning */
} ngx_http_agentstream_view_parts_t;


static ngx_uint_t ngx_http_agentstream_view_tools(
    ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_view_args_t *args);
static ngx_int_t ngx_http_agentstream_view_body(
    ngx_http_agentstream_view_t *view, ngx_pool_t *pool,
    ngx_http_agentstream_view_args_t *args, ngx_str_t *body);
static ngx_int_t ngx_http_agentstream_view_quote(
    ngx_http_agentstream_view_t *view, ngx_pool_t *pool,
    ngx_http_agentstream_view_args_t *args, ngx_str_t *quote);
static void ngx_http_agentstream_view_footer(
    ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_view_args_t *args, ngx_str_t *footer);
static void ngx_http_agentstream_view_fit(
    ngx_http_agentstream_view_args_t *args,
    ngx_http_agentstream_view_parts_t *parts);
static ngx_int_t ngx_http_agentstream_view_spell(ngx_pool_t *pool,
    ngx_uint_t form, ngx_http_agentstream_view_parts_t *parts,
    ngx_str_t *text);
static size_t ngx_http_agentstream_view_lines(ngx_str_t *text);
static u_char *ngx_http_agentstream_view_spell_quote(u_char *p,
    ngx_uint_t form, ngx_str_t *quote);


ngx_int_t
ngx_http_agentstream_view_progress(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_http_agentstream_view_args_t *args,
    ngx_http_agentstream_piece_t *piece)
{
    u_char                             footer[
                                              NGX_HTTP_AGENTSTREAM_VIEW_FOOTER];
    ngx_str_t                          text;
    ngx_http_agentstream_view_parts_t  parts;

    ngx_memzero(&parts, sizeof(ngx_http_agentstream_view_parts_t));

    if (ngx_http_agentstream_view_body(view, pool, args, &text) != NGX_OK
        || ngx_http_agentstream_markdown_safe(pool, args->form, &text,
                                              &parts.body)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_agentstream_view_quote(view, pool, args, &text) != NGX_OK
        || ngx_http_agentstream_markdown_safe(pool, args->form, &text,
                                              &parts.quote)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    parts.footer.data = footer;
    ngx_http_agentstream_view_footer(view, args, &parts.footer);

    parts.cut = view->cut || view->cut_items;

    if (parts.body.len == 0 && parts.quote.len == 0 && parts.footer.len == 0) {
        ngx_str_set(&parts.footer, NGX_HTTP_AGENTSTREAM_VIEW_DONE);
    }

    ngx_http_agentstream_view_fit(args, &parts);

    if (ngx_http_agentstream_view_spell(pool, args->form, &parts,
                                        &piece->markup)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_view_spell(pool,
                                           NGX_HTTP_AGENTSTREAM_MARKDOWN_PLAIN,
                                           &parts, &piece->plain);
}


/* whether tool calls that were not shown yet are shown now */

static ngx_uint_t
ngx_http_agentstream_view_tools(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_view_args_t *args)
{
    ngx_uint_t  i;

    if (view->tools_at && args->now >= view->tools_at
        && args->now - view->tools_at < (int64_t) args->tool_interval
        && view->end == NGX_HTTP_AGENTSTREAM_VIEW_RUNNING)
    {
        return 0;
    }

    for (i = 0; i < view->nitems; i++) {
        if (view->items[i].kind == ngx_http_agentstream_view_tool
            && !view->items[i].shown)
        {
            view->tools_at = args->now;
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_http_agentstream_view_body(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_http_agentstream_view_args_t *args, ngx_str_t *body)
{
    u_char                            *p;
    ngx_uint_t                         i, tools;
    ngx_http_agentstream_view_item_t  *item, *last;

    tools = ngx_http_agentstream_view_tools(view, args);

    p = ngx_pnalloc(pool, view->len + 2 * view->nitems + 8);
    if (p == NULL) {
        return NGX_ERROR;
    }

    body->data = p;
    last = NULL;

    for (i = 0; i < view->nitems; i++) {
        item = &view->items[i];

        if (item->kind == ngx_http_agentstream_view_thought) {
            continue;
        }

        if (item->kind == ngx_http_agentstream_view_tool) {
            item->shown |= tools;

            if (!item->shown) {
                continue;
            }
        }

        if (last && (last->kind != item->kind
                     || (last->part != item->part
                         && item->kind == ngx_http_agentstream_view_text)))
        {
            p = ngx_cpymem(p, "\n\n", 2);

        } else if (last && item->kind == ngx_http_agentstream_view_tool) {
            *p++ = LF;
        }

        p = ngx_cpymem(p, ngx_http_agentstream_view_data(view, item),
                       item->len);
        last = item;
    }

    while (p > body->data && (p[-1] == LF || p[-1] == ' ')) {
        p--;
    }

    if (view->nitems
        && view->items[view->nitems - 1].kind
           == ngx_http_agentstream_view_text
        && view->end == NGX_HTTP_AGENTSTREAM_VIEW_RUNNING)
    {
        p = ngx_http_agentstream_view_cpy(p, NGX_HTTP_AGENTSTREAM_VIEW_CURSOR);
    }

    body->len = p - body->data;

    return NGX_OK;
}


/* thoughts are shown as long as nothing else has come after them */

static ngx_int_t
ngx_http_agentstream_view_quote(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_http_agentstream_view_args_t *args, ngx_str_t *quote)
{
    u_char     *p;
    ngx_str_t   text;

    ngx_str_null(quote);

    if (!args->thoughts || view->nitems == 0
        || view->items[view->nitems - 1].kind
           != ngx_http_agentstream_view_thought
        || view->end != NGX_HTTP_AGENTSTREAM_VIEW_RUNNING)
    {
        return NGX_OK;
    }

    if (ngx_http_agentstream_view_thoughts(view, pool,
                                           NGX_HTTP_AGENTSTREAM_VIEW_THINKING,
                                           &text)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(pool, text.len
                    + sizeof(NGX_HTTP_AGENTSTREAM_VIEW_BRAIN "Thinking...\n"));
    if (p == NULL) {
        return NGX_ERROR;
    }

    quote->data = p;

    p = ngx_http_agentstream_view_cpy(p, NGX_HTTP_AGENTSTREAM_VIEW_BRAIN
                                         "Thinking...\n");
    p = ngx_cpymem(p, text.data, text.len);

    quote->len = p - quote->data;

    return NGX_OK;
}


static void
ngx_http_agentstream_view_footer(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_view_args_t *args, ngx_str_t *footer)
{
    u_char   *p;
    int64_t   elapsed, silent;

    footer->len = 0;

    if (view->end != NGX_HTTP_AGENTSTREAM_VIEW_RUNNING) {
        return;
    }

    elapsed = view->started ? args->now - view->started : 0;
    silent = view->active ? args->now - view->active : 0;

    p = footer->data;

    if (view->nasked) {
        p = ngx_http_agentstream_view_cpy(p, NGX_HTTP_AGENTSTREAM_VIEW_ASKS
                                             "Waiting for your answer...");

    } else if (view->attempt) {
        p = ngx_http_agentstream_view_cpy(p,
                                          NGX_HTTP_AGENTSTREAM_VIEW_HOURGLASS
                                          "The model failed, retrying...");

    } else if (args->heartbeat && silent >= (int64_t) args->heartbeat) {
        p = ngx_http_agentstream_view_cpy(p,
                                          NGX_HTTP_AGENTSTREAM_VIEW_HOURGLASS
                                          "Still working...");

    } else {
        p = ngx_http_agentstream_view_cpy(p,
                                          NGX_HTTP_AGENTSTREAM_VIEW_HOURGLASS
                                          "Processing...");
    }

    if (elapsed >= 1000) {
        p = ngx_cpymem(p, " (", 2);
        p = ngx_http_agentstream_view_time(p, elapsed);
        *p++ = ')';
    }

    footer->len = p - footer->data;
}


u_char *
ngx_http_agentstream_view_time(u_char *p, int64_t msec)
{
    int64_t  sec;

    sec = ngx_max(msec, 0) / 1000;

    if (sec < 60) {
        return ngx_sprintf(p, "%Ls", sec);
    }

    if (sec < 3600) {
        return ngx_sprintf(p, "%Lm %Ls", sec / 60, sec % 60);
    }

    return ngx_sprintf(p, "%Lh %Lm", sec / 3600, sec % 3600 / 60);
}


/* cuts the body off at its beginning, between lines if possible */

static void
ngx_http_agentstream_view_fit(ngx_http_agentstream_view_args_t *args,
    ngx_http_agentstream_view_parts_t *parts)
{
    u_char     *p, *last;
    size_t      units, bytes, n;
    ngx_str_t   body;

    static ngx_str_t  truncated =
                              ngx_string(NGX_HTTP_AGENTSTREAM_VIEW_TRUNCATED);

    /* what stands around the body: the rest of the text, line ends, and what
       marks a quote and each of its lines */

    n = truncated.len + 64 + 2 * ngx_http_agentstream_view_lines(&parts->quote);

    units = ngx_http_agentstream_markdown_units(&parts->quote)
            + ngx_http_agentstream_markdown_units(&parts->footer) + n;
    bytes = ngx_http_agentstream_markdown_escape_len(args->form, &parts->quote)
            + parts->footer.len + n;

    units = (args->limits.units > units) ? args->limits.units - units : 0;
    bytes = (args->limits.bytes > bytes) ? args->limits.bytes - bytes : 0;

    body = parts->body;
    last = body.data + body.len;

    n = ngx_http_agentstream_markdown_tail(&body, units);

    for ( ;; ) {
        body.data = last - n;
        body.len = n;

        if (n == 0
            || ngx_http_agentstream_markdown_escape_len(args->form, &body)
               <= bytes)
        {
            break;
        }

        n = ngx_http_agentstream_markdown_tail(&body,
                         ngx_http_agentstream_markdown_units(&body) * 7 / 8);
    }

    if (n == parts->body.len) {
        return;
    }

    parts->cut = 1;

    /* not a part of a line, unless it is a long one */

    p = ngx_strlchr(body.data, last, LF);

    if (p && (size_t) (last - p) > n / 2) {
        body.data = p + 1;
        body.len = last - body.data;
    }

    parts->body = body;
}


static size_t
ngx_http_agentstream_view_lines(ngx_str_t *text)
{
    size_t  i, n;

    n = 1;

    for (i = 0; i < text->len; i++) {
        n += (text->data[i] == LF);
    }

    return n;
}


static ngx_int_t
ngx_http_agentstream_view_spell(ngx_pool_t *pool, ngx_uint_t form,
    ngx_http_agentstream_view_parts_t *parts, ngx_str_t *text)
{
    u_char  *p;
    size_t   size;

    size = ngx_http_agentstream_markdown_escape_len(form, &parts->body)
           + ngx_http_agentstream_markdown_escape_len(form, &parts->quote)
           + 2 * ngx_http_agentstream_view_lines(&parts->quote)
           + parts->footer.len + 128;

    p = ngx_pnalloc(pool, size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;

    if (parts->cut) {
        p = ngx_http_agentstream_view_cpy(p,
                                          NGX_HTTP_AGENTSTREAM_VIEW_TRUNCATED);
    }

    if (parts->body.len) {

        if (p != text->data) {
            *p++ = LF;
        }

        p = ngx_http_agentstream_markdown_escape(p, form, &parts->body);
    }

    if (parts->quote.len) {

        if (p != text->data) {
            p = ngx_cpymem(p, "\n\n", 2);
        }

        p = ngx_http_agentstream_view_spell_quote(p, form, &parts->quote);
    }

    if (parts->footer.len) {

        if (p != text->data) {
            p = ngx_cpymem(p, "\n\n", 2);
        }

        p = ngx_cpymem(p, parts->footer.data, parts->footer.len);
    }

    text->len = p - text->data;

    return NGX_OK;
}


static u_char *
ngx_http_agentstream_view_spell_quote(u_char *p, ngx_uint_t form,
    ngx_str_t *quote)
{
    u_char     *q, *last;
    ngx_str_t   line;

    if (form == NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM) {
        p = ngx_http_agentstream_view_cpy(p, "<blockquote expandable>");
        p = ngx_http_agentstream_markdown_escape(p, form, quote);

        return ngx_http_agentstream_view_cpy(p, "</blockquote>");
    }

    last = quote->data + quote->len;

    for (line.data = quote->data; line.data < last; line.data = q) {

        q = ngx_strlchr(line.data, last, LF);
        q = q ? q + 1 : last;
        line.len = q - line.data;

        p = ngx_cpymem(p, "> ", 2);
        p = ngx_http_agentstream_markdown_escape(p, form, &line);
    }

    return p;
}
