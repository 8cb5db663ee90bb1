
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Slack: events, pressed buttons and slash commands as its documentation shows
 * them, and what is not as it should be; what the bot sends; what Slack
 * answers.
 *
 * Broken by: a signature over something else, an old timestamp that is
 * accepted, a message of a bot that is taken for one of a person, a thread that
 * is not a session of its own, a mention that the agent can make, an error with
 * the status 200 that is taken for success.
 */


#include "talk.h"


#define EVENT    "{\"type\":\"event_callback\",\"team_id\":\"T1\","           \
                 "\"event_id\":"                                             \
                 "\"Ev1\",\"authorizations\":[{\"user_id\":\"U0BOT\","         \
                 "\"is_bot\":true}],\"event\":{"
#define MESSAGE  EVENT "\"type\":\"message\",\"user\":\"U1\",\"ts\":\"17.01\""

#define POST     "POST chat.postMessage {\"channel\":\"C1\",\"thread_ts\":"    \
                 "\"17.01\","
#define QUIET    ",\"unfurl_links\":false,\"unfurl_media\":false}"
#define JOINER   "\xe2\x81\xa0"


/* the example in Slack's documentation of signatures */

static const char  example[] =
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
    "&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name="
    "roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2F"
    "hooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRs"
    "kXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b670"
    "3c";


static void
test_genuine(void)
{
    time_t                             now;
    ngx_int_t                          rc;
    ngx_str_t                          secret, body;
    ngx_uint_t                         i;
    ngx_http_agentstream_chat_proof_t  proof;

    static const struct {
        const char  *signature;
        const char  *timestamp;
        const char  *secret;
    } bad[] = {
        { "", "1531420618", NULL },
        { "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b50",
          "1531420618", NULL },
        { "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b504",
          "1531420618", NULL },
        { "v0=A2114D57B48EAC39B9AD189DD8316235A7B4A8D21A10BD27519666489C69B503",
          "1531420618", NULL },
        { "v1=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
          "1531420618", NULL },
        { NULL, "1531420619", NULL },
        { NULL, "", NULL },
        { NULL, "-1531420618", NULL },
        { NULL, "1531420618x", NULL },
        { NULL, "99999999999999999999999999", NULL },
        { NULL, NULL, "" },
        { NULL, NULL, "8f742231b10e8888abcd99yyyzzz85a6" },
    };

    static const char  good[] =
        "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

    body = tap_str(example);
    now = 1531420618;

    proof.signature = tap_str(good);
    proof.timestamp = tap_str("1531420618");
    secret = tap_str("8f742231b10e8888abcd99yyyzzz85a5");

    tap_is(platform->genuine(&proof, &body, &secret, now), NGX_OK, "genuine");
    tap_is(platform->genuine(&proof, &body, &secret, now + 300), NGX_OK,
           "5 minutes old");
    tap_is(platform->genuine(&proof, &body, &secret, now - 300), NGX_OK,
           "5 minutes ahead");
    tap_is(platform->genuine(&proof, &body, &secret, now + 301), NGX_DECLINED,
           "older");
    tap_is(platform->genuine(&proof, &body, &secret, now - 301), NGX_DECLINED,
           "more ahead");

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        proof.signature = tap_str(bad[i].signature ? bad[i].signature : good);
        proof.timestamp = tap_str(bad[i].timestamp ? bad[i].timestamp
                                                   : "1531420618");
        secret = tap_str(bad[i].secret ? bad[i].secret
                                       : "8f742231b10e8888abcd99yyyzzz85a5");
        rc = platform->genuine(&proof, &body, &secret, now);
        tap_ok(rc == NGX_DECLINED, "not genuine: %d", (int) i);
    }

    proof.signature = tap_str(good);
    proof.timestamp = tap_str("1531420618");
    secret = tap_str("8f742231b10e8888abcd99yyyzzz85a5");
    body.len--;
    tap_is(platform->genuine(&proof, &body, &secret, now), NGX_DECLINED,
           "another body");
}


