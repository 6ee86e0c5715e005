"""The ``lock`` file of a store's root: only one process writes to a store, and in that process only one MessageStore."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from contextlib import suppress
from pathlib import Path

from rmqcore.disk.inside.files import open_file, unlink
from rmqcore.disk.inside.opened import naming, sync_data, write_all
from rmqcore.disk.locks.directory_lock import DirectoryLock, held_here

TEXT = b"lock"
LOCK_BYTE, HOLDER_BYTE = 0, 1


class StoreLock(DirectoryLock):
    """An exclusive lock on byte 0 of a store's ``lock`` file, which a Java broker respects and uses as well.

    The root itself is locked with it, like every other directory of a store: even if the ``lock`` file is deleted or
    replaced, no second store can be opened.

    Parameters
    ----------
    path : path-like
        The file, in an existing directory.

    Raises
    ------
    StoreLockedError
        From `acquire`: another process, or another store object of this one, has the store.
    OSError
        The file cannot be made or locked (a read-only directory, a file system without locks).

    Notes
    -----
    Java's kind of lock, the traditional one, is lost as soon as the process closes *any* descriptor of the file, for
    example after a copy of the directory. On Linux the lock therefore belongs to the open file description: it
    conflicts with Java's lock too, and ends only with this object. The system does not report the process that holds
    it, so byte 1 has a traditional lock only for that purpose. If the system has only the traditional kind, the table
    of the directories that this process has locked stops a second open.

    Source: RocketMQ 5.5.0 DefaultMessageStore#start (FileChannel#tryLock(0, 1, false)).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        super().__init__(self.path.parent)

    def _take(self, directory_fd: int) -> None:
        # Only after the look into the table: closing the file again could release the lock of another object.
        self._open_files.append(open_file(self.path, os.O_RDWR | os.O_CREAT))
        fd = self._open_files[-1].fileno()
        if not _try_lock(fd):
            raise self._in_use_by(_holder(fd))
        super()._take(directory_fd)
        try:
            with naming(self.path):
                _write_text(fd)
        except OSError:
            if os.fstat(fd).st_size == 0:  # the disk is full, and no other process has the new file
                unlink(self.path)
            raise

    def __repr__(self) -> str:
        return f"<StoreLock {str(self.path)!r}, {'held' if self.held else 'not held'}>"


def lock_holder(path: str | os.PathLike[str]) -> int | None:
    """Return the holder of a store's lock, without touching the lock.

    Returns
    -------
    int or None
        The id of the process that has the lock, 0 if the system does not name it, None if the lock is free.

    Raises
    ------
    StoreFormatError, OSError
        The path is not a regular file, or cannot be opened; see `open_file`.
    """
    file = Path(path)
    with suppress(FileNotFoundError):
        status = file.parent.stat()
        if held_here(status):
            return os.getpid()
        opened = open_file(file, os.O_RDONLY)
        try:
            fd = opened.fileno()
            return (_holder(fd) or 0) if _is_locked(fd) else None
        finally:
            opened.close()
    return None


# ---- the system's locks -----------------------------------------------------------------------------

# struct flock, and where the kind and the process id are in it.
_FLOCK = {"linux": ("hhqqi4x", 0, 4), "darwin": ("qqihh", 3, 2)}.get(sys.platform)


def _flock(kind: int, byte: int) -> bytes:
    """Return a struct flock for one byte."""
    assert _FLOCK is not None
    fields = (kind, os.SEEK_SET, byte, 1, 0)
    if sys.platform == "darwin":
        fields = (byte, 1, 0, kind, os.SEEK_SET)
    return struct.pack(_FLOCK[0], *fields)


def _try_lock(fd: int) -> bool:
    """Acquire the lock; False when another holder has it."""
    try:
        if not _lock_description(fd):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, LOCK_BYTE)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    with suppress(OSError):  # this lock only tells which process has the store
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, HOLDER_BYTE)
    return True


def _lock_description(fd: int) -> bool:
    """Lock byte 0 for the open file description; return False if the system lacks this kind of lock."""
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
    """Return the process that holds the lock; None if the system does not report it."""
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
    """Return whether another holder has a lock on a byte, and its process id; None if the system does not report it."""
    if _FLOCK is None:
        return None
    form, kind, process = _FLOCK
    answer = struct.unpack(form, fcntl.fcntl(fd, fcntl.F_GETLK, _flock(fcntl.F_WRLCK, byte)))
    return answer[kind] != fcntl.F_UNLCK, int(answer[process])


def _write_text(fd: int) -> None:
    """Write Java's word into a file that is empty or holds the word's start; any other file was not made for a lock."""
    found = os.pread(fd, len(TEXT) + 1, 0)
    if found != TEXT and TEXT.startswith(found):
        write_all(fd, TEXT, 0)
        sync_data(fd)
