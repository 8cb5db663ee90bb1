
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_AGUI_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_AGUI_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_agui.h"
#include "ngx_http_agentstream_json.h"


/*
 * Declarations that only the files of agui use: the body of a run
 * (agui_input), the wire of a turn (agui), its texts (agui_text), tool calls
 * and subagents (agui_tool), questions and permission requests (agui_ask), and
 * snapshots (agui_snapshot).
 */


/* ids that are longer are cut, so that the size of an event has a limit */
#define NGX_HTTP_AGENTSTREAM_AGUI_ID_MAX  128

/* what a record can take besides its own texts: the events that close what
   was before it, begin the run and a step, and open what it belongs to; and
   later those that close that again */
#define NGX_HTTP_AGENTSTREAM_AGUI_ROOM    3072

/* the same for a text that continues: one event without its text */
#define NGX_HTTP_AGENTSTREAM_AGUI_SMALL                                       \
    (96 + NGX_HTTP_AGENTSTREAM_AGUI_ID_MAX + 2 * NGX_INT_T_LEN)


/* a text or thought is a message of its own; after it was discarded, another
   message takes its place */

typedef struct {
    ngx_str_t                            id;       /* of the AG-UI message */
    ngx_str_t                            message;  /* of OpenCode */
    uint64_t                             first;    /* number of its first
                                                      record */
    ngx_uint_t                           part;
    size_t                               head;     /* where the text begins in
                                                      each of its records */
    size_t                               tail;     /* what follows it there */
    ngx_str_t                            subagent; /* or empty */
    unsigned                             thought:1;
    unsigned                             gone:1;   /* discarded */
} ngx_http_agentstream_agui_text_t;


typedef struct {
    ngx_str_t                            id;
    ngx_str_t                            name;
    ngx_str_t                            subagent; /* or empty */
    unsigned                             open:1;   /* TOOL_CALL_START without
                                                      TOOL_CALL_END */
    unsigned                             args:1;   /* the arguments were
                                                      written */
    unsigned                             done:1;   /* the result, too */
} ngx_http_agentstream_agui_call_t;


typedef struct {
    ngx_str_t                            id;       /* of its session */
    unsigned                             open:1;   /* SUBAGENT_STARTED without
                                                      an end */
    unsigned                             done:1;
} ngx_http_agentstream_agui_subagent_t;


/* a question or permission request that waits */

typedef struct {
    ngx_str_t                            id;       /* as it is for OpenCode */
    ngx_str_t                            json;     /* the interrupt without its
                                                      beginning, allocated with
                                                      size */
    size_t                               size;
    unsigned                             permission:1;
    unsigned                             waits:1;  /* 0: can be reused */
} ngx_http_agentstream_agui_ask_t;


typedef struct {
    ngx_http_agentstream_wire_state_t    wire;     /* must be first */

    ngx_http_agentstream_agui_text_t    *text;     /* the open one, or NULL */
    ngx_uint_t                           asked;    /* part of the record whose
                                                      size was asked last */
    unsigned                             silent:1; /* the last record was */
    unsigned                             sent:1;   /* the client has got, in
                                                      this run or before,
                                                      something of the turn */
    unsigned                             step:1;   /* STEP_STARTED without
                                                      STEP_FINISHED */
    unsigned                             over:1;   /* the run's last event was
                                                      written */
    ngx_uint_t                           steps;
    ngx_uint_t                           generation;   /* how often something
                                                          was discarded */
    uint64_t                             seq;      /* of the last record */
    size_t                               voids;    /* bytes that it takes to
                                                      discard all texts */

    ngx_array_t                         *texts;
    ngx_array_t                         *calls;
    ngx_array_t                         *subagents;
    ngx_array_t                         *asks;
} ngx_http_agentstream_agui_state_t;


/* a record's JSON, parsed; zero it before use */

typedef struct {
    ngx_http_agentstream_json_t          json;
    u_char                              *copy;     /* heap, or NULL */
    ngx_str_t                            subagent; /* _meta.sessionId, or
                                                      empty */
} ngx_http_agentstream_agui_doc_t;


#define ngx_http_agentstream_agui_cpy(p, text)                                \
    ngx_cpymem(p, text, sizeof(text) - 1)

#define ngx_http_agentstream_agui_str(p, s)                                   \
    ((s)->len ? ngx_cpymem(p, (s)->data, (s)->len) : (p))


