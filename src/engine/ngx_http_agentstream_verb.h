
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_VERB_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_VERB_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_outcome.h"
#include "ngx_http_agentstream_target.h"


/*
 * What can be asked for in a session besides a prompt: sessions themselves, an
 * answer to what the turn waits for, the end of the turn.  Whoever asks, a REST
 * request or something else, gets one outcome by callback, or leaves before.
 */


/* one that is under way; it owns itself, and is gone when its outcome is
   told */
typedef struct ngx_http_agentstream_verb_s  ngx_http_agentstream_verb_t;


/*
 * All of these copy their arguments, and return NULL if the outcome was told
 * already; otherwise it will be, unless the caller leaves.  Directories may be
 * empty.  The body of a good outcome is OpenCode's answer, checked to be what
 * was asked for.
 */

ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_list_sessions(
    ngx_http_agentstream_target_t *target, ngx_str_t *directory,
    ngx_http_agentstream_outcome_pt handler, void *data);

/* content: OpenCode's body, see body.h */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_create_session(
    ngx_http_agentstream_target_t *target, ngx_str_t *directory,
    ngx_str_t *content, ngx_http_agentstream_outcome_pt handler, void *data);

ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_get_session(
    ngx_http_agentstream_target_t *target,
    ngx_http_agentstream_outcome_pt handler, void *data);

/* a turn that runs in it is interrupted first */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_delete_session(
    ngx_http_agentstream_target_t *target,
    ngx_http_agentstream_outcome_pt handler, void *data);

/* NGX_HTTP_AGENTSTREAM_REPLY_QUESTION, _REJECT_QUESTION or _REPLY_PERMISSION
   with this id; content: OpenCode's body, or NULL */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_answer(
    ngx_http_agentstream_target_t *target, ngx_uint_t request, ngx_str_t *id,
    ngx_str_t *content, ngx_http_agentstream_outcome_pt handler, void *data);

/* NGX_HTTP_OK: the turn will end, NGX_HTTP_NO_CONTENT: there was none; neither
   has a body */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_interrupt(
    ngx_http_agentstream_target_t *target,
    ngx_http_agentstream_outcome_pt handler, void *data);


/* whoever asked does not wait any more: what has begun to change something
   goes on to its end, anything else is given up */
void ngx_http_agentstream_verb_leave(ngx_http_agentstream_verb_t *verb);


#endif /* _NGX_HTTP_AGENTSTREAM_VERB_H_INCLUDED_ */
