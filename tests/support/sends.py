"""Requests that bring messages, and what a test needs to see what became of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeChannel, FakeLoop, FakeTimer

import rmqcore
from rmqcore.broker import requests
from rmqcore.broker.broker import Broker
from rmqcore.broker.settings import BrokerSettings
from rmqcore.codec.message import MessageView
from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.request_fields import Value, encode_fields

ADDRESS = "127.0.0.1:10911"
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20 * 100,
    "max_hash_slot_num": 101,
    "max_index_num": 1200,
    "disk_max_used_space_ratio": 100,
}


class Sender:
    """A broker over a real store, with a client that is connected to it.

    Attributes
    ----------
    broker : Broker
    store : MessageStore
    loop : FakeLoop
    channel : FakeChannel
    """

    def __init__(
        self,
        folder: Path,
        *,
        store: Mapping[str, Any] | None = None,
        loop: FakeLoop | None = None,
        address: str = ADDRESS,
        **settings: Any,
    ) -> None:
        self.loop = loop or FakeLoop()
        self.channel = FakeChannel()
        self.store: MessageStore = rmqcore.open(
            folder, clock=self.loop.clock, **{**SMALL, **(store or {})}
        )
        self.broker = Broker(
            self.store,
            BrokerSettings(**settings),
            self.loop,
            address=address,
            now_ms=self.loop.clock,
            steady_ms=lambda: self.loop.now_ms,
        )

    def close(self) -> None:
        """Stop as a broker does that is told to."""
        if not self.store.failed:
            self.store.flush()
        self.broker.stop()
        self.broker.config_files.close()
        self.store.close()

    def start(self, request: RemotingCommand) -> None:
        """Bring a request; a response that comes at once is sent as well."""
        response = requests.handle(self.broker, request, self.channel)
        if response is not None:
            self.channel.send(response)

    def ask(self, request: RemotingCommand) -> RemotingCommand:
        """Bring a request, and give the response."""
        before = len(self.channel.sent)
        self.start(request)
        self.loop.run_until(lambda: len(self.channel.sent) > before)
        return self.channel.sent[-1]

    def messages(self, topic: str, queue_id: int = 0) -> list[MessageView]:
        """Give all messages of a queue."""
        assert self.store.wait_dispatched(60)
        found: list[MessageView] = []
        while len(got := self.store.get(topic, queue_id, len(found))):
            found += got.messages
        return found


def count_slices(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Give a list that gets an entry for each call that is asked for at once, behind what else the loop has to do."""
    calls: list[object] = []
    call_later = FakeLoop.call_later

    def counting(self: FakeLoop, delay: float, callback: Callable[[], object]) -> FakeTimer:
        if delay == 0:
            calls.append(callback)
        return call_later(self, delay, callback)

    monkeypatch.setattr(FakeLoop, "call_later", counting)
    return calls


def text_of(properties: Mapping[str, str]) -> str:
    """Write properties as clients do."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def send(
    topic: str = "orders",
    body: bytes = b"body",
    properties: Mapping[str, str] | None = None,
    *,
    code: RequestCode = RequestCode.SEND_MESSAGE_V2,
    oneway: bool = False,
    version: int = 513,
    **changed: Value,
) -> RemotingCommand:
    """Make a send; what a test says nothing of is as clients have it."""
    fields: dict[str, Value] = {
        "producerGroup": "pg",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": 1_699_999_999_000,
        "flag": 7,
        "properties": text_of({"UNIQ_KEY": "KEY", "WAIT": "true", **(properties or {})}),
        "reconsumeTimes": 0,
        "unitMode": False,
        "batch": False,
        **changed,
    }
    return RemotingCommand(
        code,
        opaque=5,
        version=version,
        flag=ONEWAY_FLAG if oneway else 0,
        ext_fields=encode_fields(code, fields),
        body=body,
    )


def image(messages: Iterable[tuple[bytes, Mapping[str, str]]], flag: int = 3) -> bytes:
    """Write messages as the body of a batch."""
    parts = []
    for body, properties in messages:
        text = text_of(properties).encode()
        size = 22 + len(body) + len(text)
        parts.append(struct.pack(">iiiii", size, 0, 0, flag, len(body)) + body)
        parts.append(struct.pack(">h", len(text)) + text)
    return b"".join(parts)
