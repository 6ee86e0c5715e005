"""What a producer that sends one message at a time waits beside neighbours that send without a pause.

As a program it is such a neighbour: ``python -m bench.fairness PORT {oneway,answered,registering}``.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time

from bench.broker_loads import TOPIC, Asking, plain_send
from bench.broker_servers import Server
from rmqcore.remoting.bodies.topic_configs import TopicConfig, TopicTable, encode_registration
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.header import encode_command
from rmqcore.remoting.request_fields import Value, encode_fields

NEIGHBOURS = {
    "one-way": ("oneway",),
    "answered": ("answered",),
    "4 of both": ("oneway", "answered") * 2,
    "registrations of 3.9 MB": ("registering",),
}
REGISTERED_TOPICS = 23_500
SECONDS = 3.0
AT_ONCE = 5_000


def beside_floods(server: Server) -> dict[str, list[float]]:
    """Return the seconds of each send, in order, beside each kind of neighbours."""
    return {name: _sends(server, kinds) for name, kinds in NEIGHBOURS.items()}


def _sends(server: Server, kinds: tuple[str, ...]) -> list[float]:
    command = [sys.executable, "-m", "bench.fairness"]
    ports = {"registering": server.namesrv.rpartition(":")[2]}
    floods = [
        subprocess.Popen(
            [*command, ports.get(kind, str(server.port)), kind], stdout=subprocess.PIPE, text=True
        )
        for kind in kinds
    ]
    try:
        for flood in floods:
            assert flood.stdout is not None
            flood.stdout.readline()  # it has begun
        took: list[float] = []
        end = time.monotonic() + SECONDS
        with Asking(server) as victim:
            while time.monotonic() < end:
                start = time.perf_counter()
                victim.send([plain_send(TOPIC, len(took))])
                victim.answer(len(took))
                took.append(time.perf_counter() - start)
    finally:
        for flood in floods:
            flood.kill()
            flood.communicate()
    return sorted(took)


def _flood(port: int, kind: str) -> None:
    """Ask for offsets until the process is killed, and read the answers."""
    code = RequestCode.QUERY_CONSUMER_OFFSET
    fields = encode_fields(
        code, {"consumerGroup": "bench_c", "topic": TOPIC, "queueId": 0, "setZeroIfNotFound": False}
    )
    flag = ONEWAY_FLAG if kind == "oneway" else 0
    data = encode_command(RemotingCommand(code, flag=flag, ext_fields=fields)) * AT_ONCE
    with socket.create_connection(("127.0.0.1", port)) as connection:
        print("floods", flush=True)
        connection.setblocking(False)
        rest = memoryview(data)
        while True:
            with contextlib.suppress(BlockingIOError):
                connection.recv(1 << 20)
            try:
                rest = rest[connection.send(rest) :] or memoryview(data)
            except BlockingIOError:
                time.sleep(0.0001)


def _register(port: int) -> None:
    """Register the topics of another broker until the process is killed."""
    topics = [TopicConfig(f"Registered{number}") for number in range(REGISTERED_TOPICS)]
    who: dict[str, Value] = {
        "brokerName": "other",
        "brokerAddr": "192.0.2.1:1",
        "clusterName": "Other",
    }
    fields: dict[str, Value] = {
        **who,
        "brokerId": 0,
        "haServerAddr": "192.0.2.1:2",
        "compressed": False,
    }
    code = RequestCode.REGISTER_BROKER
    body = encode_registration(TopicTable({topic.name: topic for topic in topics}))
    request = RemotingCommand(code, version=500, ext_fields=encode_fields(code, fields), body=body)
    data = encode_command(request)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        print("registers", flush=True)
        while True:
            connection.sendall(data)
            size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
            connection.recv(size, socket.MSG_WAITALL)


if __name__ == "__main__":
    if sys.argv[2] == "registering":
        _register(int(sys.argv[1]))
    _flood(int(sys.argv[1]), sys.argv[2])
