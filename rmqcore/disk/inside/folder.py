"""An open directory and the files below it, opened name by name from its descriptor, so that no path leads out."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Self

from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.disk.inside.files import open_file_in, open_folder, open_folder_in
from rmqcore.disk.inside.links import link_error
from rmqcore.disk.inside.opened import naming, read_all, sync_file_system, sync_open, write_all
from rmqcore.errors import StoreError, StoreFormatError

MOST_DEEP = 256
MOST_NAMES = 10_000
"""Most names to hold in memory while their files are deleted."""


class Folder:
    """An open directory. A *place* is a path below it, with ``/`` between names.

    No name of a place is followed if it is a link, even one made during the call: a place leads to a file or directory
    inside, or to an error. After a rename of its path the directory is still the one that was opened.

    Parameters
    ----------
    path : path-like
        Chosen by the caller: links in it are followed.
    opened : Descriptor, optional
        The directory, if it is already open.

    Raises
    ------
    LinkError
        From any method: a name of the place is a link.
    StoreFormatError
        From any method: the place leads outside (absolute, ``..``), or to something other than a file or directory.
    OSError
        Errors of the system.

    Notes
    -----
    Thread safety: all methods except `close` may run at the same time.
    """

    def __init__(self, path: str | os.PathLike[str], opened: Descriptor | None = None) -> None:
        self.path = Path(path)
        self._open = open_folder(self.path) if opened is None else opened

    def folder(self, place: str, *, make: bool = False) -> Folder:
        """Open a directory inside; with `make`, make it and the directories above it if they are missing."""
        return Folder(self.path / place, self._reach(_steps(place), make=make))

    def _reach(self, steps: list[str], *, make: bool = False) -> Descriptor:
        at, path = self._open, self.path
        for name in steps:
            path /= name
            if make:
                with suppress(FileExistsError), naming(path):
                    os.mkdir(name, dir_fd=at.fileno())
            at = open_folder_in(at, name, path)
        return at

    def _above(self, place: str) -> tuple[Descriptor, str]:
        *above, name = _steps(place)
        return self._reach(above), name

    # ---- looking ------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the sorted names in the directory."""
        return sorted(os.listdir(self._open.fileno()))

    def _each_name(self) -> Iterator[str]:
        """Yield the names in the directory, unordered: they may not all fit in memory."""
        with os.scandir(self._open.fileno()) as found:
            for entry in found:
                yield entry.name

    def status(self, place: str) -> os.stat_result | None:
        """Return the status of a path, without following a link; None if it does not exist."""
        try:
            above, name = self._above(place)
            return os.stat(name, dir_fd=above.fileno(), follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_folder(self, place: str) -> bool:
        """Return True if a place is a directory; raise an error for a link."""
        status = self.status(place)
        if status is None:
            return False
        if stat.S_ISLNK(status.st_mode):
            raise link_error(self.path / place)
        return stat.S_ISDIR(status.st_mode)

    def open_file(self, place: str, flags: int, mode: int = 0o644) -> Descriptor:
        """Open a regular file; `flags` and `mode` are those of ``os.open``."""
        above, name = self._above(place)
        return open_file_in(above, name, flags, self.path / place, mode)

    def read(self, place: str) -> bytes:
        """Read a whole file."""
        return read_all(self.open_file(place, os.O_RDONLY), self.path / place)

    # ---- changing -----------------------------------------------------------------------------------

    def write(self, place: str, data: bytes, *, backup: str | None = None) -> None:
        """Write a small file: after a crash at any moment the new or the old file is there, as a whole.

        Half-written files of an earlier call are deleted. The old file is renamed to `backup`, a name beside it: after
        a crash between the two renames only the backup exists.
        """
        above, name = self._above(place)
        working, path = f".{name}.tmp", self.path / place
        with suppress(FileNotFoundError), naming(path):
            os.unlink(working, dir_fd=above.fileno())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        file = open_file_in(above, working, flags, path.with_name(working))
        try:
            with naming(path):
                write_all(file.fileno(), data, 0)
                os.fsync(file.fileno())
        except OSError:
            os.unlink(working, dir_fd=above.fileno())
            raise
        finally:
            file.close()
        if backup is not None:
            with suppress(FileNotFoundError), naming(path):
                os.replace(name, backup, src_dir_fd=above.fileno(), dst_dir_fd=above.fileno())
        with naming(path):
            os.replace(working, name, src_dir_fd=above.fileno(), dst_dir_fd=above.fileno())
        sync_open(above, path.parent)

    def move(self, place: str, target: str, to: Folder | None = None) -> None:
        """Move a file or directory, within this folder or to the folder `to`; a file or link at the new place is replaced."""
        above, name = self._above(place)
        into, new = (to or self)._above(target)  # noqa: SLF001  (of the same class)
        with naming(self.path / place):
            os.replace(name, new, src_dir_fd=above.fileno(), dst_dir_fd=into.fileno())

    def take(self, path: str | os.PathLike[str], place: str) -> None:
        """Move a file or directory from a path on the same file system, which the caller vouches for, to a place."""
        above, name = self._above(place)
        os.rename(path, name, dst_dir_fd=above.fileno())

    def link(self, path: str | os.PathLike[str], place: str) -> None:
        """Hard-link a file of the same file system into this folder; a link is linked itself, not its target."""
        above, name = self._above(place)
        os.link(path, name, dst_dir_fd=above.fileno(), follow_symlinks=False)

    def make(self, place: str, *, exist_ok: bool = False) -> None:
        """Make a directory; with `exist_ok` it may exist, and missing directories above it are made."""
        if exist_ok:
            self._reach(_steps(place), make=True)
            return
        above, name = self._above(place)
        with naming(self.path / place):
            os.mkdir(name, dir_fd=above.fileno())

    def delete(self, place: str, *, missing_ok: bool = False) -> None:
        """Delete a file; a link goes itself, and what it leads to stays."""
        with _missing(missing_ok):
            above, name = self._above(place)
            with naming(self.path / place):
                os.unlink(name, dir_fd=above.fileno())

    def remove_empty(self, place: str) -> None:
        """Delete a directory in which nothing lies."""
        above, name = self._above(place)
        with naming(self.path / place):
            os.rmdir(name, dir_fd=above.fileno())

    def remove(self, place: str, *, missing_ok: bool = True) -> None:
        """Delete the file or directory at a place, with all files below it; of a link, only the link itself.

        Raises
        ------
        StoreError
            Another file system is mounted there, or directories are nested too deep. Files deleted before that stay
            deleted.
        """
        with _missing(missing_ok):
            above, name = self._above(place)
            _remove(above, name, self.path / place, self.device, 0)

    def fileno(self) -> int:
        """The descriptor's number, for a lock."""
        return self._open.fileno()

    @property
    def device(self) -> int:
        """The file system's number."""
        return os.fstat(self._open.fileno()).st_dev

    # ---- on disk ------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Wait until the names in the directory are on disk."""
        sync_open(self._open, self.path)

    def sync_file_system(self) -> None:
        """Wait until all writes to the directory's file system are on disk: one wait instead of one per file."""
        sync_file_system(self._open, self.path)

    def sync_tree(self) -> None:
        """Wait until all files below, and their names, are on disk."""
        for name in self._each_name():
            if self.is_folder(name):
                self.folder(name).sync_tree()
            else:
                sync_open(self.open_file(name, os.O_RDONLY), self.path / name)
        self.sync()

    def sync_names(self) -> None:
        """Wait until the names of all files below are on disk; their bytes already are."""
        for name in self._each_name():
            if self.is_folder(name):
                self.folder(name).sync_names()
        self.sync()

    def close(self) -> None:
        """Close it; may be repeated."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Folder {str(self.path)!r}>"


def open_target(path: Path, root: Path, *, make: bool = False) -> Folder:
    """Open a directory of the caller, or one in a store's root, which must not be a link.

    Parameters
    ----------
    path : Path
    root : Path
        Root of the store.
    make : bool
        Make the directory if it is missing; for a directory of the caller also those above it.
    """
    if path.parent == root:
        return Folder(root).folder(path.name, make=make)
    if make:
        path.mkdir(parents=True, exist_ok=True)
    return Folder(path)


def remove_made(path: Path) -> None:
    """Delete a directory that this program has made, with all files below it; it may be missing."""
    with suppress(FileNotFoundError), Folder(path.parent) as above:
        above.remove(path.name)


def _steps(place: str) -> list[str]:
    """Return the names of a place.

    Raises
    ------
    StoreFormatError
        The place is empty or absolute, or one of its names is empty, ``.`` or ``..``.
    """
    steps = place.split("/")
    if any(name in ("", ".", "..") or "\0" in name for name in steps):
        raise StoreFormatError(
            f"{place!r} is not a path inside a directory, expected names separated by /"
        )
    return steps


@contextmanager
def _missing(missing_ok: bool) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        if not missing_ok:
            raise


def _remove(above: Descriptor, name: str, path: Path, device: int, depth: int) -> None:
    status = os.stat(name, dir_fd=above.fileno(), follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        with naming(path):
            os.unlink(name, dir_fd=above.fileno())
        return
    if status.st_dev != device:
        raise StoreError(f"{path}: another file system is mounted here, and is not deleted")
    if depth > MOST_DEEP:
        raise StoreError(f"{path}: more than {MOST_DEEP} nested directories")
    inside = open_folder_in(above, name, path)
    while True:
        with os.scandir(inside.fileno()) as found:
            names = [entry.name for entry in islice(found, MOST_NAMES)]
        for entry in names:
            _remove(inside, entry, path / entry, device, depth + 1)
        if len(names) < MOST_NAMES:
            break
    inside.close()
    with naming(path):
        os.rmdir(name, dir_fd=above.fileno())
