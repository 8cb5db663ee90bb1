
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_OPENCODE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_OPENCODE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"


/*
 * OpenCode's own names: its events, paths and ids.  No other part knows how
 * OpenCode names an event or a path.
 */


typedef enum {
    NGX_HTTP_AGENTSTREAM_EVENT_OTHER = 0,
    NGX_HTTP_AGENTSTREAM_EVENT_CONNECTED,         /* server.connected */
    NGX_HTTP_AGENTSTREAM_EVENT_HEARTBEAT,         /* server.heartbeat */
    NGX_HTTP_AGENTSTREAM_EVENT_DISPOSED,          /* server.instance.disposed */
    NGX_HTTP_AGENTSTREAM_EVENT_CREATED,           /* session.created */
    NGX_HTTP_AGENTSTREAM_EVENT_DELETED,           /* session.deleted */
    NGX_HTTP_AGENTSTREAM_EVENT_STATUS,            /* session.status */
    NGX_HTTP_AGENTSTREAM_EVENT_IDLE,              /* session.idle */
    NGX_HTTP_AGENTSTREAM_EVENT_ERROR,             /* session.error */
    NGX_HTTP_AGENTSTREAM_EVENT_COMPACTED,         /* session.compacted */
    NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE,           /* message.updated */
    NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE_REMOVED,   /* message.removed */
    NGX_HTTP_AGENTSTREAM_EVENT_PART,              /* message.part.updated */
    NGX_HTTP_AGENTSTREAM_EVENT_DELTA,             /* message.part.delta */
    NGX_HTTP_AGENTSTREAM_EVENT_PART_REMOVED,      /* message.part.removed */
    NGX_HTTP_AGENTSTREAM_EVENT_TODO,              /* todo.updated */
    NGX_HTTP_AGENTSTREAM_EVENT_QUESTION,          /* question.asked */
    NGX_HTTP_AGENTSTREAM_EVENT_QUESTION_REPLIED,  /* question.replied */
    NGX_HTTP_AGENTSTREAM_EVENT_QUESTION_REJECTED, /* question.rejected */
    NGX_HTTP_AGENTSTREAM_EVENT_PERMISSION,        /* permission.asked */
    NGX_HTTP_AGENTSTREAM_EVENT_PERMISSION_REPLIED /* permission.replied */
} ngx_http_agentstream_event_e;


/* slices that point into the event's bytes, and are valid as long as these
   are */

typedef struct {
    ngx_str_t                            data;        /* the whole event */
    ngx_uint_t                           type;
    ngx_str_t                            session;     /* empty: no session's */
    ngx_str_t                            parent;      /* of session.created */
    u_char                              *rest;        /* after _peek(): what
                                                         follows the session */

    /* of a text delta, set by _read(); the text is still escaped */
    ngx_str_t                            message;
    ngx_str_t                            part;
    ngx_str_t                            text;

    /* set by _parse() */
    ngx_http_agentstream_json_t         *json;
    ngx_uint_t                           properties;
} ngx_http_agentstream_event_t;


/*
 * Finds type, session and parent by looking at the raw bytes only.  For an
 * event that concerns nobody here this is the only cost.  NGX_DECLINED: the
 * members are not in OpenCode's usual order, so the event has to be parsed.
 */
ngx_int_t ngx_http_agentstream_opencode_peek(ngx_str_t *data,
    ngx_http_agentstream_event_t *ev);

/* validates the whole event and indexes it in json; NGX_DECLINED: not a valid
   event, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_opencode_parse(ngx_str_t *data,
    ngx_http_agentstream_json_t *json, ngx_http_agentstream_event_t *ev);

/* reads the rest of an event that _peek() accepted: a text delta in OpenCode's
   usual order is cut out without parsing, all other events are parsed as by
   _parse() */
ngx_int_t ngx_http_agentstream_opencode_read(ngx_str_t *data,
    ngx_http_agentstream_json_t *json, ngx_http_agentstream_event_t *ev);

/* a string member's text, still escaped; empty when there is no such string */
#define ngx_http_agentstream_opencode_text(json, object, name)                \
    ngx_http_agentstream_json_string(json,                                    \
                         ngx_http_agentstream_json_get(json, object, name))

/* whether a member is there and true */
#define ngx_http_agentstream_opencode_true(json, object, name)                \
    (ngx_http_agentstream_json_type(json,                                     \
                        ngx_http_agentstream_json_get(json, object, name))    \
     == NGX_HTTP_AGENTSTREAM_JSON_TRUE)


/* OpenCode's requests: paths below the prefix of the internal location, with
   "directory" as an argument */

