
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The sessions of an owner.  OpenCode cannot be asked for them, only for all
 * sessions: that answer is streamed, and those of others are forgotten at once.
 * When there is enough for the consumer, the call pauses until it was taken.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_list.h"
#include "ngx_http_agentstream_name.h"


/* more sessions than there are, and more than one of them takes */
#define NGX_HTTP_AGENTSTREAM_LIST_ALL      100000000
#define NGX_HTTP_AGENTSTREAM_LIST_ELEMENT  (1024 * 1024)

/* bytes that are read before other requests are served */
#define NGX_HTTP_AGENTSTREAM_LIST_IN       262144


/* on the heap */

struct ngx_http_agentstream_list_s {
    ngx_http_agentstream_list_args_t     args;
    ngx_http_agentstream_call_t         *call;     /* NULL: over */
    ngx_uint_t                           status;   /* then; 0 before */
    ngx_http_agentstream_json_split_t    split;
    ngx_http_agentstream_json_t          json;
    ngx_http_agentstream_acp_buf_t       session;  /* the one at hand */
    size_t                               taken;    /* bytes from OpenCode since
                                                      other requests were
                                                      served */
    ngx_event_t                          event;

    unsigned                             nonsense:1;   /* it is no list */
    unsigned                             full:1;   /* the consumer wants to
                                                      send what it has */
    unsigned                             made:1;   /* it has got a record */
    unsigned                             begun:1;  /* it has sent one */
};


static ngx_int_t ngx_http_agentstream_list_body(void *data, u_char *pos,
    size_t len);
static ngx_int_t ngx_http_agentstream_list_element(void *ctx, u_char *text,
    size_t len);
static void ngx_http_agentstream_list_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_list_fail(ngx_http_agentstream_list_t *list);
static void ngx_http_agentstream_list_event_handler(ngx_event_t *ev);


ngx_http_agentstream_list_t *
ngx_http_agentstream_list_open(ngx_http_agentstream_list_args_t *args)
{
    ngx_http_agentstream_call_t  *call;
    ngx_http_agentstream_list_t  *list;

    list = ngx_calloc(sizeof(ngx_http_agentstream_list_t), ngx_cycle->log);
    if (list == NULL) {
        return NULL;
    }

    call = ngx_http_agentstream_call_create(args->target->conf,
                                            &args->target->route,
                                            NGX_HTTP_AGENTSTREAM_GET_SESSIONS,
                                            NULL, NULL, args->directory);
    if (call == NULL) {
        ngx_free(list);
        return NULL;
    }

    /* OpenCode lists the newest hundred, unless it is told otherwise */

    if (ngx_http_agentstream_opencode_limit(call->pool, &call->address,
                                            NGX_HTTP_AGENTSTREAM_LIST_ALL)
        != NGX_OK)
    {
        ngx_http_agentstream_call_destroy(call);
        ngx_free(list);
        return NULL;
    }

    list->args = *args;

    list->split.handler = ngx_http_agentstream_list_element;
    list->split.ctx = list;
    list->split.limit = NGX_HTTP_AGENTSTREAM_LIST_ELEMENT;

    list->event.handler = ngx_http_agentstream_list_event_handler;
    list->event.data = list;
    list->event.log = ngx_cycle->log;

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_STREAM;
    call->body_handler = ngx_http_agentstream_list_body;
    call->done_handler = ngx_http_agentstream_list_done;
    call->data = list;

    list->call = call;

    ngx_http_agentstream_call_open(call);

    return list;
}


void
ngx_http_agentstream_list_close(ngx_http_agentstream_list_t *list)
{
    if (list->call) {
        ngx_http_agentstream_call_close(list->call);
    }

    if (list->event.posted) {
        ngx_delete_posted_event(&list->event);
    }

    ngx_http_agentstream_json_split_destroy(&list->split);
    ngx_http_agentstream_json_destroy(&list->json);
    ngx_http_agentstream_acp_destroy(&list->session);

    ngx_free(list);
}


