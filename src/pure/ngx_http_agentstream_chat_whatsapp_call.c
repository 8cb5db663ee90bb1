
/*
 * Copyright (C) agentstream contributors
 */


/*
 * WhatsApp's Cloud API: what the bot sends, and the answers.  Messages cannot
 * be edited or deleted there.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"

#if (NGX_HTTP_AGENTSTREAM_CHATS)


/* more than 3 buttons are a list, and their labels, the text above them, and
   the labels of a list have limits, in characters */
#define NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_BUTTONS  3
#define NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_LABEL    20
#define NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_TEXT     1024
#define NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_ROW      24

/* between two messages to one person, in seconds */
#define NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_PAIR     6


static ngx_int_t ngx_http_agentstream_chat_whatsapp_path(ngx_pool_t *pool,
    ngx_str_t *number, ngx_str_t *path);
static void ngx_http_agentstream_chat_whatsapp_typing(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action);
static void ngx_http_agentstream_chat_whatsapp_say(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action);
static ngx_uint_t ngx_http_agentstream_chat_whatsapp_form(
    ngx_http_agentstream_chat_body_t *body,
    ngx_http_agentstream_chat_action_t *action);
static void ngx_http_agentstream_chat_whatsapp_buttons(
    ngx_http_agentstream_chat_body_t *body, void *interactive,
    ngx_http_agentstream_chat_action_t *action);
static void ngx_http_agentstream_chat_whatsapp_list(
    ngx_http_agentstream_chat_body_t *body, void *interactive,
    ngx_http_agentstream_chat_action_t *action);
static ngx_uint_t ngx_http_agentstream_chat_whatsapp_chars(ngx_str_t *text);
static void ngx_http_agentstream_chat_whatsapp_result(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t action,
    ngx_http_agentstream_chat_answer_t *answer);
static void ngx_http_agentstream_chat_whatsapp_failure(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t error,
    ngx_http_agentstream_chat_answer_t *answer);


typedef struct {
    int64_t                              code;
    ngx_uint_t                           result;
} ngx_http_agentstream_chat_code_t;


