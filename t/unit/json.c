
/*
 * Copyright (C) agentstream contributors
 */


/*
 * json.c: what is accepted and refused (RFC 8259, strict UTF-8), and the index
 * of tokens against cJSON's tree.
 * Breaks when: a bound of a scan is off by one (all texts are in allocations
 * of their exact size), a byte class or a range of UTF-8 is wrong, the depth
 * limit moves, or "next" of a container is wrong.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <cjson/cJSON.h>

#include "ngx_http_agentstream_json.h"
#include "captures.h"
#include "tap.h"


static ngx_int_t
parse(const void *text, size_t len)
{
    void                         *copy;
    ngx_int_t                     rc;
    ngx_http_agentstream_json_t   json;

    copy = tap_copy(text, len);

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, copy, len);

    ngx_http_agentstream_json_destroy(&json);
    free(copy);

    return rc;
}


static ngx_int_t
parse_str(const char *text)
{
    return parse(text, strlen(text));
}


/* the same value in both trees; json values are visited in order of tokens */

static ngx_uint_t
same(ngx_http_agentstream_json_t *json, ngx_uint_t value, cJSON *item)
{
    cJSON       *child;
    u_char      *decoded, *end;
    ngx_str_t    raw, s;
    ngx_uint_t   v, ok;

    raw = ngx_http_agentstream_json_raw(json, value);

    switch (ngx_http_agentstream_json_type(json, value)) {

    case NGX_HTTP_AGENTSTREAM_JSON_OBJECT:

        if (!cJSON_IsObject(item) || raw.data[0] != '{'
            || raw.data[raw.len - 1] != '}')
        {
            return 0;
        }

        child = item->child;

        for (v = ngx_http_agentstream_json_first(json, value);
             v;
             v = ngx_http_agentstream_json_next(json, value, v))
        {
            if (child == NULL) {
                return 0;
            }

            s = ngx_http_agentstream_json_string(json, v);

            decoded = malloc(s.len + 1);
            end = ngx_http_agentstream_json_decode(decoded, &s);
            *end = '\0';

            ok = (strcmp((char *) decoded, child->string) == 0);
            free(decoded);

            if (!ok || !same(json, v + 1, child)) {
                return 0;
            }

            child = child->next;
        }

        return child == NULL;

    case NGX_HTTP_AGENTSTREAM_JSON_ARRAY:

        if (!cJSON_IsArray(item) || raw.data[0] != '['
            || raw.data[raw.len - 1] != ']')
        {
            return 0;
        }

        child = item->child;

        for (v = ngx_http_agentstream_json_first(json, value);
             v;
             v = ngx_http_agentstream_json_next(json, value, v))
        {
            if (child == NULL || !same(json, v, child)) {
                return 0;
            }

            child = child->next;
        }

        return child == NULL;

    case NGX_HTTP_AGENTSTREAM_JSON_STRING:

        if (!cJSON_IsString(item)) {
            return 0;
        }

        s = ngx_http_agentstream_json_string(json, value);

        decoded = malloc(s.len + 1);
        end = ngx_http_agentstream_json_decode(decoded, &s);
        *end = '\0';

        ok = (strcmp((char *) decoded, item->valuestring) == 0);

        if (strlen((char *) decoded) == (size_t) (end - decoded)) {
            ok = ok && ngx_http_agentstream_json_is(json, value,
                                                    item->valuestring);
        }

        free(decoded);

        return ok;

    case NGX_HTTP_AGENTSTREAM_JSON_NUMBER:

        decoded = malloc(raw.len + 1);
        *ngx_cpymem(decoded, raw.data, raw.len) = '\0';

        ok = cJSON_IsNumber(item)
             && strtod((char *) decoded, NULL) == item->valuedouble;

        free(decoded);

        return ok;

    case NGX_HTTP_AGENTSTREAM_JSON_TRUE:
        return cJSON_IsTrue(item);

    case NGX_HTTP_AGENTSTREAM_JSON_FALSE:
        return cJSON_IsFalse(item);

    case NGX_HTTP_AGENTSTREAM_JSON_NULL:
        return cJSON_IsNull(item);

    default:
        return 0;
    }
}


/*
 * What we accept cJSON must accept and see alike.  It knows no lone
 * surrogates: texts with such escapes are not compared.
 */

