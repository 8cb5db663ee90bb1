
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Telegram: updates as the Bot API documents them, and what is not as it
 * should be; what the bot sends; what Telegram answers.
 *
 * Broken by: a secret that is compared in part, an empty secret that fits, an
 * edited message or one of a bot that is taken for a message, a chain of
 * replies that is taken for a topic, a command for another bot, an offset that
 * stops at an update that cannot be read, a text that is not escaped, a mention
 * that is left as it is, "not modified" that is taken for a failure.
 */


#include "talk.h"


#define USER     "{\"id\":1001,\"is_bot\":false,\"first_name\":\"Ann 🙂\"}"
#define PRIVATE  "\"chat\":{\"id\":1001,\"type\":\"private\"}"
#define GROUP    "\"chat\":{\"id\":-1002003004005,\"type\":\"supergroup\"}"
#define HEAD     "{\"update_id\":77,\"message\":{\"message_id\":5,"           \
                 "\"from\":" USER

#define SEND     "POST sendMessage {\"chat_id\":1001,\"text\":"
#define HTML     ",\"parse_mode\":\"HTML\",\"link_preview_options\":"          \
                 "{\"is_disabled\":true}"


static void
test_genuine(void)
{
    ngx_str_t                          secret, body;
    ngx_uint_t                         i;
    ngx_http_agentstream_chat_proof_t  proof;

    static const char  *bad[] = {
        "", "s3cre", "s3cret ", "s3creT", "S3cret", "s3cret0"
    };

    memset(&proof, 0, sizeof(proof));

    body = tap_str("{}");
    secret = tap_str("s3cret");

    proof.signature = tap_str("s3cret");
    tap_is(platform->genuine(&proof, &body, &secret, 0), NGX_OK, "the secret");

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        proof.signature = tap_str(bad[i]);
        tap_is(platform->genuine(&proof, &body, &secret, 0), NGX_DECLINED,
               bad[i]);
    }

    secret = tap_str("");
    proof.signature = tap_str("");
    tap_is(platform->genuine(&proof, &body, &secret, 0), NGX_DECLINED,
           "no secret is no proof");
}


static void
test_message(void)
{
    update_t  u;

    u = chat_one(HEAD "," PRIVATE ",\"date\":1,\"text\":\" Hello 🙂 "
                 "\\u05e9 \"}}", "a message");

    tap_is(u.kind, CHAT(MESSAGE), "kind");
    tap_is_str(u.id, "77", "id");
    tap_is_str(u.key, "", "no other key");
    tap_is_str(u.session, "telegram:1001", "session");
    tap_is_str(u.place.chat, "1001", "chat");
    tap_is_str(u.place.thread, "", "thread");
    tap_is_str(u.sender, "1001", "sender");
    tap_is_str(u.message, "5", "message");
    tap_is_str(u.text, "Hello 🙂 ש", "text");
    tap_ok(!u.group && u.addressed, "a private message is for the bot");

    u = chat_one(HEAD "," GROUP ",\"text\":\"hi\"}}", "in a group");
    tap_ok(u.group && !u.addressed, "not addressed");
    tap_is_str(u.session, "telegram:-1002003004005", "session of a group");

    u = chat_one(HEAD "," GROUP ",\"message_thread_id\":9,\"text\":\"hi\"}}",
                 "a chain of replies");
    tap_is_str(u.session, "telegram:-1002003004005", "is no topic");

    u = chat_one(HEAD "," GROUP ",\"message_thread_id\":9,\"is_topic_message\""
                 ":true,\"text\":\"hi\"}}", "a topic");
    tap_is_str(u.session, "telegram:-1002003004005:9", "session of a topic");
    tap_is_str(u.place.thread, "9", "its thread");
}