static ngx_int_t
ngx_http_agentstream_list_body(void *data, u_char *pos, size_t len)
{
    ngx_http_agentstream_list_t *list = data;

    ngx_int_t  rc;

    if (list->call->status != NGX_HTTP_OK) {
        /* nobody reads the rest of it */
        return NGX_OK;
    }

    rc = ngx_http_agentstream_json_split_feed(&list->split, pos, len);

    if (rc != NGX_OK) {
        list->nonsense = (rc == NGX_DECLINED);
        return NGX_ERROR;
    }

    list->taken += len;

    if (!list->full && list->taken < NGX_HTTP_AGENTSTREAM_LIST_IN) {
        return NGX_OK;
    }

    ngx_post_event(&list->event, &ngx_posted_next_events);

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_agentstream_list_element(void *ctx, u_char *text, size_t len)
{
    ngx_http_agentstream_list_t *list = ctx;

    ngx_int_t                       rc;
    ngx_str_t                       id, raw;
    ngx_http_agentstream_json_t    *json;
    ngx_http_agentstream_record_t   record;

    json = &list->json;

    rc = ngx_http_agentstream_json_parse(json, text, len);

    if (rc != NGX_OK) {
        return rc;
    }

    id = ngx_http_agentstream_json_string(json,
                       ngx_http_agentstream_json_get(json, json->root, "id"));

    rc = ngx_http_agentstream_name_owned(list->args.owner, &id);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_OK : NGX_ERROR;
    }

    raw = ngx_http_agentstream_json_raw(json, json->root);

    list->session.len = 0;
    ngx_http_agentstream_acp_json(&list->session, &raw);

    if (list->session.failed) {
        return NGX_ERROR;
    }

    ngx_memzero(&record, sizeof(ngx_http_agentstream_record_t));

    record.json.data = list->session.start;
    record.json.len = list->session.len;

    list->made = 1;

    rc = list->args.consumer->record(list->args.data, &record);

    if (rc == NGX_AGAIN) {
        list->full = 1;
        return NGX_OK;
    }

    return rc;
}


static void
ngx_http_agentstream_list_done(void *data, ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_list_t *list = data;

    list->call = NULL;
    list->status = call->status;

    if (list->status == NGX_HTTP_OK) {

        if (!call->complete) {
            list->status = NGX_HTTP_BAD_GATEWAY;

        } else if (!ngx_http_agentstream_json_split_complete(&list->split)) {
            list->nonsense = 1;
        }
    }

    ngx_post_event(&list->event, &ngx_posted_next_events);
}


/* does what can be done now, until it has to wait for the client or OpenCode;
   the consumer may have closed it then */

void
ngx_http_agentstream_list_resume(ngx_http_agentstream_list_t *list)
{
    if (list->call == NULL
        && (list->status != NGX_HTTP_OK || list->nonsense))
    {
        ngx_http_agentstream_list_fail(list);
        return;
    }

    list->begun = list->made;

    if (list->args.consumer->flush(list->args.data, 0) != NGX_OK) {
        return;
    }

    list->full = 0;

    if (list->call) {
        ngx_http_agentstream_call_resume(list->call);
        return;
    }

    (void) list->args.consumer->flush(list->args.data, 1);
}


/* a list that has begun breaks off, so that nobody takes it for a whole one */

static void
ngx_http_agentstream_list_fail(ngx_http_agentstream_list_t *list)
{
    ngx_http_agentstream_outcome_t  outcome;

    if (list->begun) {
        ngx_log_error(NGX_LOG_ERR, list->args.log, 0,
                      "agentstream list: OpenCode's answer is not whole");

        ngx_http_agentstream_outcome_bad(&outcome, NGX_HTTP_BAD_GATEWAY, NULL);

    } else if (list->nonsense) {
        ngx_http_agentstream_outcome_unread(&outcome, NGX_DECLINED);

    } else {
        ngx_http_agentstream_outcome_failed(&outcome, list->status, NULL);
    }

    list->args.consumer->failed(list->args.data, &outcome);
}


static void
ngx_http_agentstream_list_event_handler(ngx_event_t *ev)
{
    ngx_http_agentstream_list_t  *list;

    list = ev->data;

    list->taken = 0;

    ngx_http_agentstream_list_resume(list);
}
