
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_SSE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_SSE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Server-sent events, as OpenCode sends them.  An event that is complete in
 * one piece of input is handed over where it is; only an event that continues
 * in the next piece is copied.
 */


/* data is NULL for an event that was skipped because it exceeded the limit;
   any result but NGX_OK stops sse_feed(), which returns it, does not touch the
   object again, and drops the rest of the input */
typedef ngx_int_t (*ngx_http_agentstream_sse_event_pt)(void *ctx,
    ngx_str_t *data);


/* owned by its creator; zero it and set limit, handler and ctx before use */

typedef struct {
    size_t                              limit;    /* of one event's data */
    ngx_http_agentstream_sse_event_pt   handler;
    void                               *ctx;

    u_char                             *buf;      /* an event that continues
                                                     in the next input,
                                                     malloc()ed */
    size_t                              len;
    size_t                              size;
    ngx_uint_t                          state;
    unsigned                            skip:1;   /* the event exceeds the
                                                     limit */
    unsigned                            started:1;  /* the event has data */
} ngx_http_agentstream_sse_t;


/* NGX_OK, NGX_ERROR: no memory, or what the handler returned */
ngx_int_t ngx_http_agentstream_sse_feed(ngx_http_agentstream_sse_t *sse,
    u_char *data, size_t len);
/* forgets a partial event, as needed for a new connection; frees the buffer */
void ngx_http_agentstream_sse_reset(ngx_http_agentstream_sse_t *sse);


#endif /* _NGX_HTTP_AGENTSTREAM_SSE_H_INCLUDED_ */
