
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_LIST_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_LIST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_intake.h"
#include "ngx_http_agentstream_target.h"


/*
 * All sessions of an owner as records, made while OpenCode's list of all
 * sessions arrives: no more of it is in memory than one session and what the
 * consumer has not passed on yet.
 */


typedef struct ngx_http_agentstream_list_s  ngx_http_agentstream_list_t;


/* all of it stays as long as the list */

typedef struct {
    ngx_http_agentstream_target_t       *target;   /* without a session */
    ngx_str_t                           *directory;    /* may be empty */
    ngx_str_t                           *owner;
    ngx_http_agentstream_intake_t       *consumer;
    void                                *data;
    ngx_log_t                           *log;
} ngx_http_agentstream_list_args_t;


/* nothing is told before it returns; NULL: no memory */
ngx_http_agentstream_list_t *ngx_http_agentstream_list_open(
    ngx_http_agentstream_list_args_t *args);

/* the consumer can take more */
void ngx_http_agentstream_list_resume(ngx_http_agentstream_list_t *list);

/* the consumer wants no more of it */
void ngx_http_agentstream_list_close(ngx_http_agentstream_list_t *list);


#endif /* _NGX_HTTP_AGENTSTREAM_LIST_H_INCLUDED_ */
