
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Reads GET session/status, then GET session/{id}/message for the root session
 * and each subagent, one after the other.  The status is asked for first: an
 * answer that is completed in between is then found complete, and not missed.
 * While the session is busy, GET question and GET permission show what waits
 * for an answer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_reconcile.h"


/* a server that is just starting may accept a call and never answer it */
#define NGX_HTTP_AGENTSTREAM_RECONCILE_TIMEOUT  10000


static ngx_int_t ngx_http_agentstream_reconcile_call(
    ngx_http_agentstream_reconcile_t *rec, ngx_uint_t request,
    ngx_str_t *session, ngx_msec_t timeout,
    ngx_http_agentstream_call_done_pt handler);
static ngx_int_t ngx_http_agentstream_reconcile_fetch(
    ngx_http_agentstream_reconcile_t *rec);
static void ngx_http_agentstream_reconcile_status_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_int_t ngx_http_agentstream_reconcile_message(void *data,
    ngx_http_agentstream_json_t *json);
static void ngx_http_agentstream_reconcile_messages_done(void *data,
    ngx_http_agentstream_call_t *call);
static void ngx_http_agentstream_reconcile_asks(
    ngx_http_agentstream_reconcile_t *rec, ngx_uint_t permission);
static void ngx_http_agentstream_reconcile_asks_done(void *data,
    ngx_http_agentstream_call_t *call);
static ngx_uint_t ngx_http_agentstream_reconcile_ask(
    ngx_http_agentstream_reconcile_t *rec, ngx_str_t *body);


ngx_int_t
ngx_http_agentstream_reconcile_start(ngx_http_agentstream_reconcile_t *rec,
    ngx_uint_t full)
{
    rec->full |= full;

    if (rec->call) {
        return NGX_OK;
    }

    rec->next = 0;

    if (rec->over) {
        return ngx_http_agentstream_reconcile_fetch(rec);
    }

    return ngx_http_agentstream_reconcile_call(rec,
                                   NGX_HTTP_AGENTSTREAM_GET_STATUS, NULL,
                                   NGX_HTTP_AGENTSTREAM_RECONCILE_TIMEOUT,
                                   ngx_http_agentstream_reconcile_status_done);
}


/* timeout 0: the usual timeout of a call */

static ngx_int_t
ngx_http_agentstream_reconcile_call(ngx_http_agentstream_reconcile_t *rec,
    ngx_uint_t request, ngx_str_t *session, ngx_msec_t timeout,
    ngx_http_agentstream_call_done_pt handler)
{
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_create(rec->conf, rec->route, request,
                                            session, NULL, rec->directory);
    if (call == NULL) {
        return NGX_ERROR;
    }

    if (timeout) {
        call->timeout = timeout;
    }

    if (request == NGX_HTTP_AGENTSTREAM_GET_MESSAGES) {
        call->element_handler = ngx_http_agentstream_reconcile_message;
    }

    call->done_handler = handler;
    call->data = rec;

    rec->call = call;

    ngx_http_agentstream_call_open(call);

    return NGX_OK;
}


void
ngx_http_agentstream_reconcile_stop(ngx_http_agentstream_reconcile_t *rec)
{
    if (rec->call) {
        ngx_http_agentstream_call_close(rec->call);
        rec->call = NULL;
    }
}


static void
ngx_http_agentstream_reconcile_status_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_reconcile_t *rec = data;

    ngx_int_t    rc;
    ngx_str_t  **sessions;
    ngx_uint_t   status;

    rec->call = NULL;
    status = call->status;

    if (status == NGX_HTTP_OK) {
        sessions = rec->sessions->elts;

        rc = ngx_http_agentstream_opencode_busy(&call->body, sessions[0]);

        if (rc == NGX_ERROR) {
            status = NGX_HTTP_BAD_GATEWAY;

        } else {
            rec->busy = (rc == NGX_OK);
        }
    }

    if (status == NGX_HTTP_OK && rec->busy && !rec->full) {

        if (rec->unknown) {
            ngx_http_agentstream_reconcile_asks(rec, 0);
            return;
        }

        rec->handler(rec->data, status, rec->busy);
        return;
    }

    if (status != NGX_HTTP_OK) {
        rec->handler(rec->data, status, rec->busy);
        return;
    }

    if (ngx_http_agentstream_reconcile_fetch(rec) != NGX_OK) {
        rec->handler(rec->data, NGX_HTTP_INTERNAL_SERVER_ERROR, 0);
    }
}


