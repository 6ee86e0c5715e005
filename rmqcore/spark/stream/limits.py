"""The limit of one batch of a stream, and its division among several stores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32


@dataclass
class Allowance:
    """Records and CommitLog bytes that a batch may still contain; None means no limit.

    Bytes are compared before each record: the record that reaches the limit is included, so that a record larger than
    the limit passes too.

    Attributes
    ----------
    records, byte_count : int or None
        The remaining records and bytes.
    taken_records, taken_bytes : int
        Records and bytes so far; the bytes may exceed the limit.
    """

    records: int | None = None
    byte_count: int | None = None
    taken_records: int = 0
    taken_bytes: int = 0

    @property
    def spent(self) -> bool:
        """True if a limit is reached."""
        return self.records == 0 or self.byte_count == 0

    @property
    def limited(self) -> bool:
        """True if a limit of either kind is set."""
        return self.records is not None or self.byte_count is not None

    def take(self, records: int, byte_count: int) -> None:
        """Count records and bytes of the batch."""
        self.taken_records += records
        self.taken_bytes += byte_count
        if self.records is not None:
            self.records = max(0, self.records - records)
        if self.byte_count is not None:
            self.byte_count = max(0, self.byte_count - byte_count)

    def share(self, parts: int) -> Allowance:
        """Return an equal share for each of `parts` takers: at least one record, at least one byte."""
        return Allowance(
            None if self.records is None else max(1, self.records // parts),
            None if self.byte_count is None else max(1, self.byte_count // parts),
        )


class Taker(Protocol):
    """A position in a store's log; see `rmqcore.spark.stream.cursor.StoreCursor`."""

    def advance(self, allowance: Allowance) -> None:
        """Move forward until the allowance is spent or the log ends."""


def share_out(takers: Sequence[Taker], allowance: Allowance, first: int = 0) -> None:
    """Advance all takers, each by an equal share; the unused part of a share goes to the other takers.

    Thus a store with a large backlog never delays the others.

    Parameters
    ----------
    takers : sequence of Taker
    allowance : Allowance
        The limit of all takers together; it is spent afterwards, unless all logs have ended.
    first : int
        Number of the taker that begins: with fewer records than stores only the first takers get a share.
    """
    active = [takers[(first + at) % len(takers)] for at in range(len(takers))]
    while active and not allowance.spent:
        hungry = []
        share = allowance.share(len(active))
        for taker in active:
            if allowance.records == 0:
                break
            # Another taker's last record may have exceeded its share. This taker's share stays the same.
            own = Allowance(share.records, share.byte_count)
            taker.advance(own)
            allowance.take(own.taken_records, own.taken_bytes)
            if own.limited and own.spent:
                hungry.append(taker)
        active = hungry


def turn(stores: Mapping[str, int]) -> int:
    """Return a number that differs from batch to batch, and is the same if a batch is planned again."""
    return crc32(json.dumps(stores, sort_keys=True).encode())