static void
test_addressed(void)
{
    update_t  u;

    me.id = tap_str("42");
    me.name = tap_str("My_Bot");

    u = chat_one(HEAD "," GROUP ",\"text\":\"@my_bot  do it\"}}", "mention");
    tap_ok(u.addressed, "mentioned");
    tap_is_str(u.text, "do it", "the mention is removed");

    u = chat_one(HEAD "," GROUP ",\"text\":\"do it @my_bot!\"}}", "mention");
    tap_ok(u.addressed, "mentioned at the end");
    tap_is_str(u.text, "do it @my_bot!", "which is left there");

    u = chat_one(HEAD "," GROUP ",\"text\":\"@my_bot2 x@my_bo\"}}", "others");
    tap_ok(!u.addressed, "another bot's name that begins in the same way");

    u = chat_one(HEAD "," GROUP ",\"text\":\"yes\",\"reply_to_message\":{"
                 "\"from\":{\"id\":42,\"is_bot\":true}}}}", "a reply");
    tap_ok(u.addressed, "a reply to the bot");

    u = chat_one(HEAD "," GROUP ",\"text\":\"yes\",\"reply_to_message\":{"
                 "\"from\":{\"id\":43,\"is_bot\":true}}}}", "a reply");
    tap_ok(!u.addressed, "a reply to another bot");

    u = chat_one(HEAD "," GROUP ",\"text\":\"yes\",\"reply_to_message\":{"
                 "\"from\":{\"id\":7,\"is_bot\":false}}}}", "a reply");
    tap_ok(!u.addressed, "a reply to somebody");

    u = chat_one(HEAD "," GROUP ",\"text\":\"/Cancel@my_bot\"}}", "command");
    tap_is(u.kind, CHAT(COMMAND), "a command");
    tap_is_str(u.command, "cancel", "its name");
    tap_is_str(u.argument, "", "no argument");
    tap_ok(u.addressed, "a command for the bot");

    u = chat_one(HEAD "," GROUP ",\"text\":\"/cancel@other_bot\"}}", "command");
    tap_ok(!u.addressed, "a command for another bot");

    u = chat_one(HEAD "," GROUP ",\"text\":\"/new\\nfix it now \"}}",
                 "command");
    tap_is_str(u.command, "new", "a command with an argument");
    tap_is_str(u.argument, "fix it now", "its argument");
    tap_is_str(u.text, "/new\nfix it now", "its text");
    tap_ok(u.addressed, "a command for anybody");

    u = chat_one(HEAD "," GROUP ",\"text\":\"@my_bot /status\"}}", "command");
    tap_is_str(u.command, "status", "a command behind a mention");

    u = chat_one(HEAD "," PRIVATE ",\"text\":\"/etc/hosts?\"}}", "a path");
    tap_is(u.kind, CHAT(MESSAGE), "is no command");

    u = chat_one(HEAD "," PRIVATE ",\"text\":\"/\"}}", "a slash");
    tap_is(u.kind, CHAT(MESSAGE), "is no command, either");

    memset(&me, 0, sizeof(me));

    u = chat_one(HEAD "," GROUP ",\"text\":\"@my_bot do it\"}}", "mention");
    tap_ok(!u.addressed, "a mention, while the bot does not know its name");

    u = chat_one(HEAD "," GROUP ",\"text\":\"/cancel@other_bot\"}}", "command");
    tap_ok(!u.addressed, "a command for another bot, perhaps");

    u = chat_one(HEAD "," GROUP ",\"text\":\"/cancel\"}}", "command");
    tap_ok(u.addressed, "a command for anybody");

    u = chat_one(HEAD "," PRIVATE ",\"text\":\"/cancel@my_bot\"}}", "command");
    tap_ok(u.addressed, "a command in private");

    u = chat_one(HEAD "," GROUP ",\"text\":\"yes\",\"reply_to_message\":{"
                 "\"from\":{\"id\":43,\"is_bot\":true}}}}", "a reply");
    tap_ok(!u.addressed, "a reply to another bot, perhaps");
}


