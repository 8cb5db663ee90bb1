
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The turn of a chat: the message at hand becomes its prompt, and its records
 * become what is shown.  The entry leaves the inbox in the same step in which
 * the turn's id is saved; the name of the entry is the turn's request id.  So a
 * message is prompted once, whenever this worker dies.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_worker.h"


/* how long it is tried to show an answer for which there is no memory, in
   seconds */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_PATIENCE  60


static void ngx_http_agentstream_delivery_fetched(
    ngx_http_agentstream_delivery_t *d);
static ngx_int_t ngx_http_agentstream_delivery_body(
    ngx_http_agentstream_delivery_t *d, ngx_http_agentstream_prompt_t *prompt);
static ngx_int_t ngx_http_agentstream_delivery_content(
    ngx_http_agentstream_delivery_t *d, ngx_str_t *json);
static void ngx_http_agentstream_delivery_sent(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static void ngx_http_agentstream_delivery_no_turn(
    ngx_http_agentstream_delivery_t *d, const char *reason);
static void ngx_http_agentstream_delivery_known(void *data, ngx_int_t rc);
static ngx_uint_t ngx_http_agentstream_delivery_ready(void *data);
static ngx_int_t ngx_http_agentstream_delivery_take(void *data,
    ngx_http_agentstream_batch_t *batch);
static void ngx_http_agentstream_delivery_lost(void *data, ngx_int_t rc);
static void ngx_http_agentstream_delivery_over(
    ngx_http_agentstream_delivery_t *d);


static ngx_http_agentstream_consumer_t
    ngx_http_agentstream_delivery_consumer =
{
    ngx_http_agentstream_delivery_ready,
    ngx_http_agentstream_delivery_take,
    ngx_http_agentstream_delivery_lost
};


void
ngx_http_agentstream_delivery_prompt(ngx_http_agentstream_delivery_t *d)
{
    if (ngx_http_agentstream_delivery_joined(d)) {
        /* our predecessor died before it had taken it out */

        ngx_http_agentstream_delivery_save(d, d->job_entry);
        ngx_http_agentstream_delivery_end_job(d);
        ngx_http_agentstream_delivery_kick(d);
        return;
    }

    ngx_http_agentstream_delivery_fetch(d,
                                       ngx_http_agentstream_delivery_fetched);
}


static void
ngx_http_agentstream_delivery_fetched(ngx_http_agentstream_delivery_t *d)
{
    ngx_http_agentstream_prompt_t   prompt;
    ngx_http_agentstream_sender_t  *sender;

    if (d->update.files.nelts
        && ngx_http_agentstream_delivery_unread(d, d->job, &d->update,
                                                d->job_entry)
           == 0
        && d->update.text.len == 0)
    {
        ngx_http_agentstream_delivery_take_out(d, 0);
        ngx_http_agentstream_delivery_end_job(d);
        ngx_http_agentstream_delivery_kick(d);
        return;
    }

    sender = &d->sender;
    ngx_memzero(sender, sizeof(ngx_http_agentstream_sender_t));

    sender->args.enclosed = ngx_http_agentstream_delivery_pictures(d,
                                                    d->update.text.len == 0);

    if (ngx_http_agentstream_delivery_body(d, &prompt) != NGX_OK
        || ngx_http_agentstream_body_make(d->job, NULL, &d->target.session,
                                          &d->site.directory,
                                          &sender->args.make)
           != NGX_OK)
    {
        ngx_http_agentstream_delivery_no_turn(d, "The message cannot be read");
        return;
    }

    sender->args.target = d->target;
    sender->args.prompt = prompt.body;
    sender->args.enclosed_at = prompt.end;
    sender->args.files = prompt.files;
    sender->args.request_id = prompt.request_id;
    sender->handler = ngx_http_agentstream_delivery_sent;
    sender->data = d;

    ngx_http_agentstream_sender_send(sender);
}


static ngx_int_t
ngx_http_agentstream_delivery_body(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_prompt_t *prompt)
{
    ngx_str_t                           json;
    ngx_http_agentstream_fields_conf_t  fields;

    ngx_memzero(&fields, sizeof(ngx_http_agentstream_fields_conf_t));

    fields.allowed = NGX_HTTP_AGENTSTREAM_FIELD_ALL;
    fields.agent = d->site.agent;

    if (d->site.model.len
        && ngx_http_agentstream_fields_split(&d->site.model, &fields.provider,
                                             &fields.model)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_agentstream_delivery_content(d, &json) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_prompt_build(d->job, &fields, &json,
                                         NGX_HTTP_AGENTSTREAM_MESSAGE_ID_LEN,
                                         d->sender.args.enclosed != NULL,
                                         prompt);
}


/* the message as a client would send it; its pictures are enclosed later */

static ngx_int_t
ngx_http_agentstream_delivery_content(ngx_http_agentstream_delivery_t *d,
    ngx_str_t *json)
{
    u_char     *p, id[32];
    size_t      len;
    ngx_str_t  *text;

    text = &d->update.text;

    /* the name of the entry, whatever its length is */

    len = ngx_sprintf(id, "chat-%08xD%08xD",
                      ngx_murmur_hash2(d->update.id.data, d->update.id.len),
                      ngx_crc32_short(d->update.id.data, d->update.id.len))
          - id;

    p = ngx_pnalloc(d->job,
                    sizeof("{\"content\":\"\",\"client_request_id\":\"\"}")
                    + ngx_http_agentstream_json_escape_size(text->len) + len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    json->data = p;

    p = ngx_sprintf(p, "{\"client_request_id\":\"%*s\",\"content\":", len,
                    id);

    if (text->len == 0) {
        p = ngx_cpymem(p, "[]", 2);

    } else {
        *p++ = '"';
        p = ngx_http_agentstream_json_escape(p, text->data, text->len);
        *p++ = '"';
    }

    *p++ = '}';

    json->len = p - json->data;

    return NGX_OK;
}


static void
ngx_http_agentstream_delivery_sent(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_delivery_t *d = data;

    ngx_http_agentstream_delivery_state_t  *state;

    if (outcome->code == NGX_HTTP_SERVICE_UNAVAILABLE
        && ngx_http_agentstream_delivery_postpone(d) == NGX_OK)
    {
        ngx_http_agentstream_delivery_release(d);
        return;
    }

    if (outcome->code != NGX_HTTP_OK) {
        ngx_http_agentstream_delivery_no_turn(d, outcome->reason
                                                 ? outcome->reason
                                                 : "There is no memory");
        ngx_http_agentstream_delivery_release(d);
        return;
    }

    d->postpone = 0;
    d->postponed = 0;

    state = &d->state;

    state->running = 1;
    state->sent = 0;
    state->sending = NGX_HTTP_AGENTSTREAM_SENDING_NOTHING;
    state->mute = (d->site.conf->chat_progress
                   == NGX_HTTP_AGENTSTREAM_CHAT_NO_PROGRESS);
    state->ended = 0;
    state->shown.len = 0;
    ngx_memzero(state->asks, sizeof(state->asks));

    ngx_http_agentstream_delivery_set_id(&state->turn, &d->sender.turn);
    ngx_http_agentstream_delivery_set_id(&state->reply, &d->update.message);

    /* the turn has a copy, and the pictures */

    ngx_http_agentstream_delivery_end_fetch(d);
    d->sender.args.enclosed = NULL;

    (void) ngx_pfree(d->job, d->sender.args.prompt.data);
    ngx_str_null(&d->sender.args.prompt);

    ngx_http_agentstream_delivery_take_out(d, d->job_entry);

    if (ngx_http_agentstream_delivery_follow(d) != NGX_OK) {
        ngx_http_agentstream_delivery_again(d);
        return;
    }

    ngx_http_agentstream_delivery_release(d);
    ngx_http_agentstream_delivery_kick(d);
}


/* the message is answered with what went wrong */

static void
ngx_http_agentstream_delivery_no_turn(ngx_http_agentstream_delivery_t *d,
    const char *reason)
{
    u_char     *p;
    ngx_str_t   text;

    text.data = ngx_pnalloc(d->job, 512);

    if (text.data) {
        p = ngx_snprintf(text.data, 512, "The agent could not be asked: %s.",
                         reason);
        text.len = p - text.data;

        ngx_http_agentstream_delivery_say(d, &d->update.message, &text,
                                          d->job_entry);
        ngx_http_agentstream_delivery_take_out(d, 0);
    }

    ngx_http_agentstream_delivery_end_job(d);
    ngx_http_agentstream_delivery_kick(d);
}


ngx_int_t
ngx_http_agentstream_delivery_follow(ngx_http_agentstream_delivery_t *d)
{
    ngx_str_t                         turn;
    ngx_http_agentstream_follower_t  *f;

    d->turn = ngx_create_pool(1024, ngx_cycle->log);
    if (d->turn == NULL) {
        return NGX_ERROR;
    }

    if (ngx_http_agentstream_delivery_target(d, d->turn, d->state.fresh,
                                             &d->turn_target)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (d->began == 0) {
        d->began = ngx_current_msec;
    }

    if (d->state.sending == NGX_HTTP_AGENTSTREAM_SENDING_PROGRESS) {
        /* our predecessor died while it was sent: there may be a progress
           message that nobody knows */

        d->state.mute = 1;
        d->state.sending = NGX_HTTP_AGENTSTREAM_SENDING_NOTHING;
    }

    ngx_memzero(&d->pieces, sizeof(ngx_array_t));
    d->version = 0;
    d->tidied = 0;
    d->plain = 0;
    d->unmarked = 0;
    d->tries = 0;
    d->edited = ngx_current_msec;
    d->beats = 0;

    f = &d->follower;
    ngx_memzero(f, sizeof(ngx_http_agentstream_follower_t));

    f->consumer = &ngx_http_agentstream_delivery_consumer;
    f->data = d;
    f->target = &d->turn_target;
    f->log = ngx_cycle->log;
    f->sender = 1;

    d->typing = 1;

    /* another machine may have the turn */

    d->looking.handler = ngx_http_agentstream_delivery_known;
    d->looking.data = d;

    turn = ngx_http_agentstream_delivery_get_id(&d->state.turn);

    if (ngx_http_agentstream_store_watch(ngx_http_agentstream_worker->zone,
                                         &d->watch, &d->turn_target.key, &turn,
                                         0, &d->looking)
        == NGX_AGAIN)
    {
        return NGX_OK;
    }

    return ngx_http_agentstream_follower_read(f, &turn);
}


static void
ngx_http_agentstream_delivery_known(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_delivery_t *d = data;

    ngx_str_t  turn;

    turn = ngx_http_agentstream_delivery_get_id(&d->state.turn);

    if (ngx_http_agentstream_follower_read(&d->follower, &turn) != NGX_OK) {
        ngx_http_agentstream_delivery_again(d);
    }
}


static ngx_uint_t
ngx_http_agentstream_delivery_ready(void *data)
{
    return 1;
}


static ngx_int_t
ngx_http_agentstream_delivery_take(void *data,
    ngx_http_agentstream_batch_t *batch)
{
    ngx_http_agentstream_delivery_t *d = data;

    ngx_uint_t                     over;
    ngx_http_agentstream_record_t  record;

    over = batch->end;

    while (ngx_http_agentstream_follower_next(batch, &record) == NGX_OK) {

        if (ngx_http_agentstream_view_record(&d->view, &record) != NGX_OK) {
            ngx_http_agentstream_follower_close(&d->follower);
            ngx_http_agentstream_delivery_again(d);
            return NGX_DONE;
        }

        over |= ngx_http_agentstream_record_terminal(record.type);
    }

    d->touched = 1;
    ngx_http_agentstream_delivery_kick(d);

    if (!over) {
        return NGX_OK;
    }

    ngx_http_agentstream_follower_close(&d->follower);
    ngx_http_agentstream_delivery_over(d);

    return NGX_DONE;
}


/* the turn is not kept, and OpenCode does not know it either; NGX_ERROR: there
   may just be no memory */

static void
ngx_http_agentstream_delivery_lost(void *data, ngx_int_t rc)
{
    ngx_http_agentstream_delivery_t *d = data;

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_delivery_again(d);
        return;
    }

    ngx_http_agentstream_delivery_over(d);
    ngx_http_agentstream_delivery_kick(d);
}


/* what the chat gets in the end */

static void
ngx_http_agentstream_delivery_over(ngx_http_agentstream_delivery_t *d)
{
    ngx_str_t                          text;
    ngx_http_agentstream_piece_t      *piece;
    ngx_http_agentstream_view_args_t   args;

    d->typing = 0;

    if (d->state.ended == 0) {
        d->state.ended = ngx_time();
        ngx_http_agentstream_delivery_save(d, 0);
    }

    if (ngx_array_init(&d->pieces, d->turn, 4,
                       sizeof(ngx_http_agentstream_piece_t))
        != NGX_OK)
    {
        ngx_http_agentstream_delivery_again(d);
        return;
    }

    if (d->view.end) {
        ngx_http_agentstream_delivery_view_args(d, &args);

        if (ngx_http_agentstream_view_final(&d->view, d->turn, &args,
                                            &d->pieces)
            == NGX_OK)
        {
            return;
        }

        if (ngx_time() - d->state.ended
            < NGX_HTTP_AGENTSTREAM_DELIVERY_PATIENCE)
        {
            ngx_http_agentstream_delivery_again(d);
            return;
        }

        d->pieces.nelts = 0;
    }

    ngx_str_set(&text, "The answer was interrupted. Please ask again.");

    piece = ngx_array_push(&d->pieces);

    if (piece) {
        piece->markup = text;
        piece->plain = text;
    }
}


void
ngx_http_agentstream_delivery_finish(ngx_http_agentstream_delivery_t *d)
{
    ngx_http_agentstream_delivery_state_t  *state;

    state = &d->state;

    state->running = 0;
    state->ended = 0;
    state->sent = 0;
    state->sending = NGX_HTTP_AGENTSTREAM_SENDING_NOTHING;
    state->turn.len = 0;
    state->shown.len = 0;

    ngx_http_agentstream_delivery_note(d, 0);
    ngx_http_agentstream_delivery_save(d, 0);

    ngx_http_agentstream_delivery_end_turn(d);
    ngx_http_agentstream_delivery_end_job(d);

    d->began = 0;

    ngx_http_agentstream_delivery_kick(d);
}


void
ngx_http_agentstream_delivery_end_turn(ngx_http_agentstream_delivery_t *d)
{
    if (d->turn == NULL) {
        return;
    }

    ngx_http_agentstream_store_unwatch(ngx_http_agentstream_worker->zone,
                                       &d->watch);
    ngx_memzero(&d->watch, sizeof(ngx_http_agentstream_store_watch_t));

    ngx_http_agentstream_follower_close(&d->follower);
    ngx_http_agentstream_view_destroy(&d->view);
    ngx_memzero(&d->view, sizeof(ngx_http_agentstream_view_t));
    ngx_memzero(&d->pieces, sizeof(ngx_array_t));

    ngx_memzero(d->questions, sizeof(d->questions));
    ngx_destroy_pool(d->turn);

    d->turn = NULL;
    d->typing = 0;
    d->recorded = 0;
}


void
ngx_http_agentstream_delivery_view_args(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_view_args_t *args)
{
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    ngx_memzero(args, sizeof(ngx_http_agentstream_view_args_t));

    args->form = ngx_http_agentstream_delivery_form(d->platform);
    args->limits = ngx_http_agentstream_markdown_limits[args->form];
    args->thoughts = d->site.conf->chat_thoughts;
    args->now = (int64_t) tp->sec * 1000 + tp->msec;
    args->tool_interval = d->site.conf->chat_tool_interval;
    args->heartbeat = d->site.conf->chat_heartbeat;
}


ngx_uint_t
ngx_http_agentstream_delivery_form(
    const ngx_http_agentstream_chat_platform_t *platform)
{
    switch (platform->name.data[0]) {

    case 't':
        return NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM;

    case 's':
        return NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK;

    default: /* "whatsapp" */
        return NGX_HTTP_AGENTSTREAM_MARKDOWN_WHATSAPP;
    }
}
