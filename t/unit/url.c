
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Addresses of Redis, and records that come from there.
 *
 * Broken by: a password with "@", ":" or an escape that is cut; a port, a
 * database or an IPv6 address that is read wrongly; a Sentinel that is left
 * out, or has the port of a Redis server; a record that is shorter
 * or longer than it says, has a type that does not exist, or holes outside of
 * its JSON.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_url.h"
#include "tap.h"


static void
url_is(const char *text, const char *user, const char *password,
    const char *host, ngx_uint_t port, ngx_uint_t db, ngx_uint_t tls)
{
    u_char                      *buf;
    ngx_str_t                    url;
    const char                  *wrong;
    ngx_http_agentstream_url_t   address;

    url.len = ngx_strlen(text);
    url.data = tap_copy(text, url.len);
    buf = malloc(url.len + 3);

    wrong = ngx_http_agentstream_url_parse(&address, &url, buf);

    tap_ok(wrong == NULL, "%s", text);

    if (wrong == NULL) {
        tap_is_str(address.user, user, "user");
        tap_is_str(address.password, password, "password");
        tap_is(address.nhosts, 1, "one host");
        tap_is_str(address.hosts[0].name, host, "host");
        tap_is(address.hosts[0].port, port, "port");
        tap_is(address.master.len, 0, "no master's name");
        tap_is(address.db, db, "database");
        tap_is(address.tls, tls, "TLS");
    }

    free(buf);
    free(url.data);
}


/* hosts: "name port ..." */

static void
sentinel_is(const char *text, const char *user, const char *password,
    const char *master, const char *hosts, ngx_uint_t db)
{
    u_char                      *buf, *p, list[1024];
    ngx_str_t                    url, got;
    ngx_uint_t                   i;
    const char                  *wrong;
    ngx_http_agentstream_url_t   address;

    url.len = ngx_strlen(text);
    url.data = tap_copy(text, url.len);
    buf = malloc(url.len + 3);

    wrong = ngx_http_agentstream_url_parse(&address, &url, buf);

    tap_ok(wrong == NULL, "%s", text);

    if (wrong == NULL) {
        p = list;

        for (i = 0; i < address.nhosts; i++) {
            p = ngx_sprintf(p, "%V %ui ", &address.hosts[i].name,
                            address.hosts[i].port);
        }

        got.data = list;
        got.len = p - list;

        tap_is_str(got, hosts, "hosts");
        tap_is_str(address.user, user, "user");
        tap_is_str(address.password, password, "password");
        tap_is_str(address.master, master, "name of the master");
        tap_is(address.db, db, "database");
        tap_is(address.tls, (ngx_uint_t) (text[8] == 's'), "TLS");
    }

    free(buf);
    free(url.data);
}


static void
url_bad(const char *text)
{
    u_char                      *buf;
    ngx_str_t                    url;
    ngx_http_agentstream_url_t   address;

    url.len = ngx_strlen(text);
    url.data = tap_copy(text, url.len);
    buf = malloc(url.len + 3);

    tap_ok(ngx_http_agentstream_url_parse(&address, &url, buf) != NULL,
           "refused: %s", text);

    free(buf);
    free(url.data);
}


/* a record with JSON, text, a hole and an origin, of which one byte or the
   length may be changed */

static void
record_is(ngx_int_t expected, int add, void (*change)(u_char *data),
    const char *name)
{
    size_t                          len;
    u_char                          data[256];
    ngx_str_t                       text;
    ngx_http_agentstream_record_t   record;
    ngx_http_agentstream_packed_t  *packed;

    ngx_memzero(&record, sizeof(record));
    ngx_memzero(data, sizeof(data));

    record.type = NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE;
    record.part = 7;
    record.json = tap_str("{\"a\":\"\"}");
    record.text = tap_str("xyz");
    record.origin = tap_str("origin");
    record.nholes = 1;
    record.holes[0] = 6;

    packed = (ngx_http_agentstream_packed_t *) data;
    len = record.json.len + record.text.len;

    ngx_memcpy(packed + 1, "{\"a\":\"\"}xyz", len);
    ngx_http_agentstream_record_pack(packed, &record,
                                     (u_char *) (packed + 1) + len);

    len += sizeof(*packed) + ngx_http_agentstream_record_extra(&record) + add;

    if (change) {
        change(data);
    }

    text.len = len;
    text.data = tap_copy(data, len);

    tap_is(ngx_http_agentstream_record_read(&record, &text), expected, name);

    if (expected == NGX_OK) {
        tap_is_str(record.json, "{\"a\":\"\"}", "JSON");
        tap_is_str(record.text, "xyz", "text");
        tap_is_str(record.origin, "origin", "origin");
        tap_is(record.holes[0], 6, "hole");
        tap_is(record.part, 7, "part");
    }

    free(text.data);
}


