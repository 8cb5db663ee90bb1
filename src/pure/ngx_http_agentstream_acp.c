
/*
 * Copyright (C) agentstream contributors
 *
 * How packets are written; see the header.  Everything that is put into a
 * packet goes through json_copy(), so that it is one line of valid text even
 * if it was half a surrogate pair or had line feeds.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_acp.h"


#define NGX_HTTP_AGENTSTREAM_ACP_BUF_MIN  1024

/* for a shorter text the holes would take more memory than they save */
#define NGX_HTTP_AGENTSTREAM_ACP_SHARED   64

#define NGX_HTTP_AGENTSTREAM_ACP_TYPE     "{\"type\":\""
#define NGX_HTTP_AGENTSTREAM_ACP_TIME     "\",\"timestamp\":\""

/* a chunk, from its timestamp on */
#define NGX_HTTP_AGENTSTREAM_ACP_UPDATE   "\",\"sessionUpdate\":\""
#define NGX_HTTP_AGENTSTREAM_ACP_MESSAGE  "\",\"messageId\":\""
#define NGX_HTTP_AGENTSTREAM_ACP_CONTENT                                      \
    "\",\"content\":{\"type\":\"text\",\"text\":\""
#define NGX_HTTP_AGENTSTREAM_ACP_META     "\",\"annotations\":null},\"_meta\":"


#define ngx_http_agentstream_acp_cpy(p, text)                                 \
    ngx_cpymem(p, text, sizeof(text) - 1)


static u_char *ngx_http_agentstream_acp_head(u_char *dst, ngx_uint_t type,
    u_char *timestamp);
static void ngx_http_agentstream_acp_tool_fields(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_acp_tool_t *tool);
static void ngx_http_agentstream_acp_comma(ngx_http_agentstream_acp_buf_t *b);


static ngx_str_t  ngx_http_agentstream_acp_kinds[] = {
    ngx_string("other"),
    ngx_string("read"),
    ngx_string("edit"),
    ngx_string("delete"),
    ngx_string("move"),
    ngx_string("search"),
    ngx_string("execute"),
    ngx_string("think"),
    ngx_string("fetch"),
    ngx_string("switch_mode")
};


static ngx_str_t  ngx_http_agentstream_acp_statuses[] = {
    ngx_string("pending"),
    ngx_string("in_progress"),
    ngx_string("completed"),
    ngx_string("failed")
};


u_char *
ngx_http_agentstream_acp_timestamp(u_char *dst, time_t sec, ngx_uint_t msec)
{
    ngx_tm_t  tm;

    ngx_gmtime(sec, &tm);

    return ngx_sprintf(dst, "%4d-%02d-%02dT%02d:%02d:%02d.%03uiZ",
                       tm.ngx_tm_year, tm.ngx_tm_mon, tm.ngx_tm_mday,
                       tm.ngx_tm_hour, tm.ngx_tm_min, tm.ngx_tm_sec,
                       msec % 1000);
}


void
ngx_http_agentstream_acp_msec(u_char *timestamp, ngx_uint_t msec)
{
    u_char  *p;

    p = timestamp + NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN - 1;

    *--p = (u_char) ('0' + msec % 10);
    *--p = (u_char) ('0' + msec / 10 % 10);
    *--p = (u_char) ('0' + msec / 100 % 10);
}


ngx_int_t
ngx_http_agentstream_acp_time(ngx_http_agentstream_record_t *record)
{
    size_t      skip;
    u_char     *p;
    ngx_str_t  *name;

    /* {"type":"…","timestamp":"2026-01-22T00:11:51.712Z" */

    name = &ngx_http_agentstream_record_names[record->type];
    skip = sizeof("{\"type\":\"") - 1 + name->len
           + sizeof(NGX_HTTP_AGENTSTREAM_ACP_TIME) - 1;

    if (record->json.len < skip + NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN) {
        return NGX_ERROR;
    }

    p = record->json.data + skip;

    if (p[-1] != '"' || p[10] != 'T' || p[23] != 'Z') {
        return NGX_ERROR;
    }

#define ngx_http_agentstream_acp_two(p)  (((p)[0] - '0') * 10 + (p)[1] - '0')

    return ((ngx_http_agentstream_acp_two(p + 11) * 60
             + ngx_http_agentstream_acp_two(p + 14)) * 60
            + ngx_http_agentstream_acp_two(p + 17)) * 1000
           + (p[20] - '0') * 100 + ngx_http_agentstream_acp_two(p + 21);

#undef ngx_http_agentstream_acp_two
}


