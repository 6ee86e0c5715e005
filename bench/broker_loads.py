"""What is asked of a broker, and what the answers took: the loads of `broker_benches`, each checked and counted."""

from __future__ import annotations

import dataclasses
import json
import select
import socket
import statistics
import subprocess
import time
from typing import Self

from bench import build
from bench.broker_servers import QUEUES, Server
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.request_fields import Value, encode_fields

TOPIC, BACKLOG_TOPIC, FIRST_TOPIC = "BenchTopic", "BenchBacklog", "BenchFirst"
WOKEN_TOPIC, WAKES, HELD_S = "BenchWoken", 300, 0.005
DISPATCH_S = 60.0
ANSWER_S = 30.0
PULL: dict[str, Value] = {
    "consumerGroup": "bench_c",
    "topic": TOPIC,
    "maxMsgNums": 32,
    "sysFlag": 6,  # it may be held, and brings its own subscription
    "commitOffset": 0,
    "suspendTimeoutMillis": 120_000,
    "subscription": "*",
    "subVersion": 0,
    "expressionType": "TAG",
}


@dataclasses.dataclass(frozen=True)
class Load:
    """Connections, each with a window of unanswered requests; and what multiples of Java's broker it is to reach."""

    name: str
    connections: int
    window: int
    required: float
    required_a_cpu_second: float | None
    mode: str = "send"
    count: int = 1


LOADS = (
    Load("1 connection, window 1", 1, 1, 5, 8),
    Load("16 connections, window 1", 16, 1, 3, 4),
    Load("64 connections, window 1", 64, 1, 3, 4),
    Load("4 connections, window 32", 4, 32, 10, 10),
    Load("batches of 32", 4, 8, 2.5, 2.5, "batch", 32),
    Load("batches of 100", 4, 8, 2.5, 2.5, "batch", 100),
    Load("pulls of 32", 4, 8, 3, 4, "pull", 32),
)
FILLING = Load("messages to pull", 4, 8, 0, None, "batch", 100)
SYNC_FLUSH = Load("SYNC_FLUSH, 64 connections", 64, 1, 1, None)


@dataclasses.dataclass(frozen=True)
class Taken:
    """What one run of a load took."""

    rate: float
    a_cpu_second: float
    p50_us: float
    p99_us: float
    worst_us: float
    behind_s: float = 0.0
    """How many seconds of this load were not dispatched when the last answer came."""
    anonymous_mib: float = 0.0


def middle(taken: list[Taken]) -> Taken:
    """The medians of several runs; the worst of what must never be bad."""
    values = {
        field.name: statistics.median(getattr(one, field.name) for one in taken)
        for field in dataclasses.fields(Taken)
    }
    for name in ("worst_us", "behind_s", "anonymous_mib"):
        values[name] = max(getattr(one, name) for one in taken)
    return Taken(**values)


def run_load(server: Server, load: Load, seconds: float, topic: str = TOPIC) -> Taken:
    """Put a load on a broker, and count whether the store has what was answered."""
    if load.mode == "pull":
        topic = BACKLOG_TOPIC
    before = server.max_queue_offsets(topic)
    begin_phy_offset = int(server.runtime()["commitLogMaxOffset"])
    cpu = server.cpu_seconds()
    words = [server.port, load.mode, topic, QUEUES, load.connections, load.window, seconds]
    program = build.program("broker_load")
    done = subprocess.run(
        [program, *map(str, [*words, load.count, min(before)])], check=True, stdout=subprocess.PIPE
    )
    runtime = server.runtime()
    wait_dispatched(server)
    cpu = max(server.cpu_seconds() - cpu, 0.01)
    found = json.loads(done.stdout)
    messages = found["messages"]
    stored = sum(server.max_queue_offsets(topic)) - sum(before)
    expected = 0 if load.mode == "pull" else messages
    if stored != expected:
        raise RuntimeError(
            f"{server.name}, {load.name}: {expected} messages answered, {stored} stored"
        )
    written = int(runtime["commitLogMaxOffset"]) - begin_phy_offset
    behind = int(runtime["dispatchBehindBytes"])
    return Taken(
        rate=messages / found["seconds"],
        a_cpu_second=messages / cpu,
        p50_us=found["p50_us"],
        p99_us=found["p99_us"],
        worst_us=found["worst_us"],
        behind_s=behind / written * found["seconds"] if written else 0.0,
        anonymous_mib=server.anonymous_mib(),
    )


