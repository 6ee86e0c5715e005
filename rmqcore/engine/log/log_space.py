"""Room for appends: blocks on disk and mapped pages ahead of the writer, and the next file before it is needed.

A busy store wants its whole next file ready, a small store must not pay a gigabyte: the room kept ahead grows with the bytes
written since the store was opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rmqcore._native.format.layout import REC_HEADER_SIZE
from rmqcore._native.put.appender import Appender
from rmqcore._native.put.mapped_file import MappedFile, MappedFiles
from rmqcore.disk.durable import make_directory
from rmqcore.disk.inside.files import unlink
from rmqcore.disk.paths import file_name
from rmqcore.engine.log.log_folders import LogFolders
from rmqcore.engine.log.mapped_files import create_mapped_file

LEAST_AHEAD = 4 << 20
STEP = (
    64 << 20
)  # bytes that one call of `prepare` makes: a put that needs room waits for the call that runs
# Populated pages are dirty from the start; more than one part in so many of the memory would start write-back at once.
MEMORY_SHARE = 16


def most_ahead(file_size: int) -> int:
    """Give the most bytes to keep ready: a whole file, or as much as the machine's memory bears (64 MiB at least)."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(file_size, max(64 << 20, memory // MEMORY_SHARE))


@dataclass
class _Part:
    """A file that is being filled, and the log offset up to which it has blocks."""

    file: MappedFile
    allocated: int

    @property
    def start(self) -> int:
        return self.file.file_from_offset

    @property
    def end(self) -> int:
        return self.file.file_from_offset + self.file.file_size

    def extend(self, offset: int) -> int:
        """Give the file blocks and pages up to a log offset; answer the offset up to which it has them."""
        offset = min(offset, self.end)
        if offset > self.allocated:
            self.file.allocate(self.allocated - self.start, offset - self.start)
            self.file.populate(self.allocated - self.start, offset - self.start)
            self.allocated = offset
        return self.allocated


class LogSpace:
    """Gives an Appender its files, and room in them. One thread at a time: CommitLog holds a lock around every call.

    Any call may end between two bytecodes with the exception of a signal handler. So each step here is one that the next call
    can do once more: it asks what is there, on disk, in `files` and in the appender, and does what is missing.

    Parameters
    ----------
    folders : LogFolders
    files : MappedFiles
    appender : Appender
    check_in_place : callable
        Raises OSError where the directories are no longer those that the store has locked.
    warm : bool
        warmMapedFileEnable: keep a whole file ahead, however little was written.
    """

    def __init__(
        self,
        folders: LogFolders,
        files: MappedFiles,
        appender: Appender,
        *,
        check_in_place: Callable[[], None],
        warm: bool = False,
    ) -> None:
        self._folders = folders
        self._check_in_place = check_in_place
        self.files = files
        self.appender = appender
        self.file_size = files.file_size
        self.alarm = 0
        """Log offset: once the log ends there or behind it, `prepare` has something to do again."""
        self._began = 0
        self._current: _Part | None = None
        self._next: _Part | None = None
        self._making: Path | None = None  # a file that a call began to make, until `_next` has it
        self._closed = False
        self._least_ahead = files.file_size if warm else LEAST_AHEAD
        self._most_ahead = files.file_size if warm else most_ahead(files.file_size)

    def begin(self, tail: MappedFile | None, end_offset: int) -> None:
        """Go on at `end_offset` in the file `tail`; no byte behind it counts as allocated yet."""
        self._began = end_offset
        if tail is not None:
            self._current = _Part(tail, end_offset)
            self.appender.set_file(tail, end_offset, end_offset)

    def _roll(self) -> None:
        """Notice that the appender went on to the next file: then it has blocks there."""
        if self._next is not None and self.appender.allocated_offset > self._next.start:
            self._current = self._next
            self._next = None

    def _ahead(self, wrote: int) -> int:
        return min(self._most_ahead, max(self._least_ahead, wrote - self._began))

    def make_room(self, needed: int) -> None:
        """Make room for `needed` bytes of records now; after `drop_unused` do nothing, since the appender refuses them.

        Raises
        ------
        OSError
            The disk has no room, or refuses.
        """
        if self._closed:
            return
        self._roll()
        wrote = self.appender.max_phy_offset
        ahead = self._ahead(wrote)
        needed += REC_HEADER_SIZE
        if self._current is not None:
            fits = wrote + needed <= self._current.end
            # Where the record does not fit, a BLANK closes the file.
            target = wrote + needed + ahead if fits else self._current.end
            self._extend(self._current, target)
            if fits:
                return
        part = self._make_next()
        self._extend(part, part.start + needed + ahead)

    def prepare(self) -> bool:
        """Make one more step of room ahead of the writer; answer whether more is wanted now.

        Raises
        ------
        OSError
            The disk has no room, or refuses.
        """
        if self._closed:
            return False
        self._roll()
        wrote = self.appender.max_phy_offset
        if self._current is None:
            self.alarm = wrote + 1
            return False
        target = wrote + self._ahead(wrote)
        self.alarm = wrote + max(1, (target - wrote) // 2)
        part = self._current
        if part.allocated == part.end and target > part.end:
            part = self._make_next()
        self._extend(part, min(target, part.allocated + STEP))
        more_files = part is self._current and target > part.end
        return more_files or part.allocated < min(target, part.end)

    def _extend(self, part: _Part, offset: int) -> None:
        # Told in any case: an interrupt may have come between an earlier allocation and its telling, and a put that waits for
        # the room would ask for it again and again.
        if part.extend(offset) > part.start:
            self.appender.set_allocated(part.allocated)

    def _make_next(self) -> _Part:
        """Give the next file; make it, list it and tell the appender of it, as far as that is not done."""
        if self._next is None:
            self._check_in_place()
            start = self._current.end if self._current is not None else self.files.end_offset
            again = self._making is not None
            making = self._making
            if making is None:
                making = self._folders.for_new_file(start, self.file_size) / file_name(start)
            make_directory(making.parent)
            self._making = making
            file = create_mapped_file(making.parent, self.file_size, start, again=again)
            self._next = _Part(file, start)
        part = self._next
        self._making = None  # before the appender knows the file: from then on it may hold records
        if part.file not in self.files.files:
            self.files.replace([*self.files.files, part.file])
        if self.appender.next_file is not part.file:
            self.appender.set_next_file(part.file, part.start)
        return part

    def drop_unused(self) -> None:
        """Delete a next file that holds nothing; the appender is stopped, and no file is made any more."""
        self._closed = True
        self._roll()
        unused = self._making if self._next is None else Path(self._next.file.path)
        if unused is not None:
            unlink(unused, missing_ok=True)
            self.files.replace(file for file in self.files.files if file.path != str(unused))
            self._next = self._making = None

    def release(self) -> None:
        """Let go of the files; the appender is stopped, and no file is made any more."""
        self._closed = True
        for part in (self._current, self._next):
            if part is not None:
                part.file.seal()
        self._current = self._next = None
