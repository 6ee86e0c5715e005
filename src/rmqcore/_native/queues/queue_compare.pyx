"""Records against the queue entries that belong to them, and entries written at their places.

Only the places are looked at: where queues end is the business of `rmqcore.engine.recovery`.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from rmqcore._native.scan.batch cimport Batch
from rmqcore._native.queues.queue_table cimport QueueTable, raise_for
from rmqcore._native.kernels cimport *
from rmqcore._native.scan.scan cimport ColumnScan

from typing import NamedTuple

import numpy as np

from rmqcore._native.format.cq_arrays import CQ_DTYPE as _CQ_DTYPE
from rmqcore._native.queues.queue_table import COLUMNS as _COLUMNS

cdef int32_t UNIT = RMQ_CQ_STORE_UNIT_SIZE
DIFFERS, HELD, BACK, REFUSED = int(RMQ_CQ_DIFFERS), int(RMQ_CQ_HELD), int(RMQ_CQ_BACK), int(RMQ_CQ_REFUSED)
TAGS = int(RMQ_CQ_TAGS)
EXT_ADDRESS_MAX = int(RMQ_CQ_EXT_ADDRESS_MAX)


class SeenQueue(NamedTuple):
    """What the records that were compared say of one queue; `rows` is 0 when there were none since the last `restart`.

    `first`, `last` are the first and last queue offset since records last began anew (`since` of them), `first_phy` and
    `last_end` say where those records begin and end, `last_phy` where the last of them begins; `prev_...` what these were before
    that. `low` is the lowest queue offset.
    """

    topic: str
    queue_id: int
    rows: int
    first: int
    last: int
    first_phy: int
    last_phy: int
    last_end: int
    low: int
    low_phy: int
    backs: int
    since: int
    prev_first: int
    prev_last: int
    prev_first_phy: int
    prev_last_phy: int
    prev_last_end: int
    prev_low: int
    prev_low_phy: int


@cython.final
cdef class QueueCompare:
    """Compares records with their entries; files are only read.

    Parameters
    ----------
    table : QueueTable
        Queues that it does not have hold nothing.
    with_ext : bool
        Tags codes that may be addresses in ``consumequeue_ext`` are not compared.
    none_held : bool
        No queue has a file, so every place differs and none is read. Records may be put once they were compared.

    Notes
    -----
    Thread safety: one thread at a time, the table's writer.
    """

    cdef rmq_cq_compare *compare
    cdef QueueTable table

    def __cinit__(self, QueueTable table not None, *, bint with_ext=False, bint none_held=False):
        self.table = table
        self.compare = rmq_cq_compare_new(table.table, with_ext, none_held)
        if self.compare == NULL:
            raise MemoryError

    def __dealloc__(self):
        rmq_cq_compare_free(self.compare)

    def compare_batch(self, ColumnScan scan not None, Batch batch not None):
        """Compare the records of a batch, which follow those of the batch before.

        Returns
        -------
        tuple
            How many rows have flags; the flags of each row (`DIFFERS`, `HELD`, `BACK`, `REFUSED`, `TAGS`); and the numbers of
            their queues in `seen`, -1 for rows without an entry.

        Raises
        ------
        ValueError
            The batch lacks one of the columns of a `QueueTable`.
        OSError
            A file cannot be read.
        """
        cdef const rmq_batch *columns = rmq_shared_batch_of(batch.shared)
        cdef rmq_cq_rows rows
        for name in _COLUMNS:
            if name not in batch.columns.names:
                raise ValueError(f"the batch has no column {name!r}")
        self.table.translate(scan)
        rows.phy_offset = columns.columns[<int> RMQ_COL_PHY_OFFSET].values.i64
        rows.msg_size = columns.columns[<int> RMQ_COL_MSG_SIZE].values.i32
        rows.queue_id = columns.columns[<int> RMQ_COL_QUEUE_ID].values.i32
        rows.queue_offset = columns.columns[<int> RMQ_COL_QUEUE_OFFSET].values.i64
        rows.sys_flag = columns.columns[<int> RMQ_COL_SYS_FLAG].values.i32
        rows.tags_code = columns.columns[<int> RMQ_COL_TAGS_CODE].values.i64
        rows.topic_id = columns.columns[<int> RMQ_COL_TOPIC_ID].values.i32
        rows.count = columns.rows
        return self._compare(&rows, self.table.topic_of, self.table.topics_known)

    def compare_entries(self, topics, queue_ids, queue_offsets, entries):
        """Compare single entries, in the order of their records, as `compare_batch` does.

        Parameters
        ----------
        topics : list of str
        queue_ids : array of int32
        queue_offsets : array of int64
        entries : structured array
            `rmqcore._native.format.cq_arrays.CQ_DTYPE`; all of one length.
        """
        numbers = np.array([self.table.topic_number(topic) for topic in topics], np.int32)
        cdef int64_t count = len(numbers)
        if not (len(queue_ids) == len(queue_offsets) == len(entries) == count):
            raise ValueError("the arrays are not of one length")
        if count == 0:
            return 0, np.empty(0, np.uint8), np.empty(0, np.int32)
        # `numbers` translates topic ids; -1 stays -1, as a number of its own is no index.
        known = np.arange(max(int(numbers.max()) + 1, 1), dtype=np.int32)
        cdef const int32_t[::1] topic_of = known
        cdef const int32_t[::1] topic_ids = numbers
        cdef const int32_t[::1] ids = np.ascontiguousarray(queue_ids, np.int32)
        cdef const int64_t[::1] offsets = np.ascontiguousarray(queue_offsets, np.int64)
        cdef const int64_t[::1] phy_offset = entries["phy_offset"].astype(np.int64)
        cdef const int32_t[::1] msg_size = entries["msg_size"].astype(np.int32)
        cdef const int64_t[::1] tags_code = entries["tags_code"].astype(np.int64)
        cdef const int32_t[::1] sys_flag = np.zeros(count, np.int32)
        cdef rmq_cq_rows rows
        rows.phy_offset = &phy_offset[0]
        rows.msg_size = &msg_size[0]
        rows.queue_id = &ids[0]
        rows.queue_offset = &offsets[0]
        rows.sys_flag = &sys_flag[0]
        rows.tags_code = &tags_code[0]
        rows.topic_id = &topic_ids[0]
        rows.count = count
        return self._compare(&rows, &topic_of[0], <int32_t> len(known))

    cdef object _compare(self, const rmq_cq_rows *rows, const int32_t *topic_of, int32_t topic_count):
        flags = np.empty(rows.count, np.uint8)
        numbers = np.empty(rows.count, np.int32)
        if rows.count == 0:
            return 0, flags, numbers
        cdef uint8_t[::1] flag = flags
        cdef int32_t[::1] number = numbers
        cdef int64_t found
        with nogil:
            found = rmq_cq_compare_rows(self.compare, rows, topic_of, topic_count, &flag[0], &number[0])
        raise_for(found, rmq_cq_put_failed_path(self.table.table))
        return found, flags, numbers

    def restart(self):
        """Say that the next records lie elsewhere in the log; the numbers of the queues stay."""
        rmq_cq_compare_restart(self.compare)

    def __len__(self):
        return rmq_cq_compare_count(self.compare)

    def seen(self, int32_t number):
        """Return the state of a queue by its number, which is below ``len()``."""
        if not 0 <= number < rmq_cq_compare_count(self.compare):
            raise IndexError(number)
        cdef rmq_cq_seen s = rmq_cq_compare_seen(self.compare, number)
        return SeenQueue(
            self.table.names[s.topic], s.queue_id, s.rows, s.first, s.last, s.first_phy, s.last_phy, s.last_end, s.low, s.low_phy,
            s.backs, s.since, s.prev_first, s.prev_last, s.prev_first_phy, s.prev_last_phy, s.prev_last_end,
            s.prev_low, s.prev_low_phy,
        )


def write_entries(QueueTable table not None, str topic not None, int32_t queue_id, int64_t queue_offset, entries):
    """Write entries at their places from a queue offset on. Files that are missing are made, of zeros but for the entries.

    The table is not told: neither the queue's end nor its first file change.

    Raises
    ------
    ValueError
        The topic cannot name a directory.
    OSError
        A file cannot be made or written. What was written before stays; the call can be repeated.
    """
    packed = np.ascontiguousarray(entries, _CQ_DTYPE)
    cdef const uint8_t[::1] data = packed.view(np.uint8)
    cdef int64_t count = data.shape[0] // UNIT
    cdef rmq_cq *queue = table.added(topic, queue_id)
    cdef int code = 0
    if count:
        with nogil:
            code = rmq_cq_write_at(table.table, queue, queue_offset, &data[0], count)
        raise_for(code, rmq_cq_put_failed_path(table.table))
