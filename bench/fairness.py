"""What a producer that sends one message at a time waits beside neighbours that ask without a pause, and never stop.

As a program it is such neighbours: ``python -m bench.fairness HOST:PORT KIND COUNT``, in one process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from bench.broker_loads import BACKLOG_TOPIC, PULL, TOPIC, Asking, plain_send
from bench.broker_servers import Server
from rmqcore.remoting.bodies.heartbeat import (
    ConsumerData,
    Heartbeat,
    SubscriptionData,
    encode_heartbeat,
)
from rmqcore.remoting.bodies.topic_configs import TopicConfig, TopicTable, encode_registration
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.header import encode_command
from rmqcore.remoting.request_fields import Value, encode_fields

COUNTS = (1, 10, 300)
REGISTERED_TOPICS = 23_500
SUBSCRIPTIONS, EXPRESSION_LETTERS = 500, 200
SECONDS = 2.0
SETTLED_S, SETTLE_S = 0.02, 30.0
IDLE_LOOK_S, IDLE_SHARE = 0.2, 0.1
AT_ONCE = 1_000
SEND_BYTES = 256 << 10
SMALL_WINDOW = 4096


@dataclasses.dataclass(frozen=True)
class Waits:
    """What the sends of a victim took.

    Attributes
    ----------
    seconds : list of float
        Of each send, in order of length.
    busy : list of float
        Seconds of CPU time that the broker used during each send, in order of length: what it would have waited for on a machine
        that does nothing else.
    refused : int
        Sends that were answered with an error.
    settled : bool
        The broker answered a quiet client soon when the neighbours had gone.
    """

    seconds: list[float]
    busy: list[float]
    refused: int
    settled: bool = True

    @property
    def p50_ms(self) -> float:
        return self.seconds[len(self.seconds) // 2] * 1e3

    @property
    def p99_ms(self) -> float:
        return self.seconds[len(self.seconds) * 99 // 100] * 1e3

    @property
    def worst_ms(self) -> float:
        return self.seconds[-1] * 1e3

    @property
    def busy_p99_ms(self) -> float:
        return self.busy[len(self.busy) * 99 // 100] * 1e3

    def __str__(self) -> str:
        text = f"p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.2f}, worst {self.worst_ms:.1f}"
        text += f", CPU p99 {self.busy_p99_ms:.1f}"
        if self.refused:
            text += f", {self.refused} of {len(self.seconds)} refused"
        return text if self.settled else f"{text}, and no quick answer {SETTLE_S:g} s later"


def beside_neighbours(server: Server, kind: str, count: int) -> Waits:
    """Send beside `count` neighbours of a kind for a while; return when the broker has no more to do for them, or later."""
    address = server.namesrv if kind == REGISTERING else server.address
    command = [sys.executable, "-m", "bench.fairness", address, kind, str(count)]
    neighbours = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert neighbours.stdout is not None
        neighbours.stdout.readline()  # all have begun
        waits = _sends(server, SECONDS)
    finally:
        neighbours.kill()
        neighbours.communicate()
    end = time.monotonic() + SETTLE_S
    while not (settled := _sends(server, SETTLED_S).worst_ms <= SETTLED_S * 1e3):
        if time.monotonic() > end:
            break
    while not _is_idle(server) and time.monotonic() < end:
        pass
    return dataclasses.replace(waits, settled=settled)


def _is_idle(server: Server) -> bool:
    """Whether it has answered what the neighbours left in their sockets: 300 leave requests for half a minute."""
    begun = server.cpu_clock()
    time.sleep(IDLE_LOOK_S)
    return server.cpu_clock() - begun < IDLE_SHARE * IDLE_LOOK_S


def _sends(server: Server, seconds: float) -> Waits:
    took: list[float] = []
    busy: list[float] = []
    refused = 0
    end = time.monotonic() + seconds
    with Asking(server) as victim:
        while time.monotonic() < end or not took:
            start, begun = time.perf_counter(), server.cpu_clock()
            victim.send([plain_send(TOPIC, len(took))])
            try:
                refused += not victim.is_done(len(took))
            except TimeoutError:  # it counts with the time for which it was waited for
                end = time.monotonic()
            took.append(time.perf_counter() - start)
            busy.append(server.cpu_clock() - begun)
    return Waits(sorted(took), sorted(busy), refused)


# ---- the neighbours ---------------------------------------------------------------------------------


def _offsets(flag: int) -> bytes:
    code = RequestCode.QUERY_CONSUMER_OFFSET
    fields = encode_fields(
        code, {"consumerGroup": "bench_c", "topic": TOPIC, "queueId": 0, "setZeroIfNotFound": False}
    )
    return encode_command(RemotingCommand(code, flag=flag, ext_fields=fields)) * AT_ONCE


def _pulls() -> bytes:
    code = RequestCode.PULL_MESSAGE
    place: dict[str, Value] = {"topic": BACKLOG_TOPIC, "queueId": 0, "queueOffset": 0}
    fields = encode_fields(code, {**PULL, **place})
    return encode_command(RemotingCommand(code, ext_fields=fields)) * AT_ONCE


def _heartbeat(number: int) -> bytes:
    """Return a heartbeat of 150 KB."""
    subscriptions = tuple(
        SubscriptionData(f"BenchRead{topic}", "x" * EXPRESSION_LETTERS)
        for topic in range(SUBSCRIPTIONS)
    )
    consumer = ConsumerData(
        f"bench_large_{number}",
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
        subscriptions,
    )
    body = encode_heartbeat(Heartbeat(f"bench@{number}", (), (consumer,)))
    return encode_command(RemotingCommand(RequestCode.HEART_BEAT, body=body))


def _registration(number: int) -> bytes:
    """Return the registration of another broker, of 3.9 MB."""
    topics = [TopicConfig(f"Registered{topic}") for topic in range(REGISTERED_TOPICS)]
    fields: dict[str, Value] = {
        "brokerName": f"other-{number}",
        "brokerAddr": f"192.0.2.1:{number + 1}",
        "clusterName": "Other",
        "brokerId": 0,
        "haServerAddr": "192.0.2.1:2",
        "compressed": False,
    }
    code = RequestCode.REGISTER_BROKER
    body = encode_registration(TopicTable({topic.name: topic for topic in topics}))
    request = RemotingCommand(code, version=500, ext_fields=encode_fields(code, fields), body=body)
    return encode_command(request)


REGISTERING, NEVER_READING = "registrations of 3.9 MB", "never reading"
KINDS: dict[str, Callable[[int], bytes]] = {
    "pipelining": lambda _: _offsets(0),
    "one-way": lambda _: _offsets(ONEWAY_FLAG),
    "heartbeats of 150 KB": _heartbeat,
    REGISTERING: _registration,
    NEVER_READING: lambda _: _pulls(),
}
"""What each neighbour sends again and again."""


class Neighbour:
    """A connection that sends the same bytes without an end; one that was closed is made again."""

    def __init__(self, address: tuple[str, int], data: bytes, *, reads: bool) -> None:
        self._address = address
        self._data = self._rest = memoryview(data)
        self._reads = reads
        self.socket = self._connected()

    def _connected(self) -> socket.socket:
        made = socket.socket()
        if not self._reads:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW)
        made.connect(self._address)
        made.setblocking(False)
        return made

    def move(self) -> bool:
        """Send and receive what the peer takes and has; False if the connection was closed."""
        try:
            with contextlib.suppress(BlockingIOError):
                if self._reads and not self.socket.recv(1 << 20):
                    return False
            with contextlib.suppress(BlockingIOError):
                sent = self.socket.send(self._rest[:SEND_BYTES])
                self._rest = self._rest[sent:] or self._data
        except OSError:
            return False
        return True

    def again(self) -> None:
        self.socket.close()
        self._rest = self._data
        self.socket = self._connected()


def _flood(address: tuple[str, int], kind: str, count: int) -> None:
    """Be the neighbours until the process is killed."""
    reads = kind != NEVER_READING
    with selectors.DefaultSelector() as selector:
        # Each large request is made once: 300 of them have no room.
        data: Iterator[bytes] = itertools.cycle([KINDS[kind](one) for one in range(min(count, 10))])
        for _ in range(count):
            one = Neighbour(address, next(data), reads=reads)
            selector.register(one.socket, selectors.EVENT_WRITE, one)
        print("ready", flush=True)
        while True:
            for key, _ in selector.select(0.01):
                one = key.data
                if not one.move():
                    selector.unregister(one.socket)
                    one.again()
                    selector.register(one.socket, selectors.EVENT_WRITE, one)


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    _flood((host, int(port)), sys.argv[2], int(sys.argv[3]))
