"""Sends that the native kernel stores and answers without a handler, and the topics and settings that it needs.

A plain send (``SendKernel``) is copied from the connection's bytes into the log without a Python object. The record and
the answer are, byte for byte, those of `handlers.send` and `handlers.batch`, which handle all other sends.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqcore._native.broker import send_kernel
from rmqcore._native.broker.send_kernel import Fed, SendKernel
from rmqcore._native.put.appender import Appender
from rmqcore.broker.handlers.send import CLUSTER
from rmqcore.broker.handlers.send_answers import STORED_CODES, stored_fields, why_refused
from rmqcore.broker.handlers.send_checks import broker_fields, sys_flag_in, unserved_attribute
from rmqcore.broker.put_message import asks_others, safe_offset, when_safe
from rmqcore.broker.settings import BrokerSettings
from rmqcore.codec import encode_properties, parse_msg_id
from rmqcore.codec.message import pack_host
from rmqcore.errors import StoreError
from rmqcore.remoting.bodies.topic_configs import WRITE, TopicConfig
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import MAX_FRAME_SIZE, FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.json_header import encode_json_header
from rmqcore.remoting.names import wrong_topic
from rmqcore.vocabulary.status import PutMessageStatus
from rmqcore.vocabulary.topics import NOT_FOR_SENDS

if TYPE_CHECKING:
    from rmqcore.broker.broker import Broker

Parts = list[tuple[bytes, int]]
_MSG_SIZE_BYTES = 4  # the first field of a record


class QuickSends:
    """The kernel of one broker, kept in step with its topics and settings. Used by the loop's thread only.

    Parameters
    ----------
    broker : Broker
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._appender = broker.store.plain_appender
        self._waits = asks_others(broker.store)
        self._settings: BrokerSettings | None = None
        self._kernel: SendKernel | None = None
        broker.topics.watch = self.topic_changed
        broker.stats.take_counts = self.count

    def feed(
        self, buffer: bytes | bytearray | memoryview, begin: int, end: int, born_host: bytes
    ) -> Fed | None:
        """Store the plain sends at the start of ``buffer[begin:end]``; see `SendKernel.feed`.

        Parameters
        ----------
        buffer : bytes-like
        begin, end : int
        born_host : bytes
            `pack_host` of the peer.

        Returns
        -------
        Fed or None
            None while no send is plain. The caller sends `answers` when `when_safe` calls back.

        Raises
        ------
        MemoryError, StoreError, OSError
            Which sends are stored is unknown: the caller should close the connection.
        """
        if self._appender is None or self._broker.disk_guard.is_full():
            return None
        if self._settings is not self._broker.settings:
            self._begin(self._appender, self._broker.settings)
        assert self._kernel is not None
        return self._kernel.feed(buffer, begin, end, born_host)

    def is_safe(self, fed: Fed) -> bool:
        """Return True if the answers can be sent at once: neither the disk nor followers must confirm."""
        return not (self._waits and fed.end_phy_offset)

    def when_safe(self, fed: Fed, then: Callable[[bytes], object]) -> None:
        """Call ``then(answers)`` once, in the loop's thread: at once, or when disk and followers have answered."""
        if self.is_safe(fed):
            then(fed.answers)
            return
        answers = fed.answers

        def heard(status: PutMessageStatus) -> None:
            then(self._changed(answers, status))

        when_safe(self._broker, fed.end_phy_offset, heard, fed.answer_count)

    def topic_changed(self, name: str) -> None:
        """Inform the kernel of a topic that was made, changed or deleted."""
        kernel, topic = self._kernel, self._broker.topics.get(name)
        if kernel is None or self._settings is None:
            return
        if topic is not None and self._takes(topic):
            kernel.set_topic(name, queue_nums(topic))
        else:
            self.count()
            kernel.forget_topic(name)

    def _takes(self, topic: TopicConfig) -> bool:
        """Return True if sends to a topic can be plain, and the store has no batch queues for it."""
        assert self._appender is not None
        assert self._settings is not None
        return is_plain(topic, self._settings) and not self._appender.is_closed(topic.name)

    def count(self) -> None:
        """Add the stored messages to the statistics."""
        if self._kernel is None:
            return
        stats = self._broker.stats
        for topic, _, messages, msg_size in self._kernel.take_counts():
            stats.topic_put(topic, messages, msg_size)
            stats.broker_put(messages)

    def _begin(self, appender: Appender, settings: BrokerSettings) -> None:
        """Create a kernel with these settings."""
        self.count()
        added = {**broker_fields(settings), CLUSTER: settings.broker_cluster_name}
        self._kernel = SendKernel(
            appender,
            store_host=pack_host(self._broker.store_host),
            added=encode_properties(added),
            answers=answer_parts(settings),
            waits=self._waits,
        )
        self._settings = settings
        for name, topic in self._broker.topics.known().items():
            if self._takes(topic):
                self._kernel.set_topic(name, queue_nums(topic))

    def _changed(self, answers: bytes, status: PutMessageStatus) -> bytes:
        """Return the responses, with `status` instead of PUT_OK in those whose messages are not safe.

        The wait was for the end of the last message only: the first ones may be safe though the last one is not.
        """
        if status is PutMessageStatus.PUT_OK:
            return answers
        decoder = FrameDecoder(max_frame_size=len(answers) + 8, max_header_size=len(answers))
        decoder.feed(answers)
        changed = []
        while (frame := decoder.next_frame()) is not None:
            answer = decode_command(frame)
            if not self._holds(answer):
                self._change(answer, status)
            changed.append(encode_command(answer, max_frame_size=max(MAX_FRAME_SIZE, len(answers))))
        return b"".join(changed)

    def _holds(self, answer: RemotingCommand) -> bool:
        """Return True if the messages that an answer names are safe, to the end of the last one."""
        store = self._broker.store
        msg_id = answer.ext_fields["msgId"].rpartition(",")[2]
        phy_offset, safe = parse_msg_id(msg_id).phy_offset, safe_offset(store)
        if phy_offset >= safe:
            return False
        try:
            msg_size = int.from_bytes(store.read_range(phy_offset, _MSG_SIZE_BYTES))
        except StoreError:  # the store is closed: the producer sends again
            return False
        return phy_offset + msg_size <= safe

    def _change(self, answer: RemotingCommand, status: PutMessageStatus) -> None:
        """Change an answer of PUT_OK to another status."""
        code = STORED_CODES.get(status)
        if code is not None:
            answer.code = code
        else:
            answer.code, answer.remark = why_refused(self._broker, status)
            answer.ext_fields = broker_fields(self._broker.settings)


