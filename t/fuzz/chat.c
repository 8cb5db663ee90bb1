
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Any bytes as a webhook of each chat platform, as an answer of its API, as a
 * form, and as texts that are sent to it.  Checked: nothing outside of the
 * input is read; what an update has can be used as it is (the session is a
 * valid name, ids have no control characters, tokens fit into a button); the
 * same input gives the same updates again; every body that is sent is valid
 * JSON, whose texts have no control characters and, of Slack, call nobody.
 *
 * The first byte chooses the platform and what the rest is.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <cjson/cJSON.h>

#include "ngx_http_agentstream_chat.h"
#include "ngx_http_agentstream_name.h"


#define check(x)  if (!(x)) { __builtin_trap(); }


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern ngx_log_t  ngx_unit_log;

typedef const ngx_http_agentstream_chat_platform_t  platform_t;


static void
fuzz_word(ngx_str_t *text, size_t max)
{
    size_t  i;

    check(text->len <= max);

    for (i = 0; i < text->len; i++) {
        check(text->data[i] >= 0x20 && text->data[i] != 0x7f);
    }
}


static void
fuzz_update(ngx_http_agentstream_chat_update_t *u)
{
    ngx_uint_t                         i;
    ngx_http_agentstream_chat_file_t  *file;

    fuzz_word(&u->message, 256);
    fuzz_word(&u->token, NGX_HTTP_AGENTSTREAM_CHAT_TOKEN_MAX);

    if (u->kind == NGX_HTTP_AGENTSTREAM_CHAT_HANDSHAKE) {
        check(u->text.len);
        fuzz_word(&u->text, 256);
        return;
    }

    check(u->id.len && u->sender.len && u->place.chat.len);
    check(ngx_http_agentstream_name_valid(&u->session));
    check(ngx_http_agentstream_name_valid(&u->sender));
    check(u->group || u->addressed);
    check(u->kind != NGX_HTTP_AGENTSTREAM_CHAT_COMMAND || u->command.len);
    check(u->kind != NGX_HTTP_AGENTSTREAM_CHAT_PRESS
          || (u->token.len && u->message.len));
    check(u->kind != NGX_HTTP_AGENTSTREAM_CHAT_MESSAGE
          || u->text.len || u->files.nelts);

    file = u->files.elts;

    for (i = 0; i < u->files.nelts; i++) {
        check(file[i].name.len);
        check(!file[i].picture || file[i].id.len || file[i].path.len);
        check(file[i].size >= -1);
        fuzz_word(&file[i].name, 256);
        fuzz_word(&file[i].path, NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX);
        check(file[i].path.len == 0
              || ngx_strncmp(file[i].path.data, "file/", 5) == 0);
    }
}


static void
fuzz_parse(platform_t *platform, ngx_pool_t *pool, ngx_str_t *body,
    ngx_uint_t polled)
{
    ngx_int_t                             rc;
    ngx_uint_t                            i;
    ngx_http_agentstream_chat_me_t        me;
    ngx_http_agentstream_chat_update_t   *one, *two;
    ngx_http_agentstream_chat_updates_t   first, second;

    if (polled && platform->poll == NULL) {
        return;
    }

    ngx_str_set(&me.id, "42");
    ngx_str_set(&me.name, "my_bot");

    rc = polled ? platform->poll(pool, body, &me, &first)
                : platform->parse(pool, body, &me, &first);
    check(rc == NGX_OK || rc == NGX_DECLINED);
    check((polled ? platform->poll(pool, body, &me, &second)
                  : platform->parse(pool, body, &me, &second)) == rc);

    if (rc != NGX_OK) {
        return;
    }

    check(first.list.nelts == second.list.nelts);

    one = first.list.elts;
    two = second.list.elts;

    for (i = 0; i < first.list.nelts; i++) {
        fuzz_update(&one[i]);
        check(one[i].kind == two[i].kind
              && one[i].text.len == two[i].text.len
              && (one[i].text.len == 0
                  || ngx_memcmp(one[i].text.data, two[i].text.data,
                                one[i].text.len) == 0));
    }
}


/* Slack finds mentions everywhere but in texts of the type "plain_text" */

