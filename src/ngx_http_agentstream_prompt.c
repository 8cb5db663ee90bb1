
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 1: the prompt.  Fields are checked by a table; values that OpenCode
 * knows under the same name are copied as they stand, content blocks are
 * rewritten as OpenCode's parts.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_prompt.h"


#define NGX_HTTP_AGENTSTREAM_REQUEST_ID_MAX  128


typedef struct {
    ngx_pool_t                          *pool;
    ngx_http_agentstream_json_t         *json;
    ngx_http_agentstream_prompt_t       *prompt;
    u_char                              *last;     /* of the body so far */
    ngx_uint_t                           index;    /* of the content block */
} ngx_http_agentstream_prompt_ctx_t;


typedef ngx_int_t (*ngx_http_agentstream_prompt_pt)(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);

typedef struct {
    const char                          *name;
    ngx_http_agentstream_prompt_pt       handler;
} ngx_http_agentstream_prompt_field_t;


static ngx_int_t ngx_http_agentstream_prompt_fields(
    ngx_http_agentstream_prompt_ctx_t *ctx);
static ngx_int_t ngx_http_agentstream_prompt_content(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_parts(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_model(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_tools(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_agent(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_system(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_variant(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_request_id(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_block(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t block);
static ngx_int_t ngx_http_agentstream_prompt_image(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t block);
static ngx_int_t ngx_http_agentstream_prompt_link(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t block);
static ngx_int_t ngx_http_agentstream_prompt_resource(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t block);
static ngx_int_t ngx_http_agentstream_prompt_file(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *field,
    ngx_str_t *mime, ngx_str_t *data);
static ngx_str_t ngx_http_agentstream_prompt_text(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t object,
    const char *name);
static ngx_int_t ngx_http_agentstream_prompt_string(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *name,
    ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_member(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *name,
    ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_refuse(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *fmt, ...);
static ngx_int_t ngx_http_agentstream_prompt_refuse_block(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *field,
    const char *what);
static void ngx_http_agentstream_prompt_write(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *text);
static void ngx_http_agentstream_prompt_copy(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_str_t *text);


static ngx_http_agentstream_prompt_field_t
    ngx_http_agentstream_prompt_table[] =
{
    { "content", ngx_http_agentstream_prompt_content },
    { "parts", ngx_http_agentstream_prompt_parts },
    { "model", ngx_http_agentstream_prompt_model },
    { "agent", ngx_http_agentstream_prompt_agent },
    { "system", ngx_http_agentstream_prompt_system },
    { "variant", ngx_http_agentstream_prompt_variant },
    { "tools", ngx_http_agentstream_prompt_tools },
    { "client_request_id", ngx_http_agentstream_prompt_request_id },
    { NULL, NULL }
};


ngx_int_t
ngx_http_agentstream_prompt_build(ngx_pool_t *pool, ngx_str_t *text,
    ngx_str_t *id, ngx_http_agentstream_prompt_t *prompt)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_json_t        json;
    ngx_http_agentstream_prompt_ctx_t  ctx;

    ngx_memzero(prompt, sizeof(ngx_http_agentstream_prompt_t));
    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    ctx.pool = pool;
    ctx.json = &json;
    ctx.prompt = prompt;

    rc = ngx_http_agentstream_json_parse(&json, text->data, text->len);

    if (rc == NGX_DECLINED) {
        (void) ngx_http_agentstream_prompt_refuse(&ctx,
                                             "the body is not valid JSON");
    }

    if (rc == NGX_OK) {
        /* what is added to a block or a field is shorter than this */

        prompt->body.data = ngx_pnalloc(pool, id->len + 256 + text->len
                                              + json.ntokens * 64);
        rc = prompt->body.data ? NGX_OK : NGX_ERROR;
    }

    if (rc == NGX_OK) {
        ctx.last = prompt->body.data;

        ngx_http_agentstream_prompt_write(&ctx, "{\"messageID\":\"");
        ngx_http_agentstream_prompt_copy(&ctx, id);
        ngx_http_agentstream_prompt_write(&ctx, "\"");

        rc = ngx_http_agentstream_prompt_fields(&ctx);
    }

    if (rc == NGX_OK) {
        ngx_http_agentstream_prompt_write(&ctx, "}");
        prompt->body.len = ctx.last - prompt->body.data;
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


static ngx_int_t
ngx_http_agentstream_prompt_fields(ngx_http_agentstream_prompt_ctx_t *ctx)
{
    ngx_int_t                             rc;
    ngx_str_t                             name;
    ngx_uint_t                            v, bit, seen;
    ngx_http_agentstream_json_t          *json;
    ngx_http_agentstream_prompt_field_t  *field;

    seen = 0;
    json = ctx->json;

    if (ngx_http_agentstream_json_type(json, 0)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return ngx_http_agentstream_prompt_refuse(ctx,
                                                "the body must be an object");
    }

    for (v = ngx_http_agentstream_json_first(json, 0);
         v;
         v = ngx_http_agentstream_json_next(json, 0, v))
    {
        for (field = ngx_http_agentstream_prompt_table; field->name; field++) {
            if (ngx_http_agentstream_json_is(json, v, field->name)) {
                break;
            }
        }

        if (field->name == NULL) {
            name = ngx_http_agentstream_json_string(json, v);
            name.len = ngx_min(name.len, 64);

            return ngx_http_agentstream_prompt_refuse(ctx,
                                              "unknown field \"%V\"", &name);
        }

        bit = 1 << (field - ngx_http_agentstream_prompt_table);

        if (seen & bit) {
            return ngx_http_agentstream_prompt_refuse(ctx,
                                      "\"%s\" is given twice", field->name);
        }

        seen |= bit;

        rc = field->handler(ctx, v + 1);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (ngx_http_agentstream_json_get(json, 0, "content") == 0
        && ngx_http_agentstream_json_get(json, 0, "parts") == 0)
    {
        return ngx_http_agentstream_prompt_refuse(ctx,
                                                  "\"content\" is required");
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_prompt_content(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    ngx_int_t   rc;
    ngx_str_t   text;
    ngx_uint_t  v, type;

    if (ngx_http_agentstream_json_get(ctx->json, 0, "parts")) {
        return ngx_http_agentstream_prompt_refuse(ctx,
                           "\"content\" and \"parts\" exclude each other");
    }

    type = ngx_http_agentstream_json_type(ctx->json, value);

    ngx_http_agentstream_prompt_write(ctx, ",\"parts\":[");

    if (type == NGX_HTTP_AGENTSTREAM_JSON_STRING) {
        text = ngx_http_agentstream_json_raw(ctx->json, value);

        if (text.len == 2) {
            return ngx_http_agentstream_prompt_refuse(ctx,
                                                  "\"content\" is empty");
        }

        ngx_http_agentstream_prompt_write(ctx, "{\"type\":\"text\",\"text\":");
        ngx_http_agentstream_prompt_copy(ctx, &text);
        ngx_http_agentstream_prompt_write(ctx, "}]");

        return NGX_OK;
    }

    if (type != NGX_HTTP_AGENTSTREAM_JSON_ARRAY) {
        return ngx_http_agentstream_prompt_refuse(ctx,
                         "\"content\" must be a string or an array of blocks");
    }

    ctx->index = 0;

    for (v = ngx_http_agentstream_json_first(ctx->json, value);
         v;
         v = ngx_http_agentstream_json_next(ctx->json, value, v))
    {
        if (ctx->index) {
            ngx_http_agentstream_prompt_write(ctx, ",");
        }

        rc = ngx_http_agentstream_prompt_block(ctx, v);
        if (rc != NGX_OK) {
            return rc;
        }

        ctx->index++;
    }

    if (ctx->index == 0) {
        return ngx_http_agentstream_prompt_refuse(ctx,
                                                  "\"content\" is empty");
    }

    ngx_http_agentstream_prompt_write(ctx, "]");

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_prompt_parts(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    ngx_uint_t                    v, n, type;
    ngx_http_agentstream_json_t  *json;

    json = ctx->json;

    if (ngx_http_agentstream_json_type(json, value)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_prompt_refuse(ctx,
                                               "\"parts\" must be an array");
    }

    n = 0;

    for (v = ngx_http_agentstream_json_first(json, value);
         v;
         v = ngx_http_agentstream_json_next(json, value, v))
    {
        type = ngx_http_agentstream_json_get(json, v, "type");

        if (!ngx_http_agentstream_json_is(json, type, "text")
            && !ngx_http_agentstream_json_is(json, type, "file")
            && !ngx_http_agentstream_json_is(json, type, "agent")
            && !ngx_http_agentstream_json_is(json, type, "subtask"))
        {
            return ngx_http_agentstream_prompt_refuse(ctx,
                           "\"parts[%ui].type\" must be \"text\", \"file\", "
                           "\"agent\" or \"subtask\"", n);
        }

        n++;
    }

    if (n == 0) {
        return ngx_http_agentstream_prompt_refuse(ctx, "\"parts\" is empty");
    }

    return ngx_http_agentstream_prompt_member(ctx, "parts", value);
}


static ngx_int_t
ngx_http_agentstream_prompt_model(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    ngx_uint_t                    v;
    ngx_http_agentstream_json_t  *json;

    json = ctx->json;

    for (v = ngx_http_agentstream_json_first(json, value);
         v;
         v = ngx_http_agentstream_json_next(json, value, v))
    {
        if (!ngx_http_agentstream_json_is(json, v, "providerID")
            && !ngx_http_agentstream_json_is(json, v, "modelID"))
        {
            break;
        }
    }

    if (v
        || ngx_http_agentstream_json_string(json,
               ngx_http_agentstream_json_get(json, value, "providerID")).len
           == 0
        || ngx_http_agentstream_json_string(json,
               ngx_http_agentstream_json_get(json, value, "modelID")).len
           == 0)
    {
        return ngx_http_agentstream_prompt_refuse(ctx,
            "\"model\" must be {\"providerID\": string, \"modelID\": string}");
    }

    return ngx_http_agentstream_prompt_member(ctx, "model", value);
}


static ngx_int_t
ngx_http_agentstream_prompt_tools(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    ngx_uint_t                    v, type;
    ngx_http_agentstream_json_t  *json;

    json = ctx->json;

    if (ngx_http_agentstream_json_type(json, value)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        goto refuse;
    }

    for (v = ngx_http_agentstream_json_first(json, value);
         v;
         v = ngx_http_agentstream_json_next(json, value, v))
    {
        type = ngx_http_agentstream_json_type(json, v + 1);

        if (type != NGX_HTTP_AGENTSTREAM_JSON_TRUE
            && type != NGX_HTTP_AGENTSTREAM_JSON_FALSE)
        {
            goto refuse;
        }
    }

    return ngx_http_agentstream_prompt_member(ctx, "tools", value);

refuse:

    return ngx_http_agentstream_prompt_refuse(ctx,
                                "\"tools\" must be an object of booleans");
}


static ngx_int_t
ngx_http_agentstream_prompt_agent(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    return ngx_http_agentstream_prompt_string(ctx, "agent", value);
}


static ngx_int_t
ngx_http_agentstream_prompt_system(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    return ngx_http_agentstream_prompt_string(ctx, "system", value);
}


static ngx_int_t
ngx_http_agentstream_prompt_variant(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    return ngx_http_agentstream_prompt_string(ctx, "variant", value);
}


static ngx_int_t
ngx_http_agentstream_prompt_request_id(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    ngx_str_t  id;

    id = ngx_http_agentstream_json_string(ctx->json, value);

    if (id.len == 0 || id.len > NGX_HTTP_AGENTSTREAM_REQUEST_ID_MAX) {
        return ngx_http_agentstream_prompt_refuse(ctx,
                  "\"client_request_id\" must be a string of 1 to %d bytes",
                  NGX_HTTP_AGENTSTREAM_REQUEST_ID_MAX);
    }

    ctx->prompt->request_id.data = ngx_pstrdup(ctx->pool, &id);
    if (ctx->prompt->request_id.data == NULL) {
        return NGX_ERROR;
    }

    ctx->prompt->request_id.len = id.len;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_prompt_block(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t block)
{
    ngx_str_t                     raw;
    ngx_uint_t                    type, text;
    ngx_http_agentstream_json_t  *json;

    json = ctx->json;
    type = ngx_http_agentstream_json_get(json, block, "type");

    if (ngx_http_agentstream_json_is(json, type, "text")) {
        text = ngx_http_agentstream_json_get(json, block, "text");

        if (ngx_http_agentstream_json_type(json, text)
            != NGX_HTTP_AGENTSTREAM_JSON_STRING)
        {
            return ngx_http_agentstream_prompt_refuse_block(ctx, "text",
                                                            "a string");
        }

        raw = ngx_http_agentstream_json_raw(json, text);

        ngx_http_agentstream_prompt_write(ctx, "{\"type\":\"text\",\"text\":");
        ngx_http_agentstream_prompt_copy(ctx, &raw);
        ngx_http_agentstream_prompt_write(ctx, "}");

        return NGX_OK;
    }

    if (ngx_http_agentstream_json_is(json, type, "image")) {
        return ngx_http_agentstream_prompt_image(ctx, block);
    }

    if (ngx_http_agentstream_json_is(json, type, "resource_link")) {
        return ngx_http_agentstream_prompt_link(ctx, block);
    }

    if (ngx_http_agentstream_json_is(json, type, "resource")) {
        return ngx_http_agentstream_prompt_resource(ctx, block);
    }

    return ngx_http_agentstream_prompt_refuse_block(ctx, "type",
                   "\"text\", \"image\", \"resource_link\" or \"resource\"");
}


static ngx_int_t
ngx_http_agentstream_prompt_image(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t block)
{
    ngx_str_t  data, mime;

    data = ngx_http_agentstream_prompt_text(ctx, block, "data");
    mime = ngx_http_agentstream_prompt_text(ctx, block, "mimeType");

    if (mime.len <= 6 || ngx_strncmp(mime.data, "image/", 6) != 0) {
        return ngx_http_agentstream_prompt_refuse_block(ctx, "mimeType",
                                                        "an image type");
    }

    return ngx_http_agentstream_prompt_file(ctx, "data", &mime, &data);
}


static ngx_int_t
ngx_http_agentstream_prompt_link(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t block)
{
    ngx_str_t                     uri, name, mime;
    ngx_uint_t                    v;
    ngx_http_agentstream_json_t  *json;

    json = ctx->json;

    uri = ngx_http_agentstream_json_string(json,
                            ngx_http_agentstream_json_get(json, block, "uri"));
    name = ngx_http_agentstream_json_string(json,
                           ngx_http_agentstream_json_get(json, block, "name"));
    mime = ngx_http_agentstream_json_string(json,
                       ngx_http_agentstream_json_get(json, block, "mimeType"));

    if (uri.len == 0) {
        return ngx_http_agentstream_prompt_refuse_block(ctx, "uri",
                                                        "a string");
    }

    v = ngx_http_agentstream_json_get(json, block, "name");

    if (v && ngx_http_agentstream_json_type(json, v)
             != NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        return ngx_http_agentstream_prompt_refuse_block(ctx, "name",
                                                        "a string");
    }

    v = ngx_http_agentstream_json_get(json, block, "mimeType");

    if (v && ngx_http_agentstream_json_type(json, v)
             != NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        return ngx_http_agentstream_prompt_refuse_block(ctx, "mimeType",
                                                        "a string");
    }

    if (uri.len < 5
        || ngx_strncasecmp(uri.data, (u_char *) "file:", 5) != 0)
    {
        /* OpenCode opens files only; anything else is told to the model */

        ngx_http_agentstream_prompt_write(ctx,
                                          "{\"type\":\"text\",\"text\":\"");
        ngx_http_agentstream_prompt_copy(ctx, &uri);
        ngx_http_agentstream_prompt_write(ctx, "\"}");

        return NGX_OK;
    }

    ngx_http_agentstream_prompt_write(ctx, "{\"type\":\"file\",\"mime\":\"");

    if (mime.len) {
        ngx_http_agentstream_prompt_copy(ctx, &mime);

    } else {
        ngx_http_agentstream_prompt_write(ctx, "text/plain");
    }

    if (name.len) {
        ngx_http_agentstream_prompt_write(ctx, "\",\"filename\":\"");
        ngx_http_agentstream_prompt_copy(ctx, &name);
    }

    ngx_http_agentstream_prompt_write(ctx, "\",\"url\":\"");
    ngx_http_agentstream_prompt_copy(ctx, &uri);
    ngx_http_agentstream_prompt_write(ctx, "\"}");

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_prompt_resource(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t block)
{
    ngx_str_t                     raw, mime, blob;
    ngx_uint_t                    resource, text;
    ngx_http_agentstream_json_t  *json;

    json = ctx->json;

    resource = ngx_http_agentstream_json_get(json, block, "resource");
    text = ngx_http_agentstream_json_get(json, resource, "text");

    if (resource
        && ngx_http_agentstream_json_type(json, text)
           == NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        raw = ngx_http_agentstream_json_raw(json, text);

        ngx_http_agentstream_prompt_write(ctx, "{\"type\":\"text\",\"text\":");
        ngx_http_agentstream_prompt_copy(ctx, &raw);
        ngx_http_agentstream_prompt_write(ctx, "}");

        return NGX_OK;
    }

    if (resource == 0) {
        return ngx_http_agentstream_prompt_refuse_block(ctx, "resource",
                                                        "an object");
    }

    blob = ngx_http_agentstream_prompt_text(ctx, resource, "blob");
    mime = ngx_http_agentstream_prompt_text(ctx, resource, "mimeType");

    if (blob.len == 0) {
        return ngx_http_agentstream_prompt_refuse_block(ctx, "resource.text",
                                                        "a string");
    }

    return ngx_http_agentstream_prompt_file(ctx, "resource.blob", &mime,
                                            &blob);
}


static ngx_int_t
ngx_http_agentstream_prompt_file(ngx_http_agentstream_prompt_ctx_t *ctx,
    const char *field, ngx_str_t *mime, ngx_str_t *data)
{
    u_char  *p, *last;

    last = mime->data + mime->len;

    for (p = mime->data; p < last; p++) {
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')
              || (*p >= '0' && *p <= '9') || *p == '/' || *p == '.'
              || *p == '+' || *p == '-'))
        {
            break;
        }
    }

    if (mime->len == 0 || mime->len > 127 || p < last) {
        return ngx_http_agentstream_prompt_refuse_block(ctx, "mimeType",
                                                        "a media type");
    }

    last = data->data + data->len;

    for (p = data->data; p < last; p++) {
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')
              || (*p >= '0' && *p <= '9') || *p == '+' || *p == '/'
              || *p == '='))
        {
            break;
        }
    }

    if (data->len == 0 || p < last) {
        return ngx_http_agentstream_prompt_refuse_block(ctx, field, "base64");
    }

    ngx_http_agentstream_prompt_write(ctx, "{\"type\":\"file\",\"mime\":\"");
    ngx_http_agentstream_prompt_copy(ctx, mime);
    ngx_http_agentstream_prompt_write(ctx, "\",\"url\":\"data:");
    ngx_http_agentstream_prompt_copy(ctx, mime);
    ngx_http_agentstream_prompt_write(ctx, ";base64,");
    ngx_http_agentstream_prompt_copy(ctx, data);
    ngx_http_agentstream_prompt_write(ctx, "\"}");

    return NGX_OK;
}


/* decoded in place, where only its own bytes are overwritten; a value that is
   absent, or no string, is empty */

static ngx_str_t
ngx_http_agentstream_prompt_text(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t object, const char *name)
{
    ngx_str_t  text;

    text = ngx_http_agentstream_json_string(ctx->json,
                     ngx_http_agentstream_json_get(ctx->json, object, name));

    text.len = ngx_http_agentstream_json_decode(text.data, &text) - text.data;

    return text;
}


static ngx_int_t
ngx_http_agentstream_prompt_string(ngx_http_agentstream_prompt_ctx_t *ctx,
    const char *name, ngx_uint_t value)
{
    if (ngx_http_agentstream_json_string(ctx->json, value).len == 0) {
        return ngx_http_agentstream_prompt_refuse(ctx,
                                 "\"%s\" must be a string, not empty", name);
    }

    return ngx_http_agentstream_prompt_member(ctx, name, value);
}


/* as it came */

static ngx_int_t
ngx_http_agentstream_prompt_member(ngx_http_agentstream_prompt_ctx_t *ctx,
    const char *name, ngx_uint_t value)
{
    ngx_str_t  raw;

    raw = ngx_http_agentstream_json_raw(ctx->json, value);

    ngx_http_agentstream_prompt_write(ctx, ",\"");
    ngx_http_agentstream_prompt_write(ctx, name);
    ngx_http_agentstream_prompt_write(ctx, "\":");
    ngx_http_agentstream_prompt_copy(ctx, &raw);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_prompt_refuse(ngx_http_agentstream_prompt_ctx_t *ctx,
    const char *fmt, ...)
{
    va_list                         args;
    ngx_http_agentstream_prompt_t  *prompt;

    prompt = ctx->prompt;

    va_start(args, fmt);
    prompt->error_len = ngx_vslprintf(prompt->error,
                                      prompt->error + sizeof(prompt->error),
                                      fmt, args)
                        - prompt->error;
    va_end(args);

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_agentstream_prompt_refuse_block(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *field,
    const char *what)
{
    return ngx_http_agentstream_prompt_refuse(ctx,
                                              "\"content[%ui].%s\" must be %s",
                                              ctx->index, field, what);
}


static void
ngx_http_agentstream_prompt_write(ngx_http_agentstream_prompt_ctx_t *ctx,
    const char *text)
{
    ctx->last = ngx_cpymem(ctx->last, text, ngx_strlen(text));
}


static void
ngx_http_agentstream_prompt_copy(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_str_t *text)
{
    ctx->last = ngx_cpymem(ctx->last, text->data, text->len);
}
