#include "format/lost_pages.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

/* Never freed: a handler may be walking over the list. Those that are not `used` serve again. */
struct rmq_watched {
    int used;
    uint8_t *base; /* NULL: not yet, or no longer */
    size_t size;
    int protection;
    int64_t lost;
    rmq_watched *next;
};

enum { HANDLER_NONE, HANDLER_COMING, HANDLER_SET };

static rmq_watched *first;
static int64_t all_lost;
static size_t page_size;
static int handler = HANDLER_NONE;
static struct sigaction before;

static rmq_watched *watched_at(const uint8_t *address) {
    for (rmq_watched *w = __atomic_load_n(&first, __ATOMIC_ACQUIRE); w != NULL; w = w->next) {
        const uint8_t *base = __atomic_load_n(&w->base, __ATOMIC_ACQUIRE);
        if (base != NULL && address >= base && (size_t)(address - base) < w->size) return w;
    }
    return NULL;
}

/* Acts as if this handler did not exist. */
static void pass_on(int number, siginfo_t *info, void *context) {
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else if (before.sa_handler == SIG_DFL || info->si_code > 0) {
        /* The access is repeated, or the signal is raised once more, without a handler. */
        struct sigaction none;
        memset(&none, 0, sizeof none);
        none.sa_handler = SIG_DFL;
        sigaction(number, &none, NULL);
        if (info->si_code <= 0) raise(number);
    }
}

/* Nothing here locks or allocates: the thread may be at any instruction. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    const int error = errno;
    uint8_t *address = info->si_addr;
    rmq_watched *w = info->si_code > 0 ? watched_at(address) : NULL;
    if (w != NULL) {
        uint8_t *page = address - (uintptr_t)address % page_size;
        if (mmap(page, page_size, w->protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
            __atomic_fetch_add(&w->lost, 1, __ATOMIC_RELEASE);
            __atomic_fetch_add(&all_lost, 1, __ATOMIC_RELEASE);
            errno = error;
            return;
        }
    }
    errno = error;
    pass_on(number, info, context);
}

static int set_handler(void) {
    int none = HANDLER_NONE;
    if (__atomic_load_n(&handler, __ATOMIC_ACQUIRE) == HANDLER_SET) return 0;
    if (!__atomic_compare_exchange_n(&handler, &none, HANDLER_COMING, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return 0;
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    struct sigaction own;
    memset(&own, 0, sizeof own);
    own.sa_sigaction = on_bus_error;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&own.sa_mask);
    const int code = sigaction(SIGBUS, &own, &before);
    __atomic_store_n(&handler, code == 0 ? HANDLER_SET : HANDLER_NONE, __ATOMIC_RELEASE);
    return code;
}

rmq_watched *rmq_watch(uint8_t *base, size_t size, int writable) {
    if (set_handler() < 0) return NULL;
    rmq_watched *w;
    for (w = __atomic_load_n(&first, __ATOMIC_ACQUIRE); w != NULL; w = w->next) {
        int no = 0;
        if (__atomic_compare_exchange_n(&w->used, &no, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) break;
    }
    if (w == NULL) {
        w = calloc(1, sizeof *w);
        if (w == NULL) return NULL;
        w->used = 1;
        w->next = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
        while (!__atomic_compare_exchange_n(&first, &w->next, w, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        }
    }
    w->size = size;
    w->protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    w->lost = 0;
    __atomic_store_n(&w->base, base, __ATOMIC_RELEASE);
    return w;
}

void rmq_unwatch(rmq_watched *watched) {
    __atomic_store_n(&watched->base, NULL, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&all_lost, __atomic_load_n(&watched->lost, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
    __atomic_store_n(&watched->used, 0, __ATOMIC_RELEASE);
}

int64_t rmq_lost_pages(const rmq_watched *watched) { return __atomic_load_n(&watched->lost, __ATOMIC_ACQUIRE); }
const int64_t *rmq_all_lost_pages(void) { return &all_lost; }
