"""The marks of halves that ended, as a round of checks reads them.

Source: RocketMQ 5.5.0 TransactionalMessageServiceImpl#fillOpRemoveMap, #calculateOpOffset,
TransactionalMessageBridge#fetchConsumeOffset.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from rmqcore.broker.parts import BrokerParts
from rmqcore.broker.transactions.messages import GROUP, done_offsets
from rmqcore.broker.transactions.steps import Ask, get_when_warm
from rmqcore.vocabulary.status import GetMessageStatus
from rmqcore.vocabulary.topics import TRANS_OP_HALF_TOPIC

_MARKS_AT_ONCE = 32
_WRONG_OFFSET = frozenset(
    {
        GetMessageStatus.NO_MATCHED_MESSAGE,
        GetMessageStatus.MESSAGE_WAS_REMOVING,
        GetMessageStatus.OFFSET_FOUND_NULL,
        GetMessageStatus.OFFSET_OVERFLOW_BADLY,
        GetMessageStatus.OFFSET_TOO_SMALL,
    }
)


def consumed_offset(broker: BrokerParts, topic: str, queue_id: int) -> int:
    """Return the queue offset up to which halves, or their marks, are done."""
    queue_offset = broker.offsets.query(GROUP, topic, queue_id)
    return broker.store.min_offset(topic, queue_id) if queue_offset == -1 else queue_offset


class TransactionMarks:
    """The marks of one queue, from the first unfinished one on.

    Parameters
    ----------
    broker : BrokerParts
    queue_id : int
    least : int
        Halves before this queue offset, and their marks, are finished.

    Attributes
    ----------
    newest_born_ms : int or None
        Born time of the last message that the last `read_more` read; None if it read none.
    """

    def __init__(self, broker: BrokerParts, queue_id: int, *, least: int) -> None:
        self._broker = broker
        self._queue_id = queue_id
        self._least = least
        self._begin = self._next = consumed_offset(broker, TRANS_OP_HALF_TOPIC, queue_id)
        self._message_of: dict[int, int] = {}
        """By the half's queue offset that of the message with its mark."""
        self._halves_in: dict[int, set[int]] = {}
        """By the queue offset of a message the halves in it that were not taken yet."""
        self._done: set[int] = set()
        self.newest_born_ms: int | None = None

    def read_more(self) -> Generator[Ask, Any, bool]:
        """Read the next messages; return whether any were read."""
        wanted = TRANS_OP_HALF_TOPIC, self._queue_id, self._next, _MARKS_AT_ONCE
        found = yield from get_when_warm(self._broker, *wanted)
        self.newest_born_ms = None
        if found.status in _WRONG_OFFSET:
            self._next = found.next_begin_offset
            if not self._halves_in and not self._done:
                self._begin = self._next
        for message in found.messages:
            self.newest_born_ms = message.born_timestamp_ms
            self._note(message.queue_offset, done_offsets(message))
        if found.messages:
            self._next = found.next_begin_offset
        return bool(found.messages)

    def _note(self, at: int, halves: list[int]) -> None:
        new = {half for half in halves if half >= self._least}
        for half in new:
            self._message_of[half] = at
        if new:
            self._halves_in[at] = new
        else:
            self._done.add(at)

    def take(self, half_offset: int) -> bool:
        """Return True if a half message has ended, and remove its mark."""
        at = self._message_of.pop(half_offset, None)
        if at is None:
            return False
        halves = self._halves_in[at]
        halves.discard(half_offset)
        if not halves:
            del self._halves_in[at]
            self._done.add(at)
        return True

    def done_offset(self) -> int:
        """Return the queue offset of the first unfinished message."""
        while self._begin in self._done:
            self._done.discard(self._begin)
            self._begin += 1
        return self._begin
