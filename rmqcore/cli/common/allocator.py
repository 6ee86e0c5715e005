"""How the process' memory allocator deals with large pieces."""

from __future__ import annotations

import ctypes

M_MMAP_THRESHOLD = -3  # malloc.h of the GNU C library
LARGE = 1024 * 1024


def give_large_pieces_back() -> None:
    """Make glibc map allocations of a mebibyte and more separately, and unmap them when they are freed.

    By itself it does so only until the first such piece was freed. From then on pieces of that size are cut from the heap, where
    buffers with room for more than they hold lie on pages that others have used: Parquet of large bodies took a third more. Other
    C libraries have no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE)
