"""A client as a member of a consumer group: its subscriptions, and its part of the queues.

Source: RocketMQ 5.5.0 RebalanceImpl, RebalanceService, DefaultMQPushConsumerImpl#copySubscription.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from rmqcore.client import broker_questions
from rmqcore.client.broker_questions import QueueState
from rmqcore.client.deadlines import deadline
from rmqcore.client.events import OnEvent
from rmqcore.client.instance import ClientInstance
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.validators import check_group
from rmqcore.errors import ClientError, NotReachedError, RefusedError, RequestError
from rmqcore.errors.arguments import check_texts
from rmqcore.remoting.allocation import allocate_averagely
from rmqcore.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rmqcore.remoting.bodies.json_object import parse_body
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import encode_fields
from rmqcore.vocabulary.clock import wall_clock_ms

_LOG = logging.getLogger("rmqcore.client")
REBALANCE_SECONDS = 20.0
UNBALANCED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Reader:
    """A consumer's work on the queues assigned to a member."""

    assign: Callable[[str, list[MessageQueue]], Awaitable[bool]]
    """Read these queues of a topic, and no others; False if that is not done yet: another rebalance is to follow soon."""
    expression_changed: Callable[[str], object]
    """Apply another expression to a topic that is read already."""
    placed: Callable[[str], Awaitable[None]]
    """Wait until the offsets are known from which the topic's queues are read."""
    reset: Callable[[dict[MessageQueue, int]], Awaitable[None]]
    """Go on from other offsets in those of the queues that are read."""
    queues: Callable[[], list[QueueState]]
    """Return the queues that are read."""


