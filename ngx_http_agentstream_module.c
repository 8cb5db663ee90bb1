
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Directives, configuration, start and end of worker processes.  No
 * logic: what happens to a request begins in ngx_http_agentstream_request.c.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_call.h"
#include "ngx_http_agentstream_clock.h"
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_delivery.h"
#include "ngx_http_agentstream_fields.h"
#include "ngx_http_agentstream_hub.h"
#include "ngx_http_agentstream_line.h"
#include "ngx_http_agentstream_module_check.h"
#include "ngx_http_agentstream_module_value.h"
#include "ngx_http_agentstream_notify.h"
#include "ngx_http_agentstream_output.h"
#include "ngx_http_agentstream_remote.h"
#include "ngx_http_agentstream_request.h"
#include "ngx_http_agentstream_status.h"
#include "ngx_http_agentstream_turn.h"
#include "ngx_http_agentstream_variable.h"
#include "ngx_http_agentstream_webhook.h"
#include "ngx_http_agentstream_version.h"
#include "ngx_http_agentstream_store.h"


#define NGX_HTTP_AGENTSTREAM_EVENT_MIN  4096
#define NGX_HTTP_AGENTSTREAM_TURN_MIN   4096


static ngx_int_t ngx_http_agentstream_init(ngx_conf_t *cf);
static void *ngx_http_agentstream_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_agentstream_init_main_conf(ngx_conf_t *cf, void *conf);
static void *ngx_http_agentstream_create_loc_conf(ngx_conf_t *cf);
static void ngx_http_agentstream_merge_block(ngx_http_core_loc_conf_t *clcf,
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_loc_conf_t *prev);
static void ngx_http_agentstream_server_name(ngx_conf_t *cf,
    ngx_str_t *result);
static char *ngx_http_agentstream_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_http_agentstream_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_agentstream_init_process(ngx_cycle_t *cycle);
static void ngx_http_agentstream_leave(void);
static void ngx_http_agentstream_exit_process(ngx_cycle_t *cycle);


ngx_http_agentstream_worker_t  *ngx_http_agentstream_worker;


static ngx_str_t  ngx_http_agentstream_zone_name = ngx_string("agentstream");


