
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Turns stored messages into turns again.  Each turn has its own translator,
 * as it had when it ran; the translator is freed when the turn was sent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history_int.h"


static ngx_int_t ngx_http_agentstream_history_begin(
    ngx_http_agentstream_history_t *h, ngx_str_t *turn);
static ngx_int_t ngx_http_agentstream_history_finish(
    ngx_http_agentstream_history_t *h);
static ngx_uint_t ngx_http_agentstream_history_runs(
    ngx_http_agentstream_history_t *h);
static ngx_uint_t ngx_http_agentstream_history_is_running(
    ngx_http_agentstream_history_t *h);
static ngx_int_t ngx_http_agentstream_history_compaction(
    ngx_http_agentstream_history_t *h, ngx_uint_t info);


ngx_int_t
ngx_http_agentstream_history_message(void *ctx, u_char *text, size_t len)
{
    ngx_http_agentstream_history_t *h = ctx;

    ngx_int_t                     rc;
    ngx_str_t                    *session, turn;
    ngx_uint_t                    info, assistant, opens;
    ngx_http_agentstream_json_t  *json;

    json = &h->json;
    session = &h->args.target->session;

    rc = ngx_http_agentstream_json_parse(json, text, len);
    if (rc != NGX_OK) {
        return rc;
    }

    info = ngx_http_agentstream_json_get(json, json->root, "info");

    assistant = ngx_http_agentstream_json_is(json,
                           ngx_http_agentstream_json_get(json, info,
                                                         "role"),
                           "assistant");

    rc = ngx_http_agentstream_opencode_opens(json, json->root, &h->again);

    if (rc == NGX_AGAIN) {
        /* it was sent when it appeared for the first time */
        return NGX_OK;
    }

    opens = (rc == NGX_OK);

    if (opens || h->translate == NULL) {

        /* with a limit the first message may be in the middle of a turn */

        turn = ngx_http_agentstream_opencode_text(json, info,
                                             assistant ? "parentID" : "id");

        if (ngx_http_agentstream_history_finish(h) != NGX_OK
            || ngx_http_agentstream_history_begin(h, &turn) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    ngx_http_agentstream_history_time(h, "created");

    if (opens && ngx_http_agentstream_translate_start(h->translate) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (assistant) {
        h->nanswers++;
        h->unfinished = ngx_http_agentstream_json_get(json, info, "finish")
                        == 0
                        && ngx_http_agentstream_json_get(json, info, "error")
                           == 0;
    }

    if (ngx_http_agentstream_translate_message(h->translate, session, json,
                                               json->root)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_agentstream_history_time(h, "completed");

    if (ngx_http_agentstream_history_compaction(h, info) != NGX_OK
        || ngx_http_agentstream_history_usage(h) != NGX_OK)
    {
        return NGX_ERROR;
    }

    rc = ngx_http_agentstream_history_find_children(h, session);

    return (rc == NGX_OK) ? NGX_AGAIN : (rc == NGX_ERROR) ? rc : NGX_OK;
}


/* when the turn was live, an event reported that the conversation was
   compacted; here the message that summarises it shows it */

static ngx_int_t
ngx_http_agentstream_history_compaction(ngx_http_agentstream_history_t *h,
    ngx_uint_t info)
{
    ngx_uint_t                     v;
    ngx_http_agentstream_json_t   *json;
    ngx_http_agentstream_event_t   ev;

    json = &h->json;
    v = ngx_http_agentstream_json_get(json, info, "summary");

    if (ngx_http_agentstream_json_type(json, v)
        != NGX_HTTP_AGENTSTREAM_JSON_TRUE)
    {
        return NGX_OK;
    }

    ngx_memzero(&ev, sizeof(ngx_http_agentstream_event_t));

    ev.type = NGX_HTTP_AGENTSTREAM_EVENT_COMPACTED;
    ev.session = h->args.target->session;
    ev.json = json;
    ev.properties = info;

    return ngx_http_agentstream_translate_event(h->translate, &ev);
}


static ngx_int_t
ngx_http_agentstream_history_begin(ngx_http_agentstream_history_t *h,
    ngx_str_t *turn)
{
    ngx_http_agentstream_loc_conf_t        *conf;
    ngx_http_agentstream_translate_conf_t   tcf;

    conf = h->args.target->conf;

    h->pool = ngx_create_pool(4096, h->args.log);
    if (h->pool == NULL) {
        return NGX_ERROR;
    }

    h->turn.len = turn->len;
    h->turn.data = ngx_pstrdup(h->pool, turn);
    if (h->turn.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&tcf, sizeof(ngx_http_agentstream_translate_conf_t));

    tcf.acp_kinds = (conf->tool_kinds == NGX_HTTP_AGENTSTREAM_KINDS_ACP);
    tcf.core = (conf->packets == NGX_HTTP_AGENTSTREAM_PACKETS_CORE);
    tcf.history = 1;
    tcf.stored = 1;

    h->translate = ngx_http_agentstream_translate_create(h->pool, &tcf,
                                          &ngx_http_agentstream_history_sink,
                                          h, &h->args.target->session,
                                          &h->turn);
    if (h->translate == NULL) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* called when the current turn, if there is one, has all its messages */

static ngx_int_t
ngx_http_agentstream_history_finish(ngx_http_agentstream_history_t *h)
{
    ngx_int_t  rc;

    if (h->translate == NULL) {
        return NGX_OK;
    }

    rc = NGX_OK;

    /* the reason why a turn has no answer at all is not stored */

    if (h->nanswers) {
        rc = ngx_http_agentstream_translate_finish(h->translate,
                                                   h->unfinished);
    }

    ngx_http_agentstream_history_destroy_turn(h);

    return rc;
}


ngx_int_t
ngx_http_agentstream_history_end(ngx_http_agentstream_history_t *h)
{
    if (h->translate && ngx_http_agentstream_history_runs(h)) {
        /* the end of a running turn is not sent here */
        ngx_http_agentstream_history_destroy_turn(h);
        return NGX_OK;
    }

    return ngx_http_agentstream_history_finish(h);
}


/* whether the turn runs, or did when OpenCode was asked */

static ngx_uint_t
ngx_http_agentstream_history_runs(ngx_http_agentstream_history_t *h)
{
    if (ngx_http_agentstream_history_is_running(h)) {
        return 1;
    }

    ngx_http_agentstream_history_running(h);

    return ngx_http_agentstream_history_is_running(h);
}


/* whether the current turn is the one that was noted */

static ngx_uint_t
ngx_http_agentstream_history_is_running(ngx_http_agentstream_history_t *h)
{
    return h->running.len == h->turn.len
           && ngx_memcmp(h->running.data, h->turn.data, h->turn.len) == 0;
}


void
ngx_http_agentstream_history_running(ngx_http_agentstream_history_t *h)
{
    h->running.data = h->running_id;
    h->running.len = 0;

    (void) ngx_http_agentstream_store_running(ngx_http_agentstream_worker->zone,
                                              &h->args.target->key,
                                              &h->running);
}


/* a stored packet has the time of its event */

void
ngx_http_agentstream_history_time(ngx_http_agentstream_history_t *h,
    const char *name)
{
    int64_t                       msec;
    ngx_uint_t                    v;
    ngx_http_agentstream_json_t  *json;

    json = &h->json;

    v = ngx_http_agentstream_json_get(json, json->root, "info");
    v = ngx_http_agentstream_json_get(json, v, "time");
    v = ngx_http_agentstream_json_get(json, v, name);

    msec = ngx_http_agentstream_json_integer(json, v, 0);

    if (msec > 0) {
        ngx_http_agentstream_acp_timestamp(h->timestamp, msec / 1000,
                                           msec % 1000);

    } else if (h->timestamp[0] == '\0') {
        ngx_memcpy(h->timestamp, ngx_http_agentstream_clock_timestamp(),
                   NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN);
    }

    ngx_http_agentstream_translate_time(h->translate, h->timestamp, 0);
}


void
ngx_http_agentstream_history_destroy_turn(ngx_http_agentstream_history_t *h)
{
    if (h->translate) {
        ngx_http_agentstream_translate_destroy(h->translate);
        h->translate = NULL;
    }

    if (h->pool) {
        ngx_destroy_pool(h->pool);
        h->pool = NULL;
    }

    ngx_memzero(&h->children, sizeof(ngx_array_t));

    h->nchildren = 0;
    h->nanswers = 0;
    h->unfinished = 0;
}
