"""Room for appends: blocks on disk and mapped pages ahead of the writer, and the next file before it is needed.

A busy store wants its whole next segment ready, a small one must not pay a gigabyte: what is kept ahead grows with what was
written since the store was opened.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rmqcore._native.commitlog import Appender
from rmqcore._native.mapped_file import MappedFile, MappedFiles
from rmqcore.engine.files import create_mapped_file, make_directory

BLANK_SIZE = 8
LEAST_AHEAD = 4 << 20
STEP = 64 << 20  # of one call of prepare: a put that needs room waits for the call that runs
# Populated pages are dirty from the start; more than this share of the memory would start write-back at once.
MEMORY_SHARE = 16


def most_ahead(file_size: int) -> int:
    """The most that is kept ready: a whole file, or what the machine's memory bears (64 MiB at least)."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(file_size, max(64 << 20, memory // MEMORY_SHARE))


@dataclass
class _Part:
    """A file that is being filled, and up to where it has blocks (log offsets)."""

    file: MappedFile
    allocated: int

    @property
    def end(self) -> int:
        return self.file.file_from_offset + self.file.file_size

    def extend(self, offset: int) -> int:
        """Give it blocks and pages up to a log offset; answer up to where it has them."""
        offset = min(offset, self.end)
        if offset > self.allocated:
            start = self.file.file_from_offset
            self.file.allocate(self.allocated - start, offset - start)
            self.file.populate(self.allocated - start, offset - start)
            self.allocated = offset
        return self.allocated


class LogSpace:
    """Keeps an Appender in files. One thread at a time (CommitLog holds a lock around it).

    Parameters
    ----------
    directory : Path
    files : MappedFiles
    appender : Appender
    warm : bool
        warmMapedFileEnable: always a whole file ahead, whatever was written.
    """

    def __init__(
        self, directory: Path, files: MappedFiles, appender: Appender, *, warm: bool = False
    ) -> None:
        self.directory = directory
        self.files = files
        self.appender = appender
        self.file_size = files.file_size
        self.alarm = 0
        """End of the log at which `prepare` has something to do again."""
        self._began = 0
        self._current: _Part | None = None
        self._next: _Part | None = None
        self._least_ahead = files.file_size if warm else LEAST_AHEAD
        self._most_ahead = files.file_size if warm else most_ahead(files.file_size)

    def begin(self, tail: MappedFile | None, end_offset: int) -> None:
        """Go on at `end_offset` in `tail`; nothing of it counts as allocated until it is asked for."""
        self._began = end_offset
        if tail is not None:
            self._current = _Part(tail, end_offset)
            self.appender.set_file(tail, end_offset, end_offset)

    def _roll(self) -> None:
        """Notice that the appender went on to the next file."""
        if self._next is not None and not self.appender.has_next_file:
            self._current, self._next = self._next, None

    def _ahead(self, wrote: int) -> int:
        return min(self._most_ahead, max(self._least_ahead, wrote - self._began))

    def make_room(self, needed: int) -> None:
        """Make room for `needed` bytes of records now.

        Raises
        ------
        OSError
            There is none.
        """
        self._roll()
        wrote = self.appender.max_phy_offset
        ahead = self._ahead(wrote)
        needed += BLANK_SIZE
        if self._current is not None:
            fits = wrote + needed <= self._current.end
            # Where it does not fit a BLANK closes the file.
            target = wrote + needed + ahead if fits else self._current.end
            self._extend(self._current, target)
            if fits:
                return
        self._make_next()
        assert self._next is not None
        self._extend(self._next, self._next.file.file_from_offset + needed + ahead)

    def prepare(self) -> bool:
        """Make one more step of room ahead of the writer; answer whether more is wanted now.

        Raises
        ------
        OSError
            There is none.
        """
        self._roll()
        wrote = self.appender.max_phy_offset
        if self._current is None:
            self.alarm = wrote + 1
            return False
        target = wrote + self._ahead(wrote)
        self.alarm = wrote + max(1, (target - wrote) // 2)
        part = self._current
        if part.allocated == part.end and target > part.end:
            self._make_next()
            assert self._next is not None
            part = self._next
        self._extend(part, min(target, part.allocated + STEP))
        more_files = part is self._current and target > part.end
        return more_files or part.allocated < min(target, part.end)

    def _extend(self, part: _Part, offset: int) -> None:
        before = part.allocated
        if part.extend(offset) > before:
            self.appender.set_allocated(part.allocated)

    def _make_next(self) -> None:
        if self._next is not None:
            return
        start = self._current.end if self._current is not None else self.files.end_offset
        make_directory(self.directory)
        file = create_mapped_file(self.directory, self.file_size, start)
        self._next = _Part(file, start)
        self.files.replace([*self.files.files, file])
        self.appender.set_next_file(file, start)

    def drop_unused(self) -> None:
        """Delete a next file that holds nothing; the appender is stopped."""
        self._roll()
        if self._next is not None:
            unused, self._next = self._next.file, None
            self.files.replace(file for file in self.files.files if file is not unused)
            Path(unused.path).unlink()
