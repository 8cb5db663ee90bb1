
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Tool calls in a view: one line each, with the tool's name and what it is
 * called with: "Read: src/index.ts".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_view_int.h"


/* characters of what a tool is called with */
#define NGX_HTTP_AGENTSTREAM_VIEW_INPUT  100
#define NGX_HTTP_AGENTSTREAM_VIEW_NAME   40

/* room for a name */
#define NGX_HTTP_AGENTSTREAM_VIEW_LINE   256

#define NGX_HTTP_AGENTSTREAM_VIEW_WRENCH  "\xf0\x9f\x94\xa7 "
#define NGX_HTTP_AGENTSTREAM_VIEW_ARROW   "\xe2\x86\xb3 "
#define NGX_HTTP_AGENTSTREAM_VIEW_MORE    "\xe2\x80\xa6"


static ngx_str_t ngx_http_agentstream_view_name(
    ngx_http_agentstream_view_t *view);
static ngx_int_t ngx_http_agentstream_view_line(
    ngx_http_agentstream_view_t *view, ngx_http_agentstream_view_item_t *item,
    u_char *line, size_t len);
static ngx_str_t ngx_http_agentstream_view_input(
    ngx_http_agentstream_view_t *view);
static u_char *ngx_http_agentstream_view_words(
    ngx_http_agentstream_view_t *view, u_char *p, ngx_str_t *escaped);


