
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Reads OpenCode's answers about sessions.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_opencode.h"


typedef struct {
    ngx_str_t   *session;
    ngx_uint_t   found;
} ngx_http_agentstream_opencode_wanted_t;


static ngx_int_t ngx_http_agentstream_opencode_is(ngx_str_t *answer,
    ngx_uint_t type, ngx_str_t *session);
static ngx_int_t ngx_http_agentstream_opencode_names(
    ngx_http_agentstream_json_t *json, ngx_uint_t v, ngx_str_t *session);
static ngx_int_t ngx_http_agentstream_opencode_copy(ngx_pool_t *pool,
    ngx_str_t *id, ngx_str_t *copy);
static void ngx_http_agentstream_opencode_is_wanted(void *ctx,
    ngx_str_t *session);


const char *
ngx_http_agentstream_opencode_failure(ngx_uint_t status, ngx_uint_t nonsense,
    ngx_uint_t *code)
{
    *code = 502;

    if (nonsense) {
        return "OpenCode's answer makes no sense";
    }

    if (status == 504) {
        *code = status;
        return "OpenCode does not answer in time";
    }

    return (status < 500) ? "OpenCode refused the request"
                          : "OpenCode cannot be reached";
}


ngx_uint_t
ngx_http_agentstream_opencode_outdated(ngx_str_t *answer, ngx_str_t *version)
{
    u_char      *p, *last;
    ngx_uint_t   i, numbers[2];

    static u_char  name[] = "\"version\":\"";

    ngx_str_null(version);

    last = answer->data + answer->len;

    /* a quote in a text is escaped, so this is the name of a member */

    p = ngx_strlcasestrn(answer->data, last, name, sizeof(name) - 2);

    if (p == NULL) {
        return 0;
    }

    p += sizeof(name) - 1;
    version->data = p;

    for (i = 0; i < 2; i++) {
        numbers[i] = 0;

        if (p == last || *p < '0' || *p > '9') {
            return 0;
        }

        while (p < last && *p >= '0' && *p <= '9' && numbers[i] < 100000) {
            numbers[i] = numbers[i] * 10 + (*p++ - '0');
        }

        if (i == 0 && (p == last || *p++ != '.')) {
            return 0;
        }
    }

    while (p < last && ((*p >= '0' && *p <= '9') || *p == '.')
           && p - version->data < NGX_HTTP_AGENTSTREAM_OPENCODE_VERSION)
    {
        p++;
    }

    version->len = p - version->data;

    return numbers[0] < NGX_HTTP_AGENTSTREAM_OPENCODE_MAJOR
           || (numbers[0] == NGX_HTTP_AGENTSTREAM_OPENCODE_MAJOR
               && numbers[1] < NGX_HTTP_AGENTSTREAM_OPENCODE_MINOR);
}


ngx_int_t
ngx_http_agentstream_opencode_is_session(ngx_str_t *answer,
    ngx_str_t *session)
{
    return ngx_http_agentstream_opencode_is(answer,
                                            NGX_HTTP_AGENTSTREAM_JSON_OBJECT,
                                            session);
}


ngx_int_t
ngx_http_agentstream_opencode_is_list(ngx_str_t *answer)
{
    return ngx_http_agentstream_opencode_is(answer,
                                            NGX_HTTP_AGENTSTREAM_JSON_ARRAY,
                                            NULL);
}


ngx_int_t
ngx_http_agentstream_opencode_is_true(ngx_str_t *answer)
{
    return ngx_http_agentstream_opencode_is(answer,
                                            NGX_HTTP_AGENTSTREAM_JSON_TRUE,
                                            NULL);
}


