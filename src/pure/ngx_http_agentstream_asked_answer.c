
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What somebody answers in a chat, as the body of an answer, and what became of
 * a question.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_asked_int.h"


/* so many questions are answered at once, and so many of their options known */
#define NGX_HTTP_AGENTSTREAM_ASKED_QUESTIONS  32
#define NGX_HTTP_AGENTSTREAM_ASKED_OPTIONS    64


static void ngx_http_agentstream_asked_answers(
    ngx_http_agentstream_asked_t *asked, ngx_str_t *text);
static ngx_str_t ngx_http_agentstream_asked_token(ngx_str_t *text, u_char end);
static void ngx_http_agentstream_asked_trim(ngx_str_t *text);
static void ngx_http_agentstream_asked_choose(
    ngx_http_agentstream_asked_t *asked, ngx_uint_t question,
    ngx_str_t *text);
static ngx_uint_t ngx_http_agentstream_asked_find(
    ngx_http_agentstream_asked_t *asked, ngx_uint_t options, ngx_str_t *text);
static ngx_uint_t ngx_http_agentstream_asked_same(
    ngx_http_agentstream_asked_t *asked, ngx_uint_t value, ngx_str_t *text);
static ngx_uint_t ngx_http_agentstream_asked_is(ngx_str_t *text,
    const char *word);
