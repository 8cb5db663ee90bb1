
/*
 * Copyright (C) agentstream contributors
 */


/*
 * sse.c: what events a stream holds (HTML standard, 9.2.6), and that they are
 * the same however the stream is cut: whole, at each byte, at each two bytes,
 * byte by byte; each piece is freed as soon as it was fed.
 * Breaks when: state is lost at a cut (CR|LF, the name, the space after the
 * colon, the byte order mark), an event that lies whole in a piece is copied,
 * the limit counts a joining LF wrongly or reports an event twice, a line is
 * scanned again for each piece, or the object is touched after the handler
 * said stop.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#define TAP_REALLOC  1

#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_sse.h"
#include "captures.h"
#include "tap.h"


/* the events seen, each as "<data>" or "(skipped)" */

typedef struct {
    u_char                      *seen;
    size_t                       len;
    size_t                       size;
    ngx_uint_t                   events;

    u_char                      *piece;    /* the input, to tell copies */
    u_char                      *last;
    ngx_uint_t                   copied;

    ngx_uint_t                   stop;     /* at this event */
    ngx_int_t                    rc;
    ngx_http_agentstream_sse_t  *reset;
    ngx_http_agentstream_sse_t  *destroy;
} events_t;


static void
see(events_t *ev, const void *data, size_t len)
{
    u_char  *p;

    if (ev->len + len > ev->size) {
        ev->size = 2 * (ev->len + len);

        p = malloc(ev->size);
        ngx_memcpy(p, ev->seen ? ev->seen : p, ev->len);
        free(ev->seen);
        ev->seen = p;
    }

    ngx_memcpy(ev->seen + ev->len, data, len);
    ev->len += len;
}


static ngx_int_t
handler(void *ctx, ngx_str_t *data)
{
    events_t *ev = ctx;

    ev->events++;

    if (data == NULL) {
        see(ev, "(skipped)", 9);

    } else {
        see(ev, "<", 1);
        see(ev, data->data, data->len);
        see(ev, ">", 1);

        ev->copied += (data->data < ev->piece || data->data > ev->last);
    }

    if (ev->reset) {
        ngx_http_agentstream_sse_reset(ev->reset);
    }

    if (ev->events == ev->stop) {

        if (ev->destroy) {
            ngx_http_agentstream_sse_reset(ev->destroy);
            free(ev->destroy);
            ev->destroy = NULL;
        }

        return ev->rc;
    }

    return NGX_OK;
}


static void
init(ngx_http_agentstream_sse_t *sse, events_t *ev, size_t limit)
{
    ngx_memzero(sse, sizeof(ngx_http_agentstream_sse_t));
    ngx_memzero(ev, sizeof(events_t));

    sse->limit = limit;
    sse->handler = handler;
    sse->ctx = ev;
}


static ngx_int_t
feed(ngx_http_agentstream_sse_t *sse, events_t *ev, const void *data,
    size_t len)
{
    u_char     *copy;
    ngx_int_t   rc;

    copy = tap_copy(data, len);

    ev->piece = copy;
    ev->last = copy + len;

    rc = ngx_http_agentstream_sse_feed(sse, copy, len);

    free(copy);

    return rc;
}


static ngx_uint_t
seen(events_t *ev, const char *expected)
{
    return ev->len == strlen(expected)
           && (ev->len == 0 || ngx_memcmp(ev->seen, expected, ev->len) == 0);
}


/* the same events however the stream is cut */

static void
is_events(const char *stream, size_t limit, const char *expected)
{
    size_t                      i, j, k, len;
    events_t                    ev;
    ngx_uint_t                  bad;
    ngx_http_agentstream_sse_t  sse;

    len = strlen(stream);
    bad = 0;

    for (i = 0; i <= len; i++) {
        for (j = i; j <= len; j++) {
            init(&sse, &ev, limit);

            feed(&sse, &ev, stream, i);
            feed(&sse, &ev, stream + i, j - i);
            feed(&sse, &ev, stream + j, len - j);

            if (!seen(&ev, expected)) {
                if (bad++ == 0) {
                    tap_diag("cut at %d, %d: %.*s", (int) i, (int) j,
                             (int) ev.len, ev.seen);
                }
            }

            free(ev.seen);
            ngx_http_agentstream_sse_reset(&sse);
        }
    }

    init(&sse, &ev, limit);

    for (k = 0; k < len; k++) {
        feed(&sse, &ev, stream + k, 1);
    }

    if (!seen(&ev, expected)) {
        tap_diag("byte by byte: %.*s", (int) ev.len, ev.seen);
        bad++;
    }

    free(ev.seen);
    ngx_http_agentstream_sse_reset(&sse);

    if (!tap_ok(bad == 0, "%s -> %s", stream, expected)) {
        tap_diag("%lu cuts differ", (unsigned long) bad);
    }
}


