"""The file in which a live log ends: its records up to the first place that is no whole one.

Behind that place nothing is looked for. A writer may be in the middle of a record there, and what lies further on may be
records of an earlier life of the file, sound and in their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import numpy.typing as npt

from rmqcore._native import codec, scan
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.offline.files import LogBytes, LogFile
from rmqcore.offline.unfinished import lacks_its_end
from rmqcore.offline.window import Window

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

    A record that fails only its CRC is taken when a sound one follows it. Of the last one lengths and CRC must hold, and its
    properties, which that CRC does not cover, may not end in a zero.

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
            closing(Window(source, self._file.size, room=ROOM)) as window,
        ):
            # The newest ones are given only when they are known to be whole.
            held = np.empty(0, np.int64)
            last_start = before = self._start
            for ends in self._batches(window):
                if len(held):
                    yield held
                held = ends
                last_start = int(ends[-2]) if len(ends) > 1 else before
                before = int(ends[-1])
            if len(held) and not self.at_blank and self._lacks_its_end(source, last_start, before):
                self.unfinished = True
                held = held[:-1]
            if len(held):
                yield held

    def _batches(self, window: Window) -> Iterator[Ends]:
        base = self._file.file_from_offset
        sink = ColumnScan(("phy_offset", "msg_size"), batch_rows=self._batch_rows)
        pos = self._start - base
        trusted = -1
        while True:
            window.cover(pos)
            at, code, _, expected = sink.feed(
                window.buf,
                window.length,
                pos - window.start,
                base + window.start,
                base + window.end,
                trusted=trusted,
            )
            pos = window.start + at
            if code == scan.FULL:
                yield record_ends(sink.take())
            elif code == scan.BODYCRC and self._followed(window, pos):
                trusted = base + pos
            elif code != scan.END and not (code == scan.SHORT and window.holds(pos, expected)):
                break
        self.at_blank = code == scan.BLANK
        self.unfinished = code not in (scan.BLANK, scan.ZERO, scan.SHORT_FILE)
        if sink.pending_rows:
            yield record_ends(sink.take())

    @staticmethod
    def _followed(window: Window, pos: int) -> bool:
        """Whether a sound record, or BLANK, follows one that fails its CRC: then nobody is still writing it."""
        code, size, _, _ = window.step(pos)
        while code == scan.BODYCRC:
            pos += size
            code, size, _, _ = window.step(pos)
        return code >= 0

    def _lacks_its_end(self, source: LogBytes, start: int, end: int) -> bool:
        raw = bytearray(end - start)
        source.read_into(memoryview(raw), start - self._file.file_from_offset)
        return lacks_its_end(codec.decode(raw))
