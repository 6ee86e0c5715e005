"""The way of a batch from a consumer to its caller: it counts as received only when the caller has it.

A consumer's position covers the messages that a caller has received, so it must not move before: an exception in
between (Ctrl-C, a signal handler or timer that raises, a cancelled call) would lose the batch for the group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from rmqcore.client.message_cache import Pulled

Owner = TypeVar("Owner")


class Handover:
    """One call of `poll`. The caller's thread writes, the loop's thread reads.

    Attributes
    ----------
    received : bool
        Set as the last step of the call.
    failed : bool
        The call ended with an exception; this overrides `received`.
    thread : Thread or None
        The thread of the call; None if all calls are of one caller.
    """

    __slots__ = ("failed", "received", "thread")

    def __init__(self, thread: threading.Thread | None = None) -> None:
        self.thread = thread
        self.received = False
        self.failed = False


class _Batch(Generic[Owner]):
    __slots__ = ("finished", "handover", "pulled")

    def __init__(self, pulled: Pulled[Owner], handover: Handover) -> None:
        self.pulled = pulled
        self.handover: Handover | None = handover
        self.finished = False

    @property
    def received(self) -> bool:
        return self.handover is not None and self.handover.received and not self.handover.failed


class Progress(Generic[Owner]):
    """A caller's progress in one queue. Used by its loop's thread only.

    Attributes
    ----------
    position : int or None
        Queue offset behind all messages that callers have received; None if it is not known yet.
    finished : int or None
        Queue offset behind the messages received before the caller's latest `poll`, for automatic commits.
    """

    def __init__(self, queue_offset: int | None = None) -> None:
        self.position = queue_offset
        self.finished = queue_offset
        self._batches: deque[_Batch[Owner]] = deque()

    @property
    def all_received(self) -> bool:
        """Return True if callers have received all batches."""
        return all(one.received for one in self._batches)

    def give(self, pulled: Pulled[Owner], handover: Handover) -> bool:
        """Note that a caller gets a batch, perhaps again; return False if the caller is gone."""
        if handover.failed:
            return False
        for one in self._batches:
            if one.pulled is pulled:
                one.handover = handover
                return True
        self._batches.append(_Batch(pulled, handover))
        return True

    def settle(self) -> Iterator[Pulled[Owner]]:
        """Note the received batches; yield those whose call has failed, newest first, which must be returned again."""
        for one in reversed(self._batches):
            if one.handover is not None and one.handover.failed:
                one.handover = None
                yield one.pulled
        for one in self._batches:
            if not one.received:
                break
            self.position = one.pulled.next_offset

    def finish(self, thread: threading.Thread | None) -> None:
        """Note that a caller polls again or has ended, and so has finished all messages that it had received."""
        for one in self._batches:
            owner = None if one.handover is None else one.handover.thread
            if one.received and (owner is thread or (owner is not None and not owner.is_alive())):
                one.finished = True
        while self._batches and self._batches[0].finished:
            self.finished = self._batches.popleft().pulled.next_offset

    def passed(self, queue_offset: int) -> None:
        """Move to an offset before which callers have received all messages."""
        if self.position is None or self.position <= queue_offset:
            self.position = queue_offset
            if not self._batches:
                self.finished = queue_offset
