"""Locks of queues, which say which member of a group may consume a queue in order.

Source: RocketMQ 5.5.0 RebalanceLockManager; the bound is rmqcore's own.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rmqcore.broker.channel import Channel
from rmqcore.remoting.bodies.queue_locks import MessageQueue

LOCK_MAX_LIVE_TIME_MS = 60_000
"""A lock that was not renewed for longer is nobody's."""
_LOG = logging.getLogger("rmqcore.broker")


@dataclass(slots=True)
class _Lock:
    client_id: str
    channel: Channel
    """The connection that has asked for it last."""
    last_update_timestamp_ms: int


class QueueLocks:
    """The locks of all groups. Its methods are called by the loop's thread only.

    If all locks are taken, the connection that holds most loses its own and is closed; a connection that would itself
    hold most gets no further lock. Locks of a closed connection count for it until they expire: its client may return.

    Parameters
    ----------
    now_ms : callable
        The clock.
    most : int
        Most locks of all groups together.
    evict : callable
        Closes a connection and forgets its data.
    """

    def __init__(
        self, now_ms: Callable[[], int], most: int, evict: Callable[[Channel], object]
    ) -> None:
        self._now_ms = now_ms
        self._most = most
        self._evict = evict
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._held: Counter[Channel] = Counter()
        self._count = 0

    def try_lock_batch(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, channel: Channel
    ) -> list[MessageQueue]:
        """Lock queues for a client, or renew its locks; return the queues that it holds now."""
        now_ms = self._now_ms()
        locked = []
        has_room = True
        for queue in queues:
            lock = self._groups.get(group, {}).get(queue)
            if lock is None:
                has_room = has_room and self._make_room(channel)
                if not has_room:
                    continue  # as if another member had it
            elif lock.client_id != client_id and not _is_expired(lock, now_ms):
                continue
            else:
                self._forget(group, queue)
            self._groups.setdefault(group, {})[queue] = _Lock(client_id, channel, now_ms)
            self._held[channel] += 1
            self._count += 1
            locked.append(queue)
        return locked

    def unlock_batch(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Release a client's locks; those of other clients stay."""
        for queue in queues:
            lock = self._groups.get(group, {}).get(queue)
            if lock is not None and lock.client_id == client_id:
                self._forget(group, queue)

    def is_lock_all_expired(self, group: str) -> bool:
        """Return True if a group has no valid lock, so it does not consume in order."""
        now_ms = self._now_ms()
        return all(_is_expired(lock, now_ms) for lock in self._groups.get(group, {}).values())

    def drop_expired(self) -> None:
        """Drop the expired locks."""
        now_ms = self._now_ms()
        self._forget_all(lambda lock: _is_expired(lock, now_ms))

    def _make_room(self, channel: Channel) -> bool:
        """Make room for one more lock; return False if this connection would hold most."""
        while self._count >= self._most:
            (largest, held), *_ = self._held.most_common(1)
            if held <= self._held[channel] + 1:
                return False
            _LOG.warning(
                "%s: it holds %d locks of queues, the most of all connections, which hold maxQueueLocks (%d) together; "
                "it loses them, and the connection is closed",
                largest.peer,
                held,
                self._most,
            )
            self._forget_all(lambda lock: lock.channel is largest)  # noqa: B023 called at once
            self._evict(largest)
        return True

    def _forget_all(self, is_gone: Callable[[_Lock], bool]) -> None:
        for group, locks in list(self._groups.items()):
            for queue in [queue for queue, lock in locks.items() if is_gone(lock)]:
                self._forget(group, queue)

    def _forget(self, group: str, queue: MessageQueue) -> None:
        locks = self._groups[group]
        channel = locks.pop(queue).channel
        self._count -= 1
        self._held[channel] -= 1
        if not self._held[channel]:
            del self._held[channel]
        if not locks:
            del self._groups[group]


def _is_expired(lock: _Lock, now_ms: int) -> bool:
    return now_ms - lock.last_update_timestamp_ms > LOCK_MAX_LIVE_TIME_MS
