
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What t/perf_budget.t counts instructions of: fixed captures through the pure
 * parts, as the hub and a turn would use them.  Each of the budget_*()
 * functions is one number in budget.txt:
 *
 *     route      events of sessions that nobody asked for: cut, peek, look up
 *     parse      every event parsed and indexed
 *     text       turns of text and thoughts, translated
 *     tools      turns with calls and large outputs, translated
 *     packets    the turns of "text", translated and written for a client
 *     agui       the same for a client of AG-UI
 *     aisdk      the same for a client of the AI SDK
 *
 * The program prints how many events and packets there were, so that a count
 * per event can be told.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include <stdio.h>

#include "ngx_http_agentstream_agui.h"
#include "ngx_http_agentstream_aisdk.h"
#include "ngx_http_agentstream_json.h"
#include "ngx_http_agentstream_opencode.h"
#include "ngx_http_agentstream_sse.h"
#include "ngx_http_agentstream_translate.h"
#include "packets.h"


#define CAPTURES  "t/data/captures/"
#define READ      4096                    /* proxy_buffer_size */
#define PACKET    (4 * 1024 * 1024)
#define OTHERS    100
#define TIMES     3


extern ngx_log_t  ngx_unit_log;


typedef struct {
    ngx_http_agentstream_sse_t          sse;
    ngx_http_agentstream_json_t         json;
    ngx_http_agentstream_translate_t   *tr;
    ngx_rbtree_t                        routes;
    ngx_rbtree_node_t                   sentinel;
    ngx_str_node_t                      others[OTHERS];
    u_char                              names[OTHERS][32];
    ngx_str_t                           session;
    ngx_str_t                           turn;
    ngx_uint_t                          events;
    ngx_uint_t                          packets;
    ngx_uint_t                          routed;
    ngx_msec_t                          now;
    u_char                             *packet;
    u_char                             *out;
    ngx_http_agentstream_wire_t        *wire;     /* NULL: nothing is written */
    ngx_http_agentstream_wire_state_t  *state;
    unsigned                            parse:1;
} budget_t;


/* counted one by one, so not to be inlined */

void budget_route(budget_t *b, ngx_str_t *capture) __attribute__((noinline));
void budget_parse(budget_t *b, ngx_str_t *capture) __attribute__((noinline));
void budget_text(budget_t *b, ngx_str_t *capture) __attribute__((noinline));
void budget_tools(budget_t *b, ngx_str_t *capture) __attribute__((noinline));
void budget_packets(budget_t *b, ngx_str_t *capture)
    __attribute__((noinline));
void budget_agui(budget_t *b, ngx_str_t *capture) __attribute__((noinline));
void budget_aisdk(budget_t *b, ngx_str_t *capture) __attribute__((noinline));


static u_char *
sink_reserve(void *ctx, size_t size)
{
    budget_t *b = ctx;

    if (size > PACKET) {
        abort();
    }

    return b->packet;
}


static uint64_t
sink_commit(void *ctx, ngx_http_agentstream_record_t *record)
{
    budget_t *b = ctx;

    record->seq = ++b->packets;

    if (b->wire) {
        if (b->wire->size(b->state, record) > PACKET) {
            abort();
        }

        (void) b->wire->record(b->state, b->out, record);
    }

    return record->seq;
}


/* what the hub does until it knows whose an event is, and then the turn */