static ngx_int_t
ngx_http_agentstream_reconcile_fetch(ngx_http_agentstream_reconcile_t *rec)
{
    ngx_str_t  **sessions;

    sessions = rec->sessions->elts;

    rec->failed = 0;
    ngx_memzero(&rec->list, sizeof(ngx_http_agentstream_translate_list_t));

    return ngx_http_agentstream_reconcile_call(rec,
                                 NGX_HTTP_AGENTSTREAM_GET_MESSAGES,
                                 sessions[rec->next], 0,
                                 ngx_http_agentstream_reconcile_messages_done);
}


static ngx_int_t
ngx_http_agentstream_reconcile_message(void *data,
    ngx_http_agentstream_json_t *json)
{
    ngx_http_agentstream_reconcile_t *rec = data;

    ngx_int_t    rc;
    ngx_str_t  **sessions;

    sessions = rec->sessions->elts;

    rc = ngx_http_agentstream_translate_listed(rec->translate,
                                               sessions[rec->next], json,
                                               json->root, &rec->list);

    if (rc == NGX_OK && rec->message && rec->list.member) {
        rc = rec->message(rec->data, json);
    }

    rec->failed = (rc != NGX_OK);

    return rc;
}


static void
ngx_http_agentstream_reconcile_messages_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_reconcile_t *rec = data;

    ngx_uint_t  status;

    rec->call = NULL;
    status = call->status;

    if (rec->failed) {
        status = NGX_HTTP_INSUFFICIENT_STORAGE;

    } else if (rec->next && status == NGX_HTTP_NOT_FOUND) {
        /* a subagent's session may have been deleted by now */
        status = NGX_HTTP_OK;
    }

    rec->next++;

    if (status == NGX_HTTP_OK && rec->next < rec->sessions->nelts) {

        if (ngx_http_agentstream_reconcile_fetch(rec) == NGX_OK) {
            return;
        }

        status = NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (status == NGX_HTTP_OK) {
        rec->full = 0;

        if (rec->busy) {
            ngx_http_agentstream_reconcile_asks(rec, 0);
            return;
        }

        /* nothing waits for an answer in a session that is idle */
        rec->unknown = 0;
    }

    rec->handler(rec->data, status, rec->busy);
}


/*
 * Nobody can answer a question that was not reported.  So if a list could not
 * be read, it is asked for again later, but the turn continues without it.
 */

static void
ngx_http_agentstream_reconcile_asks(ngx_http_agentstream_reconcile_t *rec,
    ngx_uint_t permission)
{
    if (permission == 0) {
        rec->unknown = 0;
    }

    rec->permission = permission;

    ngx_http_agentstream_translate_asks_wanted(rec->translate);

    if (ngx_http_agentstream_reconcile_call(rec,
                                     permission
                                     ? NGX_HTTP_AGENTSTREAM_GET_PERMISSIONS
                                     : NGX_HTTP_AGENTSTREAM_GET_QUESTIONS,
                                     NULL,
                                     NGX_HTTP_AGENTSTREAM_RECONCILE_TIMEOUT,
                                     ngx_http_agentstream_reconcile_asks_done)
        != NGX_OK)
    {
        rec->unknown = 1;
        rec->handler(rec->data, NGX_HTTP_OK, rec->busy);
    }
}


static void
ngx_http_agentstream_reconcile_asks_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_reconcile_t *rec = data;

    ngx_uint_t  status;

    rec->call = NULL;
    status = call->status;

    if (status == NGX_HTTP_OK) {
        status = ngx_http_agentstream_reconcile_ask(rec, &call->body);

    } else if (status == NGX_HTTP_NOT_FOUND) {
        /* an OpenCode without this list asks no such questions */
        status = NGX_HTTP_OK;
    }

    if (status == NGX_HTTP_INSUFFICIENT_STORAGE) {
        rec->handler(rec->data, status, rec->busy);
        return;
    }

    if (status != NGX_HTTP_OK) {
        rec->unknown = 1;
    }

    if (rec->permission == 0) {
        ngx_http_agentstream_reconcile_asks(rec, 1);
        return;
    }

    rec->handler(rec->data, NGX_HTTP_OK, rec->busy);
}


static ngx_uint_t
ngx_http_agentstream_reconcile_ask(ngx_http_agentstream_reconcile_t *rec,
    ngx_str_t *body)
{
    ngx_uint_t                   status;
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    status = NGX_HTTP_BAD_GATEWAY;

    if (ngx_http_agentstream_json_parse(&json, body->data, body->len) == NGX_OK
        && ngx_http_agentstream_json_type(&json, json.root)
           == NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        status = (ngx_http_agentstream_translate_asks(rec->translate, &json,
                                                      json.root,
                                                      rec->permission)
                  == NGX_OK)
                 ? NGX_HTTP_OK : NGX_HTTP_INSUFFICIENT_STORAGE;
    }

    ngx_http_agentstream_json_destroy(&json);

    return status;
}
