
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The module's own protocol, docs/protocol.md: its routes, and packets as
 * events or JSON.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_request_int.h"


static ngx_http_agentstream_request_route_t
    ngx_http_agentstream_request_packet_routes[] =
{
    { NGX_HTTP_POST, 2, "send-message", NULL,
      ngx_http_agentstream_body_required, 1,
      ngx_http_agentstream_request_send_message },

    { NGX_HTTP_GET, 2, "events", NULL,
      ngx_http_agentstream_body_none, 1,
      ngx_http_agentstream_request_events },

    { NGX_HTTP_GET, 2, "turn", NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_turn },

    { NGX_HTTP_GET, 0, NULL, NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_list },

    { NGX_HTTP_POST, 0, NULL, NULL,
      ngx_http_agentstream_body_optional, 0,
      ngx_http_agentstream_request_create },

    { NGX_HTTP_GET, 1, "models", NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_models },

    { NGX_HTTP_GET, 1, "agents", NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_agents },

    { NGX_HTTP_GET, 1, NULL, NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_look_up },

    { NGX_HTTP_PATCH, 1, NULL, NULL,
      ngx_http_agentstream_body_required, 0,
      ngx_http_agentstream_request_rename },

    { NGX_HTTP_DELETE, 1, NULL, NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_delete },

    { NGX_HTTP_GET, 2, "messages", NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_messages },

    { NGX_HTTP_POST, 2, "interrupt", NULL,
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_interrupt },

    { NGX_HTTP_POST, 4, "questions", "reply",
      ngx_http_agentstream_body_required, 0,
      ngx_http_agentstream_request_question_reply },

    { NGX_HTTP_POST, 4, "questions", "reject",
      ngx_http_agentstream_body_none, 0,
      ngx_http_agentstream_request_question_reject },

    { NGX_HTTP_POST, 4, "permissions", "reply",
      ngx_http_agentstream_body_required, 0,
      ngx_http_agentstream_request_permission_reply },

    { 0, 0, NULL, NULL, ngx_http_agentstream_body_none, 0, NULL }
};


ngx_http_agentstream_request_protocol_t  ngx_http_agentstream_request_packets =
{
    ngx_http_agentstream_request_packet_routes,
    &ngx_http_agentstream_wire_events,
    &ngx_http_agentstream_wire_events,
    &ngx_http_agentstream_wire_plain,
    &ngx_http_agentstream_wire_array,
    1,
    0
};
