
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_OUTPUT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_OUTPUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_wire.h"


/*
 * The response to one client, mostly an event stream: its headers,
 * one buffer at a time, keepalive comments, and what happens when the client is
 * slow or goes.
 */


/* as much as is sent at once, unless a packet is larger */
#define NGX_HTTP_AGENTSTREAM_OUTPUT_SIZE  16384


/* the buffer is sent, there is room for the next one; or: the request ends, the
   user ends what it has begun */
typedef void (*ngx_http_agentstream_output_pt)(void *data);


/* one per request, in its pool, and none of it outlives that */

typedef struct {
    ngx_http_request_t                  *request;  /* set by its owner */

    /* private */
    unsigned                             busy:1;   /* buf is on its way */
    unsigned                             last:1;   /* ... and ends it all */
    ngx_msec_t                           sent_at;
    ngx_buf_t                            buf;      /* its memory lives until
                                                      it is sent */
    ngx_chain_t                          link;
    ngx_event_t                          timer;

    /* the user's */
    ngx_http_agentstream_wire_t         *wire;
    ngx_msec_t                           keepalive;
    ngx_http_agentstream_output_pt       handler;
    ngx_http_agentstream_output_pt       destroy;
    void                                *data;
} ngx_http_agentstream_output_t;


/* the request, whose body was read, waits for something other than its client,
   but sees it leave */
void ngx_http_agentstream_output_wait(ngx_http_request_t *r);

/* takes over the request, whose body was read, for its only user.  keepalive 0:
   no comments; NGX_ERROR: nothing will be called */
ngx_int_t ngx_http_agentstream_output_open(ngx_http_agentstream_output_t *out,
    ngx_http_agentstream_wire_t *wire, ngx_msec_t keepalive,
    ngx_http_agentstream_output_pt handler,
    ngx_http_agentstream_output_pt destroy, void *data);

/* NGX_OK or NGX_ERROR */
ngx_int_t ngx_http_agentstream_output_header(ngx_http_request_t *r,
    ngx_http_agentstream_wire_t *wire, ngx_uint_t status);

/* what output_send() sends; NULL: no memory */
u_char *ngx_http_agentstream_output_alloc(size_t size);
void ngx_http_agentstream_output_free(u_char *p);
void ngx_http_agentstream_output_exit_worker(void);


/* what is put together before it is sent; zeroed it is ready.  Its memory is
   from output_alloc(), and its user's to send or to free */

typedef struct {
    u_char                              *start;    /* or NULL */
    u_char                              *last;
    u_char                              *end;
} ngx_http_agentstream_output_text_t;

/* where so many bytes more can be written, from text->last on, which is the
   caller's to advance; NULL: no memory */
u_char *ngx_http_agentstream_output_room(
    ngx_http_agentstream_output_text_t *text, size_t size);

/*
 * Sends from p to last, which was got by output_alloc() and is freed here; p
 * may be NULL when it is the end.  NGX_OK: sent, NGX_AGAIN: handler will be
 * called, NGX_ERROR.  Not while it is busy.
 */
ngx_int_t ngx_http_agentstream_output_send(ngx_http_agentstream_output_t *out,
    u_char *p, u_char *last, ngx_uint_t end);

/* finalizes the request after the end was sent, or after NGX_ERROR; the
   output and its user are gone when it returns */
void ngx_http_agentstream_output_finalize(ngx_http_agentstream_output_t *out,
    ngx_int_t rc);

/* what every response in that spelling has, an error's too */
ngx_int_t ngx_http_agentstream_output_headers(ngx_http_request_t *r,
    ngx_http_agentstream_wire_t *wire);
/* what every response with JSON has */
ngx_int_t ngx_http_agentstream_output_json_headers(ngx_http_request_t *r);
/* what both have, and one without a body */
ngx_int_t ngx_http_agentstream_output_no_cache(ngx_http_request_t *r);


#endif /* _NGX_HTTP_AGENTSTREAM_OUTPUT_H_INCLUDED_ */
