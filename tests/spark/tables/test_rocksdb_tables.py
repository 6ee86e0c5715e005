"""The tables of queues, of a store that keeps them in RocksDB: the rows are those of the same queues as files."""

from __future__ import annotations

import shutil
from pathlib import Path

import fsspec
import pytest
from support.spark.spark_tables import read_table
from support.stores.rocksdb_queues import in_rocksdb, java_store

import rmqcore

QUEUES = ("topic", "queue_id", "min_offset", "max_offset", "min_phy_offset", "max_phy_offset")


def rows_of(store: Path | str, table: str, **options: object) -> list[dict[str, object]]:
    """The rows without the name of the store."""
    return [
        {name: row[name] for name in row if name != "broker"}
        for row in read_table(store, table=table, **options)
    ]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A store of RocketMQ with a database, and one with queue files made of its log."""
    root = java_store(tmp_path)
    made = shutil.copytree(root, tmp_path / "files")
    shutil.rmtree(made / "consumequeue")
    rmqcore.rebuild(root, tmp_path / "rebuilt", index=False)
    (tmp_path / "rebuilt" / "consumequeue").rename(made / "consumequeue")
    return root, made


@pytest.mark.parametrize("options", [{}, {"topics": "TopicA", "queueIds": "0,2"}])
def test_the_rows_are_those_of_queue_files(
    pair: tuple[Path, Path], options: dict[str, str]
) -> None:
    database, files = pair
    rows = rows_of(database, "consumequeue", **options)
    assert rows == rows_of(files, "consumequeue", **options)
    assert len(rows) == (16 if options else 234)
    one, other = (
        [{name: row[name] for name in QUEUES} for row in rows_of(root, "queues", **options)]
        for root in pair
    )
    assert one == other
    assert len(one) == (2 if options else 62)


def test_a_store_on_another_filesystem(pair: tuple[Path, Path]) -> None:
    database, _ = pair
    memory = fsspec.filesystem("memory")
    memory.put(str(database), "/rocksdb/store", recursive=True)
    url, options = "memory:///rocksdb/store", {"storage.filesystem": "fsspec"}
    try:
        there = rows_of(url, "consumequeue", **options)
        assert there == rows_of(database, "consumequeue")
        assert len(rows_of(url, "queues", **options)) == 62
    finally:
        memory.rm("/rocksdb", recursive=True)


def test_the_directory_of_its_own(pair: tuple[Path, Path]) -> None:
    database, files = pair
    want = rows_of(files, "consumequeue")
    shutil.rmtree(database / "consumequeue")
    shutil.copytree(files / "consumequeue", database / "consumequeue")
    in_rocksdb(database, "consumequeue_rocksdb")
    assert rows_of(database, "consumequeue") == want
