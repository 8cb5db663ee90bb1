
/*
 * Copyright (C) agentstream contributors
 *
 * The translator's sessions: the root and its subagents, their status, their
 * errors, and the result of a turn.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


static ngx_int_t ngx_http_agentstream_translate_session_meta(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *child);
static ngx_int_t ngx_http_agentstream_translate_session_end_error(
    ngx_http_agentstream_translate_t *tr);


ngx_http_agentstream_tr_session_t *
ngx_http_agentstream_translate_session_find(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id)
{
    ngx_http_agentstream_tr_session_t  *s;

    if (ngx_http_agentstream_tr_eq(&tr->session->id, id)) {
        return tr->session;
    }

    if (ngx_http_agentstream_tr_eq(&tr->root.id, id)) {
        s = &tr->root;

    } else {
        s = (ngx_http_agentstream_tr_session_t *)
                ngx_str_rbtree_lookup(&tr->sessions, id,
                                      ngx_murmur_hash2(id->data, id->len));
    }

    if (s) {
        tr->session = s;
    }

    return s;
}


ngx_int_t
ngx_http_agentstream_translate_session_child(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *id, ngx_str_t *parent)
{
    ngx_http_agentstream_acp_buf_t     *b;
    ngx_http_agentstream_tr_session_t  *s, *child;

    s = ngx_http_agentstream_translate_session_find(tr, parent);

    if (s == NULL || !tr->state.user_seen
        || (s->root && tr->state.passed)
        || !ngx_http_agentstream_opencode_session_id(id)
        || ngx_http_agentstream_translate_session_find(tr, id) != NULL)
    {
        return NGX_OK;
    }

    child = ngx_http_agentstream_translate_alloc(tr,
                                   sizeof(ngx_http_agentstream_tr_session_t));
    if (child == NULL) {
        return NGX_ERROR;
    }

    if (ngx_http_agentstream_translate_copy(tr, &child->id, id) != NGX_OK
        || ngx_http_agentstream_translate_session_meta(tr, child) != NGX_OK)
    {
        return NGX_ERROR;
    }

    child->number = ++tr->nsessions;
    child->sn.str = child->id;
    child->sn.node.key = ngx_murmur_hash2(id->data, id->len);

    ngx_rbtree_insert(&tr->sessions, &child->sn.node);

    if (!tr->conf.core && !tr->restoring) {
        b = &tr->work->buf;

        ngx_http_agentstream_acp_open(b,
                         NGX_HTTP_AGENTSTREAM_RECORD_SUBAGENT_STARTED,
                         tr->timestamp);
        ngx_http_agentstream_acp_member_text(b, ",\"subagent_session_id\":",
                                             &child->id);
        ngx_http_agentstream_acp_member_text(b, ",\"parent_session_id\":",
                                             &s->id);
        ngx_http_agentstream_acp_close(b, &tr->root.meta);

        if (ngx_http_agentstream_translate_send(tr, 0) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return tr->sink->child(tr->ctx, &child->id);
}


/* what "_meta" of its packets contains */

