
/*
 * The text part: an escaped text cannot end a line, or a quoted string in it.
 */


#include "tap.h"
#include "ngx_http_agentstream_text.h"


int
main(void)
{
    char        longer[2000];
    u_char      buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE + 1];
    ngx_str_t   src, text;
    ngx_uint_t  i, bad;

    static const struct {
        const char  *src;
        const char  *text;
    } texts[] = {
        { "", "" },
        { "/workspace/a b", "/workspace/a b" },
        { "a\r\nb", "a\\x0D\\x0Ab" },
        { "a\", session \"b\\n", "a\\x22, session \\x22b\\x5Cn" },
        { "\x1b[2J\x7f\xc2\x9b\xc3\xa4",
          "\\x1B[2J\\x7F\\xC2\\x9B\\xC3\\xA4" }
    };

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        src = tap_str(texts[i].src);
        tap_is_str(ngx_http_agentstream_text_escape(buf, &src), texts[i].text,
                   texts[i].text);
    }

    for (i = 0; i < sizeof(longer); i += 300) {
        memset(longer, '\n', sizeof(longer));
        src.data = (u_char *) longer;
        src.len = i;
        buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE] = '!';

        text = ngx_http_agentstream_text_escape(buf, &src);
        bad = memchr(text.data, '\n', text.len) != NULL;

        tap_ok(!bad && text.len <= NGX_HTTP_AGENTSTREAM_TEXT_SIZE
               && buf[NGX_HTTP_AGENTSTREAM_TEXT_SIZE] == '!', "has room");
        tap_ok((text.len < i * 4)
               == (text.len > 3
                   && memcmp(text.data + text.len - 3, "...", 3) == 0),
               "says that it was cut");
    }

    return tap_done();
}
