
/*
 * Copyright (C) agentstream contributors
 *
 * The spelling of packets, see the header.  Whatever is put
 * into a packet goes through json_copy(), so that it is one line of valid
 * text even if it came as half a surrogate pair or with line feeds.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_acp.h"


#define NGX_HTTP_AGENTSTREAM_ACP_BUF_MIN  1024


#define ngx_http_agentstream_acp_cpy(p, text)                                 \
    ngx_cpymem(p, text, sizeof(text) - 1)


static void ngx_http_agentstream_acp_tool_fields(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_acp_tool_t *tool);
static void ngx_http_agentstream_acp_comma(ngx_http_agentstream_acp_buf_t *b);


static ngx_str_t  ngx_http_agentstream_acp_heads[] = {
    ngx_string("{\"type\":\"agent_message_chunk\",\"timestamp\":\""),
    ngx_string("{\"type\":\"agent_thought_chunk\",\"timestamp\":\""),
    ngx_string("{\"type\":\"user_message_chunk\",\"timestamp\":\"")
};


static ngx_str_t  ngx_http_agentstream_acp_updates[] = {
    ngx_string("\",\"sessionUpdate\":\"agent_message_chunk\""),
    ngx_string("\",\"sessionUpdate\":\"agent_thought_chunk\""),
    ngx_string("\",\"sessionUpdate\":\"user_message_chunk\"")
};


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
    dst = ngx_http_agentstream_acp_cpy(dst,
                                       "{\"type\":\"error\",\"timestamp\":\"");
    dst = ngx_cpymem(dst, timestamp, NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN);
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
    ngx_uint_t kind, ngx_str_t *message, ngx_str_t *text, ngx_str_t *meta)
{
    ngx_str_t  *part;

    part = &ngx_http_agentstream_acp_heads[kind];
    dst = ngx_cpymem(dst, part->data, part->len);
    dst = ngx_cpymem(dst, timestamp, NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN);

    part = &ngx_http_agentstream_acp_updates[kind];
    dst = ngx_cpymem(dst, part->data, part->len);

    if (message) {
        dst = ngx_http_agentstream_acp_cpy(dst, ",\"messageId\":\"");
        dst = ngx_cpymem(dst, message->data, message->len);
        *dst++ = '"';
    }

    dst = ngx_http_agentstream_acp_cpy(dst,
                          ",\"content\":{\"type\":\"text\",\"text\":\"");
    dst = ngx_http_agentstream_json_copy(dst, text);
    dst = ngx_http_agentstream_acp_cpy(dst,
                                     "\",\"annotations\":null},\"_meta\":");
    dst = ngx_cpymem(dst, meta->data, meta->len);
    *dst++ = '}';

    return dst;
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
    ngx_http_agentstream_acp_json(b, text);
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
    const char *type, u_char *timestamp)
{
    b->len = 0;
    b->failed = 0;

    ngx_http_agentstream_acp_literal(b, "{\"type\":\"");
    ngx_http_agentstream_acp_add(b, type, ngx_strlen(type));
    ngx_http_agentstream_acp_literal(b, "\",\"timestamp\":\"");
    ngx_http_agentstream_acp_add(b, timestamp,
                                 NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN);
    ngx_http_agentstream_acp_literal(b, "\"");
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
    ngx_http_agentstream_acp_open(b, "tool_call_start", timestamp);
    ngx_http_agentstream_acp_literal(b, ",\"sessionUpdate\":\"tool_call\",");
    ngx_http_agentstream_acp_tool_fields(b, tool);
    ngx_http_agentstream_acp_literal(b,
                  ",\"rawOutput\":null,\"content\":null,\"locations\":[]");
}


void
ngx_http_agentstream_acp_tool_progress(ngx_http_agentstream_acp_buf_t *b,
    u_char *timestamp, ngx_http_agentstream_acp_tool_t *tool)
{
    ngx_http_agentstream_acp_open(b, "tool_call_progress", timestamp);
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
    ngx_http_agentstream_acp_member_text(b, "{\"type\":\"content\","
                              "\"content\":{\"type\":\"image\",\"data\":",
                              data);
    ngx_http_agentstream_acp_member_text(b, ",\"mimeType\":", mime);
    ngx_http_agentstream_acp_literal(b, ",\"annotations\":null},"
                                        "\"_meta\":null}");
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
    ngx_http_agentstream_acp_open(b, "prompt_response", timestamp);
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
