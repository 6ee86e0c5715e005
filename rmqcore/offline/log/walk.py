"""The walk over a CommitLog: windows through a native scan, damage skipped and reported.

A place in the log proves itself by MAGIC, lengths that add up, PHYSICALOFFSET equal to where it lies and BODYCRC. From
damage the walk goes on at the next such place (docs/reading-damaged-stores.md); what lies between is a `DamageRange`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from rmqcore._native.scan import places, scan
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.skips import Skips
from rmqcore.disk.log_window import WINDOW
from rmqcore.errors import is_unreadable
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.dledger_window import log_window
from rmqcore.offline.log.log_files import LogBytes, LogFile, LogShape, shown_folder
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.skipping import Skipping
from rmqcore.offline.log.window import SearchWindow

Rows = TypeVar("Rows", covariant=True)
Progress = Callable[[int, int], object]
CUT_OFF = {places.PAST_FILE, places.SHORT_FILE, places.DLEDGER_PAST}
"""What is wrong with the record at which a file that is too short ends."""


@dataclass(frozen=True)
class Blank:
    """The BLANK record that ends a full file."""

    phy_offset: int
    msg_size: int


class Sink(Protocol[Rows]):
    """A receiver of a walk's records: `rmqcore._native.scan.scan.ViewScan` or `ColumnScan`."""

    @property
    def pending_rows(self) -> int:
        """Rows that `take` would give."""

    def feed(
        self,
        buf: Any,
        length: int,
        pos: int,
        phy_offset: int,
        end_offset: int,
        *,
        trusted: int = -1,
        skips: Skips | None = None,
    ) -> Place:
        """Read the records from `pos` on; see `ColumnScan.feed`."""

    def take(self) -> Rows:
        """Return the rows read so far, and start anew."""


class LogEnd(Protocol):
    """End of a log according to the rest of the store; implemented in `rmqcore.offline.missing_log`."""

    def missing(self, log_end: int) -> Iterable[DamageRange]:
        """What the log lacks behind the last byte that is a record, a BLANK or damage."""

    def is_stale(self, phy_offset: int) -> bool:
        """Return True if the log was closed at this offset, so that bytes behind it that are not a record are not damage."""


