"""ConsumeQueues that are written: the table of all queues, and one queue for reading.

The table routes the rows of a batch to their queues in C, without an object per row. What has to hold between calls (one writer,
no use after close) is the business of `rmqcore.engine.consume_queues`.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, ENOENT
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from .kernels cimport (
    RMQ_COL_MSG_SIZE, RMQ_COL_PHY_OFFSET, RMQ_COL_QUEUE_ID, RMQ_COL_QUEUE_OFFSET, RMQ_COL_SYS_FLAG, RMQ_COL_TAGS_CODE,
    RMQ_COL_TOPIC_ID, rmq_batch, rmq_shared_batch_of,
)
from .scan cimport Batch, ColumnScan

import os

import numpy as np

from rmqcore._native.cq import CQ_DTYPE as _CQ_DTYPE, unpack_cq

cdef extern from "cq.h" nogil:
    enum:
        RMQ_CQ_STORE_UNIT_SIZE
    ctypedef struct rmq_cq_entry:
        int64_t phy_offset
        int32_t msg_size
        int64_t tags_code
    rmq_cq_entry rmq_cq_load(const uint8_t *p) noexcept

cdef extern from "cq_table.h" nogil:
    ctypedef struct rmq_cq_rows:
        const int64_t *phy_offset
        const int32_t *msg_size
        const int32_t *queue_id
        const int64_t *queue_offset
        const int32_t *sys_flag
        const int64_t *tags_code
        const int32_t *topic_id
        int64_t count
    ctypedef struct rmq_cq_counts:
        int64_t refused, repeats, gaps
    rmq_cq_table *rmq_cq_table_new(const char *root, int64_t file_size, int32_t open_files) noexcept
    void rmq_cq_table_free(rmq_cq_table *table) noexcept
    int32_t rmq_cq_topic_add(rmq_cq_table *table, const char *name) noexcept
    rmq_cq *rmq_cq_find(rmq_cq_table *table, int32_t topic, int32_t queue_id) noexcept
    rmq_cq *rmq_cq_find_or_add(rmq_cq_table *table, int32_t topic, int32_t queue_id) noexcept
    int32_t rmq_cq_count(const rmq_cq_table *table) noexcept
    rmq_cq *rmq_cq_at(const rmq_cq_table *table, int32_t number) noexcept
    int rmq_cq_put(rmq_cq_table *table, const rmq_cq_rows *rows, int64_t from_phy_offset, const int32_t *topic_of,
                   int32_t topic_count) noexcept
    rmq_cq_counts rmq_cq_counted(const rmq_cq_table *table) noexcept
    int rmq_cq_flush_at_once(rmq_cq_table *table) noexcept
    void rmq_cq_assume_flushed(rmq_cq *queue) noexcept
    int rmq_cq_flush(rmq_cq_table *table, rmq_cq *queue, int32_t least_pages) noexcept
    void rmq_cq_set(rmq_cq_table *table, rmq_cq *queue, int64_t first_file, int64_t last_file, int64_t end,
                    int64_t max_phy) noexcept
    void rmq_cq_set_min(rmq_cq *queue, int64_t min) noexcept
    void rmq_cq_set_first_file(rmq_cq_table *table, rmq_cq *queue, int64_t first_file) noexcept
    void rmq_cq_close(rmq_cq_table *table, rmq_cq *queue) noexcept
    const char *rmq_cq_put_failed_path(const rmq_cq_table *table) noexcept
    const char *rmq_cq_flush_failed_path(const rmq_cq_table *table) noexcept
    int32_t rmq_cq_open_count(rmq_cq_table *table) noexcept
    int64_t rmq_cq_first_file(const rmq_cq *queue) noexcept
    int64_t rmq_cq_last_file(const rmq_cq *queue) noexcept

cdef enum:
    BLOCK_ENTRIES = 256  # 5 KiB a queue that is read in order

cdef int32_t UNIT = RMQ_CQ_STORE_UNIT_SIZE
COLUMNS = ("phy_offset", "msg_size", "queue_id", "queue_offset", "sys_flag", "tags_code", "topic_id")
MAX_NAME_BYTES = 255
cdef int64_t MAX_END = INT64_MAX >> 1


def is_directory_name(str topic not None):
    """Whether a topic can be the name of a directory below another: anything else must not get near a path."""
    if topic in ("", ".", "..") or "/" in topic or os.sep in topic or "\0" in topic:
        return False
    try:
        return len(os.fsencode(topic)) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


cdef int raise_for(int64_t code, const char *path) except -1:
    if code < 0:
        raise OSError(-code, os.strerror(-code), os.fsdecode(path) if path[0] else None)
    return 0


@cython.final
cdef class QueueTable:
    """Where each ConsumeQueue begins and ends, and the way of new entries into the files.

    Parameters
    ----------
    root : str
        The directory of all queues.
    file_size : int
        Bytes of a queue file, whole entries.
    open_files : int
        At most so many files stay open.

    Notes
    -----
    Thread safety: one writer at a time (`put_batch`, `put_entry`, `find_or_add`, `set_...`), and one flusher; everything else may
    run beside them.
    """

    def __cinit__(self, str root not None, int64_t file_size, int32_t open_files):
        if file_size < UNIT or file_size % UNIT or file_size > MAX_END >> 8:
            raise ValueError(f"file_size {file_size} is no multiple of {UNIT}")
        if open_files < 1:
            raise ValueError(f"open_files is {open_files}, expected at least 1")
        self.root = root
        self.file_size = file_size
        self.topic_numbers = {}
        self.names = []
        encoded = os.fsencode(root)
        cdef const char *path = encoded
        self.table = rmq_cq_table_new(path, file_size, open_files)
        if self.table == NULL:
            raise MemoryError

    def __dealloc__(self):
        rmq_cq_table_free(self.table)
        free(self.topic_of)

    def __len__(self):
        return rmq_cq_count(self.table)

    @property
    def refused(self):
        """Rows without a place: a topic that is no directory name, a queue id or a first offset that is none."""
        return rmq_cq_counted(self.table).refused

    @property
    def repeats(self):
        """Rows that were in their queue already."""
        return rmq_cq_counted(self.table).repeats

    @property
    def gaps(self):
        """Entries that lie before the place their record names, because some before them are missing."""
        return rmq_cq_counted(self.table).gaps

    @property
    def open_files(self):
        """Files that are open now."""
        return rmq_cq_open_count(self.table)

    @property
    def max_phy_offset(self):
        """CommitLog offset behind the last message that has an entry in any queue, -1 without."""
        cdef int64_t most = -1
        cdef int32_t number
        for number in range(rmq_cq_count(self.table)):
            most = max(most, rmq_cq_max_phy(rmq_cq_at(self.table, number)))
        return most

    def places(self):
        """Topics and queue ids, as they were added."""
        cdef rmq_cq *queue
        cdef int32_t number
        found = []
        for number in range(rmq_cq_count(self.table)):
            queue = rmq_cq_at(self.table, number)
            found.append((self.names[queue.topic], queue.queue_id))
        return found

    cdef int32_t topic_number(self, str topic) except -2:
        """The topic's number, -1 when it is no directory name."""
        found = self.topic_numbers.get(topic)
        if found is not None:
            return found
        cdef int32_t number = -1
        cdef const char *name
        if is_directory_name(topic):
            encoded = os.fsencode(topic)
            name = encoded
            self.names.append(topic)  # before a queue can name it
            number = rmq_cq_topic_add(self.table, name)
            if number < 0:
                self.names.pop()
                raise MemoryError
        self.topic_numbers[topic] = number
        return number

    cdef int translate(self, object scan) except -1:
        """Brings `topic_of` up to what the scan has seen."""
        cdef int32_t *grown
        cdef int32_t room
        if scan is not self.scan:
            self.scan = scan
            self.topics_known = 0
        for name in scan.topics(self.topics_known):
            if self.topics_known == self.topics_room:
                room = max(64, 2 * self.topics_room)
                grown = <int32_t *> realloc(self.topic_of, room * sizeof(int32_t))
                if grown == NULL:
                    raise MemoryError
                self.topic_of = grown
                self.topics_room = room
            self.topic_of[self.topics_known] = self.topic_number(name)
            self.topics_known += 1
        return 0

    def put_batch(self, ColumnScan scan not None, Batch batch not None, int64_t from_phy_offset):
        """Give the rows of a batch their entries and write them.

        Raises
        ------
        ValueError
            The batch lacks one of `COLUMNS`.
        OSError
            A file cannot be made or written. What was written before counts, nothing else.
        """
        cdef const rmq_batch *columns = rmq_shared_batch_of(batch.shared)
        cdef rmq_cq_rows rows
        cdef int code
        for name in COLUMNS:
            if name not in batch.columns.names:
                raise ValueError(f"the batch has no column {name!r}")
        self.translate(scan)
        rows.phy_offset = columns.columns[<int> RMQ_COL_PHY_OFFSET].values.i64
        rows.msg_size = columns.columns[<int> RMQ_COL_MSG_SIZE].values.i32
        rows.queue_id = columns.columns[<int> RMQ_COL_QUEUE_ID].values.i32
        rows.queue_offset = columns.columns[<int> RMQ_COL_QUEUE_OFFSET].values.i64
        rows.sys_flag = columns.columns[<int> RMQ_COL_SYS_FLAG].values.i32
        rows.tags_code = columns.columns[<int> RMQ_COL_TAGS_CODE].values.i64
        rows.topic_id = columns.columns[<int> RMQ_COL_TOPIC_ID].values.i32
        rows.count = columns.rows
        with nogil:
            code = rmq_cq_put(self.table, &rows, from_phy_offset, self.topic_of, self.topics_known)
        raise_for(code, rmq_cq_put_failed_path(self.table))

    def put_entry(self, str topic not None, int32_t queue_id, int64_t phy_offset, int32_t msg_size, int64_t tags_code,
                  int64_t queue_offset):
        """Give one message an entry in a queue of any topic."""
        cdef int32_t number = self.topic_number(topic)
        cdef int32_t zero = 0
        cdef rmq_cq_rows rows
        cdef int code
        rows.phy_offset = &phy_offset
        rows.msg_size = &msg_size
        rows.queue_id = &queue_id
        rows.queue_offset = &queue_offset
        rows.sys_flag = &zero
        rows.tags_code = &tags_code
        rows.topic_id = &zero
        rows.count = 1
        with nogil:
            code = rmq_cq_put(self.table, &rows, 0, &number, 1)
        raise_for(code, rmq_cq_put_failed_path(self.table))

    def find(self, str topic not None, int32_t queue_id):
        """The queue, None when there is none."""
        number = self.topic_numbers.get(topic)
        if number is None or number < 0:
            return None
        cdef rmq_cq *queue = rmq_cq_find(self.table, number, queue_id)
        return None if queue == NULL else self._queue(topic, queue)

    def find_or_add(self, str topic not None, int32_t queue_id):
        """The queue, an empty one if there was none.

        Raises
        ------
        ValueError
            No topic for a directory, or a queue id below 0.
        """
        cdef int32_t number = self.topic_number(topic)
        if number < 0 or queue_id < 0:
            raise ValueError(f"topic {topic!r}, queue id {queue_id}: no name for a directory")
        cdef rmq_cq *queue = rmq_cq_find_or_add(self.table, number, queue_id)
        if queue == NULL:
            raise MemoryError
        return self._queue(topic, queue)

    cdef ConsumeQueue _queue(self, str topic, rmq_cq *queue):
        cdef ConsumeQueue made = ConsumeQueue.__new__(ConsumeQueue)
        made.table = self
        made.queue = queue
        made.topic = topic
        made.queue_id = queue.queue_id
        return made

    def flush(self, int32_t least_pages=0):
        """Bring to disk what waits in each queue: if it is at least so many pages of its file, or (0) anything.

        Returns
        -------
        bool
            Whether the whole file system was synced, because of the many queues that waited.

        Raises
        ------
        OSError
            At the first queue that cannot be synced. It and all behind it are tried again by the next call.
        """
        cdef int32_t number
        cdef int code = 0
        with nogil:
            if least_pages == 0:
                code = rmq_cq_flush_at_once(self.table)
        if code > 0:
            return True
        raise_for(code, rmq_cq_flush_failed_path(self.table))
        with nogil:
            for number in range(rmq_cq_count(self.table)):
                code = rmq_cq_flush(self.table, rmq_cq_at(self.table, number), least_pages)
                if code < 0:
                    break
        raise_for(code, rmq_cq_flush_failed_path(self.table))
        return False

    def assume_flushed(self):
        """Take all that is there for synced, as after a clean exit."""
        cdef int32_t number
        for number in range(rmq_cq_count(self.table)):
            rmq_cq_assume_flushed(rmq_cq_at(self.table, number))

    def close_files(self):
        """Close every file that nobody is just reading; the next use opens it again."""
        cdef int32_t number
        for number in range(rmq_cq_count(self.table)):
            rmq_cq_close(self.table, rmq_cq_at(self.table, number))