static u_char *
ngx_http_agentstream_acp_head(u_char *dst, ngx_uint_t type, u_char *timestamp)
{
    ngx_str_t  *name;

    name = &ngx_http_agentstream_record_names[type];

    dst = ngx_http_agentstream_acp_cpy(dst, NGX_HTTP_AGENTSTREAM_ACP_TYPE);
    dst = ngx_cpymem(dst, name->data, name->len);
    dst = ngx_http_agentstream_acp_cpy(dst, NGX_HTTP_AGENTSTREAM_ACP_TIME);

    return ngx_cpymem(dst, timestamp, NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN);
}


size_t
ngx_http_agentstream_acp_timestamp_offset(ngx_uint_t type)
{
    return sizeof(NGX_HTTP_AGENTSTREAM_ACP_TYPE
                  NGX_HTTP_AGENTSTREAM_ACP_TIME) - 1
           + ngx_http_agentstream_record_names[type].len;
}


size_t
ngx_http_agentstream_acp_error_size(ngx_str_t *message, ngx_str_t *details)
{
    return sizeof("{\"type\":\"error\",\"timestamp\":\"\",\"message\":\"\","
                  "\"code\":,\"details\":null}") - 1
           + NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN
           + ngx_http_agentstream_json_escape_size(message->len)
           + NGX_INT_T_LEN
           + (details ? details->len : 0);
}


u_char *
ngx_http_agentstream_acp_error(u_char *dst, u_char *timestamp,
    ngx_str_t *message, ngx_uint_t code, ngx_str_t *details)
{
    dst = ngx_http_agentstream_acp_head(dst, NGX_HTTP_AGENTSTREAM_RECORD_ERROR,
                                        timestamp);
    dst = ngx_http_agentstream_acp_cpy(dst, "\",\"message\":\"");
    dst = ngx_http_agentstream_json_escape(dst, message->data, message->len);
    dst = ngx_http_agentstream_acp_cpy(dst, "\",\"code\":");

    if (code) {
        dst = ngx_sprintf(dst, "%ui", code);

    } else {
        dst = ngx_http_agentstream_acp_cpy(dst, "null");
    }

    dst = ngx_http_agentstream_acp_cpy(dst, ",\"details\":");

    if (details) {
        dst = ngx_http_agentstream_json_copy(dst, details);

    } else {
        dst = ngx_http_agentstream_acp_cpy(dst, "null");
    }

    *dst++ = '}';

    return dst;
}


size_t
ngx_http_agentstream_acp_chunk_size(ngx_str_t *message, ngx_str_t *text,
    ngx_str_t *meta)
{
    return sizeof("{\"type\":\"agent_message_chunk\",\"timestamp\":\"\","
                  "\"sessionUpdate\":\"agent_message_chunk\","
                  "\"messageId\":\"\",\"content\":{\"type\":\"text\","
                  "\"text\":\"\",\"annotations\":null},\"_meta\":}") - 1
           + NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN
           + (message ? message->len : 0)
           + text->len
           + meta->len;
}


u_char *
ngx_http_agentstream_acp_chunk(u_char *dst, u_char *timestamp,
    ngx_uint_t type, ngx_str_t *message, ngx_str_t *text, ngx_str_t *meta)
{
    ngx_str_t  *name;

    name = &ngx_http_agentstream_record_names[type];

    dst = ngx_http_agentstream_acp_head(dst, type, timestamp);
    dst = ngx_http_agentstream_acp_cpy(dst, NGX_HTTP_AGENTSTREAM_ACP_UPDATE);
    dst = ngx_cpymem(dst, name->data, name->len);

    if (message) {
        dst = ngx_http_agentstream_acp_cpy(dst,
                                           NGX_HTTP_AGENTSTREAM_ACP_MESSAGE);
        dst = ngx_cpymem(dst, message->data, message->len);
    }

    dst = ngx_http_agentstream_acp_cpy(dst, NGX_HTTP_AGENTSTREAM_ACP_CONTENT);
    dst = ngx_http_agentstream_json_copy(dst, text);
    dst = ngx_http_agentstream_acp_cpy(dst, NGX_HTTP_AGENTSTREAM_ACP_META);
    dst = ngx_cpymem(dst, meta->data, meta->len);
    *dst++ = '}';

    return dst;
}


/* where the text begins follows from the lengths of what is before it, and
   where it ends from what is behind it, so that nothing has to be scanned */

