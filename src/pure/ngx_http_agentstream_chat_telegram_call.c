
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Telegram's Bot API: the methods that the bot calls, and their answers.
 *
 * Every text is sent as HTML, also one that shall be shown as it is: so a
 * mention that the agent has written can be made code, and nobody is notified
 * of it.  Telegram would find it in a plain text, too.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"

#if (NGX_HTTP_AGENTSTREAM_CHATS)


/* Telegram's names have 5 characters and more; those that it sells have 4 */
#define NGX_HTTP_AGENTSTREAM_CHAT_TELEGRAM_NAME   4

/* of a button's label, and of one row of them */
#define NGX_HTTP_AGENTSTREAM_CHAT_TELEGRAM_LABEL  60
#define NGX_HTTP_AGENTSTREAM_CHAT_TELEGRAM_ROW    30

/* of what appears when a button was pressed, in characters */
#define NGX_HTTP_AGENTSTREAM_CHAT_TELEGRAM_POPUP  190


static void ngx_http_agentstream_chat_telegram_text(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action);
static void ngx_http_agentstream_chat_telegram_reply(
    ngx_http_agentstream_chat_body_t *body, void *object, ngx_str_t *message);
static void ngx_http_agentstream_chat_telegram_keyboard(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action);
static void ngx_http_agentstream_chat_telegram_thread(
    ngx_http_agentstream_chat_body_t *body, void *object, ngx_str_t *thread);
static void ngx_http_agentstream_chat_telegram_members(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action);
static u_char *ngx_http_agentstream_chat_telegram_hush(u_char *dst,
    ngx_str_t *text);
static size_t ngx_http_agentstream_chat_telegram_name(u_char *p,
    u_char *last);
static ngx_uint_t ngx_http_agentstream_chat_telegram_tag(u_char *p,
    u_char *last, const char *name);
static void ngx_http_agentstream_chat_telegram_result(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t action,
    ngx_http_agentstream_chat_answer_t *answer);
static void ngx_http_agentstream_chat_telegram_failure(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t status,
    ngx_http_agentstream_chat_answer_t *answer);


/* by action */

static const ngx_str_t  ngx_http_agentstream_chat_telegram_methods[] = {
    ngx_string("getMe"),
    ngx_string("getUpdates"),
    ngx_string("sendChatAction"),
    ngx_string("sendMessage"),
    ngx_string("editMessageText"),
    ngx_string("deleteMessage"),
    ngx_string("sendMessage"),
    ngx_string("sendMessage"),
    ngx_string("answerCallbackQuery"),
    ngx_string("editMessageReplyMarkup"),
    ngx_string("getFile")
};


/* what Telegram says with the status 400 */

