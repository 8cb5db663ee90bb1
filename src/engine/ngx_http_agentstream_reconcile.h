
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
 * Contract 4: the stream is a hint, OpenCode's REST state is the
 * truth.  Asks whether the session is busy and has the translator read what is
 * stored, of the session and of its subagents.
 */


/* status: 200, or what OpenCode or the call to it failed with */
typedef void (*ngx_http_agentstream_reconcile_pt)(void *data,
    ngx_uint_t status, ngx_uint_t busy);


/* part of the turn, who stops it before it goes */

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

    ngx_uint_t                           unknown;      /* what waits for an
                                                          answer could not be
                                                          read; the next start
                                                          asks for it again */

    /* private */
    ngx_http_agentstream_call_t         *call;         /* NULL: not at work */
    ngx_uint_t                           next;         /* session to fetch */
    ngx_http_agentstream_translate_list_t  list;       /* its messages */
    ngx_uint_t                           failed;       /* the translator has no
                                                          room */
    ngx_uint_t                           busy;
    ngx_uint_t                           full;
    ngx_uint_t                           permission;   /* list at hand */
} ngx_http_agentstream_reconcile_t;


/* NGX_OK: handler will be called; full: messages are read also when the
   session is busy, for events were lost */
ngx_int_t ngx_http_agentstream_reconcile_start(
    ngx_http_agentstream_reconcile_t *rec, ngx_uint_t full);
void ngx_http_agentstream_reconcile_stop(
    ngx_http_agentstream_reconcile_t *rec);


#endif /* _NGX_HTTP_AGENTSTREAM_RECONCILE_H_INCLUDED_ */
