/* Preloaded: the wall clock of a process, shifted by the nanoseconds that stand in the file SHIFTED_CLOCK names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *shift;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("SHIFTED_CLOCK");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    void *at = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) {
        shift = at;
    }
}

int clock_gettime(clockid_t which, struct timespec *t) {
    long code = syscall(SYS_clock_gettime, which, t);
    if (code == 0 && shift && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        long long ns = (long long)t->tv_sec * 1000000000 + t->tv_nsec + *shift;
        t->tv_sec = (time_t)(ns / 1000000000);
        t->tv_nsec = (long)(ns % 1000000000);
    }
    return (int)code;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) {
        *t = now.tv_sec;
    }
    return now.tv_sec;
}
