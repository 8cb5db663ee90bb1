
/*
 * Copyright (C) agentstream contributors
 *
 * The translator's tables of messages and parts: which turn a message belongs
 * to, whether its content is sent to the client, how it ended and what it
 * cost.  Events and stored messages go through the same functions.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


static ngx_int_t ngx_http_agentstream_translate_message_ours(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t info, ngx_uint_t listed);
static void ngx_http_agentstream_translate_message_user(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m);
static ngx_int_t ngx_http_agentstream_translate_message_assistant(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t info, ngx_uint_t rest);
static void ngx_http_agentstream_translate_message_begin(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_uint_t rest);
static void ngx_http_agentstream_translate_message_complete(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m);
static ngx_uint_t ngx_http_agentstream_translate_message_finish(
    ngx_http_agentstream_json_t *json, ngx_uint_t finish);
static void ngx_http_agentstream_translate_message_count(
    ngx_http_agentstream_json_t *json, ngx_uint_t tokens,
    ngx_http_agentstream_acp_usage_t *u);
static int64_t ngx_http_agentstream_translate_message_tokens(
    ngx_http_agentstream_json_t *json, ngx_uint_t object, const char *name);
static ngx_http_agentstream_tr_message_t *
    ngx_http_agentstream_translate_message_last(
    ngx_http_agentstream_translate_t *tr);


ngx_http_agentstream_tr_message_t *
ngx_http_agentstream_translate_message_find(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id)
{
    uint32_t  hash;

    hash = ngx_murmur_hash2(id->data, id->len);

    return (ngx_http_agentstream_tr_message_t *)
               ngx_str_rbtree_lookup(&tr->messages, id, hash);
}


ngx_http_agentstream_tr_message_t *
ngx_http_agentstream_translate_message_get(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id)
{
    ngx_http_agentstream_tr_message_t  *m;

    m = ngx_http_agentstream_translate_message_find(tr, id);
    if (m) {
        return m;
    }

    m = (ngx_http_agentstream_tr_message_t *)
            ngx_http_agentstream_translate_node(tr,
                                    sizeof(ngx_http_agentstream_tr_message_t),
                                    id);
    if (m == NULL) {
        return NULL;
    }

    m->session = s;
    m->stranger = 1;

    ngx_queue_init(&m->parts);
    ngx_queue_init(&m->fresh);
    ngx_queue_init(&m->stale);
    ngx_queue_init(&m->held);

    ngx_rbtree_insert(&tr->messages, &m->sn.node);
    ngx_queue_insert_tail(&tr->strangers, &m->list);

    return m;
}


ngx_int_t
ngx_http_agentstream_translate_message_info(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t info, ngx_uint_t rest,
    ngx_uint_t listed)
{
    ngx_int_t                           rc;
    ngx_str_t                           id;
    ngx_uint_t                          role, assistant;
    ngx_http_agentstream_tr_message_t  *m;

    id = ngx_http_agentstream_opencode_text(json, info, "id");
    role = ngx_http_agentstream_json_get(json, info, "role");

    assistant = ngx_http_agentstream_json_is(json, role, "assistant");

    if (id.len == 0
        || (!assistant && !ngx_http_agentstream_json_is(json, role, "user")))
    {
        return NGX_OK;
    }

    m = ngx_http_agentstream_translate_message_get(tr, s, &id);
    if (m == NULL) {
        return NGX_ERROR;
    }

    if (m->session != s) {
        return NGX_OK;
    }

    if (!m->known) {
        m->assistant = assistant;
        m->created = ngx_http_agentstream_json_integer(json,
                         ngx_http_agentstream_json_get(json,
                             ngx_http_agentstream_json_get(json, info, "time"),
                             "created"), 0);
    }

    if (listed) {
        /* its parts follow, and the parts of all messages before it were
           seen */
        m->foreign = 0;
    }

    if (!m->ours && !m->foreign) {
        rc = ngx_http_agentstream_translate_message_ours(tr, m, json, info,
                                                         listed);

        if (rc == NGX_AGAIN) {
            return NGX_AGAIN;
        }

        m->ours = (rc == NGX_OK);
    }

    m->known = 1;
    ngx_http_agentstream_translate_keep_message(tr, m);

    if (!m->ours) {
        ngx_http_agentstream_translate_hold_forget(tr, m);
        return NGX_OK;
    }

    if (!m->assistant) {
        ngx_http_agentstream_translate_message_user(tr, m);

    } else if (ngx_http_agentstream_translate_message_assistant(tr, m, json,
                                                                info, rest)
               != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_translate_hold_replay(tr, m);
}


