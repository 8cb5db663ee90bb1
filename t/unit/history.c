
/*
 * Copyright (C) agentstream contributors
 */


/*
 * agui_input.c, aisdk_body.c: clients send the whole history each time, of
 * which only the last message counts.  Reading it takes time in proportion to
 * its size, and none of it stays in memory.
 * Breaks when: each message is looked up from the first one, a message before
 * the last one is copied, or the buffer for a prompt is kept although there is
 * none.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_agui.h"
#include "ngx_http_agentstream_aisdk.h"
#include "tap.h"

#include <malloc.h>
#include <time.h>


#define FEW    1000
#define MANY   (16 * FEW)

#define OLD                                                                   \
    "{\"id\":\"1\",\"role\":\"assistant\",\"content\":\"%0200d\","            \
    "\"parts\":[{\"type\":\"text\",\"text\":\"x\"}]},"


extern ngx_log_t  ngx_unit_log;


typedef ngx_int_t (*read_pt)(ngx_pool_t *pool, ngx_str_t *text);


static ngx_int_t
read_agui(ngx_pool_t *pool, ngx_str_t *text)
{
    ngx_http_agentstream_agui_input_t  input;

    return ngx_http_agentstream_agui_read(pool, text, &input);
}


static ngx_int_t
read_aisdk(ngx_pool_t *pool, ngx_str_t *text)
{
    ngx_int_t                          rc;
    ngx_http_agentstream_aisdk_chat_t  chat;

    rc = ngx_http_agentstream_aisdk_chat(pool, text, &chat);

    /* as its caller does it */

    if (rc == NGX_OK && chat.prompt.len) {
        ngx_pfree(pool, chat.prompt.data);
    }

    return rc;
}


static ngx_str_t
history(const char *head, size_t n, const char *last)
{
    char       *p;
    size_t      i;
    ngx_str_t   text;

    p = malloc(strlen(head) + n * (sizeof(OLD) + 200) + strlen(last) + 1);
    text.data = (u_char *) p;
    p += sprintf(p, "%s", head);

    for (i = 0; i < n; i++) {
        p += sprintf(p, OLD, (int) i);
    }

    p += sprintf(p, "%s", last);
    text.len = (u_char *) p - text.data;

    return text;
}


/* what the pool holds */

static size_t
held(ngx_pool_t *pool)
{
    size_t             size;
    ngx_pool_t        *p;
    ngx_pool_large_t  *large;

    size = 0;

    for (large = pool->large; large; large = large->next) {
        if (large->alloc) {
            size += malloc_usable_size(large->alloc);
        }
    }

    for (p = pool; p; p = p->d.next) {
        size += p->d.end - (u_char *) p;
    }

    return size;
}


/* the least CPU time of a few runs, in microseconds */

static double
took(read_pt read, ngx_str_t *text, size_t *size, ngx_int_t *rc)
{
    double       us, least;
    clock_t      begun;
    ngx_uint_t   i;
    ngx_pool_t  *pool;

    least = 1e12;

    for (i = 0; i < 5; i++) {
        pool = ngx_create_pool(4096, &ngx_unit_log);

        begun = clock();
        *rc = read(pool, text);
        us = (double) (clock() - begun) * 1e6 / CLOCKS_PER_SEC;
        least = us < least ? us : least;

        *size = held(pool);
        ngx_destroy_pool(pool);
    }

    return least;
}


static void
check(const char *name, read_pt read, const char *head, const char *last)
{
    double     few, many;
    size_t     size;
    ngx_int_t  rc;
    ngx_str_t  text;

    text = history(head, FEW, last);
    few = took(read, &text, &size, &rc);
    free(text.data);

    tap_is(rc, NGX_OK, name);

    text = history(head, MANY, last);
    many = took(read, &text, &size, &rc);

    tap_is(rc, NGX_OK, "many messages");
    tap_ok(size < 16384, "nothing of them is kept");
    tap_ok(many < 16 * 4 * (few + 100), "no slower than in proportion");

    printf("# %.0f us for %d messages, %.0f us for %d, %d kB\n", few, FEW,
           many, MANY, (int) (text.len / 1024));

    free(text.data);
}


int
main(void)
{
    check("AG-UI, a prompt", read_agui, "{\"threadId\":\"t\",\"runId\":"
          "\"r\",\"messages\":[", "{\"id\":\"2\",\"role\":\"user\","
          "\"content\":\"hi\"}]}");

    check("AG-UI, an answer", read_agui, "{\"threadId\":\"t\",\"runId\":"
          "\"r\",\"messages\":[", "{\"id\":\"2\",\"role\":\"assistant\"}],"
          "\"resume\":[{\"interruptId\":\"question:que_1:msg_1:1\","
          "\"status\":\"cancelled\"}]}");

    check("AI SDK, a prompt", read_aisdk, "{\"id\":\"c\",\"messages\":[",
          "{\"id\":\"2\",\"role\":\"user\",\"parts\":[{\"type\":\"text\","
          "\"text\":\"hi\"}]}]}");

    check("AI SDK, an answer", read_aisdk, "{\"id\":\"c\",\"messages\":[",
          "{\"id\":\"2\",\"role\":\"assistant\",\"metadata\":{"
          "\"agentstream\":{\"turn\":\"msg_1\",\"seq\":1}},\"parts\":[{"
          "\"state\":\"approval-responded\",\"approval\":{\"id\":\"per_1\","
          "\"approved\":true}}]}]}");

    return tap_done();
}
