
/*
 * Copyright (C) agentstream contributors
 */


/*
 * json.c: the accessors, and what memory is kept.
 * Breaks when: a duplicate name is not resolved to the last one, "next" of a
 * container is wrong, a number is rounded or wraps, or a failed parse leaves
 * tokens behind.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#define TAP_REALLOC  1

#include "ngx_http_agentstream_json.h"
#include "tap.h"


/* 0 is no value, whether the text is valid or not */

static void
test_absent(ngx_http_agentstream_json_t *json)
{
    tap_is(ngx_http_agentstream_json_type(json, 0),
           NGX_HTTP_AGENTSTREAM_JSON_NONE, "absent: no type");
    tap_is(ngx_http_agentstream_json_get(json, 0, "a"), 0,
           "absent: no members");
    tap_is(ngx_http_agentstream_json_first(json, 0), 0, "absent: no elements");
    tap_is(ngx_http_agentstream_json_raw(json, 0).len, 0,
           "absent: no raw text");
    tap_is(ngx_http_agentstream_json_string(json, 0).len, 0,
           "absent: no string");
    tap_is(ngx_http_agentstream_json_is(json, 0, ""), 0,
           "absent: not even an empty string");
    tap_is(ngx_http_agentstream_json_integer(json, 0, -7), -7,
           "absent: no integer");
}


