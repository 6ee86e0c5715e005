"""Room for appends: blocks on disk and mapped pages ahead of the writer, and the next file before it is needed.

A busy store wants its whole next file ready, a small store must not pay a gigabyte: the blocks kept ahead grow with the
bytes written since the store was opened, and pages are kept ahead only as far as a thread needs to stay in front of the
writer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rmqcore._native.files.mapped_file import MappedFile, MappedFiles
from rmqcore._native.format.layout import REC_HEADER_SIZE
from rmqcore._native.put.appender import Appender
from rmqcore._native.put.room import fill, room_end
from rmqcore.disk.durable import make_directory
from rmqcore.disk.inside.files import unlink
from rmqcore.disk.paths import file_name
from rmqcore.engine.log.log_folders import LogFolders
from rmqcore.engine.log.mapped_files import create_mapped_file

LEAST_AHEAD = 4 << 20
# A put that finds no room waits while it makes room for itself and NEEDS_AHEAD times its need beyond that, within these
# bounds; the thread that works ahead makes the rest. With 1 MiB for every put, over 100 of 2.5 million single puts took
# more than 1 ms (a machine that gave memory back to its host fetches 1 MiB in 2.7 ms), with 256 KiB only 10; but with
# 256 KiB lists of puts lost a seventh of their rate.
LEAST_CALLER_AHEAD = 256 << 10
MOST_CALLER_AHEAD = 1 << 20
NEEDS_AHEAD = 4
# Bytes of one system call. A put that allocates at the same time waits in the kernel for the call's hold on the file.
BLOCKS_STEP = 64 << 20
# Bytes of one native call, which makes pages piece by piece: the writer can use each piece when it is ready, and a call
# waits for one piece at most.
PAGES_STEP = 32 << 20
# Pages made ahead are dirty from the start: more of them would start write-back of pages that hold no message yet.
PAGES_AHEAD = 64 << 20
# Blocks for more than 1/MEMORY_SHARE of the memory are not kept ready: memory would not hold the pages written there.
MEMORY_SHARE = 16


def most_ahead(file_size: int) -> int:
    """Return the most bytes to keep ready: a whole file, or what the machine's memory allows (64 MiB at least)."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(file_size, max(64 << 20, memory // MEMORY_SHARE))


@dataclass
class _Part:
    """A file that is being filled, and the log offset up to which it has blocks; the appender knows its mapped room."""

    file: MappedFile
    allocated: int

    @property
    def start(self) -> int:
        return self.file.file_from_offset

    @property
    def end(self) -> int:
        return self.file.file_from_offset + self.file.file_size

    def allocate(self, end: int) -> None:
        """Allocate the file's blocks up to a log offset."""
        if end > self.allocated:
            self.file.allocate(self.allocated - self.start, end - self.start)
            self.allocated = end


@dataclass(frozen=True)
class _Wanted:
    """Log offsets up to which the writer should have room."""

    blocks: int
    pages: int


@dataclass(frozen=True)
class Step:
    """One step of room ahead: blocks, or pages of allocated blocks. It needs no lock."""

    part: _Part
    blocks: bool
    begin: int
    """Log offset, as `end`."""
    end: int

    def make(self, appender: Appender) -> None:
        """Allocate the blocks or make the pages.

        Raises
        ------
        OSError
            The disk has no room, or refuses.
        """
        start = self.part.start
        if self.blocks:
            self.part.file.allocate(self.begin - start, self.end - start)
        else:
            fill(appender, self.part.file, self.end, urgent=False)


@dataclass(frozen=True)
class FileStep:
    """One step of room ahead: the next file, which `LogSpace.make_file` makes."""

    start: int
    """Log offset of the file's start."""


