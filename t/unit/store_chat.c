
/*
 * Copyright (C) agentstream contributors
 */


/*
 * Chats in the zone compared with a model of them: random verbs of several
 * workers, which die and are replaced, on an ample zone and on one that is far
 * too small.  An entry that was accepted stays until its owner takes it out, in
 * order, and exactly once; a name is accepted once; a chat has one owner, and
 * what the last owner saved; at the end nothing is left in the zone.
 *
 *     CHAT_SEED=7 CHAT_VERBS=100000 build/unit/store_chat
 *
 * Broken by: zone_see_locked() that does nothing, store_chat_save() that takes
 * out the first entry, or none, store_chat_claim() that does not ask whether
 * the owner is dead, rank_chat_locked() that ignores "busy";
 * store_chat_spend() that takes from one bucket although another one is empty,
 * or ignores "spare" or how it is asked; buckets that are kept for ever;
 * store_chat_rare() with one place for two keys.
 */


#include "store_world.h"
#include "tap.h"


#define CHATS    12
#define ENTRIES  NGX_HTTP_AGENTSTREAM_CHAT_ENTRIES

#define NOW      NGX_HTTP_AGENTSTREAM_SPEND_NOW
#define PLACE    NGX_HTTP_AGENTSTREAM_SPEND_ORDERED
#define ASK      NGX_HTTP_AGENTSTREAM_SPEND_NOTHING


typedef struct {
    char        key[32];
    ngx_str_t   name;
    uint64_t    numbers[ENTRIES];
    char        texts[ENTRIES][24];
    ngx_uint_t  nentries;
    ngx_uint_t  posted;
    ngx_uint_t  known;         /* whether the zone must have it */
    ngx_uint_t  named;         /* and the name of its last entry */
    ngx_uint_t  anew;          /* it may have been made anew */
    ngx_pid_t   owner;         /* 0: none */
    ngx_uint_t  busy;
    uint32_t    state;
    ngx_http_agentstream_chat_node_t
               *node;
} chat_t;


static chat_t      chats[CHATS];
static uint64_t    seed;
static ngx_uint_t  wrong;
static ngx_uint_t  done[8];


static ngx_uint_t
any(ngx_uint_t n)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;

    return (seed >> 33) % n;
}


static void
check(ngx_uint_t good, const char *what, chat_t *chat)
{
    if (!good) {
        wrong++;
        printf("# %s: %s\n", chat->key, what);
    }
}


static ngx_http_agentstream_zone_t *
zone(void)
{
    return world.current->zone;
}


static ngx_uint_t
owned(chat_t *chat)
{
    return chat->owner && world_alive(chat->owner);
}


static void
verb_post(chat_t *chat)
{
    char                                    text[24], id[32];
    ngx_int_t                               rc;
    ngx_uint_t                              n;
    ngx_http_agentstream_store_chat_post_t  post;

    ngx_memzero(&post, sizeof(post));

    n = any(8) ? chat->posted + 1 : chat->posted;

    snprintf(text, sizeof(text), "entry %u", (unsigned) n);
    snprintf(id, sizeof(id), "update %u", (unsigned) n);

    post.key = chat->name;
    post.place = chat->name;
    post.entry.data = (u_char *) text;
    post.entry.len = strlen(text);
    post.ids[any(2)].data = (u_char *) id;
    post.ids[0].len = post.ids[0].data ? strlen(id) : 0;
    post.ids[1].len = post.ids[1].data ? strlen(id) : 0;

    rc = ngx_http_agentstream_store_chat_post(zone(), &post, NULL);

    if (n == chat->posted && chat->known && chat->named) {
        check(rc == NGX_DECLINED, "posted twice", chat);
        done[0]++;
        return;
    }

    if (rc == NGX_BUSY) {
        check(chat->nentries == ENTRIES, "full too early", chat);
        done[1]++;
        return;
    }

    if (rc == NGX_ERROR) {
        done[2]++;
        return;
    }

    if (rc == NGX_DECLINED) {
        /* it was forgotten here, but is still remembered there */
        check(n == chat->posted, "a new one was declined", chat);
        return;
    }

    check(chat->nentries < ENTRIES, "more than fit", chat);

    strcpy(chat->texts[chat->nentries], text);
    chat->numbers[chat->nentries++] = 0;
    chat->posted = n;
    chat->known = 1;
    chat->named = 1;
}


