/* CRC-32 (IEEE 802.3, reflected 0xEDB88320; what zlib and java.util.zip.CRC32 compute).
 *
 * One kernel is chosen at start for the CPU at hand; all kernels return identical results for every
 * length and alignment and read only [buf, buf + len). RocketMQ masks the value with RMQ_CRC_MASK:
 * the caller does that.
 */
#ifndef RMQ_CRC32_H
#define RMQ_CRC32_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t (*rmq_crc32_fn)(const uint8_t *buf, size_t len);

/* The chosen kernel. Slicing until rmq_crc32_select() has run once. */
extern rmq_crc32_fn rmq_crc32;

enum {
    RMQ_CRC_OK = 0,
    RMQ_CRC_NO_SUCH_KERNEL = -1, /* no kernel of this name exists in any build */
    RMQ_CRC_NOT_BUILT = -2,      /* this build is for another processor family */
    RMQ_CRC_NO_CPU = -3,         /* built, but this CPU lacks the instructions */
};

/* Chooses the kernel: "vpclmul", "pclmul", "armv8", "slicing"; NULL or "" means the best one for this CPU. A
 * requested kernel that cannot run is an error and changes nothing: never a silent fallback. Call before any thread
 * uses rmq_crc32. */
int rmq_crc32_select(const char *name);

/* Name of the kernel in use. */
const char *rmq_crc32_name(void);

/* A kernel by name without choosing it, NULL if it cannot run here (for tests and benches). */
rmq_crc32_fn rmq_crc32_kernel(const char *name);

#endif
