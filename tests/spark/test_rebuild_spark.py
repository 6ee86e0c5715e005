"""The rebuilds in a real Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from built_store import BuiltStore

from rmqcore.engine.paths import StorePaths
from rmqcore.offline.rebuild import rebuild
from rmqcore.spark.planning import Sizing
from rmqcore.spark.rebuild_queues import rebuild_consume_queues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLEAN = "basic ipv6 batch transaction longtopic compressed propcrc delay lmq".split()


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("case", CLEAN)
def test_queues_are_javas(spark: SparkSession, golden: Path, tmp_path: Path, case: str) -> None:
    store = golden / case / "store"
    sizing = Sizing(max_partition_bytes=100_000, split_mode="walk")
    report = rebuild_consume_queues(spark, str(store), str(tmp_path / "out"), sizing=sizing)
    assert tree(tmp_path / "out" / "consumequeue") == tree(store / "consumequeue")
    assert report.queue_files == len(tree(store / "consumequeue"))


def test_queues_of_a_damaged_log(spark: SparkSession, tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store").fill(60)
    root = store.write()
    begin, end = store.records[20].phy_offset, store.records[21].phy_offset
    store.change_log(begin, b"\x55" * (end - begin))
    expected = rebuild(StorePaths(root), tmp_path / "one", index=False)
    sizing = Sizing(max_partition_bytes=2_000, split_mode="walk")
    report = rebuild_consume_queues(spark, root, tmp_path / "many", sizing=sizing)
    assert tree(tmp_path / "many" / "consumequeue") == tree(tmp_path / "one" / "consumequeue")
    assert report.filled_entries == expected.filled_entries == 1
    assert report.damage == expected.damage
