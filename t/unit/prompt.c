
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Prompts: what OpenCode gets for a good one, why a bad one is refused, which
 * files it names, and which of them are outside of a directory.
 *
 * Broken by: a spelling of a path that OpenCode reads differently, a directory
 * whose name only begins like the session's, a member of a part that is passed
 * on although it is unknown, an id of another length than the room for it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_prompt.h"
#include "tap.h"


#define HI   "{\"type\":\"text\",\"text\":\"hi\"}"


extern ngx_log_t  ngx_unit_log;


static ngx_http_agentstream_fields_conf_t  *conf;


static ngx_int_t
build(ngx_pool_t *pool, const char *text,
    ngx_http_agentstream_prompt_t *prompt)
{
    ngx_str_t  s, id;
    ngx_int_t  rc;

    s.len = ngx_strlen(text);
    s.data = tap_copy(text, s.len);

    rc = ngx_http_agentstream_prompt_build(pool, conf, &s, 5, 0, prompt);

    free(s.data);

    if (rc == NGX_OK) {
        id = tap_str("msg_1");
        ngx_http_agentstream_prompt_set_id(&prompt->body, &id);
    }

    return rc;
}


/* expected: what follows the id */

static void
good(const char *text, const char *expected)
{
    ngx_int_t                       rc;
    ngx_str_t                       rest;
    ngx_pool_t                     *pool;
    ngx_http_agentstream_prompt_t   prompt;

    static const char  head[] = "{\"messageID\":\"msg_1\",";

    pool = ngx_create_pool(1024, &ngx_unit_log);
    rc = build(pool, text, &prompt);

    if (rc != NGX_OK) {
        tap_is(rc, NGX_OK, text);
        tap_diag("%.*s", (int) prompt.error.len, (char *) prompt.error.data);

    } else if (prompt.body.len < sizeof(head) - 1
               || ngx_strncmp(prompt.body.data, head, sizeof(head) - 1) != 0)
    {
        tap_is_str(prompt.body, head, text);

    } else {
        rest.data = prompt.body.data + sizeof(head) - 1;
        rest.len = prompt.body.len - (sizeof(head) - 1);
        tap_is_str(rest, expected, text);
    }

    ngx_destroy_pool(pool);
}


static void
bad(const char *text, const char *message)
{
    ngx_int_t                       rc;
    ngx_pool_t                     *pool;
    ngx_http_agentstream_prompt_t   prompt;

    pool = ngx_create_pool(1024, &ngx_unit_log);
    rc = build(pool, text, &prompt);

    if (!tap_ok(rc == NGX_DECLINED
                && ngx_strnstr(prompt.error.data, (char *) message,
                               prompt.error.len)
                   != NULL,
                "%s", text))
    {
        tap_diag("got \"%.*s\", expected \"%s\"", (int) prompt.error.len,
                 (char *) prompt.error.data, message);
    }

    ngx_destroy_pool(pool);
}


/* a JSON string's contents as a link and as a part; path NULL: refused */

static void
uri(const char *escaped, const char *path)
{
    char                            link[512], part[512];
    ngx_str_t                       got;
    ngx_pool_t                     *pool;
    ngx_http_agentstream_prompt_t   prompt;

    snprintf(link, sizeof(link), "{\"content\":[" HI ",{\"type\":"
             "\"resource_link\",\"uri\":\"%s\"}]}", escaped);
    snprintf(part, sizeof(part), "{\"parts\":[" HI ",{\"type\":\"file\","
             "\"mime\":\"text/plain\",\"url\":\"%s\"}]}", escaped);

    if (path == NULL) {
        bad(link, "\"content[1].uri\" must be a \"file:\" URI");
        bad(part, "\"parts[1].url\" must be a \"file:\" URI");
        return;
    }

    pool = ngx_create_pool(1024, &ngx_unit_log);

    if (build(pool, link, &prompt) == NGX_OK && prompt.files.len) {
        got.data = prompt.files.data;
        got.len = ngx_strlen(got.data);
        tap_is_str(got, "content[1].uri", link);

        got.data += got.len + 1;
        got.len = prompt.files.data + prompt.files.len - 1 - got.data;
        tap_is_str(got, path, escaped);

    } else {
        tap_ok(0, "%s", link);
    }

    if (build(pool, part, &prompt) == NGX_OK && prompt.files.len) {
        got.data = prompt.files.data;
        got.len = ngx_strlen(got.data);
        tap_is_str(got, "parts[1].url", part);

    } else {
        tap_ok(0, "%s", part);
    }

    ngx_destroy_pool(pool);
}


