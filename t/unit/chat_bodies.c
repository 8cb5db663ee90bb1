
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Every body that the bot can send, with friendly and with hostile texts, is
 * valid JSON for somebody else's parser, and its texts are what was meant.
 *
 * Broken by: a text that is not escaped for JSON, bytes that are not UTF-8, a
 * zero byte that ends a text.
 *
 * t/chat_oracles.t uses this program, too: with the argument "bodies" it prints
 * the bodies, one "platform path body" per line; with "genuine" it reads lines
 * "platform now secret signature timestamp body", in hexadecimal but for the
 * first two, and prints whether each is genuine.
 */


#include "talk.h"

#include <cjson/cJSON.h>


static const char  *texts[] = {
    "Hello",
    "a \"b\" \\ / \n\t ä 🙂 \u05e9\u05dc\u05d5\u05dd",
    "<b>x</b> &amp; <!channel> <@U1> @admin",
};

static const char  *names[] = { "telegram", "slack", "whatsapp" };


static void
body_action(action_t *action, button_t *buttons, ngx_uint_t kind,
    const char *text, ngx_uint_t markup)
{
    memset(action, 0, sizeof(action_t));

    action->kind = kind;
    action->markup = markup;
    action->text = tap_str(text);
    action->place.account = tap_str("106");
    action->place.chat = tap_str(platform->name.data[0] == 's' ? "C1"
                                                               : "1001");
    action->place.thread = tap_str(platform->name.data[0] == 's' ? "17.01"
                                                                 : "9");
    action->message = tap_str(platform->name.data[0] == 's' ? "18.2" : "5");
    action->callback = tap_str("43210");
    action->file = tap_str("77");
    action->path = tap_str("file/x");
    action->offset = 81;
    action->timeout = 50;

    buttons[0].label = action->text;
    buttons[0].token = tap_str("q:0");
    buttons[1].label = tap_str("No");
    buttons[1].token = tap_str("q:1");

    action->buttons = buttons;
    action->nbuttons = 2;
}


/* each body, by each platform; they are printed, or parsed */

static ngx_uint_t
body_all(ngx_uint_t print)
{
    cJSON       *root;
    call_t       call;
    action_t     action;
    button_t     buttons[2];
    ngx_str_t    name;
    ngx_uint_t   i, n, kind, bad;

    bad = 0;

    for (i = 0; i < 3; i++) {
        name = tap_str(names[i]);
        platform = ngx_http_agentstream_chat_find(&name);

        for (n = 0; n < 2 * sizeof(texts) / sizeof(texts[0]); n++) {

            for (kind = 0; kind <= CHAT(FETCH); kind++) {
                body_action(&action, buttons, kind, texts[n / 2], n % 2);

                if (platform->spell(pool, &action, &call) != NGX_OK
                    || call.body.len == 0)
                {
                    continue;
                }

                if (print) {
                    printf("%s %.*s %.*s\n", names[i], (int) call.path.len,
                           (char *) call.path.data, (int) call.body.len,
                           (char *) call.body.data);
                    continue;
                }

                root = cJSON_ParseWithLength((char *) call.body.data,
                                             call.body.len);
                bad += (root == NULL);
                cJSON_Delete(root);
            }
        }
    }

    return bad;
}


static ngx_str_t
body_hex(char *hex)
{
    size_t     i;
    ngx_str_t  text;

    text.len = strlen(hex) / 2;
    text.data = malloc(text.len + 1);

    for (i = 0; i < text.len; i++) {
        text.data[i] = (u_char) ngx_hextoi((u_char *) hex + 2 * i, 2);
    }

    return text;
}


/* "-" is an empty text */

static void
body_genuine(void)
{
    char                               *p;
    long                                now;
    ngx_str_t                           text[4], name;
    ngx_uint_t                          i;
    ngx_http_agentstream_chat_proof_t   proof;

    static char  word[16], fields[4][65536];

    while (scanf("%15s %ld %65535s %65535s %65535s %65535s", word, &now,
                 fields[0], fields[1], fields[2], fields[3]) == 6)
    {
        for (i = 0; i < 4; i++) {
            p = fields[i];
            text[i] = body_hex(*p == '-' ? p + 1 : p);
        }

        name = tap_str(word);
        platform = ngx_http_agentstream_chat_find(&name);

        proof.signature = text[1];
        proof.timestamp = text[2];

        printf("%d\n", platform->genuine(&proof, &text[3], &text[0], now)
                       == NGX_OK);

        for (i = 0; i < 4; i++) {
            free(text[i].data);
        }
    }
}


static void
test_texts(void)
{
    cJSON      *root;
    call_t      call;
    action_t    action;
    button_t    buttons[2];
    ngx_str_t   name;

    name = tap_str("whatsapp");
    platform = ngx_http_agentstream_chat_find(&name);

    body_action(&action, buttons, CHAT(SEND), texts[1], 1);
    tap_is(platform->spell(pool, &action, &call), NGX_OK, "spell()");

    root = cJSON_ParseWithLength((char *) call.body.data, call.body.len);
    tap_is_str(tap_str(cJSON_GetStringValue(cJSON_GetObjectItem(
                           cJSON_GetObjectItem(root, "text"), "body"))),
               texts[1], "the text comes back");
    cJSON_Delete(root);

    action.text.data = (u_char *) "a\0b\xff" "c\xc3\x1b";
    action.text.len = 7;
    tap_is(platform->spell(pool, &action, &call), NGX_OK, "spell()");

    root = cJSON_ParseWithLength((char *) call.body.data, call.body.len);
    tap_is_str(tap_str(cJSON_GetStringValue(cJSON_GetObjectItem(
                           cJSON_GetObjectItem(root, "text"), "body"))),
               "ab\xef\xbf\xbd" "c\xef\xbf\xbd", "bytes that are no text");
    cJSON_Delete(root);
}


int
main(int argc, char **argv)
{
    pool = ngx_create_pool(4096, &ngx_unit_log);

    if (argc > 1) {
        if (strcmp(argv[1], "bodies") == 0) {
            (void) body_all(1);

        } else {
            body_genuine();
        }

        ngx_destroy_pool(pool);
        return 0;
    }

    tap_is(body_all(0), 0, "all bodies are JSON");
    test_texts();

    return chat_done();
}
