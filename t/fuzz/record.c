
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What comes from a Redis server: any bytes as a record, and any address.
 * Checked: a record that is accepted lies within its bytes, its complete JSON
 * has the length that it says, and written again it has the same bytes; an
 * address that is accepted has a host and a port.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_record.h"
#include "ngx_http_agentstream_url.h"


#define check(x)  if (!(x)) { __builtin_trap(); }


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
fuzz_record(u_char *data, size_t size)
{
    size_t                          len;
    u_char                         *json, *again;
    ngx_str_t                       text;
    ngx_http_agentstream_record_t   record;
    ngx_http_agentstream_packed_t   packed;

    text.data = data;
    text.len = size;

    if (ngx_http_agentstream_record_read(&record, &text) != NGX_OK) {
        return;
    }

    check(record.json.data >= data);
    check(record.origin.data + record.origin.len == data + size);

    len = ngx_http_agentstream_record_len(&record);

    if (len > 1024 * 1024) {
        return;
    }

    json = malloc(len + 1);
    check(ngx_http_agentstream_record_json(json, &record) == json + len);
    free(json);

    len = ngx_http_agentstream_record_extra(&record);
    again = malloc(len + 1);
    ngx_memzero(&packed, sizeof(packed));
    ngx_http_agentstream_record_pack(&packed, &record, again);
    check(ngx_memcmp(again, data + size - len, len) == 0);
    check(packed.len == record.json.len + record.text.len
          && packed.type == record.type);
    free(again);
}


static void
fuzz_url(u_char *data, size_t size)
{
    u_char                           *buf;
    ngx_str_t                         url;
    ngx_uint_t                        i;
    ngx_http_agentstream_url_t        address;
    ngx_http_agentstream_url_host_t  *host;

    url.data = data;
    url.len = size;
    buf = malloc(size + 3);

    if (ngx_http_agentstream_url_parse(&address, &url, buf) == NULL) {
        check(address.nhosts);

        for (i = 0; i < address.nhosts; i++) {
            host = &address.hosts[i];

            check(host->name.len && host->port && host->port < 65536);
            check(host->name.data[host->name.len] == '\0');
        }
    }

    free(buf);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char  *copy;

    copy = malloc(size + 1);
    ngx_memcpy(copy, data, size);

    fuzz_record(copy, size);
    fuzz_url(copy, size);

    free(copy);

    return 0;
}
