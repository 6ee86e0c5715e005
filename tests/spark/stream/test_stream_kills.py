"""Exactly once into Parquet: a query that is stopped and killed while its store is written, rolled and cleaned."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.spark.query_process import Gate, QueryProcess

import rmqcore
from rmqcore import Message

pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="PySpark before 4.2 gives a stream no limits"
)

FILE_SIZE = 16 * 1024
CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "mapped_file_size_consume_queue": 20 * 64,
    "max_hash_slot_num": 16,
    "max_index_num": 64,
}
RECORDS_A_BATCH = 60
RECORDS_A_ROUND = 160
# Each letter is a kill: s and k in the middle of a batch by query.stop() and by SIGKILL, S and K between batches.
LIVES = ("sSsk", "sSsK", "sSsk", "Sssk", "sSsk")[
    : dose("RMQCORE_STREAM_LIVES", test=1, verify=2, night=5)
]
"""The night kills twenty times: five times the process, fifteen times the query."""


class Writer:
    """A broker's store that is open all the time, but for when it is closed and opened again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rng = random.Random(5)
        self.written: list[tuple[int, int, int, str]] = []
        self.deleted = 0
        self.store = rmqcore.open(root, **CONFIG)

    def append(self, count: int) -> None:
        bodies = [f"{len(self.written) + n} {'x' * self.rng.randrange(200)}" for n in range(count)]
        messages = [
            Message("Orders", body.encode(), queue_id=self.rng.randrange(3), tags="TagA")
            for body in bodies
        ]
        result = self.store.put_many(messages)
        result.raise_for_status()
        self.written += [
            (message.queue_id, int(queue_offset), int(phy_offset), body)
            for message, queue_offset, phy_offset, body in zip(
                messages, result.queue_offsets, result.phy_offsets, bodies, strict=True
            )
        ]

    def clean(self, consumed: int) -> None:
        """Delete full files from the front of which every record is in a committed batch."""
        for path in sorted((self.root / "commitlog").iterdir())[:-2]:
            if int(path.name) + FILE_SIZE <= consumed:
                path.unlink()
                self.deleted += 1

    def reopen(self) -> None:
        self.store.close()
        self.store = rmqcore.open(self.root, **CONFIG)


class Checkpoint:
    """What Spark has written down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def planned(self) -> int:
        return self._newest("offsets")

    def committed(self) -> int:
        return self._newest("commits")

    def consumed(self) -> int:
        """CommitLog offset up to which everything is in batches that are done."""
        batch = self.committed()
        if batch < 0:
            return 0
        offset = json.loads((self.folder / "offsets" / str(batch)).read_text().splitlines()[-1])
        return int(offset["stores"]["broker-a"])

    def _newest(self, log: str) -> int:
        names = [path.name for path in (self.folder / log).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)


@pytest.fixture
def gate() -> Any:
    gate = Gate()
    yield gate
    gate.close()


@pytest.mark.slow
@pytest.mark.long
def test_nothing_is_lost_or_repeated(tmp_path: Path, gate: Gate) -> None:
    root = tmp_path / "store"
    writer = Writer(root)
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    options = {"maxRecordsPerTrigger": RECORDS_A_BATCH}
    rng = random.Random(11)

    def new_driver() -> QueryProcess:
        return QueryProcess(tmp_path, f"broker-a={root}", gate, options)

    drivers = [new_driver()]
    unfinished = 0
    try:
        for life in LIVES:
            driver = drivers[-1]
            drivers.append(new_driver())  # its JVM starts while this one works
            for kill in life:
                gate.hold_after(rng.randrange(2) if kill in "sk" else 1 << 30)
                writing = threading.Thread(target=writer.append, args=(RECORDS_A_ROUND,))
                writing.start()
                driver.do("start")
                if kill in "sk":
                    gate.wait_for_task()
                    assert checkpoint.planned() == checkpoint.committed() + 1
                    unfinished += 1
                else:
                    driver.do("rest")
                driver.do("stop") if kill in "sS" else driver.kill()
                gate.hold_after(0)
                gate.let_go()
                writing.join()
                writer.clean(checkpoint.consumed())
            writer.reopen()
        gate.hold_after(1 << 30)
        driver = drivers[-1]
        driver.do("drain")
        driver.do(f"rows {tmp_path / 'rows.json'}")
    finally:
        for driver in drivers:
            driver.close()
        writer.store.close()
    assert unfinished >= 2 * len(LIVES)
    assert writer.deleted >= 2 * len(LIVES)
    rows = [tuple(row) for row in json.loads((tmp_path / "rows.json").read_text())]
    assert sorted(rows, key=lambda row: row[2]) == writer.written
