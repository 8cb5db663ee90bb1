
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Turns whose worker is dead, or exits before they are done.  Only the journal
 * is left of such a turn: its packets tell the translator what was sent, and
 * OpenCode tells the rest.  The worker that sets the owner first, under the
 * lock, gets the turn.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_turn_int.h"


/* number of turns that are ended at once */
#define NGX_HTTP_AGENTSTREAM_TURN_BURY  32


static void ngx_http_agentstream_turn_bury(ngx_http_agentstream_node_t *node);
static ngx_int_t ngx_http_agentstream_turn_last_word(void *data,
    ngx_http_agentstream_record_t *record);
static ngx_http_agentstream_node_t *ngx_http_agentstream_turn_claim(
    ngx_str_t *id, ngx_uint_t claim);
static ngx_int_t ngx_http_agentstream_turn_settings(
    ngx_http_agentstream_turn_t *turn);
static ngx_int_t ngx_http_agentstream_turn_renew(
    ngx_http_agentstream_turn_t *turn);
static ngx_int_t ngx_http_agentstream_turn_restore(void *data,
    ngx_http_agentstream_record_t *record);


ngx_int_t
ngx_http_agentstream_turn_adopt(ngx_http_agentstream_target_t *target,
    ngx_str_t *id)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_turn_t       *turn;
    ngx_http_agentstream_zone_t       *zone;
    ngx_http_agentstream_turn_args_t   args;

    ngx_memzero(&args, sizeof(ngx_http_agentstream_turn_args_t));

    args.target = *target;

    if (ngx_http_agentstream_turn_claim(id, 0) == NULL) {
        return NGX_DECLINED;
    }

    turn = ngx_http_agentstream_turn_alloc(&args, id);
    if (turn == NULL) {
        return NGX_ERROR;
    }

    turn->node = ngx_http_agentstream_turn_claim(id, 1);

    if (turn->node == NULL) {
        ngx_http_agentstream_translate_destroy(turn->translate);
        ngx_destroy_pool(turn->pool);
        return NGX_DECLINED;
    }

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "agentstream turn: taken over from a dead worker, "
                  "session %V, turn %V", &target->session, id);

    ngx_http_agentstream_count(ADOPTED, 1);

    turn->adopted = 1;

    rc = ngx_http_agentstream_turn_settings(turn);

    ngx_http_agentstream_turn_clock(turn);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_journal_walk(turn->node,
                                            ngx_http_agentstream_turn_restore,
                                            turn);
    }

    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_zone_lock(zone);
    turn->node->pinned = 0;
    ngx_http_agentstream_zone_place_locked(zone, turn->node);
    ngx_http_agentstream_zone_unlock(zone);

    if (ngx_http_agentstream_translate_state(turn->translate)->stop_reason.len)
    {
        /* it died between the terminal packet and the end */
        ngx_http_agentstream_turn_end(turn);
        return NGX_OK;
    }

    if (turn->node->journal.last_seq != 0
        && (rc != NGX_OK || turn->node->journal.first_seq != 1))
    {
        /* it is not completely known what was sent, so send everything
           again */

        rc = ngx_http_agentstream_turn_renew(turn);
    }

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                       "Out of memory", NULL);
        return NGX_OK;
    }

    ngx_http_agentstream_turn_begin(turn);

    return NGX_OK;
}


/* the translator was created before the settings of the turn were known */

static ngx_int_t
ngx_http_agentstream_turn_settings(ngx_http_agentstream_turn_t *turn)
{
    if (turn->node->packets == turn->conf->packets
        && turn->node->tool_kinds == turn->conf->tool_kinds)
    {
        return NGX_OK;
    }

    return ngx_http_agentstream_turn_translator(turn);
}


/* an orphan, or NULL; without a claim, only find out whether it is one */

static ngx_http_agentstream_node_t *
ngx_http_agentstream_turn_claim(ngx_str_t *id, ngx_uint_t claim)
{
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_find_locked(zone, id);

    if (node
        && (node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED
            || !ngx_http_agentstream_zone_dead_locked(zone, &node->owner)))
    {
        node = NULL;
    }

    if (node && claim) {
        node->owner = zone->self;
        node->ended = 0;
        node->pinned = 1;
        ngx_http_agentstream_zone_place_locked(zone, node);
    }

    ngx_http_agentstream_zone_unlock(zone);

    return node;
}


static ngx_int_t
ngx_http_agentstream_turn_restore(void *data,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_turn_t *turn = data;

    ngx_http_agentstream_journal_t  *journal;

    journal = &turn->node->journal;

    if (journal->first_seq != 1 && record->seq != journal->last_seq) {
        /* it only matters whether it was the terminal packet */
        return NGX_OK;
    }

    return ngx_http_agentstream_translate_restore(turn->translate, record);
}


/* starts again with an empty translator, and tells the clients so */

