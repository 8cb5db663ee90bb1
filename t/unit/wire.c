
/*
 * Copyright (C) agentstream contributors
 */


/*
 * record.c and wire.c: records as they lie in memory, and as clients get them,
 * byte by byte, in buffers of exactly the size that was asked for.
 * Breaks when: a type has another's name, a hole is filled at another place or
 * with the text twice, a record is not found where the one before it ends, what
 * is packed comes out differently, a size is too small, an id is written
 * without a number or is missing with one, an array has a comma too many or no
 * brackets when it is empty, an error alone is made an array, or a record has a
 * longer header or is aligned to more than 4 bytes.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_wire.h"
#include "tap.h"


static ngx_http_agentstream_wire_state_t  state;


static ngx_http_agentstream_record_t
make(uint64_t seq, const char *json, const char *text)
{
    size_t                          len;
    const char                     *p;
    ngx_http_agentstream_record_t   record;

    memset(&record, 0, sizeof(record));

    record.seq = seq;
    record.type = NGX_HTTP_AGENTSTREAM_RECORD_TOOL_PROGRESS;
    record.part = 7;
    record.origin = tap_str("ses msg prt call");

    /* "@" is a hole; json and text are one behind the other */

    record.json.data = malloc(strlen(json) + strlen(text));

    for (len = 0, p = json; *p; p++) {

        if (*p == '@') {
            record.holes[record.nholes++] = len;

        } else {
            record.json.data[len++] = *p;
        }
    }

    record.json.len = len;
    record.text.data = record.json.data + len;
    record.text.len = strlen(text);
    memcpy(record.text.data, text, record.text.len);

    return record;
}


static void
test_names(void)
{
    ngx_uint_t  i, j, same;

    same = 0;

    for (i = 1; i < NGX_HTTP_AGENTSTREAM_RECORD_TYPES; i++) {
        for (j = 1; j < i; j++) {
            same += strcmp((char *) ngx_http_agentstream_record_names[i].data,
                           (char *) ngx_http_agentstream_record_names[j].data)
                    == 0;
        }
    }

    tap_is(same, 0, "each type has a name of its own");

    tap_is_str(ngx_http_agentstream_record_names[
                   NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE],
               "agent_message_chunk", "the first one");
    tap_is_str(ngx_http_agentstream_record_names[
                   NGX_HTTP_AGENTSTREAM_RECORD_CONTEXT_USAGE],
               "context_usage", "one in the middle");
    tap_is_str(ngx_http_agentstream_record_names[
                   NGX_HTTP_AGENTSTREAM_RECORD_TYPES - 1],
               "error", "the last one");

    tap_ok(ngx_http_agentstream_record_terminal(
               NGX_HTTP_AGENTSTREAM_RECORD_RESPONSE)
           && ngx_http_agentstream_record_terminal(
               NGX_HTTP_AGENTSTREAM_RECORD_ERROR)
           && !ngx_http_agentstream_record_terminal(
               NGX_HTTP_AGENTSTREAM_RECORD_HEARTBEAT),
           "two of them end a turn");
}


/* the record in front of another one, packed and read again */

static void
packed(const char *json, const char *text, const char *whole)
{
    size_t                           len, size;
    u_char                          *buf, *p;
    ngx_str_t                        got;
    ngx_http_agentstream_packed_t   *header;
    ngx_http_agentstream_record_t    record, copy;
    ngx_http_agentstream_records_t   records;

    record = make(3, json, text);

    len = record.json.len + record.text.len;
    size = ngx_http_agentstream_packed_size(len
                                 + ngx_http_agentstream_record_extra(&record));
    buf = malloc(2 * size);
    p = buf;

    while (p != buf + 2 * size) {
        header = (ngx_http_agentstream_packed_t *) p;
        p = (u_char *) (header + 1);

        memcpy(p, record.json.data, len);
        ngx_http_agentstream_record_pack(header, &record, p + len);

        p = (u_char *) header + size;
    }

    free(record.json.data);

    records.pos = buf;
    records.last = buf + 2 * size;
    records.seq = 9;

    memset(&copy, 0xff, sizeof(copy));

    tap_ok(ngx_http_agentstream_record_next(&records, &copy) == NGX_OK
           && copy.seq == 9 && copy.type == record.type && copy.part == 7
           && copy.nholes == record.nholes,
           "a record comes out as it was put in");
    tap_is_str(copy.origin, "ses msg prt call", "its origin");

    tap_ok(ngx_http_agentstream_record_next(&records, &copy) == NGX_OK
           && copy.seq == 10, "the next one has the next number");

    len = ngx_http_agentstream_record_len(&copy);

    got.data = malloc(len);
    got.len = ngx_http_agentstream_record_json(got.data, &copy) - got.data;

    tap_is_str(got, whole, "its whole JSON");
    tap_is(got.len, len, "is as long as it is said to be");

    tap_ok(ngx_http_agentstream_record_next(&records, &copy) == NGX_DONE,
           "there is no third one");

    free(got.data);
    free(buf);
}


