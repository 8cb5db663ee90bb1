
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Any bytes as Markdown, in every form, with the limits of the platform and
 * with small ones.  Checked: every piece is what the platform accepts (HTML
 * that Telegram reads, UTF-8, lengths), and no mention that the text made up is
 * in it.
 */


#define _GNU_SOURCE
#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_markdown.h"
#include "pieces.h"


#define check(x)  if (!(x)) { __builtin_trap(); }


extern ngx_log_t  ngx_unit_log;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
pieces_of(ngx_uint_t form, ngx_str_t *text,
    ngx_http_agentstream_markdown_limits_t *limits)
{
    ngx_uint_t                     i;
    ngx_pool_t                    *pool;
    ngx_array_t                   *pieces;
    piece_check_t                  c;
    ngx_http_agentstream_piece_t  *piece, plain;

    pool = ngx_create_pool(4096, &ngx_unit_log);
    pieces = ngx_array_create(pool, 4, sizeof(ngx_http_agentstream_piece_t));

    check(ngx_http_agentstream_markdown_quoted(pool, form, limits, text, text,
                                               pieces)
          == NGX_OK);

    piece = pieces->elts;

    for (i = 0; i < pieces->nelts; i++) {
        memset(&c, 0, sizeof(c));
        check(piece_problem(form, limits, &piece[i], &c) == NULL);
        check(c.marks <= limits->marks);

        if (form == NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK) {
            check(memmem(piece[i].markup.data, piece[i].markup.len,
                         "<!channel", 9) == NULL);
            check(memmem(piece[i].markup.data, piece[i].markup.len, "<@U",
                         3) == NULL);
        }
    }

    memset(&c, 0, sizeof(c));
    check(ngx_http_agentstream_markdown_plain(pool, form, limits, text, &plain)
          == NGX_OK);
    check(plain.markup.len == 0
          || piece_problem(form, limits, &plain, &c) == NULL);

    ngx_destroy_pool(pool);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char      *copy;
    ngx_str_t    text;
    ngx_uint_t   form;

    ngx_http_agentstream_markdown_limits_t  small = {
        NGX_HTTP_AGENTSTREAM_MARKDOWN_UNITS,
        NGX_HTTP_AGENTSTREAM_MARKDOWN_BYTES, 20
    };

    /* exactly as long as the text, so that a sanitizer sees what is beyond */

    copy = malloc(size ? size : 1);
    memcpy(copy, data, size);

    text.data = copy;
    text.len = size;

    for (form = 0; form < NGX_HTTP_AGENTSTREAM_MARKDOWN_FORMS; form++) {
        pieces_of(form, &text, &ngx_http_agentstream_markdown_limits[form]);
        pieces_of(form, &text, &small);
    }

    free(copy);

    return 0;
}
