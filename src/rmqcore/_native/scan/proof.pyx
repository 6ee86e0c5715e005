"""Checks with small reads if places of a file prove themselves."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from rmqcore._native.kernels cimport *
from rmqcore._native.scan.places cimport fill_window, new_place

cdef extern from "<unistd.h>" nogil:
    ssize_t pread(int fd, void *buf, size_t count, int64_t pos)

choose_crc32()

cdef enum:
    LEAST_BLOCK = 256
    MOST_STATES = 1 << 22

PAGE = PAGE_BYTES


@cython.final
cdef class Prover:
    """Tells of places of one file what lies there, for a constant price each.

    Small parts of the file are kept in pages, a mebibyte in all. Once `begin_states` and `add` have been given the whole file,
    also a body's CRC costs a constant; the states take a 64th of the file, and never more than 16 MiB for up to 16 GiB.

    Parameters
    ----------
    read_into : callable
        Fills a memoryview from a byte of the file on and answers the bytes read; what it does not fill counts as zeros.
    file_from_offset : int
    descriptor : Descriptor, optional
        The file: while it is open, pages are read from it without Python, which cost 2 us more each. What that does not give
        in full, at a bad sector or at the file's end, is asked of `read_into`.
    end : int, optional
        Bytes of the file that may be read from `descriptor`.

    Attributes
    ----------
    pages_read : int
        How often a page was read.
    has_states : bool
        `begin_states` was called.

    Notes
    -----
    Thread safety: one thread at a time. `buf`, `length`, `pos`, `phy_offset` and `end_offset` of all methods are those of
    `rmqcore._native.scan.places`, but `pos` may lie anywhere in the file.
    """

    def __cinit__(self, read_into, int64_t file_from_offset, Descriptor descriptor=None, int64_t end=0):
        self.read_into = read_into
        self.descriptor = descriptor
        self.small.end = end
        self.small.fd = -1
        self.memory = bytearray(PAGE_COUNT * PAGE_BYTES)
        # The views keep the bytearray from being moved.
        view = memoryview(self.memory)
        self.pages = [view[at : at + PAGE_BYTES] for at in range(0, PAGE_COUNT * PAGE_BYTES, PAGE_BYTES)]
        self.small.bytes = <uint8_t *> PyByteArray_AS_STRING(self.memory)
        self.small.owner = <void *> self
        self.forget()
        self.prover.file_from_offset = file_from_offset
        self.prover.fetch = fetch
        self.prover.context = &self.small

    def __dealloc__(self):
        free(self.states.states)
        free(self.states.extents)

    @property
    def pages_read(self):
        return self.small.read

    # ---- places -------------------------------------------------------------------------------------

    def guesses(self, buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
        """Positions where the damaged record at `pos` may end by its own lengths; counted as `pos` is."""
        cdef Py_buffer exported
        cdef int64_t found[2]
        cdef int count
        cdef int64_t start = phy_offset - self.prover.file_from_offset
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            self.look(&exported, length, pos, phy_offset, end_offset)
            self.busy = True
            with nogil:
                count = rmq_proof_guesses(&self.prover, start + pos, found)
            self.busy = False
            self.raise_error()
            return [found[i] - start for i in range(count)]
        finally:
            PyBuffer_Release(&exported)

    def shape(self, buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
        """The Place at `pos`, checked but for its body's CRC."""
        cdef Py_buffer exported
        cdef rmq_record rec
        cdef int32_t code, body_crc
        cdef int64_t start = phy_offset - self.prover.file_from_offset
        rec.found = rec.expected = 0
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            self.look(&exported, length, pos, phy_offset, end_offset)
            self.busy = True
            with nogil:
                code = rmq_proof_shape(&self.prover, start + pos, &rec, &body_crc)
            self.busy = False
            self.raise_error()
            return new_place(pos, code, &rec)
        finally:
            PyBuffer_Release(&exported)

    def step(self, buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
        """The Place at `pos`, checked with its CRC by the states."""
        cdef Py_buffer exported
        cdef rmq_record rec
        cdef int32_t code
        cdef int64_t start = phy_offset - self.prover.file_from_offset
        rec.found = rec.expected = 0
        self.need_states()
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            self.look(&exported, length, pos, phy_offset, end_offset)
            self.busy = True
            with nogil:
                code = rmq_proof_step(&self.prover, &self.states, start + pos, &rec)
            self.busy = False
            self.raise_error()
            return new_place(pos, code, &rec)
        finally:
            PyBuffer_Release(&exported)

    def find(self, buf, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset, int64_t end_offset):
        """The first Place of the window at or after `pos` that proves itself, by the states; NOTHING when there is none."""
        cdef Py_buffer exported
        cdef rmq_record rec
        cdef int32_t code
        cdef int64_t at, start = phy_offset - self.prover.file_from_offset
        if not 0 <= pos <= length:
            raise ValueError(f"pos {pos} is not in a window of {length} bytes")
        rec.msg_size = 0
        rec.found = rec.expected = 0
        self.need_states()
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            self.look(&exported, length, pos, phy_offset, end_offset)
            self.busy = True
            with nogil:
                at = rmq_proof_find(&self.prover, &self.states, start + pos, &code, &rec)
            self.busy = False
            self.raise_error()
            return new_place(at - start, code, &rec)
        finally:
            PyBuffer_Release(&exported)

    cdef int look(self, Py_buffer *exported, Py_ssize_t length, Py_ssize_t pos, int64_t phy_offset,
                  int64_t end_offset) except -1:
        """Describe the window, once `pos` is known to lie in the file."""
        self.need_idle()
        if phy_offset < self.prover.file_from_offset:
            raise ValueError(f"phy_offset {phy_offset} lies before the file at {self.prover.file_from_offset}")
        if not self.prover.file_from_offset - phy_offset <= pos <= end_offset - phy_offset:
            raise ValueError(f"pos {pos} of a window at {phy_offset} lies outside the file, which ends at {end_offset}")
        fill_window(&self.prover.window, exported, length, 0, phy_offset, end_offset, True, True, -1)
        self.small.fd = -1 if self.descriptor is None else self.descriptor.number
        return 0

    # ---- states -------------------------------------------------------------------------------------

    def begin_states(self, int64_t data_bytes):
        """Begin the states of a file of which about `data_bytes` bytes are no holes."""
        self.need_idle()
        if self.has_states:
            raise ValueError("the states were begun before")
        rmq_crc32_powers_init(&self.states.powers)
        self.states.block = LEAST_BLOCK
        while self.states.block < RMQ_PROOF_BLOCK and data_bytes // self.states.block > MOST_STATES:
            self.states.block *= 2
        self.has_states = True

    def add(self, buf, Py_ssize_t length, int64_t pos):
        """Note ``buf[:length]``, which lies at byte `pos` of the file: in order, zeros may be left out.

        What goes on where the call before ended must follow a multiple of 4096 bytes.
        """
        cdef Py_buffer exported
        self.need_states()
        PyObject_GetBuffer(buf, &exported, PyBUF_SIMPLE)
        try:
            self.need_idle()
            if not 0 <= length <= exported.len:
                raise ValueError(f"length {length} does not fit a buffer of {exported.len} bytes")
            self.make_room(length, pos)
            with nogil:
                rmq_crc32_add(&self.states, <const uint8_t *> exported.buf, length)
        finally:
            PyBuffer_Release(&exported)

    cdef int make_room(self, Py_ssize_t length, int64_t pos) except -1:
        cdef size_t count = self.states.extent_count
        cdef size_t more = length // self.states.block + 1
        cdef rmq_crc32_extent *last = NULL
        cdef void *grown
        if count:
            last = &self.states.extents[count - 1]
            if pos < last.end or (pos == last.end and (last.end - last.start) % self.states.block):
                raise ValueError(f"bytes at {pos} do not go on from {last.end}")
        elif pos < 0:
            raise ValueError(f"pos {pos} is negative")
        if self.states.state_count + more > self.state_room:
            self.state_room = self.states.state_count + more + self.state_room // 2
            grown = realloc(self.states.states, self.state_room * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError
            self.states.states = <uint32_t *> grown
        if last != NULL and pos == last.end:
            return 0
        if count == self.extent_room:
            self.extent_room = 2 * count + 16
            grown = realloc(self.states.extents, self.extent_room * sizeof(rmq_crc32_extent))
            if grown == NULL:
                raise MemoryError
            self.states.extents = <rmq_crc32_extent *> grown
        rmq_crc32_begin_extent(&self.states, pos)
        return 0

    cdef int need_idle(self) except -1:
        if self.busy:
            raise ValueError("read_into may not ask the prover that it reads for")
        return 0

    cdef int need_states(self) except -1:
        if not self.has_states:
            raise ValueError("begin_states was not called")
        return 0

    # ---- small reads --------------------------------------------------------------------------------

    cdef int raise_error(self) except -1:
        error, self.error = self.error, None
        if error is not None:
            raise error
        return 0

    cpdef forget(self):
        """Read pages anew: their bytes may have changed since."""
        for slot in range(PAGE_COUNT):
            self.small.numbers[slot] = -1

    cdef int read_page(self, int64_t number) except -1:
        cdef int slot = number % PAGE_COUNT
        self.small.numbers[slot] = -1
        cdef Py_ssize_t got = self.read_into(self.pages[slot], number * PAGE_BYTES)
        if not 0 <= got <= PAGE_BYTES:
            raise ValueError(f"read_into answered {got} for {PAGE_BYTES} bytes")
        memset(self.small.bytes + slot * PAGE_BYTES + got, 0, PAGE_BYTES - got)
        self.small.numbers[slot] = number
        self.small.read += 1
        return 0


cdef int read_page(void *owner, int64_t number) noexcept with gil:
    """Read a page for code that does not hold the GIL; an error waits for `raise_error`."""
    cdef Prover prover = <Prover> owner
    try:
        prover.read_page(number)
    except BaseException as error:  # noqa: BLE001 - also KeyboardInterrupt; raise_error raises it
        prover.error = error
        return -1
    return 0


cdef bint read_whole(small_pages *small, int64_t number) noexcept nogil:
    """Read a page that lies inside of an open file with one call; answer whether that gave all of it."""
    cdef size_t slot = number % PAGE_COUNT
    if small.fd < 0 or number >= small.end // PAGE_BYTES:
        return False
    small.numbers[slot] = -1
    if pread(small.fd, small.bytes + slot * PAGE_BYTES, PAGE_BYTES, number * PAGE_BYTES) != PAGE_BYTES:
        return False
    small.numbers[slot] = number
    small.read += 1
    return True


cdef int fetch(void *context, int64_t pos, size_t length, uint8_t *out) noexcept nogil:
    """Copy bytes of the file out of pages; see `rmq_prover`."""
    cdef small_pages *small = <small_pages *> context
    cdef int64_t number
    cdef size_t at, part, slot
    while length:
        number = pos // PAGE_BYTES
        slot = number % PAGE_COUNT
        at = pos % PAGE_BYTES
        part = min(length, PAGE_BYTES - at)
        if small.numbers[slot] != number and not read_whole(small, number) and read_page(small.owner, number):
            return -1
        memcpy(out, small.bytes + slot * PAGE_BYTES + at, part)
        out += part
        pos += part
        length -= part
    return 0