class Membership:
    """A member of a consumer group. Used by its loop's thread only.

    Parameters
    ----------
    namesrv : str or iterable of str
        Addresses of name servers.
    group : str
    now_ms : callable, optional
        The clock: milliseconds since the epoch.
    reader : Reader
    consume_type, consume_from : str
        Names of Java's enum values, for heartbeats.
    retry_topic : str, optional
        Subscribed in addition to the topics of the user, while any is subscribed.
    on_event : callable, optional

    Attributes
    ----------
    instance : ClientInstance
    subscriptions : dict of str to SubscriptionData
        By topic.

    Raises
    ------
    ValueError
        The name of the group or an address is invalid.
    """

    def __init__(
        self,
        namesrv: str | Iterable[str],
        group: str,
        now_ms: Callable[[], int] | None,
        reader: Reader,
        *,
        consume_type: str,
        consume_from: str,
        retry_topic: str | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        check_group(group)
        self.group = group
        self.subscriptions: dict[str, SubscriptionData] = {}
        self._reader = reader
        self._consume_type = consume_type
        self._consume_from = consume_from
        self._retry_topic = retry_topic
        self._wake = asyncio.Event()
        self._rebalancing = asyncio.Lock()
        self._watching = False
        self._shares: dict[str, list[MessageQueue]] = {}
        self._started_ms = (now_ms or wall_clock_ms)()
        self.instance = ClientInstance(
            namesrv,
            now_ms,
            consumers=self._consumers,
            on_request=self._requested,
            on_routes=self.wake,
            on_event=on_event,
        )

    def wake(self) -> None:
        """Redistribute the queues soon."""
        self._wake.set()

    async def subscribe(self, wanted: SubscriptionData, seconds: float) -> None:
        """Add a topic, or change its expression. Queues and their first offsets are known when this returns.

        Raises
        ------
        ClientError
            No name server answers, or the time is over: then a new topic is not subscribed.
        """
        topic = wanted.topic
        self.instance.check_open()
        is_new = topic not in self.subscriptions
        try:
            async with deadline(seconds, "subscribe"):
                await self._subscribe(wanted)
        except BaseException:
            if is_new and topic in self.subscriptions:
                # Brokers may count this member already, although it will read nothing: its share would go unread.
                self.instance.run(self._withdraw(topic))
            raise

    async def unsubscribe(self, topic: str, seconds: float) -> None:
        """Stop reading a topic; after the last topic the other members get this member's queues.

        If the call is cancelled or its time is over, the rest is done in the background: else brokers would count a
        member that reads nothing.

        Raises
        ------
        ClientClosedError
            The consumer was closed.
        AnswerTimeoutError
            The time is over.
        """
        self.instance.check_open()
        check_texts(topic=topic)
        if topic in self.subscriptions:
            async with deadline(seconds, "unsubscribe"):
                await asyncio.shield(self.instance.run(self._withdraw(topic)))

    def left(self, *topics: str) -> None:
        """Forget the routes of topics that are not read any more; no request about them follows."""
        for topic in topics:
            if topic not in self.subscriptions:
                self.instance.routes.forget(topic)

    async def close(self, seconds: float) -> None:
        """Unregister at the brokers, wait up to `seconds` for their answers, and close all connections."""
        await self.instance.close([{"consumerGroup": self.group}], seconds)

    # ---- requests to and from brokers -------------------------------------------------------------

    def _consumers(self) -> tuple[ConsumerData, ...]:
        if not self.subscriptions:
            return ()
        return (
            ConsumerData(
                self.group,
                self._consume_type,
                "CLUSTERING",
                self._consume_from,
                tuple(self.subscriptions.values()),
            ),
        )

    def _requested(self, request: RemotingCommand) -> RemotingCommand | None:
        try:
            return self._answer(request)
        except RequestError as error:
            _LOG.warning("a broker sent a request that cannot be carried out: %s", error)
            return request.response(ResponseCode.SYSTEM_ERROR, str(error))

    def _answer(self, request: RemotingCommand) -> RemotingCommand | None:
        match request.code:
            case RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                self.wake()
                return request.response()
            case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                return self._asked_to_reset(request)
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                return broker_questions.status(request, self.group, self._reader.queues())
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                consumer = next(iter(self._consumers()), None)
                queues = self._reader.queues
                return broker_questions.running_info(request, consumer, queues, self._properties())
            case _:
                return request.not_supported()

    def _asked_to_reset(self, request: RemotingCommand) -> RemotingCommand:
        offsets = broker_questions.new_offsets(request, self.group)
        if offsets:
            self.instance.run(self._reset(offsets))
        return request.response()

    async def _reset(self, offsets: dict[MessageQueue, int]) -> None:
        """Continue from other offsets; the assignment of queues does not change during the reset."""
        for queue, queue_offset in sorted(offsets.items()):
            _LOG.warning("%s: an operator sets the group back or forth to %d", queue, queue_offset)
        async with self._rebalancing:
            await self._reader.reset(offsets)
        self.wake()

    def _properties(self) -> dict[str, str]:
        """Return the properties of a member that Java's tools read. Source: RocketMQ 5.5.0 ConsumerRunningInfo."""
        return {
            "PROP_NAMESERVER_ADDR": ";".join(self.instance.name_servers),
            "PROP_CONSUME_TYPE": self._consume_type,
            "PROP_CLIENT_VERSION": "rmqcore",
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
        }

    # ---- assignment of queues ---------------------------------------------------------------------

    async def _subscribe(self, wanted: SubscriptionData) -> None:
        topic = wanted.topic
        await self.instance.find_route(topic)
        before = self.subscriptions.get(topic)
        self.subscriptions[topic] = wanted
        if self._retry_topic is not None:
            retries = SubscriptionData(self._retry_topic, sub_version=wanted.sub_version)
            self.subscriptions.setdefault(self._retry_topic, retries)
        if not self._watching:
            self._watching = True
            self.instance.run(self._watch())
        if before is not None and before.sub_string != wanted.sub_string:
            self._reader.expression_changed(topic)
        await self.instance.heartbeat()
        if not await self._rebalance():
            self.wake()
        await self._reader.placed(topic)

    async def _watch(self) -> None:
        """Redistribute the queues after each `wake`, and every 20 seconds."""
        seconds = UNBALANCED_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            self._wake.clear()
            balanced = False
            try:
                balanced = await self._rebalance()
            except Exception:  # noqa: BLE001 a bug in one round must not end all rounds
                _LOG.exception("rebalance")
            seconds = REBALANCE_SECONDS if balanced else UNBALANCED_SECONDS

    async def _rebalance(self) -> bool:
        """Redistribute the queues of all topics; return False if it should be repeated soon."""
        async with self._rebalancing:
            balanced = True
            for topic in list(self.subscriptions):
                try:
                    balanced &= await self._rebalance_topic(topic)
                except ClientError as error:
                    text = "rebalance of topic %s, tried again: %s"
                    self.instance.outages.begin(f"rebalance {topic}", text, topic, error)
                    balanced = False
                else:
                    text = "the queues of topic %s are shared out again"
                    self.instance.outages.end(f"rebalance {topic}", text, topic)
            return balanced

    async def _rebalance_topic(self, topic: str) -> bool:
        instance = self.instance
        if not instance.routes.has(topic) and not await instance.find_route(topic):
            return False
        queues = instance.routes.subscribe_queues(topic)
        try:
            members = await self._members(topic)
        except RefusedError:  # the answer of a broker that knows no member of the group
            members = []
        if instance.client_id not in members:
            await instance.heartbeat()  # a restarted broker does not know this client
            members = await self._members(topic)
        mine = allocate_averagely(instance.client_id, queues, members)
        assigned = topic not in self.subscriptions or await self._reader.assign(topic, mine)
        if self._shares.get(topic) != mine:
            self._shares[topic] = mine
            instance.events.tell("rebalance", topic, len(mine))
        return assigned and instance.client_id in members

    async def _members(self, topic: str) -> list[str]:
        """Return the ids of all members of the group, sorted, from one of the topic's brokers."""
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        last: ClientError = NotReachedError(topic, code.name, "the topic's route names no broker")
        for address in self.instance.routes.addresses_of_topic(topic):
            fields = encode_fields(code, {"consumerGroup": self.group})
            request = RemotingCommand(code, ext_fields=fields)
            try:
                return await self.instance.ask(
                    address,
                    request,
                    lambda response: sorted(
                        set(parse_body(code.name, response.body).texts("consumerIdList"))
                    ),
                )
            except ClientError as error:
                last = error
        raise last

    async def _withdraw(self, topic: str) -> None:
        gone = [topic]
        self.subscriptions.pop(topic, None)
        self._shares.pop(topic, None)
        if self._retry_topic is not None and set(self.subscriptions) == {self._retry_topic}:
            del self.subscriptions[self._retry_topic]
            gone.append(self._retry_topic)
        # The program may subscribe again between two topics: queues of a topic subscribed again are read.
        left = [
            one
            for one in gone
            if one not in self.subscriptions and await self._reader.assign(one, [])
        ]
        if self.subscriptions:
            self.left(*left)
            await self.instance.heartbeat()
        else:
            await self.instance.say_goodbye([{"consumerGroup": self.group}])
            self.left(*left)
