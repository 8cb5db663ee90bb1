
/*
 * Copyright (C) agentstream contributors
 *
 * The translator's interface: the functions that its owner calls, and the
 * decision which event is handled where.  Nothing that OpenCode sends is
 * trusted: a member that is absent or of another type than expected is treated
 * as absent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


static ngx_int_t ngx_http_agentstream_translate_announce(
    ngx_http_agentstream_translate_t *tr, ngx_uint_t type, const char *name,
    ngx_str_t *value);
static ngx_int_t ngx_http_agentstream_translate_handle(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_event_t *ev);
static ngx_int_t ngx_http_agentstream_translate_other(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_event_t *ev);
static ngx_int_t ngx_http_agentstream_translate_removed(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_event_t *ev);
static ngx_int_t ngx_http_agentstream_translate_vanished(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_message_t *m);
static ngx_int_t ngx_http_agentstream_translate_stored(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t message, ngx_uint_t listed);


ngx_http_agentstream_translate_t *
ngx_http_agentstream_translate_create(ngx_pool_t *pool,
    ngx_http_agentstream_translate_conf_t *conf,
    ngx_http_agentstream_translate_sink_t *sink, void *ctx, ngx_str_t *session,
    ngx_str_t *turn)
{
    ngx_http_agentstream_translate_t  *tr;

    tr = ngx_pcalloc(pool, sizeof(ngx_http_agentstream_translate_t));
    if (tr == NULL) {
        return NULL;
    }

    tr->work = conf->work;

    if (tr->work == NULL) {
        tr->work = ngx_pcalloc(pool,
                               sizeof(ngx_http_agentstream_translate_work_t));
        if (tr->work == NULL) {
            return NULL;
        }
    }

    tr->pool = pool;
    tr->conf = *conf;
    tr->sink = sink;
    tr->ctx = ctx;
    tr->turn = *turn;

    tr->root.id = *session;
    tr->root.root = 1;
    ngx_str_set(&tr->root.meta, "null");
    tr->session = &tr->root;

    ngx_rbtree_init(&tr->sessions, &tr->sentinel, ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&tr->messages, &tr->sentinel, ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&tr->parts, &tr->sentinel, ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&tr->tools, &tr->sentinel, ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&tr->names, &tr->sentinel, ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&tr->asks, &tr->sentinel, ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&tr->due, &tr->sentinel, ngx_rbtree_insert_timer_value);

    ngx_queue_init(&tr->strangers);
    ngx_queue_init(&tr->kept);
    ngx_queue_init(&tr->unknown);
    ngx_queue_init(&tr->answers);
    ngx_queue_init(&tr->open);
    ngx_queue_init(&tr->pending);
    ngx_queue_init(&tr->holding);
    ngx_queue_init(&tr->waiting);

    return tr;
}


void
ngx_http_agentstream_translate_destroy(ngx_http_agentstream_translate_t *tr)
{
    ngx_queue_t                     *q;
    ngx_http_agentstream_tr_tool_t  *tool;

    ngx_http_agentstream_translate_hold_forget(tr, NULL);

    for (q = ngx_queue_head(&tr->pending);
         q != ngx_queue_sentinel(&tr->pending);
         q = ngx_queue_next(q))
    {
        tool = ngx_queue_data(q, ngx_http_agentstream_tr_tool_t, queue);
        ngx_http_agentstream_acp_destroy(&tool->pending);
    }

    ngx_queue_init(&tr->pending);

    ngx_http_agentstream_translate_free(tr);

    ngx_http_agentstream_acp_destroy(&tr->error);
    ngx_http_agentstream_json_destroy(&tr->json);

    if (tr->conf.work == NULL) {
        ngx_http_agentstream_translate_work_free(tr->work);
    }
}


void
ngx_http_agentstream_translate_time(ngx_http_agentstream_translate_t *tr,
    u_char *timestamp, ngx_msec_t now)
{
    tr->timestamp = timestamp;
    tr->now = now;
}


ngx_http_agentstream_translate_state_t *
ngx_http_agentstream_translate_state(ngx_http_agentstream_translate_t *tr)
{
    return &tr->state;
}


ngx_uint_t
ngx_http_agentstream_translate_settled(ngx_http_agentstream_translate_t *tr)
{
    ngx_http_agentstream_tr_message_t  *m;

    m = tr->root.last;

    if (tr->state.nopen || tr->state.nheld) {
        return 0;
    }

    if (tr->state.passed) {
        return m == NULL || m->completed;
    }

    return tr->state.user_seen
           && m && m->completed
           && (m->failed || m->finish > NGX_HTTP_AGENTSTREAM_TR_GOES_ON);
}


ngx_uint_t
ngx_http_agentstream_translate_abandoned(ngx_http_agentstream_translate_t *tr)
{
    ngx_http_agentstream_tr_message_t  *m;

    m = tr->root.last;

    if (m == NULL || m->failed || tr->state.idle || tr->state.error) {
        return 0;
    }

    if (m->finish == NGX_HTTP_AGENTSTREAM_TR_NONE) {
        return !m->completed;
    }

    /* After a step with tool calls the model is asked again, whatever some
       providers call the end of that step, but not after a tool call that was
       rejected.  The next step may be part of the answer to another prompt. */

    return (m->finish == NGX_HTTP_AGENTSTREAM_TR_GOES_ON || m->used_tools)
           && !m->rejected && !m->summary && !tr->state.passed;
}


