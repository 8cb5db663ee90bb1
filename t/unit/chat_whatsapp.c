
/*
 * Copyright (C) agentstream contributors
 */


/*
 * WhatsApp: webhooks as Meta documents them, and what is not as it should be;
 * what the bot sends; what the Cloud API answers.
 *
 * Broken by: a signature over the decoded form only, a verify word that is
 * empty, a receipt that is taken for a message, a second message of a webhook
 * that is lost, a list that is too long, a code that is not known.
 */


#include "talk.h"


#define HEAD     "{\"object\":\"whatsapp_business_account\",\"entry\":[{"      \
                 "\"id\":\"1\",\"changes\":[{\"field\":\"messages\","        \
                 "\"value\":{"                                               \
                 "\"metadata\":{\"phone_number_id\":\"106\"},"
#define BEGIN    HEAD "\"messages\":[{\"from\":\"491\",\"id\":\"wamid.A==\","  \
                 "\"type\":"
#define END      "}]}}]}]}"

#define POST     "POST 106/messages {\"messaging_product\":\"whatsapp\","
#define TO       POST "\"recipient_type\":\"individual\",\"to\":\"491\","


static void
test_genuine(void)
{
    ngx_str_t                          secret, body;
    ngx_uint_t                         i;
    ngx_http_agentstream_chat_proof_t  proof;

    static const struct {
        const char  *body;
        const char  *signature;
        ngx_int_t    rc;
    } tests[] = {
        { "{}", "bd9549eb87a414d3df28b5a60ea86d4a11e2f1c6258edbd18f56d3c23c0f90"
          "8d", NGX_OK },
        { "{\"a\":\"\xc3\xa4\xf0\x9f\x99\x82\"}",
          "27726640420e0b6c890094a34c49527d499922b9d7dfa6a2e3fe1951628b4320",
          NGX_OK },
        { "{\"a\":\"\xc3\xa4\xf0\x9f\x99\x82\"}",
          "af5f3c8ade1176fe59749cc2c90a1d6eb37e236edc1cbd3a0a1c682aa26b84d5",
          NGX_OK },
        { "{\"a\":\"\\u00e4\\ud83d\\ude42\"}",
          "af5f3c8ade1176fe59749cc2c90a1d6eb37e236edc1cbd3a0a1c682aa26b84d5",
          NGX_OK },
        { "{\"a\":\"\\u00e4\\ud83d\\ude42\"}",
          "27726640420e0b6c890094a34c49527d499922b9d7dfa6a2e3fe1951628b4320",
          NGX_DECLINED },
        { "{ }", "bd9549eb87a414d3df28b5a60ea86d4a11e2f1c6258edbd18f56d3c23c0f9"
          "08d", NGX_DECLINED },
        { "{}", "bd9549eb87a414d3df28b5a60ea86d4a11e2f1c6258edbd18f56d3c23c0f90"
          "8", NGX_DECLINED },
        { "{}", "", NGX_DECLINED },
        { "\xff", "bd9549eb87a414d3df28b5a60ea86d4a11e2f1c6258edbd18f56d3c23c0f"
          "908d", NGX_DECLINED },
        { "{}\xc3", "bd9549eb87a414d3df28b5a60ea86d4a11e2f1c6258edbd18f56d3c23c"
          "0f908d", NGX_DECLINED },
    };

    char  signature[128];

    memset(&proof, 0, sizeof(proof));

    secret = tap_str("app-secret");

    for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        snprintf(signature, sizeof(signature), "sha256=%s",
                 tests[i].signature);
        proof.signature = tap_str(signature);
        body.len = strlen(tests[i].body);
        body.data = tap_copy(tests[i].body, body.len);
        tap_is(platform->genuine(&proof, &body, &secret, 0), tests[i].rc,
               tests[i].body);
        free(body.data);
    }

    secret.len = 0;
    body = tap_str("{}");
    tap_is(platform->genuine(&proof, &body, &secret, 0), NGX_DECLINED,
           "no secret");
}


static void
test_challenge(void)
{
    ngx_str_t   args, verify, answer;
    ngx_uint_t  i;

    static const char  *bad[] = {
        "", "hub.mode=subscribe&hub.challenge=12&hub.verify_token=wor",
        "hub.mode=subscribe&hub.challenge=12",
        "hub.mode=unsubscribe&hub.challenge=12&hub.verify_token=w%20rd",
        "hub.mode=subscribe&hub.challenge=&hub.verify_token=w%20rd",
        "hub.mode=subscribe&hub.challenge=%3Cb%3E&hub.verify_token=w%20rd",
        "hub.mode=subscribe&hub.verify_token=w%20rd",
    };

    verify = tap_str("w rd");
    args = tap_str("hub.mode=subscribe&hub.challenge=1158201444"
                   "&hub.verify_token=w%20rd");

    tap_is(platform->challenge(pool, &args, &verify, &answer), NGX_OK, "word");
    tap_is_str(answer, "1158201444", "what to answer");

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        args = tap_str(bad[i]);
        tap_is(platform->challenge(pool, &args, &verify, &answer),
               NGX_DECLINED, bad[i]);
    }

    verify = tap_str("");
    args = tap_str("hub.mode=subscribe&hub.challenge=12&hub.verify_token=");
    tap_is(platform->challenge(pool, &args, &verify, &answer), NGX_DECLINED,
           "no word is no proof");
}


