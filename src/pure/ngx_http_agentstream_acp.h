
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_ACP_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_ACP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_record.h"


/*
 * How packets are written: their JSON, made from parts that are already JSON.
 * This part does not know OpenCode.  A "text" is the content of a string,
 * escaped and without quotes; a "json" is any value.
 */


#define NGX_HTTP_AGENTSTREAM_TIMESTAMP_LEN                                    \
    (sizeof("2026-01-22T00:11:51.712Z") - 1)


/* ISO 8601 in UTC with milliseconds, always of that length */
u_char *ngx_http_agentstream_acp_timestamp(u_char *dst, time_t sec,
    ngx_uint_t msec);
/* replaces the milliseconds in a timestamp of the same second */
void ngx_http_agentstream_acp_msec(u_char *timestamp, ngx_uint_t msec);

/* "error"; details is JSON or NULL, code 0 is null; message is plain UTF-8 */
size_t ngx_http_agentstream_acp_error_size(ngx_str_t *message,
    ngx_str_t *details);
u_char *ngx_http_agentstream_acp_error(u_char *dst, u_char *timestamp,
    ngx_str_t *message, ngx_uint_t code, ngx_str_t *details);


/* the packet that is written most often: a piece of text, in one of the chunk
   types; message NULL: no messageId */
size_t ngx_http_agentstream_acp_chunk_size(ngx_str_t *message,
    ngx_str_t *text, ngx_str_t *meta);
u_char *ngx_http_agentstream_acp_chunk(u_char *dst, u_char *timestamp,
    ngx_uint_t type, ngx_str_t *message, ngx_str_t *text, ngx_str_t *meta);

/* the text of such a packet, still escaped; NGX_DECLINED: it is the text of a
   subagent */
ngx_int_t ngx_http_agentstream_acp_chunk_text(ngx_str_t *json,
    ngx_uint_t type, ngx_str_t *text);


/*
 * All other packets are written to a buffer that grows.  A zeroed buffer is
 * ready; it keeps its memory from packet to packet.  A failed allocation is
 * remembered, so that only the code that takes the packet has to check for it.
 *
 * A text that the packet contains more than once can be shared: wherever it is
 * written after acp_share(), a hole is left, and acp_end() puts the text after
 * the packet, once; see record.
 */

typedef struct {
    u_char                              *start;
    size_t                               len;
    size_t                               size;
    ngx_uint_t                           failed;
    ngx_uint_t                           type;     /* of the packet */
    ngx_str_t                            shared;   /* the caller's; empty:
                                                      none */
    size_t                               text;     /* the part of len that is
                                                      the shared text, after
                                                      the packet */
    ngx_uint_t                           nholes;
    uint32_t                             holes[
                                         NGX_HTTP_AGENTSTREAM_RECORD_HOLES];
} ngx_http_agentstream_acp_buf_t;

void ngx_http_agentstream_acp_destroy(ngx_http_agentstream_acp_buf_t *b);

/* room for this many more bytes, or NULL; the caller advances len */
u_char *ngx_http_agentstream_acp_room(ngx_http_agentstream_acp_buf_t *b,
    size_t size);
/* gives back memory that is not used, if it is more than half of it */
void ngx_http_agentstream_acp_fit(ngx_http_agentstream_acp_buf_t *b);
void ngx_http_agentstream_acp_add(ngx_http_agentstream_acp_buf_t *b,
    const void *data, size_t len);
void ngx_http_agentstream_acp_json(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *json);
/* writes a text without quotes around it; a hole if it is the shared text */
void ngx_http_agentstream_acp_text(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *text);
/* writes json, in which the text is one of the strings and may be the shared
   text */
void ngx_http_agentstream_acp_json_text(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *json, ngx_str_t *text);
void ngx_http_agentstream_acp_number(ngx_http_agentstream_acp_buf_t *b,
    int64_t number);

/* name is a literal such as ",\"title\":"; a text gets quotes */
void ngx_http_agentstream_acp_member(ngx_http_agentstream_acp_buf_t *b,
    const char *name, ngx_str_t *json);
void ngx_http_agentstream_acp_member_text(ngx_http_agentstream_acp_buf_t *b,
    const char *name, ngx_str_t *text);
void ngx_http_agentstream_acp_member_number(
    ngx_http_agentstream_acp_buf_t *b, const char *name, int64_t number);

#define ngx_http_agentstream_acp_literal(b, text)                             \
    ngx_http_agentstream_acp_add(b, text, sizeof(text) - 1)


/* empties the buffer and begins a packet: {"type":"...","timestamp":"..." */
void ngx_http_agentstream_acp_open(ngx_http_agentstream_acp_buf_t *b,
    ngx_uint_t type, u_char *timestamp);
