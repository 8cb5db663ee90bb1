
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_BODY_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_fields.h"


/*
 * The other bodies that clients send, beside prompts: a new session, a new
 * title, the answers to a question, the reply to a permission request.  Each is
 * checked and written again for OpenCode; unknown fields are refused.
 */


typedef enum {
    NGX_HTTP_AGENTSTREAM_BODY_SESSION = 0,   /* {"name"?,"title"?,"agent"?,
                                                 "model"?} */
    NGX_HTTP_AGENTSTREAM_BODY_TITLE,         /* {"title"} */
    NGX_HTTP_AGENTSTREAM_BODY_ANSWERS,       /* {"answers":[["Blue"],...]} */
    NGX_HTTP_AGENTSTREAM_BODY_REPLY          /* {"reply","message"?} */
} ngx_http_agentstream_body_e;


typedef struct {
    ngx_str_t                            text;     /* for OpenCode; of a
                                                      session without "name" and
                                                      "title" */
    ngx_http_agentstream_fields_error_t  error;

    /* of a session; empty: not given */
    ngx_str_t                            name;     /* decoded, and valid */
    ngx_str_t                            title;    /* still escaped */
} ngx_http_agentstream_body_t;


/* what a client answers to a question or permission request */

typedef struct {
    ngx_uint_t                           request;  /* opencode.h: to reply to a
                                                      permission request or a
                                                      question, or to reject
                                                      the latter */
    ngx_str_t                            id;
    ngx_str_t                            body;     /* for body_build(); or
                                                      empty */
    ngx_uint_t                           optional; /* it does not matter
                                                      whether it was asked */
} ngx_http_agentstream_body_answer_t;


/* conf NULL: all fields are allowed; NGX_OK, NGX_DECLINED: error tells why,
   NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_body_build(ngx_pool_t *pool, ngx_uint_t kind,
    ngx_http_agentstream_fields_conf_t *conf, ngx_str_t *text,
    ngx_http_agentstream_body_t *body);

/* adds an answer to a list of them, with a copy of its id.  NGX_DECLINED: the
   id is none, is there already, or there are too many; reason tells why.
   NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_body_add_answer(ngx_array_t *answers,
    ngx_str_t *id, ngx_http_agentstream_body_answer_t **answer,
    const char **reason);

/*
 * What OpenCode is sent to create the session of a body: POST session, which
 * chooses the id by itself; POST api/session for an id of ours, which makes the
 * session or finds it; PATCH session/{id} for what the latter does not take,
 * which is empty if there is nothing of the kind.  directory may be empty, and
 * what is to be made without a client's body has NULL for it.  NGX_ERROR: no
 * memory.
 */
ngx_int_t ngx_http_agentstream_body_create(ngx_pool_t *pool,
    ngx_http_agentstream_body_t *body, ngx_str_t *text);
ngx_int_t ngx_http_agentstream_body_make(ngx_pool_t *pool,
    ngx_http_agentstream_body_t *body, ngx_str_t *id, ngx_str_t *directory,
    ngx_str_t *text);
ngx_int_t ngx_http_agentstream_body_update(ngx_pool_t *pool,
    ngx_http_agentstream_body_t *body, ngx_str_t *text);


#endif /* _NGX_HTTP_AGENTSTREAM_BODY_H_INCLUDED_ */
