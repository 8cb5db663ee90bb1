
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Slack's Events API: events, pressed buttons and slash commands.  What the bot
 * sends is in chat_slack_call.c.
 *
 * In a channel each thread is a session, and a message that is in no thread
 * begins one: its own timestamp is the thread's.  One message can come several
 * times under other ids, and as a message and a mention: (channel, timestamp)
 * is the same.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"

#if (NGX_HTTP_AGENTSTREAM_CHATS)


static ngx_int_t ngx_http_agentstream_chat_slack_genuine(
    ngx_http_agentstream_chat_proof_t *proof, ngx_str_t *body,
    ngx_str_t *secret, time_t now);
static ngx_int_t ngx_http_agentstream_chat_slack_parse(ngx_pool_t *pool,
    ngx_str_t *body, ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates);
static ngx_int_t ngx_http_agentstream_chat_slack_form(ngx_pool_t *pool,
    ngx_str_t *body, ngx_str_t *payload,
    ngx_http_agentstream_chat_updates_t *updates);
static ngx_uint_t ngx_http_agentstream_chat_slack_body(
    ngx_http_agentstream_chat_input_t *in, ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_update_t *update);
static ngx_uint_t ngx_http_agentstream_chat_slack_event(
    ngx_http_agentstream_chat_input_t *in, ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_update_t *update);
static ngx_uint_t ngx_http_agentstream_chat_slack_said(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t event,
    ngx_uint_t *mention);
static ngx_str_t ngx_http_agentstream_chat_slack_me(
    ngx_http_agentstream_chat_input_t *in, ngx_http_agentstream_chat_me_t *me);
static ngx_uint_t ngx_http_agentstream_chat_slack_press(
    ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_update_t *update);
static ngx_uint_t ngx_http_agentstream_chat_slack_command(
    ngx_http_agentstream_chat_input_t *in, ngx_str_t *form,
    ngx_http_agentstream_chat_update_t *update);
static ngx_uint_t ngx_http_agentstream_chat_slack_session(
    ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_update_t *update);
static void ngx_http_agentstream_chat_slack_files(
    ngx_http_agentstream_chat_input_t *in, ngx_uint_t event,
    ngx_http_agentstream_chat_update_t *update);
static ngx_str_t ngx_http_agentstream_chat_slack_text(
    ngx_http_agentstream_chat_input_t *in, ngx_str_t *text, ngx_str_t *bot,
    ngx_uint_t *mentioned);
static u_char *ngx_http_agentstream_chat_slack_reference(u_char *dst,
    ngx_str_t *inner, ngx_str_t *bot, ngx_uint_t *mentioned);
static ngx_uint_t ngx_http_agentstream_chat_slack_equal(ngx_str_t *one,
    ngx_str_t *other);


const ngx_http_agentstream_chat_platform_t
    ngx_http_agentstream_chat_slack =
{
    ngx_string("slack"),
    ngx_string("x-slack-signature"),
    ngx_string("x-slack-request-timestamp"),

    12000,                                 /* units */
    40000,                                 /* bytes */
    0,                                     /* typing lasts */
    1200,                                  /* edit */
    1200,                                  /* edit in a group */
    1000,                                  /* send */
    25,                                    /* buttons */

    { 0, 0 },                              /* all */
    { 1000, 2 },                           /* chat: one in a second */
    { 1000, 2 },                           /* group */
    { 2000, 18 },                          /* edits: 50 in a minute */

    ngx_http_agentstream_chat_slack_genuine,
    NULL,
    ngx_http_agentstream_chat_slack_parse,
    NULL,
    ngx_http_agentstream_chat_slack_spell,
    ngx_http_agentstream_chat_slack_read
};


static ngx_int_t
ngx_http_agentstream_chat_slack_genuine(
    ngx_http_agentstream_chat_proof_t *proof, ngx_str_t *body,
    ngx_str_t *secret, time_t now)
{
    time_t     sent;
    ngx_str_t  version, colon, *list[5];

    sent = ngx_atotm(proof->timestamp.data, proof->timestamp.len);

    if (proof->timestamp.len == 0 || sent == NGX_ERROR
        || sent < now - NGX_HTTP_AGENTSTREAM_CHAT_SKEW
        || sent > now + NGX_HTTP_AGENTSTREAM_CHAT_SKEW)
    {
        return NGX_DECLINED;
    }

    ngx_str_set(&version, "v0:");
    ngx_str_set(&colon, ":");

    list[0] = &version;
    list[1] = &proof->timestamp;
    list[2] = &colon;
    list[3] = body;
    list[4] = NULL;

    return ngx_http_agentstream_chat_signed(&proof->signature, "v0=", secret,
                                            list, 0);
}


