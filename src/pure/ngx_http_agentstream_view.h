
/*
 * Copyright (C) agentstream contributors
 */


#ifndef _NGX_HTTP_AGENTSTREAM_VIEW_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_VIEW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_markdown.h"
#include "ngx_http_agentstream_record.h"


/*
 * A turn as somebody sees it in a chat: its records go in, and what can be
 * shown of it comes out at any time, as a whole: the progress so far, the
 * answer in the end.  A view has no clock; times are milliseconds since 1970,
 * and are compared with the timestamps of the records.  It is a function of
 * the records alone: who feeds them again, after a restart, sees the same.
 *
 * What subagents write is not shown, because it is not the answer.
 */


/*
 * Bounds.  The text that is kept is the newest, up to VIEW_TEXT bytes; the
 * answer is then marked as truncated at its beginning, as the progress always
 * is.  Of thoughts, and tool calls, only what can still be shown is kept.
 */
#define NGX_HTTP_AGENTSTREAM_VIEW_TEXT      262144
#define NGX_HTTP_AGENTSTREAM_VIEW_THOUGHT   16384
#define NGX_HTTP_AGENTSTREAM_VIEW_ITEMS     4096
#define NGX_HTTP_AGENTSTREAM_VIEW_TOOLS     1024
#define NGX_HTTP_AGENTSTREAM_VIEW_ASKED     16
#define NGX_HTTP_AGENTSTREAM_VIEW_QUESTION  65536

/* characters of thoughts that are shown in the progress, and in the end */
#define NGX_HTTP_AGENTSTREAM_VIEW_THINKING  400
#define NGX_HTTP_AGENTSTREAM_VIEW_THOUGHTS  600


typedef enum {
    NGX_HTTP_AGENTSTREAM_VIEW_RUNNING = 0,
    NGX_HTTP_AGENTSTREAM_VIEW_END_TURN,     /* or any other stop reason */
    NGX_HTTP_AGENTSTREAM_VIEW_MAX_TOKENS,
    NGX_HTTP_AGENTSTREAM_VIEW_REFUSAL,
    NGX_HTTP_AGENTSTREAM_VIEW_CANCELLED,
    NGX_HTTP_AGENTSTREAM_VIEW_TIMEOUT,
    NGX_HTTP_AGENTSTREAM_VIEW_ERROR
} ngx_http_agentstream_view_end_e;


/* a question or permission request that nobody has answered yet */

typedef struct {
    ngx_str_t                            id;       /* points into json */
    ngx_str_t                            json;     /* of its packet; for
                                                      asked_*() */
    ngx_uint_t                           permission;
} ngx_http_agentstream_view_asked_t;


typedef struct ngx_http_agentstream_view_item_s
    ngx_http_agentstream_view_item_t;


/* owned by whoever created it; it allocates on the heap */

typedef struct {
    /* for everybody to read */
    ngx_uint_t                           end;      /* how the turn ended */
    ngx_uint_t                           version;  /* changes whenever something
                                                      that can be shown has
                                                      changed, except times */
    ngx_http_agentstream_view_asked_t    asked[
                                         NGX_HTTP_AGENTSTREAM_VIEW_ASKED];
    ngx_uint_t                           nasked;   /* oldest first */
    int64_t                              started;  /* 0: not yet */
    int64_t                              active;   /* the last record that was
                                                      not a heartbeat */

    /* set by its owner: paths below it are shown without it; may be empty */
    ngx_str_t                            directory;

    /* private */
    uint64_t                             seq;      /* of the last record */
    u_char                              *text;     /* of all items, one after
                                                      the other */
    size_t                               len;
    size_t                               size;
    ngx_http_agentstream_view_item_t    *items;
    ngx_uint_t                           nitems;
    ngx_uint_t                           nalloc;
    size_t                               said;     /* bytes of the answer */
    size_t                               thought;  /* bytes of thoughts */
    ngx_uint_t                           ntools;
    ngx_uint_t                           attempt;  /* the model is asked again,
                                                      0: it is not */
    int64_t                              thinking; /* when the first thought
                                                      came, 0: none */
    int64_t                              thought_at;
    int64_t                              tools_at; /* when new tool calls were
                                                      shown, 0: never */
    ngx_str_t                            error;    /* in a sentence; heap */
    unsigned                             cut:1;    /* the beginning of the
                                                      answer is not kept */
    unsigned                             cut_items:1;  /* something older than
                                                      the first item is not
                                                      kept */
    ngx_http_agentstream_json_t          json;
} ngx_http_agentstream_view_t;


/* a zeroed view is ready for records */
void ngx_http_agentstream_view_destroy(ngx_http_agentstream_view_t *view);
/* as if it were new, for the next turn; happens by itself when that begins */
void ngx_http_agentstream_view_reset(ngx_http_agentstream_view_t *view);

/* takes the next record of the turn; NGX_ERROR: no memory, and the record is
   not in the view */
ngx_int_t ngx_http_agentstream_view_record(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_record_t *record);


/* how a view is shown */

typedef struct {
    ngx_uint_t                           form;     /* a markdown_form_e */
    ngx_http_agentstream_markdown_limits_t
                                         limits;
    unsigned                             thoughts:1;
                                                   /* show them */

    /* for the progress */
    int64_t                              now;
    ngx_msec_t                           tool_interval;
                                                   /* new tool calls appear at
                                                      most that often */
    ngx_msec_t                           heartbeat;
                                                   /* "Still working..." after
                                                      that much silence */
} ngx_http_agentstream_view_args_t;


/*
 * The progress message as it should look now.  NGX_OK; NGX_ERROR: no memory.
 * After the end it shows what was done, without cursor and time.
 */
ngx_int_t ngx_http_agentstream_view_progress(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_http_agentstream_view_args_t *args,
    ngx_http_agentstream_piece_t *piece);

/*
 * The messages that end the turn, as an array of piece_t: the answer, or that
 * there is none, and what went wrong, in a sentence.  There are none for a turn
 * that was cancelled.
 */
ngx_int_t ngx_http_agentstream_view_final(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_http_agentstream_view_args_t *args,
    ngx_array_t *pieces);

/*
 * The turn so far as one JSON object, docs/protocol.md, "Views": with
 * "phase":"thinking", "content", "final" or "error".  NGX_DECLINED: there is
 * nothing to show yet.
 */
ngx_int_t ngx_http_agentstream_view_delta(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, int64_t now, ngx_str_t *json);

/*
 * The same with the progress message, without markup: "phase":"progress" and
 * what is asked, in the end "final" with the whole answer, or "error".
 */
ngx_int_t ngx_http_agentstream_view_snapshot(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_http_agentstream_view_args_t *args,
    ngx_str_t *json);

/* the answer so far, as Markdown; NGX_ERROR: no memory */
ngx_int_t ngx_http_agentstream_view_answer(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_str_t *answer);


#endif /* _NGX_HTTP_AGENTSTREAM_VIEW_H_INCLUDED_ */
