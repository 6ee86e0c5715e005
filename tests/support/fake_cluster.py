"""A cluster without sockets for tests of clients: a name server, brokers that keep messages in lists, and a clock that jumps."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from rmqcore.client.connection import Connection
from rmqcore.codec import decode_batch, decode_properties, encode
from rmqcore.codec.message import Message
from rmqcore.errors import NotReachedError
from rmqcore.namesrv.requests import NameServer
from rmqcore.remoting.bodies.heartbeat import Heartbeat, parse_heartbeat
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.bodies.topic_configs import (
    TopicConfig,
    TopicTable,
    encode_registration,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.request_fields import encode_fields, parse_fields
from rmqcore.vocabulary.data_version import DataVersion

Result = TypeVar("Result")
NAMESRV = "127.0.0.1:9876"
NOW_MS = 1_700_000_000_000
Answer = RemotingCommand | None
Hook = Callable[[RemotingCommand], Answer]


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer as soon as there is nothing else to do."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self.now


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            assert timeout is not None, "nothing is left to do, and the test waits"
            self._loop.now += timeout
        return found


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a test's coroutine on a loop that jumps."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work)


class Pipe(asyncio.Transport):
    """The client's end of a connection; what is written goes to a peer.

    A peer may hear another client, in the thread of its loop, and answer this one: a pull that was held was answered in the
    producer's thread, so that the consumer's loop slept on, and a poll of a minute came back with nothing.
    """

    def __init__(self, connection: Connection, peer: Peer) -> None:
        super().__init__({"sockname": ("192.0.2.7", 40_000)})
        self.connection = connection
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._frames = FrameDecoder()
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._frames.feed(data)
        while (frame := self._frames.next_frame()) is not None:
            self._loop.call_soon(self._hear, decode_command(frame))

    def send(self, command: RemotingCommand) -> None:
        """Bring a command to the client."""
        self.send_bytes(encode_command(command))

    def send_bytes(self, data: bytes) -> None:
        if not self._closed:
            self._loop.call_soon_threadsafe(self._bring, data)

    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._peer.pipes.remove(self)
            self._loop.call_soon_threadsafe(self.connection.connection_lost, None)

    def _bring(self, data: bytes) -> None:
        if not self._closed:
            self.connection.data_received(data)

    def _hear(self, command: RemotingCommand) -> None:
        if not self._closed:
            self._peer.hear(command, self)


class Peer:
    """Who listens behind an address.

    Attributes
    ----------
    asked : list of RemotingCommand
        All that came, in order.
    hooks : dict
        By request code: what answers instead, where a test wants that.
    silent : set of int
        Request codes that get no answer.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.pipes: list[Pipe] = []
        self.asked: list[RemotingCommand] = []
        self.hooks: dict[int, Hook] = {}
        self.silent: set[int] = set()
        # Held from a pull that finds nothing to its place among those that wait: another thread may put meanwhile.
        self._guard = threading.RLock()

    def hear(self, request: RemotingCommand, pipe: Pipe) -> None:
        self.asked.append(request)
        if request.code in self.silent or request.is_response:
            return
        hook = self.hooks.get(request.code)
        with self._guard:
            answer = hook(request) if hook is not None else self.answer(request, pipe)
        if answer is not None and not request.is_oneway:
            pipe.send(answer)

    def answer(self, request: RemotingCommand, pipe: Pipe) -> Answer:
        raise NotImplementedError

    def close_all(self) -> None:
        """Close all connections, as a peer does that goes down."""
        for pipe in list(self.pipes):
            pipe.abort()

    def codes(self) -> list[int]:
        return [request.code for request in self.asked]


class FakeNameServer(Peer):
    """The real name server, without its socket."""

    def __init__(self) -> None:
        super().__init__(NAMESRV)
        self.server = NameServer()

    def answer(self, request: RemotingCommand, pipe: Pipe) -> Answer:
        return self.server.answer(request, connection=pipe, now_ms=NOW_MS)


