
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Slack's Web API: the methods that the bot calls, and their answers.
 *
 * Text with markup is Markdown, which Slack reads itself.  Nothing that the
 * agent has written may call people together: "<!channel>", "<@U123>" and
 * "<#C123>" get a character without width behind the bracket, so that they look
 * as before, and mean nothing.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_chat_int.h"

#if (NGX_HTTP_AGENTSTREAM_CHATS)


/* of a button's label, of the text of a section, and of what is shown in a
   notification, in characters */
#define NGX_HTTP_AGENTSTREAM_CHAT_SLACK_LABEL    75
#define NGX_HTTP_AGENTSTREAM_CHAT_SLACK_SECTION  3000
#define NGX_HTTP_AGENTSTREAM_CHAT_SLACK_NOTICE   150

/* U+2060, a "word joiner" */
#define NGX_HTTP_AGENTSTREAM_CHAT_SLACK_JOINER   "\xe2\x81\xa0"


static void ngx_http_agentstream_chat_slack_content(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action);
static void ngx_http_agentstream_chat_slack_settle(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action);
static void ngx_http_agentstream_chat_slack_blocks(
    ngx_http_agentstream_chat_body_t *body, void *object,
    ngx_http_agentstream_chat_action_t *action);
static ngx_str_t ngx_http_agentstream_chat_slack_hush(
    ngx_http_agentstream_chat_body_t *body, ngx_str_t *text);
static ngx_str_t ngx_http_agentstream_chat_slack_escape(
    ngx_http_agentstream_chat_body_t *body, ngx_str_t *text);
static ngx_uint_t ngx_http_agentstream_chat_slack_calls(u_char *p,
    u_char *last);


/* by action; without a name: there is no such thing */

static const ngx_str_t  ngx_http_agentstream_chat_slack_methods[] = {
    ngx_string("auth.test"),
    ngx_null_string,
    ngx_string("assistant.threads.setStatus"),
    ngx_string("chat.postMessage"),
    ngx_string("chat.update"),
    ngx_string("chat.delete"),
    ngx_string("chat.postMessage"),
    ngx_string("chat.postMessage"),
    ngx_null_string,
    ngx_string("chat.update"),
    ngx_null_string
};