static void
uris(void)
{
    uri("file:///w/a", "/w/a");
    uri("file:/w/a", "/w/a");
    uri("FILE://LocalHost/w/a", "/w/a");
    uri("\\u0066ile:\\/\\/\\/w\\/a", "/w/a");
    uri("file:///", "/");
    uri("file:///w/", "/w/");
    uri("file:///w/a%20b c%C3%A9", "/w/a b c\xc3\xa9");
    uri("file:///w/\xc3\xa9\\u00e9", "/w/\xc3\xa9\xc3\xa9");
    uri("file:///w/...", "/w/...");
    uri("file:///w/..a/.b/c..", "/w/..a/.b/c..");
    uri("file:///w/100%25", "/w/100%");
    uri("file:///w/100%25.txt", "/w/100%.txt");
    uri("file:///w/a%3Fb%23c%7C", "/w/a?b#c|");
    uri("file:///w/a?start=1", "/w/a");
    uri("file:///w/a?start=10&end=20", "/w/a");

    uri("file:", NULL);
    uri("file:w/a", NULL);
    uri("file://w/a", NULL);
    uri("file://", NULL);
    uri("file://localhost", NULL);
    uri("file://localhosts/w/a", NULL);
    uri("file://%6cocalhost/w/a", NULL);
    uri("file://127.0.0.1/w/a", NULL);
    uri("file://u@localhost/w/a", NULL);
    uri("file://localhost:80/w/a", NULL);
    uri("file:////w/a", NULL);
    uri("file:///w//a", NULL);
    uri("file:///w/./a", NULL);
    uri("file:///w/.", NULL);
    uri("file:///w/..", NULL);
    uri("file:///w/../a", NULL);
    uri("file:///..", NULL);
    uri("file:///w/%2e%2e/a", NULL);
    uri("file:///w/.%2E/a", NULL);
    uri("file:///w/%2E/a", NULL);
    uri("file:///w/..%2fa", NULL);
    uri("file:///w/%2Fa", NULL);
    uri("file:///w/..%5ca", NULL);
    uri("file:///w\\\\..\\\\a", NULL);
    uri("file:///w/.\\t./a", NULL);
    uri("file:///w/.\\n./a", NULL);
    uri("file:///w/%252e%252e/a", NULL);
    uri("file:///w/%25%32%65%252e/a", NULL);
    uri("file:///w/a%00", NULL);
    uri("file:///w/a\\u0000", NULL);
    uri("file:///w/a%0a", NULL);
    uri("file:///w/a%7f", NULL);
    uri("file:///w/a%", NULL);
    uri("file:///w/a%4", NULL);
    uri("file:///w/a%zz", NULL);
    uri("file:///w/%c0%ae%c0%ae/a", NULL);
    uri("file:///w/a%ff", NULL);
    uri("file:///w/a ", NULL);
    uri("file:///C|/w", NULL);
    uri("file:///w/a#b", NULL);
    uri("file:///w/a?", NULL);
    uri("file:///w/a?b", NULL);
    uri("file:///w/a?start=", NULL);
    uri("file:///w/a?start=1x", NULL);
    uri("file:///w/a?start=1&end=", NULL);
    uri("file:///w/a?start=1&end=2&c=3", NULL);
    uri("file:///w/a?start=1#b", NULL);
}


static void
outside(const char *path, const char *directory, const char *expected)
{
    char                            text[256];
    ngx_str_t                       dir;
    const char                     *got;
    ngx_pool_t                     *pool;
    ngx_http_agentstream_prompt_t   prompt;

    snprintf(text, sizeof(text), "{\"content\":[{\"type\":\"resource_link\","
             "\"uri\":\"file:///w/a/in\"},{\"type\":\"resource_link\",\"uri\":"
             "\"file://%s\"}]}", path);

    pool = ngx_create_pool(1024, &ngx_unit_log);
    dir = tap_str(directory);

    tap_is(build(pool, text, &prompt), NGX_OK, path);

    got = ngx_http_agentstream_prompt_outside(&prompt.files, &dir);

    tap_ok(expected ? got && strcmp(got, expected) == 0 : got == NULL,
           "%s in %s: %s", path, directory, got ? got : "inside");

    ngx_destroy_pool(pool);
}


