
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The store compared with a model of it (store_model.h): random verbs of
 * several workers, which die and are replaced, on zones from ample to far too
 * small.  After each verb everything in the zone must be as the model says;
 * what a reader gets must be what was appended; at the end nothing may be
 * left.
 *
 *     MODEL_SEED=7 MODEL_RUNS=1 MODEL_VERBS=100000 build/unit/store_model
 *
 * Broken by: any verb that leaves something half done.  Try it: a block that
 * is not freed, a ticket put at the wrong end, a place in the order of giving
 * way that is not updated, a cursor's hint that is used too long.
 */


#include "store_readers.h"


typedef struct {
    void                               (*verb)(void);
    ngx_uint_t                           weight;
} verb_t;


static void
verb_tick(void)
{
    world_tick(1 + model_random(8));
}


static void
verb_expire(void)
{
    ngx_uint_t  i;

    model_begin(NULL, 0, 0, 1);
    model_say("%d expire", (int) world.current->pid);

    ngx_http_agentstream_store_expire(zone());

    for (i = model.ntickets; i; i--) {
        if (!world_alive(model.tickets[i - 1].pid)) {
            model_drop_ticket(i - 1);
        }
    }

    model_check();

    for (i = 0; i < model.nkept && model.expired < EXPIRE_MAX; i++) {
        model_is(model.kept[i]->state == RUNNING
                 || model_watched(model.kept[i])
                 || !model_expired(model.kept[i]),
                 "%s is kept for too long", model.kept[i]->id);
    }
}


/* workers */

static void
verb_die(void)
{
    if (model_random(3) == 0) {
        model_begin(NULL, 0, 0, 0);
        model_say("%d exits", (int) world.current->pid);
        ngx_http_agentstream_store_exit_worker(zone());

    } else {
        model_say("%d dies", (int) world.current->pid);
    }

    world_kill(world.current);
}


static void
start(worker_t *worker)
{
    uint64_t    free;
    ngx_uint_t  i;

    model_begin(NULL, 0, 0, 0);
    world_start(worker);
    model_say("%d starts in slot %u, generation %u", (int) worker->pid,
              (unsigned) zone()->self.slot, (unsigned) zone()->self.generation);

    /* nobody watches from its slot yet, nor from those of the dead */

    free = ~(uint64_t) 0;

    for (i = 0; i < WORKERS; i++) {
        if (world.workers[i].zone && &world.workers[i] != worker) {
            free &= ~((uint64_t) 1 << world.workers[i].zone->self.slot);

            model_is(world.workers[i].zone->self.slot != zone()->self.slot,
                     "two workers in one slot");
        }
    }

    for (i = 0; i < model.nkept; i++) {
        model.kept[i]->watchers &= ~free;
    }

    model_check();
}


static void
own(turn_t *turn)
{
    turn->owner = zone()->self;
    turn->pid = world.current->pid;
    turn->pinned = 1;
}


static void
verb_claim(void)
{
    turn_t                       *turn;
    ngx_int_t                     rc;
    ngx_uint_t                    orphan;
    ngx_http_agentstream_node_t  *node;

    turn = any_turn();

    if (turn == NULL) {
        return;
    }

    orphan = (turn->state == RUNNING && !world_alive(turn->pid));

    model_begin(turn, 0, 0, 0);

    rc = ngx_http_agentstream_store_orphan(zone(), &turn->name);
    model_is(rc == (orphan ? NGX_OK : NGX_DECLINED), "%s: orphan: %d",
             turn->id, (int) rc);

    rc = ngx_http_agentstream_store_claim(zone(), &turn->name, &node, &later);
    model_is(rc == (orphan ? NGX_OK : NGX_DECLINED), "%s: claimed: %d",
             turn->id, (int) rc);

    model_say("%d claim %s: %d", (int) world.current->pid, turn->id, (int) rc);

    if (rc == NGX_OK) {
        model_is(node == turn->node, "%s: another one was claimed", turn->id);
        own(turn);
        turn->ended = 0;
        saw[SAW_CLAIM]++;
        model_check();
        walk(turn);
    }
}


static void
verb_unpin(void)
{
    turn_t  *turn;

    turn = own_turn(1);

    if (turn == NULL) {
        return;
    }

    model_begin(turn, 0, 0, 0);
    model_say("%d unpin %s", (int) world.current->pid, turn->id);

    walk(turn);
    ngx_http_agentstream_store_unpin(zone(), turn->node);
    turn->pinned = 0;
}


/* an orphan that nobody wanted ends with a word of the worker that finds it */

static void
verb_lapsed(void)
{
    turn_t                       *turn;
    ngx_uint_t                    i, key;
    ngx_http_agentstream_node_t  *node;

    key = 0;

    do {
        model_begin(NULL, 0, 0, 0);

        node = ngx_http_agentstream_store_lapsed(zone(), &key);

        turn = NULL;

        /* those that it has gone by are orphans from now on, and that one */

        for (i = 0; i < model.nkept; i++) {
            if (model.kept[i]->node == node) {
                turn = model.kept[i];
            }

            if (model.kept[i]->state == RUNNING && model.kept[i]->ended == 0
                && !world_alive(model.kept[i]->pid)
                && model.kept[i]->node->ended)
            {
                model.kept[i]->ended = world.now.sec;
            }
        }

        if (node == NULL) {
            continue;
        }

        model_is(turn && turn->state == RUNNING && !world_alive(turn->pid)
                 && model_expired(turn), "%s is not to be buried",
                 turn ? turn->id : "what is not there");

        model_say("%d buries %s", (int) world.current->pid, turn->id);

        own(turn);
        saw[SAW_BURIAL]++;
        model_check();
        walk(turn);

        append(turn, 1);
        model_check();
        finish(turn);
        model_check();

    } while (node || key);

    for (i = 0; i < model.nkept; i++) {
        model_is(model.kept[i]->state != RUNNING
                 || world_alive(model.kept[i]->pid)
                 || (model.kept[i]->ended && !model_expired(model.kept[i])),
                 "%s is not buried", model.kept[i]->id);
    }
}