static ngx_int_t
event_handler(void *ctx, ngx_str_t *data)
{
    budget_t *b = ctx;

    ngx_int_t                      rc;
    ngx_msec_t                     next;
    ngx_http_agentstream_event_t   ev;

    b->events++;

    if (ngx_http_agentstream_opencode_peek(data, &ev) == NGX_OK
        && ev.session.len
        && ngx_str_rbtree_lookup(&b->routes, &ev.session,
                                 ngx_murmur_hash2(ev.session.data,
                                                 ev.session.len)))
    {
        b->routed++;
    }

    if (!b->parse) {
        return NGX_OK;
    }

    if (b->tr == NULL) {
        rc = ngx_http_agentstream_opencode_parse(data, &b->json, &ev);

    } else {
        rc = ngx_http_agentstream_opencode_read(data, &b->json, &ev);
    }

    if (rc != NGX_OK) {
        abort();
    }

    if (b->tr == NULL || ev.session.len != b->session.len
        || ngx_memcmp(ev.session.data, b->session.data, ev.session.len) != 0)
    {
        return NGX_OK;
    }

    ngx_http_agentstream_translate_time(b->tr,
                                   (u_char *) "2026-01-22T00:11:51.712Z",
                                   b->now += 20);

    if (ngx_http_agentstream_translate_event(b->tr, &ev) != NGX_OK
        || ngx_http_agentstream_translate_flush(b->tr, &next) != NGX_OK)
    {
        abort();
    }

    return NGX_OK;
}


static void
feed(budget_t *b, ngx_str_t *capture)
{
    size_t  i, n;

    b->sse.limit = PACKET;
    b->sse.handler = event_handler;
    b->sse.ctx = b;

    for (i = 0; i < capture->len; i += n) {
        n = ngx_min(capture->len - i, READ);

        if (ngx_http_agentstream_sse_feed(&b->sse, capture->data + i, n)
            != NGX_OK)
        {
            abort();
        }
    }

    ngx_http_agentstream_sse_reset(&b->sse);
}


static void
translate(budget_t *b, ngx_str_t *capture)
{
    ngx_pool_t                             *pool;
    ngx_http_agentstream_translate_conf_t   conf;

    ngx_memzero(&conf, sizeof(conf));
    conf.tool_throttle = 200;

    pool = ngx_create_pool(2048, &ngx_unit_log);
    if (pool == NULL) {
        abort();
    }

    b->tr = ngx_http_agentstream_translate_create(pool, &conf, &sink, b,
                                                  &b->session, &b->turn);
    if (b->tr == NULL) {
        abort();
    }

    ngx_http_agentstream_translate_time(b->tr,
                                   (u_char *) "2026-01-22T00:11:51.712Z",
                                   b->now);

    if (ngx_http_agentstream_translate_start(b->tr) != NGX_OK) {
        abort();
    }

    feed(b, capture);

    if (ngx_http_agentstream_translate_finish(b->tr, 0) != NGX_OK) {
        abort();
    }

    ngx_http_agentstream_translate_destroy(b->tr);
    ngx_destroy_pool(pool);
    b->tr = NULL;
}


void
budget_route(budget_t *b, ngx_str_t *capture)
{
    b->parse = 0;
    feed(b, capture);
}


void
budget_parse(budget_t *b, ngx_str_t *capture)
{
    b->parse = 1;
    feed(b, capture);
}


void
budget_text(budget_t *b, ngx_str_t *capture)
{
    b->parse = 1;
    translate(b, capture);
}


void
budget_tools(budget_t *b, ngx_str_t *capture)
{
    b->parse = 1;
    translate(b, capture);
}


static void
spell(budget_t *b, ngx_str_t *capture, ngx_http_agentstream_wire_t *wire,
    void *request)
{
    ngx_pool_t  *pool;

    pool = ngx_create_pool(2048, &ngx_unit_log);
    if (pool == NULL) {
        abort();
    }

    b->state = ngx_pcalloc(pool, wire->state_size);
    if (b->state == NULL) {
        abort();
    }

    b->state->pool = pool;
    b->state->request = request;
    b->state->turn = b->turn;
    b->wire = wire;

    b->parse = 1;
    translate(b, capture);

    b->wire = NULL;
    ngx_destroy_pool(pool);
}


void
budget_packets(budget_t *b, ngx_str_t *capture)
{
    spell(b, capture, &ngx_http_agentstream_wire_events, NULL);
}


