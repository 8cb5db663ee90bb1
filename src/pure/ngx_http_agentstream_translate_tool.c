
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
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_tool_t *tool,
    ngx_http_agentstream_acp_tool_t *acp);
static ngx_http_agentstream_tr_tool_t *ngx_http_agentstream_translate_tool_of(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_str_t *id, ngx_http_agentstream_acp_tool_t *acp);
static ngx_uint_t ngx_http_agentstream_translate_tool_throttled(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_tool_t *tool,
    ngx_http_agentstream_tr_state_t *st, uint32_t digest);
static ngx_int_t ngx_http_agentstream_translate_tool_progress(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_tool_t *tool,
    ngx_http_agentstream_tr_state_t *st);
static ngx_uint_t ngx_http_agentstream_translate_tool_affords(
    ngx_http_agentstream_tr_tool_t *tool);
static ngx_msec_t ngx_http_agentstream_translate_tool_due(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool);
static void ngx_http_agentstream_translate_tool_wait(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_tool_t *tool,
    uint32_t digest);
static void ngx_http_agentstream_translate_tool_drop(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool);
static ngx_int_t ngx_http_agentstream_translate_tool_send(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool);
static ngx_uint_t ngx_http_agentstream_translate_tool_is(
    ngx_http_agentstream_tr_state_t *st, const char *name);
static ngx_int_t ngx_http_agentstream_translate_tool_effects(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_tr_state_t *st);


ngx_int_t
ngx_http_agentstream_translate_tool_update(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_json_t *json, ngx_uint_t value)
{
    ngx_int_t                           rc;
    ngx_str_t                           id, title;
    ngx_uint_t                          v;
    ngx_http_agentstream_tr_tool_t     *tool;
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

        part->message->used_tools |= (rc == NGX_OK);
        part->message->rejected |= (rc == NGX_ABORT);
    }

    st.tool.title = st.tool.name;
    st.tool.kind = ngx_http_agentstream_translate_tool_state_kind(tr,
                                                             &st.tool.name);

    tool = ngx_http_agentstream_translate_tool_of(tr, part, &id, &st.tool);

    if (tool == NULL) {
        return NGX_ERROR;
    }

    if (!tool->open || st.tool.status < tool->status) {
        return NGX_OK;
    }

    st.tool.id = tool->id;

    v = ngx_http_agentstream_json_get(json, st.state, "title");
    title = ngx_http_agentstream_json_string(json, v);

    if (title.len) {
        st.tool.title = title;
    }

    if (ngx_http_agentstream_translate_tool_effects(tr, s, &st) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!ngx_queue_empty(&tool->asks)
        && st.tool.status >= NGX_HTTP_AGENTSTREAM_ACP_COMPLETED
        && ngx_http_agentstream_translate_ask_missed(tr, tool, &st) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_translate_tool_progress(tr, tool, &st);
}


/* the tool call that a part belongs to, which its first one begins; NULL: no
   memory */

