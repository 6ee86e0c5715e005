"""How many files an export makes, and of what size."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore.spark.jobs import export_files
from rmqcore.spark.jobs.export import export_parquet

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)
pytestmark = pytest.mark.usefixtures("in_process")


def filled(root: Path, count: int, body_len: int, topics: int = 1) -> Path:
    store = BuiltStore(root, log_file_size=1 << 20)
    rng = random.Random(1)
    for number in range(count):
        store.put(f"T{number % topics}", number % 3, body=rng.randbytes(body_len))
    store.write_log()
    return root


def parts(out: Path) -> list[Path]:
    return sorted(out.glob("topic_dir=*/day=*/part-*.parquet"))


def test_a_small_topic_has_one_file_whatever_the_number_of_splits(tmp_path: Path) -> None:
    """300,000 rows in 250 topics were 384 files of 62 KB and more: a file for each topic in each split."""
    store = filled(tmp_path / "store", 3000, 100, topics=7)
    options: dict[str, Any] = {"splitMode": "walk", "maxPartitionBytes": 40_000}
    report = export_parquet(NO_SPARK, store, tmp_path / "out", **options)
    assert report.splits > 10
    assert report.files == report.partitions == 7
    for part in parts(tmp_path / "out"):  # in the order of the log
        offsets = pq.ParquetFile(part).read(["phy_offset"])["phy_offset"].to_pylist()
        assert offsets == sorted(offsets)


def test_files_end_at_the_target_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_files, "ROW_GROUP_BYTES", 16 * 1024)
    store = filled(tmp_path / "store", 2000, 1000)
    sizes = {}
    for target in (64 * 1024, 256 * 1024):
        out = tmp_path / str(target)
        report = export_parquet(NO_SPARK, store, out, target_file_bytes=target)
        files = parts(out)
        sizes[target] = [path.stat().st_size for path in files]
        assert max(sizes[target]) < target + 64 * 1024  # a row group and the footer
        assert report.file_bytes == sum(sizes[target])
        rows = [
            row
            for path in files
            for row in pq.ParquetFile(path).read(["phy_offset"])["phy_offset"].to_pylist()
        ]
        assert rows == [message.phy_offset for message in rmqcore.read(store).messages()]
    assert sum(size >= 64 * 1024 for size in sizes[64 * 1024]) > 15
    assert len(sizes[256 * 1024]) < len(sizes[64 * 1024])
    with pytest.raises(ValueError, match="target_file_bytes 1000"):
        export_parquet(NO_SPARK, store, tmp_path / "x", target_file_bytes=1000)


def test_shares_keep_small_topics_whole_and_cut_large_ones() -> None:
    def piece(topic: str, byte_count: int, number: int = 0) -> export_files.WaitingRows:
        return export_files.WaitingRows(topic, 0, f"/f{number}", 0, byte_count)

    pieces = [piece(f"S{number:03}", 10) for number in range(100)]
    pieces += [piece("Large", 50, number) for number in range(100)]
    found = export_files.shares(pieces, target_bytes=100, ratio=4.0)
    assert [one for share in found for one in share] == sorted(pieces, key=lambda one: one.topic)
    assert max(sum(one.byte_count for one in share) for share in found) <= 400
    assert len(found) >= 12
    assert export_files.shares([], 100, 1.0) == []
    assert export_files.shares([piece("T", 10**12)], 100, 1.0) == [(piece("T", 10**12),)]