ngx_int_t
ngx_http_agentstream_translate_start(ngx_http_agentstream_translate_t *tr)
{
    if (tr->state.started) {
        return NGX_OK;
    }

    tr->state.started = 1;

    if (tr->conf.core) {
        return NGX_OK;
    }

    return ngx_http_agentstream_translate_announce(tr,
                                     NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED,
                                     ",\"messageId\":", &tr->turn);
}


ngx_int_t
ngx_http_agentstream_translate_reset(ngx_http_agentstream_translate_t *tr,
    const char *reason)
{
    ngx_str_t  text;

    text.data = (u_char *) reason;
    text.len = ngx_strlen(reason);

    return ngx_http_agentstream_translate_announce(tr,
                                     NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET,
                                     ",\"reason\":", &text);
}


void
ngx_http_agentstream_translate_reset_first(
    ngx_http_agentstream_translate_t *tr, const char *reason)
{
    tr->reset = reason;
}


static ngx_int_t
ngx_http_agentstream_translate_announce(ngx_http_agentstream_translate_t *tr,
    ngx_uint_t type, const char *name, ngx_str_t *value)
{
    u_char                          *p;
    ngx_int_t                        rc;
    ngx_http_agentstream_record_t    record;
    ngx_http_agentstream_acp_buf_t   b;

    if (tr->finished) {
        return NGX_OK;
    }

    /* not in tr->work->buf, which may hold another packet that must follow this
       one */

    ngx_memzero(&b, sizeof(ngx_http_agentstream_acp_buf_t));
    ngx_memzero(&record, sizeof(ngx_http_agentstream_record_t));

    ngx_http_agentstream_acp_open(&b, type, tr->timestamp);
    ngx_http_agentstream_acp_member_text(&b, ",\"turnId\":", &tr->turn);
    ngx_http_agentstream_acp_member_text(&b, ",\"sessionId\":", &tr->root.id);
    ngx_http_agentstream_acp_member_text(&b, name, value);
    ngx_http_agentstream_acp_close(&b, &tr->root.meta);

    rc = NGX_ERROR;

    if (ngx_http_agentstream_acp_end(&b, &record) == NGX_OK) {
        p = tr->sink->reserve(tr->ctx, b.len);

        if (p) {
            ngx_memcpy(p, b.start, b.len);
            record.json.data = p;
            rc = tr->sink->commit(tr->ctx, &record) ? NGX_OK : NGX_ERROR;
        }
    }

    ngx_http_agentstream_acp_destroy(&b);

    return rc;
}


ngx_int_t
ngx_http_agentstream_translate_event(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_event_t *ev)
{
    ngx_int_t  rc;

    rc = ngx_http_agentstream_translate_handle(tr, ev);

    if (tr->crowded && rc == NGX_OK) {
        return ngx_http_agentstream_translate_forget(tr);
    }

    return rc;
}


