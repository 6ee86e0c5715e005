"""Findings of `rmqcore.offline.fsck`, and a collector whose size does not grow with the damage."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

ERROR, WARNING, INFO = "error", "warning", "info"

KINDS = {
    "record": "bytes of the log that are no record",
    "crc": "a body fails its CRC",
    "prop_crc": "a record fails its appended __CRC32#",
    "torn_tail": "bytes behind the last sound record; a broker start cuts them",
    "place": "a record whose PHYSICALOFFSET is not where it lies",
    "blank": "a BLANK whose size is not what is left of its file",
    "unreadable": "bytes that the disk did not give, or a file that may not be read",
    "file_size": "a file of another length than its neighbours; a broker refuses to start",
    "file_name": "a name that is no offset, or an offset that does not fit",
    "file_twice": "a file of the log lies in two directories: a broker cannot use it, and rmqcore refuses to open it",
    "file_kind": "a link, FIFO, socket or device, or another name of a file: it was not read, nor what it leads to",
    "missing_file": "a CommitLog file is missing between two others",
    "topic_utf8": "a topic that is not UTF-8",
    "properties": "properties that are not a list of names and values, such as NULs, of a message without tag and keys",
    "cq_entry": "a queue entry that does not fit its record",
    "cq_missing": "a record without its queue entry: it cannot be fetched",
    "cq_beyond": "a queue entry that points at or past the log's end",
    "cq_hole": "a queue file is missing between two others",
    "cq_file_size": "a queue file of another length than the others; a broker refuses to start",
    "rocksdb": "the database of the queues lacks a file, or RocksDB cannot read it",
    "index_entry": "an index entry that does not fit its record",
    "index_chain": "an index chain that does not lead from entry to entry",
    "index_header": "an index header that does not fit the file",
    "index_missing": "keys that the index does not hold",
    "checkpoint": "a checkpoint that is short, or ahead of what it speaks of",
    "store_kind": "a log of DLedger: it is read and checked, never written",
    "log_only": "a CommitLog without queues, index and checkpoint: nothing else was checked",
    "abort": "the store is in use, or was not cleanly closed",
}
"""Every kind and its meaning; the documentation has the same texts."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    severity : str
        ``"error"``: damage, or messages that no consumer can fetch. ``"warning"``: suspicious, or a broker start repairs it.
        ``"info"``: ordinary after a crash, or while the store is in use.
    path : str
        The file, relative to the store if it lies inside.
    phy_offset : int or None
        CommitLog offset in bytes, when the finding is about a place in the log.
    field : str
        The on-disk field.
    expected, found : object
        Plain JSON values.
    message : str
        The finding as a sentence.
    """

    kind: str
    severity: str
    path: str
    phy_offset: int | None
    field: str
    expected: object
    found: object
    message: str

    def __str__(self) -> str:
        place = self.path if self.phy_offset is None else f"{self.path}@{self.phy_offset}"
        return f"{self.severity}: {self.kind}: {place}: {self.message}"

    def as_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return asdict(self)


class Findings:
    """Collects findings: it counts all and keeps the first `limit` of each kind.

    Attributes
    ----------
    items : list of Finding
    totals : dict
        Kind to Counter of severities; it counts also the findings that are not kept.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.items: list[Finding] = []
        self.totals: dict[str, Counter[str]] = {}
        self._kept: Counter[str] = Counter()

    def add(
        self,
        kind: str,
        severity: str,
        path: str,
        message: str,
        *,
        phy_offset: int | None = None,
        field: str = "",
        expected: object = None,
        found: object = None,
        count: int = 1,
    ) -> None:
        """Note a finding, which stands for `count` findings of the same sort."""
        self.count(kind, severity, count)
        if self._kept[kind] < self.limit:
            self._kept[kind] += 1
            self.items.append(
                Finding(kind, severity, path, phy_offset, field, expected, found, message)
            )

    def count(self, kind: str, severity: str, count: int = 1) -> None:
        """Count findings of which none is kept."""
        assert kind in KINDS
        counts = self.totals.get(kind)
        if counts is None:
            counts = self.totals[kind] = Counter()
        counts[severity] += count

    def room(self, kind: str) -> int:
        """How many more findings of a kind would be kept; the caller need not look closely at others."""
        return max(0, self.limit - self._kept[kind])

    @property
    def errors(self) -> int:
        """The number of findings of severity error."""
        return sum(counts[ERROR] for counts in self.totals.values())
