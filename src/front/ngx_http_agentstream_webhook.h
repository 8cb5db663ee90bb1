
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_WEBHOOK_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_WEBHOOK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"


/*
 * The requests of chat platforms: each tells what somebody has done in a chat.
 */


ngx_int_t ngx_http_agentstream_webhook_handler(ngx_http_request_t *r);

/* directives */
char *ngx_http_agentstream_webhook_chat(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_agentstream_webhook_allow(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
extern ngx_conf_enum_t  ngx_http_agentstream_webhook_progress[];

/* the part of a location's configuration that is about chats */
void ngx_http_agentstream_webhook_create_conf(
    ngx_http_agentstream_loc_conf_t *conf);
char *ngx_http_agentstream_webhook_merge_conf(ngx_conf_t *cf,
    ngx_http_agentstream_loc_conf_t *prev,
    ngx_http_agentstream_loc_conf_t *conf);


#endif /* _NGX_HTTP_AGENTSTREAM_WEBHOOK_H_INCLUDED_ */