/*
 * Which turn a message belongs to.  NGX_OK: ours, NGX_DECLINED: another one,
 * NGX_AGAIN: only the list of all messages can tell.
 */

static ngx_int_t
ngx_http_agentstream_translate_message_ours(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t info, ngx_uint_t listed)
{
    ngx_str_t                           parent;
    ngx_http_agentstream_tr_message_t  *user;

    if (tr->conf.history) {
        return NGX_OK;
    }

    if (!m->session->root) {
        /* a subagent may continue a session of an earlier turn */

        return (m->created == 0 || m->created >= tr->created) ? NGX_OK
                                                              : NGX_DECLINED;
    }

    if (!m->assistant && ngx_http_agentstream_tr_eq(&m->sn.str, &tr->turn)) {
        return NGX_OK;
    }

    parent = ngx_http_agentstream_opencode_text(json, info, "parentID");

    if (ngx_http_agentstream_tr_eq(&parent, &tr->turn)) {
        tr->state.user_seen = 1;
        return NGX_OK;
    }

    user = ngx_http_agentstream_translate_message_find(tr, &parent);

    if (user && user->foreign) {
        /* OpenCode answers prompts one after the other */
        tr->state.passed = 1;
        return NGX_DECLINED;
    }

    if (user && user->known && (user->judged || !user->ours)) {
        return user->ours ? NGX_OK : NGX_DECLINED;
    }

    if (listed) {
        return NGX_OK;
    }

    if (!tr->state.user_seen || tr->created == 0
        || m->created < tr->created)
    {
        return NGX_DECLINED;
    }

    /* a user message counts as added by a compaction, until one of its parts
       shows otherwise */

    return (m->assistant && parent.len) ? NGX_AGAIN : NGX_OK;
}


void
ngx_http_agentstream_translate_message_prompt(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t part)
{
    ngx_uint_t  type, again;

    if (ngx_http_agentstream_tr_eq(&m->sn.str, &tr->turn)) {
        return;
    }

    again = tr->again;
    tr->again = 0;

    m->judged = 1;

    type = ngx_http_agentstream_json_get(json, part, "type");

    if (ngx_http_agentstream_json_is(json, type, "compaction")) {
        tr->again = ngx_http_agentstream_opencode_true(json, part, "overflow");
        return;
    }

    if (m->again
        || ngx_http_agentstream_opencode_true(json, part, "synthetic")
        || ngx_http_agentstream_opencode_true(json, part, "ignored"))
    {
        return;
    }

    /* a prompt that was too long is repeated after the compaction */

    if (again) {
        m->again = 1;
        return;
    }

    m->ours = 0;
    m->foreign = 1;
}


static void
ngx_http_agentstream_translate_message_user(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m)
{
    if (!m->session->root
        || !ngx_http_agentstream_tr_eq(&m->sn.str, &tr->turn))
    {
        return;
    }

    tr->created = m->created;

    if (tr->state.user_seen) {
        return;
    }

    tr->state.user_seen = 1;

    /* an error before our message existed did not belong to our turn */

    tr->state.error = 0;
    tr->aborted = 0;
    tr->error.len = 0;
}


