
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Values of directives that nginx's own slot functions cannot read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_fields.h"
#include "ngx_http_agentstream_module_value.h"
#include "ngx_http_agentstream_status.h"
#include "ngx_http_agentstream_request.h"
#include "ngx_http_agentstream_module_check.h"
#include "ngx_http_agentstream_name.h"
#include "ngx_http_agentstream_remote.h"


static char *ngx_http_agentstream_module_store_auth(ngx_conf_t *cf,
    ngx_http_agentstream_redis_conf_t *redis, ngx_str_t *value);
static char *ngx_http_agentstream_module_store_ssl(ngx_conf_t *cf,
    ngx_http_agentstream_redis_conf_t *redis, ngx_str_t *certificate,
    ngx_uint_t verify);


ngx_conf_bitmask_t  ngx_http_agentstream_module_fields[] = {
    { ngx_string("content"), NGX_HTTP_AGENTSTREAM_FIELD_CONTENT },
    { ngx_string("parts"), NGX_HTTP_AGENTSTREAM_FIELD_PARTS },
    { ngx_string("model"), NGX_HTTP_AGENTSTREAM_FIELD_MODEL },
    { ngx_string("agent"), NGX_HTTP_AGENTSTREAM_FIELD_AGENT },
    { ngx_string("system"), NGX_HTTP_AGENTSTREAM_FIELD_SYSTEM },
    { ngx_string("variant"), NGX_HTTP_AGENTSTREAM_FIELD_VARIANT },
    { ngx_string("tools"), NGX_HTTP_AGENTSTREAM_FIELD_TOOLS },
    { ngx_string("client_request_id"),
      NGX_HTTP_AGENTSTREAM_FIELD_REQUEST_ID },
    { ngx_string("title"), NGX_HTTP_AGENTSTREAM_FIELD_TITLE },
    { ngx_string("name"), NGX_HTTP_AGENTSTREAM_FIELD_NAME },
    { ngx_string("all"), NGX_HTTP_AGENTSTREAM_FIELD_ALL },
    { ngx_null_string, 0 }
};


ngx_conf_enum_t  ngx_http_agentstream_module_failure[] = {
    { ngx_string("refuse"), NGX_HTTP_AGENTSTREAM_STORE_REFUSE },
    { ngx_string("local"), NGX_HTTP_AGENTSTREAM_STORE_LOCAL },
    { ngx_null_string, 0 }
};


char *
ngx_http_agentstream_module_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_agentstream_main_conf_t *amcf = conf;

    ssize_t     size;
    ngx_str_t  *value, s;

    if (amcf->zone_size != NGX_CONF_UNSET_SIZE) {
        return "is duplicate";
    }

    value = cf->args->elts;

    size = ngx_parse_size(&value[1]);

    if (size == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid zone size \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    if (size < (ssize_t) (64 * ngx_pagesize)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "agentstream zone \"%V\" is too small", &value[1]);
        return NGX_CONF_ERROR;
    }

    amcf->zone_size = size;

    if (cf->args->nelts == 2) {
        return NGX_CONF_OK;
    }

    if (ngx_strncmp(value[2].data, "retain=", 7) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\"", &value[2]);
        return NGX_CONF_ERROR;
    }

    s.data = value[2].data + 7;
    s.len = value[2].len - 7;

    amcf->retain = ngx_parse_time(&s, 0);

    if (amcf->retain == (ngx_msec_t) NGX_ERROR || amcf->retain < 1000) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid time in \"%V\", at least 1s is needed",
                           &value[2]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_agentstream_module_model(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    char  *p = conf;

    char                       *rv;
    ngx_str_t                   provider, model;
    ngx_http_complex_value_t  **value;

    rv = ngx_http_set_complex_value_slot(cf, cmd, conf);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    value = (ngx_http_complex_value_t **) (p + cmd->offset);

    /* a value with variables is known only when a request arrives */

    if ((*value)->lengths == NULL
        && (*value)->value.len
        && ngx_http_agentstream_fields_split(&(*value)->value, &provider,
                                             &model)
           != NGX_OK)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "agentstream_model \"%V\" must be "
                           "\"provider/model\"", &(*value)->value);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_agentstream_module_owner(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
#if (NGX_HTTP_AGENTSTREAM_NAMES)

    return ngx_http_set_complex_value_slot(cf, cmd, conf);

#else

    return "needs OpenSSL's libcrypto, which was not there when the module "
           "was built";

#endif
}


char *
ngx_http_agentstream_module_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_agentstream_loc_conf_t *alcf = conf;

    ngx_str_t                         *value;
    ngx_http_core_loc_conf_t          *clcf;
    ngx_http_core_srv_conf_t          *cscf;
    ngx_http_agentstream_main_conf_t  *amcf;

    if (alcf->name.len) {
        return "is duplicate";
    }

    if (alcf->status) {
        return "cannot be used beside \"agentstream_status\"";
    }

    value = cf->args->elts;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->noname || clcf->named) {
        return "needs a location with a prefix";
    }

#if (NGX_PCRE)
    if (clcf->regex) {
        return "cannot be used in a location given by a regular expression";
    }
#endif

    alcf->name = clcf->name;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        return NGX_CONF_OK;
    }

    if (value[1].data[0] != '/' || value[1].data[value[1].len - 1] != '/') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "agentstream prefix \"%V\" must begin and end "
                           "with \"/\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    if (clcf->handler) {
        return NGX_HTTP_AGENTSTREAM_MODULE_BESIDE;
    }

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);
    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_agentstream_module);

    alcf->prefix = value[1];
    alcf->server = cscf->ctx;

    amcf->used = 1;
    clcf->handler = ngx_http_agentstream_request_handler;

    return ngx_http_agentstream_module_place(cf, alcf);
}