static ngx_int_t
ngx_http_agentstream_chat_slack_parse(ngx_pool_t *pool, ngx_str_t *body,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_updates_t *updates)
{
    ngx_int_t                            rc;
    ngx_str_t                            payload;
    ngx_http_agentstream_chat_input_t    in;
    ngx_http_agentstream_chat_update_t  *update;

    if (ngx_http_agentstream_chat_updates_init(pool, updates) != NGX_OK) {
        return NGX_ERROR;
    }

    payload = *body;

    if (body->len > NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX || body->len == 0) {
        return NGX_DECLINED;
    }

    /* events are JSON, everything else is a form, most of it with JSON in it */

    if (body->data[0] != '{') {
        rc = ngx_http_agentstream_chat_slack_form(pool, body, &payload,
                                                  updates);
        if (rc != NGX_AGAIN) {
            return rc;
        }
    }

    rc = ngx_http_agentstream_chat_input(&in, pool, &payload);

    if (rc != NGX_OK) {
        return rc;
    }

    update = ngx_http_agentstream_chat_update_add(&in, updates);

    if (update
        && (!ngx_http_agentstream_chat_slack_body(&in, me, update)
            || in.failed))
    {
        ngx_http_agentstream_chat_update_drop(updates);
    }

    return ngx_http_agentstream_chat_input_done(&in, NGX_OK);
}


/* NGX_AGAIN: payload has to be read */

static ngx_int_t
ngx_http_agentstream_chat_slack_form(ngx_pool_t *pool, ngx_str_t *body,
    ngx_str_t *payload, ngx_http_agentstream_chat_updates_t *updates)
{
    ngx_http_agentstream_chat_input_t    in;
    ngx_http_agentstream_chat_update_t  *update;

    ngx_memzero(&in, sizeof(ngx_http_agentstream_chat_input_t));

    in.pool = pool;

    *payload = ngx_http_agentstream_chat_form(&in, body, "payload");

    if (in.failed) {
        return NGX_ERROR;
    }

    if (payload->len) {
        return NGX_AGAIN;
    }

    update = ngx_http_agentstream_chat_update_add(&in, updates);

    if (update == NULL) {
        return NGX_ERROR;
    }

    if (!ngx_http_agentstream_chat_slack_command(&in, body, update)) {
        ngx_http_agentstream_chat_update_drop(updates);
        return in.failed ? NGX_ERROR : NGX_DECLINED;
    }

    return in.failed ? NGX_ERROR : NGX_OK;
}


static ngx_uint_t
ngx_http_agentstream_chat_slack_body(ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_uint_t  type;

    type = ngx_http_agentstream_chat_get(in, in->json.root, "type");

    if (ngx_http_agentstream_json_is(&in->json, type, "url_verification")) {
        update->kind = NGX_HTTP_AGENTSTREAM_CHAT_HANDSHAKE;
        update->text = ngx_http_agentstream_chat_token(in,
                           ngx_http_agentstream_chat_get(in, in->json.root,
                                                         "challenge"),
                           NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);
        return update->text.len != 0;
    }

    if (ngx_http_agentstream_json_is(&in->json, type, "event_callback")) {
        return ngx_http_agentstream_chat_slack_event(in, me, update);
    }

    if (ngx_http_agentstream_json_is(&in->json, type, "block_actions")) {
        return ngx_http_agentstream_chat_slack_press(in, update);
    }

    return 0;
}