typedef enum {
    NGX_HTTP_AGENTSTREAM_GET_EVENTS = 0,     /* GET event */
    NGX_HTTP_AGENTSTREAM_GET_STATUS,         /* GET session/status */
    NGX_HTTP_AGENTSTREAM_GET_SESSIONS,       /* GET session */
    NGX_HTTP_AGENTSTREAM_CREATE_SESSION,     /* POST session */
    NGX_HTTP_AGENTSTREAM_MAKE_SESSION,       /* POST api/session */
    NGX_HTTP_AGENTSTREAM_UPDATE_SESSION,     /* PATCH session/{id} */
    NGX_HTTP_AGENTSTREAM_GET_SESSION,        /* GET session/{id} */
    NGX_HTTP_AGENTSTREAM_DELETE_SESSION,     /* DELETE session/{id} */
    NGX_HTTP_AGENTSTREAM_GET_MESSAGES,       /* GET session/{id}/message */
    NGX_HTTP_AGENTSTREAM_GET_MESSAGE,        /* GET session/{id}/message/{x} */
    NGX_HTTP_AGENTSTREAM_PROMPT,             /* ... {id}/prompt_async */
    NGX_HTTP_AGENTSTREAM_ABORT,              /* POST session/{id}/abort */
    NGX_HTTP_AGENTSTREAM_GET_QUESTIONS,      /* GET question */
    NGX_HTTP_AGENTSTREAM_REPLY_QUESTION,     /* POST question/{x}/reply */
    NGX_HTTP_AGENTSTREAM_REJECT_QUESTION,    /* POST question/{x}/reject */
    NGX_HTTP_AGENTSTREAM_GET_PERMISSIONS,    /* GET permission */
    NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION,   /* POST permission/{x}/reply */
    NGX_HTTP_AGENTSTREAM_GET_MODELS,         /* GET config/providers */
    NGX_HTTP_AGENTSTREAM_GET_AGENTS,         /* GET agent */
    NGX_HTTP_AGENTSTREAM_GET_HEALTH          /* GET global/health */
} ngx_http_agentstream_opencode_request_e;


/* the address of one request */
typedef struct {
    ngx_uint_t                           method;      /* NGX_HTTP_GET, ... */
    ngx_str_t                            uri;         /* without prefix */
    ngx_str_t                            args;
    size_t                               limit;       /* of the answer, or of
                                                         one message in a list
                                                         of messages */
} ngx_http_agentstream_address_t;

/* session, id and directory may be NULL if the path has none; the directory is
   percent-encoded into args; NGX_DECLINED: session or id does not have the
   form of an id */
ngx_int_t ngx_http_agentstream_opencode_address(ngx_pool_t *pool,
    ngx_http_agentstream_address_t *addr, ngx_uint_t request,
    ngx_str_t *session, ngx_str_t *id, ngx_str_t *directory);

/* adds an argument, so that the answer has only the last elements of a list */
ngx_int_t ngx_http_agentstream_opencode_limit(ngx_pool_t *pool,
    ngx_http_agentstream_address_t *addr, ngx_uint_t limit);


/* what a client is told where POST api/session does not create a session: an
   older OpenCode answers it with a web page */
#define NGX_HTTP_AGENTSTREAM_NAMELESS                                         \
    "This OpenCode cannot create sessions with names or owners"

/* the "directory" of a session, from what GET session/{id} or POST api/session
   answers; NGX_DECLINED: it is no such answer */
ngx_int_t ngx_http_agentstream_opencode_directory(ngx_pool_t *pool,
    ngx_str_t *answer, ngx_str_t *session, ngx_str_t *directory);

/* the parent of a session, from the same answer; empty: the session is not a
   subagent's, NGX_DECLINED: it is not such an answer */
ngx_int_t ngx_http_agentstream_opencode_parent(ngx_pool_t *pool,
    ngx_str_t *answer, ngx_str_t *session, ngx_str_t *parent);

/* the oldest version of OpenCode that is supported, and the length of the
   longest one that is reported */
#define NGX_HTTP_AGENTSTREAM_OPENCODE_MAJOR    1
#define NGX_HTTP_AGENTSTREAM_OPENCODE_MINOR    14
#define NGX_HTTP_AGENTSTREAM_OPENCODE_VERSION  32

/* whether the "version" in an answer is not supported: of a session, the
   version that has made it; of GET global/health, the server's.  It consists of
   digits and dots, and points into answer */
ngx_uint_t ngx_http_agentstream_opencode_outdated(ngx_str_t *answer,
    ngx_str_t *version);


