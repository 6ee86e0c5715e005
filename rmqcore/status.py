"""What the store answers, with Java's names. Imports nothing of the package."""

from __future__ import annotations

from enum import Enum, unique


@unique
class GetMessageStatus(Enum):
    """The outcome of a get. Source: RocketMQ 5.5.0 GetMessageStatus."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    """Entries were there, none passed the filter."""
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    """The entries' messages are not in the CommitLog (any more)."""
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    """The queue's file for this offset is missing."""
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    """Beyond the end of the queue."""
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    """Exactly at the end of the queue: nothing new."""
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"

    def __str__(self) -> str:
        return self.name
