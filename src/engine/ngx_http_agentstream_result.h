
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_RESULT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_RESULT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_outcome.h"
#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_target.h"


/*
 * What a finished turn has come to: its text, its tool calls, its plan and its
 * messages, from what OpenCode has stored.  Journals are not needed for it, so
 * it does not matter how much of the turn is still kept.
 */


typedef struct ngx_http_agentstream_result_s  ngx_http_agentstream_result_t;


/*
 * Who collects the result.  All strings are valid until the function returns.
 * Functions that return something return NGX_OK, or NGX_ERROR if there is no
 * memory.
 */

typedef struct {
    /* the collection begins; what was reported before is void, because OpenCode
       has to be asked again */
    ngx_int_t                          (*begin)(void *data);

    /* more text of the answer, escaped for a JSON string */
    ngx_int_t                          (*text)(void *data, ngx_str_t *text);

    /* a state of the tool call with the number record->part, which replaces
       earlier ones */
    ngx_int_t                          (*tool)(void *data,
                                           ngx_http_agentstream_record_t
                                           *record);

    /* the entries of a plan, a JSON array, which replaces earlier ones */
    ngx_int_t                          (*plan)(void *data, ngx_str_t *entries);

    /* a message, as OpenCode has it */
    ngx_int_t                          (*message)(void *data,
                                           ngx_str_t *message);

    /* the end: everything was reported, or it failed.  The result may be
       destroyed in it */
    void                               (*done)(void *data,
                                           ngx_http_agentstream_outcome_t
                                           *outcome);
} ngx_http_agentstream_result_collector_t;


typedef struct {
    ngx_http_agentstream_target_t            *target;  /* lives as long as the
                                                          result */
    ngx_str_t                                 turn;
    ngx_uint_t                                unanswered;  /* it is no error if
                                                              nothing answers
                                                              the prompt */
    ngx_http_agentstream_result_collector_t  *collector;
    void                                     *data;
} ngx_http_agentstream_result_args_t;


/* copies the turn's id; no function of the collector is called before it has
   returned; NULL: no memory */
ngx_http_agentstream_result_t *ngx_http_agentstream_result_create(
    ngx_http_agentstream_result_args_t *args);
void ngx_http_agentstream_result_destroy(
    ngx_http_agentstream_result_t *result);


#endif /* _NGX_HTTP_AGENTSTREAM_RESULT_H_INCLUDED_ */
