
/*
 * Copyright (C) agentstream contributors
 *
 * Pictures: those that a tool returns, and those that the user has sent, which
 * are a part of the history.  Other files are not sent to a client.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


ngx_int_t
ngx_http_agentstream_translate_file_picture(ngx_http_agentstream_json_t *json,
    ngx_uint_t file, ngx_str_t *data, ngx_str_t *mime)
{
    u_char  *p;

    *mime = ngx_http_agentstream_opencode_text(json, file, "mime");
    *data = ngx_http_agentstream_opencode_text(json, file, "url");

    if (mime->len < sizeof("image/") - 1
        || ngx_strncmp(mime->data, "image/", sizeof("image/") - 1) != 0
        || data->len < sizeof("data:;base64,") - 1
        || ngx_strncmp(data->data, "data:", sizeof("data:") - 1) != 0)
    {
        return NGX_DECLINED;
    }

    p = memchr(data->data, ',', data->len);

    if (p == NULL
        || p - data->data < (ssize_t) (sizeof("data:;base64") - 1)
        || ngx_strncmp(p - (sizeof(";base64") - 1), ";base64",
                       sizeof(";base64") - 1)
           != 0)
    {
        return NGX_DECLINED;
    }

    p++;
    data->len -= p - data->data;
    data->data = p;

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_translate_file_update(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_part_t *part,
    ngx_http_agentstream_json_t *json, ngx_uint_t value)
{
    ngx_str_t                           data, mime;
    ngx_http_agentstream_acp_buf_t     *b;
    ngx_http_agentstream_tr_message_t  *m;

    m = part->message;

    if (part->final || m->assistant || tr->conf.core
        || !ngx_http_agentstream_tr_speaks(tr, m)
        || ngx_http_agentstream_translate_file_picture(json, value, &data,
                                                       &mime)
           != NGX_OK)
    {
        return NGX_OK;
    }

    part->final = 1;

    b = &tr->work->buf;

    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_USER,
                                  tr->timestamp);
    ngx_http_agentstream_acp_literal(b,
                                ",\"sessionUpdate\":\"user_message_chunk\"");
    ngx_http_agentstream_acp_member_text(b, ",\"messageId\":", &m->sn.str);
    ngx_http_agentstream_acp_literal(b, ",\"content\":");
    ngx_http_agentstream_acp_image(b, &data, &mime);
    ngx_http_agentstream_acp_close(b, &m->session->meta);

    return ngx_http_agentstream_translate_send(tr, 0);
}
