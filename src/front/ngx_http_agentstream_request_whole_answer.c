
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The whole answer to a prompt: it is collected in a few pieces, which are sent
 * one after the other and freed as the client takes them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_request_whole_int.h"


/* where a tool call is in its piece, with the comma that follows it */

typedef struct {
    ngx_uint_t                           part;
    size_t                               start;
    size_t                               len;
} ngx_http_agentstream_request_whole_tool_t;


static ngx_int_t ngx_http_agentstream_request_whole_begin(void *data);
static ngx_int_t ngx_http_agentstream_request_whole_add(
    ngx_http_agentstream_request_whole_t *w,
    ngx_http_agentstream_piece_e piece, ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_request_whole_text(void *data,
    ngx_str_t *text);
static ngx_int_t ngx_http_agentstream_request_whole_tool(void *data,
    ngx_http_agentstream_record_t *record);
static void ngx_http_agentstream_request_whole_replace(
    ngx_http_agentstream_request_whole_t *w, ngx_uint_t part);
static ngx_int_t ngx_http_agentstream_request_whole_plan(void *data,
    ngx_str_t *entries);
static ngx_int_t ngx_http_agentstream_request_whole_message(void *data,
    ngx_str_t *message);
static void ngx_http_agentstream_request_whole_done(void *data,
    ngx_http_agentstream_outcome_t *outcome);
static ngx_int_t ngx_http_agentstream_request_whole_header(
    ngx_http_agentstream_request_whole_t *w);


static ngx_http_agentstream_result_collector_t
    ngx_http_agentstream_request_whole_collector =
{
    ngx_http_agentstream_request_whole_begin,
    ngx_http_agentstream_request_whole_text,
    ngx_http_agentstream_request_whole_tool,
    ngx_http_agentstream_request_whole_plan,
    ngx_http_agentstream_request_whole_message,
    ngx_http_agentstream_request_whole_done
};


ngx_int_t
ngx_http_agentstream_request_whole_collect(
    ngx_http_agentstream_request_whole_t *w)
{
    ngx_http_agentstream_result_args_t  args;

    if (ngx_array_init(&w->tools, w->req->request->pool, 8,
                       sizeof(ngx_http_agentstream_request_whole_tool_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    args.target = &w->req->target;
    args.turn = w->turn;
    args.collector = &ngx_http_agentstream_request_whole_collector;
    args.data = w;

    /* a prompt that was never sent has no answer */

    args.unanswered = (w->reason.len == sizeof("cancelled") - 1
                       && ngx_strncmp(w->reason.data, "cancelled",
                                      w->reason.len) == 0);

    w->result = ngx_http_agentstream_result_create(&args);

    return w->result ? NGX_OK : NGX_ERROR;
}


void
ngx_http_agentstream_request_whole_free(
    ngx_http_agentstream_request_whole_t *w)
{
    ngx_uint_t                           i;
    ngx_http_agentstream_output_text_t  *piece;

    if (w->result) {
        ngx_http_agentstream_result_destroy(w->result);
        w->result = NULL;
    }

    for (i = 0; i < ngx_http_agentstream_pieces; i++) {
        piece = &w->pieces[i];

        if (piece->start) {
            ngx_http_agentstream_output_free(piece->start);
        }

        ngx_memzero(piece, sizeof(ngx_http_agentstream_output_text_t));
    }
}


/* every piece begins with what stands between it and the one before */

static ngx_int_t
ngx_http_agentstream_request_whole_begin(void *data)
{
    ngx_http_agentstream_request_whole_t *w = data;

    u_char      *p;
    size_t       size;
    ngx_str_t   *session;
    ngx_uint_t   i;

    static ngx_str_t  tools = ngx_string("\",\"toolCalls\":[");
    static ngx_str_t  messages = ngx_string("],\"messages\":[");
    static ngx_str_t  none = ngx_string("null");

    for (i = 0; i < ngx_http_agentstream_pieces; i++) {
        w->pieces[i].last = w->pieces[i].start;
    }

    w->tools.nelts = 0;
    w->newest = 0;
    w->nmessages = 0;

    session = &w->req->target.session;

    size = sizeof("{\"turnId\":\"\",\"sessionId\":\"\",\"stopReason\":\"\","
                  "\"usage\":,\"text\":\"")
           + w->turn.len + session->len + w->reason.len + w->usage.len;

    p = ngx_http_agentstream_output_room(
                              &w->pieces[ngx_http_agentstream_piece_text],
                              size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    w->pieces[ngx_http_agentstream_piece_text].last = ngx_sprintf(p,
                       "{\"turnId\":\"%V\",\"sessionId\":\"%V\","
                       "\"stopReason\":\"%V\",\"usage\":%V,\"text\":\"",
                       &w->turn, session, &w->reason, &w->usage);

    if (ngx_http_agentstream_request_whole_add(w,
                               ngx_http_agentstream_piece_tools, &tools)
        != NGX_OK
        || ngx_http_agentstream_request_whole_add(w,
                               ngx_http_agentstream_piece_messages, &messages)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_request_whole_plan(w, &none);
}


static ngx_int_t
ngx_http_agentstream_request_whole_add(
    ngx_http_agentstream_request_whole_t *w,
    ngx_http_agentstream_piece_e piece, ngx_str_t *text)
{
    u_char  *p;

    p = ngx_http_agentstream_output_room(&w->pieces[piece], text->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    w->pieces[piece].last = ngx_cpymem(p, text->data, text->len);

    return NGX_OK;
}


static ngx_int_t
ngx_http_agentstream_request_whole_text(void *data, ngx_str_t *text)
{
    return ngx_http_agentstream_request_whole_add(data,
                                             ngx_http_agentstream_piece_text,
                                             text);
}


static ngx_int_t
ngx_http_agentstream_request_whole_tool(void *data,
    ngx_http_agentstream_record_t *record)
{
    ngx_http_agentstream_request_whole_t *w = data;

    u_char                                     *p;
    ngx_http_agentstream_output_text_t         *piece;
    ngx_http_agentstream_request_whole_tool_t  *tool;

    ngx_http_agentstream_request_whole_replace(w, record->part);

    piece = &w->pieces[ngx_http_agentstream_piece_tools];

    p = ngx_http_agentstream_output_room(piece,
                                 ngx_http_agentstream_record_len(record) + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    tool = ngx_array_push(&w->tools);
    if (tool == NULL) {
        return NGX_ERROR;
    }

    p = ngx_http_agentstream_record_json(p, record);
    *p++ = ',';

    tool->part = record->part;
    tool->start = piece->last - piece->start;
    tool->len = p - piece->last;

    piece->last = p;

    return NGX_OK;
}


/* takes out the earlier state of a tool call, which is almost always the
   newest one */

static void
ngx_http_agentstream_request_whole_replace(
    ngx_http_agentstream_request_whole_t *w, ngx_uint_t part)
{
    u_char                                     *p;
    size_t                                      len;
    ngx_uint_t                                  i, n;
    ngx_http_agentstream_output_text_t         *piece;
    ngx_http_agentstream_request_whole_tool_t  *tools;

    tools = w->tools.elts;
    n = w->tools.nelts;

    /* a new call has a higher number than all others */

    if (n == 0 || part > w->newest) {
        w->newest = part;
        return;
    }

    for (i = n; i > 0 && tools[i - 1].part != part; i--) { /* void */ }

    if (i == 0) {
        return;
    }

    piece = &w->pieces[ngx_http_agentstream_piece_tools];

    p = piece->start + tools[i - 1].start;
    len = tools[i - 1].len;

    ngx_memmove(p, p + len, piece->last - (p + len));
    piece->last -= len;

    for ( /* void */ ; i < n; i++) {
        tools[i - 1] = tools[i];
        tools[i - 1].start -= len;
    }

    w->tools.nelts--;
}


static ngx_int_t
ngx_http_agentstream_request_whole_plan(void *data, ngx_str_t *entries)
{
    ngx_http_agentstream_request_whole_t *w = data;

    static ngx_str_t  before = ngx_string("],\"plan\":");
    static ngx_str_t  after = ngx_string("}");

    w->pieces[ngx_http_agentstream_piece_plan].last =
                              w->pieces[ngx_http_agentstream_piece_plan].start;

    if (ngx_http_agentstream_request_whole_add(w,
                                ngx_http_agentstream_piece_plan, &before)
        != NGX_OK
        || ngx_http_agentstream_request_whole_add(w,
                                ngx_http_agentstream_piece_plan, entries)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_request_whole_add(w,
                                             ngx_http_agentstream_piece_plan,
                                             &after);
}


static ngx_int_t
ngx_http_agentstream_request_whole_message(void *data, ngx_str_t *message)
{
    ngx_http_agentstream_request_whole_t *w = data;

    static ngx_str_t  comma = ngx_string(",");

    w->nmessages++;

    if (ngx_http_agentstream_request_whole_add(w,
                               ngx_http_agentstream_piece_messages, message)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_agentstream_request_whole_add(w,
                                         ngx_http_agentstream_piece_messages,
                                         &comma);
}


static void
ngx_http_agentstream_request_whole_done(void *data,
    ngx_http_agentstream_outcome_t *outcome)
{
    ngx_http_agentstream_request_whole_t *w = data;

    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = w->req->request;

    ngx_http_set_log_request(r->connection->log, r);

    ngx_http_agentstream_result_destroy(w->result);
    w->result = NULL;

    if (outcome->code != NGX_HTTP_OK) {
        rc = ngx_http_agentstream_request_failed(w->req, outcome);
        ngx_http_agentstream_output_finalize(&w->req->output, rc);
        return;
    }

    /* no comma follows the last element */

    if (w->tools.nelts) {
        w->pieces[ngx_http_agentstream_piece_tools].last--;
    }

    if (w->nmessages) {
        w->pieces[ngx_http_agentstream_piece_messages].last--;
    }

    if (ngx_http_agentstream_request_whole_header(w) != NGX_OK) {
        ngx_http_agentstream_output_finalize(&w->req->output, NGX_ERROR);
        return;
    }

    ngx_http_agentstream_request_whole_send(w);
}


static ngx_int_t
ngx_http_agentstream_request_whole_header(
    ngx_http_agentstream_request_whole_t *w)
{
    ngx_uint_t           i;
    ngx_http_request_t  *r;

    r = w->req->request;

    if (ngx_http_agentstream_request_whole_applied(w, NGX_HTTP_OK) != NGX_OK) {
        return NGX_ERROR;
    }

    r->headers_out.content_length_n = 0;

    for (i = 0; i < ngx_http_agentstream_pieces; i++) {
        r->headers_out.content_length_n += w->pieces[i].last
                                           - w->pieces[i].start;
    }

    return ngx_http_agentstream_output_header(r, w->req->output.wire,
                                              NGX_HTTP_OK);
}


void
ngx_http_agentstream_request_whole_send(void *data)
{
    ngx_http_agentstream_request_whole_t *w = data;

    ngx_int_t                            rc;
    ngx_uint_t                           end;
    ngx_http_agentstream_output_t       *out;
    ngx_http_agentstream_output_text_t   piece;

    out = &w->req->output;

    do {
        piece = w->pieces[w->next];
        ngx_memzero(&w->pieces[w->next],
                    sizeof(ngx_http_agentstream_output_text_t));

        end = (++w->next == ngx_http_agentstream_pieces);

        rc = ngx_http_agentstream_output_send(out, piece.start, piece.last,
                                              end);

        if (rc == NGX_ERROR || end) {
            ngx_http_agentstream_output_finalize(out, rc);
            return;
        }

    } while (!out->busy);
}
