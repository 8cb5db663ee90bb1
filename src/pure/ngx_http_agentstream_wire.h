
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
 * a packet, or in place of it.
 */


/*
 * What a wire remembers of one response.  A wire that has to remember more has
 * a struct of its own that begins with this one; its size is state_size.  Who
 * writes a response allocates that many zeroed bytes, sets the pool, and sets
 * the turn before it calls size() or record(), because one response can
 * contain several turns.
 */

typedef struct {
    ngx_str_t                            turn;     /* id of the record's turn */
    ngx_pool_t                          *pool;     /* lives as long as the
                                                      response */
    void                                *request;  /* what the wire has to know
                                                      of the request, in a form
                                                      of its own; or NULL */

    /* the client has the record already, from an earlier response: it is only
       told so that the wire remembers it, and what record() writes is not
       sent */
    unsigned                             silent:1;

    unsigned                             begun:1;  /* the wire's: something was
                                                      written */
    unsigned                             failed:1; /* set by record(): it has no
                                                      memory, and the response
                                                      cannot go on */

    /*
     * Set and cleared by record(): the last record that was written leaves a
     * question open that the client has to answer in another request.  If
     * there are no more records for now, the response ends here, although the
     * turn goes on.
     */
    unsigned                             waits:1;

    /* set by record(): nothing may follow, so the response ends here */
    unsigned                             ended:1;

    /* set by record(), and at the beginning by who knows the request: the most
       bytes that end() writes beyond end_size */
    size_t                               pending;

    /* the ids of questions and permission requests that the client has
       answered since its earlier response, so that they do not wait any more,
       although their answers may have no records yet */
    ngx_array_t                         *answered;     /* of ngx_str_t; or
                                                          NULL */
} ngx_http_agentstream_wire_state_t;


/* writes a response that consists of one error record; it takes no more than
   size() of the same wire says */
typedef u_char *(*ngx_http_agentstream_wire_error_pt)(u_char *p,
    ngx_http_agentstream_record_t *record);


typedef struct {
    ngx_str_t                            content_type;
    ngx_str_t                            header;   /* name and value of a */
    ngx_str_t                            value;    /* response header that the
                                                      client expects; or
                                                      empty */
    ngx_uint_t                           stream;   /* clients read it while it
                                                      is written, so nothing on
                                                      the way may compress or
                                                      buffer it */

    /* sent after a silence, so that nothing on the way closes the connection;
       empty: there is no such comment */
    ngx_str_t                            comment;

    size_t                               state_size;
    size_t                               end_size; /* the most bytes that end()
                                                      writes, apart from
                                                      state->pending */

    /*
     * One record.  size() is the most bytes that record() can write for it.
     * It is asked for all records of a batch before the first of them is
     * written, so it must not change the state, and must be right whatever
     * the state is when the record is written.  record() may write several
     * events, or nothing.
     */
    size_t   (*size)(ngx_http_agentstream_wire_state_t *state,
                 ngx_http_agentstream_record_t *record);
    u_char  *(*record)(ngx_http_agentstream_wire_state_t *state, u_char *p,
                 ngx_http_agentstream_record_t *record);

    ngx_http_agentstream_wire_error_pt   error;

    /* writes how long the client should wait before it reconnects; at most
       NGX_HTTP_AGENTSTREAM_WIRE_RETRY bytes */
    u_char  *(*retry)(u_char *p, ngx_uint_t msec);

    /* writes what follows the last record, whether the turn is over or only
       waits for the client */
    u_char  *(*end)(ngx_http_agentstream_wire_state_t *state, u_char *p);
} ngx_http_agentstream_wire_t;


#define NGX_HTTP_AGENTSTREAM_WIRE_RETRY                                       \
    (sizeof("retry: \n\n") - 1 + NGX_INT_T_LEN)


/* an event stream in which records that have a number have an id */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_events;
/* the same without ids, for records that a client cannot resume from */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_plain;
/* one JSON array */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_array;


#endif /* _NGX_HTTP_AGENTSTREAM_WIRE_H_INCLUDED_ */
