
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Markdown as it was written, for a platform that reads Markdown itself: only
 * the code blocks in it must be known, because a piece must not end inside of
 * one.  In forms that are not Markdown the lines that begin and end code blocks
 * are text as everything else.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_markdown_int.h"


/* a longer line does not begin a code block */
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_FENCE  256


/* the marks of a line that begins or ends a code block */

typedef struct {
    u_char                               mark;
    size_t                               n;
    unsigned                             bare:1;   /* nothing follows them */
} ngx_http_agentstream_markdown_fence_t;


static ngx_uint_t ngx_http_agentstream_markdown_fence(u_char *p, u_char *eol,
    ngx_http_agentstream_markdown_fence_t *fence);
static ngx_int_t ngx_http_agentstream_markdown_lines(
    ngx_http_agentstream_markdown_doc_t *doc, u_char *start, u_char *last);


ngx_int_t
ngx_http_agentstream_markdown_source(ngx_http_agentstream_markdown_doc_t *doc,
    ngx_str_t *text)
{
    u_char                                 *p, *eol, *last, *start;
    ngx_uint_t                              type;
    ngx_http_agentstream_markdown_op_t     *op;
    ngx_http_agentstream_markdown_fence_t   open, fence;

    last = text->data + text->len;
    start = text->data;

    ngx_memzero(&open, sizeof(ngx_http_agentstream_markdown_fence_t));

    for (p = start; p < last; p = eol + (eol < last)) {

        eol = ngx_strlchr(p, last, LF);
        eol = eol ? eol : last;

        if (doc->form != NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK
            || !ngx_http_agentstream_markdown_fence(p, eol, &fence))
        {
            continue;
        }

        if (open.n && (fence.mark != open.mark || fence.n < open.n
                       || !fence.bare))
        {
            continue;
        }

        /* the end of the line before a closing fence belongs to the fence */

        type = open.n ? ngx_http_agentstream_op_close
                      : ngx_http_agentstream_op_open;

        if (ngx_http_agentstream_markdown_lines(doc, start,
                                                p - (open.n && p > start))
            != NGX_OK
            || ngx_http_agentstream_markdown_add(doc, type,
                                                ngx_http_agentstream_mark_pre,
                                                p, eol - p)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        start = open.n ? eol : eol + (eol < last);
        fence.n = open.n ? 0 : fence.n;
        open = fence;
    }

    if (ngx_http_agentstream_markdown_lines(doc, start, last) != NGX_OK) {
        return NGX_ERROR;
    }

    if (open.n == 0) {
        return NGX_OK;
    }

    if (start == last) {
        /* nothing follows the line, which is text then */

        op = doc->ops.elts;
        op[doc->ops.nelts - 1].type = ngx_http_agentstream_op_text;

        return NGX_OK;
    }

    return ngx_http_agentstream_markdown_add(doc,
                                         ngx_http_agentstream_op_close,
                                         ngx_http_agentstream_mark_pre,
                                         NULL, 0);
}


static ngx_uint_t
ngx_http_agentstream_markdown_fence(u_char *p, u_char *eol,
    ngx_http_agentstream_markdown_fence_t *fence)
{
    u_char  *marks;

    if (eol - p > NGX_HTTP_AGENTSTREAM_MARKDOWN_FENCE) {
        return 0;
    }

    while (p < eol && *p == ' ') {
        p++;
    }

    if (p == eol || (*p != '`' && *p != '~')) {
        return 0;
    }

    marks = p;
    fence->mark = *p;

    while (p < eol && *p == fence->mark) {
        p++;
    }

    fence->n = p - marks;

    /* what could mention somebody is repeated nowhere, and guarded as text */

    if (fence->n < 3
        || (fence->mark == '`' && ngx_strlchr(p, eol, '`') != NULL)
        || ngx_strlchr(p, eol, '<') != NULL
        || ngx_strlchr(p, eol, '@') != NULL)
    {
        return 0;
    }

    while (p < eol && *p == ' ') {
        p++;
    }

    fence->bare = (p == eol);

    return 1;
}


/* text, in which empty lines end blocks */

static ngx_int_t
ngx_http_agentstream_markdown_lines(ngx_http_agentstream_markdown_doc_t *doc,
    u_char *start, u_char *last)
{
    u_char  *p;

    for (p = start; p + 1 < last; p++) {

        if (p[0] != LF || p[1] != LF) {
            continue;
        }

        if (ngx_http_agentstream_markdown_add_text(doc, start, p - start)
            != NGX_OK
            || ngx_http_agentstream_markdown_add(doc,
                                         ngx_http_agentstream_op_break,
                                         0, NULL, 0)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        start = p;

        while (p + 1 < last && p[1] == LF) {
            p++;
        }
    }

    return ngx_http_agentstream_markdown_add_text(doc, start, last - start);
}