static void
test_events(void)
{
    ngx_uint_t  i;

    static const char  *tests[][2] = {
        { "", "" },
        { "data: a\n\n", "<a>" },
        { "data: a\n\ndata: b\n\n", "<a><b>" },
        { "data: a\n", "" },
        { "data: a", "" },
        { "data: a\n\ndata: b\n", "<a>" },
        { "\n\n\n", "" },
        { "\n\ndata: a\n\n\n\ndata: b\n\n", "<a><b>" },

        /* line ends */
        { "data: a\r\n\r\n", "<a>" },
        { "data: a\r\rdata: b\r\r", "<a><b>" },
        { "data: a\r\n\r\ndata: b\r\n\r\n", "<a><b>" },
        { "data: a\r\n\n", "<a>" },
        { "data: a\n\r\n", "<a>" },
        { "data: a\n\r", "<a>" },
        { "data: a\r\n\rdata: b\n\r\n", "<a><b>" },
        { "data: a\rdata: b\ndata: c\r\ndata: d\n\n", "<a\nb\nc\nd>" },
        { "data: a\r\r\n", "<a>" },
        { "data: a\r\n", "" },
        { "\r\n\r\ndata: a\n\n", "<a>" },

        /* several data lines */
        { "data: a\ndata: b\n\n", "<a\nb>" },
        { "data: a\ndata: b\n\ndata: c\n\n", "<a\nb><c>" },
        { "data:\ndata:\n\n", "<\n>" },
        { "data\n\n", "<>" },
        { "data:\n\n", "<>" },
        { "data: \n\n", "<>" },
        { "data\ndata\n\n", "<\n>" },
        { "data\rdata: b\r\r", "<\nb>" },
        { "data: a\ndata\n\n", "<a\n>" },

        /* one space after the colon */
        { "data:a\n\n", "<a>" },
        { "data:  a\n\n", "< a>" },
        { "data:a b \n\n", "<a b >" },
        { "data:\ta\n\n", "<\ta>" },
        { "data: :\n\n", "<:>" },
        { "data:: a\n\n", "<: a>" },

        /* other lines */
        { ": comment\ndata: a\n\n", "<a>" },
        { ":\n\n", "" },
        { "data: a\n: comment\n\n", "<a>" },
        { "data: a\n: comment\ndata: b\n\n", "<a\nb>" },
        { "event: x\nid: 7\ndata: a\nretry: 5\n\n", "<a>" },
        { "event: x\nid: 7\n\ndata: a\n\n", "<a>" },
        { "dat: x\ndatax: y\ndata x: z\nd\nda\ndat\n\n", "" },
        { "Data: a\nDATA: b\n data: c\n\n", "" },
        { "xdata: a\ndata: b\n\n", "<b>" },
        { "dadata: a\n\n", "" },
        { "data: a\n \n\n", "<a>" },

        /* byte order mark */
        { "\xef\xbb\xbf" "data: a\n\n", "<a>" },
        { "\xef\xbb\xbf\ndata: a\n\n", "<a>" },
        { "\xef\xbb\xbf\xef\xbb\xbf" "data: a\n\ndata: b\n\n", "<b>" },
        { "\xef\xbb" "data: a\n\ndata: b\n\n", "<b>" },
        { "\xef" "data: a\n\ndata: b\n\n", "<b>" },
        { "\xef\ndata: a\n\n", "<a>" },
        { "\xef\xbb\r\rdata: a\n\n", "<a>" },
        { "data: a\n\n\xef\xbb\xbf" "data: b\n\ndata: c\n\n", "<a><c>" },
        { "data: \xef\xbb\xbf\n\n", "<\xef\xbb\xbf>" },
        { "\ndata: a\n\n", "<a>" },

        { "data: {\"a\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}\n\n",
          "<{\"a\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}>" }
    };

    for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        is_events(tests[i][0], 1000, tests[i][1]);
    }
}