static ngx_int_t
ngx_http_agentstream_turn_renew(ngx_http_agentstream_turn_t *turn)
{
    turn->sessions.nelts = 1;
    turn->hub_sessions.nelts = 1;

    if (ngx_http_agentstream_turn_translator(turn) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_turn_clock(turn);

    if (ngx_http_agentstream_translate_reset(turn->translate,
                                             "worker_lost")
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_agentstream_count(RESETS, 1);

    return ngx_http_agentstream_translate_start(turn->translate);
}


void
ngx_http_agentstream_turn_resume(ngx_http_agentstream_turn_t *turn)
{
    if (!turn->node->prompted) {
        /* the prompt was lost with its worker */

        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_BAD_GATEWAY,
                                       "The worker was lost", NULL);
        return;
    }

    if (!ngx_http_agentstream_translate_state(turn->translate)->started) {
        /* the worker died before OpenCode had answered */

        ngx_http_agentstream_turn_set_phase(turn,
                                          ngx_http_agentstream_turn_prompting);
        ngx_http_agentstream_turn_check_prompt(turn, NGX_HTTP_BAD_GATEWAY);
        return;
    }

    ngx_http_agentstream_turn_set_phase(turn,
                                            ngx_http_agentstream_turn_running);

    ngx_http_agentstream_turn_set_stream(turn,
                                         ngx_http_agentstream_turn_stream_gap);
    ngx_http_agentstream_turn_reconcile(turn);
}


void
ngx_http_agentstream_turn_expire_handler(ngx_event_t *ev)
{
    ngx_uint_t                    n;
    ngx_rbtree_key_t              key;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_zone_lock(zone);
    ngx_http_agentstream_zone_expire_locked(zone);
    ngx_http_agentstream_zone_unlock(zone);

    ngx_http_agentstream_zone_sweep(zone);

    n = 0;
    key = 0;

    do {
        ngx_http_agentstream_zone_lock(zone);
        node = ngx_http_agentstream_zone_orphan_locked(zone, &key);
        ngx_http_agentstream_zone_unlock(zone);

        if (node) {
            ngx_http_agentstream_turn_bury(node);
            n++;
        }

    } while (key && n < NGX_HTTP_AGENTSTREAM_TURN_BURY);

    ngx_add_timer(ev, NGX_HTTP_AGENTSTREAM_TURN_EXPIRE);
}


/* ends a turn whose worker died and that nobody asked for */

static void
ngx_http_agentstream_turn_bury(ngx_http_agentstream_node_t *node)
{
    size_t                          size;
    u_char                         *p;
    ngx_http_agentstream_zone_t    *zone;
    ngx_http_agentstream_record_t   record;

    static ngx_str_t  message = ngx_string("The worker was lost");

    zone = ngx_http_agentstream_worker->zone;

    (void) ngx_http_agentstream_journal_walk(node,
                                           ngx_http_agentstream_turn_last_word,
                                           node);

    if (node->stop_reason[0]) {
        /* it died between the terminal packet and the end */
        goto done;
    }

    ngx_memcpy(node->stop_reason, "error", sizeof("error"));

    size = ngx_http_agentstream_acp_error_size(&message, NULL);

    p = ngx_http_agentstream_journal_reserve_tail(zone, node, size);

    if (p) {
        ngx_memzero(&record, sizeof(ngx_http_agentstream_record_t));

        record.type = NGX_HTTP_AGENTSTREAM_RECORD_ERROR;
        record.json.data = p;

        p = ngx_http_agentstream_acp_error(p,
                                        ngx_http_agentstream_clock_timestamp(),
                                        &message, NGX_HTTP_BAD_GATEWAY, NULL);

        record.json.len = p - record.json.data;

        ngx_http_agentstream_journal_append(zone, node, &record);
    }

done:

    ngx_http_agentstream_zone_lock(zone);
    node->pinned = 0;
    node->session->unsure = 1;
    ngx_http_agentstream_zone_finish_locked(zone, node);
    ngx_http_agentstream_zone_unlock(zone);
}


/* the stop reason, if the last packet is a terminal one */

static ngx_int_t
ngx_http_agentstream_turn_last_word(void *data,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_node_t *node = data;

    ngx_str_t                    text;
    ngx_http_agentstream_json_t  json;

    if (record->seq != node->journal.last_seq
        || !ngx_http_agentstream_record_terminal(record->type))
    {
        return NGX_OK;
    }

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    if (ngx_http_agentstream_json_parse(&json, record->json.data,
                                        record->json.len)
        == NGX_OK)
    {
        text = ngx_http_agentstream_translate_stop_reason(record, &json);
        ngx_memcpy(node->stop_reason, text.data,
                   ngx_min(text.len, sizeof(node->stop_reason) - 1));
    }

    ngx_http_agentstream_json_destroy(&json);

    return NGX_OK;
}


void
ngx_http_agentstream_turn_leave(ngx_msec_t timeout)
{
    ngx_http_agentstream_turns_t  *turns;

    turns = ngx_http_agentstream_worker->turns;

    if (timeout) {
        ngx_add_timer(&turns->leave, timeout);
    }
}


/* worker_shutdown_timeout has passed: leave the turns that are not done to
   another worker */

void
ngx_http_agentstream_turn_leave_handler(ngx_event_t *ev)
{
    ngx_queue_t                   *q;
    ngx_http_agentstream_turn_t   *turn;
    ngx_http_agentstream_turns_t  *turns;

    turns = ev->data;

    while (!ngx_queue_empty(&turns->turns)) {
        q = ngx_queue_head(&turns->turns);
        turn = ngx_queue_data(q, ngx_http_agentstream_turn_t, queue);

        ngx_http_agentstream_turn_release(turn);

        if (turn->wake.posted) {
            ngx_delete_posted_event(&turn->wake);
        }

        ngx_http_agentstream_notify_forget(&turn->watch);

        ngx_http_agentstream_translate_destroy(turn->translate);
        ngx_destroy_pool(turn->pool);
    }
}
