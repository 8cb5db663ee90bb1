
/*
 * Copyright (C) agentstream contributors
 *
 * OpenCode's events, paths and ids; see the header.  Nothing that comes from
 * OpenCode or from a client gets into a path unless it has the form of an id.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_opencode.h"


/* the same numbers as nginx's NGX_HTTP_GET and so on, whose header a pure part
   must not include */
#define NGX_HTTP_AGENTSTREAM_OPENCODE_GET         0x0002
#define NGX_HTTP_AGENTSTREAM_OPENCODE_POST        0x0008
#define NGX_HTTP_AGENTSTREAM_OPENCODE_DELETE      0x0020
#define NGX_HTTP_AGENTSTREAM_OPENCODE_PATCH       0x4000

#define NGX_HTTP_AGENTSTREAM_OPENCODE_ID_MAX      64
#define NGX_HTTP_AGENTSTREAM_OPENCODE_PARENT_MAX  4096

/* size limits of answers: a single value or an error; a session, which may
   contain all that was reverted in it, or the list of busy sessions; a message
   while it is being written; a list */
#define NGX_HTTP_AGENTSTREAM_ANSWER_SHORT    65536
#define NGX_HTTP_AGENTSTREAM_ANSWER_SESSION  (1024 * 1024)
#define NGX_HTTP_AGENTSTREAM_ANSWER_MESSAGE  (4 * 1024 * 1024)
#define NGX_HTTP_AGENTSTREAM_ANSWER_LIST     (16 * 1024 * 1024)

/* the size limit of one message, with its files, in the list of all
   messages */
#define NGX_HTTP_AGENTSTREAM_ANSWER_ELEMENT  (64 * 1024 * 1024)


#define ngx_http_agentstream_opencode_match(name)                             \
    (ngx_memcmp(p, name, sizeof(name) - 1) == 0)


typedef struct {
    ngx_uint_t   method;
    ngx_str_t    head;
    ngx_str_t    middle;
    ngx_str_t    tail;
    size_t       limit;
} ngx_http_agentstream_opencode_path_t;


static u_char *ngx_http_agentstream_opencode_skip(u_char *p, u_char *last,
    const char *text, size_t len);
static u_char *ngx_http_agentstream_opencode_quoted(u_char *p, u_char *last,
    ngx_str_t *value);
static ngx_uint_t ngx_http_agentstream_opencode_type(ngx_str_t *type);
static ngx_int_t ngx_http_agentstream_opencode_created(u_char *p, u_char *last,
    ngx_str_t *parent);
static ngx_str_t ngx_http_agentstream_opencode_session(
    ngx_http_agentstream_event_t *ev);
static ngx_int_t ngx_http_agentstream_opencode_delta(ngx_str_t *data,
    ngx_http_agentstream_event_t *ev);
static u_char *ngx_http_agentstream_opencode_string(u_char *p, u_char *last,
    ngx_str_t *value);


#define ngx_http_agentstream_opencode_skip_text(p, last, text)                \
    ngx_http_agentstream_opencode_skip(p, last, text, sizeof(text) - 1)


/* in the order of ngx_http_agentstream_opencode_request_e; a path is head
   [session] middle [id] tail */

static ngx_http_agentstream_opencode_path_t
    ngx_http_agentstream_opencode_paths[] =
{
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("event"),
      ngx_null_string, ngx_null_string,
      0 },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("session/status"),
      ngx_null_string, ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_SESSION },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("session"),
      ngx_null_string, ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_LIST },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_POST, ngx_string("session"),
      ngx_null_string, ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_SESSION },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_POST, ngx_string("api/session"),
      ngx_null_string, ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_SESSION },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_PATCH, ngx_string("session/"),
      ngx_string(""), ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_SESSION },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("session/"),
      ngx_string(""), ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_SESSION },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_DELETE, ngx_string("session/"),
      ngx_string(""), ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_SHORT },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("session/"),
      ngx_string("/message"), ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_ELEMENT },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("session/"),
      ngx_string("/message/"), ngx_string(""),
      NGX_HTTP_AGENTSTREAM_ANSWER_MESSAGE },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_POST, ngx_string("session/"),
      ngx_string("/prompt_async"), ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_SHORT },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_POST, ngx_string("session/"),
      ngx_string("/abort"), ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_SHORT },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("question"),
      ngx_null_string, ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_LIST },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_POST, ngx_string("question/"),
      ngx_null_string, ngx_string("/reply"),
      NGX_HTTP_AGENTSTREAM_ANSWER_SHORT },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_POST, ngx_string("question/"),
      ngx_null_string, ngx_string("/reject"),
      NGX_HTTP_AGENTSTREAM_ANSWER_SHORT },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("permission"),
      ngx_null_string, ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_LIST },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_POST, ngx_string("permission/"),
      ngx_null_string, ngx_string("/reply"),
      NGX_HTTP_AGENTSTREAM_ANSWER_SHORT },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("config/providers"),
      ngx_null_string, ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_LIST },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("agent"),
      ngx_null_string, ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_LIST },
    { NGX_HTTP_AGENTSTREAM_OPENCODE_GET, ngx_string("global/health"),
      ngx_null_string, ngx_null_string,
      NGX_HTTP_AGENTSTREAM_ANSWER_SHORT }
};