static void
test_message(void)
{
    file_t     *f;
    update_t    u, *both;
    updates_t   updates;

    u = chat_one(BEGIN "\"text\",\"text\":{\"body\":\" hi "
                 "\\ud83d\\ude42\"}" END, "a message");
    tap_is(u.kind, CHAT(MESSAGE), "kind");
    tap_is_str(u.id, "wamid.A==", "id");
    tap_is_str(u.message, "wamid.A==", "message");
    tap_is_str(u.session, "whatsapp:106:491", "session");
    tap_is_str(u.place.account, "106", "number");
    tap_is_str(u.place.chat, "491", "chat");
    tap_is_str(u.sender, "491", "sender");
    tap_is_str(u.text, "hi 🙂", "text");
    tap_ok(!u.group && u.addressed, "for the bot");

    updates = chat_parse(HEAD "\"messages\":[{\"from\":\"491\",\"id\":\"a\","
                         "\"type\":\"text\",\"text\":{\"body\":\"/new x\"}},"
                         "{\"from\":\"492\",\"id\":\"b\",\"type\":"
                         "\"reaction\"},{\"from\":\"492\",\"id\":\"c\","
                         "\"type\":\"button\","
                         "\"button\":{\"text\":\"Yes\"}}]}},{\"field\":"
                         "\"account_update\",\"value\":{}}]},{}]}", "several");

    if (tap_is(updates.list.nelts, 2, "two of them")) {
        both = updates.list.elts;
        tap_is(both[0].kind, CHAT(COMMAND), "a command");
        tap_is_str(both[0].argument, "x", "its argument");
        tap_is_str(both[1].text, "Yes", "the answer to a template");
        tap_is_str(both[1].session, "whatsapp:106:492", "of somebody else");
    }

    u = chat_one(BEGIN "\"image\",\"image\":{\"id\":\"77\",\"mime_type\":"
                 "\"image/jpeg\",\"caption\":\"what?\"}" END, "a picture");
    f = u.files.elts;
    tap_is_str(f[0].id, "77", "id");
    tap_ok(f[0].picture, "a picture");
    tap_is_str(u.text, "what?", "its caption");

    u = chat_one(BEGIN "\"audio\",\"audio\":{\"id\":\"78\",\"mime_type\":"
                 "\"audio/ogg; codecs=opus\"}" END, "a voice");
    f = u.files.elts;
    tap_is_str(f[0].mime, "audio/ogg", "its type");
    tap_is_str(f[0].name, "audio", "its name");

    u = chat_one(BEGIN "\"document\",\"document\":{\"id\":\"79\",\"filename\":"
                 "\"a.pdf\"}" END, "a document");
    f = u.files.elts;
    tap_is_str(f[0].name, "a.pdf", "its name");

    u = chat_one(BEGIN "\"interactive\",\"context\":{\"id\":\"wamid.B\"},"
                 "\"interactive\":{\"type\":\"button_reply\",\"button_reply\":"
                 "{\"id\":\"q1:0\",\"title\":\"Yes\"}}" END, "a press");
    tap_is(u.kind, CHAT(PRESS), "kind");
    tap_is_str(u.token, "q1:0", "token");
    tap_is_str(u.text, "Yes", "label");
    tap_is_str(u.message, "wamid.B", "the message with the buttons");
    tap_is_str(u.id, "wamid.A==", "its own id");

    u = chat_one(BEGIN "\"interactive\",\"context\":{\"id\":\"wamid.B\"},"
                 "\"interactive\":{\"type\":\"list_reply\",\"list_reply\":"
                 "{\"id\":\"q1:7\",\"title\":\"No\"}}" END, "from a list");
    tap_is_str(u.token, "q1:7", "token");
}


