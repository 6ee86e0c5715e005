"""The messages that were pulled and not returned yet.

Source: RocketMQ 5.5.0 DefaultLitePullConsumerImpl (consumeRequestCache and its limits), ProcessQueue.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from rmqcore.client.messages.received_message import ReceivedMessage

MOST_MESSAGES = 10_000
MOST_MESSAGES_OF_QUEUE = 1_000
MOST_BYTES_OF_QUEUE = 100 << 20
Owner = TypeVar("Owner", bound=Hashable)


class Pulled(NamedTuple, Generic[Owner]):
    """The messages of one pull."""

    owner: Owner
    messages: tuple[ReceivedMessage, ...]
    next_offset: int
    """Queue offset behind all that the pull looked at."""


class MessageCache(Generic[Owner]):
    """Pulled messages, first in first out, with room for some thousands. Used by its loop's thread only."""

    def __init__(self) -> None:
        self._pulled: deque[Pulled[Owner]] = deque()
        self._messages: Counter[Owner] = Counter()
        self._bytes: Counter[Owner] = Counter()
        self._changed = asyncio.Event()
        self._closed = False

    def holds(self, owner: Owner) -> bool:
        """Return True if the cache has messages of an owner."""
        return self._messages[owner] > 0

    def held(self, owner: Owner) -> tuple[int, int]:
        """Return the number of messages of an owner, and the bytes of their records."""
        return self._messages[owner], self._bytes[owner]

    def put(self, pulled: Pulled[Owner]) -> None:
        """Add messages, at least one."""
        self._pulled.append(pulled)
        self._count(pulled, 1)

    def put_back(self, pulled: Pulled[Owner]) -> None:
        """Return taken messages to the front of the cache: they are the next ones."""
        if any(one is pulled for one in self._pulled):
            return  # an exception prevented their removal
        self._pulled.appendleft(pulled)
        self._count(pulled, 1)

    async def take(
        self, seconds: float, note: Callable[[Pulled[Owner]], bool]
    ) -> Pulled[Owner] | None:
        """Return the messages of the oldest pull; None if none arrived in time, or the cache is closed.

        Parameters
        ----------
        seconds : float
        note : callable
            Called with the messages before they leave the cache, so that an exception loses none. If it returns False,
            they stay.
        """
        try:
            async with asyncio.timeout(seconds):
                while not self._pulled and not self._closed:
                    await self._wait()
        except TimeoutError:
            return None
        if not self._pulled:
            return None
        pulled = self._pulled[0]
        if not note(pulled):
            return None
        self._pulled.popleft()
        self._count(pulled, -1)
        return pulled

    def drop(self, owner: Owner) -> None:
        """Forget the messages of an owner."""
        kept = [one for one in self._pulled if one.owner != owner]
        self._pulled = deque(kept)
        del self._messages[owner], self._bytes[owner]
        self._tell()

    def close(self) -> None:
        """Wake all waiting tasks."""
        self._closed = True
        self._tell()

    async def room(self, owner: Owner) -> None:
        """Wait until an owner may add more messages."""
        while (
            self._messages[owner] >= MOST_MESSAGES_OF_QUEUE
            or self._bytes[owner] >= MOST_BYTES_OF_QUEUE
            or self._messages.total() >= MOST_MESSAGES
        ):
            await self._wait()

    def _count(self, pulled: Pulled[Owner], sign: int) -> None:
        self._messages[pulled.owner] += sign * len(pulled.messages)
        self._bytes[pulled.owner] += sign * sum(one.msg_size for one in pulled.messages)
        self._tell()

    async def _wait(self) -> None:
        await self._changed.wait()

    def _tell(self) -> None:
        """Wake all waiting tasks; each checks for itself whether it can continue."""
        self._changed.set()
        self._changed = asyncio.Event()
