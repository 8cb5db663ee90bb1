
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_ACCOUNT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_ACCOUNT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_store.h"


/*
 * What is remembered of a response for the access log: which turn it was about,
 * how many packets were sent, when the first one was, how the turn ended.  A
 * request has an account only if the configuration uses one of its variables.
 */


#define NGX_HTTP_AGENTSTREAM_ACCOUNT_REASON  32


/* in the request's pool */

typedef struct {
    ngx_http_request_t                  *request;
    ngx_uint_t                           packets;
    ngx_msec_t                           first;    /* ms from the request to
                                                      its first packet */
    ngx_uint_t                           stream;   /* packets can be sent */
    ngx_uint_t                           resumed;  /* it continues behind the
                                                      cursor */

    /* where the client stopped reading; seq 0: nowhere */
    ngx_str_t                            cursor;
    uint64_t                             seq;

    size_t                               turn_len;
    size_t                               reason_len;
    u_char                               turn[
                                         NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    u_char                               reason[
                                         NGX_HTTP_AGENTSTREAM_ACCOUNT_REASON];
} ngx_http_agentstream_account_t;


/* all accept NULL, the account of a request that has none */

/* the response is about this turn; it may be empty */
void ngx_http_agentstream_account_turn(ngx_http_agentstream_account_t *account,
    ngx_str_t *turn);

/* the same; it begins now, behind another one */
void ngx_http_agentstream_account_start(
    ngx_http_agentstream_account_t *account, ngx_str_t *turn);

/* this record of the turn is sent as a packet */
void ngx_http_agentstream_account_packet(
    ngx_http_agentstream_account_t *account, ngx_str_t *turn,
    ngx_http_agentstream_record_t *record);

/* the turn has ended with this record */
void ngx_http_agentstream_account_end(ngx_http_agentstream_account_t *account,
    ngx_http_agentstream_record_t *record);


#endif /* _NGX_HTTP_AGENTSTREAM_ACCOUNT_H_INCLUDED_ */