static ngx_http_agentstream_tr_tool_t *
ngx_http_agentstream_translate_tool_of(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part, ngx_str_t *id,
    ngx_http_agentstream_acp_tool_t *acp)
{
    ngx_http_agentstream_tr_tool_t     *tool;
    ngx_http_agentstream_tr_session_t  *s;

    if (part->tool) {
        return part->tool;
    }

    s = part->message->session;

    tool = ngx_http_agentstream_translate_tool_find(tr, s, id);

    if (tool == NULL || !tool->open) {

        tool = ngx_http_agentstream_translate_tool_create(tr, s, id);
        if (tool == NULL) {
            return NULL;
        }

        ngx_http_agentstream_translate_mark(tr, &s->id, &part->message->sn.str,
                                            &part->sn.str, id);

        if (ngx_http_agentstream_translate_tool_start(tr, tool, acp)
            != NGX_OK)
        {
            return NULL;
        }
    }

    part->tool = tool;

    return tool;
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


ngx_http_agentstream_tr_tool_t *
ngx_http_agentstream_translate_tool_find(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_str_t *id)
{
    return (ngx_http_agentstream_tr_tool_t *)
               ngx_str_rbtree_lookup(&tr->tools, id,
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


ngx_http_agentstream_tr_tool_t *
ngx_http_agentstream_translate_tool_named(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *id)
{
    ngx_str_node_t  *name;

    name = ngx_str_rbtree_lookup(&tr->names, id,
                                 ngx_murmur_hash2(id->data, id->len));

    return name ? (ngx_http_agentstream_tr_tool_t *)
                      ((u_char *) name
                       - offsetof(ngx_http_agentstream_tr_tool_t, name))
                : NULL;
}


ngx_http_agentstream_tr_tool_t *
ngx_http_agentstream_translate_tool_create(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_str_t *id)
{
    u_char                          *p;
    ngx_http_agentstream_tr_tool_t  *tool, *first, *older;

    tool = ngx_http_agentstream_translate_alloc(tr,
                                      sizeof(ngx_http_agentstream_tr_tool_t));
    if (tool == NULL) {
        return NULL;
    }

    if (ngx_http_agentstream_translate_copy(tr, &tool->id, id) != NGX_OK) {
        return NULL;
    }

    tool->sn.str = tool->id;
    tool->nsame = 1;

    first = ngx_http_agentstream_translate_tool_named(tr, &tool->id);

    if (first) {
        p = ngx_http_agentstream_translate_alloc(tr,
                                                 id->len + 1 + NGX_INT_T_LEN);
        if (p == NULL) {
            return NULL;
        }

        tool->id.data = p;

        do {
            p = ngx_sprintf(tool->id.data, "%V#%ui", &tool->sn.str,
                            ++first->nsame);
            tool->id.len = p - tool->id.data;

        } while (ngx_http_agentstream_translate_tool_named(tr, &tool->id));
    }

    older = ngx_http_agentstream_translate_tool_find(tr, s, &tool->sn.str);

    if (older) {
        ngx_rbtree_delete(&tr->tools, &older->sn.node);
    }

    tool->sn.node.key = ngx_http_agentstream_translate_tool_key(s,
                                                               &tool->sn.str);
    tool->name.str = tool->id;
    tool->name.node.key = ngx_murmur_hash2(tool->id.data, tool->id.len);
    tool->session = s;
    tool->number = ++tr->number;
    tool->open = 1;

    ngx_queue_init(&tool->asks);

    ngx_rbtree_insert(&tr->tools, &tool->sn.node);
    ngx_rbtree_insert(&tr->names, &tool->name.node);

    tr->state.nopen++;

    return tool;
}


void
ngx_http_agentstream_translate_tool_close(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool)
{
    ngx_http_agentstream_translate_tool_drop(tr, tool);

    if (tool->open) {
        tool->open = 0;
        tr->state.nopen--;

        ngx_http_agentstream_translate_ask_done(tr, tool);
    }
}


static ngx_int_t
ngx_http_agentstream_translate_tool_start(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool,
    ngx_http_agentstream_acp_tool_t *acp)
{
    ngx_http_agentstream_acp_buf_t   *b;
    ngx_http_agentstream_acp_tool_t   start;

    if (ngx_http_agentstream_tr_mute(tr, tool->session)) {
        tr->origin.len = 0;
        return NGX_OK;
    }

    start = *acp;
    start.id = tool->id;
    start.status = NGX_HTTP_AGENTSTREAM_ACP_PENDING;
    ngx_str_set(&start.input, "{}");

    b = &tr->work->buf;

    ngx_http_agentstream_acp_tool_start(b, tr->timestamp, &start);

    if (tr->conf.core) {
        ngx_http_agentstream_acp_close(b, &tr->root.meta);

    } else {
        ngx_http_agentstream_acp_tool_close(b, &start.name,
                                            &tool->session->fields);
    }

    return ngx_http_agentstream_translate_send(tr, tool->number);
}


static ngx_int_t
ngx_http_agentstream_translate_tool_progress(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_tool_t *tool,
    ngx_http_agentstream_tr_state_t *st)
{
    uint32_t                         digest;
    ngx_int_t                        rc;
    ngx_uint_t                       repeated;
    ngx_http_agentstream_record_t    record;
    ngx_http_agentstream_acp_buf_t  *b;

    b = &tr->work->buf;

    ngx_http_agentstream_translate_tool_state_build(tr, tool->session, st);

    if (ngx_http_agentstream_acp_end(b, &record) != NGX_OK) {
        return NGX_ERROR;
    }

    digest = ngx_http_agentstream_translate_tool_digest(&record);
    repeated = (st->tool.status == tool->status);

    if (st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_IN_PROGRESS) {
        ngx_http_agentstream_tr_active(tr, tool->session);
    }

    if (repeated && digest == tool->digest && b->len == tool->len) {
        ngx_http_agentstream_translate_tool_drop(tr, tool);
        return NGX_OK;
    }

    if (tool->len == 0 && st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_PENDING
        && st->tool.input.len == 2)
    {
        /* an empty object or array: the start contains the same */

        tool->digest = digest;
        tool->len = b->len;

        return NGX_OK;
    }

    if (repeated && tr->conf.tool_throttle
        && st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_IN_PROGRESS
        && ngx_http_agentstream_translate_tool_throttled(tr, tool, st, digest))
    {
        return NGX_OK;
    }

    ngx_http_agentstream_translate_tool_drop(tr, tool);

    tool->status = st->tool.status;
    tool->output = st->output.len;
    tool->time = tr->now;
    tool->digest = digest;
    tool->len = b->len;

    rc = NGX_OK;

    if (!ngx_http_agentstream_tr_mute(tr, tool->session)) {
        rc = ngx_http_agentstream_translate_send(tr, tool->number);
    }

    if (tool->status >= NGX_HTTP_AGENTSTREAM_ACP_COMPLETED) {
        ngx_http_agentstream_translate_tool_close(tr, tool);
    }

    return rc;
}


/* a state of a running tool that has to wait: a newer one replaces it */

static ngx_uint_t
ngx_http_agentstream_translate_tool_throttled(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_tool_t *tool,
    ngx_http_agentstream_tr_state_t *st, uint32_t digest)
{
    ngx_http_agentstream_acp_buf_t  *b;

    b = &tr->work->buf;

    if (tool->waits && digest == tool->pending_digest
        && b->len == tool->pending.len)
    {
        return 1;
    }

    tool->earned += (st->output.len > tool->output)
                    ? st->output.len - tool->output
                    : NGX_HTTP_AGENTSTREAM_TR_CHANGED;
    tool->output = st->output.len;

    if (ngx_http_agentstream_translate_tool_due(tr, tool) != 0) {
        ngx_http_agentstream_translate_tool_wait(tr, tool, digest);
        return 1;
    }

    tool->spent += b->len;

    return 0;
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
    ngx_http_agentstream_tr_tool_t *tool)
{
    return tool->spent <= tool->earned + NGX_HTTP_AGENTSTREAM_TR_CREDIT;
}


/* the time until a running state may be sent, if no other state arrives */

static ngx_msec_t
ngx_http_agentstream_translate_tool_due(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool)
{
    ngx_msec_t  passed;

    if (!ngx_http_agentstream_translate_tool_affords(tool)) {
        return NGX_HTTP_AGENTSTREAM_TR_NEVER;
    }

    passed = tr->now - tool->time;

    return (passed < tr->conf.tool_throttle) ? tr->conf.tool_throttle - passed
                                             : 0;
}


static void
ngx_http_agentstream_translate_tool_wait(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool, uint32_t digest)
{
    ngx_http_agentstream_acp_buf_t  b;

    ngx_http_agentstream_acp_fit(&tr->work->buf);

    if (tr->throttled - tool->pending.size + tr->work->buf.size
        > NGX_HTTP_AGENTSTREAM_TR_PENDING)
    {
        /* the next state contains the same output */
        ngx_http_agentstream_translate_tool_drop(tr, tool);
        return;
    }

    tr->throttled += tr->work->buf.size - tool->pending.size;

    b = tool->pending;
    tool->pending = tr->work->buf;
    tr->work->buf = b;

    tool->pending_digest = digest;

    if (!tool->waits) {
        tool->waits = 1;
        ngx_queue_insert_tail(&tr->pending, &tool->queue);
    }

    if (!tool->timed && ngx_http_agentstream_translate_tool_affords(tool)) {
        tool->timed = 1;
        tool->due.key = tool->time;
        ngx_rbtree_insert(&tr->due, &tool->due);
    }
}


static void
ngx_http_agentstream_translate_tool_drop(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool)
{
    if (tool->timed) {
        tool->timed = 0;
        ngx_rbtree_delete(&tr->due, &tool->due);
    }

    if (tool->waits) {
        tool->waits = 0;
        ngx_queue_remove(&tool->queue);
        tr->throttled -= tool->pending.size;
        ngx_http_agentstream_acp_destroy(&tool->pending);
    }
}


static ngx_int_t
ngx_http_agentstream_translate_tool_send(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_tool_t *tool)
{
    u_char     *p;
    ngx_int_t   rc;

    /* it gets the time at which it is sent, not the one at which it was
       made */

    p = tool->pending.start
        + ngx_http_agentstream_acp_timestamp_offset(tool->pending.type);
    ngx_memcpy(p, tr->timestamp, NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN);

    tool->time = tr->now;
    tool->digest = tool->pending_digest;
    tool->len = tool->pending.len;
    tool->spent += tool->pending.len;

    ngx_http_agentstream_acp_destroy(&tr->work->buf);

    tr->throttled -= tool->pending.size;
    tr->work->buf = tool->pending;
    ngx_memzero(&tool->pending, sizeof(ngx_http_agentstream_acp_buf_t));

    ngx_http_agentstream_translate_tool_drop(tr, tool);

    rc = NGX_OK;

    if (!ngx_http_agentstream_tr_mute(tr, tool->session)) {
        rc = ngx_http_agentstream_translate_send(tr, tool->number);
    }

    return rc;
}


ngx_int_t
ngx_http_agentstream_translate_tool_flush(ngx_http_agentstream_translate_t *tr,
    ngx_msec_t *next)
{
    ngx_rbtree_node_t               *node;
    ngx_http_agentstream_tr_tool_t  *tool;

    *next = NGX_HTTP_AGENTSTREAM_TR_NEVER;

    while (tr->due.root != &tr->sentinel) {

        node = ngx_rbtree_min(tr->due.root, &tr->sentinel);
        tool = (ngx_http_agentstream_tr_tool_t *)
                   ((u_char *) node
                    - offsetof(ngx_http_agentstream_tr_tool_t, due));

        *next = ngx_http_agentstream_translate_tool_due(tr, tool);

        if (*next != 0) {
            break;
        }

        *next = NGX_HTTP_AGENTSTREAM_TR_NEVER;

        if (ngx_http_agentstream_translate_tool_send(tr, tool) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_agentstream_translate_tool_is(ngx_http_agentstream_tr_state_t *st,
    const char *name)
{
    return st->tool.name.len == ngx_strlen(name)
           && ngx_strncmp(st->tool.name.data, name, st->tool.name.len) == 0;
}


/*
 * What else is known from a tool call: a subagent whose creation was not seen,
 * or happened in an earlier turn; and, where there are no events, the plan that
 * the call has written.
 */

static ngx_int_t
ngx_http_agentstream_translate_tool_effects(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_tr_state_t *st)
{
    ngx_str_t   id;
    ngx_uint_t  v;

    if (tr->conf.stored
        && st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_COMPLETED
        && ngx_http_agentstream_translate_tool_is(st, "todowrite"))
    {
        v = ngx_http_agentstream_json_get(st->json, st->input, "todos");

        return ngx_http_agentstream_translate_ask_plan(tr, s, st->json, v);
    }

    if (tr->conf.history
        || !ngx_http_agentstream_translate_tool_is(st, "task"))
    {
        return NGX_OK;
    }

    v = ngx_http_agentstream_json_get(st->json, st->state, "metadata");
    id = ngx_http_agentstream_opencode_text(st->json, v, "sessionId");

    return ngx_http_agentstream_translate_session_child(tr, &id, &s->id);
}
