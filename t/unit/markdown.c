
/*
 * Copyright (C) agentstream contributors
 */


/*
 * markdown*.c: Markdown as each platform gets it.
 * Breaks when: a mark is spelt differently, is left open, or is inside of code;
 * HTML, a mention or a mark that the agent wrote is not shown as it was
 * written; a table is not aligned; a line of a list or quote has another
 * beginning; an address is lost; a piece exceeds a limit, begins or ends inside
 * of a block that would fit as a whole, or loses a character.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_markdown.h"
#include "tap.h"


#define PLAIN     NGX_HTTP_AGENTSTREAM_MARKDOWN_PLAIN
#define TELEGRAM  NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM
#define SLACK     NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK
#define WHATSAPP  NGX_HTTP_AGENTSTREAM_MARKDOWN_WHATSAPP

#define ZERO      "\xe2\x80\x8b"


extern ngx_log_t  ngx_unit_log;

static ngx_pool_t  *pool;


typedef struct {
    const char  *source;
    const char  *telegram;
    const char  *whatsapp;
    const char  *plain;
} row_t;


static row_t  rows[] = {

    { "Hello", "Hello", "Hello", "Hello" },

    { "a **b** *c* ~~d~~ `e`",
      "a <b>b</b> <i>c</i> <s>d</s> <code>e</code>",
      "a *b* _c_ ~d~ `e`",
      "a b c d e" },

    { "***both***", "<i><b>both</b></i>", "_*both*_", "both" },

    { "**a `b` c**", "<b>a </b><code>b</code> <b>c</b>", "*a *`b` *c*",
      "a b c" },

    { "**a *b **c** d* e**", "<b>a <i>b c d</i> e</b>", "*a _b c d_ e*",
      NULL },

    { "# Title\n\ntext", "<b>Title</b>\n\ntext", "*Title*\n\ntext",
      "Title\n\ntext" },

    { "## The **bold** one", "<b>The bold one</b>", "*The bold one*",
      "The bold one" },

    { "one\ntwo\n\nthree", "one\ntwo\n\nthree", "one\ntwo\n\nthree",
      "one\ntwo\n\nthree" },

    { "- a\n- b\n  - c\n    more\n- d",
      "• a\n• b\n  • c\n    more\n• d",
      "• a\n• b\n  • c\n    more\n• d",
      "• a\n• b\n  • c\n    more\n• d" },

    { "intro:\n- a\n\n  second\n- b\n\nafter",
      "intro:\n\n• a\n  second\n• b\n\nafter", NULL, NULL },

    { "3. c\n4. d", "3. c\n4. d", "3. c\n4. d", "3. c\n4. d" },

    { "1) a\n2) b", "1) a\n2) b", "1) a\n2) b", "1) a\n2) b" },

    { "- [ ] todo\n- [x] done", "☐ todo\n☑ done", NULL, NULL },

    { "> quote\n> more\n\nafter",
      "<blockquote>quote\nmore</blockquote>\n\nafter",
      "> quote\n> more\n\nafter",
      "> quote\n> more\n\nafter" },

    { "> a\n>> b\n> \n> c",
      "<blockquote>a\n\n&gt; b\n\nc</blockquote>",
      "> a\n> \n> > b\n> \n> c", NULL },

    { "```js\nif (a < b) {\n    c();\n}\n```\nafter",
      "<pre><code class=\"language-js\">if (a &lt; b) {\n    c();\n}</code>"
      "</pre>\n\nafter",
      "```\nif (a < b) {\n    c();\n}\n```\n\nafter",
      "if (a < b) {\n    c();\n}\n\nafter" },

    { "```\nno language, *no* style, @nobody\n\n\nlast\n```",
      "<pre>no language, *no* style, @nobody\n\n\nlast</pre>", NULL, NULL },

    { "```js\nnever closed", "<pre><code class=\"language-js\">never closed"
      "</code></pre>", "```\nnever closed\n```", "never closed" },

    { "```a\"><b>\nx\n```", "<pre><code class=\"language-a\">x</code></pre>",
      NULL, NULL },

    { "- item\n  ```\n  code\n  ```\n- next",
      "• item\n  <pre>code</pre>\n• next", NULL, NULL },

    { "[text](https://a.b/c?d=1&e=2)",
      "<a href=\"https://a.b/c?d=1&amp;e=2\">text</a>",
      "text (https://a.b/c?d=1&e=2)", "text (https://a.b/c?d=1&e=2)" },

    { "[a](https://x/\"onclick=\"y)",
      "<a href=\"https://x/&quot;onclick=&quot;y\">a</a>", NULL, NULL },

    { "<https://a.b/@c>", "<a href=\"https://a.b/@c\">https://a.b/@c</a>",
      "https://a.b/@c", "https://a.b/@c" },

    { "<me@a.b>", "<a href=\"mailto:me@a.b\">me@a.b</a>", "me@a.b", "me@a.b" },

    { "[x](tg://user?id=1) [y](src/a.c) [z](javascript:alert)",
      "x (tg://user?id=1) y (src/a.c) z (javascript:alert)", NULL, NULL },

    { "![a picture](https://a.b/c.png)",
      "<a href=\"https://a.b/c.png\">a picture</a>",
      "a picture (https://a.b/c.png)", NULL },

    { "[![badge](https://i)](https://l)",
      "<a href=\"https://l\">badge</a>", "badge (https://l)", NULL },

    { "[`code`](https://l)", "<a href=\"https://l\">code</a>", NULL, NULL },

    { "a\n\n---\n\nb", "a\n\n———\n\nb", NULL, NULL },

    { "| Name | Qty |\n|---|--:|\n| apple | 2 |\n| <b>*kiwi*</b> | 10 |",
      "<pre>Name        | Qty\n------------+----\napple       | 2\n"
      "&lt;b&gt;kiwi&lt;/b&gt; | 10</pre>",
      "```\nName        | Qty\n------------+----\napple       | 2\n"
      "<b>kiwi</b> | 10\n```",
      "Name        | Qty\n------------+----\napple       | 2\n"
      "<b>kiwi</b> | 10" },

    { "|漢字|x|\n|---|---|\n|a|[l](https://h)|",
      "<pre>漢字 | x\n-----+--------------\na    | l (https://h)</pre>",
      NULL, NULL },

    /* what the agent made up */

    { "<b>x</b> <tg-spoiler>y</tg-spoiler> & <a href=\"tg://user?id=1\">z</a>",
      "&lt;b&gt;x&lt;/b&gt; &lt;tg-spoiler&gt;y&lt;/tg-spoiler&gt; &amp; "
      "&lt;a href=\"tg://user?id=1\"&gt;z&lt;/a&gt;",
      NULL, NULL },

    { "<blockquote>\nx\n</blockquote>",
      "&lt;blockquote&gt;\nx\n&lt;/blockquote&gt;", NULL, NULL },

    { "ask @durov or me@a.b or @*you*, `@x`",
      "ask @" ZERO "durov or me@a.b or @" ZERO "<i>you</i>, <code>@x</code>",
      "ask @durov or me@a.b or @_you_, `@x`",
      "ask @" ZERO "durov or me@a.b or @" ZERO "you, @x" },

    { "\\*not bold\\* snake_case 2 * 3 \\`x\\`",
      "*not bold* snake_case 2 * 3 `x`",
      "*" ZERO "not bold*" ZERO " snake_case 2 * 3 `" ZERO "x`" ZERO,
      "*not bold* snake_case 2 * 3 `x`" },

    { "https://a.b/@me/__x__.py and @me",
      "<a href=\"https://a.b/@me/__x__.py\">https://a.b/@me/__x__.py</a> and @"
      ZERO "me",
      "https://a.b/@me/__x__.py and @me", NULL },

    { "\\> no quote", "&gt; no quote", ">" ZERO " no quote", NULL },

    { "&amp; &lt;b&gt; &#64;x &#x1F600; &unknown; &#0; &#27;",
      "&amp; &lt;b&gt; @" ZERO "x 😀 &amp;unknown; &amp;#0; &amp;#27;",
      NULL, NULL },

    { "a\001\033[31mb\177\302\205c\r\nd\377\300\257",
      "a[31mbc\nd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", NULL, NULL },

    { "مرحبا **بالعالم**", "مرحبا <b>بالعالم</b>", "مرحبا *بالعالم*",
      "مرحبا بالعالم" },

    { "  \n\n", NULL, NULL, NULL },
    { "", NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL }
};