class FakeBroker(Peer):
    """Keeps messages in lists, holds pulls, knows the members of groups."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(address)
        self.name = name
        self.queues: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.first_offsets: dict[tuple[str, int], int] = defaultdict(int)
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.members: dict[str, dict[str, Pipe]] = defaultdict(dict)
        self.beats: list[Heartbeat] = []
        self.held: list[tuple[RemotingCommand, Pipe]] = []
        self.log_size = 0

    def put(self, topic: str, queue_id: int, body: bytes, **settings: Any) -> None:
        """Append a message, and answer the pulls that wait for it."""
        queue = self.queues[topic, queue_id]
        message = Message(topic, body, queue_id, store_host=self.address, **settings)
        offset = self.first_offsets[topic, queue_id] + len(queue)
        self.log_size += 1000
        queue.append(
            encode(
                message,
                phy_offset=self.log_size,
                queue_offset=offset,
                store_timestamp_ms=NOW_MS,
            )
        )
        held, self.held = self.held, []
        for request, pipe in held:
            answer = self._pull(request, pipe)
            if answer is not None:
                pipe.send(answer)

    def notify(self, group: str) -> None:
        """Tell the members of a group that it has changed."""
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        for pipe in self.members[group].values():
            fields = encode_fields(code, {"consumerGroup": group})
            pipe.send(RemotingCommand(code, flag=2, ext_fields=fields))

    def answer(self, request: RemotingCommand, pipe: Pipe) -> Answer:
        match request.code:
            case RequestCode.SEND_MESSAGE_V2 | RequestCode.SEND_BATCH_MESSAGE:
                return self._send(request)
            case RequestCode.LITE_PULL_MESSAGE:
                return self._pull(request, pipe)
            case RequestCode.HEART_BEAT:
                return self._heartbeat(request, pipe)
            case RequestCode.GET_CONSUMER_LIST_BY_GROUP:
                return self._members(request)
            case RequestCode.UNREGISTER_CLIENT:
                return self._unregister(request)
            case _:
                return self._offset(request)

    def _send(self, request: RemotingCommand) -> RemotingCommand:
        fields = parse_fields(RequestCode(request.code), request.ext_fields)
        topic, queue_id = fields.text("topic"), fields.number("queueId")
        base = len(self.queues[topic, queue_id])
        if request.code == RequestCode.SEND_BATCH_MESSAGE:
            for part in decode_batch(request.body):
                self.put(topic, queue_id, part.body, properties=part.properties)
        else:
            properties = decode_properties(fields.text("properties").encode())
            flags = fields.number("sysFlag")
            self.put(topic, queue_id, request.body, properties=properties, sys_flag=flags)
        found = {"msgId": "AB", "queueId": str(queue_id), "queueOffset": str(base)}
        return request.response(ext_fields=found)

    def _pull(self, request: RemotingCommand, pipe: Pipe) -> Answer:
        fields = parse_fields(RequestCode.LITE_PULL_MESSAGE, request.ext_fields)
        key = fields.text("topic"), fields.number("queueId")
        first, wanted = self.first_offsets[key], fields.number("queueOffset")
        records = self.queues[key][max(0, wanted - first) :][: fields.number("maxMsgNums")]
        code, following = ResponseCode.SUCCESS, wanted + len(records)
        if wanted < first:
            code, following, records = ResponseCode.PULL_OFFSET_MOVED, first, []
        elif wanted > first + len(self.queues[key]):
            code, following = ResponseCode.PULL_OFFSET_MOVED, first + len(self.queues[key])
        elif not records:
            self.held.append((request, pipe))
            return None
        found = {
            "nextBeginOffset": str(following),
            "minOffset": str(first),
            "maxOffset": str(first + len(self.queues[key])),
            "suggestWhichBrokerId": "0",
        }
        return request.response(code, ext_fields=found, body=b"".join(records))

    def _heartbeat(self, request: RemotingCommand, pipe: Pipe) -> RemotingCommand:
        beat = parse_heartbeat("HEART_BEAT", request.body)
        self.beats.append(beat)
        for consumer in beat.consumers:
            members = self.members[consumer.group_name]
            is_new = beat.client_id not in members
            members[beat.client_id] = pipe
            if is_new:
                self.notify(consumer.group_name)
        return request.response()

    def _members(self, request: RemotingCommand) -> RemotingCommand:
        members = self.members[request.ext_fields["consumerGroup"]]
        if not members:
            return request.response(ResponseCode.SYSTEM_ERROR, "no consumer for this group")
        return request.response(body=encode_json({"consumerIdList": list(members)}))

    def _unregister(self, request: RemotingCommand) -> RemotingCommand:
        group = request.ext_fields.get("consumerGroup")
        if group is not None:
            self.members[group].pop(request.ext_fields["clientID"], None)
            self.notify(group)
        return request.response()

    def _offset(self, request: RemotingCommand) -> RemotingCommand:
        code = RequestCode(request.code)
        fields = parse_fields(code, request.ext_fields)
        topic, queue_id = fields.text("topic"), fields.number("queueId")
        key = fields.text("consumerGroup"), topic, queue_id
        if code is RequestCode.UPDATE_CONSUMER_OFFSET:
            self.offsets[key] = fields.number("commitOffset")
            return request.response()
        first = self.first_offsets[topic, queue_id]
        found: int | None = {
            RequestCode.QUERY_CONSUMER_OFFSET: self.offsets.get(key),
            RequestCode.GET_MIN_OFFSET: first,
            RequestCode.GET_MAX_OFFSET: first + len(self.queues[topic, queue_id]),
        }[code]
        if found is None:
            return request.response(ResponseCode.QUERY_NOT_FOUND, "not found")
        return request.response(ext_fields={"offset": str(found)})


class FakeCluster:
    """A name server and brokers.

    Attributes
    ----------
    names : FakeNameServer
    peers : dict
        By address. One that is taken out is not reached any more.
    """

    def __init__(self) -> None:
        self.names = FakeNameServer()
        self._links: dict[tuple[str, int], object] = {}
        self.peers: dict[str, Peer] = {NAMESRV: self.names}
        self._versions = iter(range(1, 1 << 30))

    def broker(self, name: str, address: str, **topics: int) -> FakeBroker:
        """Start a broker, with topics of so many queues; TBW102 has 8."""
        broker = FakeBroker(name, address)
        self.peers[address] = broker
        self.register(broker, TBW102=8, other=1, **topics)
        return broker

    def register_slave(self, broker: FakeBroker) -> None:
        """Tell the name server a second instance of a broker."""
        self.register(broker, broker_id=1)

    def register(self, broker: FakeBroker, *, broker_id: int = 0, **topics: int) -> None:
        """Tell the name server the topics of a broker."""
        configs = {name: TopicConfig(name, number, number) for name, number in topics.items()}
        table = TopicTable(configs, DataVersion(0, NOW_MS, next(self._versions)))
        code = RequestCode.REGISTER_BROKER
        fields = encode_fields(
            code,
            {
                "brokerName": broker.name,
                "brokerAddr": broker.address,
                "clusterName": "C",
                "brokerId": broker_id,
                "haServerAddr": "192.0.2.1:1",
            },
        )
        request = RemotingCommand(code, ext_fields=fields, body=encode_registration(table))
        # Of one that comes back elsewhere the name server has seen the end: a live one's name would not be taken over.
        link = self._links.setdefault((broker.name, broker_id), object())
        answer = self.names.server.answer(request, connection=link, now_ms=NOW_MS)
        assert answer is not None
        assert answer.code == 0, answer

    def stop(self, broker: FakeBroker) -> None:
        """Take a broker away; the name server does not know yet."""
        del self.peers[broker.address]
        broker.close_all()

    def connect(self, address: str, on_request: Hook, request: str) -> Connection:
        peer = self.peers.get(address)
        if peer is None:
            raise NotReachedError(address, request, "connection refused")
        connection = Connection(address, on_request)
        pipe = Pipe(connection, peer)
        peer.pipes.append(pipe)
        connection.connection_made(pipe)
        return connection


@contextmanager
def fake_cluster() -> Iterator[FakeCluster]:
    """A cluster that all clients of this process connect to."""
    cluster = FakeCluster()

    async def open_pipe(address: str, on_request: Hook, request: str) -> Connection:
        return cluster.connect(address, on_request, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "open", open_pipe)
        yield cluster
