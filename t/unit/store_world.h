
/*
 * Copyright (C) agentstream contributors
 */


/*
 * A zone in ordinary memory, and workers that share it in one process, for
 * tests of the store.  Verbs are called by the worker that world_enter() has
 * made the current one.  The test controls time and processes: kill() reports
 * that a process does not exist when the test has ended it.
 */


#ifndef _NGX_HTTP_AGENTSTREAM_STORE_WORLD_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_STORE_WORLD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_http_agentstream_store.h"
#include "ngx_http_agentstream_journal.h"
#include "ngx_http_agentstream_journal_int.h"
#include "ngx_http_agentstream_zone_int.h"


#define WORKERS      4
#define FIRST_PID    1000


typedef struct {
    ngx_http_agentstream_zone_t   *zone;     /* NULL: there is none */
    ngx_pid_t                      pid;
} worker_t;


typedef struct {
    void                          *memory;
    ngx_pool_t                    *pool;
    ngx_shm_zone_t                 shm;
    ngx_core_conf_t                core;
    ngx_http_agentstream_zone_t   *master;
    worker_t                       workers[WORKERS];
    worker_t                      *current;
    ngx_pid_t                      last_pid;
    ngx_time_t                     now;

    /* what the zone itself takes */
    ngx_uint_t                     pages;
    ngx_uint_t                     used[64];     /* by slot of the slab */
    ngx_uint_t                     whole;        /* pages that the store took
                                                    when it began */
} world_t;


extern ngx_log_t  ngx_unit_log;

ngx_http_agentstream_worker_t  *ngx_http_agentstream_worker;

static world_t                  world;
static ngx_cycle_t              world_cycle;


/* instead of libc's: only the workers are processes */

int
kill(pid_t pid, int sig)
{
    ngx_uint_t  i;

    for (i = 0; i < WORKERS; i++) {
        if (world.workers[i].zone && world.workers[i].pid == pid) {
            return 0;
        }
    }

    ngx_set_errno(ESRCH);
    return -1;
}


static void
world_enter(worker_t *worker)
{
    world.current = worker;
    ngx_pid = worker->pid;
}


/* as after fork(): each process has its own copy of what the master has */

static void
world_start(worker_t *worker)
{
    worker->zone = malloc(sizeof(ngx_http_agentstream_zone_t));
    if (worker->zone == NULL) {
        abort();
    }

    *worker->zone = *world.master;
    worker->pid = ++world.last_pid;

    world_enter(worker);
    (void) ngx_http_agentstream_store_init_worker(worker->zone);
}


/* killed; what it had is left as it is */

static void
world_kill(worker_t *worker)
{
    free(worker->zone);
    worker->zone = NULL;
}


static ngx_uint_t
world_alive(ngx_pid_t pid)
{
    return kill(pid, 0) == 0;
}


static void
world_tick(ngx_uint_t seconds)
{
    world.now.sec += seconds;
    ngx_current_msec += seconds * 1000;
}


/* the pages of the slab that are free, or cut into blocks */

static ngx_uint_t
world_slab_pages(ngx_slab_pool_t *sp)
{
    ngx_uint_t  i, n, shift, pages, per;

    pages = sp->pfree;
    n = ngx_pagesize_shift - sp->min_shift;

    for (i = 0; i < n; i++) {
        shift = i + sp->min_shift;
        per = ngx_pagesize >> shift;

        if (shift < 6) {
            /* they begin with a map */
            per -= ngx_max((ngx_pagesize >> shift) / ((1 << shift) * 8), 1);
        }

        pages += sp->stats[i].total / per;
    }

    return pages;
}


/* size of the zone, which includes what the slab and the slots need */

static void
world_open(size_t size, ngx_msec_t retain)
{
    ngx_uint_t        i;
    ngx_slab_pool_t  *sp;

    static ngx_uint_t  initialized;

    if (!initialized) {
        ngx_slab_sizes_init();
        initialized = 1;
    }

    ngx_memzero(&world, sizeof(world_t));

    world.last_pid = FIRST_PID;
    world.now.sec = 1000000;
    world.core.worker_processes = 1;

    ngx_cached_time = &world.now;
    ngx_current_msec = 1;
    ngx_pid = FIRST_PID;
    ngx_cycle = &world_cycle;
    world_cycle.log = &ngx_unit_log;

    if (posix_memalign(&world.memory, ngx_pagesize, size) != 0) {
        abort();
    }

    ngx_memset(world.memory, 0xa5, size);

    sp = world.memory;
    ngx_memzero(sp, sizeof(ngx_slab_pool_t));

    sp->end = (u_char *) world.memory + size;
    sp->min_shift = 3;
    sp->addr = world.memory;

    if (ngx_shmtx_create(&sp->mutex, &sp->lock, NULL) != NGX_OK) {
        abort();
    }

    ngx_slab_init(sp);

    world.pool = ngx_create_pool(4096, &ngx_unit_log);
    if (world.pool == NULL) {
        abort();
    }

    world.master = ngx_http_agentstream_store_open(world.pool, &world.core,
                                                   retain);

    world.shm.data = world.master;
    world.shm.shm.addr = world.memory;
    world.shm.shm.size = size;
    world.shm.shm.log = &ngx_unit_log;
    ngx_str_set(&world.shm.shm.name, "model");

    if (world.master == NULL
        || ngx_http_agentstream_store_init(&world.shm, NULL) != NGX_OK)
    {
        abort();
    }

    world.pages = sp->pfree;
    world.whole = sp->last - sp->pages - world_slab_pages(sp);

    for (i = 0; i < (ngx_uint_t) ngx_pagesize_shift - sp->min_shift; i++) {
        world.used[i] = sp->stats[i].used;
    }
}


static void
world_close(void)
{
    ngx_uint_t  i;

    for (i = 0; i < WORKERS; i++) {
        world_kill(&world.workers[i]);
    }

    ngx_destroy_pool(world.pool);
    free(world.memory);
}


#endif /* _NGX_HTTP_AGENTSTREAM_STORE_WORLD_H_INCLUDED_ */
