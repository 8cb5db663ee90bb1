
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_INTAKE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_INTAKE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_outcome.h"
#include "ngx_http_agentstream_record.h"


/*
 * What somebody does with records that are made while an answer of OpenCode
 * arrives, see history.h and list.h.  Only flush() and failed() may close what
 * makes them.
 */

typedef struct {
    /* the next record, which stays until this returns.  NGX_OK, NGX_AGAIN: it
       is time for flush(), NGX_ERROR: no memory */
    ngx_int_t                          (*record)(void *data,
                                           ngx_http_agentstream_record_t
                                           *record);

    /* the records so far can be passed on; end: no more come.  NGX_OK: go on,
       NGX_AGAIN: wait until it is told to resume, NGX_DONE: it was closed */
    ngx_int_t                          (*flush)(void *data, ngx_uint_t end);

    /* no more comes, for this reason; without a reason if records were passed
       on, or if there is no memory */
    ngx_http_agentstream_outcome_pt      failed;
} ngx_http_agentstream_intake_t;


#endif /* _NGX_HTTP_AGENTSTREAM_INTAKE_H_INCLUDED_ */
