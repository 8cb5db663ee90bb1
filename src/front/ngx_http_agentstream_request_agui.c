
/*
 * Copyright (C) agentstream contributors
 */


/*
 * AG-UI, docs/protocols.md: one route that prompts a thread, answers what it
 * waits for, or joins it, and one that stops its turn.  A thread is a session
 * with a name.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_agui.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_store.h"


/* in the request's pool */

typedef struct {
    ngx_http_agentstream_request_t      *req;
    ngx_http_agentstream_agui_input_t    input;
    ngx_http_agentstream_agui_run_t      run;      /* the request's context */
    ngx_str_t                           *bodies;   /* of the answers, checked */
    ngx_array_t                          answered;     /* of ngx_str_t */
    ngx_uint_t                           next;     /* answer to be sent */
    ngx_int_t                            rc;       /* of the response to an
                                                      answer that failed */
    unsigned                             known:1;  /* the zone knows the turn,
                                                      so it knows what waits */
    unsigned                             calling:1;    /* the verb has not been
                                                          returned yet */
    unsigned                             later:1;  /* the handler has
                                                      returned */
    unsigned                             failed:1;
} ngx_http_agentstream_request_agui_t;


static ngx_int_t ngx_http_agentstream_request_agui_run(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_agui_prompt(
    ngx_http_agentstream_request_agui_t *ra);
static ngx_int_t ngx_http_agentstream_request_agui_answers(
    ngx_http_agentstream_request_agui_t *ra);
static ngx_int_t ngx_http_agentstream_request_agui_check(
    ngx_http_agentstream_request_agui_t *ra);
static ngx_int_t ngx_http_agentstream_request_agui_waiting(
    ngx_http_agentstream_request_agui_t *ra);
static ngx_uint_t ngx_http_agentstream_request_agui_kept(
    ngx_http_agentstream_request_agui_t *ra, ngx_str_t *turn);
static ngx_int_t ngx_http_agentstream_request_agui_answer(
    ngx_http_agentstream_request_agui_t *ra);
static void ngx_http_agentstream_request_agui_answered(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static ngx_int_t ngx_http_agentstream_request_agui_resume(
    ngx_http_agentstream_request_agui_t *ra);
static ngx_int_t ngx_http_agentstream_request_agui_join(
    ngx_http_agentstream_request_agui_t *ra);
static ngx_int_t ngx_http_agentstream_request_agui_follow(
    ngx_http_agentstream_request_t *req);


static ngx_http_agentstream_request_route_t
    ngx_http_agentstream_request_agui_routes[] =
{
    { NGX_HTTP_POST, 0, NULL, NULL,
      ngx_http_agentstream_body_required, 1,
      ngx_http_agentstream_request_agui_run },

    { NGX_HTTP_POST, 2, "stop", NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_interrupt },

    { 0, 0, NULL, NULL, ngx_http_agentstream_body_none, 0, NULL }
};


ngx_http_agentstream_request_protocol_t  ngx_http_agentstream_request_agui =
{
    ngx_http_agentstream_request_agui_routes,
    &ngx_http_agentstream_wire_agui,
    &ngx_http_agentstream_wire_agui_error,
    &ngx_http_agentstream_wire_agui_error,
    &ngx_http_agentstream_wire_agui_error,
    0,
    1
};


static ngx_int_t
ngx_http_agentstream_request_agui_run(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                             rc;
    ngx_http_agentstream_request_agui_t  *ra;

    ra = ngx_pcalloc(req->request->pool,
                     sizeof(ngx_http_agentstream_request_agui_t));
    if (ra == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_agentstream_agui_read(req->request->pool, &req->body,
                                        &ra->input);

    ngx_http_agentstream_request_free_body(req);

    if (rc != NGX_OK) {
        return ngx_http_agentstream_request_refused(req, rc,
                                                    &ra->input.error);
    }

    rc = ngx_http_agentstream_request_use_name(req, &ra->input.thread);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    ra->req = req;

    ra->run.thread = ra->input.thread;
    ra->run.run = ra->input.run;
    ra->run.state = ra->input.state;
    ra->run.thoughts = ra->input.thoughts;
    ra->run.automatic = (req->conf->permissions != NGX_HTTP_AGENTSTREAM_ASK);

    req->context = &ra->run;

    if (ra->input.nanswers) {
        return ngx_http_agentstream_request_agui_answers(ra);
    }

    if (ra->input.prompt.len) {
        return ngx_http_agentstream_request_agui_prompt(ra);
    }

    return ngx_http_agentstream_request_agui_join(ra);
}


static ngx_int_t
ngx_http_agentstream_request_agui_prompt(
    ngx_http_agentstream_request_agui_t *ra)
{
    ngx_int_t                      rc;
    ngx_http_agentstream_prompt_t  prompt;

    if (ngx_http_agentstream_request_prompt(ra->req, &ra->input.prompt, 0,
                                            &prompt, &rc)
        != NGX_OK)
    {
        return rc;
    }

    ngx_pfree(ra->req->request->pool, ra->input.prompt.data);

    prompt.request_id = ra->input.run;

    return ngx_http_agentstream_request_send(ra->req, &prompt);
}


static ngx_int_t
ngx_http_agentstream_request_agui_answers(
    ngx_http_agentstream_request_agui_t *ra)
{
    ngx_int_t  rc;

    rc = ngx_http_agentstream_request_agui_check(ra);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    rc = ngx_http_agentstream_request_agui_waiting(ra);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    return ngx_http_agentstream_request_agui_answer(ra);
}


/* the form of all answers, before the first one is sent; NGX_DECLINED: nothing
   to object, anything else is what the handler returns */

static ngx_int_t
ngx_http_agentstream_request_agui_check(
    ngx_http_agentstream_request_agui_t *ra)
{
    ngx_int_t                            rc;
    ngx_str_t                           *id;
    ngx_uint_t                           i, n;
    ngx_pool_t                          *pool;
    ngx_http_agentstream_body_t          body;
    ngx_http_agentstream_agui_answer_t  *answers;

    n = ra->input.nanswers;
    answers = ra->input.answers;
    pool = ra->req->request->pool;

    ra->bodies = ngx_pcalloc(pool, n * sizeof(ngx_str_t));

    if (ra->bodies == NULL
        || ngx_array_init(&ra->answered, pool, n, sizeof(ngx_str_t)) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    for (i = 0; i < n; i++) {

        if (answers[i].turn.len != answers[0].turn.len
            || ngx_memcmp(answers[i].turn.data, answers[0].turn.data,
                          answers[0].turn.len)
               != 0)
        {
            return ngx_http_agentstream_request_error(ra->req,
                                            NGX_HTTP_BAD_REQUEST,
                                            "The interrupts are of different "
                                            "runs", NULL);
        }

        id = ngx_array_push(&ra->answered);
        if (id == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        *id = answers[i].id;
        ra->run.seq = ngx_max(ra->run.seq, answers[i].seq);

        if (answers[i].body.len == 0) {
            continue;
        }

        rc = ngx_http_agentstream_body_build(pool,
                                  answers[i].permission
                                  ? NGX_HTTP_AGENTSTREAM_BODY_REPLY
                                  : NGX_HTTP_AGENTSTREAM_BODY_ANSWERS,
                                  NULL, &answers[i].body, &body);
        if (rc != NGX_OK) {
            return ngx_http_agentstream_request_refused(ra->req, rc,
                                                        &body.error);
        }

        ra->bodies[i] = body.text;
    }

    return NGX_DECLINED;
}


/*
 * What does not wait any more was answered elsewhere, if it was asked in this
 * thread: then there is nothing to send, and the run just goes on.  What the
 * zone does not know is left to OpenCode.  Returned is the same as above.
 */

static ngx_int_t
ngx_http_agentstream_request_agui_waiting(
    ngx_http_agentstream_request_agui_t *ra)
{
    ngx_int_t                            rc;
    ngx_uint_t                           i, j;
    ngx_http_agentstream_store_ask_t    *asks;
    ngx_http_agentstream_agui_answer_t  *answers;
    ngx_http_agentstream_store_state_t   state;

    rc = ngx_http_agentstream_verb_turn(&ra->req->target,
                                        ra->req->request->pool, &state);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    answers = ra->input.answers;
    ra->run.turn = answers[0].turn;

    if (rc != NGX_OK) {
        return NGX_DECLINED;
    }

    ra->known = 1;

    if (!ngx_http_agentstream_request_agui_kept(ra, &ra->run.turn)) {

        for (i = 0; i < ra->input.nanswers; i++) {
            if (!answers[i].cancelled) {
                return ngx_http_agentstream_request_error(ra->req,
                                            NGX_HTTP_BAD_REQUEST,
                                            "No such interrupt waits in this "
                                            "thread", NULL);
            }
        }

        /* the client only wants to get rid of it */

        ra->next = ra->input.nanswers;
        ra->run.seq = 0;

        return NGX_DECLINED;
    }

    for (i = 0; i < ra->input.nanswers; i++) {
        asks = state.asks;

        for (j = 0; j < state.nasks; j++) {
            if (asks[j].permission == answers[i].permission
                && asks[j].id.len == answers[i].id.len
                && ngx_memcmp(asks[j].id.data, answers[i].id.data,
                              asks[j].id.len)
                   == 0)
            {
                break;
            }
        }

        if (j == state.nasks) {
            answers[i].id.len = 0;
        }
    }

    return NGX_DECLINED;
}


static ngx_uint_t
ngx_http_agentstream_request_agui_kept(ngx_http_agentstream_request_agui_t *ra,
    ngx_str_t *turn)
{
    ngx_http_agentstream_store_found_t  found;

    ngx_http_agentstream_store_find(ngx_http_agentstream_worker->zone,
                                    &ra->req->target.key, turn, 0, &found);

    return found.turn.len == turn->len
           && ngx_memcmp(found.turn.data, turn->data, turn->len) == 0;
}


/* sends the answers one after the other, and then continues the turn */

static ngx_int_t
ngx_http_agentstream_request_agui_answer(
    ngx_http_agentstream_request_agui_t *ra)
{
    ngx_uint_t                           i;
    ngx_http_agentstream_verb_t         *verb;
    ngx_http_agentstream_agui_answer_t  *answer;

    while (!ra->failed && ra->next < ra->input.nanswers) {

        i = ra->next++;
        answer = &ra->input.answers[i];

        if (answer->id.len == 0) {
            continue;
        }

        ra->calling = 1;

        verb = ngx_http_agentstream_verb_answer(&ra->req->target,
                                 answer->permission
                                 ? NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION
                                 : answer->body.len
                                   ? NGX_HTTP_AGENTSTREAM_REPLY_QUESTION
                                   : NGX_HTTP_AGENTSTREAM_REJECT_QUESTION,
                                 &answer->id,
                                 answer->body.len ? &ra->bodies[i] : NULL,
                                 ngx_http_agentstream_request_agui_answered,
                                 ra);

        ra->calling = 0;

        if (verb) {
            ra->req->verb = verb;
            ra->later = 1;

            ngx_http_agentstream_output_wait(ra->req->request);

            return NGX_DONE;
        }
    }

    return ra->failed ? ra->rc : ngx_http_agentstream_request_agui_resume(ra);
}


static void
ngx_http_agentstream_request_agui_answered(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_agui_t *ra = data;

    ngx_int_t            rc;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = ra->req->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ra->req->verb = NULL;

    if (outcome->code == NGX_HTTP_NOT_FOUND) {

        /* answered elsewhere in the meantime, or nobody knows it */

        if (!ra->known && !ra->input.answers[ra->next - 1].cancelled) {
            outcome->code = NGX_HTTP_BAD_REQUEST;
            ra->rc = ngx_http_agentstream_request_failed(ra->req, outcome);
            ra->failed = 1;
        }

    } else if (outcome->code < 200 || outcome->code >= 300) {
        ra->rc = ngx_http_agentstream_request_failed(ra->req, outcome);
        ra->failed = 1;
    }

    if (ra->calling) {
        return;
    }

    rc = ngx_http_agentstream_request_agui_answer(ra);

    if (rc != NGX_DONE) {
        ngx_http_finalize_request(r, rc);
        ngx_http_run_posted_requests(c);
    }
}


static ngx_int_t
ngx_http_agentstream_request_agui_resume(
    ngx_http_agentstream_request_agui_t *ra)
{
    if (ra->run.seq == 0) {
        /* the client's events had no numbers */
        return ngx_http_agentstream_request_agui_join(ra);
    }

    return ngx_http_agentstream_request_agui_follow(ra->req);
}


/* everything up to the session's running turn as a snapshot, and then that
   turn from its beginning */

static ngx_int_t
ngx_http_agentstream_request_agui_join(ngx_http_agentstream_request_agui_t *ra)
{
    ngx_int_t                           rc;
    ngx_http_agentstream_store_state_t  state;

    rc = ngx_http_agentstream_verb_turn(&ra->req->target,
                                        ra->req->request->pool, &state);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_OK) {
        ngx_str_null(&ra->run.turn);

        if (state.running) {
            ra->run.turn = state.id;
        }
    }

    return ngx_http_agentstream_request_history(ra->req, 0,
                                      &ngx_http_agentstream_wire_agui_snapshot,
                                      ra->run.turn.len
                                      ? ngx_http_agentstream_request_agui_follow
                                      : NULL);
}


static ngx_int_t
ngx_http_agentstream_request_agui_follow(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_agui_run_t      *run;
    ngx_http_agentstream_reader_args_t    args;
    ngx_http_agentstream_request_agui_t  *ra;

    run = req->context;
    ra = (ngx_http_agentstream_request_agui_t *)
             ((u_char *) run
              - offsetof(ngx_http_agentstream_request_agui_t, run));

    ngx_memzero(&args, sizeof(ngx_http_agentstream_reader_args_t));

    args.turn = run->turn;
    args.skip = run->seq;
    args.answered = ra->input.nanswers ? &ra->answered : NULL;
    args.sender = 1;

    return ngx_http_agentstream_request_read(req, &args);
}
