
/*
 * Copyright (C) agentstream contributors
 */


/*
 * A translator with a sink in memory, for the tests of the translator:
 * each packet is checked to be one line of valid JSON that fits what was
 * reserved for it, and is kept without its timestamp.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_SINK_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_SINK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include <cjson/cJSON.h>

#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_acp.h"
#include "ngx_http_agentstream_translate.h"
#include "tap.h"


#define TIMESTAMP  "2026-01-22T00:11:51.712Z"


extern ngx_log_t  ngx_unit_log;


typedef struct {
    ngx_pool_t                             *pool;
    ngx_http_agentstream_translate_t       *tr;
    ngx_http_agentstream_translate_conf_t   conf;
    ngx_http_agentstream_json_t             json;

    cJSON                                  *packets;
    ngx_uint_t                              part[4096];   /* by seq - 1 */
    size_t                                  bytes;
    uint64_t                                seq;

    u_char                                 *reserved;
    size_t                                  size;
    size_t                                  kept;         /* bytes of records */

    cJSON                                  *children;
    cJSON                                  *resolves;
    ngx_int_t                               waiting;
    ngx_uint_t                              invalid;
    ngx_uint_t                              full;         /* reserve fails */
    ngx_uint_t                              forgot;       /* the stored state
                                                             must be read */
} fixture_t;


static u_char *
sink_reserve(void *ctx, size_t size)
{
    fixture_t *f = ctx;

    free(f->reserved);
    f->reserved = NULL;

    if (f->full) {
        return NULL;
    }

    f->size = size;
    f->reserved = malloc(size);

    return f->reserved;
}


static uint64_t
sink_commit(void *ctx, ngx_http_agentstream_record_t *record)
{
    fixture_t *f = ctx;

    u_char                       *whole;
    size_t                        len, kept;
    cJSON                        *packet, *timestamp;
    ngx_http_agentstream_json_t   json;

    kept = record->json.len + record->text.len
           + ngx_http_agentstream_record_extra(record);

    len = ngx_http_agentstream_record_len(record);
    whole = malloc(len);

    (void) ngx_http_agentstream_record_json(whole, record);

    ngx_memzero(&json, sizeof(ngx_http_agentstream_json_t));

    if (kept > f->size
        || record->json.data != f->reserved
        || ngx_http_agentstream_json_parse(&json, whole, len) != NGX_OK
        || memchr(whole, LF, len) != NULL
        || memchr(whole, CR, len) != NULL)
    {
        tap_diag("invalid packet: %.*s", (int) len, (char *) whole);
        f->invalid++;
    }

    packet = cJSON_ParseWithLength((char *) whole, len);

    if (strncmp(cJSON_GetStringValue(cJSON_GetObjectItem(packet, "type")),
                (char *) ngx_http_agentstream_record_names[record->type].data,
                len)
        != 0)
    {
        tap_diag("not of its type: %.*s", (int) len, (char *) whole);
        f->invalid++;
    }

    ngx_http_agentstream_json_destroy(&json);

    timestamp = cJSON_DetachItemFromObjectCaseSensitive(packet, "timestamp");

    if (!cJSON_IsString(timestamp)
        || strcmp(timestamp->valuestring, TIMESTAMP) != 0)
    {
        tap_diag("bad timestamp: %.*s", (int) len, (char *) whole);
        f->invalid++;
    }

    free(whole);

    cJSON_Delete(timestamp);
    cJSON_AddItemToArray(f->packets, packet);

    f->part[f->seq % 4096] = record->part;
    f->bytes += len;
    f->kept += kept;

    free(f->reserved);
    f->reserved = NULL;

    return ++f->seq;
}


static ngx_int_t
sink_child(void *ctx, ngx_str_t *session)
{
    fixture_t *f = ctx;

    char  id[128];

    snprintf(id, sizeof(id), "%.*s", (int) session->len,
             (char *) session->data);
    cJSON_AddItemToArray(f->children, cJSON_CreateString(id));

    return NGX_OK;
}


