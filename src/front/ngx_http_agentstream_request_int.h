
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REQUEST_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REQUEST_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_header.h"
#include "ngx_http_agentstream_name.h"
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_prompt.h"
#include "ngx_http_agentstream_reader.h"
#include "ngx_http_agentstream_request.h"
#include "ngx_http_agentstream_verb.h"


/*
 * Declarations that only the files of request use: routing, checks and errors
 * (request), the module's own protocol (request_packets), the path
 * (request_path), the page that sent the request (request_origin), the form of
 * the response (request_accept), bodies
 * (request_body), prompts (request_send_message), event streams
 * (request_events), whole answers (request_whole), the state of a turn
 * (request_turn), sessions (request_session), lists that are sent while they
 * arrive (request_records), requests that end or unblock a turn
 * (request_answer), answers that begin a request which then reads on
 * (request_answers), and verbs of the engine whose outcome is the response
 * (request_outcome).
 */


#define NGX_HTTP_AGENTSTREAM_SEGMENTS  4


typedef struct ngx_http_agentstream_request_s  ngx_http_agentstream_request_t;

/* NGX_DONE: the request continues by itself; any other value finalizes it */
typedef ngx_int_t (*ngx_http_agentstream_request_pt)(
    ngx_http_agentstream_request_t *req);


typedef enum {
    ngx_http_agentstream_body_none = 0,    /* ignored */
    ngx_http_agentstream_body_optional,    /* JSON, if there is one */
    ngx_http_agentstream_body_required     /* JSON */
} ngx_http_agentstream_request_body_e;


/* a route: the segments that follow the location's name; the first is a
   session's id, unless it is the noun of a path that has no other segment; the
   third is another id */

typedef struct {
    ngx_uint_t                            method;
    ngx_uint_t                            nsegments;
    const char                           *noun;    /* second segment, or the
                                                      only one */
    const char                           *verb;    /* fourth segment */
    ngx_http_agentstream_request_body_e   body;
    ngx_uint_t                            sse;     /* an event stream, unless
                                                      the client prefers
                                                      JSON */
    ngx_http_agentstream_request_pt       handler;
} ngx_http_agentstream_request_route_t;


/*
 * A protocol that clients can speak: which routes there are, and how turns and
 * errors look.  A route's handler reads the body in its own way.  The engine
 * knows nothing of it.
 */

typedef struct {
    ngx_http_agentstream_request_route_t *routes;

    /* the records of a turn; and if its response has the status of an error,
       because the turn has failed before its first record */
    ngx_http_agentstream_wire_t          *wire;
    ngx_http_agentstream_wire_t          *failed;

    /* a request that was refused, on a route with "sse", and on any other */
    ngx_http_agentstream_wire_t          *stream_error;
    ngx_http_agentstream_wire_t          *error;

    /* whether a client that prefers JSON gets the whole answer at once */
    ngx_uint_t                            whole;

    /* whether the first segment of a path is always a name, without "@" */
    ngx_uint_t                            names;
} ngx_http_agentstream_request_protocol_t;

/* docs/protocol.md */
extern ngx_http_agentstream_request_protocol_t
    ngx_http_agentstream_request_packets;
/* docs/protocols.md, "AG-UI" */
extern ngx_http_agentstream_request_protocol_t
    ngx_http_agentstream_request_agui;
/* docs/protocols.md, "ai-sdk" */
extern ngx_http_agentstream_request_protocol_t
    ngx_http_agentstream_request_aisdk;


/* the path after the location's name; points into the request's URI */

typedef struct {
    ngx_str_t                             segments[
                                              NGX_HTTP_AGENTSTREAM_SEGMENTS];
    ngx_uint_t                            nsegments;
    ngx_str_t                             name;    /* of the session, if the
                                                      first segment has one */
    ngx_uint_t                            named;   /* it has */
} ngx_http_agentstream_request_path_t;


/* lives in the request's pool */

struct ngx_http_agentstream_request_s {
    ngx_http_request_t                    *request;
    ngx_http_agentstream_loc_conf_t       *conf;
    ngx_http_agentstream_request_protocol_t
                                          *protocol;
    ngx_http_agentstream_request_route_t  *route;
    ngx_http_agentstream_request_path_t    path;
    ngx_http_agentstream_name_scope_t      scope;  /* of names; its route and
                                                      directory are those of all
                                                      sessions here */
    ngx_http_agentstream_target_t          target; /* set when it was
                                                      checked */
    ngx_uint_t                             named;  /* the path has a name */
    ngx_str_t                              id;     /* third segment */
    ngx_str_t                              body;   /* heap, freed by cleanup */
    size_t                                 size;
    ngx_uint_t                             sse;    /* the response is an event
                                                      stream, also if it is
                                                      an error */
    ngx_http_agentstream_accept_t          accept; /* set by
                                                      request_accept() */
    ngx_http_agentstream_prefer_t          prefer;
    ngx_http_agentstream_verb_t           *verb;   /* or NULL; left by
                                                      cleanup */
    ngx_int_t                              rc;     /* result of a verb's
                                                      outcome that was reported
                                                      at once */
    void                                  *context;    /* what the protocol's
                                                          wires have to know of
                                                          the request; or
                                                          NULL */
    void                                  *data;   /* of the route's handler */

