
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Subagents in a history.  Their messages are stored in sessions of their own.
 * They are sent after the message whose tool call started them, while the
 * messages of the session itself wait.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_history_int.h"


/* in the turn's pool */

typedef struct {
    ngx_str_t                              session;
    ngx_str_t                              parent;
    ngx_uint_t                             up;         /* index of the subagent
                                                          that started it, from
                                                          1; 0: the session
                                                          itself started it */
    int64_t                                from;       /* msec: the time range
                                                          of the messages,
                                                          because a session can
                                                          be used again */
    int64_t                                to;         /* 0: no end */
} ngx_http_agentstream_history_child_t;


static ngx_uint_t ngx_http_agentstream_history_told(
    ngx_http_agentstream_history_t *h, ngx_str_t *session, int64_t from,
    ngx_uint_t up);
static ngx_int_t ngx_http_agentstream_history_add_child(
    ngx_http_agentstream_history_t *h, ngx_str_t *session, ngx_str_t *parent,
    ngx_uint_t up);
static ngx_int_t ngx_http_agentstream_history_child_body(void *data,
    u_char *pos, size_t len);
static ngx_int_t ngx_http_agentstream_history_child_message(void *ctx,
    u_char *text, size_t len);
static void ngx_http_agentstream_history_child_done(void *data,
    ngx_http_agentstream_call_t *call);
static int64_t ngx_http_agentstream_history_msec(
    ngx_http_agentstream_json_t *json, const char *name);


/* looks for subagents in the message in h->json */

