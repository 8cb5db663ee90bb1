
/*
 * Copyright (C) agentstream contributors
 */


/*
 * A view as one JSON object, for bots of others.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_asked.h"
#include "ngx_http_agentstream_view_int.h"


/* bytes around the texts */
#define NGX_HTTP_AGENTSTREAM_VIEW_FRAME  256


static const char *ngx_http_agentstream_view_phase(
    ngx_http_agentstream_view_t *view, ngx_pool_t *pool, ngx_str_t *error);
static ngx_int_t ngx_http_agentstream_view_requests(
    ngx_http_agentstream_view_t *view, ngx_pool_t *pool,
    ngx_http_agentstream_view_args_t *args, ngx_str_t *json);
static ngx_int_t ngx_http_agentstream_view_request(ngx_pool_t *pool,
    ngx_http_agentstream_view_args_t *args,
    ngx_http_agentstream_view_asked_t *asked, ngx_str_t *json);
static u_char *ngx_http_agentstream_view_member(u_char *p, const char *name,
    ngx_str_t *value);
static u_char *ngx_http_agentstream_view_string(u_char *p, ngx_str_t *value);


ngx_int_t
ngx_http_agentstream_view_delta(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, int64_t now, ngx_str_t *json)
{
    u_char      *p;
    ngx_str_t    answer, thoughts, error;
    const char  *phase;

    if (view->end == NGX_HTTP_AGENTSTREAM_VIEW_RUNNING
        && view->said == 0 && view->thought == 0)
    {
        return NGX_DECLINED;
    }

    phase = ngx_http_agentstream_view_phase(view, pool, &error);

    if (phase == NULL
        || ngx_http_agentstream_view_answer(view, pool, &answer) != NGX_OK
        || ngx_http_agentstream_view_thoughts(view, pool,
                                            NGX_HTTP_AGENTSTREAM_VIEW_THOUGHT,
                                            &thoughts)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(pool, NGX_HTTP_AGENTSTREAM_VIEW_FRAME
                 + ngx_http_agentstream_json_escape_size(answer.len)
                 + ngx_http_agentstream_json_escape_size(thoughts.len)
                 + ngx_http_agentstream_json_escape_size(error.len));
    if (p == NULL) {
        return NGX_ERROR;
    }

    json->data = p;

    p = ngx_sprintf(p, "{\"phase\":\"%s\"", phase);

    if (error.len) {
        p = ngx_http_agentstream_view_member(p, "error", &error);

    } else {

        if (phase[0] != 't') {
            p = ngx_http_agentstream_view_member(p, "content", &answer);
        }

        if (view->thought) {
            p = ngx_http_agentstream_view_member(p, "thinking", &thoughts);

            p = (phase[0] == 't')
                ? ngx_sprintf(p, ",\"thinkingElapsedMs\":%L",
                              ngx_max(now - view->thinking, 0))
                : ngx_sprintf(p, ",\"thinkingDurationMs\":%L",
                              view->thought_at - view->thinking);
        }
    }

    *p++ = '}';

    json->len = p - json->data;

    return NGX_OK;
}


/* how far the turn is, and what went wrong; NULL if there is no memory */

static const char *
ngx_http_agentstream_view_phase(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_str_t *error)
{
    ngx_str_null(error);

    switch (view->end) {

    case NGX_HTTP_AGENTSTREAM_VIEW_RUNNING:
        return view->said ? "content" : "thinking";

    case NGX_HTTP_AGENTSTREAM_VIEW_TIMEOUT:
    case NGX_HTTP_AGENTSTREAM_VIEW_ERROR:
        *error = view->error;

        if (error->len == 0
            && ngx_http_agentstream_view_sentence(view, pool, 0, error)
               != NGX_OK)
        {
            return NULL;
        }

        return "error";

    default:
        return "final";
    }
}


static u_char *
ngx_http_agentstream_view_member(u_char *p, const char *name,
    ngx_str_t *value)
{
    p = ngx_sprintf(p, ",\"%s\":", name);

    return ngx_http_agentstream_view_string(p, value);
}


static u_char *
ngx_http_agentstream_view_string(u_char *p, ngx_str_t *value)
{
    *p++ = '"';
    p = ngx_http_agentstream_json_escape(p, value->data, value->len);
    *p++ = '"';

    return p;
}


ngx_int_t
ngx_http_agentstream_view_snapshot(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_http_agentstream_view_args_t *args, ngx_str_t *json)
{
    u_char                        *p;
    ngx_str_t                      text, asked;
    const char                    *phase;
    ngx_http_agentstream_piece_t   piece;

    static const char  *reasons[] = {
        "", "end_turn", "max_tokens", "refusal", "cancelled"
    };

    ngx_str_set(&asked, "");

    switch (view->end) {

    case NGX_HTTP_AGENTSTREAM_VIEW_RUNNING:
        phase = "progress";

        if (ngx_http_agentstream_view_progress(view, pool, args, &piece)
            != NGX_OK
            || ngx_http_agentstream_view_requests(view, pool, args, &asked)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        text = piece.plain;
        break;

    case NGX_HTTP_AGENTSTREAM_VIEW_TIMEOUT:
    case NGX_HTTP_AGENTSTREAM_VIEW_ERROR:
        phase = "error";

        if (ngx_http_agentstream_view_sentence(view, pool, 0, &text)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        break;

    default:
        phase = "final";

        if (ngx_http_agentstream_view_answer(view, pool, &text) != NGX_OK) {
            return NGX_ERROR;
        }

        if (text.len == 0 && view->end != NGX_HTTP_AGENTSTREAM_VIEW_CANCELLED
            && ngx_http_agentstream_view_sentence(view, pool, 1, &text)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    p = ngx_pnalloc(pool, NGX_HTTP_AGENTSTREAM_VIEW_FRAME + asked.len
                    + ngx_http_agentstream_json_escape_size(text.len));
    if (p == NULL) {
        return NGX_ERROR;
    }

    json->data = p;

    p = ngx_sprintf(p, "{\"phase\":\"%s\"", phase);
    p = ngx_http_agentstream_view_member(p, "text", &text);

    if (phase[0] == 'f') {
        p = ngx_sprintf(p, ",\"stopReason\":\"%s\"", reasons[view->end]);
    }

    p = ngx_cpymem(p, asked.data, asked.len);
    *p++ = '}';

    json->len = p - json->data;

    return NGX_OK;
}


/* ,"asked":[...], or nothing */

static ngx_int_t
ngx_http_agentstream_view_requests(ngx_http_agentstream_view_t *view,
    ngx_pool_t *pool, ngx_http_agentstream_view_args_t *args, ngx_str_t *json)
{
    u_char      *p;
    size_t       size;
    ngx_str_t    list[NGX_HTTP_AGENTSTREAM_VIEW_ASKED];
    ngx_uint_t   i;

    if (view->nasked == 0) {
        return NGX_OK;
    }

    size = 0;

    for (i = 0; i < view->nasked; i++) {

        if (ngx_http_agentstream_view_request(pool, args, &view->asked[i],
                                              &list[i])
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        size += list[i].len + 1;
    }

    p = ngx_pnalloc(pool, sizeof(",\"asked\":[]") + size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    json->data = p;

    p = ngx_sprintf(p, ",\"asked\":[");

    for (i = 0; i < view->nasked; i++) {
        p = ngx_cpymem(p, list[i].data, list[i].len);
        *p++ = (i + 1 < view->nasked) ? ',' : ']';
    }

    json->len = p - json->data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_view_request(ngx_pool_t *pool,
    ngx_http_agentstream_view_args_t *args,
    ngx_http_agentstream_view_asked_t *asked, ngx_str_t *json)
{
    u_char                               *p;
    size_t                                size;
    ngx_uint_t                            i;
    ngx_array_t                           pieces, buttons;
    ngx_http_agentstream_piece_t         *piece;
    ngx_http_agentstream_asked_button_t  *button;

    if (ngx_array_init(&pieces, pool, 1, sizeof(ngx_http_agentstream_piece_t))
        != NGX_OK
        || ngx_array_init(&buttons, pool, 4,
                          sizeof(ngx_http_agentstream_asked_button_t))
           != NGX_OK
        || ngx_http_agentstream_asked_show(pool, args->form, &args->limits,
                                           &asked->json, &pieces, &buttons)
           == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    piece = pieces.elts;
    button = buttons.elts;

    size = NGX_HTTP_AGENTSTREAM_VIEW_FRAME + asked->id.len;

    for (i = 0; i < pieces.nelts; i++) {
        size += ngx_http_agentstream_json_escape_size(piece[i].plain.len);
    }

    for (i = 0; i < buttons.nelts; i++) {
        size += ngx_http_agentstream_json_escape_size(button[i].label.len) + 3;
    }

    p = ngx_pnalloc(pool, size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    json->data = p;

    p = ngx_sprintf(p, "{\"kind\":\"%s\",\"id\":\"%V\",\"text\":\"",
                    asked->permission ? "permission" : "question",
                    &asked->id);

    for (i = 0; i < pieces.nelts; i++) {
        p = ngx_http_agentstream_json_escape(p, piece[i].plain.data,
                                             piece[i].plain.len);
    }

    p = ngx_sprintf(p, "\",\"options\":[");

    for (i = 0; i < buttons.nelts; i++) {
        p = ngx_http_agentstream_view_string(p, &button[i].label);
        *p++ = ',';
    }

    p -= (buttons.nelts != 0);
    p = ngx_sprintf(p, "]}");

    json->len = p - json->data;

    return NGX_OK;
}
