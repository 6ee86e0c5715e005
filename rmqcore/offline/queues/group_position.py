"""Where a consumer group is in a queue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's offset beside the ends of a queue.

    Attributes
    ----------
    queue_offset : int
        Of the first message that the group has not consumed.
    min_offset, max_offset : int
        Of the queue.
    """

    queue_offset: int
    min_offset: int
    max_offset: int

    @property
    def first_unread(self) -> int:
        """Queue offset of the first message that is there and not consumed; `max_offset` where none is."""
        return min(max(self.queue_offset, self.min_offset), self.max_offset)

    @property
    def lost(self) -> int:
        """Messages that were not consumed, and are gone."""
        return max(0, self.first_unread - self.queue_offset)

    @property
    def unread(self) -> int:
        """Messages that are there and not consumed."""
        return self.max_offset - self.first_unread

    @property
    def beyond(self) -> bool:
        """The group says that it has consumed messages which the queue does not have."""
        return self.queue_offset > self.max_offset
