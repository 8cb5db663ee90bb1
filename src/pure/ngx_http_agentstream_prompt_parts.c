
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Checks a prompt of OpenCode's own parts.  They are passed on unchanged, but
 * only with known members, and only if they do not make OpenCode do what the
 * client may not do.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_prompt_int.h"


typedef ngx_int_t (*ngx_http_agentstream_prompt_part_pt)(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);

typedef struct {
    const char                           *name;
    ngx_http_agentstream_prompt_part_pt   handler; /* NULL: any value */
} ngx_http_agentstream_prompt_member_t;

typedef struct {
    const char                           *type;
    ngx_uint_t                            agent;   /* chooses an agent */
    ngx_http_agentstream_prompt_member_t *members;
} ngx_http_agentstream_prompt_part_t;


static ngx_int_t ngx_http_agentstream_prompt_part(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t part);
static ngx_int_t ngx_http_agentstream_prompt_member(
    ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_http_agentstream_prompt_member_t *members, ngx_uint_t name);
static ngx_int_t ngx_http_agentstream_prompt_url(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_source(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_task(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_prompt_task_model(
    ngx_http_agentstream_prompt_ctx_t *ctx, ngx_uint_t value);


/*
 * OpenCode would also accept "id".  It is refused, because a part with the id
 * of another one replaces that one, even in another session.
 */

static ngx_http_agentstream_prompt_member_t
    ngx_http_agentstream_prompt_part_text[] =
{
    { "type", NULL },
    { "text", NULL },
    { "synthetic", NULL },
    { "ignored", NULL },
    { "time", NULL },
    { "metadata", NULL },
    { NULL, NULL }
};


static ngx_http_agentstream_prompt_member_t
    ngx_http_agentstream_prompt_part_file[] =
{
    { "type", NULL },
    { "mime", NULL },
    { "filename", NULL },
    { "url", ngx_http_agentstream_prompt_url },
    { "source", ngx_http_agentstream_prompt_source },
    { NULL, NULL }
};


static ngx_http_agentstream_prompt_member_t
    ngx_http_agentstream_prompt_part_agent[] =
{
    { "type", NULL },
    { "name", NULL },
    { "source", NULL },
    { NULL, NULL }
};


static ngx_http_agentstream_prompt_member_t
    ngx_http_agentstream_prompt_part_subtask[] =
{
    { "type", NULL },
    { "prompt", ngx_http_agentstream_prompt_task },
    { "description", NULL },
    { "agent", NULL },
    { "model", ngx_http_agentstream_prompt_task_model },
    { "command", NULL },
    { NULL, NULL }
};


static ngx_http_agentstream_prompt_part_t
    ngx_http_agentstream_prompt_part_table[] =
{
    { "text", 0, ngx_http_agentstream_prompt_part_text },
    { "file", 0, ngx_http_agentstream_prompt_part_file },
    { "agent", 1, ngx_http_agentstream_prompt_part_agent },
    { "subtask", 1, ngx_http_agentstream_prompt_part_subtask },
    { NULL, 0, NULL }
};


ngx_int_t
ngx_http_agentstream_prompt_parts(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_int_t                           rc;
    ngx_uint_t                          v;
    ngx_http_agentstream_json_t        *json;
    ngx_http_agentstream_prompt_ctx_t  *ctx;

    ctx = fields->data;
    json = &fields->json;

    if (ngx_http_agentstream_json_type(json, value)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_fields_refuse(fields,
                                           "\"%s\" must be an array", name);
    }

    for (v = ngx_http_agentstream_json_first(json, value);
         v;
         v = ngx_http_agentstream_json_next(json, value, v))
    {
        rc = ngx_http_agentstream_prompt_part(ctx, v);
        if (rc != NGX_OK) {
            return rc;
        }

        ctx->index++;
    }

    if (ctx->index == 0) {
        return ngx_http_agentstream_fields_refuse(fields, "\"%s\" is empty",
                                                  name);
    }

    ctx->filled = 1;

    return ngx_http_agentstream_fields_member(fields, name, value);
}


static ngx_int_t
ngx_http_agentstream_prompt_part(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t part)
{
    ngx_int_t                            rc;
    ngx_uint_t                           v, type;
    ngx_http_agentstream_json_t         *json;
    ngx_http_agentstream_prompt_part_t  *known;

    json = &ctx->fields.json;
    type = ngx_http_agentstream_json_get(json, part, "type");

    for (known = ngx_http_agentstream_prompt_part_table; known->type; known++)
    {
        if (ngx_http_agentstream_json_is(json, type, known->type)) {
            break;
        }
    }

    if (known->type == NULL) {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                           "\"parts[%ui].type\" must be \"text\", \"file\", "
                           "\"agent\" or \"subtask\"", ctx->index);
    }

    if (known->agent
        && (ctx->fields.refused & NGX_HTTP_AGENTSTREAM_FIELD_AGENT))
    {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                           "\"parts[%ui].type\" must not be \"%s\" here",
                           ctx->index, known->type);
    }

    /* if a name is repeated, OpenCode uses the last value, so check all of
       them */

    for (v = ngx_http_agentstream_json_first(json, part);
         v;
         v = ngx_http_agentstream_json_next(json, part, v))
    {
        rc = ngx_http_agentstream_prompt_member(ctx, known->members, v);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_prompt_member(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_http_agentstream_prompt_member_t *members, ngx_uint_t name)
{
    ngx_str_t                              text;
    ngx_http_agentstream_json_t           *json;
    ngx_http_agentstream_prompt_member_t  *member;

    json = &ctx->fields.json;

    for (member = members; member->name; member++) {
        if (ngx_http_agentstream_json_is(json, name, member->name)) {
            return member->handler ? member->handler(ctx, name + 1) : NGX_OK;
        }
    }

    text = ngx_http_agentstream_fields_shown(&ctx->fields, name);

    return ngx_http_agentstream_fields_refuse(&ctx->fields,
                                              "unknown field \"parts[%ui].%V\"",
                                              ctx->index, &text);
}


static ngx_int_t
ngx_http_agentstream_prompt_url(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    switch (ngx_http_agentstream_prompt_scheme(ctx, value)) {

    case NGX_HTTP_AGENTSTREAM_SCHEME_FILE:
        return ngx_http_agentstream_prompt_file(ctx, "parts", "url", value);

    case NGX_HTTP_AGENTSTREAM_SCHEME_DATA:
        return NGX_OK;

    default: /* NGX_HTTP_AGENTSTREAM_SCHEME_OTHER */
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                    "\"parts[%ui].url\" must be a \"file:\" or \"data:\" URL",
                    ctx->index);
    }
}


/* a "resource" would be read from an MCP server, whatever the part's URL is */

static ngx_int_t
ngx_http_agentstream_prompt_source(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    ngx_uint_t                    type;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->fields.json;
    type = ngx_http_agentstream_json_get(json, value, "type");

    if (!ngx_http_agentstream_json_is(json, type, "file")
        && !ngx_http_agentstream_json_is(json, type, "symbol"))
    {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                    "\"parts[%ui].source.type\" must be \"file\" or "
                    "\"symbol\"", ctx->index);
    }

    return NGX_OK;
}


/*
 * In the prompt of a subagent OpenCode opens every file that is named as
 * @path, relative to the root of the project, which may be "/".  An @ within a
 * word, or after a backtick, has no such meaning.
 */

static ngx_int_t
ngx_http_agentstream_prompt_task(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    u_char     *p, *start, *last, ch;
    ngx_str_t   text;
    ngx_int_t   rc;

    text = ngx_http_agentstream_json_string(&ctx->fields.json, value);

    start = ngx_pnalloc(ctx->fields.pool, text.len);
    if (start == NULL) {
        return NGX_ERROR;
    }

    rc = NGX_OK;
    last = ngx_http_agentstream_json_decode(start, &text);

    for (p = start; p < last; p++) {

        if (*p != '@') {
            continue;
        }

        ch = (p > start) ? p[-1] : ' ';

        if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')
            || (ch >= '0' && ch <= '9') || ch == '_' || ch == '`')
        {
            continue;
        }

        rc = ngx_http_agentstream_fields_refuse(&ctx->fields,
                    "\"parts[%ui].prompt\" must not refer to anything by "
                    "\"@\"", ctx->index);
        break;
    }

    (void) ngx_pfree(ctx->fields.pool, start);

    return rc;
}


static ngx_int_t
ngx_http_agentstream_prompt_task_model(ngx_http_agentstream_prompt_ctx_t *ctx,
    ngx_uint_t value)
{
    if (ctx->fields.refused & NGX_HTTP_AGENTSTREAM_FIELD_MODEL) {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                    "\"parts[%ui].model\" must not be sent here", ctx->index);
    }

    return NGX_OK;
}
