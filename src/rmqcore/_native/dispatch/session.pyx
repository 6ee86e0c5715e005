"""A session of dispatch: records go from the log to queues and index without the GIL, as long as all that comes is plain.

What is plain is said in dispatch/session.h. Everything else is the business of `rmqcore.engine.dispatch`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from rmqcore._native.format.lost_pages cimport all_lost
from rmqcore._native.index.mapped_index cimport MappedIndexFile, rmq_index_map
from rmqcore._native.kernels cimport *
from rmqcore._native.put.appender cimport Appender
from rmqcore._native.queues.queue_table cimport QueueTable, raise_for
from rmqcore._native.scan.places cimport fill_window
from rmqcore._native.scan.scan cimport ColumnScan
from rmqcore._native.threads.bell cimport Bell

from rmqcore._native.queues.queue_table import COLUMNS as _QUEUE_COLUMNS

cdef extern from "dispatch/session.h" nogil:
    ctypedef struct rmq_dispatched:
        int64_t cq_from, index_from
        int64_t last_phy_offset, last_store_timestamp
    int64_t rmq_dispatched_get(const int64_t *field) noexcept
    void rmq_dispatched_set(int64_t *field, int64_t value) noexcept
    ctypedef struct rmq_session:
        const rmq_log *log
        int64_t end_offset
        rmq_scan *scan
        rmq_pool *pool
        rmq_window file
        rmq_cq_table *table
        const int32_t *topic_of
        int32_t topics_known
        int64_t covered_from
        rmq_index_map *index
        int32_t index_alarm
        const int32_t *heard
        int32_t heard_count
        const int64_t *all_lost
        rmq_ring *ring
        rmq_dispatched *done
        int64_t far_behind
        int64_t nap_us, idle_us, most_us
        int64_t batches
    int RMQ_SESSION_END, RMQ_SESSION_IDLE, RMQ_SESSION_TIME, RMQ_SESSION_RUNG, RMQ_SESSION_LEFT
    int rmq_session_run(rmq_session *session) noexcept

# Why a session ended.
END = int(RMQ_SESSION_END)  # all below the end that was given is dispatched
IDLE = int(RMQ_SESSION_IDLE)  # nothing new has come for some milliseconds
TIME = int(RMQ_SESSION_TIME)  # it has lasted long enough
RUNG = int(RMQ_SESSION_RUNG)  # the bell has rung
LEFT = int(RMQ_SESSION_LEFT)  # what comes next is not plain

cdef frozenset NEEDED = frozenset((*_QUEUE_COLUMNS, "store_timestamp_ms"))

cdef enum:
    NAP_US = 1000  # ReputMessageService looks so often
    IDLE_US = 5000
    IDLE_HEARD_US = 1500  # beside a listener: once the session has ended an append wakes the thread, a nap ends by itself
    MOST_HEARD = 8
    MOST_US = 100 * 1000  # so long a store that a program has dropped may be kept, and a caller of `dispatch_once` may wait


@cython.final
cdef class Dispatched:
    """How far a dispatch is, beside what queues and index themselves say.

    Attributes
    ----------
    cq_from, index_from : int
        CommitLog offsets: records below are in the queues, in the index.
    last_phy_offset, last_store_timestamp_ms : int
        Of the last record given to the queues; -1 before the first one.
    sessions, batches : int
        How many sessions there were, and how many batches they dispatched.

    Notes
    -----
    Thread safety: the thread that dispatches sets them, any thread reads them. What one of them says is true before it says so.
    """

    cdef rmq_dispatched at
    cdef readonly int64_t sessions, batches

    def __cinit__(self):
        self.at.last_phy_offset = self.at.last_store_timestamp = -1

    @property
    def cq_from(self):
        return rmq_dispatched_get(&self.at.cq_from)

    @cq_from.setter
    def cq_from(self, int64_t value):
        rmq_dispatched_set(&self.at.cq_from, value)

    @property
    def index_from(self):
        return rmq_dispatched_get(&self.at.index_from)

    @index_from.setter
    def index_from(self, int64_t value):
        rmq_dispatched_set(&self.at.index_from, value)

    @property
    def last_phy_offset(self):
        return rmq_dispatched_get(&self.at.last_phy_offset)

    @last_phy_offset.setter
    def last_phy_offset(self, int64_t value):
        rmq_dispatched_set(&self.at.last_phy_offset, value)

    @property
    def last_store_timestamp_ms(self):
        return rmq_dispatched_get(&self.at.last_store_timestamp)

    @last_store_timestamp_ms.setter
    def last_store_timestamp_ms(self, int64_t value):
        rmq_dispatched_set(&self.at.last_store_timestamp, value)

    def run(self, ColumnScan scan not None, window, QueueTable table not None, int64_t covered_from,
            MappedIndexFile index=None, int32_t index_alarm=0, *, Appender log=None, Bell bell=None, int64_t end_offset=0,
            int64_t far_behind, heard=()):
        """Dispatch from `cq_from` on, which is where `index_from` is too.

        Parameters
        ----------
        scan : ColumnScan
            Without a filter and without rows; its topics are known to the table.
        window : tuple
            The bytes of the file that holds `cq_from`, and the CommitLog offsets where it begins and ends.
        table : QueueTable
        covered_from : int
            As for `QueueTable.put_batch`.
        index : MappedIndexFile, optional
            The newest file; without one nothing is indexed.
        index_alarm : int
            The session ends when the file has so many entries.
        log : Appender, optional
            With it the session goes along with the end of the log until `bell` rings, nothing comes any more, or its time is
            over; without it ends at `end_offset`.
        bell : Bell
        end_offset : int
        far_behind : int
            So many bytes behind the session ends: larger batches pay.
        heard : collection of str
            Topics whose messages are not plain, at most 8.

        Returns
        -------
        int
            Why it ended: END, IDLE, TIME, RUNG or LEFT.

        Raises
        ------
        ValueError
            The arguments do not belong together.
        OSError
            A queue cannot be written.
        """
        cdef rmq_session session
        cdef Py_buffer exported
        cdef int64_t begin, end
        cdef int code
        cdef int32_t heard_ids[MOST_HEARD]
        buf, begin, end = window
        self.check(scan, table, index)
        session.log = log.log if log is not None else NULL
        session.end_offset = end_offset
        session.scan = &scan.scan
        session.pool = scan.pool
        session.table = table.table
        session.topic_of = table.topic_of
        session.topics_known = table.topics_known
        session.covered_from = covered_from
        session.index = &index.map if index is not None else NULL
        session.index_alarm = index_alarm
        session.heard = heard_ids
        session.heard_count = self.number_topics(scan, heard, heard_ids)
        session.all_lost = all_lost
        if log is not None and bell is None:
            raise ValueError("a session that goes along with the log needs a bell")
        session.ring = &bell.heard if bell is not None else NULL
        session.done = &self.at
        session.far_behind = far_behind
        session.nap_us = NAP_US
        session.idle_us = IDLE_HEARD_US if heard else IDLE_US
        session.most_us = MOST_US
        session.batches = 0
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            fill_window(&session.file, &exported, end - begin, self.at.cq_from - begin, begin, end, True, False, -1)
            with nogil:
                code = rmq_session_run(&session)
        finally:
            PyBuffer_Release(&exported)
        self.sessions += 1
        self.batches += session.batches
        raise_for(code, rmq_cq_put_failed_path(table.table))
        return code

    cdef int32_t number_topics(self, ColumnScan scan, heard, int32_t *ids) except -1:
        """The numbers that the scan has for some topics, which it sees before any record of theirs."""
        cdef bytes utf8
        cdef int32_t count = 0
        if len(heard) > MOST_HEARD:
            raise ValueError(f"{len(heard)} topics that are heard, at most {MOST_HEARD}")
        for name in heard:
            utf8 = name.encode()
            ids[count] = rmq_topics_intern(scan.topic_table, <const uint8_t *> PyBytes_AS_STRING(utf8), <uint32_t> len(utf8))
            if ids[count] < 0:
                raise MemoryError
            count += 1
        return count

    cdef int check(self, ColumnScan scan, QueueTable table, MappedIndexFile index) except -1:
        needed = NEEDED
        if index is not None:
            needed = NEEDED | {"key_hashes"}
            if not index.file.writable or self.at.index_from != self.at.cq_from:
                raise ValueError(f"{index!r} cannot go on at {self.at.cq_from}")
            index.open()
        if not needed <= frozenset(scan.columns.names) or scan.filter is not None or scan.pending_rows:
            raise ValueError("the scan has a filter or rows, or lacks a column")
        if table.scan is not scan or table.numbering != scan.numbering:
            raise ValueError("the table does not know the numbers of the scan's topics")
        return 0