static ngx_uint_t
ngx_http_agentstream_chat_slack_event(ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_me_t *me,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t                           bot, text, parent, name, colon,
                                       *list[4];
    ngx_uint_t                          root, event, mention;
    ngx_http_agentstream_chat_place_t  *place;

    root = in->json.root;
    event = ngx_http_agentstream_chat_get(in, root, "event");
    bot = ngx_http_agentstream_chat_slack_me(in, me);

    if (!ngx_http_agentstream_chat_slack_said(in, event, &mention)) {
        return 0;
    }

    place = &update->place;

    update->id = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, root, "event_id"));
    update->sender = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, event, "user"));
    update->message = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, event, "ts"));
    place->account = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, root, "team_id"));
    place->chat = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, event, "channel"));
    place->thread = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, event, "thread_ts"));
    parent = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, event,
                                                  "parent_user_id"));

    text = ngx_http_agentstream_chat_text(in,
                    ngx_http_agentstream_chat_get(in, event, "text"));
    update->text = ngx_http_agentstream_chat_slack_text(in, &text, &bot,
                                                        &mention);
    ngx_http_agentstream_chat_slack_files(in, event, update);

    if (update->id.len == 0 || update->sender.len == 0
        || update->message.len == 0
        || ngx_http_agentstream_chat_slack_equal(&update->sender, &bot)
        || (update->text.len == 0 && update->files.nelts == 0 && !mention))
    {
        return 0;
    }

    ngx_str_set(&colon, ":");

    list[0] = &place->chat;
    list[1] = &colon;
    list[2] = &update->message;
    list[3] = NULL;

    update->key = ngx_http_agentstream_chat_join(in, list);

    ngx_http_agentstream_chat_command(in, update, &name);

    if (!ngx_http_agentstream_chat_slack_session(in, update)) {
        return 0;
    }

    update->addressed = (!update->group || mention
                         || ngx_http_agentstream_chat_slack_equal(&parent,
                                                                  &bot));
    return 1;
}


/* whether the event is that somebody says something */

static ngx_uint_t
ngx_http_agentstream_chat_slack_said(ngx_http_agentstream_chat_input_t *in,
    ngx_uint_t event, ngx_uint_t *mention)
{
    ngx_uint_t  type, subtype;

    type = ngx_http_agentstream_chat_get(in, event, "type");
    subtype = ngx_http_agentstream_chat_get(in, event, "subtype");

    *mention = ngx_http_agentstream_json_is(&in->json, type, "app_mention");

    if (!*mention
        && !ngx_http_agentstream_json_is(&in->json, type, "message"))
    {
        return 0;
    }

    if (subtype
        && !ngx_http_agentstream_json_is(&in->json, subtype, "file_share")
        && !ngx_http_agentstream_json_is(&in->json, subtype,
                                         "thread_broadcast"))
    {
        return 0;
    }

    return ngx_http_agentstream_chat_get(in, event, "bot_id") == 0;
}


/* the event says for which bot it is */

static ngx_str_t
ngx_http_agentstream_chat_slack_me(ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_me_t *me)
{
    ngx_str_t   id;
    ngx_uint_t  list;

    list = ngx_http_agentstream_chat_get(in, in->json.root, "authorizations");

    id = ngx_http_agentstream_chat_id(in,
                   ngx_http_agentstream_chat_get(in,
                       ngx_http_agentstream_json_first(&in->json, list),
                       "user_id"));

    return id.len ? id : me->id;
}


static ngx_uint_t
ngx_http_agentstream_chat_slack_press(ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t                           time, colon, *list[6];
    ngx_uint_t                          root, user, container, action, team;
    ngx_http_agentstream_chat_place_t  *place;

    root = in->json.root;
    user = ngx_http_agentstream_chat_get(in, root, "user");
    team = ngx_http_agentstream_chat_get(in, root, "team");
    container = ngx_http_agentstream_chat_get(in, root, "container");
    action = ngx_http_agentstream_json_first(&in->json,
                         ngx_http_agentstream_chat_get(in, root, "actions"));

    place = &update->place;

    update->kind = NGX_HTTP_AGENTSTREAM_CHAT_PRESS;
    update->addressed = 1;
    update->sender = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, user, "id"));
    update->message = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, container,
                                                  "message_ts"));
    update->token = ngx_http_agentstream_chat_token(in,
                    ngx_http_agentstream_chat_get(in, action, "value"),
                    NGX_HTTP_AGENTSTREAM_CHAT_TOKEN_MAX);
    update->text = ngx_http_agentstream_chat_text(in,
                    ngx_http_agentstream_chat_get(in,
                        ngx_http_agentstream_chat_get(in, action, "text"),
                        "text"));
    time = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, action, "action_ts"));

    /* who has installed the bot for a whole organization has no team there */

    place->account = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, team, "id"));

    if (place->account.len == 0) {
        place->account = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, user, "team_id"));
    }

    place->chat = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, container,
                                                  "channel_id"));
    place->thread = ngx_http_agentstream_chat_id(in,
                    ngx_http_agentstream_chat_get(in, container,
                                                  "thread_ts"));

    if (update->sender.len == 0 || update->message.len == 0
        || update->token.len == 0 || time.len == 0)
    {
        return 0;
    }

    ngx_str_set(&colon, ":");

    list[0] = &update->sender;
    list[1] = &colon;
    list[2] = &update->message;
    list[3] = &colon;
    list[4] = &time;
    list[5] = NULL;

    update->id = ngx_http_agentstream_chat_join(in, list);

    return ngx_http_agentstream_chat_slack_session(in, update);
}


