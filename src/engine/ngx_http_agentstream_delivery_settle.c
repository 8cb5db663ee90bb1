
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What the platform has answered, and what follows from it: on to the next
 * thing, the same again later, in another form, or never.  An edit is repeated
 * when nobody knows whether it has arrived; a message is not.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_text.h"
#include "ngx_http_agentstream_worker.h"


/* the pause after a failure, doubled each time */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_PAUSE      1000
#define NGX_HTTP_AGENTSTREAM_DELIVERY_PAUSE_MAX  60000

/* the longest pause that a platform can ask for, in seconds */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_WAIT_MAX   3600

/* how often the end of a progress message is tried */
#define NGX_HTTP_AGENTSTREAM_DELIVERY_TRIES      5


static void ngx_http_agentstream_delivery_freeze(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer);
static void ngx_http_agentstream_delivery_settle_out(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer);
static void ngx_http_agentstream_delivery_asked(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_delivery_out_t *out, ngx_str_t *message);
static void ngx_http_agentstream_delivery_keep_question(
    ngx_http_agentstream_delivery_t *d, ngx_uint_t i,
    ngx_http_agentstream_delivery_out_t *out);
static void ngx_http_agentstream_delivery_settle_piece(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer);
static void ngx_http_agentstream_delivery_settle_progress(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer);
static void ngx_http_agentstream_delivery_settle_tidy(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer);
static void ngx_http_agentstream_delivery_log(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer, const char *what);


void
ngx_http_agentstream_delivery_settle(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer)
{
    if (d->kind != NGX_HTTP_AGENTSTREAM_CHAT_TYPING
        && d->kind != NGX_HTTP_AGENTSTREAM_CHAT_PRESSED)
    {
        d->state.next = ngx_current_msec + d->platform->send;
    }

    switch (answer->result) {

    case NGX_HTTP_AGENTSTREAM_CHAT_DONE:
        d->pause = 0;

        if (d->kind == NGX_HTTP_AGENTSTREAM_CHAT_EDIT) {
            ngx_http_agentstream_count(CHAT_EDITS, 1);

        } else if (d->kind != NGX_HTTP_AGENTSTREAM_CHAT_TYPING) {
            ngx_http_agentstream_count(CHAT_OUT, 1);
        }

        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_LATER:
        ngx_http_agentstream_delivery_freeze(d, answer);
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_DENIED:
        ngx_http_agentstream_delivery_log(d, answer, "access is denied");
        ngx_http_agentstream_delivery_freeze(d, answer);
        answer->result = NGX_HTTP_AGENTSTREAM_CHAT_LATER;
        break;

    default:
        break;
    }

    switch (d->what) {

    case NGX_HTTP_AGENTSTREAM_DELIVERY_OUT:
        ngx_http_agentstream_delivery_settle_out(d, answer);
        break;

    case NGX_HTTP_AGENTSTREAM_DELIVERY_PIECE:
        ngx_http_agentstream_delivery_settle_piece(d, answer);
        break;

    case NGX_HTTP_AGENTSTREAM_DELIVERY_PROGRESS:
        ngx_http_agentstream_delivery_settle_progress(d, answer);
        break;

    case NGX_HTTP_AGENTSTREAM_DELIVERY_TIDY:
        ngx_http_agentstream_delivery_settle_tidy(d, answer);
        break;

    default: /* NGX_HTTP_AGENTSTREAM_DELIVERY_TYPING */

        if (answer->result >= NGX_HTTP_AGENTSTREAM_CHAT_GONE) {
            d->refused = 1;
        }
    }
}


/* nothing is sent to this chat until the platform wants it; a successor knows
   it, too */

static void
ngx_http_agentstream_delivery_freeze(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_msec_t  wait;

    if (answer->wait > 0) {
        wait = ngx_min(answer->wait, NGX_HTTP_AGENTSTREAM_DELIVERY_WAIT_MAX);
        wait *= 1000;

    } else {
        d->pause = ngx_min(ngx_max(d->pause * 2,
                                   NGX_HTTP_AGENTSTREAM_DELIVERY_PAUSE),
                           NGX_HTTP_AGENTSTREAM_DELIVERY_PAUSE_MAX);
        wait = d->pause;
    }

    d->state.frozen = ngx_current_msec + wait;
    ngx_http_agentstream_delivery_save(d, 0);
}


