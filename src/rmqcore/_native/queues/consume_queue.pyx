"""One ConsumeQueue of a table, for reading, and what recovery and cleaning tell it about its files."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.errno cimport EAGAIN, ENOENT
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from rmqcore._native.kernels cimport *
from rmqcore._native.format.sealed cimport seal

import os

import numpy as np

from rmqcore._native.format.cq_arrays import CQ_DTYPE as _CQ_DTYPE, unpack_cq_entries

cdef enum:
    BLOCK_ENTRIES = 256  # 5 KiB a queue that is read in order

cdef int64_t UNIT = RMQ_CQ_STORE_UNIT_SIZE


@cython.final
cdef class ConsumeQueue:
    """One queue of a table, for reading.

    Attributes
    ----------
    topic : str
    queue_id : int

    Notes
    -----
    Thread safety: methods that read may run on any thread, also beside the writer.

    Source: RocketMQ 5.5.0 ConsumeQueue.
    """

    @property
    def min_offset(self):
        """Queue offset of the first entry whose message the CommitLog still holds, as it was last determined."""
        return rmq_cq_min(self.queue) // UNIT

    @property
    def max_offset(self):
        """Queue offset behind the last entry."""
        return rmq_cq_end(self.queue) // UNIT

    @property
    def max_phy_offset(self):
        """CommitLog offset behind the last message that has an entry; -1 without entries."""
        return rmq_cq_max_phy(self.queue)

    @property
    def entries_per_file(self):
        """Entries in a whole file."""
        return self.file_size // UNIT

    @property
    def first_file(self):
        """Byte in the queue at which its first file begins, -1 without files."""
        return rmq_cq_first_file(self.queue)

    @property
    def last_file(self):
        """Byte in the queue at which its last file begins, -1 without files."""
        return rmq_cq_last_file(self.queue)

    cdef int64_t read(self, int64_t start, int64_t count, uint8_t *out) except -2:
        cdef rmq_cq_table *table = self.table
        cdef int64_t found = rmq_cq_read(table, self.queue, start, count, out, 1)
        if found == -EAGAIN:
            with nogil:
                found = rmq_cq_read(table, self.queue, start, count, out, 0)
        if found == -ENOENT:
            return -1
        if found < 0:
            raise OSError(-found, os.strerror(-found), f"{self.root}/{self.topic}/{self.queue_id}")
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
            found = rmq_cq_read(self.table, self.queue, start, BLOCK_ENTRIES, self.block, 1)
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

        Fields ``phy_offset``, ``msg_size``, ``tags_code``, big-endian as on disk. The array is shorter than `count` before a
        missing file and at the queue's end.
        """
        parts = []
        cdef bytes part
        cdef int64_t found, wanted
        while count > 0:
            wanted = min(count, self.file_size // UNIT - start % (self.file_size // UNIT),
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
        return unpack_cq_entries(b"".join(parts)) if parts else np.empty(0, _CQ_DTYPE)

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
        """CommitLog offset that an entry holds, also one below the min offset; -1 where no entry can be read."""
        cdef uint8_t found[20]
        if self.read(queue_offset, 1, found) <= 0:
            return -1
        return rmq_cq_load(found).phy_offset

    def spans(self):
        """Queue offset of each file's first entry, oldest first, and how many entries the file has."""
        cdef int64_t first = rmq_cq_first_file(self.queue), last = rmq_cq_last_file(self.queue)
        cdef int64_t end = rmq_cq_end(self.queue), size = self.file_size
        if first < 0:
            return []
        starts = [first] if first == last else [start for start in self.file_starts() if first <= start <= last]
        return [(start // UNIT, min(size, end - start) // UNIT) for start in starts]

    def file_starts(self):
        """Byte in the queue at which each file in its directory begins, oldest first; a missing file is a gap."""
        try:
            names = os.listdir(f"{self.root}/{self.topic}/{self.queue_id}")
        except FileNotFoundError:
            return []
        return sorted([int(name) for name in names if len(name) == 20 and name.isascii() and name.isdigit()])

    def set_min(self, int64_t queue_offset):
        """Note the min offset; only the writer calls this."""
        with nogil:
            rmq_cq_set_min(self.table, self.queue, queue_offset * UNIT)

    def set_files(self, int64_t first_file, int64_t last_file, int64_t end, int64_t max_phy_offset):
        """Say what the files hold, in bytes of the queue (-1 and 0 without files); only the writer calls this."""
        if not (-1 == first_file == last_file and end >= 0) and not (
            0 <= first_file <= last_file <= end <= last_file + self.file_size <= RMQ_CQ_MAX_END
            and first_file % self.file_size == 0 and last_file % self.file_size == 0 and end % UNIT == 0
        ):
            raise ValueError(f"files from {first_file} to {last_file} do not fit an end of {end}")
        self.block_count = 0
        with nogil:
            rmq_cq_set(self.table, self.queue, first_file, last_file, end, max_phy_offset)

    def set_first_file(self, int64_t first_file):
        """Say that files before this one are deleted; only the writer calls this."""
        if first_file % self.file_size or not rmq_cq_first_file(self.queue) <= first_file <= rmq_cq_last_file(self.queue):
            raise ValueError(f"{first_file} is not a file of the queue")
        with nogil:
            rmq_cq_set_first_file(self.table, self.queue, first_file)

    def __repr__(self):
        return f"<ConsumeQueue {self.topic!r} {self.queue_id} from {self.min_offset} to {self.max_offset}>"


seal(ConsumeQueue, "ConsumeQueues.find")


cdef ConsumeQueue new_consume_queue():
    return ConsumeQueue.__new__(ConsumeQueue)
