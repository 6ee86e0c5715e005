"""Names the kind of a file, in one word."""

from __future__ import annotations

import stat

_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


def kind_of(mode: int) -> str:
    """Name the kind of a file by its mode (``st_mode``)."""
    return _KINDS.get(stat.S_IFMT(mode), "a device")