static const ngx_http_agentstream_chat_code_t
    ngx_http_agentstream_chat_whatsapp_codes[] =
{
    { 130429, NGX_HTTP_AGENTSTREAM_CHAT_LATER },     /* throughput */
    { 131048, NGX_HTTP_AGENTSTREAM_CHAT_LATER },     /* spam limit */
    { 131056, NGX_HTTP_AGENTSTREAM_CHAT_LATER },     /* to this person */
    { 80007, NGX_HTTP_AGENTSTREAM_CHAT_LATER },      /* calls */
    { 4, NGX_HTTP_AGENTSTREAM_CHAT_LATER },
    { 2, NGX_HTTP_AGENTSTREAM_CHAT_LATER },          /* unavailable */
    { 131016, NGX_HTTP_AGENTSTREAM_CHAT_LATER },
    { 133004, NGX_HTTP_AGENTSTREAM_CHAT_LATER },

    { 1, NGX_HTTP_AGENTSTREAM_CHAT_LOST },           /* unknown */
    { 131000, NGX_HTTP_AGENTSTREAM_CHAT_LOST },

    { 131047, NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },    /* 24 hours */
    { 131026, NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },    /* undeliverable */
    { 131030, NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },    /* not allowed */
    { 131021, NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },    /* to oneself */
    { 131050, NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },    /* unsubscribed */
    { 130497, NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },    /* country */

    { 190, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },       /* token */
    { 0, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { 3, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { 10, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { 200, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { 368, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },       /* policy */
    { 131005, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { 131031, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },    /* locked */
    { 131042, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },    /* payment */
    { 131045, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { 133010, NGX_HTTP_AGENTSTREAM_CHAT_DENIED },    /* not registered */

    { -1, NGX_HTTP_AGENTSTREAM_CHAT_REFUSED }
};


ngx_int_t
ngx_http_agentstream_chat_whatsapp_spell(ngx_pool_t *pool,
    ngx_http_agentstream_chat_action_t *action,
    ngx_http_agentstream_chat_call_t *call)
{
    void                              *object;
    ngx_http_agentstream_chat_body_t   body;

    ngx_memzero(call, sizeof(ngx_http_agentstream_chat_call_t));

    switch (action->kind) {

    case NGX_HTTP_AGENTSTREAM_CHAT_FETCH:
        ngx_str_set(&call->method, "GET");
        call->path = action->path;
        call->args = action->args;
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_CHAT_FILE:
        ngx_str_set(&call->method, "GET");
        call->path = action->file;
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_CHAT_TYPING:

        /* one is shown as an answer to a message */

        if (action->message.len == 0) {
            return NGX_DECLINED;
        }

        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_CREATE:
    case NGX_HTTP_AGENTSTREAM_CHAT_SEND:
    case NGX_HTTP_AGENTSTREAM_CHAT_ASK:
        break;

    default:
        return NGX_DECLINED;
    }

    ngx_str_set(&call->method, "POST");

    if (ngx_http_agentstream_chat_whatsapp_path(pool, &action->place.account,
                                                &call->path)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    object = ngx_http_agentstream_chat_begin(&body, pool);

    ngx_http_agentstream_chat_add_word(&body, object, "messaging_product",
                                       "whatsapp");

    if (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_TYPING) {
        ngx_http_agentstream_chat_whatsapp_typing(&body, object, action);

    } else {
        ngx_http_agentstream_chat_whatsapp_say(&body, object, action);
    }

    return ngx_http_agentstream_chat_finish(&body, &call->body);
}


static ngx_int_t
ngx_http_agentstream_chat_whatsapp_path(ngx_pool_t *pool, ngx_str_t *number,
    ngx_str_t *path)
{
    path->len = number->len + sizeof("/messages") - 1;
    path->data = ngx_pnalloc(pool, path->len);

    if (path->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(ngx_cpymem(path->data, number->data, number->len), "/messages",
               sizeof("/messages") - 1);

    return NGX_OK;
}


static void
ngx_http_agentstream_chat_whatsapp_typing(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action)
{
    void  *indicator;

    ngx_http_agentstream_chat_add_word(body, object, "status", "read");
    ngx_http_agentstream_chat_add_text(body, object, "message_id",
                                       &action->message);
    indicator = ngx_http_agentstream_chat_add_object(body, object,
                                                     "typing_indicator");
    ngx_http_agentstream_chat_add_word(body, indicator, "type", "text");
}


static void
ngx_http_agentstream_chat_whatsapp_say(ngx_http_agentstream_chat_body_t *body,
    void *object, ngx_http_agentstream_chat_action_t *action)
{
    void        *context, *text, *interactive;
    ngx_uint_t   form;

    ngx_http_agentstream_chat_add_word(body, object, "recipient_type",
                                       "individual");
    ngx_http_agentstream_chat_add_text(body, object, "to",
                                       &action->place.chat);

    if (action->message.len
        && action->kind != NGX_HTTP_AGENTSTREAM_CHAT_CREATE)
    {
        context = ngx_http_agentstream_chat_add_object(body, object,
                                                       "context");
        ngx_http_agentstream_chat_add_text(body, context, "message_id",
                                           &action->message);
    }

    form = ngx_http_agentstream_chat_whatsapp_form(body, action);

    if (form == 0) {
        ngx_http_agentstream_chat_add_word(body, object, "type", "text");
        text = ngx_http_agentstream_chat_add_object(body, object, "text");
        ngx_http_agentstream_chat_add_text(body, text, "body", &action->text);
        ngx_http_agentstream_chat_add_flag(body, text, "preview_url", 0);
        return;
    }

    ngx_http_agentstream_chat_add_word(body, object, "type", "interactive");
    interactive = ngx_http_agentstream_chat_add_object(body, object,
                                                       "interactive");
    ngx_http_agentstream_chat_add_word(body, interactive, "type",
                                       (form == 1) ? "button" : "list");
    text = ngx_http_agentstream_chat_add_object(body, interactive, "body");
    ngx_http_agentstream_chat_add_text(body, text, "text", &action->text);

    if (form == 1) {
        ngx_http_agentstream_chat_whatsapp_buttons(body, interactive, action);

    } else {
        ngx_http_agentstream_chat_whatsapp_list(body, interactive, action);
    }
}


/* 0: a text, which can also be answered in words; 1: with buttons; 2: with a
   list.  Two labels that look the same when they are cut would be refused */

static ngx_uint_t
ngx_http_agentstream_chat_whatsapp_form(
    ngx_http_agentstream_chat_body_t *body,
    ngx_http_agentstream_chat_action_t *action)
{
    ngx_str_t   one, other;
    ngx_uint_t  i, n, form, max;

    if (action->kind != NGX_HTTP_AGENTSTREAM_CHAT_ASK
        || action->nbuttons == 0
        || action->nbuttons > ngx_http_agentstream_chat_whatsapp.buttons)
    {
        return 0;
    }

    form = 2;
    max = NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_ROW;

    if (action->nbuttons <= NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_BUTTONS
        && ngx_http_agentstream_chat_whatsapp_chars(&action->text)
           <= NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_TEXT)
    {
        form = 1;
        max = NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_LABEL;
    }

    for (i = 0; i < action->nbuttons; i++) {
        one = ngx_http_agentstream_chat_cut(body, &action->buttons[i].label,
                                            max);

        if (one.len == 0) {
            return 0;
        }

        for (n = 0; n < i; n++) {
            other = ngx_http_agentstream_chat_cut(body,
                                              &action->buttons[n].label, max);

            if (one.len == other.len
                && ngx_strncmp(one.data, other.data, one.len) == 0)
            {
                return 0;
            }
        }
    }

    return form;
}


static ngx_uint_t
ngx_http_agentstream_chat_whatsapp_chars(ngx_str_t *text)
{
    size_t      i;
    ngx_uint_t  n;

    n = 0;

    for (i = 0; i < text->len; i++) {
        n += ((text->data[i] & 0xc0) != 0x80);
    }

    return n;
}


static void
ngx_http_agentstream_chat_whatsapp_buttons(
    ngx_http_agentstream_chat_body_t *body, void *interactive,
    ngx_http_agentstream_chat_action_t *action)
{
    void        *list, *button, *reply;
    ngx_str_t    label;
    ngx_uint_t   i;

    list = ngx_http_agentstream_chat_add_array(body,
                   ngx_http_agentstream_chat_add_object(body, interactive,
                                                        "action"),
                   "buttons");

    for (i = 0; i < action->nbuttons; i++) {
        label = ngx_http_agentstream_chat_cut(body, &action->buttons[i].label,
                                    NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_LABEL);
        button = ngx_http_agentstream_chat_add_object(body, list, NULL);
        ngx_http_agentstream_chat_add_word(body, button, "type", "reply");
        reply = ngx_http_agentstream_chat_add_object(body, button, "reply");
        ngx_http_agentstream_chat_add_text(body, reply, "id",
                                           &action->buttons[i].token);
        ngx_http_agentstream_chat_add_text(body, reply, "title", &label);
    }
}


static void
ngx_http_agentstream_chat_whatsapp_list(
    ngx_http_agentstream_chat_body_t *body, void *interactive,
    ngx_http_agentstream_chat_action_t *action)
{
    void        *object, *list, *row;
    ngx_str_t    label;
    ngx_uint_t   i;

    object = ngx_http_agentstream_chat_add_object(body, interactive, "action");
    ngx_http_agentstream_chat_add_word(body, object, "button", "Choose");
    list = ngx_http_agentstream_chat_add_array(body, object, "sections");
    list = ngx_http_agentstream_chat_add_array(body,
                    ngx_http_agentstream_chat_add_object(body, list, NULL),
                    "rows");

    for (i = 0; i < action->nbuttons; i++) {
        label = ngx_http_agentstream_chat_cut(body, &action->buttons[i].label,
                                      NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_ROW);
        row = ngx_http_agentstream_chat_add_object(body, list, NULL);
        ngx_http_agentstream_chat_add_text(body, row, "id",
                                           &action->buttons[i].token);
        ngx_http_agentstream_chat_add_text(body, row, "title", &label);
    }
}


ngx_int_t
ngx_http_agentstream_chat_whatsapp_read(ngx_pool_t *pool, ngx_uint_t action,
    ngx_http_agentstream_chat_reply_t *reply,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_int_t                          rc;
    ngx_uint_t                         error;
    ngx_http_agentstream_chat_input_t  in;

    rc = ngx_http_agentstream_chat_answered(&in, pool, reply, answer);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_OK : NGX_ERROR;
    }

    error = ngx_http_agentstream_chat_get(&in, in.json.root, "error");

    if (error) {
        ngx_http_agentstream_chat_whatsapp_failure(&in, error, answer);

    } else if (reply->status >= 300) {
        answer->result = (answer->result == NGX_HTTP_AGENTSTREAM_CHAT_DONE)
                         ? NGX_HTTP_AGENTSTREAM_CHAT_REFUSED : answer->result;

    } else {
        ngx_http_agentstream_chat_whatsapp_result(&in, action, answer);
    }

    return ngx_http_agentstream_chat_input_done(&in, NGX_OK);
}


static void
ngx_http_agentstream_chat_whatsapp_result(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t action,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_str_t   url;
    ngx_uint_t  list;

    answer->result = NGX_HTTP_AGENTSTREAM_CHAT_DONE;

    if (action == NGX_HTTP_AGENTSTREAM_CHAT_FILE) {
        answer->size = ngx_http_agentstream_chat_size(in,
                          ngx_http_agentstream_chat_get(in, in->json.root,
                                                        "file_size"));
        url = ngx_http_agentstream_chat_text(in,
                          ngx_http_agentstream_chat_get(in, in->json.root,
                                                        "url"));

        if (ngx_http_agentstream_chat_locate_url(in, &url,
                                         "https://lookaside.fbsbx.com/",
                                         &answer->path, &answer->args)
            != NGX_OK)
        {
            answer->result = NGX_HTTP_AGENTSTREAM_CHAT_REFUSED;
        }

        return;
    }

    list = ngx_http_agentstream_chat_get(in, in->json.root, "messages");

    if (ngx_http_agentstream_json_type(&in->json, list)
        == NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        answer->message = ngx_http_agentstream_chat_token(in,
                          ngx_http_agentstream_chat_get(in,
                              ngx_http_agentstream_json_first(&in->json,
                                                              list),
                              "id"),
                          NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);
    }
}


static void
ngx_http_agentstream_chat_whatsapp_failure(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t error,
    ngx_http_agentstream_chat_answer_t *answer)
{
    int64_t                                  value;
    const ngx_http_agentstream_chat_code_t  *code;

    answer->reason = ngx_http_agentstream_chat_text(in,
                         ngx_http_agentstream_chat_get(in, error, "message"));

    value = ngx_http_agentstream_json_integer(&in->json,
                         ngx_http_agentstream_chat_get(in, error, "code"),
                         -2);

    if (value == 131056 && answer->wait == 0) {
        answer->wait = NGX_HTTP_AGENTSTREAM_CHAT_WHATSAPP_PAIR;
    }

    if (answer->result == NGX_HTTP_AGENTSTREAM_CHAT_LATER) {
        return;
    }

    for (code = ngx_http_agentstream_chat_whatsapp_codes;
         code->code != -1 && code->code != value;
         code++)
    {
        /* void */
    }

    answer->result = code->result;
}

#endif