ngx_int_t
ngx_http_agentstream_opencode_peek(ngx_str_t *data,
    ngx_http_agentstream_event_t *ev)
{
    u_char     *p, *last;
    ngx_str_t   value;

    ngx_memzero(ev, sizeof(ngx_http_agentstream_event_t));

    ev->data = *data;

    p = data->data;
    last = p + data->len;

    /*
     * A quote inside a string is escaped.  So in valid JSON these texts, one
     * after the other, can match nothing but the keys.
     */

    p = ngx_http_agentstream_opencode_skip_text(p, last, "{\"id\":\"");
    p = ngx_http_agentstream_opencode_quoted(p, last, &value);
    p = ngx_http_agentstream_opencode_skip_text(p, last, ",\"type\":\"");
    p = ngx_http_agentstream_opencode_quoted(p, last, &value);
    p = ngx_http_agentstream_opencode_skip_text(p, last, ",\"properties\":{");

    if (p == NULL) {
        return NGX_DECLINED;
    }

    ev->type = ngx_http_agentstream_opencode_type(&value);

    switch (ev->type) {

    case NGX_HTTP_AGENTSTREAM_EVENT_OTHER:
    case NGX_HTTP_AGENTSTREAM_EVENT_CONNECTED:
    case NGX_HTTP_AGENTSTREAM_EVENT_HEARTBEAT:
    case NGX_HTTP_AGENTSTREAM_EVENT_DISPOSED:
        return NGX_OK;

    case NGX_HTTP_AGENTSTREAM_EVENT_QUESTION:
    case NGX_HTTP_AGENTSTREAM_EVENT_PERMISSION:
        p = ngx_http_agentstream_opencode_skip_text(p, last, "\"id\":\"");
        p = ngx_http_agentstream_opencode_quoted(p, last, &value);
        p = ngx_http_agentstream_opencode_skip_text(p, last, ",");
        break;

    default:
        break;
    }

    p = ngx_http_agentstream_opencode_skip_text(p, last, "\"sessionID\":\"");
    p = ngx_http_agentstream_opencode_quoted(p, last, &ev->session);

    if (p == NULL) {
        return NGX_DECLINED;
    }

    ev->rest = p;

    if (ev->type == NGX_HTTP_AGENTSTREAM_EVENT_CREATED) {
        return ngx_http_agentstream_opencode_created(p, last, &ev->parent);
    }

    return NGX_OK;
}


static u_char *
ngx_http_agentstream_opencode_skip(u_char *p, u_char *last, const char *text,
    size_t len)
{
    if (p == NULL || (size_t) (last - p) < len
        || ngx_memcmp(p, text, len) != 0)
    {
        return NULL;
    }

    return p + len;
}


static u_char *
ngx_http_agentstream_opencode_quoted(u_char *p, u_char *last,
    ngx_str_t *value)
{
    size_t   len;
    u_char  *end;

    if (p == NULL) {
        return NULL;
    }

    len = ngx_min(last - p, NGX_HTTP_AGENTSTREAM_OPENCODE_ID_MAX + 1);

    end = memchr(p, '"', len);
    if (end == NULL) {
        return NULL;
    }

    value->data = p;
    value->len = end - p;

    return end + 1;
}