static void
test_files(void)
{
    file_t    *f;
    update_t   u;

    u = chat_one(HEAD "," PRIVATE ",\"caption\":\"what is it?\",\"photo\":["
                 "{\"file_id\":\"s\",\"file_size\":90},"
                 "{\"file_id\":\"AgAC-x_1\",\"file_size\":90000}]}}",
                 "a photo");
    tap_is_str(u.text, "what is it?", "its caption");
    tap_is(u.files.nelts, 1, "one file");
    f = u.files.elts;
    tap_is_str(f[0].id, "AgAC-x_1", "the largest one");
    tap_is_str(f[0].mime, "image/jpeg", "type");
    tap_is_str(f[0].name, "photo", "name");
    tap_is(f[0].size, 90000, "size");
    tap_ok(f[0].picture, "a picture");
    tap_is_str(u.album, "", "no album");

    u = chat_one(HEAD "," PRIVATE ",\"media_group_id\":\"13579\",\"photo\":["
                 "{\"file_id\":\"s\"}]}}", "a photo of an album");
    tap_is_str(u.album, "13579", "its album");

    u = chat_one(HEAD "," PRIVATE ",\"document\":{\"file_id\":\"d\","
                 "\"file_name\":\"a\\\"b.pdf\",\"mime_type\":"
                 "\"application/pdf\"}}}", "a document");
    f = u.files.elts;
    tap_is_str(f[0].name, "a\"b.pdf", "name");
    tap_is(f[0].size, -1, "no size");
    tap_ok(!f[0].picture, "no picture");

    u = chat_one(HEAD "," PRIVATE ",\"document\":{\"file_id\":\"d\","
                 "\"file_name\":\"a\\nb\",\"mime_type\":\"image/png\","
                 "\"file_size\":-5}}}", "a picture as a document");
    f = u.files.elts;
    tap_is_str(f[0].name, "document", "a name with control characters");
    tap_is(f[0].size, -1, "a size that is none");
    tap_ok(f[0].picture, "a picture");

    u = chat_one(HEAD "," PRIVATE ",\"location\":{\"latitude\":1.5}}}",
                 "a location");
    f = u.files.elts;
    tap_is_str(f[0].name, "location", "is named");
    tap_ok(!f[0].picture, "and no picture");
}


/* what a picture is, by its first bytes */

static void
test_picture_type(void)
{
    ngx_str_t   bytes;
    ngx_uint_t  i;

    static struct {
        ngx_str_t    bytes;
        const char  *type;
    }  pictures[] = {
        { ngx_string("\xff\xd8\xff\xe0" "123456789"), "image/jpeg" },
        { ngx_string("\x89PNG\r\n\x1a\n1234"), "image/png" },
        { ngx_string("GIF87a123456"), "image/gif" },
        { ngx_string("GIF89a123456"), "image/gif" },
        { ngx_string("RIFF1234WEBP"), "image/webp" },
        { ngx_string("RIFF1234WAVE"), "" },
        { ngx_string("GIF88a123456"), "" },
        { ngx_string("<!DOCTYPE html>"), "" },
        { ngx_string("<svg xmlns=\"x\"/>"), "" },
        { ngx_string("\x89PNG\r\n\x1a\n"), "" },
        { ngx_string("\xff\xd8\xff"), "" },
        { ngx_null_string, "" }
    };

    for (i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++) {
        bytes = pictures[i].bytes;
        tap_is_str(ngx_http_agentstream_chat_picture_type(&bytes),
                   pictures[i].type, "the type of a picture");
    }
}


static void
test_press(void)
{
    update_t  u;

    u = chat_one("{\"update_id\":8,\"callback_query\":{\"id\":\"43210\","
                 "\"from\":" USER ",\"message\":{\"message_id\":6,\"date\":0,"
                 GROUP "},"
                 "\"data\":\"q7:2\"}}", "a press");

    tap_is(u.kind, CHAT(PRESS), "kind");
    tap_is_str(u.session, "telegram:-1002003004005", "session");
    tap_is_str(u.sender, "1001", "sender");
    tap_is_str(u.message, "6", "message");
    tap_is_str(u.callback, "43210", "callback");
    tap_is_str(u.token, "q7:2", "token");
    tap_ok(u.addressed && u.group, "addressed");

    chat_nothing("{\"update_id\":8,\"callback_query\":{\"id\":\"1\",\"from\":"
                 USER ",\"inline_message_id\":\"x\",\"data\":\"q\"}}",
                 "a press of something that was sent inline");
    chat_nothing("{\"update_id\":8,\"callback_query\":{\"id\":\"1\",\"from\":"
                 USER ",\"message\":{\"message_id\":6," GROUP "},\"data\":"
                 "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                 "aaaaaaa\"}}", "a token of 65 bytes");
}


