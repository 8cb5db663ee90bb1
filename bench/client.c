
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The benchmark's load client, on libcurl's multi interface and epoll: many
 * send-message requests at once, each turn a session of its own.  Every turn
 * is verified: sequence numbers without a gap, the number of chunks and the
 * digest of their text (see opencode.c), the tool call, one terminal packet
 * and nothing after it.  The result is one line of JSON.
 *
 *   client url=http://127.0.0.1:8080/sessions clients=100 turns=100
 *       prompt="bench deltas=200" deltas=200 tool=0 ramp=1000
 *       slow=0 rate=0 cut=0 watchers=0 timeout=60 protocol=packets
 *
 * slow: so many clients read rate bytes/s only.  cut: after so many packets a
 * client leaves and goes on with GET {id}/events.  watchers: so many others
 * watch the first turn.  When all clients have had a packet, "held" is printed.
 * talk=1: the turns of a client are in one session, as in a conversation.
 * protocol: packets, ai-sdk or ag-ui; url is the location of the latter two.
 */


#include "client.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>


long              clients = 1, watchers, deltas = 200, tool;

static char      *url = "http://127.0.0.1:8080/sessions";
static char      *prompt = "bench";
static long       turns = 1, ramp, slow, rate, cut, timeout = 60, talk;

static int        ep;
static CURLM     *multi;
static long       timer = -1;
static uint64_t   timer_set;

static uint64_t   begun, bytes;
static long       nstarted, nactive, nok, nfailed;

static client_t  *all;


static uint64_t
now_us(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


static size_t
client_write(char *data, size_t size, size_t n, void *ctx)
{
    client_t *cl = ctx;

    char      *p, *end, *lf;
    size_t     len, room;
    uint64_t   now;

    n *= size;
    bytes += n;
    now = now_us();
    end = data + n;

    for (p = data; p < end; p = lf + 1) {
        lf = memchr(p, '\n', end - p);
        len = (lf ? lf : end) - p;

        if (cl->len < HEAD) {
            room = HEAD - cl->len;
            memcpy(cl->line + cl->len, p, len < room ? len : room);
        }

        cl->len += len;

        if (lf == NULL) {
            break;
        }

        client_line(cl, now);
        cl->len = 0;

        if (cut && !cl->resumed && cl->seq == (uint64_t) cut
            && cl->line[0] == 'd')
        {
            cl->cutting = 1;
            return 0;
        }
    }

    return n;
}


static void
client_open(client_t *cl)
{
    int    n;
    char   text[1024], header[128];
    CURL  *easy;

    if (cl->easy == NULL) {
        cl->easy = curl_easy_init();
    }

    easy = cl->easy;
    curl_easy_reset(easy);
    curl_slist_free_all(cl->headers);
    cl->headers = NULL;

    snprintf(text, sizeof(text), protocol->path ? "%s/%s/%s" : "%s", url,
             cl->session,
             cl->watcher || cl->resumed ? "events" : "send-message");

    curl_easy_setopt(easy, CURLOPT_URL, text);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, cl);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, client_write);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, cl);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, timeout);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 65536L);

    if (cl->resumed) {
        snprintf(header, sizeof(header), "Last-Event-ID: %s:%llu", cl->turn,
                 (unsigned long long) cl->seq);
        cl->headers = curl_slist_append(NULL, header);

    } else if (!cl->watcher) {
        n = snprintf(text, sizeof(text), protocol->named, cl->session);
        snprintf(text + n, sizeof(text) - n, protocol->body, prompt);
        curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, text);
        cl->headers = curl_slist_append(NULL,
                                        "Content-Type: application/json");
        cl->headers = curl_slist_append(cl->headers, "Expect:");
    }

    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, cl->headers);

    if (cl->slow) {
        curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 1024L);
        curl_easy_setopt(easy, CURLOPT_MAX_RECV_SPEED_LARGE,
                         (curl_off_t) rate);
    }

    nactive++;
    cl->started = now_us();
    curl_multi_add_handle(multi, easy);
}


