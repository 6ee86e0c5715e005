"""A consumer for asyncio that asks for messages when it wants them.

Source: RocketMQ 5.5.0 DefaultLitePullConsumer, DefaultLitePullConsumerImpl, RebalanceImpl, RebalanceService.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterable
from typing import Self

from rmqcore.client.assigned_queue import AssignedQueue, ConsumeFrom, Reading
from rmqcore.client.deadlines import deadline
from rmqcore.client.handover import Handover
from rmqcore.client.instance import ClientInstance
from rmqcore.client.message_cache import MessageCache
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.subscriptions import subscription
from rmqcore.client.messages.validators import check_group, check_topic
from rmqcore.errors import (
    AnswerTimeoutError,
    ClientError,
    NotAssignedError,
    NotReachedError,
    RefusedError,
)
from rmqcore.remoting.allocation import allocate_averagely
from rmqcore.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rmqcore.remoting.bodies.json_object import parse_body
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import encode_fields

_LOG = logging.getLogger("rmqcore.client")
REBALANCE_SECONDS = 20.0
UNBALANCED_SECONDS = 1.0
AUTO_COMMIT_SECONDS = 5.0
FOR_GOOD = frozenset(
    {
        ResponseCode.NO_PERMISSION,
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    }
)
"""Refusals of a pull that asking again does not change."""


class AsyncPullConsumer:
    """Reads topics as a member of a consumer group, whose members share the queues. Belongs to the event loop that first uses it.

    Messages are pulled in the background, as soon as a topic is subscribed, and `poll` returns them. The group's offsets are
    stored by `commit`: what was returned and not committed comes again, to this member or another. A batch counts as
    received when `poll` has returned it; after an exception, such as that of Ctrl-C, the next poll returns it again.

    Parameters
    ----------
    namesrv : str or iterable of str
        Addresses of name servers, ``host:port``; in one text with ``;`` between them.
    group : str
        Name of the consumer group.
    consume_from : ConsumeFrom or str
        Where the group begins in a queue that it has no offset of: ``CONSUME_FROM_LAST_OFFSET``, with new messages, or
        ``CONSUME_FROM_FIRST_OFFSET``. A queue that is so young that all of its messages are in memory is read from its start in
        both cases, as brokers want it.
    auto_commit : bool
        Commit unasked, every five seconds, when queues go to another member, by `unsubscribe` and by `close`: each time what the
        polls before the last one returned, for the program may still work on the messages of the last one. Call `commit` to have
        these in it.
    pull_batch_size : int
        The most messages that are pulled, and that `poll` gives out, at once.
    now_ms : callable, optional
        The clock: milliseconds since the epoch.

    Raises
    ------
    ValueError
        A name or address is none.
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
    ) -> None:
        check_group(group)
        if not 1 <= pull_batch_size <= 1024:
            raise ValueError(f"pull_batch_size is {pull_batch_size}, expected 1 to 1024")
        self._group = group
        self._consume_from = ConsumeFrom(consume_from)
        self._auto_commit = auto_commit
        self._next_commit = 0.0
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._assigned: dict[MessageQueue, AssignedQueue] = {}
        self._cache: MessageCache[AssignedQueue] = MessageCache()
        self._wake = asyncio.Event()
        self._rebalancing = asyncio.Lock()
        self._committing = asyncio.Lock()
        self._watching = False
        self._instance = ClientInstance(
            namesrv,
            now_ms,
            consumers=self._consumers,
            on_request=self._requested,
            on_routes=self._wake.set,
        )
        self._reading = Reading(
            self._instance,
            group,
            self._consume_from,
            pull_batch_size,
            self._subscriptions.__getitem__,
            self._cache,
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
        """Read a topic too, or other tags of it. What is sent after this has returned is read, also by a new group.

        Parameters
        ----------
        topic : str
            One that no broker has yet is read as soon as it is there.
        tags : str
            ``TagA || TagB``; ``*`` for all messages.
        timeout : float
            Seconds for the whole call.

        Raises
        ------
        ValueError
            The topic is no name, or the tags are none.
        ClientError
            No name server could be asked, or the time is over: then the topic is not subscribed.
        """
        check_topic(topic)
        wanted = subscription(topic, tags, self._instance.now_ms())
        self._instance.check_open()
        before = self._subscriptions.get(topic)
        try:
            async with deadline(timeout, "subscribe"):
                await self._subscribe(topic, wanted, before)
        except BaseException:
            if before is None and topic in self._subscriptions:
                # Brokers may have heard of a member that will read nothing: others would miss its share.
                self._instance.run(self._withdraw(topic))
            raise

    async def _subscribe(
        self, topic: str, wanted: SubscriptionData, before: SubscriptionData | None
    ) -> None:
        await self._instance.find_route(topic)
        self._subscriptions[topic] = wanted
        if not self._watching:
            self._watching = True
            self._instance.run(self._watch())
        if before is not None and before.sub_string != wanted.sub_string:
            for assigned in self._of_topic(topic):
                assigned.settle()
                assigned.start_anew(assigned.progress.position)
        await self._instance.heartbeat()
        if not await self._rebalance():
            self._wake.set()
        for assigned in self._of_topic(topic):
            await assigned.placed.wait()

    async def unsubscribe(self, topic: str) -> None:
        """Read a topic no more.

        Raises
        ------
        ClientClosedError
            The consumer was closed.
        """
        self._instance.check_open()
        if topic in self._subscriptions:
            await self._withdraw(topic)

    async def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:  # noqa: ASYNC109 as Java's
        """Give the next messages, of one queue; wait for them if there are none.

        Parameters
        ----------
        timeout : float
            Seconds to wait at most; 0 gives what is there.

        Returns
        -------
        list of ReceivedMessage
            Empty where none came in time.

        Raises
        ------
        ClientError
            Nothing is subscribed, the consumer was closed, or a broker refuses for good to give this group anything.
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
        """Do the work of `poll`; the caller says in `handover` whether the messages have reached it."""
        self._instance.check_open()
        if not self._subscriptions:
            raise ClientError("nothing is subscribed: call subscribe(topic) first")
        for assigned in self._assigned.values():
            assigned.settle()
            assigned.progress.finish(handover.thread)
        self._commit_now_and_then()
        pulled = await self._cache.take(
            max(timeout, 0), lambda one: one.owner.progress.give(one, handover)
        )
        if pulled is not None:
            return list(pulled.messages)
        self._instance.check_open()  # it may have been closed meanwhile
        for assigned in self._assigned.values():
            if assigned.refused is not None and assigned.refused.response_code in FOR_GOOD:
                raise assigned.refused
        return []

    async def commit(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 as for poll
        """Store how far the group has come: behind all messages that `poll` has returned. Brokers have it when this returns.

        Parameters
        ----------
        timeout : float
            Seconds for the whole call.

        Raises
        ------
        ClientError
            A broker has not stored it; those of other queues may be stored.
        """
        self._instance.check_open()
        for assigned in self._assigned.values():
            assigned.settle()
        async with deadline(timeout, "commit"):
            await self._commit([(one, one.progress.position) for one in self._assigned.values()])

    async def seek(
        self, topic: str, queue_id: int, queue_offset: int, *, broker_name: str | None = None
    ) -> None:
        """Go on from another offset of a queue; what was pulled from it and not given out is forgotten.

        Parameters
        ----------
        topic : str
        queue_id, queue_offset : int
        broker_name : str, optional
            Where brokers have queues of the same number.

        Raises
        ------
        NotAssignedError
            This consumer does not read the queue.
        ValueError
            The queue does not reach so far, or several brokers have one of this number.
        ClientError
            The broker does not say how far it reaches.
        """
        self._instance.check_open()
        found = [
            assigned
            for queue, assigned in self._assigned.items()
            if (queue.topic, queue.queue_id) == (topic, queue_id)
            and broker_name in {None, queue.broker_name}
        ]
        if not found:
            raise NotAssignedError(
                f"queue {queue_id} of topic {topic} is not read by this consumer now"
            )
        if len(found) > 1:
            brokers = ", ".join(sorted(assigned.queue.broker_name for assigned in found))
            raise ValueError(f"brokers {brokers} have a queue {queue_id}: give broker_name")
        low, high = await found[0].bounds()
        if not low <= queue_offset <= high:
            raise ValueError(f"queue_offset is {queue_offset}, expected {low} to {high}")
        found[0].start_anew(queue_offset)

    def assignment(self) -> list[MessageQueue]:
        """Give the queues that this consumer reads, sorted."""
        return sorted(self._assigned)

    async def close(self, *, commit: bool = True, timeout: float = 5.0) -> None:  # noqa: ASYNC109 as for poll
        """Say goodbye to the brokers and close all connections. A second call does nothing.

        Parameters
        ----------
        commit : bool
            With `auto_commit`, what the polls before the last one returned is committed.
        timeout : float
            Seconds for the whole call.
        """
        if not self._instance.is_ours:
            self._instance.abandon()
            return
        for assigned in self._assigned.values():
            assigned.settle()
            assigned.drop()
        if self._auto_commit and commit:
            await self._commit_unasked(_finished(self._assigned.values()), timeout)
        self._assigned.clear()
        self._cache.close()
        await self._instance.close([{"consumerGroup": self._group}])

    def abandon(self) -> None:
        """Close all connections without a word; for a loop that ends."""
        self._instance.abandon()

    # ---- what brokers are told, and say -----------------------------------------------------------

    def _consumers(self) -> tuple[ConsumerData, ...]:
        if not self._subscriptions:
            return ()
        return (
            ConsumerData(
                self._group,
                "CONSUME_ACTIVELY",
                "CLUSTERING",
                self._consume_from,
                tuple(self._subscriptions.values()),
            ),
        )

    def _requested(self, request: RemotingCommand) -> RemotingCommand | None:
        if request.code != RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            return request.not_supported()
        self._wake.set()
        return request.response()

    # ---- offsets ----------------------------------------------------------------------------------

    def _commit_now_and_then(self) -> None:
        """Begin to commit in the background, with `auto_commit`: a poll does not wait for it."""
        now = asyncio.get_running_loop().time()
        if self._auto_commit and now >= self._next_commit:
            self._next_commit = now + AUTO_COMMIT_SECONDS
            work = self._commit_unasked(_finished(self._assigned.values()), AUTO_COMMIT_SECONDS)
            self._instance.run(work)

    async def _commit_unasked(
        self, positions: list[tuple[AssignedQueue, int | None]], seconds: float
    ) -> None:
        """Commit what the caller has done with. A failure is logged, and the next time is soon."""
        try:
            async with deadline(seconds, "commit"):
                await self._commit(positions)
        except ClientError as error:
            _LOG.warning("commit: %s", error)

    async def _commit(self, queues: Iterable[tuple[AssignedQueue, int | None]]) -> None:
        # One after the other for a topic on a broker: Java makes the table of a group and topic at its first commit without
        # a lock, and of two that come at once it loses one (ConsumerOffsetManager#commitOffset), though both are answered.
        by_table: dict[tuple[str, str], list[tuple[AssignedQueue, int | None]]] = {}
        for one, position in queues:
            table = by_table.setdefault((one.queue.broker_name, one.queue.topic), [])
            table.append((one, position))
        async with self._committing:
            done = await asyncio.gather(*map(_commit_in_turn, by_table.values()))
        for error in itertools.chain.from_iterable(done):
            raise error

    # ---- which queues -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Share the queues anew when somebody says so, and every 20 seconds."""
        seconds = UNBALANCED_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            self._wake.clear()
            balanced = await self._rebalance()
            seconds = REBALANCE_SECONDS if balanced else UNBALANCED_SECONDS

    async def _rebalance(self) -> bool:
        """Share the queues of all topics; False where that is to be done again soon."""
        async with self._rebalancing:
            balanced = True
            for topic in list(self._subscriptions):
                try:
                    balanced &= await self._rebalance_topic(topic)
                except ClientError as error:
                    _LOG.warning("rebalance of topic %s: %s", topic, error)
                    balanced = False
            return balanced

    async def _rebalance_topic(self, topic: str) -> bool:
        instance = self._instance
        if not instance.routes.has(topic) and not await instance.find_route(topic):
            return False
        queues = instance.routes.subscribe_queues(topic)
        try:
            members = await self._members(topic)
        except RefusedError:  # what a broker answers that knows no member of the group
            members = []
        if instance.client_id not in members:
            await instance.heartbeat()  # a broker that was started anew does not know this client
            members = await self._members(topic)
        if topic in self._subscriptions:
            await self._assign(topic, allocate_averagely(instance.client_id, queues, members))
        return instance.client_id in members

    async def _members(self, topic: str) -> list[str]:
        """Ids of all members of the group, sorted, from one of the topic's brokers."""
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        last: ClientError = NotReachedError(topic, code.name, "the topic's route names no broker")
        for address in self._instance.routes.addresses_of_topic(topic):
            fields = encode_fields(code, {"consumerGroup": self._group})
            request = RemotingCommand(code, ext_fields=fields)
            try:
                return await self._instance.ask(
                    address,
                    request,
                    lambda response: sorted(
                        set(parse_body(code.name, response.body).texts("consumerIdList"))
                    ),
                )
            except ClientError as error:
                last = error
        raise last

    async def _assign(self, topic: str, queues: list[MessageQueue]) -> None:
        """Read these queues of a topic, and no others."""
        gone = [assigned for assigned in self._of_topic(topic) if assigned.queue not in queues]
        for assigned in gone:
            assigned.settle()
            assigned.drop()
            del self._assigned[assigned.queue]
        for queue in queues:
            if queue not in self._assigned:
                self._assigned[queue] = AssignedQueue(queue, self._reading)
                self._assigned[queue].start()
        if self._auto_commit and gone:
            await self._commit_unasked(_finished(gone), AUTO_COMMIT_SECONDS)

    async def _withdraw(self, topic: str) -> None:
        """Read a topic no more, and let the other members have its queues."""
        self._subscriptions.pop(topic, None)
        await self._assign(topic, [])
        if self._subscriptions:
            self._instance.routes.forget(topic)
            await self._instance.heartbeat()
        else:
            await self._instance.say_goodbye([{"consumerGroup": self._group}])
            self._instance.routes.forget(topic)

    def _of_topic(self, topic: str) -> list[AssignedQueue]:
        return [one for one in self._assigned.values() if one.queue.topic == topic]


def _finished(queues: Iterable[AssignedQueue]) -> list[tuple[AssignedQueue, int | None]]:
    return [(one, one.progress.finished) for one in queues]


async def _commit_in_turn(queues: Iterable[tuple[AssignedQueue, int | None]]) -> list[ClientError]:
    """Commit them one after the other; return what went wrong. Of a broker that does not answer no more is asked."""
    errors: list[ClientError] = []
    for one, position in queues:
        try:
            await one.commit(position)
        except (AnswerTimeoutError, NotReachedError) as error:
            return [*errors, error]
        except ClientError as error:
            errors.append(error)
    return errors
