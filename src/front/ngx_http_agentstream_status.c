
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The status.  One table lists all metrics; in JSON a group is an object, for
 * Prometheus it is part of the name.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_agentstream_conf.h"
#include "ngx_http_agentstream_status.h"
#include "ngx_http_agentstream_store.h"
#include "ngx_http_agentstream_version.h"


/* for Prometheus: the version, as a label of a metric that is always 1 */
#define NGX_HTTP_AGENTSTREAM_STATUS_INFO                                      \
    "# HELP agentstream_build_info The version of the module.\n"              \
    "# TYPE agentstream_build_info gauge\n"                                   \
    "agentstream_build_info{version=\"" NGX_HTTP_AGENTSTREAM_VERSION "\"} 1\n"


/* metrics that the workers do not count, numbered after those that they
   count */

typedef enum {
    NGX_HTTP_AGENTSTREAM_STATUS_WORKERS = NGX_HTTP_AGENTSTREAM_STAT_MAX,
    NGX_HTTP_AGENTSTREAM_STATUS_SIZE,
    NGX_HTTP_AGENTSTREAM_STATUS_FREE,
    NGX_HTTP_AGENTSTREAM_STATUS_RUNNING,
    NGX_HTTP_AGENTSTREAM_STATUS_FINISHED,
    NGX_HTTP_AGENTSTREAM_STATUS_CHATS,

    NGX_HTTP_AGENTSTREAM_STATUS_MAX
} ngx_http_agentstream_status_e;


typedef struct {
    const char                          *group;
    const char                          *name;
    ngx_uint_t                           value;
    ngx_uint_t                           counter;  /* a counter, not a gauge */
    const char                          *help;
} ngx_http_agentstream_metric_t;


typedef struct {
    const char                          *name;
    ngx_uint_t                           value;
    const char                          *help;
} ngx_http_agentstream_histogram_t;


/* bytes of one histogram: its buckets, sum and count; its names are extra */
#define NGX_HTTP_AGENTSTREAM_STATUS_TIMES                                     \
    ((NGX_HTTP_AGENTSTREAM_STORE_BUCKETS + 5) * (64 + NGX_INT64_LEN))


static u_char *ngx_http_agentstream_status_json_times(u_char *p,
    uint64_t *values);
static u_char *ngx_http_agentstream_status_prometheus_times(u_char *p,
    uint64_t *values);
static void ngx_http_agentstream_status_collect(uint64_t *values);
static u_char *ngx_http_agentstream_status_json(u_char *p, uint64_t *values);
static u_char *ngx_http_agentstream_status_prometheus(u_char *p,
    uint64_t *values);
static ngx_int_t ngx_http_agentstream_status_send(ngx_http_request_t *r,
    ngx_uint_t status, ngx_str_t *type, ngx_str_t *text);