static void
test_message(void)
{
    update_t  u;

    u = chat_one(MESSAGE ",\"channel\":\"D1\",\"channel_type\":\"im\",\"text\":"
                 "\"a &lt;b&gt; &amp;amp; &lt 🙂\"}}", "a message");
    tap_is(u.kind, CHAT(MESSAGE), "kind");
    tap_is_str(u.id, "Ev1", "id");
    tap_is_str(u.key, "D1:17.01", "key");
    tap_is_str(u.session, "slack:T1:D1", "session");
    tap_is_str(u.place.account, "T1", "team");
    tap_is_str(u.place.chat, "D1", "chat");
    tap_is_str(u.place.thread, "", "no thread");
    tap_is_str(u.sender, "U1", "sender");
    tap_is_str(u.message, "17.01", "message");
    tap_is_str(u.text, "a <b> &amp; &lt 🙂", "text");
    tap_ok(!u.group && u.addressed, "a private message is for the bot");

    u = chat_one(MESSAGE ",\"channel\":\"D1\",\"thread_ts\":\"16.5\","
                 "\"text\":\"x\"}}", "in a thread of a private chat");
    tap_is_str(u.session, "slack:T1:D1:16.5", "is a session of its own");

    u = chat_one(MESSAGE ",\"channel\":\"C1\",\"channel_type\":\"channel\","
                 "\"text\":\"x\"}}", "in a channel");
    tap_is_str(u.session, "slack:T1:C1:17.01", "begins a thread");
    tap_is_str(u.place.thread, "17.01", "its thread");
    tap_ok(u.group && !u.addressed, "not for the bot");

    u = chat_one(MESSAGE ",\"channel\":\"C1\",\"thread_ts\":\"16.5\","
                 "\"text\":\"x\"}}", "in a thread");
    tap_is_str(u.session, "slack:T1:C1:16.5", "is in its session");

    u = chat_one(MESSAGE ",\"channel\":\"C1\",\"thread_ts\":\"16.5\",\"text\":"
                 "\"x\",\"parent_user_id\":\"U0BOT\"}}", "a thread of the bot");
    tap_ok(u.addressed, "is for the bot");

    u = chat_one(MESSAGE ",\"channel\":\"C1\",\"text\":\"<@U0BOT> do "
                 "<@U2> <@U3|ann> <#C2|general> <!here> <!subteam^S1|@ops>\"}}",
                 "a mention");
    tap_ok(u.addressed, "is for the bot");
    tap_is_str(u.text, "do @U2 @ann #general @here @ops", "names");

    u = chat_one(MESSAGE ",\"channel\":\"D1\",\"text\":\"<https://x.org> "
                 "<https://x.org/a|x.org/a> <https://x.org|the page> <a <b\"}}",
                 "links");
    tap_is_str(u.text, "https://x.org https://x.org/a the page (https://x.org) "
               "<a <b", "links");

    u = chat_one(EVENT "\"type\":\"app_mention\",\"user\":\"U1\",\"ts\":"
                 "\"17.01\",\"channel\":\"C1\",\"text\":\"<@U0BOT> /Cancel "
                 "now\"}}", "a command");
    tap_is(u.kind, CHAT(COMMAND), "kind");
    tap_is_str(u.command, "cancel", "command");
    tap_is_str(u.argument, "now", "argument");
    tap_is_str(u.key, "C1:17.01", "the key that the message has, too");
    tap_ok(u.addressed, "addressed");

    u = chat_one(EVENT "\"type\":\"app_mention\",\"user\":\"U1\",\"ts\":"
                 "\"17.01\",\"channel\":\"C1\",\"text\":\"<@U0BOT>\"}}",
                 "only a mention");
    tap_is_str(u.command, "help", "wants help");
}


static void
test_files(void)
{
    file_t    *f;
    update_t   u;

    u = chat_one(MESSAGE ",\"channel\":\"D1\",\"subtype\":\"file_share\","
                 "\"text\":\"\",\"files\":[{\"id\":\"F1\",\"name\":\"a.png\","
                 "\"mimetype\":\"image/png\",\"size\":9,\"url_private\":"
                 "\"https://files.slack.com/files-pri/T1-F1/a.png\"},"
                 "{\"id\":\"F2\",\"name\":\"b.pdf\",\"mimetype\":"
                 "\"application/pdf\"},{\"id\":\"F3\",\"mimetype\":"
                 "\"image/png\",\"url_private\":\"https://evil.org/a.png\"},"
                 "{\"mimetype\":\"image/png\",\"url_private\":"
                 "\"https://files.slack.com/../a.png\"}]}}", "files");

    if (!tap_is(u.files.nelts, 4, "four files")) {
        return;
    }

    f = u.files.elts;
    tap_is_str(f[0].path, "file/files-pri/T1-F1/a.png", "where it is");
    tap_is_str(f[0].name, "a.png", "name");
    tap_is(f[0].size, 9, "size");
    tap_ok(f[0].picture, "a picture");
    tap_ok(!f[1].picture, "no picture");
    tap_ok(!f[2].picture && f[2].path.len == 0, "not at Slack");
    tap_ok(!f[3].picture && f[3].path.len == 0, "not below it");
}