static ngx_int_t
ngx_http_agentstream_translate_handle(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_event_t *ev)
{
    ngx_uint_t                          v;
    ngx_http_agentstream_json_t        *json;
    ngx_http_agentstream_tr_session_t  *s;

    if (tr->finished) {
        return NGX_OK;
    }

    if (ev->type == NGX_HTTP_AGENTSTREAM_EVENT_CREATED) {
        return ngx_http_agentstream_translate_session_child(tr, &ev->session,
                                                            &ev->parent);
    }

    s = ngx_http_agentstream_translate_session_find(tr, &ev->session);

    if (s == NULL) {
        return NGX_OK;
    }

    if (ev->type == NGX_HTTP_AGENTSTREAM_EVENT_DELTA) {
        return ngx_http_agentstream_translate_text_delta(tr, s, ev);
    }

    if (ev->properties == 0) {
        return NGX_OK;
    }

    json = ev->json;

    switch (ev->type) {

    case NGX_HTTP_AGENTSTREAM_EVENT_PART:
        v = ngx_http_agentstream_json_get(json, ev->properties, "part");
        return ngx_http_agentstream_translate_part_update(tr, s, json, v, 0);

    case NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE:
        v = ngx_http_agentstream_json_get(json, ev->properties, "info");
        return ngx_http_agentstream_translate_message_info(tr, s, json, v, 0,
                                                           0);

    case NGX_HTTP_AGENTSTREAM_EVENT_PART_REMOVED:
    case NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE_REMOVED:
        return ngx_http_agentstream_translate_removed(tr, s, ev);

    case NGX_HTTP_AGENTSTREAM_EVENT_DELETED:
        if (s->root) {
            tr->state.deleted = 1;
        }

        return NGX_OK;

    default:
        break;
    }

    /* while OpenCode answers another prompt, events of the session are about
       that one */

    if (s->root && tr->state.passed) {
        return NGX_OK;
    }

    switch (ev->type) {

    case NGX_HTTP_AGENTSTREAM_EVENT_STATUS:
        v = ngx_http_agentstream_json_get(json, ev->properties, "status");
        return ngx_http_agentstream_translate_session_status(tr, s, json, v);

    case NGX_HTTP_AGENTSTREAM_EVENT_IDLE:
        ngx_http_agentstream_translate_session_idle(tr, s);
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_EVENT_ERROR:
        if (!s->root) {
            return NGX_OK;
        }

        tr->state.error = 1;

        v = ngx_http_agentstream_json_get(json, ev->properties, "error");
        return ngx_http_agentstream_translate_session_error(tr, json, v);

    default:
        break;
    }

    /* until our message was seen, everything else belongs to an earlier
       turn */

    if (!tr->state.user_seen) {
        return NGX_OK;
    }

    return ngx_http_agentstream_translate_other(tr, s, ev);
}


static ngx_int_t
ngx_http_agentstream_translate_other(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_http_agentstream_event_t *ev)
{
    ngx_uint_t                    v;
    ngx_http_agentstream_json_t  *json;

    json = ev->json;
    v = ev->properties;

    switch (ev->type) {

    case NGX_HTTP_AGENTSTREAM_EVENT_TODO:
        v = ngx_http_agentstream_json_get(json, v, "todos");
        return ngx_http_agentstream_translate_ask_plan(tr, s, json, v);

    case NGX_HTTP_AGENTSTREAM_EVENT_COMPACTED:
        return ngx_http_agentstream_translate_session_compacted(tr, s);

    case NGX_HTTP_AGENTSTREAM_EVENT_QUESTION:
        return ngx_http_agentstream_translate_ask_add(tr, s, json, v, 0);

    case NGX_HTTP_AGENTSTREAM_EVENT_QUESTION_REPLIED:
        return ngx_http_agentstream_translate_ask_answer(tr, s, json, v, 0, 0);

    case NGX_HTTP_AGENTSTREAM_EVENT_QUESTION_REJECTED:
        return ngx_http_agentstream_translate_ask_answer(tr, s, json, v, 0, 1);

    case NGX_HTTP_AGENTSTREAM_EVENT_PERMISSION:
        return ngx_http_agentstream_translate_ask_add(tr, s, json, v, 1);

    case NGX_HTTP_AGENTSTREAM_EVENT_PERMISSION_REPLIED:
        return ngx_http_agentstream_translate_ask_answer(tr, s, json, v, 1, 0);

    default:
        return NGX_OK;
    }
}


static ngx_int_t
ngx_http_agentstream_translate_removed(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_http_agentstream_event_t *ev)
{
    ngx_str_t                        id;
    ngx_http_agentstream_tr_part_t  *part;

    if (ev->type == NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE_REMOVED) {
        id = ngx_http_agentstream_opencode_text(ev->json, ev->properties,
                                                "messageID");

        return ngx_http_agentstream_translate_message_remove(tr, s, &id);
    }

    id = ngx_http_agentstream_opencode_text(ev->json, ev->properties,
                                            "partID");

    part = ngx_http_agentstream_translate_part_find(tr, &id);

    if (part == NULL || part->message->session != s) {
        return NGX_OK;
    }

    return ngx_http_agentstream_translate_part_remove(tr, part);
}


