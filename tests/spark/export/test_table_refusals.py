"""What a run refuses: another log behind the watermark, rows that are gone, a folder that is no such table, other options."""

from __future__ import annotations

import json
import logging
import shutil
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, cast

import pytest
from support.spark.table_rows import NO_SPARK, grow, rows_in, rows_of
from support.stores.live_log import LiveLog

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import (
    DataLossError,
    SparkMissingError,
    StoreFormatError,
    StoreLockedError,
    TargetNotEmptyError,
    WatermarkError,
)
from rmqcore.spark.jobs.export import export_parquet
from rmqcore.spark.lake.compact import compact
from rmqcore.spark.lake.manifest import table_files
from rmqcore.spark.output.job_folder import lock_folder
from rmqcore.spark.runtime import versions

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("in_process")


def filled(root: Path, count: int, body: bytes = b"body") -> LiveLog:
    log = LiveLog(root)
    for _ in range(count):
        log.append(body=body)
    return log


def test_a_log_that_was_cut_and_written_anew(tmp_path: Path) -> None:
    """A recovery cut records that a table had; those written in their place were taken for the rest of them."""
    log = filled(tmp_path / "store", 50)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    end = grow(store, out).watermarks["b"]
    before = rows_of(out)
    cut = before[40][1]
    last = log.path(end - 1)
    data = last.read_bytes()
    last.write_bytes(data[: cut % 4096] + bytes(4096 - cut % 4096))
    with pytest.raises(WatermarkError, match=f"up to CommitLog offset {end}, but the bytes before"):
        grow(store, out)
    with pytest.raises(WatermarkError):
        grow(store, out, failOnDataLoss=False)
    log.end, log.count = cut, 1000
    for _ in range(30):
        log.append(body=b"other")
    with pytest.raises(WatermarkError, match="cut, repaired or replaced since"):
        grow(store, out)
    assert rows_of(out) == before
    report = grow(store, out, overwrite=True)
    assert report.rows == len(rows_in(tmp_path / "store"))
    assert rows_of(out) == rows_in(tmp_path / "store")


def test_a_log_whose_last_files_are_gone(tmp_path: Path) -> None:
    log = filled(tmp_path / "store", 80)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    grow(store, out)
    log.path(log.end).unlink()
    with pytest.raises(WatermarkError, match=r"but the log ends at \d+: the log was cut"):
        grow(store, out, failOnDataLoss=False)
    for file in (tmp_path / "store" / "commitlog").iterdir():
        file.unlink()
    with pytest.raises(WatermarkError, match="the log has no files"):
        grow(store, out, failOnDataLoss=False)


def test_another_store_in_the_same_place(tmp_path: Path) -> None:
    filled(tmp_path / "store", 30)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    grow(store, out)
    shutil.rmtree(tmp_path / "store")
    filled(tmp_path / "store", 300, b"another")
    with pytest.raises(WatermarkError, match="replaced since"):
        grow(store, out)


def test_a_store_under_another_name(tmp_path: Path) -> None:
    """All of it was exported a second time when a mount, and with it the store's name, changed."""
    filled(tmp_path / "store", 30)
    out = tmp_path / "out"
    grow(f"b={tmp_path / 'store'}", out)
    with pytest.raises(WatermarkError, match=f"use b={tmp_path / 'store'}"):
        grow(f"c={tmp_path / 'store'}", out)
    (tmp_path / "store").rename(tmp_path / "moved")
    with pytest.raises(WatermarkError, match=f"use b={tmp_path / 'moved'}"):
        grow(f"c={tmp_path / 'moved'}", out)
    assert grow(f"b={tmp_path / 'moved'}", out).rows == 0


