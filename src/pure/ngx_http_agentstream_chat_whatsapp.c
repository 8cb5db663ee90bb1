
/*
 * Copyright (C) agentstream contributors
 */


/*
 * WhatsApp's Cloud API: messages of people, and the buttons that they press.
 * One webhook can bring several, and receipts come to the same address.  What
 * the bot sends is in chat_whatsapp_call.c.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"

#if (NGX_HTTP_AGENTSTREAM_CHATS)


static ngx_int_t ngx_http_agentstream_chat_whatsapp_genuine(
    ngx_http_agentstream_chat_proof_t *proof, ngx_str_t *body,
    ngx_str_t *secret, time_t now);
static ngx_int_t ngx_http_agentstream_chat_whatsapp_challenge(
    ngx_pool_t *pool, ngx_str_t *args, ngx_str_t *verify, ngx_str_t *answer);
static ngx_int_t ngx_http_agentstream_chat_whatsapp_parse(ngx_pool_t *pool,
    ngx_str_t *body, ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates);
static void ngx_http_agentstream_chat_whatsapp_change(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t change,
    ngx_http_agentstream_chat_updates_t *updates);
static ngx_uint_t ngx_http_agentstream_chat_whatsapp_message(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_str_t *number, ngx_http_agentstream_chat_update_t *update);
static ngx_uint_t ngx_http_agentstream_chat_whatsapp_content(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_update_t *update);
static ngx_uint_t ngx_http_agentstream_chat_whatsapp_press(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_update_t *update);
static void ngx_http_agentstream_chat_whatsapp_file(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value, const char *what,
    ngx_http_agentstream_chat_update_t *update);


const ngx_http_agentstream_chat_platform_t
    ngx_http_agentstream_chat_whatsapp =
{
    ngx_string("whatsapp"),
    ngx_string("x-hub-signature-256"),
    ngx_null_string,

    4096,                                  /* units */
    16384,                                 /* bytes */
    20000,                                 /* typing */
    0,                                     /* edit: nothing can be edited */
    0,                                     /* edit in a group */
    6000,                                  /* send */
    10,                                    /* buttons */

    { 15, 10 },                            /* all: 80 in a second */
    { 0, 0 },                              /* chat: see send */
    { 0, 0 },                              /* group: there are none */
    { 0, 0 },                              /* edits: there are none */

    ngx_http_agentstream_chat_whatsapp_genuine,
    ngx_http_agentstream_chat_whatsapp_challenge,
    ngx_http_agentstream_chat_whatsapp_parse,
    NULL,
    ngx_http_agentstream_chat_whatsapp_spell,
    ngx_http_agentstream_chat_whatsapp_read
};


/* what can be attached to a message */

static const char *const  ngx_http_agentstream_chat_whatsapp_kinds[] = {
    "image", "document", "audio", "video", "sticker", "location", "contacts",
    "order", NULL
};