static ngx_int_t
ngx_http_agentstream_translate_message_assistant(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t info, ngx_uint_t rest)
{
    ngx_uint_t                          v, error;
    ngx_http_agentstream_tr_session_t  *s;

    s = m->session;

    v = ngx_http_agentstream_json_get(json, info, "summary");

    if (ngx_http_agentstream_json_type(json, v)
        == NGX_HTTP_AGENTSTREAM_JSON_TRUE)
    {
        m->summary = 1;
        s->summary = m;
    }

    if (!m->open && !m->completed) {
        ngx_http_agentstream_translate_message_begin(tr, m, rest);
    }

    v = ngx_http_agentstream_json_get(json, info, "finish");

    if (v) {
        m->finish = ngx_http_agentstream_translate_message_finish(json, v);
    }

    error = ngx_http_agentstream_json_get(json, info, "error");

    if (ngx_http_agentstream_json_type(json, error)
        == NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        m->failed = 1;

        if (m->summary && s->root) {
            /* no prompt is repeated after a compaction that failed */
            tr->again = 0;
        }

        if (m == tr->root.last
            && ngx_http_agentstream_translate_session_error(tr, json, error)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    v = ngx_http_agentstream_json_get(json, info, "time");
    v = ngx_http_agentstream_json_get(json, v, "completed");

    if (ngx_http_agentstream_json_type(json, v)
        == NGX_HTTP_AGENTSTREAM_JSON_NUMBER)
    {
        ngx_http_agentstream_translate_message_complete(tr, m);
    }

    return ngx_http_agentstream_translate_message_usage(tr, m, json, info);
}


static void
ngx_http_agentstream_translate_message_begin(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_uint_t rest)
{
    ngx_http_agentstream_tr_session_t  *s;

    s = m->session;

    m->open = 1;
    tr->state.nopen++;

    if (s->last == NULL || m->created == 0
        || m->created >= s->last->created)
    {
        s->last = m;
    }

    if (!s->root) {
        return;
    }

    ngx_queue_insert_tail(&tr->answers, &m->queue);
    tr->state.steps++;

    if (s->last != m) {
        return;
    }

    /* when the model is asked again, the error before is not reported to the
       client */

    tr->state.error = 0;
    tr->aborted = 0;
    tr->error.len = 0;

    if (!rest) {
        tr->state.idle = 0;
    }
}


static void
ngx_http_agentstream_translate_message_complete(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m)
{
    m->completed = 1;

    if (m->open) {
        m->open = 0;
        tr->state.nopen--;
    }
}


static ngx_uint_t
ngx_http_agentstream_translate_message_finish(
    ngx_http_agentstream_json_t *json, ngx_uint_t finish)
{
    if (ngx_http_agentstream_json_type(json, finish)
        != NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        return NGX_HTTP_AGENTSTREAM_TR_NONE;
    }

    if (ngx_http_agentstream_json_is(json, finish, "tool-calls")
        || ngx_http_agentstream_json_is(json, finish, "unknown"))
    {
        return NGX_HTTP_AGENTSTREAM_TR_GOES_ON;
    }

    if (ngx_http_agentstream_json_is(json, finish, "length")) {
        return NGX_HTTP_AGENTSTREAM_TR_LENGTH;
    }

    if (ngx_http_agentstream_json_is(json, finish, "content-filter")) {
        return NGX_HTTP_AGENTSTREAM_TR_FILTER;
    }

    return NGX_HTTP_AGENTSTREAM_TR_STOP;
}


ngx_int_t
ngx_http_agentstream_translate_message_usage(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m,
    ngx_http_agentstream_json_t *json, ngx_uint_t info)
{
    uint32_t                           digest;
    ngx_str_t                          cost, raw;
    ngx_uint_t                         v, tokens;
    ngx_http_agentstream_acp_buf_t    *b;
    ngx_http_agentstream_acp_usage_t   u;

    tokens = ngx_http_agentstream_json_get(json, info, "tokens");

    if (ngx_http_agentstream_json_type(json, tokens)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return NGX_OK;
    }

    ngx_http_agentstream_translate_message_count(json, tokens, &u);

    v = ngx_http_agentstream_json_get(json, info, "cost");

    if (ngx_http_agentstream_json_type(json, v)
        == NGX_HTTP_AGENTSTREAM_JSON_NUMBER)
    {
        cost = ngx_http_agentstream_json_raw(json, v);

    } else {
        ngx_str_set(&cost, "null");
    }

    digest = ngx_murmur_hash2(cost.data, cost.len);

    if (u.total == 0
        || (digest == m->cost
            && ngx_memcmp(&u, &m->usage,
                          sizeof(ngx_http_agentstream_acp_usage_t)) == 0))
    {
        return NGX_OK;
    }

    m->usage = u;
    m->cost = digest;

    if (tr->conf.core || m->summary || tr->restoring) {
        return NGX_OK;
    }

    ngx_http_agentstream_translate_mark(tr, &m->session->id, &m->sn.str, NULL,
                                        NULL);

    raw = ngx_http_agentstream_json_raw(json, tokens);

    b = &tr->work->buf;

    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE,
                                  tr->timestamp);
    ngx_http_agentstream_acp_member_number(b, ",\"used_tokens\":", u.total);
    ngx_http_agentstream_acp_member(b, ",\"cost\":", &cost);
    ngx_http_agentstream_acp_member(b, ",\"tokens\":", &raw);
    ngx_http_agentstream_acp_close(b, &m->session->meta);

    return ngx_http_agentstream_translate_send(tr, 0);
}


static void
ngx_http_agentstream_translate_message_count(
    ngx_http_agentstream_json_t *json, ngx_uint_t tokens,
    ngx_http_agentstream_acp_usage_t *u)
{
    ngx_uint_t  cache;

    cache = ngx_http_agentstream_json_get(json, tokens, "cache");

    u->input = ngx_http_agentstream_translate_message_tokens(json, tokens,
                                                            "input");
    u->output = ngx_http_agentstream_translate_message_tokens(json, tokens,
                                                             "output");
    u->thought = ngx_http_agentstream_translate_message_tokens(json, tokens,
                                                              "reasoning");
    u->cached_read = ngx_http_agentstream_translate_message_tokens(json, cache,
                                                                  "read");
    u->cached_write = ngx_http_agentstream_translate_message_tokens(json, cache,
                                                                   "write");
    u->total = ngx_http_agentstream_translate_message_tokens(json, tokens,
                                                            "total");

    if (u->total == 0) {
        u->total = u->input + u->output + u->thought + u->cached_read
                   + u->cached_write;
    }
}


static int64_t
ngx_http_agentstream_translate_message_tokens(
    ngx_http_agentstream_json_t *json, ngx_uint_t object, const char *name)
{
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, object, name);

    return ngx_http_agentstream_json_integer(json, v, 0);
}