def test_files_that_were_deleted_before_they_were_exported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path / "store", 10)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    end = grow(store, out).watermarks["b"]
    for _ in range(150):
        log.append()
    expected = rows_in(tmp_path / "store")
    for number in range(2):
        log.path(number * 4096).unlink()
    with pytest.raises(
        DataLossError,
        match=f"CommitLog offset {end} cannot be read, the first one available is offset 8192",
    ):
        grow(store, out)
    with caplog.at_level(logging.WARNING):
        report = grow(store, out, failOnDataLoss=False)
    assert f"CommitLog offset {end} cannot be read" in caplog.text
    ((broker, lost),) = report.damage
    assert (broker, lost.kind, lost.start_phy_offset, lost.end_phy_offset) == (
        "b",
        "missing_file",
        end,
        8192,
    )
    assert lost.path == f"commitlog/{end - end % 4096:020}", "the file that is not there"
    assert report.exit_code == 2
    assert rows_of(out) == [row for row in expected if row[1] < end or row[1] >= 8192]
    assert grow(store, out).rows == 0


def test_files_that_were_deleted_after_they_were_exported(tmp_path: Path) -> None:
    log = filled(tmp_path / "store", 150)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    grow(store, out)
    expected = rows_in(tmp_path / "store")
    while (
        log.end % 4096 > 500
    ):  # the watermark is to be far in the newest file, and near its beginning
        log.append()
    log.path(0).unlink()
    expected += [row for row in rows_in(tmp_path / "store") if row[1] > expected[-1][1]]
    grow(store, out)
    assert rows_of(out) == expected


