"""The file in which a live log ends: its records up to the first place that is no whole record.

Nothing behind that place is looked at. A writer may be in the middle of a record there, and what lies further on may be
records of an earlier life of the file, sound and in their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import numpy.typing as npt

from rmqcore._native.format import codec
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.scan import ColumnScan
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

    Attributes
    ----------
    at_blank : bool
        After `run`: the log goes on in the next file.
    unfinished : bool
        After `run`: what lies at the end is not zeros, and no whole record.
    """

    def __init__(self, file: LogFile, start: int, *, batch_rows: int = 8192) -> None:
        self._file = file
        self._start = start
        self._batch_rows = batch_rows
        self.at_blank = False
        self.unfinished = False

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
            closing(SearchWindow(source, self._file.size, room=ROOM)) as window,
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
            if len(held) and not self.at_blank and self._is_unfinished(source, last_start, before):
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
            elif place.code != scan.END:
                break
        self.at_blank = place.code == places.BLANK
        self.unfinished = place.code not in (places.BLANK, places.ZERO, places.SHORT_FILE)
        if sink.pending_rows:
            yield record_ends(sink.take())

    @staticmethod
    def _is_followed(window: SearchWindow, place: Place) -> bool:
        """Whether a sound record, or BLANK, follows one that fails its CRC: then nobody is still writing it."""
        while place.code == places.BODYCRC:
            place = window.step(place.pos + place.size)
        return place.code >= 0

    def _is_unfinished(self, source: LogBytes, start: int, end: int) -> bool:
        raw = bytearray(end - start)
        source.read_into(memoryview(raw), start - self._file.file_from_offset)
        return is_unfinished(codec.decode(raw))
