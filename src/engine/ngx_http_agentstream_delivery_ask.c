
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Questions and permission requests of a chat's turn.  A question is known by a
 * token that follows from its id, so that nothing has to be kept for its
 * buttons.  Somebody else may answer first, in a page; then the buttons go, and
 * a press that was on its way is told so.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_delivery_int.h"
#include "ngx_http_agentstream_worker.h"


static uint32_t ngx_http_agentstream_delivery_token(ngx_str_t *id);
static ngx_uint_t ngx_http_agentstream_delivery_is_asked(
    ngx_http_agentstream_delivery_t *d, uint32_t token);
static void ngx_http_agentstream_delivery_put(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_view_asked_t *asked, uint32_t token);
static ngx_int_t ngx_http_agentstream_delivery_text(
    ngx_http_agentstream_delivery_out_t *out,
    ngx_http_agentstream_piece_t *piece);
static ngx_int_t ngx_http_agentstream_delivery_buttons(
    ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_delivery_out_t *out, ngx_array_t *asked);
static void ngx_http_agentstream_delivery_take_buttons(
    ngx_http_agentstream_delivery_t *d, ngx_str_t *message);
static void ngx_http_agentstream_delivery_pass(
    ngx_http_agentstream_delivery_errand_t *errand,
    ngx_http_agentstream_view_asked_t *asked, ngx_str_t *body);
static void ngx_http_agentstream_delivery_passed(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static void ngx_http_agentstream_delivery_respond(
    ngx_http_agentstream_delivery_errand_t *errand, const char *text);


void
ngx_http_agentstream_delivery_ask(ngx_http_agentstream_delivery_t *d)
{
    uint32_t                            token;
    ngx_str_t                           message;
    ngx_uint_t                          i, k;
    ngx_http_agentstream_view_asked_t  *asked;

    if (d->turn == NULL) {
        return;
    }

    if (d->view.started && !d->state.ended) {
        ngx_http_agentstream_delivery_note(d, 1);
    }

    /* what was answered, or ended with the turn */

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS; i++) {
        token = d->state.asks[i].token;

        for (k = 0; token && k < d->view.nasked; k++) {
            if (ngx_http_agentstream_delivery_token(&d->view.asked[k].id)
                == token)
            {
                break;
            }
        }

        if (token && (k == d->view.nasked || d->state.ended)) {
            message = ngx_http_agentstream_delivery_get_id(
                                                  &d->state.asks[i].message);
            ngx_http_agentstream_delivery_take_buttons(d, &message);

            d->state.asks[i].token = 0;
            ngx_http_agentstream_delivery_save(d, 0);
        }
    }

    for (k = 0; k < d->view.nasked && !d->state.ended; k++) {
        asked = &d->view.asked[k];
        token = ngx_http_agentstream_delivery_token(&asked->id);

        if (!ngx_http_agentstream_delivery_is_asked(d, token)) {
            ngx_http_agentstream_delivery_put(d, asked, token);
        }
    }
}


static uint32_t
ngx_http_agentstream_delivery_token(ngx_str_t *id)
{
    return ngx_murmur_hash2(id->data, id->len) | 1;
}


/* whether the chat was asked, or will be: the question is in the queue, or
   there are enough others */

static ngx_uint_t
ngx_http_agentstream_delivery_is_asked(ngx_http_agentstream_delivery_t *d,
    uint32_t token)
{
    ngx_uint_t                            i, n;
    ngx_queue_t                          *q;
    ngx_http_agentstream_delivery_out_t  *out;

    n = 0;

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS; i++) {
        if (d->state.asks[i].token == token) {
            return 1;
        }

        n += (d->state.asks[i].token != 0);
    }

    for (q = ngx_queue_head(&d->outs);
         q != ngx_queue_sentinel(&d->outs);
         q = ngx_queue_next(q))
    {
        out = ngx_queue_data(q, ngx_http_agentstream_delivery_out_t, queue);

        if (out->token == token) {
            return 1;
        }

        n += (out->token != 0);
    }

    return n >= NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS;
}


