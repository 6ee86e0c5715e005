"""Mappings whose pages may go: what a file that is cut under an open store costs is an error, not the process."""

from cpython.exc cimport PyErr_SetFromErrno

cdef extern from "format/lost_pages.h" nogil:
    rmq_watched *rmq_watch(uint8_t *base, size_t size, int writable) noexcept
    void rmq_unwatch(rmq_watched *watched) noexcept
    int64_t rmq_lost_pages(const rmq_watched *watched) noexcept
    const int64_t *rmq_all_lost_pages() noexcept

all_lost = rmq_all_lost_pages()


cdef rmq_watched *watch(uint8_t *base, size_t size, bint writable) except NULL:
    cdef rmq_watched *watched = rmq_watch(base, size, writable)
    if watched == NULL:
        PyErr_SetFromErrno(OSError)
    return watched


cdef void forget(rmq_watched *watched) noexcept:
    rmq_unwatch(watched)


cdef int64_t lost_of(const rmq_watched *watched) noexcept:
    return rmq_lost_pages(watched)


cdef int ask(object owner) except -1:
    if isinstance(owner, memoryview):
        owner = owner.obj
    check = getattr(owner, "raise_if_lost", None)
    if check is not None:
        check()
    return 0


def check_lost(owner):
    """Raise when pages of a mapped file could not be read or written.

    Parameters
    ----------
    owner : MappedFile, or memoryview of one
        Other objects, whose bytes cannot go, are passed over.

    Raises
    ------
    LostPagesError
        What was read since the file was mapped may have been zeros, and what was written is nowhere.

    Notes
    -----
    Thread safety: any thread, behind its own access.
    """
    raise_if_lost(owner)