static void
test_nothing(void)
{
    size_t  i;

    static const char  *bad[] = {
        "", "x", "[]", "{}", "{\"entry\":{}}", "{\"entry\":7}"
    };

    chat_nothing(HEAD "\"statuses\":[{\"id\":\"a\",\"status\":\"read\"}]}}]}]}",
                 "a receipt");
    chat_nothing(BEGIN "\"reaction\",\"reaction\":{\"emoji\":\"x\"}" END,
                 "a reaction");
    chat_nothing(BEGIN "\"unsupported\",\"errors\":[{}]" END, "unsupported");
    chat_nothing(BEGIN "\"system\",\"system\":{\"body\":\"x\"}" END, "system");
    chat_nothing(BEGIN "\"text\",\"text\":{\"body\":\"  \"}" END, "no text");
    chat_nothing(BEGIN "\"text\",\"text\":\"x\"" END, "a wrong type");
    chat_nothing(BEGIN "\"text\",\"group_id\":\"g\",\"text\":{\"body\":\"x\"}"
                 END, "a group");
    chat_nothing(BEGIN "\"interactive\",\"interactive\":{\"nfm_reply\":{}}" END,
                 "a flow");
    chat_nothing("{\"entry\":[{\"changes\":[{\"field\":\"messages\",\"value\":"
                 "{\"messages\":[{\"from\":\"1\",\"id\":\"a\",\"type\":"
                 "\"text\",\"text\":{\"body\":\"x\"}}]}}]}]}", "no number");
    chat_nothing("{\"entry\":[{\"changes\":{\"a\":1}},7,[]]}", "wrong types");
    chat_nothing("{\"entry\":[]}", "empty");

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void) chat_parse_len(bad[i], strlen(bad[i]), NGX_DECLINED, 0, bad[i]);
    }

    chat_truncate(BEGIN "\"text\",\"text\":{\"body\":\"\\ud83d\\ude42 ä\"}"
                  END);
}


static void
test_spell(void)
{
    char        text[1030];
    action_t    a;
    button_t    buttons[11];
    ngx_uint_t  i;

    memset(&a, 0, sizeof(a));

    tap_is_str(chat_spell(&a), "declined", "me");

    a.place.account = tap_str("106");
    a.place.chat = tap_str("491");
    a.kind = CHAT(TYPING);
    tap_is_str(chat_spell(&a), "declined", "typing, in reply to nothing");
    a.message = tap_str("wamid.A==");
    tap_is_str(chat_spell(&a), POST "\"status\":\"read\",\"message_id\":"
               "\"wamid.A==\",\"typing_indicator\":{\"type\":\"text\"}}",
               "typing");

    a.kind = CHAT(SEND);
    a.text = tap_str("*a* \"b\"\x02");
    tap_is_str(chat_spell(&a), TO "\"context\":{\"message_id\":\"wamid.A==\"},"
               "\"type\":\"text\",\"text\":{\"body\":\"*a* \\\"b\\\"\","
               "\"preview_url\":false}}", "send");

    a.kind = CHAT(CREATE);
    a.text = tap_str("x");
    tap_is_str(chat_spell(&a), TO "\"type\":\"text\",\"text\":{\"body\":\"x\","
               "\"preview_url\":false}}", "create");

    for (i = CHAT(PRESSED); i <= CHAT(SETTLE); i++) {
        a.kind = i;
        tap_is_str(chat_spell(&a), "declined", "what WhatsApp cannot do");
    }

    a.kind = CHAT(EDIT);
    tap_is_str(chat_spell(&a), "declined", "edit");
    a.kind = CHAT(DELETE);
    tap_is_str(chat_spell(&a), "declined", "delete");

    a.kind = CHAT(FILE);
    a.file = tap_str("77");
    tap_is_str(chat_spell(&a), "GET 77 ", "file");
    a.kind = CHAT(FETCH);
    a.path = tap_str("file/a/");
    a.args = tap_str("mid=1&ext=2");
    tap_is_str(chat_spell(&a), "GET file/a/?mid=1&ext=2 ", "fetch");

    a.kind = CHAT(ASK);
    a.message.len = 0;
    a.text = tap_str("Which?");
    a.buttons = buttons;
    a.nbuttons = 2;

    buttons[0].label = tap_str("Yes");
    buttons[0].token = tap_str("q:0");
    buttons[1].label = tap_str("a label of more than 20 characters");
    buttons[1].token = tap_str("q:1");

    tap_is_str(chat_spell(&a), TO "\"type\":\"interactive\",\"interactive\":{"
               "\"type\":\"button\",\"body\":{\"text\":\"Which?\"},\"action\":{"
               "\"buttons\":[{\"type\":\"reply\",\"reply\":{\"id\":\"q:0\","
               "\"title\":\"Yes\"}},{\"type\":\"reply\",\"reply\":{\"id\":"
               "\"q:1\",\"title\":\"a label of more tha…\"}}]}}}", "buttons");

    memset(text, 'x', sizeof(text));
    a.text.data = (u_char *) text;
    a.text.len = 1024;
    tap_ok(ngx_strnstr(chat_spell(&a).data, "\"type\":\"button\"", 300)
           != NULL, "1024 characters above buttons");
    a.text.len = 1025;
    tap_ok(ngx_strnstr(chat_spell(&a).data, "\"type\":\"list\"", 300) != NULL,
           "1025 characters above a list");

    a.text = tap_str("Which?");

    for (i = 2; i < 11; i++) {
        buttons[i].label.data = (u_char *) "0123456789" + i - 1;
        buttons[i].label.len = 1;
        buttons[i].token = buttons[i].label;
    }

    a.nbuttons = 4;
    tap_is_str(chat_spell(&a), TO "\"type\":\"interactive\",\"interactive\":{"
               "\"type\":\"list\",\"body\":{\"text\":\"Which?\"},\"action\":{"
               "\"button\":\"Choose\",\"sections\":[{\"rows\":[{\"id\":\"q:0\","
               "\"title\":\"Yes\"},{\"id\":\"q:1\",\"title\":\"a label of more "
               "than 20…\"},{\"id\":\"1\",\"title\":\"1\"},{\"id\":\"2\","
               "\"title\":\"2\"}]}]}}}", "a list");

    a.nbuttons = 11;
    tap_is_str(chat_spell(&a), TO "\"type\":\"text\",\"text\":{\"body\":"
               "\"Which?\",\"preview_url\":false}}", "eleven are a text");

    a.nbuttons = 2;
    buttons[0].label = tap_str("a label of more tha");
    buttons[0].label = tap_str("a label of more than that");
    tap_is_str(chat_spell(&a), TO "\"type\":\"text\",\"text\":{\"body\":"
               "\"Which?\",\"preview_url\":false}}", "labels that look alike");
}


