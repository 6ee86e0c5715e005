"""Reading an IndexFile: its header, key hashes, walks along a chain of entries, and the check of a whole file.

The callers read the files and pass buffers; index_file.c checks every number in them before it follows it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t

from rmqcore._native.kernels cimport *

from collections import namedtuple

import numpy as np


INDEX_ENTRY_DTYPE = np.dtype(
    [("key_hash", ">i4"), ("phy_offset", ">i8"), ("time_diff", ">i4"), ("prev_index", ">i4")]
)

IndexHeader = namedtuple(
    "IndexHeader",
    "begin_timestamp_ms end_timestamp_ms begin_phy_offset end_phy_offset hash_slot_count index_count",
)
IndexFinding = namedtuple("IndexFinding", "entry_index field expected found")

FIELDS = {
    RMQ_IDX_FIELD_KEYHASH: "keyHash",
    RMQ_IDX_FIELD_PHYOFFSET: "phyOffset",
    RMQ_IDX_FIELD_TIMEDIFF: "timeDiff",
    RMQ_IDX_FIELD_PREVINDEX: "prevIndex",
    RMQ_IDX_FIELD_SLOT: "slot",
}


def decode_header(buf):
    """The header's six fields; ValueError below 40 bytes."""
    cdef Py_buffer view
    cdef rmq_index_header header
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        if rmq_index_header_decode(<const uint8_t *> view.buf, view.len, &header):
            raise ValueError(f"an index header has {RMQ_IDX_HEADER_SIZE} bytes, got {view.len}")
    finally:
        PyBuffer_Release(&view)
    return IndexHeader(
        header.begin_timestamp, header.end_timestamp, header.begin_phy_offset, header.end_phy_offset,
        header.hash_slot_count, header.index_count,
    )


def encode_header(fields):
    """The header's 40 bytes from its six fields."""
    cdef rmq_index_header header
    cdef bytes out = PyBytes_FromStringAndSize(NULL, RMQ_IDX_HEADER_SIZE)
    header.begin_timestamp = fields[0]
    header.end_timestamp = fields[1]
    header.begin_phy_offset = fields[2]
    header.end_phy_offset = fields[3]
    header.hash_slot_count = fields[4]
    header.index_count = fields[5]
    rmq_index_header_encode(&header, <uint8_t *> PyBytes_AS_STRING(out), RMQ_IDX_HEADER_SIZE)
    return out


def time_matched(header, int64_t begin_ms, int64_t end_ms):
    """Return True if a file with this header can have messages of a time range (IndexFile#isTimeMatched)."""
    return bool(rmq_index_time_matched(header.begin_timestamp_ms, header.end_timestamp_ms, begin_ms, end_ms))


