
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_OUTPUT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_OUTPUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_account.h"
#include "ngx_http_agentstream_wire.h"


/*
 * The response to one client, mostly an event stream: its headers, one buffer
 * at a time, keepalive comments, and what happens when the client is slow or
 * disconnects.
 */


/* the number of bytes that are sent at once, unless a packet is larger */
#define NGX_HTTP_AGENTSTREAM_OUTPUT_SIZE  16384


/* sent: the buffer was sent, and there is room for the next one; ended: the
   request ends, and the user ends what it has begun */
typedef void (*ngx_http_agentstream_output_pt)(void *data);


/* one per request, in its pool; nothing of it outlives the request */

typedef struct {
    /* set by its owner */
    ngx_http_request_t                  *request;
    ngx_http_agentstream_account_t      *account;  /* or NULL */

    /* private */
    unsigned                             busy:1;   /* buf is being sent */
    unsigned                             last:1;   /* and is the last one */
    ngx_msec_t                           sent_at;
    ngx_buf_t                            buf;      /* its memory lives until
                                                      it is sent */
    ngx_chain_t                          link;
    ngx_event_t                          timer;

    /* set by the user */
    ngx_http_agentstream_wire_t         *wire;
    ngx_msec_t                           keepalive;
    ngx_http_agentstream_output_pt       handler;
    ngx_http_agentstream_output_pt       destroy;
    void                                *data;
} ngx_http_agentstream_output_t;


/* the request, whose body was read, waits for something other than its client,
   but notices when the client disconnects */
void ngx_http_agentstream_output_wait(ngx_http_request_t *r);

/* takes over the request, whose body was read, for its only user; or for
   another one, which continues the response when the first is done. keepalive
   0: no comments; NGX_ERROR: no callback will be called */
ngx_int_t ngx_http_agentstream_output_open(ngx_http_agentstream_output_t *out,
    ngx_http_agentstream_wire_t *wire, ngx_msec_t keepalive,
    ngx_http_agentstream_output_pt handler,
    ngx_http_agentstream_output_pt destroy, void *data);

/* NGX_OK or NGX_ERROR */
ngx_int_t ngx_http_agentstream_output_header(ngx_http_request_t *r,
    ngx_http_agentstream_wire_t *wire, ngx_uint_t status);

/* memory that output_send() can send; NULL: no memory */
u_char *ngx_http_agentstream_output_alloc(size_t size);
void ngx_http_agentstream_output_free(u_char *p);
void ngx_http_agentstream_output_exit_worker(void);


/* a text that is collected before it is sent; zero it before use.  Its memory
   is from output_alloc(), and its user sends or frees it */

typedef struct {
    u_char                              *start;    /* or NULL */
    u_char                              *last;
    u_char                              *end;
} ngx_http_agentstream_output_text_t;

/* makes room for this many more bytes, from text->last on, which the caller
   advances; NULL: no memory */
u_char *ngx_http_agentstream_output_room(
    ngx_http_agentstream_output_text_t *text, size_t size);

/*
 * Sends the bytes from p to last, which are from output_alloc() and are freed
 * here; p may be NULL at the end.  NGX_OK: sent, NGX_AGAIN: handler will be
 * called, NGX_ERROR.  Must not be called while it is busy.
 */
ngx_int_t ngx_http_agentstream_output_send(ngx_http_agentstream_output_t *out,
    u_char *p, u_char *last, ngx_uint_t end);

/* finalizes the request after the end was sent, or after NGX_ERROR; the output
   and its user are freed when it returns */
void ngx_http_agentstream_output_finalize(ngx_http_agentstream_output_t *out,
    ngx_int_t rc);

/* sets the headers of every response on that wire, including errors */
ngx_int_t ngx_http_agentstream_output_headers(ngx_http_request_t *r,
    ngx_http_agentstream_wire_t *wire);
/* sets the headers of every JSON response */
ngx_int_t ngx_http_agentstream_output_json_headers(ngx_http_request_t *r);
/* both must live as long as the request */
ngx_int_t ngx_http_agentstream_output_add_header(ngx_http_request_t *r,
    const char *key, const char *value);
/* sends a 204; returns what the request is to be finalized with */
ngx_int_t ngx_http_agentstream_output_nothing(ngx_http_request_t *r);


#endif /* _NGX_HTTP_AGENTSTREAM_OUTPUT_H_INCLUDED_ */
