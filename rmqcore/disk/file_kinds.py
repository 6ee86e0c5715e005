"""What lies in the place of a file or directory, in a word."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from rmqcore.errors import StoreFormatError

_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


def kind_of(mode: int) -> str:
    """Name the kind of a file by its mode (``st_mode``)."""
    return _KINDS.get(stat.S_IFMT(mode), "a device")


def check_is_file(path: Path) -> None:
    """Check that what is there is a regular file, or a link to one; it may be missing. To open a FIFO would wait for ever.

    Raises
    ------
    StoreFormatError
        It is a FIFO, a socket or a device.
    OSError
        It is a directory, or cannot be looked at.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a directory, expected a file", os.fspath(path))
    if not stat.S_ISREG(mode):
        raise StoreFormatError(f"{path}: {kind_of(mode)}, expected a file")
