"""Conditions on messages that the native scan tests before it builds a row."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self, TypeVar

from rmqcore._native.scan import Filter
from rmqcore.offline.damage import DamageRange
from rmqcore.spark.options import SourceOptions
from rmqcore.spark.planning import Span

Item = TypeVar("Item")


@dataclass(frozen=True)
class Conditions:
    """What must hold for a message; None where anything may. As in `StoreReader.messages`.

    Small, and sent to tasks by pickle.
    """

    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    keys: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    start_phy_offset: int | None = None
    end_phy_offset: int | None = None

    @classmethod
    def of(cls, options: SourceOptions, broker: str) -> Self:
        """Those that options state for one store."""
        span = options.span(broker)
        return cls(
            topics=None if options.topics is None else frozenset(options.topics),
            queue_ids=None if options.queue_ids is None else frozenset(options.queue_ids),
            tags=None if options.tags is None else frozenset(options.tags),
            keys=None if options.keys is None else frozenset(options.keys),
            since_ms=span.since_ms,
            until_ms=span.until_ms,
            start_phy_offset=span.start_phy_offset,
            end_phy_offset=span.end_phy_offset,
        )

    def and_also(self, other: Self) -> Self:
        """Both; but of two sets of keys the first, since a message has many."""
        return type(self)(
            _both(self.topics, other.topics),
            _both(self.queue_ids, other.queue_ids),
            _both(self.tags, other.tags),
            other.keys if self.keys is None else self.keys,
            _larger(self.since_ms, other.since_ms),
            _smaller(self.until_ms, other.until_ms),
            _larger(self.start_phy_offset, other.start_phy_offset),
            _smaller(self.end_phy_offset, other.end_phy_offset),
        )

    def native(self) -> Filter | None:
        """As the scan takes them; None when anything goes."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if all(value is None for value in given.values()):
            return None
        return Filter(**given)

    def overlaps(self, found: DamageRange) -> bool:
        """Whether damage lies in the range of CommitLog offsets that is asked for."""
        start, end = self.start_phy_offset, self.end_phy_offset
        return (start is None or found.end_phy_offset > start) and (
            end is None or found.start_phy_offset < end
        )

    def span(self, max_clock_step_ms: int | None) -> Span:
        """What planning makes use of."""
        return Span(
            self.start_phy_offset, self.end_phy_offset, self.since_ms, self.until_ms, max_clock_step_ms
        )  # fmt: skip


def _both(one: frozenset[Item] | None, other: frozenset[Item] | None) -> frozenset[Item] | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _larger(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)
