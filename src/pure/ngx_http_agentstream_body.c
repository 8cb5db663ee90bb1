
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The other request bodies, with a table of fields for each.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_body.h"


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
    { "title", NGX_HTTP_AGENTSTREAM_FIELD_TITLE, 0,
      ngx_http_agentstream_fields_string },
    { "agent", NGX_HTTP_AGENTSTREAM_FIELD_AGENT, 0,
      ngx_http_agentstream_fields_string },
    { "model", NGX_HTTP_AGENTSTREAM_FIELD_MODEL, 0,
      ngx_http_agentstream_fields_model },
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

    ngx_str_set(&fields.head, "{");

    rc = ngx_http_agentstream_fields_build(&fields, text);

    body->text = fields.body;

    return rc;
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