static void ngx_http_agentstream_asked_string(
    ngx_http_agentstream_asked_t *asked, ngx_uint_t value, ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_asked_reply(
    ngx_http_agentstream_asked_t *asked, ngx_str_t *text);
static ngx_uint_t ngx_http_agentstream_asked_nth(
    ngx_http_agentstream_asked_t *asked, ngx_uint_t array, ngx_uint_t n);
static void ngx_http_agentstream_asked_body(
    ngx_http_agentstream_asked_t *asked, ngx_str_t *body);
static u_char *ngx_http_agentstream_asked_list(
    ngx_http_agentstream_json_t *json, u_char *p);


ngx_int_t
ngx_http_agentstream_asked_answer(ngx_pool_t *pool, ngx_str_t *json,
    ngx_str_t *text, ngx_str_t *body)
{
    ngx_int_t                     rc;
    ngx_str_t                     answer;
    ngx_uint_t                    n;
    ngx_http_agentstream_asked_t  asked;

    answer = *text;
    ngx_http_agentstream_asked_trim(&answer);

    if (answer.len == 0) {
        return NGX_DECLINED;
    }

    /* the text may be the answer to every question; every byte of it can be
       an answer by itself, with quotes and a comma */

    n = NGX_HTTP_AGENTSTREAM_ASKED_QUESTIONS;

    rc = ngx_http_agentstream_asked_open(&asked, pool, json,
                 256 + n * (16 + 3 * answer.len
                            + ngx_http_agentstream_json_escape_size(
                                                              answer.len)));
    if (rc != NGX_OK) {
        return rc;
    }

    if (asked.questions == 0) {
        rc = ngx_http_agentstream_asked_reply(&asked, &answer);

    } else if (ngx_http_agentstream_asked_nth(&asked, asked.questions, n)
               || !ngx_http_agentstream_asked_nth(&asked, asked.questions, 0))
    {
        rc = NGX_DECLINED;

    } else {
        ngx_http_agentstream_asked_answers(&asked, &answer);
    }

    ngx_http_agentstream_asked_body(&asked, body);

    return rc;
}


ngx_int_t
ngx_http_agentstream_asked_press(ngx_pool_t *pool, ngx_str_t *json,
    ngx_uint_t index, ngx_str_t *body)
{
    ngx_int_t                     rc;
    ngx_uint_t                    v, option;
    ngx_http_agentstream_asked_t  asked;

    rc = ngx_http_agentstream_asked_open(&asked, pool, json, 256);
    if (rc != NGX_OK) {
        return rc;
    }

    v = asked.options;

    if (asked.questions) {
        v = ngx_http_agentstream_asked_nth(&asked, asked.questions, 0);
        v = ngx_http_agentstream_json_get(&asked.json, v, "options");
    }

    option = ngx_http_agentstream_asked_nth(&asked, v, index);

    v = ngx_http_agentstream_json_get(&asked.json, option,
                                      asked.questions ? "label" : "optionId");

    if (ngx_http_agentstream_json_string(&asked.json, v).len == 0) {
        rc = NGX_DECLINED;

    } else {
        asked.last = ngx_sprintf(asked.last, asked.questions
                                             ? "{\"answers\":[["
                                             : "{\"reply\":");
        ngx_http_agentstream_asked_string(&asked, v, NULL);
        asked.last = ngx_sprintf(asked.last, asked.questions ? "]]}" : "}");
    }

    ngx_http_agentstream_asked_body(&asked, body);

    return rc;
}


static void
ngx_http_agentstream_asked_body(ngx_http_agentstream_asked_t *asked,
    ngx_str_t *body)
{
    ngx_http_agentstream_json_destroy(&asked->json);

    body->data = asked->start;
    body->len = asked->last - asked->start;
}


static ngx_uint_t
ngx_http_agentstream_asked_nth(ngx_http_agentstream_asked_t *asked,
    ngx_uint_t array, ngx_uint_t n)
{
    ngx_uint_t  v;

    v = ngx_http_agentstream_json_first(&asked->json, array);

    while (v && n--) {
        v = ngx_http_agentstream_json_next(&asked->json, array, v);
    }

    return v;
}


/* several questions are answered by as many lines, or all by the same text */

static void
ngx_http_agentstream_asked_answers(ngx_http_agentstream_asked_t *asked,
    ngx_str_t *text)
{
    ngx_str_t   rest, line;
    ngx_uint_t  q, n, lines;

    n = 0;

    while (ngx_http_agentstream_asked_nth(asked, asked->questions, n)) {
        n++;
    }

    lines = 0;

    for (rest = *text; rest.len; /* void */ ) {
        line = ngx_http_agentstream_asked_token(&rest, LF);
        lines += (line.len != 0);
    }

    rest = *text;

    asked->last = ngx_sprintf(asked->last, "{\"answers\":[");

    for (q = ngx_http_agentstream_json_first(&asked->json, asked->questions);
         q;
         q = ngx_http_agentstream_json_next(&asked->json, asked->questions, q))
    {
        line = *text;

        if (n > 1 && lines == n) {
            do {
                line = ngx_http_agentstream_asked_token(&rest, LF);
            } while (line.len == 0);
        }

        ngx_http_agentstream_asked_choose(asked, q, &line);

        *asked->last++ = ',';
    }

    asked->last--;
    asked->last = ngx_sprintf(asked->last, "]}");
}


/* cuts off what stands before the next end, without spaces */

static ngx_str_t
ngx_http_agentstream_asked_token(ngx_str_t *text, u_char end)
{
    u_char     *p;
    ngx_str_t   token;

    p = ngx_strlchr(text->data, text->data + text->len, end);

    token.data = text->data;
    token.len = p ? (size_t) (p - text->data) : text->len;

    text->data += token.len + (p != NULL);
    text->len -= token.len + (p != NULL);

    ngx_http_agentstream_asked_trim(&token);

    return token;
}


static void
ngx_http_agentstream_asked_trim(ngx_str_t *text)
{
    while (text->len && text->data[0] <= ' ') {
        text->data++;
        text->len--;
    }

    while (text->len && text->data[text->len - 1] <= ' ') {
        text->len--;
    }
}


/* one option, several if the question allows it, or own words */

static void
ngx_http_agentstream_asked_choose(ngx_http_agentstream_asked_t *asked,
    ngx_uint_t question, ngx_str_t *text)
{
    uint64_t                      chosen;
    ngx_str_t                     rest, token;
    ngx_uint_t                    v, n, options;
    ngx_http_agentstream_json_t  *json;

    json = &asked->json;

    options = ngx_http_agentstream_json_get(json, question, "options");
    v = ngx_http_agentstream_json_get(json, question, "multiple");

    *asked->last++ = '[';

    n = ngx_http_agentstream_asked_find(asked, options, text);
    chosen = 0;

    if (n == 0 && ngx_http_agentstream_json_type(json, v)
                  == NGX_HTTP_AGENTSTREAM_JSON_TRUE)
    {
        for (rest = *text; rest.len; /* void */ ) {
            token = ngx_http_agentstream_asked_token(&rest, ',');
            n = ngx_http_agentstream_asked_find(asked, options, &token);

            chosen |= n ? (uint64_t) 1 << (n - 1) : 0;
        }
    }

    /* own words may contain commas, too */

    if (chosen == 0) {
        v = n ? ngx_http_agentstream_json_get(json,
                          ngx_http_agentstream_asked_nth(asked, options, n - 1),
                          "label")
              : 0;

        ngx_http_agentstream_asked_string(asked, v, text);
        *asked->last++ = ']';
        return;
    }

    chosen = 0;

    for (rest = *text; rest.len; /* void */ ) {
        token = ngx_http_agentstream_asked_token(&rest, ',');
        n = ngx_http_agentstream_asked_find(asked, options, &token);

        if (token.len == 0 || (n && chosen & (uint64_t) 1 << (n - 1))) {
            continue;
        }

        chosen |= n ? (uint64_t) 1 << (n - 1) : 0;

        v = n ? ngx_http_agentstream_json_get(json,
                          ngx_http_agentstream_asked_nth(asked, options, n - 1),
                          "label")
              : 0;

        ngx_http_agentstream_asked_string(asked, v, &token);
        *asked->last++ = ',';
    }

    asked->last[-1] = ']';
}


/* the option that is meant, from 1: by its number or its label; 0: none */

static ngx_uint_t
ngx_http_agentstream_asked_find(ngx_http_agentstream_asked_t *asked,
    ngx_uint_t options, ngx_str_t *text)
{
    size_t      len;
    ngx_int_t   number;
    ngx_uint_t  v, n;

    n = 0;

    for (v = ngx_http_agentstream_json_first(&asked->json, options);
         v && n < NGX_HTTP_AGENTSTREAM_ASKED_OPTIONS;
         v = ngx_http_agentstream_json_next(&asked->json, options, v))
    {
        n++;

        if (ngx_http_agentstream_asked_same(asked,
                         ngx_http_agentstream_json_get(&asked->json, v,
                                                       "label"),
                         text))
        {
            return n;
        }
    }

    /* "2", "2." and "2)" */

    len = text->len;

    if (len > 1 && (text->data[len - 1] == '.' || text->data[len - 1] == ')')) {
        len--;
    }

    number = len ? ngx_atoi(text->data, len) : NGX_ERROR;

    return (number > 0 && (ngx_uint_t) number <= n) ? (ngx_uint_t) number : 0;
}


/* whether a string of the packet is the text, in capitals or not */

static ngx_uint_t
ngx_http_agentstream_asked_same(ngx_http_agentstream_asked_t *asked,
    ngx_uint_t value, ngx_str_t *text)
{
    u_char     *last;
    ngx_str_t   label;

    /* decoded behind what was written, where there is room for all of it */

    label = ngx_http_agentstream_json_string(&asked->json, value);
    last = ngx_http_agentstream_json_decode(asked->last, &label);

    label.data = asked->last;
    label.len = last - label.data;
    ngx_http_agentstream_asked_trim(&label);

    return (label.len && label.len == text->len
            && ngx_strncasecmp(label.data, text->data, label.len) == 0);
}


/* a string of the packet, or a text */

static void
ngx_http_agentstream_asked_string(ngx_http_agentstream_asked_t *asked,
    ngx_uint_t value, ngx_str_t *text)
{
    ngx_str_t  raw;

    if (value) {
        raw = ngx_http_agentstream_json_raw(&asked->json, value);
        asked->last = ngx_http_agentstream_json_copy(asked->last, &raw);
        return;
    }

    *asked->last++ = '"';
    asked->last = ngx_http_agentstream_json_escape(asked->last, text->data,
                                                   text->len);
    *asked->last++ = '"';
}


/* "yes", "always", "no"; what follows "no" is told to the agent */

static ngx_int_t
ngx_http_agentstream_asked_reply(ngx_http_agentstream_asked_t *asked,
    ngx_str_t *text)
{
    ngx_str_t   word, rest;
    ngx_uint_t  i, v, n;

    static const char  *words[][8] = {
        { "once", "yes", "y", "ok", "okay", "allow", "1", NULL },
        { "always", "a", "2", NULL },
        { "reject", "no", "n", "deny", "3", NULL }
    };

    for (i = 0; i < 3; i++) {

        v = ngx_http_agentstream_asked_nth(asked, asked->options, i);
        n = 0;

        if (ngx_http_agentstream_asked_same(asked,
                      ngx_http_agentstream_json_get(&asked->json, v, "name"),
                      text))
        {
            break;
        }

        while (words[i][n]
               && !ngx_http_agentstream_asked_is(text, words[i][n]))
        {
            n++;
        }

        if (words[i][n]) {
            break;
        }
    }

    rest = *text;
    ngx_str_null(&word);

    if (i == 3) {
        word = ngx_http_agentstream_asked_token(&rest, ',');

        if (rest.len == 0) {
            rest = *text;
            word = ngx_http_agentstream_asked_token(&rest, ' ');
        }

        ngx_http_agentstream_asked_trim(&rest);

        if (!ngx_http_agentstream_asked_is(&word, "no") || rest.len == 0) {
            return NGX_DECLINED;
        }

        i = 2;
    }

    asked->last = ngx_sprintf(asked->last, "{\"reply\":\"%s\"", words[i][0]);

    if (word.len) {
        asked->last = ngx_sprintf(asked->last, ",\"message\":");
        ngx_http_agentstream_asked_string(asked, 0, &rest);
    }

    *asked->last++ = '}';

    return NGX_OK;
}


static ngx_uint_t
ngx_http_agentstream_asked_is(ngx_str_t *text, const char *word)
{
    return (text->len == ngx_strlen(word)
            && ngx_strncasecmp(text->data, (u_char *) word, text->len) == 0);
}


ngx_int_t
ngx_http_agentstream_asked_resolved(ngx_pool_t *pool, ngx_uint_t form,
    ngx_http_agentstream_markdown_limits_t *limits, ngx_str_t *json,
    ngx_http_agentstream_piece_t *piece)
{
    u_char                       *p;
    ngx_int_t                     rc;
    ngx_str_t                     text;
    ngx_uint_t                    v, answers;
    ngx_http_agentstream_json_t   packet;

    ngx_memzero(&packet, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&packet, json->data, json->len);
    if (rc != NGX_OK) {
        return rc;
    }

    p = ngx_pnalloc(pool, json->len * 2 + 64);
    if (p == NULL) {
        ngx_http_agentstream_json_destroy(&packet);
        return NGX_ERROR;
    }

    text.data = p;

    v = ngx_http_agentstream_json_get(&packet, packet.root, "reply");
    answers = ngx_http_agentstream_json_get(&packet, packet.root, "answers");

    if (ngx_http_agentstream_json_is(&packet, v, "once")) {
        p = ngx_sprintf(p, "\xe2\x9c\x85 Allowed once");

    } else if (ngx_http_agentstream_json_is(&packet, v, "always")) {
        p = ngx_sprintf(p, "\xe2\x9c\x85 Always allowed");

    } else if (ngx_http_agentstream_json_is(&packet, v, "reject")) {
        p = ngx_sprintf(p, "\xe2\x9d\x8c Rejected");

    } else if (ngx_http_agentstream_json_first(&packet, answers)) {
        p = ngx_sprintf(p, "\xe2\x9c\x85 Answered: ");
        p = ngx_http_agentstream_asked_list(&packet, p);

    } else {
        v = ngx_http_agentstream_json_get(&packet, packet.root, "outcome");

        p = ngx_http_agentstream_json_is(&packet, v, "rejected")
            ? ngx_sprintf(p, "\xe2\x9d\x8c Not answered")
            : ngx_sprintf(p, "\xe2\x9c\x85 Answered");
    }

    ngx_http_agentstream_json_destroy(&packet);

    text.len = p - text.data;

    return ngx_http_agentstream_markdown_plain(pool, form, limits, &text,
                                               piece);
}


static u_char *
ngx_http_agentstream_asked_list(ngx_http_agentstream_json_t *json, u_char *p)
{
    ngx_str_t   text;
    ngx_uint_t  answers, answer, v, n;

    answers = ngx_http_agentstream_json_get(json, json->root, "answers");
    n = 0;

    for (answer = ngx_http_agentstream_json_first(json, answers);
         answer;
         answer = ngx_http_agentstream_json_next(json, answers, answer))
    {
        for (v = ngx_http_agentstream_json_first(json, answer);
             v;
             v = ngx_http_agentstream_json_next(json, answer, v))
        {
            if (n++) {
                p = ngx_cpymem(p, ", ", 2);
            }

            text = ngx_http_agentstream_json_string(json, v);
            p = ngx_http_agentstream_json_decode(p, &text);
        }
    }

    return p;
}
