"""Conditions on messages, tested by the native scan before it builds a row: one set for reader, command line and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Self, TypedDict, TypeVar

from rmqcore._native.scan.filter import Filter
from rmqcore.errors.arguments import check_longs, check_within, wrong_type
from rmqcore.offline.log.damage import DamageRange
from rmqcore.vocabulary.units import INT_MAX, INT_MIN

Item = TypeVar("Item")


class Wanted(TypedDict, total=False):
    """The conditions of `StoreReader.messages`, as keywords."""

    topics: Iterable[str] | None
    queue_ids: Iterable[int] | None
    tags: Iterable[str] | None
    keys: Iterable[str] | None
    since_ms: int | None
    until_ms: int | None
    start_phy_offset: int | None
    end_phy_offset: int | None


@dataclass(frozen=True)
class Conditions:
    """Conditions on messages, each field as the keyword of `StoreReader.messages`; None accepts every message.

    Small and picklable: Spark sends it to its tasks.
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
    def of(
        cls,
        topics: Iterable[str] | None = None,
        queue_ids: int | Iterable[int] | None = None,
        tags: Iterable[str] | None = None,
        keys: Iterable[str] | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        start_phy_offset: int | None = None,
        end_phy_offset: int | None = None,
    ) -> Self:
        """Make conditions of what a caller gave: any iterable, and for queue ids also one int.

        Raises
        ------
        TypeError
            A str where texts are expected: its letters would be taken for names. Or something else than texts and whole numbers.
        ValueError
            A number that the fields of a record have no room for.
        """
        check_longs(
            since_ms=since_ms,
            until_ms=until_ms,
            start_phy_offset=start_phy_offset,
            end_phy_offset=end_phy_offset,
        )
        return cls(
            _texts("topics", topics),
            _queue_ids(queue_ids),
            _texts("tags", tags),
            _texts("keys", keys),
            since_ms,
            until_ms,
            start_phy_offset,
            end_phy_offset,
        )

    def keywords(self) -> dict[str, Any]:
        """Return the fields that are not None as keywords, for `StoreReader.messages` and the like."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if value is not None}

    def native(self) -> Filter | None:
        """Return the filter for the scan; None if every message is accepted."""
        given = self.keywords()
        return Filter(**given) if given else None

    def and_also(self, other: Self) -> Self:
        """Return conditions under which both hold, except that only one set of keys is kept: a message has many keys."""
        return type(self)(
            _common(self.topics, other.topics),
            _common(self.queue_ids, other.queue_ids),
            _common(self.tags, other.tags),
            other.keys if self.keys is None else self.keys,
            _larger(self.since_ms, other.since_ms),
            _smaller(self.until_ms, other.until_ms),
            _larger(self.start_phy_offset, other.start_phy_offset),
            _smaller(self.end_phy_offset, other.end_phy_offset),
        )

    def either(self, other: Self) -> Self:
        """Return conditions that hold wherever one of the two does; they may hold for more messages.

        A field limits the answer only where both have it.
        """
        return type(self)(
            _united(self.topics, other.topics),
            _united(self.queue_ids, other.queue_ids),
            _united(self.tags, other.tags),
            _united(self.keys, other.keys),
            _of_both(min, self.since_ms, other.since_ms),
            _of_both(max, self.until_ms, other.until_ms),
            _of_both(min, self.start_phy_offset, other.start_phy_offset),
            _of_both(max, self.end_phy_offset, other.end_phy_offset),
        )

    def overlaps(self, damage: DamageRange) -> bool:
        """Return whether a damaged range lies, at least partly, in the range of CommitLog offsets."""
        start, end = self.start_phy_offset, self.end_phy_offset
        return (start is None or damage.end_phy_offset > start) and (
            end is None or damage.start_phy_offset < end
        )


def _texts(name: str, given: Iterable[str] | None) -> frozenset[str] | None:
    if isinstance(given, str):
        raise TypeError(f"{name}: expected an iterable of str, got the str {given!r}")
    if given is not None and not isinstance(given, Iterable):
        raise wrong_type(name, "an iterable of str or None", given)
    texts = _set(given)
    for text in texts or ():
        if not isinstance(text, str):
            raise wrong_type(name, "an iterable of str or None", text)
    return texts


def _queue_ids(given: int | Iterable[int] | None) -> frozenset[int] | None:
    if given is None:
        return None
    queue_ids = frozenset(given if isinstance(given, Iterable) else [given])
    for queue_id in queue_ids:
        if not hasattr(queue_id, "__index__"):
            raise wrong_type("queue_ids", "int, an iterable of int or None", queue_id)
        check_within("queue_ids", queue_id, INT_MIN, INT_MAX)
    return queue_ids


def _set(given: Iterable[Item] | None) -> frozenset[Item] | None:
    return None if given is None else frozenset(given)


def _common(left: frozenset[Item] | None, right: frozenset[Item] | None) -> frozenset[Item] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _united(left: frozenset[Item] | None, right: frozenset[Item] | None) -> frozenset[Item] | None:
    return None if left is None or right is None else left | right


def _of_both(choose: Callable[[int, int], int], left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else choose(left, right)


def _larger(left: int | None, right: int | None) -> int | None:
    return max((value for value in (left, right) if value is not None), default=None)


def _smaller(left: int | None, right: int | None) -> int | None:
    return min((value for value in (left, right) if value is not None), default=None)