static void
test_press(void)
{
    update_t  u;

    u = chat_one("payload=%7B%22type%22%3A%22block_actions%22%2C%22team%22%3A"
                 "%7B%22id%22%3A%22T1%22%7D%2C%22user%22%3A%7B%22id%22%3A%22U1"
                 "%22%7D%2C%22container%22%3A%7B%22message_ts%22%3A%2218.2%22"
                 "%2C%22channel_id%22%3A%22C1%22%2C%22thread_ts%22%3A%2217.01"
                 "%22%7D%2C%22actions%22%3A%5B%7B%22value%22%3A%22q1%3A0%22%2C"
                 "%22action_ts%22%3A%2219.3%22%2C%22text%22%3A%7B%22text%22%3A"
                 "%22Yes+%26+no%22%7D%7D%5D%7D", "a press");

    tap_is(u.kind, CHAT(PRESS), "kind");
    tap_is_str(u.id, "U1:18.2:19.3", "id");
    tap_is_str(u.session, "slack:T1:C1:17.01", "session");
    tap_is_str(u.message, "18.2", "message");
    tap_is_str(u.token, "q1:0", "token");
    tap_is_str(u.text, "Yes & no", "label");
    tap_is_str(u.sender, "U1", "sender");

    u = chat_one("{\"type\":\"block_actions\",\"team\":null,\"user\":{\"id\":"
                 "\"U1\",\"team_id\":\"T9\"},\"container\":{\"message_ts\":"
                 "\"18.2\",\"channel_id\":\"D1\"},\"actions\":[{\"value\":\"x\""
                 ",\"action_ts\":\"1.1\"}]}", "in an organization");
    tap_is_str(u.session, "slack:T9:D1", "session");
}


static void
test_command(void)
{
    update_t  u;

    u = chat_one(example, "a slash command");
    tap_is_str(u.command, "help", "one that is no word, without a text");

    u = chat_one("command=%2Fagent&text=+Cancel+it%21+&team_id=T1&channel_id="
                 "D1&user_id=U1&trigger_id=1.2.3", "/agent cancel");
    tap_is(u.kind, CHAT(COMMAND), "kind");
    tap_is_str(u.command, "cancel", "command");
    tap_is_str(u.argument, "it!", "argument");
    tap_is_str(u.session, "slack:T1:D1", "session");
    tap_is_str(u.id, "1.2.3", "id");
    tap_ok(u.addressed, "addressed");

    u = chat_one("command=%2Fcancel&text=&team_id=T1&channel_id=D1&user_id=U1"
                 "&trigger_id=1.2.3", "/cancel");
    tap_is_str(u.command, "cancel", "command");
}


static void
test_nothing(void)
{
    update_t  u;

    u = chat_one("{\"token\":\"x\",\"challenge\":\"3eZbrw1aBm2rZgRNFdxV2595E9CY"
                 "3gmdALWMmHkvFXO7tYXAYM8P\",\"type\":\"url_verification\"}",
                 "a handshake");
    tap_is(u.kind, CHAT(HANDSHAKE), "kind");
    tap_is_str(u.text, "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",
               "what to answer");

    chat_nothing(MESSAGE ",\"channel\":\"D1\",\"bot_id\":\"B1\",\"text\":\"x\""
                 "}}", "a message of a bot");
    chat_nothing(EVENT "\"type\":\"message\",\"user\":\"U0BOT\",\"ts\":\"1.1\","
                 "\"channel\":\"D1\",\"text\":\"x\"}}", "its own message");
    chat_nothing(MESSAGE ",\"channel\":\"D1\",\"subtype\":\"message_changed\","
                 "\"text\":\"x\"}}", "an edit");
    chat_nothing(MESSAGE ",\"channel\":\"D1\",\"subtype\":\"channel_join\","
                 "\"text\":\"x\"}}", "a join");
    chat_nothing(MESSAGE ",\"channel\":\"D1\",\"text\":\" \"}}", "no text");
    chat_nothing(MESSAGE ",\"channel\":\"D1:2\",\"text\":\"x\"}}", "an id");
    chat_nothing(MESSAGE ",\"channel\":[1],\"text\":\"x\"}}", "a list");
    chat_nothing(EVENT "\"type\":\"reaction_added\",\"user\":\"U1\"}}",
                 "another event");
    chat_nothing("{\"type\":\"app_rate_limited\"}", "a limit");
    chat_nothing("{\"type\":\"view_submission\"}", "a form");
    chat_nothing("{}", "empty");
}


