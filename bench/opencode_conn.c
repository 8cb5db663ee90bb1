
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The fake OpenCode's connections: HTTP/1.1, without blocking.  Output is
 * queued, and sent once per round of the event loop.
 */


#include "opencode.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>


#define BACKLOG  (256 * 1024 * 1024)      /* queued, before a reader is cut */
#define REQUEST  (1024 * 1024)


conn_t         *subscribers;

static int      ep, ls;
static conn_t  *dirty;


void
conn_dirty(conn_t *c)
{
    if (!c->queued) {
        c->queued = 1;
        c->dirty = dirty;
        dirty = c;
    }
}


static void
conn_close(conn_t *c)
{
    if (c->gone) {
        return;
    }

    c->gone = 1;

    if (c->subscriber) {
        if (c->prev) {
            c->prev->next = c->next;

        } else {
            subscribers = c->next;
        }

        if (c->next) {
            c->next->prev = c->prev;
        }
    }

    if (c->turn) {
        turn_leave(c);
    }

    close(c->fd);

    /* freed by conn_flush(), nobody holds it then */

    conn_dirty(c);
}


void
conn_flush(void)
{
    conn_t              *c, *next;
    ssize_t              n;
    struct epoll_event   ee;

    for (c = dirty, dirty = NULL; c; c = next) {
        next = c->dirty;
        c->queued = 0;

        if (c->gone) {
            free(c->in.data);
            free(c->out.data);
            free(c);
            continue;
        }

        while (c->out.sent < c->out.len) {
            n = send(c->fd, c->out.data + c->out.sent,
                     c->out.len - c->out.sent, MSG_NOSIGNAL);

            if (n > 0) {
                c->out.sent += n;
                continue;
            }

            if (n == -1 && errno == EINTR) {
                continue;
            }

            break;
        }

        if (c->out.sent < c->out.len && errno != EAGAIN) {
            conn_close(c);
            continue;
        }

        if (c->out.len - c->out.sent > BACKLOG) {
            fprintf(stderr, "opencode: a reader is too slow\n");
            conn_close(c);
            continue;
        }

        if (c->out.sent == c->out.len && c->closing) {
            conn_close(c);
            continue;
        }

        if ((c->out.sent < c->out.len) != c->waiting) {
            c->waiting = !c->waiting;
            ee.events = EPOLLIN|EPOLLRDHUP|(c->waiting ? EPOLLOUT : 0);
            ee.data.ptr = c;
            epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ee);
        }
    }
}


void
conn_answer(conn_t *c, const char *status, const char *body, size_t len)
{
    buf_format(&c->out, "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n", status, len);
    buf_add(&c->out, body, len);
    conn_dirty(c);
}


void
conn_stream(conn_t *c)
{
    buf_text(&c->out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
             "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"
             "Transfer-Encoding: chunked\r\n\r\n");
    conn_dirty(c);
}


void
conn_chunk(conn_t *c, const char *head, size_t head_len)
{
    int   n;
    char  size[32];

    n = snprintf(size, sizeof(size), "%zx\r\n", head_len + json.len + 2);

    buf_need(&c->out, n + head_len + json.len + 4);
    buf_add(&c->out, size, n);
    buf_add(&c->out, head, head_len);
    buf_add(&c->out, json.data, json.len);
    buf_text(&c->out, "\n\n\r\n");
    conn_dirty(c);
}


/* one request of those that were read; false: it is not whole yet */

static int
conn_request(conn_t *c)
{
    char    *p, *end, *body, *path, *length, save;
    size_t   len;

    buf_need(&c->in, 1);
    c->in.data[c->in.len] = '\0';

    p = c->in.data + c->in.sent;
    end = strstr(p, "\r\n\r\n");

    if (end == NULL) {
        return 0;
    }

    *end = '\0';
    length = strcasestr(p, "\r\nContent-Length:");
    len = length ? strtoul(length + 17, NULL, 10) : 0;
    *end = '\r';

    body = end + 4;

    if (len > REQUEST) {
        conn_close(c);
        return 0;
    }

    if ((size_t) (c->in.data + c->in.len - body) < len) {
        return 0;
    }

    path = p + strcspn(p, " ");

    if (*path == ' ') {
        *path++ = '\0';
    }

    path[strcspn(path, " ")] = '\0';

    save = body[len];
    body[len] = '\0';
    answer(c, path, body);
    body[len] = save;

    c->in.sent = body + len - c->in.data;

    return !c->gone;
}


static void
conn_read(conn_t *c)
{
    ssize_t  n;

    for ( ;; ) {
        buf_need(&c->in, 16384);

        n = recv(c->fd, c->in.data + c->in.len, 16383, 0);

        if (n == -1 && errno == EAGAIN) {
            return;
        }

        if (n <= 0) {
            conn_close(c);
            return;
        }

        c->in.len += n;

        if (c->in.len - c->in.sent > REQUEST + 16384) {
            conn_close(c);
            return;
        }

        while (conn_request(c)) { /* void */ }

        if (c->gone || n < 16383) {
            return;
        }
    }
}


static void
conn_accept(void)
{
    int                  fd, one;
    conn_t              *c;
    struct epoll_event   ee;

    for ( ;; ) {
        fd = accept4(ls, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC);
        if (fd == -1) {
            return;
        }

        one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

        c = calloc(1, sizeof(conn_t));
        if (c == NULL) {
            abort();
        }

        c->fd = fd;

        ee.events = EPOLLIN|EPOLLRDHUP;
        ee.data.ptr = c;
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ee);
    }
}


void
conn_wait(int timeout)
{
    int                  i, n;
    conn_t              *c;
    struct epoll_event   list[512];

    n = epoll_wait(ep, list, 512, timeout);

    clock_update();

    for (i = 0; i < n; i++) {
        c = list[i].data.ptr;

        if (c == NULL) {
            conn_accept();
            continue;
        }

        if (list[i].events & (EPOLLIN|EPOLLRDHUP|EPOLLHUP|EPOLLERR)) {
            conn_read(c);
        }

        if (!c->gone && list[i].events & EPOLLOUT) {
            conn_dirty(c);
        }
    }
}


void
conn_listen(int port)
{
    int                 one;
    struct epoll_event  ee;
    struct sockaddr_in  sin;

    ep = epoll_create1(EPOLL_CLOEXEC);

    ls = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);
    one = 1;
    setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons(port);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    if (bind(ls, (struct sockaddr *) &sin, sizeof(sin)) == -1
        || listen(ls, 4096) == -1)
    {
        perror("opencode");
        exit(1);
    }

    ee.events = EPOLLIN;
    ee.data.ptr = NULL;
    epoll_ctl(ep, EPOLL_CTL_ADD, ls, &ee);
}
