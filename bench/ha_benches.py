"""Replication: a slave that catches up, sends that wait for one, how far one is behind, and what one costs its master.

Each pair of kinds, ours and Java's, runs on one machine and one disk. `--mib` is the size of the log that a slave gets.
"""

from __future__ import annotations

import pathlib
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench import build
from bench.broker_benches import NO_JAVA, kilo, latency, limit
from bench.broker_loads import (
    FILLING,
    TOPIC,
    WOKEN_TOPIC,
    Asking,
    Load,
    Taken,
    middle,
    plain_send,
    run_load,
)
from bench.broker_servers import Server
from bench.data import Data
from bench.ha_servers import KINDS, end, master, seconds_to, slave
from bench.report import Row
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.header import encode_command

GROUP = "ha"
ROUNDS, SECONDS, WARM_S = 3, 2.0, 2.5
CATCH_UP_REQUIRED = SEND_REQUIRED = 2.0
LAG_MS = 5.0
COST_PERCENT = 10.0
PROBES = 400
TICK_S = 0.002
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 20_000}
SENDS = tuple(Load(f"{n} connections, window 1", n, 1, SEND_REQUIRED, None) for n in (1, 16, 64))
BUSY = Load("4 connections, window 32", 4, 32, 0, None)


def ha(data: Data) -> list[Row]:
    build.program("broker_load")
    build.BUILD.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory(dir=build.BUILD) as name:
        for number, part in enumerate((catching_up, sending, following)):
            folder = pathlib.Path(name, str(number))
            rows += part(folder, data.mib << 20)
            print("\n".join(f"{row.name}: {row.measured}" for row in rows), file=sys.stderr)
    return rows


@contextmanager
def pair(
    kind: str, folder: pathlib.Path, **settings: object
) -> Iterator[tuple[Server, Server] | None]:
    """A master and a slave of one kind, which follows; None where there is no Java."""
    with master(kind, folder / "master", **settings) as leads:
        if leads is None:
            yield None
            return
        with slave(kind, folder / "slave", leads) as follows:
            begin(leads, [follows])
            yield leads, follows


def begin(leads: Server, slaves: list[Server]) -> None:
    """Make the topic, and wait until all slaves have a first message."""
    leads.create_topic(TOPIC)
    leads.create_topic(WOKEN_TOPIC)
    with Asking(leads) as connection:
        connection.send([plain_send(TOPIC, 1)])
        deadline = time.monotonic() + 60
        while any(end(one) < end(leads) or end(leads) == 0 for one in slaves):
            if time.monotonic() > deadline:
                raise RuntimeError(f"no slave follows {leads.name}")
            time.sleep(0.05)


# ---- a slave that catches up


def catching_up(folder: pathlib.Path, size: int) -> list[Row]:
    """Both kinds of slaves rest while a log grows; then each gets what it lacks, the other one at rest."""
    rates: dict[tuple[str, str], float] = {}
    for kind in KINDS:
        with ExitStack() as stack:
            leads = stack.enter_context(master(kind, folder / kind / "master"))
            if leads is None:
                break
            slaves = {
                other: stack.enter_context(slave(other, folder / kind / other, leads))
                for other in KINDS
            }
            begin(leads, list(slaves.values()))
            with ExitStack() as resting:
                for one in slaves.values():
                    resting.enter_context(one.resting())
                while end(leads) < size:
                    run_load(leads, FILLING, SECONDS)
            # Both go on: the one that is not measured is stopped again at once.
            for other, one in slaves.items():
                with ExitStack() as resting:
                    for beside in slaves.values():
                        if beside is not one:
                            resting.enter_context(beside.resting())
                    got, took = seconds_to(one, end(leads))
                    rates[kind, other] = got / took if took else 0.0
    rows = []
    for (kind, other), rate in rates.items():
        ratio = required = None
        if (kind, other) == ("rmqcore", "rmqcore") and rates.get(("Java", "Java")):
            ratio, required = rate / rates["Java", "Java"], CATCH_UP_REQUIRED
        name = f"catching up {size >> 20} MiB: {kind} to {other}"
        rows.append(Row(GROUP, name, f"{rate / 1e6:.0f} MB/s", ratio, required))
    return rows


# ---- sends that wait for a slave


