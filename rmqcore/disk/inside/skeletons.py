"""Directories in which files have their sizes and not yet their bytes: these are brought in when they are read.

A store on another filesystem is such a tree in a temporary directory (`rmqcore.offline.remote.skeleton`). Who opens a file for
reading (`files`) asks first, so code that reads local files knows nothing of it.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakValueDictionary

Part = tuple[int, int]
"""Where bytes of a file begin, and how many these are."""
BLOCK_BYTES = 512
"""What `st_blocks` counts."""


class BringsIn(Protocol):
    """What a skeleton does for those who read in it."""

    def bring_in(self, path: str, part: Part | None) -> None:
        """Make sure that a part of a file, or all of it, has its bytes; nothing happens where no such file was listed."""

    def shown(self, path: str) -> str:
        """The place from which the bytes of a path come: what messages name."""


_SKELETONS: WeakValueDictionary[str, BringsIn] = WeakValueDictionary()


def add_skeleton(root: str, skeleton: BringsIn) -> None:
    """From now on ask a skeleton for the bytes of what lies below its root, as long as it lives."""
    _SKELETONS[root] = skeleton


def bring_in(path: str | os.PathLike[str], part: Part | None = None) -> None:
    """Make sure that a file that is to be read has its bytes, all or those of a part."""
    skeleton = _of(path)
    if skeleton is not None:
        skeleton.bring_in(os.fspath(path), part)


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path as messages name it: that of a skeleton means nothing to anybody."""
    skeleton = _of(path)
    return os.fspath(path) if skeleton is None else skeleton.shown(os.fspath(path))


def occupied_bytes(path: str | os.PathLike[str], status: os.stat_result) -> int:
    """Bytes that a file takes where it lies: its blocks on a disk, its size on a filesystem that has no others to tell."""
    return status.st_blocks * BLOCK_BYTES if _of(path) is None else status.st_size


def _of(path: str | os.PathLike[str]) -> BringsIn | None:
    if not _SKELETONS:
        return None
    text = os.fspath(path)
    if not isinstance(text, str):
        return None
    for known in _SKELETONS.valuerefs():  # a list: other threads may add some meanwhile
        if text.startswith(f"{known.key}/"):
            return known()
    return None