static ngx_uint_t
agrees(const void *text, size_t len)
{
    void                         *copy;
    cJSON                        *item;
    ngx_int_t                     rc;
    ngx_uint_t                    i, ok;
    const u_char                 *p;
    ngx_http_agentstream_json_t   json;

    copy = tap_copy(text, len);

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, copy, len);
    ok = 1;

    if (rc == NGX_OK) {

        p = text;

        for (i = 0; i + 3 < len; i++) {
            if (p[i] == '\\' && p[i + 1] == 'u' && (p[i + 2] | 0x20) == 'd') {
                goto done;
            }
        }

        item = cJSON_ParseWithLength(copy, len);

        ok = (item != NULL && same(&json, json.root, item)
              && json.tokens[json.root].next == json.ntokens);

        cJSON_Delete(item);
    }

done:

    ngx_http_agentstream_json_destroy(&json);
    free(copy);

    return ok;
}


static const char  *accepted[] = {
    "{}", "[]", "\"\"", "0", "-0", "1", "-1", "true", "false", "null",
    " {} ", "\t[\n]\r", " \t\n\r1 \t\n\r", "[1]", "[1,2]", "[ 1 , 2 ]",
    "[[]]", "[[],[]]", "[{}]", "[{},{}]", "{\"a\":1}", "{\"a\":{}}",
    "{\"a\":[]}", "{\"\":0}", "{\"a\":1,\"a\":2}", "{ \"a\" : 1 , \"b\" : 2 }",
    "0.1", "10.25", "-0.0", "1e5", "1E5", "1e+5", "1e-5", "1.5e10", "0e0",
    "0E+1", "123456789012345678901234567890", "1e999", "-1.5E-07",
    "\"abc\"", "\"\\\"\"", "\"\\\\\"", "\"\\/\"", "\"\\b\\f\\n\\r\\t\"",
    "\"/\"", "\"\\u0000\"", "\"\\u00e9\"", "\"\\uABCD\"", "\"\\uabcd\"",
    "\"\\ud83d\\ude00\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"",
    "\"\x7f\"", "\"\xc2\x80\"", "\"\xdf\xbf\"", "\"\xe0\xa0\x80\"",
    "\"\xed\x9f\xbf\"", "\"\xee\x80\x80\"", "\"\xef\xbf\xbf\"",
    "\"\xf0\x90\x80\x80\"", "\"\xf4\x8f\xbf\xbf\"", "\"\xe2\x80\xa8\"",
    "[true,false,null,0,\"\",[],{}]", "[[[[[[[[1]]]]]]]]",
    "{\"a\":{\"b\":{\"c\":[{\"d\":null}]}}}", "[\"]\",\"}\",\",\"]",
    "{\"a\":\"{\",\"b\":\"[\"}", "[\"\\\\\",\"\\\\\\\\\"]"
};


static const char  *refused[] = {
    "", " ", "\n", "{", "}", "[", "]", "[}", "{]", "{}}", "[]]", "[[]",
    "{\"a\":1", "{\"a\":}", "{\"a\"}", "{\"a\" 1}", "{\"a\",1}", "{a:1}",
    "{'a':1}", "{1:1}", "{\"a\":1,}", "{,}", "{,\"a\":1}", "{\"a\":1 \"b\":2}",
    "{\"a\"::1}", "{\"a\":1:2}", "{\"a\":1,,\"b\":2}", "{null:1}", "{[]:1}",
    "{1}", "{null}", "{[]}", "{{}}", "{1,2}", "{\"a\":1,2}",
    "[,]", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1:2]", "[\"a\":1]", "1,", ",1",
    "1 2", "{}{}", "[][]", "{} x", "x", "nul", "nulll", "nullx", "tru", "truE",
    "True", "NULL", "fals", "falsee", "[true", "[tru]", "[nul,1]", "undefined",
    "NaN", "Infinity", "-Infinity", "+1", "01", "-01", "00", "-", "-a", ".5",
    "-.5", "1.", "1.e5", "1e", "1e+", "1E-", "1ee5", "1.5.5", "1e5.5", "0x1",
    "1a", "--1", "- 1", "1 .5", "1_000", "\"", "\"a", "a\"", "\"a\"b", "'a'",
    "\"\\\"", "\"\\", "\"\\x\"", "\"\\U0041\"", "\"\\a\"", "\"\\0\"",
    "\"\\u\"", "\"\\u1\"", "\"\\u12\"", "\"\\u123\"", "\"\\u123g\"",
    "\"\\ug123\"", "\"\\u 123\"", "\"\\u-123\"", "\"\\u12\"34\"", "\"\n\"",
    "\"\t\"", "\"\r\"", "\"\x01\"", "\"\x1f\"", "\"\x80\"", "\"\xbf\"",
    "\"\xc0\x80\"", "\"\xc1\xbf\"", "\"\xc2\"", "\"\xc2\x7f\"", "\"\xc2\xc0\"",
    "\"\xe0\x9f\xbf\"", "\"\xe0\x80\x80\"", "\"\xe1\x80\"", "\"\xe1\x80\x7f\"",
    "\"\xe1\x80\xc0\"", "\"\xed\xa0\x80\"", "\"\xed\xbf\xbf\"", "\"\xf0\x80\"",
    "\"\xf0\x8f\xbf\xbf\"", "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"",
    "\"\xf1\x80\x80\"", "\"\xf1\x80\x80\x7f\"", "\"\xf1\x7f\x80\x80\"",
    "\"\xfe\"", "\"\xff\"", "\xef\xbb\xbf{}", "{}\xef\xbb\xbf", "\x80",
    "[\"a\",\n4\n,1,", "/* c */ 1", "1 // c", "[1]#", "\f1", "\v1",
    "\xc2\xa0 1",
    "{\"\\\":1}", "{\"a\nb\":1}", "{\"\xff\":1}", "{\"a\"", "{\"a\":", "{\"a"
};


