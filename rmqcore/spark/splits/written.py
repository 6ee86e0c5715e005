"""How far a file that somebody may be writing is written, and where it can be cut: walks on the planner.

A broker writes behind the last record of its log and nowhere else. So what a walk over sound records has passed stays as it is,
and each record that it met is a cut that needs no proof by the bytes around it. Behind the first place that is no record nothing
is known: there may be room for more, a record that is being written, or records of an earlier life of the file, sound and in
their place, which the broker will write over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqcore._native.scan import scan
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.dledger_window import log_window
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.walk import Blank, LogWalk

STEP = 256 * 1024
"""At least one record in about so many bytes is noted: 4,096 of a file of 1 GiB."""


@dataclass(frozen=True)
class WrittenPart:
    """The records of a file from one of them on, up to the first place that is no sound one.

    Attributes
    ----------
    start, end : int
        CommitLog offsets; at `end` begins what is no sound record, or the record at which the walk was told to stop.
    places : tuple of int
        CommitLog offsets of some records behind the first one.
    """

    start: int
    end: int
    places: tuple[int, ...]

    def cuts(self, most_bytes: int) -> list[int]:
        """Records at which the part is cut so that no piece has much more than `most_bytes`; `start` is not among them."""
        count = -(-(self.end - self.start) // most_bytes)
        wanted = (
            self.start + number * (self.end - self.start) // count for number in range(1, count)
        )
        places = np.array(self.places, np.int64)
        found = {int(at) for goal in wanted for at in places[np.searchsorted(places, goal) :][:1]}
        return sorted(found)


def written_part(
    file: LogFile, most_bytes: int, *, start: int | None = None, stop: int | None = None
) -> WrittenPart:
    """Walk over the sound records of a file.

    Parameters
    ----------
    file : LogFile
    most_bytes : int
        It may be cut into pieces of so many bytes: the smaller, the more records are noted.
    start : int, optional
        CommitLog offset at which a record begins; the file's beginning by default.
    stop : int, optional
        CommitLog offset: records at or behind it are not asked for.

    Returns
    -------
    WrittenPart
        Nothing of a file that is gone: who is to read it will say so.
    """
    base = file.file_from_offset
    first = base if start is None else start
    try:
        return _walked(file, first, stop, min(STEP, max(1, most_bytes // 4)))
    except FileNotFoundError:
        return WrittenPart(first, first, ())


def _walked(file: LogFile, start: int, stop: int | None, step: int) -> WrittenPart:
    places: list[int] = []
    with (
        file.read_until(stop).open(lambda start, end, error: None) as source,
        closing(log_window(source, file.size)) as window,
    ):
        sink = ColumnScan(("phy_offset",), stop_offset=stop)
        base = file.file_from_offset
        pos = start - base
        while True:
            place = window.feed(sink.feed, pos)
            pos = place.pos
            if place.code == scan.FULL or (place.code != scan.END and sink.pending_rows):
                batch = sink.take()
                records = np.asarray(batch.buffer("phy_offset")).view(np.int64)[: len(batch)]
                places += some_apart(records, places[-1] if places else start, step)
            if place.code not in (scan.FULL, scan.END):
                # Also a record that fails its CRC: it may be the one that is being written.
                return WrittenPart(start, base + pos, tuple(places))


def some_apart(records: npt.NDArray[np.int64], last: int, step: int) -> Iterator[int]:
    """Of records behind `last`, by offset, some that are at least `step` apart."""
    at = int(np.searchsorted(records, last + step))
    while at < len(records):
        last = int(records[at])
        yield last
        at = int(np.searchsorted(records, last + step))


def record_starts(file: LogFile, shape: LogShape, count: int) -> list[int]:
    """CommitLog offsets of records that cut a file into at most `count` about equal parts; holds one batch at a time.

    A record behind damage is left out: a split that began with it would not know that it was found by search.
    """
    damage: list[DamageRange] = []
    walk = LogWalk([file], ColumnScan(["phy_offset"]), damage, shape=shape)
    found: list[int] = []
    number = 1
    for batch in walk.run():
        assert not isinstance(batch, Blank)
        starts = np.asarray(batch.buffer("phy_offset")).view(np.int64)
        behind = {one.end_phy_offset for one in damage if is_skipped(one)}
        while number < count:
            at = int(np.searchsorted(starts, file.file_from_offset + number * file.size // count))
            while at < len(starts) and int(starts[at]) in behind:
                at += 1
            if at == len(starts):
                break
            found.append(int(starts[at]))
            number += 1
            while (
                number < count and file.file_from_offset + number * file.size // count <= found[-1]
            ):
                number += 1
        if len(starts):  # what lies before the last record is no matter for the next batch
            damage[:] = [one for one in damage if one.end_phy_offset > starts[-1]]
    return found


def is_skipped(one: DamageRange) -> bool:
    """Return True if a walk continued by search behind a range; behind bad sectors it does not."""
    return one.kind not in {"crc", "unreadable"}