def wait_dispatched(server: Server) -> None:
    deadline = time.monotonic() + DISPATCH_S
    while int(server.runtime()["dispatchBehindBytes"]) > 0:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{server.name} dispatches nothing more")
        time.sleep(0.01)


def first_send_seconds(server: Server, ready: float) -> float:
    """From its ready line to the answer to a first send, whose topic is made for it."""
    ask_on(server, plain_send(FIRST_TOPIC, 0))
    return time.monotonic() - ready


def ask_on(server: Server, request: RemotingCommand) -> None:
    with Asking(server) as connection:
        connection.send([request])
        connection.answer(request.opaque)


def idle_share(server: Server, seconds: float) -> float:
    """How much of a core it takes while nobody asks anything, in percent."""
    cpu = server.cpu_seconds()
    time.sleep(seconds)
    return (server.cpu_seconds() - cpu) / seconds * 100


def held_share(server: Server, pulls: int, connections: int, seconds: float) -> float:
    """The same while it holds pulls, each at the end of its queue."""
    ends = server.max_queue_offsets(TOPIC)
    code, asking = RequestCode.PULL_MESSAGE, []
    try:
        for _ in range(connections):
            connection = Asking(server)
            asking.append(connection)
            requests = []
            for number in range(pulls // connections):
                queue_id = number % QUEUES
                place: dict[str, Value] = {"queueId": queue_id, "queueOffset": ends[queue_id]}
                fields = encode_fields(code, {**PULL, **place})
                requests.append(RemotingCommand(code, opaque=number, ext_fields=fields))
            fields = encode_fields(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": 0})
            last = RemotingCommand(RequestCode.GET_MAX_OFFSET, opaque=pulls, ext_fields=fields)
            connection.send([*requests, last])
            connection.answer(pulls)  # the only one: all pulls before it are held
        share = idle_share(server, seconds)
        if any(connection.has_more() for connection in asking):
            raise RuntimeError(f"{server.name} has answered a pull that it was to hold")
    finally:
        for connection in asking:
            connection.close()
    return share


def wakes(server: Server) -> list[float]:
    """Seconds from a send to the answer of a pull that was held for it, in order."""
    begin = server.max_queue_offsets(WOKEN_TOPIC)[0]
    took = []
    with Asking(server) as pulls, Asking(server) as sends:
        for number in range(1, WAKES + 1):
            place: dict[str, Value] = {
                "topic": WOKEN_TOPIC,
                "queueId": 0,
                "queueOffset": begin + number - 1,
            }
            code = RequestCode.PULL_MESSAGE
            fields = encode_fields(code, {**PULL, **place})
            pulls.send([RemotingCommand(code, opaque=number, ext_fields=fields)])
            time.sleep(HELD_S)
            request = plain_send(WOKEN_TOPIC, number)
            start = time.perf_counter()
            sends.send([request])
            pulls.answer(number)
            took.append(time.perf_counter() - start)
            sends.answer(number)
    return sorted(took)


def plain_send(topic: str, opaque: int) -> RemotingCommand:
    code = RequestCode.SEND_MESSAGE_V2
    fields = encode_fields(
        code,
        {
            "producerGroup": "bench_p",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4,
            "queueId": 0,
            "sysFlag": 0,
            "bornTimestamp": int(time.time() * 1000),
            "flag": 0,
            "properties": "",
        },
    )
    return RemotingCommand(code, opaque=opaque, ext_fields=fields, body=bytes(128))


class Asking:
    """A connection of a client."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), ANSWER_S)
        self._decoder = FrameDecoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, requests: list[RemotingCommand]) -> None:
        self._socket.sendall(b"".join(map(encode_command, requests)))

    def answer(self, opaque: int) -> None:
        """Take the next answer, which is to be the one to this request, and to say that it was done."""
        if not self.is_done(opaque):
            raise RuntimeError(f"request {opaque} was refused")

    def is_done(self, opaque: int) -> bool:
        """Take the next answer, which is to be the one to this request; return whether it says that it was done."""
        while (frame := self._decoder.next_frame()) is None:
            data = self._socket.recv(1 << 16)
            if not data:
                raise RuntimeError("the broker has closed the connection")
            self._decoder.feed(data)
        found = decode_command(frame)
        if found.opaque != opaque:
            raise RuntimeError(f"expected the answer to {opaque}, got {found}")
        return found.code == ResponseCode.SUCCESS

    def has_more(self) -> bool:
        if self._decoder.pending:
            return True
        return bool(select.select([self._socket], [], [], 0)[0])