static void
test_accepted(void)
{
    char        text[64];
    ngx_uint_t  i;

    for (i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {

        if (parse_str(accepted[i]) != NGX_OK) {
            tap_ok(0, "accepted: %s", accepted[i]);
        }

        if (!agrees(accepted[i], strlen(accepted[i]))) {
            tap_ok(0, "as cJSON sees it: %s", accepted[i]);
        }

        snprintf(text, sizeof(text), "[0,%s,0]", accepted[i]);

        if (parse_str(text) != NGX_OK || !agrees(text, strlen(text))) {
            tap_ok(0, "accepted: %s", text);
        }
    }

    tap_ok(1, "%lu valid texts", (unsigned long) i);
}


static void
test_refused(void)
{
    char        text[128];
    ngx_uint_t  i;

    for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {

        if (parse_str(refused[i]) != NGX_DECLINED) {
            tap_ok(0, "refused: %s", refused[i]);
        }

        if (strspn(refused[i], " \n") == strlen(refused[i])) {
            continue;
        }

        /* room for the wide scans, which must not hide the error */

        snprintf(text, sizeof(text), "{\"k\":[%s],\"k\":\"%022d\"}",
                 refused[i], 0);

        if (parse_str(text) != NGX_DECLINED) {
            tap_ok(0, "refused: %s", text);
        }
    }

    tap_ok(1, "%lu invalid texts", (unsigned long) i);

    tap_is(parse("\"a\0b\"", 5), NGX_DECLINED, "a zero byte in a string");
    tap_is(parse("1\0", 2), NGX_DECLINED, "a zero byte after the text");
    tap_is(parse("\0", 1), NGX_DECLINED, "a zero byte alone");
}


/* one special byte, and what it does, at every place of strings of any size */

static void
test_string_positions(void)
{
    u_char      text[128];
    ngx_int_t   rc;
    ngx_uint_t  ch, len, pos, bad;

    bad = 0;

    for (len = 1; len <= 70; len++) {
        for (pos = 0; pos < len; pos++) {

            text[0] = '"';
            ngx_memset(text + 1, 'x', len);
            text[len + 1] = '"';

            if (parse(text, len + 2) != NGX_OK) {
                bad++;
            }

            for (ch = 0; ch < 256; ch++) {
                text[pos + 1] = (u_char) ch;

                rc = (ch < 0x20 || ch == '"' || ch == '\\' || ch >= 0x80)
                     ? NGX_DECLINED : NGX_OK;

                if (len > 40 && ch > 0x23 && ch != '\\' && ch != 0x80) {
                    continue;
                }

                if (parse(text, len + 2) != rc) {
                    bad++;
                }
            }
        }
    }

    tap_is(bad, 0, "each byte at each place of a string");

    bad = 0;

    for (pos = 0; pos <= 40; pos++) {

        text[0] = '"';
        ngx_memset(text + 1, 'x', 100);
        ngx_memcpy(text + 1 + pos,
                   "\xf0\x9f\x98\x80\xe2\x82\xac\\n\xc3\xa9", 11);
        text[60] = '"';

        if (parse(text, 61) != NGX_OK) {
            bad++;
        }

        /* "len" bytes of a text without its quote are not a text */

        for (len = 0; len < 61; len++) {
            if (parse(text, len) != NGX_DECLINED) {
                bad++;
            }
        }
    }

    tap_is(bad, 0, "characters beyond ASCII at each place of a string");
}


static void
test_escapes(void)
{
    char        text[16];
    ngx_uint_t  ch, i, bad;

    bad = 0;

    for (ch = 1; ch < 256; ch++) {
        snprintf(text, sizeof(text), "\"\\%c123\"", (int) ch);

        if ((parse_str(text) == NGX_OK) != (strchr("\"\\/bfnrt", ch) != NULL)
            && ch != '"')
        {
            bad++;
        }

        for (i = 0; i < 4; i++) {
            strcpy(text, "\"\\u1aF0\"");
            text[3 + i] = (char) ch;

            if ((parse_str(text) == NGX_OK)
                != (strchr("0123456789abcdefABCDEF", ch) != NULL))
            {
                bad++;
            }
        }
    }

    tap_is(bad, 0, "each byte after a backslash and as a hexadecimal digit");
}


/* by the definition: decode to a code point, and encode that again */

static ngx_uint_t
valid_utf8(u_char *p, ngx_uint_t n)
{
    u_char      again[4];
    uint32_t    code;
    ngx_uint_t  i;

    code = p[0] & (0xff >> (n + 1));

    for (i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }

        code = (code << 6) | (p[i] & 0x3f);
    }

    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }

    if (n == 2) {
        again[0] = 0xc0 | (code >> 6);

    } else if (n == 3) {
        again[0] = 0xe0 | (code >> 12);

    } else {
        again[0] = 0xf0 | (code >> 18);
    }

    if (again[0] != p[0]) {
        return 0;
    }

    return (n == 2) ? code >= 0x80 : (n == 3) ? code >= 0x800 : code >= 0x10000;
}


