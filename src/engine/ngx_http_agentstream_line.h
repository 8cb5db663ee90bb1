
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_LINE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_LINE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * The senders in this worker that wait for their turn in a session, in the
 * order of their arrival.
 */


typedef struct ngx_http_agentstream_line_s  ngx_http_agentstream_line_t;


/* part of its owner, who leaves the line before it is freed */

typedef struct {
    ngx_queue_t                            queue;
    ngx_str_node_t                         named;  /* client_request_id, if
                                                      any */
    uint64_t                               called;     /* number of the turn it
                                                          was called for */
    ngx_http_agentstream_line_t           *line;   /* NULL: not in a line */
    void                                 (*handler)(void *data);
    void                                  *data;
} ngx_http_agentstream_place_t;


ngx_int_t ngx_http_agentstream_line_init_worker(ngx_cycle_t *cycle);

/*
 * The place's handler is called when it may be the sender's turn. key is the
 * key of the session in the zone; request_id must live as long as the place.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_agentstream_line_join(ngx_http_agentstream_place_t *place,
    ngx_str_t *key, ngx_str_t *session, ngx_str_t *request_id);
void ngx_http_agentstream_line_leave(ngx_http_agentstream_place_t *place);


#endif /* _NGX_HTTP_AGENTSTREAM_LINE_H_INCLUDED_ */
