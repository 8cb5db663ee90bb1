
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_PROMPT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_PROMPT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_fields.h"


/*
 * Turns a client's send-message body into the body of OpenCode's prompt.
 * Fields that are not understood are not passed on, nor are those that would
 * make OpenCode read files it should not: OpenCode opens the files that a
 * prompt names without asking anybody.
 */


typedef struct {
    ngx_str_t                            body;     /* for OpenCode, with room
                                                      for prompt_set_id() */
    size_t                               end;      /* where in the body more
                                                      parts can be put, after
                                                      those of "content" */
    ngx_str_t                            request_id;   /* client_request_id,
                                                          escaped; or empty */
    ngx_str_t                            files;    /* for prompt_outside() */
    ngx_http_agentstream_fields_error_t  error;
} ngx_http_agentstream_prompt_t;


/* conf NULL: all fields are allowed; id_len: the length of the user message's
   id; more: parts will be put at its end, so "content" may be empty;
   NGX_OK, NGX_DECLINED: error tells why, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_prompt_build(ngx_pool_t *pool,
    ngx_http_agentstream_fields_conf_t *conf, ngx_str_t *text, size_t id_len,
    ngx_uint_t more, ngx_http_agentstream_prompt_t *prompt);

/* sets the user message's id, whose length must be the one given to build() */
void ngx_http_agentstream_prompt_set_id(ngx_str_t *body, ngx_str_t *id);

/*
 * The first field that names a file outside of the session's directory, or
 * NULL. files is a list that can be copied as it is: a name and a path, each
 * followed by a zero byte, then the next name.
 */
const char *ngx_http_agentstream_prompt_outside(ngx_str_t *files,
    ngx_str_t *directory);


#endif /* _NGX_HTTP_AGENTSTREAM_PROMPT_H_INCLUDED_ */
