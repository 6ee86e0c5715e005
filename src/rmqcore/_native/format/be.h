/* Big-endian loads and stores at any alignment and on any host.
 *
 * The memcpy is there for machines (and sanitizers) that refuse unaligned access; compilers turn it and
 * the swap into one instruction. Signed results: every integer on disk is a Java int, long or short.
 */
#ifndef RMQ_BE_H
#define RMQ_BE_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define RMQ_SWAP16(v) (v)
#define RMQ_SWAP32(v) (v)
#define RMQ_SWAP64(v) (v)
#else
#define RMQ_SWAP16(v) __builtin_bswap16(v)
#define RMQ_SWAP32(v) __builtin_bswap32(v)
#define RMQ_SWAP64(v) __builtin_bswap64(v)
#endif

static inline int16_t rmq_load_i16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return (int16_t)RMQ_SWAP16(v);
}

static inline int32_t rmq_load_i32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return (int32_t)RMQ_SWAP32(v);
}

static inline int64_t rmq_load_i64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return (int64_t)RMQ_SWAP64(v);
}

static inline void rmq_store_i16(uint8_t *p, int16_t value) {
    uint16_t v = RMQ_SWAP16((uint16_t)value);
    memcpy(p, &v, sizeof v);
}

static inline void rmq_store_i32(uint8_t *p, int32_t value) {
    uint32_t v = RMQ_SWAP32((uint32_t)value);
    memcpy(p, &v, sizeof v);
}

static inline void rmq_store_i64(uint8_t *p, int64_t value) {
    uint64_t v = RMQ_SWAP64((uint64_t)value);
    memcpy(p, &v, sizeof v);
}

#endif
