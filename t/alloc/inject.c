
/*
 * Copyright (C) agentstream contributors
 */


/*
 * For tests: an nginx whose n-th allocation fails.  The linker redirects the
 * functions that nginx and the module call (see "inject" in util/nginx) to the
 * functions here.  A file, named by AGENTSTREAM_ALLOC and mapped by all
 * processes, says which allocation must fail, and afterwards contains how many
 * there were and where it failed; the test reads and writes it
 * (t/lib/AgentStream/Alloc.pm).
 *
 * nginx is built with NGX_DEBUG_PALLOC, so that every allocation from a pool
 * is a separate malloc().
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <execinfo.h>


#define INJECT_FRAMES  48
#define INJECT_BLOCKS  4096
#define INJECT_WHERE   12


/* a block of the zone */

typedef struct {
    uint64_t      p;
    uint64_t      mark;
    uint64_t      nframes;
    uint64_t      frames[INJECT_WHERE];
} inject_block_t;


typedef struct {
    uint64_t      armed;
    uint64_t      fail;       /* which one, from 1; 0: none */
    uint64_t      burst;      /* and how many in a row */
    uint64_t      count;      /* those asked for since it was armed */
    uint64_t      failed;
    uint64_t      nframes;
    uint64_t      mark;       /* what the blocks of the zone are for */
    uint64_t      nblocks;    /* those the module holds */
    uint64_t      end;        /* of the used part of the table */
    uint64_t      frames[INJECT_FRAMES];

    /* guarded by the zone's lock */
    inject_block_t  blocks[INJECT_BLOCKS];
} inject_t;


void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
int __real_posix_memalign(void **p, size_t alignment, size_t size);
int __real_dup(int fd);
void *__real_ngx_slab_alloc_locked(ngx_slab_pool_t *pool, size_t size);
void __real_ngx_slab_free_locked(ngx_slab_pool_t *pool, void *p);
void __real_ngx_shmtx_unlock(ngx_shmtx_t *mtx);
ngx_connection_t *__real_ngx_get_connection(ngx_socket_t s, ngx_log_t *log);
u_char *__real_ngx_http_agentstream_output_alloc(size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
int __wrap_posix_memalign(void **p, size_t alignment, size_t size);
int __wrap_dup(int fd);
void *__wrap_ngx_slab_alloc_locked(ngx_slab_pool_t *pool, size_t size);
void __wrap_ngx_slab_free_locked(ngx_slab_pool_t *pool, void *p);
void __wrap_ngx_shmtx_unlock(ngx_shmtx_t *mtx);
ngx_connection_t *__wrap_ngx_get_connection(ngx_socket_t s, ngx_log_t *log);
u_char *__wrap_ngx_http_agentstream_output_alloc(size_t size);

static void inject_init(void) __attribute__((constructor));
static int inject_fails(void);
static inject_block_t *inject_find(void *p);


static inject_t  *inject;

/* the zone is full until its lock is released: one that failed only once
   would be satisfied after eviction */
static int        inject_full;


static void
inject_init(void)
{
    int    fd;
    void  *frames[1], *p;
    char  *name;

    name = getenv("AGENTSTREAM_ALLOC");
    if (name == NULL) {
        return;
    }

    /* it allocates when it is called for the first time */
    (void) backtrace(frames, 1);

    fd = open(name, O_RDWR);
    if (fd == -1) {
        return;
    }

    p = mmap(NULL, sizeof(inject_t), PROT_READ|PROT_WRITE, MAP_SHARED, fd, 0);

    if (p != MAP_FAILED) {
        inject = p;
    }

    (void) close(fd);
}


static int
inject_fails(void)
{
    int        i, n;
    void      *frames[INJECT_FRAMES];
    uint64_t   count;

    if (inject == NULL || !inject->armed || ngx_process != NGX_PROCESS_WORKER) {
        return 0;
    }

    count = ++inject->count;

    if (inject->fail == 0 || count < inject->fail
        || count >= inject->fail + inject->burst)
    {
        return 0;
    }

    if (inject->failed++ == 0) {
        n = backtrace(frames, INJECT_FRAMES);

        for (i = 0; i < n; i++) {
            inject->frames[i] = (uintptr_t) frames[i];
        }

        inject->nframes = n;
    }

    return 1;
}


void *
__wrap_malloc(size_t size)
{
    if (inject_fails()) {
        errno = ENOMEM;
        return NULL;
    }

    return __real_malloc(size);
}


void *
__wrap_calloc(size_t n, size_t size)
{
    if (inject_fails()) {
        errno = ENOMEM;
        return NULL;
    }

    return __real_calloc(n, size);
}


void *
__wrap_realloc(void *p, size_t size)
{
    if (inject_fails()) {
        errno = ENOMEM;
        return NULL;
    }

    return __real_realloc(p, size);
}


int
__wrap_posix_memalign(void **p, size_t alignment, size_t size)
{
    return inject_fails() ? ENOMEM : __real_posix_memalign(p, alignment, size);
}


int
__wrap_dup(int fd)
{
    if (inject_fails()) {
        errno = EMFILE;
        return -1;
    }

    return __real_dup(fd);
}


ngx_connection_t *
__wrap_ngx_get_connection(ngx_socket_t s, ngx_log_t *log)
{
    return inject_fails() ? NULL : __real_ngx_get_connection(s, log);
}


/* most of the time it has one to spare, and asks nobody */

u_char *
__wrap_ngx_http_agentstream_output_alloc(size_t size)
{
    return inject_fails() ? NULL
                          : __real_ngx_http_agentstream_output_alloc(size);
}


static inject_block_t *
inject_find(void *p)
{
    uint64_t  i;

    for (i = 0; i < inject->end; i++) {
        if (inject->blocks[i].p == (uintptr_t) p) {
            return &inject->blocks[i];
        }
    }

    return NULL;
}


void *
__wrap_ngx_slab_alloc_locked(ngx_slab_pool_t *pool, size_t size)
{
    int              i, n;
    void            *p, *frames[INJECT_WHERE];
    inject_block_t  *block;

    if (inject_full || inject_fails()) {
        inject_full = 1;
        return NULL;
    }

    p = __real_ngx_slab_alloc_locked(pool, size);

    if (inject == NULL || p == NULL) {
        return p;
    }

    inject->nblocks++;

    block = inject_find(NULL);

    if (block == NULL) {

        if (inject->end == INJECT_BLOCKS) {
            return p;
        }

        block = &inject->blocks[inject->end++];
    }

    n = backtrace(frames, INJECT_WHERE);

    for (i = 0; i < n; i++) {
        block->frames[i] = (uintptr_t) frames[i];
    }

    block->nframes = n;
    block->mark = inject->mark;
    block->p = (uintptr_t) p;

    return p;
}


void
__wrap_ngx_slab_free_locked(ngx_slab_pool_t *pool, void *p)
{
    inject_block_t  *block;

    if (inject) {
        inject->nblocks--;

        block = inject_find(p);

        if (block) {
            block->p = 0;
        }
    }

    __real_ngx_slab_free_locked(pool, p);
}


void
__wrap_ngx_shmtx_unlock(ngx_shmtx_t *mtx)
{
    inject_full = 0;

    __real_ngx_shmtx_unlock(mtx);
}
