"""Kernels over the values of an Arrow binary or text column, for records and bodies that lie in a table.

A column is two buffers: offsets and data. Neither is trusted: each value's offsets are loaded once and compared with the data's
length before a byte is read, so buffers that are wrong, or change meanwhile, give an error or other values, never a wild read.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy

from rmqcore._native.scan.batch cimport Batch, ColumnList, new_batch
from rmqcore._native.kernels cimport *

choose_crc32()

MAX_PROPERTIES_LEN = RMQ_MAX_PROPERTIES_LEN

# What check_records answers beside a record's size and its RMQ_E_*: a sound record with bytes behind it.
cdef enum:
    NOT_ALONE = 1
TRAILING = NOT_ALONE

cdef uint8_t _nothing = 0  # what an empty value points to


ctypedef int32_t (*number_of)(const uint8_t *value, size_t length) noexcept nogil


cdef int32_t body_crc_of(const uint8_t *value, size_t length) noexcept nogil:
    return <int32_t> (rmq_crc32(value, length) & RMQ_CRC_MASK)


cdef int32_t java_hash_of(const uint8_t *value, size_t length) noexcept nogil:
    return <int32_t> rmq_jhash(0, value, length)


@cython.final
cdef class Values:
    """The values `first` to ``first + count`` of a column with 32-bit offsets.

    Parameters
    ----------
    offsets, data : buffer
        Arrow's two buffers; `data` may be None when all values are empty.
    first, count : int
        Rows; ``first + count + 1`` offsets must be there.

    Each method raises ValueError at the first value whose offsets fall or leave `data`; a null is a value like any other here.
    """

    cdef Py_buffer offsets, data
    cdef bint has_offsets, has_data
    cdef const uint8_t *at
    cdef size_t size
    cdef Py_ssize_t first, count

    def __cinit__(self, offsets, data, Py_ssize_t first, Py_ssize_t count):
        PyObject_GetBuffer(offsets, &self.offsets, PyBUF_SIMPLE)
        self.has_offsets = True
        if first < 0 or count < 0 or first > self.offsets.len // 4 - 1 or count > self.offsets.len // 4 - 1 - first:
            raise ValueError(f"{count} values from {first} on need more than the {self.offsets.len // 4} offsets given")
        if data is not None:
            PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
            self.has_data = True
            self.size = self.data.len
        self.at = <const uint8_t *> self.data.buf if self.size else &_nothing
        self.first = first
        self.count = count

    def __dealloc__(self):
        if self.has_offsets:
            PyBuffer_Release(&self.offsets)
        if self.has_data:
            PyBuffer_Release(&self.data)

    def __len__(self):
        return self.count

    cdef int value(self, Py_ssize_t i, size_t *begin, size_t *length) noexcept nogil:
        """Where value i lies in the data: 0, or -1 when its offsets are impossible."""
        cdef int32_t ends[2]
        memcpy(ends, <const char *> self.offsets.buf + 4 * (self.first + i), 8)
        if ends[0] < 0 or ends[1] < ends[0] or <size_t> ends[1] > self.size:
            return -1
        begin[0] = <size_t> ends[0]
        length[0] = <size_t> (ends[1] - ends[0])
        return 0

    cdef object misplaced(self, Py_ssize_t i):
        cdef int32_t ends[2]
        memcpy(ends, <const char *> self.offsets.buf + 4 * (self.first + i), 8)
        return ValueError(
            f"value {i}: offsets {ends[0]} and {ends[1]} do not follow each other in {self.size} bytes of data"
        )

    cdef int32_t *numbers(self, Py_buffer *out) except? NULL:
        if out.len < 4 * self.count:
            raise ValueError(f"{self.count} numbers of 4 bytes do not fit {out.len} bytes")
        if self.count and <size_t> out.buf % 4:
            raise ValueError("out: memory of 32-bit numbers must be aligned")
        return <int32_t *> out.buf

    def body_crcs(self, out):
        """Write each value's CRC-32 & 0x7FFFFFFF to `out`, memory for `count` int32 in the machine's order."""
        self.write_each(out, body_crc_of)

    def java_hashes(self, out):
        """Write Java's String.hashCode of each value, UTF-8, to `out`, memory for `count` int32 in the machine's order."""
        self.write_each(out, java_hash_of)

    cdef int write_each(self, object out, number_of of) except -1:
        cdef Py_buffer exported
        cdef int32_t *numbers
        cdef Py_ssize_t i
        cdef size_t begin, length
        PyObject_GetBuffer(out, &exported, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            numbers = self.numbers(&exported)
            with nogil:
                for i in range(self.count):
                    if self.value(i, &begin, &length):
                        break
                    numbers[i] = of(self.at + begin, length) if length else 0
                else:
                    i = self.count
            if i < self.count:
                raise self.misplaced(i)
        finally:
            PyBuffer_Release(&exported)
        return 0

    def check_records(self, out, *, bint check_crc):
        """Write to `out` (memory as for `body_crcs`) the size of each value that is exactly one record, else a code.

        The code is TRAILING for a record with bytes behind it, else the code (0 and below) of `rmqcore._native.scan.places`.

        Returns
        -------
        int
            How many values are exactly one record, with `check_crc` only records whose body has its CRC.
        """
        cdef Py_buffer exported
        cdef int32_t *numbers
        cdef Py_ssize_t i
        cdef Py_ssize_t sound = 0
        cdef size_t begin, length
        cdef rmq_record rec
        cdef int32_t code
        PyObject_GetBuffer(out, &exported, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            numbers = self.numbers(&exported)
            with nogil:
                for i in range(self.count):
                    if self.value(i, &begin, &length):
                        break
                    code = rmq_record_parse(self.at + begin, length, &rec) if length else RMQ_E_SHORT
                    if code > 0 and <size_t> code != length:
                        code = NOT_ALONE
                    elif code > 0 and check_crc and rmq_record_check_body_crc(&rec):
                        code = RMQ_E_BODYCRC
                    sound += code > NOT_ALONE
                    numbers[i] = code
                else:
                    i = self.count
            if i < self.count:
                raise self.misplaced(i)
            return sound
        finally:
            PyBuffer_Release(&exported)

    def properties(self):
        """A Batch of one column, ``properties``: the map of each value, a bare properties string.

        Raises
        ------
        ValueError
            A value is longer than a record's properties can be (MAX_PROPERTIES_LEN).
        """
        cdef ColumnList columns = ColumnList(["properties"])
        cdef rmq_pool *pool = rmq_pool_new(columns.mask, self.count + 1)
        cdef rmq_batch *batch = rmq_batch_take(pool) if pool != NULL else NULL
        cdef Batch taken
        cdef Py_ssize_t i
        cdef size_t begin = 0
        cdef size_t length = 0
        cdef int refused = 0
        if pool != NULL:
            rmq_pool_close(pool)
        if batch == NULL:
            raise MemoryError
        # From here on `taken` owns the batch.
        taken = new_batch(batch, columns)
        with nogil:
            for i in range(self.count):
                if self.value(i, &begin, &length):
                    refused = 1
                elif length > RMQ_MAX_PROPERTIES_LEN:
                    refused = 2
                elif rmq_batch_add_properties(batch, self.at + begin, length, begin, self.size - begin - length):
                    refused = 3
                if refused:
                    break
        if refused == 1:
            raise self.misplaced(i)
        if refused == 2:
            raise ValueError(f"value {i}: {length} bytes are more than the {RMQ_MAX_PROPERTIES_LEN} of a record's properties")
        if refused:
            raise MemoryError("no memory for a batch")
        return taken
