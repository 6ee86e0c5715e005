"""A producer for asyncio.

Source: RocketMQ 5.5.0 DefaultMQProducer, DefaultMQProducerImpl#sendDefaultImpl, TopicPublishInfo, MQFaultStrategy.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from typing_extensions import Buffer

from rmqcore.client.deadlines import deadline
from rmqcore.client.events import OnEvent
from rmqcore.client.instance import CLOSE_SECONDS, ClientInstance
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.parts import parts, results
from rmqcore.client.messages.send_message import (
    RETRIED,
    STORED,
    Outgoing,
    check_message,
    one_batch,
    one_message,
)
from rmqcore.client.messages.send_result import SendResult
from rmqcore.client.messages.validators import check_group, check_topic_for_send
from rmqcore.codec.message import Message
from rmqcore.errors import (
    AnswerTimeoutError,
    BadAnswerError,
    ClientError,
    NoRouteError,
    NotReachedError,
    PartlySentError,
    RefusedError,
    SendFailedError,
)
from rmqcore.errors.arguments import wrong_type

DEFAULT_GROUP = "DEFAULT_PRODUCER"


class AsyncProducer:
    """Sends messages to the brokers of a cluster. Bound to the event loop that first uses it.

    The producer connects with the first message. The first send creates a missing topic if the brokers allow that.

    Parameters
    ----------
    namesrv : str or iterable of str
        Addresses of name servers, ``host:port``; in one string with ``;`` between them.
    group : str
        Name of the producer group.
    timeout : float
        Seconds that a send may take, including requests for a route, connections and all tries.
    retry_times : int
        How many further queues are tried if one refuses a message or fails, if possible on another broker.
    default_topic_queue_nums : int
        Queues of a topic that a send creates; a broker may create fewer.
    max_message_size : int
        Bytes of the longest body or batch.
    compress_over : int
        Bodies of at least this number of bytes are compressed with ZLIB; all consumers decompress them.
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
        group: str = DEFAULT_GROUP,
        *,
        timeout: float = 3.0,
        retry_times: int = 2,
        default_topic_queue_nums: int = 4,
        max_message_size: int = 4 << 20,
        compress_over: int = 4096,
        now_ms: Callable[[], int] | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        check_group(group)
        self._group = group
        self._timeout = timeout
        self._tries = 1 + retry_times
        self._queue_nums = default_topic_queue_nums
        self._max_message_size = max_message_size
        self._compress_over = compress_over
        self._instance = ClientInstance(namesrv, now_ms, producer_group=group, on_event=on_event)
        self._turns: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        body: Buffer,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Send a message, and wait until a broker has stored it.

        Parameters
        ----------
        topic : str
        body : buffer
            At least one byte.
        tags : str, optional
            One tag, by which consumers filter.
        keys : str or iterable of str
            Keys by which the message can be found.
        properties : mapping, optional
            Further properties. ``DELAY`` delivers later: 1 to 18 for Java's delay levels, 1 s to 2 h.

        Raises
        ------
        ValueError
            No broker accepts the message.
        NoRouteError
            No broker has the topic, and none allows creating it.
        RefusedError
            The broker refuses the message for a reason that holds for every broker.
        SendFailedError
            All brokers that were tried refused the message or failed.
        ClientError
            No name server answers.

        Notes
        -----
        After a timeout or a lost connection the message may or may not be stored; another try may store it twice.
        """
        end = asyncio.get_running_loop().time() + self._timeout
        with self._instance.events.timed("send", topic):
            return await self._send(await self._one(topic, body, tags, keys, properties), end)

    async def send_many(
        self,
        topic: str,
        bodies: Iterable[Buffer],
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Send messages as one batch: into one queue, in order, all or none.

        Parameters
        ----------
        topic : str
        bodies : iterable of buffer
            The bodies of all messages; together they must fit in one message (`max_message_size`).
        tags, keys, properties
            Those of each message, as for `send`; batches cannot be delayed.

        Raises
        ------
        ValueError, ClientError
            As for `send`.
        """
        check_topic_for_send(topic)
        end = asyncio.get_running_loop().time() + self._timeout
        listed = list(bodies)
        with self._instance.events.timed("send", topic, len(listed)):
            await self._ready(topic)
            messages = (
                Message(topic, body, tags=tags, keys=keys, properties=properties) for body in listed
            )
            size = self._max_message_size
            batch = one_batch(messages, self._instance.ids, max_message_size=size)
            return await self._send(batch, end)

    async def send_messages(self, messages: Iterable[Message]) -> list[SendResult]:
        """Send `Message` objects, of several topics too, and wait until brokers have stored them.

        Messages of one topic go together as batches, in their order; delayed ones, and others that no batch may hold, go alone.

        Parameters
        ----------
        messages : iterable of Message
            Their topics, bodies and properties are sent; the producer chooses the queues.

        Returns
        -------
        list of SendResult
            One for each message, in the order of the messages.

        Raises
        ------
        TypeError
            One of them is not a `Message`; nothing is sent.
        ValueError
            No broker accepts one of them; nothing is sent.
        PartlySentError
            Messages are stored, and a later batch or message failed. `results` has a `SendResult` for each message that is
            stored, `failed` the positions of those that failed; no later message is sent.
        ClientError
            As for `send`, if the first batch or message failed.
        """
        listed = list(messages)
        for one in listed:
            if not isinstance(one, Message):
                raise wrong_type("messages", "Message objects", one)
            check_message(one, max_message_size=self._max_message_size)
        end = asyncio.get_running_loop().time() + self._timeout
        found: dict[int, SendResult] = {}
        for part in parts(listed, self._max_message_size):
            try:
                done = await self._send_part([listed[position] for position in part], end)
            except (ClientError, ValueError) as error:
                if not found:
                    raise
                sent = tuple(found.get(position) for position in range(len(listed)))
                raise PartlySentError(sent, tuple(part), str(error)) from error
            found.update(zip(part, results(done, len(part)), strict=True))
        return [found[position] for position in range(len(listed))]

    async def _send_part(self, messages: list[Message], end: float) -> SendResult:
        """Send messages of one topic, which fit one request."""
        topic = messages[0].topic
        with self._instance.events.timed("send", topic, len(messages)):
            await self._ready(topic)
            return await self._send(self._outgoing(messages), end)

    async def send_oneway(
        self,
        topic: str,
        body: Buffer,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Send a message without waiting for a response: it is unknown if the message was stored.

        Raises
        ------
        ValueError, NoRouteError, ClientError
            As for `send`; also if a broker cannot be reached.
        """
        end = asyncio.get_running_loop().time() + self._timeout
        with self._instance.events.timed("send", topic):
            await self._send_oneway(await self._one(topic, body, tags, keys, properties), end)

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:  # noqa: ASYNC109 as for AsyncPullConsumer
        """Unregister at the brokers and close all connections. A second call does nothing.

        Parameters
        ----------
        timeout : float
            Seconds for the whole call; brokers have at most one of them to answer. The connections are closed in any
            case.
        """
        await self._instance.close([{"producerGroup": self._group}], timeout)

    def abandon(self) -> None:
        """Close all connections without unregistering; for a loop that ends."""
        self._instance.abandon()

    # ---- inside -----------------------------------------------------------------------------------

    async def _one(
        self,
        topic: str,
        body: Buffer,
        tags: str | None,
        keys: str | Iterable[str],
        properties: Mapping[str, str] | None,
    ) -> Outgoing:
        check_topic_for_send(topic)
        await self._ready(topic)
        return self._outgoing([Message(topic, body, tags=tags, keys=keys, properties=properties)])

    def _outgoing(self, messages: list[Message]) -> Outgoing:
        """Prepare a message, or several of one topic as a batch, for sending."""
        ids, size = self._instance.ids, self._max_message_size
        if len(messages) > 1:
            return one_batch(messages, ids, max_message_size=size)
        return one_message(
            messages[0], ids, max_message_size=size, compress_over=self._compress_over
        )

    async def _ready(self, topic: str) -> None:
        """Make sure that the queues of a topic are known."""
        self._instance.check_open()
        if not self._instance.routes.publish_queues(topic):
            async with deadline(self._timeout, "GET_ROUTEINFO_BY_TOPIC"):
                await self._instance.find_publish_route(topic, self._queue_nums)

    async def _send(self, message: Outgoing, end: float) -> SendResult:
        """Try one queue after the other until `end`, a time of the event loop."""
        loop = asyncio.get_running_loop()
        reasons: list[str] = []
        last: ClientError | None = None
        broker_name: str | None = None
        while len(reasons) < self._tries and (not reasons or loop.time() < end):
            queue = self._next_queue(message.topic, broker_name)
            broker_name = queue.broker_name
            try:
                return await self._try(message, queue, end - loop.time())
            except RefusedError as error:
                if error.response_code not in RETRIED:
                    raise
                last = error
            except (AnswerTimeoutError, BadAnswerError, NotReachedError) as error:
                last = error
                # The broker may have moved. If no name server answers, the error of the broker is the one to raise.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(end):
                        await self._instance.find_route_again(message.topic)
            reasons.append(str(last))
        assert last is not None
        if len(reasons) == 1:
            raise last
        raise SendFailedError(message.topic, tuple(reasons)) from last

    async def _send_oneway(self, message: Outgoing, end: float) -> None:
        queue = self._next_queue(message.topic, None)
        address = self._instance.routes.master(queue.broker_name)
        if address is None:
            raise NoRouteError(f"broker {queue.broker_name} has no master")
        request = message.request(
            queue, group=self._group, queue_nums=self._queue_nums, now_ms=self._instance.now_ms()
        )
        left = max(end - asyncio.get_running_loop().time(), 0)
        await self._instance.tell(address, request, seconds=left)

    async def _try(self, message: Outgoing, queue: MessageQueue, seconds: float) -> SendResult:
        address = self._instance.routes.master(queue.broker_name)
        if address is None:
            raise NotReachedError(queue.broker_name, message.code.name, "it has no master")
        request = message.request(
            queue, group=self._group, queue_nums=self._queue_nums, now_ms=self._instance.now_ms()
        )
        return await self._instance.ask(
            address,
            request,
            lambda response: message.result(queue, response),
            seconds=seconds,
            accepted=STORED,
        )

    def _next_queue(self, topic: str, last_broker: str | None) -> MessageQueue:
        """Return the next queue in turn; after a failure one of another broker, if the topic has another."""
        queues = self._instance.routes.publish_queues(topic)
        if not queues:
            raise NoRouteError(f"no broker has a writable queue of topic {topic}")
        if topic not in self._turns:
            self._turns[topic] = secrets.randbelow(len(queues))
        start = self._turns[topic]
        for step in range(len(queues)):
            queue = queues[(start + step) % len(queues)]
            if queue.broker_name != last_broker:
                self._turns[topic] = start + step + 1
                return queue
        self._turns[topic] = start + 1
        return queues[start % len(queues)]
