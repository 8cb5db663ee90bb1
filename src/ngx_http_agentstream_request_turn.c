
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Layer 4: requests for turns and their streams.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_prompt.h"
#include "ngx_http_agentstream_reader.h"
#include "ngx_http_agentstream_request_int.h"
#include "ngx_http_agentstream_turn.h"


ngx_int_t
ngx_http_agentstream_request_send_message(ngx_http_agentstream_request_t *req)
{
    ngx_int_t                          rc;
    ngx_str_t                          running, message, details;
    ngx_http_request_t                *r;
    ngx_http_agentstream_prompt_t      prompt;
    ngx_http_agentstream_turn_args_t   args;
    u_char                             id[NGX_HTTP_AGENTSTREAM_MESSAGE_ID_LEN],
                                       busy[64], buf[128];

    r = req->request;

    ngx_http_agentstream_turn_id(id);

    args.conf = req->conf;
    args.route = req->server;
    args.session = req->session;
    args.id.data = id;
    args.id.len = sizeof(id);

    rc = ngx_http_agentstream_prompt_build(r->pool, &req->body, &args.id,
                                           &prompt);

    ngx_http_agentstream_request_free_body(req);

    if (rc == NGX_DECLINED) {
        message.data = prompt.error;
        message.len = prompt.error_len;

        return ngx_http_agentstream_request_error_text(req,
                                                       NGX_HTTP_BAD_REQUEST,
                                                       &message, NULL);
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    args.prompt = prompt.body;
    running.data = busy;

    rc = ngx_http_agentstream_turn_create(&args, &running);

    ngx_pfree(r->pool, prompt.body.data);

    if (rc == NGX_BUSY) {
        details.data = buf;
        details.len = ngx_sprintf(buf, "{\"turnId\":\"%V\"}", &running) - buf;

        return ngx_http_agentstream_request_error(req, NGX_HTTP_CONFLICT,
                                      "A turn is running in this session",
                                      &details);
    }

    if (rc != NGX_OK) {
        return ngx_http_agentstream_request_error(req,
                                             NGX_HTTP_SERVICE_UNAVAILABLE,
                                             "Out of zone memory", NULL);
    }

    return ngx_http_agentstream_reader_attach(r, req->conf, &args.id, 1);
}
