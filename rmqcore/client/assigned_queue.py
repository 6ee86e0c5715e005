"""A queue that a consumer reads: pulls one after the other, from the group's offset on.

Source: RocketMQ 5.5.0 DefaultLitePullConsumerImpl.PullTaskImpl, RebalanceLitePullImpl#computePullFromWhereWithException,
RemoteBrokerOffsetStore.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, unique

from rmqcore.client.handover import Progress
from rmqcore.client.instance import ClientInstance
from rmqcore.client.message_cache import MessageCache, Pulled
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.pull_message import (
    PULLED,
    PullResult,
    PullStatus,
    pull_request,
    pull_result,
)
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.response_fields import int_field, queue_offset_field
from rmqcore.client.remote import Answer
from rmqcore.errors import ClientError, NotReachedError, RefusedError
from rmqcore.remoting.bodies.heartbeat import SubscriptionData
from rmqcore.remoting.bodies.routes import MASTER_ID
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import RETRY_PREFIX
from rmqcore.remoting.request_fields import Value, encode_fields

_LOG = logging.getLogger("rmqcore.client")
PULL_SECONDS = 30.0
"""How long the answer to a pull is waited for, which a broker may hold for `SUSPEND_MS`."""
OFFSET_SECONDS = 5.0
AFTER_ERROR_SECONDS = 1.0
AFTER_FLOW_CONTROL_SECONDS = 0.02


@unique
class ConsumeFrom(StrEnum):
    """Where a group starts in a queue without an offset of the group. Source: RocketMQ 5.5.0 ConsumeFromWhere."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"


@dataclass(frozen=True, slots=True)
class Reading:
    """State shared by all queues of a consumer."""

    instance: ClientInstance
    group: str
    consume_from: ConsumeFrom
    max_messages: int
    wanted: Callable[[str], SubscriptionData]


