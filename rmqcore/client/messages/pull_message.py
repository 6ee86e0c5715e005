"""Pulls without sockets: building the request, and reading the answer.

Source: RocketMQ 5.5.0 PullAPIWrapper, MQClientAPIImpl#processPullResponse, PullSysFlag.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, unique

from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.response_fields import int_field, queue_offset_field
from rmqcore.client.messages.subscriptions import is_wanted
from rmqcore.codec import decode_all, unwrap
from rmqcore.codec.message import MessageView
from rmqcore.errors import CompressionError, CorruptMessageError, RequestError
from rmqcore.remoting.bodies.heartbeat import SubscriptionData
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import encode_fields
from rmqcore.shown.notebook import messages_html
from rmqcore.vocabulary.units import INT_MAX

_LOG = logging.getLogger("rmqcore.client")
_CODE = RequestCode.LITE_PULL_MESSAGE
SUSPEND, SUBSCRIPTION, LITE = 2, 4, 16
"""Bits of a pull's ``sysFlag``: it may be held, it has the subscription with it, it is not a push consumer's."""
SUSPEND_MS = 20_000
"""How long a broker may hold a pull that finds nothing."""
MOST_BYTES = INT_MAX


@unique
class PullStatus(Enum):
    """Result of a pull. Source: RocketMQ 5.5.0 PullStatus."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED


PULLED = frozenset(status.value for status in PullStatus)
"""The response codes that are no errors."""


@dataclass(frozen=True, slots=True)
class PullResult:
    """Messages and offsets of a pull.

    Attributes
    ----------
    status : PullStatus
    messages : tuple of ReceivedMessage
        The messages that pass the consumer's filter.
    next_begin_offset : int
        Queue offset of the next pull.
    min_offset, max_offset : int
        Offsets of the first message in the queue and behind the last one.
    suggested_broker_id : int
        The instance of the broker that the next pull should ask.
    """

    status: PullStatus
    messages: tuple[ReceivedMessage, ...]
    next_begin_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int

    def _repr_html_(self) -> str:
        names = ("status", "next_begin_offset", "min_offset", "max_offset", "suggested_broker_id")
        facts = {name: getattr(self, name) for name in names}
        return messages_html("PullResult", facts, [message.view for message in self.messages])


def pull_request(
    queue: MessageQueue,
    wanted: SubscriptionData,
    *,
    group: str,
    queue_offset: int,
    max_messages: int,
) -> RemotingCommand:
    """Return the request for the messages of a queue from an offset on; a broker holds it until a message arrives."""
    fields = encode_fields(
        _CODE,
        {
            "consumerGroup": group,
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "queueOffset": queue_offset,
            "maxMsgNums": max_messages,
            "sysFlag": SUSPEND | SUBSCRIPTION | LITE,
            "commitOffset": 0,
            "suspendTimeoutMillis": SUSPEND_MS,
            "subscription": wanted.sub_string,
            "subVersion": 0,
            "expressionType": wanted.expression_type,
            "maxMsgBytes": MOST_BYTES,
        },
    )
    return RemotingCommand(_CODE, ext_fields=fields)


def pull_result(
    queue: MessageQueue, wanted: SubscriptionData, response: RemotingCommand
) -> PullResult:
    """Read the answer, one of `PULLED`.

    Raises
    ------
    RequestError
        The response lacks a field, or a message has a negative queue offset.
    """
    status = PullStatus(response.code)
    next_begin_offset = queue_offset_field(response, _CODE.name, "nextBeginOffset")
    numbers = [
        int_field(response, _CODE.name, name)
        for name in ("minOffset", "maxOffset", "suggestWhichBrokerId")
    ]
    messages: tuple[ReceivedMessage, ...] = ()
    if status is PullStatus.FOUND:
        delta = int_field(response, _CODE.name, "offsetDelta", 0)
        messages = tuple(
            ReceivedMessage(view, queue, view.queue_offset + delta)
            for view in _views(queue, response.body)
            if is_wanted(wanted, view.tags)
        )
        for message in messages:
            if message.queue_offset < 0:
                expected = "messages at queue offset 0 or more"
                raise RequestError(_CODE.name, "body", expected, message.queue_offset)
    return PullResult(status, messages, next_begin_offset, *numbers)


def _views(queue: MessageQueue, body: bytes) -> Iterator[MessageView]:
    """Yield the messages in a body up to the first damaged record, as in Java; log which records are left out."""
    end = 0
    try:
        # Copies: a message that is kept does not keep all of the body.
        records, error = decode_all(body, check_crc=True, copy=True), None
    except CorruptMessageError as damage:
        records, error = decode_all(body[: damage.phy_offset], copy=True), damage
    for record in records:
        try:
            found = unwrap(record)
        except (CorruptMessageError, CompressionError) as damage:
            _left_out(queue, len(body) - end, damage)
            return
        yield from found
        end += record.msg_size
    if end < len(body):
        _left_out(queue, len(body) - end, error or "they are not a record")


def _left_out(queue: MessageQueue, size: int, why: object) -> None:
    _LOG.error("%s: %d bytes of an answer are left out: %s", queue, size, why)
