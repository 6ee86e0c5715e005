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

from rmqcore.client.allocation import allocate_averagely
from rmqcore.client.assigned_queue import AssignedQueue, ConsumeFrom, Reading
from rmqcore.client.instance import ClientInstance
from rmqcore.client.message_cache import MessageCache
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.subscriptions import subscription
from rmqcore.client.messages.validators import check_group, check_topic
from rmqcore.errors import ClientError, NotAssignedError, NotReachedError, RefusedError
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

    Messages are pulled in the background, as soon as a topic is subscribed, and `poll` gives them out. The group's offsets are
    stored by `commit`: what was given out and not committed comes again, to this member or another.

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
        `poll` and `close` commit what earlier polls gave out, `poll` every five seconds.
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

    async def subscribe(self, topic: str, tags: str = "*") -> None:
        """Read a topic too, or other tags of it. What is sent after this has returned is read, also by a new group.

        Parameters
        ----------
        topic : str
            One that no broker has yet is read as soon as it is there.
        tags : str
            ``TagA || TagB``; ``*`` for all messages.

        Raises
        ------
        ValueError
            The topic is no name, or the tags are none.
        ClientError
            No name server could be asked.
        """
        check_topic(topic)
        wanted = subscription(topic, tags, self._instance.now_ms())
        self._instance.check_open()
        await self._instance.find_route(topic)
        before = self._subscriptions.get(topic)
        self._subscriptions[topic] = wanted
        if before is not None and before.sub_string != wanted.sub_string:
            for assigned in self._of_topic(topic):
                assigned.start_anew(assigned.position)
        await self._instance.heartbeat()
        if not self._watching:
            self._watching = True
            self._instance.run(self._watch())
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
        if self._subscriptions.pop(topic, None) is not None:
            await self._assign(topic, [])
            self._instance.routes.forget(topic)
            await self._instance.heartbeat()

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
        self._instance.check_open()
        if not self._subscriptions:
            raise ClientError("nothing is subscribed: call subscribe(topic) first")
        if self._auto_commit:
            await self._commit_now_and_then()
        pulled = await self._cache.take(max(timeout, 0))
        if pulled is not None:
            pulled.owner.given_out(pulled)
            return list(pulled.messages)
        self._instance.check_open()  # it may have been closed meanwhile
        for assigned in self._assigned.values():
            if assigned.refused is not None and assigned.refused.response_code in FOR_GOOD:
                raise assigned.refused
        return []

    async def commit(self) -> None:
        """Store how far the group has come: behind all messages that `poll` has given out. Brokers have it when this returns.

        Raises
        ------
        ClientError
            A broker has not stored it; those of other queues may be stored.
        """
        self._instance.check_open()
        await self._commit(self._assigned.values())

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

    async def close(self, *, commit: bool = True) -> None:
        """Say goodbye to the brokers and close all connections. A second call does nothing.

        Parameters
        ----------
        commit : bool
            With `auto_commit`, what was given out is committed.
        """
        for assigned in self._assigned.values():
            assigned.drop()
        if self._auto_commit and commit:
            await self._commit_and_tell(list(self._assigned.values()))
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

    async def _commit_now_and_then(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next_commit:
            self._next_commit = now + AUTO_COMMIT_SECONDS
            await self._commit_and_tell(list(self._assigned.values()))

    async def _commit_and_tell(self, queues: Iterable[AssignedQueue]) -> None:
        """Commit unasked: that it failed is told in the log, the next time is soon."""
        try:
            await self._commit(queues)
        except ClientError as error:
            _LOG.warning("commit: %s", error)

    async def _commit(self, queues: Iterable[AssignedQueue]) -> None:
        # One after the other for a topic on a broker: Java makes the table of a group and topic at its first commit without
        # a lock, and of two that come at once it loses one (ConsumerOffsetManager#commitOffset), though both are answered.
        by_table: dict[tuple[str, str], list[AssignedQueue]] = {}
        for one in queues:
            by_table.setdefault((one.queue.broker_name, one.queue.topic), []).append(one)
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
            assigned.drop()
            del self._assigned[assigned.queue]
        for queue in queues:
            if queue not in self._assigned:
                self._assigned[queue] = AssignedQueue(queue, self._reading)
                self._assigned[queue].start()
        if self._auto_commit:
            await self._commit_and_tell(gone)

    def _of_topic(self, topic: str) -> list[AssignedQueue]:
        return [one for one in self._assigned.values() if one.queue.topic == topic]


async def _commit_in_turn(queues: Iterable[AssignedQueue]) -> list[ClientError]:
    """Commit them one after the other, all of them; give what went wrong."""
    errors = []
    for one in queues:
        try:
            await one.commit()
        except ClientError as error:
            errors.append(error)
    return errors
