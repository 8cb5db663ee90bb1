
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_READER_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_READER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_output.h"


/*
 * One client's way through a turn's journal: a cursor, one buffer
 * while it is being sent, keepalive comments.  A slow client costs its cursor.
 */


typedef struct {
    ngx_http_agentstream_output_t       *output;   /* the request's */
    ngx_str_t                            turn;     /* empty: the next one */
    unsigned                             retry:1;  /* say when to come back */
    unsigned                             follow:1; /* go on with later turns */
    unsigned                             attach:1; /* a turn that was refused is
                                                      as good as lost */
    ngx_http_agentstream_loc_conf_t     *conf;
    uint64_t                             seq;      /* first packet wanted */
    ngx_str_t                            session;
    ngx_str_t                            key;      /* ... in the zone */
    uint64_t                             number;   /* of the turn, or of the
                                                      one before the next */

    /* what the client wants is not kept any more: another way to serve it
       takes the request over, as reader_attach() does; turn is gone when it
       returns */
    ngx_int_t                          (*lost)(ngx_http_request_t *r,
                                           ngx_str_t *turn, uint64_t number,
                                           void *data);
    /* the turn's worker is dead */
    void                               (*orphan)(ngx_str_t *turn, void *data);
    void                                *data;
} ngx_http_agentstream_reader_args_t;


/*
 * Sends the turn's packets from seq on, to the terminal one.  Takes the
 * request over: NGX_DONE, or what to finalize it with.  Strings but the turn
 * are kept as they are, in the request's pool.
 */
ngx_int_t ngx_http_agentstream_reader_attach(ngx_http_request_t *r,
    ngx_http_agentstream_reader_args_t *args);


#endif /* _NGX_HTTP_AGENTSTREAM_READER_H_INCLUDED_ */
