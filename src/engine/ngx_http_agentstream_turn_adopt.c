
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


/* how a turn that is to be buried has ended */

typedef struct {
    uint64_t                             last;         /* number of its last
                                                          packet */
    ngx_str_t                            stop_reason;  /* empty: it has not */
    u_char                               buf[16];
} ngx_http_agentstream_last_word_t;


static void ngx_http_agentstream_turn_bury(ngx_http_agentstream_node_t *node);
static ngx_int_t ngx_http_agentstream_turn_last_word(void *data,
    ngx_http_agentstream_record_t *record);
static void ngx_http_agentstream_turn_claimed_handler(void *data,
    ngx_int_t rc);
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

    zone = ngx_http_agentstream_worker->zone;

    ngx_memzero(&args, sizeof(ngx_http_agentstream_turn_args_t));

    args.target = *target;

    if (ngx_http_agentstream_store_orphan(zone, id) != NGX_OK) {
        return NGX_DECLINED;
    }

    turn = ngx_http_agentstream_turn_alloc(&args, id);
    if (turn == NULL) {
        return NGX_ERROR;
    }

    turn->later.handler = ngx_http_agentstream_turn_claimed_handler;

    rc = ngx_http_agentstream_store_claim(zone, &turn->id, &turn->node,
                                          &turn->later);

    if (rc == NGX_AGAIN) {
        ngx_queue_insert_tail(&ngx_http_agentstream_worker->turns->turns,
                              &turn->queue);
        return NGX_AGAIN;
    }

    ngx_http_agentstream_turn_claimed_handler(turn, rc);

    return rc;
}


/* the store has answered, now or later */

static void
ngx_http_agentstream_turn_claimed_handler(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_turn_t *turn = data;

    if (rc != NGX_OK) {
        /* somebody else was faster */
        ngx_http_agentstream_turn_destroy(turn);
        return;
    }

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "agentstream turn: taken over from a dead worker, "
                  "session %V, turn %V", &turn->session, &turn->id);

    ngx_http_agentstream_count(ADOPTED, 1);

    turn->adopted = 1;

    rc = ngx_http_agentstream_turn_settings(turn);

    ngx_http_agentstream_turn_clock(turn);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_journal_walk(turn->node,
                                            ngx_http_agentstream_turn_restore,
                                            turn);
    }

    ngx_http_agentstream_store_unpin(ngx_http_agentstream_worker->zone,
                                     turn->node);

    if (ngx_http_agentstream_translate_state(turn->translate)->stop_reason.len)
    {
        /* it died between the terminal packet and the end */
        ngx_http_agentstream_turn_end(turn);
        return;
    }

    if (ngx_http_agentstream_store_last(turn->node) != 0
        && (rc != NGX_OK || !ngx_http_agentstream_store_whole(turn->node)))
    {
        /* it is not completely known what was sent, so send everything
           again */

        rc = ngx_http_agentstream_turn_renew(turn);
    }

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_turn_fail(turn, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                       "Out of memory", NULL);
        return;
    }

    /* what the dead worker has not shown */

    ngx_post_event(&turn->wake, &ngx_posted_events);

    ngx_http_agentstream_turn_begin(turn);
}


/* the translator was created before the settings of the turn were known */

static ngx_int_t
ngx_http_agentstream_turn_settings(ngx_http_agentstream_turn_t *turn)
{
    ngx_uint_t  packets, kinds;

    ngx_http_agentstream_store_settings(turn->node, &packets, &kinds);

    if (packets == turn->conf->packets && kinds == turn->conf->tool_kinds) {
        return NGX_OK;
    }

    return ngx_http_agentstream_turn_translator(turn);
}


static ngx_int_t
ngx_http_agentstream_turn_restore(void *data,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_turn_t *turn = data;

    if (!ngx_http_agentstream_store_whole(turn->node)
        && record->seq != ngx_http_agentstream_store_last(turn->node))
    {
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

    /* the new translator reports again what waits for an answer, but not that
       something waits no longer which it does not know */

    ngx_http_agentstream_turn_ask_close(turn);

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
    if (!ngx_http_agentstream_store_prompted(turn->node)) {
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
    ngx_uint_t                    key;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    ngx_http_agentstream_store_expire(zone);

    n = 0;
    key = 0;

    do {
        node = ngx_http_agentstream_store_lapsed(zone, &key);

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
    size_t                             size;
    u_char                            *p;
    ngx_http_agentstream_zone_t       *zone;
    ngx_http_agentstream_record_t      record;
    ngx_http_agentstream_last_word_t   word;
    ngx_http_agentstream_store_end_t   end;

    static ngx_str_t  message = ngx_string("The worker was lost");

    zone = ngx_http_agentstream_worker->zone;

    word.last = ngx_http_agentstream_store_last(node);
    word.stop_reason.data = word.buf;
    word.stop_reason.len = 0;

    (void) ngx_http_agentstream_journal_walk(node,
                                           ngx_http_agentstream_turn_last_word,
                                           &word);

    if (word.stop_reason.len) {
        /* it died between the terminal packet and the end */
        goto done;
    }

    ngx_str_set(&word.stop_reason, "error");

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

    end.stop_reason = word.stop_reason;
    end.unsure = 1;

    (void) ngx_http_agentstream_store_finish(zone, node, &end, NULL);
}


/* the stop reason, if the last packet is a terminal one */

static ngx_int_t
ngx_http_agentstream_turn_last_word(void *data,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_last_word_t *word = data;

    ngx_str_t                    text;
    ngx_http_agentstream_json_t  json;

    if (record->seq != word->last
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
        word->stop_reason.len = ngx_min(text.len, sizeof(word->buf));
        ngx_memcpy(word->buf, text.data, word->stop_reason.len);
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

        ngx_http_agentstream_turn_drop(turn);
    }
}


void
ngx_http_agentstream_turn_drop(ngx_http_agentstream_turn_t *turn)
{
    ngx_http_agentstream_turn_release(turn);

    if (turn->wake.posted) {
        ngx_delete_posted_event(&turn->wake);
    }

    ngx_http_agentstream_notify_forget(&turn->watch);
    ngx_http_agentstream_store_cancel(&turn->later);

    if (turn->creator) {
        ngx_http_agentstream_turn_forget_creator(turn->creator);
    }

    ngx_http_agentstream_turn_destroy(turn);
}


/* whoever reads the turn here looks at it, in case that its new owner is dead
   already */

void
ngx_http_agentstream_turn_fenced(ngx_http_agentstream_turn_t *turn)
{
    u_char                             buf[NGX_HTTP_AGENTSTREAM_TURN_ID_SIZE];
    ngx_str_t                          id;
    ngx_http_agentstream_watch_t      *watch;
    ngx_http_agentstream_store_end_t   end;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "agentstream turn: another worker has taken it over, "
                  "session %V, turn %V", &turn->session, &turn->id);

    watch = NULL;
    id.data = buf;
    id.len = ngx_min(turn->id.len, sizeof(buf));
    ngx_memcpy(buf, turn->id.data, id.len);

    ngx_http_agentstream_turn_drop(turn);

    ngx_http_agentstream_store_readers(ngx_http_agentstream_worker->zone, &id,
                                       end.watchers);

    ngx_http_agentstream_notify_wake(&id, end.watchers, &watch);
    ngx_http_agentstream_notify_forget(&watch);
}
