
/*
 * Copyright (C) agentstream contributors
 */


/*
 * json_string.c: decode, escape, copy, half pairs, and the hash of what a
 * string decodes to, which must not depend on escapes or on cuts.
 * Breaks when: an escape decodes wrongly or past its slice, a surrogate is
 * paired with the wrong half, a backslash's parity is ignored, the hash mixes
 * at another place after a cut, or a prefix may end inside a character.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_json.h"
#include "tap.h"


#define EURO   "\xe2\x82\xac"
#define SMILE  "\xf0\x9f\x98\x80"
#define FFFD   "\xef\xbf\xbd"


/* a function that writes to dst from a slice, with memory of exact sizes */

static ngx_str_t
run(u_char *(*function)(u_char *dst, ngx_str_t *src), const char *text,
    size_t len)
{
    ngx_str_t  src, dst;

    src.len = len;
    src.data = tap_copy(text, len);

    dst.data = malloc(len);
    dst.len = function(dst.data, &src) - dst.data;

    free(src.data);

    return dst;
}


static void
is_run(u_char *(*function)(u_char *dst, ngx_str_t *src), const char *text,
    const char *expected)
{
    ngx_str_t  got;

    got = run(function, text, strlen(text));
    tap_is_str(got, expected, text);
    free(got.data);
}


static ngx_str_t
escape(const char *text, size_t len)
{
    u_char     *copy;
    ngx_str_t   dst;

    copy = tap_copy(text, len);

    dst.data = malloc(ngx_http_agentstream_json_escape_size(len));
    dst.len = ngx_http_agentstream_json_escape(dst.data, copy, len) - dst.data;

    free(copy);

    return dst;
}


static void
is_escape(const char *text, size_t len, const char *expected, const char *name)
{
    ngx_str_t  got;

    got = escape(text, len);
    tap_is_str(got, expected, name);
    free(got.data);
}