/* the offset of the timestamp in a packet of that type */
size_t ngx_http_agentstream_acp_timestamp_offset(ngx_uint_t type);

/* from now on the text is kept once, if it is long enough for that; it must
   stay in place until acp_end() */
void ngx_http_agentstream_acp_share(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *text);
/* ends the packet, and sets all fields of its record except seq, part and
   origin; the record is valid until the buffer changes; NGX_ERROR: the buffer
   has failed */
ngx_int_t ngx_http_agentstream_acp_end(ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_record_t *record);

/* ,"_meta":...} */
void ngx_http_agentstream_acp_close(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *meta);


/* tool calls */

typedef enum {
    NGX_HTTP_AGENTSTREAM_ACP_OTHER = 0,
    NGX_HTTP_AGENTSTREAM_ACP_READ,
    NGX_HTTP_AGENTSTREAM_ACP_EDIT,
    NGX_HTTP_AGENTSTREAM_ACP_DELETE,
    NGX_HTTP_AGENTSTREAM_ACP_MOVE,
    NGX_HTTP_AGENTSTREAM_ACP_SEARCH,
    NGX_HTTP_AGENTSTREAM_ACP_EXECUTE,
    NGX_HTTP_AGENTSTREAM_ACP_THINK,
    NGX_HTTP_AGENTSTREAM_ACP_FETCH,
    NGX_HTTP_AGENTSTREAM_ACP_SWITCH_MODE
} ngx_http_agentstream_acp_kind_e;

typedef enum {
    NGX_HTTP_AGENTSTREAM_ACP_PENDING = 0,
    NGX_HTTP_AGENTSTREAM_ACP_IN_PROGRESS,
    NGX_HTTP_AGENTSTREAM_ACP_COMPLETED,
    NGX_HTTP_AGENTSTREAM_ACP_FAILED
} ngx_http_agentstream_acp_status_e;

typedef struct {
    ngx_str_t                            id;       /* text */
    ngx_str_t                            title;    /* text */
    ngx_str_t                            name;     /* text, of the tool */
    ngx_str_t                            input;    /* json */
    ngx_uint_t                           kind;
    ngx_uint_t                           status;
} ngx_http_agentstream_acp_tool_t;

/* all of "tool_call_start" except _meta */
void ngx_http_agentstream_acp_tool_start(ngx_http_agentstream_acp_buf_t *b,
    u_char *timestamp, ngx_http_agentstream_acp_tool_t *tool);
/* "tool_call_progress" up to rawInput */
void ngx_http_agentstream_acp_tool_progress(ngx_http_agentstream_acp_buf_t *b,
    u_char *timestamp, ngx_http_agentstream_acp_tool_t *tool);
/* a ToolCallUpdate by itself: {"toolCallId":...,"rawInput":...} */
void ngx_http_agentstream_acp_tool_call(ngx_http_agentstream_acp_buf_t *b,
    ngx_http_agentstream_acp_tool_t *tool);
/* ,"_meta":{"toolName":"..."}} with fields, each after a comma, inside */
void ngx_http_agentstream_acp_tool_close(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *name, ngx_str_t *fields);

/* elements of the content and locations of a tool call; each writes a comma
   before it unless it is the first after "[" */
void ngx_http_agentstream_acp_text_block(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *text);
void ngx_http_agentstream_acp_image_block(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *data, ngx_str_t *mime);
/* the content of an image block alone */
void ngx_http_agentstream_acp_image(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *data, ngx_str_t *mime);
/* old is json: a string or null */
void ngx_http_agentstream_acp_diff_block(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *path, ngx_str_t *old, ngx_str_t *new);
void ngx_http_agentstream_acp_location(ngx_http_agentstream_acp_buf_t *b,
    ngx_str_t *path);


/* ,"options":[...] of a permission request */
void ngx_http_agentstream_acp_options(ngx_http_agentstream_acp_buf_t *b);


/* tokens that a model has read and written */

typedef struct {
    int64_t                              total;
    int64_t                              input;
    int64_t                              output;
    int64_t                              thought;
    int64_t                              cached_read;
    int64_t                              cached_write;
} ngx_http_agentstream_acp_usage_t;

/* "prompt_response"; usage NULL: without the field, all zero: null */
void ngx_http_agentstream_acp_prompt_response(
    ngx_http_agentstream_acp_buf_t *b, u_char *timestamp, ngx_str_t *reason,
    ngx_http_agentstream_acp_usage_t *usage);

/* when a packet was written, in milliseconds since midnight (UTC); NGX_ERROR:
   it does not say */
ngx_int_t ngx_http_agentstream_acp_time(
    ngx_http_agentstream_record_t *record);


#endif /* _NGX_HTTP_AGENTSTREAM_ACP_H_INCLUDED_ */
