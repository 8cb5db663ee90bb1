
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What the translator needs from the turn: room for packets in the journal,
 * the events of subagents, messages that were not announced.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* messages that are asked for at a time; the others are known from their own
   events, or are read with everything that is stored before the turn ends */
#define NGX_HTTP_AGENTSTREAM_TURN_LOOKUPS  8


/* a message for which a delta arrived before it was announced */

typedef struct {
    ngx_queue_t                          queue;
    ngx_http_agentstream_turn_t         *turn;
    ngx_http_agentstream_call_t         *call;
    ngx_str_t                            session;
} ngx_http_agentstream_lookup_t;


static u_char *ngx_http_agentstream_turn_reserve(void *ctx, size_t size);
static u_char *ngx_http_agentstream_turn_squeeze(
    ngx_http_agentstream_turn_t *turn, size_t size);
static void ngx_http_agentstream_turn_patch(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_record_t *record);
static uint64_t ngx_http_agentstream_turn_commit(void *ctx,
    ngx_http_agentstream_record_t *record);
static void ngx_http_agentstream_turn_lookup(void *ctx, ngx_str_t *session,
    ngx_str_t *message);
static void ngx_http_agentstream_turn_lookup_done(void *data,
    ngx_http_agentstream_call_t *call);


ngx_http_agentstream_translate_sink_t  ngx_http_agentstream_turn_sink = {
    ngx_http_agentstream_turn_reserve,
    ngx_http_agentstream_turn_commit,
    ngx_http_agentstream_turn_child,
    ngx_http_agentstream_turn_lookup,
    ngx_http_agentstream_turn_ask_waiting
};


static u_char *
ngx_http_agentstream_turn_reserve(void *ctx, size_t size)
{
    ngx_http_agentstream_turn_t *turn = ctx;

    u_char  *p;

    if (turn->failed && !turn->terminal) {
        return NULL;
    }

    p = ngx_http_agentstream_journal_reserve(
                                    ngx_http_agentstream_worker->zone,
                                    turn->node, size, turn->conf->turn_size);

    return p ? p : ngx_http_agentstream_turn_squeeze(turn, size);
}


/* The zone is full, or does not have enough contiguous pages.  The packet is
   written to the heap, and put into the journal in pieces; only a small
   packet, and the terminal one, are written to memory that the turn already
   has */

static u_char *
ngx_http_agentstream_turn_squeeze(ngx_http_agentstream_turn_t *turn,
    size_t size)
{
    u_char                       *p;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    p = turn->terminal ? ngx_http_agentstream_journal_reserve_tail(zone,
                                                              turn->node, size)
                       : NULL;

    if (p == NULL && (turn->terminal || size <= ngx_pagesize)) {
        p = ngx_http_agentstream_journal_reserve_last(zone, turn->node, size);
    }

    if (p || turn->terminal) {
        return p;
    }

    turn->scratch = ngx_alloc(size, ngx_cycle->log);

    return turn->scratch;
}


/* if there is no room for the pieces either, the translator continues as if
   the packet was sent, and readers are told that it was not */

static void
ngx_http_agentstream_turn_patch(ngx_http_agentstream_turn_t *turn,
    ngx_http_agentstream_record_t *record)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    rc = ngx_http_agentstream_journal_append_pieces(zone, turn->node, record,
                                                    turn->conf->turn_size);

    if (rc != NGX_OK) {
        ngx_http_agentstream_journal_skip(zone, turn->node);
    }

    if (rc != NGX_OK && !turn->squeezed) {
        turn->squeezed = 1;

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "agentstream turn: no room in the zone for a packet of "
                      "%uz bytes, session %V, turn %V",
                      record->json.len + record->text.len, &turn->session,
                      &turn->id);
    }

    ngx_free(turn->scratch);
    turn->scratch = NULL;
}


static uint64_t
ngx_http_agentstream_turn_commit(void *ctx,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_turn_t *turn = ctx;

    if (turn->scratch) {
        ngx_http_agentstream_turn_patch(turn, record);

    } else {
        ngx_http_agentstream_journal_append(ngx_http_agentstream_worker->zone,
                                            turn->node, record);
    }

    ngx_post_event(&turn->wake, &ngx_posted_events);

    return ngx_http_agentstream_store_last(turn->node);
}