class LogWalk(Generic[Rows]):
    """One pass over CommitLog files.

    Parameters
    ----------
    files : list of LogFile
        By offset.
    sink : Sink
    damage : list of DamageRange
        Appended to, in order.
    verify_crc : bool
        Leave out records that fail their CRC; they are damage either way.
    start, stop : int, optional
        CommitLog offsets: files outside are not opened. The sink's filter decides on records.
    aligned_start : bool
        A record is known to start at `start`: do not walk its file from the beginning.
    shape : LogShape, optional
        Of the whole log, when `files` are only some of it.
    blanks : bool
        Yield a `Blank` where one lies.
    long_records : LongRecords, optional
        How much of very long records the sink is given; see `SearchWindow`.
    room : int
        Bytes read at once; see `SearchWindow`. Less than the default suits a walk over little: it starts no second thread.
    progress : callable, optional
        Called with (bytes done, bytes in all).
    unreadable_files : bool
        A file that may not be read, or that the disk does not open, is damage like any other; else that is the walk's error.
    skips : bool
        The sink steps over damage by itself (`Skipping`). Without, the walk is asked at each damaged place: the same, but slow.
    end : LogEnd, optional
        What the rest of the store says of the log's end. It is asked once all files are read, unless the sink stopped the walk.

    Attributes
    ----------
    end_phy_offset : int
        Where the walk is, after it the end of the log as far as it was walked.
    stopped : bool
        The sink's stop offset ended the walk, and not the end of the log.
    """

    def __init__(
        self,
        files: list[LogFile],
        sink: Sink[Rows],
        damage: list[DamageRange],
        *,
        verify_crc: bool = False,
        start: int | None = None,
        stop: int | None = None,
        aligned_start: bool = False,
        shape: LogShape | None = None,
        blanks: bool = False,
        long_records: LongRecords | None = None,
        room: int = WINDOW,
        progress: Progress | None = None,
        unreadable_files: bool = False,
        skips: bool = True,
        end: LogEnd | None = None,
    ) -> None:
        shape = shape or LogShape.of(files)
        self._file_size = shape.file_size
        self._tail_from = shape.tail_from
        self._files = [
            file
            for file in files
            if (start is None or self._end_of(file) > start)
            and (stop is None or file.file_from_offset < stop)
        ]
        self._sink = sink
        self._damage = damage
        self._verify_crc = verify_crc
        self._aligned_start = start if aligned_start else None
        self._blanks = blanks
        self._long_records = long_records
        self._room = room
        self._progress = progress
        self._skips = skips
        self._unreadable_files = unreadable_files
        self._end = end
        self._done_bytes = 0
        self._total_bytes = sum(file.size for file in self._files)
        self.end_phy_offset = self._files[0].file_from_offset if self._files else 0
        before = [end for end in map(self._end_of, files) if start is not None and end <= start]
        self._reached = max(before, default=self.end_phy_offset)
        self.stopped = False

    def run(self) -> Iterator[Rows | Blank]:
        """Yield what the sink gathered each time it is full and at the end; holds one open file meanwhile."""
        previous: LogFile | None = None
        for file in self._files:
            if previous is not None:
                self._damage += gap_between(previous, file, self._file_size)
            try:
                if file.link_of is None:
                    yield from self._walk_file(file)
                else:
                    self._note_link(file)
            except FileNotFoundError:
                # Listed a moment ago: the owner of a live store has cleaned it since. On a remote filesystem that can also
                # be in the middle of the walk over it: what was delivered by then is not lost.
                self._add(
                    file,
                    max(0, self.end_phy_offset - file.file_from_offset),
                    self._file_size,
                    "missing_file",
                    "file",
                    "present",
                    "deleted while it was read",
                )
            except OSError as error:
                if not self._unreadable_files or not is_unreadable(error):
                    raise
                # What the walk has delivered of it by now is not lost.
                start = max(0, self.end_phy_offset - file.file_from_offset)
                reason = error.strerror or str(error)
                self._add(
                    file,
                    start,
                    file.size,
                    "unreadable",
                    "file",
                    "readable",
                    f"not readable ({reason})",
                )
            self._done_bytes += file.size
            previous = file
        if self._sink.pending_rows:
            yield self._sink.take()
        if self._end is not None and not self.stopped:
            self._damage += self._end.missing(max(self._reached, self.end_phy_offset))

    def _end_of(self, file: LogFile) -> int:
        return file.file_from_offset + max(file.size, self._file_size)

    # ---- one file -----------------------------------------------------------------------------------

    def _walk_file(self, file: LogFile) -> Iterator[Rows | Blank]:
        def unreadable(start: int, end: int, error: OSError) -> None:
            self._add(file, start, end, "unreadable", "bytes", "readable", str(error))

        with (
            file.open(unreadable) as source,
            closing(self._window(source, file.size)) as window,
        ):
            tail = file.file_from_offset >= self._tail_from
            pos = 0
            if self._aligned_start is not None:
                pos = max(0, self._aligned_start - file.file_from_offset)
            trusted = -1
            skipping = Skipping(window, file, self._damage, live=tail, leave_out=self._verify_crc)
            while True:
                place = skipping.feed(self._sink.feed, pos, trusted=trusted)
                pos = place.pos
                self.end_phy_offset = file.file_from_offset + pos
                skipping.note()
                self._report_progress(pos)
                if place.code == scan.END:
                    continue
                if place.code == scan.FULL:
                    yield self._sink.take()
                    continue
                if place.code == scan.STOP:
                    self.stopped = True
                    return
                if place.code == places.BLANK:
                    self._reached = file.file_from_offset + window.end
                    if self._blanks:
                        yield self._sink.take()
                        yield Blank(self.end_phy_offset, window.end - pos)
                    return
                if self._skips:
                    skipping.looked_at()
                if tail and window.look_again(place).code >= 0:
                    continue  # a live store's owner was in the middle of this record
                if place.code == places.BODYCRC:
                    self._note(file, pos, pos + place.size, "crc", place)
                    trusted = self.end_phy_offset
                    if self._verify_crc:
                        pos += place.size
                    continue
                next_pos, used = window.next_proven(pos, after_zeros=place.code == places.ZERO)
                if next_pos is None:
                    self._note_rest(file, window, used, place, tail=tail)
                    return
                self._note(file, pos, next_pos, "record", place)
                pos = next_pos

    def _window(self, source: LogBytes, size: int) -> SearchWindow:
        return log_window(source, size, room=self._room, long_records=self._long_records)

    def _note_link(self, file: LogFile) -> None:
        """Another name of a file that is read under its own: nothing in it says that it lies here."""
        self._add(
            file,
            0,
            file.size,
            "missing_file",
            "file",
            "one of its own",
            f"another name of {file.link_of}",
        )
        self.end_phy_offset = file.file_from_offset

    # ---- damage and progress ------------------------------------------------------------------------

    def _note_rest(
        self, file: LogFile, window: SearchWindow, used: int, place: Place, *, tail: bool
    ) -> None:
        """Nothing sound follows `place` in this file, whose last byte that is not 0 lies before `used`."""
        pos, code = place.pos, place.code
        if code == places.BLANKSIZE:
            self._note(file, pos, window.end, "blank", place)
        elif window.end < self._file_size and code in CUT_OFF:
            # A file that was cut since it was listed lacks all that it had; one that was short before ends where it ends.
            self._note(file, pos, max(window.end, file.size), "short_file", place)
        elif tail and self._is_stale(self.end_phy_offset, code):
            pass  # a writer that does not map its files left them
        elif tail:
            # Zeros behind the last record are room for more; anything else was to be a record, or is stale.
            self._note(file, pos, used, "torn_tail", place)
        else:
            self._note(file, pos, window.end, "record", place)

    def _is_stale(self, phy_offset: int, code: int) -> bool:
        return self._end is not None and code == places.NOTHING and self._end.is_stale(phy_offset)

    def _note(self, file: LogFile, start: int, end: int, kind: str, place: Place) -> None:
        self._add(file, start, end, kind, *place.describe())

    def _add(
        self,
        file: LogFile,
        start: int,
        end: int,
        kind: str,
        field: str,
        expected: object,
        found: object,
    ) -> None:
        self._damage += damage_of(file, start, end, kind, field, expected, found)
        self._reached = max(self._reached, file.file_from_offset + end)

    def _report_progress(self, pos: int) -> None:
        if self._progress is not None:
            self._progress(self._done_bytes + pos, self._total_bytes)


def gap_between(previous: LogFile, file: LogFile, file_size: int) -> list[DamageRange]:
    """What is missing between two files that follow each other in a list: the end of a short one, whole files."""
    gaps: list[DamageRange] = []
    end = previous.file_from_offset + file_size
    if previous.size < file_size:
        short_end = min(end, file.file_from_offset) - previous.file_from_offset
        gaps += damage_of(
            previous, previous.size, short_end, "short_file", "file size", file_size, previous.size
        )
    if file.file_from_offset > end:
        name = f"{shown_folder(file.path.parent)}/{end:020}"
        gaps.append(
            DamageRange(end, file.file_from_offset, "missing_file", name, "file", name, "missing")
        )
    return gaps


def damage_of(
    file: LogFile,
    start: int,
    end: int,
    kind: str,
    field: str,
    expected: object,
    found: object,
) -> list[DamageRange]:
    """A list of the range between two positions of a file; an empty list for an empty range."""
    if end <= start:
        return []
    base = file.file_from_offset
    return [DamageRange(base + start, base + end, kind, file.name, field, expected, found)]