/* "/agent cancel"; Slack has no such commands in threads */

static ngx_uint_t
ngx_http_agentstream_chat_slack_command(ngx_http_agentstream_chat_input_t *in,
    ngx_str_t *form, ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t                           command, text, slash, name, *list[3];
    ngx_http_agentstream_chat_place_t  *place;

    place = &update->place;

    command = ngx_http_agentstream_chat_form(in, form, "command");
    text = ngx_http_agentstream_chat_form(in, form, "text");
    text = ngx_http_agentstream_chat_trim(text);

    update->id = ngx_http_agentstream_chat_form(in, form, "trigger_id");
    update->sender = ngx_http_agentstream_chat_form(in, form, "user_id");
    place->account = ngx_http_agentstream_chat_form(in, form, "team_id");
    place->chat = ngx_http_agentstream_chat_form(in, form, "channel_id");

    if (command.len < 2 || update->id.len == 0 || update->sender.len == 0
        || update->id.len > NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX
        || !ngx_http_agentstream_name_valid(&update->sender))
    {
        return 0;
    }

    ngx_str_set(&slash, "/");

    list[0] = &slash;
    list[1] = &text;
    list[2] = NULL;

    update->text = text.len ? ngx_http_agentstream_chat_join(in, list)
                            : command;
    update->addressed = 1;

    ngx_http_agentstream_chat_command(in, update, &name);

    if (update->command.len == 0) {
        update->kind = NGX_HTTP_AGENTSTREAM_CHAT_COMMAND;
        ngx_str_set(&update->command, "help");
    }

    return ngx_http_agentstream_chat_slack_session(in, update);
}


static ngx_uint_t
ngx_http_agentstream_chat_slack_session(ngx_http_agentstream_chat_input_t *in,
    ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t                           prefix, colon, *list[7];
    ngx_http_agentstream_chat_place_t  *place;

    place = &update->place;

    if (place->account.len == 0 || place->chat.len == 0) {
        return 0;
    }

    /* only the ids of chats with one person begin so */

    update->group = (place->chat.data[0] != 'D');

    if (update->group && place->thread.len == 0) {
        place->thread = update->message;
    }

    ngx_str_set(&prefix, "slack:");
    ngx_str_set(&colon, ":");

    list[0] = &prefix;
    list[1] = &place->account;
    list[2] = &colon;
    list[3] = &place->chat;
    list[4] = place->thread.len ? &colon : NULL;
    list[5] = &place->thread;
    list[6] = NULL;

    update->session = ngx_http_agentstream_chat_join(in, list);

    return ngx_http_agentstream_name_valid(&update->session);
}


static void
ngx_http_agentstream_chat_slack_files(ngx_http_agentstream_chat_input_t *in,
    ngx_uint_t event, ngx_http_agentstream_chat_update_t *update)
{
    ngx_str_t                          url;
    ngx_uint_t                         files, value;
    ngx_http_agentstream_chat_file_t  *file;

    files = ngx_http_agentstream_chat_get(in, event, "files");

    for (value = ngx_http_agentstream_json_first(&in->json, files);
         value;
         value = ngx_http_agentstream_json_next(&in->json, files, value))
    {
        file = ngx_http_agentstream_chat_file_add(in, update);

        if (file == NULL) {
            return;
        }

        file->name = ngx_http_agentstream_chat_token(in,
                        ngx_http_agentstream_chat_get(in, value, "name"),
                        NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);
        file->mime = ngx_http_agentstream_chat_token(in,
                        ngx_http_agentstream_chat_get(in, value, "mimetype"),
                        NGX_HTTP_AGENTSTREAM_CHAT_REF_MAX);
        file->size = ngx_http_agentstream_chat_size(in,
                        ngx_http_agentstream_chat_get(in, value, "size"));
        url = ngx_http_agentstream_chat_text(in,
                        ngx_http_agentstream_chat_get(in, value,
                                                      "url_private"));

        if (file->name.len == 0) {
            ngx_str_set(&file->name, "file");
        }

        if (ngx_http_agentstream_chat_locate_url(in, &url,
                                                 "https://files.slack.com/",
                                                 &file->path, &file->args)
            == NGX_OK)
        {
            file->picture = ngx_http_agentstream_chat_picture(&file->mime);
        }
    }
}


