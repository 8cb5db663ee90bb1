
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The variables.  They are evaluated each time they are used, in any phase,
 * because a request may change its location.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_request.h"
#include "ngx_http_agentstream_variable.h"


static ngx_int_t ngx_http_agentstream_variable_route(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_agentstream_variable_session(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static void ngx_http_agentstream_variable_set(ngx_http_variable_value_t *v,
    ngx_str_t *value);


static ngx_http_variable_t  ngx_http_agentstream_variables[] = {

    { ngx_string("agentstream_route"), NULL,
      ngx_http_agentstream_variable_route, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agentstream_session"), NULL,
      ngx_http_agentstream_variable_session, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_agentstream_variable_init(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_agentstream_variables; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_variable_route(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                     route;
    ngx_http_agentstream_call_t  *call;

    call = ngx_http_agentstream_call_of(r);

    if (call) {
        route = call->route;

    } else if (ngx_http_agentstream_request_route(r, &route) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_variable_set(v, &route);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_variable_session(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t  session;

    ngx_http_agentstream_request_session(r, &session);
    ngx_http_agentstream_variable_set(v, &session);

    return NGX_OK;
}


static void
ngx_http_agentstream_variable_set(ngx_http_variable_value_t *v,
    ngx_str_t *value)
{
    v->len = value->len;
    v->data = value->data;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
}
