"""The split of messages of several topics into requests: one batch per topic if possible, the others one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rmqcore.client.messages.send_result import SendResult
from rmqcore.client.messages.validators import check_properties
from rmqcore.codec.message import Message
from rmqcore.remoting.names import RETRY_PREFIX

_OVERHEAD = 200
"""Bytes that a message takes in a batch beside its body and its own properties, at most."""


def parts(messages: Sequence[Message], max_message_size: int) -> list[list[int]]:
    """Return the positions of messages that are sent together, in the order of the first of each part.

    Messages of one topic keep their order. A message that a batch may not hold, for example a delayed one, is a part of
    its own.
    """
    found: list[list[int]] = []
    growing: dict[str, tuple[list[int], int]] = {}
    for position, message in enumerate(messages):
        size = _size(message)
        part, room = growing.get(message.topic, ([], 0))
        if not _fits_a_batch(message):
            found.append([position])
            growing.pop(message.topic, None)
            continue
        if size > room:
            part, room = [], max_message_size
            found.append(part)
        part.append(position)
        growing[message.topic] = part, room - size
    return found


def results(done: SendResult, count: int) -> Iterator[SendResult]:
    """Yield the result of each message of a part."""
    msg_ids = done.msg_id.split(",")
    offset_msg_ids = done.offset_msg_id.split(",")
    for number in range(count):
        # A batch that its broker keeps as one record has one id.
        offset_msg_id = offset_msg_ids[min(number, len(offset_msg_ids) - 1)]
        yield replace(
            done,
            msg_id=msg_ids[min(number, len(msg_ids) - 1)],
            offset_msg_id=offset_msg_id,
            queue_offset=done.queue_offset + number,
        )


def _size(message: Message) -> int:
    properties = message.properties
    texts = sum(len(name.encode()) + len(value.encode()) + 2 for name, value in properties.items())
    return len(bytes(message.body)) + texts + _OVERHEAD


def _fits_a_batch(message: Message) -> bool:
    if message.topic.startswith(RETRY_PREFIX):
        return False
    try:
        check_properties(message.properties, in_batch=True)
    except ValueError:
        return False
    return True
