"""Report of the comparison of two stores."""

from __future__ import annotations

from dataclasses import dataclass, field

from rmqcore.offline.log.damage import DamageRange
from rmqcore.shown.report import Report


@dataclass(frozen=True)
class FirstRecord:
    """The record with which a range begins."""

    topic: str
    queue_id: int
    queue_offset: int
    store_timestamp_ms: int


@dataclass(frozen=True)
class LogDifference:
    """A range of the CommitLog in which the two stores differ.

    Attributes
    ----------
    start_phy_offset, end_phy_offset : int
        CommitLog offsets, the end exclusive: whole records, or damage, on both sides.
    kind : str
        ``only_a``, ``only_b``: the other one has no bytes there. ``different``: both have sound records, but not the same.
        ``damaged_a``, ``damaged_b``, ``damaged_both``: the bytes differ, and that side has no sound records.
    path_a, path_b : str or None
        The file in which the range begins.
    first_a, first_b : FirstRecord or None
        The record with which it begins; None where no sound one does, and behind the first 1,000 ranges.
    """

    start_phy_offset: int
    end_phy_offset: int
    kind: str
    path_a: str | None
    path_b: str | None
    first_a: FirstRecord | None
    first_b: FirstRecord | None


@dataclass(frozen=True)
class QueueDifference:
    """A queue of which the two stores have other entries.

    Attributes
    ----------
    topic : str
    queue_id : int
    min_offset_a, max_offset_a, min_offset_b, max_offset_b : int
        Queue offsets of the first entry, and behind the last one; 0 and 0 where there is no such queue.
    differing_entries : int
        Entries at queue offsets that both have.
    first_differing : int or None
        Queue offset of the first of them.
    only_a, only_b : int
        Entries behind the end of the other one's queue: messages that consumers do not get when that one takes over.
    """

    topic: str
    queue_id: int
    min_offset_a: int
    max_offset_a: int
    min_offset_b: int
    max_offset_b: int
    differing_entries: int
    first_differing: int | None
    only_a: int
    only_b: int


@dataclass(frozen=True)
class DiffReport(Report):
    """How two stores differ.

    Attributes
    ----------
    a, b : str
        Where they lie.
    min_phy_offset_a, max_phy_offset_a, min_phy_offset_b, max_phy_offset_b : int
        Where their logs begin and end.
    compared_bytes : int
        Bytes of the log that both have.
    differences : list of LogDifference
        By offset; the first 100,000.
    difference_count, differing_bytes : int
        Of all.
    compared_queues, compared_entries : int
        Queues of either, and queue offsets that both have.
    queues : list of QueueDifference
        By topic and queue id; the first 100,000.
    only_a, only_b : int
        Sums of what `queues` has under these names.
    deleted_meanwhile : list of str
        Files that a store's cleaner deleted before they were compared.
    missing_a, missing_b : list of DamageRange
        What the log of a store lacks at its ends, which was not compared: files of no bytes at its start (``missing_file``), and
        what queues, index or checkpoint know behind its end (``log_missing``).
    seconds : float
    exit_code : int
        0, or 2 if the stores differ or one of them lacks messages that it knows.
    """

    a: str
    b: str
    min_phy_offset_a: int
    max_phy_offset_a: int
    min_phy_offset_b: int
    max_phy_offset_b: int
    compared_bytes: int
    differences: list[LogDifference]
    difference_count: int
    differing_bytes: int
    compared_queues: int
    compared_entries: int
    queues: list[QueueDifference]
    only_a: int
    only_b: int
    deleted_meanwhile: list[str]
    missing_a: list[DamageRange]
    missing_b: list[DamageRange]
    seconds: float
    exit_code: int = field(default=0)