static void
ngx_http_agentstream_delivery_put(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_view_asked_t *asked, uint32_t token)
{
    ngx_int_t                             rc;
    ngx_uint_t                            i;
    ngx_array_t                           buttons, pieces;
    ngx_http_agentstream_piece_t         *piece;
    ngx_http_agentstream_view_args_t      args;
    ngx_http_agentstream_delivery_out_t  *out, *part;

    out = ngx_http_agentstream_delivery_out(d, NGX_HTTP_AGENTSTREAM_CHAT_ASK);
    if (out == NULL) {
        ngx_http_agentstream_delivery_again(d);
        return;
    }

    ngx_http_agentstream_delivery_view_args(d, &args);

    out->token = token;
    out->action.message = ngx_http_agentstream_delivery_get_id(
                                                            &d->state.reply);

    rc = NGX_ERROR;

    if (ngx_array_init(&buttons, out->pool, 4,
                       sizeof(ngx_http_agentstream_asked_button_t))
        == NGX_OK
        && ngx_array_init(&pieces, out->pool, 1,
                          sizeof(ngx_http_agentstream_piece_t))
           == NGX_OK)
    {
        rc = ngx_http_agentstream_asked_show(out->pool, args.form,
                                             &args.limits, &asked->json,
                                             &pieces, &buttons);
    }

    if (rc == NGX_OK) {
        rc = pieces.nelts
             ? ngx_http_agentstream_delivery_buttons(d, out, &buttons)
             : NGX_DECLINED;
    }

    if (rc != NGX_OK) {
        ngx_destroy_pool(out->pool);

        if (rc == NGX_ERROR) {
            ngx_http_agentstream_delivery_again(d);
        }

        return;
    }

    piece = pieces.elts;

    /* a very long one is several messages, the last of which asks */

    for (i = 0; i + 1 < pieces.nelts; i++) {
        part = ngx_http_agentstream_delivery_out(d,
                                              NGX_HTTP_AGENTSTREAM_CHAT_SEND);
        if (part == NULL
            || ngx_http_agentstream_delivery_text(part, &piece[i]) != NGX_OK)
        {
            break;
        }

        ngx_http_agentstream_delivery_push(d, part);
    }

    piece = &piece[pieces.nelts - 1];

    out->action.text = piece->markup;
    out->action.markup = 1;
    out->plain = piece->plain;

    ngx_http_agentstream_delivery_push(d, out);
}


/* a copy of the piece becomes its text; NGX_ERROR: no memory, and it is gone */