static void
directories(void)
{
    ngx_str_t  none, dir;

    outside("/w/a/b", "/w/a", NULL);
    outside("/w/a", "/w/a", NULL);
    outside("/w/a/", "/w/a", NULL);
    outside("/w/a/b", "/w/a/", NULL);
    outside("/w/a", "/w/a//", NULL);
    outside("/etc/passwd", "/", NULL);
    outside("/w/ab", "/w/a", "content[1].uri");
    outside("/w/a%20/b", "/w/a", "content[1].uri");
    outside("/w", "/w/a", "content[1].uri");
    outside("/", "/w/a", "content[1].uri");
    outside("/W/a/b", "/w/a", "content[1].uri");
    outside("/w/a/b", "/w/a/in", "content[1].uri");
    outside("/w/a/b", "/other", "content[0].uri");
    outside("/w/a/b", "", "content[0].uri");
    outside("/w/a/b", "w/a", "content[0].uri");

    ngx_str_null(&none);
    dir = tap_str("/w/a");
    tap_ok(ngx_http_agentstream_prompt_outside(&none, &dir) == NULL,
           "no files, none outside");
}


static void
parts(void)
{
    good("{\"parts\":[" HI ",{\"type\":\"file\",\"mime\":\"a/b\",\"url\":"
         "\"data:,x\",\"source\":{\"type\":\"file\",\n\"x\":1.50}}]}",
         "\"parts\":[" HI ",{\"type\":\"file\",\"mime\":\"a/b\",\"url\":"
         "\"data:,x\",\"source\":{\"type\":\"file\", \"x\":1.50}}]}");

    bad("{\"parts\":[{\"type\":\"text\",\"id\":\"prt_1\"}]}",
        "unknown field \"parts[0].id\"");
    bad("{\"parts\":[" HI ",{\"type\":\"agent\",\"\\u0069d\":1}]}",
        "unknown field \"parts[1].\\u0069d\"");
    bad("{\"parts\":[{\"type\":\"file\",\"path\":\"/etc/passwd\"}]}",
        "unknown field \"parts[0].path\"");

    bad("{\"parts\":[{\"type\":\"file\",\"url\":\"http://h/\"}]}",
        "\"parts[0].url\" must be a \"file:\" or \"data:\" URL");
    bad("{\"parts\":[{\"type\":\"file\",\"url\":\" file:///w\"}]}",
        "\"parts[0].url\"");
    bad("{\"parts\":[{\"type\":\"file\",\"url\":\"fi\\tle:///w\"}]}",
        "\"parts[0].url\"");
    bad("{\"parts\":[{\"type\":\"file\",\"url\":[\"file:///w\"]}]}",
        "\"parts[0].url\"");
    bad("{\"parts\":[{\"type\":\"file\",\"url\":\"http://h/\","
        "\"url\":\"data:,\"}]}", "\"parts[0].url\"");
    bad("{\"parts\":[{\"type\":\"text\",\"url\":\"http://h/\","
        "\"type\":\"file\"}]}", "\"parts[0].url\"");

    bad("{\"parts\":[{\"type\":\"file\",\"url\":\"data:,\",\"source\":"
        "{\"type\":\"resource\",\"clientName\":\"x\",\"uri\":\"y:\"}}]}",
        "\"parts[0].source.type\"");
    bad("{\"parts\":[{\"type\":\"file\",\"source\":{}}]}",
        "\"parts[0].source.type\"");

    good("{\"parts\":[{\"type\":\"subtask\",\"prompt\":\"a@b.c `@x` _@\"}]}",
         "\"parts\":[{\"type\":\"subtask\",\"prompt\":\"a@b.c `@x` _@\"}]}");
    bad("{\"parts\":[{\"type\":\"subtask\",\"prompt\":\"@/etc/passwd\"}]}",
        "\"parts[0].prompt\"");
    bad("{\"parts\":[{\"type\":\"subtask\",\"prompt\":\"see \\u0040x\"}]}",
        "\"parts[0].prompt\"");
    bad("{\"parts\":[{\"type\":\"subtask\",\"prompt\":\"a\\n@x\"}]}",
        "\"parts[0].prompt\"");
    bad("{\"parts\":[{\"type\":\"subtask\",\"prompt\":\"\xc3\xa9@x\"}]}",
        "\"parts[0].prompt\"");
}