static void
test_decode(void)
{
    ngx_str_t  got;

    is_run(ngx_http_agentstream_json_decode, "", "");
    is_run(ngx_http_agentstream_json_decode, "plain", "plain");
    is_run(ngx_http_agentstream_json_decode, "\\\"\\\\\\/\\b\\f\\n\\r\\t",
           "\"\\/\b\f\n\r\t");
    is_run(ngx_http_agentstream_json_decode, "a\\nb\\nc", "a\nb\nc");
    is_run(ngx_http_agentstream_json_decode, "\\u0041\\u007f", "A\x7f");
    is_run(ngx_http_agentstream_json_decode, "\\u0080\\u07ff\\u00e9\\u00E9",
           "\xc2\x80\xdf\xbf\xc3\xa9\xc3\xa9");
    is_run(ngx_http_agentstream_json_decode, "\\u0800\\uffff\\u20aC",
           "\xe0\xa0\x80\xef\xbf\xbf" EURO);
    is_run(ngx_http_agentstream_json_decode, "\\ud800\\udc00\\udbff\\udfff",
           "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
    is_run(ngx_http_agentstream_json_decode, "<\\uD83D\\uDE00>",
           "<" SMILE ">");
    is_run(ngx_http_agentstream_json_decode, "\\ud83d", FFFD);
    is_run(ngx_http_agentstream_json_decode, "\\ude00", FFFD);
    is_run(ngx_http_agentstream_json_decode, "\\ud83dx", FFFD "x");
    is_run(ngx_http_agentstream_json_decode, "\\ud83d\\n", FFFD "\n");
    is_run(ngx_http_agentstream_json_decode, "\\ud83d\\u0041", FFFD "A");
    is_run(ngx_http_agentstream_json_decode, "\\ude00\\ud83d", FFFD FFFD);
    is_run(ngx_http_agentstream_json_decode, "\\ud83d\\ud83d\\ude00",
           FFFD SMILE);
    is_run(ngx_http_agentstream_json_decode, "\\ud83d\\ude00\\ude00",
           SMILE FFFD);
    is_run(ngx_http_agentstream_json_decode, "\\\\ud83d", "\\ud83d");
    is_run(ngx_http_agentstream_json_decode, EURO SMILE, EURO SMILE);

    got = run(ngx_http_agentstream_json_decode, "a\\u0000b", 8);
    tap_ok(got.len == 3 && ngx_memcmp(got.data, "a\0b", 3) == 0,
           "a zero character");
    free(got.data);

    /* not valid, but it must stay within its bounds */

    is_run(ngx_http_agentstream_json_decode, "a\\", "a");
    is_run(ngx_http_agentstream_json_decode, "a\\u", "a");
    is_run(ngx_http_agentstream_json_decode, "a\\u123", "a");
    is_run(ngx_http_agentstream_json_decode, "\\ud83d\\u", FFFD);
    is_run(ngx_http_agentstream_json_decode, "\\ud83d\\", FFFD);

    /* where it stands; broken by memcpy() of what overlaps */

    got.data = tap_copy("a\\/bc\\/\\u20acdef", 16);
    got.len = 16;
    got.len = ngx_http_agentstream_json_decode(got.data, &got) - got.data;
    tap_is_str(got, "a/bc/" EURO "def", "decoded in place");
    free(got.data);
}


static void
test_escape(void)
{
    u_char      text[40], *end;
    ngx_str_t   got, back;
    ngx_uint_t  ch, pos, bad;

    is_escape("", 0, "", "nothing to escape");
    is_escape("plain / text\x7f", 13, "plain / text\x7f", "plain text");
    is_escape("\"\\\b\f\n\r\t", 7, "\\\"\\\\\\b\\f\\n\\r\\t", "short escapes");
    is_escape("\0\x01\x1b\x1f", 4, "\\u0000\\u0001\\u001b\\u001f",
              "control characters");
    is_escape(EURO SMILE "\xc3\xa9", 9, EURO SMILE "\xc3\xa9", "UTF-8");
    is_escape("a\xff" "b", 3, "a" FFFD "b", "a byte that is no UTF-8");
    is_escape("\xe2\x82", 2, FFFD FFFD, "a character cut short");
    is_escape("\xe2\x82" "a", 3, FFFD FFFD "a", "a character broken off");
    is_escape("\xed\xa0\x80", 3, FFFD FFFD FFFD, "an encoded surrogate");
    is_escape("\xc0\xaf", 2, FFFD FFFD, "an overlong form");
    is_escape("\xf4\x90\x80\x80", 4, FFFD FFFD FFFD FFFD, "beyond U+10FFFF");

    bad = 0;

    for (ch = 0; ch < 0x80; ch++) {
        for (pos = 0; pos < 40; pos++) {
            ngx_memset(text, 'x', 40);
            text[pos] = (u_char) ch;

            got = escape((char *) text, 40);

            back.data = malloc(got.len);
            end = ngx_http_agentstream_json_decode(back.data, &got);

            if (end - back.data != 40 || ngx_memcmp(back.data, text, 40) != 0) {
                bad++;
            }

            free(back.data);
            free(got.data);
        }
    }

    tap_is(bad, 0, "each ASCII character at each place, there and back");
}


static void
test_copy(void)
{
    static const char  *same[] = {
        "", "plain", "\\n\\t\\\"\\\\", "\\u001b[0m", "\\ud83d\\ude00",
        "\\uD83D\\uDE00x\\ud83d\\ude00", "\\\\ud83d", "\\\\\\\\udc00",
        "\\\\u", "a\\\\", "\\u001bxud83dy", "\\nxud83dy",
        "\\u00e9", "\\uffff\\ue000\\ud7ff", EURO SMILE,
        "{\"a\":[1,2,{\"b\":\"\\ud83d\\ude00\"}]}"
    };

    ngx_uint_t  i;

    for (i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        is_run(ngx_http_agentstream_json_copy, same[i], same[i]);
    }

    is_run(ngx_http_agentstream_json_copy, "\\ud83d", "\\ufffd");
    is_run(ngx_http_agentstream_json_copy, "\\uDE00", "\\ufffd");
    is_run(ngx_http_agentstream_json_copy, "a\\ud83db", "a\\ufffdb");
    is_run(ngx_http_agentstream_json_copy, "\\ud83d\\n", "\\ufffd\\n");
    is_run(ngx_http_agentstream_json_copy, "\\ud83d\\u0041",
           "\\ufffd\\u0041");
    is_run(ngx_http_agentstream_json_copy, "\\ud83d\\ud83d\\ude00",
           "\\ufffd\\ud83d\\ude00");
    is_run(ngx_http_agentstream_json_copy, "\\ude00\\ud83d",
           "\\ufffd\\ufffd");
    is_run(ngx_http_agentstream_json_copy, "\\ud83d\\ude00\\ude00",
           "\\ud83d\\ude00\\ufffd");
    is_run(ngx_http_agentstream_json_copy, "\\\\\\ud83d", "\\\\\\ufffd");
    is_run(ngx_http_agentstream_json_copy,
           "{\"a\":\"\\ud83d\",\"b\":\"\\ude00\"}",
           "{\"a\":\"\\ufffd\",\"b\":\"\\ufffd\"}");
    is_run(ngx_http_agentstream_json_copy, "{\r\n\t\"a\": [\n1\r]\n}",
           "{  \t\"a\": [ 1 ] }");
}


static void
test_half_pair(void)
{
    ngx_str_t   s;
    ngx_uint_t  i;

    static struct {
        const char  *text;
        size_t       half;
    } tests[] = {
        { "", 0 }, { "ud83d", 0 }, { "\\ud83d", 6 }, { "\\uD83D", 6 },
        { "\\ud800", 6 }, { "\\udbff", 6 }, { "\\udc00", 0 }, { "\\ud7ff", 0 },
        { "\\udfff", 0 }, { "\\uffff", 0 }, { "\\u0041", 0 }, { "abcdef", 0 },
        { "text \\ud83d", 6 }, { "\\ud83d\\ude00", 0 }, { "\\ud83dx", 0 },
        { "\\ud83d\\ud83d", 6 }, { "\\ude00\\ud83d", 6 }, { "\\\\ud83d", 0 },
        { "\\\\\\ud83d", 6 }, { "\\\\\\\\ud83d", 0 }, { "a\\\\\\\\\\ud83d", 6 },
        { "\\n\\ud83d", 6 }, { "\\xd83d", 0 }, { "\\ud83", 0 }
    };

    for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        s.len = strlen(tests[i].text);
        s.data = tap_copy(tests[i].text, s.len);

        tap_is(ngx_http_agentstream_json_half_pair(&s), tests[i].half,
               tests[i].text);

        free(s.data);
    }
}


