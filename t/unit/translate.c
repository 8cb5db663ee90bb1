
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The translator against captures of a real OpenCode: each turn of
 * t/data/captures must become the packets of t/data/expected, which another
 * program has made from docs/protocol.md.  Each turn is fed its stream from
 * the first event on, with the turns before it.
 *
 * Broken by: a change of any packet's fields, an event of another turn,
 * session or user message that leaks in, a repeated state that is sent, a
 * snapshot that is sent again, an end that is found too early, a wrong
 * terminal packet.
 */


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_sse.h"
#include "captures.h"
#include "sink.h"


#define EXPECTED  "t/data/expected"

#define CHAOS     10


typedef struct {
    fixture_t   f;
    ngx_uint_t  step;           /* bytes given at a time; 0: all */
    unsigned    snapshots:1;    /* drop the deltas */
    unsigned    lossy:1;        /* drop every third of them */
    unsigned    core:1;
    unsigned    stored:1;       /* no events at all */
    unsigned    gap:1;          /* twelve events are lost after the 20th */
    unsigned    chaos:1;        /* events lost, repeated and swapped */
    ngx_uint_t  seed;
    ngx_str_t   swapped;        /* the event that comes after the next */
    unsigned    ended:1;
    ngx_uint_t  n;
} replay_t;


static cJSON *
read_json(const char *name, const char *suffix)
{
    char        path[256];
    cJSON      *json;
    ngx_str_t   text;

    snprintf(path, sizeof(path), CAPTURES "/%s%s", name, suffix);

    text = tap_read(path);
    json = cJSON_ParseWithLength((char *) text.data, text.len);
    free(text.data);

    return json;
}


static ngx_uint_t
chance(replay_t *r, ngx_uint_t percent)
{
    r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;

    return (r->seed >> 33) % 100 < percent;
}


static ngx_int_t
replay_chaos(replay_t *r, ngx_str_t *data)
{
    ngx_int_t  rc;

    if (chance(r, 15)) {
        return NGX_OK;
    }

    if (r->swapped.data == NULL && chance(r, 20)) {
        r->swapped.data = tap_copy(data->data, data->len);
        r->swapped.len = data->len;
        return NGX_OK;
    }

    rc = feed(&r->f, data);

    if (rc == NGX_OK && chance(r, 10)) {
        rc = feed(&r->f, data);
    }

    if (rc == NGX_OK && r->swapped.data) {
        rc = feed(&r->f, &r->swapped);
        free(r->swapped.data);
        r->swapped.data = NULL;
    }

    return rc;
}


static ngx_int_t
replay_event(void *ctx, ngx_str_t *data)
{
    replay_t *r = ctx;

    ngx_int_t                                rc;
    ngx_http_agentstream_event_t             ev;
    ngx_http_agentstream_translate_state_t  *state;

    if (r->ended || r->stored) {
        return NGX_OK;
    }

    if (r->chaos) {
        return replay_chaos(r, data);
    }

    rc = ngx_http_agentstream_opencode_peek(data, &ev);

    if (r->gap) {
        state = ngx_http_agentstream_translate_state(r->f.tr);

        r->n += state->user_seen;

        if (r->n > 20 && r->n <= 32) {
            ngx_http_agentstream_translate_gap(r->f.tr);
            return NGX_OK;
        }
    }

    if (rc == NGX_OK && ev.type == NGX_HTTP_AGENTSTREAM_EVENT_DELTA) {
        if (r->snapshots || (r->lossy && r->n++ % 3 == 2)) {
            return NGX_OK;
        }
    }

    rc = feed(&r->f, data);
    if (rc != NGX_OK) {
        return rc;
    }

    state = ngx_http_agentstream_translate_state(r->f.tr);

    if ((state->idle || state->passed) && !r->gap
        && ngx_http_agentstream_translate_settled(r->f.tr))
    {
        r->ended = 1;
        return ngx_http_agentstream_translate_finish(r->f.tr, 0);
    }

    return NGX_OK;
}


/* the stream in which the turn's message is announced */

