
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_VERB_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_VERB_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_verb.h"


/*
 * Declarations that only the files of verb use: how a verb lives, makes calls
 * and ends (verb), sessions (verb_session), answers to questions and
 * permission requests (verb_answer), interrupts (verb_interrupt).
 */


struct ngx_http_agentstream_verb_s {
    ngx_pool_t                          *pool;     /* its own */
    ngx_http_agentstream_target_t        target;   /* in the pool */
    ngx_http_agentstream_outcome_pt      handler;  /* NULL: the caller has
                                                      left */
    void                                *data;

    ngx_uint_t                           request;  /* OpenCode's request, whose
                                                      answer is the outcome */
    const char                          *missing;  /* the reason for a 404;
                                                      NULL: a 404 is a failure
                                                      like others */
    ngx_http_agentstream_call_t         *call;     /* the current one, or
                                                      NULL */

    ngx_str_t                            id;       /* of the question that is
                                                      answered */
    ngx_str_t                            directory;
    ngx_str_t                            content;

    /* for a turn that the zone does not know */
    ngx_uint_t                           list;     /* the request that shows
                                                      what waits or is busy */
    ngx_http_agentstream_call_done_pt    found;    /* the function that reads
                                                      it */
    ngx_str_t                            session;  /* the session in which it
                                                      waits; then its parents,
                                                      one after the other */
    ngx_uint_t                           depth;    /* number of parents that
                                                      were looked up */

    /* for an interrupt: no turn begins in the session until it is answered */
    ngx_http_agentstream_ticket_t       *ticket;   /* or NULL */

    /* for a deletion that waits for the turn's end */
    ngx_event_t                          timer;
    ngx_msec_t                           until;
};


/* NULL: there was no memory, and this was reported */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_create(
    ngx_http_agentstream_target_t *target, ngx_uint_t request,
    const char *missing, ngx_http_agentstream_outcome_pt handler, void *data);

/* creates the call whose answer is the outcome, with the verb's id, directory
   and content, which are copied; NULL: there was no memory, and this was
   reported */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_call(
    ngx_http_agentstream_verb_t *verb);

/* the same in two steps; NGX_ERROR: no memory, and nothing was reported */
ngx_int_t ngx_http_agentstream_verb_prepare(ngx_http_agentstream_verb_t *verb);
void ngx_http_agentstream_verb_open(ngx_http_agentstream_verb_t *verb);

/* creates a call that comes before that one: about a session, or, if that
   is NULL, about the directory; NULL: there was no memory, and this was
   reported */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_ask(
    ngx_http_agentstream_verb_t *verb, ngx_uint_t request, ngx_str_t *session,
    ngx_http_agentstream_call_done_pt handler);

/* the same with content, but without a session or a directory */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_post(
    ngx_http_agentstream_verb_t *verb, ngx_uint_t request, ngx_str_t *content,
    ngx_http_agentstream_call_done_pt handler);

/* called with its answer; NGX_DECLINED: it is a failure, and this was
   reported */
ngx_int_t ngx_http_agentstream_verb_answered(ngx_http_agentstream_verb_t *verb,
    ngx_http_agentstream_call_t *call);

/*
 * The zone knows no turn in the session.  There may be one anyway, as after a
 * restart of nginx: OpenCode is asked for the session and its directory and,
 * with this request, for what waits or is busy there.  NULL: see above.
 */
ngx_http_agentstream_verb_t *ngx_http_agentstream_verb_look(
    ngx_http_agentstream_verb_t *verb, ngx_uint_t request,
    ngx_http_agentstream_call_done_pt handler);

/* reports the outcome, and frees the verb */
void ngx_http_agentstream_verb_end(ngx_http_agentstream_verb_t *verb,
    ngx_http_agentstream_outcome_t *outcome);
void ngx_http_agentstream_verb_succeed(ngx_http_agentstream_verb_t *verb,
    ngx_uint_t code, ngx_str_t *body);
void ngx_http_agentstream_verb_fail(ngx_http_agentstream_verb_t *verb,
    ngx_uint_t code, const char *reason);
/* reports that there was no memory */
void ngx_http_agentstream_verb_give_up(ngx_http_agentstream_verb_t *verb);
/* see outcome_unread() */
void ngx_http_agentstream_verb_unread(ngx_http_agentstream_verb_t *verb,
    ngx_int_t rc);


#endif /* _NGX_HTTP_AGENTSTREAM_VERB_INT_H_INCLUDED_ */
