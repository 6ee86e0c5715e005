"""The offset up to which a slave's log matches its master's: found from the end backwards, by comparing bytes.

Two logs that have parted have different records from some offset on: each record holds its own offset, its times and
the address of its broker. So one whole record that is equal in both, at the same offset, proves that all bytes before
it are equal too; equal lengths prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqcore._native.scan import scan
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.errors import HaProtocolError, NoCommonRecordError
from rmqcore.ha.slave import FIRST_ASKED, OVERLAP, first_difference

if TYPE_CHECKING:
    from rmqcore.engine.store.store import MessageStore

STEP_FACTOR = 4
"""The search goes back by this factor of the step before: at most so many times what has parted is read."""
BATCH_ROWS = 1 << 16
Ask = Callable[[int], Generator[tuple[int, memoryview], None, None]]
"""Connects to the master and yields what it sends from a CommitLog offset on, in pieces: where each lies, and its bytes."""


@dataclass(frozen=True, slots=True)
class CommonEnd:
    """Where the log of a slave has to be cut, so that the rest matches its master's.

    Attributes
    ----------
    phy_offset : int
        CommitLog offset behind the last record that both have.
    slave_end : int
        CommitLog offset where the slave's log ends.
    messages : int
        Number of intact records of the slave between the two.
    """

    phy_offset: int
    slave_end: int
    messages: int


def find_common_end(
    store: MessageStore, master_first: int, master_end: int, ask: Ask
) -> CommonEnd | None:
    """Find where a slave's log has to be cut; return None if all of it matches the master's.

    Parameters
    ----------
    store : MessageStore
        The slave's store; nothing is appended during the search.
    master_first, master_end : int
        CommitLog offsets at which the master's log starts and ends.
    ask : callable
        Called for each step back; the generator is closed after the last byte needed.

    Raises
    ------
    NoCommonRecordError
        The logs have no record in common.
    OSError
        The connection is lost, or the master sends nothing.
    HaProtocolError
        A frame does not continue the one before.
    """
    store.flush()
    own_end = store.max_phy_offset
    first, top = max(store.min_phy_offset, master_first), min(own_end, master_end)
    at, step = top, OVERLAP
    while at > first:
        at = max(top - step, first)
        same_to = _compare(store, max(at, FIRST_ASKED), top, ask)
        if same_to == own_end:
            return None
        last = _last_record(store, at, same_to)
        if last is not None:
            begin, end = last
            if begin >= at:
                return CommonEnd(end, own_end, _count(store, end, own_end))
        step *= STEP_FACTOR
    raise NoCommonRecordError(first, own_end, master_end)


def _compare(store: MessageStore, begin: int, top: int, ask: Ask) -> int:
    """Return the CommitLog offset up to which the bytes from `begin` on match the master's, at most `top`."""
    place = begin
    with closing(ask(begin)) as pieces:
        for phy_offset, piece in pieces:
            if phy_offset != place:
                raise HaProtocolError("frame", "phy_offset", place, phy_offset)
            left = piece[: top - place]
            while left:
                own = store.read_range(place, len(left))  # of one file
                size = len(own)
                if left[:size] != own:
                    return place + first_difference(left[:size], own)
                place += size
                left = left[size:]
            if place == top:
                return top
    raise ConnectionError(f"the master sends nothing from phy_offset {place} on")


def _last_record(store: MessageStore, least: int, most: int) -> tuple[int, int] | None:
    """Return start and end of the last record that ends at `most` or before, in a file that ends behind `least`."""
    size = store.config.mapped_file_size_commit_log
    while most > least:
        start = max((most - 1) // size * size, store.min_phy_offset)
        walk = _Walk(store, start, most)
        if walk.last >= 0:
            return walk.last, walk.end
        most = start
    return None


def _count(store: MessageStore, begin: int, end: int) -> int:
    """Count the records between two CommitLog offsets, of which the first is the start of a record."""
    size, found = store.config.mapped_file_size_commit_log, 0
    while begin < end:
        file_end = begin // size * size + size
        found += _Walk(store, begin, min(file_end, end)).records
        begin = file_end
    return found


class _Walk:
    """A walk from record to record in one file; it ends at a BLANK, half a record or damage.

    Attributes
    ----------
    records : int
    last, end : int
        CommitLog offsets where the last record starts (-1 if the walk finds no record), and where it ends.
    """

    def __init__(self, store: MessageStore, begin: int, end: int) -> None:
        size = store.config.mapped_file_size_commit_log
        rows = ColumnScan(("phy_offset",), batch_rows=BATCH_ROWS)
        data = store.read_range(begin, end - begin)
        self.records, self.last, self.end = 0, -1, begin
        code = scan.FULL
        while code == scan.FULL:
            pos = self.end - begin
            place = rows.feed(
                data,
                len(data),
                pos,
                begin,
                begin // size * size + size,
                check_place=True,
                check_crc=False,
            )
            code, self.end = place.code, begin + place.pos
            if rows.pending_rows:
                self.records += rows.pending_rows
                found = np.frombuffer(rows.take().buffer("phy_offset"), np.int64)
                self.last = int(found[-1])