static void
test_nothing(void)
{
    chat_nothing("{\"update_id\":1,\"edited_message\":{\"message_id\":5,"
                 "\"from\":" USER "," PRIVATE ",\"text\":\"x\"}}", "an edit");
    chat_nothing("{\"update_id\":1,\"channel_post\":{\"message_id\":5,"
                 PRIVATE ",\"text\":\"x\"}}", "a post of a channel");
    chat_nothing("{\"update_id\":1,\"my_chat_member\":{}}", "a member");
    chat_nothing("{\"update_id\":1,\"not_yet_invented\":[[1]]}", "unknown");
    chat_nothing("{\"update_id\":1}", "empty");
    chat_nothing("{\"update_id\":1,\"message\":{\"message_id\":5,\"from\":{"
                 "\"id\":42,\"is_bot\":true}," GROUP ",\"text\":\"x\"}}",
                 "a message of a bot");
    chat_nothing(HEAD "," GROUP ",\"new_chat_members\":[" USER "]}}", "a join");
    chat_nothing(HEAD "," PRIVATE ",\"text\":\" \\n \"}}", "white space");
    chat_nothing(HEAD ",\"chat\":{\"id\":\"x:y\",\"type\":\"private\"},"
                 "\"text\":\"x\"}}", "a chat that is no id");
    chat_nothing(HEAD ",\"chat\":{\"id\":1.5,\"type\":\"private\"},"
                 "\"text\":\"x\"}}", "a chat with a fraction");
    chat_nothing(HEAD ",\"chat\":{\"id\":1e3,\"type\":\"private\"},"
                 "\"text\":\"x\"}}", "a chat with an exponent");
    chat_nothing(HEAD ",\"chat\":[],\"text\":\"x\"}}", "a chat that is a list");
    chat_nothing(HEAD "," PRIVATE ",\"text\":7}}", "a text that is a number");
    chat_nothing("{\"update_id\":1,\"message\":\"x\"}", "a text as message");
    chat_nothing("{\"update_id\":1,\"message\":{\"message_id\":5," PRIVATE
                 ",\"text\":\"x\"}}", "nobody sent it");
}


static void
test_bad(void)
{
    char    *deep;
    size_t   i;

    static const char  *bad[] = {
        "", "x", "[]", "7", "null", "{}", "{\"update_id\":-1}",
        "{\"update_id\":\"1\"}", "{\"update_id\":9223372036854775807}",
        "{\"update_id\":1}}", "{\"update_id\":1,\"message\":\"\xff\"}"
    };

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void) chat_parse_len(bad[i], strlen(bad[i]), NGX_DECLINED, 0, bad[i]);
    }

    chat_truncate(HEAD "," PRIVATE ",\"date\":1,\"text\":\"Hello 🙂 "
                  "\\u05e9\"}}");

    deep = malloc(NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX + 1);
    memset(deep, '[', NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX + 1);
    (void) chat_parse_len(deep, 100000, NGX_DECLINED, 0, "nested deeply");

    memset(deep, ' ', NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX + 1);
    memcpy(deep, "{\"update_id\":1}", 15);
    (void) chat_parse_len(deep, NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX, NGX_OK, 0,
                          "1 MB");
    (void) chat_parse_len(deep, NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX + 1,
                          NGX_DECLINED, 0, "more than 1 MB");
    free(deep);
}


static void
test_poll(void)
{
    update_t    *u;
    updates_t    updates;
    const char  *body;

    body = "{\"ok\":true,\"result\":[" HEAD "," PRIVATE ",\"text\":\"one\"}},"
           "{\"update_id\":78,\"edited_message\":{}},7,"
           "{\"update_id\":79,\"message\":{\"message_id\":6,\"from\":" USER ","
           PRIVATE ",\"text\":\"two\"}},{\"update_id\":80,\"message\":[]}]}";

    updates = chat_parse_len(body, strlen(body), NGX_OK, 1, "getUpdates");
    tap_is(updates.offset, 81, "goes on behind the last one");

    if (tap_is(updates.list.nelts, 2, "two messages")) {
        u = updates.list.elts;
        tap_is_str(u[0].text, "one", "first");
        tap_is_str(u[1].text, "two", "second");
    }

    body = "{\"ok\":true,\"result\":[]}";
    updates = chat_parse_len(body, strlen(body), NGX_OK, 1, "no updates");
    tap_is(updates.offset, 0, "goes on where it was");

    body = "{\"ok\":true,\"result\":{}}";
    (void) chat_parse_len(body, strlen(body), NGX_DECLINED, 1, "no list");
}


