"""The queues that a push consumer reads: their assignment, their locks for consumption in order, and their commits.

Source: RocketMQ 5.5.0 RebalancePushImpl, ConsumeMessageOrderlyService, MQClientInstance#resetOffset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from rmqcore.client.assigned_queue import ConsumeFrom, Reading
from rmqcore.client.broker_questions import QueueState
from rmqcore.client.commits import AUTO_COMMIT_SECONDS, Commits, Positions
from rmqcore.client.events import OnEvent
from rmqcore.client.membership import Membership, Reader
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.process_queues import HeldMessages, ProcessQueue
from rmqcore.client.queue_locks import LOCK_SECONDS, RENEW_SECONDS, QueueLocks
from rmqcore.remoting.names import retry_topic

_LOG = logging.getLogger("rmqcore.client")


class PushQueues:
    """A member of a consumer group, and the queues that it reads. Used by its loop's thread only.

    Parameters
    ----------
    namesrv : str or iterable of str
        Addresses of name servers.
    group : str
    held : HeldMessages
        The messages held of the queues, to which each queue is added and from which it is retired.
    now_ms, on_event : callable, optional
        As for `AsyncPushConsumer`.
    consume_from : ConsumeFrom
    pull_batch_size : int
        Most messages of one pull.

    Attributes
    ----------
    member : Membership
    assigned : dict of MessageQueue to ProcessQueue
        The queues that are read now.
    releasing : dict of MessageQueue to ProcessQueue
        Queues consumed in order, which are released as soon as their running handlers have ended.
    closing : bool
        No further queue is read from now on.

    Raises
    ------
    ValueError
        The name of the group or an address is invalid.
    """

    def __init__(
        self,
        namesrv: str | Iterable[str],
        group: str,
        held: HeldMessages,
        *,
        consume_from: ConsumeFrom,
        pull_batch_size: int,
        now_ms: Callable[[], int] | None,
        on_event: OnEvent | None,
    ) -> None:
        self._held = held
        self.assigned: dict[MessageQueue, ProcessQueue] = {}
        self.releasing: dict[MessageQueue, ProcessQueue] = {}
        self._started = self.closing = False
        self.member = Membership(
            namesrv,
            group,
            now_ms,
            Reader(self._assign, lambda _: None, self._placed, self._reset, self._states),
            consume_type="CONSUME_PASSIVELY",
            consume_from=consume_from,
            retry_topic=retry_topic(group),
            on_event=on_event,
        )
        self._instance = self.member.instance
        self._reading = Reading(
            self._instance,
            group,
            consume_from,
            pull_batch_size,
            self.member.subscriptions.__getitem__,
        )
        self._locks = QueueLocks(self._instance, group)
        self._commits = Commits(self._instance.outages)

    # ---- the end ----------------------------------------------------------------------------------

    def close_intake(self) -> None:
        """Stop pulling and delivering messages, and accept no further queues."""
        self.closing = True
        for queue in self.assigned.values():
            self._held.retire(queue)

    async def commit_and_leave(
        self, is_in_work: Callable[[ProcessQueue], bool], seconds: float
    ) -> None:
        """Commit, unlock the queues that no task works on, unregister, and close the connections."""
        end = asyncio.get_running_loop().time() + seconds
        queues = list(self.assigned.values())
        await self._commits.commit_unasked(self._positions(queues), seconds)
        if self._held.orderly:
            try:
                async with asyncio.timeout_at(end):
                    await self._locks.unlock(one.queue for one in queues if not is_in_work(one))
            except TimeoutError:
                _LOG.warning("close: the locks of queues expire later, brokers do not answer")
        self.assigned.clear()
        await self.member.close(end - asyncio.get_running_loop().time())

    # ---- assignment of queues ---------------------------------------------------------------------

    async def _assign(self, topic: str, queues: list[MessageQueue]) -> bool:
        if self.closing:
            return True
        self._start()
        await self._release([one for one in self._of_topic(topic) if one.queue not in queues])
        if self._has_left(topic):
            queues = []  # the topic was unsubscribed during the commit: these would not be pulled
        new = {one: 0.0 for one in queues if one not in self.assigned | self.releasing}
        if self._held.orderly and new:
            new = await self._lock(topic, new)
        for queue, locked_until in new.items():
            added = self.assigned[queue] = ProcessQueue(queue, self._reading, self._held)
            added.locked_until = locked_until
            self._held.add(added)
            added.start()
        leaving = any(one.topic == topic for one in self.releasing)
        return not leaving and all(one in self.assigned for one in queues)

    def _start(self) -> None:
        """Start the repeated tasks at the first call."""
        if not self._started:
            self._started = True
            self._instance.every(AUTO_COMMIT_SECONDS, self._commit)
            if self._held.orderly:
                self._instance.every(RENEW_SECONDS, self._renew_locks)

    async def _placed(self, topic: str) -> None:
        for one in self._of_topic(topic):
            await one.placed.wait()

    async def _release(self, gone: list[ProcessQueue]) -> None:
        """Release queues to other members: at once, or, in order, when their running handlers have ended."""
        for one in gone:
            self._held.retire(one)
            del self.assigned[one.queue]
            if self._held.orderly:
                self.releasing[one.queue] = one
                self._instance.run(self._let_go(one))
        if gone and not self._held.orderly:
            await self._commits.commit_unasked(self._positions(gone), AUTO_COMMIT_SECONDS)

    async def _reset(self, offsets: dict[MessageQueue, int]) -> None:
        """Drop the held messages of queues and commit other offsets, from which the next rebalance continues.

        Source: RocketMQ 5.5.0 MQClientInstance#resetOffset.
        """
        found = [one for one in self.assigned.values() if one.queue in offsets]
        for one in found:
            one.reset(offsets[one.queue])
        await self._release(found)

    def _states(self) -> list[QueueState]:
        return [one.state(asyncio.get_running_loop().time()) for one in self.assigned.values()]

    async def _let_go(self, one: ProcessQueue) -> None:
        try:
            await self._held.idle(one)
            await self._commits.commit_unasked(self._positions([one]), AUTO_COMMIT_SECONDS)
            await self._locks.unlock([one.queue])
        finally:
            del self.releasing[one.queue]
            self._held.tell()
            if all(other.topic != one.queue.topic for other in self.releasing):
                self.member.left(one.queue.topic)
            self.member.wake()

    def _has_left(self, topic: str) -> bool:
        """Return True if queues of a topic are not wanted any more; called again after each wait."""
        return self.closing or topic not in self.member.subscriptions

    def _of_topic(self, topic: str) -> list[ProcessQueue]:
        return [one for one in self.assigned.values() if one.queue.topic == topic]

    # ---- offsets and locks ------------------------------------------------------------------------

    async def _commit(self) -> None:
        positions = self._positions(self.assigned.values())
        await self._commits.commit_unasked(positions, AUTO_COMMIT_SECONDS)

    def _positions(self, queues: Iterable[ProcessQueue]) -> Positions:
        """Return the offsets to commit; in order, only of queues that are still locked: no other member reads these."""
        now = asyncio.get_running_loop().time()
        return [
            (one, one.position)
            for one in queues
            if not self._held.orderly or now < one.locked_until
        ]

    async def _lock(self, topic: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, float]:
        """Lock queues; return the locked ones, each with the time up to which it may be consumed."""
        until = asyncio.get_running_loop().time() + LOCK_SECONDS
        locked = [one for one, ours in (await self._locks.lock(queues)).items() if ours]
        if self._has_left(topic):
            await self._locks.unlock(locked)
            return {}
        return dict.fromkeys(locked, until)

    async def _renew_locks(self) -> None:
        held = self.assigned | self.releasing
        asked = asyncio.get_running_loop().time()
        lost = []
        for queue, ours in (await self._locks.lock(held)).items():
            one = held[queue]
            if ours and asked < one.locked_until:
                one.locked_until = asked + LOCK_SECONDS
                continue
            # Another member may have consumed the queue: its held messages are read again from the group's offset.
            _LOG.warning("%s: the lock was lost", queue)
            one.locked_until = 0.0
            if self.assigned.get(queue) is one:
                lost.append(one)
        await self._release(lost)
        self._held.tell()