void
budget_agui(budget_t *b, ngx_str_t *capture)
{
    ngx_http_agentstream_agui_run_t  run;

    ngx_memzero(&run, sizeof(run));

    ngx_str_set(&run.thread, "thread");
    ngx_str_set(&run.run, "run");

    spell(b, capture, &ngx_http_agentstream_wire_agui, &run);
}


void
budget_aisdk(budget_t *b, ngx_str_t *capture)
{
    spell(b, capture, &ngx_http_agentstream_aisdk_wire, NULL);
}


static ngx_str_t
slurp(const char *name)
{
    FILE       *file;
    char        path[256];
    ngx_str_t   s;

    snprintf(path, sizeof(path), CAPTURES "%s.event.sse", name);

    file = fopen(path, "r");

    if (file == NULL) {
        perror(path);
        exit(2);
    }

    fseek(file, 0, SEEK_END);
    s.len = ftell(file);
    rewind(file);

    s.data = malloc(s.len + 1);

    if (s.data == NULL || fread(s.data, 1, s.len, file) != s.len) {
        perror(path);
        exit(2);
    }

    s.data[s.len] = '\0';
    fclose(file);

    return s;
}


/* the first user message and its session */

static void
find_turn(budget_t *b, ngx_str_t *capture)
{
    char  *p, *user;

    user = strstr((char *) capture->data, "\"role\":\"user\"");

    if (user == NULL) {
        abort();
    }

    for (p = user; *p != '\n'; p--) { /* void */ }

    b->session.data = (u_char *) strstr(p, "\"ses_") + 1;
    b->session.len = strcspn((char *) b->session.data, "\"");
    b->turn.data = (u_char *) strstr(p, "\"id\":\"msg_") + 6;
    b->turn.len = strcspn((char *) b->turn.data, "\"");
}


static void
run(budget_t *b, const char *what, void (*budget)(budget_t *, ngx_str_t *),
    const char **names)
{
    ngx_str_t   capture;
    ngx_uint_t  i;

    b->events = 0;
    b->packets = 0;

    for ( /* void */ ; *names; names++) {
        capture = slurp(*names);
        find_turn(b, &capture);

        for (i = 0; i < TIMES; i++) {
            budget(b, &capture);
        }

        free(capture.data);
    }

    printf("%s %lu %lu\n", what, (unsigned long) b->events,
           (unsigned long) b->packets);
}


int
main(void)
{
    ngx_uint_t  i;

    static budget_t  b;

    static const char  *text[] = {
        "text-plain", "text-escapes", "text-reasoning", NULL
    };

    static const char  *tools[] = {
        "bash-streaming", "bash-large", "edit-ok", "tools-sequence", NULL
    };

    static const char  *all[] = {
        "text-plain", "text-escapes", "text-reasoning", "bash-streaming",
        "bash-large", "edit-ok", "tools-sequence", NULL
    };

    b.packet = malloc(PACKET);
    b.out = malloc(PACKET);

    if (b.packet == NULL || b.out == NULL) {
        return 2;
    }

    ngx_rbtree_init(&b.routes, &b.sentinel, ngx_str_rbtree_insert_value);

    for (i = 0; i < OTHERS; i++) {
        b.others[i].str.data = b.names[i];
        b.others[i].str.len = sprintf((char *) b.names[i],
                                      "ses_e1d7%06luffeBVa3Sjer280",
                                      (unsigned long) i);
        b.others[i].node.key = ngx_murmur_hash2(b.names[i],
                                               b.others[i].str.len);
        ngx_rbtree_insert(&b.routes, &b.others[i].node);
    }

    run(&b, "route", budget_route, all);
    run(&b, "parse", budget_parse, all);
    run(&b, "text", budget_text, text);
    run(&b, "tools", budget_tools, tools);
    run(&b, "packets", budget_packets, text);
    run(&b, "agui", budget_agui, text);
    run(&b, "aisdk", budget_aisdk, text);

    ngx_http_agentstream_json_destroy(&b.json);
    free(b.packet);
    free(b.out);

    return b.routed != 0;
}
