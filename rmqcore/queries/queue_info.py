"""QueueInfo: a queue and its offsets, as an open store and a reader return it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from rmqcore.shown.html_tables import values_html

Rest = tuple[int | None, int | None, int, int]
"""Minimum and maximum CommitLog offset, number of files, bytes on disk."""


class QueuePlace(NamedTuple):
    """Topic and id of a queue."""

    topic: str
    queue_id: int


class QueueInfo(QueuePlace):
    """Offsets of one queue. It is the pair (topic, queue_id), so ``for topic, queue_id in store.queues()`` works.

    Two are equal if topic and queue id are equal, whatever the offsets.

    Attributes
    ----------
    topic : str
    queue_id : int
    min_offset, max_offset : int
        Queue offsets of the first entry and after the last one.
    min_phy_offset, max_phy_offset : int or None
        CommitLog bytes: start of the first entry's message, end of the last one's; None in an empty queue. For an open
        store these and the next two are looked up at the first access to one of them.
    file_count : int
    disk_bytes : int
        Bytes that the files occupy (their unwritten ends are holes).
    """

    min_offset: int
    max_offset: int
    _rest: Rest | Callable[[], Rest]

    def __new__(
        cls,
        topic: str,
        queue_id: int,
        min_offset: int = 0,
        max_offset: int = 0,
        rest: Rest | Callable[[], Rest] = (None, None, 0, 0),
    ) -> Self:
        """Create an object; `rest` are the other four values, or a function that returns them."""
        made = super().__new__(cls, topic, queue_id)
        made.min_offset = min_offset
        made.max_offset = max_offset
        made._rest = rest
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return only the values, without the store."""
        return {**vars(self), "_rest": self._found()}

    def _found(self) -> Rest:
        rest = self._rest
        if not isinstance(rest, tuple):
            self._rest = rest = rest()
        return rest

    @property
    def min_phy_offset(self) -> int | None:
        """CommitLog offset at which the first entry's message starts."""
        return self._found()[0]

    @property
    def max_phy_offset(self) -> int | None:
        """CommitLog offset at which the last entry's message ends."""
        return self._found()[1]

    @property
    def file_count(self) -> int:
        """Number of files."""
        return self._found()[2]

    @property
    def disk_bytes(self) -> int:
        """Bytes that the files occupy."""
        return self._found()[3]

    def as_dict(self) -> dict[str, Any]:
        """Return the values by name."""
        return {name: getattr(self, name) for name in _NAMES}

    def _repr_html_(self) -> str:
        return values_html("QueueInfo", self.as_dict())

    def __repr__(self) -> str:
        return (
            f"QueueInfo({self.topic!r}, {self.queue_id}, min_offset={self.min_offset}, "
            f"max_offset={self.max_offset})"
        )


_NAMES = (
    "topic",
    "queue_id",
    "min_offset",
    "max_offset",
    "min_phy_offset",
    "max_phy_offset",
    "file_count",
    "disk_bytes",
)
