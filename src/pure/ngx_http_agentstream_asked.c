
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Questions and permission requests as messages.  They are written as Markdown,
 * in which the agent's own words are shown as it wrote them, and its options
 * are a numbered list.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_asked_int.h"


static ngx_int_t ngx_http_agentstream_asked_question(
    ngx_http_agentstream_asked_t *asked);
static void ngx_http_agentstream_asked_options(
    ngx_http_agentstream_asked_t *asked, ngx_uint_t question);
static ngx_int_t ngx_http_agentstream_asked_permission(
    ngx_http_agentstream_asked_t *asked);
static void ngx_http_agentstream_asked_patterns(
    ngx_http_agentstream_asked_t *asked);
static ngx_int_t ngx_http_agentstream_asked_buttons(
    ngx_http_agentstream_asked_t *asked, ngx_array_t *buttons);
static void ngx_http_agentstream_asked_raw(
    ngx_http_agentstream_asked_t *asked, const char *text);
static void ngx_http_agentstream_asked_said(
    ngx_http_agentstream_asked_t *asked, ngx_uint_t value);
static void ngx_http_agentstream_asked_word(
    ngx_http_agentstream_asked_t *asked, ngx_uint_t value);


ngx_int_t
ngx_http_agentstream_asked_open(ngx_http_agentstream_asked_t *asked,
    ngx_pool_t *pool, ngx_str_t *text, size_t more)
{
    ngx_int_t                     rc;
    ngx_http_agentstream_json_t  *json;

    ngx_memzero(asked, sizeof(ngx_http_agentstream_asked_t));

    asked->pool = pool;
    json = &asked->json;

    rc = ngx_http_agentstream_json_parse(json, text->data, text->len);

    if (rc == NGX_OK) {
        asked->questions = ngx_http_agentstream_json_get(json, json->root,
                                                         "questions");
        asked->options = ngx_http_agentstream_json_get(json, json->root,
                                                       "options");

        /* nothing in the packet is written more than twice, and every
           character takes up to two */

        asked->start = ngx_pnalloc(pool, text->len * 4 + more);
        if (asked->start == NULL) {
            rc = NGX_ERROR;
        }

        asked->last = asked->start;
    }

    if (rc == NGX_OK && asked->questions == 0 && asked->options == 0) {
        rc = NGX_DECLINED;
    }

    if (rc != NGX_OK) {
        ngx_http_agentstream_json_destroy(json);
    }

    return rc;
}


ngx_int_t
ngx_http_agentstream_asked_show(ngx_pool_t *pool, ngx_uint_t form,
    ngx_http_agentstream_markdown_limits_t *limits, ngx_str_t *json,
    ngx_array_t *pieces, ngx_array_t *buttons)
{
    ngx_int_t                     rc;
    ngx_str_t                     text;
    ngx_http_agentstream_asked_t  asked;

    /* an option of a question takes at least 12 bytes of JSON, and 8 more as
       the item of a list */

    rc = ngx_http_agentstream_asked_open(&asked, pool, json,
                                         2 * json->len + 1024);
    if (rc != NGX_OK) {
        return rc;
    }

    rc = asked.questions ? ngx_http_agentstream_asked_question(&asked)
                         : ngx_http_agentstream_asked_permission(&asked);

    if (rc == NGX_OK && buttons) {
        rc = ngx_http_agentstream_asked_buttons(&asked, buttons);
    }

    if (rc == NGX_OK) {
        text.data = asked.start;
        text.len = asked.last - asked.start;

        rc = ngx_http_agentstream_markdown_pieces(pool, form, limits, &text,
                                                  pieces);
    }

    ngx_http_agentstream_json_destroy(&asked.json);

    return rc;
}