ngx_int_t
ngx_http_agentstream_acp_chunk_text(ngx_str_t *json, ngx_uint_t type,
    ngx_str_t *text)
{
    size_t   len;
    u_char  *p, *last;

    len = sizeof(NGX_HTTP_AGENTSTREAM_ACP_META "null}") - 1;
    last = json->data + json->len - len;

    if (ngx_memcmp(last, NGX_HTTP_AGENTSTREAM_ACP_META "null}", len) != 0) {
        return NGX_DECLINED;
    }

    p = json->data + ngx_http_agentstream_acp_timestamp_offset(type)
        + NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN
        + sizeof(NGX_HTTP_AGENTSTREAM_ACP_UPDATE) - 1
        + ngx_http_agentstream_record_names[type].len;

    len = sizeof(NGX_HTTP_AGENTSTREAM_ACP_MESSAGE) - 1;

    if (ngx_memcmp(p, NGX_HTTP_AGENTSTREAM_ACP_MESSAGE, len) == 0) {
        p = ngx_strlchr(p + len, last, '"');
    }

    text->data = p + sizeof(NGX_HTTP_AGENTSTREAM_ACP_CONTENT) - 1;
    text->len = last - text->data;

    return NGX_OK;
}


void
ngx_http_agentstream_acp_destroy(ngx_http_agentstream_acp_buf_t *b)
{
    if (b->start) {
        free(b->start);
    }

    ngx_memzero(b, sizeof(ngx_http_agentstream_acp_buf_t));
}


u_char *
ngx_http_agentstream_acp_room(ngx_http_agentstream_acp_buf_t *b, size_t size)
{
    u_char  *p;
    size_t   n;

    if (b->failed) {
        return NULL;
    }

    if (size > b->size - b->len) {

        n = ngx_max(b->size * 2, NGX_HTTP_AGENTSTREAM_ACP_BUF_MIN);
        n = ngx_max(n, b->len + size);

        p = realloc(b->start, n);
        if (p == NULL) {
            b->failed = 1;
            return NULL;
        }

        b->start = p;
        b->size = n;
    }

    return b->start + b->len;
}


void
ngx_http_agentstream_acp_fit(ngx_http_agentstream_acp_buf_t *b)
{
    u_char  *p;

    if (b->len == 0 || b->size / 2 < b->len) {
        return;
    }

    p = realloc(b->start, b->len);

    if (p) {
        b->start = p;
        b->size = b->len;
    }
}


void
ngx_http_agentstream_acp_add(ngx_http_agentstream_acp_buf_t *b,
    const void *data, size_t len)
{
    u_char  *p;

    p = ngx_http_agentstream_acp_room(b, len);

    if (p && len) {
        ngx_memcpy(p, data, len);
        b->len += len;
    }
}


void
ngx_http_agentstream_acp_json(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *json)
{
    u_char  *p;

    p = ngx_http_agentstream_acp_room(b, json->len);

    if (p) {
        p = ngx_http_agentstream_json_copy(p, json);
        b->len = p - b->start;
    }
}


void
ngx_http_agentstream_acp_text(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *text)
{
    if (b->shared.len == 0
        || b->shared.len != text->len
        || b->nholes == NGX_HTTP_AGENTSTREAM_RECORD_HOLES
        || ngx_memcmp(b->shared.data, text->data, text->len) != 0)
    {
        ngx_http_agentstream_acp_json(b, text);
        return;
    }

    b->holes[b->nholes++] = b->len;
}


void
ngx_http_agentstream_acp_json_text(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *json, ngx_str_t *text)
{
    ngx_str_t  piece;

    piece.data = json->data;
    piece.len = text->data - json->data;

    ngx_http_agentstream_acp_json(b, &piece);
    ngx_http_agentstream_acp_text(b, text);

    piece.data = text->data + text->len;
    piece.len = json->data + json->len - piece.data;

    ngx_http_agentstream_acp_json(b, &piece);
}


void
ngx_http_agentstream_acp_number(ngx_http_agentstream_acp_buf_t *b,
    int64_t number)
{
    u_char  *p;

    p = ngx_http_agentstream_acp_room(b, NGX_INT64_LEN);

    if (p) {
        p = ngx_sprintf(p, "%L", number);
        b->len = p - b->start;
    }
}


void
ngx_http_agentstream_acp_member(ngx_http_agentstream_acp_buf_t *b,
    const char *name, ngx_str_t *json)
{
    ngx_http_agentstream_acp_add(b, name, ngx_strlen(name));
    ngx_http_agentstream_acp_json(b, json);
}