static void
configured(void)
{
    ngx_http_agentstream_fields_conf_t  set;

    ngx_memzero(&set, sizeof(ngx_http_agentstream_fields_conf_t));
    conf = &set;

    set.allowed = NGX_HTTP_AGENTSTREAM_FIELD_CONTENT
                  |NGX_HTTP_AGENTSTREAM_FIELD_REQUEST_ID;

    good("{\"content\":\"hi\",\"client_request_id\":\"r\"}",
         "\"parts\":[" HI "]}");
    bad("{\"parts\":[" HI "]}", "\"parts\" must not be sent here");
    bad("{\"content\":\"hi\",\"tools\":{}}", "\"tools\" must not be");
    bad("{\"content\":\"hi\",\"system\":5}", "\"system\" must not be");
    bad("{\"content\":\"hi\",\"variant\":\"v\"}", "\"variant\" must not be");

    set.allowed = NGX_HTTP_AGENTSTREAM_FIELD_ALL;

    ngx_str_set(&set.agent, "\"plan\"");
    ngx_str_set(&set.provider, "p");
    ngx_str_set(&set.model, "m/1");

    good("{\"content\":\"hi\"}",
         "\"parts\":[" HI "],"
         "\"model\":{\"providerID\":\"p\",\"modelID\":\"m/1\"},"
         "\"agent\":\"\\\"plan\\\"\"}");
    bad("{\"content\":\"hi\",\"agent\":\"x\"}", "\"agent\" must not be");
    bad("{\"content\":\"hi\",\"model\":null}", "\"model\" must not be");

    /* what chooses another agent or model in a roundabout way */

    bad("{\"parts\":[{\"type\":\"agent\",\"name\":\"x\"}]}",
        "\"parts[0].type\" must not be \"agent\" here");
    bad("{\"parts\":[{\"type\":\"subtask\",\"agent\":\"x\"}]}",
        "\"parts[0].type\" must not be \"subtask\" here");

    ngx_str_null(&set.agent);

    good("{\"parts\":[{\"type\":\"subtask\",\"agent\":\"x\"}]}",
         "\"parts\":[{\"type\":\"subtask\",\"agent\":\"x\"}],"
         "\"model\":{\"providerID\":\"p\",\"modelID\":\"m/1\"}}");
    bad("{\"parts\":[{\"type\":\"subtask\",\"model\":{}}]}",
        "\"parts[0].model\" must not be sent here");

    conf = NULL;
}


static void
split(const char *value, const char *provider, const char *model)
{
    ngx_int_t  rc;
    ngx_str_t  v, p, m;

    v = tap_str(value);
    rc = ngx_http_agentstream_fields_split(&v, &p, &m);

    if (provider == NULL) {
        tap_is(rc, NGX_DECLINED, value);
        return;
    }

    tap_is(rc, NGX_OK, value);
    tap_is_str(p, provider, "its provider");
    tap_is_str(m, model, "its model");
}


int
main(void)
{
    good("{\"content\":\"hi\"}", "\"parts\":[" HI "]}");
    good("{\"content\":\"\\ud83d\"}",
         "\"parts\":[{\"type\":\"text\",\"text\":\"\\ufffd\"}]}");
    good("{\"tools\":{\"a\":\r\ntrue},\"content\":\"hi\"}",
         "\"tools\":{\"a\":  true},\"parts\":[" HI "]}");
    good("{\"content\":[{\"type\":\"resource_link\",\"uri\":\"http://h/\"}]}",
         "\"parts\":[{\"type\":\"text\",\"text\":\"http://h/\"}]}");
    good("{\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":"
         "\"file:///etc/passwd\",\"text\":\"x\"}}]}",
         "\"parts\":[{\"type\":\"text\",\"text\":\"x\"}]}");

    bad("{\"content\":\"\"}", "\"content\" is empty");
    bad("{\"content\":[]}", "\"content\" is empty");
    bad("{\"content\":{}}", "\"content\" must be");
    bad("{\"agent\":\"x\"}", "\"content\" is required");
    bad("{\"parts\":[" HI "],\"content\":\"hi\"}", "exclude each other");
    bad("{\"content\":\"hi\",\"messageID\":\"m\"}",
        "unknown field \"messageID\"");

    uris();
    directories();
    parts();
    configured();

    split("p/m", "p", "m");
    split("p/m/1", "p", "m/1");
    split("p", NULL, NULL);
    split("/m", NULL, NULL);
    split("p/", NULL, NULL);
    split("", NULL, NULL);

    return tap_done();
}
