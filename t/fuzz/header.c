
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Any bytes as "Accept" and "Prefer".  Checked: nothing outside of the value is
 * read, qualities and times are in their ranges, and a value that is cut at a
 * comma outside of quotes says the same as its two halves.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_header.h"


#define check(x)  if (!(x)) { __builtin_trap(); }


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char                         *copy;
    size_t                          i;
    ngx_str_t                       value;
    ngx_uint_t                      quotes;
    ngx_http_agentstream_accept_t   accept, parts;
    ngx_http_agentstream_prefer_t   prefer, both;

    /* exactly as long as the value, so that a sanitizer sees what is beyond */

    copy = malloc(size ? size : 1);

    if (size) {
        ngx_memcpy(copy, data, size);
    }

    value.data = copy;
    value.len = size;

    ngx_memzero(&accept, sizeof(accept));
    ngx_memzero(&prefer, sizeof(prefer));

    ngx_http_agentstream_header_accept(&accept, &value);
    ngx_http_agentstream_header_prefer(&prefer, &value);

    check(accept.json <= 1000 && accept.events <= 1000);
    check(!accept.named || accept.events_rank == 3);
    check(prefer.wait <= NGX_HTTP_AGENTSTREAM_WAIT_MAX);
    check(prefer.has_wait || prefer.wait == 0);

    quotes = 0;

    for (i = 0; i < size && !(copy[i] == ',' && !quotes); i++) {
        quotes |= (copy[i] == '"');
    }

    if (i < size) {
        ngx_memzero(&parts, sizeof(parts));
        ngx_memzero(&both, sizeof(both));

        value.len = i;
        ngx_http_agentstream_header_accept(&parts, &value);
        ngx_http_agentstream_header_prefer(&both, &value);

        value.data = copy + i + 1;
        value.len = size - i - 1;
        ngx_http_agentstream_header_accept(&parts, &value);
        ngx_http_agentstream_header_prefer(&both, &value);

        check(ngx_memcmp(&parts, &accept, sizeof(parts)) == 0);
        check(both.wait == prefer.wait && both.has_wait == prefer.has_wait
              && both.respond_async == prefer.respond_async);
    }

    free(copy);

    return 0;
}
