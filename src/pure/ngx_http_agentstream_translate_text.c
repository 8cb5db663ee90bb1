
/*
 * Copyright (C) agentstream contributors
 *
 * Text and thoughts.  A delta goes into its packet unchanged.  Of the text
 * that was sent only a hash is kept, which is enough to find out whether a
 * later snapshot is the same, is longer, or contradicts it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


/* white space at the end of a text that may be missing when it is stored */
#define NGX_HTTP_AGENTSTREAM_TR_BLANKS  4


static ngx_int_t ngx_http_agentstream_translate_text_add(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_translate_text_chunk(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_str_t *text);
static ngx_uint_t ngx_http_agentstream_translate_text_trimmed(
    ngx_http_agentstream_tr_part_t *part, ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_translate_text_discard_stale(
    ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part);


ngx_int_t
ngx_http_agentstream_translate_text_delta(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s, ngx_http_agentstream_event_t *ev)
{
    ngx_http_agentstream_tr_part_t     *part;
    ngx_http_agentstream_tr_message_t  *m;

    if (ev->part.len == 0 || ev->text.len == 0) {
        return NGX_OK;
    }

    part = ngx_http_agentstream_translate_part_find(tr, &ev->part);

    if (part == NULL) {

        if (ev->message.len == 0) {
            return NGX_OK;
        }

        m = ngx_http_agentstream_translate_message_get(tr, s, &ev->message);
        if (m == NULL) {
            return NGX_ERROR;
        }

        if (m->known && !ngx_http_agentstream_tr_speaks(tr, m)) {
            return NGX_OK;
        }

        part = ngx_http_agentstream_translate_part_get(tr, m, &ev->part);
        if (part == NULL) {
            return NGX_ERROR;
        }

        if (tr->forgot) {
            /* earlier deltas of this part may be among those that were
               forgotten */
            part->gap = 1;
            ngx_http_agentstream_translate_hold_resolve(tr, m);
        }
    }

    if (part->message->session != s) {
        return NGX_OK;
    }

    return ngx_http_agentstream_translate_text_part(tr, part, &ev->text);
}


/* adds a delta to the part, now or, if it was held, later */

ngx_int_t
ngx_http_agentstream_translate_text_part(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part, ngx_str_t *text)
{
    ngx_http_agentstream_tr_message_t  *m;

    m = part->message;

    if (part->final || part->gap || part->removed) {
        return NGX_OK;
    }

    if (m->known && !ngx_http_agentstream_tr_speaks(tr, m)) {
        return NGX_OK;
    }

    if (!m->known || part->kind == NGX_HTTP_AGENTSTREAM_TR_UNKNOWN) {
        return ngx_http_agentstream_translate_hold_add(tr, m, part, text, 1);
    }

    if (part->kind > NGX_HTTP_AGENTSTREAM_TR_THOUGHT) {
        return NGX_OK;
    }

    ngx_http_agentstream_tr_active(tr, m->session);

    return ngx_http_agentstream_translate_text_add(tr, part, text);
}


/* docs/protocol.md, "From OpenCode's events to packets": half of a surrogate
   pair waits for the other half */

static ngx_int_t
ngx_http_agentstream_translate_text_add(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part, ngx_str_t *text)
{
    size_t                           n;
    ngx_int_t                        rc;
    ngx_str_t                        s;
    ngx_http_agentstream_acp_buf_t  *b;

    s = *text;
    b = &tr->work->joined;

    if (part->nhalf) {
        b->len = 0;
        b->failed = 0;

        ngx_http_agentstream_acp_add(b, part->half, part->nhalf);
        ngx_http_agentstream_acp_add(b, s.data, s.len);

        if (b->failed) {
            return NGX_ERROR;
        }

        s.data = b->start;
        s.len = b->len;

        part->nhalf = 0;
    }

    n = ngx_http_agentstream_json_half_pair(&s);

    if (n) {
        s.len -= n;
        ngx_memcpy(part->half, s.data + s.len, n);
        part->nhalf = n;

        if (s.len == 0) {
            return NGX_OK;
        }
    }

    rc = ngx_http_agentstream_translate_text_chunk(tr, part, &s);

    if (b->size > NGX_HTTP_AGENTSTREAM_TR_WORK_MAX) {
        ngx_http_agentstream_acp_destroy(b);
    }

    return rc;
}


static ngx_int_t
ngx_http_agentstream_translate_text_chunk(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part, ngx_str_t *text)
{
    u_char                             *p;
    uint64_t                            seq;
    ngx_str_t                          *id;
    ngx_http_agentstream_record_t       record;
    ngx_http_agentstream_tr_message_t  *m;

    m = part->message;

    if (!ngx_queue_empty(&m->stale)
        && ngx_http_agentstream_translate_text_discard_stale(tr, part)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (tr->conf.core
        && (!m->session->root
            || part->kind == NGX_HTTP_AGENTSTREAM_TR_THOUGHT))
    {
        ngx_http_agentstream_json_hash(&part->sent, text);
        return NGX_OK;
    }

    if (!m->assistant) {
        record.type = NGX_HTTP_AGENTSTREAM_RECORD_USER;

    } else if (part->kind == NGX_HTTP_AGENTSTREAM_TR_THOUGHT) {
        record.type = NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT;

    } else {
        record.type = NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE;
    }

    id = tr->conf.core ? NULL : &m->sn.str;

    if (part->number == 0) {
        part->number = ++tr->number;
        ngx_http_agentstream_translate_mark(tr, &m->session->id, &m->sn.str,
                                            &part->sn.str, NULL);
    }

    record.part = part->number;
    record.text.len = 0;
    record.nholes = 0;

    p = ngx_http_agentstream_translate_reserve(tr, &record,
                          ngx_http_agentstream_acp_chunk_size(id, text,
                                                         &m->session->meta));
    if (p == NULL) {
        tr->origin.len = 0;
        return NGX_ERROR;
    }

    record.json.data = p;
    p = ngx_http_agentstream_acp_chunk(p, tr->timestamp, record.type, id, text,
                                       &m->session->meta);
    record.json.len = p - record.json.data;

    seq = tr->sink->commit(tr->ctx, &record);

    tr->origin.len = 0;

    if (seq == 0) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_json_hash(&part->sent, text);

    return ngx_http_agentstream_translate_text_run(tr, part, seq);
}


ngx_int_t
ngx_http_agentstream_translate_text_run(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_part_t *part, uint64_t seq)
{
    ngx_http_agentstream_tr_run_t  *run;

    if (part->message->last == part && part->runs) {
        part->runs->to = seq;
        return NGX_OK;
    }

    run = tr->free_runs;

    if (run) {
        tr->free_runs = run->next;

    } else {
        run = ngx_http_agentstream_translate_alloc(tr,
                                       sizeof(ngx_http_agentstream_tr_run_t));
        if (run == NULL) {
            return NGX_ERROR;
        }
    }

    run->from = seq;
    run->to = seq;
    run->next = part->runs;

    part->runs = run;
    part->message->last = part;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_translate_text_snapshot(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_str_t *text, ngx_uint_t final, ngx_uint_t rest)
{
    ngx_str_t  missing;

    if (!ngx_http_agentstream_tr_speaks(tr, part->message)) {
        return NGX_OK;
    }

    ngx_http_agentstream_translate_part_open(tr, part);

    /*
     * A snapshot that was fetched may be ahead of the events, so that deltas
     * with the same text are still to come, unless deltas are not trusted any
     * more.
     */

    if (!final && rest && !part->gap) {
        return NGX_OK;
    }

    if (ngx_http_agentstream_json_hash_prefix(&part->sent, text, &missing)
        != NGX_OK)
    {
        /* this is an older state, unless it is the final one */

        if (!final) {
            return NGX_OK;
        }

        if (ngx_http_agentstream_translate_text_trimmed(part, text)) {
            ngx_http_agentstream_translate_part_close(tr, part);
            return NGX_OK;
        }

        if (ngx_http_agentstream_translate_text_discard(tr, part) != NGX_OK) {
            return NGX_ERROR;
        }

        missing = *text;
    }

    if (final) {
        ngx_http_agentstream_translate_part_close(tr, part);
    }

    if (missing.len == 0) {
        return NGX_OK;
    }

    if (final) {
        return ngx_http_agentstream_translate_text_chunk(tr, part, &missing);
    }

    ngx_http_agentstream_tr_active(tr, part->message->session);

    /* the half pair that was held back is contained in it */

    part->nhalf = 0;

    return ngx_http_agentstream_translate_text_add(tr, part, &missing);
}


/*
 * Whether the text is what was sent, without the white space at its end, which
 * older versions of OpenCode remove when they store it.  Only a hash is known
 * of what was sent, so a few endings are tried.
 */

static ngx_uint_t
ngx_http_agentstream_translate_text_trimmed(
    ngx_http_agentstream_tr_part_t *part, ngx_str_t *text)
{
    u_char                            ch[NGX_HTTP_AGENTSTREAM_TR_BLANKS];
    size_t                            n, j;
    ngx_str_t                         end;
    ngx_uint_t                        i;
    ngx_http_agentstream_json_hash_t  trimmed, whole;

    static const u_char  blanks[] = " \n\t\r";

    ngx_http_agentstream_json_hash_init(&trimmed);
    ngx_http_agentstream_json_hash(&trimmed, text);

    if (text->len == 0
        || part->sent.len <= trimmed.len
        || part->sent.len - trimmed.len > NGX_HTTP_AGENTSTREAM_TR_BLANKS)
    {
        return 0;
    }

    n = part->sent.len - trimmed.len;

    end.data = ch;
    end.len = n;

    for (i = 0; i < (ngx_uint_t) 1 << (2 * n); i++) {

        for (j = 0; j < n; j++) {
            ch[j] = blanks[(i >> (2 * j)) & 3];
        }

        whole = trimmed;
        ngx_http_agentstream_json_hash(&whole, &end);

        if (whole.hash == part->sent.hash) {
            return 1;
        }
    }

    return 0;
}


/* what was sent of the part is void; nothing of the part was sent after
   that */

ngx_int_t
ngx_http_agentstream_translate_text_discard(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part)
{
    ngx_http_agentstream_tr_run_t   *run, *next, *runs;
    ngx_http_agentstream_acp_buf_t  *b;

    ngx_http_agentstream_json_hash_init(&part->sent);
    part->nhalf = 0;

    /* oldest first */

    runs = NULL;

    for (run = part->runs; run; run = next) {
        next = run->next;
        run->next = runs;
        runs = run;
    }

    part->runs = NULL;

    b = &tr->work->buf;

    for (run = runs; run; run = next) {

        next = run->next;
        run->next = tr->free_runs;
        tr->free_runs = run;

        if (tr->conf.core) {
            continue;
        }

        ngx_http_agentstream_acp_open(b,
                         NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED,
                         tr->timestamp);
        ngx_http_agentstream_acp_member_text(b, ",\"messageId\":",
                                             &part->message->sn.str);
        ngx_http_agentstream_acp_member_number(b, ",\"from\":", run->from);
        ngx_http_agentstream_acp_member_number(b, ",\"to\":", run->to);
        ngx_http_agentstream_acp_close(b, &part->message->session->meta);

        if (ngx_http_agentstream_translate_send(tr, 0) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_http_agentstream_translate_text_retry(ngx_http_agentstream_translate_t *tr,
    ngx_http_agentstream_tr_session_t *s)
{
    ngx_queue_t                        *q;
    ngx_http_agentstream_tr_part_t     *part;
    ngx_http_agentstream_tr_message_t  *m;

    m = s->last;

    if (m == NULL || m->completed) {
        return;
    }

    while (!ngx_queue_empty(&m->fresh)) {
        q = ngx_queue_head(&m->fresh);

        part = ngx_queue_data(q, ngx_http_agentstream_tr_part_t, openm);
        part->stale = 1;

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&m->stale, q);
    }
}


/*
 * When a failure cuts off a part, OpenCode leaves the part with an empty text,
 * and sends the whole text again in new parts of the same message, but never
 * reports this.
 */

static ngx_int_t
ngx_http_agentstream_translate_text_discard_stale(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part)
{
    ngx_queue_t                        *q;
    ngx_http_agentstream_tr_part_t     *stale;
    ngx_http_agentstream_tr_message_t  *m;

    m = part->message;

    if (part->stale) {

        /* so this part is still in use */

        part->stale = 0;

        ngx_queue_remove(&part->openm);
        ngx_queue_insert_tail(&m->fresh, &part->openm);
    }

    while (!ngx_queue_empty(&m->stale)) {
        q = ngx_queue_head(&m->stale);
        stale = ngx_queue_data(q, ngx_http_agentstream_tr_part_t, openm);

        ngx_http_agentstream_translate_part_close(tr, stale);

        if (ngx_http_agentstream_translate_text_discard(tr, stale) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
