
/*
 * Copyright (C) agentstream contributors
 *
 * The parts of messages, from their first appearance to their final state:
 * what kind a part is, and which file handles it.  Events and stored messages
 * go through the same functions.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


static ngx_uint_t ngx_http_agentstream_translate_part_kind(
    ngx_http_agentstream_json_t *json, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_translate_part_state(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_json_t *json, ngx_uint_t value, ngx_uint_t rest);
static ngx_int_t ngx_http_agentstream_translate_part_text(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_json_t *json, ngx_uint_t value, ngx_uint_t rest);


ngx_http_agentstream_tr_part_t *
ngx_http_agentstream_translate_part_find(ngx_http_agentstream_translate_t *tr,
    ngx_str_t *id)
{
    uint32_t                         hash;
    ngx_http_agentstream_tr_part_t  *part;

    part = tr->part;

    if (part && ngx_http_agentstream_tr_eq(&part->sn.str, id)) {
        return part;
    }

    hash = ngx_murmur_hash2(id->data, id->len);

    part = (ngx_http_agentstream_tr_part_t *)
               ngx_str_rbtree_lookup(&tr->parts, id, hash);

    if (part) {
        tr->part = part;
    }

    return part;
}


ngx_http_agentstream_tr_part_t *
ngx_http_agentstream_translate_part_get(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_message_t *m, ngx_str_t *id)
{
    ngx_http_agentstream_tr_part_t  *part;

    part = ngx_http_agentstream_translate_part_find(tr, id);
    if (part) {
        return part;
    }

    part = (ngx_http_agentstream_tr_part_t *)
               ngx_http_agentstream_translate_node(tr,
                                       sizeof(ngx_http_agentstream_tr_part_t),
                                       id);
    if (part == NULL) {
        return NULL;
    }

    part->message = m;
    part->stranger = 1;

    ngx_http_agentstream_json_hash_init(&part->sent);

    ngx_rbtree_insert(&tr->parts, &part->sn.node);
    ngx_queue_insert_tail(&m->parts, &part->queue);
    ngx_queue_insert_tail(&tr->unknown, &part->openq);

    return part;
}


ngx_int_t
ngx_http_agentstream_translate_part_update(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_json_t *json, ngx_uint_t value, ngx_uint_t rest)
{
    ngx_str_t                           id, raw, message;
    ngx_http_agentstream_tr_part_t     *part;
    ngx_http_agentstream_tr_message_t  *m;

    id = ngx_http_agentstream_opencode_text(json, value, "id");
    message = ngx_http_agentstream_opencode_text(json, value, "messageID");

    if (id.len == 0 || message.len == 0) {
        return NGX_OK;
    }

    m = ngx_http_agentstream_translate_message_get(tr, s, &message);
    if (m == NULL) {
        return NGX_ERROR;
    }

    if (m->session != s || (m->known && !m->ours)) {
        return NGX_OK;
    }

    if (m->known && !m->assistant && s->root && !tr->conf.history) {
        ngx_http_agentstream_translate_message_prompt(tr, m, json, value);
        return NGX_OK;
    }

    part = ngx_http_agentstream_translate_part_get(tr, m, &id);
    if (part == NULL) {
        return NGX_ERROR;
    }

    if (part->message != m || part->removed) {
        return NGX_OK;
    }

    part->mark = tr->mark;

    if (!m->known) {
        raw = ngx_http_agentstream_json_raw(json, value);
        return ngx_http_agentstream_translate_hold_add(tr, m, part, &raw, 0);
    }

    if (part->kind == NGX_HTTP_AGENTSTREAM_TR_UNKNOWN) {

        part->kind = ngx_http_agentstream_translate_part_kind(json, value);
        ngx_http_agentstream_translate_keep_part(tr, part);

        /* we subscribed too late to have seen how it began */

        part->gap |= tr->gap && rest;

        /* deltas that arrived before their part belong before this state */

        ngx_http_agentstream_translate_part_open(tr, part);

        if (ngx_http_agentstream_translate_hold_replay(tr, m) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return ngx_http_agentstream_translate_part_state(tr, part, json, value,
                                                     rest);
}


