
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
    ngx_http_agentstream_request_t          *req;
    ngx_http_agentstream_agui_input_t        input;
    ngx_http_agentstream_agui_run_t          run;  /* the request's context */
    ngx_http_agentstream_request_answers_t   answers;
} ngx_http_agentstream_request_agui_t;


static ngx_int_t ngx_http_agentstream_request_agui_run(
    ngx_http_agentstream_request_t *req);
static ngx_int_t ngx_http_agentstream_request_agui_prompt(
    ngx_http_agentstream_request_agui_t *ra);
static ngx_int_t ngx_http_agentstream_request_agui_answers(
    ngx_http_agentstream_request_agui_t *ra);
static ngx_int_t ngx_http_agentstream_request_agui_unknown(
    ngx_http_agentstream_request_agui_t *ra);
static ngx_uint_t ngx_http_agentstream_request_agui_kept(
    ngx_http_agentstream_request_agui_t *ra, ngx_str_t *turn);
static ngx_int_t ngx_http_agentstream_request_agui_resume(
    ngx_http_agentstream_request_t *req);
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
    req->data = ra;

    if (ra->input.answers.nelts) {
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


/* what the zone does not know is left to OpenCode */

static ngx_int_t
ngx_http_agentstream_request_agui_answers(
    ngx_http_agentstream_request_agui_t *ra)
{
    ngx_int_t                            rc;
    ngx_http_agentstream_store_state_t  *known, state;

    rc = ngx_http_agentstream_verb_turn(&ra->req->target,
                                        ra->req->request->pool, &state);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    known = (rc == NGX_OK) ? &state : NULL;

    ra->run.turn = ra->input.turn;
    ra->run.seq = ra->input.seq;

    ra->answers.req = ra->req;
    ra->answers.list = &ra->input.answers;
    ra->answers.handler = ngx_http_agentstream_request_agui_resume;

    if (known
        && !ngx_http_agentstream_request_agui_kept(ra, &ra->run.turn))
    {
        return ngx_http_agentstream_request_agui_unknown(ra);
    }

    rc = ngx_http_agentstream_request_check_answers(&ra->answers,
                                                    &ra->run.turn, known);

    return (rc == NGX_DECLINED)
           ? ngx_http_agentstream_request_send_answers(&ra->answers) : rc;
}


/* interrupts of a turn that is not one of this thread: a client may only want
   to get rid of them */

static ngx_int_t
ngx_http_agentstream_request_agui_unknown(
    ngx_http_agentstream_request_agui_t *ra)
{
    ngx_uint_t                           i;
    ngx_http_agentstream_body_answer_t  *answers;

    answers = ra->input.answers.elts;

    for (i = 0; i < ra->input.answers.nelts; i++) {
        if (!answers[i].optional) {
            return ngx_http_agentstream_request_error(ra->req,
                                            NGX_HTTP_BAD_REQUEST,
                                            "No such interrupt waits in this "
                                            "thread", NULL);
        }
    }

    ra->run.seq = 0;

    return ngx_http_agentstream_request_agui_join(ra);
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


static ngx_int_t
ngx_http_agentstream_request_agui_resume(ngx_http_agentstream_request_t *req)
{
    ngx_http_agentstream_request_agui_t  *ra;

    ra = req->data;

    if (ra->run.seq == 0) {
        /* the client's events had no numbers */
        return ngx_http_agentstream_request_agui_join(ra);
    }

    return ngx_http_agentstream_request_agui_follow(req);
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
    ngx_http_agentstream_reader_args_t    args;
    ngx_http_agentstream_request_agui_t  *ra;

    ra = req->data;

    ngx_memzero(&args, sizeof(ngx_http_agentstream_reader_args_t));

    args.turn = ra->run.turn;
    args.skip = ra->run.seq;
    args.answered = ra->input.answers.nelts ? &ra->answers.ids : NULL;
    args.sender = 1;

    return ngx_http_agentstream_request_read(req, &args);
}
