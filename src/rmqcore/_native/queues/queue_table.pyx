"""The table of all ConsumeQueues that are written: it makes the queues, puts their entries and flushes them.

The table routes the rows of a batch to their queues in C, without an object per row. What has to hold between calls (one writer,
no use after close) is the business of `rmqcore.engine.queues.consume_queues`.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from rmqcore._native.scan.batch cimport Batch
from rmqcore._native.queues.consume_queue cimport ConsumeQueue, new_consume_queue
from rmqcore._native.kernels cimport *
from rmqcore._native.scan.scan cimport ColumnScan

import os

import numpy as np

from rmqcore._native.format.cq_arrays import CQ_DTYPE as _CQ_DTYPE

cdef int32_t UNIT = RMQ_CQ_STORE_UNIT_SIZE
COLUMNS = ("phy_offset", "msg_size", "queue_id", "queue_offset", "sys_flag", "tags_code", "topic_id")
MAX_NAME_BYTES = 255


def is_directory_name(str topic not None):
    """Return True if a topic can be the name of a subdirectory: no other text may become part of a path."""
    if topic in ("", ".", "..") or "/" in topic or os.sep in topic or "\0" in topic:
        return False
    try:
        return len(os.fsencode(topic)) <= MAX_NAME_BYTES
    except UnicodeEncodeError:
        return False


def most_queue_offset(int64_t file_size):
    """Return the greatest queue offset at which a queue can start, with files of this size."""
    return rmq_cq_most_queue_offset(file_size)


def log_room(str topic not None, int64_t begin, int64_t end, int64_t to):
    """How many messages of a topic's queue the log has room for behind the queue's last one.

    Parameters
    ----------
    topic : str
    begin, end : int
        CommitLog bytes of the last message that is known.
    to : int
        CommitLog offset before which the others lie.

    Returns
    -------
    int
        Each takes a record of its own; in a light queue a name and a number in some record, which may be that of the last one.
    """
    encoded = os.fsencode(topic)
    return rmq_cq_room(encoded, begin, end, to)


cdef int raise_for(int64_t code, const char *path) except -1:
    if code < 0:
        raise OSError(-code, os.strerror(-code), os.fsdecode(path) if path[0] else None)
    return 0


@cython.final
cdef class QueueTable:
    """Knows where each ConsumeQueue begins and ends, and writes new entries into the files.

    Parameters
    ----------
    root : str
        The directory of all queues.
    file_size : int
        Bytes of a queue file, whole entries.
    open_files : int
        Most files that stay open.

    Notes
    -----
    Thread safety: one writer at a time (`put_batch`, `put_entry`, `find_or_add`, `set_...`), and one flusher; everything else may
    run beside them.
    """

    def __cinit__(self, str root not None, int64_t file_size, int32_t open_files):
        if file_size < UNIT or file_size % UNIT or file_size > RMQ_CQ_MAX_END >> 8:
            raise ValueError(f"file_size {file_size} is not a multiple of {UNIT}")
        if open_files < 1:
            raise ValueError(f"open_files is {open_files}, expected at least 1")
        self.root = root
        self.file_size = file_size
        self.topic_numbers = {}
        self.names = []
        self.emptied = set()
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
        """Rows without an entry: a topic that cannot name a directory, a queue id below 0, or an impossible queue offset."""
        return rmq_cq_counted(self.table).refused

    @property
    def repeats(self):
        """Rows that were in their queue already."""
        return rmq_cq_counted(self.table).repeats

    @property
    def gaps(self):
        """Places that were filled because the log does not have their messages."""
        return rmq_cq_counted(self.table).gaps

    @property
    def open_files(self):
        """Files that are open now."""
        return rmq_cq_open_count(self.table)

    @property
    def max_phy_offset(self):
        """CommitLog offset behind the last message that has an entry in any queue; -1 without entries."""
        cdef int64_t most = -1
        cdef int32_t number
        for number in range(rmq_cq_count(self.table)):
            most = max(most, rmq_cq_max_phy(rmq_cq_at(self.table, number)))
        return most

    @property
    def file_counts(self):
        """How many queues have files, and how many files they have."""
        cdef int32_t number
        cdef int64_t queues = 0, files = 0
        cdef rmq_cq *queue
        for number in range(rmq_cq_count(self.table)):
            queue = rmq_cq_at(self.table, number)
            if rmq_cq_first_file(queue) >= 0:
                queues += 1
                files += (rmq_cq_last_file(queue) - rmq_cq_first_file(queue)) // self.file_size + 1
        return queues, files

    def has(self, str topic not None, int32_t queue_id):
        """Return True if the table has the queue."""
        found = self.topic_numbers.get(topic)
        return found is not None and found >= 0 and rmq_cq_find(self.table, found, queue_id) != NULL

    def leave_empty(self, ConsumeQueue queue not None):
        """Say that a queue has no files any more; it is not among `places` until it gets an entry."""
        self.emptied.add((queue.topic, queue.queue_id))
        queue.set_files(-1, -1, 0, -1)
        queue.set_min(0)

    def places(self):
        """Topics and queue ids, in the order in which they were added."""
        cdef rmq_cq *queue
        cdef int32_t number
        found = []
        for number in range(rmq_cq_count(self.table)):
            queue = rmq_cq_at(self.table, number)
            place = self.names[queue.topic], queue.queue_id
            if place not in self.emptied or rmq_cq_first_file(queue) >= 0:
                found.append(place)
        return found

    cdef int32_t topic_number(self, str topic) except -2:
        """The topic's number, -1 if it is not a directory name."""
        found = self.topic_numbers.get(topic)
        if found is not None:
            return found
        cdef int32_t number = -1
        cdef const char *name
        if is_directory_name(topic):
            encoded = os.fsencode(topic)
            name = encoded
            self.names.append(topic)  # before a queue can name it
            with nogil:
                number = rmq_cq_topic_add(self.table, name)
            if number < 0:
                self.names.pop()
                raise MemoryError
        self.topic_numbers[topic] = number
        return number

    def know_topics(self, ColumnScan scan not None):
        """Number all topics that the scan has seen, as `put_batch` does."""
        self.translate(scan)

    cdef int translate(self, object scan) except -1:
        """Extends `topic_of` to all topics that the scan has seen."""
        cdef int32_t *grown
        cdef int32_t room
        if scan is not self.scan or scan.numbering != self.numbering:
            self.scan = scan
            self.numbering = scan.numbering
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

    def leave_out(self, topics):
        """Refuse the rows of these topics from now on; the table must not have a queue of theirs."""
        for topic in topics:
            if self.topic_numbers.setdefault(topic, -1) >= 0:
                raise ValueError(f"topic {topic!r} has queues")

    def put_batch(self, ColumnScan scan not None, Batch batch not None, int64_t from_phy_offset, int64_t covered_from=-1):
        """Give the rows of a batch their entries and write them.

        Parameters
        ----------
        scan : ColumnScan
            The scan that made the batch: it numbers the topics.
        batch : Batch
        from_phy_offset : int
            Rows below are passed over.
        covered_from : int
            From this CommitLog offset on the table was given the log in order, up to these rows; -1: all that the log has.

        Returns
        -------
        int or None
            The CommitLog offset from which on the table needs the log, since queues lack messages there (-1: from its first
            byte); then no queue got an entry of a row behind its gap. None: every row has its entry, or none to get.

        Raises
        ------
        ValueError
            The batch lacks one of `COLUMNS`.
        OSError
            A file cannot be made or written. Only the entries that were written before count.
        """
        cdef const rmq_batch *columns = rmq_shared_batch_of(batch.shared)
        cdef rmq_cq_rows rows
        cdef int64_t back_to = -1
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
            code = rmq_cq_put(self.table, &rows, from_phy_offset, covered_from, self.topic_of, self.topics_known, &back_to)
        raise_for(code, rmq_cq_put_failed_path(self.table))
        return back_to if code == RMQ_CQ_GO_BACK else None

    def put_entry(self, str topic not None, int32_t queue_id, int64_t phy_offset, int32_t msg_size, int64_t tags_code,
                  int64_t queue_offset, int64_t covered_from=-1):
        """Put an entry for one message into a queue of any topic; return as `put_batch`."""
        cdef int32_t number = self.topic_number(topic)
        cdef int32_t zero = 0
        cdef int64_t back_to = -1
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
            code = rmq_cq_put(self.table, &rows, 0, covered_from, &number, 1, &back_to)
        raise_for(code, rmq_cq_put_failed_path(self.table))
        return back_to if code == RMQ_CQ_GO_BACK else None

    def put_run(self, str topic not None, int32_t queue_id, queue_offsets, entries):
        """Put packed entries of one queue, in the order of their records, of a log that is given as a whole.

        The queue begins at its first entry, and each entry goes to its own queue offset; fillers take the places of messages
        that the log does not have. Entries before the queue's end, or of a message that is not behind the queue's last one, are
        passed over, and so are entries at a queue offset that cannot be.

        Parameters
        ----------
        topic : str
            A name for a directory.
        queue_id : int
        queue_offsets : array of int64
            The queue offsets that the records say.
        entries : structured array
            As many entries, of `rmqcore._native.format.cq_arrays.CQ_DTYPE`.

        Returns
        -------
        int
            How many entries were put.

        Raises
        ------
        ValueError
            The topic cannot name a directory, or the arrays are not of one length.
        OSError
            A file cannot be made or written. Only the entries that were written before count.
        """
        cdef const int64_t[::1] offsets = queue_offsets
        packed = np.ascontiguousarray(entries, _CQ_DTYPE)
        cdef const uint8_t[::1] data = packed.view(np.uint8)
        cdef int64_t count = offsets.shape[0], done = 0
        if data.shape[0] != count * UNIT:
            raise ValueError(f"{count} queue offsets for {len(packed)} entries")
        cdef rmq_cq *queue = self.added(topic, queue_id)
        if count:
            with nogil:
                done = rmq_cq_put_run(self.table, queue, &offsets[0], &data[0], count)
            raise_for(done, rmq_cq_put_failed_path(self.table))
        return done

    cdef rmq_cq *added(self, str topic, int32_t queue_id) except NULL:
        """The queue; it is added, empty, if it is new."""
        cdef int32_t number = self.topic_number(topic)
        if number < 0:
            raise ValueError(f"topic {topic!r}: no name for a directory")
        cdef rmq_cq *queue
        with nogil:
            queue = rmq_cq_find_or_add(self.table, number, queue_id)
        if queue == NULL:
            raise MemoryError
        return queue

    def find(self, str topic not None, int32_t queue_id):
        """The queue; None when the table does not have it."""
        number = self.topic_numbers.get(topic)
        if number is None or number < 0:
            return None
        cdef rmq_cq *queue = rmq_cq_find(self.table, number, queue_id)
        return None if queue == NULL else self._queue(topic, queue)

    def find_or_add(self, str topic not None, int32_t queue_id):
        """The queue; it is added, empty, if it is new.

        Raises
        ------
        ValueError
            The topic cannot name a directory, or the queue id is below 0.
        """
        if queue_id < 0:
            raise ValueError(f"queue id {queue_id}: no name for a directory")
        return self._queue(topic, self.added(topic, queue_id))

    cdef ConsumeQueue _queue(self, str topic, rmq_cq *queue):
        cdef ConsumeQueue made = new_consume_queue()
        made.owner = self
        made.table = self.table
        made.queue = queue
        made.root = self.root
        made.file_size = self.file_size
        made.topic = topic
        made.queue_id = queue.queue_id
        return made

    def flush(self, int32_t least_pages=0):
        """Sync the waiting entries of each queue that has at least `least_pages` pages of them (0: of every queue).

        Returns
        -------
        bool
            Whether the whole file system was synced, because of the many queues that waited.

        Raises
        ------
        OSError
            A queue cannot be synced. The next call tries it and all queues behind it again.
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
        """Take all entries for synced, as after a clean exit."""
        cdef int32_t number
        for number in range(rmq_cq_count(self.table)):
            rmq_cq_assume_flushed(rmq_cq_at(self.table, number))

    def close_files(self):
        """Close every file that no thread is reading now; the next use opens it again."""
        cdef int32_t number
        for number in range(rmq_cq_count(self.table)):
            rmq_cq_close(self.table, rmq_cq_at(self.table, number))