cdef class ChainWalk:
    """A walk along one chain, newest entry first, through windows that the caller reads.

    With the number of the file's slots the walk also notes the first entry whose hash is of another slot (`stray_index`), and
    the entry before it (`before_stray`; 0 if the slot leads to it).
    """

    cdef rmq_index_walk walk
    cdef int32_t slots
    cdef readonly int32_t stray_index, before_stray

    def __init__(self, header, hash_, slot_value, begin_ms, end_ms, slots=0):
        self.walk.begin_timestamp = header.begin_timestamp_ms
        self.walk.index_count = header.index_count
        self.walk.key_hash = hash_
        self.walk.next_index = slot_value
        self.walk.begin_ms = begin_ms
        self.walk.end_ms = end_ms
        self.walk.broken_index = 0
        self.walk.steps = INT64_MAX
        self.slots = slots
        self.stray_index = 0
        self.before_stray = 0

    @property
    def next_index(self):
        """The entry to go on with; 0 when the walk is over."""
        cdef int32_t at = self.walk.next_index
        return at if 0 < at < self.walk.index_count else 0

    @property
    def broken_index(self):
        """The entry whose PREVINDEX does not go down; 0 when the walk met no such entry."""
        return self.walk.broken_index

    def step(self, window, first_index, limit):
        """Follow the chain inside a window of entries that starts at `first_index`; answer at most `limit` offsets."""
        cdef int64_t[::1] out = np.empty(limit, dtype=np.int64)
        cdef int64_t *hits = &out[0] if limit > 0 else NULL
        cdef Py_buffer view
        cdef size_t count = 0
        cdef size_t room = limit
        cdef int32_t first = first_index
        PyObject_GetBuffer(window, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                self._note_stray(<const uint8_t *> view.buf, view.len, first)
                rmq_index_chain_walk(&self.walk, <const uint8_t *> view.buf, view.len, first, hits, room, &count)
        finally:
            PyBuffer_Release(&view)
        return [out[i] for i in range(<Py_ssize_t> count)]

    cdef void _note_stray(self, const uint8_t *window, Py_ssize_t length, int64_t first) noexcept nogil:
        """Follow the chain inside a window, as far as it goes down, to an entry with the hash of another slot."""
        cdef int64_t at = self.walk.next_index
        cdef int64_t last = first + length // RMQ_IDX_ENTRY_SIZE
        cdef rmq_index_entry entry
        if self.slots <= 0 or self.stray_index:
            return
        while first <= at < last and 0 < at < self.walk.index_count:
            entry = rmq_index_entry_load(window + (at - first) * RMQ_IDX_ENTRY_SIZE)
            if entry.time_diff < 0 or entry.key_hash < 0 or entry.key_hash % self.slots != self.walk.key_hash % self.slots:
                self.stray_index = <int32_t> at
                return
            self.before_stray = <int32_t> at
            if entry.prev_index >= at:
                return
            at = entry.prev_index


cdef class IndexCheck:
    """The check of one file: all entries in order, then the slot table. `heads` is an int32 array, one a slot."""

    cdef rmq_index_check check
    cdef int32_t[::1] heads
    cdef rmq_index_finding *found
    cdef readonly list findings
    cdef readonly object finding_count
    cdef Py_ssize_t limit

    def __cinit__(self, heads, limit):
        if len(heads) == 0:
            raise ValueError("an index file has at least one slot")
        self.heads = heads
        self.heads[:] = 0
        self.check.heads = &self.heads[0]
        self.check.slots = len(heads)
        self.check.next_index = 1
        self.check.last_phy_offset = INT64_MIN
        self.check.used_slots = 0
        self.findings = []
        self.finding_count = 0
        self.limit = max(limit, 0)
        self.found = <rmq_index_finding *> PyMem_Malloc((self.limit + 1) * sizeof(rmq_index_finding))
        if self.found == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.found)

    @property
    def next_index(self):
        """The first entry that is not yet checked."""
        return self.check.next_index

    @property
    def last_phy_offset(self):
        """The offset of the last entry checked; None before the first one."""
        return None if self.check.last_phy_offset == INT64_MIN else self.check.last_phy_offset

    @property
    def used_slots(self):
        """Slots that hold an entry."""
        return self.check.used_slots

    def entries(self, buf):
        """Check the next chunk of entries."""
        self._run(buf, -1)

    def slots(self, buf, first_slot):
        """Compare a chunk of the slot table with the chains; all entries were checked before."""
        self._run(buf, first_slot)

    cdef _run(self, buf, Py_ssize_t first_slot):
        cdef Py_buffer view
        cdef int64_t count
        cdef Py_ssize_t room = self.limit - len(self.findings)
        PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                if first_slot < 0:
                    count = rmq_index_check_entries(&self.check, <const uint8_t *> view.buf, view.len, self.found, room)
                else:
                    count = rmq_index_check_slots(
                        &self.check, <const uint8_t *> view.buf, view.len, first_slot, self.found, room
                    )
        finally:
            PyBuffer_Release(&view)
        if count == RMQ_IDX_E_SLOTS:
            raise ValueError(f"slots from {first_slot} on go past the {len(self.heads)} slots of the file")
        self.finding_count += count
        for i in range(min(count, room)):
            self.findings.append(
                IndexFinding(
                    self.found[i].index, FIELDS[self.found[i].field], self.found[i].expected, self.found[i].found
                )
            )
