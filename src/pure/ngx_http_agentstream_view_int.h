
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_VIEW_INT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_VIEW_INT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_view.h"


#define NGX_HTTP_AGENTSTREAM_VIEW_TRUNCATED  "[...earlier output truncated...]"


typedef enum {
    ngx_http_agentstream_view_text = 0,
    ngx_http_agentstream_view_thought,
    ngx_http_agentstream_view_tool
} ngx_http_agentstream_view_kind_e;


/* something that was written or done, in the order in which it began; chunks
   of a part that follow each other are one item */

struct ngx_http_agentstream_view_item_s {
    size_t                               start;    /* in the view's text */
    size_t                               len;
    uint64_t                             from;     /* the records that it is
                                                      made of */
    uint64_t                             to;
    uint32_t                             part;
    uint32_t                             message;  /* hash of its id */
    uint32_t                             name;     /* length of the line of a
                                                      tool call as long as
                                                      nothing is known of its
                                                      input, else 0 */
    unsigned                             kind:2;
    unsigned                             shown:1;  /* of a tool call */
};


/* the view's text of an item */
#define ngx_http_agentstream_view_data(view, item)                            \
    ((view)->text + (item)->start)

/* adds to the text, at the end; NULL: no memory */
u_char *ngx_http_agentstream_view_room(ngx_http_agentstream_view_t *view,
    size_t len);
/* the new last item, without text */
ngx_http_agentstream_view_item_t *ngx_http_agentstream_view_add(
    ngx_http_agentstream_view_t *view, ngx_uint_t kind, ngx_uint_t part);

/* gives up what is too old to be shown */
void ngx_http_agentstream_view_trim(ngx_http_agentstream_view_t *view);

/* tool calls: one that begins, and what is known of its input */
ngx_int_t ngx_http_agentstream_view_tool_start(
    ngx_http_agentstream_view_t *view, ngx_http_agentstream_record_t *record);
ngx_int_t ngx_http_agentstream_view_tool_input(
    ngx_http_agentstream_view_t *view, ngx_http_agentstream_record_t *record);

/* whether the record, which was parsed, is a subagent's */
ngx_uint_t ngx_http_agentstream_view_child(ngx_http_agentstream_view_t *view);

/* the thoughts so far, up to that many UTF-16 units, the newest; NGX_ERROR: no
   memory */
ngx_int_t ngx_http_agentstream_view_thoughts(
    ngx_http_agentstream_view_t *view, ngx_pool_t *pool, size_t units,
    ngx_str_t *text);

/* what is said besides the answer, which is empty or not; may be empty;
   NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_view_sentence(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_uint_t empty, ngx_str_t *text);

/* writes "12s", "2m 5s", "1h 2m"; at most 32 bytes */
u_char *ngx_http_agentstream_view_time(u_char *p, int64_t msec);


#endif /* _NGX_HTTP_AGENTSTREAM_VIEW_INT_H_INCLUDED_ */
