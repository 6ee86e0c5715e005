"""Locks on all directories in which a store writes, against every other store that would write there.

A ``lock`` file guards only a root. Two roots can share a CommitLog (storePathCommitLog), or a ``consumequeue`` that is
a link: the directory's own lock refuses the second store, and the error names that directory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Self

from rmqcore.disk.durable import make_directory
from rmqcore.disk.file_kinds import kind_of
from rmqcore.disk.inside.files import check_is_file, open_folder, remove_empty, unlink
from rmqcore.disk.inside.links import refuse_links
from rmqcore.disk.locks.directory_lock import DirectoryLock, Flock, held_here, try_flock
from rmqcore.disk.locks.foreign_writer import foreign_writer
from rmqcore.disk.locks.lock import StoreLock
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreClosedError, StoreLockedError


class StoreLocks:
    """The locks of a store: its root, the directories of its CommitLog, ``consumequeue`` and ``index``.

    Parameters
    ----------
    paths : StorePaths

    Attributes
    ----------
    made_commitlogs : list of Path
        Directories of the CommitLog that `acquire` has made.

    Raises
    ------
    StoreLockedError
        From `acquire`: another store has one of the directories, or a broker writes the CommitLog.
    ValueError
        Two of the directories are one, or the root or a log lies among the queues or index files of a store.
    StoreFormatError
        The ``lock`` file, the checkpoint or the abort file is a FIFO or a device; LinkError: a name of the store is a
        link, see `refuse_links`.
    OSError
        A path is a file instead of a directory or the reverse, or cannot be opened or made.

    Notes
    -----
    ``consumequeue`` and ``index`` are locked if they exist at the open; if they are made later, the root's lock covers
    them. A link that leads into the root of an open store is refused.

    Thread safety: `release` may be called from any thread.
    """

    def __init__(self, paths: StorePaths) -> None:
        self._paths = paths
        self._process = os.getpid()
        self._root = StoreLock(paths.lock)
        self._others: list[DirectoryLock] = []
        self._made: list[Path] = []
        self._made_lock = False
        self.made_commitlogs: list[Path] = []

    @property
    def held(self) -> bool:
        """True if the root is locked."""
        return self._root.held

    def acquire(self, *, create: bool = False) -> Self:
        """Acquire all locks without waiting.

        Parameters
        ----------
        create : bool
            Make the root if it is missing. Missing directories of the CommitLog are always made.
        """
        try:
            self._acquire(create)
        except BaseException:
            self.undo()
            raise
        return self

    def _acquire(self, create: bool) -> None:
        paths = self._paths
        parts = (paths.consumequeue, paths.index)
        refuse_links(paths)
        _check_places(paths)
        _check_kinds((paths.root, *paths.commitlogs, *parts))
        for file in (paths.lock, paths.checkpoint, paths.abort):
            check_is_file(file)
        self._made_lock = not os.path.lexists(paths.lock)
        if not self._made_lock:
            self._root.acquire()  # first, so that the error of a second open names the store
        self.made_commitlogs = [path for path in paths.commitlogs if not path.is_dir()]
        for commitlog in paths.commitlogs:
            if commitlog not in self.made_commitlogs:
                self._lock(commitlog)
        for part in parts:
            if part.is_dir():
                _check_above(part, paths.root)
                self._lock(part)
        if create:
            self._make(paths.root)
        for commitlog in self.made_commitlogs:
            self._make(commitlog)
            self._lock(commitlog)
        if not self._root.held:
            self._root.acquire()
        for commitlog in paths.commitlogs:
            process = foreign_writer(commitlog)
            if process is not None:
                raise StoreLockedError(f"{commitlog} is in use by process {process}")

    def _lock(self, directory: Path) -> None:
        for other in (self._paths.root, *(lock.directory for lock in self._others)):
            if other.is_dir() and other.samefile(directory):
                raise ValueError(
                    f"{directory} and {other} are the same directory, expected a different one for "
                    "each part of a store"
                )
        lock = DirectoryLock(directory, f"of the store {self._paths.root}")
        self._others.append(lock)
        lock.acquire()
        if lock.shared and directory.parent != self._paths.root:
            warnings.warn(
                f"{directory}: its file system cannot lock directories: another store that also "
                "writes here would not be detected",
                RuntimeWarning,
                stacklevel=2,
            )

    def _make(self, directory: Path) -> None:
        missing = [path for path in (directory, *directory.parents) if not path.exists()]
        self._made += reversed(missing)
        make_directory(directory)

    def check_process(self) -> None:
        """Raise StoreClosedError in a process forked after the open: it holds none of the locks."""
        if os.getpid() != self._process:
            why = f"it is being opened in process {self._process}, of which this is a fork"
            raise StoreClosedError(f"{self._paths.root}: {why}")

    def check_root(self) -> None:
        """Check that the root still lies at its name, before a file is made or deleted by its name.

        A program may have renamed the root of an open store, and made another store in its place.

        Raises
        ------
        OSError
            As `DirectoryLock.check_in_place`.
        """
        self._root.check_in_place()

    def check_log(self) -> None:
        """Check that root and CommitLog directories still lie at their names; errors as `check_root`."""
        self._root.check_in_place()
        for lock in self._others:
            if (
                lock.directory in self._paths.commitlogs
            ):  # the others are made again if they are missing
                lock.check_in_place()

    def release(self) -> None:
        """Release all locks; do nothing if they are not held."""
        for lock in (*self._others, self._root):
            lock.release()

    def undo(self) -> None:
        """Release all locks after a failed open, and remove the directories that it created, if they are empty.

        A forked child removes none: they belong to its parent.
        """
        if os.getpid() != self._process:
            return
        if self._root.held and self._made_lock:
            with suppress(OSError):
                unlink(self._paths.lock)
        for directory in reversed(self._made):
            with suppress(OSError):
                remove_empty(directory)
        self.release()

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _check_places(paths: StorePaths) -> None:
    """Check that root and log do not lie in a directory of queues or index files, of this store or another one.

    Queue files have the names of log files: the log of one store would use the queues of the other as its own files.
    """
    root = Path(os.path.realpath(paths.root))
    own = {paths.consumequeue.name, paths.index.name}
    for directory in (paths.root, *paths.commitlogs):
        real = Path(os.path.realpath(directory))
        for part in (real, *real.parents):
            above = part.parent
            if part.name in own and (
                above == root
                or (above / paths.lock.name).is_file()
                or (above / paths.checkpoint.name).is_file()
            ):
                raise ValueError(
                    f"{directory} is inside {part}, which is the {part.name} of the store {above}"
                )


def _check_kinds(directories: tuple[Path, ...]) -> None:
    """Check that each existing path is a directory."""
    for path in directories:
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            if not path.is_symlink():
                continue
            why = f"a link to {path.readlink()}, which does not exist"
            raise FileNotFoundError(errno.ENOENT, why, os.fspath(path)) from None
        if not stat.S_ISDIR(mode):
            why = f"{kind_of(mode)}, expected a directory"
            raise NotADirectoryError(errno.ENOTDIR, why, os.fspath(path))


def _check_above(part: Path, root: Path) -> None:
    """Check that a linked part does not lead into the root of another open store.

    That store may have made the directory after its open, and so hold a lock only on its root.
    """
    above = Path(os.path.realpath(part)).parent
    if above.samefile(root):
        return
    with suppress(PermissionError):
        opened = open_folder(above)
        fd = opened.fileno()
        try:
            if held_here(os.fstat(fd)) or try_flock(fd, fcntl.LOCK_SH) is Flock.HELD:
                raise StoreLockedError(f"{part} points into {above}, which is in use")
        finally:
            opened.close()