static const ngx_http_agentstream_chat_error_t
    ngx_http_agentstream_chat_telegram_errors[] =
{
    { "message is not modified", NGX_HTTP_AGENTSTREAM_CHAT_DONE },
    { "parse entities", NGX_HTTP_AGENTSTREAM_CHAT_MARKUP },
    { "too long", NGX_HTTP_AGENTSTREAM_CHAT_LONG },
    { "too_long", NGX_HTTP_AGENTSTREAM_CHAT_LONG },
    { "message to ", NGX_HTTP_AGENTSTREAM_CHAT_GONE },
    { "message can't be ", NGX_HTTP_AGENTSTREAM_CHAT_GONE },
    { "message_id_invalid", NGX_HTTP_AGENTSTREAM_CHAT_GONE },
    { "query is too old", NGX_HTTP_AGENTSTREAM_CHAT_GONE },
    { "query_id_invalid", NGX_HTTP_AGENTSTREAM_CHAT_GONE },
    { "chat not found", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "chat was upgraded", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "chat was deleted", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "chat_write_forbidden", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "peer_id_invalid", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "user not found", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "thread not found", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "topic_closed", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "topic_deleted", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "rights", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { NULL, NGX_HTTP_AGENTSTREAM_CHAT_REFUSED }
};


ngx_int_t
ngx_http_agentstream_chat_telegram_spell(ngx_pool_t *pool,
    ngx_http_agentstream_chat_action_t *action,
    ngx_http_agentstream_chat_call_t *call)
{
    void                              *object;
    ngx_http_agentstream_chat_body_t   body;

    ngx_memzero(call, sizeof(ngx_http_agentstream_chat_call_t));

    if (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_FETCH) {
        ngx_str_set(&call->method, "GET");
        call->path = action->path;
        call->args = action->args;
        return NGX_OK;
    }

    ngx_str_set(&call->method, "POST");
    call->path = ngx_http_agentstream_chat_telegram_methods[action->kind];

    object = ngx_http_agentstream_chat_begin(&body, pool);

    if (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_SETTLE && action->text.len) {
        ngx_str_set(&call->path, "editMessageText");
        ngx_http_agentstream_chat_telegram_text(&body, object, action);
    }

    ngx_http_agentstream_chat_telegram_members(&body, object, action);

    return ngx_http_agentstream_chat_finish(&body, &call->body);
}


static void
ngx_http_agentstream_chat_telegram_members(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action)
{
    void       *list;
    ngx_str_t   text;

    switch (action->kind) {

    case NGX_HTTP_AGENTSTREAM_CHAT_ME:
        return;

    case NGX_HTTP_AGENTSTREAM_CHAT_POLL:
        ngx_http_agentstream_chat_add_integer(body, object, "offset",
                                              action->offset);
        ngx_http_agentstream_chat_add_integer(body, object, "timeout",
                                              action->timeout);

        /* ten of the longest messages are not too large an answer */

        ngx_http_agentstream_chat_add_integer(body, object, "limit", 10);

        list = ngx_http_agentstream_chat_add_array(body, object,
                                                   "allowed_updates");
        ngx_http_agentstream_chat_add_word(body, list, NULL, "message");
        ngx_http_agentstream_chat_add_word(body, list, NULL, "callback_query");
        return;

    case NGX_HTTP_AGENTSTREAM_CHAT_PRESSED:
        ngx_http_agentstream_chat_add_text(body, object, "callback_query_id",
                                           &action->callback);
        if (action->text.len) {
            text = ngx_http_agentstream_chat_cut(body, &action->text,
                                     NGX_HTTP_AGENTSTREAM_CHAT_TELEGRAM_POPUP);
            ngx_http_agentstream_chat_add_text(body, object, "text", &text);
        }

        return;

    case NGX_HTTP_AGENTSTREAM_CHAT_FILE:
        ngx_http_agentstream_chat_add_text(body, object, "file_id",
                                           &action->file);
        return;
    }

    ngx_http_agentstream_chat_add_number(body, object, "chat_id",
                                         &action->place.chat);

    switch (action->kind) {

    case NGX_HTTP_AGENTSTREAM_CHAT_TYPING:
        ngx_http_agentstream_chat_telegram_thread(body, object,
                                                  &action->place.thread);
        ngx_http_agentstream_chat_add_word(body, object, "action", "typing");
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_CREATE:
        ngx_http_agentstream_chat_telegram_thread(body, object,
                                                  &action->place.thread);
        ngx_http_agentstream_chat_telegram_text(body, object, action);
        ngx_http_agentstream_chat_add_flag(body, object,
                                           "disable_notification", 1);
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_SEND:
    case NGX_HTTP_AGENTSTREAM_CHAT_ASK:
        ngx_http_agentstream_chat_telegram_thread(body, object,
                                                  &action->place.thread);
        ngx_http_agentstream_chat_telegram_text(body, object, action);
        ngx_http_agentstream_chat_telegram_reply(body, object,
                                                 &action->message);
        if (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_ASK) {
            ngx_http_agentstream_chat_telegram_keyboard(body, object, action);
        }

        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_EDIT:
        ngx_http_agentstream_chat_telegram_text(body, object, action);

        /* fall through */

    default: /* DELETE, SETTLE; without buttons they are removed */
        ngx_http_agentstream_chat_add_number(body, object, "message_id",
                                             &action->message);
    }
}


static void
ngx_http_agentstream_chat_telegram_thread(
    ngx_http_agentstream_chat_body_t *body, void *object, ngx_str_t *thread)
{
    if (thread->len) {
        ngx_http_agentstream_chat_add_number(body, object,
                                             "message_thread_id", thread);
    }
}


static void
ngx_http_agentstream_chat_telegram_reply(
    ngx_http_agentstream_chat_body_t *body, void *object, ngx_str_t *message)
{
    void  *reply;

    if (message->len == 0) {
        return;
    }

    reply = ngx_http_agentstream_chat_add_object(body, object,
                                                 "reply_parameters");
    ngx_http_agentstream_chat_add_number(body, reply, "message_id", message);

    /* the question may have been deleted, the answer is wanted anyway */

    ngx_http_agentstream_chat_add_flag(body, reply,
                                       "allow_sending_without_reply", 1);
}


static void
ngx_http_agentstream_chat_telegram_text(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action)
{
    void       *options;
    u_char     *escaped, *hushed;
    ngx_str_t   text;

    text = action->text;

    escaped = ngx_alloc(text.len * (sizeof("&amp;") - 1) + 1,
                        body->pool->log);

    if (escaped == NULL) {
        body->failed = 1;
        return;
    }

    text.len = (action->markup
                ? ngx_http_agentstream_chat_clean(escaped, &text)
                : ngx_http_agentstream_chat_escape(escaped, &text))
               - escaped;
    text.data = escaped;

    /* what is put around the shortest name is less than three times as long */

    hushed = ngx_alloc(text.len * 4 + 1, body->pool->log);

    if (hushed) {
        text.len = ngx_http_agentstream_chat_telegram_hush(hushed, &text)
                   - hushed;
        text.data = hushed;

        ngx_http_agentstream_chat_add_text(body, object, "text", &text);
        ngx_http_agentstream_chat_add_word(body, object, "parse_mode", "HTML");

        options = ngx_http_agentstream_chat_add_object(body, object,
                                                      "link_preview_options");
        ngx_http_agentstream_chat_add_flag(body, options, "is_disabled", 1);

        ngx_free(hushed);

    } else {
        body->failed = 1;
    }

    ngx_free(escaped);
}


/* makes each "@name" code, unless it is code or a link already */

static u_char *
ngx_http_agentstream_chat_telegram_hush(u_char *dst, ngx_str_t *text)
{
    u_char      *p, *last;
    size_t       n;
    ngx_uint_t   code, tag;

    code = 0;
    tag = 0;

    last = text->data + text->len;

    for (p = text->data; p < last; p++) {

        if (*p == '<') {
            tag = 1;
            code += ngx_http_agentstream_chat_telegram_tag(p, last, "<code")
                    + ngx_http_agentstream_chat_telegram_tag(p, last, "<pre")
                    + ngx_http_agentstream_chat_telegram_tag(p, last, "<a");

            if (code) {
                code -= ngx_http_agentstream_chat_telegram_tag(p, last,
                                                               "</code")
                        + ngx_http_agentstream_chat_telegram_tag(p, last,
                                                                 "</pre")
                        + ngx_http_agentstream_chat_telegram_tag(p, last,
                                                                 "</a");
            }

        } else if (*p == '>') {
            tag = 0;
        }

        n = 0;

        if (*p == '@' && !code && !tag
            && (p == text->data
                || ngx_http_agentstream_chat_telegram_name(p - 1, p) == 0))
        {
            n = ngx_http_agentstream_chat_telegram_name(p + 1, last);
        }

        if (n < NGX_HTTP_AGENTSTREAM_CHAT_TELEGRAM_NAME) {
            *dst++ = *p;
            continue;
        }

        dst = ngx_cpymem(dst, "<code>", sizeof("<code>") - 1);
        dst = ngx_cpymem(dst, p, n + 1);
        dst = ngx_cpymem(dst, "</code>", sizeof("</code>") - 1);

        p += n;
    }

    return dst;
}


/* how many characters of a name are there */

static size_t
ngx_http_agentstream_chat_telegram_name(u_char *p, u_char *last)
{
    u_char  *start;

    for (start = p; p < last; p++) {
        if (*p != '_' && (*p < '0' || *p > '9') && (*p < 'a' || *p > 'z')
            && (*p < 'A' || *p > 'Z'))
        {
            break;
        }
    }

    return p - start;
}


static ngx_uint_t
ngx_http_agentstream_chat_telegram_tag(u_char *p, u_char *last,
    const char *name)
{
    size_t  len;

    len = ngx_strlen(name);

    return (size_t) (last - p) > len && ngx_strncmp(p, name, len) == 0
           && (p[len] == '>' || p[len] == ' ');
}


static void
ngx_http_agentstream_chat_telegram_keyboard(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action)
{
    void        *list, *row, *key;
    size_t       len;
    ngx_str_t    label;
    ngx_uint_t   i;

    list = ngx_http_agentstream_chat_add_array(body,
                      ngx_http_agentstream_chat_add_object(body, object,
                                                           "reply_markup"),
                      "inline_keyboard");
    row = NULL;
    len = 0;

    for (i = 0; i < action->nbuttons; i++) {
        label = ngx_http_agentstream_chat_cut(body, &action->buttons[i].label,
                                    NGX_HTTP_AGENTSTREAM_CHAT_TELEGRAM_LABEL);
        len += label.len;

        if (row == NULL || len > NGX_HTTP_AGENTSTREAM_CHAT_TELEGRAM_ROW) {
            row = ngx_http_agentstream_chat_add_array(body, list, NULL);
            len = label.len;
        }

        key = ngx_http_agentstream_chat_add_object(body, row, NULL);
        ngx_http_agentstream_chat_add_text(body, key, "text", &label);
        ngx_http_agentstream_chat_add_text(body, key, "callback_data",
                                           &action->buttons[i].token);
    }
}


ngx_int_t
ngx_http_agentstream_chat_telegram_read(ngx_pool_t *pool, ngx_uint_t action,
    ngx_http_agentstream_chat_reply_t *reply,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_chat_input_t  in;

    rc = ngx_http_agentstream_chat_answered(&in, pool, reply, answer);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_OK : NGX_ERROR;
    }

    if (ngx_http_agentstream_chat_true(&in,
                      ngx_http_agentstream_chat_get(&in, in.json.root, "ok")))
    {
        ngx_http_agentstream_chat_telegram_result(&in, action, answer);

    } else {
        ngx_http_agentstream_chat_telegram_failure(&in, reply->status, answer);
    }

    return ngx_http_agentstream_chat_input_done(&in, NGX_OK);
}