static void
test_limit(void)
{
    ngx_uint_t  i;

    static const char  *tests[][2] = {
        { "data: 12345\n\n", "<12345>" },
        { "data: 123456\n\n", "(skipped)" },
        { "data: 123456789012345\n\n", "(skipped)" },
        { "data: 123456\n\ndata: a\n\n", "(skipped)<a>" },
        { "data: 123456\n", "" },
        { "data: 12\ndata: 34\n\n", "<12\n34>" },
        { "data: 12\ndata: 345\n\n", "(skipped)" },
        { "data: 12345\ndata\n\ndata: a\n\n", "(skipped)<a>" },
        { "data: 1234\ndata\n\n", "<1234\n>" },
        { "data: 1234567\ndata: 1\n: c\ndata: 1234567\n\n", "(skipped)" },
        { "data: 123456\r\n\r\ndata: 1234567\r\n\r\n", "(skipped)(skipped)" },
        { ": a comment may be long\ndata: 1\n\n", "<1>" },
        { "event: so may other fields\ndata: 1\n\n", "<1>" },
        { "data: 1\n: a comment may be long\n\n", "<1>" }
    };

    for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        is_events(tests[i][0], 5, tests[i][1]);
    }

    is_events("data: \n\ndata: 1\n\n", 0, "<>(skipped)");
}


static void
test_copies(void)
{
    events_t                    ev;
    ngx_http_agentstream_sse_t  sse;

    init(&sse, &ev, 1000);

    feed(&sse, &ev, "data: a\n\ndata: b\n\n: c\nid: 1\ndata: c\n: d\n\r\n", 41);
    tap_ok(ev.events == 3 && ev.copied == 0 && sse.buf == NULL,
           "events that lie whole in a piece are not copied");

    feed(&sse, &ev, "da", 2);
    feed(&sse, &ev, "ta:", 3);
    feed(&sse, &ev, " d\n\n", 4);
    tap_ok(ev.events == 4 && ev.copied == 0 && sse.buf == NULL,
           "nor is one whose name alone was cut");

    feed(&sse, &ev, "data: e\n", 8);
    feed(&sse, &ev, "\n", 1);
    tap_ok(ev.events == 5 && ev.copied == 1, "one that is cut is copied");

    tap_ok(seen(&ev, "<a><b><c><d><e>"), "all of them");

    free(ev.seen);
    ngx_http_agentstream_sse_reset(&sse);
}


static void
test_stop(void)
{
    events_t                    ev;
    ngx_http_agentstream_sse_t  sse, *dynamic;

    init(&sse, &ev, 1000);

    ev.stop = 2;
    ev.rc = NGX_DONE;

    tap_is(feed(&sse, &ev, "data: a\n\ndata: b\n\ndata: c\n\n", 27), NGX_DONE,
           "what the handler returned");
    tap_ok(seen(&ev, "<a><b>"), "no event after that");

    tap_is(feed(&sse, &ev, "data: d\n\n", 9), NGX_OK, "it can go on");
    tap_ok(seen(&ev, "<a><b><d>"), "with new input");

    ev.stop = 4;
    ev.rc = NGX_ERROR;

    feed(&sse, &ev, "data: e", 7);
    tap_is(feed(&sse, &ev, "f\r\n\r", 4), NGX_ERROR, "stop at a cut event");
    tap_is(feed(&sse, &ev, "\ndata: g\n\n", 10), NGX_OK, "LF after that CR");
    tap_ok(seen(&ev, "<a><b><d><ef><g>"), "is no empty line");

    sse.limit = 1;
    ev.stop = 6;

    tap_is(feed(&sse, &ev, "data: hh\n\ndata: i\n\n", 19), NGX_ERROR,
           "stop at a skipped event");
    tap_is(feed(&sse, &ev, "data: j\n\n", 9), NGX_OK, "and go on");
    tap_ok(seen(&ev, "<a><b><d><ef><g>(skipped)<j>"), "nothing is left over");

    free(ev.seen);
    ngx_http_agentstream_sse_reset(&sse);

    /* reset and free from inside the handler */

    init(&sse, &ev, 1000);
    ev.reset = &sse;

    feed(&sse, &ev, "data: a", 7);
    feed(&sse, &ev, "b\n\ndata: c\n\ndata: d\ndata: ", 26);
    feed(&sse, &ev, "e\n\ndata: f", 10);
    tap_ok(seen(&ev, "<ab><c><d\ne>"), "reset by the handler");

    free(ev.seen);
    ngx_http_agentstream_sse_reset(&sse);

    dynamic = malloc(sizeof(ngx_http_agentstream_sse_t));

    init(dynamic, &ev, 1000);
    ev.destroy = dynamic;
    ev.stop = 1;
    ev.rc = NGX_ABORT;

    feed(dynamic, &ev, "data: a", 7);
    tap_is(feed(dynamic, &ev, "b\n\ndata: c\n\n", 12), NGX_ABORT,
           "freed by the handler");

    free(ev.seen);
}


