
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_VERB_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_VERB_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_outcome.h"
#include "ngx_http_agentstream_store.h"
#include "ngx_http_agentstream_target.h"


/*
 * What can be done with a session besides a prompt: the session itself can be
 * created, read and deleted, questions of its turn can be answered, and the
 * turn can be ended.  The caller, a REST request or something else, gets one
 * outcome by callback, unless it leaves before.
 */


/* a verb that is being executed; it owns itself, and is freed when its outcome
   was reported */
typedef struct ngx_http_agentstream_verb_s  ngx_http_agentstream_verb_t;


/*
 * All of these functions copy their arguments.  They return NULL if the
 * outcome was reported already; otherwise it will be reported, unless the
 * caller leaves.  Directories may be empty.  The body of a good outcome is
 * OpenCode's answer, checked to be what was asked for.
 */

/* those that OpenCode lists by itself; see list.h for those of an owner */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_list_sessions(
    ngx_http_agentstream_target_t *target, ngx_str_t *directory,
    ngx_http_agentstream_outcome_pt handler, void *data);

/* content: OpenCode's body, see body.h */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_create_session(
    ngx_http_agentstream_target_t *target, ngx_str_t *directory,
    ngx_str_t *content, ngx_http_agentstream_outcome_pt handler, void *data);

/* the session of the target, which is created if it is not there; make and
   update: OpenCode's bodies, see body.h, the latter may be empty */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_make_session(
    ngx_http_agentstream_target_t *target, ngx_str_t *make, ngx_str_t *update,
    ngx_http_agentstream_outcome_pt handler, void *data);

ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_get_session(
    ngx_http_agentstream_target_t *target,
    ngx_http_agentstream_outcome_pt handler, void *data);

/* content: OpenCode's body with what is to be changed, see body.h */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_update_session(
    ngx_http_agentstream_target_t *target, ngx_str_t *content,
    ngx_http_agentstream_outcome_pt handler, void *data);

/* NGX_HTTP_AGENTSTREAM_GET_MODELS or _GET_AGENTS; the body is a list for
   clients, see opencode_models() */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_list_choices(
    ngx_http_agentstream_target_t *target, ngx_str_t *directory,
    ngx_uint_t request, ngx_http_agentstream_outcome_pt handler, void *data);

/* a turn that is running in the session is interrupted first */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_delete_session(
    ngx_http_agentstream_target_t *target,
    ngx_http_agentstream_outcome_pt handler, void *data);

/* NGX_HTTP_AGENTSTREAM_REPLY_QUESTION, _REJECT_QUESTION or _REPLY_PERMISSION
   with this id; content: OpenCode's body, or NULL */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_answer(
    ngx_http_agentstream_target_t *target, ngx_uint_t request, ngx_str_t *id,
    ngx_str_t *content, ngx_http_agentstream_outcome_pt handler, void *data);

/* NGX_HTTP_OK: the turn will end, NGX_HTTP_NO_CONTENT: there was none; neither
   has a body.  NGX_HTTP_NOT_FOUND: there is no such session */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_interrupt(
    ngx_http_agentstream_target_t *target,
    ngx_http_agentstream_outcome_pt handler, void *data);


/* a snapshot of the session's current or last turn, at once; see
   store_state() */
ngx_int_t ngx_http_agentstream_verb_turn(ngx_http_agentstream_target_t *target,
    ngx_pool_t *pool, ngx_http_agentstream_store_state_t *state);


/* whether the turn, which is kept, has asked all these questions or permission
   requests, of ngx_str_t; nothing is asked of OpenCode.  NGX_OK: it has, or its
   records are not kept any more; NGX_DECLINED, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_verb_asked(ngx_str_t *turn, ngx_array_t *ids);


/* the caller no longer waits: a call that has begun to change something
   continues to its end, anything else is given up */
void ngx_http_agentstream_verb_leave(ngx_http_agentstream_verb_t *verb);


#endif /* _NGX_HTTP_AGENTSTREAM_VERB_H_INCLUDED_ */
