"""The ``lock`` file: one process writes to a store, and in it one MessageStore."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary

from rmqcore.engine.durable import CLOEXEC, sync_data, write_all
from rmqcore.errors import StoreLockedError

TEXT = b"lock"
LOCK_BYTE, HOLDER_BYTE = 0, 1
_Directory = tuple[int, int]
_held: WeakValueDictionary[_Directory, StoreLock] = WeakValueDictionary()
"""Directories (device, inode) whose lock this process holds. Weak: a store that is dropped without a close lets go of it."""
_held_guard = threading.Lock()


class StoreLock:
    """An exclusive lock on byte 0 of a store's ``lock`` file, which a Java broker respects and takes as well.

    Parameters
    ----------
    path : path-like
        The file; its directory exists.

    Raises
    ------
    StoreLockedError
        From `acquire`: another process, or another store object of this one, has the store.
    OSError
        The file cannot be made or locked (a read-only directory, a file system without locks).

    Notes
    -----
    A lock of the traditional kind, as Java takes it, is lost as soon as the process closes *any* descriptor of the file; a copy
    of the directory is enough. On Linux the lock is therefore one of the open file description, which conflicts with Java's
    all the same and ends with this object only. It does not tell who has it, so byte 1 bears a traditional lock for that
    purpose alone. Where there is only the traditional kind, a table of the directories held stops a second open in this
    process.

    A forked child does not have the lock, and its `release` does nothing.

    Thread safety: all methods may run at once.

    Source: RocketMQ 5.5.0 DefaultMessageStore#start (FileChannel#tryLock(0, 1, false)).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._fd = -1
        self._directory: _Directory = (0, 0)

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._fd >= 0

    def acquire(self) -> Self:
        """Take the lock without waiting."""
        status = self.path.parent.stat()
        directory = (status.st_dev, status.st_ino)
        with _held_guard:
            if (
                directory in _held
            ):  # then the file is not even opened: closing it could let the lock go
                raise StoreLockedError(
                    f"{self.path.parent} is open already in this process ({os.getpid()})"
                )
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | CLOEXEC, 0o644)
            try:
                self._take(fd)
                _write_text(fd)
            except BaseException:
                os.close(fd)
                raise
            _held[directory] = self
            self._fd, self._directory = fd, directory
        return self

    def _take(self, fd: int) -> None:
        if not _try_lock(fd):
            holder = _holder(fd)
            who = "another process" if holder is None else f"process {holder}"
            raise StoreLockedError(f"{self.path.parent} is in use by {who}")

    def release(self) -> None:
        """Let go of the lock; nothing happens when it is not held."""
        with _held_guard:
            if self._fd >= 0:
                del _held[self._directory]
                self._close()

    def __del__(self) -> None:
        if self._fd >= 0:
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<StoreLock {str(self.path)!r}, {'held' if self.held else 'not held'}>"


def lock_holder(path: str | os.PathLike[str]) -> int | None:
    """Ask who has a store's lock, without touching it.

    Returns
    -------
    int or None
        The process id, 0 when the system does not say whose, None when nobody has it.
    """
    file = Path(path)
    with suppress(FileNotFoundError):
        status = file.parent.stat()
        with _held_guard:
            if (status.st_dev, status.st_ino) in _held:
                return os.getpid()
        fd = os.open(file, os.O_RDONLY | CLOEXEC)
        try:
            return (_holder(fd) or 0) if _is_locked(fd) else None
        finally:
            os.close(fd)
    return None


def _forget_after_fork() -> None:
    """A child has copies of the descriptors; without closing them it would keep the lock when its parent has died."""
    global _held_guard  # noqa: PLW0603  (another thread may have held it at the fork)
    _held_guard = threading.Lock()
    for lock in _held.values():
        lock._close()  # noqa: SLF001
    _held.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


# ---- the system's locks -----------------------------------------------------------------------------

# struct flock, and where the kind and the process id are in it.
_FLOCK = {"linux": ("hhqqi4x", 0, 4), "darwin": ("qqihh", 3, 2)}.get(sys.platform)


def _flock(kind: int, byte: int) -> bytes:
    """A struct flock for one byte."""
    assert _FLOCK is not None
    fields = (kind, os.SEEK_SET, byte, 1, 0)
    if sys.platform == "darwin":
        fields = (byte, 1, 0, kind, os.SEEK_SET)
    return struct.pack(_FLOCK[0], *fields)


def _try_lock(fd: int) -> bool:
    """Take the lock; False when somebody else has it."""
    try:
        if not _lock_description(fd):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, LOCK_BYTE)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    with suppress(OSError):  # says who has the store, protects nothing
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, HOLDER_BYTE)
    return True


def _lock_description(fd: int) -> bool:
    """Lock byte 0 for the open file description; False where the system has no such locks."""
    if sys.platform != "linux" or not hasattr(fcntl, "F_OFD_SETLK"):
        return False
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, LOCK_BYTE))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise
    return True


def _holder(fd: int) -> int | None:
    """Ask who holds the lock; None when the system does not say."""
    for byte in (LOCK_BYTE, HOLDER_BYTE):
        try:
            process = _holder_of(fd, byte)
        except (OSError, struct.error):
            return None
        if process is not None:
            return process
    return None


def _holder_of(fd: int, byte: int) -> int | None:
    found = _ask(fd, byte)
    return found[1] if found is not None and found[0] and found[1] > 0 else None


def _is_locked(fd: int) -> bool:
    found = _ask(fd, LOCK_BYTE)
    return found is not None and found[0]


def _ask(fd: int, byte: int) -> tuple[bool, int] | None:
    """Whether somebody else has a lock on a byte, and the process id that the system says; None where it says nothing."""
    if _FLOCK is None:
        return None
    form, kind, process = _FLOCK
    answer = struct.unpack(form, fcntl.fcntl(fd, fcntl.F_GETLK, _flock(fcntl.F_WRLCK, byte)))
    return answer[kind] != fcntl.F_UNLCK, int(answer[process])


def _write_text(fd: int) -> None:
    """Write the word that Java writes, unless it is there."""
    if os.pread(fd, len(TEXT) + 1, 0) != TEXT:
        os.ftruncate(fd, 0)
        write_all(fd, TEXT, 0)
        sync_data(fd)
