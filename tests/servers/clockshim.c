/* Adds offsets, read from the file named by CLOCK_OFFSETS, to the clocks of the process it is
 * preloaded into. The file holds three doubles: wall, monotonic and boot-time clock, in seconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double offset(clockid_t clock)
{
    static int file = -2;
    double offsets[3] = {0, 0, 0};
    int place = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? 0
              : clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE
                    || clock == CLOCK_MONOTONIC_RAW ? 1
              : clock == CLOCK_BOOTTIME ? 2 : -1;
    if (place < 0)
        return 0;
    if (file == -2) {
        const char *path = getenv("CLOCK_OFFSETS");
        file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    }
    if (file < 0 || pread(file, offsets, sizeof offsets, 0) != sizeof offsets)
        return 0;
    return offsets[place];
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int status = (int)syscall(SYS_clock_gettime, clock, at);
    if (status == 0) {
        long long total = at->tv_sec * 1000000000LL + at->tv_nsec + (long long)(offset(clock) * 1e9);
        at->tv_sec = total / 1000000000LL;
        at->tv_nsec = total % 1000000000LL;
    }
    return status;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return status;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
