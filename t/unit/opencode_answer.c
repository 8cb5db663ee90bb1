
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Where a session is, from OpenCode's two ways to tell.
 *
 * Broken by: an answer about another session that is believed, a page that
 * counts as an answer, a directory that is not decoded.
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


int
main(void)
{
    test_directory();

    return tap_done();
}
