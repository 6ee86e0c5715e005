"""Tables through a real session, and what other programs do with a table between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.spark.table_rows import grow, iceberg_table, rows_in, rows_of
from support.stores.live_log import LiveLog

import rmqcore.spark
from rmqcore.errors import TargetNotEmptyError
from rmqcore.spark.lake.manifest import table_files

pq = pytest.importorskip("pyarrow.parquet")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def filled(root: Path, count: int) -> LiveLog:
    log = LiveLog(root, file_size=1 << 16)
    more(log, count)
    return log


def more(log: LiveLog, count: int) -> None:
    for number in range(count):
        log.append(["Orders", "007", "a/b"][number % 3], b"x" * 50)


def test_a_table_that_grows_and_is_compacted(spark: SparkSession, tmp_path: Path) -> None:
    log = filled(tmp_path / "store", 900)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    options: dict[str, Any] = {"maxPartitionBytes": 20_000, "splitMode": "walk"}
    for count in (0, 1, 700, 3):
        more(log, count)
        report = rmqcore.spark.export_table(spark, store, out, **options)
        assert report.exit_code == 0
    assert len(table_files(out)) == 12 - 3 + 1
    compacted = rmqcore.spark.compact(spark, out)
    assert (compacted.files_before, compacted.files_after) == (10, 3)
    expected = rows_in(tmp_path / "store")
    assert sorted(rows_of(out)) == expected
    frame = spark.read.parquet(str(out)).select("broker", "phy_offset", "topic", "body")
    assert sorted((*row[:3], bytes(row[3])) for row in frame.collect()) == expected
    duckdb = pytest.importorskip("duckdb")
    files = f"read_parquet('{out}/*/*/*.parquet')"
    found = duckdb.sql(f"select broker, phy_offset, topic, body from {files}").fetchall()
    assert sorted(found) == expected


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_tables_of_other_formats(spark: SparkSession, tmp_path: Path, format: Any) -> None:
    pytest.importorskip("deltalake" if format == "delta" else "pyiceberg")
    log = filled(tmp_path / "store", 300)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    for count in (0, 200, 0):
        more(log, count)
        rmqcore.spark.export_table(spark, store, out, format=format)
    assert rows_of(out, format) == rows_in(tmp_path / "store")


def test_delta_is_compacted_vacuumed_and_read_by_others(tmp_path: Path, in_process: None) -> None:
    """The watermark stays when others commit to the table, and when its log is a checkpoint."""
    deltalake = pytest.importorskip("deltalake")
    log = filled(tmp_path / "store", 30)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    for number in range(12):
        more(log, 10)
        grow(store, out, format="delta")
        if number % 4 == 1:
            assert deltalake.DeltaTable(str(out)).optimize.compact()["numFilesAdded"] == 1
            deltalake.DeltaTable(str(out)).create_checkpoint()
        if number % 4 == 2:
            table = deltalake.DeltaTable(str(out))
            table.vacuum(0, enforce_retention_duration=False, dry_run=False)
            table.cleanup_metadata()
    assert rows_of(out, "delta") == rows_in(tmp_path / "store")
    table = deltalake.DeltaTable(str(out))
    found = table.to_pyarrow_dataset().to_table(columns=["topic", "day"])
    assert set(found["topic"].to_pylist()) == {"Orders", "007", "a/b"}
    assert {day.isoformat() for day in found["day"].to_pylist()} == {"2023-11-14"}
    orders = table.to_pyarrow_table(filters=[("topic", "=", "Orders")], columns=["phy_offset"])
    wanted = [row[1] for row in rows_in(tmp_path / "store") if row[2] == "Orders"]
    assert sorted(orders["phy_offset"].to_pylist()) == wanted
    first = table.get_add_actions(flatten=True)
    assert all(least >= 0 for least in first["min.phy_offset"].to_pylist())


def test_iceberg_in_a_catalog_of_the_caller(tmp_path: Path, in_process: None) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    log = filled(tmp_path / "store", 30)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    catalog = SqlCatalog("own", uri=f"sqlite:///{tmp_path}/own.db", warehouse=str(tmp_path))
    given: dict[str, Any] = {"format": "iceberg", "catalog": catalog, "identifier": "logs.orders"}
    for _ in range(3):
        more(log, 10)
        grow(store, out, **given)
    table = catalog.load_table("logs.orders")
    found = table.scan(row_filter="topic = '007'", selected_fields=("phy_offset",)).to_arrow()
    wanted = [row[1] for row in rows_in(tmp_path / "store") if row[2] == "007"]
    assert sorted(found["phy_offset"].to_pylist()) == wanted
    assert len(list(table.scan(row_filter="topic = '007'").plan_files())) == 3
    assert len(list(table.scan().plan_files())) == 9
    with pytest.raises(TargetNotEmptyError, match=r"has logs\.orders at"):
        grow(store, tmp_path / "elsewhere", **given)
    catalog.create_table("logs.theirs", table.schema(), location=str(tmp_path / "theirs"))
    with pytest.raises(TargetNotEmptyError, match="that rmqcore did not create"):
        grow(store, tmp_path / "theirs", **given | {"identifier": "logs.theirs"})
    catalog.close()


def test_iceberg_has_a_metadata_file_that_others_open(tmp_path: Path, in_process: None) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.table import StaticTable

    filled(tmp_path / "store", 30)
    grow(f"b={tmp_path / 'store'}", tmp_path / "out", format="iceberg")
    for table in iceberg_table(tmp_path / "out"):
        opened = StaticTable.from_metadata(table.metadata_location)
        assert opened.scan().count() == 30


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_no_warning_of_a_library_reaches_the_user(
    tmp_path: Path, in_process: None, caplog: pytest.LogCaptureFixture, format: str
) -> None:
    """A warning was logged by pyiceberg for each file and column without least and greatest values."""
    pytest.importorskip("deltalake" if format == "delta" else "pyiceberg")
    filled(tmp_path / "store", 30)
    for overwrite in (False, True):
        grow(f"b={tmp_path / 'store'}", tmp_path / "out", format=format, overwrite=overwrite)
    assert caplog.text == ""