static ngx_str_t
find_stream(const char *name, const char *turn)
{
    DIR        *dir;
    char        path[512], prefix[256];
    ngx_str_t   text, needle;

    snprintf(prefix, sizeof(prefix), "%s.", name);

    dir = NULL;

    while (capture_next(&dir, prefix, path, &text) == NGX_OK) {

        needle = tap_str(turn);

        if (strcmp(turn, "*") == 0
            || memmem(text.data, text.len, needle.data, needle.len) != NULL)
        {
            closedir(dir);
            return text;
        }

        free(text.data);
    }

    ngx_str_null(&text);

    return text;
}


static void
feed_stored(fixture_t *f, cJSON *stored, const char *session)
{
    char   *text;
    cJSON  *list;

    list = cJSON_GetObjectItemCaseSensitive(stored, session);
    text = cJSON_PrintUnformatted(list);

    if (text == NULL || feed_messages(f, session, text) != NGX_OK) {
        tap_ok(0, "%s: stored messages", session);
    }

    free(text);
}


static void
replay(replay_t *r, const char *name, const char *session, const char *turn)
{
    cJSON                       *stored, *child;
    size_t                       n;
    ngx_str_t                    stream;
    ngx_int_t                    rc;
    ngx_http_agentstream_sse_t   sse;

    r->f.conf.core = r->core;

    setup(&r->f, session, turn);

    ngx_memzero(&sse, sizeof(ngx_http_agentstream_sse_t));

    sse.limit = 4 * 1024 * 1024;
    sse.handler = replay_event;
    sse.ctx = r;

    stream = find_stream(name, turn);

    rc = ngx_http_agentstream_translate_start(r->f.tr);

    for (n = 0; n < stream.len && rc == NGX_OK; n += r->step) {

        if (r->step == 0) {
            rc = ngx_http_agentstream_sse_feed(&sse, stream.data, stream.len);
            break;
        }

        rc = ngx_http_agentstream_sse_feed(&sse, stream.data + n,
                                           ngx_min(r->step, stream.len - n));
    }

    ngx_http_agentstream_sse_reset(&sse);
    free(stream.data);
    free(r->swapped.data);

    if (rc != NGX_OK) {
        tap_ok(0, "%s: rc %ld", name, (long) rc);
    }

    if (r->ended) {
        return;
    }

    /* what a turn does after a while without an end: look it up */

    stored = read_json(name, ".messages.json");

    feed_stored(&r->f, stored, session);

    cJSON_ArrayForEach(child, r->f.children) {
        feed_stored(&r->f, stored, child->valuestring);
    }

    cJSON_Delete(stored);

    if (ngx_http_agentstream_translate_finish(r->f.tr, 0) != NGX_OK) {
        tap_ok(0, "%s: finish", name);
    }
}


static void
discard(cJSON *packets)
{
    int     from, to, n;
    cJSON  *d, *next, *p, *id;

    for (d = packets->child; d; d = next) {
        next = d->next;

        if (strcmp(packet_type(d), "chunks_discarded") != 0) {
            continue;
        }

        from = cJSON_GetObjectItem(d, "from")->valueint;
        to = cJSON_GetObjectItem(d, "to")->valueint;
        id = cJSON_GetObjectItem(d, "messageId");

        for (n = from; n <= to; n++) {
            p = cJSON_GetArrayItem(packets, n - 1);

            if (strstr(packet_type(p), "_chunk")
                && cJSON_Compare(cJSON_GetObjectItem(p, "messageId"), id, 1))
            {
                cJSON_ReplaceItemInObject(cJSON_GetObjectItem(p, "content"),
                                          "text", cJSON_CreateString(""));
            }
        }
    }

    for (d = packets->child; d; d = next) {
        next = d->next;

        if (strcmp(packet_type(d), "chunks_discarded") == 0) {
            cJSON_Delete(cJSON_DetachItemViaPointer(packets, d));
        }
    }
}


/*
 * For runs in which text comes otherwise than piece by piece: chunks that were
 * discarded are left out, the others joined by type and message, and put
 * behind all other packets.
 */