static void
ngx_http_agentstream_delivery_settle_out(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_queue_t                          *q;
    ngx_http_agentstream_delivery_out_t  *out;

    q = ngx_queue_head(&d->outs);
    out = ngx_queue_data(q, ngx_http_agentstream_delivery_out_t, queue);

    switch (answer->result) {

    case NGX_HTTP_AGENTSTREAM_CHAT_LATER:

        if (ngx_time() - out->since < d->site.conf->chat_timeout) {
            return;
        }

        ngx_http_agentstream_delivery_log(d, answer, "a message is given up");
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_MARKUP:
    case NGX_HTTP_AGENTSTREAM_CHAT_LONG:

        if (out->action.markup && out->plain.len) {
            out->action.markup = 0;
            out->action.text = out->plain;
            return;
        }

        /* fall through */

    case NGX_HTTP_AGENTSTREAM_CHAT_CLOSED:
    case NGX_HTTP_AGENTSTREAM_CHAT_REFUSED:
        if (out->action.kind != NGX_HTTP_AGENTSTREAM_CHAT_PRESSED
            && out->action.kind != NGX_HTTP_AGENTSTREAM_CHAT_SETTLE)
        {
            ngx_http_agentstream_delivery_log(d, answer,
                                              "a message is refused");
        }

        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_LOST:
        if (out->action.kind == NGX_HTTP_AGENTSTREAM_CHAT_SETTLE) {
            ngx_http_agentstream_delivery_freeze(d, answer);
            return;
        }

        break;

    default: /* DONE, GONE */
        break;
    }

    ngx_http_agentstream_delivery_asked(d, out, &answer->message);
    ngx_http_agentstream_delivery_drop(d, out);
}


/* a question was put to the chat */

static void
ngx_http_agentstream_delivery_asked(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_delivery_out_t *out, ngx_str_t *message)
{
    ngx_uint_t  i;

    if (out->token == 0) {
        return;
    }

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS; i++) {
        if (d->state.asks[i].token == 0) {
            d->state.asks[i].token = out->token;
            d->state.asks[i].after = d->scanned;
            ngx_http_agentstream_delivery_set_id(&d->state.asks[i].message,
                                                 message);
            ngx_http_agentstream_delivery_keep_question(d, i, out);
            ngx_http_agentstream_delivery_save(d, 0);
            d->touched = 1;
            return;
        }
    }
}


/* its text, for the time when its buttons go; if there is no memory, they go
   without it */

static void
ngx_http_agentstream_delivery_keep_question(ngx_http_agentstream_delivery_t *d,
    ngx_uint_t i, ngx_http_agentstream_delivery_out_t *out)
{
    ngx_http_agentstream_delivery_question_t  *question;

    question = &d->questions[i];

    ngx_str_null(&question->text);

    if (d->turn == NULL || out->action.nbuttons == 0) {
        return;
    }

    question->markup = out->action.markup;
    question->text.data = ngx_pstrdup(d->turn, &out->action.text);

    if (question->text.data) {
        question->text.len = out->action.text.len;
    }
}


void
ngx_http_agentstream_delivery_drop(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_delivery_out_t *out)
{
    if (out->entry) {
        ngx_http_agentstream_delivery_save(d, out->entry);
    }

    ngx_queue_remove(&out->queue);
    ngx_destroy_pool(out->pool);
}


