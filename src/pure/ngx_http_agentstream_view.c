
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What a view keeps of a turn: items, and one text that contains the texts of
 * all items, in the same order, so that what is new is always at its end, and
 * what is too old is at its beginning.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_view_int.h"


static ngx_int_t ngx_http_agentstream_view_take(
    ngx_http_agentstream_view_t *view, ngx_http_agentstream_record_t *record);
static ngx_int_t ngx_http_agentstream_view_chunk(
    ngx_http_agentstream_view_t *view, ngx_http_agentstream_record_t *record);
static void ngx_http_agentstream_view_newest(
    ngx_http_agentstream_view_t *view, ngx_uint_t kind, ngx_str_t *text);
static void ngx_http_agentstream_view_drop(ngx_http_agentstream_view_t *view,
    ngx_uint_t kind, size_t len);
static void ngx_http_agentstream_view_cut(ngx_http_agentstream_view_t *view,
    ngx_uint_t i, size_t len);
static void ngx_http_agentstream_view_discard(
    ngx_http_agentstream_view_t *view);
static ngx_int_t ngx_http_agentstream_view_ask(
    ngx_http_agentstream_view_t *view, ngx_http_agentstream_record_t *record,
    const char *name);
static void ngx_http_agentstream_view_resolve(
    ngx_http_agentstream_view_t *view, const char *name);
static void ngx_http_agentstream_view_response(
    ngx_http_agentstream_view_t *view);
static ngx_int_t ngx_http_agentstream_view_fail(
    ngx_http_agentstream_view_t *view);
static int64_t ngx_http_agentstream_view_timestamp(ngx_str_t *text);


void
ngx_http_agentstream_view_destroy(ngx_http_agentstream_view_t *view)
{
    ngx_uint_t  i;

    for (i = 0; i < view->nasked; i++) {
        free(view->asked[i].json.data);
    }

    free(view->text);
    free(view->items);
    free(view->error.data);
    ngx_http_agentstream_json_destroy(&view->json);

    ngx_memzero(view, sizeof(ngx_http_agentstream_view_t));
}


void
ngx_http_agentstream_view_reset(ngx_http_agentstream_view_t *view)
{
    ngx_str_t   directory;
    ngx_uint_t  version;

    directory = view->directory;
    version = view->version;

    ngx_http_agentstream_view_destroy(view);

    view->directory = directory;
    view->version = version + 1;
}


ngx_int_t
ngx_http_agentstream_view_record(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_record_t *record)
{
    int64_t     msec;
    ngx_int_t   rc;
    ngx_str_t   timestamp;
    ngx_uint_t  v;

    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_STREAM_RESET:
        ngx_http_agentstream_view_reset(view);
        break;

    case NGX_HTTP_AGENTSTREAM_RECORD_TURN_STARTED:

        if (view->started) {
            ngx_http_agentstream_view_reset(view);
        }

        break;

    default:
        break;
    }

    /* records of a rebuilt turn are counted, because they have no numbers */

    view->seq = record->seq ? record->seq : view->seq + 1;

    rc = ngx_http_agentstream_json_parse(&view->json, record->json.data,
                                         record->json.len);
    if (rc != NGX_OK) {
        /* what is no JSON cannot be shown */
        return (rc == NGX_DECLINED) ? NGX_OK : NGX_ERROR;
    }

    v = ngx_http_agentstream_json_get(&view->json, view->json.root,
                                      "timestamp");
    timestamp = ngx_http_agentstream_json_string(&view->json, v);
    msec = ngx_http_agentstream_view_timestamp(&timestamp);

    if (record->type == NGX_HTTP_AGENTSTREAM_RECORD_HEARTBEAT) {
        return NGX_OK;
    }

    if (msec) {
        view->active = msec;
        view->started = view->started ? view->started : msec;
    }

    return ngx_http_agentstream_view_take(view, record);
}