static ngx_array_t *
pieces_of(ngx_uint_t form, ngx_str_t text,
    ngx_http_agentstream_markdown_limits_t *limits)
{
    u_char       *copy;
    ngx_str_t     exact;
    ngx_array_t  *pieces;

    pieces = ngx_array_create(pool, 4, sizeof(ngx_http_agentstream_piece_t));

    copy = tap_copy(text.data, text.len);
    exact.data = copy;
    exact.len = text.len;

    if (ngx_http_agentstream_markdown_pieces(pool, form,
            limits ? limits : &ngx_http_agentstream_markdown_limits[form],
            &exact, pieces)
        != NGX_OK)
    {
        pieces = NULL;
    }

    free(copy);

    return pieces;
}


static void
one(ngx_uint_t form, const char *source, const char *expected,
    const char *plain)
{
    ngx_array_t                   *pieces;
    ngx_http_agentstream_piece_t  *piece;

    pieces = pieces_of(form, tap_str(source), NULL);
    piece = pieces->elts;

    if (expected == NULL) {
        return;
    }

    if (tap_ok(pieces->nelts == 1, "one piece of \"%s\"", source)) {
        tap_is_str(piece->markup, expected, source);

        if (plain) {
            tap_is_str(piece->plain, plain, "the same without markup");
        }
    }
}


