"""The file in which a live log ends: its records up to the first place without a whole record.

Records behind that place are not read. A writer may be in the middle of a record there, and the bytes behind it may be
sound records of an earlier use of the file, at their offsets. They are only searched, so that damage can be reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqcore._native.scan import places, scan
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.codec import decode
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.dledger_window import heads_before, log_window
from rmqcore.offline.log.log_files import LogBytes, LogFile
from rmqcore.offline.log.unfinished_record import is_unfinished
from rmqcore.offline.log.window import SearchWindow

ROOM = 256 * 1024
"""Bytes read at once: a look at a live file usually finds few records, too few for a thread that reads ahead."""

Ends = npt.NDArray[np.int64]
"""CommitLog offsets behind records, ascending."""


def record_ends(batch: Batch) -> Ends:
    """Return the ends of the records of a batch that has the columns phy_offset and msg_size."""
    starts = np.asarray(batch.buffer("phy_offset")).view(np.int64)[: len(batch)]
    sizes = np.asarray(batch.buffer("msg_size")).view(np.int32)[: len(batch)]
    return starts + sizes


@dataclass(frozen=True)
class Search:
    """Decides whether a look at a file in use also searches behind the end of its records for damage.

    Attributes
    ----------
    behind_zeros : bool
        Search also if zeros follow the records, as in an undamaged file: the rest of the file is searched, without its
        holes.
    known : int or None
        CommitLog offset of a place behind which an earlier look has searched without a result.
    damage : DamageRange or None
        Damage that an earlier look has found.
    """

    behind_zeros: bool = True
    known: int | None = None
    damage: DamageRange | None = None

    def wanted(self, place: Place, phy_offset: int) -> bool:
        """Return True if the bytes behind a CommitLog offset are to be searched."""
        if place.code == places.BLANK or phy_offset == self.known:
            return False
        return self.behind_zeros or place.code != places.ZERO


class SoundWalk:
    """The records of a live file, from a record's start on.

    A record that fails only its CRC is accepted if a sound record follows it. The last record must have valid lengths
    and CRC, and its properties, which that CRC does not cover, may not end in a zero.

    Parameters
    ----------
    file : LogFile
    start : int
        CommitLog offset in the file.
    batch_rows : int
    search : Search, optional

    Attributes
    ----------
    at_blank : bool
        After `run`: the log continues in the next file.
    unfinished : bool
        After `run`: the bytes at the end are neither zeros nor a whole record.
    damage : DamageRange or None
        After `run`: the range from the end to the next sound record, if a search found one.
    searched : bool
        After `run`: a search was made.
    met : list of DamageRange
        Always empty: this walk does not pass damage.
    """

    def __init__(
        self,
        file: LogFile,
        start: int,
        *,
        batch_rows: int = 8192,
        search: Search | None = None,
    ) -> None:
        self._file = file
        self._start = start
        self._batch_rows = batch_rows
        self._search = search
        self.at_blank = False
        self.unfinished = False
        self.damage: DamageRange | None = None
        self.searched = False
        self.met: list[DamageRange] = []

    def run(self) -> Iterator[Ends]:
        """Yield the ends of the records.

        Raises
        ------
        FileNotFoundError
            The file was deleted.
        """
        unread: list[OSError] = []
        with (
            self._file.open(lambda start, end, error: unread.append(error)) as source,
            closing(log_window(source, self._file.size, room=ROOM)) as window,
        ):
            # The newest records are returned only when they are known to be whole.
            held = np.empty(0, np.int64)
            last_start = before = self._start
            for ends in self._batches(window):
                if len(held):
                    yield held
                held = ends
                last_start = int(ends[-2]) if len(ends) > 1 else before
                before = int(ends[-1])
            is_last = not self.at_blank and self.damage is None
            if len(held) and is_last and ends_unfinished(source, last_start, before):
                self.unfinished = True
                held = held[:-1]
            if len(held):
                yield held

    def _batches(self, window: SearchWindow) -> Iterator[Ends]:
        base = self._file.file_from_offset
        sink = ColumnScan(("phy_offset", "msg_size"), batch_rows=self._batch_rows)
        pos = self._start - base
        trusted = -1
        while True:
            place = window.feed(sink.feed, pos, trusted=trusted)
            pos = place.pos
            if place.code == scan.FULL:
                yield record_ends(sink.take())
            elif place.code == places.BODYCRC and self._is_followed(window, place):
                trusted = base + pos
            elif place.code != scan.END and not self._search_behind(window, place):
                break
        self.at_blank = place.code == places.BLANK
        self.unfinished = place.code not in (places.BLANK, places.ZERO, places.SHORT_FILE)
        if sink.pending_rows:
            yield record_ends(sink.take())

    def _search_behind(self, window: SearchWindow, place: Place) -> bool:
        """Search for a sound record behind the walk's end; return True if a record has appeared at the end itself."""
        base = self._file.file_from_offset
        if self._search is None:
            return False
        found_before = self._search.damage
        if found_before is not None and found_before.start_phy_offset == base + place.pos:
            self.damage = found_before
        if self.damage is not None or not self._search.wanted(place, base + place.pos):
            return False
        if window.look_again(place).code >= 0:
            return True
        self.searched = True
        last = _behind_failing(window, place)
        found: int | None = last.pos
        if last.code == places.ZERO and not self._search.behind_zeros:
            found = None
        elif last.code < 0:
            found, _ = window.next_proven(last.pos, after_zeros=last.code == places.ZERO)
        if found is not None:
            kind = "crc" if place.code == places.BODYCRC else "record"
            self.damage = DamageRange(
                base + place.pos, base + found, kind, self._file.name, *place.describe()
            )
        return False

    @staticmethod
    def _is_followed(window: SearchWindow, place: Place) -> bool:
        """Return True if a sound record, or BLANK, follows a record that fails its CRC: then its write has ended."""
        return _behind_failing(window, place).code >= 0


def _behind_failing(window: SearchWindow, place: Place) -> Place:
    """Return the place behind records that fail only their CRC."""
    while place.code == places.BODYCRC:
        place = window.step(place.pos + place.size)
    return place


def ends_unfinished(source: LogBytes, start: int, end: int) -> bool:
    """Return True if the record between two CommitLog offsets of a file lacks its last bytes; see `is_unfinished`.

    Before the record lie only heads of a DLedger log.
    """
    raw = bytearray(end - start)
    source.read_into(memoryview(raw), start - source.file.file_from_offset)
    at = heads_before(raw, start, source.file.end_offset) if source.file.dledger else 0
    return is_unfinished(decode(raw, at))


def first_sound(file: LogFile) -> int | None:
    """Return the CommitLog offset of the first record, or BLANK, that proves itself in a file that begins with zeros."""
    unread: list[OSError] = []
    try:
        with (
            file.open(lambda start, end, error: unread.append(error)) as source,
            closing(log_window(source, file.size, room=ROOM)) as window,
        ):
            found, _ = window.next_proven(0, after_zeros=True)
    except FileNotFoundError:  # the broker has deleted it: the next look lists the files anew
        return None
    return None if found is None else file.file_from_offset + found
