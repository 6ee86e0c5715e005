"""The rebuilds in a real Spark session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.stores.built_store import BuiltStore
from support.stores.golden_stores import CLEAN

from rmqcore.disk.paths import StorePaths
from rmqcore.errors import NotAStoreError, StoreError, TargetNotEmptyError
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.spark import rebuild_consume_queues, rebuild_index
from rmqcore.spark.rebuild.index_plan import plan_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("case", CLEAN)
def test_queues_are_javas(spark: SparkSession, golden: Path, tmp_path: Path, case: str) -> None:
    store = golden / case / "store"
    options: dict[str, Any] = {"maxPartitionBytes": 100_000, "splitMode": "walk"}
    report = rebuild_consume_queues(spark, str(store), str(tmp_path / "out"), **options)
    assert tree(tmp_path / "out" / "consumequeue") == tree(store / "consumequeue")
    assert report.queue_files == len(tree(store / "consumequeue"))


def test_queues_of_a_damaged_log(spark: SparkSession, tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store").fill(60)
    root = store.write()
    begin, end = store.records[20].phy_offset, store.records[21].phy_offset
    store.change_log(begin, b"\x55" * (end - begin))
    expected = rebuild(StorePaths(root), tmp_path / "one", index=False)
    options: dict[str, Any] = {"maxPartitionBytes": 2_000, "splitMode": "walk"}
    report = rebuild_consume_queues(spark, root, tmp_path / "many", **options)
    assert tree(tmp_path / "many" / "consumequeue") == tree(tmp_path / "one" / "consumequeue")
    assert report.filled_entries == expected.filled_entries == 1
    assert report.damage == expected.damage


@pytest.mark.parametrize("case", ["basic", "delay"])
def test_the_index_is_javas(spark: SparkSession, golden: Path, tmp_path: Path, case: str) -> None:
    store = golden / case / "store"
    options: dict[str, Any] = {"maxPartitionBytes": 100_000, "splitMode": "walk"}
    report = rebuild_index(spark, store, f"file:{tmp_path}/out", **options)
    made = [path.read_bytes() for path in sorted((tmp_path / "out" / "index").iterdir())]
    assert made == [path.read_bytes() for path in sorted((store / "index").iterdir())]
    assert report.index_files == len(made)


def test_an_error_of_the_store_comes_out_as_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first task's file is damaged between counting and building: no traceback of Spark's, and nothing is left."""
    store = BuiltStore(tmp_path / "store").fill(60)
    root = store.write()

    def damaged(*given: Any) -> Any:
        store.change_log(store.records[25].phy_offset, b"\x55" * 100)
        return plan_index(*given)

    monkeypatch.setattr("rmqcore.spark.rebuild.index.plan_index", damaged)
    with pytest.raises(StoreError, match="changed while it was read"):
        rebuild_index(spark, root, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_both_parts_in_one_folder_again_and_again(
    spark: SparkSession, golden: Path, tmp_path: Path
) -> None:
    store, out = golden / "ipv6" / "store", tmp_path / "out"
    seen = []
    for _ in range(2):
        rebuild_consume_queues(spark, store, out)
        rebuild_index(spark, store, out)
        seen.append(tree(out))
        assert sorted(path.name for path in out.iterdir()) == [
            "_SUCCESS", "consumequeue", "index", "manifest.json",
        ]  # fmt: skip
    assert seen[0] == seen[1]


@pytest.mark.parametrize("build", [rebuild_consume_queues, rebuild_index])
def test_what_is_wrong_is_told_before_a_job_starts(
    spark: SparkSession, golden: Path, tmp_path: Path, build: Any
) -> None:
    store = golden / "ipv6" / "store"
    (tmp_path / "mine").write_text("x")
    with pytest.raises(TargetNotEmptyError, match="mine"):
        build(spark, store, tmp_path)
    with pytest.raises(ValueError, match="mounted"):
        build(spark, store, "s3://bucket/out")
    with pytest.raises(NotAStoreError):
        build(spark, tmp_path, tmp_path / "out")
    with pytest.raises(ValueError, match="one store"):
        build(spark, f"{golden}/*/store", tmp_path / "out")
    with pytest.raises(ValueError, match="reads the whole store"):
        build(spark, store, tmp_path / "out", startingPhyOffset=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


DRIVER = """
import glob, os, signal, sys, threading, time
import rmqcore.spark
store, out, pattern = sys.argv[1:]
spark = rmqcore.spark.session("local[2]", conf={"spark.sql.shuffle.partitions": 2})

def watch():
    while not glob.glob(pattern, root_dir=out):
        time.sleep(0.001)  # a file of a task is there for a moment: the kill is to come in it
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=watch, daemon=True).start()
rmqcore.spark.rebuild_consume_queues(spark, store, out)
"""


@pytest.mark.long
def test_a_driver_that_is_killed_while_tasks_write(
    spark: SparkSession, golden: Path, tmp_path: Path
) -> None:
    """Its Java and its workers may go on for a moment, while the next job begins."""
    store, out = golden / "basic" / "store", tmp_path / "out"
    code = [sys.executable, "-c", DRIVER, str(store), str(out), "_temporary/*/*/*"]
    with (tmp_path / "err").open(
        "wb"
    ) as err:  # no pipe: its Java has it too, and would be waited for
        done = subprocess.run(code, check=False, stdout=err, stderr=err, timeout=300)
    assert done.returncode == -signal.SIGKILL, (tmp_path / "err").read_text()
    assert os.listdir(out) == ["_temporary"]
    rebuild_consume_queues(spark, store, out)
    assert sorted(os.listdir(out)) == ["_SUCCESS", "consumequeue", "manifest.json"]
    assert tree(out / "consumequeue") == tree(store / "consumequeue")