def test_a_folder_with_other_things(tmp_path: Path) -> None:
    filled(tmp_path / "store", 5)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    export_parquet(NO_SPARK, store, out)
    with pytest.raises(
        TargetNotEmptyError, match="without a record of how far the log was exported"
    ):
        grow(store, out)
    with pytest.raises(TargetNotEmptyError, match="is not a table of export_table"):
        table_files(out)
    with pytest.raises(TargetNotEmptyError, match="without a record of how far"):
        compact(NO_SPARK, out)
    assert grow(store, out, overwrite=True).rows == 5
    assert rows_of(out) == rows_in(tmp_path / "store")
    with pytest.raises(TargetNotEmptyError, match="is not empty"):
        export_parquet(NO_SPARK, store, out)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x.txt").write_text("x")
    with pytest.raises(TargetNotEmptyError, match=r"has x\.txt"):
        grow(store, tmp_path / "mine")
    with pytest.raises(FileNotFoundError):
        compact(NO_SPARK, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_folder_of_another_format(tmp_path: Path, format: str) -> None:
    pytest.importorskip("deltalake" if format == "delta" else "pyiceberg")
    filled(tmp_path / "store", 5)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    grow(store, out, format=format)
    for overwrite in (False, True):
        with pytest.raises(TargetNotEmptyError, match="has a Delta or Iceberg table"):
            grow(store, out, overwrite=overwrite)
        with pytest.raises(TargetNotEmptyError, match="has a Delta or Iceberg table"):
            export_parquet(NO_SPARK, store, out, overwrite=overwrite)
    with pytest.raises(TargetNotEmptyError, match=r"use DeltaTable\(\.\.\.\)\.optimize"):
        compact(NO_SPARK, out)
    with pytest.raises(TargetNotEmptyError, match="table and not empty: it has"):
        grow(store, out, format="iceberg" if format == "delta" else "delta")
    with pytest.raises(ValueError, match="columns differ from those"):
        grow(store, out, format=format, overwrite=True, body="none")
    assert rows_of(out, format) == rows_in(tmp_path / "store")


def test_options_that_differ_from_run_to_run(tmp_path: Path) -> None:
    filled(tmp_path / "store", 5)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    grow(store, out, topics="Orders")
    with pytest.raises(
        ValueError, match=r"topics is \['Other'\], and .* was made with \['Orders'\]"
    ):
        grow(store, out, topics="Other")
    with pytest.raises(ValueError, match="topics is the default"):
        grow(store, out)
    with pytest.raises(ValueError, match="columns is"):
        grow(store, out, topics="Orders", body="none")
    assert grow(store, out, topics="Orders", maxPartitionBytes="1m", minPartitions=4).rows == 0
    for name, value in {
        "endingPhyOffset": 100,
        "endingTimestamp": 100,
        "endingOffsets": {"T": {"b": {"0": 1}}},
        "startingOffsets": "latest",
    }.items():
        with pytest.raises(ValueError, match=name):
            grow(store, out, topics="Orders", **{name: value})
    with pytest.raises(ValueError, match="startingOffsets: latest differs in every run"):
        grow(store, out, startingOffsets={"T": {"b": {"0": -1}}})
    with pytest.raises(ValueError, match="format 'orc'"):
        grow(store, out, format="orc")
    with pytest.raises(ValueError, match="only for Iceberg tables"):
        grow(store, out, identifier="a.b")
    with pytest.raises(ValueError, match=r"expected NAMESPACE\.NAME"):
        grow(store, out, format="iceberg", identifier="b")


def test_conditions_hold_in_every_run(tmp_path: Path) -> None:
    log = filled(tmp_path / "store", 5)
    log.append("Other")
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    start = rows_in(tmp_path / "store")[2][1]
    given = {"topics": "Orders", "startingPhyOffset": start}
    assert grow(store, out, **given).rows == 3
    for topic in ("Other", "Orders", "Other"):
        log.append(topic)
        grow(store, out, **given)
    wanted = [row for row in rows_in(tmp_path / "store") if row[2] == "Orders" and row[1] >= start]
    assert rows_of(out) == wanted


def test_one_run_at_a_time(tmp_path: Path) -> None:
    filled(tmp_path / "store", 5)
    out = tmp_path / "out"
    grow(f"b={tmp_path / 'store'}", out)
    with Folder(out) as other:
        lock_folder(other)
        with pytest.raises(StoreLockedError):
            grow(f"b={tmp_path / 'store'}", out)
        with pytest.raises(StoreLockedError):
            compact(NO_SPARK, out)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"files": [{"place": "../x"}]}, "its files are not those of a table"),
        ({"files": [{"place": "../x", "topic": "T", "day": 1, "rows": 1, "byte_count": 1, "bounds": {}}]}, "files are not those"),
        ({"version": 9}, "is not a version 1 document"),
        ({"commit": -1}, "expected two numbers"),
        ({"watermarks": {"b": {"phy_offset": -1, "root": "/", "seal": None}}}, "is not a watermark"),
        ({"watermarks": {"b": 7}}, "is not a watermark"),
        ({"watermarks": {"b": {"phy_offset": 1, "root": "/", "seal": {"x": 1}}}}, "is not a watermark"),
    ],
)  # fmt: skip
def test_a_manifest_that_somebody_changed(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    filled(tmp_path / "store", 5)
    out = tmp_path / "out"
    grow(f"b={tmp_path / 'store'}", out)
    manifest = json.loads((out / "_manifest.json").read_bytes())
    manifest["table"] |= {name: value for name, value in change.items() if name != "files"}
    manifest |= {name: value for name, value in change.items() if name == "files"}
    (out / "_manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreFormatError, match=told):
        grow(f"b={tmp_path / 'store'}", out)


def test_a_delta_table_whose_document_is_gone(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    filled(tmp_path / "store", 5)
    store, out = f"b={tmp_path / 'store'}", tmp_path / "out"
    grow(store, out, format="delta")
    (document,) = (out / "_rmqcore").iterdir()
    document.write_bytes(document.read_bytes().replace(b'"commit": 1', b'"commit": 2'))
    with pytest.raises(StoreFormatError, match="was changed since it was written"):
        grow(store, out, format="delta")
    document.unlink()
    with pytest.raises(StoreFormatError, match="is missing, which records how far"):
        grow(store, out, format="delta")
    deltalake.write_deltalake(str(tmp_path / "theirs"), pa.table({"a": [1]}))
    with pytest.raises(TargetNotEmptyError, match="that rmqcore did not create"):
        grow(store, tmp_path / "theirs", format="delta")


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(versions, "version", missing)
    with pytest.raises(SparkMissingError, match=r"pip install 'rmqcore\[delta\]'"):
        grow(f"b={tmp_path}", tmp_path / "out", format="delta")
    with pytest.raises(SparkMissingError, match=r"pip install 'rmqcore\[iceberg\]'"):
        grow(f"b={tmp_path}", tmp_path / "out", format=cast("Any", "iceberg"))
