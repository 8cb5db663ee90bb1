
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Any stream of events to the translator, with look-ups, gaps, time and an
 * end anywhere.  The first byte chooses the settings; an event whose data does
 * not begin with "{" is an order, see fuzz_order().
 * What is checked: each packet is one line of valid JSON within the size that
 * was asked for, begins with its type, and has a timestamp; what is open,
 * held or waiting is counted right; peek says what parse says; a turn ends
 * with exactly one terminal packet, and that is its last.
 * Half of the mutations move whole events: bytes alone rarely stay an event.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_sse.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_translate.h"


#define TIMESTAMP  "2026-01-22T00:11:51.712Z"

#define check(x)  if (!(x)) { __builtin_trap(); }


extern ngx_log_t  ngx_unit_log;


typedef struct {
    ngx_http_agentstream_translate_t  *tr;
    ngx_http_agentstream_json_t        json;
    ngx_http_agentstream_json_t        packet;
    u_char                            *reserved;
    size_t                             size;
    u_char                            *whole;
    uint64_t                           seq;
    ngx_uint_t                         terminals;
    ngx_uint_t                         ended;
    ngx_int_t                          waiting;
    ngx_msec_t                         now;
} fuzz_t;


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
    unsigned int seed);


static u_char *
fuzz_reserve(void *ctx, size_t size)
{
    fuzz_t *f = ctx;

    free(f->reserved);

    f->size = size;
    f->reserved = malloc(size);

    return f->reserved;
}


static uint64_t
fuzz_commit(void *ctx, ngx_http_agentstream_record_t *record)
{
    fuzz_t *f = ctx;

    u_char                       *p;
    size_t                        len;
    ngx_str_t                     type, timestamp, *name;
    ngx_http_agentstream_json_t  *json;

    json = &f->packet;

    check(f->reserved && record->json.data == f->reserved);
    check(record->json.len + record->text.len
          + ngx_http_agentstream_record_extra(record) <= f->size);
    check(record->nholes == 0
          || record->text.data == f->reserved + record->json.len);
    check(f->terminals == 0);

    /* without the text that it shares, as translate_restore() reads it */

    check(ngx_http_agentstream_json_parse(json, record->json.data,
                                          record->json.len)
          == NGX_OK);

    len = ngx_http_agentstream_record_len(record);

    free(f->whole);
    f->whole = malloc(len);

    p = ngx_http_agentstream_record_json(f->whole, record);

    check(p == f->whole + len);
    check(ngx_http_agentstream_json_parse(json, f->whole, len) == NGX_OK);
    check(memchr(f->whole, LF, len) == NULL);
    check(memchr(f->whole, CR, len) == NULL);
    check(ngx_strncmp(f->whole, "{\"type\":\"", 9) == 0);

    type = ngx_http_agentstream_json_string(json,
                    ngx_http_agentstream_json_get(json, json->root, "type"));
    timestamp = ngx_http_agentstream_json_string(json,
                    ngx_http_agentstream_json_get(json, json->root,
                                                  "timestamp"));
    name = &ngx_http_agentstream_record_names[record->type];

    check(type.len == name->len
          && ngx_memcmp(type.data, name->data, name->len) == 0);
    check(timestamp.len == sizeof(TIMESTAMP) - 1);

    if (ngx_http_agentstream_record_terminal(record->type)) {
        f->terminals++;
    }

    free(f->reserved);
    f->reserved = NULL;

    return ++f->seq;
}


static ngx_int_t
fuzz_child(void *ctx, ngx_str_t *session)
{
    check(ngx_http_agentstream_opencode_session_id(session));

    return NGX_OK;
}


static void
fuzz_resolve(void *ctx, ngx_str_t *session, ngx_str_t *message)
{
    check(ngx_http_agentstream_opencode_id(message));
}


static void
fuzz_waiting(void *ctx, ngx_str_t *id, ngx_uint_t permission,
    ngx_uint_t waits)
{
    fuzz_t *f = ctx;

    f->waiting += waits ? 1 : -1;

    check(f->waiting >= 0);
}