static void
test_bad(void)
{
    size_t  i;

    static const char  *bad[] = {
        "", "x", "[]", "{", "payload=", "payload=x", "payload=%7B", "a=b",
        "payload=%ff", "command=x", "command=%2Fx&user_id=%00",
        "command=%2Fx&user_id=U1&trigger_id=1&team_id=%20&channel_id=D"
    };

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void) chat_parse_len(bad[i], strlen(bad[i]), NGX_DECLINED, 0, bad[i]);
    }

    chat_truncate(MESSAGE ",\"channel\":\"D1\",\"text\":\"a &lt;b&gt; 🙂\"}}");
}


static void
test_spell(void)
{
    action_t  a;
    button_t  buttons[2];

    memset(&a, 0, sizeof(a));

    tap_is_str(chat_spell(&a), "POST auth.test {}", "me");

    a.place.chat = tap_str("C1");
    a.kind = CHAT(TYPING);
    tap_is_str(chat_spell(&a), "declined", "typing without a thread");

    a.place.thread = tap_str("17.01");
    tap_is_str(chat_spell(&a), "POST assistant.threads.setStatus "
               "{\"channel_id\":\"C1\",\"thread_ts\":\"17.01\",\"status\":"
               "\"is working…\"}", "typing");

    a.markup = 1;
    a.kind = CHAT(SEND);
    a.text = tap_str("**a** <!channel> <@U1> <#C1> <!-- x --> <!DOCTYPE html>"
                     " a<b <\x01!HERE>\x01");
    tap_is_str(chat_spell(&a), POST "\"markdown_text\":\"**a** <" JOINER
               "!channel> <" JOINER "@U1> <" JOINER "#C1> <!-- x --> "
               "<!DOCTYPE html> a<b <" JOINER "!HERE>\"" QUIET, "send");

    a.markup = 0;
    a.kind = CHAT(CREATE);
    a.text = tap_str("<!channel> & so on");
    tap_is_str(chat_spell(&a), POST "\"text\":\"&lt;!channel&gt; &amp; so on\","
               "\"parse\":\"none\",\"link_names\":false,\"mrkdwn\":false" QUIET,
               "create, plain");

    a.kind = CHAT(EDIT);
    a.message = tap_str("18.2");
    a.text = tap_str("x");
    tap_is_str(chat_spell(&a), "POST chat.update {\"channel\":\"C1\",\"ts\":"
               "\"18.2\",\"text\":\"x\",\"parse\":\"none\",\"link_names\":"
               "false,\"blocks\":[]}", "edit, plain");

    a.markup = 1;
    tap_is_str(chat_spell(&a), "POST chat.update {\"channel\":\"C1\",\"ts\":"
               "\"18.2\",\"markdown_text\":\"x\"}", "edit");
    a.kind = CHAT(SETTLE);
    tap_is_str(chat_spell(&a), "POST chat.update {\"channel\":\"C1\",\"ts\":"
               "\"18.2\",\"text\":\"x\",\"blocks\":[{\"type\":\"markdown\","
               "\"text\":\"x\"}]}", "settle");
    a.text.len = 0;
    tap_is_str(chat_spell(&a), "POST chat.update {\"channel\":\"C1\",\"ts\":"
               "\"18.2\",\"text\":\"This question is closed.\",\"blocks\":["
               "{\"type\":\"section\",\"text\":{\"type\":\"plain_text\","
               "\"text\":\"This question is closed.\"}}]}",
               "settle without a text");

    a.kind = CHAT(DELETE);
    tap_is_str(chat_spell(&a), "POST chat.delete {\"channel\":\"C1\",\"ts\":"
               "\"18.2\"}", "delete");

    a.kind = CHAT(PRESSED);
    tap_is_str(chat_spell(&a), "declined", "pressed");
    a.kind = CHAT(POLL);
    tap_is_str(chat_spell(&a), "declined", "poll");
    a.kind = CHAT(FETCH);
    a.path = tap_str("file/files-pri/a.png");
    tap_is_str(chat_spell(&a), "GET file/files-pri/a.png ", "fetch");

    a.kind = CHAT(ASK);
    a.text = tap_str("Which <!here>?");
    a.buttons = buttons;
    a.nbuttons = 2;
    buttons[0].label = tap_str("Yes");
    buttons[0].token = tap_str("q1:0");
    buttons[1].label = tap_str("No");
    buttons[1].token = tap_str("q1:1");
    tap_is_str(chat_spell(&a), POST "\"text\":\"Which &lt;!here&gt;?\","
               "\"blocks\":[{\"type\":\"markdown\",\"text\":\"Which <" JOINER
               "!here>?\"},{\"type\":\"actions\",\"elements\":[{\"type\":"
               "\"button\",\"action_id\":\"b0\",\"value\":\"q1:0\",\"text\":{"
               "\"type\":\"plain_text\",\"text\":\"Yes\"}},{\"type\":"
               "\"button\",\"action_id\":\"b1\",\"value\":\"q1:1\",\"text\":{"
               "\"type\":\"plain_text\",\"text\":\"No\"}}]}]" QUIET, "ask");

    a.markup = 0;
    a.nbuttons = 0;
    tap_is_str(chat_spell(&a), POST "\"text\":\"Which &lt;!here&gt;?\","
               "\"blocks\":[{\"type\":\"section\",\"text\":{\"type\":"
               "\"plain_text\",\"text\":\"Which <!here>?\"}}]" QUIET,
               "ask, plain, without buttons");
}


