"""`rmqcore serve` against the real broker: sends, batches and pulls in one run, in turns, on the same disk.

Messages have 128 bytes of body. A broker rests (SIGSTOP) while the other is measured. The load comes from a program in C on the
same cores, which checks every answer; a CPU second is one of the broker's process alone.
"""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from bench import broker_peers, build
from bench.broker_loads import (
    BACKLOG_TOPIC,
    FILLING,
    LOADS,
    SYNC_FLUSH,
    TOPIC,
    WOKEN_TOPIC,
    Load,
    Taken,
    first_send_seconds,
    held_share,
    idle_share,
    middle,
    run_load,
    wakes,
)
from bench.broker_servers import Server, java, ours, quiet_logs
from bench.fairness import COUNTS, KINDS, Waits, beside_neighbours
from bench.java_steps import JavaSteps
from bench.report import Row

GROUP = "broker"
ROUNDS = 3
SECONDS = 2.0
WARM_S = 2.5
IDLE_S = 8.0
HELD_PULLS, HELD_CONNECTIONS = 10_000, 20
CLIENT_THREADS = (8, 64)
CLIENT_REQUIRED = 2.0
START_S = 0.5
FIRST_SEND_S = 0.5
WAKE_MS = 1.0
FAIR_P99_MS = 50.0
ANONYMOUS_MIB = 100.0
IDLE_PERCENT = 1.0
BEHIND_S = 1.0
NO_JAVA = "not installed: needs java, javac and mvn"

T = TypeVar("T")
Results = dict[str, dict[str, Taken]]
"""Of each load, what it took by the server's name."""


def broker() -> list[Row]:
    build.program("broker_load")
    build.BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build.BUILD) as name:
        folder = pathlib.Path(name)
        rows, mine = asynchronous(folder)
        return rows + synchronous(folder) + peers(folder, mine)


def asynchronous(folder: pathlib.Path) -> tuple[list[Row], dict[str, Taken]]:
    """All loads under ASYNC_FLUSH; gives our figures too, to compare others with."""
    with ExitStack() as stack:
        server = stack.enter_context(ours(folder / "ours"))
        first = first_send_seconds(server, time.monotonic())
        start = server.start_s
        rows = [
            limit("start to ready line", f"{start * 1e3:.0f} ms", start, START_S, "s"),
            limit("ready line to first SEND_OK", f"{first * 1e3:.0f} ms", first, FIRST_SEND_S, "s"),
        ]
        real = stack.enter_context(java(folder / "java"))
        servers = [server] if real is None else [server, real]
        in_turns(servers, prepare)
        idle, held = while_others_rest(servers, server, lambda: idle_shares(server))
        waiting = f"{HELD_PULLS:,} held pulls"
        rows.append(limit("idle", "no client", idle, IDLE_PERCENT, "% CPU"))
        rows.append(limit(waiting, "nothing comes", held, IDLE_PERCENT, "% CPU"))
        rows.append(woken(servers))
        rows += while_others_rest(servers, server, lambda: fairness(folder))
        results = measured(servers, LOADS)
        for load in LOADS:
            rows += compared(load, results[load.name])
        mine = {load.name: results[load.name][server.name] for load in LOADS}
        rows += limits(mine)
        rows += client_rows(folder, servers)
    return rows, mine


def idle_shares(server: Server) -> tuple[float, float]:
    """What it takes of a core when nobody asks, and when many wait."""
    idle = idle_share(server, IDLE_S)
    return idle, held_share(server, HELD_PULLS, HELD_CONNECTIONS, IDLE_S)


def woken(servers: list[Server]) -> Row:
    """How soon a held pull is answered once a message is sent."""
    took: dict[str, list[float]] = {}
    in_turns(servers, lambda one: took.update({one.name: wakes(one)}))
    text = "; ".join(
        f"{name} p50 {statistics.median(found) * 1e3:.2f} ms, p99 {found[-len(found) // 100 - 1] * 1e3:.2f}"
        for name, found in took.items()
    )
    median_ms = statistics.median(took["rmqcore"]) * 1e3
    return limit("send to the answer of a held pull", text, median_ms, WAKE_MS, "ms")


