
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_PROMPT_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_PROMPT_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_prompt.h"


/*
 * Declarations that only the files of prompt use: the fields (prompt), ACP's
 * content blocks (prompt_content), OpenCode's own parts (prompt_parts), and
 * the files that both of these can name (prompt_file).
 */


/* exists while the prompt is built; fields.data points to it */

typedef struct {
    ngx_http_agentstream_fields_t        fields;
    ngx_http_agentstream_prompt_t       *prompt;
    size_t                               files_size;   /* allocated */
    ngx_uint_t                           index;    /* of the block or part */
    ngx_uint_t                           filled;   /* the prompt is not
                                                      empty */
    ngx_uint_t                           more;     /* and need not be filled */
} ngx_http_agentstream_prompt_ctx_t;


typedef enum {
    NGX_HTTP_AGENTSTREAM_SCHEME_OTHER = 0,   /* or not a string */
    NGX_HTTP_AGENTSTREAM_SCHEME_FILE,
    NGX_HTTP_AGENTSTREAM_SCHEME_DATA
} ngx_http_agentstream_prompt_scheme_e;


/* handlers of fields */
ngx_int_t ngx_http_agentstream_prompt_content(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
ngx_int_t ngx_http_agentstream_prompt_parts(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);

ngx_uint_t ngx_http_agentstream_prompt_scheme(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t uri);

/* checks a URI of the scheme "file:", in array[index].member, and adds its
   path to files; NGX_OK, NGX_DECLINED: refused, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_prompt_file(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *array,
    const char *member, ngx_uint_t uri);


#endif /* _NGX_HTTP_AGENTSTREAM_PROMPT_INT_H_INCLUDED_ */
