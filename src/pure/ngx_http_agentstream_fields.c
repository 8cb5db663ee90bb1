
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Reads an object that a client sent.  Strings are copied unchanged, except
 * that a surrogate without its other half is replaced, because it is not valid
 * text.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_fields.h"


static ngx_int_t ngx_http_agentstream_fields_parse(
    ngx_http_agentstream_fields_t *fields, ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_fields_walk(
    ngx_http_agentstream_fields_t *fields);
static ngx_int_t ngx_http_agentstream_fields_set(
    ngx_http_agentstream_fields_t *fields);
static ngx_int_t ngx_http_agentstream_fields_escape(
    ngx_http_agentstream_fields_t *fields, ngx_str_t *text,
    ngx_str_t *escaped);
static void ngx_http_agentstream_fields_write_model(
    ngx_http_agentstream_fields_t *fields, ngx_str_t *provider,
    ngx_str_t *model);


ngx_int_t
ngx_http_agentstream_fields_build(ngx_http_agentstream_fields_t *fields,
    ngx_str_t *text)
{
    ngx_int_t                            rc;
    ngx_http_agentstream_fields_conf_t  *conf;

    conf = fields->conf;

    if (conf) {
        fields->refused = NGX_HTTP_AGENTSTREAM_FIELD_ALL & ~conf->allowed;

        /* a field that the configuration sets cannot be chosen by the
           client */

        if (conf->agent.len) {
            fields->refused |= NGX_HTTP_AGENTSTREAM_FIELD_AGENT;
        }

        if (conf->model.len) {
            fields->refused |= NGX_HTTP_AGENTSTREAM_FIELD_MODEL;
        }
    }

    rc = ngx_http_agentstream_fields_parse(fields, text);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_fields_walk(fields);
    }

    if (rc == NGX_OK && conf) {
        rc = ngx_http_agentstream_fields_set(fields);
    }

    if (rc == NGX_OK) {
        ngx_http_agentstream_fields_write(fields, "}");
        fields->body.len = fields->last - fields->body.data;
    }

    ngx_http_agentstream_json_destroy(&fields->json);

    return rc;
}


