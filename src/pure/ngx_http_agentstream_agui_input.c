
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What an AG-UI client sends.  It sends the whole conversation each time, but
 * OpenCode has that already: only the last message counts, if it is the
 * user's, and is written again as a prompt for prompt_build().
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_agui_int.h"
#include "ngx_http_agentstream_name.h"
#include "ngx_http_agentstream_opencode.h"


/* in bytes: what is written for a part of a message besides its own text */
#define NGX_HTTP_AGENTSTREAM_AGUI_PART  128


typedef struct {
    ngx_pool_t                          *pool;
    ngx_http_agentstream_json_t          json;
    ngx_http_agentstream_agui_input_t   *input;
} ngx_http_agentstream_agui_ctx_t;


static ngx_int_t ngx_http_agentstream_agui_input(
    ngx_http_agentstream_agui_ctx_t *ctx);
static ngx_int_t ngx_http_agentstream_agui_ids(
    ngx_http_agentstream_agui_ctx_t *ctx);
static ngx_int_t ngx_http_agentstream_agui_messages(
    ngx_http_agentstream_agui_ctx_t *ctx, ngx_uint_t messages);
static ngx_int_t ngx_http_agentstream_agui_last(
    ngx_http_agentstream_agui_ctx_t *ctx, ngx_uint_t message);
static ngx_int_t ngx_http_agentstream_agui_content(
    ngx_http_agentstream_agui_ctx_t *ctx, ngx_uint_t content);
static ngx_int_t ngx_http_agentstream_agui_part(
    ngx_http_agentstream_agui_ctx_t *ctx, u_char **p, ngx_uint_t part);
static ngx_int_t ngx_http_agentstream_agui_media(
    ngx_http_agentstream_agui_ctx_t *ctx, u_char **p, ngx_uint_t part);
static ngx_int_t ngx_http_agentstream_agui_resume(
    ngx_http_agentstream_agui_ctx_t *ctx, ngx_uint_t resume);
static ngx_int_t ngx_http_agentstream_agui_answer(
    ngx_http_agentstream_agui_ctx_t *ctx, ngx_uint_t entry);
static ngx_int_t ngx_http_agentstream_agui_interrupt(
    ngx_http_agentstream_agui_ctx_t *ctx, ngx_str_t *id,
    ngx_http_agentstream_body_answer_t **answer);
static ngx_uint_t ngx_http_agentstream_agui_field(u_char **p, u_char *last,
    ngx_str_t *field);
static ngx_int_t ngx_http_agentstream_agui_payload(
    ngx_http_agentstream_agui_ctx_t *ctx, ngx_uint_t payload,
    ngx_http_agentstream_body_answer_t *answer);
static ngx_int_t ngx_http_agentstream_agui_copy(
    ngx_http_agentstream_agui_ctx_t *ctx, ngx_str_t *text, ngx_str_t *copy);
static ngx_int_t ngx_http_agentstream_agui_refuse(
    ngx_http_agentstream_agui_ctx_t *ctx, const char *message);


