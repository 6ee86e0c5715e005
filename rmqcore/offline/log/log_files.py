"""CommitLog files as an offline reader sees them: found from names and sizes, read by `pread`, never mapped.

A file that another process cuts under a mapping kills the reader with SIGBUS; a `pread` of it answers fewer bytes.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nsmallest
from itertools import islice, pairwise
from pathlib import Path, PurePath

from rmqcore._native.format.layout import REC_HEADER_SIZE, REC_PHYSICALOFFSET
from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.disk.data_extents import DataExtents
from rmqcore.disk.inside.files import open_file
from rmqcore.disk.paths import FILE_NAME_DIGITS, MAX_OFFSET, StorePaths, parse_file_name
from rmqcore.disk.read_range import read_range
from rmqcore.disk.same_name import compared
from rmqcore.disk.store_kinds import (
    ASKED_FILES,
    BEGINNING,
    COMPACTED,
    LogKind,
    is_dledger_name,
    log_kind,
)
from rmqcore.offline.remote.remote_paths import RemotePaths
from rmqcore.vocabulary.units import PAGE

DEFAULT_FILE_SIZE = 1024 * 1024 * 1024
DLEDGER_POS = 24
"""Where the head of a DLedger entry says where it lies."""


@dataclass(frozen=True)
class LogFile:
    """One CommitLog file.

    Attributes
    ----------
    path : PurePath
        On a local disk, or within the filesystem that a subclass reads from.
    file_from_offset : int
        CommitLog offset of its first byte, from its name.
    size : int
        Bytes when the directory was listed.
    link_of : str or None
        The name of another file of the log that this is only another name of (a hard link): no record says that it lies here.
    dledger : bool
        The file is one of a DLedger log: each record lies behind a head (`rmqcore.offline.log.dledger_window`).
    """

    path: PurePath
    file_from_offset: int
    size: int
    link_of: str | None = None
    dledger: bool = False

    @property
    def location(self) -> str:
        """Where the file lies: its path, or its URI on another filesystem."""
        return str(self.path)

    @property
    def is_local(self) -> bool:
        """True if reading a few bytes is cheap."""
        return True

    @property
    def end_offset(self) -> int:
        """CommitLog offset of the first byte behind the file."""
        return self.file_from_offset + self.size

    @cached_property
    def name(self) -> str:
        """The file as messages name it: ``commitlog/00000000000000000000``."""
        return f"{shown_folder(self.path.parent)}/{self.path.name}"

    def open(
        self, unreadable: Callable[[int, int, OSError], None]
    ) -> AbstractContextManager[LogBytes]:
        """Open for positional reads; see `LogBytes`."""
        return open_log_file(self, unreadable)

    def exists(self) -> bool:
        """Return True if the file is still there."""
        return Path(self.path).exists()

    def read_range(self, pos: int, count: int) -> bytes:
        """Read `count` bytes at `pos`; fewer at the end of the file, none where it is not there any more."""
        return read_range(str(self.path), pos, count)

    def read_until(self, end_offset: int | None) -> LogFile:
        """The same file for a reader that needs little behind a CommitLog offset: a hint how far to read ahead."""
        del end_offset
        return self


@dataclass(frozen=True)
class LogShape:
    """Facts about the other files that a walk over one file needs.

    Attributes
    ----------
    file_size : int
        Bytes that every file should have; see `mapped_file_size`.
    tail_from : int
        CommitLog offset of the file in which the log ends; see `tail_offset`.
    """

    file_size: int
    tail_from: int

    @classmethod
    def of(cls, files: list[LogFile]) -> LogShape:
        """The shape of a log, from all its files; reads the beginning of the last ones."""
        return cls(mapped_file_size(files), tail_offset(files))


def shown_folder(folder: PurePath) -> str:
    """The directory of a log as messages name it: ``commitlog``, ``dledger-n0/data``, ``compaction/compactionLog/T/0``."""
    topic = folder.parent
    if topic.parent.as_posix().endswith(f"/{COMPACTED}"):
        return f"{COMPACTED}/{topic.name}/{folder.name}"
    place = f"{folder.parent.name}/{folder.name}"
    return place if is_dledger_name(place) else folder.name


def check_log_directories(paths: StorePaths) -> None:
    """Check that each directory of a log with several can be listed: without it half a log would be read.

    Raises
    ------
    FileNotFoundError, NotADirectoryError, PermissionError
        One cannot.
    """
    if len(paths.commitlogs) > 1:
        for directory in paths.commitlogs:
            os.scandir(directory).close()


def check_one_log(paths: StorePaths) -> None:
    """Check that a configuration does not name another CommitLog than the one below the store's root, or the root itself.

    The `broker.conf` of a store, and a copy of that store: the log of the one would be read with the queues of the other.

    Raises
    ------
    ValueError
        It does.
    """
    named = {os.path.realpath(directory) for directory in paths.commitlogs}
    for directory in (paths.root / "commitlog", paths.root):
        names = os.listdir(directory) if directory.is_dir() else []
        if any(map(is_log_file, names)) and os.path.realpath(directory) not in named:
            where = ", ".join(map(str, paths.commitlogs))
            raise ValueError(
                f"{directory} has CommitLog files, but the config names {where}: choose one with "
                "commitlog"
            )


def is_log_file(name: str) -> bool:
    """Return True if a name is that of a CommitLog file."""
    return len(name) == FILE_NAME_DIGITS and name.isascii() and name.isdigit()


def holds_store(names: Iterable[str]) -> bool:
    """Return True if a directory with these names in it is a store's root."""
    parts = {"commitlog", "consumequeue", "index", "checkpoint"}
    return any(name in parts or is_dledger_name(f"{name}/data") for name in names)


