/* CRC-32 by carry-less multiplication (Gopal et al., "Fast CRC Computation for Generic Polynomials").
 *
 * Zero bytes in front of a message do not change its remainder. So the ragged bytes are taken first, padded in front
 * with zeros, and every later block is full: no tail loop. The CRC's initial all-ones is XORed into the message's first
 * four bytes, wherever those land in the first block; they may straddle it and the second.
 */
#include "crc32_kernels.h"

#ifdef RMQ_CRC_X86

#include <immintrin.h>

/* Each kernel's target attribute and its *_runs() name the same features. __builtin_cpu_supports also asks whether
 * the operating system saves the registers (XCR0). */
#define RMQ_TARGET_128 __attribute__((target("sse4.1,avx,pclmul")))
#define RMQ_TARGET_512 \
    __attribute__((target("sse4.1,avx,avx2,pclmul,bmi2,avx512f,avx512bw,avx512dq,avx512vl,vpclmulqdq")))

int rmq_crc32_pclmul_runs(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("avx") && __builtin_cpu_supports("pclmul");
}

int rmq_crc32_vpclmul_runs(void) {
    return rmq_crc32_pclmul_runs() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("vpclmulqdq");
}

/* Folding by D bits multiplies the low half by x^(D+63) mod P and the high half by x^(D-1) mod P, bit-reversed. */
typedef struct fold_constant {
    uint64_t low, high;
} fold_constant;

static const fold_constant FOLD_2048 = {0x7CC8E1E700000000, 0x03F9F86300000000};
static const fold_constant FOLD_1024 = {0x7D657A1000000000, 0x7406FA9500000000};
static const fold_constant FOLD_512 = {0x653D982200000000, 0xCAD38E8F00000000};
static const fold_constant FOLD_384 = {0x69CCFC0D00000000, 0x2A28386200000000};
static const fold_constant FOLD_256 = {0x9570D49500000000, 0x01B5FD1D00000000};
static const fold_constant FOLD_128 = {0x65673B4600000000, 0x9BA54C6F00000000};

/* 128 bits to the CRC: fold to 96, to 64, then Barrett. */
RMQ_TARGET_128 static inline uint32_t reduce_128(__m128i x) {
    const __m128i fold_96 = _mm_set_epi64x(0, 0x0CCAA009E);
    const __m128i fold_64 = _mm_set_epi64x(0, 0x163CD6124);
    const __m128i barrett = _mm_set_epi64x(0x1F7011641, 0x1DB710641);
    const __m128i low_words = _mm_set_epi32(0, -1, 0, -1);
    x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, fold_96, 0x00));
    x = _mm_xor_si128(_mm_srli_si128(x, 4), _mm_clmulepi64_si128(_mm_and_si128(x, low_words), fold_64, 0x00));
    __m128i q = _mm_clmulepi64_si128(_mm_and_si128(x, low_words), barrett, 0x10);
    x = _mm_xor_si128(x, _mm_clmulepi64_si128(_mm_and_si128(q, low_words), barrett, 0x00));
    return ~(uint32_t)_mm_extract_epi32(x, 1);
}

/* ---- 128 bits ------------------------------------------------------------------------------------- */

RMQ_TARGET_128 static inline __m128i load_128(const void *p) { return _mm_loadu_si128((const __m128i_u *)p); }