static void
change_type(u_char *data)
{
    ((ngx_http_agentstream_packed_t *) data)->type =
                                        NGX_HTTP_AGENTSTREAM_RECORD_TYPES;
}


static void
change_len(u_char *data)
{
    ((ngx_http_agentstream_packed_t *) data)->len = 0xfffffff0;
}


static void
change_holes(u_char *data)
{
    ((ngx_http_agentstream_packed_t *) data)->nholes = 100;
}


/* what follows JSON and text: the length of the text, the hole */

static void
change_text(u_char *data)
{
    data[sizeof(ngx_http_agentstream_packed_t) + 11] = 12;
}


static void
change_hole(u_char *data)
{
    data[sizeof(ngx_http_agentstream_packed_t) + 15] = 200;
}


static void
change_pieces(u_char *data)
{
    ((ngx_http_agentstream_packed_t *) data)->pieces = 1;
}


int
main(void)
{
    url_is("redis://localhost", "", "", "localhost", 6379, 0, 0);
    url_is("rediss://r.example:7000/3", "", "", "r.example", 7000, 3, 1);
    url_is("redis://:secret@10.0.0.1/", "", "secret", "10.0.0.1", 6379, 0, 0);
    url_is("redis://me:a%40b%3ac%@h:1", "me", "a@b:c%", "h", 1, 0, 0);
    url_is("redis://me:a@b@h", "me", "a@b", "h", 6379, 0, 0);
    url_is("REDIS://[::1]:6380/1", "", "", "[::1]", 6380, 1, 0);
    url_is("redis://[::1]", "", "", "[::1]", 6379, 0, 0);

    url_bad("");
    url_bad("localhost:6379");
    url_bad("http://localhost");
    url_bad("redis://");
    url_bad("redis://:6379");
    url_bad("redis://host:0");
    url_bad("redis://host:65536");
    url_bad("redis://host:x");
    url_bad("redis://host/x");
    url_bad("redis://me@host");
    url_bad("redis://a,b");

    sentinel_is("sentinel://main@a,b", "", "", "main", "a 26379 b 26379 ", 0);
    sentinel_is("sentinel://me:a%40b@main@10.0.0.1:1,[::1]:2,c/3", "me", "a@b",
                "main", "10.0.0.1 1 [::1] 2 c 26379 ", 3);
    sentinel_is("sentinels://me:p@main@a/1", "me", "p", "main", "a 26379 ", 1);
    sentinel_is("sentinel://:a@b@m%40n@h", "", "a@b", "m@n", "h 26379 ", 0);
    sentinel_is("sentinel://m@1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "", "",
                "m", "1 26379 2 26379 3 26379 4 26379 5 26379 6 26379 7 26379 "
                "8 26379 9 26379 10 26379 11 26379 12 26379 13 26379 14 26379 "
                "15 26379 16 26379 ", 0);

    url_bad("sentinel://a,b");
    url_bad("sentinel://@a");
    url_bad("sentinel://:p@@a");
    url_bad("sentinel://me@main@a");
    url_bad("sentinel://main@");
    url_bad("sentinel://main@a,");
    url_bad("sentinel://main@,a");
    url_bad("sentinel://main@a:0,b");
    url_bad("sentinel://m@1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17");

    record_is(NGX_OK, 0, NULL, "a record");
    record_is(NGX_ERROR, -1, NULL, "too short");
    record_is(NGX_ERROR, 1, NULL, "too long");
    record_is(NGX_ERROR, -30, NULL, "less than its head");
    record_is(NGX_ERROR, 0, change_type, "no such type");
    record_is(NGX_ERROR, 0, change_len, "a length that overflows");
    record_is(NGX_ERROR, 0, change_holes, "too many holes");
    record_is(NGX_ERROR, 0, change_text, "a text that is longer than all");
    record_is(NGX_ERROR, 0, change_hole, "a hole outside");
    record_is(NGX_ERROR, 0, change_pieces, "pieces");

    return tap_done();
}
