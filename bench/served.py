"""A broker's connection without a socket: bytes come as they lie in a read of one, and the answers are counted.

The broker goes by a clock that stands still and by a loop that calls nothing, so that each run does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from bench import sends
from rmqcore import MessageStore
from rmqcore.broker.broker import Broker
from rmqcore.broker.channel import Channel
from rmqcore.broker.network.connection import Connections
from rmqcore.broker.network.turns import Turns
from rmqcore.broker.quick_pulls import QuickPulls
from rmqcore.broker.quick_sends import QuickSends
from rmqcore.broker.settings import BrokerSettings
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.header import encode_command
from rmqcore.remoting.request_fields import Value, encode_fields

GROUP = "BenchGroup"
NOW_MS = 1_700_000_000_000
PULLED = 32


class Connection:
    """One client of a broker that knows the topic of `sends` and a consumer group.

    Parameters
    ----------
    store : MessageStore
        Open, without its threads. It stays open.
    """

    def __init__(self, store: MessageStore) -> None:
        self._broker = Broker(
            store,
            BrokerSettings(),
            StillLoop(),
            address="127.0.0.1:10911",
            now_ms=lambda: NOW_MS,
        )
        self._broker.topics.update(TopicConfig(sends.TOPIC, sends.QUEUES, sends.QUEUES))
        self._broker.groups.update(SubscriptionGroupConfig(GROUP))
        connections = Connections(
            _not_quick,
            self._broker.channel_closed,
            lambda host: True,
            1,
            QuickSends(self._broker),
            QuickPulls(self._broker),
            turns=Turns(clock=lambda: 0.0),
        )
        self._transport = CountingTransport()
        self._protocol = connections()
        self._protocol.connection_made(self._transport)

    def feed(self, reads: Iterable[bytes]) -> int:
        """Bring the bytes of each read, and give how many bytes of answers they got."""
        before = self._transport.written
        for data in reads:
            self._protocol.get_buffer(-1)[: len(data)] = data
            self._protocol.buffer_updated(len(data))
        return self._transport.written - before

    def close(self) -> None:
        """End the broker, but not its store."""
        self._protocol.connection_lost(None)
        self._broker.stop()


def _not_quick(command: RemotingCommand, channel: Channel) -> RemotingCommand | None:
    """Refuse a request that the quick path left to a handler: it must not be counted as quick."""
    raise RuntimeError(f"{command} of {channel.peer} is left to a handler")


class CountingTransport(asyncio.Transport):
    """A peer that takes all answers at once."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 40000)})
        self.written = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Keep no limits: nothing waits here."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


class StillLoop:
    """A loop in which no time passes."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> StillLoop:  # noqa: ARG002
        return self

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        """Drop the call."""

    def cancel(self) -> None:
        """Do nothing: no call is kept."""


def pulls(queue_id: int, messages: int) -> list[bytes]:
    """Pulls of the first messages of a queue, as a consumer in Java writes them, each in a read of its own."""
    return [pull(queue_id, at) for at in range(0, messages, PULLED)]


def pull(queue_id: int, queue_offset: int) -> bytes:
    """A PULL_MESSAGE that brings its subscription, and commits as far as before."""
    fields: dict[str, Value] = {
        "consumerGroup": GROUP,
        "topic": sends.TOPIC,
        "queueId": queue_id,
        "queueOffset": queue_offset,
        "maxMsgNums": PULLED,
        "sysFlag": 7,  # it commits, may be held, and brings its own subscription
        "commitOffset": 0,
        "suspendTimeoutMillis": 15_000,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    code = RequestCode.PULL_MESSAGE
    command = RemotingCommand(code, opaque=queue_offset, ext_fields=encode_fields(code, fields))
    return encode_command(command)