static ngx_http_agentstream_json_hash_t
hash(const char *text)
{
    ngx_str_t                         s;
    ngx_http_agentstream_json_hash_t  h;

    s = tap_str(text);

    ngx_http_agentstream_json_hash_init(&h);
    ngx_http_agentstream_json_hash(&h, &s);

    return h;
}


static ngx_uint_t
alike(const char *one, const char *two)
{
    ngx_http_agentstream_json_hash_t  a, b;

    a = hash(one);
    b = hash(two);

    return a.hash == b.hash && a.len == b.len;
}


/* where a text may be cut: between characters, escapes and pairs */

static const char  *pieces[] = {
    "one ", "\\n", "caf", "\xc3\xa9", " ", EURO, "\\u20ac", SMILE,
    "\\ud83d\\ude00", "\\ud83d", "!", "\\u0000", "\\\"", "\\\\", "\\u001b",
    "a longer piece of text, more than a word or two", "\\t", "z"
};

#define NPIECES  (sizeof(pieces) / sizeof(pieces[0]))


static void
test_hash(void)
{
    char                              text[512];
    ngx_str_t                         s;
    ngx_uint_t                        i, j, k, bad;
    ngx_http_agentstream_json_hash_t  h, whole;

    tap_ok(alike("abc", "\\u0061b\\u0063"), "escaped or not");
    tap_ok(alike("/", "\\/"), "a slash");
    tap_ok(alike("\\n\\t\\\"", "\\u000a\\u0009\\u0022"), "two escapes");
    tap_ok(alike(EURO SMILE, "\\u20AC\\uD83d\\uDe00"), "UTF-8 and escapes");
    tap_ok(alike("\\ud83d", FFFD), "half a pair");
    tap_ok(!alike("abc", "abd"), "other text");
    tap_ok(!alike("abc", "acb"), "other order");
    tap_ok(!alike("abc", "abc\\u0000"), "other length");
    tap_ok(!alike("\\u0000", "\\u0000\\u0000"), "zeros are counted");
    tap_ok(!alike("abcdefgh12345678", "12345678abcdefgh"), "words swapped");

    tap_is(hash("").len, 0, "length of nothing");
    tap_is(hash("\\ud83d\\ude00\\n" EURO "x").len, 9, "length in bytes");

    text[0] = '\0';

    for (i = 0; i < NPIECES; i++) {
        strcat(text, pieces[i]);
    }

    whole = hash(text);
    bad = 0;

    for (i = 0; i <= NPIECES; i++) {
        for (j = i; j <= NPIECES; j++) {

            ngx_http_agentstream_json_hash_init(&h);
            text[0] = '\0';

            for (k = 0; k <= NPIECES; k++) {

                if (k == i || k == j || k == NPIECES) {
                    s = tap_str(text);
                    s.data = tap_copy(text, s.len);
                    ngx_http_agentstream_json_hash(&h, &s);
                    free(s.data);
                    text[0] = '\0';
                }

                if (k < NPIECES) {
                    strcat(text, pieces[k]);
                }
            }

            if (h.hash != whole.hash || h.len != whole.len) {
                bad++;
            }
        }
    }

    tap_is(bad, 0, "a text cut at two places");

    /* ASCII may be cut at every byte: all alignments of all lengths */

    bad = 0;

    for (i = 0; i < 60; i++) {
        text[i] = 'a' + i % 23;
        text[i + 1] = '\0';
        whole = hash(text);

        for (j = 0; j <= i; j++) {
            ngx_http_agentstream_json_hash_init(&h);

            s.data = (u_char *) text;
            s.len = j;
            ngx_http_agentstream_json_hash(&h, &s);

            s.data = (u_char *) text + j;
            s.len = i + 1 - j;
            ngx_http_agentstream_json_hash(&h, &s);

            bad += (h.hash != whole.hash || h.len != whole.len);
        }
    }

    tap_is(bad, 0, "each length cut at each byte");
}


