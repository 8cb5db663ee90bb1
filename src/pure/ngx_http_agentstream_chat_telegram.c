
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Telegram's Bot API: updates, which come as webhooks or are fetched with
 * getUpdates.  What the bot sends is in chat_telegram_call.c.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"

#if (NGX_HTTP_AGENTSTREAM_CHATS)


static ngx_int_t ngx_http_agentstream_chat_telegram_genuine(
    ngx_http_agentstream_chat_proof_t *proof, ngx_str_t *body,
    ngx_str_t *secret, time_t now);
static ngx_int_t ngx_http_agentstream_chat_telegram_parse(ngx_pool_t *pool,
    ngx_str_t *body, ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates);
static ngx_int_t ngx_http_agentstream_chat_telegram_poll(ngx_pool_t *pool,
    ngx_str_t *body, ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates);
static void ngx_http_agentstream_chat_telegram_update(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates);
static ngx_uint_t ngx_http_agentstream_chat_telegram_message(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_update_t *update);
static ngx_uint_t ngx_http_agentstream_chat_telegram_press(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t query,
    ngx_http_agentstream_chat_update_t *update);
static ngx_uint_t ngx_http_agentstream_chat_telegram_place(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_update_t *update);
static void ngx_http_agentstream_chat_telegram_address(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_update_t *update);
static ngx_uint_t ngx_http_agentstream_chat_telegram_mention(
    ngx_http_agentstream_chat_me_t *me, ngx_str_t *text);
static ngx_uint_t ngx_http_agentstream_chat_telegram_is_me(
    ngx_http_agentstream_chat_me_t *me, ngx_str_t *name);
static void ngx_http_agentstream_chat_telegram_files(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_update_t *update);
static void ngx_http_agentstream_chat_telegram_file(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value, const char *what,
    ngx_http_agentstream_chat_update_t *update);


const ngx_http_agentstream_chat_platform_t
    ngx_http_agentstream_chat_telegram =
{
    ngx_string("telegram"),
    ngx_string("x-telegram-bot-api-secret-token"),
    ngx_null_string,

    4096,                                  /* units */
    32768,                                 /* bytes */
    4000,                                  /* typing */
    900,                                   /* edit */
    3000,                                  /* edit in a group */
    1000,                                  /* send */
    100,                                   /* buttons */

    { 50, 4 },                             /* all: 30 in a second */
    { 0, 0 },                              /* chat: see send */
    { 4000, 4 },                           /* group: 20 in a minute */
    { 0, 0 },                              /* edits count as messages */

    ngx_http_agentstream_chat_telegram_genuine,
    NULL,
    ngx_http_agentstream_chat_telegram_parse,
    ngx_http_agentstream_chat_telegram_poll,
    ngx_http_agentstream_chat_telegram_spell,
    ngx_http_agentstream_chat_telegram_read
};


/* what can be attached to a message; "animation" comes with "document", and is
   reported once */

static const char *const  ngx_http_agentstream_chat_telegram_kinds[] = {
    "document", "voice", "audio", "video", "video_note", "sticker",
    "location", "venue", "contact", "poll", "dice", "game", "story", NULL
};