static void
verb_claim(chat_t *chat)
{
    uint32_t                                  state;
    ngx_int_t                                 rc;
    ngx_pool_t                               *pool;
    ngx_http_agentstream_store_chat_claim_t   claim;

    pool = ngx_create_pool(1024, &ngx_unit_log);

    memset(&claim, 0, sizeof(claim));
    claim.pool = pool;
    claim.state = &state;
    claim.size = sizeof(state);

    rc = ngx_http_agentstream_store_chat_claim(zone(), &chat->name, &claim,
                                               NULL);
    if (rc == NGX_OK) {
        check(!owned(chat), "two owners", chat);
        check(claim.place.len == chat->name.len, "another place", chat);
        check(state == chat->state || (chat->anew && state == 0),
              "another state", chat);

        chat->owner = world.current->pid;
        chat->node = claim.node;
        chat->state = state;
        chat->known = 1;
        chat->anew = 0;
        done[3]++;

    } else {
        check(owned(chat) || !chat->known, "cannot be claimed", chat);
    }

    ngx_destroy_pool(pool);
}


static void
verb_read(chat_t *chat)
{
    uint64_t                                  number;
    ngx_uint_t                                i, k;
    ngx_pool_t                               *pool;
    ngx_http_agentstream_store_chat_entry_t   e;

    pool = ngx_create_pool(1024, &ngx_unit_log);

    for (i = 0, number = 0; ; i++, number = e.number) {

        if (ngx_http_agentstream_store_chat_next(zone(), chat->node, number,
                                                 pool, &e)
            != NGX_OK)
        {
            break;
        }

        check(i < chat->nentries && e.number > number
              && e.entry.len == strlen(chat->texts[i])
              && memcmp(e.entry.data, chat->texts[i], e.entry.len) == 0,
              "another entry", chat);

        chat->numbers[i] = e.number;
    }

    check(i == chat->nentries, "an entry is lost", chat);

    if (i) {
        k = any(i);
        chat->state = any(1000000);

        ngx_http_agentstream_store_chat_save(zone(), chat->node, &chat->state,
                                             sizeof(chat->state), chat->busy,
                                             chat->numbers[k]);
        chat->nentries--;

        memmove(chat->texts[k], chat->texts[k + 1],
                (chat->nentries - k) * sizeof(chat->texts[0]));
        done[4]++;
    }

    ngx_destroy_pool(pool);
}


static void
verb_own(chat_t *chat)
{
    ngx_int_t  rc;

    if (chat->owner != world.current->pid) {
        return;
    }

    switch (any(4)) {

    case 0:
        chat->busy = any(2);
        chat->state = any(1000000);
        ngx_http_agentstream_store_chat_save(zone(), chat->node, &chat->state,
                                             sizeof(chat->state), chat->busy,
                                             0);
        break;

    case 1:
        rc = ngx_http_agentstream_store_chat_leave(zone(), chat->node, 0);

        check((rc == NGX_OK) == (chat->nentries == 0), "left or not", chat);

        if (rc == NGX_OK) {
            chat->owner = 0;
            chat->known = chat->busy;
        }

        break;

    default:
        verb_read(chat);
    }
}


/* every chat that has work and no owner is found, and no other */