static int
compare(const void *one, const void *two)
{
    uint64_t  a, b;

    a = *(const uint64_t *) one;
    b = *(const uint64_t *) two;

    return (a > b) - (a < b);
}


static void
test_hash_collisions(void)
{
    char         text[64];
    uint64_t    *all;
    ngx_uint_t   i, n, bad, low;

    n = 200000;
    all = malloc(n * sizeof(uint64_t));

    for (i = 0; i < n; i++) {
        snprintf(text, sizeof(text), "%cline %06lu of %lu, the rest is alike",
                 (int) ('a' + i % 2), (unsigned long) i / 2,
                 (unsigned long) n);
        all[i] = hash(text).hash;
    }

    qsort(all, n, sizeof(uint64_t), compare);

    bad = 0;

    for (i = 1; i < n; i++) {
        bad += (all[i] == all[i - 1]);
    }

    tap_is(bad, 0, "200000 texts that are much alike hash differently");

    low = 0;

    for (i = 0; i < n; i++) {
        low += ((all[i] & 0xff) == 0);
    }

    tap_ok(low > n / 512 && low < n / 128, "low bits are spread");

    free(all);
}


static void
test_hash_prefix(void)
{
    char                              text[512];
    size_t                            len;
    ngx_int_t                         rc;
    ngx_str_t                         s, rest;
    ngx_uint_t                        i, j, bad;
    ngx_http_agentstream_json_hash_t  h;

    ngx_http_agentstream_json_hash_init(&h);

    s = tap_str("abc");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest), NGX_OK,
           "nothing is how all texts begin");
    tap_is_str(rest, "abc", "all the rest");

    ngx_str_null(&s);
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest), NGX_OK,
           "nothing is how nothing begins");
    tap_is(rest.len, 0, "no rest");

    h = hash("a\\n" EURO);

    s = tap_str("\\u0061\n\\u20acrest\\\"");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest), NGX_OK,
           "escaped in another way");
    tap_is_str(rest, "rest\\\"", "the rest, still escaped");

    s = tap_str("a\\n" EURO);
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest), NGX_OK,
           "the same text");
    tap_is(rest.len, 0, "no rest, too");

    s = tap_str("a\\n");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "a shorter text");

    s = tap_str("a\\n\\u0041A\\u0041");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "another text, long enough as it stands");

    s = tap_str("a\\nxyz and more");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "another text");

    s = tap_str("");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "no text");

    h = hash("ab");

    s = tap_str("a\\u00e9");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "the end is inside an escaped character");

    s = tap_str("a\\ud83d\\ude00");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "the end is inside a pair");

    h = hash("a\\ud83d");

    s = tap_str("a\\ud83d\\ude00");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "half a pair is not how the pair begins");

    /* the hash of a text that ends inside a character */

    s = tap_str("a\xe2\x82");
    ngx_http_agentstream_json_hash_init(&h);
    ngx_http_agentstream_json_hash(&h, &s);

    s = tap_str("a" EURO);
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "part of a character, the same bytes");

    h = hash("a\xc3");

    s = tap_str("a\xc3\xa9");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "part of another one");

    h = hash("ab");

    s = tap_str("ab");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest), NGX_OK,
           "the same text without escapes");
    tap_is(rest.len, 0, "no rest again");

    s = tap_str("ab\\");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest), NGX_OK,
           "what follows is not looked at");

    s = tap_str("a\\");
    tap_is(ngx_http_agentstream_json_hash_prefix(&h, &s, &rest),
           NGX_DECLINED, "an escape cut off");

    /* all prefixes of all pieces, then all lengths that are none */

    bad = 0;
    ngx_http_agentstream_json_hash_init(&h);

    for (i = 0; i <= NPIECES; i++) {
        text[0] = '\0';
        len = 0;

        for (j = 0; j < NPIECES; j++) {
            strcat(text, pieces[j]);
            len += (j < i) ? strlen(pieces[j]) : 0;
        }

        s.len = strlen(text);
        s.data = tap_copy(text, s.len);

        rc = ngx_http_agentstream_json_hash_prefix(&h, &s, &rest);

        if (rc != NGX_OK || rest.data != s.data + len
            || rest.len != s.len - len)
        {
            bad++;
        }

        /* a zero leaves the hash alone, it is the length that counts it */

        if (i < NPIECES && strcmp(pieces[i], "\\u0000") != 0) {
            h.len++;

            if (ngx_http_agentstream_json_hash_prefix(&h, &s, &rest)
                == NGX_OK)
            {
                bad++;
            }

            h.len--;
        }

        h.hash++;

        if (i && ngx_http_agentstream_json_hash_prefix(&h, &s, &rest)
                 == NGX_OK)
        {
            bad++;
        }

        h.hash--;

        free(s.data);

        if (i < NPIECES) {
            s = tap_str(pieces[i]);
            ngx_http_agentstream_json_hash(&h, &s);
        }
    }

    tap_is(bad, 0, "each prefix of a text of pieces");
}


int
main(void)
{
    test_decode();
    test_escape();
    test_copy();
    test_half_pair();
    test_hash();
    test_hash_collisions();
    test_hash_prefix();

    return tap_done();
}
