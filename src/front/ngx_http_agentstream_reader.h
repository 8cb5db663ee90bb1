
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_READER_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_READER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_target.h"


/*
 * A client that reads turns, in the form of a wire: a follower, and one buffer
 * while it is being sent.  A slow client needs no more memory than one that
 * keeps up.  The response ends with the turn, or when the wire says that the
 * turn waits for another request of the client.
 */


typedef struct {
    ngx_http_agentstream_output_t       *output;   /* the request's */
    ngx_http_agentstream_target_t       *target;   /* the request's */
    ngx_http_agentstream_wire_t         *wire;
    ngx_http_agentstream_wire_t         *failed;   /* the wire of a response
                                                      whose status is that of an
                                                      error */
    void                                *context;  /* what the wire has to know
                                                      of the request; or NULL */
    size_t                               pending;  /* what end() writes because
                                                      of it, see
                                                      wire_state_t */
    ngx_str_t                            turn;     /* its id, or empty */
    uint64_t                             seq;      /* the client has the turn up
                                                      to this packet */
    uint64_t                             skip;     /* a sender has the packets
                                                      up to this one, from an
                                                      earlier response that its
                                                      wire continues */
    ngx_array_t                         *answered;     /* see wire_state_t; or
                                                          NULL */
    unsigned                             sender:1; /* it sent the prompt, and
                                                      reads its turn from the
                                                      first packet on */
    unsigned                             follow:1; /* continue with later
                                                      turns */
    unsigned                             optional:1;   /* if there is no such
                                                          session, there is
                                                          nothing to read */
} ngx_http_agentstream_reader_args_t;


/*
 * Takes over the request: NGX_DONE, or what to finalize it with; NGX_DECLINED:
 * the client has seen everything.
 */
ngx_int_t ngx_http_agentstream_reader_attach(ngx_http_request_t *r,
    ngx_http_agentstream_reader_args_t *args);


#endif /* _NGX_HTTP_AGENTSTREAM_READER_H_INCLUDED_ */