static ngx_int_t
ngx_http_agentstream_translate_session_meta(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *child)
{
    u_char  *p;
    size_t   len;

    /* docs/protocol.md, "agent_message_chunk": parentSessionId is the root,
       also for a subagent of a subagent */

    len = sizeof(",\"sessionId\":\"\",\"parentSessionId\":\"\"}")
          + child->id.len + tr->root.id.len;

    p = ngx_http_agentstream_translate_alloc(tr, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    child->fields.data = p;

    p = ngx_sprintf(p, ",\"sessionId\":\"%V\",\"parentSessionId\":\"%V\"",
                    &child->id, &tr->root.id);

    child->fields.len = p - child->fields.data;

    p = ngx_http_agentstream_translate_alloc(tr, child->fields.len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    child->meta.data = p;
    child->meta.len = child->fields.len + 1;

    *p++ = '{';
    p = ngx_cpymem(p, child->fields.data + 1, child->fields.len - 1);
    *p = '}';

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_translate_session_status(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t status)
{
    ngx_str_t                        message;
    ngx_uint_t                       type, retry;
    ngx_http_agentstream_acp_buf_t  *b;

    type = ngx_http_agentstream_json_get(json, status, "type");
    retry = ngx_http_agentstream_json_is(json, type, "retry");

    if (s->root) {
        if (ngx_http_agentstream_json_is(json, type, "idle")) {
            ngx_http_agentstream_translate_session_idle(tr, s);
            return NGX_OK;
        }

        if (!retry && !ngx_http_agentstream_json_is(json, type, "busy")) {
            return NGX_OK;
        }

        tr->state.busy = 1;
        tr->state.idle = 0;
    }

    if (!retry || !tr->state.user_seen) {
        return NGX_OK;
    }

    ngx_http_agentstream_translate_text_retry(tr, s);

    if (tr->conf.core) {
        return NGX_OK;
    }

    if (ngx_http_agentstream_translate_error_message(tr, json, status,
                                                     &message)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    b = &tr->work->buf;

    ngx_http_agentstream_acp_open(b,
                         NGX_HTTP_AGENTSTREAM_RECORD_SESSION_STATUS,
                         tr->timestamp);
    ngx_http_agentstream_acp_literal(b, ",\"status\":\"retry\"");
    ngx_http_agentstream_acp_member_number(b, ",\"attempt\":",
        ngx_http_agentstream_json_integer(json,
            ngx_http_agentstream_json_get(json, status, "attempt"), 0));
    ngx_http_agentstream_acp_member_text(b, ",\"message\":", &message);
    ngx_http_agentstream_acp_member_number(b, ",\"next\":",
        ngx_http_agentstream_json_integer(json,
            ngx_http_agentstream_json_get(json, status, "next"), 0));
    ngx_http_agentstream_acp_close(b, &s->meta);

    return ngx_http_agentstream_translate_send(tr, 0);
}


void
ngx_http_agentstream_translate_session_idle(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s)
{
    if (!s->root) {
        return;
    }

    tr->state.busy = 0;

    /* docs/protocol.md, "How a turn ends": a stale idle must not end the
       turn */

    tr->state.idle = tr->state.user_seen;
}


/* an error of the root or of its last message; the first error counts until a
   new message begins, but an abort takes precedence over all others */

ngx_int_t
ngx_http_agentstream_translate_session_error(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_json_t *json,
    ngx_uint_t error)
{
    ngx_uint_t  name;

    if (ngx_http_agentstream_json_type(json, error)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return NGX_OK;
    }

    name = ngx_http_agentstream_json_get(json, error, "name");

    if (ngx_http_agentstream_json_is(json, name, "MessageAbortedError")) {
        tr->aborted = 1;
    }

    if (tr->error.len != 0) {
        return NGX_OK;
    }

    return ngx_http_agentstream_translate_error_details(tr, &tr->error, json,
                                                        error);
}


ngx_int_t
ngx_http_agentstream_translate_session_compacted(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s)
{
    ngx_queue_t                        *q;
    ngx_http_agentstream_acp_buf_t     *b;
    ngx_http_agentstream_tr_part_t     *part;
    ngx_http_agentstream_tr_message_t  *m;

    if (tr->conf.core) {
        return NGX_OK;
    }

    b = &tr->work->buf;
    m = s->summary;

    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_COMPACTION,
                                  tr->timestamp);

    if (m == NULL) {
        ngx_http_agentstream_acp_literal(b, ",\"summary\":null");

    } else {
        ngx_http_agentstream_acp_literal(b, ",\"summary\":\"");

        for (q = ngx_queue_head(&m->parts);
             q != ngx_queue_sentinel(&m->parts);
             q = ngx_queue_next(q))
        {
            part = ngx_queue_data(q, ngx_http_agentstream_tr_part_t, queue);
            ngx_http_agentstream_acp_json(b, &part->text);
        }

        ngx_http_agentstream_acp_literal(b, "\"");
    }

    ngx_http_agentstream_acp_close(b, &s->meta);

    return ngx_http_agentstream_translate_send(tr, 0);
}


ngx_int_t
ngx_http_agentstream_translate_session_end(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t cancelled)
{
    ngx_uint_t                          finish;
    ngx_queue_t                        *q;
    ngx_http_agentstream_acp_usage_t    usage;
    ngx_http_agentstream_tr_message_t  *m;

    ngx_str_null(&tr->state.stop_reason);

    m = tr->root.last;
    finish = m ? m->finish : NGX_HTTP_AGENTSTREAM_TR_NONE;

    if (tr->aborted) {
        ngx_str_set(&tr->state.stop_reason, "cancelled");

    } else if (tr->error.len != 0) {

        if (ngx_http_agentstream_translate_session_end_error(tr) != NGX_OK) {
            return NGX_ERROR;
        }

        if (tr->state.stop_reason.len == 0) {
            ngx_str_set(&tr->state.stop_reason, "error");
            return ngx_http_agentstream_translate_send(tr, 0);
        }

    } else if (finish == NGX_HTTP_AGENTSTREAM_TR_LENGTH) {
        ngx_str_set(&tr->state.stop_reason, "max_tokens");

    } else if (finish == NGX_HTTP_AGENTSTREAM_TR_FILTER) {
        ngx_str_set(&tr->state.stop_reason, "refusal");

    } else if (cancelled && finish != NGX_HTTP_AGENTSTREAM_TR_STOP) {
        ngx_str_set(&tr->state.stop_reason, "cancelled");

    } else {
        ngx_str_set(&tr->state.stop_reason, "end_turn");
    }

    ngx_memzero(&usage, sizeof(ngx_http_agentstream_acp_usage_t));

    for (q = ngx_queue_head(&tr->answers);
         q != ngx_queue_sentinel(&tr->answers);
         q = ngx_queue_next(q))
    {
        m = ngx_queue_data(q, ngx_http_agentstream_tr_message_t, queue);

        usage.total += m->usage.total;
        usage.input += m->usage.input;
        usage.output += m->usage.output;
        usage.thought += m->usage.thought;
        usage.cached_read += m->usage.cached_read;
        usage.cached_write += m->usage.cached_write;
    }

    ngx_http_agentstream_acp_prompt_response(&tr->work->buf, tr->timestamp,
                                             &tr->state.stop_reason,
                                             tr->conf.core ? NULL : &usage);

    return ngx_http_agentstream_translate_send(tr, 0);
}


/* writes the "error" packet to tr->work->buf, or sets a stop reason for errors
   that are not reported as such */

static ngx_int_t
ngx_http_agentstream_translate_session_end_error(
    ngx_http_agentstream_translate_t *tr)
{
    int64_t                          code;
    ngx_str_t                        name, message, details;
    ngx_uint_t                       v;
    ngx_http_agentstream_json_t     *json;
    ngx_http_agentstream_acp_buf_t  *b;

    json = &tr->json;

    details.data = tr->error.start;
    details.len = tr->error.len;

    if (ngx_http_agentstream_json_parse(json, details.data, details.len)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    v = ngx_http_agentstream_json_get(json, json->root, "name");

    if (ngx_http_agentstream_json_is(json, v, "ContentFilterError")) {
        ngx_str_set(&tr->state.stop_reason, "refusal");
        return NGX_OK;
    }

    if (ngx_http_agentstream_json_is(json, v, "MessageOutputLengthError")) {
        ngx_str_set(&tr->state.stop_reason, "max_tokens");
        return NGX_OK;
    }

    name = ngx_http_agentstream_json_string(json, v);

    v = ngx_http_agentstream_json_get(json, json->root, "message");
    message = ngx_http_agentstream_json_string(json, v);

    if (message.len == 0) {
        message = name;
    }

    v = ngx_http_agentstream_json_get(json, json->root, "statusCode");
    code = ngx_http_agentstream_json_integer(json, v, 0);

    b = &tr->work->buf;

    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_ERROR,
                                  tr->timestamp);
    ngx_http_agentstream_acp_member_text(b, ",\"message\":", &message);

    if (code) {
        ngx_http_agentstream_acp_member_number(b, ",\"code\":", code);

    } else {
        ngx_http_agentstream_acp_literal(b, ",\"code\":null");
    }

    ngx_http_agentstream_acp_member(b, ",\"details\":", &details);
    ngx_http_agentstream_acp_literal(b, "}");

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_translate_heartbeat(ngx_http_agentstream_translate_t *tr,
    ngx_msec_t elapsed, ngx_msec_t silent)
{
    ngx_http_agentstream_acp_buf_t  *b;

    if (tr->conf.core || tr->finished) {
        return NGX_OK;
    }

    b = &tr->work->buf;

    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_HEARTBEAT,
                                  tr->timestamp);
    ngx_http_agentstream_acp_member_number(b, ",\"elapsedMs\":", elapsed);
    ngx_http_agentstream_acp_member_number(b, ",\"silentMs\":", silent);
    ngx_http_agentstream_acp_close(b, &tr->root.meta);

    return ngx_http_agentstream_translate_send(tr, 0);
}