static void
test_rows(void)
{
    row_t  *row;

    for (row = rows; row->source; row++) {
        one(TELEGRAM, row->source, row->telegram, row->plain);
        one(WHATSAPP, row->source, row->whatsapp, NULL);
        one(PLAIN, row->source, NULL, NULL);
    }

    tap_is(pieces_of(TELEGRAM, tap_str("  \n\n"), NULL)->nelts, 0,
           "nothing of spaces");
    tap_is(pieces_of(TELEGRAM, tap_str(""), NULL)->nelts, 0,
           "nothing of nothing");
    tap_is(pieces_of(SLACK, tap_str(""), NULL)->nelts, 0,
           "nothing of nothing in Slack");
}


static void
test_slack(void)
{
    one(SLACK, "# as *it* is\n\n| a |\n|---|\n\n```js\nx\n```\n\n> q",
        "# as *it* is\n\n| a |\n|---|\n\n```js\nx\n```\n\n> q", NULL);
    one(SLACK, "<!channel> <!here|x> <@U123> <#C1> <!subteam^S1> <!date^1^x|y>",
        "<" ZERO "!channel> <" ZERO "!here|x> <" ZERO "@U123> <" ZERO "#C1> <"
        ZERO "!subteam^S1> <" ZERO "!date^1^x|y>", NULL);
    one(SLACK, "@channel @HERE @everyone @else a@here.b",
        "@" ZERO "channel @" ZERO "HERE @" ZERO "everyone @else a@" ZERO
        "here.b", NULL);
    one(SLACK, "`<!channel>`\n```\n<@U1>\n```",
        "`<" ZERO "!channel>`\n```\n<" ZERO "@U1>\n```", NULL);
    one(SLACK, "<https://evil.test|https://good.test> <https://x>",
        "<" ZERO "https://evil.test|https://good.test> <https://x>", NULL);
    one(SLACK, "<!DOCTYPE html> <!-- x --> a < b <",
        "<!DOCTYPE html> <!-- x --> a < b <", NULL);
    one(SLACK, "```<!channel>\nx\n```", "```<" ZERO "!channel>\nx\n```",
        NULL);
    one(SLACK, "~~~\nnever closed", "~~~\nnever closed\n~~~", NULL);
    one(SLACK, "````\n```\n````\nx", "````\n```\n````\nx", NULL);
}


int
main(void)
{
    pool = ngx_create_pool(4096, &ngx_unit_log);

    test_rows();
    test_slack();

    ngx_destroy_pool(pool);

    return tap_done();
}