/* NGX_OK, or NGX_ERROR, which is remembered in the state; must be followed by
   doc_done() in both cases */
ngx_int_t ngx_http_agentstream_agui_doc(
    ngx_http_agentstream_agui_state_t *st,
    ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_agui_doc_t *doc);
void ngx_http_agentstream_agui_doc_done(ngx_http_agentstream_agui_doc_t *doc);

/* a string of the document, still escaped, cut to the length of an id */
ngx_str_t ngx_http_agentstream_agui_id(ngx_http_agentstream_json_t *json,
    ngx_uint_t object, const char *name);

/* a new element of one of the state's arrays, which is created if it has to
   be; NULL: no memory, which is remembered */
void *ngx_http_agentstream_agui_push(ngx_http_agentstream_agui_state_t *st,
    ngx_array_t **array, size_t size);
/* a copy in the state's pool; empty: there was none, or no memory, which is
   remembered */
ngx_str_t ngx_http_agentstream_agui_dup(ngx_http_agentstream_agui_state_t *st,
    ngx_str_t *text);

/* writes ,"subagentRunId":"..." if there is a subagent */
u_char *ngx_http_agentstream_agui_tag(u_char *p, ngx_str_t *subagent);
/* {"type":"CUSTOM","name":...,"value":packet} */
u_char *ngx_http_agentstream_agui_custom(u_char *p,
    ngx_http_agentstream_record_t *record, ngx_str_t *subagent);

/* the run begins, unless it has begun */
u_char *ngx_http_agentstream_agui_begin(ngx_http_agentstream_agui_run_t *run,
    u_char *p);
/* RUN_ERROR from an "error" record, without anything around it */
u_char *ngx_http_agentstream_agui_error(u_char *p,
    ngx_http_agentstream_record_t *record);

/* a step begins, unless one has begun; only the main agent has steps */
u_char *ngx_http_agentstream_agui_step(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_str_t *subagent);

/* agui_text */
u_char *ngx_http_agentstream_agui_chunk(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record);
u_char *ngx_http_agentstream_agui_text_close(
    ngx_http_agentstream_agui_state_t *st, u_char *p);
u_char *ngx_http_agentstream_agui_discarded(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_record_t *record);
u_char *ngx_http_agentstream_agui_discard_all(
    ngx_http_agentstream_agui_state_t *st, u_char *p);

/* agui_tool */
u_char *ngx_http_agentstream_agui_tool(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record);
u_char *ngx_http_agentstream_agui_subagent(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_record_t *record);
/* the subagent's events can follow */
u_char *ngx_http_agentstream_agui_subagent_open(
    ngx_http_agentstream_agui_state_t *st, u_char *p, ngx_str_t *id);
/* closes calls and subagents; suspended: they go on in another run */
u_char *ngx_http_agentstream_agui_tool_close(
    ngx_http_agentstream_agui_state_t *st, u_char *p, ngx_uint_t suspended);
/* they were open in the run before, and are not in this one */
void ngx_http_agentstream_agui_tool_reopen(
    ngx_http_agentstream_agui_state_t *st);
/* TOOL_CALL_RESULT, or the members of a tool message, from the text of a call
   that has ended */
u_char *ngx_http_agentstream_agui_result(u_char *p,
    ngx_http_agentstream_json_t *json, ngx_uint_t failed);
/* a value of a document as the content of a string */
u_char *ngx_http_agentstream_agui_quote(u_char *p, ngx_str_t *json);

/* agui_ask */
u_char *ngx_http_agentstream_agui_ask(ngx_http_agentstream_agui_state_t *st,
    u_char *p, ngx_http_agentstream_record_t *record);
u_char *ngx_http_agentstream_agui_resolved(
    ngx_http_agentstream_agui_state_t *st, u_char *p,
    ngx_http_agentstream_record_t *record);
/* "interrupts":[...] of everything that waits */
u_char *ngx_http_agentstream_agui_interrupts(
    ngx_http_agentstream_agui_state_t *st, u_char *p);
/* the bytes that this takes for one record */
#define ngx_http_agentstream_agui_ask_size(record)                            \
    (2048 + 2 * ngx_http_agentstream_record_len(record))


#endif /* _NGX_HTTP_AGENTSTREAM_AGUI_INT_H_INCLUDED_ */
