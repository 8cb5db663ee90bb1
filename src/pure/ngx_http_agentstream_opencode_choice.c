
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The models and the agents that a client can choose from.  OpenCode tells much
 * more of them, also keys and addresses of providers, so that only ids, names
 * and descriptions are taken from its answers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_opencode.h"


/* a list that is written twice: without pos only its length is counted */

typedef struct {
    u_char                              *pos;
    size_t                               len;
    ngx_uint_t                           n;        /* elements so far */
} ngx_http_agentstream_opencode_choices_t;


typedef void (*ngx_http_agentstream_opencode_choose_pt)(
    ngx_http_agentstream_json_t *json,
    ngx_http_agentstream_opencode_choices_t *list);


static ngx_int_t ngx_http_agentstream_opencode_choices(ngx_pool_t *pool,
    ngx_str_t *answer, ngx_http_agentstream_opencode_choose_pt choose,
    ngx_str_t *text);
static void ngx_http_agentstream_opencode_choose_models(
    ngx_http_agentstream_json_t *json,
    ngx_http_agentstream_opencode_choices_t *list);
static void ngx_http_agentstream_opencode_choose_agents(
    ngx_http_agentstream_json_t *json,
    ngx_http_agentstream_opencode_choices_t *list);
static void ngx_http_agentstream_opencode_member(
    ngx_http_agentstream_opencode_choices_t *list, const char *name,
    ngx_str_t *escaped);
static void ngx_http_agentstream_opencode_put(
    ngx_http_agentstream_opencode_choices_t *list, const char *text);


ngx_int_t
ngx_http_agentstream_opencode_models(ngx_pool_t *pool, ngx_str_t *answer,
    ngx_str_t *text)
{
    return ngx_http_agentstream_opencode_choices(pool, answer,
                                   ngx_http_agentstream_opencode_choose_models,
                                   text);
}


ngx_int_t
ngx_http_agentstream_opencode_agents(ngx_pool_t *pool, ngx_str_t *answer,
    ngx_str_t *text)
{
    return ngx_http_agentstream_opencode_choices(pool, answer,
                                   ngx_http_agentstream_opencode_choose_agents,
                                   text);
}


static ngx_int_t
ngx_http_agentstream_opencode_choices(ngx_pool_t *pool, ngx_str_t *answer,
    ngx_http_agentstream_opencode_choose_pt choose, ngx_str_t *text)
{
    ngx_int_t                                rc;
    ngx_http_agentstream_json_t              json;
    ngx_http_agentstream_opencode_choices_t  list;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, answer->data, answer->len);

    if (rc != NGX_OK) {
        goto done;
    }

    ngx_memzero(&list, sizeof(ngx_http_agentstream_opencode_choices_t));

    choose(&json, &list);

    if (list.len == 0) {
        rc = NGX_DECLINED;
        goto done;
    }

    text->len = list.len;
    text->data = ngx_pnalloc(pool, list.len);

    if (text->data == NULL) {
        rc = NGX_ERROR;
        goto done;
    }

    ngx_memzero(&list, sizeof(ngx_http_agentstream_opencode_choices_t));

    list.pos = text->data;
    choose(&json, &list);

done:

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


/* {"providers":[{"id","name","models":{"<id>":{"name"}}}]} */

static void
ngx_http_agentstream_opencode_choose_models(ngx_http_agentstream_json_t *json,
    ngx_http_agentstream_opencode_choices_t *list)
{
    ngx_str_t   id, name, provider, vendor;
    ngx_uint_t  all, p, models, m;

    all = ngx_http_agentstream_json_get(json, json->root, "providers");

    if (ngx_http_agentstream_json_type(json, all)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return;
    }

    ngx_http_agentstream_opencode_put(list, "[");

    for (p = ngx_http_agentstream_json_first(json, all);
         p;
         p = ngx_http_agentstream_json_next(json, all, p))
    {
        provider = ngx_http_agentstream_opencode_text(json, p, "id");
        vendor = ngx_http_agentstream_opencode_text(json, p, "name");
        models = ngx_http_agentstream_json_get(json, p, "models");

        if (ngx_http_agentstream_json_type(json, models)
            != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
        {
            continue;
        }

        for (m = ngx_http_agentstream_json_first(json, models);
             m;
             m = ngx_http_agentstream_json_next(json, models, m))
        {
            id = ngx_http_agentstream_json_string(json, m);
            name = ngx_http_agentstream_opencode_text(json, m + 1, "name");

            ngx_http_agentstream_opencode_put(list, list->n++ ? ",{" : "{");
            ngx_http_agentstream_opencode_member(list, "\"providerID\":\"",
                                                 &provider);
            ngx_http_agentstream_opencode_member(list, ",\"modelID\":\"", &id);
            ngx_http_agentstream_opencode_member(list, ",\"provider\":\"",
                                                 vendor.len ? &vendor
                                                            : &provider);
            ngx_http_agentstream_opencode_member(list, ",\"name\":\"",
                                                 name.len ? &name : &id);
            ngx_http_agentstream_opencode_put(list, "}");
        }
    }

    ngx_http_agentstream_opencode_put(list, "]");
}


/* [{"name","description","mode","hidden"}]; an agent that only other agents
   call is no choice */

static void
ngx_http_agentstream_opencode_choose_agents(ngx_http_agentstream_json_t *json,
    ngx_http_agentstream_opencode_choices_t *list)
{
    ngx_str_t   name, about;
    ngx_uint_t  a, mode;

    if (ngx_http_agentstream_json_type(json, json->root)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return;
    }

    ngx_http_agentstream_opencode_put(list, "[");

    for (a = ngx_http_agentstream_json_first(json, json->root);
         a;
         a = ngx_http_agentstream_json_next(json, json->root, a))
    {
        name = ngx_http_agentstream_opencode_text(json, a, "name");
        about = ngx_http_agentstream_opencode_text(json, a, "description");
        mode = ngx_http_agentstream_json_get(json, a, "mode");

        if (name.len == 0
            || ngx_http_agentstream_json_is(json, mode, "subagent")
            || ngx_http_agentstream_opencode_true(json, a, "hidden"))
        {
            continue;
        }

        ngx_http_agentstream_opencode_put(list, list->n++ ? ",{" : "{");
        ngx_http_agentstream_opencode_member(list, "\"name\":\"", &name);
        ngx_http_agentstream_opencode_member(list, ",\"description\":\"",
                                             &about);
        ngx_http_agentstream_opencode_put(list, "}");
    }

    ngx_http_agentstream_opencode_put(list, "]");
}


/* name: with what stands around it, up to the opening quote */

static void
ngx_http_agentstream_opencode_member(
    ngx_http_agentstream_opencode_choices_t *list, const char *name,
    ngx_str_t *escaped)
{
    ngx_http_agentstream_opencode_put(list, name);

    if (list->pos) {
        list->pos = ngx_http_agentstream_json_copy(list->pos, escaped);
    }

    list->len += escaped->len;

    ngx_http_agentstream_opencode_put(list, "\"");
}


static void
ngx_http_agentstream_opencode_put(
    ngx_http_agentstream_opencode_choices_t *list, const char *text)
{
    size_t  len;

    len = ngx_strlen(text);

    if (list->pos) {
        list->pos = ngx_cpymem(list->pos, text, len);
    }

    list->len += len;
}
