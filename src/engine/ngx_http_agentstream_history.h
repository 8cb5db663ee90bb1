
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_HISTORY_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_HISTORY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_outcome.h"
#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_target.h"


/*
 * A session's stored messages as the records that its turns had, made while
 * OpenCode's answer arrives: no more of it is in memory than one message and
 * what the consumer has not passed on yet.
 */


typedef struct ngx_http_agentstream_history_s  ngx_http_agentstream_history_t;


/* what a consumer does with it; only flush() and failed() may close the
   history */

typedef struct {
    /* the next record, which stays until this returns.  NGX_OK, NGX_AGAIN: it
       is time for flush(), NGX_ERROR: no memory */
    ngx_int_t                          (*record)(void *data,
                                           ngx_http_agentstream_record_t
                                           *record);

    /* the records so far can be passed on; end: no more come.  NGX_OK: go on,
       NGX_AGAIN: wait for history_resume(), NGX_DONE: it was closed */
    ngx_int_t                          (*flush)(void *data, ngx_uint_t end);

    /* no more comes, for this reason; but where records were passed on, an
       "error" record and the end come instead, if there is memory for them */
    ngx_http_agentstream_outcome_pt      failed;
} ngx_http_agentstream_history_consumer_t;


typedef struct {
    ngx_http_agentstream_target_t       *target;   /* stays as long as the
                                                      history */
    ngx_uint_t                           limit;    /* of messages, 0: none */
    ngx_http_agentstream_history_consumer_t  *consumer;
    void                                *data;
    ngx_log_t                           *log;
} ngx_http_agentstream_history_args_t;


/* nothing is told before it returns; NULL: no memory */
ngx_http_agentstream_history_t *ngx_http_agentstream_history_open(
    ngx_http_agentstream_history_args_t *args);

/* the consumer can take more */
void ngx_http_agentstream_history_resume(ngx_http_agentstream_history_t *h);

/* the consumer wants no more of it */
void ngx_http_agentstream_history_close(ngx_http_agentstream_history_t *h);


#endif /* _NGX_HTTP_AGENTSTREAM_HISTORY_H_INCLUDED_ */