static ngx_int_t
ngx_http_agentstream_fields_parse(ngx_http_agentstream_fields_t *fields,
    ngx_str_t *text)
{
    size_t                               size;
    ngx_int_t                            rc;
    ngx_http_agentstream_json_t         *json;
    ngx_http_agentstream_fields_conf_t  *conf;

    json = &fields->json;
    conf = fields->conf;

    rc = ngx_http_agentstream_json_parse(json, text->data, text->len);

    if (rc == NGX_DECLINED) {
        return ngx_http_agentstream_fields_refuse(fields,
                                               "the body is not valid JSON");
    }

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_agentstream_json_type(json, json->root)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return ngx_http_agentstream_fields_refuse(fields,
                                               "the body must be an object");
    }

    /* less than 64 bytes are added to each value; 256 are for the names of the
       fields that the configuration sets */

    size = fields->head.len + text->len + json->ntokens * 64 + 256;

    if (conf) {
        size += ngx_http_agentstream_json_escape_size(conf->agent.len
                                                      + conf->provider.len
                                                      + conf->model.len);
    }

    /* memory of its own, so that ngx_pfree() can free it before the pool */

    fields->body.data = ngx_pmemalign(fields->pool, size, NGX_ALIGNMENT);
    if (fields->body.data == NULL) {
        return NGX_ERROR;
    }

    fields->last = ngx_cpymem(fields->body.data, fields->head.data,
                              fields->head.len);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_fields_walk(ngx_http_agentstream_fields_t *fields)
{
    ngx_int_t                      rc;
    ngx_str_t                      name;
    ngx_uint_t                     v, bit, seen;
    ngx_http_agentstream_json_t   *json;
    ngx_http_agentstream_field_t  *field;

    json = &fields->json;
    seen = 0;

    for (v = ngx_http_agentstream_json_first(json, json->root);
         v;
         v = ngx_http_agentstream_json_next(json, json->root, v))
    {
        for (field = fields->table; field->name; field++) {
            if (ngx_http_agentstream_json_is(json, v, field->name)) {
                break;
            }
        }

        if (field->name == NULL) {
            name = ngx_http_agentstream_fields_shown(fields, v);

            return ngx_http_agentstream_fields_refuse(fields,
                                              "unknown field \"%V\"", &name);
        }

        if (field->bit & fields->refused) {
            return ngx_http_agentstream_fields_refuse(fields,
                                "\"%s\" must not be sent here", field->name);
        }

        bit = (ngx_uint_t) 1 << (field - fields->table);

        if (seen & bit) {
            return ngx_http_agentstream_fields_refuse(fields,
                                      "\"%s\" is given twice", field->name);
        }

        seen |= bit;

        rc = field->handler(fields, field->name, v + 1);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    for (field = fields->table; field->name; field++) {
        bit = (ngx_uint_t) 1 << (field - fields->table);

        if (field->required && !(seen & bit)) {
            return ngx_http_agentstream_fields_refuse(fields,
                                        "\"%s\" is required", field->name);
        }
    }

    return NGX_OK;
}


/* writes the fields that the configuration sets, if the table has them */

static ngx_int_t
ngx_http_agentstream_fields_set(ngx_http_agentstream_fields_t *fields)
{
    ngx_str_t                            agent, provider, model;
    ngx_http_agentstream_field_t        *field;
    ngx_http_agentstream_fields_conf_t  *conf;

    conf = fields->conf;

    for (field = fields->table; field->name; field++) {

        if (field->bit == NGX_HTTP_AGENTSTREAM_FIELD_AGENT && conf->agent.len)
        {
            if (ngx_http_agentstream_fields_escape(fields, &conf->agent,
                                                   &agent)
                != NGX_OK)
            {
                return NGX_ERROR;
            }

            ngx_http_agentstream_fields_name(fields, field->name);
            ngx_http_agentstream_fields_write(fields, "\"");
            ngx_http_agentstream_fields_copy(fields, &agent);
            ngx_http_agentstream_fields_write(fields, "\"");
        }

        if (field->bit == NGX_HTTP_AGENTSTREAM_FIELD_MODEL && conf->model.len)
        {
            if (ngx_http_agentstream_fields_escape(fields, &conf->provider,
                                                   &provider)
                != NGX_OK
                || ngx_http_agentstream_fields_escape(fields, &conf->model,
                                                      &model)
                   != NGX_OK)
            {
                return NGX_ERROR;
            }

            ngx_http_agentstream_fields_name(fields, field->name);
            ngx_http_agentstream_fields_write_model(fields, &provider, &model);
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_fields_escape(ngx_http_agentstream_fields_t *fields,
    ngx_str_t *text, ngx_str_t *escaped)
{
    u_char  *p;

    p = ngx_pnalloc(fields->pool,
                    ngx_http_agentstream_json_escape_size(text->len));
    if (p == NULL) {
        return NGX_ERROR;
    }

    escaped->data = p;
    escaped->len = ngx_http_agentstream_json_escape(p, text->data, text->len)
                   - p;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_fields_split(ngx_str_t *value, ngx_str_t *provider,
    ngx_str_t *model)
{
    u_char  *p, *last;

    last = value->data + value->len;

    /* the model's own name may contain slashes */

    p = ngx_strlchr(value->data, last, '/');

    if (p == NULL || p == value->data || p + 1 == last) {
        return NGX_DECLINED;
    }

    provider->data = value->data;
    provider->len = p - value->data;

    model->data = p + 1;
    model->len = last - (p + 1);

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_fields_string(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    if (ngx_http_agentstream_json_string(&fields->json, value).len == 0) {
        return ngx_http_agentstream_fields_refuse(fields,
                                 "\"%s\" must be a string, not empty", name);
    }

    return ngx_http_agentstream_fields_member(fields, name, value);
}


ngx_int_t
ngx_http_agentstream_fields_model(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_str_t                     provider, model;
    ngx_uint_t                    v, n;
    ngx_http_agentstream_json_t  *json;

    json = &fields->json;
    n = 0;

    for (v = ngx_http_agentstream_json_first(json, value);
         v;
         v = ngx_http_agentstream_json_next(json, value, v))
    {
        n++;
    }

    provider = ngx_http_agentstream_json_string(json,
                     ngx_http_agentstream_json_get(json, value, "providerID"));
    model = ngx_http_agentstream_json_string(json,
                        ngx_http_agentstream_json_get(json, value, "modelID"));

    if (n != 2 || provider.len == 0 || model.len == 0) {
        return ngx_http_agentstream_fields_refuse(fields,
                               "\"%s\" must be {\"providerID\": string, "
                               "\"modelID\": string}", name);
    }

    ngx_http_agentstream_fields_name(fields, name);
    ngx_http_agentstream_fields_write_model(fields, &provider, &model);

    return NGX_OK;
}


static void
ngx_http_agentstream_fields_write_model(ngx_http_agentstream_fields_t *fields,
    ngx_str_t *provider, ngx_str_t *model)
{
    ngx_http_agentstream_fields_write(fields, "{\"providerID\":\"");
    ngx_http_agentstream_fields_copy(fields, provider);
    ngx_http_agentstream_fields_write(fields, "\",\"");
    ngx_http_agentstream_fields_write(fields, fields->model_id);
    ngx_http_agentstream_fields_write(fields, "\":\"");
    ngx_http_agentstream_fields_copy(fields, model);
    ngx_http_agentstream_fields_write(fields, "\"}");
}


ngx_str_t
ngx_http_agentstream_fields_shown(ngx_http_agentstream_fields_t *fields,
    ngx_uint_t name)
{
    ngx_str_t  text;

    text = ngx_http_agentstream_json_string(&fields->json, name);
    text.len = ngx_min(text.len, 64);

    return text;
}


ngx_int_t
ngx_http_agentstream_fields_refuse(ngx_http_agentstream_fields_t *fields,
    const char *fmt, ...)
{
    va_list                               args;
    ngx_http_agentstream_fields_error_t  *error;

    error = fields->error;

    va_start(args, fmt);
    error->len = ngx_vslprintf(error->data,
                               error->data + sizeof(error->data), fmt, args)
                 - error->data;
    va_end(args);

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_agentstream_fields_member(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_http_agentstream_fields_name(fields, name);
    ngx_http_agentstream_fields_value(fields, value);

    return NGX_OK;
}


void
ngx_http_agentstream_fields_name(ngx_http_agentstream_fields_t *fields,
    const char *name)
{
    if (fields->last[-1] != '{') {
        ngx_http_agentstream_fields_write(fields, ",");
    }

    ngx_http_agentstream_fields_write(fields, "\"");
    ngx_http_agentstream_fields_write(fields, name);
    ngx_http_agentstream_fields_write(fields, "\":");
}


void
ngx_http_agentstream_fields_value(ngx_http_agentstream_fields_t *fields,
    ngx_uint_t value)
{
    ngx_str_t  raw;

    raw = ngx_http_agentstream_json_raw(&fields->json, value);

    ngx_http_agentstream_fields_copy(fields, &raw);
}


void
ngx_http_agentstream_fields_copy(ngx_http_agentstream_fields_t *fields,
    ngx_str_t *escaped)
{
    fields->last = ngx_http_agentstream_json_copy(fields->last, escaped);
}


void
ngx_http_agentstream_fields_write(ngx_http_agentstream_fields_t *fields,
    const char *text)
{
    fields->last = ngx_cpymem(fields->last, text, ngx_strlen(text));
}
