"""Scans over windows of CommitLog bytes: filters, columns, Arrow export, resynchronisation.

A scan is fed windows by `rmqcore.offline.walk`, which owns files and damage; here are only bytes in memory. Nothing is
copied into a Python object but what is asked for, and the GIL is let go for the whole of a window.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.errno cimport EIO, ENOMEM
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from .codec cimport DelayLevels, new_view, text_of
from .kernels cimport *

from rmqcore._native.codec import DEFAULT_DELAY_LEVELS, select_crc32

import os

# Each extension has its own copy of the CRC kernels and chooses for itself.
cdef int _crc_code = rmq_crc32_select(os.environ.get("RMQCORE_CRC32", "").encode())
if _crc_code != RMQ_CRC_OK:
    select_crc32(os.environ.get("RMQCORE_CRC32", ""))

# Codes that `feed` and `find` answer; below 0 they are the record's RMQ_E_* of record.h.
BLANK = RMQ_R_BLANK
END = RMQ_S_END
FULL = RMQ_S_FULL
STOP = RMQ_S_STOP
SHORT = RMQ_E_SHORT
ZERO = RMQ_E_ZERO
BODYCRC = RMQ_E_BODYCRC
PAST_FILE = RMQ_E_PAST_FILE
SHORT_FILE = RMQ_E_SHORT_FILE
BLANKSIZE = RMQ_E_BLANKSIZE
PROPCRC = RMQ_E_PROPCRC
NOTHING = RMQ_E_MAGIC

# What `split_start` answers beside positions.
SPLIT_MORE = RMQ_SPLIT_MORE
SPLIT_ODD = RMQ_SPLIT_ODD

COLUMNS = {rmq_column_types[i].name.decode(): i for i in range(RMQ_COL_COUNT)}
PUBLIC_COLUMNS = tuple(COLUMNS)[:RMQ_COL_PUBLIC]

cdef int64_t INT64_MIN = -(<int64_t> 0x7FFFFFFFFFFFFFFF) - 1
cdef int64_t INT64_MAX = 0x7FFFFFFFFFFFFFFF
cdef int64_t INT32_MAX = 0x7FFFFFFF


# ---- filters ----------------------------------------------------------------------------------------


cdef class _TextSet:
    """A set of texts as the kernels take it, and the memory behind it."""

    def __cinit__(self, texts):
        memset(&self.table, 0, sizeof(self.table))
        if texts is None:
            return
        if isinstance(texts, str):
            raise TypeError(f"expected an iterable of str, got the str {texts!r}")
        self.texts = sorted({text.encode() for text in texts})
        cdef Py_ssize_t count = len(self.texts)
        cdef uint32_t mask = 7
        while mask < 2 * count:
            mask = mask * 2 + 1
        self.items = <rmq_slice *> PyMem_Calloc(count + 1, sizeof(rmq_slice))
        self.slots = <uint32_t *> PyMem_Calloc(mask + 1, sizeof(uint32_t))
        if self.items == NULL or self.slots == NULL:
            raise MemoryError
        for i in range(count):
            self.items[i].p = <const uint8_t *> PyBytes_AS_STRING(self.texts[i])
            self.items[i].len = len(self.texts[i])
        rmq_text_set_build(self.slots, mask, self.items, count)
        self.table.items = self.items
        self.table.slots = self.slots
        self.table.mask = mask
        self.table.active = 1

    def __dealloc__(self):
        PyMem_Free(self.items)
        PyMem_Free(self.slots)


cdef class Filter:
    """Which records a scan delivers; None accepts everything. See StoreReader.messages for the meaning."""

    def __cinit__(self, *, topics=None, queue_ids=None, tags=None, keys=None, since_ms=None, until_ms=None,
                  start_phy_offset=None, end_phy_offset=None):
        self.topics, self.tags, self.keys = _TextSet(topics), _TextSet(tags), _TextSet(keys)
        self.filter.topics = self.topics.table
        self.filter.tags = self.tags.table
        self.filter.keys = self.keys.table
        self.filter.queue_id_count = -1
        if queue_ids is not None:
            wanted = [queue_ids] if isinstance(queue_ids, int) else sorted(set(queue_ids))
            self.queue_ids = <int32_t *> PyMem_Calloc(len(wanted) + 1, sizeof(int32_t))
            if self.queue_ids == NULL:
                raise MemoryError
            for i, queue_id in enumerate(wanted):
                self.queue_ids[i] = queue_id
            self.filter.queue_ids = self.queue_ids
            self.filter.queue_id_count = len(wanted)
        self.filter.since_ms = INT64_MIN if since_ms is None else since_ms
        self.filter.until_ms = INT64_MAX if until_ms is None else until_ms
        self.filter.start_phy_offset = INT64_MIN if start_phy_offset is None else start_phy_offset
        self.filter.end_phy_offset = INT64_MAX if end_phy_offset is None else end_phy_offset

    def __dealloc__(self):
        PyMem_Free(self.queue_ids)


# ---- batches ----------------------------------------------------------------------------------------


cdef void release_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *> PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void release_array_capsule(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *> PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef class ColumnList:
    """Chosen columns in order."""

    def __cinit__(self, names=None):
        chosen = PUBLIC_COLUMNS if names is None else tuple(names)
        if isinstance(names, str):
            raise TypeError(f"columns: expected an iterable of names, got the str {names!r}")
        unknown = [name for name in chosen if name not in COLUMNS]
        if unknown:
            raise ValueError(f"columns: there is no {', '.join(map(repr, unknown))}; there are {', '.join(COLUMNS)}")
        if len(set(chosen)) != len(chosen):
            raise ValueError("columns: a name is given twice")
        self.names = chosen
        self.count = len(chosen)
        for i, name in enumerate(chosen):
            self.ids[i] = COLUMNS[name]
            self.mask |= <uint32_t> 1 << <int> COLUMNS[name]

    def schema_capsule(self):
        """The struct type of these columns as an ``arrow_schema`` capsule."""
        cdef ArrowSchema *schema = <ArrowSchema *> malloc(sizeof(ArrowSchema))
        if schema == NULL:
            raise MemoryError
        schema.release = NULL
        capsule = PyCapsule_New(schema, "arrow_schema", release_schema_capsule)
        if rmq_arrow_schema(self.ids, self.count, schema):
            raise MemoryError
        return capsule


@cython.final
cdef class _ColumnBuffer:
    """The memory of one column, alive as long as anybody looks at it."""

    cdef rmq_shared_batch *shared
    cdef void *data
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 1, flags)

    def __dealloc__(self):
        if self.shared != NULL:
            rmq_shared_drop(self.shared)


@cython.final
cdef class Batch:
    """Rows of a scan as columns, exported to Arrow without a copy.

    Any consumer of the Arrow PyCapsule interface takes it: ``pyarrow.record_batch(batch)``, ``polars.DataFrame(batch)``.
    Buffers are given away, not copied; they return to the scan's pool when the last holder lets go, on any thread.

    Attributes
    ----------
    num_rows : int
    column_names : tuple of str
    """

    def __init__(self):
        raise TypeError("Batch is made by a scan")

    def __dealloc__(self):
        if self.shared != NULL:
            rmq_shared_drop(self.shared)

    def __len__(self):
        return rmq_shared_batch_of(self.shared).rows

    @property
    def num_rows(self):
        return rmq_shared_batch_of(self.shared).rows

    @property
    def column_names(self):
        return self.columns.names

    @property
    def nbytes(self):
        """Bytes of the records in this batch."""
        return rmq_shared_batch_of(self.shared).bytes

    def __arrow_c_schema__(self):
        return self.columns.schema_capsule()

    def __arrow_c_array__(self, requested_schema=None):
        # The interface allows to answer in the own schema when another is requested: the consumer casts.
        cdef ArrowArray *array = <ArrowArray *> malloc(sizeof(ArrowArray))
        if array == NULL:
            raise MemoryError
        array.release = NULL
        capsule = PyCapsule_New(array, "arrow_array", release_array_capsule)
        if rmq_arrow_array(self.shared, self.columns.ids, self.columns.count, array):
            raise MemoryError
        return self.columns.schema_capsule(), capsule

    def buffer(self, name, part="values"):
        """A memoryview of the bytes of a number column, or of a list column's ``"offsets"`` (int32, rows + 1 of them)."""
        if name not in self.columns.names:
            raise KeyError(name)
        cdef int column_id = COLUMNS[name]
        cdef const rmq_batch *batch = rmq_shared_batch_of(self.shared)
        cdef const rmq_column *column = &batch.columns[column_id]
        cdef int kind = rmq_column_types[column_id].kind
        cdef _ColumnBuffer found = _ColumnBuffer.__new__(_ColumnBuffer)
        if kind == RMQ_KIND_HASHES and part == "offsets":
            found.data = column.offsets
            found.size = 4 * (batch.rows + 1)
        elif kind == RMQ_KIND_HASHES:
            found.data = column.values.any
            found.size = 4 * column.offsets[batch.rows]
        elif kind in (RMQ_KIND_I32, RMQ_KIND_I64) and part == "values":
            found.data = column.values.any
            found.size = batch.rows * (4 if kind == RMQ_KIND_I32 else 8)
        else:
            raise ValueError(f"column {name!r} has no plain memory to look at")
        found.shared = self.shared
        rmq_shared_hold(self.shared)
        return memoryview(found)

    def __repr__(self):
        return f"<Batch of {self.num_rows} rows, {len(self.columns.names)} columns>"