static verb_t  verbs[] = {
    { verb_create, 16 },
    { verb_taken, 3 },
    { verb_queue, 6 },
    { verb_unqueue, 3 },
    { verb_append, 30 },
    { verb_show, 8 },
    { verb_reserve, 3 },
    { verb_finish, 7 },
    { verb_flags, 3 },
    { verb_interrupt, 2 },
    { verb_sender, 2 },
    { verb_ask, 14 },
    { verb_answered, 2 },
    { verb_directory, 2 },
    { verb_asked, 2 },
    { verb_next, 3 },
    { verb_find, 10 },
    { verb_read, 25 },
    { verb_watch, 6 },
    { verb_tick, 3 },
    { verb_expire, 2 },
    { verb_die, 1 },
    { verb_claim, 5 },
    { verb_unpin, 4 },
    { verb_lapsed, 1 }
};


static void
step(void)
{
    worker_t    *worker;
    ngx_uint_t   i, n, total;

    /* one who is not there starts, or nobody does */

    worker = &world.workers[model_random(WORKERS)];

    if (worker->zone == NULL) {
        if (model_random(6) == 0) {
            start(worker);
        }

        return;
    }

    world_enter(worker);

    total = 0;

    for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        total += verbs[i].weight;
    }

    n = model_random(total);

    for (i = 0; n >= verbs[i].weight; i++) {
        n -= verbs[i].weight;
    }

    verbs[i].verb();

    if (world.current->zone) {
        model_check();
    }
}


/* all workers but a last one are gone, then time passes: nothing is left */

static void
end(void)
{
    ngx_uint_t        i;
    ngx_slab_pool_t  *sp;

    for (i = 0; i < WORKERS; i++) {
        if (world.workers[i].zone) {
            world_kill(&world.workers[i]);
        }
    }

    start(&world.workers[0]);

    /* one to see the orphans, one to bury them, others to forget all */

    for (i = 0; i < TURNS / EXPIRE_MAX && (i < 3 || model.nkept); i++) {
        verb_lapsed();
        world_tick(100);
        verb_expire();
    }

    sp = world.master->shpool;

    model_is(model.nkept == 0 && model.ntickets == 0, "something is left");
    model_is(sp->pfree == world.pages, "%lld pages are left",
             (long long) world.pages - (long long) sp->pfree);
}


static void
run(uint64_t seed, ngx_uint_t n)
{
    size_t      size;
    ngx_uint_t  i;

    static u_char  keys[SESSIONS][64];
    static size_t  sizes[] = { 61440, 131072, 262144, 524288, 4194304 };

    size = sizes[seed % 5];

    ngx_memzero(&model, sizeof(model_t));
    ngx_memzero(readers, sizeof(readers));

    model.seed = seed;
    model.random = seed * 0x9e3779b97f4a7c15 + 1;

    for (i = 0; i < SESSIONS; i++) {
        model.unsure[i] = 1;

        /* of different lengths */
        model_keys[i].data = keys[i];
        model_keys[i].len = ngx_sprintf(keys[i], "http://one|%*s|ses_%ui",
                                        (size_t) i, "/sixteen/letters", i)
                            - keys[i];
    }

    world_open(size, (seed % 3) ? 10000 : 60000);

    /* whether readers see a record only when it is acknowledged; workers are
       copies of the master */

    world.master->held = seed & 1;

    for (i = 0; i < n && model.nturns < TURNS; i++) {
        step();
    }

    end();

    tap_ok(1, "seed %llu: %u verbs, %u turns, %llu packets in a zone of %zu "
           "bytes; %llu turns evicted, %llu packets dropped",
           (unsigned long long) seed, (unsigned) model.verbs,
           (unsigned) model.nturns,
           (unsigned long long) model.stats[NGX_HTTP_AGENTSTREAM_STAT_PACKETS],
           size,
           (unsigned long long) model.stats[NGX_HTTP_AGENTSTREAM_STAT_EVICTED],
           (unsigned long long)
               model.stats[NGX_HTTP_AGENTSTREAM_STAT_DROPPED]);

    world_close();

    for (i = 0; i < model.nturns; i++) {
        free(model.turns[i]->records);
        free(model.turns[i]);
    }
}


static ngx_uint_t
setting(const char *name, ngx_uint_t value)
{
    char  *text;

    text = getenv(name);

    return text ? strtoull(text, NULL, 10) : value;
}


int
main(void)
{
    ngx_uint_t  i, seed;

    seed = setting("MODEL_SEED", 1);

    for (i = 0; i < setting("MODEL_RUNS", 25); i++) {
        run(seed + i, setting("MODEL_VERBS", 10000));
    }

    for (i = 0; i < SAW_MAX; i++) {
        tap_ok(saw[i] || getenv("MODEL_RUNS"), "%s: %u", saw_names[i],
               (unsigned) saw[i]);
    }

    return tap_done();
}
