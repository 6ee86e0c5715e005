"""Store times of records, read without their bodies: of a whole file, of its ends, or from any byte on."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Place
from rmqcore._native.scan.scan import ColumnScan
from rmqcore._native.scan.skips import Skips
from rmqcore.offline.log.damage import DamageList
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.walk import Blank, LogWalk

LAST_BYTES = 64 * 1024
"""As much is read of a file's end to find its last record, and 16 times more each time that none lies there."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The first and the last record of some that follow each other.

    Attributes
    ----------
    phy_offset : int
        Of the first record.
    end_phy_offset : int
        Behind the last one.
    first_ms, last_ms : int
        Store timestamps of the two, milliseconds.
    """

    phy_offset: int
    end_phy_offset: int
    first_ms: int
    last_ms: int


class HeaderScan:
    """A scan of columns that takes records without hashing their bodies: a wrong CRC changes neither times nor ends."""

    def __init__(self, rows: int) -> None:
        self._scan = ColumnScan(("phy_offset", "msg_size", "store_timestamp_ms"), batch_rows=rows)
        self.take = self._scan.take

    @property
    def pending_rows(self) -> int:
        """Rows that `take` would give."""
        return self._scan.pending_rows

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
        return self._scan.feed(
            buf, length, pos, phy_offset, end_offset, check_crc=False, trusted=trusted, skips=skips
        )


def stored(
    file: LogFile, shape: LogShape, *, start: int | None = None, most: int = 65536
) -> Generator[Stored]:
    """Yield the records of a file, in groups of limited size.

    Parameters
    ----------
    file : LogFile
    shape : LogShape
        Of the whole log.
    start : int, optional
        CommitLog offset of any byte: from the first record on that begins there or behind it.
    most : int
    """
    walk: LogWalk[Batch] = LogWalk(
        [file],
        HeaderScan(most),
        DamageList(most=0),  # nobody asks for the damage
        start=start,
        aligned_start=start is not None,
        shape=shape,
        skips=True,
        unreadable_files=True,
        long_records=LongRecords(check_crc=False),
    )
    for batch in walk.run():
        if isinstance(batch, Blank) or not batch.num_rows:
            continue
        times = np.frombuffer(batch.buffer("store_timestamp_ms"), np.int64)
        starts = np.frombuffer(batch.buffer("phy_offset"), np.int64)
        sizes = np.frombuffer(batch.buffer("msg_size"), np.int32)
        end = int(starts[-1]) + int(sizes[-1])
        yield Stored(int(starts[0]), end, int(times[0]), int(times[-1]))


def first_stored(file: LogFile, shape: LogShape, start: int | None = None) -> Stored | None:
    """Return the first record of a file, or the first that begins at a CommitLog offset or behind it."""
    with closing(stored(file, shape, start=start, most=1)) as found:
        return next(found, None)


def last_stored(file: LogFile, shape: LogShape) -> Stored | None:
    """Return the last record of a file; its end is read, and more of it only if no record lies there."""
    behind = LAST_BYTES
    while True:
        start = max(file.file_from_offset, file.end_offset - behind)
        last = deque(stored(file, shape, start=start), maxlen=1)
        if last or start == file.file_from_offset:
            return last[0] if last else None
        behind *= 16
