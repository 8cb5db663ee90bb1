
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Rewrites a prompt of ACP's content blocks as OpenCode's parts.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_prompt_int.h"


static ngx_int_t ngx_http_agentstream_prompt_block(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t block);
static ngx_int_t ngx_http_agentstream_prompt_image(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t block);
static ngx_int_t ngx_http_agentstream_prompt_link(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t block);
static ngx_int_t ngx_http_agentstream_prompt_resource(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t block);
static ngx_int_t ngx_http_agentstream_prompt_data(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *field,
    ngx_str_t *mime, ngx_str_t *data);
static ngx_uint_t ngx_http_agentstream_prompt_only(ngx_str_t *text,
    const char *others);
static void ngx_http_agentstream_prompt_text(
    ngx_http_agentstream_fields_t *fields, ngx_uint_t text);
static ngx_str_t ngx_http_agentstream_prompt_decoded(
    ngx_http_agentstream_fields_t *fields, ngx_uint_t object,
    const char *name);
static ngx_int_t ngx_http_agentstream_prompt_refuse(
    ngx_http_agentstream_prompt_ctx_t *ctx, const char *field,
    const char *what);


ngx_int_t
ngx_http_agentstream_prompt_content(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_int_t                           rc;
    ngx_uint_t                          v, type;
    ngx_http_agentstream_json_t        *json;
    ngx_http_agentstream_prompt_ctx_t  *ctx;

    ctx = fields->data;
    json = &fields->json;

    if (ngx_http_agentstream_json_get(json, json->root, "parts")) {
        return ngx_http_agentstream_fields_refuse(fields,
                           "\"content\" and \"parts\" exclude each other");
    }

    type = ngx_http_agentstream_json_type(json, value);

    if (type != NGX_HTTP_AGENTSTREAM_JSON_STRING
        && type != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_fields_refuse(fields,
                         "\"content\" must be a string or an array of blocks");
    }

    if (!ctx->more
        && ngx_http_agentstream_json_string(json, value).len == 0
        && ngx_http_agentstream_json_first(json, value) == 0)
    {
        return ngx_http_agentstream_fields_refuse(fields,
                                                  "\"content\" is empty");
    }

    ctx->filled = 1;

    ngx_http_agentstream_fields_name(fields, "parts");
    ngx_http_agentstream_fields_write(fields, "[");

    if (type == NGX_HTTP_AGENTSTREAM_JSON_STRING) {
        ngx_http_agentstream_prompt_text(fields, value);
    }

    for (v = ngx_http_agentstream_json_first(json, value);
         v;
         v = ngx_http_agentstream_json_next(json, value, v))
    {
        if (ctx->index) {
            ngx_http_agentstream_fields_write(fields, ",");
        }

        rc = ngx_http_agentstream_prompt_block(ctx, v);
        if (rc != NGX_OK) {
            return rc;
        }

        ctx->index++;
    }

    ctx->prompt->end = fields->last - fields->body.data;

    ngx_http_agentstream_fields_write(fields, "]");

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_prompt_block(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t block)
{
    ngx_uint_t                    type, text;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->fields.json;
    type = ngx_http_agentstream_json_get(json, block, "type");

    if (ngx_http_agentstream_json_is(json, type, "text")) {
        text = ngx_http_agentstream_json_get(json, block, "text");

        if (ngx_http_agentstream_json_type(json, text)
            != NGX_HTTP_AGENTSTREAM_JSON_STRING)
        {
            return ngx_http_agentstream_prompt_refuse(ctx, "text", "a string");
        }

        ngx_http_agentstream_prompt_text(&ctx->fields, text);

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

    return ngx_http_agentstream_prompt_refuse(ctx, "type",
                   "\"text\", \"image\", \"resource_link\" or \"resource\"");
}


static ngx_int_t
ngx_http_agentstream_prompt_image(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t block)
{
    ngx_str_t  data, mime;

    data = ngx_http_agentstream_prompt_decoded(&ctx->fields, block, "data");
    mime = ngx_http_agentstream_prompt_decoded(&ctx->fields, block,
                                               "mimeType");

    if (mime.len <= 6 || ngx_strncmp(mime.data, "image/", 6) != 0) {
        return ngx_http_agentstream_prompt_refuse(ctx, "mimeType",
                                                  "an image type");
    }

    return ngx_http_agentstream_prompt_data(ctx, "data", &mime, &data);
}


static ngx_int_t
ngx_http_agentstream_prompt_link(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t block)
{
    ngx_int_t                       rc;
    ngx_str_t                       name;
    ngx_uint_t                      i, v[3];
    ngx_http_agentstream_json_t    *json;
    ngx_http_agentstream_fields_t  *fields;

    static const char  *names[] = { "uri", "name", "mimeType" };

    fields = &ctx->fields;
    json = &fields->json;

    for (i = 0; i < 3; i++) {
        v[i] = ngx_http_agentstream_json_get(json, block, names[i]);

        if (v[i] && ngx_http_agentstream_json_type(json, v[i])
                    != NGX_HTTP_AGENTSTREAM_JSON_STRING)
        {
            return ngx_http_agentstream_prompt_refuse(ctx, names[i],
                                                      "a string");
        }
    }

    if (ngx_http_agentstream_json_string(json, v[0]).len == 0) {
        return ngx_http_agentstream_prompt_refuse(ctx, "uri",
                                                  "a string, not empty");
    }

    if (ngx_http_agentstream_prompt_scheme(ctx, v[0])
        != NGX_HTTP_AGENTSTREAM_SCHEME_FILE)
    {
        /* OpenCode can open files only; any other URI is passed to the model
           as text */

        ngx_http_agentstream_prompt_text(fields, v[0]);
        return NGX_OK;
    }

    rc = ngx_http_agentstream_prompt_file(ctx, "content", "uri", v[0]);

    if (rc != NGX_OK) {
        return rc;
    }

    ngx_http_agentstream_fields_write(fields, "{\"type\":\"file\",\"mime\":");

    name = ngx_http_agentstream_json_string(json, v[2]);

    if (name.len) {
        ngx_http_agentstream_fields_value(fields, v[2]);

    } else {
        ngx_http_agentstream_fields_write(fields, "\"text/plain\"");
    }

    name = ngx_http_agentstream_json_string(json, v[1]);

    if (name.len) {
        ngx_http_agentstream_fields_write(fields, ",\"filename\":");
        ngx_http_agentstream_fields_value(fields, v[1]);
    }

    ngx_http_agentstream_fields_write(fields, ",\"url\":");
    ngx_http_agentstream_fields_value(fields, v[0]);
    ngx_http_agentstream_fields_write(fields, "}");

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_prompt_resource(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t block)
{
    ngx_str_t                       mime, blob;
    ngx_uint_t                      resource, text;
    ngx_http_agentstream_json_t    *json;
    ngx_http_agentstream_fields_t  *fields;

    fields = &ctx->fields;
    json = &fields->json;

    resource = ngx_http_agentstream_json_get(json, block, "resource");

    if (resource == 0) {
        return ngx_http_agentstream_prompt_refuse(ctx, "resource",
                                                  "an object");
    }

    /* the resource's "uri" is not passed on, because OpenCode would open it */

    text = ngx_http_agentstream_json_get(json, resource, "text");

    if (ngx_http_agentstream_json_type(json, text)
        == NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        ngx_http_agentstream_prompt_text(fields, text);
        return NGX_OK;
    }

    blob = ngx_http_agentstream_prompt_decoded(fields, resource, "blob");
    mime = ngx_http_agentstream_prompt_decoded(fields, resource, "mimeType");

    if (blob.len == 0) {
        return ngx_http_agentstream_prompt_refuse(ctx, "resource.text",
                                                  "a string");
    }

    return ngx_http_agentstream_prompt_data(ctx, "resource.blob", &mime,
                                            &blob);
}


static ngx_int_t
ngx_http_agentstream_prompt_data(ngx_http_agentstream_prompt_ctx_t *ctx,
    const char *field, ngx_str_t *mime, ngx_str_t *data)
{
    ngx_http_agentstream_fields_t  *fields;

    fields = &ctx->fields;

    if (mime->len > 127 || !ngx_http_agentstream_prompt_only(mime, "/.+-")) {
        return ngx_http_agentstream_prompt_refuse(ctx, "mimeType",
                                                  "a media type");
    }

    if (!ngx_http_agentstream_prompt_only(data, "+/=")) {
        return ngx_http_agentstream_prompt_refuse(ctx, field, "base64");
    }

    ngx_http_agentstream_fields_write(fields, "{\"type\":\"file\",\"mime\":\"");
    ngx_http_agentstream_fields_copy(fields, mime);
    ngx_http_agentstream_fields_write(fields, "\",\"url\":\"data:");
    ngx_http_agentstream_fields_copy(fields, mime);
    ngx_http_agentstream_fields_write(fields, ";base64,");
    ngx_http_agentstream_fields_copy(fields, data);
    ngx_http_agentstream_fields_write(fields, "\"}");

    return NGX_OK;
}


/* whether the text is not empty, and consists of letters, digits and the given
   characters */

static ngx_uint_t
ngx_http_agentstream_prompt_only(ngx_str_t *text, const char *others)
{
    u_char      ch;
    ngx_uint_t  i;

    for (i = 0; i < text->len; i++) {
        ch = text->data[i];

        if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')
              || (ch >= '0' && ch <= '9')
              || (ch && ngx_strchr(others, ch))))
        {
            return 0;
        }
    }

    return i != 0;
}


static void
ngx_http_agentstream_prompt_text(ngx_http_agentstream_fields_t *fields,
    ngx_uint_t text)
{
    ngx_http_agentstream_fields_write(fields, "{\"type\":\"text\",\"text\":");
    ngx_http_agentstream_fields_value(fields, text);
    ngx_http_agentstream_fields_write(fields, "}");
}


/* decodes a string in place, which overwrites only its own bytes; a value that
   is absent, or not a string, is empty */

static ngx_str_t
ngx_http_agentstream_prompt_decoded(ngx_http_agentstream_fields_t *fields,
    ngx_uint_t object, const char *name)
{
    ngx_str_t                     text;
    ngx_http_agentstream_json_t  *json;

    json = &fields->json;

    text = ngx_http_agentstream_json_string(json,
                           ngx_http_agentstream_json_get(json, object, name));

    text.len = ngx_http_agentstream_json_decode(text.data, &text) - text.data;

    return text;
}


static ngx_int_t
ngx_http_agentstream_prompt_refuse(ngx_http_agentstream_prompt_ctx_t *ctx,
    const char *field, const char *what)
{
    return ngx_http_agentstream_fields_refuse(&ctx->fields,
                                              "\"content[%ui].%s\" must be %s",
                                              ctx->index, field, what);
}
