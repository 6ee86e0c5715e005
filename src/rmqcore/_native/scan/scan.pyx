"""Scans over windows of CommitLog bytes: the records that a filter accepts, as batches of columns or as views.

A scan is fed windows by `rmqcore.disk.log_window`; here are only bytes in memory. The GIL is let go for the whole of a window,
and nothing is copied into a Python object but what is asked for.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport INT64_MAX, SIZE_MAX, int32_t, int64_t, uint8_t, uint32_t

from rmqcore._native.scan.batch cimport ColumnList, new_batch
from rmqcore._native.format.codec cimport DelayLevels, new_view
from rmqcore._native.format.texts cimport text_of
from rmqcore._native.scan.filter cimport Filter
from rmqcore._native.kernels cimport *
from rmqcore._native.scan.places cimport fill_window, new_place
from rmqcore._native.scan.skips cimport Skips

from rmqcore._native.format.codec import DEFAULT_DELAY_LEVELS

choose_crc32()

# Why `feed` stopped, in `Place.code`, where it was not for what lies there (codes of `rmqcore._native.scan.places`).
END = RMQ_S_END  # the window is used up
FULL = RMQ_S_FULL  # the sink has its rows or bytes: `take` them
STOP = RMQ_S_STOP  # the next record starts at `stop_offset` or behind it


cdef class _Scan:
    """Base of both kinds of scan: filter, delay levels, and the stop."""

    cdef _configure(self, Filter filter, DelayLevels levels, stop_offset):
        self.filter = filter
        self.levels = levels if levels is not None else DEFAULT_DELAY_LEVELS
        self.scan.filter = &filter.filter if filter is not None else NULL
        self.scan.levels = self.levels.levels
        self.scan.stop_offset = INT64_MAX if stop_offset is None else stop_offset


cdef class ColumnScan(_Scan):
    """Builds batches of columns.

    Parameters
    ----------
    topic_room : int, optional
        Bytes of memory for the numbers of topics, and as many for those of tags: a batch ends where they take more, and the next
        one numbers its topics and tags anew. Without, numbers stay what they are, and memory grows with each topic and tag.

    Attributes
    ----------
    numbering : int
        How often topics and tags were numbered anew.

    Notes
    -----
    Thread safety: one thread at a time; its batches may be used anywhere.
    """

    def __cinit__(self, columns=None, *, Filter filter=None, DelayLevels delay_levels=None, stop_offset=None,
                  int64_t batch_rows=8192, int64_t batch_bytes=2 << 20, topic_room=None):
        self.columns = columns if isinstance(columns, ColumnList) else ColumnList(columns)
        if not 0 < batch_rows <= 1 << 24:
            raise ValueError(f"batch_rows {batch_rows} is not in 1..{1 << 24}")
        if not 0 < batch_bytes <= 1 << 30:
            raise ValueError(f"batch_bytes {batch_bytes} is not in 1..{1 << 30}")
        self.topic_room = SIZE_MAX if topic_room is None else topic_room
        self._configure(filter, delay_levels, stop_offset)
        self.scan.wanted = self.columns.mask
        self.scan.batch_rows = batch_rows
        self.scan.batch_bytes = batch_bytes
        self.pool = rmq_pool_new(self.columns.mask, batch_rows)
        if self.pool == NULL:
            raise MemoryError
        if self.columns.mask & (<uint32_t> 1 << RMQ_COL_TOPIC_ID | <uint32_t> 1 << RMQ_COL_KEY_HASHES):
            self.topic_table = self.scan.topics = rmq_topics_new()
            if self.topic_table == NULL:
                raise MemoryError
        if self.columns.mask & <uint32_t> 1 << RMQ_COL_TAG_ID:
            self.tag_table = self.scan.tags = rmq_topics_new()
            if self.tag_table == NULL:
                raise MemoryError

    def __dealloc__(self):
        if self.batch != NULL:
            rmq_batch_release(self.batch)
        if self.pool != NULL:
            rmq_pool_close(self.pool)
        rmq_topics_free(self.topic_table)
        rmq_topics_free(self.tag_table)

    def feed(self, buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset, *,
             bint check_place=True, bint check_crc=True, int64_t trusted=-1, Skips skips=None):
        """Add the records of a window.

        Parameters
        ----------
        buf : buffer
            CommitLog bytes; `length` of them are valid and the scan begins at `pos`.
        phy_offset, end_offset : int
            CommitLog offset of ``buf[0]``, and of the first byte after the file.
        trusted : int
            CommitLog offset of a record that is taken although its CRC fails.
        skips : Skips, optional
            Goes on behind damage where the window tells how, and notes it there.

        Returns
        -------
        Place
            Where it stopped, in `buf`, and why: END, FULL or STOP of this module, or a code of the place that it stopped at.
        """
        cdef Py_buffer exported
        cdef rmq_window window
        cdef rmq_record rec
        cdef size_t at = pos
        cdef int32_t code
        cdef rmq_skip *skip = NULL
        if self.batch == NULL:
            self.batch = rmq_batch_take(self.pool)
            if self.batch == NULL:
                raise MemoryError
        if self.is_over():
            return new_place(pos, RMQ_S_FULL, NULL)
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            fill_window(&window, &exported, length, pos, phy_offset, end_offset, check_place, check_crc, trusted)
            rec.msg_size = 0
            rec.found = rec.expected = 0
            if skips is not None:
                skips.begin(&exported, length, pos, phy_offset, end_offset)
                skip = &skips.skip
            with nogil:
                while True:
                    code = rmq_scan_columns(&self.scan, self.batch, &window, &at, &rec)
                    if skip == NULL or not rmq_skip_damage(skip, &at, code, &rec, &window.trusted):
                        break
        finally:
            if skip != NULL:
                skips.end()
            PyBuffer_Release(&exported)
        if code == RMQ_S_MEMORY:
            raise MemoryError("no memory for a batch")
        return new_place(at, code, &rec)

    cdef bint is_over(self) noexcept:
        """Return True if the batch ends before another row; if it has no rows, topics are dropped instead."""
        cdef bint too_many = self.topic_table != NULL and rmq_topics_bytes(self.topic_table) >= self.topic_room
        too_many |= self.tag_table != NULL and rmq_topics_bytes(self.tag_table) >= self.topic_room
        if self.batch.rows:
            return self.ended or too_many
        if too_many:
            if self.topic_table != NULL:
                rmq_topics_clear(self.topic_table)
            if self.tag_table != NULL:
                rmq_topics_clear(self.tag_table)
            self.numbering += 1
        self.ended = False
        return False

    def end_batch(self):
        """End the batch here, if it has rows: the next `feed` takes none, and answers FULL."""
        self.ended = True

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
        cdef rmq_batch *rows = self.batch
        self.batch = NULL
        self.ended = False
        return new_batch(rows, self.columns)

    def topics(self, int32_t first=0):
        """Names of the topics by topic_id, from `first` on, as far as seen."""
        if self.topic_table == NULL:
            raise ValueError("topics are numbered only with the column topic_id or key_hashes")
        return _names(self.topic_table, first)

    def tags(self, int32_t first=0):
        """Tags by tag_id, from `first` on, as far as seen; two of them are equal where both are no UTF-8."""
        if self.tag_table == NULL:
            raise ValueError("tags are numbered only with the column tag_id")
        return _names(self.tag_table, first)


cdef list _names(const rmq_topics *table, int32_t first):
    cdef const rmq_topic *topic
    names = []
    for i in range(max(first, 0), rmq_topics_count(table)):
        topic = rmq_topics_get(table, i)
        names.append(text_of(topic.name.p, topic.name.len))
    return names


cdef class ViewScan(_Scan):
    """Collects MessageViews, each over its own copy of the record: the window is used again.

    A record of more than `most_copied` bytes is not copied: its view holds the buffer, which then is its own.

    Thread safety: one thread at a time.
    """

    cdef list views
    cdef Py_ssize_t batch_views
    cdef int64_t most_copied
    cdef size_t pending_bytes  # of the records in views, whichever windows they came from

    def __cinit__(self, *, Filter filter=None, DelayLevels delay_levels=None, stop_offset=None, batch_views=1024,
                  int64_t most_copied=INT64_MAX):
        self._configure(filter, delay_levels, stop_offset)
        self.batch_views = batch_views
        self.most_copied = most_copied
        self.views = []

    def feed(self, buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset, *,
             bint check_place=True, bint check_crc=True, int64_t trusted=-1, Skips skips=None):
        """As ColumnScan.feed; FULL when `batch_views` views or about 1 MiB of records wait."""
        cdef Py_buffer exported
        cdef rmq_window window
        cdef rmq_record rec
        cdef size_t at = pos
        cdef int32_t code = RMQ_S_FULL
        cdef rmq_skip *skip = NULL
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            fill_window(&window, &exported, length, pos, phy_offset, end_offset, check_place, check_crc, trusted)
            rec.msg_size = 0
            rec.found = rec.expected = 0
            if skips is not None:
                skips.begin(&exported, length, pos, phy_offset, end_offset)
                skip = &skips.skip
            while len(self.views) < self.batch_views and self.pending_bytes < 1 << 20:
                with nogil:
                    while True:
                        code = rmq_scan_next(&self.scan, &window, &at, &rec)
                        if skip == NULL or not rmq_skip_damage(skip, &at, code, &rec, &window.trusted):
                            break
                if code != RMQ_S_RECORD:
                    return new_place(at, code, &rec)
                self._add(buf, &rec)
                self.pending_bytes += rec.msg_size
                at += rec.msg_size
            return new_place(at, RMQ_S_FULL, &rec)
        finally:
            if skip != NULL:
                skips.end()
            PyBuffer_Release(&exported)

    cdef _add(self, buf, rmq_record *rec):
        cdef bytes own
        if rec.msg_size > self.most_copied:
            self.views.append(new_view(PyMemoryView_FromObject(buf), rec, self.levels))
            return
        own = PyBytes_FromStringAndSize(<const char *> rec.at, rec.msg_size)
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
