"""Room for a new store: asked for before the work, and told where it does not suffice."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rmqcore.disk.inside.clones import shares_blocks
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.read_range import entries_of
from rmqcore.disk.used_space import free_bytes
from rmqcore.errors import is_no_room
from rmqcore.offline.log.log_files import LogFile


def check_room(working: Folder, files: Iterable[LogFile], paths: StorePaths) -> int:
    """Return the approximate bytes of a new store: those that log and index of the old one occupy.

    Raises
    ------
    OSError
        The disk of the folder has fewer, and it cannot share the blocks of the old log.
    """
    logs = [os.fspath(file.path) for file in files]
    indexes = [entry.path for entry in entries_of(paths.index)]
    needed = sum(_occupied(path) for path in (*logs, *indexes))
    free = free_bytes(working.path)
    if 0 <= free < needed and not shares_blocks(logs[0], working, ".clone"):
        raise OSError(errno.ENOSPC, _text(needed, free), os.fspath(working.path.parent))
    return needed


@contextmanager
def full_disk_error(out: Path, needed: int) -> Iterator[None]:
    """Return the error of a full disk with the bytes needed and free."""
    try:
        yield
    except OSError as error:
        if is_no_room(error):
            error.strerror = _text(needed, free_bytes(out))
        raise


def _text(needed: int, free: int) -> str:
    return (
        f"{os.strerror(errno.ENOSPC)}: the new store needs about {needed} bytes, {free} bytes are "
        "free"
    )


def _occupied(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except FileNotFoundError:
        return 0
