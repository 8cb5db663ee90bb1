
/*
 * Copyright (C) agentstream contributors
 */


/*
 * What a Redis server, or a Sentinel, sends: any bytes, at any time, while a
 * worker watches a session, has a turn of its own, takes one over and serves a
 * chat.  It is the module's own code from recv() to the zone; only sockets,
 * names, TLS and wake-ups of other workers are replaced.  The first byte of an
 * input chooses the configuration, then there are steps, of one letter each
 * (see fuzz_step()); those that bring bytes say how many in two bytes.
 * Checked: whoever asked is answered once, and nothing is shown that is not
 * there.  The sanitizers see the rest, and what is not freed at the end.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include "ngx_http_agentstream_redis_int.h"
#include "ngx_http_agentstream_remote_int.h"
#include "ngx_http_agentstream_store_chat.h"
#include "store_world.h"
#include "redis_loop.h"


#define ZONE_SIZE   (256 * 1024)
#define STATE_SIZE  64


/* somebody who waits for an answer of the store */

typedef struct {
    ngx_http_agentstream_later_t             later;
    ngx_uint_t                               waits;
} asker_t;


typedef enum {
    NONE = 0,
    CREATING,
    CLAIMING,
    MINE,
    FINISHING
} phase_e;


typedef struct {
    phase_e                                  phase;  /* of the turn */
    ngx_uint_t                               turns;
    ngx_http_agentstream_node_t             *node;
    ngx_http_agentstream_store_created_t     created;
    ngx_http_agentstream_store_end_t         end;
    asker_t                                  begin;
    asker_t                                  prompt;
    asker_t                                  show;
    asker_t                                  finish;

    ngx_http_agentstream_store_watch_t       watch;
    asker_t                                  look;

    asker_t                                  post;
    asker_t                                  take;
    ngx_http_agentstream_store_chat_claim_t  claim;
    ngx_http_agentstream_chat_node_t        *chat;
    u_char                                   state[STATE_SIZE];
} fuzz_t;


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static fuzz_t       fuzz;
static u_char       fuzz_turns[][8] = { "msg_1", "msg_2", "msg_3", "msg_4" };
static ngx_str_t    fuzz_key = ngx_string("/o/ ses_1");
static ngx_str_t    fuzz_chat_key = ngx_string("bot 1");
static ngx_str_t    fuzz_place = ngx_string("here");


static ngx_http_agentstream_zone_t *
fuzz_zone(void)
{
    return world.current->zone;
}


static ngx_http_agentstream_remote_t *
fuzz_remote(void)
{
    return ngx_http_agentstream_remote_of(fuzz_zone());
}


static void
fuzz_receive(ngx_http_agentstream_redis_t *redis, const void *data, size_t len)
{
    if (redis->peer.connection == NULL) {
        return;
    }

    loop.in = data;
    loop.len = len;

    ngx_http_agentstream_redis_read_handler(redis->peer.connection->read);
    loop_posted();

    loop.len = 0;
}


#define fuzz_say(redis, text)  fuzz_receive(redis, text, sizeof(text) - 1)


/* the server behaves while it is connected to */

static void
fuzz_greet(void)
{
    ngx_uint_t                      i;
    ngx_http_agentstream_redis_t   *sentinel;
    ngx_http_agentstream_remote_t  *remote;

    remote = fuzz_remote();
    sentinel = &remote->find.sentinel;

    if (sentinel->conf && !sentinel->open) {
        fuzz_say(sentinel, "+PONG\r\n");
        fuzz_say(sentinel, "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n");
        loop_sleep(2);
    }

    if (!remote->messages.open) {

        if (sentinel->conf) {
            fuzz_say(&remote->messages, "*1\r\n$6\r\nmaster\r\n");
        }

        fuzz_say(&remote->messages, "+PONG\r\n");
    }

    if (!remote->commands.open) {

        if (sentinel->conf) {
            fuzz_say(&remote->commands, "*1\r\n$6\r\nmaster\r\n");
        }

        fuzz_say(&remote->commands, "+PONG\r\n");
        fuzz_say(&remote->commands, "*2\r\n$16\r\nmaxmemory-policy\r\n"
                                    "$10\r\nnoeviction\r\n");

        for (i = 0; i < NGX_HTTP_AGENTSTREAM_SCRIPTS; i++) {
            fuzz_say(&remote->commands, "$40\r\n0123456789012345678901234567"
                                        "890123456789\r\n");
        }

        fuzz_say(&remote->commands, "*2\r\n$4\r\nname\r\n$1\r\n0\r\n");
    }
}