static void
test_read(void)
{
    char        body[256];
    answer_t    a;
    ngx_uint_t  i;

    static const struct {
        int          code;
        ngx_uint_t   result;
    } codes[] = {
        { 131056, CHAT(LATER) }, { 130429, CHAT(LATER) }, { 4, CHAT(LATER) },
        { 131016, CHAT(LATER) }, { 131000, CHAT(LOST) },
        { 131047, CHAT(CLOSED) }, { 131026, CHAT(CLOSED) },
        { 190, CHAT(DENIED) }, { 0, CHAT(DENIED) }, { 131031, CHAT(DENIED) },
        { 100, CHAT(REFUSED) }, { 131009, CHAT(REFUSED) },
        { -1, CHAT(REFUSED) }, { 999999, CHAT(REFUSED) },
    };

    for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        snprintf(body, sizeof(body), "{\"error\":{\"message\":\"(#%d) x\","
                 "\"code\":%d}}", codes[i].code, codes[i].code);
        a = chat_read(CHAT(SEND), 400, body);
        tap_ok(a.result == codes[i].result, "code %d", codes[i].code);
        tap_is(a.wait, codes[i].code == 131056 ? 6 : 0, "how long to wait");
    }

    a = chat_read(CHAT(SEND), 200, "{\"messages\":[{\"id\":\"wamid.C=\"}]}");
    tap_is(a.result, CHAT(DONE), "sent");
    tap_is_str(a.message, "wamid.C=", "its id");

    a = chat_read(CHAT(TYPING), 200, "{\"success\":true}");
    tap_is(a.result, CHAT(DONE), "typing");

    a = chat_read(CHAT(SEND), 429, "{\"error\":{\"code\":131000}}");
    tap_is(a.result, CHAT(LATER), "429");
    a = chat_read(CHAT(SEND), 401, "{\"error\":{\"code\":190}}");
    tap_is(a.result, CHAT(DENIED), "401");
    a = chat_read(CHAT(SEND), 404, "{}");
    tap_is(a.result, CHAT(REFUSED), "404");
    a = chat_read(CHAT(SEND), 502, "{}");
    tap_is(a.result, CHAT(LOST), "502");

    a = chat_read(CHAT(FILE), 200, "{\"url\":\"https://lookaside.fbsbx.com/"
                  "whatsapp_business/attachments/?mid=77&ext=1&hash=AT-x_1\","
                  "\"file_size\":9}");
    tap_is(a.result, CHAT(DONE), "a file");
    tap_is_str(a.path, "file/whatsapp_business/attachments/", "its path");
    tap_is_str(a.args, "mid=77&ext=1&hash=AT-x_1", "its arguments");
    tap_is(a.size, 9, "its size");

    a = chat_read(CHAT(FILE), 200, "{\"url\":\"https://evil.org/x\"}");
    tap_is(a.result, CHAT(REFUSED), "a file that is elsewhere");
    a = chat_read(CHAT(FILE), 200, "{\"url\":\"https://lookaside.fbsbx.com/"
                  "a?b#c\\r\\n\"}");
    tap_is(a.result, CHAT(REFUSED), "an address that is none");
}


int
main(void)
{
    chat_init("whatsapp");

    test_genuine();
    test_challenge();
    test_message();
    test_nothing();
    test_spell();
    test_read();

    return chat_done();
}
