"""A table whose owner took rows back, or changed its columns. No run leaves a hole without a word."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.spark.table_rows import COLUMNS, grow, iceberg_table, rows_in, rows_of
from support.stores.live_log import LiveLog

from rmqcore.errors import WatermarkError
from rmqcore.spark.lake import iceberg_table as iceberg_module
from rmqcore.spark.lake.iceberg_table import IcebergLog
from rmqcore.spark.output.job_folder import JOURNAL, TEMPORARY

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("in_process")

FORMATS = ["delta", "iceberg"]
Grow = Callable[..., Any]


def appended(log: LiveLog, count: int) -> None:
    for _ in range(count):
        log.append(tags="TagA")


def version_of(out: Path, format: str) -> Any:
    """The present version of a table, to come back to."""
    if format == "delta":
        import deltalake

        return deltalake.DeltaTable(str(out)).version()
    for table in iceberg_table(out):
        return table.current_snapshot().snapshot_id
    raise AssertionError


def take_back(out: Path, format: str, version: Any) -> None:
    """Restore a table to a version, as its owner does."""
    if format == "delta":
        import deltalake

        deltalake.DeltaTable(str(out)).restore(version)
        return
    for table in iceberg_table(out):
        table.manage_snapshots().set_current_snapshot(snapshot_id=version).commit()


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[LiveLog, Path, str, list[Any]]:
    """A table after three runs, and its version after each."""
    pytest.importorskip("deltalake" if request.param == "delta" else "pyiceberg")
    log, out, versions = LiveLog(tmp_path / "store"), tmp_path / "out", []
    for _ in range(3):
        appended(log, 20)
        grow(f"b={log.root}", out, format=request.param)
        versions.append(version_of(out, request.param))
    return log, out, request.param, versions


@pytest.mark.parametrize("back_to", [0, 1])
def test_rows_that_were_taken_back_are_exported_again(
    table: tuple[LiveLog, Path, str, list[Any]], back_to: int
) -> None:
    log, out, kind, versions = table
    take_back(out, kind, versions[back_to])
    assert len(rows_of(out, kind)) == 20 * (back_to + 1)
    appended(log, 20)
    report = grow(f"b={log.root}", out, format=kind)
    assert report.rows == 20 * (3 - back_to)
    assert rows_of(out, kind) == rows_in(log.root)
    assert grow(f"b={log.root}", out, format=kind).rows == 0


def test_tables_that_are_taken_back_and_forth(
    table: tuple[LiveLog, Path, str, list[Any]],
) -> None:
    """Back to a version that had been restored itself, forward again, and with nothing new since."""
    log, out, kind, versions = table
    take_back(out, kind, versions[1])
    restored = version_of(out, kind)
    take_back(out, kind, versions[2])
    assert grow(f"b={log.root}", out, format=kind).rows == 0
    take_back(out, kind, versions[0])
    take_back(out, kind, restored)
    assert grow(f"b={log.root}", out, format=kind).rows == 20
    assert rows_of(out, kind) == rows_in(log.root)
    appended(log, 5)
    assert grow(f"b={log.root}", out, format=kind).rows == 5
    assert rows_of(out, kind) == rows_in(log.root)


def test_a_table_begun_anew_and_taken_back(table: tuple[LiveLog, Path, str, list[Any]]) -> None:
    log, out, kind, versions = table
    grow(f"b={log.root}", out, format=kind, overwrite=True)
    take_back(out, kind, versions[1])
    assert grow(f"b={log.root}", out, format=kind).rows == 20
    assert rows_of(out, kind) == rows_in(log.root)


def test_rows_of_a_commit_that_the_table_does_not_know_any_more(
    table: tuple[LiveLog, Path, str, list[Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is refused, and with overwrite it begins anew."""
    log, out, kind, _ = table
    if kind == "delta":
        import deltalake

        kept = deltalake.DeltaTable(str(out)).history()[1]["timestamp"]
        take_back(out, kind, datetime.fromtimestamp(kept / 1000, UTC))
    else:
        out = tmp_path / "long"
        monkeypatch.setattr(iceberg_module, "LONGEST_KEPT", 10)
        grow(f"b={log.root}", out, format=kind)
        first = version_of(out, kind)
        appended(log, 20)
        grow(f"b={log.root}", out, format=kind)
        take_back(out, kind, first)
    before = rows_of(out, kind)
    with pytest.raises(WatermarkError, match="were restored to a version before commit"):
        grow(f"b={log.root}", out, format=kind)
    assert rows_of(out, kind) == before
    grow(f"b={log.root}", out, format=kind, overwrite=True)
    assert rows_of(out, kind) == rows_in(log.root)
    assert grow(f"b={log.root}", out, format=kind).rows == 0


