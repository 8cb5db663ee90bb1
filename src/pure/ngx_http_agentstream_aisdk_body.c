
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The body of a chat.  The library sends all messages that the page has; the
 * session has them already, so only the last one counts.  If it is the user's,
 * it becomes a prompt, in the form of "send-message"; if it is the assistant's,
 * the client has answered what was asked there.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_aisdk_int.h"
#include "ngx_http_agentstream_name.h"
#include "ngx_http_agentstream_opencode.h"


#define NGX_HTTP_AGENTSTREAM_AISDK_ID_MAX    128
/* how often a client can answer in one turn */
#define NGX_HTTP_AGENTSTREAM_AISDK_ENDS_MAX  4096


/* exists while the body is read; fields.data points to it */

typedef struct {
    ngx_http_agentstream_fields_t        fields;
    ngx_http_agentstream_aisdk_chat_t   *chat;
    ngx_uint_t                           user;     /* the last message is the
                                                      user's */
    ngx_uint_t                           edits;    /* "messageId" names a
                                                      message */
} ngx_http_agentstream_aisdk_ctx_t;


static ngx_int_t ngx_http_agentstream_aisdk_body_id(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_aisdk_body_trigger(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_aisdk_body_message_id(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_aisdk_body_messages(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value);
static ngx_int_t ngx_http_agentstream_aisdk_body_user(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t message);
static ngx_int_t ngx_http_agentstream_aisdk_body_part(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t index,
    ngx_uint_t part);
static ngx_int_t ngx_http_agentstream_aisdk_body_assistant(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t message);
static ngx_int_t ngx_http_agentstream_aisdk_body_ends(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t list);
static ngx_int_t ngx_http_agentstream_aisdk_body_approval(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t part);
static ngx_int_t ngx_http_agentstream_aisdk_body_output(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t part,
    ngx_uint_t failed);
static ngx_int_t ngx_http_agentstream_aisdk_body_answers(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t output,
    ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_aisdk_body_answer(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t request, ngx_uint_t id,
    ngx_str_t *body);


static ngx_http_agentstream_field_t  ngx_http_agentstream_aisdk_table[] = {
    { "id", 0, 1, ngx_http_agentstream_aisdk_body_id },
    { "messages", 0, 1, ngx_http_agentstream_aisdk_body_messages },
    { "trigger", 0, 0, ngx_http_agentstream_aisdk_body_trigger },
    { "messageId", 0, 0, ngx_http_agentstream_aisdk_body_message_id },
    { "model", 0, 0, ngx_http_agentstream_fields_member },
    { "agent", 0, 0, ngx_http_agentstream_fields_member },
    { "system", 0, 0, ngx_http_agentstream_fields_member },
    { "variant", 0, 0, ngx_http_agentstream_fields_member },
    { "tools", 0, 0, ngx_http_agentstream_fields_member },
    { NULL, 0, 0, NULL }
};


ngx_int_t
ngx_http_agentstream_aisdk_chat(ngx_pool_t *pool, ngx_str_t *text,
    ngx_http_agentstream_aisdk_chat_t *chat)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_fields_t     *fields;
    ngx_http_agentstream_aisdk_ctx_t   ctx;

    ngx_memzero(chat, sizeof(ngx_http_agentstream_aisdk_chat_t));
    ngx_memzero(&ctx, sizeof(ngx_http_agentstream_aisdk_ctx_t));

    if (ngx_array_init(&chat->answers, pool, 2,
                       sizeof(ngx_http_agentstream_body_answer_t))
        != NGX_OK
        || ngx_array_init(&chat->ends, pool, 2, sizeof(uint64_t)) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx.chat = chat;

    fields = &ctx.fields;

    fields->pool = pool;
    fields->table = ngx_http_agentstream_aisdk_table;
    fields->error = &chat->error;
    fields->data = &ctx;
    ngx_str_set(&fields->head, "{");

    rc = ngx_http_agentstream_fields_build(fields, text);

    if (rc == NGX_OK && ctx.user && ctx.edits) {
        rc = ngx_http_agentstream_fields_refuse(fields,
                             "a message cannot be sent again in another form: "
                             "the session keeps what was said");
    }

    if (rc == NGX_OK && ctx.user) {
        chat->prompt = fields->body;

    } else if (fields->body.data) {
        /* it is as large as the history, and the response may take long */
        ngx_pfree(pool, fields->body.data);
    }

    return rc;
}


static ngx_int_t
ngx_http_agentstream_aisdk_body_id(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    u_char                            *p;
    ngx_str_t                          id;
    ngx_http_agentstream_aisdk_ctx_t  *ctx;

    ctx = fields->data;
    id = ngx_http_agentstream_json_string(&fields->json, value);

    p = ngx_pnalloc(fields->pool, id.len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ctx->chat->name.data = p;
    ctx->chat->name.len = ngx_http_agentstream_json_decode(p, &id) - p;

    if (!ngx_http_agentstream_name_valid(&ctx->chat->name)) {
        return ngx_http_agentstream_fields_refuse(fields,
                   "\"%s\" must be 1 to %d of A-Z a-z 0-9 . _ : ~ -", name,
                   NGX_HTTP_AGENTSTREAM_NAME_MAX);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_aisdk_body_trigger(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_http_agentstream_json_t  *json;

    json = &fields->json;

    if (ngx_http_agentstream_json_is(json, value, "regenerate-message")) {
        return ngx_http_agentstream_fields_refuse(fields,
                             "a message cannot be regenerated: the session "
                             "keeps what was said");
    }

    if (!ngx_http_agentstream_json_is(json, value, "submit-message")) {
        return ngx_http_agentstream_fields_refuse(fields,
                                   "\"%s\" must be \"submit-message\"", name);
    }

    return NGX_OK;
}


/* the library sends it if the user has edited a message, or has answered what
   was asked in one */

static ngx_int_t
ngx_http_agentstream_aisdk_body_message_id(
    ngx_http_agentstream_fields_t *fields, const char *name,
    ngx_uint_t value)
{
    ngx_http_agentstream_aisdk_ctx_t  *ctx;

    ctx = fields->data;
    ctx->edits = (ngx_http_agentstream_json_string(&fields->json, value).len
                  != 0);

    if (!ctx->edits
        && ngx_http_agentstream_json_type(&fields->json, value)
           != NGX_HTTP_AGENTSTREAM_JSON_NULL)
    {
        return ngx_http_agentstream_fields_refuse(fields,
                                 "\"%s\" must be a string, not empty", name);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_aisdk_body_messages(ngx_http_agentstream_fields_t *fields,
    const char *name, ngx_uint_t value)
{
    ngx_uint_t                         v, last, role;
    ngx_http_agentstream_json_t       *json;
    ngx_http_agentstream_aisdk_ctx_t  *ctx;

    ctx = fields->data;
    json = &fields->json;
    last = 0;

    if (ngx_http_agentstream_json_type(json, value)
        == NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        for (v = ngx_http_agentstream_json_first(json, value);
             v;
             v = ngx_http_agentstream_json_next(json, value, v))
        {
            last = v;

            if (ngx_http_agentstream_json_type(json, v)
                != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
            {
                last = 0;
                break;
            }
        }
    }

    if (last == 0) {
        return ngx_http_agentstream_fields_refuse(fields,
                      "\"%s\" must be an array of objects, not empty", name);
    }

    role = ngx_http_agentstream_json_get(json, last, "role");

    if (ngx_http_agentstream_json_is(json, role, "user")) {
        ctx->user = 1;
        return ngx_http_agentstream_aisdk_body_user(ctx, last);
    }

    if (ngx_http_agentstream_json_is(json, role, "assistant")) {
        return ngx_http_agentstream_aisdk_body_assistant(ctx, last);
    }

    return ngx_http_agentstream_fields_refuse(fields,
               "\"role\" of the last message must be \"user\" or "
               "\"assistant\"");
}


static ngx_int_t
ngx_http_agentstream_aisdk_body_user(ngx_http_agentstream_aisdk_ctx_t *ctx,
    ngx_uint_t message)
{
    ngx_int_t                       rc;
    ngx_uint_t                      v, id, parts, n;
    ngx_http_agentstream_json_t    *json;
    ngx_http_agentstream_fields_t  *fields;

    fields = &ctx->fields;
    json = &fields->json;

    /* who sends the same message again gets the turn of the first one */

    id = ngx_http_agentstream_json_get(json, message, "id");
    n = ngx_http_agentstream_json_string(json, id).len;

    if (n == 0 || n > NGX_HTTP_AGENTSTREAM_AISDK_ID_MAX) {
        return ngx_http_agentstream_fields_refuse(fields,
                   "\"id\" of the last message must be a string of 1 to %d "
                   "bytes", NGX_HTTP_AGENTSTREAM_AISDK_ID_MAX);
    }

    ngx_http_agentstream_fields_name(fields, "client_request_id");
    ngx_http_agentstream_fields_value(fields, id);

    parts = ngx_http_agentstream_json_get(json, message, "parts");

    if (ngx_http_agentstream_json_type(json, parts)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_fields_refuse(fields,
                             "\"parts\" of the last message must be an array");
    }

    ngx_http_agentstream_fields_name(fields, "parts");
    n = 0;

    for (v = ngx_http_agentstream_json_first(json, parts);
         v;
         v = ngx_http_agentstream_json_next(json, parts, v))
    {
        ngx_http_agentstream_fields_write(fields, n ? "," : "[");

        rc = ngx_http_agentstream_aisdk_body_part(ctx, n++, v);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    ngx_http_agentstream_fields_write(fields, n ? "]" : "[]");

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_aisdk_body_part(ngx_http_agentstream_aisdk_ctx_t *ctx,
    ngx_uint_t index, ngx_uint_t part)
{
    ngx_uint_t                      i, v, type;
    ngx_http_agentstream_json_t    *json;
    ngx_http_agentstream_fields_t  *fields;

    static struct {
        const char  *name;         /* in a part of the library */
        const char  *written;      /* in OpenCode's */
        ngx_uint_t   required;
    } members[] = {
        { "mediaType", ",\"mime\":", 1 },
        { "url", ",\"url\":", 1 },
        { "filename", ",\"filename\":", 0 },
    };

    fields = &ctx->fields;
    json = &fields->json;

    type = ngx_http_agentstream_json_get(json, part, "type");

    if (ngx_http_agentstream_json_is(json, type, "text")) {
        v = ngx_http_agentstream_json_get(json, part, "text");

        if (ngx_http_agentstream_json_type(json, v)
            != NGX_HTTP_AGENTSTREAM_JSON_STRING)
        {
            return ngx_http_agentstream_fields_refuse(fields,
                          "\"parts[%ui].text\" must be a string", index);
        }

        ngx_http_agentstream_fields_write(fields,
                                          "{\"type\":\"text\",\"text\":");
        ngx_http_agentstream_fields_value(fields, v);
        ngx_http_agentstream_fields_write(fields, "}");

        return NGX_OK;
    }

    if (!ngx_http_agentstream_json_is(json, type, "file")) {
        return ngx_http_agentstream_fields_refuse(fields,
                  "\"parts[%ui].type\" must be \"text\" or \"file\"", index);
    }

    ngx_http_agentstream_fields_write(fields, "{\"type\":\"file\"");

    for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        v = ngx_http_agentstream_json_get(json, part, members[i].name);

        if (v == 0 && !members[i].required) {
            continue;
        }

        if (ngx_http_agentstream_json_string(json, v).len == 0) {
            return ngx_http_agentstream_fields_refuse(fields,
                          "\"parts[%ui].%s\" must be a string, not empty",
                          index, members[i].name);
        }

        ngx_http_agentstream_fields_write(fields, members[i].written);
        ngx_http_agentstream_fields_value(fields, v);
    }

    ngx_http_agentstream_fields_write(fields, "}");

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_aisdk_body_assistant(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t message)
{
    int64_t                             seq;
    ngx_int_t                           rc;
    ngx_str_t                           turn;
    ngx_uint_t                          v, parts, state;
    ngx_http_agentstream_json_t        *json;
    ngx_http_agentstream_aisdk_chat_t  *chat;

    chat = ctx->chat;
    json = &ctx->fields.json;

    v = ngx_http_agentstream_json_get(json, message, "metadata");
    v = ngx_http_agentstream_json_get(json, v, "agentstream");

    turn = ngx_http_agentstream_json_string(json,
                           ngx_http_agentstream_json_get(json, v, "turn"));
    seq = ngx_http_agentstream_json_integer(json,
                        ngx_http_agentstream_json_get(json, v, "seq"), 0);

    if (seq <= 0 || !ngx_http_agentstream_opencode_id(&turn)) {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                   "the last message must be the user's, or one that waits "
                   "for an answer, with its \"metadata\"");
    }

    chat->seq = seq;
    chat->turn.len = turn.len;
    chat->turn.data = ngx_pstrdup(ctx->fields.pool, &turn);

    if (chat->turn.data == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_http_agentstream_aisdk_body_ends(ctx,
                              ngx_http_agentstream_json_get(json, v, "ends"));
    if (rc != NGX_OK) {
        return rc;
    }

    parts = ngx_http_agentstream_json_get(json, message, "parts");

    if (ngx_http_agentstream_json_type(json, parts)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                             "\"parts\" of the last message must be an array");
    }

    for (v = ngx_http_agentstream_json_first(json, parts);
         v;
         v = ngx_http_agentstream_json_next(json, parts, v))
    {
        state = ngx_http_agentstream_json_get(json, v, "state");
        rc = NGX_OK;

        if (ngx_http_agentstream_json_is(json, state, "approval-responded")) {
            rc = ngx_http_agentstream_aisdk_body_approval(ctx, v);

        } else if (ngx_http_agentstream_json_is(json, state,
                                                "output-available"))
        {
            rc = ngx_http_agentstream_aisdk_body_output(ctx, v, 0);

        } else if (ngx_http_agentstream_json_is(json, state, "output-error")) {
            rc = ngx_http_agentstream_aisdk_body_output(ctx, v, 1);
        }

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


/* a list that is not there is an empty one */

static ngx_int_t
ngx_http_agentstream_aisdk_body_ends(ngx_http_agentstream_aisdk_ctx_t *ctx,
    ngx_uint_t list)
{
    int64_t                       last, seq;
    uint64_t                     *end;
    ngx_uint_t                    v;
    ngx_array_t                  *ends;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->fields.json;
    ends = &ctx->chat->ends;
    last = 0;

    if (list == 0) {
        return NGX_OK;
    }

    if (ngx_http_agentstream_json_type(json, list)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        goto refused;
    }

    for (v = ngx_http_agentstream_json_first(json, list);
         v;
         v = ngx_http_agentstream_json_next(json, list, v))
    {
        seq = ngx_http_agentstream_json_integer(json, v, 0);

        if (seq <= last || (uint64_t) seq >= ctx->chat->seq
            || ends->nelts == NGX_HTTP_AGENTSTREAM_AISDK_ENDS_MAX)
        {
            goto refused;
        }

        end = ngx_array_push(ends);
        if (end == NULL) {
            return NGX_ERROR;
        }

        *end = seq;
        last = seq;
    }

    return NGX_OK;

refused:

    return ngx_http_agentstream_fields_refuse(&ctx->fields,
               "\"ends\" in the metadata of the last message must be at most "
               "%d numbers in ascending order, below \"seq\"",
               NGX_HTTP_AGENTSTREAM_AISDK_ENDS_MAX);
}


static ngx_int_t
ngx_http_agentstream_aisdk_body_approval(
    ngx_http_agentstream_aisdk_ctx_t *ctx, ngx_uint_t part)
{
    u_char                       *p;
    ngx_str_t                     reason, body;
    ngx_uint_t                    v, id, type;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->fields.json;

    v = ngx_http_agentstream_json_get(json, part, "approval");
    id = ngx_http_agentstream_json_get(json, v, "id");
    type = ngx_http_agentstream_json_type(json,
                          ngx_http_agentstream_json_get(json, v, "approved"));
    v = ngx_http_agentstream_json_get(json, v, "reason");
    reason = ngx_http_agentstream_json_raw(json, v);

    if ((type != NGX_HTTP_AGENTSTREAM_JSON_TRUE
         && type != NGX_HTTP_AGENTSTREAM_JSON_FALSE)
        || (v && ngx_http_agentstream_json_type(json, v)
                 != NGX_HTTP_AGENTSTREAM_JSON_STRING))
    {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                   "\"approval\" must have \"id\", \"approved\" and, if there "
                   "is one, a \"reason\"");
    }

    if (type == NGX_HTTP_AGENTSTREAM_JSON_TRUE) {
        ngx_str_set(&body, "{\"reply\":\"once\"}");

    } else if (reason.len <= 2) {
        ngx_str_set(&body, "{\"reply\":\"reject\"}");

    } else {
        p = ngx_pnalloc(ctx->fields.pool,
                        sizeof("{\"reply\":\"reject\",\"message\":}")
                        + reason.len);
        if (p == NULL) {
            return NGX_ERROR;
        }

        body.data = p;
        p = ngx_http_agentstream_aisdk_cpy(p,
                                       "{\"reply\":\"reject\",\"message\":");
        p = ngx_http_agentstream_json_copy(p, &reason);
        *p++ = '}';
        body.len = p - body.data;
    }

    return ngx_http_agentstream_aisdk_body_answer(ctx,
                                         NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION,
                                         id, &body);
}


/* the result of a call; only the module's own questions have an id here, and
   only until OpenCode has given the result */

static ngx_int_t
ngx_http_agentstream_aisdk_body_output(ngx_http_agentstream_aisdk_ctx_t *ctx,
    ngx_uint_t part, ngx_uint_t failed)
{
    ngx_int_t                     rc;
    ngx_str_t                     body;
    ngx_uint_t                    v, id;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->fields.json;

    v = ngx_http_agentstream_json_get(json, part, "providerExecuted");

    if (ngx_http_agentstream_json_type(json, v)
        == NGX_HTTP_AGENTSTREAM_JSON_TRUE)
    {
        return NGX_OK;
    }

    v = ngx_http_agentstream_json_get(json, part, "callProviderMetadata");
    v = ngx_http_agentstream_json_get(json, v, "agentstream");
    id = ngx_http_agentstream_json_get(json, v, "questionId");

    if (id == 0) {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                   "a tool's result was sent that nobody waits for");
    }

    ngx_str_null(&body);

    if (!failed) {
        rc = ngx_http_agentstream_aisdk_body_answers(ctx,
                         ngx_http_agentstream_json_get(json, part, "output"),
                         &body);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    return ngx_http_agentstream_aisdk_body_answer(ctx,
                                failed
                                ? NGX_HTTP_AGENTSTREAM_REJECT_QUESTION
                                : NGX_HTTP_AGENTSTREAM_REPLY_QUESTION,
                                id, &body);
}


/* {"answers":[["Blue"],...]}, or the array alone, or one answer for each
   question, or one answer for a single question */

static ngx_int_t
ngx_http_agentstream_aisdk_body_answers(ngx_http_agentstream_aisdk_ctx_t *ctx,
    ngx_uint_t output, ngx_str_t *text)
{
    u_char                       *p;
    ngx_str_t                     raw;
    ngx_uint_t                    v, n, string;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->fields.json;

    v = ngx_http_agentstream_json_get(json, output, "answers");
    output = v ? v : output;
    raw = ngx_http_agentstream_json_raw(json, output);

    if (ngx_http_agentstream_json_type(json, output)
        == NGX_HTTP_AGENTSTREAM_JSON_STRING)
    {
        v = output;
        n = 1;

    } else if (ngx_http_agentstream_json_type(json, output)
               == NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        v = ngx_http_agentstream_json_first(json, output);
        n = 0;

    } else {
        return ngx_http_agentstream_fields_refuse(&ctx->fields,
                   "the output of a question must be {\"answers\": array of "
                   "arrays of strings}");
    }

    /* two bytes for each string, which has two quotes */

    p = ngx_pnalloc(ctx->fields.pool, sizeof("{\"answers\":[]}")
                                      + raw.len * 2);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;
    p = ngx_http_agentstream_aisdk_cpy(p, "{\"answers\":[");

    while (v) {
        raw = ngx_http_agentstream_json_raw(json, v);
        string = (ngx_http_agentstream_json_type(json, v)
                  == NGX_HTTP_AGENTSTREAM_JSON_STRING);

        if (string) {
            *p++ = '[';
        }

        p = ngx_http_agentstream_json_copy(p, &raw);

        if (string) {
            *p++ = ']';
        }

        v = n ? 0 : ngx_http_agentstream_json_next(json, output, v);

        if (v) {
            *p++ = ',';
        }
    }

    p = ngx_http_agentstream_aisdk_cpy(p, "]}");
    text->len = p - text->data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_aisdk_body_answer(ngx_http_agentstream_aisdk_ctx_t *ctx,
    ngx_uint_t request, ngx_uint_t id, ngx_str_t *body)
{
    ngx_int_t                            rc;
    ngx_str_t                            text;
    const char                          *reason;
    ngx_http_agentstream_body_answer_t  *answer;

    text = ngx_http_agentstream_json_string(&ctx->fields.json, id);

    rc = ngx_http_agentstream_body_add_answer(&ctx->chat->answers, &text,
                                              &answer, &reason);
    if (rc == NGX_DECLINED) {
        return ngx_http_agentstream_fields_refuse(&ctx->fields, "%s", reason);
    }

    if (rc == NGX_OK) {
        answer->request = request;
        answer->body = *body;
    }

    return rc;
}