char *
ngx_http_agentstream_module_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_agentstream_loc_conf_t *alcf = conf;

    ngx_http_core_loc_conf_t          *clcf;
    ngx_http_agentstream_main_conf_t  *amcf;

    if (alcf->status) {
        return "is duplicate";
    }

    if (alcf->name.len) {
        return "cannot be used beside \"agentstream\"";
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_agentstream_module);

    alcf->status = 1;

    amcf->used = 1;
    clcf->handler = ngx_http_agentstream_status_handler;

    return NGX_CONF_OK;
}


char *
ngx_http_agentstream_module_store(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_agentstream_main_conf_t *amcf = conf;

    u_char                             *buf;
    ngx_str_t                          *value, certificate;
    ngx_uint_t                          i, verify;
    const char                         *wrong;
    ngx_http_agentstream_redis_conf_t  *redis;

    if (amcf->remote) {
        return "is duplicate";
    }

    value = cf->args->elts;

    redis = ngx_pcalloc(cf->pool, sizeof(ngx_http_agentstream_redis_conf_t));
    buf = ngx_pnalloc(cf->pool, value[1].len + 3);

    if (redis == NULL || buf == NULL) {
        return NGX_CONF_ERROR;
    }

    /* the address may contain a password, so it is not logged */

    wrong = ngx_http_agentstream_url_parse(&redis->address, &value[1], buf);

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the address of \"agentstream_store\" %s", wrong);
        return NGX_CONF_ERROR;
    }

    verify = 1;
    ngx_str_null(&certificate);

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strcmp(value[i].data, "ssl_verify=off") == 0) {
            verify = 0;
            continue;
        }

        if (ngx_strncmp(value[i].data, "ssl_trusted_certificate=", 24) == 0) {
            certificate.data = value[i].data + 24;
            certificate.len = value[i].len - 24;
            continue;
        }

        if (ngx_strncmp(value[i].data, "sentinel_auth=", 14) == 0) {

            if (ngx_http_agentstream_module_store_auth(cf, redis, &value[i])
                != NGX_CONF_OK)
            {
                return NGX_CONF_ERROR;
            }

            continue;
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid parameter \"%V\"",
                           &value[i]);
        return NGX_CONF_ERROR;
    }

    amcf->remote = redis;

    return redis->address.tls
           ? ngx_http_agentstream_module_store_ssl(cf, redis, &certificate,
                                                   verify)
           : NGX_CONF_OK;
}


/* what the Sentinels want, which may be something else than the master */

static char *
ngx_http_agentstream_module_store_auth(ngx_conf_t *cf,
    ngx_http_agentstream_redis_conf_t *redis, ngx_str_t *value)
{
    u_char      *buf;
    ngx_str_t    text;
    const char  *wrong;

    text.data = value->data + 14;
    text.len = value->len - 14;

    buf = ngx_pnalloc(cf->pool, value->len);
    if (buf == NULL) {
        return NGX_CONF_ERROR;
    }

    wrong = redis->address.master.len
            ? ngx_http_agentstream_url_login(&redis->sentinel_user,
                                             &redis->sentinel_password, &text,
                                             buf)
            : "needs an address with \"sentinel://\"";

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the parameter \"sentinel_auth\" %s", wrong);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_agentstream_module_store_init(ngx_conf_t *cf,
    ngx_http_agentstream_main_conf_t *amcf)
{
    char                               *err;
    ngx_http_core_loc_conf_t           *clcf;
    ngx_http_agentstream_redis_conf_t  *redis;

    redis = amcf->remote;

    if (redis == NULL) {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* nginx has one without servers if none is configured */

    if (clcf->resolver && clcf->resolver->connections.nelts) {
        redis->resolver = clcf->resolver;
    }

    redis->resolver_timeout = clcf->resolver_timeout;

    ngx_conf_init_msec_value(redis->resolver_timeout, 30000);

    err = ngx_http_agentstream_redis_resolve(cf, redis);

    if (err != NGX_CONF_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the address of \"agentstream_store\": %s", err);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_agentstream_module_store_ssl(ngx_conf_t *cf,
    ngx_http_agentstream_redis_conf_t *redis, ngx_str_t *certificate,
    ngx_uint_t verify)
{
#if (NGX_SSL)

    ngx_pool_cleanup_t  *cln;

    if (verify && certificate->len == 0) {
        return "needs \"ssl_trusted_certificate=\" or \"ssl_verify=off\"";
    }

    redis->ssl = ngx_pcalloc(cf->pool, sizeof(ngx_ssl_t));
    if (redis->ssl == NULL) {
        return NGX_CONF_ERROR;
    }

    redis->ssl->log = cf->log;
    redis->verify = verify;

    if (ngx_ssl_create(redis->ssl, NGX_SSL_TLSv1_2|NGX_SSL_TLSv1_3, NULL)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    /* what could not be written is tried again from another place in memory */

    (void) SSL_CTX_set_mode(redis->ssl->ctx,
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        ngx_ssl_cleanup_ctx(redis->ssl);
        return NGX_CONF_ERROR;
    }

    cln->handler = ngx_ssl_cleanup_ctx;
    cln->data = redis->ssl;

    if (verify
        && ngx_ssl_trusted_certificate(cf, redis->ssl, certificate, 3)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;

#else

    return "needs an nginx with TLS";

#endif
}
