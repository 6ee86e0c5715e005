"""The ways in which a file gets into a copy: a second name, shared blocks, or copied bytes.

Each file is made under another name and gets its own when it is whole and on disk. Reading disturbs the store's owner
as little as possible: pages that were not in the page cache before are dropped again, and written pages are synced in
steps, so that the system never makes the owner wait for this program's pages.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.disk.data_extents import DataExtents, data_ranges
from rmqcore.disk.inside.clones import NO_CLONES, clone
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.inside.opened import naming, sync_data, write_all
from rmqcore.errors import is_of_the_system
from rmqcore.maintenance.backup.report import Way
from rmqcore.offline.log.log_files import LogBytes, LogFile

BLOCK = 1 << 20
SYNC_BYTES = 16 << 20
STAGING = ".backup"
WORKING = f"{STAGING}/working"
NO_LINKS = {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.EACCES}


class Source:
    """A file of the store, open."""

    def __init__(self, path: Path, opened: Descriptor, unreadable: list[str]) -> None:
        self.path = path
        self.opened = opened
        self.status = os.fstat(opened.fileno())
        if hasattr(os, "posix_fadvise"):
            # No read ahead: its pages would look like pages that the store's owner has read.
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)

        def note(start: int, end: int, error: OSError) -> None:
            unreadable.append(f"{path}: bytes {start} to {end}: {error.strerror}")

        self._bytes = LogBytes(LogFile(path, 0, max(1, self.status.st_size)), opened, note)

    @property
    def size(self) -> int:
        """Bytes when it was opened."""
        return self.status.st_size

    def read_into(self, buf: memoryview, pos: int) -> int:
        """Fill `buf`, with fewer bytes only at the end of the file; pages that were not in memory do not stay there."""
        fd = self.opened.fileno()
        if hasattr(os, "RWF_NOWAIT"):
            try:
                got = os.preadv(fd, [buf], pos, os.RWF_NOWAIT)
            except OSError as error:
                if not is_of_the_system(error):
                    raise
            else:
                if got == len(buf):
                    return got
        got = self._bytes.read_into(buf, pos)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, pos, len(buf), os.POSIX_FADV_DONTNEED)
        return got


class Copier:
    """Brings files of a store into a copy.

    Parameters
    ----------
    dest : Folder
    links, clones : bool
        True for the ways that the file systems support.
    limit_bytes_per_second : int or None
        Of what is read.
    progress : callable or None
        Called with the bytes that were dealt with since.

    Attributes
    ----------
    linked, cloned, copied, unchanged : Way
    """

    def __init__(
        self,
        dest: Folder,
        *,
        links: bool,
        clones: bool,
        limit_bytes_per_second: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._dest = dest
        self._links, self._clones = links, clones
        self._limit = limit_bytes_per_second
        self._progress = progress
        self._began, self._read_bytes = time.monotonic(), 0
        self._buf, self._other = bytearray(BLOCK), bytearray(BLOCK)
        self._changed: set[str] = set()
        self.linked, self.cloned, self.copied, self.unchanged = Way(), Way(), Way(), Way()

    # ---- ways ---------------------------------------------------------------------------------------

    def keep(self, size: int) -> None:
        """Count a file that the copy already has."""
        self.unchanged.add(size)
        self._tell(size)

    def link(self, source: Source, place: str) -> bool:
        """Hard-link a file that never changes again into the copy; return False if only a copy of its bytes is possible."""
        if not self._links:
            return False
        self._dest.delete(WORKING, missing_ok=True)
        try:
            self._dest.link(source.path, WORKING)
        except FileNotFoundError:
            return False  # the store has deleted the file since it was opened
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            return False
        linked = self._dest.status(WORKING)
        if linked is None or not os.path.samestat(linked, source.status):
            return False  # the name in the store is another file's by now
        self._put_in_place(place)
        self.linked.add(source.size)
        self._tell(source.size)
        return True

    def copy(self, source: Source, place: str, end: int | None = None) -> None:
        """Make a copy of a file: whole, or of its bytes before `end`, with zeros behind."""
        mode = source.status.st_mode & 0o777
        working = self._dest.open_file(WORKING, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)
        fd = working.fileno()
        try:
            with naming(self._dest.path / place):
                if end is None and self._clone(source, fd):
                    self.cloned.add(source.size)
                    self._tell(source.size)
                else:
                    stop = source.size if end is None else end
                    self._copy_range(source, fd, 0, stop)
                    os.ftruncate(fd, source.size)
                    self.copied.add(stop)
                times = source.status.st_atime_ns, source.status.st_mtime_ns
                os.utime(fd, ns=times)
                os.fsync(fd)
                self._forget(fd, 0, source.size)
        finally:
            working.close()
        self._put_in_place(place)

    def grow(self, source: Source, place: str, begin: int, end: int) -> None:
        """Copy the bytes from `begin` to `end` into a file of the copy, over the bytes that a killed run left there.

        The file keeps its full length during the call, because a broker refuses any other.
        """
        mine = self._dest.open_file(place, os.O_RDWR)
        fd = mine.fileno()
        try:
            with naming(self._dest.path / place):
                for first, last in list(data_ranges(fd, begin, source.size)):
                    for pos in range(first, last, BLOCK):
                        write_all(fd, bytes(min(BLOCK, last - pos)), pos)
                self._copy_range(source, fd, begin, end)
                os.utime(fd, ns=(source.status.st_atime_ns, source.status.st_mtime_ns))
                os.fsync(fd)
                self._forget(fd, begin, end)
        finally:
            mine.close()
        self.copied.add(end - begin)

    def same(self, source: Source, place: str) -> bool:
        """Return True if the copy has a file with these bytes."""
        status = self._dest.status(place)
        if status is None or status.st_size != source.size:
            return False
        return self.differs(source, place, 0, source.size) is None

    def differs(self, source: Source, place: str, begin: int, end: int) -> int | None:
        """Return the block at which a file of the copy first differs from the store's; None if they are equal."""
        mine = self._dest.open_file(place, os.O_RDONLY)
        try:
            return self._differs(source, mine.fileno(), begin, end)
        finally:
            mine.close()

    def sync(self) -> None:
        """Wait until the names of all that was made are on disk."""
        for folder in sorted(self._changed):
            for above in (folder, *map(str, PurePosixPath(folder).parents)):
                if above != ".":
                    with self._dest.folder(above) as opened:
                        opened.sync()
        self._dest.sync()
        self._changed.clear()

    # ---- bytes --------------------------------------------------------------------------------------

    def _clone(self, source: Source, fd: int) -> bool:
        if not self._clones:
            return False
        try:
            clone(source.opened.fileno(), fd)
        except OSError as error:
            if error.errno not in NO_CLONES:
                raise
            self._clones = (
                error.errno == errno.EINVAL
            )  # of this file; the others: of these file systems
            return False
        return True

    def _copy_range(self, source: Source, fd: int, begin: int, end: int) -> None:
        """Copy bytes to their places; holes stay holes."""
        unsynced, told = 0, begin
        with memoryview(self._buf) as view:
            for first, last in data_ranges(source.opened.fileno(), begin, end):
                for pos in range(first, last, BLOCK):
                    part = view[: min(BLOCK, last - pos)]
                    got = source.read_into(part, pos)
                    write_all(fd, part[:got], pos)
                    unsynced += got
                    if unsynced >= SYNC_BYTES:
                        sync_data(fd)
                        self._forget(fd, first, pos + got)
                        unsynced = 0
                    self._tell(pos + got - told)
                    told = pos + got
                    self._pace(got)
                    if got < len(part):
                        return  # the file was cut
        self._tell(end - told)

    def _differs(self, source: Source, fd: int, begin: int, end: int) -> int | None:
        """As `differs`, without reading parts that are holes in both files."""
        both = DataExtents(source.opened.fileno(), end), DataExtents(fd, end)
        pos = begin
        with memoryview(self._buf) as one, memoryview(self._other) as other:
            while pos < end:
                pos = min(extents.following(pos)[0] for extents in both)
                if pos >= end:
                    return None
                size = min(BLOCK, end - pos)
                got = source.read_into(one[:size], pos)
                if got != os.preadv(fd, [other[:size]], pos) or got < size:
                    return pos
                self._pace(got)
                same = (
                    self._buf == self._other
                    if size == BLOCK
                    else self._buf[:size] == self._other[:size]
                )
                if not same:
                    return pos
                pos += size
        return None

    @staticmethod
    def _forget(fd: int, begin: int, end: int) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_DONTNEED)

    def _pace(self, count: int) -> None:
        self._read_bytes += count
        if self._limit is not None:
            ahead = self._read_bytes / self._limit - (time.monotonic() - self._began)
            if ahead > 0:
                time.sleep(ahead)

    def _tell(self, count: int) -> None:
        if self._progress is not None and count > 0:
            self._progress(count)

    def _put_in_place(self, place: str) -> None:
        folder = str(PurePosixPath(place).parent)
        if folder != "." and folder not in self._changed:
            self._dest.make(folder, exist_ok=True)
        self._dest.move(WORKING, place)
        self._changed.add(folder)