# ---- scans ------------------------------------------------------------------------------------------


cdef class _Scan:
    """What both kinds of scan share: filter, delay levels, and where it stops."""

    cdef _configure(self, Filter filter, DelayLevels levels, stop_offset):
        self.filter = filter
        self.levels = levels if levels is not None else DEFAULT_DELAY_LEVELS
        self.scan.filter = &filter.filter if filter is not None else NULL
        self.scan.levels = self.levels.levels
        self.scan.stop_offset = INT64_MAX if stop_offset is None else stop_offset


cdef int fill_window(rmq_window *window, Py_buffer *buffer, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset,
                     int64_t end_offset, bint check_place, bint check_crc, int64_t trusted) except -1:
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


cdef class ColumnScan(_Scan):
    """Builds batches of columns.

    Thread safety: one thread at a time; its batches may be used anywhere.
    """

    def __cinit__(self, columns=None, *, Filter filter=None, DelayLevels delay_levels=None, stop_offset=None,
                  int64_t batch_rows=8192, int64_t batch_bytes=2 << 20):
        self.columns = columns if isinstance(columns, ColumnList) else ColumnList(columns)
        if not 0 < batch_rows <= 1 << 24:
            raise ValueError(f"batch_rows {batch_rows} is not in 1..{1 << 24}")
        if not 0 < batch_bytes <= 1 << 30:
            raise ValueError(f"batch_bytes {batch_bytes} is not in 1..{1 << 30}")
        self._configure(filter, delay_levels, stop_offset)
        self.scan.wanted = self.columns.mask
        self.scan.batch_rows = batch_rows
        self.scan.batch_bytes = batch_bytes
        self.pool = rmq_pool_new(self.columns.mask, batch_rows)
        if self.pool == NULL:
            raise MemoryError
        if self.columns.mask >> RMQ_COL_TOPIC_ID:
            self.topic_table = rmq_topics_new()
            if self.topic_table == NULL:
                raise MemoryError
            self.scan.topics = self.topic_table

    def __dealloc__(self):
        if self.batch != NULL:
            rmq_batch_release(self.batch)
        if self.pool != NULL:
            rmq_pool_close(self.pool)
        rmq_topics_free(self.topic_table)

    def feed(self, buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset, *,
             bint check_place=True, bint check_crc=True, int64_t trusted=-1):
        """Add the records of a window.

        Parameters
        ----------
        buf : buffer
            CommitLog bytes; `length` of them are valid and the scan begins at `pos`.
        phy_offset, end_offset : int
            CommitLog offset of ``buf[0]``, and of the first byte after the file.
        trusted : int
            CommitLog offset of a record that is taken although its CRC fails.

        Returns
        -------
        tuple
            ``(pos, code, found, expected)``: where it stopped and why (module constants, or an error code of the record there).
        """
        cdef Py_buffer exported
        cdef rmq_window window
        cdef rmq_record rec
        cdef size_t at = pos
        cdef int32_t code
        if self.batch == NULL:
            self.batch = rmq_batch_take(self.pool)
            if self.batch == NULL:
                raise MemoryError
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            fill_window(&window, &exported, length, pos, phy_offset, end_offset, check_place, check_crc, trusted)
            rec.found = rec.expected = 0
            with nogil:
                code = rmq_scan_columns(&self.scan, self.batch, &window, &at, &rec)
        finally:
            PyBuffer_Release(&exported)
        if code == RMQ_S_MEMORY:
            raise MemoryError("no memory for a batch")
        return at, code, rec.found, rec.expected

    @property
    def pending_rows(self):
        """Rows gathered since the last `take`."""
        return self.batch.rows if self.batch != NULL else 0

    def take(self):
        """The rows gathered so far as a Batch; may be empty."""
        if self.batch == NULL:
            self.batch = rmq_batch_take(self.pool)
            if self.batch == NULL:
                raise MemoryError
        cdef Batch taken = Batch.__new__(Batch)
        taken.columns = self.columns
        taken.shared = rmq_shared_new(self.batch)
        self.batch = NULL
        if taken.shared == NULL:
            raise MemoryError
        return taken

    def topics(self, int32_t first=0):
        """Names of the topics by topic_id, from `first` on, as far as seen."""
        if self.topic_table == NULL:
            raise ValueError("topics are numbered only with the column topic_id or key_hashes")
        cdef const rmq_topic *topic
        names = []
        for i in range(max(first, 0), rmq_topics_count(self.topic_table)):
            topic = rmq_topics_get(self.topic_table, i)
            names.append(text_of(topic.name.p, topic.name.len))
        return names


