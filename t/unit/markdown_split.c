
/*
 * Copyright (C) agentstream contributors
 */


/*
 * markdown*.c: random Markdown in pieces.  Each piece must be what the platform
 * accepts, and together they must have the text that one piece without limits
 * has, and all words of the source in their order.
 * Breaks when: a piece exceeds a limit, has a tag that is not closed or that
 * must not be there, is not UTF-8, or is empty; a character is lost or doubled
 * where a piece ends; a code block is not opened again; a line without a space
 * is not cut; a text takes very long.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_markdown.h"
#include "pieces.h"
#include "tap.h"

#include <time.h>


#define ROUNDS  60
#define SIZE    20000

#define PLAIN     NGX_HTTP_AGENTSTREAM_MARKDOWN_PLAIN
#define TELEGRAM  NGX_HTTP_AGENTSTREAM_MARKDOWN_TELEGRAM
#define SLACK     NGX_HTTP_AGENTSTREAM_MARKDOWN_SLACK
#define WHATSAPP  NGX_HTTP_AGENTSTREAM_MARKDOWN_WHATSAPP


extern ngx_log_t  ngx_unit_log;

static uint64_t   seed;
static ngx_str_t  source;
static unsigned   word;


static unsigned
random_below(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;

    return (seed >> 33) % n;
}


static void
put(const char *text)
{
    size_t  len;

    len = strlen(text);

    if (source.len + len < SIZE) {
        memcpy(source.data + source.len, text, len);
        source.len += len;
    }
}


/* a word that can be found again */

static void
put_word(void)
{
    char  text[32];

    static const char  *odd[] = {
        "<b>", "&", "@name", "😀", "漢字", "é", "<!channel>", "\"", "a&b;", ">",
        "<tg-spoiler>", "\\*", "2*3", "مرحبا"
    };

    snprintf(text, sizeof(text), "w%ux", word++);
    put(text);

    if (random_below(4) == 0) {
        put(" ");
        put(odd[random_below(sizeof(odd) / sizeof(odd[0]))]);
    }
}


static void
put_words(unsigned n)
{
    static const char  *open[] = { "**", "*", "~~", "`", "***", "" };

    const char  *mark;

    while (n-- && source.len + 400 < SIZE) {

        mark = open[random_below(12) < 6 ? 5 : random_below(6)];

        put(mark);
        put_word();
        put(mark);

        if (random_below(20) == 0) {
            put(" [");
            put_word();
            put("](https://h.test/?a=1&b=\"2)");
        }

        put(n ? random_below(12) ? " " : "\n" : "");
    }
}


static void
put_block(void)
{
    unsigned  i, n;

    switch (random_below(9)) {

    case 0:
        put("## ");
        put_word();
        break;

    case 1:
        put(random_below(2) ? "```js\n" : "~~~\n");
        n = (source.data[source.len - 2] == 's');

        for (i = random_below(60) + 1; i; i--) {
            put("    ");
            put_word();
            put("\n");
        }

        put(n ? "```" : "~~~");
        break;

    case 2:
        for (i = random_below(8) + 1; i; i--) {
            put(random_below(3) ? "- " : "  - ");
            put_words(random_below(8) + 1);
            put("\n");
        }

        break;

    case 3:
        for (i = random_below(8) + 1; i; i--) {
            put("1. ");
            put_words(random_below(8) + 1);
            put("\n");
        }

        break;

    case 4:
        for (i = random_below(4) + 1; i; i--) {
            put(random_below(3) ? "> " : ">> ");
            put_words(random_below(30) + 1);
            put("\n");
        }

        break;

    case 5:
        put("| ");
        put_word();
        put(" | b |\n|---|---|\n");

        for (i = random_below(10); i; i--) {
            put("| ");
            put_word();
            put(" | c |\n");
        }

        break;

    default:
        put_words(random_below(200) + 1);
    }

    put("\n\n");
}


/* the text of the pieces, joined; NULL after a problem was told */

static char *
split(ngx_uint_t form, ngx_http_agentstream_markdown_limits_t *limits,
    ngx_uint_t *n)
{
    char                          *text;
    u_char                        *copy;
    ngx_str_t                      exact;
    ngx_uint_t                     i;
    ngx_pool_t                    *pool;
    const char                    *problem;
    ngx_array_t                   *pieces;
    piece_check_t                  c;
    ngx_http_agentstream_piece_t  *piece;

    pool = ngx_create_pool(4096, &ngx_unit_log);
    pieces = ngx_array_create(pool, 4, sizeof(ngx_http_agentstream_piece_t));

    copy = tap_copy(source.data, source.len);
    exact.data = copy;
    exact.len = source.len;

    if (ngx_http_agentstream_markdown_pieces(pool, form, limits, &exact,
                                             pieces)
        != NGX_OK)
    {
        abort();
    }

    free(copy);

    piece = pieces->elts;
    text = calloc(1, source.len * 8 + 1000);

    memset(&c, 0, sizeof(c));
    c.text = text;
    problem = NULL;

    for (i = 0; i < pieces->nelts && problem == NULL; i++) {
        c.units = 0;
        c.marks = 0;

        problem = piece_problem(form, limits, &piece[i], &c);

        if (problem) {
            tap_ok(0, "seed %u, form %u, piece %u of %u: %s", (unsigned) word,
                   (unsigned) form, (unsigned) i, (unsigned) pieces->nelts,
                   problem);
            printf("# %.*s\n", (int) piece[i].markup.len,
                   piece[i].markup.data);
        }
    }

    *n = pieces->nelts;
    ngx_destroy_pool(pool);

    if (problem) {
        free(text);
        return NULL;
    }

    return text;
}


