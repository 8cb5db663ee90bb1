
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Names and owners: the expected ids were computed by another program, from
 * docs/protocol.md alone, so that they never change by mistake: sessions are
 * found again by them.
 *
 * Broken by: another order of the fields, a field that is left out or hashed
 * without its length, another alphabet, a seal that does not depend on the
 * digits or on the owner, a comparison of a part of the seal only.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_name.h"
#include "tap.h"


static void
test_valid(void)
{
    char        longest[NGX_HTTP_AGENTSTREAM_NAME_MAX + 1];
    ngx_str_t   name;
    ngx_uint_t  i, n, valid;

    static const char  *good[] = {
        "a", "Z", "0", "task-42", "telegram:-1002003:7", "~x", ".", "..", "_"
    };

    static const char  *bad[] = {
        "", "@", "@x", "a b", "a/b", "a%2fb", "a\nb", "a\\b", "a\"b",
        "\xc3\xa4", "a,b", "a+b", "a?b", "a#b"
    };

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        name = tap_str(good[i]);
        tap_ok(ngx_http_agentstream_name_valid(&name), "good: %s", good[i]);
    }

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        name = tap_str(bad[i]);
        tap_ok(!ngx_http_agentstream_name_valid(&name), "bad: %s", bad[i]);
    }

    name.data = (u_char *) "a\0b";
    name.len = 3;
    tap_ok(!ngx_http_agentstream_name_valid(&name), "bad: NUL");

    memset(longest, 'n', sizeof(longest));
    name.data = (u_char *) longest;
    name.len = NGX_HTTP_AGENTSTREAM_NAME_MAX;
    tap_ok(ngx_http_agentstream_name_valid(&name), "good: 80 characters");

    name.len++;
    tap_ok(!ngx_http_agentstream_name_valid(&name), "bad: 81 characters");

    n = 0;

    for (i = 0; i < 256; i++) {
        longest[0] = (char) i;
        name.len = 1;
        valid = ngx_http_agentstream_name_valid(&name);
        n += valid;
    }

    tap_is(n, 26 + 26 + 10 + 5, "characters of a name");
}


static void
test_id(void)
{
    u_char                             id[NGX_HTTP_AGENTSTREAM_NAME_ID_LEN];
    ngx_str_t                          name, text;
    ngx_uint_t                         i;
    ngx_http_agentstream_name_scope_t  scope;

    static const struct {
        const char  *server;
        const char  *prefix;
        const char  *route;
        const char  *owner;
        const char  *directory;
        const char  *name;
        const char  *id;
    } ids[] = {
        { "", "", "", "", "", "a", "ses_olWZUcqLZaFktOWWGUdN9qkgvb" },
        { "example.org", "/opencode/", "", "", "", "task-42",
          "ses_tFc9IvyI3L9A4ATpkQQhxbZyzc" },
        { "example.org", "/opencode/", "eu", "alice", "/work/a", "task-42",
          "ses_RhsWeUFHlOfFPWHdPHaIlP2bfI" },
        { "example.org", "/opencode/", "eu", "bob", "/work/a", "task-42",
          "ses_VicJabY9iL9dO136Oi83rE0KtY" },
        { "example.org", "/opencode/", "e", "ualice", "/work/a", "task-42",
          "ses_OI38m2ABNx6OrzQBZi9gZ83XN2" },
    };

    text.data = id;
    text.len = sizeof(id);

    for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        scope.server = tap_str(ids[i].server);
        scope.prefix = tap_str(ids[i].prefix);
        scope.route = tap_str(ids[i].route);
        scope.owner = tap_str(ids[i].owner);
        scope.directory = tap_str(ids[i].directory);
        name = tap_str(ids[i].name);

        tap_is(ngx_http_agentstream_name_id(&scope, &name, id), NGX_OK,
               "name_id()");
        tap_is_str(text, ids[i].id, "the id of a name");
        tap_is(ngx_http_agentstream_name_owned(&scope.owner, &text), NGX_OK,
               "it is its owner's");
    }
}


static void
test_owned(void)
{
    u_char      id[NGX_HTTP_AGENTSTREAM_NAME_ID_LEN + 1], was;
    ngx_str_t   alice, bob, nobody, text;
    ngx_uint_t  i, n;

    alice = tap_str("alice");
    bob = tap_str("bob");
    nobody = tap_str("");

    text.data = id;
    text.len = NGX_HTTP_AGENTSTREAM_NAME_ID_LEN;

    tap_is(ngx_http_agentstream_name_new(&alice,
                                         (u_char *) "\0\1\2\3\4\5\6\7", id),
           NGX_OK, "name_new()");
    tap_is_str(text, "ses_RWLX0TYI10b3mgbuDKe5IjJEBt", "a session of alice");

    tap_is(ngx_http_agentstream_name_owned(&alice, &text), NGX_OK, "alice's");
    tap_is(ngx_http_agentstream_name_owned(&bob, &text), NGX_DECLINED,
           "not bob's");
    tap_is(ngx_http_agentstream_name_owned(&nobody, &text), NGX_DECLINED,
           "not nobody's");

    n = 0;

    for (i = 0; i < text.len; i++) {
        was = id[i];
        id[i] = (was == 'x') ? 'y' : 'x';
        n += (ngx_http_agentstream_name_owned(&alice, &text) == NGX_OK);
        id[i] = was;
    }

    tap_is(n, 0, "no character of it can be changed");

    id[text.len] = '0';
    text.len++;
    tap_is(ngx_http_agentstream_name_owned(&alice, &text), NGX_DECLINED,
           "not a longer one");

    text.len -= 2;
    tap_is(ngx_http_agentstream_name_owned(&alice, &text), NGX_DECLINED,
           "not a shorter one");

    text = tap_str("ses_e1cac0f93ffehaRgXzRUrQw77M");
    tap_is(ngx_http_agentstream_name_owned(&alice, &text), NGX_DECLINED,
           "not one that OpenCode made");
}


int
main(void)
{
    test_valid();
    test_id();
    test_owned();

    return tap_done();
}