def fairness(folder: pathlib.Path) -> list[Row]:
    """What a send waits beside neighbours that never pause, of each kind and number; for each kind with new brokers.

    Neighbours of some kinds leave requests in their sockets on which a broker works for half a minute.
    """
    rows = []
    for number, kind in enumerate(KINDS):
        with (
            ours(folder / f"ours-fairness-{number}") as server,
            java(folder / f"java-fairness-{number}") as real,
        ):
            servers = [server] if real is None else [server, real]
            in_turns(servers, prepare_for_neighbours)
            rows += [beside(servers, kind, count) for count in COUNTS]
    return rows


def prepare_for_neighbours(server: Server) -> None:
    prepare_topic(server)
    server.create_topic(BACKLOG_TOPIC)
    run_load(server, FILLING, WARM_S, BACKLOG_TOPIC)
    run_load(server, LOADS[0], WARM_S)


def beside(servers: list[Server], kind: str, count: int) -> Row:
    """A row of one kind and number; a broker that does not answer quickly afterwards is left out of `servers` from then on."""
    waits: dict[str, Waits] = {}
    in_turns(
        list(servers), lambda one: waits.update({one.name: beside_neighbours(one, kind, count)})
    )
    servers[1:] = [one for one in servers[1:] if waits[one.name].settled]
    text = "; ".join(f"{name} {one}" for name, one in waits.items())
    name = f"fairness: a send beside {count} neighbour{'s' * (count > 1)}, {kind}"
    return limit(name, text, waits["rmqcore"].p99_ms, FAIR_P99_MS, "ms")


def synchronous(folder: pathlib.Path) -> list[Row]:
    """Sends that are answered once they are on the disk."""
    with (
        ours(folder / "ours-sync", flushDiskType="SYNC_FLUSH") as server,
        java(folder / "java-sync", flushDiskType="SYNC_FLUSH") as real,
    ):
        servers = [server] if real is None else [server, real]
        in_turns(servers, prepare_topic)
        in_turns(servers, lambda one: run_load(one, SYNC_FLUSH, WARM_S))
        return compared(SYNC_FLUSH, measured(servers, (SYNC_FLUSH,))[SYNC_FLUSH.name])


def in_turns(servers: list[Server], work: Callable[[Server], object]) -> None:
    for server in servers:
        while_others_rest(servers, server, lambda: work(server))  # noqa: B023 called at once


def while_others_rest(servers: list[Server], server: Server, work: Callable[[], T]) -> T:
    """Do something with a server while all others rest."""
    with ExitStack() as stack:
        for other in servers:
            if other is not server:
                stack.enter_context(other.resting())
        return work()


def prepare_topic(server: Server) -> None:
    server.create_topic(TOPIC)


def prepare(server: Server) -> None:
    """Make the topics and what is pulled, and warm it up: the real one compiles what it does often."""
    prepare_topic(server)
    server.create_topic(BACKLOG_TOPIC)
    server.create_topic(WOKEN_TOPIC)
    run_load(server, FILLING, WARM_S, BACKLOG_TOPIC)
    for load in LOADS:
        run_load(server, load, WARM_S if server.name == "Java" else WARM_S / 5)


def measured(servers: list[Server], loads: tuple[Load, ...]) -> Results:
    taken: dict[str, dict[str, list[Taken]]] = {
        load.name: {server.name: [] for server in servers} for load in loads
    }
    for _ in range(ROUNDS):
        for load in loads:
            found = taken[load.name]
            in_turns(servers, lambda one: found[one.name].append(run_load(one, load, SECONDS)))  # noqa: B023
    return {
        name: {server: middle(runs) for server, runs in found.items()}
        for name, found in taken.items()
    }


def compared(load: Load, found: dict[str, Taken]) -> list[Row]:
    """A row for messages a second, and one for messages a CPU second."""
    mine, real = found["rmqcore"], found.get("Java")
    rates = f"{kilo(mine.rate)}, {latency(mine)}"
    a_cpu_second = kilo(mine.a_cpu_second)
    if real is None:
        return [
            Row(GROUP, f"{load.name}: messages a second", f"{rates}; Java {NO_JAVA}"),
            Row(GROUP, f"{load.name}: messages a CPU second", f"{a_cpu_second}; Java {NO_JAVA}"),
        ]
    rates += f"; Java {kilo(real.rate)}, {latency(real)}"
    a_cpu_second += f", Java {kilo(real.a_cpu_second)}"
    ratios = mine.rate / real.rate, mine.a_cpu_second / real.a_cpu_second
    return [
        Row(GROUP, f"{load.name}: messages a second", rates, ratios[0], load.required),
        Row(
            GROUP,
            f"{load.name}: messages a CPU second",
            a_cpu_second,
            ratios[1],
            load.required_a_cpu_second,
        ),
    ]


