"""Writing bytes into files so that pages of zeros stay holes: most pages of queue and index files are zeros."""

from __future__ import annotations

import os

import numpy as np

from rmqcore.vocabulary.units import PAGE


def write_sparse(fd: int, data: bytes | memoryview, pos: int) -> None:
    """Write `data` at byte `pos`, a multiple of a page, of a file that holds zeros there; its size does not change."""
    view = memoryview(data)
    pages = np.frombuffer(view, np.uint8)
    whole = len(pages) // PAGE
    used = pages[: whole * PAGE].reshape(whole, PAGE).any(axis=1)
    flags = np.concatenate([[False], used, [pages[whole * PAGE :].any()], [False]])
    edges = np.flatnonzero(flags[1:] != flags[:-1]) * PAGE
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        part, at = view[begin:end], pos + begin
        while part:
            done = os.pwrite(fd, part, at)
            part, at = part[done:], at + done
