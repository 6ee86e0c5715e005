"""Sends of 128 bytes as a producer in Java writes them, and the kernel that takes them."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from rmqcore import MessageStore
from rmqcore._native.broker.send_kernel import SendKernel
from rmqcore.broker.quick_sends import answer_parts
from rmqcore.broker.settings import BrokerSettings
from rmqcore.codec.message import pack_host
from rmqcore.remoting.codes import RequestCode, SerializeType
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.header import encode_command
from rmqcore.remoting.request_fields import Value, encode_fields

TOPIC = "BenchTopic"
QUEUES = 4
BODY = b"x" * 128
HOST = pack_host("127.0.0.1:40000")
ADDED = b"MSG_REGION\1DefaultRegion\2TRACE_ON\1true\2CLUSTER\1DefaultCluster\2"
COUNT = 2_000
WINDOW = 32


def reads() -> dict[str, list[bytes]]:
    """COUNT messages in each way of sending them, in reads of a connection."""
    single = [send(i) for i in range(COUNT)]
    binary = [send(i, SerializeType.ROCKETMQ) for i in range(COUNT)]
    batches = [batch(i, 100) for i in range(COUNT // 100)]
    return {
        "send": single,
        "sends in a window of 32": windows(single),
        "sends in a window of 32, binary": windows(binary),
        "sends in batches of 100": batches,
    }


def windows(frames: list[bytes]) -> list[bytes]:
    return [b"".join(frames[at : at + WINDOW]) for at in range(0, len(frames), WINDOW)]


def kernel(store: MessageStore) -> SendKernel:
    """A kernel for the store, which knows the topic."""
    appender = store.plain_appender
    assert appender is not None
    answers = answer_parts(BrokerSettings())
    made = SendKernel(appender, store_host=HOST, added=ADDED, answers=answers, waits=False)
    made.set_topic(TOPIC, QUEUES)
    return made


def feed_all(kernel: SendKernel, reads: Iterable[bytes]) -> None:
    """Feed reads that hold nothing but plain sends."""
    for data in reads:
        assert kernel.feed(data, 0, len(data), HOST).taken == len(data)


def send(number: int, serialize_type: SerializeType = SerializeType.JSON) -> bytes:
    """A SEND_MESSAGE_V2."""
    return _frame(RequestCode.SEND_MESSAGE_V2, number, BODY, serialize_type)


def batch(number: int, messages: int) -> bytes:
    """A SEND_BATCH_MESSAGE."""
    properties = f"UNIQ_KEY\1{number:032X}\2WAIT\1true\2TAGS\1TagA\2".encode()
    head = struct.pack(">iiiii", 22 + len(BODY) + len(properties), 0, 0, 0, len(BODY))
    one = head + BODY + struct.pack(">h", len(properties)) + properties
    return _frame(RequestCode.SEND_BATCH_MESSAGE, number, one * messages)


def _frame(
    code: RequestCode,
    number: int,
    body: bytes,
    serialize_type: SerializeType = SerializeType.JSON,
) -> bytes:
    fields: dict[str, Value] = {
        "producerGroup": "BenchGroup",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": number % QUEUES,
        "sysFlag": 0,
        "bornTimestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": f"UNIQ_KEY\1{number:032X}\2WAIT\1true\2TAGS\1TagA\2",
        "reconsumeTimes": 0,
        "unitMode": False,
        "maxReconsumeTimes": 0,
        "batch": code is RequestCode.SEND_BATCH_MESSAGE,
        "bname": "broker-a",
    }
    command = RemotingCommand(
        code,
        opaque=number,
        ext_fields=encode_fields(code, fields),
        body=body,
        serialize_type=serialize_type,
    )
    return encode_command(command)
