/* Small tools of the native tests: counted expectations, and memory that ends (or begins) at a page that may not be read. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int failures = 0;

#define EXPECT(condition, ...)                                                   \
    do {                                                                         \
        if (!(condition) && failures++ < 10) {                                   \
            printf("%s:%d: %s does not hold: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                                 \
            printf("\n");                                                        \
        }                                                                        \
    } while (0)

typedef struct area {
    uint8_t *begin, *end; /* a page that may not be read lies before begin and one at end */
} area;

static area guarded(size_t room) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t size = (room + page - 1) / page * page;
    uint8_t *at = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + page, size, PROT_READ | PROT_WRITE) != 0) abort();
    area a = {at + page, at + page + size};
    return a;
}

/* The bytes copied so that the last one lies before the page that may not be read. */
static uint8_t *at_end(area a, const uint8_t *bytes, size_t len) {
    if (len > (size_t)(a.end - a.begin)) abort();
    if (len) memcpy(a.end - len, bytes, len);
    return a.end - len;
}

static int finish(const char *name) {
    printf("%s: %d failures\n", name, failures);
    return failures != 0;
}

#endif