static const ngx_http_agentstream_chat_error_t
    ngx_http_agentstream_chat_slack_errors[] =
{
    { "ratelimited", NGX_HTTP_AGENTSTREAM_CHAT_LATER },
    { "rate_limited", NGX_HTTP_AGENTSTREAM_CHAT_LATER },
    { "service_unavailable", NGX_HTTP_AGENTSTREAM_CHAT_LATER },

    /* Slack says of these that something may have been done */

    { "internal_error", NGX_HTTP_AGENTSTREAM_CHAT_LOST },
    { "fatal_error", NGX_HTTP_AGENTSTREAM_CHAT_LOST },
    { "request_timeout", NGX_HTTP_AGENTSTREAM_CHAT_LOST },

    { "too_long", NGX_HTTP_AGENTSTREAM_CHAT_LONG },
    { "invalid_blocks", NGX_HTTP_AGENTSTREAM_CHAT_MARKUP },
    { "markdown", NGX_HTTP_AGENTSTREAM_CHAT_MARKUP },
    { "message_not_found", NGX_HTTP_AGENTSTREAM_CHAT_GONE },
    { "cant_update", NGX_HTTP_AGENTSTREAM_CHAT_GONE },
    { "cant_delete", NGX_HTTP_AGENTSTREAM_CHAT_GONE },
    { "edit_window_closed", NGX_HTTP_AGENTSTREAM_CHAT_GONE },
    { "channel_not_found", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "thread_not_found", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "user_not_found", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "is_archived", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "not_in_channel", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "restricted_action", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "messages_tab_disabled", NGX_HTTP_AGENTSTREAM_CHAT_CLOSED },
    { "missing_scope", NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { "no_permission", NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { "auth", NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { "token", NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { "account_inactive", NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { "access_denied", NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { "org_login_required", NGX_HTTP_AGENTSTREAM_CHAT_DENIED },
    { NULL, NGX_HTTP_AGENTSTREAM_CHAT_REFUSED }
};


ngx_int_t
ngx_http_agentstream_chat_slack_spell(ngx_pool_t *pool,
    ngx_http_agentstream_chat_action_t *action,
    ngx_http_agentstream_chat_call_t *call)
{
    void                               *object;
    ngx_http_agentstream_chat_body_t    body;
    ngx_http_agentstream_chat_place_t  *place;

    ngx_memzero(call, sizeof(ngx_http_agentstream_chat_call_t));

    place = &action->place;

    if (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_FETCH) {
        ngx_str_set(&call->method, "GET");
        call->path = action->path;
        call->args = action->args;
        return NGX_OK;
    }

    ngx_str_set(&call->method, "POST");
    call->path = ngx_http_agentstream_chat_slack_methods[action->kind];

    if (call->path.len == 0
        || (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_TYPING
            && place->thread.len == 0))
    {
        return NGX_DECLINED;
    }

    object = ngx_http_agentstream_chat_begin(&body, pool);

    switch (action->kind) {

    case NGX_HTTP_AGENTSTREAM_CHAT_ME:
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_TYPING:
        ngx_http_agentstream_chat_add_text(&body, object, "channel_id",
                                           &place->chat);
        ngx_http_agentstream_chat_add_text(&body, object, "thread_ts",
                                           &place->thread);
        ngx_http_agentstream_chat_add_word(&body, object, "status",
                                           "is working…");
        break;

    case NGX_HTTP_AGENTSTREAM_CHAT_EDIT:
    case NGX_HTTP_AGENTSTREAM_CHAT_SETTLE:
    case NGX_HTTP_AGENTSTREAM_CHAT_DELETE:
        ngx_http_agentstream_chat_add_text(&body, object, "channel",
                                           &place->chat);
        ngx_http_agentstream_chat_add_text(&body, object, "ts",
                                           &action->message);

        if (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_EDIT) {
            ngx_http_agentstream_chat_slack_content(&body, object, action);

        } else if (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_SETTLE) {
            ngx_http_agentstream_chat_slack_settle(&body, object, action);
        }

        break;

    default: /* CREATE, SEND, ASK */
        ngx_http_agentstream_chat_add_text(&body, object, "channel",
                                           &place->chat);
        if (place->thread.len) {
            ngx_http_agentstream_chat_add_text(&body, object, "thread_ts",
                                               &place->thread);
        }

        if (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_ASK) {
            ngx_http_agentstream_chat_slack_blocks(&body, object, action);

        } else {
            ngx_http_agentstream_chat_slack_content(&body, object, action);
        }

        /* an address that the agent has written is not looked at for it */

        ngx_http_agentstream_chat_add_flag(&body, object, "unfurl_links", 0);
        ngx_http_agentstream_chat_add_flag(&body, object, "unfurl_media", 0);
    }

    return ngx_http_agentstream_chat_finish(&body, &call->body);
}


static void
ngx_http_agentstream_chat_slack_content(ngx_http_agentstream_chat_body_t *body,
    void *object, ngx_http_agentstream_chat_action_t *action)
{
    ngx_str_t  text;

    if (action->markup) {
        text = ngx_http_agentstream_chat_slack_hush(body, &action->text);
        ngx_http_agentstream_chat_add_text(body, object, "markdown_text",
                                           &text);
        return;
    }

    text = ngx_http_agentstream_chat_slack_escape(body, &action->text);

    ngx_http_agentstream_chat_add_text(body, object, "text", &text);
    ngx_http_agentstream_chat_add_word(body, object, "parse", "none");
    ngx_http_agentstream_chat_add_flag(body, object, "link_names", 0);

    if (action->kind == NGX_HTTP_AGENTSTREAM_CHAT_EDIT) {
        /* blocks that are not mentioned would stay */

        (void) ngx_http_agentstream_chat_add_array(body, object, "blocks");

    } else {
        ngx_http_agentstream_chat_add_flag(body, object, "mrkdwn", 0);
    }
}


/* a question as it was, without buttons: they cannot be taken away from a
   message that keeps its text */

static void
ngx_http_agentstream_chat_slack_settle(ngx_http_agentstream_chat_body_t *body,
    void *object, ngx_http_agentstream_chat_action_t *action)
{
    ngx_http_agentstream_chat_action_t  settled;

    settled = *action;
    settled.nbuttons = 0;

    if (settled.text.len == 0) {
        ngx_str_set(&settled.text, "This question is closed.");
        settled.markup = 0;
    }

    ngx_http_agentstream_chat_slack_blocks(body, object, &settled);
}


static void
ngx_http_agentstream_chat_slack_blocks(ngx_http_agentstream_chat_body_t *body,
    void *object, ngx_http_agentstream_chat_action_t *action)
{
    void        *blocks, *block, *list, *button, *label;
    u_char       id[NGX_INT_T_LEN + 2];
    ngx_str_t    text;
    ngx_uint_t   i;

    text = ngx_http_agentstream_chat_cut(body, &action->text,
                                      NGX_HTTP_AGENTSTREAM_CHAT_SLACK_NOTICE);
    text = ngx_http_agentstream_chat_slack_escape(body, &text);
    ngx_http_agentstream_chat_add_text(body, object, "text", &text);

    blocks = ngx_http_agentstream_chat_add_array(body, object, "blocks");
    block = ngx_http_agentstream_chat_add_object(body, blocks, NULL);

    if (action->markup) {
        text = ngx_http_agentstream_chat_slack_hush(body, &action->text);
        ngx_http_agentstream_chat_add_word(body, block, "type", "markdown");
        ngx_http_agentstream_chat_add_text(body, block, "text", &text);

    } else {
        text = ngx_http_agentstream_chat_cut(body, &action->text,
                                     NGX_HTTP_AGENTSTREAM_CHAT_SLACK_SECTION);
        ngx_http_agentstream_chat_add_word(body, block, "type", "section");
        label = ngx_http_agentstream_chat_add_object(body, block, "text");
        ngx_http_agentstream_chat_add_word(body, label, "type", "plain_text");
        ngx_http_agentstream_chat_add_text(body, label, "text", &text);
    }

    if (action->nbuttons == 0) {
        return;
    }

    block = ngx_http_agentstream_chat_add_object(body, blocks, NULL);
    ngx_http_agentstream_chat_add_word(body, block, "type", "actions");
    list = ngx_http_agentstream_chat_add_array(body, block, "elements");

    for (i = 0;
         i < ngx_min(action->nbuttons,
                     ngx_http_agentstream_chat_slack.buttons);
         i++)
    {
        *ngx_sprintf(id, "b%ui", i) = '\0';

        button = ngx_http_agentstream_chat_add_object(body, list, NULL);
        ngx_http_agentstream_chat_add_word(body, button, "type", "button");
        ngx_http_agentstream_chat_add_word(body, button, "action_id",
                                           (char *) id);
        ngx_http_agentstream_chat_add_text(body, button, "value",
                                           &action->buttons[i].token);

        text = ngx_http_agentstream_chat_cut(body, &action->buttons[i].label,
                                       NGX_HTTP_AGENTSTREAM_CHAT_SLACK_LABEL);
        label = ngx_http_agentstream_chat_add_object(body, button, "text");
        ngx_http_agentstream_chat_add_word(body, label, "type", "plain_text");
        ngx_http_agentstream_chat_add_text(body, label, "text", &text);
    }
}


static ngx_str_t
ngx_http_agentstream_chat_slack_hush(ngx_http_agentstream_chat_body_t *body,
    ngx_str_t *text)
{
    u_char     *p, *last, *dst;
    size_t      size;
    ngx_str_t   result;

    size = text->len * sizeof(NGX_HTTP_AGENTSTREAM_CHAT_SLACK_JOINER);

    dst = ngx_pnalloc(body->pool, size + text->len + 1);

    if (dst == NULL) {
        body->failed = 1;
        ngx_str_null(&result);
        return result;
    }

    result.data = dst;

    p = dst + size;
    last = ngx_http_agentstream_chat_clean(p, text);

    for ( /* void */ ; p < last; p++) {
        *dst++ = *p;

        if (ngx_http_agentstream_chat_slack_calls(p, last)) {
            dst = ngx_cpymem(dst, NGX_HTTP_AGENTSTREAM_CHAT_SLACK_JOINER,
                             sizeof(NGX_HTTP_AGENTSTREAM_CHAT_SLACK_JOINER)
                             - 1);
        }
    }

    result.len = dst - result.data;

    return result;
}


/* whether Slack could take what begins here for a person, a channel, or all of
   them; "<!DOCTYPE html>" and comments are what they are */

static ngx_uint_t
ngx_http_agentstream_chat_slack_calls(u_char *p, u_char *last)
{
    if (last - p < 3 || *p != '<') {
        return 0;
    }

    switch (p[1]) {

    case '@':
    case '#':
        return 1;

    case '!':
        if (p[2] == '-') {
            return 0;
        }

        return (size_t) (last - p) < sizeof("<!doctype") - 1
               || ngx_strncasecmp(p, (u_char *) "<!doctype",
                                  sizeof("<!doctype") - 1)
                  != 0;
    }

    return 0;
}


static ngx_str_t
ngx_http_agentstream_chat_slack_escape(ngx_http_agentstream_chat_body_t *body,
    ngx_str_t *text)
{
    u_char     *dst;
    ngx_str_t   result;

    dst = ngx_pnalloc(body->pool, text->len * (sizeof("&amp;") - 1) + 1);

    if (dst == NULL) {
        body->failed = 1;
        ngx_str_null(&result);
        return result;
    }

    result.data = dst;
    result.len = ngx_http_agentstream_chat_escape(dst, text) - dst;

    return result;
}


ngx_int_t
ngx_http_agentstream_chat_slack_read(ngx_pool_t *pool, ngx_uint_t action,
    ngx_http_agentstream_chat_reply_t *reply,
    ngx_http_agentstream_chat_answer_t *answer)
{
    ngx_int_t                          rc;
    ngx_uint_t                         root;
    ngx_http_agentstream_chat_input_t  in;

    rc = ngx_http_agentstream_chat_answered(&in, pool, reply, answer);

    if (rc != NGX_OK) {
        return (rc == NGX_DECLINED) ? NGX_OK : NGX_ERROR;
    }

    root = in.json.root;

    if (ngx_http_agentstream_chat_true(&in,
                              ngx_http_agentstream_chat_get(&in, root, "ok")))
    {
        answer->result = NGX_HTTP_AGENTSTREAM_CHAT_DONE;
        answer->message = ngx_http_agentstream_chat_id(&in,
                         ngx_http_agentstream_chat_get(&in, root, "ts"));

        if (action == NGX_HTTP_AGENTSTREAM_CHAT_ME) {
            answer->me.id = ngx_http_agentstream_chat_id(&in,
                         ngx_http_agentstream_chat_get(&in, root, "user_id"));
            answer->me.name = ngx_http_agentstream_chat_id(&in,
                         ngx_http_agentstream_chat_get(&in, root, "user"));
        }

        return ngx_http_agentstream_chat_input_done(&in, NGX_OK);
    }

    answer->reason = ngx_http_agentstream_chat_text(&in,
                         ngx_http_agentstream_chat_get(&in, root, "error"));

    if (answer->result != NGX_HTTP_AGENTSTREAM_CHAT_LATER) {
        answer->result = ngx_http_agentstream_chat_error(
                                     ngx_http_agentstream_chat_slack_errors,
                                     &answer->reason);
    }

    if (action == NGX_HTTP_AGENTSTREAM_CHAT_TYPING
        && answer->result == NGX_HTTP_AGENTSTREAM_CHAT_DENIED)
    {
        /* only some apps may do it, and the others work without it */

        answer->result = NGX_HTTP_AGENTSTREAM_CHAT_REFUSED;
    }

    return ngx_http_agentstream_chat_input_done(&in, NGX_OK);
}

#endif
