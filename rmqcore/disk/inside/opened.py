"""Operations on an open file or directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.errors import SyncFailedError, is_of_the_system

sync_data = getattr(os, "fdatasync", os.fsync)
"""Wait until the bytes of an open file are on disk, and the metadata that is needed to read them."""


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the whole path to errors of calls that only have a descriptor and a name."""
    try:
        yield
    except OSError as error:
        known = error.filename
        if is_of_the_system(error) and (known is None or not os.path.isabs(os.fspath(known))):
            error.filename = os.fspath(path)
        raise


def read_all(file: Descriptor, path: str | os.PathLike[str]) -> bytes:
    """Read an open file from its first byte to its last."""
    parts: list[bytes] = []
    pos = 0
    with naming(path):
        while part := os.pread(file.fileno(), 1 << 20, pos):
            parts.append(part)
            pos += len(part)
    return b"".join(parts)


def write_all(fd: int, data: bytes | memoryview, pos: int) -> None:
    """Write all of `data` at byte `pos` of an open file; a full disk is an OSError."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, pos)
        view, pos = view[done:], pos + done


def sync_open(opened: Descriptor, path: str | os.PathLike[str]) -> None:
    """Wait until an open file, or the entries of an open directory, are on disk; `path` is for errors.

    Raises
    ------
    SyncFailedError
        The sync failed.
    """
    try:
        os.fsync(opened.fileno())
    except OSError as error:
        if not is_of_the_system(error):
            raise
        raise SyncFailedError(error.errno, error.strerror, os.fspath(path)) from error


def sync_file_system(opened: Descriptor, path: str | os.PathLike[str]) -> None:
    """Wait until all writes to the file system of an open directory are on disk; errors name `path`.

    If the C library has no ``syncfs``, this calls ``os.sync``, which also waits for every other file system of the
    machine, even one that hangs.

    Raises
    ------
    SyncFailedError
        The sync failed; Linux before 5.8 does not report that.
    """
    number = _syncfs()(opened.fileno())
    if number == errno.ENOSYS:
        os.sync()
    elif number:
        raise SyncFailedError(number, os.strerror(number), os.fspath(path))


@cache
def _syncfs() -> Callable[[int], int]:
    """Return a function that calls the C library's ``syncfs`` and returns 0 or an errno; ENOSYS if it is missing."""
    import ctypes  # here: few processes need it

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return lambda _: errno.ENOSYS
    return lambda fd: 0 if call(ctypes.c_int(fd)) == 0 else ctypes.get_errno()
