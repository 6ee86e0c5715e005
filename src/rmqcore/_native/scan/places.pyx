"""Checks, searches and distinguishes records in CommitLog bytes, without decoding them.

All functions look at bytes in memory only; `rmqcore.disk.log_window` owns files and windows over them.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from rmqcore._native.format.texts cimport text_of
from rmqcore._native.kernels cimport *

from rmqcore._native.format.codec import describe

choose_crc32()

# What `Place.code` says beside the size of a record; below 0 it is one of the RMQ_E_* of record.h.
BLANK = RMQ_R_BLANK
SHORT = RMQ_E_SHORT
ZERO = RMQ_E_ZERO
BODYCRC = RMQ_E_BODYCRC
PAST_FILE = RMQ_E_PAST_FILE
SHORT_FILE = RMQ_E_SHORT_FILE
BLANKSIZE = RMQ_E_BLANKSIZE
PROPCRC = RMQ_E_PROPCRC
PHYSICALOFFSET = RMQ_E_PHYSICALOFFSET
NOTHING = RMQ_E_MAGIC
COSTLY = RMQ_RESYNC_COSTLY
DLEDGER_PAST = RMQ_E_DLEDGER_PAST
DLEDGER_BODY = RMQ_E_DLEDGER_BODY

# What `dledger_step` answers for a sound head, and the bytes that tell all of one.
DLEDGER_HEAD = RMQ_DLEDGER_HEAD
DLEDGER_NEED = RMQ_DLEDGER_NEED

# What `split_start` answers beside positions.
SPLIT_MORE = RMQ_SPLIT_MORE
SPLIT_ODD = RMQ_SPLIT_ODD
SPLIT_NOTHING = RMQ_SPLIT_NOTHING


@cython.final
cdef class Place:
    """A position in CommitLog bytes and what lies there.

    Attributes
    ----------
    pos : int
        Position in the buffer that was looked at, bytes.
    code : int
        Above 0 the size of a sound record (from a scan: why it stopped, see `rmqcore._native.scan.scan`), 0 a BLANK that fills
        the rest of its file, below 0 what is wrong (constants of this module).
    size : int
        The TOTALSIZE field, 0 when it is unknown.
    found, expected : int
        What was compared, for `describe`. With SHORT `expected` bytes must be there to tell what lies at `pos`.
    """

    def __init__(self, Py_ssize_t pos, int32_t code, *, int64_t size=0, int64_t found=0, int64_t expected=0):
        self.pos = pos
        self.code = code
        self.size = size
        self.found = found
        self.expected = expected

    @property
    def is_blank(self):
        """True if there is a BLANK here, of any size."""
        # Below its least size a BLANK is refused by TOTALSIZE; no record is that small, so the limit tells them apart.
        return self.code in (RMQ_R_BLANK, RMQ_E_BLANKSIZE) or (
            self.code == RMQ_E_TOTALSIZE and self.expected == RMQ_BLANK_MIN_SIZE
        )

    def describe(self):
        """Field, expected and found of what is wrong; see `rmqcore._native.format.codec.describe`."""
        return describe(self.code, self.found, self.expected)

    def moved(self, Py_ssize_t by):
        """The same with its position counted from a byte that lies `by` bytes before the buffer's first."""
        return Place(self.pos + by, self.code, size=self.size, found=self.found, expected=self.expected)

    def __repr__(self):
        return f"<Place {self.pos}: code {self.code}, size {self.size}, found {self.found}, expected {self.expected}>"


cdef Place new_place(Py_ssize_t pos, int32_t code, const rmq_record *rec):
    """A Place from a kernel's code and, but for a scan that stopped for its own reasons, what it has noted in `rec`."""
    cdef Place place = Place.__new__(Place)
    place.pos = pos
    place.code = code
    if code <= 0 or code >= RMQ_DLEDGER_HEAD:
        place.size = rec.msg_size
        place.found = rec.found
        place.expected = rec.expected
    return place


cdef int fill_window(rmq_window *window, Py_buffer *buffer, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset,
                     int64_t end_offset, bint check_place, bint check_crc, int64_t trusted) except -1:
    """Describe `length` bytes of a buffer to the kernels, once `pos` and the offsets are known to fit."""
    if not 0 <= pos <= length <= buffer.len:
        raise ValueError(f"pos {pos} and length {length} do not fit a buffer of {buffer.len} bytes")
    if phy_offset < 0 or end_offset - phy_offset < length:
        raise ValueError(f"{length} bytes at {phy_offset} do not fit before {end_offset}")
    window.buf = <const uint8_t *> buffer.buf
    window.len = length
    window.phy_offset = phy_offset
    window.end_offset = end_offset
    window.check_place = check_place
    window.check_crc = check_crc
    window.trusted = trusted
    return 0


# ---- one place and the next -------------------------------------------------------------------------


