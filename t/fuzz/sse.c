
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Any bytes as an event stream, with any limit, in any pieces.  Checked: the
 * events are the same whether the stream is fed whole, in pieces or byte by
 * byte, and they are those that a simple implementation of the standard finds;
 * a handler that stops, and continues with the next piece, does no harm.
 *
 * The input: limit, size of pieces, event to stop at, then the stream.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_sse.h"


#define check(x)  if (!(x)) { __builtin_trap(); }


/* each event as its data and 0x00 0x01, or 0x00 0x02 when it was skipped */

typedef struct {
    u_char      *data;
    size_t       len;
    ngx_uint_t   events;
    ngx_uint_t   stop;
} log_t;


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
fuzz_init(log_t *log, size_t size)
{
    ngx_memzero(log, sizeof(log_t));

    /* an event takes at least "data\n\n" */

    log->data = malloc(2 * size + 16);
}


static void
fuzz_log(log_t *log, u_char *data, size_t len, u_char mark)
{
    if (len) {
        ngx_memcpy(log->data + log->len, data, len);
        log->len += len;
    }

    log->data[log->len++] = 0;
    log->data[log->len++] = mark;
    log->events++;
}


static ngx_int_t
fuzz_handler(void *ctx, ngx_str_t *data)
{
    log_t *log = ctx;

    if (data) {
        check(data->data != NULL);
        fuzz_log(log, data->data, data->len, 1);

    } else {
        fuzz_log(log, NULL, 0, 2);
    }

    return (log->events == log->stop) ? NGX_DONE : NGX_OK;
}


/* HTML standard, 9.2.6, word by word */

static void
fuzz_plain(log_t *log, const u_char *p, size_t len, size_t limit)
{
    u_char        *event, *e;
    size_t         n, name;
    ngx_uint_t     has;
    const u_char  *last, *value;

    last = p + len;

    if (len >= 3 && ngx_memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        p += 3;
    }

    event = malloc(len + 1);
    e = event;
    has = 0;

    for ( ;; ) {

        for (n = 0; p + n < last && p[n] != CR && p[n] != LF; n++) {
            /* void */
        }

        if (p + n == last) {
            break;
        }

        if (n == 0) {

            if (has && (size_t) (e - event - 1) > limit) {
                fuzz_log(log, NULL, 0, 2);

            } else if (has) {
                fuzz_log(log, event, e - event - 1, 1);
            }

            e = event;
            has = 0;

        } else {

            for (name = 0; name < n && p[name] != ':'; name++) {
                /* void */
            }

            value = p + name + (name < n);

            if (value < p + n && *value == ' ') {
                value++;
            }

            if (name == 4 && ngx_memcmp(p, "data", 4) == 0) {
                e = ngx_cpymem(e, value, p + n - value);
                *e++ = LF;
                has = 1;
            }
        }

        p += n;
        p += (last - p > 1 && p[0] == CR && p[1] == LF) ? 2 : 1;
    }

    free(event);
}


static void
fuzz_feed(log_t *log, const u_char *data, size_t len, size_t limit, size_t n)
{
    u_char                      *piece;
    size_t                       i, size;
    ngx_int_t                    rc;
    ngx_http_agentstream_sse_t   sse;

    ngx_memzero(&sse, sizeof(ngx_http_agentstream_sse_t));

    sse.limit = limit;
    sse.handler = fuzz_handler;
    sse.ctx = log;

    for (i = 0; i < len; i += size) {
        size = ngx_min(n, len - i);

        piece = malloc(size);
        ngx_memcpy(piece, data + i, size);

        rc = ngx_http_agentstream_sse_feed(&sse, piece, size);
        check(rc == NGX_OK || (rc == NGX_DONE && log->stop));

        free(piece);

        check(sse.len <= sse.size && sse.len <= limit);
    }

    ngx_http_agentstream_sse_reset(&sse);
    check(sse.buf == NULL);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_t       plain, fed;
    size_t      limit, sizes[3];
    ngx_uint_t  i, stop;

    if (size < 4) {
        return 0;
    }

    limit = (data[0] == 255) ? 1024 * 1024 : data[0];
    sizes[1] = 2 + data[1];
    stop = data[2];

    data += 3;
    size -= 3;

    sizes[0] = size;
    sizes[2] = 1;

    fuzz_init(&plain, size);
    fuzz_plain(&plain, data, size, limit);

    for (i = 0; i < 3; i++) {
        fuzz_init(&fed, size);
        fuzz_feed(&fed, data, size, limit, sizes[i]);

        check(fed.events == plain.events && fed.len == plain.len);
        check(ngx_memcmp(fed.data, plain.data, plain.len) == 0);

        free(fed.data);
    }

    free(plain.data);

    if (stop) {
        fuzz_init(&fed, size);
        fed.stop = stop;
        fuzz_feed(&fed, data, size, limit, sizes[1]);
        free(fed.data);
    }

    return 0;
}
