"""Cuts the end of the log: the bytes are first kept in `cut/`, then removed from the files.

No data is thrown away. Bytes behind the end of the log that are not zero are copied to ``<root>/cut/``, and only then
overwritten with zeros: otherwise a later scan could read a stale record as a message.

Each step can be repeated: if the process is killed at any point, the next recovery finds the same end and continues.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.format.layout import REC_HEADER_SIZE
from rmqcore.disk.data_extents import used_end
from rmqcore.disk.durable import sync_directory
from rmqcore.disk.inside.files import unlink
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.inside.opened import sync_data, write_all
from rmqcore.disk.paths import file_name
from rmqcore.disk.read_range import opened, read_exactly
from rmqcore.disk.second_names import give_own_bytes

CHUNK = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogPart:
    """Bytes [begin, end) of a file, which are cut; positions in the file."""

    path: str
    file_from_offset: int
    begin: int
    end: int

    @property
    def phy_offset(self) -> int:
        """CommitLog offset of the first byte."""
        return self.file_from_offset + self.begin

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class LogCut:
    """Bytes and files behind the end of the log.

    Attributes
    ----------
    tail : LogPart or None
        Part of the file in which the log ends; None if only zeros follow.
    later : tuple of LogPart
        Whole files behind it that hold data, with their bytes up to the last that is not zero.
    unused : tuple of str
        Empty files behind it, which were made ahead.
    """

    tail: LogPart | None
    later: tuple[LogPart, ...]
    unused: tuple[str, ...]

    @property
    def cut_bytes(self) -> int:
        """Bytes that are cut, up to the last one of each file that is not zero."""
        return sum(part.size for part in (self.tail, *self.later) if part is not None)


def find_cut(
    files: Sequence[MappedFile], file_size: int, end_offset: int, *, ends_in_blank: bool
) -> LogCut:
    """Find bytes and files behind the end of the log; files are only read.

    A BLANK that ends the last file, with only zeros behind it, does not count as data.
    """
    tail, later, unused = None, [], []
    for file in files:
        start = file.file_from_offset
        if start + file_size <= end_offset:
            continue
        begin = max(0, end_offset - start)
        holds_end = start <= end_offset
        end = used_end(file.path, begin, file_size)
        if ends_in_blank and holds_end and end <= begin + REC_HEADER_SIZE:
            end = begin
        if holds_end:
            tail = LogPart(file.path, start, begin, end) if end > begin else None
        elif end > 0:
            later.append(LogPart(file.path, start, 0, end))
        else:
            unused.append(file.path)
    return LogCut(tail, tuple(later), tuple(unused))


# ---- doing it ---------------------------------------------------------------------------------------


def take_out(cut: LogCut, folder: Path) -> tuple[str, ...]:
    """Copy or move the cut bytes into `folder`, remove them from the log, and return the files in the folder.

    Raises
    ------
    OSError
        A full disk, for example. Bytes that could not be kept are still in the log.
    """
    kept = []
    if cut.tail is not None:
        kept.append(_copy_aside(cut.tail, _made(folder)))
        _overwrite(cut.tail)
    # Newest first: the files left are always the start of the sequence, over all directories of the log.
    gone = {Path(path): None for path in cut.unused} | {Path(part.path): part for part in cut.later}
    for path in sorted(gone, key=lambda path: path.name, reverse=True):
        part = gone[path]
        if part is None:
            unlink(path)
        else:
            kept.append(_move_aside(part, _made(folder)))
        sync_directory(path.parent)
    return tuple(kept)


def _made(path: Path) -> Folder:
    """Return the folder ``cut`` of the root, made if missing; no link is followed."""
    root = Folder(path.parent)
    if not root.is_folder(path.name):
        root.make(path.name, exist_ok=True)
        root.sync()
    return root.folder(path.name)


def _copy_aside(part: LogPart, folder: Folder) -> str:
    """Copy the part's bytes into a file of their own, unless an earlier attempt has done so."""
    with opened(part.path, os.O_RDONLY) as source:
        for name in _names(part):
            if folder.status(name) is None:
                _copy(source, part, folder, name)
            elif not _same(source, part, folder, name):
                continue
            return os.fspath(folder.path / name)
    raise AssertionError("unlimited names")


def _copy(source: int, part: LogPart, folder: Folder, name: str) -> None:
    """Copy into a file that gets its name when it is complete; delete the file of an earlier attempt."""
    working = f".{name}.tmp"
    folder.delete(working, missing_ok=True)
    out = folder.open_file(working, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for at in range(part.begin, part.end, CHUNK):
            data = read_exactly(source, part.path, at, min(at + CHUNK, part.end))
            write_all(out.fileno(), data, at - part.begin)
        os.fsync(out.fileno())
    finally:
        out.close()
    folder.move(working, name)
    folder.sync()


def _move_aside(part: LogPart, folder: Folder) -> str:
    """Move a whole file; another file system gets a copy of its data."""
    name = next(name for name in _names(part) if folder.status(name) is None)
    try:
        folder.take(part.path, name)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copied = _copy_aside(part, folder)
        unlink(part.path)
        return copied
    folder.sync()
    return os.fspath(folder.path / name)


def _names(part: LogPart) -> Iterator[str]:
    """Yield the offset as a name, then further names, since an earlier recovery may have cut other bytes there."""
    name = file_name(part.phy_offset)
    yield name
    number = 1
    while True:
        yield f"{name}.{number}"
        number += 1


def _same(source: int, part: LogPart, folder: Folder, name: str) -> bool:
    """Return True if a file holds exactly the part's bytes."""
    status = folder.status(name)
    if status is None or not stat.S_ISREG(status.st_mode) or status.st_size != part.size:
        return False
    other, path = folder.open_file(name, os.O_RDONLY), os.fspath(folder.path / name)
    try:
        return all(
            read_exactly(source, part.path, at, min(at + CHUNK, part.end))
            == read_exactly(
                other.fileno(), path, at - part.begin, min(at + CHUNK, part.end) - part.begin
            )
            for at in range(part.begin, part.end, CHUNK)
        )
    finally:
        other.close()


def _overwrite(part: LogPart) -> None:
    """Write zeros over the part, only in the file of this name, and wait until they are on disk."""
    give_own_bytes(part.path)
    with opened(part.path, os.O_WRONLY) as fd:
        for at in range(part.begin, part.end, CHUNK):
            write_all(fd, bytes(min(CHUNK, part.end - at)), at)
        sync_data(fd)
