
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
 * everything that a response can have in it; nobody else writes what stands
 * around a packet.
 */


/* what one response has said so far; zeroed and with its turn it is ready */

typedef struct {
    ngx_str_t                            turn;     /* for the ids of records */
    unsigned                             begun:1;  /* a record was written */
} ngx_http_agentstream_wire_state_t;


typedef struct {
    ngx_str_t                            content_type;
    ngx_uint_t                           stream;   /* clients read it while it
                                                      is made: nobody on the way
                                                      may compress or collect
                                                      it */

    /* sent after silence, so that nobody on the way gives up; empty: there is
       no such thing */
    ngx_str_t                            comment;

    /* one record: at most so many bytes, and those */
    size_t   (*size)(ngx_http_agentstream_wire_state_t *state,
                 ngx_http_agentstream_record_t *record);
    u_char  *(*record)(ngx_http_agentstream_wire_state_t *state, u_char *p,
                 ngx_http_agentstream_record_t *record);

    /* a response that is nothing but an error, which is a record of that type;
       it takes no more than size() says */
    u_char  *(*error)(u_char *p, ngx_http_agentstream_record_t *record);

    /* how long to wait before coming back; at most
       NGX_HTTP_AGENTSTREAM_WIRE_RETRY bytes */
    u_char  *(*retry)(u_char *p, ngx_uint_t msec);

    /* what comes behind the last record; at most
       NGX_HTTP_AGENTSTREAM_WIRE_END bytes */
    u_char  *(*end)(ngx_http_agentstream_wire_state_t *state, u_char *p);
} ngx_http_agentstream_wire_t;


#define NGX_HTTP_AGENTSTREAM_WIRE_RETRY                                       \
    (sizeof("retry: \n\n") - 1 + NGX_INT_T_LEN)

#define NGX_HTTP_AGENTSTREAM_WIRE_END  2


/* an event stream in which records that have a number have an id */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_events;
/* the same without ids, for what nobody can come back to */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_plain;
/* one JSON array */
extern ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_array;


#endif /* _NGX_HTTP_AGENTSTREAM_WIRE_H_INCLUDED_ */