cdef class ViewScan(_Scan):
    """Collects MessageViews, each over its own copy of the record: the window is used again.

    Thread safety: one thread at a time.
    """

    cdef list views
    cdef Py_ssize_t batch_views
    cdef size_t pending_bytes  # of the records in views, whichever windows they came from

    def __cinit__(self, *, Filter filter=None, DelayLevels delay_levels=None, stop_offset=None, batch_views=1024):
        self._configure(filter, delay_levels, stop_offset)
        self.batch_views = batch_views
        self.views = []

    def feed(self, buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset, *,
             bint check_place=True, bint check_crc=True, int64_t trusted=-1):
        """As ColumnScan.feed; FULL when `batch_views` views or about 1 MiB of records wait."""
        cdef Py_buffer exported
        cdef rmq_window window
        cdef rmq_record rec
        cdef size_t at = pos
        cdef int32_t code = RMQ_S_FULL
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            fill_window(&window, &exported, length, pos, phy_offset, end_offset, check_place, check_crc, trusted)
            rec.found = rec.expected = 0
            while len(self.views) < self.batch_views and self.pending_bytes < 1 << 20:
                with nogil:
                    code = rmq_scan_next(&self.scan, &window, &at, &rec)
                if code != RMQ_S_RECORD:
                    return at, code, rec.found, rec.expected
                self._add(&rec)
                self.pending_bytes += rec.msg_size
                at += rec.msg_size
            return at, RMQ_S_FULL, 0, 0
        finally:
            PyBuffer_Release(&exported)

    cdef _add(self, rmq_record *rec):
        cdef bytes own = PyBytes_FromStringAndSize(<const char *> rec.at, rec.msg_size)
        rec.at = <const uint8_t *> PyBytes_AS_STRING(own)
        self.views.append(new_view(own, rec, self.levels))

    @property
    def pending_rows(self):
        """Views gathered since the last `take`."""
        return len(self.views)

    def take(self):
        """The views gathered so far."""
        taken = self.views
        self.views = []
        self.pending_bytes = 0
        return taken