static ngx_int_t
ngx_http_agentstream_translate_part_state(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part, ngx_http_agentstream_json_t *json,
    ngx_uint_t value, ngx_uint_t rest)
{
    ngx_http_agentstream_tr_message_t  *m;

    switch (part->kind) {

    case NGX_HTTP_AGENTSTREAM_TR_TOOL:
        m = part->message;

        if (!ngx_http_agentstream_tr_speaks(tr, m) || !m->assistant) {
            return NGX_OK;
        }

        return ngx_http_agentstream_translate_tool_update(tr, part, json,
                                                          value);

    case NGX_HTTP_AGENTSTREAM_TR_FILE:
        return ngx_http_agentstream_translate_file_update(tr, part, json,
                                                          value);

    case NGX_HTTP_AGENTSTREAM_TR_SILENT:
        return NGX_OK;

    default:
        return ngx_http_agentstream_translate_part_text(tr, part, json, value,
                                                        rest);
    }
}


static ngx_int_t
ngx_http_agentstream_translate_part_text(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part, ngx_http_agentstream_json_t *json,
    ngx_uint_t value, ngx_uint_t rest)
{
    ngx_str_t                           text;
    ngx_uint_t                          v, final;
    ngx_http_agentstream_tr_message_t  *m;

    m = part->message;

    v = ngx_http_agentstream_json_get(json, value, "text");

    if (ngx_http_agentstream_json_type(json, v)
        != NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        return NGX_OK;
    }

    text = ngx_http_agentstream_json_string(json, v);

    if (m->summary) {

        if (part->kind != NGX_HTTP_AGENTSTREAM_TR_TEXT) {
            return NGX_OK;
        }

        return ngx_http_agentstream_translate_copy(tr, &part->text, &text);
    }

    v = ngx_http_agentstream_json_get(json, value, "time");
    v = ngx_http_agentstream_json_get(json, v, "end");

    final = ngx_http_agentstream_json_type(json, v)
            == NGX_HTTP_AGENTSTREAM_JSON_NUMBER
            || (rest && (m->completed || !m->assistant));

    return ngx_http_agentstream_translate_text_snapshot(tr, part, &text, final,
                                                        rest);
}


static ngx_uint_t
ngx_http_agentstream_translate_part_kind(ngx_http_agentstream_json_t *json,
    ngx_uint_t value)
{
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(json, value, "type");

    if (ngx_http_agentstream_json_is(json, v, "tool")) {
        return NGX_HTTP_AGENTSTREAM_TR_TOOL;
    }

    if (ngx_http_agentstream_json_is(json, v, "reasoning")) {
        return NGX_HTTP_AGENTSTREAM_TR_THOUGHT;
    }

    if (ngx_http_agentstream_json_is(json, v, "file")) {
        return NGX_HTTP_AGENTSTREAM_TR_FILE;
    }

    if (!ngx_http_agentstream_json_is(json, v, "text")) {
        return NGX_HTTP_AGENTSTREAM_TR_SILENT;
    }

    if (ngx_http_agentstream_opencode_true(json, value, "synthetic")
        || ngx_http_agentstream_opencode_true(json, value, "ignored"))
    {
        return NGX_HTTP_AGENTSTREAM_TR_SILENT;
    }

    return NGX_HTTP_AGENTSTREAM_TR_TEXT;
}


void
ngx_http_agentstream_translate_part_open(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part)
{
    if (part->open || part->final || part->removed
        || part->kind < NGX_HTTP_AGENTSTREAM_TR_TEXT
        || part->kind > NGX_HTTP_AGENTSTREAM_TR_THOUGHT
        || !part->message->assistant
        || !ngx_http_agentstream_tr_speaks(tr, part->message))
    {
        return;
    }

    part->open = 1;
    tr->state.nopen++;

    ngx_queue_insert_tail(&tr->open, &part->openq);
    ngx_queue_insert_tail(&part->message->fresh, &part->openm);
}


void
ngx_http_agentstream_translate_part_close(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part)
{
    part->final = 1;
    part->nhalf = 0;

    if (part->open) {
        part->open = 0;
        part->stale = 0;
        tr->state.nopen--;

        ngx_queue_remove(&part->openq);
        ngx_queue_remove(&part->openm);
    }
}


ngx_int_t
ngx_http_agentstream_translate_part_remove(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part)
{
    if (part->removed) {
        return NGX_OK;
    }

    ngx_http_agentstream_translate_part_close(tr, part);

    part->removed = 1;

    if (part->kind == NGX_HTTP_AGENTSTREAM_TR_UNKNOWN) {
        part->kind = NGX_HTTP_AGENTSTREAM_TR_SILENT;

        if (part->message->known) {
            return ngx_http_agentstream_translate_hold_replay(tr,
                                                              part->message);
        }
    }

    if (part->tool) {
        ngx_http_agentstream_translate_tool_close(tr, part->tool);
    }

    ngx_str_null(&part->text);

    return ngx_http_agentstream_translate_text_discard(tr, part);
}