# ---- columns ----------------------------------------------------------------------------------------


def rename(out: Path, name: str, new: str) -> None:
    for table in iceberg_table(out):
        with table.update_schema() as update:
            update.rename_column(name, new)


def test_a_column_that_was_renamed_is_named_before_a_task_runs(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    log, out = LiveLog(tmp_path / "store"), tmp_path / "out"
    appended(log, 20)
    grow(f"b={log.root}", out, format="iceberg")
    rename(out, "tags", "tag")
    appended(log, 20)
    files = sorted(out.rglob("*.parquet"))
    for overwrite in (False, True):
        with pytest.raises(ValueError, match="no longer has the column tags"):
            grow(f"b={log.root}", out, format="iceberg", overwrite=overwrite)
        assert sorted(out.rglob("*.parquet")) == files
        assert not (out / TEMPORARY / JOURNAL).exists()
    rename(out, "tag", "tags")
    assert grow(f"b={log.root}", out, format="iceberg").rows == 20
    assert rows_of(out, "iceberg") == rows_in(log.root)


def test_a_commit_that_waits_for_a_column_is_dropped_with_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyiceberg")
    log, out = LiveLog(tmp_path / "store"), tmp_path / "out"
    appended(log, 20)
    grow(f"b={log.root}", out, format="iceberg")
    appended(log, 20)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    files = sorted(out.rglob("data/*/*.parquet"))
    with monkeypatch.context() as patched:
        patched.setattr(IcebergLog, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            grow(f"b={log.root}", out, format="iceberg")
    assert (out / TEMPORARY / JOURNAL).exists()
    assert len(sorted(out.rglob("data/*/*.parquet"))) > len(files)
    rename(out, "tags", "tag")
    with pytest.raises(ValueError, match=r"no longer has the column tags.*overwrite drops"):
        grow(f"b={log.root}", out, format="iceberg")
    assert (out / TEMPORARY / JOURNAL).exists()
    with pytest.raises(ValueError, match="no longer has the column tags"):
        grow(f"b={log.root}", out, format="iceberg", overwrite=True)
    assert not (out / TEMPORARY / JOURNAL).exists()
    assert sorted(out.rglob("data/*/*.parquet")) == files
    rename(out, "tag", "tags")
    grow(f"b={log.root}", out, format="iceberg", overwrite=True)
    assert rows_of(out, "iceberg") == rows_in(log.root)
    assert grow(f"b={log.root}", out, format="iceberg").rows == 0


def test_a_delta_table_that_lost_a_column(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    log, out = LiveLog(tmp_path / "store"), tmp_path / "out"
    appended(log, 20)
    grow(f"b={log.root}", out, format="delta")
    rows = deltalake.DeltaTable(str(out)).to_pyarrow_table(columns=[*COLUMNS, "day"])
    deltalake.write_deltalake(str(out), rows, mode="overwrite", schema_mode="overwrite")
    appended(log, 20)
    with pytest.raises(ValueError, match=r"no longer has the column .*tags"):
        grow(f"b={log.root}", out, format="delta")
    assert len(rows_of(out, "delta")) == 20
