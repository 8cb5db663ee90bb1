
/*
 * Copyright (C) agentstream contributors
 *
 * Tool calls: one start, then every state that changes what a client can see.
 * States only move forward, and running ones are throttled.
 *
 * A running state repeats the whole output so far.  So that this does not cost
 * the square of the output, a tool call earns the bytes that its output grows
 * by, and spends the bytes that its repeated states take in the journal; see
 * translate_tool_affords().
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


/* bytes that a tool call may spend beyond what it has earned */
#define NGX_HTTP_AGENTSTREAM_TR_CREDIT   8192

/* bytes of all states that wait to be sent */
#define NGX_HTTP_AGENTSTREAM_TR_PENDING  (8 * 1024 * 1024)

/* bytes earned by output that changed but did not grow, for example because
   its beginning was cut off */
#define NGX_HTTP_AGENTSTREAM_TR_CHANGED  256

/* NGX_TIMER_INFINITE, whose header a pure part must not include */
#define NGX_HTTP_AGENTSTREAM_TR_NEVER    ((ngx_msec_t) -1)


static ngx_int_t ngx_http_agentstream_translate_tool_status(
    ngx_http_agentstream_json_t *json, ngx_uint_t state, ngx_uint_t *status);
static uint32_t ngx_http_agentstream_translate_tool_key(
    ngx_http_agentstream_tr_session_t *s, ngx_str_t *id);
static ngx_int_t ngx_http_agentstream_translate_tool_start(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_call_t *call,
    ngx_http_agentstream_acp_tool_t *tool);
static ngx_int_t ngx_http_agentstream_translate_tool_progress(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_call_t *call,
    ngx_http_agentstream_tr_state_t *st);
static ngx_uint_t ngx_http_agentstream_translate_tool_affords(
    ngx_http_agentstream_tr_call_t *call);
static ngx_msec_t ngx_http_agentstream_translate_tool_due(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call);
static void ngx_http_agentstream_translate_tool_wait(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_call_t *call,
    uint32_t digest);
static void ngx_http_agentstream_translate_tool_drop(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call);
static ngx_int_t ngx_http_agentstream_translate_tool_send(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call);
static ngx_int_t ngx_http_agentstream_translate_tool_task(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_tr_state_t *st);