static ngx_int_t
ngx_http_agentstream_chat_telegram_genuine(
    ngx_http_agentstream_chat_proof_t *proof, ngx_str_t *body,
    ngx_str_t *secret, time_t now)
{
    return (secret->len
            && ngx_http_agentstream_chat_same(&proof->signature, secret))
           ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_http_agentstream_chat_telegram_parse(ngx_pool_t *pool, ngx_str_t *body,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_chat_input_t  in;

    if (ngx_http_agentstream_chat_updates_init(pool, updates) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_agentstream_chat_input(&in, pool, body);

    if (rc != NGX_OK) {
        return rc;
    }

    ngx_http_agentstream_chat_telegram_update(&in, in.json.root, me, updates);

    return ngx_http_agentstream_chat_input_done(&in,
                                    updates->offset ? NGX_OK : NGX_DECLINED);
}


static ngx_int_t
ngx_http_agentstream_chat_telegram_poll(ngx_pool_t *pool, ngx_str_t *body,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates)
{
    ngx_int_t                          rc;
    ngx_uint_t                         value, list;
    ngx_http_agentstream_chat_input_t  in;

    if (ngx_http_agentstream_chat_updates_init(pool, updates) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_agentstream_chat_input(&in, pool, body);

    if (rc != NGX_OK) {
        return rc;
    }

    list = ngx_http_agentstream_chat_get(&in, in.json.root, "result");

    if (ngx_http_agentstream_json_type(&in.json, list)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_chat_input_done(&in, NGX_DECLINED);
    }

    for (value = ngx_http_agentstream_json_first(&in.json, list);
         value;
         value = ngx_http_agentstream_json_next(&in.json, list, value))
    {
        ngx_http_agentstream_chat_telegram_update(&in, value, me, updates);
    }

    return ngx_http_agentstream_chat_input_done(&in, NGX_OK);
}


static void
ngx_http_agentstream_chat_telegram_update(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates)
{
    int64_t                              id;
    ngx_uint_t                           found, message, query;
    ngx_http_agentstream_chat_update_t  *update;

    id = ngx_http_agentstream_json_integer(&in->json,
                          ngx_http_agentstream_chat_get(in, value, "update_id"),
                          -1);

    if (id < 0 || id == NGX_MAX_OFF_T_VALUE) {
        return;
    }

    updates->offset = ngx_max(updates->offset, id + 1);

    update = ngx_http_agentstream_chat_update_add(in, updates);

    if (update == NULL) {
        return;
    }

    update->id = ngx_http_agentstream_chat_id(in,
                         ngx_http_agentstream_chat_get(in, value, "update_id"));

    message = ngx_http_agentstream_chat_get(in, value, "message");
    query = ngx_http_agentstream_chat_get(in, value, "callback_query");

    if (message) {
        found = ngx_http_agentstream_chat_telegram_message(in, message, me,
                                                           update);

    } else {
        found = ngx_http_agentstream_chat_telegram_press(in, query, update);
    }

    if (!found || in->failed) {
        ngx_http_agentstream_chat_update_drop(updates);
    }
}


static ngx_uint_t
ngx_http_agentstream_chat_telegram_message(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t   text;
    ngx_uint_t  from;

    from = ngx_http_agentstream_chat_get(in, message, "from");

    if (!ngx_http_agentstream_chat_telegram_place(in, message, update)
        || ngx_http_agentstream_chat_true(in,
                           ngx_http_agentstream_chat_get(in, from, "is_bot"))
        || ngx_http_agentstream_chat_true(in,
                           ngx_http_agentstream_chat_get(in, message,
                                                     "is_automatic_forward")))
    {
        return 0;
    }

    update->kind = NGX_HTTP_AGENTSTREAM_CHAT_MESSAGE;
    update->sender = ngx_http_agentstream_chat_id(in,
                              ngx_http_agentstream_chat_get(in, from, "id"));
    update->message = ngx_http_agentstream_chat_id(in,
                              ngx_http_agentstream_chat_get(in, message,
                                                            "message_id"));

    text = ngx_http_agentstream_chat_text(in,
                           ngx_http_agentstream_chat_get(in, message, "text"));

    if (text.len == 0) {
        text = ngx_http_agentstream_chat_text(in,
                        ngx_http_agentstream_chat_get(in, message, "caption"));
    }

    update->text = ngx_http_agentstream_chat_trim(text);
    update->album = ngx_http_agentstream_chat_id(in,
                           ngx_http_agentstream_chat_get(in, message,
                                                         "media_group_id"));

    ngx_http_agentstream_chat_telegram_files(in, message, update);

    if (update->sender.len == 0 || update->message.len == 0
        || (update->text.len == 0 && update->files.nelts == 0))
    {
        return 0;
    }

    ngx_http_agentstream_chat_telegram_address(in, message, me, update);

    return 1;
}


static ngx_uint_t
ngx_http_agentstream_chat_telegram_press(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t query,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_uint_t  message;

    message = ngx_http_agentstream_chat_get(in, query, "message");

    if (!ngx_http_agentstream_chat_telegram_place(in, message, update)) {
        return 0;
    }

    update->kind = NGX_HTTP_AGENTSTREAM_CHAT_PRESS;
    update->addressed = 1;
    update->sender = ngx_http_agentstream_chat_id(in,
                       ngx_http_agentstream_chat_get(in,
                          ngx_http_agentstream_chat_get(in, query, "from"),
                          "id"));
    update->message = ngx_http_agentstream_chat_id(in,
                       ngx_http_agentstream_chat_get(in, message,
                                                     "message_id"));
    update->callback = ngx_http_agentstream_chat_id(in,
                       ngx_http_agentstream_chat_get(in, query, "id"));
    update->token = ngx_http_agentstream_chat_token(in,
                       ngx_http_agentstream_chat_get(in, query, "data"),
                       NGX_HTTP_AGENTSTREAM_CHAT_TOKEN_MAX);

    return update->sender.len && update->message.len && update->callback.len
           && update->token.len;
}


/* which chat it is, and which session is meant by that */

static ngx_uint_t
ngx_http_agentstream_chat_telegram_place(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t                           prefix, colon, *list[5];
    ngx_uint_t                          chat;
    ngx_http_agentstream_chat_place_t  *place;

    chat = ngx_http_agentstream_chat_get(in, message, "chat");

    place = &update->place;
    place->chat = ngx_http_agentstream_chat_id(in,
                               ngx_http_agentstream_chat_get(in, chat, "id"));

    /* other threads are only chains of replies */

    if (ngx_http_agentstream_chat_true(in,
                 ngx_http_agentstream_chat_get(in, message,
                                               "is_topic_message")))
    {
        place->thread = ngx_http_agentstream_chat_id(in,
                 ngx_http_agentstream_chat_get(in, message,
                                               "message_thread_id"));
    }

    if (place->chat.len == 0
        || ngx_http_agentstream_json_is(&in->json,
                      ngx_http_agentstream_chat_get(in, chat, "type"),
                      "channel"))
    {
        return 0;
    }

    update->group = !ngx_http_agentstream_json_is(&in->json,
                             ngx_http_agentstream_chat_get(in, chat, "type"),
                             "private");

    ngx_str_set(&prefix, "telegram:");
    ngx_str_set(&colon, ":");

    list[0] = &prefix;
    list[1] = &place->chat;
    list[2] = place->thread.len ? &colon : NULL;
    list[3] = &place->thread;
    list[4] = NULL;

    update->session = ngx_http_agentstream_chat_join(in, list);

    return ngx_http_agentstream_name_valid(&update->session);
}


/* whether the bot is meant; what only says so is removed from the text */

static void
ngx_http_agentstream_chat_telegram_address(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t   name, id;
    ngx_uint_t  from, mentioned, reply;

    mentioned = ngx_http_agentstream_chat_telegram_mention(me, &update->text);

    reply = 0;

    from = ngx_http_agentstream_chat_get(in,
                 ngx_http_agentstream_chat_get(in, message,
                                               "reply_to_message"),
                 "from");

    if (ngx_http_agentstream_chat_true(in,
                            ngx_http_agentstream_chat_get(in, from, "is_bot")))
    {
        id = ngx_http_agentstream_chat_id(in,
                                ngx_http_agentstream_chat_get(in, from, "id"));

        reply = (id.len == me->id.len
                 && ngx_strncmp(id.data, me->id.data, id.len) == 0);
    }

    ngx_http_agentstream_chat_command(in, update, &name);

    update->addressed = (!update->group || mentioned || reply);

    if (update->kind != NGX_HTTP_AGENTSTREAM_CHAT_COMMAND) {
        return;
    }

    if (name.len == 0) {
        update->addressed = 1;
        return;
    }

    if (me->name.len || update->group) {
        /* otherwise it is a command for another bot, or nobody knows it yet */

        update->addressed = ngx_http_agentstream_chat_telegram_is_me(me,
                                                                     &name);
    }
}


static ngx_uint_t
ngx_http_agentstream_chat_telegram_is_me(ngx_http_agentstream_chat_me_t *me,
    ngx_str_t *name)
{
    return name->len == me->name.len
           && ngx_strncasecmp(name->data, me->name.data, name->len) == 0;
}


static ngx_uint_t
ngx_http_agentstream_chat_telegram_mention(ngx_http_agentstream_chat_me_t *me,
    ngx_str_t *text)
{
    u_char     *p, *end, *last;
    ngx_str_t   name;

    if (me->name.len == 0) {
        return 0;
    }

    last = text->data + text->len;

    for (p = text->data; p < last; p = end) {

        end = p + 1;

        if (*p != '@') {
            continue;
        }

        while (end < last && (*end == '_' || (*end >= '0' && *end <= '9')
                              || (*end >= 'a' && *end <= 'z')
                              || (*end >= 'A' && *end <= 'Z')))
        {
            end++;
        }

        name.data = p + 1;
        name.len = end - name.data;

        if (!ngx_http_agentstream_chat_telegram_is_me(me, &name)) {
            continue;
        }

        if (p == text->data) {
            text->len = last - end;
            text->data = end;
            *text = ngx_http_agentstream_chat_trim(*text);
        }

        return 1;
    }

    return 0;
}


static void
ngx_http_agentstream_chat_telegram_files(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t message,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_uint_t   photo, size, value;
    const char  *const *kind;

    photo = ngx_http_agentstream_chat_get(in, message, "photo");

    /* the same picture in several sizes, the largest is the last one */

    size = 0;

    for (value = ngx_http_agentstream_json_first(&in->json, photo);
         value;
         value = ngx_http_agentstream_json_next(&in->json, photo, value))
    {
        size = value;
    }

    if (size) {
        ngx_http_agentstream_chat_telegram_file(in, size, "photo", update);
    }

    for (kind = ngx_http_agentstream_chat_telegram_kinds; *kind; kind++) {
        value = ngx_http_agentstream_chat_get(in, message, *kind);

        if (value) {
            ngx_http_agentstream_chat_telegram_file(in, value, *kind, update);
        }
    }
}


static void
ngx_http_agentstream_chat_telegram_file(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t value, const char *what,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_http_agentstream_chat_file_t  *file;

    file = ngx_http_agentstream_chat_file_add(in, update);

    if (file == NULL) {
        return;
    }

    file->id = ngx_http_agentstream_chat_token(in,
                        ngx_http_agentstream_chat_get(in, value, "file_id"),
                        NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);
    file->mime = ngx_http_agentstream_chat_token(in,
                        ngx_http_agentstream_chat_get(in, value, "mime_type"),
                        NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);
    file->name = ngx_http_agentstream_chat_token(in,
                        ngx_http_agentstream_chat_get(in, value, "file_name"),
                        NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);
    file->size = ngx_http_agentstream_chat_size(in,
                        ngx_http_agentstream_chat_get(in, value, "file_size"));

    if (ngx_strcmp(what, "photo") == 0) {

        /* Telegram makes every photo a JPEG, and does not say so */

        ngx_str_set(&file->mime, "image/jpeg");
    }

    if (file->name.len == 0) {
        file->name.data = (u_char *) what;
        file->name.len = ngx_strlen(what);
    }

    file->picture = (file->id.len
                     && ngx_http_agentstream_chat_picture(&file->mime));
}

#endif
