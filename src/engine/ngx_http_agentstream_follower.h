
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_FOLLOWER_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_FOLLOWER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_rebuild.h"
#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_store.h"
#include "ngx_http_agentstream_target.h"


/*
 * One consumer's way through the records of a turn and, if it wants, of the
 * session's next turns.  The follower hides where the records are and whether
 * they are still kept: a consumer whose position in a turn is lost gets the
 * whole turn again, from what OpenCode has stored, after a record
 * "stream_reset".
 */


/*
 * The number of the last record of a rebuilt turn.  No journal reaches it, so
 * a client that returns with it has seen the whole turn.
 */
#define NGX_HTTP_AGENTSTREAM_FOLLOWER_LAST  NGX_HTTP_AGENTSTREAM_LAST


/* what a consumer gets at a time; it is valid until the consumer returns */

typedef struct {
    ngx_http_agentstream_records_t       records;  /* read with
                                                      follower_next(); may be
                                                      empty */
    ngx_str_t                            turn;     /* the turn of the
                                                      records */
    ngx_uint_t                           status;   /* of a response that begins
                                                      with them */
    unsigned                             rebuilt:1;
    unsigned                             all:1;    /* there is nothing after
                                                      them for now */
    unsigned                             end:1;    /* this is the last batch */
} ngx_http_agentstream_batch_t;


typedef struct {
    /* whether the consumer can take a batch now; if it cannot, it calls
       follower_run() as soon as it can */
    ngx_uint_t                         (*ready)(void *data);

    /*
     * Takes the next batch.  A batch without records means that the turn has
     * begun, but there is nothing new for now.  NGX_OK; NGX_DONE: the consumer
     * has closed the follower, as it does after the end.
     */
    ngx_int_t                          (*take)(void *data,
                                           ngx_http_agentstream_batch_t *batch);

    /* there is no such turn (NGX_DECLINED, only if there was no batch before)
       or no memory (NGX_ERROR); the follower is already closed */
    void                               (*failed)(void *data, ngx_int_t rc);
} ngx_http_agentstream_consumer_t;


/* part of its consumer, who closes it before it is freed */

typedef struct {
    /* the members that every packet needs come first, so that they share few
       cache lines */
    ngx_http_agentstream_waiter_t        waiter;       /* waits for records */
    ngx_http_agentstream_store_place_t   place;        /* position in the turn
                                                          with this id; none:
                                                          the next turn after
                                                          number */
    ngx_http_agentstream_rebuild_t      *rebuild;      /* NULL: it reads a
                                                          journal */

    /* set by the consumer */
    ngx_http_agentstream_consumer_t     *consumer;
    void                                *data;
    ngx_http_agentstream_target_t       *target;       /* lives as long as the
                                                          follower */
    ngx_log_t                           *log;
    unsigned                             follow:1;     /* continue with later
                                                          turns */
    unsigned                             sender:1;     /* the consumer sent the
                                                          prompt */

    /* private */
    unsigned                             begun:1;      /* there was a batch */
    unsigned                             midway:1;     /* it has lost a turn of
                                                          which there was a
                                                          batch */
    uint64_t                             number;       /* of the turn, or of
                                                          the turn before the
                                                          next one */
    ngx_http_agentstream_waiter_t        session;      /* waits for turns */
    ngx_event_t                          start;
    u_char                               id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_follower_t;


/* reads from the turn's first record on; NGX_ERROR: no memory.  No callback is
   called before it has returned */
ngx_int_t ngx_http_agentstream_follower_read(
    ngx_http_agentstream_follower_t *f, ngx_str_t *turn);

/*
 * Continues where the consumer stopped: it has the turn up to record seq.  If
 * the consumer has all of that turn, or it is not kept, it continues with the
 * session's next or last turn.  The turn may be empty.  NGX_DECLINED: the
 * consumer has everything, and does not want to follow; NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_agentstream_follower_resume(
    ngx_http_agentstream_follower_t *f, ngx_str_t *turn, uint64_t seq);

/* must be called when the consumer is ready again */
void ngx_http_agentstream_follower_run(ngx_http_agentstream_follower_t *f);

/* no callback is called any more; may be called twice */
void ngx_http_agentstream_follower_close(ngx_http_agentstream_follower_t *f);

/* the next record of a batch; NGX_DONE: there is none left */
ngx_int_t ngx_http_agentstream_follower_next(
    ngx_http_agentstream_batch_t *batch,
    ngx_http_agentstream_record_t *record);


#endif /* _NGX_HTTP_AGENTSTREAM_FOLLOWER_H_INCLUDED_ */