/* the answers that are to come are errors */

static void
fuzz_refuse(void)
{
    ngx_uint_t                     i;
    ngx_http_agentstream_redis_t  *redis;

    redis = &fuzz_remote()->commands;

    for (i = redis->ncommands; i; i--) {
        fuzz_say(redis, "-ERR no\r\n");
    }
}


static void
fuzz_cut(ngx_http_agentstream_redis_t *redis)
{
    loop.cut = 1;
    fuzz_say(redis, "");
    loop.cut = 0;
}


static ngx_http_agentstream_later_t *
fuzz_ask(asker_t *asker, ngx_http_agentstream_later_pt handler)
{
    check(!asker->waits);

    ngx_memzero(&asker->later, sizeof(ngx_http_agentstream_later_t));
    asker->later.handler = handler;
    asker->later.data = asker;

    return &asker->later;
}


static void
fuzz_answered(asker_t *asker, ngx_int_t rc)
{
    check(asker->waits);
    check(rc != NGX_AGAIN);

    asker->waits = 0;
}


/* what was asked is not of interest any more */

static void
fuzz_cancel(asker_t *asker)
{
    ngx_http_agentstream_store_cancel(&asker->later);
    asker->waits = 0;
}


/* the turn is another machine's, or over */

static void
fuzz_forget(void)
{
    fuzz.phase = NONE;
    fuzz.node = NULL;
    fuzz.prompt.waits = 0;
    fuzz.show.waits = 0;
    fuzz.finish.waits = 0;
}


static void
fuzz_begun(ngx_int_t rc)
{
    if (rc != NGX_OK) {
        fuzz.phase = NONE;
        return;
    }

    if (fuzz.phase == CREATING) {
        fuzz.node = fuzz.created.node;

    } else {
        ngx_http_agentstream_store_unpin(fuzz_zone(), fuzz.node);
    }

    fuzz.phase = MINE;
}


static void
fuzz_begin_handler(void *data, ngx_int_t rc)
{
    fuzz_answered(data, rc);
    fuzz_begun(rc);
}


static void
fuzz_owner_handler(void *data, ngx_int_t rc)
{
    fuzz_answered(data, rc);

    if (rc == NGX_ABORT) {
        fuzz_forget();
    }
}


static void
fuzz_finish_handler(void *data, ngx_int_t rc)
{
    fuzz_answered(data, rc);
    fuzz_forget();
}


static void
fuzz_handler(void *data, ngx_int_t rc)
{
    fuzz_answered(data, rc);
}


static void
fuzz_create(void)
{
    ngx_int_t                            rc;
    ngx_http_agentstream_store_create_t  args;

    if (fuzz.phase != NONE || fuzz.turns == 4) {
        return;
    }

    ngx_memzero(&args, sizeof(ngx_http_agentstream_store_create_t));

    args.key = fuzz_key;
    args.id.data = fuzz_turns[fuzz.turns++];
    args.id.len = sizeof("msg_1") - 1;
    ngx_str_set(&args.request_id, "request");
    args.packets = 7;

    fuzz.phase = CREATING;
    fuzz.created.other.data = fuzz.created.id;

    rc = ngx_http_agentstream_store_create(fuzz_zone(), &args, &fuzz.created,
                              fuzz_ask(&fuzz.begin, fuzz_begin_handler));

    if (rc == NGX_AGAIN) {
        fuzz.begin.waits = 1;
        return;
    }

    fuzz_begun(rc);
}


