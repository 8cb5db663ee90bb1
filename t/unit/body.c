
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The other request bodies: what OpenCode gets for a good one, and why a bad
 * one is refused.
 *
 * Broken by: a field that is passed on although it is unknown or not allowed,
 * a type that is not checked, a name that may occur twice, a value of the
 * configuration that is not escaped.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_body.h"
#include "tap.h"


extern ngx_log_t  ngx_unit_log;


#define SESSION  NGX_HTTP_AGENTSTREAM_BODY_SESSION
#define ANSWERS  NGX_HTTP_AGENTSTREAM_BODY_ANSWERS
#define REPLY    NGX_HTTP_AGENTSTREAM_BODY_REPLY


static ngx_http_agentstream_fields_conf_t  *conf;


static void
good(ngx_uint_t kind, const char *text, const char *expected)
{
    ngx_int_t                     rc;
    ngx_str_t                     s, result;
    ngx_pool_t                   *pool;
    ngx_http_agentstream_body_t   body;

    pool = ngx_create_pool(1024, &ngx_unit_log);

    s.len = ngx_strlen(text);
    s.data = tap_copy(text, s.len);

    rc = ngx_http_agentstream_body_build(pool, kind, conf, &s, &body);

    free(s.data);

    result = body.text;

    if (rc == NGX_OK && kind == SESSION) {
        rc = ngx_http_agentstream_body_create(pool, &body, &result);
    }

    if (rc == NGX_OK) {
        tap_is_str(result, expected, text);

    } else {
        tap_is(rc, NGX_OK, text);
    }

    ngx_destroy_pool(pool);
}


static void
bad(ngx_uint_t kind, const char *text, const char *field)
{
    ngx_str_t                     s;
    ngx_int_t                     rc;
    ngx_pool_t                   *pool;
    ngx_http_agentstream_body_t   body;

    pool = ngx_create_pool(1024, &ngx_unit_log);

    s.len = ngx_strlen(text);
    s.data = tap_copy(text, s.len);

    rc = ngx_http_agentstream_body_build(pool, kind, conf, &s, &body);

    free(s.data);

    tap_ok(rc == NGX_DECLINED
           && ngx_strnstr(body.error.data, (char *) field, body.error.len)
              != NULL,
           "%s", text);

    ngx_destroy_pool(pool);
}


/* what the configuration allows and sets */

static void
configured(void)
{
    ngx_http_agentstream_fields_conf_t  set;

    ngx_memzero(&set, sizeof(ngx_http_agentstream_fields_conf_t));
    conf = &set;

    set.allowed = NGX_HTTP_AGENTSTREAM_FIELD_TITLE;

    good(SESSION, "{\"title\":\"a\"}", "{\"title\":\"a\"}");
    bad(SESSION, "{\"agent\":\"a\"}", "\"agent\" must not be sent here");
    bad(SESSION, "{\"model\":{\"providerID\":\"p\",\"modelID\":\"m\"}}",
        "\"model\" must not be sent here");
    good(REPLY, "{\"reply\":\"once\",\"message\":\"x\"}",
         "{\"reply\":\"once\",\"message\":\"x\"}");

    set.allowed = NGX_HTTP_AGENTSTREAM_FIELD_ALL;
    ngx_str_set(&set.agent, "a\"b\n\xff");

    good(SESSION, "{}", "{\"agent\":\"a\\\"b\\n\xef\xbf\xbd\"}");
    bad(SESSION, "{\"agent\":\"a\"}", "\"agent\" must not be sent here");

    ngx_str_null(&set.agent);
    ngx_str_set(&set.provider, "p\\");
    ngx_str_set(&set.model, "m/1");

    good(SESSION, "{\"title\":\"a\",\"agent\":\"x\"}",
         "{\"title\":\"a\",\"agent\":\"x\",\"model\":"
         "{\"providerID\":\"p\\\\\",\"id\":\"m/1\"}}");
    bad(SESSION, "{\"model\":{\"providerID\":\"p\",\"modelID\":\"m\"}}",
        "\"model\" must not be sent here");
    good(ANSWERS, "{\"answers\":[[]]}", "{\"answers\":[[]]}");
}


/* what OpenCode is sent, by POST session, POST api/session and PATCH */

