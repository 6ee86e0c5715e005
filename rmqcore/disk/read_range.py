"""Reading a range of a file that another process may be writing, truncating or deleting."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from rmqcore.disk.inside.files import open_file
from rmqcore.disk.inside.skeletons import Part
from rmqcore.errors import StoreFormatError, is_of_the_system, is_unreadable

FEW_ENTRIES = 10_000
"""Entries of a directory to hold in memory for any length of names."""
MOST_ENTRY_BYTES = 32 << 20
"""Bytes of memory for the entries of a directory, about 80,000 of them."""
ENTRY_BYTES = 160
"""Bytes of memory for an entry beside its name and path."""


def read_range(path: str | Path, pos: int, count: int) -> bytes:
    """Read `count` bytes at `pos`; fewer at the end of the file, none if the file is missing or `pos` lies outside.

    The file is open only during the call.

    Raises
    ------
    StoreFormatError, OSError
        The path is not a regular file, or cannot be read; see `open_file`.
    """
    if pos < 0 or count <= 0:
        return b""
    try:
        file = open_file(path, os.O_RDONLY, part=(pos, count))
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


Unreadable = Callable[[str, OSError], object]
"""Receives the path of a file or directory that cannot be read, and the error (`is_unreadable`)."""


def left_out(path: str, error: OSError) -> None:
    """Ignore a directory that cannot be listed: an `Unreadable` for callers whose other checks report it."""


def entries_of(
    directory: str | Path, unreadable: Unreadable | None = None
) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a directory in name order; none if the directory does not exist.

    A large directory is listed once for each part of its entries that fits in the memory allowed: about 40,000.
    `unreadable` receives a directory that cannot be listed, which then has no entries; without `unreadable` the error
    is raised.
    """
    after: str | None = None
    while True:
        try:
            part, whole = _next_entries(directory, after)
        except OSError as error:
            if unreadable is None or not is_unreadable(error):
                raise
            unreadable(os.fspath(directory), error)
            return
        yield from part
        if whole:
            return
        after = part[-1].name


def _next_entries(directory: str | Path, after: str | None) -> tuple[list[os.DirEntry[str]], bool]:
    """Return the first entries behind a name, in name order, and whether these are all."""
    try:
        with os.scandir(directory) as found:
            held = [] if after is not None else list(islice(found, FEW_ENTRIES))
            if after is None and len(held) < FEW_ENTRIES:
                return sorted(held, key=_name), True
            return _smallest(held, found, after)
    except (FileNotFoundError, NotADirectoryError):
        return [], True


def _smallest(
    held: list[os.DirEntry[str]], found: Iterator[os.DirEntry[str]], after: str | None
) -> tuple[list[os.DirEntry[str]], bool]:
    """Return the first of the entries held and found behind a name, as many as the memory allowed holds."""
    below: str | None = None  # names from here on are left for the next part
    held_bytes = sum(map(_bytes_of, held))
    for entry in found:
        name = entry.name
        if (after is not None and name <= after) or (below is not None and name >= below):
            continue
        held.append(entry)
        held_bytes += _bytes_of(entry)
        if held_bytes >= MOST_ENTRY_BYTES and len(held) > 1:
            held.sort(key=_name)
            middle = len(held) // 2
            below = held[middle].name
            del held[middle:]
            held_bytes = sum(map(_bytes_of, held))
    held.sort(key=_name)
    return held, below is None


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _bytes_of(entry: os.DirEntry[str]) -> int:
    return ENTRY_BYTES + sys.getsizeof(entry.name) + sys.getsizeof(entry.path)


@contextmanager
def opened(path: str | Path, flags: int, *, part: Part | None = None) -> Iterator[int]:
    """Open a file for the time of a ``with`` block, as `open_file` does."""
    file = open_file(path, flags, part=part)
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
