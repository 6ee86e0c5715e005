/* On-disk layout of an Apache RocketMQ 5.5.0 store: every constant has its one home here.
 *
 * All integers in all files are big-endian two's complement. Each position is spelled as "the field
 * before it + that field's width", so a wrong width breaks a static assertion instead of a store.
 * docs/format/ explains the fields; tests/unit/test_format_docs.py reads its tables against this file.
 */
#ifndef RMQ_LAYOUT_H
#define RMQ_LAYOUT_H

#include <assert.h>
#include <stdint.h>

/* ---- CommitLog record ------------------------------------------------------------------------ */
#define RMQ_MAGIC_V1 INT32_C(-626843481)    /* 0xDAA320A7: 1-byte topic length */
#define RMQ_MAGIC_V2 INT32_C(-626843477)    /* 0xDAA320AB: 2-byte topic length */
#define RMQ_MAGIC_BLANK INT32_C(-875286124) /* 0xCBD43194: the rest of the file is empty */

enum {
    RMQ_REC_TOTALSIZE = 0,
    RMQ_REC_MAGIC = RMQ_REC_TOTALSIZE + 4,
    RMQ_REC_BODYCRC = RMQ_REC_MAGIC + 4,
    RMQ_REC_HEADER_SIZE = RMQ_REC_BODYCRC, /* TOTALSIZE and MAGIC: what lies here, and how much of it */
    RMQ_REC_QUEUEID = RMQ_REC_BODYCRC + 4,
    RMQ_REC_FLAG = RMQ_REC_QUEUEID + 4,
    RMQ_REC_QUEUEOFFSET = RMQ_REC_FLAG + 4,
    RMQ_REC_PHYSICALOFFSET = RMQ_REC_QUEUEOFFSET + 8,
    RMQ_REC_SYSFLAG = RMQ_REC_PHYSICALOFFSET + 8,
    RMQ_REC_BORNTIMESTAMP = RMQ_REC_SYSFLAG + 4,
    RMQ_REC_BORNHOST = RMQ_REC_BORNTIMESTAMP + 8,
    /* Widths of the rest follow from sysFlag: a host is 4 or 16 address bytes and a 4-byte port. */
    RMQ_HOST_V4_SIZE = 4 + 4,
    RMQ_HOST_V6_SIZE = 16 + 4,
    RMQ_HOST_V6_EXTRA = RMQ_HOST_V6_SIZE - RMQ_HOST_V4_SIZE,
    /* Relative to the end of the born host. */
    RMQ_REL_STORETIMESTAMP = 0,
    RMQ_REL_STOREHOST = RMQ_REL_STORETIMESTAMP + 8,
    /* Relative to the end of the store host. */
    RMQ_REL_RECONSUMETIMES = 0,
    RMQ_REL_PREPAREDTRANSACTIONOFFSET = RMQ_REL_RECONSUMETIMES + 4,
    RMQ_REL_BODYLENGTH = RMQ_REL_PREPAREDTRANSACTIONOFFSET + 8,
    RMQ_REL_BODY = RMQ_REL_BODYLENGTH + 4,
    /* With two IPv4 hosts. */
    RMQ_REC_BODY_V4 = RMQ_REC_BORNHOST + 2 * RMQ_HOST_V4_SIZE + 8 + RMQ_REL_BODY,
    RMQ_REC_MIN_SIZE_V1 = RMQ_REC_BODY_V4 + 1 + 2,
    RMQ_REC_MIN_SIZE_V2 = RMQ_REC_BODY_V4 + 2 + 2,
    RMQ_BLANK_MIN_SIZE = RMQ_REC_HEADER_SIZE,
    RMQ_MAX_TOPIC_LEN_V1 = 127,
    RMQ_MAX_TOPIC_LEN_V2 = 32767,
    RMQ_MAX_PROPERTIES_LEN = 32767,
    RMQ_CRC_MASK = 0x7FFFFFFF,
};
static_assert(RMQ_REC_SYSFLAG == 36, "sysFlag decides every later width, readers find it at 36");
static_assert(RMQ_REC_BORNHOST == 48, "born host");
static_assert(RMQ_REC_BODY_V4 == 88, "body with two IPv4 hosts");
static_assert(RMQ_REC_MIN_SIZE_V1 == 91, "empty V1 record");