RMQ_TARGET_128 static inline __m128i fold_128(__m128i acc, __m128i by, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(acc, by, 0x00), high = _mm_clmulepi64_si128(acc, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Shuffle masks: from 16 - n the bytes move up by n and zeros follow, from 16 + n they move down. */
static const uint8_t SHIFT[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, /* zeros */
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,   /* the bytes */
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, /* zeros */
};

RMQ_TARGET_128 uint32_t rmq_crc32_pclmul(const uint8_t *buf, size_t len) {
    if (len < 16) return rmq_crc32_slicing(buf, len);
    const __m128i by_128 = load_128(&FOLD_128);
    __m128i ones = _mm_cvtsi32_si128(-1), acc = _mm_setzero_si128();
    const size_t head = len & 15;
    const uint8_t *p = buf + head, *const end = buf + len;
    if (head != 0) { /* the first head bytes, moved to the vector's end */
        acc = _mm_shuffle_epi8(_mm_xor_si128(load_128(buf), ones), load_128(SHIFT + head));
        ones = _mm_shuffle_epi8(ones, load_128(SHIFT + 16 + head)); /* what of it belongs to the next block */
    }
    acc = fold_128(acc, by_128, _mm_xor_si128(load_128(p), ones));
    p += 16;
    if (end - p >= 368) { /* 8 independent chains; pays from about here on */
        const __m128i by_1024 = load_128(&FOLD_1024);
        __m128i chain[8] = {acc};
        for (int i = 1; i < 8; i++, p += 16) chain[i] = load_128(p);
        for (; end - p >= 128; p += 128) {
            for (int i = 0; i < 8; i++) chain[i] = fold_128(chain[i], by_1024, load_128(p + 16 * i));
        }
        acc = chain[0];
        for (int i = 1; i < 8; i++) acc = fold_128(acc, by_128, chain[i]);
    } else if (end - p >= 112) { /* 4 chains */
        const __m128i by_512 = load_128(&FOLD_512);
        __m128i a = acc, b = load_128(p), c = load_128(p + 16), d = load_128(p + 32);
        for (p += 48; end - p >= 64; p += 64) {
            a = fold_128(a, by_512, load_128(p));
            b = fold_128(b, by_512, load_128(p + 16));
            c = fold_128(c, by_512, load_128(p + 32));
            d = fold_128(d, by_512, load_128(p + 48));
        }
        acc = fold_128(a, load_128(&FOLD_384), d);
        acc = fold_128(b, load_128(&FOLD_256), acc);
        acc = fold_128(c, by_128, acc);
    }
    for (; p != end; p += 16) acc = fold_128(acc, by_128, load_128(p));
    return reduce_128(acc);
}

/* ---- 512 bits ------------------------------------------------------------------------------------- */

RMQ_TARGET_512 static inline __m512i load_512(const void *p) { return _mm512_loadu_si512(p); }

RMQ_TARGET_512 static inline __m512i fold_512(__m512i acc, __m512i by, __m512i next) {
    __m512i low = _mm512_clmulepi64_epi128(acc, by, 0x00), high = _mm512_clmulepi64_epi128(acc, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* 0x96: three-way XOR */
}

RMQ_TARGET_512 static inline __m512i broadcast(const fold_constant *by) {
    return _mm512_broadcast_i64x2(_mm_loadu_si128((const __m128i_u *)by));
}

RMQ_TARGET_512 static inline uint32_t reduce_512(__m512i acc) {
    const __m512i by = _mm512_set_epi64(0, 0, (long long)FOLD_128.high, (long long)FOLD_128.low,
                                        (long long)FOLD_256.high, (long long)FOLD_256.low, (long long)FOLD_384.high,
                                        (long long)FOLD_384.low);
    const __m512i f = _mm512_xor_si512(_mm512_clmulepi64_epi128(acc, by, 0x00), _mm512_clmulepi64_epi128(acc, by, 0x11));
    __m128i x = _mm_ternarylogic_epi64(_mm512_castsi512_si128(f), _mm512_extracti64x2_epi64(f, 1),
                                       _mm512_extracti64x2_epi64(f, 2), 0x96);
    return reduce_128(_mm_xor_si128(x, _mm512_extracti64x2_epi64(acc, 3)));
}

/* The initial all-ones at any place of a vector is a load from here. A table, not a computed vector: gcc makes all-ones
 * with vpternlogd, whose false dependency on its old register serialises calls (three times slower at 128 bytes). */
static const uint8_t ONES_AT_64[192] __attribute__((aligned(64))) = {[64] = 0xFF, [65] = 0xFF, [66] = 0xFF, [67] = 0xFF};

RMQ_TARGET_512 uint32_t rmq_crc32_vpclmul(const uint8_t *buf, size_t len) {
    if (len < 4) return rmq_crc32_slicing(buf, len); /* the all-ones would not fit */
    const size_t head = ((len - 1) & 63) + 1, pad = 64 - head;
    const uint8_t *p = buf + head, *const end = buf + len;
    /* Lanes below pad lie before the buffer: masked, so neither read nor able to fault, and computed as an integer
     * because a pointer there would be undefined. */
    __m512i acc = _mm512_maskz_loadu_epi8(~UINT64_C(0) << pad, (const void *)((uintptr_t)buf - pad));
    acc = _mm512_xor_si512(acc, load_512(ONES_AT_64 + 64 - pad));
    if (p == end) return reduce_512(acc);
    const __m512i by_512 = broadcast(&FOLD_512);
    acc = fold_512(acc, by_512, _mm512_xor_si512(load_512(p), load_512(ONES_AT_64 + 128 - pad)));
    p += 64;
    if (end - p >= 448) { /* 4 independent chains; pays from about here on */
        const __m512i by_2048 = broadcast(&FOLD_2048);
        __m512i a = acc, b = load_512(p), c = load_512(p + 64), d = load_512(p + 128);
        for (p += 192; end - p >= 256; p += 256) {
            a = fold_512(a, by_2048, load_512(p));
            b = fold_512(b, by_2048, load_512(p + 64));
            c = fold_512(c, by_2048, load_512(p + 128));
            d = fold_512(d, by_2048, load_512(p + 192));
        }
        acc = fold_512(fold_512(fold_512(a, by_512, b), by_512, c), by_512, d);
    }
    for (; p != end; p += 64) acc = fold_512(acc, by_512, load_512(p));
    return reduce_512(acc);
}

#endif