static void
test_packed(void)
{
    tap_is(sizeof(ngx_http_agentstream_packed_t), 12,
           "what a record takes beside its bytes");

    packed("{\"a\":1}", "", "{\"a\":1}");
    packed("{\"a\":\"@\",\"b\":\"@\"}", "xyz", "{\"a\":\"xyz\",\"b\":\"xyz\"}");
    packed("{\"a\":\"@\",\"b\":{\"c\":\"@\",\"d\":2},\"e\":[\"@\"]}", "\\n",
           "{\"a\":\"\\n\",\"b\":{\"c\":\"\\n\",\"d\":2},\"e\":[\"\\n\"]}");
}


/* most records are chunks: one takes at least 16 % less than its event, however
   it has to be aligned */

static void
test_small(void)
{
    size_t                          size, kept;
    u_char                          buf[512];
    ngx_uint_t                      n;
    ngx_http_agentstream_wire_t    *wire;
    ngx_http_agentstream_record_t   record;

    static const char  chunk[] =
        "{\"type\":\"agent_message_chunk\","
        "\"timestamp\":\"2026-01-22T00:11:51.712Z\","
        "\"sessionUpdate\":\"agent_message_chunk\","
        "\"messageId\":\"msg_1e28df805001ST5r7c95iekPJ5\","
        "\"content\":{\"type\":\"text\",\"text\":\"Linen \","
        "\"annotations\":null},\"_meta\":null}";

    wire = &ngx_http_agentstream_wire_events;

    memset(&state, 0, sizeof(state));
    state.turn = tap_str("msg_1e28df805001ST5r7c95iekPJ5");

    record = make(100, chunk, "");
    ngx_str_null(&record.origin);

    for (n = 0; n < 4; n++) {
        size = wire->record(&state, buf, &record) - buf;
        kept = ngx_http_agentstream_packed_size(record.json.len);

        tap_ok(kept * 100 <= size * 84,
               "a chunk takes %lu bytes, its event %lu",
               (unsigned long) kept, (unsigned long) size);

        record.json.len--;
    }

    free(record.json.data);
}


static void
sliced(const char *json, size_t from, size_t to, const char *expected)
{
    u_char                         buf[128];
    ngx_str_t                      got, slice;
    ngx_http_agentstream_record_t  record;

    record = make(1, json, "xyz");

    slice.data = record.json.data + from;
    slice.len = to - from;

    got.data = buf;
    got.len = ngx_http_agentstream_record_slice(buf, &record, &slice) - buf;

    tap_is_str(got, expected, "a slice of a record");

    free(record.json.data);
}


static void
test_sliced(void)
{
    /* without its holes: {"a":"","b":""} */

    sliced("{\"a\":\"@\",\"b\":\"@\"}", 5, 7, "\"xyz\"");
    sliced("{\"a\":\"@\",\"b\":\"@\"}", 12, 14, "\"xyz\"");
    sliced("{\"a\":\"@\",\"b\":\"@\"}", 1, 4, "\"a\"");
    sliced("{\"a\":\"@\",\"b\":\"@\"}", 7, 11, ",\"b\"");
    sliced("{\"a\":\"@\",\"b\":\"@\"}", 0, 15,
           "{\"a\":\"xyz\",\"b\":\"xyz\"}");
}


