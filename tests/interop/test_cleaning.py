"""Thirty days of cleaning by RocketMQ and by us: the same files go in the same rounds.

Both have the same messages, the same age of each file, the same hour and equally full disks. Java's clock is the machine's, so
the files get other times there, and `deleteWhen` another hour.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.java_process import JavaProcess
from interop.java_store import JavaStore
from interop.questions import check_offsets
from interop.workload import SIZES, START_MS, Put, ours
from interop.writers import Clock, put_java, put_ours

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore.engine.clean.report import CleanReport

FILE_SIZE = SIZES["mappedFileSizeCommitLog"]
HOUR_MS = 3_600_000
STEP_H = 6
DAYS = 30
RESERVED_H = 72
RULES = {
    "fileReservedTime": RESERVED_H,
    "deleteFileBatchMax": 4,
    "deleteCommitLogFilesInterval": 0,
    "deleteConsumeQueueFilesInterval": 0,
    # What a thread of Java's read when its turn came goes at the end of the same round.
    "redeleteHangedFileInterval": 0,
    "destroyMapedFileIntervalForcibly": 0,
}
LEVELS = (10, 50, 75, 76, 80, 85, 86, 88, 90, 91, 95)


@pytest.fixture(scope="module")
def disk_use(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that says how full the JVM's disks are, in percent."""
    path = tmp_path_factory.mktemp("disk") / "use"
    path.write_text("10")
    return path


@pytest.fixture(scope="module")
def java_on_a_disk(
    tmp_path_factory: pytest.TempPathFactory, disk_use: Path
) -> Iterator[JavaProcess]:
    folder = tmp_path_factory.mktemp("java-on-a-disk")
    shim = folder / "disk_use.so"
    source = Path(__file__).parent / "disk_use.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", shim, source], check=True)
    variables = {"LD_PRELOAD": str(shim), "RMQ_DISK_USE": str(disk_use)}
    with JavaProcess(folder, variables) as process:
        yield process


def log_files(root: Path, end: int) -> list[int]:
    """Where the files begin that hold something."""
    starts = sorted(int(path.name) for path in (root / "commitlog").iterdir())
    return [start for start in starts if start < end]


def queue_files(root: Path) -> list[str]:
    folder = root / "consumequeue"
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


class Pair:
    """One store of each side, with the same messages, and the age of each file."""

    def __init__(self, java: JavaStore, mine: MessageStore, clock: Clock, seed: int) -> None:
        self.java, self.mine, self.clock = java, mine, clock
        self.random = random.Random(seed)
        self.now_ms = START_MS
        self.written_ms: dict[int, int] = {}
        self.number = 0
        self.takes_puts = True

    def write(self, count: int) -> None:
        """Put messages on both sides. While the disk is too full we refuse them; in Java the broker before the store does."""
        if not self.takes_puts:
            assert self.mine.put(Message("T0", b"x")).status.name == "SERVICE_NOT_AVAILABLE"
            return
        puts = []
        for _ in range(count):
            self.number += 1
            # A message a month or so: a queue whose messages have all gone, and one of RocketMQ's own topics.
            rare = {1: "Old", 2: "TBW102", 3: "Old"}.get(self.number % 1000)
            topic = rare or f"T{self.number % 3}"
            message = Message(topic, bytes(900), 0, keys=f"k{self.number}")
            puts.append(Put([message], self.now_ms))
        assert put_ours(self.mine, self.clock, puts) == put_java(self.java, puts)
        self.mine.flush()
        self.java.flush()
        for start in log_files(self.mine.paths.root, self.mine.max_phy_offset):
            newest = start == self.mine.max_phy_offset // FILE_SIZE * FILE_SIZE
            if newest or start not in self.written_ms:
                # Not on a full second of anything: nothing is decided by how long a round takes.
                self.written_ms[start] = self.now_ms - self.random.randrange(60_000, HOUR_MS)

    def set_ages(self) -> None:
        ahead_ms = int(time.time() * 1000) - self.now_ms
        for root, shift in ((self.mine.paths.root, 0), (self.java.path, ahead_ms)):
            for start in log_files(root, self.mine.max_phy_offset):
                when = (self.written_ms[start] + shift) / 1000
                os.utime(root / "commitlog" / f"{start:020}", (when, when))

    def clean(self, percent: int, manual: bool) -> CleanReport:
        """One round on each side."""
        self.set_ages()
        hour = time.localtime(self.now_ms / 1000).tm_hour in (3, 4)
        if manual:
            self.mine.execute_delete_files_manually()
        theirs = self.java.clean(hour=hour, manual=manual)
        report = self.mine.clean_once(now_ms=self.now_ms, disk_ratio=percent / 100)
        assert report.min_phy_offset == theirs["minPhyOffset"]
        self.takes_puts = theirs["writeable"]
        assert (self.mine.stats()["no_puts"] is None) == self.takes_puts
        assert report.kept is None
        return report

    def clean_queues(self) -> int:
        """Delete queues without a message on each side; answer how many went here.

        RocketMQ's ends with a BufferUnderflowException at a queue whose last file is full to its last entry.
        """
        entries = SIZES["mappedFileSizeConsumeQueue"] // 20
        if any(self.mine.max_offset(*place) % entries == 0 for place in self.mine.queues()):
            return 0
        self.java.clean_expired_consume_queues()
        return len(self.mine.clean_expired_consume_queues())

    def check_same(self) -> None:
        end = self.mine.max_phy_offset
        assert log_files(self.mine.paths.root, end) == log_files(self.java.path, end)
        assert queue_files(self.mine.paths.root) == queue_files(self.java.path)
        assert len(os.listdir(self.mine.paths.root / "index")) == len(
            os.listdir(self.java.path / "index")
        )
        check_offsets(self.java.offsets(), self.mine)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thirty_days(
    tmp_path: Path, java_on_a_disk: JavaProcess, disk_use: Path, seed: int
) -> None:
    clock = Clock(START_MS)
    mine_rules: dict[str, Any] = {
        **ours(SIZES),
        "file_reserved_time": RESERVED_H,
        "delete_file_batch_max": 4,
        "delete_commit_log_files_interval": 0,
        "delete_consume_queue_files_interval": 0,
        "delete_when": "03;04",
        "services": False,
    }
    reasons, gone = set(), 0
    levels = random.Random(seed)
    with (
        JavaStore(java_on_a_disk, tmp_path / "java", {**SIZES, **RULES}) as java,
        rmqcore.open(tmp_path / "ours", clock=clock, **mine_rules) as mine,
    ):
        pair = Pair(java, mine, clock, seed)
        percent = 10
        for step in range(DAYS * 24 // STEP_H):
            pair.now_ms = START_MS + (step * STEP_H) * HOUR_MS + 137_000
            pair.write(levels.randrange(0, 70))
            if levels.random() < 0.4:
                percent = levels.choice(LEVELS)
            disk_use.write_text(str(percent))
            for _ in range(levels.choice((1, 1, 2, 3))):
                reasons.add(pair.clean(percent, manual=levels.random() < 0.02).reason)
            pair.check_same()
            if step % 8 == 7:
                gone += pair.clean_queues()
                pair.check_same()
    assert gone
    assert reasons >= {None, "time", "disk", "forced"}
