"""The constants of layout.h under their names without ``RMQ_``: Python code takes a size or a position of a file format here.

Sizes and positions are bytes; the magics are signed, as `MessageView.magic` is.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t

cdef extern from "format/layout.h" nogil:
    enum:
        RMQ_MAGIC_V1, RMQ_MAGIC_V2, RMQ_MAGIC_BLANK
        RMQ_REC_MAGIC, RMQ_REC_HEADER_SIZE, RMQ_REC_PHYSICALOFFSET, RMQ_REC_SYSFLAG, RMQ_REC_BORNHOST
        RMQ_REC_MIN_SIZE_V1, RMQ_HOST_V6_SIZE, RMQ_REL_STOREHOST
        RMQ_MAX_TOPIC_LEN_V1, RMQ_MAX_TOPIC_LEN_V2, RMQ_MAX_PROPERTIES_LEN
        RMQ_SYS_COMPRESSED, RMQ_SYS_MULTI_TAGS, RMQ_SYS_TRANSACTION_MASK, RMQ_SYS_TRANSACTION_PREPARED
        RMQ_SYS_TRANSACTION_COMMIT, RMQ_SYS_TRANSACTION_ROLLBACK, RMQ_SYS_BORNHOST_V6, RMQ_SYS_STOREHOST_V6
        RMQ_SYS_NEED_UNWRAP, RMQ_SYS_INNER_BATCH, RMQ_SYS_COMPRESSION_TYPE_MASK, RMQ_SYS_COMPRESSION_LZ4
        RMQ_SYS_COMPRESSION_ZSTD, RMQ_SYS_COMPRESSION_ZLIB
        RMQ_CQ_STORE_UNIT_SIZE, RMQ_CQ_FILLER_SIZE
        RMQ_IDX_HEADER_SIZE, RMQ_IDX_SLOT_SIZE, RMQ_IDX_ENTRY_SIZE, RMQ_IDX_ENTRY_PHYOFFSET
        RMQ_IDX_DEFAULT_SLOTS, RMQ_IDX_DEFAULT_ENTRIES
        RMQ_CKP_USED_SIZE, RMQ_CKP_FILE_SIZE

cdef extern from "format/record.h" nogil:
    uint32_t rmq_rec_store_timestamp_pos(int32_t sys_flag) noexcept
    uint32_t rmq_rec_body_pos(int32_t sys_flag) noexcept


# CommitLog record
MAGIC_V1 = int(RMQ_MAGIC_V1)
MAGIC_V2 = int(RMQ_MAGIC_V2)
MAGIC_BLANK = int(RMQ_MAGIC_BLANK)
REC_MAGIC = int(RMQ_REC_MAGIC)
REC_HEADER_SIZE = int(RMQ_REC_HEADER_SIZE)
REC_PHYSICALOFFSET = int(RMQ_REC_PHYSICALOFFSET)
REC_SYSFLAG = int(RMQ_REC_SYSFLAG)
REC_MIN_SIZE_V1 = int(RMQ_REC_MIN_SIZE_V1)
# The bytes of a record that hold its store timestamp, whatever its hosts are.
REC_STORETIMESTAMP_MAX_END = int(RMQ_REC_BORNHOST + RMQ_HOST_V6_SIZE + RMQ_REL_STOREHOST)
MAX_TOPIC_LEN_V1 = int(RMQ_MAX_TOPIC_LEN_V1)
MAX_TOPIC_LEN_V2 = int(RMQ_MAX_TOPIC_LEN_V2)
MAX_PROPERTIES_LEN = int(RMQ_MAX_PROPERTIES_LEN)

# SYSFLAG
SYS_COMPRESSED = int(RMQ_SYS_COMPRESSED)
SYS_MULTI_TAGS = int(RMQ_SYS_MULTI_TAGS)
SYS_TRANSACTION_MASK = int(RMQ_SYS_TRANSACTION_MASK)
SYS_TRANSACTION_PREPARED = int(RMQ_SYS_TRANSACTION_PREPARED)
SYS_TRANSACTION_COMMIT = int(RMQ_SYS_TRANSACTION_COMMIT)
SYS_TRANSACTION_ROLLBACK = int(RMQ_SYS_TRANSACTION_ROLLBACK)
SYS_BORNHOST_V6 = int(RMQ_SYS_BORNHOST_V6)
SYS_STOREHOST_V6 = int(RMQ_SYS_STOREHOST_V6)
SYS_NEED_UNWRAP = int(RMQ_SYS_NEED_UNWRAP)
SYS_INNER_BATCH = int(RMQ_SYS_INNER_BATCH)
SYS_COMPRESSION_TYPE_MASK = int(RMQ_SYS_COMPRESSION_TYPE_MASK)
SYS_COMPRESSION_LZ4 = int(RMQ_SYS_COMPRESSION_LZ4)
SYS_COMPRESSION_ZSTD = int(RMQ_SYS_COMPRESSION_ZSTD)
SYS_COMPRESSION_ZLIB = int(RMQ_SYS_COMPRESSION_ZLIB)

# ConsumeQueue
CQ_STORE_UNIT_SIZE = int(RMQ_CQ_STORE_UNIT_SIZE)
CQ_FILLER_SIZE = int(RMQ_CQ_FILLER_SIZE)

# IndexFile
INDEX_HEADER_SIZE = int(RMQ_IDX_HEADER_SIZE)
INDEX_SLOT_SIZE = int(RMQ_IDX_SLOT_SIZE)
INDEX_ENTRY_SIZE = int(RMQ_IDX_ENTRY_SIZE)
INDEX_ENTRY_PHYOFFSET = int(RMQ_IDX_ENTRY_PHYOFFSET)
DEFAULT_SLOTS = int(RMQ_IDX_DEFAULT_SLOTS)
DEFAULT_ENTRIES = int(RMQ_IDX_DEFAULT_ENTRIES)

# StoreCheckpoint
CHECKPOINT_USED_SIZE = int(RMQ_CKP_USED_SIZE)
CHECKPOINT_FILE_SIZE = int(RMQ_CKP_FILE_SIZE)


def store_timestamp_pos(int32_t sys_flag):
    """Where STORETIMESTAMP lies in a record: behind the born host, whose width SYSFLAG says."""
    return rmq_rec_store_timestamp_pos(sys_flag)


def body_pos(int32_t sys_flag):
    """Where the body of a record begins: behind both hosts, whose widths SYSFLAG says. BODYLENGTH is the 4 bytes before it."""
    return rmq_rec_body_pos(sys_flag)


def index_file_size(int64_t slot_count, int64_t capacity):
    """Bytes of an IndexFile with so many slots and entries, the unused entry 0 included: also where entry `capacity` lies."""
    return RMQ_IDX_HEADER_SIZE + RMQ_IDX_SLOT_SIZE * slot_count + RMQ_IDX_ENTRY_SIZE * capacity
