
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The directives of chats that nginx's slot functions cannot read, and whether
 * what they say fits together.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_chat.h"
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_name.h"
#include "ngx_http_agentstream_webhook.h"


static ngx_int_t ngx_http_agentstream_webhook_option(ngx_conf_t *cf,
    ngx_str_t *arg, const char *name, ngx_http_complex_value_t **value);
static ngx_uint_t ngx_http_agentstream_webhook_varies(
    ngx_http_complex_value_t *value);
static char *ngx_http_agentstream_webhook_check(ngx_conf_t *cf,
    ngx_http_agentstream_loc_conf_t *conf);


ngx_conf_enum_t  ngx_http_agentstream_webhook_progress[] = {
    { ngx_string("keep"), NGX_HTTP_AGENTSTREAM_CHAT_KEEP_PROGRESS },
    { ngx_string("delete"), NGX_HTTP_AGENTSTREAM_CHAT_DELETE_PROGRESS },
    { ngx_string("off"), NGX_HTTP_AGENTSTREAM_CHAT_NO_PROGRESS },
    { ngx_null_string, 0 }
};


char *
ngx_http_agentstream_webhook_chat(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_agentstream_loc_conf_t *alcf = conf;

    ngx_int_t                          rc;
    ngx_str_t                         *value;
    ngx_uint_t                         i;
    ngx_http_agentstream_chat_conf_t  *chat;

    if (alcf->chat) {
        return "is duplicate";
    }

    if (!NGX_HTTP_AGENTSTREAM_CHATS) {
        return "needs a module that was built with OpenSSL's libcrypto and "
               "libcjson";
    }

    chat = ngx_pcalloc(cf->pool, sizeof(ngx_http_agentstream_chat_conf_t));
    if (chat == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    chat->platform = ngx_http_agentstream_chat_find(&value[1]);

    if (chat->platform == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown chat platform \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    chat->prefix = value[2];

    if (chat->prefix.len == 0 || chat->prefix.data[0] != '/'
        || chat->prefix.data[chat->prefix.len - 1] != '/')
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "agentstream_chat prefix \"%V\" must begin and end "
                           "with \"/\"", &chat->prefix);
        return NGX_CONF_ERROR;
    }

    for (i = 3; i < cf->args->nelts; i++) {

        if (ngx_strcmp(value[i].data, "poll") == 0) {
            chat->poll = 1;
            continue;
        }

        rc = ngx_http_agentstream_webhook_option(cf, &value[i], "secret=",
                                                 &chat->secret);

        if (rc == NGX_DECLINED) {
            rc = ngx_http_agentstream_webhook_option(cf, &value[i], "verify=",
                                                     &chat->verify);
        }

        if (rc == NGX_OK) {
            continue;
        }

        /* what is wrong may be a secret, so it is not shown */

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "argument %ui of \"agentstream_chat\" must be "
                           "\"poll\", or \"secret=\" or \"verify=\" with a "
                           "value", i);
        return NGX_CONF_ERROR;
    }

    alcf->chat = chat;

    return NGX_CONF_OK;
}


/* NGX_DECLINED: this is another option */

