"""How the process' memory allocator deals with large pieces."""

from __future__ import annotations

import ctypes

M_MMAP_THRESHOLD = -3  # malloc.h of the GNU C library
LARGE = 1024 * 1024


def give_large_pieces_back() -> None:
    """Make glibc map allocations of a mebibyte and more separately, and unmap them when they are freed.

    By default glibc does so only until the first piece of that size is freed. Later pieces are cut from the heap, where
    buffers that are not full lie on pages that other buffers have used: Parquet of large bodies needed a third more
    memory. Other C libraries do not have this setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE)
