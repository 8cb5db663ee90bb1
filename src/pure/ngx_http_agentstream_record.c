
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Records: the names of their types, their layout in memory, and the complete
 * JSON of a record.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_record.h"


/* in the order of ngx_http_agentstream_record_e */

ngx_str_t  ngx_http_agentstream_record_names[] = {
    ngx_null_string,
    ngx_string("agent_message_chunk"),
    ngx_string("agent_thought_chunk"),
    ngx_string("user_message_chunk"),
    ngx_string("tool_call_start"),
    ngx_string("tool_call_progress"),
    ngx_string("agent_plan_update"),
    ngx_string("turn_started"),
    ngx_string("stream_reset"),
    ngx_string("chunks_discarded"),
    ngx_string("context_usage"),
    ngx_string("compaction"),
    ngx_string("subagent_started"),
    ngx_string("session_status"),
    ngx_string("question_asked"),
    ngx_string("question_resolved"),
    ngx_string("request_permission"),
    ngx_string("permission_resolved"),
    ngx_string("heartbeat"),
    ngx_string("prompt_response"),
    ngx_string("error")
};


u_char *
ngx_http_agentstream_record_json(u_char *p,
    ngx_http_agentstream_record_t *record)
{
    return ngx_http_agentstream_record_slice(p, record, &record->json);
}


u_char *
ngx_http_agentstream_record_slice(u_char *p,
    ngx_http_agentstream_record_t *record, ngx_str_t *slice)
{
    size_t      pos, end;
    ngx_uint_t  i;

    pos = slice->data - record->json.data;
    end = pos + slice->len;

    for (i = 0; i < record->nholes; i++) {

        if (record->holes[i] < pos || record->holes[i] > end) {
            continue;
        }

        p = ngx_cpymem(p, record->json.data + pos, record->holes[i] - pos);
        p = ngx_cpymem(p, record->text.data, record->text.len);
        pos = record->holes[i];
    }

    return ngx_cpymem(p, record->json.data + pos, end - pos);
}


void
ngx_http_agentstream_record_pack(ngx_http_agentstream_packed_t *packed,
    ngx_http_agentstream_record_t *record, u_char *p)
{
    uint32_t  len;

    packed->len = record->json.len + record->text.len;
    packed->part = record->part;
    packed->origin = record->origin.len;
    packed->type = record->type;
    packed->nholes = record->nholes;
    packed->pieces = 0;

    if (record->nholes) {
        /* nothing of this is aligned */
        len = record->text.len;
        p = ngx_cpymem(p, &len, sizeof(uint32_t));
        p = ngx_cpymem(p, record->holes, record->nholes * sizeof(uint32_t));
    }

    if (record->origin.len) {
        ngx_memcpy(p, record->origin.data, record->origin.len);
    }
}


void
ngx_http_agentstream_record_unpack(ngx_http_agentstream_record_t *record,
    ngx_http_agentstream_packed_t *packed, u_char *data, u_char *p)
{
    uint32_t  len;

    len = 0;

    record->type = packed->type;
    record->part = packed->part;
    record->nholes = packed->nholes;

    if (record->nholes) {
        ngx_memcpy(&len, p, sizeof(uint32_t));
        ngx_memcpy(record->holes, p + sizeof(uint32_t),
                   record->nholes * sizeof(uint32_t));
    }

    record->json.data = data;
    record->json.len = packed->len - len;
    record->text.data = data + record->json.len;
    record->text.len = len;

    record->origin.data = p
                          + ngx_http_agentstream_record_holes(record->nholes);
    record->origin.len = packed->origin;
}


ngx_int_t
ngx_http_agentstream_record_read(ngx_http_agentstream_record_t *record,
    ngx_str_t *text)
{
    size_t                          rest;
    u_char                         *p;
    uint32_t                        last;
    ngx_uint_t                      i;
    ngx_http_agentstream_packed_t   packed;

    if (text->len < sizeof(ngx_http_agentstream_packed_t)) {
        return NGX_ERROR;
    }

    ngx_memcpy(&packed, text->data, sizeof(ngx_http_agentstream_packed_t));

    p = text->data + sizeof(ngx_http_agentstream_packed_t);
    rest = text->len - sizeof(ngx_http_agentstream_packed_t);

    if (packed.type == NGX_HTTP_AGENTSTREAM_RECORD_NONE
        || packed.type >= NGX_HTTP_AGENTSTREAM_RECORD_TYPES
        || packed.nholes > NGX_HTTP_AGENTSTREAM_RECORD_HOLES
        || packed.pieces
        || (uint64_t) packed.len + ngx_http_agentstream_packed_extra(&packed)
           != rest)
    {
        return NGX_ERROR;
    }

    ngx_http_agentstream_record_unpack(record, &packed, p, p + packed.len);

    if (record->text.len > packed.len) {
        return NGX_ERROR;
    }

    record->seq = 0;
    last = 0;

    for (i = 0; i < record->nholes; i++) {

        if (record->holes[i] < last || record->holes[i] > record->json.len) {
            return NGX_ERROR;
        }

        last = record->holes[i];
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_record_next(ngx_http_agentstream_records_t *records,
    ngx_http_agentstream_record_t *record)
{
    size_t                          len;
    u_char                         *p;
    ngx_http_agentstream_packed_t  *packed;

    if (records->pos == records->last) {
        return NGX_DONE;
    }

    packed = (ngx_http_agentstream_packed_t *) records->pos;

    p = (u_char *) (packed + 1);
    len = packed->len;

    ngx_http_agentstream_record_unpack(record, packed, p, p + len);

    record->seq = records->seq++;

    len += ngx_http_agentstream_packed_extra(packed);
    records->pos += ngx_http_agentstream_packed_size(len);

    return NGX_OK;
}
