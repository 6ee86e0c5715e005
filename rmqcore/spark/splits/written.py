"""The written part of a file that a broker may be writing, and the places where it can be cut: walks on the planner.

A broker writes only behind the last record of its log. So the bytes that a walk over sound records has passed do not
change, and each record that it met is a cut that needs no proof by the bytes around it. The bytes behind the first
place without a record are uncertain: free room, a record that is being written, or sound records of an earlier use of
the file, at their offsets, which the broker will overwrite.
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
"""The walk notes at least one record in about this many bytes: 4,096 in a file of 1 GiB."""


@dataclass(frozen=True)
class WrittenPart:
    """The records of a file from a given one on, up to the first place without a sound record.

    Attributes
    ----------
    start, end : int
        CommitLog offsets; at `end` lies the first place without a sound record, or the record at which the caller had
        the walk stop.
    places : tuple of int
        CommitLog offsets of some records behind the first one.
    """

    start: int
    end: int
    places: tuple[int, ...]

    def cuts(self, most_bytes: int) -> list[int]:
        """Return records at which to cut the part into pieces of not much more than `most_bytes`; without `start`."""
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
        Size of the pieces into which the part may be cut: the smaller, the more records are noted.
    start : int, optional
        CommitLog offset at which a record begins; the file's beginning by default.
    stop : int, optional
        CommitLog offset: the walk stops at the first record at or behind it.

    Returns
    -------
    WrittenPart
        An empty part if the file was deleted; its reader reports that.
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
                # Also at a record that fails its CRC: the broker may be writing it.
                return WrittenPart(start, base + pos, tuple(places))


def some_apart(records: npt.NDArray[np.int64], last: int, step: int) -> Iterator[int]:
    """Yield some of the records behind `last`, in order, that are at least `step` apart."""
    at = int(np.searchsorted(records, last + step))
    while at < len(records):
        last = int(records[at])
        yield last
        at = int(np.searchsorted(records, last + step))


def record_starts(file: LogFile, shape: LogShape, count: int) -> list[int]:
    """Return CommitLog offsets of records that cut a file into at most `count` nearly equal parts; holds one batch at a time.

    A record behind damage is left out: the task of a split that began with it could not mark it as found by search.
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
        if len(starts):  # later batches need only the damage behind the last record
            damage[:] = [one for one in damage if one.end_phy_offset > starts[-1]]
    return found


def is_skipped(one: DamageRange) -> bool:
    """Return True if a walk searched for the next record behind a range; behind bad sectors it does not."""
    return one.kind not in {"crc", "unreadable"}