ngx_int_t
ngx_http_agentstream_translate_message_remove(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id)
{
    ngx_queue_t                        *q;
    ngx_http_agentstream_tr_part_t     *part;
    ngx_http_agentstream_tr_message_t  *m;

    m = ngx_http_agentstream_translate_message_find(tr, id);

    if (m == NULL || m->session != s) {
        return NGX_OK;
    }

    ngx_http_agentstream_translate_hold_forget(tr, m);
    ngx_http_agentstream_translate_message_complete(tr, m);

    m->removed = 1;

    if (m == s->last) {
        s->last = s->root ? ngx_http_agentstream_translate_message_last(tr)
                          : NULL;
    }

    if (m == s->summary) {
        s->summary = NULL;
    }

    for (q = ngx_queue_head(&m->parts);
         q != ngx_queue_sentinel(&m->parts);
         q = ngx_queue_next(q))
    {
        part = ngx_queue_data(q, ngx_http_agentstream_tr_part_t, queue);

        if (ngx_http_agentstream_translate_part_remove(tr, part) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_http_agentstream_tr_message_t *
ngx_http_agentstream_translate_message_last(
    ngx_http_agentstream_translate_t *tr)
{
    ngx_queue_t                        *q;
    ngx_http_agentstream_tr_message_t  *m;

    for (q = ngx_queue_last(&tr->answers);
         q != ngx_queue_sentinel(&tr->answers);
         q = ngx_queue_prev(q))
    {
        m = ngx_queue_data(q, ngx_http_agentstream_tr_message_t, queue);

        if (!m->removed) {
            return m;
        }
    }

    return NULL;
}
