
/*
 * Copyright (C) agentstream contributors
 */


/*
 * asked*.c: what the agent asks as a message, and what somebody answers.
 * Breaks when: a header, a description, a number or the hint for several
 * choices is missing; a label is taken for markup; one press is offered where
 * it would be half an answer; a number, a label, several of them or own words
 * become another answer; "no" and why is not passed on; what is no answer to a
 * permission request is taken for one.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_asked.h"
#include "tap.h"


#define TELEGRAM  NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM
#define SLACK     NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK

#define COLORS  "{\"question\":\"Which *one*?\",\"header\":\"Co_l_or\","    \
                "\"options\":[{\"label\":\"Red <b>\","                       \
                "\"description\":\"hot\"},"                                  \
                "{\"label\":\"Bl\\u00fce\"},{\"label\":\"3 *\\n4\"}]}"
#define SIZES   "{\"question\":\"Sizes?\",\"multiple\":true,"                 \
                "\"options\":[{\"label\":\"S\"},{\"label\":\"M\"},"           \
                "{\"label\":\"L\"}]}"
#define ONE     "{\"questionId\":\"que_1\",\"questions\":[" COLORS "]}"
#define MANY    "{\"questionId\":\"que_1\",\"questions\":[" SIZES "]}"
#define BOTH    "{\"questionId\":\"que_1\",\"questions\":["                 \
                COLORS "," SIZES "]}"
#define BARE    "{\"questionId\":\"que_1\","                                 \
                "\"questions\":[{\"question\":\"?\"}]}"

#define PERMIT  "{\"permissionId\":\"per_1\",\"permission\":\"bash\","        \
                "\"patterns\":[\"rm *\",\"ls *\"],\"toolCall\":{\"rawInput\":" \
                "%s},\"options\":[{\"optionId\":\"once\",\"name\":"           \
                "\"Allow once\"},{\"optionId\":\"always\",\"name\":"          \
                "\"Always allow\"},{\"optionId\":\"reject\",\"name\":"        \
                "\"Reject\"}]}"


extern ngx_log_t  ngx_unit_log;

static ngx_pool_t   *pool;
static ngx_array_t  *buttons;


static void
shown(const char *json, ngx_uint_t form, const char *expected,
    ngx_uint_t nbuttons, const char *name)
{
    ngx_str_t                      text;
    ngx_array_t                   *pieces;
    ngx_http_agentstream_piece_t  *piece;

    pieces = ngx_array_create(pool, 1, sizeof(ngx_http_agentstream_piece_t));
    buttons = ngx_array_create(pool, 1,
                               sizeof(ngx_http_agentstream_asked_button_t));

    text.len = strlen(json);
    text.data = tap_copy(json, text.len);

    if (tap_ok(ngx_http_agentstream_asked_show(pool, form,
                        &ngx_http_agentstream_markdown_limits[form],
                        &text, pieces, buttons)
               == NGX_OK && pieces->nelts == 1, "%s: one message", name))
    {
        piece = pieces->elts;
        tap_is_str(piece->markup, expected, name);
        tap_is(buttons->nelts, nbuttons, "its buttons");
    }

    free(text.data);
}


static void
answered(const char *json, const char *answer, const char *expected)
{
    ngx_int_t  rc;
    ngx_str_t  packet, text, body;

    packet.len = strlen(json);
    packet.data = tap_copy(json, packet.len);
    text.len = strlen(answer);
    text.data = tap_copy(answer, text.len);

    rc = ngx_http_agentstream_asked_answer(pool, &packet, &text, &body);

    if (expected == NULL) {
        tap_is(rc, NGX_DECLINED, answer);

    } else if (tap_ok(rc == NGX_OK, "\"%s\" is an answer", answer)) {
        tap_is_str(body, expected, answer);
    }

    free(packet.data);
    free(text.data);
}


static void
test_show(void)
{
    char                                  json[1024];
    ngx_http_agentstream_asked_button_t  *button;

    shown(ONE, TELEGRAM,
          "❓ The agent has a question:\n\n<b>Co_l_or</b>\nWhich <i>one</i>?\n\n"
          "1. Red &lt;b&gt; — hot\n2. Blüe\n3. 3 * 4\n\n"
          "Reply with your answer:", 3, "a question");

    button = buttons->elts;
    tap_is_str(button[0].label, "Red <b>", "the first button");
    tap_is_str(button[1].label, "Blüe", "the second button");
    tap_is(button[2].index, 2, "its number");

    shown(MANY, TELEGRAM,
          "❓ The agent has a question:\n\nSizes?\n\n1. S\n2. M\n3. L\n\n"
          "(You can pick multiple — separate with commas)\n\n"
          "Reply with your answer:", 0, "several choices");

    shown(BOTH, SLACK,
          "❓ The agent has questions:\n\n**Co\\_l\\_or**\nWhich *one*?\n\n"
          "1. Red \\<b> — hot\n2. Blüe\n3. 3 \\* 4\n\nSizes?\n\n1. S\n2. M\n"
          "3. L\n\n(You can pick multiple — separate with commas)\n\n"
          "Reply with your answer:", 0, "several questions");

    snprintf(json, sizeof(json), PERMIT, "{\"command\":\"rm -r *\\n```\"}");
    shown(json, TELEGRAM,
          "🔐 The agent asks for permission: <b>bash</b>\n\n"
          "<pre>rm -r *\n```</pre>\n\n1. Allow once\n2. Always allow\n"
          "3. Reject\n\nReply with yes, always or no:", 3, "a permission");

    button = buttons->elts;
    tap_is_str(button[1].label, "Always allow", "a button of it");

    snprintf(json, sizeof(json), PERMIT, "{\"command\":\"~~~~~~\\n`x`\"}");
    shown(json, TELEGRAM,
          "🔐 The agent asks for permission: <b>bash</b>\n\n"
          "<pre>~~~~~~\n'x'</pre>\n\n1. Allow once\n2. Always allow\n"
          "3. Reject\n\nReply with yes, always or no:", 3,
          "a command that looks like the end of code");

    snprintf(json, sizeof(json), PERMIT, "{}");
    shown(json, TELEGRAM,
          "🔐 The agent asks for permission: <b>bash</b>\n\n"
          "<pre>rm *\nls *</pre>\n\n1. Allow once\n2. Always allow\n"
          "3. Reject\n\nReply with yes, always or no:", 3,
          "a permission without a command");
}


static void
test_answer(void)
{
    char  json[1024];

    answered(ONE, "1", "{\"answers\":[[\"Red <b>\"]]}");
    answered(ONE, " 2. ", "{\"answers\":[[\"Bl\\u00fce\"]]}");
    answered(ONE, "3)", "{\"answers\":[[\"3 *\\n4\"]]}");
    answered(ONE, "red <B>", "{\"answers\":[[\"Red <b>\"]]}");
    answered(ONE, "4", "{\"answers\":[[\"4\"]]}");
    answered(ONE, "0", "{\"answers\":[[\"0\"]]}");
    answered(ONE, "1, 2", "{\"answers\":[[\"1, 2\"]]}");
    answered(ONE, "Some \"thing\"\nelse",
             "{\"answers\":[[\"Some \\\"thing\\\"\\nelse\"]]}");
    answered(ONE, "  \n ", NULL);

    answered(MANY, "2,3", "{\"answers\":[[\"M\",\"L\"]]}");
    answered(MANY, "m, s, m, xl,", "{\"answers\":[[\"M\",\"S\",\"xl\"]]}");
    answered(MANY, "1", "{\"answers\":[[\"S\"]]}");
    answered(MANY, "none, really", "{\"answers\":[[\"none, really\"]]}");

    answered(BOTH, "1\n\n2,3\n",
             "{\"answers\":[[\"Red <b>\"],[\"M\",\"L\"]]}");
    answered(BOTH, "2", "{\"answers\":[[\"Bl\\u00fce\"],[\"M\"]]}");
    answered(BARE, "1", "{\"answers\":[[\"1\"]]}");
    answered("{\"questionId\":\"q\",\"questions\":[]}", "1", NULL);
    answered("{\"type\":\"heartbeat\"}", "1", NULL);
    answered("{", "1", NULL);

    snprintf(json, sizeof(json), PERMIT, "{}");

    answered(json, "yes", "{\"reply\":\"once\"}");
    answered(json, "Allow Once", "{\"reply\":\"once\"}");
    answered(json, "1", "{\"reply\":\"once\"}");
    answered(json, "ALWAYS", "{\"reply\":\"always\"}");
    answered(json, "2", "{\"reply\":\"always\"}");
    answered(json, "n", "{\"reply\":\"reject\"}");
    answered(json, "reject", "{\"reply\":\"reject\"}");
    answered(json, "no, use \"ls\"",
             "{\"reply\":\"reject\",\"message\":\"use \\\"ls\\\"\"}");
    answered(json, "No not now",
             "{\"reply\":\"reject\",\"message\":\"not now\"}");
    answered(json, "perhaps", NULL);
    answered(json, "4", NULL);
    answered(json, "nothing, really", NULL);
}


static void
test_press(void)
{
    char       json[1024];
    ngx_str_t  packet, body;

    packet = tap_str(ONE);
    tap_ok(ngx_http_agentstream_asked_press(pool, &packet, 1, &body) == NGX_OK,
           "a press");
    tap_is_str(body, "{\"answers\":[[\"Bl\\u00fce\"]]}", "what it says");
    tap_ok(ngx_http_agentstream_asked_press(pool, &packet, 3, &body)
           == NGX_DECLINED, "there is no such button");

    snprintf(json, sizeof(json), PERMIT, "{}");
    packet = tap_str(json);
    tap_ok(ngx_http_agentstream_asked_press(pool, &packet, 2, &body) == NGX_OK,
           "a press of a permission");
    tap_is_str(body, "{\"reply\":\"reject\"}", "what that says");
}


static void
resolved(const char *json, const char *expected)
{
    ngx_str_t                     packet;
    ngx_http_agentstream_piece_t  piece;

    packet = tap_str(json);

    if (tap_ok(ngx_http_agentstream_asked_resolved(pool, TELEGRAM,
                        &ngx_http_agentstream_markdown_limits[TELEGRAM],
                        &packet, &piece)
               == NGX_OK, "resolved"))
    {
        tap_is_str(piece.markup, expected, json);
    }
}


static void
test_resolved(void)
{
    resolved("{\"outcome\":\"answered\",\"answers\":[[\"a<\",\"b\"],[\"c\"]]}",
             "✅ Answered: a&lt;, b, c");
    resolved("{\"outcome\":\"rejected\",\"answers\":null}", "❌ Not answered");
    resolved("{\"outcome\":\"unknown\",\"answers\":null}", "✅ Answered");
    resolved("{\"reply\":\"once\"}", "✅ Allowed once");
    resolved("{\"reply\":\"always\"}", "✅ Always allowed");
    resolved("{\"reply\":\"reject\"}", "❌ Rejected");
}


int
main(void)
{
    pool = ngx_create_pool(4096, &ngx_unit_log);

    test_show();
    test_answer();
    test_press();
    test_resolved();

    ngx_destroy_pool(pool);

    return tap_done();
}
