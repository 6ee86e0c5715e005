"""Sends while a consumer reads messages that lie on a slow disk and in no cache.

A control group, which root can make, limits what the broker reads from the disk to 10 MB/s. One producer sends, waits for the
answer and rests half a millisecond; the consumer is a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import rmqcore
from bench import build
from bench.broker_servers import Server, ours
from bench.report import Row
from rmqcore import Message
from rmqcore.client import Producer

BYTES_A_SECOND = 10_000_000
MESSAGES, BODY_BYTES = 400_000, 2000
SECONDS = 8.0
REST_S = 0.0005
REQUIRED_MS = 20.0
GROUP = "cold"
NOT_LIMITED = "not measured: only root can limit the reads of the disk"
OLD, NEW = "old", "new"
CONSUMER = """
import sys, time
from rmqcore.client import PullConsumer
namesrv, topic, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
count, end = 0, time.monotonic() + seconds
with PullConsumer(namesrv, "cold") as consumer:
    consumer.subscribe(topic)
    consumer.poll(timeout=0.2)
    for queue in consumer.assignment():
        consumer.seek(topic, queue.queue_id, 0)
    while time.monotonic() < end:
        count += len(consumer.poll(timeout=0.5))
print(count)
"""


def cold() -> list[Row]:
    """Sends alone, and beside a consumer that waits for the disk."""
    build.BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build.BUILD) as name:
        folder = pathlib.Path(name)
        fill(folder / "store")
        forget(folder)
        with ours(folder) as server, Producer(server.namesrv, group=GROUP) as producer:
            producer.send(OLD, b"x")  # makes the topic known
            alone = times_of_sends(producer, SECONDS / 2)
            with slow_disk(server.process.pid, folder) as limited:
                if not limited:
                    return [Row("cold", "sends", NOT_LIMITED)]
                beside, consumed = with_consumer(server, producer)
    rate = consumed * BODY_BYTES / SECONDS / 1e6
    return [
        Row("cold", "sends alone, p99", told(alone), p99_ms(alone), unit="ms"),
        Row(
            "cold",
            f"sends beside a consumer of {rate:.1f} MB/s from the disk, p99",
            told(beside),
            p99_ms(beside),
            REQUIRED_MS,
            "ms",
            at_most=True,
        ),
    ]


def fill(root: pathlib.Path) -> None:
    """Make a store of old messages, in four queues and in files of which an open reads the last ones only."""
    body = random.Random(1).randbytes(BODY_BYTES)
    with rmqcore.open(root, mapped_file_size_commit_log=128 << 20) as store:
        for _ in range(MESSAGES // 400):
            store.put_many([Message(OLD, body, queue) for queue in range(4) for _ in range(100)])
        assert store.wait_dispatched(120)


def forget(root: pathlib.Path) -> None:
    """Put all files out of the system's cache."""
    for path in root.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def times_of_sends(producer: Producer, seconds: float) -> list[float]:
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        producer.send(NEW, b"x" * 100)
        taken.append(time.perf_counter() - begin)
        time.sleep(REST_S)
    return sorted(taken)


def with_consumer(server: Server, producer: Producer) -> tuple[list[float], int]:
    command = [sys.executable, "-c", CONSUMER, server.namesrv, OLD, str(SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        taken = times_of_sends(producer, SECONDS)
        return taken, int(consumer.communicate()[0])


@contextlib.contextmanager
def slow_disk(pid: int, folder: pathlib.Path) -> Iterator[bool]:
    """Let a process read no faster than `BYTES_A_SECOND` from the disk of a folder; False where that cannot be had."""
    device = folder.stat().st_dev
    disk = f"{os.major(device)}:{os.minor(device) & ~15}"  # of the whole disk, where partitions are 16 apart
    first = pathlib.Path("/sys/fs/cgroup/blkio")
    group = (first if first.is_dir() else first.parent) / "rmqcore-bench"
    try:
        group.mkdir()
    except OSError:
        yield False
        return
    limits = {
        "blkio.throttle.read_bps_device": f"{disk} {BYTES_A_SECOND}",
        "io.max": f"{disk} rbps={BYTES_A_SECOND}",
    }
    try:
        limited = False
        for name, limit in limits.items():
            with contextlib.suppress(OSError):
                (group / name).write_text(limit)
                (group / "cgroup.procs").write_text(str(pid))
                limited = True
                break
        yield limited
    finally:
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(str(pid))
        with contextlib.suppress(OSError):
            group.rmdir()


def p99_ms(taken: list[float]) -> float:
    return taken[len(taken) * 99 // 100] * 1e3


def told(taken: list[float]) -> str:
    middle, worst = taken[len(taken) // 2] * 1e3, taken[-1] * 1e3
    return f"{len(taken)} sends, median {middle:.2f} ms, worst {worst:.1f} ms"
