
/*
 * Copyright (C) agentstream contributors
 */


/*
 * A sink for programs that want nothing of the translator but its packets: they
 * define sink_reserve() and sink_commit().
 */


#ifndef _NGX_HTTP_AGENTSTREAM_PACKETS_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_PACKETS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_translate.h"


static u_char *sink_reserve(void *ctx, size_t size);
static uint64_t sink_commit(void *ctx, ngx_http_agentstream_record_t *record);


static ngx_int_t
sink_child(void *ctx, ngx_str_t *session)
{
    return NGX_OK;
}


static void
sink_resolve(void *ctx, ngx_str_t *session, ngx_str_t *message)
{
    /* void */
}


static void
sink_waiting(void *ctx, ngx_str_t *id, ngx_uint_t permission, ngx_uint_t waits)
{
    /* void */
}


static ngx_http_agentstream_translate_sink_t  sink = {
    .reserve = sink_reserve,
    .commit = sink_commit,
    .child = sink_child,
    .resolve = sink_resolve,
    .waiting = sink_waiting
};


#endif /* _NGX_HTTP_AGENTSTREAM_PACKETS_H_INCLUDED_ */
