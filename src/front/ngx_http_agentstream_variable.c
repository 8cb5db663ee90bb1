
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


/* as the data of a variable: it is read from the account of the response */
#define NGX_HTTP_AGENTSTREAM_VARIABLE_ACCOUNT  1


static ngx_int_t ngx_http_agentstream_variable_route(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_agentstream_variable_session(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_agentstream_variable_owner(
    ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_agentstream_variable_turn(
    ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_agentstream_variable_stop_reason(
    ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_agentstream_variable_packets(
    ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_agentstream_variable_first_packet_time(
    ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_agentstream_variable_resumed(
    ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data);
static void ngx_http_agentstream_variable_set(ngx_http_variable_value_t *v,
    ngx_str_t *value);


static ngx_http_variable_t  ngx_http_agentstream_variables[] = {

    { ngx_string("agentstream_route"), NULL,
      ngx_http_agentstream_variable_route, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agentstream_session"), NULL,
      ngx_http_agentstream_variable_session, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agentstream_owner"), NULL,
      ngx_http_agentstream_variable_owner, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agentstream_turn"), NULL,
      ngx_http_agentstream_variable_turn,
      NGX_HTTP_AGENTSTREAM_VARIABLE_ACCOUNT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agentstream_stop_reason"), NULL,
      ngx_http_agentstream_variable_stop_reason,
      NGX_HTTP_AGENTSTREAM_VARIABLE_ACCOUNT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agentstream_packets"), NULL,
      ngx_http_agentstream_variable_packets,
      NGX_HTTP_AGENTSTREAM_VARIABLE_ACCOUNT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agentstream_first_packet_time"), NULL,
      ngx_http_agentstream_variable_first_packet_time,
      NGX_HTTP_AGENTSTREAM_VARIABLE_ACCOUNT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agentstream_resumed"), NULL,
      ngx_http_agentstream_variable_resumed,
      NGX_HTTP_AGENTSTREAM_VARIABLE_ACCOUNT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

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


ngx_uint_t
ngx_http_agentstream_variable_used(ngx_conf_t *cf)
{
    ngx_uint_t                  i;
    ngx_http_variable_t        *v, *used;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    used = cmcf->variables.elts;

    /* what the configuration uses has a number, and is listed here */

    for (i = 0; i < cmcf->variables.nelts; i++) {

        for (v = ngx_http_agentstream_variables; v->name.len; v++) {

            if (v->data == NGX_HTTP_AGENTSTREAM_VARIABLE_ACCOUNT
                && used[i].name.len == v->name.len
                && ngx_strncmp(used[i].name.data, v->name.data, v->name.len)
                   == 0)
            {
                return 1;
            }
        }
    }

    return 0;
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


static ngx_int_t
ngx_http_agentstream_variable_owner(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t  owner;

    ngx_http_agentstream_request_owner(r, &owner);
    ngx_http_agentstream_variable_set(v, &owner);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_variable_turn(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                        value;
    ngx_http_agentstream_account_t  *account;

    account = ngx_http_agentstream_request_account(r);

    value.len = account ? account->turn_len : 0;
    value.data = account ? account->turn : NULL;

    ngx_http_agentstream_variable_set(v, &value);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_variable_stop_reason(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                        value;
    ngx_http_agentstream_account_t  *account;

    account = ngx_http_agentstream_request_account(r);

    value.len = account ? account->reason_len : 0;
    value.data = account ? account->reason : NULL;

    ngx_http_agentstream_variable_set(v, &value);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_variable_packets(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                          *p;
    ngx_str_t                        number;
    ngx_http_agentstream_account_t  *account;

    ngx_str_null(&number);

    account = ngx_http_agentstream_request_account(r);

    if (account && account->stream) {
        p = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
        if (p == NULL) {
            return NGX_ERROR;
        }

        number.data = p;
        number.len = ngx_sprintf(p, "%ui", account->packets) - p;
    }

    ngx_http_agentstream_variable_set(v, &number);

    return NGX_OK;
}


/* in seconds, as nginx's own $request_time */

static ngx_int_t
ngx_http_agentstream_variable_first_packet_time(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                          *p;
    ngx_str_t                        number;
    ngx_http_agentstream_account_t  *account;

    ngx_str_null(&number);

    account = ngx_http_agentstream_request_account(r);

    if (account && account->packets) {
        p = ngx_pnalloc(r->pool, NGX_TIME_T_LEN + 4);
        if (p == NULL) {
            return NGX_ERROR;
        }

        number.data = p;
        number.len = ngx_sprintf(p, "%T.%03M", (time_t) account->first / 1000,
                                 account->first % 1000)
                     - p;
    }

    ngx_http_agentstream_variable_set(v, &number);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_variable_resumed(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                        value;
    ngx_http_agentstream_account_t  *account;

    ngx_str_null(&value);

    account = ngx_http_agentstream_request_account(r);

    if (account && account->stream) {
        value.len = 1;
        value.data = (u_char *) (account->resumed ? "1" : "0");
    }

    ngx_http_agentstream_variable_set(v, &value);

    return NGX_OK;
}


/* one that is empty is not there, which a log shows as "-" */

static void
ngx_http_agentstream_variable_set(ngx_http_variable_value_t *v,
    ngx_str_t *value)
{
    v->len = value->len;
    v->data = value->len ? value->data : (u_char *) "";
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = (value->len == 0);
}
