
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_ENCLOSED_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_ENCLOSED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * A picture in base64, as a part of the body of a call.  It is encoded while it
 * arrives, into buffers that are never moved or copied, because a worker must
 * not spend milliseconds on the picture of one peer while others wait.  Who
 * encloses it and who sends it share it: the last one frees it.
 */


typedef struct ngx_http_agentstream_enclosed_s
    ngx_http_agentstream_enclosed_t;


struct ngx_http_agentstream_enclosed_s {
    ngx_http_agentstream_enclosed_t     *next;     /* of the same body */
    ngx_str_t                            before;   /* what stands in front of
                                                      it, in its pool */
    ngx_str_t                            after;
    ngx_chain_t                         *chain;
    size_t                               len;      /* of all three */

    /* its own */
    ngx_pool_t                          *pool;
    ngx_chain_t                         *last;
    u_char                               rest[3];  /* bytes that are not encoded
                                                      yet: a multiple of three
                                                      is */
    ngx_uint_t                           nrest;
    ngx_uint_t                           users;
};


/* has one user, its creator; NULL: no memory */
ngx_http_agentstream_enclosed_t *ngx_http_agentstream_enclosed_create(void);

/* the next bytes of the picture; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_enclosed_write(
    ngx_http_agentstream_enclosed_t *enclosed, u_char *pos, size_t len);
/* there are no more bytes, and this stands around it */
ngx_int_t ngx_http_agentstream_enclosed_end(
    ngx_http_agentstream_enclosed_t *enclosed, ngx_str_t *before,
    ngx_str_t *after);

/* of a whole list, which may be NULL: one more user, one less, its length */
void ngx_http_agentstream_enclosed_hold(
    ngx_http_agentstream_enclosed_t *enclosed);
void ngx_http_agentstream_enclosed_release(
    ngx_http_agentstream_enclosed_t *enclosed);
size_t ngx_http_agentstream_enclosed_len(
    ngx_http_agentstream_enclosed_t *enclosed);


#endif /* _NGX_HTTP_AGENTSTREAM_ENCLOSED_H_INCLUDED_ */