static void
test_reset(void)
{
    events_t                    ev;
    ngx_http_agentstream_sse_t  sse;

    init(&sse, &ev, 1000);

    feed(&sse, &ev, "data: a\ndata: b", 15);
    ngx_http_agentstream_sse_reset(&sse);
    tap_ok(sse.buf == NULL && sse.size == 0, "reset frees the buffer");

    feed(&sse, &ev, "\n\n", 2);
    feed(&sse, &ev, "data: c\n\nda", 11);
    ngx_http_agentstream_sse_reset(&sse);
    feed(&sse, &ev, "\xef\xbb\xbf" "data: d\n\ndata: e\r", 20);
    ngx_http_agentstream_sse_reset(&sse);
    feed(&sse, &ev, "\ndata: f\n\n: g", 12);
    ngx_http_agentstream_sse_reset(&sse);
    feed(&sse, &ev, "data: h\n\ndata: i", 16);
    ngx_http_agentstream_sse_reset(&sse);
    feed(&sse, &ev, "data: j", 7);
    feed(&sse, &ev, "k\n\n", 3);

    tap_ok(seen(&ev, "<c><d><f><h><jk>"), "a new connection starts afresh");
    tap_is(sse.limit, 1000, "with the same limit");

    free(ev.seen);
    ngx_http_agentstream_sse_reset(&sse);
}


static void
test_memory(void)
{
    u_char                      *line;
    size_t                       i, n;
    events_t                     ev;
    ngx_http_agentstream_sse_t   sse;

    /* a line of 8 MB in small pieces: no work is done twice */

    init(&sse, &ev, 16 * 1024 * 1024);
    tap_reallocs = 0;
    n = 8 * 1024 * 1024;

    line = malloc(n);
    ngx_memset(line, 'x', n);

    ngx_http_agentstream_sse_feed(&sse, (u_char *) "data: ", 6);

    for (i = 0; i < n; i += 64) {
        ngx_http_agentstream_sse_feed(&sse, line + i, 64);
    }

    ngx_http_agentstream_sse_feed(&sse, (u_char *) "\n\n", 2);

    tap_ok(ev.events == 1 && ev.len == n + 2, "a line in many pieces");
    tap_ok(tap_reallocs < 20, "the buffer grows by doubling");
    tap_ok(sse.buf == NULL, "a large buffer is not kept");

    feed(&sse, &ev, "data: y", 7);
    feed(&sse, &ev, "\n\n", 2);
    tap_ok(ev.events == 2 && ngx_strncmp(ev.seen + n + 2, "<y>", 3) == 0,
           "the next one is made afresh");

    free(ev.seen);
    ngx_http_agentstream_sse_reset(&sse);

    /* lines that end in CR only: no search for LF from each of them */

    init(&sse, &ev, 1000);

    for (i = 0; i < n; i += 4) {
        ngx_memcpy(line + i, "id\rx", 4);
    }

    ngx_http_agentstream_sse_feed(&sse, line, n);

    for (i = 0; i < n; i += 4) {
        ngx_memcpy(line + i, "id\nx", 4);
    }

    ngx_http_agentstream_sse_feed(&sse, line, n);
    tap_is(ev.events, 0, "many short lines");

    ngx_http_agentstream_sse_reset(&sse);

    /* an event over the limit is not kept */

    init(&sse, &ev, 10000);

    ngx_http_agentstream_sse_feed(&sse, (u_char *) "data: ", 6);
    ngx_memset(line, 'x', n);

    for (i = 0; i < n; i += 4096) {
        ngx_http_agentstream_sse_feed(&sse, line, 4096);
    }

    tap_ok(sse.size <= 20000 && sse.len == 0, "an event over the limit");
    ngx_http_agentstream_sse_feed(&sse, (u_char *) "\n\n", 2);
    tap_ok(seen(&ev, "(skipped)"), "is skipped");

    free(ev.seen);
    ngx_http_agentstream_sse_reset(&sse);

    /* a cut event of usual size: the buffer is reused */

    init(&sse, &ev, 100000);
    feed(&sse, &ev, "data: ", 6);
    feed(&sse, &ev, line, 5000);
    feed(&sse, &ev, "\n\n", 2);
    tap_reallocs = 0;
    feed(&sse, &ev, "data: ", 6);
    feed(&sse, &ev, line, 5000);
    feed(&sse, &ev, "\n\n", 2);
    tap_ok(ev.events == 2 && tap_reallocs == 0, "the buffer is reused");

    free(ev.seen);
    ngx_http_agentstream_sse_reset(&sse);

    /* no memory */

    init(&sse, &ev, 1000);

    tap_fail_realloc = 1;
    tap_is(feed(&sse, &ev, "data: a", 7), NGX_ERROR, "no memory");
    tap_is(feed(&sse, &ev, "data: a\n", 8), NGX_OK, "the event is lost");
    tap_fail_realloc = 0;
    tap_is(feed(&sse, &ev, "\ndata: b", 8), NGX_OK, "memory again");
    feed(&sse, &ev, "\n\n", 2);
    tap_ok(seen(&ev, "(skipped)<b>"), "no part of an event is passed for it");

    tap_fail_realloc = 1;
    ngx_http_agentstream_sse_reset(&sse);
    tap_is(feed(&sse, &ev, "data: c\n", 8), NGX_ERROR,
           "no memory at the end of a piece");
    ngx_http_agentstream_sse_reset(&sse);
    tap_is(feed(&sse, &ev, "data: c\ndata: d\n\n", 17), NGX_ERROR,
           "no memory to join lines");
    tap_fail_realloc = 0;

    free(ev.seen);
    ngx_http_agentstream_sse_reset(&sse);
    free(line);
}


