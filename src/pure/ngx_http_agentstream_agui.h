
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_AGUI_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_AGUI_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_fields.h"
#include "ngx_http_agentstream_wire.h"


/*
 * AG-UI, a protocol of web frontends, as docs/protocols.md describes it: what
 * a client sends ("RunAgentInput"), and how records look as its events.  A
 * run is one response; a turn that waits for the client takes several runs.
 */


/* the longest "runId", which is the prompt's client_request_id */
#define NGX_HTTP_AGENTSTREAM_AGUI_RUN_MAX  128


typedef struct {
    ngx_str_t                            thread;   /* a valid name */
    ngx_str_t                            run;      /* escaped, not empty */
    ngx_str_t                            prompt;   /* a body for prompt_build();
                                                      empty: there is no new
                                                      message */
    ngx_array_t                          answers;  /* to interrupts, of
                                                      body_answer_t */
    ngx_str_t                            turn;     /* whose interrupts they are,
                                                      and how much of it the
                                                      client has; empty: no
                                                      answers */
    uint64_t                             seq;
    ngx_uint_t                           state;    /* the client's state is an
                                                      object, which a patch can
                                                      change */
    ngx_uint_t                           thoughts; /* the client has some */
    ngx_http_agentstream_fields_error_t  error;
} ngx_http_agentstream_agui_input_t;


/* reads a "RunAgentInput"; all results are in the pool.  NGX_OK, NGX_DECLINED:
   error tells why, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_agui_read(ngx_pool_t *pool, ngx_str_t *text,
    ngx_http_agentstream_agui_input_t *input);


/* what the wires need to know of a request; it lives as long as the response,
   and is the "request" of their state */

typedef struct {
    ngx_str_t                            thread;
    ngx_str_t                            run;
    ngx_str_t                            turn;     /* a snapshot ends with this
                                                      turn; or empty */
    uint64_t                             seq;      /* the client has the records
                                                      up to this one; they are
                                                      silent */
    unsigned                             started:1;    /* RUN_STARTED was
                                                          written */
    unsigned                             state:1;      /* see above */
    unsigned                             thoughts:1;
    unsigned                             automatic:1;  /* permission requests
                                                          are not for clients */
} ngx_http_agentstream_agui_run_t;


/* the records of a turn */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_agui;
/* the records of a history as one MESSAGES_SNAPSHOT, which begins the run; of
   the run's turn only the prompt */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_agui_snapshot;
/* an error with its own status: RUN_ERROR as JSON */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_agui_error;


#endif /* _NGX_HTTP_AGENTSTREAM_AGUI_H_INCLUDED_ */