static void
verb_orphans(void)
{
    u_char      buf[64];
    ngx_int_t   rc;
    ngx_str_t   key;
    ngx_uint_t  i, found[CHATS];

    ngx_memzero(found, sizeof(found));

    key.data = buf;
    key.len = 0;

    while ((rc = ngx_http_agentstream_store_chat_orphan(zone(), &key,
                                                        sizeof(buf)))
           != NGX_DECLINED)
    {
        for (i = 0; i < CHATS; i++) {
            if (rc == NGX_OK && chats[i].name.len == key.len
                && memcmp(chats[i].name.data, buf, key.len) == 0)
            {
                found[i]++;
            }
        }
    }

    for (i = 0; i < CHATS; i++) {
        check(found[i] == (ngx_uint_t) (chats[i].known && !owned(&chats[i])
                                        && (chats[i].busy
                                            || chats[i].nentries)),
              found[i] ? "is no orphan" : "is an orphan", &chats[i]);

        if (!owned(&chats[i])) {
            chats[i].owner = 0;
            chats[i].known = chats[i].busy || chats[i].nentries;
        }

        done[5] += found[i];
    }
}


static ngx_msec_t
spend(const char *key, ngx_uint_t spare, ngx_uint_t how)
{
    ngx_http_agentstream_store_chat_rate_t  rates[2];

    ngx_memzero(rates, sizeof(rates));

    /* the second one is never short, unless it is "both" */

    ngx_str_set(&rates[1].key, "other");
    rates[1].interval = 1;
    rates[1].burst = 1000;

    rates[0].key.data = (u_char *) key;
    rates[0].key.len = strlen(key);
    rates[0].interval = 1000;
    rates[0].burst = 3;
    rates[0].spare = spare;

    if (strcmp(key, "both") == 0) {
        ngx_str_set(&rates[1].key, "one");
        rates[1].interval = 1000;
        rates[1].burst = 1;
    }

    return ngx_http_agentstream_store_chat_spend(zone(), rates, 2, how);
}


/* 3 at once, then one a second */

static void
buckets(void)
{
    char          key[16];
    ngx_uint_t    i, k;
    ngx_queue_t  *q;

    for (i = 0, k = 0; i < 5; i++) {
        k += spend("bucket", 0, NOW) == 0;
    }

    tap_ok(k == 3, "a burst of three");
    tap_ok(spend("bucket", 0, NOW) == 1000, "then a second");

    world_tick(2);
    tap_ok(spend("bucket", 0, NOW) == 0 && spend("bucket", 0, NOW) == 0
           && spend("bucket", 0, NOW) != 0, "two after two seconds");

    tap_ok(spend("spare", 1, NOW) == 0 && spend("spare", 1, NOW) == 0
           && spend("spare", 1, NOW) == 1000, "one is left for others");
    tap_ok(spend("spare", 0, NOW) == 0 && spend("spare", 0, NOW) != 0,
           "who get it");

    for (i = 0, k = 0; i < 3; i++) {
        k += spend("turns", 0, PLACE);
    }

    tap_ok(k == 0, "places in order: three at once");
    tap_ok(spend("turns", 0, PLACE) == 1000
           && spend("turns", 0, PLACE) == 2000
           && spend("turns", 0, PLACE) == 3000, "then one after the other");
    tap_ok(spend("turns", 0, ASK) == 4000
           && spend("new", 0, ASK) == 0
           && spend("new", 2, NOW) == 0, "to ask costs nothing");
    tap_ok(spend("turns", 0, NOW) == 4000, "those without a place come last");

    tap_ok(spend("both", 0, NOW) == 0 && spend("both", 0, NOW) == 1000,
           "one of two buckets is empty");
    world_tick(1);
    tap_ok(spend("both", 0, NOW) == 0, "and nothing was taken from the other");

    world_tick(100);

    for (i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "full %u", (unsigned) i);
        (void) spend(key, 0, NOW);
    }

    world_tick(100);
    (void) spend("last", 0, NOW);

    for (k = 0, q = ngx_queue_head(&zone()->sh->spent);
         q != ngx_queue_sentinel(&zone()->sh->spent);
         q = ngx_queue_next(q))
    {
        k++;
    }

    tap_ok(k == 2, "buckets that are full again are freed");
}


/* however many other things are asked for */