def holds_log_files(directory: str, names: Iterable[str]) -> bool:
    """Return True if a directory of this name, with these names in it, is a CommitLog's."""
    return directory == "commitlog" or any(map(is_log_file, names))


def list_log_files(paths: StorePaths) -> list[LogFile]:
    """CommitLog files by offset; empty files, and names that are no offset, are left out (`fsck` lists them).

    Of a file with several names all but one are a `LogFile.link_of` it.

    Raises
    ------
    LogFileTwiceError
        A file lies in two directories of the log. With `StorePaths.leave_out_links` the first one is listed.
    """
    found: list[LogFile] = []
    links: dict[tuple[int, int], list[int]] = {}
    seen: set[tuple[int, int]] = set()
    for directory in paths.commitlogs:
        try:
            status = directory.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue  # another name of a directory that was listed
            seen.add((status.st_dev, status.st_ino))
            begin = len(found)
            _list_into(found, links, directory, follow_symlinks=not paths.leave_out_links)
            mark_dledger(found, begin, paths)
        except FileNotFoundError:
            continue
    if isinstance(paths, RemotePaths):
        found = _as_listed(paths, found)
    # Not before: a directory of 100,000 files is not held twice.
    found.sort(key=lambda file: file.file_from_offset)
    if len(seen) > 1:
        twins = [
            other
            for one, other in pairwise(found)
            if one.file_from_offset == other.file_from_offset
        ]
        for other in twins:
            one = next(file for file in found if file.file_from_offset == other.file_from_offset)
            if not paths.leave_out_links:
                raise compared(one.location, one.read_range, other.location, other.read_range)
            found.remove(other)
    for names in links.values():
        if len(names) > 1:
            _name_links(found, set(names))
    return found


def mark_dledger(
    found: list[LogFile], begin: int = 0, paths: StorePaths | None = None
) -> list[LogFile]:
    """Mark the files from `begin` on, which lie in one directory, if they are a DLedger log. Returns the list."""
    ours = islice(found, begin, None)
    oldest = nsmallest(ASKED_FILES, ours, key=lambda file: file.file_from_offset)
    if isinstance(paths, RemotePaths):
        oldest = _as_listed(paths, oldest)
    if _is_dledger(oldest):
        found[begin:] = [replace(file, dledger=True) for file in found[begin:]]
    return found


def _is_dledger(oldest: Iterable[LogFile]) -> bool:
    """Return True if a directory's oldest files are a DLedger log; if their first bytes are damaged, its name decides."""
    folder = PurePath()
    for file in oldest:
        folder = file.path.parent
        if folder.name == "commitlog" and not file.is_local:
            return False  # saves a request
        with suppress(OSError):  # the reader of the file reports it
            kind = log_kind(file.read_range(0, BEGINNING))
            if kind is not LogKind.UNKNOWN:
                return kind is LogKind.DLEDGER
    return is_dledger_name(shown_folder(folder))


def _as_listed(paths: RemotePaths, found: list[LogFile]) -> list[LogFile]:
    from rmqcore.offline.log.listed_log_file import (
        listed_log_file,  # which makes its class of `LogFile`
    )

    return [listed_log_file(paths, file) for file in found]


def _name_links(found: list[LogFile], offsets: set[int]) -> None:
    """Note which names of one file are not its own: its own is the one that its first record says, else the first."""
    places = [at for at, file in enumerate(found) if file.file_from_offset in offsets]
    own = next((at for at in places if _says_its_place(found[at])), places[0])
    for at in places:
        if at != own:
            found[at] = replace(found[at], link_of=found[own].name)


def _says_its_place(file: LogFile) -> bool:
    place = file.read_range(DLEDGER_POS if file.dledger else REC_PHYSICALOFFSET, 8)
    return len(place) == 8 and int.from_bytes(place, "big") == file.file_from_offset