ngx_int_t
ngx_http_agentstream_history_find_children(ngx_http_agentstream_history_t *h,
    ngx_str_t *parent)
{
    ngx_str_t                     id;
    ngx_uint_t                    v, parts, tool, state, up;
    ngx_http_agentstream_json_t  *json;

    json = &h->json;
    up = h->child ? h->nchildren + 1 : 0;
    parts = ngx_http_agentstream_json_get(json, json->root, "parts");

    if (parts == 0
        || h->args.target->conf->packets == NGX_HTTP_AGENTSTREAM_PACKETS_CORE)
    {
        return NGX_DECLINED;
    }

    for (v = ngx_http_agentstream_json_first(json, parts);
         v;
         v = ngx_http_agentstream_json_next(json, parts, v))
    {
        tool = ngx_http_agentstream_json_get(json, v, "tool");

        if (!ngx_http_agentstream_json_is(json, tool, "task")) {
            continue;
        }

        state = ngx_http_agentstream_json_get(json, v, "state");
        state = ngx_http_agentstream_json_get(json, state, "metadata");
        id = ngx_http_agentstream_opencode_text(json, state, "sessionId");

        if (ngx_http_agentstream_opencode_session_id(&id)
            && ngx_http_agentstream_history_add_child(h, &id, parent, up)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return (h->nchildren < h->children.nelts) ? NGX_OK : NGX_DECLINED;
}


/* whether the subagent was sent already, or is being sent: a session must not
   contain itself */

static ngx_uint_t
ngx_http_agentstream_history_told(ngx_http_agentstream_history_t *h,
    ngx_str_t *session, int64_t from, ngx_uint_t up)
{
    ngx_uint_t                             i;
    ngx_http_agentstream_history_child_t  *child;

    if (session->len == h->args.target->session.len
        && ngx_memcmp(session->data, h->args.target->session.data, session->len)
           == 0)
    {
        return 1;
    }

    child = h->children.elts;

    for (i = h->children.nelts; i > 0; i--) {

        if (child[i - 1].session.len == session->len
            && ngx_memcmp(child[i - 1].session.data, session->data,
                          session->len)
               == 0
            && (i == up || child[i - 1].from == from))
        {
            return 1;
        }

        if (i == up) {
            up = child[i - 1].up;
        }
    }

    return 0;
}


static ngx_int_t
ngx_http_agentstream_history_add_child(ngx_http_agentstream_history_t *h,
    ngx_str_t *session, ngx_str_t *parent, ngx_uint_t up)
{
    int64_t                                from;
    ngx_str_t                              id, of;
    ngx_http_agentstream_history_child_t  *child;

    from = ngx_http_agentstream_history_msec(&h->json, "created");

    if (ngx_http_agentstream_history_told(h, session, from, up)) {
        return NGX_OK;
    }

    id.len = session->len;
    id.data = ngx_pstrdup(h->pool, session);
    of.len = parent->len;
    of.data = ngx_pstrdup(h->pool, parent);

    if (id.data == NULL || of.data == NULL) {
        return NGX_ERROR;
    }

    if (h->children.elts == NULL
        && ngx_array_init(&h->children, h->pool, 4,
                          sizeof(ngx_http_agentstream_history_child_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    child = ngx_array_push(&h->children);
    if (child == NULL) {
        return NGX_ERROR;
    }

    child->session = id;
    child->parent = of;
    child->up = up;
    child->from = from;
    child->to = ngx_http_agentstream_history_msec(&h->json, "completed");

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_history_next_child(ngx_http_agentstream_history_t *h)
{
    ngx_http_agentstream_call_t           *call;
    ngx_http_agentstream_event_t           ev;
    ngx_http_agentstream_history_child_t  *child;

    if (h->nchildren == h->children.nelts) {
        return NGX_DECLINED;
    }

    child = h->children.elts;
    child += h->nchildren;

    ngx_memzero(&ev, sizeof(ngx_http_agentstream_event_t));

    ev.type = NGX_HTTP_AGENTSTREAM_EVENT_CREATED;
    ev.session = child->session;
    ev.parent = child->parent;

    if (ngx_http_agentstream_translate_event(h->translate, &ev) != NGX_OK) {
        return NGX_ERROR;
    }

    call = ngx_http_agentstream_call_create(h->args.target->conf,
                                            &h->args.target->route,
                                            NGX_HTTP_AGENTSTREAM_GET_MESSAGES,
                                            &child->session, NULL, NULL);
    if (call == NULL) {
        return NGX_ERROR;
    }

    call->kind = NGX_HTTP_AGENTSTREAM_CALL_STREAM;
    call->body_handler = ngx_http_agentstream_history_child_body;
    call->done_handler = ngx_http_agentstream_history_child_done;
    call->data = h;

    ngx_http_agentstream_json_split_destroy(&h->child_split);
    ngx_memzero(&h->child_split, sizeof(ngx_http_agentstream_json_split_t));

    h->child_split.limit = call->limit;
    h->child_split.handler = ngx_http_agentstream_history_child_message;
    h->child_split.ctx = h;

    h->child = call;

    ngx_http_agentstream_call_open(call);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_history_child_body(void *data, u_char *pos, size_t len)
{
    ngx_http_agentstream_history_t *h = data;

    if (ngx_http_agentstream_json_split_feed(&h->child_split, pos, len)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_history_taken(h, len);
}


static ngx_int_t
ngx_http_agentstream_history_child_message(void *ctx, u_char *text, size_t len)
{
    ngx_http_agentstream_history_t *h = ctx;

    int64_t                                created;
    ngx_str_t                              session;
    ngx_uint_t                             v;
    ngx_http_agentstream_json_t           *json;
    ngx_http_agentstream_history_child_t  *child;

    json = &h->json;

    child = h->children.elts;
    child += h->nchildren;

    if (ngx_http_agentstream_json_parse(json, text, len) != NGX_OK) {
        return NGX_ERROR;
    }

    v = ngx_http_agentstream_json_get(json, json->root, "info");
    v = ngx_http_agentstream_json_get(json, v, "role");

    created = ngx_http_agentstream_history_msec(json, "created");

    /* the subagent's prompt is in the input of the tool call */

    if (!ngx_http_agentstream_json_is(json, v, "assistant")
        || created < child->from
        || (child->to && created > child->to))
    {
        return NGX_OK;
    }

    session = child->session;

    ngx_http_agentstream_history_time(h, "created");

    if (ngx_http_agentstream_translate_message(h->translate, &session, json,
                                               json->root)
        != NGX_OK
        || ngx_http_agentstream_history_find_children(h, &session) == NGX_ERROR
        || ngx_http_agentstream_history_usage(h) != NGX_OK)
    {
        /* no memory: the following packets would not fit those that were
           sent */
        h->failed = 1;
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* a subagent whose session was deleted has no messages */

static void
ngx_http_agentstream_history_child_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_history_t *h = data;

    h->child = NULL;
    h->nchildren++;

    ngx_http_agentstream_history_post(h);
}


static int64_t
ngx_http_agentstream_history_msec(ngx_http_agentstream_json_t *json,
    const char *name)
{
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, json->root, "info");
    v = ngx_http_agentstream_json_get(json, v, "time");
    v = ngx_http_agentstream_json_get(json, v, name);

    return ngx_http_agentstream_json_integer(json, v, 0);
}