static ngx_http_agentstream_metric_t  ngx_http_agentstream_metrics[] = {

    { "workers", "running", NGX_HTTP_AGENTSTREAM_STATUS_WORKERS, 0,
      "Worker processes." },

    { "zone", "size_bytes", NGX_HTTP_AGENTSTREAM_STATUS_SIZE, 0,
      "Size of the shared memory zone." },

    { "zone", "free_bytes", NGX_HTTP_AGENTSTREAM_STATUS_FREE, 0,
      "Free pages of the zone." },

    { "turns", "running", NGX_HTTP_AGENTSTREAM_STATUS_RUNNING, 0,
      "Turns that run now." },

    { "turns", "finished", NGX_HTTP_AGENTSTREAM_STATUS_FINISHED, 0,
      "Finished turns that can be replayed." },

    { "turns", "started", NGX_HTTP_AGENTSTREAM_STAT_STARTED, 1,
      "Turns that were started." },

    { "turns", "completed", NGX_HTTP_AGENTSTREAM_STAT_COMPLETED, 1,
      "Turns that ended by themselves." },

    { "turns", "cancelled", NGX_HTTP_AGENTSTREAM_STAT_CANCELLED, 1,
      "Turns that were interrupted." },

    { "turns", "failed", NGX_HTTP_AGENTSTREAM_STAT_FAILED, 1,
      "Turns that ended with an error." },

    { "turns", "adopted", NGX_HTTP_AGENTSTREAM_STAT_ADOPTED, 1,
      "Turns taken over from a dead worker." },

    { "turns", "evicted", NGX_HTTP_AGENTSTREAM_STAT_EVICTED, 1,
      "Finished turns freed early, the zone was full." },

    { "packets", "written", NGX_HTTP_AGENTSTREAM_STAT_PACKETS, 1,
      "Packets of turns." },

    { "packets", "bytes", NGX_HTTP_AGENTSTREAM_STAT_BYTES, 1,
      "Bytes of these packets." },

    { "packets", "dropped", NGX_HTTP_AGENTSTREAM_STAT_DROPPED, 1,
      "Packets of running turns dropped for want of room." },

    { "streams", "open", NGX_HTTP_AGENTSTREAM_STAT_STREAMS, 0,
      "Streams and histories being sent." },

    { "streams", "opened", NGX_HTTP_AGENTSTREAM_STAT_OPENED, 1,
      "Event streams begun." },

    { "streams", "resets", NGX_HTTP_AGENTSTREAM_STAT_RESETS, 1,
      "Packets stream_reset." },

    { "opencode", "subscriptions", NGX_HTTP_AGENTSTREAM_STAT_SUBSCRIPTIONS, 0,
      "Event streams of OpenCode that are open." },

    { "opencode", "subscriptions_lost", NGX_HTTP_AGENTSTREAM_STAT_BROKEN, 1,
      "Event streams of OpenCode that failed." },

    { "opencode", "events", NGX_HTTP_AGENTSTREAM_STAT_EVENTS, 1,
      "Events of OpenCode." },

    { "opencode", "events_skipped", NGX_HTTP_AGENTSTREAM_STAT_SKIPPED, 1,
      "Events that were too large or malformed." },

    { "opencode", "requests_active", NGX_HTTP_AGENTSTREAM_STAT_CALLS, 0,
      "Requests to OpenCode without an answer yet." },

    { "opencode", "requests", NGX_HTTP_AGENTSTREAM_STAT_REQUESTS, 1,
      "Requests to OpenCode." },

    { "opencode", "requests_failed", NGX_HTTP_AGENTSTREAM_STAT_ERRORS, 1,
      "Requests without an answer, or with one of 500 and above." },

    { "opencode", "reconciliations", NGX_HTTP_AGENTSTREAM_STAT_RECONCILED, 1,
      "Times a turn asked OpenCode how it stands." },

    { "chats", "known", NGX_HTTP_AGENTSTREAM_STATUS_CHATS, 0,
      "Chats that are remembered." },

    { "chats", "received", NGX_HTTP_AGENTSTREAM_STAT_CHAT_IN, 1,
      "Messages, commands and presses that were accepted." },

    { "chats", "sent", NGX_HTTP_AGENTSTREAM_STAT_CHAT_OUT, 1,
      "Messages that platforms have taken." },

    { "chats", "edits", NGX_HTTP_AGENTSTREAM_STAT_CHAT_EDITS, 1,
      "Edits of messages." },

    { "chats", "limited", NGX_HTTP_AGENTSTREAM_STAT_CHAT_LIMITED, 1,
      "Answers 429 of platforms." },

    { "chats", "failed", NGX_HTTP_AGENTSTREAM_STAT_CHAT_FAILED, 1,
      "Other calls that platforms did not carry out." },

    { "chats", "answers", NGX_HTTP_AGENTSTREAM_STAT_CHAT_ANSWERS, 1,
      "Answers that were delivered." },

    { "chats", "answer_seconds", NGX_HTTP_AGENTSTREAM_STAT_CHAT_SECONDS, 1,
      "Time from the end of turns to the delivery of their answers." },
    { "store", "connected", NGX_HTTP_AGENTSTREAM_STAT_STORE_UP, 0,
      "Workers that can use the store of all machines." },

    { "store", "sessions", NGX_HTTP_AGENTSTREAM_STAT_STORE_SESSIONS, 0,
      "Sessions watched for turns of other machines." },

    { "store", "turns_copied", NGX_HTTP_AGENTSTREAM_STAT_STORE_MIRRORS, 0,
      "Turns of other machines that are copied." },

    { "store", "packets_waiting", NGX_HTTP_AGENTSTREAM_STAT_STORE_WAITING, 0,
      "Packets that the store has not acknowledged." },

    { "store", "packets_copied", NGX_HTTP_AGENTSTREAM_STAT_COPIED, 1,
      "Packets of other machines." },

    { "store", "commands", NGX_HTTP_AGENTSTREAM_STAT_STORE_SENT, 1,
      "Scripts that the store was to run." },

    { "store", "commands_refused", NGX_HTTP_AGENTSTREAM_STAT_STORE_REFUSED, 1,
      "Packets and turns that the store refused." },

    { "store", "connections_lost", NGX_HTTP_AGENTSTREAM_STAT_STORE_LOST, 1,
      "Times that the store went away." },

    { "store", "prompts_unreplicated",
      NGX_HTTP_AGENTSTREAM_STAT_STORE_UNREPLICATED, 1,
      "Prompts that no replica of the store had acknowledged in time." },

    { "store", "leases_lost", NGX_HTTP_AGENTSTREAM_STAT_STORE_LEASES_LOST, 1,
      "Leases of workers that ended before they were renewed." },

    { "store", "fenced", NGX_HTTP_AGENTSTREAM_STAT_FENCED, 1,
      "Turns that another machine had taken over." },

    { NULL, NULL, 0, 0, NULL }
};


