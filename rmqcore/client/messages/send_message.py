"""Sends without sockets: building the request, and reading the answer.

Source: RocketMQ 5.5.0 DefaultMQProducerImpl#sendKernelImpl, MQClientAPIImpl#sendMessage, #processSendResponse.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.response_fields import int_field, text_field
from rmqcore.client.messages.send_result import SendResult, SendStatus
from rmqcore.client.messages.unique_ids import UniqueIds
from rmqcore.client.messages.validators import check_body, check_properties, check_topic_for_send
from rmqcore.codec import encode_batch, encode_properties
from rmqcore.codec.message import Message
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import RETRY_PREFIX
from rmqcore.remoting.request_fields import encode_fields
from rmqcore.vocabulary import sysflag
from rmqcore.vocabulary.properties import UNIQ_KEY, WAIT
from rmqcore.vocabulary.topics import DEFAULT_TOPIC

ZLIB_LEVEL = 5
STORED: Mapping[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}
"""The answers that mean that the message is in the broker's log."""
RETRIED = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
"""The refusals after which another queue is tried. Source: RocketMQ 5.5.0 DefaultMQProducer."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message or a batch, ready to be sent to a queue; the same for all tries.

    Attributes
    ----------
    code : RequestCode
    topic : str
    msg_id : str
        UNIQ_KEY of the message; of a batch the keys of all messages.
    body : bytes
    properties : str
        The properties as encoded in the request.
    sys_flag : int
    """

    code: RequestCode
    topic: str
    msg_id: str
    body: bytes
    properties: str
    sys_flag: int = 0

    def request(
        self, queue: MessageQueue, *, group: str, queue_nums: int, now_ms: int
    ) -> RemotingCommand:
        """Return the request that sends the message or batch to a queue.

        Parameters
        ----------
        queue : MessageQueue
        group : str
            The producer's group.
        queue_nums : int
            Number of queues if the broker creates the topic.
        now_ms : int
            BORNTIMESTAMP of the message.
        """
        fields = encode_fields(
            self.code,
            {
                "producerGroup": group,
                "topic": self.topic,
                "defaultTopic": DEFAULT_TOPIC,
                "defaultTopicQueueNums": queue_nums,
                "queueId": queue.queue_id,
                "sysFlag": self.sys_flag,
                "bornTimestamp": now_ms,
                "flag": 0,
                "properties": self.properties,
                "reconsumeTimes": 0,
                "unitMode": False,
                "batch": self.code is RequestCode.SEND_BATCH_MESSAGE,
                "bname": queue.broker_name,
            },
        )
        return RemotingCommand(self.code, ext_fields=fields, body=self.body)

    def result(self, queue: MessageQueue, response: RemotingCommand) -> SendResult:
        """Read the answer, one of `STORED`.

        Raises
        ------
        RequestError
            The response lacks a field.
        """
        name = self.code.name
        queue_id = int_field(response, name, "queueId")
        msg_id = response.ext_fields.get("batchUniqId") or self.msg_id
        return SendResult(
            STORED[response.code],
            msg_id,
            queue._replace(queue_id=queue_id),
            int_field(response, name, "queueOffset"),
            text_field(response, name, "msgId"),
        )


def check_message(message: Message, *, max_message_size: int) -> None:
    """Refuse a message that no broker accepts from a client.

    Raises
    ------
    ValueError
        The message's topic, body or properties are invalid.
    """
    check_topic_for_send(message.topic)
    check_body(memoryview(message.body).nbytes, max_message_size)
    check_properties(message.properties, in_batch=False)


def one_message(
    message: Message, ids: UniqueIds, *, max_message_size: int, compress_over: int
) -> Outgoing:
    """Prepare a message for sending.

    Parameters
    ----------
    message : Message
        Topic, body and properties are used.
    ids : UniqueIds
        Generates a UNIQ_KEY if the message has none.
    max_message_size : int
        Bytes of the longest body.
    compress_over : int
        Bodies of at least this number of bytes are compressed.

    Raises
    ------
    ValueError
        No broker accepts the message.
    """
    check_message(message, max_message_size=max_message_size)
    body = bytes(message.body)
    properties, msg_id = _with_id(message.properties, ids)
    sys_flag = 0
    if len(body) >= compress_over:
        body = zlib.compress(body, ZLIB_LEVEL)
        sys_flag = sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB
    return Outgoing(
        RequestCode.SEND_MESSAGE_V2,
        message.topic,
        msg_id,
        body,
        encode_properties(properties).decode(),
        sys_flag,
    )


def one_batch(messages: Iterable[Message], ids: UniqueIds, *, max_message_size: int) -> Outgoing:
    """Prepare messages of one topic as a batch, which a broker stores whole or not at all.

    Raises
    ------
    ValueError
        The batch is empty, or no broker accepts it.
    """
    topic: str | None = None
    parts: list[Message] = []
    msg_ids: list[str] = []
    size = 0
    for message in messages:
        topic = message.topic if topic is None else topic
        body = bytes(message.body)
        check_body(len(body), max_message_size)
        check_properties(message.properties, in_batch=True)
        properties, msg_id = _with_id(message.properties, ids)
        parts.append(Message(topic, body, properties=properties))
        msg_ids.append(msg_id)
        size += len(body)
        if size > max_message_size:
            raise _too_large(parts, max_message_size)
    if topic is None:
        raise ValueError("a batch without messages")
    check_topic_for_send(topic)
    if topic.startswith(RETRY_PREFIX):
        raise ValueError(f"topic {topic}: a batch cannot be sent to a retry topic")
    image = encode_batch(parts)
    if len(image) > max_message_size:
        raise _too_large(parts, max_message_size)
    own, _ = _with_id({}, ids)
    return Outgoing(
        RequestCode.SEND_BATCH_MESSAGE,
        topic,
        ",".join(msg_ids),
        image,
        encode_properties(own).decode(),
    )


def _too_large(parts: list[Message], max_message_size: int) -> ValueError:
    return ValueError(
        f"a batch of more than {max_message_size} bytes after {len(parts)} messages: send fewer at once"
    )


def _with_id(properties: Mapping[str, str], ids: UniqueIds) -> tuple[dict[str, str], str]:
    """Return the properties with those that every producer adds, and the message's id."""
    whole = dict(properties)
    whole.setdefault(WAIT, "true")
    msg_id = whole.setdefault(UNIQ_KEY, "") or ids.next()
    whole[UNIQ_KEY] = msg_id
    return whole, msg_id