def is_plain(topic: TopicConfig, settings: BrokerSettings) -> bool:
    """Return True if sends to a topic can be plain: its name is not special, and the broker does not change its messages."""
    name = topic.name
    return (
        wrong_topic(name) is None
        and not name.startswith("%")  # retries and dead letters, or a name that looks like theirs
        and name not in NOT_FOR_SENDS
        and (not topic.order or bool(settings.broker_permission & WRITE))
        and sys_flag_in(topic, 0) == 0
        and unserved_attribute(topic) is None
    )


def queue_nums(topic: TopicConfig) -> int:
    """Return the number of queues that a send may name."""
    return max(topic.write_queue_nums, topic.read_queue_nums)


def answer_parts(settings: BrokerSettings) -> tuple[Parts, Parts, Parts]:
    """Return the headers of the responses to a single send, to a batch without and to one with a unique key, cut into parts."""
    with_key = _parts(settings, has_key=True)
    return with_key, _parts(settings, has_key=False), with_key


def _parts(settings: BrokerSettings, *, has_key: bool) -> Parts:
    """Cut the header of an answer into parts at the values that the kernel fills in."""
    salt = secrets.token_hex(16)  # no setting contains it
    names = ("MSG_ID", "QUEUE_ID", "QUEUE_OFFSET", "TRANSACTION_ID")
    marks = {f"{name}-{salt}": int(getattr(send_kernel, name)) for name in names}
    msg_id, queue_id, queue_offset, key = marks
    uniq_key = key if has_key else None
    fields = stored_fields(settings, msg_id, queue_id, queue_offset, uniq_key)
    response = RemotingCommand(RequestCode.SEND_MESSAGE_V2, opaque=0).response(ext_fields=fields)
    before, opaque, after = encode_json_header(response).decode().rpartition('"opaque":0')
    *pieces, last = re.split(f"({'|'.join(marks)})", before)
    texts, found = pieces[::2], pieces[1::2]
    parts = [(text.encode(), marks[mark]) for text, mark in zip(texts, found, strict=True)]
    parts.append((f"{last}{opaque[:-1]}".encode(), send_kernel.OPAQUE))
    parts.append((after.encode(), send_kernel.NOTHING))
    return parts