static void
ngx_http_agentstream_delivery_settle_piece(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_uint_t                              edit;
    ngx_http_agentstream_delivery_state_t  *state;

    state = &d->state;
    edit = (d->kind == NGX_HTTP_AGENTSTREAM_CHAT_EDIT);

    switch (answer->result) {

    case NGX_HTTP_AGENTSTREAM_CHAT_DONE:
        d->tidied |= edit;
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_LATER:
        if (!edit) {
            state->sending = NGX_HTTP_AGENTSTREAM_SENDING_NOTHING;
            ngx_http_agentstream_delivery_save(d, 0);
        }

        return;

    case NGX_HTTP_AGENTSTREAM_CHAT_LOST:
        /* the next thing is an edit, see send_piece(), or the same edit */
        ngx_http_agentstream_delivery_freeze(d, answer);
        return;

    case NGX_HTTP_AGENTSTREAM_CHAT_GONE:
        if (edit) {
            state->shown.len = 0;
            return;
        }

        /* fall through */

    case NGX_HTTP_AGENTSTREAM_CHAT_MARKUP:
    case NGX_HTTP_AGENTSTREAM_CHAT_LONG:
    case NGX_HTTP_AGENTSTREAM_CHAT_REFUSED:

        if (!d->plain) {
            d->plain = 1;

            if (!edit) {
                state->sending = NGX_HTTP_AGENTSTREAM_SENDING_NOTHING;
                ngx_http_agentstream_delivery_save(d, 0);
            }

            return;
        }

        ngx_http_agentstream_delivery_log(d, answer,
                                          "a part of an answer is refused");
        break;

    default: /* NGX_HTTP_AGENTSTREAM_CHAT_CLOSED */
        ngx_http_agentstream_delivery_log(d, answer,
                                          "the chat does not take the answer");
        state->sent = d->pieces.nelts;
        state->shown.len = 0;
    }

    state->sent++;
    state->sending = NGX_HTTP_AGENTSTREAM_SENDING_NOTHING;
    d->plain = 0;

    ngx_http_agentstream_delivery_save(d, 0);
}


/* a piece that may have arrived, with no message to put it into */

void
ngx_http_agentstream_delivery_doubt(ngx_http_agentstream_delivery_t *d)
{
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "agentstream delivery: the platform's answer to a message "
                  "was lost, and the message is not sent again");

    d->state.sent++;
    d->state.sending = NGX_HTTP_AGENTSTREAM_SENDING_NOTHING;
    d->plain = 0;

    ngx_http_agentstream_delivery_save(d, 0);
}


static void
ngx_http_agentstream_delivery_settle_progress(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_uint_t                              create;
    ngx_http_agentstream_delivery_state_t  *state;

    state = &d->state;
    create = (d->kind == NGX_HTTP_AGENTSTREAM_CHAT_CREATE);

    if (create) {
        state->sending = NGX_HTTP_AGENTSTREAM_SENDING_NOTHING;
    }

    switch (answer->result) {

    case NGX_HTTP_AGENTSTREAM_CHAT_DONE:
        if (create) {
            ngx_http_agentstream_delivery_set_id(&state->shown,
                                                 &answer->message);
        }

        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_MARKUP:
    case NGX_HTTP_AGENTSTREAM_CHAT_LONG:
        state->mute = d->unmarked;
        d->unmarked = 1;
        d->version = 0;
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_LATER:
        d->version = 0;
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_LOST:
        /* an edit is repeated; a message that may be there is not created
           twice */

        state->mute = create;
        d->version = 0;
        break;

    default: /* GONE, CLOSED, REFUSED */
        state->mute = 1;
        state->shown.len = 0;
        ngx_http_agentstream_delivery_log(d, answer, "no progress is shown");
    }

    ngx_http_agentstream_delivery_save(d, 0);
}


static void
ngx_http_agentstream_delivery_settle_tidy(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer)
{
    switch (answer->result) {

    case NGX_HTTP_AGENTSTREAM_CHAT_MARKUP:
    case NGX_HTTP_AGENTSTREAM_CHAT_LONG:

        if (!d->unmarked) {
            d->unmarked = 1;
            return;
        }

        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_LATER:
    case NGX_HTTP_AGENTSTREAM_CHAT_LOST:

        if (++d->tries < NGX_HTTP_AGENTSTREAM_DELIVERY_TRIES) {
            return;
        }

        break;

    default:
        break;
    }

    d->tidied = 1;
}


static void
ngx_http_agentstream_delivery_log(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_chat_answer_t *answer, const char *what)
{
    u_char     buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE];
    ngx_str_t  text;

    text = ngx_http_agentstream_text_escape(buf, &answer->reason);

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "agentstream delivery: %s, the platform says: \"%V\"", what,
                  &text);
}
