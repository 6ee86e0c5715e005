"""Small files, directories and names that survive a power cut once a function here has returned."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.errors import is_of_the_system

CLOEXEC = getattr(os, "O_CLOEXEC", 0)
sync_data = getattr(os, "fdatasync", os.fsync)
"""Wait until the bytes of an open file are on disk, and as much of its metadata as is needed to read them."""


def write_durable(path: Path, data: bytes) -> None:
    """Write a small file: after a crash at any moment it is there as a whole, or the old one is.

    What an earlier call left half done goes, and whatever else bears that name: a FIFO would be waited for, a link followed.
    """
    working = path.with_name(f".{path.name}.tmp")
    working.unlink(missing_ok=True)
    file = Descriptor(working, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    fd = file.fileno()
    try:
        with naming(path):
            write_all(fd, data, 0)
            os.fsync(fd)
    except OSError:
        working.unlink()
        raise
    finally:
        file.close()
    working.replace(path)
    sync_directory(path.parent)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let an error of a call that knows only a descriptor name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and is_of_the_system(error):
            error.filename = os.fspath(path)
        raise


def write_all(fd: int, data: bytes | memoryview, pos: int) -> None:
    """Write all of `data` at byte `pos` of an open file; a full disk is an OSError."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, pos)
        view, pos = view[done:], pos + done


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Wait until the directory's entries are on disk: a new, renamed or deleted file is only safe then."""
    opened = Descriptor(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with naming(directory):
            os.fsync(opened.fileno())
    finally:
        opened.close()


def make_directory(directory: Path) -> None:
    """Make a directory and its parents; when it returns, their names are on disk."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    sync_directory(directory.parent)