ngx_int_t
ngx_http_agentstream_translate_tool_update(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_json_t *json, ngx_uint_t value)
{
    ngx_int_t                           rc;
    ngx_str_t                           id;
    ngx_uint_t                          v;
    ngx_http_agentstream_tr_call_t     *call;
    ngx_http_agentstream_tr_state_t     st;
    ngx_http_agentstream_tr_session_t  *s;

    s = part->message->session;

    ngx_memzero(&st, sizeof(ngx_http_agentstream_tr_state_t));

    st.json = json;
    st.state = ngx_http_agentstream_json_get(json, value, "state");
    st.input = ngx_http_agentstream_json_get(json, st.state, "input");
    st.tool.name = ngx_http_agentstream_opencode_text(json, value, "tool");

    id = ngx_http_agentstream_opencode_text(json, value, "callID");

    if (id.len == 0 || st.tool.name.len == 0
        || ngx_http_agentstream_translate_tool_status(json, st.state,
                                                      &st.tool.status)
           != NGX_OK)
    {
        return NGX_OK;
    }

    if (st.input) {
        st.tool.input = ngx_http_agentstream_json_raw(json, st.input);

    } else {
        ngx_str_set(&st.tool.input, "{}");
    }

    if (st.tool.status >= NGX_HTTP_AGENTSTREAM_ACP_COMPLETED) {
        rc = ngx_http_agentstream_opencode_called(json, value, st.state);

        part->message->called |= (rc == NGX_OK);
        part->message->rejected |= (rc == NGX_ABORT);
    }

    st.tool.title = st.tool.name;
    st.tool.kind = ngx_http_agentstream_translate_tool_state_kind(tr,
                                                             &st.tool.name);

    call = part->call;

    if (call == NULL) {
        call = ngx_http_agentstream_translate_tool_find(tr, s, &id);

        if (call == NULL || !call->open) {

            call = ngx_http_agentstream_translate_tool_create(tr, s, &id);
            if (call == NULL) {
                return NGX_ERROR;
            }

            ngx_http_agentstream_translate_mark(tr, &s->id,
                                                &part->message->sn.str,
                                                &part->sn.str, &id);

            if (ngx_http_agentstream_translate_tool_start(tr, call, &st.tool)
                != NGX_OK)
            {
                return NGX_ERROR;
            }
        }

        part->call = call;
    }

    if (!call->open || st.tool.status < call->status) {
        return NGX_OK;
    }

    st.tool.id = call->id;

    v = ngx_http_agentstream_json_get(json, st.state, "title");
    id = ngx_http_agentstream_json_string(json, v);

    if (id.len) {
        st.tool.title = id;
    }

    if (ngx_http_agentstream_translate_tool_task(tr, s, &st) != NGX_OK) {
        return NGX_ERROR;
    }

    if (tr->gap && !ngx_queue_empty(&call->asks)
        && st.tool.status >= NGX_HTTP_AGENTSTREAM_ACP_COMPLETED
        && ngx_http_agentstream_translate_ask_missed(tr, call, &st) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_translate_tool_progress(tr, call, &st);
}


static ngx_int_t
ngx_http_agentstream_translate_tool_status(ngx_http_agentstream_json_t *json,
    ngx_uint_t state, ngx_uint_t *status)
{
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, state, "status");

    if (ngx_http_agentstream_json_is(json, v, "running")) {
        *status = NGX_HTTP_AGENTSTREAM_ACP_IN_PROGRESS;

    } else if (ngx_http_agentstream_json_is(json, v, "completed")) {
        *status = NGX_HTTP_AGENTSTREAM_ACP_COMPLETED;

    } else if (ngx_http_agentstream_json_is(json, v, "error")) {
        *status = NGX_HTTP_AGENTSTREAM_ACP_FAILED;

    } else if (ngx_http_agentstream_json_is(json, v, "pending")) {
        *status = NGX_HTTP_AGENTSTREAM_ACP_PENDING;

    } else {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_http_agentstream_tr_call_t *
ngx_http_agentstream_translate_tool_find(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_str_t *id)
{
    return (ngx_http_agentstream_tr_call_t *)
               ngx_str_rbtree_lookup(&tr->calls, id,
                              ngx_http_agentstream_translate_tool_key(s, id));
}


/* the same id has a different key in each session, so that id and key identify
   a tool call */

static uint32_t
ngx_http_agentstream_translate_tool_key(ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id)
{
    return ngx_murmur_hash2(id->data, id->len) + s->number * 2654435761u;
}


ngx_http_agentstream_tr_call_t *
ngx_http_agentstream_translate_tool_named(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *id)
{
    ngx_str_node_t  *name;

    name = ngx_str_rbtree_lookup(&tr->names, id,
                                 ngx_murmur_hash2(id->data, id->len));

    return name ? (ngx_http_agentstream_tr_call_t *)
                      ((u_char *) name
                       - offsetof(ngx_http_agentstream_tr_call_t, name))
                : NULL;
}


ngx_http_agentstream_tr_call_t *
ngx_http_agentstream_translate_tool_create(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id)
{
    u_char                          *p;
    ngx_http_agentstream_tr_call_t  *call, *first, *older;

    call = ngx_http_agentstream_translate_alloc(tr,
                                      sizeof(ngx_http_agentstream_tr_call_t));
    if (call == NULL) {
        return NULL;
    }

    if (ngx_http_agentstream_translate_copy(tr, &call->id, id) != NGX_OK) {
        return NULL;
    }

    call->sn.str = call->id;
    call->ncalls = 1;

    first = ngx_http_agentstream_translate_tool_named(tr, &call->id);

    if (first) {
        p = ngx_http_agentstream_translate_alloc(tr,
                                                 id->len + 1 + NGX_INT_T_LEN);
        if (p == NULL) {
            return NULL;
        }

        call->id.data = p;

        do {
            p = ngx_sprintf(call->id.data, "%V#%ui", &call->sn.str,
                            ++first->ncalls);
            call->id.len = p - call->id.data;

        } while (ngx_http_agentstream_translate_tool_named(tr, &call->id));
    }

    older = ngx_http_agentstream_translate_tool_find(tr, s, &call->sn.str);

    if (older) {
        ngx_rbtree_delete(&tr->calls, &older->sn.node);
    }

    call->sn.node.key = ngx_http_agentstream_translate_tool_key(s,
                                                               &call->sn.str);
    call->name.str = call->id;
    call->name.node.key = ngx_murmur_hash2(call->id.data, call->id.len);
    call->session = s;
    call->number = ++tr->number;
    call->open = 1;

    ngx_queue_init(&call->asks);

    ngx_rbtree_insert(&tr->calls, &call->sn.node);
    ngx_rbtree_insert(&tr->names, &call->name.node);

    tr->state.nopen++;

    return call;
}


void
ngx_http_agentstream_translate_tool_close(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call)
{
    ngx_http_agentstream_translate_tool_drop(tr, call);

    if (call->open) {
        call->open = 0;
        tr->state.nopen--;

        ngx_http_agentstream_translate_ask_done(tr, call);
    }
}


static ngx_int_t
ngx_http_agentstream_translate_tool_start(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call,
    ngx_http_agentstream_acp_tool_t *tool)
{
    ngx_http_agentstream_acp_buf_t   *b;
    ngx_http_agentstream_acp_tool_t   start;

    if (ngx_http_agentstream_tr_mute(tr, call->session)) {
        tr->origin.len = 0;
        return NGX_OK;
    }

    start = *tool;
    start.id = call->id;
    start.status = NGX_HTTP_AGENTSTREAM_ACP_PENDING;
    ngx_str_set(&start.input, "{}");

    b = &tr->buf;

    ngx_http_agentstream_acp_tool_start(b, tr->timestamp, &start);

    if (tr->conf.core) {
        ngx_http_agentstream_acp_close(b, &tr->root.meta);

    } else {
        ngx_http_agentstream_acp_tool_close(b, &start.name,
                                            &call->session->fields);
    }

    return ngx_http_agentstream_translate_send(tr, call->number);
}


static ngx_int_t
ngx_http_agentstream_translate_tool_progress(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_call_t *call,
    ngx_http_agentstream_tr_state_t *st)
{
    uint32_t                         digest;
    ngx_int_t                        rc;
    ngx_uint_t                       repeated;
    ngx_http_agentstream_record_t    record;
    ngx_http_agentstream_acp_buf_t  *b;

    b = &tr->buf;

    ngx_http_agentstream_translate_tool_state_build(tr, call->session, st);

    if (ngx_http_agentstream_acp_end(b, &record) != NGX_OK) {
        return NGX_ERROR;
    }

    digest = ngx_http_agentstream_translate_tool_digest(&record);
    repeated = (st->tool.status == call->status);

    if (st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_IN_PROGRESS) {
        ngx_http_agentstream_tr_active(tr, call->session);
    }

    if (repeated && digest == call->digest && b->len == call->len) {
        ngx_http_agentstream_translate_tool_drop(tr, call);
        return NGX_OK;
    }

    if (call->len == 0 && st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_PENDING
        && st->tool.input.len == 2)
    {
        /* an empty object or array: the start contains the same */

        call->digest = digest;
        call->len = b->len;

        return NGX_OK;
    }

    if (repeated && tr->conf.tool_throttle
        && st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_IN_PROGRESS)
    {
        if (call->waits && digest == call->pending_digest
            && b->len == call->pending.len)
        {
            return NGX_OK;
        }

        call->earned += (st->output.len > call->output)
                        ? st->output.len - call->output
                        : NGX_HTTP_AGENTSTREAM_TR_CHANGED;
        call->output = st->output.len;

        if (ngx_http_agentstream_translate_tool_due(tr, call) != 0) {
            ngx_http_agentstream_translate_tool_wait(tr, call, digest);
            return NGX_OK;
        }

        call->spent += b->len;
    }

    ngx_http_agentstream_translate_tool_drop(tr, call);

    rc = NGX_OK;

    if (!ngx_http_agentstream_tr_mute(tr, call->session)) {
        rc = ngx_http_agentstream_translate_send(tr, call->number);
    }

    call->status = st->tool.status;
    call->output = st->output.len;
    call->time = tr->now;
    call->digest = digest;
    call->len = b->len;

    if (call->status >= NGX_HTTP_AGENTSTREAM_ACP_COMPLETED) {
        ngx_http_agentstream_translate_tool_close(tr, call);
    }

    return rc;
}


uint32_t
ngx_http_agentstream_translate_tool_digest(
    ngx_http_agentstream_record_t *record)
{
    size_t    head;
    uint32_t  digest;

    head = ngx_http_agentstream_acp_timestamp_offset(record->type)
           + NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN;

    digest = ngx_murmur_hash2(record->json.data + head,
                              record->json.len - head);

    if (record->nholes) {
        digest ^= ngx_murmur_hash2(record->text.data, record->text.len)
                  + record->holes[record->nholes - 1];
    }

    return digest;
}


/*
 * The repeated states of a tool call may take as many bytes as its output has
 * grown by, plus the credit and the last state.  With the whole output two or
 * three times in the terminal state, this is less than five times the output.
 */

static ngx_uint_t
ngx_http_agentstream_translate_tool_affords(
    ngx_http_agentstream_tr_call_t *call)
{
    return call->spent <= call->earned + NGX_HTTP_AGENTSTREAM_TR_CREDIT;
}


/* the time until a running state may be sent, if no other state arrives */

static ngx_msec_t
ngx_http_agentstream_translate_tool_due(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call)
{
    ngx_msec_t  passed;

    if (!ngx_http_agentstream_translate_tool_affords(call)) {
        return NGX_HTTP_AGENTSTREAM_TR_NEVER;
    }

    passed = tr->now - call->time;

    return (passed < tr->conf.tool_throttle) ? tr->conf.tool_throttle - passed
                                             : 0;
}


static void
ngx_http_agentstream_translate_tool_wait(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call, uint32_t digest)
{
    ngx_http_agentstream_acp_buf_t  b;

    if (tr->throttled - call->pending.size + tr->buf.size
        > NGX_HTTP_AGENTSTREAM_TR_PENDING)
    {
        /* the next state contains the same output */
        ngx_http_agentstream_translate_tool_drop(tr, call);
        return;
    }

    tr->throttled += tr->buf.size - call->pending.size;

    b = call->pending;
    call->pending = tr->buf;
    tr->buf = b;

    call->pending_digest = digest;

    if (!call->waits) {
        call->waits = 1;
        ngx_queue_insert_tail(&tr->pending, &call->queue);
    }

    if (!call->timed && ngx_http_agentstream_translate_tool_affords(call)) {
        call->timed = 1;
        call->due.key = call->time;
        ngx_rbtree_insert(&tr->due, &call->due);
    }
}


static void
ngx_http_agentstream_translate_tool_drop(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call)
{
    if (call->timed) {
        call->timed = 0;
        ngx_rbtree_delete(&tr->due, &call->due);
    }

    if (call->waits) {
        call->waits = 0;
        ngx_queue_remove(&call->queue);
        tr->throttled -= call->pending.size;
        ngx_http_agentstream_acp_destroy(&call->pending);
    }
}


static ngx_int_t
ngx_http_agentstream_translate_tool_send(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_call_t *call)
{
    u_char     *p;
    ngx_int_t   rc;

    /* it gets the time at which it is sent, not the one at which it was
       made */

    p = call->pending.start
        + ngx_http_agentstream_acp_timestamp_offset(call->pending.type);
    ngx_memcpy(p, tr->timestamp, NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN);

    call->time = tr->now;
    call->digest = call->pending_digest;
    call->len = call->pending.len;
    call->spent += call->pending.len;

    ngx_http_agentstream_acp_destroy(&tr->buf);

    tr->throttled -= call->pending.size;
    tr->buf = call->pending;
    ngx_memzero(&call->pending, sizeof(ngx_http_agentstream_acp_buf_t));

    ngx_http_agentstream_translate_tool_drop(tr, call);

    rc = NGX_OK;

    if (!ngx_http_agentstream_tr_mute(tr, call->session)) {
        rc = ngx_http_agentstream_translate_send(tr, call->number);
    }

    return rc;
}


ngx_int_t
ngx_http_agentstream_translate_tool_flush(ngx_http_agentstream_translate_t *tr,
    ngx_msec_t *next)
{
    ngx_rbtree_node_t               *node;
    ngx_http_agentstream_tr_call_t  *call;

    *next = NGX_HTTP_AGENTSTREAM_TR_NEVER;

    while (tr->due.root != &tr->sentinel) {

        node = ngx_rbtree_min(tr->due.root, &tr->sentinel);
        call = (ngx_http_agentstream_tr_call_t *)
                   ((u_char *) node
                    - offsetof(ngx_http_agentstream_tr_call_t, due));

        *next = ngx_http_agentstream_translate_tool_due(tr, call);

        if (*next != 0) {
            break;
        }

        *next = NGX_HTTP_AGENTSTREAM_TR_NEVER;

        if (ngx_http_agentstream_translate_tool_send(tr, call) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* handles a subagent whose creation was not seen, or happened in an earlier
   turn */

static ngx_int_t
ngx_http_agentstream_translate_tool_task(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_http_agentstream_tr_state_t *st)
{
    ngx_str_t   id;
    ngx_uint_t  metadata;

    if (tr->conf.history
        || st->tool.name.len != sizeof("task") - 1
        || ngx_strncmp(st->tool.name.data, "task", sizeof("task") - 1) != 0)
    {
        return NGX_OK;
    }

    metadata = ngx_http_agentstream_json_get(st->json, st->state, "metadata");
    id = ngx_http_agentstream_opencode_text(st->json, metadata, "sessionId");

    return ngx_http_agentstream_translate_session_child(tr, &id, &s->id);
}