static void
join(cJSON *packets)
{
    char        *text, key[256];
    cJSON       *texts, *packet, *next, *id, *old;
    cJSON       *content;
    ngx_uint_t   n;

    texts = cJSON_CreateObject();

    discard(packets);

    for (n = 1, packet = packets->child; packet; n++, packet = next) {
        next = packet->next;

        if (strstr(packet_type(packet), "_chunk") == NULL) {
            continue;
        }

        id = cJSON_GetObjectItemCaseSensitive(packet, "messageId");
        content = cJSON_GetObjectItem(packet, "content");
        content = cJSON_GetObjectItem(content, "text");

        snprintf(key, sizeof(key), "%s %s", packet_type(packet),
                 id ? id->valuestring : "");

        old = cJSON_GetObjectItemCaseSensitive(texts, key);

        text = calloc(1, (old ? strlen(old->valuestring) : 0)
                         + strlen(content->valuestring) + 1);

        strcat(strcpy(text, old ? old->valuestring : ""),
               content->valuestring);

        cJSON_DeleteItemFromObjectCaseSensitive(texts, key);
        cJSON_AddStringToObject(texts, key, text);

        free(text);

        cJSON_Delete(cJSON_DetachItemViaPointer(packets, packet));
    }

    cJSON_AddItemToArray(packets, texts);
}


/*
 * What must come out whatever was lost on the way: the texts, the last state
 * of each call, the terminal packet.
 */

static void
essence(cJSON *packets)
{
    cJSON  *calls, *packet, *next, *id, *last;

    join(packets);

    calls = cJSON_CreateObject();
    last = NULL;

    for (packet = packets->child; packet->next; packet = next) {
        next = packet->next;
        cJSON_DetachItemViaPointer(packets, packet);

        if (strcmp(packet_type(packet), "tool_call_progress") == 0) {
            id = cJSON_GetObjectItemCaseSensitive(packet, "toolCallId");
            cJSON_DeleteItemFromObjectCaseSensitive(calls, id->valuestring);
            cJSON_AddItemToObject(calls, id->valuestring, packet);
            continue;
        }

        cJSON_Delete(last);
        last = packet;
    }

    cJSON_AddItemToArray(packets, calls);
    cJSON_AddItemToArray(packets, last);
}


/* what "core" leaves of a packet */

static cJSON *
core(cJSON *packet)
{
    cJSON       *meta, *blocks, *block, *next;
    const char  *type;

    type = packet_type(packet);
    meta = cJSON_GetObjectItemCaseSensitive(packet, "_meta");

    if ((strcmp(type, "agent_message_chunk") != 0
         && strcmp(type, "tool_call_start") != 0
         && strcmp(type, "tool_call_progress") != 0
         && strcmp(type, "prompt_response") != 0
         && strcmp(type, "error") != 0)
        || cJSON_HasObjectItem(meta, "sessionId"))
    {
        cJSON_Delete(packet);
        return NULL;
    }

    cJSON_DeleteItemFromObjectCaseSensitive(packet, "messageId");
    cJSON_DeleteItemFromObjectCaseSensitive(packet, "usage");

    if (meta && strcmp(type, "prompt_response") != 0) {
        cJSON_ReplaceItemInObjectCaseSensitive(packet, "_meta",
                                               cJSON_CreateNull());
    }

    /* of the blocks of a tool's content only texts */

    blocks = cJSON_GetObjectItemCaseSensitive(packet, "content");

    if (cJSON_IsArray(blocks)) {

        for (block = blocks->child; block; block = next) {
            next = block->next;

            if (strcmp(packet_type(cJSON_GetObjectItem(block, "content")),
                       "text") != 0)
            {
                cJSON_Delete(cJSON_DetachItemViaPointer(blocks, block));
            }
        }

        if (blocks->child == NULL) {
            cJSON_ReplaceItemInObjectCaseSensitive(packet, "content",
                                                   cJSON_CreateNull());
        }
    }

    return packet;
}


static ngx_uint_t
same(cJSON *got, cJSON *expected, const char *name)
{
    char        *a, *b;
    cJSON       *g, *e;
    ngx_uint_t   n;

    g = got->child;
    e = expected->child;

    for (n = 1; g && e && cJSON_Compare(g, e, 1); n++) {
        g = g->next;
        e = e->next;
    }

    if (tap_ok(g == NULL && e == NULL, "%s", name)) {
        return 1;
    }

    a = g ? cJSON_PrintUnformatted(g) : strdup("nothing");
    b = e ? cJSON_PrintUnformatted(e) : strdup("nothing");

    tap_diag("packet %lu", (unsigned long) n);
    tap_diag("got      %.1500s", a);
    tap_diag("expected %.1500s", b);

    free(a);
    free(b);

    return 0;
}


