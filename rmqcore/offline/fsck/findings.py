"""Findings of `rmqcore.offline.fsck`, and a collector whose size does not grow with the damage."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

ERROR, WARNING, INFO = "error", "warning", "info"

KINDS = {
    "record": "bytes of the log that are not a record",
    "crc": "a body fails its CRC",
    "prop_crc": "a record fails its appended __CRC32#",
    "torn_tail": "bytes behind the last sound record; a broker start cuts them",
    "place": "a record whose PHYSICALOFFSET differs from its offset",
    "blank": "a BLANK whose size differs from the rest of its file",
    "unreadable": "bytes that the disk could not read, or a file without read permission",
    "file_size": "a file whose length differs from its neighbours; a broker refuses to start",
    "file_name": "a name that is not an offset, or an offset that does not fit",
    "file_twice": (
        "two directories have the same file of the log: neither a broker nor rmqcore opens the "
        "store"
    ),
    "file_kind": "a link, FIFO, socket, device or hard link; it was not read or followed",
    "missing_file": "a CommitLog file is missing between two others",
    "topic_utf8": "a topic that is not UTF-8",
    "properties": (
        "properties that are not a list of names and values, such as NULs; the message has no tag "
        "and no keys"
    ),
    "cq_entry": "a queue entry that does not fit its record",
    "cq_missing": "a record without a queue entry: consumers cannot fetch it",
    "cq_beyond": "a queue entry that points at or past the log's end",
    "cq_hole": "a queue file is missing between two others",
    "cq_file_size": "a queue file whose length differs from the others; a broker refuses to start",
    "compaction_entry": "an entry of a compacted queue that does not fit its record, or a record without one",
    "compaction_file": "a file of compaction/ is missing, or its name, length or JSON is wrong",
    "rocksdb": "a database of the queues or of the index lacks a file, or RocksDB cannot read it",
    "index_entry": "an index entry that does not fit its record",
    "index_chain": "an index chain with a broken link between entries",
    "index_header": "an index header that does not fit the file",
    "index_missing": "keys that the index lacks",
    "checkpoint": "a checkpoint that is too short, or ahead of the files",
    "store_kind": "a DLedger log: it was read and checked; rmqcore never writes it",
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
