"""Reading a range of a file that another process may be writing, truncating or deleting."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmqcore.disk.inside.files import open_file
from rmqcore.errors import StoreFormatError, is_of_the_system


def read_range(path: str | Path, pos: int, count: int) -> bytes:
    """Read `count` bytes at `pos`; fewer at the end of the file, none when there is no such file or `pos` lies outside it.

    The file is opened for the call alone.

    Raises
    ------
    StoreFormatError, OSError
        What is there is no file, or cannot be read; see `open_file`.
    """
    if pos < 0 or count <= 0:
        return b""
    try:
        file = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    fd = file.fileno()
    try:
        parts = []
        while count > 0:
            part = os.pread(fd, min(count, 1 << 30), pos)
            if not part:
                break
            parts.append(part)
            pos += len(part)
            count -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        file.close()


def entries_of(directory: str | Path) -> list[os.DirEntry[str]]:
    """Give the entries of a directory in name order; an empty list when there is no such directory."""
    try:
        with os.scandir(directory) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextmanager
def opened(path: str | Path, flags: int) -> Iterator[int]:
    """Open a file for the time of a ``with`` block, as `open_file` does."""
    file = open_file(path, flags)
    try:
        yield file.fileno()
    finally:
        file.close()


def read_exactly(fd: int, path: str, begin: int, end: int) -> bytes:
    """Read bytes [begin, end) of an open file; `path` is named in errors.

    Raises
    ------
    StoreFormatError
        The file ends before `end`.
    OSError
        The bytes cannot be read.
    """
    parts = []
    at = begin
    while at < end:
        try:
            data = os.pread(fd, end - at, at)
        except OSError as error:
            if not is_of_the_system(error):
                raise
            text = f"{os.strerror(error.errno or 0)} (read at byte {at})"
            raise OSError(error.errno, text, path) from error
        if not data:
            raise StoreFormatError(f"{path}: file size is {at}, expected at least {end}")
        parts.append(data)
        at += len(data)
    return b"".join(parts)