ngx_int_t
ngx_http_agentstream_view_tool_start(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_record_t *record)
{
    u_char                             line[NGX_HTTP_AGENTSTREAM_VIEW_LINE];
    u_char                            *p;
    ngx_str_t                          name;
    ngx_http_agentstream_view_item_t  *item;

    p = line;

    if (ngx_http_agentstream_view_child(view)) {
        p = ngx_cpymem(p, NGX_HTTP_AGENTSTREAM_VIEW_ARROW,
                       sizeof(NGX_HTTP_AGENTSTREAM_VIEW_ARROW) - 1);
    }

    p = ngx_cpymem(p, NGX_HTTP_AGENTSTREAM_VIEW_WRENCH,
                   sizeof(NGX_HTTP_AGENTSTREAM_VIEW_WRENCH) - 1);

    name = ngx_http_agentstream_view_name(view);
    name.len = ngx_http_agentstream_markdown_head(&name,
                                              NGX_HTTP_AGENTSTREAM_VIEW_NAME);

    if (name.len) {
        *p = ngx_toupper(name.data[0]);
        ngx_memcpy(p + 1, name.data + 1, name.len - 1);
        p += name.len;
    }

    if (ngx_http_agentstream_view_room(view, p - line) == NULL) {
        return NGX_ERROR;
    }

    item = ngx_http_agentstream_view_add(view, ngx_http_agentstream_view_tool,
                                         record->part);
    if (item == NULL) {
        return NGX_ERROR;
    }

    item->name = p - line;
    view->attempt = 0;

    if (ngx_http_agentstream_view_line(view, item, line, p - line) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_agentstream_view_trim(view);

    return NGX_OK;
}


/* the first state of the call that says what it is called with */

ngx_int_t
ngx_http_agentstream_view_tool_input(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_record_t *record)
{
    u_char                            *p, *line, *last;
    ngx_int_t                          rc;
    ngx_str_t                          input;
    ngx_uint_t                         i;
    ngx_http_agentstream_view_item_t  *item;

    for (i = view->nitems; i > 0; i--) {
        item = &view->items[i - 1];

        if (item->kind == ngx_http_agentstream_view_tool
            && item->part == record->part)
        {
            break;
        }
    }

    if (i == 0 || item->name == 0) {
        return NGX_OK;
    }

    input = ngx_http_agentstream_view_input(view);

    if (input.len == 0) {
        return NGX_OK;
    }

    line = malloc(item->name + 2 + input.len
                  + sizeof(NGX_HTTP_AGENTSTREAM_VIEW_MORE));
    if (line == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(line, ngx_http_agentstream_view_data(view, item),
                   item->name);
    p = ngx_cpymem(p, ": ", 2);

    last = ngx_http_agentstream_view_words(view, p, &input);
    rc = NGX_OK;

    if (last != p) {
        rc = ngx_http_agentstream_view_line(view, item, line, last - line);
    }

    if (rc == NGX_OK) {
        item->name = 0;
    }

    free(line);

    return rc;
}


/* replaces the line of a call, which is mostly the last item */

static ngx_int_t
ngx_http_agentstream_view_line(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_view_item_t *item, u_char *line, size_t len)
{
    u_char                            *p;
    size_t                             more;
    ngx_http_agentstream_view_item_t  *next;

    more = len - item->len;

    if (ngx_http_agentstream_view_room(view, more) == NULL) {
        return NGX_ERROR;
    }

    p = ngx_http_agentstream_view_data(view, item);

    ngx_memmove(p + len, p + item->len,
                view->text + view->len - (p + item->len));
    ngx_memcpy(p, line, len);

    for (next = item + 1; next < view->items + view->nitems; next++) {
        next->start += more;
    }

    item->len = len;
    view->len += more;
    view->version++;

    return NGX_OK;
}


static ngx_str_t
ngx_http_agentstream_view_name(ngx_http_agentstream_view_t *view)
{
    ngx_str_t                     name;
    ngx_uint_t                    v;
    ngx_http_agentstream_json_t  *json;

    json = &view->json;

    v = ngx_http_agentstream_json_get(json, json->root, "_meta");
    v = ngx_http_agentstream_json_get(json, v, "toolName");
    name = ngx_http_agentstream_json_string(json, v);

    if (name.len == 0) {
        v = ngx_http_agentstream_json_get(json, json->root, "title");
        name = ngx_http_agentstream_json_string(json, v);
    }

    return name;
}


/* what tells most of a call: the member of its input that comes first here, or
   else the first text in it */

static ngx_str_t
ngx_http_agentstream_view_input(ngx_http_agentstream_view_t *view)
{
    ngx_str_t                     text;
    ngx_uint_t                    i, v, input;
    ngx_http_agentstream_json_t  *json;

    static const char  *names[] = {
        "command", "filePath", "pattern", "query", "url", "path",
        "description", "prompt", "name", NULL
    };

    json = &view->json;

    input = ngx_http_agentstream_json_get(json, json->root, "rawInput");

    for (i = 0; names[i]; i++) {
        v = ngx_http_agentstream_json_get(json, input, names[i]);
        text = ngx_http_agentstream_json_string(json, v);

        if (text.len) {
            return text;
        }
    }

    for (v = ngx_http_agentstream_json_first(json, input);
         v;
         v = ngx_http_agentstream_json_next(json, input, v))
    {
        text = ngx_http_agentstream_json_string(json, v + 1);

        if (text.len) {
            return text;
        }
    }

    ngx_str_null(&text);

    return text;
}


/* the first line of it, if it is short enough */

static u_char *
ngx_http_agentstream_view_words(ngx_http_agentstream_view_t *view, u_char *p,
    ngx_str_t *escaped)
{
    u_char     *last, *eol;
    size_t      len;
    ngx_str_t   text;

    text.data = p;
    last = ngx_http_agentstream_json_decode(p, escaped);

    len = view->directory.len;

    if (len && (size_t) (last - p) > len + 1
        && ngx_memcmp(p, view->directory.data, len) == 0 && p[len] == '/')
    {
        text.data = p + len + 1;
    }

    while (text.data < last && *text.data <= ' ') {
        text.data++;
    }

    for (eol = text.data; eol < last && *eol != LF && *eol != CR; eol++) {
        /* void */
    }

    text.len = eol - text.data;
    len = ngx_http_agentstream_markdown_head(&text,
                                             NGX_HTTP_AGENTSTREAM_VIEW_INPUT);

    ngx_memmove(p, text.data, len);

    if (len < (size_t) (last - text.data)) {
        return ngx_cpymem(p + len, NGX_HTTP_AGENTSTREAM_VIEW_MORE,
                          sizeof(NGX_HTTP_AGENTSTREAM_VIEW_MORE) - 1);
    }

    return p + len;
}
