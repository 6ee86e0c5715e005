/* CRC-32: the portable kernel and the choice among the kernels. */
#include <string.h>

#include "crc32/crc32_kernels.h"

/* A CRC table is linear: entry i is the XOR of the entries of i's bits, so eight numbers (entries 1, 2, 4 .. 128)
 * spell out a row of 256. Constant data needs no start-up code that threads could race through. */
#define RMQ_TWO(x, b0) (x), ((x) ^ (b0))
#define RMQ_FOUR(x, b0, b1) RMQ_TWO(x, b0), RMQ_TWO((x) ^ (b1), b0)
#define RMQ_EIGHT(x, b0, b1, b2) RMQ_FOUR(x, b0, b1), RMQ_FOUR((x) ^ (b2), b0, b1)
#define RMQ_16(x, b0, b1, b2, b3) RMQ_EIGHT(x, b0, b1, b2), RMQ_EIGHT((x) ^ (b3), b0, b1, b2)
#define RMQ_32(x, b0, b1, b2, b3, b4) RMQ_16(x, b0, b1, b2, b3), RMQ_16((x) ^ (b4), b0, b1, b2, b3)
#define RMQ_64(x, b0, b1, b2, b3, b4, b5) RMQ_32(x, b0, b1, b2, b3, b4), RMQ_32((x) ^ (b5), b0, b1, b2, b3, b4)
#define RMQ_128(x, b0, b1, b2, b3, b4, b5, b6) \
    RMQ_64(x, b0, b1, b2, b3, b4, b5), RMQ_64((x) ^ (b6), b0, b1, b2, b3, b4, b5)
#define RMQ_ROW(b0, b1, b2, b3, b4, b5, b6, b7) \
    {RMQ_128(0U, b0, b1, b2, b3, b4, b5, b6), RMQ_128(0U ^ (b7), b0, b1, b2, b3, b4, b5, b6)}

/* Row k: the remainder of a byte that k more bytes follow. */
static const uint32_t crc_rows[16][256] = {
    RMQ_ROW(0x77073096, 0xEE0E612C, 0x076DC419, 0x0EDB8832, 0x1DB71064, 0x3B6E20C8, 0x76DC4190, 0xEDB88320),
    RMQ_ROW(0x191B3141, 0x32366282, 0x646CC504, 0xC8D98A08, 0x4AC21251, 0x958424A2, 0xF0794F05, 0x3B83984B),
    RMQ_ROW(0x01C26A37, 0x0384D46E, 0x0709A8DC, 0x0E1351B8, 0x1C26A370, 0x384D46E0, 0x709A8DC0, 0xE1351B80),
    RMQ_ROW(0xB8BC6765, 0xAA09C88B, 0x8F629757, 0xC5B428EF, 0x5019579F, 0xA032AF3E, 0x9B14583D, 0xED59B63B),
    RMQ_ROW(0x3D6029B0, 0x7AC05360, 0xF580A6C0, 0x30704BC1, 0x60E09782, 0xC1C12F04, 0x58F35849, 0xB1E6B092),
    RMQ_ROW(0xCB5CD3A5, 0x4DC8A10B, 0x9B914216, 0xEC53826D, 0x03D6029B, 0x07AC0536, 0x0F580A6C, 0x1EB014D8),
    RMQ_ROW(0xA6770BB4, 0x979F1129, 0xF44F2413, 0x33EF4E67, 0x67DE9CCE, 0xCFBD399C, 0x440B7579, 0x8816EAF2),
    RMQ_ROW(0xCCAA009E, 0x4225077D, 0x844A0EFA, 0xD3E51BB5, 0x7CBB312B, 0xF9766256, 0x299DC2ED, 0x533B85DA),
    RMQ_ROW(0x177B1443, 0x2EF62886, 0x5DEC510C, 0xBBD8A218, 0xACC04271, 0x82F182A3, 0xDE920307, 0x6655004F),
    RMQ_ROW(0xEFC26B3E, 0x04F5D03D, 0x09EBA07A, 0x13D740F4, 0x27AE81E8, 0x4F5D03D0, 0x9EBA07A0, 0xE6050901),
    RMQ_ROW(0xC18EDFC0, 0x586CB9C1, 0xB0D97382, 0xBAC3E145, 0xAEF6C4CB, 0x869C8FD7, 0xD64819EF, 0x77E1359F),
    RMQ_ROW(0x9BA54C6F, 0xEC3B9E9F, 0x03063B7F, 0x060C76FE, 0x0C18EDFC, 0x1831DBF8, 0x3063B7F0, 0x60C76FE0),
    RMQ_ROW(0xDD96D985, 0x605CB54B, 0xC0B96A96, 0x5A03D36D, 0xB407A6DA, 0xB37E4BF5, 0xBD8D91AB, 0xA06A2517),
    RMQ_ROW(0x9D0FE176, 0xE16EC4AD, 0x19AC8F1B, 0x33591E36, 0x66B23C6C, 0xCD6478D8, 0x41B9F7F1, 0x8373EFE2),
    RMQ_ROW(0xB9FBDBE8, 0xA886B191, 0x8A7C6563, 0xCF89CC87, 0x44629F4F, 0x88C53E9E, 0xCAFB7B7D, 0x4E87F0BB),
    RMQ_ROW(0xAE689191, 0x87A02563, 0xD4314C87, 0x73139F4F, 0xE6273E9E, 0x173F7B7D, 0x2E7EF6FA, 0x5CFDEDF4),
};

