
/*
 * Copyright (C) agentstream contributors
 */


/*
 * json_string.c as it is compiled without SSE2, compared with the version that
 * all other tests use: both must scan and escape in the same way.  Broken by:
 * a portable search for special bytes that misses one, or marks a wrong one,
 * at any position in a word or beside any other byte.
 */


#undef __SSE2__

#define ngx_http_agentstream_json_scan_string  portable_scan_string
#define ngx_http_agentstream_json_decodes_to   portable_decodes_to
#define ngx_http_agentstream_json_decode       portable_decode
#define ngx_http_agentstream_json_escape       portable_escape
#define ngx_http_agentstream_json_copy         portable_copy
#define ngx_http_agentstream_json_half_pair    portable_half_pair
#define ngx_http_agentstream_json_hash_init    portable_hash_init
#define ngx_http_agentstream_json_hash         portable_hash
#define ngx_http_agentstream_json_hash_prefix  portable_hash_prefix

#include "../../src/pure/ngx_http_agentstream_json_string.c"

#undef ngx_http_agentstream_json_scan_string
#undef ngx_http_agentstream_json_escape

#include "tap.h"


u_char *ngx_http_agentstream_json_scan_string(u_char *p, u_char *last,
    ngx_http_agentstream_json_token_t *token);
u_char *ngx_http_agentstream_json_escape(u_char *dst, u_char *src, size_t len);


static ngx_uint_t
differ(u_char *text, size_t len)
{
    u_char                             *end, *copy, a[512], b[512];
    ngx_uint_t                          n;
    ngx_http_agentstream_json_token_t   one, two;

    copy = tap_copy(text, len);

    ngx_memzero(&one, sizeof(ngx_http_agentstream_json_token_t));
    ngx_memzero(&two, sizeof(ngx_http_agentstream_json_token_t));

    end = portable_scan_string(copy, copy + len, &one);

    n = (end != ngx_http_agentstream_json_scan_string(copy, copy + len, &two))
        || one.type != two.type;

    end = portable_escape(a, copy, len);

    n += (end - a != ngx_http_agentstream_json_escape(b, copy, len) - b)
         || ngx_memcmp(a, b, end - a) != 0;

    free(copy);

    return n;
}


int
main(void)
{
    u_char      text[64];
    size_t      len;
    ngx_uint_t  i, j, a, b, bad;

    static u_char  special[] = { 0x00, 0x01, 0x1f, 0x20, 0x21, 0x22, 0x23,
                                 0x5b, 0x5c, 0x5d, 0x7f, 0x80, 0xa2, 0xff };

    bad = 0;

    for (len = 2; len <= 40; len++) {
        for (i = 1; i < len; i++) {
            for (a = 0; a < 256; a++) {
                ngx_memset(text, 'x', len);
                text[0] = '"';
                text[len - 1] = '"';
                text[i] = (u_char) a;

                bad += differ(text, len);
            }
        }
    }

    tap_is(bad, 0, "each byte at each place");

    bad = 0;

    for (i = 1; i < 20; i++) {
        for (j = 1; j < 20; j++) {
            for (a = 0; a < sizeof(special); a++) {
                for (b = 0; b < sizeof(special); b++) {
                    ngx_memset(text, 'n', 24);
                    text[0] = '"';
                    text[23] = '"';
                    text[i] = special[a];
                    text[j] = special[b];

                    bad += differ(text, 24);
                }
            }
        }
    }

    tap_is(bad, 0, "two special bytes at each two places");

    return tap_done();
}
