/* CRC-32 by the ARMv8 CRC32 instructions. */
#include "crc32/crc32_kernels.h"

#ifdef RMQ_CRC_ARM

#include <string.h>

#if defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1UL << 7)
#endif
#endif

#if defined(__clang__)
#define RMQ_TARGET_CRC __attribute__((target("crc")))
#define CRC32_X __builtin_arm_crc32d
#define CRC32_W __builtin_arm_crc32w
#define CRC32_B __builtin_arm_crc32b
#else
#define RMQ_TARGET_CRC __attribute__((target("+crc")))
#define CRC32_X __builtin_aarch64_crc32x
#define CRC32_W __builtin_aarch64_crc32w
#define CRC32_B __builtin_aarch64_crc32b
#endif

int rmq_crc32_armv8_runs(void) {
#if defined(__ARM_FEATURE_CRC32) || defined(__APPLE__)
    return 1; /* the whole build requires it, or (Apple) every such CPU has it */
#elif defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
    return 0;
#endif
}

/* The instructions take the lowest byte first. */
static inline uint64_t load_le64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

static inline uint32_t load_le32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    return v;
}

RMQ_TARGET_CRC uint32_t rmq_crc32_armv8(const uint8_t *buf, size_t len) {
    uint32_t crc = UINT32_MAX;
    for (; len >= 32; buf += 32, len -= 32) {
        crc = CRC32_X(crc, load_le64(buf));
        crc = CRC32_X(crc, load_le64(buf + 8));
        crc = CRC32_X(crc, load_le64(buf + 16));
        crc = CRC32_X(crc, load_le64(buf + 24));
    }
    for (; len >= 8; buf += 8, len -= 8) crc = CRC32_X(crc, load_le64(buf));
    for (; len >= 4; buf += 4, len -= 4) crc = CRC32_W(crc, load_le32(buf));
    for (; len > 0; buf++, len--) crc = CRC32_B(crc, *buf);
    return ~crc;
}

#endif