static ngx_uint_t
refuses_wrongly(u_char *p, ngx_uint_t n)
{
    u_char                       text[6];
    ngx_int_t                    rc;
    ngx_http_agentstream_json_t  json;

    text[0] = '"';
    ngx_memcpy(text + 1, p, n);
    text[n + 1] = '"';

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));
    rc = ngx_http_agentstream_json_parse(&json, text, n + 2);
    ngx_http_agentstream_json_destroy(&json);

    return (rc == NGX_OK) != valid_utf8(p, n);
}


static void
test_utf8(void)
{
    u_char      p[4];
    ngx_uint_t  a, b, c, d, bad;

    static u_char  some[] = { 0x22, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                              0xc0, 0xff };

    bad = 0;

    for (a = 0x80; a < 0x100; a++) {
        for (b = 0x80; b < 0x100; b++) {
            p[0] = (u_char) a;
            p[1] = (u_char) b;
            bad += (a < 0xe0) ? refuses_wrongly(p, 2) : 0;

            if (a >= 0xe0 && a < 0xf0) {
                for (c = 0x60; c < 0x100; c++) {
                    p[2] = (u_char) c;
                    bad += refuses_wrongly(p, 3);
                }
            }

            if (a >= 0xf0) {
                for (c = 0; c < sizeof(some); c++) {
                    for (d = 0; d < sizeof(some); d++) {
                        p[2] = some[c];
                        p[3] = some[d];

                        if (p[2] != '"' && p[3] != '"') {
                            bad += refuses_wrongly(p, 4);
                        }
                    }
                }
            }
        }
    }

    tap_is(bad, 0, "sequences of two, three and four bytes");
}


