
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Lines of any bytes as records of a turn: a letter for the type, one for the
 * part, and the JSON.  Checked after each: the view keeps no more than it may,
 * the progress is what the platform accepts, the snapshots are JSON; in the end
 * also the messages that end the turn.  What is asked can be shown, and
 * whatever somebody answers becomes JSON.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_asked.h"
#include "ngx_http_agentstream_view.h"
#include "pieces.h"


#define check(x)  if (!(x)) { __builtin_trap(); }


extern ngx_log_t  ngx_unit_log;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
is_json(ngx_str_t *text)
{
    ngx_http_agentstream_json_t  json;

    memset(&json, 0, sizeof(json));
    check(ngx_http_agentstream_json_parse(&json, text->data, text->len)
          == NGX_OK);
    ngx_http_agentstream_json_destroy(&json);
}


static void
accepted(ngx_http_agentstream_view_args_t *args, ngx_array_t *pieces)
{
    ngx_uint_t                     i;
    piece_check_t                  c;
    ngx_http_agentstream_piece_t  *piece;

    piece = pieces->elts;

    for (i = 0; i < pieces->nelts; i++) {
        memset(&c, 0, sizeof(c));
        check(piece_problem(args->form, &args->limits, &piece[i], &c)
              == NULL);
    }
}


static void
answers(ngx_pool_t *pool, ngx_str_t *json)
{
    ngx_str_t   text, body;
    ngx_uint_t  i;

    static const char  *texts[] = {
        "1", "2,3", "yes", "no, not so", "a\nb\nc", "\xff\"\\\n", "all, of it"
    };

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        text.data = (u_char *) texts[i];
        text.len = strlen(texts[i]);

        if (ngx_http_agentstream_asked_answer(pool, json, &text, &body)
            == NGX_OK)
        {
            is_json(&body);
        }

        if (ngx_http_agentstream_asked_press(pool, json, i, &body) == NGX_OK)
        {
            is_json(&body);
        }
    }
}


static void
shown(ngx_http_agentstream_view_t *view,
    ngx_http_agentstream_view_args_t *args, ngx_uint_t end)
{
    ngx_int_t                      rc;
    ngx_str_t                      json;
    ngx_uint_t                     i;
    ngx_pool_t                    *pool;
    ngx_array_t                   *pieces;
    ngx_http_agentstream_piece_t  *piece;

    pool = ngx_create_pool(4096, &ngx_unit_log);
    pieces = ngx_array_create(pool, 4, sizeof(ngx_http_agentstream_piece_t));
    piece = ngx_array_push(pieces);

    check(ngx_http_agentstream_view_progress(view, pool, args, piece)
          == NGX_OK);

    rc = ngx_http_agentstream_view_delta(view, pool, args->now, &json);
    check(rc != NGX_ERROR);

    if (rc == NGX_OK) {
        is_json(&json);
    }

    check(ngx_http_agentstream_view_snapshot(view, pool, args, &json)
          == NGX_OK);
    is_json(&json);

    for (i = 0; end && i < view->nasked; i++) {
        check(ngx_http_agentstream_asked_show(pool, args->form, &args->limits,
                                              &view->asked[i].json, pieces,
                                              NULL)
              != NGX_ERROR);
        answers(pool, &view->asked[i].json);
    }

    if (end) {
        check(ngx_http_agentstream_view_final(view, pool, args, pieces)
              == NGX_OK);
    }

    accepted(args, pieces);
    ngx_destroy_pool(pool);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t                             len;
    ngx_uint_t                         form;
    const uint8_t                     *p, *eol, *last;
    ngx_http_agentstream_view_t        view;
    ngx_http_agentstream_record_t      record;
    ngx_http_agentstream_view_args_t   args;

    memset(&view, 0, sizeof(view));
    memset(&args, 0, sizeof(args));

    last = data + size;
    form = size ? data[0] % NGX_HTTP_AGENTSTREAM_MARKDOWN_FORMS : 0;

    args.form = form;
    args.limits = ngx_http_agentstream_markdown_limits[form];
    args.now = 1794802831874;
    args.thoughts = 1;
    args.heartbeat = 1000;

    for (p = data + (size != 0); p < last; p = eol + 1) {

        eol = memchr(p, '\n', last - p);
        eol = eol ? eol : last;

        if (eol - p < 2) {
            continue;
        }

        memset(&record, 0, sizeof(record));
        record.type = p[0] % NGX_HTTP_AGENTSTREAM_RECORD_TYPES;
        record.part = p[1] % 8;

        /* exactly as long as the record */

        len = eol - p - 2;
        record.json.data = malloc(len ? len : 1);
        record.json.len = len;
        memcpy(record.json.data, p + 2, len);

        check(ngx_http_agentstream_view_record(&view, &record) == NGX_OK);
        free(record.json.data);

        check(view.size <= 1024 * 1024
              && view.nitems <= NGX_HTTP_AGENTSTREAM_VIEW_ITEMS
              && view.said <= view.len && view.thought <= view.len);

        shown(&view, &args, 0);
    }

    shown(&view, &args, 1);
    ngx_http_agentstream_view_destroy(&view);

    return 0;
}