/* ---- sysFlag --------------------------------------------------------------------------------- */
enum {
    RMQ_SYS_COMPRESSED = 0x1,
    RMQ_SYS_MULTI_TAGS = 0x2,
    RMQ_SYS_TRANSACTION_MASK = 0xC,
    RMQ_SYS_TRANSACTION_PREPARED = 0x4,
    RMQ_SYS_TRANSACTION_COMMIT = 0x8,
    RMQ_SYS_TRANSACTION_ROLLBACK = 0xC,
    RMQ_SYS_BORNHOST_V6 = 0x10,
    RMQ_SYS_STOREHOST_V6 = 0x20,
    RMQ_SYS_NEED_UNWRAP = 0x40,
    RMQ_SYS_INNER_BATCH = 0x80,
    RMQ_SYS_COMPRESSION_TYPE_MASK = 0x700,
    RMQ_SYS_COMPRESSION_LZ4 = 0x100,
    RMQ_SYS_COMPRESSION_ZSTD = 0x200,
    RMQ_SYS_COMPRESSION_ZLIB = 0x300,
};

/* ---- properties ------------------------------------------------------------------------------ */
enum {
    RMQ_NAME_VALUE_SEPARATOR = 1,
    RMQ_PROPERTY_SEPARATOR = 2,
    /* "__CRC32#" + 0x01 + ten digits, least significant first + 0x02 */
    RMQ_PROP_CRC_SIZE = 8 + 1 + 10 + 1,
};

/* ---- ConsumeQueue ---------------------------------------------------------------------------- */
enum {
    RMQ_CQ_PHYSICALOFFSET = 0,
    RMQ_CQ_SIZE = RMQ_CQ_PHYSICALOFFSET + 8,
    RMQ_CQ_TAGSCODE = RMQ_CQ_SIZE + 4,
    RMQ_CQ_STORE_UNIT_SIZE = RMQ_CQ_TAGSCODE + 8,
    RMQ_CQ_FILLER_SIZE = 0x7FFFFFFF, /* SIZE of a filler entry; its offset and tags code are 0 */
};
static_assert(RMQ_CQ_STORE_UNIT_SIZE == 20, "ConsumeQueue entry");

/* ---- IndexFile ------------------------------------------------------------------------------- */
enum {
    RMQ_IDX_BEGINTIMESTAMP = 0,
    RMQ_IDX_ENDTIMESTAMP = RMQ_IDX_BEGINTIMESTAMP + 8,
    RMQ_IDX_BEGINPHYOFFSET = RMQ_IDX_ENDTIMESTAMP + 8,
    RMQ_IDX_ENDPHYOFFSET = RMQ_IDX_BEGINPHYOFFSET + 8,
    RMQ_IDX_HASHSLOTCOUNT = RMQ_IDX_ENDPHYOFFSET + 8,
    RMQ_IDX_INDEXCOUNT = RMQ_IDX_HASHSLOTCOUNT + 4,
    RMQ_IDX_HEADER_SIZE = RMQ_IDX_INDEXCOUNT + 4,
    RMQ_IDX_SLOT_SIZE = 4,
    RMQ_IDX_ENTRY_KEYHASH = 0,
    RMQ_IDX_ENTRY_PHYOFFSET = RMQ_IDX_ENTRY_KEYHASH + 4,
    RMQ_IDX_ENTRY_TIMEDIFF = RMQ_IDX_ENTRY_PHYOFFSET + 8, /* seconds after BEGINTIMESTAMP */
    RMQ_IDX_ENTRY_PREVINDEX = RMQ_IDX_ENTRY_TIMEDIFF + 4, /* 0 ends the chain */
    RMQ_IDX_ENTRY_SIZE = RMQ_IDX_ENTRY_PREVINDEX + 4,
    RMQ_IDX_DEFAULT_SLOTS = 5000000,
    RMQ_IDX_DEFAULT_ENTRIES = 20000000,
};
static_assert(RMQ_IDX_HEADER_SIZE == 40, "IndexFile header");
static_assert(RMQ_IDX_ENTRY_SIZE == 20, "IndexFile entry");

/* ---- checkpoint ------------------------------------------------------------------------------ */
enum {
    RMQ_CKP_PHYSICMSGTIMESTAMP = 0,
    RMQ_CKP_LOGICSMSGTIMESTAMP = RMQ_CKP_PHYSICMSGTIMESTAMP + 8,
    RMQ_CKP_INDEXMSGTIMESTAMP = RMQ_CKP_LOGICSMSGTIMESTAMP + 8,
    RMQ_CKP_MASTERFLUSHEDOFFSET = RMQ_CKP_INDEXMSGTIMESTAMP + 8,
    RMQ_CKP_CONFIRMPHYOFFSET = RMQ_CKP_MASTERFLUSHEDOFFSET + 8,
    RMQ_CKP_LOGICSPHYSICALOFFSET = RMQ_CKP_CONFIRMPHYOFFSET + 8,
    RMQ_CKP_USED_SIZE = RMQ_CKP_LOGICSPHYSICALOFFSET + 8,
    RMQ_CKP_FILE_SIZE = 4096,
};
static_assert(RMQ_CKP_USED_SIZE == 48, "six longs");

#endif