@cython.final
cdef class ConsumeQueue:
    """One queue of a table, for reading.

    Attributes
    ----------
    topic : str
    queue_id : int

    Notes
    -----
    Thread safety: everything that reads may run on any thread, beside the writer too.

    Source: RocketMQ 5.5.0 ConsumeQueue.
    """

    def __init__(self):
        raise TypeError("a ConsumeQueue comes from ConsumeQueues.find")

    @property
    def min_offset(self):
        """Queue offset of the first entry whose message the CommitLog still holds, as far as it was looked for."""
        return rmq_cq_min(self.queue) // UNIT

    @property
    def max_offset(self):
        """Queue offset behind the last entry."""
        return rmq_cq_end(self.queue) // UNIT

    @property
    def max_phy_offset(self):
        """CommitLog offset behind the last message that has an entry, -1 without."""
        return rmq_cq_max_phy(self.queue)

    @property
    def entries_per_file(self):
        """Entries in a whole file."""
        return self.table.file_size // UNIT

    @property
    def first_file(self):
        """Byte in the queue at which its first file begins, -1 without files."""
        return rmq_cq_first_file(self.queue)

    @property
    def last_file(self):
        """Byte in the queue at which its last file begins, -1 without files."""
        return rmq_cq_last_file(self.queue)

    cdef int64_t read(self, int64_t start, int64_t count, uint8_t *out) except -2:
        cdef rmq_cq_table *table = self.table.table
        cdef int64_t found = rmq_cq_read(table, self.queue, start, count, out, 1)
        if found == -EAGAIN:
            with nogil:
                found = rmq_cq_read(table, self.queue, start, count, out, 0)
        if found == -ENOENT:
            return -1
        if found < 0:
            raise OSError(-found, os.strerror(-found), f"{self.table.root}/{self.topic}/{self.queue_id}")
        return found

    cdef int64_t read_in_order(self, int64_t start, int64_t count, uint8_t *out) except -2:
        # The GIL is held from here to the copy, or the block is not touched.
        cdef int64_t found
        if start < self.block_begin or start + count > self.block_begin + self.block_count:
            if start != self.next_in_order or count >= BLOCK_ENTRIES:
                self.next_in_order = start + count
                return self.read(start, count, out)
            if self.block == NULL:
                self.block = <uint8_t *> PyMem_Malloc(BLOCK_ENTRIES * UNIT)
                if self.block == NULL:
                    raise MemoryError
            self.block_count = 0
            found = rmq_cq_read(self.table.table, self.queue, start, BLOCK_ENTRIES, self.block, 1)
            if found < count:
                self.next_in_order = start + count
                return self.read(start, count, out)
            self.block_begin, self.block_count = start, found
        memcpy(out, self.block + (start - self.block_begin) * UNIT, count * UNIT)
        self.next_in_order = start + count
        return count

    def __dealloc__(self):
        PyMem_Free(self.block)

    def entries(self, int64_t start, int64_t count):
        """Entries `start`, `start + 1`, ... as a structured array.

        Fields ``phy_offset``, ``msg_size``, ``tags_code``, big-endian as on disk. It ends before `count` at a missing file and at
        the queue's end.
        """
        parts = []
        cdef bytes part
        cdef int64_t found, wanted
        while count > 0:
            wanted = min(count, self.table.file_size // UNIT - start % (self.table.file_size // UNIT),
                         rmq_cq_end(self.queue) // UNIT - start)
            if start < 0 or wanted <= 0:
                break
            part = PyBytes_FromStringAndSize(NULL, wanted * UNIT)
            found = self.read(start, wanted, <uint8_t *> PyBytes_AS_STRING(part))
            if found <= 0:
                break
            parts.append(part if found == wanted else part[:found * UNIT])
            if found < wanted:
                break
            start += found
            count -= found
        return unpack_cq(b"".join(parts)) if parts else np.empty(0, _CQ_DTYPE)

    def get_entry(self, int64_t queue_offset):
        """``(phy_offset, msg_size, tags_code)`` of one entry, None outside the queue and where its file is missing."""
        cdef uint8_t found[20]
        cdef rmq_cq_entry entry
        if not rmq_cq_min(self.queue) // UNIT <= queue_offset < rmq_cq_end(self.queue) // UNIT:
            return None
        if self.read(queue_offset, 1, found) <= 0:
            return None
        entry = rmq_cq_load(found)
        return entry.phy_offset, entry.msg_size, entry.tags_code

    def phy_offset(self, int64_t queue_offset):
        """CommitLog offset that an entry holds, also one below the min offset; -1 where there is none."""
        cdef uint8_t found[20]
        if self.read(queue_offset, 1, found) <= 0:
            return -1
        return rmq_cq_load(found).phy_offset

    def spans(self):
        """Queue offset of each file's first entry, oldest first, and how many entries the file has."""
        cdef int64_t first = rmq_cq_first_file(self.queue), last = rmq_cq_last_file(self.queue)
        cdef int64_t end = rmq_cq_end(self.queue), size = self.table.file_size
        if first < 0:
            return []
        starts = [first] if first == last else [start for start in self.file_starts() if first <= start <= last]
        return [(start // UNIT, min(size, end - start) // UNIT) for start in starts]

    def file_starts(self):
        """Byte in the queue at which each file in its directory begins, oldest first; a missing one is a gap."""
        try:
            names = os.listdir(f"{self.table.root}/{self.topic}/{self.queue_id}")
        except FileNotFoundError:
            return []
        return sorted([int(name) for name in names if len(name) == 20 and name.isascii() and name.isdigit()])

    def set_min(self, int64_t queue_offset):
        """Note the min offset; the writer's."""
        rmq_cq_set_min(self.queue, queue_offset * UNIT)

    def set_files(self, int64_t first_file, int64_t last_file, int64_t end, int64_t max_phy_offset):
        """Say what the files hold, in bytes of the queue (-1 and 0 without files); the writer's."""
        if not (-1 == first_file == last_file and end >= 0) and not (
            0 <= first_file <= last_file <= end <= last_file + self.table.file_size <= MAX_END
            and first_file % self.table.file_size == 0 and last_file % self.table.file_size == 0 and end % UNIT == 0
        ):
            raise ValueError(f"files from {first_file} to {last_file} do not fit an end of {end}")
        self.block_count = 0
        rmq_cq_set(self.table.table, self.queue, first_file, last_file, end, max_phy_offset)

    def set_first_file(self, int64_t first_file):
        """Say that files before this one are gone; the writer's."""
        if first_file % self.table.file_size or not rmq_cq_first_file(self.queue) <= first_file <= rmq_cq_last_file(self.queue):
            raise ValueError(f"{first_file} is no file of the queue")
        rmq_cq_set_first_file(self.table.table, self.queue, first_file)

    def __repr__(self):
        return f"<ConsumeQueue {self.topic!r} {self.queue_id} from {self.min_offset} to {self.max_offset}>"