static ngx_int_t
ngx_http_agentstream_asked_question(ngx_http_agentstream_asked_t *asked)
{
    ngx_uint_t                    q, v;
    ngx_http_agentstream_json_t  *json;

    json = &asked->json;

    q = ngx_http_agentstream_json_first(json, asked->questions);

    if (q == 0) {
        return NGX_DECLINED;
    }

    ngx_http_agentstream_asked_raw(asked, "\xe2\x9d\x93 The agent has ");
    ngx_http_agentstream_asked_raw(asked,
                    ngx_http_agentstream_json_next(json, asked->questions, q)
                    ? "questions:" : "a question:");

    for ( /* void */ ;
         q;
         q = ngx_http_agentstream_json_next(json, asked->questions, q))
    {
        ngx_http_agentstream_asked_raw(asked, "\n\n");

        v = ngx_http_agentstream_json_get(json, q, "header");

        if (ngx_http_agentstream_json_string(json, v).len) {
            ngx_http_agentstream_asked_raw(asked, "**");
            ngx_http_agentstream_asked_word(asked, v);
            ngx_http_agentstream_asked_raw(asked, "**\n");
        }

        v = ngx_http_agentstream_json_get(json, q, "question");
        ngx_http_agentstream_asked_said(asked, v);

        ngx_http_agentstream_asked_options(asked, q);

        v = ngx_http_agentstream_json_get(json, q, "multiple");

        if (ngx_http_agentstream_json_type(json, v)
            == NGX_HTTP_AGENTSTREAM_JSON_TRUE)
        {
            ngx_http_agentstream_asked_raw(asked, "\n\n(You can pick multiple"
                           " \xe2\x80\x94 separate with commas)");
        }
    }

    ngx_http_agentstream_asked_raw(asked, "\n\nReply with your answer:");

    return NGX_OK;
}


static void
ngx_http_agentstream_asked_options(ngx_http_agentstream_asked_t *asked,
    ngx_uint_t question)
{
    ngx_uint_t                    v, n, option, options;
    ngx_http_agentstream_json_t  *json;

    json = &asked->json;

    options = ngx_http_agentstream_json_get(json, question, "options");
    n = 0;

    for (option = ngx_http_agentstream_json_first(json, options);
         option;
         option = ngx_http_agentstream_json_next(json, options, option))
    {
        if (n++ == 0) {
            ngx_http_agentstream_asked_raw(asked, "\n");
        }

        asked->last = ngx_sprintf(asked->last, "\n%ui. ", n);

        v = ngx_http_agentstream_json_get(json, option, "label");
        ngx_http_agentstream_asked_word(asked, v);

        v = ngx_http_agentstream_json_get(json, option, "description");

        if (ngx_http_agentstream_json_string(json, v).len) {
            ngx_http_agentstream_asked_raw(asked, " \xe2\x80\x94 ");
            ngx_http_agentstream_asked_word(asked, v);
        }
    }
}


static ngx_int_t
ngx_http_agentstream_asked_permission(ngx_http_agentstream_asked_t *asked)
{
    ngx_uint_t                    v, n, option;
    ngx_http_agentstream_json_t  *json;

    json = &asked->json;

    ngx_http_agentstream_asked_raw(asked,
                          "\xf0\x9f\x94\x90 The agent asks for permission: **");

    v = ngx_http_agentstream_json_get(json, json->root, "permission");
    ngx_http_agentstream_asked_word(asked, v);

    ngx_http_agentstream_asked_raw(asked, "**");
    ngx_http_agentstream_asked_patterns(asked);

    n = 0;

    for (option = ngx_http_agentstream_json_first(json, asked->options);
         option;
         option = ngx_http_agentstream_json_next(json, asked->options, option))
    {
        if (n++ == 0) {
            ngx_http_agentstream_asked_raw(asked, "\n");
        }

        asked->last = ngx_sprintf(asked->last, "\n%ui. ", n);

        v = ngx_http_agentstream_json_get(json, option, "name");
        ngx_http_agentstream_asked_word(asked, v);
    }

    ngx_http_agentstream_asked_raw(asked,
                                   "\n\nReply with yes, always or no:");

    return NGX_OK;
}


/* what it is about, as code: the whole command, or else what OpenCode compares
   with its rules */