static ngx_int_t
ngx_http_agentstream_delivery_text(ngx_http_agentstream_delivery_out_t *out,
    ngx_http_agentstream_piece_t *piece)
{
    u_char  *markup, *plain;

    markup = ngx_pstrdup(out->pool, &piece->markup);
    plain = ngx_pstrdup(out->pool, &piece->plain);

    if (markup == NULL || plain == NULL) {
        ngx_destroy_pool(out->pool);
        return NGX_ERROR;
    }

    out->action.text.data = markup;
    out->action.text.len = piece->markup.len;
    out->action.markup = 1;
    out->plain.data = plain;
    out->plain.len = piece->plain.len;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_delivery_buttons(ngx_http_agentstream_delivery_t *d,
    ngx_http_agentstream_delivery_out_t *out, ngx_array_t *asked)
{
    u_char                               *p;
    ngx_uint_t                            i;
    ngx_http_agentstream_chat_button_t   *to;
    ngx_http_agentstream_asked_button_t  *from;

    /* more than the platform can show are answered in words */

    if (asked->nelts == 0 || asked->nelts > d->platform->buttons) {
        return NGX_OK;
    }

    from = asked->elts;
    to = ngx_pcalloc(out->pool, asked->nelts
                                * sizeof(ngx_http_agentstream_chat_button_t));
    if (to == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < asked->nelts; i++) {
        p = ngx_pnalloc(out->pool, 8 + 1 + NGX_INT_T_LEN);
        if (p == NULL) {
            return NGX_ERROR;
        }

        to[i].label = from[i].label;
        to[i].token.data = p;
        to[i].token.len = ngx_sprintf(p, "%08xD:%ui", out->token,
                                      from[i].index)
                          - p;
    }

    out->action.buttons = to;
    out->action.nbuttons = asked->nelts;

    return NGX_OK;
}


static void
ngx_http_agentstream_delivery_take_buttons(ngx_http_agentstream_delivery_t *d,
    ngx_str_t *message)
{
    u_char                                    *text;
    ngx_uint_t                                 i;
    ngx_http_agentstream_delivery_out_t       *out;
    ngx_http_agentstream_delivery_question_t  *question;

    if (message->len == 0) {
        return;
    }

    out = ngx_http_agentstream_delivery_out(d,
                                            NGX_HTTP_AGENTSTREAM_CHAT_SETTLE);
    if (out == NULL) {
        return;
    }

    out->action.message.len = message->len;
    out->action.message.data = ngx_pstrdup(out->pool, message);

    if (out->action.message.data == NULL) {
        ngx_destroy_pool(out->pool);
        return;
    }

    for (i = 0; i < NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS; i++) {
        question = &d->questions[i];

        if (question->text.len == 0
            || d->state.asks[i].message.len != message->len
            || ngx_memcmp(d->state.asks[i].message.data, message->data,
                          message->len)
               != 0)
        {
            continue;
        }

        text = ngx_pstrdup(out->pool, &question->text);

        if (text) {
            out->action.text.data = text;
            out->action.text.len = question->text.len;
            out->action.markup = question->markup;
        }
    }

    ngx_http_agentstream_delivery_push(d, out);
}


/* the oldest question that the chat has seen */

ngx_int_t
ngx_http_agentstream_delivery_answer(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    uint32_t                            token;
    ngx_int_t                           rc;
    ngx_str_t                           body, text;
    ngx_uint_t                          i, k;
    ngx_http_agentstream_delivery_t    *d;
    ngx_http_agentstream_view_asked_t  *asked;

    d = errand->delivery;

    if (d->turn == NULL || d->state.ended) {
        return NGX_DECLINED;
    }

    asked = NULL;

    for (k = 0; k < d->view.nasked && asked == NULL; k++) {
        token = ngx_http_agentstream_delivery_token(&d->view.asked[k].id);

        for (i = 0; i < NGX_HTTP_AGENTSTREAM_DELIVERY_ASKS; i++) {
            if (d->state.asks[i].token == token
                && errand->entry > d->state.asks[i].after)
            {
                asked = &d->view.asked[k];
            }
        }
    }

    if (asked == NULL
        || (errand->update->text.len == 0 && errand->update->files.nelts))
    {
        return NGX_DECLINED;
    }

    rc = ngx_http_agentstream_asked_answer(errand->pool, &asked->json,
                                           &errand->update->text, &body);

    if (rc == NGX_OK) {
        if (errand->update->files.nelts) {
            (void) ngx_http_agentstream_delivery_unread(d, errand->pool,
                                                        errand->update, 0);
        }

        ngx_http_agentstream_delivery_pass(errand, asked, &body);
        return NGX_OK;
    }

    ngx_str_set(&text, "Please answer the question above: once, always or "
                "reject.");
    ngx_http_agentstream_delivery_say(d, &errand->update->message, &text,
                                      errand->entry);
    ngx_http_agentstream_delivery_end_errand(errand);

    return NGX_OK;
}


void
ngx_http_agentstream_delivery_press(
    ngx_http_agentstream_delivery_errand_t *errand)
{
    u_char                             *p, *last;
    ngx_int_t                           rc, token, index;
    ngx_str_t                           body;
    ngx_uint_t                          k;
    ngx_http_agentstream_delivery_t    *d;
    ngx_http_agentstream_view_asked_t  *asked;

    d = errand->delivery;
    asked = NULL;
    index = NGX_ERROR;

    p = errand->update->token.data;
    last = p + errand->update->token.len;

    if (last - p > 9 && p[8] == ':') {
        token = ngx_hextoi(p, 8);
        index = ngx_atoi(p + 9, last - p - 9);

        for (k = 0; d->turn && !d->state.ended && k < d->view.nasked; k++) {
            if ((ngx_int_t) ngx_http_agentstream_delivery_token(
                                                     &d->view.asked[k].id)
                == token)
            {
                asked = &d->view.asked[k];
            }
        }
    }

    rc = NGX_DECLINED;

    if (asked && index != NGX_ERROR) {
        rc = ngx_http_agentstream_asked_press(errand->pool, &asked->json,
                                              index, &body);
    }

    if (rc == NGX_ERROR) {
        ngx_http_agentstream_delivery_respond(errand, "The answer could not "
                                              "be passed on. Please try "
                                              "again.");
        return;
    }

    if (rc != NGX_OK) {
        ngx_http_agentstream_delivery_take_buttons(d,
                                                   &errand->update->message);
        ngx_http_agentstream_delivery_respond(errand,
                                              "This is no longer open.");
        return;
    }

    ngx_http_agentstream_delivery_pass(errand, asked, &body);
}


/* to OpenCode */

static void
ngx_http_agentstream_delivery_pass(
    ngx_http_agentstream_delivery_errand_t *errand,
    ngx_http_agentstream_view_asked_t *asked, ngx_str_t *body)
{
    ngx_http_agentstream_verb_t  *verb;

    verb = ngx_http_agentstream_verb_answer(&errand->delivery->turn_target,
                                  asked->permission
                                  ? NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION
                                  : NGX_HTTP_AGENTSTREAM_REPLY_QUESTION,
                                  &asked->id, body,
                                  ngx_http_agentstream_delivery_passed,
                                  errand);
    if (verb) {
        errand->verb = verb;
    }
}


static void
ngx_http_agentstream_delivery_passed(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_delivery_errand_t *errand = data;

    errand->verb = NULL;

    if (outcome->code == NGX_HTTP_OK) {
        ngx_http_agentstream_delivery_respond(errand, NULL);
        return;
    }

    if (outcome->code == NGX_HTTP_NOT_FOUND) {
        ngx_http_agentstream_delivery_take_buttons(errand->delivery,
                                                   &errand->update->message);
        ngx_http_agentstream_delivery_respond(errand,
                                          "This was answered already.");
        return;
    }

    ngx_http_agentstream_delivery_respond(errand, "The answer could not be "
                                          "passed on. Please try again.");
}


/* ends the errand: a press is acknowledged, in any case; text may be NULL */

static void
ngx_http_agentstream_delivery_respond(
    ngx_http_agentstream_delivery_errand_t *errand, const char *text)
{
    ngx_str_t                             say, *callback;
    ngx_http_agentstream_delivery_t      *d;
    ngx_http_agentstream_delivery_out_t  *out;

    d = errand->delivery;
    callback = &errand->update->callback;

    say.data = (u_char *) text;
    say.len = text ? ngx_strlen(text) : 0;

    if (callback->len) {
        out = ngx_http_agentstream_delivery_out(d,
                                           NGX_HTTP_AGENTSTREAM_CHAT_PRESSED);

        if (out) {
            out->entry = errand->entry;
            out->action.text = say;
            out->action.callback.len = callback->len;
            out->action.callback.data = ngx_pstrdup(out->pool, callback);

            if (out->action.callback.data) {
                ngx_http_agentstream_delivery_push(d, out);

            } else {
                ngx_destroy_pool(out->pool);
            }
        }

    } else if (say.len) {
        ngx_http_agentstream_delivery_say(d, &errand->update->message, &say,
                                          errand->entry);

    } else {
        ngx_http_agentstream_delivery_save(d, errand->entry);
    }

    ngx_http_agentstream_delivery_end_errand(errand);
}
