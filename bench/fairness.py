"""What a producer that sends one message at a time waits beside neighbours that send without a pause.

As a program it is such a neighbour: ``python -m bench.fairness PORT {oneway,answered}``.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time

from bench.broker_loads import TOPIC, Asking, plain_send
from bench.broker_servers import Server
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.header import encode_command
from rmqcore.remoting.request_fields import encode_fields

NEIGHBOURS = {
    "one-way": ("oneway",),
    "answered": ("answered",),
    "4 of both": ("oneway", "answered") * 2,
}
SECONDS = 3.0
AT_ONCE = 5_000


def beside_floods(server: Server) -> dict[str, list[float]]:
    """Return the seconds of each send, in order, beside each kind of neighbours."""
    return {name: _sends(server, kinds) for name, kinds in NEIGHBOURS.items()}


def _sends(server: Server, kinds: tuple[str, ...]) -> list[float]:
    command = [sys.executable, "-m", "bench.fairness", str(server.port)]
    floods = [
        subprocess.Popen([*command, kind], stdout=subprocess.PIPE, text=True) for kind in kinds
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


if __name__ == "__main__":
    _flood(int(sys.argv[1]), sys.argv[2])
