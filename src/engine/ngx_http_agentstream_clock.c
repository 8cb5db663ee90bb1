
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The time of packets.  A whole timestamp is formatted once a second; within
 * that second only its milliseconds are.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_clock.h"
#include "ngx_http_agentstream_worker.h"


typedef struct ngx_http_agentstream_clock_s {
    time_t                               sec;          /* the second of the
                                                          timestamp */
    ngx_uint_t                           msec;
    u_char                               timestamp[
                                        NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN];
} ngx_http_agentstream_clock_t;


ngx_int_t
ngx_http_agentstream_clock_init_worker(ngx_cycle_t *cycle)
{
    ngx_http_agentstream_clock_t  *clock;

    clock = ngx_pcalloc(cycle->pool, sizeof(ngx_http_agentstream_clock_t));
    if (clock == NULL) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_worker->clock = clock;

    return NGX_OK;
}


u_char *
ngx_http_agentstream_clock_timestamp(void)
{
    ngx_time_t                    *tp;
    ngx_http_agentstream_clock_t  *clock;

    clock = ngx_http_agentstream_worker->clock;
    tp = ngx_timeofday();

    if (tp->sec != clock->sec) {
        clock->sec = tp->sec;
        clock->msec = tp->msec;

        ngx_http_agentstream_acp_timestamp(clock->timestamp, tp->sec,
                                           tp->msec);

    } else if (tp->msec != clock->msec) {
        clock->msec = tp->msec;

        ngx_http_agentstream_acp_msec(clock->timestamp, tp->msec);
    }

    return clock->timestamp;
}
