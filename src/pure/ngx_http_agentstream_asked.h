
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_ASKED_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_ASKED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_markdown.h"


/*
 * What the agent asks, as a message with buttons, and what somebody answers in
 * a chat, as the body of an answer.  Both are made from the JSON of the packet
 * "question_asked" or "request_permission", which the caller keeps as long as
 * somebody may answer.  docs/protocol.md describes packets and bodies.
 */


typedef struct {
    ngx_str_t                            label;    /* as the option is
                                                      called */
    ngx_uint_t                           index;    /* for asked_press() */
} ngx_http_agentstream_asked_button_t;


/*
 * Pushes the message, which has one piece unless it is very long, and the
 * buttons of its last piece.  There are none if one press is not a whole
 * answer: a question with several choices, or several questions.  NGX_DECLINED:
 * this is no such packet, NGX_ERROR: no memory.  pieces is an array of piece_t,
 * buttons of asked_button_t, or NULL.
 */
ngx_int_t ngx_http_agentstream_asked_show(ngx_pool_t *pool, ngx_uint_t form,
    ngx_http_agentstream_markdown_limits_t *limits, ngx_str_t *json,
    ngx_array_t *pieces, ngx_array_t *buttons);

/*
 * What somebody wrote, as the body of …/questions/{qid}/reply or
 * …/permissions/{pid}/reply: {"answers":[["Blue"]]}, {"reply":"once"}.  Numbers
 * and labels are options, everything else is an answer in own words.
 * NGX_DECLINED: it is no answer to a permission request, or empty; NGX_ERROR:
 * no memory.
 */
ngx_int_t ngx_http_agentstream_asked_answer(ngx_pool_t *pool, ngx_str_t *json,
    ngx_str_t *text, ngx_str_t *body);

/* the same for a button */
ngx_int_t ngx_http_agentstream_asked_press(ngx_pool_t *pool, ngx_str_t *json,
    ngx_uint_t index, ngx_str_t *body);

/*
 * What became of it, in a few words that can replace the buttons, from the JSON
 * of "question_resolved" or "permission_resolved": "Answered: Blue".
 */
ngx_int_t ngx_http_agentstream_asked_resolved(ngx_pool_t *pool,
    ngx_uint_t form, ngx_http_agentstream_markdown_limits_t *limits,
    ngx_str_t *json, ngx_http_agentstream_piece_t *piece);


#endif /* _NGX_HTTP_AGENTSTREAM_ASKED_H_INCLUDED_ */