static void
test_depth(void)
{
    u_char      *text;
    size_t       len;
    ngx_int_t    rc;
    ngx_uint_t   i, n, kind;

    for (kind = 0; kind < 3; kind++) {
        for (n = 510; n < 516; n++) {

            text = malloc(n * 6 + 1);
            len = 0;

            for (i = 0; i < n; i++) {
                if (kind == 0 || (kind == 2 && i % 2)) {
                    text[len++] = '[';

                } else {
                    ngx_memcpy(text + len, "{\"a\":", 5);
                    len += 5;
                }
            }

            text[len++] = '1';

            while (i--) {
                text[len++] = (kind == 0 || (kind == 2 && i % 2)) ? ']' : '}';
            }

            rc = (n <= NGX_HTTP_AGENTSTREAM_JSON_MAX_DEPTH) ? NGX_OK
                                                            : NGX_DECLINED;

            tap_ok(parse(text, len) == rc && agrees(text, len),
                   "%lu levels, kind %lu", (unsigned long) n,
                   (unsigned long) kind);

            free(text);
        }
    }

    /* depth is what is open, not what has been */

    tap_is(parse_str("[[[]],[[]],[[]],[[]]]"), NGX_OK, "siblings");

    text = malloc(2 * 100000);
    ngx_memset(text, '[', 2 * 100000);
    tap_is(parse(text, 2 * 100000), NGX_DECLINED, "brackets without end");
    free(text);
}


static const char  *documents[] = {
    "{\"id\":\"evt_1\",\"type\":\"message.part.delta\",\"properties\":{\"n\":"
    "[1,-2.5e+3,true,false,null],\"delta\":\"caf\xc3\xa9 \\u00e9\\n \\\"q\\\" "
    "\xf0\x9f\x98\x80 end\",\"o\":{},\"a\":[]}}",
    "[\"more than sixteen bytes\",\"\xe2\x82\xac\\\\\",[[{\"k\":0}]],-0.5E-2]",
    "{\"a\" : [ 1 , 2 ] ,\r\n\t\"b\" : { \"c\" : null } }"
};


static void
test_truncated(void)
{
    size_t      len, n;
    ngx_uint_t  i, bad;

    bad = 0;

    for (i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        len = strlen(documents[i]);

        for (n = 0; n < len; n++) {
            if (parse(documents[i], n) != NGX_DECLINED) {
                bad++;
            }
        }

        if (parse(documents[i], len) != NGX_OK) {
            bad++;
        }
    }

    tap_is(bad, 0, "documents cut at every byte");
}


static void
test_mutated(void)
{
    size_t       len, n;
    u_char      *copy, saved;
    ngx_uint_t   i, j, bad;

    static u_char  bytes[] = "\"\\{}[]:, 0-.eE+utn\x01\x1f\x7f\x80\xc2\xe2"
                             "\xf0\xff\n";

    bad = 0;

    for (i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        len = strlen(documents[i]);
        copy = tap_copy(documents[i], len);

        for (n = 0; n < len; n++) {
            saved = copy[n];

            for (j = 0; j < sizeof(bytes); j++) {
                copy[n] = bytes[j];

                if (!agrees(copy, len)) {
                    bad++;
                }
            }

            copy[n] = saved;
        }

        free(copy);
    }

    tap_is(bad, 0, "documents with one byte changed, as cJSON sees them");
}


/* every event of every capture: as cJSON sees it, and cut short */

static void
test_captures(void)
{
    DIR         *dir;
    char         path[512];
    u_char      *p, *end, *last;
    ngx_str_t    file;
    ngx_uint_t   files, events, bad;

    dir = NULL;
    files = 0;
    events = 0;
    bad = 0;

    while (capture_next(&dir, "", path, &file) == NGX_OK) {

        files++;

        last = file.data + file.len;

        for (p = file.data; p < last; p = end + 1) {
            end = memchr(p, LF, last - p);

            if (end == NULL) {
                break;
            }

            if (end - p < 6 || ngx_memcmp(p, "data: ", 6) != 0) {
                continue;
            }

            p += 6;
            events++;

            if (parse(p, end - p) != NGX_OK || !agrees(p, end - p)
                || parse(p, end - p - 1) != NGX_DECLINED)
            {
                tap_diag("%s: %.*s", path, (int) (end - p), p);
                bad++;
            }
        }

        free(file.data);
    }

    tap_ok(files >= 50 && events > 2000, "%lu captures, %lu events",
           (unsigned long) files, (unsigned long) events);
    tap_is(bad, 0, "all of them as cJSON sees them");
}


int
main(void)
{
    test_accepted();
    test_refused();
    test_string_positions();
    test_escapes();
    test_utf8();
    test_depth();
    test_truncated();
    test_mutated();
    test_captures();

    return tap_done();
}