def sending(folder: pathlib.Path, _size: int) -> list[Row]:
    """A SYNC_MASTER with inSyncReplicas=2 and one slave, of one kind each."""
    found: dict[str, dict[str, Taken]] = {}
    for kind in KINDS:
        with pair(kind, folder / kind, **SYNC) as both:
            if both is None:
                break
            leads, _ = both
            for load in SENDS:
                run_load(leads, load, WARM_S)
            found[kind] = {
                load.name: middle([run_load(leads, load, SECONDS) for _ in range(ROUNDS)])
                for load in SENDS
            }
    rows = []
    for load in SENDS:
        mine = found["rmqcore"][load.name]
        said = f"{kilo(mine.rate)}, {latency(mine)}"
        if "Java" not in found:
            rows.append(Row(GROUP, f"SYNC_MASTER, {load.name}", f"{said}; Java {NO_JAVA}"))
            continue
        real = found["Java"][load.name]
        said += f"; Java {kilo(real.rate)}, {latency(real)}"
        name = f"SYNC_MASTER, {load.name}: messages a second"
        rows.append(Row(GROUP, name, said, mine.rate / real.rate, SEND_REQUIRED))
    return rows


# ---- how far a slave is behind, and what it costs


def following(folder: pathlib.Path, _size: int) -> list[Row]:
    """An ASYNC_MASTER under load, with a slave and without."""
    with pair("rmqcore", folder) as both:
        assert both is not None
        leads, follows = both
        run_load(leads, BUSY, WARM_S)
        alone, beside = [], []
        for _ in range(ROUNDS):
            beside.append(run_load(leads, BUSY, SECONDS))
            seconds_to(follows, end(leads))
            # A slave that is stopped still has its connection: what does not fit in there is not read for it either.
            with follows.resting():
                alone.append(run_load(leads, BUSY, SECONDS))
            seconds_to(follows, end(leads))
        cost = 100 * (1 - middle(beside).a_cpu_second / middle(alone).a_cpu_second)
        rate = middle(beside).rate / 2
        lags = sorted(lags_of(leads, follows, rate))
    p50, p99 = statistics.median(lags) * 1e3, lags[-len(lags) // 100 - 1] * 1e3
    measured = f"p50 {p50:.2f} ms, p99 {p99:.2f}, {kilo(rate)} messages a second"
    shown = f"{kilo(middle(beside).a_cpu_second)} messages a CPU second, alone {kilo(middle(alone).a_cpu_second)}"
    return [
        limit("SEND_OK to a slave that has it, at half load", measured, p99, LAG_MS, "ms"),
        limit("what a slave costs its master", shown, cost, COST_PERCENT, "% CPU"),
    ]


def lags_of(leads: Server, follows: Server, rate: float) -> list[float]:
    """Seconds from SEND_OK until the slave has the message, beside a load of the given messages a second."""
    ended = threading.Event()
    load = threading.Thread(target=paced, args=(leads, rate, ended))
    load.start()
    lags = []
    try:
        queue = follows.max_queue_offsets(WOKEN_TOPIC)[0]
        with Asking(leads) as sends:
            for number in range(1, PROBES + 1):
                sends.send([plain_send(WOKEN_TOPIC, number)])
                sends.answer(number)
                sent = time.perf_counter()
                while queue_end(follows) < queue + number:
                    if time.perf_counter() > sent + 60:
                        raise RuntimeError("the slave does not get a message")
                lags.append(time.perf_counter() - sent)
                time.sleep(TICK_S)
    finally:
        ended.set()
        load.join()
    return lags


def queue_end(server: Server) -> int:
    answer = server.ask(RequestCode.GET_MAX_OFFSET, topic=WOKEN_TOPIC, queueId=0)
    return int(answer.ext_fields["offset"])


def paced(server: Server, rate: float, ended: threading.Event) -> None:
    """Send messages at a given rate until the end, a few each tick; the answers are read and not looked at."""
    count = max(1, round(rate * TICK_S))
    with socket.create_connection(("127.0.0.1", server.port), 30) as line:
        reader = threading.Thread(target=drain, args=(line,))
        reader.start()
        next_at = time.perf_counter()
        burst = b"".join(encode_command(keyed_send(opaque)) for opaque in range(count))
        while not ended.is_set():
            line.sendall(burst)
            next_at += TICK_S
            time.sleep(max(0.0, next_at - time.perf_counter()))
        line.shutdown(socket.SHUT_WR)
        reader.join()


def keyed_send(opaque: int) -> RemotingCommand:
    """A send as clients make it, with a unique key."""
    request = plain_send(TOPIC, opaque)
    request.ext_fields["i"] = f"UNIQ_KEY\x01K{opaque}\x02WAIT\x01true\x02"
    return request


def drain(line: socket.socket) -> None:
    while line.recv(1 << 16):
        pass