static void
test_spell(void)
{
    action_t  a;
    button_t  buttons[4];

    memset(&a, 0, sizeof(a));

    tap_is_str(chat_spell(&a), "POST getMe {}", "me");

    a.kind = CHAT(POLL);
    a.offset = 81;
    a.timeout = 50;
    tap_is_str(chat_spell(&a), "POST getUpdates {\"offset\":81,\"timeout\":50,"
               "\"limit\":10,"
               "\"allowed_updates\":[\"message\",\"callback_query\"]}", "poll");

    a.place.chat = tap_str("-1002003004005");
    a.place.thread = tap_str("9");
    a.kind = CHAT(TYPING);
    tap_is_str(chat_spell(&a), "POST sendChatAction {\"chat_id\":-1002003004005"
               ",\"message_thread_id\":9,\"action\":\"typing\"}", "typing");

    a.place.chat = tap_str("1001");
    a.place.thread = tap_str("");
    a.kind = CHAT(CREATE);
    a.markup = 1;
    a.text = tap_str("<b>a</b>\n\"\x01\x7f\xff&amp;");
    tap_is_str(chat_spell(&a), SEND "\"<b>a</b>\\n\\\"\xef\xbf\xbd&amp;\"" HTML
               ",\"disable_notification\":true}", "create");

    a.kind = CHAT(SEND);
    a.message = tap_str("5");
    a.markup = 0;
    a.text = tap_str("<a> & b");
    tap_is_str(chat_spell(&a), SEND "\"&lt;a&gt; &amp; b\"" HTML
               ",\"reply_parameters\":{\"message_id\":5,"
               "\"allow_sending_without_reply\":true}}", "send, plain");

    a.kind = CHAT(EDIT);
    a.message = tap_str("6");
    a.text = tap_str("x");
    tap_is_str(chat_spell(&a), "POST editMessageText {\"chat_id\":1001,"
               "\"text\":\"x\"" HTML ",\"message_id\":6}", "edit");

    a.kind = CHAT(DELETE);
    tap_is_str(chat_spell(&a), "POST deleteMessage {\"chat_id\":1001,"
               "\"message_id\":6}", "delete");

    a.kind = CHAT(SETTLE);
    tap_is_str(chat_spell(&a), "POST editMessageText {\"text\":\"x\"" HTML
               ",\"chat_id\":1001,\"message_id\":6}", "settle with a text");
    a.text.len = 0;
    tap_is_str(chat_spell(&a), "POST editMessageReplyMarkup {\"chat_id\":1001,"
               "\"message_id\":6}", "settle");

    a.kind = CHAT(PRESSED);
    a.callback = tap_str("43210");
    tap_is_str(chat_spell(&a), "POST answerCallbackQuery {"
               "\"callback_query_id\":\"43210\"}", "pressed");

    a.kind = CHAT(FILE);
    a.file = tap_str("AgAC");
    tap_is_str(chat_spell(&a), "POST getFile {\"file_id\":\"AgAC\"}", "file");

    a.kind = CHAT(FETCH);
    a.path = tap_str("file/photos/f.jpg");
    tap_is_str(chat_spell(&a), "GET file/photos/f.jpg ", "fetch");

    a.kind = CHAT(ASK);
    a.message.len = 0;
    a.text = tap_str("Which?");
    a.buttons = buttons;
    a.nbuttons = 4;
    buttons[0].label = tap_str("Yes");
    buttons[1].label = tap_str("No");
    buttons[2].label = tap_str("a label that is as long as a row");
    buttons[3].label = tap_str("äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü"
                               "äöüäöüäöüäöüäöüäöüäöüäöü.");
    buttons[0].token = tap_str("q1:0");
    buttons[1].token = tap_str("q1:1");
    buttons[2].token = tap_str("q1:2");
    buttons[3].token = tap_str("q1:3");
    tap_is_str(chat_spell(&a), SEND "\"Which?\"" HTML ",\"reply_markup\":"
               "{\"inline_keyboard\":[[{\"text\":\"Yes\",\"callback_data\":"
               "\"q1:0\"},{\"text\":\"No\",\"callback_data\":\"q1:1\"}],"
               "[{\"text\":\"a label that is as long as a row\","
               "\"callback_data\":\"q1:2\"}],[{\"text\":\"äöüäöüäöüäöüäöüäöüäöü"
               "äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäö…\",\"callback_data\":"
               "\"q1:3\"}]]}}", "ask");
}