static inline uint32_t load_le32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    return v;
}

/* The four bytes of `word`, lowest first, with `after` bytes behind them. */
static inline uint32_t word_remainder(uint32_t word, int after) {
    return crc_rows[after + 3][word & 0xFF] ^ crc_rows[after + 2][(word >> 8) & 0xFF] ^
           crc_rows[after + 1][(word >> 16) & 0xFF] ^ crc_rows[after][word >> 24];
}

uint32_t rmq_crc32_slicing(const uint8_t *buf, size_t len) {
    uint32_t crc = UINT32_MAX;
    for (; len >= 16; buf += 16, len -= 16) {
        crc = word_remainder(load_le32(buf) ^ crc, 12) ^ word_remainder(load_le32(buf + 4), 8) ^
              word_remainder(load_le32(buf + 8), 4) ^ word_remainder(load_le32(buf + 12), 0);
    }
    for (; len >= 4; buf += 4, len -= 4) crc = word_remainder(load_le32(buf) ^ crc, 0);
    for (; len > 0; buf++, len--) crc = (crc >> 8) ^ crc_rows[0][(crc ^ *buf) & 0xFF];
    return ~crc;
}

static int always_runs(void) { return 1; }

typedef struct crc_kernel {
    const char *name;
    rmq_crc32_fn fn; /* NULL: not in this build */
    int (*runs)(void);
} crc_kernel;

/* Best first. */
static const crc_kernel kernels[] = {
#ifdef RMQ_CRC_X86
    {"vpclmul", rmq_crc32_vpclmul, rmq_crc32_vpclmul_runs},
    {"pclmul", rmq_crc32_pclmul, rmq_crc32_pclmul_runs},
#else
    {"vpclmul", NULL, NULL},
    {"pclmul", NULL, NULL},
#endif
#ifdef RMQ_CRC_ARM
    {"armv8", rmq_crc32_armv8, rmq_crc32_armv8_runs},
#else
    {"armv8", NULL, NULL},
#endif
    {"slicing", rmq_crc32_slicing, always_runs},
};
enum { KERNEL_COUNT = sizeof kernels / sizeof kernels[0] };

rmq_crc32_fn rmq_crc32 = rmq_crc32_slicing;

static int find_kernel(const char *name, const crc_kernel **found) {
    for (int i = 0; i < KERNEL_COUNT; i++) {
        if (strcmp(kernels[i].name, name) != 0) continue;
        if (kernels[i].fn == NULL) return RMQ_CRC_NOT_BUILT;
        if (!kernels[i].runs()) return RMQ_CRC_NO_CPU;
        *found = &kernels[i];
        return RMQ_CRC_OK;
    }
    return RMQ_CRC_NO_SUCH_KERNEL;
}

int rmq_crc32_select(const char *name) {
    const crc_kernel *chosen = NULL;
    if (name != NULL && name[0] != '\0') {
        int rc = find_kernel(name, &chosen);
        if (rc == RMQ_CRC_OK) rmq_crc32 = chosen->fn;
        return rc;
    }
    for (int i = 0; chosen == NULL; i++) { /* ends: slicing always runs */
        if (kernels[i].fn != NULL && kernels[i].runs()) chosen = &kernels[i];
    }
    rmq_crc32 = chosen->fn;
    return RMQ_CRC_OK;
}

const char *rmq_crc32_name(void) {
    int i = 0;
    while (kernels[i].fn != rmq_crc32) i++; /* ends: only the table's kernels are ever chosen */
    return kernels[i].name;
}

rmq_crc32_fn rmq_crc32_kernel(const char *name) {
    const crc_kernel *found = NULL;
    return find_kernel(name, &found) == RMQ_CRC_OK ? found->fn : NULL;
}
