"""Directories whose files have their sizes but not yet their bytes: reads fetch these.

A store on another filesystem is a tree of this kind in a temporary directory (`rmqcore.offline.remote.skeleton`). The
open of a file for reading (`files`) fetches its bytes first, so code that reads local files needs no change.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakValueDictionary

Part = tuple[int, int]
"""Start and number of bytes of a file."""
BLOCK_BYTES = 512
"""Bytes of a block in `st_blocks`."""


class BringsIn(Protocol):
    """The methods of a skeleton for readers of its files."""

    def bring_in(self, path: str, part: Part | None) -> None:
        """Fetch the bytes of a part of a file, or of all of it, unless they are here or the file was not listed."""

    def shown(self, path: str) -> str:
        """Return the source of a path's bytes, for messages."""


_SKELETONS: WeakValueDictionary[str, BringsIn] = WeakValueDictionary()


def add_skeleton(root: str, skeleton: BringsIn) -> None:
    """Fetch bytes below a root from a skeleton from now on, while the skeleton exists."""
    _SKELETONS[root] = skeleton


def bring_in(path: str | os.PathLike[str], part: Part | None = None) -> None:
    """Fetch the bytes of a file before it is read, all or those of a part."""
    skeleton = _of(path)
    if skeleton is not None:
        skeleton.bring_in(os.fspath(path), part)


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path for messages: for a file in a skeleton, its source."""
    skeleton = _of(path)
    return os.fspath(path) if skeleton is None else skeleton.shown(os.fspath(path))


def occupied_bytes(path: str | os.PathLike[str], status: os.stat_result) -> int:
    """Return the bytes that a file occupies: its blocks on a disk, its size on another filesystem."""
    return status.st_blocks * BLOCK_BYTES if _of(path) is None else status.st_size


def _of(path: str | os.PathLike[str]) -> BringsIn | None:
    if not _SKELETONS:
        return None
    text = os.fspath(path)
    if not isinstance(text, str):
        return None
    for known in _SKELETONS.valuerefs():  # a list, since other threads may add skeletons
        if text.startswith(f"{known.key}/"):
            return known()
    return None