    ngx_http_agentstream_store_watch_t     watch;  /* of its session; ended by
                                                      cleanup */
    ngx_http_agentstream_later_t           later;
    ngx_http_agentstream_output_t          output;
};


/* the protocol of a location */
ngx_http_agentstream_request_protocol_t *ngx_http_agentstream_request_protocol(
    ngx_http_agentstream_loc_conf_t *conf);

/* runs the route's handler, when the store knows the session */
void ngx_http_agentstream_request_run(ngx_http_agentstream_request_t *req);

/* where the client stopped reading; seq 0: nowhere.  NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_request_cursor(
    ngx_http_agentstream_request_t *req, ngx_str_t *turn, uint64_t *seq);
/* whether it wants to read turns that begin later */
ngx_uint_t ngx_http_agentstream_request_follows(ngx_http_request_t *r);


/* NGX_OK, or the status with which the path is refused */
ngx_int_t ngx_http_agentstream_request_split(ngx_http_request_t *r,
    ngx_http_agentstream_request_path_t *path);

/* whether the first segment of a path has the form of a session's id, or of a
   name */
ngx_uint_t ngx_http_agentstream_request_names(
    ngx_http_agentstream_request_path_t *path);

/* reads "Accept" and "Prefer", for a response that depends on them; NGX_OK, or
   what the handler returns */
ngx_int_t ngx_http_agentstream_request_accept(
    ngx_http_agentstream_request_t *req);

/* which session the request means; NGX_DECLINED: nothing to object, anything
   else is what the handler returns */
ngx_int_t ngx_http_agentstream_request_target(
    ngx_http_agentstream_request_t *req);

/* what a name means in the request's location; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_request_scope(ngx_http_request_t *r,
    ngx_http_agentstream_name_scope_t *scope);

/* the id that the first segment of a path stands for; NGX_DECLINED: it is not
   the owner's, NGX_ERROR: it cannot be computed, see request_nameless() */
ngx_int_t ngx_http_agentstream_request_session_id(ngx_http_request_t *r,
    ngx_http_agentstream_name_scope_t *scope,
    ngx_http_agentstream_request_path_t *path, ngx_str_t *session);
ngx_int_t ngx_http_agentstream_request_nameless(
    ngx_http_agentstream_request_t *req);

/* whether it was sent by a page of another origin */
ngx_uint_t ngx_http_agentstream_request_foreign(ngx_http_request_t *r);


/* makes the session of this name the request's target, or a new one of its
   owner if the name is empty; NGX_DECLINED: done, anything else is what the
   handler returns */
ngx_int_t ngx_http_agentstream_request_use_name(
    ngx_http_agentstream_request_t *req, ngx_str_t *name);

/* responses; the route's handler must return what they return */
ngx_int_t ngx_http_agentstream_request_error(
    ngx_http_agentstream_request_t *req, ngx_uint_t status,
    const char *message, ngx_str_t *details);
ngx_int_t ngx_http_agentstream_request_error_text(
    ngx_http_agentstream_request_t *req, ngx_uint_t status,
    ngx_str_t *message, ngx_str_t *details);
ngx_int_t ngx_http_agentstream_request_reply(
    ngx_http_agentstream_request_t *req, ngx_uint_t status, ngx_str_t *body);
/* 204 */
ngx_int_t ngx_http_agentstream_request_nothing(
    ngx_http_agentstream_request_t *req);

/* reads the body into memory, and then runs the route's handler; returns what
   the content handler is to return */
ngx_int_t ngx_http_agentstream_request_read_body(
    ngx_http_agentstream_request_t *req);

/* frees the body, which is not needed any more */
void ngx_http_agentstream_request_free_body(
    ngx_http_agentstream_request_t *req);

/* an outcome_pt that turns the outcome of a verb into a response; the data is
   the request */
void ngx_http_agentstream_request_told(void *data,
    ngx_http_agentstream_outcome_t *outcome);

/* the return value of a route's handler that has started a verb; verb NULL:
   its outcome was reported already */
ngx_int_t ngx_http_agentstream_request_wait(
    ngx_http_agentstream_request_t *req, ngx_http_agentstream_verb_t *verb);

/* for other outcome handlers: the response to a failure, and the end of the
   request, whose response returned rc; the request may be freed then */
ngx_int_t ngx_http_agentstream_request_failed(
    ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_outcome_t *outcome);
void ngx_http_agentstream_request_finish(ngx_http_agentstream_request_t *req,
    ngx_int_t rc);

/* a body of a kind in body.h, checked and written again; NGX_DECLINED: the
   handler must return *rc */
ngx_int_t ngx_http_agentstream_request_body(
    ngx_http_agentstream_request_t *req, ngx_uint_t kind,
    ngx_http_agentstream_body_t *body, ngx_int_t *rc);
/* the same for a prompt, whose text may be the body; allowed: fields that it
   may have whatever "agentstream_fields" says */
