/* What Go takes for the kernel's page: it asks here for the time, on x86-64. See goclock.py.
 *
 * The offsets are three doubles, in seconds: for the wall clock, the monotonic and another. */
struct timespec { long tv_sec, tv_nsec; };

int __vdso_clock_gettime(int clock, struct timespec *at)
{
    const volatile double *offsets = (const volatile double *)OFFSETS_AT;
    long status;
    __asm__ volatile("syscall" : "=a"(status) : "a"(228L), "D"((long)clock), "S"(at)
                     : "rcx", "r11", "memory");
    if (status == 0 && (clock == 0 || clock == 1)) {
        long total = at->tv_sec * 1000000000L + at->tv_nsec + (long)(offsets[clock] * 1e9);
        at->tv_sec = total / 1000000000L;
        at->tv_nsec = total % 1000000000L;
    }
    return (int)status;
}