static void
drop(char *text, const char *what)
{
    char  *p;

    while ((p = strstr(text, what))) {
        memmove(p, p + strlen(what), strlen(p + strlen(what)) + 1);
    }
}


static void
test_round(ngx_uint_t round)
{
    char        name[32], *whole, *parts, *p;
    unsigned    i, max;
    ngx_uint_t  n, form, ok, k;

    static const char  *marks[] = { "*", "_", "~", "`", "js" };

    ngx_http_agentstream_markdown_limits_t  big = { 1 << 30, 1 << 30, 1 << 30 };
    ngx_http_agentstream_markdown_limits_t  small = { 700, 16384, 50 };

    seed = round * 7919 + 1;
    source.len = 0;
    word = 0;

    for (max = random_below(40) + 1; max; max--) {
        put_block();
    }

    for (form = PLAIN; form <= WHATSAPP; form++) {

        whole = split(form, &big, &n);
        ok = (whole != NULL && n <= 1);

        /* every word, once, in its order */

        for (i = 0, p = whole; ok && i < word; i++) {
            snprintf(name, sizeof(name), "w%ux", i);
            p = strstr(p, name);
            ok = (p != NULL);
        }

        if (!ok) {
            tap_ok(0, "round %u, form %u: words", (unsigned) round,
                   (unsigned) form);
        }

        for (i = 0; i < 2 && ok; i++) {
            parts = split(form, i ? &small
                                  : &ngx_http_agentstream_markdown_limits[form],
                          &n);

            if (parts == NULL) {
                continue;
            }

            /* what is repeated in each piece */

            if (form != TELEGRAM) {
                drop(parts, ">");
                drop(whole, ">");
            }

            if (form == SLACK || form == WHATSAPP) {
                for (k = 0; k < sizeof(marks) / sizeof(marks[0]); k++) {
                    drop(parts, marks[k]);
                    drop(whole, marks[k]);
                }
            }

            if (strcmp(parts, whole) != 0) {
                tap_ok(0, "round %u, form %u, limits %u: the text",
                       (unsigned) round, (unsigned) form, i);
                printf("# %s\n# %s\n", parts, whole);
            }

            free(parts);
        }

        free(whole);
    }
}


static void
test_long(void)
{
    char        *text;
    size_t       i;
    clock_t      start;
    ngx_uint_t   n, form, k;

    static const char  *units[] = {
        "x", "😀", "*", "[", "`", "> ", "- ", "<", "&", "|", "**a", "![", "a_",
        "\n", "[a](", "~~~\n", "1. ", "&amp;", "\\", "<a@b.c>", "https://a.b/_"
    };

    free(source.data);
    source.data = malloc(NGX_HTTP_AGENTSTREAM_MARKDOWN_MAX);

    for (k = 0; k < sizeof(units) / sizeof(units[0]); k++) {

        i = strlen(units[k]);

        for (source.len = 0; source.len + i <= 60000; source.len += i) {
            memcpy(source.data + source.len, units[k], i);
        }

        start = clock();

        for (form = PLAIN; form <= WHATSAPP; form++) {
            text = split(form, &ngx_http_agentstream_markdown_limits[form],
                         &n);

            if (k < 2 && form != SLACK) {
                tap_ok(text && strlen(text) == source.len
                       && n == (k ? 30000u : 60000u) / 4096 + 1,
                       "a line without a space, form %u", (unsigned) form);
            }

            free(text);
        }

        start = clock() - start;
        tap_ok(start < 5 * CLOCKS_PER_SEC, "60 kB of \"%s\", %u ms", units[k],
               (unsigned) (start / (CLOCKS_PER_SEC / 1000)));
    }
}


int
main(void)
{
    ngx_uint_t  i;

    source.data = malloc(SIZE);

    for (i = 0; i < ROUNDS; i++) {
        test_round(i);
    }

    tap_ok(tap_failed == 0, "%u random texts", ROUNDS);

    test_long();

    free(source.data);

    return tap_done();
}
