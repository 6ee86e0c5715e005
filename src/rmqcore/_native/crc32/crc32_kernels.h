/* Declarations shared by the CRC-32 source files; all other files include crc32.h. */
#ifndef RMQ_CRC32_KERNELS_H
#define RMQ_CRC32_KERNELS_H

#include "crc32/crc32.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define RMQ_CRC_X86 1
#endif
#if defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define RMQ_CRC_ARM 1
#endif

/* Portable: 16 tables, 16 bytes per step. */
uint32_t rmq_crc32_slicing(const uint8_t *buf, size_t len);

#ifdef RMQ_CRC_X86
/* 512-bit carry-less multiplication. */
uint32_t rmq_crc32_vpclmul(const uint8_t *buf, size_t len);
int rmq_crc32_vpclmul_runs(void);

/* 128-bit carry-less multiplication, VEX encoded. */
uint32_t rmq_crc32_pclmul(const uint8_t *buf, size_t len);
int rmq_crc32_pclmul_runs(void);
#endif

#ifdef RMQ_CRC_ARM
/* The CRC32 instructions, which compute this very polynomial. */
uint32_t rmq_crc32_armv8(const uint8_t *buf, size_t len);
int rmq_crc32_armv8_runs(void);
#endif

#endif