/* times, which the workers count by their length */

static ngx_http_agentstream_histogram_t  ngx_http_agentstream_histograms[] = {

    { "first_packet", NGX_HTTP_AGENTSTREAM_STAT_FIRST_PACKET,
      "Time from a prompt to the first packet of its turn." },

    { "turn_duration", NGX_HTTP_AGENTSTREAM_STAT_TURN_DURATION,
      "Duration of turns." },

    { "delivery_lag", NGX_HTTP_AGENTSTREAM_STAT_DELIVERY_LAG,
      "Time that packets wait for a client, the oldest of each write." },

    { "store_round_trip", NGX_HTTP_AGENTSTREAM_STAT_STORE_ROUND_TRIP,
      "Time until the store has acknowledged packets." },

    { NULL, 0, NULL }
};


ngx_int_t
ngx_http_agentstream_status_handler(ngx_http_request_t *r)
{
    size_t                             len;
    u_char                            *last;
    uint64_t                           values[NGX_HTTP_AGENTSTREAM_STATUS_MAX];
    ngx_str_t                          format, text;
    ngx_http_agentstream_metric_t     *m;
    ngx_http_agentstream_histogram_t  *h;

    static ngx_str_t  json = ngx_string("application/json");
    static ngx_str_t  plain = ngx_string("text/plain");
    static ngx_str_t  prometheus = ngx_string("text/plain; version=0.0.4");
    static ngx_str_t  unknown =
                       ngx_string("format is \"json\" or \"prometheus\"\n");

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    if (ngx_http_arg(r, (u_char *) "format", 6, &format) != NGX_OK) {
        ngx_str_set(&format, "json");
    }

    len = sizeof(NGX_HTTP_AGENTSTREAM_STATUS_INFO) + sizeof("}}\n");

    for (m = ngx_http_agentstream_metrics; m->name; m++) {
        len += sizeof("# HELP agentstream___total \n"
                      "# TYPE agentstream___total counter\n"
                      "agentstream___total \n")
               + 3 * (ngx_strlen(m->group) + ngx_strlen(m->name))
               + ngx_strlen(m->help) + NGX_INT64_LEN;
    }

    for (h = ngx_http_agentstream_histograms; h->name; h++) {
        len += NGX_HTTP_AGENTSTREAM_STATUS_TIMES
               + (NGX_HTTP_AGENTSTREAM_STORE_BUCKETS + 5) * ngx_strlen(h->name)
               + ngx_strlen(h->help);
    }

    text.data = ngx_pnalloc(r->pool, len);
    if (text.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_agentstream_status_collect(values);

    if (format.len == sizeof("json") - 1
        && ngx_strncmp(format.data, "json", format.len) == 0)
    {
        last = ngx_http_agentstream_status_json(text.data, values);
        text.len = last - text.data;

        return ngx_http_agentstream_status_send(r, NGX_HTTP_OK, &json, &text);
    }

    if (format.len == sizeof("prometheus") - 1
        && ngx_strncmp(format.data, "prometheus", format.len) == 0)
    {
        last = ngx_http_agentstream_status_prometheus(text.data, values);
        text.len = last - text.data;

        return ngx_http_agentstream_status_send(r, NGX_HTTP_OK, &prometheus,
                                                &text);
    }

    return ngx_http_agentstream_status_send(r, NGX_HTTP_BAD_REQUEST, &plain,
                                            &unknown);
}


static void
ngx_http_agentstream_status_collect(uint64_t *values)
{
    ngx_http_agentstream_store_stats_t  stats;

    ngx_http_agentstream_store_stats(ngx_http_agentstream_worker->zone, &stats);

    ngx_memcpy(values, stats.stats, sizeof(stats.stats));

    values[NGX_HTTP_AGENTSTREAM_STATUS_WORKERS] = stats.workers;
    values[NGX_HTTP_AGENTSTREAM_STATUS_SIZE] = stats.size;
    values[NGX_HTTP_AGENTSTREAM_STATUS_FREE] = stats.free;
    values[NGX_HTTP_AGENTSTREAM_STATUS_RUNNING] = stats.running;
    values[NGX_HTTP_AGENTSTREAM_STATUS_FINISHED] = stats.finished;
    values[NGX_HTTP_AGENTSTREAM_STATUS_CHATS] = stats.chats;
}


static u_char *
ngx_http_agentstream_status_json(u_char *p, uint64_t *values)
{
    const char                     *group;
    ngx_http_agentstream_metric_t  *m;

    group = NULL;

    p = ngx_sprintf(p, "{\"version\":\"%s\"", NGX_HTTP_AGENTSTREAM_VERSION);

    for (m = ngx_http_agentstream_metrics; m->name; m++) {

        if (group && ngx_strcmp(group, m->group) == 0) {
            *p++ = ',';

        } else {
            p = ngx_sprintf(p, "%s\"%s\":{", group ? "}," : ",", m->group);
            group = m->group;
        }

        p = ngx_sprintf(p, "\"%s\":%uL", m->name, values[m->value]);
    }

    *p++ = '}';

    return ngx_http_agentstream_status_json_times(p, values);
}


static u_char *
ngx_http_agentstream_status_prometheus(u_char *p, uint64_t *values)
{
    const char                     *total;
    ngx_http_agentstream_metric_t  *m;

    p = ngx_cpymem(p, NGX_HTTP_AGENTSTREAM_STATUS_INFO,
                   sizeof(NGX_HTTP_AGENTSTREAM_STATUS_INFO) - 1);

    for (m = ngx_http_agentstream_metrics; m->name; m++) {
        total = m->counter ? "_total" : "";

        p = ngx_sprintf(p, "# HELP agentstream_%s_%s%s %s\n"
                           "# TYPE agentstream_%s_%s%s %s\n"
                           "agentstream_%s_%s%s %uL\n",
                        m->group, m->name, total, m->help,
                        m->group, m->name, total,
                        m->counter ? "counter" : "gauge",
                        m->group, m->name, total, values[m->value]);
    }

    return ngx_http_agentstream_status_prometheus_times(p, values);
}


/* each bucket has what lies between the bound before and its own */

static u_char *
ngx_http_agentstream_status_json_times(u_char *p, uint64_t *values)
{
    uint64_t                          *v, count;
    ngx_uint_t                         i;
    ngx_http_agentstream_histogram_t  *h;

    p = ngx_sprintf(p, ",\"histograms\":");

    for (h = ngx_http_agentstream_histograms; h->name; h++) {
        v = values + h->value;
        count = 0;

        p = ngx_sprintf(p, "%c\"%s\":{\"buckets_ms\":",
                        (h == ngx_http_agentstream_histograms) ? '{' : ',',
                        h->name);

        for (i = 0; i < NGX_HTTP_AGENTSTREAM_STORE_BUCKETS - 1; i++) {
            p = ngx_sprintf(p, "%c\"%M\":%uL", i ? ',' : '{',
                            ngx_http_agentstream_store_bounds[i], v[i]);
            count += v[i];
        }

        count += v[i];

        p = ngx_sprintf(p, ",\"+Inf\":%uL},\"count\":%uL,\"sum_ms\":%uL}",
                        v[i], count, v[i + 1]);
    }

    return ngx_cpymem(p, "}}\n", sizeof("}}\n") - 1);
}


/* each bucket has everything up to its bound, in seconds */

static u_char *
ngx_http_agentstream_status_prometheus_times(u_char *p, uint64_t *values)
{
    uint64_t                          *v, count;
    ngx_uint_t                         i;
    ngx_msec_t                         bound;
    ngx_http_agentstream_histogram_t  *h;

    for (h = ngx_http_agentstream_histograms; h->name; h++) {
        v = values + h->value;
        count = 0;

        p = ngx_sprintf(p, "# HELP agentstream_%s_seconds %s\n"
                           "# TYPE agentstream_%s_seconds histogram\n",
                        h->name, h->help, h->name);

        for (i = 0; i < NGX_HTTP_AGENTSTREAM_STORE_BUCKETS - 1; i++) {
            bound = ngx_http_agentstream_store_bounds[i];
            count += v[i];

            p = ngx_sprintf(p, "agentstream_%s_seconds_bucket"
                               "{le=\"%M.%03M\"} %uL\n",
                            h->name, bound / 1000, bound % 1000, count);
        }

        count += v[i];

        p = ngx_sprintf(p, "agentstream_%s_seconds_bucket{le=\"+Inf\"} %uL\n"
                           "agentstream_%s_seconds_sum %uL.%03uL\n"
                           "agentstream_%s_seconds_count %uL\n",
                        h->name, count, h->name, v[i + 1] / 1000,
                        v[i + 1] % 1000, h->name, count);
    }

    return p;
}


static ngx_int_t
ngx_http_agentstream_status_send(ngx_http_request_t *r, ngx_uint_t status,
    ngx_str_t *type, ngx_str_t *text)
{
    ngx_http_complex_value_t  cv;

    ngx_memzero(&cv, sizeof(ngx_http_complex_value_t));

    cv.value = *text;

    return ngx_http_send_response(r, status, type, &cv);
}