static void
fuzz_claim(void)
{
    ngx_int_t  rc;
    ngx_str_t  id;

    if (fuzz.phase != NONE) {
        return;
    }

    ngx_str_set(&id, "msg_x");

    fuzz.phase = CLAIMING;

    rc = ngx_http_agentstream_store_claim(fuzz_zone(), &id, &fuzz.node,
                              fuzz_ask(&fuzz.begin, fuzz_begin_handler));

    if (rc == NGX_AGAIN) {
        fuzz.begin.waits = 1;
        return;
    }

    fuzz_begun(rc);
}


static void
fuzz_append(void)
{
    u_char                         *p;
    ngx_http_agentstream_record_t   record;

    if (fuzz.phase != MINE) {
        return;
    }

    p = ngx_http_agentstream_journal_reserve(fuzz_zone(), fuzz.node, 16,
                                             65536);

    if (p == NULL) {
        ngx_http_agentstream_journal_skip(fuzz_zone(), fuzz.node);

    } else {
        ngx_memzero(&record, sizeof(ngx_http_agentstream_record_t));
        record.type = NGX_HTTP_AGENTSTREAM_RECORD_MESSAGE;
        record.json.data = p;
        record.json.len = 16;
        ngx_memcpy(p, "{\"type\":\"text\"} ", 16);

        ngx_http_agentstream_journal_append(fuzz_zone(), fuzz.node, &record);
    }

    if (!fuzz.show.waits
        && ngx_http_agentstream_store_show(fuzz_zone(), fuzz.node,
                               fuzz_ask(&fuzz.show, fuzz_owner_handler))
           == NGX_AGAIN)
    {
        fuzz.show.waits = 1;
    }
}


static void
fuzz_prompt(void)
{
    if (fuzz.phase == MINE && !fuzz.prompt.waits
        && ngx_http_agentstream_store_prompting(fuzz_zone(), fuzz.node,
                               fuzz_ask(&fuzz.prompt, fuzz_owner_handler))
           == NGX_AGAIN)
    {
        fuzz.prompt.waits = 1;
    }
}


static void
fuzz_finish(void)
{
    ngx_int_t  rc;

    if (fuzz.phase != MINE) {
        return;
    }

    fuzz_cancel(&fuzz.prompt);
    ngx_str_set(&fuzz.end.stop_reason, "end_turn");
    fuzz.phase = FINISHING;

    rc = ngx_http_agentstream_store_finish(fuzz_zone(), fuzz.node, &fuzz.end,
                               fuzz_ask(&fuzz.finish, fuzz_finish_handler));

    fuzz_cancel(&fuzz.show);

    if (rc == NGX_AGAIN) {
        fuzz.finish.waits = 1;

    } else {
        fuzz_forget();
    }
}


static void
fuzz_watch(void)
{
    ngx_str_t  turn;

    if (fuzz.watch.session) {
        ngx_http_agentstream_store_unwatch(fuzz_zone(), &fuzz.watch);
        fuzz.look.waits = 0;
        return;
    }

    ngx_str_set(&turn, "msg_x");
    ngx_memzero(&fuzz.watch, sizeof(fuzz.watch));

    if (ngx_http_agentstream_store_watch(fuzz_zone(), &fuzz.watch, &fuzz_key,
                                         &turn, 1,
                                         fuzz_ask(&fuzz.look, fuzz_handler))
        == NGX_AGAIN)
    {
        fuzz.look.waits = 1;
    }
}


/* chats */

static void
fuzz_chat_handler(void *data, ngx_int_t rc)
{
    if (rc == NGX_ABORT) {
        fuzz.chat = NULL;
    }
}


static void
fuzz_take_handler(void *data, ngx_int_t rc)
{
    fuzz_answered(data, rc);
    fuzz.chat = (rc == NGX_OK) ? fuzz.claim.node : NULL;
}


static void
fuzz_offered(ngx_str_t *key)
{
    check(key->len == 0 || key->data);
}


