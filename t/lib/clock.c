
/*
 * The clocks of one machine of a test: preloaded into its nginx, it adds what a
 * file says to the time of day, in seconds, and to the clock of the timers, in
 * milliseconds.  Nginx asks for the time with these two functions only.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t  *offset;

static void clock_init(void) __attribute__((constructor));


static void
clock_init(void)
{
    int          fd;
    void        *p;
    const char  *file;

    file = getenv("AGENTSTREAM_CLOCK");
    fd = file ? open(file, O_RDONLY) : -1;

    if (fd == -1) {
        return;
    }

    p = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);

    if (p != MAP_FAILED) {
        offset = p;
    }

    close(fd);
}


int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t  ns;

    if (syscall(SYS_clock_gettime, id, ts) != 0) {
        return -1;
    }

    if (offset == NULL) {
        return 0;
    }

    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
        ts->tv_sec += offset[0];

    } else if (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE) {
        ns = ts->tv_nsec + offset[1] % 1000 * 1000000;
        ts->tv_sec += offset[1] / 1000 + ns / 1000000000;
        ts->tv_nsec = ns % 1000000000;
    }

    return 0;
}


int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    struct timespec  ts;

    (void) tz;
    clock_gettime(CLOCK_REALTIME, &ts);

    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;

    return 0;
}