ngx_int_t
ngx_http_agentstream_agui_read(ngx_pool_t *pool, ngx_str_t *text,
    ngx_http_agentstream_agui_input_t *input)
{
    ngx_int_t                        rc;
    ngx_http_agentstream_agui_ctx_t  ctx;

    ngx_memzero(input, sizeof(ngx_http_agentstream_agui_input_t));
    ngx_memzero(&ctx, sizeof(ngx_http_agentstream_agui_ctx_t));

    ctx.pool = pool;
    ctx.input = input;

    if (ngx_array_init(&input->answers, pool, 2,
                       sizeof(ngx_http_agentstream_body_answer_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    rc = ngx_http_agentstream_json_parse(&ctx.json, text->data, text->len);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_agui_input(&ctx);

    } else if (rc == NGX_DECLINED) {
        rc = ngx_http_agentstream_agui_refuse(&ctx,
                                              "The body is not valid JSON");
    }

    ngx_http_agentstream_json_destroy(&ctx.json);

    return rc;
}


static ngx_int_t
ngx_http_agentstream_agui_input(ngx_http_agentstream_agui_ctx_t *ctx)
{
    ngx_int_t                     rc;
    ngx_uint_t                    root, value;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->json;
    root = json->root;

    if (ngx_http_agentstream_json_type(json, root)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return ngx_http_agentstream_agui_refuse(ctx,
                                                "The body must be an object");
    }

    rc = ngx_http_agentstream_agui_ids(ctx);

    if (rc != NGX_OK) {
        return rc;
    }

    value = ngx_http_agentstream_json_get(json, root, "state");
    ctx->input->state = (ngx_http_agentstream_json_type(json, value)
                         == NGX_HTTP_AGENTSTREAM_JSON_OBJECT);

    rc = ngx_http_agentstream_agui_messages(ctx,
                     ngx_http_agentstream_json_get(json, root, "messages"));

    if (rc != NGX_OK) {
        return rc;
    }

    value = ngx_http_agentstream_json_get(json, root, "resume");

    return value ? ngx_http_agentstream_agui_resume(ctx, value) : NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_agui_ids(ngx_http_agentstream_agui_ctx_t *ctx)
{
    ngx_str_t                           id;
    ngx_http_agentstream_json_t        *json;
    ngx_http_agentstream_agui_input_t  *input;

    json = &ctx->json;
    input = ctx->input;

    id = ngx_http_agentstream_json_string(json,
               ngx_http_agentstream_json_get(json, json->root, "threadId"));

    /* an escaped name is longer than what it stands for */

    if (ngx_http_agentstream_agui_copy(ctx, &id, &input->thread) != NGX_OK) {
        return NGX_ERROR;
    }

    input->thread.len = ngx_http_agentstream_json_decode(input->thread.data,
                                                         &id)
                        - input->thread.data;

    if (!ngx_http_agentstream_name_valid(&input->thread)) {
        return ngx_http_agentstream_agui_refuse(ctx,
                         "\"threadId\" must be a name: 1 to 80 of the "
                         "characters A-Z a-z 0-9 . _ : ~ -");
    }

    id = ngx_http_agentstream_json_string(json,
               ngx_http_agentstream_json_get(json, json->root, "runId"));

    if (id.len == 0 || id.len > NGX_HTTP_AGENTSTREAM_AGUI_RUN_MAX) {
        return ngx_http_agentstream_agui_refuse(ctx,
                         "\"runId\" must be a string of 1 to 128 bytes");
    }

    return ngx_http_agentstream_agui_copy(ctx, &id, &input->run);
}


static ngx_int_t
ngx_http_agentstream_agui_messages(ngx_http_agentstream_agui_ctx_t *ctx,
    ngx_uint_t messages)
{
    ngx_uint_t                    i, v, last, role;
    ngx_http_agentstream_json_t  *json;

    static const char  *roles[] = {
        "user", "assistant", "tool", "reasoning", "activity", "system",
        "developer", NULL
    };

    json = &ctx->json;
    last = 0;

    if (ngx_http_agentstream_json_type(json, messages)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_agui_refuse(ctx,
                                             "\"messages\" must be an array");
    }

    for (v = ngx_http_agentstream_json_first(json, messages);
         v;
         v = ngx_http_agentstream_json_next(json, messages, v))
    {
        role = ngx_http_agentstream_json_get(json, v, "role");

        for (i = 0; roles[i]; i++) {
            if (ngx_http_agentstream_json_is(json, role, roles[i])) {
                break;
            }
        }

        if (roles[i] == NULL
            || ngx_http_agentstream_json_type(json,
                       ngx_http_agentstream_json_get(json, v, "id"))
               != NGX_HTTP_AGENTSTREAM_JSON_STRING)
        {
            return ngx_http_agentstream_agui_refuse(ctx,
                         "\"messages\" must be objects with \"id\" and "
                         "\"role\"");
        }

        if (ngx_http_agentstream_json_is(json, role, "reasoning")) {
            ctx->input->thoughts = 1;
        }

        last = v;
    }

    return last ? ngx_http_agentstream_agui_last(ctx, last) : NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_agui_last(ngx_http_agentstream_agui_ctx_t *ctx,
    ngx_uint_t message)
{
    ngx_str_t                     id, call;
    ngx_uint_t                    role;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->json;
    role = ngx_http_agentstream_json_get(json, message, "role");

    if (ngx_http_agentstream_json_is(json, role, "user")) {

        /* with answers it is the turn that goes on */

        if (ngx_http_agentstream_json_first(json,
                ngx_http_agentstream_json_get(json, json->root, "resume")))
        {
            return NGX_OK;
        }

        return ngx_http_agentstream_agui_content(ctx,
                     ngx_http_agentstream_json_get(json, message, "content"));
    }

    if (!ngx_http_agentstream_json_is(json, role, "tool")) {
        return NGX_OK;
    }

    /* results of OpenCode's own tools come from here, see agui_tool */

    id = ngx_http_agentstream_agui_id(json, message, "id");
    call = ngx_http_agentstream_agui_id(json, message, "toolCallId");

    if (id.len == call.len + sizeof("-result") - 1
        && ngx_memcmp(id.data, call.data, call.len) == 0
        && ngx_memcmp(id.data + call.len, "-result", sizeof("-result") - 1)
           == 0)
    {
        return NGX_OK;
    }

    return ngx_http_agentstream_agui_refuse(ctx,
                                     "No tool call waits for a result");
}


static ngx_int_t
ngx_http_agentstream_agui_content(ngx_http_agentstream_agui_ctx_t *ctx,
    ngx_uint_t content)
{
    u_char                       *p;
    ngx_int_t                     rc;
    ngx_str_t                     raw;
    ngx_uint_t                    n, v, type;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->json;
    type = ngx_http_agentstream_json_type(json, content);

    if (type != NGX_HTTP_AGENTSTREAM_JSON_STRING
        && type != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_agui_refuse(ctx,
                      "\"content\" of a user message must be a string or an "
                      "array of parts");
    }

    n = 1;

    for (v = ngx_http_agentstream_json_first(json, content);
         v;
         v = ngx_http_agentstream_json_next(json, content, v))
    {
        n++;
    }

    raw = ngx_http_agentstream_json_raw(json, content);

    p = ngx_pnalloc(ctx->pool, raw.len + n * NGX_HTTP_AGENTSTREAM_AGUI_PART);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ctx->input->prompt.data = p;

    p = ngx_http_agentstream_agui_cpy(p, "{\"content\":");

    if (type == NGX_HTTP_AGENTSTREAM_JSON_STRING) {
        p = ngx_http_agentstream_agui_str(p, &raw);

    } else {
        *p++ = '[';

        for (v = ngx_http_agentstream_json_first(json, content);
             v;
             v = ngx_http_agentstream_json_next(json, content, v))
        {
            if (p[-1] != '[') {
                *p++ = ',';
            }

            rc = ngx_http_agentstream_agui_part(ctx, &p, v);
            if (rc != NGX_OK) {
                return rc;
            }
        }

        *p++ = ']';
    }

    *p++ = '}';

    ctx->input->prompt.len = p - ctx->input->prompt.data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_agui_part(ngx_http_agentstream_agui_ctx_t *ctx,
    u_char **p, ngx_uint_t part)
{
    ngx_str_t                     raw;
    ngx_uint_t                    i, type, text;
    ngx_http_agentstream_json_t  *json;

    static const char  *types[] = {
        "image", "audio", "video", "document", NULL
    };

    json = &ctx->json;
    type = ngx_http_agentstream_json_get(json, part, "type");

    if (ngx_http_agentstream_json_is(json, type, "text")) {
        text = ngx_http_agentstream_json_get(json, part, "text");

        if (ngx_http_agentstream_json_type(json, text)
            != NGX_HTTP_AGENTSTREAM_JSON_STRING)
        {
            return ngx_http_agentstream_agui_refuse(ctx,
                                     "\"text\" of a part must be a string");
        }

        raw = ngx_http_agentstream_json_raw(json, text);

        *p = ngx_http_agentstream_agui_cpy(*p,
                                         "{\"type\":\"text\",\"text\":");
        *p = ngx_http_agentstream_agui_str(*p, &raw);
        *(*p)++ = '}';

        return NGX_OK;
    }

    for (i = 0; types[i]; i++) {
        if (ngx_http_agentstream_json_is(json, type, types[i])) {
            return ngx_http_agentstream_agui_media(ctx, p, part);
        }
    }

    return ngx_http_agentstream_agui_refuse(ctx,
                  "\"type\" of a part must be \"text\", \"image\", \"audio\", "
                  "\"video\" or \"document\"");
}


static ngx_int_t
ngx_http_agentstream_agui_media(ngx_http_agentstream_agui_ctx_t *ctx,
    u_char **p, ngx_uint_t part)
{
    ngx_str_t                     value, mime;
    ngx_uint_t                    source, type;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->json;

    source = ngx_http_agentstream_json_get(json, part, "source");
    type = ngx_http_agentstream_json_get(json, source, "type");
    value = ngx_http_agentstream_json_raw(json,
                      ngx_http_agentstream_json_get(json, source, "value"));
    mime = ngx_http_agentstream_json_raw(json,
                      ngx_http_agentstream_json_get(json, source, "mimeType"));

    if (value.len == 0 || value.data[0] != '"'
        || (mime.len && mime.data[0] != '"'))
    {
        return ngx_http_agentstream_agui_refuse(ctx,
                   "\"source\" of a part must have the strings \"value\" and "
                   "\"mimeType\"");
    }

    if (ngx_http_agentstream_json_is(json, type, "data") && mime.len) {
        *p = ngx_http_agentstream_agui_cpy(*p,
                     "{\"type\":\"resource\",\"resource\":{\"blob\":");
        *p = ngx_http_agentstream_agui_str(*p, &value);
        *p = ngx_http_agentstream_agui_cpy(*p, ",\"mimeType\":");
        *p = ngx_http_agentstream_agui_str(*p, &mime);
        *p = ngx_http_agentstream_agui_cpy(*p, "}}");

        return NGX_OK;
    }

    /* a long "data:" would be shown to the model as a text */

    if (ngx_http_agentstream_json_is(json, type, "url")
        && !(value.len > 6
             && ngx_strncasecmp(value.data, (u_char *) "\"data:", 6) == 0))
    {
        *p = ngx_http_agentstream_agui_cpy(*p,
                     "{\"type\":\"resource_link\",\"uri\":");
        *p = ngx_http_agentstream_agui_str(*p, &value);

        if (mime.len) {
            *p = ngx_http_agentstream_agui_cpy(*p, ",\"mimeType\":");
            *p = ngx_http_agentstream_agui_str(*p, &mime);
        }

        *(*p)++ = '}';

        return NGX_OK;
    }

    return ngx_http_agentstream_agui_refuse(ctx,
                  "\"source\" of a part must be \"data\" with \"mimeType\", "
                  "or the \"url\" of a page or file");
}


static ngx_int_t
ngx_http_agentstream_agui_resume(ngx_http_agentstream_agui_ctx_t *ctx,
    ngx_uint_t resume)
{
    ngx_int_t                     rc;
    ngx_uint_t                    v;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->json;

    if (ngx_http_agentstream_json_type(json, resume)
        != NGX_HTTP_AGENTSTREAM_JSON_ARRAY)
    {
        return ngx_http_agentstream_agui_refuse(ctx,
                                               "\"resume\" must be an array");
    }

    for (v = ngx_http_agentstream_json_first(json, resume);
         v;
         v = ngx_http_agentstream_json_next(json, resume, v))
    {
        rc = ngx_http_agentstream_agui_answer(ctx, v);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_agui_answer(ngx_http_agentstream_agui_ctx_t *ctx,
    ngx_uint_t entry)
{
    ngx_int_t                            rc;
    ngx_str_t                            id;
    ngx_uint_t                           status;
    ngx_http_agentstream_json_t         *json;
    ngx_http_agentstream_body_answer_t  *answer;

    json = &ctx->json;

    id = ngx_http_agentstream_json_string(json,
               ngx_http_agentstream_json_get(json, entry, "interruptId"));

    rc = ngx_http_agentstream_agui_interrupt(ctx, &id, &answer);

    if (rc != NGX_OK) {
        return rc;
    }

    status = ngx_http_agentstream_json_get(json, entry, "status");

    if (ngx_http_agentstream_json_is(json, status, "cancelled")) {

        /* this is also how a page gets rid of old interrupts */

        answer->optional = 1;

        if (answer->request == NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION) {
            ngx_str_set(&answer->body, "{\"reply\":\"reject\"}");

        } else {
            answer->request = NGX_HTTP_AGENTSTREAM_REJECT_QUESTION;
        }

        return NGX_OK;
    }

    if (!ngx_http_agentstream_json_is(json, status, "resolved")) {
        return ngx_http_agentstream_agui_refuse(ctx,
                 "\"status\" of an answer must be \"resolved\" or "
                 "\"cancelled\"");
    }

    return ngx_http_agentstream_agui_payload(ctx,
                     ngx_http_agentstream_json_get(json, entry, "payload"),
                     answer);
}


/* the id of an interrupt is written by agui_interrupts(): what was asked, in
   which turn, and how much of the turn the client has then */

static ngx_int_t
ngx_http_agentstream_agui_interrupt(ngx_http_agentstream_agui_ctx_t *ctx,
    ngx_str_t *id, ngx_http_agentstream_body_answer_t **answer)
{
    u_char                             *p, *last;
    uint64_t                            seq;
    ngx_int_t                           rc;
    ngx_str_t                           kind, ask, turn, number;
    ngx_uint_t                          i, permission;
    const char                         *reason;
    ngx_http_agentstream_agui_input_t  *input;

    input = ctx->input;
    p = id->data;
    last = id->data + id->len;

    if (!ngx_http_agentstream_agui_field(&p, last, &kind)
        || !ngx_http_agentstream_agui_field(&p, last, &ask)
        || !ngx_http_agentstream_agui_field(&p, last, &turn)
        || ngx_http_agentstream_agui_field(&p, last, &number))
    {
        goto unknown;
    }

    permission = (kind.len == sizeof("permission") - 1
                  && ngx_memcmp(kind.data, "permission", kind.len) == 0);

    if ((!permission
         && (kind.len != sizeof("question") - 1
             || ngx_memcmp(kind.data, "question", kind.len) != 0))
        || !ngx_http_agentstream_opencode_id(&turn)
        || number.len == 0 || number.len > 15)
    {
        goto unknown;
    }

    for (i = 0, seq = 0; i < number.len; i++) {

        if (number.data[i] < '0' || number.data[i] > '9') {
            goto unknown;
        }

        seq = seq * 10 + (number.data[i] - '0');
    }

    if (input->answers.nelts
        && (input->turn.len != turn.len
            || ngx_memcmp(input->turn.data, turn.data, turn.len) != 0))
    {
        return ngx_http_agentstream_agui_refuse(ctx,
                                  "the interrupts are of different turns");
    }

    if (input->answers.nelts == 0
        && ngx_http_agentstream_agui_copy(ctx, &turn, &input->turn) != NGX_OK)
    {
        return NGX_ERROR;
    }

    input->seq = ngx_max(input->seq, seq);

    rc = ngx_http_agentstream_body_add_answer(&input->answers, &ask, answer,
                                              &reason);
    if (rc == NGX_DECLINED) {
        return ngx_http_agentstream_agui_refuse(ctx, reason);
    }

    if (rc == NGX_OK) {
        (*answer)->request = permission
                             ? NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION
                             : NGX_HTTP_AGENTSTREAM_REPLY_QUESTION;
    }

    return rc;

unknown:

    return ngx_http_agentstream_agui_refuse(ctx,
                    "\"interruptId\" is not the id of an interrupt from here");
}


/* the text up to the next colon, which is skipped; false: it is the last one */

static ngx_uint_t
ngx_http_agentstream_agui_field(u_char **p, u_char *last, ngx_str_t *field)
{
    field->data = *p;

    while (*p < last && **p != ':') {
        (*p)++;
    }

    field->len = *p - field->data;

    if (*p == last) {
        return 0;
    }

    (*p)++;

    return 1;
}


/* what body_build() checks further; {"approved": ...} is what AG-UI suggests
   for tool calls */

static ngx_int_t
ngx_http_agentstream_agui_payload(ngx_http_agentstream_agui_ctx_t *ctx,
    ngx_uint_t payload, ngx_http_agentstream_body_answer_t *answer)
{
    ngx_str_t                     raw;
    ngx_uint_t                    type;
    ngx_http_agentstream_json_t  *json;

    json = &ctx->json;

    if (ngx_http_agentstream_json_type(json, payload)
        != NGX_HTTP_AGENTSTREAM_JSON_OBJECT)
    {
        return ngx_http_agentstream_agui_refuse(ctx,
                               "\"payload\" of an answer must be an object");
    }

    if (answer->request == NGX_HTTP_AGENTSTREAM_REPLY_PERMISSION) {

        type = ngx_http_agentstream_json_type(json,
                     ngx_http_agentstream_json_get(json, payload, "approved"));

        if (type == NGX_HTTP_AGENTSTREAM_JSON_TRUE) {
            ngx_str_set(&answer->body, "{\"reply\":\"once\"}");
            return NGX_OK;
        }

        if (type == NGX_HTTP_AGENTSTREAM_JSON_FALSE) {
            ngx_str_set(&answer->body, "{\"reply\":\"reject\"}");
            return NGX_OK;
        }
    }

    raw = ngx_http_agentstream_json_raw(json, payload);

    return ngx_http_agentstream_agui_copy(ctx, &raw, &answer->body);
}


static ngx_int_t
ngx_http_agentstream_agui_copy(ngx_http_agentstream_agui_ctx_t *ctx,
    ngx_str_t *text, ngx_str_t *copy)
{
    copy->data = ngx_pnalloc(ctx->pool, text->len + 1);
    if (copy->data == NULL) {
        return NGX_ERROR;
    }

    copy->len = text->len;
    ngx_memcpy(copy->data, text->data ? text->data : (u_char *) "", text->len);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_agui_refuse(ngx_http_agentstream_agui_ctx_t *ctx,
    const char *message)
{
    ngx_http_agentstream_fields_error_t  *error;

    error = &ctx->input->error;

    error->len = ngx_min(ngx_strlen(message), sizeof(error->data));
    ngx_memcpy(error->data, message, error->len);

    return NGX_DECLINED;
}
