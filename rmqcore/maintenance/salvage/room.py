"""Room for a new store: asked for before the work, and told where it does not suffice."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rmqcore.disk.inside.files import open_file
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.read_range import entries_of
from rmqcore.disk.used_space import free_bytes
from rmqcore.errors import is_no_room, is_of_the_system
from rmqcore.offline.log.log_files import LogFile

FICLONE = 0x40049409


def check_room(working: Folder, files: Iterable[LogFile], paths: StorePaths) -> int:
    """Give the bytes that a new store takes, about: those that log and index of the old one occupy.

    Raises
    ------
    OSError
        The disk of the folder has fewer, and it cannot share the blocks of the old log.
    """
    logs = [os.fspath(file.path) for file in files]
    indexes = [entry.path for entry in entries_of(paths.index)]
    needed = sum(_occupied(path) for path in (*logs, *indexes))
    free = free_bytes(working.path)
    if 0 <= free < needed and not _shares_blocks(working, logs[0]):
        raise OSError(errno.ENOSPC, _text(needed, free), os.fspath(working.path.parent))
    return needed


@contextmanager
def full_disk_error(out: Path, needed: int) -> Iterator[None]:
    """Let the error of a full disk say what is needed and what is free."""
    try:
        yield
    except OSError as error:
        if is_no_room(error):
            error.strerror = _text(needed, free_bytes(out))
        raise


def _text(needed: int, free: int) -> str:
    return f"{os.strerror(errno.ENOSPC)}: a new store of these files needs about {needed} bytes, {free} bytes are free"


def _occupied(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except FileNotFoundError:
        return 0


def _shares_blocks(working: Folder, path: str) -> bool:
    """Whether the file system lets a new file have the blocks of an old one."""
    name = ".clone"
    try:
        source = open_file(path, os.O_RDONLY)
        target = working.open_file(name, os.O_WRONLY | os.O_CREAT)
        fcntl.ioctl(target.fileno(), FICLONE, source.fileno())
    except OSError as error:
        if not is_of_the_system(error):
            raise
        return False
    finally:
        with suppress(FileNotFoundError):
            working.delete(name)
    return True