static ngx_int_t
ngx_http_agentstream_webhook_option(ngx_conf_t *cf, ngx_str_t *arg,
    const char *name, ngx_http_complex_value_t **value)
{
    size_t                            len;
    ngx_str_t                         text;
    ngx_http_compile_complex_value_t  ccv;

    len = ngx_strlen(name);

    if (arg->len < len || ngx_strncmp(arg->data, name, len) != 0) {
        return NGX_DECLINED;
    }

    text.data = arg->data + len;
    text.len = arg->len - len;

    if (text.len == 0 || *value) {
        return NGX_ERROR;
    }

    *value = ngx_pcalloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (*value == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &text;
    ccv.complex_value = *value;

    return ngx_http_compile_complex_value(&ccv);
}


char *
ngx_http_agentstream_webhook_allow(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_agentstream_loc_conf_t *alcf = conf;

    ngx_str_t   *value, *id;
    ngx_uint_t   i;

    if (alcf->chat_allow == NGX_CONF_UNSET_PTR) {
        alcf->chat_allow = ngx_array_create(cf->pool, 4, sizeof(ngx_str_t));
        if (alcf->chat_allow == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        id = ngx_array_push(alcf->chat_allow);
        if (id == NULL) {
            return NGX_CONF_ERROR;
        }

        *id = value[i];
    }

    return NGX_CONF_OK;
}


void
ngx_http_agentstream_webhook_create_conf(ngx_http_agentstream_loc_conf_t *conf)
{
    conf->chat_allow = NGX_CONF_UNSET_PTR;
    conf->chat_progress = NGX_CONF_UNSET_UINT;
    conf->chat_thoughts = NGX_CONF_UNSET;
    conf->chat_edit_interval = NGX_CONF_UNSET_MSEC;
    conf->chat_tool_interval = NGX_CONF_UNSET_MSEC;
    conf->chat_heartbeat = NGX_CONF_UNSET_MSEC;
    conf->chat_picture_size = NGX_CONF_UNSET_SIZE;
    conf->chat_timeout = NGX_CONF_UNSET;
}


char *
ngx_http_agentstream_webhook_merge_conf(ngx_conf_t *cf,
    ngx_http_agentstream_loc_conf_t *prev,
    ngx_http_agentstream_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    ngx_conf_merge_ptr_value(conf->chat_allow, prev->chat_allow, NULL);
    ngx_conf_merge_uint_value(conf->chat_progress, prev->chat_progress,
                              NGX_HTTP_AGENTSTREAM_CHAT_KEEP_PROGRESS);
    ngx_conf_merge_value(conf->chat_thoughts, prev->chat_thoughts, 1);
    ngx_conf_merge_msec_value(conf->chat_edit_interval,
                              prev->chat_edit_interval, 0);
    ngx_conf_merge_msec_value(conf->chat_tool_interval,
                              prev->chat_tool_interval, 5000);
    ngx_conf_merge_msec_value(conf->chat_heartbeat, prev->chat_heartbeat,
                              60000);
    ngx_conf_merge_size_value(conf->chat_picture_size,
                              prev->chat_picture_size, 5 * 1024 * 1024);
    ngx_conf_merge_sec_value(conf->chat_timeout, prev->chat_timeout, 86400);

    if (conf->chat == NULL) {
        return NGX_CONF_OK;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    clcf->handler = ngx_http_agentstream_webhook_handler;
    clcf->client_max_body_size = NGX_HTTP_AGENTSTREAM_CHAT_BODY_MAX;

    /* "if" and "limit_except" are a part of the location around them */

    return clcf->noname ? NGX_CONF_OK
                        : ngx_http_agentstream_webhook_check(cf, conf);
}


static ngx_uint_t
ngx_http_agentstream_webhook_varies(ngx_http_complex_value_t *value)
{
    return value && value->lengths;
}


static char *
ngx_http_agentstream_webhook_check(ngx_conf_t *cf,
    ngx_http_agentstream_loc_conf_t *conf)
{
    ngx_http_agentstream_loc_conf_t   **listed;
    ngx_http_agentstream_main_conf_t   *amcf;

    if (conf->prefix.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"agentstream_chat\" needs \"agentstream\" in the "
                           "same location");
        return NGX_CONF_ERROR;
    }

    if (conf->chat->poll) {

        if (conf->chat->platform->poll == NULL) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" cannot be polled",
                               &conf->chat->platform->name);
            return NGX_CONF_ERROR;
        }

        if (ngx_http_agentstream_webhook_varies(conf->route)
            || ngx_http_agentstream_webhook_varies(conf->owner)
            || ngx_http_agentstream_webhook_varies(conf->directory)
            || ngx_http_agentstream_webhook_varies(conf->agent)
            || ngx_http_agentstream_webhook_varies(conf->model))
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "variables have no values in a location that "
                               "is polled for updates");
            return NGX_CONF_ERROR;
        }

    } else if (conf->chat->secret == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"agentstream_chat\" needs \"secret=\", because "
                           "anybody can send something to its location");
        return NGX_CONF_ERROR;
    }

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_agentstream_module);

    listed = ngx_array_push(&amcf->chats);
    if (listed == NULL) {
        return NGX_CONF_ERROR;
    }

    *listed = conf;

    /* one turn at a time, and a message that comes in the meantime waits; a
       chat is not a client that can disconnect */

    conf->busy = NGX_HTTP_AGENTSTREAM_BUSY_QUEUE;
    conf->on_disconnect = NGX_HTTP_AGENTSTREAM_CONTINUE;

    return NGX_CONF_OK;
}