static ngx_http_agentstream_translate_sink_t  fuzz_sink = {
    fuzz_reserve,
    fuzz_commit,
    fuzz_child,
    fuzz_resolve,
    fuzz_waiting
};


static void
fuzz_order(fuzz_t *f, ngx_str_t *data)
{
    ngx_int_t                              rc;
    ngx_str_t                              session, rest;
    ngx_uint_t                             v;
    ngx_msec_t                             next;
    ngx_http_agentstream_translate_list_t  list;

    ngx_str_set(&session, "ses_r");

    rest.data = data->data + 1;
    rest.len = data->len - 1;

    rc = NGX_OK;

    switch (data->data[0]) {

    case 'C':
        ngx_str_set(&session, "ses_c");

        /* fall through */

    case 'R':
        if (ngx_http_agentstream_json_parse(&f->json, rest.data, rest.len)
            == NGX_OK)
        {
            memset(&list, 0, sizeof(list));

            for (v = ngx_http_agentstream_json_first(&f->json,
                                                        f->json.root);
                 v && rc == NGX_OK;
                 v = ngx_http_agentstream_json_next(&f->json, f->json.root, v))
            {
                rc = ngx_http_agentstream_translate_listed(f->tr, &session,
                                                           &f->json, v, &list);
            }
        }

        break;

    case 'M':
        if (ngx_http_agentstream_json_parse(&f->json, rest.data, rest.len)
            == NGX_OK)
        {
            rc = ngx_http_agentstream_translate_message(f->tr, &session,
                                                        &f->json,
                                                        f->json.root);
        }

        break;

    case 'G':
        ngx_http_agentstream_translate_gap(f->tr);
        break;

    case 'T':
        f->now += rest.len ? rest.data[0] * 10 : 100;
        ngx_http_agentstream_translate_time(f->tr, (u_char *) TIMESTAMP,
                                            f->now);
        rc = ngx_http_agentstream_translate_flush(f->tr, &next);
        check(next != 0);
        break;

    case 'H':
        rc = ngx_http_agentstream_translate_heartbeat(f->tr, 1, 2);
        break;

    case 'E':
        rc = ngx_http_agentstream_translate_finish(f->tr, rest.len);
        break;

    case 'X':
        rc = ngx_http_agentstream_translate_fail(f->tr, 504, "x", NULL);
        break;
    }

    check(rc == NGX_OK);
}


static ngx_uint_t
fuzz_twice(ngx_str_t *data)
{
    u_char  *p;

    p = memmem(data->data, data->len, "type", 4);

    return p && memmem(p + 4, data->data + data->len - p - 4, "t", 1) != NULL;
}


