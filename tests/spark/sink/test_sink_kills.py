"""Batch writes and a stream into one folder while drivers and workers are killed: no row is lost, none is there twice.

RMQCORE_SINK_KILLS: how many kills; RMQCORE_SEED: other moments.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from support.doses import dose
from support.places import python_path
from support.spark.killed_writes import ROWS

import rmqcore
from rmqcore import Message
from rmqcore.offline.fsck import fsck
from rmqcore.spark.storage.locations import find_stores

pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="PySpark before 4.2 gives a stream no limits"
)

KILLS = dose("RMQCORE_SINK_KILLS", test=1, verify=2, night=40)
STREAMED = 900
"""Messages that the stream's store gains for each kill."""
LONGEST_S = 4.0
"""From the first write of a driver, or from the kill before, to a kill."""
PATIENCE_S = 240.0


class Driver:
    """A process that writes, with its JVM."""

    def __init__(self, folder: Path, writes: list[int]) -> None:
        self._log = open(folder / "driver.log", "ab")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.spark.killed_writes", str(folder), json.dumps(writes)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            env=os.environ
            | {
                "SPARK_LOCAL_DIRS": str(folder / "local"),
                "TZ": "UTC",
                "PYTHONPATH": python_path(),
            },
        )
        self._told: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("## "):
                self._told.put(line[3:].strip())
        self._told.put("ended")

    def hear(self, seconds: float = PATIENCE_S) -> str | None:
        """What it tells next; None when it tells nothing for so long."""
        try:
            return self._told.get(timeout=seconds)
        except queue.Empty:
            return None

    def workers(self) -> list[int]:
        """The Python processes that Spark has started."""
        parents = {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(status.parent.name)] = int(fields[1])
        ours = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        return sorted(pid for pid in ours if is_daemon(pid) and is_daemon(parents.get(pid, 0)))

    def kill(self) -> None:
        """SIGKILL to driver and JVM. Workers are in a group of their own, and go on until they miss the JVM."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._listener.join(
            PATIENCE_S
        )  # until workers have missed the JVM: they have the same standard output
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


def is_daemon(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def put(store: Path, first: int, count: int) -> None:
    with rmqcore.open(store, services=False) as opened:
        messages = [Message("Stream", str(n).encode()) for n in range(first, first + count)]
        opened.put_many(messages).raise_for_status()


@pytest.mark.slow
@pytest.mark.long
def test_no_row_is_lost_or_twice(tmp_path: Path) -> None:
    seed = int(os.environ.get("RMQCORE_SEED", "4"))
    rng = random.Random(seed)
    writes, asked, streamed = [0], {0}, STREAMED
    put(tmp_path / "store", 0, STREAMED)
    driver = Driver(tmp_path, writes)
    kinds: Counter[str] = Counter()
    try:
        assert driver.hear() == "ready"
        while sum(kinds.values()) < KILLS:
            told: str | None = ""
            moment = time.monotonic() + rng.random() * LONGEST_S  # of the kill: any
            while told is not None and told not in ("done", "ended"):
                told = driver.hear(max(0.0, moment - time.monotonic()))
                if told is not None and told.startswith("wrote"):
                    writes.remove(int(told.split()[1]))
            workers = driver.workers()
            if told is None and workers and rng.random() < 0.5:
                kinds["worker"] += 1
                os.kill(rng.choice(workers), signal.SIGKILL)
                continue
            kinds["driver" if told is None else "idle driver"] += 1
            driver.kill()
            # More to do for the next one.
            writes.append(len(asked))
            asked.add(len(asked))
            put(tmp_path / "store", streamed, STREAMED)
            streamed += STREAMED
            driver = Driver(tmp_path, writes)
            assert driver.hear() == "ready"
        while driver.hear() not in ("done", "ended"):
            pass
    finally:
        driver.close()
    check(tmp_path, asked, streamed)
    (tmp_path / "kinds.json").write_text(json.dumps(kinds))


def check(folder: Path, asked: set[int], streamed: int) -> None:
    found: dict[str, list[int]] = {"Batch": [], "Stream": []}
    stores = find_stores(folder / "out")
    for store in stores:
        assert [one.kind for one in fsck(store.root).findings if one.severity == "error"] == []
        for message in rmqcore.read(store.root).messages():
            found[message.topic].append(int(bytes(message.body)))
    names = json.loads((folder / "out" / "_rmqstore" / "manifest.json").read_text())["writes"]
    assert {int(name.removeprefix("write-")) for name in names} == asked
    assert sorted(found["Stream"]) == [*range(streamed)]
    assert sorted(found["Batch"]) == sorted(
        n for number in asked for n in range(number * ROWS, (number + 1) * ROWS)
    )
    assert len({path.name for path in (folder / "out").glob("part-*")}) == len(stores)
