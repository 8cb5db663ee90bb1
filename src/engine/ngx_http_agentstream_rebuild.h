
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_target.h"


/*
 * A turn for a follower whose place in it is not kept any more: a record
 * "stream_reset", and then the turn so far from what OpenCode has stored, asked
 * for again until the turn is over.
 */


typedef struct ngx_http_agentstream_rebuild_s  ngx_http_agentstream_rebuild_t;


typedef struct {
    ngx_http_agentstream_target_t       *target;
    ngx_str_t                            turn;     /* the id of its user
                                                      message, or empty: that
                                                      which OpenCode works on */
    const char                          *reason;   /* of the reset */

    /* whether a turn behind this number will be read anyway: such a turn is not
       retold */
    ngx_uint_t                           follow;
    uint64_t                             number;

    /* there may be something to be read; not called by any function below */
    void                               (*handler)(void *data);
    void                                *data;
} ngx_http_agentstream_rebuild_args_t;


/* copies the turn's id, while the target stays as long as the rebuild; NULL: no
   memory */
ngx_http_agentstream_rebuild_t *ngx_http_agentstream_rebuild_create(
    ngx_http_agentstream_rebuild_args_t *args);
void ngx_http_agentstream_rebuild_destroy(ngx_http_agentstream_rebuild_t *rb);

/* the turn's id; empty: it is not known yet */
ngx_str_t ngx_http_agentstream_rebuild_turn(
    ngx_http_agentstream_rebuild_t *rb);

/*
 * The next records, of about size bytes, or none; they stay until the next
 * call.  They have no numbers, and the last one of the turn ends it.  *status
 * is that of a response which begins with them, 0: it is not known yet.
 * NGX_OK: call again; NGX_AGAIN: handler will be called; NGX_DONE: the turn is
 * over with these; NGX_DECLINED: there is no such turn; NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_agentstream_rebuild_read(
    ngx_http_agentstream_rebuild_t *rb, size_t size,
    ngx_http_agentstream_records_t *records, ngx_uint_t *status);

/* tells an error as the last record */
void ngx_http_agentstream_rebuild_fail(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t code, const char *message);


#endif /* _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_ */