void
ngx_http_agentstream_acp_member_text(ngx_http_agentstream_acp_buf_t *b,
    const char *name, ngx_str_t *text)
{
    ngx_http_agentstream_acp_add(b, name, ngx_strlen(name));
    ngx_http_agentstream_acp_literal(b, "\"");
    ngx_http_agentstream_acp_text(b, text);
    ngx_http_agentstream_acp_literal(b, "\"");
}


void
ngx_http_agentstream_acp_member_number(ngx_http_agentstream_acp_buf_t *b,
    const char *name, int64_t number)
{
    ngx_http_agentstream_acp_add(b, name, ngx_strlen(name));
    ngx_http_agentstream_acp_number(b, number);
}


void
ngx_http_agentstream_acp_open(ngx_http_agentstream_acp_buf_t *b,
    ngx_uint_t type, u_char *timestamp)
{
    u_char  *p;

    b->len = 0;
    b->failed = 0;
    b->type = type;
    b->shared.len = 0;
    b->text = 0;
    b->nholes = 0;

    p = ngx_http_agentstream_acp_room(b,
                             ngx_http_agentstream_acp_timestamp_offset(type)
                             + NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN + 1);

    if (p) {
        p = ngx_http_agentstream_acp_head(p, type, timestamp);
        *p++ = '"';
        b->len = p - b->start;
    }
}


void
ngx_http_agentstream_acp_share(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *text)
{
    if (text->len >= NGX_HTTP_AGENTSTREAM_ACP_SHARED) {
        b->shared = *text;
    }
}


ngx_int_t
ngx_http_agentstream_acp_end(ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_record_t *record)
{
    size_t  len;

    if (b->shared.len) {
        len = b->len;

        if (b->nholes) {
            ngx_http_agentstream_acp_json(b, &b->shared);
        }

        b->text = b->len - len;
        b->shared.len = 0;
    }

    if (b->failed) {
        return NGX_ERROR;
    }

    record->type = b->type;
    record->json.data = b->start;
    record->json.len = b->len - b->text;
    record->text.data = b->start + record->json.len;
    record->text.len = b->text;
    record->nholes = b->nholes;

    ngx_memcpy(record->holes, b->holes, sizeof(record->holes));

    return NGX_OK;
}


void
ngx_http_agentstream_acp_close(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *meta)
{
    ngx_http_agentstream_acp_member(b, ",\"_meta\":", meta);
    ngx_http_agentstream_acp_literal(b, "}");
}


void
ngx_http_agentstream_acp_tool_start(ngx_http_agentstream_acp_buf_t *b,
    u_char *timestamp, ngx_http_agentstream_acp_tool_t *tool)
{
    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START,
                                  timestamp);
    ngx_http_agentstream_acp_literal(b, ",\"sessionUpdate\":\"tool_call\",");
    ngx_http_agentstream_acp_tool_fields(b, tool);
    ngx_http_agentstream_acp_literal(b,
                  ",\"rawOutput\":null,\"content\":null,\"locations\":[]");
}


void
ngx_http_agentstream_acp_tool_progress(ngx_http_agentstream_acp_buf_t *b,
    u_char *timestamp, ngx_http_agentstream_acp_tool_t *tool)
{
    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS,
                                  timestamp);
    ngx_http_agentstream_acp_literal(b,
                                 ",\"sessionUpdate\":\"tool_call_update\",");
    ngx_http_agentstream_acp_tool_fields(b, tool);
}


void
ngx_http_agentstream_acp_tool_call(ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_acp_tool_t *tool)
{
    ngx_http_agentstream_acp_literal(b, "{");
    ngx_http_agentstream_acp_tool_fields(b, tool);
    ngx_http_agentstream_acp_literal(b, "}");
}


static void
ngx_http_agentstream_acp_tool_fields(ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_acp_tool_t *tool)
{
    ngx_http_agentstream_acp_member_text(b, "\"toolCallId\":", &tool->id);
    ngx_http_agentstream_acp_member_text(b, ",\"title\":", &tool->title);
    ngx_http_agentstream_acp_member_text(b, ",\"kind\":",
                                &ngx_http_agentstream_acp_kinds[tool->kind]);
    ngx_http_agentstream_acp_member_text(b, ",\"status\":",
                           &ngx_http_agentstream_acp_statuses[tool->status]);
    ngx_http_agentstream_acp_member(b, ",\"rawInput\":", &tool->input);
}


void
ngx_http_agentstream_acp_tool_close(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *name, ngx_str_t *fields)
{
    ngx_http_agentstream_acp_member_text(b, ",\"_meta\":{\"toolName\":", name);
    ngx_http_agentstream_acp_add(b, fields->data, fields->len);
    ngx_http_agentstream_acp_literal(b, "}}");
}