static void
test_accessors(void)
{
    char                         *text;
    ngx_uint_t                    v, a, o;
    ngx_http_agentstream_json_t   json;

    text = "{\"a\":1,\"ab\":\"x\\u0041\\n\",\"b\":[10,[20,21],{\"z\":30},40],"
           "\"\":\"empty\",\"n\\u0061me\":\"\\ud83d\\ude00\",\"a\":2,"
           "\"o\":{\"p\":{\"q\":[]},\"r\":{}},\"t\":true,\"f\":false,"
           "\"x\":null,\"half\":\"\\ud83d!\",\"back\\\\slash\":1}";

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    tap_is(ngx_http_agentstream_json_parse(&json, (u_char *) text,
                                           strlen(text)),
           NGX_OK, "a document");

    tap_is(ngx_http_agentstream_json_type(&json, json.root),
           NGX_HTTP_AGENTSTREAM_JSON_OBJECT, "the root's type");
    tap_is(ngx_http_agentstream_json_type(&json, json.ntokens),
           NGX_HTTP_AGENTSTREAM_JSON_NONE, "no type behind the last token");
    tap_is_str(ngx_http_agentstream_json_raw(&json, json.root), text,
               "the root");
    tap_is(ngx_http_agentstream_json_raw(&json, json.ntokens).len, 0,
           "nothing behind the last token");
    test_absent(&json);

    v = ngx_http_agentstream_json_get(&json, json.root, "a");
    tap_is(ngx_http_agentstream_json_integer(&json, v, 0), 2,
           "the last of two members of one name");

    v = ngx_http_agentstream_json_get(&json, json.root, "ab");
    tap_is_str(ngx_http_agentstream_json_string(&json, v), "x\\u0041\\n",
               "a string, escaped");
    tap_is_str(ngx_http_agentstream_json_raw(&json, v), "\"x\\u0041\\n\"",
               "a string as it stands");
    tap_is(ngx_http_agentstream_json_type(&json, v),
           NGX_HTTP_AGENTSTREAM_JSON_STRING, "the type of an escaped string");
    tap_is(ngx_http_agentstream_json_is(&json, v, "xA\n"), 1, "is");
    tap_is(ngx_http_agentstream_json_is(&json, v, "xA"), 0, "is not shorter");
    tap_is(ngx_http_agentstream_json_is(&json, v, "xA\n!"), 0,
           "is not longer");
    tap_is(ngx_http_agentstream_json_is(&json, v, "x\\u0041\\n"), 0,
           "is not its escaped form");
    tap_is(ngx_http_agentstream_json_is(&json, v, ""), 0, "is not empty");

    v = ngx_http_agentstream_json_get(&json, json.root, "name");
    tap_is(ngx_http_agentstream_json_is(&json, v, "\xf0\x9f\x98\x80"), 1,
           "an escaped name, and a pair");
    v = ngx_http_agentstream_json_get(&json, json.root, "half");
    tap_is(ngx_http_agentstream_json_is(&json, v, "\xef\xbf\xbd!"), 1,
           "half a pair");
    v = ngx_http_agentstream_json_get(&json, json.root, "");
    tap_is(ngx_http_agentstream_json_is(&json, v, "empty"), 1,
           "an empty name");

    tap_ok(ngx_http_agentstream_json_get(&json, json.root, "back\\slash") != 0,
           "a name with a backslash");
    tap_is(ngx_http_agentstream_json_get(&json, json.root, "back\\\\slash"), 0,
           "a name is not its escaped form");
    tap_is(ngx_http_agentstream_json_get(&json, json.root, "n"), 0, "absent");
    tap_is(ngx_http_agentstream_json_get(&json, json.root, "abc"), 0,
           "absent, too");
    tap_is(ngx_http_agentstream_json_get(&json, json.root, "p"), 0,
           "a member of a member is none");
    tap_is(ngx_http_agentstream_json_get(&json, json.root, "x\\u0041\\n"), 0,
           "a value is no name");

    a = ngx_http_agentstream_json_get(&json, json.root, "b");
    tap_is(ngx_http_agentstream_json_get(&json, a, "z"), 0,
           "an array has no members");
    tap_is_str(ngx_http_agentstream_json_raw(&json, a),
               "[10,[20,21],{\"z\":30},40]", "an array");
    tap_is(ngx_http_agentstream_json_string(&json, a).len, 0,
           "an array is no string");

    v = ngx_http_agentstream_json_first(&json, a);
    tap_is(ngx_http_agentstream_json_integer(&json, v, 0), 10, "first");
    v = ngx_http_agentstream_json_next(&json, a, v);
    tap_is_str(ngx_http_agentstream_json_raw(&json, v), "[20,21]", "next");
    v = ngx_http_agentstream_json_next(&json, a, v);
    o = v;
    tap_is(ngx_http_agentstream_json_integer(&json,
                      ngx_http_agentstream_json_get(&json, o, "z"), 0),
           30, "a member of an element");
    v = ngx_http_agentstream_json_next(&json, a, v);
    tap_is(ngx_http_agentstream_json_integer(&json, v, 0), 40, "the last");
    tap_is(ngx_http_agentstream_json_next(&json, a, v), 0, "no more");
    tap_is(ngx_http_agentstream_json_first(&json, v), 0,
           "a number has no elements");

    o = ngx_http_agentstream_json_get(&json, json.root, "o");
    v = ngx_http_agentstream_json_first(&json, o);
    tap_is_str(ngx_http_agentstream_json_string(&json, v), "p", "first name");
    tap_is_str(ngx_http_agentstream_json_raw(&json, v + 1), "{\"q\":[]}",
               "its value");
    v = ngx_http_agentstream_json_next(&json, o, v);
    tap_is_str(ngx_http_agentstream_json_string(&json, v), "r", "next name");
    tap_is(ngx_http_agentstream_json_first(&json, v + 1), 0,
           "an empty object");
    tap_is(ngx_http_agentstream_json_next(&json, o, v), 0, "no more names");

    v = ngx_http_agentstream_json_get(&json, o, "p");
    v = ngx_http_agentstream_json_get(&json, v, "q");
    tap_is(ngx_http_agentstream_json_type(&json, v),
           NGX_HTTP_AGENTSTREAM_JSON_ARRAY, "an array deep inside");
    tap_is(ngx_http_agentstream_json_first(&json, v), 0, "an empty array");

    tap_is(ngx_http_agentstream_json_type(&json,
                      ngx_http_agentstream_json_get(&json, json.root, "t")),
           NGX_HTTP_AGENTSTREAM_JSON_TRUE, "true");
    tap_is(ngx_http_agentstream_json_type(&json,
                      ngx_http_agentstream_json_get(&json, json.root, "f")),
           NGX_HTTP_AGENTSTREAM_JSON_FALSE, "false");
    tap_is(ngx_http_agentstream_json_type(&json,
                      ngx_http_agentstream_json_get(&json, json.root, "x")),
           NGX_HTTP_AGENTSTREAM_JSON_NULL, "null");

    /* a failed parse forgets what was there */

    tap_is(ngx_http_agentstream_json_parse(&json, (u_char *) "{\"a\":1", 6),
           NGX_DECLINED, "an invalid text");
    tap_is(json.root, 0, "no root");
    test_absent(&json);

    ngx_http_agentstream_json_destroy(&json);

    tap_ok(json.tokens == NULL && json.nalloc == 0, "destroyed");
}


