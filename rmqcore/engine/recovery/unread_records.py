"""Records of a log that the release of `for_version` cannot read, counted in the part of the log that a recovery reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rmqcore._native.format.layout import MAGIC_V2
from rmqcore._native.scan.batch import Batch
from rmqcore.vocabulary.rocketmq_versions import readable_records
from rmqcore.vocabulary.sysflag import BORNHOST_V6, STOREHOST_V6


@dataclass(frozen=True, slots=True)
class UnreadRecords:
    """Records that a release cannot read: it ends its log at the first of them that it meets.

    Attributes
    ----------
    count : int
    first_phy_offset : int
        CommitLog offset of the first of them.
    for_version : str
        The release.
    what : str
        What it cannot read: ``"topics of more than 127 bytes"``.
    """

    count: int
    first_phy_offset: int
    for_version: str
    what: str

    def __str__(self) -> str:
        records = "1 record" if self.count == 1 else f"{self.count} records"
        return (
            f"RocketMQ {self.for_version} cannot read {self.what}: {records} of the part that was read, the first at "
            f"{self.first_phy_offset}; it would end its log there"
        )


class UnreadCount:
    """Counts such records.

    Parameters
    ----------
    for_version : str or None
        A release such as ``"4.9"``; None: all records can be read.
    """

    columns: ClassVar[tuple[str, ...]] = ("phy_offset", "magic", "sys_flag")

    def __init__(self, for_version: str | None) -> None:
        self._for_version = for_version
        self._readable = readable_records(for_version)
        self._count = 0
        self._first = -1

    @property
    def wanted(self) -> tuple[str, ...]:
        """Columns that a batch needs; none if the release reads all records."""
        return () if self._readable.all else self.columns

    @property
    def found(self) -> UnreadRecords | None:
        """The records counted so far; None if all can be read."""
        if not self._count or self._for_version is None:
            return None
        what = self._readable.describe()
        return UnreadRecords(self._count, self._first, self._for_version, what)

    def add(self, batch: Batch) -> None:
        """Count the records of the next batch."""
        if self._readable.all:
            return
        unread = np.zeros(len(batch), bool)
        if self._readable.most_topic_bytes is not None:
            # A record of version 2 has two bytes for the length of its topic, and another magic number.
            unread |= np.frombuffer(batch.buffer("magic"), np.int32) == MAGIC_V2
        if not self._readable.ipv6_hosts:
            flags = np.frombuffer(batch.buffer("sys_flag"), np.int32)
            unread |= (flags & (BORNHOST_V6 | STOREHOST_V6)) != 0
        at = np.flatnonzero(unread)
        if len(at) and not self._count:
            self._first = int(np.frombuffer(batch.buffer("phy_offset"), np.int64)[at[0]])
        self._count += len(at)