void
ngx_http_agentstream_acp_text_block(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *text)
{
    ngx_http_agentstream_acp_comma(b);
    ngx_http_agentstream_acp_member_text(b, "{\"type\":\"content\","
                              "\"content\":{\"type\":\"text\",\"text\":",
                              text);
    ngx_http_agentstream_acp_literal(b, ",\"annotations\":null},"
                                        "\"_meta\":null}");
}


void
ngx_http_agentstream_acp_image_block(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *data, ngx_str_t *mime)
{
    ngx_http_agentstream_acp_comma(b);
    ngx_http_agentstream_acp_literal(b, "{\"type\":\"content\","
                                        "\"content\":");
    ngx_http_agentstream_acp_image(b, data, mime);
    ngx_http_agentstream_acp_literal(b, ",\"_meta\":null}");
}


void
ngx_http_agentstream_acp_image(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *data, ngx_str_t *mime)
{
    ngx_http_agentstream_acp_member_text(b, "{\"type\":\"image\",\"data\":",
                                         data);
    ngx_http_agentstream_acp_member_text(b, ",\"mimeType\":", mime);
    ngx_http_agentstream_acp_literal(b, ",\"annotations\":null}");
}


void
ngx_http_agentstream_acp_diff_block(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *path, ngx_str_t *old, ngx_str_t *new)
{
    ngx_http_agentstream_acp_comma(b);
    ngx_http_agentstream_acp_member_text(b, "{\"type\":\"diff\",\"path\":",
                                         path);
    ngx_http_agentstream_acp_member(b, ",\"oldText\":", old);
    ngx_http_agentstream_acp_member_text(b, ",\"newText\":", new);
    ngx_http_agentstream_acp_literal(b, "}");
}


void
ngx_http_agentstream_acp_location(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *path)
{
    ngx_http_agentstream_acp_comma(b);
    ngx_http_agentstream_acp_member_text(b, "{\"path\":", path);
    ngx_http_agentstream_acp_literal(b, ",\"line\":null,\"_meta\":null}");
}


static void
ngx_http_agentstream_acp_comma(ngx_http_agentstream_acp_buf_t *b)
{
    if (b->len && b->start[b->len - 1] != '[') {
        ngx_http_agentstream_acp_literal(b, ",");
    }
}


void
ngx_http_agentstream_acp_options(ngx_http_agentstream_acp_buf_t *b)
{
    ngx_http_agentstream_acp_literal(b, ",\"options\":["
        "{\"optionId\":\"once\",\"name\":\"Allow once\","
        "\"kind\":\"allow_once\"},"
        "{\"optionId\":\"always\",\"name\":\"Always allow\","
        "\"kind\":\"allow_always\"},"
        "{\"optionId\":\"reject\",\"name\":\"Reject\","
        "\"kind\":\"reject_once\"}]");
}


void
ngx_http_agentstream_acp_prompt_response(ngx_http_agentstream_acp_buf_t *b,
    u_char *timestamp, ngx_str_t *reason,
    ngx_http_agentstream_acp_usage_t *usage)
{
    ngx_http_agentstream_acp_open(b, NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE,
                                  timestamp);
    ngx_http_agentstream_acp_member_text(b, ",\"stopReason\":", reason);

    if (usage == NULL) {
        /* void */

    } else if (usage->total == 0 && usage->input == 0 && usage->output == 0
               && usage->thought == 0 && usage->cached_read == 0
               && usage->cached_write == 0)
    {
        ngx_http_agentstream_acp_literal(b, ",\"usage\":null");

    } else {
        ngx_http_agentstream_acp_member_number(b,
                              ",\"usage\":{\"totalTokens\":", usage->total);
        ngx_http_agentstream_acp_member_number(b, ",\"inputTokens\":",
                                               usage->input);
        ngx_http_agentstream_acp_member_number(b, ",\"outputTokens\":",
                                               usage->output);
        ngx_http_agentstream_acp_member_number(b, ",\"thoughtTokens\":",
                                               usage->thought);
        ngx_http_agentstream_acp_member_number(b, ",\"cachedReadTokens\":",
                                               usage->cached_read);
        ngx_http_agentstream_acp_member_number(b, ",\"cachedWriteTokens\":",
                                               usage->cached_write);
        ngx_http_agentstream_acp_literal(b, "}");
    }

    ngx_http_agentstream_acp_literal(b, ",\"_meta\":{}}");
}