static void
ngx_http_agentstream_asked_patterns(ngx_http_agentstream_asked_t *asked)
{
    u_char                       *start, *p;
    ngx_uint_t                    v, patterns;
    const char                   *fence;
    ngx_http_agentstream_json_t  *json;

    json = &asked->json;

    v = ngx_http_agentstream_json_get(json, json->root, "toolCall");
    v = ngx_http_agentstream_json_get(json, v, "rawInput");
    v = ngx_http_agentstream_json_get(json, v, "command");

    patterns = ngx_http_agentstream_json_get(json, json->root, "patterns");

    if (ngx_http_agentstream_json_string(json, v).len == 0
        && ngx_http_agentstream_json_first(json, patterns) == 0)
    {
        return;
    }

    /* written behind where the fence will be */

    ngx_http_agentstream_asked_raw(asked, "\n\n~~~~~~\n");
    start = asked->last;

    if (ngx_http_agentstream_json_string(json, v).len) {
        ngx_http_agentstream_asked_said(asked, v);

    } else {
        for (v = ngx_http_agentstream_json_first(json, patterns);
             v;
             v = ngx_http_agentstream_json_next(json, patterns, v))
        {
            if (asked->last != start) {
                ngx_http_agentstream_asked_raw(asked, "\n");
            }

            ngx_http_agentstream_asked_said(asked, v);
        }
    }

    /* code that contains the fence must not end it */

    fence = "~~~~~~";

    for (p = start; p + 3 <= asked->last; p++) {
        if (ngx_strncmp(p, "~~~", 3) == 0) {
            fence = "``````";
            break;
        }
    }

    ngx_memcpy(start - 7, fence, 6);

    if (fence[0] == '`') {
        for (p = start; p < asked->last; p++) {
            *p = (*p == '`') ? '\'' : *p;
        }
    }

    ngx_http_agentstream_asked_raw(asked, "\n");
    ngx_http_agentstream_asked_raw(asked, fence);
}


static ngx_int_t
ngx_http_agentstream_asked_buttons(ngx_http_agentstream_asked_t *asked,
    ngx_array_t *buttons)
{
    ngx_str_t                             label;
    ngx_uint_t                            v, n, option, options;
    const char                           *name;
    ngx_http_agentstream_json_t          *json;
    ngx_http_agentstream_asked_button_t  *button;

    json = &asked->json;
    options = asked->options;
    name = "name";

    if (asked->questions) {
        v = ngx_http_agentstream_json_first(json, asked->questions);

        if (ngx_http_agentstream_json_next(json, asked->questions, v)
            || ngx_http_agentstream_json_type(json,
                             ngx_http_agentstream_json_get(json, v,
                                                           "multiple"))
               == NGX_HTTP_AGENTSTREAM_JSON_TRUE)
        {
            return NGX_OK;
        }

        options = ngx_http_agentstream_json_get(json, v, "options");
        name = "label";
    }

    n = 0;

    for (option = ngx_http_agentstream_json_first(json, options);
         option;
         option = ngx_http_agentstream_json_next(json, options, option))
    {
        v = ngx_http_agentstream_json_get(json, option, name);
        label = ngx_http_agentstream_json_string(json, v);

        if (label.len == 0) {
            n++;
            continue;
        }

        button = ngx_array_push(buttons);
        if (button == NULL) {
            return NGX_ERROR;
        }

        button->index = n++;
        button->label.data = ngx_pnalloc(asked->pool, label.len);

        if (button->label.data == NULL) {
            return NGX_ERROR;
        }

        button->label.len = ngx_http_agentstream_json_decode(
                                button->label.data, &label)
                            - button->label.data;
    }

    return NGX_OK;
}


static void
ngx_http_agentstream_asked_raw(ngx_http_agentstream_asked_t *asked,
    const char *text)
{
    asked->last = ngx_cpymem(asked->last, text, ngx_strlen(text));
}


/* as it is */

static void
ngx_http_agentstream_asked_said(ngx_http_agentstream_asked_t *asked,
    ngx_uint_t value)
{
    ngx_str_t  text;

    text = ngx_http_agentstream_json_string(&asked->json, value);

    asked->last = ngx_http_agentstream_json_decode(asked->last, &text);
}


/* on one line, without what Markdown would take for marks */

static void
ngx_http_agentstream_asked_word(ngx_http_agentstream_asked_t *asked,
    ngx_uint_t value)
{
    u_char     *p, *dst, *start, *last;
    size_t      n;
    ngx_str_t   text;

    text = ngx_http_agentstream_json_string(&asked->json, value);

    start = asked->last;
    last = ngx_http_agentstream_json_decode(start, &text);
    n = 0;

    for (p = start; p < last; p++) {

        if (*p < ' ') {
            *p = ' ';
        }

        n += (ngx_strchr("\\*_`~[<", *p) != NULL);
    }

    asked->last = last + n;

    /* from the end, because it becomes longer */

    for (p = last; n && p > start; p--) {

        dst = p + n;
        dst[-1] = p[-1];

        if (ngx_strchr("\\*_`~[<", p[-1]) != NULL) {
            n--;
            dst[-2] = '\\';
        }
    }
}
