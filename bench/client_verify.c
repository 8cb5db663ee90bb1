
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Whether a turn that the load client has read is whole: the order, number and
 * digest of its chunks, its tool call, its one end.
 */


#include "client.h"


#define WINDOW     916132832ull /* 62 ** 5 */


static protocol_t  protocols[] = {
    {
        .name = "packets",
        .named = "{",
        .body = "\"content\":\"%s\"}",
        .first = "turn_started",
        .chunk = "agent_message_chunk",
        .text = "\"text\":\"",
        .tool = "tool_call_start",
        .result = "tool_call_progress",
        .running = "\"status\":\"in_progress\"",
        .end = "prompt_response",
        .ended = "\"stopReason\":\"end_turn\"",
        .path = 1
    },
    {
        .name = "ai-sdk",
        .named = "{\"id\":\"%s\",",
        .body = "\"trigger\":\"submit-message\",\"messages\":[{"
                "\"id\":\"m1\",\"role\":\"user\",\"parts\":[{"
                "\"type\":\"text\",\"text\":\"%s\"}]}]}",
        .first = "start",
        .chunk = "text-delta",
        .text = "\"delta\":\"",
        .tool = "tool-input-start",
        .result = "tool-output-available",
        .running = "\"preliminary\":true",
        .end = "finish",
        .ended = "\"finishReason\":\"stop\""
    },
    {
        .name = "ag-ui",
        .named = "{\"threadId\":\"%s\",",
        .body = "\"runId\":\"r1\",\"messages\":[{"
                "\"id\":\"m1\",\"role\":\"user\",\"content\":\"%s\"}],"
                "\"state\":{},\"tools\":[],\"context\":[],"
                "\"forwardedProps\":{}}",
        .first = "RUN_STARTED",
        .chunk = "TEXT_MESSAGE_CONTENT",
        .text = "\"delta\":\"",
        .tool = "TOOL_CALL_START",
        .result = "TOOL_CALL_RESULT",
        .end = "RUN_FINISHED",
        .ended = "\"success\""
    }
};


protocol_t          *protocol = &protocols[0];
uint64_t             events;
long                 nheld;
char                 failure[256];
uint32_t            *latency, *first;
size_t               nlatency, nfirst;

static signed char   digit[256];


void
client_fail(client_t *cl, const char *why, const char *what, size_t len)
{
    if (cl->failed) {
        return;
    }

    cl->failed = 1;

    if (failure[0] == '\0') {
        snprintf(failure, sizeof(failure), "%s after %llu packets: %.*s", why,
                 (unsigned long long) cl->seq, (int) (len > 100 ? 100 : len),
                 what);
    }
}


static const char *
client_find(client_t *cl, const char *text)
{
    return memmem(cl->line, cl->len < HEAD ? cl->len : HEAD, text,
                  strlen(text));
}


static void
client_chunk(client_t *cl, uint64_t now)
{
    int          i;
    char         want[24];
    uint64_t     sent;
    const char  *p, *end;

    p = client_find(cl, protocol->text);

    if (p == NULL) {
        client_fail(cl, "chunk without text", cl->line, cl->len);
        return;
    }

    p += strlen(protocol->text);
    end = memchr(p, '"', cl->line + HEAD - p);

    if (end == NULL || end - p < 6) {
        client_fail(cl, "bad text", cl->line, cl->len);
        return;
    }

    cl->chunks++;

    if (*p == '#') {
        snprintf(want, sizeof(want), "#%016llx",
                 (unsigned long long) cl->digest);

        if (end - p != 17 || memcmp(p, want, 17) != 0) {
            client_fail(cl, "wrong digest", cl->line, cl->len);
        }

        return;
    }

    for (i = 0, sent = 0; i < 5; i++) {
        sent = sent * 62 + digit[(unsigned char) p[i]];
    }

    if (nlatency < SAMPLES && !cl->slow) {
        latency[nlatency++] = (now % WINDOW + WINDOW - sent) % WINDOW;
    }

    for ( /* void */ ; p < end; p++) {
        cl->digest = (cl->digest ^ (unsigned char) *p) * 0x100000001b3ull;
    }
}


