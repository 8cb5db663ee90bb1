
/*
 * Copyright (C) agentstream contributors
 */


/*
 * A stored message as clients may see it.  Broken by: an error that is passed
 * on with the provider's answer, in "info" or in a part; an order of "info" and
 * "parts" that is taken for granted; anything else that is changed.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "rules.h"


static void
bare_is(const char *message, const char *expected, const char *name)
{
    u_char                          *text;
    size_t                           len;
    ngx_http_agentstream_json_t      json;
    ngx_http_agentstream_acp_buf_t   b;

    ngx_memzero(&json, sizeof(json));
    ngx_memzero(&b, sizeof(b));

    len = ngx_strlen(message);
    text = tap_copy(message, len);

    tap_ok(ngx_http_agentstream_json_parse(&json, text, len) == NGX_OK
           && ngx_http_agentstream_translate_bare(f.tr, &json, &b) == NGX_OK
           && b.len == ngx_strlen(expected)
           && ngx_memcmp(b.start, expected, b.len) == 0, "%s", name);

    ngx_http_agentstream_json_destroy(&json);
    ngx_http_agentstream_acp_destroy(&b);
    free(text);
}


#define ERROR  "{\"name\":\"APIError\",\"data\":{\"message\":\"No\","          \
               "\"responseHeaders\":{\"k\":\"secret\"},"                      \
               "\"responseBody\":\"secret\",\"isRetryable\":true}}"

#define BARE   "{\"name\":\"APIError\",\"data\":{\"name\":\"APIError\","      \
               "\"message\":\"No\",\"isRetryable\":true}}"


int
main(void)
{
    begin();

    bare_is("{\"info\":{\"id\":\"m\"},\"parts\":[{\"error\":1.0e1}]}",
            "{\"info\":{\"id\":\"m\"},\"parts\":[{\"error\":{\"name\":\"\","
            "\"data\":{\"name\":\"UnknownError\"}}}]}",
            "an error of another form");
    bare_is("{\"info\":{\"id\":\"m\", \"n\":1.50},\"parts\":[]}",
            "{\"info\":{\"id\":\"m\", \"n\":1.50},\"parts\":[]}",
            "no error: the same bytes");
    bare_is("{\"info\":{\"error\":" ERROR ",\"id\":\"m\"},\"parts\":["
            "{\"type\":\"text\"},{\"type\":\"retry\",\"error\":" ERROR "}]}",
            "{\"info\":{\"error\":" BARE ",\"id\":\"m\"},\"parts\":["
            "{\"type\":\"text\"},{\"type\":\"retry\",\"error\":" BARE "}]}",
            "errors of the message and of a part");
    bare_is("{\"parts\":[{\"error\":" ERROR "}],\"info\":{\"error\":" ERROR
            "}}",
            "{\"parts\":[{\"error\":" BARE "}],\"info\":{\"error\":" BARE
            "}}",
            "the parts stand first");
    bare_is("{\"info\":{\"error\":" ERROR "},\"parts\":3}",
            "{\"info\":{\"error\":" BARE "},\"parts\":3}", "no parts");
    bare_is("{\"other\":1}", "{\"other\":1}", "neither");

    tap_is(state()->nopen, 1, "the translator does not notice any of this");

    finish("end end_turn", "the end");

    return tap_done();
}