class PulledQueue(ABC):
    """A queue that is pulled, from `start` until `drop`. Used by its loop's thread only.

    Attributes
    ----------
    queue : MessageQueue
    refused : RefusedError or None
        The error of the last pull, if the broker refused it.
    placed : asyncio.Event
        Set when the offset of the first pull is known, or the broker did not report it.
    """

    def __init__(self, queue: MessageQueue, reading: Reading) -> None:
        self.queue = queue
        self.refused: RefusedError | None = None
        self.placed = asyncio.Event()
        self._reading = reading
        self._committed: int | None = None
        self._broker_id = MASTER_ID
        self._task: asyncio.Task[None] | None = None

    @property
    def is_pulled(self) -> bool:
        """True if the queue was started and not dropped."""
        return self._task is not None

    def start(self, queue_offset: int | None = None) -> None:
        """Begin to pull, from a queue offset on; None: from the group's offset."""
        self._task = self._reading.instance.run(self._pull_all(queue_offset))

    def drop(self) -> None:
        """Stop pulling."""
        self.placed.set()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    @abstractmethod
    async def room(self) -> None:
        """Wait until more may be pulled."""

    @abstractmethod
    def begins(self, queue_offset: int) -> None:
        """Note the queue offset of the first pull."""

    @abstractmethod
    def pulled(self, messages: tuple[ReceivedMessage, ...], next_offset: int) -> None:
        """Store the messages of a pull, perhaps none, and the queue offset behind all that the broker read."""

    async def bounds(self) -> tuple[int, int]:
        """Ask for the queue's first offset, and the one behind its last message.

        Raises
        ------
        ClientError
            The broker does not report it.
        """
        return (
            await self._ask_offset(RequestCode.GET_MIN_OFFSET),
            await self._ask_offset(RequestCode.GET_MAX_OFFSET),
        )

    async def commit(self, position: int | None) -> None:
        """Store a queue offset as the group's, if it is known and has changed.

        Raises
        ------
        ClientError
            The broker has not stored the offset.
        """
        if position is None or position == self._committed:
            return
        fields: dict[str, Value] = {"consumerGroup": self._reading.group, "commitOffset": position}
        with self._reading.instance.events.timed("commit", self.queue.topic):
            await self._ask(
                RequestCode.UPDATE_CONSUMER_OFFSET, fields, lambda _: None, (ResponseCode.SUCCESS,)
            )
        self._committed = position

    # ---- inside -----------------------------------------------------------------------------------

    async def _pull_all(self, queue_offset: int | None) -> None:
        while True:
            try:
                if queue_offset is None:
                    queue_offset = await self._first_offset()
                    self.begins(queue_offset)
                self.placed.set()
                await self.room()
                result = await self._pull(queue_offset)
            except ClientError as error:
                self._reading.instance.events.tell("pull", self.queue.topic, 0, error=error)
                await self._after_error(error)
                continue
            except Exception:  # noqa: BLE001 a bug in one pull must not end all pulls of the queue
                _LOG.exception("%s: a pull failed, and is made again", self.queue)
                await asyncio.sleep(AFTER_ERROR_SECONDS)
                continue
            self.refused = None
            self._reading.instance.events.tell("pull", self.queue.topic, len(result.messages))
            self._answers_again()
            queue_offset = result.next_begin_offset
            self._broker_id = result.suggested_broker_id
            if result.status is PullStatus.OFFSET_ILLEGAL:
                _LOG.warning("%s: continuing at %d: %s", self.queue, queue_offset, result)
            self.pulled(result.messages, queue_offset)

    async def _after_error(self, error: ClientError) -> None:
        before = self.refused
        self.refused = error if isinstance(error, RefusedError) else None
        if self.refused is None:
            self._does_not_answer(error)
        elif before is None or before.response_code != self.refused.response_code:
            _LOG.warning("%s: %s", self.queue, error)
        self.placed.set()
        if self.refused and self.refused.response_code == ResponseCode.FLOW_CONTROL:
            await asyncio.sleep(AFTER_FLOW_CONTROL_SECONDS)
            return
        await asyncio.sleep(AFTER_ERROR_SECONDS)
        if not self.refused:
            await self._reading.instance.find_route_again(self.queue.topic)

    def _does_not_answer(self, error: ClientError) -> None:
        name = self.queue.broker_name
        text = "broker %s does not answer, pulls are tried again: %s"
        self._reading.instance.outages.begin(f"pulls {name}", text, name, error)

    def _answers_again(self) -> None:
        name = self.queue.broker_name
        self._reading.instance.outages.end(f"pulls {name}", "broker %s answers again", name)

    async def _pull(self, queue_offset: int) -> PullResult:
        reading, wanted = self._reading, self._reading.wanted(self.queue.topic)
        request = pull_request(
            self.queue,
            wanted,
            group=reading.group,
            queue_offset=queue_offset,
            max_messages=reading.max_messages,
        )
        address = self._address(self._broker_id, request.code)
        return await reading.instance.ask(
            address,
            request,
            lambda response: pull_result(self.queue, wanted, response),
            seconds=PULL_SECONDS,
            accepted=PULLED,
        )

    async def _first_offset(self) -> int:
        code = RequestCode.QUERY_CONSUMER_OFFSET
        stored = await self._ask(
            code,
            {"consumerGroup": self._reading.group},
            lambda response: (
                None if response.code == ResponseCode.QUERY_NOT_FOUND else _offset(response, code)
            ),
            (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )
        if stored is not None:
            self._committed = stored
            return stored
        from_first = self._reading.consume_from is ConsumeFrom.CONSUME_FROM_FIRST_OFFSET
        if from_first or self.queue.topic.startswith(RETRY_PREFIX):
            return 0
        return await self._ask_offset(RequestCode.GET_MAX_OFFSET)

    async def _ask_offset(self, code: RequestCode) -> int:
        return await self._ask(
            code, {}, lambda response: _offset(response, code), (ResponseCode.SUCCESS,)
        )

    async def _ask(
        self,
        code: RequestCode,
        fields: dict[str, Value],
        read: Callable[[RemotingCommand], Answer],
        accepted: tuple[int, ...],
    ) -> Answer:
        """Ask the broker's master about the queue."""
        queue: dict[str, Value] = {"topic": self.queue.topic, "queueId": self.queue.queue_id}
        request = RemotingCommand(code, ext_fields=encode_fields(code, {**queue, **fields}))
        return await self._reading.instance.ask(
            self._address(MASTER_ID, code),
            request,
            read,
            seconds=OFFSET_SECONDS,
            accepted=accepted,
        )

    def _address(self, broker_id: int, code: int) -> str:
        name = self.queue.broker_name
        address = self._reading.instance.routes.instance(name, broker_id)
        if address is None:
            raise NotReachedError(name, RequestCode(code).name, "no route names this broker")
        return address


class AssignedQueue(PulledQueue):
    """A queue whose messages wait in a cache for the calls of `poll`.

    Attributes
    ----------
    progress : Progress
        The offset up to which callers have received messages.
    """

    def __init__(
        self, queue: MessageQueue, reading: Reading, cache: MessageCache[AssignedQueue]
    ) -> None:
        super().__init__(queue, reading)
        self.progress: Progress[AssignedQueue] = Progress()
        self._passed: int | None = None
        self._cache = cache

    def drop(self) -> None:
        """Stop pulling, and drop the pulled messages."""
        super().drop()
        self._cache.drop(self)

    def start_anew(self, queue_offset: int | None) -> None:
        """Continue at a queue offset; None: at the group's offset."""
        self.drop()
        self.progress = Progress(queue_offset)
        self._passed = None
        self.start(queue_offset)

    def settle(self) -> None:
        """Note the messages that callers have received; put those of a failed call back into the cache."""
        for pulled in self.progress.settle():
            if self.is_pulled:
                self._cache.put_back(pulled)
        if self._passed is not None and self.progress.all_received and not self._cache.holds(self):
            self.progress.passed(self._passed)

    async def room(self) -> None:
        """Wait until the cache has room."""
        await self._cache.room(self)

    def begins(self, queue_offset: int) -> None:
        """Do nothing: the position is set when callers receive messages."""

    def pulled(self, messages: tuple[ReceivedMessage, ...], next_offset: int) -> None:
        """Put messages into the cache."""
        if messages:
            self._cache.put(Pulled(self, messages, next_offset))
        else:
            self._passed = next_offset


def _offset(response: RemotingCommand, code: RequestCode) -> int:
    if code is RequestCode.GET_MIN_OFFSET:  # -1 if a Java broker has no file of the queue
        return max(int_field(response, code.name, "offset"), 0)
    return queue_offset_field(response, code.name, "offset")
