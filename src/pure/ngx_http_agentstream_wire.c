
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The wires: event streams with and without ids, and a JSON array.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_wire.h"


#define NGX_HTTP_AGENTSTREAM_WIRE_EVENT  "event: message\n"
#define NGX_HTTP_AGENTSTREAM_WIRE_ID     "id: "
#define NGX_HTTP_AGENTSTREAM_WIRE_DATA   "data: "


#define ngx_http_agentstream_wire_cpy(p, text)                                \
    ngx_cpymem(p, text, sizeof(text) - 1)


static size_t ngx_http_agentstream_wire_events_size(
    ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_wire_events_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record);
static size_t ngx_http_agentstream_wire_plain_size(
    ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_wire_plain_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_wire_plain_error(u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_wire_events_retry(u_char *p,
    ngx_uint_t msec);
static u_char *ngx_http_agentstream_wire_events_end(
    ngx_http_agentstream_wire_state_t *state, u_char *p);
static u_char *ngx_http_agentstream_wire_data(u_char *p,
    ngx_http_agentstream_record_t *record);
static size_t ngx_http_agentstream_wire_array_size(
    ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_wire_array_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record);
static u_char *ngx_http_agentstream_wire_array_retry(u_char *p,
    ngx_uint_t msec);
static u_char *ngx_http_agentstream_wire_array_end(
    ngx_http_agentstream_wire_state_t *state, u_char *p);


ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_events = {
    ngx_string("text/event-stream"),
    ngx_null_string,
    ngx_null_string,
    1,
    ngx_string(": keepalive\n\n"),
    sizeof(ngx_http_agentstream_wire_state_t),
    0,
    ngx_http_agentstream_wire_events_size,
    ngx_http_agentstream_wire_events_record,
    ngx_http_agentstream_wire_plain_error,
    ngx_http_agentstream_wire_events_retry,
    ngx_http_agentstream_wire_events_end
};


ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_plain = {
    ngx_string("text/event-stream"),
    ngx_null_string,
    ngx_null_string,
    1,
    ngx_string(": keepalive\n\n"),
    sizeof(ngx_http_agentstream_wire_state_t),
    0,
    ngx_http_agentstream_wire_plain_size,
    ngx_http_agentstream_wire_plain_record,
    ngx_http_agentstream_wire_plain_error,
    ngx_http_agentstream_wire_events_retry,
    ngx_http_agentstream_wire_events_end
};


/* white space could serve as a comment, but not before "[" was sent */

ngx_http_agentstream_wire_t  ngx_http_agentstream_wire_array = {
    ngx_string("application/json"),
    ngx_null_string,
    ngx_null_string,
    0,
    ngx_null_string,
    sizeof(ngx_http_agentstream_wire_state_t),
    sizeof("[]") - 1,
    ngx_http_agentstream_wire_array_size,
    ngx_http_agentstream_wire_array_record,
    ngx_http_agentstream_record_json,
    ngx_http_agentstream_wire_array_retry,
    ngx_http_agentstream_wire_array_end
};


static size_t
ngx_http_agentstream_wire_events_size(ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record)
{
    return sizeof(NGX_HTTP_AGENTSTREAM_WIRE_ID ":\n") - 1
           + state->turn.len + NGX_INT64_LEN
           + ngx_http_agentstream_wire_plain_size(state, record);
}


static u_char *
ngx_http_agentstream_wire_events_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record)
{
    u_char    digits[NGX_INT64_LEN], *d;
    uint64_t  seq;

    p = ngx_http_agentstream_wire_cpy(p, NGX_HTTP_AGENTSTREAM_WIRE_EVENT);

    seq = record->seq;

    if (seq) {
        p = ngx_http_agentstream_wire_cpy(p, NGX_HTTP_AGENTSTREAM_WIRE_ID);
        p = ngx_cpymem(p, state->turn.data, state->turn.len);
        *p++ = ':';

        d = digits + NGX_INT64_LEN;

        do {
            *--d = (u_char) ('0' + seq % 10);
            seq /= 10;
        } while (seq);

        p = ngx_cpymem(p, d, digits + NGX_INT64_LEN - d);
        *p++ = LF;
    }

    return ngx_http_agentstream_wire_data(p, record);
}


static size_t
ngx_http_agentstream_wire_plain_size(ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record)
{
    return sizeof(NGX_HTTP_AGENTSTREAM_WIRE_EVENT
                  NGX_HTTP_AGENTSTREAM_WIRE_DATA "\n\n") - 1
           + ngx_http_agentstream_record_len(record);
}


static u_char *
ngx_http_agentstream_wire_plain_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record)
{
    return ngx_http_agentstream_wire_plain_error(p, record);
}


static u_char *
ngx_http_agentstream_wire_plain_error(u_char *p,
    ngx_http_agentstream_record_t *record)
{
    p = ngx_http_agentstream_wire_cpy(p, NGX_HTTP_AGENTSTREAM_WIRE_EVENT);

    return ngx_http_agentstream_wire_data(p, record);
}


static u_char *
ngx_http_agentstream_wire_events_retry(u_char *p, ngx_uint_t msec)
{
    return ngx_sprintf(p, "retry: %ui\n\n", msec);
}


/* an event stream may be empty, and ends with the response */

static u_char *
ngx_http_agentstream_wire_events_end(ngx_http_agentstream_wire_state_t *state,
    u_char *p)
{
    return p;
}


static u_char *
ngx_http_agentstream_wire_data(u_char *p,
    ngx_http_agentstream_record_t *record)
{
    p = ngx_http_agentstream_wire_cpy(p, NGX_HTTP_AGENTSTREAM_WIRE_DATA);
    p = ngx_http_agentstream_record_json(p, record);

    *p++ = LF;
    *p++ = LF;

    return p;
}


static size_t
ngx_http_agentstream_wire_array_size(ngx_http_agentstream_wire_state_t *state,
    ngx_http_agentstream_record_t *record)
{
    return 1 + ngx_http_agentstream_record_len(record);
}


static u_char *
ngx_http_agentstream_wire_array_record(
    ngx_http_agentstream_wire_state_t *state, u_char *p,
    ngx_http_agentstream_record_t *record)
{
    *p++ = state->begun ? ',' : '[';
    state->begun = 1;

    return ngx_http_agentstream_record_json(p, record);
}


static u_char *
ngx_http_agentstream_wire_array_retry(u_char *p, ngx_uint_t msec)
{
    return p;
}


static u_char *
ngx_http_agentstream_wire_array_end(ngx_http_agentstream_wire_state_t *state,
    u_char *p)
{
    if (!state->begun) {
        *p++ = '[';
    }

    *p++ = ']';

    return p;
}
