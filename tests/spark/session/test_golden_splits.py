"""Every golden log in a real session, each file in 1, 2, 7 (at night 50) splits: tables, jobs give what `rmqcore.read` gives."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.doses import dose
from support.spark.spark_rows import Row, damage_rows, message_rows
from support.stores.golden_stores import CLEAN

import rmqcore
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.spark import (
    export_parquet,
    find,
    rebuild_consume_queues,
    rebuild_index,
    run_audit,
    run_compare,
    topic_stats,
)
from rmqcore.spark.jobs.job_source import JobSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = [1, 2, 7, 50][: dose("RMQCORE_GOLDEN_SPLITS", test=2, verify=3, night=4)]
COLUMNS = (
    "broker",
    "topic",
    "queue_id",
    "queue_offset",
    "phy_offset",
    "msg_size",
    "store_timestamp",
    "tags",
    "keys",
    "uniq_key",
    "body",
    "properties",
    "sys_flag",
    "born_host",
    "crc_ok",
    "_file",
)
LACKING: dict[str, Any] = {"failOnDataLoss": False}
"""One of the stores lacks the last file of its log."""
BIG, SMALL = "128k", "16k"
"""Of the CommitLog files: those of the stores that were closed cleanly, and those of the others."""


@pytest.fixture(scope="module")
def logs(golden: Path) -> dict[str, dict[str, Path]]:
    """Stores by the size of their files, one store for each log: most of the damaged stores differ only in other files."""
    found: dict[str, dict[str, Path]] = {BIG: {}, SMALL: {}}
    seen = set()
    for log in sorted(golden.glob("*/*/commitlog")):
        digest = hashlib.sha256()
        files = sorted(log.iterdir())
        for file in files:
            digest.update(file.name.encode() + file.read_bytes())
        if digest.digest() not in seen:
            seen.add(digest.digest())
            store = log.parent
            size = BIG if files[0].stat().st_size > 100_000 else SMALL
            found[size][f"{store.parent.name}-{store.name}"] = store
    assert {size: len(stores) for size, stores in found.items()} == {BIG: 9, SMALL: 12}
    return found


def cut(size: str, count: int) -> dict[str, Any]:
    whole = int(size[:-1]) * 1024
    return {"splitMode": "walk", "maxPartitionBytes": -(-whole // count)}


def named(stores: dict[str, Path]) -> list[str]:
    return [f"{name}={path}" for name, path in stores.items()]


def by_place(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["broker"], row["phy_offset"]))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", [BIG, SMALL])
def test_messages(
    spark: SparkSession, logs: dict[str, dict[str, Path]], size: str, count: int
) -> None:
    stores, begin = logs[size], start_of(size, count)
    options = cut(size, count) | LACKING | ({"startingPhyOffset": begin} if begin else {})
    frame = rmqcore.spark.read(spark, named(stores), columns=COLUMNS, **options)
    assert count == 1 or partitions(stores, options) > count * len(stores)
    rows = frame.toArrow().to_pylist()
    for row in rows:
        row["properties"] = dict(row["properties"])
    expected = [
        {column: row[column] for column in COLUMNS}
        for name, path in stores.items()
        for row in message_rows(path, name, start_phy_offset=begin)
    ]
    assert by_place(rows) == by_place(expected)
    assert len(rows) > 200


@pytest.mark.parametrize("count", COUNTS)
def test_corrupt(spark: SparkSession, logs: dict[str, dict[str, Path]], count: int) -> None:
    stores, begin = logs[SMALL], start_of(SMALL, count)
    options = cut(SMALL, count) | LACKING | ({"startingPhyOffset": begin} if begin else {})
    frame = rmqcore.spark.read(spark, named(stores), table="corrupt", **options)
    rows = (
        frame.toArrow().to_pylist()
    )  # sorted here: orderBy of Spark would read every split a second time, for a sample
    rows.sort(key=lambda row: (row["broker"], row["start_phy_offset"]))
    expected = [
        {column: row[column] for column in frame.columns}
        for name, path in stores.items()
        for row in damage_rows(path, name, start_phy_offset=begin)
    ]
    assert rows == expected
    assert len(rows) == 9


def start_of(size: str, count: int) -> int:
    """Where to read from: many small files in many splits are 6,000 tasks, and all before the damage is the same in all."""
    return {7: 147_456, 50: 180_224}.get(count, 0) if size == SMALL else 0


def partitions(stores: dict[str, Path], options: dict[str, Any]) -> int:
    return len(JobSource.open(named(stores), options).splits())


# ---- tables that are not cut --------------------------------------------------------------------------


def test_queues_and_segments(spark: SparkSession, logs: dict[str, dict[str, Path]]) -> None:
    stores = {**logs[BIG], **logs[SMALL]}
    tables = {
        table: [
            row.asDict() for row in rmqcore.spark.read(spark, named(stores), table=table).collect()
        ]
        for table in ("queues", "segments")
    }
    for name, path in stores.items():
        found = {
            table: [row for row in rows if row["broker"] == name] for table, rows in tables.items()
        }
        with rmqcore.read(path) as reader:
            for row, queue in zip(found["queues"], reader.queues(), strict=True):
                for field in ("topic", "queue_id", "min_offset", "max_offset"):
                    assert row[field] == getattr(queue, field)
            for row, file in zip(found["segments"], reader.log_files(), strict=True):
                assert (row["file_from_offset"], row["file_size"]) == (
                    file.file_from_offset,
                    file.size,
                )


# ---- jobs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", COUNTS)
def test_jobs(
    spark: SparkSession,
    golden: Path,
    logs: dict[str, dict[str, Path]],
    tmp_path: Path,
    count: int,
) -> None:
    """Over all stores that were closed cleanly, and a damaged one."""
    paths = {**logs[BIG], "flipped": golden / "crash_flipped" / "input"}
    given, options = named(paths), cut(BIG, count)
    messages = {name: list(rmqcore.read(path).messages()) for name, path in paths.items()}
    damage = {name: damage_rows(path, name) for name, path in paths.items()}
    places = sorted((name, message.phy_offset) for name, of in messages.items() for message in of)

    report = run_audit(spark, given, **options)
    assert report.records == len(places)
    assert [(name, damage.start_phy_offset) for name, damage in report.damage] == [
        (name, row["start_phy_offset"]) for name, rows in damage.items() for row in rows
    ]
    assert (report.splits > report.files) == (count > 1)

    counts = Counter(message.topic for of in messages.values() for message in of)
    stats = topic_stats(spark, given, **options).groupBy("topic").sum("messages").collect()
    assert {row[0]: row[1] for row in stats} == counts

    key = messages["basic-store"][3].keys[0]
    rows = find(spark, given, keys=key, **options).collect()
    assert sorted((row["broker"], row["phy_offset"]) for row in rows) == sorted(
        (name, message.phy_offset)
        for name, of in messages.items()
        for message in of
        if key in message.keys
    )

    exported = export_parquet(spark, given, tmp_path / "parquet", **options)
    back = spark.read.parquet(str(tmp_path / "parquet")).select("broker", "phy_offset").collect()
    assert sorted(map(tuple, back)) == places
    assert exported.rows == len(places)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("case", CLEAN)
def test_rebuilds(spark: SparkSession, golden: Path, tmp_path: Path, case: str, count: int) -> None:
    store, options = golden / case / "store", cut(BIG, count)
    rebuild_consume_queues(spark, store, tmp_path / "out", **options)
    rebuild_index(spark, store, tmp_path / "out", **options)
    assert tree(tmp_path / "out" / "consumequeue") == tree(store / "consumequeue")
    rebuild(StorePaths(store), tmp_path / "one", queues=False)
    made, expected = tree(tmp_path / "out" / "index"), tree(tmp_path / "one" / "index")
    assert list(made.values()) == list(expected.values())


def test_compare(spark: SparkSession, golden: Path) -> None:
    """Two copies of one log, in one of which a byte was flipped."""
    left, right = golden / "crash_running_copy" / "input", golden / "crash_flipped" / "input"
    assert run_compare(spark, left, left).differences == []
    (found,) = run_compare(spark, left, right).differences
    (flipped,) = damage_rows(right)
    assert found.start_phy_offset == flipped["start_phy_offset"]
    assert found.end_phy_offset == flipped["end_phy_offset"]


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
