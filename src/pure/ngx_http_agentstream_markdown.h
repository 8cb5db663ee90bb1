
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_MARKDOWN_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_MARKDOWN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * The agent's Markdown as messages of a chat: spelt as the platform wants it,
 * and cut into pieces that it accepts.  Nothing in the agent's text becomes
 * markup of the platform or mentions somebody, except what Markdown itself can
 * say: it is escaped, or a character without width is put into it, so that it
 * is shown as it was written.  Bytes that are not UTF-8 become U+FFFD, control
 * characters are left out.
 */


/* the most bytes of Markdown that are read as such, because reading must not
   keep a worker busy (4 ms for this many); a longer text is shown as it was
   written, and so is every text if the module was built without md4c */
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_MAX    65536

/* limits below these are not always respected, because a piece has at least one
   character, with the marks that it needs */
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_UNITS  640
#define NGX_HTTP_AGENTSTREAM_MARKDOWN_BYTES  16384


typedef enum {
    NGX_HTTP_AGENTSTREAM_MARKDOWN_PLAIN = 0,  /* no markup, nothing escaped */
    NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM,   /* HTML for parse_mode */
    NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK,      /* Markdown, for markdown_text */
    NGX_HTTP_AGENTSTREAM_MARKDOWN_WHATSAPP,   /* WhatsApp's marks */

    NGX_HTTP_AGENTSTREAM_MARKDOWN_FORMS
} ngx_http_agentstream_markdown_form_e;


/*
 * What one message may contain.  Units are UTF-16 code units, of the text that
 * is left when Telegram has read its HTML, otherwise of everything; bytes are
 * those of the markup.
 */

typedef struct {
    size_t                               units;
    size_t                               bytes;
    ngx_uint_t                           marks;    /* bold, links and so on */
} ngx_http_agentstream_markdown_limits_t;

/* those of the platforms, indexed by form */
extern ngx_http_agentstream_markdown_limits_t
    ngx_http_agentstream_markdown_limits[];


/* the text of one message; never empty, and within the limits both ways */

typedef struct {
    ngx_str_t                            markup;
    ngx_str_t                            plain;    /* the same without markup,
                                                      for a platform that
                                                      refuses the markup */
} ngx_http_agentstream_piece_t;


/* pushes the pieces of a Markdown text, of which there are none if nothing of
   it can be seen; NGX_ERROR: no memory.  pieces is an array of piece_t */
ngx_int_t ngx_http_agentstream_markdown_pieces(ngx_pool_t *pool,
    ngx_uint_t form, ngx_http_agentstream_markdown_limits_t *limits,
    ngx_str_t *text, ngx_array_t *pieces);

/* the same with something in a quote above the text, which Telegram shows
   folded; the quote is not Markdown */
ngx_int_t ngx_http_agentstream_markdown_quoted(ngx_pool_t *pool,
    ngx_uint_t form, ngx_http_agentstream_markdown_limits_t *limits,
    ngx_str_t *quote, ngx_str_t *text, ngx_array_t *pieces);

/* a text that is not Markdown, for example one of the module's own sentences
   with a name from outside in it; it is cut off at the limits */
ngx_int_t ngx_http_agentstream_markdown_plain(ngx_pool_t *pool,
    ngx_uint_t form, ngx_http_agentstream_markdown_limits_t *limits,
    ngx_str_t *text, ngx_http_agentstream_piece_t *piece);


/* the parts of the above, for texts that are put together elsewhere */

/* the text as it may be shown on that platform, before it is escaped;
   NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_markdown_safe(ngx_pool_t *pool,
    ngx_uint_t form, ngx_str_t *text, ngx_str_t *safe);

/* such a text as markup: dst has room for markdown_escape_len() bytes */
size_t ngx_http_agentstream_markdown_escape_len(ngx_uint_t form,
    ngx_str_t *safe);
u_char *ngx_http_agentstream_markdown_escape(u_char *dst, ngx_uint_t form,
    ngx_str_t *safe);

/* UTF-16 units of UTF-8 */
size_t ngx_http_agentstream_markdown_units(ngx_str_t *text);

/* the most bytes at the beginning, or at the end, that have up to this many
   units; no character is cut */
size_t ngx_http_agentstream_markdown_head(ngx_str_t *text, size_t units);
size_t ngx_http_agentstream_markdown_tail(ngx_str_t *text, size_t units);


#endif /* _NGX_HTTP_AGENTSTREAM_MARKDOWN_H_INCLUDED_ */