static void
client_start(client_t *cl)
{
    cl->seq = 0;
    cl->len = 0;
    cl->digest = DIGEST;
    cl->chunks = 0;
    cl->starts = 0;
    cl->completed = 0;
    cl->terminals = 0;
    cl->first = 0;
    cl->failed = 0;
    cl->resumed = 0;
    cl->cutting = 0;

    if (!cl->watcher) {
        nstarted++;
    }

    if (!talk || cl->session[0] == '\0') {
        snprintf(cl->session, sizeof(cl->session), "%s_%012llx%06ldBench0",
                 protocol->path ? "ses" : "name", (unsigned long long) begun,
                 cl->watcher ? 1 : nstarted);
    }

    client_open(cl);
}


static void
client_done(client_t *cl, CURLcode rc)
{
    long  status;

    nactive--;
    curl_easy_getinfo(cl->easy, CURLINFO_RESPONSE_CODE, &status);

    if (cl->cutting) {
        cl->cutting = 0;
        cl->resumed = 1;
        cl->len = 0;
        client_open(cl);
        return;
    }

    if (rc != CURLE_OK) {
        client_fail(cl, curl_easy_strerror(rc), cl->line, 0);
    }

    if (status != 200) {
        snprintf(cl->line, HEAD, "%ld", status);
        client_fail(cl, "status", cl->line, strlen(cl->line));
    }

    client_check(cl);

    if (cl->failed) {
        nfailed++;

    } else {
        nok++;
    }

    if (nstarted < turns && !cl->watcher) {
        client_start(cl);
    }
}


static int
socket_handler(CURL *easy, curl_socket_t fd, int what, void *ctx, void *data)
{
    struct epoll_event  ee;

    (void) easy;
    (void) ctx;

    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }

    ee.events = (what & CURL_POLL_IN ? EPOLLIN : 0)
                | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    ee.data.fd = fd;

    if (data == NULL) {
        curl_multi_assign(multi, fd, multi);

        if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ee) == 0 || errno != EEXIST) {
            return 0;
        }
    }

    if (epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ee) == -1 && errno == ENOENT) {
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ee);
    }

    return 0;
}


static int
timer_handler(CURLM *m, long ms, void *ctx)
{
    (void) m;
    (void) ctx;

    timer = ms;
    timer_set = now_us();

    return 0;
}


static void
loop_once(long wait)
{
    int                  i, n, running, left;
    long                 due;
    CURLMsg             *msg;
    client_t            *cl;
    struct epoll_event   list[256];

    if (timer >= 0) {
        due = timer - (long) ((now_us() - timer_set) / 1000);
        due = due < 0 ? 0 : due;
        wait = due < wait ? due : wait;
    }

    n = epoll_wait(ep, list, 256, wait);

    if (timer >= 0 && now_us() - timer_set >= (uint64_t) timer * 1000) {
        timer = -1;
        curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }

    for (i = 0; i < n; i++) {
        curl_multi_socket_action(multi, list[i].data.fd,
                    (list[i].events & EPOLLIN ? CURL_CSELECT_IN : 0)
                    | (list[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0)
                    | (list[i].events & (EPOLLERR|EPOLLHUP)
                       ? CURL_CSELECT_IN|CURL_CSELECT_ERR : 0), &running);
    }

    while ((msg = curl_multi_info_read(multi, &left))) {

        if (msg->msg != CURLMSG_DONE) {
            continue;
        }

        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &cl);
        curl_multi_remove_handle(multi, msg->easy_handle);
        client_done(cl, msg->data.result);
    }
}


static int
compare(const void *a, const void *b)
{
    uint32_t  x = *(uint32_t *) a, y = *(uint32_t *) b;

    return (x > y) - (x < y);
}


static uint32_t
percentile(uint32_t *sample, size_t n, double p)
{
    return n ? sample[(size_t) ((n - 1) * p)] : 0;
}