static void
fuzz_take(void)
{
    ngx_int_t  rc;

    if (fuzz.chat || fuzz.take.waits) {
        return;
    }

    fuzz.claim.pool = world.pool;
    fuzz.claim.create = fuzz_place;
    fuzz.claim.state = fuzz.state;
    fuzz.claim.size = STATE_SIZE;
    fuzz.claim.handler = fuzz_chat_handler;

    rc = ngx_http_agentstream_store_chat_claim(fuzz_zone(), &fuzz_chat_key,
                               &fuzz.claim,
                               fuzz_ask(&fuzz.take, fuzz_take_handler));

    if (rc == NGX_AGAIN) {
        fuzz.take.waits = 1;

    } else if (rc == NGX_OK) {
        fuzz.chat = fuzz.claim.node;
    }
}


static void
fuzz_post(void)
{
    ngx_http_agentstream_store_chat_post_t  post;

    if (fuzz.post.waits) {
        return;
    }

    ngx_memzero(&post, sizeof(ngx_http_agentstream_store_chat_post_t));
    post.key = fuzz_chat_key;
    post.place = fuzz_place;
    ngx_str_set(&post.ids[0], "1");
    ngx_str_set(&post.entry, "hello");

    if (ngx_http_agentstream_store_chat_post(fuzz_zone(), &post,
                                         fuzz_ask(&fuzz.post, fuzz_handler))
        == NGX_AGAIN)
    {
        fuzz.post.waits = 1;
    }
}


/* deals with the next entry, if there is one */

static void
fuzz_save(void)
{
    ngx_int_t                                rc;
    ngx_http_agentstream_store_chat_entry_t  entry;

    if (fuzz.chat == NULL) {
        return;
    }

    rc = ngx_http_agentstream_store_chat_next(fuzz_zone(), fuzz.chat, 0,
                                              world.pool, &entry);

    ngx_http_agentstream_store_chat_save(fuzz_zone(), fuzz.chat, fuzz.state,
                                         STATE_SIZE, 1,
                                         (rc == NGX_OK) ? entry.number : 0);
}


static void
fuzz_leave(void)
{
    if (fuzz.chat
        && ngx_http_agentstream_store_chat_leave(fuzz_zone(), fuzz.chat, 1)
           == NGX_OK)
    {
        fuzz.chat = NULL;
    }
}


static void
fuzz_chat_cancel(asker_t *asker)
{
    if (asker->waits) {
        ngx_http_agentstream_store_chat_cancel(&asker->later);
        asker->waits = 0;
    }
}


/* returns the number of bytes that belong to it */

static size_t
fuzz_step(const u_char *data, size_t size)
{
    size_t                          len;
    ngx_http_agentstream_remote_t  *remote;

    remote = fuzz_remote();

    switch (data[0]) {

    case 'c': case 'm': case 'n': /* bytes */

        if (size < 3) {
            return size;
        }

        len = ngx_min((size_t) (data[1] | data[2] << 8), size - 3);

        fuzz_receive((data[0] == 'c') ? &remote->commands
                     : (data[0] == 'm') ? &remote->messages
                     : &remote->find.sentinel, data + 3, len);
        return 3 + len;

    case 't': /* time */
        loop_sleep((size > 1) ? data[1] * 50 : 0);
        return ngx_min(2, size);

    case 'e': fuzz_refuse(); break;
    case 'g': fuzz_greet(); break;
    case 'x': fuzz_cut(&remote->commands); break;
    case 'y': fuzz_cut(&remote->messages); break;

    case 's': /* nobody is taken for dead otherwise */
        remote->steady = ngx_current_msec - NGX_HTTP_AGENTSTREAM_LEASE;
        break;

    case 'w': fuzz_watch(); break;
    case 'b': fuzz_create(); break;
    case 'k': fuzz_claim(); break;
    case 'a': fuzz_append(); break;
    case 'p': fuzz_prompt(); break;
    case 'f': fuzz_finish(); break;

    case 'd':
        if (fuzz.begin.waits) {
            fuzz_cancel(&fuzz.begin);
            fuzz.phase = NONE;
        }

        break;

    case 'i':
        (void) ngx_http_agentstream_store_interrupt(fuzz_zone(), &fuzz_key);
        break;

    case 'C': fuzz_take(); break;
    case 'P': fuzz_post(); break;
    case 'S': fuzz_save(); break;
    case 'L': fuzz_leave(); break;
    case 'K': ngx_http_agentstream_store_chat_look(fuzz_zone()); break;
    case 'D': fuzz_chat_cancel(&fuzz.take); break;
    }

    return 1;
}