static void
test_integers(void)
{
    ngx_uint_t                   i;
    ngx_http_agentstream_json_t  json;

    static struct {
        const char  *text;
        int64_t      value;
    } tests[] = {
        { "0", 0 }, { "-0", 0 }, { "7", 7 }, { "-7", -7 },
        { "1794802419277", 1794802419277 },
        { "9223372036854775807", INT64_MAX },
        { "-9223372036854775808", INT64_MIN },
        { "9223372036854775808", 42 }, { "-9223372036854775809", 42 },
        { "18446744073709551616", 42 }, { "99999999999999999999", 42 },
        { "-92233720368547758080", 42 },
        { "-922337203685477580", -922337203685477580 },
        { "1.5", 42 }, { "1.0", 42 }, { "1e3", 42 }, { "\"1\"", 42 },
        { "true", 42 }, { "null", 42 }, { "[1]", 42 }
    };

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        ngx_http_agentstream_json_parse(&json, (u_char *) tests[i].text,
                                        strlen(tests[i].text));

        tap_is(ngx_http_agentstream_json_integer(&json, json.root, 42),
               tests[i].value, tests[i].text);
    }

    ngx_http_agentstream_json_destroy(&json);
}


static void
test_memory(void)
{
    u_char                             *text;
    size_t                              len;
    ngx_uint_t                          i, n;
    ngx_http_agentstream_json_t         json;
    ngx_http_agentstream_json_token_t  *tokens;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    ngx_http_agentstream_json_parse(&json, (u_char *) "[1,2,3]", 7);
    tokens = json.tokens;
    n = json.nalloc;

    for (i = 0; i < 100; i++) {
        ngx_http_agentstream_json_parse(&json, (u_char *) "{\"a\":[]}", 8);
    }

    tap_ok(json.tokens == tokens && json.nalloc == n, "tokens are reused");

    /* an array of n zeros has n + 2 tokens, with the reserved one */

    text = malloc(2 * 200000 + 1);
    text[0] = '[';

    for (i = 0; i < 200000; i++) {
        text[1 + 2 * i] = '0';
        text[2 + 2 * i] = ',';
    }

    for (i = 1; i < 200000; i = i * 2 + 1) {
        len = 1 + 2 * i;
        text[len - 1] = ']';

        if (ngx_http_agentstream_json_parse(&json, text, len) != NGX_OK
            || json.ntokens != i + 2)
        {
            tap_ok(0, "%lu tokens", (unsigned long) i);
        }

        text[len - 1] = ',';
    }

    tap_ok(json.nalloc >= 131072, "many tokens");

    ngx_http_agentstream_json_parse(&json, (u_char *) "[]", 2);
    tap_is(json.nalloc, n, "the next parse gives the memory back");

    text[2 * 65534] = ']';
    ngx_http_agentstream_json_parse(&json, text, 2 * 65534 + 1);
    tap_is(json.nalloc, 65536, "64k tokens");

    tokens = json.tokens;
    ngx_http_agentstream_json_parse(&json, (u_char *) "[]", 2);
    tap_ok(json.tokens == tokens && json.nalloc == 65536, "are kept");

    text[2 * 65534] = ',';
    text[2 * 65536] = ']';

    tap_fail_realloc = 1;

    tap_is(ngx_http_agentstream_json_parse(&json, text, 2 * 65536 + 1),
           NGX_ERROR, "no memory");
    tap_is(ngx_http_agentstream_json_type(&json, json.root),
           NGX_HTTP_AGENTSTREAM_JSON_NONE, "no tokens after that");

    ngx_http_agentstream_json_destroy(&json);

    tap_is(ngx_http_agentstream_json_parse(&json, text, 3), NGX_ERROR,
           "no memory at all");

    tap_fail_realloc = 0;

    tap_is(ngx_http_agentstream_json_parse(&json, text, 2 * 65536 + 1),
           NGX_OK, "memory again");

#if (NGX_PTR_SIZE == 8)
    free(text);
    text = tap_copy(" ", 1);

    tap_is(ngx_http_agentstream_json_parse(&json, text,
                                           (size_t) 0x100000000),
           NGX_DECLINED, "a text of 4 GiB is not even read");
#endif

    tap_is(ngx_http_agentstream_json_parse(&json, NULL, 0), NGX_DECLINED,
           "no text");

    ngx_http_agentstream_json_destroy(&json);
    free(text);
}


int
main(void)
{
    test_accessors();
    test_integers();
    test_memory();

    return tap_done();
}