static ngx_int_t
fuzz_event(void *ctx, ngx_str_t *data)
{
    fuzz_t *f = ctx;

    ngx_int_t                                rc;
    ngx_http_agentstream_event_t             peek, ev;
    ngx_http_agentstream_translate_state_t  *state;

    if (data->data == NULL || data->len == 0) {
        return NGX_OK;
    }

    if (data->data[0] != '{') {
        fuzz_order(f, data);

    } else {
        rc = ngx_http_agentstream_opencode_peek(data, &peek);

        if (ngx_http_agentstream_opencode_parse(data, &f->json, &ev)
            == NGX_OK)
        {
            /* they may differ where a name stands twice */

            if (rc == NGX_OK && peek.type != ev.type) {
                check(fuzz_twice(data));
            }

            if (rc == NGX_OK && peek.type == ev.type) {
                check(ngx_http_agentstream_opencode_read(data, &f->json, &peek)
                      == NGX_OK);
            }

            if (rc == NGX_OK && peek.json == NULL && peek.part.len) {
                check(peek.part.len == ev.part.len
                      && peek.text.len == ev.text.len);
                ev = peek;
            }

            rc = ngx_http_agentstream_translate_event(f->tr, &ev);
            check(rc == NGX_OK || rc == NGX_AGAIN);
        }
    }

    state = ngx_http_agentstream_translate_state(f->tr);

    check(state->nopen < 100000 && state->nheld < 100000);

    return NGX_OK;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_t                                  f;
    u_char                                 *copy;
    ngx_str_t                               session, turn;
    ngx_pool_t                             *pool;
    ngx_http_agentstream_sse_t              sse;
    ngx_http_agentstream_translate_conf_t   conf;

    if (size < 1) {
        return 0;
    }

    ngx_memzero(&f, sizeof(fuzz_t));
    ngx_memzero(&sse, sizeof(ngx_http_agentstream_sse_t));
    ngx_memzero(&conf, sizeof(ngx_http_agentstream_translate_conf_t));

    conf.core = data[0] & 1;
    conf.acp_kinds = (data[0] >> 1) & 1;
    conf.history = (data[0] >> 2) & 1;
    conf.tool_throttle = (data[0] & 8) ? 200 : 0;

    ngx_str_set(&session, "ses_r");
    ngx_str_set(&turn, "msg_u");

    pool = ngx_create_pool(1024, &ngx_unit_log);

    f.tr = ngx_http_agentstream_translate_create(pool, &conf, &fuzz_sink, &f,
                                                 &session, &turn);

    ngx_http_agentstream_translate_time(f.tr, (u_char *) TIMESTAMP, 0);
    check(ngx_http_agentstream_translate_start(f.tr) == NGX_OK);

    sse.limit = 1 << 20;
    sse.handler = fuzz_event;
    sse.ctx = &f;

    /* the events' bytes are gone when the next ones come */

    copy = malloc(size);
    ngx_memcpy(copy, data + 1, size - 1);

    check(ngx_http_agentstream_sse_feed(&sse, copy, size - 1) == NGX_OK);

    free(copy);

    check(ngx_http_agentstream_translate_finish(f.tr, 0) == NGX_OK);
    check(f.terminals == 1);

    ngx_http_agentstream_sse_reset(&sse);
    ngx_http_agentstream_translate_destroy(f.tr);
    ngx_http_agentstream_json_destroy(&f.json);
    ngx_http_agentstream_json_destroy(&f.packet);
    ngx_destroy_pool(pool);
    free(f.reserved);
    free(f.whole);

    return 0;
}


/* an event of the stream, from its "data: " to the blank line behind it */

static ngx_str_t
fuzz_pick(uint8_t *data, size_t size, unsigned int n)
{
    u_char     *p, *end, *last;
    ngx_str_t   event;

    last = data + size;

    p = data + 1 + n % (size - 1);
    p = memmem(p, last - p, "\n\ndata: ", 8);

    if (p == NULL) {
        p = data - 1;
    }

    event.data = p + 2;

    end = memmem(event.data, last - event.data, "\n\n", 2);
    event.len = (end ? end + 2 : last) - event.data;

    return event;
}


size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
    unsigned int seed)
{
    u_char     *copy;
    size_t      len;
    ngx_str_t   a, b;

    if (seed % 2 || size < 16) {
        return LLVMFuzzerMutate(data, size, max);
    }

    seed /= 2;

    a = fuzz_pick(data, size, seed / 4 % 65537);
    b = fuzz_pick(data, size, seed / 4 / 65537 * 31 + seed);

    switch (seed % 4) {

    case 0: /* lost */
        ngx_memmove(a.data, a.data + a.len,
                    data + size - a.data - a.len);
        return size - a.len;

    case 1: /* bytes within one */
        len = a.len;
        copy = malloc(len + 256);
        ngx_memcpy(copy, a.data, len);
        len = LLVMFuzzerMutate(copy, len, len + 256);

        if (size - a.len + len <= max) {
            ngx_memmove(a.data + len, a.data + a.len,
                        data + size - a.data - a.len);
            ngx_memcpy(a.data, copy, len);
            size = size - a.len + len;
        }

        free(copy);
        return size;

    default: /* said again, here or elsewhere */
        if (size + a.len > max) {
            return size;
        }

        copy = malloc(a.len);
        ngx_memcpy(copy, a.data, a.len);
        ngx_memmove(b.data + a.len, b.data, data + size - b.data);
        ngx_memcpy(b.data, copy, a.len);
        free(copy);

        return size + a.len;
    }
}
