
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
 * One consumer's way through the records of a turn, and, if it is to, of the
 * session's next ones.  Wherever the records are, and whether they are kept at
 * all, is the follower's business: who loses its place in a turn gets that turn
 * again, from what OpenCode has stored, behind a record "stream_reset".
 */


/*
 * The number of the last record of a turn that was rebuilt.  No journal reaches
 * it: who comes back with it has seen all of the turn.
 */
#define NGX_HTTP_AGENTSTREAM_FOLLOWER_LAST  999999999999999


/* what a consumer gets at once; it is there until the consumer returns */

typedef struct {
    ngx_http_agentstream_records_t       records;  /* by follower_next(); may be
                                                      none */
    ngx_str_t                            turn;     /* of the records */
    ngx_uint_t                           status;   /* of a response that begins
                                                      with them */
    unsigned                             rebuilt:1;
    unsigned                             end:1;    /* nothing follows */
} ngx_http_agentstream_batch_t;


typedef struct {
    /* whether it can take a batch now; if not, it calls follower_run() as soon
       as it can */
    ngx_uint_t                         (*ready)(void *data);

    /*
     * The next batch.  One without records says that the turn has begun, but
     * has nothing new for now.  NGX_OK; NGX_DONE: the consumer has closed the
     * follower, as it does after the end.
     */
    ngx_int_t                          (*take)(void *data,
                                           ngx_http_agentstream_batch_t *batch);

    /* there is no such turn (NGX_DECLINED, only if there was no batch before)
       or no memory (NGX_ERROR); the follower was closed */
    void                               (*failed)(void *data, ngx_int_t rc);
} ngx_http_agentstream_consumer_t;


/* part of its consumer, who closes it before it goes */

typedef struct {
    /* what every packet needs comes first, in few cache lines */
    ngx_http_agentstream_waiter_t        waiter;       /* for records */
    ngx_http_agentstream_store_place_t   place;        /* in the turn whose id
                                                          it has; none: the
                                                          next one behind
                                                          number */
    ngx_http_agentstream_rebuild_t      *rebuild;      /* NULL: it reads the
                                                          journal */

    /* set by the consumer */
    ngx_http_agentstream_consumer_t     *consumer;
    void                                *data;
    ngx_http_agentstream_target_t       *target;       /* stays as long as the
                                                          follower */
    ngx_log_t                           *log;
    unsigned                             follow:1;     /* go on with later
                                                          turns */
    unsigned                             sender:1;     /* it has sent the
                                                          prompt */

    /* private */
    unsigned                             begun:1;      /* there was a batch */
    uint64_t                             number;       /* of the turn, or of
                                                          the one before the
                                                          next */
    ngx_http_agentstream_waiter_t        session;      /* for turns */
    ngx_event_t                          start;
    u_char                               id[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
} ngx_http_agentstream_follower_t;


/* from the turn's first record on; NGX_ERROR: no memory.  Nothing is called
   before it has returned */
ngx_int_t ngx_http_agentstream_follower_read(
    ngx_http_agentstream_follower_t *f, ngx_str_t *turn);

/*
 * From where the consumer has left: it has the turn up to record seq.  If that
 * turn is over for it, or is not kept, it is the session's next or last one.
 * The turn may be empty.  NGX_DECLINED: it has seen everything, and does not
 * want to follow; NGX_ERROR: no memory.
 */
ngx_int_t ngx_http_agentstream_follower_resume(
    ngx_http_agentstream_follower_t *f, ngx_str_t *turn, uint64_t seq);

/* the consumer is ready again */
void ngx_http_agentstream_follower_run(ngx_http_agentstream_follower_t *f);

/* nothing is called any more; may be called again */
void ngx_http_agentstream_follower_close(ngx_http_agentstream_follower_t *f);

/* the next record of a batch; NGX_DONE: there is none left */
ngx_int_t ngx_http_agentstream_follower_next(
    ngx_http_agentstream_batch_t *batch,
    ngx_http_agentstream_record_t *record);


#endif /* _NGX_HTTP_AGENTSTREAM_FOLLOWER_H_INCLUDED_ */