static ngx_int_t
ngx_http_agentstream_opencode_is(ngx_str_t *answer, ngx_uint_t type,
    ngx_str_t *session)
{
    ngx_int_t                    rc;
    ngx_uint_t                   v;
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, answer->data, answer->len);

    if (rc == NGX_OK
        && ngx_http_agentstream_json_type(&json, json.root) != type)
    {
        rc = NGX_DECLINED;
    }

    if (rc == NGX_OK && type == NGX_HTTP_AGENTSTREAM_JSON_OBJECT) {
        rc = ngx_http_agentstream_opencode_names(&json, json.root, session);
    }

    if (rc == NGX_OK && type == NGX_HTTP_AGENTSTREAM_JSON_ARRAY) {

        for (v = ngx_http_agentstream_json_first(&json, json.root);
             v && rc == NGX_OK;
             v = ngx_http_agentstream_json_next(&json, json.root, v))
        {
            rc = ngx_http_agentstream_opencode_names(&json, v, NULL);
        }
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


/* whether a value is a session, and this one, if it is not NULL */

static ngx_int_t
ngx_http_agentstream_opencode_names(ngx_http_agentstream_json_t *json,
    ngx_uint_t v, ngx_str_t *session)
{
    ngx_str_t  id;

    id = ngx_http_agentstream_opencode_text(json, v, "id");

    if (!ngx_http_agentstream_opencode_session_id(&id)) {
        return NGX_DECLINED;
    }

    if (session
        && (id.len != session->len
            || ngx_memcmp(id.data, session->data, id.len) != 0))
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_opencode_busy(ngx_str_t *answer, ngx_str_t *session)
{
    ngx_int_t                               rc;
    ngx_http_agentstream_opencode_wanted_t  wanted;

    wanted.session = session;
    wanted.found = 0;

    rc = ngx_http_agentstream_opencode_all_busy(answer,
                                     ngx_http_agentstream_opencode_is_wanted,
                                     &wanted);

    return (rc == NGX_OK && !wanted.found) ? NGX_DECLINED : rc;
}


static void
ngx_http_agentstream_opencode_is_wanted(void *ctx, ngx_str_t *session)
{
    ngx_http_agentstream_opencode_wanted_t *wanted = ctx;

    if (session->len == wanted->session->len
        && ngx_memcmp(session->data, wanted->session->data, session->len) == 0)
    {
        wanted->found = 1;
    }
}


/* the answer lists the sessions that are busy or wait for a retry */

ngx_int_t
ngx_http_agentstream_opencode_all_busy(ngx_str_t *answer,
    ngx_http_agentstream_opencode_busy_pt handler, void *ctx)
{
    ngx_int_t                    rc;
    ngx_str_t                    name;
    ngx_uint_t                   v;
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, answer->data, answer->len);

    if (rc == NGX_OK
        && ngx_http_agentstream_json_type(&json, json.root)
           == NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        for (v = ngx_http_agentstream_json_first(&json, json.root);
             v;
             v = ngx_http_agentstream_json_next(&json, json.root, v))
        {
            if (ngx_http_agentstream_json_is(&json,
                           ngx_http_agentstream_json_get(&json, v + 1, "type"),
                           "idle"))
            {
                continue;
            }

            name = ngx_http_agentstream_json_string(&json, v);

            handler(ctx, &name);
        }

    } else {
        rc = NGX_ERROR;
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


ngx_int_t
ngx_http_agentstream_opencode_called(ngx_http_agentstream_json_t *json,
    ngx_uint_t part, ngx_uint_t state)
{
    ngx_str_t   error;
    ngx_uint_t  i, metadata;

    /* these texts are at the end of "error"; older versions put the class of
       the error before them, and advice follows them if the model shall
       continue with it */

    static ngx_str_t  rejected[] = {
        ngx_string("The user rejected permission to use this specific tool "
                   "call."),
        ngx_string("The user dismissed this question")
    };

    error = ngx_http_agentstream_opencode_text(json, state, "error");

    for (i = 0; i < sizeof(rejected) / sizeof(rejected[0]); i++) {

        if (error.len >= rejected[i].len
            && ngx_memcmp(error.data + error.len - rejected[i].len,
                          rejected[i].data, rejected[i].len)
               == 0)
        {
            return NGX_ABORT;
        }
    }

    metadata = ngx_http_agentstream_json_get(json, state, "metadata");

    if (ngx_http_agentstream_opencode_true(json, metadata, "interrupted")) {
        return NGX_DECLINED;
    }

    metadata = ngx_http_agentstream_json_get(json, part, "metadata");

    if (ngx_http_agentstream_opencode_true(json, metadata,
                                           "providerExecuted"))
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_agentstream_opencode_opens(ngx_http_agentstream_json_t *json,
    ngx_uint_t message, ngx_uint_t *again)
{
    ngx_uint_t  v, info, parts, compaction;

    info = ngx_http_agentstream_json_get(json, message, "info");
    parts = ngx_http_agentstream_json_get(json, message, "parts");

    v = ngx_http_agentstream_json_get(json, info, "role");

    if (ngx_http_agentstream_json_is(json, v, "assistant")) {

        v = ngx_http_agentstream_json_get(json, info, "summary");

        if (ngx_http_agentstream_json_type(json, v)
            == NGX_HTTP_AGENTSTREAM_JSON_TRUE
            && (ngx_http_agentstream_json_get(json, info, "error")
                || ngx_http_agentstream_json_get(json, info, "finish") == 0))
        {
            /* no prompt is repeated after a compaction that failed */
            *again = 0;
        }

        return NGX_DECLINED;
    }

    compaction = 0;

    for (v = parts ? ngx_http_agentstream_json_first(json, parts) : 0;
         v;
         v = ngx_http_agentstream_json_next(json, parts, v))
    {
        if (ngx_http_agentstream_json_is(json,
                           ngx_http_agentstream_json_get(json, v, "type"),
                           "compaction"))
        {
            compaction = v;
            continue;
        }

        if (!ngx_http_agentstream_opencode_true(json, v, "synthetic")
            && !ngx_http_agentstream_opencode_true(json, v, "ignored"))
        {
            if (*again) {
                *again = 0;
                return NGX_AGAIN;
            }

            return NGX_OK;
        }
    }

    *again = ngx_http_agentstream_opencode_true(json, compaction, "overflow");

    return NGX_DECLINED;
}


void
ngx_http_agentstream_opencode_turn(ngx_http_agentstream_json_t *json,
    ngx_http_agentstream_opencode_last_t *last)
{
    ngx_str_t   id;
    ngx_uint_t  info, opens;

    info = ngx_http_agentstream_json_get(json, json->root, "info");
    opens = (ngx_http_agentstream_opencode_opens(json, json->root,
                                                 &last->again)
             == NGX_OK);

    if (last->nmessages++ && !opens) {
        return;
    }

    ngx_str_null(&id);

    if (!opens) {
        id = ngx_http_agentstream_opencode_text(json, info, "parentID");
    }

    if (id.len == 0) {
        id = ngx_http_agentstream_opencode_text(json, info, "id");
    }

    last->len = 0;

    if (ngx_http_agentstream_opencode_id(&id)) {
        last->len = id.len;
        ngx_memcpy(last->id, id.data, id.len);
    }
}


ngx_int_t
ngx_http_agentstream_opencode_waits(ngx_pool_t *pool, ngx_str_t *answer,
    ngx_str_t *id, ngx_str_t *owner)
{
    ngx_int_t                    rc;
    ngx_str_t                    name, session;
    ngx_uint_t                   v;
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));
    ngx_str_null(&session);
    owner->len = 0;

    rc = ngx_http_agentstream_json_parse(&json, answer->data, answer->len);

    if (rc == NGX_OK
        && ngx_http_agentstream_json_type(&json, json.root)
           != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        rc = NGX_DECLINED;
    }

    for (v = (rc == NGX_OK)
             ? ngx_http_agentstream_json_first(&json, json.root) : 0;
         v && session.len == 0;
         v = ngx_http_agentstream_json_next(&json, json.root, v))
    {
        name = ngx_http_agentstream_opencode_text(&json, v, "id");

        if (name.len == id->len
            && ngx_memcmp(name.data, id->data, id->len) == 0)
        {
            session = ngx_http_agentstream_opencode_text(&json, v,
                                                         "sessionID");
        }
    }

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_opencode_copy(pool, &session, owner);
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


ngx_int_t
ngx_http_agentstream_opencode_parent(ngx_pool_t *pool, ngx_str_t *answer,
    ngx_str_t *session, ngx_str_t *parent)
{
    ngx_int_t                    rc;
    ngx_str_t                    id, text;
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));
    parent->len = 0;

    rc = ngx_http_agentstream_json_parse(&json, answer->data, answer->len);

    if (rc == NGX_OK) {
        id = ngx_http_agentstream_json_string(&json,
                       ngx_http_agentstream_json_get(&json, json.root, "id"));
        text = ngx_http_agentstream_json_string(&json,
                       ngx_http_agentstream_json_get(&json, json.root,
                                                     "parentID"));

        if (id.len == session->len
            && ngx_memcmp(id.data, session->data, id.len) == 0)
        {
            rc = ngx_http_agentstream_opencode_copy(pool, &text, parent);

        } else {
            rc = NGX_DECLINED;
        }
    }

    ngx_http_agentstream_json_destroy(&json);

    return rc;
}


/* copies a session's id, which may be empty */

static ngx_int_t
ngx_http_agentstream_opencode_copy(ngx_pool_t *pool, ngx_str_t *id,
    ngx_str_t *copy)
{
    if (id->len == 0) {
        return NGX_OK;
    }

    if (!ngx_http_agentstream_opencode_session_id(id)) {
        return NGX_DECLINED;
    }

    copy->data = ngx_pstrdup(pool, id);

    if (copy->data == NULL) {
        return NGX_ERROR;
    }

    copy->len = id->len;

    return NGX_OK;
}
