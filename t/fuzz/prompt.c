
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Any body of a client: an accepted body is one line of valid JSON, and each
 * file that it names is listed, with a path that an independent reading of the
 * URI finds, too, and in which nothing is left to be resolved.  A bad body is
 * refused with a message.  The first byte chooses what the configuration
 * allows and sets.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <cjson/cJSON.h>

#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_prompt.h"


#define check(x)  if (!(x)) { __builtin_trap(); }


extern ngx_log_t  ngx_unit_log;


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
fuzz_conf(ngx_http_agentstream_fields_conf_t *conf, unsigned how)
{
    ngx_memzero(conf, sizeof(ngx_http_agentstream_fields_conf_t));

    conf->allowed = NGX_HTTP_AGENTSTREAM_FIELD_ALL;

    if (how & 1) {
        conf->allowed &= ~(ngx_uint_t) NGX_HTTP_AGENTSTREAM_FIELD_TOOLS;
    }

    if (how & 2) {
        ngx_str_set(&conf->agent, "a \"b\"\n\xff");
    }

    if (how & 4) {
        ngx_str_set(&conf->provider, "p\\");
        ngx_str_set(&conf->model, "m/\x01");
    }
}


/* what OpenCode gets; NULL: cJSON has no room for its numbers */

static cJSON *
fuzz_text(ngx_str_t *text)
{
    cJSON   *item;
    size_t   i, n;

    check(memchr(text->data, CR, text->len) == NULL);
    check(memchr(text->data, LF, text->len) == NULL);

    for (i = 0, n = 0; i < text->len && n < 60; i++) {
        n = strchr("0123456789+-.eE", text->data[i]) ? n + 1 : 0;
    }

    if (n == 60) {
        return NULL;
    }

    item = cJSON_ParseWithLength((char *) text->data, text->len);
    check(cJSON_IsObject(item));

    return item;
}


static void
fuzz_error(ngx_http_agentstream_fields_error_t *error)
{
    check(error->len > 0 && error->len <= sizeof(error->data));
}


/* a listed path is what is opened, and there is one way to read it */

static void
fuzz_files(ngx_str_t *files, ngx_uint_t n)
{
    u_char      *p, *last, *name, *path;
    ngx_str_t    dir;
    ngx_uint_t   listed;

    listed = 0;
    last = files->len ? files->data + files->len : NULL;

    for (p = files->data; p < last; p = path + strlen((char *) path) + 1) {
        name = p;
        path = name + strlen((char *) name) + 1;

        check(path < last);
        check(strncmp((char *) name, "content[", 8) == 0
              || strncmp((char *) name, "parts[", 6) == 0);

        check(path[0] == '/');
        check(strstr((char *) path, "/../") == NULL);
        check(strstr((char *) path, "//") == NULL);
        check(strchr((char *) path, '\\') == NULL);
        check(strlen((char *) path) < 3
              || strcmp((char *) path + strlen((char *) path) - 3, "/..") != 0);

        listed++;
    }

    check(listed == n);

    ngx_str_set(&dir, "/");
    check(ngx_http_agentstream_prompt_outside(files, &dir) == NULL);

    ngx_str_set(&dir, "");
    check((ngx_http_agentstream_prompt_outside(files, &dir) == NULL)
          == (n == 0));
}


/* the parts of a prompt as OpenCode would see them; how many name a file */

