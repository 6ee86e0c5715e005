"""Messages of the mapped CommitLog, read where they lie."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from rmqcore._native.format.codec cimport DelayLevels, MessageView, new_view
from rmqcore._native.format.lost_pages cimport raise_if_lost
from rmqcore._native.kernels cimport (
    RMQ_REC_MIN_SIZE_V1, rmq_rec_phy_offset, rmq_rec_store_timestamp, rmq_record, rmq_record_parse,
)
from rmqcore._native.files.mapped_file cimport MappedFile, MappedFiles

cdef extern from "format/be.h" nogil:
    int32_t rmq_load_i32(const uint8_t *p) noexcept

cdef extern from *:
    """
    /* A record found by its key is in no cache, and each length in it says where the next one is: all its lines at once. */
    static inline void rmq_prefetch_record(const uint8_t *p) {
        __builtin_prefetch(p);
        __builtin_prefetch(p + 64);
        __builtin_prefetch(p + 128);
        __builtin_prefetch(p + 192);
    }
    """
    void rmq_prefetch_record(const uint8_t *p) noexcept


cdef MappedFile parse_at(MappedFiles files, int64_t phy_offset, int64_t end_offset, rmq_record *rec):
    """Parse the record that starts at `phy_offset` and ends at or before `end_offset`; return its file, or None."""
    cdef MappedFile file = files.find(phy_offset) if phy_offset < end_offset else None
    cdef int64_t pos, left
    if file is None:
        return None
    pos = phy_offset - file.file_from_offset
    left = min(file.file_size - pos, end_offset - phy_offset)
    rmq_prefetch_record(file.base + pos)
    cdef bint found = rmq_record_parse(file.base + pos, left, rec) > 0 and rmq_rec_phy_offset(rec) == phy_offset
    raise_if_lost(file)
    return file if found else None


cdef bint warm(MappedFiles files, int64_t phy_offset, int64_t end_offset, bint waits) except -1:
    """Return True if the record at `phy_offset` is in memory or missing; with `waits` it is read first."""
    cdef MappedFile file = files.find(phy_offset) if phy_offset < end_offset else None
    cdef int64_t pos, left, size = RMQ_REC_MIN_SIZE_V1
    if file is None:
        return True
    pos = phy_offset - file.file_from_offset
    left = min(file.file_size - pos, end_offset - phy_offset)
    for _ in range(2):  # the least that a record has, which tells its size; then all of it
        if not RMQ_REC_MIN_SIZE_V1 <= size <= left:
            return True
        if waits:
            file.read_in(pos, pos + size)
        elif file.first_cold(pos, pos + size) < pos + size:
            return False
        size = rmq_load_i32(file.base + pos)
    return True


def is_warm(MappedFiles files not None, int64_t phy_offset, int64_t end_offset):
    """Return True if a reader of the record at `phy_offset`, if there is one, does not wait for a disk."""
    return warm(files, phy_offset, end_offset, False)


def read_in(MappedFiles files not None, int64_t phy_offset, int64_t end_offset):
    """Wait, without the GIL, until memory holds the record that starts at `phy_offset`, if there is one."""
    warm(files, phy_offset, end_offset, True)


cdef MessageView view_of(MappedFiles files, int64_t phy_offset, int64_t end_offset, DelayLevels levels):
    cdef rmq_record rec
    cdef MappedFile file = parse_at(files, phy_offset, end_offset, &rec)
    return new_view(file, &rec, levels) if file is not None else None


def view_at(MappedFiles files not None, int64_t phy_offset, int64_t end_offset, DelayLevels levels not None):
    """Return the message whose record starts at `phy_offset` and ends at or before `end_offset`; None without one."""
    return view_of(files, phy_offset, end_offset, levels)


def store_time(MappedFiles files not None, int64_t phy_offset, int64_t end_offset):
    """Return the store timestamp of that message, without making a view; -1 without one. It waits without the GIL."""
    cdef rmq_record rec
    warm(files, phy_offset, end_offset, True)
    cdef MappedFile file = parse_at(files, phy_offset, end_offset, &rec)
    return rmq_rec_store_timestamp(&rec) if file is not None else -1
