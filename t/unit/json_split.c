
/*
 * Copyright (C) agentstream contributors
 */


/*
 * An array cut into its elements: however the input is cut, the elements are
 * the same; an input that is not an array, or too large, is refused.
 *
 * Broken by: a quote, bracket or escape that is handled in the wrong state, or
 * a state that is lost at the end of a piece.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_json.h"
#include "tap.h"


typedef struct {
    u_char                              text[4096];
    size_t                              len;
    ngx_uint_t                          n;
    ngx_uint_t                          stop;
} seen_t;


static ngx_int_t
element(void *ctx, u_char *text, size_t len)
{
    seen_t *seen = ctx;

    seen->n++;

    if (seen->stop && seen->n == seen->stop) {
        return NGX_ABORT;
    }

    while (len && (text[len - 1] == ' ' || text[len - 1] == '\n')) {
        len--;
    }

    ngx_memcpy(seen->text + seen->len, text, len);
    seen->len += len;
    seen->text[seen->len++] = '|';

    return NGX_OK;
}


/* the pieces are copies of their own, so that a byte too far is seen */

static ngx_int_t
feed(ngx_http_agentstream_json_split_t *split, const char *text, size_t from,
    size_t to)
{
    u_char     *p;
    ngx_int_t   rc;

    p = tap_copy(text + from, to - from);
    rc = ngx_http_agentstream_json_split_feed(split, p, to - from);
    free(p);

    return rc;
}


static ngx_int_t
run(seen_t *seen, const char *text, size_t a, size_t b, size_t limit)
{
    size_t                             len;
    ngx_int_t                          rc;
    ngx_http_agentstream_json_split_t  split;

    ngx_memzero(&split, sizeof(split));
    seen->len = 0;
    seen->n = 0;

    split.limit = limit;
    split.handler = element;
    split.ctx = seen;

    len = ngx_strlen(text);

    rc = feed(&split, text, 0, a);

    if (rc == NGX_OK) {
        rc = feed(&split, text, a, b);
    }

    if (rc == NGX_OK) {
        rc = feed(&split, text, b, len);
    }

    if (rc == NGX_OK && !ngx_http_agentstream_json_split_complete(&split)) {
        rc = NGX_AGAIN;
    }

    ngx_http_agentstream_json_split_destroy(&split);

    return rc;
}


static void
all_cuts(const char *text, const char *expected, ngx_int_t result)
{
    size_t      a, b, len;
    seen_t      seen;
    ngx_uint_t  bad;

    ngx_memzero(&seen, sizeof(seen));

    bad = 0;
    len = ngx_strlen(text);

    for (a = 0; a <= len; a++) {
        for (b = a; b <= len; b++) {
            if (run(&seen, text, a, b, 0) != result
                || (expected
                    && (seen.len != ngx_strlen(expected)
                        || ngx_memcmp(seen.text, expected, seen.len) != 0)))
            {
                bad++;
            }
        }
    }

    tap_is(bad, 0, text);
}


/* stopped after each element, it goes on where it was */

static void
continued(void)
{
    size_t                             pos, len;
    seen_t                             seen;
    ngx_int_t                          rc;
    ngx_http_agentstream_json_split_t  split;

    static char  text[] = "[1,{\"a\":2} ,\"3\"]";

    ngx_memzero(&split, sizeof(split));
    ngx_memzero(&seen, sizeof(seen));

    split.handler = element;
    split.ctx = &seen;

    len = sizeof(text) - 1;

    for (pos = 0; pos < len; pos += split.consumed) {
        seen.n = 0;
        seen.stop = 1;
        split.consumed = len - pos;

        rc = ngx_http_agentstream_json_split_feed(&split,
                                                  (u_char *) text + pos,
                                                  len - pos);
        tap_ok(rc == NGX_ABORT, "stopped at %d",
               (int) (pos + split.consumed));
    }

    tap_is(ngx_http_agentstream_json_split_complete(&split), 1,
           "and comes to its end");

    ngx_http_agentstream_json_split_destroy(&split);
}


int
main(void)
{
    seen_t  seen;

    all_cuts("[]", "", NGX_OK);
    all_cuts(" [ ] \n", "", NGX_OK);
    all_cuts("[1]", "1|", NGX_OK);
    all_cuts("[1,2 , 3]", "1|2|3|", NGX_OK);
    all_cuts("[{\"a\":[1,2,{}]},{},[[],[]]]", "{\"a\":[1,2,{}]}|{}|[[],[]]|",
             NGX_OK);
    all_cuts("[\"a,]b\", \"\\\"],[\" ,\"\\\\\"]",
             "\"a,]b\"|\"\\\"],[\"|\"\\\\\"|", NGX_OK);
    all_cuts("[{\"\\u005d\":\"}\"}\n,\nnull]", "{\"\\u005d\":\"}\"}|null|",
             NGX_OK);

    all_cuts("", "", NGX_AGAIN);
    all_cuts("[", "", NGX_AGAIN);
    all_cuts("[1", "", NGX_AGAIN);
    all_cuts("[1,", "1|", NGX_AGAIN);
    all_cuts("[\"]", "", NGX_AGAIN);
    all_cuts("[{]", "", NGX_AGAIN);

    all_cuts("{}", NULL, NGX_DECLINED);
    all_cuts("x", NULL, NGX_DECLINED);
    all_cuts("[,]", NULL, NGX_DECLINED);
    all_cuts("[1,]", NULL, NGX_DECLINED);
    all_cuts("[1,,2]", NULL, NGX_DECLINED);
    all_cuts("[1}]", NULL, NGX_DECLINED);
    all_cuts("[1]]", NULL, NGX_DECLINED);
    all_cuts("[1] x", NULL, NGX_DECLINED);
    all_cuts("[}", NULL, NGX_DECLINED);

    ngx_memzero(&seen, sizeof(seen));

    tap_is(run(&seen, "[12345,1]", 2, 4, 5), NGX_OK, "as large as the limit");
    tap_is(run(&seen, "[123456,1]", 2, 4, 5), NGX_DECLINED, "over the limit");
    tap_is(run(&seen, "[123456,1]", 0, 0, 5), NGX_DECLINED,
           "over the limit in one piece");

    seen.stop = 2;
    tap_is(run(&seen, "[1,2,3]", 0, 0, 0), NGX_ABORT, "the handler stops it");
    tap_is(seen.n, 2, "there and then");

    continued();

    return tap_done();
}