static void
rarely(void)
{
    char        id[16];
    ngx_str_t   key, other;
    ngx_uint_t  i, n;

    ngx_str_set(&key, "the one");
    other.data = (u_char *) id;

    tap_ok(ngx_http_agentstream_store_chat_rare(zone(), &key, 5000)
           && !ngx_http_agentstream_store_chat_rare(zone(), &key, 5000),
           "rare, and not twice");

    for (i = 0, n = 0; i < 4 * NGX_HTTP_AGENTSTREAM_RARE; i++) {
        other.len = snprintf(id, sizeof(id), "%u", (unsigned) i);
        n += ngx_http_agentstream_store_chat_rare(zone(), &other, 5000);
        n += ngx_http_agentstream_store_chat_rare(zone(), &key, 5000);
    }

    tap_ok(n == NGX_HTTP_AGENTSTREAM_RARE - 1,
           "others do not make it forgotten");

    world_tick(6);
    tap_ok(ngx_http_agentstream_store_chat_rare(zone(), &key, 5000),
           "and again later");
}


static void
run(size_t size, ngx_uint_t verbs)
{
    ngx_uint_t  i, k;

    world_open(size, 60000);
    ngx_memzero(chats, sizeof(chats));

    for (i = 0; i < CHATS; i++) {
        snprintf(chats[i].key, sizeof(chats[i].key), "chat %u", (unsigned) i);
        chats[i].name.data = (u_char *) chats[i].key;
        chats[i].name.len = strlen(chats[i].key);
    }

    for (i = 0; i < WORKERS; i++) {
        world_start(&world.workers[i]);
    }

    for (i = 0; i < verbs && wrong < 10; i++) {
        k = any(WORKERS);

        if (world.workers[k].zone == NULL) {
            world_start(&world.workers[k]);
        }

        world_enter(&world.workers[k]);

        k = any(CHATS);

        switch (any(12)) {

        case 0:
            verb_claim(&chats[k]);
            break;

        case 1:
            verb_orphans();
            break;

        case 2:
            if (any(20) == 0) {
                world_kill(world.current);
            }

            break;

        case 3:
        case 4:
        case 5:
        case 6:
            verb_post(&chats[k]);
            break;

        default:
            verb_own(&chats[k]);
        }

        /* a new chat in a full zone makes unused ones go, which the model
           cannot know */

        for (k = 0; k < CHATS; k++) {
            if (!chats[k].nentries && !chats[k].busy && !chats[k].owner) {
                chats[k].known = 0;
                chats[k].named = 0;
                chats[k].anew = 1;
            }
        }
    }

    /* what is left is taken out, and all chats are thrown away for others */

    for (k = 0; k < WORKERS; k++) {
        if (world.workers[k].zone) {
            world_kill(&world.workers[k]);
        }
    }

    world_start(&world.workers[0]);

    for (i = 0; i < CHATS; i++) {
        verb_claim(&chats[i]);

        if (chats[i].owner == world.current->pid) {
            while (chats[i].nentries) {
                verb_read(&chats[i]);
            }

            ngx_http_agentstream_store_chat_save(zone(), chats[i].node,
                                                 &chats[i].state, 4, 0, 0);
            (void) ngx_http_agentstream_store_chat_leave(zone(),
                                                         chats[i].node, 0);
        }
    }

    world_tick(100000);
    ngx_http_agentstream_store_expire(zone());

    tap_ok(zone()->sh->nchats == 0, "all chats have gone");
    tap_ok(zone()->shpool->pfree == world.pages, "all memory is free again");

    buckets();
    rarely();

    world_close();
}


int
main(void)
{
    char        *s;
    ngx_uint_t   verbs;

    s = getenv("CHAT_SEED");
    seed = s ? atoi(s) : 1;

    s = getenv("CHAT_VERBS");
    verbs = s ? atoi(s) : 40000;

    run(1024 * 1024, verbs);
    tap_ok(done[0] && done[1] && done[3] && done[4] && done[5],
       "doubles, full inboxes, claims, entries, orphans: all came about");

    run(52 * 1024, verbs);
    tap_ok(done[2] != 0, "a full zone came about");

    tap_ok(wrong == 0, "everything as the model says");

    return tap_done();
}
