
/*
 * Copyright (C) agentstream contributors
 */


/*
 * The unit tests' own test library: prints TAP for prove(1).  A test is a
 * program that calls tap_ok() and friends and returns tap_done().
 */


#ifndef _NGX_HTTP_AGENTSTREAM_TAP_H_INCLUDED_
#define _NGX_HTTP_AGENTSTREAM_TAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>


static ngx_uint_t  tap_run;
static ngx_uint_t  tap_failed;

#if (TAP_REALLOC)
static ngx_uint_t  tap_reallocs;
static ngx_uint_t  tap_fail_realloc;
#endif


static ngx_uint_t tap_ok(ngx_uint_t ok, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), unused));
static void tap_diag(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), unused));
static ngx_uint_t tap_is(long long got, long long expected, const char *name)
    __attribute__((unused));
static ngx_uint_t tap_is_str(ngx_str_t got, const char *expected,
    const char *name) __attribute__((unused));
static ngx_str_t tap_str(const char *text) __attribute__((unused));
static void *tap_copy(const void *data, size_t len) __attribute__((unused));
static ngx_str_t tap_read(const char *path) __attribute__((unused));
static int tap_done(void) __attribute__((unused));


static ngx_uint_t
tap_ok(ngx_uint_t ok, const char *fmt, ...)
{
    char     *p, name[256];
    va_list   args;

    tap_run++;
    tap_failed += !ok;

    va_start(args, fmt);
    vsnprintf(name, sizeof(name), fmt, args);
    va_end(args);

    for (p = name; *p; p++) {
        if (*p < 0x20 || *p == '#') {
            *p = '.';
        }
    }

    printf("%sok %lu - %s\n", ok ? "" : "not ", (unsigned long) tap_run, name);
    fflush(stdout);

    return ok;
}


static void
tap_diag(const char *fmt, ...)
{
    va_list  args;

    printf("# ");

    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);

    printf("\n");
}


static ngx_uint_t
tap_is(long long got, long long expected, const char *name)
{
    if (!tap_ok(got == expected, "%s", name)) {
        tap_diag("got %lld, expected %lld", got, expected);
        return 0;
    }

    return 1;
}


static ngx_uint_t
tap_is_str(ngx_str_t got, const char *expected, const char *name)
{
    if (!tap_ok(got.len == strlen(expected)
                && (got.len == 0
                    || ngx_strncmp(got.data, expected, got.len) == 0),
                "%s", name))
    {
        tap_diag("got \"%.*s\"", (int) got.len, (char *) got.data);
        tap_diag("expected \"%s\"", expected);
        return 0;
    }

    return 1;
}


static ngx_str_t
tap_str(const char *text)
{
    ngx_str_t  s;

    s.len = strlen(text);
    s.data = (u_char *) text;

    return s;
}


/* an allocation of exactly that size: reading past it is an error */

static void *
tap_copy(const void *data, size_t len)
{
    void  *p;

    p = malloc(len);
    if (p == NULL) {
        abort();
    }

    if (len) {
        memcpy(p, data, len);
    }

    return p;
}


static ngx_str_t
tap_read(const char *path)
{
    FILE       *f;
    ngx_str_t   s;

    ngx_str_null(&s);

    f = fopen(path, "rb");
    if (f == NULL) {
        return s;
    }

    fseek(f, 0, SEEK_END);
    s.len = ftell(f);
    rewind(f);

    s.data = malloc(s.len);
    if (s.data == NULL) {
        abort();
    }

    if (fread(s.data, 1, s.len, f) != s.len) {
        s.len = 0;
    }

    fclose(f);

    return s;
}


static int
tap_done(void)
{
    printf("1..%lu\n", (unsigned long) tap_run);

    return tap_failed ? 1 : 0;
}


#if (TAP_REALLOC)

/* instead of libc's: to count the calls, and to let them fail */

void *
realloc(void *p, size_t size)
{
    void    *new;
    size_t   old;

    tap_reallocs++;

    if (tap_fail_realloc) {
        return NULL;
    }

    new = malloc(size);

    if (new && p) {
        old = malloc_usable_size(p);
        memcpy(new, p, ngx_min(old, size));
        free(p);
    }

    return new;
}

#endif


#endif /* _NGX_HTTP_AGENTSTREAM_TAP_H_INCLUDED_ */
