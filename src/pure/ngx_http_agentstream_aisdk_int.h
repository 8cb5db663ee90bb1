
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_AISDK_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_AISDK_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_aisdk.h"
#include "ngx_http_agentstream_json.h"


/*
 * Declarations that only the files of aisdk use: the stream (aisdk), tool calls
 * (aisdk_tool), what is asked (aisdk_ask), and bodies (aisdk_body).
 */


#define NGX_HTTP_AGENTSTREAM_AISDK_MESSAGE  64

/* what the members of a chunk that is written around a record's values take at
   most */
#define NGX_HTTP_AGENTSTREAM_AISDK_CHUNK    512


#define ngx_http_agentstream_aisdk_cpy(p, text)                               \
    ngx_cpymem(p, text, sizeof(text) - 1)

#define ngx_http_agentstream_aisdk_same(a, b)                                 \
    ((a)->hash == (b)->hash && (a)->len == (b)->len)


/* a tool call that has not ended */

typedef struct {
    ngx_uint_t                           part;     /* of its records */
    ngx_http_agentstream_json_hash_t     id;       /* of its toolCallId */
    ngx_uint_t                           step;     /* in which it was
                                                      announced */
    unsigned                             input:1;  /* the client has its
                                                      input */
    unsigned                             guessed:1;    /* from the permission
                                                          request */
    unsigned                             denied:1; /* the client has refused its
                                                      permission */
} ngx_http_agentstream_aisdk_tool_t;


/* a question or permission request that has no outcome yet */

typedef struct {
    ngx_http_agentstream_json_hash_t     id;
    ngx_str_t                            json;     /* its packet */
    ngx_uint_t                           part;     /* of the tool call that
                                                      asks; 0: unknown, or a
                                                      subagent's */
    unsigned                             permission:1;
    unsigned                             shown:1;      /* the client has it */
    unsigned                             own:1;        /* as a tool call of its
                                                          own */
    unsigned                             answered:1;   /* by the client */
} ngx_http_agentstream_aisdk_ask_t;


typedef struct {
    ngx_http_agentstream_wire_state_t    state;

    uint64_t                             seq;      /* of the last record */
    ngx_uint_t                           open;     /* type of the text that is
                                                      open; 0: none */
    ngx_uint_t                           part;     /* of that text */
    ngx_uint_t                           ntexts;   /* its id */
    ngx_uint_t                           nsteps;
    ngx_uint_t                           nends;    /* of the request's ends,
                                                      those that were passed */

    size_t                               message_len;
    u_char                               message[
                                         NGX_HTTP_AGENTSTREAM_AISDK_MESSAGE];

    unsigned                             started:1;    /* "start" was
                                                          written */
    unsigned                             step:1;       /* a step is open */
    unsigned                             past:1;       /* the last record was
                                                          silent */
    unsigned                             again:1;      /* the turn is told from
                                                          its beginning, after
                                                          a reset */

    ngx_array_t                          tools;
    ngx_array_t                          asks;
} ngx_http_agentstream_aisdk_state_t;


/* all of these write at p and return the end */

u_char *ngx_http_agentstream_aisdk_start(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p);
u_char *ngx_http_agentstream_aisdk_step(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p);
u_char *ngx_http_agentstream_aisdk_end_text(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p);
u_char *ngx_http_agentstream_aisdk_end_step(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p);
/* a part has its first record, so its origin says to which message it
   belongs, and each message is a step */
u_char *ngx_http_agentstream_aisdk_origin(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p, ngx_str_t *origin);
/* the packet of a subagent */
u_char *ngx_http_agentstream_aisdk_subagent(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_record_t *record);

u_char *ngx_http_agentstream_aisdk_tool(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);

/* a tool call's input, for the client's eyes */
u_char *ngx_http_agentstream_aisdk_input(u_char *p, ngx_str_t *id,
    ngx_str_t *name, ngx_str_t *title, const char *executed,
    ngx_str_t *question);

u_char *ngx_http_agentstream_aisdk_resolved(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p,
    ngx_http_agentstream_json_t *json, ngx_uint_t permission);
u_char *ngx_http_agentstream_aisdk_show(
    ngx_http_agentstream_aisdk_state_t *s, u_char *p);


ngx_http_agentstream_aisdk_tool_t *ngx_http_agentstream_aisdk_tool_find(
    ngx_http_agentstream_aisdk_state_t *s, ngx_uint_t part);

/* whether the client is asked something at this tool call */
ngx_uint_t ngx_http_agentstream_aisdk_asks(
    ngx_http_agentstream_aisdk_state_t *s, ngx_uint_t part);

void ngx_http_agentstream_aisdk_asked(ngx_http_agentstream_aisdk_state_t *s,
    ngx_http_agentstream_record_t *record, ngx_http_agentstream_json_t *json);
/* the client has continued after a response that ended with something asked;
   earlier: with another response that it has, too */
void ngx_http_agentstream_aisdk_continue(
    ngx_http_agentstream_aisdk_state_t *s, ngx_uint_t earlier);
/* whether the response ends if there is nothing more for now */
void ngx_http_agentstream_aisdk_waits(ngx_http_agentstream_aisdk_state_t *s);

/* a new element of an array that may not exist yet, zeroed; NULL: no memory,
   and the response cannot go on */
void *ngx_http_agentstream_aisdk_push(ngx_http_agentstream_aisdk_state_t *s,
    ngx_array_t *array, size_t size);


#endif /* _NGX_HTTP_AGENTSTREAM_AISDK_INT_H_INCLUDED_ */