void
ngx_http_agentstream_translate_gap(ngx_http_agentstream_translate_t *tr)
{
    ngx_queue_t                     *q;
    ngx_http_agentstream_tr_part_t  *part;

    tr->gap = 1;

    /* each part only once, however many gaps there are */

    while (!ngx_queue_empty(&tr->open)) {
        q = ngx_queue_head(&tr->open);

        ngx_queue_remove(q);
        ngx_queue_init(q);

        part = ngx_queue_data(q, ngx_http_agentstream_tr_part_t, openq);
        part->gap = 1;
        part->nhalf = 0;
    }

    /* held events cannot be trusted either, because what is missing may be in
       the middle of them */

    ngx_http_agentstream_translate_hold_forget(tr, NULL);
}


ngx_int_t
ngx_http_agentstream_translate_listed(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *session, ngx_http_agentstream_json_t *json, ngx_uint_t message,
    ngx_http_agentstream_translate_list_t *list)
{
    ngx_int_t                           rc;
    ngx_str_t                           id;
    ngx_uint_t                          info;
    ngx_http_agentstream_tr_message_t  *m;
    ngx_http_agentstream_tr_session_t  *s;

    list->member = 0;

    s = ngx_http_agentstream_translate_session_find(tr, session);

    if (s == NULL) {
        return NGX_OK;
    }

    if (s->root && !list->begun) {
        /* the list is more reliable than events, some of which were lost */
        tr->state.passed = 0;
        tr->again = 0;
    }

    list->begun = 1;

    info = ngx_http_agentstream_json_get(json, message, "info");
    id = ngx_http_agentstream_opencode_text(json, info, "id");

    if (s->root && ngx_http_agentstream_tr_eq(&id, &tr->turn)) {
        list->ours = 1;
    }

    rc = ngx_http_agentstream_translate_stored(tr, s, json, message,
                                               list->ours);

    m = ngx_http_agentstream_translate_message_find(tr, &id);
    list->member = (s->root && m && m->ours);

    return rc;
}


ngx_int_t
ngx_http_agentstream_translate_message(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *session, ngx_http_agentstream_json_t *json, ngx_uint_t message)
{
    ngx_http_agentstream_tr_session_t  *s;

    s = ngx_http_agentstream_translate_session_find(tr, session);

    if (s == NULL) {
        return NGX_OK;
    }

    return ngx_http_agentstream_translate_stored(tr, s, json, message, 0);
}