static void
check_turn(const char *name, const char *session, int number,
    ngx_uint_t last, cJSON *expected)
{
    char         what[256];
    cJSON       *turn, *copy, *packet, *next, *kept;
    replay_t     r;
    ngx_uint_t   mode, n;

    static const char  *modes[] = {
        "whole", "byte by byte", "core", "without deltas",
        "with deltas lost", "with events lost", "by stored messages",
        "in chaos"
    };

    turn = cJSON_GetObjectItem(expected->child, "turnId");

    /* what is stored holds later turns too, and no error without message */

    n = (last && strncmp(name, "unknown-", 8) != 0) ? 7 + CHAOS : 5;

    /* there the order of a message's parts is the text */

    if (n > 7 && strcmp(name, "text-interleaved") == 0) {
        n = 7;
    }

    for (mode = 0; mode < n; mode++) {

        ngx_memzero(&r, sizeof(replay_t));

        r.step = (mode == 1) ? 1 : 0;
        r.core = (mode == 2);
        r.snapshots = (mode == 3);
        r.lossy = (mode == 4);
        r.gap = (mode == 5);
        r.stored = (mode == 6);
        r.chaos = (mode > 6);
        r.seed = mode;

        replay(&r, name, session, turn->valuestring);

        copy = cJSON_Duplicate(expected, 1);

        if (mode == 2) {
            kept = cJSON_CreateArray();

            for (packet = copy->child; packet; packet = next) {
                next = packet->next;
                packet = core(cJSON_DetachItemViaPointer(copy, packet));

                if (packet) {
                    cJSON_AddItemToArray(kept, packet);
                }
            }

            cJSON_Delete(copy);
            copy = kept;
        }

        if (mode == 3 || mode == 4) {
            join(copy);
            join(r.f.packets);
        }

        if (mode > 4) {
            essence(copy);
            essence(r.f.packets);
        }

        snprintf(what, sizeof(what), "%s, turn %d, %s", name, number,
                 modes[ngx_min(mode, 7)]);

        same(r.f.packets, copy, what);

        if (r.f.invalid) {
            tap_ok(0, "%s: %lu invalid", what, (unsigned long) r.f.invalid);
        }

        cJSON_Delete(copy);
        teardown(&r.f);
    }
}


static void
check_capture(const char *name)
{
    int         number, n;
    char       *line, *end, path[512], session[128], key[128];
    cJSON      *json, *packets;
    ngx_str_t   text;

    snprintf(path, sizeof(path), EXPECTED "/%s.jsonl", name);

    text = tap_read(path);
    packets = NULL;
    number = 0;
    key[0] = '\0';

    line = (char *) text.data;

    while (line && line < (char *) text.data + text.len) {

        end = memchr(line, '\n', (char *) text.data + text.len - line);
        json = cJSON_ParseWithLength(line, end - line);

        n = cJSON_GetObjectItem(json, "turn")->valueint;
        snprintf(session, sizeof(session), "%s",
                 cJSON_GetObjectItem(json, "session")->valuestring);

        if (packets && (n != number || strcmp(session, key) != 0)) {
            check_turn(name, key, number, n <= number, packets);
            cJSON_Delete(packets);
            packets = NULL;
        }

        if (packets == NULL) {
            packets = cJSON_CreateArray();
        }

        cJSON_AddItemToArray(packets,
                             cJSON_DetachItemFromObject(json, "packet"));

        number = n;
        strcpy(key, session);

        cJSON_Delete(json);
        line = end + 1;
    }

    if (packets) {
        check_turn(name, key, number, 1, packets);
        cJSON_Delete(packets);
    }

    free(text.data);
}


int
main(int argc, char **argv)
{
    int              n, i;
    char            *suffix;
    struct dirent  **list;

    n = scandir(EXPECTED, &list, NULL, alphasort);

    for (i = 0; i < n; i++) {
        suffix = strstr(list[i]->d_name, ".jsonl");

        if (suffix) {
            *suffix = '\0';

            if (argc < 2 || strcmp(argv[1], list[i]->d_name) == 0) {
                check_capture(list[i]->d_name);
            }
        }

        free(list[i]);
    }

    free(list);

    return tap_done();
}