static ngx_uint_t
ngx_http_agentstream_opencode_type(ngx_str_t *type)
{
    u_char  *p;

    p = type->data;

    switch (type->len) {

    case sizeof("session.idle") - 1:
        if (ngx_http_agentstream_opencode_match("session.idle")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_IDLE;
        }

        if (ngx_http_agentstream_opencode_match("todo.updated")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_TODO;
        }

        break;

    case sizeof("session.error") - 1:
        if (ngx_http_agentstream_opencode_match("session.error")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_ERROR;
        }

        break;

    case sizeof("session.status") - 1:
        if (ngx_http_agentstream_opencode_match("session.status")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_STATUS;
        }

        if (ngx_http_agentstream_opencode_match("question.asked")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_QUESTION;
        }

        break;

    case sizeof("message.updated") - 1:
        if (ngx_http_agentstream_opencode_match("message.updated")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE;
        }

        if (ngx_http_agentstream_opencode_match("message.removed")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE_REMOVED;
        }

        if (ngx_http_agentstream_opencode_match("session.created")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_CREATED;
        }

        if (ngx_http_agentstream_opencode_match("session.deleted")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_DELETED;
        }

        break;

    case sizeof("server.connected") - 1:
        if (ngx_http_agentstream_opencode_match("server.connected")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_CONNECTED;
        }

        if (ngx_http_agentstream_opencode_match("server.heartbeat")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_HEARTBEAT;
        }

        if (ngx_http_agentstream_opencode_match("permission.asked")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_PERMISSION;
        }

        if (ngx_http_agentstream_opencode_match("question.replied")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_QUESTION_REPLIED;
        }

        break;

    case sizeof("session.compacted") - 1:
        if (ngx_http_agentstream_opencode_match("session.compacted")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_COMPACTED;
        }

        if (ngx_http_agentstream_opencode_match("question.rejected")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_QUESTION_REJECTED;
        }

        break;

    case sizeof("message.part.delta") - 1:
        if (ngx_http_agentstream_opencode_match("message.part.delta")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_DELTA;
        }

        if (ngx_http_agentstream_opencode_match("permission.replied")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_PERMISSION_REPLIED;
        }

        break;

    case sizeof("message.part.updated") - 1:
        if (ngx_http_agentstream_opencode_match("message.part.updated")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_PART;
        }

        if (ngx_http_agentstream_opencode_match("message.part.removed")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_PART_REMOVED;
        }

        break;

    case sizeof("server.instance.disposed") - 1:
        if (ngx_http_agentstream_opencode_match("server.instance.disposed")) {
            return NGX_HTTP_AGENTSTREAM_EVENT_DISPOSED;
        }

        break;
    }

    return NGX_HTTP_AGENTSTREAM_EVENT_OTHER;
}


