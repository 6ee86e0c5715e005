"""Locks of queues: which member of a group may consume a queue in order.

Source: RocketMQ 5.5.0 RebalanceLockManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rmqcore.remoting.bodies.queue_locks import MessageQueue

LOCK_MAX_LIVE_TIME_MS = 60_000
"""A lock that was not renewed for longer is nobody's."""


MOST_LOCKS = 100_000
"""Of all groups: a lock more is refused, as if another member had it."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    last_update_timestamp_ms: int


class QueueLocks:
    """The locks of all groups. Its methods are called by the loop's thread only.

    Parameters
    ----------
    now_ms : callable
        The clock.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def try_lock_batch(
        self, group: str, queues: Iterable[MessageQueue], client_id: str
    ) -> list[MessageQueue]:
        """Lock queues for a client, or renew its locks; answer those that are its own now."""
        now_ms = self._now_ms()
        locks = self._groups.setdefault(group, {})
        locked = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None and self._count >= MOST_LOCKS:
                continue
            if lock is None or lock.client_id == client_id or _is_expired(lock, now_ms):
                self._count += lock is None
                locks[queue] = _Lock(client_id, now_ms)
                locked.append(queue)
        if not locks:
            del self._groups[group]
        return locked

    def unlock_batch(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Release a client's locks; those of other clients stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._groups.pop(group, None)

    def is_lock_all_expired(self, group: str) -> bool:
        """Return True if a group has no valid lock, so it does not consume in order."""
        now_ms = self._now_ms()
        return all(_is_expired(lock, now_ms) for lock in self._groups.get(group, {}).values())

    def drop_expired(self) -> None:
        """Forget the locks that are not in force any more."""
        now_ms = self._now_ms()
        for group, locks in list(self._groups.items()):
            for queue in [queue for queue, lock in locks.items() if _is_expired(lock, now_ms)]:
                del locks[queue]
                self._count -= 1
            if not locks:
                del self._groups[group]


def _is_expired(lock: _Lock, now_ms: int) -> bool:
    return now_ms - lock.last_update_timestamp_ms > LOCK_MAX_LIVE_TIME_MS
