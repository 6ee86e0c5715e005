/* What the two x86 kernels of CRC-32 share: constants and the last step of carry-less multiplication (Gopal et al.,
 * "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ").
 *
 * Zero bytes in front of a message do not change its remainder. So the ragged bytes are processed first, padded in front
 * with zeros, and every later block is full: no tail loop.
 */
#ifndef RMQ_CRC32_X86_H
#define RMQ_CRC32_X86_H

#include <immintrin.h>

#include "crc32/crc32_kernels.h"

/* Each kernel's target attribute and its *_runs() name the same features. */
#define RMQ_TARGET_128 __attribute__((target("sse4.1,avx,pclmul")))
#define RMQ_TARGET_512 \
    __attribute__((target("sse4.1,avx,avx2,pclmul,bmi2,avx512f,avx512bw,avx512dq,avx512vl,vpclmulqdq")))

/* Multipliers of a lane's lower and upper 64 bits: polynomials mod P in reversed bit order. */
typedef struct fold_constant {
    uint64_t low, high;
} fold_constant;

/* TO_END[i][j] brings 128-bit lane j of block i to the end of a message that ends with block 3: x^(D+95) and x^(D+31)
 * mod P, where D bits follow the lane. */
static const fold_constant TO_END[4][4] = {
    {{0xE95C127100000000, 0x0077F00D00000000},
     {0x1F0C2CDD00000000, 0x4A28BD4300000000},
     {0xFE807BBD00000000, 0x682BDD4F00000000},
     {0x3C656CED00000000, 0x596C8D8100000000}},
    {{0xF5E48C8500000000, 0x5A1BB05D00000000},
     {0xD1DF232700000000, 0xE3543BE000000000},
     {0x9026D5B100000000, 0x26B70C3D00000000},
     {0x3F41287A00000000, 0x33FFF53300000000}},
    {{0x910EEEC100000000, 0x31F8303F00000000},
     {0x0CBEC0ED00000000, 0xDF068DC200000000},
     {0x57C5481900000000, 0x1C27981500000000},
     {0xAE0B539400000000, 0x8F352D9500000000}},
    {{0x1D9513D700000000, 0x3DB1ECDC00000000},
     {0xAF44924700000000, 0xF1DA05AA00000000},
     {0x8125652700000000, 0xAE68919100000000},
     {0xCCAA009E00000000, 0x0000000100000000}},
};

/* The sum of such products has a degree below 96. Its remainder by Barrett: the upper 64 bits times x^96 div P are the
 * quotient, and the quotient times P cancels all but the remainder. */
RMQ_TARGET_128 static inline uint32_t reduce_96(__m128i sum) {
    const __m128i reciprocal = _mm_cvtsi64_si128((long long)0xB4E5B025F7011641); /* x^96 div P */
    const __m128i polynomial = _mm_cvtsi64_si128(0x1DB710640);
    const __m128i quotient = _mm_clmulepi64_si128(_mm_srli_si128(sum, 4), reciprocal, 0x00);
    const __m128i multiple = _mm_clmulepi64_si128(quotient, polynomial, 0x00);
    return (uint32_t)(_mm_extract_epi32(sum, 3) ^ _mm_extract_epi32(multiple, 2));
}

#endif
