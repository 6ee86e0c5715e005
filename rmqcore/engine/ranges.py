"""Reading a range of a file that another process may be writing, truncating or deleting."""

from __future__ import annotations

import os
from pathlib import Path


def read_range(path: str | Path, pos: int, count: int) -> bytes:
    """Read `count` bytes at `pos`; fewer at the end of the file, none when it is gone or `pos` lies outside.

    The file is opened for the call alone.

    Raises
    ------
    OSError
        The file is there but cannot be read.
    """
    if pos < 0 or count <= 0:
        return b""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
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
        os.close(fd)


def entries_of(directory: str | Path) -> list[os.DirEntry[str]]:
    """Entries of a directory in name order; none when there is no such directory."""
    try:
        with os.scandir(directory) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
