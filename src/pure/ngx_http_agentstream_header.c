
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Headers that are lists of elements with parameters.  Both have the same form,
 * "name=value;name=value, name=value", where a value may be a quoted string
 * that has commas and semicolons in it, so one reader serves both.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_agentstream_header.h"


/* one "name" or "name=value", and what stands behind it */

typedef struct {
    ngx_str_t                            name;
    ngx_str_t                            value;    /* without quotes; escapes
                                                      stay as they are */
    u_char                               end;      /* ';', ',' or 0: the end of
                                                      the header */
} ngx_http_agentstream_header_item_t;


static u_char *ngx_http_agentstream_header_item(u_char *p, u_char *last,
    ngx_http_agentstream_header_item_t *item);
static u_char *ngx_http_agentstream_header_word(u_char *p, u_char *last,
    ngx_str_t *word);
static ngx_uint_t ngx_http_agentstream_header_is(ngx_str_t *word,
    const char *name);
static ngx_uint_t ngx_http_agentstream_header_quality(ngx_str_t *value);


void
ngx_http_agentstream_header_accept(ngx_http_agentstream_accept_t *accept,
    ngx_str_t *value)
{
    u_char                              *p, *last;
    ngx_str_t                            range;
    ngx_uint_t                           named, quality, json, events;
    ngx_http_agentstream_header_item_t   item;

    last = value->data + value->len;

    for (p = value->data; p < last; /* void */) {

        p = ngx_http_agentstream_header_item(p, last, &item);

        range = item.name;
        quality = 1000;

        while (item.end == ';') {
            p = ngx_http_agentstream_header_item(p, last, &item);

            if (ngx_http_agentstream_header_is(&item.name, "q")) {
                quality = ngx_http_agentstream_header_quality(&item.value);
            }
        }

        json = 3 * ngx_http_agentstream_header_is(&range, "application/json")
               + 2 * ngx_http_agentstream_header_is(&range, "application/*")
               + ngx_http_agentstream_header_is(&range, "*/*");

        named = ngx_http_agentstream_header_is(&range, "text/event-stream");

        events = 3 * named
                 + 2 * ngx_http_agentstream_header_is(&range, "text/*")
                 + ngx_http_agentstream_header_is(&range, "*/*");

        accept->named |= named;

        if (json > accept->json_rank) {
            accept->json_rank = json;
            accept->json = quality;
        }

        if (events > accept->events_rank) {
            accept->events_rank = events;
            accept->events = quality;
        }
    }
}


ngx_uint_t
ngx_http_agentstream_header_json(ngx_http_agentstream_accept_t *accept)
{
    if (accept->json != accept->events) {
        return accept->json > accept->events;
    }

    return accept->json && accept->json_rank > accept->events_rank;
}


void
ngx_http_agentstream_header_prefer(ngx_http_agentstream_prefer_t *prefer,
    ngx_str_t *value)
{
    u_char                              *p, *last;
    size_t                               i;
    ngx_uint_t                           first, wait;
    ngx_http_agentstream_header_item_t   item;

    last = value->data + value->len;
    first = 1;

    for (p = value->data; p < last; /* void */) {

        p = ngx_http_agentstream_header_item(p, last, &item);

        /* what follows a semicolon only qualifies what stands before it */

        if (first
            && ngx_http_agentstream_header_is(&item.name, "respond-async"))
        {
            prefer->respond_async = 1;
        }

        if (first && !prefer->has_wait
            && ngx_http_agentstream_header_is(&item.name, "wait"))
        {
            wait = 0;

            for (i = 0; i < item.value.len; i++) {
                if (item.value.data[i] < '0' || item.value.data[i] > '9') {
                    break;
                }

                wait = wait * 10 + (item.value.data[i] - '0');
                wait = ngx_min(wait, NGX_HTTP_AGENTSTREAM_WAIT_MAX);
            }

            if (i && i == item.value.len) {
                prefer->has_wait = 1;
                prefer->wait = wait;
            }
        }

        first = (item.end != ';');
    }
}


/* behind it is where the next one begins */

static u_char *
ngx_http_agentstream_header_item(u_char *p, u_char *last,
    ngx_http_agentstream_header_item_t *item)
{
    ngx_str_null(&item->value);
    item->end = 0;

    p = ngx_http_agentstream_header_word(p, last, &item->name);

    if (p < last && *p == '=') {
        p = ngx_http_agentstream_header_word(p + 1, last, &item->value);
    }

    /* what else stands there makes no sense, and is passed over */

    while (p < last && *p != ';' && *p != ',') {
        p++;
    }

    if (p < last) {
        item->end = *p++;
    }

    return p;
}


/* a token, which may be empty, or a quoted string, and the spaces around it */

static u_char *
ngx_http_agentstream_header_word(u_char *p, u_char *last, ngx_str_t *word)
{
    u_char  *end;

    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    if (p < last && *p == '"') {
        end = ++p;

        while (end < last && *end != '"') {
            end += (*end == '\\' && end + 1 < last) ? 2 : 1;
        }

        word->data = p;
        word->len = end - p;

        p = (end < last) ? end + 1 : last;

    } else {
        for (end = p; end < last; end++) {
            if (*end == ' ' || *end == '\t' || *end == '=' || *end == ';'
                || *end == ',' || *end == '"')
            {
                break;
            }
        }

        word->data = p;
        word->len = end - p;

        p = end;
    }

    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    return p;
}


static ngx_uint_t
ngx_http_agentstream_header_is(ngx_str_t *word, const char *name)
{
    return word->len == ngx_strlen(name)
           && ngx_strncasecmp(word->data, (u_char *) name, word->len) == 0;
}


/* "0", "0.75", "1.000"; what is none of these does not lower the quality */

static ngx_uint_t
ngx_http_agentstream_header_quality(ngx_str_t *value)
{
    size_t      i;
    ngx_uint_t  unit, quality;

    if (value->len == 0 || (value->data[0] != '0' && value->data[0] != '1')
        || (value->len > 1 && value->data[1] != '.'))
    {
        return 1000;
    }

    quality = (value->data[0] - '0') * 1000;
    unit = 100;

    for (i = 2; i < value->len; i++) {
        if (value->data[i] < '0' || value->data[i] > '9') {
            return 1000;
        }

        quality += (value->data[i] - '0') * unit;
        unit /= 10;
    }

    return ngx_min(quality, 1000);
}
