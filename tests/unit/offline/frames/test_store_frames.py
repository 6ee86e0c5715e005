"""Frames of a reader: the rows and columns of `batches`, with times that have a zone."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.stores.odd_records import TIMES_MS, odd_records, write_odd_store

import rmqcore
from rmqcore import StoreReader
from rmqcore._native.scan.batch import PUBLIC_COLUMNS
from rmqcore.offline.frames.columns import FIRST_MS, LAST_MS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
METHODS = ["to_arrow", "to_polars", "to_pandas"]


@pytest.fixture
def reader(golden: Path) -> StoreReader:
    return rmqcore.read(golden / "basic" / "store")


def names_of(frame: pa.Table | pl.DataFrame | pd.DataFrame) -> list[str]:
    return frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)


def test_an_arrow_table_is_what_the_batches_are(reader: StoreReader) -> None:
    found = reader.to_arrow()
    found.validate(full=True)
    expected = pa.table(reader.batches())
    for name in PUBLIC_COLUMNS:
        if name.endswith("timestamp_ms"):
            numbers = found.column(name.removesuffix("_ms")).cast(pa.int64())
            assert numbers.equals(expected.column(name))
        else:
            assert found.column(name).equals(expected.column(name))
            assert found.schema.field(name) == expected.schema.field(name)
    assert found.num_columns == len(PUBLIC_COLUMNS)


def test_times_have_a_zone_and_milliseconds(reader: StoreReader) -> None:
    names = ["store_timestamp", "born_timestamp"]
    assert reader.to_arrow(names).schema.types == [pa.timestamp("ms", "UTC")] * 2
    assert reader.to_polars(names).dtypes == [pl.Datetime("ms", "UTC")] * 2
    assert [str(kind) for kind in reader.to_pandas(names).dtypes] == ["datetime64[ms, UTC]"] * 2
    view = next(iter(reader.messages()))
    expected = EPOCH + timedelta(milliseconds=view.store_timestamp_ms)
    assert reader.to_arrow(names).column(0)[0].as_py() == expected
    assert reader.to_polars(names)["store_timestamp"][0] == expected
    assert reader.to_pandas(names)["store_timestamp"][0] == expected


def test_the_frames_agree(reader: StoreReader) -> None:
    table = reader.to_arrow()
    rows = table.to_pylist()
    assert (
        reader.to_polars().drop("properties").to_dicts()
        == table.drop_columns("properties").to_pylist()
    )
    frame = reader.to_pandas()
    assert frame["properties"].tolist() == [dict(row["properties"]) for row in rows]
    assert frame["keys"].map(list).tolist() == [row["keys"] for row in rows]
    assert frame["body"].tolist() == [row["body"] for row in rows]
    assert frame["queue_offset"].dtype == np.int64


def test_properties_of_polars(reader: StoreReader) -> None:
    """A map from Polars 2 on, a list of structs before."""
    found = reader.to_polars(["properties"])["properties"].to_list()
    expected = [view.properties for view in reader.messages()]
    for got, wanted in zip(found, expected, strict=True):
        pairs = got if isinstance(got, dict) else {pair["key"]: pair["value"] for pair in got}
        assert pairs == wanted


@pytest.mark.parametrize("method", METHODS)
def test_a_frame_takes_columns_and_conditions_of_batches(reader: StoreReader, method: str) -> None:
    columns = ["raw", "store_timestamp_ms", "topic", "store_timestamp", "queue_id"]
    conditions = {
        "topics": ["TopicBasicA"],
        "queue_ids": [1],
        "since_ms": 1700086500000,
        "batch_rows": 7,
    }
    frame = getattr(reader, method)(columns, **conditions)
    assert names_of(frame) == columns
    views = list(reader.messages(topics=["TopicBasicA"], queue_ids=[1], since_ms=1700086500000))
    assert 0 < len(frame) == len(views)
    assert list(map(bytes, frame["raw"].to_pylist() if method == "to_arrow" else frame["raw"])) == [
        view.raw for view in views
    ]
    assert len(getattr(reader, method)(columns, topics=["Nothing"])) == 0
    assert names_of(getattr(reader, method)(columns, topics=["Nothing"])) == columns


def test_no_columns_are_still_rows(reader: StoreReader) -> None:
    assert reader.to_arrow([]).num_rows == 2000


def test_a_time_that_no_calendar_has_is_null(tmp_path: Path) -> None:
    """Polars panicked when it printed such a time, and DuckDB ended the query: one damaged record hid all others."""
    reader = rmqcore.read(write_odd_store(tmp_path))
    columns = ["store_timestamp", "store_timestamp_ms", "born_timestamp", "born_timestamp_ms"]
    table = reader.to_arrow(columns)
    table.validate(full=True)
    assert set(TIMES_MS) < set(table.column("store_timestamp_ms").to_pylist())
    assert table.num_rows == 40 + len(odd_records())
    for row in table.to_pylist():
        for name in ("store_timestamp", "born_timestamp"):
            ms = row[f"{name}_ms"]
            shown = FIRST_MS <= ms <= LAST_MS
            assert row[name] == (EPOCH + timedelta(milliseconds=ms) if shown else None)
    assert reader.to_polars(columns).to_dicts() == table.to_pylist()
    assert "shape" in repr(reader.to_polars(columns).sort("store_timestamp"))
    assert reader.to_pandas(columns)["store_timestamp"].isna().sum() == table.column(0).null_count


def test_damage_is_noted(golden: Path) -> None:
    reader = rmqcore.read(golden / "crash_flipped" / "input")
    for method in METHODS:
        reader.damage = []
        assert len(getattr(reader, method)(["topic"])) == 580
        assert [found.kind for found in reader.damage] == ["crc"]
        assert len(getattr(reader, method)(["topic"], verify_crc=True)) == 579


@pytest.mark.parametrize("method", METHODS)
def test_wrong_columns_are_told(reader: StoreReader, method: str) -> None:
    """The name that was meant was not told, and a text in a list of lists was "unhashable type"."""
    with pytest.raises(ValueError, match=r"unknown column 'when'; .* store_timestamp, born_"):
        getattr(reader, method)(["topic", "when"])
    meant = r"unknown column 'topc' \(did you mean 'topic'\?\), 'Store_time' \(did you mean 'store_timestamp'\?\); known are phy_"
    with pytest.raises(ValueError, match=meant):
        getattr(reader, method)(["topc", "tags", "Store_time"])
    with pytest.raises(ValueError, match=r"unknown column \['topic'\] .*; known are"):
        getattr(reader, method)([["topic"]])
    with pytest.raises(ValueError, match="a name is repeated"):
        getattr(reader, method)(["store_timestamp", "store_timestamp"])
    with pytest.raises(TypeError, match="got the str 'topic'"):
        getattr(reader, method)("topic")
    with pytest.raises(TypeError, match="unexpected keyword argument 'topic'"):
        getattr(reader, method)(topic="TopicBasicA")


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [
        ("to_arrow", "pyarrow", "arrow"),
        ("to_polars", "polars", "polars"),
        ("to_pandas", "pandas", "pandas"),
        ("to_pandas", "pyarrow", "pandas"),
    ],
)
def test_a_missing_library_is_told_with_what_installs_it(
    reader: StoreReader, method: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        getattr(reader, method)()
    assert str(caught.value) == (
        f"{method} needs {package}, which is not installed: pip install 'rmqcore[{extra}]'"
    )
    assert caught.value.name == package


def test_polars_needs_no_pyarrow(reader: StoreReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert reader.to_polars().height == 2000