static ngx_conf_enum_t  ngx_http_agentstream_tool_kinds[] = {
    { ngx_string("seed"), NGX_HTTP_AGENTSTREAM_KINDS_SEED },
    { ngx_string("acp"), NGX_HTTP_AGENTSTREAM_KINDS_ACP },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_agentstream_packets[] = {
    { ngx_string("all"), NGX_HTTP_AGENTSTREAM_PACKETS_ALL },
    { ngx_string("core"), NGX_HTTP_AGENTSTREAM_PACKETS_CORE },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_agentstream_protocols[] = {
    { ngx_string("packets"), NGX_HTTP_AGENTSTREAM_PROTOCOL_PACKETS },
    { ngx_string("ai-sdk"), NGX_HTTP_AGENTSTREAM_PROTOCOL_AISDK },
    { ngx_string("ag-ui"), NGX_HTTP_AGENTSTREAM_PROTOCOL_AGUI },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_agentstream_busy[] = {
    { ngx_string("reject"), NGX_HTTP_AGENTSTREAM_BUSY_REJECT },
    { ngx_string("queue"), NGX_HTTP_AGENTSTREAM_BUSY_QUEUE },
    { ngx_string("attach"), NGX_HTTP_AGENTSTREAM_BUSY_ATTACH },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_agentstream_on_disconnect[] = {
    { ngx_string("continue"), NGX_HTTP_AGENTSTREAM_CONTINUE },
    { ngx_string("abort"), NGX_HTTP_AGENTSTREAM_ABORT_TURN },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_agentstream_permissions[] = {
    { ngx_string("ask"), NGX_HTTP_AGENTSTREAM_ASK },
    { ngx_string("allow"), NGX_HTTP_AGENTSTREAM_ALLOW },
    { ngx_string("deny"), NGX_HTTP_AGENTSTREAM_DENY },
    { ngx_null_string, 0 }
};


static ngx_conf_num_bounds_t  ngx_http_agentstream_positive = {
    ngx_conf_check_num_bounds, 1, -1
};


static ngx_command_t  ngx_http_agentstream_commands[] = {

    { ngx_string("agentstream"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_agentstream_module_set,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("agentstream_zone"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE12,
      ngx_http_agentstream_module_zone,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("agentstream_store"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE123,
      ngx_http_agentstream_module_store,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("agentstream_store_failure"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_agentstream_main_conf_t, store_failure),
      &ngx_http_agentstream_module_failure },

    { ngx_string("agentstream_route"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, route),
      NULL },

    { ngx_string("agentstream_directory"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, directory),
      NULL },

    { ngx_string("agentstream_owner"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_agentstream_module_owner,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, owner),
      NULL },

    { ngx_string("agentstream_fields"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_conf_set_bitmask_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, fields),
      &ngx_http_agentstream_module_fields },

    { ngx_string("agentstream_agent"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, agent),
      NULL },

    { ngx_string("agentstream_model"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_agentstream_module_model,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, model),
      NULL },

    { ngx_string("agentstream_keepalive"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, keepalive),
      NULL },

    { ngx_string("agentstream_heartbeat"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, heartbeat),
      NULL },

    { ngx_string("agentstream_idle_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, idle_timeout),
      NULL },

    { ngx_string("agentstream_turn_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, turn_timeout),
      NULL },

    { ngx_string("agentstream_detach_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, detach_timeout),
      NULL },

    { ngx_string("agentstream_protocol"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, protocol),
      &ngx_http_agentstream_protocols },

    { ngx_string("agentstream_busy"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, busy),
      &ngx_http_agentstream_busy },

    { ngx_string("agentstream_on_disconnect"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, on_disconnect),
      &ngx_http_agentstream_on_disconnect },

    { ngx_string("agentstream_question_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, question_timeout),
      NULL },

    { ngx_string("agentstream_permission_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, permission_timeout),
      NULL },

    { ngx_string("agentstream_tool_throttle"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, tool_throttle),
      NULL },

    { ngx_string("agentstream_max_steps"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, max_steps),
      &ngx_http_agentstream_positive },

    { ngx_string("agentstream_turn_size"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, turn_size),
      NULL },

    { ngx_string("agentstream_event_size"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, event_size),
      NULL },

    { ngx_string("agentstream_permissions"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, permissions),
      &ngx_http_agentstream_permissions },

    { ngx_string("agentstream_tool_kinds"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, tool_kinds),
      &ngx_http_agentstream_tool_kinds },

    { ngx_string("agentstream_packets"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, packets),
      &ngx_http_agentstream_packets },

    { ngx_string("agentstream_chat"),
      NGX_HTTP_LOC_CONF|NGX_CONF_2MORE,
      ngx_http_agentstream_webhook_chat,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("agentstream_chat_allow"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_agentstream_webhook_allow,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("agentstream_chat_progress"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, chat_progress),
      &ngx_http_agentstream_webhook_progress },

    { ngx_string("agentstream_chat_thoughts"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, chat_thoughts),
      NULL },

    { ngx_string("agentstream_chat_edit_interval"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, chat_edit_interval),
      NULL },

    { ngx_string("agentstream_chat_tool_interval"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, chat_tool_interval),
      NULL },

    { ngx_string("agentstream_chat_heartbeat"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, chat_heartbeat),
      NULL },

    { ngx_string("agentstream_chat_picture_size"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, chat_picture_size),
      NULL },

    { ngx_string("agentstream_chat_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_sec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_agentstream_loc_conf_t, chat_timeout),
      NULL },

    { ngx_string("agentstream_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS,
      ngx_http_agentstream_module_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_agentstream_module_ctx = {
    ngx_http_agentstream_variable_init,    /* preconfiguration */
    ngx_http_agentstream_init,             /* postconfiguration */

    ngx_http_agentstream_create_main_conf, /* create main configuration */
    ngx_http_agentstream_init_main_conf,   /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_agentstream_create_loc_conf,  /* create location configuration */
    ngx_http_agentstream_merge_loc_conf    /* merge location configuration */
};


ngx_module_t  ngx_http_agentstream_module = {
    NGX_MODULE_V1,
    &ngx_http_agentstream_module_ctx,      /* module context */
    ngx_http_agentstream_commands,         /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_agentstream_init_module,      /* init module */
    ngx_http_agentstream_init_process,     /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_agentstream_exit_process,     /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_agentstream_init(ngx_conf_t *cf)
{
    ngx_http_agentstream_main_conf_t  *amcf;

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_agentstream_module);

    if (!amcf->used) {
        return NGX_OK;
    }

    if (ngx_http_agentstream_module_check(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    amcf->accounts = ngx_http_agentstream_variable_used(cf);

    ngx_http_agentstream_call_init_filters();

    return ngx_http_agentstream_call_init_headers(cf);
}


static void *
ngx_http_agentstream_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_agentstream_main_conf_t  *amcf;

    amcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_agentstream_main_conf_t));
    if (amcf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     amcf->zone = NULL;
     *     amcf->accounts = 0;
     *     amcf->places = NULL;
     *     amcf->remote = NULL;
     *     amcf->used = 0;
     */

    if (ngx_array_init(&amcf->chats, cf->pool, 1,
                       sizeof(ngx_http_agentstream_loc_conf_t *))
        != NGX_OK)
    {
        return NULL;
    }

    amcf->zone_size = NGX_CONF_UNSET_SIZE;
    amcf->retain = NGX_CONF_UNSET_MSEC;
    amcf->store_failure = NGX_CONF_UNSET_UINT;

    return amcf;
}


static char *
ngx_http_agentstream_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_agentstream_main_conf_t *amcf = conf;

    ngx_core_conf_t              *ccf;
    ngx_http_agentstream_zone_t  *zone;

    ngx_conf_init_size_value(amcf->zone_size, 64 * 1024 * 1024);
    ngx_conf_init_msec_value(amcf->retain, 600000);
    ngx_conf_init_uint_value(amcf->store_failure,
                             NGX_HTTP_AGENTSTREAM_STORE_REFUSE);

    if (!amcf->used) {
        return NGX_CONF_OK;
    }

    if (ngx_http_agentstream_module_store_init(cf, amcf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    ccf = (ngx_core_conf_t *) ngx_get_conf(cf->cycle->conf_ctx,
                                           ngx_core_module);

    zone = ngx_http_agentstream_store_open(cf->pool, ccf, amcf->retain);
    if (zone == NULL) {
        return NGX_CONF_ERROR;
    }

    amcf->zone = ngx_shared_memory_add(cf, &ngx_http_agentstream_zone_name,
                                       amcf->zone_size,
                                       &ngx_http_agentstream_module);
    if (amcf->zone == NULL) {
        return NGX_CONF_ERROR;
    }

    amcf->zone->init = ngx_http_agentstream_store_init;
    amcf->zone->data = zone;

    return NGX_CONF_OK;
}


static void *
ngx_http_agentstream_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_agentstream_loc_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_agentstream_loc_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->prefix = { 0, NULL };
     *     conf->name = { 0, NULL };
     *     conf->server = NULL;
     *     conf->status = 0;
     *     conf->fields = 0;
     *     conf->body_size = 0;
     *     conf->chat = NULL;
     */

    conf->route = NGX_CONF_UNSET_PTR;
    conf->directory = NGX_CONF_UNSET_PTR;
    conf->owner = NGX_CONF_UNSET_PTR;
    conf->agent = NGX_CONF_UNSET_PTR;
    conf->model = NGX_CONF_UNSET_PTR;
    conf->keepalive = NGX_CONF_UNSET_MSEC;
    conf->heartbeat = NGX_CONF_UNSET_MSEC;
    conf->idle_timeout = NGX_CONF_UNSET_MSEC;
    conf->turn_timeout = NGX_CONF_UNSET_MSEC;
    conf->detach_timeout = NGX_CONF_UNSET_MSEC;
    conf->question_timeout = NGX_CONF_UNSET_MSEC;
    conf->permission_timeout = NGX_CONF_UNSET_MSEC;
    conf->permissions = NGX_CONF_UNSET_UINT;
    conf->tool_throttle = NGX_CONF_UNSET_MSEC;
    conf->protocol = NGX_CONF_UNSET_UINT;
    conf->busy = NGX_CONF_UNSET_UINT;
    conf->on_disconnect = NGX_CONF_UNSET_UINT;
    conf->tool_kinds = NGX_CONF_UNSET_UINT;
    conf->packets = NGX_CONF_UNSET_UINT;
    conf->max_steps = NGX_CONF_UNSET;
    conf->turn_size = NGX_CONF_UNSET_SIZE;
    conf->event_size = NGX_CONF_UNSET_SIZE;

    ngx_http_agentstream_webhook_create_conf(conf);

    return conf;
}


/* "if" and "limit_except" are a part of the location around them */

static void
ngx_http_agentstream_merge_block(ngx_http_core_loc_conf_t *clcf,
    ngx_http_agentstream_loc_conf_t *conf,
    ngx_http_agentstream_loc_conf_t *prev)
{
    if (!clcf->noname || clcf->handler) {
        return;
    }

    conf->prefix = prev->prefix;
    conf->name = prev->name;
    conf->server = prev->server;
    conf->status = prev->status;
    conf->chat = prev->chat;

    if (conf->prefix.len) {
        clcf->handler = ngx_http_agentstream_request_handler;

    } else if (conf->status) {
        clcf->handler = ngx_http_agentstream_status_handler;
    }
}


/* not cscf->server_name, which is the machine's name if none is set */

static void
ngx_http_agentstream_server_name(ngx_conf_t *cf, ngx_str_t *result)
{
    ngx_http_server_name_t    *name;
    ngx_http_core_srv_conf_t  *cscf;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    if (cscf->server_names.nelts) {
        name = cscf->server_names.elts;
        *result = name[0].name;
    }
}


static char *
ngx_http_agentstream_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_agentstream_loc_conf_t *prev = parent;
    ngx_http_agentstream_loc_conf_t *conf = child;

    ngx_http_core_loc_conf_t          *clcf;
    ngx_http_agentstream_main_conf_t  *amcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_agentstream_module);

    ngx_http_agentstream_server_name(cf, &conf->server_name);
    ngx_http_agentstream_merge_block(clcf, conf, prev);

    ngx_conf_merge_ptr_value(conf->route, prev->route, NULL);
    ngx_conf_merge_ptr_value(conf->directory, prev->directory, NULL);
    ngx_conf_merge_ptr_value(conf->owner, prev->owner, NULL);
    ngx_conf_merge_bitmask_value(conf->fields, prev->fields,
                                 (NGX_CONF_BITMASK_SET
                                  |NGX_HTTP_AGENTSTREAM_FIELD_ALL));
    ngx_conf_merge_ptr_value(conf->agent, prev->agent, NULL);
    ngx_conf_merge_ptr_value(conf->model, prev->model, NULL);
    ngx_conf_merge_msec_value(conf->keepalive, prev->keepalive, 15000);
    ngx_conf_merge_msec_value(conf->heartbeat, prev->heartbeat, 60000);
    ngx_conf_merge_msec_value(conf->idle_timeout, prev->idle_timeout, 300000);
    ngx_conf_merge_msec_value(conf->turn_timeout, prev->turn_timeout, 3600000);
    ngx_conf_merge_msec_value(conf->detach_timeout, prev->detach_timeout, 0);
    ngx_conf_merge_uint_value(conf->busy, prev->busy,
                              NGX_HTTP_AGENTSTREAM_BUSY_REJECT);
    ngx_conf_merge_uint_value(conf->on_disconnect, prev->on_disconnect,
                              NGX_HTTP_AGENTSTREAM_CONTINUE);
    ngx_conf_merge_msec_value(conf->question_timeout, prev->question_timeout,
                              300000);
    ngx_conf_merge_msec_value(conf->permission_timeout,
                              prev->permission_timeout, 300000);
    ngx_conf_merge_uint_value(conf->permissions, prev->permissions,
                              NGX_HTTP_AGENTSTREAM_ASK);
    ngx_conf_merge_uint_value(conf->protocol, prev->protocol,
                              NGX_HTTP_AGENTSTREAM_PROTOCOL_PACKETS);
    ngx_conf_merge_msec_value(conf->tool_throttle, prev->tool_throttle, 200);
    ngx_conf_merge_uint_value(conf->tool_kinds, prev->tool_kinds,
                              NGX_HTTP_AGENTSTREAM_KINDS_SEED);
    ngx_conf_merge_uint_value(conf->packets, prev->packets,
                              NGX_HTTP_AGENTSTREAM_PACKETS_ALL);
    ngx_conf_merge_value(conf->max_steps, prev->max_steps, 500);
    ngx_conf_merge_size_value(conf->turn_size, prev->turn_size,
                              ngx_min(8 * 1024 * 1024, amcf->zone_size));
    ngx_conf_merge_size_value(conf->event_size, prev->event_size,
                              4 * 1024 * 1024);

    if (conf->idle_timeout == 0 || conf->turn_timeout == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "agentstream_idle_timeout and "
                           "agentstream_turn_timeout must not be 0");
        return NGX_CONF_ERROR;
    }

    if (conf->event_size < NGX_HTTP_AGENTSTREAM_EVENT_MIN
        || conf->turn_size < NGX_HTTP_AGENTSTREAM_TURN_MIN)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "agentstream_event_size must be at least %d and "
                           "agentstream_turn_size at least %d",
                           NGX_HTTP_AGENTSTREAM_EVENT_MIN,
                           NGX_HTTP_AGENTSTREAM_TURN_MIN);
        return NGX_CONF_ERROR;
    }

    if (conf->prefix.len) {
        /*
         * A body that is too large must get an "error" packet like any other
         * bad request, so the limit is ours to check.  All locations of the
         * core module are merged by now.
         */

        conf->body_size = clcf->client_max_body_size;
        clcf->client_max_body_size = 0;
    }

    return ngx_http_agentstream_webhook_merge_conf(cf, prev, conf);
}


static ngx_int_t
ngx_http_agentstream_init_module(ngx_cycle_t *cycle)
{
    ngx_http_agentstream_main_conf_t  *amcf;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_agentstream_module);

    if (amcf && amcf->used && !ngx_test_config) {
        ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0,
                      "using " NGX_HTTP_AGENTSTREAM_VER);

        ngx_http_agentstream_store_keep(amcf->zone->data);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_init_process(ngx_cycle_t *cycle)
{
    ngx_http_agentstream_worker_t     *worker;
    ngx_http_agentstream_main_conf_t  *amcf;

    /* the cache manager and loader are processes too */

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_agentstream_module);

    if (amcf == NULL || !amcf->used) {
        return NGX_OK;
    }

    worker = ngx_pcalloc(cycle->pool, sizeof(ngx_http_agentstream_worker_t));
    if (worker == NULL) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_worker = worker;

    worker->zone = amcf->zone->data;

    worker->stats = ngx_http_agentstream_store_init_worker(worker->zone);

    if (ngx_http_agentstream_call_init_worker(cycle) != NGX_OK
        || ngx_http_agentstream_clock_init_worker(cycle) != NGX_OK
        || ngx_http_agentstream_hub_init_worker(cycle) != NGX_OK
        || ngx_http_agentstream_turn_init_worker(cycle) != NGX_OK
        || ngx_http_agentstream_line_init_worker(cycle) != NGX_OK
        || ngx_http_agentstream_remote_init_worker(cycle, amcf) != NGX_OK
        || ngx_http_agentstream_delivery_init_worker(cycle) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_notify_init_worker(cycle,
                                                   ngx_http_agentstream_leave);
}


/* the worker finishes what it has and starts nothing new */

static void
ngx_http_agentstream_leave(void)
{
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx,
                                           ngx_core_module);

    ngx_http_agentstream_delivery_leave();
    ngx_http_agentstream_turn_leave(ccf->shutdown_timeout);
    ngx_http_agentstream_hub_exit();
    ngx_http_agentstream_notify_all();
}


static void
ngx_http_agentstream_exit_process(ngx_cycle_t *cycle)
{
    if (ngx_http_agentstream_worker == NULL) {
        return;
    }

    ngx_http_agentstream_hub_exit();
    ngx_http_agentstream_notify_exit_worker();
    ngx_http_agentstream_output_exit_worker();
    ngx_http_agentstream_remote_exit_worker(ngx_http_agentstream_worker->zone);
    ngx_http_agentstream_store_exit_worker(ngx_http_agentstream_worker->zone);
}
