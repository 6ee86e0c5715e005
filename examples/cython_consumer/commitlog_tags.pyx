"""A CommitLog file, walked with rmqcore's kernels: messages and bytes per tag, and the queue entries of its messages."""

from libc.stdint cimport int32_t, uint8_t

from rmqcore.c_api cimport (
    RMQ_CQ_STORE_UNIT_SIZE, RMQ_E_ZERO, RMQ_R_BLANK, import_rmqcore, rmq_cq_entry, rmq_cq_store, rmq_delay_levels,
    rmq_has_queue_entry, rmq_known_props, rmq_rec_phy_offset, rmq_record, rmq_record_check_body_crc, rmq_record_parse,
    rmq_props_known, rmq_tags_code,
)

# Compares the installed rmqcore with the one that this module was compiled against, and raises ImportError.
import_rmqcore()


cdef int32_t next_record(const uint8_t[::1] log, size_t pos, rmq_record *rec) except -1:
    """Size of the record at `pos`, 0 at the end of the messages."""
    cdef size_t left = log.shape[0] - pos
    if left == 0:
        return 0
    cdef int32_t size = rmq_record_parse(&log[pos], left, rec)
    if size == RMQ_R_BLANK or size == RMQ_E_ZERO:
        return 0
    if size > 0:
        # A parsed record lies whole in the buffer: no length of it is checked again.
        if rmq_record_check_body_crc(rec) == 0:
            return size
        raise ValueError(f"at {pos}: the body's CRC is {rec.expected}, BODYCRC is {rec.found}")
    raise ValueError(f"at {pos}: not a record (code {size}): found {rec.found}, expected {rec.expected}")


def tags(const uint8_t[::1] log not None):
    """Count messages and the bytes of their records: {tag, or None: (messages, bytes)}."""
    cdef rmq_record rec
    cdef rmq_known_props known
    cdef size_t pos = 0
    counts = {}
    while size := next_record(log, pos, &rec):
        # Before the properties lie at least 88 bytes of the record, which lets a block be loaded whole.
        rmq_props_known(rec.at + rec.props_pos, rec.props_len, rec.props_pos, &known)
        tag = known.tags.p[:known.tags.len].decode() if known.tags.p else None
        messages, total = counts.get(tag, (0, 0))
        counts[tag] = (messages + 1, total + size)
        pos += size
    return counts


def queue_entries(const uint8_t[::1] log not None):
    """Pack the queue entries of all messages, in the order of the log."""
    cdef rmq_record rec
    cdef rmq_known_props known
    cdef rmq_cq_entry entry
    cdef uint8_t packed[20]
    cdef rmq_delay_levels levels = [NULL, 0]
    cdef size_t pos = 0
    entries = []
    while size := next_record(log, pos, &rec):
        pos += size
        if not rmq_has_queue_entry(rec.sys_flag):
            continue
        rmq_props_known(rec.at + rec.props_pos, rec.props_len, rec.props_pos, &known)
        entry.phy_offset = rmq_rec_phy_offset(&rec)
        entry.msg_size = size
        entry.tags_code = rmq_tags_code(&rec, &known, &levels)
        rmq_cq_store(packed, entry)
        entries.append(packed[:RMQ_CQ_STORE_UNIT_SIZE])
    return b"".join(entries)
