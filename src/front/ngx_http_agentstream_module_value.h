
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_MODULE_VALUE_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_MODULE_VALUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * What the table of directives refers to: "agentstream",
 * "agentstream_status", "agentstream_zone",
 * "agentstream_model", "agentstream_owner", the names that "agentstream_fields"
 * can list.
 */


char *ngx_http_agentstream_module_set(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_agentstream_module_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_agentstream_module_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_agentstream_module_model(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_agentstream_module_owner(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_agentstream_module_store(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
/* when all directives of the block "http" are known */
char *ngx_http_agentstream_module_store_init(ngx_conf_t *cf,
    ngx_http_agentstream_main_conf_t *amcf);


extern ngx_conf_bitmask_t  ngx_http_agentstream_module_fields[];
extern ngx_conf_enum_t  ngx_http_agentstream_module_failure[];


#endif /* _NGX_HTTP_AGENTSTREAM_MODULE_VALUE_H_INCLUDED_ */