static void
ngx_http_agentstream_chat_telegram_result(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t action,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_str_t   path;
    ngx_uint_t  value;

    answer->result = NGX_HTTP_AGENTSTREAM_CHAT_DONE;

    value = ngx_http_agentstream_chat_get(in, in->json.root, "result");

    switch (action) {

    case NGX_HTTP_AGENTSTREAM_CHAT_ME:
        answer->me.id = ngx_http_agentstream_chat_id(in,
                         ngx_http_agentstream_chat_get(in, value, "id"));
        answer->me.name = ngx_http_agentstream_chat_id(in,
                         ngx_http_agentstream_chat_get(in, value, "username"));
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_FILE:
        path = ngx_http_agentstream_chat_text(in,
                         ngx_http_agentstream_chat_get(in, value,
                                                       "file_path"));
        answer->size = ngx_http_agentstream_chat_size(in,
                         ngx_http_agentstream_chat_get(in, value,
                                                       "file_size"));

        if (ngx_http_agentstream_chat_locate(in, &answer->path, &path)
            != NGX_OK)
        {
            answer->result = NGX_HTTP_AGENTSTREAM_CHAT_REFUSED;
        }

        break;

    default:
        answer->message = ngx_http_agentstream_chat_id(in,
                         ngx_http_agentstream_chat_get(in, value,
                                                       "message_id"));
    }
}


