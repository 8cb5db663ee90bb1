
/*
 * Copyright (C) agentstream contributors
 */


/*
 * "Accept" and "Prefer".
 *
 * Broken by: a quality that is not read, a wildcard that outweighs a full type,
 * or counts as much, a comma in a quoted string that ends an element, a
 * parameter that is taken for a preference, a number that overflows.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_header.h"
#include "tap.h"


static void
accept_is(const char *text, ngx_uint_t json, ngx_uint_t events)
{
    ngx_str_t                      value;
    ngx_http_agentstream_accept_t  accept;

    value.len = ngx_strlen(text);
    value.data = tap_copy(text, value.len);

    ngx_memzero(&accept, sizeof(accept));
    ngx_http_agentstream_header_accept(&accept, &value);

    free(value.data);

    if (!tap_ok(accept.json == json && accept.events == events, "Accept: %s",
                text))
    {
        tap_diag("json %lu, events %lu", (unsigned long) accept.json,
                 (unsigned long) accept.events);
    }
}


static void
json_is(const char *text, ngx_uint_t json)
{
    ngx_str_t                      value;
    ngx_http_agentstream_accept_t  accept;

    value.len = ngx_strlen(text);
    value.data = (u_char *) text;

    ngx_memzero(&accept, sizeof(accept));
    ngx_http_agentstream_header_accept(&accept, &value);

    tap_ok(ngx_http_agentstream_header_json(&accept) == json,
           "Accept: %s: %s", text, json ? "JSON" : "events");
}


/* wait -1: there is none */

static void
prefer_is(const char *text, long wait, ngx_uint_t async)
{
    ngx_str_t                      value;
    ngx_http_agentstream_prefer_t  prefer;

    value.len = ngx_strlen(text);
    value.data = tap_copy(text, value.len);

    ngx_memzero(&prefer, sizeof(prefer));
    ngx_http_agentstream_header_prefer(&prefer, &value);

    free(value.data);

    if (!tap_ok((prefer.has_wait ? (long) prefer.wait : -1) == wait
                && prefer.respond_async == async, "Prefer: %s", text))
    {
        tap_diag("wait %lu, async %u", (unsigned long) prefer.wait,
                 prefer.respond_async);
    }
}


static void
test_several(void)
{
    ngx_str_t                      first, second;
    ngx_http_agentstream_accept_t  accept;
    ngx_http_agentstream_prefer_t  prefer;

    ngx_memzero(&prefer, sizeof(prefer));
    first = tap_str("wait=1");
    second = tap_str("wait=2, respond-async");
    ngx_http_agentstream_header_prefer(&prefer, &first);
    ngx_http_agentstream_header_prefer(&prefer, &second);
    tap_ok(prefer.wait == 1 && prefer.respond_async,
           "two headers are one list, and the first of each counts");

    ngx_memzero(&accept, sizeof(accept));
    first = tap_str("application/json");
    second = tap_str("*/*;q=0.1");
    ngx_http_agentstream_header_accept(&accept, &first);
    ngx_http_agentstream_header_accept(&accept, &second);
    tap_ok(accept.json == 1000 && accept.events == 100,
           "two headers are one list");
}


int
main(void)
{
    accept_is("", 0, 0);
    accept_is("*/*", 1000, 1000);
    accept_is("application/json", 1000, 0);
    accept_is("Application/JSON; charset=utf-8", 1000, 0);
    accept_is("text/event-stream", 0, 1000);
    accept_is("application/json, text/event-stream", 1000, 1000);
    accept_is("application/json;q=0.5, text/event-stream;q=0.75", 500, 750);
    accept_is("application/json ; Q=0.5,text/*", 500, 1000);
    accept_is("*/*;q=0.1, application/*;q=0.2, application/json;q=0.3", 300,
              100);
    accept_is("application/json;q=0.3, application/*;q=0.2, */*;q=0.1", 300,
              100);
    accept_is("application/json;q=0", 0, 0);
    accept_is("application/json;q=0.0001", 0, 0);
    accept_is("application/json;q=1.5", 1000, 0);
    accept_is("application/json;q=x, text/html", 1000, 0);
    accept_is("application/json;q", 1000, 0);
    accept_is("application/jsonp, text/event-streams", 0, 0);
    accept_is("text/html;a=\"application/json, */*\"", 0, 0);
    accept_is("application/json;a=\"\\\",\";q=0.4", 400, 0);
    accept_is(",,;;=,application/json,", 1000, 0);
    accept_is("\"", 0, 0);
    accept_is("a=\"\\", 0, 0);

    json_is("", 0);
    json_is("*/*", 0);
    json_is("application/json", 1);
    json_is("application/json;q=0", 0);
    json_is("application/json;q=0, */*;q=0", 0);
    json_is("application/json, */*", 1);
    json_is("application/json, text/plain, */*", 1);
    json_is("application/*, */*", 1);
    json_is("application/json, text/event-stream", 0);
    json_is("application/json, text/*", 1);
    json_is("text/event-stream, */*", 0);
    json_is("application/json;q=0.9, */*", 0);
    json_is("application/json;q=0.9, text/event-stream;q=0.8", 1);

    prefer_is("", -1, 0);
    prefer_is("respond-async", -1, 1);
    prefer_is("Respond-Async, WAIT=10", 10, 1);
    prefer_is("wait=0", 0, 0);
    prefer_is("wait=\"30\"", 30, 0);
    prefer_is("wait = 30", 30, 0);
    prefer_is("wait=5, wait=6", 5, 0);
    prefer_is("wait=x, wait=6", 6, 0);
    prefer_is("wait=", -1, 0);
    prefer_is("wait", -1, 0);
    prefer_is("wait=-1", -1, 0);
    prefer_is("wait=1.5", -1, 0);
    prefer_is("wait=10s", -1, 0);
    prefer_is("wait=99999999999999999999999999999999",
              NGX_HTTP_AGENTSTREAM_WAIT_MAX, 0);
    prefer_is("handling=lenient; wait=5; respond-async", -1, 0);
    prefer_is("foo; bar=\", wait=5, respond-async\"", -1, 0);
    prefer_is("foo; bar=\"a;b\", wait=5", 5, 0);
    prefer_is("\"wait\"=7", 7, 0);
    prefer_is(";;,=,wait=4", 4, 0);

    test_several();

    return tap_done();
}
