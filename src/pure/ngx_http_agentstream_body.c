
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The other request bodies, with a table of fields for each.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_body.h"
#include "ngx_http_agentstream_name.h"
#include "ngx_http_agentstream_opencode.h"


/* answers that one request may have */
#define NGX_HTTP_AGENTSTREAM_BODY_ANSWERS_MAX  64


static ngx_int_t ngx_http_agentstream_body_name(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_body_title(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
static u_char *ngx_http_agentstream_body_members(u_char *p,
    ngx_http_agentstream_body_t *body);
static ngx_int_t ngx_http_agentstream_body_answers(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_body_reply(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);


/*
 * OpenCode would also accept "permission", "parentID", "metadata" and
 * "workspaceID".  They are refused: the client must not decide who may answer
 * permission requests, and the events of a child session belong to the turn of
 * its parent.
 */

static ngx_http_agentstream_field_t  ngx_http_agentstream_body_session[] = {
    { "name", NGX_HTTP_AGENTSTREAM_FIELD_NAME, 0,
      ngx_http_agentstream_body_name },
    { "title", NGX_HTTP_AGENTSTREAM_FIELD_TITLE, 0,
      ngx_http_agentstream_body_title },
    { "agent", NGX_HTTP_AGENTSTREAM_FIELD_AGENT, 0,
      ngx_http_agentstream_fields_string },
    { "model", NGX_HTTP_AGENTSTREAM_FIELD_MODEL, 0,
      ngx_http_agentstream_fields_model },
    { NULL, 0, 0, NULL }
};


static ngx_http_agentstream_field_t  ngx_http_agentstream_body_rename[] = {
    { "title", NGX_HTTP_AGENTSTREAM_FIELD_TITLE, 1,
      ngx_http_agentstream_body_title },
    { NULL, 0, 0, NULL }
};


static ngx_http_agentstream_field_t  ngx_http_agentstream_body_question[] = {
    { "answers", 0, 1, ngx_http_agentstream_body_answers },
    { NULL, 0, 0, NULL }
};


static ngx_http_agentstream_field_t  ngx_http_agentstream_body_permission[] = {
    { "reply", 0, 1, ngx_http_agentstream_body_reply },
    { "message", 0, 0, ngx_http_agentstream_fields_string },
    { NULL, 0, 0, NULL }
};


/* by kind */

static ngx_http_agentstream_field_t  *ngx_http_agentstream_body_tables[] = {
    ngx_http_agentstream_body_session,
    ngx_http_agentstream_body_rename,
    ngx_http_agentstream_body_question,
    ngx_http_agentstream_body_permission
};


ngx_int_t
ngx_http_agentstream_body_build(ngx_pool_t *pool, ngx_uint_t kind,
    ngx_http_agentstream_fields_conf_t *conf, ngx_str_t *text,
    ngx_http_agentstream_body_t *body)
{
    ngx_int_t                      rc;
    ngx_http_agentstream_fields_t  fields;

    ngx_memzero(body, sizeof(ngx_http_agentstream_body_t));
    ngx_memzero(&fields, sizeof(ngx_http_agentstream_fields_t));

    fields.pool = pool;
    fields.table = ngx_http_agentstream_body_tables[kind];
    fields.conf = conf;
    fields.model_id = "id";
    fields.error = &body->error;
    fields.data = body;

    ngx_str_set(&fields.head, "{");

    rc = ngx_http_agentstream_fields_build(&fields, text);

    body->text = fields.body;

    return rc;
}


static ngx_int_t
ngx_http_agentstream_body_name(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    u_char                       *p;
    ngx_str_t                     text;
    ngx_http_agentstream_body_t  *body;

    body = fields->data;

    text = ngx_http_agentstream_json_string(&fields->json, value);

    p = ngx_pnalloc(fields->pool, text.len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    body->name.data = p;
    body->name.len = ngx_http_agentstream_json_decode(p, &text) - p;

    if (!ngx_http_agentstream_name_valid(&body->name)) {
        return ngx_http_agentstream_fields_refuse(fields,
                         "\"%s\" must be 1 to %d of A-Z a-z 0-9 . _ : ~ -",
                         name, NGX_HTTP_AGENTSTREAM_NAME_MAX);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_body_title(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    u_char                       *p;
    ngx_str_t                     text;
    ngx_http_agentstream_body_t  *body;

    body = fields->data;

    text = ngx_http_agentstream_json_string(&fields->json, value);

    if (text.len == 0) {
        return ngx_http_agentstream_fields_refuse(fields,
                                 "\"%s\" must be a string, not empty", name);
    }

    p = ngx_pnalloc(fields->pool, text.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    body->title.data = p;
    body->title.len = ngx_http_agentstream_json_copy(p, &text) - p;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_body_create(ngx_pool_t *pool,
    ngx_http_agentstream_body_t *body, ngx_str_t *text)
{
    u_char  *p;

    if (body->title.len == 0) {
        *text = body->text;
        return NGX_OK;
    }

    p = ngx_pnalloc(pool, sizeof("{\"title\":\"\",}") + body->title.len
                          + body->text.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;

    p = ngx_sprintf(p, "{\"title\":\"%V\"", &body->title);
    p = ngx_http_agentstream_body_members(p, body);

    text->len = p - text->data;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_body_make(ngx_pool_t *pool,
    ngx_http_agentstream_body_t *body, ngx_str_t *id, ngx_str_t *directory,
    ngx_str_t *text)
{
    u_char  *p;

    p = ngx_pnalloc(pool, sizeof("{\"id\":\"\",\"location\":{\"directory\":"
                                 "\"\"},}")
                          + id->len + (body ? body->text.len : 0)
                    + ngx_http_agentstream_json_escape_size(directory->len));
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;

    p = ngx_sprintf(p, "{\"id\":\"%V\"", id);

    if (directory->len) {
        p = ngx_sprintf(p, ",\"location\":{\"directory\":\"");
        p = ngx_http_agentstream_json_escape(p, directory->data,
                                             directory->len);
        p = ngx_sprintf(p, "\"}");
    }

    p = ngx_http_agentstream_body_members(p, body);

    text->len = p - text->data;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_body_update(ngx_pool_t *pool,
    ngx_http_agentstream_body_t *body, ngx_str_t *text)
{
    u_char  *p;

    ngx_str_null(text);

    if (body->title.len == 0) {
        return NGX_OK;
    }

    p = ngx_pnalloc(pool, sizeof("{\"title\":\"\"}") + body->title.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;
    text->len = ngx_sprintf(p, "{\"title\":\"%V\"}", &body->title) - p;

    return NGX_OK;
}


/* those of the body's text, behind others that are written already, and the end
   of the object */

static u_char *
ngx_http_agentstream_body_members(u_char *p, ngx_http_agentstream_body_t *body)
{
    if (body == NULL || body->text.len <= sizeof("{}") - 1) {
        *p++ = '}';
        return p;
    }

    *p++ = ',';

    return ngx_cpymem(p, body->text.data + 1, body->text.len - 1);
}


static ngx_int_t
ngx_http_agentstream_body_answers(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_uint_t                    v, label;
    ngx_http_agentstream_json_t  *json;

    json = &fields->json;

    if (ngx_http_agentstream_json_type(json, value)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY
        || ngx_http_agentstream_json_first(json, value) == 0)
    {
        goto refuse;
    }

    for (v = ngx_http_agentstream_json_first(json, value);
         v;
         v = ngx_http_agentstream_json_next(json, value, v))
    {
        if (ngx_http_agentstream_json_type(json, v)
            != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
        {
            goto refuse;
        }

        for (label = ngx_http_agentstream_json_first(json, v);
             label;
             label = ngx_http_agentstream_json_next(json, v, label))
        {
            if (ngx_http_agentstream_json_type(json, label)
                != NGX_HTTP_AGENTSTREAM_JSON_STRING)
            {
                goto refuse;
            }
        }
    }

    return ngx_http_agentstream_fields_member(fields, name, value);

refuse:

    return ngx_http_agentstream_fields_refuse(fields,
                      "\"%s\" must be an array of arrays of strings, "
                      "one for each question", name);
}


static ngx_int_t
ngx_http_agentstream_body_reply(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_http_agentstream_json_t  *json;

    json = &fields->json;

    if (!ngx_http_agentstream_json_is(json, value, "once")
        && !ngx_http_agentstream_json_is(json, value, "always")
        && !ngx_http_agentstream_json_is(json, value, "reject"))
    {
        return ngx_http_agentstream_fields_refuse(fields,
                                      "\"%s\" must be \"once\", \"always\" or "
                                      "\"reject\"", name);
    }

    return ngx_http_agentstream_fields_member(fields, name, value);
}


ngx_int_t
ngx_http_agentstream_body_add_answer(ngx_array_t *answers, ngx_str_t *id,
    ngx_http_agentstream_body_answer_t **answer, const char **reason)
{
    ngx_uint_t                           i;
    ngx_http_agentstream_body_answer_t  *a;

    if (!ngx_http_agentstream_opencode_id(id)) {
        *reason = "the id of what was answered is none";
        return NGX_DECLINED;
    }

    if (answers->nelts == NGX_HTTP_AGENTSTREAM_BODY_ANSWERS_MAX) {
        *reason = "too many answers were sent together";
        return NGX_DECLINED;
    }

    a = answers->elts;

    for (i = 0; i < answers->nelts; i++) {

        if (a[i].id.len == id->len
            && ngx_memcmp(a[i].id.data, id->data, id->len) == 0)
        {
            *reason = "something was answered twice";
            return NGX_DECLINED;
        }
    }

    a = ngx_array_push(answers);
    if (a == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(a, sizeof(ngx_http_agentstream_body_answer_t));

    a->id.len = id->len;
    a->id.data = ngx_pstrdup(answers->pool, id);

    *answer = a;

    return (a->id.data == NULL) ? NGX_ERROR : NGX_OK;
}
