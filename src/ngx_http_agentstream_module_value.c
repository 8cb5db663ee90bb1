
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 5: values of directives that are more than nginx's own slots can read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_module_value.h"


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
