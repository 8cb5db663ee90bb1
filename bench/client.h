
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What the files of the load client share: client.c (connections, the loop, the
 * result), client_verify.c (what a turn must consist of).
 */


#ifndef _NGX_HTTP_AGENTSTREAM_CLIENT_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_CLIENT_H_INCLUDED_


#define _GNU_SOURCE
#include <curl/curl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define HEAD       1024         /* of a line is kept */
#define SAMPLES    4000000
#define DIGEST     0xcbf29ce484222325ull


/* a protocol that the module speaks: how a turn looks in it */

typedef struct {
    const char         *name;
    const char         *named;      /* the body up to the session's name */
    const char         *body;       /* its rest, with the prompt */
    const char         *first;      /* types of events */
    const char         *chunk;
    const char         *text;       /* the member of a chunk */
    const char         *tool;
    const char         *result;
    const char         *running;    /* in a result: it is not the last */
    const char         *end;
    const char         *ended;      /* in the end */
    unsigned            path:1;     /* the session is in the path */
} protocol_t;


typedef struct {
    CURL               *easy;
    struct curl_slist  *headers;
    char                session[48];
    char                turn[64];
    uint64_t            started;
    uint64_t            seq;
    uint64_t            digest;

    long                chunks;
    long                starts;
    long                completed;
    long                terminals;

    char                line[HEAD];
    size_t              len;        /* of the line, also beyond HEAD */

    unsigned            held:1;
    unsigned            slow:1;
    unsigned            watcher:1;
    unsigned            resumed:1;
    unsigned            cutting:1;
    unsigned            first:1;    /* packet seen */
    unsigned            failed:1;
    unsigned            event:1;    /* "event: message" seen */
} client_t;


extern protocol_t  *protocol;
extern uint64_t     events;
extern long         clients, watchers, deltas, tool;
extern long         nheld;
extern char         failure[256];
extern uint32_t    *latency, *first;
extern size_t       nlatency, nfirst;


/* finds the protocol by its name; false: there is none */
int protocol_set(const char *name);
void verify_init(void);
void client_fail(client_t *cl, const char *why, const char *what, size_t len);
/* a line without its end */
void client_line(client_t *cl, uint64_t now);
/* the turn has ended: is it whole? */
void client_check(client_t *cl);


#endif /* _NGX_HTTP_AGENTSTREAM_CLIENT_H_INCLUDED_ */
