/* CRC-32 by 128-bit carry-less multiplication. VEX encoded on purpose: the legacy SSE encoding runs at half the speed
 * after any code left the upper halves of the vector registers dirty. */
#include "crc32/crc32_kernels.h"

#ifdef RMQ_CRC_X86

#include "crc32/crc32_x86.h"

/* __builtin_cpu_supports also asks whether the operating system saves the registers (XCR0). */
int rmq_crc32_pclmul_runs(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("avx") && __builtin_cpu_supports("pclmul");
}

/* Folding by D bits: x^(D+63) and x^(D-1) mod P. */
static const fold_constant FOLD_1024 = {0x7D657A1000000000, 0x7406FA9500000000};
static const fold_constant FOLD_512 = {0x653D982200000000, 0xCAD38E8F00000000};
static const fold_constant FOLD_384 = {0x69CCFC0D00000000, 0x2A28386200000000};
static const fold_constant FOLD_256 = {0x9570D49500000000, 0x01B5FD1D00000000};
static const fold_constant FOLD_128 = {0x65673B4600000000, 0x9BA54C6F00000000};

/* Shuffle masks: from 16 - n the bytes move up by n and zeros follow, from 16 + n they move down. */
static const uint8_t SHIFT[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, /* zeros */
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,   /* the bytes */
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, /* zeros */
};

RMQ_TARGET_128 static inline __m128i load_128(const void *p) { return _mm_loadu_si128((const __m128i_u *)p); }

RMQ_TARGET_128 static inline __m128i fold_128(__m128i acc, __m128i by, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(acc, by, 0x00), high = _mm_clmulepi64_si128(acc, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

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
    return ~reduce_96(fold_128(acc, load_128(&TO_END[3][3]), _mm_setzero_si128()));
}

#endif