static ngx_int_t
capture_handler(void *ctx, ngx_str_t *data)
{
    ngx_int_t                    rc;
    ngx_http_agentstream_json_t  json;

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    rc = ngx_http_agentstream_json_parse(&json, data->data, data->len);

    ngx_http_agentstream_json_destroy(&json);

    if (rc != NGX_OK) {
        return rc;
    }

    return handler(ctx, data);
}


/* what a plain reading of "data: ...\n\n" finds */

static void
capture_lines(events_t *ev, ngx_str_t *file)
{
    u_char  *p, *end, *last;

    last = file->data + file->len;

    for (p = file->data; p < last; p = end + 1) {
        end = memchr(p, LF, last - p);

        if (end == NULL) {
            return;
        }

        if (end - p > 6 && ngx_memcmp(p, "data: ", 6) == 0) {
            see(ev, "<", 1);
            see(ev, p + 6, end - p - 6);
            see(ev, ">", 1);
            ev->events++;
        }
    }
}


static void
test_captures(void)
{
    DIR                         *dir;
    char                         path[512];
    size_t                       i, n;
    events_t                     ev, lines;
    ngx_str_t                    file;
    ngx_uint_t                   k, files, events, bad;
    ngx_http_agentstream_sse_t   sse;

    static size_t  sizes[] = { 0, 1, 7, 100, 1000, 4096, 16384 };

    dir = NULL;
    files = 0;
    events = 0;
    bad = 0;

    while (capture_next(&dir, "", path, &file) == NGX_OK) {

        files++;

        init(&sse, &lines, 0);
        capture_lines(&lines, &file);
        events += lines.events;

        for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            init(&sse, &ev, 1024 * 1024);
            sse.handler = capture_handler;

            n = sizes[k] ? sizes[k] : file.len;

            for (i = 0; i < file.len; i += n) {
                if (feed(&sse, &ev, file.data + i, ngx_min(n, file.len - i))
                    != NGX_OK)
                {
                    bad++;
                }
            }

            if (ev.events != lines.events || ev.len != lines.len
                || ngx_memcmp(ev.seen, lines.seen, ev.len) != 0)
            {
                tap_diag("%s in pieces of %d", path, (int) n);
                bad++;
            }

            free(ev.seen);
            ngx_http_agentstream_sse_reset(&sse);
        }

        free(lines.seen);
        free(file.data);
    }

    tap_ok(files >= 50 && events > 2000, "%lu captures, %lu events",
           (unsigned long) files, (unsigned long) events);
    tap_is(bad, 0, "in pieces of seven sizes");
}


int
main(void)
{
    /* what is done twice is not done in time */
    alarm(120);

    test_events();
    test_limit();
    test_copies();
    test_stop();
    test_reset();
    test_memory();
    test_captures();

    return tap_done();
}