static ngx_int_t
ngx_http_agentstream_view_take(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_record_t *record)
{
    ngx_uint_t  v;

    switch (record->type) {

    case NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE:
    case NGX_HTTP_AGENTSTREAM_RECORD_THOUGHT:
        return ngx_http_agentstream_view_chunk(view, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START:
        return ngx_http_agentstream_view_tool_start(view, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS:
        return ngx_http_agentstream_view_tool_input(view, record);

    case NGX_HTTP_AGENTSTREAM_RECORD_CHUNKS_DISCARDED:
        ngx_http_agentstream_view_discard(view);
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_RECORD_SESSION_STATUS:
        v = ngx_http_agentstream_json_get(&view->json, view->json.root,
                                          "attempt");
        view->attempt = ngx_http_agentstream_json_integer(&view->json, v, 1);
        view->version++;
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_RECORD_QUESTION:
        return ngx_http_agentstream_view_ask(view, record, "questionId");

    case NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION:
        return ngx_http_agentstream_view_ask(view, record, "permissionId");

    case NGX_HTTP_AGENTSTREAM_RECORD_QUESTION_RESOLVED:
        ngx_http_agentstream_view_resolve(view, "questionId");
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION_RESOLVED:
        ngx_http_agentstream_view_resolve(view, "permissionId");
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE:
        ngx_http_agentstream_view_response(view);
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_RECORD_ERROR:
        return ngx_http_agentstream_view_fail(view);

    default:
        return NGX_OK;
    }
}


ngx_uint_t
ngx_http_agentstream_view_child(ngx_http_agentstream_view_t *view)
{
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_get(&view->json, view->json.root, "_meta");

    return (ngx_http_agentstream_json_get(&view->json, v, "sessionId") != 0);
}


static ngx_int_t
ngx_http_agentstream_view_chunk(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_record_t *record)
{
    u_char                            *p;
    size_t                             len;
    ngx_str_t                          text, id;
    ngx_uint_t                         v, kind;
    ngx_http_agentstream_view_item_t  *item;

    if (ngx_http_agentstream_view_child(view)) {
        return NGX_OK;
    }

    v = ngx_http_agentstream_json_get(&view->json, view->json.root, "content");
    v = ngx_http_agentstream_json_get(&view->json, v, "text");
    text = ngx_http_agentstream_json_string(&view->json, v);

    if (text.len == 0) {
        return NGX_OK;
    }

    kind = (record->type == NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE)
           ? ngx_http_agentstream_view_text
           : ngx_http_agentstream_view_thought;

    ngx_http_agentstream_view_newest(view, kind, &text);

    p = ngx_http_agentstream_view_room(view, text.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    item = view->nitems ? &view->items[view->nitems - 1] : NULL;

    if (item == NULL || item->kind != kind || item->part != record->part) {

        item = ngx_http_agentstream_view_add(view, kind, record->part);
        if (item == NULL) {
            return NGX_ERROR;
        }

        v = ngx_http_agentstream_json_get(&view->json, view->json.root,
                                          "messageId");
        id = ngx_http_agentstream_json_string(&view->json, v);
        item->message = ngx_murmur_hash2(id.data, id.len);
    }

    len = ngx_http_agentstream_json_decode(p, &text) - p;

    view->len += len;
    item->len += len;
    item->to = view->seq;

    if (kind == ngx_http_agentstream_view_text) {
        view->said += len;

    } else {
        view->thought += len;
        view->thinking = view->thinking ? view->thinking : view->active;
        view->thought_at = view->active;
    }

    view->attempt = 0;
    view->version++;

    ngx_http_agentstream_view_trim(view);

    return NGX_OK;
}


/* cuts an escaped text off at its beginning, if it is longer than what is kept
   at all, and drops what came before it */

static void
ngx_http_agentstream_view_newest(ngx_http_agentstream_view_t *view,
    ngx_uint_t kind, ngx_str_t *text)
{
    size_t  n, max;

    max = (kind == ngx_http_agentstream_view_text)
          ? NGX_HTTP_AGENTSTREAM_VIEW_TEXT
          : NGX_HTTP_AGENTSTREAM_VIEW_THOUGHT;

    if (text->len <= max) {
        return;
    }

    if (kind == ngx_http_agentstream_view_text) {
        ngx_http_agentstream_view_drop(view, kind, view->said);
        view->cut = 1;

    } else {
        ngx_http_agentstream_view_drop(view, kind, view->thought);
    }

    while (text->len > max) {

        n = 1;

        if (text->data[0] == '\\') {
            n = (text->data[1] == 'u') ? 6 : 2;

        } else {
            while (n < text->len && (text->data[n] & 0xc0) == 0x80) {
                n++;
            }
        }

        text->data += n;
        text->len -= n;
    }
}


u_char *
ngx_http_agentstream_view_room(ngx_http_agentstream_view_t *view, size_t len)
{
    u_char  *p;
    size_t   size;

    if (view->size - view->len < len) {

        size = ngx_max(view->size * 2, 1024);
        size = ngx_max(size, view->len + len);

        p = realloc(view->text, size);
        if (p == NULL) {
            return NULL;
        }

        view->text = p;
        view->size = size;
    }

    return view->text + view->len;
}


ngx_http_agentstream_view_item_t *
ngx_http_agentstream_view_add(ngx_http_agentstream_view_t *view,
    ngx_uint_t kind, ngx_uint_t part)
{
    ngx_uint_t                         n;
    ngx_http_agentstream_view_item_t  *item;

    if (view->nitems == view->nalloc) {

        n = ngx_max(view->nalloc * 2, 16);

        item = realloc(view->items,
                       n * sizeof(ngx_http_agentstream_view_item_t));
        if (item == NULL) {
            return NULL;
        }

        view->items = item;
        view->nalloc = n;
    }

    item = &view->items[view->nitems++];

    ngx_memzero(item, sizeof(ngx_http_agentstream_view_item_t));

    item->kind = kind;
    item->part = part;
    item->start = view->len;
    item->from = view->seq;
    item->to = view->seq;

    view->ntools += (kind == ngx_http_agentstream_view_tool);

    return item;
}


/* a little more than is needed, so that it does not happen at every chunk */

void
ngx_http_agentstream_view_trim(ngx_http_agentstream_view_t *view)
{
    size_t  max;

    max = NGX_HTTP_AGENTSTREAM_VIEW_TEXT;

    if (view->said > max) {
        ngx_http_agentstream_view_drop(view, ngx_http_agentstream_view_text,
                                       view->said - (max - max / 4));
        view->cut = 1;
    }

    max = NGX_HTTP_AGENTSTREAM_VIEW_THOUGHT;

    if (view->thought > max) {
        ngx_http_agentstream_view_drop(view,
                                       ngx_http_agentstream_view_thought,
                                       view->thought - max / 2);
    }

    if (view->ntools > NGX_HTTP_AGENTSTREAM_VIEW_TOOLS) {
        ngx_http_agentstream_view_drop(view, ngx_http_agentstream_view_tool,
                                       0);
        view->cut_items = 1;
    }

    if (view->nitems > NGX_HTTP_AGENTSTREAM_VIEW_ITEMS) {
        view->cut |= (view->items[0].kind == ngx_http_agentstream_view_text);
        view->cut_items = 1;

        ngx_http_agentstream_view_cut(view, 0, view->items[0].len);
    }
}


/* drops the oldest bytes of a kind, or one item of it if len is 0 */

static void
ngx_http_agentstream_view_drop(ngx_http_agentstream_view_t *view,
    ngx_uint_t kind, size_t len)
{
    size_t                             n;
    ngx_uint_t                         i;
    ngx_http_agentstream_view_item_t  *item;

    for (i = 0; i < view->nitems; /* void */ ) {

        item = &view->items[i];

        if (item->kind != kind) {
            i++;
            continue;
        }

        if (len == 0) {
            ngx_http_agentstream_view_cut(view, i, item->len);
            return;
        }

        n = ngx_min(len, item->len);

        /* no character is cut in two */

        while (n < item->len
               && (ngx_http_agentstream_view_data(view, item)[n] & 0xc0)
                  == 0x80)
        {
            n++;
        }

        len -= ngx_min(len, n);

        ngx_http_agentstream_view_cut(view, i, n);

        if (len == 0) {
            return;
        }
    }
}


/* removes the beginning of an item, or the item if nothing of it is left */

static void
ngx_http_agentstream_view_cut(ngx_http_agentstream_view_t *view, ngx_uint_t i,
    size_t len)
{
    u_char                            *p;
    ngx_uint_t                         n;
    ngx_http_agentstream_view_item_t  *item;

    item = &view->items[i];

    if (len) {
        p = ngx_http_agentstream_view_data(view, item);
        ngx_memmove(p, p + len, view->text + view->len - (p + len));
    }

    view->len -= len;
    item->len -= len;

    switch (item->kind) {

    case ngx_http_agentstream_view_text:
        view->said -= len;
        break;

    case ngx_http_agentstream_view_thought:
        view->thought -= len;
        break;

    default:
        view->ntools -= (item->len == 0);
    }

    for (n = i + 1; n < view->nitems; n++) {
        view->items[n].start -= len;
    }

    if (item->len == 0) {
        ngx_memmove(item, item + 1,
                    (view->nitems - i - 1)
                    * sizeof(ngx_http_agentstream_view_item_t));
        view->nitems--;
    }
}


/* items never contain more than what is discarded at a time */

static void
ngx_http_agentstream_view_discard(ngx_http_agentstream_view_t *view)
{
    int64_t                            from, to;
    uint32_t                           message;
    ngx_str_t                          text;
    ngx_uint_t                         v, i;
    ngx_http_agentstream_json_t       *json;
    ngx_http_agentstream_view_item_t  *item;

    json = &view->json;

    v = ngx_http_agentstream_json_get(json, json->root, "messageId");
    text = ngx_http_agentstream_json_string(json, v);
    message = ngx_murmur_hash2(text.data, text.len);

    v = ngx_http_agentstream_json_get(json, json->root, "from");
    from = ngx_http_agentstream_json_integer(json, v, 0);
    v = ngx_http_agentstream_json_get(json, json->root, "to");
    to = ngx_http_agentstream_json_integer(json, v, -1);

    for (i = view->nitems; i > 0; i--) {
        item = &view->items[i - 1];

        if (item->kind != ngx_http_agentstream_view_tool
            && item->message == message
            && (int64_t) item->from >= from && (int64_t) item->to <= to)
        {
            ngx_http_agentstream_view_cut(view, i - 1, item->len);
            view->version++;
        }
    }
}


/* a request that is too long, or one too many, cannot be answered in a chat */

static ngx_int_t
ngx_http_agentstream_view_ask(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_record_t *record, const char *name)
{
    size_t                              len;
    u_char                             *p;
    ngx_str_t                           id;
    ngx_uint_t                          v, i;
    ngx_http_agentstream_view_asked_t  *asked;

    v = ngx_http_agentstream_json_get(&view->json, view->json.root, name);
    id = ngx_http_agentstream_json_string(&view->json, v);

    len = ngx_http_agentstream_record_len(record);

    if (id.len == 0 || view->nasked == NGX_HTTP_AGENTSTREAM_VIEW_ASKED
        || record->nholes || len > NGX_HTTP_AGENTSTREAM_VIEW_QUESTION)
    {
        return NGX_OK;
    }

    for (i = 0; i < view->nasked; i++) {
        if (view->asked[i].id.len == id.len
            && ngx_memcmp(view->asked[i].id.data, id.data, id.len) == 0)
        {
            return NGX_OK;
        }
    }

    p = malloc(len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, record->json.data, len);

    asked = &view->asked[view->nasked++];

    asked->json.data = p;
    asked->json.len = len;
    asked->id.data = p + (id.data - record->json.data);
    asked->id.len = id.len;
    asked->permission = (record->type
                         == NGX_HTTP_AGENTSTREAM_RECORD_PERMISSION);

    view->version++;

    return NGX_OK;
}


static void
ngx_http_agentstream_view_resolve(ngx_http_agentstream_view_t *view,
    const char *name)
{
    ngx_str_t                           id;
    ngx_uint_t                          v, i;
    ngx_http_agentstream_view_asked_t  *asked;

    v = ngx_http_agentstream_json_get(&view->json, view->json.root, name);
    id = ngx_http_agentstream_json_string(&view->json, v);

    for (i = 0; i < view->nasked; i++) {
        asked = &view->asked[i];

        if (asked->id.len == id.len
            && ngx_memcmp(asked->id.data, id.data, id.len) == 0)
        {
            free(asked->json.data);
            view->nasked--;
            view->version++;

            ngx_memmove(asked, asked + 1,
                        (view->nasked - i)
                        * sizeof(ngx_http_agentstream_view_asked_t));
            return;
        }
    }
}


static void
ngx_http_agentstream_view_response(ngx_http_agentstream_view_t *view)
{
    ngx_uint_t                    v;
    ngx_http_agentstream_json_t  *json;

    json = &view->json;

    v = ngx_http_agentstream_json_get(json, json->root, "stopReason");

    view->version++;

    if (ngx_http_agentstream_json_is(json, v, "cancelled")) {
        view->end = NGX_HTTP_AGENTSTREAM_VIEW_CANCELLED;

    } else if (ngx_http_agentstream_json_is(json, v, "max_tokens")) {
        view->end = NGX_HTTP_AGENTSTREAM_VIEW_MAX_TOKENS;

    } else if (ngx_http_agentstream_json_is(json, v, "refusal")) {
        view->end = NGX_HTTP_AGENTSTREAM_VIEW_REFUSAL;

    } else {
        view->end = NGX_HTTP_AGENTSTREAM_VIEW_END_TURN;
    }
}


static ngx_int_t
ngx_http_agentstream_view_fail(ngx_http_agentstream_view_t *view)
{
    u_char                       *p;
    ngx_str_t                     text;
    ngx_uint_t                    v;
    ngx_http_agentstream_json_t  *json;

    json = &view->json;

    v = ngx_http_agentstream_json_get(json, json->root, "code");

    view->end = (ngx_http_agentstream_json_integer(json, v, 0) == 504)
                ? NGX_HTTP_AGENTSTREAM_VIEW_TIMEOUT
                : NGX_HTTP_AGENTSTREAM_VIEW_ERROR;
    view->version++;

    v = ngx_http_agentstream_json_get(json, json->root, "message");
    text = ngx_http_agentstream_json_string(json, v);

    p = malloc(text.len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    free(view->error.data);

    view->error.data = p;
    view->error.len = ngx_http_agentstream_json_decode(p, &text) - p;

    return NGX_OK;
}


/* "2026-11-16T04:20:31.874Z"; 0: it has another form */

static int64_t
ngx_http_agentstream_view_timestamp(ngx_str_t *text)
{
    int64_t    days, seconds;
    ngx_int_t  year, month, day, hour, min, sec, msec;

    if (text->len != sizeof("2026-11-16T04:20:31.874Z") - 1) {
        return 0;
    }

    year = ngx_atoi(text->data, 4);
    month = ngx_atoi(text->data + 5, 2);
    day = ngx_atoi(text->data + 8, 2);
    hour = ngx_atoi(text->data + 11, 2);
    min = ngx_atoi(text->data + 14, 2);
    sec = ngx_atoi(text->data + 17, 2);
    msec = ngx_atoi(text->data + 20, 3);

    if (year < 1970 || month < 1 || month > 12 || day < 1 || hour < 0
        || min < 0 || sec < 0 || msec < 0)
    {
        return 0;
    }

    /* the Gregorian calendar, with years that begin in March */

    year -= (month < 3);
    month += (month < 3) ? 9 : -3;

    days = 365 * year + year / 4 - year / 100 + year / 400
           + (153 * month + 2) / 5 + day - 1 - 719468;

    seconds = days * 86400 + hour * 3600 + min * 60 + sec;

    return seconds * 1000 + msec;
}