static ngx_uint_t
fuzz_parts(cJSON *prompt, ngx_http_agentstream_fields_conf_t *conf)
{
    cJSON       *part, *type, *url, *source;
    ngx_uint_t   n;

    n = 0;

    cJSON_ArrayForEach(part, cJSON_GetObjectItemCaseSensitive(prompt, "parts"))
    {
        type = cJSON_GetObjectItemCaseSensitive(part, "type");

        /* cJSON finds the first of two, OpenCode the last */

        if (!cJSON_IsString(type)) {
            continue;
        }

        check(cJSON_GetObjectItemCaseSensitive(part, "id") == NULL);

        if (conf->agent.len && cJSON_GetArraySize(part) == 2) {
            check(strcmp(type->valuestring, "agent") != 0);
            check(strcmp(type->valuestring, "subtask") != 0);
        }

        cJSON_ArrayForEach(url, part) {

            if (strcmp(url->string, "url") != 0) {
                continue;
            }

            check(cJSON_IsString(url));
            check(strncasecmp(url->valuestring, "data:", 5) == 0
                  || strncasecmp(url->valuestring, "file:/", 6) == 0);

            n += (strncasecmp(url->valuestring, "file:", 5) == 0);
        }

        source = cJSON_GetObjectItemCaseSensitive(part, "source");

        if (cJSON_IsObject(source) && cJSON_GetArraySize(source) == 1
            && strcmp(type->valuestring, "file") == 0)
        {
            check(strcmp(source->child->string, "type") == 0);
            check(strcmp(source->child->valuestring, "resource") != 0);
        }
    }

    return n;
}


static void
fuzz_prompt(ngx_http_agentstream_fields_conf_t *conf, ngx_str_t *text)
{
    cJSON                          *item, *id;
    ngx_int_t                       rc;
    ngx_str_t                       msg;
    ngx_pool_t                     *pool;
    ngx_http_agentstream_prompt_t   prompt;

    /* so small that each allocation is a malloc() of its own */

    pool = ngx_create_pool(NGX_MIN_POOL_SIZE, &ngx_unit_log);

    rc = ngx_http_agentstream_prompt_build(pool, conf, text, 6, 0, &prompt);

    check(rc == NGX_OK || rc == NGX_DECLINED);

    if (rc == NGX_DECLINED) {
        fuzz_error(&prompt.error);
        ngx_destroy_pool(pool);
        return;
    }

    ngx_str_set(&msg, "msg_id");
    ngx_http_agentstream_prompt_set_id(&prompt.body, &msg);

    item = fuzz_text(&prompt.body);

    if (item) {
        id = cJSON_GetObjectItemCaseSensitive(item, "messageID");
        check(cJSON_IsString(id) && strcmp(id->valuestring, "msg_id") == 0);
        check(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(item,
                                                                  "parts"))
              > 0);

        if (conf->model.len) {
            check(cJSON_GetObjectItemCaseSensitive(item, "model") != NULL);
        }

        fuzz_files(&prompt.files, fuzz_parts(item, conf));
        cJSON_Delete(item);
    }

    ngx_destroy_pool(pool);
}


static void
fuzz_body(ngx_http_agentstream_fields_conf_t *conf, ngx_uint_t kind,
    ngx_str_t *text)
{
    ngx_int_t                     rc;
    ngx_pool_t                   *pool;
    ngx_http_agentstream_body_t   body;

    pool = ngx_create_pool(NGX_MIN_POOL_SIZE, &ngx_unit_log);

    rc = ngx_http_agentstream_body_build(pool, kind, conf, text, &body);

    check(rc == NGX_OK || rc == NGX_DECLINED);

    if (rc == NGX_OK) {
        cJSON_Delete(fuzz_text(&body.text));

    } else {
        fuzz_error(&body.error);
    }

    ngx_destroy_pool(pool);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_str_t                           text;
    ngx_uint_t                          kind;
    ngx_http_agentstream_fields_conf_t  conf;

    if (size < 2) {
        return 0;
    }

    fuzz_conf(&conf, data[0]);

    text.len = size - 1;
    text.data = malloc(text.len);

    for (kind = 0; kind <= NGX_HTTP_AGENTSTREAM_BODY_REPLY; kind++) {
        ngx_memcpy(text.data, data + 1, text.len);
        fuzz_body(&conf, kind, &text);
    }

    /* decodes in place */

    ngx_memcpy(text.data, data + 1, text.len);
    fuzz_prompt(&conf, &text);

    free(text.data);

    return 0;
}
