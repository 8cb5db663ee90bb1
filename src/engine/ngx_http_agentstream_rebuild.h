
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
 * A turn for a follower whose position in it is no longer kept: a record
 * "stream_reset", then the turn so far from what OpenCode has stored, which is
 * read again until the turn is over.
 */


typedef struct ngx_http_agentstream_rebuild_s  ngx_http_agentstream_rebuild_t;


typedef struct {
    ngx_http_agentstream_target_t       *target;
    ngx_str_t                            turn;     /* the id of its user
                                                      message; empty: the turn
                                                      that OpenCode is working
                                                      on */
    const char                          *reason;   /* reason of the reset */

    /* whether a turn after this number will be read anyway; such a turn must
       not be sent again */
    ngx_uint_t                           follow;
    uint64_t                             number;

    /* called when there may be something to read; no function below calls
       it */
    void                               (*handler)(void *data);
    void                                *data;
} ngx_http_agentstream_rebuild_args_t;


/* copies the turn's id; the target must live as long as the rebuild; NULL: no
   memory */
ngx_http_agentstream_rebuild_t *ngx_http_agentstream_rebuild_create(
    ngx_http_agentstream_rebuild_args_t *args);
void ngx_http_agentstream_rebuild_destroy(ngx_http_agentstream_rebuild_t *rb);

/* the turn's id; empty: not known yet */
ngx_str_t ngx_http_agentstream_rebuild_turn(
    ngx_http_agentstream_rebuild_t *rb);

/*
 * The next records, of about size bytes, or none; they are valid until the
 * next call.  They have no numbers, and the last one ends the turn. *status is
 * that of a response which begins with them, 0: not known yet.  NGX_OK: call
 * again; NGX_AGAIN: handler will be called; NGX_DONE: these are the last
 * records of the turn; NGX_DECLINED: there is no such turn; NGX_ERROR: no
 * memory.
 */
ngx_int_t ngx_http_agentstream_rebuild_read(
    ngx_http_agentstream_rebuild_t *rb, size_t size,
    ngx_http_agentstream_records_t *records, ngx_uint_t *status);

/* makes an error the last record */
void ngx_http_agentstream_rebuild_fail(ngx_http_agentstream_rebuild_t *rb,
    ngx_uint_t code, const char *message);

/* whether all records of the last reading were given out, so that more come
   only with the next one */
ngx_uint_t ngx_http_agentstream_rebuild_all(
    ngx_http_agentstream_rebuild_t *rb);


#endif /* _NGX_HTTP_AGENTSTREAM_REBUILD_H_INCLUDED_ */
