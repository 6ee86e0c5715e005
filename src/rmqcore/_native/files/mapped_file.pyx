"""Mapped files: one file as memory, and the files of a CommitLog by offset.

A mapping lives as long as its MappedFile: a MessageView holds that object, so closing a store, rolling or deleting a file never
unmaps under a reader: no call unmaps.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from rmqcore._native.format.lost_pages cimport forget, lost_of, watch

import errno
import os

from rmqcore.errors import LostPagesError, StoreFormatError

cdef extern from "files/mapping.h" nogil:
    int rmq_map_file(const char *path, size_t size, int writable, uint8_t **base, int *fd, int64_t *found) noexcept
    void rmq_unmap(uint8_t *base, size_t size) noexcept
    void rmq_close(int fd) noexcept
    int rmq_allocate(int fd, int64_t begin, int64_t end) noexcept
    int rmq_populate(uint8_t *base, size_t begin, size_t end) noexcept
    void rmq_forget_pages(uint8_t *base, size_t begin, size_t end) noexcept
    int rmq_is_memory(int fd) noexcept
    int rmq_flush(uint8_t *base, size_t begin, size_t end) noexcept
    void rmq_read_ahead(uint8_t *base, size_t begin, size_t end) noexcept
    size_t rmq_first_cold(uint8_t *base, size_t begin, size_t end) noexcept
    void rmq_read_in(uint8_t *base, size_t begin, size_t end) noexcept
    int rmq_write_zeros(int fd, int64_t begin, int64_t end) noexcept
    int rmq_sync(int fd) noexcept
    int64_t rmq_size_of(int fd) noexcept


cdef int raise_for(int code, str path, str what) except -1:
    if code < 0:
        raise OSError(-code, f"{os.strerror(-code)} ({what})", path)
    return 0


@cython.final
cdef class MappedFile:
    """One existing file of a known size, mapped shared at first use.

    ``memoryview(file)`` shows its bytes read-only, mapped as long as the view lives.

    Parameters
    ----------
    path : str
    file_size : int
        Bytes; the file must have exactly this size.
    file_from_offset : int
        Offset of its first byte in the sequence of files.
    writable : bool
        Open it for appending. Without this the file is mapped read-only, and no stray store can damage it.

    Raises
    ------
    StoreFormatError
        The file has another size (at first use).
    OSError
        It cannot be opened or mapped (at first use).

    Notes
    -----
    Thread safety: all methods may run at once; `begin` and `end` are bytes of the file.
    """

    def __cinit__(self, str path not None, Py_ssize_t file_size, long long file_from_offset=0, *, bint writable=False):
        if file_size <= 0 or file_from_offset < 0:
            raise ValueError(f"{path}: file_size {file_size}, file_from_offset {file_from_offset}")
        self.path = path
        self.file_size = file_size
        self.file_from_offset = file_from_offset
        self.writable = writable
        self.fd = -1

    def __dealloc__(self):
        if self.watched != NULL:
            forget(self.watched)
        if self.base != NULL:
            rmq_unmap(self.base, self.file_size)
        if self.fd >= 0:
            rmq_close(self.fd)

    cdef int map(self) except -1:
        cdef int64_t found = 0
        cdef uint8_t *base = NULL
        cdef int code
        if self.base != NULL:
            return 0
        encoded = os.fsencode(self.path)
        cdef const char *name = encoded
        if self.base != NULL:
            return 0  # another thread, or a signal handler, was faster
        code = rmq_map_file(name, self.file_size, self.writable, &base, &self.fd, &found)
        if code < 0 and found != self.file_size:
            raise StoreFormatError(f"{self.path}: file size is {found}, expected {self.file_size}")
        raise_for(code, self.path, "map")
        try:
            self.watched = watch(base, self.file_size, self.writable)
        except OSError:
            rmq_unmap(base, self.file_size)
            if self.fd >= 0:
                rmq_close(self.fd)
                self.fd = -1
            raise
        self.base = base
        return 0

    cdef int check(self, Py_ssize_t begin, Py_ssize_t end) except -1:
        if not 0 <= begin <= end <= self.file_size:
            raise ValueError(f"{self.path}: {begin} to {end} is not in a file of {self.file_size} bytes")
        return self.map()

    cdef int check_writable(self, Py_ssize_t begin, Py_ssize_t end) except -1:
        if not self.writable:
            raise ValueError(f"{self.path} is mapped for reading")
        return self.check(begin, end)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        self.map()
        PyBuffer_FillInfo(buffer, self, self.base, self.file_size, 1, flags)

    def __len__(self):
        return self.file_size

    @property
    def mapped(self):
        """True if the mapping exists."""
        return self.base != NULL

    def raise_if_lost(self):
        """Raise when the file has lost pages that somebody met, or a file that is written is shorter than it was.

        Raises
        ------
        LostPagesError
            With the file's size as it is now.
        """
        cdef int64_t found = rmq_size_of(self.fd) if self.fd >= 0 else self.file_size
        cdef int64_t lost = lost_of(self.watched) if self.watched != NULL else 0
        if lost == 0 and found >= self.file_size:
            return
        what = f"{lost} pages of the mapped file cannot be read"
        try:
            found = os.stat(self.path).st_size
        except OSError as error:
            what += f", and its size cannot be asked for: {error.strerror}"
        if found < self.file_size:
            what = f"file size is {found}, expected {self.file_size}: it was cut while it was open"
        raise LostPagesError(errno.EIO, what, self.path)

    def allocate(self, Py_ssize_t begin, Py_ssize_t end):
        """Give [begin, end) blocks on disk, so that no store to it can meet a full disk; a sealed file has them."""
        cdef int code, fd
        if self.sealed:
            return
        self.check_writable(begin, end)
        self.raise_if_lost()  # or blocks behind the place of a cut would hide it
        with cython.critical_section(self):  # a sealed file's descriptor may be another file's soon
            fd = self.fd
            self.allocating += 1
        with nogil:
            code = rmq_allocate(fd, begin, end)
        with cython.critical_section(self):
            self.allocating -= 1
            self.close_unused()
        raise_for(code, self.path, f"allocate bytes {begin} to {end}")

    def populate(self, Py_ssize_t begin, Py_ssize_t end):
        """Make the pages of an allocated range writable now, so that no append pays for a page fault; not of a sealed file."""
        cdef int code
        if self.sealed:
            return
        self.check_writable(begin, end)
        with nogil:
            code = rmq_populate(self.base, begin, end)
        raise_for(code, self.path, f"populate bytes {begin} to {end}")

    def flush(self, Py_ssize_t begin, Py_ssize_t end, *, bint written_once=False):
        """Wait until the pages that hold [begin, end) are on disk; nothing else of the file is written.

        `written_once`: nothing is stored to the range any more, so its pages need not stay mapped for writing.

        A sealed file is on disk. Once a sync has failed, each further call fails in the same way: the pages may be lost, and no
        later sync can tell. That is noted here, so that no exception can come between the failure and the note.
        """
        cdef int code
        if self.sealed:
            return
        self.check_writable(begin, end)
        raise_for(self.sync_failure, self.path, "sync, which failed before")
        with nogil:
            if written_once and not rmq_is_memory(self.fd):
                rmq_forget_pages(self.base, begin, end)
            code = rmq_flush(self.base, begin, end)
        if code < 0:
            self.sync_failure = code
        raise_for(code, self.path, f"sync bytes {begin} to {end}")
        self.raise_if_lost()  # a sync of pages that the file does not have any more succeeds

    def read_ahead(self, Py_ssize_t begin, Py_ssize_t end):
        """Ask for [begin, end) to be read into the page cache soon."""
        self.check(begin, end)
        rmq_read_ahead(self.base, begin, end)

    cdef Py_ssize_t first_cold(self, Py_ssize_t begin, Py_ssize_t end) noexcept:
        return rmq_first_cold(self.base, begin, end)

    cdef int read_in(self, Py_ssize_t begin, Py_ssize_t end) except -1:
        if rmq_first_cold(self.base, begin, end) < <size_t> end:
            with nogil:
                rmq_read_in(self.base, begin, end)
        return 0

    def write_zeros(self, Py_ssize_t begin, Py_ssize_t end):
        """Overwrite [begin, end) with zeros, through the descriptor: a full disk is an error, not a signal."""
        cdef int code
        self.check_writable(begin, end)
        with nogil:
            code = rmq_write_zeros(self.fd, begin, end)
        raise_for(code, self.path, f"write bytes {begin} to {end}")

    def sync(self):
        """Wait until everything of the file is on disk, its size and blocks too."""
        cdef int code
        self.check_writable(0, 0)
        with nogil:
            code = rmq_sync(self.fd)
        raise_for(code, self.path, "sync")

    def seal(self):
        """Close the descriptor of a file that is full and on disk; its mapping stays, for readers."""
        with cython.critical_section(self):
            self.writable = False
            self.sealed = True
            self.close_unused()

    cdef void close_unused(self) noexcept:
        cdef int fd = self.fd
        if not self.sealed or self.allocating or fd < 0:
            return
        self.fd = -1
        rmq_close(fd)

    def __repr__(self):
        return f"<MappedFile {self.path!r} of {self.file_size} bytes>"


@cython.final
cdef class MappedFiles:
    """The files of one sequence by offset, each `file_size` bytes long; a missing file in the middle is a gap.

    Thread safety: readers need no lock; one writer at a time.
    """

    def __cinit__(self, Py_ssize_t file_size, items=()):
        self.file_size = file_size
        self.items = ()
        self.replace(items)

    def replace(self, items):
        """Make these the files, in ascending order."""
        chosen = tuple(items)
        last = -1
        for item in chosen:
            if not isinstance(item, MappedFile) or item.file_size != self.file_size:
                raise ValueError(f"{item!r} is not a file of {self.file_size} bytes")
            if item.file_from_offset <= last:
                raise ValueError(f"{item!r} at {item.file_from_offset} comes after {last}")
            last = item.file_from_offset
        self.items = chosen

    @property
    def files(self):
        """The files, ascending."""
        return self.items

    @property
    def first_offset(self):
        """Where the first file begins; 0 without files."""
        return (<MappedFile> self.items[0]).file_from_offset if self.items else 0

    @property
    def end_offset(self):
        """Where the last file ends; 0 without files."""
        return (<MappedFile> self.items[-1]).file_from_offset + self.file_size if self.items else 0

    def __len__(self):
        return len(self.items)

    @cython.cdivision(True)
    cdef MappedFile find(self, long long offset):
        cdef tuple items = self.items
        cdef Py_ssize_t count = PyTuple_GET_SIZE(items)
        cdef MappedFile file
        cdef long long at
        if count == 0 or offset < 0:
            return None
        file = <MappedFile> PyTuple_GET_ITEM(items, 0)
        at = offset // self.file_size - file.file_from_offset // self.file_size
        if 0 <= at < count:
            file = <MappedFile> PyTuple_GET_ITEM(items, at)
            if file.file_from_offset <= offset < file.file_from_offset + self.file_size:
                file.map()
                return file
        # A gap, or files that do not begin at a multiple of their size (MappedFileQueue#findMappedFileByOffset).
        for file in items:
            if file.file_from_offset <= offset < file.file_from_offset + self.file_size:
                file.map()
                return file
        return None

    def find_file(self, long long offset):
        """Give the file that holds the byte at `offset`, None when no file does."""
        return self.find(offset)

    def __repr__(self):
        return f"<MappedFiles of {len(self.items)} files from {self.first_offset} to {self.end_offset}>"