static void
fuzz_settle(void)
{
    loop_posted();

    if (loop.told && fuzz.phase == MINE && !fuzz.show.waits) {
        ngx_http_agentstream_store_check(fuzz_zone(), fuzz.node,
                                fuzz_ask(&fuzz.show, fuzz_owner_handler));
        fuzz.show.waits = ngx_http_agentstream_store_pending(&fuzz.show.later);
    }

    loop.told = 0;
    loop_posted();

    check(fuzz.phase != MINE
          || fuzz.node->journal.shown_seq <= fuzz.node->journal.last_seq);
}


static void
fuzz_close(void)
{
    fuzz_cancel(&fuzz.begin);
    fuzz_cancel(&fuzz.prompt);
    fuzz_cancel(&fuzz.show);
    fuzz_cancel(&fuzz.finish);
    fuzz_chat_cancel(&fuzz.post);
    fuzz_chat_cancel(&fuzz.take);

    if (fuzz.watch.session) {
        ngx_http_agentstream_store_unwatch(fuzz_zone(), &fuzz.watch);
    }

    ngx_http_agentstream_remote_exit_worker(fuzz_zone());
    ngx_destroy_pool(world_cycle.pool);
    world_close();
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ngx_addr_t                         addr;
    ngx_http_agentstream_worker_t      worker;
    ngx_http_agentstream_main_conf_t   amcf;
    ngx_http_agentstream_redis_host_t  host;
    ngx_http_agentstream_redis_conf_t  conf;

    if (size == 0) {
        return 0;
    }

    ngx_memzero(&fuzz, sizeof(fuzz_t));
    ngx_memzero(&addr, sizeof(ngx_addr_t));
    ngx_memzero(&worker, sizeof(ngx_http_agentstream_worker_t));
    ngx_memzero(&amcf, sizeof(ngx_http_agentstream_main_conf_t));
    ngx_memzero(&host, sizeof(ngx_http_agentstream_redis_host_t));
    ngx_memzero(&conf, sizeof(ngx_http_agentstream_redis_conf_t));

    loop_open();

    ngx_str_set(&host.name, "redis");
    ngx_str_set(&host.text, "redis:6379");
    host.addrs = &addr;
    host.naddrs = 1;
    conf.hosts = &host;
    conf.nhosts = 1;

    if (data[0] & 2) {
        ngx_str_set(&conf.address.master, "master");
    }

    amcf.remote = &conf;
    amcf.store_failure = (data[0] & 1) ? NGX_HTTP_AGENTSTREAM_STORE_LOCAL : 0;

    (void) world_alive;
    (void) world_tick;

    world_open(ZONE_SIZE, 60000);
    world_start(&world.workers[0]);
    world_cycle.pool = ngx_create_pool(4096, &ngx_unit_log);
    check(world_cycle.pool);

    ngx_http_agentstream_worker = &worker;
    worker.zone = fuzz_zone();
    worker.stats = fuzz_zone()->stats;
    fuzz_zone()->sh->machine = 1;
    ngx_http_agentstream_store_chat_listen(fuzz_zone(), fuzz_offered);

    check(ngx_http_agentstream_remote_init_worker(&world_cycle, &amcf)
          == NGX_OK);

    loop_sleep(2);
    fuzz_greet();

    for (data++, size--; size; /* void */) {
        size_t  n;

        n = fuzz_step(data, size);
        fuzz_settle();

        data += n;
        size -= n;
    }

    fuzz_close();

    return 0;
}