def _list_into(
    found: list[LogFile],
    links: dict[tuple[int, int], list[int]],
    directory: Path,
    *,
    follow_symlinks: bool,
) -> None:
    with os.scandir(directory) as entries:
        for entry in entries:
            file_from_offset = parse_file_name(entry.name)
            if file_from_offset is None or not entry.is_file(follow_symlinks=follow_symlinks):
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:  # the cleaner was faster
                continue
            size = status.st_size
            if 0 < size <= MAX_OFFSET - file_from_offset:
                if status.st_nlink > 1:
                    links.setdefault((status.st_dev, status.st_ino), []).append(file_from_offset)
                found.append(LogFile(Path(entry.path), file_from_offset, size))


def mapped_file_size(files: list[LogFile]) -> int:
    """Bytes that every CommitLog file of this store should have (mappedFileSizeCommitLog).

    Most files have it; with two or more files the distance of their names decides between candidates.
    """
    if not files:
        return DEFAULT_FILE_SIZE
    votes = Counter(file.size for file in files)
    for one, other in pairwise(files):
        votes[other.file_from_offset - one.file_from_offset] += 1
    return max(votes, key=lambda size: (votes[size], size))


def tail_offset(files: list[LogFile]) -> int:
    """Offset of the file in which the log ends: behind it are only files that were allocated ahead and hold nothing yet.

    Java allocates the next file while the current one is being filled, so a store that is in use or was killed has one.
    """
    for file in reversed(files):
        if file.link_of is None and _begins_with_data(file):
            return file.file_from_offset
    return files[0].file_from_offset if files else 0


def _begins_with_data(file: LogFile) -> bool:
    """Return True if one of the first bytes, where MAGIC lies, is not 0, or cannot be read."""
    unread: list[OSError] = []
    header = bytearray(REC_HEADER_SIZE)
    try:
        with file.open(lambda start, end, error: unread.append(error)) as source:
            got = source.read_into(memoryview(header), 0)
    except OSError:
        return True
    return bool(unread) or bool(header[:got].strip(b"\0"))


class LogBytes:
    """Positional reads of one open file, with bad sectors given as zeros and reported.

    Parameters
    ----------
    file : LogFile
    unreadable : callable
        Told ``(start, end, error)``, positions in the file, of what the disk did not give; once each.

    Attributes
    ----------
    extents : DataExtents or None
        Where the file has bytes; None on a filesystem that cannot tell.
    descriptor : Descriptor or None
        The open file; None on a remote filesystem.

    Notes
    -----
    Not safe to share between threads.
    """

    def __init__(
        self,
        file: LogFile,
        descriptor: Descriptor | None,
        unreadable: Callable[[int, int, OSError], None],
    ) -> None:
        self.file = file
        self.descriptor = descriptor
        self._fd = -1 if descriptor is None else descriptor.fileno()
        self.extents = None if descriptor is None else DataExtents(self._fd, file.size)
        self._unreadable = unreadable
        self._told: set[int] = set()

    def read_into(self, buf: memoryview, pos: int) -> int:
        """Fill `buf` from byte `pos` of the file on; answer the bytes read, fewer only at its end."""
        return self._read(buf, pos, tell=True)

    def peek_into(self, buf: memoryview, pos: int) -> int:
        """The same for bytes that are only looked at on the way: bad sectors are told when they are read in their turn."""
        return self._read(buf, pos, tell=False)

    def _read(self, buf: memoryview, pos: int, *, tell: bool) -> int:
        done = 0
        while done < len(buf):
            try:
                got = os.preadv(self._fd, [buf[done:] if done else buf], pos + done)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                got = self._read_page(buf[done:], pos + done, tell=tell)
            if got == 0:
                break
            done += got
        return done

    def read_plain(self, buf: bytearray, begin: int, end: int, pos: int) -> int:
        """Fill ``buf[begin:end]`` with one read from byte `pos` on; an error of the disk is the caller's.

        Safe in another thread than the other methods: it changes nothing but `buf`.
        """
        with memoryview(buf) as view:
            return os.preadv(self._fd, [view[begin:end]], pos)

    def _read_page(self, buf: memoryview, pos: int, *, tell: bool) -> int:
        """One page that may be bad: zeros then."""
        part = buf[: min(len(buf), PAGE - pos % PAGE)]
        try:
            return os.preadv(self._fd, [part], pos)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            part[:] = bytes(len(part))
            if tell and pos not in self._told:
                self._told.add(pos)
                self._unreadable(pos, pos + len(part), error)
            return len(part)


@contextmanager
def open_log_file(
    file: LogFile, unreadable: Callable[[int, int, OSError], None]
) -> Iterator[LogBytes]:
    """Open a file for positional reads."""
    opened = open_file(file.path, os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        yield LogBytes(file, opened, unreadable)
    finally:
        opened.close()
