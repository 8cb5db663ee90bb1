
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_CONF_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * The module's configuration.  It is never written after it was merged.
 */


/* protocols of clients; request.c has the table */
#define NGX_HTTP_AGENTSTREAM_PROTOCOL_PACKETS  0
#define NGX_HTTP_AGENTSTREAM_PROTOCOL_AGUI     1
#define NGX_HTTP_AGENTSTREAM_PROTOCOL_AISDK    2

#define NGX_HTTP_AGENTSTREAM_BUSY_REJECT    0
#define NGX_HTTP_AGENTSTREAM_BUSY_QUEUE     1
#define NGX_HTTP_AGENTSTREAM_BUSY_ATTACH    2

#define NGX_HTTP_AGENTSTREAM_CONTINUE       0
#define NGX_HTTP_AGENTSTREAM_ABORT_TURN     1

#define NGX_HTTP_AGENTSTREAM_KINDS_SEED     0
#define NGX_HTTP_AGENTSTREAM_KINDS_ACP      1

#define NGX_HTTP_AGENTSTREAM_PACKETS_ALL    0
#define NGX_HTTP_AGENTSTREAM_PACKETS_CORE   1

#define NGX_HTTP_AGENTSTREAM_STORE_REFUSE   0
#define NGX_HTTP_AGENTSTREAM_STORE_LOCAL    1

#define NGX_HTTP_AGENTSTREAM_ASK            0
#define NGX_HTTP_AGENTSTREAM_ALLOW          1
#define NGX_HTTP_AGENTSTREAM_DENY           2


#define NGX_HTTP_AGENTSTREAM_CHAT_KEEP_PROGRESS    0
#define NGX_HTTP_AGENTSTREAM_CHAT_DELETE_PROGRESS  1
#define NGX_HTTP_AGENTSTREAM_CHAT_NO_PROGRESS      2


/* "agentstream_chat" */

typedef struct {
    const struct ngx_http_agentstream_chat_platform_s
                                        *platform;
    ngx_str_t                            prefix;     /* of the internal location
                                                        that leads to the
                                                        platform */
    ngx_http_complex_value_t            *secret;     /* NULL: none */
    ngx_http_complex_value_t            *verify;     /* NULL: none */
    ngx_uint_t                           poll;       /* updates are asked for,
                                                        there is no webhook */
} ngx_http_agentstream_chat_conf_t;


typedef struct {
    ngx_shm_zone_t                      *zone;
    size_t                               zone_size;
    ngx_msec_t                           retain;

    /* several machines */
    void                                *remote;     /* the server, see
                                                        remote.h; NULL: one
                                                        machine */
    ngx_uint_t                           store_failure;

    ngx_uint_t                           used;       /* a location has
                                                        "agentstream" or
                                                        "agentstream_status" */
    ngx_uint_t                           accounts;   /* a variable is used that
                                                        needs the account of a
                                                        response */
    ngx_array_t                         *places;     /* where "agentstream"
                                                        stands, for
                                                        module_check; or
                                                        NULL */
    ngx_array_t                          chats;      /* of loc_conf_t *: the
                                                        locations that have
                                                        "agentstream_chat" */
} ngx_http_agentstream_main_conf_t;


typedef struct {
    ngx_str_t                            prefix;     /* of the internal
                                                        location; empty: off */
    ngx_str_t                            name;       /* of this location */
    ngx_http_conf_ctx_t                 *server;     /* where prefix is */
    ngx_str_t                            server_name;    /* its first one, or
                                                        empty: the same on all
                                                        machines that have this
                                                        configuration */
    ngx_uint_t                           status;     /* "agentstream_status" */

    ngx_http_complex_value_t            *route;
    ngx_http_complex_value_t            *directory;
    ngx_http_complex_value_t            *owner;      /* NULL: sessions belong
                                                        to nobody */

    ngx_uint_t                           fields;     /* bits, see fields.h */
    ngx_http_complex_value_t            *agent;
    ngx_http_complex_value_t            *model;

    ngx_msec_t                           keepalive;
    ngx_msec_t                           heartbeat;
    ngx_msec_t                           idle_timeout;
    ngx_msec_t                           turn_timeout;
    ngx_msec_t                           detach_timeout;
    ngx_msec_t                           question_timeout;
    ngx_msec_t                           permission_timeout;
    ngx_msec_t                           tool_throttle;

    ngx_uint_t                           protocol;
    ngx_uint_t                           busy;
    ngx_uint_t                           on_disconnect;
    ngx_uint_t                           permissions;
    ngx_uint_t                           tool_kinds;
    ngx_uint_t                           packets;
    ngx_int_t                            max_steps;

    size_t                               turn_size;
    size_t                               event_size;
    off_t                                body_size;  /* 0: no limit */

    ngx_http_agentstream_chat_conf_t    *chat;       /* NULL: no chat */
    ngx_array_t                         *chat_allow; /* of ngx_str_t; NULL:
                                                        nobody */
    ngx_uint_t                           chat_progress;
    ngx_flag_t                           chat_thoughts;
    ngx_msec_t                           chat_edit_interval;    /* 0: the
                                                        platform's */
    ngx_msec_t                           chat_tool_interval;
    ngx_msec_t                           chat_heartbeat;
    size_t                               chat_picture_size;  /* 0: none are
                                                        read */
    time_t                               chat_timeout;
} ngx_http_agentstream_loc_conf_t;


extern ngx_module_t                    ngx_http_agentstream_module;


#endif /* _NGX_HTTP_AGENTSTREAM_CONF_H_INCLUDED_ */