static void
test_mentions(void)
{
    char        expected[512];
    action_t    a;
    ngx_uint_t  i;

    static const struct {
        const char  *text;
        const char  *sent;
    } mentions[] = {
        { "@admin", "<code>@admin</code>" },
        { "hi @admin_1, @bob.", "hi <code>@admin_1</code>, @bob." },
        { "<b>@admin</b>", "<b><code>@admin</code></b>" },
        { "me@example.org", "me@example.org" },
        { "<code>@Override</code> @admin",
          "<code>@Override</code> <code>@admin</code>" },
        { "<pre><code class='x'>@admin</code></pre>",
          "<pre><code class='x'>@admin</code></pre>" },
        { "<a href='https://x/@admin'>@admin</a>@admin",
          "<a href='https://x/@admin'>@admin</a><code>@admin</code>" },
        { "</a></a>@admin", "</a></a><code>@admin</code>" },
        { "@", "@" },
        { "@@admin", "@<code>@admin</code>" },
        { "@\x01" "ad\x7f" "min", "<code>@admin</code>" },
    };

    memset(&a, 0, sizeof(a));

    a.kind = CHAT(SEND);
    a.place.chat = tap_str("1001");
    a.markup = 1;

    for (i = 0; i < sizeof(mentions) / sizeof(mentions[0]); i++) {
        a.text = tap_str(mentions[i].text);
        snprintf(expected, sizeof(expected), SEND "\"%s\"" HTML "}",
                 mentions[i].sent);
        tap_is_str(chat_spell(&a), expected, mentions[i].text);
    }
}


