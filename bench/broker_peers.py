"""What else keeps messages on a disk, under the same loads: Redis streams, and JetStream of NATS, where they are installed."""

from __future__ import annotations

import contextlib
import csv
import json
import pathlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

from bench import build
from bench.broker_loads import Load, Taken
from bench.broker_servers import cpu_seconds, ended

BODY = 128
START_S = 20.0
PILOT = 2_000
GO = build.BENCH / "go"


def redis(folder: pathlib.Path, loads: list[Load], seconds: float) -> dict[str, Taken] | None:
    """XADD to one stream, with an append-only file that is synced every second, by Redis' own load program."""
    if not all(shutil.which(tool) for tool in ("redis-server", "redis-benchmark")):
        return None
    port = free_port()
    folder.mkdir(parents=True)
    options = f"--port {port} --bind 127.0.0.1 --save --appendonly yes --appendfsync everysec --dir".split()
    options.insert(options.index("--save") + 1, "")
    command = ["redis-server", *options, str(folder)]
    with ended(subprocess.Popen(command, stdout=subprocess.DEVNULL)) as process, listening(port):
        return {load.name: _redis_load(process.pid, port, load, seconds) for load in loads}


def _redis_load(pid: int, port: int, load: Load, seconds: float) -> Taken:
    pilot = _xadds(port, load, PILOT * load.window)[0]
    cpu = cpu_seconds(pid)
    rate, p50_us, p99_us, worst_us = _xadds(port, load, round(pilot * seconds))
    cpu = max(cpu_seconds(pid) - cpu, 0.01)
    return Taken(rate, rate * seconds / cpu, p50_us, p99_us, worst_us)


def _xadds(port: int, load: Load, count: int) -> tuple[float, float, float, float]:
    """Messages a second, and the microseconds of the median, of 99 in 100 and of the slowest."""
    options = f"-p {port} -c {load.connections} -P {load.window} -n {count} --csv".split()
    command = ["redis-benchmark", *options, "XADD", "stream", "*", "body", "x" * BODY]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    values = list(csv.reader(done.stdout.splitlines()))[-1][1:]  # rps, avg, min, p50, p95, p99, max
    rate, _, _, p50, _, p99, worst = map(float, values)
    return rate, p50 * 1e3, p99 * 1e3, worst * 1e3


def jetstream(folder: pathlib.Path, loads: list[Load], seconds: float) -> dict[str, Taken] | None:
    """Publish to a stream of files, by NATS' own client; each message is acknowledged."""
    program = _go_program("jetstream")
    if program is None:
        return None
    folder.mkdir(parents=True)
    port = free_port()
    command = [str(program), "serve", str(folder), str(port)]
    found = {}
    with ended(subprocess.Popen(command, stdout=subprocess.DEVNULL)) as process, listening(port):
        for load in loads:
            words = [program, "load", port, load.connections, load.window, seconds, BODY]
            cpu = cpu_seconds(process.pid)
            done = json.loads(" ".join(build.output([str(word) for word in words])[-1]))
            cpu = max(cpu_seconds(process.pid) - cpu, 0.01)
            rate = done["messages"] / done["seconds"]
            latencies = done["p50_us"], done["p99_us"], done["worst_us"]
            found[load.name] = Taken(rate, done["messages"] / cpu, *latencies)
    return found


def _go_program(name: str) -> pathlib.Path | None:
    """Build a program of ``bench/go``; None where there is no Go. Its modules come from Go's module proxy on first use."""
    go = shutil.which("go")
    if go is None:
        return None
    out = build.BUILD / "bin" / name
    newest = max(path.stat().st_mtime for path in GO.iterdir())
    if not out.exists() or out.stat().st_mtime < newest:
        subprocess.run([go, "build", "-o", str(out), "."], check=True, cwd=GO)
    return out


@contextlib.contextmanager
def listening(port: int) -> Iterator[None]:
    """Wait until somebody listens."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    yield


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port
