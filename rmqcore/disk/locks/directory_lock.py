"""A lock on a directory itself: only one store of one process writes in it, under any name.

The lock writes no file, so a broker that uses the directory later sees no change. The directory's identity (device and
inode) counts: links and bind mounts of a directory are that directory.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary

from rmqcore._native.threads.descriptor import Descriptor
from rmqcore._native.threads.mutex import Mutex
from rmqcore.disk.inside.files import open_folder
from rmqcore.errors import StoreLockedError

_Identity = tuple[int, int]
_held: WeakValueDictionary[_Identity, DirectoryLock] = WeakValueDictionary()
"""Directories (device, inode) that this process has locked. The references are weak: a store that is dropped without a
close releases its locks."""
_held_guard = Mutex(again=True)
# Errors of file systems without locks for directories: NFS requires a descriptor open for writing, which no directory
# has.
_NO_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EISDIR}


class Flock(Enum):
    """Result of `try_flock`."""

    TAKEN = auto()
    HELD = auto()
    """Another holder has the lock."""
    UNSUPPORTED = auto()
    """The file system has no locks for directories."""


class DirectoryLock:
    """An exclusive lock on a directory, against other processes and other stores of this one.

    Parameters
    ----------
    directory : path-like
        An existing directory.
    role : str
        Name of the directory in errors: ``"the commitlog of /data/store"``; empty for a root.

    Attributes
    ----------
    shared : bool
        True if the file system has no locks for directories: the lock excludes other stores of this process only.

    Raises
    ------
    StoreLockedError
        From `acquire`: another process, or another store object of this one, has the directory.
    OSError
        The directory cannot be opened.

    Notes
    -----
    A forked child does not have the lock, and its `release` does nothing.

    Thread safety: all methods may run at the same time.
    """

    shared = False

    def __init__(self, directory: str | os.PathLike[str], role: str = "") -> None:
        self._open_files: list[Descriptor] = []
        self.directory = Path(directory)
        self._role = role
        self._identity: _Identity = (0, 0)

    @property
    def held(self) -> bool:
        """True if this object has the lock."""
        return bool(self._open_files)

    def acquire(self) -> Self:
        """Acquire the lock without waiting."""
        _held_guard.run(self._acquire)
        return self

    def _acquire(self) -> None:
        try:
            self._open_files.append(open_folder(self.directory))
            directory = self._open_files[-1].fileno()
            status = os.fstat(directory)
            identity = (status.st_dev, status.st_ino)
            self._check_not_held_here(identity)
            self._take(directory)
            self._identity = identity
            _held[identity] = self
        except BaseException:
            self._release()
            raise

    def _check_not_held_here(self, identity: _Identity) -> None:
        if identity in _held:
            raise StoreLockedError(f"{self._name} is already open in this process ({os.getpid()})")

    def _take(self, directory_fd: int) -> None:
        """Lock an open directory."""
        flock = try_flock(directory_fd)
        if flock is Flock.HELD:
            raise self._in_use_by(_flock_holder(os.fstat(directory_fd)))
        self.shared = flock is Flock.UNSUPPORTED

    @property
    def _name(self) -> str:
        return f"{self.directory} ({self._role})" if self._role else str(self.directory)

    def _in_use_by(self, process: int | None) -> StoreLockedError:
        who = "another process" if process is None else f"process {process}"
        return StoreLockedError(f"{self._name} is in use by {who}")

    def check_in_place(self) -> None:
        """Check that the path still leads to the directory that was locked.

        Raises
        ------
        OSError
            The path leads elsewhere (ESTALE) or is missing: the directory was renamed, or another one is mounted over
            it.
        """
        status = os.stat(self.directory)
        if self.held and (status.st_dev, status.st_ino) != self._identity:
            why = "the directory was replaced since the store was opened"
            raise OSError(errno.ESTALE, why, os.fspath(self.directory))

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        _held_guard.run(self._release)

    def _release(self) -> None:
        if _held.get(self._identity) is self:
            _held.pop(self._identity, None)
        self._close()

    def _close(self) -> None:
        while self._open_files:
            self._open_files[-1].close()
            self._open_files.pop()

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<DirectoryLock {str(self.directory)!r}, {'held' if self.held else 'not held'}>"


def held_here(status: os.stat_result) -> bool:
    """Return True if a store of this process has locked the directory with this status."""
    return _held_guard.run(_held.__contains__, (status.st_dev, status.st_ino))


def try_flock(fd: int, kind: int = fcntl.LOCK_EX) -> Flock:
    """Lock an open directory, without waiting for another holder."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            return Flock.HELD
        if error.errno in _NO_LOCKS:
            return Flock.UNSUPPORTED
        raise
    return Flock.TAKEN


def _flock_holder(status: os.stat_result) -> int | None:
    """Return the process that has locked a directory; None if the system does not report it."""
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()  # 1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF
            if words[1:2] == ["FLOCK"] and words[5:6] == [place] and words[4].isdigit():
                return int(words[4])
    return None


def _forget_after_fork() -> None:
    """Close the copies of descriptors that a child has: it would keep the locks when its parent has died."""
    global _held_guard  # noqa: PLW0603  (another thread may have held it at the fork)
    _held_guard = Mutex(again=True)
    for lock in _held.values():
        lock._close()  # noqa: SLF001
    _held.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