static int
is_type(const char *p, const char *type)
{
    size_t  n;

    n = strlen(type);

    return strncmp(p, type, n) == 0 && p[n] == '"';
}


static void
client_result(client_t *cl)
{
    if (protocol->running && client_find(cl, protocol->running)) {
        return;
    }

    cl->completed++;

    if (cl->len < (size_t) tool) {
        client_fail(cl, "short tool output", cl->line, cl->len);
    }
}


static void
client_first(client_t *cl, const char *type, uint64_t now)
{
    cl->first = 1;

    if (!cl->resumed && !is_type(type, protocol->first)) {
        client_fail(cl, "wrong begin", cl->line, cl->len);
    }

    if (nfirst < SAMPLES && !cl->watcher && !cl->resumed) {
        first[nfirst++] = now - cl->started;
    }
}


static void
client_packet(client_t *cl, uint64_t now)
{
    const char  *p;

    static const char  data[] = "data: {\"type\":\"";

    if (strcmp(cl->line, "data: [DONE]") == 0 && cl->terminals) {
        return;
    }

    if (cl->len < sizeof(data) || memcmp(cl->line, data, sizeof(data) - 1)) {
        client_fail(cl, "bad packet", cl->line, cl->len);
        return;
    }

    events++;
    p = cl->line + sizeof(data) - 1;

    if (cl->terminals) {
        client_fail(cl, "packet after the end", cl->line, cl->len);
    }

    if (!cl->first) {
        client_first(cl, p, now);
    }

    if (is_type(p, protocol->chunk)) {
        client_chunk(cl, now);

    } else if (is_type(p, protocol->tool)) {
        cl->starts++;

    } else if (is_type(p, protocol->result)) {
        client_result(cl);

    } else if (is_type(p, protocol->end)) {
        cl->terminals++;

        if (client_find(cl, protocol->ended) == NULL) {
            client_fail(cl, "wrong end", cl->line, cl->len);
        }

    } else if (is_type(p, "error") || is_type(p, "RUN_ERROR")) {
        cl->terminals++;
        client_fail(cl, "error packet", cl->line, cl->len);
    }

    if (!cl->held && nheld < clients + watchers) {
        cl->held = 1;

        if (++nheld == clients + watchers) {
            printf("held\n");
            fflush(stdout);
        }
    }
}


void
client_line(client_t *cl, uint64_t now)
{
    char      *p;
    uint64_t   seq;

    if (cl->len < HEAD) {
        cl->line[cl->len] = '\0';

    } else {
        cl->line[HEAD - 1] = '\0';
    }

    switch (cl->line[0]) {

    case '\0':
    case ':':
    case 'r':
        return;

    case 'e':
        if (strcmp(cl->line, "event: message")) {
            client_fail(cl, "bad event line", cl->line, cl->len);
        }

        return;

    case 'i':
        p = strrchr(cl->line, ':');
        seq = strtoull(p + 1, NULL, 10);

        if (seq != cl->seq + 1) {
            client_fail(cl, "gap", cl->line, cl->len);
        }

        cl->seq = seq;
        *p = '\0';
        snprintf(cl->turn, sizeof(cl->turn), "%.60s", cl->line + 4);
        return;

    default:
        client_packet(cl, now);
    }
}


void
client_check(client_t *cl)
{
    if (cl->chunks != deltas || cl->terminals != 1
        || cl->starts != (tool != 0) || cl->completed != (tool != 0))
    {
        snprintf(cl->line, HEAD, "%ld chunks, %ld+%ld tool, %ld ends",
                 cl->chunks, cl->starts, cl->completed, cl->terminals);
        client_fail(cl, "incomplete", cl->line, strlen(cl->line));
    }
}


int
protocol_set(const char *name)
{
    size_t  i;

    for (i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
        if (strcmp(protocols[i].name, name) == 0) {
            protocol = &protocols[i];
            return 1;
        }
    }

    return 0;
}


void
verify_init(void)
{
    int  i;

    static const char  base62[] =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    for (i = 0; i < 62; i++) {
        digit[(unsigned char) base62[i]] = i;
    }
}