static void
test_read(void)
{
    char        body[128];
    answer_t    a;
    ngx_uint_t  i;

    static const struct {
        const char  *error;
        ngx_uint_t   result;
    } errors[] = {
        { "ratelimited", CHAT(LATER) },
        { "service_unavailable", CHAT(LATER) },
        { "internal_error", CHAT(LOST) },
        { "msg_too_long", CHAT(LONG) },
        { "msg_blocks_too_long", CHAT(LONG) },
        { "invalid_blocks", CHAT(MARKUP) },
        { "message_not_found", CHAT(GONE) },
        { "cant_update_message", CHAT(GONE) },
        { "channel_not_found", CHAT(CLOSED) },
        { "is_archived", CHAT(CLOSED) },
        { "not_in_channel", CHAT(CLOSED) },
        { "invalid_auth", CHAT(DENIED) },
        { "not_authed", CHAT(DENIED) },
        { "token_revoked", CHAT(DENIED) },
        { "missing_scope", CHAT(DENIED) },
        { "no_text", CHAT(REFUSED) },
        { "", CHAT(REFUSED) },
    };

    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        snprintf(body, sizeof(body), "{\"ok\":false,\"error\":\"%s\"}",
                 errors[i].error);
        a = chat_read(CHAT(SEND), 200, body);
        tap_is(a.result, errors[i].result, errors[i].error);
    }

    a = chat_read(CHAT(TYPING), 200, "{\"ok\":false,\"error\":"
                  "\"missing_scope\"}");
    tap_is(a.result, CHAT(REFUSED), "an app that may not say that it types");

    a = chat_read(CHAT(SEND), 200, "{\"ok\":true,\"channel\":\"C1\",\"ts\":"
                  "\"18.2\"}");
    tap_is(a.result, CHAT(DONE), "sent");
    tap_is_str(a.message, "18.2", "its id");

    a = chat_read(CHAT(ME), 200, "{\"ok\":true,\"user_id\":\"U0BOT\",\"user\":"
                  "\"agent\"}");
    tap_is_str(a.me.id, "U0BOT", "the id of the bot");

    a = chat_read(CHAT(SEND), 429, "{\"ok\":false,\"error\":\"ratelimited\"}");
    tap_is(a.result, CHAT(LATER), "429");

    a = chat_read(CHAT(SEND), 200, "<html>");
    tap_is(a.result, CHAT(LOST), "nonsense");
}


int
main(void)
{
    chat_init("slack");

    test_genuine();
    test_message();
    test_files();
    test_press();
    test_command();
    test_nothing();
    test_bad();
    test_spell();
    test_read();

    return chat_done();
}