/* NGX_OK: this is an answer to GET or POST session, with this id, or with any
   id if session is NULL; NGX_DECLINED: it is not, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_opencode_is_session(ngx_str_t *answer,
    ngx_str_t *session);
/* the same for a list of sessions, and for the word "true", which says that
   something was done */
ngx_int_t ngx_http_agentstream_opencode_is_list(ngx_str_t *answer);
ngx_int_t ngx_http_agentstream_opencode_is_true(ngx_str_t *answer);

/* what a client may know of the models and agents that it can choose, as a JSON
   array, from the answer to GET config/providers or GET agent; NGX_DECLINED: it
   is no such answer, NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_opencode_models(ngx_pool_t *pool,
    ngx_str_t *answer, ngx_str_t *text);
ngx_int_t ngx_http_agentstream_opencode_agents(ngx_pool_t *pool,
    ngx_str_t *answer, ngx_str_t *text);

/* the message and code for a client when a call has failed with this status;
   nonsense: there was an answer, but not what was asked for */
const char *ngx_http_agentstream_opencode_failure(ngx_uint_t status,
    ngx_uint_t nonsense, ngx_uint_t *code);

/* whether a session is busy, from the answer to GET session/status;
   NGX_DECLINED: it is not busy, NGX_ERROR: it is not such an answer */
ngx_int_t ngx_http_agentstream_opencode_busy(ngx_str_t *answer,
    ngx_str_t *session);

/* the same for all of them: calls the handler for each session that is busy */
typedef void (*ngx_http_agentstream_opencode_busy_pt)(void *ctx,
    ngx_str_t *session);
ngx_int_t ngx_http_agentstream_opencode_all_busy(ngx_str_t *answer,
    ngx_http_agentstream_opencode_busy_pt handler, void *ctx);

/* the session in which a question or permission request waits, from the answer
   to GET question or GET permission; empty: it does not wait, NGX_DECLINED: it
   is not such an answer */
ngx_int_t ngx_http_agentstream_opencode_waits(ngx_pool_t *pool,
    ngx_str_t *answer, ngx_str_t *id, ngx_str_t *owner);

/*
 * What the final state of a tool call means for its message.  NGX_OK: the
 * model is told the result, so another step follows.  NGX_ABORT: somebody
 * rejected the tool call, and OpenCode stops after this step.  NGX_DECLINED:
 * neither, because the tool call was interrupted or is the provider's own.
 */
ngx_int_t ngx_http_agentstream_opencode_called(
    ngx_http_agentstream_json_t *json, ngx_uint_t part, ngx_uint_t state);

/*
 * Whether a message opens a turn, that is, is a prompt.  Ask for all messages
 * of a list in order, with the same "again", which is 0 at first.
 * NGX_DECLINED: it does not, for example because a compaction added it to a
 * turn; NGX_AGAIN: it repeats the turn's own prompt, which was too long before
 * the compaction.
 */
ngx_int_t ngx_http_agentstream_opencode_opens(
    ngx_http_agentstream_json_t *json, ngx_uint_t message, ngx_uint_t *again);

/*
 * Finds the last message that opens a turn or, if there is none, the message
 * that the first one belongs to.  Zero it, and give it each message of GET
 * session/{id}/message.  The id is empty if there were no messages, or if they
 * make no sense (nmessages is not 0).
 */

typedef struct {
    ngx_uint_t                           nmessages;
    ngx_uint_t                           again;
    size_t                               len;
    u_char                               id[64];
} ngx_http_agentstream_opencode_last_t;

void ngx_http_agentstream_opencode_turn(ngx_http_agentstream_json_t *json,
    ngx_http_agentstream_opencode_last_t *last);


/* ids */

#define NGX_HTTP_AGENTSTREAM_MESSAGE_ID_LEN  (sizeof("msg_") - 1 + 12 + 14)

/* "ses_" and letters and digits, at most 64 bytes in all */
ngx_uint_t ngx_http_agentstream_opencode_session_id(ngx_str_t *id);

/* the same rule with any lower case prefix and "_" ("que_", "per_", "msg_") */
ngx_uint_t ngx_http_agentstream_opencode_id(ngx_str_t *id);

/* writes an id in OpenCode's ascending form: msec * 4096 + counter, then 14
   base-62 digits made from the 16 random bytes given */
void ngx_http_agentstream_opencode_message_id(u_char *dst, uint64_t msec,
    ngx_uint_t counter, u_char *random);


#endif /* _NGX_HTTP_AGENTSTREAM_OPENCODE_H_INCLUDED_ */