static void
report(uint64_t took)
{
    char           *p;
    double          cpu;
    struct rusage   ru;

    qsort(latency, nlatency, sizeof(uint32_t), compare);
    qsort(first, nfirst, sizeof(uint32_t), compare);
    getrusage(RUSAGE_SELF, &ru);

    cpu = ru.ru_utime.tv_sec + ru.ru_stime.tv_sec
          + (ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;

    for (p = failure; *p; p++) {
        if (*p == '"' || *p == '\\' || (unsigned char) *p < ' ') {
            *p = '\'';
        }
    }

    printf("{\"turns\":%ld,\"failed\":%ld,\"failure\":\"%s\",\"events\":%llu,"
           "\"bytes\":%llu,\"seconds\":%.6f,\"cpu\":%.3f,"
           "\"p50\":%u,\"p99\":%u,\"p999\":%u,\"max\":%u,"
           "\"first50\":%u,\"first99\":%u}\n",
           nok, nfailed, failure, (unsigned long long) events,
           (unsigned long long) bytes, took / 1e6, cpu,
           percentile(latency, nlatency, 0.5),
           percentile(latency, nlatency, 0.99),
           percentile(latency, nlatency, 0.999),
           percentile(latency, nlatency, 1),
           percentile(first, nfirst, 0.5), percentile(first, nfirst, 0.99));
}


static void
options(int argc, char **argv)
{
    int      i;
    char    *value;
    size_t   n;

    static struct { const char *name; long *value; }  numbers[] = {
        { "clients", &clients }, { "turns", &turns }, { "deltas", &deltas },
        { "tool", &tool }, { "ramp", &ramp }, { "slow", &slow },
        { "rate", &rate }, { "cut", &cut }, { "watchers", &watchers },
        { "timeout", &timeout }, { "talk", &talk }
    };

    for (i = 1; i < argc; i++) {
        value = strchr(argv[i], '=');

        if (value == NULL) {
            goto failed;
        }

        *value++ = '\0';

        if (strcmp(argv[i], "url") == 0) {
            url = value;
            continue;
        }

        if (strcmp(argv[i], "prompt") == 0) {
            prompt = value;
            continue;
        }

        if (strcmp(argv[i], "protocol") == 0 && protocol_set(value)) {
            continue;
        }

        for (n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
            if (strcmp(argv[i], numbers[n].name) == 0) {
                *numbers[n].value = strtol(value, NULL, 10);
                break;
            }
        }

        if (n == sizeof(numbers) / sizeof(numbers[0])) {
            goto failed;
        }
    }

    clients = clients < turns ? clients : turns;
    return;

failed:

    fprintf(stderr, "client: bad option \"%s\"\n", argv[i]);
    exit(2);
}


int
main(int argc, char **argv)
{
    long           nopen;
    uint64_t       end, now;
    struct rlimit  rl;

    options(argc, argv);
    verify_init();

    getrlimit(RLIMIT_NOFILE, &rl);
    rl.rlim_cur = rl.rlim_max;
    setrlimit(RLIMIT_NOFILE, &rl);

    latency = malloc(SAMPLES * sizeof(uint32_t));
    first = malloc(SAMPLES * sizeof(uint32_t));
    all = calloc(clients + watchers, sizeof(client_t));

    if (latency == NULL || first == NULL || all == NULL) {
        return 1;
    }

    curl_global_init(CURL_GLOBAL_DEFAULT);

    ep = epoll_create1(EPOLL_CLOEXEC);
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket_handler);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer_handler);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, clients + watchers + 10);

    begun = now_us();
    end = begun + (uint64_t) timeout * 1000000;
    nopen = 0;

    do {
        now = now_us();

        while (nopen < clients
               && now - begun >= (uint64_t) (ramp * 1000 * nopen / clients))
        {
            all[nopen].slow = (nopen < slow);
            client_start(&all[nopen++]);
        }

        /* the watchers come when their turn has begun */

        if (nopen >= clients && all[0].first) {
            while (nopen < clients + watchers) {
                all[nopen].watcher = 1;
                client_start(&all[nopen++]);
            }
        }

        loop_once(nopen < clients + watchers ? 1 : 100);

    } while ((nactive || nopen < clients || nstarted < turns)
             && now < end);

    if (nactive) {
        nfailed += nactive;

        if (failure[0] == '\0') {
            snprintf(failure, sizeof(failure), "timeout, %ld still run",
                     nactive);
        }
    }

    report(now_us() - begun);

    return nfailed != 0;
}
