
/*
 * Copyright (C) agentstream contributors
 */


/*
 * view*.c with the packets of t/data/expected: every captured turn as chats
 * show it.
 * Breaks when: the answer is not the text that the agent has written, and
 * nothing else; a tool call has no line, or two; a piece is not what the
 * platform accepts; a turn has no end; something that was answered is still
 * asked.
 */


#define _GNU_SOURCE
#include <ngx_config.h>
#include <ngx_core.h>

#include <cjson/cJSON.h>
#include <dirent.h>

#include "ngx_http_agentstream_asked.h"
#include "ngx_http_agentstream_view.h"
#include "pieces.h"
#include "tap.h"


#define EXPECTED  "t/data/expected"
#define WRENCH    "\xf0\x9f\x94\xa7 "


extern ngx_log_t  ngx_unit_log;

static ngx_http_agentstream_view_t  view;
static ngx_str_t                    text;      /* of the root, without spaces */
static ngx_uint_t                   calls, turns;
static char                        *ids[64];
static ngx_uint_t                   nids;


static const char *
member(cJSON *packet, const char *name)
{
    const char  *value;

    value = cJSON_GetStringValue(cJSON_GetObjectItem(packet, name));

    return value ? value : "";
}


/* a number for each text and tool call, as records have it */

static ngx_uint_t
part(const char *a, const char *b)
{
    char        id[256];
    ngx_uint_t  i;

    snprintf(id, sizeof(id), "%s %s", a, b);

    for (i = 0; i < nids; i++) {
        if (strcmp(ids[i], id) == 0) {
            return i + 1;
        }
    }

    if (nids == 64) {
        abort();
    }

    ids[nids++] = strdup(id);

    return nids;
}


static void
feed(cJSON *packet, uint64_t seq)
{
    char                           *json, *p;
    ngx_uint_t                      i;
    const char                     *type;
    ngx_http_agentstream_record_t   record;

    memset(&record, 0, sizeof(record));

    type = member(packet, "type");

    for (i = 1; i < NGX_HTTP_AGENTSTREAM_RECORD_TYPES; i++) {
        if (strcmp(type, (char *) ngx_http_agentstream_record_names[i].data)
            == 0)
        {
            record.type = i;
        }
    }

    record.part = part(type[0] == 't' ? "tool" : type,
                       type[0] == 't' ? member(packet, "toolCallId")
                                      : member(packet, "messageId"));
    record.seq = seq;

    json = cJSON_PrintUnformatted(packet);
    record.json.len = strlen(json);
    record.json.data = (u_char *) json;

    if (ngx_http_agentstream_view_record(&view, &record) != NGX_OK) {
        abort();
    }

    free(json);

    calls += (record.type == NGX_HTTP_AGENTSTREAM_RECORD_TOOL_START);

    if (record.type != NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE
        || cJSON_GetObjectItem(cJSON_GetObjectItem(packet, "_meta"),
                               "sessionId"))
    {
        return;
    }

    p = (char *) member(cJSON_GetObjectItem(packet, "content"), "text");

    for ( /* void */ ; *p; p++) {
        if ((u_char) *p > ' ') {
            text.data[text.len++] = *p;
        }
    }
}


static void
ended(const char *name)
{
    char                              *p, *progress;
    ngx_str_t                          answer;
    ngx_uint_t                         i, n, form, lines, ok;
    ngx_pool_t                        *pool;
    ngx_array_t                       *pieces;
    piece_check_t                      c;
    ngx_http_agentstream_piece_t       piece, *list;
    ngx_http_agentstream_view_args_t   args;

    turns++;
    pool = ngx_create_pool(4096, &ngx_unit_log);

    memset(&args, 0, sizeof(args));
    args.limits.units = 1 << 20;
    args.limits.bytes = 1 << 20;
    args.thoughts = 1;

    tap_ok(view.end != NGX_HTTP_AGENTSTREAM_VIEW_RUNNING, "%s: the end", name);

    /* the answer */

    (void) ngx_http_agentstream_view_answer(&view, pool, &answer);

    for (i = 0, n = 0; i < answer.len; i++) {
        if (answer.data[i] > ' ') {
            answer.data[n++] = answer.data[i];
        }
    }

    tap_ok(n == text.len && memcmp(answer.data, text.data, n) == 0,
           "%s: the answer", name);

    /* the lines of tool calls */

    (void) ngx_http_agentstream_view_progress(&view, pool, &args, &piece);

    progress = strndup((char *) piece.plain.data, piece.plain.len);
    lines = 0;

    for (p = progress; (p = strstr(p, WRENCH)); p++) {
        lines++;
    }

    tap_is(lines, calls, "a line for each tool call");
    free(progress);

    /* on every platform */

    ok = 1;

    for (form = 0; form < NGX_HTTP_AGENTSTREAM_MARKDOWN_FORMS; form++) {

        args.form = form;
        args.limits = ngx_http_agentstream_markdown_limits[form];

        pieces = ngx_array_create(pool, 4,
                                  sizeof(ngx_http_agentstream_piece_t));
        (void) ngx_http_agentstream_view_final(&view, pool, &args, pieces);

        ok &= (pieces->nelts > 0)
              == (view.end != NGX_HTTP_AGENTSTREAM_VIEW_CANCELLED);

        list = ngx_array_push(pieces);
        (void) ngx_http_agentstream_view_progress(&view, pool, &args, list);

        list = pieces->elts;

        for (i = 0; i < pieces->nelts; i++) {
            memset(&c, 0, sizeof(c));
            ok &= (piece_problem(form, &args.limits, &list[i], &c) == NULL);
        }
    }

    tap_ok(ok, "%s: accepted by every platform", name);

    tap_ok(view.nasked == 0 || view.end != NGX_HTTP_AGENTSTREAM_VIEW_END_TURN,
           "%s: nothing is asked any more", name);

    ngx_destroy_pool(pool);
    ngx_http_agentstream_view_destroy(&view);

    while (nids) {
        free(ids[--nids]);
    }

    text.len = 0;
    calls = 0;
}


static void
test_file(const char *name, ngx_str_t *file)
{
    char      *p, *eol, *last;
    cJSON     *line, *packet;
    uint64_t   seq;

    last = (char *) file->data + file->len;
    seq = 0;

    for (p = (char *) file->data; p < last; p = eol + 1) {

        eol = memchr(p, '\n', last - p);
        eol = eol ? eol : last;

        line = cJSON_ParseWithLength(p, eol - p);
        packet = cJSON_GetObjectItem(line, "packet");

        if (packet) {
            feed(packet, ++seq);

            if (view.end != NGX_HTTP_AGENTSTREAM_VIEW_RUNNING) {
                ended(name);
                seq = 0;
            }
        }

        cJSON_Delete(line);
    }
}


int
main(void)
{
    DIR            *dir;
    char            path[512];
    ngx_str_t       file;
    struct dirent  *entry;

    text.data = malloc(1024 * 1024);
    dir = opendir(EXPECTED);

    while (dir && (entry = readdir(dir))) {

        if (strstr(entry->d_name, ".jsonl") == NULL) {
            continue;
        }

        snprintf(path, sizeof(path), EXPECTED "/%s", entry->d_name);

        file = tap_read(path);
        test_file(entry->d_name, &file);
        free(file.data);
    }

    if (dir) {
        closedir(dir);
    }

    tap_ok(turns > 50, "%u turns", (unsigned) turns);

    free(text.data);

    return tap_done();
}
