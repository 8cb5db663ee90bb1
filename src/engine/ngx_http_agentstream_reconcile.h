
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_RECONCILE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_RECONCILE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_translate.h"


/*
 * docs/protocol.md, "How a turn ends": OpenCode's stored state decides, and
 * its events are only hints. reconcile asks OpenCode whether the session is
 * busy, and gives the stored messages of the session and of its subagents to
 * the translator.
 */


/* status: 200, or the status with which OpenCode or the call to it failed */
typedef void (*ngx_http_agentstream_reconcile_pt)(void *data,
    ngx_uint_t status, ngx_uint_t busy);

/* a stored message of the turn, after the translator has read it; only those
   of the root.  Any value but NGX_OK: there is no memory */
typedef ngx_int_t (*ngx_http_agentstream_reconcile_message_pt)(void *data,
    ngx_http_agentstream_json_t *json);


/* part of its owner, who stops it before it is freed */

typedef struct {
    ngx_http_agentstream_loc_conf_t     *conf;
    ngx_str_t                           *route;
    ngx_str_t                           *directory;
    ngx_array_t                         *sessions;     /* of ngx_str_t *, the
                                                          root first; may grow
                                                          meanwhile */
    ngx_http_agentstream_translate_t    *translate;
    ngx_http_agentstream_reconcile_pt    handler;
    void                                *data;

    ngx_uint_t                           over;         /* the turn is known to
                                                          be over: only the
                                                          messages are read */
    ngx_http_agentstream_reconcile_message_pt  message;    /* or NULL */

    ngx_uint_t                           unknown;      /* what waits for an
                                                          answer could not be
                                                          read; the next start
                                                          asks for it again */

    /* private */
    ngx_http_agentstream_call_t         *call;         /* NULL: not running */
    ngx_uint_t                           next;         /* session to fetch */
    ngx_http_agentstream_translate_list_t  list;       /* its messages */
    ngx_uint_t                           failed;       /* the translator has no
                                                          room */
    ngx_uint_t                           busy;
    ngx_uint_t                           full;
    ngx_uint_t                           permission;   /* which list is read */
} ngx_http_agentstream_reconcile_t;


/* NGX_OK: handler will be called; full: messages are read even when the
   session is busy, because events were lost */
ngx_int_t ngx_http_agentstream_reconcile_start(
    ngx_http_agentstream_reconcile_t *rec, ngx_uint_t full);
void ngx_http_agentstream_reconcile_stop(
    ngx_http_agentstream_reconcile_t *rec);


#endif /* _NGX_HTTP_AGENTSTREAM_RECONCILE_H_INCLUDED_ */
