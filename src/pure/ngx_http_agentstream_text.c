
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Texts that are written to a log.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_text.h"


ngx_str_t
ngx_http_agentstream_text_escape(u_char *buf, ngx_str_t *src)
{
    u_char     *p, *last, ch;
    size_t      i;
    ngx_str_t   text;

    static const u_char  hex[] = "0123456789ABCDEF";

    p = buf;
    last = buf + NGX_HTTP_AGENTSTREAM_TEXT_SIZE - (sizeof("...") - 1);

    for (i = 0; i < src->len; i++) {
        ch = src->data[i];

        if (last - p < 4) {
            p = ngx_cpymem(p, "...", sizeof("...") - 1);
            break;
        }

        if (ch >= 0x20 && ch < 0x7f && ch != '"' && ch != '\\') {
            *p++ = ch;
            continue;
        }

        *p++ = '\\';
        *p++ = 'x';
        *p++ = hex[ch >> 4];
        *p++ = hex[ch & 0xf];
    }

    text.data = buf;
    text.len = p - buf;

    return text;
}
