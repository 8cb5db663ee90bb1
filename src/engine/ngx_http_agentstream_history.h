
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_HISTORY_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_HISTORY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_intake.h"
#include "ngx_http_agentstream_target.h"


/*
 * A session's stored messages as the records that its turns had, made while
 * OpenCode's answer arrives: no more of it is in memory than one message and
 * what the consumer has not passed on yet.
 */


typedef struct ngx_http_agentstream_history_s  ngx_http_agentstream_history_t;


typedef struct {
    ngx_http_agentstream_target_t       *target;   /* stays as long as the
                                                      history */
    ngx_uint_t                           limit;    /* of messages, 0: none */
    ngx_http_agentstream_intake_t       *consumer; /* where records were passed
                                                      on, its failed() is not
                                                      called, if there is
                                                      memory: an "error" record
                                                      and the end come instead
                                                      */
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