static void
session(const char *text, const char *name, const char *create,
    const char *make, const char *update)
{
    ngx_str_t                     s, id, directory, result;
    ngx_pool_t                   *pool;
    ngx_http_agentstream_body_t   body;

    pool = ngx_create_pool(1024, &ngx_unit_log);

    s.len = ngx_strlen(text);
    s.data = tap_copy(text, s.len);

    tap_is(ngx_http_agentstream_body_build(pool, SESSION, conf, &s, &body),
           NGX_OK, text);

    free(s.data);

    id = tap_str("ses_1");
    directory = tap_str("/a \"b\"");

    tap_is_str(body.name, name, "its name");

    ngx_http_agentstream_body_create(pool, &body, &result);
    tap_is_str(result, create, "POST session");
    ngx_http_agentstream_body_make(pool, &body, &id, &directory, &result);
    tap_is_str(result, make, "POST api/session");
    ngx_http_agentstream_body_update(pool, &body, &result);
    tap_is_str(result, update, "PATCH session");

    ngx_destroy_pool(pool);
}


int
main(void)
{
    good(SESSION, "{}", "{}");
    good(SESSION, "{\"agent\":\"plan\",\"titl\\u0065\":\"x\"}",
         "{\"title\":\"x\",\"agent\":\"plan\"}");
    good(SESSION, "{\"model\":{\"modelID\":\"m\",\"providerID\":\"p\"}}",
         "{\"model\":{\"providerID\":\"p\",\"id\":\"m\"}}");

    session("{}", "", "{}",
            "{\"id\":\"ses_1\",\"location\":{\"directory\":\"/a \\\"b\\\"\"}}",
            "");
    session(" { \"title\" : \"A \\\"b\\\" \\ud83d\" } ", "",
            "{\"title\":\"A \\\"b\\\" \\ufffd\"}",
            "{\"id\":\"ses_1\",\"location\":{\"directory\":\"/a \\\"b\\\"\"}}",
            "{\"title\":\"A \\\"b\\\" \\ufffd\"}");
    session("{\"agent\":\"plan\",\"title\":\"x\",\"name\":\"task\\u002d42\"}",
            "task-42", "{\"title\":\"x\",\"agent\":\"plan\"}",
            "{\"id\":\"ses_1\",\"location\":{\"directory\":\"/a \\\"b\\\"\"}"
            ",\"agent\":\"plan\"}",
            "{\"title\":\"x\"}");

    bad(SESSION, "", "JSON");
    bad(SESSION, "[]", "object");
    bad(SESSION, "{\"title\":\"\"}", "title");
    bad(SESSION, "{\"title\":1}", "title");
    bad(SESSION, "{\"title\":\"a\",\"titl\\u0065\":\"b\"}", "title");
    bad(SESSION, "{\"name\":\"\"}", "name");
    bad(SESSION, "{\"name\":1}", "name");
    bad(SESSION, "{\"name\":\"@x\"}", "name");
    bad(SESSION, "{\"name\":\"a\\u0000\"}", "name");
    bad(SESSION, "{\"name\":\"a\",\"name\":\"b\"}", "name");
    bad(SESSION, "{\"parentID\":\"ses_a\"}", "parentID");
    bad(SESSION, "{\"permission\":[]}", "permission");
    bad(SESSION, "{\"answers\":[]}", "answers");
    bad(SESSION, "{\"model\":\"m\"}", "model");
    bad(SESSION, "{\"model\":{\"providerID\":\"p\"}}", "model");
    bad(SESSION, "{\"model\":{\"providerID\":\"p\",\"modelID\":\"\"}}",
        "model");
    bad(SESSION, "{\"model\":{\"providerID\":\"p\",\"modelID\":\"m\",\"x\":1}}",
        "model");

    good(ANSWERS, "{\"answers\":[[\"a\",\"b\"],[]]}",
         "{\"answers\":[[\"a\",\"b\"],[]]}");
    bad(ANSWERS, "{}", "answers");
    bad(ANSWERS, "{\"answers\":[]}", "answers");
    bad(ANSWERS, "{\"answers\":[\"a\"]}", "answers");
    bad(ANSWERS, "{\"answers\":[[1]]}", "answers");
    bad(ANSWERS, "{\"answers\":[[\"a\"],[[\"b\"]]]}", "answers");
    bad(ANSWERS, "{\"answers\":{\"a\":[\"b\"]}}", "answers");
    bad(ANSWERS, "{\"answers\":[{\"a\":\"b\"}]}", "answers");
    bad(ANSWERS, "{\"answers\":[[\"a\"]],\"x\":1}", "\"x\"");

    good(REPLY, "{\"reply\":\"once\"}", "{\"reply\":\"once\"}");
    good(REPLY, "{\"message\":\"no\",\"reply\":\"reject\"}",
         "{\"message\":\"no\",\"reply\":\"reject\"}");
    bad(REPLY, "{\"reply\":\"Once\"}", "reply");
    bad(REPLY, "{\"reply\":null}", "reply");
    bad(REPLY, "{\"message\":\"x\"}", "reply");
    bad(REPLY, "{\"reply\":\"once\",\"message\":[]}", "message");

    configured();

    return tap_done();
}