def step(buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
    """The Place at `pos`, checked with PHYSICALOFFSET and body CRC."""
    cdef Py_buffer exported
    cdef rmq_window window
    cdef rmq_record rec
    cdef int32_t code
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        fill_window(&window, &exported, length, pos, phy_offset, end_offset, True, True, -1)
        rec.found = rec.expected = 0
        with nogil:
            code = rmq_window_step(&window, pos, &rec)
        return new_place(pos, code, &rec)
    finally:
        PyBuffer_Release(&exported)


def dledger_step(buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
    """The Place at `pos`, where an entry of a DLedger log may begin.

    Its code is DLEDGER_HEAD for a sound head, BLANK for the mark of a file's end, SHORT where more bytes are needed, or what is
    wrong. Its size is the size of the record behind the head.
    """
    cdef Py_buffer exported
    cdef rmq_window window
    cdef rmq_record rec
    cdef int32_t code
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        fill_window(&window, &exported, length, pos, phy_offset, end_offset, True, True, -1)
        rec.found = rec.expected = 0
        code = rmq_dledger_step(window.buf + pos, length - pos, phy_offset + pos, end_offset - phy_offset - pos, &rec)
        return new_place(pos, code, &rec)
    finally:
        PyBuffer_Release(&exported)


def find(buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
    """The first Place at or after `pos` that proves itself.

    Its code is SHORT where a candidate lies of which not all bytes are here, and NOTHING when there is no candidate: then search
    on from its `pos` with more bytes.
    """
    return find_within(buf, length, pos, phy_offset, end_offset, INT64_MAX)[0]


def find_within(buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset, int64_t credit):
    """As `find`, but at most `credit` bytes of bodies are hashed that prove nothing.

    Returns
    -------
    tuple
        The Place, whose code is COSTLY where a candidate's body is longer than what is left of the credit; and the bytes that
        were hashed in vain.
    """
    cdef Py_buffer exported
    cdef rmq_window window
    cdef rmq_record rec
    cdef int32_t code
    cdef size_t at
    cdef uint64_t left = max(credit, 0)
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        fill_window(&window, &exported, length, pos, phy_offset, end_offset, True, True, -1)
        rec.msg_size = 0
        rec.found = rec.expected = 0
        with nogil:
            at = rmq_resync_find(&window, pos, &left, &code, &rec)
        return new_place(at, code, &rec), max(credit, 0) - left
    finally:
        PyBuffer_Release(&exported)


def split_start(buf, Py_ssize_t length, Py_ssize_t boundary, int64_t phy_offset, int64_t end_offset, int64_t max_record_size,
                *, bint anchored=False, bint dledger=False):
    """The place at or after `boundary` where a walk over the whole file arrives, told from ``buf[:length]``.

    `boundary` is a position in `buf`, with the largest record's bytes before it; `anchored` when the file begins with ``buf[0]``,
    `dledger` when it is one of a DLedger log.
    SPLIT_MORE asks for another call with the largest record's bytes behind the boundary. SPLIT_ODD says that the bytes do not
    tell, whatever lies around them; SPLIT_NOTHING only that these do not.
    """
    cdef Py_buffer exported
    cdef rmq_window window
    cdef int64_t found
    if boundary <= 0:
        raise ValueError(f"boundary {boundary} leaves no byte before it")
    if not 0 < max_record_size <= INT32_MAX:
        raise ValueError(f"max_record_size {max_record_size} is not in 1..{INT32_MAX}")
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        fill_window(&window, &exported, length, boundary, phy_offset, end_offset, True, True, -1)
        with nogil:
            found = rmq_split_start(&window, boundary, max_record_size, anchored, dledger)
        return found
    finally:
        PyBuffer_Release(&exported)


def used_bytes(buf, Py_ssize_t length):
    """Bytes up to and including the last one that is not 0."""
    cdef Py_buffer exported
    cdef size_t used
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        if not 0 <= length <= exported.len:
            raise ValueError(f"length {length} does not fit a buffer of {exported.len} bytes")
        with nogil:
            used = rmq_used_bytes(<const uint8_t *> exported.buf, length)
        return used
    finally:
        PyBuffer_Release(&exported)


# ---- records that were taken ------------------------------------------------------------------------


@cython.final
cdef class Gaps:
    """Parts that a scan skipped between records, as positions in its window.

    Parameters
    ----------
    bounds : sequence of (int, int)
        Begin and end of each gap, in order.
    """

    def __init__(self, bounds=()):
        cdef Py_ssize_t i
        self.make_room(len(bounds))
        for i in range(self.count):
            self.bounds[2 * i], self.bounds[2 * i + 1] = bounds[i]

    def __dealloc__(self):
        PyMem_Free(self.bounds)

    cdef int make_room(self, Py_ssize_t count) except -1:
        """Have room for `count` gaps, and forget what there was."""
        PyMem_Free(self.bounds)
        self.count = 0
        self.bounds = <int64_t *> PyMem_Calloc(2 * count + 1, sizeof(int64_t))
        if self.bounds == NULL:
            raise MemoryError
        self.count = count
        return 0

    def __len__(self):
        return self.count


cdef struct taken_parts:
    const int64_t *bounds
    Py_ssize_t count, next_gap, pos, end


cdef int begin_parts(taken_parts *parts, Py_buffer *exported, Py_ssize_t begin, Py_ssize_t end, Gaps gaps) except -1:
    """Go over the parts of ``buf[begin:end]`` without gaps."""
    if not 0 <= begin <= end <= exported.len:
        raise ValueError(f"begin {begin} and end {end} do not fit a buffer of {exported.len} bytes")
    parts.bounds = gaps.bounds if gaps is not None else NULL
    parts.count = gaps.count if gaps is not None else 0
    parts.next_gap = 0
    parts.pos = begin
    parts.end = end
    return 0


cdef bint next_part(taken_parts *parts, Py_ssize_t *begin, Py_ssize_t *end) noexcept nogil:
    """The next part that has bytes; False when there is none."""
    cdef const int64_t *gap
    while parts.pos < parts.end:
        begin[0] = parts.pos
        if parts.next_gap == parts.count:
            end[0] = parts.pos = parts.end
            return True
        gap = &parts.bounds[2 * parts.next_gap]
        parts.next_gap += 1
        end[0] = min(max(gap[0], parts.pos), parts.end)
        parts.pos = max(gap[1], end[0])
        if begin[0] < end[0]:
            return True
    return False


def prop_crc_failures(buf, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t limit, *, bint required=False, Gaps gaps=None):
    """Check the appended ``__CRC32#`` of the sound records in ``buf[begin:end]``, which follow each other but for `gaps`.

    With `required` a record without one fails as well.

    Returns
    -------
    tuple
        ``(checked, failures, first)``: records with the area, how many of them fail, and the first `limit` of those as
        ``(pos, expected, found)``.
    """
    cdef Py_buffer exported
    cdef taken_parts parts
    cdef rmq_prop_crc_failure *found
    cdef rmq_prop_crc_failure *room
    cdef int64_t checked = 0
    cdef int64_t failures = 0
    cdef int64_t more, own
    cdef Py_ssize_t start, stop
    if limit < 0:
        raise ValueError(f"limit {limit} is negative")
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    found = <rmq_prop_crc_failure *> PyMem_Calloc(limit + 1, sizeof(rmq_prop_crc_failure))
    try:
        if found == NULL:
            raise MemoryError
        begin_parts(&parts, &exported, begin, end, gaps)
        with nogil:
            while next_part(&parts, &start, &stop):
                room = found + min(failures, limit)
                own = 0
                more = rmq_prop_crc_scan(<const uint8_t *> exported.buf + start, stop - start, required, room,
                                         limit - min(failures, limit), &own)
                checked += own
                for i in range(min(more, limit - min(failures, limit))):
                    room[i].pos += start
                failures += more
        first = [(found[i].pos, found[i].expected, found[i].found) for i in range(min(failures, limit))]
        return checked, failures, first
    finally:
        PyMem_Free(found)
        PyBuffer_Release(&exported)


# ---- multi-dispatch ---------------------------------------------------------------------------------


cdef Py_ssize_t next_multi_dispatch(const uint8_t *buf, size_t pos, size_t end, rmq_record *rec,
                                    rmq_known_props *known) noexcept nogil:
    """Position of the next record of a run with both properties of a multi-dispatch; -1 when there is none."""
    cdef int32_t size
    while pos < end:
        size = rmq_record_parse(buf + pos, end - pos, rec)
        if size <= 0:
            return -1
        rmq_props_known(rec.at + rec.props_pos, rec.props_len, rec.props_pos, known)
        if known.inner_multi_dispatch.p != NULL and known.inner_multi_queue_offset.p != NULL:
            return pos
        pos += size
    return -1


def multi_dispatch_records(buf, Py_ssize_t begin, Py_ssize_t end, *, Gaps gaps=None):
    """Find the records in ``buf[begin:end]`` that go to other queues too; all are sound, and follow each other but for `gaps`.

    Returns
    -------
    list
        Of ``(pos, queue_names, queue_offsets)``: the values of INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET.
    """
    cdef Py_buffer exported
    cdef taken_parts parts
    cdef rmq_record rec
    cdef rmq_known_props known
    cdef Py_ssize_t pos = -1
    cdef Py_ssize_t start = 0
    cdef Py_ssize_t stop = 0
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        begin_parts(&parts, &exported, begin, end, gaps)
        found = []
        while True:
            with nogil:
                if pos >= 0:
                    pos = next_multi_dispatch(<const uint8_t *> exported.buf, pos, stop, &rec, &known)
                while pos < 0 and next_part(&parts, &start, &stop):
                    pos = next_multi_dispatch(<const uint8_t *> exported.buf, start, stop, &rec, &known)
            if pos < 0:
                return found
            queues = text_of(known.inner_multi_dispatch.p, known.inner_multi_dispatch.len)
            offsets = text_of(known.inner_multi_queue_offset.p, known.inner_multi_queue_offset.len)
            found.append((pos, queues, offsets))
            pos += rec.msg_size
    finally:
        PyBuffer_Release(&exported)