static void
ngx_http_agentstream_chat_telegram_failure(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t status,
    ngx_http_agentstream_chat_answer_t *answer)
{
    int64_t     wait;
    ngx_uint_t  parameters;

    answer->reason = ngx_http_agentstream_chat_text(in,
                         ngx_http_agentstream_chat_get(in, in->json.root,
                                                       "description"));

    parameters = ngx_http_agentstream_chat_get(in, in->json.root,
                                               "parameters");

    wait = ngx_http_agentstream_json_integer(&in->json,
                         ngx_http_agentstream_chat_get(in, parameters,
                                                       "retry_after"),
                         0);

    if (wait > 0) {
        answer->wait = ngx_min(wait, NGX_HTTP_AGENTSTREAM_CHAT_WAIT_MAX);
    }

    answer->chat = ngx_http_agentstream_chat_id(in,
                         ngx_http_agentstream_chat_get(in, parameters,
                                                       "migrate_to_chat_id"));

    switch (status) {

    case 400:
        answer->result = ngx_http_agentstream_chat_error(
                                   ngx_http_agentstream_chat_telegram_errors,
                                   &answer->reason);
        answer->unchanged = (answer->result == NGX_HTTP_AGENTSTREAM_CHAT_DONE);
        break;

    case 401:
    case 404:
    case 409:
        answer->result = NGX_HTTP_AGENTSTREAM_CHAT_DENIED;
        break;

    case 403:
        answer->result = NGX_HTTP_AGENTSTREAM_CHAT_CLOSED;
        break;

    case 413:
        answer->result = NGX_HTTP_AGENTSTREAM_CHAT_LONG;
        break;

    default:

        /* Telegram has answered itself that it could not do it */

        answer->result = (status == 429 || status >= 500)
                         ? NGX_HTTP_AGENTSTREAM_CHAT_LATER
                         : NGX_HTTP_AGENTSTREAM_CHAT_REFUSED;
    }
}

#endif