static void
test_read(void)
{
    char                               body[512];
    answer_t                           a;
    ngx_uint_t                         i;
    ngx_http_agentstream_chat_reply_t  reply;

    static const struct {
        ngx_uint_t   status;
        const char  *text;
        ngx_uint_t   result;
    } errors[] = {
        { 400, "Bad Request: message is not modified: specified new message "
          "content and reply markup are exactly the same", CHAT(DONE) },
        { 400, "Bad Request: can't parse entities: Unsupported start tag "
          "\\\"x\\\" at byte offset 0", CHAT(MARKUP) },
        { 400, "Bad Request: message is too long", CHAT(LONG) },
        { 400, "Bad Request: MESSAGE_TOO_LONG", CHAT(LONG) },
        { 413, "Request Entity Too Large", CHAT(LONG) },
        { 400, "Bad Request: message to edit not found", CHAT(GONE) },
        { 400, "Bad Request: message to delete not found", CHAT(GONE) },
        { 400, "Bad Request: message can't be edited", CHAT(GONE) },
        { 400, "Bad Request: MESSAGE_ID_INVALID", CHAT(GONE) },
        { 400, "Bad Request: query is too old and response timeout expired or "
          "query ID is invalid", CHAT(GONE) },
        { 400, "Bad Request: chat not found", CHAT(CLOSED) },
        { 400, "Bad Request: message thread not found", CHAT(CLOSED) },
        { 400, "Bad Request: not enough rights to send text messages to the "
          "chat", CHAT(CLOSED) },
        { 403, "Forbidden: bot was blocked by the user", CHAT(CLOSED) },
        { 400, "Bad Request: message text is empty", CHAT(REFUSED) },
        { 401, "Unauthorized", CHAT(DENIED) },
        { 404, "Not Found", CHAT(DENIED) },
        { 409, "Conflict: terminated by other getUpdates request",
          CHAT(DENIED) },
        { 429, "Too Many Requests: retry after 5", CHAT(LATER) },
        { 500, "Internal Server Error", CHAT(LATER) },
        { 502, "Bad Gateway", CHAT(LATER) },
        { 418, "", CHAT(REFUSED) },
    };

    static const struct {
        ngx_uint_t   status;
        const char  *body;
        ngx_uint_t   result;
    } others[] = {
        { 200, "", CHAT(LOST) },
        { 200, "<html>", CHAT(LOST) },
        { 200, "{\"ok\":true,\"resu", CHAT(LOST) },
        { 200, "[true]", CHAT(LOST) },
        { 500, "<html>", CHAT(LOST) },
        { 502, "<html>", CHAT(LOST) },
        { 504, "", CHAT(LOST) },
        { 0, "", CHAT(LOST) },
        { 429, "<html>", CHAT(LATER) },
        { 503, "", CHAT(LATER) },
    };

    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        snprintf(body, sizeof(body), "{\"ok\":false,\"error_code\":%d,"
                 "\"description\":\"%s\"}", (int) errors[i].status,
                 errors[i].text);
        a = chat_read(CHAT(EDIT), errors[i].status, body);
        tap_is(a.result, errors[i].result, errors[i].text);
        tap_is(a.unchanged, i == 0, "whether it was so before");
    }

    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        a = chat_read(CHAT(SEND), others[i].status, others[i].body);
        tap_is(a.result, others[i].result, others[i].body);
    }

    a = chat_read(CHAT(SEND), 200, "{\"ok\":true,\"result\":{\"message_id\":"
                  "12345678901}}");
    tap_is(a.result, CHAT(DONE), "sent");
    tap_is_str(a.message, "12345678901", "the id of the message");

    a = chat_read(CHAT(DELETE), 200, "{\"ok\":true,\"result\":true}");
    tap_is(a.result, CHAT(DONE), "deleted");

    a = chat_read(CHAT(ME), 200, "{\"ok\":true,\"result\":{\"id\":42,"
                  "\"is_bot\":true,\"username\":\"my_bot\"}}");
    tap_is_str(a.me.id, "42", "the id of the bot");
    tap_is_str(a.me.name, "my_bot", "its name");

    a = chat_read(CHAT(SEND), 429, "{\"ok\":false,\"parameters\":"
                  "{\"retry_after\":35}}");
    tap_is(a.wait, 35, "how long to wait");

    a = chat_read(CHAT(SEND), 429, "{\"ok\":false,\"parameters\":"
                  "{\"retry_after\":99999999999}}");
    tap_is(a.wait, 86400, "not for ever");

    a = chat_read(CHAT(SEND), 400, "{\"ok\":false,\"description\":\"Bad Request"
                  ": group chat was upgraded to a supergroup chat\","
                  "\"parameters\":{\"migrate_to_chat_id\":-1009}}");
    tap_is(a.result, CHAT(CLOSED), "a group that has moved");
    tap_is_str(a.chat, "-1009", "where it is now");

    a = chat_read(CHAT(FILE), 200, "{\"ok\":true,\"result\":{\"file_id\":\"x\","
                  "\"file_size\":9,\"file_path\":\"photos/f_1.jpg\"}}");
    tap_is(a.result, CHAT(DONE), "a file");
    tap_is_str(a.path, "file/photos/f_1.jpg", "where it is");
    tap_is(a.size, 9, "its size");

    a = chat_read(CHAT(FILE), 200, "{\"ok\":true,\"result\":{\"file_path\":"
                  "\"photos/../../x\"}}");
    tap_is(a.result, CHAT(REFUSED), "a file that is elsewhere");

    a = chat_read(CHAT(FILE), 200, "{\"ok\":true,\"result\":{\"file_path\":"
                  "\"/photos/x\"}}");
    tap_is(a.result, CHAT(REFUSED), "a file with an absolute path");

    memset(&reply, 0, sizeof(reply));

    reply.status = 502;
    reply.unsent = 1;
    tap_is(platform->read(pool, CHAT(SEND), &reply, &a), NGX_OK, "unsent");
    tap_is(a.result, CHAT(LATER), "can be repeated");

    reply.unsent = 0;
    reply.status = 200;
    reply.body = tap_str("{\"ok\":true}");
    tap_is(platform->read(pool, CHAT(SEND), &reply, &a), NGX_OK, "cut off");
    tap_is(a.result, CHAT(DONE), "but it says that it is done");

    reply.status = 429;
    reply.body = tap_str("");
    reply.retry_after = tap_str("7");
    tap_is(platform->read(pool, CHAT(SEND), &reply, &a), NGX_OK, "a header");
    tap_is(a.wait, 7, "says how long to wait");
}


int
main(void)
{
    chat_init("telegram");

    test_genuine();
    test_message();
    test_addressed();
    test_files();
    test_picture_type();
    test_press();
    test_nothing();
    test_bad();
    test_poll();
    test_spell();
    test_mentions();
    test_read();

    return chat_done();
}
