"""A consumer for asyncio whose program asks for messages with `poll`.

Source: RocketMQ 5.5.0 DefaultLitePullConsumer, DefaultLitePullConsumerImpl, RebalanceImpl, RebalanceService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Self

from rmqcore.client.assigned_queue import AssignedQueue, ConsumeFrom, Reading
from rmqcore.client.broker_questions import QueueState
from rmqcore.client.commits import AUTO_COMMIT_SECONDS, Commits, Positions
from rmqcore.client.deadlines import deadline
from rmqcore.client.events import OnEvent
from rmqcore.client.handover import Handover
from rmqcore.client.membership import Membership, Reader
from rmqcore.client.message_cache import MessageCache
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.subscriptions import subscription
from rmqcore.client.messages.validators import check_topic
from rmqcore.errors import ClientError, NotAssignedError
from rmqcore.errors.arguments import check_ints, check_texts
from rmqcore.remoting.codes import ResponseCode

_LOG = logging.getLogger("rmqcore.client")
FOR_GOOD = frozenset(
    {
        ResponseCode.NO_PERMISSION,
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    }
)
"""Refusals of a pull that asking again does not change."""


class AsyncPullConsumer:
    """Reads topics as a member of a consumer group, whose members share the queues.

    The consumer is bound to the event loop that first uses it. Messages are pulled in the background, as soon as a
    topic is subscribed, and `poll` returns them. `commit` stores the group's offsets: messages that were returned and
    not committed are delivered again, to this member or another. A batch counts as received when `poll` has returned
    it; after an exception, for example by Ctrl-C, the next poll returns it again.

    Parameters
    ----------
    namesrv : str or iterable of str
        Addresses of name servers, ``host:port``; in one string with ``;`` between them.
    group : str
        Name of the consumer group.
    consume_from : ConsumeFrom or str
        Where the group starts in a queue without an offset of the group: ``CONSUME_FROM_LAST_OFFSET``, with new
        messages, or ``CONSUME_FROM_FIRST_OFFSET``. In both cases a young queue, whose messages the broker still holds
        in memory, is read from its start, as brokers require.
    auto_commit : bool
        Commit automatically every five seconds, when queues move to another member, in `unsubscribe` and in `close`:
        each time the messages that the polls before the last one returned, because the program may still work on
        those of the last one. Call `commit` to include them.
    pull_batch_size : int
        Most messages of one pull and of one `poll`.
    now_ms : callable, optional
        The clock: milliseconds since the epoch.
    on_event : callable, optional
        Receives a `ClientEvent` for everything that succeeds or fails, in the loop's thread.

    Raises
    ------
    ValueError
        A name or address is invalid.
    """

    def __init__(
        self,
        namesrv: str | Iterable[str],
        group: str,
        *,
        consume_from: ConsumeFrom | str = ConsumeFrom.CONSUME_FROM_LAST_OFFSET,
        auto_commit: bool = False,
        pull_batch_size: int = 32,
        now_ms: Callable[[], int] | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        if not 1 <= pull_batch_size <= 1024:
            raise ValueError(f"pull_batch_size is {pull_batch_size}, expected 1 to 1024")
        self._auto_commit = auto_commit
        self._next_commit = 0.0
        self._assigned: dict[MessageQueue, AssignedQueue] = {}
        self._returned: dict[MessageQueue, AssignedQueue] = {}
        self._cache: MessageCache[AssignedQueue] = MessageCache()
        begin = ConsumeFrom(consume_from)
        reader = Reader(
            self._assign, self._expression_changed, self._placed, self._reset, self._states
        )
        self._member = Membership(
            namesrv,
            group,
            now_ms,
            reader,
            consume_type="CONSUME_ACTIVELY",
            consume_from=begin,
            on_event=on_event,
        )
        self._instance = self._member.instance
        self._commits = Commits(self._instance.outages)
        self._reading = Reading(
            self._instance,
            group,
            begin,
            pull_batch_size,
            self._member.subscriptions.__getitem__,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(commit=kind is None)

    async def subscribe(
        self,
        topic: str,
        tags: str = "*",
        timeout: float = 30.0,  # noqa: ASYNC109 as for poll
    ) -> None:
        """Add a topic, or change its tags. Messages sent after this call has returned are read, also by a new group.

        Parameters
        ----------
        topic : str
            A topic that no broker has yet is read as soon as it exists.
        tags : str
            ``TagA || TagB``; ``*`` for all messages.
        timeout : float
            Seconds for the whole call.

        Raises
        ------
        ValueError
            The topic or the tags are invalid.
        ClientError
            No name server answers, or the time is over: then the topic is not subscribed.
        """
        check_topic(topic)
        wanted = subscription(topic, tags, self._instance.now_ms())
        await self._member.subscribe(wanted, timeout)

    async def unsubscribe(self, topic: str, timeout: float = 5.0) -> None:  # noqa: ASYNC109 as for poll
        """Stop reading a topic.

        As in RocketMQ all members share the queues of each topic, even members that do not read it: while this consumer
        reads other topics, no member reads its part of the queues. Let all members unsubscribe, or close this one.

        Parameters
        ----------
        topic : str
        timeout : float
            Seconds for the whole call.

        Raises
        ------
        ClientClosedError
            The consumer was closed.
        AnswerTimeoutError
            The time is over; the brokers are notified later.
        """
        await self._member.unsubscribe(topic, timeout)

    async def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:  # noqa: ASYNC109 as Java's
        """Return the next messages, all of one queue; wait if none are available.

        Parameters
        ----------
        timeout : float
            Most seconds to wait; 0 returns only messages that were already pulled.

        Returns
        -------
        list of ReceivedMessage
            Empty if no message arrived in time.

        Raises
        ------
        ClientError
            No topic is subscribed, the consumer was closed, or a broker permanently refuses this group.
        """
        handover = Handover()
        try:
            messages = await self.hand_over(handover, timeout)
            handover.received = True
            return messages  # noqa: TRY300  an else block would be behind the handler
        except BaseException:
            handover.failed = True
            raise

    async def hand_over(self, handover: Handover, timeout: float) -> list[ReceivedMessage]:  # noqa: ASYNC109 as for poll
        """Do the work of `poll`; the caller notes in `handover` that it has received the messages."""
        self._instance.check_open()
        if not self._member.subscriptions:
            raise ClientError("nothing is subscribed: call subscribe(topic) first")
        for assigned in self._assigned.values():
            assigned.settle()
            assigned.progress.finish(handover.thread)
        self._commit_now_and_then()
        pulled = await self._cache.take(
            max(timeout, 0), lambda one: one.owner.progress.give(one, handover)
        )
        if pulled is not None:
            self._returned[pulled.owner.queue] = pulled.owner
            topic = pulled.owner.queue.topic
            self._instance.events.tell("poll", topic, len(pulled.messages))
            return list(pulled.messages)
        self._instance.check_open()  # it may have been closed during the wait
        for assigned in self._assigned.values():
            if assigned.refused is not None and assigned.refused.response_code in FOR_GOOD:
                raise assigned.refused
        return []

    async def commit(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 as for poll
        """Store the group's offsets behind all messages that `poll` has returned; return when the brokers have them.

        For a queue that another member reads now no offset is stored: that member gets its messages again. The log
        names the queue.

        Parameters
        ----------
        timeout : float
            Seconds for the whole call.

        Raises
        ------
        ClientError
            A broker has not stored an offset; offsets of other queues may be stored.
        """
        self._instance.check_open()
        for assigned in self._assigned.values():
            assigned.settle()
        self._name_taken()
        async with deadline(timeout, "commit"):
            await self._commits.commit(
                [(one, one.progress.position) for one in self._assigned.values()]
            )

    async def seek(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        broker_name: str | None = None,
        timeout: float = 5.0,  # noqa: ASYNC109 as for poll
    ) -> None:
        """Continue a queue at another offset; its messages that were pulled but not returned are dropped.

        Parameters
        ----------
        topic : str
        queue_id, queue_offset : int
        broker_name : str, optional
            Needed if several brokers have a queue of this number.
        timeout : float
            Seconds for the whole call.

        Raises
        ------
        NotAssignedError
            This consumer does not read the queue.
        ValueError
            The queue ends before the offset, or several brokers have a queue of this number.
        ClientError
            The broker does not report the queue's offsets.
        """
        self._instance.check_open()
        check_texts(topic=topic)
        check_ints(queue_id=queue_id, queue_offset=queue_offset)
        found = [
            assigned
            for queue, assigned in self._assigned.items()
            if (queue.topic, queue.queue_id) == (topic, queue_id)
            and broker_name in {None, queue.broker_name}
        ]
        if not found:
            raise NotAssignedError(
                f"queue {queue_id} of topic {topic} is not assigned to this consumer now"
            )
        if len(found) > 1:
            brokers = ", ".join(sorted(assigned.queue.broker_name for assigned in found))
            raise ValueError(f"brokers {brokers} all have a queue {queue_id}: pass broker_name")
        async with deadline(timeout, "seek"):
            low, high = await found[0].bounds()
        if not low <= queue_offset <= high:
            raise ValueError(f"queue_offset is {queue_offset}, expected {low} to {high}")
        found[0].start_anew(queue_offset)

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer reads, sorted."""
        return sorted(self._assigned)

    async def close(self, *, commit: bool = True, timeout: float = 5.0) -> None:  # noqa: ASYNC109 as for poll
        """Unregister at the brokers and close all connections. A second call does nothing.

        Parameters
        ----------
        commit : bool
            With `auto_commit`, commit the messages that the polls before the last one returned.
        timeout : float
            Seconds for the whole call; the member unregisters at the brokers in any case.
        """
        if not self._instance.is_ours:
            self._instance.abandon()
            return
        end = asyncio.get_running_loop().time() + max(timeout, 0)
        for assigned in self._assigned.values():
            assigned.settle()
            assigned.drop()
        try:
            if self._auto_commit and commit:
                await self._commits.commit_unasked(_finished(self._assigned.values()), timeout)
        except BaseException:
            self.abandon()  # else the brokers would keep a member that reads nothing
            raise
        self._assigned.clear()
        self._cache.close()
        await self._member.close(end - asyncio.get_running_loop().time())

    def abandon(self) -> None:
        """Close all connections without unregistering; for a loop that ends."""
        self._instance.abandon()

    # ---- offsets ----------------------------------------------------------------------------------

    def _name_taken(self) -> None:
        """Log the queues that were reassigned while messages returned since the last commit were not committed."""
        returned, self._returned = self._returned, {}
        for queue, one in sorted(returned.items()):
            done = self._auto_commit and one.progress.finished == one.progress.position
            if self._assigned.get(queue) is not one and not done:
                _LOG.warning(
                    "commit: %s is no longer assigned to this consumer, so nothing was committed: "
                    "the group gets its messages again",
                    queue,
                )

    def _commit_now_and_then(self) -> None:
        """With `auto_commit`, start a commit in the background when one is due: a poll does not wait for it."""
        now = asyncio.get_running_loop().time()
        if self._auto_commit and now >= self._next_commit:
            self._next_commit = now + AUTO_COMMIT_SECONDS
            work = self._commits.commit_unasked(
                _finished(self._assigned.values()), AUTO_COMMIT_SECONDS
            )
            self._instance.run(work)

    # ---- which queues -----------------------------------------------------------------------------

    async def _assign(self, topic: str, queues: list[MessageQueue]) -> bool:
        gone = [assigned for assigned in self._of_topic(topic) if assigned.queue not in queues]
        for assigned in gone:
            assigned.settle()
            assigned.drop()
            del self._assigned[assigned.queue]
        for queue in queues:
            if queue not in self._assigned:
                self._assigned[queue] = AssignedQueue(queue, self._reading, self._cache)
                self._assigned[queue].start()
        if self._auto_commit and gone:
            await self._commits.commit_unasked(_finished(gone), AUTO_COMMIT_SECONDS)
        return True

    def _expression_changed(self, topic: str) -> None:
        for assigned in self._of_topic(topic):
            assigned.settle()
            assigned.start_anew(assigned.progress.position)

    async def _reset(self, offsets: dict[MessageQueue, int]) -> None:
        """Continue from other offsets, and commit them: a commit in progress may have stored the old ones."""
        found = [one for one in self._assigned.values() if one.queue in offsets]
        for assigned in found:
            assigned.start_anew(offsets[assigned.queue])
        positions: Positions = [(one, offsets[one.queue]) for one in found]
        await self._commits.commit_unasked(positions, AUTO_COMMIT_SECONDS)

    def _states(self) -> list[QueueState]:
        return [
            QueueState(one.queue, one.progress.position, *self._cache.held(one))
            for one in self._assigned.values()
        ]

    async def _placed(self, topic: str) -> None:
        for assigned in self._of_topic(topic):
            await assigned.placed.wait()

    def _of_topic(self, topic: str) -> list[AssignedQueue]:
        return [one for one in self._assigned.values() if one.queue.topic == topic]


def _finished(queues: Iterable[AssignedQueue]) -> Positions:
    return [(one, one.progress.finished) for one in queues]