static ngx_int_t
ngx_http_agentstream_opencode_created(u_char *p, u_char *last,
    ngx_str_t *parent)
{
    u_char  *next;

    if (last - p > NGX_HTTP_AGENTSTREAM_OPENCODE_PARENT_MAX) {
        return NGX_DECLINED;
    }

    for (p++; p < last; p++) {

        p = memchr(p, '"', last - p);
        if (p == NULL) {
            break;
        }

        /* it must be the name of a member, not the end of a text */

        if (p[-1] != ',' && p[-1] != '{') {
            continue;
        }

        next = ngx_http_agentstream_opencode_skip_text(p, last,
                                                       "\"parentID\":\"");
        if (next == NULL) {
            continue;
        }

        next = ngx_http_agentstream_opencode_quoted(next, last, parent);

        return (next == NULL) ? NGX_DECLINED : NGX_OK;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_opencode_parse(ngx_str_t *data,
    ngx_http_agentstream_json_t *json, ngx_http_agentstream_event_t *ev)
{
    ngx_int_t   rc;
    ngx_str_t   type;
    ngx_uint_t  value;

    ngx_memzero(ev, sizeof(ngx_http_agentstream_event_t));

    ev->data = *data;

    rc = ngx_http_agentstream_json_parse(json, data->data, data->len);
    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_agentstream_json_type(json, json->root)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return NGX_DECLINED;
    }

    value = ngx_http_agentstream_json_get(json, json->root, "type");

    type = ngx_http_agentstream_json_string(json, value);
    if (type.len == 0) {
        return NGX_DECLINED;
    }

    ev->json = json;
    ev->type = ngx_http_agentstream_opencode_type(&type);
    ev->properties = ngx_http_agentstream_json_get(json, json->root,
                                                   "properties");
    ev->session = ngx_http_agentstream_opencode_session(ev);

    if (ev->type == NGX_HTTP_AGENTSTREAM_EVENT_CREATED) {
        value = ngx_http_agentstream_json_get(json, ev->properties,
                                              "info");
        ev->parent = ngx_http_agentstream_opencode_text(json, value,
                                                        "parentID");
    }

    if (ev->type == NGX_HTTP_AGENTSTREAM_EVENT_DELTA
        && ngx_http_agentstream_json_is(json,
               ngx_http_agentstream_json_get(json, ev->properties,
                                             "field"),
               "text"))
    {
        ev->message = ngx_http_agentstream_opencode_text(json, ev->properties,
                                                         "messageID");
        ev->part = ngx_http_agentstream_opencode_text(json, ev->properties,
                                                      "partID");
        ev->text = ngx_http_agentstream_opencode_text(json, ev->properties,
                                                      "delta");
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_opencode_read(ngx_str_t *data,
    ngx_http_agentstream_json_t *json, ngx_http_agentstream_event_t *ev)
{
    if (ev->type == NGX_HTTP_AGENTSTREAM_EVENT_DELTA && ev->rest
        && ngx_http_agentstream_opencode_delta(data, ev) == NGX_OK)
    {
        return NGX_OK;
    }

    return ngx_http_agentstream_opencode_parse(data, json, ev);
}


static ngx_int_t
ngx_http_agentstream_opencode_delta(ngx_str_t *data,
    ngx_http_agentstream_event_t *ev)
{
    u_char  *p, *last;

    p = ev->rest;
    last = data->data + data->len;

    p = ngx_http_agentstream_opencode_skip_text(p, last, ",\"messageID\":");
    p = ngx_http_agentstream_opencode_string(p, last, &ev->message);
    p = ngx_http_agentstream_opencode_skip_text(p, last, ",\"partID\":");
    p = ngx_http_agentstream_opencode_string(p, last, &ev->part);
    p = ngx_http_agentstream_opencode_skip_text(p, last,
                                          ",\"field\":\"text\",\"delta\":");
    p = ngx_http_agentstream_opencode_string(p, last, &ev->text);
    p = ngx_http_agentstream_opencode_skip_text(p, last, "}}");

    return (p == last) ? NGX_OK : NGX_DECLINED;
}


static u_char *
ngx_http_agentstream_opencode_string(u_char *p, u_char *last,
    ngx_str_t *value)
{
    u_char                             *end;
    ngx_http_agentstream_json_token_t   token;

    if (p == NULL || p == last || *p != '"') {
        return NULL;
    }

    end = ngx_http_agentstream_json_scan_string(p, last, &token);

    if (end) {
        value->data = p + 1;
        value->len = end - p - 2;
    }

    return end;
}


static ngx_str_t
ngx_http_agentstream_opencode_session(ngx_http_agentstream_event_t *ev)
{
    ngx_str_t                     session;
    ngx_uint_t                    value;
    ngx_http_agentstream_json_t  *json;

    json = ev->json;

    session = ngx_http_agentstream_opencode_text(json, ev->properties,
                                                 "sessionID");
    if (session.len != 0) {
        return session;
    }

    /* in events of older versions only the object itself contains its
       session */

    switch (ev->type) {

    case NGX_HTTP_AGENTSTREAM_EVENT_CREATED:
    case NGX_HTTP_AGENTSTREAM_EVENT_DELETED:
        value = ngx_http_agentstream_json_get(json, ev->properties,
                                              "info");
        return ngx_http_agentstream_opencode_text(json, value, "id");

    case NGX_HTTP_AGENTSTREAM_EVENT_MESSAGE:
        value = ngx_http_agentstream_json_get(json, ev->properties,
                                              "info");
        return ngx_http_agentstream_opencode_text(json, value, "sessionID");

    case NGX_HTTP_AGENTSTREAM_EVENT_PART:
        value = ngx_http_agentstream_json_get(json, ev->properties,
                                              "part");
        return ngx_http_agentstream_opencode_text(json, value, "sessionID");

    default:
        return session;
    }
}


ngx_int_t
ngx_http_agentstream_opencode_address(ngx_pool_t *pool,
    ngx_http_agentstream_address_t *addr, ngx_uint_t request,
    ngx_str_t *session, ngx_str_t *id, ngx_str_t *directory)
{
    size_t                                 len;
    u_char                                *p;
    uintptr_t                              escape;
    ngx_http_agentstream_opencode_path_t  *path;

    path = &ngx_http_agentstream_opencode_paths[request];

    len = path->head.len + path->middle.len + path->tail.len;

    if (path->middle.data) {
        if (session == NULL
            || !ngx_http_agentstream_opencode_session_id(session))
        {
            return NGX_DECLINED;
        }

        len += session->len;
    }

    if (path->tail.data) {
        if (id == NULL || !ngx_http_agentstream_opencode_id(id)) {
            return NGX_DECLINED;
        }

        len += id->len;
    }

    p = ngx_pnalloc(pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    addr->method = path->method;
    addr->limit = path->limit;
    addr->uri.data = p;
    addr->uri.len = len;

    p = ngx_cpymem(p, path->head.data, path->head.len);

    if (path->middle.data) {
        p = ngx_cpymem(p, session->data, session->len);
        p = ngx_cpymem(p, path->middle.data, path->middle.len);
    }

    if (path->tail.data) {
        p = ngx_cpymem(p, id->data, id->len);
        ngx_memcpy(p, path->tail.data, path->tail.len);
    }

    ngx_str_null(&addr->args);

    if (directory == NULL || directory->len == 0) {
        return NGX_OK;
    }

    escape = 2 * ngx_escape_uri(NULL, directory->data, directory->len,
                                NGX_ESCAPE_URI_COMPONENT);

    len = sizeof("directory=") - 1 + directory->len + escape;

    p = ngx_pnalloc(pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    addr->args.data = p;
    addr->args.len = len;

    p = ngx_cpymem(p, "directory=", sizeof("directory=") - 1);

    (void) ngx_escape_uri(p, directory->data, directory->len,
                          NGX_ESCAPE_URI_COMPONENT);

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_opencode_limit(ngx_pool_t *pool,
    ngx_http_agentstream_address_t *addr, ngx_uint_t limit)
{
    u_char  *p, *args;

    args = ngx_pnalloc(pool, addr->args.len + sizeof("&limit=") - 1
                             + NGX_INT_T_LEN);
    if (args == NULL) {
        return NGX_ERROR;
    }

    p = args;

    if (addr->args.len) {
        p = ngx_cpymem(p, addr->args.data, addr->args.len);
        *p++ = '&';
    }

    p = ngx_sprintf(p, "limit=%ui", limit);

    addr->args.data = args;
    addr->args.len = p - args;

    return NGX_OK;
}


ngx_uint_t
ngx_http_agentstream_opencode_session_id(ngx_str_t *id)
{
    return ngx_http_agentstream_opencode_id(id)
           && ngx_strncmp(id->data, "ses_", sizeof("ses_") - 1) == 0;
}


ngx_uint_t
ngx_http_agentstream_opencode_id(ngx_str_t *id)
{
    u_char  *p, *last;

    if (id->len == 0 || id->len > NGX_HTTP_AGENTSTREAM_OPENCODE_ID_MAX) {
        return 0;
    }

    p = id->data;
    last = p + id->len;

    while (p < last && *p >= 'a' && *p <= 'z') {
        p++;
    }

    if (p == id->data || p == last || *p++ != '_' || p == last) {
        return 0;
    }

    for ( /* void */ ; p < last; p++) {
        if ((*p < '0' || *p > '9')
            && (*p < 'a' || *p > 'z')
            && (*p < 'A' || *p > 'Z'))
        {
            return 0;
        }
    }

    return 1;
}


void
ngx_http_agentstream_opencode_message_id(u_char *dst, uint64_t msec,
    ngx_uint_t counter, u_char *random)
{
    uint64_t    time;
    ngx_uint_t  i;

    static u_char  hex[] = "0123456789abcdef";
    static u_char  base62[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    dst = ngx_cpymem(dst, "msg_", sizeof("msg_") - 1);

    time = msec * 4096 + counter;

    for (i = 0; i < 12; i++) {
        *dst++ = hex[(time >> (44 - 4 * i)) & 0xf];
    }

    for (i = 0; i < 14; i++) {
        *dst++ = base62[random[i] % 62];
    }
}


ngx_int_t
ngx_http_agentstream_opencode_directory(ngx_pool_t *pool, ngx_str_t *answer,
    ngx_str_t *session, ngx_str_t *directory)
{
    ngx_int_t                    rc;
    ngx_str_t                    text, id;
    ngx_uint_t                   object, place;
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, answer->data, answer->len);

    if (rc == NGX_OK) {
        object = ngx_http_agentstream_json_get(&json, json.root, "data");
        place = ngx_http_agentstream_json_get(&json, object, "location");

        if (object == 0) {
            object = json.root;
            place = json.root;
        }

        id = ngx_http_agentstream_json_string(&json,
                       ngx_http_agentstream_json_get(&json, object, "id"));
        text = ngx_http_agentstream_json_string(&json,
                       ngx_http_agentstream_json_get(&json, place,
                                                     "directory"));

        if (text.len == 0
            || id.len != session->len
            || ngx_memcmp(id.data, session->data, id.len) != 0)
        {
            rc = NGX_DECLINED;
        }
    }

    if (rc == NGX_OK) {
        directory->data = ngx_pnalloc(pool, text.len);

        if (directory->data) {
            directory->len = ngx_http_agentstream_json_decode(directory->data,
                                                              &text)
                             - directory->data;

        } else {
            rc = NGX_ERROR;
        }
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}
