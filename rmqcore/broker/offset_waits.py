"""Messages that wait until the log is safe up to their end, in that order, with one callback in the store."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from threading import get_ident
from typing import Protocol

from rmqcore.broker.channel import Loop
from rmqcore.broker.thens import call_each
from rmqcore.errors import StoreError
from rmqcore.vocabulary.status import PutMessageStatus

Heard = Callable[[PutMessageStatus], object]


class Ask(Protocol):
    """`MessageStore.on_flushed` or `on_replicated`."""

    def __call__(self, end_phy_offset: int, callback: Heard, timeout_ms: int, /) -> None:
        """Call `callback` once: when the log is safe up to an offset, when the time is over, or when the store fails."""
        ...


# Not frozen, though it is never changed: frozen, it costs three times as much, and a SYNC_MASTER makes one per send.
@dataclass(slots=True, eq=False)
class _Wait:
    """One message: the offset of its end, the time at which its wait ends, and the callback."""

    end_offset: int
    until: float
    then: Heard


class OffsetWaits:
    """The messages that wait for the disk, or those that wait for followers. Only the loop's thread calls its methods.

    A log that is safe up to one offset is safe up to all smaller ones. So the store holds only the callback of the
    first message. With a callback for each message a SYNC_MASTER spends more on callbacks than on messages.

    Parameters
    ----------
    loop : Loop
    ask : Ask
        May call back in any thread.
    safe_to : callable
        Returns the CommitLog offset up to which the log is safe.
    late : PutMessageStatus
        The status of a message whose time is over.
    timeout_ms : int
        How long each message waits, from `add` on.
    """

    def __init__(
        self,
        loop: Loop,
        ask: Ask,
        safe_to: Callable[[], int],
        late: PutMessageStatus,
        timeout_ms: int,
    ) -> None:
        self._loop = loop
        self._ask = ask
        self._safe_to = safe_to
        self._late = late
        self._timeout_ms = timeout_ms
        self._waiting: deque[_Wait] = deque()
        self._asked: _Wait | None = None
        self._thread = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, then: Heard) -> None:
        """Call ``then(status)`` once: PUT_OK, `late`, or UNKNOWN_ERROR if the store fails before the log is safe.

        Raises
        ------
        StoreError, OSError
            The store had failed already; `then` is not called.
        """
        self._thread = get_ident()
        waiting = self._waiting
        one = _Wait(end_offset, time.monotonic() + self._timeout_ms / 1000, then)
        is_last = not waiting or waiting[-1].end_offset <= end_offset
        waiting.append(one)
        if not is_last:
            self._waiting = waiting = deque(sorted(waiting, key=lambda wait: wait.end_offset))
        if waiting[0] is one:
            try:
                self._ask_for(one, self._timeout_ms)
            except (StoreError, OSError):
                waiting.remove(one)
                raise

    def _ask_for(self, one: _Wait, timeout_ms: int) -> None:
        self._asked = one
        self._ask(one.end_offset, partial(self._heard, one), timeout_ms)

    def _heard(self, one: _Wait, status: PutMessageStatus) -> None:
        if get_ident() == self._thread:
            self._answer(one, status)
        else:
            self._loop.call_soon_threadsafe(partial(self._answer, one, status))

    def _answer(self, one: _Wait, status: PutMessageStatus) -> None:
        """Call back the messages that the store's answer covers, and wait in the store for the first of the others."""
        is_safe = status is PutMessageStatus.PUT_OK
        self._pop_safe(max(self._safe_to(), one.end_offset if is_safe else 0))
        if status is PutMessageStatus.UNKNOWN_ERROR:
            self._pop(lambda _: True, status)
        elif not is_safe:
            now = time.monotonic()
            self._pop(lambda wait: wait is one or wait.until <= now, status)
        self._ask_for_first()

    def _pop_safe(self, safe_to: int) -> None:
        """Take all messages that end before or at an offset off the list, then call them back."""
        waiting, thens = self._waiting, []
        while waiting and waiting[0].end_offset <= safe_to:
            thens.append(waiting.popleft().then)
        call_each(thens, PutMessageStatus.PUT_OK)

    def _pop(self, is_meant: Callable[[_Wait], bool], status: PutMessageStatus) -> None:
        """Take the messages at the front that `is_meant` accepts off the list, then call them back."""
        waiting = self._waiting
        thens = [wait.then for wait in takewhile(is_meant, waiting)]
        for _ in thens:
            waiting.popleft()
        call_each(thens, status)

    def _ask_for_first(self) -> None:
        while self._waiting and self._waiting[0] is not self._asked:
            first = self._waiting[0]
            left_s = first.until - time.monotonic()
            if first.end_offset <= self._safe_to():
                self._answer_first(PutMessageStatus.PUT_OK)
            elif left_s <= 0:
                self._answer_first(self._late)
            else:
                try:
                    self._ask_for(first, round(left_s * 1000) + 1)
                except (StoreError, OSError):  # the store has failed since
                    self._pop(lambda _: True, PutMessageStatus.UNKNOWN_ERROR)

    def _answer_first(self, status: PutMessageStatus) -> None:
        call_each((self._waiting.popleft().then,), status)
