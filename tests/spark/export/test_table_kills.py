"""Runs and compactions that are killed at any of their steps: no row is lost, none is there twice.

RMQCORE_TABLE_KILLS: how many processes are killed; RMQCORE_TABLE_STRIDE: steps from one death of a run to the next;
RMQCORE_SEED: other steps.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from support.doses import dose
from support.places import python_path
from support.spark.killed_tables import Steps, watch, watch_logs
from support.spark.table_rows import NO_SPARK, grow, rows_in, rows_of
from support.stores.live_log import LiveLog

import rmqcore
from rmqcore import Message
from rmqcore.disk.inside.folder import Folder
from rmqcore.spark.lake.compact import compact
from rmqcore.spark.lake.export_table import table_log
from rmqcore.spark.lake.manifest import read_manifest

pytest.importorskip("pyarrow")

KILLS = dose("RMQCORE_TABLE_KILLS", test=4, verify=20, night=400)
STRIDE = dose("RMQCORE_TABLE_STRIDE", test=5, verify=3, night=1)


class Killed(BaseException):
    """Ends a run as a signal does that nobody catches."""


def stop() -> None:
    raise Killed


def run_killed(at: int, folder: Path, format: Any) -> bool:
    """Run with the death before a step; answer whether it came to its end before."""
    steps = Steps(at, stop)
    with pytest.MonkeyPatch.context() as patch:
        watch(steps, patch.setattr)
        if format != "parquet":
            watch_logs(steps, patch.setattr)
        try:
            grow(f"b={folder / 'store'}", folder / "out", format=format, maxPartitionBytes="2000", splitMode="walk")  # fmt: skip
            if format == "parquet":
                compact(NO_SPARK, folder / "out", target_file_bytes=1 << 16)
        except Killed:
            return False
    return True


def end_of(out: Path, format: str) -> int | None:
    """The watermark in the table; None where there is no table yet."""
    if not out.exists():
        return None
    log = table_log(cast("Any", format))
    with Folder(out) as inside:
        document = read_manifest(inside)[0] if log is None else log.read(inside)
    return document.watermarks["b"].phy_offset if document else None


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "delta", "iceberg"])
def test_a_run_that_dies_before_each_of_its_steps(
    tmp_path: Path, format: str, rng: random.Random
) -> None:
    """The log grows between the runs. Whenever a run died, a reader of the table's log finds what its watermark says."""
    if format != "parquet":
        pytest.importorskip("deltalake")
        pytest.importorskip("pyiceberg")
    log, out = LiveLog(tmp_path / "store"), tmp_path / "out"
    step, came_through, end = rng.randrange(STRIDE), 0, None
    while came_through < 2:
        for number in range(7):
            log.append(["Orders", "a/b"][number % 2])
        came_through += run_killed(step, tmp_path, format)
        step += STRIDE
        end = end_of(out, format)
        if end is not None:
            assert sorted(rows_of(out, format)) == rows_in(tmp_path / "store", end=end)
    assert end == log.end
    assert step > 20


def put(store: Path, first: int, count: int) -> None:
    with rmqcore.open(store, services=False, mapped_file_size_commit_log=1 << 16) as opened:
        messages = [
            Message(f"T{number % 3}", str(number).encode() * 20)
            for number in range(first, first + count)
        ]
        opened.put_many(messages).raise_for_status()


@pytest.mark.slow
def test_processes_that_are_killed_beside_a_store_that_is_written(tmp_path: Path) -> None:
    rng = random.Random(int(os.environ.get("RMQCORE_SEED", "5")))
    put(tmp_path / "store", 0, 100)
    count, ended, kills, most = 100, 0, 0, 40
    environment = os.environ | {"PYTHONPATH": python_path()}
    while kills < KILLS or not ended:
        step = rng.randrange(most) if kills < KILLS else 10**6
        process = subprocess.Popen(
            [sys.executable, "-m", "support.spark.killed_tables", str(tmp_path), "parquet", str(step)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        for _ in range(5):  # while it reads
            put(tmp_path / "store", count, 40)
            count += 40
        told, _ = process.communicate()
        if process.returncode == 0:
            ended += 1
            most = int(told)
        else:
            assert process.returncode == -signal.SIGKILL
            kills += 1
    with pytest.MonkeyPatch.context() as patch:
        watch(Steps(10**6, stop), patch.setattr)
        grow(f"b={tmp_path / 'store'}", tmp_path / "out", maxPartitionBytes="1m")
    found = rows_of(tmp_path / "out")
    assert sorted(found) == rows_in(tmp_path / "store")
    assert sorted(int(body[: len(body) // 20]) for _, _, _, body in found) == [*range(count)]
