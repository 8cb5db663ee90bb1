
/*
 * Copyright (C) agentstream contributors
 *
 * One state of a tool call as a packet; docs/protocol.md, "tool_call_progress"
 * and "Tool kinds".  This file does not know the tool calls of the turn, only
 * the state it is given.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_translate_int.h"


typedef struct {
    ngx_str_t                                name;
    u_char                                   kind;      /* tool_kinds seed */
    u_char                                   acp_kind;  /* tool_kinds acp */
    u_char                                   finder;    /* has locations */
} ngx_http_agentstream_tr_kind_t;


static ngx_http_agentstream_tr_kind_t *
    ngx_http_agentstream_translate_tool_state_find(
    ngx_str_t *name);
static void ngx_http_agentstream_translate_tool_state_output(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st);
static void ngx_http_agentstream_translate_tool_state_metadata(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st,
    const char *dflt);
static void ngx_http_agentstream_translate_tool_state_member(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st,
    const char *key, const char *name, const char *dflt);
static void ngx_http_agentstream_translate_tool_state_content(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st,
    ngx_uint_t core);
static void ngx_http_agentstream_translate_tool_state_diff(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st);
static void ngx_http_agentstream_translate_tool_state_images(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st);
static void ngx_http_agentstream_translate_tool_state_locations(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st);


#define ngx_http_agentstream_tr_is_tool(st, text)                             \
    ((st)->tool.name.len == sizeof(text) - 1                                  \
     && ngx_strncmp((st)->tool.name.data, text, sizeof(text) - 1) == 0)