static ngx_int_t
ngx_http_agentstream_translate_stored(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_http_agentstream_json_t *json,
    ngx_uint_t message, ngx_uint_t listed)
{
    ngx_str_t                           id, of;
    ngx_uint_t                          v, info, parts;
    ngx_http_agentstream_tr_message_t  *m;

    if (tr->finished
        || ngx_http_agentstream_json_type(json, message)
           != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return NGX_OK;
    }

    info = ngx_http_agentstream_json_get(json, message, "info");
    parts = ngx_http_agentstream_json_get(json, message, "parts");

    id = ngx_http_agentstream_opencode_text(json, info, "id");

    if (id.len == 0
        || ngx_http_agentstream_json_type(json, parts)
           != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
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

    v = ngx_http_agentstream_json_get(json, info, "time");
    v = ngx_http_agentstream_json_get(json, v, "completed");

    if (m->completed && v == 0) {
        /* the answer was asked for before these events and arrived after them,
           so it may be older */
        return NGX_OK;
    }

    if (ngx_http_agentstream_translate_message_info(tr, s, json, info, 1,
                                                    listed)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    if (!m->known) {
        /* neither the user's message nor an answer, or an answer to an unknown
           message */
        return NGX_OK;
    }

    tr->mark++;

    for (v = ngx_http_agentstream_json_first(json, parts);
         v;
         v = ngx_http_agentstream_json_next(json, parts, v))
    {
        of = ngx_http_agentstream_opencode_text(json, v, "messageID");

        if (ngx_http_agentstream_tr_eq(&of, &id)
            && ngx_http_agentstream_translate_part_update(tr, s, json, v, 1)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return m->completed ? ngx_http_agentstream_translate_vanished(tr, m)
                        : NGX_OK;
}


/* parts that a completed message does not contain were removed */

static ngx_int_t
ngx_http_agentstream_translate_vanished(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m)
{
    ngx_queue_t                     *q;
    ngx_http_agentstream_tr_part_t  *part;

    for (q = ngx_queue_head(&m->parts);
         q != ngx_queue_sentinel(&m->parts);
         q = ngx_queue_next(q))
    {
        part = ngx_queue_data(q, ngx_http_agentstream_tr_part_t, queue);

        if (part->mark != tr->mark
            && ngx_http_agentstream_translate_part_remove(tr, part) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_translate_flush(ngx_http_agentstream_translate_t *tr,
    ngx_msec_t *next)
{
    return ngx_http_agentstream_translate_tool_flush(tr, next);
}


ngx_int_t
ngx_http_agentstream_translate_finish(ngx_http_agentstream_translate_t *tr,
    ngx_uint_t cancelled)
{
    if (tr->finished) {
        return NGX_OK;
    }

    if (ngx_http_agentstream_translate_session_end(tr, cancelled) != NGX_OK) {
        return NGX_ERROR;
    }

    tr->finished = 1;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_translate_fail(ngx_http_agentstream_translate_t *tr,
    ngx_uint_t code, const char *message, ngx_str_t *details)
{
    u_char                         *p;
    ngx_str_t                       text;
    ngx_http_agentstream_record_t   record;

    if (tr->finished) {
        return NGX_OK;
    }

    text.data = (u_char *) message;
    text.len = ngx_strlen(message);

    ngx_memzero(&record, sizeof(ngx_http_agentstream_record_t));

    record.type = NGX_HTTP_AGENTSTREAM_RECORD_ERROR;

    p = ngx_http_agentstream_translate_reserve(tr, &record,
                          ngx_http_agentstream_acp_error_size(&text, details));
    if (p == NULL) {
        return NGX_ERROR;
    }

    record.json.data = p;
    p = ngx_http_agentstream_acp_error(p, tr->timestamp, &text, code, details);
    record.json.len = p - record.json.data;

    if (tr->sink->commit(tr->ctx, &record) == 0) {
        return NGX_ERROR;
    }

    ngx_str_set(&tr->state.stop_reason, "error");
    tr->finished = 1;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_translate_send(ngx_http_agentstream_translate_t *tr,
    ngx_uint_t part)
{
    u_char                          *p;
    uint64_t                         seq;
    ngx_http_agentstream_record_t    record;
    ngx_http_agentstream_acp_buf_t  *b;

    b = &tr->work->buf;
    p = NULL;
    seq = 0;

    if (ngx_http_agentstream_acp_end(b, &record) == NGX_OK) {
        record.part = part;
        p = ngx_http_agentstream_translate_reserve(tr, &record, b->len);
    }

    if (p) {
        ngx_memcpy(p, b->start, b->len);

        record.json.data = p;
        record.text.data = p + record.json.len;

        seq = tr->sink->commit(tr->ctx, &record);
    }

    tr->origin.len = 0;

    /* the joined text may still be needed: this packet can be one that has to
       be sent before it */

    if (b->size > NGX_HTTP_AGENTSTREAM_TR_WORK_MAX) {
        ngx_http_agentstream_acp_destroy(b);
    }

    return seq ? NGX_OK : NGX_ERROR;
}


u_char *
ngx_http_agentstream_translate_reserve(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_record_t *record, size_t size)
{
    const char  *reason;

    if (tr->reset) {
        reason = tr->reset;
        tr->reset = NULL;

        if (ngx_http_agentstream_translate_reset(tr, reason) != NGX_OK
            || ngx_http_agentstream_translate_start(tr) != NGX_OK)
        {
            return NULL;
        }
    }

    if (tr->conf.announce && !tr->state.started
        && !ngx_http_agentstream_record_terminal(record->type)
        && ngx_http_agentstream_translate_start(tr) != NGX_OK)
    {
        return NULL;
    }

    record->origin = tr->origin;

    return tr->sink->reserve(tr->ctx,
                             size + ngx_http_agentstream_record_extra(record));
}


void
ngx_http_agentstream_translate_mark(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *session, ngx_str_t *message, ngx_str_t *part, ngx_str_t *tool)
{
    u_char  *p;

    static ngx_str_t  none = ngx_null_string;

    p = ngx_slprintf(tr->work->mark, tr->work->mark + sizeof(tr->work->mark),
                     "%V %V %V %V", session, message, part ? part : &none,
                     tool ? tool : &none);

    /* an origin that is cut off would name something else */

    tr->origin.data = tr->work->mark;
    tr->origin.len = (p == tr->work->mark + sizeof(tr->work->mark))
                     ? 0 : p - tr->work->mark;
}
