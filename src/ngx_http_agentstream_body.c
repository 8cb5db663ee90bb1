
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 1: bodies, checked by a table of fields.  Strings are copied as they
 * stand, but for surrogates without their other half, which are no text.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_body.h"


typedef struct {
    ngx_http_agentstream_json_t         *json;
    ngx_http_agentstream_body_t         *body;
    u_char                              *last;     /* of the text so far */
} ngx_http_agentstream_body_ctx_t;


typedef ngx_int_t (*ngx_http_agentstream_body_pt)(
    ngx_http_agentstream_body_ctx_t *ctx, const char *name, ngx_uint_t value);

typedef struct {
    ngx_uint_t                           kind;
    const char                          *name;
    ngx_uint_t                           required;
    ngx_http_agentstream_body_pt         handler;
} ngx_http_agentstream_body_field_t;


static ngx_int_t ngx_http_agentstream_body_fields(
    ngx_http_agentstream_body_ctx_t *ctx, ngx_uint_t kind);
static ngx_int_t ngx_http_agentstream_body_string(
    ngx_http_agentstream_body_ctx_t *ctx, const char *name, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_body_model(
    ngx_http_agentstream_body_ctx_t *ctx, const char *name, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_body_answers(
    ngx_http_agentstream_body_ctx_t *ctx, const char *name, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_body_reply(
    ngx_http_agentstream_body_ctx_t *ctx, const char *name, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_body_refuse(
    ngx_http_agentstream_body_ctx_t *ctx, const char *fmt, ...);
static void ngx_http_agentstream_body_write(
    ngx_http_agentstream_body_ctx_t *ctx, const char *text);
static void ngx_http_agentstream_body_copy(
    ngx_http_agentstream_body_ctx_t *ctx, ngx_uint_t value);


/*
 * Of what OpenCode would take, not "permission" (who may answer is not the
 * client's choice), "parentID" (a child's events belong to its parent's turn),
 * "metadata" and "workspaceID".
 */

static ngx_http_agentstream_body_field_t  ngx_http_agentstream_body_table[] = {

    { NGX_HTTP_AGENTSTREAM_BODY_SESSION, "title", 0,
      ngx_http_agentstream_body_string },
    { NGX_HTTP_AGENTSTREAM_BODY_SESSION, "agent", 0,
      ngx_http_agentstream_body_string },
    { NGX_HTTP_AGENTSTREAM_BODY_SESSION, "model", 0,
      ngx_http_agentstream_body_model },

    { NGX_HTTP_AGENTSTREAM_BODY_ANSWERS, "answers", 1,
      ngx_http_agentstream_body_answers },

    { NGX_HTTP_AGENTSTREAM_BODY_REPLY, "reply", 1,
      ngx_http_agentstream_body_reply },
    { NGX_HTTP_AGENTSTREAM_BODY_REPLY, "message", 0,
      ngx_http_agentstream_body_string },

    { 0, NULL, 0, NULL }
};


ngx_int_t
ngx_http_agentstream_body_build(ngx_pool_t *pool, ngx_uint_t kind,
    ngx_str_t *text, ngx_http_agentstream_body_t *body)
{
    ngx_int_t                        rc;
    ngx_http_agentstream_json_t      json;
    ngx_http_agentstream_body_ctx_t  ctx;

    ngx_memzero(body, sizeof(ngx_http_agentstream_body_t));
    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    ctx.json = &json;
    ctx.body = body;

    rc = ngx_http_agentstream_json_parse(&json, text->data, text->len);

    if (rc == NGX_DECLINED) {
        (void) ngx_http_agentstream_body_refuse(&ctx,
                                               "the body is not valid JSON");
    }

    if (rc == NGX_OK) {
        /* nothing gets longer, but for the names of a model's members */

        body->text.data = ngx_pnalloc(pool, text->len + 64);
        rc = body->text.data ? NGX_OK : NGX_ERROR;
    }

    if (rc == NGX_OK) {
        ctx.last = body->text.data;

        rc = ngx_http_agentstream_body_fields(&ctx, kind);
    }

    if (rc == NGX_OK) {
        ngx_http_agentstream_body_write(&ctx, "}");
        body->text.len = ctx.last - body->text.data;
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


static ngx_int_t
ngx_http_agentstream_body_fields(ngx_http_agentstream_body_ctx_t *ctx,
    ngx_uint_t kind)
{
    ngx_int_t                           rc;
    ngx_str_t                           name;
    ngx_uint_t                          v, bit, seen;
    ngx_http_agentstream_json_t        *json;
    ngx_http_agentstream_body_field_t  *field;

    json = ctx->json;
    seen = 0;

    if (ngx_http_agentstream_json_type(json, 0)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return ngx_http_agentstream_body_refuse(ctx,
                                                "the body must be an object");
    }

    ngx_http_agentstream_body_write(ctx, "{");

    for (v = ngx_http_agentstream_json_first(json, 0);
         v;
         v = ngx_http_agentstream_json_next(json, 0, v))
    {
        for (field = ngx_http_agentstream_body_table; field->name; field++) {
            if (field->kind == kind
                && ngx_http_agentstream_json_is(json, v, field->name))
            {
                break;
            }
        }

        if (field->name == NULL) {
            name = ngx_http_agentstream_json_string(json, v);
            name.len = ngx_min(name.len, 64);

            return ngx_http_agentstream_body_refuse(ctx,
                                              "unknown field \"%V\"", &name);
        }

        bit = (ngx_uint_t) 1 << (field - ngx_http_agentstream_body_table);

        if (seen & bit) {
            return ngx_http_agentstream_body_refuse(ctx,
                                      "\"%s\" is given twice", field->name);
        }

        if (seen) {
            ngx_http_agentstream_body_write(ctx, ",");
        }

        seen |= bit;

        rc = field->handler(ctx, field->name, v + 1);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    for (field = ngx_http_agentstream_body_table; field->name; field++) {
        bit = (ngx_uint_t) 1 << (field - ngx_http_agentstream_body_table);

        if (field->kind == kind && field->required && !(seen & bit)) {
            return ngx_http_agentstream_body_refuse(ctx, "\"%s\" is required",
                                                    field->name);
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_body_string(ngx_http_agentstream_body_ctx_t *ctx,
    const char *name, ngx_uint_t value)
{
    if (ngx_http_agentstream_json_type(ctx->json, value)
        != NGX_HTTP_AGENTSTREAM_JSON_STRING
        || ngx_http_agentstream_json_string(ctx->json, value).len == 0)
    {
        return ngx_http_agentstream_body_refuse(ctx,
                                 "\"%s\" must be a string, not empty", name);
    }

    ngx_http_agentstream_body_write(ctx, "\"");
    ngx_http_agentstream_body_write(ctx, name);
    ngx_http_agentstream_body_write(ctx, "\":");
    ngx_http_agentstream_body_copy(ctx, value);

    return NGX_OK;
}


/* as in a prompt: {"providerID","modelID"}; OpenCode has another name here */

static ngx_int_t
ngx_http_agentstream_body_model(ngx_http_agentstream_body_ctx_t *ctx,
    const char *name, ngx_uint_t value)
{
    ngx_uint_t                    v, n, provider, model;
    ngx_http_agentstream_json_t  *json;

    json = ctx->json;
    n = 0;

    for (v = ngx_http_agentstream_json_first(json, value);
         v;
         v = ngx_http_agentstream_json_next(json, value, v))
    {
        n++;
    }

    provider = ngx_http_agentstream_json_get(json, value, "providerID");
    model = ngx_http_agentstream_json_get(json, value, "modelID");

    if (n != 2
        || ngx_http_agentstream_json_string(json, provider).len == 0
        || ngx_http_agentstream_json_string(json, model).len == 0)
    {
        return ngx_http_agentstream_body_refuse(ctx,
                                      "\"%s\" must be an object of "
                                      "\"providerID\" and \"modelID\"", name);
    }

    ngx_http_agentstream_body_write(ctx, "\"model\":{\"providerID\":");
    ngx_http_agentstream_body_copy(ctx, provider);
    ngx_http_agentstream_body_write(ctx, ",\"id\":");
    ngx_http_agentstream_body_copy(ctx, model);
    ngx_http_agentstream_body_write(ctx, "}");

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_body_answers(ngx_http_agentstream_body_ctx_t *ctx,
    const char *name, ngx_uint_t value)
{
    ngx_uint_t                    v, label;
    ngx_http_agentstream_json_t  *json;

    json = ctx->json;

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

    ngx_http_agentstream_body_write(ctx, "\"answers\":");
    ngx_http_agentstream_body_copy(ctx, value);

    return NGX_OK;

refuse:

    return ngx_http_agentstream_body_refuse(ctx,
                      "\"%s\" must be an array of arrays of strings, "
                      "one for each question", name);
}


static ngx_int_t
ngx_http_agentstream_body_reply(ngx_http_agentstream_body_ctx_t *ctx,
    const char *name, ngx_uint_t value)
{
    if (!ngx_http_agentstream_json_is(ctx->json, value, "once")
        && !ngx_http_agentstream_json_is(ctx->json, value, "always")
        && !ngx_http_agentstream_json_is(ctx->json, value, "reject"))
    {
        return ngx_http_agentstream_body_refuse(ctx,
                                      "\"%s\" must be \"once\", \"always\" or "
                                      "\"reject\"", name);
    }

    return ngx_http_agentstream_body_string(ctx, name, value);
}


static ngx_int_t
ngx_http_agentstream_body_refuse(ngx_http_agentstream_body_ctx_t *ctx,
    const char *fmt, ...)
{
    va_list                       args;
    ngx_http_agentstream_body_t  *body;

    body = ctx->body;

    va_start(args, fmt);
    body->error_len = ngx_vslprintf(body->error,
                                    body->error + sizeof(body->error),
                                    fmt, args)
                      - body->error;
    va_end(args);

    return NGX_DECLINED;
}


static void
ngx_http_agentstream_body_write(ngx_http_agentstream_body_ctx_t *ctx,
    const char *text)
{
    ctx->last = ngx_cpymem(ctx->last, text, ngx_strlen(text));
}


static void
ngx_http_agentstream_body_copy(ngx_http_agentstream_body_ctx_t *ctx,
    ngx_uint_t value)
{
    ngx_str_t  raw;

    raw = ngx_http_agentstream_json_raw(ctx->json, value);

    ctx->last = ngx_http_agentstream_json_copy(ctx->last, &raw);
}
