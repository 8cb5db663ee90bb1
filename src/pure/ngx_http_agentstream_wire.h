
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_WIRE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_WIRE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_record.h"


/*
 * How records look to a client.  A wire is a table of functions, one for
 * everything that a response can contain; no other part writes the text around
 * a packet.
 */


/* what was written of one response so far; zero it and set its turn before
   use */

typedef struct {
    ngx_str_t                            turn;     /* for the ids of records */
    unsigned                             begun:1;  /* a record was written */
} ngx_http_agentstream_wire_state_t;


typedef struct {
    ngx_str_t                            content_type;
    ngx_uint_t                           stream;   /* clients read it while it
                                                      is written, so nothing on
                                                      the way may compress or
                                                      buffer it */

    /* sent after a silence, so that nothing on the way closes the connection;
       empty: there is no such comment */
    ngx_str_t                            comment;

    /* one record: the most bytes it can take, and writing it */
    size_t   (*size)(ngx_http_agentstream_wire_state_t *state,
                 ngx_http_agentstream_record_t *record);
    u_char  *(*record)(ngx_http_agentstream_wire_state_t *state, u_char *p,
                 ngx_http_agentstream_record_t *record);

    /* writes a response that consists of one error record; it takes no more
       than size() says */
    u_char  *(*error)(u_char *p, ngx_http_agentstream_record_t *record);

    /* writes how long the client should wait before it reconnects; at most
       NGX_HTTP_AGENTSTREAM_WIRE_RETRY bytes */
    u_char  *(*retry)(u_char *p, ngx_uint_t msec);

    /* writes what follows the last record; at most
       NGX_HTTP_AGENTSTREAM_WIRE_END bytes */
    u_char  *(*end)(ngx_http_agentstream_wire_state_t *state, u_char *p);
} ngx_http_agentstream_wire_t;


#define NGX_HTTP_AGENTSTREAM_WIRE_RETRY                                       \
    (sizeof("retry: \n\n") - 1 + NGX_INT_T_LEN)

#define NGX_HTTP_AGENTSTREAM_WIRE_END  2


/* an event stream in which records that have a number have an id */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_events;
/* the same without ids, for records that a client cannot resume from */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_plain;
/* one JSON array */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_array;


#endif /* _NGX_HTTP_AGENTSTREAM_WIRE_H_INCLUDED_ */