static void
spelt(ngx_http_agentstream_wire_t *wire, uint64_t seq, const char *json,
    const char *text, ngx_uint_t exact, const char *expected)
{
    size_t                         size;
    ngx_str_t                      got;
    ngx_http_agentstream_record_t  record;

    record = make(seq, json, text);

    size = wire->size(&state, &record);
    got.data = malloc(size);
    got.len = wire->record(&state, got.data, &record) - got.data;

    tap_ok(exact ? got.len == size : got.len <= size, "the size of a record");
    tap_is_str(got, expected, "a record");

    free(got.data);
    free(record.json.data);
}


static void
test_events(void)
{
    u_char                         *p, buf[128];
    ngx_str_t                       got;
    ngx_http_agentstream_wire_t    *wire;
    ngx_http_agentstream_record_t   record;

    wire = &ngx_http_agentstream_wire_events;

    memset(&state, 0, sizeof(state));
    state.turn = tap_str("turn1");

    spelt(wire, 42, "{}", "", 0,
          "event: message\nid: turn1:42\ndata: {}\n\n");
    spelt(wire, 1, "{\"a\":\"@\",\"b\":\"@\"}", "x", 0,
          "event: message\nid: turn1:1\ndata: {\"a\":\"x\",\"b\":\"x\"}\n\n");
    spelt(wire, 0, "{}", "", 0, "event: message\ndata: {}\n\n");
    spelt(wire, (uint64_t) -1, "{}", "", 1,
          "event: message\nid: turn1:18446744073709551615\ndata: {}\n\n");

    got.data = buf;
    record = make(5, "{}", "");

    got.len = wire->error(buf, &record) - buf;
    tap_is_str(got, "event: message\ndata: {}\n\n", "an error has no id");

    free(record.json.data);

    p = wire->retry(buf, 1234);
    got.len = p - buf;
    tap_is_str(got, "retry: 1234\n\n", "when to come back");
    tap_ok(wire->retry(buf, (ngx_uint_t) -1)
           <= buf + NGX_HTTP_AGENTSTREAM_WIRE_RETRY, "it has room");

    tap_is(wire->end(&state, buf) - buf, 0, "nothing is at the end");
    tap_is_str(wire->comment, ": keepalive\n\n", "a comment");
    tap_is_str(wire->content_type, "text/event-stream", "an event stream");
}


static void
test_plain(void)
{
    ngx_http_agentstream_wire_t  *wire;

    wire = &ngx_http_agentstream_wire_plain;

    memset(&state, 0, sizeof(state));
    state.turn = tap_str("turn1");

    spelt(wire, 42, "{\"a\":\"@\"}", "xy", 1,
          "event: message\ndata: {\"a\":\"xy\"}\n\n");
    tap_is_str(wire->content_type, "text/event-stream", "an event stream");
}


static void
test_array(void)
{
    u_char                          buf[128];
    ngx_str_t                       got;
    ngx_http_agentstream_wire_t    *wire;
    ngx_http_agentstream_record_t   record;

    wire = &ngx_http_agentstream_wire_array;

    memset(&state, 0, sizeof(state));

    got.data = buf;
    got.len = wire->end(&state, buf) - buf;
    tap_is_str(got, "[]", "an array of nothing");
    tap_is(got.len, wire->end_size, "it has room");

    spelt(wire, 1, "{\"a\":\"@\"}", "xy", 1, "[{\"a\":\"xy\"}");
    spelt(wire, 2, "{}", "", 1, ",{}");

    got.len = wire->end(&state, buf) - buf;
    tap_is_str(got, "]", "the end");

    record = make(0, "{\"a\":\"@\"}", "xy");

    got.len = wire->error(buf, &record) - buf;
    tap_is_str(got, "{\"a\":\"xy\"}", "an error by itself is no array");

    free(record.json.data);

    tap_is(wire->retry(buf, 1000) - buf, 0, "nobody is told to come back");
    tap_is(wire->comment.len, 0, "there are no comments");
    tap_is_str(wire->content_type, "application/json", "JSON");
}


int
main(void)
{
    test_names();
    test_packed();
    test_small();
    test_sliced();
    test_events();
    test_plain();
    test_array();

    return tap_done();
}
