"""Sums of the keys that the index does not hold: Java's own recovery leaves some out, so single keys are not reported."""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore.offline.fsck.findings import INFO, WARNING, Findings
from rmqcore.offline.fsck.log_batch import Int64


@dataclass(slots=True)
class Missing:
    """Keys without an entry.

    Attributes
    ----------
    keys, tags : int
        The number of all such keys, and of the tags among them.
    first : int or None
        CommitLog offset of the record with the first such key.
    """

    keys: int = 0
    tags: int = 0
    first: int | None = None

    def add(self, phy_offsets: Int64, tags: int) -> None:
        """Note a key for each of these records; `tags` of the keys are tags."""
        if len(phy_offsets):
            self.first = int(phy_offsets[0]) if self.first is None else self.first
            self.keys += len(phy_offsets)
            self.tags += tags

    def merge(self, other: Missing) -> None:
        """Add the keys of `other`, whose records come behind."""
        if other.keys:
            self.first = other.first if self.first is None else self.first
            self.keys += other.keys
            self.tags += other.tags


def note_missing(
    findings: Findings, within: Missing, at_end: Missing, *, files: bool, live: bool
) -> None:
    """Make findings of keys missing between entries and behind the last entry.

    Parameters
    ----------
    files : bool
        There are index files.
    live : bool
        The store is in use or was not cleanly closed: keys missing at the end only show that dispatch lags.
    """
    if not files:
        if at_end.keys:
            findings.add(
                "index_missing",
                INFO,
                "index",
                "there are no index files: queries by key find nothing",
                field="entry",
                expected=f"{at_end.keys} keys",
                found="none",
            )
        return
    for missing, where in ((within, ""), (at_end, " behind the last entry")):
        if not missing.keys:
            continue
        severity, why = WARNING, "queries by these keys find nothing"
        if live and missing is at_end:
            severity, why = INFO, "dispatch had not reached them"
        elif missing.keys == missing.tags:
            severity, why = INFO, "written before 5.4, the first release that indexes tags"
        findings.add(
            "index_missing",
            severity,
            "index",
            f"{missing.keys} keys{where} have no entry, {missing.tags} of them tags: {why}",
            phy_offset=missing.first,
            field="entry",
            expected=f"{missing.keys} more",
            found="none",
            count=missing.keys,
        )
