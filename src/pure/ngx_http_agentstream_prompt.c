
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The prompt.  A table describes its fields; values that OpenCode accepts
 * under the same name are copied unchanged.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_prompt_int.h"


#define NGX_HTTP_AGENTSTREAM_REQUEST_ID_MAX  128

/* OpenCode's body begins with the id of the message, so that it is easy to
   find when it is set later */
#define NGX_HTTP_AGENTSTREAM_PROMPT_HEAD     "{\"messageID\":\""


static ngx_int_t ngx_http_agentstream_prompt_tools(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_request_id(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);


static ngx_http_agentstream_field_t  ngx_http_agentstream_prompt_table[] = {
    { "content", NGX_HTTP_AGENTSTREAM_FIELD_CONTENT, 0,
      ngx_http_agentstream_prompt_content },
    { "parts", NGX_HTTP_AGENTSTREAM_FIELD_PARTS, 0,
      ngx_http_agentstream_prompt_parts },
    { "model", NGX_HTTP_AGENTSTREAM_FIELD_MODEL, 0,
      ngx_http_agentstream_fields_model },
    { "agent", NGX_HTTP_AGENTSTREAM_FIELD_AGENT, 0,
      ngx_http_agentstream_fields_string },
    { "system", NGX_HTTP_AGENTSTREAM_FIELD_SYSTEM, 0,
      ngx_http_agentstream_fields_string },
    { "variant", NGX_HTTP_AGENTSTREAM_FIELD_VARIANT, 0,
      ngx_http_agentstream_fields_string },
    { "tools", NGX_HTTP_AGENTSTREAM_FIELD_TOOLS, 0,
      ngx_http_agentstream_prompt_tools },
    { "client_request_id", NGX_HTTP_AGENTSTREAM_FIELD_REQUEST_ID, 0,
      ngx_http_agentstream_prompt_request_id },
    { NULL, 0, 0, NULL }
};


ngx_int_t
ngx_http_agentstream_prompt_build(ngx_pool_t *pool,
    ngx_http_agentstream_fields_conf_t *conf, ngx_str_t *text, size_t id_len,
    ngx_uint_t more, ngx_http_agentstream_prompt_t *prompt)
{
    u_char                             *p;
    ngx_int_t                           rc;
    ngx_http_agentstream_fields_t      *fields;
    ngx_http_agentstream_prompt_ctx_t   ctx;

    ngx_memzero(prompt, sizeof(ngx_http_agentstream_prompt_t));
    ngx_memzero(&ctx, sizeof(ngx_http_agentstream_prompt_ctx_t));

    ctx.prompt = prompt;
    ctx.more = more;

    fields = &ctx.fields;

    fields->pool = pool;
    fields->table = ngx_http_agentstream_prompt_table;
    fields->conf = conf;
    fields->model_id = "modelID";
    fields->error = &prompt->error;
    fields->data = &ctx;

    fields->head.len = sizeof(NGX_HTTP_AGENTSTREAM_PROMPT_HEAD) - 1 + id_len
                       + 1;

    p = ngx_pnalloc(pool, fields->head.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    fields->head.data = p;

    p = ngx_cpymem(p, NGX_HTTP_AGENTSTREAM_PROMPT_HEAD,
                   sizeof(NGX_HTTP_AGENTSTREAM_PROMPT_HEAD) - 1);
    ngx_memset(p, '-', id_len);
    p[id_len] = '"';

    rc = ngx_http_agentstream_fields_build(fields, text);

    if (rc == NGX_OK && !ctx.filled) {
        rc = ngx_http_agentstream_fields_refuse(fields,
                                                "\"content\" is required");
    }

    prompt->body = fields->body;

    return rc;
}


void
ngx_http_agentstream_prompt_set_id(ngx_str_t *body, ngx_str_t *id)
{
    ngx_memcpy(body->data + sizeof(NGX_HTTP_AGENTSTREAM_PROMPT_HEAD) - 1,
               id->data, id->len);
}


static ngx_int_t
ngx_http_agentstream_prompt_tools(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_uint_t                    v, type;
    ngx_http_agentstream_json_t  *json;

    json = &fields->json;

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

    return ngx_http_agentstream_fields_member(fields, name, value);

refuse:

    return ngx_http_agentstream_fields_refuse(fields,
                                "\"%s\" must be an object of booleans", name);
}


/* this field is for the module, not for OpenCode */

static ngx_int_t
ngx_http_agentstream_prompt_request_id(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_str_t                           id;
    ngx_http_agentstream_prompt_t      *prompt;
    ngx_http_agentstream_prompt_ctx_t  *ctx;

    ctx = fields->data;
    prompt = ctx->prompt;

    id = ngx_http_agentstream_json_string(&fields->json, value);

    if (id.len == 0 || id.len > NGX_HTTP_AGENTSTREAM_REQUEST_ID_MAX) {
        return ngx_http_agentstream_fields_refuse(fields,
                                 "\"%s\" must be a string of 1 to %d bytes",
                                 name, NGX_HTTP_AGENTSTREAM_REQUEST_ID_MAX);
    }

    prompt->request_id.data = ngx_pstrdup(fields->pool, &id);
    if (prompt->request_id.data == NULL) {
        return NGX_ERROR;
    }

    prompt->request_id.len = id.len;

    return NGX_OK;
}