ngx_int_t
ngx_http_agentstream_turn_child(void *ctx, ngx_str_t *session)
{
    ngx_http_agentstream_turn_t *turn = ctx;

    ngx_str_t                          **element;
    ngx_http_agentstream_hub_session_t  *entry, **slot;

    entry = ngx_pcalloc(turn->pool, sizeof(ngx_http_agentstream_hub_session_t));

    if (entry == NULL) {
        return NGX_ERROR;
    }

    element = ngx_array_push(&turn->sessions);

    if (element == NULL) {
        return NGX_ERROR;
    }

    slot = ngx_array_push(&turn->hub_sessions);

    if (slot == NULL) {
        turn->sessions.nelts--;
        return NGX_ERROR;
    }

    *element = session;
    *slot = entry;

    if (turn->sub.hub) {
        ngx_http_agentstream_hub_add(&turn->sub, entry, session);
    }

    return NGX_OK;
}


/* docs/protocol.md, "From OpenCode's events to packets": a delta of an unknown
   message is neither dropped nor sent by guess */

static void
ngx_http_agentstream_turn_lookup(void *ctx, ngx_str_t *session,
    ngx_str_t *message)
{
    ngx_http_agentstream_turn_t *turn = ctx;

    ngx_http_agentstream_call_t    *call;
    ngx_http_agentstream_lookup_t  *lookup;

    if (turn->nlookups == NGX_HTTP_AGENTSTREAM_TURN_LOOKUPS) {
        return;
    }

    call = ngx_http_agentstream_call_create(turn->conf, &turn->route,
                                            NGX_HTTP_AGENTSTREAM_GET_MESSAGE,
                                            session, message,
                                            &turn->directory);
    if (call == NULL) {
        return;
    }

    lookup = ngx_palloc(call->pool, sizeof(ngx_http_agentstream_lookup_t));

    if (lookup == NULL) {
        goto failed;
    }

    lookup->session.len = session->len;
    lookup->session.data = ngx_pstrdup(call->pool, session);

    if (lookup->session.data == NULL) {
        goto failed;
    }

    lookup->turn = turn;
    lookup->call = call;

    call->done_handler = ngx_http_agentstream_turn_lookup_done;
    call->data = lookup;

    ngx_queue_insert_tail(&turn->lookups, &lookup->queue);
    turn->nlookups++;

    ngx_http_agentstream_call_open(call);

    return;

failed:

    ngx_http_agentstream_call_destroy(call);
}


static void
ngx_http_agentstream_turn_lookup_done(void *data,
    ngx_http_agentstream_call_t *call)
{
    ngx_http_agentstream_lookup_t *lookup = data;

    ngx_int_t                     rc;
    ngx_http_agentstream_json_t   json;
    ngx_http_agentstream_turn_t  *turn;

    turn = lookup->turn;

    ngx_queue_remove(&lookup->queue);
    turn->nlookups--;

    if (call->status != NGX_HTTP_OK) {
        /* the message's own events, or the end of the turn, will show what it
           is */
        return;
    }

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, call->body.data,
                                         call->body.len);

    if (rc == NGX_OK) {
        ngx_http_agentstream_turn_clock(turn);
        rc = ngx_http_agentstream_translate_message(turn->translate,
                                                    &lookup->session, &json,
                                                    json.root);

    } else {
        rc = NGX_OK;
    }

    ngx_http_agentstream_json_destroy(&json);

    ngx_http_agentstream_turn_judge(turn, rc);
}


void
ngx_http_agentstream_turn_close_lookups(ngx_http_agentstream_turn_t *turn)
{
    ngx_queue_t                    *q;
    ngx_http_agentstream_lookup_t  *lookup;

    while (!ngx_queue_empty(&turn->lookups)) {
        q = ngx_queue_head(&turn->lookups);
        ngx_queue_remove(q);

        lookup = ngx_queue_data(q, ngx_http_agentstream_lookup_t, queue);
        ngx_http_agentstream_call_close(lookup->call);
    }

    turn->nlookups = 0;
}


void
ngx_http_agentstream_turn_clock(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_translate_time(turn->translate,
                                        ngx_http_agentstream_clock_timestamp(),
                                        ngx_current_msec);
}