static void
fuzz_strings(cJSON *item, ngx_uint_t slack)
{
    char   *p;
    cJSON  *type;

    for ( /* void */ ; item; item = item->next) {
        type = cJSON_GetObjectItem(item, "type");

        fuzz_strings(item->child,
                     slack && !(cJSON_IsString(type)
                                && strcmp(type->valuestring, "plain_text")
                                   == 0));

        if (!cJSON_IsString(item)) {
            continue;
        }

        for (p = item->valuestring; *p; p++) {
            check((u_char) *p >= 0x20 || *p == '\n' || *p == '\t');
            check(!slack || strncmp(p, "<@", 2) != 0 || p[2] == '\0');
            check(!slack || strncasecmp(p, "<!channel>", 10) != 0);
        }
    }
}


/* what the agent has written, in every field that can hold it */

static void
fuzz_spell(platform_t *platform, ngx_pool_t *pool, ngx_str_t *text,
    ngx_uint_t markup)
{
    cJSON                               *root;
    ngx_int_t                            rc;
    ngx_uint_t                           kind;
    ngx_http_agentstream_chat_call_t     call;
    ngx_http_agentstream_chat_action_t   action;
    ngx_http_agentstream_chat_button_t   buttons[2];

    ngx_memzero(&action, sizeof(action));

    ngx_str_set(&action.place.account, "106");
    ngx_str_set(&action.place.chat, "1001");
    ngx_str_set(&action.place.thread, "17");
    ngx_str_set(&action.message, "5");
    ngx_str_set(&action.callback, "9");
    ngx_str_set(&buttons[0].token, "a");
    ngx_str_set(&buttons[1].token, "b");

    action.text = *text;
    action.markup = markup;
    action.buttons = buttons;
    action.nbuttons = 2;
    buttons[0].label = *text;
    ngx_str_set(&buttons[1].label, "No");

    for (kind = 0; kind <= NGX_HTTP_AGENTSTREAM_CHAT_FETCH; kind++) {
        action.kind = kind;

        rc = platform->spell(pool, &action, &call);
        check(rc == NGX_OK || rc == NGX_DECLINED);

        if (rc != NGX_OK || call.body.len == 0) {
            continue;
        }

        root = cJSON_ParseWithLength((char *) call.body.data, call.body.len);
        check(root);
        fuzz_strings(root, platform->name.data[0] == 's');
        cJSON_Delete(root);
    }
}


static void
fuzz_read(platform_t *platform, ngx_pool_t *pool, ngx_str_t *body,
    ngx_uint_t status)
{
    ngx_uint_t                          action;
    ngx_http_agentstream_chat_reply_t   reply;
    ngx_http_agentstream_chat_answer_t  answer;

    ngx_memzero(&reply, sizeof(reply));

    reply.status = status;
    reply.complete = 1;
    reply.body = *body;

    for (action = 0; action < NGX_HTTP_AGENTSTREAM_CHAT_FETCH; action++) {
        check(platform->read(pool, action, &reply, &answer) == NGX_OK);
        check(answer.result <= NGX_HTTP_AGENTSTREAM_CHAT_REFUSED);
        check(answer.wait >= 0 && answer.wait <= 86400);
        check(answer.size >= -1);
        fuzz_word(&answer.message, 256);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char      *copy;
    ngx_str_t    text, answer, name;
    ngx_pool_t  *pool;
    platform_t  *platform;

    static const char  *names[] = { "telegram", "slack", "whatsapp" };
    static ngx_uint_t   statuses[] = { 200, 400, 403, 429, 500, 502 };

    if (size == 0) {
        return 0;
    }

    name.data = (u_char *) names[data[0] % 3];
    name.len = ngx_strlen(name.data);
    platform = ngx_http_agentstream_chat_find(&name);

    /* exactly as long as the input, so that a sanitizer sees what is beyond */

    copy = malloc(size);
    ngx_memcpy(copy, data + 1, size - 1);

    text.data = copy;
    text.len = size - 1;

    pool = ngx_create_pool(4096, &ngx_unit_log);

    switch (data[0] / 3 % 6) {

    case 0:
    case 1:
        fuzz_parse(platform, pool, &text, 0);
        break;

    case 2:
        fuzz_parse(platform, pool, &text, 1);
        break;

    case 3:
        fuzz_spell(platform, pool, &text, data[0] & 0x80);
        break;

    case 4:
        fuzz_read(platform, pool, &text, statuses[data[0] / 18 % 6]);
        break;

    case 5:
        if (platform->challenge
            && platform->challenge(pool, &text, &name, &answer) == NGX_OK)
        {
            check(answer.len);
            fuzz_word(&answer, 256);
        }
    }

    ngx_destroy_pool(pool);
    free(copy);

    return 0;
}