class LogSpace:
    """Provides an Appender with files, and with room in them.

    One thread at a time: CommitLog holds the space lock around every call but `make_file`, around which it holds the
    file lock. No thread waits for the file lock while it holds the space lock: a put in a signal handler, which
    interrupts the thread that makes the file, acquires the space lock.

    Slow work is a `Step` or a `FileStep`: CommitLog makes it without the space lock, between the call that returned it
    and `done`. So a put that finds no room waits only for its own system calls and for one piece of pages; if the file
    is full, also for the next file.

    The exception of a signal handler may end any call between two bytecodes. So the next call can repeat each step: it
    looks at the disk, `files` and the appender, and does what is missing.

    Parameters
    ----------
    folders : LogFolders
    files : MappedFiles
    appender : Appender
    check_in_place : callable
        Raises OSError if the directories are no longer those that the store has locked.
    warm : bool
        warmMapedFileEnable: keep a whole file ahead, even if little was written.
    follows : bool
        True for the log of a slave: its master names the start, and no room is made before that.
    """

    def __init__(
        self,
        folders: LogFolders,
        files: MappedFiles,
        appender: Appender,
        *,
        check_in_place: Callable[[], None],
        warm: bool = False,
        follows: bool = False,
    ) -> None:
        self._follows = follows
        self._empty_at: frozenset[int] = frozenset()  # end of the log while it is empty
        self._beginning: Path | None = None  # the file that `begin_at` makes, or has made
        self._left: list[MappedFile] = []
        self._folders = folders
        self._check_in_place = check_in_place
        self.files = files
        self.appender = appender
        self.file_size = files.file_size
        self.alarm = 0
        """Log offset at or behind which the log's end must lie before `next_step` has work again."""
        self._wanted = _Wanted(0, 0)
        self._began = 0
        self._current: _Part | None = None
        # Both change under the file lock while no next file exists, and under the space lock while one exists.
        self._next: _Part | None = None
        self._making: Path | None = (
            None  # a file that a call has started to make, until `_next` holds it
        )
        self._closed = False
        self._least_ahead = files.file_size if warm else LEAST_AHEAD
        self._most_ahead = files.file_size if warm else most_ahead(files.file_size)
        self._pages_ahead = files.file_size if warm else PAGES_AHEAD

    def begin(self, tail: MappedFile | None, end_offset: int) -> None:
        """Continue at `end_offset` in the file `tail`, which has no room behind that offset yet."""
        self._began = end_offset
        if end_offset == self.files.first_offset:
            self._empty_at = frozenset((end_offset,))
        if tail is not None:
            self._current = _Part(tail, end_offset)
            self.appender.set_file(tail, end_offset, end_offset)

    @property
    def holds_nothing(self) -> bool:
        """True if the log has no record: no file, or an empty one."""
        return (
            self._next is None
            and len(self.files) <= 1
            and self.appender.max_phy_offset in self._empty_at
        )

    def begin_at(self, start: int) -> None:
        """Start an empty log at a CommitLog offset where a file starts; both locks must be held.

        Raises
        ------
        OSError
            The disk has no room, or refuses.
        """
        self.appender.state()  # refuses in a forked child, as in `next_step`
        if self._closed or not self.holds_nothing:
            return
        self._check_in_place()
        path = self._folders.for_new_file(start, self.file_size) / file_name(start)
        make_directory(path.parent)
        again, self._beginning = path == self._beginning, path
        self._empty_at |= {start}
        file = create_mapped_file(path.parent, self.file_size, start, again=again)
        if self._current is not None:
            self._left.append(self._current.file)
        self._current = _Part(file, start)
        self.files.replace([file])
        self.appender.set_file(file, start, start)
        self._empty_at = frozenset((start,))
        self._drop_left()

    def _drop_left(self) -> None:
        """Delete empty files that were made before the log's start moved."""
        kept = {file.path for file in self.files.files}
        for file in self._left:
            if file.path not in kept:
                file.seal()
                unlink(Path(file.path), missing_ok=True)
        self._left = []

    def _roll(self) -> None:
        """Make the next file the current one, if the appender has rolled into it."""
        if self._next is not None and self.appender.allocated_offset > self._next.start:
            self._current = self._next
            self._next = None

    def _ahead(self, wrote: int) -> int:
        return min(self._most_ahead, max(self._least_ahead, wrote - self._began))

    def make_room(self, needed: int) -> FileStep | None:
        """Make room for `needed` bytes of records now; after `drop_unused` do nothing, since the appender refuses them.

        If they need a file that does not exist, return its step: the caller makes it and calls again.

        Raises
        ------
        OSError
            The disk has no room, or refuses.
        """
        if self._closed:
            return None
        self._roll()
        wrote = self.appender.max_phy_offset
        needed += REC_HEADER_SIZE
        ahead = min(MOST_CALLER_AHEAD, max(LEAST_CALLER_AHEAD, NEEDS_AHEAD * needed))
        ahead = min(ahead, self._ahead(wrote))
        if self._current is not None:
            fits = wrote + needed <= self._current.end
            # If the record does not fit, a BLANK closes the file.
            target = wrote + needed + ahead if fits else self._current.end
            self._extend(self._current, target)
            if fits:
                return None
        part = self._next_part()
        if part is None:
            return FileStep(self._next_start())
        self._extend(part, part.start + needed + ahead)
        return None

    def next_step(self) -> Step | FileStep | None:
        """Return the next step of room ahead of the writer; None if there is enough.

        Raises
        ------
        OSError
            A file that was made cannot be mapped.
        """
        if self._closed:
            return None
        wrote, _ = (
            self.appender.state()
        )  # refuses in a forked child, which must not make its parent's files
        self._roll()
        if self._follows and self.holds_nothing:
            return None
        step = self._step_to(self._wanted)
        if step is None and self._want_more(wrote):
            step = self._step_to(self._wanted)
        return step

    def _want_more(self, wrote: int) -> bool:
        """Want room as far ahead as the writer is now; not before it has used half of what was wanted last.

        Otherwise the thread that follows a writer never rests: at 200 MB/s it made 70 steps per second, each for the
        bytes written during the step before, and the writer released the GIL 150 times, 0.1 ms each.
        """
        if wrote < self.alarm:
            return False
        ahead = self._ahead(wrote)
        near = min(ahead, self._pages_ahead)
        self._wanted = _Wanted(wrote + ahead, wrote + near)
        self.alarm = wrote + max(1, near // 2)
        return True

    def _step_to(self, wanted: _Wanted) -> Step | FileStep | None:
        if self._current is not None:
            step = self._step_of(self._current, wanted)
            if step is not None or wanted.blocks <= self._current.end:
                return step
        part = self._next_part()
        return FileStep(self._next_start()) if part is None else self._step_of(part, wanted)

    def _step_of(self, part: _Part, wanted: _Wanted) -> Step | None:
        """Return the step that the part needs most: pages for the next writes, then blocks for later ones."""
        allocated = part.allocated
        blocks = min(part.end, allocated + BLOCKS_STEP, wanted.blocks)
        if blocks > allocated and wanted.pages > allocated:
            return Step(part, True, allocated, blocks)
        room = room_end(self.appender, part.file)
        if room is not None:
            pages = min(allocated, room + PAGES_STEP, wanted.pages)
            if pages > room:
                return Step(part, False, room, pages)
        return Step(part, True, allocated, blocks) if blocks > allocated else None

    def done(self, step: Step | FileStep) -> None:
        """Note the blocks or the file that a step made."""
        if isinstance(step, FileStep):
            self._next_part()
        elif step.blocks:
            step.part.allocated = max(step.part.allocated, step.end)

    def _extend(self, part: _Part, offset: int) -> None:
        """Allocate a file's blocks up to a log offset, now."""
        offset = min(offset, part.end)
        part.allocate(offset)
        fill(self.appender, part.file, offset, urgent=True)

    def _next_start(self) -> int:
        return self._current.end if self._current is not None else self.files.end_offset

    def make_file(self, step: FileStep) -> None:
        """Make the next file, unless another thread has made it. `done`, or the next call, passes it to the appender.

        Raises
        ------
        OSError
            The disk has no room, or refuses.
        """
        self.appender.state()  # refuses in a forked child, as in `next_step`
        if self._closed or self._next is not None or step.start != self._next_start():
            return
        self._check_in_place()
        again = self._making is not None
        making = self._making
        if making is None:
            making = self._folders.for_new_file(step.start, self.file_size) / file_name(step.start)
        make_directory(making.parent)
        self._making = making
        file = create_mapped_file(making.parent, self.file_size, step.start, again=again)
        self._next = _Part(file, step.start)

    def _next_part(self) -> _Part | None:
        """Return the next file if it is made; list it and pass it to the appender, unless that is done."""
        part = self._next
        if part is None:
            return None
        self._making = None  # before the appender knows the file, which may hold records afterwards
        if part.file not in self.files.files:
            self.files.replace([*self.files.files, part.file])
        if self.appender.next_file is not part.file:
            self.appender.set_next_file(part.file, part.start)
        return part

    def drop_unused(self) -> None:
        """Delete an empty next file; no file is made any more. The appender is stopped, and both locks must be held."""
        self._closed = True
        self._roll()
        self._drop_left()
        unused = self._making if self._next is None else Path(self._next.file.path)
        if unused is not None:
            unlink(unused, missing_ok=True)
            self.files.replace(file for file in self.files.files if file.path != str(unused))
            self._next = self._making = None

    def release(self) -> None:
        """Close the files; the appender is stopped, and no more files are created. Both locks must be held."""
        self._closed = True
        for part in (self._current, self._next):
            if part is not None:
                part.file.seal()
        self._current = self._next = None