static ngx_int_t
ngx_http_agentstream_chat_whatsapp_genuine(
    ngx_http_agentstream_chat_proof_t *proof, ngx_str_t *body,
    ngx_str_t *secret, time_t now)
{
    size_t      i;
    ngx_int_t   rc;
    ngx_str_t  *list[2];

    list[0] = body;
    list[1] = NULL;

    rc = ngx_http_agentstream_chat_signed(&proof->signature, "sha256=", secret,
                                          list, 0);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    /* Meta signs the form in which nothing but ASCII occurs, whatever it
       sends */

    for (i = 0; i < body->len; i++) {
        if (body->data[i] >= 0x80) {
            return ngx_http_agentstream_chat_signed(&proof->signature,
                                                    "sha256=", secret, list,
                                                    1);
        }
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_agentstream_chat_whatsapp_challenge(ngx_pool_t *pool,
    ngx_str_t *args, ngx_str_t *verify, ngx_str_t *answer)
{
    size_t                             i;
    ngx_str_t                          mode, token, subscribe;
    ngx_http_agentstream_chat_input_t  in;

    ngx_memzero(&in, sizeof(ngx_http_agentstream_chat_input_t));

    in.pool = pool;

    mode = ngx_http_agentstream_chat_form(&in, args, "hub.mode");
    token = ngx_http_agentstream_chat_form(&in, args, "hub.verify_token");
    *answer = ngx_http_agentstream_chat_form(&in, args, "hub.challenge");

    if (in.failed) {
        return NGX_ERROR;
    }

    ngx_str_set(&subscribe, "subscribe");

    if (verify->len == 0 || !ngx_http_agentstream_chat_same(&token, verify)
        || !ngx_http_agentstream_chat_same(&mode, &subscribe)
        || answer->len == 0
        || answer->len > NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX)
    {
        return NGX_DECLINED;
    }

    /* it is repeated to whoever asks, so it must not be anything but a word */

    for (i = 0; i < answer->len; i++) {
        if ((answer->data[i] < '0' || answer->data[i] > '9')
            && (answer->data[i] < 'a' || answer->data[i] > 'z')
            && (answer->data[i] < 'A' || answer->data[i] > 'Z')
            && answer->data[i] != '_' && answer->data[i] != '-')
        {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_chat_whatsapp_parse(ngx_pool_t *pool, ngx_str_t *body,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates)
{
    ngx_int_t                          rc;
    ngx_uint_t                         entries, entry, changes, change;
    ngx_http_agentstream_chat_input_t  in;

    if (ngx_http_agentstream_chat_updates_init(pool, updates) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_agentstream_chat_input(&in, pool, body);

    if (rc != NGX_OK) {
        return rc;
    }

    entries = ngx_http_agentstream_chat_get(&in, in.json.root, "entry");

    if (ngx_http_agentstream_json_type(&in.json, entries)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_chat_input_done(&in, NGX_DECLINED);
    }

    for (entry = ngx_http_agentstream_json_first(&in.json, entries);
         entry;
         entry = ngx_http_agentstream_json_next(&in.json, entries, entry))
    {
        changes = ngx_http_agentstream_chat_get(&in, entry, "changes");

        if (ngx_http_agentstream_json_type(&in.json, changes)
            != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
        {
            continue;
        }

        for (change = ngx_http_agentstream_json_first(&in.json, changes);
             change;
             change = ngx_http_agentstream_json_next(&in.json, changes,
                                                     change))
        {
            ngx_http_agentstream_chat_whatsapp_change(&in, change, updates);
        }
    }

    return ngx_http_agentstream_chat_input_done(&in, NGX_OK);
}


static void
ngx_http_agentstream_chat_whatsapp_change(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t change,
    ngx_http_agentstream_chat_updates_t *updates)
{
    ngx_str_t                            number;
    ngx_uint_t                           value, messages, message;
    ngx_http_agentstream_chat_update_t  *update;

    value = ngx_http_agentstream_chat_get(in, change, "value");
    messages = ngx_http_agentstream_chat_get(in, value, "messages");
    number = ngx_http_agentstream_chat_id(in,
                   ngx_http_agentstream_chat_get(in,
                       ngx_http_agentstream_chat_get(in, value, "metadata"),
                       "phone_number_id"));

    if (number.len == 0
        || !ngx_http_agentstream_json_is(&in->json,
                   ngx_http_agentstream_chat_get(in, change, "field"),
                   "messages")
        || ngx_http_agentstream_json_type(&in->json, messages)
           != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return;
    }

    for (message = ngx_http_agentstream_json_first(&in->json, messages);
         message;
         message = ngx_http_agentstream_json_next(&in->json, messages,
                                                  message))
    {
        update = ngx_http_agentstream_chat_update_add(in, updates);

        if (update == NULL) {
            return;
        }

        if (!ngx_http_agentstream_chat_whatsapp_message(in, message, &number,
                                                        update)
            || in->failed)
        {
            ngx_http_agentstream_chat_update_drop(updates);
        }
    }
}


static ngx_uint_t
ngx_http_agentstream_chat_whatsapp_message(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_str_t *number, ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t                           prefix, colon, name, *list[5];
    ngx_http_agentstream_chat_place_t  *place;

    place = &update->place;

    update->id = ngx_http_agentstream_chat_token(in,
                       ngx_http_agentstream_chat_get(in, message, "id"),
                       NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);
    update->sender = ngx_http_agentstream_chat_id(in,
                       ngx_http_agentstream_chat_get(in, message, "from"));
    update->message = update->id;
    update->addressed = 1;

    place->account = *number;
    place->chat = update->sender;

    if (update->id.len == 0 || update->sender.len == 0
        || ngx_http_agentstream_chat_get(in, message, "group_id"))
    {
        return 0;
    }

    ngx_str_set(&prefix, "whatsapp:");
    ngx_str_set(&colon, ":");

    list[0] = &prefix;
    list[1] = number;
    list[2] = &colon;
    list[3] = &update->sender;
    list[4] = NULL;

    update->session = ngx_http_agentstream_chat_join(in, list);

    if (!ngx_http_agentstream_name_valid(&update->session)) {
        return 0;
    }

    if (ngx_http_agentstream_json_is(&in->json,
                         ngx_http_agentstream_chat_get(in, message, "type"),
                         "interactive"))
    {
        return ngx_http_agentstream_chat_whatsapp_press(in, message, update);
    }

    if (!ngx_http_agentstream_chat_whatsapp_content(in, message, update)) {
        return 0;
    }

    ngx_http_agentstream_chat_command(in, update, &name);

    return 1;
}


static ngx_uint_t
ngx_http_agentstream_chat_whatsapp_content(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t    text;
    ngx_uint_t   type, value;
    const char  *const *kind;

    type = ngx_http_agentstream_chat_get(in, message, "type");
    ngx_str_set(&text, "");

    if (ngx_http_agentstream_json_is(&in->json, type, "text")) {
        text = ngx_http_agentstream_chat_text(in,
                   ngx_http_agentstream_chat_get(in,
                       ngx_http_agentstream_chat_get(in, message, "text"),
                       "body"));

    } else if (ngx_http_agentstream_json_is(&in->json, type, "button")) {

        /* the answer to a template */

        text = ngx_http_agentstream_chat_text(in,
                   ngx_http_agentstream_chat_get(in,
                       ngx_http_agentstream_chat_get(in, message, "button"),
                       "text"));
    }

    for (kind = ngx_http_agentstream_chat_whatsapp_kinds; *kind; kind++) {
        value = ngx_http_agentstream_chat_get(in, message, *kind);

        if (value && ngx_http_agentstream_json_is(&in->json, type, *kind)) {
            ngx_http_agentstream_chat_whatsapp_file(in, value, *kind, update);
            text = ngx_http_agentstream_chat_text(in,
                       ngx_http_agentstream_chat_get(in, value, "caption"));
        }
    }

    update->text = ngx_http_agentstream_chat_trim(text);

    return update->text.len || update->files.nelts;
}


static ngx_uint_t
ngx_http_agentstream_chat_whatsapp_press(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_uint_t  interactive, reply;

    interactive = ngx_http_agentstream_chat_get(in, message, "interactive");
    reply = ngx_http_agentstream_chat_get(in, interactive, "button_reply");

    if (reply == 0) {
        reply = ngx_http_agentstream_chat_get(in, interactive, "list_reply");
    }

    update->kind = NGX_HTTP_AGENTSTREAM_CHAT_PRESS;
    update->token = ngx_http_agentstream_chat_token(in,
                        ngx_http_agentstream_chat_get(in, reply, "id"),
                        NGX_HTTP_AGENTSTREAM_CHAT_TOKEN_MAX);
    update->text = ngx_http_agentstream_chat_text(in,
                        ngx_http_agentstream_chat_get(in, reply, "title"));
    update->message = ngx_http_agentstream_chat_token(in,
                        ngx_http_agentstream_chat_get(in,
                            ngx_http_agentstream_chat_get(in, message,
                                                          "context"),
                            "id"),
                        NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);

    return update->token.len && update->message.len;
}


static void
ngx_http_agentstream_chat_whatsapp_file(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value, const char *what,
    ngx_http_agentstream_chat_update_t *update)
{
    u_char                            *p;
    ngx_http_agentstream_chat_file_t  *file;

    file = ngx_http_agentstream_chat_file_add(in, update);

    if (file == NULL) {
        return;
    }

    file->id = ngx_http_agentstream_chat_id(in,
                        ngx_http_agentstream_chat_get(in, value, "id"));
    file->mime = ngx_http_agentstream_chat_token(in,
                        ngx_http_agentstream_chat_get(in, value, "mime_type"),
                        NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);
    file->name = ngx_http_agentstream_chat_token(in,
                        ngx_http_agentstream_chat_get(in, value, "filename"),
                        NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);

    /* "audio/ogg; codecs=opus" */

    p = ngx_strlchr(file->mime.data, file->mime.data + file->mime.len, ';');

    if (p) {
        file->mime.len = p - file->mime.data;
    }

    if (file->name.len == 0) {
        file->name.data = (u_char *) what;
        file->name.len = ngx_strlen(what);
    }

    /* the id becomes a path */

    file->picture = (file->id.len
                     && ngx_strlchr(file->id.data,
                                    file->id.data + file->id.len, '.')
                        == NULL
                     && ngx_http_agentstream_chat_picture(&file->mime));
}

#endif
