/* Every CRC-32 kernel by force, not only the one this CPU would choose: all lengths 0 .. 2099 at several alignments and
 * some long ones against zlib. Each buffer ends at a page that may not be read, and then begins behind one, so a kernel
 * that reads outside [buf, buf + len) dies here. Prints one line a kernel; a kernel the CPU cannot run is named. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crc32/crc32.h"

#ifdef NO_ZLIB /* cross builds: bit by bit, as the polynomial says */
static uint32_t reference(const uint8_t *buf, size_t len) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= buf[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xEDB88320U & (0U - (crc & 1)));
    }
    return ~crc;
}
#else
#include <zlib.h>
static uint32_t reference(const uint8_t *buf, size_t len) { return (uint32_t)crc32(0, buf, (uInt)len); }
#endif

enum { LENGTHS = 2100, LONGEST = (1 << 16) + 7, ALIGNMENTS = 5 };
static const size_t long_lengths[] = {4096, 10000, 1 << 16, LONGEST};
static int failures = 0;

/* n readable bytes between two pages that are not. */
static uint8_t *guarded_pages(size_t n) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *at = mmap(NULL, n + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + page, n, PROT_READ | PROT_WRITE) != 0) abort();
    return at + page;
}

static void expect(const char *kernel, rmq_crc32_fn fn, const uint8_t *buf, size_t len) {
    uint32_t found = fn(buf, len), expected = reference(buf, len);
    if (found == expected) return;
    if (failures++ >= 10) return;
    printf("%s: length %zu at %p: %08x, expected %08x\n", kernel, len, (const void *)buf, found, expected);
}

static void check_kernel(const char *kernel, rmq_crc32_fn fn, const uint8_t *area, size_t room) {
    for (size_t len = 0; len < LENGTHS; len++) {
        expect(kernel, fn, area + room - len, len); /* ends at the guard page */
        for (size_t i = 0; i < ALIGNMENTS; i++) expect(kernel, fn, area + 13 * i, len); /* first begins at one */
    }
    for (size_t i = 0; i < sizeof long_lengths / sizeof long_lengths[0]; i++) {
        expect(kernel, fn, area + room - long_lengths[i], long_lengths[i]);
        expect(kernel, fn, area, long_lengths[i]);
    }
    if (fn((const uint8_t *)"123456789", 9) != 0xCBF43926U) failures++; /* the check value of the CRC catalogues */
}

static void check_choice(void) {
    if (rmq_crc32((const uint8_t *)"a", 1) != 0xE8B7BE43U) failures++; /* works before any choice */
    if (strcmp(rmq_crc32_name(), "slicing") != 0) failures++;
    if (rmq_crc32_select("md5") != RMQ_CRC_NO_SUCH_KERNEL || strcmp(rmq_crc32_name(), "slicing") != 0) failures++;
    if (rmq_crc32_kernel("md5") != NULL) failures++;
    if (rmq_crc32_select("") != RMQ_CRC_OK || rmq_crc32_select(NULL) != RMQ_CRC_OK) failures++;
    printf("chosen: %s\n", rmq_crc32_name());
}

int main(void) {
    static const char *const kernels[] = {"slicing", "pclmul", "vpclmul", "armv8"};
    check_choice();
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (LONGEST + page - 1) / page * page;
    uint8_t *area = guarded_pages(room);
    uint32_t x = 88172645;
    for (size_t i = 0; i < room; i++) area[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        rmq_crc32_fn fn = rmq_crc32_kernel(kernels[i]);
        if (fn == NULL) {
            int why = rmq_crc32_select(kernels[i]);
            printf("%s: %s\n", kernels[i], why == RMQ_CRC_NOT_BUILT ? "not built" : "no cpu");
            if (why != RMQ_CRC_NOT_BUILT && why != RMQ_CRC_NO_CPU) failures++;
            continue;
        }
        int before = failures;
        check_kernel(kernels[i], fn, area, room);
        if (rmq_crc32_select(kernels[i]) != RMQ_CRC_OK || strcmp(rmq_crc32_name(), kernels[i]) != 0) failures++;
        printf("%s: %s\n", kernels[i], failures == before ? "ok" : "FAILED");
    }
    printf("failures: %d\n", failures);
    return failures != 0;
}
