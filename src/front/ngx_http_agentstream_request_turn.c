
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The request for the state of a session's turn.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_turn.h"


static u_char *ngx_http_agentstream_request_asks(u_char *p,
    ngx_http_agentstream_node_t *node, ngx_uint_t permission);


/* what is known of the session's current or last turn */

ngx_int_t
ngx_http_agentstream_request_turn(ngx_http_agentstream_request_t *req)
{
    size_t                        size;
    u_char                       *p;
    ngx_str_t                     body;
    ngx_http_agentstream_ask_t   *ask;
    ngx_http_agentstream_node_t  *node;
    ngx_http_agentstream_zone_t  *zone;

    zone = ngx_http_agentstream_worker->zone;

    size = 256;

    ngx_http_agentstream_zone_lock(zone);

    node = ngx_http_agentstream_zone_turn_locked(zone, &req->target.key,
                                                 NGX_HTTP_AGENTSTREAM_NEWEST);

    for (ask = node ? node->asks : NULL; ask; ask = ask->next) {
        size += ask->id_len + sizeof("\"\",") - 1;
    }

    p = ngx_pnalloc(req->request->pool, size);
    if (p == NULL) {
        ngx_http_agentstream_zone_unlock(zone);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    body.data = p;

    if (node) {
        p = ngx_sprintf(body.data, "{\"turnId\":\"%V\",\"running\":%s,"
                        "\"stopReason\":", &node->sn.str,
                        node->state == NGX_HTTP_AGENTSTREAM_TURN_FINISHED
                        ? "false" : "true");

        p = node->stop_reason[0] ? ngx_sprintf(p, "\"%s\"", node->stop_reason)
                                 : ngx_sprintf(p, "null");

        p = ngx_sprintf(p, ",\"packets\":%uL,\"questions\":[",
                        node->journal.last_seq);
        p = ngx_http_agentstream_request_asks(p, node, 0);
        p = ngx_sprintf(p, "],\"permissions\":[");
        p = ngx_http_agentstream_request_asks(p, node, 1);
        p = ngx_sprintf(p, "]}");

    } else {
        p = ngx_sprintf(body.data, "{\"turnId\":null,\"running\":false,"
                        "\"stopReason\":null,\"packets\":0,"
                        "\"questions\":[],\"permissions\":[]}");
    }

    ngx_http_agentstream_zone_unlock(zone);

    body.len = p - body.data;

    return ngx_http_agentstream_request_reply(req, NGX_HTTP_OK, &body);
}


static u_char *
ngx_http_agentstream_request_asks(u_char *p, ngx_http_agentstream_node_t *node,
    ngx_uint_t permission)
{
    ngx_uint_t                   n;
    ngx_http_agentstream_ask_t  *ask;

    n = 0;

    for (ask = node->asks; ask; ask = ask->next) {
        if (ask->permission == permission) {
            p = ngx_sprintf(p, "%s\"%*s\"", n++ ? "," : "",
                            (size_t) ask->id_len, ask->id);
        }
    }

    return p;
}
