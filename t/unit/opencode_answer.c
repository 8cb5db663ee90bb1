
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Where a session is, from OpenCode's two ways to tell; the models and agents
 * that a client can choose.
 *
 * Broken by: an answer about another session that is believed, a page that
 * counts as an answer, a directory that is not decoded; a provider's key in the
 * list of models; a subagent in the list of agents.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_opencode.h"
#include "tap.h"


extern ngx_log_t  ngx_unit_log;


static void
test_directory(void)
{
    ngx_int_t    rc;
    ngx_str_t    session, answer, directory;
    ngx_uint_t   i;
    ngx_pool_t  *pool;

    /* directory NULL: it is no such answer */

    static const struct {
        const char  *answer;
        const char  *directory;
    } answers[] = {
        { "{\"id\":\"ses_1\",\"directory\":\"/a\\u0020b\"}", "/a b" },
        { "{\"data\":{\"id\":\"ses_1\",\"location\":{\"directory\":\"/a\"}}}",
          "/a" },
        { "{\"id\":\"ses_2\",\"directory\":\"/a\"}", NULL },
        { "{\"data\":{\"id\":\"ses_2\",\"location\":{\"directory\":\"/a\"}}}",
          NULL },
        { "{\"data\":{\"id\":\"ses_1\"},\"directory\":\"/a\"}", NULL },
        { "{\"data\":[],\"id\":\"ses_1\",\"directory\":\"/a\"}", NULL },
        { "{\"id\":\"ses_1\"}", NULL },
        { "[]", NULL },
        { "<!doctype html>", NULL }
    };

    pool = ngx_create_pool(1024, &ngx_unit_log);

    session = tap_str("ses_1");

    for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        answer = tap_str(answers[i].answer);
        ngx_str_null(&directory);

        rc = ngx_http_agentstream_opencode_directory(pool, &answer, &session,
                                                     &directory);

        if (answers[i].directory) {
            tap_is_str(directory, answers[i].directory, answers[i].answer);

        } else {
            tap_is(rc, NGX_DECLINED, answers[i].answer);
        }
    }

    ngx_destroy_pool(pool);
}


static void
test_choices(void)
{
    ngx_int_t    rc;
    ngx_str_t    answer, text;
    ngx_uint_t   i;
    ngx_pool_t  *pool;

    /* list NULL: it is no such answer */

    static const struct {
        const char  *answer;
        const char  *list;
        ngx_uint_t   agents;
    } answers[] = {
        { "{\"providers\":[{\"id\":\"lab\",\"name\":\"The \\\"Lab\\\"\","
          "\"key\":\"secret\",\"models\":{\"a/b\":{\"name\":\"A\","
          "\"options\":{\"apiKey\":\"secret\"}},\"c\":{}}},"
          "{\"id\":\"bare\",\"models\":{\"d\":{\"name\":\"D\"}}},"
          "{\"id\":\"none\",\"models\":[]}],\"default\":{}}",
          "[{\"providerID\":\"lab\",\"modelID\":\"a/b\","
          "\"provider\":\"The \\\"Lab\\\"\",\"name\":\"A\"},"
          "{\"providerID\":\"lab\",\"modelID\":\"c\","
          "\"provider\":\"The \\\"Lab\\\"\",\"name\":\"c\"},"
          "{\"providerID\":\"bare\",\"modelID\":\"d\","
          "\"provider\":\"bare\",\"name\":\"D\"}]", 0 },
        { "{\"providers\":[]}", "[]", 0 },
        { "{\"providers\":{}}", NULL, 0 },
        { "[]", NULL, 0 },
        { "<!doctype html>", NULL, 0 },

        { "[{\"name\":\"build\",\"description\":\"Builds\","
          "\"mode\":\"primary\",\"prompt\":\"secret\"},"
          "{\"name\":\"general\",\"mode\":\"subagent\"},"
          "{\"name\":\"title\",\"mode\":\"primary\",\"hidden\":true},"
          "{\"mode\":\"primary\"},7,{\"name\":\"both\",\"mode\":\"all\"}]",
          "[{\"name\":\"build\",\"description\":\"Builds\"},"
          "{\"name\":\"both\",\"description\":\"\"}]", 1 },
        { "[]", "[]", 1 },
        { "{\"name\":\"build\"}", NULL, 1 },
        { "", NULL, 1 }
    };

    pool = ngx_create_pool(1024, &ngx_unit_log);

    for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        answer = tap_str(answers[i].answer);
        ngx_str_null(&text);

        rc = answers[i].agents
             ? ngx_http_agentstream_opencode_agents(pool, &answer, &text)
             : ngx_http_agentstream_opencode_models(pool, &answer, &text);

        if (answers[i].list == NULL) {
            tap_ok(rc == NGX_DECLINED, "no choices: %s", answers[i].answer);
            continue;
        }

        tap_ok(rc == NGX_OK && text.len == ngx_strlen(answers[i].list)
               && ngx_strncmp(text.data, answers[i].list, text.len) == 0,
               "choices: %.*s", (int) text.len, text.data);
    }

    ngx_destroy_pool(pool);
}


static void
is_outdated(const char *json, ngx_uint_t outdated, const char *version)
{
    ngx_str_t  answer, got;

    answer.data = (u_char *) json;
    answer.len = strlen(json);

    tap_is(ngx_http_agentstream_opencode_outdated(&answer, &got), outdated,
           json);

    if (outdated) {
        tap_ok(got.len == strlen(version)
               && memcmp(got.data, version, got.len) == 0, version);
    }
}


static void
test_version(void)
{
    is_outdated("{\"id\":\"ses_1\",\"version\":\"1.18.33\"}", 0, "");
    is_outdated("{\"version\":\"1.14.0\"}", 0, "");
    is_outdated("{\"version\":\"2.0.0\"}", 0, "");
    is_outdated("{\"version\":\"1.13.9\"}", 1, "1.13.9");
    is_outdated("{\"title\":\"\\\"version\\\":\\\"0.1\\\"\","
                "\"version\":\"1.2.27\"}", 1, "1.2.27");
    is_outdated("{\"version\":\"0.9\"}", 1, "0.9");
    is_outdated("{\"version\":\"1.2.3\\n[alert] x\"}", 1, "1.2.3");
    is_outdated("{\"version\":\"local\"}", 0, "");
    is_outdated("{\"version\":\"1\"}", 0, "");
    is_outdated("{\"version\":\"", 0, "");
    is_outdated("{}", 0, "");
}


int
main(void)
{
    test_directory();
    test_choices();
    test_version();

    return tap_done();
}
