"""A broker on a real store, without sockets: a test asks it what a client would ask, and drives loop, clock and dispatch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from support.broker import FakeChannel, FakeLoop

import rmqcore
from rmqcore import Message
from rmqcore.broker.broker import Broker
from rmqcore.broker.requests import handle
from rmqcore.broker.settings import BrokerSettings
from rmqcore.codec import decode
from rmqcore.remoting.bodies.heartbeat import (
    ConsumerData,
    Heartbeat,
    SubscriptionData,
    encode_heartbeat,
)
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "max_index_num": 1000,
    "max_hash_slot_num": 100,
}


class ServedBroker:
    """A broker whose store has no threads: a message is dispatched when the test says so."""

    def __init__(
        self,
        root: Path,
        *,
        settings: Mapping[str, Any] | None = None,
        services: bool = False,
        **config: Any,
    ) -> None:
        self.loop = FakeLoop()
        self.store = rmqcore.open(root, services=services, **{**SMALL, **config})
        self.broker = Broker(
            self.store,
            BrokerSettings(**(settings or {})),
            self.loop,
            address="127.0.0.1:10911",
            now_ms=self.loop.clock,
            steady_ms=lambda: self.loop.now_ms,
        )
        self.channel = FakeChannel()
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()
        self.broker.config_files.close()
        self.store.close()

    def topic(self, name: str, queue_nums: int = 4, **more: Any) -> None:
        """Make a topic."""
        self.broker.topics.update(TopicConfig(name, queue_nums, queue_nums, **more))

    def put(self, topic: str, *tags: str | None, queue_id: int = 0, **more: Any) -> None:
        """Store a message for each tag, and dispatch them as one batch."""
        for tag in tags:
            self.store.put(Message(topic, b"x", queue_id, tags=tag, **more)).raise_for_status()
        self.dispatch()

    def dispatch(self) -> None:
        """Bring what was stored into the queues, and let the loop hear of it."""
        self.store.dispatch_once()
        self.loop.run()

    def ask(
        self,
        code: RequestCode,
        fields: Mapping[str, Value] | None = None,
        body: bytes = b"",
        *,
        channel: FakeChannel | None = None,
        flag: int = 0,
        more: Mapping[str, str] | None = None,
    ) -> RemotingCommand | None:
        """Ask as a client; None where the answer comes later, or never."""
        self._opaque += 1
        ext_fields = {**encode_fields(code, fields or {}), **(more or {})}
        request = RemotingCommand(
            code, opaque=self._opaque, flag=flag, ext_fields=ext_fields, body=body
        )
        response = handle(self.broker, request, channel or self.channel)
        assert response is None or response.opaque == self._opaque
        return response

    def answer(
        self,
        code: RequestCode,
        fields: Mapping[str, Value] | None = None,
        body: bytes = b"",
        **more: Any,
    ) -> RemotingCommand:
        """Ask for what is answered at once."""
        response = self.ask(code, fields, body, **more)
        assert response is not None
        return response

    def tell(self, code: RequestCode, fields: Mapping[str, Value]) -> None:
        """Ask for what is not answered."""
        assert self.ask(code, fields, flag=ONEWAY_FLAG) is None

    def pull_fields(
        self, topic: str = "t", queue_offset: int = 0, **more: Value
    ) -> dict[str, Value]:
        """Give the fields of a pull that brings its subscription, and is not held."""
        return {
            "consumerGroup": "g",
            "topic": topic,
            "queueId": 0,
            "queueOffset": queue_offset,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 15_000,
            "subscription": "*",
            "subVersion": 0,
            **more,
        }

    def pull(
        self,
        topic: str = "t",
        queue_offset: int = 0,
        *,
        channel: FakeChannel | None = None,
        **more: Value,
    ) -> RemotingCommand | None:
        """Pull; None where the pull is held."""
        fields = self.pull_fields(topic, queue_offset, **more)
        return self.ask(RequestCode.PULL_MESSAGE, fields, channel=channel)

    def beat(
        self,
        *subscriptions: SubscriptionData,
        group: str = "g",
        client_id: str = "c",
        channel: FakeChannel | None = None,
        message_model: str = "CLUSTERING",
        **more: Any,
    ) -> RemotingCommand:
        """Send the heartbeat of a consumer, and give its answer, also one that comes later."""
        consumer = ConsumerData(
            group,
            "CONSUME_PASSIVELY",
            message_model,
            "CONSUME_FROM_LAST_OFFSET",
            subscriptions,
        )
        body = encode_heartbeat(Heartbeat(client_id, (), (consumer,), **more))
        return self.later(RequestCode.HEART_BEAT, body=body, channel=channel)

    def later(
        self,
        code: RequestCode,
        fields: Mapping[str, Value] | None = None,
        body: bytes = b"",
        *,
        channel: FakeChannel | None = None,
        more: Mapping[str, str] | None = None,
    ) -> RemotingCommand:
        """Ask for what may be answered later, and wait for it."""
        over = channel or self.channel
        response = self.ask(code, fields, body, channel=over, more=more)
        if response is not None:
            return response
        opaque = self._opaque
        self.loop.run_until(lambda: bool(_answers(over, opaque)))
        return _answers(over, opaque)[0]


def _answers(channel: FakeChannel, opaque: int) -> list[RemotingCommand]:
    return [one for one in channel.sent if one.is_response and one.opaque == opaque]


def tags_of(response: RemotingCommand) -> list[str | None]:
    """Give the tags of the records of an answer, which lie there as they lie in the log."""
    found, at = [], 0
    while at < len(response.body):
        view = decode(response.body, at)
        found.append(view.tags)
        at += view.msg_size
    return found