static ngx_http_agentstream_tr_kind_t  ngx_http_agentstream_tr_tools[] = {

    { ngx_string("bash"), NGX_HTTP_AGENTSTREAM_ACP_EXECUTE,
      NGX_HTTP_AGENTSTREAM_ACP_EXECUTE, 0 },
    { ngx_string("shell"), NGX_HTTP_AGENTSTREAM_ACP_EXECUTE,
      NGX_HTTP_AGENTSTREAM_ACP_EXECUTE, 0 },

    { ngx_string("read"), NGX_HTTP_AGENTSTREAM_ACP_READ,
      NGX_HTTP_AGENTSTREAM_ACP_READ, 1 },
    { ngx_string("list"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_READ, 1 },

    { ngx_string("edit"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_EDIT, 1 },
    { ngx_string("write"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_EDIT, 1 },
    { ngx_string("multiedit"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_EDIT, 0 },
    { ngx_string("patch"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_EDIT, 0 },
    { ngx_string("apply_patch"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_EDIT, 0 },

    { ngx_string("glob"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_SEARCH, 1 },
    { ngx_string("grep"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_SEARCH, 1 },
    { ngx_string("codesearch"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_SEARCH, 0 },
    { ngx_string("lsp"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_SEARCH, 0 },

    { ngx_string("webfetch"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_FETCH, 0 },
    { ngx_string("websearch"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_FETCH, 0 },

    { ngx_string("task"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_THINK, 0 },
    { ngx_string("todowrite"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_THINK, 0 },
    { ngx_string("todoread"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_THINK, 0 },

    { ngx_string("delete"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_DELETE, 0 },
    { ngx_string("move"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_MOVE, 0 },
    { ngx_string("plan_enter"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_SWITCH_MODE, 0 },
    { ngx_string("plan_exit"), NGX_HTTP_AGENTSTREAM_ACP_OTHER,
      NGX_HTTP_AGENTSTREAM_ACP_SWITCH_MODE, 0 },

    { ngx_null_string, 0, 0, 0 }
};


static ngx_http_agentstream_tr_kind_t *
ngx_http_agentstream_translate_tool_state_find(ngx_str_t *name)
{
    ngx_http_agentstream_tr_kind_t  *tool;

    for (tool = ngx_http_agentstream_tr_tools; tool->name.len; tool++) {
        if (ngx_http_agentstream_tr_eq(&tool->name, name)) {
            return tool;
        }
    }

    /* the last row stands for all other tools */

    return tool;
}


ngx_uint_t
ngx_http_agentstream_translate_tool_state_kind(
    ngx_http_agentstream_translate_t *tr, ngx_str_t *name)
{
    ngx_http_agentstream_tr_kind_t  *tool;

    tool = ngx_http_agentstream_translate_tool_state_find(name);

    return tr->conf.acp_kinds ? tool->acp_kind : tool->kind;
}


void
ngx_http_agentstream_translate_tool_state_build(
    ngx_http_agentstream_translate_t *tr, ngx_http_agentstream_tr_session_t *s,
    ngx_http_agentstream_tr_state_t *st)
{
    ngx_uint_t                       metadata;
    ngx_http_agentstream_acp_buf_t  *b;

    b = &tr->work->buf;

    ngx_http_agentstream_acp_tool_progress(b, tr->timestamp, &st->tool);

    switch (st->tool.status) {

    case NGX_HTTP_AGENTSTREAM_ACP_IN_PROGRESS:
        if (ngx_http_agentstream_tr_is_tool(st, "bash")
            || ngx_http_agentstream_tr_is_tool(st, "shell"))
        {
            metadata = ngx_http_agentstream_json_get(st->json, st->state,
                                                     "metadata");
            st->output = ngx_http_agentstream_opencode_text(st->json, metadata,
                                                            "output");
        }

        break;

    /* the packet contains the output up to three times */

    case NGX_HTTP_AGENTSTREAM_ACP_COMPLETED:
        st->output = ngx_http_agentstream_opencode_text(st->json, st->state,
                                                        "output");
        ngx_http_agentstream_acp_share(b, &st->output);
        break;

    case NGX_HTTP_AGENTSTREAM_ACP_FAILED:
        st->output = ngx_http_agentstream_opencode_text(st->json, st->state,
                                                        "error");
        ngx_http_agentstream_acp_share(b, &st->output);
        break;

    default:
        break;
    }

    ngx_http_agentstream_translate_tool_state_output(b, st);
    ngx_http_agentstream_translate_tool_state_content(b, st, tr->conf.core);
    ngx_http_agentstream_translate_tool_state_locations(b, st);

    if (tr->conf.core) {
        ngx_http_agentstream_acp_close(b, &tr->root.meta);

    } else {
        ngx_http_agentstream_acp_tool_close(b, &st->tool.name, &s->fields);
    }
}


static void
ngx_http_agentstream_translate_tool_state_output(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st)
{
    switch (st->tool.status) {

    case NGX_HTTP_AGENTSTREAM_ACP_COMPLETED:
        ngx_http_agentstream_acp_literal(b, ",\"rawOutput\":{");
        ngx_http_agentstream_translate_tool_state_member(b, st, "\"output\":",
                                                         "output", "\"\"");
        ngx_http_agentstream_translate_tool_state_metadata(b, st, "{}");
        ngx_http_agentstream_translate_tool_state_member(b, st,
                                                         ",\"attachments\":",
                                                         "attachments", NULL);
        ngx_http_agentstream_acp_literal(b, "}");
        break;

    case NGX_HTTP_AGENTSTREAM_ACP_FAILED:
        ngx_http_agentstream_acp_literal(b, ",\"rawOutput\":{");
        ngx_http_agentstream_translate_tool_state_member(b, st, "\"error\":",
                                                         "error", "\"\"");
        ngx_http_agentstream_translate_tool_state_metadata(b, st, NULL);
        ngx_http_agentstream_acp_literal(b, "}");
        break;

    default:
        ngx_http_agentstream_acp_literal(b, ",\"rawOutput\":null");
    }
}


/* writes a member of the state unchanged; if it is absent: dflt, or nothing if
   that is NULL */

static void
ngx_http_agentstream_translate_tool_state_member(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st,
    const char *key, const char *name, const char *dflt)
{
    ngx_str_t   raw, text;
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(st->json, st->state, name);

    if (v && (dflt == NULL
              || ngx_http_agentstream_json_type(st->json, v)
                 != NGX_HTTP_AGENTSTREAM_JSON_NULL))
    {
        if (ngx_http_agentstream_json_type(st->json, v)
            == NGX_HTTP_AGENTSTREAM_JSON_STRING)
        {
            text = ngx_http_agentstream_json_string(st->json, v);
            ngx_http_agentstream_acp_member_text(b, key, &text);
            return;
        }

        raw = ngx_http_agentstream_json_raw(st->json, v);

    } else if (dflt) {
        raw.data = (u_char *) dflt;
        raw.len = ngx_strlen(dflt);

    } else {
        return;
    }

    ngx_http_agentstream_acp_member(b, key, &raw);
}


/* bash repeats its output in the metadata */

static void
ngx_http_agentstream_translate_tool_state_metadata(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st,
    const char *dflt)
{
    ngx_str_t   raw, text;
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(st->json, st->state, "metadata");
    text = ngx_http_agentstream_opencode_text(st->json, v, "output");

    if (text.len == 0) {
        ngx_http_agentstream_translate_tool_state_member(b, st,
                                                         ",\"metadata\":",
                                                         "metadata", dflt);
        return;
    }

    raw = ngx_http_agentstream_json_raw(st->json, v);

    ngx_http_agentstream_acp_literal(b, ",\"metadata\":");
    ngx_http_agentstream_acp_json_text(b, &raw, &text);
}


/* with core only text blocks are sent */

static void
ngx_http_agentstream_translate_tool_state_content(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st,
    ngx_uint_t core)
{
    size_t  len;

    ngx_http_agentstream_acp_literal(b, ",\"content\":[");

    len = b->len;

    if (st->output.len) {
        ngx_http_agentstream_acp_text_block(b, &st->output);
    }

    if (st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_COMPLETED && !core) {
        ngx_http_agentstream_translate_tool_state_diff(b, st);
        ngx_http_agentstream_translate_tool_state_images(b, st);
    }

    if (b->failed) {
        return;
    }

    if (b->len == len) {

        /* no block */

        b->len--;
        ngx_http_agentstream_acp_literal(b, "null");
        return;
    }

    ngx_http_agentstream_acp_literal(b, "]");
}


static void
ngx_http_agentstream_translate_tool_state_diff(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st)
{
    ngx_str_t   path, old, new;
    ngx_uint_t  v;

    ngx_str_set(&old, "null");

    if (ngx_http_agentstream_tr_is_tool(st, "edit")) {
        v = ngx_http_agentstream_json_get(st->json, st->input,
                                          "oldString");

        if (ngx_http_agentstream_json_type(st->json, v)
            == NGX_HTTP_AGENTSTREAM_JSON_STRING)
        {
            old = ngx_http_agentstream_json_raw(st->json, v);
        }

        v = ngx_http_agentstream_json_get(st->json, st->input,
                                          "newString");

    } else if (ngx_http_agentstream_tr_is_tool(st, "write")) {
        v = ngx_http_agentstream_json_get(st->json, st->input, "content");

    } else {
        return;
    }

    path = ngx_http_agentstream_opencode_text(st->json, st->input,
                                              "filePath");

    if (path.len == 0
        || ngx_http_agentstream_json_type(st->json, v)
           != NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        return;
    }

    new = ngx_http_agentstream_json_string(st->json, v);

    ngx_http_agentstream_acp_diff_block(b, &path, &old, &new);
}


static void
ngx_http_agentstream_translate_tool_state_images(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st)
{
    ngx_str_t   data, mime;
    ngx_uint_t  v, list;

    list = ngx_http_agentstream_json_get(st->json, st->state, "attachments");

    if (ngx_http_agentstream_json_type(st->json, list)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return;
    }

    for (v = ngx_http_agentstream_json_first(st->json, list);
         v;
         v = ngx_http_agentstream_json_next(st->json, list, v))
    {
        if (ngx_http_agentstream_translate_file_picture(st->json, v, &data,
                                                        &mime)
            == NGX_OK)
        {
            ngx_http_agentstream_acp_image_block(b, &data, &mime);
        }
    }
}


static void
ngx_http_agentstream_translate_tool_state_locations(
    ngx_http_agentstream_acp_buf_t *b, ngx_http_agentstream_tr_state_t *st)
{
    ngx_str_t                        path;
    ngx_http_agentstream_tr_kind_t  *tool;

    tool = ngx_http_agentstream_translate_tool_state_find(&st->tool.name);

    if (!tool->finder
        && st->tool.status == NGX_HTTP_AGENTSTREAM_ACP_COMPLETED)
    {
        ngx_http_agentstream_acp_literal(b, ",\"locations\":null");
        return;
    }

    ngx_http_agentstream_acp_literal(b, ",\"locations\":[");

    if (tool->finder && st->tool.status != NGX_HTTP_AGENTSTREAM_ACP_PENDING) {

        path = ngx_http_agentstream_opencode_text(st->json, st->input,
                                                  "filePath");
        if (path.len == 0) {
            path = ngx_http_agentstream_opencode_text(st->json, st->input,
                                                      "path");
        }

        if (path.len) {
            ngx_http_agentstream_acp_location(b, &path);
        }
    }

    ngx_http_agentstream_acp_literal(b, "]");
}
