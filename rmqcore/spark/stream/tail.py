"""The file in which a live log ends: its records up to the first place that is no whole record.

No record behind that place is taken. A writer may be in the middle of a record there, and what lies further on may be
records of an earlier life of the file, sound and in their place. It is only searched, so that damage can be told of.
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
"""Bytes read at once: a look at a live file usually finds a few records, and a thread that reads ahead would cost more."""

Ends = npt.NDArray[np.int64]
"""CommitLog offsets just behind records, ascending."""


def record_ends(batch: Batch) -> Ends:
    """Where the records of a batch end; it was made with the columns phy_offset and msg_size."""
    starts = np.asarray(batch.buffer("phy_offset")).view(np.int64)[: len(batch)]
    sizes = np.asarray(batch.buffer("msg_size")).view(np.int32)[: len(batch)]
    return starts + sizes


@dataclass(frozen=True)
class Search:
    """Decides if a look at a file in use also searches behind the end of its records, which may be damage.

    Attributes
    ----------
    behind_zeros : bool
        Also where that place holds zeros, as it does when all is well: the rest of the file is searched, but for its holes.
    known : int or None
        CommitLog offset of a place behind which an earlier look has searched, and found nothing.
    damage : DamageRange or None
        Damage that an earlier look has found.
    """

    behind_zeros: bool = True
    known: int | None = None
    damage: DamageRange | None = None

    def wanted(self, place: Place, phy_offset: int) -> bool:
        """Return True if bytes behind a CommitLog offset are searched."""
        if place.code == places.BLANK or phy_offset == self.known:
            return False
        return self.behind_zeros or place.code != places.ZERO


class SoundWalk:
    """The records of a live file, from a record's start on.

    A record that fails only its CRC is taken when a sound one follows it. The last record must have right lengths and CRC, and
    its properties, which that CRC does not cover, may not end in a zero.

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
        After `run`: the log goes on in the next file.
    unfinished : bool
        After `run`: what lies at the end is not zeros, and no whole record.
    damage : DamageRange or None
        After `run`: what lies at the end, when a search found a sound record behind it. The range ends there.
    searched : bool
        After `run`: there was a search.
    met : list of DamageRange
        Damage that the walk went past: none.
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
        """Yield where the records end.

        Raises
        ------
        FileNotFoundError
            The file is gone.
        """
        unread: list[OSError] = []
        with (
            self._file.open(lambda start, end, error: unread.append(error)) as source,
            closing(log_window(source, self._file.size, room=ROOM)) as window,
        ):
            # The newest records are given only when they are known to be whole.
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
        """Search for a sound record behind the place where the walk ends; answer whether one is there by now."""
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
        """Return True if a sound record, or BLANK, follows one that fails its CRC: then nobody is still writing it."""
        return _behind_failing(window, place).code >= 0


def _behind_failing(window: SearchWindow, place: Place) -> Place:
    """What lies behind records that fail only their CRC."""
    while place.code == places.BODYCRC:
        place = window.step(place.pos + place.size)
    return place


def ends_unfinished(source: LogBytes, start: int, end: int) -> bool:
    """Return True if the record between two CommitLog offsets of a file lacks its last bytes; see `is_unfinished`.

    Before it lies nothing but heads of a DLedger log.
    """
    raw = bytearray(end - start)
    source.read_into(memoryview(raw), start - source.file.file_from_offset)
    at = heads_before(raw, start, source.file.end_offset) if source.file.dledger else 0
    return is_unfinished(decode(raw, at))


def first_sound(file: LogFile) -> int | None:
    """CommitLog offset of the first record, or BLANK, that proves itself in a file whose beginning is zeros."""
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