def limits(mine: dict[str, Taken]) -> list[Row]:
    """What must not grow under any load."""
    behind = max(mine, key=lambda name: mine[name].behind_s)
    memory = max(mine, key=lambda name: mine[name].anonymous_mib)
    most_behind, most_memory = mine[behind].behind_s, mine[memory].anonymous_mib
    return [
        limit(
            "dispatch behind at the end of a load", f"most: {behind}", most_behind, BEHIND_S, "s"
        ),
        limit("anonymous memory", f"most: {memory}", most_memory, ANONYMOUS_MIB, "MiB"),
    ]


def limit(name: str, measured: str, value: float, most: float, unit: str) -> Row:
    return Row(GROUP, name, measured, value, most, unit, at_most=True)


def client_rows(folder: pathlib.Path, servers: list[Server]) -> list[Row]:
    """The Java client in a process of its own, sending to both in turns."""
    command = build.java_command("ClientSends", "1g", *quiet_logs(folder / "client"))
    if command is None or len(servers) == 1:
        return [Row(GROUP, "the Java client", NO_JAVA)]
    client = JavaSteps(command)
    try:
        rows = []
        for threads in CLIENT_THREADS:
            taken: dict[str, list[Taken]] = {server.name: [] for server in servers}
            for seconds in (WARM_S, *[SECONDS] * ROUNDS):
                in_turns(
                    servers,
                    lambda one: taken[one.name].append(client_step(client, one, threads, seconds)),  # noqa: B023
                )
            mine, real = (middle(taken[server.name][1:]) for server in servers)
            measured = (
                f"{kilo(mine.rate)}, {latency(mine)}; Java {kilo(real.rate)}, {latency(real)}"
            )
            name = f"the Java client, {threads} threads: messages a second"
            rows.append(Row(GROUP, name, measured, mine.rate / real.rate, CLIENT_REQUIRED))
        return rows
    finally:
        client.stop()


def client_step(client: JavaSteps, server: Server, threads: int, seconds: float) -> Taken:
    cpu = server.cpu_seconds()
    answer = client.ask(server.namesrv, TOPIC, threads, seconds, 128)
    if len(answer) != 5:
        raise RuntimeError(f"the Java client has failed against {server.name}")
    cpu = max(server.cpu_seconds() - cpu, 0.01)
    sent, took = int(answer[0]), float(answer[1])
    p50_us, p99_us, worst_us = (int(nanos) / 1e3 for nanos in answer[2:])
    return Taken(sent / took, sent / cpu, p50_us, p99_us, worst_us)


def peers(folder: pathlib.Path, mine: dict[str, Taken]) -> list[Row]:
    """Redis streams and JetStream under the loads that they can take."""
    loads = [load for load in LOADS if load.mode == "send"]
    rows = []
    for name, run, must_win in (
        ("Redis streams", broker_peers.redis, {"4 connections, window 32"}),
        ("NATS JetStream", broker_peers.jetstream, {load.name for load in loads}),
    ):
        try:
            found = run(folder / name.split()[0], loads, SECONDS)
        except (OSError, subprocess.CalledProcessError) as error:
            rows.append(Row(GROUP, f"above {name}", f"it does not run: {error}", failed=True))
            continue
        if found is None:
            rows.append(Row(GROUP, f"above {name}", "not installed"))
            continue
        for load in loads:
            other, own = found[load.name], mine[load.name]
            measured = f"{kilo(own.rate)}; {name} {kilo(other.rate)} ({kilo(other.a_cpu_second)} a CPU second), {latency(other)}"
            required = 1.0 if load.name in must_win else None
            rows.append(
                Row(GROUP, f"{load.name}: above {name}", measured, own.rate / other.rate, required)
            )
    return rows


def kilo(rate: float) -> str:
    return f"{rate / 1e3:.1f} k" if rate < 1e6 else f"{rate / 1e6:.2f} M"


def latency(taken: Taken) -> str:
    return f"p50 {taken.p50_us / 1e3:.2g} ms, p99 {taken.p99_us / 1e3:.2g}, worst {taken.worst_us / 1e3:.3g}"