# ---- resynchronisation ------------------------------------------------------------------------------


def step(buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
    """Check what lies at `pos` with place and CRC: ``(code, size, found, expected)``, code 0 BLANK, > 0 a record, else its error.

    `size` is the TOTALSIZE field, 0 when unknown.
    """
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
        return code, rec.msg_size, rec.found, rec.expected
    finally:
        PyBuffer_Release(&exported)


def guesses(buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
    """Positions where the damaged record at `pos` may end by its own lengths."""
    cdef Py_buffer exported
    cdef rmq_window window
    cdef size_t found[2]
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        fill_window(&window, &exported, length, pos, phy_offset, end_offset, True, True, -1)
        return [found[i] for i in range(rmq_resync_guesses(&window, pos, found))]
    finally:
        PyBuffer_Release(&exported)


def find(buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
    """First place at or after `pos` that proves itself: ``(pos, code, size)``.

    Code 0 or a record's size: found. SHORT: a candidate that needs `size` bytes. NOTHING: none; search on from `pos` with
    more bytes.
    """
    cdef Py_buffer exported
    cdef rmq_window window
    cdef rmq_record rec
    cdef int32_t code
    cdef size_t at
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        fill_window(&window, &exported, length, pos, phy_offset, end_offset, True, True, -1)
        rec.msg_size = 0
        with nogil:
            at = rmq_resync_find(&window, pos, &code, &rec)
        return at, code, rec.msg_size
    finally:
        PyBuffer_Release(&exported)


def split_start(buf, Py_ssize_t length, Py_ssize_t boundary, int64_t phy_offset, int64_t end_offset, int64_t max_record_size,
                *, bint anchored=False):
    """The place at or after `boundary` where a walk over the whole file arrives, told from ``buf[:length]``.

    `boundary` is a position in `buf`, with the largest record's bytes before it; `anchored` when the file begins with ``buf[0]``.
    SPLIT_MORE: ask again with the largest record's bytes behind the boundary. SPLIT_ODD: the bytes do not tell.
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
            found = rmq_split_start(&window, boundary, max_record_size, anchored)
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


# ---- property CRC -----------------------------------------------------------------------------------


def prop_crc_failures(buf, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t limit, *, bint required=False):
    """Check the appended ``__CRC32#`` of the sound records in ``buf[begin:end]``, which follow each other without a gap.

    With `required` a record without one fails as well.

    Returns
    -------
    tuple
        ``(checked, failures, first)``: records with the area, how many of them fail, and the first `limit` of those as
        ``(pos, expected, found)``.
    """
    cdef Py_buffer exported
    cdef rmq_prop_crc_failure *found
    cdef int64_t checked = 0
    cdef int64_t failures
    if limit < 0:
        raise ValueError(f"limit {limit} is negative")
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    found = <rmq_prop_crc_failure *> PyMem_Calloc(limit + 1, sizeof(rmq_prop_crc_failure))
    try:
        if found == NULL:
            raise MemoryError
        if not 0 <= begin <= end <= exported.len:
            raise ValueError(f"begin {begin} and end {end} do not fit a buffer of {exported.len} bytes")
        with nogil:
            failures = rmq_prop_crc_scan(<const uint8_t *> exported.buf + begin, end - begin, required, found, limit, &checked)
        first = [(begin + found[i].pos, found[i].expected, found[i].found) for i in range(min(failures, limit))]
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


def multi_dispatch_records(buf, Py_ssize_t begin, Py_ssize_t end):
    """Find the records of ``buf[begin:end]``, which are sound and follow each other without a gap, that go to other queues too.

    Returns
    -------
    list
        Of ``(pos, queue_names, queue_offsets)``: the values of INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET.
    """
    cdef Py_buffer exported
    cdef rmq_record rec
    cdef rmq_known_props known
    cdef Py_ssize_t pos = begin
    PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
    try:
        if not 0 <= begin <= end <= exported.len:
            raise ValueError(f"begin {begin} and end {end} do not fit a buffer of {exported.len} bytes")
        found = []
        while True:
            with nogil:
                pos = next_multi_dispatch(<const uint8_t *> exported.buf, pos, end, &rec, &known)
            if pos < 0:
                return found
            queues = text_of(known.inner_multi_dispatch.p, known.inner_multi_dispatch.len)
            offsets = text_of(known.inner_multi_queue_offset.p, known.inner_multi_queue_offset.len)
            found.append((pos, queues, offsets))
            pos += rec.msg_size
    finally:
        PyBuffer_Release(&exported)


# ---- Arrow stream -----------------------------------------------------------------------------------


cdef struct stream_state:
    PyObject *batches  # iterator of Batch
    PyObject *columns  # ColumnList
    PyObject *message  # bytes of the last error, or NULL


cdef int stream_get_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    cdef ColumnList columns = <ColumnList> state.columns
    return ENOMEM if rmq_arrow_schema(columns.ids, columns.count, out) else 0


cdef int stream_get_next(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    cdef Batch batch
    cdef PyObject *old = state.message
    state.message = NULL
    Py_XDECREF(old)
    try:
        for item in <object> state.batches:
            batch = item
            if rmq_arrow_array(batch.shared, batch.columns.ids, batch.columns.count, out):
                raise MemoryError("no memory for an Arrow array")
            return 0
        memset(out, 0, sizeof(out[0]))
        return 0
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        Py_INCREF(text)
        state.message = <PyObject *> text
        return EIO


cdef const char *stream_get_last_error(ArrowArrayStream *stream) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    return PyBytes_AS_STRING(<bytes> state.message) if state.message != NULL else NULL


cdef void stream_release(ArrowArrayStream *stream) noexcept with gil:
    cdef stream_state *state = <stream_state *> stream.private_data
    Py_XDECREF(state.batches)
    Py_XDECREF(state.columns)
    Py_XDECREF(state.message)
    free(state)
    stream.release = NULL


cdef void release_stream_capsule(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


def stream_capsule(batches, ColumnList columns not None):
    """An ``arrow_array_stream`` capsule over an iterable of Batch with these columns.

    An exception from the iterable reaches the consumer as a stream error with its text.
    """
    cdef ArrowArrayStream *stream = <ArrowArrayStream *> malloc(sizeof(ArrowArrayStream))
    cdef stream_state *state = <stream_state *> malloc(sizeof(stream_state))
    if stream == NULL or state == NULL:
        free(stream)
        free(state)
        raise MemoryError
    iterator = iter(batches)
    Py_INCREF(iterator)
    Py_INCREF(columns)
    state.batches = <PyObject *> iterator
    state.columns = <PyObject *> columns
    state.message = NULL
    stream.get_schema = stream_get_schema
    stream.get_next = stream_get_next
    stream.get_last_error = stream_get_last_error
    stream.release = stream_release
    stream.private_data = state
    return PyCapsule_New(stream, "arrow_array_stream", release_stream_capsule)