ngx_int_t ngx_http_agentstream_request_prompt(
    ngx_http_agentstream_request_t *req, ngx_str_t *text, ngx_uint_t allowed,
    ngx_http_agentstream_prompt_t *prompt, ngx_int_t *rc);

/* the response to a body that was refused (NGX_DECLINED), or for which there
   was no memory */
ngx_int_t ngx_http_agentstream_request_refused(
    ngx_http_agentstream_request_t *req, ngx_int_t rc,
    ngx_http_agentstream_fields_error_t *error);

/*
 * Answers to what a turn has asked, which the turn continues with: all of them
 * are checked before the first one is sent.  In the request's pool.
 */

typedef struct {
    ngx_http_agentstream_request_t        *req;
    ngx_array_t                           *list;   /* of body_answer_t */
    ngx_http_agentstream_request_pt        handler;    /* reads on */

    ngx_array_t                            ids;    /* of all answers, of
                                                      ngx_str_t */
    ngx_uint_t                             next;   /* the answer to be sent */
    ngx_int_t                              rc;     /* result of the response, if
                                                      one has failed */
    unsigned                               known:1;    /* the zone knows what
                                                          the turn has asked */
    unsigned                               calls:1;    /* a verb is being
                                                          called */
    unsigned                               failed:1;
} ngx_http_agentstream_request_answers_t;

/*
 * The form of the answers, and whether the turn has asked for them.  state is
 * the turn's; NULL: the zone does not know the turn, and it is left to OpenCode
 * what waits.  What does not wait any more is not sent, because somebody else
 * has answered it.  NGX_DECLINED: nothing to object, anything else is what the
 * handler returns.
 */
ngx_int_t ngx_http_agentstream_request_check_answers(
    ngx_http_agentstream_request_answers_t *a, ngx_str_t *turn,
    ngx_http_agentstream_store_state_t *state);
/* sends them one after the other, and then calls the handler; returns what the
   route's handler is to return */
ngx_int_t ngx_http_agentstream_request_send_answers(
    ngx_http_agentstream_request_answers_t *a);

/* sends the prompt to the request's session, and makes the client a reader of
   its turn; returns what the handler is to return */
ngx_int_t ngx_http_agentstream_request_send(
    ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_prompt_t *prompt);

/* makes the client a reader in its protocol; args says where it begins, the
   rest of it is set here.  Returns what reader_attach() does */
ngx_int_t ngx_http_agentstream_request_read(
    ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_reader_args_t *args);

/*
 * The response is an event stream of snapshots, docs/protocol.md, "Views": name
 * is the value of "view".  args says what the client has, and whether it
 * follows the session.  Returns what request_whole() does.
 */
ngx_int_t ngx_http_agentstream_request_view(
    ngx_http_agentstream_request_t *req,
    ngx_http_agentstream_reader_args_t *args, ngx_str_t *name);

/*
 * The response is one JSON object about the turn, when it is over: for sender 1
 * this turn, otherwise the one that a client reads next which has that turn up
 * to seq.  NGX_DONE, or what to finalize the request with; NGX_DECLINED: the
 * client has seen everything.
 */
ngx_int_t ngx_http_agentstream_request_whole(
    ngx_http_agentstream_request_t *req, ngx_str_t *turn, uint64_t seq,
    ngx_uint_t sender);

/* answers with all sessions of the request's owner; returns what the handler is
   to return */
ngx_int_t ngx_http_agentstream_request_owned(
    ngx_http_agentstream_request_t *req);

/*
 * The session's last messages, or all of them for limit 0, in the form of a
 * wire.  When they are sent, "then" continues the response, unless it is NULL.
 * In a protocol with names, a session that does not exist is an empty one.
 */
ngx_int_t ngx_http_agentstream_request_history(
    ngx_http_agentstream_request_t *req, ngx_uint_t limit,
    ngx_http_agentstream_wire_t *wire, ngx_http_agentstream_request_pt then);

/* whether a client may choose NGX_HTTP_AGENTSTREAM_FIELD_MODEL or _AGENT here;
   NGX_DECLINED: the handler must return *rc */
ngx_int_t ngx_http_agentstream_request_chooses(
    ngx_http_agentstream_request_t *req, ngx_uint_t field, ngx_uint_t *may,
    ngx_int_t *rc);

/* whether the path names a session */
#define ngx_http_agentstream_request_has_session(req)                         \
    ((req)->path.nsegments > 1                                                \
     || ((req)->path.nsegments == 1 && (req)->route->noun == NULL))

/* routes */
ngx_int_t ngx_http_agentstream_request_list(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_create(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_look_up(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_rename(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_delete(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_models(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_agents(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_messages(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_interrupt(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_question_reply(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_question_reject(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_permission_reply(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_send_message(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_events(
    ngx_http_agentstream_request_t *req);
ngx_int_t ngx_http_agentstream_request_turn(
    ngx_http_agentstream_request_t *req);


#endif /* _NGX_HTTP_AGENTSTREAM_REQUEST_INT_H_INCLUDED_ */
