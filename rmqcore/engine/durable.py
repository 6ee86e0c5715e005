"""Small files and names that survive a power cut once a function here has returned."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore.engine.files import sync_directory

CLOEXEC = getattr(os, "O_CLOEXEC", 0)
sync_data = getattr(os, "fdatasync", os.fsync)
"""Wait until the bytes of an open file are on disk, and as much of its metadata as is needed to read them."""


def write_durable(path: Path, data: bytes) -> None:
    """Put a small file there, whole or not at all, whatever happens meanwhile."""
    working = path.with_name(f".{path.name}.tmp")
    fd = os.open(working, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | CLOEXEC, 0o644)
    try:
        write_all(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    working.replace(path)
    sync_directory(path.parent)


def write_all(fd: int, data: bytes | memoryview, pos: int) -> None:
    """Write all of `data` at byte `pos` of an open file; a full disk is an OSError."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, pos)
        view, pos = view[done:], pos + done
