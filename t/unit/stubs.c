/*
 * Symbols that nginx's core refers to and that the unit tests and fuzzers do
 * not need. ngx_create_pool() needs a log: "extern ngx_log_t ngx_unit_log;".
 */


#include <ngx_config.h>
#include <ngx_core.h>


ngx_log_t             ngx_unit_log;
ngx_pid_t             ngx_pid;
ngx_int_t             ngx_ncpu = 1;
volatile ngx_cycle_t  *ngx_cycle;


/* ngx_os_init() does this in nginx */

static void ngx_unit_init(void) __attribute__((constructor));


static void
ngx_unit_init(void)
{
    ngx_pagesize = 4096;
    ngx_pagesize_shift = 12;
    ngx_cacheline_size = NGX_CPU_CACHE_LINE;
}


void
ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
    const char *fmt, ...)
{
}


void
ngx_debug_point(void)
{
    abort();
}