/*
 * Slack's text as its writer has typed it: "&lt;" is "<", what stands in angle
 * brackets is a link or a name.  The result is never longer.  If the bot is
 * mentioned, mentioned is set, and its name is left out.
 */

static ngx_str_t
ngx_http_agentstream_chat_slack_text(ngx_http_agentstream_chat_input_t *in,
    ngx_str_t *text, ngx_str_t *bot, ngx_uint_t *mentioned)
{
    u_char      *p, *dst, *last, *end;
    ngx_str_t    result, inner;
    ngx_uint_t   i;

    static const struct {
        ngx_str_t  name;
        u_char     ch;
    } entities[] = {
        { ngx_string("&lt;"), '<' },
        { ngx_string("&gt;"), '>' },
        { ngx_string("&amp;"), '&' }
    };

    ngx_str_set(&result, "");

    if (text->len == 0) {
        return result;
    }

    dst = ngx_pnalloc(in->pool, text->len);

    if (dst == NULL) {
        in->failed = 1;
        return result;
    }

    result.data = dst;
    last = text->data + text->len;

    for (p = text->data; p < last; /* void */) {

        if (*p == '<') {
            end = ngx_strlchr(p, last, '>');

            if (end) {
                inner.data = p + 1;
                inner.len = end - inner.data;
                dst = ngx_http_agentstream_chat_slack_reference(dst, &inner,
                                                             bot, mentioned);
                p = end + 1;
                continue;
            }
        }

        for (i = 0; i < 3; i++) {
            if ((size_t) (last - p) >= entities[i].name.len
                && ngx_strncmp(p, entities[i].name.data, entities[i].name.len)
                   == 0)
            {
                break;
            }
        }

        if (i < 3) {
            *dst++ = entities[i].ch;
            p += entities[i].name.len;

        } else {
            *dst++ = *p++;
        }
    }

    result.len = dst - result.data;

    return ngx_http_agentstream_chat_trim(result);
}


static u_char *
ngx_http_agentstream_chat_slack_reference(u_char *dst, ngx_str_t *inner,
    ngx_str_t *bot, ngx_uint_t *mentioned)
{
    u_char     *p, kind;
    ngx_str_t   target, label;

    kind = inner->len ? inner->data[0] : 0;

    target = *inner;
    ngx_str_set(&label, "");

    p = ngx_strlchr(inner->data, inner->data + inner->len, '|');

    if (p) {
        target.len = p - target.data;
        label.data = p + 1;
        label.len = inner->data + inner->len - label.data;
    }

    if (kind != '@' && kind != '#' && kind != '!') {

        /* a link; the label that Slack makes is the end of the address */

        if (label.len == 0
            || (label.len <= target.len
                && ngx_strncmp(target.data + target.len - label.len,
                               label.data, label.len) == 0))
        {
            return ngx_cpymem(dst, target.data, target.len);
        }

        dst = ngx_cpymem(dst, label.data, label.len);
        *dst++ = ' ';
        *dst++ = '(';
        dst = ngx_cpymem(dst, target.data, target.len);
        *dst++ = ')';

        return dst;
    }

    target.data++;
    target.len--;

    if (kind == '@' && ngx_http_agentstream_chat_slack_equal(&target, bot)) {
        *mentioned = 1;
        return dst;
    }

    if (label.len) {
        target = label;
    }

    if (target.len && target.data[0] != '@') {
        *dst++ = (kind == '#') ? '#' : '@';
    }

    return ngx_cpymem(dst, target.data, target.len);
}


static ngx_uint_t
ngx_http_agentstream_chat_slack_equal(ngx_str_t *one, ngx_str_t *other)
{
    return one->len && one->len == other->len
           && ngx_strncmp(one->data, other->data, one->len) == 0;
}

#endif