static void
sink_resolve(void *ctx, ngx_str_t *session, ngx_str_t *message)
{
    fixture_t *f = ctx;

    char  id[256];

    snprintf(id, sizeof(id), "%.*s %.*s", (int) session->len,
             (char *) session->data, (int) message->len,
             (char *) message->data);
    cJSON_AddItemToArray(f->resolves, cJSON_CreateString(id));
}


static void
sink_waiting(void *ctx, ngx_str_t *id, ngx_uint_t permission,
    ngx_uint_t waits)
{
    fixture_t *f = ctx;

    f->waiting += waits ? 1 : -1;
}


static ngx_http_agentstream_translate_sink_t  sink = {
    sink_reserve,
    sink_commit,
    sink_child,
    sink_resolve,
    sink_waiting
};


static void
setup(fixture_t *f, const char *session, const char *turn)
{
    ngx_str_t  s, t;

    s = tap_str(session);
    t = tap_str(turn);

    f->pool = ngx_create_pool(1024, &ngx_unit_log);
    f->packets = cJSON_CreateArray();
    f->children = cJSON_CreateArray();
    f->resolves = cJSON_CreateArray();

    f->tr = ngx_http_agentstream_translate_create(f->pool, &f->conf, &sink, f,
                                                  &s, &t);
    if (f->tr == NULL) {
        abort();
    }

    ngx_http_agentstream_translate_time(f->tr, (u_char *) TIMESTAMP, 0);
}


static void
teardown(fixture_t *f)
{
    ngx_http_agentstream_translate_destroy(f->tr);
    ngx_http_agentstream_json_destroy(&f->json);
    ngx_destroy_pool(f->pool);

    cJSON_Delete(f->packets);
    cJSON_Delete(f->children);
    cJSON_Delete(f->resolves);
    free(f->reserved);

    ngx_memzero(f, sizeof(fixture_t));
}


/* the bytes are in an allocation of their own, gone when it returns */

static ngx_int_t
feed(fixture_t *f, ngx_str_t *data)
{
    ngx_int_t                     rc;
    ngx_str_t                     copy;
    ngx_http_agentstream_event_t  ev;

    copy.len = data->len;
    copy.data = tap_copy(data->data, data->len);

    (void) ngx_http_agentstream_opencode_peek(&copy, &ev);

    rc = ngx_http_agentstream_opencode_read(&copy, &f->json, &ev);

    if (rc == NGX_OK) {
        rc = ngx_http_agentstream_translate_event(f->tr, &ev);
    }

    if (rc == NGX_AGAIN) {
        f->forgot++;
        rc = NGX_OK;
    }

    free(copy.data);

    return rc;
}


/* "full" or "part" of the REST answer that a messages.json holds */

static ngx_int_t
feed_messages(fixture_t *f, const char *session, const char *messages)
{
    char                                   *copy;
    ngx_int_t                               rc;
    ngx_str_t                               id;
    ngx_uint_t                              v;
    ngx_http_agentstream_translate_list_t   list;

    id = tap_str(session);
    copy = tap_copy(messages, strlen(messages));
    memset(&list, 0, sizeof(list));

    rc = ngx_http_agentstream_json_parse(&f->json, (u_char *) copy,
                                         strlen(messages));

    for (v = ngx_http_agentstream_json_first(&f->json, f->json.root);
         v && rc == NGX_OK;
         v = ngx_http_agentstream_json_next(&f->json, f->json.root, v))
    {
        rc = ngx_http_agentstream_translate_listed(f->tr, &id, &f->json, v,
                                                   &list);
    }

    free(copy);

    return rc;
}


static const char *
packet_type(cJSON *packet)
{
    cJSON  *type;

    type = cJSON_GetObjectItemCaseSensitive(packet, "type");

    return cJSON_IsString(type) ? type->valuestring : "";
}


#endif /* _NGX_HTTP_AGENTSTREAM_SINK_H_INCLUDED_ */
