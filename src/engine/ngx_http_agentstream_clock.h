
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_CLOCK_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_CLOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * The time of packets.  Pure parts have no clock, so the caller that makes
 * them write a packet gives them this timestamp.
 */


ngx_int_t ngx_http_agentstream_clock_init_worker(ngx_cycle_t *cycle);

/* the current time as it is written in packets,
   NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN bytes that are overwritten by the next
   call */
u_char *ngx_http_agentstream_clock_timestamp(void);


#endif /* _NGX_HTTP_AGENTSTREAM_CLOCK_H_INCLUDED_ */
